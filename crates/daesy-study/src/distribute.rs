//! Independent evaluations that an executor may run: in other processes, on other machines.
//!
//! A verb that evaluates its model at many points hands the points over as plain numbers and gets plain numbers back,
//! in the same order. What `daesy::program::evaluate` gives for a point depends on the study, the arguments and that
//! point only, so that the answer does not depend on who ran it.

use std::fmt;
use std::sync::Arc;

/// Runs evaluations.
pub trait Distribute: Send + Sync {
    /// For each point what `daesy::program::evaluate` gives for it, in the same order; `None` when the run was stopped
    /// or failed, which whoever hands this over must know himself.
    fn evaluate(&self, points: &[Vec<f64>]) -> Option<Vec<Vec<f64>>>;
}

/// Whoever runs evaluations, shared.
#[derive(Clone)]
pub struct Elsewhere(pub Arc<dyn Distribute>);

impl Elsewhere {
    /// For each point its numbers; `None` when the run was stopped or failed.
    #[must_use]
    pub fn evaluate(&self, points: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
        self.0.evaluate(points).filter(|found| found.len() == points.len())
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}
