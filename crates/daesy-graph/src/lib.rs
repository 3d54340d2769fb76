//! Pure data: expression graph, units, spans, findings and the flat model.
#![forbid(unsafe_code)]

mod build;
pub mod derivative;
pub mod evaluate;
pub mod finding;
pub mod flat;
pub mod foreign;
pub mod function;
pub mod graph;
pub mod history;
mod index;
pub mod intrinsic;
pub mod jacobian;
pub mod known;
pub mod linear;
pub mod node;
mod per_thread;
pub mod print;
pub mod regular;
pub mod scalar;
pub mod source;
pub mod stored;
pub mod substitute;
pub mod table;
mod tangent;
pub mod taylor;
pub mod transport;
pub mod traverse;
pub mod unit;
pub mod unit_check;
pub mod whole;

pub use evaluate::{Environment, EvaluationError, Evaluator};
pub use finding::{Finding, Label, Level};
pub use flat::{Equation, FlatDae, Variable, VariableKind};
pub use function::{Function, FunctionId};
pub use graph::Graph;
pub use jacobian::{Differentiator, GradientEntry, JacobianEntry};
pub use linear::{CoefficientKind, LinearExtractor, LinearForm, Nonlinear};
pub use node::{ArgList, BinaryOp, ExprId, Node, UnaryOp, VarId};
pub use print::Printer;
pub use source::{FileId, SourceFile, SourceMap, Span};
pub use substitute::Substitution;
pub use taylor::{Curve, TaylorEvaluator};
pub use traverse::{Leaf, Reach};
pub use unit::{Dimension, Measure, Unit};
pub use unit_check::{UnitChecker, UnitMismatch};
