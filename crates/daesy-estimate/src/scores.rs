//! Scores of single samples: how far their products are from the information that the model promises.
//!
//! If the model is right, the scores s_k (derivatives of the log-likelihood of sample k given those before it) are
//! uncorrelated, and the sum of their products equals the information. If it is not, the covariance of the estimates is
//! the sandwich [@white1982]
//!
//! ```text
//! I^-1 V I^-1,   V = sum over lags l of (1 - |l| / (m + 1)) sum over k of s_k s_(k+l)'
//! ```
//!
//! with Bartlett weights up to a lag m that follows from the autocorrelation of the scores [@andrews1991].

use faer::Mat;

/// Scores by experiment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScoreSeries {
    /// Number of unknowns.
    pub n_unknown: usize,
    /// `[experiment][sample * n_unknown + unknown]`
    pub experiments: Vec<Vec<f64>>,
}

/// Variances of single combinations of scores, see [`ScoreSeries::variance`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScoreVariance {
    /// The variance of the sum.
    pub value: f64,
    /// The variance of this estimate of it, relative to its square.
    pub relative_variance: f64,
}

/// Variances that differ by less than this factor are taken as equal.
const EQUAL_WITHIN: f64 = 1.5;

/// Standard deviations by which cube roots of variances must differ to differ for certain: one of a thousand normal
/// numbers is as far off.
const CERTAIN: f64 = 3.3;

impl ScoreSeries {
    /// Whether a combination of the summed scores has another variance than is promised: by more than a factor of 1.5,
    /// and by more than chance explains. A variance r times the promised one, whose estimate has the relative variance
    /// 2/k, is compared with chi-square at k degrees of freedom, whose cube root is nearly normal [@wilson1931]:
    ///
    /// ```text
    /// z = (r^(1/3) - 1 + 2/(9 k)) / sqrt(2/(9 k))
    /// ```
    ///
    /// A difference in standard deviations of the estimate would not do: where squares happen to be small, so does what
    /// is taken for their spread.
    #[must_use]
    pub fn differs(&self, promised: f64, weights: &[f64], units: &[f64]) -> bool {
        let found = self.variance(weights, units);
        let ratio = found.value / promised;
        let spread = found.relative_variance / 9.0;
        let z = (ratio.max(0.0).cbrt() - 1.0 + spread) / spread.sqrt();
        promised > 0.0 && !(1.0 / EQUAL_WITHIN..=EQUAL_WITHIN).contains(&ratio) && z.abs() > CERTAIN
    }

    /// Scores at an estimate as they would be at the truth: p of them sum to zero there, for p unknowns that were found,
    /// so that the squares of n are smaller by (n - p) / n.
    #[must_use]
    pub fn at_truth(self, n_found: usize) -> Self {
        let n = self.experiments.iter().map(Vec::len).sum::<usize>() / self.n_unknown.max(1);
        let factor = n as f64 / n.saturating_sub(n_found).max(1) as f64;
        self.scaled(factor.sqrt())
    }

    /// The same scores times a factor.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.experiments.iter_mut().flatten().for_each(|score| *score *= factor);
        self
    }

    /// One combination of the scores over time.
    fn combination(&self, experiment: usize, weights: &[f64]) -> Vec<f64> {
        let rows = self.experiments[experiment].chunks_exact(self.n_unknown.max(1));
        rows.map(|row| row.iter().zip(weights).map(|(score, weight)| score * weight).sum()).collect()
    }

    /// The lag up to which an experiment's scores may be correlated.
    fn lags(&self, experiment: usize, units: &[f64]) -> usize {
        let n = self.experiments[experiment].len() / self.n_unknown.max(1);
        let mut alpha = 0.0f64;
        for at in 0..self.n_unknown {
            let mut weights = vec![0.0; self.n_unknown];
            weights[at] = units[at];
            let row = self.combination(experiment, &weights);
            let square: f64 = row.iter().map(|x| x * x).sum();
            let product: f64 = row.windows(2).map(|pair| pair[0] * pair[1]).sum();
            if square > 0.0 {
                let rho = (product / square).clamp(-0.98, 0.98);
                // A correlation that chance explains is none.
                if rho.abs() > 3.0 / (n as f64).sqrt() {
                    alpha = alpha.max(4.0 * rho * rho / ((1.0 - rho) * (1.0 + rho)).powi(2));
                }
            }
        }
        ((1.1447 * (alpha * n as f64).cbrt()).ceil() as usize).min(n / 4)
    }

    /// The covariance V of the sum of all scores; `units` are typical sizes of the unknowns.
    #[must_use]
    pub fn long_run_products(&self, units: &[f64]) -> Mat<f64> {
        let p = self.n_unknown;
        let mut total = Mat::zeros(p, p);
        for experiment in 0..self.experiments.len() {
            let scores: Vec<&[f64]> = self.experiments[experiment].chunks_exact(p.max(1)).collect();
            let n_lags = self.lags(experiment, units);
            for lag in 0..=n_lags {
                let weight = 1.0 - lag as f64 / (n_lags + 1) as f64;
                for i in 0..p {
                    for j in 0..p {
                        let sum: f64 = scores.iter().skip(lag).zip(&scores).map(|(a, b)| a[i] * b[j]).sum();
                        total[(i, j)] += weight * sum;
                        if lag > 0 {
                            total[(j, i)] += weight * sum;
                        }
                    }
                }
            }
        }
        total
    }

    /// The variance of a combination of the summed scores by their products, and how certain it is: with g_k the
    /// combination at sample k, `var(sum g_k^2) = sum g_k^4 - (sum g_k^2)^2 / n`, and `4 m / (3 n)` of the squared
    /// variance for the lags; 2/n of it at least, as for normal scores of one size.
    #[must_use]
    pub fn variance(&self, weights: &[f64], units: &[f64]) -> ScoreVariance {
        let (mut value, mut spread, mut n_all) = (0.0f64, 0.0f64, 0.0f64);
        for experiment in 0..self.experiments.len() {
            let g = self.combination(experiment, weights);
            let n_lags = self.lags(experiment, units);
            let n = g.len().max(1) as f64;
            let squares: f64 = g.iter().map(|x| x * x).sum();
            let fourth: f64 = g.iter().map(|x| x.powi(4)).sum();
            let mut own = squares;
            for lag in 1..=n_lags {
                let weight = 1.0 - lag as f64 / (n_lags + 1) as f64;
                own += 2.0 * weight * g.iter().skip(lag).zip(&g).map(|(a, b)| a * b).sum::<f64>();
            }
            value += own;
            n_all += n;
            spread += (fourth - squares * squares / n).max(0.0) + 4.0 / 3.0 * n_lags as f64 / n * own * own;
        }
        let relative = if value > 0.0 { spread / (value * value) } else { 0.0 };
        ScoreVariance { value, relative_variance: relative.max(2.0 / n_all.max(1.0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_as_promised_are_believed_however_few_they_are() {
        // Products of normal errors with sensitivities that grow, with the variance that the errors have.
        let mut rng = fastrand::Rng::with_seed(14);
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        for n in [6usize, 12, 40, 200] {
            let promised: f64 = (0..n).map(|k| (1.0 + k as f64).powi(2)).sum();
            let mut differs = || {
                let scores = (0..n).map(|k| (1.0 + k as f64) * normal()).collect();
                let scores = ScoreSeries { n_unknown: 1, experiments: vec![scores] };
                scores.differs(promised, &[1.0], &[1.0])
            };
            let n_false = (0..2000).filter(|_| differs()).count();
            assert!(n_false <= 30, "{n_false} of 2000 with {n} scores");
        }
    }

    #[test]
    fn correlated_scores_count_with_their_lags() {
        // Scores of an autoregression of first order: the variance of the sum is n (1 + a) / (1 - a) times that of one.
        let mut rng = fastrand::Rng::with_seed(4);
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        for (a, at_least, at_most) in [(0.0, 0.85, 1.15), (0.7, 3.8, 7.0)] {
            let (mut mean, n) = (0.0, 4000);
            for _ in 0..20 {
                let mut last = 0.0f64;
                let scores: Vec<f64> = (0..n)
                    .map(|_| {
                        last = a * last + (1.0f64 - a * a).sqrt() * normal();
                        last
                    })
                    .collect();
                let series = ScoreSeries { n_unknown: 1, experiments: vec![scores] };
                let value = series.long_run_products(&[1.0])[(0, 0)];
                let variance = series.variance(&[1.0], &[1.0]);
                assert!((variance.value - value).abs() < 1e-9 * value && variance.relative_variance < 0.25);
                mean += value / f64::from(n) / 20.0;
            }
            assert!(mean > at_least && mean < at_most, "{a}: {mean}, {} expected", (1.0 + a) / (1.0 - a));
        }
    }
}
