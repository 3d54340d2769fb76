//! What must be said of estimates: that they are at a bound, or that the data do not determine them.

use daesy_estimate::profile::{ProfileEnd, ProfileInterval};
use daesy_estimate::search::SearchSpace;
use daesy_graph::Span;
use daesy_graph::finding::Finding;

use super::{ParameterEstimate, ResidualSummary};

/// A warning for every estimate at its bound; `places` are those of the unknowns in the study.
pub(super) fn at_bounds(
    parameters: &[ParameterEstimate],
    places: impl Iterator<Item = Span>,
) -> impl Iterator<Item = Finding> {
    parameters.iter().zip(places).filter(|(parameter, _)| parameter.at_bound.is_some()).map(|(parameter, place)| {
        let message = format!("`{}` is at its bound {}: its error is not known", parameter.name, parameter.estimate);
        Finding::warning("at-bound", place, message).with_names([&parameter.name]).with_help(
            "widen the bound; if it then runs off, the data give a limit only: take the value as known, or measure more",
        )
    })
}

/// A note for every interval that reaches over a bound: it comes from a curvature that does not know of it.
pub(super) fn beyond_bounds(
    parameters: &[ParameterEstimate],
    places: impl Iterator<Item = Span>,
    space: &SearchSpace,
) -> impl Iterator<Item = Finding> {
    let reaches_over = |at: usize, parameter: &ParameterEstimate| {
        parameter.at_bound.is_none() && (parameter.ci95[0] < space.lower[at] || parameter.ci95[1] > space.upper[at])
    };
    parameters.iter().zip(places).enumerate().filter(move |(at, (parameter, _))| reaches_over(*at, parameter)).map(
        |(_, (parameter, place))| {
            let message = format!("the 95 % interval of `{}` reaches over its bounds", parameter.name);
            Finding::note("interval-over-bound", place, message)
                .with_names([&parameter.name])
                .with_help("`--profile` finds an interval from the likelihood itself")
        },
    )
}

/// Notes on a profile: ends that are not where the likelihood has dropped, and gaps.
pub(super) fn of_profile(name: &str, place: Span, profile: &ProfileInterval) -> impl Iterator<Item = Finding> {
    let sides = ["lower", "upper"];
    let mut notes = Vec::new();
    for (side, kind) in sides.iter().zip(profile.kinds) {
        let reason = match kind {
            ProfileEnd::Crossing | ProfileEnd::Bound => continue,
            ProfileEnd::Wall => "beyond it the model has no likelihood",
            ProfileEnd::NotFound => "the likelihood does not drop enough as far as was looked",
        };
        let message = format!("the {side} end of the profile interval of `{name}` is not certain: {reason}");
        notes.push(
            Finding::note("profile-end", place, message)
                .with_names([name])
                .with_help("bound the unknown, or measure more"),
        );
    }
    if profile.has_gap {
        let message = format!("the profile interval of `{name}` joins separate ranges that fit the data equally well");
        notes.push(
            Finding::note("profile-gap", place, message).with_names([name]).with_help(
                "bound the unknowns so that one of the ranges is left, as where two of them may be exchanged",
            ),
        );
    }
    notes.into_iter()
}

/// Directions of the parameters that the data do not determine, by name.
pub(super) fn named_directions(parameters: &[ParameterEstimate], directions: &[Vec<f64>]) -> Vec<Vec<(String, f64)>> {
    directions
        .iter()
        .map(|direction| {
            let entries = parameters.iter().zip(direction).filter(|(_, weight)| **weight != 0.0);
            entries.map(|(parameter, weight)| (parameter.name.clone(), *weight)).collect()
        })
        .collect()
}

/// A warning for every direction that the data do not determine.
pub(super) fn flat(directions: &[Vec<(String, f64)>]) -> impl Iterator<Item = Finding> {
    directions.iter().map(|direction| {
        let names: Vec<&str> = direction.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("the data do not determine {}", words(&names));
        Finding::warning("flat-direction", Span::NONE, message)
            .with_names(names)
            .with_help("fix one of them, or measure more")
    })
}

fn words(names: &[&str]) -> String {
    match names {
        [one] => format!("`{one}`"),
        _ => {
            let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("{} separately", quoted.join(", "))
        }
    }
}

/// Warnings where residuals are larger or smaller than the predicted standard deviations allow: standard errors are as
/// wrong as these.
pub(super) fn noise_size(residuals: &[ResidualSummary]) -> impl Iterator<Item = Finding> {
    residuals.iter().filter(|residual| residual.size.is_doubtful()).map(|residual| {
        let name = &residual.name;
        let message = format!(
            "the prediction errors of `{name}` are {:.3} times as large as their standard deviation by the model",
            residual.size.normalized_variance.sqrt()
        );
        Finding::warning("noise-size", Span::NONE, message).with_names([name]).with_help(
            "standard errors and intervals are off alike: correct `std` of the measurement and the sizes of disturbances, or \
             make them unknown",
        )
    })
}
