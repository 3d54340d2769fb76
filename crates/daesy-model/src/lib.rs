//! Modelica text to a flat differential-algebraic equation.
#![forbid(unsafe_code)]

pub mod name;
pub mod syntax;
