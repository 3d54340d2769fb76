//! The solver for functions F(t, x, x') written in Python.

use std::sync::Mutex;

use daesy::Watch;
use daesy::integrate::{AsFarAsPossible, IntegrateError, SimulateOptions, Simulation};
use daesy::residual::{
    ResidualFunction, ResidualJacobians, ResidualStart, find_differential, solve_as_far_as_possible,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::from_rows;

/// A function of Python. The first exception stops the solver and is raised in the end.
struct Callback {
    function: Py<PyAny>,
    jacobian: Option<Py<PyAny>>,
    raised: Mutex<Option<PyErr>>,
    watch: Watch,
}

impl Callback {
    fn keep(&self, error: PyErr) {
        self.watch.stop();
        if let Ok(mut raised) = self.raised.lock() {
            raised.get_or_insert(error);
        }
    }

    fn call(&self, time: f64, values: &[f64], rates: &[f64], residual: &mut [f64]) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let arguments = (time, PyArray1::from_slice(py, values), PyArray1::from_slice(py, rates));
            let result = self.function.bind(py).call1(arguments)?;
            let array = as_floats(py, &result)?;
            let array = array.readonly();
            let array = array.as_array();
            if array.len() != residual.len() {
                let message = format!("the function gave {} values for {} variables", array.len(), residual.len());
                return Err(PyValueError::new_err(message));
            }
            for (slot, value) in residual.iter_mut().zip(array) {
                *slot = *value;
            }
            Ok(())
        })
    }

    fn call_jacobian(&self, time: f64, values: &[f64], rates: &[f64]) -> PyResult<Option<ResidualJacobians>> {
        let Some(jacobian) = &self.jacobian else { return Ok(None) };
        Python::attach(|py| {
            let arguments = (time, PyArray1::from_slice(py, values), PyArray1::from_slice(py, rates));
            let result = jacobian.bind(py).call1(arguments)?;
            let (by_values, by_rates): (Bound<'_, PyAny>, Bound<'_, PyAny>) = result.extract()?;
            let flat = |part: &Bound<'_, PyAny>, name: &str| -> PyResult<Vec<f64>> {
                let array = as_floats(py, &part.call_method0("ravel")?)?;
                let entries = array.readonly().as_array().to_vec();
                if entries.len() == values.len() * values.len() {
                    Ok(entries)
                } else {
                    Err(PyValueError::new_err(format!("{name} must be a matrix of the size of the system")))
                }
            };
            let by_values = flat(&by_values, "dF/dx")?;
            let by_rates = flat(&by_rates, "dF/dx'")?;
            Ok(Some(ResidualJacobians { by_values, by_rates }))
        })
    }
}

/// Whatever a function returned, as an array of doubles.
fn as_floats<'py>(py: Python<'py>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f64>>> {
    if let Ok(array) = value.cast::<PyArray1<f64>>() {
        return Ok(array.clone());
    }
    let array = py.import("numpy")?.call_method1("asarray", (value, "float64"))?;
    Ok(array.cast_into::<PyArray1<f64>>()?)
}

impl ResidualFunction for Callback {
    fn evaluate(&self, time: f64, values: &[f64], rates: &[f64], residual: &mut [f64]) {
        if self.watch.is_stopped() {
            residual.fill(f64::NAN);
        } else if let Err(error) = self.call(time, values, rates, residual) {
            residual.fill(f64::NAN);
            self.keep(error);
        }
    }

    fn jacobians(&self, time: f64, values: &[f64], rates: &[f64]) -> Option<ResidualJacobians> {
        self.call_jacobian(time, values, rates).unwrap_or_else(|error| {
            self.keep(error);
            None
        })
    }
}

/// A solution of F(t, x, x') = 0: rows hold all x, then all x'.
#[derive(IntoPyObject)]
pub struct Solved<'py> {
    times: Vec<f64>,
    rows: Bound<'py, PyArray2<f64>>,
    differential: Vec<bool>,
    steps: usize,
    rejected: usize,
    factorizations: usize,
    evaluations: usize,
    /// Ends of the steps taken.
    step_ends: Vec<f64>,
    /// Why the end was not reached.
    message: Option<String>,
}

/// Solves F(t, x, x') = 0 from consistent values at the first of the given times.
#[pyfunction]
#[pyo3(signature = (function, times, values, rates, differential, nominal, rtol, atol, jacobian, max_steps, max_step, keeps_steps))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
pub fn solve_residual<'py>(
    py: Python<'py>,
    function: Py<PyAny>,
    times: PyReadonlyArray1<'py, f64>,
    values: Vec<f64>,
    rates: Vec<f64>,
    differential: Option<Vec<bool>>,
    nominal: Vec<f64>,
    rtol: f64,
    atol: f64,
    jacobian: Option<Py<PyAny>>,
    max_steps: usize,
    max_step: f64,
    keeps_steps: bool,
) -> PyResult<Solved<'py>> {
    let watch = Watch::new();
    let callback = Callback { function, jacobian, raised: Mutex::new(None), watch: watch.clone() };
    let output_times = times.as_array().to_vec();
    let (Some(&start), Some(&stop)) = (output_times.first(), output_times.last()) else {
        return Err(PyValueError::new_err("no times are given"));
    };
    let is_differential = match differential {
        Some(given) => given,
        None => find_differential(&callback, start, &values, &rates),
    };
    let n_columns = 2 * values.len();
    let begin = ResidualStart { values, rates, is_differential, nominal };
    let options = SimulateOptions {
        start,
        stop,
        output_times,
        rtol,
        atol,
        max_steps,
        watch,
        max_step,
        keeps_steps,
        ..SimulateOptions::default()
    };
    let solved = solve_as_far_as_possible(&callback, &begin, &options);
    if let Some(error) = callback.raised.into_inner().ok().flatten() {
        return Err(error);
    }
    let differential = begin.is_differential;
    let (simulation, failure) = match solved {
        Ok(AsFarAsPossible { simulation, failure }) => (Some(simulation), failure),
        Err(error) => (None, Some(error)),
    };
    let rows = simulation.as_ref().map_or(&[][..], |simulation| &simulation.rows[..]);
    let count = |count: fn(&Simulation) -> usize| simulation.as_ref().map_or(0, count);
    Ok(Solved {
        rows: from_rows(py, rows, n_columns)?,
        differential,
        steps: count(|simulation| simulation.steps),
        rejected: count(|simulation| simulation.rejected),
        factorizations: count(|simulation| simulation.factorizations),
        evaluations: count(|simulation| simulation.evaluations),
        message: failure.as_ref().map(told),
        step_ends: simulation.as_ref().map(|simulation| simulation.step_ends.clone()).unwrap_or_default(),
        times: simulation.map(|simulation| simulation.times).unwrap_or_default(),
    })
}

/// What went wrong, with what to do where the index may be to blame.
fn told(error: &IntegrateError) -> String {
    let is_singular = matches!(error, IntegrateError::Singular { .. } | IntegrateError::NoConsistentStart { .. });
    if !is_singular {
        return error.to_string();
    }
    format!(
        "{error}. Either equations depend on each other, or the index is above 1: some equation has no derivative and no \
         algebraic variable of its own. Write such a model with `daesy.build` or as Modelica for `daesy.parse`: \
         their hidden constraints are found, and any index is solved."
    )
}
