//! `daesy uq`: moments, quantiles and Sobol indices under random parameters [@pulch2008].
#![forbid(unsafe_code)]

mod answer;
mod expansion;
mod joint;
mod lanes;
mod memory;
mod points;
mod request;
mod surrogate_file;

use std::path::PathBuf;
use std::sync::Arc;

use daesy_chaos::{
    AdaptiveOptions, Basis, ChaosError, PointValues, Projection, Purpose, RuleFamily, Series, SobolIndices,
    SobolSequence, Surrogate, adaptive_projection, empirical_quantile, first_nonlinear, random_point, regression,
    sparse_projection, tensor_projection,
};
use daesy_graph::finding::{Finding, Level};
use daesy_integrate::ensemble::BLOCK_LANES;
use daesy_structure::words::equation_text;
use rayon::prelude::*;

pub use daesy_chaos::inheritance::Condition;
use daesy_report::checkpoint::{Checkpoint, Run};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use expansion::Galerkin;
use joint::with_germs;
use points::{Ensemble, Values, with_derivatives};
use request::{BasisKind, GridKind, Request, read_request};
pub use request::{Method, StartKind};
pub use surrogate_file::{JointMap, SurrogateFile, read_surrogate};

/// What the command line adds to the study.
#[derive(Clone, Debug, Default)]
pub struct UqSettings {
    /// Seed of everything random.
    pub seed: u64,
    /// Number of threads; all cores when left out.
    pub threads: Option<usize>,
    /// Where results so far are kept.
    pub checkpoint: Option<PathBuf>,
}

/// The index of the model and of its expansion.
#[derive(Clone, Debug, Default)]
pub struct IndexFacts {
    /// Of the model at the means; `None` where it was not found.
    pub original: Option<usize>,
    /// Of the expanded model; `None` for methods that have none.
    pub expanded: Option<usize>,
    /// Differential equations of the model at the means.
    pub original_d: Option<usize>,
    /// Differential equations of the expanded model: as many for each polynomial, or ranks were decided differently.
    pub expanded_d: Option<usize>,
    /// The sufficient conditions of the theorems.
    pub conditions: Vec<Condition>,
}

/// Quantiles over time by variable: 5 % and 95 %.
#[derive(Clone, Debug)]
pub struct Band {
    /// 5 %.
    pub low: Vec<f64>,
    /// 95 %.
    pub high: Vec<f64>,
}

/// Mean and standard deviation over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Moments {
    /// Mean.
    pub mean: Vec<f64>,
    /// Standard deviation.
    pub std: Vec<f64>,
}

/// How far the series is from the model at points that did not make it.
#[derive(Clone, Debug)]
pub struct ErrorEstimate {
    /// Number of held-out samples.
    pub n_samples: usize,
    /// By variable: root of the mean square of the error over samples and rows, relative to that of the standard
    /// deviation.
    pub relative: Vec<f64>,
    /// By variable: the error itself, in units of what the tolerances of the simulations allow.
    pub tolerances: Vec<f64>,
    /// By variable: the largest error of a single sample, the root of its mean square over rows, in the same unit as
    /// `relative`.
    pub largest: Vec<f64>,
}

/// What a confidence is where nobody asks for another.
const CONFIDENCE: f64 = 0.95;

impl ErrorEstimate {
    /// The share of all cases that may be off by more than the largest error seen, with a confidence of 95 %.
    ///
    /// If a share p of the distribution is worse, n independent samples miss it with the probability (1 - p)^n, which
    /// is 5 % for
    ///
    /// ```text
    /// p = 1 - 0.05^(1/n)         [@wilks1941]
    /// ```
    #[must_use]
    pub fn unseen(&self) -> f64 {
        1.0 - (1.0 - CONFIDENCE).powf(1.0 / self.n_samples as f64)
    }
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Uq {
    /// Full name of the model.
    pub model: String,
    /// How coefficients were found.
    pub method: Method,
    /// Why this method, where the choice was the program's.
    pub reason: Option<String>,
    /// Degree of the basis.
    pub degree: usize,
    /// The series of every variable; `None` where samples were too few to fit one.
    pub surrogate: Option<Surrogate>,
    /// Sobol indices by variable, parameter and row; of samples with respect to the samples.
    pub sobol: Option<Vec<Vec<Vec<SobolIndices>>>>,
    /// Names of the variables.
    pub variables: Vec<String>,
    /// Names of the random parameters.
    pub parameters: Vec<String>,
    /// Times of the rows.
    pub times: Vec<f64>,
    /// By variable.
    pub moments: Vec<Moments>,
    /// By variable.
    pub bands: Vec<Band>,
    /// Index.
    pub index: IndexFacts,
    /// Whether the start values (x_0, 0, .. 0) are consistent; `None` for methods without expansion.
    pub initial_consistent: Option<bool>,
    /// How the start was made.
    pub start: &'static str,
    /// Simulations of the model itself.
    pub n_simulations: usize,
    /// Unknowns of the expanded model.
    pub n_unknowns: Option<usize>,
    /// A posteriori error.
    pub error: Option<ErrorEstimate>,
    /// What is to be told.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answers what a study asks about its random parameters.
///
/// # Errors
/// Diagnostics, when the model or study is at fault or a method gives up.
pub fn uq(loaded: &Loaded, settings: &UqSettings) -> Result<Uq, Failure> {
    let loaded = &*with_germs(loaded);
    let request = read_request(loaded, settings.seed).map_err(Failure::Input)?;
    let n_threads = settings.threads.unwrap_or(0);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().map_err(|error| {
        Failure::Input(vec![Diagnostic::error("threads", format!("the threads cannot be started: {error}"))])
    })?;
    pool.install(|| answer(loaded, &request, settings))
}

fn answer(loaded: &Loaded, request: &Request, settings: &UqSettings) -> Result<Uq, Failure> {
    let loaded = &*with_derivatives(loaded, request)?;
    let study_sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    memory::check_terms(loaded, request, &study_sources)?;
    let basis = request.make_basis()?;
    let mut notes = Vec::new();
    let (method, reason) = choose(loaded, request, &basis)?;
    let ensemble = ensemble_for(loaded, request, &basis, method)?;
    notes.extend(ensemble.rewritten());
    if let Some(reason) = &reason {
        let message = format!("method: {}, because {reason}", method.word());
        notes.push(Diagnostic::resolve(&Finding::note("uq-method", request.span, message), &study_sources));
    }
    let mut checkpoint = match &settings.checkpoint {
        Some(path) if method != Method::Galerkin => {
            let run = run_of(loaded, request, method, &ensemble).map_err(Failure::Input)?;
            Checkpoint::open(path, run).map_err(|diagnostic| Failure::Input(vec![diagnostic]))?
        }
        _ => Checkpoint::none(),
    };
    let start_time = ensemble.options().start;
    let mut index = IndexFacts::default();
    let original = expansion::kind_at_start(ensemble.loaded(), ensemble.prepared(), start_time);
    index.original = original.map(|kind| kind.index);
    index.original_d = original.map(|kind| kind.d);
    let mut answer = Uq {
        model: loaded.flat.model.clone(),
        method,
        reason,
        degree: request.degree,
        surrogate: None,
        sobol: None,
        variables: ensemble.variables(),
        parameters: request.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
        times: Vec::new(),
        moments: Vec::new(),
        bands: Vec::new(),
        index,
        initial_consistent: None,
        start: "model",
        n_simulations: 0,
        n_unknowns: None,
        error: None,
        diagnostics: notes,
    };
    if answer.variables.is_empty() {
        return Err(Failure::Input(vec![Diagnostic::error("no-variables", "the model has no variables to report")]));
    }
    match method {
        Method::Galerkin | Method::Auto => {
            galerkin(&mut answer, loaded, request, &basis, &ensemble).map_err(|failure| at_method(loaded, failure))?
        }
        Method::Collocation => collocation(&mut answer, request, &basis, &ensemble, &mut checkpoint)?,
        Method::MonteCarlo | Method::QuasiMonteCarlo => {
            monte_carlo(&mut answer, request, &basis, &ensemble, &mut checkpoint)?;
        }
    }
    if let Some(surrogate) = &answer.surrogate {
        let compared = match method {
            Method::Galerkin => Galerkin { loaded, request, basis: &basis, ensemble: &ensemble }.compared()?,
            _ => None,
        };
        match validate(request, surrogate, compared.as_ref().unwrap_or(&ensemble), &mut checkpoint) {
            Ok(error) => answer.error = error,
            // The answer of an expanded model stands without it.
            Err(Failure::Method(why)) if method == Method::Galerkin => answer.diagnostics.extend(not_compared(&why)),
            Err(failure) => return Err(failure),
        }
        answer.n_simulations += answer.error.as_ref().map_or(0, |error| error.n_samples);
        if let Some(warning) = doubtful_series(&answer) {
            answer.diagnostics.push(Diagnostic::resolve(&warning, &study_sources));
        }
    }
    answer.leave_out_germs(loaded);
    checkpoint.save().map_err(|diagnostic| Failure::Input(vec![diagnostic]))?;
    Ok(answer)
}

impl Uq {
    /// Shares of the variance belong to independent parameters; those of germs would depend on the order in which
    /// correlated parameters are named.
    fn leave_out_germs(&mut self, loaded: &Loaded) {
        let Some(joint) = loaded.study.as_ref().and_then(|study| study.joint.as_ref()) else { return };
        let n_independent = self.parameters.len().saturating_sub(joint.names.len());
        if n_independent == 0 {
            self.sobol = None;
        }
        self.sobol.iter_mut().flatten().for_each(|by_parameter| by_parameter.truncate(n_independent));
        let names: Vec<&str> = joint.names.iter().map(|name| name.name.as_str()).collect();
        let message = format!("{} are correlated and have no Sobol indices of their own", names.join(", "));
        let note = Finding::note("sobol-joint", joint.span, message).with_names(names);
        let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
        self.diagnostics.push(Diagnostic::resolve(&note, &sources));
    }
}

/// Trajectories of a model at given values of its random parameters.
#[derive(Clone, Debug)]
pub struct PointRuns {
    /// Names of the reported variables.
    pub variables: Vec<String>,
    /// Times of the rows.
    pub times: Vec<f64>,
    /// By point: variable by variable, rows of each.
    pub values: Vec<PointValues>,
}

/// Simulates a study's model at given values of its random parameters, in the order of `[random]`: what other tools
/// that choose points of their own need.
///
/// # Errors
/// Diagnostics, when the model or study is at fault or the method gives up at a point.
pub fn run_at(loaded: &Loaded, points: &[Vec<f64>], settings: &UqSettings) -> Result<PointRuns, Failure> {
    let loaded = &*with_germs(loaded);
    let request = read_request(loaded, settings.seed).map_err(Failure::Input)?;
    let loaded = &*with_derivatives(loaded, &request)?;
    let basis = Basis::new(request.parameters.clone(), daesy_chaos::IndexSet::constant(request.parameters.len()))?;
    let ensemble = Ensemble::new(loaded, &request, &basis.means()?)?;
    let found = ensemble.run_all(points, &mut Checkpoint::none())?;
    Ok(PointRuns { variables: ensemble.variables(), times: found.times, values: found.points })
}

/// The simulations behind `daesy uq` for whoever runs shares of them: the model, compiled once.
pub struct Shares {
    ensemble: Ensemble,
}

impl Shares {
    /// Compiles the model for the method of the study.
    ///
    /// # Errors
    /// As [`run_at`].
    pub fn new(loaded: &Loaded, settings: &UqSettings) -> Result<Self, Failure> {
        let loaded = &*with_germs(loaded);
        let request = read_request(loaded, settings.seed).map_err(Failure::Input)?;
        let loaded = &*with_derivatives(loaded, &request)?;
        let basis = request.make_basis()?;
        let (method, _) = choose(loaded, &request, &basis)?;
        Ok(Self { ensemble: ensemble_for(loaded, &request, &basis, method)? })
    }

    /// One share: for each point how many times of rows follow (none where they are the output times of the study), the
    /// times, and the columns.
    ///
    /// # Errors
    /// The first failure in the order of the points.
    pub fn evaluate(&self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Failure> {
        let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
        let runs = self.ensemble.run_share(&points).into_iter();
        runs.map(|run| run.map(|trajectory| trajectory.to_numbers(self.ensemble.output_times()))).collect()
    }
}

/// What a checkpoint belongs to: everything that decides the values at a point.
fn run_of(loaded: &Loaded, request: &Request, method: Method, ensemble: &Ensemble) -> Result<Run, Vec<Diagnostic>> {
    // Samples of a distribution come from files of their own.
    let settings = (request.seed, &request.parameters, ensemble.variables());
    Run::new(loaded, &format!("uq {} {settings:?}", method.word()))
}

/// The method that suits the model, and why, where the study leaves the choice.
fn choose(loaded: &Loaded, request: &Request, basis: &Basis) -> Result<(Method, Option<String>), Failure> {
    if request.method != Method::Auto {
        return Ok((request.method, None));
    }
    let n_parameters = request.parameters.len();
    if basis.n_parameters() > 40 {
        let reason = format!("{n_parameters} random parameters are too many for a grid");
        return Ok((Method::QuasiMonteCarlo, Some(reason)));
    }
    if let Some(reason) = expansion::refused_inputs(loaded, &request.random) {
        return Ok((Method::Collocation, Some(reason)));
    }
    let collocation = |reason: String| Ok((Method::Collocation, Some(reason)));
    match first_nonlinear(&loaded.flat, &request.random) {
        Err(error) => collocation(error.to_string()),
        Ok(Some(row)) => collocation(format!(
            "the model is not linear in its variables (see {}), so that every step of the expanded model would need quadrature",
            equation_text(&loaded.flat, row)
        )),
        Ok(None) => {
            let widest = expansion::most_parameters_together(&loaded.flat, &request.random);
            if widest > 4 {
                return collocation(format!("an equation depends on {widest} random parameters at once"));
            }
            Ok((Method::Galerkin, Some("the model is linear in its variables".to_owned())))
        }
    }
}

/// The grid that suits a basis.
pub(crate) fn grid(request: &Request, basis: &Basis) -> Result<Projection, ChaosError> {
    let n = basis.n_parameters();
    let is_tensor = match request.grid {
        GridKind::Tensor => true,
        GridKind::Sparse => false,
        GridKind::Auto => n <= 2 || request.points.is_some() || n == 3 && request.basis == BasisKind::Total,
    };
    if !is_tensor {
        return sparse_projection(basis, request.rules);
    }
    let each: Vec<usize> = basis
        .indices
        .max_degrees()
        .iter()
        .zip(&basis.parameters)
        .map(|(&degree, parameter)| {
            let most = parameter.distribution.max_degree().map_or(usize::MAX, |most| most + 1);
            request.points.unwrap_or(degree + 1).max(degree + 1).min(most)
        })
        .collect();
    tensor_projection(basis, &each, request.rules)
}

/// A refusal of the method that a study names, at the place where it does.
fn at_method(loaded: &Loaded, failure: Failure) -> Failure {
    let Some(study) = &loaded.study else { return failure };
    match study.uq.method_span.or(study.uq.span) {
        Some(span) => failure.map(|diagnostic| diagnostic.or_at(span, &study.sources)),
        None => failure,
    }
}

fn galerkin(
    answer: &mut Uq,
    loaded: &Loaded,
    request: &Request,
    basis: &Basis,
    ensemble: &Ensemble,
) -> Result<(), Failure> {
    let mut basis = basis.clone();
    loop {
        let solved = Galerkin { loaded, request, basis: &basis, ensemble }.solve()?;
        let grown = match request.basis {
            BasisKind::Adaptive => grow(request, &basis, &solved.surrogate, &mut answer.diagnostics)?,
            BasisKind::Total | BasisKind::Hyperbolic => None,
        };
        answer.n_simulations = 0;
        if let Some(larger) = grown {
            basis = larger;
            continue;
        }
        answer.index.expanded = solved.kind.map(|kind| kind.index);
        answer.index.expanded_d = solved.kind.map(|kind| kind.d);
        answer.index.conditions = solved.conditions;
        answer.initial_consistent = solved.simple_start_is_consistent;
        answer.start = solved.start;
        answer.n_unknowns = Some(solved.n_unknowns);
        answer.diagnostics.extend(solved.diagnostics);
        answer.set_surrogate(solved.surrogate);
        return Ok(());
    }
}

/// Most polynomials of an adaptive basis of an expanded model.
const MAX_ADAPTIVE_TERMS: usize = 2000;

/// The basis with the neighbours of polynomials whose coefficients are still large; `None` when there are none.
fn grow(
    request: &Request,
    basis: &Basis,
    surrogate: &Surrogate,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<Basis>, Failure> {
    let mut shares = vec![0.0f64; basis.len()];
    for series in &surrogate.series {
        if series.std().into_iter().fold(0.0, f64::max) <= 1e-9 * series.size() {
            continue;
        }
        for (most, share) in shares.iter_mut().zip(surrogate.decay(series)) {
            *most = most.max(share);
        }
    }
    let indices = basis.indices.indices();
    // Odd or even coefficients may vanish altogether: two steps are tried at once, with everything below.
    let mut more: Vec<Vec<u16>> = Vec::new();
    for (index, _) in indices.iter().zip(&shares).skip(1).filter(|(_, share)| **share > request.tolerance) {
        for at in 0..index.len() {
            let mut next = index.clone();
            next[at] += 2;
            let most = basis.parameters[at].distribution.max_degree().unwrap_or(usize::MAX).min(request.max_degree);
            next[at] = next[at].min(most as u16);
            if next[at] > index[at] {
                more.extend(basis.indices.missing_below(&next));
            }
        }
    }
    more.sort();
    more.dedup();
    if more.is_empty() {
        return Ok(None);
    }
    if indices.len() + more.len() > MAX_ADAPTIVE_TERMS {
        let message = format!("the basis was not enlarged beyond {} polynomials", indices.len());
        diagnostics.push(
            Diagnostic::new(Level::Warning, "basis-limit", message)
                .with_help("raise `tolerance`, or take `method = \"collocation\"`, whose `samples` limit the points"),
        );
        return Ok(None);
    }
    let all = indices.iter().cloned().chain(more).collect();
    Ok(Some(basis.with_indices(daesy_chaos::IndexSet::from_indices(all))?))
}

fn collocation(
    answer: &mut Uq,
    request: &Request,
    basis: &Basis,
    ensemble: &Ensemble,
    checkpoint: &mut Checkpoint,
) -> Result<(), Failure> {
    let projection;
    let values: Values;
    if request.basis == BasisKind::Adaptive {
        let options = AdaptiveOptions {
            tolerance: request.tolerance,
            max_points: request.samples,
            max_degree: request.max_degree,
            family: RuleFamily::Nested,
        };
        let mut times = Vec::new();
        let mut n_simulations = 0;
        let (grown, points) = adaptive_projection::<Failure>(basis, &options, ensemble.n_rows(), |germs| {
            let points: Vec<Vec<f64>> = germs.iter().map(|germ| basis.parameter_values(germ)).collect();
            let found = ensemble.run_all(&points, checkpoint)?;
            if !germs.is_empty() {
                times = found.times;
            }
            n_simulations += germs.len();
            Ok(found.points)
        })?;
        answer.n_simulations = n_simulations;
        projection = grown;
        values = Values { points, times };
    } else {
        projection = grid(request, basis)?;
        // Its weights are there already.
        memory::check_points(projection.points.len(), 0.0, ensemble, request)?;
        let points: Vec<Vec<f64>> = projection.points.iter().map(|germ| basis.parameter_values(germ)).collect();
        values = ensemble.run_all(&points, checkpoint)?;
        answer.n_simulations = points.len();
    }
    answer.diagnostics.extend(missed_tails(&projection)?);
    answer.set_surrogate(project(&projection, &values, &answer.variables));
    Ok(())
}

/// A warning where a rule does not even integrate a parameter: the points w_k, p_k of its weights give
/// sum_k w_k p_k instead of the mean, because what makes the mean lies beyond them.
fn missed_tails(projection: &Projection) -> Result<Option<Diagnostic>, Failure> {
    /// Relative errors of a mean above this are told.
    const MISSED: f64 = 0.02;
    let basis = &projection.basis;
    let points: Vec<Vec<f64>> = projection.points.iter().map(|germ| basis.parameter_values(germ)).collect();
    let weights = &projection.weights[0];
    for (at, (mean, parameter)) in basis.means()?.into_iter().zip(&basis.parameters).enumerate() {
        let found: f64 = weights.iter().zip(&points).map(|(weight, point)| weight * point[at]).sum();
        let variance: f64 =
            weights.iter().zip(&points).map(|(weight, point)| weight * (point[at] - found).powi(2)).sum();
        if (found - mean).abs() <= MISSED * (mean.abs() + variance.abs().sqrt()) {
            continue;
        }
        let name = &parameter.name;
        let message = format!(
            "the points of the rule do not reach the tails of `{name}`: they give it the mean {found:.4e}, and it is {mean:.4e}; \
             what follows from it is no better"
        );
        let help = "take a higher `degree`, `method = \"monte-carlo\"`, or a distribution with bounds";
        let warning = Diagnostic::new(Level::Warning, "heavy-tails", message).with_help(help);
        return Ok(Some(Diagnostic { names: vec![name.clone()], ..warning }));
    }
    Ok(None)
}

/// The series that weights make of values at points.
pub(crate) fn project(projection: &Projection, values: &Values, variables: &[String]) -> Surrogate {
    let n_rows = values.times.len();
    let series = variables
        .par_iter()
        .enumerate()
        .map(|(variable, name)| {
            let coefficients = projection
                .weights
                .iter()
                .map(|weights| {
                    let mut rows = vec![0.0; n_rows];
                    for (weight, values) in weights.iter().zip(&values.points).filter(|(weight, _)| **weight != 0.0) {
                        let column = &values[variable * n_rows..(variable + 1) * n_rows];
                        for (row, value) in rows.iter_mut().zip(column) {
                            *row += weight * value;
                        }
                    }
                    rows
                })
                .collect();
            let mut series = Series { name: name.clone(), coefficients };
            remove_rounding(&mut series);
            series
        })
        .collect();
    Surrogate { basis: projection.basis.clone(), times: values.times.clone(), series }
}

/// Coefficients that are rounding beside the variable itself become zero, so that what does not vary has no variance.
pub(crate) fn remove_rounding(series: &mut Series) {
    let n_terms = series.coefficients.len() as f64;
    let (mean, others) = series.coefficients.split_at_mut(1);
    let size = mean[0].iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let floor = 4.0 * f64::EPSILON * size * n_terms.sqrt();
    for values in others {
        if values.iter().all(|value| value.abs() <= floor) {
            values.fill(0.0);
        }
    }
}

/// The first samples of a Monte Carlo method.
fn germs(request: &Request, basis: &Basis, method: Method, n: usize) -> Result<Vec<Vec<f64>>, Failure> {
    let n_parameters = request.parameters.len();
    let sequence = match method {
        Method::QuasiMonteCarlo => {
            let message = format!(
                "{n_parameters} random parameters are too many for quasi-Monte-Carlo, {} is the most",
                SobolSequence::MAX_COORDINATES
            );
            Some(SobolSequence::new(n_parameters, request.seed).ok_or_else(|| {
                Failure::Input(vec![
                    Diagnostic::error("too-many-parameters", message)
                        .with_help("`method = \"monte-carlo\"` has no limit"),
                ])
            })?)
        }
        _ => None,
    };
    let germ = |sample: usize| {
        let unit = match &sequence {
            Some(sequence) => sequence.point(sample as u32),
            None => random_point(request.seed, Purpose::Samples, sample as u64, n_parameters),
        };
        basis.germ_of_unit(&unit)
    };
    Ok((0..n).map(germ).collect())
}

/// An adaptive grid is found on the way: its simulations are more accurate by this factor.
const ADAPTIVE_SHARPENING: f64 = 100.0;

/// By how much errors of single simulations may grow on their way into the coefficients of a series: the largest sum of
/// absolute weights. It is one for tensor grids of Gauss points; weights of sparse grids have both signs.
fn amplification(request: &Request, basis: &Basis) -> Result<f64, Failure> {
    if request.basis == BasisKind::Adaptive {
        return Ok(ADAPTIVE_SHARPENING);
    }
    let sums = grid(request, basis)?.weights.into_iter().map(|weights| weights.iter().map(|w| w.abs()).sum::<f64>());
    Ok(sums.fold(1.0, f64::max))
}

/// The ensemble of a method: samples side by side for Monte Carlo methods, simulations accurate enough for the grid of
/// a collocation.
fn ensemble_for(loaded: &Loaded, request: &Request, basis: &Basis, method: Method) -> Result<Ensemble, Failure> {
    let ensemble = Ensemble::new(loaded, request, &basis.means()?)?;
    match method {
        Method::Collocation => return Ok(ensemble.sharpened(amplification(request, basis)?)),
        Method::MonteCarlo | Method::QuasiMonteCarlo => {}
        Method::Galerkin | Method::Auto => return Ok(ensemble),
    }
    let pilots = germs(request, basis, method, request.samples.min(BLOCK_LANES))?;
    let pilots: Vec<Vec<f64>> = pilots.iter().map(|germ| basis.parameter_values(germ)).collect();
    ensemble.with_lanes(&pilots)
}

fn monte_carlo(
    answer: &mut Uq,
    request: &Request,
    basis: &Basis,
    ensemble: &Ensemble,
    checkpoint: &mut Checkpoint,
) -> Result<(), Failure> {
    let n = request.samples;
    let is_fitted = request.joint_rows.is_empty() && n >= 2 * basis.len();
    memory::check_points(n, if is_fitted { memory::FITTED } else { 0.0 }, ensemble, request)?;
    let germs = germs(request, basis, answer.method, n)?;
    let mut points: Vec<Vec<f64>> = germs.iter().map(|germ| basis.parameter_values(germ)).collect();
    request.set_joint(&mut points);
    let values = ensemble.run_all(&points, checkpoint)?;
    answer.n_simulations = n;
    answer.times.clone_from(&values.times);
    let n_rows = values.times.len();
    let statistics: Vec<(Moments, Band)> = (0..answer.variables.len())
        .into_par_iter()
        .map(|variable| {
            let mut made = (Moments { mean: Vec::new(), std: Vec::new() }, Band { low: Vec::new(), high: Vec::new() });
            let mut column = vec![0.0; n];
            for row in 0..n_rows {
                for (value, point) in column.iter_mut().zip(&values.points) {
                    *value = point[variable * n_rows + row];
                }
                let mean = column.iter().sum::<f64>() / n as f64;
                let squares: f64 = column.iter().map(|value| (value - mean).powi(2)).sum();
                made.0.mean.push(mean);
                made.0.std.push((squares / (n.max(2) - 1) as f64).sqrt());
                made.1.low.push(empirical_quantile(&mut column, 0.05));
                made.1.high.push(empirical_quantile(&mut column, 0.95));
            }
            made
        })
        .collect();
    (answer.moments, answer.bands) = statistics.into_iter().unzip();
    answer.diagnostics.extend(heavy_tails(answer, &values.points, n_rows));
    // A series fitted to the samples gives Sobol indices; it needs independent parameters and clearly more samples than
    // coefficients.
    if !request.joint_rows.is_empty() {
        return Ok(());
    }
    if is_fitted {
        let on_samples = basis.on_samples(&germs).and_then(|basis| regression(&basis, germs.clone()));
        let projection = regression(basis, germs)?;
        // Samples that repeat too few values for polynomials of their own leave those of the distributions.
        let fitted = on_samples.as_ref().unwrap_or(&projection);
        answer.sobol = Some(sobol_indices(&project(fitted, &values, &answer.variables)));
        answer.surrogate = Some(project(&projection, &values, &answer.variables));
    } else {
        let message = format!(
            "{n} samples are too few to fit {} coefficients for Sobol indices; {} are needed",
            basis.len(),
            2 * basis.len()
        );
        answer.diagnostics.push(Diagnostic::note("few-samples", message));
    }
    Ok(())
}

/// Relative standard errors of a variance above this are told.
const UNSURE: f64 = 0.15;

/// A warning where few samples make the variance: with the fourth moment m_4, the variance s^2 of n samples has the
/// standard error sqrt((m_4 / s^4 - 1) / n) s^2, and shares of it are no better.
fn heavy_tails(answer: &Uq, points: &[Arc<Vec<f64>>], n_rows: usize) -> Option<Diagnostic> {
    let (n, last) = (points.len() as f64, n_rows.checked_sub(1)?);
    let unsure = |variable: usize| {
        let (mean, std) = (answer.moments[variable].mean[last], answer.moments[variable].std[last]);
        let away = |point: &Arc<Vec<f64>>| ((point[variable * n_rows + last] - mean) / std).powi(4);
        let fourth = points.iter().map(away).sum::<f64>() / n;
        ((fourth - 1.0) / n).sqrt()
    };
    let of_normal = (2.0 / n).sqrt();
    let (worst, share) = (0..answer.variables.len())
        .filter(|&at| !answer.variables[at].starts_with("der("))
        .map(|at| (at, unsure(at)))
        // Few samples are few whatever the tails.
        .filter(|(_, share)| *share > UNSURE && *share > 2.0 * of_normal)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let name = &answer.variables[worst];
    let message = format!(
        "`{name}` has heavy tails: its variance rests on few samples and is known to about {:.0} %, and no better are its \
         standard deviation and its Sobol indices",
        100.0 * share
    );
    let help = "take more `samples`, a bounded distribution, or `method = \"collocation\"`, whose rules know the tails";
    let warning = Diagnostic::new(Level::Warning, "heavy-tails", message).with_help(help);
    Some(Diagnostic { names: vec![name.clone()], ..warning })
}

/// Sobol indices by variable, parameter and row.
fn sobol_indices(surrogate: &Surrogate) -> Vec<Vec<Vec<SobolIndices>>> {
    surrogate.series.iter().map(|series| surrogate.sobol(series)).collect()
}

impl Uq {
    /// Moments and quantiles of a series.
    fn set_surrogate(&mut self, surrogate: Surrogate) {
        self.times.clone_from(&surrogate.times);
        self.degree = surrogate
            .basis
            .indices
            .indices()
            .iter()
            .map(|i| i.iter().map(|&k| usize::from(k)).sum())
            .max()
            .unwrap_or(0);
        let points = surrogate.quantile_points();
        let statistics: Vec<(Moments, Band)> = surrogate
            .series
            .par_iter()
            .map(|series| {
                let mut values = surrogate.quantiles(series, &points, &[0.05, 0.95]).values;
                let high = values.pop().unwrap_or_default();
                let low = values.pop().unwrap_or_default();
                (Moments { mean: series.mean().to_vec(), std: series.std() }, Band { low, high })
            })
            .collect();
        (self.moments, self.bands) = statistics.into_iter().unzip();
        self.sobol = Some(sobol_indices(&surrogate));
        self.surrogate = Some(surrogate);
    }
}

/// Compares the series with the model at random points that did not make it.
fn validate(
    request: &Request,
    surrogate: &Surrogate,
    ensemble: &Ensemble,
    checkpoint: &mut Checkpoint,
) -> Result<Option<ErrorEstimate>, Failure> {
    let n = request.validation.unwrap_or_else(|| ensemble.cheap_samples());
    if n == 0 {
        return Ok(None);
    }
    let basis = &surrogate.basis;
    let germs: Vec<Vec<f64>> = (0..n)
        .map(|sample| {
            let unit = random_point(request.seed, Purpose::Validation, sample as u64, basis.n_parameters());
            basis.germ_of_unit(&unit)
        })
        .collect();
    let points: Vec<Vec<f64>> = germs.iter().map(|germ| basis.parameter_values(germ)).collect();
    let values = ensemble.run_all(&points, checkpoint)?;
    let n_rows = values.times.len();
    if n_rows != surrogate.times.len() {
        return Ok(None);
    }
    let options = ensemble.options();
    let by_variable: Vec<[f64; 3]> = surrogate
        .series
        .iter()
        .enumerate()
        .map(|(variable, series)| {
            let (mut squares, mut worst) = (0.0, 0.0f64);
            for (germ, values) in germs.iter().zip(&values.points) {
                let predicted = surrogate.evaluate(series, germ);
                let column = &values[variable * n_rows..(variable + 1) * n_rows];
                let own = column.iter().zip(predicted).map(|(value, guess)| (value - guess).powi(2)).sum::<f64>();
                squares += own;
                worst = worst.max(own);
            }
            let mean_square = squares / (n * n_rows) as f64;
            let variance = series.variance().iter().sum::<f64>() / n_rows as f64;
            let size = series.size();
            // A series that misses what makes the variance knows too little of it. Where nothing varies, relative to the
            // variable itself.
            let deviation = variance.max(variance_among(&values.points, variable, n_rows)).sqrt();
            let scale = if deviation > 1e-9 * size { deviation } else { size };
            let error = mean_square.sqrt();
            let allowed = options.rtol * size.max(variance.sqrt()) + options.atol;
            let unit = if scale > 0.0 { scale } else { 1.0 };
            [error / unit, error / allowed, (worst / n_rows as f64).sqrt() / unit]
        })
        .collect();
    let of = |at: usize| by_variable.iter().map(|values| values[at]).collect();
    Ok(Some(ErrorEstimate { n_samples: n, relative: of(0), tolerances: of(1), largest: of(2) }))
}

/// The variance of a variable among samples, on average over its rows.
fn variance_among(points: &[PointValues], variable: usize, n_rows: usize) -> f64 {
    let n = points.len().max(1) as f64;
    let of_row = |row: usize| {
        let values = points.iter().map(|point| point[variable * n_rows + row]);
        let mean = values.clone().sum::<f64>() / n;
        values.map(|value| (value - mean).powi(2)).sum::<f64>() / n
    };
    (0..n_rows).map(of_row).sum::<f64>() / n_rows.max(1) as f64
}

/// A warning where the model has no solution at a held-out sample.
fn not_compared(why: &[Diagnostic]) -> Option<Diagnostic> {
    let first = why.first()?;
    let message = format!("the series could not be compared with the model at held-out samples: {}", first.message);
    let help = "narrow the supports of the random parameters to where the model has solutions; `validation = 0` \
                compares nothing";
    Some(Diagnostic::new(Level::Warning, "uq-error", message).with_help(help))
}

/// Errors below so many tolerances may be those of the simulations.
const SIMULATION_ERROR: f64 = 20.0;

/// A warning where held-out samples say that the series is poor.
fn doubtful_series(answer: &Uq) -> Option<Finding> {
    let error = answer.error.as_ref()?;
    let (worst, share) = error
        .relative
        .iter()
        .enumerate()
        .filter(|(at, _)| {
            // What the simulations themselves may be off by says nothing about the series. Derivatives are rougher than
            // what they are derivatives of; they show in the table of errors.
            error.tolerances[*at] > SIMULATION_ERROR && !answer.variables[*at].starts_with("der(")
        })
        .max_by(|a, b| a.1.total_cmp(b.1))?;
    if *share <= 0.1 {
        return None;
    }
    let name = &answer.variables[worst];
    let message = format!(
        "the series is off by {:.0} % of the standard deviation of `{name}` at {} held-out samples",
        100.0 * share,
        error.n_samples
    );
    let mut finding = Finding::new(Level::Warning, "uq-error", daesy_graph::Span::NONE, message).with_names([name]);
    finding.help = Some(
        "raise `degree`, take `basis = \"adaptive\"`, or `method = \"quasi-monte-carlo\"` where solutions are not smooth".to_owned(),
    );
    Some(finding)
}
