//! The operations of a tape, each with its one definition as a kernel over lanes.
//!
//! Numbers are doubles; truth values are 0 and 1, and any number other than zero (NaN included) counts as true. NaN:
//!
//! - arithmetic, `Sign`, `Min`, `Max` and all functions pass it on (`Pow` as IEEE 754: x^0 = 1^y = 1 also then);
//! - relations with it are false, except `NotEqual`, which is true;
//! - `Select` looks at the condition's truth only and returns the chosen argument untouched.
//!
//! `Min` and `Max` return their second argument where the two compare equal (that matters for zeros of different sign).
//! Sign and payload of a NaN are not specified and never matter to any operation.

use crate::kernels::{circular, elementary, exponential, hyperbolic, inverse_circular, logarithm, power};
use crate::lanes::Lanes;

/// A function of one argument.
pub(crate) trait UnaryKernel {
    fn apply<L: Lanes>(a: L) -> L;
}

/// A function of two arguments.
pub(crate) trait BinaryKernel {
    fn apply<L: Lanes>(a: L, b: L) -> L;
}

/// A function of three arguments.
pub(crate) trait TernaryKernel {
    fn apply<L: Lanes>(a: L, b: L, c: L) -> L;
}

/// What to do with the kernel of an operation once it is known at compile time.
pub(crate) trait OpcodeVisitor: Sized {
    fn copy(self);
    fn unary<K: UnaryKernel>(self);
    fn binary<K: BinaryKernel>(self);
    fn ternary<K: TernaryKernel>(self);
    fn sin_cos(self);
    fn call(self);
}

macro_rules! operations {
    (
        unary { $( $(#[$unary_doc:meta])* $unary:ident = |$ua:ident| $unary_body:expr; )* }
        binary { $( $(#[$binary_doc:meta])* $binary:ident = |$ba:ident, $bb:ident| $binary_body:expr; )* }
        ternary { $( $(#[$ternary_doc:meta])* $ternary:ident = |$ta:ident, $tb:ident, $tc:ident| $ternary_body:expr; )* }
    ) => {
        /// Operations on one argument.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Unary { $( $(#[$unary_doc])* $unary, )* }

        /// Operations on two arguments.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Binary { $( $(#[$binary_doc])* $binary, )* }

        /// Operations on three arguments.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Ternary { $( $(#[$ternary_doc])* $ternary, )* }

        /// What an [`crate::Instruction`] does.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Opcode {
            /// `target = a`
            Copy,
            $( $(#[$unary_doc])* $unary, )*
            $( $(#[$binary_doc])* $binary, )*
            $( $(#[$ternary_doc])* $ternary, )*
            /// `target = sin(a)` and slot `b` `= cos(a)`
            SinCos,
            /// Call number `a` of [`crate::Tape::calls`]
            Call,
        }

        /// The kernels by the name of their operation.
        pub(crate) mod kernel {
            use super::*;
            $(
                pub(crate) struct $unary;
                impl UnaryKernel for $unary {
                    #[inline(always)]
                    fn apply<L: Lanes>($ua: L) -> L { $unary_body }
                }
            )*
            $(
                pub(crate) struct $binary;
                impl BinaryKernel for $binary {
                    #[inline(always)]
                    fn apply<L: Lanes>($ba: L, $bb: L) -> L { $binary_body }
                }
            )*
            $(
                pub(crate) struct $ternary;
                impl TernaryKernel for $ternary {
                    #[inline(always)]
                    fn apply<L: Lanes>($ta: L, $tb: L, $tc: L) -> L { $ternary_body }
                }
            )*
        }

        impl Unary {
            /// All operations on one argument.
            pub const ALL: &[Self] = &[$( Self::$unary, )*];
            /// The result on one number; the interpreters give the same bits.
            #[must_use]
            pub fn evaluate(self, a: f64) -> f64 {
                match self { $( Self::$unary => kernel::$unary::apply(a), )* }
            }
        }
        impl Binary {
            /// All operations on two arguments.
            pub const ALL: &[Self] = &[$( Self::$binary, )*];
            /// The result on two numbers; the interpreters give the same bits.
            #[must_use]
            pub fn evaluate(self, a: f64, b: f64) -> f64 {
                match self { $( Self::$binary => kernel::$binary::apply(a, b), )* }
            }
        }
        impl Ternary {
            /// All operations on three arguments.
            pub const ALL: &[Self] = &[$( Self::$ternary, )*];
            /// The result on three numbers; the interpreters give the same bits.
            #[must_use]
            pub fn evaluate(self, a: f64, b: f64, c: f64) -> f64 {
                match self { $( Self::$ternary => kernel::$ternary::apply(a, b, c), )* }
            }
        }
        impl From<Unary> for Opcode {
            fn from(op: Unary) -> Self {
                match op { $( Unary::$unary => Self::$unary, )* }
            }
        }
        impl From<Binary> for Opcode {
            fn from(op: Binary) -> Self {
                match op { $( Binary::$binary => Self::$binary, )* }
            }
        }
        impl From<Ternary> for Opcode {
            fn from(op: Ternary) -> Self {
                match op { $( Ternary::$ternary => Self::$ternary, )* }
            }
        }
        impl Opcode {
            /// How many of the operands `a`, `b`, `c` are read.
            #[must_use]
            pub const fn n_operands(self) -> usize {
                match self {
                    Self::Call => 0,
                    Self::Copy | Self::SinCos $( | Self::$unary )* => 1,
                    $( Self::$binary )|* => 2,
                    $( Self::$ternary )|* => 3,
                }
            }
        }

        /// Hands the kernel of an operation to a visitor.
        #[inline(always)]
        pub(crate) fn visit<V: OpcodeVisitor>(op: Opcode, visitor: V) {
            match op {
                Opcode::Copy => visitor.copy(),
                $( Opcode::$unary => visitor.unary::<kernel::$unary>(), )*
                $( Opcode::$binary => visitor.binary::<kernel::$binary>(), )*
                $( Opcode::$ternary => visitor.ternary::<kernel::$ternary>(), )*
                Opcode::SinCos => visitor.sin_cos(),
                Opcode::Call => visitor.call(),
            }
        }
    };
}

operations! {
    unary {
        /// `-a`
        Neg = |a| -a;
        /// 1 if a is 0, else 0
        Not = |a| elementary::truth::<L>(a.eq(L::splat(0.0)));
        /// `|a|`
        Abs = |a| a.abs();
        /// -1, 0 or 1
        Sign = |a| elementary::sign(a);
        /// Square root, NaN below zero
        Sqrt = |a| a.sqrt();
        /// e^a
        Exp = |a| exponential::exp(a);
        /// Natural logarithm
        Log = |a| logarithm::log(a);
        /// Decimal logarithm
        Log10 = |a| logarithm::log10(a);
        /// Sine
        Sin = |a| circular::sin(a);
        /// Cosine
        Cos = |a| circular::cos(a);
        /// Tangent
        Tan = |a| circular::tan(a);
        /// Arc sine
        Asin = |a| inverse_circular::asin(a);
        /// Arc cosine
        Acos = |a| inverse_circular::acos(a);
        /// Arc tangent
        Atan = |a| inverse_circular::atan(a);
        /// Hyperbolic sine
        Sinh = |a| hyperbolic::sinh(a);
        /// Hyperbolic cosine
        Cosh = |a| hyperbolic::cosh(a);
        /// Hyperbolic tangent
        Tanh = |a| hyperbolic::tanh(a);
        /// Smallest whole number not below a
        Ceil = |a| a.ceil();
        /// Largest whole number not above a
        Floor = |a| a.floor();
        /// a without its fraction
        Trunc = |a| a.trunc();
    }
    binary {
        /// `a + b`
        Add = |a, b| a + b;
        /// `a - b`
        Sub = |a, b| a - b;
        /// `a * b`
        Mul = |a, b| a * b;
        /// `a / b`
        Div = |a, b| a / b;
        /// a to the power b, NaN for negative a and fractional b
        Pow = |a, b| power::pow(a, b);
        /// The angle of the point (b, a)
        Atan2 = |a, b| inverse_circular::atan2(a, b);
        /// The smaller
        Min = |a, b| elementary::min(a, b);
        /// The larger
        Max = |a, b| elementary::max(a, b);
        /// a / b truncated towards zero
        Quotient = |a, b| elementary::whole_quotient(a, b);
        /// `a - floor(a / b) * b`
        Modulo = |a, b| elementary::modulo(a, b);
        /// `a - trunc(a / b) * b`
        Remainder = |a, b| elementary::remainder(a, b);
        /// `a < b`
        Less = |a, b| elementary::truth::<L>(a.lt(b));
        /// `a <= b`
        LessEqual = |a, b| elementary::truth::<L>(a.le(b));
        /// `a > b`
        Greater = |a, b| elementary::truth::<L>(b.lt(a));
        /// `a >= b`
        GreaterEqual = |a, b| elementary::truth::<L>(b.le(a));
        /// `a == b`
        Equal = |a, b| elementary::truth::<L>(a.eq(b));
        /// `a != b`
        NotEqual = |a, b| elementary::truth::<L>(!a.eq(b));
        /// Both are true
        And = |a, b| elementary::truth::<L>(elementary::is_true(a) & elementary::is_true(b));
        /// At least one is true
        Or = |a, b| elementary::truth::<L>(elementary::is_true(a) | elementary::is_true(b));
    }
    ternary {
        /// b if a is true, else c
        Select = |a, b, c| L::select(elementary::is_true(a), b, c);
        /// `a * b + c`, product and sum both rounded
        MulThenAdd = |a, b, c| a * b + c;
        /// `a * b - c`, product and difference both rounded
        MulThenSub = |a, b, c| a * b - c;
        /// `c - a * b`, product and difference both rounded
        SubProduct = |a, b, c| c - a * b;
        /// `a * b + c`, rounded once
        FusedMulAdd = |a, b, c| a.fused_mul_add(b, c);
        /// `a * b - c`, rounded once
        FusedMulSub = |a, b, c| a.fused_mul_add(b, -c);
        /// `c - a * b`, rounded once
        FusedSubProduct = |a, b, c| (-a).fused_mul_add(b, c);
    }
}
