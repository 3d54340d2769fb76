//! Independent evaluations that an executor may run: in other processes, on other machines.
//!
//! A verb that evaluates its model at many points hands the points over as plain numbers and gets plain numbers back.
//! What `daesy::program::Share` gives for a point depends on the study, the arguments and that point only, so that the
//! answer does not depend on who ran it, with which others, and when it came.

use std::fmt;
use std::sync::Arc;

/// Runs evaluations.
pub trait Distribute: Send + Sync {
    /// Hands over, for each point once and in any order, the position of the point and what `daesy::program::Share`
    /// gives for it, which is about `n_numbers` numbers: a bound for what travels at once can be kept by it. `take` says
    /// whether to go on. False when the run was stopped or failed, which whoever hands this over must know himself.
    fn evaluate(&self, points: &[&[f64]], n_numbers: usize, take: &mut dyn FnMut(usize, &[f64]) -> bool) -> bool;
}

/// Whoever runs evaluations, shared.
#[derive(Clone)]
pub struct Elsewhere(pub Arc<dyn Distribute>);

impl Elsewhere {
    /// For each point its numbers; `None` when the run was stopped or failed.
    #[must_use]
    pub fn evaluate(&self, points: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
        let mut found: Vec<Option<Vec<f64>>> = vec![None; points.len()];
        let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let n_numbers = points.first().map_or(1, |point| point.len());
        self.each(&points, n_numbers, &mut |at, numbers| {
            found[at] = Some(numbers.to_vec());
            true
        })?;
        found.into_iter().collect()
    }

    /// Hands over the numbers of each point as they come; `None` when the run was stopped or failed, or when points
    /// have no answer. See [`Distribute::evaluate`].
    pub fn each(&self, points: &[&[f64]], n_numbers: usize, take: &mut dyn FnMut(usize, &[f64]) -> bool) -> Option<()> {
        let mut n_found = 0;
        let is_done = self.0.evaluate(points, n_numbers, &mut |at, numbers| {
            let is_known = at < points.len();
            n_found += usize::from(is_known);
            is_known && take(at, numbers)
        });
        (is_done && n_found == points.len()).then_some(())
    }
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
    }
}
