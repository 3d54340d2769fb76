//! Long calls: Python runs on meanwhile, and Ctrl-C ends them.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use daesy::Watch;
use pyo3::prelude::*;

/// How often a waiting thread looks for signals.
const PATIENCE: Duration = Duration::from_millis(50);

/// Runs `work` in a thread of its own, without the interpreter's lock, while this one waits, looks for signals and
/// tells how far the work is. A signal, or an exception of `tell`, stops the watch; the exception is raised when the
/// work has ended.
pub fn watched<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    tell: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let tell = tell.map(|tell| tell.clone().unbind());
    let (result, outcome) = py.detach(|| {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || sender.send(work()));
            let mut outcome: PyResult<()> = Ok(());
            let mut last = daesy::Progress::default();
            loop {
                match receiver.recv_timeout(PATIENCE) {
                    Ok(result) => return (Some(result), outcome),
                    Err(RecvTimeoutError::Disconnected) => return (None, outcome),
                    Err(RecvTimeoutError::Timeout) if outcome.is_err() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        let now = watch.progress();
                        outcome = Python::attach(|py| {
                            py.check_signals()?;
                            if let Some(tell) = &tell
                                && now != last
                            {
                                tell.call1(py, (now.n_done, now.n_total))?;
                            }
                            Ok(())
                        });
                        last = now;
                        if outcome.is_err() {
                            watch.stop();
                        }
                    }
                }
            }
        })
    });
    outcome?;
    result.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the computation ended without a result"))
}

/// A watch for short work in the calling thread: it looks for signals every now and then.
pub fn signal_watch() -> Watch {
    let last = Mutex::new(Instant::now());
    Watch::asking(move || {
        let Ok(mut last) = last.try_lock() else { return false };
        if last.elapsed() < PATIENCE {
            return false;
        }
        *last = Instant::now();
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                // Raised again by whoever called.
                error.restore(py);
                true
            }
        })
    })
}
