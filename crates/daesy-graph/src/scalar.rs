//! The operations on plain numbers: the one place that says what each node of the graph computes.
//!
//! Constant folding and the reference evaluator both use these functions, so that a folded number is the number the
//! evaluator would have given. Conventions where the Modelica Language Specification [@modelica36, ch. 3] leaves room:
//!
//! - truth values are 0 and 1; any number other than zero counts as true;
//! - `0 ^ 0 = 1`, a negative base is fine with a whole exponent and gives NaN otherwise;
//! - `div` truncates towards zero, `mod(a, b) = a - floor(a / b) * b`, `rem(a, b) = a - div(a, b) * b`;
//! - `min`, `max` and `sign` pass NaN on, relations with NaN are false except `<>`;
//! - zeros have no sign: `atan2(-0, -1) = pi`, and `atan2(0, 0) = 0` whatever the signs;
//! - elementary functions are those of the crate `libm`, not of the platform, so that a model has the same
//!   parameters on every machine;
//! - `noEvent` and its opposite are the identity, and `homotopy(actual, simplified)` is `actual`.

use crate::node::{BinaryOp, UnaryOp};

/// A truth value as a number.
#[must_use]
pub const fn truth(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

/// Whether a number counts as true.
#[must_use]
pub fn is_true(value: f64) -> bool {
    value != 0.0
}

/// The value of an operation on one number.
#[must_use]
#[inline]
pub fn apply_unary(op: UnaryOp, a: f64) -> f64 {
    match op {
        UnaryOp::Neg => -a,
        UnaryOp::Not => truth(!is_true(a)),
        UnaryOp::Abs => a.abs(),
        UnaryOp::Sign => {
            if a > 0.0 {
                1.0
            } else if a < 0.0 {
                -1.0
            } else {
                // Zero stays zero and NaN stays NaN.
                a + 0.0
            }
        }
        UnaryOp::Sqrt => a.sqrt(),
        UnaryOp::Exp => libm::exp(a),
        UnaryOp::Log => libm::log(a),
        UnaryOp::Log10 => libm::log10(a),
        UnaryOp::Sin => libm::sin(a),
        UnaryOp::Cos => libm::cos(a),
        UnaryOp::Tan => libm::tan(a),
        UnaryOp::Asin => libm::asin(a),
        UnaryOp::Acos => libm::acos(a),
        UnaryOp::Atan => libm::atan(a),
        UnaryOp::Sinh => libm::sinh(a),
        UnaryOp::Cosh => libm::cosh(a),
        UnaryOp::Tanh => libm::tanh(a),
        UnaryOp::Ceil => a.ceil(),
        UnaryOp::Floor => a.floor(),
        UnaryOp::NoEvent | UnaryOp::WithEvents => a,
    }
}

/// The value of an operation on two numbers.
#[must_use]
#[inline]
pub fn apply_binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Pow => libm::pow(a, b),
        // Adding zero takes the sign from a zero.
        BinaryOp::Atan2 => libm::atan2(a + 0.0, b + 0.0),
        BinaryOp::Min => {
            if a < b || a.is_nan() {
                a
            } else {
                b
            }
        }
        BinaryOp::Max => {
            if a > b || a.is_nan() {
                a
            } else {
                b
            }
        }
        BinaryOp::Quotient => (a / b).trunc(),
        BinaryOp::Modulo => a - (a / b).floor() * b,
        BinaryOp::Remainder => a - (a / b).trunc() * b,
        BinaryOp::Less => truth(a < b),
        BinaryOp::LessEqual => truth(a <= b),
        BinaryOp::Greater => truth(a > b),
        BinaryOp::GreaterEqual => truth(a >= b),
        BinaryOp::Equal => truth(a == b),
        BinaryOp::NotEqual => truth(a != b),
        BinaryOp::And => truth(is_true(a) && is_true(b)),
        BinaryOp::Or => truth(is_true(a) || is_true(b)),
        BinaryOp::Homotopy => a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_division_follows_the_specification() {
        // Examples of the specification's section 3.7.2.
        assert_eq!(apply_binary(BinaryOp::Modulo, 3.0, 1.4), 3.0 - 2.0 * 1.4);
        assert_eq!(apply_binary(BinaryOp::Modulo, -3.0, 1.4), -3.0 + 3.0 * 1.4);
        assert_eq!(apply_binary(BinaryOp::Modulo, 3.0, -1.4), 3.0 - 3.0 * 1.4);
        assert_eq!(apply_binary(BinaryOp::Remainder, 3.0, -1.4), 3.0 - 2.0 * 1.4);
        assert_eq!(apply_binary(BinaryOp::Quotient, -7.0, 2.0), -3.0);
        assert_eq!(apply_binary(BinaryOp::Quotient, 7.0, -2.0), -3.0);
    }

    #[test]
    fn powers_and_nan() {
        assert_eq!(apply_binary(BinaryOp::Pow, 0.0, 0.0), 1.0);
        assert_eq!(apply_binary(BinaryOp::Pow, -2.0, 3.0), -8.0);
        assert!(apply_binary(BinaryOp::Pow, -2.0, 0.5).is_nan());
        assert!(apply_binary(BinaryOp::Max, f64::NAN, 1.0).is_nan());
        assert!(apply_binary(BinaryOp::Min, 1.0, f64::NAN).is_nan());
        assert!(apply_unary(UnaryOp::Sign, f64::NAN).is_nan());
    }
}
