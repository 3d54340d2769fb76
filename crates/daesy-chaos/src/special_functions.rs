//! The special functions behind distributions: logarithm of the gamma function, incomplete gamma and beta functions, the normal
//! distribution and its inverse.
//!
//! Each is accurate to about 1e-14 relative over the range that distributions use.

use std::f64::consts::{PI, SQRT_2};

/// Logarithm of the gamma function for positive arguments, by Stirling's series after shifting the argument above 15.
#[must_use]
pub fn ln_gamma(x: f64) -> f64 {
    // Coefficients B_2k / (2k (2k - 1)) of the series.
    const SERIES: [f64; 7] =
        [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0, 1.0 / 156.0];
    let (mut shifted, mut product) = (x, 1.0);
    while shifted < 15.0 {
        product *= shifted;
        shifted += 1.0;
    }
    let inverse = 1.0 / shifted;
    let square = inverse * inverse;
    let series = SERIES.iter().rev().fold(0.0, |sum, coefficient| sum * square + coefficient) * inverse;
    (shifted - 0.5) * shifted.ln() - shifted + 0.5 * (2.0 * PI).ln() + series - product.ln()
}

/// Regularized lower incomplete gamma function P(a, x): the distribution function of the gamma distribution with unit scale.
#[must_use]
pub fn gamma_distribution(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        // P = x^a e^-x / Gamma(a) sum over n of x^n / (a (a + 1) .. (a + n))
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (front * sum).min(1.0);
    }
    // 1 - P by Lentz's continued fraction.
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for n in 1..10_000 {
        let n = f64::from(n);
        let numerator = -n * (n - a);
        b += 2.0;
        d = numerator * d + b;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = b + numerator / c;
        c = if c.abs() < TINY { TINY } else { c };
        let factor = d * c;
        fraction *= factor;
        if (factor - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (1.0 - front * fraction).max(0.0)
}

/// Regularized incomplete beta function I_x(a, b): the distribution function of the beta distribution on [0, 1].
#[must_use]
pub fn beta_distribution(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_distribution(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let factor = d * c;
        fraction *= factor;
        if (factor - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front * fraction
}

/// Distribution function of the standard normal distribution, accurate in both tails.
#[must_use]
pub fn normal_distribution(x: f64) -> f64 {
    0.5 * complementary_error_function(-x / SQRT_2)
}

/// erfc(x) through the incomplete gamma function, 1 - erf(x).
fn complementary_error_function(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - complementary_error_function(-x);
    }
    if x > 30.0 {
        return 0.0;
    }
    if x < 1.0 {
        return 1.0 - gamma_distribution(0.5, x * x);
    }
    // erfc(x) = x e^(-x^2) / sqrt(pi) * 1 / (x^2 + 1/2 - (1/2) / (x^2 + 5/2 - (3) / ..)), by Lentz.
    const TINY: f64 = 1e-300;
    let square = x * x;
    let mut b = square + 0.5;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut fraction = d;
    for n in 1..10_000 {
        let n = f64::from(n);
        let numerator = -n * (n - 0.5);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        let factor = d * c;
        fraction *= factor;
        if (factor - 1.0).abs() < 1e-16 {
            break;
        }
    }
    x * (-square).exp() / PI.sqrt() * fraction
}

/// Inverse of [`normal_distribution`] on (0, 1): a rational start value [@acklam2003] and two steps of Halley's method.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        // 1 - p is exact here, so that both tails are equally accurate.
        return -normal_quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] =
        [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let mut x = if p < 0.02425 {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    };
    for _ in 0..2 {
        let error = normal_distribution(x) - p;
        let step = error * (2.0 * PI).sqrt() * (0.5 * x * x).exp();
        x -= step / (1.0 + 0.5 * x * step);
    }
    x
}

/// Solves F(x) = p for an increasing F on [low, high] by Newton's method kept inside a shrinking bracket.
pub(crate) fn invert(
    p: f64,
    mut low: f64,
    mut high: f64,
    guess: f64,
    distribution: impl Fn(f64) -> f64,
    density: impl Fn(f64) -> f64,
) -> f64 {
    let mut x = guess.clamp(low, high);
    for _ in 0..200 {
        let error = distribution(x) - p;
        if error > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let step = error / density(x);
        let newton = x - step;
        let next = if newton.is_finite() && newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - x).abs() <= 4.0 * f64::EPSILON * x.abs() || high - low <= f64::EPSILON * high.abs() {
            return next;
        }
        x = next;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert!((ln_gamma(0.5) - PI.sqrt().ln()).abs() < 1e-14);
        assert!((ln_gamma(10.0) - 362_880f64.ln()).abs() < 1e-13);
        // P(1, x) = 1 - e^-x, P(1/2, 1) = erf(1), I_x(2, 3) = 6 x^2 - 8 x^3 + 3 x^4, I_x(1/2, 1/2) = 2/pi asin(sqrt x).
        for x in [0.1, 1.0, 7.0] {
            assert!((gamma_distribution(1.0, x) - (1.0 - (-x).exp())).abs() < 1e-14);
        }
        assert!((gamma_distribution(0.5, 1.0) - 0.842_700_792_949_714_9).abs() < 1e-14);
        for x in [0.05f64, 0.3, 0.8, 0.99] {
            let exact = 6.0 * x * x - 8.0 * x.powi(3) + 3.0 * x.powi(4);
            assert!((beta_distribution(2.0, 3.0, x) - exact).abs() < 1e-14);
            assert!((beta_distribution(0.5, 0.5, x) - 2.0 / PI * x.sqrt().asin()).abs() < 1e-14);
        }
    }

    #[test]
    fn the_normal_distribution_is_accurate_in_its_tails() {
        // Values to 16 digits from tables.
        assert!((normal_distribution(-8.0) / 6.220_960_574_271_785e-16 - 1.0).abs() < 1e-12);
        assert!((normal_distribution(-1.0) / 0.158_655_253_931_457_05 - 1.0).abs() < 1e-14);
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
        for p in [1e-300, 1e-20, 1e-5, 0.02, 0.3, 0.5, 0.9] {
            assert!((normal_distribution(normal_quantile(p)) / p - 1.0).abs() < 1e-12, "{p}");
        }
    }
}
