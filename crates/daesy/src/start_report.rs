//! Where the values at the start of a simulation come from: insisted on, guessed and kept, or computed.

use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::{Evaluator, Node, UnaryOp, VarId};
use serde_json::{Map, Value, json};

use crate::prepare::Prepared;

/// A variable with its value at the start.
#[derive(Clone, PartialEq, Debug)]
pub struct StartValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// All variables at the start by where their values come from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StartReport {
    /// `fixed = true`, or given by the study.
    pub fixed: Vec<StartValue>,
    /// Guesses (a `start`, or zero for a state) that could be kept.
    pub guessed: Vec<StartValue>,
    /// Everything that followed from the equations.
    pub derived: Vec<StartValue>,
}

/// Whether a variable is a state, under its own name or as the derivative that it was defined to be.
fn is_state(regular: &RegularDae, var: VarId) -> bool {
    let is_state = |var: VarId, order: u16| regular.states.iter().any(|state| state.var == var && state.order == order);
    let graph = &regular.flat.graph;
    let eliminated = regular.eliminated.iter().find(|eliminated| eliminated.var == var);
    match eliminated.map(|eliminated| graph.node(eliminated.value)) {
        None => is_state(var, 0),
        Some(Node::Var { var, order: order @ 1.. }) => is_state(var, order),
        Some(Node::Unary { op: UnaryOp::Neg, arg }) => {
            matches!(graph.node(arg), Node::Var { var, order: order @ 1.. } if is_state(var, order))
        }
        Some(_) => false,
    }
}

impl StartReport {
    /// Sorts the values of the first row of a table with the given names.
    #[must_use]
    pub fn new(flat: &FlatDae, prepared: &Prepared, names: &[String], row: &[f64]) -> Self {
        let regular = prepared.system.regular();
        let parameters = &regular.parameters;
        let mut by_variable = vec![0.0; flat.variables.len()];
        for (&var, &value) in parameters.iter().zip(&prepared.parameters) {
            if let Some(place) = by_variable.get_mut(var.index()) {
                *place = value;
            }
        }
        let environment = |var: VarId, _: u16| by_variable.get(var.index()).copied().unwrap_or(0.0);
        let mut evaluator = Evaluator::new();
        let mut report = Self::default();
        let mut values = names.iter().zip(row);
        for (at, variable) in flat.variables.iter().enumerate() {
            if variable.kind != VariableKind::Continuous {
                continue;
            }
            // Both lists are in the order of the flat model.
            let Some((name, &value)) = values.find(|(name, _)| **name == variable.name) else { break };
            let var = VarId(at as u32);
            let is_state = is_state(regular, var);
            let guess = match variable.start {
                Some(start) => Some(evaluator.evaluate_one(&flat.graph, start, &environment)),
                None => is_state.then_some(0.0),
            };
            let is_kept =
                guess.is_some_and(|guess| (guess - value).abs() <= 1e-9 * guess.abs().max(value.abs()).max(1e-6));
            let list = if variable.fixed == Some(true) {
                &mut report.fixed
            } else if is_kept {
                &mut report.guessed
            } else {
                &mut report.derived
            };
            list.push(StartValue { name: name.clone(), value });
        }
        report
    }

    /// The object of the JSON document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let object = |values: &[StartValue]| -> Map<String, Value> {
            values.iter().map(|value| (value.name.clone(), json!(value.value))).collect()
        };
        json!({
            "fixed": object(&self.fixed),
            "guessed": object(&self.guessed),
            "derived": object(&self.derived),
        })
    }

    /// One line for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!(
            "Start: {} fixed, {} guessed and kept, {} derived.\n",
            self.fixed.len(),
            self.guessed.len(),
            self.derived.len()
        )
    }
}
