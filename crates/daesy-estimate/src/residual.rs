//! Tests of residuals: are they white, and do known inputs still explain them?

use daesy_random::special_functions::normal_distribution;
use faer::Mat;

use crate::chi_square::chi_square_tail;

/// What residuals of one measurement say about the model.
#[derive(Clone, PartialEq, Debug)]
pub struct ResidualTests {
    /// Probability of such large correlations between successive residuals if they were white; NaN with too few of
    /// them. [@ljung1978]
    pub whiteness: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Number of residuals.
    pub n: usize,
    /// How large they are.
    pub size: ResidualSize,
}

/// How large residuals are beside the standard deviations that the model predicts for them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResidualSize {
    /// Mean square of the standardized residuals: 1 where the predicted standard deviations are right; NaN without any.
    pub normalized_variance: f64,
    /// Probability of a mean square at least as far from 1, either way, if they were.
    pub size_p: f64,
    /// Correlation of successive standardized residuals.
    pub lag_autocorrelation: f64,
}

impl ResidualSize {
    /// Sizes that are not believable have a smaller probability.
    const BELIEVABLE: f64 = 1e-3;
    /// Mean squares within this factor of 1 do no harm.
    const HARMLESS: f64 = 1.2;

    /// With n independent residuals, n times the mean square is chi-square with n degrees of freedom, whose cube root
    /// is nearly normal [@wilson1931]:
    ///
    /// ```text
    /// z = (m^(1/3) - 1 + 2/(9 n)) / sqrt(2/(9 n))
    /// ```
    fn of(standardized: &[f64]) -> Self {
        let present: Vec<f64> = standardized.iter().copied().filter(|x| x.is_finite()).collect();
        let n = present.len() as f64;
        let normalized_variance = present.iter().map(|x| x * x).sum::<f64>() / n;
        let spread = 2.0 / (9.0 * n);
        let z = (normalized_variance.cbrt() - 1.0 + spread) / spread.sqrt();
        let pairs = standardized.iter().zip(standardized.iter().skip(1));
        let (mut sum, mut n_pairs) = (0.0, 0usize);
        for (a, b) in pairs.filter(|(a, b)| a.is_finite() && b.is_finite()) {
            sum += a * b;
            n_pairs += 1;
        }
        let lag_autocorrelation = sum / n_pairs as f64 / normalized_variance;
        Self { normalized_variance, size_p: 2.0 * normal_distribution(-z.abs()), lag_autocorrelation }
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

/// Tests standardized residuals; missing ones are NaN, and a lag counts the pairs that are there.
#[must_use]
pub fn residual_tests(standardized: &[f64], plain: &[f64]) -> ResidualTests {
    let present: Vec<f64> = plain.iter().copied().filter(|x| x.is_finite()).collect();
    let n = present.len();
    let mean = present.iter().sum::<f64>() / n as f64;
    let std = (present.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n.max(2) - 1) as f64).sqrt();
    ResidualTests { whiteness: whiteness(standardized), mean, std, n, size: ResidualSize::of(standardized) }
}

/// Ljung and Box's test: `n (n + 2) sum over lags of r_k^2 / (n - k)` is chi-square with as many degrees of freedom as
/// lags.
fn whiteness(values: &[f64]) -> f64 {
    let n = values.iter().filter(|x| x.is_finite()).count();
    let n_lags = lags(n);
    if n < 10 {
        return f64::NAN;
    }
    let mean = values.iter().filter(|x| x.is_finite()).sum::<f64>() / n as f64;
    let power: f64 = values.iter().filter(|x| x.is_finite()).map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
    if power <= 0.0 || power.is_nan() {
        return f64::NAN;
    }
    let mut statistic = 0.0;
    for lag in 1..=n_lags {
        let pairs = values.iter().zip(&values[lag..]).filter(|(a, b)| a.is_finite() && b.is_finite());
        let (mut sum, mut n_pairs) = (0.0, 0usize);
        for (a, b) in pairs {
            sum += (a - mean) * (b - mean);
            n_pairs += 1;
        }
        if n_pairs > 0 {
            // With all pairs there this is n (n + 2) r^2 / (n - k).
            let r = sum / power / n_pairs as f64;
            let factor = n_pairs as f64 * (n + 2) as f64 / n as f64;
            statistic += factor * r * r;
        }
    }
    chi_square_tail(statistic, n_lags as f64)
}

/// Probability of such large correlations of residuals with present and earlier values of an input if there were none.
///
/// With `c_k = sum of e_t u_(t - k)` and the matrix `U` of the input's own correlations, `c^T U^-1 c` over the power of
/// the residuals is chi-square; degrees of freedom are the directions in which the input moves. NaN for inputs that do
/// not move.
#[must_use]
pub fn input_correlation(standardized: &[f64], input: &[f64]) -> f64 {
    let n = standardized.len().min(input.len());
    let n_lags = lags(n);
    if n < 20 {
        return f64::NAN;
    }
    let mean = input.iter().sum::<f64>() / n as f64;
    let moved: Vec<f64> = input.iter().map(|x| x - mean).collect();
    let mut cross = vec![0.0; n_lags];
    let mut own = Mat::<f64>::zeros(n_lags, n_lags);
    let (mut power, mut n_used) = (0.0, 0usize);
    for t in n_lags - 1..n {
        let e = standardized[t];
        if !e.is_finite() {
            continue;
        }
        power += e * e;
        n_used += 1;
        for i in 0..n_lags {
            cross[i] += e * moved[t - i];
            for j in 0..n_lags {
                own[(i, j)] += moved[t - i] * moved[t - j];
            }
        }
    }
    let Ok(eigen) = own.self_adjoint_eigen(faer::Side::Lower) else { return f64::NAN };
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    let largest = values[n_lags - 1];
    if largest <= 1e-18 * n as f64 * mean * mean || power <= 0.0 {
        return f64::NAN;
    }
    let (mut statistic, mut rank) = (0.0, 0usize);
    for k in (0..n_lags).filter(|&k| values[k] > 1e-6 * largest) {
        let along: f64 = (0..n_lags).map(|i| vectors[(i, k)] * cross[i]).sum();
        statistic += along * along / values[k];
        rank += 1;
    }
    chi_square_tail(statistic / (power / n_used as f64), rank as f64)
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
        let size = residual_tests(&values, &values).size;
        assert!((size.normalized_variance - 1.5).abs() < 1e-12 && (size.lag_autocorrelation + 1.0).abs() < 1e-12);
        assert!((size.size_p - 2.0 * chi_square_tail(60.0, 40.0)).abs() < 1e-3, "{}", size.size_p);
        assert!(!size.is_doubtful());
        let large: Vec<f64> = values.iter().map(|x| 100.0 * x).collect();
        assert!(residual_tests(&large, &large).size.is_doubtful());
    }

    #[test]
    fn white_noise_passes_at_the_rate_it_should_and_coloured_noise_does_not() {
        let mut rng = fastrand::Rng::with_seed(12);
        let (mut white, mut coloured, mut crossed) = (0, 0, 0);
        for _ in 0..200 {
            let noise: Vec<f64> = (0..300).map(|_| normal(&mut rng)).collect();
            let mut red = noise.clone();
            for t in 1..300 {
                red[t] += 0.5 * red[t - 1];
            }
            let with_gaps: Vec<f64> = noise.iter().map(|x| if rng.f64() < 0.1 { f64::NAN } else { *x }).collect();
            let input: Vec<f64> = (0..300).map(|t| f64::from(u8::from((t / 7) % 2 == 0))).collect();
            white += usize::from(residual_tests(&with_gaps, &with_gaps).whiteness < 0.05);
            coloured += usize::from(residual_tests(&red, &red).whiteness < 0.05);
            crossed += usize::from(input_correlation(&noise, &input) < 0.05);
        }
        assert!((3..=20).contains(&white), "{white} of 200 white series rejected");
        assert!(coloured > 195, "{coloured} of 200 coloured series rejected");
        assert!(crossed <= 22, "{crossed} of 200 independent inputs rejected");
    }
}
