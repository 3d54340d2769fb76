//! Facade and program: studies, data files, reports.
#![forbid(unsafe_code)]

pub mod check;
pub mod checkpoint;
pub mod cost;
pub mod data;
pub mod demo;
pub mod diagnostic;
pub mod distribute;
pub mod embedded;
pub mod estimate;
pub mod expression;
pub mod flat_text;
pub mod identify;
mod impulse_balance;
pub mod initial;
pub mod inputs;
mod least_squares;
mod linear_model;
pub mod linear_study;
pub mod linear_verdict;
pub mod linearize;
pub mod load;
pub mod nonlinear;
pub mod prediction_study;
pub mod prepare;
pub mod program;
pub mod reduced;
pub mod regularize;
pub mod report;
pub mod residual;
pub mod simulate;
pub mod source;
pub mod start_report;
pub mod stochastic;
pub mod straighten;
pub mod structure_map;
pub mod study;
pub mod table;
pub mod transfer;
pub mod uq;

pub use daesy_integrate as integrate;
pub use daesy_pencil as pencil;
pub use daesy_system::{Progress, Watch};
