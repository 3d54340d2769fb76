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
use crate::error::EstimateError;
use crate::filter::{FilterModel, RunData};
use crate::kernel::{add_product, matrix};
use crate::likelihood::{Derivatives, Likelihood, Scope, SemidefiniteInverse};
use crate::online::{LinearFilter, Taken, dot, fed, is_seen, predicted_factor, times};

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
    /// Taken measurements.
    taken: Vec<Taken>,
    /// To the next sample.
    transition: Mat<f64>,
}

/// Segments of an experiment that means and covariances are moved along.
pub(crate) struct Road<'a> {
    model: &'a FilterModel,
    data: &'a RunData<'a>,
}

impl<'a> Road<'a> {
    pub(crate) fn new(model: &'a FilterModel, data: &'a RunData<'a>) -> Self {
        Self { model, data }
    }

    /// Moves a mean and a factor of its covariance over a segment.
    pub(crate) fn advance(&self, mean: &mut Vec<f64>, factor: &mut Mat<f64>, segment: usize) {
        let n = mean.len();
        if let Some(step) = self.data.step_of[segment] {
            let step = &self.model.steps[step];
            let mut next = vec![0.0; n];
            add_product(&mut next, &step.phi, mean);
            add_product(&mut next, &step.inputs, self.data.inputs_of(segment));
            *mean = next;
            *factor = predicted_factor(&(matrix(&step.phi, n) * &*factor), &step.noise);
        }
        let kick = &self.data.experiment.segments[segment].kick;
        add_product(mean, &self.model.input, kick);
    }
}

impl<M: ParametricModel> Likelihood<'_, M> {
    /// The filter of an experiment at its start, to be taken over its samples by hand.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn filter_at_start(&self, theta: &[f64], experiment: usize) -> Result<LinearFilter, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Whole)?;
        let start = &assembled.starts[experiment];
        Ok(LinearFilter::new(&assembled.jet.value, &assembled.coefficients.variances, &start.value))
    }

    /// Filtered and smoothed estimates of the model's signals, one result per experiment.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn estimate(&self, theta: &[f64]) -> Result<Vec<SignalEstimates>, EstimateError> {
        self.estimate_in(theta, Scope::Estimated)
    }

    /// The same with more or less of the state.
    pub(crate) fn estimate_in(&self, theta: &[f64], scope: Scope) -> Result<Vec<SignalEstimates>, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, scope)?;
        let space = assembled.space();
        let n = space.dynamics.nrows();
        let m = space.measured.state.nrows();
        let n_signals = space.estimated.state.nrows();
        let mut all = Vec::new();
        for (at, start) in assembled.starts.iter().enumerate() {
            let data = self.run_data(at, &assembled, start);
            let experiment = data.experiment;
            let width = (experiment.degree + 1) * experiment.n_inputs;
            let inputs_of = |segment: usize| &data.inputs[segment * width..(segment + 1) * width];
            let mut filter = LinearFilter::new(space, &assembled.coefficients.variances, &start.value);
            filter.keep(self.lengths(), &assembled.filter.steps);
            let q = start.value.directions.ncols();
            let mut result = SignalEstimates {
                times: experiment.times.clone(),
                filtered: vec![Vec::new(); n_signals],
                filtered_std: vec![Vec::new(); n_signals],
                smoothed: vec![vec![f64::NAN; experiment.times.len()]; n_signals],
                smoothed_std: vec![vec![f64::NAN; experiment.times.len()]; n_signals],
            };
            let advance = |filter: &mut LinearFilter, segment: usize| -> Mat<f64> {
                let stretch = &experiment.segments[segment];
                let (length, slack) = match data.step_of[segment] {
                    Some(step) => (self.lengths()[step], 0.0),
                    None => (0.0, 0.0),
                };
                filter.advance(length, slack, inputs_of(segment), &stretch.kick)
            };
            for segment in 0..experiment.segment_of.first().copied().unwrap_or(0) {
                advance(&mut filter, segment);
            }
            let mut passed: Vec<Passed> = Vec::new();
            for (sample, &time) in experiment.times.iter().enumerate() {
                let segment = experiment.segment_of[sample];
                let mut here = Passed {
                    mean: filter.state().mean.clone(),
                    covariance: filter.covariance(),
                    columns: filter.state().columns.clone(),
                    taken: Vec::new(),
                    transition: Mat::identity(n, n),
                };
                let values = &experiment.measurements[sample * m..(sample + 1) * m];
                let variances = data.variances.map(|table| &table.value[sample * m..(sample + 1) * m]);
                here.taken = filter.correct(time, values, variances, inputs_of(segment))?;
                for (signal, estimate) in filter.estimates(inputs_of(segment)).into_iter().enumerate() {
                    result.filtered[signal].push(estimate.mean);
                    result.filtered_std[signal].push(estimate.std);
                }
                let end = experiment.segment_of.get(sample + 1).copied().unwrap_or(segment);
                for piece in segment..end {
                    let transition = advance(&mut filter, piece);
                    here.transition = &transition * &here.transition;
                }
                passed.push(here);
            }
            let normal_matrix = filter.state().normal_matrix.clone();
            let normal_vector = filter.state().normal_vector.clone();
            // Backward.
            let known = SemidefiniteInverse::new(&normal_matrix);
            let delta: Vec<f64> = times(&known.matrix, &normal_vector).iter().map(|x| -x).collect();
            let mut later = Later { r: vec![0.0; n], columns: Mat::zeros(n, q), information: Mat::zeros(n, n) };
            for (sample, here) in passed.iter().enumerate().rev() {
                later.before_transition(&here.transition);
                for taken in here.taken.iter().rev() {
                    let h: Vec<f64> = (0..n).map(|j| space.measured.state[(taken.measurement, j)]).collect();
                    later.before_correction(taken, &h);
                }
                let segment = experiment.segment_of[sample];
                let feed = |terms: &[Mat<f64>], row: usize| fed(terms, row, inputs_of(segment), experiment.n_inputs);
                let mean: Vec<f64> =
                    here.mean.iter().zip(times(&here.covariance, &later.r)).map(|(a, b)| a + b).collect();
                let spread_columns = &here.columns + &here.covariance * &later.columns;
                for signal in 0..n_signals {
                    let row: Vec<f64> = (0..n).map(|j| space.estimated.state[(signal, j)]).collect();
                    let w = times(&here.covariance, &row);
                    let along: Vec<f64> =
                        (0..q).map(|k| (0..n).map(|i| row[i] * spread_columns[(i, k)]).sum()).collect();
                    let variance = dot(&row, &w) - dot(&w, &times(&later.information, &w))
                        + dot(&along, &times(&known.matrix, &along));
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

/// What the samples after a point say about the state there: `r` and `N` of the module, and `r` for the columns of an
/// unknown start.
struct Later {
    r: Vec<f64>,
    columns: Mat<f64>,
    /// `N`
    information: Mat<f64>,
}

impl Later {
    /// `r <- Phi^T r    N <- Phi^T N Phi`
    fn before_transition(&mut self, transition: &Mat<f64>) {
        self.r = times(&transition.transpose().to_owned(), &self.r);
        self.columns = transition.transpose() * &self.columns;
        self.information = transition.transpose() * &self.information * transition;
    }

    /// `r <- h e / s + L^T r    N <- h^T h / s + L^T N L`
    fn before_correction(&mut self, taken: &Taken, h: &[f64]) {
        let (n, q) = (h.len(), self.columns.ncols());
        let along = dot(&taken.gain, &self.r);
        let nk = times(&self.information, &taken.gain);
        let knk = dot(&taken.gain, &nk);
        for (r, h) in self.r.iter_mut().zip(h) {
            *r += h * (taken.innovation / taken.variance - along);
        }
        for k in 0..q {
            let along: f64 = (0..n).map(|i| taken.gain[i] * self.columns[(i, k)]).sum();
            for (i, h) in h.iter().enumerate() {
                self.columns[(i, k)] += h * (taken.start_effect[k] / taken.variance - along);
            }
        }
        for j in 0..n {
            for i in 0..n {
                self.information[(i, j)] += h[i] * h[j] * (1.0 / taken.variance + knk) - h[i] * nk[j] - nk[i] * h[j];
            }
        }
    }
}
