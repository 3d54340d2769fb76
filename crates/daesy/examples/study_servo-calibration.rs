//! Are the intervals of the servo's identification right? Identifies many artificial data sets at known parameters.
//!
//! `cargo xtask study servo-calibration [N]` draws N data sets (1000 when left out) from the model of `problems/servo` under its inputs, finds
//! the unknowns by maximum likelihood and by an output-error fit that ignores the disturbance, and counts how often the 95 %
//! intervals hold the truth, how far the estimates are off on average, and whether the innovations are as large as they should be.

use std::path::Path;

use daesy::linear_study::{LinearStudy, SignalsWanted, build_linear_study};
use daesy::load::{LoadOptions, load};
use daesy_estimate::chi_square::{NORMAL_95, chi_square_tail};
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::search::{SearchEnd, SearchOptions, minimize};
use daesy_estimate::uncertainty::Uncertainty;

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
    let uncertainty = Uncertainty::new(&information, &expansion.score_products, &sizes, &found.at_bound);
    Some(Outcome { estimate: found.theta, std: uncertainty.std, has_converged: found.end == SearchEnd::Converged })
}

fn main() {
    let n_sets: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1000);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/servo");
    let truth = [("spring.c", 20.0), ("motor.d", 2e-4), ("sigma", 0.1)].map(|(name, value)| (name.to_owned(), value));
    let options = LoadOptions { set: truth.to_vec(), ..LoadOptions::default() };
    let mut loaded = load(&folder.join("identify.toml"), &options).expect("the study can be read");
    let study = build_linear_study(&mut loaded, SignalsWanted::No).expect("the study is linear");
    let theta = study.start();
    let source = Likelihood::new(&study, &theta, FilterOptions::default()).expect("the model has a likelihood");
    let mut random = fastrand::Rng::with_seed(1);
    let n = theta.len();
    let mut methods = [Summary::new(n), Summary::new(n)];
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
        methods[0].take(fit(&data, &theta, false), &theta);
        let plain = data.without_noise(&theta);
        methods[1].take(fit(&plain, &theta, true), &theta);
    }
    println!("{n_sets} data sets of the servo, {} values each", study_values(&study));
    println!(
        "innovations at the truth within their 95 % chi-square band: {:.1} %",
        100.0 * band[0] as f64 / band[1] as f64
    );
    for (name, summary) in ["maximum likelihood", "output error, disturbance ignored"].iter().zip(&methods) {
        println!("{name}: {} fits converged", summary.n_converged);
        for (at, unknown) in study.unknowns.iter().enumerate() {
            summary.tell(&unknown.name, at, theta[at]);
        }
    }
}

fn study_values(study: &LinearStudy) -> usize {
    use daesy_estimate::descriptor::ParametricModel;
    study.experiments().iter().map(daesy_estimate::experiment::Experiment::n_counted).sum()
}

/// Sums over data sets.
struct Summary {
    n: usize,
    n_converged: usize,
    covered: Vec<usize>,
    sums: Vec<f64>,
    squares: Vec<f64>,
    stds: Vec<f64>,
}

impl Summary {
    fn new(n: usize) -> Self {
        Self {
            n: 0,
            n_converged: 0,
            covered: vec![0; n],
            sums: vec![0.0; n],
            squares: vec![0.0; n],
            stds: vec![0.0; n],
        }
    }

    fn take(&mut self, outcome: Option<Outcome>, truth: &[f64]) {
        let Some(outcome) = outcome else { return };
        self.n += 1;
        self.n_converged += usize::from(outcome.has_converged);
        for (at, truth) in truth.iter().enumerate() {
            let error = outcome.estimate[at] - truth;
            self.covered[at] += usize::from(error.abs() <= NORMAL_95 * outcome.std[at]);
            self.sums[at] += error;
            self.squares[at] += error * error;
            self.stds[at] += outcome.std[at];
        }
    }

    fn tell(&self, name: &str, at: usize, truth: f64) {
        let n = self.n as f64;
        let bias = self.sums[at] / n;
        let spread = (self.squares[at] / n - bias * bias).max(0.0).sqrt();
        println!(
            "  {name}: truth {truth}, covered {:.1} %, bias {bias:.3e} (standard error of it {:.1e}), spread {spread:.3e}, mean stated error {:.3e}",
            100.0 * self.covered[at] as f64 / n,
            spread / n.sqrt(),
            self.stds[at] / n,
        );
    }
}
