//! Are the intervals of the servo's identification right? Identifies many artificial data sets at known parameters.
//!
//! `cargo xtask study servo-calibration [N] [SEED]` draws N data sets (1000 with seed 1 when left out) from the model
//! of `problems/servo` under its inputs, finds the unknowns by maximum likelihood and by an output-error fit that
//! ignores the disturbance, and counts how often the 95 % intervals hold the truth, how far the estimates are off on
//! average, and whether the innovations are as large as they should be. About a minute on two cores.

mod study;

use std::path::Path;

use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load};
use daesy::report::chart::{Chart, Scale, Series, Tick};
use daesy::table::Table;
use daesy_estimate::chi_square::chi_square_tail;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::search::{SearchEnd, SearchOptions, minimize};
use daesy_estimate::uncertainty::{Certainty, Uncertainty, confidence_interval};
use study::Record;

/// The fits of each data set.
const METHODS: [&str; 2] = ["maximum likelihood", "output error"];

/// Standard normal numbers by the polar method.
fn normal(random: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * random.f64() - 1.0, 2.0 * random.f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// What one fit of one data set gave.
struct Outcome {
    estimate: Vec<f64>,
    std: Vec<f64>,
    has_converged: bool,
}

fn fit(study: &LinearStudy, start: &[f64], has_scale: bool) -> Option<Outcome> {
    let mut likelihood = Likelihood::new(study, start, FilterOptions::default()).ok()?;
    let options = SearchOptions { absolute: 1e-9, ..SearchOptions::default() };
    let found = minimize(&mut likelihood, start, &study.space, &options, &mut |_| {}).ok()?;
    let expansion = likelihood.expand(&found.theta).ok()?;
    let mut information = expansion.information.clone();
    if has_scale {
        let all = likelihood.innovations(&found.theta).ok()?;
        let squares: f64 = all
            .iter()
            .flat_map(|of| of.innovations.iter().zip(&of.variances))
            .filter(|(e, _)| e.is_finite())
            .map(|(e, s)| e * e / s)
            .sum();
        information = &information * faer::Scale(expansion.value.n_counted as f64 / squares);
    }
    let sizes: Vec<f64> = found.theta.iter().map(|value| value.abs().max(1e-9)).collect();
    let uncertainty = Uncertainty::new(&Certainty {
        information: &information,
        scores: &expansion.scores,
        prior_precision: &[],
        sizes: &sizes,
        at_bound: &found.at_bound,
    });
    Some(Outcome { estimate: found.theta, std: uncertainty.std, has_converged: found.end == SearchEnd::Converged })
}

fn main() {
    let seed: u64 = std::env::args().nth(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    let n_sets: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/servo");
    let truth = [("spring.c", 20.0), ("motor.d", 2e-4), ("sigma", 0.1)].map(|(name, value)| (name.to_owned(), value));
    let options = LoadOptions { set: truth.to_vec(), ..LoadOptions::default() };
    let loaded = load(&folder.join("identify.toml"), &options).expect("the study can be read");
    let study = LinearStudy::of(&loaded, SignalsWanted::No).expect("the study is linear");
    let theta = study.start();
    let source = Likelihood::new(&study, &theta, FilterOptions::default()).expect("the model has a likelihood");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut methods = [Summary::new(&study), Summary::new(&study)];
    let mut band = [0usize; 2];
    for _ in 0..n_sets {
        let samples = source.sample(&theta, &mut || normal(&mut random)).expect("the model can be sampled");
        let data = study.clone().with_measurements(samples);
        // Innovations at the truth are standard normal after scaling.
        let likelihood = Likelihood::new(&data, &theta, FilterOptions::default()).expect("the same model");
        let all = likelihood.innovations(&theta).expect("the model fits its data");
        let squares: Vec<f64> = all
            .iter()
            .flat_map(|of| of.innovations.iter().zip(&of.variances).map(|(e, s)| e * e / s))
            .filter(|x| x.is_finite())
            .collect();
        let p = chi_square_tail(squares.iter().sum(), squares.len() as f64);
        band[0] += usize::from((0.025..=0.975).contains(&p));
        band[1] += 1;
        methods[0].take(fit(&data, &theta, false));
        let plain = data.without_noise(&theta);
        methods[1].take(fit(&plain, &theta, true));
    }
    let mut record = Record::new("servo-calibration");
    record.number("data sets", n_sets as f64);
    record.number("values in each", study_values(&study) as f64);
    let in_band = 100.0 * band[0] as f64 / band[1] as f64;
    record.number("innovations at the truth within their 95 % chi-square band, percent", in_band);
    let mut names = Vec::new();
    let mut columns = Vec::new();
    for (method, summary) in METHODS.iter().zip(&methods) {
        record.number(&format!("{method}: fits that converged"), summary.n_converged as f64);
        for (at, unknown) in study.unknowns.iter().enumerate() {
            if summary.estimates[at].iter().any(|estimate| *estimate != theta[at]) {
                summary.tell(&mut record, method, &unknown.name, at, theta[at]);
                names.push(format!("{method}: {}", unknown.name));
                columns.push(summary.estimates[at].clone());
            }
        }
    }
    let n_rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    for column in &mut columns {
        column.resize(n_rows, f64::NAN);
    }
    record.table("estimates", &Table { names, columns });
    let stiffness = |at: usize| vec![methods[at].estimates[0].clone()];
    let chart = Chart {
        title: format!("Stiffness of the axis from {n_sets} data sets"),
        y_label: "spring.c (N m/rad)".to_owned(),
        y_scale: Scale::Log,
        levels: vec![theta[0]],
        x_ticks: METHODS.iter().zip([1.0, 2.0]).map(|(method, at)| Tick { at, text: (*method).to_owned() }).collect(),
        series: vec![
            Series::boxes(METHODS[0], &[1.0], &stiffness(0), 0),
            Series::boxes(METHODS[1], &[2.0], &stiffness(1), 1),
        ],
        ..Chart::default()
    };
    record.picture(
        "stiffness",
        "Estimates of the stiffness: quartiles, median and mean (dot), whiskers, and what lies beyond.",
        &[chart],
    );
    record.write();
}

fn study_values(study: &LinearStudy) -> usize {
    use daesy_estimate::descriptor::ParametricModel;
    study.experiments().iter().map(daesy_estimate::experiment::Experiment::n_counted).sum()
}

/// What the fits of all data sets gave, by unknown.
struct Summary {
    n_converged: usize,
    estimates: Vec<Vec<f64>>,
    stds: Vec<Vec<f64>>,
    are_noise_scales: Vec<bool>,
}

impl Summary {
    fn new(study: &LinearStudy) -> Self {
        let n = study.unknowns.len();
        let lists = || vec![Vec::new(); n];
        Self { n_converged: 0, estimates: lists(), stds: lists(), are_noise_scales: study.noise_scales() }
    }

    fn take(&mut self, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        self.n_converged += usize::from(outcome.has_converged);
        for (at, (estimate, std)) in outcome.estimate.into_iter().zip(outcome.std).enumerate() {
            self.estimates[at].push(estimate);
            self.stds[at].push(std);
        }
    }

    fn tell(&self, record: &mut Record, method: &str, name: &str, at: usize, truth: f64) {
        let (estimates, stds) = (&self.estimates[at], &self.stds[at]);
        let n = estimates.len() as f64;
        let covers = |(estimate, std): &(&f64, &f64)| {
            let [low, high] = confidence_interval(**estimate, **std, self.are_noise_scales[at], f64::INFINITY);
            low <= truth && truth <= high
        };
        let n_covered = estimates.iter().zip(stds).filter(covers).count();
        let bias = estimates.iter().sum::<f64>() / n - truth;
        let spread = (estimates.iter().map(|estimate| (estimate - truth - bias).powi(2)).sum::<f64>() / n).sqrt();
        let stated: Vec<f64> = stds.iter().copied().filter(|std| std.is_finite()).collect();
        let of = |what: &str| format!("{method}: {name}: {what}");
        record.number(&of("truth"), truth);
        record.number(&of("intervals that hold it, percent"), 100.0 * n_covered as f64 / n);
        record.number(&of("bias"), bias);
        record.number(&of("standard error of the bias"), spread / n.sqrt());
        record.number(&of("spread of the estimates"), spread);
        record.number(&of("mean stated error"), stated.iter().sum::<f64>() / stated.len() as f64);
    }
}
