//! The model at given values of its random parameters: the ensemble behind collocation and Monte Carlo methods.
//!
//! Where nothing but parameter values changes from point to point, the model is compiled once. Where more changes (inputs, breaks,
//! events, equations that were rewritten because structure misleads) each point takes the whole path from the flat model on.

use std::sync::Arc;

use daesy_chaos::PointValues;
use daesy_graph::{Leaf, Node, Reach, VarId};
use daesy_integrate::{InitializeOptions, IntegrateError, SimulateOptions, initialize, simulate as integrate};
use daesy_system::{DaeSystem, GivenParameter, Part, Point};
use rayon::prelude::*;

use super::UqFailure;
use super::checkpoint::Checkpoint;
use super::lanes::{LaneRuns, LaneTask};
use super::request::Request;
use crate::diagnostic::Diagnostic;
use crate::load::{Loaded, quantity_expression};
use crate::prepare::{Blame, DataUse, Prepared, prepare_with_events};
use crate::simulate::{SimulateFailure, options, simulate};
use crate::study::{InputSource, Quantity, QuantityValue};
use daesy_structure::straighten::straighten_linear;

/// Relative tolerances are not sharpened beyond this.
const FINEST: f64 = 1e-11;

/// A model that is run at many points.
pub struct Ensemble {
    loaded: Loaded,
    prepared: Prepared,
    options: SimulateOptions,
    random: Vec<VarId>,
    names: Vec<String>,
    /// Positions of the random parameters among the system's.
    places: Vec<u32>,
    /// Whether only parameter values change.
    is_plain: bool,
    /// Columns of the system's observed quantities that are wanted.
    columns: Vec<usize>,
    /// Rows every point must have.
    times: Vec<f64>,
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

impl Ensemble {
    /// Compiles the model at the parameters' means.
    ///
    /// # Errors
    /// Diagnostics in the model's words.
    pub fn new(loaded: &Loaded, request: &Request, means: &[f64]) -> Result<Self, UqFailure> {
        let mut loaded = loaded.clone();
        set_parameters(&mut loaded, &request.random, means);
        let is_straight = straighten_linear(&loaded.flat).is_none();
        let inputs_vary = loaded.study.clone().is_some_and(|study| {
            study.inputs.iter().any(|input| match &input.item {
                InputSource::Expression { expression, breaks } => std::iter::once(expression)
                    .chain(breaks)
                    .any(|quantity| depends_on(&mut loaded, quantity, &request.random)),
                InputSource::Impulses(_) => true,
                InputSource::Column { .. } => false,
            })
        });
        let prepared =
            prepare_with_events(&mut loaded, DataUse::Needed).map_err(|wrong| UqFailure::Input(wrong.diagnostics))?;
        let options = options(&mut loaded, &prepared)?;
        let description = prepared.system.description();
        let flat = &loaded.flat;
        let may_make_events = !flat.when_clauses.is_empty()
            || description.events.can_happen()
            || flat.graph.nodes().any(|node| matches!(node, Node::Initial | Node::Terminal | Node::Pre(_)))
            || flat
                .equations
                .iter()
                .any(|equation| flat.graph.may_make_events(equation.lhs) || flat.graph.may_make_events(equation.rhs));
        use daesy_integrate::Inputs as _;
        let inside = |time: &f64| *time > options.start && *time < options.stop;
        let has_breaks = prepared.inputs.breaks().iter().any(inside);
        let is_plain = is_straight && !inputs_vary && !may_make_events && !has_breaks;
        let names: Vec<String> = request.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let place = |name: &String| description.parameters.iter().position(|known| known == name);
        let places: Vec<u32> = names.iter().filter_map(place).map(|at| at as u32).collect();
        let columns = match &request.variables {
            None => (0..description.observed.len()).collect(),
            Some(wanted) => {
                (0..description.observed.len()).filter(|&at| wanted.contains(&description.observed[at])).collect()
            }
        };
        let times = options.output_times.clone();
        Ok(Self {
            random: request.random.clone(),
            names,
            places,
            is_plain,
            columns,
            times,
            lanes: None,
            loaded,
            prepared,
            options,
        })
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
    pub fn with_lanes(mut self, pilots: &[Vec<f64>]) -> Result<Self, UqFailure> {
        let (true, Some(first)) = (self.is_plain, pilots.first()) else { return Ok(self) };
        let parameters = pilots.iter().map(|values| self.parameter_values(values)).collect::<Result<Vec<_>, _>>()?;
        let alone = integrate(&self.prepared.system, &parameters[0], &self.prepared.inputs, &self.options)
            .map_err(|error| self.failed(first, &error))?;
        self.lanes = LaneRuns::new(&self.lane_task(), &parameters, alone.evaluations);
        Ok(self)
    }

    fn lane_task(&self) -> LaneTask<'_> {
        LaneTask {
            system: &self.prepared.system,
            inputs: &self.prepared.inputs,
            options: &self.options,
            columns: &self.columns,
        }
    }

    /// The compiled model at the means.
    #[must_use]
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
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
        let observed = &self.prepared.system.description().observed;
        self.columns.iter().map(|&at| observed[at].clone()).collect()
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

    fn parameter_values(&self, values: &[f64]) -> Result<Vec<f64>, UqFailure> {
        let given: Vec<GivenParameter> =
            self.places.iter().zip(values).map(|(&parameter, &value)| GivenParameter { parameter, value }).collect();
        self.prepared.system.parameter_values(&given).map_err(|error| {
            UqFailure::Input(vec![Diagnostic::error(
                "parameter-value",
                format!("{error} (at {})", self.place_text(values)),
            )])
        })
    }

    fn failed(&self, values: &[f64], error: &IntegrateError) -> UqFailure {
        let failure = self.prepared.integration_failure(error);
        let mut diagnostic = failure.diagnostic;
        diagnostic.message = format!("at {}: {}", self.place_text(values), diagnostic.message);
        match failure.blame {
            Blame::Model => UqFailure::Input(vec![diagnostic]),
            Blame::Method => UqFailure::Method(Box::new(diagnostic)),
        }
    }

    /// Values of all variables over time at one point.
    ///
    /// # Errors
    /// When the model cannot be simulated there; the diagnostic names the parameter values.
    pub fn run(&self, values: &[f64]) -> Result<Trajectory, UqFailure> {
        if self.is_plain {
            let parameters = self.parameter_values(values)?;
            let simulation = integrate(&self.prepared.system, &parameters, &self.prepared.inputs, &self.options)
                .map_err(|error| self.failed(values, &error))?;
            let column = |&at: &usize| simulation.rows.iter().map(move |row| row[at]);
            let columns = self.columns.iter().flat_map(column).collect();
            return Ok(Trajectory { times: simulation.times, columns });
        }
        let mut loaded = self.loaded.clone();
        set_parameters(&mut loaded, &self.random, values);
        let trajectory = simulate(&mut loaded).map_err(|failure| self.placed(values, failure))?;
        let columns = self.columns.iter().flat_map(|&at| trajectory.table.columns[at + 1].iter().copied()).collect();
        Ok(Trajectory { times: trajectory.simulation.times, columns })
    }

    fn placed(&self, values: &[f64], failure: SimulateFailure) -> UqFailure {
        let place = self.place_text(values);
        let with_place = |mut diagnostic: Diagnostic| {
            diagnostic.message = format!("at {place}: {}", diagnostic.message);
            diagnostic
        };
        match failure {
            SimulateFailure::Input(diagnostics) => UqFailure::Input(diagnostics.into_iter().map(with_place).collect()),
            SimulateFailure::Method(diagnostic) => UqFailure::Method(Box::new(with_place(*diagnostic))),
        }
    }

    /// Consistent start values of all observed quantities at one point.
    ///
    /// # Errors
    /// When there are none.
    pub fn start(&self, values: &[f64]) -> Result<Vec<f64>, UqFailure> {
        let description = self.prepared.system.description();
        if self.is_plain {
            use daesy_integrate::Inputs as _;
            let parameters = self.parameter_values(values)?;
            let mut inputs = vec![0.0; description.n_inputs];
            self.prepared.inputs.fill(self.options.start, true, &mut inputs);
            let modes = vec![0.0; description.n_modes];
            let time = self.options.start;
            let found =
                initialize(&self.prepared.system, time, &parameters, &inputs, &modes, &InitializeOptions::default())
                    .map_err(|error| self.failed(values, &error))?;
            let mut row = vec![0.0; description.observed.len()];
            let point = Point {
                time,
                states: &found.states,
                unknowns: &found.unknowns,
                parameters: &found.parameters,
                inputs: &inputs,
                modes: &modes,
            };
            self.prepared.system.evaluator().evaluate(Part::Observed, &point, &mut row);
            return Ok(row);
        }
        let mut loaded = self.loaded.clone();
        set_parameters(&mut loaded, &self.random, values);
        if let Some(study) = &mut loaded.study {
            let start = Quantity { value: QuantityValue::Number(self.options.start), span: daesy_graph::Span::NONE };
            study.simulate.start = Some(start.clone());
            study.simulate.stop = Some(start);
        }
        let trajectory = simulate(&mut loaded).map_err(|failure| self.placed(values, failure))?;
        Ok(trajectory.table.columns[1..].iter().map(|column| column[0]).collect())
    }

    /// Start values at many points, in their order.
    ///
    /// # Errors
    /// The first failure in the order of the points.
    pub fn starts(&self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, UqFailure> {
        let found: Vec<Result<Vec<f64>, UqFailure>> = points.par_iter().map(|values| self.start(values)).collect();
        found.into_iter().collect()
    }

    /// Values at many points, in their order, whatever the number of threads. Rows that not every point has (jumps at times that depend
    /// on the parameters) are left out.
    ///
    /// # Errors
    /// The first failure in the order of the points.
    pub fn run_all(&self, points: &[Vec<f64>], checkpoint: &mut Checkpoint) -> Result<Values, UqFailure> {
        let watch = &self.loaded.watch;
        watch.expect(points.len() as u64);
        let mut found: Vec<Option<Trajectory>> = points.iter().map(|values| checkpoint.take(values)).collect();
        let missing: Vec<usize> = (0..points.len()).filter(|&at| found[at].is_none()).collect();
        watch.advance((points.len() - missing.len()) as u64);
        // Batches, so that a checkpoint is never far behind.
        for batch in missing.chunks(if checkpoint.is_kept() { 64 } else { usize::MAX }) {
            let done: Vec<Result<Trajectory, UqFailure>> = if let Some(elsewhere) = &self.loaded.elsewhere {
                let share: Vec<Vec<f64>> = batch.iter().map(|&at| points[at].clone()).collect();
                let found = elsewhere.evaluate(&share).ok_or_else(stopped)?;
                watch.advance(found.len() as u64);
                found.iter().map(|numbers| Trajectory::from_numbers(numbers).ok_or_else(stopped)).collect()
            } else {
                let share: Vec<&[f64]> = batch.iter().map(|&at| points[at].as_slice()).collect();
                self.run_share(&share)
            };
            for (&at, done) in batch.iter().zip(done) {
                let trajectory = done?;
                checkpoint.add(&points[at], &trajectory);
                found[at] = Some(trajectory);
            }
            checkpoint.save()?;
        }
        let all: Vec<Trajectory> = found.into_iter().flatten().collect();
        Ok(self.align(all))
    }

    /// Values at some points: in lanes where that serves, alone where not.
    pub fn run_share(&self, points: &[&[f64]]) -> Vec<Result<Trajectory, UqFailure>> {
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
                    return Ok(Trajectory { times: self.times.clone(), columns });
                }
                let trajectory = self.run(values);
                watch.advance(1);
                trajectory
            })
            .collect()
    }

    /// Puts trajectories on common rows.
    fn align(&self, all: Vec<Trajectory>) -> Values {
        let Some(first) = all.first() else { return Values { points: Vec::new(), times: self.times.clone() } };
        let same = |other: &Trajectory| {
            other.times.iter().map(|time| time.to_bits()).eq(first.times.iter().map(|time| time.to_bits()))
        };
        if all.iter().all(same) {
            let times = first.times.clone();
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
        Values { points, times: self.times.clone() }
    }
}

/// Values of the reported variables over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Trajectory {
    /// Times of the rows.
    pub times: Vec<f64>,
    /// Variable by variable.
    pub columns: Vec<f64>,
}

impl Trajectory {
    /// As plain numbers: how many rows, their times, and the columns.
    #[must_use]
    pub fn to_numbers(&self) -> Vec<f64> {
        std::iter::once(self.times.len() as f64).chain(self.times.iter().chain(&self.columns).copied()).collect()
    }

    /// From plain numbers; nothing when they are too few.
    #[must_use]
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (&n_rows, rest) = numbers.split_first()?;
        let (times, columns) = rest.split_at_checked(n_rows as usize)?;
        Some(Self { times: times.to_vec(), columns: columns.to_vec() })
    }
}

fn stopped() -> UqFailure {
    UqFailure::Method(Box::new(Diagnostic::error("stopped", "the run was stopped")))
}

/// Gives parameters of the flat model fixed values.
pub fn set_parameters(loaded: &mut Loaded, random: &[VarId], values: &[f64]) {
    for (&var, &value) in random.iter().zip(values) {
        let number = loaded.flat.graph.number(value);
        let variable = &mut loaded.flat.variables[var.index()];
        variable.binding = Some(number);
    }
}

/// Whether a number of the study depends on random parameters.
#[must_use]
pub fn depends_on(loaded: &mut Loaded, quantity: &Quantity, random: &[VarId]) -> bool {
    // What cannot be read is reported when the inputs are made.
    let Ok(expr) = quantity_expression(&mut loaded.flat, quantity) else { return false };
    depends_on_random(&loaded.flat, expr, random)
}

/// Whether an expression depends on random parameters, through other parameters too.
#[must_use]
pub fn depends_on_random(flat: &daesy_graph::flat::FlatDae, expr: daesy_graph::ExprId, random: &[VarId]) -> bool {
    let mut reach = Reach::new();
    let mut leaves = Vec::new();
    let mut met: Vec<VarId> = Vec::new();
    let mut stack = vec![expr];
    while let Some(expr) = stack.pop() {
        reach.leaves(&flat.graph, &[expr], &mut leaves);
        for &leaf in &leaves {
            let Leaf::Var { var, .. } = leaf else { continue };
            if random.contains(&var) {
                return true;
            }
            if !met.contains(&var) {
                met.push(var);
                stack.extend(flat.variables[var.index()].binding);
            }
        }
    }
    false
}
