//! The likelihood of a nonlinear model under the approximation of a filter.
//!
//! A filter that keeps means and covariances predicts every sample with an error e and its covariance S, so that
//!
//! ```text
//! -log L = 1/2 sum over samples of  e' S^-1 e + log det S + m log 2 pi
//! dL/di  = sum of  e' S^-1 e_i + 1/2 tr(S^-1 S_i) - 1/2 e' S^-1 S_i S^-1 e
//! I_ij   = sum of  e_i' S^-1 e_j + 1/2 tr(S^-1 S_i S^-1 S_j)                    expected information
//! ```
//!
//! as for linear models [@gerdin2007]. Where several discrete states of a model with events were possible, the density p
//! of a sample is that of a mixture, with the score s = d log p and the information E s s', for which s s' stands
//! [@berndt1974]. The derivatives e_i and S_i are central differences of whole filter runs: unlike
//! those of predictions and of the exact filter they carry an error of relative size 1e-7, which is far below that of
//! the approximation itself.

use daesy_system::Watch;
use faer::Mat;
use rayon::prelude::*;

use super::filtering::{FilterKind, FilterRequest};
use super::problem::{PointRefusal, PredictionProblem};
use crate::nonlinear::StateEstimates;
use crate::scores::{ExperimentScores, ScoreSeries};
use crate::search::{Expansion, Objective, SearchOptions, SearchSpace, minimize};

/// Differences are taken over this fraction of a value, or of its nominal value where that is larger by far.
const STEP: f64 = 3e-4;

/// The likelihood of all experiments.
pub struct FilterLikelihood<'p, 'a> {
    /// Model, experiments, disturbances.
    pub problem: &'p PredictionProblem<'a>,
    /// Which filter; one that keeps means and covariances.
    pub kind: FilterKind,
    /// Bounds and nominal values.
    pub space: &'p SearchSpace,
    /// What variances of measurement errors are multiplied by: 1, or more on the way to the estimate.
    inflation: f64,
    /// By unknown, what differences are taken over, where the likelihood is rough on a smaller scale; see
    /// [`crate::search::widths`].
    pub widths: Option<Vec<f64>>,
    /// Stops the filter.
    pub watch: Watch,
}

/// The likelihood at a point with derivatives.
#[derive(Clone, Debug)]
pub struct FilterExpansion {
    /// The negative log-likelihood.
    pub value: f64,
    /// Its gradient.
    pub gradient: Vec<f64>,
    /// Expected information.
    pub information: Mat<f64>,
    /// Scores of single samples by experiment.
    pub scores: ScoreSeries,
    /// Values that were counted.
    pub n_counted: usize,
}

/// Errors of one sample with their covariance.
struct Sample {
    experiment: usize,
    errors: Mat<f64>,
    covariance: Mat<f64>,
    /// Where several discrete states were possible: the logarithm of its density, which is not normal.
    log_density: Option<f64>,
    /// Whether that is all there is to know, or errors and covariance say the same.
    is_normal: bool,
}

impl Sample {
    fn negative_log_density(&self) -> f64 {
        if let Some(log_density) = self.log_density {
            return -log_density;
        }
        let Ok(factor) = self.covariance.llt(faer::Side::Lower) else { return f64::INFINITY };
        let n = self.errors.nrows();
        let determinant: f64 = (0..n).map(|i| 2.0 * factor.L()[(i, i)].ln()).sum();
        let solved = faer::linalg::solvers::Solve::solve(&factor, &self.errors);
        let distance = (self.errors.transpose() * solved)[(0, 0)];
        0.5 * (distance + determinant + n as f64 * (2.0 * std::f64::consts::PI).ln())
    }
}

impl<'p, 'a> FilterLikelihood<'p, 'a> {
    /// The likelihood of a problem's data.
    #[must_use]
    pub fn new(problem: &'p PredictionProblem<'a>, kind: FilterKind, space: &'p SearchSpace, watch: Watch) -> Self {
        Self { problem, kind, space, inflation: 1.0, widths: None, watch }
    }

    /// Filters all experiments.
    ///
    /// # Errors
    /// When the point means nothing, or samples are not on grid points.
    pub fn run(&self, theta: &[f64]) -> Result<Vec<StateEstimates>, PointRefusal> {
        let mut variances = self.problem.parameterization.variances(theta)?;
        variances.iter_mut().for_each(|variance| *variance *= self.inflation);
        (0..self.problem.experiments.len())
            .map(|experiment| {
                let measured = &self.problem.experiments[experiment].measured;
                let request = FilterRequest { experiment, measured, variances: &variances, smooths: false };
                self.problem.filter(theta, &request, &self.kind, &self.watch)
            })
            .collect()
    }

    /// The log-likelihood of filtered experiments, with the constants of 2 pi.
    #[must_use]
    pub fn log_likelihood(&self, runs: &[StateEstimates]) -> f64 {
        if let FilterKind::Particles { .. } = self.kind {
            return runs.iter().map(|run| run.log_likelihood).sum();
        }
        -Self::negative_log_likelihood(&self.samples(runs))
    }

    /// What is counted: errors and covariances of the used samples, missing values left out.
    fn samples(&self, runs: &[StateEstimates]) -> Vec<Sample> {
        let m = self.problem.n_outputs();
        let mut samples = Vec::new();
        for (of, (experiment, run)) in self.problem.experiments.iter().zip(runs).enumerate() {
            for (sample, _) in experiment.is_used.iter().enumerate().filter(|(_, is_used)| **is_used) {
                let row = &experiment.measured[sample * m..(sample + 1) * m];
                let present: Vec<usize> = (0..m).filter(|&output| row[output].is_finite()).collect();
                if present.is_empty() {
                    continue;
                }
                let n = present.len();
                samples.push(Sample {
                    experiment: of,
                    errors: Mat::from_fn(n, 1, |i, _| run.innovations[sample * m + present[i]]),
                    covariance: Mat::from_fn(n, n, |i, j| {
                        run.innovation_covariances[(sample * m + present[i]) * m + present[j]]
                    }),
                    log_density: run.mixture.as_ref().map(|mixture| mixture.log_densities[sample]),
                    is_normal: run.mixture.as_ref().is_none_or(|mixture| mixture.is_normal[sample]),
                });
            }
        }
        samples
    }

    /// The mean square of prediction errors over their predicted standard deviations; NaN where one is not finite.
    ///
    /// # Errors
    /// As [`FilterLikelihood::run`].
    pub fn normalized_variance(&self, theta: &[f64]) -> Result<f64, PointRefusal> {
        let samples = self.samples(&self.run(theta)?);
        let (mut sum, mut n) = (0.0, 0usize);
        for sample in &samples {
            for i in 0..sample.errors.nrows() {
                sum += sample.errors[(i, 0)].powi(2) / sample.covariance[(i, i)];
                n += 1;
            }
        }
        Ok(sum / n as f64)
    }

    fn negative_log_likelihood(samples: &[Sample]) -> f64 {
        let sum: f64 = samples.iter().map(Sample::negative_log_density).sum();
        if sum.is_nan() { f64::INFINITY } else { sum }
    }

    /// How far beside a point differences by an unknown are taken.
    #[must_use]
    pub fn width(&self, theta: &[f64], unknown: usize) -> f64 {
        let fine = STEP * theta[unknown].abs().max(1e-2 * self.space.nominal[unknown]);
        let given = self.widths.as_ref().map(|widths| widths[unknown]);
        given.filter(|width| width.is_finite()).unwrap_or(fine)
    }

    /// The negative log-likelihood with its derivatives.
    ///
    /// # Errors
    /// When the point or one beside it means nothing.
    pub fn expansion(&self, theta: &[f64]) -> Result<FilterExpansion, PointRefusal> {
        let n = theta.len();
        // The point itself, then two beside it for every unknown, none beyond a bound.
        let mut points = vec![theta.to_vec()];
        for i in 0..n {
            let step = self.width(theta, i);
            for sign in [1.0, -1.0] {
                let mut point = theta.to_vec();
                point[i] = (theta[i] + sign * step).clamp(self.space.lower[i], self.space.upper[i]);
                points.push(point);
            }
        }
        let runs = points
            .par_iter()
            .map(|point| Ok(self.samples(&self.run(point)?)))
            .collect::<Result<Vec<Vec<Sample>>, PointRefusal>>()?;
        let value = Self::negative_log_likelihood(&runs[0]);
        let mut gradient = vec![0.0; n];
        let mut information = Mat::<f64>::zeros(n, n);
        let n_experiments = self.problem.experiments.len();
        let mut scores = ScoreSeries { n_unknown: n, experiments: vec![ExperimentScores::default(); n_experiments] };
        let mut n_counted = 0;
        for (at, sample) in runs[0].iter().enumerate() {
            n_counted += sample.errors.nrows();
            let beside: Vec<Beside<'_>> = (0..n)
                .map(|i| {
                    let width = points[1 + 2 * i][i] - points[2 + 2 * i][i];
                    Beside { after: &runs[1 + 2 * i][at], before: &runs[2 + 2 * i][at], width }
                })
                .collect();
            let scores = &mut scores.experiments[sample.experiment];
            if sample.is_normal {
                sample.expand(&beside, &mut gradient, &mut information, scores);
            } else {
                sample.expand_mixture(&beside, &mut gradient, &mut information, scores);
            }
        }
        for i in 0..n {
            for j in i + 1..n {
                information[(i, j)] = information[(j, i)];
            }
        }
        Ok(FilterExpansion { value, gradient, information, scores, n_counted })
    }
}

/// A sample at points on both sides of the one at hand, this far apart in one unknown.
struct Beside<'s> {
    after: &'s Sample,
    before: &'s Sample,
    width: f64,
}

impl Sample {
    /// Adds what a normal sample says, see the module.
    fn expand(
        &self,
        beside: &[Beside<'_>],
        gradient: &mut [f64],
        information: &mut Mat<f64>,
        scores: &mut ExperimentScores,
    ) {
        let (n, m) = (beside.len(), self.errors.nrows());
        let inverse = inverse(&self.covariance);
        let pulled = &inverse * &self.errors;
        // Per unknown: S^-1 e_i and S^-1 S_i.
        let mut by_error = Vec::with_capacity(n);
        let mut by_covariance = Vec::with_capacity(n);
        for (gradient, Beside { after, before, width }) in gradient.iter_mut().zip(beside) {
            let error = (&after.errors - &before.errors) * faer::Scale(1.0 / width);
            let covariance = &inverse * ((&after.covariance - &before.covariance) * faer::Scale(1.0 / width));
            let trace: f64 = (0..m).map(|k| covariance[(k, k)]).sum();
            let score = (pulled.transpose() * &error)[(0, 0)] + 0.5 * trace
                - 0.5 * (self.errors.transpose() * &covariance * &pulled)[(0, 0)];
            *gradient += match self.log_density {
                Some(_) => (after.negative_log_density() - before.negative_log_density()) / width,
                None => score,
            };
            by_error.push(error);
            by_covariance.push(covariance);
        }
        add_scores(scores, self, &by_error, &by_covariance);
        for i in 0..n {
            let weighted = by_error[i].transpose() * &inverse;
            for j in 0..=i {
                let product = &by_covariance[i] * &by_covariance[j];
                let trace: f64 = (0..m).map(|k| product[(k, k)]).sum();
                information[(i, j)] += (&weighted * &by_error[j])[(0, 0)] + 0.5 * trace;
            }
        }
    }

    /// Adds what a sample says that is not normal: its score s, and s s', whose expectation is the information. For the
    /// sandwich it is one value with z = 1 and x = s, which says nothing for or against the model.
    fn expand_mixture(
        &self,
        beside: &[Beside<'_>],
        gradient: &mut [f64],
        information: &mut Mat<f64>,
        scores: &mut ExperimentScores,
    ) {
        let slope = |beside: &Beside<'_>| {
            (beside.after.negative_log_density() - beside.before.negative_log_density()) / beside.width
        };
        let slopes: Vec<f64> = beside.iter().map(slope).collect();
        for (i, slope) in slopes.iter().enumerate() {
            gradient[i] += slope;
            for j in 0..=i {
                information[(i, j)] += slope * slopes[j];
            }
        }
        scores.errors.push(1.0);
        scores.by_error.extend(slopes.iter().map(|slope| -slope));
        scores.by_square.extend(slopes.iter().map(|_| 0.0));
        scores.ends.push(scores.errors.len());
    }
}

/// Scores of a sample, value by value. With S = L L', z = L^-1 e and W_i = L^-1 S_i L^-T the score of the log-likelihood is
///
/// ```text
/// -z' L^-1 e_i + 1/2 sum over j, k of W_i,jk (z_j z_k - delta_jk)
/// ```
///
/// in which z_j is multiplied by -(L^-1 e_i)_j and by W_i,jk z_k of the values k before it, and (z_j^2 - 1) / sqrt(2) by
/// W_i,jj / sqrt(2). `by_error` are e_i, `by_covariance` S^-1 S_i.
fn add_scores(to: &mut ExperimentScores, sample: &Sample, by_error: &[Mat<f64>], by_covariance: &[Mat<f64>]) {
    let Ok(factor) = sample.covariance.llt(faer::Side::Lower) else { return };
    let lower = factor.L().to_owned();
    let solve = |right: &Mat<f64>| {
        let mut solution = right.clone();
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(
            lower.as_ref(),
            solution.as_mut(),
            faer::Par::Seq,
        );
        solution
    };
    let z = solve(&sample.errors);
    let slopes: Vec<Mat<f64>> = by_error.iter().map(solve).collect();
    // L' S^-1 S_i L^-T = W_i, whose transpose is L^-1 (S^-1 S_i)' L.
    let spreads: Vec<Mat<f64>> = by_covariance.iter().map(|relative| solve(&(relative.transpose() * &lower))).collect();
    for j in 0..z.nrows() {
        to.errors.push(z[(j, 0)]);
        for (slope, spread) in slopes.iter().zip(&spreads) {
            to.by_error.push((0..j).map(|k| spread[(j, k)] * z[(k, 0)]).sum::<f64>() - slope[(j, 0)]);
            to.by_square.push(spread[(j, j)] * std::f64::consts::FRAC_1_SQRT_2);
        }
    }
    to.ends.push(to.errors.len());
}

/// The inverse of a covariance; zero where it is not definite.
fn inverse(covariance: &Mat<f64>) -> Mat<f64> {
    let n = covariance.nrows();
    match covariance.llt(faer::Side::Lower) {
        Ok(factor) => faer::linalg::solvers::Solve::solve(&factor, &Mat::<f64>::identity(n, n)),
        Err(_) => Mat::zeros(n, n),
    }
}

/// A normalized variance beyond which a search would begin in a region where the filter makes no sense.
const FAR: f64 = 10.0;

/// The factor from one inflation to the next, and the largest.
const LESS: f64 = 100.0;
const MOST: f64 = 1e16;

impl FilterLikelihood<'_, '_> {
    /// A start for the search that is near enough to the data.
    ///
    /// Where measurements are accurate and parameters are not yet, a filter is sure of what contradicts the next
    /// sample: it corrects states to where the model makes no sense, and its likelihood has walls and other maxima
    /// there. With errors of measurement that are taken to be larger the filter trusts the model, up to a fit of output
    /// errors where they are infinitely large. So the variances are multiplied by a factor under which prediction
    /// errors are of the predicted size, the likelihood is maximized, the factor is made smaller, and so on to 1.
    ///
    /// # Errors
    /// The refusal of the start.
    pub fn approach(&mut self, start: &[f64]) -> Result<Vec<f64>, PointRefusal> {
        self.inflation = 1.0;
        let mut theta = start.to_vec();
        let is_far = |size: f64| size.is_nan() || size > FAR;
        while is_far(self.normalized_variance(&theta)?) && self.inflation < MOST {
            self.inflation *= LESS;
        }
        let options = SearchOptions { absolute: 0.1, relative: 1e-3, max_iterations: 20, ..SearchOptions::default() };
        while self.inflation > 1.0 && !self.watch.is_stopped() {
            let space = self.space;
            if let Ok(found) = minimize(self, &theta, space, &options, &mut |_| {})
                && found.expansion.value.is_finite()
            {
                theta = found.theta;
            }
            self.inflation /= LESS;
        }
        self.inflation = 1.0;
        Ok(theta)
    }
}

impl Objective for FilterLikelihood<'_, '_> {
    type Refusal = PointRefusal;

    fn value(&mut self, theta: &[f64]) -> Result<f64, PointRefusal> {
        Ok(Self::negative_log_likelihood(&self.samples(&self.run(theta)?)))
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, PointRefusal> {
        let found = self.expansion(theta)?;
        Ok(Expansion { value: found.value, gradient: found.gradient, curvature: found.information })
    }
}
