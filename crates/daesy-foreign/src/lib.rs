//! Units of other tools: Functional Mock-up Units as models.
//!
//! ```text
//! file -archive-> checked entries -description-> UnitDescription -unit-> functions in worker processes -flat-> FlatDae
//! ```
//!
//! Nothing is unpacked or run before the archive and the description were checked. [`worker::serve`] is the other end,
//! in a process of its own; `native` is the only module with `unsafe`.

pub mod archive;
pub mod description;
pub mod error;
pub mod flat;
mod folder;
mod message;
mod native;
mod probe;
pub mod process;
pub mod unit;
pub mod worker;

pub use error::ForeignError;
pub use flat::{described, flat_model};
pub use probe::Remark;
pub use unit::{Residence, Unit, Uses, read_archive, read_description};
