//! Who takes the rows of a trajectory as they come, so that a long one of a large model is never in memory as a whole.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes the rows of a trajectory.
pub trait TakeRows: Send {
    /// A trajectory begins: rows before it belong to an attempt that failed.
    fn begin(&mut self);

    /// Takes the next row, all observed quantities at a time. A break ends the trajectory.
    fn take(&mut self, time: f64, row: &[f64]) -> ControlFlow<()>;
}

/// Whoever takes rows, shared by cloning.
#[derive(Clone)]
pub struct RowSink {
    shared: Arc<Mutex<Counted<dyn TakeRows>>>,
}

struct Counted<T: ?Sized> {
    n_taken: usize,
    taker: T,
}

impl RowSink {
    /// Shares whoever takes rows.
    #[must_use]
    pub fn new(taker: impl TakeRows + 'static) -> Self {
        Self { shared: Arc::new(Mutex::new(Counted { n_taken: 0, taker })) }
    }

    fn lock(&self) -> MutexGuard<'_, Counted<dyn TakeRows + 'static>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A trajectory begins.
    pub(crate) fn begin(&self) {
        let mut shared = self.lock();
        shared.n_taken = 0;
        shared.taker.begin();
    }

    /// Rows of this trajectory that were taken.
    pub(crate) fn n_taken(&self) -> usize {
        self.lock().n_taken
    }

    /// Hands over the next row.
    pub(crate) fn take(&self, time: f64, row: &[f64]) -> ControlFlow<()> {
        let mut shared = self.lock();
        shared.n_taken += 1;
        shared.taker.take(time, row)
    }
}

impl fmt::Debug for RowSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowSink").finish_non_exhaustive()
    }
}

/// Two are equal when they are the same.
impl PartialEq for RowSink {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}
