//! `daesy simulate`: trajectories of a model.

pub mod asserted;
pub mod page;

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daesy_foreign::Unit;
use daesy_foreign::description::Kind;
use daesy_graph::finding::Level;
use daesy_graph::flat::FlatDae;
use daesy_graph::{Span, VarId};
use daesy_integrate::{Displaced, IntegrateError, RowSink, SimulateOptions, Simulation, Slide, TakeRows};
use daesy_structure::straighten::ADDED;
use daesy_study::decimal::Grid;
use daesy_study::limits;
use daesy_study::misled::compare_with_original;
use daesy_system::DaeSystem;
use serde_json::{Map, Value, json};

use crate::start_report::StartReport;
use crate::stepping;
use daesy_report::json::ToJson as _;
use daesy_report::table::{RowWriter, Table};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::inputs::StudyInputs;
use daesy_study::load::Loaded;
use daesy_study::prepare::{Prepared, Purpose, prepare};
use daesy_study::study::Quantity;
use daesy_transfer::{Event, TransferFailure, Transferred, TransferredPart, transfer_as_far_as_possible};

/// A simulated trajectory with its table.
#[derive(Clone, Debug)]
pub struct Trajectory {
    /// Time and all variables; names alone where rows were not kept.
    pub table: Table,
    /// The work it took.
    pub simulation: Simulation,
    /// Discontinuities on the way.
    pub events: Vec<Event>,
    /// Where the values at the start come from.
    pub start: StartReport,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Simulates a model as its study, or its `experiment` annotation, says.
///
/// # Errors
/// Diagnostics, when the model is at fault or the method gives up.
pub fn simulate(loaded: &Loaded) -> Result<Trajectory, Failure> {
    let simulator = Simulator::new(loaded)?;
    simulator.run(&simulator.options)
}

/// Why a trajectory ends before its time, and what there is of it.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Why.
    pub failure: Failure,
    /// The trajectory up to the failure, where the method gave up on the way.
    pub part: Option<Box<Trajectory>>,
}

/// As [`simulate`], with the part of the trajectory before a failure.
///
/// # Errors
/// Diagnostics and the part, when the model is at fault or the method gives up.
pub fn simulate_as_far_as_possible(loaded: &Loaded) -> Result<Trajectory, Broken> {
    let simulator = Simulator::new(loaded).map_err(|failure| Broken { failure, part: None })?;
    simulator.run_as_far_as_possible(&simulator.options)
}

/// What becomes of the rows of a trajectory of which nobody wants the table.
#[derive(Clone, Default)]
pub struct PassedRows {
    shared: Arc<Mutex<Passed>>,
}

#[derive(Default)]
struct Passed {
    writer: Option<RowWriter>,
    /// Positions of the columns in the rows.
    columns: Vec<usize>,
    error: Option<io::Error>,
}

impl PassedRows {
    /// Rows that a file gets.
    #[must_use]
    pub fn written(simulator: &Simulator, writer: RowWriter) -> Self {
        let passed = Passed { writer: Some(writer), columns: simulator.columns.clone(), error: None };
        Self { shared: Arc::new(Mutex::new(passed)) }
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the file in its place, if there is one.
    ///
    /// # Errors
    /// What the file system said, now or before.
    pub fn end(&self) -> io::Result<()> {
        let mut passed = self.lock();
        if let Some(error) = passed.error.take() {
            return Err(error);
        }
        passed.writer.as_mut().map_or(Ok(()), RowWriter::end)
    }

    /// Whether the file could not be written.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }
}

impl TakeRows for PassedRows {
    fn begin(&mut self) {
        let mut passed = self.lock();
        let begun = passed.writer.as_mut().map_or(Ok(()), RowWriter::begin);
        passed.error = begun.err();
    }

    fn take(&mut self, time: f64, row: &[f64]) -> ControlFlow<()> {
        let Passed { writer, columns, error } = &mut *self.lock();
        if let (Some(writer), None) = (writer, &error) {
            *error = writer.push(std::iter::once(time).chain(columns.iter().map(|&at| row[at]))).err();
        }
        if error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// A failure and what there was before it.
pub struct Stopped {
    /// Why.
    pub failure: Failure,
    /// The trajectory up to there, where there is more of it than its start.
    pub part: Option<Box<Transferred>>,
    /// Whether the model itself says that it does not hold there.
    pub is_asserted: bool,
}

/// Whether a run ends because it was asked to.
fn is_stopped(error: &IntegrateError) -> bool {
    matches!(error, IntegrateError::Stopped { .. })
}

/// Models with more unknowns are kept in one form only.
const MAX_KEPT: usize = 5000;

/// Whether equations as they were written may do where those with definitions put in did not, or say better why not.
fn is_worth_repeating(error: &IntegrateError) -> bool {
    !matches!(
        error,
        IntegrateError::Stopped { .. }
            | IntegrateError::TooManySteps { .. }
            | IntegrateError::TooShortSteps { .. }
            | IntegrateError::TooManyTicks { .. }
            | IntegrateError::Assertion { .. }
            | IntegrateError::ContradictingReinit { .. }
            | IntegrateError::Chattering { .. }
            | IntegrateError::Accumulating { .. }
            | IntegrateError::NoTransfer { .. }
    )
}

/// A model that is ready to be simulated, as often as wanted.
pub struct Simulator {
    original: FlatDae,
    prepared: Prepared,
    /// The model before definitions were put in, where some were: what fails is tried again with it, and told in the
    /// words of its equations.
    complete: Option<Prepared>,
    /// Positions of the observed quantities that the table has.
    columns: Vec<usize>,
    /// As the study, or the model's `experiment` annotation, says.
    pub options: SimulateOptions,
    /// A unit that integrates itself.
    stepping: Option<Arc<Unit>>,
    /// Whether the whole trajectory is looked at when it is there.
    needs_rows: bool,
}

impl Simulator {
    /// Regularizes and compiles a model.
    ///
    /// # Errors
    /// Diagnostics, when the model, study or data is at fault.
    pub fn new(loaded: &Loaded) -> Result<Self, Failure> {
        Self::with_rows(loaded, true)
    }

    /// As [`Self::new`]; where the rows of a trajectory are not kept, they need not fit into memory.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_rows(loaded: &Loaded, are_kept: bool) -> Result<Self, Failure> {
        let prepared = prepare(loaded, Purpose::SIMULATION)?;
        let condensed = prepared.condensed(loaded, Purpose::SIMULATION)?;
        let (prepared, complete) = match condensed {
            Some(condensed) if prepared.system.description().unknowns.len() <= MAX_KEPT => (condensed, Some(prepared)),
            Some(condensed) => (condensed, None),
            None => (prepared, None),
        };
        let observed = &prepared.system.description().observed;
        let is_added = |name: &str| name.trim_start_matches("der(").starts_with(ADDED);
        let columns: Vec<usize> =
            observed.iter().enumerate().filter(|(_, name)| !is_added(name)).map(|(at, _)| at).collect();
        let stepping = loaded.unit.clone().filter(|unit| unit.kind() == Kind::CoSimulation);
        // Rows of units are filled in afterwards, and rewritten equations are compared with those that were written.
        let needs_rows = stepping.is_some() || columns.len() < observed.len();
        let options = options_of(loaded, &prepared, are_kept || needs_rows)?;
        Ok(Self { original: loaded.flat.clone(), prepared, complete, columns, options, stepping, needs_rows })
    }

    /// Whether the whole trajectory is looked at when it is there, so that its rows cannot be passed on.
    #[must_use]
    pub fn needs_rows(&self) -> bool {
        self.needs_rows
    }

    /// Names of the columns of a trajectory.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let observed = &self.prepared.system.description().observed;
        std::iter::once("t".to_owned()).chain(self.columns.iter().map(|&at| observed[at].clone())).collect()
    }

    /// For each name but the first, its position in the rows of a simulation.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// One trajectory without its table.
    ///
    /// # Errors
    /// Diagnostics, when the model is at fault or the method gives up.
    pub fn trace(&self, options: &SimulateOptions) -> Result<Transferred, Failure> {
        self.try_trace(options).map_err(|stopped| stopped.failure)
    }

    /// One trajectory without its table; a failure on the way leaves the part before it.
    ///
    /// # Errors
    /// Diagnostics and the part, when the model is at fault or the method gives up.
    pub fn try_trace(&self, options: &SimulateOptions) -> Result<Transferred, Stopped> {
        self.attempt(&|prepared| {
            let traced = run_prepared(prepared, &self.original, &prepared.parameters, &prepared.inputs, options)?;
            self.stepped(prepared, &prepared.parameters, &prepared.inputs, traced)
        })
    }

    /// One trajectory at other values of some parameters, without its table; nothing is compiled anew. `loaded` is the
    /// model with these values put in.
    ///
    /// # Errors
    /// Diagnostics, when the model is at fault or the method gives up.
    pub fn trace_at(
        &self,
        loaded: &Loaded,
        given: &[(VarId, f64)],
        options: &SimulateOptions,
    ) -> Result<Transferred, Failure> {
        self.attempt(&|prepared| {
            let parameters = prepared.parameters_at(given).map_err(Attempt::Failed)?;
            let inputs = prepared.inputs_at(loaded, &parameters).map_err(Attempt::Failed)?;
            let traced = run_prepared(prepared, &loaded.flat, &parameters, &inputs, options)?;
            self.stepped(prepared, &parameters, &inputs, traced)
        })
        .map_err(|stopped| stopped.failure)
    }

    /// The same with what a unit that integrates itself gives.
    fn stepped(
        &self,
        prepared: &Prepared,
        parameters: &[f64],
        inputs: &StudyInputs,
        mut traced: Transferred,
    ) -> Result<Transferred, Attempt> {
        let Some(unit) = &self.stepping else { return Ok(traced) };
        stepping::fill_in(unit, prepared, parameters, inputs, &mut traced).map_err(|failure| {
            let diagnostic = Diagnostic::error(failure.code, failure.message).with_help(failure.help);
            Attempt::Failed(Failure::Method(vec![diagnostic]))
        })?;
        Ok(traced)
    }

    /// Tries the model with definitions put in, and as it was written where that fails.
    fn attempt(&self, run: &dyn Fn(&Prepared) -> Result<Transferred, Attempt>) -> Result<Transferred, Stopped> {
        let mut prepared = &self.prepared;
        let mut result = run(prepared);
        if let (Err(Attempt::Integration { error, .. }), Some(complete)) = (&result, &self.complete)
            && is_worth_repeating(error)
        {
            prepared = complete;
            result = run(prepared);
        }
        result.map_err(|failure| match failure {
            Attempt::Integration { error, part } => {
                let is_asserted = matches!(error, IntegrateError::Assertion { .. });
                Stopped { failure: prepared.failure(&error), part, is_asserted }
            }
            Attempt::Failed(failure) => Stopped { failure, part: None, is_asserted: false },
        })
    }

    /// The model as it was written.
    #[must_use]
    pub fn flat(&self) -> &FlatDae {
        &self.original
    }

    /// The compiled model.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// One trajectory with its table.
    ///
    /// # Errors
    /// Diagnostics, when the model is at fault or the method gives up.
    pub fn run(&self, options: &SimulateOptions) -> Result<Trajectory, Failure> {
        Ok(self.trajectory(self.trace(options)?))
    }

    /// One trajectory, or the part of it before a failure.
    ///
    /// # Errors
    /// Diagnostics and the part, when the model is at fault or the method gives up.
    pub fn run_as_far_as_possible(&self, options: &SimulateOptions) -> Result<Trajectory, Broken> {
        let trajectory = |traced: Transferred| match &options.rows {
            Some(_) => self.trajectory_with(traced, |_| Vec::new()),
            None => self.trajectory(traced),
        };
        self.try_trace(options).map(trajectory).map_err(|stopped| {
            let is_of_method = matches!(stopped.failure, Failure::Method(_));
            let part = stopped.part.filter(|_| is_of_method).map(|part| Box::new(trajectory(*part)));
            Broken { failure: stopped.failure, part }
        })
    }

    /// As [`Self::run_as_far_as_possible`], with rows that are passed on instead of kept.
    ///
    /// # Errors
    /// As there.
    pub fn run_passing(&self, rows: &PassedRows) -> Result<Trajectory, Broken> {
        let sink = RowSink::new(rows.clone());
        self.run_as_far_as_possible(&SimulateOptions { rows: Some(sink), ..self.options.clone() })
    }

    /// A trajectory with its table.
    #[must_use]
    pub fn trajectory(&self, traced: Transferred) -> Trajectory {
        self.trajectory_with(traced, |simulation| self.take_columns(simulation))
    }

    fn trajectory_with(
        &self,
        traced: Transferred,
        columns: impl FnOnce(&mut Simulation) -> Vec<Vec<f64>>,
    ) -> Trajectory {
        let start = self.start_report(&traced.simulation);
        let diagnostics = self.diagnostics(&traced, &start);
        let Transferred { mut simulation, events, .. } = traced;
        let table = Table { names: self.names(), columns: columns(&mut simulation) };
        Trajectory { table, simulation, events, start, diagnostics }
    }

    /// Time and the columns of the table. Rows go as their values come into the columns: a large table is there once.
    fn take_columns(&self, simulation: &mut Simulation) -> Vec<Vec<f64>> {
        let mut columns = vec![simulation.times.clone()];
        columns.extend(self.columns.iter().map(|_| Vec::with_capacity(simulation.rows.len())));
        let mut rows = std::mem::take(&mut simulation.rows).into_iter();
        loop {
            let some: Vec<Vec<f64>> = rows.by_ref().take(ROWS_AT_ONCE).collect();
            if some.is_empty() {
                return columns;
            }
            for (column, &at) in columns[1..].iter_mut().zip(&self.columns) {
                column.extend(some.iter().map(|row| row[at]));
            }
        }
    }

    /// Where the values at the start of a trajectory come from.
    #[must_use]
    pub fn start_report(&self, simulation: &Simulation) -> StartReport {
        let system = &self.prepared.system;
        let names = &system.description().observed;
        let parameters = &simulation.start.parameters;
        let first = simulation.rows.first();
        first.map(|row| StartReport::new(&self.original, &self.prepared, parameters, names, row)).unwrap_or_default()
    }

    /// What is to be told about a trajectory, and about the way it was made.
    #[must_use]
    pub fn diagnostics(&self, traced: &Transferred, start: &StartReport) -> Vec<Diagnostic> {
        let findings = traced.findings.iter().chain(&self.prepared.rewritten);
        let mut diagnostics: Vec<Diagnostic> =
            findings.map(|finding| Diagnostic::resolve(finding, &self.original.sources)).collect();
        diagnostics.extend(traced.simulation.warnings.iter().map(|warned| {
            let message = format!("assertion at t = {}: {}", warned.time, warned.message);
            Diagnostic::error("assertion", message).with_level(Level::Warning).at_place(&warned.place)
        }));
        diagnostics.extend(displaced(&traced.simulation.displaced));
        diagnostics.extend(slides(&traced.simulation.slides));
        if let Some(singular) = &traced.simulation.singular_slope {
            let message = format!(
                "the derivative of {} is infinite at t = {}; the slope of a short chord was taken where one was needed",
                singular.equation, singular.time
            );
            diagnostics
                .push(Diagnostic::error("singular-slope", message).with_level(Level::Note).at_place(&singular.place));
        }
        if let Some(limit) = traced.simulation.limits.first() {
            let n = traced.simulation.limits.len();
            let others = if n > 1 { format!(" and at {} other times", n - 1) } else { String::new() };
            let message = format!(
                "at t = {}{others} the equations have no value ({}): the row holds the limit from both sides",
                limit.time, limit.cause
            );
            diagnostics.push(Diagnostic::error("limit-value", message).with_level(Level::Note));
        }
        if let Some(root) = &traced.simulation.multiple_root {
            let message = format!(
                "at t = {} the equations do not determine `{}` to first order; of the solutions that may meet there, one \
                 near the values before was followed",
                root.time, root.variable
            );
            diagnostics.push(Diagnostic::error("multiple-root", message).with_level(Level::Note));
        }
        if let Some(end) = &traced.simulation.termination {
            let message = format!("the model ended the simulation at t = {}: {}", end.time, end.message);
            diagnostics.push(Diagnostic::error("terminated", message).with_level(Level::Note).at_place(&end.place));
        }
        let changed = start.findings(&self.original);
        diagnostics.extend(changed.iter().map(|finding| Diagnostic::resolve(finding, &self.original.sources)));
        diagnostics
    }
}

/// Rows that are made into columns together: few enough to stay in the cache.
const ROWS_AT_ONCE: usize = 16;

/// Why an attempt failed.
enum Attempt {
    Integration { error: IntegrateError, part: Option<Box<Transferred>> },
    Failed(Failure),
}

/// One trajectory of a compiled model.
///
/// # Errors
/// Diagnostics, when the model is at fault or the method gives up.
pub(crate) fn trace_prepared(
    prepared: &Prepared,
    flat: &FlatDae,
    options: &SimulateOptions,
) -> Result<Transferred, Failure> {
    run_prepared(prepared, flat, &prepared.parameters, &prepared.inputs, options).map_err(|failure| match failure {
        Attempt::Integration { error, .. } => prepared.failure(&error),
        Attempt::Failed(failure) => failure,
    })
}

fn run_prepared(
    prepared: &Prepared,
    flat: &FlatDae,
    parameters: &[f64],
    inputs: &StudyInputs,
    options: &SimulateOptions,
) -> Result<Transferred, Attempt> {
    let run = transfer_as_far_as_possible(flat, &prepared.system, parameters, inputs, inputs.impulses(), options);
    let TransferredPart { transferred: mut traced, failure } = run.map_err(|failure| match failure {
        TransferFailure::Integration(error) => Attempt::Integration { error, part: None },
        TransferFailure::Refused(finding) => {
            Attempt::Failed(Failure::Input(vec![Diagnostic::resolve(&finding, &flat.sources)]))
        }
    })?;
    let observed = &prepared.system.description().observed;
    let compared = compare_with_original(flat, observed, &mut traced.simulation, options);
    if let Some(error) = failure {
        // A single row is the start, which tells nothing about the failure.
        let is_part = traced.simulation.rows.len() > 1 && compared.is_ok() && !is_stopped(&error);
        return Err(Attempt::Integration { error, part: is_part.then(|| Box::new(traced)) });
    }
    compared.map_err(|diagnostic| Attempt::Failed(Failure::Method(vec![diagnostic])))?;
    Ok(traced)
}

/// One warning for each `reinit` that moved more than it had to.
fn displaced(all: &[Displaced]) -> Vec<Diagnostic> {
    let mut told: Vec<&Displaced> = Vec::new();
    for displaced in all {
        if !told.iter().any(|known| known.place == displaced.place) {
            told.push(displaced);
        }
    }
    let listed = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let warn = |first: &&Displaced| {
        let n = all.iter().filter(|other| other.place == first.place).count();
        let others = if n > 1 { format!(" and at {} other times", n - 1) } else { String::new() };
        let message = format!(
            "at t = {}{others} the constraints allow the new values of {} only where {} move, which ought to have kept \
             their values: the nearest were taken",
            first.time,
            listed(&first.given),
            listed(&first.moved)
        );
        let help = "`reinit` fewer variables, or to values that fit the others";
        let warning = Diagnostic::error("reinit-displaces", message).with_level(Level::Warning).with_help(help);
        Diagnostic { names: first.moved.clone(), ..warning.at_place(&first.place) }
    };
    told.iter().map(warn).collect()
}

/// Intervals of sliding that are told one by one.
const TOLD_SLIDES: usize = 4;

/// One note for each relation along whose border the solution slid.
fn slides(slides: &[Slide]) -> Vec<Diagnostic> {
    let mut relations: Vec<&Slide> = Vec::new();
    for slide in slides {
        if !relations.iter().any(|known| known.relation == slide.relation && known.place == slide.place) {
            relations.push(slide);
        }
    }
    let note = |first: &&Slide| {
        let same: Vec<&Slide> =
            slides.iter().filter(|slide| slide.relation == first.relation && slide.place == first.place).collect();
        let told: Vec<String> =
            same.iter().take(TOLD_SLIDES).map(|slide| format!("from t = {} to {}", slide.from, slide.until)).collect();
        let rest = match same.len().saturating_sub(TOLD_SLIDES) {
            0 => String::new(),
            n => format!(" and {n} more times"),
        };
        let message = format!("the solution slid along the border of `{}` {}{rest}", first.relation, told.join(", "));
        Diagnostic::error("sliding", message).with_level(Level::Note).at_place(&first.place)
    };
    relations.iter().map(note).collect()
}

/// Intervals of the output when nobody says how many.
const DEFAULT_ROWS: u32 = 500;

/// Times of output rows where no step is given: those of the data, or evenly spaced ones.
fn default_times(start: f64, stop: f64, data: Option<&[f64]>) -> Result<Vec<f64>, Failure> {
    let Some(times) = data.filter(|_| stop > start && stop.is_finite()) else {
        output_times(start, stop, (stop - start) / f64::from(DEFAULT_ROWS))?;
        let grid = Grid::new(start, stop - start, DEFAULT_ROWS);
        let n_rows = if stop == start { 0 } else { DEFAULT_ROWS as usize };
        let mut times: Vec<f64> = (0..=n_rows).map(|row| grid.time(row)).collect();
        times.last_mut().into_iter().for_each(|last| *last = stop);
        return Ok(times);
    };
    let within = times.iter().copied().filter(|time| *time > start && *time < stop);
    Ok(std::iter::once(start).chain(within).chain([stop]).collect())
}

/// Times of output rows: every `step` from `start`, and `stop`.
///
/// # Errors
/// When the span or the step make no sense.
pub fn output_times(start: f64, stop: f64, step: f64) -> Result<Vec<f64>, Failure> {
    let problem = |code: &str, message: String| Failure::Input(vec![Diagnostic::error(code, message)]);
    if !(start.is_finite() && stop.is_finite()) || stop < start {
        return Err(problem("simulate-span", format!("the simulation cannot run from {start} to {stop}")));
    }
    if stop == start {
        return Ok(vec![start]);
    }
    if step.is_nan() || step <= 0.0 {
        return Err(problem("simulate-step", format!("the output step must be greater than zero, not {step}")));
    }
    let n = ((stop - start) / step + 1e-9).floor();
    if n > 1e8 {
        return Err(problem("simulate-step", format!("a step of {step} would give {n:.0} output rows")));
    }
    let grid = Grid::by_step(start, step);
    let mut times: Vec<f64> = (0..=n as usize).map(|row| grid.time(row)).collect();
    if let Some(last) = times.last_mut()
        && (stop - *last).abs() < 1e-9 * step
    {
        *last = stop;
    } else {
        times.push(stop);
    }
    Ok(times)
}

/// How a study wants its model integrated.
///
/// # Errors
/// When time span or step make no sense.
pub fn options(loaded: &Loaded, prepared: &Prepared) -> Result<SimulateOptions, Failure> {
    options_of(loaded, prepared, true)
}

/// As [`options`]; rows that are not kept need not fit into memory.
fn options_of(loaded: &Loaded, prepared: &Prepared, keeps_rows: bool) -> Result<SimulateOptions, Failure> {
    let experiment = loaded.flat.experiment;
    let asked = loaded.study.as_ref().map(|study| study.simulate.clone()).unwrap_or_default();
    let number = |quantity: &Option<Quantity>| match quantity {
        Some(quantity) => prepared.study_number(loaded, quantity).map(Some).map_err(Failure::Input),
        None => Ok(None),
    };
    let data_span = prepared.data.as_ref().map(|data| (data.times[0], data.times[data.times.len() - 1]));
    let start = number(&asked.start)?.or(data_span.map(|span| span.0)).or(experiment.start).unwrap_or(0.0);
    let stop = number(&asked.stop)?.or(data_span.map(|span| span.1)).or(experiment.stop).unwrap_or(start + 1.0);
    let data_times = prepared.data.as_ref().map(|data| &data.times[..]);
    let step = number(&asked.step)?.or(experiment.interval.filter(|_| data_times.is_none()));
    let n_rows = match (step, data_times) {
        (Some(step), _) => (stop - start) / step,
        (None, Some(times)) => times.len() as f64,
        (None, None) => f64::from(DEFAULT_ROWS),
    };
    if n_rows.is_finite() {
        let n_variables = if keeps_rows { prepared.system.description().observed.len() } else { 0 };
        limits::output_rows(n_rows, n_variables).map_err(|refusal| {
            let sources = loaded.study.as_ref().map_or(&*loaded.flat.sources, |study| &study.sources);
            Failure::Input(vec![Diagnostic::resolve(&refusal.at(Span::NONE), sources)])
        })?;
    }
    let output_times = match step {
        Some(step) => output_times(start, stop, step)?,
        None => default_times(start, stop, data_times)?,
    };
    let plain = SimulateOptions::default();
    Ok(SimulateOptions {
        start,
        stop,
        output_times,
        rtol: asked.rtol.or(experiment.tolerance).unwrap_or(1e-6),
        atol: asked.atol.unwrap_or(1e-9),
        watch: loaded.watch.clone(),
        method: loaded.integration.method.or(asked.method).unwrap_or_default(),
        max_step: loaded.integration.max_step.or(asked.max_step).unwrap_or(f64::INFINITY),
        max_steps: asked.max_steps.map_or(plain.max_steps, |n| n as usize),
        ..plain
    })
}

impl Trajectory {
    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("steps".into(), json!(self.simulation.steps));
        keys.insert("rejected".into(), json!(self.simulation.rejected));
        keys.insert("factorizations".into(), json!(self.simulation.factorizations));
        keys.insert("evaluations".into(), json!(self.simulation.evaluations));
        keys.insert("events".into(), self.events.iter().map(|event| event.to_json()).collect());
        keys.insert("initial".into(), self.start.to_json());
        keys.insert("parameters".into(), self.start.parameters_to_json());
        keys.insert("constraint_residual_max".into(), json!(self.simulation.constraint_residual_max));
        keys
    }

    /// A summary for a person.
    #[must_use]
    pub fn to_text(&self, model: &str) -> String {
        let times = &self.simulation.times;
        let summary = format!(
            "Simulated {model} from t = {} to {}: {} steps ({} rejected), {} rows, {} columns.\n",
            times.first().copied().unwrap_or(0.0),
            times.last().copied().unwrap_or(0.0),
            self.simulation.steps,
            self.simulation.rejected,
            times.len(),
            self.table.names.len(),
        );
        let events = match self.events.len() {
            0 => String::new(),
            1 => "1 event.\n".to_owned(),
            n => format!("{n} events.\n"),
        };
        summary + &self.start.to_text() + &events
    }
}
