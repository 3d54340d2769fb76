//! Pure data: expression graph, units, spans, findings and the flat model.
#![forbid(unsafe_code)]

mod build;
pub mod finding;
pub mod flat;
pub mod function;
pub mod graph;
pub mod node;
pub mod regular;
pub mod scalar;
pub mod source;
pub mod traverse;
pub mod unit;

pub use finding::{Finding, Label, Level};
pub use flat::{Equation, FlatDae, Variable, VariableKind};
pub use function::{Function, FunctionId};
pub use graph::Graph;
pub use node::{ArgList, BinaryOp, ExprId, Node, UnaryOp, VarId};
pub use source::{FileId, SourceFile, SourceMap, Span};
pub use traverse::{Leaf, Reach};
pub use unit::Unit;
