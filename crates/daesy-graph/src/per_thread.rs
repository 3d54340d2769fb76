//! What runs write while they go on, one record for each thread.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// The records of all threads; each sees its own.
#[derive(Debug)]
pub(crate) struct PerThread<R>(Mutex<HashMap<ThreadId, R>>);

impl<R> Default for PerThread<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R> PerThread<R> {
    /// Begins anew on this thread.
    pub(crate) fn begin(&self, record: R) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(thread::current().id(), record);
    }

    /// Ends the run of this thread.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread::current().id());
    }

    /// Does something with the record of this thread, if there is one.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut R) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&thread::current().id()).map(work)
    }
}
