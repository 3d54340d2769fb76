//! `daesy cost`: the log-likelihood or the cost of a fit over a grid of parameter values.

use std::path::PathBuf;
use std::time::Instant;

use daesy_estimate::descriptor::ParametricModel;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::pem::{FilterLikelihood, PointRefusal, Prediction, PredictionSettings};
use daesy_graph::Span;
use daesy_graph::finding::{Finding, nearest};
use daesy_study::limits;
use serde_json::{Map, Value, json};

use crate::identify::pem::{note_interpolation, rewritten, study_for};
use crate::identify::{Method, ProgressLine, Route, route};
use daesy_report::Page;
use daesy_report::chart::{Chart, HeatMap, Mark, Series};
use daesy_report::checkpoint::{Checkpoint, Run, key as checkpoint_key};
use daesy_report::table::Table;
use daesy_report::words::{short, text_table};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::distribute::Elsewhere;
use daesy_study::failure::Failure;
use daesy_study::linear_study::LinearStudy;
use daesy_study::linear_study::refusal::{failure, finding};
use daesy_study::load::Loaded;
use daesy_study::prediction_study::PredictionStudy;
use daesy_study::prediction_study::filter_kind;
use daesy_study::problem::Problem;

/// What the values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostKind {
    /// The log-likelihood, with the constants of `2 pi`.
    LogLikelihood,
    /// Mean of squared prediction errors.
    PredictionError,
    /// Mean of squared output errors.
    OutputError,
}

impl CostKind {
    const fn of(method: Method) -> Self {
        match method {
            Method::MaximumLikelihood => Self::LogLikelihood,
            Method::PredictionError => Self::PredictionError,
            Method::OutputError => Self::OutputError,
        }
    }

    /// The word in documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::LogLikelihood => "log-likelihood",
            Self::PredictionError => "prediction-error",
            Self::OutputError => "output-error",
        }
    }
}

/// Values of one unknown.
#[derive(Clone, PartialEq, Debug)]
pub struct GridAxis {
    /// The unknown.
    pub name: String,
    /// Its values.
    pub values: Vec<f64>,
}

impl GridAxis {
    /// Reads `name=from:to:n`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let problem = |message: String| {
            Diagnostic::error("usage", format!("--grid {text}: {message}")).with_help("write it as name=from:to:n")
        };
        let (name, range) = text.split_once('=').ok_or_else(|| problem("there is no `=`".to_owned()))?;
        let parts: Vec<&str> = range.split(':').collect();
        let [from, to, n] = parts[..] else { return Err(problem("a range has three parts".to_owned())) };
        let number = |part: &str| {
            let value = part.trim().parse::<f64>().ok().filter(|value| value.is_finite());
            value.ok_or_else(|| problem(format!("`{part}` is not a number")))
        };
        let (from, to) = (number(from)?, number(to)?);
        let n: usize = n.trim().parse().map_err(|_| problem(format!("`{n}` is not a number of points")))?;
        if n == 0 {
            return Err(problem("there must be at least one point".to_owned()));
        }
        limits::at_most("the number of points", n as u64, limits::MAX_GRID_POINTS)
            .map_err(|refusal| problem(refusal.message))?;
        let at = |i: usize| if n == 1 { from } else { from + (to - from) * i as f64 / (n - 1) as f64 };
        Ok(Self { name: name.trim().to_owned(), values: (0..n).map(at).collect() })
    }
}

/// Values over a grid.
#[derive(Clone, Debug)]
pub struct CostGrid {
    /// The model.
    pub model: String,
    /// What the values are.
    pub kind: CostKind,
    /// The axes.
    pub axes: Vec<GridAxis>,
    /// Row-major in the order of the axes; NaN where the model refuses.
    pub values: Vec<f64>,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// What is asked besides the study and the grid.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CostOptions {
    /// `auto`, `ml`, `pem` or `output-error`, instead of the study's.
    pub method: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// A file that keeps what was computed, so that the same command goes on where it ended.
    pub checkpoint: Option<PathBuf>,
    /// Number of threads; all cores when left out.
    pub threads: Option<usize>,
}

/// Reads the axes of a grid; their names must be unknowns of the study.
///
/// # Errors
/// Diagnostics for all that are wrong.
pub fn read_axes(loaded: &Loaded, grid: &[String]) -> Result<Vec<GridAxis>, Failure> {
    let mut axes = Vec::new();
    let mut wrong = Vec::new();
    let unknowns: Vec<&str> =
        loaded.study.iter().flat_map(|study| study.unknown.iter().map(|unknown| unknown.name.as_str())).collect();
    for text in grid {
        match GridAxis::parse(text) {
            Ok(axis) if unknowns.contains(&axis.name.as_str()) => axes.push(axis),
            Ok(axis) => {
                let help = match nearest(&axis.name, unknowns.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("unknowns: {}", unknowns.join(", ")),
                };
                let message = format!("--grid: `{}` is not an unknown of the study", axis.name);
                wrong.push(Diagnostic::error("usage", message).with_help(help));
            }
            Err(diagnostic) => wrong.push(diagnostic),
        }
    }
    let n_points = axes.iter().fold(1u64, |n, axis| n.saturating_mul(axis.values.len() as u64));
    if let Err(refusal) = limits::at_most("the number of points of --grid", n_points, limits::MAX_GRID_POINTS) {
        wrong.push(Diagnostic::error("usage", refusal.message).with_help(refusal.help));
    }
    if wrong.is_empty() { Ok(axes) } else { Err(Failure::Usage(wrong)) }
}

/// Points of a grid in row-major order.
#[must_use]
pub fn points(axes: &[GridAxis]) -> Vec<Vec<f64>> {
    let mut points = vec![Vec::new()];
    for axis in axes {
        points = points
            .into_iter()
            .flat_map(|point: Vec<f64>| {
                axis.values.iter().map(move |&value| {
                    let mut longer = point.clone();
                    longer.push(value);
                    longer
                })
            })
            .collect();
    }
    points
}

/// Evaluates the cost over a grid; unknowns that are not in it stay at their start.
///
/// # Errors
/// Diagnostics, when the question or the study is at fault.
pub fn cost(
    loaded: &Loaded,
    grid: &[String],
    options: &CostOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<CostGrid, Failure> {
    let axes = read_axes(loaded, grid)?;
    let problem = Problem::read(loaded)?;
    let mut found = match route(loaded, &problem, options.method.as_deref())? {
        Route::Linear { study, method } => filter_cost(loaded, axes, &study, CostKind::of(method), progress),
        Route::Ensembles(method) => prediction_cost(loaded, &problem, axes, CostKind::of(method), options, progress),
        Route::Filter => filtered_cost(loaded, &problem, axes, options, progress),
    }?;
    found.note_edge();
    Ok(found)
}

/// One share of the values of a grid: for each point its value and how many realizations broke down, or nothing where
/// it is refused.
///
/// # Errors
/// As [`cost`].
pub fn evaluate_at(
    loaded: &Loaded,
    grid: &[String],
    options: &CostOptions,
    points: &[Vec<f64>],
) -> Result<Vec<Vec<f64>>, Failure> {
    let axes = read_axes(loaded, grid)?;
    let asked = Problem::read(loaded)?;
    match route(loaded, &asked, options.method.as_deref())? {
        Route::Linear { study, method } => {
            let kind = CostKind::of(method);
            let start = study.start();
            let places = Places::new(&axes, study.unknowns.iter().map(|unknown| unknown.name.as_str()));
            let first = first_point(&axes);
            let likelihood = likelihood_of(loaded, &study, &start, &places.theta(&start, &first))?;
            let value = |point: &Vec<f64>| value_at(&study, &likelihood, kind, &places.theta(&start, point));
            let values = points.iter().map(|point| value(point).map_or_else(|_| Vec::new(), |value| vec![value, 0.0]));
            Ok(values.collect())
        }
        Route::Ensembles(method) => {
            let kind = CostKind::of(method);
            let study = study_for(loaded, &asked, method, options.seed)?;
            let start = study.start();
            let places = Places::new(&axes, study.unknowns.iter().map(|unknown| unknown.name.as_str()));
            let refused = |refusal: PointRefusal| study.failure(loaded, &refusal);
            let problem = study.problem(settings(&study, kind, options), &start).map_err(refused)?;
            let thetas: Vec<Vec<f64>> = points.iter().map(|point| places.theta(&start, point)).collect();
            let mut values = Vec::with_capacity(thetas.len());
            for some in thetas.chunks(POINTS_TOGETHER) {
                let n_realizations = problem.settings().n_realizations;
                let predictions = problem.predict(some, n_realizations, &loaded.watch).map_err(refused)?;
                let numbers = |found: &Prediction| vec![problem.cost(found), found.failures.len() as f64];
                values.extend(predictions.iter().map(numbers));
            }
            Ok(values)
        }
        Route::Filter => {
            let kind = filter_kind(loaded.study.as_ref());
            let study = PredictionStudy::new(loaded, &asked, options.seed)?;
            let start = study.start();
            let places = Places::new(&axes, study.unknowns.iter().map(|unknown| unknown.name.as_str()));
            let refused = |refusal: PointRefusal| study.failure(loaded, &refusal);
            let problem = study.problem(study.settings.clone(), &start).map_err(refused)?;
            let watch = loaded.watch.clone();
            let likelihood = FilterLikelihood::new(&problem, kind, &study.space, watch);
            let value = |point: &Vec<f64>| {
                let runs = likelihood.run(&places.theta(&start, point)).map_err(refused)?;
                Ok(vec![likelihood.log_likelihood(&runs), 0.0])
            };
            points.iter().map(value).collect()
        }
    }
}

/// Which unknowns the axes of a grid are.
struct Places(Vec<usize>);

impl Places {
    fn new<'n>(axes: &[GridAxis], unknowns: impl Iterator<Item = &'n str>) -> Self {
        let unknowns: Vec<&str> = unknowns.collect();
        let place = |axis: &GridAxis| unknowns.iter().position(|name| *name == axis.name).unwrap_or(0);
        Self(axes.iter().map(place).collect())
    }

    /// All unknowns at a point of the grid.
    fn theta(&self, start: &[f64], point: &[f64]) -> Vec<f64> {
        let mut theta = start.to_vec();
        self.0.iter().zip(point).for_each(|(&place, &value)| theta[place] = value);
        theta
    }
}

fn first_point(axes: &[GridAxis]) -> Vec<f64> {
    axes.iter().map(|axis| axis.values[0]).collect()
}

/// The structure is that of the start, or of the first point where the start itself is refused.
fn likelihood_of<'s>(
    loaded: &Loaded,
    study: &'s LinearStudy,
    start: &[f64],
    first: &[f64],
) -> Result<Likelihood<'s, LinearStudy>, Failure> {
    Likelihood::new(study, start, FilterOptions::default())
        .or_else(|_| Likelihood::new(study, first, FilterOptions::default()))
        .map_err(|error| failure(loaded, study, start, &error))
}

/// What an executor found at points; fails when the run was stopped.
fn ask_elsewhere(elsewhere: &Elsewhere, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Failure> {
    elsewhere.evaluate(points).ok_or_else(stopped)
}

fn stopped() -> Failure {
    Failure::Method(vec![Diagnostic::error("stopped", "the run was stopped")])
}

/// The log-likelihood or the output error of a model that is linear in its variables.
fn filter_cost(
    loaded: &Loaded,
    axes: Vec<GridAxis>,
    study: &LinearStudy,
    kind: CostKind,
    progress: &mut ProgressLine<'_>,
) -> Result<CostGrid, Failure> {
    let start = study.start();
    let points = points(&axes);
    let places = Places::new(&axes, study.unknowns.iter().map(|unknown| unknown.name.as_str()));
    let likelihood = likelihood_of(loaded, study, &start, &places.theta(&start, &points[0]))?;
    let far = loaded.elsewhere.as_ref().map(|elsewhere| ask_elsewhere(elsewhere, &points)).transpose()?;
    let mut values = Vec::with_capacity(points.len());
    let mut refusals: Vec<Finding> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        if loaded.watch.is_stopped() {
            let error = daesy_estimate::error::EstimateError::Stopped;
            return Err(failure(loaded, study, &[], &error));
        }
        if let Some(&value) = far.as_ref().and_then(|far| far[at].first()) {
            values.push(value);
            continue;
        }
        progress(&format!("point {} of {}", at + 1, points.len()));
        let theta = places.theta(&start, point);
        match value_at(study, &likelihood, kind, &theta) {
            Ok(value) => values.push(value),
            Err(error) => {
                values.push(f64::NAN);
                refusals.push(finding(study, &theta, &error));
            }
        }
    }
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    let mut diagnostics = Vec::new();
    if let Some(first) = refusals.first() {
        let message =
            format!("{} of {} points are refused, the first: {}", refusals.len(), points.len(), first.message);
        diagnostics.push(Diagnostic::resolve(&Finding::warning("refused", Span::NONE, message), &sources));
    }
    Ok(CostGrid { model: loaded.flat.model.clone(), kind, axes, values, diagnostics })
}

/// Points that are computed together, so that they share random numbers and memory stays small.
const POINTS_TOGETHER: usize = 16;

fn settings(study: &PredictionStudy, kind: CostKind, options: &CostOptions) -> PredictionSettings {
    let mut settings = PredictionSettings { is_undisturbed: kind == CostKind::OutputError, ..study.settings.clone() };
    settings.options.n_threads = options.threads.unwrap_or(0);
    settings
}

/// The mean of squared prediction or output errors over a grid.
fn prediction_cost(
    loaded: &Loaded,
    asked: &Problem,
    axes: Vec<GridAxis>,
    kind: CostKind,
    options: &CostOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<CostGrid, Failure> {
    let study = match kind {
        CostKind::OutputError => PredictionStudy::undisturbed(loaded, asked, options.seed)?,
        _ => PredictionStudy::ensembles(loaded, asked, options.seed)?,
    };
    let start = study.start();
    let problem =
        study.problem(settings(&study, kind, options), &start).map_err(|refusal| study.failure(loaded, &refusal))?;
    let n_realizations = problem.settings().n_realizations;
    let places = Places::new(&axes, study.unknowns.iter().map(|unknown| unknown.name.as_str()));
    let points = points(&axes);
    let thetas: Vec<Vec<f64>> = points.iter().map(|point| places.theta(&start, point)).collect();
    let mut checkpoint = match &options.checkpoint {
        Some(path) => {
            let command = format!("cost {} {}", kind.word(), options.seed);
            let run = Run::new(loaded, &command).map_err(Failure::Input)?;
            let opened = Checkpoint::open(path, run);
            Some(opened.map_err(|diagnostic| Failure::Input(vec![diagnostic]))?)
        }
        None => None,
    };
    let key_of = |theta: &[f64]| checkpoint_key("cost", theta);
    let known = |theta: &Vec<f64>| match checkpoint.as_ref()?.get(&key_of(theta))? {
        [value] => Some(*value),
        _ => None,
    };
    let mut values: Vec<Option<f64>> = thetas.iter().map(known).collect();
    let mut missing: Vec<usize> = (0..thetas.len()).filter(|&at| values[at].is_none()).collect();
    let begun = Instant::now();
    let mut n_found = 0;
    let mut failures = 0;
    let mut keep = |at: usize, numbers: &[f64]| -> Result<(), Diagnostic> {
        let [value, n_failures] = numbers[..] else { return Ok(()) };
        failures += n_failures as usize;
        values[at] = Some(value);
        checkpoint.as_mut().map_or(Ok(()), |checkpoint| checkpoint.put(&key_of(&thetas[at]), &[value]))
    };
    if let Some(elsewhere) = loaded.elsewhere.as_ref().filter(|_| !missing.is_empty()) {
        let share: Vec<&[f64]> = missing.iter().map(|&at| points[at].as_slice()).collect();
        let mut trouble = None;
        let is_done = elsewhere.each(&share, 2, &mut |at, numbers| {
            trouble = keep(missing[at], numbers).err();
            trouble.is_none()
        });
        if let Some(diagnostic) = trouble {
            return Err(Failure::Input(vec![diagnostic]));
        }
        is_done.ok_or_else(stopped)?;
        missing.clear();
    }
    for some in missing.chunks(POINTS_TOGETHER) {
        let left = if n_found == 0 {
            String::new()
        } else {
            let per_point = begun.elapsed().as_secs_f64() / n_found as f64;
            format!(", about {:.0} s left", per_point * (missing.len() - n_found) as f64)
        };
        progress(&format!("point {} of {}{left}", thetas.len() - missing.len() + n_found + 1, thetas.len()));
        let share: Vec<Vec<f64>> = some.iter().map(|&at| thetas[at].clone()).collect();
        let predictions = problem
            .predict(&share, n_realizations, &loaded.watch)
            .map_err(|refusal| study.failure(loaded, &refusal))?;
        n_found += some.len();
        for (&at, found) in some.iter().zip(&predictions) {
            keep(at, &[problem.cost(found), found.failures.len() as f64])
                .map_err(|diagnostic| Failure::Input(vec![diagnostic]))?;
        }
    }
    if let Some(checkpoint) = &mut checkpoint {
        checkpoint.save().map_err(|diagnostic| Failure::Input(vec![diagnostic]))?;
    }
    let values = values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
    let mut diagnostics = rewritten(loaded, &study);
    if kind == CostKind::PredictionError && !study.disturbances.is_empty() {
        note_interpolation(loaded, &study, &problem, &start, &mut diagnostics);
    }
    if failures > 0 {
        let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
        let message = format!("{failures} realizations broke down and were left out");
        diagnostics.push(Diagnostic::resolve(&Finding::warning("realization-failed", Span::NONE, message), &sources));
    }
    Ok(CostGrid { model: loaded.flat.model.clone(), kind, axes, values, diagnostics })
}

/// The log-likelihood of a nonlinear model under the approximation of a filter, over a grid.
fn filtered_cost(
    loaded: &Loaded,
    asked: &Problem,
    axes: Vec<GridAxis>,
    options: &CostOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<CostGrid, Failure> {
    let kind = filter_kind(loaded.study.as_ref());
    let study = PredictionStudy::new(loaded, asked, options.seed)?;
    let start = study.start();
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    let refused = |refusal: PointRefusal| study.failure(loaded, &refusal);
    let problem = study.problem(study.settings.clone(), &start).map_err(refused)?;
    let likelihood = FilterLikelihood::new(&problem, kind, &study.space, loaded.watch.clone());
    let places = Places::new(&axes, study.unknowns.iter().map(|unknown| unknown.name.as_str()));
    let points = points(&axes);
    let far = loaded.elsewhere.as_ref().map(|elsewhere| ask_elsewhere(elsewhere, &points)).transpose()?;
    let mut values = Vec::with_capacity(points.len());
    let mut approximation = "";
    for (at, point) in points.iter().enumerate() {
        let known = far.as_ref().and_then(|far| far[at].first().copied());
        // The last point is always filtered here: its filter names the approximation.
        if let Some(value) = known.filter(|_| at + 1 < points.len()) {
            values.push(value);
            continue;
        }
        progress(&format!("point {} of {}", at + 1, points.len()));
        let runs = likelihood.run(&places.theta(&start, point)).map_err(refused)?;
        approximation = runs.first().map_or("", |run| run.approximation.words());
        values.push(likelihood.log_likelihood(&runs));
        if loaded.watch.is_stopped() {
            let finding = Finding::error("stopped", Span::NONE, "stopped before the end");
            return Err(Failure::Method(vec![Diagnostic::resolve(&finding, &sources)]));
        }
    }
    let message = format!("the model is not linear; the likelihood rests on an approximation ({approximation})");
    let diagnostics = vec![Diagnostic::resolve(&Finding::note("approximation", Span::NONE, message), &sources)];
    Ok(CostGrid { model: loaded.flat.model.clone(), kind: CostKind::LogLikelihood, axes, values, diagnostics })
}

fn value_at(
    study: &LinearStudy,
    likelihood: &Likelihood<'_, LinearStudy>,
    kind: CostKind,
    theta: &[f64],
) -> Result<f64, daesy_estimate::error::EstimateError> {
    if kind == CostKind::LogLikelihood {
        return Ok(likelihood.evaluate(theta)?.log_likelihood);
    }
    let innovations = likelihood.innovations(theta)?;
    let m = study.measured.len();
    let (mut sum, mut n) = (0.0, 0usize);
    for (data, found) in study.experiments().iter().zip(&innovations) {
        for sample in data.first_counted..data.times.len() {
            let errors = found.innovations[sample * m..(sample + 1) * m].iter().filter(|e| e.is_finite());
            let squares: Vec<f64> = errors.map(|e| e * e).collect();
            if !squares.is_empty() {
                n += 1;
                sum += squares.iter().sum::<f64>();
            }
        }
    }
    Ok(sum / n.max(1) as f64)
}

impl CostGrid {
    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let grid: Map<String, Value> = self.axes.iter().map(|axis| (axis.name.clone(), json!(axis.values))).collect();
        let number = |value: &f64| if value.is_finite() { json!(value) } else { Value::Null };
        let mut keys = Map::new();
        keys.insert("grid".into(), Value::Object(grid));
        keys.insert("values".into(), Value::Array(self.values.iter().map(number).collect()));
        keys.insert("kind".into(), json!(self.kind.word()));
        keys
    }

    /// Says where the best point is at the edge of the grid: a better one may lie beyond it.
    fn note_edge(&mut self) {
        let Some(best) = self.best() else { return };
        let point = &points(&self.axes)[best];
        for (axis, &value) in self.axes.iter().zip(point).filter(|(axis, _)| axis.values.len() > 1) {
            let (first, last) = (axis.values[0], axis.values[axis.values.len() - 1]);
            if value != first && value != last {
                continue;
            }
            let message = format!("the best point is at the edge of the grid: `{}` = {value}", axis.name);
            let beyond = value + (value - if value == first { last } else { first });
            let range = if value == first { format!("{beyond}:{last}") } else { format!("{first}:{beyond}") };
            let help =
                format!("a better one may lie beyond it: try --grid {}={range}:{}", axis.name, axis.values.len());
            let warning = Diagnostic::new(daesy_graph::finding::Level::Warning, "grid-edge", message).with_help(help);
            self.diagnostics.push(Diagnostic { names: vec![axis.name.clone()], ..warning });
        }
    }

    /// The best point: the largest log-likelihood, or the smallest cost.
    fn best(&self) -> Option<usize> {
        let is_likelihood = self.kind == CostKind::LogLikelihood;
        let key = |at: &usize| if is_likelihood { -self.values[*at] } else { self.values[*at] };
        (0..self.values.len()).filter(|&at| self.values[at].is_finite()).min_by(|a, b| key(a).total_cmp(&key(b)))
    }

    /// A summary for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut rows: Vec<Vec<String>> =
            vec![self.axes.iter().map(|axis| axis.name.clone()).chain([self.kind.word().to_owned()]).collect()];
        for (point, value) in points(&self.axes).iter().zip(&self.values) {
            let cells = point.iter().chain([value]).map(|value| short(*value, 8));
            rows.push(cells.collect());
        }
        let mut text = text_table(&rows);
        if let Some(words) = self.best_words() {
            text.push_str(&format!("{words}\n"));
        }
        text
    }

    /// One column per axis and one for the values; a running number comes first.
    #[must_use]
    pub fn table(&self) -> Table {
        let points = points(&self.axes);
        let mut table =
            Table { names: vec!["t".to_owned()], columns: vec![(0..points.len()).map(|at| at as f64).collect()] };
        for (at, axis) in self.axes.iter().enumerate() {
            table.names.push(axis.name.clone());
            table.columns.push(points.iter().map(|point| point[at]).collect());
        }
        table.names.push(self.kind.word().to_owned());
        table.columns.push(self.values.clone());
        table
    }

    /// The best point in words.
    fn best_words(&self) -> Option<String> {
        let best = self.best()?;
        let place: Vec<String> = (self.axes.iter().zip(&points(&self.axes)[best]))
            .map(|(axis, value)| format!("{} = {}", axis.name, short(*value, 6)))
            .collect();
        Some(format!("Best of {} points: {}.", self.values.len(), place.join(", ")))
    }

    /// The result as a part of a page.
    pub fn add_to(&self, page: &mut Page) {
        let word = self.kind.word();
        let is_likelihood = self.kind == CostKind::LogLikelihood;
        let better = if is_likelihood { "larger" } else { "smaller" };
        page.paragraph(&format!(
            "{} of {} over {} points; {better} is better.",
            if is_likelihood { "Log-likelihood" } else { "Mean of squared errors" },
            self.model,
            self.values.len()
        ));
        if let Some(words) = self.best_words() {
            page.remark("good", &words);
        }
        for diagnostic in &self.diagnostics {
            page.remark(diagnostic.level.word(), &diagnostic.message);
        }
        match &self.axes[..] {
            [axis] => {
                let chart = Chart {
                    title: word.to_owned(),
                    x_label: page.glossary().label(&axis.name),
                    y_label: word.to_owned(),
                    series: vec![
                        Series::line("", &axis.values, &self.values, 0),
                        Series::line("points", &axis.values, &self.values, 1).with_mark(Mark::Dots),
                    ],
                    ..Chart::default()
                };
                page.figure(&chart, &format!("{word} over {}.", page.glossary().words(&axis.name)));
            }
            [rows, columns] => {
                let map = self.map(rows, columns, page);
                page.map(
                    &map,
                    "The darker, the better, by rank; the best cell has a frame. Point at a cell for its value.",
                );
            }
            _ => {}
        }
        let head: Vec<&str> = self.axes.iter().map(|axis| axis.name.as_str()).chain([word]).collect();
        let rows: Vec<Vec<String>> = points(&self.axes)
            .iter()
            .zip(&self.values)
            .map(|(point, value)| {
                let place = point.iter().map(|value| short(*value, 6));
                place.chain([short(*value, 8)]).collect()
            })
            .collect();
        page.fold("All points", |page| page.table(&head, &rows));
    }

    /// Two axes as a picture: cells by their rank.
    fn map(&self, rows: &GridAxis, columns: &GridAxis, page: &Page) -> HeatMap {
        let n = columns.values.len();
        let sign = if self.kind == CostKind::LogLikelihood { 1.0 } else { -1.0 };
        let mut order: Vec<usize> = (0..self.values.len()).filter(|&at| self.values[at].is_finite()).collect();
        order.sort_by(|&a, &b| (sign * self.values[a]).total_cmp(&(sign * self.values[b])));
        let mut shades = vec![f64::NAN; self.values.len()];
        for (rank, &at) in order.iter().enumerate() {
            shades[at] = (rank + 1) as f64 / order.len() as f64;
        }
        let number = |value: &f64| {
            let text = short(*value, 4);
            if text.contains('.') && !text.contains('e') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        };
        let words = |at: usize| {
            let (row, column) = (&rows.values[at / n], &columns.values[at % n]);
            let value = short(self.values[at], 8);
            format!("{} = {}, {} = {}: {value}", rows.name, number(row), columns.name, number(column))
        };
        let told: Vec<String> = (0..self.values.len()).map(words).collect();
        HeatMap {
            title: self.kind.word().to_owned(),
            x_label: page.glossary().label(&columns.name),
            y_label: page.glossary().label(&rows.name),
            columns: columns.values.iter().map(number).collect(),
            rows: rows.values.iter().map(number).collect(),
            shades: shades.chunks(n).map(<[f64]>::to_vec).collect(),
            words: told.chunks(n).map(<[String]>::to_vec).collect(),
            best: self.best().map(|best| (best / n, best % n)),
            ..HeatMap::default()
        }
    }
}
