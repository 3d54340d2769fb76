//! Integers of 64 bits: exact beyond what one double holds.
//!
//! An operation on Integers is a plain operation on doubles as long as its result can be told apart from a rounded one:
//! a double of at most 2^53 - 1 in magnitude that comes out of it is exact. Every expression has a range that its exact
//! value lies in; variables hold at most 2^53 - 1 (larger ones are refused when they are set). Where a number in between
//! may be larger and what is done with it would hide that (`mod(a*n + c, m)`), the operation is one on pairs of doubles
//! ([`daesy_graph::whole`]), and so is everything below it that may be too large.

use daesy_graph::flat::{Assertion, LARGEST_INTEGER};
use daesy_graph::intrinsic::Intrinsic;
use daesy_graph::traverse::Leaf;
use daesy_graph::whole::{Whole, WholeError};
use daesy_graph::{BinaryOp as Op, ExprId, Node, Span, UnaryOp, VariableKind};
use rustc_hash::FxHashMap;

use super::instance::PrimId;
use super::value::{Field, Scalars, Type, Value};
use super::{Flattener, Refused, Res};
use crate::syntax::ExprKind;

/// Whole numbers up to this one are doubles.
const EXACT: i128 = 1 << 53;

/// Largest magnitude of an Integer variable.
const LARGEST: i128 = LARGEST_INTEGER as i128;

/// How far a local variable of a program may leave the exact numbers before that is looked at when the model runs: by
/// what a counter adds, not by sums and products of variables.
const SLACK: i128 = 1 << 32;

/// Nested conditional expressions that are looked into.
const DEEPEST: usize = 200;

/// Where the exact value of an expression lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    low: i128,
    high: i128,
}

impl Range {
    const VARIABLE: Self = Self { low: -LARGEST, high: LARGEST };
    const ALL: Self = Self { low: i64::MIN as i128, high: i64::MAX as i128 };

    const fn is_exact(self) -> bool {
        self.low >= -EXACT && self.high <= EXACT
    }

    fn size(self) -> i128 {
        self.low.abs().max(self.high.abs())
    }

    const fn negated(self) -> Self {
        Self { low: -self.high, high: -self.low }
    }

    fn of(ends: [i128; 4]) -> Self {
        let [a, b, c, d] = ends;
        Self { low: a.min(b).min(c).min(d), high: a.max(b).max(c).max(d) }
    }

    fn around(size: i128) -> Self {
        Self { low: -size, high: size }
    }

    fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    fn within_64_bits(self) -> Self {
        let clamped = |value: i128| value.clamp(Self::ALL.low, Self::ALL.high);
        Self { low: clamped(self.low), high: clamped(self.high) }
    }

    /// Whether adding a number of the other range leaves what is too large to be exact too large.
    const fn stays_told(self, added: Self) -> bool {
        (self.high <= EXACT || added.low >= 0) && (self.low >= -EXACT || added.high <= 0)
    }
}

/// What is known of Integers so far.
#[derive(Default)]
pub(crate) struct Integers {
    ranges: FxHashMap<ExprId, Range>,
    /// Plain expressions that may be too large, as operations on pairs.
    exact: FxHashMap<ExprId, ExprId>,
    /// Parameters whose values one double does not hold.
    wide: FxHashMap<PrimId, Option<Value>>,
}

impl<'a> Flattener<'a> {
    /// An operation on two Integers; relations too.
    pub(crate) fn integer_binary(&mut self, op: Op, left: ExprId, right: ExprId, span: Span) -> Res<ExprId> {
        let Some(whole) = whole_of(op) else { return Ok(self.graph.binary(op, left, right)) };
        if let (Some(a), Some(b)) = (self.graph.as_whole_number(left), self.graph.as_whole_number(right)) {
            return match whole.apply(a, b) {
                Ok(sign) if whole == Whole::Compare => {
                    let (sign, zero) = (self.graph.number(sign as f64), self.graph.number(0.0));
                    Ok(self.graph.binary(op, sign, zero))
                }
                Ok(number) => Ok(self.graph.whole_number(number)),
                Err(error) => Err(self.no_integer(error, &format!("{a} {} {b}", word(op)), span)),
            };
        }
        let (a, b) = (self.integer_range_of(left, 0), self.integer_range_of(right, 0));
        let is_plain = match op {
            // A rounded number that is too large compares as the exact one does with all that are not.
            Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual | Op::Equal | Op::NotEqual => {
                a.is_exact() || b.is_exact()
            }
            _ if (!a.is_exact() && self.is_paired(left)) || (!b.is_exact() && self.is_paired(right)) => false,
            Op::Add => a.stays_told(b) && b.stays_told(a),
            Op::Sub => a.stays_told(b.negated()) && b.negated().stays_told(a),
            Op::Mul | Op::Min | Op::Max => true,
            _ => a.is_exact() && b.is_exact(),
        };
        let item = if is_plain {
            self.graph.binary(op, left, right)
        } else {
            let item = self.pair_operation(whole, left, right, span)?;
            if whole == Whole::Compare {
                self.assert_compared(item, span);
                let zero = self.graph.number(0.0);
                return Ok(self.graph.binary(op, item, zero));
            }
            item
        };
        if whole != Whole::Compare && self.graph.as_number(item).is_none() {
            let range = result_range(op, a, b).within_64_bits();
            self.integers.ranges.insert(item, range);
        }
        Ok(item)
    }

    /// `-n`
    pub(crate) fn integer_negated(&mut self, item: ExprId, span: Span) -> Res<ExprId> {
        let range = self.integer_range_of(item, 0);
        if range.is_exact() || !self.is_paired(item) {
            let negated = self.graph.neg(item);
            if self.graph.as_number(negated).is_none() {
                self.integers.ranges.insert(negated, range.negated());
            }
            return Ok(negated);
        }
        let zero = self.graph.number(0.0);
        self.integer_binary(Op::Sub, zero, item, span)
    }

    /// `abs(n)`
    pub(crate) fn integer_magnitude(&mut self, item: ExprId, span: Span) -> Res<ExprId> {
        let range = self.integer_range_of(item, 0);
        if range.is_exact() || !self.is_paired(item) {
            let magnitude = self.graph.unary(UnaryOp::Abs, item);
            if self.graph.as_number(magnitude).is_none() {
                self.integers.ranges.insert(magnitude, Range { low: 0, high: range.size() });
            }
            return Ok(magnitude);
        }
        let negated = self.integer_negated(item, span)?;
        self.integer_binary(Op::Max, item, negated, span)
    }

    /// Numbers as Integers: what a double beyond 2^53 - 1 says is exact, but sums of it are not.
    pub(crate) fn check_integers(&mut self, scalars: &mut Scalars, span: Span) -> Res<()> {
        if scalars.ty != Type::Integer {
            return Ok(());
        }
        for item in &mut scalars.items {
            if let Some(number) = self.graph.as_number(*item).filter(|number| number.abs() > LARGEST_INTEGER) {
                *item = match self.graph.as_whole_number(*item) {
                    Some(whole) => self.graph.whole_number(whole),
                    None => return Err(self.no_integer(WholeError::Overflow, &number.to_string(), span)),
                };
            }
        }
        Ok(())
    }

    /// Integers as Reals: the nearest doubles. Those that may need more than 64 bits are refused where their parameters
    /// say that they do, and have no value where they do when the model runs.
    pub(crate) fn as_reals(&mut self, scalars: &mut Scalars, span: Span) -> Res<()> {
        if scalars.ty != Type::Integer {
            return Ok(());
        }
        for item in &mut scalars.items {
            if let Some(Whole::Constant(number)) = self.graph.as_whole(*item) {
                *item = self.graph.number(number as f64);
            } else if self.may_overflow(*item) {
                *item = self.fitting(*item, span)?;
            } else if !self.integer_range_of(*item, 0).is_exact() {
                *item = self.fitting_branches(*item, 0, span)?;
            }
        }
        Ok(())
    }

    /// A conditional Integer whose branches have a value only if they fit: which one counts is not known here.
    fn fitting_branches(&mut self, item: ExprId, depth: usize, span: Span) -> Res<ExprId> {
        if self.may_overflow(item) {
            return Ok(self.pair(item, 0, span)?[0]);
        }
        let Node::Select { condition, then, otherwise } = self.graph.node(item) else { return Ok(item) };
        if depth > DEEPEST {
            return Ok(item);
        }
        let then = self.fitting_branches(then, depth + 1, span)?;
        let otherwise = self.fitting_branches(otherwise, depth + 1, span)?;
        Ok(self.graph.select(condition, then, otherwise))
    }

    /// Whether an operation on Integers may need more than 64 bits.
    fn may_overflow(&mut self, item: ExprId) -> bool {
        let is_operation = match self.graph.node(item) {
            Node::Binary { op, .. } => whole_of(op).is_some_and(|whole| whole != Whole::Compare),
            Node::Unary { op, .. } => matches!(op, UnaryOp::Neg | UnaryOp::Abs),
            _ => self.is_paired(item),
        };
        let range = self.integer_range_of(item, 0);
        is_operation && (range.low <= Range::ALL.low || range.high >= Range::ALL.high)
    }

    /// An Integer that may need more than 64 bits as a Real, which has a value only if it does not.
    fn fitting(&mut self, item: ExprId, span: Span) -> Res<ExprId> {
        let [exact, _] = self.pair(item, 0, span)?;
        if self.peek(exact).is_none() {
            let what = self.peek(item).map_or_else(|| "of this expression".to_owned(), |value| value.to_string());
            return Err(self.no_integer(WholeError::Overflow, &what, span));
        }
        let mut leaves = Vec::new();
        self.reach.leaves(&self.graph, &[item], &mut leaves);
        let is_parameter = |leaf: &Leaf| match *leaf {
            Leaf::Var { var, order: 0 } => {
                matches!(self.variables[var.index()].kind, VariableKind::Parameter | VariableKind::Constant)
            }
            _ => false,
        };
        if leaves.iter().all(is_parameter) && !self.reads_locals(&[item]) {
            return Ok(item);
        }
        let least = self.graph.number(i64::MIN as f64);
        let condition = self.graph.binary(Op::GreaterEqual, exact, least);
        self.assert_fits(exact, condition, span);
        Ok(exact)
    }

    /// Integers that are given to a place that holds a double only: too large ones have no value when the model runs,
    /// and are refused here where they are known.
    pub(crate) fn narrowed(&mut self, value: &Value, span: Span) -> Res<Value> {
        Ok(match value {
            Value::Scalars(scalars) if scalars.ty == Type::Integer => {
                let mut scalars = scalars.clone();
                for item in &mut scalars.items {
                    *item = self.narrow(*item, span)?;
                }
                Value::Scalars(scalars)
            }
            Value::Record(record) => {
                let mut record = record.clone();
                let fields = std::mem::take(&mut record.fields);
                for Field { name, value } in fields {
                    record.fields.push(Field { name, value: self.narrowed(&value, span)? });
                }
                Value::Record(record)
            }
            Value::Tuple(items) => {
                let items: Res<Vec<Value>> = items.iter().map(|item| self.narrowed(item, span)).collect();
                Value::Tuple(items?)
            }
            other => other.clone(),
        })
    }

    fn narrow(&mut self, item: ExprId, span: Span) -> Res<ExprId> {
        if let Some(Whole::Constant(number)) = self.graph.as_whole(item) {
            return Err(self.no_integer(WholeError::TooWide, &number.to_string(), span));
        }
        let range = self.integer_range_of(item, 0);
        if range.size() <= EXACT + SLACK {
            return Ok(item);
        }
        let [value, rest] = self.pair(item, 0, span)?;
        Ok(self.graph.call_intrinsic(&Intrinsic::Whole(Whole::Narrow), 0, &[value, rest]))
    }

    /// The exact value of an Integer of constants and parameters.
    pub(crate) fn known_integer(&mut self, item: ExprId, span: Span) -> Res<i64> {
        if let Some(number) = self.graph.as_whole_number(item) {
            return Ok(number);
        }
        let [value, rest] = self.pair(item, 0, span)?;
        let (value, rest) = (self.known_number(value, span)?, self.known_number(rest, span)?);
        let exact = value as i128 + rest as i128;
        let is_whole = value.fract() == 0.0 && rest.fract() == 0.0;
        match i64::try_from(exact).ok().filter(|_| is_whole) {
            Some(number) => Ok(number),
            None => Err(self.no_integer(WholeError::Overflow, &value.to_string(), span)),
        }
    }

    /// The value of an Integer parameter that one double does not hold; it is put in wherever the parameter is used.
    pub(crate) fn wide_parameter(&mut self, id: PrimId, span: Span) -> Option<Value> {
        if let Some(known) = self.integers.wide.get(&id) {
            return known.clone();
        }
        if self.evaluating.contains(&id) {
            return None;
        }
        let found = self.find_wide(id, span);
        self.integers.wide.insert(id, found.clone());
        found
    }

    fn find_wide(&mut self, id: PrimId, span: Span) -> Option<Value> {
        let layer = self.binding_layer(id).cloned()?;
        let binding = self.modifier(layer.mods).binding?;
        let is_small = matches!(binding.kind, ExprKind::Integer(number) if i128::from(number) <= LARGEST);
        let first = self.prim(id).first?;
        if is_small || self.options.values.contains_key(&self.variables[first.index()].name) {
            return None;
        }
        self.evaluating.push(id);
        let value = self.layer_value(&layer, false);
        self.evaluating.pop();
        let Ok(Value::Scalars(scalars)) = value else { return None };
        let mut is_wide = false;
        for &item in &scalars.items {
            let range = self.integer_range_of(item, 0);
            is_wide |= range.size() > LARGEST && self.peek(item).is_none_or(|value| value.abs() > LARGEST_INTEGER);
        }
        // Its value is part of the translation now, as an array size is.
        is_wide.then(|| self.known_value(id, span).ok().map(|value| Value::clone(&value))).flatten()
    }

    /// The value of an expression of parameters that are given as numbers; `None` for all others. Nothing becomes
    /// structural by it.
    fn peek(&mut self, item: ExprId) -> Option<f64> {
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, &[item], &mut leaves);
        self.reach = reach;
        let mut known = FxHashMap::default();
        for leaf in leaves {
            let Leaf::Var { var, order: 0 } = leaf else { return Some(0.0) };
            let id = self.var_prims[var.index()];
            if self.evaluating.contains(&id) {
                return Some(0.0);
            }
            let wished = self.options.values.get(&self.variables[var.index()].name).copied();
            let value = match wished {
                Some(value) => value,
                None => {
                    let layer = self.binding_layer(id).cloned();
                    let offset = var.index() - self.prim(id).first.map_or(0, daesy_graph::VarId::index);
                    self.evaluating.push(id);
                    let value = layer.and_then(|layer| self.layer_value(&layer, false).ok());
                    let value = match value {
                        Some(Value::Scalars(scalars)) => scalars.items.get(offset).and_then(|&item| self.peek(item)),
                        _ => None,
                    };
                    self.evaluating.pop();
                    // What is not known is looked at when the model runs.
                    let Some(value) = value else { return Some(0.0) };
                    value
                }
            };
            known.insert(var, value);
        }
        let env = |var: daesy_graph::VarId, _: u16| known.get(&var).copied().unwrap_or(f64::NAN);
        self.evaluator.evaluate_checked(&self.graph, item, &env).ok()
    }

    /// Whether an expression is an operation on pairs.
    fn is_paired(&self, item: ExprId) -> bool {
        self.graph.as_whole(item).is_some_and(|whole| whole.n_outputs() == 2)
    }

    fn integer_range_of(&mut self, item: ExprId, depth: usize) -> Range {
        if let Some(number) = self.graph.as_whole_number(item) {
            return Range { low: number.into(), high: number.into() };
        }
        if let Some(&range) = self.integers.ranges.get(&item) {
            return range;
        }
        if depth > DEEPEST {
            return Range::ALL;
        }
        let range = match self.graph.node(item) {
            Node::Select { then, otherwise, .. } => {
                self.integer_range_of(then, depth + 1).hull(self.integer_range_of(otherwise, depth + 1))
            }
            Node::Unary { op: UnaryOp::NoEvent | UnaryOp::WithEvents, arg } | Node::Smooth { arg, .. } => {
                self.integer_range_of(arg, depth + 1)
            }
            Node::Binary { op: Op::Homotopy, lhs, rhs } => {
                self.integer_range_of(lhs, depth + 1).hull(self.integer_range_of(rhs, depth + 1))
            }
            _ => return Range::VARIABLE,
        };
        self.integers.ranges.insert(item, range);
        range
    }

    fn pair_operation(&mut self, whole: Whole, left: ExprId, right: ExprId, span: Span) -> Res<ExprId> {
        let ([a, a_rest], [b, b_rest]) = (self.pair(left, 0, span)?, self.pair(right, 0, span)?);
        Ok(self.graph.call_intrinsic(&Intrinsic::Whole(whole), 0, &[a, a_rest, b, b_rest]))
    }

    /// The nearest double and the rest of an Integer.
    fn pair(&mut self, item: ExprId, depth: usize, span: Span) -> Res<[ExprId; 2]> {
        let zero = self.graph.number(0.0);
        if depth > DEEPEST {
            return Err(self.limit("the depth of an Integer expression that may be large", DEEPEST, span));
        }
        if let Some(rest) = self.graph.whole_rest(item) {
            return Ok([item, rest]);
        }
        if self.integer_range_of(item, 0).is_exact() {
            return Ok([item, zero]);
        }
        if let Some(&exact) = self.integers.exact.get(&item) {
            return Ok(self.graph.whole_rest(exact).map_or([exact, zero], |rest| [exact, rest]));
        }
        match self.graph.node(item) {
            Node::Select { condition, then, otherwise } => {
                let (then, otherwise) = (self.pair(then, depth + 1, span)?, self.pair(otherwise, depth + 1, span)?);
                Ok([0, 1].map(|at| self.graph.select(condition, then[at], otherwise[at])))
            }
            Node::Unary { op: op @ (UnaryOp::NoEvent | UnaryOp::WithEvents), arg } => {
                let arg = self.pair(arg, depth + 1, span)?;
                Ok(arg.map(|part| self.graph.unary(op, part)))
            }
            Node::Smooth { arg, .. } => self.pair(arg, depth + 1, span),
            Node::Binary { op: Op::Homotopy, lhs, rhs } => {
                let (actual, simplified) = (self.pair(lhs, depth + 1, span)?, self.pair(rhs, depth + 1, span)?);
                Ok([0, 1].map(|at| self.graph.homotopy(actual[at], simplified[at])))
            }
            node => {
                let parts = match node {
                    Node::Binary { op, lhs, rhs } => whole_of(op).map(|whole| (whole, lhs, rhs)),
                    Node::Unary { op: UnaryOp::Neg, arg } => Some((Whole::Subtract, zero, arg)),
                    Node::Unary { op: UnaryOp::Abs, arg } => {
                        let negated = self.graph.neg(arg);
                        let range = self.integer_range_of(arg, 0);
                        self.integers.ranges.insert(negated, range.negated());
                        Some((Whole::Maximum, arg, negated))
                    }
                    _ => None,
                };
                let Some((whole, lhs, rhs)) = parts.filter(|(whole, ..)| *whole != Whole::Compare) else {
                    return Ok([item, zero]);
                };
                let ([a, a_rest], [b, b_rest]) = (self.pair(lhs, depth + 1, span)?, self.pair(rhs, depth + 1, span)?);
                let exact = self.graph.call_intrinsic(&Intrinsic::Whole(whole), 0, &[a, a_rest, b, b_rest]);
                self.integers.exact.insert(item, exact);
                Ok(self.graph.whole_rest(exact).map_or([exact, zero], |rest| [exact, rest]))
            }
        }
    }

    /// A comparison of numbers that overflow is neither true nor false.
    fn assert_compared(&mut self, item: ExprId, span: Span) {
        let least = self.graph.number(-1.0);
        let condition = self.graph.binary(Op::GreaterEqual, item, least);
        self.assert_fits(item, condition, span);
    }

    /// Asserts a condition that holds unless an Integer overflows, where it is computed.
    fn assert_fits(&mut self, item: ExprId, mut condition: ExprId, span: Span) {
        if self.reads_locals(&[item]) {
            return;
        }
        let guards: Vec<ExprId> = self.functions.path.iter().chain(&self.functions.when).copied().collect();
        for guard in guards {
            let negated = self.graph.not(guard);
            condition = self.graph.or(negated, condition);
        }
        if self.functions.asserted.insert((condition, span)) {
            let message = WholeError::Overflow.to_string();
            let component = std::sync::Arc::from("");
            self.out.assertions.push(Assertion { condition, message, is_warning: false, component, span });
        }
    }

    /// Whether expressions are those of a program.
    pub(crate) fn reads_locals(&mut self, items: &[ExprId]) -> bool {
        let mut reach = std::mem::take(&mut self.reach);
        let below = reach.below(&self.graph, items);
        let found = below.iter().any(|&at| matches!(self.graph.node(at), Node::Local(_) | Node::LocalAt { .. }));
        self.reach = reach;
        found
    }

    /// An Integer that does not fit.
    pub(crate) fn no_integer(&mut self, error: WholeError, what: &str, span: Span) -> Refused {
        match error {
            WholeError::DivisionByZero => {
                let message = format!("`{what}` divides by zero: it has no value");
                self.error_help("evaluation", span, message, "the second argument must not be 0")
            }
            WholeError::TooWide => {
                let message = format!(
                    "the Integer {what} is too large here: while a model runs, Integers are exact up to 2^53 - 1 = \
                     {LARGEST_INTEGER} only"
                );
                self.error_help("integer-range", span, message, "use a Real if the number need not be exact")
            }
            _ => {
                let message = format!("the Integer {what} overflows: Integers have 64 bits, up to {}", i64::MAX);
                self.error_help("integer-range", span, message, "use Reals if the number need not be exact")
            }
        }
    }
}

/// The operation on pairs that an operation on doubles stands for.
const fn whole_of(op: Op) -> Option<Whole> {
    Some(match op {
        Op::Add => Whole::Add,
        Op::Sub => Whole::Subtract,
        Op::Mul => Whole::Multiply,
        Op::Quotient => Whole::Quotient,
        Op::Modulo => Whole::Modulo,
        Op::Remainder => Whole::Remainder,
        Op::Min => Whole::Minimum,
        Op::Max => Whole::Maximum,
        Op::Less | Op::LessEqual | Op::Greater | Op::GreaterEqual | Op::Equal | Op::NotEqual => Whole::Compare,
        _ => return None,
    })
}

const fn word(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::Quotient => "div",
        Op::Modulo => "mod",
        _ => "rem",
    }
}

fn result_range(op: Op, a: Range, b: Range) -> Range {
    match op {
        Op::Add => Range { low: a.low + b.low, high: a.high + b.high },
        Op::Sub => Range { low: a.low - b.high, high: a.high - b.low },
        Op::Mul => Range::of([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high]),
        Op::Min => Range { low: a.low.min(b.low), high: a.high.min(b.high) },
        Op::Max => Range { low: a.low.max(b.low), high: a.high.max(b.high) },
        Op::Modulo if b.low > 0 => Range { low: 0, high: b.high - 1 },
        Op::Modulo => Range::around(b.size()),
        Op::Remainder => Range::around(a.size().min(b.size())),
        _ => Range::around(a.size()),
    }
}
