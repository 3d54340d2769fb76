//! Estimates of signals: filtered, from the data up to now, and smoothed, from all data.
//!
//! The backward pass needs no inverse of a covariance, so that singular ones do no harm [@durbin2012, sec. 4.4]: with
//! the innovations of a sample taken one by one, from the last to the first, and `L = I - K h`,
//!
//! ```text
//! r <- h e / s + L^T r    N <- h^T h / s + L^T N L        over a step: r <- Phi^T r    N <- Phi^T N Phi
//! smoothed mean = x + P r        smoothed covariance = P - P N P
//! ```
//!
//! with `x`, `P` predicted before the sample. Unknown starts run along as columns, and their uncertainty is added.

use faer::Mat;

use crate::descriptor::ParametricModel;
use crate::discretize::{ContinuousModel, DiscreteModel, discretize};
use crate::error::EstimateError;
use crate::experiment::Experiment;
use crate::filter::RunData;
use crate::kernel::{flat, semidefinite_factor, triangularize};
use crate::likelihood::{Likelihood, SemidefiniteInverse};
use crate::state_space::StateSpace;

/// Estimates of one experiment, `[signal][sample]`. Means and deviations are NaN where data do not determine them yet.
#[derive(Clone, Debug, Default)]
pub struct SignalEstimates {
    /// Times.
    pub times: Vec<f64>,
    /// From the data up to each sample.
    pub filtered: Vec<Vec<f64>>,
    /// Standard deviations of the filtered values.
    pub filtered_std: Vec<Vec<f64>>,
    /// From all data.
    pub smoothed: Vec<Vec<f64>>,
    /// Standard deviations of the smoothed values.
    pub smoothed_std: Vec<Vec<f64>>,
}

/// What the forward pass leaves of a sample.
struct Passed {
    mean: Vec<f64>,
    covariance: Mat<f64>,
    columns: Mat<f64>,
    /// Taken measurements: which, innovation, its variance, gain, effect of the unknown start.
    taken: Vec<Taken>,
    /// To the next sample.
    transition: Mat<f64>,
}

struct Taken {
    measurement: usize,
    innovation: f64,
    variance: f64,
    gain: Vec<f64>,
    start_effect: Vec<f64>,
}

/// Segments of an experiment that means and covariances are moved along.
pub(crate) struct Road<'a> {
    space: &'a StateSpace,
    continuous: ContinuousModel,
    data: &'a RunData<'a>,
    cache: Vec<Option<DiscreteModel>>,
}

impl<'a> Road<'a> {
    pub(crate) fn new(space: &'a StateSpace, data: &'a RunData<'a>) -> Self {
        let continuous = ContinuousModel {
            dynamics: space.dynamics.clone(),
            input: space.input.clone(),
            intensity: space.intensity.clone(),
        };
        Self { space, continuous, data, cache: Vec::new() }
    }

    /// Moves a mean and a factor of its covariance over a segment, and gives the transition.
    pub(crate) fn advance(&mut self, mean: &mut Vec<f64>, factor: &mut Mat<f64>, segment: usize) -> Mat<f64> {
        let experiment = self.data.experiment;
        let n = mean.len();
        let mut transition = Mat::identity(n, n);
        if let Some(step) = self.data.step_of[segment] {
            if self.cache.len() <= step {
                self.cache.resize(step + 1, None);
            }
            let length = experiment.segments[segment].length;
            let discrete =
                self.cache[step].get_or_insert_with(|| discretize(&self.continuous, length, experiment.degree));
            transition = discrete.transition.clone();
            let mut next = times(&transition, mean);
            for (power, g) in discrete.inputs.iter().enumerate() {
                let inputs = self.data.inputs_of(segment);
                let u = &inputs[power * experiment.n_inputs..(power + 1) * experiment.n_inputs];
                next.iter_mut().zip(times(g, u)).for_each(|(a, b)| *a += b);
            }
            *mean = next;
            let noise = semidefinite_factor(&discrete.covariance);
            *factor = predicted_factor(&(&transition * &*factor), &noise);
        }
        let kick = &experiment.segments[segment].kick;
        if !kick.is_empty() {
            mean.iter_mut().zip(times(&self.space.input, kick)).for_each(|(a, b)| *a += b);
        }
        transition
    }
}

impl<M: ParametricModel> Likelihood<'_, M> {
    /// Filtered and smoothed estimates of the model's signals, one result per experiment.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn estimate(&self, theta: &[f64]) -> Result<Vec<SignalEstimates>, EstimateError> {
        let assembled = self.assemble(theta, false)?;
        let space = &assembled.jet.value;
        let n = space.dynamics.nrows();
        let m = space.measured.state.nrows();
        let n_signals = space.estimated.state.nrows();
        let mut all = Vec::new();
        for (at, start) in assembled.starts.iter().enumerate() {
            let data = self.run_data(at, &assembled, start);
            let experiment = data.experiment;
            let mut road = Road::new(space, &data);
            let mut x = start.value.mean.clone();
            let mut s = square_factor(&start.value.covariance);
            let mut columns = start.value.directions.clone();
            let q = columns.ncols();
            let mut normal_matrix = Mat::zeros(q, q);
            let mut normal_vector = vec![0.0; q];
            let mut result = SignalEstimates {
                times: experiment.times.clone(),
                filtered: vec![Vec::new(); n_signals],
                filtered_std: vec![Vec::new(); n_signals],
                smoothed: vec![vec![f64::NAN; experiment.times.len()]; n_signals],
                smoothed_std: vec![vec![f64::NAN; experiment.times.len()]; n_signals],
            };
            for segment in 0..experiment.segment_of.first().copied().unwrap_or(0) {
                columns = road.advance(&mut x, &mut s, segment) * &columns;
            }
            let mut passed: Vec<Passed> = Vec::new();
            for (sample, &time) in experiment.times.iter().enumerate() {
                let segment = experiment.segment_of[sample];
                let feed = |terms: &[Mat<f64>], row: usize| fed(terms, row, data.inputs_of(segment), experiment);
                let mut here = Passed {
                    mean: x.clone(),
                    covariance: &s * s.transpose(),
                    columns: columns.clone(),
                    taken: Vec::new(),
                    transition: Mat::identity(n, n),
                };
                let sizes: Vec<f64> = (0..n).map(|i| here.covariance[(i, i)].sqrt()).collect();
                for measurement in 0..m {
                    let value = experiment.measurements[sample * m + measurement];
                    if value.is_nan() {
                        continue;
                    }
                    let h: Vec<f64> = (0..n).map(|j| space.measured.state[(measurement, j)]).collect();
                    let prediction = dot(&h, &x) + feed(&space.measured.inputs, measurement);
                    let r = data.variances.map_or(assembled.coefficients.variances[measurement], |table| {
                        table.value[sample * m + measurement]
                    });
                    let f: Vec<f64> = (0..n).map(|k| (0..n).map(|i| s[(i, k)] * h[i]).sum()).collect();
                    let variance = dot(&f, &f) + r;
                    let innovation = value - prediction;
                    if !variance.is_finite() || !innovation.is_finite() {
                        return Err(EstimateError::Overflow { time });
                    }
                    let start_effect: Vec<f64> =
                        (0..q).map(|k| -(0..n).map(|i| h[i] * columns[(i, k)]).sum::<f64>()).collect();
                    let scale: f64 = h.iter().zip(&sizes).map(|(h, size)| (h * size).powi(2)).sum();
                    let start_seen = dot(&start_effect, &start_effect);
                    let is_certain = variance <= 1e-14 * scale || variance == 0.0;
                    if is_certain && start_seen == 0.0 {
                        continue;
                    }
                    // Only the unknown start shows in it: it is measured, as good as exactly.
                    let variance = if is_certain { 1e-10 * start_seen } else { variance };
                    let gain: Vec<f64> = times(&s, &f).iter().map(|x| x / variance).collect();
                    for a in 0..q {
                        for b in 0..q {
                            normal_matrix[(a, b)] += start_effect[a] * start_effect[b] / variance;
                        }
                        normal_vector[a] += start_effect[a] * innovation / variance;
                    }
                    for i in 0..n {
                        x[i] += gain[i] * innovation;
                        for k in 0..q {
                            columns[(i, k)] += gain[i] * start_effect[k];
                        }
                    }
                    let factor = 1.0 / (1.0 + (r / variance).sqrt());
                    for k in 0..n {
                        for i in 0..n {
                            s[(i, k)] -= factor * gain[i] * f[k];
                        }
                    }
                    here.taken.push(Taken { measurement, innovation, variance, gain, start_effect });
                }
                let known = SemidefiniteInverse::new(&normal_matrix);
                let delta = times(&known.matrix, &normal_vector);
                for signal in 0..n_signals {
                    let row: Vec<f64> = (0..n).map(|j| space.estimated.state[(signal, j)]).collect();
                    let along: Vec<f64> = (0..q).map(|k| (0..n).map(|i| row[i] * columns[(i, k)]).sum()).collect();
                    let spread: f64 = (0..n).map(|k| (0..n).map(|i| s[(i, k)] * row[i]).sum::<f64>().powi(2)).sum();
                    let is_determined = is_seen(&known, &normal_matrix, &along);
                    let mean = dot(&row, &x) + feed(&space.estimated.inputs, signal) - dot(&along, &delta);
                    let added = dot(&along, &times(&known.matrix, &along));
                    result.filtered[signal].push(if is_determined { mean } else { f64::NAN });
                    result.filtered_std[signal].push(if is_determined { (spread + added).sqrt() } else { f64::NAN });
                }
                let end = experiment.segment_of.get(sample + 1).copied().unwrap_or(segment);
                for piece in segment..end {
                    let transition = road.advance(&mut x, &mut s, piece);
                    columns = &transition * &columns;
                    here.transition = &transition * &here.transition;
                }
                passed.push(here);
            }
            // Backward.
            let known = SemidefiniteInverse::new(&normal_matrix);
            let delta: Vec<f64> = times(&known.matrix, &normal_vector).iter().map(|x| -x).collect();
            let mut r = vec![0.0; n];
            let mut r_columns: Mat<f64> = Mat::zeros(n, q);
            let mut big = Mat::<f64>::zeros(n, n);
            for (sample, here) in passed.iter().enumerate().rev() {
                let transition = &here.transition;
                r = times(&transition.transpose().to_owned(), &r);
                r_columns = transition.transpose() * &r_columns;
                big = transition.transpose() * &big * transition;
                for taken in here.taken.iter().rev() {
                    let h: Vec<f64> = (0..n).map(|j| space.measured.state[(taken.measurement, j)]).collect();
                    let along = dot(&taken.gain, &r);
                    let nk = times(&big, &taken.gain);
                    let knk = dot(&taken.gain, &nk);
                    for i in 0..n {
                        r[i] += h[i] * (taken.innovation / taken.variance - along);
                    }
                    for k in 0..q {
                        let along: f64 = (0..n).map(|i| taken.gain[i] * r_columns[(i, k)]).sum();
                        for i in 0..n {
                            r_columns[(i, k)] += h[i] * (taken.start_effect[k] / taken.variance - along);
                        }
                    }
                    for j in 0..n {
                        for i in 0..n {
                            big[(i, j)] += h[i] * h[j] * (1.0 / taken.variance + knk) - h[i] * nk[j] - nk[i] * h[j];
                        }
                    }
                }
                let segment = experiment.segment_of[sample];
                let feed = |terms: &[Mat<f64>], row: usize| fed(terms, row, data.inputs_of(segment), experiment);
                let mean: Vec<f64> = here.mean.iter().zip(times(&here.covariance, &r)).map(|(a, b)| a + b).collect();
                let spread_columns = &here.columns + &here.covariance * &r_columns;
                for signal in 0..n_signals {
                    let row: Vec<f64> = (0..n).map(|j| space.estimated.state[(signal, j)]).collect();
                    let w = times(&here.covariance, &row);
                    let along: Vec<f64> =
                        (0..q).map(|k| (0..n).map(|i| row[i] * spread_columns[(i, k)]).sum()).collect();
                    let variance =
                        dot(&row, &w) - dot(&w, &times(&big, &w)) + dot(&along, &times(&known.matrix, &along));
                    let is_determined = is_seen(&known, &normal_matrix, &along);
                    if is_determined {
                        result.smoothed[signal][sample] =
                            dot(&row, &mean) + dot(&along, &delta) + feed(&space.estimated.inputs, signal);
                        result.smoothed_std[signal][sample] = variance.max(0.0).sqrt();
                    }
                }
            }
            all.push(result);
        }
        Ok(all)
    }
}

/// Whether a combination of the unknown start is determined by the data: it has no part in the kernel of their normal
/// matrix.
fn is_seen(known: &SemidefiniteInverse, normal: &Mat<f64>, along: &[f64]) -> bool {
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
fn predicted_factor(moved: &Mat<f64>, noise: &[f64]) -> Mat<f64> {
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

/// What inputs and their derivatives of a segment add to a row of signals.
pub(crate) fn fed(terms: &[Mat<f64>], row: usize, inputs: &[f64], experiment: &Experiment) -> f64 {
    let of_order = |(order, term): (usize, &Mat<f64>)| -> f64 {
        let u = &inputs[order * experiment.n_inputs..(order + 1) * experiment.n_inputs];
        (0..u.len()).map(|j| term[(row, j)] * u[j]).sum()
    };
    terms.iter().take(experiment.degree + 1).enumerate().map(of_order).sum()
}
