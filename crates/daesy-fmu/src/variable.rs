//! The variables of a unit: what the outside may read and set.
//!
//! The list is a function of the compiled model alone, so that the description that is written at export and the
//! library that runs later agree: a value reference is a position in it.

use std::sync::Arc;

use daesy_compile::CompiledSystem;
pub use daesy_graph::flat::ValueType;
use daesy_graph::flat::{Enumeration, Variable, VariableKind};
use daesy_graph::{Evaluator, ExprId, VarId};
use daesy_system::{DaeSystem, Rate};
use rustc_hash::FxHashMap;

/// A parameter with this name holds the start value of the variable inside.
pub const START: &str = "start(";

/// Where the value of a variable comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The time.
    Time,
    /// A position among the observed quantities.
    Observed(u32),
    /// A state.
    State(u32),
    /// An unknown.
    Unknown(u32),
    /// A parameter.
    Parameter(u32),
    /// A position among the inputs.
    Input(u32),
    /// An event function.
    Indicator(u32),
    /// A text.
    Text,
}

/// What a variable is to the outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Causality {
    /// The time.
    Independent,
    /// May be set, changes between steps only.
    Parameter,
    /// Follows from parameters.
    CalculatedParameter,
    /// Set from outside.
    Input,
    /// Meant for the outside.
    Output,
    /// Everything else.
    Local,
}

/// When a variable changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variability {
    /// Never.
    Constant,
    /// Never after the start.
    Fixed,
    /// At events, from outside.
    Tunable,
    /// At events.
    Discrete,
    /// Always.
    Continuous,
}

/// What the value at the start is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtStart {
    /// The one given.
    Exact,
    /// A guess.
    Approximate,
    /// What follows from others.
    Calculated,
}

/// A variable.
#[derive(Clone, PartialEq, Debug)]
pub struct ExportedVariable {
    /// Its name; the k-th derivative is `der(x)` or `der(x,k)`.
    pub name: String,
    /// The comment of its declaration.
    pub description: Option<Arc<str>>,
    /// The type of its values.
    pub value_type: ValueType,
    /// Where its value comes from.
    pub origin: Origin,
    /// What it is to the outside.
    pub causality: Causality,
    /// When it changes.
    pub variability: Variability,
    /// What its value at the start is; none for the time.
    pub at_start: Option<AtStart>,
    /// The start value, where one can be given.
    pub start: Option<f64>,
    /// The value of a text.
    pub text: Option<Arc<str>>,
    /// The parameter that holds its start value.
    pub start_parameter: Option<u32>,
    /// Unit, as written.
    pub unit: Option<Arc<str>>,
    /// Unit for display, as written.
    pub display_unit: Option<Arc<str>>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Typical size.
    pub nominal: Option<f64>,
    /// The variable that it is the derivative of.
    pub derivative_of: Option<usize>,
}

impl ExportedVariable {
    /// A variable of which nothing but a name is known.
    pub(crate) fn plain(name: String, origin: Origin) -> Self {
        Self {
            name,
            description: None,
            value_type: ValueType::Real,
            origin,
            causality: Causality::Local,
            variability: Variability::Continuous,
            at_start: Some(AtStart::Calculated),
            start: None,
            text: None,
            start_parameter: None,
            unit: None,
            display_unit: None,
            min: None,
            max: None,
            nominal: None,
            derivative_of: None,
        }
    }

    /// The time.
    pub(crate) fn time(name: &str) -> Self {
        Self {
            description: Some("Time".into()),
            unit: Some("s".into()),
            causality: Causality::Independent,
            at_start: None,
            ..Self::plain(name.to_owned(), Origin::Time)
        }
    }
}

/// The name of a derivative.
#[must_use]
pub fn derivative_name(name: &str, order: u16) -> String {
    match order {
        0 => name.to_owned(),
        1 => format!("der({name})"),
        _ => format!("der({name},{order})"),
    }
}

struct Lister<'s> {
    system: &'s CompiledSystem,
    parameters: Vec<f64>,
    place_of_parameter: FxHashMap<VarId, u32>,
    /// By name of a variable: the parameter that holds its start value.
    start_parameters: FxHashMap<&'s str, u32>,
    list: Vec<ExportedVariable>,
    by_name: FxHashMap<String, usize>,
}

/// All variables of a model.
#[must_use]
pub fn exported_variables(system: &CompiledSystem) -> Vec<ExportedVariable> {
    let regular = system.regular();
    let variables = &regular.flat.variables;
    let mut lister = Lister {
        system,
        // Parameters were evaluated when the system was compiled.
        parameters: system.parameter_values(&[]).unwrap_or_else(|_| vec![0.0; regular.parameters.len()]),
        place_of_parameter: regular.parameters.iter().copied().zip(0..).collect(),
        start_parameters: FxHashMap::default(),
        list: Vec::new(),
        by_name: FxHashMap::default(),
    };
    for (&var, at) in regular.parameters.iter().zip(0..) {
        let name = variables[var.index()].name.strip_prefix(START).and_then(|rest| rest.strip_suffix(')'));
        if let Some(name) = name {
            lister.start_parameters.insert(name, at);
        }
    }
    lister.list_time();
    lister.list_variables();
    lister.list_states();
    lister.list_indicators();
    lister.list
}

impl Lister<'_> {
    fn push(&mut self, variable: ExportedVariable) -> usize {
        let at = self.list.len();
        self.by_name.insert(variable.name.clone(), at);
        self.list.push(variable);
        at
    }

    fn list_time(&mut self) {
        let is_taken = self.system.regular().flat.variables.iter().any(|variable| variable.name == "time");
        self.push(ExportedVariable::time(if is_taken { "independent_time" } else { "time" }));
    }

    /// The value of an attribute at the values of the parameters.
    fn number(&self, expr: Option<ExprId>) -> Option<f64> {
        let value =
            |var: VarId, _: u16| self.place_of_parameter.get(&var).map_or(f64::NAN, |&at| self.parameters[at as usize]);
        let value = Evaluator::new().evaluate_one(&self.system.regular().flat.graph, expr?, &value);
        value.is_finite().then_some(value)
    }

    /// A variable of the flat model as it was declared.
    fn declared(&self, variable: &Variable, origin: Origin) -> ExportedVariable {
        let is_real = variable.value_type == ValueType::Real;
        let has_bounds = is_real || variable.value_type == ValueType::Integer;
        ExportedVariable {
            description: variable.description.clone(),
            value_type: variable.value_type.clone(),
            variability: if is_real && variable.kind != VariableKind::Discrete {
                Variability::Continuous
            } else {
                Variability::Discrete
            },
            unit: variable.unit.as_ref().filter(|unit| is_real && !unit.text.is_empty()).map(|unit| unit.text.clone()),
            display_unit: variable.display_unit.clone().filter(|text| is_real && !text.is_empty()),
            min: self.number(variable.min).filter(|_| has_bounds),
            max: self.number(variable.max).filter(|_| has_bounds),
            nominal: self.number(variable.nominal).map(f64::abs).filter(|nominal| is_real && *nominal > 0.0),
            ..ExportedVariable::plain(variable.name.clone(), origin)
        }
    }

    fn list_variables(&mut self) {
        let system = self.system;
        let flat = &system.regular().flat;
        let observed: FxHashMap<&str, u32> =
            system.description().observed.iter().map(String::as_str).zip(0..).collect();
        for var in (0..flat.variables.len() as u32).map(VarId) {
            let variable = &flat.variables[var.index()];
            if variable.name.starts_with(START) {
                continue;
            }
            match variable.kind {
                _ if variable.value_type == ValueType::String => {
                    let mut listed = self.declared(variable, Origin::Text);
                    listed.variability = Variability::Constant;
                    listed.at_start = Some(AtStart::Exact);
                    listed.text = Some(variable.text.clone().unwrap_or_default());
                    self.push(listed);
                }
                VariableKind::Parameter | VariableKind::Constant => self.list_parameter(var, variable),
                VariableKind::Input => self.list_input(variable),
                VariableKind::Continuous | VariableKind::Discrete => {
                    let Some(&at) = observed.get(variable.name.as_str()) else { continue };
                    let mut listed = self.declared(variable, Origin::Observed(at));
                    if variable.is_output {
                        listed.causality = Causality::Output;
                    }
                    if let Some(&parameter) = self.start_parameters.get(variable.name.as_str()) {
                        let is_exact = variable.fixed == Some(true);
                        listed.at_start = Some(if is_exact { AtStart::Exact } else { AtStart::Approximate });
                        listed.start_parameter = Some(parameter);
                        listed.start = Some(self.parameters[parameter as usize]);
                    }
                    self.push(listed);
                }
            }
        }
        for (name, at) in system.description().observed.iter().zip(0..) {
            if !self.by_name.contains_key(name) {
                let of = name.strip_prefix("der(").and_then(|rest| rest.strip_suffix(')'));
                let of = of.and_then(|name| flat.find(name)).map(|var| &flat.variables[var.index()]);
                let mut listed = ExportedVariable::plain(name.clone(), Origin::Observed(at));
                listed.unit = of.and_then(|of| of.unit.as_ref()).and_then(|unit| rate_unit(&unit.text));
                self.push(listed);
            }
        }
    }

    fn list_parameter(&mut self, var: VarId, variable: &Variable) {
        let regular = self.system.regular();
        let Some(&at) = self.place_of_parameter.get(&var) else { return };
        let mut listed = self.declared(variable, Origin::Parameter(at));
        let value = self.parameters[at as usize];
        let is_number = |expr: ExprId| regular.flat.graph.as_number(expr).is_some();
        let is_literal = variable.binding.or(variable.start).is_none_or(is_number);
        let is_late = variable.fixed == Some(false) || regular.bound.contains(&var);
        let is_closed = variable.kind == VariableKind::Constant || variable.is_structural || variable.is_final;
        if is_late {
            listed.causality = Causality::CalculatedParameter;
            listed.variability = Variability::Tunable;
        } else if is_literal && !is_closed {
            listed.causality = Causality::Parameter;
            listed.variability = Variability::Tunable;
            (listed.at_start, listed.start) = (Some(AtStart::Exact), Some(value));
        } else if is_literal || variable.kind == VariableKind::Constant || variable.is_structural {
            listed.variability = Variability::Constant;
            (listed.at_start, listed.start) = (Some(AtStart::Exact), Some(value));
        } else {
            listed.causality = Causality::CalculatedParameter;
            listed.variability = Variability::Tunable;
        }
        self.push(listed);
    }

    /// An input, and the derivatives of it that the model needs, as inputs of their own.
    fn list_input(&mut self, variable: &Variable) {
        let inputs = &self.system.description().inputs;
        let Some(input) = inputs.iter().find(|input| input.name == variable.name) else { return };
        let first = if matches!(variable.value_type, ValueType::Enumeration(_)) { 1.0 } else { 0.0 };
        for order in 0..=input.derivatives_needed {
            let place = input.start as u32 + u32::from(order);
            let mut listed = if order == 0 {
                self.declared(variable, Origin::Input(place))
            } else {
                ExportedVariable::plain(derivative_name(&variable.name, order), Origin::Input(place))
            };
            listed.causality = Causality::Input;
            listed.at_start = Some(AtStart::Exact);
            listed.start = Some(if order == 0 { self.number(variable.start).unwrap_or(first) } else { 0.0 });
            self.push(listed);
        }
    }

    /// Names states and their rates where they have no variable of their own yet.
    fn list_states(&mut self) {
        let system = self.system;
        let regular = system.regular();
        let description = system.description();
        let name = |derivative: &daesy_graph::regular::Derivative| {
            derivative_name(&regular.flat.variables[derivative.var.index()].name, derivative.order)
        };
        for ((derivative, quantity), at) in regular.states.iter().zip(&description.states).zip(0..) {
            let place = self.place_of(name(derivative), Origin::State(at));
            self.list[place].origin = Origin::State(at);
            self.list[place].nominal = Some(quantity.nominal);
        }
        for (at, derivative) in regular.states.iter().enumerate() {
            let state = self.by_name[&name(derivative)];
            let rate = match description.rates[at] {
                Rate::State(next) => self.by_name[&name(&regular.states[next as usize])],
                Rate::Unknown(unknown) => {
                    let of_rate = name(&regular.unknowns[unknown as usize]);
                    self.place_of(of_rate, Origin::Unknown(unknown))
                }
            };
            self.list[rate].derivative_of = Some(state);
            if self.list[rate].unit.is_none() {
                self.list[rate].unit = self.list[state].unit.as_deref().and_then(rate_unit);
            }
        }
    }

    fn place_of(&mut self, name: String, origin: Origin) -> usize {
        match self.by_name.get(&name) {
            Some(&at) => at,
            None => self.push(ExportedVariable::plain(name, origin)),
        }
    }

    fn list_indicators(&mut self) {
        let n = self.system.description().n_roots;
        let mut stem = "event_indicator".to_owned();
        while self.by_name.keys().any(|name| name.starts_with(&stem)) {
            stem.push('_');
        }
        for at in 0..n {
            let mut listed = ExportedVariable::plain(format!("{stem}[{}]", at + 1), Origin::Indicator(at as u32));
            let root = &self.system.description().events.roots[at];
            let relation = &self.system.description().events.held[root.held as usize].text;
            listed.description = Some(format!("changes sign where {relation} changes").into());
            self.push(listed);
        }
    }
}

/// The unit of a rate.
fn rate_unit(unit: &str) -> Option<Arc<str>> {
    let text = match unit {
        "" => return None,
        "1" => "1/s".to_owned(),
        "s" => "1".to_owned(),
        _ if unit.contains('/') => match unit.split_once('/') {
            Some((top, bottom)) if !bottom.contains(['/', '(', '.']) => format!("{top}/({bottom}.s)"),
            _ => return None,
        },
        _ => format!("{unit}/s"),
    };
    Some(text.into())
}

/// The enumerations that variables use, in order, each once.
#[must_use]
pub fn enumerations(variables: &[ExportedVariable]) -> Vec<Arc<Enumeration>> {
    let mut all: Vec<Arc<Enumeration>> = Vec::new();
    for variable in variables {
        if let ValueType::Enumeration(one) = &variable.value_type
            && !all.iter().any(|known| known == one)
        {
            all.push(one.clone());
        }
    }
    all
}
