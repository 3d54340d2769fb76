//! What must be said of estimates: that they are at a bound, or that the data do not determine them.

use daesy_estimate::chi_square::CHI_SQUARE_95;
use daesy_estimate::prior::Prior;
use daesy_estimate::profile::{Minimum, ProfileEnd, ProfileInterval};
use daesy_estimate::residual::ResidualSize;
use daesy_estimate::search::{Bound, SearchSpace};
use daesy_estimate::uncertainty::Compensation;
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_pencil::Mat;

use super::show::factor_words;
use super::{Method, ParameterEstimate, ResidualSummary};
use daesy_report::words::short;
use daesy_study::problem::says_accuracy;
use daesy_study::study::{Measurement, Quantity, QuantityValue, Study};

/// The code of warnings about the size of prediction errors.
pub(super) const NOISE_SIZE: &str = "noise-size";

/// A warning for every estimate at its bound; `places` are those of the unknowns in the study, `information` that of the
/// data, where there is one.
pub(super) fn at_bounds<'a>(
    parameters: &'a [ParameterEstimate],
    places: impl Iterator<Item = Span> + 'a,
    information: Option<&'a Mat<f64>>,
) -> impl Iterator<Item = Finding> + 'a {
    let bounded = parameters.iter().zip(places).enumerate().filter(|(_, (parameter, _))| parameter.at_bound.is_some());
    bounded.map(move |(at, (parameter, place))| {
        let together = information.and_then(|information| told_together(parameters, information, at));
        let message = format!(
            "`{}` is at its bound {}: its error is not known{}",
            parameter.name,
            parameter.estimate,
            together.map_or_else(String::new, |words| format!("; {words}"))
        );
        let help = if parameter.estimate == 0.0 {
            "the data show nothing of it: take it as known, leave it out, or look whether another error, such as a `std` \
             that is too large, hides it"
        } else {
            "widen the bound; if it then runs off, the data give a limit only: take the value as known, or measure more"
        };
        Finding::warning("at-bound", place, message).with_names([&parameter.name]).with_help(help)
    })
}

/// An unknown for which others make up but for this share of its information is told only together with them.
const TOGETHER: f64 = 0.05;

/// Relative changes that are as near to 0 or 1 are that.
const ROUGHLY: f64 = 0.1;

/// Which combination with other unknowns the data determine, where they hardly tell one by itself.
fn told_together(parameters: &[ParameterEstimate], information: &Mat<f64>, at: usize) -> Option<String> {
    let theta: Vec<f64> = parameters.iter().map(|parameter| parameter.estimate).collect();
    let bounds: Vec<Option<Bound>> = parameters.iter().map(|parameter| parameter.at_bound).collect();
    let found = Compensation::of(information, &theta, &bounds, at).filter(|found| found.left < TOGETHER)?;
    let name = &parameters[at].name;
    let mut others: Vec<(&str, f64)> = parameters
        .iter()
        .zip(&found.changes)
        .filter(|(_, change)| change.abs() > ROUGHLY)
        .map(|(parameter, change)| (parameter.name.as_str(), *change))
        .collect();
    others.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    match &others[..] {
        [] => None,
        [(other, change)] if (change.abs() - 1.0).abs() < ROUGHLY => {
            let sign = if *change > 0.0 { "/" } else { "*" };
            Some(format!("the data hardly tell it by itself, but `{other}{sign}{name}`"))
        }
        _ => {
            let list: Vec<String> =
                others.iter().take(3).map(|(other, change)| format!("{} % of `{other}`", short(*change, 2))).collect();
            Some(format!("the data hardly tell it by itself: {} make up for 1 % of it", list.join(", ")))
        }
    }
}

/// A warning where prediction errors of ensembles drove the size of a disturbance to zero.
pub(super) fn vanished(names: &[&str]) -> Option<Finding> {
    if names.is_empty() {
        return None;
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let message = format!(
        "{} went to zero, which does not mean that there is no disturbance: the mean of an ensemble hardly depends on \
         how strong disturbances are, and the cost not at all on their sign",
        quoted.join(", ")
    );
    Some(Finding::warning("noise-vanished", Span::NONE, message).with_names(names.iter().copied()).with_help(
        "take `method = \"ml\"`, which looks at how far measurements stray from predictions, or give the size as known",
    ))
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

/// The warning that the likelihood is higher elsewhere by more than what an interval of 95 % allows.
pub(super) fn better_optimum(
    parameters: &[ParameterEstimate],
    mut places: impl Iterator<Item = Span>,
    minimum: f64,
    minima: &[Minimum],
) -> Option<Finding> {
    let best = minima.iter().min_by(|a, b| a.value.total_cmp(&b.value))?;
    if best.value > minimum - 0.5 * CHI_SQUARE_95 {
        return None;
    }
    let named = parameters.iter().zip(&best.theta);
    let there: Vec<String> = named.map(|(parameter, value)| format!("{} = {value:.6}", parameter.name)).collect();
    let message = format!(
        "the estimate is a local optimum: the log-likelihood is higher by {:.1} at {}",
        minimum - best.value,
        there.join(", ")
    );
    let finding = Finding::warning("local-optimum", places.next().unwrap_or(Span::NONE), message);
    let finding = finding.with_names(parameters.iter().map(|parameter| parameter.name.as_str()));
    Some(finding.with_help("give these values as `start`, or search from several points with `starts` in `[identify]`"))
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
        let message =
            format!("the profile interval of `{name}` joins separate ranges that are compatible with the data");
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

/// How much of the variance of a normal prior the data took away.
pub(super) fn shrinkage(prior: Option<Prior>, std: f64) -> Option<f64> {
    match prior {
        Some(Prior::Normal { std: before, .. }) if std.is_finite() => Some(1.0 - (std / before).powi(2)),
        _ => None,
    }
}

/// The logarithm of all priors, if there are some.
pub(super) fn log_prior(priors: &[Option<Prior>], theta: &[f64]) -> Option<f64> {
    priors.iter().any(Option::is_some).then(|| daesy_estimate::prior::log_prior(priors, theta))
}

/// A warning for every direction that the data do not determine, and a note where a prior does.
pub(super) fn flat<'a>(
    directions: &'a [Vec<(String, f64)>],
    parameters: &'a [ParameterEstimate],
) -> impl Iterator<Item = Finding> + 'a {
    directions.iter().map(|direction| {
        let names: Vec<&str> = direction.iter().map(|(name, _)| name.as_str()).collect();
        let is_known = |name: &&str| {
            parameters.iter().any(|parameter| parameter.name == **name && parameter.std_error.is_finite())
        };
        if names.iter().all(is_known) {
            let message = format!("only the prior determines {}: the data do not", words(&names));
            return Finding::note("prior-only", Span::NONE, message).with_names(names);
        }
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

/// Warnings where residuals are larger or smaller than the predicted standard deviations allow.
pub(super) fn noise_size<'a>(
    residuals: &'a [ResidualSummary],
    study: &'a Study,
    method: Method,
) -> impl Iterator<Item = Finding> + 'a {
    residuals.iter().filter(|residual| residual.size.is_doubtful()).map(move |residual| {
        let name = &residual.name;
        let size = residual.size;
        let factor = size.normalized_variance.sqrt();
        let [least, most] = size.band();
        let message = format!(
            "the prediction errors of `{name}` are {} the model says: their normalized variance is {}, and {} to {} \
             would be believable",
            factor_words(factor),
            short(size.normalized_variance, 3),
            short(least, 3),
            short(most, 3)
        );
        let measurement = study.measurements.iter().find(|measurement| measurement.name == *name);
        let place = measurement.map_or(Span::NONE, |measurement| measurement.span);
        let mut help = size_remedy(name, measurement.map(|measurement| &measurement.item), factor, method, study);
        if factor > 1.0 && residual.whiteness < CORRELATED && method != Method::PredictionError {
            help = format!(
                "they are not white either, which no accuracy explains: the model misses something, or the search ended \
                 in a local minimum, which `--starts 20` may leave; if neither is so, {help}"
            );
        }
        Finding::warning(NOISE_SIZE, place, message).with_names([name]).with_help(help)
    })
}

/// White errors are as correlated as these with this probability.
pub(super) const CORRELATED: f64 = 1e-3;

/// How much prediction errors change from sample to sample.
pub(super) struct Jitter {
    /// The change beside what the model says of it.
    pub(super) size: ResidualSize,
    /// The size of errors of measurement that would explain it.
    pub(super) std: f64,
}

/// A warning where prediction errors change more or less from sample to sample than the model says.
pub(super) fn jitter(name: &str, jitter: &Jitter, study: &Study) -> Option<Finding> {
    let measurement = study.measurements.iter().find(|measurement| measurement.name == *name)?;
    if !jitter.size.is_doubtful() || !says_accuracy(measurement) {
        return None;
    }
    let variance = jitter.size.normalized_variance;
    let [least, most] = jitter.size.band();
    let message = format!(
        "the changes of the prediction errors of `{name}` from sample to sample are {} the model says: their normalized \
         variance is {}, and {} to {} would be believable",
        factor_words(variance.sqrt()),
        short(variance, 3),
        short(least, 3),
        short(most, 3)
    );
    let factor = given_accuracy(&measurement.item).map(|given| jitter.std / given).filter(|factor| *factor > 0.0);
    let beside = factor.map_or_else(String::new, |factor| format!(", {} what is given", factor_words(factor)));
    let help = format!(
        "errors of measurement are new at every sample: `std = {}` in the measurement `{name}` would explain it{beside}",
        short(jitter.std, 3)
    );
    Some(Finding::warning(NOISE_SIZE, measurement.span, message).with_names([name]).with_help(help))
}

/// A note where prediction errors contradict the estimate of a disturbance's size, but not what is known of it.
pub(super) fn open_noise(scale: &ParameterEstimate, size: f64, place: Span) -> Finding {
    let name = &scale.name;
    let message = format!(
        "the size and the changes of the prediction errors contradict {name} = {}, but agree with {name} = {}, which the fit of \
         means does not exclude",
        short(scale.estimate, 3),
        short(size, 3)
    );
    let help = format!("`method = \"ml\"` sees how errors follow each other, and tells `{name}` far better");
    Finding::note("noise-open", place, message).with_names([name]).with_help(help)
}

/// The standard deviation that a study gives for a measurement as a number above zero.
pub(super) fn given_accuracy(measurement: &Measurement) -> Option<f64> {
    let number = |quantity: &Option<Quantity>| match quantity {
        Some(Quantity { value: QuantityValue::Number(number), .. }) => Some(*number),
        _ => None,
    };
    let given = number(&measurement.std).or_else(|| number(&measurement.variance).map(f64::sqrt));
    given.filter(|given| *given > 0.0)
}

/// A name for the standard deviation of a measurement where it is unknown.
pub(super) fn symbol_of(name: &str) -> String {
    format!("std_{name}").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// What to write instead of an accuracy that the data do not bear out.
fn size_remedy(name: &str, measurement: Option<&Measurement>, factor: f64, method: Method, study: &Study) -> String {
    let given = measurement.and_then(given_accuracy);
    let is_disturbed = !study.disturbances.is_empty();
    if is_disturbed && method == Method::OutputError && factor > 1.0 {
        return "an output-error fit leaves out the disturbances: `method = \"ml\"` takes them into account".to_owned();
    }
    let others =
        if is_disturbed { "; or the size of a disturbance is off, which can be unknown in the same way" } else { "" };
    let Some(given) = given else {
        return format!("correct the sizes of measurement errors and disturbances, or make them unknown{others}");
    };
    let better = short(given * factor, 3);
    if method != Method::MaximumLikelihood {
        return format!("write `std = {better}` instead of {given} in the measurement `{name}`{others}");
    }
    let symbol = symbol_of(name);
    format!(
        "let the data tell: write `std = \"{symbol}\"` instead of {given} in the measurement `{name}`, and below \
         `[unknown]` the line `{symbol} = {{ start = {better}, min = 0.0 }}`{others}"
    )
}
