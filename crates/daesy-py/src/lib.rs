//! The Python module: arrays in and out, signals, threads. What users see of it is in `python/daesy`.
#![forbid(unsafe_code)]

mod array;
mod ask;
mod interrupt;
mod linear;
mod live;
mod residual;
mod simulator;

use pyo3::prelude::*;

/// What `daesy` is made of. Everything here is wrapped by the package; nothing is meant to be called by users.
#[pymodule]
mod _daesy {
    #[pymodule_export]
    use super::ask::{PyShare, PySource, ask, demo, run_program, set_program};
    #[pymodule_export]
    use super::linear::LinearSystem;
    #[pymodule_export]
    use super::live::PyWatcher;
    #[pymodule_export]
    use super::residual::solve_residual;
    #[pymodule_export]
    use super::simulator::{Failure, PySimulator, structure, units};

    /// Version of the program.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
