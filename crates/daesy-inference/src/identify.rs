//! `daesy identify`: unknown parameters from data, with their uncertainty.
//!
//! Models that are linear in their variables are identified by maximum likelihood ([`ml`]), all others by prediction
//! errors of simulated ensembles or by output errors (`pem`), or by the likelihood under the approximation of a filter
//! ([`filtered`]). The result is the same for all methods.

mod accuracy;
mod caveats;
mod certainty;
pub mod compare;
mod far;
pub mod filtered;
mod fitted;
pub mod ml;
mod notebook;
pub(crate) mod pem;
pub mod posterior;
mod save;
mod show;
mod stopping;
mod validation;

pub use validation::Validated;

use std::path::PathBuf;

pub use daesy_estimate::multi_start::StartOutcome;
use daesy_estimate::residual::ResidualSize;
use daesy_estimate::search::Bound;
use serde_json::{Map, Value, json};

use crate::estimate::spread::Spread;
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_report::checkpoint::{Checkpoint, Run};
use daesy_report::table::Table;
use daesy_structure::linearize::LinearModel;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::linear_study::posed;
use daesy_study::linear_study::{LinearStudy, SignalsWanted};
use daesy_study::load::Loaded;
use daesy_study::prediction_study::{has_discrete, sample_off_grid};
use daesy_study::problem::{
    Linearity, Problem, refuse_unsaid_accuracy, says_accuracy, study_of, unknown_accuracy, varying_accuracy,
};
use daesy_study::study::{Measurement, Named, Quantity, QuantityValue, Study};

/// How parameters are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Maximum likelihood.
    MaximumLikelihood,
    /// Prediction errors of simulated ensembles.
    PredictionError,
    /// Least squares of simulated outputs, disturbances left out.
    OutputError,
}

impl Method {
    /// The word in studies and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::MaximumLikelihood => "ml",
            Self::PredictionError => "pem",
            Self::OutputError => "output-error",
        }
    }
}

/// What is asked besides the study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentifyOptions {
    /// `auto`, `ml`, `pem` or `output-error`, instead of the study's.
    pub method: Option<String>,
    /// Number of starting points.
    pub n_starts: usize,
    /// Whether profile-likelihood intervals are wanted.
    pub with_profiles: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// A file that keeps what was computed, so that the same command goes on where it ended.
    pub checkpoint: Option<PathBuf>,
    /// Number of threads; all cores when left out.
    pub threads: Option<usize>,
}

impl Default for IdentifyOptions {
    fn default() -> Self {
        Self { method: None, n_starts: 1, with_profiles: false, seed: 0, checkpoint: None, threads: None }
    }
}

/// One estimated parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct ParameterEstimate {
    /// Its name.
    pub name: String,
    /// The estimate.
    pub estimate: f64,
    /// Standard error; NaN at a bound, infinite where data do not determine it.
    pub std_error: f64,
    /// Standard error that does not rely on the model being right.
    pub robust_std_error: f64,
    /// 95 % confidence interval.
    pub ci95: [f64; 2],
    /// 95 % profile-likelihood interval, where asked for.
    pub profile95: Option<[f64; 2]>,
    /// Where the search started.
    pub start: f64,
    /// The bound it is at.
    pub at_bound: Option<Bound>,
    /// How much of the variance of a normal prior the data took away: 1 - posterior variance / prior variance.
    pub prior_shrinkage: Option<f64>,
    /// Whether the model's motion depends on it; else it is the size of a disturbance or error.
    pub moves_model: bool,
}

impl ParameterEstimate {
    /// Whether two standard errors are as large as the estimate, so that neither its sign nor its size is known.
    #[must_use]
    pub fn is_vague(&self) -> bool {
        self.std_error.is_finite() && 2.0 * self.std_error >= self.estimate.abs()
    }
}

/// What data say about the unknowns together.
#[derive(Clone, PartialEq, Debug)]
pub struct Identifiability {
    /// Number of directions that data determine.
    pub rank: usize,
    /// Number of unknowns.
    pub n_unknown: usize,
    /// Directions that data do not determine: names and weights in nominal units.
    pub flat_directions: Vec<Vec<(String, f64)>>,
}

/// Residuals of one measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct ResidualSummary {
    /// The measured signal.
    pub name: String,
    /// Probability of such residuals if they were white.
    pub whiteness: f64,
    /// Probability of such residuals if they were normal.
    pub normality: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// How large they are beside what the model predicts.
    pub size: ResidualSize,
    /// Per known input, the probability of such correlations if there were none.
    pub input_correlation: Vec<(String, f64)>,
}

/// Predictions of one measurement in one experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// The measured signal.
    pub name: String,
    /// Experiment, from 0.
    pub experiment: usize,
    /// Times.
    pub times: Vec<f64>,
    /// Measured values; NaN where missing.
    pub measured: Vec<f64>,
    /// Predicted values.
    pub predicted: Vec<f64>,
    /// Standard deviations of the prediction errors.
    pub std: Vec<f64>,
}

/// Identified parameters.
#[derive(Clone, Debug)]
pub struct Identification {
    /// The model.
    pub model: String,
    /// How they were found.
    pub method: Method,
    /// Why in this way.
    pub method_reason: String,
    /// Whether the search arrived.
    pub converged: bool,
    /// Its steps.
    pub iterations: usize,
    /// The parameters.
    pub parameters: Vec<ParameterEstimate>,
    /// Covariance of the estimates, in the order of the parameters; NaN at a bound and where data do not determine one.
    pub covariance: Vec<Vec<f64>>,
    /// Why standard errors and covariance are robust ones, if they are.
    pub robust_reason: Option<String>,
    /// What was minimized: the negative log-likelihood, or the mean of squared errors.
    pub cost: f64,
    /// The logarithm of the product of all priors, with their constants; where there are some.
    pub log_prior: Option<f64>,
    /// With the constants of `2 pi`; where the method has one.
    pub log_likelihood: Option<f64>,
    /// Akaike's criterion.
    pub aic: Option<f64>,
    /// Schwarz' criterion.
    pub bic: Option<f64>,
    /// Number of values used.
    pub n_samples: usize,
    /// Number of values that the likelihood is a density of: those used, but for one for each direction of a diffuse
    /// start; where the method has a likelihood.
    pub n_density_values: Option<usize>,
    /// How much of the variation of each measurement is predicted, in percent.
    pub fit_percent: Vec<(String, f64)>,
    /// What data determine.
    pub identifiability: Identifiability,
    /// Residuals.
    pub residuals: Vec<ResidualSummary>,
    /// Whether the method predicts from earlier measurements, or without disturbances: residuals are white then if the
    /// model is right.
    pub errors_are_independent: bool,
    /// Predictions.
    pub fits: Vec<Fit>,
    /// Searches, where there were several.
    pub starts: Vec<StartOutcome>,
    /// Start values that were estimated, by experiment.
    pub initial: Vec<Vec<(String, f64)>>,
    /// How a filter fails its own check on data that the model makes, if it does.
    pub filter_failure: Option<String>,
    /// What the result rests on where the likelihood of a nonlinear model is approximated.
    pub approximation: Option<String>,
    /// Predictions of records that parameters were not found from.
    pub validation: Vec<Validated>,
    /// Predictions of the data themselves, where horizons were asked for.
    pub predictions: Vec<Validated>,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Told about every step of a search.
pub type ProgressLine<'a> = dyn FnMut(&str) + 'a;

/// How the model was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// By matrices, as what is linear in its variables.
    Linear,
    /// By what it does.
    Nonlinear,
}

/// Why a method was taken: somebody wanted it.
const ASKED: &str = "it was asked for";

/// Why the likelihood of a linear model was taken.
const LINEAR: &str = "the model is linear in its variables";

/// How a question about data is answered.
pub(crate) enum Route {
    /// By filters of a model that is linear in its variables.
    Linear { study: Box<LinearStudy>, method: Method },
    /// By simulated ensembles.
    Ensembles(Method),
    /// By filters of a nonlinear model.
    Filter,
}

/// The way that suits a problem and what is asked: the method of the command line, else that of the study.
pub(crate) fn route(loaded: &Loaded, problem: &Problem, method: Option<&str>) -> Result<Route, Failure> {
    reasoned_route(loaded, problem, method).map(|(route, _)| route)
}

/// The route of a nonlinear model where nobody asks for a method: the likelihood of a filter where something is random
/// besides measurement errors of known size, output errors where nothing is, and prediction errors of ensembles where
/// there is no filter.
fn automatic(loaded: &Loaded, problem: &Problem, study: &Study) -> Result<(Route, String), Failure> {
    let unknown_accuracy = unknown_accuracy(loaded, study, &problem.unknowns);
    let unsaid = study.measurements.iter().find(|signal| !says_accuracy(signal));
    let prior = problem.unknowns.iter().find(|unknown| unknown.prior.is_some());
    let disturbance = study.disturbances.first().map(|disturbance| disturbance.name.as_str());
    let cause = match (disturbance, unknown_accuracy) {
        (None, None) if prior.is_none() => {
            let mut reason = "the model is not linear, and nothing but errors of measurement is random".to_owned();
            if has_discrete(&loaded.flat) {
                reason.push_str("; its events are followed one by one, with derivatives across them");
            }
            if study.identify.weighting.as_deref() == Some("std") {
                reason.push_str("; each of these counts in units of its `std`");
            }
            return Ok((Route::Ensembles(Method::OutputError), reason));
        }
        (Some(name), _) if has_discrete(&loaded.flat) => {
            format!(
                "the disturbance `{name}` moves the events of the model: its discrete states are filtered as a mixture"
            )
        }
        (Some(name), _) => format!("the model is not linear, and the disturbance `{name}` acts in it"),
        (None, Some(name)) => format!("the model is not linear, and the accuracy of `{name}` is unknown"),
        (None, None) => "the model is not linear, and there are priors to weigh against the data".to_owned(),
    };
    if let Some(signal) = unsaid {
        let reason = format!("{cause}; the likelihood of a filter needs the accuracy of `{}`", signal.name);
        return Ok((Route::Ensembles(Method::PredictionError), reason));
    }
    // Between samples nothing is random where no disturbance acts, so that a filter needs no grid.
    let has_grid = disturbance.is_some() || has_discrete(&loaded.flat);
    if has_grid && let Some(time) = sample_off_grid(study, problem)? {
        let reason = format!("{cause}; a filter needs samples on the grid of `noise_step`, and t = {time} is not");
        return Ok((Route::Ensembles(Method::PredictionError), reason));
    }
    Ok((Route::Filter, cause))
}

/// The study with errors in units of their `std`, where daesy chooses output errors of several signals that all have one:
/// signals in their own units would be weighed by these. `None` where nothing is to be changed.
fn weighed(loaded: &Loaded, problem: &Problem, method: Option<&str>) -> Result<Option<Loaded>, Failure> {
    let study = study_of(loaded)?;
    let is_asked = method.or(study.identify.method.as_deref()).is_some_and(|asked| asked != "auto");
    let are_said = study.measurements.iter().all(|signal| caveats::given_accuracy(&signal.item).is_some());
    if is_asked || study.identify.weighting.is_some() || study.measurements.len() < 2 || !are_said {
        return Ok(None);
    }
    if matches!(problem.linearity, Linearity::Constant(_)) {
        return Ok(None);
    }
    let (route, _) = automatic(loaded, problem, study)?;
    Ok(matches!(route, Route::Ensembles(Method::OutputError)).then(|| loaded.with_weighed_errors()).flatten())
}

/// The route with its reason.
fn reasoned_route(loaded: &Loaded, problem: &Problem, method: Option<&str>) -> Result<(Route, String), Failure> {
    let study = study_of(loaded)?;
    let asked = method.or(study.identify.method.as_deref()).unwrap_or("auto");
    if !["auto", "ml", "pem", "output-error"].contains(&asked) {
        let diagnostic = Diagnostic::error("method", format!("there is no method `{asked}`"));
        return Err(Failure::Usage(vec![diagnostic.with_help("methods: auto, ml, pem, output-error")]));
    }
    if asked == "ml" {
        refuse_unsaid_accuracy(study)?;
    }
    let linear = |model: &LinearModel, method: Method| -> Result<Route, Failure> {
        if method == Method::MaximumLikelihood {
            refuse_unsaid_accuracy(study)?;
        }
        let posed = posed(loaded, problem, model, SignalsWanted::No)?;
        if method != Method::OutputError {
            return Ok(Route::Linear { study: Box::new(posed), method });
        }
        let varying = posed.of_varying_accuracy().map(|at| varying_accuracy(&study.measurements[at]));
        let varying: Vec<Diagnostic> = varying.map(|it| Diagnostic::resolve(&it, &study.sources)).collect();
        if !varying.is_empty() {
            return Err(Failure::Input(varying));
        }
        Ok(Route::Linear { study: Box::new(posed.without_noise(&problem.start())), method })
    };
    let route = match (asked, &problem.linearity) {
        ("pem", _) => Route::Ensembles(Method::PredictionError),
        ("output-error", Linearity::Constant(model)) => linear(model, Method::OutputError)?,
        (_, Linearity::Constant(model)) => linear(model, Method::MaximumLikelihood)?,
        ("output-error", _) => Route::Ensembles(Method::OutputError),
        ("ml", _) => Route::Filter,
        _ => return automatic(loaded, problem, study),
    };
    let reason = if asked == "auto" { LINEAR } else { ASKED };
    Ok((route, reason.to_owned()))
}

/// Refuses what was asked for and the method cannot do.
fn refuse_options(route: &Route, options: &IdentifyOptions, study: &Study) -> Result<(), Failure> {
    let (words, lacks): (&str, &[&str]) = match route {
        Route::Linear { method: Method::OutputError, .. } => {
            ("an output-error fit of a linear model", &["--checkpoint", "--profile", "bootstrap"])
        }
        Route::Linear { .. } => ("the likelihood of a linear model", &["--checkpoint", "bootstrap"]),
        Route::Ensembles(_) => ("a fit by simulated ensembles", &["--profile"]),
        Route::Filter => ("the likelihood of a nonlinear filter", &["--profile", "bootstrap"]),
    };
    let asked = [
        ("--checkpoint", options.checkpoint.is_some()),
        ("--profile", options.with_profiles),
        ("bootstrap", study.identify.bootstrap.is_some()),
    ];
    let refused = asked.iter().filter(|(name, is_asked)| *is_asked && lacks.contains(name));
    let diagnostics: Vec<Diagnostic> = refused
        .map(|(name, _)| {
            let message = format!("{words} has no use for `{name}`");
            let place = study.identify.given.iter().find(|(key, _)| key == name).map_or(Span::NONE, |&(_, span)| span);
            let finding = Finding::error("option", place, message).with_names([*name]);
            Diagnostic::resolve(&finding.with_help("leave it out, or take another `--method`"), &study.sources)
        })
        .collect();
    if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Usage(diagnostics)) }
}

/// Refuses measurements without error by methods for which errors of measurement are all there is.
fn refuse_exact(route: &Route, study: &Study) -> Result<(), Failure> {
    if !matches!(route, Route::Linear { method: Method::OutputError, .. } | Route::Ensembles(Method::OutputError)) {
        return Ok(());
    }
    let is_zero = |quantity: &Option<Quantity>| {
        quantity.as_ref().is_some_and(|quantity| quantity.value == QuantityValue::Number(0.0))
    };
    let exact = study.measurements.iter().filter(|signal| is_zero(&signal.item.std) || is_zero(&signal.item.variance));
    let refuse = |signal: &Named<Measurement>| {
        let message = format!(
            "`{}` is said to be measured without error, which leaves least squares of output errors no size to weigh its \
             errors by",
            signal.name
        );
        let finding = Finding::error("exact-measurement", signal.span, message).with_names([&signal.name]).with_help(
            "give the accuracy of the sensor as `std`, or leave `std` out, if errors are to be weighed alike",
        );
        Diagnostic::resolve(&finding, &study.sources)
    };
    let diagnostics: Vec<Diagnostic> = exact.map(refuse).collect();
    if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Input(diagnostics)) }
}

/// What is said of the keys of `[identify]` that the method has no use for: refused where the study itself chooses the
/// method, a note where that was left to daesy or said elsewhere, for they may be meant for another one.
fn unused_keys(route: &Route, options: &IdentifyOptions, study: &Study) -> Result<Vec<Diagnostic>, Failure> {
    if study.unknown.is_empty() {
        // A saved study has the keys of the one it comes from, and nothing left to find.
        return Ok(Vec::new());
    }
    // Whether a model is linear is daesy's business: what the same method uses for other models is no mistake.
    let (words, never, here): (&str, &[&str], &[&str]) = match route {
        Route::Linear { method: Method::OutputError, .. } | Route::Ensembles(Method::OutputError) => {
            let of_linear: &[&str] = if matches!(route, Route::Linear { .. }) { &["solver"] } else { &[] };
            let never = &["realizations", "interpolation", "pairing", "noise_step"];
            ("least squares of output errors", never, of_linear)
        }
        Route::Linear { .. } => {
            let never = &["realizations", "interpolation", "pairing", "weighting"];
            ("the likelihood of a linear model", never, &["noise_step", "solver"])
        }
        Route::Ensembles(_) => return Ok(Vec::new()),
        Route::Filter => {
            ("the likelihood of a nonlinear filter", &["realizations", "interpolation", "pairing", "weighting"], &[])
        }
    };
    let is_chosen = options.method.is_none() && study.identify.method.as_deref().is_some_and(|asked| asked != "auto");
    let (mut refused, mut told) = (Vec::new(), Vec::new());
    for &(key, span) in study.identify.given.iter().filter(|(key, _)| never.contains(key) || here.contains(key)) {
        let message = format!("{words} has no use for `{key}`");
        let help = format!("take `{key}` out of `[identify]`, or say `method = \"pem\"`, which uses it");
        let is_refused = is_chosen && never.contains(&key);
        let finding = if is_refused { Finding::error } else { Finding::note }("unused-option", span, message);
        let diagnostic = Diagnostic::resolve(&finding.with_names([key]).with_help(help), &study.sources);
        if is_refused { &mut refused } else { &mut told }.push(diagnostic);
    }
    if refused.is_empty() { Ok(told) } else { Err(Failure::Input(refused)) }
}

/// Identifies the unknowns of a study.
///
/// # Errors
/// Diagnostics, when the study is at fault or the method gives up.
pub fn identify(
    loaded: &Loaded,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, Failure> {
    let mut problem = Problem::read(loaded)?;
    let asked = options.method.as_deref().or(study_of(loaded)?.identify.method.as_deref());
    let mut freed = None;
    // The likelihood of a linear model knows a free start by itself.
    if !matches!(problem.linearity, Linearity::Constant(_)) || asked == Some("pem") {
        freed = loaded.with_unknown_starts(asked != Some("output-error"))?;
    }
    let loaded = freed.as_ref().unwrap_or(loaded);
    if loaded.n_unknown_starts > 0 {
        problem = Problem::read(loaded)?;
    }
    problem.refuse_short_records()?;
    let weighed = weighed(loaded, &problem, options.method.as_deref())?;
    let loaded = weighed.as_ref().unwrap_or(loaded);
    let study = study_of(loaded)?;
    let n_starts = options.n_starts.max(study.identify.starts.unwrap_or(1) as usize);
    let options = &IdentifyOptions { n_starts, ..options.clone() };
    let (mut found, form) = found(loaded, &problem, study, options, progress)?;
    accuracy::explain(&mut found, loaded, study, options, progress, &mut |freed, options, progress| {
        let problem = Problem::read(freed).ok()?;
        let study = study_of(freed).ok()?;
        self::found(freed, &problem, study, options, progress).ok().map(|(found, _)| found)
    });
    refuse_stopped(loaded, &problem, &found, options)?;
    validation::add_to(&mut found, loaded, &problem, form, options, progress)?;
    found.diagnostics.extend(joint_not_used(study));
    Ok(found)
}

/// What of `[random.joint]` has no part in the estimates and their standard errors.
fn joint_not_used(study: &Study) -> Option<Diagnostic> {
    let joint = study.joint.as_ref().filter(|_| !study.unknown.is_empty())?;
    let is_unknown = |name: &&String| study.unknown.iter().any(|unknown| unknown.name == **name);
    let names = || joint.names.iter().map(|name| &name.name);
    let listed = |names: &[&String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let (unknown, held): (Vec<&String>, Vec<&String>) = names().partition(is_unknown);
    let mut said = Vec::new();
    if !held.is_empty() {
        let held = listed(&held);
        said.push(format!("{held} is held at its value, and standard errors do not include its uncertainty"));
    }
    if !unknown.is_empty() {
        said.push(format!("{} is identified from the data alone", listed(&unknown)));
    }
    let message = format!("`[random.joint]` has no part in what is identified: {}", said.join("; "));
    let note = Finding::note("joint-not-used", joint.span, message)
        .with_names(names())
        .with_help("to let the data and a distribution decide together, give the unknown a `prior` in `[unknown]`");
    Some(Diagnostic::resolve(&note, &study.sources))
}

/// The estimate by the method that suits, without what is said of other records.
fn found(
    loaded: &Loaded,
    problem: &Problem,
    study: &Study,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<(Identification, Form), Failure> {
    let (route, reason) = reasoned_route(loaded, problem, options.method.as_deref())?;
    refuse_options(&route, options, study)?;
    refuse_exact(&route, study)?;
    let unused = unused_keys(&route, options, study)?;
    let method = match route {
        Route::Linear { study, method } => {
            let mut found = ml::identify(loaded, *study, method, options, progress)?;
            refuse_stopped(loaded, problem, &found, options)?;
            found.diagnostics.extend(unused);
            found.method_reason = reason;
            found.mark_motion(&problem.motion_depends_on(loaded));
            return Ok((found, Form::Linear));
        }
        Route::Ensembles(method) => method,
        Route::Filter => Method::MaximumLikelihood,
    };
    let mut checkpoint = match &options.checkpoint {
        Some(path) => {
            let command = format!("identify {} {} {}", method.word(), options.seed, options.n_starts);
            let opened = Run::new(loaded, &command)
                .and_then(|run| Checkpoint::open(path, run).map_err(|diagnostic| vec![diagnostic]));
            Some(opened.map_err(Failure::Input)?)
        }
        None => None,
    };
    let is_asked = options.method.as_deref().or(study.identify.method.as_deref()).is_some_and(|asked| asked != "auto");
    let found = match route {
        Route::Filter => filtered::identify(loaded, problem, options, checkpoint.as_mut(), progress),
        _ => pem::identify(loaded, problem, method, options, checkpoint.as_mut(), progress),
    };
    if found.is_err()
        && let Some(checkpoint) = &mut checkpoint
    {
        checkpoint.save().map_err(|diagnostic| Failure::Input(vec![diagnostic]))?;
    }
    let mut found = found?;
    found.method_reason = reason;
    let has_ensembles = study.disturbances.is_empty() || !has_discrete(&loaded.flat);
    if !is_asked
        && has_ensembles
        && let Some(failure) = found.filter_failure.take()
    {
        let reason = format!("{}; the filter fails its own check: {failure}", found.method_reason);
        found = pem::identify(loaded, problem, Method::PredictionError, options, checkpoint.as_mut(), progress)?;
        found.method_reason = reason;
    }
    refuse_stopped(loaded, problem, &found, options)?;
    // The road may have ended at `pem`, which uses them all.
    if found.method != Method::PredictionError {
        found.diagnostics.extend(unused);
    }
    found.mark_motion(&problem.motion_depends_on(loaded));
    if let Some(checkpoint) = &mut checkpoint {
        checkpoint.save().map_err(|diagnostic| Failure::Input(vec![diagnostic]))?;
    }
    Ok((found, Form::Nonlinear))
}

/// What was computed after an interrupt, such as standard errors, is not to be believed; the estimates are.
fn refuse_stopped(
    loaded: &Loaded,
    problem: &Problem,
    found: &Identification,
    options: &IdentifyOptions,
) -> Result<(), Failure> {
    if !loaded.watch.is_stopped() {
        return Ok(());
    }
    let theta = found.parameters.iter().map(|parameter| parameter.estimate).collect();
    Err(stopping::stopped_search(&problem.unknowns, Some(stopping::SoFar { theta, value: found.cost }), options))
}

/// One share of the searches of an identification; each point says what is asked and from where.
///
/// # Errors
/// As [`identify`].
pub fn evaluate_at(loaded: &Loaded, options: &IdentifyOptions, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Failure> {
    let problem = Problem::read(loaded)?;
    require_unknowns(study_of(loaded)?)?;
    let weighed = weighed(loaded, &problem, options.method.as_deref())?;
    let loaded = weighed.as_ref().unwrap_or(loaded);
    match route(loaded, &problem, options.method.as_deref())? {
        Route::Linear { study, .. } => ml::evaluate_at(loaded, &study, points),
        Route::Ensembles(method) => pem::evaluate_at(loaded, &problem, method, options, points),
        Route::Filter => filtered::evaluate_at(loaded, &problem, options, points),
    }
}

/// A study without unknowns has nothing to search for.
fn require_unknowns(study: &Study) -> Result<(), Failure> {
    if !study.unknown.is_empty() {
        return Ok(());
    }
    let finding = Finding::error("no-unknowns", Span::NONE, "the study has no unknowns")
        .with_help("add `[unknown]` with a parameter and its start");
    Err(Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]))
}

/// A number for JSON; not finite ones are null.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

fn named(list: &[(String, f64)]) -> Value {
    Value::Object(list.iter().map(|(name, value)| (name.clone(), number(*value))).collect())
}

impl Identification {
    /// The study with start values among its unknowns, where they are among what was identified.
    ///
    /// # Errors
    /// As [`Loaded::with_unknown_starts`].
    pub(crate) fn with_its_starts(&self, loaded: &Loaded) -> Result<Option<Loaded>, Failure> {
        let has_starts = self.parameters.len() > study_of(loaded)?.unknown.len();
        if has_starts { loaded.with_unknown_starts(true) } else { Ok(None) }
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let interval = |interval: [f64; 2]| json!([number(interval[0]), number(interval[1])]);
        let parameters: Vec<Value> = self
            .parameters
            .iter()
            .map(|parameter| {
                let mut keys = Map::new();
                keys.insert("name".into(), json!(parameter.name));
                keys.insert("estimate".into(), number(parameter.estimate));
                keys.insert("std_error".into(), number(parameter.std_error));
                keys.insert("robust_std_error".into(), number(parameter.robust_std_error));
                keys.insert("ci95".into(), interval(parameter.ci95));
                if let Some(profile) = parameter.profile95 {
                    keys.insert("profile95".into(), interval(profile));
                }
                keys.insert("start".into(), number(parameter.start));
                keys.insert("at_bound".into(), json!(parameter.at_bound.is_some()));
                keys.insert("prior_shrinkage".into(), parameter.prior_shrinkage.map_or(Value::Null, number));
                Value::Object(keys)
            })
            .collect();
        let residuals: Map<String, Value> = self
            .residuals
            .iter()
            .map(|residual| {
                let value = json!({
                    "whiteness_p": number(residual.whiteness),
                    "normality_p": number(residual.normality),
                    "mean": number(residual.mean),
                    "std": number(residual.std),
                    "normalized_variance": number(residual.size.normalized_variance),
                    "size_p": number(residual.size.size_p),
                    "lag_autocorrelation": number(residual.size.lag_autocorrelation),
                    "input_correlation_p": named(&residual.input_correlation),
                });
                (residual.name.clone(), value)
            })
            .collect();
        let flat: Vec<Value> = self.identifiability.flat_directions.iter().map(|direction| named(direction)).collect();
        let mut keys = Map::new();
        keys.insert("method".into(), json!(self.method.word()));
        keys.insert("method_reason".into(), json!(self.method_reason));
        keys.insert("converged".into(), json!(self.converged));
        keys.insert("iterations".into(), json!(self.iterations));
        keys.insert("parameters".into(), Value::Array(parameters));
        let matrix = |rows: &[Vec<f64>]| -> Value {
            rows.iter().map(|row| row.iter().map(|entry| number(*entry)).collect::<Value>()).collect()
        };
        keys.insert("covariance".into(), matrix(&self.covariance));
        keys.insert("correlation".into(), matrix(&self.correlation()));
        let kind = if self.robust_reason.is_some() { "robust" } else { "model" };
        keys.insert("std_error_kind".into(), json!(kind));
        keys.insert("cost".into(), number(self.cost));
        keys.insert("approximation".into(), json!(self.approximation));
        keys.insert("log_likelihood".into(), self.log_likelihood.map_or(Value::Null, number));
        keys.insert("log_prior".into(), self.log_prior.map_or(Value::Null, number));
        keys.insert("aic".into(), self.aic.map_or(Value::Null, number));
        keys.insert("bic".into(), self.bic.map_or(Value::Null, number));
        keys.insert("n_samples".into(), json!(self.n_samples));
        keys.insert("n_density_values".into(), json!(self.n_density_values));
        keys.insert("fit_percent".into(), named(&self.fit_percent));
        keys.insert(
            "identifiability".into(),
            json!({
                "rank": self.identifiability.rank,
                "n_unknown": self.identifiability.n_unknown,
                "flat_directions": flat,
            }),
        );
        keys.insert("residuals".into(), Value::Object(residuals));
        let sizes: Vec<ResidualSize> = self.residuals.iter().map(|residual| residual.size).collect();
        let overall = ResidualSize::overall(&sizes);
        let overall = json!({
            "normalized_variance": number(overall.normalized_variance),
            "size_p": number(overall.size_p),
        });
        keys.insert("residuals_overall".into(), overall);
        keys.insert("validation".into(), validation::to_json(&self.validation));
        if !self.predictions.is_empty() {
            keys.insert("predictions".into(), validation::to_json(&self.predictions));
        }
        if !self.initial.is_empty() {
            keys.insert("initial".into(), self.initial.iter().map(|list| named(list)).collect());
        }
        if !self.starts.is_empty() {
            let starts: Vec<Value> = self
                .starts
                .iter()
                .map(|outcome| json!({ "start": outcome.start, "end": outcome.end, "cost": number(outcome.cost) }))
                .collect();
            keys.insert("starts".into(), Value::Array(starts));
        }
        keys
    }

    fn mark_motion(&mut self, moves: &[bool]) {
        self.parameters.iter_mut().zip(moves).for_each(|(parameter, moves)| parameter.moves_model = *moves);
    }

    /// Correlations of the estimates, in the order of the parameters.
    #[must_use]
    pub fn correlation(&self) -> Vec<Vec<f64>> {
        let std = |at: usize| self.covariance[at][at].sqrt();
        let n = self.covariance.len();
        (0..n).map(|i| (0..n).map(|j| self.covariance[i][j] / (std(i) * std(j))).collect()).collect()
    }

    /// Estimates that the model's motion depends on and that have a covariance.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let is_uncertain = |at: &usize| self.parameters[*at].moves_model && self.covariance[*at][*at].is_finite();
        let positions: Vec<usize> = (0..self.parameters.len()).filter(is_uncertain).collect();
        let rows: Vec<Vec<f64>> =
            positions.iter().map(|&i| positions.iter().map(|&j| self.covariance[i][j]).collect()).collect();
        Spread::new(positions, &rows)
    }

    /// Measured values, predictions and residuals over time.
    #[must_use]
    pub fn table(&self) -> Table {
        let n_experiments = self.fits.iter().map(|fit| fit.experiment + 1).max().unwrap_or(0);
        let mut table = Table { names: vec!["t".to_owned()], columns: vec![Vec::new()] };
        if n_experiments > 1 {
            table.names.push("experiment".to_owned());
            table.columns.push(Vec::new());
        }
        let fixed = table.names.len();
        for experiment in 0..n_experiments {
            let fits: Vec<&Fit> = self.fits.iter().filter(|fit| fit.experiment == experiment).collect();
            let Some(first) = fits.first() else { continue };
            table.columns[0].extend_from_slice(&first.times);
            if fixed == 2 {
                table.columns[1].extend(first.times.iter().map(|_| (experiment + 1) as f64));
            }
            for (at, fit) in fits.iter().enumerate() {
                if table.names.len() < fixed + 4 * (at + 1) {
                    for ending in ["", ".predicted", ".residual", ".residual.std"] {
                        table.names.push(format!("{}{ending}", fit.name));
                        table.columns.push(Vec::new());
                    }
                }
                let column = fixed + 4 * at;
                table.columns[column].extend_from_slice(&fit.measured);
                table.columns[column + 1].extend_from_slice(&fit.predicted);
                table.columns[column + 2].extend(fit.measured.iter().zip(&fit.predicted).map(|(a, b)| a - b));
                table.columns[column + 3].extend_from_slice(&fit.std);
            }
        }
        table
    }
}
