//! Questions to the verbs, with texts and arrays in memory.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use daesy::Watch;
use daesy::diagnostic::Diagnostic;
use daesy::distribute::{Distribute, Elsewhere};
use daesy::json::ToJson as _;
use daesy::program;
use daesy::source::{ModelText, Place, Source};
use daesy::table::Table;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::array::from_columns;
use crate::interrupt::watched;
use crate::simulator::Failure;

/// A model, a study, and data.
#[pyclass(name = "Source", frozen, module = "daesy._daesy")]
pub struct PySource {
    pub(crate) source: Source,
}

#[pymethods]
impl PySource {
    /// A Modelica file, a package folder, or a study.
    #[staticmethod]
    fn file(path: PathBuf) -> Self {
        Self { source: Source::file(&path) }
    }

    /// The text of a model.
    #[staticmethod]
    fn model(name: String, text: String) -> Self {
        Self { source: Source { place: Place::Model(ModelText { name, text }), data: Vec::new() } }
    }

    /// The text of a study, with texts of models that it may name.
    #[staticmethod]
    fn study(name: String, text: String, folder: PathBuf, models: Vec<(String, String)>) -> Self {
        let models = models.into_iter().map(|(name, text)| ModelText { name, text }).collect();
        Self { source: Source { place: Place::Study { name, text, folder, models }, data: Vec::new() } }
    }

    /// The same with one more experiment in memory.
    fn with_data(&self, names: Vec<String>, columns: Vec<PyReadonlyArray1<'_, f64>>) -> Self {
        let mut source = self.source.clone();
        let columns = columns.iter().map(|column| column.as_array().to_vec()).collect();
        source.data.push(Table { names, columns });
        Self { source }
    }
}

/// What a verb answered.
#[derive(IntoPyObject)]
pub struct PyAnswer<'py> {
    status: u8,
    document: String,
    text: String,
    rendered: Vec<String>,
    names: Option<Vec<String>>,
    values: Option<Bound<'py, PyArray2<f64>>>,
}

/// A function of Python that runs evaluations: it gets points as rows, about how many numbers each gives, and a function
/// that says whether to stop. It makes an iterator of (first point, how many numbers each point gave, the numbers).
struct Callback {
    function: Py<PyAny>,
    watch: Watch,
    raised: Mutex<Option<PyErr>>,
}

/// Whether a run is to stop, for Python.
#[pyclass(frozen, module = "daesy._daesy")]
struct Stopper {
    watch: Watch,
}

#[pymethods]
impl Stopper {
    fn __call__(&self) -> bool {
        self.watch.is_stopped()
    }
}

impl Distribute for Callback {
    fn evaluate(&self, points: &[&[f64]], n_numbers: usize, take: &mut dyn FnMut(usize, &[f64]) -> bool) -> bool {
        self.hand_over(points, n_numbers, take).unwrap_or_else(|error| {
            if let Ok(mut raised) = self.raised.lock() {
                raised.get_or_insert(error);
            }
            false
        })
    }
}

/// What Python found at some points that follow each other.
#[derive(FromPyObject)]
struct Found<'py>(usize, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f64>);

impl Callback {
    /// Whether all points were handed over.
    fn hand_over(
        &self,
        points: &[&[f64]],
        n_numbers: usize,
        take: &mut dyn FnMut(usize, &[f64]) -> bool,
    ) -> PyResult<bool> {
        let width = points.first().map_or(0, |point| point.len());
        if points.iter().any(|point| point.len() != width) {
            return Err(PyValueError::new_err("the points differ in how many numbers they have"));
        }
        let parts = Python::attach(|py| -> PyResult<Py<PyIterator>> {
            let stopper = Bound::new(py, Stopper { watch: self.watch.clone() })?;
            let flat = PyArray1::from_vec(py, points.concat());
            let rows = flat.reshape([points.len(), width])?;
            Ok(self.function.bind(py).call1((rows, n_numbers, stopper))?.try_iter()?.unbind())
        })?;
        // The interpreter's lock is free between parts; an iterator that is dropped early cancels what it waits for.
        loop {
            let goes_on = Python::attach(|py| -> PyResult<Option<bool>> {
                let Some(part) = parts.bind(py).clone().next() else { return Ok(None) };
                let Found(first, lengths, numbers) = part?.extract()?;
                let mut rest = numbers.as_slice()?;
                for (at, &length) in lengths.as_slice()?.iter().enumerate() {
                    let here = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
                    let Some((here, others)) = here else {
                        return Err(PyValueError::new_err("a share has fewer numbers than it says"));
                    };
                    rest = others;
                    if !take(first + at, here) {
                        return Ok(Some(false));
                    }
                }
                Ok(Some(true))
            })?;
            match goes_on {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => return Ok(true),
            }
        }
    }
}

/// How many numbers each point of a share gave, and the numbers one after the other.
type Numbers<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// A question whose evaluations are asked for in shares: what is read and compiled once for all of them.
#[pyclass(name = "Share", frozen, module = "daesy._daesy")]
pub struct PyShare {
    share: program::Share,
    watch: Watch,
}

/// Status and findings of what went wrong.
fn failed(answer: &program::Answer) -> PyErr {
    let rendered: Vec<String> = answer.diagnostics.iter().map(|one| one.render(false)).collect();
    let findings: Vec<String> = answer.diagnostics.iter().map(|one| one.to_json().to_string()).collect();
    Failure::new_err((answer.status as u8, rendered, format!("[{}]", findings.join(","))))
}

#[pymethods]
impl PyShare {
    #[new]
    fn new(py: Python<'_>, source: &PySource, verb: &str, arguments: Vec<String>) -> PyResult<Self> {
        let watch = Watch::new();
        let given = source.source.clone();
        let made = watched(py, &watch, None, || program::Share::new(verb, given, &arguments, &watch))?;
        made.map(|share| Self { share, watch }).map_err(|answer| failed(&answer))
    }

    /// For points, which are rows: how many numbers each gives, and the numbers one after the other.
    fn evaluate<'py>(&self, py: Python<'py>, points: PyReadonlyArray2<'py, f64>) -> PyResult<Numbers<'py>> {
        let points: Vec<Vec<f64>> = points.as_array().rows().into_iter().map(|row| row.to_vec()).collect();
        let found = watched(py, &self.watch, None, || self.share.evaluate(&points))?;
        let lists = found.map_err(|answer| failed(&answer))?;
        let lengths = lists.iter().map(|list| list.len() as i64).collect();
        Ok((PyArray1::from_vec(py, lengths), PyArray1::from_vec(py, lists.concat())))
    }
}

/// Asks one verb; a dict with the exit status, the JSON document, the text, the findings as text, and the table as
/// (columns, rows).
#[pyfunction]
#[pyo3(signature = (source, verb, arguments, progress=None, distribute=None))]
pub fn ask<'py>(
    py: Python<'py>,
    source: &PySource,
    verb: &str,
    arguments: Vec<String>,
    progress: Option<Bound<'py, PyAny>>,
    distribute: Option<Py<PyAny>>,
) -> PyResult<PyAnswer<'py>> {
    let watch = Watch::new();
    let callback =
        distribute.map(|function| Arc::new(Callback { function, watch: watch.clone(), raised: Mutex::new(None) }));
    let elsewhere = callback.clone().map(|callback| Elsewhere(callback));
    let given = source.source.clone();
    let (answer, document) = watched(py, &watch, progress.as_ref(), || {
        let answer = program::ask_with(verb, given, &arguments, &watch, elsewhere);
        let document = answer.document().to_string();
        (answer, document)
    })?;
    if let Some(error) = callback.and_then(|callback| callback.raised.lock().ok()?.take()) {
        return Err(error);
    }
    let rendered = answer.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
    let (names, values) = match answer.table {
        Some(table) => (Some(table.names), Some(from_columns(py, &table.columns)?)),
        None => (None, None),
    };
    Ok(PyAnswer { status: answer.status as u8, document, text: answer.text, rendered, names, values })
}

/// Runs the demo into a folder and returns what it tells.
#[pyfunction]
pub fn demo(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let told = watched(py, &Watch::new(), None, || daesy::demo::run(&folder))?;
    told.map(|told| told.text).map_err(|diagnostics| {
        let text: String = diagnostics.iter().map(|diagnostic: &Diagnostic| diagnostic.render(false)).collect();
        pyo3::exceptions::PyRuntimeError::new_err(text)
    })
}

/// Says how the program is started: units of other tools run in processes of it.
#[pyfunction]
pub fn set_program(words: Vec<OsString>) {
    program::set_program(words);
}

/// Runs the program with the given arguments, the first of which is its own name, and returns its exit status.
#[pyfunction]
pub fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    watched(py, &Watch::new(), None, || program::run(arguments) as u8)
}
