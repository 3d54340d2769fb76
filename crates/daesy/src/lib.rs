//! Models of physical systems as components and equations: check them, simulate them, identify their unknown
//! parameters, estimate what nobody measured, and say how uncertain it all is.
//!
//! [`Model`] is the door; [`prelude`] brings in what most programs need.
//!
//! ```
//! use daesy::prelude::*;
//!
//! let tank = "model Tank
//!   parameter Real area = 2;
//!   Real level(start = 1, fixed = true), outflow;
//! equation
//!   area*der(level) = -outflow;
//!   outflow = 0.5*sqrt(level);
//! end Tank;";
//! let run = Model::parse(tank)?.simulate_to(4.0)?;
//! let level = run.table.column("level").expect("the model has a variable `level`");
//! assert!((level[level.len() - 1] - 0.25).abs() < 1e-5);
//! # Ok::<(), Failure>(())
//! ```
#![forbid(unsafe_code)]

pub mod begin;
pub mod check;
pub mod checkpoint;
pub mod cost;
pub mod demo;
pub mod describe;
pub mod design;
pub mod embedded;
pub mod estimate;
pub mod export;
pub mod file;
pub mod flat_text;
pub mod identify;
pub mod json;
pub mod linearization;
pub mod lsp;
pub mod model;
pub mod prelude;
pub mod program;
pub mod reduced;
pub mod regularize;
pub mod report;
pub mod simulate;
pub mod start_report;
mod stepping;
pub mod table;
pub mod uq;
pub mod watch;

pub use model::Model;

pub use daesy_integrate as integrate;
pub use daesy_integrate::residual;
pub use daesy_pencil as pencil;
pub use daesy_structure::{linear_verdict, linearize};
pub use daesy_study::{
    data, diagnostic, distribute, expression, failure, inputs, linear_study, live, load, prediction_study, prepare,
    problem, source, start_point, stochastic, structure_map, study,
};
pub use daesy_system::{Progress, Watch};
pub use daesy_transfer as transfer;
