//! Estimates of signals: filtered, from the data up to now, and smoothed, from all data.
//!
//! The backward pass runs in units of the filter's roots, `x = mean + S z` with the filtered mean and root of a sample,
//! so that `z` is standard normal given the data up to there. Given those after it too it has a mean `r` and a covariance
//! `W W^T`, which change only by orthogonal matrices, sums of squares and the filter's own `S <- S (I - a f f^T / s)`:
//!
//! ```text
//! over a step:     r <- kept r                          W W^T <- kept W W^T kept^T + lost lost^T
//! a measurement:   r <- (I - a f f^T / s) r + f e / s   W <- (I - a f f^T / s) W
//! smoothed mean = x + S r        smoothed covariance = (S W) (S W)^T
//! ```
//!
//! with `kept` and `lost` of the orthogonal matrix that makes the next root triangular ([`WayBack`]; [@park1996] do so
//! for `S` itself), and measurements taken one by one, from the last to the first. No covariance is inverted, so that
//! singular ones do no harm, and none is subtracted: `P - P N P`, the usual form [@durbin2012, sec. 4.4], has no digit
//! left where a sensor is 1e8 times as sharp as what was known before it. Unknown starts run along as columns, and their
//! uncertainty is added.

use faer::Mat;

use crate::descriptor::ParametricModel;
use crate::error::EstimateError;
use crate::filter::{FilterModel, RunData};
use crate::kernel::{add_product, matrix};
use crate::likelihood::{Derivatives, Likelihood, Scope, SemidefiniteInverse};
use crate::online::{LinearFilter, Taken, WayBack, dot, fed, is_seen, predicted_factor, times};

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

/// What the forward pass leaves of a sample, with the measurements up to it.
struct Passed {
    mean: Vec<f64>,
    /// A root of the covariance.
    factor: Mat<f64>,
    columns: Mat<f64>,
    /// Taken measurements.
    taken: Vec<Taken>,
    /// From the next sample; `None` where no time passes to it.
    way_back: Option<WayBack>,
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
            let advance = |filter: &mut LinearFilter, segment: usize| -> Option<WayBack> {
                let stretch = &experiment.segments[segment];
                let (length, slack) = match data.step_of[segment] {
                    Some(step) => (self.lengths()[step], 0.0),
                    None => (0.0, 0.0),
                };
                filter.advance_and_return(length, slack, inputs_of(segment), &stretch.kick)
            };
            for segment in 0..experiment.segment_of.first().copied().unwrap_or(0) {
                advance(&mut filter, segment);
            }
            let mut passed: Vec<Passed> = Vec::new();
            for (sample, &time) in experiment.times.iter().enumerate() {
                let segment = experiment.segment_of[sample];
                let values = &experiment.measurements[sample * m..(sample + 1) * m];
                let variances = data.variances.map(|table| &table.value[sample * m..(sample + 1) * m]);
                let taken = filter.correct(time, values, variances, inputs_of(segment))?;
                for (signal, estimate) in filter.estimates(inputs_of(segment)).into_iter().enumerate() {
                    result.filtered[signal].push(estimate.mean);
                    result.filtered_std[signal].push(estimate.std);
                }
                let mut here = Passed {
                    mean: filter.state().mean.clone(),
                    factor: filter.state().factor.clone(),
                    columns: filter.state().columns.clone(),
                    taken,
                    way_back: None,
                };
                let end = experiment.segment_of.get(sample + 1).copied().unwrap_or(segment);
                for piece in segment..end {
                    let next = advance(&mut filter, piece);
                    here.way_back = match (here.way_back, next) {
                        (Some(first), Some(next)) => Some(first.followed_by(&next)),
                        (first, next) => first.or(next),
                    };
                }
                passed.push(here);
            }
            let normal_matrix = filter.state().normal_matrix.clone();
            let normal_vector = filter.state().normal_vector.clone();
            // Backward.
            let known = SemidefiniteInverse::new(&normal_matrix);
            let delta: Vec<f64> = times(&known.matrix, &normal_vector).iter().map(|x| -x).collect();
            let mut later = Later { r: vec![0.0; n], columns: Mat::zeros(n, q), root: Mat::identity(n, n) };
            for (sample, here) in passed.iter().enumerate().rev() {
                if let Some(way_back) = &here.way_back {
                    later.before_step(way_back);
                }
                let segment = experiment.segment_of[sample];
                let feed = |terms: &[Mat<f64>], row: usize| fed(terms, row, inputs_of(segment), experiment.n_inputs);
                let mean: Vec<f64> = here.mean.iter().zip(times(&here.factor, &later.r)).map(|(a, b)| a + b).collect();
                let spread_columns = &here.columns + &here.factor * &later.columns;
                for signal in 0..n_signals {
                    let row: Vec<f64> = (0..n).map(|j| space.estimated.state[(signal, j)]).collect();
                    let seen: Vec<f64> = (0..n).map(|k| (0..n).map(|i| row[i] * here.factor[(i, k)]).sum()).collect();
                    let spread: Vec<f64> =
                        later.root.col_iter().map(|w| w.iter().zip(&seen).map(|(w, s)| w * s).sum()).collect();
                    let along: Vec<f64> =
                        (0..q).map(|k| (0..n).map(|i| row[i] * spread_columns[(i, k)]).sum()).collect();
                    let variance = dot(&spread, &spread) + dot(&along, &times(&known.matrix, &along));
                    let is_determined = is_seen(&known, &normal_matrix, &along);
                    if is_determined {
                        result.smoothed[signal][sample] =
                            dot(&row, &mean) + dot(&along, &delta) + feed(&space.estimated.inputs, signal);
                        result.smoothed_std[signal][sample] = variance.sqrt();
                    }
                }
                here.taken.iter().rev().for_each(|taken| later.before_correction(taken));
            }
            all.push(result);
        }
        Ok(all)
    }
}

/// What the samples after a point say about the state there, in units of the root that the filter has of it: `r` and `W`
/// of the module, and `r` for the columns of an unknown start.
struct Later {
    r: Vec<f64>,
    columns: Mat<f64>,
    /// `W`
    root: Mat<f64>,
}

impl Later {
    fn before_step(&mut self, way_back: &WayBack) {
        self.r = times(&way_back.kept, &self.r);
        self.columns = &way_back.kept * &self.columns;
        self.root = way_back.root_before(&self.root);
    }

    fn before_correction(&mut self, taken: &Taken) {
        let Taken { effect, shrinkage, innovation, variance, start_effect, .. } = taken;
        // x <- (I - a f f^T / s) x + f e / s
        let correct = |x: &mut [f64], innovation: f64| {
            let along = (innovation - shrinkage * dot(effect, x)) / variance;
            x.iter_mut().zip(effect).for_each(|(x, f)| *x += f * along);
        };
        correct(&mut self.r, *innovation);
        for (k, effect_of_start) in start_effect.iter().enumerate() {
            correct(self.columns.col_as_slice_mut(k), *effect_of_start);
        }
        (0..self.root.ncols()).for_each(|k| correct(self.root.col_as_slice_mut(k), 0.0));
    }
}
