//! Modelica text to a flat differential-algebraic equation.
#![forbid(unsafe_code)]

pub mod lexer;
pub mod name;
pub mod parser;
pub mod print;
pub mod syntax;
