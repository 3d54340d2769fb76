//! Maximum likelihood for nonlinear models, under the approximation of a filter that keeps means and covariances.

use std::time::Instant;

use daesy_estimate::memory::{Remembered, remembered_point};
use daesy_estimate::multi_start::{self, MultiStart, StartOutcome};
use daesy_estimate::nonlinear::StateEstimates;
use daesy_estimate::pem::{
    FilterKind, FilterLikelihood, FilterRequest, Parameterization, PointRefusal, PredictionProblem, grown_start,
};
use daesy_estimate::prior::{Prior, WithPriors, precisions};
use daesy_estimate::residual::{PredictedSize, ResidualSize, ResidualTests, residual_tests};
use daesy_estimate::search::{
    Objective, SearchEnd, SearchOptions, SearchProgress, SearchResult, minimize, settle, widths,
};
use daesy_graph::Span;
use daesy_graph::finding::Finding;

use super::certainty::Choice;
use super::fitted::{Found, Uncertainties, resolve, sizes, told};
use super::notebook::Notebook;
use super::pem::{fit_percent, residuals, rewritten, stopped};
use super::stopping::{SoFar, stopped_search};
use super::{Fit, Identifiability, Identification, IdentifyOptions, Method, ProgressLine};
use super::{accuracy, caveats, far};
use daesy_report::checkpoint::Checkpoint;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use daesy_study::prediction_study::PredictionStudy;
use daesy_study::prediction_study::filter_kind;
use daesy_study::problem::Problem;

/// The search ends when less than this is left to gain of the log-likelihood.
const ENOUGH: f64 = 1e-6;

/// Steps of a search at most.
const MAX_STEPS: usize = 60;

fn search_options() -> SearchOptions {
    SearchOptions { absolute: ENOUGH, relative: 0.0, max_iterations: MAX_STEPS, ..Default::default() }
}

/// Searches that an executor asks for, as numbers.
///
/// # Errors
/// As [`identify`].
pub fn evaluate_at(
    loaded: &Loaded,
    asked: &Problem,
    options: &IdentifyOptions,
    points: &[Vec<f64>],
) -> Result<Vec<Vec<f64>>, Failure> {
    let kind = filter_kind(loaded.study.as_ref());
    let study = PredictionStudy::new(loaded, asked, options.seed)?;
    let start = study.start();
    let problem = study.problem(study.settings.clone(), &start).map_err(|refusal| study.failure(loaded, &refusal))?;
    let priors: Vec<Option<Prior>> = study.unknowns.iter().map(|unknown| unknown.prior).collect();
    let found = points.iter().map(|point| {
        let from = point.get(1..).unwrap_or_default();
        let inner = FilterLikelihood::new(&problem, kind, &study.space, loaded.watch.clone());
        let mut likelihood = WithPriors { inner, priors: &priors, factor: 1.0 };
        let found = search_from(&mut likelihood, from, &study, &mut |_| {});
        found.map_or_else(|_| Vec::new(), |result| multi_start::to_numbers(&result))
    });
    Ok(found.collect())
}

/// One search.
fn search_from<O: Objective>(
    posterior: &mut O,
    from: &[f64],
    study: &PredictionStudy,
    observe: &mut dyn FnMut(&SearchProgress<'_>),
) -> Result<SearchResult<O::Refusal>, O::Refusal> {
    let absolute = if study.is_mixture() { ENOUGH_AT_FIRST } else { ENOUGH };
    let options = SearchOptions { absolute, ..search_options() };
    let found = minimize(posterior, from, &study.space, &options, observe)?;
    // Where a sample passes an event its derivative jumps.
    Ok(match study.meets_events() && !study.is_mixture() {
        true => settle(posterior, found, &study.space, &options, 0.5),
        false => found,
    })
}

/// Identifies a nonlinear model by maximum likelihood.
///
/// # Errors
/// Diagnostics, when the study is at fault or the search gives up.
pub fn identify(
    loaded: &Loaded,
    asked: &Problem,
    options: &IdentifyOptions,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut ProgressLine<'_>,
) -> Result<Identification, Failure> {
    let kind = filter_kind(loaded.study.as_ref());
    if matches!(kind, FilterKind::Particles { .. }) {
        let finding = Finding::error(
            "method",
            Span::NONE,
            "the likelihood of a particle filter is too rough for a search by derivatives",
        )
        .with_help("take `filter = \"unscented\"` or `\"extended\"` in `[estimate]`, or `method = \"pem\"`");
        return Err(Failure::Input(vec![resolve(loaded, &finding)]));
    }
    let study = PredictionStudy::new(loaded, asked, options.seed)?;
    let start = study.start();
    let problem = study.problem(study.settings.clone(), &start).map_err(|refusal| study.failure(loaded, &refusal))?;
    let priors = study.unknowns.iter().map(|unknown| unknown.prior).collect();
    let sought = Sought { loaded, study: &study, problem: &problem, kind, priors };
    let (searches, widths) = sought.search(&start, options, checkpoint, progress)?;
    let MultiStart { best, outcomes, iterations, refused } = searches;
    let Some(best) = best else {
        let none = || PointRefusal::NotFinite { what: "the start".to_owned() };
        return Err(study.failure(loaded, &refused.map_or_else(none, |start| start.refusal)));
    };
    if !best.expansion.value.is_finite() {
        return Err(no_likelihood(loaded, options, progress));
    }
    progress("standard errors");
    sought.finish(&best, widths, iterations, outcomes)
}

/// That no likelihood is finite, and the accuracies under which one would be.
fn no_likelihood(loaded: &Loaded, options: &IdentifyOptions, progress: &mut ProgressLine<'_>) -> Failure {
    let mut again = |freed: &Loaded, options: &IdentifyOptions, progress: &mut ProgressLine<'_>| {
        let problem = Problem::read(freed).ok()?;
        identify(freed, &problem, options, None, progress).ok()
    };
    let told = loaded
        .study
        .as_ref()
        .map(|study| accuracy::instead_of_nothing(loaded, study, options, progress, &mut again))
        .unwrap_or_default();
    let finding = if told.is_empty() {
        Finding::error("no-likelihood", Span::NONE, "the likelihood has no finite value at the start")
            .with_help("start closer to what the data say, or look whether measurements are that accurate")
    } else {
        let message = "with the accuracies of the study the data are impossible: their likelihood has no finite value";
        Finding::error("no-likelihood", Span::NONE, message).with_help("correct the accuracies as said below")
    };
    Failure::Input([finding].iter().chain(&told).map(|finding| resolve(loaded, finding)).collect())
}

/// A likelihood whose largest value is sought.
struct Sought<'p, 'a> {
    loaded: &'p Loaded,
    study: &'p PredictionStudy,
    problem: &'p PredictionProblem<'a>,
    kind: FilterKind,
    priors: Vec<Option<Prior>>,
}

/// Searches, with the widths over which the best of them took derivatives at last.
type Searches = (MultiStart<SearchResult<PointRefusal>, PointRefusal>, Option<Vec<f64>>);

impl<'p, 'a> Sought<'p, 'a> {
    fn likelihood(&self) -> FilterLikelihood<'p, 'a> {
        FilterLikelihood::new(self.problem, self.kind, &self.study.space, self.loaded.watch.clone())
    }

    /// Searches from all starts.
    fn search(
        &self,
        start: &[f64],
        options: &IdentifyOptions,
        checkpoint: Option<&mut Checkpoint>,
        progress: &mut ProgressLine<'_>,
    ) -> Result<Searches, Failure> {
        let &Self { loaded, study, .. } = self;
        let priors = &self.priors;
        let mut notebook = Notebook::new(checkpoint);
        let begun = Instant::now();
        let mut searches: MultiStart<SearchResult<PointRefusal>, PointRefusal> = MultiStart::default();
        let mut best_widths = None;
        let mut starts = study.space.starts(start, options.n_starts.max(1), options.seed);
        for start in &mut starts {
            let from = start.clone();
            *start = remembered_point(&mut notebook, "near", &from, &loaded.watch, || self.near(&from));
        }
        notebook.check()?;
        let mut far: Vec<Vec<f64>> = Vec::new();
        if let Some(elsewhere) = loaded.elsewhere.as_ref().filter(|_| starts.len() > 1) {
            let found = elsewhere.evaluate(&far::search_points(&starts));
            far = found.ok_or_else(|| study.failure(loaded, &stopped()))?;
        }
        for (at, from) in starts.iter().enumerate() {
            let mut objective = Remembered {
                inner: self.likelihood(),
                label: "filter".to_owned(),
                memory: &mut notebook,
                watch: loaded.watch.clone(),
            };
            let known = far.get(at).and_then(|numbers| multi_start::from_numbers(numbers, &study.space, |_| None));
            let mut observe = |state: &SearchProgress<'_>| {
                progress(&format!(
                    "start {}, step {}: log-likelihood {:.6}, last step {:.2e}, {:.0} s",
                    at + 1,
                    state.iteration,
                    -state.value,
                    state.step,
                    begun.elapsed().as_secs_f64()
                ));
            };
            // A search whose start was refused elsewhere ends here at once, with the reason.
            let found = match known {
                Some(result) => Ok(result),
                None => {
                    let mut posterior = WithPriors { inner: &mut objective, priors, factor: 1.0 };
                    let found = search_from(&mut posterior, from, study, &mut observe);
                    match found {
                        Ok(found) if !study.follows_events() || study.is_mixture() => {
                            Ok(on_the_scale_of_data(&mut objective, priors, study, found, &mut observe))
                        }
                        found => found,
                    }
                }
            };
            let widths = objective.inner.widths.take();
            notebook.check()?;
            let is_best = found.as_ref().is_ok_and(|found| {
                searches.best.as_ref().is_none_or(|best| found.expansion.value < best.expansion.value)
            });
            if is_best {
                best_widths = widths;
            }
            searches.add(from, found);
            if loaded.watch.is_stopped() {
                let of = |best: SearchResult<_>| SoFar { theta: best.theta, value: best.expansion.value };
                return Err(stopped_search(&study.unknowns, searches.best.map(of), options));
            }
        }
        Ok((searches, best_widths))
    }

    /// A start nearer to what the data say.
    fn near(&self, from: &[f64]) -> Vec<f64> {
        let study = self.study;
        let beginning = |share: f64, theta: &[f64]| study.beginning(share, theta).ok();
        let grown = match study.meets_events() && !study.is_mixture() {
            true => grown_start(&beginning, from, &study.space, &self.loaded.watch),
            false => from.to_vec(),
        };
        self.likelihood().approach(&grown).unwrap_or(grown)
    }

    /// What is said of the largest likelihood.
    fn finish(
        &self,
        best: &SearchResult<PointRefusal>,
        widths: Option<Vec<f64>>,
        iterations: usize,
        outcomes: Vec<StartOutcome>,
    ) -> Result<Identification, Failure> {
        let &Self { loaded, study, problem, kind, .. } = self;
        let priors = &self.priors;
        let fail = |refusal: PointRefusal| study.failure(loaded, &refusal);
        let mut filter = self.likelihood();
        filter.widths = widths;
        let expansion = filter.expansion(&best.theta).map_err(fail)?;
        let runs = filter.run(&best.theta).map_err(fail)?;
        let approximation = runs.first().map_or("", |run| run.approximation.words());
        let mut diagnostics = rewritten(loaded, study);
        diagnostics.extend(search_diagnostics(loaded, best));
        if filter.widths.is_some() {
            let message = "the likelihood is rough, as where relations of the model jump: derivatives were taken over distances \
                           on which data tell values apart";
            let note = Finding::note("rough-likelihood", Span::NONE, message)
                .with_help("`cost --grid` shows it; smooth functions in the place of relations make it smooth");
            diagnostics.push(resolve(loaded, &note));
        }
        diagnostics.extend(told(loaded, given_up(&runs)));
        refuse_idle(loaded, study, &expansion.information)?;
        let (scores, precision) = (&expansion.scores, precisions(priors, &best.theta));
        let sizes = sizes(&best.theta, &study.space);
        let Uncertainties { with_priors: uncertainty, by_data } =
            Uncertainties::new(&expansion.information, scores, &precision, &sizes, &best.at_bound);
        let fits = fits(study, problem, &runs);
        let residuals = residuals(study, &fits, PredictedSize::OfIndependent);
        let errors = Choice::of(&uncertainty).errors(&residuals);
        diagnostics.extend(told(loaded, errors.note()));
        let found = Found {
            unknowns: &study.unknowns,
            theta: &best.theta,
            at_bound: &best.at_bound,
            errors: &errors,
            robust_std: &uncertainty.robust_std,
        };
        let parameters = found.parameters(|at| study.space.lower[at] >= 0.0 && study.is_noise_scale(at));
        let places = || study.unknowns.iter().map(|unknown| unknown.span);
        diagnostics.extend(told(loaded, caveats::at_bounds(&parameters, places(), Some(&expansion.information))));
        diagnostics.extend(told(loaded, caveats::beyond_bounds(&parameters, places(), &study.space)));
        let flat_directions = caveats::named_directions(&parameters, &by_data.flat_directions);
        diagnostics.extend(told(loaded, caveats::flat(&flat_directions, &parameters)));
        let message = format!("the model is not linear; the likelihood rests on an approximation ({approximation})");
        diagnostics.push(resolve(loaded, &Finding::note("approximation", Span::NONE, message)));
        let method = Method::MaximumLikelihood;
        let warnings = loaded.study.iter().flat_map(|study| caveats::noise_size(&residuals, study, method));
        diagnostics.extend(told(loaded, warnings));
        let filter_failure = own_check(study, problem, kind, &best.theta, loaded);
        if let Some(failure) = &filter_failure {
            let message = format!("the filter fails its own check: {failure}");
            let warning = Finding::warning("filter-check", Span::NONE, message)
                .with_help("take `method = \"pem\"`, sample more often, or a `filter` that suits the model better");
            diagnostics.push(resolve(loaded, &warning));
        }
        let (n, n_unknown) = (expansion.n_counted, study.unknowns.len());
        let log_likelihood = -expansion.value;
        Ok(Identification {
            model: loaded.flat.model.clone(),
            method: Method::MaximumLikelihood,
            method_reason: String::new(),
            converged: best.end == SearchEnd::Converged,
            iterations,
            parameters,
            covariance: errors.rows(),
            robust_reason: errors.reason.map(str::to_owned),
            cost: expansion.value,
            log_prior: caveats::log_prior(priors, &best.theta),
            log_likelihood: Some(log_likelihood),
            aic: Some(2.0 * n_unknown as f64 - 2.0 * log_likelihood),
            bic: Some(n_unknown as f64 * (n as f64).ln() - 2.0 * log_likelihood),
            n_samples: n,
            n_density_values: Some(n),
            fit_percent: fit_percent(study, &fits),
            identifiability: Identifiability { rank: by_data.rank, n_unknown, flat_directions },
            residuals,
            errors_are_independent: true,
            fits,
            starts: if outcomes.len() > 1 { outcomes } else { Vec::new() },
            initial: Vec::new(),
            filter_failure,
            approximation: Some(approximation.to_owned()),
            validation: Vec::new(),
            predictions: Vec::new(),
            diagnostics,
        })
    }
}

/// Standard errors by derivatives and by the shape of a likelihood that differ by less are the same.
const AS_EXPECTED: f64 = 3.0;

/// Times that a search goes on with other widths, or from a better point.
const MAX_LOOKS: usize = 6;

/// What is left to gain of a log-likelihood that is rough.
const ENOUGH_OF_ROUGH: f64 = 0.02;

/// The same by differences over short distances, where others over long ones follow.
const ENOUGH_AT_FIRST: f64 = 0.1;

/// Goes on from where a search ended if the likelihood does not rise around it as its derivatives say: with derivatives
/// by differences over the widths that it does have, and from the best point that was seen. The likelihood of a mixture
/// has steps wherever a point of it changes its discrete state, and is always gone on with.
fn on_the_scale_of_data(
    objective: &mut Remembered<'_, FilterLikelihood<'_, '_>>,
    priors: &[Option<Prior>],
    study: &PredictionStudy,
    mut found: SearchResult<PointRefusal>,
    observe: &mut dyn FnMut(&SearchProgress<'_>),
) -> SearchResult<PointRefusal> {
    let (label, space) = (objective.label.clone(), &study.space);
    for look in 1..=MAX_LOOKS {
        if objective.watch.is_stopped() || !found.expansion.value.is_finite() {
            break;
        }
        let mut posterior = WithPriors { inner: &mut *objective, priors, factor: 1.0 };
        let seen = widths(&mut posterior, &found, space);
        let has_steps = study.is_mixture() && objective.inner.widths.is_none();
        let is_as_expected = seen.are_as_expected(AS_EXPECTED) && !has_steps;
        if is_as_expected && seen.better.is_none() {
            break;
        }
        let is_rough = !is_as_expected || objective.inner.widths.is_some();
        if is_rough {
            objective.inner.widths = Some(seen.widths.iter().map(|width| 0.5 * width).collect());
            objective.label = format!("{label}{look}");
        }
        let from = seen.better.unwrap_or_else(|| found.theta.clone());
        let absolute = if is_rough { ENOUGH_OF_ROUGH } else { ENOUGH };
        let options = SearchOptions { absolute, ..search_options() };
        let mut posterior = WithPriors { inner: &mut *objective, priors, factor: 1.0 };
        let Ok(next) = minimize(&mut posterior, &from, space, &options, observe) else { break };
        let is_better = next.expansion.value < found.expansion.value;
        let iterations = found.iterations + next.iterations;
        if is_better || is_rough {
            found = next;
        }
        found.iterations = iterations;
        // Teeth stop a search short of what its quadratic model promises.
        if is_rough && found.end == SearchEnd::Stuck {
            found.end = SearchEnd::Converged;
        }
    }
    found
}

fn search_diagnostics(loaded: &Loaded, best: &SearchResult<PointRefusal>) -> Vec<Diagnostic> {
    if best.end != SearchEnd::TooManyIterations {
        return Vec::new();
    }
    let message = format!("the search did not converge within {} steps", best.iterations);
    let warning = Finding::warning("not-converged", Span::NONE, message)
        .with_help("start closer, or leave out unknowns that the data do not determine");
    vec![resolve(loaded, &warning)]
}

/// An unknown without information cannot be found.
fn refuse_idle(loaded: &Loaded, study: &PredictionStudy, information: &daesy_pencil::Mat<f64>) -> Result<(), Failure> {
    let wrong: Vec<Diagnostic> = study
        .unknowns
        .iter()
        .enumerate()
        .filter(|(at, unknown)| information[(*at, *at)] == 0.0 && unknown.prior.is_none())
        .map(|(_, unknown)| {
            let message = format!("`{}` has no influence on the measurements", unknown.name);
            let finding = Finding::error("idle-unknown", unknown.span, message)
                .with_names([&unknown.name])
                .with_help("take it out of `[unknown]`, or measure a signal that depends on it");
            resolve(loaded, &finding)
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Input(wrong)) }
}

/// Artificial data sets on which a filter is checked.
const CHECKED_SETS: usize = 6;

/// Seed of these data, beside that of everything else.
const CHECK_SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Variances within this factor of each other do no harm to estimates.
const GOOD_ENOUGH: f64 = 1.5;

/// Prediction errors that are white are as correlated as these with this probability.
const BELIEVABLE: f64 = 1e-3;

/// Compares the distribution that a filter predicts with that of the model: on data that the model makes at the
/// estimate, the innovations over their predicted standard deviations must have a mean square of 1 and be white. Says
/// what is wrong if the mean square lies outside of its 99.9 % band and is off by more than a factor of 1.5; or if they
/// are not white, and the variance of their sum, 1 + 2 times the sum of their correlations, is off by as much. A
/// disturbance that acts by its square shows in the latter: normal distributions hold no correlation of a state with a
/// square, so that the filter takes for new what goes on from sample to sample.
///
/// Nothing where the model makes no data at the estimate.
fn own_check(
    study: &PredictionStudy,
    problem: &PredictionProblem<'_>,
    kind: FilterKind,
    theta: &[f64],
    loaded: &Loaded,
) -> Option<String> {
    let sets = study.artificial_data(theta, CHECKED_SETS, study.settings.seed ^ CHECK_SEED, &loaded.watch).ok()?;
    let variances = Parameterization::variances(study, theta).ok()?;
    let n_outputs = study.measured.len();
    let mut standardized: Vec<Vec<f64>> = vec![Vec::new(); n_outputs];
    for set in &sets {
        for (experiment, values) in set.iter().enumerate() {
            let own = &problem.experiments()[experiment];
            let gaps = values.iter().zip(&own.measured);
            let measured: Vec<f64> = gaps.map(|(value, own)| if own.is_nan() { f64::NAN } else { *value }).collect();
            let request = FilterRequest { experiment, measured: &measured, variances: &variances, smooths: false };
            let run = problem.filter(theta, &request, &kind, &loaded.watch).ok()?;
            for (at, (e, s)) in run.innovations.iter().zip(&run.innovation_std).enumerate() {
                standardized[at % n_outputs].push(e / s);
            }
        }
    }
    let tests: Vec<ResidualTests> =
        standardized.iter().map(|errors| residual_tests(errors, errors, PredictedSize::OfIndependent)).collect();
    let is_off = |ratio: f64| ratio.max(1.0 / ratio) > GOOD_ENOUGH;
    let size = ResidualSize::overall(&tests.iter().map(|tests| tests.size).collect::<Vec<_>>());
    if size.is_doubtful() && is_off(size.normalized_variance) {
        return Some(format!(
            "on data that the model makes, its prediction errors have a normalized variance of {:.3}",
            size.normalized_variance
        ));
    }
    let correlated = tests
        .iter()
        .zip(&study.measured)
        .find(|(tests, _)| tests.whiteness < BELIEVABLE && is_off(tests.long_run_variance.max(f64::MIN_POSITIVE)));
    correlated.map(|(tests, measured)| {
        format!(
            "on data that the model makes, its prediction errors of `{}` are not white: their sum has {:.3} times the \
             variance of white ones",
            measured.name, tests.long_run_variance
        )
    })
}

/// A weight of discrete states that were given up beyond which that is told.
const NOTICEABLE: f64 = 1e-3;

/// That a filter held more discrete states possible than it keeps.
pub(crate) fn given_up(runs: &[StateEstimates]) -> Option<Finding> {
    let mixtures = runs.iter().filter_map(|run| run.mixture.as_ref());
    let most = mixtures.map(|mixture| mixture.given_up).fold(0.0, f64::max);
    if most <= NOTICEABLE {
        return None;
    }
    let message = format!(
        "the filter held more discrete states possible than it keeps, and gave up some of the probability {most:.2} together"
    );
    let help = "discrete variables that count or remember much make many discrete states: leave those out that nothing \
                depends on";
    Some(Finding::warning("discrete-states", Span::NONE, message).with_help(help))
}

/// Predictions one sample ahead.
pub(super) fn fits(study: &PredictionStudy, problem: &PredictionProblem<'_>, runs: &[StateEstimates]) -> Vec<Fit> {
    let m = study.measured.len();
    let mut fits = Vec::new();
    for (at, (experiment, run)) in problem.experiments().iter().zip(runs).enumerate() {
        for (output, measured) in study.measured.iter().enumerate() {
            let column = |values: &[f64]| values.iter().skip(output).step_by(m).copied().collect::<Vec<f64>>();
            let mut values = column(&experiment.measured);
            let predicted = values.iter().zip(column(&run.innovations)).map(|(value, error)| value - error).collect();
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
                predicted,
                std: column(&run.innovation_std),
            });
        }
    }
    fits
}
