//! Evaluations of searches in a checkpoint.

use daesy_estimate::memory::Memory;
use daesy_report::checkpoint::{Checkpoint, key};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;

/// Keeps evaluations in a checkpoint, if there is one.
pub(super) struct Notebook<'c> {
    checkpoint: Option<&'c mut Checkpoint>,
    trouble: Option<Diagnostic>,
}

impl<'c> Notebook<'c> {
    pub(super) fn new(checkpoint: Option<&'c mut Checkpoint>) -> Self {
        Self { checkpoint, trouble: None }
    }

    /// Fails where the checkpoint could not be written.
    ///
    /// # Errors
    /// What writing said first.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.trouble.take().map_or(Ok(()), |trouble| Err(Failure::Input(vec![trouble])))
    }
}

impl Memory for Notebook<'_> {
    fn get(&self, label: &str, point: &[f64]) -> Option<Vec<f64>> {
        self.checkpoint.as_ref()?.get(&key(label, point)).map(<[f64]>::to_vec)
    }

    fn put(&mut self, label: &str, point: &[f64], numbers: &[f64]) {
        if let Some(checkpoint) = &mut self.checkpoint
            && let Err(diagnostic) = checkpoint.put(&key(label, point), numbers)
        {
            self.trouble.get_or_insert(diagnostic);
        }
    }
}
