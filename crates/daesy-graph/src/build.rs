//! Constructors that simplify without changing the domain.
//!
//! A constructor returns an expression that has the same value as the raw node wherever the raw node is defined, and is
//! undefined where it is undefined (overflow aside, see [`Graph::is_total`]). What is done:
//!
//! - operations on numbers are carried out by [`crate::scalar`] when the result is finite, and left alone otherwise, so
//!   that `1 / 0` stays to be found where it matters;
//! - neutral elements: `x + 0`, `x - 0`, `1 * x`, `x / 1`, `x ^ 1`, `true and x`, `false or x`;
//! - signs move outwards: `--x`, `x + (-y) = x - y`, `x - (-y) = x + y`, `-(x - y) = y - x`, `(-x) * y = -(x * y)`,
//!   `(-x) / y = -(x / y)`, `-(c * x) = (-c) * x` for a number `c`: all exact in IEEE arithmetic;
//! - `x + x = 2 * x`, exact as well;
//! - `0 * x = 0`, `x - x = 0`, `x ^ 0 = 1`, `x == x`, `false and x`, `true or x`, `if c then a else a = a` only where
//!   what disappears is total; `0 / c = 0` for a number `c`;
//! - `if` with a known condition (an `if` needs only the branch it takes), `min(x, x)`, `max(x, x)`,
//!   `homotopy(x, x)`, `x and x`, `x or x`, `not not x`, `abs(-x)`, `abs(abs(x))`, `noEvent` around what makes no
//!   events, `smooth` around a leaf.
//!
//! Nothing else is regrouped: `(2 * x) * 3` stays, for `6 * x` rounds differently. Arguments keep the order in which
//! they were first written, but `b + a` becomes `a + b` when that exists already. Zeros have no sign: `x + 0` and
//! `0 - x` may give another zero than the raw operation, a folded zero is `+0`, and no operation of [`crate::scalar`]
//! has a finite result that shows the sign of a zero.

use crate::function::FunctionId;
use crate::graph::Graph;
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::scalar::{apply_binary, apply_unary, is_true, truth};

impl Graph {
    /// A finite result of folding, with zero made positive.
    fn folded(&mut self, value: f64) -> Option<ExprId> {
        value.is_finite().then(|| self.number(value + 0.0))
    }

    /// A truth value.
    pub fn truth(&mut self, value: bool) -> ExprId {
        self.number(truth(value))
    }

    /// The argument of an expression that is a negation, but not of a negation itself (which only raw nodes can be):
    /// so the constructors never descend more than a level.
    fn as_negation(&self, expr: ExprId) -> Option<ExprId> {
        match self.node(expr) {
            Node::Unary { op: UnaryOp::Neg, arg } => {
                (!matches!(self.node(arg), Node::Unary { op: UnaryOp::Neg, .. })).then_some(arg)
            }
            _ => None,
        }
    }

    /// An operation on one argument.
    pub fn unary(&mut self, op: UnaryOp, arg: ExprId) -> ExprId {
        if let Some(value) = self.as_number(arg)
            && let Some(folded) = self.folded(apply_unary(op, value))
        {
            return folded;
        }
        match (op, self.node(arg)) {
            (UnaryOp::Neg, _) => self.neg(arg),
            (UnaryOp::Not, Node::Unary { op: UnaryOp::Not, arg: inner }) => inner,
            (UnaryOp::Abs, Node::Unary { op: UnaryOp::Abs, .. }) => arg,
            (UnaryOp::Abs, Node::Unary { op: UnaryOp::Neg, arg: inner }) => self.raw_unary(UnaryOp::Abs, inner),
            (UnaryOp::NoEvent, _) if !self.has_own_events(arg) => arg,
            (UnaryOp::WithEvents, _) if !self.has_own_events(arg) => arg,
            _ => self.raw_unary(op, arg),
        }
    }

    /// An operation on two arguments.
    pub fn binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        match op {
            BinaryOp::Add => self.add(lhs, rhs),
            BinaryOp::Sub => self.sub(lhs, rhs),
            BinaryOp::Mul => self.mul(lhs, rhs),
            BinaryOp::Div => self.div(lhs, rhs),
            BinaryOp::Pow => self.pow(lhs, rhs),
            BinaryOp::And => self.and(lhs, rhs),
            BinaryOp::Or => self.or(lhs, rhs),
            BinaryOp::Homotopy => self.homotopy(lhs, rhs),
            _ => {
                if let Some(folded) = self.fold_binary(op, lhs, rhs) {
                    return folded;
                }
                if lhs == rhs {
                    match op {
                        BinaryOp::Min | BinaryOp::Max => return lhs,
                        BinaryOp::Less | BinaryOp::Greater | BinaryOp::NotEqual if self.is_total(lhs) => {
                            return self.truth(false);
                        }
                        BinaryOp::LessEqual | BinaryOp::GreaterEqual | BinaryOp::Equal if self.is_total(lhs) => {
                            return self.truth(true);
                        }
                        _ => {}
                    }
                }
                if op.is_commutative() { self.intern_commutative(op, lhs, rhs) } else { self.raw_binary(op, lhs, rhs) }
            }
        }
    }

    fn fold_binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Option<ExprId> {
        let (a, b) = (self.as_number(lhs)?, self.as_number(rhs)?);
        self.folded(apply_binary(op, a, b))
    }

    /// `-a`
    pub fn neg(&mut self, arg: ExprId) -> ExprId {
        match self.node(arg) {
            Node::Number(bits) => self.number(-f64::from_bits(bits) + 0.0),
            Node::Unary { op: UnaryOp::Neg, arg: inner } => inner,
            Node::Binary { op: BinaryOp::Sub, lhs, rhs } => self.raw_binary(BinaryOp::Sub, rhs, lhs),
            Node::Binary { op: op @ (BinaryOp::Mul | BinaryOp::Div), lhs, rhs } => {
                let (lhs, rhs) = if let Some(value) = self.as_number(lhs) {
                    (self.number(-value + 0.0), rhs)
                } else if let Some(value) = self.as_number(rhs) {
                    (lhs, self.number(-value + 0.0))
                } else {
                    return self.raw_unary(UnaryOp::Neg, arg);
                };
                if op == BinaryOp::Mul { self.intern_commutative(op, lhs, rhs) } else { self.raw_binary(op, lhs, rhs) }
            }
            _ => self.raw_unary(UnaryOp::Neg, arg),
        }
    }

    /// `a + b`
    pub fn add(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        let (a, b) = (self.as_number(lhs), self.as_number(rhs));
        match (a, b) {
            (Some(a), Some(b)) => {
                if let Some(folded) = self.folded(a + b) {
                    return folded;
                }
            }
            (Some(0.0), None) => return rhs,
            (None, Some(0.0)) => return lhs,
            _ => {}
        }
        if lhs == rhs {
            let two = self.number(2.0);
            return self.mul(two, lhs);
        }
        if let Some(inner) = self.as_negation(rhs) {
            return self.sub(lhs, inner);
        }
        if let Some(inner) = self.as_negation(lhs) {
            return self.sub(rhs, inner);
        }
        self.intern_commutative(BinaryOp::Add, lhs, rhs)
    }

    /// `a - b`
    pub fn sub(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        let (a, b) = (self.as_number(lhs), self.as_number(rhs));
        match (a, b) {
            (Some(a), Some(b)) => {
                if let Some(folded) = self.folded(a - b) {
                    return folded;
                }
            }
            (Some(0.0), None) => return self.neg(rhs),
            (None, Some(0.0)) => return lhs,
            _ => {}
        }
        if lhs == rhs && self.is_total(lhs) {
            return self.number(0.0);
        }
        if let Some(inner) = self.as_negation(rhs) {
            return self.add(lhs, inner);
        }
        self.raw_binary(BinaryOp::Sub, lhs, rhs)
    }

    /// `a * b`
    pub fn mul(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        match (self.as_number(lhs), self.as_number(rhs)) {
            (Some(a), Some(b)) => {
                if let Some(folded) = self.folded(a * b) {
                    return folded;
                }
            }
            (Some(number), None) => {
                if let Some(simpler) = self.mul_number(number, lhs, rhs) {
                    return simpler;
                }
            }
            (None, Some(number)) => {
                if let Some(simpler) = self.mul_number(number, rhs, lhs) {
                    return simpler;
                }
            }
            (None, None) => match (self.as_negation(lhs), self.as_negation(rhs)) {
                (Some(a), Some(b)) => return self.intern_commutative(BinaryOp::Mul, a, b),
                (Some(a), None) => {
                    let product = self.intern_commutative(BinaryOp::Mul, a, rhs);
                    return self.neg(product);
                }
                (None, Some(b)) => {
                    let product = self.intern_commutative(BinaryOp::Mul, lhs, b);
                    return self.neg(product);
                }
                (None, None) => {}
            },
        }
        self.intern_commutative(BinaryOp::Mul, lhs, rhs)
    }

    /// A simpler form of a number times an expression that is none.
    fn mul_number(&mut self, number: f64, number_expr: ExprId, other: ExprId) -> Option<ExprId> {
        if number == 1.0 {
            Some(other)
        } else if number == -1.0 {
            Some(self.neg(other))
        } else if number == 0.0 && self.is_total(other) {
            Some(number_expr)
        } else if let Some(inner) = self.as_negation(other) {
            let opposite = self.number(-number + 0.0);
            Some(self.intern_commutative(BinaryOp::Mul, opposite, inner))
        } else {
            None
        }
    }

    /// `a / b`
    pub fn div(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        let (a, b) = (self.as_number(lhs), self.as_number(rhs));
        match (a, b) {
            (Some(a), Some(b)) => {
                if let Some(folded) = self.folded(a / b) {
                    return folded;
                }
            }
            (None, Some(1.0)) => return lhs,
            (None, Some(-1.0)) => return self.neg(lhs),
            _ => {}
        }
        match (self.as_negation(lhs), self.as_negation(rhs)) {
            (Some(a), Some(b)) => self.raw_binary(BinaryOp::Div, a, b),
            (Some(a), None) => {
                let quotient = self.raw_binary(BinaryOp::Div, a, rhs);
                self.neg(quotient)
            }
            (None, Some(b)) => {
                let quotient = self.raw_binary(BinaryOp::Div, lhs, b);
                self.neg(quotient)
            }
            (None, None) => self.raw_binary(BinaryOp::Div, lhs, rhs),
        }
    }

    /// `a ^ b`
    pub fn pow(&mut self, base: ExprId, exponent: ExprId) -> ExprId {
        if let Some(folded) = self.fold_binary(BinaryOp::Pow, base, exponent) {
            return folded;
        }
        match self.as_number(exponent) {
            Some(1.0) => base,
            Some(0.0) if self.is_total(base) => self.number(1.0),
            _ => self.raw_binary(BinaryOp::Pow, base, exponent),
        }
    }

    /// The sum of all terms, from left to right; zero when there are none.
    pub fn sum(&mut self, terms: &[ExprId]) -> ExprId {
        let Some((&first, rest)) = terms.split_first() else { return self.number(0.0) };
        rest.iter().fold(first, |sum, &term| self.add(sum, term))
    }

    /// Boolean `a and b`
    pub fn and(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.connective(BinaryOp::And, lhs, rhs)
    }

    /// Boolean `a or b`
    pub fn or(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.connective(BinaryOp::Or, lhs, rhs)
    }

    fn connective(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        let neutral = op == BinaryOp::And;
        if let Some(folded) = self.fold_binary(op, lhs, rhs) {
            return folded;
        }
        for (known, other) in [(lhs, rhs), (rhs, lhs)] {
            if let Some(value) = self.as_number(known) {
                if is_true(value) == neutral {
                    return other;
                }
                if self.is_total(other) {
                    return known;
                }
            }
        }
        if lhs == rhs { lhs } else { self.raw_binary(op, lhs, rhs) }
    }

    /// Boolean `not a`
    pub fn not(&mut self, arg: ExprId) -> ExprId {
        self.unary(UnaryOp::Not, arg)
    }

    /// `a < b`
    pub fn less(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::Less, lhs, rhs)
    }

    /// `a <= b`
    pub fn less_equal(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::LessEqual, lhs, rhs)
    }

    /// `a > b`
    pub fn greater(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::Greater, lhs, rhs)
    }

    /// `a >= b`
    pub fn greater_equal(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::GreaterEqual, lhs, rhs)
    }

    /// `a == b`
    pub fn equal(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::Equal, lhs, rhs)
    }

    /// `a <> b`
    pub fn not_equal(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::NotEqual, lhs, rhs)
    }

    /// `min(a, b)`
    pub fn min(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::Min, lhs, rhs)
    }

    /// `max(a, b)`
    pub fn max(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.binary(BinaryOp::Max, lhs, rhs)
    }

    /// `homotopy(actual, simplified)`
    pub fn homotopy(&mut self, actual: ExprId, simplified: ExprId) -> ExprId {
        if actual == simplified { actual } else { self.raw_binary(BinaryOp::Homotopy, actual, simplified) }
    }

    /// `if condition then then else otherwise`
    pub fn select(&mut self, condition: ExprId, then: ExprId, otherwise: ExprId) -> ExprId {
        if let Some(value) = self.as_number(condition) {
            return if is_true(value) { then } else { otherwise };
        }
        if then == otherwise && self.is_total(condition) {
            return then;
        }
        self.intern(Node::Select { condition, then, otherwise })
    }

    /// `noEvent(a)`
    pub fn no_event(&mut self, arg: ExprId) -> ExprId {
        self.unary(UnaryOp::NoEvent, arg)
    }

    /// The expression as it is outside of every `noEvent` around it.
    pub fn with_events(&mut self, arg: ExprId) -> ExprId {
        self.unary(UnaryOp::WithEvents, arg)
    }

    /// `smooth(order, a)`
    pub fn smooth(&mut self, order: u16, arg: ExprId) -> ExprId {
        match self.node(arg) {
            Node::Number(_) | Node::Time | Node::Var { .. } | Node::Pre(_) | Node::Local(_) => arg,
            _ => self.intern(Node::Smooth { order, arg }),
        }
    }

    /// `pre(v)`
    pub fn pre(&mut self, var: VarId) -> ExprId {
        self.intern(Node::Pre(var))
    }

    /// `sample(start, interval)`
    pub fn sample(&mut self, start: ExprId, interval: ExprId) -> ExprId {
        self.intern(Node::Sample { start, interval })
    }

    /// One output of a user function. Equal calls are one expression.
    pub fn call(&mut self, function: FunctionId, output: u16, args: &[ExprId]) -> ExprId {
        let args = self.arg_list(args);
        self.intern(Node::Call { function, output, args })
    }

    /// A local variable of a function body.
    pub fn local(&mut self, local: u32) -> ExprId {
        self.intern(Node::Local(local))
    }

    /// An element of an array of locals; a known index that is in range gives the local itself.
    pub fn local_at(&mut self, base: u32, len: u32, index: ExprId) -> ExprId {
        match self.as_number(index) {
            Some(value) if value.fract() == 0.0 && value >= 1.0 && value <= f64::from(len) => {
                self.local(base + value as u32 - 1)
            }
            _ => self.intern(Node::LocalAt { base, len, index }),
        }
    }

    /// The node with other arguments, simplified: `args` has as many entries as the node has children, in the order of
    /// [`Graph::children`].
    pub fn rebuild(&mut self, expr: ExprId, args: &[ExprId]) -> ExprId {
        match (self.node(expr), args) {
            (Node::Unary { op, .. }, &[arg]) => self.unary(op, arg),
            (Node::Binary { op, .. }, &[lhs, rhs]) => self.binary(op, lhs, rhs),
            (Node::Select { .. }, &[condition, then, otherwise]) => self.select(condition, then, otherwise),
            (Node::Smooth { order, .. }, &[arg]) => self.smooth(order, arg),
            (Node::Sample { .. }, &[start, interval]) => self.sample(start, interval),
            (Node::LocalAt { base, len, .. }, &[index]) => self.local_at(base, len, index),
            (Node::Call { function, output, .. }, args) => self.call(function, output, args),
            _ => expr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::source::Span;

    fn setup() -> (Graph, ExprId, ExprId) {
        let mut graph = Graph::default();
        let x = graph.var(VarId(0));
        let y = graph.var(VarId(1));
        (graph, x, y)
    }

    #[test]
    fn neutral_elements_disappear() {
        let (mut g, x, y) = setup();
        let (zero, one) = (g.number(0.0), g.number(1.0));
        assert_eq!(g.add(x, zero), x);
        assert_eq!(g.add(zero, x), x);
        assert_eq!(g.sub(x, zero), x);
        assert_eq!(g.mul(one, x), x);
        assert_eq!(g.div(x, one), x);
        assert_eq!(g.pow(x, one), x);
        let minus_x = g.neg(x);
        assert_eq!(g.sub(zero, x), minus_x);
        assert_eq!(g.neg(minus_x), x);
        let difference = g.sub(y, x);
        assert_eq!(g.add(minus_x, y), difference);
        assert_eq!(g.sum(&[]), zero);
    }

    #[test]
    fn what_may_be_undefined_does_not_disappear() {
        let (mut g, x, y) = setup();
        let zero = g.number(0.0);
        let quotient = g.div(x, y);
        let product = g.mul(zero, quotient);
        assert!(matches!(g.node(product), Node::Binary { op: BinaryOp::Mul, .. }));
        let difference = g.sub(quotient, quotient);
        assert!(matches!(g.node(difference), Node::Binary { op: BinaryOp::Sub, .. }));
        let power = g.pow(quotient, zero);
        assert!(matches!(g.node(power), Node::Binary { op: BinaryOp::Pow, .. }));
        let polynomial = g.mul(x, y);
        assert_eq!(g.mul(polynomial, zero), zero);
        assert_eq!(g.sub(polynomial, polynomial), zero);
    }

    #[test]
    fn undefined_constants_stay() {
        let (mut g, _, _) = setup();
        let (zero, one) = (g.number(0.0), g.number(1.0));
        let quotient = g.div(one, zero);
        assert!(g.as_number(quotient).is_none());
        let minus_one = g.number(-1.0);
        let logarithm = g.unary(UnaryOp::Log, minus_one);
        assert!(g.as_number(logarithm).is_none());
        let huge = g.number(1e300);
        let product = g.mul(huge, huge);
        assert!(g.as_number(product).is_none());
        let sum = g.add(one, one);
        assert_eq!(g.as_number(sum), Some(2.0));
    }

    #[test]
    fn commuted_operations_are_one_node_in_the_first_order() {
        let (mut g, x, y) = setup();
        let sum = g.add(y, x);
        assert_eq!(g.add(x, y), sum);
        assert_eq!(g.node(sum), Node::Binary { op: BinaryOp::Add, lhs: y, rhs: x });
        // Interning a node as written does not commute.
        assert_ne!(g.raw_binary(BinaryOp::Add, x, y), sum);
    }

    #[test]
    fn equal_calls_are_one_node() {
        let (mut g, x, y) = setup();
        let f = g.add_function(Function {
            name: "f".into(),
            n_inputs: 2,
            outputs: vec![0],
            n_locals: 2,
            body: vec![],
            span: Span::NONE,
        });
        let first = g.call(f, 0, &[x, y]);
        let _ = g.call(f, 0, &[y, x]);
        assert_eq!(g.call(f, 0, &[x, y]), first);
        assert!(g.has_calls(first));
        assert!(!g.is_total(first));
    }

    #[test]
    fn no_event_stays_only_where_it_matters() {
        let (mut g, x, y) = setup();
        let sum = g.add(x, y);
        assert_eq!(g.no_event(sum), sum);
        let relation = g.less(x, y);
        let quiet = g.no_event(relation);
        assert_ne!(quiet, relation);
        assert!(!g.may_make_events(quiet));
        assert!(g.may_make_events(relation));
    }
}
