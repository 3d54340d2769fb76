//! Questions that are asked of data: which parameters, with which uncertainty, which signals that nobody measured, what
//! a cost looks like, which experiment to make next, and what a running system does now. Each module has the answer to
//! one, as plain values and as text, JSON and pages.
#![forbid(unsafe_code)]

pub mod cost;
pub mod design;
pub mod estimate;
pub mod identify;
pub mod watch;
