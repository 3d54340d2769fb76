//! User functions that cannot be inlined: small imperative programs over scalar locals.

use std::sync::Arc;

use crate::intrinsic::Intrinsic;
use crate::node::ExprId;
use crate::source::Span;

/// A function in a graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FunctionId(pub u32);

/// A function: inputs are the first locals; outputs are named locals.
///
/// Expressions in the body are nodes of the same graph whose leaves are numbers and
/// [`crate::Node::Local`] / [`crate::Node::LocalAt`].
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Full name, such as `Lib.newton`.
    pub name: String,
    /// Number of scalar inputs; they are locals `0..n_inputs`.
    pub n_inputs: u32,
    /// The local that holds each scalar output.
    pub outputs: Vec<u32>,
    /// Number of locals in all; those that are not inputs start at zero.
    pub n_locals: u32,
    /// The program.
    pub body: Vec<Statement>,
    /// Where it was written.
    pub span: Span,
}

/// One statement of a function body.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// `local := value`
    Assign {
        /// The local.
        local: u32,
        /// Its new value.
        value: ExprId,
    },
    /// `array[index] := value`
    AssignAt {
        /// First local of the array.
        base: u32,
        /// Number of its locals.
        len: u32,
        /// Which one, from 1.
        index: ExprId,
        /// Its new value.
        value: ExprId,
    },
    /// `if condition then .. else ..`
    If {
        /// The condition.
        condition: ExprId,
        /// Where it holds.
        then: Vec<Statement>,
        /// Where it does not.
        otherwise: Vec<Statement>,
    },
    /// `while condition loop .. end while`
    While {
        /// The condition.
        condition: ExprId,
        /// The body.
        body: Vec<Statement>,
    },
    /// `results := intrinsic(args)`
    Intrinsic {
        /// What is computed.
        intrinsic: Arc<Intrinsic>,
        /// The locals that are its inputs.
        args: Vec<u32>,
        /// The locals that get its outputs.
        results: Vec<u32>,
    },
    /// `break`
    Break,
    /// `return`
    Return,
    /// `assert(condition, message)`
    Assert {
        /// What must hold.
        condition: ExprId,
        /// What to say when it does not.
        message: String,
    },
}
