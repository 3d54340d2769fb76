//! Log-likelihood of linear stochastic models, with and without gradient, against statsmodels and a NumPy filter.
//!
//! `cargo xtask bench likelihood` prints processor nanoseconds per sample. The servo comes from its components; the
//! models with 10 and 30 states are random and stable, with two measurements and four unknowns. All peers filter the
//! same samples and must agree on the value.
#![forbid(unsafe_code)]

use std::path::Path;

use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load};
use daesy::table::Table;
use daesy_bench::clock::best_of;
use daesy_estimate::descriptor::{Coefficients, ModelLayout, ParametricModel, SignalRows, StartMode, StartRows};
use daesy_estimate::discretize::{ContinuousModel, discretize};
use daesy_estimate::error::EstimateError;
use daesy_estimate::experiment::Experiment;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::state_space::state_space;
use daesy_pencil::Mat;
use serde_json::{Value, json};

const N_SAMPLES: usize = 10_000;
const STEP: f64 = 0.02;

fn normal(random: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * random.f64() - 1.0, 2.0 * random.f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// `x' = (A + theta_0 A_1 + ..) x + v`, two measurements.
struct RandomModel {
    layout: ModelLayout,
    a: Vec<Mat<f64>>,
    h: Mat<f64>,
    experiments: Vec<Experiment>,
}

impl RandomModel {
    fn new(n: usize, random: &mut fastrand::Rng) -> Self {
        let mut matrix =
            |rows: usize, columns: usize, size: f64| Mat::from_fn(rows, columns, |_, _| size * normal(random));
        let mut stable = matrix(n, n, 1.0 / (n as f64).sqrt());
        for i in 0..n {
            stable[(i, i)] -= 2.0;
        }
        let mut a = vec![stable];
        a.extend((0..4).map(|_| matrix(n, n, 0.1 / (n as f64).sqrt())));
        let times: Vec<f64> = (0..N_SAMPLES).map(|k| k as f64 * STEP).collect();
        let experiment = Experiment::with_held_inputs(times, vec![0.0; 2 * N_SAMPLES], vec![0.0; N_SAMPLES], 1);
        Self {
            layout: ModelLayout { n_unknown: 4, filters: Vec::new(), start: StartMode::Given },
            h: matrix(2, n, 1.0),
            a,
            experiments: vec![experiment],
        }
    }

    fn with_dynamics(&self, f: Mat<f64>, unit: f64) -> Coefficients {
        let n = f.nrows();
        let identity = |size: f64| Mat::from_fn(n, n, |i, j| if i == j { size } else { 0.0 });
        let mut insisted = StartRows::zeros(n, n, 1);
        insisted.variables = identity(unit);
        Coefficients {
            e: identity(unit),
            f,
            g: Mat::zeros(n, 1),
            j: identity(unit),
            intensities: vec![unit; n],
            measured: SignalRows { variables: &self.h * faer::Scale(unit), inputs: Mat::zeros(2, 1) },
            estimated: SignalRows::none(n, 1),
            variances: vec![0.1 * unit; 2],
            insisted,
            wished: StartRows::none(n, 1),
        }
    }
}

impl ParametricModel for RandomModel {
    fn layout(&self) -> &ModelLayout {
        &self.layout
    }

    fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError> {
        let f = theta.iter().zip(&self.a[1..]).fold(self.a[0].clone(), |sum, (t, a)| sum + a * faer::Scale(*t));
        Ok(self.with_dynamics(f, 1.0))
    }

    fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
        Ok((0..theta.len()).map(|at| self.with_dynamics(self.a[at + 1].clone(), 0.0)).collect())
    }

    fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }
}

fn rows(matrix: &Mat<f64>) -> Vec<Vec<f64>> {
    (0..matrix.nrows()).map(|i| (0..matrix.ncols()).map(|j| matrix[(i, j)]).collect()).collect()
}

fn race<M: ParametricModel>(name: &str, model: &M, theta: &[f64]) {
    let likelihood = Likelihood::new(model, theta, FilterOptions::default()).expect("the model has a likelihood");
    let exact = Likelihood::new(model, theta, FilterOptions { steady_tolerance: 0.0 }).expect("the same model");
    let value = likelihood.evaluate(theta).expect("it has a value").log_likelihood;
    let every_gain = exact.evaluate(theta).expect("it has a value").log_likelihood;
    let plain = best_of(6, || likelihood.evaluate(theta));
    let with_gradient = best_of(6, || likelihood.gradient(theta));
    let with_curvature = best_of(6, || likelihood.slope(theta));
    let with_scores = best_of(3, || likelihood.expand(theta));
    let without_switch = best_of(3, || exact.evaluate(theta));
    let gradient_without_switch = best_of(3, || exact.expand(theta));
    let coefficients = model.coefficients(theta).expect("they are finite");
    let space = state_space(&coefficients, &[]).expect("the model is regular").value;
    let continuous = ContinuousModel { dynamics: space.dynamics, input: space.input, intensity: space.intensity };
    let discrete = discretize(&continuous, STEP, 0);
    let m = space.measured.state.nrows();
    let measurements = &model.experiments()[0].measurements;
    let task = json!({
        "phi": rows(&discrete.transition),
        "q": rows(&discrete.covariance),
        "h": rows(&space.measured.state),
        "r": (0..m).map(|i| (0..m).map(|j| if i == j { coefficients.variances[i] } else { 0.0 }).collect()).collect::<Vec<Vec<f64>>>(),
        "y": measurements.chunks_exact(m).collect::<Vec<_>>(),
        "repetitions": 5,
    });
    let per_sample = |seconds: f64| 1e9 * seconds / N_SAMPLES as f64;
    println!("{name}: {} states, {} unknowns, {N_SAMPLES} samples of {m}", discrete.transition.nrows(), theta.len());
    println!("  daesy             {:>9.0} ns per sample, log-likelihood {value:.9}", per_sample(plain));
    println!("  daesy, gradient   {:>9.0} ns per sample", per_sample(with_gradient));
    println!("  and curvature     {:>9.0} ns per sample", per_sample(with_curvature));
    println!("  and scores        {:>9.0} ns per sample", per_sample(with_scores));
    println!(
        "  without the switch to a steady gain: {:.0} ns, with gradient {:.0} ns, value {every_gain:.9}",
        per_sample(without_switch),
        per_sample(gradient_without_switch)
    );
    match daesy_bench::peer::run("likelihood.py", &task.to_string()).map(|text| serde_json::from_str::<Value>(&text)) {
        Ok(Ok(answer)) => {
            for peer in ["statsmodels", "numpy"] {
                let (theirs, time) =
                    (answer[peer][0].as_f64().unwrap_or(f64::NAN), answer[peer][1].as_f64().unwrap_or(f64::NAN));
                println!(
                    "  {peer:<17} {:>9.0} ns per sample, relative difference {:.1e}; daesy is {:.1} times faster, with gradient {:.1}",
                    per_sample(time),
                    ((theirs - value) / value).abs(),
                    time / plain,
                    time / with_gradient,
                );
            }
        }
        Ok(Err(error)) => println!("  the peer's answer cannot be read: {error}"),
        Err(message) => println!("  no peer: {message}"),
    }
}

fn main() {
    // As in the program.
    daesy::program::keep_memory();
    let mut random = fastrand::Rng::with_seed(3);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../problems/servo");
    let truth = [("spring.c", 20.0), ("motor.d", 2e-4), ("sigma", 0.1)].map(|(name, value)| (name.to_owned(), value));
    let options = LoadOptions { set: truth.to_vec(), ..LoadOptions::default() };
    let mut loaded = load(&folder.join("identify.toml"), &options).expect("the study can be read");
    // No voltage, and a disturbance that starts at rest, so that peers without inputs see the same.
    let columns = vec![(0..N_SAMPLES).map(|k| k as f64 * STEP).collect(), vec![0.0; N_SAMPLES], vec![0.0; N_SAMPLES]];
    loaded.data = vec![Table { names: ["t", "u", "phi"].map(str::to_owned).to_vec(), columns }];
    for disturbance in loaded.study.iter_mut().flat_map(|study| &mut study.disturbances) {
        disturbance.item.starts_at_zero = true;
    }
    let study = LinearStudy::of(&loaded, SignalsWanted::No).expect("the study is linear");
    let theta = study.start();
    let samples = Likelihood::new(&study, &theta, FilterOptions::default())
        .and_then(|likelihood| likelihood.sample(&theta, &mut || normal(&mut random)))
        .expect("the model can be sampled");
    race("servo", &study.with_measurements(samples), &theta);
    for n in [10, 30] {
        let mut model = RandomModel::new(n, &mut random);
        let theta = [0.1, -0.2, 0.3, 0.1];
        let samples = Likelihood::new(&model, &theta, FilterOptions::default())
            .and_then(|likelihood| likelihood.sample(&theta, &mut || normal(&mut random)))
            .expect("the model can be sampled");
        model.experiments[0].measurements.clone_from(&samples[0]);
        race("random", &model, &theta);
    }
}
