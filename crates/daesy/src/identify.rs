//! `daesy identify`: unknown parameters from data, with their uncertainty.
//!
//! Models that are linear in their variables are identified by maximum likelihood ([`ml`]), all others by prediction errors of
//! simulated ensembles or by output errors ([`pem`]), or by the likelihood under the approximation of a filter ([`filtered`]). The
//! result is the same for all methods.

mod caveats;
mod far;
pub mod filtered;
pub mod ml;
pub mod pem;
pub mod refusal;
mod save;
mod show;

pub(crate) use show::{short, text_table};

use std::path::PathBuf;

use daesy_estimate::search::Bound;
use serde_json::{Map, Value, json};

use crate::checkpoint::{Checkpoint, fingerprint_of};
use crate::diagnostic::Diagnostic;
use crate::load::Loaded;
use crate::table::Table;
use daesy_graph::finding::Finding;

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
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
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

/// One search among several.
#[derive(Clone, PartialEq, Debug)]
pub struct StartOutcome {
    /// Where it started.
    pub start: Vec<f64>,
    /// Where it ended; empty when the start was refused.
    pub end: Vec<f64>,
    /// The cost there.
    pub cost: f64,
}

/// Identified parameters.
#[derive(Clone, Debug)]
pub struct Identification {
    /// The model.
    pub model: String,
    /// How they were found.
    pub method: Method,
    /// Whether the search arrived.
    pub converged: bool,
    /// Its steps.
    pub iterations: usize,
    /// The parameters.
    pub parameters: Vec<ParameterEstimate>,
    /// What was minimized: the negative log-likelihood, or the mean of squared errors.
    pub cost: f64,
    /// With the constants of `2 pi`; where the method has one.
    pub log_likelihood: Option<f64>,
    /// Akaike's criterion.
    pub aic: Option<f64>,
    /// Schwarz' criterion.
    pub bic: Option<f64>,
    /// Number of values used.
    pub n_samples: usize,
    /// How much of the variation of each measurement is predicted, in percent.
    pub fit_percent: Vec<(String, f64)>,
    /// What data determine.
    pub identifiability: Identifiability,
    /// Residuals.
    pub residuals: Vec<ResidualSummary>,
    /// Predictions.
    pub fits: Vec<Fit>,
    /// Searches, where there were several.
    pub starts: Vec<StartOutcome>,
    /// Start values that were estimated, by experiment.
    pub initial: Vec<Vec<(String, f64)>>,
    /// What the result rests on where the likelihood of a nonlinear model is approximated.
    pub approximation: Option<String>,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum IdentifyFailure {
    /// The model, study or data is at fault.
    Input(Vec<Diagnostic>),
    /// The method gave up.
    Method(Box<Diagnostic>),
}

/// Told about every step of a search.
pub type ProgressLine<'a> = dyn FnMut(&str) + 'a;

/// How the unknowns of a study are found.
enum Route {
    /// By filters of a model that is linear in its variables.
    Filter(Method),
    /// By simulated ensembles.
    Ensembles(Method),
    /// By filters of a nonlinear model.
    NonlinearFilter,
}

fn route(loaded: &Loaded, options: &IdentifyOptions) -> Result<Route, IdentifyFailure> {
    let asked =
        options.method.clone().or_else(|| loaded.study.as_ref().and_then(|study| study.identify.method.clone()));
    let has_disturbances = loaded.study.as_ref().is_some_and(|study| !study.disturbances.is_empty());
    let method = match asked.as_deref().unwrap_or("auto") {
        "auto" | "ml" => Method::MaximumLikelihood,
        "output-error" => Method::OutputError,
        "pem" => return Ok(Route::Ensembles(Method::PredictionError)),
        other => {
            return Err(IdentifyFailure::Input(vec![
                Diagnostic::error("method", format!("there is no method `{other}`"))
                    .with_help("methods: auto, ml, pem, output-error"),
            ]));
        }
    };
    let mut copy = loaded.clone();
    let is_linear = match ml::prepare(&mut copy, crate::linear_study::SignalsWanted::No) {
        Err(IdentifyFailure::Input(diagnostics)) => {
            !diagnostics.iter().any(|diagnostic| diagnostic.code == "nonlinear")
        }
        _ => true,
    };
    Ok(match (method, is_linear, asked.as_deref()) {
        (Method::OutputError, false, _) => Route::Ensembles(Method::OutputError),
        (_, false, None | Some("auto")) if has_disturbances => Route::Ensembles(Method::PredictionError),
        (_, false, None | Some("auto")) => Route::Ensembles(Method::OutputError),
        (Method::MaximumLikelihood, false, _) => Route::NonlinearFilter,
        _ => Route::Filter(method),
    })
}

/// Identifies the unknowns of a study.
///
/// # Errors
/// Diagnostics, when the study is at fault or the method gives up.
pub fn identify(
    loaded: &mut Loaded,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, IdentifyFailure> {
    require_study(loaded)?;
    let route = route(loaded, options)?;
    if !matches!(route, Route::Filter(_)) {
        require_unknowns(loaded)?;
    }
    let method = match route {
        Route::Filter(method) => return ml::identify(loaded, method, options, progress),
        Route::Ensembles(method) => method,
        Route::NonlinearFilter => Method::MaximumLikelihood,
    };
    let mut checkpoint = match &options.checkpoint {
        Some(path) => {
            let command = format!("identify {} {} {}", method.word(), options.seed, options.n_starts);
            let opened = fingerprint_of(loaded, &command)
                .and_then(|mark| Checkpoint::open(path, mark).map_err(|diagnostic| vec![diagnostic]));
            Some(opened.map_err(IdentifyFailure::Input)?)
        }
        None => None,
    };
    match route {
        Route::NonlinearFilter => filtered::identify(loaded, options, checkpoint.as_mut(), progress),
        _ => pem::identify(loaded, method, options, checkpoint.as_mut(), progress),
    }
}

/// One share of the searches behind an identification; each point says what is asked and from where.
///
/// # Errors
/// As [`identify`].
pub fn evaluate_at(
    loaded: &mut Loaded,
    options: &IdentifyOptions,
    points: &[Vec<f64>],
) -> Result<Vec<Vec<f64>>, IdentifyFailure> {
    require_study(loaded)?;
    require_unknowns(loaded)?;
    match route(loaded, options)? {
        Route::Filter(method) => ml::evaluate_at(loaded, method, points),
        Route::Ensembles(method) => pem::evaluate_at(loaded, method, options, points),
        Route::NonlinearFilter => filtered::evaluate_at(loaded, options, points),
    }
}

/// A model alone cannot be identified.
fn require_study(loaded: &Loaded) -> Result<(), IdentifyFailure> {
    if loaded.study.is_some() {
        return Ok(());
    }
    Err(IdentifyFailure::Input(vec![
        Diagnostic::error("no-study", "a model alone says nothing about data, unknowns and measurements")
            .with_help("write a study (.toml) that names the model"),
    ]))
}

/// A study without unknowns has nothing to search for; the likelihood of linear models does without.
fn require_unknowns(loaded: &Loaded) -> Result<(), IdentifyFailure> {
    if let Some(study) = loaded.study.as_ref().filter(|study| study.unknown.is_empty()) {
        let finding = Finding::error("no-unknowns", daesy_graph::Span::NONE, "the study has no unknowns")
            .with_help("add `[unknown]` with a parameter and its start");
        return Err(IdentifyFailure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]));
    }
    Ok(())
}

/// A number for JSON; not finite ones are null.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

fn named(list: &[(String, f64)]) -> Value {
    Value::Object(list.iter().map(|(name, value)| (name.clone(), number(*value))).collect())
}

impl Identification {
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
                Value::Object(keys)
            })
            .collect();
        let residuals: Map<String, Value> = self
            .residuals
            .iter()
            .map(|residual| {
                let value = json!({
                    "whiteness_p": number(residual.whiteness),
                    "mean": number(residual.mean),
                    "std": number(residual.std),
                    "input_correlation_p": named(&residual.input_correlation),
                });
                (residual.name.clone(), value)
            })
            .collect();
        let flat: Vec<Value> = self.identifiability.flat_directions.iter().map(|direction| named(direction)).collect();
        let mut keys = Map::new();
        keys.insert("method".into(), json!(self.method.word()));
        keys.insert("converged".into(), json!(self.converged));
        keys.insert("iterations".into(), json!(self.iterations));
        keys.insert("parameters".into(), Value::Array(parameters));
        keys.insert("cost".into(), number(self.cost));
        keys.insert("approximation".into(), json!(self.approximation));
        keys.insert("log_likelihood".into(), self.log_likelihood.map_or(Value::Null, number));
        keys.insert("aic".into(), self.aic.map_or(Value::Null, number));
        keys.insert("bic".into(), self.bic.map_or(Value::Null, number));
        keys.insert("n_samples".into(), json!(self.n_samples));
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
