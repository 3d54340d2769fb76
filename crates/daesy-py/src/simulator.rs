//! Simulations of a model that is compiled once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daesy::Watch;
use daesy::diagnostic::Diagnostic;
use daesy::failure::Failure as NoAnswer;
use daesy::file::write_whole;
use daesy::integrate::{Method, SimulateOptions};
use daesy::json::ToJson as _;
use daesy::load::{LoadOptions, load_source};
use daesy::simulate::page::SimulationPage;
use daesy::simulate::{Simulator, output_times};
use daesy::structure_map::structure_map;
use daesy::transfer::Transferred;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ask::PySource;
use crate::interrupt::{signal_watch, watched};

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

pyo3::create_exception!(
    _daesy,
    Failure,
    pyo3::exceptions::PyException,
    "Status, rendered findings, findings as JSON; of a simulation also what there is of it."
);

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
            let mut loaded = load_source(&source, &LoadOptions { set, class: class_name, ..LoadOptions::default() })
                .map_err(NoAnswer::Input)?;
            if !files.is_empty() {
                loaded.use_data_files(&files).map_err(NoAnswer::Input)?;
            }
            let simulator = Simulator::new(&loaded)?;
            let mut diagnostics = loaded.diagnostics.clone();
            diagnostics.extend(loaded.open_inputs());
            diagnostics.extend(loaded.held_disturbances());
            Ok((simulator, loaded.flat.model, diagnostics))
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
    #[pyo3(signature = (
        start=None, stop=None, step=None, times=None, rtol=None, atol=None, method=None, max_step=None, progress=None, report=None
    ))]
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
        method: Option<String>,
        max_step: Option<f64>,
        progress: Option<Bound<'py, PyAny>>,
        report: Option<PathBuf>,
    ) -> PyResult<Trace<'py>> {
        let given = &self.simulator.options;
        let mut options = SimulateOptions {
            start: start.unwrap_or(given.start),
            stop: stop.unwrap_or(given.stop),
            output_times: Vec::new(),
            rtol: rtol.unwrap_or(given.rtol),
            atol: atol.unwrap_or(given.atol),
            method: method_of(method.as_deref())?.unwrap_or(given.method),
            max_step: max_step.unwrap_or(given.max_step),
            watch: if progress.is_some() { Watch::new() } else { signal_watch() },
            ..given.clone()
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
        let traced = match &progress {
            Some(_) => watched(py, &options.watch, progress.as_ref(), || simulator.try_trace(&options))?,
            None => py.detach(|| simulator.try_trace(&options)),
        };
        if let Some(raised) = PyErr::take(py) {
            return Err(raised);
        }
        let stopped = match traced {
            Ok(traced) => {
                if let Some(path) = report {
                    let wrong = self.write_page(&path, traced.clone());
                    wrong.map_err(|wrong| Failure::new_err(failure(&wrong)))?;
                }
                return self.trace(py, &traced);
            }
            Err(stopped) => stopped,
        };
        let (status, rendered, document) = failure(&stopped.failure);
        let part = stopped.part.map(|part| self.trace(py, &part)).transpose()?;
        Err(Failure::new_err((
            status,
            rendered,
            document,
            part.map(|part| part.into_pyobject(py)).transpose()?.map(Bound::unbind),
        )))
    }
}

impl PySimulator {
    /// Columns one after the other, time first, and what else there is to tell.
    fn trace<'py>(&self, py: Python<'py>, traced: &Transferred) -> PyResult<Trace<'py>> {
        let (simulator, simulation) = (&self.simulator, &traced.simulation);
        let columns = simulator.columns();
        let values = py.detach(|| {
            let mut values = Vec::with_capacity((columns.len() + 1) * simulation.times.len());
            values.extend_from_slice(&simulation.times);
            for &column in columns {
                values.extend(simulation.rows.iter().map(|row| row[column]));
            }
            values
        });
        let start = simulator.start_report(simulation);
        let events =
            (!traced.events.is_empty()).then(|| list(traced.events.iter().map(|event| event.to_json().to_string())));
        Ok(Trace {
            values: PyArray1::from_vec(py, values).reshape([columns.len() + 1, simulation.times.len()])?,
            steps: simulation.steps,
            rejected: simulation.rejected,
            factorizations: simulation.factorizations,
            evaluations: simulation.evaluations,
            constraint_residual_max: simulation.constraint_residual_max,
            events,
            initial: start.to_json().to_string(),
            parameters: start.parameters_to_json().to_string(),
            findings: findings(&simulator.diagnostics(traced, &start)),
        })
    }

    fn write_page(&self, path: &Path, traced: Transferred) -> Result<(), NoAnswer> {
        let trajectory = self.simulator.trajectory(traced);
        let about = SimulationPage { flat: self.simulator.flat(), study: None, data: None, trajectory: &trajectory };
        let page = about.page();
        write_whole(path, page.to_html().as_bytes()).map_err(|error| {
            let shown = path.display().to_string();
            let message = format!("`{shown}` cannot be written: {error}");
            NoAnswer::Input(vec![Diagnostic::about_file("output-file", &shown, message)])
        })
    }
}

/// A method of integration by its word.
fn method_of(word: Option<&str>) -> PyResult<Option<Method>> {
    let Some(word) = word else { return Ok(None) };
    let words = Method::ALL.map(Method::word);
    match Method::ALL.into_iter().find(|method| method.word() == word) {
        Some(method) => Ok(Some(method)),
        None => {
            let message = format!("there is no method \"{word}\"");
            let wrong = Diagnostic::error("usage", message).with_help(format!("one of: {}", words.join(", ")));
            Err(Failure::new_err(failure(&NoAnswer::Usage(vec![wrong]))))
        }
    }
}

/// Units of the variables of a model that have one, by name.
#[pyfunction]
#[pyo3(signature = (source, class_name=None))]
pub fn units<'py>(py: Python<'py>, source: &PySource, class_name: Option<String>) -> PyResult<Bound<'py, PyDict>> {
    let source = source.source.clone();
    let loaded = py
        .detach(|| load_source(&source, &LoadOptions { class: class_name, ..LoadOptions::default() }))
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
            let loaded = load_source(&source, &LoadOptions { class: class_name, ..LoadOptions::default() })?;
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
