//! What every method says after a fit.

use daesy_estimate::scores::ScoreSeries;
use daesy_estimate::search::{Bound, SearchSpace};
use daesy_estimate::uncertainty::{Certainty, Uncertainty, confidence_interval};
use daesy_graph::finding::Finding;
use daesy_pencil::Mat;

use super::certainty::Errors;
use super::{ParameterEstimate, caveats};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;
use daesy_study::problem::Unknown;

/// A finding with its place in the study.
pub(super) fn resolve(loaded: &Loaded, finding: &Finding) -> Diagnostic {
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    Diagnostic::resolve(finding, &sources)
}

/// Findings with their places in the study.
pub(super) fn told(loaded: &Loaded, findings: impl IntoIterator<Item = Finding>) -> impl Iterator<Item = Diagnostic> {
    findings.into_iter().map(|finding| resolve(loaded, &finding))
}

/// Sizes of unknowns that their errors are judged by.
pub(super) fn sizes(theta: &[f64], space: &SearchSpace) -> Vec<f64> {
    theta.iter().zip(&space.nominal).map(|(value, nominal)| value.abs().max(1e-3 * nominal)).collect()
}

/// The uncertainty of an estimate, with what was known before, and by the data alone.
pub(super) struct Uncertainties {
    pub(super) with_priors: Uncertainty,
    pub(super) by_data: Uncertainty,
}

impl Uncertainties {
    pub(super) fn new(
        information: &Mat<f64>,
        scores: &ScoreSeries,
        prior_precision: &[f64],
        sizes: &[f64],
        at_bound: &[Option<Bound>],
    ) -> Self {
        let of =
            |prior_precision| Uncertainty::new(&Certainty { information, scores, prior_precision, sizes, at_bound });
        Self { with_priors: of(prior_precision), by_data: of(&[]) }
    }
}

/// Where a search ended, and the errors there.
pub(super) struct Found<'a> {
    pub(super) unknowns: &'a [Unknown],
    pub(super) theta: &'a [f64],
    pub(super) at_bound: &'a [Option<Bound>],
    pub(super) errors: &'a Errors,
    pub(super) robust_std: &'a [f64],
}

impl Found<'_> {
    /// What is said of every unknown; `is_scale` tells standard deviations of noise.
    pub(super) fn parameters(&self, is_scale: impl Fn(usize) -> bool) -> Vec<ParameterEstimate> {
        let &Self { unknowns, theta, at_bound, errors, robust_std } = self;
        let parameter = |(at, unknown): (usize, &Unknown)| ParameterEstimate {
            name: unknown.name.clone(),
            estimate: theta[at],
            std_error: errors.std[at],
            robust_std_error: robust_std[at],
            ci95: confidence_interval(theta[at], errors.std[at], is_scale(at), errors.degrees[at]),
            profile95: None,
            start: unknown.start,
            at_bound: at_bound[at],
            moves_model: true,
            prior_shrinkage: caveats::shrinkage(unknown.prior, errors.std[at]),
        };
        unknowns.iter().enumerate().map(parameter).collect()
    }
}
