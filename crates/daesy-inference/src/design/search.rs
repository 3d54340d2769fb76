//! The search for inputs within limits of size and rate, and for the times of samples.
//!
//! An input of n pieces is searched for from coarse to fine: with n/2 pieces first, then with n, from what was found
//! before. Two pieces where there was one give the same signal, so that twice as many pieces never do worse. At each
//! fineness there are several starts: what was found so far, the plain steps, square waves and random binary sequences.
//! From the best of them on, levels of single pieces and of neighbours are exchanged as long as that makes things
//! better, and the best of all is disturbed and exchanged again. What that costs is bounded: for linear models, where an
//! exchange is cheap (`affine`), generously.

use std::collections::BTreeMap;

use daesy_estimate::noise::philox::{key, philox};

use super::affine::Affine;
use super::{Designer, Goal, Plan};
use daesy_study::failure::Failure;
use daesy_study::study::{DesignInput, InputKind};

/// Pieces of an input at most when nobody says.
const MOST_PIECES: usize = 256;

/// Pieces of a random input when nobody says.
const RANDOM_PIECES: usize = 16;

/// Positions of samples that are looked at, at most.
const MAX_TRIED: usize = 160;

/// Random binary sequences of each fineness that a search begins with, and that are all for `prbs`.
const N_RANDOM: u32 = 3;
const N_RANDOM_ONLY: u32 = 8;

/// Disturbances of the best levels without a gain after which a search ends.
const MAX_IDLE: usize = 30;

/// A smaller gain of a logarithm is none.
const LEAST_GAIN: f64 = 1e-9;

/// Steps between the limits, four of equal length: what people do.
pub(super) fn steps(times: &[f64], input: &DesignInput) -> Vec<f64> {
    limited(times, &plain(times.len(), input), input)
}

fn plain(n: usize, input: &DesignInput) -> Vec<f64> {
    (0..n).map(|at| if (4 * at / n).is_multiple_of(2) { input.max } else { input.min }).collect()
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
pub(super) fn pieces(times: &[f64], levels: &[f64], input: &DesignInput) -> Vec<f64> {
    limited(times, &resampled(levels, times.len()), input)
}

/// The same levels in another number of pieces.
fn resampled(levels: &[f64], n: usize) -> Vec<f64> {
    (0..n).map(|at| levels[at * levels.len() / n]).collect()
}

/// Numbers of pieces from coarse to fine, each half of the next.
fn from_coarse_to_fine(n_pieces: usize) -> Vec<usize> {
    let halves = std::iter::successors(Some(n_pieces), |n| Some(n / 2).filter(|half| *half > 1));
    let mut all: Vec<usize> = halves.collect();
    all.reverse();
    all
}

/// Random bits, different ones for every purpose.
fn bits(at: usize, number: u32, n_pieces: usize, seed: u64) -> u32 {
    philox([at as u32, number, n_pieces as u32, 0x6465_7369], key(seed))[0]
}

/// A random binary sequence of so many pieces.
fn binary(n_pieces: usize, number: u32, seed: u64, input: &DesignInput) -> Vec<f64> {
    let bit = |at: usize| bits(at / 32, number, n_pieces, seed) >> (at % 32) & 1;
    (0..n_pieces).map(|at| if bit(at) == 1 { input.max } else { input.min }).collect()
}

/// A square wave that changes its side after so many pieces.
fn square(n_pieces: usize, half: usize, input: &DesignInput) -> Vec<f64> {
    (0..n_pieces).map(|at| if (at / half).is_multiple_of(2) { input.max } else { input.min }).collect()
}

/// The plan with random binary sequences in the place of the inputs that may be changed.
pub(super) fn random_plans(designer: &Designer<'_>, plan: &Plan) -> Vec<Plan> {
    let of = |number: u32| {
        let mut other = plan.clone();
        for (given, order) in designer.options.inputs.iter().zip(0u32..) {
            if let Some(at) = designer.names.inputs.iter().position(|input| input.name == given.name) {
                let n_pieces = given.item.pieces.unwrap_or(RANDOM_PIECES).clamp(1, plan.times.len());
                let levels = binary(n_pieces, 100 * (1 + order) + number, designer.seed, &given.item);
                other.inputs[at] = pieces(&plan.times, &levels, &given.item);
            }
        }
        other
    };
    (0..2).map(of).collect()
}

/// The other limit.
fn turned(level: f64, input: &DesignInput) -> f64 {
    if level == input.max { input.min } else { input.max }
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

/// The value of a plan as a function of the levels of one input.
struct Judge<'j, 'd, 'a> {
    goal: &'j Goal<'d, 'a>,
    plan: &'j Plan,
    at: usize,
    input: &'j DesignInput,
    affine: Option<Affine>,
    /// What was asked before, where asking is expensive.
    known: BTreeMap<Vec<u64>, f64>,
    /// Questions that may still be asked.
    n_left: usize,
    /// Whether promised values are what they seem to be.
    is_linear: bool,
    /// The least value so far. A promise of less is looked at twice.
    least: f64,
}

impl Judge<'_, '_, '_> {
    /// A plan that the model cannot follow is no better than any other.
    fn value(&mut self, levels: &[f64]) -> f64 {
        if let Some(affine) = &mut self.affine {
            self.n_left = self.n_left.saturating_sub(1);
            return affine.value(self.goal, levels);
        }
        let bits: Vec<u64> = levels.iter().map(|level| level.to_bits()).collect();
        if let Some(value) = self.known.get(&bits) {
            return *value;
        }
        self.n_left = self.n_left.saturating_sub(1);
        let mut plan = self.plan.clone();
        plan.inputs[self.at] = pieces(&plan.times, levels, self.input);
        let mut value = self.goal.promised_value(&plan).unwrap_or(f64::INFINITY);
        if !self.is_linear && value < self.least {
            value = self.goal.value(&plan).unwrap_or(f64::INFINITY);
            self.least = self.least.min(value);
        }
        self.known.insert(bits, value);
        value
    }

    fn may_ask(&self) -> bool {
        self.n_left > 0 && !self.goal.designer.loaded.watch.is_stopped()
    }

    /// Takes other levels if they are better.
    fn exchange(&mut self, found: &mut Found, levels: Vec<f64>) -> bool {
        let value = self.value(&levels);
        let is_better = value < found.value - LEAST_GAIN;
        if is_better {
            *found = Found { levels, value };
        }
        is_better
    }

    /// Turns single pieces and pairs of neighbours to the other limit as long as that makes things better.
    fn turn(&mut self, found: &mut Found) {
        let n = found.levels.len();
        loop {
            let mut has_changed = false;
            for width in 1..=n.min(2) {
                for first in 0..=n - width {
                    if !self.may_ask() {
                        return;
                    }
                    let mut other = found.levels.clone();
                    other[first..first + width].iter_mut().for_each(|level| *level = turned(*level, self.input));
                    has_changed |= self.exchange(found, other);
                }
            }
            if !has_changed {
                return;
            }
        }
    }

    /// Moves levels of single pieces by less and less as long as that makes things better.
    fn shift(&mut self, found: &mut Found) {
        let mut distance = 0.5 * (self.input.max - self.input.min);
        for _ in 0..5 {
            let mut has_changed = true;
            while has_changed {
                has_changed = false;
                for piece in 0..found.levels.len() {
                    for by in [distance, -distance] {
                        let level = (found.levels[piece] + by).clamp(self.input.min, self.input.max);
                        if level == found.levels[piece] {
                            continue;
                        }
                        if !self.may_ask() {
                            return;
                        }
                        let mut other = found.levels.clone();
                        other[piece] = level;
                        has_changed |= self.exchange(found, other);
                    }
                }
            }
            distance *= 0.5;
        }
    }

    /// The best levels from some starts on.
    fn best(&mut self, starts: Vec<Vec<f64>>, seed: u64) -> Option<Found> {
        let mut all: Vec<Found> = Vec::with_capacity(starts.len());
        for levels in starts {
            if all.is_empty() || self.may_ask() {
                let value = self.value(&levels);
                all.push(Found { levels, value });
            }
        }
        all.sort_by(|a, b| a.value.total_cmp(&b.value));
        let mut best = all.first()?.clone();
        for mut found in all {
            if !self.may_ask() {
                break;
            }
            self.turn(&mut found);
            if found.value < best.value {
                best = found;
            }
        }
        let n = best.levels.len();
        let (mut n_idle, mut number) = (0, 0);
        while n_idle < MAX_IDLE && self.may_ask() {
            let mut found = best.clone();
            for turn in 0..1 + n / 8 {
                let piece = bits(turn, 1000 + number, n, seed) as usize % n;
                found.levels[piece] = turned(found.levels[piece], self.input);
            }
            found.value = self.value(&found.levels);
            self.turn(&mut found);
            number += 1;
            n_idle += 1;
            if found.value < best.value - LEAST_GAIN {
                (best, n_idle) = (found, 0);
            }
        }
        Some(best)
    }
}

/// Levels of pieces and what they are worth.
#[derive(Clone)]
struct Found {
    levels: Vec<f64>,
    value: f64,
}

/// One input on its way from coarse to fine.
struct Searched<'s> {
    /// Among the inputs of the plan.
    at: usize,
    input: &'s DesignInput,
    fineness: Vec<usize>,
    /// At either limit.
    turned: Option<Vec<f64>>,
    /// Between them, where that is asked for.
    shifted: Option<Vec<f64>>,
}

/// Candidates for a plan, and the best of them so far.
struct Search<'g, 'd, 'a> {
    goal: &'g Goal<'d, 'a>,
    /// Whether a run of the filter is cheap.
    is_linear: bool,
    plan: Plan,
    value: f64,
    n_tried: usize,
}

impl Search<'_, '_, '_> {
    /// The value of a plan, which is taken if it is better.
    fn try_plan(&mut self, plan: Plan) -> f64 {
        self.n_tried += 1;
        let value = self.goal.value(&plan).unwrap_or(f64::INFINITY);
        if value < self.value {
            self.value = value;
            self.plan = plan;
        }
        value
    }

    /// Takes a signal in the place of an input if it is better, and says whether it is.
    fn try_signal(&mut self, at: usize, signal: Vec<f64>) -> bool {
        let mut plan = self.plan.clone();
        plan.inputs[at] = signal;
        let before = self.value;
        self.try_plan(plan) < before
    }

    /// Moves samples to other times, over shorter and shorter distances, as long as that makes things better.
    fn sampling(&mut self) {
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
                    has_changed |= self.try_plan(plan) < before;
                }
            }
            if !has_changed {
                distance /= 2;
            }
            if !self.has_time() {
                break;
            }
        }
    }

    fn has_time(&self) -> bool {
        self.n_tried < MAX_TRIED && !self.goal.designer.loaded.watch.is_stopped()
    }

    /// Sums of sines of several bands, and of bands beside the best of them.
    fn sines(&mut self, at: usize, input: &DesignInput) {
        self.n_tried = 0;
        let times = self.plan.times.clone();
        let highest = (times.len() / 4).max(2);
        let (mut first, mut best) = (1, None);
        while first < highest && self.has_time() {
            for last in [first, 2 * first, 8 * first, highest] {
                let band = [first, last.clamp(first, highest)];
                if self.try_signal(at, multisine(&times, band, input)) {
                    best = Some(band);
                }
            }
            first = (first * 3).div_ceil(2).max(first + 1);
        }
        let Some(mut band) = best else { return };
        let mut distance = (band[0] / 4).max(1);
        while distance > 0 && self.has_time() {
            let [first, last] = band;
            let beside = [
                [first.saturating_sub(distance), last],
                [first + distance, last],
                [first, last.saturating_sub(distance)],
                [first, last + distance],
                [first.saturating_sub(distance), last.saturating_sub(distance)],
                [first + distance, last + distance],
            ];
            let beside = beside.into_iter().filter(|[first, last]| *first > 0 && first <= last && *last <= highest);
            let mut has_changed = false;
            for other in beside {
                if self.try_signal(at, multisine(&times, other, input)) {
                    (band, has_changed) = (other, true);
                }
            }
            if !has_changed {
                distance /= 2;
            }
        }
    }

    /// Searches for one input with so many pieces, from what is known of it.
    fn input(&mut self, searched: &mut Searched<'_>, n_pieces: usize) -> Result<(), Failure> {
        let Searched { at, input, .. } = *searched;
        if input.kind == InputKind::Multisine {
            self.sines(at, input);
            return Ok(());
        }
        let seed = self.goal.designer.seed;
        let affine = Affine::new(self.goal, &self.plan, at, input, n_pieces)?;
        let n_left = match &affine {
            // Cheap: as many as a computer does in a fraction of a second.
            Some(affine) => (400_000_000 / affine.price().max(1)).clamp(1000, 10_000),
            None if self.is_linear => (40 * n_pieces).clamp(400, 1600),
            None => (4 * n_pieces).clamp(40, 160),
        };
        let is_cheap = affine.is_some();
        let plan = self.plan.clone();
        let mut judge = Judge {
            goal: self.goal,
            plan: &plan,
            at,
            input,
            affine,
            known: BTreeMap::new(),
            n_left,
            is_linear: self.is_linear,
            least: self.value,
        };
        let mut starts: Vec<Vec<f64>> = searched.turned.iter().map(|levels| resampled(levels, n_pieces)).collect();
        let n_random = if input.kind == InputKind::Prbs { N_RANDOM_ONLY } else { N_RANDOM };
        let random = (0..n_random).map(|number| binary(n_pieces, number, seed, input));
        if input.kind == InputKind::Prbs {
            starts.extend(random);
            let all = starts.into_iter().map(|levels| Found { value: judge.value(&levels), levels });
            let best = all.min_by(|a, b| a.value.total_cmp(&b.value));
            searched.turned = best.map(|best| best.levels);
        } else {
            starts.push(plain(n_pieces, input));
            starts.extend(random);
            let halves = std::iter::successors(Some(1), |half| Some((half * 3usize).div_ceil(2)));
            starts.extend(halves.take_while(|half| 2 * half <= n_pieces).map(|half| square(n_pieces, half, input)));
            if is_cheap {
                let mirrored = |levels: &Vec<f64>| levels.iter().map(|level| turned(*level, input)).collect();
                starts.extend(starts.iter().map(mirrored).collect::<Vec<_>>());
            }
            searched.turned = judge.best(starts, seed).map(|best| best.levels);
        }
        if input.kind == InputKind::Levels {
            judge.n_left = n_left;
            let from = searched.turned.iter().chain(&searched.shifted).map(|levels| resampled(levels, n_pieces));
            let from = from.map(|levels| Found { value: judge.value(&levels), levels });
            let mut best = from.min_by(|a, b| a.value.total_cmp(&b.value));
            if let Some(best) = &mut best {
                judge.shift(best);
            }
            searched.shifted = best.map(|best| best.levels);
        }
        if let Some(levels) = searched.shifted.as_ref().or(searched.turned.as_ref()) {
            self.try_signal(at, pieces(&plan.times, levels, input));
        }
        Ok(())
    }
}

/// A better plan: inputs of `[design]` from coarse to fine, each with the others as they are by then, then the times of the
/// samples.
pub(super) fn better(goal: &Goal<'_, '_>, plan: &Plan) -> Result<Plan, Failure> {
    let designer = goal.designer;
    let is_linear = goal.is_linear(plan)?;
    let mut search = Search { goal, is_linear, plan: plan.clone(), value: goal.value(plan)?, n_tried: 0 };
    let n_times = plan.times.len();
    let mut all = Vec::new();
    for given in &designer.options.inputs {
        let Some(at) = designer.names.inputs.iter().position(|input| input.name == given.name) else { continue };
        let input = &given.item;
        let fineness = match input.pieces {
            _ if input.kind == InputKind::Multisine => vec![1],
            Some(wanted) => from_coarse_to_fine(wanted.clamp(1, n_times)),
            None => {
                let doubled = std::iter::successors(Some(4), |n| Some(2 * n));
                doubled
                    .take_while(|n| *n <= MOST_PIECES && (*n == 4 || 2 * n <= n_times))
                    .map(|n| n.min(n_times))
                    .collect()
            }
        };
        all.push(Searched { at, input, fineness, turned: None, shifted: None });
    }
    let depth = all.iter().map(|searched| searched.fineness.len()).max().unwrap_or(0);
    // Where there are several inputs, the first is searched for once more when the others are no longer plain.
    let n_rounds = if all.len() > 1 { 2 } else { 1 };
    for level in 0..depth {
        for _ in 0..n_rounds {
            for searched in &mut all {
                let own = (level + searched.fineness.len()).checked_sub(depth);
                if let Some(n_pieces) = own.map(|own| searched.fineness[own]) {
                    search.input(searched, n_pieces)?;
                }
            }
        }
    }
    if search.plan.is_sampled.iter().any(|is_sampled| !is_sampled) {
        search.sampling();
    }
    Ok(search.plan)
}
