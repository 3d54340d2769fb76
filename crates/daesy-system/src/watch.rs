//! How a caller watches a long computation: a flag that stops it, and a count of what is done.
//!
//! Long loops ask [`Watch::is_stopped`] once per step or task and end with an error of their own. Both sides share
//! the watch by cloning it; a default watch is shared with no one and never stops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The caller's side and the worker's side of a long computation.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    shared: Option<Arc<Shared>>,
}

#[derive(Default)]
struct Shared {
    is_stopped: AtomicBool,
    n_done: AtomicU64,
    n_total: AtomicU64,
    question: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("is_stopped", &self.is_stopped).finish_non_exhaustive()
    }
}

/// How far a computation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Units of work done.
    pub n_done: u64,
    /// Units of work in all; 0 while that is not known.
    pub n_total: u64,
}

impl Watch {
    /// A watch that can stop and count.
    #[must_use]
    pub fn new() -> Self {
        Self { shared: Some(Arc::default()) }
    }

    /// A watch that also asks a question, in the thread of the computation, whether to stop. The answer must come at
    /// once.
    #[must_use]
    pub fn asking(question: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let shared = Shared { question: Some(Box::new(question)), ..Shared::default() };
        Self { shared: Some(Arc::new(shared)) }
    }

    /// Asks the computation to stop.
    pub fn stop(&self) {
        if let Some(shared) = &self.shared {
            shared.is_stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the computation shall stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| {
            shared.is_stopped.load(Ordering::Relaxed) || shared.question.as_ref().is_some_and(|asks| asks())
        })
    }

    /// Says how much work there is in all, and that nothing of it is done.
    pub fn expect(&self, n_total: u64) {
        if let Some(shared) = &self.shared {
            shared.n_done.store(0, Ordering::Relaxed);
            shared.n_total.store(n_total, Ordering::Relaxed);
        }
    }

    /// Says that so many more units of work are done.
    pub fn advance(&self, n_done: u64) {
        if let Some(shared) = &self.shared {
            shared.n_done.fetch_add(n_done, Ordering::Relaxed);
        }
    }

    /// How far the computation is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.as_ref().map_or_else(Progress::default, |shared| Progress {
            n_done: shared.n_done.load(Ordering::Relaxed),
            n_total: shared.n_total.load(Ordering::Relaxed),
        })
    }
}

/// Watches are equal when they are the same watch.
impl PartialEq for Watch {
    fn eq(&self, other: &Self) -> bool {
        match (&self.shared, &other.shared) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_sees_what_the_other_side_says() {
        let watch = Watch::new();
        let other = watch.clone();
        other.expect(10);
        other.advance(3);
        assert_eq!(watch.progress(), Progress { n_done: 3, n_total: 10 });
        assert!(!other.is_stopped());
        watch.stop();
        assert!(other.is_stopped());
        assert_eq!(watch, other);
        assert_ne!(watch, Watch::new());
    }

    #[test]
    fn a_question_is_asked_until_it_is_answered() {
        let watch = Watch::asking({
            let n_asked = AtomicU64::new(0);
            move || n_asked.fetch_add(1, Ordering::Relaxed) == 2
        });
        assert_eq!([watch.is_stopped(), watch.is_stopped(), watch.is_stopped()], [false, false, true]);
    }

    #[test]
    fn a_default_watch_never_stops() {
        let watch = Watch::default();
        watch.stop();
        watch.advance(1);
        assert!(!watch.is_stopped());
        assert_eq!(watch.progress(), Progress::default());
    }
}
