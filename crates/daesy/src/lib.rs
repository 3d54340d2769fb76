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
pub mod demo;
pub mod embedded;
pub mod export;
pub mod model;
pub mod prelude;
pub mod program;

pub use model::Model;

pub use daesy_analysis::{check, describe, linearization, regular_form, simulate, start_report};
pub use daesy_inference::{cost, design, estimate, identify, watch};
pub use daesy_integrate as integrate;
pub use daesy_integrate::residual;
pub use daesy_lsp as lsp;
pub use daesy_pencil as pencil;
pub use daesy_report::{self as report, checkpoint, file, flat_text, json, table};
pub use daesy_structure::{linear_verdict, linearize};
pub use daesy_study::{
    data, diagnostic, distribute, expression, failure, inputs, linear_study, live, load, prediction_study, prepare,
    problem, source, start_point, stochastic, structure_map, study,
};
pub use daesy_system::{Progress, Watch};
pub use daesy_transfer as transfer;
pub use daesy_uq as uq;
