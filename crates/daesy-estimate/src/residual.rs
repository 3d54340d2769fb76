//! Tests of residuals: are they white, of the size that the model predicts, normal, and do known inputs still explain
//! them?

use daesy_random::special_functions::{beta_distribution, normal_distribution};
use faer::Mat;

use crate::chi_square::chi_square_tail;

/// What residuals of one measurement say about the model.
#[derive(Clone, PartialEq, Debug)]
pub struct ResidualTests {
    /// Probability of such large correlations between successive residuals if they were white; NaN with too few of
    /// them. [@ljung1978]
    pub whiteness: f64,
    /// Probability of such a skewness and kurtosis if they were normal; NaN with too few of them. [@dagostino1990]
    pub normality: f64,
    /// The variance of their sum over that of as many uncorrelated ones, by the correlations that the test of whiteness
    /// looks at.
    pub long_run_variance: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Number of residuals.
    pub n: usize,
    /// How large they are.
    pub size: ResidualSize,
}

/// What a model says of the size of its residuals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PredictedSize {
    /// Nothing.
    Unsaid,
    /// The standard deviation of each; they are independent.
    OfIndependent,
    /// The standard deviation of each; they are correlated, as those of predictions without earlier measurements.
    OfCorrelated,
}

/// How large residuals are beside the standard deviations that the model predicts for them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResidualSize {
    /// Mean square of the standardized residuals: 1 where the predicted standard deviations are right; NaN where none
    /// are predicted.
    pub normalized_variance: f64,
    /// Probability of a mean square at least as far from 1, either way, if they were.
    pub size_p: f64,
    /// Correlation of successive standardized residuals.
    pub lag_autocorrelation: f64,
    /// How many independent residuals would tell as much.
    pub n_effective: f64,
}

impl ResidualSize {
    /// Sizes that are not believable have a smaller probability.
    const BELIEVABLE: f64 = 1e-3;
    /// The normal quantile of that band, half of it on each side.
    const BAND: f64 = 3.290_526_731_491_9;
    /// Mean squares within this factor of 1 do no harm.
    const HARMLESS: f64 = 1.2;

    /// With n independent residuals, n times the mean square m is chi-square with n degrees of freedom, whose cube root
    /// is nearly normal [@wilson1931]:
    ///
    /// ```text
    /// z = (m^(1/3) - 1 + 2/(9 n)) / sqrt(2/(9 n))
    /// ```
    ///
    /// Correlated residuals with correlations r_k have var m = 2/n (1 + 2 sum r_k^2), so that they count as
    ///
    /// ```text
    /// n / (1 + 2 sum over k of (r_k^2 - 1/n))
    /// ```
    ///
    /// independent ones; 1/n is what r_k^2 is on average where there is no correlation.
    fn of(standardized: &[f64], predicted: PredictedSize) -> Self {
        let present: Vec<f64> = standardized.iter().copied().filter(|x| x.is_finite()).collect();
        let n = present.len() as f64;
        let mean_square = present.iter().map(|x| x * x).sum::<f64>() / n;
        let correlation = |lag: usize| {
            let sum: f64 = present.iter().zip(present.iter().skip(lag)).map(|(a, b)| a * b).sum();
            let n_pairs = present.len().saturating_sub(lag);
            if n_pairs == 0 { 0.0 } else { sum / n_pairs as f64 / mean_square }
        };
        let mut n_effective = n;
        if predicted == PredictedSize::OfCorrelated {
            let excess: f64 = (1..=present.len() / 4).map(|lag| correlation(lag).powi(2) - 1.0 / n).sum();
            n_effective /= 1.0 + 2.0 * excess.max(0.0);
        }
        let spread = 2.0 / (9.0 * n_effective);
        let z = (mean_square.cbrt() - 1.0 + spread) / spread.sqrt();
        let size_p = 2.0 * normal_distribution(-z.abs());
        let lag_autocorrelation = correlation(1);
        if predicted == PredictedSize::Unsaid {
            return Self { normalized_variance: f64::NAN, size_p: f64::NAN, lag_autocorrelation, n_effective };
        }
        Self { normalized_variance: mean_square, size_p, lag_autocorrelation, n_effective }
    }

    /// The same where the mean square is known to have this variance, if that is larger than what was taken for it: as
    /// many independent normal ones would tell as much as have the variance 2/n.
    #[must_use]
    pub fn with_spread(self, variance: f64) -> Self {
        let n_effective = if variance > 0.0 { self.n_effective.min(2.0 / variance) } else { self.n_effective };
        let spread = 2.0 / (9.0 * n_effective);
        let z = (self.normalized_variance.cbrt() - 1.0 + spread) / spread.sqrt();
        Self { n_effective, size_p: 2.0 * normal_distribution(-z.abs()), ..self }
    }

    /// Several signals together: their mean squares weighed by what each tells.
    #[must_use]
    pub fn overall(sizes: &[Self]) -> Self {
        let known = || sizes.iter().filter(|size| size.normalized_variance.is_finite());
        let n_effective: f64 = known().map(|size| size.n_effective).sum();
        let weighted =
            |of: fn(&Self) -> f64| known().map(|size| size.n_effective * of(size)).sum::<f64>() / n_effective;
        let normalized_variance = weighted(|size| size.normalized_variance);
        let spread = 2.0 / (9.0 * n_effective);
        let z = (normalized_variance.cbrt() - 1.0 + spread) / spread.sqrt();
        let lag_autocorrelation = weighted(|size| size.lag_autocorrelation);
        Self { normalized_variance, size_p: 2.0 * normal_distribution(-z.abs()), lag_autocorrelation, n_effective }
    }

    /// The mean squares that are believable: 99.9 % of all that come about where the predicted sizes are right.
    #[must_use]
    pub fn band(&self) -> [f64; 2] {
        let spread = 2.0 / (9.0 * self.n_effective);
        [-1.0, 1.0].map(|sign| (1.0 - spread + sign * Self::BAND * spread.sqrt()).max(0.0).powi(3))
    }

    /// Whether the predicted standard deviations cannot be right: the mean square lies outside its 99.9 % band and is
    /// off by more than a factor 1.2.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let off = self.normalized_variance.max(1.0 / self.normalized_variance);
        self.size_p < Self::BELIEVABLE && off > Self::HARMLESS
    }
}

/// Number of lags looked at.
#[must_use]
pub fn lags(n: usize) -> usize {
    (n / 5).clamp(1, 20)
}

/// Tests standardized residuals; missing ones are NaN, and lags count the values that are there. `predicted` says
/// whether they were divided by standard deviations that the model predicts, or by something that only weighs them.
#[must_use]
pub fn residual_tests(standardized: &[f64], plain: &[f64], predicted: PredictedSize) -> ResidualTests {
    let present: Vec<f64> = plain.iter().copied().filter(|x| x.is_finite()).collect();
    let n = present.len();
    let mean = present.iter().sum::<f64>() / n as f64;
    let std = (present.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n.max(2) - 1) as f64).sqrt();
    let correlations = correlations(standardized);
    ResidualTests {
        whiteness: whiteness(&correlations, n),
        long_run_variance: 1.0 + 2.0 * correlations.iter().sum::<f64>(),
        normality: normality(standardized),
        mean,
        std,
        n,
        size: ResidualSize::of(standardized, predicted),
    }
}

/// Fewer residuals say nothing about normality.
const FEWEST_FOR_NORMALITY: usize = 20;

/// D'Agostino and Pearson's test: skewness and kurtosis, each transformed to be normal, have a sum of squares that is
/// chi-square with two degrees of freedom [@dagostino1990].
fn normality(values: &[f64]) -> f64 {
    let present: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    if present.len() < FEWEST_FOR_NORMALITY {
        return f64::NAN;
    }
    let n = present.len() as f64;
    let mean = present.iter().sum::<f64>() / n;
    let moment = |power: i32| present.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
    let variance = moment(2);
    if variance <= 0.0 || !variance.is_finite() {
        return f64::NAN;
    }
    let [by_skewness, by_kurtosis] =
        normal_scores(n, moment(3) / variance.powf(1.5), moment(4) / (variance * variance));
    chi_square_tail(by_skewness.powi(2) + by_kurtosis.powi(2), 2.0)
}

/// Skewness and kurtosis of n normal values as standard normal scores.
fn normal_scores(n: f64, skewness: f64, kurtosis: f64) -> [f64; 2] {
    let scaled = skewness * ((n + 1.0) * (n + 3.0) / (6.0 * (n - 2.0))).sqrt();
    let beta =
        3.0 * (n * n + 27.0 * n - 70.0) * (n + 1.0) * (n + 3.0) / ((n - 2.0) * (n + 5.0) * (n + 7.0) * (n + 9.0));
    let w = (2.0 * (beta - 1.0)).sqrt() - 1.0;
    let by_skewness = (scaled * ((w - 1.0) / 2.0).sqrt()).asinh() / (0.5 * w.ln()).sqrt();
    let expected = 3.0 * (n - 1.0) / (n + 1.0);
    let spread = 24.0 * n * (n - 2.0) * (n - 3.0) / ((n + 1.0).powi(2) * (n + 3.0) * (n + 5.0));
    let excess = (kurtosis - expected) / spread.sqrt();
    let tilt = 6.0 * (n * n - 5.0 * n + 2.0) / ((n + 7.0) * (n + 9.0))
        * (6.0 * (n + 3.0) * (n + 5.0) / (n * (n - 2.0) * (n - 3.0))).sqrt();
    let a = 6.0 + 8.0 / tilt * (2.0 / tilt + (1.0 + 4.0 / (tilt * tilt)).sqrt());
    let root = ((1.0 - 2.0 / a) / (1.0 + excess * (2.0 / (a - 4.0)).sqrt())).cbrt();
    [by_skewness, (1.0 - 2.0 / (9.0 * a) - root) / (2.0 / (9.0 * a)).sqrt()]
}

/// Correlations of values with those some lags before, from lag 1 on; none where there are too few values. Lags count the
/// values that are there: innovations of a right model are independent whatever time lies between them, and rows in which
/// nothing was measured would only fill lags that no pair speaks of.
fn correlations(values: &[f64]) -> Vec<f64> {
    let present: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
    let n = present.len();
    if n < 10 {
        return Vec::new();
    }
    let mean = present.iter().sum::<f64>() / n as f64;
    let power: f64 = present.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    if power <= 0.0 || power.is_nan() {
        return Vec::new();
    }
    let product = |lag: usize| present.iter().zip(&present[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    (1..=lags(n)).map(|lag| product(lag) / power).collect()
}

/// Ljung and Box's test: `n (n + 2) sum over lags of r_k^2 / (n - k)` is chi-square with as many degrees of freedom as
/// lags.
fn whiteness(correlations: &[f64], n: usize) -> f64 {
    if correlations.is_empty() {
        return f64::NAN;
    }
    let terms = correlations.iter().enumerate().map(|(at, r)| (n * (n + 2)) as f64 * r * r / (n - at - 1) as f64);
    chi_square_tail(terms.sum(), correlations.len() as f64)
}

/// Residuals of one measurement in one experiment beside an input, and what the fit took out of them.
#[derive(Clone, Debug, Default)]
pub struct ResidualsWithInput {
    /// Standardized residuals by sample; NaN where there is none.
    pub residuals: Vec<f64>,
    /// The input just before each sample; NaN where nothing is before it.
    pub before: Vec<f64>,
    /// The input at each sample, if the measurement depends on it directly; else empty.
    pub at_once: Vec<f64>,
    /// `[sample][unknown]`: derivatives of the standardized residuals by the unknowns, the sign aside.
    pub by_unknown: Vec<f64>,
    /// `[sample][direction]`: those by an estimated start, whose squares sum to one over all values.
    pub by_start: Vec<f64>,
}

/// Less than this share of a combination of inputs that the fit leaves says nothing about what is left to explain.
const LEAST_LEFT: f64 = 0.01;

/// Probability of such large correlations of residuals with earlier values of an input if there were none; NaN for inputs
/// that do not move, and for few residuals.
///
/// Residuals of a right model are independent of all that was before them, whatever made the input: in a closed loop it
/// is a function of earlier measurements. It may well depend on the measurement at the same sample, so that only values
/// count that could act on that measurement: those up to just before the sample, which with a held input is the value of
/// the sample before; the value at the sample itself only where the measurement depends on it directly
/// [@ljung1999, sec. 16.6].
///
/// With the vector phi_t of these values less their mean, the residuals z_t, and the derivatives x_t of residuals by the
/// unknowns, c = sum of phi_t z_t has the covariance
///
/// ```text
/// U - G C G',   U = sum of phi_t phi_t',   G = sum of phi_t x_t'
/// ```
///
/// at an estimate of the covariance C, as the fit has made the residuals orthogonal to x; an estimated start takes part
/// in the same way. U counts with how slowly the input moves, for residuals that are white. s = c' (U - G C G')^-1 c is
/// what these values would take away from the sum S of the squares of n residuals, of which the fit has taken as many as
/// its leverages sum to, h. By the ratio of variances
///
/// ```text
/// F = (s / r) / ((S - s) / (n - h - r))
/// ```
///
/// with r degrees of freedom, the directions in which the input moves and of which the fit leaves a hundredth at least.
#[must_use]
pub fn input_correlation(experiments: &[ResidualsWithInput], covariance: &Mat<f64>) -> f64 {
    let p = covariance.nrows();
    let n_residuals = |of: &ResidualsWithInput| of.residuals.iter().filter(|z| z.is_finite()).count();
    let n: usize = experiments.iter().map(n_residuals).sum();
    let n_before = lags(experiments.iter().map(|of| of.residuals.len()).max().unwrap_or(0));
    if n < 20 {
        return f64::NAN;
    }
    let acts_at_once = experiments.iter().any(|of| !of.at_once.is_empty());
    let n_lags = n_before + usize::from(acts_at_once);
    let known = || experiments.iter().flat_map(|of| of.before.iter().filter(|u| u.is_finite()));
    let mean = known().sum::<f64>() / known().count().max(1) as f64;
    let mut cross = Mat::<f64>::zeros(n_lags, 1);
    let mut own = Mat::<f64>::zeros(n_lags, n_lags);
    let mut taken = Mat::<f64>::zeros(n_lags, p);
    let mut taken_by_starts = Mat::<f64>::zeros(n_lags, n_lags);
    // The sum of squares and how many they are, less those that the fit has taken.
    let (mut power, mut n_used) = (0.0, 0.0);
    for of in experiments {
        let q = of.by_start.len() / of.residuals.len().max(1);
        let mut by_start = Mat::<f64>::zeros(n_lags, q);
        for t in n_before - 1..of.residuals.len() {
            let past = of.before[t + 1 - n_before..=t].iter().rev();
            let phi: Vec<f64> = of.at_once.get(t).into_iter().chain(past).map(|u| u - mean).collect();
            let z = of.residuals[t];
            if !z.is_finite() || phi.iter().any(|u| !u.is_finite()) {
                continue;
            }
            power += z * z;
            n_used += 1.0;
            let (x, start) = (&of.by_unknown[t * p..(t + 1) * p], &of.by_start[t * q..(t + 1) * q]);
            let by_unknowns =
                x.iter().enumerate().map(|(i, a)| (0..p).map(|j| a * covariance[(i, j)] * x[j]).sum::<f64>());
            n_used -= by_unknowns.sum::<f64>() + start.iter().map(|e| e * e).sum::<f64>();
            for (i, u) in phi.iter().enumerate() {
                cross[(i, 0)] += z * u;
                phi.iter().enumerate().for_each(|(j, other)| own[(i, j)] += u * other);
                (0..p).for_each(|j| taken[(i, j)] += u * of.by_unknown[t * p + j]);
                (0..q).for_each(|j| by_start[(i, j)] += u * of.by_start[t * q + j]);
            }
        }
        taken_by_starts += &by_start * by_start.transpose();
    }
    let Ok(eigen) = own.self_adjoint_eigen(faer::Side::Lower) else { return f64::NAN };
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    let largest = values[n_lags - 1];
    if largest <= 1e-18 * n as f64 * mean * mean || power <= 0.0 {
        return f64::NAN;
    }
    // Units in which U is the identity.
    let moving: Vec<usize> = (0..n_lags).filter(|&k| values[k] > 1e-6 * largest).collect();
    let units = Mat::from_fn(n_lags, moving.len(), |i, k| vectors[(i, moving[k])] / values[moving[k]].sqrt());
    let fitted = &taken * covariance * taken.transpose() + taken_by_starts;
    let left = Mat::<f64>::identity(moving.len(), moving.len()) - units.transpose() * fitted * &units;
    let Ok(eigen) = left.self_adjoint_eigen(faer::Side::Lower) else { return f64::NAN };
    let along = eigen.U().transpose() * (units.transpose() * cross);
    let shares = eigen.S().column_vector();
    let told: Vec<usize> = (0..moving.len()).filter(|&k| shares[k] > LEAST_LEFT).collect();
    let statistic: f64 = told.iter().map(|&k| along[(k, 0)].powi(2) / shares[k]).sum();
    let (r, more) = (told.len() as f64, n_used - told.len() as f64);
    if r == 0.0 || more < 1.0 {
        return f64::NAN;
    }
    beta_distribution(0.5 * more, 0.5 * r, 1.0 - statistic / power)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of twelve uniform numbers are normal enough.
    fn normal(rng: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
    }

    #[test]
    fn sizes_have_the_probabilities_of_chi_square() {
        // 40 residuals with a mean square of 1.5: 60 at 40 degrees of freedom is exceeded with 0.0222.
        let value = 1.5f64.sqrt();
        let values: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { value } else { -value }).collect();
        let size = residual_tests(&values, &values, PredictedSize::OfIndependent).size;
        assert!((size.normalized_variance - 1.5).abs() < 1e-12 && size.n_effective == 40.0, "{size:?}");
        assert!((size.size_p - 2.0 * chi_square_tail(60.0, 40.0)).abs() < 1e-3, "{}", size.size_p);
        assert!(!size.is_doubtful() && size.band()[0] < 1.0 && size.band()[1] > 1.5);
        assert!(residual_tests(&values, &values, PredictedSize::Unsaid).size.normalized_variance.is_nan());
        let large: Vec<f64> = values.iter().map(|x| 100.0 * x).collect();
        assert!(residual_tests(&large, &large, PredictedSize::OfIndependent).size.is_doubtful());
    }

    #[test]
    fn sizes_are_believed_at_the_rate_of_their_band_also_where_residuals_are_correlated() {
        let mut rng = fastrand::Rng::with_seed(5);
        let kinds = [(0.0, PredictedSize::OfIndependent, 12), (0.9, PredictedSize::OfCorrelated, 80)];
        for (correlation, kind, most) in kinds {
            let mut outside = 0;
            for _ in 0..2000 {
                let mut last = normal(&mut rng);
                let values: Vec<f64> = (0..200)
                    .map(|_| {
                        last = correlation * last + (1.0f64 - correlation * correlation).sqrt() * normal(&mut rng);
                        last
                    })
                    .collect();
                outside += usize::from(residual_tests(&values, &values, kind).size.size_p < 0.001);
            }
            assert!(outside <= most, "{outside} of 2000 at correlation {correlation}");
        }
    }

    #[test]
    fn normal_residuals_pass_at_the_rate_they_should_and_others_do_not() {
        // The example of the paper: 62 values, skewness 1.02 and kurtosis 4.58 give 3.14 and 2.21.
        let [by_skewness, by_kurtosis] = normal_scores(62.0, 1.02, 4.58);
        assert!((100.0 * by_skewness - 314.0).abs() < 2.0 && (100.0 * by_kurtosis - 221.0).abs() < 2.0);
        let mut rng = fastrand::Rng::with_seed(6);
        let mut draw = || daesy_random::special_functions::normal_quantile(rng.f64());
        let few = (0..2000).filter(|_| normality(&(0..60).map(|_| draw()).collect::<Vec<f64>>()) < 0.01).count();
        assert!((8..=60).contains(&few), "{few} of 2000 rejected at 1 %");
        let mut rng = fastrand::Rng::with_seed(7);
        let heavy: Vec<f64> = (0..200).map(|_| (std::f64::consts::PI * (rng.f64() - 0.5)).tan()).collect();
        assert!(normality(&heavy) < 1e-6);
    }

    #[test]
    fn white_noise_passes_at_the_rate_it_should_and_coloured_noise_does_not() {
        let mut rng = fastrand::Rng::with_seed(12);
        let (mut white, mut coloured, mut seldom) = (0, 0, 0);
        for _ in 0..200 {
            let noise: Vec<f64> = (0..300).map(|_| normal(&mut rng)).collect();
            let mut red = noise.clone();
            for t in 1..300 {
                red[t] += 0.5 * red[t - 1];
            }
            let with_gaps: Vec<f64> = noise.iter().map(|x| if rng.f64() < 0.1 { f64::NAN } else { *x }).collect();
            white += usize::from(residual_tests(&with_gaps, &with_gaps, PredictedSize::Unsaid).whiteness < 0.05);
            coloured += usize::from(residual_tests(&red, &red, PredictedSize::Unsaid).whiteness < 0.05);
            // Measured in every 20th row only.
            let rare: Vec<f64> = red.iter().flat_map(|x| std::iter::once(*x).chain([f64::NAN; 19])).collect();
            let tests = residual_tests(&rare, &rare, PredictedSize::OfIndependent);
            seldom += usize::from(tests.whiteness < 0.05 && tests.size.lag_autocorrelation > 0.2);
        }
        assert!((3..=20).contains(&white), "{white} of 200 white series rejected");
        assert!(coloured > 195, "{coloured} of 200 coloured series rejected");
        assert_eq!(seldom, coloured, "rows without a value change nothing");
    }

    /// How the input of a record is made.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Made {
        White,
        Stepped,
        ByThermostat,
    }

    /// What is wrong in the model that is fitted.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Fault {
        None,
        Delay,
        SecondLag,
    }

    /// The test for a fit of y_t = a y_(t-1) + b u_(t-1) + c by least squares, whose derivatives are y, u and one, to a
    /// record with noise of standard deviation 0.3 in the same equation.
    fn probability(rng: &mut fastrand::Rng, n: usize, made: Made, fault: Fault) -> f64 {
        let (mut y, mut u, mut before) = (vec![20.0], Vec::new(), f64::NAN);
        for t in 0..n {
            let held = if t > 0 { u[t - 1] } else { 0.0 };
            u.push(match made {
                Made::White => f64::from(u8::from(rng.bool())),
                Made::Stepped if t % 10 == 0 || rng.f64() < 0.05 => 1.0 - held,
                Made::ByThermostat if y[t] < 20.0 => 1.0,
                Made::ByThermostat if y[t] > 21.0 => 0.0,
                Made::Stepped | Made::ByThermostat => held,
            });
            let older = if t > 0 { u[t - 1] } else { u[0] };
            let drive = match fault {
                Fault::None => u[t],
                Fault::Delay => older,
                Fault::SecondLag => u[t] + 0.8 * older,
            };
            let next = 0.9 * y[t] + drive + 1.5 + 0.3 * normal(rng);
            y.push(next);
        }
        let x = Mat::from_fn(n, 3, |t, i| [y[t], u[t], 1.0][i]);
        let factor = (x.transpose() * &x).llt(faer::Side::Lower).unwrap();
        let covariance = faer::linalg::solvers::Solve::solve(&factor, &Mat::<f64>::identity(3, 3));
        let theta = &covariance * (x.transpose() * Mat::from_fn(n, 1, |t, _| y[t + 1]));
        let residual = |t: usize| y[t + 1] - (0..3).map(|i| x[(t, i)] * theta[(i, 0)]).sum::<f64>();
        // At the first sample nothing was before.
        let data = ResidualsWithInput {
            residuals: std::iter::once(f64::NAN).chain((0..n).map(residual)).collect(),
            before: (0..=n).map(|t| std::mem::replace(&mut before, *u.get(t).unwrap_or(&0.0))).collect(),
            at_once: Vec::new(),
            by_unknown: (0..=n)
                .flat_map(|t| (0..3).map(move |i| (t, i)))
                .map(|(t, i)| if t > 0 { x[(t - 1, i)] } else { 0.0 })
                .collect(),
            by_start: Vec::new(),
        };
        input_correlation(&[data], &covariance)
    }

    #[test]
    fn right_models_pass_the_test_of_inputs_at_its_rate_also_in_closed_loops() {
        let mut rng = fastrand::Rng::with_seed(19);
        for (made, n) in
            [Made::White, Made::Stepped, Made::ByThermostat].into_iter().flat_map(|made| [(made, 400), (made, 40)])
        {
            let all: Vec<f64> = (0..1000).map(|_| probability(&mut rng, n, made, Fault::None)).collect();
            let below = |level: f64| all.iter().filter(|p| **p < level).count();
            let [rarely, seldom, half] = [0.01, 0.05, 0.5].map(below);
            // With few samples what earlier ones have made of the regressors matters.
            let (few, some, most) = if n < 100 { (30, 100, 620) } else { (20, 80, 580) };
            assert!(rarely <= few && (25..=some).contains(&seldom), "{made:?}, {n}: {rarely} {seldom}");
            assert!((420..=most).contains(&half), "{made:?}, {n}: {half}");
        }
    }

    #[test]
    fn a_missing_delay_or_lag_of_an_input_is_found() {
        let mut rng = fastrand::Rng::with_seed(20);
        for made in [Made::White, Made::Stepped, Made::ByThermostat] {
            for fault in [Fault::Delay, Fault::SecondLag] {
                let found = (0..50).filter(|_| probability(&mut rng, 400, made, fault) < 1e-3).count();
                assert!(found >= 45, "{made:?}, {fault:?}: {found} of 50");
            }
        }
    }
}
