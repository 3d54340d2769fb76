//! Memory that is lent and comes back: an evaluator needs some for a while, and the next one can have the same.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// More than so many are not kept.
const MOST: usize = 16;

/// Values that are not in use.
pub(crate) struct Pool<T> {
    free: Mutex<Vec<T>>,
}

impl<T: Default> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { free: Mutex::new(Vec::new()) }
    }

    /// A value that was used before, or a new one.
    pub(crate) fn lend(&self, make: impl FnOnce() -> T) -> Lent<'_, T> {
        // What is kept here is never half written.
        let known = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Lent { pool: self, value: known.unwrap_or_else(make) }
    }
}

/// A value that returns to its pool when it is dropped.
pub(crate) struct Lent<'p, T: Default> {
    pool: &'p Pool<T>,
    value: T,
}

impl<T: Default> Deref for Lent<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Default> DerefMut for Lent<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MOST {
            free.push(std::mem::take(&mut self.value));
        }
    }
}
