//! A unit as a flat model, so that everything that can be asked of a model can be asked of it.
//!
//! ```text
//! der(x) = derivatives(time, mode, x, u, p)           y = values(time, mode, x, u, p)
//! initial equation  x = start(time, u, p)
//! ```
//!
//! and for units with events, with z = indicators(time, pre(mode), x, u, p),
//!
//! ```text
//! when not z > 0, time >= pre(next), or a discrete input changes
//!   (mode, next, over, x) = event(time, pre(mode), x, u, p)
//! ```
//!
//! Units that integrate themselves have no equations: their variables rest at zero.
//!
//! Units that have no event indicators, no discrete inputs and, at their start, no event in time are smooth: their
//! mode is always 0.

use std::sync::Arc;

use daesy_graph::flat::{
    Enumeration, Equation, Experiment, FlatDae, Origin, ValueType, Variable, VariableKind, WhenAction, WhenBranch,
    WhenClause,
};
use daesy_graph::foreign::{Foreign, ForeignFailure, ForeignUnit};
use daesy_graph::intrinsic::Intrinsic;
use daesy_graph::{ExprId, Graph, Leaf, Node, Shared, SourceMap, Span, Unit as PhysicalUnit, VarId};
use rustc_hash::FxHashMap;

use crate::description::{Causality, Kind, Scalar, ScalarType, UnitDescription, Variability};
use crate::unit::{Unit, count_values, function, is_settable, start_name};
use crate::worker::NEVER;

/// Names of what the importer keeps account with; they are not shown.
const MODE: &str = "@mode";
const NEXT: &str = "@next";
const OVER: &str = "@over";

/// The flat model of a unit that is not run: all names with their attributes, no equations.
#[must_use]
pub fn described(description: &UnitDescription, values: &[(String, f64)]) -> FlatDae {
    let mut builder = Builder::new(description);
    builder.declare(values, Kind::CoSimulation);
    builder.flat
}

/// The flat model of a unit. An instance is made, to see how it starts.
///
/// # Errors
/// When the unit cannot be started.
pub fn flat_model(unit: &Arc<Unit>, values: &[(String, f64)]) -> Result<FlatDae, ForeignFailure> {
    let description = unit.description();
    let mut builder = Builder::new(description);
    builder.declare(values, unit.kind());
    builder.declare_starts(unit);
    if unit.kind() == Kind::CoSimulation {
        builder.rest();
        return Ok(builder.flat);
    }
    let mut parameters = unit.default_parameters();
    for (parameter, own) in parameters.iter_mut().zip(unit.parameter_names()) {
        if let Some((_, value)) = values.iter().rev().find(|(name, _)| name == own) {
            *parameter = *value;
        }
    }
    let time = description.experiment.start.unwrap_or(0.0);
    let begun = unit.start(time, &unit.default_inputs(), &parameters)?;
    let has_discrete_inputs = (0..unit.inputs.len()).any(|at| unit.is_discrete_input(at));
    let is_smooth = description.n_indicators == 0 && !has_discrete_inputs && begun[1] >= NEVER && begun[2] == 0.0;
    let is_smooth = *unit.is_smooth.get_or_init(|| is_smooth);
    let mode = if is_smooth { 0.0 } else { begun[0] };
    unit.look_around(&[&[time, mode], &begun[3..], &unit.default_inputs(), &parameters].concat());
    builder.equations(unit, is_smooth, &begun[3..]);
    Ok(builder.flat)
}

struct Builder<'d> {
    description: &'d UnitDescription,
    flat: FlatDae,
    /// The variable of each scalar that has one.
    of_scalar: Vec<Option<VarId>>,
}

/// Arguments of the functions of a unit.
struct Calls {
    unit: Arc<dyn ForeignUnit>,
    /// `time, mode, states, inputs, parameters`
    point: Vec<ExprId>,
}

impl Calls {
    fn call(&self, graph: &mut Graph, which: u32, name: &'static str, n_outputs: usize, output: usize) -> ExprId {
        self.call_at(graph, which, name, n_outputs, output, &self.point)
    }

    fn call_at(
        &self,
        graph: &mut Graph,
        which: u32,
        name: &'static str,
        n_outputs: usize,
        output: usize,
        arguments: &[ExprId],
    ) -> ExprId {
        let foreign =
            Foreign { unit: self.unit.clone(), function: which, name, n_inputs: arguments.len(), n_outputs, order: 0 };
        graph.call_intrinsic(&Intrinsic::Foreign(foreign), output as u16, arguments)
    }
}

fn number(graph: &mut Graph, value: Option<f64>) -> Option<ExprId> {
    value.filter(|value| value.is_finite()).map(|value| graph.number(value))
}

fn value_type(scalar: &Scalar) -> ValueType {
    match scalar.block.scalar_type {
        ScalarType::Float64 | ScalarType::Float32 => ValueType::Real,
        ScalarType::Boolean => ValueType::Boolean,
        ScalarType::String | ScalarType::Binary | ScalarType::Clock => ValueType::String,
        ScalarType::Enumeration => match &scalar.literals {
            Some(literals) => ValueType::Enumeration(Arc::new(Enumeration {
                name: literals.name.clone(),
                literals: literals.names.clone(),
            })),
            None => ValueType::Integer,
        },
        _ => ValueType::Integer,
    }
}

impl<'d> Builder<'d> {
    fn new(description: &'d UnitDescription) -> Self {
        let experiment = &description.experiment;
        let span = experiment.stop.map(|stop| stop - experiment.start.unwrap_or(0.0));
        let flat = FlatDae {
            model: description.name.clone(),
            description: description.description.as_deref().map(Arc::from),
            graph: Graph::default(),
            variables: Shared::default(),
            equations: Vec::new(),
            initial_equations: Vec::new(),
            when_clauses: Vec::new(),
            assertions: Vec::new(),
            experiment: Experiment {
                start: experiment.start,
                stop: experiment.stop,
                interval: experiment.step.filter(|step| span.is_none_or(|span| span / step < 1e6)),
                tolerance: experiment.tolerance,
            },
            findings: Vec::new(),
            sources: Arc::new(SourceMap::default()),
        };
        Self { description, flat, of_scalar: vec![None; description.scalars.len()] }
    }

    /// Makes the variables. Where derivatives of states are taken, they are columns of every table, and the variables
    /// of the unit that stand for them are left out, or hidden if they are states themselves. Of a unit that this program
    /// wrote, what only the interface needs is left out too: event indicators, and derivatives of states that are
    /// derivatives, which the model has under other names.
    fn declare(&mut self, values: &[(String, f64)], kind_of_unit: Kind) {
        let is_derivative: FxHashMap<usize, usize> =
            self.description.states.iter().map(|state| (state.derivative.scalar, state.state)).collect();
        for (at, scalar) in self.description.scalars.iter().enumerate() {
            let of = is_derivative.get(&at).map(|&state| &self.description.scalars[state].name);
            let is_column =
                kind_of_unit == Kind::ModelExchange && of.is_some_and(|of| scalar.name == format!("der({of})"));
            let is_state = self.description.states.iter().any(|state| state.state == at);
            let is_of_interface = self.description.is_own()
                && scalar.causality == Causality::Local
                && (self.description.indicators.contains(&at)
                    || of.is_some_and(|of| of.starts_with("der(")) && !is_state);
            let is_shown = (!is_column || is_state) && !is_of_interface;
            let Some(kind) = kind(scalar).filter(|_| is_shown) else { continue };
            let value = values.iter().rev().find(|(name, _)| *name == scalar.name).map(|(_, value)| *value);
            let mut variable = self.variable(scalar, kind, value);
            if is_column {
                variable.name.insert(0, '@');
            }
            self.of_scalar[at] = Some(VarId(self.flat.variables.len() as u32));
            self.flat.variables.push(variable);
        }
    }

    /// Makes a parameter of every start value that is given.
    fn declare_starts(&mut self, unit: &Unit) {
        let set = unit.parameter_names().zip(&unit.parameters).filter(|(name, _)| name.starts_with('@'));
        let set = set.map(|(name, &at)| (name.to_owned(), at));
        let imposed = unit.imposed.iter().map(|&at| (start_name(&self.description.scalars[at].name), at));
        for (name, at) in set.chain(imposed).collect::<Vec<_>>() {
            let binding = number(&mut self.flat.graph, self.description.scalars[at].start);
            let variable = Variable::new(name, VariableKind::Parameter, Span::NONE);
            self.flat.variables.push(Variable { binding, is_protected: true, ..variable });
        }
    }

    fn variable(&mut self, scalar: &Scalar, kind: VariableKind, value: Option<f64>) -> Variable {
        let graph = &mut self.flat.graph;
        let is_constant = matches!(kind, VariableKind::Parameter | VariableKind::Constant);
        let is_settable = is_settable(scalar);
        let own = if is_settable { value.or(scalar.start) } else { scalar.start };
        Variable {
            description: scalar.description.as_deref().map(Arc::from),
            // Values of unknowns are numbers, whatever their type; parameters are checked against theirs.
            value_type: if kind == VariableKind::Continuous { ValueType::Real } else { value_type(scalar) },
            is_output: scalar.causality == Causality::Output,
            is_final: is_constant && !is_settable,
            binding: if is_constant { number(graph, own) } else { None },
            text: scalar.text.clone(),
            start: if is_constant { None } else { number(graph, scalar.start) },
            // What a description says is a guess that nobody made for this run.
            is_start_of_type: true,
            min: number(graph, scalar.min),
            max: number(graph, scalar.max),
            nominal: number(graph, scalar.nominal.filter(|nominal| *nominal != 0.0).map(f64::abs)),
            unit: scalar.unit.as_deref().map(PhysicalUnit::parse),
            display_unit: scalar.display_unit.as_deref().map(Arc::from),
            ..Variable::new(scalar.name.clone(), kind, Span::NONE)
        }
    }

    fn leaf(&mut self, scalar: usize) -> ExprId {
        match self.of_scalar[scalar] {
            Some(var) => self.flat.graph.var(var),
            None => self.flat.graph.number(0.0),
        }
    }

    fn equation(&mut self, lhs: ExprId, rhs: ExprId) {
        self.flat.equations.push(plain(lhs, rhs));
    }

    fn discrete(&mut self, name: &str, start: f64) -> VarId {
        let start = self.flat.graph.number(start);
        let var = VarId(self.flat.variables.len() as u32);
        let variable = Variable {
            start: Some(start),
            is_protected: true,
            ..Variable::new(name, VariableKind::Discrete, Span::NONE)
        };
        self.flat.variables.push(variable);
        var
    }

    /// Makes the equations.
    fn equations(&mut self, unit: &Arc<Unit>, is_smooth: bool, begun: &[f64]) {
        let description = self.description;
        let accounts = (!is_smooth)
            .then(|| [(MODE, 0.0), (NEXT, NEVER), (OVER, 0.0)].map(|(name, start)| self.discrete(name, start)));
        let time = self.flat.graph.leaf(Leaf::Time);
        let mode = match accounts {
            Some([mode, ..]) => self.flat.graph.var(mode),
            None => self.flat.graph.number(0.0),
        };
        let states: Vec<usize> = description.states.iter().map(|state| state.state).collect();
        let mut point = vec![time, mode];
        for scalar in [states.as_slice(), &unit.inputs].concat() {
            let leaf = self.leaf(scalar);
            point.push(leaf);
        }
        for (name, &scalar) in unit.parameter_names().zip(&unit.parameters) {
            // The start of an unknown is a parameter of its own.
            let leaf = match self.flat.find(name).filter(|_| name.starts_with('@')) {
                Some(var) => self.flat.graph.var(var),
                None => self.leaf(scalar),
            };
            point.push(leaf);
        }
        let shared: Arc<dyn ForeignUnit> = unit.clone();
        let calls = Calls { unit: shared, point };
        debug_assert_eq!(calls.point.len(), unit.arguments.count());
        let n_states = states.len();
        for (at, &state) in states.iter().enumerate() {
            let Some(var) = self.of_scalar[state] else { continue };
            let lhs = self.flat.graph.der(var, 1);
            let rhs = calls.call(&mut self.flat.graph, function::DERIVATIVES, "derivative", n_states, at);
            self.equation(lhs, rhs);
        }
        self.values(unit, &calls);
        self.starts(unit, &calls, accounts, begun);
        if let Some(accounts) = accounts {
            self.events(unit, &calls, accounts);
        }
    }

    /// Stands for the variables of a unit that integrates itself, until what it gives takes their places.
    fn rest(&mut self) {
        let zero = self.flat.graph.number(0.0);
        for at in 0..self.flat.variables.len() as u32 {
            let variable = &mut self.flat.variables[at as usize];
            if variable.kind == VariableKind::Continuous {
                variable.start = None;
                let lhs = self.flat.graph.var(VarId(at));
                self.flat.equations.push(plain(lhs, zero));
            }
        }
    }

    /// Everything that is read.
    fn values(&mut self, unit: &Unit, calls: &Calls) {
        let description = self.description;
        // Another name of a state, an input or a derivative need not be read.
        let mut known: FxHashMap<(u32, u32), ExprId> = FxHashMap::default();
        let place = |scalar: usize| (description.scalars[scalar].block.reference, description.scalars[scalar].offset);
        let is_real = |scalar: usize| description.scalars[scalar].block.scalar_type == ScalarType::Float64;
        for state in &description.states {
            if let (Some(var), true) = (self.of_scalar[state.state], is_real(state.state)) {
                known.insert(place(state.state), self.flat.graph.var(var));
                known.insert(place(state.derivative.scalar), self.flat.graph.der(var, 1));
            }
        }
        let n_values = count_values(unit);
        for (output, &scalar) in unit.values.iter().enumerate() {
            let Some(var) = self.of_scalar[scalar] else { continue };
            if description.states.iter().any(|state| state.state == scalar) {
                continue;
            }
            let lhs = self.flat.graph.var(var);
            let alias = known.get(&place(scalar)).copied().filter(|_| is_real(scalar));
            let rhs = match alias {
                Some(alias) => alias,
                None => calls.call(&mut self.flat.graph, function::VALUES, "value", n_values, output),
            };
            if alias.is_none() && is_real(scalar) {
                known.insert(place(scalar), lhs);
            }
            self.equation(lhs, rhs);
        }
    }

    /// What holds at the start: what the unit itself makes of its parameters and inputs.
    fn starts(&mut self, unit: &Unit, calls: &Calls, accounts: Option<[VarId; 3]>, begun: &[f64]) {
        let states: Vec<usize> = self.description.states.iter().map(|state| state.state).collect();
        let n_states = states.len();
        let arguments: Vec<ExprId> = calls
            .point
            .iter()
            .copied()
            .enumerate()
            .filter(|(at, _)| *at == 0 || *at >= 2 + n_states)
            .map(|(_, argument)| argument)
            .collect();
        let n_facts = 3 + n_states;
        let call =
            |graph: &mut Graph, at: usize| calls.call_at(graph, function::START, "start", n_facts, at, &arguments);
        let mut facts: Vec<ExprId> = (0..n_facts).map(|at| call(&mut self.flat.graph, at)).collect();
        let mut has_imposed = false;
        for (at, &state) in states.iter().enumerate().filter(|(_, state)| unit.imposed.contains(state)) {
            let name = start_name(&self.description.scalars[state].name);
            if let Some(var) = self.flat.find(&name) {
                facts[3 + at] = self.flat.graph.var(var);
                has_imposed = true;
            }
        }
        if has_imposed && accounts.is_some() {
            // The relations of the unit are those at the states that are given.
            let mut point = calls.point.clone();
            point[1] = facts[0];
            point[2..2 + n_states].copy_from_slice(&facts[3..]);
            let graph = &mut self.flat.graph;
            let call = |at: usize| calls.call_at(graph, function::EVENT, "event", n_facts, at, &point);
            facts = (0..n_facts).map(call).collect();
        }
        for (at, state) in self.description.states.iter().enumerate() {
            let Some(var) = self.of_scalar[state.state] else { continue };
            let guess = number(&mut self.flat.graph, Some(begun[at]));
            self.flat.variables[var.index()].start = guess;
            let lhs = self.flat.graph.var(var);
            self.flat.initial_equations.push(plain(lhs, facts[3 + at]));
        }
        for (at, var) in accounts.into_iter().flatten().enumerate() {
            let lhs = self.flat.graph.var(var);
            self.flat.initial_equations.push(plain(lhs, facts[at]));
        }
    }

    /// What happens at events.
    fn events(&mut self, unit: &Unit, calls: &Calls, accounts: [VarId; 3]) {
        let [mode, next, over] = accounts;
        let graph = &mut self.flat.graph;
        let (time, zero) = (calls.point[0], graph.number(0.0));
        let mut point = calls.point.clone();
        point[1] = graph.pre(mode);
        let mut conditions = Vec::new();
        for at in 0..self.description.n_indicators {
            let n = self.description.n_indicators;
            let indicator = calls.call_at(graph, function::INDICATORS, "event indicator", n, at, &point);
            let is_inside = graph.greater(indicator, zero);
            conditions.push(graph.not(is_inside));
        }
        let due = graph.pre(next);
        conditions.push(graph.greater_equal(time, due));
        for at in (0..unit.inputs.len()).filter(|&at| unit.is_discrete_input(at)) {
            let Node::Var { var, .. } = graph.node(calls.point[2 + unit.arguments.n_states + at]) else { continue };
            let (now, before) = (graph.var(var), graph.pre(var));
            conditions.push(graph.not_equal(now, before));
        }
        let n_facts = 3 + self.description.states.len();
        let span = Span::NONE;
        let mut actions = Vec::new();
        for (at, variable) in accounts.into_iter().enumerate() {
            let value = calls.call_at(graph, function::EVENT, "event", n_facts, at, &point);
            actions.push(WhenAction::Assign { variable, value, span });
        }
        for (at, state) in self.description.states.iter().enumerate() {
            let Some(variable) = self.of_scalar[state.state] else { continue };
            let value = calls.call_at(graph, function::EVENT, "event", n_facts, 3 + at, &point);
            actions.push(WhenAction::Reinit { variable, value, span });
        }
        self.when(conditions, actions);
        let graph = &mut self.flat.graph;
        let (flag, half) = (graph.var(over), graph.number(0.5));
        let is_over = graph.greater(flag, half);
        let message = "the unit ended the simulation".to_owned();
        self.when(vec![is_over], vec![WhenAction::Terminate { message, span }]);
    }

    fn when(&mut self, conditions: Vec<ExprId>, actions: Vec<WhenAction>) {
        let branches = vec![WhenBranch { conditions, actions }];
        self.flat.when_clauses.push(WhenClause { branches, component: Arc::from(""), span: Span::NONE });
    }
}

fn plain(lhs: ExprId, rhs: ExprId) -> Equation {
    Equation { lhs, rhs, origin: Origin::Equation, component: Arc::from(""), span: Span::NONE }
}

/// What a scalar is in a flat model; `None`: it has no place there.
fn kind(scalar: &Scalar) -> Option<VariableKind> {
    let is_number = scalar.block.scalar_type.is_number();
    match (scalar.causality, scalar.variability) {
        (Causality::Independent, _) => None,
        (_, Variability::Constant) => (scalar.start.is_some() || !is_number).then_some(VariableKind::Parameter),
        (Causality::Parameter | Causality::StructuralParameter, _) => {
            (scalar.start.is_some() || !is_number).then_some(VariableKind::Parameter)
        }
        // Their values follow from those of parameters.
        (Causality::CalculatedParameter, _) | (_, Variability::Fixed | Variability::Tunable) => None,
        (Causality::Input, _) => is_number.then_some(VariableKind::Input),
        _ => is_number.then_some(VariableKind::Continuous),
    }
}
