//! What estimation refuses, in the study's words.

use daesy_estimate::error::{EstimateError, SignalRole};
use daesy_graph::Span;
use daesy_graph::finding::Finding;

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::linear_study::LinearStudy;
use crate::linear_study::build::white_start;
use crate::load::Loaded;

/// Parameter values in words.
#[must_use]
pub fn point(study: &LinearStudy, theta: &[f64]) -> String {
    let values = study.unknowns.iter().zip(theta).map(|(unknown, value)| format!("{} = {value}", unknown.name));
    values.collect::<Vec<_>>().join(", ")
}

/// A refusal at some parameters as a failure of the whole.
#[must_use]
pub fn failure(loaded: &Loaded, study: &LinearStudy, theta: &[f64], error: &EstimateError) -> Failure {
    let finding = finding(study, theta, error);
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    let diagnostic = Diagnostic::resolve(&finding, &sources);
    match error {
        EstimateError::Overflow { .. } | EstimateError::NotFinite { .. } | EstimateError::Stopped => {
            Failure::Method(vec![diagnostic])
        }
        _ => Failure::Input(vec![diagnostic]),
    }
}

/// A refusal at some parameters as a finding.
#[must_use]
pub fn finding(study: &LinearStudy, theta: &[f64], error: &EstimateError) -> Finding {
    let here = if theta.is_empty() { String::new() } else { format!(" (at {})", point(study, theta)) };
    match error {
        EstimateError::InfiniteVariance { role, signal, noise } => {
            let (name, span) = match role {
                SignalRole::Measured => (study.measured[*signal].name.clone(), study.measured[*signal].span),
                SignalRole::Estimated => (study.estimated[*signal].clone(), Span::NONE),
            };
            let disturbance = &study.noises[*noise];
            let message = format!(
                "`{name}` has infinite variance: the disturbance `{disturbance}` reaches it as white noise{here}"
            );
            Finding::error("ill-posed", span, message).with_names([&name, disturbance]).with_help(
                "model the filter of the sensor, or give the disturbance a spectrum that falls off faster (see `daesy check`)",
            )
        }
        EstimateError::NegativeVariance { measurement, value } => {
            let signal = &study.measured[*measurement];
            let message = format!("the variance of the measurement `{}` is {value}{here}", signal.name);
            Finding::error("negative-variance", signal.span, message)
                .with_names([&signal.name])
                .with_help("give the unknowns it depends on a bound that keeps it positive")
        }
        EstimateError::NegativeIntensity { noise, value } => {
            let disturbance = &study.noises[*noise];
            let message = format!("the intensity of the disturbance `{disturbance}` is {value}{here}");
            Finding::error("negative-variance", Span::NONE, message)
                .with_names([disturbance])
                .with_help("give the unknowns it depends on a bound that keeps it positive")
        }
        EstimateError::FilterNotDynamic { filter } => {
            let disturbance = study.filter_names.get(*filter).map_or("a disturbance", String::as_str);
            let message = format!(
                "the disturbance `{disturbance}` is so much faster than everything else that its shaping filter cannot be told \
                 from an algebraic equation{here}"
            );
            Finding::error("disturbance-too-fast", Span::NONE, message).with_names([disturbance]).with_help(
                "give it a longer time constant, or `white` with the intensity of its spectrum at low frequencies",
            )
        }
        EstimateError::InconsistentStart { condition, residual } => {
            let what = study.insisted_names.get(*condition).map_or("a start condition", String::as_str);
            let message = format!("{what} contradicts the other start conditions by {residual:e}{here}");
            Finding::error("no-consistent-start", Span::NONE, message)
                .with_help("take back a `fixed = true`, or estimate the start with `[initial] mode = \"estimate\"`")
        }
        EstimateError::WhiteStart { condition, noise } => {
            let what = study.insisted_names.get(*condition).map_or("a start condition", String::as_str);
            white_start(what, &study.noises[*noise])
        }
        EstimateError::NotStable { what } => {
            let message = format!("{what} cannot start in its stationary distribution: it is not stable{here}");
            Finding::error("not-stable", Span::NONE, message).with_help(
                "for the model use `[initial] mode = \"estimate\"` or `\"model\"`, for a disturbance `initial = \"zero\"`",
            )
        }
        EstimateError::Contradiction { measurement, time, expected, found } => {
            let signal = &study.measured[*measurement];
            let message = format!(
                "`{}` is measured without error and known to be {expected} at t = {time}, but the data say {found}{here}",
                signal.name
            );
            Finding::error("contradiction", signal.span, message)
                .with_names([&signal.name])
                .with_help("give the measurement a `std`, or let a disturbance or the start explain the difference")
        }
        EstimateError::StructureDiffers(_) => Finding::error("structure-changes", Span::NONE, format!("{error}{here}"))
            .with_help("bound the unknowns so that the model keeps its structure"),
        EstimateError::NoSamples => Finding::error("all-missing", Span::NONE, error.to_string()),
        EstimateError::Stopped => Finding::error("stopped", Span::NONE, "stopped before an answer was found"),
        EstimateError::Overflow { .. } | EstimateError::NotFinite { .. } => {
            Finding::error("not-finite", Span::NONE, format!("{error}{here}"))
                .with_help("start the search elsewhere, or bound the unknowns")
        }
        other => Finding::error("model", Span::NONE, format!("{other}{here}"))
            .with_help("`daesy check` says more about the model"),
    }
}
