//! Splitting of residuals into what is linear in the unknowns, what is known, and the rest.

use std::collections::HashMap;

use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{BinaryOp, ExprId, Graph, Leaf, LinearExtractor, Node, Reach, UnaryOp, VarId};

/// coefficient times leaf
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinearTerm {
    pub(super) leaf: Leaf,
    pub(super) coefficient: ExprId,
}

/// factor, which is known, times an expression that is not linear in the unknowns
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NonlinearTerm {
    pub(super) factor: ExprId,
    pub(super) expr: ExprId,
}

/// A residual as a sum.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SplitEquation {
    pub(super) linear: Vec<LinearTerm>,
    pub(super) remainders: Vec<ExprId>,
    pub(super) nonlinear: Vec<NonlinearTerm>,
}

/// Splits a residual: sums are taken apart until every part is linear, known or neither.
pub(super) fn split_residual(
    graph: &mut Graph,
    extractor: &mut LinearExtractor,
    leaves: &[Leaf],
    residual: ExprId,
) -> SplitEquation {
    let mut split = SplitEquation::default();
    let one = graph.number(1.0);
    let mut stack = vec![(residual, one)];
    while let Some((expr, factor)) = stack.pop() {
        if !extractor.depends(graph, expr) {
            let product = graph.mul(factor, expr);
            if graph.as_number(product) != Some(0.0) {
                split.remainders.push(product);
            }
            continue;
        }
        if let Ok(form) = extractor.extract(graph, expr) {
            for entry in form.coefficients {
                let leaf = leaves[entry.column as usize];
                split.linear.push(LinearTerm { leaf, coefficient: graph.mul(factor, entry.value) });
            }
            let remainder = graph.mul(factor, form.remainder);
            if graph.as_number(remainder) != Some(0.0) {
                split.remainders.push(remainder);
            }
            continue;
        }
        match graph.node(expr) {
            Node::Unary { op: UnaryOp::Neg, arg } => {
                let factor = graph.neg(factor);
                stack.push((arg, factor));
            }
            Node::Binary { op: BinaryOp::Add, lhs, rhs } => {
                stack.push((lhs, factor));
                stack.push((rhs, factor));
            }
            Node::Binary { op: BinaryOp::Sub, lhs, rhs } => {
                stack.push((lhs, factor));
                let negated = graph.neg(factor);
                stack.push((rhs, negated));
            }
            Node::Binary { op: BinaryOp::Mul, lhs, rhs } if !extractor.depends(graph, lhs) => {
                let factor = graph.mul(factor, lhs);
                stack.push((rhs, factor));
            }
            Node::Binary { op: BinaryOp::Mul, lhs, rhs } if !extractor.depends(graph, rhs) => {
                let factor = graph.mul(factor, rhs);
                stack.push((lhs, factor));
            }
            Node::Binary { op: BinaryOp::Div, lhs, rhs } if !extractor.depends(graph, rhs) => {
                let factor = graph.div(factor, rhs);
                stack.push((lhs, factor));
            }
            _ => split.nonlinear.push(NonlinearTerm { factor, expr }),
        }
    }
    split
}

/// A known function of time and parameters, and the equation that gives it: there the variable stays, or nothing would
/// determine it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KnownVariable {
    pub(super) value: ExprId,
    pub(super) row: usize,
}

/// Variables that an equation gives as functions of time and parameters alone, such as a resistance at a fixed
/// temperature, one after the other.
pub(super) fn known_variables(
    graph: &mut Graph,
    flat: &FlatDae,
    residuals: &[ExprId],
    reach: &mut Reach,
) -> HashMap<VarId, KnownVariable> {
    let mut unknowns_of: Vec<Vec<VarId>> = Vec::with_capacity(residuals.len());
    let mut equations_of: HashMap<VarId, Vec<usize>> = HashMap::new();
    let mut leaves = Vec::new();
    for (row, &residual) in residuals.iter().enumerate() {
        reach.leaves(graph, &[residual], &mut leaves);
        let mut unknowns = Vec::new();
        let mut is_candidate = true;
        for &leaf in &leaves {
            let Leaf::Var { var, order } = leaf else { continue };
            match flat.variables[var.index()].kind {
                VariableKind::Continuous if order == 0 => unknowns.push(var),
                VariableKind::Parameter | VariableKind::Constant => {}
                _ => is_candidate = false,
            }
        }
        if !is_candidate {
            unknowns.clear();
        }
        for &var in &unknowns {
            equations_of.entry(var).or_default().push(row);
        }
        unknowns_of.push(unknowns);
    }
    let mut known: HashMap<VarId, KnownVariable> = HashMap::new();
    let mut queue: Vec<usize> = (0..unknowns_of.len()).filter(|&row| unknowns_of[row].len() == 1).collect();
    while let Some(row) = queue.pop() {
        let &[var] = &unknowns_of[row][..] else { continue };
        reach.leaves(graph, &[residuals[row]], &mut leaves);
        let mut put_in = daesy_graph::Substitution::new();
        for &leaf in &leaves {
            if let Leaf::Var { var, order: 0 } = leaf
                && let Some(known) = known.get(&var)
            {
                put_in.replace_leaf(graph, leaf, known.value);
            }
        }
        let residual = put_in.apply(graph, residuals[row]);
        let Ok(form) = graph.linear_coefficients(residual, &[Leaf::var(var)]) else { continue };
        let Some(coefficient) = form.coefficients.first().and_then(|entry| graph.as_number(entry.value)) else {
            continue;
        };
        if coefficient == 0.0 || !coefficient.is_finite() {
            continue;
        }
        let scale = graph.number(-1.0 / coefficient);
        let value = graph.mul(scale, form.remainder);
        known.insert(var, KnownVariable { value, row });
        for &other in equations_of.get(&var).into_iter().flatten() {
            unknowns_of[other].retain(|&unknown| unknown != var);
            if unknowns_of[other].len() == 1 {
                queue.push(other);
            }
        }
    }
    known
}
