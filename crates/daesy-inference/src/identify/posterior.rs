//! `identify --posterior N`: the whole distribution of the unknowns, by samples.
//!
//! The density is that of the likelihood (exact for linear models, that of the filter for others) times the priors;
//! an unknown without a prior has a flat one between its bounds. Chains begin around the maximum, in coordinates
//! without bounds.

use daesy_estimate::descriptor::{ParametricModel, StartMode};
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::pem::FilterLikelihood;
use daesy_estimate::posterior::{
    Convergence, Draws, LogDensity, Mode, SampleOptions, Slope, Transform, convergence, have_ray_in_box,
    precision_by_fall, sample,
};
use daesy_estimate::prior::{Prior, WithPriors, log_prior};
use daesy_estimate::search::{Expansion, Objective, SearchEnd, SearchOptions, SearchSpace, minimize};
use daesy_graph::Span;
use daesy_graph::finding::{Finding, Level};
use daesy_pencil::Mat;
use daesy_system::Watch;
use faer::linalg::solvers::SelfAdjointEigen;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{Identification, Method};
use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series};
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
use daesy_study::problem::{Linearity, Problem, Unknown};

/// R-hat above which chains do not agree [@vehtari2021].
const AGREE: f64 = 1.01;

/// Effective draws for each chain below which summaries are not to be relied on [@vehtari2021].
const ENOUGH_EACH: f64 = 100.0;

/// A curvature is zero but for rounding below this, in units of its diagonal, or of typical sizes where that is zero.
const FLAT: f64 = 1e-10;

/// Searches for other modes.
const N_SEARCHES: usize = 8;

/// Steps of each.
const MAX_STEPS: usize = 50;

/// What a search may leave to gain in the logarithm of the density.
const LEFT: f64 = 1e-4;

/// A mode counts if the logarithm of the density is lower than the highest by no more than this.
const COUNTS: f64 = 10.0;

/// Two ends are the same mode within so many standard deviations.
const SAME_MODE: f64 = 3.0;

/// What is asked of the sampler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PosteriorOptions {
    /// Draws of each chain.
    pub n_draws: usize,
    /// Chains.
    pub n_chains: usize,
    /// Seed.
    pub seed: u64,
}

/// Samples of the unknowns.
#[derive(Clone, Debug)]
pub struct Posterior {
    /// Names of the unknowns.
    pub names: Vec<String>,
    /// The draws.
    pub draws: Draws,
    /// By unknown.
    pub convergence: Vec<Convergence>,
    /// Whether there are fewer draws than were asked for, because the run was stopped.
    pub is_stopped: bool,
    /// What is to be told about them.
    pub diagnostics: Vec<Diagnostic>,
}

/// The negative logarithm of a likelihood, for searches.
struct Searched<'a, S, E> {
    slope: &'a S,
    expansion: &'a E,
    watch: &'a Watch,
}

impl<S, E> Objective for Searched<'_, S, E>
where
    S: Fn(&[f64]) -> Option<Slope>,
    E: Fn(&[f64]) -> Option<Expansion>,
{
    type Refusal = ();

    fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
        if self.watch.is_stopped() {
            return Err(());
        }
        (self.slope)(theta).map(|slope| -slope.value).ok_or(())
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
        if self.watch.is_stopped() {
            return Err(());
        }
        (self.expansion)(theta).ok_or(())
    }
}

/// The posterior around its mode.
struct Density<'a, F> {
    likelihood: F,
    priors: &'a [Option<Prior>],
    watch: &'a Watch,
}

impl<F: Fn(&[f64]) -> Option<Slope> + Sync> LogDensity for Density<'_, F> {
    fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
        if self.watch.is_stopped() {
            return None;
        }
        let Slope { value, mut gradient } = (self.likelihood)(theta)?;
        for (slope, (prior, x)) in gradient.iter_mut().zip(self.priors.iter().zip(theta)) {
            *slope += prior.map_or(0.0, |prior| prior.slope(*x));
        }
        Some(Slope { value: value + log_prior(self.priors, theta), gradient })
    }

    fn is_over(&self) -> bool {
        self.watch.is_stopped()
    }
}

/// Samples the posterior of what was identified.
///
/// # Errors
/// When the method has no likelihood, the posterior is none, or the run was stopped.
pub fn posterior(loaded: &Loaded, found: &Identification, options: PosteriorOptions) -> Result<Posterior, Failure> {
    let freed = found.with_its_starts(loaded)?;
    let loaded = freed.as_ref().unwrap_or(loaded);
    let problem = Problem::read(loaded)?;
    if found.method != Method::MaximumLikelihood || problem.unknowns.is_empty() {
        let message = if problem.unknowns.is_empty() {
            "nothing is unknown: there is no posterior".to_owned()
        } else {
            format!("`{}` has no likelihood, and so no posterior", found.method.word())
        };
        let wrong = Diagnostic::error("posterior", message).with_help("take `method = \"ml\"`");
        return Err(Failure::Input(vec![wrong]));
    }
    let mode: Vec<f64> = found.parameters.iter().map(|parameter| parameter.estimate).collect();
    let ends = found.starts.iter().map(|search| search.end.clone()).filter(|end| !end.is_empty()).collect();
    let sampler = Sampler { loaded, problem: &problem, mode: &mode, ends, options };
    let mut sampled = match &problem.linearity {
        Linearity::Constant(model) => sampler.linear(&posed(loaded, &problem, model, SignalsWanted::No)?),
        Linearity::TimeVarying(_) | Linearity::Nonlinear(_) => sampler.nonlinear(),
    }?;
    sampled.judge();
    Ok(sampled)
}

struct Sampler<'a> {
    loaded: &'a Loaded,
    problem: &'a Problem,
    mode: &'a [f64],
    /// Where the searches of the identification ended.
    ends: Vec<Vec<f64>>,
    options: PosteriorOptions,
}

impl Sampler<'_> {
    fn linear(&self, study: &LinearStudy) -> Result<Posterior, Failure> {
        let fail = |error| failure(self.loaded, study, self.mode, &error);
        let likelihood = Likelihood::new(study, self.mode, FilterOptions::default()).map_err(fail)?;
        likelihood.evaluate(self.mode).map_err(fail)?;
        let slope = |theta: &[f64]| {
            let found = likelihood.gradient(theta).ok()?;
            Some(Slope { value: found.value.log_likelihood, gradient: found.gradient })
        };
        let expansion = |theta: &[f64]| {
            let found = likelihood.expand(theta).ok()?;
            let gradient = found.gradient.iter().map(|slope| -slope).collect();
            Some(Expansion { value: -found.value.log_likelihood, gradient, curvature: found.information })
        };
        let mut found = self.sample(&slope, &expansion)?;
        if study.layout().start == StartMode::Estimated {
            let note =
                Diagnostic::note("posterior-start", "for each draw the start is at its best value, not averaged");
            found.diagnostics.push(note.with_help("`mode = \"diffuse\"` in `[initial]` averages over all starts"));
        }
        Ok(found)
    }

    fn nonlinear(&self) -> Result<Posterior, Failure> {
        let study = PredictionStudy::new(self.loaded, self.problem, self.options.seed)?;
        let fail = |refusal| study.failure(self.loaded, &refusal);
        let problem = study.problem(study.settings.clone(), self.mode).map_err(fail)?;
        let likelihood = FilterLikelihood::new(
            &problem,
            filter_kind(self.loaded.study.as_ref()),
            &study.space,
            self.loaded.watch.clone(),
        );
        likelihood.expansion(self.mode).map_err(fail)?;
        let expansion = |theta: &[f64]| {
            let found = likelihood.expansion(theta).ok()?;
            Some(Expansion { value: found.value, gradient: found.gradient, curvature: found.information })
        };
        let slope = |theta: &[f64]| {
            let found = expansion(theta)?;
            Some(Slope { value: -found.value, gradient: found.gradient.iter().map(|slope| -slope).collect() })
        };
        self.sample(&slope, &expansion)
    }

    fn sample<S, E>(&self, likelihood: &S, expansion: &E) -> Result<Posterior, Failure>
    where
        S: Fn(&[f64]) -> Option<Slope> + Sync,
        E: Fn(&[f64]) -> Option<Expansion> + Sync,
    {
        let Problem { unknowns, space, .. } = self.problem;
        let priors: Vec<Option<Prior>> = unknowns.iter().map(|unknown| unknown.prior).collect();
        let searched = || {
            let inner = Searched { slope: likelihood, expansion, watch: &self.loaded.watch };
            WithPriors { inner, priors: &priors, factor: 1.0 }
        };
        let curvature = self.refuse_improper(&mut searched(), &priors)?;
        let modes = self.modes(&searched, &priors, curvature);
        let transforms: Vec<Transform> =
            (0..unknowns.len()).map(|at| Transform::new(space.lower[at], space.upper[at], space.nominal[at])).collect();
        let density = Density { likelihood, priors: &priors, watch: &self.loaded.watch };
        let PosteriorOptions { n_draws, n_chains, seed } = self.options;
        let options = SampleOptions { n_chains, n_draws, n_warmup: n_warmup(n_draws, self.mode.len()), seed };
        let points: Vec<Mode> = modes.iter().map(|found| found.mode.clone()).collect();
        let draws = sample(&density, &transforms, &points, &options);
        let n_found = draws.theta.iter().map(Vec::len).min().unwrap_or(0);
        let is_stopped = self.loaded.watch.is_stopped();
        if n_found < n_draws && (n_found == 0 || !is_stopped) {
            return Err(self.no_value());
        }
        let of = |at: usize| -> Vec<Vec<f64>> {
            draws.theta.iter().map(|chain| chain.iter().map(|draw| draw[at]).collect()).collect()
        };
        let names: Vec<String> = unknowns.iter().map(|unknown| unknown.name.clone()).collect();
        let convergence = (0..names.len()).map(|at| convergence(&of(at))).collect();
        let mut diagnostics: Vec<Diagnostic> = other_modes(&modes, &names).into_iter().collect();
        if n_found < n_draws {
            let message = format!(
                "stopped before the end: each of the {n_chains} chains is cut to {n_found} draws of {n_draws}, as many as \
                 all of them have"
            );
            diagnostics.push(Diagnostic::error("stopped", message).with_help("what follows rests on these draws"));
        }
        Ok(Posterior { names, draws, convergence, is_stopped: n_found < n_draws, diagnostics })
    }

    /// The estimate, and other modes that are about as high: ends of searches from all over the bounds, and of those
    /// that the identification made.
    fn modes<'p, O: Objective<Refusal = ()>>(
        &self,
        searched: &(impl Fn() -> WithPriors<'p, O> + Sync),
        priors: &[Option<Prior>],
        curvature: Mat<f64>,
    ) -> Vec<FoundMode> {
        let Problem { space, .. } = self.problem;
        let mut modes = vec![FoundMode { mode: Mode { theta: self.mode.to_vec(), curvature }, lower: 0.0 }];
        let Ok(value) = searched().value(self.mode) else { return modes };
        let options = SearchOptions { max_iterations: MAX_STEPS, absolute: LEFT, ..SearchOptions::default() };
        // Of both signs where nothing is said of it.
        let reach = |i: usize| 10.0 * self.mode[i].abs().max(space.nominal[i]);
        let finite = |bound: f64, i: usize, sign: f64| if bound.is_finite() { bound } else { sign * reach(i) };
        let everywhere = SearchSpace {
            lower: (0..self.mode.len()).map(|i| finite(space.lower[i], i, -1.0)).collect(),
            upper: (0..self.mode.len()).map(|i| finite(space.upper[i], i, 1.0)).collect(),
            nominal: space.nominal.clone(),
        };
        let mut starts = everywhere.starts(self.mode, N_SEARCHES + 1, self.options.seed);
        starts.splice(..1, self.ends.iter().cloned());
        let search = |from: &Vec<f64>| {
            let found = minimize(&mut searched(), from, space, &options, &mut |_| {}).ok()?;
            let has_ended = found.end == SearchEnd::Converged && found.expansion.value.is_finite();
            has_ended.then_some(found)
        };
        let mut ends: Vec<_> = starts.par_iter().filter_map(search).collect();
        ends.sort_by(|one, other| one.expansion.value.total_cmp(&other.expansion.value));
        let best = ends.first().map_or(value, |end| end.expansion.value.min(value));
        for end in ends.iter().filter(|end| end.expansion.value <= best + COUNTS) {
            let is_known = modes.iter().any(|known| distance(&known.mode, &end.theta) < SAME_MODE);
            let Some(information) = searched().inner.expand(&end.theta).ok().filter(|_| !is_known) else { continue };
            let curvature = self.with_beforehand(&information.curvature, priors, &end.theta);
            let mode = Mode { theta: end.theta.clone(), curvature };
            modes.push(FoundMode { mode, lower: end.expansion.value - value });
        }
        modes
    }

    /// Information with what is known of the unknowns beforehand.
    fn with_beforehand(&self, information: &Mat<f64>, priors: &[Option<Prior>], theta: &[f64]) -> Mat<f64> {
        let n = theta.len();
        Mat::from_fn(n, n, |i, j| {
            let beforehand = if i == j { known_beforehand(&self.problem.space, priors[i], i, theta[i]) } else { 0.0 };
            information[(i, j)] + beforehand
        })
    }

    /// Why there are no draws.
    fn no_value(&self) -> Failure {
        if self.loaded.watch.is_stopped() {
            let message = "stopped before every chain had its first draw after the warm-up: there are no draws";
            return Failure::Method(vec![Diagnostic::error("stopped", message)]);
        }
        let message = "the likelihood has no value around the estimate: no chain could begin";
        Failure::Method(vec![Diagnostic::error("posterior", message)])
    }

    /// Curvature with that of priors and of bounds on both sides. A direction without any is an improper posterior,
    /// unless it is that of an unknown along which the density falls away even so, or bounds end it on all sides.
    fn refuse_improper<O: Objective>(
        &self,
        searched: &mut WithPriors<'_, O>,
        priors: &[Option<Prior>],
    ) -> Result<Mat<f64>, Failure> {
        let Problem { unknowns, space, .. } = self.problem;
        let Ok(expansion) = searched.inner.expand(self.mode) else { return Err(self.no_value()) };
        let mut curvature = self.with_beforehand(&expansion.curvature, priors, self.mode);
        for at in 0..unknowns.len() {
            if curvature[(at, at)] * space.nominal[at].powi(2) < FLAT {
                curvature[(at, at)] += precision_by_fall(searched, self.mode, at, space).unwrap_or(0.0);
            }
        }
        let flat = FlatDirections::of(&curvature, space);
        if flat.is_none() || flat.are_closed(searched, self.mode, space) {
            return Ok(curvature);
        }
        let flat = flat.names(unknowns);
        let words: Vec<String> = flat.iter().map(|direction| direction.join(", ")).collect();
        let message = format!(
            "the posterior is improper: neither data nor priors nor bounds on both sides determine {}",
            words.join("; and ")
        );
        let finding = Finding::error("improper-posterior", Span::NONE, message)
            .with_names(flat.concat())
            .with_help("give it a `prior`, or `min` and `max`, or take it out of `[unknown]`");
        let sources = self.loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
        Err(Failure::Input(vec![Diagnostic::resolve(&finding, &sources)]))
    }
}

/// A search of the posterior for other modes ended here.
struct FoundMode {
    mode: Mode,
    /// By how much the logarithm of the density is lower than at the estimate.
    lower: f64,
}

/// The distance from a mode in standard deviations.
fn distance(mode: &Mode, theta: &[f64]) -> f64 {
    let off: Vec<f64> = theta.iter().zip(&mode.theta).map(|(there, here)| there - here).collect();
    let n = off.len();
    let square: f64 = (0..n).map(|i| (0..n).map(|j| off[i] * mode.curvature[(i, j)] * off[j]).sum::<f64>()).sum();
    square.max(0.0).sqrt()
}

/// What is said of modes beside the estimate.
fn other_modes(modes: &[FoundMode], names: &[String]) -> Option<Diagnostic> {
    let others = modes.get(1..).filter(|others| !others.is_empty())?;
    let words = |found: &FoundMode| {
        let values: Vec<String> =
            names.iter().zip(&found.mode.theta).map(|(name, value)| format!("{name} = {}", short(*value, 5))).collect();
        let by = short(found.lower.abs(), 3);
        let than = if found.lower < 0.0 { "higher" } else { "lower" };
        format!("at {} (log density {by} {than})", values.join(", "))
    };
    let places: Vec<String> = others.iter().map(words).collect();
    let message =
        format!("the posterior has more than one mode: beside the estimate one {}", places.join(", and one "));
    let help = "chains begin at all of them; where they do not pass from one to another, the draws do not say how much \
                each weighs. Bounds or a `prior` may exclude what cannot be";
    Some(Diagnostic::new(Level::Warning, "posterior-modes", message).with_help(help))
}

/// Draws before those that are kept. Chains begin around the mode with the metric of its curvature; what is left to learn
/// are the step, and where the curvature elsewhere is another one, as many numbers as the metric has rows in each of its
/// directions.
fn n_warmup(n_draws: usize, n_unknown: usize) -> usize {
    (n_draws / 4).max(75 + 25 * n_unknown).min(500)
}

/// What is known of an unknown beforehand, as a precision: that of its prior, or of a uniform distribution between
/// both bounds.
fn known_beforehand(space: &SearchSpace, prior: Option<Prior>, at: usize, x: f64) -> f64 {
    let width = space.upper[at] - space.lower[at];
    let box_precision = if width.is_finite() { 12.0 / (width * width) } else { 0.0 };
    let least = 1e-6 / (space.nominal[at] * space.nominal[at]);
    prior.map_or(0.0, |prior| prior.precision(x).max(least)) + box_precision
}

/// Directions in which a curvature is zero but for rounding.
struct FlatDirections {
    /// Orthonormal, in the units below.
    scaled: Mat<f64>,
    units: Vec<f64>,
}

impl FlatDirections {
    fn of(curvature: &Mat<f64>, space: &SearchSpace) -> Self {
        let n = curvature.nrows();
        let units: Vec<f64> = (0..n)
            .map(|i| if curvature[(i, i)] > 0.0 { 1.0 / curvature[(i, i)].sqrt() } else { space.nominal[i] })
            .collect();
        let scaled = Mat::from_fn(n, n, |i, j| 0.5 * (curvature[(i, j)] + curvature[(j, i)]) * units[i] * units[j]);
        let Ok(eigen) = SelfAdjointEigen::new(scaled.as_ref(), faer::Side::Lower) else {
            return Self { scaled: Mat::zeros(n, 0), units };
        };
        let (values, vectors) = (eigen.S().column_vector(), eigen.U());
        let flat: Vec<usize> = (0..n).filter(|&k| values[k] < FLAT).collect();
        Self { scaled: Mat::from_fn(n, flat.len(), |i, k| vectors[(i, flat[k])]), units }
    }

    fn is_none(&self) -> bool {
        self.scaled.ncols() == 0
    }

    /// Whether bounds end what is flat on all sides, so that it has a finite integral. They do if it is straight: the
    /// density is that of the estimate all the way to the bounds. Where it is bent, as that of `a*b` is, its way may pass
    /// between bounds that the straight one meets.
    fn are_closed<O: Objective>(&self, searched: &mut WithPriors<'_, O>, mode: &[f64], space: &SearchSpace) -> bool {
        /// Differences of the logarithm of the density along a way that is flat.
        const LEVEL: f64 = 1e-3;
        if have_ray_in_box(&self.scaled, space) {
            return false;
        }
        let Ok(here) = searched.value(mode) else { return false };
        (0..self.scaled.ncols()).all(|k| {
            [1.0, -1.0].into_iter().all(|sign| {
                let along: Vec<f64> =
                    self.units.iter().enumerate().map(|(i, unit)| sign * unit * self.scaled[(i, k)]).collect();
                let end = |i: usize| {
                    let bound = if along[i] > 0.0 { space.upper[i] } else { space.lower[i] };
                    if along[i] == 0.0 { f64::INFINITY } else { ((bound - mode[i]) / along[i]).max(0.0) }
                };
                let end = (0..mode.len()).map(end).fold(f64::INFINITY, f64::min);
                [0.25, 0.5, 0.75, 0.99].into_iter().all(|part| {
                    let there: Vec<f64> = mode.iter().zip(&along).map(|(x, d)| x + part * end * d).collect();
                    searched.value(&there).is_ok_and(|value| (value - here).abs() < LEVEL)
                })
            })
        })
    }

    /// The names of the unknowns in each.
    fn names(&self, unknowns: &[Unknown]) -> Vec<Vec<String>> {
        let of = |k: usize| {
            let takes_part = |(i, _): &(usize, &Unknown)| self.scaled[(*i, k)].abs() > 0.1;
            unknowns.iter().enumerate().filter(takes_part).map(|(_, unknown)| unknown.name.clone()).collect()
        };
        (0..self.scaled.ncols()).map(of).collect()
    }
}

impl Posterior {
    /// Tells what makes the draws doubtful.
    fn judge(&mut self) {
        let mut warn = |code: &str, message: String, help: &str| {
            self.diagnostics.push(Diagnostic::new(Level::Warning, code, message).with_help(help));
        };
        let worst = |value: &dyn Fn(&Convergence) -> f64| {
            let all = self.names.iter().zip(&self.convergence).map(|(name, found)| (name, value(found)));
            all.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        if let Some((name, rhat)) = worst(&|found| found.rhat).filter(|(_, rhat)| *rhat > AGREE || rhat.is_nan()) {
            let message = format!("the chains do not agree: R-hat of `{name}` is {rhat:.3}, above {AGREE}");
            warn("posterior-chains", message, "take more draws; look at the traces on the page (`--report`)");
        }
        let least = ENOUGH_EACH * self.draws.theta.len() as f64;
        if let Some((name, size)) =
            worst(&|found| -found.ess_bulk.min(found.ess_tail)).filter(|(_, size)| -size < least)
        {
            let message = format!("the draws of `{name}` are worth {:.0} independent ones, below {least:.0}", -size);
            warn("posterior-size", message, "take more draws");
        }
        if self.draws.divergences > 0 {
            let message = format!(
                "{} trajectories diverged, the shortest steps that were tried being meant for an acceptance of {}: parts \
                 of the posterior may be missing",
                self.draws.divergences, self.draws.target_acceptance
            );
            warn("posterior-divergences", message, "a narrow prior or other parameters may make it less curved");
        }
    }

    /// All draws of one unknown.
    fn column(&self, at: usize) -> Vec<f64> {
        self.draws.theta.iter().flatten().map(|draw| draw[at]).collect()
    }

    /// `chain`, `draw`, `log_density`, then the unknowns.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table { names: vec!["chain".into(), "draw".into(), "log_density".into()], columns: Vec::new() };
        let chains = self.draws.theta.iter().enumerate();
        table.columns.push(chains.flat_map(|(at, chain)| vec![(at + 1) as f64; chain.len()]).collect());
        let count = |chain: &Vec<Vec<f64>>| (1..=chain.len()).map(|at| at as f64).collect::<Vec<f64>>();
        table.columns.push(self.draws.theta.iter().flat_map(count).collect());
        table.columns.push(self.draws.log_density.concat());
        for (at, name) in self.names.iter().enumerate() {
            table.names.push(name.clone());
            table.columns.push(self.column(at));
        }
        table
    }

    fn by_name(&self, of: impl Fn(usize) -> f64) -> Value {
        let pairs = self.names.iter().enumerate().map(|(at, name)| {
            let value = of(at);
            (name.clone(), if value.is_finite() { json!(value) } else { Value::Null })
        });
        Value::Object(pairs.collect::<Map<String, Value>>())
    }

    /// The object of the JSON document; `file` is where the draws are.
    #[must_use]
    pub fn to_json(&self, file: Option<String>) -> Value {
        json!({
            "chains": self.draws.theta.len(),
            "draws": self.draws.theta.first().map_or(0, Vec::len),
            "rhat": self.by_name(|at| self.convergence[at].rhat),
            "ess": self.by_name(|at| self.convergence[at].ess_bulk),
            "ess_tail": self.by_name(|at| self.convergence[at].ess_tail),
            "divergences": self.draws.divergences,
            "mean": self.by_name(|at| mean(&self.column(at))),
            "std": self.by_name(|at| std(&self.column(at))),
            "q05": self.by_name(|at| quantile(&self.column(at), 0.05)),
            "q95": self.by_name(|at| quantile(&self.column(at), 0.95)),
            "acceptance": self.draws.acceptance,
            "target_acceptance": self.draws.target_acceptance,
            "evaluations": self.draws.n_evaluations,
            "file": file,
        })
    }

    /// Rows of a text table.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["posterior", "mean", "std", "5 %", "95 %", "R-hat", "ess"].map(str::to_owned).to_vec()];
        for (at, name) in self.names.iter().enumerate() {
            let (draws, found) = (self.column(at), &self.convergence[at]);
            rows.push(vec![
                name.clone(),
                short(mean(&draws), 6),
                short(std(&draws), 3),
                short(quantile(&draws, 0.05), 5),
                short(quantile(&draws, 0.95), 5),
                format!("{:.3}", found.rhat),
                format!("{:.0}", found.ess_bulk),
            ]);
        }
        rows
    }

    /// Traces and pairs on a page.
    pub fn add_to(&self, page: &mut Page) {
        page.heading("Posterior");
        let rows = self.rows();
        let head: Vec<&str> = rows[0].iter().map(String::as_str).collect();
        page.table(&head, &rows[1..]);
        for (at, name) in self.names.iter().enumerate().take(MOST_SHOWN) {
            let series = |(chain, draws): (usize, &Vec<Vec<f64>>)| Series {
                name: format!("chain {}", chain + 1),
                x: (1..=draws.len()).map(|draw| draw as f64).collect(),
                y: draws.iter().map(|draw| draw[at]).collect(),
                mark: Mark::Line,
                color: chain,
            };
            let chart = Chart {
                title: name.clone(),
                x_label: "draw".to_owned(),
                y_label: name.clone(),
                series: self.draws.theta.iter().enumerate().map(series).collect(),
                ..Chart::default()
            };
            page.figure(&chart, &format!("Trace of {name}: the chains should lie over each other."));
        }
        for b in 1..self.names.len().min(MOST_SHOWN) {
            for a in 0..b {
                let chart = Chart {
                    title: format!("{} and {}", self.names[a], self.names[b]),
                    x_label: self.names[a].clone(),
                    y_label: self.names[b].clone(),
                    series: vec![Series {
                        name: "draws".to_owned(),
                        x: self.column(a),
                        y: self.column(b),
                        mark: Mark::Dots,
                        color: 0,
                    }],
                    ..Chart::default()
                };
                page.figure(&chart, &format!("Draws of {} and {} together.", self.names[a], self.names[b]));
            }
        }
    }
}

/// Unknowns that a page shows at most.
const MOST_SHOWN: usize = 4;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn std(values: &[f64]) -> f64 {
    let center = mean(values);
    (values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)).sqrt()
}

fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = p * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + part * (sorted[high] - sorted[low])
}
