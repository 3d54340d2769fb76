//! The filter of a linear model as an object that takes one sample after the other.
//!
//! [`LinearFilter`] holds the state `x` with a root `S` of its covariance and knows two moves: over a stretch of time
//! ([`LinearFilter::advance`], exact discretization) and over a sample ([`LinearFilter::correct`], Potter's method, one
//! measurement after the other [@bierman1977, ch. II]). It reads no file and keeps no record, so that what a machine
//! does live and what `estimate` does with a record are the same steps; the smoother goes forward by it too.
//!
//! A start that is not known, `x + X delta`, runs along as columns `X`. Every innovation is then `e + E delta`, and
//! `delta` follows by least squares from `A = sum E^T E / s`, `b = sum E^T e / s` [@dejong1991]. Before `A` determines
//! a signal there is no estimate of it (NaN), and innovations are not normalized.
//!
//! For nonlinear models the same role is played by [`crate::nonlinear::cross_to_sample`].

use faer::Mat;

use crate::discretize::{ContinuousModel, discretize};
use crate::error::EstimateError;
use crate::filter::StepModel;
use crate::kernel::{BLOCKED, flat, matrix, semidefinite_factor, triangularize};
use crate::likelihood::SemidefiniteInverse;
use crate::start::StartState;
use crate::state_space::StateSpace;

/// A measured value against what was expected before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Innovation {
    /// Measured less expected, given all samples before and the measurements before it in the same sample (linear
    /// models), or given all samples before (others).
    pub value: f64,
    /// The part that the measurements before it in the same sample do not explain, over its standard deviation: for a
    /// right model independent and of unit variance. NaN where that is not known yet.
    pub normalized: f64,
    /// That standard deviation.
    pub std: f64,
}

impl Innovation {
    /// Nothing was measured.
    pub const MISSING: Self = Self { value: f64::NAN, normalized: f64::NAN, std: f64::NAN };

    /// Its log-density, without the constant of 2 pi; `None` where it is not known.
    #[must_use]
    pub fn log_density(&self) -> Option<f64> {
        let Self { normalized, std, .. } = self;
        Some(-0.5 * normalized * normalized - std.ln()).filter(|density| density.is_finite())
    }
}

/// A value with its standard deviation; both NaN where data do not determine it yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
}

/// What a filter carries from one sample to the next: numbers only, to be kept and restored.
#[derive(Clone, Debug)]
pub struct LinearState {
    /// `x`.
    pub mean: Vec<f64>,
    /// `S` with covariance `S S^T`, square.
    pub factor: Mat<f64>,
    /// `X`, a column for every direction in which the start is not known.
    pub columns: Mat<f64>,
    /// `A`.
    pub normal_matrix: Mat<f64>,
    /// `b`.
    pub normal_vector: Vec<f64>,
}

impl LinearState {
    /// All numbers, one after the other.
    #[must_use]
    pub fn numbers(&self) -> Vec<f64> {
        let mut all = self.mean.clone();
        all.extend(flat(&self.factor));
        all.extend(flat(&self.columns));
        all.extend(flat(&self.normal_matrix));
        all.extend_from_slice(&self.normal_vector);
        all
    }

    /// A state like this one with other numbers; `None` where they are not as many.
    #[must_use]
    pub fn with_numbers(&self, numbers: &[f64]) -> Option<Self> {
        let (n, q) = (self.mean.len(), self.normal_vector.len());
        if numbers.len() != n + n * n + n * q + q * q + q {
            return None;
        }
        let (mean, rest) = numbers.split_at(n);
        let (factor, rest) = rest.split_at(n * n);
        let (columns, rest) = rest.split_at(n * q);
        let (normal_matrix, normal_vector) = rest.split_at(q * q);
        let matrix = |rows: usize, cols: usize, list: &[f64]| Mat::from_fn(rows, cols, |i, j| list[j * rows + i]);
        Some(Self {
            mean: mean.to_vec(),
            factor: matrix(n, n, factor),
            columns: matrix(n, q, columns),
            normal_matrix: matrix(q, q, normal_matrix),
            normal_vector: normal_vector.to_vec(),
        })
    }
}

/// A measurement that was taken, for the way back of a smoother.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Which.
    pub measurement: usize,
    /// Measured less predicted.
    pub innovation: f64,
    /// Its variance.
    pub variance: f64,
    /// `f = S^T h`, with the root `S` before it.
    pub effect: Vec<f64>,
    /// What of `f f^T / s` the root lost: `S <- S (I - shrinkage f f^T / s)`.
    pub shrinkage: f64,
    /// `E`: the effect of the unknown start.
    pub start_effect: Vec<f64>,
    /// See [`Innovation::normalized`].
    pub normalized: f64,
    /// See [`Innovation::std`].
    pub std: f64,
}

/// A stretch of time, discretized.
#[derive(Clone, Debug)]
struct Stretch {
    length: f64,
    transition: Mat<f64>,
    inputs: Vec<Mat<f64>>,
    noise: Vec<f64>,
}

/// Discretizations that are kept at most.
const MAX_KEPT: usize = 64;

/// Relative innovation variance below which a value without noise is known beforehand.
const CERTAIN: f64 = 1e-14;

/// Variance, relative to the effect of an unknown start, that stands for an exact measurement of it.
const SHARP: f64 = 1e-10;

/// A Kalman filter that takes stretches of time and samples as they come.
#[derive(Clone, Debug)]
pub struct LinearFilter {
    space: StateSpace,
    variances: Vec<f64>,
    n_inputs: usize,
    kept: Vec<Stretch>,
    state: LinearState,
}

impl LinearFilter {
    /// A filter at the start of an experiment. `variances` are those of the measurement errors.
    #[must_use]
    pub fn new(space: &StateSpace, variances: &[f64], start: &StartState) -> Self {
        let q = start.directions.ncols();
        Self {
            n_inputs: space.input.ncols(),
            space: space.clone(),
            variances: variances.to_vec(),
            kept: Vec::new(),
            state: LinearState {
                mean: start.mean.clone(),
                factor: square_factor(&start.covariance),
                columns: start.directions.clone(),
                normal_matrix: Mat::zeros(q, q),
                normal_vector: vec![0.0; q],
            },
        }
    }

    /// Keeps steps that are discretized already; they have their lengths exactly.
    pub(crate) fn keep(&mut self, lengths: &[f64], steps: &[StepModel]) {
        let n = self.state.mean.len();
        for (&length, step) in lengths.iter().zip(steps) {
            let by_power = step.inputs.chunks_exact((n * self.n_inputs).max(1));
            let mut inputs: Vec<Mat<f64>> = by_power.map(|g| matrix(g, n).to_owned()).collect();
            if inputs.is_empty() {
                inputs.push(Mat::zeros(n, 0));
            }
            let transition = matrix(&step.phi, n).to_owned();
            self.kept.push(Stretch { length, transition, inputs, noise: step.noise.clone() });
        }
    }

    /// What is carried.
    #[must_use]
    pub fn state(&self) -> &LinearState {
        &self.state
    }

    /// Goes on from what was carried.
    pub fn set_state(&mut self, state: LinearState) {
        self.state = state;
    }

    /// Lengths of the stretches that are kept, each with the number of powers of its inputs: those that come close to
    /// one of them count as it, so that they belong to what is carried on.
    #[must_use]
    pub fn lengths(&self) -> Vec<f64> {
        self.kept.iter().flat_map(|stretch| [stretch.length, stretch.inputs.len() as f64]).collect()
    }

    /// Keeps stretches of these lengths.
    pub fn set_lengths(&mut self, lengths: &[f64]) {
        self.kept.clear();
        for pair in lengths.chunks_exact(2) {
            self.stretch(pair[0], 0.0, pair[1] as usize);
        }
    }

    /// The model.
    #[must_use]
    pub fn space(&self) -> &StateSpace {
        &self.space
    }

    /// The covariance of the state, the uncertainty of an unknown start not counted.
    #[must_use]
    pub fn covariance(&self) -> Mat<f64> {
        &self.state.factor * self.state.factor.transpose()
    }

    /// Goes over a stretch of time under inputs `u(s) = sum c_j s^j / j!`, `[power][input]`, with impulses of the given
    /// areas at its end; empty where there are none. Lengths that differ by `slack` or less from one that was met
    /// before count as that one.
    pub fn advance(&mut self, length: f64, slack: f64, inputs: &[f64], kick: &[f64]) {
        self.advance_by(length, slack, inputs, kick, predicted_factor);
    }

    /// The same, with the way back; `None` where no time passed.
    pub(crate) fn advance_and_return(
        &mut self,
        length: f64,
        slack: f64,
        inputs: &[f64],
        kick: &[f64],
    ) -> Option<WayBack> {
        let mut way_back = None;
        self.advance_by(length, slack, inputs, kick, |moved, noise| {
            let (factor, back) = predicted_factor_and_way_back(moved, noise);
            way_back = Some(back);
            factor
        });
        way_back
    }

    fn advance_by(
        &mut self,
        length: f64,
        slack: f64,
        inputs: &[f64],
        kick: &[f64],
        predicted: impl FnOnce(&Mat<f64>, &[f64]) -> Mat<f64>,
    ) {
        if length > slack {
            let at = self.stretch(length, slack, inputs.len() / self.n_inputs.max(1));
            let Stretch { transition: phi, inputs: effects, noise, .. } = &self.kept[at];
            let mut next = times(phi, &self.state.mean);
            for (power, g) in effects.iter().enumerate() {
                let u = &inputs[power * self.n_inputs..(power + 1) * self.n_inputs];
                next.iter_mut().zip(times(g, u)).for_each(|(a, b)| *a += b);
            }
            self.state.mean = next;
            self.state.columns = phi * &self.state.columns;
            self.state.factor = predicted(&(phi * &self.state.factor), noise);
        }
        if !kick.is_empty() {
            self.state.mean.iter_mut().zip(times(&self.space.input, kick)).for_each(|(a, b)| *a += b);
        }
    }

    /// The place of a discretization, made if there is none.
    fn stretch(&mut self, length: f64, slack: f64, n_powers: usize) -> usize {
        let is_same = |known: &Stretch| (known.length - length).abs() <= slack && known.inputs.len() == n_powers.max(1);
        if let Some(at) = self.kept.iter().position(is_same) {
            return at;
        }
        let continuous = ContinuousModel {
            dynamics: self.space.dynamics.clone(),
            input: self.space.input.clone(),
            intensity: self.space.intensity.clone(),
        };
        let discrete = discretize(&continuous, length, n_powers.saturating_sub(1));
        if self.kept.len() == MAX_KEPT {
            self.kept.remove(0);
        }
        self.kept.push(Stretch {
            length,
            noise: semidefinite_factor(&discrete.covariance),
            transition: discrete.transition,
            inputs: discrete.inputs,
        });
        self.kept.len() - 1
    }

    /// Takes the measurements of a sample, NaN where one is missing, under inputs and their derivatives there
    /// (`[order][input]`). `variances` replaces those of the errors where they change with time.
    ///
    /// # Errors
    /// When the filter is no longer finite: the model is unstable or a value far off.
    pub fn correct(
        &mut self,
        time: f64,
        values: &[f64],
        variances: Option<&[f64]>,
        inputs: &[f64],
    ) -> Result<Vec<Taken>, EstimateError> {
        let n = self.state.mean.len();
        let factor = &self.state.factor;
        let sizes: Vec<f64> = (0..n).map(|i| (0..n).map(|k| factor[(i, k)].powi(2)).sum::<f64>().sqrt()).collect();
        let mut taken = Vec::new();
        for (measurement, &value) in values.iter().enumerate() {
            if !value.is_nan() {
                let r = variances.map_or(self.variances[measurement], |list| list[measurement]);
                taken.extend(self.take(measurement, time, value, r, inputs, &sizes)?);
            }
        }
        Ok(taken)
    }

    /// Takes one measurement; nothing happens where it is known exactly beforehand.
    fn take(
        &mut self,
        measurement: usize,
        time: f64,
        value: f64,
        r: f64,
        inputs: &[f64],
        sizes: &[f64],
    ) -> Result<Option<Taken>, EstimateError> {
        let (n, q) = (self.state.mean.len(), self.state.normal_vector.len());
        let map = &self.space.measured;
        let h: Vec<f64> = (0..n).map(|j| map.state[(measurement, j)]).collect();
        let prediction = dot(&h, &self.state.mean) + fed(&map.inputs, measurement, inputs, self.n_inputs);
        let LinearState { mean, factor, columns, normal_matrix, normal_vector } = &mut self.state;
        let f: Vec<f64> = (0..n).map(|k| (0..n).map(|i| factor[(i, k)] * h[i]).sum()).collect();
        let variance = dot(&f, &f) + r;
        let innovation = value - prediction;
        if !variance.is_finite() || !innovation.is_finite() {
            return Err(EstimateError::Overflow { time });
        }
        let start_effect: Vec<f64> = (0..q).map(|k| -(0..n).map(|i| h[i] * columns[(i, k)]).sum::<f64>()).collect();
        let scale: f64 = h.iter().zip(sizes).map(|(h, size)| (h * size).powi(2)).sum();
        let start_seen = dot(&start_effect, &start_effect);
        let is_certain = variance <= CERTAIN * scale || variance == 0.0;
        if is_certain && start_seen == 0.0 {
            return Ok(None);
        }
        // Only the unknown start shows in it: it is measured, as good as exactly.
        let variance = if is_certain { SHARP * start_seen } else { variance };
        let (normalized, std) = normalized(normal_matrix, normal_vector, &start_effect, innovation, variance);
        let gain: Vec<f64> = times(factor, &f).iter().map(|x| x / variance).collect();
        for a in 0..q {
            for b in 0..q {
                normal_matrix[(a, b)] += start_effect[a] * start_effect[b] / variance;
            }
            normal_vector[a] += start_effect[a] * innovation / variance;
        }
        for i in 0..n {
            mean[i] += gain[i] * innovation;
            for k in 0..q {
                columns[(i, k)] += gain[i] * start_effect[k];
            }
        }
        let shrinkage = 1.0 / (1.0 + (r / variance).sqrt());
        for k in 0..n {
            for i in 0..n {
                factor[(i, k)] -= shrinkage * gain[i] * f[k];
            }
        }
        Ok(Some(Taken { measurement, innovation, variance, effect: f, shrinkage, start_effect, normalized, std }))
    }

    /// The signals to estimate, under inputs and their derivatives now (`[order][input]`).
    #[must_use]
    pub fn estimates(&self, inputs: &[f64]) -> Vec<Estimate> {
        let LinearState { mean, factor, columns, normal_matrix, normal_vector } = &self.state;
        let (n, q) = (mean.len(), normal_vector.len());
        let known = SemidefiniteInverse::new(normal_matrix);
        let delta = times(&known.matrix, normal_vector);
        let map = &self.space.estimated;
        let estimate = |signal: usize| {
            let row: Vec<f64> = (0..n).map(|j| map.state[(signal, j)]).collect();
            let along: Vec<f64> = (0..q).map(|k| (0..n).map(|i| row[i] * columns[(i, k)]).sum()).collect();
            if !is_seen(&known, normal_matrix, &along) {
                return Estimate { mean: f64::NAN, std: f64::NAN };
            }
            let spread: f64 = (0..n).map(|k| (0..n).map(|i| factor[(i, k)] * row[i]).sum::<f64>().powi(2)).sum();
            let fed = fed(&map.inputs, signal, inputs, self.n_inputs);
            let added = dot(&along, &times(&known.matrix, &along));
            Estimate { mean: dot(&row, mean) + fed - dot(&along, &delta), std: (spread + added).sqrt() }
        };
        (0..map.state.nrows()).map(estimate).collect()
    }
}

/// An innovation with the start at its present estimate over its standard deviation, and that; both NaN where that start
/// is not determined yet.
fn normalized(normal: &Mat<f64>, vector: &[f64], effect: &[f64], innovation: f64, variance: f64) -> (f64, f64) {
    if effect.is_empty() {
        return (innovation / variance.sqrt(), variance.sqrt());
    }
    let known = SemidefiniteInverse::new(normal);
    if !is_seen(&known, normal, effect) {
        return (f64::NAN, f64::NAN);
    }
    let delta = times(&known.matrix, vector);
    let std = (variance + dot(effect, &times(&known.matrix, effect))).sqrt();
    ((innovation - dot(effect, &delta)) / std, std)
}

/// Whether a combination of the unknown start is determined by the data: it has no part in the kernel of their normal
/// matrix.
pub(crate) fn is_seen(known: &SemidefiniteInverse, normal: &Mat<f64>, along: &[f64]) -> bool {
    let q = along.len();
    let unit = |i: usize| if normal[(i, i)] > 0.0 { 1.0 / normal[(i, i)].sqrt() } else { 0.0 };
    let largest = along.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let unseen = (0..q).any(|i| normal[(i, i)] <= 0.0 && along[i].abs() > 1e-9 * largest);
    let size: f64 = (0..q).map(|i| (along[i] * unit(i)).powi(2)).sum::<f64>().sqrt();
    !unseen
        && known.kernel.iter().all(|direction| {
            let part: f64 = (0..q).map(|i| direction[i] * along[i] * unit(i)).sum();
            part.abs() <= 1e-5 * size
        })
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub(crate) fn times(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)] * x[j]).sum()).collect()
}

/// A square factor of a covariance.
pub(crate) fn square_factor(covariance: &Mat<f64>) -> Mat<f64> {
    let n = covariance.nrows();
    let factor = semidefinite_factor(covariance);
    Mat::from_fn(n, n, |i, j| factor.get(j * n + i).copied().unwrap_or(0.0))
}

/// The triangular factor of `[moved, noise]`.
pub(crate) fn predicted_factor(moved: &Mat<f64>, noise: &[f64]) -> Mat<f64> {
    let n = moved.nrows();
    let n_noise = noise.len().checked_div(n).unwrap_or(0);
    let rows = n + n_noise;
    let moved = flat(moved);
    let mut work = vec![0.0; rows * n];
    for i in 0..n {
        for k in 0..n {
            work[i * rows + k] = moved[k * n + i];
        }
        for k in 0..n_noise {
            work[i * rows + n + k] = noise[k * n + i];
        }
    }
    triangularize(&mut work, rows, n);
    Mat::from_fn(n, n, |i, k| if i >= k { work[i * rows + k] } else { 0.0 })
}

/// How a state before a stretch of time follows from the one after it.
///
/// In units of their roots, `x = mean + S z` before and `x' = mean' + S' z'` after it, `z` and the noise `w` of the
/// stretch are independent and standard normal. The triangularization that gives `S'` says what they have to do with
/// `z'` [@park1996]:
///
/// ```text
/// [Phi S, L_d] Q = [S', 0]     [z; w] = Q [z'; u]     z = kept z' + lost u,   [kept, lost] the first rows of Q
/// ```
///
/// `u` is standard normal, and independent of `z'` and all that comes after it. `Q` is orthogonal whatever the ranks of
/// `S`, `L_d` and `S'` are: nothing is inverted, and nothing is subtracted.
#[derive(Clone, Debug)]
pub(crate) struct WayBack {
    pub kept: Mat<f64>,
    pub lost: Mat<f64>,
}

impl WayBack {
    /// Where a root of the covariance of `z'` leads, with as many columns as rows at most.
    pub fn root_before(&self, later: &Mat<f64>) -> Mat<f64> {
        let moved = &self.kept * later;
        compressed(&Mat::from_fn(moved.nrows(), moved.ncols() + self.lost.ncols(), |i, j| {
            if j < moved.ncols() { moved[(i, j)] } else { self.lost[(i, j - moved.ncols())] }
        }))
    }

    /// This stretch with the next.
    pub fn followed_by(&self, next: &Self) -> Self {
        Self { lost: self.root_before(&next.lost), kept: &self.kept * &next.kept }
    }
}

/// `l` with `l l^T = a a^T` and no more columns than rows.
fn compressed(a: &Mat<f64>) -> Mat<f64> {
    let (n, columns) = (a.nrows(), a.ncols());
    if columns <= n {
        return a.clone();
    }
    if n >= BLOCKED {
        return a.transpose().qr().thin_R().transpose().to_owned();
    }
    let mut work = flat(&a.transpose().to_owned());
    triangularize(&mut work, columns, n);
    Mat::from_fn(n, n, |i, k| if i >= k { work[i * columns + k] } else { 0.0 })
}

/// The triangular factor of `[moved, noise]`, with the way back.
fn predicted_factor_and_way_back(moved: &Mat<f64>, noise: &[f64]) -> (Mat<f64>, WayBack) {
    let n = moved.nrows();
    let rows = n + noise.len().checked_div(n).unwrap_or(0);
    let entry = |i: usize, k: usize| if k < n { moved[(i, k)] } else { noise[(k - n) * n + i] };
    if n >= BLOCKED {
        let decomposed = Mat::from_fn(rows, n, |k, i| entry(i, k)).qr();
        let q = decomposed.compute_Q();
        let way_back = WayBack { kept: q.get(..n, ..n).to_owned(), lost: q.get(..n, n..).to_owned() };
        return (decomposed.thin_R().transpose().to_owned(), way_back);
    }
    // Columns of the identity run along and become those of Q^T.
    let mut work = vec![0.0; rows * 2 * n];
    for i in 0..n {
        for k in 0..rows {
            work[i * rows + k] = entry(i, k);
        }
        work[(n + i) * rows + i] = 1.0;
    }
    triangularize(&mut work, rows, n);
    let of_q = |i: usize, k: usize| work[(n + i) * rows + k];
    let way_back = WayBack { kept: Mat::from_fn(n, n, of_q), lost: Mat::from_fn(n, rows - n, |i, k| of_q(i, n + k)) };
    (Mat::from_fn(n, n, |i, k| if i >= k { work[i * rows + k] } else { 0.0 }), way_back)
}

/// What inputs and their derivatives (`[order][input]`) add to a row of signals.
pub(crate) fn fed(terms: &[Mat<f64>], row: usize, inputs: &[f64], n_inputs: usize) -> f64 {
    let n_orders = inputs.len().checked_div(n_inputs).unwrap_or(0);
    let of_order = |(order, term): (usize, &Mat<f64>)| -> f64 {
        let u = &inputs[order * n_inputs..(order + 1) * n_inputs];
        (0..u.len()).map(|j| term[(row, j)] * u[j]).sum()
    };
    terms.iter().take(n_orders).enumerate().map(of_order).sum()
}
