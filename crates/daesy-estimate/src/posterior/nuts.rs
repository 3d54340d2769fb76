//! The No-U-Turn sampler [@hoffman2014] with multinomial draws along trajectories [@betancourt2017, app. A].
//!
//! ```text
//! H(q, p) = -log pi(q) + p' M^-1 p / 2          leapfrog:  p += e/2 grad,  q += e M^-1 p,  p += e/2 grad
//! ```
//!
//! A trajectory is doubled forwards or backwards at random until its ends turn back on each other,
//! `p_end' M^-1 rho < 0` with `rho` the sum of its momenta, or until it leaves the surface of constant energy by more
//! than [`NutsOptions::max_energy_error`], which counts as a divergence. A new half takes the draw over with the ratio
//! of the weights `e^-H`.
//!
//! Warm-up finds the step by dual averaging and the metric `M^-1`, dense, from the covariance of draws in windows that
//! double in length; it begins with the inverse of the information at the mode.

use daesy_random::philox::{key, philox_words};
use daesy_random::special_functions::normal_quantile;
use faer::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

use super::{LogDensity, Slope};

/// How a chain runs.
#[derive(Clone, PartialEq, Debug)]
pub struct NutsOptions {
    /// Draws before those that are kept.
    pub n_warmup: usize,
    /// Draws that are kept.
    pub n_draws: usize,
    /// Trajectories have at most 2^depth steps.
    pub max_depth: u32,
    /// The mean probability of acceptance that the step is chosen for.
    pub target_acceptance: f64,
    /// Error of the energy beyond which a trajectory has diverged.
    pub max_energy_error: f64,
}

impl Default for NutsOptions {
    fn default() -> Self {
        Self { n_warmup: 500, n_draws: 1000, max_depth: 10, target_acceptance: 0.8, max_energy_error: 1000.0 }
    }
}

/// Draws of one chain.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chain {
    /// `[draw][coordinate]`.
    pub draws: Vec<Vec<f64>>,
    /// Logarithm of the density at each.
    pub values: Vec<f64>,
    /// Divergences after the warm-up.
    pub divergences: usize,
    /// Trajectories of the greatest length after the warm-up.
    pub n_cut: usize,
    /// Evaluations of the density.
    pub n_evaluations: u64,
    /// Mean probability of acceptance after the warm-up.
    pub acceptance: f64,
}

/// Random numbers of one chain: functions of seed, chain and their place.
struct Numbers {
    key: [u32; 2],
    chain: u32,
    next: u64,
}

/// The last word of the counters of posterior draws.
const PURPOSE: u32 = 0x706f_7374;

impl Numbers {
    fn uniform(&mut self) -> f64 {
        let counter = [self.next as u32, (self.next >> 32) as u32, self.chain, PURPOSE];
        self.next += 1;
        let words = philox_words(counter, self.key);
        let bits = (words[0] << 20) ^ (words[1] >> 12);
        ((bits & ((1 << 52) - 1)) as f64 + 0.5) / (1u64 << 52) as f64
    }

    fn normal(&mut self) -> f64 {
        normal_quantile(self.uniform())
    }
}

/// A metric: the covariance that it stands for, and a root `L` with `covariance = L L'`.
struct Metric {
    covariance: Mat<f64>,
    /// Eigenvectors and square roots of eigenvalues of the covariance.
    vectors: Mat<f64>,
    roots: Vec<f64>,
}

/// The inverse of a curvature, directions of little curvature bounded.
///
/// Directions in which the curvature is not positive, or smaller than 1e-8 of the largest in units of the diagonal,
/// are as wide as that bound allows.
#[must_use]
pub fn bounded_inverse(curvature: &Mat<f64>) -> Mat<f64> {
    let n = curvature.nrows();
    let unit: Vec<f64> = (0..n)
        .map(|i| {
            let value = curvature[(i, i)];
            if value > 0.0 && value.is_finite() { 1.0 / value.sqrt() } else { 1.0 }
        })
        .collect();
    let scaled = Mat::from_fn(n, n, |i, j| 0.5 * (curvature[(i, j)] + curvature[(j, i)]) * unit[i] * unit[j]);
    let finite = Mat::from_fn(n, n, |i, j| if scaled[(i, j)].is_finite() { scaled[(i, j)] } else { 0.0 });
    let Ok(eigen) = SelfAdjointEigen::new(finite.as_ref(), faer::Side::Lower) else { return Mat::identity(n, n) };
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    Mat::from_fn(n, n, |i, j| {
        let sum: f64 = (0..n).map(|k| vectors[(i, k)] * vectors[(j, k)] / values[k].max(1e-8)).sum();
        sum * unit[i] * unit[j]
    })
}

impl Metric {
    fn new(covariance: &Mat<f64>) -> Self {
        let n = covariance.nrows();
        let (vectors, roots) = match SelfAdjointEigen::new(covariance.as_ref(), faer::Side::Lower) {
            Ok(eigen) => {
                let values = eigen.S().column_vector();
                let largest = (0..n).fold(0.0f64, |largest, k| largest.max(values[k]));
                let floor = (1e-14 * largest).max(f64::MIN_POSITIVE);
                (eigen.U().to_owned(), (0..n).map(|k| values[k].max(floor).sqrt()).collect())
            }
            Err(_) => (Mat::identity(n, n), vec![1.0; n]),
        };
        Self { covariance: covariance.clone(), vectors, roots }
    }

    /// `M^-1 p`.
    fn velocity(&self, p: &[f64]) -> Vec<f64> {
        let n = p.len();
        (0..n).map(|i| (0..n).map(|j| self.covariance[(i, j)] * p[j]).sum()).collect()
    }

    /// A momentum of covariance `M`.
    fn momentum(&self, numbers: &mut Numbers) -> Vec<f64> {
        let n = self.roots.len();
        let z: Vec<f64> = (0..n).map(|k| numbers.normal() / self.roots[k]).collect();
        (0..n).map(|i| (0..n).map(|k| self.vectors[(i, k)] * z[k]).sum()).collect()
    }

    /// A point of the normal distribution around a center with this covariance.
    fn around(&self, center: &[f64], numbers: &mut Numbers) -> Vec<f64> {
        let n = self.roots.len();
        let z: Vec<f64> = (0..n).map(|k| numbers.normal() * self.roots[k]).collect();
        (0..n).map(|i| center[i] + (0..n).map(|k| self.vectors[(i, k)] * z[k]).sum::<f64>()).collect()
    }
}

/// A point of phase space.
#[derive(Clone)]
struct Point {
    q: Vec<f64>,
    p: Vec<f64>,
    slope: Slope,
}

impl Point {
    fn energy(&self, metric: &Metric) -> f64 {
        0.5 * dot(&self.p, &metric.velocity(&self.p)) - self.slope.value
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(x, y)| x + y).collect()
}

/// A piece of a trajectory.
struct Tree {
    first: Point,
    last: Point,
    /// Sum of the momenta.
    rho: Vec<f64>,
    draw: Point,
    log_weight: f64,
    turns: bool,
}

/// What happens along a trajectory.
struct Walk<'a> {
    density: &'a dyn LogDensity,
    metric: &'a Metric,
    step: f64,
    start_energy: f64,
    max_energy_error: f64,
    n_evaluations: u64,
    has_diverged: bool,
    sum_acceptance: f64,
    n_steps: f64,
}

fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// Whether the ends of a piece move towards each other.
fn turns_back(metric: &Metric, rho: &[f64], first: &Point, last: &Point) -> bool {
    let along = metric.velocity(rho);
    dot(&first.p, &along) <= 0.0 || dot(&last.p, &along) <= 0.0
}

impl Walk<'_> {
    /// One leapfrog step; `None` where the density ends.
    fn leap(&mut self, from: &Point, direction: f64) -> Option<Point> {
        let step = self.step * direction;
        let half: Vec<f64> = from.p.iter().zip(&from.slope.gradient).map(|(p, g)| p + 0.5 * step * g).collect();
        let velocity = self.metric.velocity(&half);
        let q: Vec<f64> = from.q.iter().zip(&velocity).map(|(q, v)| q + step * v).collect();
        self.n_evaluations += 1;
        let slope = self.density.evaluate(&q)?;
        let p = half.iter().zip(&slope.gradient).map(|(p, g)| p + 0.5 * step * g).collect();
        Some(Point { q, p, slope })
    }

    /// A piece of 2^depth steps from a point on; `None` where it diverges.
    fn build(&mut self, from: &Point, direction: f64, depth: u32, numbers: &mut Numbers) -> Option<Tree> {
        if depth == 0 {
            let point = self.leap(from, direction);
            self.n_steps += 1.0;
            let error = point.as_ref().map_or(f64::INFINITY, |point| point.energy(self.metric) - self.start_energy);
            if error.is_nan() || error > self.max_energy_error {
                self.has_diverged = true;
                return None;
            }
            self.sum_acceptance += (-error).exp().min(1.0);
            let point = point?;
            return Some(Tree {
                rho: point.p.clone(),
                first: point.clone(),
                last: point.clone(),
                draw: point,
                log_weight: -error,
                turns: false,
            });
        }
        let near = self.build(from, direction, depth - 1, numbers)?;
        if near.turns {
            return Some(near);
        }
        let far = self.build(&near.last, direction, depth - 1, numbers)?;
        let log_weight = log_add(near.log_weight, far.log_weight);
        let takes_far = numbers.uniform().ln() < far.log_weight - log_weight;
        let rho = add(&near.rho, &far.rho);
        // Also across the middle, where the ends of the halves may have turned already.
        let turns = far.turns
            || turns_back(self.metric, &rho, &near.first, &far.last)
            || turns_back(self.metric, &add(&near.rho, &far.first.p), &near.first, &far.first)
            || turns_back(self.metric, &add(&far.rho, &near.last.p), &near.last, &far.last);
        let draw = if takes_far { far.draw } else { near.draw };
        Some(Tree { first: near.first, last: far.last, rho, draw, log_weight, turns })
    }
}

/// What one trajectory gave.
struct Transition {
    draw: Point,
    acceptance: f64,
    has_diverged: bool,
    is_cut: bool,
    n_evaluations: u64,
}

fn transition(
    density: &dyn LogDensity,
    metric: &Metric,
    step: f64,
    from: &Point,
    options: &NutsOptions,
    numbers: &mut Numbers,
) -> Transition {
    let start = Point { p: metric.momentum(numbers), ..from.clone() };
    let mut walk = Walk {
        density,
        metric,
        step,
        start_energy: start.energy(metric),
        max_energy_error: options.max_energy_error,
        n_evaluations: 0,
        has_diverged: false,
        sum_acceptance: 0.0,
        n_steps: 0.0,
    };
    let mut draw = start.clone();
    // `back` is the end in the past, `front` the one in the future.
    let (mut back, mut front) = (start.clone(), start.clone());
    let mut rho = start.p.clone();
    let mut log_weight = 0.0;
    let mut is_cut = true;
    for depth in 0..options.max_depth {
        let is_forward = numbers.uniform() < 0.5;
        let (from, direction) = if is_forward { (&front, 1.0) } else { (&back, -1.0) };
        let Some(tree) = walk.build(from, direction, depth, numbers) else {
            is_cut = false;
            break;
        };
        if tree.turns {
            is_cut = false;
            break;
        }
        // The new half is preferred: what matters is to get away.
        if numbers.uniform().ln() < tree.log_weight - log_weight {
            draw = tree.draw.clone();
        }
        log_weight = log_add(log_weight, tree.log_weight);
        let joined = add(&rho, &tree.rho);
        let (old_near, new_near) = if is_forward { (&front, &tree.first) } else { (&back, &tree.first) };
        let crosses = turns_back(metric, &add(&rho, &new_near.p), if is_forward { &back } else { &front }, new_near)
            || turns_back(metric, &add(&tree.rho, &old_near.p), old_near, &tree.last);
        if is_forward {
            front = tree.last;
        } else {
            back = tree.last;
        }
        rho = joined;
        if crosses || turns_back(metric, &rho, &back, &front) {
            is_cut = false;
            break;
        }
    }
    Transition {
        draw,
        acceptance: walk.sum_acceptance / walk.n_steps.max(1.0),
        has_diverged: walk.has_diverged,
        is_cut,
        n_evaluations: walk.n_evaluations,
    }
}

/// Dual averaging of the logarithm of the step [@hoffman2014, sec. 3.2].
///
/// `GAMMA` says how far a single acceptance moves the step. The usual 0.05 throws it to and fro by factors; acceptance
/// falls faster above the right step than it rises below it, so that the mean of such a search ends a third too low: with
/// six dimensions and 50 draws at 0.74 where an acceptance of 0.8 belongs to 1.0, and at nearly twice the gradients a draw.
struct StepSearch {
    center: f64,
    error: f64,
    log_mean: f64,
    count: f64,
}

impl StepSearch {
    fn new(step: f64) -> Self {
        Self { center: (2.0 * step).ln(), error: 0.0, log_mean: 0.0, count: 0.0 }
    }

    /// Learns from an acceptance and gives the next step.
    fn next(&mut self, acceptance: f64, target: f64) -> f64 {
        const GAMMA: f64 = 0.25;
        const DELAY: f64 = 10.0;
        const FORGETTING: f64 = 0.75;
        self.count += 1.0;
        let weight = 1.0 / (self.count + DELAY);
        self.error = (1.0 - weight) * self.error + weight * (target - acceptance);
        let log = self.center - self.count.sqrt() / GAMMA * self.error;
        let forgotten = self.count.powf(-FORGETTING);
        self.log_mean = forgotten * log + (1.0 - forgotten) * self.log_mean;
        log.exp()
    }

    fn found(&self) -> f64 {
        self.log_mean.exp()
    }
}

/// A step at which a single leap is accepted with a probability of about one half.
fn reasonable_step(density: &dyn LogDensity, metric: &Metric, at: &Point, numbers: &mut Numbers) -> f64 {
    let mut step = 1.0;
    let mut before: Option<bool> = None;
    for _ in 0..60 {
        let start = Point { p: metric.momentum(numbers), ..at.clone() };
        let start_energy = start.energy(metric);
        let mut walk = Walk {
            density,
            metric,
            step,
            start_energy,
            max_energy_error: f64::INFINITY,
            n_evaluations: 0,
            has_diverged: false,
            sum_acceptance: 0.0,
            n_steps: 0.0,
        };
        let gain = walk.leap(&start, 1.0).map_or(f64::NEG_INFINITY, |point| start_energy - point.energy(metric));
        let is_good = gain > 0.5f64.ln();
        if before.is_some_and(|before| before != is_good) {
            break;
        }
        before = Some(is_good);
        step *= if is_good { 2.0 } else { 0.5 };
        if !(1e-12..=1e6).contains(&step) {
            break;
        }
    }
    step
}

/// Ends of the windows of the warm-up in which the metric is learned: the first part and the last one only find the
/// step.
fn windows(n_warmup: usize) -> Vec<usize> {
    if n_warmup < 20 {
        return Vec::new();
    }
    let first = (n_warmup * 15 / 100).min(75);
    let last = n_warmup - (n_warmup / 5).min(50);
    let mut ends = Vec::new();
    let mut length = 25.min(last - first);
    let mut at = first;
    while at < last {
        let end = at + length;
        // What would be left over is taken along.
        let end = if end + 2 * length > last { last } else { end };
        ends.push(end);
        at = end;
        length *= 2;
    }
    ends.insert(0, first);
    ends
}

/// The covariance of draws, drawn a little towards a small multiple of the metric before.
fn learned(draws: &[Vec<f64>], before: &Mat<f64>) -> Mat<f64> {
    let (n, k) = (draws.len() as f64, before.nrows());
    let mean: Vec<f64> = (0..k).map(|i| draws.iter().map(|draw| draw[i]).sum::<f64>() / n).collect();
    let weight = n / (n + 5.0);
    Mat::from_fn(k, k, |i, j| {
        let sum: f64 = draws.iter().map(|draw| (draw[i] - mean[i]) * (draw[j] - mean[j])).sum();
        let shrunk = if i == j { before[(i, i)] } else { 0.0 };
        weight * sum / (n - 1.0) + (1.0 - weight) * 1e-3 * shrunk
    })
}

/// Where a chain begins: a point of the normal distribution around the center that has a density, or the center.
fn first_point(density: &dyn LogDensity, center: &[f64], metric: &Metric, numbers: &mut Numbers) -> Option<Point> {
    for _ in 0..50 {
        let q = metric.around(center, numbers);
        if let Some(slope) = density.evaluate(&q) {
            return Some(Point { p: vec![0.0; q.len()], q, slope });
        }
    }
    let slope = density.evaluate(center)?;
    Some(Point { q: center.to_vec(), p: vec![0.0; center.len()], slope })
}

/// A chain that is run piece by piece; what it draws does not depend on the pieces.
pub(super) struct Running<'a> {
    density: &'a dyn LogDensity,
    options: &'a NutsOptions,
    numbers: Numbers,
    metric: Metric,
    /// Where it is; `None` where the density has no value around the center.
    at: Option<Point>,
    step: f64,
    search: StepSearch,
    ends: Vec<usize>,
    seen: Vec<Vec<f64>>,
    /// Draws so far, those of the warm-up among them.
    n_done: usize,
    result: Chain,
}

impl<'a> Running<'a> {
    /// Begins around a center, with a first guess of the covariance.
    pub fn begin(
        density: &'a dyn LogDensity,
        center: &[f64],
        covariance: &Mat<f64>,
        options: &'a NutsOptions,
        seed: u64,
        chain: u32,
    ) -> Self {
        let mut numbers = Numbers { key: key(seed), chain, next: 0 };
        let metric = Metric::new(covariance);
        let at = first_point(density, center, &metric, &mut numbers);
        let step = at.as_ref().map_or(1.0, |at| reasonable_step(density, &metric, at, &mut numbers));
        Self {
            density,
            options,
            numbers,
            metric,
            at,
            step,
            search: StepSearch::new(step),
            ends: windows(options.n_warmup),
            seen: Vec::new(),
            n_done: 0,
            result: Chain::default(),
        }
    }

    /// Draws that are still to be taken; none where the chain could not begin.
    pub fn n_left(&self) -> usize {
        if self.at.is_some() { self.options.n_warmup + self.options.n_draws - self.n_done } else { 0 }
    }

    /// Takes so many draws more, or fewer where there are no more to take or the work is over.
    pub fn go_on(&mut self, n: usize) {
        for _ in 0..n.min(self.n_left()) {
            let Some(at) = &self.at else { return };
            let found = transition(self.density, &self.metric, self.step, at, self.options, &mut self.numbers);
            self.result.n_evaluations += found.n_evaluations;
            if self.density.is_over() {
                // It may have been cut where the density was no longer given.
                return;
            }
            self.take(found);
        }
    }

    fn take(&mut self, found: Transition) {
        let (draw, n_warmup) = (self.n_done, self.options.n_warmup);
        self.n_done += 1;
        let at = self.at.insert(found.draw);
        if draw >= n_warmup {
            self.result.draws.push(at.q.clone());
            self.result.values.push(at.slope.value);
            self.result.divergences += usize::from(found.has_diverged);
            self.result.n_cut += usize::from(found.is_cut);
            self.result.acceptance += found.acceptance;
            return;
        }
        self.step = self.search.next(found.acceptance, self.options.target_acceptance);
        let has_begun = self.ends.first().is_some_and(|first| draw >= *first);
        if has_begun && draw < self.ends.last().copied().unwrap_or(0) {
            self.seen.push(at.q.clone());
        }
        if has_begun && self.ends.contains(&(draw + 1)) && self.seen.len() > 2 {
            self.metric = Metric::new(&learned(&self.seen, &self.metric.covariance));
            self.seen.clear();
            self.step = reasonable_step(self.density, &self.metric, at, &mut self.numbers);
            self.search = StepSearch::new(self.step);
        }
        if draw + 1 == n_warmup {
            self.step = self.search.found();
        }
    }

    /// What was drawn.
    pub fn end(mut self) -> Chain {
        self.result.acceptance /= self.result.draws.len().max(1) as f64;
        self.result
    }
}

/// Runs one chain around a center, with a first guess of the covariance. A density that has no value there gives no
/// draws.
#[must_use]
pub fn run_chain(
    density: &dyn LogDensity,
    center: &[f64],
    covariance: &Mat<f64>,
    options: &NutsOptions,
    seed: u64,
    chain: u32,
) -> Chain {
    let mut running = Running::begin(density, center, covariance, options, seed, chain);
    running.go_on(running.n_left());
    running.end()
}
