//! The filter of a study as an object that takes samples as they come.
//!
//! [`LiveModel`] is what a study says, made once; [`LiveModel::with_filters`] lends out [`Live`] filters of it, whose
//! [`Live::update`] takes the values of known inputs and measurements at a time and gives estimates, innovations and
//! what is carried on. It reads no file and prints nothing. Given the samples of a record it gives the same numbers as
//! the filter of `estimate`. [`LivePlan`] is what a record decided: with it the same filter is made again, without the
//! record.

mod slopes;

use daesy_estimate::error::EstimateError;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::nonlinear::Crossed;
use daesy_estimate::online::{Estimate, Innovation, LinearFilter, LinearState};
use daesy_estimate::pem::{FilterKind, LiveFilter, LiveState, PointRefusal, PredictionProblem};
use daesy_graph::finding::Finding;
use daesy_graph::{BinaryOp, Graph, Leaf, Node, Reach, Span};
use daesy_system::{DaeSystem, StepMethod};
use thiserror::Error;

pub use slopes::HeldSlopes;

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::inputs::StudyInputs;
use crate::linear_study::{LinearStudy, SignalsWanted, posed};
use crate::load::{Loaded, quantity_expression};
use crate::prediction_study::{PredictionStudy, filter_kind};
use crate::prepare::start_time;
use crate::problem::{Linearity, Problem, SAME_TIME, refuse_unsaid_accuracy, study_of};
use crate::study::{Hold, InputSource, Measurement, Named, Study};

/// Samples that stand for those to come when a model is prepared.
pub const STAND_IN_SAMPLES: usize = 20;

/// A column that a stream must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveColumn {
    /// The input or measurement.
    pub name: String,
    /// The header.
    pub column: String,
}

/// What a filter takes and gives, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveNames {
    /// Known inputs that samples bring.
    pub inputs: Vec<LiveColumn>,
    /// Measurements.
    pub measurements: Vec<LiveColumn>,
    /// Signals to estimate.
    pub signals: Vec<String>,
}

impl LiveNames {
    /// Known inputs that samples bring.
    #[must_use]
    pub fn inputs_of(study: &Study) -> Vec<LiveColumn> {
        let column = |source: &InputSource| match source {
            InputSource::Column { column, .. } => Some(column.clone()),
            InputSource::Expression { .. } | InputSource::Impulses(_) => None,
        };
        let inputs = study.inputs.iter();
        inputs.filter_map(|input| Some(LiveColumn { name: input.name.clone(), column: column(&input.item)? })).collect()
    }

    /// What a study says.
    ///
    /// # Errors
    /// When inputs are given in a way that needs what is still to come.
    pub fn of(loaded: &Loaded) -> Result<Self, Failure> {
        let study = study_of(loaded)?;
        let mut findings = Vec::new();
        for input in &study.inputs {
            if matches!(input.item, InputSource::Column { hold: Hold::Cubic, .. }) {
                let message = format!("the input `{}` is a spline, which needs the samples still to come", input.name);
                let finding = Finding::error("watch-input", input.span, message).with_names([&input.name]);
                findings.push(finding.with_help("`hold = \"zoh\"` or `\"foh\"` can be followed live"));
            }
        }
        if !findings.is_empty() {
            let resolved = findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources));
            return Err(Failure::Input(resolved.collect()));
        }
        let names = Self::planned(loaded)?;
        refuse_hidden_breaks(loaded)?;
        Ok(names)
    }

    /// What a study says of an experiment to come whose samples are all known before it begins.
    ///
    /// # Errors
    /// When nothing is measured.
    pub fn planned(loaded: &Loaded) -> Result<Self, Failure> {
        let study = study_of(loaded)?;
        if study.measurements.is_empty() {
            let finding = Finding::error("no-measurements", Span::NONE, "the study measures nothing");
            let finding = finding.with_help("add `[measurements]` with a signal of the model and its accuracy");
            return Err(Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]));
        }
        let column = |signal: &Named<Measurement>| {
            let column = signal.item.column.clone().unwrap_or_else(|| signal.name.clone());
            LiveColumn { name: signal.name.clone(), column }
        };
        Ok(Self {
            inputs: Self::inputs_of(study),
            measurements: study.measurements.iter().map(column).collect(),
            signals: study.signals.iter().map(|signal| signal.name.clone()).collect(),
        })
    }

    /// Data that stand for samples still to come: the same inputs for some samples, and nothing measured.
    #[must_use]
    pub fn stand_in(&self, start: f64, step: f64, n_samples: usize, inputs: &[f64]) -> Data {
        let mut data = Data {
            file: "the stream".to_owned(),
            times: (0..n_samples).map(|at| start + at as f64 * step).collect(),
            names: Vec::new(),
            columns: Vec::new(),
            units: Vec::new(),
            lines: Vec::new(),
        };
        let measured = self.measurements.iter().map(|signal| (&signal.column, 0.0));
        for (column, value) in self.inputs.iter().map(|input| &input.column).zip(inputs.iter().copied()).chain(measured)
        {
            if !data.names.contains(column) {
                data.names.push(column.clone());
                data.columns.push(vec![value; n_samples]);
            }
        }
        data
    }
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LiveSample<'a> {
    /// When; later than the sample before it.
    pub time: f64,
    /// Values of the known inputs that samples bring, in the order of [`LiveNames::inputs`], all finite.
    pub inputs: &'a [f64],
    /// Measured values in the order of [`LiveNames::measurements`]; NaN where one is missing.
    pub measurements: &'a [f64],
}

/// What a filter knows after a sample.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveUpdate {
    /// Signals, given all samples so far.
    pub estimates: Vec<Estimate>,
    /// Measurements against what was expected.
    pub innovations: Vec<Innovation>,
}

/// Why a sample cannot be taken.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The linear filter gave up.
    #[error(transparent)]
    Linear(#[from] EstimateError),
    /// The model has no solution at the parameters.
    #[error(transparent)]
    Point(#[from] PointRefusal),
    /// A nonlinear filter without what it works on.
    #[error("the filter of a nonlinear model needs its problem")]
    NoProblem,
    /// The model could not be followed to the sample.
    #[error("the model cannot be followed to t = {time}: a point of the filter has no solution")]
    Broken {
        /// When.
        time: f64,
    },
    /// A time that is too far from the last sample to go there step by step.
    #[error(
        "t = {time} is {n_steps:.3e} steps of the filter after t = {last}, and it goes {MAX_STEPS_TO_SAMPLE:.0e} at most"
    )]
    TooFar {
        /// When.
        time: f64,
        /// The sample before it.
        last: f64,
        /// Steps of the filter in between.
        n_steps: f64,
    },
    /// A sample from before the study starts: its inputs are remembered, its measurements are not used.
    #[error("the sample at t = {time} is from before t = {start}, at which the study starts")]
    BeforeStart {
        /// When.
        time: f64,
        /// The start of the study.
        start: f64,
    },
    /// A sample that is not later than the one before it.
    #[error("the sample at t = {time} is not later than the one at t = {last}")]
    NotLater {
        /// When.
        time: f64,
        /// The sample before it.
        last: f64,
    },
}

/// Most steps of a nonlinear filter from one sample to the next.
const MAX_STEPS_TO_SAMPLE: f64 = 1e5;

/// The model of a study, in the form that its filter needs.
pub enum LiveForm {
    /// Linear with constant coefficients.
    Linear(Box<LinearStudy>),
    /// Any other.
    Nonlinear(Box<PredictionStudy>, FilterKind),
}

/// A study whose filter can be run live.
pub struct LiveModel {
    /// What goes in and out.
    pub names: LiveNames,
    /// Values of the unknowns.
    pub theta: Vec<f64>,
    form: LiveForm,
    /// When the study starts; the first sample if none.
    start: Option<f64>,
    /// Whether a unit of its own begins where its first sample is, if that is before the start of the study.
    is_unit: bool,
    /// By input of the form: the position among the inputs of a sample.
    sources: Vec<Option<usize>>,
    slopes: HeldSlopes,
}

impl LiveModel {
    /// Makes the filter of a study at values of the unknowns, with records that stand for the samples to come.
    ///
    /// # Errors
    /// Diagnostics, when the study is at fault.
    pub fn build(
        loaded: &Loaded,
        names: LiveNames,
        problem: &Problem,
        theta: Vec<f64>,
        seed: u64,
    ) -> Result<Self, Failure> {
        let form = match &problem.linearity {
            Linearity::Constant(model) => {
                LiveForm::Linear(Box::new(posed(loaded, problem, model, SignalsWanted::Yes)?))
            }
            Linearity::TimeVarying(_) | Linearity::Nonlinear(_) => {
                let kind = filter_kind(loaded.study.as_ref());
                if matches!(kind, FilterKind::Particles { .. }) {
                    let message = "particles cannot be watched: what they carry has no fixed size";
                    let finding = Diagnostic::error("watch-filter", message);
                    let help = "leave `filter` out of `[estimate]`, or say \"unscented\" or \"extended\"";
                    return Err(Failure::Input(vec![finding.with_help(help)]));
                }
                let with_record = loaded.with_record(&problem.records[0].data);
                let study = PredictionStudy::live(&with_record, problem, seed)?;
                LiveForm::Nonlinear(Box::new(study), kind)
            }
        };
        Ok(Self::new(loaded, names, form, theta))
    }

    /// Makes a filter again as it was planned.
    ///
    /// # Errors
    /// As [`LiveModel::build`].
    pub fn from_plan(loaded: &Loaded, plan: &LivePlan) -> Result<Self, Failure> {
        let names = LiveNames::of(loaded)?;
        let stand_in = names.stand_in(plan.start, plan.step, STAND_IN_SAMPLES, &plan.inputs);
        let problem = Problem::for_stream(loaded, &stand_in)?;
        let mut model = Self::build(loaded, names, &problem, plan.theta.clone(), 0)?;
        if let (LiveForm::Nonlinear(study, _), Some(grid)) = (&mut model.form, plan.grid) {
            study.settings.method = plan.method;
            study.experiments[0].grid.step = grid;
        }
        model.is_unit = true;
        Ok(model)
    }

    /// Takes a study in the form that its filter needs.
    #[must_use]
    pub fn new(loaded: &Loaded, names: LiveNames, form: LiveForm, theta: Vec<f64>) -> Self {
        let has_start = loaded.study.as_ref().is_some_and(|study: &Study| study.simulate.start.is_some());
        let position = |name: &str| names.inputs.iter().position(|input| input.name == name);
        let sources = match &form {
            LiveForm::Linear(study) => study.inputs.iter().map(|input| position(&input.name)).collect(),
            LiveForm::Nonlinear(study, _) => {
                let description = study.system.description();
                let n_slots = description.inputs.iter().map(|input| input.start + 1).max().unwrap_or(0);
                let mut sources = vec![None; n_slots];
                for input in &description.inputs {
                    sources[input.start] = position(&input.name);
                }
                sources
            }
        };
        let start = has_start.then(|| start_time(loaded, None));
        let slopes = HeldSlopes::of(loaded.study.as_ref(), &form, &theta);
        Self { names, theta, form, start, is_unit: false, sources, slopes }
    }

    /// Whether estimates are exact for the model, which is linear then.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        matches!(self.form, LiveForm::Linear(_))
    }

    /// Lends out filters that have seen nothing, one for each of some values of the unknowns.
    ///
    /// # Errors
    /// When the model has no solution at the parameters.
    pub fn with_filters<R>(&self, thetas: &[Vec<f64>], of: impl FnOnce(&mut [Live<'_>]) -> R) -> Result<R, LiveError> {
        match &self.form {
            LiveForm::Linear(study) => {
                let engine = || Engine::Linear { study, filter: None };
                let lives =
                    thetas.iter().map(|theta| Live { model: self, theta, engine: engine(), early: None, last: None });
                Ok(of(&mut lives.collect::<Vec<_>>()))
            }
            LiveForm::Nonlinear(study, kind) => {
                let problems =
                    thetas.iter().map(|theta| study.signal_problem(theta)).collect::<Result<Vec<_>, PointRefusal>>()?;
                let mut lives = Vec::new();
                for (theta, problem) in thetas.iter().zip(&problems) {
                    let filter = Box::new(problem.live(theta, *kind)?);
                    let inputs = Box::new(study.experiments[0].inputs.clone());
                    let engine = Engine::Nonlinear { filter, inputs, state: None };
                    lives.push(Live { model: self, theta, engine, early: None, last: None });
                }
                Ok(of(&mut lives))
            }
        }
    }

    /// What the filter of a nonlinear model works on; nothing for a linear one.
    ///
    /// # Errors
    /// When the model has no solution at the parameters.
    pub fn problem(&self) -> Result<Option<PredictionProblem<'_>>, LiveError> {
        match &self.form {
            LiveForm::Linear(_) => Ok(None),
            LiveForm::Nonlinear(study, _) => Ok(Some(study.signal_problem(&self.theta)?)),
        }
    }

    /// A filter that has seen nothing, on the [`LiveModel::problem`] of this model.
    ///
    /// # Errors
    /// When the model has no solution at the parameters.
    pub fn filter<'p>(&'p self, problem: Option<&'p PredictionProblem<'p>>) -> Result<Live<'p>, LiveError> {
        let engine = match (&self.form, problem) {
            (LiveForm::Nonlinear(study, kind), Some(problem)) => Engine::Nonlinear {
                filter: Box::new(problem.live(&self.theta, *kind)?),
                inputs: Box::new(study.experiments[0].inputs.clone()),
                state: None,
            },
            (LiveForm::Nonlinear(..), None) => return Err(LiveError::NoProblem),
            (LiveForm::Linear(study), _) => Engine::Linear { study, filter: None },
        };
        Ok(Live { model: self, theta: &self.theta, engine, early: None, last: None })
    }

    /// What is to be told of an error that the study is at fault for.
    #[must_use]
    pub fn finding(&self, error: &LiveError) -> Option<Finding> {
        match (&self.form, error) {
            (LiveForm::Nonlinear(study, _), LiveError::Point(refusal)) => Some(study.refusal(refusal)),
            _ => None,
        }
    }

    /// When an experiment begins whose first sample is at a time; a unit may run before the start of the study.
    fn start(&self, first: f64) -> f64 {
        self.start.unwrap_or(first).min(first)
    }
}

/// What is decided by a record, and must be known to make the same filter without it.
#[derive(Clone, PartialEq, Debug)]
pub struct LivePlan {
    /// Values of the unknowns.
    pub theta: Vec<f64>,
    /// Known inputs at the first sample.
    pub inputs: Vec<f64>,
    /// The time of the first sample.
    pub start: f64,
    /// The usual distance of samples.
    pub step: f64,
    /// The step of the disturbances' grid, for nonlinear models.
    grid: Option<f64>,
    /// How these are integrated.
    method: Option<StepMethod>,
}

/// Methods by the numbers that stand for them.
const METHODS: [StepMethod; 3] = [StepMethod::Explicit3, StepMethod::Explicit4, StepMethod::Implicit3];

impl LivePlan {
    /// Plans the filter of a study, at values of the unknowns or at their start, with the distance of samples that is
    /// given, or else what study and record say.
    ///
    /// # Errors
    /// Diagnostics, when the study is at fault.
    pub fn new(loaded: &Loaded, step: Option<f64>, theta: Option<Vec<f64>>) -> Result<Self, Failure> {
        let study = study_of(loaded)?;
        refuse_unsaid_accuracy(study)?;
        let names = LiveNames::of(loaded)?;
        let asked = step.or(study.watch.step);
        let record = if loaded.has_data() { Some(loaded.experiment(0)?) } else { None };
        let distance = asked.or_else(|| shortest_distance(&record.as_ref()?.times));
        let step = distance.unwrap_or(1.0);
        let start = start_time(loaded, record.as_ref());
        let first = |input: &LiveColumn| {
            let record = record.as_ref()?;
            let at = record.names.iter().position(|name| *name == input.column)?;
            record.columns[at].first().copied().filter(|value| value.is_finite())
        };
        let inputs: Vec<f64> = names.inputs.iter().map(|input| first(input).unwrap_or(0.0)).collect();
        let stand_in = names.stand_in(start, step, STAND_IN_SAMPLES, &inputs);
        let problem = match (asked, &record) {
            (None, Some(record)) => Problem::for_stream(loaded, record)?,
            _ => Problem::for_stream(loaded, &stand_in)?,
        };
        let theta = theta.unwrap_or_else(|| problem.start());
        let mut plan = Self { theta: theta.clone(), inputs, start, step, grid: None, method: None };
        if matches!(problem.linearity, Linearity::Constant(_)) {
            return Ok(plan);
        }
        if distance.is_none() {
            return Err(unknown_step(study));
        }
        let model = LiveModel::build(loaded, names, &problem, theta, 0)?;
        if let LiveForm::Nonlinear(form, _) = &model.form {
            let refused = |refusal: PointRefusal| form.failure(loaded, &refusal);
            plan.grid = Some(form.experiments[0].grid.step);
            plan.method = Some(form.signal_problem(&plan.theta).map_err(refused)?.method());
        }
        Ok(plan)
    }

    /// All of it as numbers.
    #[must_use]
    pub fn numbers(&self) -> [Vec<f64>; 3] {
        let method = METHODS.iter().position(|method| Some(*method) == self.method);
        let method = method.map_or(f64::NAN, |at| at as f64);
        let rest = vec![self.start, self.step, self.grid.unwrap_or(f64::NAN), method];
        [self.theta.clone(), self.inputs.clone(), rest]
    }

    /// What was written as numbers.
    #[must_use]
    pub fn of([theta, inputs, rest]: [Vec<f64>; 3]) -> Option<Self> {
        let [start, step, grid, method] = rest[..] else { return None };
        let grid = Some(grid).filter(|grid| !grid.is_nan());
        let method = if method.is_nan() { None } else { Some(*METHODS.get(method as usize)?) };
        Some(Self { theta, inputs, start, step, grid, method })
    }
}

/// The shortest distance of times.
#[must_use]
pub fn shortest_distance(times: &[f64]) -> Option<f64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).reduce(f64::min)
}

/// A nonlinear model needs a grid between samples.
#[must_use]
pub fn unknown_step(study: &Study) -> Failure {
    let finding = Finding::error("watch-step", Span::NONE, "the usual distance of samples is not known")
        .with_help("say `step = ..` in `[watch]`, or name a record in `[data]`: a nonlinear model needs a grid");
    Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)])
}

/// Expressions of time that jump where no formula says are found along a record; live there is none.
fn refuse_hidden_breaks(loaded: &Loaded) -> Result<(), Failure> {
    let study = study_of(loaded)?;
    let mut diagnostics = Vec::new();
    for input in &study.inputs {
        let InputSource::Expression { expression, breaks } = &input.item else { continue };
        let mut graph = Graph::default();
        let Ok(value) = quantity_expression(&mut graph, &loaded.flat.variables, expression) else { continue };
        let below = Reach::new().below(&graph, &[value]).to_vec();
        let is_hidden = below.into_iter().any(|expr| {
            let Node::Binary { op, lhs, rhs } = graph.node(expr) else { return false };
            if !op.is_relation() && !matches!(op, BinaryOp::Min | BinaryOp::Max) {
                return false;
            }
            let difference = graph.sub(lhs, rhs);
            let slope = graph.partial(difference, Leaf::Time);
            Reach::new().depends_on(&graph, slope, |leaf| leaf == Leaf::Time)
        });
        if is_hidden && breaks.is_empty() {
            let message = format!("the input `{}` switches at times that no record tells", input.name);
            let finding = Finding::error("watch-input", expression.span, message).with_names([&input.name]);
            let finding = finding.with_help("send it as a column of the stream, or list its `breaks = [..]`");
            diagnostics.push(Diagnostic::resolve(&finding, &study.sources));
        }
    }
    if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Input(diagnostics)) }
}

/// The sample before.
#[derive(Clone, PartialEq, Debug)]
struct Last {
    time: f64,
    inputs: Vec<f64>,
}

enum Engine<'p> {
    Linear { study: &'p LinearStudy, filter: Option<Box<LinearFilter>> },
    Nonlinear { filter: Box<LiveFilter<'p, 'p>>, inputs: Box<StudyInputs>, state: Option<Box<LiveState>> },
}

/// A filter that takes samples as they come.
pub struct Live<'p> {
    model: &'p LiveModel,
    /// Values of the unknowns.
    theta: &'p [f64],
    engine: Engine<'p>,
    /// The last sample from before the start.
    early: Option<Last>,
    last: Option<Last>,
}

/// A filter as it was, to return to.
#[derive(Clone)]
pub struct LiveMark {
    linear: Option<LinearState>,
    nonlinear: Option<LiveState>,
    last: Option<Last>,
}

impl Live<'_> {
    /// What goes in and out.
    #[must_use]
    pub fn names(&self) -> &LiveNames {
        &self.model.names
    }

    /// What holds slopes of inputs, which are those before a sample here, and not known at the first one.
    #[must_use]
    pub fn held_slopes(&self) -> &HeldSlopes {
        &self.model.slopes
    }

    /// The time of the last sample.
    #[must_use]
    pub fn time(&self) -> Option<f64> {
        self.last.as_ref().map(|last| last.time)
    }

    /// The inputs of the last sample.
    #[must_use]
    pub fn inputs(&self) -> &[f64] {
        self.last.as_ref().map_or(&[], |last| &last.inputs)
    }

    /// Takes a sample. At the first one slopes of inputs are not known: measurements that hold them are left out there,
    /// and estimates of signals that do are no numbers.
    ///
    /// # Errors
    /// When it is from before the start of the study or not later than the one before, or the filter gives up: it is
    /// then as it was, but for the inputs of an early sample, which hold at the start.
    pub fn update(&mut self, sample: &LiveSample<'_>) -> Result<LiveUpdate, LiveError> {
        if let Some(last) = self.last.as_ref().filter(|last| sample.time <= last.time) {
            return Err(LiveError::NotLater { time: sample.time, last: last.time });
        }
        let here = || Last { time: sample.time, inputs: sample.inputs.to_vec() };
        let is_early = |start: &f64| sample.time < start - SAME_TIME * start.abs() && !self.model.is_unit;
        if let Some(start) = self.model.start.filter(is_early) {
            self.early = Some(here());
            return Err(LiveError::BeforeStart { time: sample.time, start });
        }
        let last = self.last.as_ref().or(self.early.as_ref());
        let is_first = last.is_none();
        let holds = |held: &[Option<String>], at: usize| is_first && held.get(at).is_some_and(Option::is_some);
        let slopes = &self.model.slopes;
        let known = |(at, &value): (usize, &f64)| if holds(&slopes.measurements, at) { f64::NAN } else { value };
        let measurements: Vec<f64> = sample.measurements.iter().enumerate().map(known).collect();
        let sample = &LiveSample { measurements: &measurements, ..*sample };
        let mut update = match &mut self.engine {
            Engine::Linear { study, filter } => {
                let before = filter.as_ref().map(|filter| filter.state().clone());
                let found = update_linear(self.model, self.theta, study, filter, last, sample);
                found.inspect_err(|_| set_linear(filter, before))?
            }
            Engine::Nonlinear { filter, inputs, state } => {
                let before = state.clone();
                let found = update_nonlinear(self.model, filter, inputs, state, last, sample);
                found.inspect_err(|_| *state = before)?
            }
        };
        let signals = update.estimates.iter_mut().enumerate().filter(|(at, _)| holds(&slopes.signals, *at));
        signals.for_each(|(_, estimate)| *estimate = Estimate { mean: f64::NAN, std: f64::NAN });
        self.last = Some(here());
        Ok(update)
    }

    /// Signals at later times under inputs there (`inputs[time][input]`), nothing measured. The filter stays as it is.
    ///
    /// # Errors
    /// As [`Live::update`].
    pub fn predict(&mut self, times: &[f64], inputs: &[Vec<f64>]) -> Result<Vec<Vec<Estimate>>, LiveError> {
        let mark = self.mark();
        let missing = vec![f64::NAN; self.model.names.measurements.len()];
        let mut all = Vec::with_capacity(times.len());
        for (&time, inputs) in times.iter().zip(inputs) {
            match self.update(&LiveSample { time, inputs, measurements: &missing }) {
                Ok(update) => all.push(update.estimates),
                Err(error) => {
                    self.return_to(mark);
                    return Err(error);
                }
            }
        }
        self.return_to(mark);
        Ok(all)
    }

    /// Where the filter is.
    #[must_use]
    pub fn mark(&self) -> LiveMark {
        let (linear, nonlinear) = match &self.engine {
            Engine::Linear { filter, .. } => (filter.as_ref().map(|filter| filter.state().clone()), None),
            Engine::Nonlinear { state, .. } => (None, state.as_deref().cloned()),
        };
        LiveMark { linear, nonlinear, last: self.last.clone() }
    }

    /// Returns to where the filter was.
    pub fn return_to(&mut self, mark: LiveMark) {
        match &mut self.engine {
            Engine::Linear { filter, .. } => set_linear(filter, mark.linear),
            Engine::Nonlinear { state, .. } => *state = mark.nonlinear.map(Box::new),
        }
        self.last = mark.last;
    }

    /// All numbers that are carried on, to be kept; empty before the first sample.
    #[must_use]
    pub fn numbers(&self) -> Vec<Vec<f64>> {
        let Some(last) = &self.last else { return Vec::new() };
        let mut all = vec![vec![last.time], last.inputs.clone()];
        match &self.engine {
            Engine::Linear { filter, .. } => {
                all.extend(filter.iter().flat_map(|filter| [filter.state().numbers(), filter.lengths()]));
            }
            Engine::Nonlinear { filter, state, .. } => {
                all.extend(state.iter().flat_map(|state| filter.numbers(state)));
            }
        }
        all
    }

    /// Goes on from numbers that were kept; `false` where they do not fit.
    ///
    /// # Errors
    /// When the model has no solution at the last inputs.
    pub fn restore(&mut self, numbers: &[Vec<f64>]) -> Result<bool, LiveError> {
        let [time, inputs, rest @ ..] = numbers else { return Ok(false) };
        let ([time], true) = (time.as_slice(), inputs.len() == self.model.names.inputs.len()) else { return Ok(false) };
        let sample = LiveSample { time: *time, inputs, measurements: &[] };
        match &mut self.engine {
            Engine::Linear { study, filter } => {
                let made = first_filter(self.model, self.theta, study, None, &sample)?.filter;
                let [numbers, lengths] = rest else { return Ok(false) };
                let Some(state) = made.state().with_numbers(numbers) else { return Ok(false) };
                let filter = filter.insert(Box::new(made));
                filter.set_state(state);
                filter.set_lengths(lengths);
            }
            Engine::Nonlinear { filter, inputs: known, state } => {
                set_inputs(self.model, known, &[sample.time], &[inputs]);
                let like = filter.begin(sample.time, known.as_ref())?;
                let Some(restored) = filter.restored(&like, rest) else { return Ok(false) };
                *state = Some(Box::new(restored));
            }
        }
        self.last = Some(Last { time: *time, inputs: inputs.clone() });
        Ok(true)
    }
}

/// Returns a linear filter to a state; to nothing if there was none.
fn set_linear(filter: &mut Option<Box<LinearFilter>>, state: Option<LinearState>) {
    match (filter.as_mut(), state) {
        (Some(filter), Some(state)) => filter.set_state(state),
        _ => *filter = None,
    }
}

/// A filter before its first sample, and what leads there.
struct First {
    filter: LinearFilter,
    experiment: daesy_estimate::experiment::Experiment,
}

fn first_filter(
    model: &LiveModel,
    theta: &[f64],
    study: &LinearStudy,
    early: Option<&Last>,
    sample: &LiveSample<'_>,
) -> Result<First, LiveError> {
    let mut times: Vec<f64> = early.iter().map(|early| early.time).collect();
    times.push(sample.time);
    let values = |at: usize| {
        let source = model.sources.get(at).copied().flatten();
        let inputs = early.iter().map(|early| early.inputs.as_slice()).chain([sample.inputs]);
        inputs.map(|inputs| source.map_or(0.0, |at| inputs[at])).collect()
    };
    let own = study.with_first_sample(theta, model.start(sample.time), &times, &values);
    let likelihood = Likelihood::new(&own, theta, FilterOptions::default())?;
    let filter = likelihood.filter_at_start(theta, 0)?;
    let mut experiments = daesy_estimate::descriptor::ParametricModel::experiments(&own).to_vec();
    Ok(First { filter, experiment: experiments.swap_remove(0) })
}

fn update_linear(
    model: &LiveModel,
    theta: &[f64],
    study: &LinearStudy,
    filter: &mut Option<Box<LinearFilter>>,
    last: Option<&Last>,
    sample: &LiveSample<'_>,
) -> Result<LiveUpdate, LiveError> {
    let (filter, experiment) = match (filter, last) {
        (Some(filter), Some(last)) => {
            let values = |at: usize| {
                let source = model.sources.get(at).copied().flatten();
                source.map_or([0.0; 2], |at| [last.inputs[at], sample.inputs[at]])
            };
            (filter, study.between_samples(theta, [last.time, sample.time], &values))
        }
        (filter, early) => {
            let First { filter: made, experiment } = first_filter(model, theta, study, early, sample)?;
            (filter.insert(Box::new(made)), experiment)
        }
    };
    let width = (experiment.degree + 1) * experiment.n_inputs;
    let inputs_of = |segment: usize| &experiment.inputs[segment * width..(segment + 1) * width];
    let here = experiment.segment_of.last().copied().unwrap_or(0);
    for (at, segment) in experiment.segments[..here].iter().enumerate() {
        let slack = 4.0 * f64::EPSILON * sample.time.abs() + 1e-13 * segment.length;
        filter.advance(segment.length, slack, inputs_of(at), &segment.kick);
    }
    let variances = study.variances_at(theta, sample.time);
    let taken = filter.correct(sample.time, sample.measurements, variances.as_deref(), inputs_of(here))?;
    let mut innovations = vec![Innovation::MISSING; sample.measurements.len()];
    for taken in taken {
        innovations[taken.measurement] =
            Innovation { value: taken.innovation, normalized: taken.normalized, std: taken.std };
    }
    let estimates = filter.estimates(inputs_of(here));
    if !filter.state().mean.iter().all(|value| value.is_finite()) {
        return Err(EstimateError::Overflow { time: sample.time }.into());
    }
    Ok(LiveUpdate { estimates, innovations })
}

/// Puts the inputs of samples in the place of the columns.
fn set_inputs(model: &LiveModel, inputs: &mut StudyInputs, times: &[f64], values: &[&[f64]]) {
    inputs.set_samples(times, |slot| {
        let source = model.sources.get(slot).copied().flatten();
        values.iter().map(|values| source.map_or(0.0, |at| values[at])).collect()
    });
}

fn update_nonlinear(
    model: &LiveModel,
    filter: &mut LiveFilter<'_, '_>,
    inputs: &mut StudyInputs,
    state: &mut Option<Box<LiveState>>,
    last: Option<&Last>,
    sample: &LiveSample<'_>,
) -> Result<LiveUpdate, LiveError> {
    match last {
        Some(last) => set_inputs(model, inputs, &[last.time, sample.time], &[&last.inputs, sample.inputs]),
        None => set_inputs(model, inputs, &[sample.time], &[sample.inputs]),
    }
    let state = match state {
        Some(state) => state,
        None => state.insert(Box::new(filter.begin(model.start(sample.time), inputs)?)),
    };
    let n_steps = filter.n_steps(state, sample.time);
    if n_steps > MAX_STEPS_TO_SAMPLE {
        return Err(LiveError::TooFar { time: sample.time, last: state.time, n_steps });
    }
    let Crossed { innovations, mean, std, is_whole, .. } =
        filter.cross(state, sample.time, inputs, sample.measurements)?;
    if !is_whole {
        return Err(LiveError::Broken { time: sample.time });
    }
    let n_measured = sample.measurements.len();
    let pairs = mean.iter().zip(&std).skip(n_measured);
    let estimates = pairs.map(|(&mean, &std)| Estimate { mean, std }).collect();
    Ok(LiveUpdate { estimates, innovations })
}
