//! The alphabet of the expression graph.
//!
//! All values are doubles. Booleans are 0 and 1, Integers and enumeration literals whole numbers (the first literal
//! is 1); the type of a variable says which. Operations follow the Modelica Language Specification
//! [@modelica36, ch. 3].

use crate::function::FunctionId;

/// An expression in a [`crate::Graph`]. Arguments have smaller numbers than the expressions that use them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExprId(pub(crate) u32);

impl ExprId {
    /// Position in the graph's list of nodes.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A variable of the flat model: position in `FlatDae::variables`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct VarId(pub u32);

impl VarId {
    /// Position in the list of variables.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A list of arguments in the graph's pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ArgList {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Operations on one argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum UnaryOp {
    /// `-a`
    Neg,
    /// Boolean `not a`
    Not,
    /// `abs(a)`
    Abs,
    /// `sign(a)`: -1, 0 or 1
    Sign,
    /// `sqrt(a)`
    Sqrt,
    /// `exp(a)`
    Exp,
    /// Natural logarithm
    Log,
    /// Decimal logarithm
    Log10,
    /// `sin(a)`
    Sin,
    /// `cos(a)`
    Cos,
    /// `tan(a)`
    Tan,
    /// `asin(a)`
    Asin,
    /// `acos(a)`
    Acos,
    /// `atan(a)`
    Atan,
    /// `sinh(a)`
    Sinh,
    /// `cosh(a)`
    Cosh,
    /// `tanh(a)`
    Tanh,
    /// `ceil(a)`
    Ceil,
    /// `floor(a)` and `integer(a)`
    Floor,
    /// `noEvent(a)`: relations below are taken literally, they make no events
    NoEvent,
    /// `a` where a `noEvent` around it does not reach: the argument of a function whose body is inside `noEvent`
    WithEvents,
}

/// Operations on two arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// `a ^ b`
    Pow,
    /// `atan2(a, b)`
    Atan2,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
    /// `div(a, b)`: quotient truncated towards zero
    Quotient,
    /// `mod(a, b) = a - floor(a / b) * b`
    Modulo,
    /// `rem(a, b) = a - div(a, b) * b`
    Remainder,
    /// `a < b`
    Less,
    /// `a <= b`
    LessEqual,
    /// `a > b`
    Greater,
    /// `a >= b`
    GreaterEqual,
    /// `a == b`
    Equal,
    /// `a <> b`
    NotEqual,
    /// Boolean `a and b`
    And,
    /// Boolean `a or b`
    Or,
    /// `homotopy(actual = a, simplified = b)`
    Homotopy,
}

impl BinaryOp {
    /// Whether the result is a truth value of an order or equality relation.
    #[must_use]
    pub const fn is_relation(self) -> bool {
        matches!(self, Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual | Self::Equal | Self::NotEqual)
    }

    /// Whether `a op b` and `b op a` are the same, to the last bit. `and` and `or` are not among them: the left
    /// argument may guard the right one.
    #[must_use]
    pub const fn is_commutative(self) -> bool {
        matches!(self, Self::Add | Self::Mul | Self::Min | Self::Max | Self::Equal | Self::NotEqual)
    }
}

impl ArgList {
    /// Number of arguments.
    #[must_use]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there are no arguments.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

// Millions of nodes are compared and hashed; two words each keep that in the cache.
const _: () = assert!(size_of::<Node>() == 16);

/// One node of the expression graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// A number, by its bits (so that equality is exact; -0.0 and 0.0 differ).
    Number(u64),
    /// The independent variable.
    Time,
    /// The `order`-th time derivative of a variable (order 0: the variable itself).
    Var {
        /// The variable.
        var: VarId,
        /// How often it is differentiated.
        order: u16,
    },
    /// `pre(v)`: the left limit of a discrete variable at an event.
    Pre(VarId),
    /// An operation on one argument.
    Unary {
        /// The operation.
        op: UnaryOp,
        /// Its argument.
        arg: ExprId,
    },
    /// An operation on two arguments.
    Binary {
        /// The operation.
        op: BinaryOp,
        /// Left argument.
        lhs: ExprId,
        /// Right argument.
        rhs: ExprId,
    },
    /// `if condition then then else otherwise`
    Select {
        /// A truth value.
        condition: ExprId,
        /// The value where it holds.
        then: ExprId,
        /// The value where it does not.
        otherwise: ExprId,
    },
    /// `smooth(order, arg)`: `arg` is `order` times continuously differentiable.
    Smooth {
        /// The promised smoothness.
        order: u16,
        /// The expression.
        arg: ExprId,
    },
    /// One output of a user function that could not be inlined.
    Call {
        /// Which function.
        function: FunctionId,
        /// Which of its outputs.
        output: u16,
        /// Its arguments.
        args: ArgList,
    },
    /// `sample(start, interval)`: true at the events of the clock.
    Sample {
        /// First tick.
        start: ExprId,
        /// Time between ticks.
        interval: ExprId,
    },
    /// `initial()`
    Initial,
    /// `terminal()`
    Terminal,
    /// A local variable of a function body.
    Local(u32),
    /// An element of an array of locals, `len` locals from `base` on; `index` counts from 1.
    LocalAt {
        /// First local of the array.
        base: u32,
        /// Number of locals.
        len: u32,
        /// Which one, from 1.
        index: ExprId,
    },
}
