//! Modelica text to a flat differential-algebraic equation.
//!
//! Text is read by [`parser`], classes are found by [`library`], [`flatten()`] gives a
//! [`daesy_graph::FlatDae`] that is right, or findings that say why there is none [@modelica36].
#![forbid(unsafe_code)]

pub mod file;
pub mod flatten;
pub mod indent;
pub mod lexer;
pub mod library;
pub mod name;
pub mod parser;
pub mod print;
pub mod syntax;

pub use flatten::{FlattenError, FlattenOptions, flatten, flatten_library, flatten_text};
pub use library::Library;
