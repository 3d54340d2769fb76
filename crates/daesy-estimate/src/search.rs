//! Search for a minimum within bounds, by Levenberg-Marquardt steps on a quadratic model.
//!
//! At a point the objective gives its value `f`, gradient `g` and an approximation `H` of its curvature: the
//! Gauss-Newton matrix of a sum of squares, or the Fisher information of a log-likelihood. In units of nominal values
//! the step solves, on the variables that no bound stops,
//!
//! ```text
//! (H + lambda D) p = -g,     D = the diagonal of H, slow to shrink       [@more1978]
//! ```
//!
//! `lambda` follows the ratio of actual to predicted decrease [@nielsen1999]. Points that the objective refuses,
//! because the structure of the model is different there, count as infinitely bad, so that a step towards them is
//! shortened; what was refused is kept.

use faer::Mat;
use faer::linalg::solvers::Solve;

/// Value, gradient and approximate curvature at a point.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The value.
    pub value: f64,
    /// The gradient.
    pub gradient: Vec<f64>,
    /// A positive semidefinite approximation of the matrix of second derivatives.
    pub curvature: Mat<f64>,
}

/// What is minimized.
pub trait Objective {
    /// Why a point is refused.
    type Refusal: Clone;

    /// The value at a point.
    ///
    /// # Errors
    /// When the point is refused.
    fn value(&mut self, theta: &[f64]) -> Result<f64, Self::Refusal>;

    /// Value, gradient and curvature at a point.
    ///
    /// # Errors
    /// When the point is refused.
    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, Self::Refusal>;
}

/// Bounds and typical sizes of the variables.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchSpace {
    /// Lower bounds; minus infinity where there is none.
    pub lower: Vec<f64>,
    /// Upper bounds; infinity where there is none.
    pub upper: Vec<f64>,
    /// Typical sizes, greater than zero.
    pub nominal: Vec<f64>,
}

impl SearchSpace {
    /// The nearest point within bounds.
    #[must_use]
    pub fn clamp(&self, theta: &[f64]) -> Vec<f64> {
        theta.iter().enumerate().map(|(i, value)| value.clamp(self.lower[i], self.upper[i])).collect()
    }

    /// The bound a variable is at.
    #[must_use]
    pub fn bound_at(&self, i: usize, value: f64) -> Option<Bound> {
        let near = |bound: f64| bound.is_finite() && (value - bound).abs() <= 1e-12 * bound.abs().max(self.nominal[i]);
        if near(self.lower[i]) {
            Some(Bound::Lower)
        } else if near(self.upper[i]) {
            Some(Bound::Upper)
        } else {
            None
        }
    }

    /// Further points to start from: the given one first, then points spread over the bounds, every variable's range
    /// cut into as many parts as there are points and each part used once. Ranges of one sign that span more than a
    /// decade are cut logarithmically; where a bound is missing, ten times the start (or the nominal value) takes its
    /// place. [@mckay1979]
    #[must_use]
    pub fn starts(&self, start: &[f64], n_starts: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut starts = vec![self.clamp(start)];
        let n_more = n_starts.saturating_sub(1);
        let mut random = SplitMix(seed ^ 0x9e37_79b9_7f4a_7c15);
        let mut columns = Vec::new();
        for (i, &given) in start.iter().enumerate() {
            let reach = 10.0 * given.abs().max(self.nominal[i]);
            let (mut from, mut to) = (self.lower[i], self.upper[i]);
            if !from.is_finite() {
                from = if given > 0.0 && to > 0.0 { given / 10.0 } else { (-reach).min(to - reach) };
            }
            if !to.is_finite() {
                to = if given < 0.0 && from < 0.0 { given / 10.0 } else { reach.max(from + reach) };
            }
            // A range that begins at zero is cut from a thousandth of the start on.
            let small = 1e-3 * given.abs().max(1e-3 * self.nominal[i]);
            if from == 0.0 && to > 100.0 * small {
                from = small;
            }
            let is_logarithmic = from * to > 0.0 && (to / from).abs().max((from / to).abs()) > 10.0;
            let mut parts: Vec<usize> = (0..n_more).collect();
            for at in (1..n_more).rev() {
                parts.swap(at, (random.next() % (at as u64 + 1)) as usize);
            }
            let column: Vec<f64> = parts
                .iter()
                .map(|&part| {
                    let at = (part as f64 + random.unit()) / n_more as f64;
                    if is_logarithmic { from * (to / from).powf(at) } else { from + (to - from) * at }
                })
                .collect();
            columns.push(column);
        }
        starts.extend((0..n_more).map(|at| columns.iter().map(|column| column[at]).collect()));
        starts
    }
}

/// A small generator for the choice of starting points. [@steele2014]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Which bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The lower one.
    Lower,
    /// The upper one.
    Upper,
}

/// When a search ends.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchOptions {
    /// Steps at most.
    pub max_iterations: usize,
    /// The search has converged when the quadratic model promises a decrease below this.
    pub absolute: f64,
    /// As `absolute`, relative to the value.
    pub relative: f64,
    /// Damping of the first step.
    pub damping: f64,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { max_iterations: 200, absolute: 0.0, relative: 1e-12, damping: 1e-3 }
    }
}

/// How far a search is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SearchProgress<'a> {
    /// Steps so far.
    pub iteration: usize,
    /// The point.
    pub theta: &'a [f64],
    /// The value there.
    pub value: f64,
    /// Length of the last step in nominal values.
    pub step: f64,
    /// Decrease that the quadratic model promises from here.
    pub promised: f64,
}

/// Why a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchEnd {
    /// Nothing is left to gain.
    Converged,
    /// No step makes the value smaller, though the model promises it: rounding, a wall of refused points, or an edge.
    Stuck,
    /// Too many steps.
    TooManyIterations,
}

/// A point that the objective refused.
#[derive(Clone, PartialEq, Debug)]
pub struct RefusedPoint<R> {
    /// The point.
    pub theta: Vec<f64>,
    /// Why.
    pub refusal: R,
}

/// Where a search ended.
#[derive(Clone, Debug)]
pub struct SearchResult<R> {
    /// The point.
    pub theta: Vec<f64>,
    /// Value, gradient and curvature there.
    pub expansion: Expansion,
    /// The bound every variable is at.
    pub at_bound: Vec<Option<Bound>>,
    /// Why it ended.
    pub end: SearchEnd,
    /// Steps.
    pub iterations: usize,
    /// Evaluations of the value.
    pub evaluations: usize,
    /// Minima that were left for lower ones beside them, see [`settle`].
    pub n_left: usize,
    /// Points that were refused on the way; the first few.
    pub refused: Vec<RefusedPoint<R>>,
}

/// Refused points that are kept.
const KEPT_REFUSALS: usize = 16;

/// A search creeps where steps bring less than this share of what the model promises, as along an edge or a jump of
/// the objective, which no quadratic model describes. After so many such steps in a row it ends.
const CREEPING: f64 = 1e-4;
const MAX_CREPT: usize = 20;

/// Steps that bring as little and are shorter than this, in typical sizes, lead nowhere: the objective is rough there.
const NOWHERE: f64 = 1e-10;

/// Minimizes an objective from a starting point; `observe` sees every accepted point.
///
/// # Errors
/// The refusal of the starting point.
pub fn minimize<O: Objective>(
    objective: &mut O,
    start: &[f64],
    space: &SearchSpace,
    options: &SearchOptions,
    observe: &mut dyn FnMut(&SearchProgress<'_>),
) -> Result<SearchResult<O::Refusal>, O::Refusal> {
    let n = start.len();
    let mut theta = space.clamp(start);
    let mut expansion = objective.expand(&theta)?;
    let mut evaluations = 1;
    let mut iterations = 0;
    let mut lambda = options.damping;
    let mut growth = 2.0;
    let mut weights = vec![0.0f64; n];
    let mut refused = Vec::new();
    let mut last_step = 0.0;
    let mut n_crept = 0;
    let end = 'search: loop {
        let model = QuadraticModel::new(&expansion, &theta, space);
        for (weight, diagonal) in weights.iter_mut().zip(model.diagonal()) {
            // Curvature that vanishes, as that of a variance at zero, must not leave a lasting brake.
            *weight = diagonal.max(1e-6 * *weight);
        }
        let promised = model.promised_decrease(&weights);
        observe(&SearchProgress {
            iteration: iterations,
            theta: &theta,
            value: expansion.value,
            step: last_step,
            promised,
        });
        let enough = options.absolute.max(options.relative * expansion.value.abs());
        if promised <= enough {
            break SearchEnd::Converged;
        }
        if iterations == options.max_iterations {
            break SearchEnd::TooManyIterations;
        }
        if n_crept == MAX_CREPT {
            break SearchEnd::Stuck;
        }
        iterations += 1;
        loop {
            let step = model.step(lambda, &weights);
            let predicted = model.decrease(&step);
            let trial: Vec<f64> =
                (0..n).map(|i| (theta[i] + step[i] * space.nominal[i]).clamp(space.lower[i], space.upper[i])).collect();
            if trial == theta {
                break 'search SearchEnd::Stuck;
            }
            let mut next = None;
            // Bounds may bend a long step into one that the model does not like; a shorter one helps.
            let outcome = (predicted > 0.0).then(|| objective.value(&trial));
            evaluations += usize::from(outcome.is_some());
            match outcome {
                None => {}
                Some(Ok(value)) => {
                    let ratio = (expansion.value - value) / predicted;
                    // Changes below rounding cannot be judged by the value any more.
                    let is_rounding = predicted <= 1e-13 * expansion.value.abs() && value.is_finite();
                    if (ratio > 1e-4 || (is_rounding && ratio > -1e3)) && value.is_finite() {
                        match objective.expand(&trial) {
                            Ok(expanded) => next = Some((expanded, ratio)),
                            Err(refusal) => keep(&mut refused, &trial, refusal),
                        }
                    }
                }
                Some(Err(refusal)) => keep(&mut refused, &trial, refusal),
            }
            if let Some((expanded, ratio)) = next {
                last_step = step.iter().map(|s| s * s).sum::<f64>().sqrt();
                let is_creeping = expansion.value - expanded.value < CREEPING * promised;
                n_crept = match is_creeping {
                    true if last_step < NOWHERE => MAX_CREPT,
                    true => n_crept + 1,
                    false => 0,
                };
                expansion = expanded;
                theta = trial;
                lambda = (lambda * (1.0 - (2.0 * ratio - 1.0).powi(3)).clamp(0.1, 2.0)).max(1e-14);
                growth = 2.0;
                break;
            }
            lambda *= growth;
            growth *= 2.0;
            if lambda > 1e20 || !lambda.is_finite() {
                break 'search SearchEnd::Stuck;
            }
        }
    };
    // A search that is stuck within rounding of the minimum has converged.
    let left = || QuadraticModel::new(&expansion, &theta, space).promised_decrease(&weights);
    let is_at_minimum = end == SearchEnd::Stuck && left() <= 1e-8 * (1.0 + expansion.value.abs());
    let end = if is_at_minimum { SearchEnd::Converged } else { end };
    let at_bound = (0..n).map(|i| space.bound_at(i, theta[i])).collect();
    Ok(SearchResult { theta, expansion, at_bound, end, iterations, evaluations, n_left: 0, refused })
}

/// Takes undamped steps from the end of a search that converged, as long as what is left to gain shrinks.
///
/// A decrease of d that is left in a negative log-likelihood is a distance of sqrt(2 d) standard errors: values cannot
/// tell points apart that differ by less than the root of their rounding, though gradients do. Steps of Newton's method
/// with the exact gradient therefore are judged by what the quadratic model promises after them, not by the value. Where
/// the objective is quadratic, as for unknowns that enter linearly with normal priors, one step ends at the minimum but
/// for rounding.
#[must_use]
pub fn refine<O: Objective>(
    objective: &mut O,
    mut found: SearchResult<O::Refusal>,
    space: &SearchSpace,
) -> SearchResult<O::Refusal> {
    let promise = |expansion: &Expansion, theta: &[f64]| {
        let model = QuadraticModel::new(expansion, theta, space);
        let step = model.step(0.0, &model.diagonal());
        (model.decrease(&step), step)
    };
    for _ in 0..MAX_REFINED {
        let (left, step) = promise(&found.expansion, &found.theta);
        let moved: Vec<f64> = (0..step.len()).map(|i| found.theta[i] + step[i] * space.nominal[i]).collect();
        let trial = space.clamp(&moved);
        if found.end != SearchEnd::Converged || trial == found.theta {
            break;
        }
        let Ok(expansion) = objective.expand(&trial) else { break };
        let is_closer = promise(&expansion, &trial).0.abs() < 0.5 * left.abs();
        if !is_closer || expansion.value > found.expansion.value + 1e-9 * (1.0 + found.expansion.value.abs()) {
            break;
        }
        let at_bound = (0..trial.len()).map(|i| space.bound_at(i, trial[i])).collect();
        found = SearchResult { theta: trial, expansion, at_bound, ..found };
    }
    found
}

/// Steps that refine the end of a search.
const MAX_REFINED: usize = 2;

/// How far around a point that a search is stuck at is looked, at first and at last, in standard errors.
const FIRST_LOOK: f64 = 0.3;
const LAST_LOOK: f64 = 0.03;

/// Times that a search goes on from a better point beside the one it was stuck at.
const MAX_LOOKS: usize = 10;

/// How far from a minimum others are looked for, in standard errors.
const BESIDE: f64 = 1.0;

/// Times that a search moves on to a better minimum beside the one it ended in.
const MAX_MOVES: usize = 5;

/// Steps of a search that looks for another minimum.
const QUICK_STEPS: usize = 12;

/// A minimum is better if it is lower by this share of what a standard error makes of the objective.
const LOWER: f64 = 0.01;

/// Carries a search on whose objective has edges, where gradients of one side say nothing of the other: from a point
/// where it is stuck on one, and from a minimum to lower ones beside it.
///
/// `unit` is by how much the objective is larger one standard error away from its minimum. Where the search is stuck,
/// points are tried at some standard errors from the end, on both sides along the principal directions of the
/// curvature; it goes on from the best of them that is better, else closer ones are tried. Where none 0.03 standard
/// errors away is better the search has converged, as far as data can tell. Then short searches are made from the
/// points one standard error away, likewise, and it goes on from the lowest end, until none is lower.
#[must_use]
pub fn settle<O: Objective>(
    objective: &mut O,
    found: SearchResult<O::Refusal>,
    space: &SearchSpace,
    options: &SearchOptions,
    unit: f64,
) -> SearchResult<O::Refusal> {
    let mut found = leave_edge(objective, found, space, options, unit);
    let quick = SearchOptions { absolute: 0.1 * LOWER * unit, max_iterations: QUICK_STEPS, ..options.clone() };
    for n_left in 1..=MAX_MOVES {
        let mut lower: Option<SearchResult<O::Refusal>> = None;
        let (mut iterations, mut evaluations) = (found.iterations, found.evaluations);
        for beside in points_around(&found, space, BESIDE, unit) {
            let Ok(end) = minimize(objective, &beside, space, &quick, &mut |_| {}) else { continue };
            iterations += end.iterations;
            evaluations += end.evaluations;
            let lowest = lower.as_ref().map_or(found.expansion.value - LOWER * unit, |lower| lower.expansion.value);
            if end.expansion.value < lowest {
                lower = Some(end);
            }
        }
        let Some(lower) = lower else {
            return SearchResult { iterations, evaluations, ..found };
        };
        let mut lower = minimize(objective, &lower.theta, space, options, &mut |_| {}).unwrap_or(lower);
        (lower.iterations, lower.evaluations) = (lower.iterations + iterations, lower.evaluations + evaluations);
        found = leave_edge(objective, SearchResult { n_left, ..lower }, space, options, unit);
    }
    found
}

/// Points so many standard errors from the end of a search, on both sides along the principal directions of the
/// curvature, and no more than a nominal value away.
fn points_around<R>(found: &SearchResult<R>, space: &SearchSpace, reach: f64, unit: f64) -> Vec<Vec<f64>> {
    let n = found.theta.len();
    let curvature = Mat::from_fn(n, n, |i, j| found.expansion.curvature[(i, j)] * space.nominal[i] * space.nominal[j]);
    let Ok(eigen) = curvature.self_adjoint_eigen(faer::Side::Lower) else { return Vec::new() };
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    let mut points = Vec::with_capacity(2 * n);
    for at in (0..n).filter(|&at| values[at] > 0.0) {
        let length = (reach * (2.0 * unit / values[at]).sqrt()).min(1.0);
        for signed in [length, -length] {
            let moved: Vec<f64> =
                (0..n).map(|i| found.theta[i] + signed * vectors[(i, at)] * space.nominal[i]).collect();
            let point = space.clamp(&moved);
            if point != found.theta {
                points.push(point);
            }
        }
    }
    points
}

/// Carries a search on that is stuck on an edge of the objective; see [`settle`].
fn leave_edge<O: Objective>(
    objective: &mut O,
    mut found: SearchResult<O::Refusal>,
    space: &SearchSpace,
    options: &SearchOptions,
    unit: f64,
) -> SearchResult<O::Refusal> {
    let mut reach = FIRST_LOOK;
    for _ in 0..MAX_LOOKS {
        if found.end != SearchEnd::Stuck {
            break;
        }
        if reach < LAST_LOOK {
            found.end = SearchEnd::Converged;
            break;
        }
        let mut best: Option<(f64, Vec<f64>)> = None;
        for trial in points_around(&found, space, reach, unit) {
            found.evaluations += 1;
            let Ok(value) = objective.value(&trial) else { continue };
            if value < best.as_ref().map_or(found.expansion.value, |(value, _)| *value) {
                best = Some((value, trial));
            }
        }
        let Some((_, beside)) = best else {
            reach /= 3.0;
            continue;
        };
        let Ok(next) = minimize(objective, &beside, space, options, &mut |_| {}) else { break };
        let (iterations, evaluations) = (found.iterations, found.evaluations);
        let n_left = found.n_left;
        found = SearchResult { n_left, ..next };
        found.iterations += iterations;
        found.evaluations += evaluations;
    }
    found
}

/// How an objective rises around a point, see [`widths`].
#[derive(Clone, Debug)]
pub struct Widths {
    /// By variable, how far away it has risen by about as much as one standard error makes of it; NaN at a bound.
    pub widths: Vec<f64>,
    /// By variable, how far that should be by the curvature.
    pub expected: Vec<f64>,
    /// A point that was seen and is better.
    pub better: Option<Vec<f64>>,
}

impl Widths {
    /// Whether the objective rises as its curvature says, within this factor.
    #[must_use]
    pub fn are_as_expected(&self, factor: f64) -> bool {
        self.widths.iter().zip(&self.expected).all(|(width, expected)| width.is_nan() || *width <= factor * expected)
    }
}

/// Times that a distance is doubled.
const MAX_DOUBLED: usize = 24;

/// Values that differ by less, in units of a standard error's rise, are equal.
const EQUAL: f64 = 0.1;

/// Looks at the distances at which an objective, a negative log-likelihood, rises noticeably around a point.
///
/// A curvature H from derivatives says that it rises by r^2 / 2 at a distance of r / sqrt(H_ii). Where the objective is
/// rough, as where relations jump under a filter, derivatives speak of its teeth: on the scale of what data can tell it
/// rises much more slowly, or it falls. So both sides are looked at, two and four standard errors away by the curvature
/// and then twice as far again and again, until the mean rise is a quarter of what it should be at both distances: a
/// tooth may be as high at one.
pub fn widths<O: Objective>(objective: &mut O, found: &SearchResult<O::Refusal>, space: &SearchSpace) -> Widths {
    let (theta, value) = (&found.theta, found.expansion.value);
    let mut best: Option<(f64, Vec<f64>)> = None;
    let mut all = Widths { widths: Vec::new(), expected: Vec::new(), better: None };
    for i in 0..theta.len() {
        let curvature = found.expansion.curvature[(i, i)];
        let expected = if curvature > 0.0 { curvature.sqrt().recip() } else { space.nominal[i] };
        // The mean rise at a distance, infinite where there is no room; what is nearer, at a bound, counts for as much
        // less.
        let mut mean_rise = |distance: f64| {
            let mut rises = Vec::new();
            for sign in [1.0, -1.0] {
                let mut beside = theta.clone();
                beside[i] = (theta[i] + sign * distance).clamp(space.lower[i], space.upper[i]);
                if beside[i] == theta[i] {
                    continue;
                }
                let share = ((beside[i] - theta[i]) / distance).powi(2);
                let there = objective.value(&beside).unwrap_or(f64::INFINITY);
                rises.push((there - value) / share);
                if there < best.as_ref().map_or(value - EQUAL, |(value, _)| *value) {
                    best = Some((there, beside));
                }
            }
            if rises.is_empty() { f64::INFINITY } else { rises.iter().sum::<f64>() / rises.len() as f64 }
        };
        let mut width = expected;
        let mut near = mean_rise(2.0 * width);
        for _ in 0..MAX_DOUBLED {
            let far = mean_rise(4.0 * width);
            if near >= 0.25 * 2.0 && far >= 0.25 * 8.0 {
                break;
            }
            width *= 2.0;
            near = far;
        }
        all.widths.push(if found.at_bound[i].is_some() { f64::NAN } else { width });
        all.expected.push(expected);
    }
    all.better = best.map(|(_, theta)| theta);
    all
}

fn keep<R>(refused: &mut Vec<RefusedPoint<R>>, theta: &[f64], refusal: R) {
    if refused.len() < KEPT_REFUSALS {
        refused.push(RefusedPoint { theta: theta.to_vec(), refusal });
    }
}

/// `f + g p + p H p / 2` in nominal units, with what the bounds leave of every variable.
struct QuadraticModel {
    gradient: Vec<f64>,
    curvature: Mat<f64>,
    /// How far each variable may go down and up.
    room: Vec<(f64, f64)>,
}

impl QuadraticModel {
    fn new(expansion: &Expansion, theta: &[f64], space: &SearchSpace) -> Self {
        let n = theta.len();
        let unit = &space.nominal;
        Self {
            gradient: (0..n).map(|i| expansion.gradient[i] * unit[i]).collect(),
            curvature: Mat::from_fn(n, n, |i, j| expansion.curvature[(i, j)] * unit[i] * unit[j]),
            room: (0..n)
                .map(|i| ((space.lower[i] - theta[i]) / unit[i], (space.upper[i] - theta[i]) / unit[i]))
                .collect(),
        }
    }

    fn diagonal(&self) -> Vec<f64> {
        (0..self.gradient.len()).map(|i| self.curvature[(i, i)]).collect()
    }

    /// The step that minimizes the damped model within bounds: variables that run into a bound are set there, and the
    /// others again.
    fn step(&self, lambda: f64, weights: &[f64]) -> Vec<f64> {
        let n = self.gradient.len();
        let largest = weights.iter().fold(0.0f64, |a, &b| a.max(b));
        let weight = |i: usize| weights[i].max(1e-12 * largest).max(f64::MIN_POSITIVE);
        let mut fixed: Vec<Option<f64>> = (0..n)
            .map(|i| {
                let (down, up) = self.room[i];
                // What nothing depends on stays where it is: its gradient is rounding.
                let is_idle =
                    self.curvature[(i, i)] <= 1e-18 * largest && self.gradient[i].abs() <= 1e-9 * largest.sqrt();
                let is_stopped =
                    is_idle || (down >= 0.0 && self.gradient[i] > 0.0) || (up <= 0.0 && self.gradient[i] < 0.0);
                is_stopped.then_some(0.0)
            })
            .collect();
        loop {
            let free: Vec<usize> = (0..n).filter(|&i| fixed[i].is_none()).collect();
            let mut step: Vec<f64> = fixed.iter().map(|value| value.unwrap_or(0.0)).collect();
            if free.is_empty() {
                return step;
            }
            let matrix = Mat::from_fn(free.len(), free.len(), |a, b| {
                let (i, j) = (free[a], free[b]);
                self.curvature[(i, j)] + if i == j { lambda * weight(i) } else { 0.0 }
            });
            let pull = Mat::from_fn(free.len(), 1, |a, _| {
                let i = free[a];
                -self.gradient[i]
                    - (0..n).map(|j| fixed[j].map_or(0.0, |value| self.curvature[(i, j)] * value)).sum::<f64>()
            });
            let solution = solve_definite(&matrix, &pull);
            for (a, &i) in free.iter().enumerate() {
                step[i] = solution[(a, 0)];
            }
            let over = |i: &&usize| step[**i] < self.room[**i].0 || step[**i] > self.room[**i].1;
            let hit: Vec<usize> = free.iter().filter(over).copied().collect();
            if hit.is_empty() {
                return step;
            }
            for i in hit {
                fixed[i] = Some(step[i].clamp(self.room[i].0, self.room[i].1));
            }
        }
    }

    /// What the model says a step brings.
    fn decrease(&self, step: &[f64]) -> f64 {
        let n = step.len();
        let slope: f64 = (0..n).map(|i| self.gradient[i] * step[i]).sum();
        let bend: f64 =
            (0..n).map(|i| (0..n).map(|j| step[i] * self.curvature[(i, j)] * step[j]).sum::<f64>()).sum::<f64>();
        -(slope + 0.5 * bend)
    }

    /// What an almost undamped step would bring, or a shorter one where bounds spoil it.
    fn promised_decrease(&self, weights: &[f64]) -> f64 {
        let brings = |lambda: f64| self.decrease(&self.step(lambda, weights));
        [1e-9, 1e-3, 1.0, 1e3, 1e6].into_iter().map(brings).fold(0.0, f64::max)
    }
}

/// Solves with a symmetric matrix that is positive definite but for rounding.
fn solve_definite(matrix: &Mat<f64>, rhs: &Mat<f64>) -> Mat<f64> {
    match matrix.llt(faer::Side::Lower) {
        Ok(factor) => factor.solve(rhs),
        Err(_) => matrix.partial_piv_lu().solve(rhs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parabola with its minimum at 2 and a standard error of 0.5, under teeth that are much narrower.
    struct Rough {
        teeth: f64,
    }

    impl Objective for Rough {
        type Refusal = ();

        fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
            Ok(2.0 * (theta[0] - 2.0).powi(2) + self.teeth * (300.0 * theta[0]).sin())
        }

        fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
            let bend = 4.0 - self.teeth * 9e4 * (300.0 * theta[0]).sin();
            Ok(Expansion {
                value: self.value(theta)?,
                gradient: vec![4.0 * (theta[0] - 2.0) + self.teeth * 300.0 * (300.0 * theta[0]).cos()],
                curvature: Mat::from_fn(1, 1, |_, _| bend.abs()),
            })
        }
    }

    #[test]
    fn widths_see_the_shape_under_the_teeth_of_a_rough_objective() {
        let space = SearchSpace { lower: vec![-10.0], upper: vec![10.0], nominal: vec![1.0] };
        for (teeth, from) in [(0.0, 5.0), (0.05, 5.0), (0.05, 1.9)] {
            let mut objective = Rough { teeth };
            let found = minimize(&mut objective, &[from], &space, &SearchOptions::default(), &mut |_| {}).unwrap();
            let seen = widths(&mut objective, &found, &space);
            assert_eq!(seen.are_as_expected(3.0), teeth == 0.0, "{teeth} {from}: {seen:?}");
            let is_at_minimum = (found.theta[0] - 2.0).abs() < 0.3;
            assert_eq!(seen.better.is_none(), is_at_minimum, "{teeth} {from}: {:?} {seen:?}", found.theta);
            if is_at_minimum {
                assert!((0.2..1.0).contains(&seen.widths[0]), "{teeth} {from}: {seen:?}");
            }
        }
    }

    /// Sum of squares of residuals with their Jacobian.
    struct LeastSquares<F: Fn(&[f64]) -> Option<(Vec<f64>, Mat<f64>)>>(F);

    impl<F: Fn(&[f64]) -> Option<(Vec<f64>, Mat<f64>)>> Objective for LeastSquares<F> {
        type Refusal = &'static str;

        fn value(&mut self, theta: &[f64]) -> Result<f64, &'static str> {
            let (r, _) = (self.0)(theta).ok_or("refused")?;
            Ok(0.5 * r.iter().map(|r| r * r).sum::<f64>())
        }

        fn expand(&mut self, theta: &[f64]) -> Result<Expansion, &'static str> {
            let (r, jacobian) = (self.0)(theta).ok_or("refused")?;
            let gradient = (0..theta.len()).map(|j| (0..r.len()).map(|i| jacobian[(i, j)] * r[i]).sum()).collect();
            Ok(Expansion {
                value: 0.5 * r.iter().map(|r| r * r).sum::<f64>(),
                gradient,
                curvature: jacobian.transpose() * &jacobian,
            })
        }
    }

    fn rosenbrock(theta: &[f64]) -> Option<(Vec<f64>, Mat<f64>)> {
        let (x, y) = (theta[0], theta[1]);
        let jacobian = Mat::from_fn(2, 2, |i, j| [[-20.0 * x, 10.0], [-1.0, 0.0]][i][j]);
        Some((vec![10.0 * (y - x * x), 1.0 - x], jacobian))
    }

    fn space(lower: &[f64], upper: &[f64]) -> SearchSpace {
        SearchSpace { lower: lower.to_vec(), upper: upper.to_vec(), nominal: vec![1.0; lower.len()] }
    }

    const INF: f64 = f64::INFINITY;

    #[test]
    fn the_valley_is_followed_to_its_end() {
        let found = minimize(
            &mut LeastSquares(rosenbrock),
            &[-1.2, 1.0],
            &space(&[-INF; 2], &[INF; 2]),
            &SearchOptions { absolute: 1e-20, ..SearchOptions::default() },
            &mut |_| {},
        )
        .unwrap();
        assert_eq!(found.end, SearchEnd::Converged);
        assert!((found.theta[0] - 1.0).abs() < 1e-8 && (found.theta[1] - 1.0).abs() < 1e-8, "{found:?}");
        assert!(found.iterations < 60);
    }

    #[test]
    fn a_bound_that_is_active_is_the_answer() {
        // With x <= 0.5 the minimum of Rosenbrock's function is at (0.5, 0.25).
        let found = minimize(
            &mut LeastSquares(rosenbrock),
            &[-1.2, 1.0],
            &space(&[-2.0, -2.0], &[0.5, 2.0]),
            &SearchOptions::default(),
            &mut |_| {},
        )
        .unwrap();
        assert_eq!(found.end, SearchEnd::Converged);
        assert_eq!(found.at_bound, [Some(Bound::Upper), None]);
        assert!((found.theta[1] - 0.25).abs() < 1e-8, "{found:?}");
    }

    #[test]
    fn refused_points_are_not_entered() {
        let half_plane = |theta: &[f64]| {
            if theta[0] < 0.0 { None } else { Some((vec![theta[0] + 1.0], Mat::from_fn(1, 1, |_, _| 1.0))) }
        };
        let found = minimize(
            &mut LeastSquares(half_plane),
            &[5.0],
            &space(&[-INF], &[INF]),
            &SearchOptions::default(),
            &mut |_| {},
        )
        .unwrap();
        assert!(found.theta[0] >= 0.0 && found.theta[0] < 1e-2, "{found:?}");
        assert_eq!(found.end, SearchEnd::Stuck);
        assert!(found.refused.iter().all(|point| point.theta[0] < 0.0) && !found.refused.is_empty());
    }

    #[test]
    fn a_search_does_not_creep_along_an_edge() {
        // Down along x, but up across the edge y = sin(3 x) with a slope of 1e8 on both sides: gradients say nothing of
        // the other side.
        struct Edge(usize);
        impl Objective for Edge {
            type Refusal = ();
            fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
                Ok(1e8 * (theta[1] - (3.0 * theta[0]).sin()).abs() + (theta[0] - 10.0).powi(2))
            }
            fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
                self.0 += 1;
                let side = (theta[1] - (3.0 * theta[0]).sin()).signum();
                let gradient = vec![2.0 * (theta[0] - 10.0) - side * 3e8 * (3.0 * theta[0]).cos(), side * 1e8];
                Ok(Expansion { value: self.value(theta)?, gradient, curvature: Mat::identity(2, 2) })
            }
        }
        let mut edge = Edge(0);
        let options = SearchOptions { max_iterations: 10_000, ..SearchOptions::default() };
        let found = minimize(&mut edge, &[0.0, 0.5], &space(&[-INF; 2], &[INF; 2]), &options, &mut |_| {}).unwrap();
        assert_eq!(found.end, SearchEnd::Stuck);
        assert!(edge.0 < 200, "{} steps", edge.0);
    }

    #[test]
    fn a_minimum_on_an_edge_is_found() {
        // Least squares of |x - 1| and of what bends at it: the gradient jumps at the minimum x = 1.
        struct Bent;
        impl Objective for Bent {
            type Refusal = ();
            fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
                let (x, y) = (theta[0], theta[1]);
                Ok(0.5 * ((x - 1.0).abs() + 1.0).powi(2) + 5.0 * (y - 2.0 * x).powi(2))
            }
            fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
                let (x, y) = (theta[0], theta[1]);
                let slope = (x - 1.0).signum() * ((x - 1.0).abs() + 1.0);
                let gradient = vec![slope - 20.0 * (y - 2.0 * x), 10.0 * (y - 2.0 * x)];
                let curvature = Mat::from_fn(2, 2, |i, j| [[41.0, -20.0], [-20.0, 10.0]][i][j]);
                Ok(Expansion { value: self.value(theta)?, gradient, curvature })
            }
        }
        let (space, options) = (space(&[-INF; 2], &[INF; 2]), SearchOptions::default());
        let found = minimize(&mut Bent, &[-3.0, 4.0], &space, &options, &mut |_| {}).unwrap();
        assert_eq!(found.end, SearchEnd::Stuck);
        let unit = 1e-4;
        let settled = settle(&mut Bent, found, &space, &options, unit);
        assert_eq!(settled.end, SearchEnd::Converged);
        let error = (2.0 * unit / 0.1f64).sqrt();
        assert!((settled.theta[0] - 1.0).abs() < 0.1 * error, "{settled:?}");
    }

    #[test]
    fn the_lowest_of_minima_within_a_standard_error_is_found() {
        // The lower envelope of two parabolas with their minima at -0.3 and 0.4 standard errors: the gradient jumps
        // between them, and a search ends in the one on whose side it began.
        struct Twofold;
        const ENDS: [(f64, f64); 2] = [(-0.3, 0.2), (0.4, 0.0)];
        impl Objective for Twofold {
            type Refusal = ();
            fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
                Ok(self.expand(theta)?.value)
            }
            fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
                let of = |(end, height): (f64, f64)| (height + (theta[0] - end).powi(2), 2.0 * (theta[0] - end));
                let (one, other) = (of(ENDS[0]), of(ENDS[1]));
                let (value, slope) = if one.0 < other.0 { one } else { other };
                Ok(Expansion { value: 100.0 + value, gradient: vec![slope], curvature: Mat::from_fn(1, 1, |_, _| 2.0) })
            }
        }
        let (space, options) = (space(&[-INF], &[INF]), SearchOptions::default());
        for (from, n_left) in [(-1.0, 1), (1.0, 0)] {
            let found = minimize(&mut Twofold, &[from], &space, &options, &mut |_| {}).unwrap();
            assert_eq!(found.theta[0] < 0.0, from < 0.0);
            let settled = settle(&mut Twofold, found, &space, &options, 1.0);
            assert_eq!(settled.n_left, n_left);
            assert!((settled.theta[0] - 0.4).abs() < 1e-6, "{settled:?}");
        }
    }

    #[test]
    fn scales_do_not_matter() {
        let scaled = |theta: &[f64]| {
            let (r, jacobian) = rosenbrock(&[theta[0] * 1e6, theta[1] * 1e-5])?;
            Some((r, Mat::from_fn(2, 2, |i, j| jacobian[(i, j)] * [1e6, 1e-5][j])))
        };
        let mut units = space(&[-INF; 2], &[INF; 2]);
        units.nominal = vec![1e-6, 1e5];
        let options = SearchOptions { absolute: 1e-20, ..SearchOptions::default() };
        let found = minimize(&mut LeastSquares(scaled), &[-1.2e-6, 1e5], &units, &options, &mut |_| {}).unwrap();
        let plain =
            minimize(&mut LeastSquares(rosenbrock), &[-1.2, 1.0], &space(&[-INF; 2], &[INF; 2]), &options, &mut |_| {})
                .unwrap();
        assert!((found.theta[0] * 1e6 - 1.0).abs() < 1e-8);
        assert_eq!(found.iterations, plain.iterations);
    }

    #[test]
    fn starts_fill_every_part_of_every_range_once() {
        let space = SearchSpace { lower: vec![1.0, -1.0, 0.0], upper: vec![1000.0, 1.0, INF], nominal: vec![1.0; 3] };
        let starts = space.starts(&[10.0, 0.5, 2.0], 9, 4);
        assert_eq!(starts.len(), 9);
        assert_eq!(starts[0], [10.0, 0.5, 2.0]);
        let mut decades: Vec<usize> = starts[1..].iter().map(|theta| (theta[0].log10() / 3.0 * 8.0) as usize).collect();
        decades.sort_unstable();
        assert_eq!(decades, (0..8).collect::<Vec<_>>());
        assert!(starts.iter().all(|theta| theta[2] > 0.0 && theta[2] <= 20.0));
        assert_eq!(starts, space.starts(&[10.0, 0.5, 2.0], 9, 4));
    }
}
