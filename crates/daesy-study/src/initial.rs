//! `[initial] mode` of a study: which conditions the start of a model satisfies.
//!
//! - `model`: as the model says.
//! - `stationary`: at rest under the first values of the inputs, der(x) = 0 for every x.
//! - `zero`: every variable that has a derivative starts at zero, as far as it is free.
//! - `estimate`: found with the unknowns, see [`unknown_start`](crate::unknown_start) for models that are not linear.
//!
//! With `stationary` and `zero`, start values and initial equations of the model are only guesses; values that the study itself
//! gives are kept, and a variable with such a value need not be at rest.

use std::sync::Arc;

use daesy_graph::flat::{Equation, FlatDae, Origin, VariableKind};
use daesy_graph::{Leaf, Reach, Span, VarId};

use crate::study::{InitialMode, Study};

/// What a start is to be like, apart from values that are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartRule {
    /// At rest: der(x) = 0 for every x.
    Rest,
    /// Every variable that has a derivative starts at zero, as far as it is free.
    Zero,
    /// Next to what the model says.
    Guesses,
}

/// Writes the conditions of a study's `[initial] mode` into the flat model.
pub(crate) fn apply_initial_mode(flat: &mut FlatDae, study: &Study) {
    let rule = match study.initial.mode {
        InitialMode::Stationary => StartRule::Rest,
        InitialMode::Zero => StartRule::Zero,
        _ => return,
    };
    let is_given = |flat: &FlatDae, var: VarId| {
        let name = &flat.variables[var.index()].name;
        study.initial.values.iter().any(|value| value.name == *name)
    };
    apply_rule(flat, rule, &is_given);
}

/// Lets a model start at given values of variables. Its own start values and initial equations become guesses.
pub fn start_at(flat: &mut FlatDae, values: &[(VarId, f64)], rule: StartRule) {
    for &(var, value) in values {
        let start = flat.graph.number(value);
        let variable = &mut flat.variables[var.index()];
        variable.start = Some(start);
        variable.fixed = Some(true);
    }
    apply_rule(flat, rule, &|_, var| values.iter().any(|given| given.0 == var));
}

pub(crate) fn apply_rule(flat: &mut FlatDae, rule: StartRule, is_given: &dyn Fn(&FlatDae, VarId) -> bool) {
    let highest = highest_derivatives(flat);
    let has_free_parameters =
        flat.variables.iter().any(|variable| variable.kind == VariableKind::Parameter && variable.fixed == Some(false));
    if !has_free_parameters {
        let is_discrete = |flat: &FlatDae, equation: &Equation| {
            let (mut reach, mut leaves) = (Reach::new(), Vec::new());
            reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
            !leaves.iter().any(|leaf| match *leaf {
                Leaf::Var { var, .. } => flat.variables[var.index()].kind == VariableKind::Continuous,
                Leaf::Time => false,
            })
        };
        let equations = std::mem::take(&mut flat.initial_equations);
        flat.initial_equations = equations.into_iter().filter(|equation| is_discrete(flat, equation)).collect();
    }
    let zero = flat.graph.number(0.0);
    for var in (0..flat.variables.len() as u32).map(VarId) {
        if flat.variables[var.index()].kind != VariableKind::Continuous || is_given(flat, var) {
            continue;
        }
        flat.variables[var.index()].fixed = None;
        let order = highest[var.index()];
        if rule == StartRule::Zero && order > 0 {
            flat.variables[var.index()].start = Some(zero);
        }
        if rule != StartRule::Rest {
            continue;
        }
        for order in 1..=order {
            let lhs = flat.graph.der(var, order);
            flat.initial_equations.push(Equation {
                lhs,
                rhs: zero,
                origin: Origin::Equation,
                component: Arc::from(""),
                span: Span::NONE,
            });
        }
    }
}

/// The highest derivative of each variable in the equations.
pub(crate) fn highest_derivatives(flat: &FlatDae) -> Vec<u16> {
    let mut highest = vec![0; flat.variables.len()];
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    for equation in &flat.equations {
        reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
        for &leaf in &leaves {
            if let Leaf::Var { var, order } = leaf {
                highest[var.index()] = order.max(highest[var.index()]);
            }
        }
    }
    highest
}
