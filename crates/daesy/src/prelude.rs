//! What most programs need, brought in by `use daesy::prelude::*`.

pub use crate::check::Check;
pub use crate::cost::{CostGrid, CostOptions};
pub use crate::diagnostic::Diagnostic;
pub use crate::estimate::Estimates;
pub use crate::failure::Failure;
pub use crate::identify::{Identification, IdentifyOptions, ParameterEstimate};
pub use crate::model::Model;
pub use crate::simulate::{Simulator, Trajectory};
pub use crate::table::Table;
pub use crate::uq::{Uq, UqSettings};
