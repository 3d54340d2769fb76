//! Parameters that follow from ones which the start determines.
//!
//! With `parameter Real p(fixed = false); parameter Real q = 2*p;` the value of q is known when that of p is: at the
//! start, not before. Wherever q is used its expression is put in, so that the equations hold p alone, with exact
//! derivatives by it, and whoever evaluates them needs no second look at q.

use daesy_graph::flat::{FlatDae, VariableKind, WhenAction};
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{ExprId, VarId};

/// Whether the start determines a parameter.
fn is_free(flat: &FlatDae, var: VarId) -> bool {
    let variable = &flat.variables[var.index()];
    variable.kind == VariableKind::Parameter && variable.fixed == Some(false)
}

/// The parameters bound to ones that the start determines, directly or through others, in the order given.
fn bound_to_free(flat: &FlatDae, parameters: &[VarId]) -> Vec<VarId> {
    if !parameters.iter().any(|&var| is_free(flat, var)) {
        return Vec::new();
    }
    let mut follows: Vec<bool> = (0..flat.variables.len() as u32).map(|var| is_free(flat, VarId(var))).collect();
    let mut bound = Vec::new();
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    for &var in parameters.iter().filter(|&&var| !is_free(flat, var)) {
        let Some(binding) = flat.variables[var.index()].binding else { continue };
        reach.leaves(&flat.graph, &[binding], &mut leaves);
        if leaves.iter().any(|leaf| matches!(leaf, Leaf::Var { var, .. } if follows[var.index()])) {
            follows[var.index()] = true;
            bound.push(var);
        }
    }
    bound
}

/// Puts the expressions of parameters that follow from the start in their places, and gives these parameters. Their own
/// bindings stay as they were.
pub(crate) fn put_in_bound_parameters(flat: &mut FlatDae, parameters: &[VarId]) -> Vec<VarId> {
    let bound = bound_to_free(flat, parameters);
    if bound.is_empty() {
        return bound;
    }
    let mut substitution = Substitution::new();
    for &var in &bound {
        let Some(binding) = flat.variables[var.index()].binding else { continue };
        let value = substitution.apply(&mut flat.graph, binding);
        substitution.replace_leaf(&mut flat.graph, Leaf::var(var), value);
    }
    let graph = &mut flat.graph;
    let mut put_in = |expr: &mut ExprId| *expr = substitution.apply(graph, *expr);
    for equation in flat.equations.iter_mut().chain(&mut flat.initial_equations) {
        put_in(&mut equation.lhs);
        put_in(&mut equation.rhs);
    }
    for variable in &mut flat.variables {
        let attributes = [&mut variable.start, &mut variable.min, &mut variable.max, &mut variable.nominal];
        attributes.into_iter().flatten().for_each(&mut put_in);
    }
    for branch in flat.when_clauses.iter_mut().flat_map(|clause| &mut clause.branches) {
        branch.conditions.iter_mut().for_each(&mut put_in);
        for action in &mut branch.actions {
            match action {
                WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => put_in(value),
                WhenAction::Assert(assertion) => put_in(&mut assertion.condition),
                WhenAction::Terminate { .. } => {}
            }
        }
    }
    for assertion in &mut flat.assertions {
        put_in(&mut assertion.condition);
    }
    bound
}
