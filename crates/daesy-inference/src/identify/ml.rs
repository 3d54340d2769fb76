//! Maximum likelihood for models that are linear in their variables, and output-error fits of the same.

use std::time::Instant;

use daesy_estimate::descriptor::{ParametricModel, StartMode};
use daesy_estimate::error::EstimateError;
use daesy_estimate::filter::{FilterOptions, Innovations};
use daesy_estimate::likelihood::{Likelihood, LikelihoodExpansion};
use daesy_estimate::multi_start::{self, MultiStart, StartOutcome};
use daesy_estimate::prior::{Prior, WithPriors, precisions};
use daesy_estimate::profile::{ProfileQuestion, other_minima, profile_interval};
use daesy_estimate::residual::{PredictedSize, ResidualsWithInput, input_correlation, residual_tests};
use daesy_estimate::scores::ScoreSeries;
use daesy_estimate::search::{
    Expansion, Objective, RefusedPoint, SearchEnd, SearchOptions, SearchProgress, SearchResult, minimize, refine,
};
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_pencil::Mat;
use daesy_system::Watch;

use super::certainty::Choice;
use super::fitted::{Found, Uncertainties, resolve, sizes, told};
use super::stopping::{SoFar, stopped_search};
use super::{
    Fit, Identifiability, Identification, IdentifyOptions, Method, ParameterEstimate, ProgressLine, ResidualSummary,
};
use super::{caveats, far};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::linear_study::LinearStudy;
use daesy_study::linear_study::refusal::{failure, finding, point};
use daesy_study::load::Loaded;
use daesy_study::problem::says_accuracy;

/// A likelihood that stops when its watch says so.
struct Watched<'m> {
    likelihood: Likelihood<'m, LinearStudy>,
    watch: Watch,
}

impl Objective for Watched<'_> {
    type Refusal = EstimateError;

    fn value(&mut self, theta: &[f64]) -> Result<f64, EstimateError> {
        if self.watch.is_stopped() {
            return Err(EstimateError::Stopped);
        }
        self.likelihood.value(theta)
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, EstimateError> {
        if self.watch.is_stopped() {
            return Err(EstimateError::Stopped);
        }
        Objective::expand(&mut self.likelihood, theta)
    }
}

fn priors(study: &LinearStudy) -> Vec<Option<Prior>> {
    study.unknowns.iter().map(|unknown| unknown.prior).collect()
}

/// Start values that are estimated beside the unknowns.
fn n_estimated(study: &LinearStudy, start: &[Vec<f64>]) -> usize {
    if study.layout().start == StartMode::Estimated { start.iter().map(Vec::len).sum() } else { 0 }
}

/// Whether errors are as large as the study says, by what residuals show. What disturbances do is in them too.
fn are_sized(study: &LinearStudy, residuals: &[ResidualSummary]) -> bool {
    let is_sized =
        |residual: &ResidualSummary| residual.size.normalized_variance.is_finite() && !residual.size.is_doubtful();
    !study.has_disturbances && residuals.iter().all(is_sized)
}

/// What the logarithm of priors is multiplied by in the objective: one, or for output errors that are not of the size
/// that the study says, the mean of their squares at the best fit without priors, in units of the given variances. So
/// priors are weighed against the covariance that the estimate is given.
fn prior_factor(
    loaded: &Loaded,
    study: &LinearStudy,
    watched: &Watched<'_>,
    priors: &[Option<Prior>],
) -> Result<f64, EstimateError> {
    if !study.is_noise_free() || priors.iter().all(Option::is_none) {
        return Ok(1.0);
    }
    let start = study.start();
    let likelihood = Likelihood::new(study, &start, FilterOptions::default())?;
    let mut plain = Watched { likelihood, watch: watched.watch.clone() };
    let found = minimize(&mut plain, &start, &study.space, &search_options(), &mut |_| {})?;
    let innovations = plain.likelihood.innovations(&found.theta)?;
    if are_sized(study, &residual_summaries(loaded, study, &innovations)) {
        return Ok(1.0);
    }
    let value = plain.likelihood.evaluate(&found.theta)?;
    let n_found = found.at_bound.iter().filter(|bound| bound.is_none()).count() + n_estimated(study, &value.start);
    let (squares, _) = weighted_squares(study, &innovations);
    Ok((squares / (value.n_counted as f64 - n_found as f64).max(1.0)).max(f64::MIN_POSITIVE))
}

/// When a search ends.
fn search_options() -> SearchOptions {
    SearchOptions { absolute: 1e-12, relative: 1e-15, ..SearchOptions::default() }
}

/// Searches that an executor asks for, as numbers.
///
/// # Errors
/// As [`identify`].
pub fn evaluate_at(loaded: &Loaded, study: &LinearStudy, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Failure> {
    let start = study.start();
    let likelihood = Likelihood::new(study, &start, FilterOptions::default())
        .map_err(|error| failure(loaded, study, &start, &error))?;
    let priors = priors(study);
    let watched = Watched { likelihood, watch: loaded.watch.clone() };
    let factor =
        prior_factor(loaded, study, &watched, &priors).map_err(|error| failure(loaded, study, &start, &error))?;
    let mut objective = WithPriors { inner: watched, priors: &priors, factor };
    let found = points.iter().map(|point| {
        let from = point.get(1..).unwrap_or_default();
        let found = minimize(&mut objective, from, &study.space, &search_options(), &mut |_| {});
        found.map_or_else(|_| Vec::new(), |result| multi_start::to_numbers(&result))
    });
    Ok(found.collect())
}

/// Identifies by maximum likelihood, or by least squares of the output error.
///
/// # Errors
/// Diagnostics, when the study is at fault or the search gives up.
pub fn identify(
    loaded: &Loaded,
    study: LinearStudy,
    method: Method,
    options: &IdentifyOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, Failure> {
    let mut diagnostics = Vec::new();
    let start = study.start();
    if method == Method::OutputError {
        for at in (0..study.unknowns.len()).filter(|&at| !study.depends_on(at)) {
            let unknown = &study.unknowns[at];
            let message = format!("an output-error fit has no use for `{}`: it stays at its start", unknown.name);
            let note = Finding::note("idle-unknown", unknown.span, message).with_names([&unknown.name]);
            diagnostics.push(resolve(loaded, &note));
        }
    }
    let likelihood = Likelihood::new(&study, &start, FilterOptions::default())
        .map_err(|error| failure(loaded, &study, &start, &error))?;
    let priors = priors(&study);
    let watched = Watched { likelihood, watch: loaded.watch.clone() };
    let factor =
        prior_factor(loaded, &study, &watched, &priors).map_err(|error| failure(loaded, &study, &start, &error))?;
    let mut objective = WithPriors { inner: watched, priors: &priors, factor };
    let search = search_options();
    let space = study.space.clone();
    let mut searches: MultiStart<SearchResult<EstimateError>, EstimateError> = MultiStart::default();
    let starts = space.starts(&start, options.n_starts.max(1), options.seed);
    let mut far: Vec<Vec<f64>> = Vec::new();
    if let Some(elsewhere) = loaded.elsewhere.as_ref().filter(|_| starts.len() > 1) {
        let found = elsewhere.evaluate(&far::search_points(&starts));
        far = found.ok_or_else(|| failure(loaded, &study, &[], &EstimateError::Stopped))?;
    }
    for (at, from) in starts.iter().enumerate() {
        let begun = Instant::now();
        let mut first_promise = f64::NAN;
        let mut observe = |state: &SearchProgress<'_>| {
            if state.iteration <= 1 {
                first_promise = state.promised;
            }
            let label =
                if starts.len() > 1 { format!("start {} of {}, ", at + 1, starts.len()) } else { String::new() };
            progress(&format!("{label}{}", progress_words(state, first_promise, search.absolute, begun)));
        };
        let known = far.get(at).and_then(|numbers| {
            multi_start::from_numbers(numbers, &space, |theta| {
                objective.value(theta).err().or_else(|| Objective::expand(&mut objective, theta).err())
            })
        });
        // A search whose start was refused elsewhere ends here at once, with the reason.
        let found = match known {
            Some(result) => Ok(result),
            None => minimize(&mut objective, from, &space, &search, &mut observe),
        };
        searches.add(from, found);
        if loaded.watch.is_stopped() {
            let of = |best: SearchResult<_>| SoFar { theta: best.theta, value: best.expansion.value };
            return Err(stopped_search(&study.unknowns, searches.best.map(of), options));
        }
    }
    let MultiStart { best, outcomes, iterations, refused } = searches;
    let Some(best) = best.map(|best| refine(&mut objective, best, &space)) else {
        let RefusedPoint { theta, refusal } =
            refused.unwrap_or(RefusedPoint { theta: start, refusal: EstimateError::NoSamples });
        return Err(failure(loaded, &study, &theta, &refusal));
    };
    if best.end != SearchEnd::Converged && !best.refused.is_empty() {
        let refused = &best.refused[best.refused.len() - 1];
        let cause = finding(&study, &refused.theta, &refused.refusal);
        let message = format!("the search was stopped by values it must not enter: {}", cause.message);
        diagnostics.push(resolve(loaded, &Finding::warning("refused", Span::NONE, message)));
    } else if best.end == SearchEnd::TooManyIterations {
        let message = format!("the search did not converge within {} steps", best.iterations);
        let warning = Finding::warning("not-converged", Span::NONE, message)
            .with_help("start closer, or leave out unknowns that the data do not determine");
        diagnostics.push(resolve(loaded, &warning));
    }
    finish(loaded, &study, objective, best, method, options, iterations, outcomes, diagnostics, &search, progress)
}

/// Cost, step and what may be left, in a line.
fn progress_words(state: &SearchProgress<'_>, first_promise: f64, enough: f64, begun: Instant) -> String {
    let spent = begun.elapsed().as_secs_f64();
    let left = if state.iteration >= 2 && state.promised < first_promise && state.promised > enough {
        // Geometric decrease of what is left to gain.
        let rate = (first_promise / state.promised).ln() / (state.iteration - 1) as f64;
        let steps = (state.promised / enough).ln() / rate;
        format!(", about {:.0} s left", spent / state.iteration as f64 * steps)
    } else {
        String::new()
    };
    format!("step {}: cost {:.6}, last step {:.2e}{left}", state.iteration, state.value, state.step)
}

/// What is known of an estimate to second order, and its likelihood.
struct Certain {
    information: Mat<f64>,
    scores: ScoreSeries,
    log_likelihood: f64,
    /// Of the size of errors.
    degrees: f64,
    n_parameters: usize,
}

impl Certain {
    fn of(expansion: &LikelihoodExpansion, n_parameters: usize) -> Self {
        let log_likelihood = expansion.value.log_likelihood;
        let (information, scores) = (expansion.information.clone(), expansion.scores.clone());
        Self { information, scores, log_likelihood, degrees: f64::INFINITY, n_parameters }
    }

    /// Errors are as large as they turn out to be: one factor for all n of them, estimated beside `n_found` others from
    /// the sum S of their squares over variances v,
    ///
    /// ```text
    /// log L = -(n (log(2 pi S / n) + 1) + sum log v) / 2        information / (S / (n - n_found))
    /// ```
    fn with_open_size(self, n: f64, n_found: f64, squares: f64, logs: f64) -> Self {
        let degrees = (n - n_found).max(1.0);
        let factor = squares / n;
        Self {
            information: &self.information * faer::Scale(degrees / squares),
            scores: self.scores.scaled(degrees / squares),
            log_likelihood: -0.5 * (n * ((2.0 * std::f64::consts::PI * factor).ln() + 1.0) + logs),
            degrees,
            n_parameters: self.n_parameters + 1,
        }
    }
}

/// Gives parameters the intervals of their profiles, and says what these and other minima are like.
#[allow(clippy::too_many_arguments)]
fn profiles(
    loaded: &Loaded,
    study: &LinearStudy,
    objective: &mut WithPriors<'_, Watched<'_>>,
    best: &SearchResult<EstimateError>,
    std: &[f64],
    parameters: &mut [ParameterEstimate],
    search: &SearchOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<Vec<Diagnostic>, Failure> {
    let theta = &best.theta;
    progress("other minima");
    let (minimum, space) = (best.expansion.value, &study.space);
    let minima = &other_minima(objective, theta, minimum, space, search);
    let warning = caveats::better_optimum(parameters, study.unknowns.iter().map(|it| it.span), minimum, minima);
    let mut diagnostics: Vec<Diagnostic> = told(loaded, warning).collect();
    for (at, parameter) in parameters.iter_mut().enumerate() {
        progress(&format!("profile of {}", parameter.name));
        let std = std[at];
        let question = ProfileQuestion { estimate: theta, minimum, minima, at, std, space, options: search };
        let interval = profile_interval(objective, &question);
        parameter.profile95 = Some(interval.ends);
        let notes = caveats::of_profile(&parameter.name, study.unknowns[at].span, &interval);
        diagnostics.extend(told(loaded, notes));
        if loaded.watch.is_stopped() {
            return Err(failure(loaded, study, &[], &EstimateError::Stopped));
        }
    }
    Ok(diagnostics)
}

#[allow(clippy::too_many_arguments)]
fn finish(
    loaded: &Loaded,
    study: &LinearStudy,
    mut objective: WithPriors<'_, Watched<'_>>,
    best: SearchResult<EstimateError>,
    method: Method,
    options: &IdentifyOptions,
    iterations: usize,
    outcomes: Vec<StartOutcome>,
    mut diagnostics: Vec<Diagnostic>,
    search: &SearchOptions,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, Failure> {
    let refused = |error: EstimateError| failure(loaded, study, &best.theta, &error);
    let theta = &best.theta;
    let expansion = objective.inner.likelihood.expand(theta).map_err(refused)?;
    let innovations = objective.inner.likelihood.innovations(theta).map_err(refused)?;
    let n = expansion.value.n_counted;
    let n_taken_by_start = objective.inner.likelihood.n_taken_by_start(theta).map_err(refused)?;
    let n_estimated = n_estimated(study, &expansion.value.start);
    let fits = fits(study, &innovations);
    let mut cost = -expansion.value.log_likelihood;
    let mut residuals = residual_summaries(loaded, study, &innovations);
    let n_found = best.at_bound.iter().filter(|bound| bound.is_none()).count() + n_estimated;
    let mut certain = Certain::of(&expansion, study.unknowns.len() + n_estimated);
    if method == Method::OutputError {
        let (squares, logs) = weighted_squares(study, &innovations);
        if !are_sized(study, &residuals) {
            certain = certain.with_open_size(n as f64, n_found as f64, squares, logs);
        }
        cost = mean_squares(&fits);
    }
    let Certain { information, scores, log_likelihood, degrees, n_parameters } = certain;
    let precision = precisions(objective.priors, theta);
    let sizes = sizes(theta, &study.space);
    let Uncertainties { with_priors: uncertainty, by_data } =
        Uncertainties::new(&information, &scores, &precision, &sizes, &best.at_bound);
    let feedthrough = objective.inner.likelihood.feedthrough(theta).map_err(refused)?;
    for (at, residual) in residuals.iter_mut().enumerate() {
        let is_direct = |input: usize| input < feedthrough.ncols() && feedthrough[(at, input)] != 0.0;
        let data = |input: usize| with_input(study, &innovations, &scores, at, input, is_direct(input));
        let correlation = |input: usize| input_correlation(&data(input), &uncertainty.covariance);
        let tested = study.inputs.iter().enumerate().map(|(input, signal)| (signal.name.clone(), correlation(input)));
        residual.input_correlation = tested.filter(|(_, p)| p.is_finite()).collect();
    }
    // An output-error fit takes the size of errors that are not as said from the errors themselves.
    let sized = if method == Method::OutputError { &[] } else { &residuals[..] };
    let choice = Choice { degrees, ..Choice::of(&uncertainty) };
    let errors = choice.errors(sized);
    diagnostics.extend(told(loaded, errors.note()));
    let are_noise_scales = study.noise_scales();
    let robust_std = &uncertainty.robust_std;
    let found = Found { unknowns: &study.unknowns, theta, at_bound: &best.at_bound, errors: &errors, robust_std };
    let mut parameters = found.parameters(|at| are_noise_scales[at]);
    if options.with_profiles && method == Method::MaximumLikelihood {
        let std = &uncertainty.std;
        diagnostics.extend(profiles(loaded, study, &mut objective, &best, std, &mut parameters, search, progress)?);
    }
    let places = || study.unknowns.iter().map(|unknown| unknown.span);
    diagnostics.extend(told(loaded, caveats::at_bounds(&parameters, places(), Some(&information))));
    if !options.with_profiles {
        diagnostics.extend(told(loaded, caveats::beyond_bounds(&parameters, places(), &study.space)));
    }
    let flat_directions = caveats::named_directions(&parameters, &by_data.flat_directions);
    diagnostics.extend(told(loaded, caveats::flat(&flat_directions, &parameters)));
    diagnostics.extend(told(loaded, left_out(study, theta, expansion.value.n_redundant)));
    let initial = initial_values(study, &objective.inner.likelihood, &expansion.value.start);
    let warnings = loaded.study.iter().flat_map(|study| caveats::noise_size(&residuals, study, method));
    diagnostics.extend(told(loaded, warnings));
    Ok(Identification {
        model: loaded.flat.model.clone(),
        method,
        method_reason: String::new(),
        converged: best.end == SearchEnd::Converged,
        iterations,
        parameters,
        covariance: errors.rows(),
        robust_reason: errors.reason.map(str::to_owned),
        cost,
        log_prior: caveats::log_prior(objective.priors, theta),
        log_likelihood: Some(log_likelihood),
        aic: Some(2.0 * n_parameters as f64 - 2.0 * log_likelihood),
        bic: Some(n_parameters as f64 * (n as f64).ln() - 2.0 * log_likelihood),
        n_samples: n,
        n_density_values: Some(n - n_taken_by_start.min(n)),
        fit_percent: fit_percent(study, &fits),
        identifiability: Identifiability { rank: by_data.rank, n_unknown: study.unknowns.len(), flat_directions },
        residuals,
        errors_are_independent: method == Method::MaximumLikelihood || !study.has_disturbances,
        fits,
        starts: if outcomes.len() > 1 { outcomes } else { Vec::new() },
        initial,
        filter_failure: None,
        approximation: None,
        validation: Vec::new(),
        predictions: Vec::new(),
        diagnostics,
    })
}

/// A note on values that say nothing new.
fn left_out(study: &LinearStudy, theta: &[f64], n_redundant: usize) -> Option<Finding> {
    let at = point(study, theta);
    let message = format!("{n_redundant} values were known exactly before they were measured and left out ({at})");
    (n_redundant > 0).then(|| Finding::note("redundant-samples", Span::NONE, message))
}

/// Estimated start values by name.
fn initial_values(
    study: &LinearStudy,
    likelihood: &Likelihood<'_, LinearStudy>,
    start: &[Vec<f64>],
) -> Vec<Vec<(String, f64)>> {
    if study.layout().start != StartMode::Estimated {
        return Vec::new();
    }
    let rows = likelihood.start_plan().free_rows(study.layout());
    let named = |values: &Vec<f64>| {
        rows.iter().zip(values).map(|(&row, &value)| (study.wished_names[row].clone(), value)).collect()
    };
    start.iter().map(named).collect()
}

/// Predictions of all measurements.
#[must_use]
pub fn fits(study: &LinearStudy, innovations: &[Innovations]) -> Vec<Fit> {
    let m = study.measured.len();
    let mut fits = Vec::new();
    for (experiment, (data, found)) in study.experiments().iter().zip(innovations).enumerate() {
        for (at, signal) in study.measured.iter().enumerate() {
            let pick = |list: &[f64]| -> Vec<f64> { list.iter().skip(at).step_by(m).copied().collect() };
            fits.push(Fit {
                name: signal.name.clone(),
                experiment,
                times: data.times.clone(),
                measured: pick(&data.measurements),
                predicted: pick(&found.predictions),
                std: pick(&found.variances).iter().map(|variance| variance.sqrt()).collect(),
            });
        }
    }
    fits
}

/// `sum of e^2 / r` and `sum of log r` over what is counted.
fn weighted_squares(study: &LinearStudy, innovations: &[Innovations]) -> (f64, f64) {
    let m = study.measured.len();
    let (mut squares, mut logs) = (0.0, 0.0);
    for (data, found) in study.experiments().iter().zip(innovations) {
        let counted = data.first_counted * m;
        for (e, r) in found.innovations[counted..].iter().zip(&found.variances[counted..]) {
            if e.is_finite() {
                squares += e * e / r;
                logs += r.ln();
            }
        }
    }
    (squares, logs)
}

/// Mean over samples of the sum over measurements of squared errors.
fn mean_squares(fits: &[Fit]) -> f64 {
    let mut sum = 0.0;
    let mut n = 0usize;
    let n_experiments = fits.iter().map(|fit| fit.experiment + 1).max().unwrap_or(0);
    for experiment in 0..n_experiments {
        let of: Vec<&Fit> = fits.iter().filter(|fit| fit.experiment == experiment).collect();
        let length = of.first().map_or(0, |fit| fit.times.len());
        for sample in 0..length {
            let errors: Vec<f64> =
                of.iter().map(|fit| fit.measured[sample] - fit.predicted[sample]).filter(|e| e.is_finite()).collect();
            if !errors.is_empty() {
                n += 1;
                sum += errors.iter().map(|e| e * e).sum::<f64>();
            }
        }
    }
    sum / n.max(1) as f64
}

/// `100 (1 - |y - prediction| / |y - mean|)` per measurement, over all experiments.
fn fit_percent(study: &LinearStudy, fits: &[Fit]) -> Vec<(String, f64)> {
    study
        .measured
        .iter()
        .map(|signal| {
            let of = || fits.iter().filter(|fit| fit.name == signal.name);
            let values: Vec<f64> =
                of().flat_map(|fit| fit.measured.iter().copied()).filter(|y| y.is_finite()).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let spread: f64 = values.iter().map(|y| (y - mean).powi(2)).sum();
            let errors = of().flat_map(|fit| fit.measured.iter().zip(&fit.predicted)).map(|(y, p)| y - p);
            let missed: f64 = errors.filter(|e| e.is_finite()).map(|e| e * e).sum();
            (signal.name.clone(), 100.0 * (1.0 - (missed / spread).sqrt()))
        })
        .collect()
}

fn residual_summaries(loaded: &Loaded, study: &LinearStudy, innovations: &[Innovations]) -> Vec<ResidualSummary> {
    let m = study.measured.len();
    let accuracies = loaded.study.as_ref().map(|study| study.measurements.as_slice()).unwrap_or_default();
    study
        .measured
        .iter()
        .enumerate()
        .map(|(at, signal)| {
            let (mut plain, mut standardized) = (Vec::new(), Vec::new());
            for (data, found) in study.experiments().iter().zip(innovations) {
                for sample in data.first_counted..data.times.len() {
                    let (e, s) = (found.innovations[sample * m + at], found.variances[sample * m + at]);
                    plain.push(e);
                    standardized.push(e / s.sqrt());
                }
            }
            // An output-error fit weighs errors of unsaid size alike, which predicts nothing.
            let predicted = if !study.is_noise_free() {
                PredictedSize::OfIndependent
            } else if !accuracies.get(at).is_some_and(says_accuracy) {
                PredictedSize::Unsaid
            } else if study.has_disturbances {
                PredictedSize::OfCorrelated
            } else {
                PredictedSize::OfIndependent
            };
            let tests = residual_tests(&standardized, &plain, predicted);
            ResidualSummary {
                name: signal.name.clone(),
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

/// Residuals of a measurement beside an input, by experiment. Scores are those of the values that were counted, in their
/// order; without unknowns there are none.
fn with_input(
    study: &LinearStudy,
    innovations: &[Innovations],
    scores: &ScoreSeries,
    measurement: usize,
    input: usize,
    is_direct: bool,
) -> Vec<ResidualsWithInput> {
    let (m, p) = (study.measured.len(), scores.n_unknown);
    let mut all = Vec::new();
    for ((data, found), scores) in study.experiments().iter().zip(innovations).zip(&scores.experiments) {
        let q = scores.by_start.len() / scores.errors.len().max(1);
        let samples = || data.first_counted..data.times.len();
        let mut of = ResidualsWithInput {
            before: samples().map(|sample| data.input_before(sample, input)).collect(),
            at_once: samples().filter(|_| is_direct).map(|sample| data.input_at(sample, input)).collect(),
            ..ResidualsWithInput::default()
        };
        let mut value = 0;
        for sample in samples() {
            let (mut residual, mut at) = (f64::NAN, None);
            for other in 0..m {
                let (e, s) = (found.innovations[sample * m + other], found.variances[sample * m + other]);
                if e.is_finite() {
                    if other == measurement {
                        (residual, at) = (e / s.sqrt(), Some(value));
                    }
                    value += 1;
                }
            }
            of.residuals.push(residual);
            let row = |list: &[f64], width: usize| {
                at.map_or_else(|| vec![0.0; width], |at| list[at * width..(at + 1) * width].to_vec())
            };
            of.by_unknown.extend(row(&scores.by_error, p));
            of.by_start.extend(row(&scores.by_start, q));
        }
        all.push(of);
    }
    all
}
