//! Which standard errors are reported: those that the model promises, or robust ones where the data contradict it.

use daesy_estimate::uncertainty::Uncertainty;
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_pencil::Mat;

use super::ResidualSummary;

/// Covariance and standard errors of the estimates, of one kind.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    /// Standard errors; NaN at a bound, infinite where data do not determine an unknown.
    pub(super) std: Vec<f64>,
    /// The covariance that goes with them.
    pub(super) covariance: Mat<f64>,
    /// Why they are robust ones, if they are.
    pub(super) reason: Option<&'static str>,
    /// Degrees of freedom of the errors that they were taken from, by unknown; infinite where the size of errors is
    /// known.
    pub(super) degrees: Vec<f64>,
}

/// Both kinds of errors, and what speaks against those of the model.
pub(super) struct Choice<'a> {
    pub(super) std: &'a [f64],
    pub(super) covariance: &'a Mat<f64>,
    pub(super) robust_std: &'a [f64],
    pub(super) robust_covariance: &'a Mat<f64>,
    /// What the products of scores say, if they contradict the information.
    pub(super) contradiction: Option<&'static str>,
    /// Degrees of freedom of the errors of the model; infinite where the size of errors is known.
    pub(super) degrees: f64,
    /// Degrees of freedom of robust errors, by unknown.
    pub(super) robust_degrees: &'a [f64],
}

impl<'a> Choice<'a> {
    /// Those of an estimate by likelihood.
    pub(super) fn of(uncertainty: &'a Uncertainty) -> Self {
        let fails = uncertainty.fails_information_equality;
        Self {
            std: &uncertainty.std,
            covariance: &uncertainty.covariance,
            robust_std: &uncertainty.robust_std,
            robust_covariance: &uncertainty.robust_covariance,
            contradiction: fails.then_some("products of scores differ from the information"),
            degrees: f64::INFINITY,
            robust_degrees: &uncertainty.robust_degrees,
        }
    }

    /// Errors of the model, or robust ones where products of scores or the size of residuals contradict it.
    pub(super) fn errors(&self, residuals: &[ResidualSummary]) -> Errors {
        let by_size = residuals.iter().any(|residual| residual.size.is_doubtful());
        let reason = self.contradiction.or(by_size.then_some("the residuals are not as large as the model says"));
        let (std, covariance, degrees) = match reason {
            Some(_) => (self.robust_std, self.robust_covariance, self.robust_degrees.to_vec()),
            None => (self.std, self.covariance, vec![self.degrees; self.std.len()]),
        };
        Errors { std: std.to_vec(), covariance: covariance.clone(), reason, degrees }
    }
}

impl Errors {
    /// Rows of the covariance, NaN where there is none.
    pub(super) fn rows(&self) -> Vec<Vec<f64>> {
        let n = self.std.len();
        let entry = |i: usize, j: usize| {
            if self.std[i].is_finite() && self.std[j].is_finite() { self.covariance[(i, j)] } else { f64::NAN }
        };
        (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
    }

    /// Says that errors are robust ones.
    pub(super) fn note(&self) -> Option<Finding> {
        let message = format!("standard errors are robust ones, which do not rely on the model: {}", self.reason?);
        Some(Finding::note("robust-errors", Span::NONE, message).with_help(
            "they are right for what was estimated; whether that is what was meant depends on what is wrong in the model",
        ))
    }
}
