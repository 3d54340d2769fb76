//! The model at given values of its random parameters: the ensemble behind collocation and Monte Carlo methods.
//!
//! The model is compiled once. Where its equations were rewritten because structure misleads, which depends on values
//! of parameters, each point goes the whole road from the flat model on.

use std::borrow::Cow;
use std::sync::Arc;

use daesy_chaos::PointValues;
use daesy_graph::flat::{Equation, FlatDae, Origin, Variable};
use daesy_graph::{ExprId, Graph, Leaf, Node, Reach, VarId};
use daesy_integrate::{Inputs as _, IntegrateError, SimulateOptions, Simulation, simulate as integrate};
use daesy_system::DaeSystem;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::lanes::{LaneRuns, LaneTask};
use crate::request::Request;
use daesy_analysis::simulate::Simulator;
use daesy_report::checkpoint::{Checkpoint, key};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::{Loaded, quantity_expression};
use daesy_study::prepare::Prepared;
use daesy_study::study::{InputSource, Quantity};

/// Relative tolerances are not sharpened beyond this.
const FINEST: f64 = 1e-11;

/// What changes from point to point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// Nothing but values of parameters, and nothing happens on the way.
    Values,
    /// Inputs, breaks and events may depend on the point; the equations are the same.
    Signals,
    /// The equations were rewritten because structure misleads, which depends on the values: each point goes the whole
    /// road.
    Equations,
}

/// Held-out samples where nobody says how many: as many as cost this together, within bounds. A simulation costs its
/// evaluations times the variables of the model, with [`OVERHEAD`] more for each evaluation.
const HELD_OUT_WORK: f64 = 3e7;
const HELD_OUT: std::ops::RangeInclusive<usize> = 8..=299;
const OVERHEAD: usize = 20;

/// Points that are simulated together: what the lanes of one hold beside results is some hundred bytes.
const POINTS_TOGETHER: usize = 1 << 14;

/// What trajectories are called in a checkpoint.
const POINT: &str = "uq";

/// A model that is run at many points.
pub struct Ensemble {
    loaded: Loaded,
    simulator: Simulator,
    options: SimulateOptions,
    random: Vec<VarId>,
    names: Vec<String>,
    change: Change,
    /// Columns of the system's observed quantities that are wanted.
    columns: Vec<usize>,
    /// Rows every point must have.
    times: Arc<Vec<f64>>,
    /// Steps for many points at once, where they serve.
    lanes: Option<LaneRuns>,
}

/// What the points gave.
pub struct Values {
    /// By point: variable by variable, rows of each.
    pub points: Vec<PointValues>,
    /// Times of the rows.
    pub times: Vec<f64>,
}

/// That a variable which is determined at the means of the parameters is not determined elsewhere.
fn not_here(name: &str) -> Failure {
    let message =
        format!("nothing determines `{name}` there, as it does at the means: the structure of the model changes");
    let help =
        "restrict the random parameters to values at which the structure is the same, or ask for other `variables`";
    Failure::Method(vec![Diagnostic {
        names: vec![name.to_owned()],
        ..Diagnostic::error("structure-changes", message).with_help(help)
    }])
}

impl Ensemble {
    /// Compiles the model at the parameters' means.
    ///
    /// # Errors
    /// Diagnostics in the model's words.
    pub fn new(loaded: &Loaded, request: &Request, means: &[f64]) -> Result<Self, Failure> {
        let mut loaded = loaded.clone();
        set_parameters(&mut loaded, &request.random, means);
        let simulator = Simulator::new(&loaded)?;
        let options = simulator.options.clone();
        let change = change(&loaded, &simulator, &request.random);
        let observed = &simulator.prepared().system.description().observed;
        let is_wanted = |at: &usize| request.variables.as_ref().is_none_or(|wanted| wanted.contains(&observed[*at]));
        let columns = simulator.columns().iter().copied().filter(is_wanted).collect();
        let names = request.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let times = Arc::new(options.output_times.clone());
        let random = request.random.clone();
        Ok(Self { random, names, change, columns, times, lanes: None, loaded, simulator, options })
    }

    /// Simulates more accurately by a factor, as far as numbers allow.
    #[must_use]
    pub fn sharpened(mut self, factor: f64) -> Self {
        self.options.rtol = (self.options.rtol / factor).max(FINEST.min(self.options.rtol));
        self.options.atol /= factor;
        self
    }

    /// Computes many points at once where the model allows it; `pilots` stand for all that will come.
    ///
    /// # Errors
    /// When the model cannot be simulated at the first of them.
    pub fn with_lanes(mut self, pilots: &[Vec<f64>]) -> Result<Self, Failure> {
        let (Change::Values, Some(first)) = (self.change, pilots.first()) else { return Ok(self) };
        let parameters = pilots.iter().map(|values| self.parameter_values(values)).collect::<Result<Vec<_>, _>>()?;
        let prepared = self.prepared();
        let alone = integrate(&prepared.system, &parameters[0], &prepared.inputs, &self.options)
            .map_err(|error| self.failed(first, &error))?;
        self.lanes = LaneRuns::new(&self.lane_task(), &parameters, alone.evaluations);
        Ok(self)
    }

    /// How many held-out samples are cheap: the same number on every machine.
    #[must_use]
    pub fn cheap_samples(&self) -> usize {
        let (least, most) = (*HELD_OUT.start(), *HELD_OUT.end());
        if self.change == Change::Equations {
            return least;
        }
        let prepared = self.prepared();
        let Ok(run) = integrate(&prepared.system, &prepared.parameters, &prepared.inputs, &self.options) else {
            return least;
        };
        let description = prepared.system.description();
        let n_variables = description.states.len() + description.unknowns.len() + OVERHEAD;
        let work = (run.evaluations as f64 * n_variables as f64).max(1.0);
        ((HELD_OUT_WORK / work) as usize).clamp(least, most)
    }

    fn lane_task(&self) -> LaneTask<'_> {
        let prepared = self.prepared();
        LaneTask { system: &prepared.system, inputs: &prepared.inputs, options: &self.options, columns: &self.columns }
    }

    /// The compiled model at the means.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        self.simulator.prepared()
    }

    /// What was rewritten because structure misleads.
    #[must_use]
    pub fn rewritten(&self) -> Vec<Diagnostic> {
        let findings = self.prepared().rewritten.iter();
        findings.map(|finding| Diagnostic::resolve(finding, &self.loaded.flat.sources)).collect()
    }

    /// The model with its parameters at their means.
    #[must_use]
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// How it is integrated.
    #[must_use]
    pub fn options(&self) -> &SimulateOptions {
        &self.options
    }

    /// Names of the variables that are reported.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let observed = &self.prepared().system.description().observed;
        self.columns.iter().map(|&at| observed[at].clone()).collect()
    }

    /// Names of all variables.
    #[must_use]
    pub fn all_variables(&self) -> Vec<String> {
        self.simulator.names().split_off(1)
    }

    /// Times of the rows that every point gives at least.
    #[must_use]
    pub fn output_times(&self) -> &Arc<Vec<f64>> {
        &self.times
    }

    /// Number of rows every point gives at least.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.times.len()
    }

    /// Parameter values as they are told to the user.
    #[must_use]
    pub fn place_text(&self, values: &[f64]) -> String {
        let texts: Vec<String> =
            self.names.iter().zip(values).map(|(name, value)| format!("{name} = {value}")).collect();
        texts.join(", ")
    }

    fn given(&self, values: &[f64]) -> Vec<(VarId, f64)> {
        self.random.iter().copied().zip(values.iter().copied()).collect()
    }

    fn parameter_values(&self, values: &[f64]) -> Result<Vec<f64>, Failure> {
        self.prepared().parameters_at(&self.given(values)).map_err(|failure| self.placed(values, failure))
    }

    fn failed(&self, values: &[f64], error: &IntegrateError) -> Failure {
        self.placed(values, self.prepared().failure(error))
    }

    fn placed(&self, values: &[f64], failure: Failure) -> Failure {
        failure.within(&format!("at {}", self.place_text(values)))
    }

    /// Values of all variables over time at one point.
    ///
    /// # Errors
    /// When the model cannot be simulated there; the diagnostic names the parameter values.
    pub fn run(&self, values: &[f64]) -> Result<Trajectory, Failure> {
        self.run_with(values, &self.options, &self.columns)
    }

    fn run_with(&self, values: &[f64], options: &SimulateOptions, columns: &[usize]) -> Result<Trajectory, Failure> {
        if self.change == Change::Values {
            let prepared = self.prepared();
            let parameters = self.parameter_values(values)?;
            let simulation = integrate(&prepared.system, &parameters, &prepared.inputs, options)
                .map_err(|error| self.failed(values, &error))?;
            return Ok(self.trajectory(simulation, columns));
        }
        let mut loaded = self.loaded.clone();
        set_parameters(&mut loaded, &self.random, values);
        let failed = |failure| self.placed(values, failure);
        if self.change == Change::Signals {
            let traced = self.simulator.trace_at(&loaded, &self.given(values), options).map_err(failed)?;
            return Ok(self.trajectory(traced.simulation, columns));
        }
        let simulator = Simulator::new(&loaded).map_err(failed)?;
        let observed = &simulator.prepared().system.description().observed;
        let place: FxHashMap<&str, usize> = observed.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let known = &self.prepared().system.description().observed;
        let here = |&at: &usize| place.get(known[at].as_str()).copied().ok_or_else(|| failed(not_here(&known[at])));
        let columns: Vec<usize> = columns.iter().map(here).collect::<Result<_, _>>()?;
        let traced = simulator.trace(options).map_err(failed)?;
        Ok(self.trajectory(traced.simulation, &columns))
    }

    /// Consistent start values of all variables at one point, in the order of [`Ensemble::all_variables`].
    ///
    /// # Errors
    /// When there are none.
    pub fn start(&self, values: &[f64]) -> Result<Vec<f64>, Failure> {
        let start = self.options.start;
        let options = SimulateOptions { stop: start, output_times: vec![start], ..self.options.clone() };
        let found = self.run_with(values, &options, self.simulator.columns())?;
        Ok(found.columns.chunks(found.times.len()).map(|column| column[column.len() - 1]).collect())
    }

    /// Start values at many points, in their order.
    ///
    /// # Errors
    /// The first failure in the order of the points.
    pub fn starts(&self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Failure> {
        let found: Vec<Result<Vec<f64>, Failure>> = points.par_iter().map(|values| self.start(values)).collect();
        found.into_iter().collect()
    }

    /// Values at many points, in their order, whatever the number of threads. Rows that not every point has (jumps at
    /// times that depend on the parameters) are left out.
    ///
    /// # Errors
    /// The first failure in the order of the points.
    pub fn run_all(&self, points: &[Vec<f64>], checkpoint: &mut Checkpoint) -> Result<Values, Failure> {
        let watch = &self.loaded.watch;
        watch.expect(points.len() as u64);
        let n_variables = self.variables().len();
        let known = |values: &Vec<f64>| {
            Trajectory::from_numbers(checkpoint.get(&key(POINT, values))?, &self.times, n_variables)
        };
        let mut found: Vec<Option<Trajectory>> = points.iter().map(known).collect();
        let missing: Vec<usize> = (0..points.len()).filter(|&at| found[at].is_none()).collect();
        watch.advance((points.len() - missing.len()) as u64);
        let is_kept = checkpoint.is_kept();
        let mut keep = |at: usize, trajectory: Trajectory| {
            if is_kept {
                checkpoint
                    .put(&key(POINT, &points[at]), &trajectory.to_numbers(&self.times))
                    .map_err(|diagnostic| Failure::Input(vec![diagnostic]))?;
            }
            found[at] = Some(trajectory);
            Ok(())
        };
        if let Some(elsewhere) = self.loaded.elsewhere.as_ref().filter(|_| !missing.is_empty()) {
            let share: Vec<&[f64]> = missing.iter().map(|&at| points[at].as_slice()).collect();
            let mut trouble = None;
            let is_done = elsewhere.each(&share, 1 + self.times.len() * n_variables, &mut |at, numbers| {
                watch.advance(1);
                let trajectory = Trajectory::from_numbers(numbers, &self.times, n_variables).ok_or_else(stopped);
                trouble = trajectory.and_then(|trajectory| keep(missing[at], trajectory)).err();
                trouble.is_none()
            });
            if let Some(failure) = trouble {
                return Err(failure);
            }
            is_done.ok_or_else(stopped)?;
        } else {
            // Batches, so that a checkpoint is never far behind, and the memory of a run stays that of its results.
            for batch in missing.chunks(if is_kept { 64 } else { POINTS_TOGETHER }) {
                let share: Vec<&[f64]> = batch.iter().map(|&at| points[at].as_slice()).collect();
                for (&at, done) in batch.iter().zip(self.run_share(&share)) {
                    keep(at, done?)?;
                }
            }
        }
        let all: Vec<Trajectory> = found.into_iter().flatten().collect();
        Ok(self.align(all))
    }

    /// Values at some points: in lanes where that serves, alone where not.
    pub fn run_share(&self, points: &[&[f64]]) -> Vec<Result<Trajectory, Failure>> {
        let watch = &self.loaded.watch;
        let in_lanes: Vec<Option<Vec<f64>>> = match &self.lanes {
            Some(lanes) => {
                // A point whose parameters have no value is told about when it is run alone.
                let parameters = points.iter().map(|values| self.parameter_values(values).ok()).collect();
                lanes.run(&self.lane_task(), parameters, watch)
            }
            None => vec![None; points.len()],
        };
        points
            .par_iter()
            .zip(in_lanes)
            .map(|(values, columns)| {
                if watch.is_stopped() {
                    return Err(stopped());
                }
                if let Some(columns) = columns {
                    return Ok(Trajectory { times: Arc::clone(&self.times), columns });
                }
                let trajectory = self.run(values);
                watch.advance(1);
                trajectory
            })
            .collect()
    }

    /// Puts trajectories on common rows.
    fn align(&self, all: Vec<Trajectory>) -> Values {
        let Some(first) = all.first() else { return Values { points: Vec::new(), times: self.times.to_vec() } };
        if all.iter().all(|other| are_same(&other.times, &first.times)) {
            let times = first.times.to_vec();
            return Values { points: all.into_iter().map(|trajectory| Arc::new(trajectory.columns)).collect(), times };
        }
        // The last row at each output time.
        let points = all
            .into_iter()
            .map(|trajectory| {
                let n = trajectory.times.len();
                let rows: Vec<usize> = self
                    .times
                    .iter()
                    .map(|&time| trajectory.times.partition_point(|&row| row <= time).saturating_sub(1).min(n - 1))
                    .collect();
                let columns = trajectory.columns.chunks(n).flat_map(|column| rows.iter().map(|&row| column[row]));
                Arc::new(columns.collect())
            })
            .collect();
        Values { points, times: self.times.to_vec() }
    }

    /// What was simulated, with times that are those of all others held once.
    fn trajectory(&self, simulation: Simulation, columns: &[usize]) -> Trajectory {
        let column = |&at: &usize| simulation.rows.iter().map(move |row| row[at]);
        let columns = columns.iter().flat_map(column).collect();
        let is_usual = simulation.times.iter().map(|t| t.to_bits()).eq(self.times.iter().map(|t| t.to_bits()));
        let times = if is_usual { Arc::clone(&self.times) } else { Arc::new(simulation.times) };
        Trajectory { times, columns }
    }
}

/// Whether two lists of times are the same, bit for bit.
fn are_same(one: &Arc<Vec<f64>>, other: &Arc<Vec<f64>>) -> bool {
    Arc::ptr_eq(one, other) || one.iter().map(|t| t.to_bits()).eq(other.iter().map(|t| t.to_bits()))
}

/// What changes from point to point of a model that is prepared.
fn change(loaded: &Loaded, simulator: &Simulator, random: &[VarId]) -> Change {
    let prepared = simulator.prepared();
    if !prepared.rewritten.is_empty() {
        return Change::Equations;
    }
    let inputs = loaded.study.iter().flat_map(|study| &study.inputs);
    let inputs_vary = inputs.into_iter().any(|input| match &input.item {
        InputSource::Expression { expression, breaks } => {
            std::iter::once(expression).chain(breaks).any(|quantity| depends_on(&loaded.flat, quantity, random))
        }
        InputSource::Impulses(_) => true,
        InputSource::Column { .. } => false,
    });
    let flat = &loaded.flat;
    let may_make_events = !flat.when_clauses.is_empty()
        || prepared.system.description().events.can_happen()
        || flat.graph.nodes().any(|node| matches!(node, Node::Initial | Node::Terminal | Node::Pre(_)))
        || flat
            .equations
            .iter()
            .any(|equation| flat.graph.may_make_events(equation.lhs) || flat.graph.may_make_events(equation.rhs));
    let options = &simulator.options;
    let inside = |time: &f64| *time > options.start && *time < options.stop;
    let has_breaks = prepared.inputs.breaks().iter().any(inside);
    if inputs_vary || may_make_events || has_breaks { Change::Signals } else { Change::Values }
}

/// Values of the reported variables over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Trajectory {
    /// Times of the rows, shared with other trajectories that have the same.
    pub times: Arc<Vec<f64>>,
    /// Variable by variable.
    pub columns: Vec<f64>,
}

impl Trajectory {
    /// As plain numbers: how many times follow, the times, and the columns. No times follow where they are the usual
    /// ones.
    #[must_use]
    pub fn to_numbers(&self, usual: &Arc<Vec<f64>>) -> Vec<f64> {
        let times: &[f64] = if are_same(&self.times, usual) { &[] } else { &self.times };
        std::iter::once(times.len() as f64).chain(times.iter().chain(&self.columns).copied()).collect()
    }

    /// From plain numbers; `None` if there are not as many as rows and variables make.
    #[must_use]
    pub fn from_numbers(numbers: &[f64], usual: &Arc<Vec<f64>>, n_variables: usize) -> Option<Self> {
        let (&n_times, rest) = numbers.split_first()?;
        let (times, columns) = rest.split_at_checked(n_times as usize)?;
        let times = if times.is_empty() { Arc::clone(usual) } else { Arc::new(times.to_vec()) };
        (!times.is_empty() && columns.len() == times.len() * n_variables)
            .then(|| Self { times, columns: columns.to_vec() })
    }
}

fn stopped() -> Failure {
    Failure::Method(vec![Diagnostic::error("stopped", "the run was stopped")])
}

/// The model with variables `der(x)`, and equations for them, for derivatives that are asked for and that its solution
/// does not hold: x is no state, or the equations were rewritten because structure misleads.
///
/// # Errors
/// As [`Simulator::new`].
pub fn with_derivatives<'l>(loaded: &'l Loaded, request: &Request) -> Result<Cow<'l, Loaded>, Failure> {
    let wanted: Vec<&String> = request.variables.iter().flatten().filter(|name| derivative(name).order > 0).collect();
    if wanted.is_empty() {
        return Ok(Cow::Borrowed(loaded));
    }
    let simulator = Simulator::new(loaded)?;
    let observed = &simulator.prepared().system.description().observed;
    let mut larger = loaded.clone();
    let flat = &mut larger.flat;
    for name in wanted.into_iter().filter(|name| !observed.contains(name)) {
        let Derivative { of, order } = derivative(name);
        let Some(var) = flat.find(of).filter(|_| flat.find(name).is_none()) else { continue };
        let added = VarId(flat.variables.len() as u32);
        let (kind, span) = (flat.variables[var.index()].kind, flat.variables[var.index()].span);
        flat.variables.push(Variable::new(name.clone(), kind, span));
        let (lhs, rhs) = (flat.graph.var(added), flat.graph.der(var, order));
        flat.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span });
    }
    Ok(Cow::Owned(larger))
}

/// What `der(der(x))` is.
pub(super) struct Derivative<'n> {
    /// x
    pub(super) of: &'n str,
    /// 2
    pub(super) order: u16,
}

/// Reads the name of a variable or of a derivative.
pub(super) fn derivative(name: &str) -> Derivative<'_> {
    match name.strip_prefix("der(").and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => {
            let Derivative { of, order } = derivative(inner);
            Derivative { of, order: order.saturating_add(1) }
        }
        None => Derivative { of: name, order: 0 },
    }
}

/// Gives parameters of the flat model fixed values.
pub fn set_parameters(loaded: &mut Loaded, random: &[VarId], values: &[f64]) {
    for (&var, &value) in random.iter().zip(values) {
        let number = loaded.flat.graph.number(value);
        loaded.flat.variables[var.index()].binding = Some(number);
    }
}

/// Whether a number of the study depends on random parameters.
#[must_use]
pub fn depends_on(flat: &FlatDae, quantity: &Quantity, random: &[VarId]) -> bool {
    let mut graph = Graph::default();
    // What cannot be read is reported when the inputs are made.
    let Ok(expr) = quantity_expression(&mut graph, &flat.variables, quantity) else { return false };
    reaches(flat, variables_of(&graph, expr), random)
}

/// Whether an expression depends on random parameters, through other parameters too.
#[must_use]
pub fn depends_on_random(flat: &FlatDae, expr: ExprId, random: &[VarId]) -> bool {
    reaches(flat, variables_of(&flat.graph, expr), random)
}

fn variables_of(graph: &Graph, expr: ExprId) -> Vec<VarId> {
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &[expr], &mut leaves);
    let var = |leaf: Leaf| match leaf {
        Leaf::Var { var, .. } => Some(var),
        Leaf::Time => None,
    };
    leaves.into_iter().filter_map(var).collect()
}

/// Whether variables are random parameters or bound to such.
fn reaches(flat: &FlatDae, mut stack: Vec<VarId>, random: &[VarId]) -> bool {
    let mut met: Vec<VarId> = stack.clone();
    while let Some(var) = stack.pop() {
        if random.contains(&var) {
            return true;
        }
        let Some(binding) = flat.variables[var.index()].binding else { continue };
        for var in variables_of(&flat.graph, binding) {
            if !met.contains(&var) {
                met.push(var);
                stack.push(var);
            }
        }
    }
    false
}
