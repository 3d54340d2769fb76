//! The flat model: scalar variables and equations in the user's words, before any analysis.

use std::sync::Arc;

use crate::finding::Finding;
use crate::graph::Graph;
use crate::node::{ExprId, VarId};
use crate::shared::Shared;
use crate::source::{SourceMap, Span};
use crate::unit::Unit;

/// What a variable is to the model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VariableKind {
    /// Fixed for good; its value is folded into the equations.
    Constant,
    /// Fixed during a simulation.
    Parameter,
    /// Given from outside as a function of time.
    Input,
    /// Unknown, varies continuously between events.
    Continuous,
    /// Unknown, changes at events only.
    Discrete,
}

/// The type of a variable's values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// A real number.
    Real,
    /// A whole number.
    Integer,
    /// 0 or 1.
    Boolean,
    /// A text; never part of an equation. The value is kept in `Variable::text`.
    String,
    /// 1, 2, ..: the literals of an enumeration.
    Enumeration(Arc<Enumeration>),
}

/// The largest whole number up to which doubles hold every whole number, 2^53 - 1: beyond it Integers would be rounded.
pub const LARGEST_INTEGER: f64 = 9_007_199_254_740_991.0;

impl ValueType {
    /// The largest magnitude that values may have.
    #[must_use]
    pub fn largest(&self) -> f64 {
        if *self == Self::Integer { LARGEST_INTEGER } else { f64::INFINITY }
    }

    /// Whether a number is a value of this type.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        match self {
            Self::Real | Self::String => true,
            Self::Integer => value.fract() == 0.0 && value.abs() <= LARGEST_INTEGER,
            Self::Boolean => value == 0.0 || value == 1.0,
            Self::Enumeration(enumeration) => {
                value.fract() == 0.0 && value >= 1.0 && value <= enumeration.literals.len() as f64
            }
        }
    }
}

/// An enumeration type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enumeration {
    /// Full name of the type.
    pub name: String,
    /// Names of its literals; the first has the value 1.
    pub literals: Vec<String>,
}

/// Modelica's `StateSelect`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum StateSelect {
    /// Never a state.
    Never,
    /// Rather not.
    Avoid,
    /// No wish.
    #[default]
    Default,
    /// Rather yes.
    Prefer,
    /// Always a state.
    Always,
}

/// A scalar variable, parameter or input.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Dotted name with subscripts, such as `motor.p[2].v`.
    pub name: String,
    /// The comment after the declaration.
    pub description: Option<Arc<str>>,
    /// What it is.
    pub kind: VariableKind,
    /// The type of its values.
    pub value_type: ValueType,
    /// Declared `output` at the top level.
    pub is_output: bool,
    /// Declared `flow`.
    pub is_flow: bool,
    /// Declared `protected`.
    pub is_protected: bool,
    /// Its value was needed to lay out the equations (array sizes, conditions of if-equations and components):
    /// giving it another value needs a new flattening.
    pub is_structural: bool,
    /// Declared or modified `final`: a study may not change it.
    pub is_final: bool,
    /// Value of a constant or parameter, as an expression in constants and parameters. Unknowns have equations instead.
    pub binding: Option<ExprId>,
    /// Value of a `String` parameter.
    pub text: Option<Arc<str>>,
    /// Start value.
    pub start: Option<ExprId>,
    /// A value near the start that nobody wrote: where a search begins for what has no start value. It is no wish.
    pub guess: Option<f64>,
    /// The highest derivative in the equations that were written, where other ones have taken their place: which
    /// variables count as differential at the start is said by what was written.
    pub written_order: Option<u16>,
    /// Whether the start value is that of its type: nobody who declared the variable said so.
    pub is_start_of_type: bool,
    /// Whether the start value is insisted on; for a parameter, `Some(false)` says that initial equations determine it.
    pub fixed: Option<bool>,
    /// Smallest value.
    pub min: Option<ExprId>,
    /// Largest value.
    pub max: Option<ExprId>,
    /// Typical size.
    pub nominal: Option<ExprId>,
    /// Unit of its values, as written and as a dimension.
    pub unit: Option<Unit>,
    /// Unit for display, as written.
    pub display_unit: Option<Arc<str>>,
    /// Wish about its being a state.
    pub state_select: StateSelect,
    /// Where it was declared.
    pub span: Span,
}

impl Variable {
    /// Whether it is kept for the account of an importer alone, and never shown: its name begins with `@`.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.name.starts_with('@')
    }

    /// The value of an Integer constant or parameter that one double does not hold.
    #[must_use]
    pub fn wide_integer(&self, graph: &Graph) -> Option<i64> {
        let number = graph.as_whole_number(self.binding?)?;
        (self.value_type == ValueType::Integer && number.unsigned_abs() > LARGEST_INTEGER as u64).then_some(number)
    }

    /// A variable of real values with nothing but a name.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: VariableKind, span: Span) -> Self {
        Self {
            name: name.into(),
            description: None,
            kind,
            value_type: ValueType::Real,
            is_output: false,
            is_flow: false,
            is_protected: false,
            is_structural: false,
            is_final: false,
            binding: None,
            text: None,
            start: None,
            guess: None,
            written_order: None,
            is_start_of_type: false,
            fixed: None,
            min: None,
            max: None,
            nominal: None,
            unit: None,
            display_unit: None,
            state_select: StateSelect::Default,
            span,
        }
    }
}

/// Where an equation comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// Written as an equation.
    Equation,
    /// The value of a declaration (`Real x = 2 * y`).
    Binding,
    /// Equality of potential variables by `connect`.
    Connection,
    /// Sum of flow variables by `connect`.
    FlowSum,
    /// A flow variable that nothing is connected to is zero.
    UnconnectedFlow,
    /// Assigned by an algorithm section.
    Algorithm,
}

/// A scalar equation `lhs = rhs`.
#[derive(Clone, Debug)]
pub struct Equation {
    /// Left side.
    pub lhs: ExprId,
    /// Right side.
    pub rhs: ExprId,
    /// Where it comes from.
    pub origin: Origin,
    /// Dotted name of the component whose class holds the equation; empty at the top.
    pub component: Arc<str>,
    /// Where it was written.
    pub span: Span,
}

/// `when .. elsewhen .. end when`: at most one branch acts, the first whose condition becomes true.
#[derive(Clone, Debug)]
pub struct WhenClause {
    /// The branches in order.
    pub branches: Vec<WhenBranch>,
    /// Dotted name of the component whose class holds it.
    pub component: Arc<str>,
    /// Where it was written.
    pub span: Span,
}

/// One branch of a when-clause.
#[derive(Clone, Debug)]
pub struct WhenBranch {
    /// The branch acts when any of these becomes true.
    pub conditions: Vec<ExprId>,
    /// What it does.
    pub actions: Vec<WhenAction>,
}

/// One action of a when-branch.
#[derive(Clone, Debug)]
pub enum WhenAction {
    /// `variable = value` for a discrete variable.
    Assign {
        /// The variable.
        variable: VarId,
        /// Its new value.
        value: ExprId,
        /// Where it was written.
        span: Span,
    },
    /// `reinit(variable, value)`
    Reinit {
        /// The state.
        variable: VarId,
        /// Its new value.
        value: ExprId,
        /// Where it was written.
        span: Span,
    },
    /// `assert(condition, message)`
    Assert(Assertion),
    /// `terminate(message)`
    Terminate {
        /// What to say.
        message: String,
        /// Where it was written.
        span: Span,
    },
}

/// `assert(condition, message, level)`
#[derive(Clone, Debug)]
pub struct Assertion {
    /// What must hold.
    pub condition: ExprId,
    /// What to say when it does not.
    pub message: String,
    /// A warning only (`AssertionLevel.warning`).
    pub is_warning: bool,
    /// Dotted name of the component whose class holds it.
    pub component: Arc<str>,
    /// Where it was written.
    pub span: Span,
}

/// A flat model.
#[derive(Clone, Debug)]
pub struct FlatDae {
    /// Full name of the class.
    pub model: String,
    /// The comment after the class name.
    pub description: Option<Arc<str>>,
    /// All expressions.
    pub graph: Graph,
    /// All variables; `VarId` is the position here.
    pub variables: Shared<Variable>,
    /// Equations that always hold (for discrete variables: at events).
    pub equations: Vec<Equation>,
    /// Equations that hold at the start.
    pub initial_equations: Vec<Equation>,
    /// When-clauses.
    pub when_clauses: Vec<WhenClause>,
    /// Assertions that always hold.
    pub assertions: Vec<Assertion>,
    /// The `experiment` annotation.
    pub experiment: Experiment,
    /// Warnings and notes met on the way.
    pub findings: Vec<Finding>,
    /// The texts all spans point into.
    pub sources: Arc<SourceMap>,
}

/// What a model's `experiment` annotation says about its simulation.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Experiment {
    /// `StartTime`
    pub start: Option<f64>,
    /// `StopTime`
    pub stop: Option<f64>,
    /// `Interval`
    pub interval: Option<f64>,
    /// `Tolerance`
    pub tolerance: Option<f64>,
}

/// How many equations and variables a flat model has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// Equations, those for discrete variables in when-clauses included (one for each variable assigned there).
    pub equations: usize,
    /// Continuous and discrete unknowns.
    pub unknowns: usize,
    /// Parameters, without constants.
    pub parameters: usize,
    /// Top-level inputs.
    pub inputs: usize,
}

impl FlatDae {
    /// Counts equations and variables.
    #[must_use]
    pub fn size(&self) -> Size {
        let count = |kinds: &[VariableKind]| {
            self.variables
                .iter()
                .filter(|variable| kinds.contains(&variable.kind) && variable.value_type != ValueType::String)
                .count()
        };
        let mut assigned: Vec<VarId> = self
            .when_clauses
            .iter()
            .flat_map(|clause| &clause.branches)
            .flat_map(|branch| &branch.actions)
            .filter_map(|action| match action {
                WhenAction::Assign { variable, .. } => Some(*variable),
                _ => None,
            })
            .collect();
        assigned.sort_unstable();
        assigned.dedup();
        Size {
            equations: self.equations.len() + assigned.len(),
            unknowns: count(&[VariableKind::Continuous, VariableKind::Discrete]),
            parameters: count(&[VariableKind::Parameter]),
            inputs: count(&[VariableKind::Input]),
        }
    }

    /// The variable with the given name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<VarId> {
        self.variables.iter().position(|variable| variable.name == name).map(|at| VarId(at as u32))
    }
}
