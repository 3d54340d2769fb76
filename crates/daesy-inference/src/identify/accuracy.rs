//! By how much the accuracy of measurements is off, where prediction errors are not as large as the model says.
//!
//! The size of prediction errors alone does not tell: with errors of measurement that are taken to be too small, a
//! filter takes them for disturbances and carries them on into its predictions, which are then off by another factor
//! than the accuracy is. So the sizes of all errors of measurement are estimated beside the unknowns, by maximum
//! likelihood of the same model and data.
//!
//! A disturbance of unknown size hides it: beside errors of measurement that are taken to be next to nothing, all
//! variances grow with its square, and where the likelihood is largest prediction errors are as large as they should be.
//! They are not white then. So accuracies are estimated in this case too, and told if that makes them white.
//!
//! Prediction errors of ensembles are those of means that no measurement corrects. A disturbance correlates them whatever
//! the accuracy is, and its size, which means hardly tell, may come out as whatever makes the variance of errors right.
//! What is told there is told by the same likelihood, that of a filter.

use daesy_graph::Span;
use daesy_graph::finding::Finding;

use super::caveats::{CORRELATED, given_accuracy, symbol_of};
use super::fitted::resolve;
use super::show::factor_words;
use super::{Identification, IdentifyOptions, Method, ProgressLine, ResidualSummary};
use daesy_report::words::short;
use daesy_study::load::Loaded;
use daesy_study::study::{Measurement, Named, Study};

/// Factors that are nearer to 1 do no harm.
const HARMLESS: f64 = 1.1;

/// Standard errors by which the logarithm of a factor, or a correlation, differs from zero for certain.
const CERTAIN: f64 = 3.3;

/// An accuracy beside what the data say of it.
struct Accuracy {
    name: String,
    span: Span,
    given: f64,
    estimate: f64,
    std_error: f64,
}

/// Who identifies a study, and gives nothing where that fails.
type Identify<'i> = dyn FnMut(&Loaded, &IdentifyOptions, &mut ProgressLine<'_>) -> Option<Identification> + 'i;

fn are_doubtful(found: &Identification) -> bool {
    found.residuals.iter().any(|residual| residual.size.is_doubtful())
}

/// Whether prediction errors are uncorrelated, over all lags and from one to the next: errors of measurement that a
/// filter takes for disturbances are followed by one of the other sign.
fn are_white(found: &Identification) -> bool {
    found.residuals.iter().all(|residual| {
        let next = residual.size.lag_autocorrelation.abs() * residual.size.n_effective.sqrt();
        residual.whiteness.is_nan() || (residual.whiteness >= CORRELATED && next < CERTAIN)
    })
}

/// Estimates all accuracies that are given as numbers, from starts by name and given value, beside the unknowns. `None`
/// where there are none, or prediction errors contradict the model even so: by their size, or their correlations where
/// these are what is to be explained.
fn estimated(
    loaded: &Loaded,
    study: &Study,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
    start: &dyn Fn(&str, f64) -> f64,
    must_be_white: bool,
    identify: &mut Identify<'_>,
) -> Option<Vec<Accuracy>> {
    let of = |(at, signal): (usize, &Named<Measurement>)| Some((at, given_accuracy(&signal.item)?));
    let given: Vec<(usize, f64)> = study.measurements.iter().enumerate().filter_map(of).collect();
    let name = |at: usize| study.measurements[at].name.as_str();
    let asked: Vec<(usize, String, f64)> =
        given.iter().map(|&(at, given)| (at, symbol_of(name(at)), start(name(at), given))).collect();
    if asked.is_empty() {
        return None;
    }
    progress("accuracies of the measurements");
    let freed = loaded.with_unknown_accuracies(&asked)?;
    let method = Some(Method::MaximumLikelihood.word().to_owned());
    let options = IdentifyOptions { method, checkpoint: None, with_profiles: false, n_starts: 1, ..options.clone() };
    let better = identify(&freed, &options, progress)?;
    if !better.converged || are_doubtful(&better) || (must_be_white && !are_white(&better)) {
        return None;
    }
    let of = |(&(at, given), (_, symbol, _)): (&(usize, f64), &(usize, String, f64))| {
        let parameter = better.parameters.iter().find(|parameter| parameter.name == *symbol)?;
        let signal = &study.measurements[at];
        Some(Accuracy {
            name: signal.name.clone(),
            span: signal.span,
            given,
            estimate: parameter.estimate,
            std_error: parameter.std_error,
        })
    };
    given.iter().zip(&asked).map(of).collect()
}

/// Says of every accuracy by which factor it is off, in the place of warnings that only say so of prediction errors.
/// Nothing is changed where the data do not tell.
pub(super) fn explain(
    found: &mut Identification,
    loaded: &Loaded,
    study: &Study,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
    identify: &mut Identify<'_>,
) {
    let are_off = are_doubtful(found);
    let may_hide = !study.disturbances.is_empty() && (found.method == Method::PredictionError || !are_white(found));
    if found.method == Method::OutputError || !(are_off || may_hide) {
        return;
    }
    // What prediction errors say is a start: their size beside the predicted one, or where that is right, all of it.
    let start = |name: &str, given: f64| {
        let residual = found.residuals.iter().find(|residual| residual.name == name);
        let of = |residual: &ResidualSummary| match are_off {
            true => given * residual.size.normalized_variance.sqrt(),
            false => residual.std,
        };
        residual.map(of).filter(|start| start.is_finite() && *start > 0.0).unwrap_or(given)
    };
    let Some(accuracies) = estimated(loaded, study, options, progress, &start, !are_off, identify) else { return };
    let told: Vec<Finding> = accuracies.iter().filter(|accuracy| accuracy.is_off()).map(Accuracy::warning).collect();
    if told.is_empty() {
        return;
    }
    found.diagnostics.retain(|diagnostic| diagnostic.code != super::caveats::NOISE_SIZE);
    found.diagnostics.extend(told.iter().map(|finding| resolve(loaded, finding)));
}

/// Factors that accuracies are tried with where the data are impossible with those that are given.
const TRIED: [f64; 3] = [30.0, 1e3, 3e4];

/// Warnings about accuracies with which there is no likelihood at all: a filter that trusts its measurements too much
/// corrects states to where the model makes no sense.
pub(super) fn instead_of_nothing(
    loaded: &Loaded,
    study: &Study,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
    identify: &mut Identify<'_>,
) -> Vec<Finding> {
    for factor in TRIED {
        let start = |_: &str, given: f64| factor * given;
        if let Some(accuracies) = estimated(loaded, study, options, progress, &start, false, identify) {
            return accuracies.iter().filter(|accuracy| accuracy.is_off()).map(Accuracy::warning).collect();
        }
    }
    Vec::new()
}

impl Accuracy {
    fn factor(&self) -> f64 {
        self.estimate / self.given
    }

    fn is_off(&self) -> bool {
        let factor = self.factor();
        factor > 0.0
            && self.std_error.is_finite()
            && factor.max(1.0 / factor) > HARMLESS
            && factor.ln().abs() > CERTAIN * self.std_error / self.estimate
    }

    fn warning(&self) -> Finding {
        let Self { name, given, .. } = self;
        let estimate = short(self.estimate, 3);
        let message = format!(
            "the errors of the measurement `{name}` are {} its accuracy of {} says: prediction errors contradict it, \
             and with accuracies that are unknown the data give {estimate} +- {}",
            factor_words(self.factor()),
            short(*given, 3),
            short(self.std_error, 2)
        );
        let symbol = symbol_of(name);
        let help = format!(
            "write `std = {estimate}` in the measurement `{name}`; or let the data tell: write `std = \"{symbol}\"` there, \
             and below `[unknown]` the line `{symbol} = {{ start = {estimate}, min = 0.0 }}`"
        );
        Finding::warning(super::caveats::NOISE_SIZE, self.span, message).with_names([name]).with_help(help)
    }
}
