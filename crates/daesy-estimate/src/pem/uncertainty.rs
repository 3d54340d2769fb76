//! How uncertain a minimum of the prediction-error cost is.
//!
//! At the minimum, sum over k of S_k' e_k = 0 with S the derivatives of the predictions and e the errors, both
//! weighted. To first order
//!
//! ```text
//! cov theta = H^-1 V H^-1,   H = sum S_k' S_k,   V = cov(sum S_k' e_k)
//! ```
//!
//! The errors are anything but independent: a disturbance lives on from sample to sample. With a model of the
//! disturbances V is known from the realizations themselves. With a_m = sum S_k' y_k^(m) and b_m = -sum (dy_k^(m))'
//! e_k, one number each per realization,
//!
//! ```text
//! V = cov(a) + cov(a + b) / M + sum S_k' R S_k
//! ```
//!
//! the data's own disturbance, the Monte Carlo error of finite M in predictions and derivatives, and the measurement
//! errors. Without disturbances V = sum S_k' R S_k: with the variances R that are given for the measurements where the
//! errors are of that size, as a likelihood would; else, and where none are given, with those that the errors themselves
//! have, by output, with n - p degrees of freedom for p unknowns. Robust errors take V from the errors at hand, with
//! Bartlett weights over lags [@andrews1991].

use daesy_system::Watch;
use faer::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

use super::problem::{PointRefusal, PredictionProblem};
use crate::residual::{PredictedSize, residual_tests};
use crate::scores::{ExperimentScores, ScoreSeries};
use crate::uncertainty::{CONTRADICTED, separate_directions};

/// Where standard errors come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandardErrorKind {
    /// From the realizations of the model.
    Ensemble,
    /// From the size of the errors, which are independent.
    Errors,
}

/// Uncertainty of an estimate.
#[derive(Clone, Debug)]
pub struct PredictionUncertainty {
    /// Covariance of the unknowns; infinite along flat directions.
    pub covariance: Mat<f64>,
    /// Covariance by the autocorrelation of the errors at hand, whatever the model says of the disturbances.
    pub robust_covariance: Mat<f64>,
    /// Standard errors.
    pub std: Vec<f64>,
    /// Standard errors by the autocorrelation of the errors.
    pub robust_std: Vec<f64>,
    /// The part of them that more realizations would take away.
    pub monte_carlo_std: Vec<f64>,
    /// Number of directions that the data determine.
    pub rank: usize,
    /// Directions that they do not, as changes of the unknowns in their own units.
    pub flat_directions: Vec<Vec<f64>>,
    /// Whether errors without a disturbance are correlated, or larger where they count more, so that only robust
    /// standard errors hold: see [`crate::uncertainty::Uncertainty::new`].
    pub are_contradicted: bool,
    /// Where the standard errors come from.
    pub kind: StandardErrorKind,
    /// Degrees of freedom of the errors that standard errors were taken from; infinite where their size is known.
    pub degrees: f64,
    /// Degrees of freedom of robust errors, by unknown.
    pub robust_degrees: Vec<f64>,
}

/// Directions whose curvature is below this fraction of the largest count as flat.
const FLAT: f64 = 1e-12;

impl PredictionUncertainty {
    /// The uncertainty at a minimum. `nominal` are typical sizes of the unknowns, `variances` those of the measurement
    /// errors per output where known, `is_fixed` tells unknowns at bounds.
    ///
    /// # Errors
    /// When the point has no prediction.
    pub fn new(
        problem: &PredictionProblem<'_>,
        theta: &[f64],
        nominal: &[f64],
        variances: &[Option<f64>],
        is_fixed: &[bool],
        watch: &Watch,
    ) -> Result<Self, PointRefusal> {
        let n = theta.len();
        let n_outputs = problem.n_outputs();
        let n_realizations = problem.realizations(problem.settings().n_realizations);
        let prediction = problem.differentiate(theta, n_realizations, watch)?;
        let errors = problem.errors(&prediction);
        let weights = problem.settings().weights.clone();
        let experiments = problem.experiments();
        let is_counted = |experiment: usize, entry: usize| {
            let experiment = &experiments[experiment];
            experiment.is_used[entry / n_outputs] && experiment.measured[entry].is_finite()
        };
        // Weighted derivatives in nominal units, zero where nothing counts.
        let sensitivity = |i: usize, experiment: usize, entry: usize| {
            if is_counted(experiment, entry) && !is_fixed[i] {
                weights[entry % n_outputs] * prediction.tangents[i][experiment][entry] * nominal[i]
            } else {
                0.0
            }
        };
        let is_random = n_realizations > 1;
        let counted = |at: usize| (0..errors[at].len()).filter(move |&entry| is_counted(at, entry)).count();
        let n_values = (0..errors.len()).map(counted).sum::<usize>() as f64;
        let n_free = is_fixed.iter().filter(|is_fixed| !**is_fixed).count();
        let n_more = (n_values - n_free as f64).max(1.0);
        let mut degrees = f64::INFINITY;
        let error_variances: Vec<f64> = if is_random {
            error_variances(problem, &errors, &prediction.variances, variances)
        } else {
            let nobody_knows = vec![None; n_outputs];
            let found = error_variances(problem, &errors, &prediction.variances, &nobody_knows);
            let believed =
                |output: usize| variances[output].filter(|given| are_sized(problem, &errors, *given, output));
            (0..n_outputs)
                .map(|output| {
                    believed(output).unwrap_or_else(|| {
                        degrees = n_more;
                        n_values / n_more * found[output]
                    })
                })
                .collect()
        };
        let variance = |output: usize| weights[output] * weights[output] * error_variances[output];
        let (information, measurement) = informations(&errors, n, n_outputs, &sensitivity, &variance);
        let (spread, monte_carlo, kind) = if is_random {
            let functionals = functionals(problem, &errors, nominal, is_fixed, &sensitivity);
            let values = problem.functionals(theta, n_realizations, &functionals, watch)?;
            let (spread, monte_carlo) = of_realizations(&values, problem.settings().is_antithetic);
            (spread, monte_carlo, StandardErrorKind::Ensemble)
        } else {
            (Mat::zeros(n, n), Mat::zeros(n, n), StandardErrorKind::Errors)
        };
        let inverse = invert(&information, is_fixed);
        // Errors of realizations are correlated, and of no promised size at a single sample.
        let promised = |output: usize| if is_random { 1.0 } else { weights[output] * error_variances[output].sqrt() };
        let influence = scores(problem, &errors, n, &sensitivity, &promised).influence(&inverse.matrix);
        let meat = &spread + &monte_carlo + &measurement;
        let in_units = |inner: &Mat<f64>| Mat::from_fn(n, n, |i, j| inner[(i, j)] * nominal[i] * nominal[j]);
        let scaled = |meat: &Mat<f64>| in_units(&(&inverse.matrix * meat * &inverse.matrix));
        let covariance = scaled(&meat);
        let level = CONTRADICTED / n_free as f64;
        let differs = |i: usize| !is_fixed[i] && influence.variances[i].differs(level);
        let are_contradicted = !is_random && (0..n).any(differs);
        let by_chance = scaled(&monte_carlo);
        let is_flat = |i: usize| inverse.flat_directions.iter().any(|direction| direction[i].abs() > 1e-3);
        let robust_covariance = in_units(&influence.covariance) + &by_chance;
        let deviation = |covariance: &Mat<f64>, i: usize| match (is_fixed[i], is_flat(i)) {
            (true, _) => f64::NAN,
            (false, true) => f64::INFINITY,
            (false, false) => covariance[(i, i)].max(0.0).sqrt(),
        };
        let deviations = |covariance: &Mat<f64>| (0..n).map(|i| deviation(covariance, i)).collect::<Vec<f64>>();
        let (std, robust_std) = (deviations(&covariance), deviations(&robust_covariance));
        let monte_carlo_std = (0..n).map(|i| by_chance[(i, i)].max(0.0).sqrt()).collect();
        Ok(Self {
            covariance,
            robust_covariance,
            std,
            robust_std,
            monte_carlo_std,
            rank: n_free - inverse.flat_directions.len(),
            flat_directions: separate_directions(inverse.flat_directions, nominal),
            are_contradicted,
            kind,
            degrees,
            robust_degrees: influence.variances.iter().map(|variance| variance.degrees).collect(),
        })
    }
}

/// Sums over all entries of s s^T and of s s^T times the variance of the entry's error, s its weighted sensitivities.
fn informations(
    errors: &[Vec<f64>],
    n: usize,
    n_outputs: usize,
    sensitivity: &dyn Fn(usize, usize, usize) -> f64,
    variance: &dyn Fn(usize) -> f64,
) -> (Mat<f64>, Mat<f64>) {
    let mut information = Mat::<f64>::zeros(n, n);
    let mut measurement = Mat::<f64>::zeros(n, n);
    for (at, errors) in errors.iter().enumerate() {
        for entry in 0..errors.len() {
            let output = entry % n_outputs;
            let variance = variance(output);
            for i in 0..n {
                let si = sensitivity(i, at, entry);
                if si == 0.0 {
                    continue;
                }
                for j in 0..n {
                    let product = si * sensitivity(j, at, entry);
                    information[(i, j)] += product;
                    measurement[(i, j)] += product * variance;
                }
            }
        }
    }
    (information, measurement)
}

/// By unknown i, the weights of what each realization adds to the score of i: first through the data, w^2 dy/dtheta_i
/// times its deviation, then through its own derivative, -w^2 e times that of dy/dtheta_i; in nominal units, by
/// experiment, for all samples, outputs, and derivatives of outputs.
fn functionals(
    problem: &PredictionProblem<'_>,
    errors: &[Vec<f64>],
    nominal: &[f64],
    is_fixed: &[bool],
    sensitivity: &dyn Fn(usize, usize, usize) -> f64,
) -> Vec<Vec<Vec<f64>>> {
    let (n, n_outputs, weights) = (nominal.len(), problem.n_outputs(), &problem.settings().weights);
    let n_rows = n_outputs * (1 + n);
    let mut functionals = vec![Vec::new(); 2 * n];
    for (at, errors) in errors.iter().enumerate() {
        let n_samples = errors.len() / n_outputs;
        for i in 0..n {
            let mut by_value = vec![0.0; n_samples * n_rows];
            let mut by_tangent = vec![0.0; n_samples * n_rows];
            for (entry, error) in errors.iter().enumerate() {
                let (sample, output) = (entry / n_outputs, entry % n_outputs);
                by_value[sample * n_rows + output] = sensitivity(i, at, entry) * weights[output];
                if !is_fixed[i] {
                    by_tangent[sample * n_rows + (1 + i) * n_outputs + output] = -error * weights[output] * nominal[i];
                }
            }
            functionals[i].push(by_value);
            functionals[n + i].push(by_tangent);
        }
    }
    functionals
}

/// The covariance of scores by the spread of realizations, and that of their mean by chance: the first half of `values`
/// are the parts through the data, the second half those through derivatives.
fn of_realizations(values: &[Vec<f64>], is_antithetic: bool) -> (Mat<f64>, Mat<f64>) {
    let n = values.len() / 2;
    let spread = covariance(&values[..n]);
    let both: Vec<Vec<f64>> =
        (0..n).map(|i| values[i].iter().zip(&values[n + i]).map(|(a, b)| a + b).collect()).collect();
    // Mirrored realizations are not independent of each other; their pairs are.
    let both = if is_antithetic { pair_means(&both) } else { both };
    let n_groups = both.first().map_or(1, Vec::len).max(1) as f64;
    (spread, covariance(&both) * faer::Scale(1.0 / n_groups))
}

/// Whether the errors of an output are as large as their given variance says.
fn are_sized(problem: &PredictionProblem<'_>, errors: &[Vec<f64>], variance: f64, output: usize) -> bool {
    let scale = problem.settings().weights[output] * variance.sqrt();
    let mut standardized = Vec::new();
    for (experiment, errors) in problem.experiments().iter().zip(errors) {
        for entry in (output..errors.len()).step_by(problem.n_outputs()) {
            let is_used = experiment.is_used[entry / problem.n_outputs()] && experiment.measured[entry].is_finite();
            standardized.push(if is_used { errors[entry] / scale } else { f64::NAN });
        }
    }
    let size = residual_tests(&standardized, &standardized, PredictedSize::OfIndependent).size;
    variance > 0.0 && size.normalized_variance.is_finite() && !size.is_doubtful()
}

/// Variances of measurement errors: as given, or what the realizations do not explain of the errors.
fn error_variances(
    problem: &PredictionProblem<'_>,
    errors: &[Vec<f64>],
    spread: &[Vec<f64>],
    given: &[Option<f64>],
) -> Vec<f64> {
    let n_outputs = problem.n_outputs();
    let weights = &problem.settings().weights;
    (0..n_outputs)
        .map(|output| {
            if let Some(variance) = given[output] {
                return variance;
            }
            let (mut sum, mut n) = (0.0, 0.0f64);
            for ((experiment, errors), spread) in problem.experiments().iter().zip(errors).zip(spread) {
                for entry in (output..errors.len()).step_by(n_outputs) {
                    if experiment.is_used[entry / n_outputs] && experiment.measured[entry].is_finite() {
                        sum += (errors[entry] / weights[output]).powi(2) - spread[entry];
                        n += 1.0;
                    }
                }
            }
            (sum / n.max(1.0)).max(0.0)
        })
        .collect()
}

/// Sample covariance of rows; realizations that broke down (NaN) are left out.
fn covariance(rows: &[Vec<f64>]) -> Mat<f64> {
    let n = rows.len();
    let lanes: Vec<usize> =
        (0..rows.first().map_or(0, Vec::len)).filter(|&lane| rows.iter().all(|row| row[lane].is_finite())).collect();
    let count = lanes.len() as f64;
    let mean = |row: &[f64]| lanes.iter().map(|&lane| row[lane]).sum::<f64>() / count.max(1.0);
    let means: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
    Mat::from_fn(n, n, |i, j| {
        let sum: f64 = lanes.iter().map(|&lane| (rows[i][lane] - means[i]) * (rows[j][lane] - means[j])).sum();
        sum / (count - 1.0).max(1.0)
    })
}

fn pair_means(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    rows.iter().map(|row| row.chunks(2).map(|pair| pair.iter().sum::<f64>() / pair.len() as f64).collect()).collect()
}

/// Scores of the errors at hand: their products with the derivatives of the predictions; `promised` are the sizes of
/// weighted errors by output.
fn scores(
    problem: &PredictionProblem<'_>,
    errors: &[Vec<f64>],
    n: usize,
    sensitivity: &dyn Fn(usize, usize, usize) -> f64,
    promised: &dyn Fn(usize) -> f64,
) -> ScoreSeries {
    let n_outputs = problem.n_outputs();
    let of_experiment = |at: usize| ExperimentScores {
        errors: errors[at].clone(),
        sizes: (0..errors[at].len()).map(|entry| promised(entry % n_outputs)).collect(),
        by_error: (0..errors[at].len()).flat_map(|entry| (0..n).map(move |i| sensitivity(i, at, entry))).collect(),
        ends: (1..=errors[at].len() / n_outputs).map(|sample| sample * n_outputs).collect(),
        ..ExperimentScores::default()
    };
    ScoreSeries { n_unknown: n, experiments: (0..errors.len()).map(of_experiment).collect() }
}

struct Inverse {
    matrix: Mat<f64>,
    flat_directions: Vec<Vec<f64>>,
}

/// The inverse on the directions that are determined.
fn invert(information: &Mat<f64>, is_fixed: &[bool]) -> Inverse {
    let n = information.nrows();
    let mut matrix = Mat::zeros(n, n);
    let mut flat_directions = Vec::new();
    let free: Vec<usize> = (0..n).filter(|&i| !is_fixed[i]).collect();
    // All unknowns may be at their bounds.
    if free.is_empty() {
        return Inverse { matrix, flat_directions };
    }
    let part = Mat::from_fn(free.len(), free.len(), |i, j| information[(free[i], free[j])]);
    let Ok(eigen) = SelfAdjointEigen::new(part.as_ref(), faer::Side::Lower) else {
        return Inverse { matrix, flat_directions };
    };
    let values = eigen.S().column_vector();
    let largest = values.iter().fold(0.0f64, |largest, &value| largest.max(value));
    for (at, &value) in values.iter().enumerate() {
        let vector: Vec<f64> = (0..free.len()).map(|i| eigen.U()[(i, at)]).collect();
        if value > FLAT * largest && value > 0.0 {
            for (i, &row) in free.iter().enumerate() {
                for (j, &column) in free.iter().enumerate() {
                    matrix[(row, column)] += vector[i] * vector[j] / value;
                }
            }
        } else {
            let mut direction = vec![0.0; n];
            for (i, &row) in free.iter().enumerate() {
                direction[row] = vector[i];
            }
            flat_directions.push(direction);
        }
    }
    Inverse { matrix, flat_directions }
}
