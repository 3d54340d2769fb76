//! Predictions compared with records: those that parameters were not found from, and with other horizons than one
//! sample.

use std::path::Path;

use daesy_estimate::descriptor::ParametricModel as _;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::horizon::{Ahead, Horizon};
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::pem::{
    FilterLikelihood, FilterRequest, Parameterization, PointRefusal, PredictionProblem, PredictionSettings,
};
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use serde_json::{Value, json};

use super::filtered::fits;
use super::fitted::resolve;
use super::pem::study_for;
use super::{Fit, Form, Identification, IdentifyOptions, Method, ProgressLine, number};
use crate::estimate::spread::Spread;
use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series, TIME};
use daesy_report::words::{percent, short};
use daesy_study::data::is_same_file;
use daesy_study::failure::Failure;
use daesy_study::linear_study::refusal::failure;
use daesy_study::linear_study::{SignalsWanted, posed};
use daesy_study::load::Loaded;
use daesy_study::prediction_study::filter_kind;
use daesy_study::prediction_study::{PredictionStudy, StudyExperiment};
use daesy_study::problem::{Linearity, Problem, says_accuracy, study_of};

/// Horizons when nobody says otherwise.
const BY_DEFAULT: [Horizon; 2] = [Horizon::Samples(1), Horizon::Free];

/// Predictions of one measurement of one record with one horizon.
#[derive(Clone, PartialEq, Debug)]
pub struct Validated {
    /// The file, as the study names it.
    pub file: String,
    /// How far ahead.
    pub horizon: Horizon,
    /// Measured and predicted values.
    pub fit: Fit,
}

impl Validated {
    fn errors(&self) -> impl Iterator<Item = f64> {
        let pairs = self.fit.measured.iter().zip(&self.fit.predicted);
        pairs.map(|(measured, predicted)| measured - predicted).filter(|error| error.is_finite())
    }

    /// `100 (1 - |y - prediction| / |y - mean|)`; not finite where nothing varies.
    #[must_use]
    pub fn fit_percent(&self) -> f64 {
        let values: Vec<f64> = self.fit.measured.iter().copied().filter(|value| value.is_finite()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let spread: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        100.0 * (1.0 - (self.errors().map(|error| error * error).sum::<f64>() / spread).sqrt())
    }

    /// The root of the mean of squared errors.
    #[must_use]
    pub fn rmse(&self) -> f64 {
        let n = self.errors().count();
        (self.errors().map(|error| error * error).sum::<f64>() / n as f64).sqrt()
    }

    /// The horizon in words.
    #[must_use]
    pub fn horizon_words(&self) -> String {
        match self.horizon {
            Horizon::Samples(1) => "1 sample ahead".to_owned(),
            Horizon::Samples(n) => format!("{n} samples ahead"),
            Horizon::Free => "free run".to_owned(),
        }
    }
}

/// The entries of a document.
pub(super) fn to_json(list: &[Validated]) -> Value {
    let entry = |one: &Validated| {
        let horizon = match one.horizon {
            Horizon::Samples(n) => json!(n),
            Horizon::Free => json!("free"),
        };
        json!({
            "file": one.file,
            "name": one.fit.name,
            "horizon": horizon,
            "fit_percent": number(one.fit_percent()),
            "rmse": number(one.rmse()),
        })
    };
    list.iter().map(entry).collect()
}

/// Predicts what an identification is to be compared with: the records for validation, and the data themselves where
/// the study asks for horizons.
pub(super) fn add_to(
    found: &mut Identification,
    loaded: &Loaded,
    problem: &Problem,
    form: Form,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<(), Failure> {
    let study = study_of(loaded)?;
    let asked = &study.identify.horizons;
    let horizons = if asked.is_empty() { &BY_DEFAULT[..] } else { &asked[..] };
    let theta: Vec<f64> = found.parameters.iter().map(|parameter| parameter.estimate).collect();
    let mut question = Question {
        form,
        method: found.method,
        theta: &theta,
        horizons,
        spread: found.spread(),
        seed: options.seed,
        notes: Vec::new(),
    };
    let held_out = loaded.validation();
    if loaded.n_unknown_starts > 0 && held_out.is_some() {
        let message =
            "records for validation are left out: where they start is not known, and estimated for the data only";
        let help = "identify their start by a study of their own, with the estimates in `[parameters]`";
        let span = study.initial.mode_span.unwrap_or(Span::NONE);
        question.notes.push(Finding::warning("start-not-free", span, message).with_help(help));
    }
    if let Some(mut held_out) = held_out.filter(|_| loaded.n_unknown_starts == 0) {
        question.notes.extend(leave_out_used(&mut held_out, problem));
        progress("validation");
        if held_out.n_experiments() > 0 {
            found.validation = question.predict(&held_out, &Problem::read(&held_out)?)?;
            question.notes.extend(found.validation.iter().filter_map(far_start));
        }
    }
    if !asked.is_empty() {
        progress("predictions");
        found.predictions = question.predict(loaded, problem)?;
    }
    question.notes.dedup();
    found.diagnostics.extend(question.notes.iter().map(|note| resolve(loaded, note)));
    Ok(())
}

/// Leaves out records that are the data themselves, as where a saved study is applied to one.
fn leave_out_used(held_out: &mut Loaded, problem: &Problem) -> Option<Finding> {
    let folder = held_out.folder.clone();
    let files = &mut held_out.study.as_mut()?.data.as_mut()?.files;
    let is_used = |file: &str| {
        let path = folder.join(file);
        problem.records.iter().any(|record| is_same_file(&path, Path::new(&record.data.file)))
    };
    let left_out: Vec<String> =
        files.iter().filter(|file| is_used(&file.name)).map(|file| format!("`{}`", file.name)).collect();
    files.retain(|file| !is_used(&file.name));
    if left_out.is_empty() {
        return None;
    }
    let message = format!("{} of `validation` is left out there: it is the data themselves", left_out.join(", "));
    Some(Finding::note("validation-used", Span::NONE, message))
}

/// A first sample so many standard deviations off has another start than the model.
const FAR: f64 = 8.0;

/// A record whose free run begins far from where the model starts: all that follows is off, whatever the model is worth.
fn far_start(of: &Validated) -> Option<Finding> {
    let Validated { file, horizon: Horizon::Free, fit } = of else { return None };
    let first = fit.measured.iter().position(|value| value.is_finite())?;
    let (measured, predicted, std) = (fit.measured[first], fit.predicted[first], fit.std[first]);
    let off = (measured - predicted).abs() / std;
    if !(off.is_finite() && off > FAR) {
        return None;
    }
    let message = format!(
        "`{file}` begins with `{}` = {}, but the model starts at {}, {off:.0} standard deviations away: its free run is \
         off from there on",
        fit.name,
        short(measured, 4),
        short(predicted, 4),
    );
    let help = "a start that is `fixed = true`, or an unknown, is that of the fit: say `mode = \"estimate\"` below \
                `[initial]`, so that every record has its own, or apply a saved study to the record with its start";
    Some(Finding::warning("validation-start", Span::NONE, message).with_names([&fit.name]).with_help(help))
}

/// What is to be predicted, and how.
struct Question<'q> {
    form: Form,
    method: Method,
    theta: &'q [f64],
    horizons: &'q [Horizon],
    spread: Option<Spread>,
    seed: u64,
    notes: Vec<Finding>,
}

impl Question<'_> {
    fn predict(&mut self, loaded: &Loaded, problem: &Problem) -> Result<Vec<Validated>, Failure> {
        let fits = match (&problem.linearity, self.form) {
            (Linearity::Constant(_), Form::Linear) => self.by_matrices(loaded, problem)?,
            _ => self.by_motion(loaded, problem)?,
        };
        let named = loaded.study.iter().flat_map(|study| &study.data).flat_map(|data| &data.files);
        let files: Vec<&str> = named.map(|file| file.name.as_str()).collect();
        let file_of = |at: usize| match files.get(at).filter(|_| loaded.data.is_empty()) {
            Some(file) => (*file).to_owned(),
            None => problem.records.get(at).map_or_else(String::new, |record| record.data.file.clone()),
        };
        let named = |(horizon, fit): (Horizon, Fit)| Validated { file: file_of(fit.experiment), horizon, fit };
        Ok(fits.into_iter().map(named).collect())
    }

    /// By the filter of a linear model. An output-error fit whose measurements have no accuracy has no filter: its
    /// start is all that is known.
    fn by_matrices(&self, loaded: &Loaded, problem: &Problem) -> Result<Vec<(Horizon, Fit)>, Failure> {
        let Linearity::Constant(model) = &problem.linearity else { return Ok(Vec::new()) };
        let mut study = posed(loaded, problem, model, SignalsWanted::No)?;
        if self.method == Method::OutputError && !study_of(loaded)?.measurements.iter().all(says_accuracy) {
            study = study.without_noise(self.theta);
        }
        let refused = |error| failure(loaded, &study, self.theta, &error);
        let likelihood = Likelihood::new(&study, self.theta, FilterOptions::default()).map_err(refused)?;
        let mut found = likelihood.ahead(self.theta, self.horizons).map_err(refused)?;
        self.widen(&mut found, |theta| likelihood.ahead(theta, self.horizons).ok());
        let mut fits = Vec::new();
        for (experiment, (data, found)) in study.experiments().iter().zip(&found).enumerate() {
            let record = Record {
                experiment,
                times: &data.times,
                measured: &data.measurements,
                is_used: (0..data.times.len()).map(|sample| sample >= data.first_counted).collect(),
            };
            for (&horizon, ahead) in self.horizons.iter().zip(found) {
                let names = study.measured.iter().map(|signal| signal.name.as_str());
                fits.extend(record.fits(ahead, names).map(|fit| (horizon, fit)));
            }
        }
        Ok(fits)
    }

    /// By the model itself: its filter a number of samples ahead, its ensemble for a free run.
    fn by_motion(&mut self, loaded: &Loaded, problem: &Problem) -> Result<Vec<(Horizon, Fit)>, Failure> {
        // An output-error fit of a model with events is all there is of it.
        let study = match study_for(loaded, problem, self.method, self.seed)? {
            study if self.method != Method::OutputError || study.follows_events() => study,
            _ => PredictionStudy::new(loaded, problem, self.seed)?,
        };
        let fail = |refusal: PointRefusal| study.failure(loaded, &refusal);
        if study.is_mixture() {
            return self.by_mixture(loaded, &study);
        }
        let is_disturbed = !study.disturbances.is_empty() && !study.follows_events();
        let without = self.no_filter(loaded, problem, &study)?;
        // Nothing but the start is known of a model without disturbances: every prediction is a free run.
        let has_filter = is_disturbed && without.is_none();
        let horizons: Vec<Horizon> = self
            .horizons
            .iter()
            .copied()
            .filter(|horizon| *horizon == Horizon::Free || has_filter || !is_disturbed)
            .collect();
        let is_undisturbed = self.method == Method::OutputError || !is_disturbed;
        let settings = PredictionSettings { is_undisturbed, ..study.settings.clone() };
        let motion = Motion {
            loaded,
            study: &study,
            free: study.problem(settings, self.theta).map_err(fail)?,
            filter: match has_filter && horizons.iter().any(|horizon| *horizon != Horizon::Free) {
                true => Some(study.problem(study.settings.clone(), self.theta).map_err(fail)?),
                false => None,
            },
            horizons: &horizons,
        };
        let mut found = motion.ahead(self.theta).map_err(fail)?;
        self.widen(&mut found, |theta| motion.ahead(theta).ok());
        let mut fits = Vec::new();
        for (experiment, (own, found)) in study.experiments.iter().zip(&found).enumerate() {
            let record = Record::of(experiment, own);
            for (&horizon, ahead) in horizons.iter().zip(found) {
                let names = study.measured.iter().map(|signal| signal.name.as_str());
                fits.extend(record.fits(ahead, names).map(|fit| (horizon, fit)));
            }
        }
        self.notes.extend(without);
        Ok(fits)
    }

    /// By the filter of a model with events under disturbances, which predicts one sample ahead.
    fn by_mixture(&mut self, loaded: &Loaded, study: &PredictionStudy) -> Result<Vec<(Horizon, Fit)>, Failure> {
        const NEXT: Horizon = Horizon::Samples(1);
        if self.horizons.iter().any(|horizon| *horizon != NEXT) {
            let message = "a model with events in which a disturbance acts is predicted one sample ahead only: other \
                           horizons are left out";
            let help = "ask for a horizon of 1; `uq` and `simulate` show runs without measurements";
            self.notes.push(Finding::note("horizon", Span::NONE, message).with_help(help));
        }
        if !self.horizons.contains(&NEXT) {
            return Ok(Vec::new());
        }
        let fail = |refusal: PointRefusal| study.failure(loaded, &refusal);
        let problem = study.problem(study.settings.clone(), self.theta).map_err(fail)?;
        let kind = filter_kind(loaded.study.as_ref());
        let likelihood = FilterLikelihood::new(&problem, kind, &study.space, loaded.watch.clone());
        let runs = likelihood.run(self.theta).map_err(fail)?;
        Ok(fits(study, &problem, &runs).into_iter().map(|fit| (NEXT, fit)).collect())
    }

    /// Adds what the uncertainty of the estimates means for predictions, `[experiment][horizon]`, if there are
    /// predictions at values nearby.
    fn widen(&self, found: &mut [Vec<Ahead>], ahead: impl Fn(&[f64]) -> Option<Vec<Vec<Ahead>>>) {
        let Some(spread) = &self.spread else { return };
        let nearby = spread.points(self.theta).find_map(|around| {
            let others: Option<Vec<_>> = around.points.iter().map(|point| ahead(point)).collect();
            others.map(|others| (around, others))
        });
        let Some((around, others)) = nearby else { return };
        for (experiment, list) in found.iter_mut().enumerate() {
            for (horizon, own) in list.iter_mut().enumerate() {
                for (at, (mean, variance)) in own.means.iter().zip(&mut own.variances).enumerate() {
                    let there = others.iter().map(|other| {
                        let other = &other[experiment][horizon];
                        (other.means[at], other.variances[at].sqrt())
                    });
                    *variance = around.std((*mean, variance.sqrt()), there).powi(2);
                }
            }
        }
    }

    /// Why there is no filter to look ahead with, if there is none.
    fn no_filter(
        &self,
        loaded: &Loaded,
        problem: &Problem,
        study: &PredictionStudy,
    ) -> Result<Option<Finding>, Failure> {
        let asked = study_of(loaded)?;
        let signal = asked.measurements.iter().find(|signal| !says_accuracy(signal));
        let off_grid = daesy_study::prediction_study::sample_off_grid(asked, problem)?;
        let why = match (signal, off_grid) {
            (Some(signal), _) => format!("the study does not say how accurate `{}` is", signal.name),
            (None, Some(time)) => format!("the sample at t = {time} is not on the grid of `noise_step`"),
            (None, None) => return Ok(None),
        };
        let is_asked = self.horizons.iter().any(|horizon| *horizon != Horizon::Free);
        if !is_asked || study.disturbances.is_empty() {
            return Ok(None);
        }
        let message = format!("there is no filter that predicts a number of samples ahead: {why}");
        let note = Finding::note("horizon", Span::NONE, message);
        Ok(Some(note.with_help("the free run needs neither; give `std`, or a `noise_step` that samples lie on")))
    }
}

/// A model with its filter, if it has one, and its ensemble.
struct Motion<'m> {
    loaded: &'m Loaded,
    study: &'m PredictionStudy,
    free: PredictionProblem<'m>,
    filter: Option<PredictionProblem<'m>>,
    horizons: &'m [Horizon],
}

impl Motion<'_> {
    /// Predictions at some parameters: `[experiment][horizon]`.
    fn ahead(&self, theta: &[f64]) -> Result<Vec<Vec<Ahead>>, PointRefusal> {
        let variances = Parameterization::variances(self.study, theta)?;
        let free = free_run(&self.free, theta, &variances, self.loaded)?;
        let by_filter: Vec<Horizon> =
            self.horizons.iter().copied().filter(|horizon| *horizon != Horizon::Free).collect();
        let kind = filter_kind(self.loaded.study.as_ref());
        let mut all = Vec::new();
        for (experiment, (own, free)) in self.study.experiments.iter().zip(free).enumerate() {
            let mut filtered = match &self.filter {
                Some(problem) => {
                    let measured = &own.measured;
                    let request = FilterRequest { experiment, measured, variances: &variances, smooths: false };
                    problem.ahead(theta, &request, &kind, &by_filter, &self.loaded.watch)?
                }
                None => Vec::new(),
            }
            .into_iter();
            let of = |horizon: &Horizon| match horizon {
                Horizon::Samples(_) => filtered.next().unwrap_or_else(|| free.clone()),
                Horizon::Free => free.clone(),
            };
            all.push(self.horizons.iter().map(of).collect());
        }
        Ok(all)
    }
}

/// Means of the ensemble with their variances, by experiment.
fn free_run(
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    variances: &[f64],
    loaded: &Loaded,
) -> Result<Vec<Ahead>, PointRefusal> {
    let n_realizations = problem.settings().n_realizations;
    let found = problem.predict(&[theta.to_vec()], n_realizations, &loaded.watch)?.swap_remove(0);
    let n_outputs = variances.len();
    let spread = |list: Vec<f64>| list.iter().enumerate().map(|(at, it)| it + variances[at % n_outputs]).collect();
    let pairs = found.means.into_iter().zip(found.variances);
    Ok(pairs.map(|(means, list)| Ahead { means, variances: spread(list) }).collect())
}

/// A record that predictions are compared with.
struct Record<'r> {
    experiment: usize,
    times: &'r [f64],
    /// `[sample * n_measured + measurement]`
    measured: &'r [f64],
    is_used: Vec<bool>,
}

impl<'r> Record<'r> {
    fn of(experiment: usize, own: &'r StudyExperiment) -> Self {
        Self { experiment, times: &own.grid.samples, measured: &own.measured, is_used: own.is_used.clone() }
    }

    fn fits<'f>(
        &'f self,
        ahead: &'f Ahead,
        names: impl ExactSizeIterator<Item = &'f str>,
    ) -> impl Iterator<Item = Fit> {
        let m = names.len();
        names.enumerate().map(move |(at, name)| {
            let pick = |list: &[f64]| -> Vec<f64> { list.iter().skip(at).step_by(m).copied().collect() };
            let counted = pick(self.measured).into_iter().zip(&self.is_used);
            Fit {
                name: name.to_owned(),
                experiment: self.experiment,
                times: self.times.to_vec(),
                measured: counted.map(|(value, is_used)| if *is_used { value } else { f64::NAN }).collect(),
                predicted: pick(&ahead.means),
                std: pick(&ahead.variances).iter().map(|variance| variance.sqrt()).collect(),
            }
        })
    }
}

/// Rows of a table: file, signal, horizon, fit, error.
pub(super) fn rows(list: &[Validated]) -> Vec<Vec<String>> {
    let row = |one: &Validated| {
        let share = percent(one.fit_percent());
        vec![one.file.clone(), one.fit.name.clone(), one.horizon_words(), share, short(one.rmse(), 4)]
    };
    list.iter().map(row).collect()
}

/// Their heads.
pub(super) const HEAD: [&str; 5] = ["file", "signal", "horizon", "predicted", "rms error"];

/// A table and pictures.
pub(super) fn add_to_page(list: &[Validated], heading: &str, page: &mut Page) {
    const MAX_CHARTS: usize = 12;
    if list.is_empty() {
        return;
    }
    page.heading(heading);
    let mut rows = rows(list);
    for (row, one) in rows.iter_mut().zip(list) {
        let unit = page.glossary().unit(&one.fit.name);
        if let (Some(error), false) = (row.last_mut(), unit.is_empty()) {
            *error = format!("{error} {unit}");
        }
    }
    page.table(&HEAD, &rows);
    for one in list.iter().take(MAX_CHARTS) {
        let fit = &one.fit;
        let (label, words) = (page.glossary().label(&fit.name), page.glossary().words(&fit.name));
        let edge = |sign: f64| fit.predicted.iter().zip(&fit.std).map(|(p, s)| p + sign * 2.0 * s).collect();
        let series = |name: &str, y: Vec<f64>, mark: Mark, color: usize| Series {
            name: name.to_owned(),
            x: fit.times.clone(),
            y,
            mark,
            color,
        };
        let chart = Chart {
            title: format!("{} in {}, {}", fit.name, one.file, one.horizon_words()),
            x_label: TIME.to_owned(),
            y_label: label,
            series: vec![
                series("two standard deviations", edge(-1.0), Mark::BandTo(edge(1.0)), 0),
                series("predicted", fit.predicted.clone(), Mark::Line, 0),
                series("measured", fit.measured.clone(), Mark::Dots, 1),
            ],
            ..Chart::default()
        };
        let caption = format!("{words} as measured in {} and as predicted, {}.", one.file, one.horizon_words());
        page.figure(&chart, &caption);
    }
}
