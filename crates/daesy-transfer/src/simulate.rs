//! State transfer of linear models at discontinuities of their inputs.
//!
//! At a break of the inputs every variable `z` gets its jump and its impulses from the matrices of the model
//! [@barton2002, sec. 2]: by the canonical form for constant coefficients, by the transfer array for coefficients that
//! depend on time (sec. 4.3). The states of the regular form that are derivatives follow from the constraints once `z`
//! is known.

use daesy_compile::CompiledSystem;
use daesy_graph::finding::Finding;
use daesy_graph::flat::FlatDae;
use daesy_graph::regular::Derivative;
use daesy_graph::{Node, Span, VarId};
use daesy_integrate::{
    AsFarAsPossible, Crossed, Crossing, Inputs, IntegrateError, JumpError, JumpRule, Rules, SimulateOptions,
    Simulation, simulate_as_far_as_possible,
};
use daesy_pencil::{
    ConsistencyRequest, Discontinuity, FiniteInfiniteSplit, Mat, PencilError, PencilOptions, RankTolerance,
    StateTransfer, TransferOptions, largest_dense, nearest_consistent, split_finite_infinite,
    state_transfer_time_varying,
};
use daesy_system::{DaeSystem, Part, Point};
use rustc_hash::FxHashMap;

use crate::impulse_balance::BalanceTransfer;
use daesy_structure::linearize::{LinearKind, LinearModel};
use daesy_structure::words::{Term, combination_text};

/// An impulse of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct ImpulseAt {
    /// The input.
    pub input: String,
    /// When.
    pub time: f64,
    /// Its area.
    pub area: f64,
}

/// A variable that jumps.
#[derive(Clone, PartialEq, Debug)]
pub struct Jump {
    /// Its name.
    pub name: String,
    /// The value before.
    pub before: f64,
    /// The value after.
    pub after: f64,
}

/// The impulses of a variable.
#[derive(Clone, PartialEq, Debug)]
pub struct ImpulseOf {
    /// Its name.
    pub name: String,
    /// Coefficients of delta, delta', ..
    pub coefficients: Vec<f64>,
}

/// What makes an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// An input or a derivative of it jumps.
    InputBreak,
    /// An input has an impulse.
    Impulse,
    /// A relation of the model changed.
    State,
    /// The model did something at a time known beforehand.
    Time,
}

impl EventKind {
    /// The word for it in documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::InputBreak => "input-break",
            Self::Impulse => "impulse",
            Self::State => "state-event",
            Self::Time => "time-event",
        }
    }
}

/// Something that happened at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// When.
    pub time: f64,
    /// What.
    pub kind: EventKind,
    /// Combinations of variables that stay continuous.
    pub continuous: Vec<String>,
    /// Variables that jump.
    pub jumps: Vec<Jump>,
    /// Variables that have impulses.
    pub impulses: Vec<ImpulseOf>,
    /// Relations of the model that changed.
    pub relations: Vec<String>,
}

/// A simulation with what happened at its discontinuities.
#[derive(Clone, Debug)]
pub struct Transferred {
    /// The trajectory and its work.
    pub simulation: Simulation,
    /// What happened.
    pub events: Vec<Event>,
    /// What is to be told.
    pub findings: Vec<Finding>,
}

/// A simulation as far as it goes.
#[derive(Clone, Debug)]
pub struct TransferredPart {
    /// The simulation, or the part of it before a failure.
    pub transferred: Transferred,
    /// Why it ends before its time.
    pub failure: Option<IntegrateError>,
}

/// Why there is no simulation.
#[derive(Clone, Debug)]
pub enum TransferFailure {
    /// The integration failed.
    Integration(IntegrateError),
    /// An impulse meets a model whose answer to it is not known.
    Refused(Finding),
}

/// Simulates a system, compiled from a flat model or one with the same solutions, whose states cross the breaks of the
/// inputs as the model demands.
///
/// # Errors
/// When the integration fails, or when an impulse meets a model whose answer to it is not known.
pub fn simulate_with_transfer(
    flat: &FlatDae,
    system: &CompiledSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    impulses: &[ImpulseAt],
    options: &SimulateOptions,
) -> Result<Transferred, TransferFailure> {
    let part = transfer_as_far_as_possible(flat, system, parameters, inputs, impulses, options)?;
    match part.failure {
        None => Ok(part.transferred),
        Some(error) => Err(TransferFailure::Integration(error)),
    }
}

/// As [`simulate_with_transfer`], but a failure on the way leaves the part of the trajectory before it.
///
/// # Errors
/// When there is no start, or when an impulse meets a model whose answer to it is not known.
pub fn transfer_as_far_as_possible(
    flat: &FlatDae,
    system: &CompiledSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    impulses: &[ImpulseAt],
    options: &SimulateOptions,
) -> Result<TransferredPart, TransferFailure> {
    let inside = |time: &f64| *time > options.start && *time < options.stop;
    let has_breaks = inputs.breaks().iter().any(inside);
    let mut findings = Vec::new();
    let mut rule = if system.description().events.can_happen() {
        BalanceTransfer::prepare(system, impulses).map_or(Rule::None, |balances| Rule::Balances(Box::new(balances)))
    } else {
        match LinearTransfer::prepare(flat, system, impulses, has_breaks) {
            Transferability::Linear(transfer) => Rule::Linear(transfer),
            Transferability::NotNeeded => Rule::None,
            Transferability::Unknown(finding) => match BalanceTransfer::prepare(system, impulses) {
                Some(balances) => Rule::Balances(Box::new(balances)),
                None => {
                    findings.push(finding);
                    Rule::None
                }
            },
        }
    };
    if let (Rule::None, Some(impulse)) = (&rule, impulses.first()) {
        let message = format!("the impulse of `{}` cannot be answered: the model is too large", impulse.input);
        let refused = Finding::error("impulse-input", Span::NONE, message).with_names([&impulse.input]);
        return Err(TransferFailure::Refused(refused.with_help("use a short, high pulse instead")));
    }
    let transfer = match &mut rule {
        Rule::Linear(transfer) => Some(Box::new(&mut **transfer) as Box<dyn JumpRule + '_>),
        Rule::Balances(balances) => Some(Box::new(&mut **balances) as Box<dyn JumpRule + '_>),
        Rule::None => None,
    };
    let rules = Rules { transfer };
    let run = simulate_as_far_as_possible(system, parameters, inputs, rules, options);
    let AsFarAsPossible { simulation, failure } = run.map_err(TransferFailure::Integration)?;
    let made = model_events(system, &simulation);
    let mut events = match rule {
        Rule::Linear(transfer) => with_computed(transfer.events, &transfer.model, system, &simulation),
        Rule::Balances(balances) => with_observed(balances.events, system, &simulation),
        Rule::None => observed_events(system, &simulation),
    };
    merge_events(&mut events, made);
    Ok(TransferredPart { transferred: Transferred { simulation, events, findings }, failure })
}

/// How states cross discontinuities.
enum Rule<'a> {
    Linear(Box<LinearTransfer<'a>>),
    Balances(Box<BalanceTransfer<'a>>),
    None,
}

/// Adds the events that the model made; what the balances say of them is kept.
fn merge_events(events: &mut Vec<Event>, made: Vec<Event>) {
    for mut event in made {
        let is_same = |known: &Event| known.kind == EventKind::State && known.time == event.time;
        if let Some(at) = events.iter().position(is_same) {
            let known = events.remove(at);
            // Single states are known from the table; combinations and impulses are not.
            let has_combinations = known.continuous.iter().any(|text| text.contains(' '));
            if has_combinations || !known.impulses.is_empty() {
                let does_jump = |name: &String| event.jumps.iter().any(|jump| jump.name == *name);
                event.continuous = known.continuous.into_iter().filter(|name| !does_jump(name)).collect();
            }
            event.impulses = known.impulses;
        }
        events.push(event);
    }
    events.sort_by(|a, b| a.time.total_cmp(&b.time));
}

/// The events of the balances with the jumps that the table shows, and those at which nothing but the table shows a
/// jump.
fn with_observed(events: Vec<Event>, system: &CompiledSystem, simulation: &Simulation) -> Vec<Event> {
    let mut all = observed_events(system, simulation);
    for mut event in events {
        if let Some(at) = all.iter().position(|known| known.time == event.time) {
            event.jumps = all.remove(at).jumps;
        } else if let Some(&row) = simulation.jumps.iter().find(|&&row| simulation.times[row] == event.time) {
            event.jumps = jumps_at(system, simulation, row);
        }
        if !event.jumps.is_empty() || !event.impulses.is_empty() {
            all.push(event);
        }
    }
    all
}

/// The events with the jumps of variables that are computed nonlinearly, as the table shows them.
fn with_computed(
    mut events: Vec<Event>,
    model: &LinearModel,
    system: &CompiledSystem,
    simulation: &Simulation,
) -> Vec<Event> {
    let names = &system.description().observed;
    for event in &mut events {
        let Some(&row) = simulation.jumps.iter().find(|&&row| simulation.times[row] == event.time) else { continue };
        let (before, after) = (&simulation.rows[row - 1], &simulation.rows[row]);
        for computed in &model.computed {
            if let Some(at) = names.iter().position(|name| *name == computed.name)
                && is_jump(simulation, at, row)
            {
                event.jumps.push(Jump { name: computed.name.clone(), before: before[at], after: after[at] });
            }
        }
    }
    events
}

/// Whether a quantity jumps to a row, by more than rounding of its largest size in the table.
fn is_jump(simulation: &Simulation, at: usize, row: usize) -> bool {
    let size = simulation.sizes[at].max(1e-6);
    (simulation.rows[row][at] - simulation.rows[row - 1][at]).abs() > 1e-9 * size
}

/// Variables that jump between the row before and a row.
fn jumps_at(system: &CompiledSystem, simulation: &Simulation, row: usize) -> Vec<Jump> {
    let (before, after) = (&simulation.rows[row - 1], &simulation.rows[row]);
    let names = system.description().observed.iter().enumerate();
    names
        .filter(|(at, name)| !name.starts_with("der(") && is_jump(simulation, *at, row))
        .map(|(at, name)| Jump { name: name.clone(), before: before[at], after: after[at] })
        .collect()
}

/// The names of states, those included that the model defines to be the derivative of another variable.
fn named_states(system: &CompiledSystem) -> Vec<String> {
    let regular = system.regular();
    let mut named: FxHashMap<Derivative, VarId> = FxHashMap::default();
    for eliminated in &regular.eliminated {
        if let Node::Var { var, order: order @ 1.. } = regular.flat.graph.node(eliminated.value) {
            named.entry(Derivative { var, order }).or_insert(eliminated.var);
        }
    }
    let variable = |state: &Derivative| if state.order == 0 { Some(state.var) } else { named.get(state).copied() };
    let name = |var: VarId| regular.flat.variables[var.index()].name.clone();
    regular.states.iter().filter_map(variable).map(name).collect()
}

/// Events that the model made.
fn model_events(system: &CompiledSystem, simulation: &Simulation) -> Vec<Event> {
    if simulation.events.is_empty() {
        return Vec::new();
    }
    let description = system.description();
    let states = named_states(system);
    let event = |made: &daesy_integrate::StateEvent| {
        let jumps = made.row.map_or_else(Vec::new, |row| jumps_at(system, simulation, row));
        let does_jump = |name: &str| jumps.iter().any(|jump| jump.name == name);
        let continuous = states.iter().filter(|state| !does_jump(state)).cloned().collect();
        Event {
            time: made.time,
            kind: if made.is_scheduled { EventKind::Time } else { EventKind::State },
            continuous,
            jumps,
            impulses: Vec::new(),
            relations: made.held.iter().map(|&held| description.events.held[held as usize].text.clone()).collect(),
        }
    };
    simulation.events.iter().map(event).collect()
}

/// Events of a model whose states go on as they are: what the table shows.
fn observed_events(system: &CompiledSystem, simulation: &Simulation) -> Vec<Event> {
    let description = system.description();
    let continuous: Vec<String> = if description.constraints.is_empty() { named_states(system) } else { Vec::new() };
    let is_of_model = |row: usize| simulation.events.iter().any(|event| event.row == Some(row));
    let event = |&row: &usize| {
        let jumps = jumps_at(system, simulation, row);
        let time = simulation.times[row];
        (!jumps.is_empty()).then(|| Event {
            time,
            kind: EventKind::InputBreak,
            continuous: continuous.clone(),
            jumps,
            impulses: Vec::new(),
            relations: Vec::new(),
        })
    };
    simulation.jumps.iter().filter(|&&row| !is_of_model(row)).filter_map(event).collect()
}

/// Models up to this size are transferred by dense matrices.
const DENSE: usize = largest_dense(3);

/// Where an input's value and derivatives stand.
#[derive(Clone, Copy)]
struct Slot {
    start: usize,
    len: usize,
}

/// The state transfer of a linear model.
pub(crate) struct LinearTransfer<'a> {
    model: LinearModel,
    system: &'a CompiledSystem,
    split: Option<FiniteInfiniteSplit>,
    input: Mat<f64>,
    /// By input of the model.
    slots: Vec<Slot>,
    /// By variable of the model: its place among the observed quantities.
    observed: Vec<Option<usize>>,
    /// By state of the system: the variable of the model that it is, nothing for derivatives.
    variable_of: Vec<Option<usize>>,
    impulses: &'a [ImpulseAt],
    /// What happened so far.
    pub(crate) events: Vec<Event>,
}

/// Whether a model has a transfer of its own.
pub(crate) enum Transferability<'a> {
    /// It has.
    Linear(Box<LinearTransfer<'a>>),
    /// States go on as they are: no constraint is hidden and there are no impulses.
    NotNeeded,
    /// It is needed but not known.
    Unknown(Finding),
}

impl<'a> LinearTransfer<'a> {
    /// Prepares the transfer of a compiled model.
    pub(crate) fn prepare(
        flat: &FlatDae,
        system: &'a CompiledSystem,
        impulses: &'a [ImpulseAt],
        has_breaks: bool,
    ) -> Transferability<'a> {
        let description = system.description();
        let is_plain =
            description.constraints.is_empty() && description.inputs.iter().all(|input| input.derivatives_needed == 0);
        if impulses.is_empty() && (is_plain || !has_breaks) {
            return Transferability::NotNeeded;
        }
        let unknown = |reason: &str| {
            let message = format!("what the states do at a discontinuity of the inputs is not known: {reason}");
            Transferability::Unknown(Finding::warning("state-transfer", Span::NONE, message).with_help(
                "the constraints are met again by the least change of the states; check the jumps, or make the input smooth",
            ))
        };
        let model = match LinearModel::new(flat) {
            Ok(model) => model,
            Err(finding) => return unknown(&finding.message),
        };
        if model.n_variables() > DENSE {
            return unknown(&format!("{} variables are too many for dense matrices", model.n_variables()));
        }
        let matrices = model.matrices(0.0);
        let split = match model.kind {
            LinearKind::TimeVarying => None,
            LinearKind::Constant => {
                let split =
                    matrices.pencil().and_then(|pencil| split_finite_infinite(&pencil, &PencilOptions::default()));
                match split {
                    Ok(split) => Some(split),
                    Err(error) => return unknown(&error.to_string()),
                }
            }
        };
        let slots = model
            .inputs
            .iter()
            .map(|name| {
                let input = description.inputs.iter().find(|input| input.name == *name);
                input.map_or(Slot { start: 0, len: 0 }, |input| Slot {
                    start: input.start,
                    len: usize::from(input.derivatives_needed) + 1,
                })
            })
            .collect();
        let place = |name: &str| description.observed.iter().position(|known| known == name);
        let observed = model.variables.iter().map(|variable| place(&variable.name)).collect();
        let variable_of = description
            .states
            .iter()
            .map(|state| model.variables.iter().position(|variable| variable.name == state.name))
            .collect();
        Transferability::Linear(Box::new(Self {
            model,
            system,
            split,
            input: matrices.g,
            slots,
            observed,
            variable_of,
            impulses,
            events: Vec::new(),
        }))
    }

    /// The discontinuity of all inputs at a break.
    fn discontinuity(&self, crossing: &Crossing<'_>) -> Discontinuity {
        let n_inputs = self.slots.len();
        let n_orders = self.slots.iter().map(|slot| slot.len).max().unwrap_or(0);
        let mut jumps = vec![vec![0.0; n_inputs]; n_orders];
        for (input, slot) in self.slots.iter().enumerate() {
            for (order, jumps) in jumps.iter_mut().enumerate().take(slot.len) {
                let at = slot.start + order;
                let (before, after) = (crossing.inputs_before[at], crossing.inputs_after[at]);
                // The sides are read a little apart: what a slope makes of that distance is no jump.
                let slope = (order + 1 < slot.len)
                    .then(|| crossing.inputs_before[at + 1].abs().max(crossing.inputs_after[at + 1].abs()));
                let distance = 4e-12 * crossing.time.abs().max(1e-3);
                let rounding = 1e-9 * before.abs().max(after.abs()) + distance * slope.unwrap_or(0.0);
                if (after - before).abs() > rounding {
                    jumps[input] = after - before;
                }
            }
        }
        let mut impulses = Vec::new();
        for impulse in self.impulses.iter().filter(|impulse| impulse.time == crossing.time) {
            if impulses.is_empty() {
                impulses.push(vec![0.0; n_inputs]);
            }
            if let Some(input) = self.model.inputs.iter().position(|name| *name == impulse.input) {
                impulses[0][input] += impulse.area;
            }
        }
        while jumps.last().is_some_and(|order| order.iter().all(|jump| *jump == 0.0)) {
            jumps.pop();
        }
        Discontinuity { jumps, impulses }
    }

    fn respond(&self, time: f64, event: &Discontinuity) -> Result<StateTransfer, PencilError> {
        match &self.split {
            Some(split) => split.state_transfer(&self.input, event),
            None => Ok(state_transfer_time_varying(&self.model, time, event, &TransferOptions::default())?.transfer),
        }
    }

    /// The states that are derivatives, from the constraints and the variables themselves.
    fn derivatives(&self, crossing: &Crossing<'_>, states: &mut [f64]) -> Result<(), JumpError> {
        let known: Vec<usize> = (0..states.len()).filter(|&at| self.variable_of[at].is_some()).collect();
        if known.len() == states.len() {
            return Ok(());
        }
        let description = self.system.description();
        let pattern = self.system.pattern(Part::ConstraintByStates);
        let unknowns = vec![0.0; description.unknowns.len()];
        let point = Point {
            time: crossing.time,
            states,
            unknowns: &unknowns,
            parameters: crossing.parameters,
            inputs: crossing.inputs_after,
            modes: crossing.modes,
        };
        let mut evaluator = self.system.evaluator();
        let mut residual = vec![0.0; pattern.n_rows];
        let mut values = vec![0.0; pattern.n_entries()];
        evaluator.evaluate(Part::Constraint, &point, &mut residual);
        evaluator.evaluate(Part::ConstraintByStates, &point, &mut values);
        let mut constraints = Mat::zeros(pattern.n_rows, states.len());
        for ((row, column), value) in pattern.entries().zip(values) {
            constraints[(row, column)] += value;
        }
        let target: Vec<f64> = (0..pattern.n_rows)
            .map(|row| (0..states.len()).map(|at| constraints[(row, at)] * states[at]).sum::<f64>() - residual[row])
            .collect();
        let scales: Vec<f64> = description.states.iter().map(|state| state.nominal).collect();
        let mut request = ConsistencyRequest {
            guess: states,
            insisted: &known,
            scales: Some(&scales),
            tolerance: RankTolerance::default(),
        };
        let found = nearest_consistent(&constraints, &target, &request).or_else(|_| {
            // Errors of the integration may be larger than the rounding that insisting allows.
            request.insisted = &[];
            nearest_consistent(&constraints, &target, &request)
        });
        let found = found.map_err(|error| JumpError { reason: error.to_string() })?;
        states.copy_from_slice(&found.values);
        Ok(())
    }
}

impl JumpRule for LinearTransfer<'_> {
    fn acts_at_start(&self, time: f64) -> bool {
        self.impulses.iter().any(|impulse| impulse.time == time)
    }

    fn cross(&mut self, crossing: &Crossing<'_>, states: &mut [f64]) -> Result<Crossed, JumpError> {
        let event = self.discontinuity(crossing);
        if event.jumps.is_empty() && event.impulses.is_empty() {
            return Ok(Crossed::Smoothly);
        }
        let response = self.respond(crossing.time, &event).map_err(|error| JumpError { reason: error.to_string() })?;
        for (state, variable) in states.iter_mut().zip(&self.variable_of) {
            if let Some(variable) = *variable {
                *state += response.jump[variable];
            }
        }
        self.derivatives(crossing, states)?;
        let mut jumps = Vec::new();
        for (variable, &jump) in response.jump.iter().enumerate().filter(|(_, jump)| **jump != 0.0) {
            if let Some(at) = self.observed[variable] {
                let before = crossing.observed_before[at];
                let name = self.model.variables[variable].name.clone();
                jumps.push(Jump { name, before, after: before + jump });
            }
        }
        for (name, slot) in self.model.inputs.iter().zip(&self.slots) {
            let jump = event.jumps.first().map_or(0.0, |jumps| {
                self.model.inputs.iter().position(|known| known == name).map_or(0.0, |at| jumps[at])
            });
            if jump != 0.0 {
                let (before, after) = (crossing.inputs_before[slot.start], crossing.inputs_after[slot.start]);
                jumps.push(Jump { name: name.clone(), before, after });
            }
        }
        let mut impulses = Vec::new();
        let n_orders = response.impulses.len();
        for (variable, named) in self.model.variables.iter().enumerate() {
            let mut coefficients: Vec<f64> = (0..n_orders).map(|order| response.impulses[order][variable]).collect();
            while coefficients.last() == Some(&0.0) {
                coefficients.pop();
            }
            if !coefficients.is_empty() {
                impulses.push(ImpulseOf { name: named.name.clone(), coefficients });
            }
        }
        if let Some(areas) = event.impulses.first() {
            for (name, &area) in self.model.inputs.iter().zip(areas).filter(|(_, area)| **area != 0.0) {
                impulses.push(ImpulseOf { name: name.clone(), coefficients: vec![area] });
            }
        }
        if jumps.is_empty() && impulses.is_empty() {
            return Ok(Crossed::Smoothly);
        }
        let names = self.model.variable_names();
        let continuous = response
            .continuous
            .iter()
            .map(|combination| {
                let terms: Vec<Term> = combination
                    .coefficients
                    .iter()
                    .zip(&names)
                    .map(|(&factor, &name)| Term { factor, name: name.to_owned() })
                    .collect();
                combination_text(&terms)
            })
            .collect();
        let kind = if event.impulses.is_empty() { EventKind::InputBreak } else { EventKind::Impulse };
        self.events.push(Event { time: crossing.time, kind, continuous, jumps, impulses, relations: Vec::new() });
        Ok(Crossed::WithJump)
    }
}
