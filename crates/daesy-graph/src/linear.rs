//! Linear coefficients: `expr = sum of coefficient_j * leaf_j + remainder` with coefficients free of the leaves.

use crate::flat::VariableKind;
use crate::graph::Graph;
use crate::jacobian::{Differentiator, GradientEntry};
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::traverse::{Leaf, Reach};

/// An expression that is linear in some leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearForm {
    /// The coefficients that are not zero, by position of the leaf in the list that was asked for.
    pub coefficients: Vec<GradientEntry>,
    /// What is left when the leaves are zero.
    pub remainder: ExprId,
}

/// An expression is not linear in the leaves that were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the expression is not linear in {leaf:?}")]
pub struct Nonlinear {
    /// A leaf that enters nonlinearly.
    pub leaf: Leaf,
    /// The operation that is not linear.
    pub expr: ExprId,
}

/// What a coefficient depends on; each kind includes the ones before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CoefficientKind {
    /// On numbers and constants.
    Constant,
    /// On parameters.
    Parameter,
    /// On time: directly, by inputs, or by discrete variables.
    Time,
    /// On unknowns.
    Unknown,
}

impl Graph {
    /// The coefficients and the remainder of an expression that is linear in the leaves.
    ///
    /// Linear are sums and differences, products with and quotients by something free of the leaves, and branches of an
    /// `if` whose condition is free of them. For many expressions and the same leaves use a
    /// [`LinearExtractor`], which remembers.
    ///
    /// # Errors
    /// When a leaf enters in another way.
    pub fn linear_coefficients(&mut self, expr: ExprId, leaves: &[Leaf]) -> Result<LinearForm, Nonlinear> {
        let mut extractor = std::mem::take(&mut self.scratch.extractor);
        extractor.retarget(self, leaves);
        let form = extractor.extract(self, expr);
        self.scratch.extractor = extractor;
        form
    }
}

impl Reach {
    /// What an expression depends on.
    pub fn coefficient_kind(
        &mut self,
        graph: &Graph,
        expr: ExprId,
        kind: &dyn Fn(VarId) -> VariableKind,
    ) -> CoefficientKind {
        let mut worst = CoefficientKind::Constant;
        self.below_while(graph, &[expr], |expr| {
            worst = worst.max(match graph.node(expr) {
                Node::Time | Node::Pre(_) | Node::Initial | Node::Terminal | Node::Sample { .. } => {
                    CoefficientKind::Time
                }
                Node::Var { var, .. } => match kind(var) {
                    VariableKind::Constant => CoefficientKind::Constant,
                    VariableKind::Parameter => CoefficientKind::Parameter,
                    VariableKind::Input | VariableKind::Discrete => CoefficientKind::Time,
                    VariableKind::Continuous => CoefficientKind::Unknown,
                },
                _ => CoefficientKind::Constant,
            });
            worst != CoefficientKind::Unknown
        });
        worst
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dependence {
    Unknown,
    Free,
    Dependent,
}

/// Extracts linear forms by a fixed list of leaves, with memory of everything met so far.
#[derive(Clone, Debug, Default)]
pub struct LinearExtractor {
    differentiator: Differentiator,
    dependence: Vec<Dependence>,
    /// The expressions whose dependence is known.
    judged: Vec<ExprId>,
    /// By expression, plus one: what is left without the leaves; zero for nothing. Valid for the expression at hand.
    remainders: Vec<u32>,
    reach: Reach,
}

impl LinearExtractor {
    /// Prepares extraction by the given leaves, which must differ.
    #[must_use]
    pub fn new(graph: &mut Graph, leaves: &[Leaf]) -> Self {
        let mut made = Self::default();
        made.retarget(graph, leaves);
        made
    }

    /// Forgets everything and prepares extraction by other leaves, at a cost proportional to what was known.
    pub fn retarget(&mut self, graph: &mut Graph, leaves: &[Leaf]) {
        self.differentiator.retarget(graph, leaves);
        for expr in self.judged.drain(..) {
            self.dependence[expr.index()] = Dependence::Unknown;
        }
        self.grow(graph.len());
        for &leaf in leaves {
            let expr = graph.leaf(leaf);
            self.dependence[expr.index()] = Dependence::Dependent;
            self.judged.push(expr);
        }
    }

    fn grow(&mut self, len: usize) {
        if self.dependence.len() < len {
            self.dependence.resize(len, Dependence::Unknown);
            self.remainders.resize(len, 0);
        }
    }

    /// Whether one of the leaves is below an expression.
    pub fn depends(&mut self, graph: &Graph, expr: ExprId) -> bool {
        self.grow(graph.len());
        let (dependence, judged) = (&mut self.dependence, &mut self.judged);
        for &expr in self.reach.below_while(graph, &[expr], |expr| dependence[expr.index()] == Dependence::Unknown) {
            if dependence[expr.index()] == Dependence::Unknown {
                let mut is_dependent = false;
                graph.for_each_child(expr, |child| is_dependent |= dependence[child.index()] == Dependence::Dependent);
                dependence[expr.index()] = if is_dependent { Dependence::Dependent } else { Dependence::Free };
                judged.push(expr);
            }
        }
        self.is_dependent(expr)
    }

    fn is_dependent(&self, expr: ExprId) -> bool {
        self.dependence[expr.index()] == Dependence::Dependent
    }

    /// The coefficients and the remainder of an expression that is linear in the leaves.
    ///
    /// # Errors
    /// When a leaf enters in another way.
    pub fn extract(&mut self, graph: &mut Graph, root: ExprId) -> Result<LinearForm, Nonlinear> {
        if !self.depends(graph, root) {
            return Ok(LinearForm { coefficients: Vec::new(), remainder: root });
        }
        let mut reach = std::mem::take(&mut self.reach);
        let mut culprit = None;
        reach.below_while(graph, &[root], |expr| {
            if !self.is_dependent(expr) {
                return false;
            }
            if culprit.is_none() && !self.is_linear_node(graph, expr) {
                culprit = Some(expr);
            }
            culprit.is_none()
        });
        if let Some(expr) = culprit {
            let mut found = None;
            reach.below_while(graph, &[expr], |below| {
                if self.is_dependent(below) && found.is_none() {
                    found = graph.as_leaf(below);
                    return true;
                }
                false
            });
            self.reach = reach;
            let leaf = found.expect("what depends on the leaves has one of them below");
            return Err(Nonlinear { leaf, expr });
        }
        for &expr in reach.met() {
            let remainder = if self.is_dependent(expr) { self.remainder(graph, expr) } else { Some(expr) };
            self.remainders[expr.index()] = remainder.map_or(0, |r| r.0 + 1);
        }
        self.reach = reach;
        let remainder = self.remainder_of(root);
        let remainder = graph.or_zero(remainder);
        Ok(LinearForm { coefficients: self.differentiator.gradient(graph, root), remainder })
    }

    /// Whether a node that depends on the leaves is linear in its arguments as they depend on them.
    fn is_linear_node(&self, graph: &Graph, expr: ExprId) -> bool {
        match graph.node(expr) {
            Node::Time | Node::Var { .. } | Node::Smooth { .. } => true,
            Node::Unary { op, .. } => matches!(op, UnaryOp::Neg | UnaryOp::NoEvent | UnaryOp::WithEvents),
            Node::Binary { op, lhs, rhs } => match op {
                BinaryOp::Add | BinaryOp::Sub | BinaryOp::Homotopy => true,
                BinaryOp::Mul => !(self.is_dependent(lhs) && self.is_dependent(rhs)),
                BinaryOp::Div => !self.is_dependent(rhs),
                _ => false,
            },
            Node::Select { condition, .. } => !self.is_dependent(condition),
            _ => false,
        }
    }

    fn remainder_of(&self, expr: ExprId) -> Option<ExprId> {
        self.remainders[expr.index()].checked_sub(1).map(ExprId)
    }

    /// What is left of a dependent node when the leaves are zero, `None` for zero. The divisor of a quotient that
    /// vanishes is not lost: it divides a coefficient.
    fn remainder(&self, graph: &mut Graph, expr: ExprId) -> Option<ExprId> {
        match graph.node(expr) {
            Node::Unary { op, arg } => self.remainder_of(arg).map(|arg| graph.unary(op, arg)),
            Node::Smooth { order, arg } => self.remainder_of(arg).map(|arg| graph.smooth(order, arg)),
            Node::Binary { op, lhs, rhs } => {
                let (a, b) = (self.remainder_of(lhs), self.remainder_of(rhs));
                match (op, a, b) {
                    (BinaryOp::Mul | BinaryOp::Div, Some(a), Some(b)) => Some(graph.binary(op, a, b)),
                    (BinaryOp::Mul | BinaryOp::Div, ..) | (_, None, None) => None,
                    (BinaryOp::Add | BinaryOp::Sub, Some(a), None) => Some(a),
                    (BinaryOp::Add, None, Some(b)) => Some(b),
                    (BinaryOp::Sub, None, Some(b)) => Some(graph.neg(b)),
                    (_, a, b) => {
                        let (a, b) = (graph.or_zero(a), graph.or_zero(b));
                        Some(graph.binary(op, a, b))
                    }
                }
            }
            Node::Select { condition, then, otherwise } => {
                match (self.remainder_of(then), self.remainder_of(otherwise)) {
                    (None, None) => None,
                    (a, b) => {
                        let (a, b) = (graph.or_zero(a), graph.or_zero(b));
                        Some(graph.select(condition, a, b))
                    }
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_of_a_circuit_law() {
        // R i + L der(i) - u in i and der(i)
        let mut g = Graph::default();
        let (i, di) = (Leaf::var(VarId(0)), Leaf::der(VarId(0), 1));
        let (ei, edi) = (g.leaf(i), g.leaf(di));
        let (r, l, u) = (g.var(VarId(1)), g.var(VarId(2)), g.var(VarId(3)));
        let (a, b) = (g.mul(r, ei), g.mul(l, edi));
        let sum = g.add(a, b);
        let e = g.sub(sum, u);
        let form = g.linear_coefficients(e, &[di, i]).unwrap();
        assert_eq!(form.coefficients, [GradientEntry { column: 0, value: l }, GradientEntry { column: 1, value: r }]);
        assert_eq!(form.remainder, g.neg(u));
        let kind = |var: VarId| if var == VarId(1) { VariableKind::Parameter } else { VariableKind::Continuous };
        assert_eq!(Reach::new().coefficient_kind(&g, r, &kind), CoefficientKind::Parameter);
        assert_eq!(Reach::new().coefficient_kind(&g, sum, &kind), CoefficientKind::Unknown);
        let t = g.time();
        assert_eq!(Reach::new().coefficient_kind(&g, t, &kind), CoefficientKind::Time);
    }

    #[test]
    fn flat_functions_of_a_leaf_are_not_linear() {
        let mut g = Graph::default();
        let x = g.var(VarId(0));
        let floor = g.unary(UnaryOp::Floor, x);
        let e = g.add(x, floor);
        let error = g.linear_coefficients(e, &[Leaf::var(VarId(0))]).unwrap_err();
        assert_eq!(error, Nonlinear { leaf: Leaf::var(VarId(0)), expr: floor });
    }

    #[test]
    fn a_condition_free_of_the_leaves_keeps_an_if_linear() {
        let mut g = Graph::default();
        let (x, y, p, t) = (g.var(VarId(0)), g.var(VarId(1)), g.var(VarId(2)), g.time());
        let condition = g.less(t, p);
        let (px, quotient) = (g.mul(p, x), g.div(x, y));
        let branch = g.add(px, y);
        let e = g.select(condition, branch, quotient);
        let form = g.linear_coefficients(e, &[Leaf::var(VarId(0))]).unwrap();
        let one = g.number(1.0);
        let inverse = g.div(one, y);
        let zero = g.number(0.0);
        assert_eq!(form.coefficients[0].value, g.select(condition, p, inverse));
        assert_eq!(form.remainder, g.select(condition, y, zero));
        let by_y = g.linear_coefficients(e, &[Leaf::var(VarId(1))]);
        assert_eq!(by_y.unwrap_err().expr, quotient);
        assert!(g.linear_coefficients(e, &[Leaf::Time]).is_err());
    }
}
