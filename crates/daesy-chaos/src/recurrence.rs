//! Three-term recurrences of orthogonal polynomials and Gauss quadrature from them.
//!
//! For a probability measure the orthonormal polynomials satisfy, with a_k and b_k of the monic ones
//! [@gautschi2004, sec. 1.3],
//!
//! ```text
//! sqrt(b_(k+1)) p_(k+1)(x) = (x - a_k) p_k(x) - sqrt(b_k) p_(k-1)(x),      p_0 = 1, p_(-1) = 0
//! ```

use crate::error::ChaosError;

/// Recurrence coefficients of the polynomials orthogonal with respect to a probability measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Recurrence {
    /// a_0, a_1, ..
    a: Vec<f64>,
    /// sqrt(b_1), sqrt(b_2), ..
    root_b: Vec<f64>,
}

/// A quadrature rule: sum of weight times value.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rule {
    /// Points, ascending for Gauss rules.
    pub points: Vec<f64>,
    /// Weights; they sum to one.
    pub weights: Vec<f64>,
    /// Highest degree of the polynomials that the rule can project on without aliasing among themselves: twice this
    /// degree is integrated exactly.
    pub degree: usize,
}

impl Recurrence {
    /// From monic coefficients a_0.. and b_1.., as many of each.
    pub(crate) fn from_monic(a: Vec<f64>, b: impl Iterator<Item = f64>) -> Self {
        let root_b = b.take(a.len()).map(f64::sqrt).collect();
        Self { a, root_b }
    }

    /// Legendre polynomials: uniform on [-1, 1].
    #[must_use]
    pub fn legendre(n: usize) -> Self {
        let b = (1..=n).map(|k| {
            let square = (k * k) as f64;
            square / (4.0 * square - 1.0)
        });
        Self::from_monic(vec![0.0; n], b)
    }

    /// Hermite polynomials: standard normal.
    #[must_use]
    pub fn hermite(n: usize) -> Self {
        Self::from_monic(vec![0.0; n], (1..=n).map(|k| k as f64))
    }

    /// Generalized Laguerre polynomials: gamma distribution with a shape and unit scale.
    #[must_use]
    pub fn laguerre(n: usize, shape: f64) -> Self {
        let a = (0..n).map(|k| 2.0 * k as f64 + shape).collect();
        Self::from_monic(a, (1..=n).map(|k| k as f64 * (k as f64 + shape - 1.0)))
    }

    /// Jacobi polynomials: density proportional to (1 + x)^(alpha - 1) (1 - x)^(beta - 1) on [-1, 1], the beta
    /// distribution.
    #[must_use]
    pub fn jacobi(n: usize, alpha: f64, beta: f64) -> Self {
        let (p, q) = (beta - 1.0, alpha - 1.0);
        let a = (0..n)
            .map(|k| {
                let s = 2.0 * k as f64 + p + q;
                // The first is a limit where p + q = 0.
                if k == 0 { (q - p) / (p + q + 2.0) } else { (q * q - p * p) / (s * (s + 2.0)) }
            })
            .collect();
        let b = (1..=n).map(move |k| {
            let k = k as f64;
            let s = 2.0 * k + p + q;
            if k == 1.0 {
                4.0 * (p + 1.0) * (q + 1.0) / ((p + q + 2.0).powi(2) * (p + q + 3.0))
            } else {
                4.0 * k * (k + p) * (k + q) * (k + p + q) / (s * s * (s + 1.0) * (s - 1.0))
            }
        });
        Self::from_monic(a, b)
    }

    /// Polynomials orthogonal on weighted points, by the Lanczos process with full reorthogonalization: the
    /// discretized Stieltjes procedure [@gautschi2004, sec. 2.2], stable as long as there are more points than
    /// polynomials.
    ///
    /// # Errors
    /// When there are too few different points.
    pub fn of_points(n: usize, points: &[f64], weights: &[f64]) -> Result<Self, ChaosError> {
        let total: f64 = weights.iter().sum();
        let roots: Vec<f64> = weights.iter().map(|weight| (weight / total).sqrt()).collect();
        let spread = points.iter().fold(0.0f64, |most, point| most.max(point.abs())).max(f64::MIN_POSITIVE);
        let mut vectors: Vec<Vec<f64>> = vec![roots];
        let (mut a, mut root_b) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        for k in 0..n {
            let mut next: Vec<f64> = vectors[k].iter().zip(points).map(|(value, point)| value * point).collect();
            a.push(dot(&next, &vectors[k]));
            for _ in 0..2 {
                for vector in &vectors {
                    let along = dot(&next, vector);
                    for (value, other) in next.iter_mut().zip(vector) {
                        *value -= along * other;
                    }
                }
            }
            let norm = dot(&next, &next).sqrt();
            if norm <= 1e-12 * spread {
                if k + 1 < n {
                    return Err(ChaosError::TooFewValues { available: k, needed: n - 1 });
                }
                root_b.push(0.0);
                break;
            }
            root_b.push(norm);
            next.iter_mut().for_each(|value| *value /= norm);
            vectors.push(next);
        }
        Ok(Self { a, root_b })
    }

    /// Highest degree of a polynomial that can be evaluated, which is also the largest Gauss rule.
    #[must_use]
    pub fn max_degree(&self) -> usize {
        self.a.len()
    }

    /// Values of the orthonormal polynomials of degree 0 to `degree`.
    pub fn evaluate(&self, x: f64, degree: usize, values: &mut Vec<f64>) {
        values.clear();
        values.push(1.0);
        let mut before = 0.0;
        for k in 0..degree {
            let below = if k == 0 { 0.0 } else { self.root_b[k - 1] * before };
            before = values[k];
            values.push(((x - self.a[k]) * before - below) / self.root_b[k]);
        }
    }

    /// The Gauss rule of n points: exact for polynomials up to degree 2 n - 1.
    ///
    /// Points are the eigenvalues of the Jacobi matrix [@golub1969], polished by Newton's method on the polynomial
    /// itself; weights are the reciprocals of the Christoffel sums p_0^2 + .. + p_(n-1)^2, which are sums of positive
    /// numbers, so that the tiny weights of the tails keep their relative accuracy.
    #[must_use]
    pub fn gauss(&self, n: usize) -> Rule {
        let mut points = eigenvalues(self.a[..n].to_vec(), self.root_b[..n.saturating_sub(1)].to_vec());
        let size = points.iter().fold(0.0f64, |most, point| most.max(point.abs()));
        let is_symmetric = self.a[..n].iter().all(|&a| a == 0.0);
        let mut weights = vec![0.0; n];
        for at in 0..n {
            for _ in 0..3 {
                let sums = self.sums(points[at], n);
                let step = sums.value / sums.slope;
                let room = {
                    let left = if at > 0 { points[at] - points[at - 1] } else { f64::INFINITY };
                    let right = if at + 1 < n { points[at + 1] - points[at] } else { f64::INFINITY };
                    left.min(right)
                };
                if !step.is_finite() || step.abs() > 1e-3 * room {
                    break;
                }
                points[at] -= step;
                if step.abs() <= 1e-16 * size {
                    break;
                }
            }
        }
        if is_symmetric {
            for at in 0..n / 2 {
                let half = 0.5 * (points[n - 1 - at] - points[at]);
                (points[at], points[n - 1 - at]) = (-half, half);
            }
            if n % 2 == 1 {
                points[n / 2] = 0.0;
            }
        }
        for (point, weight) in points.iter().zip(&mut weights) {
            let sums = self.sums(*point, n);
            *weight = (-sums.christoffel.ln() - sums.log_scale).exp();
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Rule { points, weights, degree: n - 1 }
    }

    /// p_n and its slope at a point, and the sum of squares of the polynomials before, all divided by a common scale
    /// so that nothing overflows.
    fn sums(&self, x: f64, n: usize) -> Sums {
        const BIG: f64 = 1e120;
        let (mut value, mut before) = (1.0, 0.0);
        let (mut slope, mut slope_before) = (0.0, 0.0);
        let mut christoffel = 0.0;
        let mut log_scale = 0.0;
        for k in 0..n {
            christoffel += value * value;
            let below = if k == 0 { 0.0 } else { self.root_b[k - 1] };
            // The last polynomial is needed up to a factor only; its norm may be zero for a discrete measure.
            let norm = if k + 1 == n || self.root_b[k] == 0.0 { 1.0 } else { self.root_b[k] };
            let next = ((x - self.a[k]) * value - below * before) / norm;
            let next_slope = (value + (x - self.a[k]) * slope - below * slope_before) / norm;
            (before, value) = (value, next);
            (slope_before, slope) = (slope, next_slope);
            if value.abs() > BIG {
                let down = 1.0 / BIG;
                (before, value, slope_before, slope) = (before * down, value * down, slope_before * down, slope * down);
                christoffel *= down * down;
                log_scale += 2.0 * BIG.ln();
            }
        }
        Sums { value, slope, christoffel, log_scale }
    }

    /// A rule whose points are among those of every larger one: weighted Leja points [@narayan2014], chosen one after
    /// the other to maximize sqrt(density) times the distances to those before, with the weights that integrate their
    /// interpolant exactly.
    ///
    /// Candidates are the points of a large Gauss rule, whose weight over spacing is the density.
    #[must_use]
    pub fn leja(&self, n: usize) -> Rule {
        let fine = self.gauss(self.max_degree().clamp(1, 240).max(n).min(self.max_degree()));
        let candidates = fine.points.len();
        let density: Vec<f64> = (0..candidates)
            .map(|at| {
                let left = fine.points[at.saturating_sub(1)];
                let right = fine.points[(at + 1).min(candidates - 1)];
                let span = right - left;
                let gaps = if at == 0 || at + 1 == candidates { 1.0 } else { 2.0 };
                if span > 0.0 { fine.weights[at] * gaps / span } else { 1.0 }
            })
            .collect();
        // Logarithms, since products of distances overflow.
        let mut score: Vec<f64> = density.iter().map(|density| 0.5 * density.max(f64::MIN_POSITIVE).ln()).collect();
        let mut points: Vec<f64> = Vec::with_capacity(n);
        for _ in 0..n {
            let best = (0..candidates).max_by(|&a, &b| score[a].total_cmp(&score[b])).unwrap_or(0);
            let point = fine.points[best];
            points.push(point);
            for (at, score) in score.iter_mut().enumerate() {
                *score = if at == best { f64::NEG_INFINITY } else { *score + (fine.points[at] - point).abs().ln() };
            }
        }
        let exact = self.gauss(n.div_ceil(2).min(self.max_degree()));
        let weights = (0..n)
            .map(|at| {
                exact
                    .points
                    .iter()
                    .zip(&exact.weights)
                    .map(|(&x, &weight)| {
                        let factor = |(other, &point): (usize, &f64)| {
                            if other == at { 1.0 } else { (x - point) / (points[at] - point) }
                        };
                        weight * points.iter().enumerate().map(factor).product::<f64>()
                    })
                    .sum()
            })
            .collect();
        Rule { points, weights, degree: (n - 1) / 2 }
    }
}

struct Sums {
    value: f64,
    slope: f64,
    christoffel: f64,
    log_scale: f64,
}

/// The Clenshaw-Curtis rule on [-1, 1] for the uniform distribution: nested, 1, 3, 5, 9, 17, .. points by level.
#[must_use]
pub fn clenshaw_curtis(level: usize) -> Rule {
    if level == 0 {
        return Rule { points: vec![0.0], weights: vec![1.0], degree: 0 };
    }
    let n = 1usize << level;
    let points: Vec<f64> =
        (0..=n).map(|k| if 2 * k == n { 0.0 } else { -(std::f64::consts::PI * k as f64 / n as f64).cos() }).collect();
    let weights = (0..=n)
        .map(|k| {
            let sum: f64 = (1..=n / 2)
                .map(|j| {
                    let half = if 2 * j == n { 1.0 } else { 2.0 };
                    let angle = 2.0 * std::f64::consts::PI * (j * k % n) as f64 / n as f64;
                    half / (4.0 * (j * j) as f64 - 1.0) * angle.cos()
                })
                .sum();
            let end = if k == 0 || k == n { 1.0 } else { 2.0 };
            0.5 * end / n as f64 * (1.0 - sum)
        })
        .collect();
    // A rule of n + 1 points, n even, is exact up to degree n + 1.
    Rule { points, weights, degree: n / 2 }
}

/// Eigenvalues of a symmetric tridiagonal matrix, ascending, by the implicit QL method with Wilkinson's shift.
fn eigenvalues(mut diagonal: Vec<f64>, off: Vec<f64>) -> Vec<f64> {
    let n = diagonal.len();
    let mut off = off;
    off.push(0.0);
    for low in 0..n {
        for _ in 0..60 {
            let mut end = low;
            while end + 1 < n && off[end].abs() > f64::EPSILON * (diagonal[end].abs() + diagonal[end + 1].abs()) {
                end += 1;
            }
            if end == low {
                break;
            }
            let half = (diagonal[low + 1] - diagonal[low]) / (2.0 * off[low]);
            let radius = half.hypot(1.0);
            let mut g = diagonal[end] - diagonal[low] + off[low] / (half + radius.copysign(half));
            let (mut sine, mut cosine, mut p) = (1.0, 1.0, 0.0);
            let mut is_split = false;
            for at in (low..end).rev() {
                let f = sine * off[at];
                let b = cosine * off[at];
                let radius = f.hypot(g);
                off[at + 1] = radius;
                if radius == 0.0 {
                    diagonal[at + 1] -= p;
                    off[end] = 0.0;
                    is_split = true;
                    break;
                }
                sine = f / radius;
                cosine = g / radius;
                g = diagonal[at + 1] - p;
                let turned = (diagonal[at] - g) * sine + 2.0 * cosine * b;
                p = sine * turned;
                diagonal[at + 1] = g + p;
                g = cosine * turned - b;
            }
            if is_split {
                continue;
            }
            diagonal[low] -= p;
            off[low] = g;
            off[end] = 0.0;
        }
    }
    diagonal.sort_by(f64::total_cmp);
    diagonal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauss_rules_integrate_moments_exactly() {
        // Moments of the standard normal: 1, 0, 1, 0, 3, 0, 15, .. (2k - 1)!!
        for n in [1, 2, 5, 20, 64] {
            let rule = Recurrence::hermite(n).gauss(n);
            let mut moment = 1.0;
            for k in 0..n {
                let sum: f64 = rule.points.iter().zip(&rule.weights).map(|(x, w)| w * x.powi(2 * k as i32)).sum();
                assert!((sum / moment - 1.0).abs() < 1e-11, "n {n} moment {k}: {}", sum / moment - 1.0);
                moment *= (2 * k + 1) as f64;
            }
        }
        // Moments of the gamma distribution: shape (shape + 1) .. (shape + k - 1); of the beta distribution likewise.
        let rule = Recurrence::laguerre(30, 2.5).gauss(30);
        let mut moment = 1.0;
        for k in 0..60 {
            let sum: f64 = rule.points.iter().zip(&rule.weights).map(|(x, w)| w * x.powi(k)).sum();
            assert!((sum / moment - 1.0).abs() < 1e-11, "moment {k}");
            moment *= 2.5 + f64::from(k);
        }
        for (alpha, beta) in [(2.0, 5.0), (0.5, 0.5), (1.0, 1.0), (3.0, 0.7)] {
            let rule = Recurrence::jacobi(12, alpha, beta).gauss(12);
            let mut moment = 1.0;
            for k in 0..24 {
                let sum: f64 = rule.points.iter().zip(&rule.weights).map(|(x, w)| w * (0.5 * (1.0 + x)).powi(k)).sum();
                assert!((sum / moment - 1.0).abs() < 1e-12, "{alpha} {beta} moment {k}");
                moment *= (alpha + f64::from(k)) / (alpha + beta + f64::from(k));
            }
        }
    }

    #[test]
    fn weights_in_the_tails_keep_their_relative_accuracy() {
        // The outermost point of the 64-point Hermite rule for exp(-x^2) is 10.526.. with weight 5.5357e-49; for the
        // standard normal the point is times sqrt(2) and the weight over sqrt(pi).
        let rule = Recurrence::hermite(64).gauss(64);
        assert!((rule.points[63] / std::f64::consts::SQRT_2 - 10.526_123_167_960_546).abs() < 1e-12);
        let weight = rule.weights[63] * std::f64::consts::PI.sqrt();
        assert!((weight / 5.535_706_535_856_943e-49 - 1.0).abs() < 1e-9, "{weight:e}");
        // Large rules neither overflow nor lose their sum.
        let large = Recurrence::hermite(400).gauss(400);
        assert!(large.weights.iter().all(|w| w.is_finite()));
        let variance: f64 = large.points.iter().zip(&large.weights).map(|(x, w)| w * x * x).sum();
        assert!((variance - 1.0).abs() < 1e-10);
    }

    #[test]
    fn nested_rules_are_nested_and_exact() {
        for level in 1..6 {
            let (coarse, fine) = (clenshaw_curtis(level), clenshaw_curtis(level + 1));
            for point in &coarse.points {
                assert!(fine.points.iter().any(|other| (other - point).abs() < 1e-15));
            }
            let n = coarse.points.len() as i32;
            for k in 0..n {
                let sum: f64 = coarse.points.iter().zip(&coarse.weights).map(|(x, w)| w * x.powi(k)).sum();
                let exact = if k % 2 == 0 { 1.0 / f64::from(k + 1) } else { 0.0 };
                assert!((sum - exact).abs() < 1e-14, "level {level} degree {k}");
            }
        }
        let recurrence = Recurrence::laguerre(60, 1.5);
        let (coarse, fine) = (recurrence.leja(5), recurrence.leja(9));
        assert_eq!(coarse.points[..], fine.points[..5]);
        let mut moment = 1.0;
        for k in 0..9 {
            let sum: f64 = fine.points.iter().zip(&fine.weights).map(|(x, w)| w * x.powi(k)).sum();
            assert!((sum / moment - 1.0).abs() < 1e-9, "degree {k}: {sum} {moment}");
            moment *= 1.5 + f64::from(k);
        }
    }

    #[test]
    fn few_points_carry_few_polynomials() {
        let points = [1.0, 2.0, 2.0, 4.0];
        let weights = [0.25; 4];
        assert!(Recurrence::of_points(3, &points, &weights).is_ok());
        let error = Recurrence::of_points(4, &points, &weights).unwrap_err();
        assert!(matches!(error, ChaosError::TooFewValues { available: 2, needed: 3 }), "{error}");
        // Gauss on all distinct points gives the points back.
        let rule = Recurrence::of_points(3, &points, &weights).unwrap().gauss(3);
        let expected = [(1.0, 0.25), (2.0, 0.5), (4.0, 0.25)];
        for ((point, weight), (x, w)) in rule.points.iter().zip(&rule.weights).zip(expected) {
            assert!((point - x).abs() < 1e-12 && (weight - w).abs() < 1e-12);
        }
    }
}
