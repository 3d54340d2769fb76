//! Facade and program: studies, data files, reports.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod report;
pub mod study;
pub mod table;
