//! What was written, watched while something else is solved.
//!
//! A rewritten model gets a variable `$residual[i]` for each original equation F_i = 0 whose derivatives it still
//! knows, with
//!
//! ```text
//! $residual[i] = F_i / sum over leaves of |dF_i/dx| (|x| + nominal(x) / 1000)
//! ```
//!
//! where the leaves are the variables and derivatives in F_i: the residual relative to the size of its terms, free of
//! units. A trajectory with relative errors e in its values has residuals of size e. A run at the tolerances rtol and
//! atol is refused if one exceeds 100 (rtol + 1000 atol): values are accurate to a few tolerances, derivatives of a
//! model of index nu to some more, because they are found from values by nu - 1 differentiations. Each of the new
//! variables has an equation of its own, and nothing else depends on them: the solution stays what it is.

use daesy_graph::flat::{Equation, FlatDae, Origin, StateSelect, Variable, VariableKind};
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{Differentiator, ExprId, Graph, Span, UnaryOp, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::ADDED;
use crate::discrete::split_discrete;

/// The names of watched residuals begin so.
const WATCHED: &str = "$residual[";

/// A residual may exceed the tolerance by this factor.
const RESIDUAL_FACTOR: f64 = 100.0;

/// Values below this fraction of their nominal value count as this large.
const SMALL: f64 = 1e-3;

/// The original equation of a watched residual, by its name.
#[must_use]
pub fn watched_equation(name: &str) -> Option<usize> {
    name.strip_prefix(WATCHED)?.strip_suffix(']')?.parse().ok()
}

/// The largest residual that a run at these tolerances may have.
#[must_use]
pub fn allowed_residual(rtol: f64, atol: f64) -> f64 {
    RESIDUAL_FACTOR * (rtol + atol / SMALL).max(1e-9)
}

/// The rewritten model with a variable for the residual of each equation of the original that can be evaluated there.
/// Equations that are still there are solved as they are.
#[must_use]
pub fn watch(new: &FlatDae, original: &FlatDae) -> FlatDae {
    let Ok(split) = split_discrete(original) else { return new.clone() };
    let known = highest_orders(new);
    let mut watched = new.clone();
    let sides = |equation: &Equation| (equation.lhs, equation.rhs);
    let kept: FxHashSet<(ExprId, ExprId)> = new.equations.iter().map(sides).collect();
    let is_watched = |at: usize| split.is_continuous[at] && !kept.contains(&sides(&original.equations[at]));
    for (at, equation) in original.equations.iter().enumerate().filter(|(at, _)| is_watched(*at)) {
        let residual = watched.graph.sub(equation.lhs, equation.rhs);
        let leaves = unknown_leaves(original, &watched.graph, residual);
        let is_known =
            leaves.iter().all(|&(var, order)| order == 0 || known.get(&var).is_some_and(|&top| order <= top));
        if leaves.is_empty() || !is_known {
            continue;
        }
        let rhs = relative(&mut watched, residual, &leaves);
        let var = VarId(watched.variables.len() as u32);
        watched.variables.push(residual_variable(at, equation.span));
        let lhs = watched.graph.var(var);
        let component = equation.component.clone();
        watched.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component, span: equation.span });
    }
    watched
}

/// The highest derivative of each variable that occurs in a model.
fn highest_orders(flat: &FlatDae) -> FxHashMap<VarId, u16> {
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let mut highest = FxHashMap::default();
    for equation in &flat.equations {
        reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
        for &leaf in &leaves {
            if let Leaf::Var { var, order } = leaf {
                let known = highest.entry(var).or_insert(0);
                *known = order.max(*known);
            }
        }
    }
    highest
}

fn unknown_leaves(flat: &FlatDae, graph: &Graph, expr: ExprId) -> Vec<(VarId, u16)> {
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &[expr], &mut leaves);
    let is_unknown = |var: VarId| flat.variables[var.index()].kind == VariableKind::Continuous;
    leaves
        .iter()
        .filter_map(|leaf| match *leaf {
            Leaf::Var { var, order } if is_unknown(var) => Some((var, order)),
            _ => None,
        })
        .collect()
}

/// The residual over the size of its terms.
fn relative(flat: &mut FlatDae, residual: ExprId, leaves: &[(VarId, u16)]) -> ExprId {
    let targets: Vec<Leaf> = leaves.iter().map(|&(var, order)| Leaf::der(var, order)).collect();
    let graph = &mut flat.graph;
    let small = graph.number(SMALL);
    // An equation that says nothing at a point, such as 0 x = 0, is satisfied there.
    let mut terms = vec![graph.number(1e-30)];
    for entry in Differentiator::new(graph, &targets).gradient(graph, residual) {
        let (var, order) = leaves[entry.column as usize];
        let leaf = graph.der(var, order);
        let value = graph.unary(UnaryOp::Abs, leaf);
        let nominal = flat.variables[var.index()].nominal.map(|nominal| graph.unary(UnaryOp::Abs, nominal));
        let nominal = nominal.unwrap_or_else(|| graph.number(1.0));
        let nominal = graph.mul(small, nominal);
        let size = graph.add(value, nominal);
        let slope = graph.unary(UnaryOp::Abs, entry.value);
        terms.push(graph.mul(slope, size));
    }
    let size = graph.sum(&terms);
    let size = graph.no_event(size);
    graph.div(residual, size)
}

fn residual_variable(equation: usize, span: Span) -> Variable {
    debug_assert!(WATCHED.starts_with(ADDED));
    Variable {
        is_protected: true,
        state_select: StateSelect::Never,
        ..Variable::new(format!("{WATCHED}{equation}]"), VariableKind::Continuous, span)
    }
}
