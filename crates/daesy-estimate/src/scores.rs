//! Scores of single samples: how far their products are from the information that the model promises.
//!
//! A value with the error e of its prediction and the variance s of this error, both depending on the unknowns, has the
//! score
//!
//! ```text
//! x z + y (z^2 - 1) / sqrt(2),   z = e / sqrt(s),   x = -de / sqrt(s),   y = ds / (sqrt(2) s)
//! ```
//!
//! If the model is right, z is standard normal and independent of what was before, so that the scores are uncorrelated
//! and the sum of their products is the information I = sum of x x' + y y'. If it is not, the covariance of the estimates
//! is the sandwich [@white1982], here the products of the influences psi_t = B sum over the values of sample t, where B
//! is the inverse of the information, or of what else makes an estimate of the scores:
//!
//! ```text
//! sum over lags l of (1 - |l| / (m + 1)) sum over t of psi_t psi_(t+l)'
//! ```
//!
//! with Bartlett weights up to a lag m that follows from the autocorrelation of the influences [@andrews1991].
//!
//! Three things keep the sandwich comparable with the promise:
//!
//! A start that was estimated beside the unknowns has scores of its own, E z with A = sum of E E'. What remains of x is
//! x - B_xE A^-1 E, with B_xE = sum of x E': the score of an unknown when the start follows it, whose products sum to the
//! information in which the start is eliminated. The scores at a fixed start are larger by all that the start explains,
//! and where data tell an unknown and the start apart only weakly, by orders of magnitude.
//!
//! At an estimate, errors are smaller than at the truth, most where they count most: the variance of z is 1 - h with the
//! leverage h = x' B x + E' A^-1 E, and that of (z^2 - 1) / sqrt(2) smaller by y' B y. Both are divided by the roots of
//! what they are, so that the expectation of every product is what it is at the truth [@mackinnon1985, HC2].
//!
//! The products of few values vary much. With a = (B x)_i and b = (B y)_i / sqrt(2), an influence a z + b (z^2 - 1) has
//! the cumulants of a shifted noncentral chi-square variable,
//!
//! ```text
//! k_r = 2^(r-1) (r-1)! (b^r + r a^2 b^(r-2) / 4)
//! ```
//!
//! those of independent values add up, and the square of their sum has the variance 2 k_2^2 + k_4 and the third central
//! moment 8 k_2^3 + 12 k_4 k_2 + 10 k_3^2 + k_6. So mean, variance and skewness of the summed squares are known.

use faer::Mat;

use crate::chi_square::chi_square_tail;
use crate::kernel::trace_of_product;

/// Scores by experiment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScoreSeries {
    /// Number of unknowns.
    pub n_unknown: usize,
    /// What the experiments give.
    pub experiments: Vec<ExperimentScores>,
}

/// Scores of one experiment, see the module for the letters.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExperimentScores {
    /// `[value]`: z.
    pub errors: Vec<f64>,
    /// `[value]`: the standard deviation that the model promises for z where it is not 1, and no variance depends on an
    /// unknown; else empty.
    pub sizes: Vec<f64>,
    /// `[value][unknown]`: x.
    pub by_error: Vec<f64>,
    /// `[value][unknown]`: y; empty where no variance depends on an unknown.
    pub by_square: Vec<f64>,
    /// `[value][direction]`: E of an estimated start.
    pub by_start: Vec<f64>,
    /// `[sample]`: where its values end.
    pub ends: Vec<usize>,
}

/// What the products of scores say about the estimates.
#[derive(Clone, PartialEq, Debug)]
pub struct Influence {
    /// The covariance of the estimates by the products.
    pub covariance: Mat<f64>,
    /// By unknown.
    pub variances: Vec<InfluenceVariance>,
}

/// The variance of one estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InfluenceVariance {
    /// By the model.
    pub promised: f64,
    /// By the products of scores.
    pub found: f64,
    /// Probability of such a difference, either way, if the model were right.
    pub probability: f64,
    /// Degrees of freedom of `found`: where the model is right, it varies as a chi-square variable with so many
    /// [@bell2002].
    pub degrees: f64,
}

/// Variances that differ by less than this factor are taken as equal.
const EQUAL_WITHIN: f64 = 1.5;

/// Standard deviations by which a correlation must differ from zero to be one: one of a thousand normal numbers is as
/// far off.
const CERTAIN: f64 = 3.3;

/// Values of which the fit leaves less than this share say nothing.
const LEAST_LEFT: f64 = 1e-6;

impl InfluenceVariance {
    /// Whether the variance is another one than promised: by more than a factor of 1.5, and by more than chance explains
    /// with this probability.
    #[must_use]
    pub fn differs(&self, level: f64) -> bool {
        let ratio = self.found / self.promised;
        self.promised > 0.0 && !(1.0 / EQUAL_WITHIN..=EQUAL_WITHIN).contains(&ratio) && self.probability < level
    }
}

impl ExperimentScores {
    /// Scores in which an estimated start follows the unknowns: `whitening` is C with C C' = A^-1, `cross` the matrix
    /// sum of x E'.
    #[must_use]
    pub fn with_start_eliminated(mut self, whitening: &Mat<f64>, cross: &Mat<f64>) -> Self {
        let (p, q, rank) = (cross.nrows(), cross.ncols(), whitening.ncols());
        let slopes = cross * whitening;
        let mut by_start = Vec::with_capacity(self.errors.len() * rank);
        for (x, start) in self.by_error.chunks_exact_mut(p.max(1)).zip(self.by_start.chunks_exact(q.max(1))) {
            for k in 0..rank {
                let along: f64 = (0..q).map(|j| start[j] * whitening[(j, k)]).sum();
                x.iter_mut().enumerate().for_each(|(i, x)| *x -= slopes[(i, k)] * along);
                by_start.push(along);
            }
        }
        self.by_start = by_start;
        self
    }

    /// The lag up to which influences of one unknown with this correlation may be correlated.
    fn lags(&self, correlation: f64) -> usize {
        let n = self.ends.len();
        let rho = correlation.clamp(-0.98, 0.98);
        let alpha = 4.0 * rho * rho / ((1.0 - rho) * (1.0 + rho)).powi(2);
        ((1.1447 * (alpha * n as f64).cbrt()).ceil() as usize).min(n / 4)
    }
}

/// What the values of an experiment do to the estimates.
struct Influences {
    /// `[sample][unknown]`
    psi: Vec<f64>,
    /// `[sample][unknown]`: promised variances.
    promised: Vec<f64>,
}

/// Moments of summed squares where the model is right, by unknown.
struct Promise {
    mean: Vec<f64>,
    /// The sum over samples of squared variances.
    squares: Vec<f64>,
    /// What leverages add to it.
    by_leverage: Vec<f64>,
    /// Variances and third moments.
    variance: Vec<f64>,
    third: Vec<f64>,
    /// Variances of values that say nothing.
    hidden: Mat<f64>,
}

impl ScoreSeries {
    /// Errors and their derivatives in another unit of the errors, whose square is smaller by the factor.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for experiment in &mut self.experiments {
            let numbers = experiment.errors.iter_mut().chain(&mut experiment.by_error);
            numbers.for_each(|number| *number *= factor.sqrt());
        }
        self
    }

    /// What the scores say about estimates that follow from them by `bread`, the inverse of the information.
    ///
    /// The summed squares of the influences on one estimate, with their mean, variance and skewness g under the model
    /// (see the module), are compared with a chi-square variable of the same three moments, which has 8 / g^2 degrees of
    /// freedom [@pearson1959]; where they are smaller than promised, with one of the same two that begins at zero, as
    /// they do. Squares of n errors from which p unknowns were estimated are correlated; with d_t the
    /// influence of sample t over the root of what the fit leaves of it, and H_tu the effect of sample u on the
    /// prediction of sample t, the part of the variance that comes from normal errors is [@bell2002]
    ///
    /// ```text
    /// 2 sum over t, u of d_t^2 d_u^2 (1 - H)_tu^2
    /// ```
    ///
    /// Lags up to m add `4 m / 3` times the sum of squared variances.
    #[must_use]
    pub fn influence(&self, bread: &Mat<f64>) -> Influence {
        let p = self.n_unknown;
        let mut promise = Promise {
            mean: vec![0.0; p],
            squares: vec![0.0; p],
            by_leverage: vec![0.0; p],
            variance: vec![0.0; p],
            third: vec![0.0; p],
            hidden: Mat::zeros(p, p),
        };
        let all = self.influences(bread, &mut promise);
        let correlations: Vec<f64> = (0..p).map(|i| correlation(&all, i, p)).collect();
        let mut covariance = promise.hidden.clone();
        let mut lagged = vec![0.0; p];
        for (experiment, influences) in self.experiments.iter().zip(&all) {
            let n_lags = correlations.iter().map(|&rho| experiment.lags(rho)).max().unwrap_or(0);
            let psi: Vec<&[f64]> = influences.psi.chunks_exact(p.max(1)).collect();
            for lag in 0..=n_lags {
                let weight = 1.0 - lag as f64 / (n_lags + 1) as f64;
                for i in 0..p {
                    for j in 0..p {
                        let sum: f64 = psi.iter().skip(lag).zip(&psi).map(|(a, b)| a[i] * b[j]).sum();
                        covariance[(i, j)] += weight * sum;
                        if lag > 0 {
                            covariance[(j, i)] += weight * sum;
                        }
                    }
                }
            }
            for (i, lagged) in lagged.iter_mut().enumerate() {
                let squares: f64 = influences.promised.iter().skip(i).step_by(p).map(|v| v * v).sum();
                *lagged += 4.0 / 3.0 * n_lags as f64 * squares;
            }
        }
        let variances = (0..p)
            .map(|i| {
                let (promised, found) = (promise.mean[i] + promise.hidden[(i, i)], covariance[(i, i)]);
                let skewness = promise.third[i] / promise.variance[i].powf(1.5);
                let leverage = 2.0 * (promise.by_leverage[i] - promise.squares[i]);
                let variance = (promise.variance[i] + leverage).max(0.0) + lagged[i];
                let degrees = 2.0 * promised * promised / variance;
                let nu = (8.0 / (skewness * skewness)).min(degrees);
                let above = chi_square_tail(nu + (2.0 * nu / variance).sqrt() * (found - promised), nu);
                let below = 1.0 - chi_square_tail(degrees * found / promised, degrees);
                let probability = (2.0 * above.min(below)).min(1.0);
                InfluenceVariance { promised, found, probability, degrees }
            })
            .collect();
        Influence { covariance, variances }
    }

    /// The influences of all samples, and the moments that the model promises.
    fn influences(&self, bread: &Mat<f64>, promise: &mut Promise) -> Vec<Influences> {
        let p = self.n_unknown;
        // By unknown: the sum of v v' for the vectors v of the samples, whose products are d_t^2 H_tu d_u^2.
        let mut own: Vec<Mat<f64>> = vec![Mat::zeros(p, p); p];
        let times_bread = |row: &[f64]| -> Vec<f64> {
            (0..p).map(|i| row.iter().enumerate().map(|(j, x)| bread[(i, j)] * x).sum()).collect()
        };
        let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let mut all = Vec::with_capacity(self.experiments.len());
        for scores in &self.experiments {
            let q = scores.by_start.len() / scores.errors.len().max(1);
            let mut influences = Influences { psi: Vec::new(), promised: Vec::new() };
            let mut with_start: Vec<Mat<f64>> = vec![Mat::zeros(p, q); p];
            let mut of_start: Vec<Mat<f64>> = vec![Mat::zeros(q, q); p];
            let mut first = 0;
            for &end in &scores.ends {
                let mut psi = vec![0.0; p];
                // By unknown: second to sixth cumulant, and d_t^2.
                let mut cumulants = vec![[0.0f64; 5]; p];
                let mut along = vec![vec![0.0; p]; p];
                let mut along_start = vec![vec![0.0; q]; p];
                for value in first..end {
                    let x = &scores.by_error[value * p..(value + 1) * p];
                    let y = scores.by_square.get(value * p..(value + 1) * p).unwrap_or_default();
                    let start = &scores.by_start[value * q..(value + 1) * q];
                    let size = scores.sizes.get(value).copied().unwrap_or(1.0);
                    let (by_error, by_square) = (times_bread(x), times_bread(y));
                    let left = 1.0 - product(x, &by_error) - product(start, start);
                    let left_of_square = 1.0 - product(y, &by_square);
                    if left < LEAST_LEFT || left_of_square < LEAST_LEFT {
                        for i in 0..p {
                            for j in 0..p {
                                promise.hidden[(i, j)] +=
                                    size * size * by_error[i] * by_error[j] + by_square[i] * by_square[j];
                            }
                        }
                        continue;
                    }
                    let z = scores.errors[value] / left.sqrt();
                    let square = if y.is_empty() { 0.0 } else { (z * z - 1.0) / (2.0 * left_of_square).sqrt() };
                    for i in 0..p {
                        psi[i] += by_error[i] * z + by_square[i] * square;
                        let (a, b) = (size * by_error[i], by_square[i] * std::f64::consts::FRAC_1_SQRT_2);
                        let [second, third, fourth, sixth, reach] = &mut cumulants[i];
                        *second += a * a + 2.0 * b * b;
                        *third += 6.0 * a * a * b + 8.0 * b.powi(3);
                        *fourth += 48.0 * b * b * (b * b + a * a);
                        *sixth += 3840.0 * b.powi(4) * (b * b + 1.5 * a * a);
                        *reach += a * a / left + 2.0 * b * b / left_of_square;
                        let (to_error, to_square) = (a / left.sqrt(), by_square[i] / left_of_square.sqrt());
                        along[i].iter_mut().zip(x).for_each(|(v, x)| *v += to_error * x);
                        along[i].iter_mut().zip(y).for_each(|(v, y)| *v += to_square * y);
                        along_start[i].iter_mut().zip(start).for_each(|(v, e)| *v += to_error * e);
                    }
                }
                for i in 0..p {
                    let [second, third, fourth, sixth, reach] = cumulants[i];
                    promise.mean[i] += second;
                    promise.squares[i] += second * second;
                    promise.variance[i] += 2.0 * second * second + fourth;
                    promise.third[i] += 8.0 * second.powi(3) + 12.0 * fourth * second + 10.0 * third * third + sixth;
                    let (v, w) = (&along[i], &along_start[i]);
                    let length = product(v, &times_bread(v)) + product(w, w);
                    promise.by_leverage[i] += reach * reach - 2.0 * reach * length;
                    for (a, va) in v.iter().enumerate() {
                        v.iter().enumerate().for_each(|(b, vb)| own[i][(a, b)] += va * vb);
                        w.iter().enumerate().for_each(|(b, wb)| with_start[i][(a, b)] += va * wb);
                    }
                    for (a, wa) in w.iter().enumerate() {
                        w.iter().enumerate().for_each(|(b, wb)| of_start[i][(a, b)] += wa * wb);
                    }
                    influences.promised.push(second);
                }
                influences.psi.extend(psi);
                first = end;
            }
            for i in 0..p {
                let crossed = trace_of_product(&(bread * &with_start[i]), &with_start[i].transpose().to_owned());
                promise.by_leverage[i] += 2.0 * crossed + trace_of_product(&of_start[i], &of_start[i]);
            }
            all.push(influences);
        }
        for (i, own) in own.iter().enumerate() {
            let product = bread * own;
            promise.by_leverage[i] += trace_of_product(&product, &product);
        }
        all
    }
}

/// The correlation of successive influences on one estimate over all experiments; zero where chance explains it. With
/// influences of unequal size its variance is `sum of psi_t^2 psi_(t+1)^2 / (sum of psi_t^2)^2`.
fn correlation(all: &[Influences], at: usize, p: usize) -> f64 {
    let (mut square, mut product, mut spread) = (0.0, 0.0, 0.0);
    for influences in all {
        let psi: Vec<f64> = influences.psi.iter().skip(at).step_by(p).copied().collect();
        square += psi.iter().map(|x| x * x).sum::<f64>();
        for pair in psi.windows(2) {
            product += pair[0] * pair[1];
            spread += (pair[0] * pair[1]).powi(2);
        }
    }
    if square > 0.0 && product.abs() > CERTAIN * spread.sqrt() { product / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rng: &mut fastrand::Rng) -> f64 {
        daesy_random::special_functions::normal_quantile(rng.f64().max(1e-300))
    }

    /// Scores of a least-squares fit of `y` by the columns of `x`, and the inverse of the information.
    fn fitted(x: &Mat<f64>, y: &[f64]) -> (ScoreSeries, Mat<f64>) {
        let (n, p) = (x.nrows(), x.ncols());
        let information = x.transpose() * x;
        let factor = information.llt(faer::Side::Lower).unwrap();
        let bread = faer::linalg::solvers::Solve::solve(&factor, &Mat::<f64>::identity(p, p));
        let theta = &bread * (x.transpose() * Mat::from_fn(n, 1, |k, _| y[k]));
        let errors = (0..n).map(|k| y[k] - (0..p).map(|i| x[(k, i)] * theta[(i, 0)]).sum::<f64>()).collect();
        let by_error = (0..n).flat_map(|k| (0..p).map(move |i| x[(k, i)])).collect();
        let scores = ExperimentScores { errors, by_error, ends: (1..=n).collect(), ..ExperimentScores::default() };
        (ScoreSeries { n_unknown: p, experiments: vec![scores] }, bread)
    }

    #[test]
    fn scores_that_are_as_promised_are_believed_however_few_they_are() {
        // Two unknowns whose sensitivities grow, and a third that only the first values tell about.
        let mut rng = fastrand::Rng::with_seed(14);
        for n in [6usize, 12, 40, 200] {
            let x = Mat::from_fn(n, 3, |k, i| [1.0, k as f64, (-0.7 * k as f64).exp()][i]);
            let (mut n_false, mut ratio, mut square) = (0, [0.0; 3], [0.0; 3]);
            let mut degrees = [0.0; 3];
            for _ in 0..4000 {
                let y: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
                let (scores, bread) = fitted(&x, &y);
                let found = scores.influence(&bread).variances;
                n_false += usize::from(found.iter().any(|variance| variance.differs(0.01 / 3.0)));
                for i in 0..3 {
                    assert!((found[i].promised - bread[(i, i)]).abs() < 1e-9 * bread[(i, i)]);
                    ratio[i] += found[i].found / found[i].promised / 4000.0;
                    square[i] += (found[i].found / found[i].promised).powi(2) / 4000.0;
                    degrees[i] = found[i].degrees;
                }
            }
            assert!(n_false <= 70, "{n_false} of 4000 with {n} scores");
            for i in 0..3 {
                let by_chance = 2.0 / (square[i] - ratio[i] * ratio[i]);
                assert!((ratio[i] - 1.0).abs() < 0.1, "{n} scores: {ratio:?}");
                assert!(n < 40 || (by_chance / degrees[i] - 1.0).abs() < 0.25, "{n}, {i}: {by_chance} {degrees:?}");
            }
        }
    }

    #[test]
    fn scores_of_noise_sizes_vary_as_their_cumulants_say() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (a, b, n) = (0.6, 0.5f64, 200);
        let (mut mean, mut square, mut n_false, mut degrees) = (0.0, 0.0, 0, 0.0);
        for _ in 0..4000 {
            let scores = ExperimentScores {
                errors: (0..n).map(|_| normal(&mut rng)).collect(),
                by_error: vec![a; n],
                by_square: vec![b * 2f64.sqrt(); n],
                ends: (1..=n / 2).map(|sample| 2 * sample).collect(),
                ..ExperimentScores::default()
            };
            let bread = Mat::from_fn(1, 1, |_, _| 1e-3 / (a * a + 2.0 * b * b));
            let scores = ScoreSeries { n_unknown: 1, experiments: vec![scores] };
            let found = scores.influence(&bread).variances[0];
            let ratio = found.found / found.promised;
            mean += ratio / 4000.0;
            square += ratio * ratio / 4000.0;
            degrees = found.degrees;
            n_false += usize::from(found.probability < 0.01);
        }
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!(((square - mean * mean) * degrees / 2.0 - 1.0).abs() < 0.15, "{} {degrees}", square - mean * mean);
        assert!((15..=75).contains(&n_false), "{n_false} of 4000");
    }

    #[test]
    fn an_estimated_start_is_eliminated_as_if_it_were_unknown_too() {
        let mut rng = fastrand::Rng::with_seed(8);
        let n = 30;
        // The second unknown is nearly a decaying start.
        let slope =
            |k: usize, i: usize| [k as f64, (-0.1 * k as f64).exp() + 1e-3 * k as f64, (-0.11 * k as f64).exp()][i];
        let all = Mat::from_fn(n, 3, slope);
        let y: Vec<f64> = (0..n).map(|_| normal(&mut rng)).collect();
        let (joint, bread) = fitted(&all, &y);
        let expected = joint.influence(&bread);
        let errors = joint.experiments[0].errors.clone();
        let power: f64 = (0..n).map(|k| slope(k, 2).powi(2)).sum();
        let scores = ExperimentScores {
            errors,
            by_error: (0..n).flat_map(|k| [slope(k, 0), slope(k, 1)]).collect(),
            by_start: (0..n).map(|k| slope(k, 2)).collect(),
            ends: (1..=n).collect(),
            ..ExperimentScores::default()
        };
        let cross = Mat::from_fn(2, 1, |i, _| (0..n).map(|k| slope(k, i) * slope(k, 2)).sum());
        let whitening = Mat::from_fn(1, 1, |_, _| 1.0 / power.sqrt());
        let scores = scores.with_start_eliminated(&whitening, &cross);
        let lead = Mat::from_fn(2, 2, |i, j| bread[(i, j)]);
        let found = ScoreSeries { n_unknown: 2, experiments: vec![scores] }.influence(&lead);
        for i in 0..2 {
            let (a, b) = (found.variances[i], expected.variances[i]);
            for (a, b) in [(a.found, b.found), (a.promised, b.promised), (a.degrees, b.degrees)] {
                assert!((a / b - 1.0).abs() < 1e-6, "{i}: {a} {b}");
            }
        }
    }

    #[test]
    fn correlated_scores_count_with_their_lags() {
        // Scores of an autoregression of first order: the variance of the sum is n (1 + a) / (1 - a) times that of one.
        let mut rng = fastrand::Rng::with_seed(4);
        for (a, at_least, at_most) in [(0.0, 0.85, 1.15), (0.7, 3.8, 7.0)] {
            let (mut mean, n, mut n_differ) = (0.0, 4000, 0);
            for _ in 0..20 {
                let mut last = 0.0f64;
                let errors: Vec<f64> = (0..n)
                    .map(|_| {
                        last = a * last + (1.0f64 - a * a).sqrt() * normal(&mut rng);
                        last
                    })
                    .collect();
                let by_error = vec![1.0; n];
                let scores = ExperimentScores { errors, by_error, ends: (1..=n).collect(), ..Default::default() };
                let series = ScoreSeries { n_unknown: 1, experiments: vec![scores] };
                let found = series.influence(&Mat::from_fn(1, 1, |_, _| 1.0 / n as f64)).variances[0];
                n_differ += usize::from(found.differs(1e-3));
                mean += found.found / found.promised / 20.0;
            }
            assert!(mean > at_least && mean < at_most, "{a}: {mean}, {} expected", (1.0 + a) / (1.0 - a));
            assert_eq!(n_differ, if a > 0.0 { 20 } else { 0 });
        }
    }
}
