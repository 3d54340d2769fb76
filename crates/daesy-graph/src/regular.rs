//! The regular form: every equation that holds, hidden ones included, in the original variables.
//!
//! With the offsets c_i of the equations and d_j of the variables [@pryce2001] the model F(t, x, x', ..) = 0 becomes
//!
//! ```text
//! states       s = all x_j^(k), 0 <= k < d_j         s' = S(s, v): the next derivative, a state or an unknown
//! unknowns     v = x_j^(d_j)                         solved from f_i^(c_i)(t, s, v) = 0
//! constraints  f_i^(k)(t, s) = 0, 0 <= k < c_i       the explicit (k = 0) and the differentiated ones
//! ```
//!
//! so that the number of free start values is (sum of d_j) - (sum of c_i). Index 0 and 1 are the cases with no
//! constraints. [@campbell2011, sec. 2] argues for keeping all constraints and the physical variables.

use crate::finding::Finding;
use crate::flat::FlatDae;
use crate::node::{ExprId, VarId};
use crate::source::Span;

/// A derivative of a variable; order 0 is the variable itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Derivative {
    /// The variable.
    pub var: VarId,
    /// How often it is differentiated.
    pub order: u16,
}

/// What the time derivative of a state is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// The state at this position.
    State(u32),
    /// The unknown at this position.
    Unknown(u32),
}

/// An equation `residual = 0` of the regular form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegularEquation {
    /// What must be zero.
    pub residual: ExprId,
    /// The equation of the flat model it comes from.
    pub source: u32,
    /// How often that equation was differentiated.
    pub differentiated: u16,
}

/// A set of unknowns that must be solved together, from as many equations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SolveBlock {
    /// Positions `start..start + len` in `RegularDae::unknowns` and `RegularDae::equations`.
    pub start: u32,
    /// Number of unknowns.
    pub len: u32,
    /// Whether the equations are linear in these unknowns.
    pub is_linear: bool,
}

/// A variable that was eliminated, and how to recover it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eliminated {
    /// The variable.
    pub var: VarId,
    /// Its value in terms of variables that remain.
    pub value: ExprId,
    /// The equation of the flat model that was used.
    pub source: u32,
}

/// An equation that gives a quantity without a start value of its own the value where a search for the start begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuessRule {
    /// The quantity, one term of the equation's sum, and in no other of its terms.
    pub of: Derivative,
    /// The equation of the flat model.
    pub source: u32,
}

/// How smooth an input has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputUse {
    /// The input.
    pub var: VarId,
    /// The highest derivative of it that the regular form contains.
    pub derivatives_needed: u16,
}

/// The value of a discrete variable between and at events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiscreteEquation {
    /// The variable.
    pub variable: VarId,
    /// Its value.
    pub value: ExprId,
    /// The equation of the flat model it comes from.
    pub source: u32,
    /// Where that was written.
    pub span: Span,
}

/// What structure alone says about a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructuralVerdict {
    /// Structural index.
    pub structural_index: u32,
    /// Number of free start values.
    pub degrees_of_freedom: usize,
    /// Hidden constraints: rank of the derivative incidence less the degrees of freedom.
    pub hidden_constraints: usize,
    /// How often each equation of the flat model is differentiated; eliminated equations count zero.
    pub differentiations: Vec<u16>,
}

/// A model with all its constraints, ready to be compiled.
#[derive(Clone, Debug)]
pub struct RegularDae {
    /// The flat model it comes from; its graph holds the differentiated equations too.
    pub flat: FlatDae,
    /// The states s.
    pub states: Vec<Derivative>,
    /// Their time derivatives.
    pub rates: Vec<Rate>,
    /// The unknowns v, block by block in the order of solution.
    pub unknowns: Vec<Derivative>,
    /// The equations that determine them, block by block.
    pub equations: Vec<RegularEquation>,
    /// The constraints on the states.
    pub constraints: Vec<RegularEquation>,
    /// The blocks of unknowns and equations in the order of solution.
    pub blocks: Vec<SolveBlock>,
    /// Eliminated variables; each value refers to remaining variables only.
    pub eliminated: Vec<Eliminated>,
    /// Guesses that follow from other start values: what definitions would put in, were they put in.
    pub guesses: Vec<GuessRule>,
    /// The inputs, all of them.
    pub inputs: Vec<InputUse>,
    /// Parameters and constants in an order in which each needs only earlier ones.
    pub parameters: Vec<VarId>,
    /// Those of them that follow from parameters which the start determines. No equation, start value or event holds
    /// them: their expressions stand in their places.
    pub bound: Vec<VarId>,
    /// Discrete variables given by equations, in the order of evaluation.
    pub discrete_equations: Vec<DiscreteEquation>,
    /// All discrete variables.
    pub discrete: Vec<VarId>,
    /// Variables whose first derivative occurs in the flat model, in order.
    pub differentiated: Vec<VarId>,
    /// Initial equations with eliminated variables replaced, as `residual = 0`; `source` counts initial equations.
    pub initial_equations: Vec<RegularEquation>,
    /// What structure says.
    pub verdict: StructuralVerdict,
    /// What is to be told to the user.
    pub findings: Vec<Finding>,
}
