//! Evaluations that are kept, so that a search that was interrupted goes on where it ended.

use daesy_system::Watch;
use faer::Mat;

use crate::search::{Expansion, Objective};

/// Keeps numbers by what they are and the point they were found at.
pub trait Memory {
    /// What was kept.
    fn get(&self, label: &str, point: &[f64]) -> Option<Vec<f64>>;

    /// Keeps numbers. A memory that fails says so to whoever made it.
    fn put(&mut self, label: &str, point: &[f64], numbers: &[f64]);
}

/// Keeps nothing.
pub struct Forgetful;

impl Memory for Forgetful {
    fn get(&self, _: &str, _: &[f64]) -> Option<Vec<f64>> {
        None
    }

    fn put(&mut self, _: &str, _: &[f64], _: &[f64]) {}
}

/// An objective whose evaluations are kept.
pub struct Remembered<'m, O> {
    /// The objective.
    pub inner: O,
    /// What its evaluations are called.
    pub label: String,
    /// Where they are kept.
    pub memory: &'m mut dyn Memory,
    /// What is found after it was stopped is not kept: an evaluation that was cut short has no value, or a wrong one.
    pub watch: Watch,
}

impl<O> Remembered<'_, O> {
    fn keep(&mut self, label: &str, theta: &[f64], numbers: &[f64]) {
        if !self.watch.is_stopped() {
            self.memory.put(label, theta, numbers);
        }
    }
}

impl<O: Objective> Objective for Remembered<'_, O> {
    type Refusal = O::Refusal;

    fn value(&mut self, theta: &[f64]) -> Result<f64, O::Refusal> {
        let label = format!("{}-value", self.label);
        if let Some([known]) = self.memory.get(&label, theta).as_deref() {
            return Ok(*known);
        }
        let value = self.inner.value(theta)?;
        self.keep(&label, theta, &[value]);
        Ok(value)
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, O::Refusal> {
        let label = format!("{}-expansion", self.label);
        let n = theta.len();
        if let Some(known) = self.memory.get(&label, theta).filter(|known| known.len() == 1 + n + n * n) {
            return Ok(Expansion {
                value: known[0],
                gradient: known[1..=n].to_vec(),
                curvature: Mat::from_fn(n, n, |i, j| known[1 + n + i * n + j]),
            });
        }
        let expansion = self.inner.expand(theta)?;
        let mut numbers = vec![expansion.value];
        numbers.extend(&expansion.gradient);
        numbers.extend((0..n * n).map(|at| expansion.curvature[(at / n, at % n)]));
        self.keep(&label, theta, &numbers);
        Ok(expansion)
    }
}

/// A point that follows from another, from a memory if that knows it. Not kept is what is found once the watch was
/// stopped, and an empty point, which is none.
pub fn remembered_point(
    memory: &mut dyn Memory,
    label: &str,
    from: &[f64],
    watch: &Watch,
    compute: impl FnOnce() -> Vec<f64>,
) -> Vec<f64> {
    if let Some(known) = memory.get(label, from) {
        return known;
    }
    let found = compute();
    if !watch.is_stopped() && !found.is_empty() {
        memory.put(label, from, &found);
    }
    found
}
