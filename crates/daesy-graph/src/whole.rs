//! Exact arithmetic of Integers that one double does not hold.
//!
//! Integers of a model have 64 bits, values of the graph are doubles, which hold all whole numbers up to 2^53 only.
//! A larger one is a pair of doubles, the nearest double and the whole number that is missing:
//!
//! ```text
//! n = value + rest,   |rest| <= ulp(value) / 2
//! ```
//!
//! Operations on pairs are intrinsics with the outputs (value, rest). The first output alone is the Integer as a Real,
//! rounded once, so that an expression that goes on with Reals needs the second one no more.

use thiserror::Error;

use crate::flat::LARGEST_INTEGER;
use crate::graph::Graph;
use crate::intrinsic::Intrinsic;
use crate::node::{ExprId, Node};

/// An operation on whole numbers of 64 bits. Arguments are pairs `(value, rest)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    /// A number; no arguments.
    Constant(i64),
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `div(a, b)`
    Quotient,
    /// `mod(a, b)`
    Modulo,
    /// `rem(a, b)`
    Remainder,
    /// `min(a, b)`
    Minimum,
    /// `max(a, b)`
    Maximum,
    /// `sign(a - b)`, also where the difference does not fit; one output.
    Compare,
    /// `a` itself where a double holds it, and no value elsewhere; one output.
    Narrow,
}

/// Why an operation on whole numbers has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WholeError {
    /// The result needs more than 64 bits.
    #[error("an Integer overflows: the result needs more than 64 bits")]
    Overflow,
    /// A division by zero.
    #[error("an Integer is divided by zero")]
    DivisionByZero,
    /// A number that must be held by one double is too large for it.
    #[error("an Integer is larger than 2^53 - 1 in magnitude where only such are exact")]
    TooWide,
    /// An argument is not a whole number.
    #[error("an argument is not a whole number")]
    NotWhole,
}

/// The whole number that a pair stands for.
fn join(value: f64, rest: f64) -> Result<i64, WholeError> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if value.fract() != 0.0 || rest.fract() != 0.0 || !(value.abs() <= LIMIT && rest.abs() <= LIMIT) {
        return Err(WholeError::NotWhole);
    }
    i64::try_from(value as i128 + rest as i128).map_err(|_| WholeError::Overflow)
}

/// A whole number as a pair.
fn split(number: i64) -> [f64; 2] {
    let value = number as f64;
    [value, (i128::from(number) - value as i128) as f64]
}

impl Whole {
    /// Number of inputs.
    #[must_use]
    pub const fn n_inputs(self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Narrow => 2,
            _ => 4,
        }
    }

    /// Number of outputs.
    #[must_use]
    pub const fn n_outputs(self) -> usize {
        match self {
            Self::Compare | Self::Narrow => 1,
            _ => 2,
        }
    }

    /// The operation on two numbers; that on one takes the first.
    ///
    /// # Errors
    /// Where the result needs more than 64 bits, or there is none.
    pub fn apply(self, a: i64, b: i64) -> Result<i64, WholeError> {
        let is_division = matches!(self, Self::Quotient | Self::Modulo | Self::Remainder);
        if is_division && b == 0 {
            return Err(WholeError::DivisionByZero);
        }
        let result = match self {
            Self::Constant(number) => Some(number),
            Self::Add => a.checked_add(b),
            Self::Subtract => a.checked_sub(b),
            Self::Multiply => a.checked_mul(b),
            Self::Quotient => a.checked_div(b),
            // The sign of the divisor: a - floor(a / b) * b.
            Self::Modulo => {
                let rest = i128::from(a) % i128::from(b);
                let is_other_side = rest != 0 && (rest < 0) != (b < 0);
                i64::try_from(if is_other_side { rest + i128::from(b) } else { rest }).ok()
            }
            Self::Remainder => Some(a.checked_rem(b).unwrap_or(0)),
            Self::Minimum => Some(a.min(b)),
            Self::Maximum => Some(a.max(b)),
            Self::Compare => Some(a.cmp(&b) as i64),
            Self::Narrow if a.unsigned_abs() > LARGEST_INTEGER as u64 => return Err(WholeError::TooWide),
            Self::Narrow => Some(a),
        };
        result.ok_or(WholeError::Overflow)
    }

    /// The outputs at a point.
    ///
    /// # Errors
    /// As [`Whole::apply`], and where an input is not a whole number.
    pub fn evaluate(self, inputs: &[f64], outputs: &mut [f64]) -> Result<(), WholeError> {
        let mut numbers = [0; 2];
        for (number, pair) in numbers.iter_mut().zip(inputs.chunks_exact(2)) {
            *number = join(pair[0], pair[1])?;
        }
        let result = split(self.apply(numbers[0], numbers[1])?);
        let n = outputs.len();
        outputs.copy_from_slice(&result[..n]);
        Ok(())
    }
}

impl Graph {
    /// A whole number as a constant expression.
    pub fn whole_number(&mut self, number: i64) -> ExprId {
        if number.unsigned_abs() <= LARGEST_INTEGER as u64 {
            return self.number(number as f64);
        }
        self.call_intrinsic(&Intrinsic::Whole(Whole::Constant(number)), 0, &[])
    }

    /// The operation on whole numbers whose value (not rest) an expression is.
    #[must_use]
    pub fn as_whole(&self, expr: ExprId) -> Option<Whole> {
        match self.node(expr) {
            Node::Call { function, output: 0, .. } => self.whole(function),
            _ => None,
        }
    }

    /// The value of an expression that is a whole number.
    #[must_use]
    pub fn as_whole_number(&self, expr: ExprId) -> Option<i64> {
        match self.as_whole(expr) {
            Some(Whole::Constant(number)) => Some(number),
            _ => self.as_number(expr).and_then(|value| join(value, 0.0).ok()),
        }
    }

    /// What is missing in the value of an expression that is an operation on whole numbers with a rest.
    pub fn whole_rest(&mut self, expr: ExprId) -> Option<ExprId> {
        let Node::Call { function, output: 0, args } = self.node(expr) else { return None };
        let has_rest = self.whole(function).is_some_and(|whole| whole.n_outputs() == 2);
        let args = self.args(args).to_vec();
        has_rest.then(|| self.call(function, 1, &args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Whole; 8] = [
        Whole::Add,
        Whole::Subtract,
        Whole::Multiply,
        Whole::Quotient,
        Whole::Modulo,
        Whole::Remainder,
        Whole::Minimum,
        Whole::Maximum,
    ];

    /// By 128 bits, with the definitions of the specification in terms of floor and truncation.
    fn wide(whole: Whole, a: i128, b: i128) -> i128 {
        let floor = |a: i128, b: i128| if (a < 0) != (b < 0) && a % b != 0 { a / b - 1 } else { a / b };
        match whole {
            Whole::Add => a + b,
            Whole::Subtract => a - b,
            Whole::Multiply => a * b,
            Whole::Quotient => a / b,
            Whole::Modulo => a - floor(a, b) * b,
            Whole::Remainder => a - a / b * b,
            Whole::Minimum => a.min(b),
            _ => a.max(b),
        }
    }

    #[test]
    fn pairs_hold_every_number_of_64_bits() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut numbers = vec![0, 1, -1, i64::MAX, i64::MIN, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1];
        numbers.extend((0..60).map(|at| random.i64(..) >> at));
        for &a in &numbers {
            let pair = split(a);
            assert_eq!(join(pair[0], pair[1]), Ok(a));
            for &b in &numbers {
                let inputs = [split(a), split(b)].concat();
                for whole in ALL {
                    let is_division = matches!(whole, Whole::Quotient | Whole::Modulo | Whole::Remainder);
                    let mut out = [0.0; 2];
                    let found = whole.evaluate(&inputs, &mut out).and_then(|()| join(out[0], out[1]));
                    if is_division && b == 0 {
                        assert_eq!(found, Err(WholeError::DivisionByZero), "{whole:?} {a} {b}");
                        continue;
                    }
                    let expected = i64::try_from(wide(whole, a.into(), b.into())).map_err(|_| WholeError::Overflow);
                    assert_eq!(found, expected, "{whole:?} {a} {b}");
                }
                let mut sign = [0.0];
                Whole::Compare.evaluate(&inputs, &mut sign).unwrap();
                assert_eq!(sign[0], f64::from(a.cmp(&b) as i32));
            }
        }
        assert_eq!(Whole::Add.evaluate(&[0.5, 0.0, 1.0, 0.0], &mut [0.0; 2]), Err(WholeError::NotWhole));
        assert_eq!(Whole::Narrow.evaluate(&split((1 << 53) + 1), &mut [0.0]), Err(WholeError::TooWide));
    }

    #[test]
    fn a_number_that_a_double_holds_is_a_plain_number() {
        let mut graph = Graph::default();
        let small = graph.whole_number(-7);
        assert_eq!(graph.as_number(small), Some(-7.0));
        let large = graph.whole_number(9_007_199_254_740_993);
        assert_eq!((graph.as_number(large), graph.as_whole_number(large)), (None, Some(9_007_199_254_740_993)));
        let rest = graph.whole_rest(large).unwrap();
        let mut evaluator = crate::Evaluator::new();
        let values = [large, rest].map(|expr| evaluator.evaluate_checked(&graph, expr, &|_, _| f64::NAN).unwrap());
        assert_eq!(values, [9_007_199_254_740_992.0, 1.0]);
    }
}
