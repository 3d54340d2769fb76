//! Samples of the posterior of a linear state-space model against NumPyro and PyMC: effective draws for each processor
//! second.
//!
//! `cargo xtask bench posterior` takes a lag under a disturbance, with an unknown gain b and an unknown size s of the
//! disturbance, from 200 samples. All sample the same density by the No-U-Turn sampler, all must agree on means and
//! standard deviations within three Monte Carlo errors, and all count warm-up: as many draws as are kept for the peers,
//! a quarter as many for daesy, which begins with the metric of the maximum. The time of daesy holds everything from the
//! text of the study on; that of the peers begins when their model is compiled.
#![forbid(unsafe_code)]

use daesy::Watch;
use daesy::program::ask;
use daesy::source::{ModelText, Place, Source};
use daesy::table::Table;
use daesy_bench::clock::Stopwatch;
use serde_json::{Value, json};

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
[data]
file = "data"
[simulate]
start = 0
[identify]
method = "ml"
"#;

const N_SAMPLES: usize = 200;
const STEP: f64 = 0.1;
const N_DRAWS: usize = 500;
const N_CHAINS: usize = 2;

fn normal(random: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// The lag over a step, exactly: x' = b + w - x, w' = -2 w + 2 s noise.
struct Discrete {
    phi: [[f64; 2]; 2],
    /// Covariance over s^2.
    q: [[f64; 2]; 2],
}

fn discrete() -> Discrete {
    let integral = |a: f64| (1.0 - (-a * STEP).exp()) / a;
    let (slow, fast) = ((-STEP).exp(), (-2.0 * STEP).exp());
    let both = 4.0 * (integral(3.0) - integral(4.0));
    Discrete {
        phi: [[slow, slow - fast], [0.0, fast]],
        q: [[4.0 * (integral(2.0) - 2.0 * integral(3.0) + integral(4.0)), both], [both, 4.0 * integral(4.0)]],
    }
}

/// Mean, standard deviation and effective size of the draws of an unknown.
fn summary(of: impl Fn(&str) -> Option<f64>) -> [f64; 3] {
    ["mean", "std", "ess"].map(|key| of(key).unwrap_or(f64::NAN))
}

/// How many Monte Carlo errors lie between two means and two standard deviations. The error of a mean is `std / sqrt(ess)`,
/// that of the standard deviation of nearly normal draws `std / sqrt(2 ess)`.
fn distances([mean, std, ess]: [f64; 3], [their_mean, their_std, their_ess]: [f64; 3]) -> [f64; 2] {
    let errors = (std * std / ess + their_std * their_std / their_ess).sqrt();
    [(mean - their_mean).abs() / errors, (std - their_std).abs() / (errors / 2f64.sqrt())]
}

fn main() {
    let Discrete { phi, q } = discrete();
    let mut random = fastrand::Rng::with_seed(1);
    let (b, s) = (1.2, 0.3);
    let (mut x, mut w) = (0.0, s * normal(&mut random));
    let times: Vec<f64> = (1..=N_SAMPLES).map(|k| k as f64 * STEP).collect();
    let response: Vec<f64> = times.iter().map(|t| 1.0 - (-t).exp()).collect();
    let mut y = Vec::new();
    for gain in &response {
        let z = [normal(&mut random), normal(&mut random)];
        let root = q[0][0].sqrt();
        let next = phi[0][0] * x + phi[0][1] * w + s * root * z[0];
        let cross = q[0][1] / root;
        w = phi[1][1] * w + s * (cross * z[0] + (q[1][1] - cross * cross).sqrt() * z[1]);
        x = next;
        y.push(x + b * gain + 0.1 * normal(&mut random));
    }
    let model = ModelText { name: "lag.mo".to_owned(), text: MODEL.to_owned() };
    let place = Place::Study { name: "study".into(), text: STUDY.into(), folder: "".into(), models: vec![model] };
    let table = Table { names: vec!["t".into(), "x".into()], columns: vec![times, y.clone()] };
    let words = ["--posterior".to_owned(), N_DRAWS.to_string(), "--chains".to_owned(), N_CHAINS.to_string()];
    let clock = Stopwatch::start();
    let answer = ask("identify", Source { place, data: vec![table] }, &words, &Watch::default());
    let seconds = clock.seconds();
    let Some(ours) = answer.keys.get("posterior") else {
        println!("there is no posterior: {:?}", answer.diagnostics);
        return;
    };
    println!("{N_CHAINS} chains of {N_DRAWS} draws, {N_SAMPLES} samples");
    let mut rate = f64::INFINITY;
    for name in ["b", "s"] {
        let [mean, std, ess] = summary(|key| ours[key][name].as_f64());
        rate = rate.min(ess / seconds);
        println!("  daesy  {name}: mean {mean:.4}, standard deviation {std:.4}, {ess:.0} effective draws");
    }
    println!("  daesy  {seconds:.2} s, {rate:.0} effective draws a second");
    let task = json!({
        "phi": phi, "q": q, "p": [[0.0, 0.0], [0.0, 1.0]], "r": response, "y": y, "error": 0.1,
        "draws": N_DRAWS, "warmup": N_DRAWS, "chains": N_CHAINS,
    });
    for (peer, script) in [("NumPyro", "posterior.py"), ("PyMC", "posterior_pymc.py")] {
        match daesy_bench::peer::run(script, &task.to_string()).map(|text| serde_json::from_str::<Value>(&text)) {
            Ok(Ok(theirs)) => compare(ours, rate, peer, &theirs),
            Ok(Err(error)) => println!("  the answer of {peer} cannot be read: {error}"),
            Err(message) => println!("  no {peer}: {message}"),
        }
    }
}

/// Prints what a peer found, and how many times as many effective draws a second `rate` is.
fn compare(ours: &Value, rate: f64, peer: &str, theirs: &Value) {
    let seconds = theirs["seconds"].as_f64().unwrap_or(f64::NAN);
    let mut their_rate = f64::INFINITY;
    for name in ["b", "s"] {
        let found = summary(|key| theirs[name][key].as_f64());
        let [mean, std, ess] = found;
        their_rate = their_rate.min(ess / seconds);
        println!("  {peer}  {name}: mean {mean:.4}, standard deviation {std:.4}, {ess:.0} effective draws");
        let [means, stds] = distances(summary(|key| ours[key][name].as_f64()), found);
        println!("  Monte Carlo errors between the means {means:.1}, between the standard deviations {stds:.1}");
        assert!(means < 3.0 && stds < 3.0, "the two sample different densities");
    }
    println!("  {peer}  {seconds:.2} s, {their_rate:.1} effective draws a second");
    println!("  daesy has {:.1} times as many effective draws a second", rate / their_rate);
}
