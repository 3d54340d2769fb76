//! Exact derivatives, forward from the leaves: every node's derivative from those of its arguments.
//!
//! The derivative of an expression is an expression of the same graph. It holds wherever the expression is
//! differentiable, branch by branch:
//!
//! - `if`, `min`, `max`, `abs` and `smooth` are differentiated in the branch that is taken, so that a branch which
//!   is not taken may be undefined; `abs(x)` at zero, and `min` and `max` at equality, take the derivative from one
//!   side. The conditions that come new with `abs`, `min` and `max` are in `noEvent`, for these functions make no
//!   events;
//! - relations, `sign`, `floor`, `ceil`, `div` and truth values have the derivative zero;
//!   `mod(a, b)' = a' - floor(a / b) b'` and `rem(a, b)' = a' - div(a, b) b'`;
//! - `(a^b)' = b a^(b-1) a' + a^b log(a) b'`, each part only if it is there: a constant or parameter exponent brings no
//!   logarithm, and a natural exponent leaves the domain as it is;
//! - `(a / b)' = (a' - (a / b) b') / b`, which has the value itself in it;
//! - `smooth(p, a)' = smooth(p - 1, a')`, and without the promise when `p = 0`; `noEvent` and `homotopy` go through;
//! - a call becomes a call of the function's tangent: the body differentiated statement by statement.

use smallvec::SmallVec;

use crate::flat::VariableKind;
use crate::graph::Graph;
use crate::jacobian::Differentiator;
use crate::linear::LinearExtractor;
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::traverse::{Leaf, Reach};

/// The derivative of an expression, `None` for zero.
pub(crate) type Tangent = Option<ExprId>;

/// Memory for derivatives, reused from call to call. A copy of it is empty.
#[derive(Debug, Default)]
pub(crate) struct DerivativeScratch {
    reach: Reach,
    tangents: Vec<Tangent>,
    pub(crate) differentiator: Differentiator,
    pub(crate) extractor: LinearExtractor,
}

impl Clone for DerivativeScratch {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Whether the derivative of an operation is zero wherever it exists.
pub(crate) const fn is_flat(node: &Node) -> bool {
    match node {
        Node::Unary { op, .. } => matches!(op, UnaryOp::Not | UnaryOp::Sign | UnaryOp::Ceil | UnaryOp::Floor),
        Node::Binary { op, .. } => op.is_relation() || matches!(op, BinaryOp::Quotient | BinaryOp::And | BinaryOp::Or),
        Node::Sample { .. } => true,
        _ => false,
    }
}

impl Graph {
    /// The partial derivative of an expression by a leaf.
    pub fn partial(&mut self, expr: ExprId, leaf: Leaf) -> ExprId {
        let leaf = leaf.node();
        let tangent = self.tangent(expr, &mut |graph, expr| (graph.node(expr) == leaf).then(|| graph.number(1.0)));
        self.finish_tangents();
        self.or_zero(tangent)
    }

    /// The total time derivative of an expression. Continuous unknowns and inputs become their next derivative, time
    /// becomes 1; constants, parameters and discrete variables do not change.
    pub fn total_time_derivative(&mut self, expr: ExprId, kind: &dyn Fn(VarId) -> VariableKind) -> ExprId {
        let tangent = self.tangent(expr, &mut |graph, expr| match graph.node(expr) {
            Node::Time => Some(graph.number(1.0)),
            Node::Var { var, order } => match kind(var) {
                VariableKind::Continuous | VariableKind::Input => Some(graph.der(var, order.saturating_add(1))),
                VariableKind::Constant | VariableKind::Parameter | VariableKind::Discrete => None,
            },
            _ => None,
        });
        self.finish_tangents();
        self.or_zero(tangent)
    }

    /// The derivative of an expression in the direction given by `seed`, which is asked for the derivative of every
    /// leaf (time, variables, locals and elements of arrays of locals).
    pub(crate) fn tangent(&mut self, root: ExprId, seed: &mut dyn FnMut(&mut Self, ExprId) -> Tangent) -> Tangent {
        let mut reach = std::mem::take(&mut self.scratch.reach);
        let mut tangents = std::mem::take(&mut self.scratch.tangents);
        tangents.resize(tangents.len().max(self.len()), None);
        let graph = &*self;
        for &expr in reach.below_while(graph, &[root], |expr| !is_flat(&graph.node(expr))) {
            let node = self.node(expr);
            let tangent = match node {
                Node::Time | Node::Var { .. } | Node::Local(_) | Node::LocalAt { .. } => seed(self, expr),
                _ if is_flat(&node) => None,
                _ => {
                    let mut arguments: SmallVec<[Tangent; 4]> = SmallVec::new();
                    self.for_each_child(expr, |child| arguments.push(tangents[child.index()]));
                    self.node_tangent(expr, &arguments, None)
                }
            };
            tangents[expr.index()] = tangent;
        }
        let tangent = tangents[root.index()];
        self.scratch.reach = reach;
        self.scratch.tangents = tangents;
        tangent
    }

    pub(crate) fn or_zero(&mut self, tangent: Tangent) -> ExprId {
        tangent.unwrap_or_else(|| self.number(0.0))
    }

    fn tangent_neg(&mut self, tangent: Tangent) -> Tangent {
        tangent.map(|t| self.neg(t))
    }

    fn tangent_add(&mut self, a: Tangent, b: Tangent) -> Tangent {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.add(a, b)),
            (a, b) => a.or(b),
        }
    }

    fn tangent_sub(&mut self, a: Tangent, b: Tangent) -> Tangent {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.sub(a, b)),
            (a, b) => a.or_else(|| self.tangent_neg(b)),
        }
    }

    fn tangent_mul(&mut self, factor: ExprId, tangent: Tangent) -> Tangent {
        tangent.map(|t| self.mul(factor, t))
    }

    fn tangent_select(&mut self, condition: ExprId, then: Tangent, otherwise: Tangent) -> Tangent {
        if then.is_none() && otherwise.is_none() {
            return None;
        }
        let (then, otherwise) = (self.or_zero(then), self.or_zero(otherwise));
        Some(self.select(condition, then, otherwise))
    }

    /// The derivative of a node from those of its arguments, which are in the order of [`Graph::children`].
    ///
    /// `active` says which arguments of a call may have a derivative in another direction; `None`: those that have one
    /// in this.
    pub(crate) fn node_tangent(&mut self, expr: ExprId, arguments: &[Tangent], active: Option<&[bool]>) -> Tangent {
        if arguments.iter().all(Option::is_none) {
            return None;
        }
        match (self.node(expr), arguments) {
            (Node::Unary { op, arg }, &[Some(da)]) => self.unary_tangent(op, expr, arg, da),
            (Node::Binary { op, lhs, rhs }, &[da, db]) => self.binary_tangent(op, expr, (lhs, da), (rhs, db)),
            (Node::Select { condition, .. }, &[_, then, otherwise]) => self.tangent_select(condition, then, otherwise),
            (Node::Smooth { order, .. }, &[Some(da)]) => Some(if order > 0 { self.smooth(order - 1, da) } else { da }),
            (Node::Call { function, output, args }, arguments) => {
                if let Some(foreign) = self.foreign(function) {
                    let mut moving = arguments.iter().enumerate().filter(|(_, tangent)| tangent.is_some());
                    if !moving.any(|(at, _)| foreign.depends(usize::from(output), at)) {
                        return None;
                    }
                }
                let mut mask: SmallVec<[bool; 8]> = arguments.iter().map(Option::is_some).collect();
                if let Some(active) = active {
                    mask.copy_from_slice(active);
                }
                let derivative = self.tangent_function(function, &mask);
                let mut all: SmallVec<[ExprId; 8]> = self.args(args).iter().copied().collect();
                for &tangent in arguments {
                    let tangent = self.or_zero(tangent);
                    all.push(tangent);
                }
                Some(self.call(derivative, output, &all))
            }
            _ => None,
        }
    }

    fn unary_tangent(&mut self, op: UnaryOp, expr: ExprId, arg: ExprId, da: ExprId) -> Tangent {
        Some(match op {
            UnaryOp::Neg => self.neg(da),
            UnaryOp::Not | UnaryOp::Sign | UnaryOp::Ceil | UnaryOp::Floor => return None,
            UnaryOp::Abs => {
                let zero = self.number(0.0);
                let relation = self.greater_equal(arg, zero);
                let condition = self.no_event(relation);
                let minus = self.neg(da);
                self.select(condition, da, minus)
            }
            UnaryOp::Sqrt => {
                let two = self.number(2.0);
                let divisor = self.mul(two, expr);
                self.div(da, divisor)
            }
            UnaryOp::Exp => self.mul(expr, da),
            UnaryOp::Log => self.div(da, arg),
            UnaryOp::Log10 => {
                let factor = self.number(std::f64::consts::LN_10);
                let divisor = self.mul(factor, arg);
                self.div(da, divisor)
            }
            UnaryOp::Sin => {
                let factor = self.unary(UnaryOp::Cos, arg);
                self.mul(factor, da)
            }
            UnaryOp::Cos => {
                let sine = self.unary(UnaryOp::Sin, arg);
                let factor = self.neg(sine);
                self.mul(factor, da)
            }
            UnaryOp::Tan => {
                let factor = self.one_and_square(BinaryOp::Add, expr);
                self.mul(factor, da)
            }
            UnaryOp::Asin | UnaryOp::Acos => {
                let radicand = self.one_and_square(BinaryOp::Sub, arg);
                let root = self.unary(UnaryOp::Sqrt, radicand);
                let quotient = self.div(da, root);
                if op == UnaryOp::Asin { quotient } else { self.neg(quotient) }
            }
            UnaryOp::Atan => {
                let divisor = self.one_and_square(BinaryOp::Add, arg);
                self.div(da, divisor)
            }
            UnaryOp::Sinh => {
                let factor = self.unary(UnaryOp::Cosh, arg);
                self.mul(factor, da)
            }
            UnaryOp::Cosh => {
                let factor = self.unary(UnaryOp::Sinh, arg);
                self.mul(factor, da)
            }
            UnaryOp::Tanh => {
                let factor = self.one_and_square(BinaryOp::Sub, expr);
                self.mul(factor, da)
            }
            UnaryOp::NoEvent => self.no_event(da),
            UnaryOp::WithEvents => self.with_events(da),
        })
    }

    /// `1 + a^2` or `1 - a^2`
    fn one_and_square(&mut self, op: BinaryOp, arg: ExprId) -> ExprId {
        let one = self.number(1.0);
        let square = self.mul(arg, arg);
        self.binary(op, one, square)
    }

    fn binary_tangent(
        &mut self,
        op: BinaryOp,
        expr: ExprId,
        (lhs, da): (ExprId, Tangent),
        (rhs, db): (ExprId, Tangent),
    ) -> Tangent {
        match op {
            BinaryOp::Add => self.tangent_add(da, db),
            BinaryOp::Sub => self.tangent_sub(da, db),
            BinaryOp::Mul => {
                let left = self.tangent_mul(rhs, da);
                let right = self.tangent_mul(lhs, db);
                self.tangent_add(left, right)
            }
            BinaryOp::Div => {
                let right = self.tangent_mul(expr, db);
                self.tangent_sub(da, right).map(|numerator| self.div(numerator, rhs))
            }
            BinaryOp::Pow => {
                let left = da.map(|da| {
                    let one = self.number(1.0);
                    let lower = self.sub(rhs, one);
                    let power = self.pow(lhs, lower);
                    let factor = self.mul(rhs, power);
                    self.mul(factor, da)
                });
                let right = db.map(|db| {
                    let logarithm = self.unary(UnaryOp::Log, lhs);
                    let factor = self.mul(expr, logarithm);
                    self.mul(factor, db)
                });
                self.tangent_add(left, right)
            }
            BinaryOp::Atan2 => {
                let left = self.tangent_mul(rhs, da);
                let right = self.tangent_mul(lhs, db);
                let numerator = self.tangent_sub(left, right)?;
                let (a2, b2) = (self.mul(lhs, lhs), self.mul(rhs, rhs));
                let divisor = self.add(a2, b2);
                Some(self.div(numerator, divisor))
            }
            BinaryOp::Min | BinaryOp::Max => {
                let relation =
                    if op == BinaryOp::Min { self.less_equal(lhs, rhs) } else { self.greater_equal(lhs, rhs) };
                let condition = self.no_event(relation);
                self.tangent_select(condition, da, db)
            }
            BinaryOp::Modulo => {
                let quotient = self.div(lhs, rhs);
                let whole = self.unary(UnaryOp::Floor, quotient);
                let right = self.tangent_mul(whole, db);
                self.tangent_sub(da, right)
            }
            BinaryOp::Remainder => {
                let whole = self.binary(BinaryOp::Quotient, lhs, rhs);
                let right = self.tangent_mul(whole, db);
                self.tangent_sub(da, right)
            }
            BinaryOp::Homotopy => {
                let (da, db) = (self.or_zero(da), self.or_zero(db));
                Some(self.homotopy(da, db))
            }
            BinaryOp::Quotient
            | BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual
            | BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::And
            | BinaryOp::Or => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_derivatives_of_the_pendulum_constraint() {
        // (x^2 + y^2)'' = 2 x x'' + 2 x'^2 + ..
        let mut g = Graph::default();
        let (x, y, two) = (g.var(VarId(0)), g.var(VarId(1)), g.number(2.0));
        let (x2, y2) = (g.pow(x, two), g.pow(y, two));
        let length = g.add(x2, y2);
        let once = g.total_time_derivative(length, &|_| VariableKind::Continuous);
        let (dx, dy) = (g.der(VarId(0), 1), g.der(VarId(1), 1));
        let (two_x, two_y) = (g.mul(two, x), g.mul(two, y));
        let (left, right) = (g.mul(two_x, dx), g.mul(two_y, dy));
        assert_eq!(once, g.add(left, right));
        let nothing = g.total_time_derivative(length, &|_| VariableKind::Parameter);
        assert_eq!(g.as_number(nothing), Some(0.0));
    }

    #[test]
    fn a_branch_that_is_not_taken_stays_out_of_the_derivative() {
        // d/dx (if x > 0 then sqrt(x) else x) must not contain 0 * 1 / sqrt(x).
        let mut g = Graph::default();
        let (x, zero) = (g.var(VarId(0)), g.number(0.0));
        let condition = g.greater(x, zero);
        let root = g.unary(UnaryOp::Sqrt, x);
        let e = g.select(condition, root, x);
        let d = g.partial(e, Leaf::var(VarId(0)));
        assert!(matches!(g.node(d), Node::Select { condition: c, .. } if c == condition));
    }

    #[test]
    fn a_parameter_exponent_brings_no_logarithm() {
        let mut g = Graph::default();
        let (x, p) = (g.var(VarId(0)), g.var(VarId(1)));
        let power = g.pow(x, p);
        let d = g.partial(power, Leaf::var(VarId(0)));
        let mut reach = Reach::new();
        assert!(reach.below(&g, &[d]).iter().all(|&e| !matches!(g.node(e), Node::Unary { op: UnaryOp::Log, .. })));
    }
}
