//! The filter of a study live: a thread holds it, samples and objects go to and fro.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use daesy::Watch;
use daesy::program::{self, Answer};
use pyo3::prelude::*;

use crate::ask::PySource;

/// How often a waiting thread looks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Both ends of the channels, and the thread at the other ones.
struct Line {
    samples: Option<Sender<String>>,
    objects: Receiver<String>,
    thread: Option<JoinHandle<Answer>>,
}

/// A filter that takes samples as JSON text and gives objects as JSON text.
#[pyclass(name = "Watcher", frozen, module = "daesy._daesy")]
pub struct PyWatcher {
    line: Mutex<Line>,
    watch: Watch,
}

#[pymethods]
impl PyWatcher {
    #[new]
    fn new(source: &PySource, arguments: Vec<String>) -> Self {
        let (samples, received) = channel::<String>();
        let (told, objects) = channel::<String>();
        let (given, watch) = (source.source.clone(), Watch::new());
        let thread = std::thread::spawn({
            let watch = watch.clone();
            move || {
                let mut lines = received.into_iter().map(Ok);
                program::watch_stream(given, &arguments, &watch, &mut lines, &mut |object| {
                    told.send(object.to_string()).is_ok()
                })
            }
        });
        Self { line: Mutex::new(Line { samples: Some(samples), objects, thread: Some(thread) }), watch }
    }

    /// Takes a sample; the object that belongs to it, or `None` when the filter has ended: [`PyWatcher::close`] says
    /// why.
    fn update(&self, py: Python<'_>, sample: String) -> PyResult<Option<String>> {
        py.detach(|| {
            let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(samples) = &line.samples else { return Ok(None) };
            if samples.send(sample).is_err() {
                return Ok(None);
            }
            loop {
                match line.objects.recv_timeout(PATIENCE) {
                    Ok(object) => return Ok(Some(object)),
                    Err(RecvTimeoutError::Disconnected) => return Ok(None),
                    Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
                }
            }
        })
    }

    /// Ends the filter; its exit status, its document and its findings as text. `None` if it had ended before.
    fn close(&self, py: Python<'_>) -> Option<(u8, String, String)> {
        py.detach(|| {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.samples = None;
            self.watch.stop();
            let answer = line.thread.take()?.join().ok()?;
            let rendered = answer.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
            Some((answer.status as u8, answer.document().to_string(), rendered))
        })
    }
}
