//! Velocities that a model prefers as states, where a `reinit` may have to hold them.
//!
//! In `v_rel = der(s_rel)`, `s_rel = s_b - s_a` with velocities of their own on both sides nothing makes v_rel a state:
//! it is an unknown that follows from those. Where `stateSelect` prefers it, a `reinit` of one of the velocities is to
//! keep it and to move the other. So in models with a `reinit` the offsets of such variables are raised by one: their
//! equations are differentiated once more and become constraints, v_rel becomes a state, and the solution stays the
//! same. That is left alone where an equation at stake depends on time or inputs or has branches, since its derivative
//! might jump.

use daesy_graph::flat::{FlatDae, StateSelect, VariableKind, WhenAction};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, UnaryOp, VarId};

use crate::alias::{Elimination, Standing};
use crate::offsets::{OffsetsError, SigmaAnalysis, sigma_analysis, sigma_analysis_from};
use crate::regularize::Scope;

/// The structural analysis, with preferred velocities as states where that is needed and does no harm.
pub(crate) fn analysis_with_held_rates(
    flat: &FlatDae,
    residuals: &[ExprId],
    scope: &Scope,
    elimination: &Elimination,
) -> Result<SigmaAnalysis, OffsetsError> {
    let plain = sigma_analysis(&scope.incidence)?;
    let Some(least) = least_orders(flat, scope, elimination) else { return Ok(plain) };
    let Ok(raised) = sigma_analysis_from(&scope.incidence, &least) else { return Ok(plain) };
    let is_harmless = |row: usize| {
        raised.equation_offsets[row] == plain.equation_offsets[row]
            || is_smooth(flat, residuals[scope.equations[row] as usize])
    };
    let is_harmless = (0..scope.equations.len()).all(is_harmless);
    Ok(if is_harmless { raised } else { plain })
}

/// For each column of a scope the order up to which it must be differentiated; None if all are zero.
fn least_orders(flat: &FlatDae, scope: &Scope, elimination: &Elimination) -> Option<Vec<u32>> {
    let mut actions = flat.when_clauses.iter().flat_map(|clause| &clause.branches).flat_map(|branch| &branch.actions);
    if !actions.any(|action| matches!(action, WhenAction::Reinit { .. })) {
        return None;
    }
    let mut least = vec![0; flat.variables.len()];
    for equation in &flat.equations {
        let sides = [equation.lhs, equation.rhs].map(|side| variable(&flat.graph, side));
        let ([Some((var, 0)), Some((_, 1..))] | [Some((_, 1..)), Some((var, 0))]) = sides else { continue };
        if flat.variables[var.index()].state_select < StateSelect::Prefer {
            continue;
        }
        let (of, order) = match elimination.standings[var.index()] {
            Standing::Remains => (var, 0),
            Standing::Alias { of, .. } => (of, 0),
            Standing::Known(value) => match variable(&flat.graph, value) {
                Some(derivative) => derivative,
                None => continue,
            },
        };
        least[of.index()] = least[of.index()].max(u32::from(order) + 1);
    }
    let least: Vec<u32> = scope.variables.iter().map(|var| least[var.index()]).collect();
    least.iter().any(|&order| order > 0).then_some(least)
}

/// The variable and order that an expression is, up to its sign.
fn variable(graph: &Graph, expr: ExprId) -> Option<(VarId, u16)> {
    let node = match graph.node(expr) {
        Node::Unary { op: UnaryOp::Neg, arg } => graph.node(arg),
        node => node,
    };
    match node {
        Node::Var { var, order } => Some((var, order)),
        _ => None,
    }
}

/// Whether an expression is made of unknowns, parameters and numbers by arithmetic alone.
fn is_smooth(flat: &FlatDae, expr: ExprId) -> bool {
    use BinaryOp::{Add, Div, Mul, Sub};
    let mut stack = vec![expr];
    while let Some(expr) = stack.pop() {
        match flat.graph.node(expr) {
            Node::Number(_) => {}
            Node::Var { var, .. } => match flat.variables[var.index()].kind {
                VariableKind::Continuous | VariableKind::Parameter | VariableKind::Constant => {}
                VariableKind::Input | VariableKind::Discrete => return false,
            },
            Node::Unary { op: UnaryOp::Neg, arg } => stack.push(arg),
            Node::Binary { op: Add | Sub | Mul | Div, lhs, rhs } => stack.extend([lhs, rhs]),
            _ => return false,
        }
    }
    true
}
