//! Bounds of functions of time over an interval, with bounds of their slopes.
//!
//! Interval arithmetic: every operation gives an interval that holds all results for arguments from the given ones,
//! widened by rounding, so that what lies outside of a bound cannot happen [@moore2009, ch. 2]. Slopes follow by the
//! rules of differentiation; where a function jumps or has a kink within the interval, its slope is not bounded.

use daesy_graph::scalar::{apply_binary, apply_unary};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, Reach, UnaryOp, VarId};
use rustc_hash::FxHashMap;

/// Results are widened by this part of their size.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// All numbers from `low` to `high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    pub(crate) const ALL: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };
    const ZERO: Self = Self::point(0.0);

    pub(crate) const fn point(value: f64) -> Self {
        Self { low: value, high: value }
    }

    const fn truth(value: bool) -> Self {
        Self::point(if value { 1.0 } else { 0.0 })
    }

    pub(crate) fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    fn is_point(self) -> bool {
        self.low == self.high
    }

    /// From two bounds with room for rounding; everything where a bound is not a number.
    fn new(low: f64, high: f64) -> Self {
        if low.is_nan() || high.is_nan() {
            return Self::ALL;
        }
        Self { low: low - ROUNDING * low.abs(), high: high + ROUNDING * high.abs() }
    }

    fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    fn neg(self) -> Self {
        Self { low: -self.high, high: -self.low }
    }

    fn add(self, other: Self) -> Self {
        Self::new(self.low + other.low, self.high + other.high)
    }

    fn mul(self, other: Self) -> Self {
        if self == Self::ZERO || other == Self::ZERO {
            return Self::ZERO;
        }
        let products = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        // Zero times infinity is zero here: an unbounded factor is still a number.
        let products = products.map(|product| if product.is_nan() { 0.0 } else { product });
        Self::new(
            products.iter().copied().fold(f64::INFINITY, f64::min),
            products.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }

    fn reciprocal(self) -> Self {
        if self.holds(0.0) { Self::ALL } else { Self::new(1.0 / self.high, 1.0 / self.low) }
    }

    fn abs(self) -> Self {
        if self.low >= 0.0 {
            self
        } else if self.high <= 0.0 {
            self.neg()
        } else {
            Self { low: 0.0, high: self.high.max(-self.low) }
        }
    }

    /// By a function that grows where it is defined, from `first` to `last`.
    fn grown(self, first: f64, last: f64, function: impl Fn(f64) -> f64) -> Self {
        if self.high < first || self.low > last {
            return Self::ALL;
        }
        Self::new(function(self.low.max(first)), function(self.high.min(last)))
    }

    /// sin: extrema at odd multiples of pi / 2.
    fn sin(self) -> Self {
        use std::f64::consts::{FRAC_PI_2, PI, TAU};
        let width = self.high - self.low;
        if width.is_nan() || width >= TAU || self.low.abs().max(self.high.abs()) > 1e12 {
            return Self { low: -1.0, high: 1.0 };
        }
        let (first, last) = (self.low.sin(), self.high.sin());
        let slack = 1e-14 * (1.0 + self.low.abs().max(self.high.abs()));
        let (mut low, mut high) = (first.min(last) - slack, first.max(last) + slack);
        // The first odd multiple of pi / 2 not before the interval, by its number.
        let mut number = ((self.low - slack - FRAC_PI_2) / PI).ceil();
        while FRAC_PI_2 + number * PI <= self.high + slack {
            if number.rem_euclid(2.0) == 0.0 {
                high = 1.0
            } else {
                low = -1.0
            }
            number += 1.0;
        }
        Self { low: low.max(-1.0), high: high.min(1.0) }
    }

    fn cos(self) -> Self {
        self.add(Self::point(std::f64::consts::FRAC_PI_2)).sin()
    }

    fn whole_power(self, power: i32) -> Self {
        let at = |value: f64| value.powi(power);
        match power {
            0 => Self::point(1.0),
            ..0 => self.whole_power(-power).reciprocal(),
            _ if power % 2 == 1 => Self::new(at(self.low), at(self.high)),
            _ => {
                let size = self.abs();
                Self::new(at(size.low), at(size.high))
            }
        }
    }

    /// Truth of a value that may be 0 or 1.
    fn certain(self) -> Option<bool> {
        match (self.low, self.high) {
            (1.0, 1.0) => Some(true),
            (0.0, 0.0) => Some(false),
            _ => None,
        }
    }

    const EITHER: Self = Self { low: 0.0, high: 1.0 };
}

/// Bounds of a function and of its slope.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Range,
    pub(crate) slope: Range,
}

impl Bound {
    const fn constant(value: Range) -> Self {
        Self { value, slope: Range::ZERO }
    }

    /// A value that jumps unless it is the same throughout.
    fn stepped(value: Range) -> Self {
        let slope = if value.is_point() { Range::ZERO } else { Range::ALL };
        Self { value, slope }
    }

    fn neg(self) -> Self {
        Self { value: self.value.neg(), slope: self.slope.neg() }
    }

    fn add(self, other: Self) -> Self {
        Self { value: self.value.add(other.value), slope: self.slope.add(other.slope) }
    }

    pub(crate) fn sub(self, other: Self) -> Self {
        self.add(other.neg())
    }

    fn mul(self, other: Self) -> Self {
        Self { value: self.value.mul(other.value), slope: self.slope.mul(other.value).add(self.value.mul(other.slope)) }
    }

    fn div(self, other: Self) -> Self {
        let reciprocal = other.value.reciprocal();
        let slope = other.slope.neg().mul(reciprocal.mul(reciprocal));
        self.mul(Self { value: reciprocal, slope })
    }

    fn chain(self, value: Range, derivative: Range) -> Self {
        Self { value, slope: derivative.mul(self.slope) }
    }

    fn floor(self) -> Self {
        Self::stepped(Range { low: self.value.low.floor(), high: self.value.high.floor() })
    }

    fn hull(self, other: Self) -> Self {
        Self { value: self.value.hull(other.value), slope: self.slope.hull(other.slope) }
    }

    /// The larger of two.
    fn max(self, other: Self) -> Self {
        if self.value.low >= other.value.high {
            self
        } else if other.value.low >= self.value.high {
            other
        } else {
            let value = Range { low: self.value.low.max(other.value.low), high: self.value.high.max(other.value.high) };
            Self { value, slope: self.slope.hull(other.slope) }
        }
    }

    fn unary(self, op: UnaryOp) -> Self {
        let Self { value: x, slope } = self;
        let one = Range::point(1.0);
        let by = |value: Range, derivative: Range| self.chain(value, derivative);
        match op {
            UnaryOp::Neg => self.neg(),
            UnaryOp::NoEvent | UnaryOp::WithEvents => self,
            UnaryOp::Not => Self::stepped(one.add(x.neg()).whole_truth()),
            UnaryOp::Abs if x.low >= 0.0 => self,
            UnaryOp::Abs if x.high <= 0.0 => self.neg(),
            UnaryOp::Abs => Self { value: x.abs(), slope: slope.hull(slope.neg()) },
            UnaryOp::Sign => Self::stepped(Range { low: sign(x.low), high: sign(x.high) }),
            UnaryOp::Sqrt => {
                let root = x.grown(0.0, f64::INFINITY, f64::sqrt);
                by(root, root.mul(Range::point(2.0)).reciprocal())
            }
            UnaryOp::Exp => {
                let value = x.grown(f64::NEG_INFINITY, f64::INFINITY, f64::exp);
                by(value, value)
            }
            UnaryOp::Log => by(x.grown(0.0, f64::INFINITY, f64::ln), x.reciprocal()),
            UnaryOp::Log10 => {
                let derivative = x.mul(Range::point(std::f64::consts::LN_10)).reciprocal();
                by(x.grown(0.0, f64::INFINITY, f64::log10), derivative)
            }
            UnaryOp::Sin => by(x.sin(), x.cos()),
            UnaryOp::Cos => by(x.cos(), x.sin().neg()),
            UnaryOp::Tan => {
                let cosine = Self { value: x.cos(), slope: x.sin().neg().mul(slope) };
                Self { value: x.sin(), slope: x.cos().mul(slope) }.div(cosine)
            }
            UnaryOp::Asin | UnaryOp::Acos => {
                let rest = one.add(x.mul(x).neg());
                let derivative = rest.grown(0.0, 1.0, f64::sqrt).reciprocal();
                let sine = by(x.grown(-1.0, 1.0, f64::asin), derivative);
                if op == UnaryOp::Asin {
                    return sine;
                }
                Self::constant(Range::point(std::f64::consts::FRAC_PI_2)).sub(sine)
            }
            UnaryOp::Atan => {
                let value = x.grown(f64::NEG_INFINITY, f64::INFINITY, f64::atan);
                by(value, one.add(x.whole_power(2)).reciprocal())
            }
            UnaryOp::Sinh => by(x.grown(f64::NEG_INFINITY, f64::INFINITY, f64::sinh), x.cosh()),
            UnaryOp::Cosh => by(x.cosh(), x.grown(f64::NEG_INFINITY, f64::INFINITY, f64::sinh)),
            UnaryOp::Tanh => {
                let value = x.grown(f64::NEG_INFINITY, f64::INFINITY, f64::tanh);
                by(value, one.add(value.whole_power(2).neg()))
            }
            UnaryOp::Ceil => self.neg().floor().neg(),
            UnaryOp::Floor => self.floor(),
        }
    }

    fn binary(self, op: BinaryOp, other: Self) -> Self {
        let (a, b) = (self.value, other.value);
        let truth = |is_true: bool, is_false: bool| {
            Self::stepped(if is_true || is_false { Range::truth(is_true) } else { Range::EITHER })
        };
        match op {
            BinaryOp::Add => self.add(other),
            BinaryOp::Sub => self.sub(other),
            BinaryOp::Mul => self.mul(other),
            BinaryOp::Div => self.div(other),
            BinaryOp::Pow => self.power(other),
            BinaryOp::Atan2 => Self { value: Range { low: -4.0, high: 4.0 }, slope: Range::ALL },
            BinaryOp::Max => self.max(other),
            BinaryOp::Min => self.neg().max(other.neg()).neg(),
            BinaryOp::Quotient => {
                let exact = self.div(other);
                Self::stepped(Range { low: exact.value.low.trunc(), high: exact.value.high.trunc() })
            }
            BinaryOp::Modulo => self.sub(self.div(other).floor().mul(other)),
            BinaryOp::Remainder => self.sub(self.binary(BinaryOp::Quotient, other).mul(other)),
            BinaryOp::Less => truth(a.high < b.low, a.low >= b.high),
            BinaryOp::LessEqual => truth(a.high <= b.low, a.low > b.high),
            BinaryOp::Greater => truth(a.low > b.high, a.high <= b.low),
            BinaryOp::GreaterEqual => truth(a.low >= b.high, a.high < b.low),
            BinaryOp::Equal => truth(a.is_point() && a == b, a.high < b.low || a.low > b.high),
            BinaryOp::NotEqual => truth(a.high < b.low || a.low > b.high, a.is_point() && a == b),
            BinaryOp::And => Self::stepped(Range { low: a.low.min(b.low), high: a.high.min(b.high) }),
            BinaryOp::Or => Self::stepped(Range { low: a.low.max(b.low), high: a.high.max(b.high) }),
            // After the start the actual expression counts.
            BinaryOp::Homotopy => self,
        }
    }

    fn power(self, exponent: Self) -> Self {
        if exponent.value.is_point() && exponent.slope == Range::ZERO {
            let number = exponent.value.low;
            if number.fract() == 0.0 && number.abs() <= 64.0 {
                let power = number as i32;
                let derivative = Range::point(number).mul(self.value.whole_power(power - 1));
                return self.chain(self.value.whole_power(power), derivative);
            }
        }
        // a^b = exp(b log a) where a is positive.
        if self.value.low > 0.0 {
            exponent.mul(self.unary(UnaryOp::Log)).unary(UnaryOp::Exp)
        } else {
            Self { value: Range::ALL, slope: Range::ALL }
        }
    }
}

impl Range {
    fn cosh(self) -> Self {
        let size = self.abs();
        Self::new(size.low.cosh(), size.high.cosh())
    }

    /// Truths without what rounding added.
    fn whole_truth(self) -> Self {
        Self { low: self.low.round(), high: self.high.round() }
    }
}

fn sign(value: f64) -> f64 {
    if value > 0.0 {
        1.0
    } else if value < 0.0 {
        -1.0
    } else {
        0.0
    }
}

/// One operation of a program.
#[derive(Clone, Copy)]
enum Step {
    Number(f64),
    Time,
    /// A leaf, by its number.
    Leaf(usize),
    Unary(UnaryOp, usize),
    Binary(BinaryOp, usize, usize),
    Select(usize, usize, usize),
    Same(usize),
}

/// Expressions of time and constants, to be evaluated at times and over intervals.
pub(crate) struct TimeProgram {
    steps: Vec<Step>,
    outputs: Vec<usize>,
    /// The variables that are constant while it runs.
    pub(crate) leaves: Vec<VarId>,
}

impl TimeProgram {
    /// The program of expressions; none where one of them calls a function or holds what no point of time determines.
    pub(crate) fn new(graph: &Graph, exprs: &[ExprId], is_constant: impl Fn(VarId) -> bool) -> Option<Self> {
        let order: Vec<ExprId> = Reach::new().below(graph, exprs).to_vec();
        let mut place: FxHashMap<ExprId, usize> = FxHashMap::default();
        let (mut steps, mut leaves) = (Vec::with_capacity(order.len()), Vec::new());
        for expr in order {
            let at = |expr: ExprId| place.get(&expr).copied();
            let step = match graph.node(expr) {
                Node::Number(bits) => Step::Number(f64::from_bits(bits)),
                Node::Time => Step::Time,
                Node::Var { var, order: 0 } if is_constant(var) => {
                    leaves.push(var);
                    Step::Leaf(leaves.len() - 1)
                }
                Node::Unary { op, arg } => Step::Unary(op, at(arg)?),
                Node::Binary { op, lhs, rhs } => Step::Binary(op, at(lhs)?, at(rhs)?),
                Node::Select { condition, then, otherwise } => Step::Select(at(condition)?, at(then)?, at(otherwise)?),
                Node::Smooth { arg, .. } => Step::Same(at(arg)?),
                Node::Initial | Node::Terminal => Step::Number(0.0),
                _ => return None,
            };
            place.insert(expr, steps.len());
            steps.push(step);
        }
        let outputs = exprs.iter().map(|expr| place.get(expr).copied()).collect::<Option<_>>()?;
        Some(Self { steps, outputs, leaves })
    }

    /// Bounds of all expressions from one time to another.
    pub(crate) fn bounds(&self, times: Range, leaves: &[f64], memory: &mut Vec<Bound>) -> Vec<Bound> {
        memory.clear();
        for step in &self.steps {
            let bound = match *step {
                Step::Number(value) => Bound::constant(Range::point(value)),
                Step::Time => Bound { value: times, slope: Range::point(1.0) },
                Step::Leaf(leaf) => Bound::constant(Range::point(leaves[leaf])),
                Step::Unary(op, arg) => memory[arg].unary(op),
                Step::Binary(op, lhs, rhs) => memory[lhs].binary(op, memory[rhs]),
                Step::Select(condition, then, otherwise) => match memory[condition].value.certain() {
                    Some(true) => memory[then],
                    Some(false) => memory[otherwise],
                    None => Bound { slope: Range::ALL, ..memory[then].hull(memory[otherwise]) },
                },
                Step::Same(arg) => memory[arg],
            };
            let is_bounded = !bound.value.low.is_nan() && !bound.value.high.is_nan();
            memory.push(if is_bounded { bound } else { Bound { value: Range::ALL, slope: Range::ALL } });
        }
        self.outputs.iter().map(|&at| memory[at]).collect()
    }

    /// The values of all expressions at a time.
    pub(crate) fn values(&self, time: f64, leaves: &[f64], memory: &mut Vec<f64>) -> Vec<f64> {
        memory.clear();
        for step in &self.steps {
            let value = match *step {
                Step::Number(value) => value,
                Step::Time => time,
                Step::Leaf(leaf) => leaves[leaf],
                Step::Unary(op, arg) => apply_unary(op, memory[arg]),
                Step::Binary(op, lhs, rhs) => apply_binary(op, memory[lhs], memory[rhs]),
                Step::Select(condition, then, otherwise) => {
                    if memory[condition] == 0.0 {
                        memory[otherwise]
                    } else {
                        memory[then]
                    }
                }
                Step::Same(arg) => memory[arg],
            };
            memory.push(value);
        }
        self.outputs.iter().map(|&at| memory[at]).collect()
    }
}
