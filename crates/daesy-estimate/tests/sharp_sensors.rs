//! Standard deviations given all values, where sensors are much sharper than what was known before them.

use daesy_estimate::descriptor::{
    Coefficients, FilterBlock, ModelLayout, ParametricModel, SignalRows, StartMode, StartRows,
};
use daesy_estimate::error::EstimateError;
use daesy_estimate::experiment::{Experiment, Segment};
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use faer::Mat;
use faer::linalg::solvers::Solve;

/// `x' = A x + b w`, `y = c x + e`, without unknowns.
struct Process {
    layout: ModelLayout,
    coefficients: Coefficients,
    experiments: Vec<Experiment>,
}

impl ParametricModel for Process {
    fn layout(&self) -> &ModelLayout {
        &self.layout
    }

    fn coefficients(&self, _: &[f64]) -> Result<Coefficients, EstimateError> {
        Ok(self.coefficients.clone())
    }

    fn derivatives(&self, _: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
        Ok(Vec::new())
    }

    fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }
}

impl Process {
    fn new(a: Mat<f64>, b: Mat<f64>, c: Mat<f64>, sensor: f64, values: &[f64], start: StartMode) -> Self {
        let n = a.nrows();
        let filters = match start {
            StartMode::Diffuse => Vec::new(),
            _ => vec![FilterBlock { states: 0..n, starts_at_zero: false }],
        };
        // Values that an unknown start does not have, one for each state.
        let wished = match start {
            StartMode::Diffuse => StartRows { variables: Mat::identity(n, n), ..StartRows::zeros(n, n, 0) },
            _ => StartRows::none(n, 0),
        };
        let signal = SignalRows { variables: c, inputs: Mat::zeros(1, 0) };
        let last = values.len() - 1;
        let segment = |k: usize| Segment { length: if k < last { STEP } else { 0.0 }, kick: Vec::new() };
        Self {
            layout: ModelLayout { n_unknown: 0, filters, start },
            coefficients: Coefficients {
                e: Mat::identity(n, n),
                f: a,
                g: Mat::zeros(n, 0),
                j: b,
                intensities: vec![1.0],
                measured: signal.clone(),
                estimated: signal,
                variances: vec![sensor * sensor],
                insisted: StartRows::none(n, 0),
                wished,
            },
            experiments: vec![Experiment {
                times: (0..values.len()).map(|k| STEP * k as f64).collect(),
                measurements: values.to_vec(),
                segments: (0..values.len()).map(segment).collect(),
                segment_of: (0..values.len()).collect(),
                inputs: Vec::new(),
                n_inputs: 0,
                degree: 0,
                first_counted: 0,
            }],
        }
    }

    /// A stationary process of the covariance [`covariance`], smooth of order `p`: `(d/dt + lambda)^(p + 1) y = w`, with
    /// states `y`, `y' / lambda`, .. and as strong a `w` as makes the standard deviation of `y` one.
    fn matern(p: usize, std: f64, length: f64, sensor: f64, values: &[f64]) -> Self {
        let lambda = ((2 * p + 1) as f64).sqrt() / length;
        let binomial = |k: usize| factorial(p + 1) / factorial(k) / factorial(p + 1 - k);
        let a = Mat::from_fn(p + 1, p + 1, |i, j| match (i == p, j == i + 1) {
            (true, _) => -lambda * binomial(j),
            (false, true) => lambda,
            (false, false) => 0.0,
        });
        let ratio: f64 = (1..=p).map(|i| 2.0 * i as f64 / (2 * i - 1) as f64).product();
        let b = Mat::from_fn(p + 1, 1, |i, _| if i == p { (2.0 * ratio * lambda).sqrt() } else { 0.0 });
        let c = Mat::from_fn(1, p + 1, |_, j| if j == 0 { std } else { 0.0 });
        Self::new(a, b, c, sensor, values, StartMode::Given)
    }

    fn smoothed_std(&self) -> Vec<f64> {
        let likelihood = Likelihood::new(self, &[], FilterOptions::default()).unwrap();
        likelihood.estimate(&[]).unwrap().swap_remove(0).smoothed_std.swap_remove(0)
    }
}

const STEP: f64 = 0.1;

fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}

/// `s^2 exp(-z) p! / (2 p)! sum over i of (p + i)! / (i! (p - i)!) (2 z)^(p - i)`, `z = sqrt(2 p + 1) |t| / length`.
fn covariance(p: usize, std: f64, length: f64, t: f64) -> f64 {
    let z = ((2 * p + 1) as f64).sqrt() * t.abs() / length;
    let term = |i: usize| factorial(p + i) / factorial(i) / factorial(p - i) * (2.0 * z).powi((p - i) as i32);
    std * std * (-z).exp() * factorial(p) / factorial(2 * p) * (0..=p).map(term).sum::<f64>()
}

/// With the covariance K of `x` at the samples and sensors of the variance r, `x` has the covariance
/// `r I - r^2 (K + r I)^-1` given all values: no digits are lost where K is much larger than r.
#[test]
fn smoothed_deviations_have_their_digits() {
    let n = 4;
    for (p, std, length, sensor) in
        [(0, 1e6, 1.0, 1e-3), (0, 2.0, 1.0, 0.5), (1, 1e5, 10.0, 1.0), (1, 1e6, 10.0, 1e-2), (5, 100.0, 1.0, 1e-3)]
    {
        let r: f64 = sensor * sensor;
        let of = |i: usize, j: usize| covariance(p, std, length, STEP * (i as f64 - j as f64));
        let joint = Mat::from_fn(n, n, |i, j| of(i, j) + if i == j { r } else { 0.0 });
        let inverse = joint.llt(faer::Side::Lower).unwrap().solve(Mat::<f64>::identity(n, n));
        let process = Process::matern(p, std, length, sensor, &[0.0, 1.0, 0.0, 1.0]);
        for (at, found) in process.smoothed_std().into_iter().enumerate() {
            let expected = (r - r * r * inverse[(at, at)]).sqrt();
            assert!((found - expected).abs() < 1e-5 * expected, "{p} {std} {sensor}: {found} instead of {expected}");
        }
    }
}

/// A mass that is pushed by noise, of which nothing is known at the start: what is known is what the sensor says.
#[test]
fn unknown_starts_leave_the_digits() {
    for (white, sensor) in [(1e12f64, 1e-3), (1e16, 1e-4)] {
        let a = Mat::from_fn(2, 2, |i, j| if i < j { 1.0 } else { 0.0 });
        let b = Mat::from_fn(2, 1, |i, _| if i == 1 { white.sqrt() } else { 0.0 });
        let c = Mat::from_fn(1, 2, |_, j| if j == 0 { 1.0 } else { 0.0 });
        let values: Vec<f64> = (0..25).map(|k| f64::from(k % 2)).collect();
        for found in Process::new(a, b, c, sensor, &values, StartMode::Diffuse).smoothed_std() {
            assert!((found - sensor).abs() < 1e-5 * sensor, "{white} {sensor}: {found}");
        }
    }
}
