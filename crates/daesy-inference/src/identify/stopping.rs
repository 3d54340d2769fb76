//! What is said where a search is interrupted: the best values so far, and how to go on.

use daesy_report::words::short;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::problem::Unknown;

use super::IdentifyOptions;

/// Where a search was when it was interrupted.
pub(super) struct SoFar {
    /// The best point.
    pub(super) theta: Vec<f64>,
    /// What was minimized, there.
    pub(super) value: f64,
}

/// A search that was interrupted, as a failure.
pub(super) fn stopped_search(unknowns: &[Unknown], so_far: Option<SoFar>, options: &IdentifyOptions) -> Failure {
    let message = match &so_far {
        Some(SoFar { theta, value }) => {
            let values = unknowns.iter().zip(theta).map(|(unknown, value)| format!("{} = {value:?}", unknown.name));
            let values: Vec<String> = values.collect();
            format!("stopped before the end: the best so far is {}, at {}", short(*value, 7), values.join(", "))
        }
        None => "stopped before the search had made a step".to_owned(),
    };
    let help = match (&options.checkpoint, &so_far) {
        (Some(path), _) => format!("the same command goes on where it ended, from `{}`", path.display()),
        (None, Some(_)) => "with these values as `start` in `[unknown]` a search goes on from here; with \
                            `--checkpoint FILE` the same command goes on where it ended"
            .to_owned(),
        (None, None) => "with `--checkpoint FILE` the same command goes on where it ended".to_owned(),
    };
    Failure::Method(vec![Diagnostic::error("stopped", message).with_help(help)])
}
