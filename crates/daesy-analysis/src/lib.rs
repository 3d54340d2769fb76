//! Questions about a model that need no data: is it sound, what is in it, how does it move, what is it to first order,
//! what is its regular form. Each module has the answer to one, as plain values and as text, JSON and pages.
#![forbid(unsafe_code)]

pub mod check;
pub mod describe;
pub mod linearization;
pub mod regular_form;
pub mod simulate;
pub mod start_report;
mod stepping;
