//! Are the samples of posteriors right? Simulation-based calibration [@talts2018]: unknowns drawn from their priors,
//! data drawn from the model, and the rank of each unknown among samples of its posterior must be uniform.
//!
//! `cargo xtask study posterior-calibration [N]` does it for N data sets (200 when left out) of a linear model under a
//! disturbance, with an unknown gain and an unknown size of the disturbance. Minutes on two cores.

mod study;

use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load_source};
use daesy::source::{ModelText, Place, Source};
use daesy::table::Table;
use daesy_estimate::chi_square::chi_square_tail;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::posterior::{LogDensity, Mode, SampleOptions, Slope, Transform, sample};
use daesy_estimate::prior::{Prior, log_prior};
use study::Record;

const MODEL: &str = "model Lag parameter Real b = 1; input Real w; Real x(start = 0, fixed = true);
equation der(x) = b + w - x; end Lag;";

const STUDY: &str = r#"
[model]
file = "lag.mo"
[unknown]
b = { start = 1, prior = { normal = { mean = 1, std = 0.5 } } }
s = { start = 0.3, prior = { lognormal = { mean = 0.3, std = 0.15 } } }
[disturbances]
w = { std = "s", time_constant = 0.5 }
[measurements]
x = { std = 0.1 }
[simulate]
start = 0
"#;

/// Samples of each posterior that a rank is taken among, and bins of the ranks.
const N_RANKED: usize = 99;
const N_BINS: usize = 10;

struct Posterior<'a> {
    likelihood: Likelihood<'a, LinearStudy>,
    priors: Vec<Option<Prior>>,
}

impl LogDensity for Posterior<'_> {
    fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
        let found = self.likelihood.gradient(theta).ok()?;
        let slopes = found.gradient.iter().zip(&self.priors).zip(theta);
        Some(Slope {
            value: found.value.log_likelihood + log_prior(&self.priors, theta),
            gradient: slopes.map(|((slope, prior), x)| slope + prior.map_or(0.0, |prior| prior.slope(*x))).collect(),
        })
    }
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * random.f64() - 1.0, 2.0 * random.f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

fn drawn(prior: Option<Prior>, random: &mut fastrand::Rng) -> f64 {
    match prior {
        Some(Prior::Normal { mean, std }) => mean + std * normal(random),
        Some(Prior::Lognormal { location, scale }) => (location + scale * normal(random)).exp(),
        _ => panic!("the study has normal and lognormal priors"),
    }
}

fn main() {
    let n_sets: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(200);
    let model = ModelText { name: "lag.mo".to_owned(), text: MODEL.to_owned() };
    let place = Place::Study { name: "study".into(), text: STUDY.into(), folder: "".into(), models: vec![model] };
    let times: Vec<f64> = (1..=40).map(|k| 0.1 * f64::from(k)).collect();
    let table = Table { names: vec!["t".into(), "x".into()], columns: vec![times.clone(), vec![0.0; times.len()]] };
    let source = Source { place, data: vec![table] };
    let loaded = load_source(&source, &LoadOptions::default()).expect("the study can be read");
    let study = LinearStudy::of(&loaded, SignalsWanted::No).expect("the study is linear");
    let priors: Vec<Option<Prior>> = study.unknowns.iter().map(|unknown| unknown.prior).collect();
    let space = &study.space;
    let transforms: Vec<Transform> =
        (0..priors.len()).map(|at| Transform::new(space.lower[at], space.upper[at], space.nominal[at])).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut bins = vec![[0usize; N_BINS]; priors.len()];
    let mut divergences = 0;
    for set in 0..n_sets {
        let theta: Vec<f64> = priors.iter().map(|prior| drawn(*prior, &mut random)).collect();
        let maker = Likelihood::new(&study, &theta, FilterOptions::default()).expect("the model has a likelihood");
        let data = maker.sample(&theta, &mut || normal(&mut random)).expect("the model can be sampled");
        let seen = study.clone().with_measurements(data);
        let likelihood = Likelihood::new(&seen, &theta, FilterOptions::default()).expect("the same model");
        let curvature = likelihood.expand(&theta).expect("the model fits its data").information;
        let near = [Mode { theta: theta.clone(), curvature }];
        let posterior = Posterior { likelihood, priors: priors.clone() };
        // Every tenth draw, as good as independent; a quarter as many for the warm-up, as the program takes.
        let n_draws = 10 * N_RANKED;
        let options = SampleOptions { n_chains: 1, n_draws, n_warmup: n_draws / 4, seed: set as u64 };
        let draws = sample(&posterior, &transforms, &near, &options);
        divergences += draws.divergences;
        for (at, bins) in bins.iter_mut().enumerate() {
            let below = draws.theta[0].iter().skip(9).step_by(10).filter(|draw| draw[at] < theta[at]).count();
            bins[below * N_BINS / (N_RANKED + 1)] += 1;
        }
    }
    let mut record = Record::new("posterior-calibration");
    record.number("data sets", n_sets as f64);
    record.number("divergences", divergences as f64);
    let expected = n_sets as f64 / N_BINS as f64;
    for (unknown, bins) in study.unknowns.iter().zip(&bins) {
        let statistic: f64 = bins.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
        let p = chi_square_tail(statistic, (N_BINS - 1) as f64);
        record.number(&format!("{}: probability of ranks at least as uneven, by chi-square", unknown.name), p);
    }
    let columns = bins.iter().map(|bins| bins.iter().map(|count| *count as f64).collect()).collect();
    let names = study.unknowns.iter().map(|unknown| unknown.name.clone()).collect();
    record.table("ranks", &Table { names, columns });
    record.write();
}
