//! Facade and program: studies, data files, reports.
#![forbid(unsafe_code)]

pub mod check;
pub mod checkpoint;
pub mod cost;
pub mod demo;
pub mod embedded;
pub mod estimate;
pub mod file;
pub mod flat_text;
pub mod identify;
pub mod json;
pub mod program;
pub mod reduced;
pub mod regularize;
pub mod report;
pub mod residual;
pub mod simulate;
pub mod start_report;
pub mod table;
pub mod uq;

pub use daesy_integrate as integrate;
pub use daesy_pencil as pencil;
pub use daesy_structure::{linear_verdict, linearize};
pub use daesy_study::{
    data, diagnostic, distribute, expression, failure, inputs, linear_study, load, prediction_study, prepare, problem,
    source, start_point, stochastic, structure_map, study,
};
pub use daesy_system::{Progress, Watch};
pub use daesy_transfer as transfer;
