//! A study as a prediction problem: its unknowns, disturbances, measurements and data, for models of any kind.

use daesy_compile::CompiledSystem;
use daesy_estimate::noise::jet::JetMatrix;
use daesy_estimate::noise::normal::Draw;
use daesy_estimate::noise::{Interpolation, NoiseError, ShapingFilter, normal, philox};
use daesy_estimate::nonlinear::StateEstimates;
use daesy_estimate::pem::{
    FilterKind, FilterRequest, MeasuredExperiment, ParameterPoint, Parameterization, PointRefusal, PredictionProblem,
    PredictionSettings,
};
use daesy_estimate::search::SearchSpace;
use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, Variable, VariableKind};
use daesy_graph::node::{BinaryOp, UnaryOp};
use daesy_graph::{Evaluator, ExprId, Graph, Leaf, Node, Reach, Span, VarId};
use daesy_integrate::ensemble::{EnsembleError, EnsembleOptions, Grid, LaneFailureReason};
use daesy_pencil::Mat;
use daesy_system::{DaeSystem, Description, GivenParameter, StepMethod, Watch};

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::inputs::{ParameterValues, StudyInputs};
use crate::limits;
use crate::load::{Loaded, quantity_expression};
use crate::no_trajectory::NoTrajectory;
use crate::prepare::{Changing, DataUse, Prepared, Purpose, prepare};
use crate::problem::{Problem, Record, Unknown, reached, study_of, varying_accuracy};
use crate::study::{Disturbance, DisturbanceProcess, InitialMode, Measurement, Named, Quantity, Study};
use crate::unknown_start::record_name;

/// A number of a filter as a function of the parameters, with its derivatives.
struct Entry {
    value: ExprId,
    /// Parameters it depends on, with the derivative by each.
    gradient: Vec<(VarId, ExprId)>,
}

/// A filter whose numbers depend on parameters.
struct FilterEntries {
    name: String,
    a: Vec<Vec<Entry>>,
    b: Vec<Vec<Entry>>,
    c: Vec<Vec<Entry>>,
    starts_at_zero: bool,
    derivatives_needed: Vec<u16>,
}

/// A measured quantity.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Variance of its error, where the study gives one.
    pub variance: Option<f64>,
}

/// One experiment of the study.
pub struct StudyExperiment {
    /// Known inputs.
    pub inputs: StudyInputs,
    /// Time axis.
    pub grid: Grid,
    /// `[sample * n_outputs + output]`
    pub measured: Vec<f64>,
    /// Whether a sample counts.
    pub is_used: Vec<bool>,
}

/// A study as a prediction problem.
pub struct PredictionStudy {
    /// The model, compiled for lanes.
    pub system: CompiledSystem,
    /// Unknowns.
    pub unknowns: Vec<Unknown>,
    /// Their positions among the parameters of the compiled model.
    places: Vec<u32>,
    /// Bounds and typical sizes.
    pub space: SearchSpace,
    /// Measured quantities.
    pub measured: Vec<Measured>,
    /// Experiments.
    pub experiments: Vec<StudyExperiment>,
    /// How predictions are made.
    pub settings: PredictionSettings,
    /// What was rewritten because structure misleads.
    pub rewritten: Vec<Finding>,
    /// In what the start is another than the one that was asked for.
    pub start_note: Option<Finding>,
    /// Names and places of the disturbances, in the order of the filters.
    pub disturbances: Vec<(String, Span)>,
    graph: Graph,
    variables: Vec<VarId>,
    n_variables: usize,
    filters: Vec<FilterEntries>,
    observed: Vec<u32>,
    signals: Vec<u32>,
    slots: Vec<usize>,
    accuracies: Vec<Accuracy>,
    noise_scales: Vec<bool>,
    /// Parameters that are one in the record of their number and zero in the others; see `unknown_start`.
    record_places: Vec<u32>,
    engine: Engine,
    /// Whether there are relations, or the like, that are evaluated where they stand.
    has_open_relations: bool,
}

/// How trajectories are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Engine {
    /// Many side by side, relations evaluated where they stand.
    Lanes,
    /// One by one, from event to event, without disturbances.
    Events,
    /// As points of a mixture, from event to event, each with a disturbance of its own.
    Mixture,
}

impl Engine {
    const fn purpose(self) -> Purpose {
        match self {
            Self::Lanes => Purpose { changing: Changing::Varied, ..Purpose::LANES },
            Self::Events | Self::Mixture => Purpose { changing: Changing::Varied, ..Purpose::TRAJECTORY },
        }
    }
}

/// Whether variables of a model change at events only.
#[must_use]
pub fn has_discrete(flat: &FlatDae) -> bool {
    !flat.when_clauses.is_empty() || flat.variables.iter().any(|variable| variable.kind == VariableKind::Discrete)
}

/// Whether anything is written in a model that may be an event.
fn may_have_events(flat: &FlatDae) -> bool {
    let jumps = |node: Node| match node {
        Node::Pre(_) | Node::Sample { .. } => true,
        Node::Unary { op, .. } => matches!(op, UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::Sign),
        Node::Binary { op, .. } => {
            op.is_relation() || matches!(op, BinaryOp::Quotient | BinaryOp::Modulo | BinaryOp::Remainder)
        }
        _ => false,
    };
    has_discrete(flat) || flat.graph.nodes().any(jumps)
}

/// Who does not follow events that a disturbance moves.
enum Unfollowed {
    Ensembles,
    Live,
    Unit,
    Past,
    Filter,
}

/// Refuses a disturbance that acts in a model with discrete variables or when-clauses, where nobody follows its events.
fn refuse_disturbed_events(loaded: &Loaded, who: &Unfollowed) -> Result<(), Failure> {
    let study = study_of(loaded)?;
    let (true, Some(disturbance)) = (has_discrete(&loaded.flat), study.disturbances.first()) else { return Ok(()) };
    let what = match loaded.unit {
        Some(_) => "unit with event indicators, discrete inputs or events in time",
        None => "model with discrete variables or when-clauses",
    };
    let left_out = "`method = \"output-error\"` leaves it out, with robust standard errors";
    let (why, help) = match who {
        Unfollowed::Ensembles => (
            "there is no ensemble for this",
            format!("`method = \"ml\"` filters it, with one hypothesis for each discrete state; {left_out}"),
        ),
        Unfollowed::Live => (
            "a filter that takes samples as they come does not follow them",
            "`estimate` follows them through a record; or model the switching by smooth functions".to_owned(),
        ),
        Unfollowed::Unit => (
            "there is no filter and no ensemble for this inside a unit",
            format!("{left_out}; or take the Modelica model in its place"),
        ),
        Unfollowed::Past => (
            "there is no filter for this where the model reads the past of a signal (`delay`)",
            format!("{left_out}; or write the delay as a chain of first-order lags"),
        ),
        Unfollowed::Filter => (
            "the filter that the study names does not follow them",
            "leave `filter` out of `[estimate]`: such a model has a filter of its own, a mixture over its discrete \
             states"
                .to_owned(),
        ),
    };
    let message = format!(
        "the disturbance `{}` acts in a {what}, whose events would be at other times in every realization: {why}",
        disturbance.name
    );
    let finding = Finding::error("disturbed-events", disturbance.span, message).with_names([&disturbance.name]);
    Err(Failure::Input(vec![Diagnostic::resolve(&finding.with_help(help), &study.sources)]))
}

/// How accurate a measurement is.
#[derive(Clone, Copy)]
enum Accuracy {
    /// The study does not say.
    Unsaid,
    /// By its standard deviation.
    Std(ExprId),
    /// By its variance.
    Variance(ExprId),
}

/// Realizations when nobody says how many.
const DEFAULT_REALIZATIONS: u64 = 200;

/// Points of the disturbance grid between two samples when nobody says.
const DEFAULT_POINTS: f64 = 10.0;

/// Particles when nobody says how many.
const DEFAULT_PARTICLES: u64 = 1000;

/// Points for each discrete state of a model with events when nobody says how many.
const DEFAULT_POINTS_OF_MIXTURE: usize = 128;

/// The filter that a study names, the unscented one if it names none.
#[must_use]
pub fn filter_kind(study: Option<&Study>) -> FilterKind {
    match study.and_then(|study| study.filter.as_deref()) {
        Some("extended") => FilterKind::Extended,
        Some("particles") => {
            let n = study.and_then(|study| study.particles).unwrap_or(DEFAULT_PARTICLES);
            FilterKind::Particles { n_particles: n as usize }
        }
        _ => FilterKind::Unscented,
    }
}

impl PredictionStudy {
    /// Reads a study and builds its prediction problem.
    ///
    /// # Errors
    /// Diagnostics with places in model, study or data.
    pub fn of(loaded: &Loaded, seed: u64) -> Result<Self, Failure> {
        Self::new(loaded, &Problem::read(loaded)?, seed)
    }

    /// Builds the prediction problem of a study.
    ///
    /// # Errors
    /// Diagnostics with places in model, study or data.
    pub fn new(loaded: &Loaded, problem: &Problem, seed: u64) -> Result<Self, Failure> {
        Self::with(loaded, problem, seed, study_of(loaded)?.disturbances.is_empty())
    }

    /// Builds the prediction problem of a study for ensembles, which follow no events that disturbances move.
    ///
    /// # Errors
    /// As [`PredictionStudy::new`], and where a disturbance acts in a model with discrete variables.
    pub fn ensembles(loaded: &Loaded, problem: &Problem, seed: u64) -> Result<Self, Failure> {
        refuse_disturbed_events(loaded, &Unfollowed::Ensembles)?;
        Self::new(loaded, problem, seed)
    }

    /// Builds the prediction problem of a study whose disturbances are left out.
    ///
    /// # Errors
    /// As [`PredictionStudy::new`].
    pub fn undisturbed(loaded: &Loaded, problem: &Problem, seed: u64) -> Result<Self, Failure> {
        // Without disturbances there are none at the start either.
        Ok(Self { start_note: None, ..Self::with(loaded, problem, seed, true)? })
    }

    /// Builds the problem of a filter that takes samples as they come: relations are evaluated where they stand, and
    /// nothing may jump.
    ///
    /// # Errors
    /// As [`PredictionStudy::new`], and where the model has events.
    pub fn live(loaded: &Loaded, problem: &Problem, seed: u64) -> Result<Self, Failure> {
        refuse_disturbed_events(loaded, &Unfollowed::Live)?;
        if has_discrete(&loaded.flat) {
            let message = "the model has discrete variables or when-clauses, and a filter that takes samples as they come \
                           follows no events";
            let diagnostic = Diagnostic::error("live-events", message);
            let help = "`estimate` follows them through a record; or model the switching by smooth functions";
            return Err(Failure::Input(vec![diagnostic.with_help(help)]));
        }
        Self::build(loaded, problem, seed, Engine::Lanes)
    }

    /// The same with samples in the rows of the data that measure nothing, too: what is estimated there is what the
    /// others say. Rows between the points of the disturbances' grid are left out; gives their number.
    #[must_use]
    pub fn with_every_row(mut self, problem: &Problem) -> (Self, usize) {
        let n_outputs = problem.measured.len();
        let mut n_left_out = 0;
        for (experiment, record) in self.experiments.iter_mut().zip(&problem.records) {
            let Grid { start, step, .. } = experiment.grid;
            let (mut samples, mut measured, mut is_used) = (Vec::new(), Vec::new(), Vec::new());
            let rows = record.data.times.iter().zip(record.measured.chunks(n_outputs)).enumerate();
            for (row, (&time, values)) in rows.filter(|(_, (time, _))| **time >= start) {
                let place = (time - start) / step;
                let is_seen = values.iter().any(|value| value.is_finite());
                if is_seen || self.engine == Engine::Events || (place - place.round()).abs() <= 1e-6 {
                    samples.push(time);
                    measured.extend_from_slice(values);
                    is_used.push(row >= record.first_counted);
                } else {
                    n_left_out += 1;
                }
            }
            experiment.grid.samples = samples;
            (experiment.measured, experiment.is_used) = (measured, is_used);
        }
        (self, n_left_out)
    }

    /// A model with events is followed from event to event: if nothing disturbs it one trajectory, otherwise, where it has
    /// discrete variables, points of a mixture. One that has relations only, and
    /// cannot be followed so, as where it slides along the border of one, is advanced in lanes, which evaluate
    /// relations where they stand. Units of other tools are followed too: every evaluation of theirs is a message, and
    /// the steps of one trajectory are as long as its error allows, where those of lanes are short and equal.
    fn with(loaded: &Loaded, problem: &Problem, seed: u64, is_undisturbed: bool) -> Result<Self, Failure> {
        if !is_undisturbed && has_discrete(&loaded.flat) {
            return Self::mixture(loaded, problem, seed);
        }
        let is_foreign = loaded.flat.graph.calls_foreign();
        if is_undisturbed && (is_foreign || may_have_events(&loaded.flat)) {
            let followed = Self::build(loaded, problem, seed, Engine::Events)?;
            let can_happen = followed.system.description().events.can_happen();
            let is_followed = |study: &Self| {
                let start = study.start();
                let made = study.problem(study.settings.clone(), &start);
                made.and_then(|problem| problem.predict(&[start], 1, &loaded.watch)).is_ok()
            };
            if (can_happen || is_foreign) && (has_discrete(&loaded.flat) || is_followed(&followed)) {
                return Ok(followed);
            }
        }
        Self::build(loaded, problem, seed, Engine::Lanes)
    }

    /// A model with discrete variables in which disturbances act.
    fn mixture(loaded: &Loaded, problem: &Problem, seed: u64) -> Result<Self, Failure> {
        if loaded.unit.is_some() || loaded.flat.graph.calls_foreign() {
            refuse_disturbed_events(loaded, &Unfollowed::Unit)?;
        }
        if study_of(loaded)?.filter.is_some() {
            refuse_disturbed_events(loaded, &Unfollowed::Filter)?;
        }
        let study = Self::build(loaded, problem, seed, Engine::Mixture)?;
        if !study.system.pasts().is_empty() {
            refuse_disturbed_events(loaded, &Unfollowed::Past)?;
        }
        Ok(study)
    }

    fn build(loaded: &Loaded, problem: &Problem, seed: u64, engine: Engine) -> Result<Self, Failure> {
        let study = study_of(loaded)?;
        let resolve = |findings: Vec<Finding>| -> Vec<Diagnostic> {
            findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect()
        };
        let mut graph = Graph::default();
        let variables = &loaded.flat.variables;
        let filter_exprs = read_filters(&mut graph, variables, study).map_err(&resolve)?;
        let accuracies = read_accuracies(&mut graph, variables, study).map_err(&resolve)?;
        refuse_unknown_inputs(loaded, study, problem).map_err(&resolve)?;
        refuse_unhonoured(study, &graph, &accuracies, &filter_exprs).map_err(&resolve)?;
        let Prepared { system, parameters, rewritten, .. } = prepare(loaded, engine.purpose())?;
        let places = places(problem, &system).map_err(&resolve)?;
        let variances = accuracies_at(&graph, &accuracies, &system, &parameters, variables.len());
        let description = system.description();
        let observed = problem
            .measured
            .iter()
            .filter_map(|measured| description.observed.iter().position(|known| *known == measured.variable))
            .map(|at| at as u32)
            .collect();
        let signals = study
            .signals
            .iter()
            .filter_map(|signal| description.observed.iter().position(|known| *known == signal.name))
            .map(|at| at as u32)
            .collect();
        let Shaping { slots, filters, disturbances } = Shaping::read(&mut graph, study, filter_exprs, description);
        let experiments = read_experiments(loaded, study, problem, &system, &parameters, engine)?;
        let n_realizations = study.identify.realizations.unwrap_or(DEFAULT_REALIZATIONS) as usize;
        let description = system.description();
        let numbers_each = (1 + problem.unknowns.len()) * (description.states.len() + study.measurements.len());
        limits::ensemble(n_realizations, numbers_each)
            .map_err(|refusal| vec![Diagnostic::resolve(&refusal.at(Span::NONE), &study.sources)])?;
        let settings = settings(study, &variances, n_realizations, seed, engine);
        let place = |record: usize| {
            let name = record_name(record);
            description.parameters.iter().position(|known| *known == name).map(|at| at as u32)
        };
        let record_places = (0..problem.records.len()).map_while(place).collect();
        let measured = problem
            .measured
            .iter()
            .zip(&variances)
            .map(|(measured, &variance)| Measured { name: measured.name.clone(), variance })
            .collect();
        Ok(Self {
            unknowns: problem.unknowns.clone(),
            places,
            space: problem.space.clone(),
            measured,
            experiments,
            settings,
            rewritten,
            start_note: stationary_start(study).filter(|_| engine != Engine::Events),
            disturbances,
            graph,
            variables: system.regular().parameters.clone(),
            n_variables: variables.len(),
            filters,
            observed,
            signals,
            slots,
            accuracies,
            noise_scales: problem.motion_depends_on(loaded).iter().map(|moves| !moves).collect(),
            record_places,
            engine,
            has_open_relations: engine == Engine::Lanes && may_have_events(&loaded.flat),
            system,
        })
    }

    fn given(&self, theta: &[f64]) -> Vec<GivenParameter> {
        let given = |(&parameter, &value): (&u32, &f64)| GivenParameter { parameter, value };
        self.places.iter().zip(theta).map(given).collect()
    }

    /// Whether an unknown that trajectories have no derivative by may move them all the same: through a relation that is
    /// evaluated where it stands.
    #[must_use]
    pub fn may_act_through_a_relation(&self, unknown: usize) -> bool {
        self.has_open_relations && !self.noise_scales.get(unknown).copied().unwrap_or(true)
    }

    /// The starting point of a search.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        self.unknowns.iter().map(|unknown| unknown.start).collect()
    }

    /// Whether only disturbances and measurement errors depend on an unknown.
    #[must_use]
    pub fn is_noise_scale(&self, unknown: usize) -> bool {
        self.noise_scales[unknown]
    }

    /// The prediction problem, the method chosen at a point.
    ///
    /// # Errors
    /// When that point has no prediction.
    pub fn problem<'a>(
        &'a self,
        settings: PredictionSettings,
        reference: &[f64],
    ) -> Result<PredictionProblem<'a>, PointRefusal> {
        let experiments = self
            .experiments
            .iter()
            .map(|experiment| MeasuredExperiment {
                grid: experiment.grid.clone(),
                inputs: &experiment.inputs,
                measured: experiment.measured.clone(),
                is_used: experiment.is_used.clone(),
            })
            .collect();
        self.problem_of(experiments, self.observed.clone(), settings, reference)
    }

    /// The prediction problem of the beginning of every experiment: this share of its samples.
    ///
    /// # Errors
    /// As [`PredictionStudy::problem`].
    pub fn beginning<'a>(&'a self, share: f64, reference: &[f64]) -> Result<PredictionProblem<'a>, PointRefusal> {
        let n_outputs = self.measured.len();
        let beginning = |own: &'a StudyExperiment| {
            let n = ((share * own.grid.samples.len() as f64).ceil() as usize).min(own.grid.samples.len());
            MeasuredExperiment {
                grid: Grid { samples: own.grid.samples[..n].to_vec(), ..own.grid.clone() },
                inputs: &own.inputs,
                measured: own.measured[..n * n_outputs].to_vec(),
                is_used: own.is_used[..n].to_vec(),
            }
        };
        let experiments = self.experiments.iter().map(beginning).collect();
        self.problem_of(experiments, self.observed.clone(), self.settings.clone(), reference)
    }

    fn problem_of<'a>(
        &'a self,
        experiments: Vec<MeasuredExperiment<'a>>,
        observed: Vec<u32>,
        settings: PredictionSettings,
        reference: &[f64],
    ) -> Result<PredictionProblem<'a>, PointRefusal> {
        if self.engine != Engine::Lanes {
            let slots = self.slots.clone();
            let system = &self.system;
            // What is usual is a matter of the study, wherever a search begins.
            let start = self.start();
            return Ok(PredictionProblem::by_events(system, self, experiments, observed, slots, settings, &start));
        }
        PredictionProblem::new(&self.system, self, experiments, observed, self.slots.clone(), settings, reference)
    }

    /// Whether trajectories are followed one by one, from event to event.
    #[must_use]
    pub fn follows_events(&self) -> bool {
        self.engine != Engine::Lanes
    }

    /// Whether disturbances act in a model that is followed from event to event.
    #[must_use]
    pub fn is_mixture(&self) -> bool {
        self.engine == Engine::Mixture && !self.slots.is_empty()
    }

    /// Whether events happen in trajectories that are followed.
    #[must_use]
    pub fn meets_events(&self) -> bool {
        self.engine != Engine::Lanes && self.system.description().events.can_happen()
    }

    /// The problem whose outputs are the measured quantities and then the study's signals.
    ///
    /// # Errors
    /// When the reference has no prediction.
    pub fn signal_problem<'a>(&'a self, reference: &[f64]) -> Result<PredictionProblem<'a>, PointRefusal> {
        let observed: Vec<u32> = self.observed.iter().chain(&self.signals).copied().collect();
        let without_values = |own: &'a StudyExperiment| MeasuredExperiment {
            grid: own.grid.clone(),
            inputs: &own.inputs,
            measured: Vec::new(),
            is_used: Vec::new(),
        };
        let experiments = self.experiments.iter().map(without_values).collect();
        self.problem_of(experiments, observed, self.settings.clone(), reference)
    }

    /// Places of what is measured, and of the signals, among the observed quantities of the system.
    #[must_use]
    pub fn observed_places(&self) -> (&[u32], &[u32]) {
        (&self.observed, &self.signals)
    }

    /// Estimates the study's signals in one experiment of its [`signal_problem`](Self::signal_problem):
    /// `[sample * n_signals + signal]`.
    ///
    /// # Errors
    /// When the point means nothing, or samples are not on the grid of the disturbances.
    pub fn filter(
        &self,
        all: &PredictionProblem<'_>,
        theta: &[f64],
        experiment: usize,
        kind: &FilterKind,
        watch: &Watch,
    ) -> Result<StateEstimates, PointRefusal> {
        let own = &self.experiments[experiment];
        let variances = self.variances(theta)?;
        let request = FilterRequest { experiment, measured: &own.measured, variances: &variances, smooths: true };
        let mut estimates = all.filter(theta, &request, kind, watch)?;
        let (n_measured, n_signals) = (self.measured.len(), self.signals.len());
        for list in
            [&mut estimates.filtered, &mut estimates.filtered_std, &mut estimates.smoothed, &mut estimates.smoothed_std]
        {
            *list = list.chunks(n_measured + n_signals).flat_map(|row| row[n_measured..].to_vec()).collect();
        }
        Ok(estimates)
    }

    /// Artificial data of the study's experiments: outputs of single realizations at the study's sample times with
    /// measurement errors added, `[set][experiment][sample * n_outputs + output]`. The seed should not be that of the
    /// predictions.
    ///
    /// # Errors
    /// When the point has no prediction.
    pub fn artificial_data(
        &self,
        theta: &[f64],
        n_sets: usize,
        seed: u64,
        watch: &Watch,
    ) -> Result<Vec<Vec<Vec<f64>>>, PointRefusal> {
        let settings = PredictionSettings { seed, is_antithetic: false, ..self.settings.clone() };
        let variances = self.variances(theta)?;
        let mut sets = self.problem(settings, theta)?.realize(theta, n_sets, watch)?;
        for (set, experiments) in sets.iter_mut().enumerate() {
            for (experiment, values) in experiments.iter_mut().enumerate() {
                let n_outputs = self.measured.len();
                for (at, value) in values.iter_mut().enumerate() {
                    let variance = variances[at % n_outputs];
                    let draw = Draw {
                        key: philox::key(seed),
                        step: (at / n_outputs) as u32,
                        pair: philox::experiment_and_pair(experiment as u32, (at % n_outputs) as u32),
                        purpose: philox::Purpose::Measurement.word(),
                    };
                    *value += variance.sqrt() * normal::pair(draw, set as u32)[0];
                }
            }
        }
        Ok(sets)
    }

    /// A refused point as a failure of the whole.
    #[must_use]
    pub fn failure(&self, loaded: &Loaded, refusal: &PointRefusal) -> Failure {
        if let PointRefusal::Start(error) = refusal {
            let start_time = self.experiments.first().map_or(0.0, |experiment| experiment.grid.start);
            return NoTrajectory { system: &self.system, start_time }.failure(error);
        }
        let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
        let diagnostics = vec![Diagnostic::resolve(&self.refusal(refusal), &sources)];
        match refusal {
            PointRefusal::Ensemble(_) | PointRefusal::Trajectory(_) => Failure::Method(diagnostics),
            _ => Failure::Input(diagnostics),
        }
    }

    /// The finding that a measured quantity has no prediction at a time, or none that can be differentiated.
    fn no_prediction(&self, output: usize, time: f64, by: Option<usize>) -> Finding {
        let regular = self.system.regular();
        let flat = &regular.flat;
        let all: Vec<u32> = self.observed.iter().chain(&self.signals).copied().collect();
        let name = all.get(output).map_or("", |&at| self.system.description().observed[at as usize].as_str());
        let var = flat.find(name);
        let eliminated = regular.eliminated.iter().find(|it| Some(it.var) == var).map(|it| it.source);
        let solved = regular.unknowns.iter().position(|unknown| Some(unknown.var) == var);
        let source = eliminated.or_else(|| solved.map(|at| regular.equations[at].source));
        let equation = source.map_or_else(String::new, |at| {
            format!(", which `{}` determines,", flat.equation_text(&flat.equations[at as usize]))
        });
        let (message, help) = match by {
            None => (
                format!(
                    "the prediction of `{name}`{equation} has no finite value at t = {time}: a quotient such as 0/0, or an overflow"
                ),
                "write the equation so that it has a value there, or leave the sample out by a `transient` in `[identify]` that ends \
                 after it",
            ),
            Some(by) => (
                format!(
                    "the prediction of `{name}`{equation} has no finite derivative by `{}` at t = {time}: a slope of the equations is \
                     infinite on the way, as that of sqrt(x) at x = 0",
                    self.unknowns[by].name
                ),
                "take `method = \"ml\"`, which needs no derivatives of trajectories, or a start at which the equations can be \
                 differentiated",
            ),
        };
        Finding::error("no-prediction", Span::NONE, message).with_names([name]).with_help(help)
    }

    /// A refused point as a finding.
    #[must_use]
    pub fn refusal(&self, refusal: &PointRefusal) -> Finding {
        match refusal {
            PointRefusal::Noise(error) => {
                let (NoiseError::TooRough { filter, .. }
                | NoiseError::Unstable { filter }
                | NoiseError::IllConditioned { filter }) = error
                else {
                    return Finding::error("disturbance", Span::NONE, error.to_string());
                };
                let (name, span) = &self.disturbances[*filter];
                let (code, message, help) = match error {
                    NoiseError::TooRough { needed, available, .. } => (
                        "pole-excess",
                        format!(
                            "the model needs derivative {needed} of the disturbance `{name}`, which takes a pole excess of at least \
                             {} in its spectrum; it has {}",
                            2 * (needed + 1),
                            2 * available
                        ),
                        "give it a spectrum that falls off faster: a filter of higher order",
                    ),
                    NoiseError::Unstable { .. } => (
                        "disturbance-unstable",
                        format!("the disturbance `{name}` has no stationary law: its filter is not stable"),
                        "set `initial = \"zero\"`, or change the filter",
                    ),
                    _ => (
                        "disturbance-grid",
                        format!("the time constants of `{name}` differ too much from `noise_step`"),
                        "choose a `noise_step` nearer to its time constants",
                    ),
                };
                Finding::error(code, *span, message).with_names([name]).with_help(help)
            }
            PointRefusal::Start(error) => Finding::error("no-consistent-start", Span::NONE, error.to_string())
                .with_help("`daesy check` says more about the start"),
            PointRefusal::Trajectory(error) => Finding::error("trajectory", Span::NONE, error.to_string()).with_help(
                "`daesy simulate` shows the trajectory; other starts or bounds may keep away from this point",
            ),
            PointRefusal::Ensemble(EnsembleError::Stopped) => {
                Finding::error("stopped", Span::NONE, "stopped before an answer was found")
            }
            PointRefusal::NoPrediction { output, time, by } => self.no_prediction(*output, *time, *by),
            PointRefusal::Ensemble(
                error @ EnsembleError::AllFailed { time, reason: LaneFailureReason::NotFinite | LaneFailureReason::NearlySingular },
            ) if self.experiments.iter().any(|experiment| experiment.grid.start == *time) => {
                let message = format!("{error}; the equations have no finite value at the start, such as 0/0, or an infinite slope");
                Finding::error("ensemble", Span::NONE, message).with_help(
                    "begin a little later: leave out the samples at the start, or give `start` in `[simulate]`; or give `start` values \
                     at which the equations can be solved and differentiated",
                )
            }
            PointRefusal::Ensemble(error) => Finding::error("ensemble", Span::NONE, error.to_string())
                .with_help("`daesy simulate` shows a single trajectory; tighten rtol, or take `solver = \"implicit\"`"),
            PointRefusal::OffGrid { .. } => Finding::error("sample-between", Span::NONE, refusal.to_string()).with_help(
                "give a `noise_step` in `[identify]` of which all distances of samples are multiples; `method = \"pem\"` needs none",
            ),
            other => Finding::error("no-prediction", Span::NONE, other.to_string()),
        }
    }
}

impl Parameterization for PredictionStudy {
    fn n_unknowns(&self) -> usize {
        self.unknowns.len()
    }

    fn at(&self, theta: &[f64], with_derivatives: bool) -> Result<ParameterPoint, PointRefusal> {
        let given = self.given(theta);
        let parameters = self.system.parameter_values(&given)?;
        let mut tangents = Vec::new();
        if with_derivatives {
            for &place in &self.places {
                tangents.push(self.system.parameter_tangent(&given, place)?);
            }
        }
        let mut values = vec![f64::NAN; self.n_variables];
        let mut position = vec![usize::MAX; self.n_variables];
        for (at, (var, &value)) in self.variables.iter().zip(&parameters).enumerate() {
            values[var.index()] = value;
            position[var.index()] = at;
        }
        let mut evaluator = Evaluator::new();
        let mut number = |expr: ExprId, filter: &FilterEntries| -> Result<f64, PointRefusal> {
            let value = evaluator.evaluate_one(&self.graph, expr, &|var: VarId, _: u16| values[var.index()]);
            if value.is_finite() {
                return Ok(value);
            }
            Err(PointRefusal::NotFinite { what: format!("a number of the disturbance `{}`", filter.name) })
        };
        let mut jet = |matrix: &[Vec<Entry>], filter: &FilterEntries| -> Result<JetMatrix, PointRefusal> {
            let (n_rows, n_cols) = (matrix.len(), matrix.first().map_or(0, Vec::len));
            let mut jet = JetMatrix::constant(Mat::zeros(n_rows, n_cols), tangents.len());
            for (i, row) in matrix.iter().enumerate() {
                for (j, entry) in row.iter().enumerate() {
                    jet.value[(i, j)] = number(entry.value, filter)?;
                    for (var, derivative) in &entry.gradient {
                        let at = position[var.index()];
                        if tangents.iter().any(|tangent| tangent[at] != 0.0) {
                            let derivative = number(*derivative, filter)?;
                            for (target, tangent) in jet.derivatives.iter_mut().zip(&tangents) {
                                target[(i, j)] += derivative * tangent[at];
                            }
                        }
                    }
                }
            }
            Ok(jet)
        };
        let mut filters = Vec::with_capacity(self.filters.len());
        for filter in &self.filters {
            filters.push(ShapingFilter {
                dynamics: jet(&filter.a, filter)?,
                input: jet(&filter.b, filter)?,
                output: jet(&filter.c, filter)?,
                starts_at_zero: filter.starts_at_zero,
                derivatives_needed: filter.derivatives_needed.clone(),
            });
        }
        Ok(ParameterPoint { parameters, tangents, filters })
    }

    fn begin_record(&self, record: usize, parameters: &mut [f64]) {
        for (at, &place) in self.record_places.iter().enumerate() {
            parameters[place as usize] = f64::from(u8::from(at == record));
        }
    }

    fn variances(&self, theta: &[f64]) -> Result<Vec<f64>, PointRefusal> {
        let given = self.given(theta);
        let parameters = self.system.parameter_values(&given)?;
        let mut values = vec![f64::NAN; self.n_variables];
        for (var, &value) in self.variables.iter().zip(&parameters) {
            values[var.index()] = value;
        }
        let mut evaluator = Evaluator::new();
        let mut number =
            |expr: ExprId| evaluator.evaluate_one(&self.graph, expr, &|var: VarId, _: u16| values[var.index()]);
        self.accuracies
            .iter()
            .zip(&self.measured)
            .map(|(accuracy, measured)| {
                let variance = match *accuracy {
                    Accuracy::Variance(variance) => number(variance),
                    Accuracy::Std(std) => number(std).powi(2),
                    Accuracy::Unsaid => 0.0,
                };
                if variance.is_finite() && variance >= 0.0 {
                    Ok(variance)
                } else {
                    Err(PointRefusal::NotFinite {
                        what: format!("the variance of the measurement `{}`", measured.name),
                    })
                }
            })
            .collect()
    }
}

/// An expression with its derivatives by the parameters in it.
fn entry(graph: &mut Graph, value: ExprId) -> Entry {
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &[value], &mut leaves);
    leaves.retain(|leaf| matches!(leaf, Leaf::Var { .. }));
    let gradient = if leaves.is_empty() { Vec::new() } else { graph.gradient(value, &leaves) };
    let gradient = gradient
        .into_iter()
        .filter_map(|entry| match leaves[entry.column as usize] {
            Leaf::Var { var, .. } => Some((var, entry.value)),
            Leaf::Time => None,
        })
        .collect();
    Entry { value, gradient }
}

/// The matrices of a filter as expressions.
struct FilterMatrices {
    a: Vec<Vec<ExprId>>,
    b: Vec<Vec<ExprId>>,
    c: Vec<Vec<ExprId>>,
}

fn read_filters(graph: &mut Graph, variables: &[Variable], study: &Study) -> Result<Vec<FilterMatrices>, Vec<Finding>> {
    let mut filters = Vec::new();
    let mut findings = Vec::new();
    for disturbance in &study.disturbances {
        match read_filter(graph, variables, disturbance) {
            Ok(filter) => filters.push(filter),
            Err(errors) => findings.extend(errors),
        }
    }
    if findings.is_empty() { Ok(filters) } else { Err(findings) }
}

fn read_filter(
    graph: &mut Graph,
    variables: &[Variable],
    disturbance: &Named<Disturbance>,
) -> Result<FilterMatrices, Vec<Finding>> {
    let name = &disturbance.name;
    let too_rough = |excess: i32| {
        vec![
            Finding::error(
                "pole-excess",
                disturbance.span,
                format!(
                    "the disturbance `{name}` has a pole excess of {excess}: its values have infinite variance, so that no realization \
                     exists"
                ),
            )
            .with_names([name])
            .with_help("a spectrum with a pole excess of at least 2 is needed: a shaping filter, or `num` and `den` with a denominator of higher degree"),
        ]
    };
    match &disturbance.item.process {
        DisturbanceProcess::White(_) => Err(too_rough(0)),
        DisturbanceProcess::Filter { a, b, c } => {
            let mut read = |matrix: &[Vec<Quantity>]| -> Result<Vec<Vec<ExprId>>, Vec<Finding>> {
                let mut rows = Vec::new();
                for row in matrix {
                    let exprs: Result<Vec<ExprId>, Vec<Finding>> =
                        row.iter().map(|quantity| quantity_expression(graph, variables, quantity)).collect();
                    rows.push(exprs?);
                }
                Ok(rows)
            };
            Ok(FilterMatrices { a: read(a)?, b: read(b)?, c: read(c)? })
        }
        DisturbanceProcess::Factor { num, den } => {
            let mut read = |list: &[Quantity]| -> Result<Vec<ExprId>, Vec<Finding>> {
                let exprs: Result<Vec<ExprId>, Vec<Finding>> =
                    list.iter().map(|quantity| quantity_expression(graph, variables, quantity)).collect();
                let exprs = exprs?;
                let first = exprs.iter().position(|&expr| graph.as_number(expr) != Some(0.0)).unwrap_or(exprs.len());
                Ok(exprs[first..].to_vec())
            };
            let (num, den) = (read(num)?, read(den)?);
            if den.is_empty() {
                let message = format!("the denominator of `{name}` is zero");
                return Err(vec![Finding::error("disturbance", disturbance.span, message).with_names([name])]);
            }
            let n = den.len() - 1;
            if num.len() > n {
                return Err(too_rough(2 * (n as i32 + 1 - num.len() as i32).min(0)));
            }
            // Controllable canonical form of num / den.
            let (zero, one) = (graph.number(0.0), graph.number(1.0));
            let lead = den[0];
            let mut a = vec![vec![zero; n]; n];
            for i in 0..n.saturating_sub(1) {
                a[i][i + 1] = one;
            }
            for j in 0..n {
                let ratio = graph.div(den[n - j], lead);
                a[n - 1][j] = graph.neg(ratio);
            }
            let mut c = vec![zero; n];
            for (power, &coefficient) in num.iter().rev().enumerate() {
                c[power] = graph.div(coefficient, lead);
            }
            let mut b = vec![vec![zero]; n];
            if let Some(last) = b.last_mut() {
                last[0] = one;
            }
            Ok(FilterMatrices { a, b, c: vec![c] })
        }
    }
}

/// With disturbances, a start at rest is not one with the stationary covariance, which the likelihood of linear models
/// alone has.
fn stationary_start(study: &Study) -> Option<Finding> {
    if study.initial.mode != InitialMode::Stationary || study.disturbances.is_empty() {
        return None;
    }
    let message = "the model starts at rest under the disturbances of the first instant, not with its stationary covariance, \
                   which only `ml` of models that are linear with constant coefficients has";
    let help = "leave the first samples out, as long as the model remembers its start: `transient` in `[identify]`";
    Some(Finding::note("stationary-start", Span::NONE, message).with_help(help))
}

fn read_accuracies(graph: &mut Graph, variables: &[Variable], study: &Study) -> Result<Vec<Accuracy>, Vec<Finding>> {
    let mut read = |measurement: &Named<Measurement>| match (&measurement.item.variance, &measurement.item.std) {
        (Some(variance), _) => quantity_expression(graph, variables, variance).map(Accuracy::Variance),
        (None, Some(std)) => quantity_expression(graph, variables, std).map(Accuracy::Std),
        (None, None) => Ok(Accuracy::Unsaid),
    };
    study.measurements.iter().map(&mut read).collect()
}

/// Refuses what only the likelihood of linear models can honour: a start that is found with the unknowns, and accuracies
/// and disturbances that change with time.
fn refuse_unhonoured(
    study: &Study,
    graph: &Graph,
    accuracies: &[Accuracy],
    filters: &[FilterMatrices],
) -> Result<(), Vec<Finding>> {
    let mut findings = Vec::new();
    let word = match study.initial.mode {
        InitialMode::Estimate => Some(("estimate", "linear models, and for `identify` of others")),
        InitialMode::Diffuse => Some(("diffuse", "linear models by `ml`")),
        InitialMode::Model | InitialMode::Stationary | InitialMode::Zero => None,
    };
    if let Some((word, where_)) = word {
        let message = format!("`mode = \"{word}\"` is for {where_}: here a run begins where the model says");
        let help = "`identify` and `estimate --identify` find a start; or leave `mode` out, and give start values in `[initial]`";
        findings.push(
            Finding::error("start-not-free", study.initial.mode_span.unwrap_or(Span::NONE), message).with_help(help),
        );
    }
    let changes = |expr: &ExprId| {
        let mut leaves = Vec::new();
        Reach::new().leaves(graph, &[*expr], &mut leaves);
        leaves.contains(&Leaf::Time)
    };
    for (accuracy, measurement) in accuracies.iter().zip(&study.measurements) {
        if let Accuracy::Std(expr) | Accuracy::Variance(expr) = accuracy
            && changes(expr)
        {
            findings.push(varying_accuracy(measurement));
        }
    }
    for (matrices, disturbance) in filters.iter().zip(&study.disturbances) {
        let entries = [&matrices.a, &matrices.b, &matrices.c].into_iter().flatten().flatten();
        if entries.into_iter().any(changes) {
            let message = format!("the disturbance `{}` depends on time in its coefficients", disturbance.name);
            let help = "take a process with constant coefficients, and multiply it in the model";
            let finding = Finding::error("varying-disturbance", disturbance.span, message).with_help(help);
            findings.push(finding.with_names([&disturbance.name]));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// Variances of the measurements at the starting point, where the study says something that is finite.
fn accuracies_at(
    graph: &Graph,
    accuracies: &[Accuracy],
    system: &CompiledSystem,
    parameters: &[f64],
    n_variables: usize,
) -> Vec<Option<f64>> {
    let mut values = vec![f64::NAN; n_variables];
    for (var, &value) in system.regular().parameters.iter().zip(parameters) {
        values[var.index()] = value;
    }
    let mut evaluator = Evaluator::new();
    let mut number = |expr| evaluator.evaluate_one(graph, expr, &|var: VarId, _: u16| values[var.index()]);
    let mut variance = |accuracy: &Accuracy| match *accuracy {
        Accuracy::Variance(variance) => Some(number(variance)),
        Accuracy::Std(std) => Some(number(std).powi(2)),
        Accuracy::Unsaid => None,
    };
    accuracies.iter().map(|accuracy| variance(accuracy).filter(|value| value.is_finite())).collect()
}

/// Positions of the unknowns among the parameters of the compiled model.
fn places(problem: &Problem, system: &CompiledSystem) -> Result<Vec<u32>, Vec<Finding>> {
    let names = &system.description().parameters;
    let mut findings = Vec::new();
    let mut places = Vec::new();
    for unknown in &problem.unknowns {
        match names.iter().position(|known| *known == unknown.name) {
            Some(at) => places.push(at as u32),
            None => findings.push(
                Finding::error("unknown-parameter", unknown.span, format!("`{}` cannot be unknown", unknown.name))
                    .with_names([&unknown.name])
                    .with_help("it shapes the equations and must be known before they are set up"),
            ),
        }
    }
    if findings.is_empty() { Ok(places) } else { Err(findings) }
}

/// Known inputs are the same for all values of the unknowns.
fn refuse_unknown_inputs(loaded: &Loaded, study: &Study, problem: &Problem) -> Result<(), Vec<Finding>> {
    let mut findings = Vec::new();
    for input in &study.inputs {
        let (mut graph, mut exprs, mut leaves) = (Graph::default(), Vec::new(), Vec::new());
        for part in input.item.quantities() {
            exprs.push(quantity_expression(&mut graph, &loaded.flat.variables, part)?);
        }
        Reach::new().leaves(&graph, &exprs, &mut leaves);
        for unknown in &problem.unknowns {
            let is_reached = reached(&loaded.flat, std::iter::once(unknown.var));
            if leaves.iter().any(|leaf| matches!(leaf, Leaf::Var { var, .. } if is_reached[var.index()])) {
                findings.push(
                    Finding::error(
                        "unknown-input",
                        input.span,
                        format!("the known input `{}` depends on the unknown `{}`", input.name, unknown.name),
                    )
                    .with_names([&input.name, &unknown.name])
                    .with_help("make it part of the model: an equation with a parameter instead of an input"),
                );
            }
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// Refuses inputs that make states jump: impulses, and steps of an input whose derivatives the model needs. Trajectories
/// of ensembles and filters are continuous but for events.
fn refuse_jumps(study: &Study, inputs: &StudyInputs, system: &CompiledSystem) -> Result<(), Vec<Finding>> {
    const FOLLOWED: &str = "`simulate` and `uq` follow it, and `ml` and `output-error` where the model is linear";
    let mut findings = Vec::new();
    for input in &system.description().inputs {
        let given = study.inputs.iter().find(|given| given.name == input.name);
        let span = given.map_or(Span::NONE, |given| given.span);
        let (code, message, help) = if inputs.impulses().iter().any(|impulse| impulse.input == input.name) {
            let message = format!("the impulses of `{}` make states jump: {FOLLOWED}", input.name);
            ("impulse-not-followed", message, "give a short pulse of the same area as an `expression` or a column")
        } else if let Some(order) = inputs.first_jump(input).filter(|&order| order < input.derivatives_needed) {
            let what = if order == 0 { "jumps" } else { "has a derivative that jumps" };
            let message = format!(
                "the input `{}` {what}, and the model needs {} of its derivatives: states jump with it. {FOLLOWED}",
                input.name, input.derivatives_needed
            );
            ("input-not-smooth", message, "give it without jumps: a ramp as an `expression`, or `hold = \"cubic\"`")
        } else {
            continue;
        };
        findings.push(Finding::error(code, span, message).with_names([&input.name]).with_help(help));
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The first sample that is not on the grid of the disturbances, which filters step along.
///
/// # Errors
/// As [`PredictionStudy::new`] for the step of the grid.
pub fn sample_off_grid(study: &Study, problem: &Problem) -> Result<Option<f64>, Failure> {
    let n_outputs = problem.measured.len();
    for record in &problem.records {
        let rows = record.data.times.iter().zip(record.measured.chunks(n_outputs));
        let is_sample =
            |(time, values): &(&f64, &[f64])| **time >= record.start && values.iter().any(|value| value.is_finite());
        let samples: Vec<f64> = rows.filter(is_sample).map(|(time, _)| *time).collect();
        let step = noise_step(study, &samples)?;
        let is_off = |time: &f64| {
            let position = (time - record.start) / step;
            (position - position.round()).abs() > 1e-6
        };
        if let Some(time) = samples.into_iter().find(is_off) {
            return Ok(Some(time));
        }
    }
    Ok(None)
}

fn read_experiments(
    loaded: &Loaded,
    study: &Study,
    problem: &Problem,
    system: &CompiledSystem,
    parameters: &[f64],
    engine: Engine,
) -> Result<Vec<StudyExperiment>, Failure> {
    let n_outputs = problem.measured.len();
    let mut experiments = Vec::new();
    for record in &problem.records {
        let Record { data, start, first_counted, .. } = record;
        let (mut samples, mut measured, mut is_used) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (&time, values)) in data.times.iter().zip(record.measured.chunks(n_outputs)).enumerate() {
            if time >= *start && values.iter().any(|value| value.is_finite()) {
                samples.push(time);
                measured.extend_from_slice(values);
                is_used.push(row >= *first_counted);
            }
        }
        let span = samples.last().map_or(0.0, |last| last - start);
        // Where nothing is disturbed there is no grid of disturbances to be fine enough.
        let step = match engine {
            Engine::Lanes | Engine::Mixture => noise_step(study, &samples)?,
            Engine::Events => f64::max(span, f64::MIN_POSITIVE),
        };
        limits::noise_grid(step, span, system.description().n_inputs).map_err(|refusal| {
            let place = study.identify.noise_step_span.unwrap_or(Span::NONE);
            vec![Diagnostic::resolve(&refusal.at(place), &study.sources)]
        })?;
        let parameters = ParameterValues { variables: &system.regular().parameters, values: parameters };
        let inputs = StudyInputs::new(loaded, system.description(), &parameters, Some(data), DataUse::Needed)?;
        let inputs = inputs.ending_with_samples();
        refuse_jumps(study, &inputs, system).map_err(|findings| {
            findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect::<Vec<_>>()
        })?;
        experiments.push(StudyExperiment { inputs, grid: Grid { start: *start, step, samples }, measured, is_used });
    }
    Ok(experiments)
}

/// The step of the disturbances' grid: what the study says, or a tenth of the shortest distance of samples.
fn noise_step(study: &Study, samples: &[f64]) -> Result<f64, Failure> {
    let distance = samples.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let by_default = if distance.is_finite() { distance / DEFAULT_POINTS } else { 0.1 };
    let step = study.identify.noise_step.unwrap_or(by_default);
    if step <= distance * (1.0 + 1e-9) {
        return Ok(step);
    }
    let finding = Finding::error(
        "noise-step",
        study.identify.noise_step_span.unwrap_or(Span::NONE),
        format!("`noise_step` = {step} is longer than the distance {distance:.6e} of samples"),
    )
    .with_help(format!(
        "disturbances must be resolved between samples: say `noise_step = {:.1e}`, a tenth of that distance, or leave \
         it out",
        0.1 * distance
    ));
    Err(Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]))
}

/// The shaping filters of disturbances whose inputs stand in equations.
struct Shaping {
    /// Places of these inputs and of their derivatives.
    slots: Vec<usize>,
    filters: Vec<FilterEntries>,
    /// Names of the disturbances.
    disturbances: Vec<(String, Span)>,
}

impl Shaping {
    fn read(graph: &mut Graph, study: &Study, matrices: Vec<FilterMatrices>, description: &Description) -> Self {
        let mut slots = Vec::new();
        let mut filters = Vec::new();
        let mut disturbances = Vec::new();
        for (named, matrices) in study.disturbances.iter().zip(matrices) {
            // Inputs that no equation holds are not among them.
            let inputs: Vec<_> = (named.item.signals.iter().zip(&matrices.c))
                .filter_map(|(signal, c)| Some((description.inputs.iter().find(|input| input.name == *signal)?, c)))
                .collect();
            if inputs.is_empty() {
                continue;
            }
            for (input, _) in &inputs {
                slots.extend(input.start..=input.start + usize::from(input.derivatives_needed));
            }
            disturbances.push((named.name.clone(), named.span));
            let graph = &mut *graph;
            let mut entries = |matrix: &[Vec<ExprId>]| -> Vec<Vec<Entry>> {
                matrix.iter().map(|row| row.iter().map(|&value| entry(graph, value)).collect()).collect()
            };
            filters.push(FilterEntries {
                name: named.name.clone(),
                a: entries(&matrices.a),
                b: entries(&matrices.b),
                c: entries(&inputs.iter().map(|(_, c)| (*c).clone()).collect::<Vec<_>>()),
                starts_at_zero: named.item.starts_at_zero,
                derivatives_needed: inputs.iter().map(|(input, _)| input.derivatives_needed).collect(),
            });
        }
        Self { slots, filters, disturbances }
    }
}

fn settings(
    study: &Study,
    variances: &[Option<f64>],
    n_realizations: usize,
    seed: u64,
    engine: Engine,
) -> PredictionSettings {
    let weights = variances
        .iter()
        .map(|variance| match (study.identify.weighting.as_deref(), variance) {
            (Some("std"), Some(variance)) if *variance > 0.0 => 1.0 / variance.sqrt(),
            _ => 1.0,
        })
        .collect();
    PredictionSettings {
        n_realizations,
        seed,
        is_antithetic: study.identify.is_antithetic,
        interpolation: match study.identify.interpolation.as_deref() {
            Some("exact") => Interpolation::Exact,
            _ => Interpolation::Linear,
        },
        method: match study.identify.solver.as_deref() {
            Some("explicit") => Some(StepMethod::Explicit4),
            Some("implicit") => Some(StepMethod::Implicit3),
            _ => None,
        },
        options: EnsembleOptions {
            rtol: study.simulate.rtol.unwrap_or(1e-6),
            atol: study.simulate.atol.unwrap_or(1e-9),
            ..EnsembleOptions::default()
        },
        weights,
        is_undisturbed: engine == Engine::Events,
        n_points: study.particles.map_or(DEFAULT_POINTS_OF_MIXTURE, |n| n as usize),
    }
}
