//! The search for an input within limits of size and rate.

use daesy_estimate::noise::philox::{key, philox};
use daesy_pencil::Mat;

use super::{Designer, Plan};
use daesy_study::failure::Failure;
use daesy_study::study::{DesignInput, InputKind};

/// Pieces of an input when nobody says.
const PIECES: usize = 16;

/// Candidates that are looked at for each input at most.
const MAX_TRIED: usize = 160;

/// Steps between the limits, four of equal length: what people do.
pub(super) fn steps(times: &[f64], input: &DesignInput) -> Vec<f64> {
    let n = times.len();
    let level = |at: usize| if (4 * at / n).is_multiple_of(2) { input.max } else { input.min };
    limited(times, &(0..n).map(level).collect::<Vec<_>>(), input)
}

/// Values that follow others as fast as the rate allows.
fn limited(times: &[f64], wished: &[f64], input: &DesignInput) -> Vec<f64> {
    let mut values = Vec::with_capacity(wished.len());
    let mut now = wished[0].clamp(input.min, input.max);
    values.push(now);
    for at in 1..wished.len() {
        let most = input.rate.map_or(f64::INFINITY, |rate| rate * (times[at] - times[at - 1]));
        let change = wished[at].clamp(input.min, input.max) - now;
        now += change.clamp(-most, most);
        values.push(now);
    }
    values
}

/// Pieces of equal length as a signal.
fn pieces(times: &[f64], levels: &[f64], input: &DesignInput) -> Vec<f64> {
    let n = times.len();
    let wished: Vec<f64> = (0..n).map(|at| levels[(at * levels.len() / n).min(levels.len() - 1)]).collect();
    limited(times, &wished, input)
}

/// A random binary sequence of so many pieces.
fn binary(n_pieces: usize, number: u32, seed: u64, input: &DesignInput) -> Vec<f64> {
    let bit = |at: usize| philox([at as u32 / 32, number, n_pieces as u32, 0x6465_7369], key(seed))[0] >> (at % 32) & 1;
    (0..n_pieces).map(|at| if bit(at) == 1 { input.max } else { input.min }).collect()
}

/// A sum of sines of whole numbers of periods in a band, with phases that keep it flat [@schroeder1970].
fn multisine(times: &[f64], band: [usize; 2], input: &DesignInput) -> Vec<f64> {
    let duration = times[times.len() - 1] - times[0];
    let n = band[1] - band[0] + 1;
    let sum = |time: f64| -> f64 {
        let of = |k: usize| {
            let at = (k - band[0] + 1) as f64;
            let phase = -std::f64::consts::PI * at * (at - 1.0) / n as f64;
            (2.0 * std::f64::consts::PI * k as f64 * (time - times[0]) / duration + phase).cos()
        };
        (band[0]..=band[1]).map(of).sum()
    };
    let values: Vec<f64> = times.iter().map(|time| sum(*time)).collect();
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
    let scale = |x: f64| input.min + (input.max - input.min) * (x - low) / (high - low).max(f64::MIN_POSITIVE);
    limited(times, &values.into_iter().map(scale).collect::<Vec<_>>(), input)
}

/// Candidates for one input, and the best of them so far.
struct Search<'d, 'a> {
    designer: &'d Designer<'a>,
    sensors: &'d [bool],
    fixed: &'d Mat<f64>,
    plan: Plan,
    value: f64,
    n_tried: usize,
}

impl Search<'_, '_> {
    /// Takes a signal in the place of an input if it is better.
    fn try_signal(&mut self, at: usize, signal: Vec<f64>) -> Result<bool, Failure> {
        self.n_tried += 1;
        let mut plan = self.plan.clone();
        plan.inputs[at] = signal;
        let mean = self.designer.mean(&plan, self.sensors, &self.designer.theta)?;
        let value = self.designer.value(&(&mean + self.fixed));
        let is_better = value < self.value;
        if is_better {
            self.value = value;
            self.plan = plan;
        }
        Ok(is_better)
    }

    fn has_time(&self) -> bool {
        self.n_tried < MAX_TRIED && !self.designer.loaded.watch.is_stopped()
    }

    /// Exchanges the levels of pieces one by one as long as that makes things better.
    fn exchange(
        &mut self,
        at: usize,
        mut levels: Vec<f64>,
        choices: &[f64],
        input: &DesignInput,
    ) -> Result<(), Failure> {
        let times = self.plan.times.clone();
        self.try_signal(at, pieces(&times, &levels, input))?;
        loop {
            let mut has_changed = false;
            for piece in 0..levels.len() {
                for &level in choices {
                    if level == levels[piece] || !self.has_time() {
                        continue;
                    }
                    let mut other = levels.clone();
                    other[piece] = level;
                    if self.try_signal(at, pieces(&times, &other, input))? {
                        levels = other;
                        has_changed = true;
                    }
                }
            }
            if !has_changed || !self.has_time() {
                return Ok(());
            }
        }
    }

    fn input(&mut self, at: usize, input: &DesignInput) -> Result<(), Failure> {
        let times = self.plan.times.clone();
        let n = times.len();
        self.n_tried = 0;
        if input.kind == InputKind::Multisine {
            let highest = (n / 4).max(2);
            let mut first = 1;
            while first < highest {
                for last in [first, 2 * first, 8 * first, highest] {
                    self.try_signal(at, multisine(&times, [first, last.clamp(first, highest)], input))?;
                }
                first = (first * 3).div_ceil(2).max(first + 1);
            }
            return Ok(());
        }
        // Which length of pieces is best, by some random sequences of each.
        let wanted = input.pieces.unwrap_or(PIECES).clamp(1, n);
        let lengths: Vec<usize> = match input.pieces {
            Some(_) => vec![wanted],
            None => [4, 8, 16, 32, 64, 128, 256].into_iter().filter(|pieces| 2 * pieces <= n).collect(),
        };
        let mut best = (f64::INFINITY, binary(wanted, 0, self.designer.seed, input));
        for n_pieces in lengths {
            for number in 0..3 {
                let levels = binary(n_pieces, number, self.designer.seed, input);
                let signal = pieces(&times, &levels, input);
                let mut plan = self.plan.clone();
                plan.inputs[at].clone_from(&signal);
                let mean = self.designer.mean(&plan, self.sensors, &self.designer.theta)?;
                let value = self.designer.value(&(&mean + self.fixed));
                if value < best.0 {
                    best = (value, levels);
                }
                self.try_signal(at, signal)?;
            }
        }
        match input.kind {
            InputKind::Prbs | InputKind::Multisine => Ok(()),
            InputKind::Steps => self.exchange(at, best.1, &[input.min, input.max], input),
            InputKind::Levels => {
                let middle = 0.5 * (input.min + input.max);
                self.exchange(at, best.1, &[input.min, middle, input.max], input)
            }
        }
    }
}

/// A better plan: inputs of `[design]` one after the other.
pub(super) fn better(
    designer: &Designer<'_>,
    plan: &Plan,
    sensors: &[bool],
    fixed: &Mat<f64>,
) -> Result<Plan, Failure> {
    let mean = designer.mean(plan, sensors, &designer.theta)?;
    let value = designer.value(&(&mean + fixed));
    let mut search = Search { designer, sensors, fixed, plan: plan.clone(), value, n_tried: 0 };
    for given in &designer.options.inputs {
        if let Some(at) = designer.names.inputs.iter().position(|input| input.name == given.name) {
            search.input(at, &given.item)?;
        }
    }
    Ok(search.plan)
}
