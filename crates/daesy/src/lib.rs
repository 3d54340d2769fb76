//! Facade and program: studies, data files, reports.
