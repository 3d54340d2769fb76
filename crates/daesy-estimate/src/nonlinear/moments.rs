//! Filters and smoothers that keep a mean and a covariance.
//!
//! ```text
//! predict   m' = E f(x, e),  P' = cov f(x, e),  C = cov(x, f(x, e))     f: the model over one grid interval
//! correct   m = m' + K (y - E h(x)),  K = cov(x, h) (cov h + R)^-1,  P = P' - K cov(h, x)
//! smooth    G = C P'^-1,  m_s = m + G (m_s+ - m'),  P_s = P + G (P_s+ - P') G'
//! ```
//!
//! Moments are those of 2 n points m +- sqrt(n) columns of P^(1/2), or those of the linear map at the mean. The noise e
//! of an interval takes part in it as the state x does: a disturbance runs to its new value within the interval, and
//! moves the model on its way. Where samples are as far apart as grid points are, this is a third of what it does.
//! Covariances are singular where constraints hold; roots and inverses are taken on what is left.

use daesy_integrate::ensemble::{EnsembleError, Walk, Wanted};
use daesy_system::Watch;
use faer::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

use super::given::GivenNoise;
use super::spectrum::Spectrum;
use super::{Approximation, FilterProblem, StateEstimates};
use crate::horizon::{Ahead, Beliefs, Horizon};
use crate::noise::DiscreteProcess;
use crate::online::Innovation;

/// How moments pass through the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// By points.
    Points,
    /// By derivatives.
    Derivatives,
}

/// How to filter.
#[derive(Clone, Debug)]
pub struct MomentOptions {
    /// How moments pass through the model.
    pub spread: Spread,
    /// Whether signals are wanted, filtered and smoothed; innovations come in any case.
    pub smooths: bool,
    /// Stops the filter.
    pub watch: Watch,
}

/// A mean and a covariance.
#[derive(Clone, Debug)]
pub struct Moments {
    /// The mean.
    pub mean: Vec<f64>,
    /// The covariance.
    pub covariance: Mat<f64>,
}

/// One interval, for the way back.
struct Passed {
    filtered: Moments,
    predicted: Moments,
    cross: Mat<f64>,
}

/// A root of a covariance on its positive part: the symmetric one of the correlation, in units of the standard
/// deviations. So it does not depend on units, and what is small beside others is as accurate as these.
#[derive(Clone, Debug, Default)]
struct Root {
    size: Vec<f64>,
    /// What is known exactly takes no part, as most states at the start.
    spread: Vec<usize>,
    spectrum: Spectrum,
    weights: Vec<f64>,
}

impl Root {
    /// Finds the root of a matrix.
    fn of(&mut self, matrix: &Mat<f64>) {
        let Self { size, spread, spectrum, weights } = self;
        let n = matrix.nrows();
        size.clear();
        size.extend((0..n).map(|i| matrix[(i, i)].max(0.0).sqrt()));
        spread.clear();
        spread.extend((0..n).filter(|&i| size[i] > 0.0));
        let is_found = spectrum.decompose(spread.len(), |a, b| {
            let (i, j) = (spread[a], spread[b]);
            0.5 * (matrix[(i, j)] + matrix[(j, i)]) / (size[i] * size[j])
        });
        weights.clear();
        if is_found {
            weights.extend(spectrum.values().iter().map(|value| value.max(0.0).sqrt()));
        } else {
            spread.clear();
        }
    }

    /// Calls for each entry that is not zero by itself: row, column, value.
    fn for_each(&self, mut of: impl FnMut(usize, usize, f64)) {
        for (b, &j) in self.spread.iter().enumerate() {
            for (a, &i) in self.spread.iter().enumerate() {
                of(i, j, self.size[i] * self.spectrum.entry(&self.weights, a, b));
            }
        }
    }
}

/// The root of a covariance as a matrix, see [`Root`].
pub(crate) fn root(matrix: &Mat<f64>) -> Mat<f64> {
    let mut found = Root::default();
    found.of(matrix);
    let mut root = Mat::zeros(matrix.nrows(), matrix.nrows());
    found.for_each(|i, j, value| root[(i, j)] = value);
    root
}

/// Inverse on the part above rounding, rows and columns scaled alike.
pub(crate) fn pseudo_inverse(matrix: &Mat<f64>) -> Mat<f64> {
    let n = matrix.nrows();
    let scale: Vec<f64> = (0..n).map(|i| if matrix[(i, i)] > 0.0 { matrix[(i, i)].sqrt() } else { 1.0 }).collect();
    let mut spectrum = Spectrum::default();
    if !spectrum.decompose(n, |i, j| 0.5 * (matrix[(i, j)] + matrix[(j, i)]) / (scale[i] * scale[j])) {
        return Mat::zeros(n, n);
    }
    let weights: Vec<f64> =
        spectrum.values().iter().map(|&value| if value > 1e-11 { 1.0 / value } else { 0.0 }).collect();
    Mat::from_fn(n, n, |i, j| spectrum.entry(&weights, i, j) / (scale[i] * scale[j]))
}

/// Inverse of the covariance of a prediction for the way back, without the directions in which it is nothing but
/// rounding and errors of integration.
///
/// In units of the prediction's own spread, with `P' = V diag(l) V'`, what is known later moves it by
/// `z = l^-1/2 V' (m_s+ - m')`, a few at most, and changes its covariance by `diag(l^-1/2) V' (P_s+ - P') V diag(l^-1/2)`,
/// whose diagonal is between -1 (all is known) and 0 (nothing was learned). Where `l` is tiny both are quotients of
/// errors by tiny numbers; a direction that breaks these bounds says nothing about the state before.
pub(crate) fn smoothing_inverse(predicted: &Moments, known: &Moments) -> Mat<f64> {
    /// Eigenvalues of the correlation above this are not doubted.
    const SURE: f64 = 1e-2;
    const FARTHEST: f64 = 10.0;
    const SLACK: f64 = 0.01;
    let n = predicted.mean.len();
    if n == 0 {
        return Mat::zeros(0, 0);
    }
    let size = |i: usize| predicted.covariance[(i, i)].max(0.0).sqrt();
    let scale: Vec<f64> = (0..n).map(|i| if size(i) > 0.0 { size(i) } else { 1.0 }).collect();
    let scaled = |matrix: &dyn Fn(usize, usize) -> f64| {
        Mat::from_fn(n, n, |i, j| 0.5 * (matrix(i, j) + matrix(j, i)) / (scale[i] * scale[j]))
    };
    let correlation = scaled(&|i, j| predicted.covariance[(i, j)]);
    let learned = scaled(&|i, j| known.covariance[(i, j)] - predicted.covariance[(i, j)]);
    let moved = Mat::from_fn(n, 1, |i, _| (known.mean[i] - predicted.mean[i]) / scale[i]);
    let Ok(eigen) = SelfAdjointEigen::new(correlation.as_ref(), faer::Side::Lower) else { return Mat::zeros(n, n) };
    let values = eigen.S().column_vector();
    let vectors = eigen.U();
    let says_something = |&k: &usize| {
        let value = values[k];
        if value <= 1e-11 || value > SURE {
            return value > SURE;
        }
        let direction = vectors.get(.., k..k + 1);
        let moved = (direction.transpose() * &moved)[(0, 0)] / value.sqrt();
        let learned = (direction.transpose() * &learned * direction)[(0, 0)] / value;
        moved.abs() <= FARTHEST && (-1.0 - SLACK..=SLACK).contains(&learned)
    };
    let kept: Vec<usize> = (0..n).filter(says_something).collect();
    Mat::from_fn(n, n, |i, j| {
        let sum: f64 = kept.iter().map(|&k| vectors[(i, k)] * vectors[(j, k)] / values[k]).sum();
        sum / (scale[i] * scale[j])
    })
}

/// How far the point of a lane is from the mean, in columns of a root of the covariance of so many dimensions.
fn reach(lane: usize, n_dimensions: usize) -> f64 {
    let size = (n_dimensions as f64).sqrt();
    if lane.is_multiple_of(2) { size } else { -size }
}

/// Components of the disturbances at points that stand for them at the start, two for each component.
#[must_use]
pub fn start_points(process: &DiscreteProcess) -> Vec<Vec<f64>> {
    let n = process.n_components();
    let point = |lane: usize| {
        let drawn = process.drawn_start(&|component: usize| if component == lane / 2 { 1.0 } else { 0.0 });
        drawn.into_iter().map(|value| reach(lane, n) * value).collect()
    };
    (0..2 * n).map(point).collect()
}

/// The model with its disturbances as a map of moments.
struct Passage<'f, 'e> {
    problem: &'f FilterProblem<'f>,
    walk: Walk<'e>,
    noise: GivenNoise<'f>,
    spread: Spread,
    /// Whether the mean is all there is: nothing disturbs the model, whose start is known.
    is_certain: bool,
    n_states: usize,
    n: usize,
    n_lanes: usize,
    root: Root,
    /// How far points are from their mean: `[component * n_lanes + lane]`.
    moved: Vec<f64>,
    /// What they became.
    values: Vec<f64>,
}

impl Passage<'_, '_> {
    /// Points that stand for moments among `n_dimensions` in all, as differences from their mean; gives their number.
    fn spread_points(&mut self, moments: &Moments, n_dimensions: usize) -> usize {
        self.moved.fill(0.0);
        if self.spread == Spread::Derivatives || self.is_certain {
            return 1;
        }
        self.root.of(&moments.covariance);
        let (moved, n_lanes) = (&mut self.moved, self.n_lanes);
        let reach = (n_dimensions as f64).sqrt();
        self.root.for_each(|i, j, value| {
            moved[i * n_lanes + 2 * j] = reach * value;
            moved[i * n_lanes + 2 * j + 1] = -reach * value;
        });
        2 * self.n
    }

    fn n_components(&self) -> usize {
        self.n - self.n_states
    }

    /// Puts points into the lanes at a grid point.
    fn place(&mut self, mean: &[f64], n_points: usize, at: usize) {
        let n_lanes = self.n_lanes;
        for (i, (&mean, moved)) in mean.iter().zip(self.moved.chunks_exact(n_lanes)).enumerate() {
            let row = match i.checked_sub(self.n_states) {
                None => self.walk.state_row_mut(i),
                Some(component) => &mut self.noise.begin[component * n_lanes..][..n_lanes],
            };
            row[..n_points].iter_mut().zip(moved).for_each(|(value, moved)| *value = mean + moved);
        }
        if self.spread == Spread::Derivatives {
            for direction in 0..self.n + self.n_components() {
                for state in 0..self.n_states {
                    let unit = if direction == state { 1.0 } else { 0.0 };
                    self.walk.set_state(0, state, 1 + direction, unit);
                }
            }
        }
        self.noise.expect();
        self.walk.restart(at, 0.0, &mut self.noise);
    }

    /// Mean, covariance and cross-covariance with the state of the values at so many points.
    fn moments_of_points(&mut self, m: usize, n_points: usize) -> (Moments, Mat<f64>) {
        let (n, n_lanes) = (self.n, self.n_lanes);
        let share = 1.0 / n_points as f64;
        let mut mean = Vec::with_capacity(m);
        for row in self.values.chunks_exact_mut(n_lanes).take(m) {
            let row = &mut row[..n_points];
            let centre = share * row.iter().sum::<f64>();
            row.iter_mut().for_each(|value| *value -= centre);
            mean.push(centre);
        }
        let off = |i: usize| &self.values[i * n_lanes..][..n_points];
        let mut covariance = Mat::zeros(m, m);
        for i in 0..m {
            for j in 0..=i {
                covariance[(i, j)] = share * product(off(i), off(j));
                covariance[(j, i)] = covariance[(i, j)];
            }
        }
        let cross = Mat::from_fn(n, m, |i, j| share * product(&self.moved[i * n_lanes..][..n_points], off(j)));
        (Moments { mean, covariance }, cross)
    }

    /// Whether all points that stand for the moments were followed so far.
    fn check(&self) -> Result<(), EnsembleError> {
        self.walk.first_failure().map_or(Ok(()), |failure| Err(EnsembleError::of_filter(failure)))
    }

    /// Moments one interval later.
    fn predict(&mut self, from: &Moments, interval: usize) -> (Moments, Mat<f64>) {
        let (n_lanes, n_components) = (self.n_lanes, self.n_components());
        let n_dimensions = self.n + n_components;
        let n_spread = self.spread_points(from, n_dimensions);
        let n_points = if n_spread == 1 { 1 } else { 2 * n_dimensions };
        // What follows depends on the moments here alone, as where samples come one by one.
        self.walk.forget_pace(interval);
        self.place(&from.mean, n_points, interval);
        for lane in n_spread..n_points {
            let by = reach(lane, n_dimensions);
            let noise = &mut self.noise;
            let number = (lane - n_spread) / 2;
            for component in 0..n_components {
                noise.end[component * n_lanes + lane] += by * noise.steps[number * n_components + component];
            }
        }
        self.walk.cross(interval, &mut self.noise);
        for i in 0..self.n {
            let row = match i.checked_sub(self.n_states) {
                None => self.walk.state_row(i),
                Some(component) => &self.noise.end[component * n_lanes..][..n_lanes],
            };
            self.values[i * n_lanes..][..n_lanes].copy_from_slice(row);
        }
        if self.spread == Spread::Points {
            return self.moments_of_points(self.n, n_points);
        }
        let mut jacobian = Mat::<f64>::zeros(self.n, n_dimensions);
        for direction in 0..n_dimensions {
            for state in 0..self.n_states {
                jacobian[(state, direction)] = self.walk.state(0, state, 1 + direction);
            }
            if let Some(component) = direction.checked_sub(self.n_states) {
                for (row, value) in self.noise.slopes(component).end.into_iter().enumerate() {
                    jacobian[(self.n_states + row, direction)] = value;
                }
            }
        }
        let by_state = jacobian.get(.., ..self.n).to_owned();
        let by_noise = jacobian.get(.., self.n..);
        let (mut predicted, cross) = by_derivatives(from, self.values[..self.n].to_vec(), &by_state);
        predicted.covariance += by_noise * by_noise.transpose();
        (predicted, cross)
    }

    /// Moments at the start: disturbances as they are at rest, states as given, or as they follow from the disturbances
    /// where these take part in the start.
    fn start(&mut self) -> Moments {
        let (n, n_states) = (self.n, self.n_states);
        let mut start = Moments {
            mean: (0..n).map(|i| if i < n_states { self.walk.state(0, i, 0) } else { 0.0 }).collect(),
            covariance: Mat::zeros(n, n),
        };
        let stationary = self.problem.process.start_covariance();
        start.covariance.get_mut(n_states.., n_states..).copy_from(&stationary);
        let points = start_points(self.problem.process);
        let lanes = self.problem.point.starts.first().map_or(&[][..], |start| &start.lanes);
        if lanes.len() < 2 || lanes.len() != points.len() {
            return start;
        }
        let states = &self.problem.program.layout().states;
        let values: Vec<Vec<f64>> =
            lanes.iter().map(|lane| states.iter().map(|&state| lane.states[state as usize]).collect()).collect();
        let share = 1.0 / points.len() as f64;
        for (i, mean) in start.mean[..n_states].iter_mut().enumerate() {
            *mean = share * values.iter().map(|value| value[i]).sum::<f64>();
        }
        let off = |lane: usize, i: usize| match i.checked_sub(n_states) {
            Some(component) => points[lane][component],
            None => values[lane][i] - start.mean[i],
        };
        for i in 0..n_states {
            for j in 0..n {
                let product: f64 = (0..points.len()).map(|lane| off(lane, i) * off(lane, j)).sum();
                start.covariance[(i, j)] = share * product;
                start.covariance[(j, i)] = share * product;
            }
        }
        start
    }

    /// Corrects moments at a grid point by the measured values that are present.
    ///
    /// With S the covariance of what is measured, `C = cov(x, h)`, the gain `K = C S^-1` and errors of covariance R, the
    /// corrected covariance `P - K S K'` is also that of `x - K (h + e)`, a sum of squares,
    ///
    /// ```text
    /// mean over points of (dx - K dh)(dx - K dh)' + K R K',      or      (I - K H) P (I - K H)' + K R K'
    /// ```
    ///
    /// by derivatives H, which keeps its digits where a sensor is far more accurate than what was known before: of the
    /// difference of two matrices of size 1e12 nothing is left at 1e-4.   [@bierman1977, ch. 2]
    fn correct(&mut self, now: &mut Moments, point: usize, measured: &[f64], present: &[usize]) -> Correction {
        let Observed { expected, cross, jacobian, n_points } = self.observe(now, point);
        let m = present.len();
        let covariance = Mat::from_fn(m, m, |i, j| {
            let error = if i == j { self.problem.variances[present[i]] } else { 0.0 };
            expected.covariance[(present[i], present[j])] + error
        });
        let cross = Mat::from_fn(self.n, m, |i, j| cross[(i, present[j])]);
        let errors = Mat::from_fn(m, 1, |i, _| measured[present[i]] - expected.mean[present[i]]);
        let inverse = pseudo_inverse(&covariance);
        let gain = &cross * &inverse;
        let step = &gain * &errors;
        now.mean.iter_mut().enumerate().for_each(|(i, mean)| *mean += step[(i, 0)]);
        let left = match &jacobian {
            Some(jacobian) => {
                let by_state = Mat::from_fn(m, self.n, |i, j| jacobian[(present[i], j)]);
                let rest = Mat::<f64>::identity(self.n, self.n) - &gain * by_state;
                &rest * &now.covariance * rest.transpose()
            }
            None => self.spread_around(&gain, present, n_points),
        };
        let weighed = Mat::from_fn(self.n, m, |i, j| gain[(i, j)] * self.problem.variances[present[j]]);
        now.covariance = left + weighed * gain.transpose();
        Correction { covariance, inverse, errors }
    }

    /// The covariance of `x - K h` among the points of the last observation.
    fn spread_around(&self, gain: &Mat<f64>, present: &[usize], n_points: usize) -> Mat<f64> {
        let (n, n_lanes) = (self.n, self.n_lanes);
        let mut off = self.moved.clone();
        for (i, row) in off.chunks_exact_mut(n_lanes).enumerate() {
            for (j, &measured) in present.iter().enumerate() {
                let values = &self.values[measured * n_lanes..][..n_points];
                row[..n_points].iter_mut().zip(values).for_each(|(off, value)| *off -= gain[(i, j)] * value);
            }
        }
        let row = |i: usize| &off[i * n_lanes..][..n_points];
        let share = 1.0 / n_points as f64;
        let mut covariance = Mat::zeros(n, n);
        for i in 0..n {
            for j in 0..=i {
                covariance[(i, j)] = share * product(row(i), row(j));
                covariance[(j, i)] = covariance[(i, j)];
            }
        }
        covariance
    }

    /// Moments of the observed quantities at a grid point.
    fn observe(&mut self, from: &Moments, at: usize) -> Observed {
        let n_points = self.spread_points(from, self.n);
        self.place(&from.mean, n_points, at);
        let n_observed = self.problem.n_observed();
        let rows = self.walk.observe(at);
        let n_lanes = self.n_lanes;
        if self.spread == Spread::Points {
            self.values[..n_observed * n_lanes].copy_from_slice(&rows[..n_observed * n_lanes]);
            let (expected, cross) = self.moments_of_points(n_observed, n_points);
            return Observed { expected, cross, jacobian: None, n_points };
        }
        let jacobian =
            Mat::from_fn(n_observed, self.n, |row, direction| rows[((1 + direction) * n_observed + row) * n_lanes]);
        let mean = (0..n_observed).map(|row| rows[row * n_lanes]).collect();
        let (expected, cross) = by_derivatives(from, mean, &jacobian);
        Observed { expected, cross, jacobian: Some(jacobian), n_points }
    }
}

/// Mean, covariance and cross-covariance with the state of values by their derivatives (`[value, direction]`).
fn by_derivatives(from: &Moments, mean: Vec<f64>, jacobian: &Mat<f64>) -> (Moments, Mat<f64>) {
    let cross = &from.covariance * jacobian.transpose();
    let covariance = jacobian * &cross;
    (Moments { mean, covariance }, cross)
}

/// The sum of products, in a fixed order.
fn product(one: &[f64], other: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (parts, others) = (one.chunks_exact(4), other.chunks_exact(4));
    let rest: f64 = parts.remainder().iter().zip(others.remainder()).map(|(a, b)| a * b).sum();
    for (part, other) in parts.zip(others) {
        sums.iter_mut().zip(part).zip(other).for_each(|((sum, a), b)| *sum += a * b);
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// What is expected of the observed quantities.
struct Observed {
    expected: Moments,
    /// Their covariance with the state.
    cross: Mat<f64>,
    /// Their derivatives by the state, where moments follow from these.
    jacobian: Option<Mat<f64>>,
    /// Points that stand for the moments, whose distances from the mean are in the passage.
    n_points: usize,
}

/// What measured values said beside a prediction.
struct Correction {
    covariance: Mat<f64>,
    inverse: Mat<f64>,
    errors: Mat<f64>,
}

fn with_passage<R>(problem: &FilterProblem<'_>, spread: Spread, of: impl FnOnce(&mut Passage<'_, '_>) -> R) -> R {
    let n_states = problem.program.layout().states.len();
    let n_components = problem.process.n_components();
    let n = n_states + n_components;
    let is_certain = n_components == 0;
    let n_lanes = if spread == Spread::Points && !is_certain { 2 * (n + n_components) } else { 1 };
    problem.with_walk(n_lanes, |ensemble| {
        let wanted = Wanted::default();
        let mut noise = GivenNoise::new(problem.process, n_lanes, n_states);
        let walk = Walk::new(ensemble, 0, problem.point, problem.slots, &wanted, &mut noise);
        let values = vec![0.0; n.max(problem.n_observed()) * n_lanes];
        let (root, moved) = (Root::default(), vec![0.0; n * n_lanes]);
        of(&mut Passage { problem, walk, noise, spread, is_certain, n_states, n, n_lanes, root, moved, values })
    })
}

/// Filters an experiment, and smooths if asked.
///
/// # Errors
/// When a point that stands for the moments cannot be followed.
pub fn filter_by_moments(
    problem: &FilterProblem<'_>,
    options: &MomentOptions,
) -> Result<StateEstimates, EnsembleError> {
    with_passage(problem, options.spread, |passage| run(problem, options, passage))
}

/// Predictions of all measurements with each horizon.
///
/// # Errors
/// As [`filter_by_moments`].
pub fn ahead_by_moments(
    problem: &FilterProblem<'_>,
    options: &MomentOptions,
    horizons: &[Horizon],
) -> Result<Vec<Ahead>, EnsembleError> {
    with_passage(problem, options.spread, |passage| {
        let n_measured = problem.n_measured();
        let mut found = vec![Ahead::default(); horizons.len()];
        let mut beliefs = Beliefs::new(passage.start(), horizons);
        for (point, sample) in problem.sample_at().into_iter().enumerate() {
            if options.watch.is_stopped() {
                return Err(EnsembleError::Stopped);
            }
            if point > 0 {
                beliefs.iter_mut().for_each(|belief| *belief = passage.predict(belief, point - 1).0);
                passage.check()?;
            }
            let Some(sample) = sample else { continue };
            for (found, &horizon) in found.iter_mut().zip(horizons) {
                let Observed { expected: seen, .. } = passage.observe(beliefs.of(horizon), point);
                found.means.extend(&seen.mean[..n_measured]);
                let variances = problem.variances.iter().enumerate();
                found.variances.extend(variances.map(|(at, error)| seen.covariance[(at, at)].max(0.0) + error));
            }
            let measured = &problem.measured[sample * n_measured..(sample + 1) * n_measured];
            let present: Vec<usize> = (0..n_measured).filter(|&output| measured[output].is_finite()).collect();
            let mut corrected = beliefs.latest().clone();
            if !present.is_empty() {
                passage.correct(&mut corrected, point, measured, &present);
            }
            beliefs.push(corrected);
        }
        Ok(found)
    })
}

fn run(
    problem: &FilterProblem<'_>,
    options: &MomentOptions,
    passage: &mut Passage<'_, '_>,
) -> Result<StateEstimates, EnsembleError> {
    let n = passage.n;
    let (n_measured, n_observed) = (problem.n_measured(), problem.n_observed());
    let n_samples = problem.grid.samples.len();
    let mut estimates = StateEstimates {
        log_likelihood: 0.0,
        filtered: vec![f64::NAN; n_samples * n_observed],
        filtered_std: vec![f64::NAN; n_samples * n_observed],
        smoothed: vec![f64::NAN; n_samples * n_observed],
        smoothed_std: vec![f64::NAN; n_samples * n_observed],
        innovations: vec![f64::NAN; n_samples * n_measured],
        innovation_std: vec![f64::NAN; n_samples * n_measured],
        innovation_covariances: vec![f64::NAN; n_samples * n_measured * n_measured],
        approximation: match options.spread {
            Spread::Points => Approximation::Unscented,
            Spread::Derivatives => Approximation::Extended,
        },
        mixture: None,
    };
    let mut now = passage.start();
    let sample_at = problem.sample_at();
    let mut passed: Vec<Passed> = Vec::new();
    for (point, &sample) in sample_at.iter().enumerate() {
        if options.watch.is_stopped() {
            return Err(EnsembleError::Stopped);
        }
        if point > 0 {
            let (predicted, cross) = passage.predict(&now, point - 1);
            passage.check()?;
            if options.smooths {
                passed.push(Passed { filtered: now, predicted: predicted.clone(), cross });
            }
            now = predicted;
        }
        let Some(sample) = sample else { continue };
        let measured = &problem.measured[sample * n_measured..(sample + 1) * n_measured];
        let present: Vec<usize> = (0..n_measured).filter(|&output| measured[output].is_finite()).collect();
        if !present.is_empty() {
            let Correction { covariance, inverse, errors } = passage.correct(&mut now, point, measured, &present);
            let m = present.len();
            for (i, &output) in present.iter().enumerate() {
                estimates.innovations[sample * n_measured + output] = errors[(i, 0)];
                estimates.innovation_std[sample * n_measured + output] = covariance[(i, i)].max(0.0).sqrt();
                for (j, &other) in present.iter().enumerate() {
                    let at = (sample * n_measured + output) * n_measured + other;
                    estimates.innovation_covariances[at] = covariance[(i, j)];
                }
            }
            let least = present.iter().fold(f64::INFINITY, |least, &output| least.min(problem.variances[output]));
            let Some(log_determinant) = log_determinant(&covariance, least) else {
                return Err(EnsembleError::NoCovariance { time: problem.grid.samples[sample] });
            };
            let distance = (errors.transpose() * &inverse * &errors)[(0, 0)];
            estimates.log_likelihood -=
                0.5 * (distance + log_determinant + m as f64 * (2.0 * std::f64::consts::PI).ln());
        }
        if !options.smooths {
            continue;
        }
        let Observed { expected: found, .. } = passage.observe(&now, point);
        for signal in 0..n_observed {
            estimates.filtered[sample * n_observed + signal] = found.mean[signal];
            estimates.filtered_std[sample * n_observed + signal] = found.covariance[(signal, signal)].max(0.0).sqrt();
        }
    }
    if options.smooths {
        for point in (0..sample_at.len()).rev() {
            if let Some(sample) = sample_at[point] {
                let Observed { expected: found, .. } = passage.observe(&now, point);
                for signal in 0..n_observed {
                    estimates.smoothed[sample * n_observed + signal] = found.mean[signal];
                    estimates.smoothed_std[sample * n_observed + signal] =
                        found.covariance[(signal, signal)].max(0.0).sqrt();
                }
            }
            let Some(step) = passed.pop() else { break };
            let gain = &step.cross * smoothing_inverse(&step.predicted, &now);
            let change = Mat::from_fn(n, 1, |i, _| now.mean[i] - step.predicted.mean[i]);
            let moved = &gain * change;
            let covariance = &now.covariance - &step.predicted.covariance;
            now = Moments {
                mean: (0..n).map(|i| step.filtered.mean[i] + moved[(i, 0)]).collect(),
                covariance: &step.filtered.covariance + &gain * covariance * gain.transpose(),
            };
        }
    }
    Ok(estimates)
}

/// What a filter carries from one sample to the next.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Mean and covariance of states and components of disturbances.
    pub moments: Moments,
    /// What the lanes carry: states, and where the search for unknowns begins.
    pub lanes: Vec<f64>,
}

/// A filter after one sample.
#[derive(Clone, Debug)]
pub struct Crossed {
    /// What is carried on.
    pub carried: Carried,
    /// What the sample said, output by output.
    pub innovations: Vec<Innovation>,
    /// Means of all observed quantities.
    pub mean: Vec<f64>,
    /// Their standard deviations.
    pub std: Vec<f64>,
    /// Whether every point that stands for the distribution was followed to the sample.
    pub is_whole: bool,
}

/// Goes to the only sample of a problem, from what was carried to the beginning of its grid, or from its start if
/// nothing was, and takes the measurements there. The same steps as those of [`filter_by_moments`] between two samples.
#[must_use]
pub fn cross_to_sample(
    problem: &FilterProblem<'_>,
    spread: Spread,
    from: Option<&Carried>,
    measured: &[f64],
) -> Crossed {
    with_passage(problem, spread, |passage| {
        let mut now = match from {
            Some(carried) => {
                passage.walk.set_carried(&carried.lanes);
                carried.moments.clone()
            }
            None => passage.start(),
        };
        let n_intervals = problem.grid.n_intervals();
        for interval in 0..n_intervals {
            now = passage.predict(&now, interval).0;
        }
        let present: Vec<usize> = (0..measured.len()).filter(|&output| measured[output].is_finite()).collect();
        let mut innovations = vec![Innovation::MISSING; measured.len()];
        if !present.is_empty() {
            let Correction { covariance, errors, .. } = passage.correct(&mut now, n_intervals, measured, &present);
            for (i, (&output, (normalized, std))) in present.iter().zip(whitened(&covariance, &errors)).enumerate() {
                innovations[output] = Innovation { value: errors[(i, 0)], normalized, std };
            }
        }
        let Observed { expected: observed, .. } = passage.observe(&now, n_intervals);
        let std = (0..observed.mean.len()).map(|at| observed.covariance[(at, at)].max(0.0).sqrt()).collect();
        let is_whole =
            passage.walk.is_alive().iter().all(|is_alive| *is_alive) && now.mean.iter().all(|value| value.is_finite());
        let carried = Carried { moments: now, lanes: passage.walk.carried() };
        Crossed { carried, innovations, mean: observed.mean, std, is_whole }
    })
}

/// `L^-1 e` with `covariance = L L^T`: each error less what those before it say about it, over its standard deviation,
/// and that; NaN where it is zero.
fn whitened(covariance: &Mat<f64>, errors: &Mat<f64>) -> Vec<(f64, f64)> {
    let m = errors.nrows();
    let mut factor = Mat::<f64>::zeros(m, m);
    let mut white = vec![(f64::NAN, f64::NAN); m];
    for i in 0..m {
        let mut error = errors[(i, 0)];
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| factor[(i, k)] * factor[(j, k)]).sum();
            let left = covariance[(i, j)] - known;
            if j < i {
                factor[(i, j)] = if factor[(j, j)] > 0.0 { left / factor[(j, j)] } else { 0.0 };
                error -= if factor[(j, j)] > 0.0 { factor[(i, j)] * white[j].0 } else { 0.0 };
            } else if left > 1e-14 * covariance[(i, i)] {
                factor[(i, i)] = left.sqrt();
                white[i] = (error / factor[(i, i)], factor[(i, i)]);
            }
        }
    }
    white
}

/// The logarithm of the determinant of an innovation covariance, `cov h + R`; `None` if that is no such matrix: its
/// eigenvalues are `least` at least, the smallest variance in `R`.
pub(crate) fn log_determinant(matrix: &Mat<f64>, least: f64) -> Option<f64> {
    let mut spectrum = Spectrum::default();
    if !spectrum.decompose(matrix.nrows(), |i, j| matrix[(i, j)]) {
        return None;
    }
    let values = spectrum.values();
    let is_one = values.iter().all(|value| *value >= 0.5 * least);
    is_one.then(|| values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mean: [f64; 2], covariance: [[f64; 2]; 2]) -> Moments {
        Moments { mean: mean.to_vec(), covariance: Mat::from_fn(2, 2, |i, j| covariance[i][j]) }
    }

    /// Two states that move as one but for 1e-8 of their variance: an error of 2e-3 between them is fourteen of what they
    /// may differ, says nothing, and must not be divided by 1e-8. What is within their spread is taken as it is.
    #[test]
    fn directions_of_rounding_say_nothing_about_the_past() {
        let predicted = moments([0.0, 0.0], [[1.0, 1.0 - 1e-8], [1.0 - 1e-8, 1.0]]);
        let half = [[0.5, 0.5], [0.5, 0.5]];
        let doubtful = smoothing_inverse(&predicted, &moments([0.5, 0.502], half));
        assert!((0..2).all(|i| (0..2).all(|j| (doubtful[(i, j)] - 0.25).abs() < 1e-6)), "{doubtful:?}");
        let learned = [[0.5, 0.5 - 5e-9], [0.5 - 5e-9, 0.5]];
        let sound = smoothing_inverse(&predicted, &moments([0.5, 0.5 + 1e-4], learned));
        let product = &sound * &predicted.covariance;
        assert!((product - Mat::<f64>::identity(2, 2)).norm_max() < 1e-6);
    }

    /// A position that spreads by 1e-18 beside a force that spreads by 1.
    #[test]
    fn roots_are_accurate_in_every_unit() {
        let (size, correlation) = ([1e-18, 1.0], 0.6);
        let product = |i: usize, j: usize| size[i] * size[j] * if i == j { 1.0 } else { correlation };
        let covariance = Mat::from_fn(2, 2, product);
        let root = root(&covariance);
        let square = &root * root.transpose();
        for i in 0..2 {
            for j in 0..2 {
                assert!((square[(i, j)] - product(i, j)).abs() < 1e-14 * size[i] * size[j], "{square:?}");
            }
        }
    }

    /// `cov h + R` is never below `R`.
    #[test]
    fn what_is_no_innovation_covariance_has_no_determinant() {
        let matrix = |a: f64| Mat::from_fn(2, 2, |i, j| if i == j { 2.0 } else { a });
        assert!((log_determinant(&matrix(1.0), 1.0).unwrap() - 3.0f64.ln()).abs() < 1e-14);
        assert_eq!(log_determinant(&matrix(1.9), 1.0), None);
        assert_eq!(log_determinant(&matrix(f64::NAN), 1.0), None);
    }
}
