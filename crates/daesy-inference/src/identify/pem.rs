//! Prediction errors of simulated ensembles, and output errors, for models of any kind.
//!
//! The output-error fit, which leaves disturbances out and costs next to nothing, is found first from all starting
//! points; the prediction-error search goes on from there or from the start of the study, whichever predicts better.

use std::time::Instant;

use daesy_estimate::memory::{Forgetful, Memory, remembered_point};
use daesy_estimate::multi_start::{self, MultiStart, StartOutcome};
use daesy_estimate::pem::{
    GrowingSearch, GrownSearch, OutputSearch, Parameterization, PointRefusal, Prediction, PredictionObjective,
    PredictionProblem, PredictionSettings, PredictionUncertainty, StandardErrorKind,
};
use daesy_estimate::prior::{LimitedInformation, Prior, WithPriors, precisions};
use daesy_estimate::residual::{PredictedSize, ResidualSize, residual_tests};
use daesy_estimate::scores::ScoreSeries;
use daesy_estimate::search::{Bound, SearchEnd, SearchOptions, SearchProgress, SearchSpace, minimize};
use daesy_estimate::uncertainty::{Certainty, Spread, Uncertainty};
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_pencil::Mat;

use super::certainty::{Choice, Errors};
use super::fitted::{Found, resolve, sizes, told};
use super::notebook::Notebook;
use super::stopping::{SoFar, stopped_search};
use super::{
    Fit, Identifiability, Identification, IdentifyOptions, Method, ParameterEstimate, ProgressLine, ResidualSummary,
};
use super::{caveats, far};
use daesy_report::checkpoint::Checkpoint;
use daesy_report::words::short;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use daesy_study::prediction_study::PredictionStudy;
use daesy_study::problem::Problem;
use daesy_study::study::Study;

/// Realizations for a first look at the start.
const FIRST_LOOK: usize = 32;

/// Output-error searches that are carried to their end.
const MAX_WARM_STARTS: usize = 8;

/// Seed of artificial data, beside that of the predictions.
const BOOTSTRAP_SEED: u64 = 0x6b8b_4567_327b_23c6;

/// What was rewritten because structure misleads, and what is other about the start.
pub(crate) fn rewritten(loaded: &Loaded, study: &PredictionStudy) -> Vec<Diagnostic> {
    study
        .rewritten
        .iter()
        .chain(&study.start_note)
        .map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources))
        .collect()
}

/// Cost, step and what may be left, in a line.
fn progress_words(n_realizations: usize, state: &SearchProgress<'_>, begun: Instant) -> String {
    format!(
        "{n_realizations} realizations, step {}: cost {:.6e}, last step {:.2e}, {:.0} s",
        state.iteration,
        state.value,
        state.step,
        begun.elapsed().as_secs_f64()
    )
}

/// The study as a method sees it: an output-error fit leaves disturbances out.
pub(crate) fn study_for(
    loaded: &Loaded,
    problem: &Problem,
    method: Method,
    seed: u64,
) -> Result<PredictionStudy, Failure> {
    match method {
        Method::OutputError => PredictionStudy::undisturbed(loaded, problem, seed),
        Method::PredictionError => PredictionStudy::ensembles(loaded, problem, seed),
        Method::MaximumLikelihood => PredictionStudy::new(loaded, problem, seed),
    }
}

/// Searches that an executor asks for, as numbers.
///
/// # Errors
/// As [`identify`].
pub fn evaluate_at(
    loaded: &Loaded,
    asked: &Problem,
    method: Method,
    options: &IdentifyOptions,
    points: &[Vec<f64>],
) -> Result<Vec<Vec<f64>>, Failure> {
    let study = study_for(loaded, asked, method, options.seed)?;
    let start = study.start();
    let fail = |refusal: PointRefusal| study.failure(loaded, &refusal);
    let undisturbed = PredictionSettings { is_undisturbed: true, ..study.settings.clone() };
    let plain = study.problem(undisturbed, &start).map_err(fail)?;
    let mut found = Vec::with_capacity(points.len());
    let mut artificial: Option<(PredictionProblem<'_>, ArtificialData)> = None;
    for point in points {
        match point[..] {
            [far::BOOTSTRAP, set, ref theta @ ..] => {
                if artificial.as_ref().is_none_or(|(_, data)| data.theta != theta) {
                    let is_undisturbed = !is_disturbed(method, &study);
                    let settings = PredictionSettings { is_undisturbed, ..study.settings.clone() };
                    let problem = study.problem(settings, &start).map_err(fail)?;
                    let n_sets = loaded.study.as_ref().and_then(|study| study.identify.bootstrap).unwrap_or(0);
                    let data = ArtificialData::new(loaded, &study, &problem, theta, n_sets as usize).map_err(fail)?;
                    artificial = Some((problem, data));
                }
                let Some((problem, data)) = &mut artificial else { continue };
                found.push(data.estimate(loaded, &study, problem, set as usize).map_err(fail)?);
            }
            [far::SEARCH, ref from @ ..] => {
                let is_final = is_final(method, &study, loaded);
                let result = warm_search(&plain, &study, from, is_final, loaded, &mut Forgetful, &mut |_, _| {});
                found.push(result.map_or_else(|_| Vec::new(), |found| multi_start::to_numbers(&found.result)));
            }
            _ => found.push(Vec::new()),
        }
    }
    Ok(found)
}

/// Whether there is an ensemble to predict with.
fn is_disturbed(method: Method, study: &PredictionStudy) -> bool {
    method == Method::PredictionError && !study.disturbances.is_empty()
}

/// Whether nothing but errors of measurement would explain what a fit of output errors leaves.
fn is_final(method: Method, study: &PredictionStudy, loaded: &Loaded) -> bool {
    !is_disturbed(method, study) && loaded.study.iter().all(|study| study.disturbances.is_empty())
}

pub(super) fn stopped() -> PointRefusal {
    PointRefusal::Ensemble(daesy_integrate::ensemble::EnsembleError::Stopped)
}

/// Identifies by prediction errors, or by output errors.
///
/// # Errors
/// Diagnostics, when the study is at fault or the search gives up.
pub fn identify(
    loaded: &Loaded,
    asked: &Problem,
    method: Method,
    options: &IdentifyOptions,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, Failure> {
    let mut notebook = Notebook::new(checkpoint);
    let mut study = study_for(loaded, asked, method, options.seed)?;
    study.settings.options.n_threads = options.threads.unwrap_or(0);
    let start = study.start();
    let mut diagnostics = rewritten(loaded, &study);
    let undisturbed = PredictionSettings { is_undisturbed: true, ..study.settings.clone() };
    let plain = study.problem(undisturbed, &start).map_err(|refusal| study.failure(loaded, &refusal))?;
    let n_starts = options.n_starts;
    let begun = Instant::now();
    let mut searches: MultiStart<GrownSearch, PointRefusal> = MultiStart::default();
    let starts = study.space.starts(&start, n_starts.max(1), options.seed);
    let mut far: Vec<Vec<f64>> = Vec::new();
    if let Some(elsewhere) = loaded.elsewhere.as_ref().filter(|_| starts.len() > 1) {
        let found = elsewhere.evaluate(&far::search_points(&starts));
        far = found.ok_or_else(|| study.failure(loaded, &stopped()))?;
    }
    for (at, from) in starts.iter().enumerate() {
        if at >= MAX_WARM_STARTS * n_starts.max(1) || loaded.watch.is_stopped() {
            break;
        }
        let known = far.get(at).and_then(|numbers| multi_start::from_numbers(numbers, &study.space, |_| None));
        // A search whose start was refused elsewhere ends here at once, with the reason.
        let found = match known {
            Some(result) => Ok(GrownSearch { iterations: result.iterations, result }),
            None => {
                let mut tell = |_: usize, state: &SearchProgress<'_>| {
                    progress(&format!("output error, start {}: {}", at + 1, progress_words(1, state, begun)));
                };
                let is_final = is_final(method, &study, loaded);
                warm_search(&plain, &study, from, is_final, loaded, &mut notebook, &mut tell)
            }
        };
        notebook.check()?;
        searches.add(from, found);
    }
    let MultiStart { best, outcomes, refused: refused_start, .. } = searches;
    let halt = |best: Option<&GrownSearch>| {
        let of = |best: &GrownSearch| SoFar { theta: best.result.theta.clone(), value: best.result.expansion.value };
        stopped_search(&study.unknowns, best.map(of), options)
    };
    if loaded.watch.is_stopped() {
        return Err(halt(best.as_ref()));
    }
    let Some(mut best) = best else {
        let none = || PointRefusal::NotFinite { what: "the start".to_owned() };
        return Err(study.failure(loaded, &refused_start.map_or_else(none, |start| start.refusal)));
    };
    let is_disturbed = is_disturbed(method, &study);
    if method == Method::PredictionError && !is_disturbed {
        let note =
            Finding::note("no-disturbances", Span::NONE, "without disturbances, prediction errors are output errors");
        diagnostics.push(resolve(loaded, &note));
    }
    let problem;
    if is_disturbed {
        problem = study.problem(study.settings.clone(), &start).map_err(|refusal| study.failure(loaded, &refusal))?;
        let warm = best.result.theta.clone();
        let from = match better_of(&problem, &start, &warm, loaded) {
            Ok(from) => from,
            Err(_) if loaded.watch.is_stopped() => return Err(halt(Some(&best))),
            Err(refusal) => return Err(study.failure(loaded, &refusal)),
        };
        let search = GrowingSearch { problem: &problem, space: &study.space, watch: loaded.watch.clone() };
        let found = search.run(&from, &mut notebook, &mut |n, state| progress(&progress_words(n, state, begun)));
        notebook.check()?;
        if loaded.watch.is_stopped() {
            return Err(halt(found.as_ref().ok().or(Some(&best))));
        }
        best = found.map_err(|refusal| study.failure(loaded, &refusal))?;
        note_interpolation(loaded, &study, &problem, &best.result.theta, &mut diagnostics);
    } else {
        problem = plain;
        tell_refusals(loaded, &study, &problem, &start, &best, method, &mut diagnostics)?;
    }
    refuse_idle_unknowns(loaded, &study, &problem, &best, method, &mut diagnostics)?;
    if best.result.end == SearchEnd::TooManyIterations {
        let message = format!("the search did not converge within {} steps", best.iterations);
        let warning = Finding::warning("not-converged", Span::NONE, message)
            .with_help("start closer, or leave out unknowns that the data do not determine");
        diagnostics.push(resolve(loaded, &warning));
    }
    if best.result.n_left > 0 {
        let message = "the cost has several minima within a standard error of each other, as where a sample passes an event \
                       between them: the lowest that was seen counts";
        diagnostics.push(resolve(loaded, &Finding::note("close-minima", Span::NONE, message)));
    }
    finish(loaded, &study, problem, best, method, outcomes, diagnostics, &mut notebook, progress)
}

/// The fit of output errors from a start. `is_final` is false where disturbances, which this fit leaves out, would
/// explain the errors that it leaves.
fn warm_search(
    plain: &PredictionProblem<'_>,
    study: &PredictionStudy,
    from: &[f64],
    is_final: bool,
    loaded: &Loaded,
    memory: &mut dyn Memory,
    observe: &mut dyn FnMut(usize, &SearchProgress<'_>),
) -> Result<GrownSearch, PointRefusal> {
    let search = OutputSearch {
        whole: GrowingSearch { problem: plain, space: &study.space, watch: loaded.watch.clone() },
        beginning: &|share, theta| study.beginning(share, theta).ok(),
        is_explained: &|theta| !is_final || is_explained(plain, study, theta, loaded),
        seed: study.settings.seed,
    };
    search.run(from, memory, observe)
}

/// Points without a trajectory say nothing of how well they fit. Where the start is such a point and the fit leaves errors
/// that nothing explains, the search has only fled from them, and the cause of the refusal is the answer; where errors
/// are explained, or points were refused on the way only, it is told.
fn tell_refusals(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    start: &[f64],
    best: &GrownSearch,
    method: Method,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(), Failure> {
    let at_start = problem.predict(&[start.to_vec()], 1, &loaded.watch).err();
    let on_the_way = best.result.refused.last();
    if at_start.is_none() && on_the_way.is_none() {
        return Ok(());
    }
    let is_explained = !is_final(method, study, loaded) || is_explained(problem, study, &best.result.theta, loaded);
    let (words, refusal) = match (&at_start, on_the_way) {
        (Some(refusal), _) if !is_explained => return Err(study.failure(loaded, refusal)),
        (Some(refusal), _) => ("there is no cost at the start, and the search went on from elsewhere", refusal),
        (None, Some(point)) if !is_explained => {
            ("the search met values without a cost, and may have ended at their border", &point.refusal)
        }
        _ => return Ok(()),
    };
    let message = format!("{words}: {}", study.refusal(refusal).message);
    let warning = Finding::warning("refused", Span::NONE, message)
        .with_help("`daesy cost` shows where; bounds that keep away from there help, or another start");
    diagnostics.push(resolve(loaded, &warning));
    Ok(())
}

/// Output errors that are white are as correlated as these with this probability.
const BELIEVABLE: f64 = 1e-3;

/// Whether output errors are as large as the accuracy of the measurements says, or white where nobody says it.
fn is_explained(problem: &PredictionProblem<'_>, study: &PredictionStudy, theta: &[f64], loaded: &Loaded) -> bool {
    let Ok(prediction) = problem.predict(&[theta.to_vec()], 1, &loaded.watch) else { return false };
    let residuals = residuals(study, &fits(study, problem, &prediction[0]), PredictedSize::OfIndependent);
    residuals.iter().all(|residual| match residual.size.normalized_variance.is_finite() {
        true => !residual.size.is_doubtful(),
        false => residual.whiteness.is_nan() || residual.whiteness > BELIEVABLE,
    })
}

/// Of two points, the one with the smaller cost by a few realizations.
fn better_of(
    problem: &PredictionProblem<'_>,
    start: &[f64],
    warm: &[f64],
    loaded: &Loaded,
) -> Result<Vec<f64>, PointRefusal> {
    let cost = |theta: &[f64]| {
        let predictions = problem.predict(&[theta.to_vec()], FIRST_LOOK, &loaded.watch)?;
        Ok::<f64, PointRefusal>(problem.cost(&predictions[0]))
    };
    match (cost(start), cost(warm)) {
        (Ok(a), Ok(b)) => Ok(if b < a { warm.to_vec() } else { start.to_vec() }),
        (Err(_), Ok(_)) => Ok(warm.to_vec()),
        (Ok(_), Err(_)) => Ok(start.to_vec()),
        (Err(refusal), Err(_)) => Err(refusal),
    }
}

/// Says how far straight lines between grid points are from the disturbances.
pub(crate) fn note_interpolation(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    diagnostics: &mut Vec<Diagnostic>,
) {
    if study.settings.interpolation == daesy_estimate::noise::Interpolation::Exact {
        return;
    }
    let Ok(errors) = problem.interpolation_error(theta) else { return };
    let worst =
        errors.iter().map(|error| if error.std > 0.0 { error.rms / error.std } else { 0.0 }).fold(0.0, f64::max);
    let share = if worst < 1e-4 { "less than 0.01".to_owned() } else { format!("up to {:.2}", 100.0 * worst) };
    let words = format!(
        "straight lines between points of `noise_step` are off by {share} % of the disturbances' standard deviation"
    );
    let finding = if worst > 0.05 {
        Finding::warning("interpolation-error", Span::NONE, words)
            .with_help("take a smaller `noise_step`, or `interpolation = \"exact\"`")
    } else {
        Finding::note("interpolation-error", Span::NONE, words)
    };
    diagnostics.push(resolve(loaded, &finding));
}

/// How far from an estimate, in standard errors, the cost may have its minimum by its values one standard error away.
const NEAR_ENOUGH: f64 = 0.35;

/// A warning where the cost is rough on the scale of a standard error.
///
/// Along C e_i / s_i, with the covariance C and the standard errors s, unknown i moves by its standard error and the
/// others follow as the data say. The parabola through the costs at both ends and between them has its vertex at
///
/// ```text
/// (c_- - c_+) / (2 (c_- - 2 c_0 + c_+))
/// ```
///
/// standard errors, which is 0 where the cost is what its derivatives at the estimate say.
fn rough_cost(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    errors: &Errors,
    here: f64,
) -> Option<Finding> {
    let n = theta.len();
    let is_within =
        |point: &[f64]| (0..n).all(|at| point[at] >= study.space.lower[at] && point[at] <= study.space.upper[at]);
    let mut looked = Vec::new();
    let mut points = Vec::new();
    for (at, &size) in errors.std.iter().enumerate() {
        // What is known to rounding has no scale to look at.
        if !size.is_finite() || size <= 1e-9 * theta[at].abs().max(study.space.nominal[at]) {
            continue;
        }
        // What is at a bound stays there.
        let step = |other: usize| Some(errors.covariance[(at, other)] / size).filter(|step| step.is_finite());
        let moved =
            |sign: f64| -> Vec<f64> { (0..n).map(|other| theta[other] + sign * step(other).unwrap_or(0.0)).collect() };
        let pair = [moved(-1.0), moved(1.0)];
        if pair.iter().all(|point| is_within(point)) {
            looked.push(at);
            points.extend(pair);
        }
    }
    if points.is_empty() {
        return None;
    }
    let n_realizations = problem.settings().n_realizations;
    let found = problem.predict(&points, n_realizations, &loaded.watch).ok()?;
    let costs: Vec<f64> = found.iter().map(|prediction| problem.cost(prediction)).collect();
    let vertex = |pair: &[f64]| {
        let bend = pair[0] - 2.0 * here + pair[1];
        if bend > 0.0 { 0.5 * (pair[0] - pair[1]) / bend } else { f64::INFINITY }
    };
    let (at, away) = looked
        .iter()
        .zip(costs.chunks(2))
        .map(|(&at, pair)| (at, vertex(pair).abs()))
        .filter(|(_, away)| *away > NEAR_ENOUGH)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let unknown = &study.unknowns[at];
    let what = if away.is_finite() {
        format!("by its values one standard error away it has its minimum {} standard errors off", short(away, 2))
    } else {
        "one standard error away it is no larger".to_owned()
    };
    let message = format!(
        "the cost is rough in `{}` on the scale of its standard error: {what}. Standard errors, which rest on derivatives at \
         the estimate, may be far too small",
        unknown.name
    );
    let help = "take more `realizations`, look from more starts (`--starts 20`), and let `bootstrap = 50` in `[identify]` say \
                how far estimates scatter";
    Some(Finding::warning("rough-cost", unknown.span, message).with_names([&unknown.name]).with_help(help))
}

/// An unknown that changes no prediction cannot be found.
fn refuse_idle_unknowns(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    best: &GrownSearch,
    method: Method,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(), Failure> {
    let prediction = problem
        .differentiate(&best.result.theta, FIRST_LOOK, &loaded.watch)
        .map_err(|refusal| study.failure(loaded, &refusal))?;
    let mut wrong = Vec::new();
    for (at, (unknown, tangent)) in study.unknowns.iter().zip(&prediction.tangents).enumerate() {
        if tangent.iter().flatten().any(|value| *value != 0.0) {
            continue;
        }
        let names = [&unknown.name];
        if study.may_act_through_a_relation(at) {
            let message = format!(
                "trajectories have no derivative by `{}`: it acts through a relation along whose border the model slides, or \
                 not at all",
                unknown.name
            );
            let finding = Finding::error("idle-unknown", unknown.span, message).with_names(names);
            wrong
                .push(resolve(loaded, &finding.with_help("take `method = \"ml\"`, whose filter needs no derivatives")));
        } else if method == Method::OutputError {
            let message = format!("an output-error fit has no use for `{}`: it stays at its start", unknown.name);
            diagnostics.push(resolve(loaded, &Finding::note("idle-unknown", unknown.span, message).with_names(names)));
        } else {
            let message = format!("`{}` has no influence on the measurements", unknown.name);
            let finding = Finding::error("idle-unknown", unknown.span, message)
                .with_names(names)
                .with_help("take it out of `[unknown]`, or measure a signal that depends on it");
            wrong.push(resolve(loaded, &finding));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Input(wrong)) }
}

/// Unknowns at bounds; of noise that vanished, what that means.
fn at_bounds(study: &PredictionStudy, parameters: &[ParameterEstimate], method: Method) -> Vec<Finding> {
    let vanished = vanished_noise(study, parameters, method);
    let warnings = caveats::at_bounds(parameters, study.unknowns.iter().map(|unknown| unknown.span), None);
    let others = warnings.filter(|warning| !warning.names.iter().any(|name| vanished.contains(&name.as_str())));
    others.chain(caveats::vanished(&vanished)).collect()
}

/// The first realizations that broke down, and how many more.
fn failed_realizations(prediction: &Prediction) -> Vec<Finding> {
    let mut told = Vec::new();
    for failure in prediction.failures.iter().take(5) {
        let message = format!(
            "realization {} of experiment {} broke down at t = {}: {}",
            failure.realization, failure.experiment, failure.time, failure.reason
        );
        told.push(Finding::warning("realization-failed", Span::NONE, message));
    }
    if prediction.failures.len() > 5 {
        let message = format!("{} more realizations broke down and were left out", prediction.failures.len() - 5);
        told.push(Finding::warning("realization-failed", Span::NONE, message));
    }
    told
}

/// A note where more realizations would make standard errors smaller.
fn few_realizations(uncertainty: &PredictionUncertainty, n_realizations: usize) -> Option<Finding> {
    let worst_share = (0..uncertainty.std.len())
        .map(|at| uncertainty.monte_carlo_std[at] / uncertainty.std[at])
        .filter(|share| share.is_finite())
        .fold(0.0, f64::max);
    (worst_share > 0.5).then(|| {
        let message = format!(
            "{:.0} % of the standard error comes from having {n_realizations} realizations only",
            100.0 * worst_share
        );
        Finding::note("monte-carlo-error", Span::NONE, message).with_help("more `realizations` would help")
    })
}

/// Errors that are not as large as the study says, or do not change as much: changes from sample to sample tell errors
/// of measurement and disturbances apart; sizes do not.
fn doubtful_sizes(
    asked: &Study,
    residuals: &[ResidualSummary],
    changes: &[caveats::Jitter],
    method: Method,
) -> Vec<Finding> {
    let of = residuals.iter().zip(changes);
    let mut told: Vec<Finding> =
        of.filter_map(|(residual, jitter)| caveats::jitter(&residual.name, jitter, asked)).collect();
    let by_size: Vec<Finding> = caveats::noise_size(residuals, asked, method).collect();
    told.extend(
        by_size
            .into_iter()
            .filter(|finding| !told.iter().any(|other| other.names == finding.names))
            .collect::<Vec<_>>(),
    );
    told
}

#[allow(clippy::too_many_arguments)]
fn finish(
    loaded: &Loaded,
    study: &PredictionStudy,
    mut problem: PredictionProblem<'_>,
    mut best: GrownSearch,
    method: Method,
    outcomes: Vec<StartOutcome>,
    mut diagnostics: Vec<Diagnostic>,
    notebook: &mut Notebook<'_>,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, Failure> {
    let mut theta = best.result.theta.clone();
    let fail = |refusal: PointRefusal| study.failure(loaded, &refusal);
    progress("standard errors");
    let is_fixed: Vec<bool> = best.result.at_bound.iter().map(Option::is_some).collect();
    let variances: Vec<Option<f64>> = study.measured.iter().map(|measured| measured.variance).collect();
    let sizes = sizes(&theta, &study.space);
    let uncertainty =
        PredictionUncertainty::new(&problem, &theta, &sizes, &variances, &is_fixed, &loaded.watch).map_err(fail)?;
    let mut errors = errors_of(&uncertainty);
    if let Some(n_sets) = loaded.study.as_ref().and_then(|study| study.identify.bootstrap) {
        let (std, covariance) = bootstrap(loaded, study, &mut problem, &theta, n_sets as usize, notebook, progress)?;
        errors = Errors { std, covariance, reason: None, degrees: vec![f64::INFINITY; theta.len()] };
    }
    let mut robust_std = uncertainty.robust_std.clone();
    let priors: Vec<Option<Prior>> = study.unknowns.iter().map(|unknown| unknown.prior).collect();
    if priors.iter().any(Option::is_some) {
        let weighed = Weighed::new(&theta, &errors, &uncertainty.robust_covariance, &priors, &sizes, &study.space);
        theta.clone_from(&weighed.theta);
        best.result.at_bound = weighed.at_bound;
        errors = Errors { std: weighed.std, covariance: weighed.covariance, ..errors };
        robust_std = weighed.robust_std;
    }
    let n_realizations = problem.settings().n_realizations;
    let prediction =
        problem.predict(std::slice::from_ref(&theta), n_realizations, &loaded.watch).map_err(fail)?.remove(0);
    let are_independent = study.disturbances.is_empty();
    let kind = if are_independent { PredictedSize::OfIndependent } else { PredictedSize::OfCorrelated };
    let fits = fits(study, &problem, &prediction);
    let mut residuals = residuals(study, &fits, kind);
    let mut changes = Vec::new();
    if is_disturbed(method, study) {
        changes = compare_with_paths(loaded, study, &problem, &theta, &prediction, &mut residuals).map_err(fail)?;
    }
    diagnostics.extend(told(loaded, errors.note()));
    if priors.iter().all(Option::is_none) {
        let here = problem.cost(&prediction);
        let rough = rough_cost(loaded, study, &problem, &theta, &errors, here);
        diagnostics.extend(told(loaded, rough));
    }
    diagnostics.extend(told(loaded, failed_realizations(&prediction)));
    let at_bound = &best.result.at_bound;
    let found = Found { unknowns: &study.unknowns, theta: &theta, at_bound, errors: &errors, robust_std: &robust_std };
    let parameters = found.parameters(|at| study.space.lower[at] >= 0.0 && study.is_noise_scale(at));
    diagnostics.extend(told(loaded, at_bounds(study, &parameters, method)));
    diagnostics.extend(told(loaded, few_realizations(&uncertainty, n_realizations)));
    let flat_directions = caveats::named_directions(&parameters, &uncertainty.flat_directions);
    diagnostics.extend(told(loaded, caveats::flat(&flat_directions, &parameters)));
    if let Some(asked) = &loaded.study {
        let mut said = doubtful_sizes(asked, &residuals, &changes, method);
        if !said.is_empty()
            && is_disturbed(method, study)
            && let Some((at, size)) = explaining_size(loaded, study, &problem, &theta, &errors).map_err(fail)?
        {
            said = vec![caveats::open_noise(&parameters[at], size, study.unknowns[at].span)];
        }
        diagnostics.extend(told(loaded, said));
    }
    let n_samples = fits.iter().map(|fit| fit.measured.iter().filter(|value| value.is_finite()).count()).sum();
    Ok(Identification {
        model: loaded.flat.model.clone(),
        method,
        method_reason: String::new(),
        converged: best.result.end == SearchEnd::Converged,
        iterations: best.iterations,
        parameters,
        covariance: errors.rows(),
        robust_reason: errors.reason.map(str::to_owned),
        cost: problem.cost(&prediction),
        log_prior: caveats::log_prior(&priors, &theta),
        log_likelihood: None,
        aic: None,
        bic: None,
        n_samples,
        n_density_values: None,
        fit_percent: fit_percent(study, &fits),
        identifiability: Identifiability { rank: uncertainty.rank, n_unknown: study.unknowns.len(), flat_directions },
        residuals,
        errors_are_independent: are_independent,
        fits,
        starts: if outcomes.len() > 1 { outcomes } else { Vec::new() },
        initial: Vec::new(),
        filter_failure: None,
        approximation: None,
        validation: Vec::new(),
        predictions: Vec::new(),
        diagnostics,
    })
}

/// Realizations that say how far paths stray, and how much they change from sample to sample.
const JITTER_REALIZATIONS: usize = 64;

/// The variance over realizations of the mean square of their standardized distances from the mean: what comes about by
/// chance where the model is right, normal or not, correlated or not.
fn spread_of_size(
    problem: &PredictionProblem<'_>,
    prediction: &Prediction,
    paths: &[Vec<Vec<f64>>],
    error: f64,
    output: usize,
) -> f64 {
    let m = problem.n_outputs();
    let mean_square = |path: &Vec<Vec<f64>>| {
        let (mut sum, mut n) = (0.0, 0.0f64);
        for (at, experiment) in problem.experiments().iter().enumerate() {
            for sample in (0..experiment.is_used.len()).filter(|&sample| experiment.is_used[sample]) {
                let entry = sample * m + output;
                let away = path[at][entry] - prediction.means[at][entry];
                if experiment.measured[entry].is_finite() && away.is_finite() {
                    sum += (away * away + error) / (prediction.variances[at][entry] + error);
                    n += 1.0;
                }
            }
        }
        sum / n.max(1.0)
    };
    let all: Vec<f64> = paths.iter().map(mean_square).collect();
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    all.iter().map(|square| (square - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)
}

/// How far prediction errors are from what realizations do: gives their changes from sample to sample, and the sizes of
/// the residuals what they may be by chance.
fn compare_with_paths(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    prediction: &Prediction,
    residuals: &mut [ResidualSummary],
) -> Result<Vec<caveats::Jitter>, PointRefusal> {
    let paths = problem.realize(theta, JITTER_REALIZATIONS, &loaded.watch)?;
    let variances = Parameterization::variances(study, theta)?;
    for (output, residual) in residuals.iter_mut().enumerate() {
        let spread = spread_of_size(problem, prediction, &paths, variances[output], output);
        residual.size = residual.size.with_spread(spread);
    }
    jitters(study, problem, theta, &paths)
}

/// Sizes of a disturbance that are tried, each this factor smaller than the one before.
const TRIED_SIZES: usize = 14;
const TRIED_FACTOR: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// The size of a disturbance, within two standard errors of its estimate, at which prediction errors are as large and
/// change as much as predicted; with its position among the unknowns.
///
/// The mean of an ensemble hardly depends on how strong disturbances are, so that a fit of means leaves their sizes open.
/// What only an estimate far from the truth contradicts is no reason to doubt accuracies of measurements. Along
/// C e_i / C_ii, with the covariance C, the other unknowns follow as the data say. A size without a standard error, as one
/// that went to zero, may be any.
fn explaining_size(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    errors: &Errors,
) -> Result<Option<(usize, f64)>, PointRefusal> {
    let mut best: Option<(f64, usize, f64)> = None;
    for at in (0..theta.len()).filter(|&at| study.is_noise_scale(at)) {
        let error = errors.std[at];
        let largest = if error.is_finite() {
            theta[at].abs() + 2.0 * error
        } else {
            4.0 * study.space.nominal[at].max(study.unknowns[at].start.abs())
        };
        let sizes = std::iter::successors(Some(largest), |size| Some(TRIED_FACTOR * size));
        for size in sizes.take(TRIED_SIZES).filter(|size| *size >= theta[at].abs() - 2.0 * error || !error.is_finite())
        {
            let slope = |other: usize| errors.covariance[(other, at)] / errors.covariance[(at, at)];
            let moved = |other: usize| match other == at {
                true => size,
                false => {
                    theta[other] + Some(slope(other)).filter(|it| it.is_finite()).unwrap_or(0.0) * (size - theta[at])
                }
            };
            let point = study.space.clamp(&(0..theta.len()).map(moved).collect::<Vec<f64>>());
            let n_realizations = problem.settings().n_realizations;
            let Ok(mut found) = problem.predict(std::slice::from_ref(&point), n_realizations, &loaded.watch) else {
                continue;
            };
            let prediction = found.swap_remove(0);
            let fits = fits(study, problem, &prediction);
            let mut residuals = residuals(study, &fits, PredictedSize::OfCorrelated);
            let changes = compare_with_paths(loaded, study, problem, &point, &prediction, &mut residuals)?;
            let sizes = || residuals.iter().map(|it| &it.size).chain(changes.iter().map(|it| &it.size));
            let off: f64 = sizes().map(|size| size.normalized_variance.ln().abs()).sum();
            let is_nearer = best.as_ref().is_none_or(|(least, ..)| off < *least);
            if is_nearer && !sizes().any(ResidualSize::is_doubtful) {
                best = Some((off, at, point[at]));
            }
        }
    }
    Ok(best.map(|(_, at, size)| (at, size)))
}

/// How prediction errors without earlier measurements change from one sample to the next, by output.
///
/// They are as large as the disturbances make them, and errors of measurement count for little among them. From sample
/// to sample a disturbance changes little, and errors of measurement are new: the variance of the change is that of the
/// realizations' changes, and twice the variance of an error.
fn jitters(
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    theta: &[f64],
    paths: &[Vec<Vec<f64>>],
) -> Result<Vec<caveats::Jitter>, PointRefusal> {
    let variances = Parameterization::variances(study, theta)?;
    let m = study.measured.len();
    let of_output = |output: usize| {
        let (mut changes, mut plain, mut excess) = (Vec::new(), Vec::new(), 0.0);
        for (at, experiment) in problem.experiments().iter().enumerate() {
            for sample in 1..experiment.is_used.len() {
                let [before, after] = [sample - 1, sample].map(|sample| sample * m + output);
                let changed: Vec<f64> = paths
                    .iter()
                    .map(|path| path[at][after] - path[at][before])
                    .filter(|change| change.is_finite())
                    .collect();
                let n = changed.len() as f64;
                let mean = changed.iter().sum::<f64>() / n;
                let spread = changed.iter().map(|change| (change - mean).powi(2)).sum::<f64>() / (n - 1.0);
                let is_used = experiment.is_used[sample - 1] && experiment.is_used[sample];
                let change = experiment.measured[after] - experiment.measured[before] - mean;
                let change = if is_used { change } else { f64::NAN };
                plain.push(change);
                changes.push(change / (spread + 2.0 * variances[output]).sqrt());
                excess += if change.is_finite() { change * change - spread } else { 0.0 };
            }
        }
        let n = plain.iter().filter(|change| change.is_finite()).count().max(1) as f64;
        caveats::Jitter {
            size: residual_tests(&changes, &plain, PredictedSize::OfCorrelated).size,
            std: (0.5 * excess / n).max(0.0).sqrt(),
        }
    };
    Ok((0..m).map(of_output).collect())
}

/// Data sets made by the model at an estimate, with gaps where the measurements have them.
struct ArtificialData {
    theta: Vec<f64>,
    /// `[set][experiment][sample * n_outputs + output]`
    sets: Vec<Vec<Vec<f64>>>,
}

impl ArtificialData {
    fn new(
        loaded: &Loaded,
        study: &PredictionStudy,
        problem: &PredictionProblem<'_>,
        theta: &[f64],
        n_sets: usize,
    ) -> Result<Self, PointRefusal> {
        let seed = study.settings.seed ^ BOOTSTRAP_SEED;
        let mut sets = study.artificial_data(theta, n_sets, seed, &loaded.watch)?;
        for set in &mut sets {
            for (values, experiment) in set.iter_mut().zip(problem.experiments()) {
                let pairs = values.iter_mut().zip(&experiment.measured);
                pairs.filter(|(_, own)| own.is_nan()).for_each(|(value, _)| *value = f64::NAN);
            }
        }
        Ok(Self { theta: theta.to_vec(), sets })
    }

    /// The estimate from one of the sets; `None` when there is no such set. The problem keeps the set as its
    /// measurements.
    fn estimate(
        &self,
        loaded: &Loaded,
        study: &PredictionStudy,
        problem: &mut PredictionProblem<'_>,
        set: usize,
    ) -> Result<Vec<f64>, PointRefusal> {
        let Some(set) = self.sets.get(set) else { return Ok(Vec::new()) };
        problem.set_measured(set.clone());
        let n_realizations = problem.realizations(problem.settings().n_realizations);
        let mut objective =
            PredictionObjective { problem, n_realizations, watch: loaded.watch.clone(), evaluations: 0 };
        let options = SearchOptions { relative: 1e-6, max_iterations: 20, ..SearchOptions::default() };
        Ok(minimize(&mut objective, &self.theta, &study.space, &options, &mut |_| {})?.theta)
    }
}

/// Sizes of disturbances that ended at zero, or so near that the cost, which does not depend on their sign, is flat.
fn vanished_noise<'p>(study: &PredictionStudy, parameters: &'p [ParameterEstimate], method: Method) -> Vec<&'p str> {
    let is_zero = |at: usize, parameter: &ParameterEstimate| {
        let size = study.space.nominal[at].max(parameter.start.abs());
        study.is_noise_scale(at) && parameter.estimate.abs() <= VANISHED * size
    };
    let of = parameters.iter().enumerate().filter(|(at, parameter)| is_zero(*at, parameter));
    if method == Method::PredictionError {
        of.map(|(_, parameter)| parameter.name.as_str()).collect()
    } else {
        Vec::new()
    }
}

/// Sizes below this fraction of their start are zero.
const VANISHED: f64 = 1e-3;

/// Robust errors that are larger by this factor contradict those of the realizations.
const CONTRADICTED: f64 = 2.0;

/// Errors by the realizations, or by the errors at hand where these are so much larger that they contradict them.
/// Smaller ones contradict nothing: one record of correlated errors, whatever its size, tells too little. Without a
/// disturbance both are the same.
fn errors_of(uncertainty: &PredictionUncertainty) -> Errors {
    let pairs = uncertainty.std.iter().zip(&uncertainty.robust_std);
    let is_contradicted = pairs.into_iter().any(|(std, robust)| std.is_finite() && *robust > CONTRADICTED * std);
    let choice = Choice {
        std: &uncertainty.std,
        covariance: &uncertainty.covariance,
        robust_std: &uncertainty.robust_std,
        robust_covariance: &uncertainty.robust_covariance,
        contradiction: match uncertainty.kind {
            StandardErrorKind::Ensemble => is_contradicted.then_some("the errors stray more than the realizations do"),
            StandardErrorKind::Errors => {
                uncertainty.are_contradicted.then_some("the errors are correlated, or larger where they count more")
            }
        },
        degrees: uncertainty.degrees,
        robust_degrees: &uncertainty.robust_degrees,
    };
    choice.errors(&[])
}

/// An estimate without priors, weighed against them.
struct Weighed {
    theta: Vec<f64>,
    at_bound: Vec<Option<Bound>>,
    std: Vec<f64>,
    covariance: Mat<f64>,
    robust_std: Vec<f64>,
}

impl Weighed {
    /// The maximum of the priors times the normal distribution of the estimate, and the covariances there:
    ///
    /// ```text
    /// K = (C^-1 + P)^-1,   robust: K (C^-1 C_r C^-1 + P) K        P: precision of the priors
    /// ```
    fn new(
        estimate: &[f64],
        errors: &Errors,
        robust: &Mat<f64>,
        priors: &[Option<Prior>],
        sizes: &[f64],
        space: &SearchSpace,
    ) -> Self {
        let n = estimate.len();
        let data = LimitedInformation::new(estimate, &errors.covariance, sizes);
        let precision = data.precision.clone();
        let mut posterior = WithPriors { inner: data, priors, factor: 1.0 };
        // A promise of 1e-24 is 1e-12 standard errors: nothing is simulated here, so that rounding is the only limit.
        let options = SearchOptions { absolute: 1e-24, relative: 0.0, ..SearchOptions::default() };
        let (theta, at_bound) = match minimize(&mut posterior, estimate, space, &options, &mut |_| {}) {
            Ok(found) => (found.theta, found.at_bound),
            Err(never) => match never {},
        };
        let prior_precision = precisions(priors, &theta);
        let nothing = ScoreSeries { n_unknown: n, experiments: Vec::new() };
        let found = Uncertainty::new(&Certainty {
            information: &precision,
            scores: &nothing,
            prior_precision: &prior_precision,
            sizes,
            at_bound: &at_bound,
        });
        let mut meat = &precision * robust * &precision;
        (0..n).for_each(|i| meat[(i, i)] += prior_precision[i]);
        let robust = &found.covariance * meat * &found.covariance;
        let robust_std = (0..n)
            .map(|i| if found.std[i].is_finite() { robust[(i, i)].max(0.0).sqrt() } else { found.std[i] })
            .collect();
        Self { theta, at_bound, std: found.std, covariance: found.covariance, robust_std }
    }
}

/// Standard deviations and covariance of estimates from artificial data at the estimate.
fn bootstrap(
    loaded: &Loaded,
    study: &PredictionStudy,
    problem: &mut PredictionProblem<'_>,
    theta: &[f64],
    n_sets: usize,
    notebook: &mut Notebook<'_>,
    progress: &mut ProgressLine<'_>,
) -> Result<(Vec<f64>, Mat<f64>), Failure> {
    let fail = |refusal: PointRefusal| study.failure(loaded, &refusal);
    let mut estimates: Vec<Vec<f64>> = Vec::new();
    if let Some(elsewhere) = &loaded.elsewhere {
        progress("bootstrap");
        let point = |set: usize| [far::BOOTSTRAP, set as f64].into_iter().chain(theta.iter().copied()).collect();
        let points: Vec<Vec<f64>> = (0..n_sets).map(point).collect();
        estimates = elsewhere.evaluate(&points).ok_or_else(|| fail(stopped()))?;
        if estimates.iter().any(|estimate| estimate.len() != theta.len()) {
            return Err(fail(stopped()));
        }
    } else {
        let own: Vec<Vec<f64>> = problem.experiments().iter().map(|experiment| experiment.measured.clone()).collect();
        let data = ArtificialData::new(loaded, study, problem, theta, n_sets).map_err(fail)?;
        for set in 0..n_sets {
            progress(&format!("bootstrap: data set {} of {n_sets}", set + 1));
            let label = format!("bootstrap{set}");
            let mut refusal = None;
            let estimate = remembered_point(notebook, &label, theta, &loaded.watch, || {
                data.estimate(loaded, study, problem, set).unwrap_or_else(|why| {
                    refusal = Some(why);
                    Vec::new()
                })
            });
            notebook.check()?;
            match refusal {
                Some(refusal) => return Err(fail(refusal)),
                None => estimates.push(estimate),
            }
        }
        problem.set_measured(own);
    }
    let Spread { std, covariance } = Spread::of(&estimates);
    Ok((std, covariance))
}

fn fits(study: &PredictionStudy, problem: &PredictionProblem<'_>, prediction: &Prediction) -> Vec<Fit> {
    let n_outputs = study.measured.len();
    let mut fits = Vec::new();
    for (at, experiment) in problem.experiments().iter().enumerate() {
        for (output, measured) in study.measured.iter().enumerate() {
            let column = |values: &[f64]| values.iter().skip(output).step_by(n_outputs).copied().collect::<Vec<f64>>();
            let error = measured.variance.unwrap_or(0.0);
            let mut values = column(&experiment.measured);
            for (value, is_used) in values.iter_mut().zip(&experiment.is_used) {
                if !is_used {
                    *value = f64::NAN;
                }
            }
            fits.push(Fit {
                name: measured.name.clone(),
                experiment: at,
                times: experiment.grid.samples.clone(),
                measured: values,
                predicted: column(&prediction.means[at]),
                std: column(&prediction.variances[at]).into_iter().map(|variance| (variance + error).sqrt()).collect(),
            });
        }
    }
    fits
}

pub(super) fn fit_percent(study: &PredictionStudy, fits: &[Fit]) -> Vec<(String, f64)> {
    study
        .measured
        .iter()
        .map(|measured| {
            let own = fits.iter().filter(|fit| fit.name == measured.name);
            let pairs: Vec<(f64, f64)> = own
                .flat_map(|fit| fit.measured.iter().copied().zip(fit.predicted.iter().copied()))
                .filter(|(measured, _)| measured.is_finite())
                .collect();
            let mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / pairs.len().max(1) as f64;
            let error: f64 = pairs.iter().map(|(measured, predicted)| (measured - predicted).powi(2)).sum();
            let total: f64 = pairs.iter().map(|(measured, _)| (measured - mean).powi(2)).sum();
            (measured.name.clone(), 100.0 * (1.0 - (error / total).sqrt()))
        })
        .collect()
}

pub(super) fn residuals(study: &PredictionStudy, fits: &[Fit], kind: PredictedSize) -> Vec<ResidualSummary> {
    study
        .measured
        .iter()
        .map(|measured| {
            let own = || fits.iter().filter(|fit| fit.name == measured.name);
            let plain: Vec<f64> =
                own().flat_map(|fit| fit.measured.iter().zip(&fit.predicted).map(|(a, b)| a - b)).collect();
            let standardized: Vec<f64> = own()
                .flat_map(|fit| {
                    let errors = fit.measured.iter().zip(&fit.predicted).map(|(a, b)| a - b);
                    errors.zip(&fit.std).map(|(error, std)| if *std > 0.0 { error / std } else { error })
                })
                .collect();
            // Errors of unsaid accuracy are larger than the model says, nobody knows by how much.
            let predicted = match measured.variance {
                Some(variance) if variance > 0.0 => kind,
                _ => PredictedSize::Unsaid,
            };
            let tests = residual_tests(&standardized, &plain, predicted);
            ResidualSummary {
                name: measured.name.clone(),
                whiteness: tests.whiteness,
                normality: tests.normality,
                mean: tests.mean,
                std: tests.std,
                size: tests.size,
                input_correlation: Vec::new(),
            }
        })
        .collect()
}
