//! Tests of residuals: are they white, and do known inputs still explain them?

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
    ResidualTests { whiteness: whiteness(standardized), mean, std, n }
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
