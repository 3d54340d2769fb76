//! `daesy estimate`: signals that were not measured, from data, with their standard deviations.

use daesy_estimate::SignalEstimates;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::pem::FilterKind;
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::identify::ml::prepare;
use crate::identify::refusal::{failure, point};
use crate::linear_study::SignalsWanted;
use crate::load::Loaded;
use crate::prediction_study::PredictionStudy;
use crate::problem::{Linearity, Problem, refuse_unsaid_accuracy, study_of};
use crate::report::Page;
use crate::report::chart::{Chart, Mark, Series};
use crate::study::Study;
use crate::table::Table;

/// Estimated signals.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// The model.
    pub model: String,
    /// Log-likelihood of the data at the parameters used.
    pub log_likelihood: f64,
    /// Names of the signals.
    pub signals: Vec<String>,
    /// Estimates by experiment.
    pub experiments: Vec<SignalEstimates>,
    /// What the estimates rest on where the model is not linear.
    pub approximation: Option<String>,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Estimates the signals of a study, at the given parameters or at the start values of the unknowns.
///
/// # Errors
/// Diagnostics, when the study is at fault: signals of infinite variance are refused by name.
pub fn estimate(loaded: &Loaded, theta: Option<&[f64]>, seed: u64) -> Result<Estimates, Failure> {
    if let Some(study) = loaded.study.as_ref().filter(|study| study.signals.is_empty()) {
        let finding = Finding::error("no-signals", Span::NONE, "the study names no signals to estimate")
            .with_help("add `[estimate]` with `signals = [..]`");
        return Err(Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]));
    }
    let problem = Problem::read(loaded)?;
    refuse_unsaid_accuracy(study_of(loaded)?)?;
    let Linearity::Constant(model) = &problem.linearity else {
        return estimate_nonlinear(loaded, &problem, theta, seed);
    };
    let study = prepare(loaded, &problem, model, SignalsWanted::Yes)?;
    let start = study.start();
    let theta = theta.unwrap_or(&start);
    let refused = |error| failure(loaded, &study, theta, &error);
    let likelihood = Likelihood::new(&study, theta, FilterOptions::default()).map_err(refused)?;
    let value = likelihood.evaluate(theta).map_err(refused)?;
    let experiments = likelihood.estimate(theta).map_err(refused)?;
    let mut diagnostics = Vec::new();
    if !study.unknowns.is_empty() && theta == start {
        let message = format!("the unknowns are taken at their start: {}", point(&study, theta));
        let note = Finding::note("unknowns-at-start", Span::NONE, message)
            .with_help("give values with `--set name=value`, or identify them first with `--identify`");
        let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
        diagnostics.push(Diagnostic::resolve(&note, &sources));
    }
    Ok(Estimates {
        model: loaded.flat.model.clone(),
        log_likelihood: value.log_likelihood,
        signals: study.estimated.clone(),
        experiments,
        approximation: None,
        diagnostics,
    })
}

/// Particles when nobody says how many.
const DEFAULT_PARTICLES: u64 = 1000;

/// The filter that a study names, the unscented one if it names none.
pub(crate) fn filter_kind(study: Option<&Study>) -> FilterKind {
    match study.and_then(|study| study.filter.as_deref()) {
        Some("extended") => FilterKind::Extended,
        Some("particles") => {
            let n = study.and_then(|study| study.particles).unwrap_or(DEFAULT_PARTICLES);
            FilterKind::Particles { n_particles: n as usize }
        }
        _ => FilterKind::Unscented,
    }
}

/// Estimates the signals of a nonlinear model by the filter that the study names, the unscented one if it names none.
fn estimate_nonlinear(
    loaded: &Loaded,
    problem: &Problem,
    theta: Option<&[f64]>,
    seed: u64,
) -> Result<Estimates, Failure> {
    let study = PredictionStudy::new(loaded, problem, seed)?;
    let start = study.start();
    let theta = theta.unwrap_or(&start);
    let asked = loaded.study.as_ref();
    let sources = asked.map(|study| study.sources.clone()).unwrap_or_default();
    let kind = filter_kind(asked);
    let signals: Vec<String> =
        asked.iter().flat_map(|study| study.signals.iter().map(|signal| signal.name.clone())).collect();
    let mut log_likelihood = 0.0;
    let mut experiments = Vec::new();
    let mut approximation = "";
    for (at, experiment) in study.experiments.iter().enumerate() {
        let found = study
            .filter(theta, at, &kind, &loaded.watch)
            .map_err(|refusal| Failure::Input(vec![Diagnostic::resolve(&study.refusal(&refusal), &sources)]))?;
        log_likelihood += found.log_likelihood;
        approximation = found.approximation.words();
        let columns = |list: &[f64]| -> Vec<Vec<f64>> {
            (0..signals.len())
                .map(|signal| list.iter().skip(signal).step_by(signals.len()).copied().collect())
                .collect()
        };
        experiments.push(SignalEstimates {
            times: experiment.grid.samples.clone(),
            filtered: columns(&found.filtered),
            filtered_std: columns(&found.filtered_std),
            smoothed: columns(&found.smoothed),
            smoothed_std: columns(&found.smoothed_std),
        });
    }
    let note = Finding::note(
        "approximation",
        Span::NONE,
        format!("the model is not linear; estimates rest on an approximation ({approximation})"),
    );
    Ok(Estimates {
        model: loaded.flat.model.clone(),
        log_likelihood,
        signals,
        experiments,
        approximation: Some(approximation.to_owned()),
        diagnostics: vec![Diagnostic::resolve(&note, &sources)],
    })
}

impl Estimates {
    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("log_likelihood".into(), json!(self.log_likelihood));
        keys.insert("signals".into(), json!(self.signals));
        keys.insert("n_experiments".into(), json!(self.experiments.len()));
        keys.insert("approximation".into(), json!(self.approximation));
        keys
    }

    /// `t`, then four columns per signal; several experiments one after the other, told apart by a column.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table { names: vec!["t".to_owned()], columns: vec![Vec::new()] };
        let has_several = self.experiments.len() > 1;
        if has_several {
            table.names.push("experiment".to_owned());
            table.columns.push(Vec::new());
        }
        for name in &self.signals {
            for ending in ["", ".std", ".smoothed", ".smoothed.std"] {
                table.names.push(format!("{name}{ending}"));
                table.columns.push(Vec::new());
            }
        }
        let first = 1 + usize::from(has_several);
        for (at, experiment) in self.experiments.iter().enumerate() {
            table.columns[0].extend_from_slice(&experiment.times);
            if has_several {
                table.columns[1].extend(experiment.times.iter().map(|_| (at + 1) as f64));
            }
            for signal in 0..self.signals.len() {
                let lists =
                    [&experiment.filtered, &experiment.filtered_std, &experiment.smoothed, &experiment.smoothed_std];
                for (offset, list) in lists.into_iter().enumerate() {
                    table.columns[first + 4 * signal + offset].extend_from_slice(&list[signal]);
                }
            }
        }
        table
    }

    /// A summary for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let n: usize = self.experiments.iter().map(|experiment| experiment.times.len()).sum();
        let mut text = format!(
            "Estimated {} of {} at {n} times; log-likelihood {}.\n",
            self.signals.join(", "),
            self.model,
            crate::identify::short(self.log_likelihood, 8)
        );
        for (at, name) in self.signals.iter().enumerate() {
            let mean = |list: &dyn Fn(&SignalEstimates) -> Vec<f64>| {
                let all: Vec<f64> = self.experiments.iter().flat_map(list).filter(|x| x.is_finite()).collect();
                all.iter().sum::<f64>() / all.len() as f64
            };
            text.push_str(&format!(
                "  {name}: standard deviation {} filtered, {} smoothed (mean over time)\n",
                crate::identify::short(mean(&|e| e.filtered_std[at].clone()), 3),
                crate::identify::short(mean(&|e| e.smoothed_std[at].clone()), 3),
            ));
        }
        text
    }

    /// The result as a part of a page.
    pub fn add_to(&self, page: &mut Page) {
        page.paragraph(self.to_text().lines().next().unwrap_or_default());
        for experiment in self.experiments.iter().take(4) {
            for (at, name) in self.signals.iter().enumerate() {
                let edge = |sign: f64| -> Vec<f64> {
                    let pairs = experiment.smoothed[at].iter().zip(&experiment.smoothed_std[at]);
                    pairs.map(|(mean, std)| mean + sign * 2.0 * std).collect()
                };
                let series = |name: &str, y: Vec<f64>, mark: Mark, color: usize| Series {
                    name: name.to_owned(),
                    x: experiment.times.clone(),
                    y,
                    mark,
                    color,
                };
                let chart = Chart {
                    title: name.clone(),
                    x_label: "time".to_owned(),
                    y_label: name.clone(),
                    series: vec![
                        series("two standard deviations", edge(-1.0), Mark::BandTo(edge(1.0)), 0),
                        series("smoothed", experiment.smoothed[at].clone(), Mark::Line, 0),
                        series("filtered", experiment.filtered[at].clone(), Mark::Line, 1),
                    ],
                    ..Chart::default()
                };
                page.figure(&chart, &format!("{name}, estimated from data up to each time and from all data."));
            }
        }
    }
}
