//! Facade and program: studies, data files, reports.
#![forbid(unsafe_code)]

pub mod study;
