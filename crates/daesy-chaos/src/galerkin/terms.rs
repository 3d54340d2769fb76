//! Splitting of residuals into what is linear in the unknowns, what is known, and the rest.

use std::collections::HashMap;

use daesy_graph::known::{Knowing, KnownVariable};
use daesy_graph::{BinaryOp, ExprId, Graph, Leaf, LinearExtractor, Node, Reach, Substitution, UnaryOp, VarId};

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

/// Known variables alone are put in: parameters may be random.
pub(super) struct PutIn<'r> {
    pub(super) residuals: &'r [ExprId],
    pub(super) reach: &'r mut Reach,
}

impl Knowing for PutIn<'_> {
    fn put_in(&mut self, graph: &mut Graph, row: usize, known: &HashMap<VarId, KnownVariable>) -> ExprId {
        let mut leaves = Vec::new();
        self.reach.leaves(graph, &[self.residuals[row]], &mut leaves);
        let mut put_in = Substitution::new();
        for &leaf in &leaves {
            if let Leaf::Var { var, order: 0 } = leaf
                && let Some(known) = known.get(&var)
            {
                put_in.replace_leaf(graph, leaf, known.value);
            }
        }
        put_in.apply(graph, self.residuals[row])
    }

    fn may_divide(&mut self, graph: &mut Graph, coefficient: ExprId) -> bool {
        graph.as_number(coefficient).is_some_and(|number| number != 0.0 && number.is_finite())
    }
}
