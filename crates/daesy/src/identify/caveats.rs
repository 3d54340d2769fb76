//! What must be said of estimates: that they are at a bound, or that the data do not determine them.

use daesy_graph::Span;
use daesy_graph::finding::Finding;

use super::ParameterEstimate;

/// Weights below this do not count as part of a direction.
const NEGLIGIBLE: f64 = 1e-3;

/// A warning for every estimate at its bound.
pub(super) fn at_bounds(parameters: &[ParameterEstimate]) -> impl Iterator<Item = Finding> {
    parameters.iter().filter(|parameter| parameter.at_bound.is_some()).map(|parameter| {
        let message = format!("`{}` is at its bound {}: its error is not known", parameter.name, parameter.estimate);
        Finding::warning("at-bound", Span::NONE, message)
            .with_names([&parameter.name])
            .with_help("widen the bound, or take the value as known")
    })
}

/// Directions of the parameters that the data do not determine, by name.
pub(super) fn named_directions(parameters: &[ParameterEstimate], directions: &[Vec<f64>]) -> Vec<Vec<(String, f64)>> {
    directions
        .iter()
        .map(|direction| {
            let entries = parameters.iter().zip(direction).filter(|(_, weight)| weight.abs() > NEGLIGIBLE);
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
