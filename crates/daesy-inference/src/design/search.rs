//! The search for an input within limits of size and rate, and for the times of samples.

use daesy_estimate::noise::philox::{key, philox};

use super::{Goal, Plan};
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
struct Search<'g, 'd, 'a> {
    goal: &'g Goal<'d, 'a>,
    plan: Plan,
    value: f64,
    n_tried: usize,
}

impl Search<'_, '_, '_> {
    /// Takes a signal in the place of an input if it is better.
    fn try_signal(&mut self, at: usize, signal: Vec<f64>) -> Result<bool, Failure> {
        let mut plan = self.plan.clone();
        plan.inputs[at] = signal;
        let before = self.value;
        Ok(self.try_plan(plan)? < before)
    }

    /// The value of a plan, which is taken if it is better.
    fn try_plan(&mut self, plan: Plan) -> Result<f64, Failure> {
        self.n_tried += 1;
        let value = self.goal.value(&plan)?;
        if value < self.value {
            self.value = value;
            self.plan = plan;
        }
        Ok(value)
    }

    /// Moves samples to other times, over shorter and shorter distances, as long as that makes things better.
    fn sampling(&mut self) -> Result<(), Failure> {
        self.n_tried = 0;
        let n_times = self.plan.times.len();
        let n_samples = self.plan.is_sampled.iter().filter(|is_sampled| **is_sampled).count();
        let mut distance = (n_times / n_samples.max(1)).max(1);
        while distance > 0 {
            let mut has_changed = false;
            let taken: Vec<usize> = (0..n_times).filter(|&at| self.plan.is_sampled[at]).collect();
            for from in taken {
                for to in [from.checked_sub(distance), Some(from + distance)].into_iter().flatten() {
                    if to >= n_times || self.plan.is_sampled[to] || !self.plan.is_sampled[from] || !self.has_time() {
                        continue;
                    }
                    let mut plan = self.plan.clone();
                    plan.is_sampled.swap(from, to);
                    let before = self.value;
                    has_changed |= self.try_plan(plan)? < before;
                }
            }
            if !has_changed {
                distance /= 2;
            }
            if !self.has_time() {
                break;
            }
        }
        Ok(())
    }

    fn has_time(&self) -> bool {
        self.n_tried < MAX_TRIED && !self.goal.designer.loaded.watch.is_stopped()
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
        let mut best = (f64::INFINITY, binary(wanted, 0, self.goal.designer.seed, input));
        for n_pieces in lengths {
            for number in 0..3 {
                let levels = binary(n_pieces, number, self.goal.designer.seed, input);
                let mut plan = self.plan.clone();
                plan.inputs[at] = pieces(&times, &levels, input);
                let value = self.try_plan(plan)?;
                if value < best.0 {
                    best = (value, levels);
                }
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

/// A better plan: inputs of `[design]` one after the other, then the times of the samples.
pub(super) fn better(goal: &Goal<'_, '_>, plan: &Plan) -> Result<Plan, Failure> {
    let designer = goal.designer;
    let mut search = Search { goal, plan: plan.clone(), value: goal.value(plan)?, n_tried: 0 };
    for given in &designer.options.inputs {
        if let Some(at) = designer.names.inputs.iter().position(|input| input.name == given.name) {
            search.input(at, &given.item)?;
        }
    }
    if search.plan.is_sampled.iter().any(|is_sampled| !is_sampled) {
        search.sampling()?;
    }
    Ok(search.plan)
}
