//! Simulations of a model that is compiled once.

use std::path::PathBuf;
use std::sync::Arc;

use daesy::diagnostic::Diagnostic;
use daesy::failure::Failure as NoAnswer;
use daesy::integrate::SimulateOptions;
use daesy::json::ToJson as _;
use daesy::load::{LoadOptions, load_source};
use daesy::simulate::{Simulator, output_times};
use daesy::structure_map::structure_map;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ask::PySource;
use crate::interrupt::signal_watch;

/// A compiled model, ready to be simulated.
#[pyclass(name = "Simulator", frozen, module = "daesy._daesy")]
pub struct PySimulator {
    simulator: Arc<Simulator>,
    /// Findings on the way from the text to the compiled model, as JSON; empty when there are none.
    #[pyo3(get)]
    findings: String,
    /// Full name of the model.
    #[pyo3(get)]
    model: String,
}

/// What is wrong, as exit status and text.
fn failure(failure: &NoAnswer) -> (u8, Vec<String>, String) {
    let status = match failure {
        NoAnswer::Input(_) => 1,
        NoAnswer::Usage(_) => 2,
        NoAnswer::Method(_) => 3,
    };
    let diagnostics = failure.diagnostics();
    let rendered = diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
    (status, rendered, list(diagnostics.iter().map(|diagnostic| diagnostic.to_json().to_string())))
}

/// A JSON list of JSON texts.
fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Findings as JSON; empty when there are none.
fn findings(diagnostics: &[Diagnostic]) -> String {
    if diagnostics.is_empty() {
        return String::new();
    }
    list(diagnostics.iter().map(|diagnostic| diagnostic.to_json().to_string()))
}

pyo3::create_exception!(_daesy, Failure, pyo3::exceptions::PyException, "Status, rendered findings, findings as JSON.");

/// A trajectory.
#[derive(IntoPyObject)]
pub struct Trace<'py> {
    values: Bound<'py, PyArray2<f64>>,
    steps: usize,
    rejected: usize,
    factorizations: usize,
    evaluations: usize,
    constraint_residual_max: f64,
    events: Option<String>,
    initial: String,
    parameters: String,
    findings: String,
}

#[pymethods]
impl PySimulator {
    /// Compiles a model.
    #[new]
    #[pyo3(signature = (source, set=Vec::new(), class_name=None, files=Vec::new()))]
    fn new(
        py: Python<'_>,
        source: &PySource,
        set: Vec<(String, f64)>,
        class_name: Option<String>,
        files: Vec<PathBuf>,
    ) -> PyResult<Self> {
        let source = source.source.clone();
        let made = py.detach(|| {
            let mut loaded = load_source(&source, &LoadOptions { set, class: class_name }).map_err(NoAnswer::Input)?;
            if !files.is_empty() {
                loaded.use_data_files(&files).map_err(NoAnswer::Input)?;
            }
            let simulator = Simulator::new(&loaded)?;
            Ok((simulator, loaded.flat.model, loaded.diagnostics))
        });
        let (simulator, model, diagnostics) = made.map_err(|wrong| Failure::new_err(failure(&wrong)))?;
        Ok(Self { simulator: Arc::new(simulator), findings: findings(&diagnostics), model })
    }

    /// Names of the columns, time first.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.simulator.names()
    }

    /// Simulates; what is left out is as the study or the model says.
    #[pyo3(signature = (start=None, stop=None, step=None, times=None, rtol=None, atol=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        start: Option<f64>,
        stop: Option<f64>,
        step: Option<f64>,
        times: Option<PyReadonlyArray1<'py, f64>>,
        rtol: Option<f64>,
        atol: Option<f64>,
    ) -> PyResult<Trace<'py>> {
        let given = &self.simulator.options;
        let mut options = SimulateOptions {
            start: start.unwrap_or(given.start),
            stop: stop.unwrap_or(given.stop),
            output_times: Vec::new(),
            rtol: rtol.unwrap_or(given.rtol),
            atol: atol.unwrap_or(given.atol),
            max_steps: given.max_steps,
            watch: signal_watch(),
        };
        if let Some(times) = times {
            options.output_times = times.as_array().to_vec();
        } else if start.is_none() && stop.is_none() && step.is_none() {
            options.output_times.clone_from(&given.output_times);
        } else {
            let n_steps = (given.output_times.len().max(2) - 1) as f64;
            let step = step.unwrap_or((given.stop - given.start) / n_steps);
            options.output_times =
                output_times(options.start, options.stop, step).map_err(|wrong| Failure::new_err(failure(&wrong)))?;
        }
        let simulator = &self.simulator;
        let traced = py.detach(|| {
            simulator.trace(&options).map(|traced| {
                // Columns one after the other, time first.
                let simulation = &traced.simulation;
                let columns = simulator.columns();
                let n_columns = columns.len();
                let mut values = Vec::with_capacity((n_columns + 1) * simulation.times.len());
                values.extend_from_slice(&simulation.times);
                for &column in columns {
                    values.extend(simulation.rows.iter().map(|row| row[column]));
                }
                (traced, values, n_columns + 1)
            })
        });
        if let Some(raised) = PyErr::take(py) {
            return Err(raised);
        }
        let (traced, values, n_columns) = traced.map_err(|wrong| Failure::new_err(failure(&wrong)))?;
        let simulation = &traced.simulation;
        let start = simulator.start_report(simulation);
        let events =
            (!traced.events.is_empty()).then(|| list(traced.events.iter().map(|event| event.to_json().to_string())));
        Ok(Trace {
            values: PyArray1::from_vec(py, values).reshape([n_columns, simulation.times.len()])?,
            steps: simulation.steps,
            rejected: simulation.rejected,
            factorizations: simulation.factorizations,
            evaluations: simulation.evaluations,
            constraint_residual_max: simulation.constraint_residual_max,
            events,
            initial: start.to_json().to_string(),
            parameters: start.parameters_to_json().to_string(),
            findings: findings(&simulator.diagnostics(&traced, &start)),
        })
    }
}

/// Units of the variables of a model that have one, by name.
#[pyfunction]
#[pyo3(signature = (source, class_name=None))]
pub fn units<'py>(py: Python<'py>, source: &PySource, class_name: Option<String>) -> PyResult<Bound<'py, PyDict>> {
    let source = source.source.clone();
    let loaded = py
        .detach(|| load_source(&source, &LoadOptions { set: Vec::new(), class: class_name }))
        .map_err(|diagnostics| Failure::new_err(failure(&NoAnswer::Input(diagnostics))))?;
    let dict = PyDict::new(py);
    for variable in &loaded.flat.variables {
        if let Some(unit) = variable.unit.as_ref().filter(|unit| !unit.text.is_empty() && &*unit.text != "1") {
            dict.set_item(variable.name.to_string(), unit.text.to_string())?;
        }
    }
    Ok(dict)
}

/// The structure of a model, for pictures.
#[pyfunction]
#[pyo3(signature = (source, class_name=None))]
pub fn structure<'py>(py: Python<'py>, source: &PySource, class_name: Option<String>) -> PyResult<Bound<'py, PyDict>> {
    let source = source.source.clone();
    let map = py
        .detach(|| {
            let loaded = load_source(&source, &LoadOptions { set: Vec::new(), class: class_name })?;
            structure_map(&loaded)
        })
        .map_err(|wrong| Failure::new_err(failure(&wrong)))?;
    let dict = PyDict::new(py);
    dict.set_item("model", map.model)?;
    dict.set_item("equations", map.equations)?;
    dict.set_item("unknowns", map.unknowns)?;
    dict.set_item("states", map.states)?;
    dict.set_item("rows", map.entries.rows)?;
    dict.set_item("columns", map.entries.columns)?;
    let blocks: Vec<(usize, usize)> = map.blocks.iter().map(|block| (block.start, block.len)).collect();
    dict.set_item("blocks", blocks)?;
    let differentiated: Vec<(String, u16)> =
        map.differentiated.into_iter().map(|equation| (equation.text, equation.times)).collect();
    dict.set_item("differentiated", differentiated)?;
    dict.set_item("constraint_rows", map.constraint_entries.rows)?;
    dict.set_item("constraint_columns", map.constraint_entries.columns)?;
    let (constraints, orders): (Vec<String>, Vec<u16>) =
        map.constraints.into_iter().map(|equation| (equation.text, equation.times)).unzip();
    dict.set_item("constraints", constraints)?;
    dict.set_item("constraint_orders", orders)?;
    Ok(dict)
}
