//! The log-likelihood of a linear stochastic descriptor model, its gradient and its information matrix.
//!
//! ```text
//! log L = -1/2 sum over all values of ( log(2 pi s) + e^2 / s )          [@gerdin2007, eq. (12)]
//! ```
//!
//! with innovations `e` and their variances `s` from the filter. A start that is not known, `x_0 + X_0 delta`, makes
//! `e + E delta` of the innovations; with `A = sum E^T E / s`, `b = sum E^T e / s` the estimate is `delta = -A^-1 b`,
//! which adds `b^T A^-1 b / 2`; an infinite prior variance moreover subtracts `log det A / 2`, with `delta` in units of
//! the measurements (`seen_start`). [@dejong1991; @durbin2012, sec. 7.2]
//!
//! Where only the gradient is wanted, it is found in one run backwards (`filter::backwards`), at a price that does not
//! grow with the number of parameters; information and scores need a derivative of every innovation by every parameter.
//!
//! The information is the expected one given the past, `sum ( de^T de / s + ds^T ds / (2 s^2) )`, with `delta`
//! eliminated.

use faer::Mat;

use crate::descriptor::{Coefficients, ModelLayout, ParametricModel, StartMode};
use crate::discretize::{ContinuousModel, DiscreteModel, discretize_backwards, discretize_with_derivatives};
use crate::error::EstimateError;
use crate::experiment::{Experiment, InputJet, VarianceJet};
use crate::filter::{
    FilterModel, FilterOptions, FilterSlope, FilterSpace, Innovations, RunData, RunOptions, RunSums, StepModel,
    ends_of_stretches, run, run_backwards,
};
use crate::free_start::FreeProjector;
use crate::kernel::{dot, flat, matrix, semidefinite_factor, trace_of_product};
use crate::observed::{Observed, Whole};
use crate::scores::ScoreSeries;
use crate::search::{Expansion, Objective};
use crate::seen_start::{Present, SeenStart};
use crate::start::{StartInputs, StartJet, StartModel, StartPlan};
use crate::state_space::{StateSpace, StateSpaceJet, Structure, state_space};

/// The likelihood of a model with data.
pub struct Likelihood<'m, M: ParametricModel> {
    model: &'m M,
    options: FilterOptions,
    plan: StartPlan,
    structure: Structure,
    lengths: Vec<f64>,
    /// Of the longest experiment, from its start to its last sample.
    span: f64,
    /// By experiment and segment.
    step_of: Vec<Vec<Option<usize>>>,
    /// By experiment and sample.
    stretch_ends: Vec<Vec<usize>>,
    /// By experiment: the values that set the unit of a diffuse start.
    anchors: Vec<Vec<Present>>,
}

/// The likelihood at some parameters.
#[derive(Clone, Debug)]
pub struct LikelihoodValue {
    /// With the constants of `2 pi`.
    pub log_likelihood: f64,
    /// Number of values counted.
    pub n_counted: usize,
    /// Values that were known exactly beforehand and left out.
    pub n_redundant: usize,
    /// Estimated start conditions by experiment; empty where there are none.
    pub start: Vec<Vec<f64>>,
}

/// The likelihood with its derivatives.
#[derive(Clone, Debug)]
pub struct LikelihoodExpansion {
    /// The value.
    pub value: LikelihoodValue,
    /// Gradient.
    pub gradient: Vec<f64>,
    /// Information matrix of the unknowns.
    pub information: Mat<f64>,
    /// Scores of single samples by experiment, in which estimated starts are eliminated.
    pub scores: ScoreSeries,
}

/// The likelihood as a search needs it.
#[derive(Clone, Debug)]
pub struct LikelihoodSlope {
    /// The value.
    pub value: LikelihoodValue,
    /// Gradient.
    pub gradient: Vec<f64>,
    /// The information matrix, or nearly so.
    pub curvature: Mat<f64>,
}

/// The likelihood with its gradient and nothing else.
#[derive(Clone, Debug)]
pub struct LikelihoodGradient {
    /// The value.
    pub value: LikelihoodValue,
    /// Gradient.
    pub gradient: Vec<f64>,
}

/// Which derivatives by parameters a model is assembled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Derivatives {
    /// None.
    None,
    /// Those of the continuous model and of starts, for a run backwards.
    Continuous,
    /// Those of steps, too.
    All,
}

/// What of a state is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All of it.
    Whole,
    /// At least what measurements depend on (`observed`).
    Measured,
    /// At least what measurements and signals to estimate depend on.
    Estimated,
}

/// A model at some parameters, ready for the filter. The filter and the starts may be in coordinates of their own, the
/// rest is not.
pub(crate) struct Assembled {
    pub coefficients: Coefficients,
    pub jet: StateSpaceJet,
    pub filter: FilterModel,
    /// The model in the coordinates of the filter, where these are others than those of `jet`.
    observed: Option<StateSpace>,
    pub inputs: Vec<Option<InputJet>>,
    pub variances: Vec<Option<VarianceJet>>,
    pub starts: Vec<StartJet>,
}

impl Assembled {
    /// The model in the coordinates of the filter.
    pub fn space(&self) -> &StateSpace {
        self.observed.as_ref().unwrap_or(&self.jet.value)
    }
}

impl<'m, M: ParametricModel> Likelihood<'m, M> {
    /// Takes a model and the parameters whose structure all others must have.
    ///
    /// # Errors
    /// When the model has no likelihood there.
    pub fn new(model: &'m M, theta: &[f64], options: FilterOptions) -> Result<Self, EstimateError> {
        let coefficients = model.coefficients(theta)?;
        let jet = state_space(&coefficients, &[])?;
        let projector = FreeProjector::new(model.layout(), &jet.structure, &coefficients, &[])?;
        let plan = StartPlan::choose(model.layout(), &coefficients, &jet.value, projector.as_ref());
        let mut lengths: Vec<f64> = Vec::new();
        let mut step_of = Vec::new();
        let mut stretch_ends = Vec::new();
        for experiment in model.experiments() {
            // Times are rounded: lengths that differ by less than that are the same.
            let largest = experiment.times.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            let mut sorted: Vec<(u64, usize)> = Vec::new();
            let mut steps = Vec::with_capacity(experiment.segments.len());
            for segment in &experiment.segments {
                let slack = 4.0 * f64::EPSILON * largest + 1e-13 * segment.length;
                if segment.length <= slack {
                    steps.push(None);
                    continue;
                }
                let key = segment.length.to_bits();
                // Positive doubles are ordered as their bits.
                let place = sorted.partition_point(|entry| entry.0 < key);
                let near = |at: usize| {
                    sorted.get(at).is_some_and(|entry| (f64::from_bits(entry.0) - segment.length).abs() <= slack)
                };
                let known = if near(place) {
                    Some(sorted[place].1)
                } else if place > 0 && near(place - 1) {
                    Some(sorted[place - 1].1)
                } else {
                    None
                };
                let at = known.unwrap_or_else(|| {
                    let at = lengths.iter().position(|&length| length == segment.length).unwrap_or_else(|| {
                        lengths.push(segment.length);
                        lengths.len() - 1
                    });
                    sorted.insert(place, (key, at));
                    at
                });
                steps.push(Some(at));
            }
            stretch_ends.push(ends_of_stretches(experiment, &steps));
            step_of.push(steps);
        }
        let anchors = Vec::new();
        let span = model.experiments().iter().map(Experiment::span).fold(0.0, f64::max);
        let structure = jet.structure;
        let mut made = Self { model, options, plan, structure, lengths, span, step_of, stretch_ends, anchors };
        if model.layout().start == StartMode::Diffuse {
            let assembled = made.assemble(theta, Derivatives::None, Scope::Measured)?;
            let chosen = |(at, start): (usize, &StartJet)| {
                SeenStart::new(&assembled.filter, &made.run_data(at, &assembled, start)).anchors()
            };
            made.anchors = assembled.starts.iter().enumerate().map(chosen).collect();
        }
        Ok(made)
    }

    /// The structure at the parameters it was made with.
    #[must_use]
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Which conditions determine the start.
    #[must_use]
    pub fn start_plan(&self) -> &StartPlan {
        &self.plan
    }

    /// The lengths that stand for all that count as the same step.
    pub(crate) fn lengths(&self) -> &[f64] {
        &self.lengths
    }

    /// Brings the model to the filter's form at some parameters.
    pub(crate) fn assemble(
        &self,
        theta: &[f64],
        wanted: Derivatives,
        scope: Scope,
    ) -> Result<Assembled, EstimateError> {
        let with_derivatives = wanted != Derivatives::None;
        let layout = self.model.layout();
        let coefficients = self.model.coefficients(theta)?;
        if let Some(measurement) = coefficients.variances.iter().position(|value| *value < 0.0) {
            return Err(EstimateError::NegativeVariance { measurement, value: coefficients.variances[measurement] });
        }
        let derivatives = if with_derivatives { self.model.derivatives(theta)? } else { Vec::new() };
        let jet = state_space(&coefficients, &derivatives)?;
        self.structure.require(&jet.structure)?;
        let experiments = self.model.experiments();
        let inputs: Vec<Option<InputJet>> = (0..experiments.len()).map(|at| self.model.inputs(at, theta)).collect();
        let variances: Vec<Option<VarianceJet>> =
            (0..experiments.len()).map(|at| self.model.variances(at, theta)).collect();
        let projector = FreeProjector::new(layout, &jet.structure, &coefficients, &derivatives)?;
        let start_model = StartModel {
            layout,
            coefficients: &coefficients,
            derivatives: &derivatives,
            jet: &jet,
            projector: projector.as_ref(),
        };
        let mut starts = Vec::new();
        for (experiment, jet_inputs) in experiments.iter().zip(&inputs) {
            let width = (experiment.degree + 1) * experiment.n_inputs;
            let at_start = StartInputs {
                value: &jet_inputs.as_ref().map_or(&experiment.inputs[..], |jet| &jet.value[..])[..width],
                derivatives: jet_inputs
                    .iter()
                    .filter(|_| with_derivatives)
                    .flat_map(|jet| jet.derivatives.iter().map(|list| &list[..width]))
                    .collect(),
                n_inputs: experiment.n_inputs,
            };
            starts.push(self.plan.start(&start_model, &at_start)?);
        }
        let degree = experiments.first().map_or(0, |experiment| experiment.degree);
        let all_variances: Vec<&[f64]> =
            std::iter::once(&coefficients).chain(&derivatives).map(|of| &of.variances[..]).collect();
        let whole = Whole {
            jet: &jet,
            coefficients: &coefficients,
            derivatives: &derivatives,
            lengths: &self.lengths,
            degree,
            starts: &starts,
            span: self.span,
            with_estimated: scope == Scope::Estimated,
        };
        let mut observed = None;
        let filter = if let Some(found) = Some(&whole).filter(|_| scope != Scope::Whole).and_then(Observed::new) {
            starts = starts.iter().map(|start| found.start(start)).collect();
            let space = FilterSpace::from(&found.value);
            observed = Some(found.value);
            FilterModel::new(&space, &found.derivatives, &all_variances, found.steps)
        } else {
            let steps = self.steps(&jet, degree, wanted == Derivatives::All)?;
            let spaces: Vec<FilterSpace> = jet.derivatives.iter().map(FilterSpace::from).collect();
            FilterModel::new(&FilterSpace::from(&jet.value), &spaces, &all_variances, steps)
        };
        Ok(Assembled { coefficients, jet, filter, observed, inputs, variances, starts })
    }

    /// The whole model over steps of all lengths.
    fn steps(
        &self,
        jet: &StateSpaceJet,
        degree: usize,
        with_derivatives: bool,
    ) -> Result<Vec<StepModel>, EstimateError> {
        let value = continuous(&jet.value);
        let directions: Vec<ContinuousModel> =
            jet.derivatives.iter().filter(|_| with_derivatives).map(continuous).collect();
        let mut steps = Vec::with_capacity(self.lengths.len());
        for &length in &self.lengths {
            let discrete = discretize_with_derivatives(&value, &directions, length, degree);
            let is_finite = |a: &Mat<f64>| flat(a).iter().all(|x| x.is_finite());
            if !is_finite(&discrete.value.transition) || !is_finite(&discrete.value.covariance) {
                return Err(EstimateError::NotFinite { what: format!("the transition over a step of {length}") });
            }
            let joined = |inputs: &[Mat<f64>]| inputs.iter().flat_map(flat).collect::<Vec<f64>>();
            steps.push(StepModel {
                phi: flat(&discrete.value.transition),
                inputs: joined(&discrete.value.inputs),
                noise: semidefinite_factor(&discrete.value.covariance),
                d_phi: discrete.derivatives.iter().map(|d| flat(&d.transition)).collect(),
                d_inputs: discrete.derivatives.iter().map(|d| joined(&d.inputs)).collect(),
                d_covariance: discrete.derivatives.iter().map(|d| flat(&d.covariance)).collect(),
            });
        }
        Ok(steps)
    }

    /// The data of one experiment for a run.
    pub(crate) fn run_data<'a>(&'a self, at: usize, assembled: &'a Assembled, start: &'a StartJet) -> RunData<'a> {
        let experiment = &self.model.experiments()[at];
        let jet = assembled.inputs[at].as_ref();
        RunData {
            experiment,
            step_of: &self.step_of[at],
            stretch_ends: &self.stretch_ends[at],
            inputs: jet.map_or(&experiment.inputs, |jet| &jet.value),
            d_inputs: jet.map_or(&[], |jet| &jet.derivatives),
            variances: assembled.variances[at].as_ref(),
            start,
            start_covariance: None,
            is_diffuse: self.layout().start == StartMode::Diffuse,
        }
    }

    fn layout(&self) -> &ModelLayout {
        self.model.layout()
    }

    /// The log-likelihood.
    ///
    /// # Errors
    /// When the model has no likelihood at these parameters, or another structure.
    pub fn evaluate(&self, theta: &[f64]) -> Result<LikelihoodValue, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Measured)?;
        let mut total = LikelihoodValue { log_likelihood: 0.0, n_counted: 0, n_redundant: 0, start: Vec::new() };
        for (at, start) in assembled.starts.iter().enumerate() {
            if start.value.directions.ncols() == 0 {
                let data = self.run_data(at, &assembled, start);
                let sums = run(&assembled.filter, &data, &self.options, RunOptions::default())?;
                total.add(&sums);
                total.start.push(Vec::new());
                continue;
            }
            // Once more from the estimate: the large squares around any other start would swamp the small ones.
            let found = self.find_start(at, &assembled, start)?;
            let data = self.run_data(at, &assembled, &found.start);
            let sums = run(&assembled.filter, &data, &self.options, RunOptions::default())?;
            let estimate = StartEstimate::new(&sums.normal_matrix, &sums.normal_vector);
            self.count(&mut total, &sums, &estimate, &found);
            if self.layout().start == StartMode::Diffuse {
                let data = self.run_data(at, &assembled, start);
                total.log_likelihood += found.seen.unit(&assembled.filter, &data, &self.anchors[at], 0).log_determinant;
            }
        }
        finish(total)
    }

    /// Where the unknown start of an experiment is.
    pub(crate) fn find_start(
        &self,
        at: usize,
        assembled: &Assembled,
        start: &StartJet,
    ) -> Result<FoundStart, EstimateError> {
        let seen = SeenStart::new(&assembled.filter, &self.run_data(at, assembled, start));
        let transformed = seen.transformed(start);
        let data = self.run_data(at, assembled, &transformed);
        let sums = run(&assembled.filter, &data, &self.options, RunOptions::default())?;
        let first = StartEstimate::new(&sums.normal_matrix, &sums.normal_vector);
        let delta = seen.delta(&first.delta);
        // What data say about the start may differ by many orders between directions, as where disturbances are much
        // larger than errors of measurements: in units of the information itself, all of it is seen well.
        let mut start = shifted(&transformed, &first.delta);
        for state in std::iter::once(&mut start.value).chain(&mut start.derivatives) {
            state.directions = &state.directions * &first.whitening;
        }
        let covariance = Mat::identity(first.whitening.ncols(), first.whitening.ncols());
        Ok(FoundStart { start, seen: seen.in_units_of(&first.whitening), delta, covariance })
    }

    /// The start found once more, in units of the information about it.
    ///
    /// Derivatives are taken at the best start, where its own derivative does not matter. The first estimate is as far
    /// from it as rounding in badly scaled units makes it, which sharp measurements magnify: an error of the start by
    /// `h` is an error of the gradient by `h / variance`.
    fn refine_start(&self, at: usize, assembled: &Assembled, found: &mut FoundStart) -> Result<(), EstimateError> {
        let data = self.run_data(at, assembled, &found.start);
        let sums = run(&assembled.filter, &data, &self.options, RunOptions::default())?;
        let estimate = StartEstimate::new(&sums.normal_matrix, &sums.normal_vector);
        found.start = shifted(&found.start, &estimate.delta);
        let moved = found.seen.delta(&estimate.delta);
        found.delta.iter_mut().zip(&moved).for_each(|(sum, more)| *sum += more);
        Ok(())
    }

    /// Adds the sums of an experiment that was run from where its start was found.
    fn count(&self, total: &mut LikelihoodValue, sums: &RunSums, estimate: &StartEstimate, found: &FoundStart) {
        total.add(sums);
        total.log_likelihood += estimate.gain;
        if self.layout().start == StartMode::Diffuse {
            total.log_likelihood -= 0.5 * estimate.log_determinant;
        }
        let last = found.seen.delta(&estimate.delta);
        total.start.push(found.delta.iter().zip(&last).map(|(a, b)| a + b).collect());
    }

    /// The log-likelihood with gradient and information.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn expand(&self, theta: &[f64]) -> Result<LikelihoodExpansion, EstimateError> {
        self.expand_with(theta, false)
    }

    /// The log-likelihood with its gradient, both exact, and a curvature that is good enough for a search: in long
    /// stretches of complete samples it is that of the gains to which the filter converges. Much faster than
    /// [`Likelihood::expand`] there.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn slope(&self, theta: &[f64]) -> Result<LikelihoodSlope, EstimateError> {
        let LikelihoodExpansion { value, gradient, information, .. } = self.expand_with(theta, true)?;
        Ok(LikelihoodSlope { value, gradient, curvature: information })
    }

    /// The log-likelihood with its gradient, both exact, in one run forwards and one backwards: a few times the price of
    /// the value, however many unknowns there are.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn gradient(&self, theta: &[f64]) -> Result<LikelihoodGradient, EstimateError> {
        if let Some(found) = self.gradient_backwards(theta)? {
            return Ok(found);
        }
        let LikelihoodSlope { value, gradient, .. } = self.slope(theta)?;
        Ok(LikelihoodGradient { value, gradient })
    }

    /// The same; `None` where a run is too long to be kept, or a stretch has no slope that can be had safely.
    fn gradient_backwards(&self, theta: &[f64]) -> Result<Option<LikelihoodGradient>, EstimateError> {
        let is_diffuse = self.layout().start == StartMode::Diffuse;
        // The unit of a diffuse start is differentiated forwards.
        let wanted = if is_diffuse { Derivatives::All } else { Derivatives::Continuous };
        let assembled = self.assemble(theta, wanted, Scope::Measured)?;
        let p = self.layout().n_unknown;
        let mut total = LikelihoodValue { log_likelihood: 0.0, n_counted: 0, n_redundant: 0, start: Vec::new() };
        let mut slope = FilterSlope::new(&assembled.filter);
        let options = RunOptions { with_tape: true, ..RunOptions::default() };
        for (at, start) in assembled.starts.iter().enumerate() {
            let mut found = None;
            if start.value.directions.ncols() > 0 {
                let mut first = self.find_start(at, &assembled, start)?;
                self.refine_start(at, &assembled, &mut first)?;
                found = Some(first);
            }
            let data = self.run_data(at, &assembled, found.as_ref().map_or(start, |found| &found.start));
            let mut sums = run(&assembled.filter, &data, &self.options, options)?;
            let mut normal_bar = Mat::zeros(0, 0);
            if let Some(found) = &found {
                let estimate = StartEstimate::new(&sums.normal_matrix, &sums.normal_vector);
                self.count(&mut total, &sums, &estimate, found);
                if is_diffuse {
                    normal_bar = &estimate.inverse * faer::Scale(-0.5);
                    let data = self.run_data(at, &assembled, start);
                    let unit = found.seen.unit(&assembled.filter, &data, &self.anchors[at], p);
                    total.log_likelihood += unit.log_determinant;
                    slope.gradient.iter_mut().zip(&unit.derivatives).for_each(|(sum, slope)| *sum += slope);
                }
            } else {
                total.add(&sums);
                total.start.push(Vec::new());
            }
            let Some(tape) = sums.tape.take().filter(|tape| !tape.is_too_long()) else { return Ok(None) };
            if run_backwards(&assembled.filter, &data, tape, &normal_bar, &mut slope).is_none() {
                return Ok(None);
            }
        }
        let gradient = self.by_parameter(&assembled, &slope);
        Ok(Some(LikelihoodGradient { value: finish(total)?, gradient }))
    }

    /// The share of every parameter in the slopes by all that the filter read.
    fn by_parameter(&self, assembled: &Assembled, slope: &FilterSlope) -> Vec<f64> {
        let filter = &assembled.filter;
        let n = filter.n;
        let mut gradient: Vec<f64> = (0..self.layout().n_unknown).map(|lane| slope.along(filter, lane)).collect();
        let jet = &assembled.jet;
        for ((of_step, step), &length) in slope.steps.iter().zip(&filter.steps).zip(&self.lengths) {
            if !of_step.is_used {
                continue;
            }
            if step.d_phi.len() == gradient.len() {
                for (lane, sum) in gradient.iter_mut().enumerate() {
                    *sum += dot(&of_step.phi, &step.d_phi[lane])
                        + dot(&of_step.inputs, &step.d_inputs[lane])
                        + dot(&of_step.covariance, &step.d_covariance[lane]);
                }
                continue;
            }
            let n_inputs = jet.value.input.ncols();
            let n_powers = of_step.inputs.len().checked_div(n * n_inputs).unwrap_or(1);
            let entry = |power: usize, i: usize, j: usize| of_step.inputs[(power * n_inputs + j) * n + i];
            let discrete = DiscreteModel {
                transition: matrix(&of_step.phi, n).to_owned(),
                inputs: (0..n_powers).map(|k| Mat::from_fn(n, n_inputs, |i, j| entry(k, i, j))).collect(),
                covariance: matrix(&of_step.covariance, n).to_owned(),
            };
            let back = discretize_backwards(&continuous(&jet.value), length, &discrete);
            for (sum, direction) in gradient.iter_mut().zip(&jet.derivatives) {
                *sum += entries_product(&back.dynamics, &direction.dynamics)
                    + entries_product(&back.input, &direction.input)
                    + entries_product(&back.intensity, &direction.intensity);
            }
        }
        gradient
    }

    fn expand_with(&self, theta: &[f64], is_summed: bool) -> Result<LikelihoodExpansion, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::All, Scope::Measured)?;
        let p = self.layout().n_unknown;
        let is_diffuse = self.layout().start == StartMode::Diffuse;
        let mut total = LikelihoodValue { log_likelihood: 0.0, n_counted: 0, n_redundant: 0, start: Vec::new() };
        let mut gradient = vec![0.0; p];
        let mut information = Mat::zeros(p, p);
        let mut scores = ScoreSeries { n_unknown: p, experiments: Vec::new() };
        for (at, start) in assembled.starts.iter().enumerate() {
            let q = start.value.directions.ncols();
            let options = RunOptions {
                with_derivatives: true,
                is_summed,
                with_diffuse_derivatives: is_diffuse && q > 0,
                ..RunOptions::default()
            };
            let data = self.run_data(at, &assembled, start);
            let sums = if q == 0 {
                let sums = run(&assembled.filter, &data, &self.options, options)?;
                total.add(&sums);
                total.start.push(Vec::new());
                sums
            } else {
                // First where the start is, then derivatives with the start there: at the optimum its own derivative
                // does not matter.
                let mut found = self.find_start(at, &assembled, start)?;
                self.refine_start(at, &assembled, &mut found)?;
                let moved = self.run_data(at, &assembled, &found.start);
                let moved = RunData { start_covariance: Some(&found.covariance), ..moved };
                let mut sums = run(&assembled.filter, &moved, &self.options, options)?;
                let estimate = StartEstimate::new(&sums.normal_matrix, &sums.normal_vector);
                self.count(&mut total, &sums, &estimate, &found);
                for (lane, d_matrix) in sums.d_normal_matrix.iter().enumerate() {
                    sums.gradient[lane] -= 0.5 * trace_of_product(&estimate.inverse, d_matrix);
                }
                if is_diffuse {
                    let unit = found.seen.unit(&assembled.filter, &data, &self.anchors[at], p);
                    total.log_likelihood += unit.log_determinant;
                    sums.gradient.iter_mut().zip(&unit.derivatives).for_each(|(sum, slope)| *sum += slope);
                }
                // The start has as many directions here as data determine of it.
                let n_seen = sums.information.ncols() - p;
                let cross = sums.information.as_ref().submatrix(0, p, p, n_seen).to_owned();
                sums.scores = sums.scores.with_start_eliminated(&estimate.whitening, &cross);
                sums
            };
            gradient.iter_mut().zip(&sums.gradient).for_each(|(sum, slope)| *sum += slope);
            information += eliminated(&sums.information, p);
            scores.experiments.push(sums.scores);
        }
        Ok(LikelihoodExpansion { value: finish(total)?, gradient, information, scores })
    }

    /// How much measurements depend on inputs directly: `[measurement][input]`.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn feedthrough(&self, theta: &[f64]) -> Result<Mat<f64>, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Measured)?;
        let measured = &assembled.jet.value.measured;
        let none = || Mat::zeros(measured.state.nrows(), 0);
        Ok(measured.inputs.first().cloned().unwrap_or_else(none))
    }

    /// One-step predictions of all experiments, with estimated starts where there are some.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn innovations(&self, theta: &[f64]) -> Result<Vec<Innovations>, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Measured)?;
        let options = RunOptions { with_record: true, ..RunOptions::default() };
        let mut all = Vec::new();
        for (at, start) in assembled.starts.iter().enumerate() {
            let found = match start.value.directions.ncols() {
                0 => None,
                _ => Some(self.find_start(at, &assembled, start)?),
            };
            let data = self.run_data(at, &assembled, found.as_ref().map_or(start, |found| &found.start));
            all.push(run(&assembled.filter, &data, &self.options, options)?.record);
        }
        Ok(all)
    }
}

/// The continuous part of a model or of a derivative of it.
fn continuous(of: &StateSpace) -> ContinuousModel {
    ContinuousModel { dynamics: of.dynamics.clone(), input: of.input.clone(), intensity: of.intensity.clone() }
}

/// The sum of products of entries, `tr(A^T B)`.
fn entries_product(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    (0..a.ncols()).map(|j| dot(a.col_as_slice(j), b.col_as_slice(j))).sum()
}

/// An unknown start and its estimate.
pub(crate) struct FoundStart {
    /// In units of the information about it.
    seen: SeenStart,
    /// As found in a first run.
    delta: Vec<f64>,
    /// Moved there.
    pub(crate) start: StartJet,
    /// Covariance of the estimate in these units.
    covariance: Mat<f64>,
}

impl LikelihoodValue {
    fn add(&mut self, sums: &RunSums) {
        self.log_likelihood += sums.log_likelihood;
        self.n_counted += sums.n_counted;
        self.n_redundant += sums.n_redundant;
    }
}

fn finish(total: LikelihoodValue) -> Result<LikelihoodValue, EstimateError> {
    if total.n_counted == 0 {
        return Err(EstimateError::NoSamples);
    }
    if !total.log_likelihood.is_finite() {
        return Err(EstimateError::NotFinite { what: "the log-likelihood".to_owned() });
    }
    Ok(total)
}

/// The start moved to an estimate of its unknown part, derivatives included.
fn shifted(start: &StartJet, delta: &[f64]) -> StartJet {
    let mut moved = start.clone();
    let shift = |state: &mut crate::start::StartState| {
        for i in 0..state.mean.len() {
            state.mean[i] += delta.iter().enumerate().map(|(j, d)| state.directions[(i, j)] * d).sum::<f64>();
        }
    };
    shift(&mut moved.value);
    moved.derivatives.iter_mut().for_each(shift);
    moved
}

/// The least-squares estimate of an unknown start.
#[derive(Clone, Debug)]
pub(crate) struct StartEstimate {
    pub delta: Vec<f64>,
    /// `b^T A^-1 b / 2`.
    pub gain: f64,
    pub log_determinant: f64,
    /// `A^-1` on the directions that data determine, zero on the others.
    pub inverse: Mat<f64>,
    /// `C` with `C^T A C = I`, a column for every direction that data determine.
    pub whitening: Mat<f64>,
}

/// Relative eigenvalue below which data say nothing about a direction.
const UNDETERMINED: f64 = 1e-12;

impl StartEstimate {
    pub fn new(matrix: &Mat<f64>, vector: &[f64]) -> Self {
        let q = vector.len();
        let inverse = SemidefiniteInverse::new(matrix);
        let delta: Vec<f64> =
            (0..q).map(|i| -(0..q).map(|j| inverse.matrix[(i, j)] * vector[j]).sum::<f64>()).collect();
        let gain = -0.5 * delta.iter().zip(vector).map(|(d, b)| d * b).sum::<f64>();
        Self {
            delta,
            gain,
            log_determinant: inverse.log_determinant,
            inverse: inverse.matrix,
            whitening: inverse.whitening,
        }
    }
}

/// Inverse of a semidefinite matrix on its range.
pub(crate) struct SemidefiniteInverse {
    pub matrix: Mat<f64>,
    pub log_determinant: f64,
    /// Directions of the kernel, in units of the diagonal.
    pub kernel: Vec<Vec<f64>>,
    /// `C` with `C C^T` the inverse and `C^T A C = I`.
    pub whitening: Mat<f64>,
}

impl SemidefiniteInverse {
    pub fn new(a: &Mat<f64>) -> Self {
        let q = a.nrows();
        let unit: Vec<f64> = (0..q).map(|i| if a[(i, i)] > 0.0 { 1.0 / a[(i, i)].sqrt() } else { 0.0 }).collect();
        let scaled = Mat::from_fn(q, q, |i, j| 0.5 * (a[(i, j)] + a[(j, i)]) * unit[i] * unit[j]);
        let mut matrix = Mat::zeros(q, q);
        let mut log_determinant = 0.0;
        let mut kernel = Vec::new();
        let mut white: Vec<Vec<f64>> = Vec::new();
        if q > 0
            && let Ok(eigen) = scaled.self_adjoint_eigen(faer::Side::Lower)
        {
            let (values, vectors) = (eigen.S().column_vector(), eigen.U());
            for k in 0..q {
                let value = values[k];
                if value > UNDETERMINED {
                    log_determinant += value.ln();
                    white.push((0..q).map(|i| unit[i] * vectors[(i, k)] / value.sqrt()).collect());
                    for j in 0..q {
                        for i in 0..q {
                            matrix[(i, j)] += unit[i] * unit[j] * vectors[(i, k)] * vectors[(j, k)] / value;
                        }
                    }
                } else {
                    kernel.push((0..q).map(|i| vectors[(i, k)]).collect());
                }
            }
        }
        log_determinant -= unit.iter().filter(|u| **u > 0.0).map(|u| 2.0 * u.ln()).sum::<f64>();
        let whitening = Mat::from_fn(q, white.len(), |i, j| white[j][i]);
        Self { matrix, log_determinant, kernel, whitening }
    }
}

/// The leading `p` x `p` block with the other variables eliminated.
fn eliminated(information: &Mat<f64>, p: usize) -> Mat<f64> {
    let q = information.nrows() - p;
    let lead = information.as_ref().submatrix(0, 0, p, p).to_owned();
    if q == 0 || p == 0 {
        return lead;
    }
    let cross = information.as_ref().submatrix(0, p, p, q).to_owned();
    let inner = SemidefiniteInverse::new(&information.as_ref().submatrix(p, p, q, q).to_owned());
    lead - &cross * &inner.matrix * cross.transpose()
}

/// The negative log-likelihood for the search.
impl<M: ParametricModel> Objective for Likelihood<'_, M> {
    type Refusal = EstimateError;

    fn value(&mut self, theta: &[f64]) -> Result<f64, EstimateError> {
        Ok(-self.evaluate(theta)?.log_likelihood)
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, EstimateError> {
        let LikelihoodSlope { value, gradient, curvature } = self.slope(theta)?;
        Ok(Expansion { value: -value.log_likelihood, gradient: gradient.iter().map(|g| -g).collect(), curvature })
    }
}
