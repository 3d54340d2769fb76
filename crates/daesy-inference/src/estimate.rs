//! `daesy estimate`: signals that were not measured, from data, with their standard deviations.

pub mod spread;

use daesy_estimate::SignalEstimates;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::pem::{FilterKind, PointRefusal, PredictionProblem};
use daesy_graph::Span;
use daesy_graph::finding::{Finding, Level};
use serde_json::{Map, Value, json};

use crate::identify::Identification;
use crate::identify::filtered::given_up;
use crate::watch::Prediction;
use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series, TIME};
use daesy_report::table::Table;
use daesy_report::words::short;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::linear_study::posed;
use daesy_study::linear_study::refusal::failure;
use daesy_study::linear_study::{LinearStudy, SignalsWanted};
use daesy_study::load::Loaded;
use daesy_study::prediction_study::PredictionStudy;
use daesy_study::prediction_study::filter_kind;
use daesy_study::problem::{Linearity, Problem, refuse_unsaid_accuracy, study_of};
use daesy_study::study::{JointRandom, Named, Study};
use spread::{Spread, SpreadPoints};

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
    /// Parameters whose uncertainty is part of the standard deviations.
    pub uncertain: Vec<String>,
    /// By experiment, the first row of the table that is a prediction; empty where there are none.
    pub predicted_from: Vec<usize>,
    /// What the estimates rest on where the model is not linear.
    pub approximation: Option<String>,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Estimates the signals of a study, at the given parameters or at the start values of the unknowns. What
/// `[random.joint]` says of parameters is part of the standard deviations.
///
/// # Errors
/// Diagnostics, when the study is at fault: signals of infinite variance are refused by name.
pub fn estimate(loaded: &Loaded, theta: Option<&[f64]>, seed: u64) -> Result<Estimates, Failure> {
    estimated(loaded, theta, None, seed)
}

/// Estimates the signals of a study with the unknowns that were identified, whose uncertainty is part of the standard
/// deviations, beside what `[random.joint]` says of other parameters.
///
/// # Errors
/// As [`estimate`].
pub fn estimate_identified(loaded: &Loaded, identified: &Identification, seed: u64) -> Result<Estimates, Failure> {
    let theta: Vec<f64> = identified.parameters.iter().map(|parameter| parameter.estimate).collect();
    let freed = identified.with_its_starts(loaded)?;
    estimated(freed.as_ref().unwrap_or(loaded), Some(&theta), Some(identified), seed)
}

fn estimated(
    loaded: &Loaded,
    theta: Option<&[f64]>,
    identified: Option<&Identification>,
    seed: u64,
) -> Result<Estimates, Failure> {
    require_signals(loaded)?;
    let uncertain = Uncertain::of(loaded, identified)?;
    let estimator = Estimator::new(&uncertain.loaded, seed)?;
    let mut chosen = estimator.start();
    if let Some(theta) = theta {
        chosen[..uncertain.n_unknown].copy_from_slice(theta);
    }
    let mut found = estimator.estimates(&uncertain.loaded, &chosen)?;
    if uncertain.n_unknown > 0 && theta.is_none() {
        found.diagnostics.push(unknowns_at_start(loaded, &chosen));
    }
    found.widen(&uncertain.loaded, &estimator, &chosen, uncertain.spread.as_ref());
    found.diagnostics.extend(uncertain.other_means(&chosen));
    Ok(found)
}

/// A study whose uncertain parameters can be chosen like unknowns.
pub(crate) struct Uncertain {
    /// The study with them among its unknowns, after the others.
    pub(crate) loaded: Loaded,
    /// What `[random.joint]` says of them.
    joint: Option<JointRandom>,
    /// Where those of `[random.joint]` are among the unknowns.
    positions: Vec<usize>,
    /// Points around their values.
    pub(crate) spread: Option<Spread>,
    /// Unknowns of the study itself.
    pub(crate) n_unknown: usize,
}

/// Draws of a posterior that estimates are made at.
const MOST_DRAWS: usize = 100;

impl Uncertain {
    /// What `[random.joint]` says of parameters, but for those that were identified: there the data say it.
    pub(crate) fn of(loaded: &Loaded, identified: Option<&Identification>) -> Result<Self, Failure> {
        let study = study_of(loaded)?;
        let n_unknown = study.unknown.len();
        let joint = uncertain_parameters(study, identified.is_none());
        let mut wider = loaded.clone();
        let mut positions = Vec::new();
        if let (Some(study), Some(joint)) = (&mut wider.study, &joint) {
            positions.extend(joint.names.iter().map(|name| study.choose(&name.name, name.span)));
        }
        let of_joint = joint.as_ref().and_then(|joint| {
            let spread = Spread::new(positions.clone(), &joint.covariance)?;
            let draws = joint.spread_rows(MOST_DRAWS).unwrap_or_default();
            Some(spread.with_draws(draws.into_iter().map(<[f64]>::to_vec).collect()))
        });
        let spread = match (identified.and_then(Identification::spread), of_joint) {
            (Some(found), Some(said)) => Some(found.beside(said)),
            (found, said) => found.or(said),
        };
        Ok(Self { loaded: wider, joint, positions, spread, n_unknown })
    }

    /// Parameters that are taken elsewhere than at the mean of their distribution.
    fn other_means(&self, chosen: &[f64]) -> Option<Diagnostic> {
        let joint = self.joint.as_ref()?;
        let off = |at: &usize| (chosen[self.positions[*at]] - joint.mean[*at]).abs() > 1e-9 * joint.mean[*at].abs();
        let names: Vec<&String> = (0..joint.names.len()).filter(off).map(|at| &joint.names[at].name).collect();
        if names.is_empty() {
            return None;
        }
        let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "{} has another value than the mean in `[random.joint]`: estimates are made at the value, with the \
             covariance around it",
            listed.join(", ")
        );
        let note = Finding::note("joint-mean", joint.span, message).with_names(names);
        Some(Diagnostic::resolve(&note, &self.loaded.study.as_ref()?.sources))
    }
}

fn require_signals(loaded: &Loaded) -> Result<(), Failure> {
    let study = study_of(loaded)?;
    if !study.signals.is_empty() {
        return refuse_unsaid_accuracy(study);
    }
    let finding = Finding::error("no-signals", Span::NONE, "the study names no signals to estimate")
        .with_help("add `[estimate]` with `signals = [..]`");
    Err(Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]))
}

/// What `[random.joint]` says of parameters, with those that are unknown or without them.
fn uncertain_parameters(study: &Study, with_unknown: bool) -> Option<JointRandom> {
    let mut joint = study.joint.clone()?;
    let is_kept = |name: &Named<()>| with_unknown || !study.unknown.iter().any(|unknown| unknown.name == name.name);
    let kept: Vec<usize> = (0..joint.names.len()).filter(|&at| is_kept(&joint.names[at])).collect();
    let rows = kept.iter().map(|&i| kept.iter().map(|&j| joint.covariance[i][j]).collect()).collect();
    joint.names = kept.iter().map(|&at| joint.names[at].clone()).collect();
    joint.mean = kept.iter().map(|&at| joint.mean[at]).collect();
    joint.covariance = rows;
    for row in joint.samples.iter_mut().flat_map(|samples| &mut samples.rows) {
        *row = kept.iter().map(|&at| row[at]).collect();
    }
    (!joint.names.is_empty()).then_some(joint)
}

fn unknowns_at_start(loaded: &Loaded, start: &[f64]) -> Diagnostic {
    let unknowns = loaded.study.iter().flat_map(|study| &study.unknown).zip(start);
    let point: Vec<String> = unknowns.map(|(unknown, value)| format!("{} = {value}", unknown.name)).collect();
    let message = format!("the unknowns are taken at their start: {}", point.join(", "));
    let note = Finding::note("unknowns-at-start", Span::NONE, message)
        .with_help("give values with `--set name=value`, or identify them first with `--identify`");
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    Diagnostic::resolve(&note, &sources)
}

/// A study, ready to be filtered at any values of its unknowns.
enum Estimator {
    /// By a Kalman filter.
    Linear(Box<LinearStudy>),
    /// By the filter that the study names, the unscented one if it names none.
    Nonlinear {
        study: Box<PredictionStudy>,
        /// Rows of the data without a measurement that are between the points of the filter's grid.
        n_left_out: usize,
    },
}

/// Estimates of all experiments at some parameters.
struct Run {
    log_likelihood: f64,
    experiments: Vec<SignalEstimates>,
    approximation: Option<String>,
    /// What is told about it.
    finding: Option<Finding>,
}

impl Estimator {
    fn new(loaded: &Loaded, seed: u64) -> Result<Self, Failure> {
        let problem = Problem::read(loaded)?;
        Ok(match &problem.linearity {
            Linearity::Constant(model) => Self::Linear(Box::new(posed(loaded, &problem, model, SignalsWanted::Yes)?)),
            _ => {
                let (study, n_left_out) = PredictionStudy::new(loaded, &problem, seed)?.with_every_row(&problem);
                Self::Nonlinear { study: Box::new(study), n_left_out }
            }
        })
    }

    fn start(&self) -> Vec<f64> {
        match self {
            Self::Linear(study) => study.start(),
            Self::Nonlinear { study, .. } => study.start(),
        }
    }

    /// Estimates at several points of unknowns.
    fn runs(&self, loaded: &Loaded, thetas: &[Vec<f64>]) -> Result<Vec<Run>, Failure> {
        let Some(first) = thetas.first() else { return Ok(Vec::new()) };
        match self {
            Self::Linear(study) => {
                let refused = |theta: &[f64], error| failure(loaded, study, theta, &error);
                let likelihood = Likelihood::new(&**study, first, FilterOptions::default());
                let likelihood = likelihood.map_err(|error| refused(first, error))?;
                let run = |theta: &Vec<f64>| {
                    let log_likelihood = likelihood.evaluate(theta)?.log_likelihood;
                    Ok(Run {
                        log_likelihood,
                        experiments: likelihood.estimate(theta)?,
                        approximation: None,
                        finding: None,
                    })
                };
                thetas.iter().map(|theta| run(theta).map_err(|error| refused(theta, error))).collect()
            }
            Self::Nonlinear { study, .. } => {
                let refused = |refusal: PointRefusal| study.failure(loaded, &refusal);
                let problem = study.signal_problem(first).map_err(refused)?;
                let kind = filter_kind(loaded.study.as_ref());
                let run = |theta: &Vec<f64>| nonlinear_run(loaded, study, &problem, theta, &kind).map_err(refused);
                thetas.iter().map(run).collect()
            }
        }
    }

    fn estimates(&self, loaded: &Loaded, theta: &[f64]) -> Result<Estimates, Failure> {
        let study = study_of(loaded)?;
        let run = self.runs(loaded, &[theta.to_vec()])?.swap_remove(0);
        let note = run.approximation.as_ref().map(|approximation| {
            let message = format!("the model is not linear; estimates rest on an approximation ({approximation})");
            Diagnostic::resolve(&Finding::note("approximation", Span::NONE, message), &study.sources)
        });
        let given_up = run.finding.as_ref().map(|finding| Diagnostic::resolve(finding, &study.sources));
        let left_out = match self {
            Self::Nonlinear { n_left_out, .. } if *n_left_out > 0 => {
                let message = format!(
                    "{n_left_out} rows of the data without a measurement are between the points of the filter's grid, and not in \
                     the table"
                );
                let note = Finding::note("rows-left-out", Span::NONE, message).with_help(
                    "`noise_step` in `[identify]` is the distance of these points: choose one that fits the rows",
                );
                Some(Diagnostic::resolve(&note, &study.sources))
            }
            _ => None,
        };
        Ok(Estimates {
            model: loaded.flat.model.clone(),
            log_likelihood: run.log_likelihood,
            signals: study.signals.iter().map(|signal| signal.name.clone()).collect(),
            experiments: run.experiments,
            uncertain: Vec::new(),
            predicted_from: Vec::new(),
            approximation: run.approximation,
            diagnostics: note.into_iter().chain(given_up).chain(left_out).chain(self.start_note(study)).collect(),
        })
    }

    fn start_note(&self, study: &Study) -> Option<Diagnostic> {
        let Self::Nonlinear { study: prediction, .. } = self else { return None };
        prediction.start_note.as_ref().map(|note| Diagnostic::resolve(note, &study.sources))
    }
}

/// Estimates of a nonlinear model by a filter.
fn nonlinear_run(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    kind: &FilterKind,
) -> Result<Run, PointRefusal> {
    let n_signals = study_of(loaded).map_or(0, |study| study.signals.len());
    let mut run = Run { log_likelihood: 0.0, experiments: Vec::new(), approximation: None, finding: None };
    for (at, experiment) in study.experiments.iter().enumerate() {
        let found = study.filter(problem, theta, at, kind, &loaded.watch)?;
        run.log_likelihood += found.log_likelihood;
        run.approximation = Some(found.approximation.words().to_owned());
        run.finding = run.finding.or_else(|| given_up(std::slice::from_ref(&found)));
        let columns = |list: &[f64]| -> Vec<Vec<f64>> {
            (0..n_signals).map(|signal| list.iter().skip(signal).step_by(n_signals).copied().collect()).collect()
        };
        run.experiments.push(SignalEstimates {
            times: experiment.grid.samples.clone(),
            filtered: columns(&found.filtered),
            filtered_std: columns(&found.filtered_std),
            smoothed: columns(&found.smoothed),
            smoothed_std: columns(&found.smoothed_std),
        });
    }
    Ok(run)
}

impl Estimates {
    /// Adds what uncertain parameters mean for the standard deviations (module `spread`).
    fn widen(&mut self, loaded: &Loaded, estimator: &Estimator, theta: &[f64], spread: Option<&Spread>) {
        let Some(spread) = spread else { return };
        let mut refusal = None;
        let found = spread.points(theta).find_map(|around| match estimator.runs(loaded, &around.points) {
            Ok(runs) => Some((around, runs)),
            Err(failure) => {
                refusal.get_or_insert(failure);
                None
            }
        });
        let unknowns: Vec<&str> =
            loaded.study.iter().flat_map(|study| &study.unknown).map(|unknown| unknown.name.as_str()).collect();
        let names: Vec<String> = spread.positions.iter().map(|&at| unknowns[at].to_owned()).collect();
        let Some((around, runs)) = found else {
            let cause = refusal.and_then(|failure| failure.diagnostics().first().map(|it| it.message.clone()));
            let message = format!(
                "standard deviations do not include the uncertainty of {}: there are no estimates at values nearby ({})",
                names.join(", "),
                cause.unwrap_or_default()
            );
            self.diagnostics.push(Diagnostic::new(Level::Warning, "parameter-uncertainty", message));
            return;
        };
        for (at, experiment) in self.experiments.iter_mut().enumerate() {
            let there = || runs.iter().map(|run| &run.experiments[at]);
            let filtered: Vec<Band<'_>> = there().map(|it| (&it.filtered[..], &it.filtered_std[..])).collect();
            widen(&around, &experiment.filtered, &mut experiment.filtered_std, &filtered);
            let smoothed: Vec<Band<'_>> = there().map(|it| (&it.smoothed[..], &it.smoothed_std[..])).collect();
            widen(&around, &experiment.smoothed, &mut experiment.smoothed_std, &smoothed);
        }
        self.uncertain = names;
    }

    /// Adds what is predicted beyond the records, one prediction for each. No data speak of that time, so that the
    /// smoothed values are the predicted ones.
    pub fn extend(&mut self, ahead: Vec<Prediction>) {
        let mut n_rows = 0;
        self.predicted_from.clear();
        for (experiment, Prediction { times, estimates }) in self.experiments.iter_mut().zip(ahead) {
            self.predicted_from.push(n_rows + experiment.times.len());
            experiment.times.extend(times);
            n_rows += experiment.times.len();
            for row in estimates {
                for (signal, found) in row.iter().enumerate() {
                    experiment.filtered[signal].push(found.mean);
                    experiment.filtered_std[signal].push(found.std);
                    experiment.smoothed[signal].push(found.mean);
                    experiment.smoothed_std[signal].push(found.std);
                }
            }
        }
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("log_likelihood".into(), json!(self.log_likelihood));
        keys.insert("signals".into(), json!(self.signals));
        keys.insert("n_experiments".into(), json!(self.experiments.len()));
        keys.insert("uncertain_parameters".into(), json!(self.uncertain));
        keys.insert("approximation".into(), json!(self.approximation));
        if !self.predicted_from.is_empty() {
            keys.insert("predicted_from".into(), json!(self.predicted_from));
        }
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
            short(self.log_likelihood, 8)
        );
        if !self.uncertain.is_empty() {
            let listed = self.uncertain.join(", ");
            text.push_str(&format!("Standard deviations include the uncertainty of {listed}.\n"));
        }
        for (at, name) in self.signals.iter().enumerate() {
            let mean = |list: &dyn Fn(&SignalEstimates) -> Vec<f64>| {
                let all: Vec<f64> = self.experiments.iter().flat_map(list).filter(|x| x.is_finite()).collect();
                all.iter().sum::<f64>() / all.len() as f64
            };
            text.push_str(&format!(
                "  {name}: standard deviation {} filtered, {} smoothed (mean over time)\n",
                short(mean(&|e| e.filtered_std[at].clone()), 3),
                short(mean(&|e| e.smoothed_std[at].clone()), 3),
            ));
        }
        text
    }

    /// The result as a part of a page.
    pub fn add_to(&self, page: &mut Page) {
        for line in self.to_text().lines().take(1 + usize::from(!self.uncertain.is_empty())) {
            page.paragraph(line);
        }
        for (number, experiment) in self.experiments.iter().enumerate().take(MOST_EXPERIMENTS) {
            for (at, name) in self.signals.iter().enumerate() {
                let glossary = page.glossary();
                let (label, words) = (glossary.label(name), glossary.words(name));
                let place = glossary.experiment(number, self.experiments.len());
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
                    title: format!("{name}{place}"),
                    x_label: TIME.to_owned(),
                    y_label: label,
                    series: vec![
                        series("two standard deviations", edge(-1.0), Mark::BandTo(edge(1.0)), 0),
                        series("filtered", experiment.filtered[at].clone(), Mark::Dashed, 1),
                        series("smoothed", experiment.smoothed[at].clone(), Mark::Line, 0),
                    ],
                    ..Chart::default()
                };
                let caption = format!(
                    "{words}{place}: from data up to each time (filtered) and from all data (smoothed, with its band)."
                );
                page.figure(&chart, &caption);
            }
        }
        if self.experiments.len() > MOST_EXPERIMENTS {
            let n_left = self.experiments.len() - MOST_EXPERIMENTS;
            page.paragraph(&format!("{n_left} more experiments are in the table of `-o`."));
        }
        let mean = |list: &[f64]| {
            let known: Vec<f64> = list.iter().copied().filter(|value| value.is_finite()).collect();
            short(known.iter().sum::<f64>() / known.len() as f64, 3)
        };
        let all = |at: usize, of: &dyn Fn(&SignalEstimates) -> &Vec<Vec<f64>>| -> Vec<f64> {
            self.experiments.iter().flat_map(|experiment| of(experiment)[at].clone()).collect()
        };
        let glossary = page.glossary();
        let rows: Vec<Vec<String>> = (self.signals.iter().enumerate())
            .map(|(at, name)| {
                vec![
                    name.clone(),
                    glossary.unit(name).to_owned(),
                    mean(&all(at, &|one| &one.filtered_std)),
                    mean(&all(at, &|one| &one.smoothed_std)),
                    glossary.description(name).to_owned(),
                ]
            })
            .collect();
        page.heading("How well the signals are known");
        page.table(&["signal", "unit", "std filtered", "std smoothed", "description"], &rows);
    }
}

/// Experiments that a page shows.
const MOST_EXPERIMENTS: usize = 4;

/// Values of signals over time with their standard deviations.
type Band<'a> = (&'a [Vec<f64>], &'a [Vec<f64>]);

/// Standard deviations at a mean of parameters from values and standard deviations at points around it.
fn widen(around: &SpreadPoints, values: &[Vec<f64>], stds: &mut [Vec<f64>], there: &[Band<'_>]) {
    for (signal, (values, stds)) in values.iter().zip(stds).enumerate() {
        for (sample, (value, std)) in values.iter().zip(stds).enumerate() {
            let there = there.iter().map(|(values, stds)| (values[signal][sample], stds[signal][sample]));
            *std = around.std((*value, *std), there);
        }
    }
}
