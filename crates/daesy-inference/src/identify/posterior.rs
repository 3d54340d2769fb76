//! `identify --posterior N`: the whole distribution of the unknowns, by samples.
//!
//! The density is that of the likelihood (exact for linear models, that of the filter for others) times the priors;
//! an unknown without a prior has a flat one between its bounds. Chains begin around the maximum, in coordinates
//! without bounds.

use daesy_estimate::descriptor::{ParametricModel, StartMode};
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::pem::FilterLikelihood;
use daesy_estimate::posterior::{Convergence, Draws, LogDensity, SampleOptions, Slope, Transform, convergence, sample};
use daesy_estimate::prior::{Prior, log_prior};
use daesy_estimate::search::SearchSpace;
use daesy_graph::Span;
use daesy_graph::finding::{Finding, Level};
use daesy_pencil::Mat;
use daesy_system::Watch;
use faer::linalg::solvers::SelfAdjointEigen;
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
    /// What is to be told about them.
    pub diagnostics: Vec<Diagnostic>,
}

/// Log-likelihood and information at the maximum, and the density around it.
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
    let sampler = Sampler { loaded, problem: &problem, mode: &mode, options };
    let mut sampled = match &problem.linearity {
        Linearity::Constant(model) => sampler.linear(&posed(loaded, &problem, model, SignalsWanted::No)?),
        Linearity::TimeVarying(_) | Linearity::Nonlinear(_) => sampler.nonlinear(),
    }?;
    if loaded.watch.is_stopped() {
        return Err(Failure::Method(vec![Diagnostic::error("stopped", "stopped before the end")]));
    }
    sampled.judge();
    Ok(sampled)
}

struct Sampler<'a> {
    loaded: &'a Loaded,
    problem: &'a Problem,
    mode: &'a [f64],
    options: PosteriorOptions,
}

impl Sampler<'_> {
    fn linear(&self, study: &LinearStudy) -> Result<Posterior, Failure> {
        let fail = |error| failure(self.loaded, study, self.mode, &error);
        let likelihood = Likelihood::new(study, self.mode, FilterOptions::default()).map_err(fail)?;
        let information = likelihood.expand(self.mode).map_err(fail)?.information;
        let mut found = self.sample(&information, |theta| {
            let found = likelihood.gradient(theta).ok()?;
            Some(Slope { value: found.value.log_likelihood, gradient: found.gradient })
        })?;
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
        let information = likelihood.expansion(self.mode).map_err(fail)?.information;
        self.sample(&information, |theta| {
            let found = likelihood.expansion(theta).ok()?;
            Some(Slope { value: -found.value, gradient: found.gradient.iter().map(|slope| -slope).collect() })
        })
    }

    fn sample(
        &self,
        information: &Mat<f64>,
        likelihood: impl Fn(&[f64]) -> Option<Slope> + Sync,
    ) -> Result<Posterior, Failure> {
        let Problem { unknowns, space, .. } = self.problem;
        let priors: Vec<Option<Prior>> = unknowns.iter().map(|unknown| unknown.prior).collect();
        let curvature = self.refuse_improper(information, &priors)?;
        let transforms: Vec<Transform> =
            (0..unknowns.len()).map(|at| Transform::new(space.lower[at], space.upper[at], space.nominal[at])).collect();
        let density = Density { likelihood, priors: &priors, watch: &self.loaded.watch };
        let PosteriorOptions { n_draws, n_chains, seed } = self.options;
        let options = SampleOptions { n_chains, n_draws, n_warmup: n_warmup(n_draws, self.mode.len()), seed };
        let draws = sample(&density, &transforms, self.mode, &curvature, &options);
        if draws.theta.iter().any(|chain| chain.len() < n_draws) {
            let message = "the likelihood has no value around the estimate: no chain could begin";
            return Err(Failure::Method(vec![Diagnostic::error("posterior", message)]));
        }
        let of = |at: usize| -> Vec<Vec<f64>> {
            draws.theta.iter().map(|chain| chain.iter().map(|draw| draw[at]).collect()).collect()
        };
        let names: Vec<String> = unknowns.iter().map(|unknown| unknown.name.clone()).collect();
        let convergence = (0..names.len()).map(|at| convergence(&of(at))).collect();
        Ok(Posterior { names, draws, convergence, diagnostics: Vec::new() })
    }

    /// Information with that of priors and of bounds on both sides. A direction without any is an improper posterior.
    fn refuse_improper(&self, information: &Mat<f64>, priors: &[Option<Prior>]) -> Result<Mat<f64>, Failure> {
        let Problem { unknowns, space, .. } = self.problem;
        let n = unknowns.len();
        let curvature = Mat::from_fn(n, n, |i, j| {
            if i != j {
                return information[(i, j)];
            }
            information[(i, i)] + known_beforehand(space, priors[i], i, self.mode[i])
        });
        let flat = flat_directions(&curvature, space, unknowns);
        if flat.is_empty() {
            return Ok(curvature);
        }
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

/// Directions in which a curvature is zero but for rounding, as names of the unknowns in them.
fn flat_directions(curvature: &Mat<f64>, space: &SearchSpace, unknowns: &[Unknown]) -> Vec<Vec<String>> {
    let n = unknowns.len();
    let unit: Vec<f64> = (0..n)
        .map(|i| if curvature[(i, i)] > 0.0 { 1.0 / curvature[(i, i)].sqrt() } else { space.nominal[i] })
        .collect();
    let scaled = Mat::from_fn(n, n, |i, j| 0.5 * (curvature[(i, j)] + curvature[(j, i)]) * unit[i] * unit[j]);
    let Ok(eigen) = SelfAdjointEigen::new(scaled.as_ref(), faer::Side::Lower) else { return Vec::new() };
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    (0..n)
        .filter(|&k| values[k] < 1e-10)
        .map(|k| (0..n).filter(|&i| vectors[(i, k)].abs() > 0.1).map(|i| unknowns[i].name.clone()).collect())
        .collect()
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
            let message =
                format!("{} trajectories diverged: parts of the posterior may be missing", self.draws.divergences);
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
