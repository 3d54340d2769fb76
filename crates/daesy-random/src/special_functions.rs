//! The special functions of distributions: logarithm of the gamma function, incomplete gamma and beta functions, the
//! normal distribution and its inverse.
//!
//! Each is accurate to about 1e-14 relative over the range that distributions use.

pub use libm::lgamma as ln_gamma;
use std::f64::consts::{PI, SQRT_2};

/// Regularized lower incomplete gamma function P(a, x): the distribution function of the gamma distribution with unit
/// scale.
#[must_use]
pub fn gamma_distribution(a: f64, x: f64) -> f64 {
    if x < a + 1.0 { gamma_series(a, x).clamp(0.0, 1.0) } else { 1.0 - gamma_tail(a, x) }
}

/// Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), accurate where it is small.
#[must_use]
pub fn gamma_tail(a: f64, x: f64) -> f64 {
    if x < a + 1.0 {
        return (1.0 - gamma_series(a, x)).clamp(0.0, 1.0);
    }
    if x == f64::INFINITY {
        return 0.0;
    }
    // Gamma(a, x) = x^a e^-x / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ..)))
    // [@press2007, sec. 6.2]
    let fraction = continued_fraction(x + 1.0 - a, |n| [-n * (n - a), x + 1.0 - a + 2.0 * n]);
    (gamma_front(a, x) / fraction).clamp(0.0, 1.0)
}

/// x^a e^-x / Gamma(a)
fn gamma_front(a: f64, x: f64) -> f64 {
    (a * x.ln() - x - ln_gamma(a)).exp()
}

/// P = x^a e^-x / Gamma(a) sum over n of x^n / (a (a + 1) .. (a + n))
fn gamma_series(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
    while term > sum * 1e-17 {
        n += 1.0;
        term *= x / n;
        sum += term;
    }
    gamma_front(a, x) * sum
}

/// Regularized incomplete beta function I_x(a, b): the distribution function of the beta distribution on [0, 1]
/// [@press2007, sec. 6.4].
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
    // 1 + d_1 / (1 + d_2 / (1 + ..)), even and odd d by formulas of their own
    let fraction = continued_fraction(1.0, |n| {
        let m = (0.5 * n).floor();
        let numerator = if 2.0 * m == n {
            m * (b - m) * x / ((a + n - 1.0) * (a + n))
        } else {
            -(a + m) * (a + b + m) * x / ((a + n - 1.0) * (a + n))
        };
        [numerator, 1.0]
    });
    front / fraction
}

/// `b_0 + a_1 / (b_1 + a_2 / (b_2 + ..))` by the modified method of Lentz [@press2007, sec. 5.2]; `term(n)` gives
/// `[a_n, b_n]`.
fn continued_fraction(first: f64, term: impl Fn(f64) -> [f64; 2]) -> f64 {
    let guard = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut value = guard(first);
    let (mut c, mut d) = (value, 0.0);
    for n in 1..10_000 {
        let [a, b] = term(f64::from(n));
        d = 1.0 / guard(b + a * d);
        c = guard(b + a / c);
        let factor = c * d;
        value *= factor;
        if (factor - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}

/// Distribution function of the standard normal distribution, accurate in both tails.
#[must_use]
pub fn normal_distribution(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
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

/// The quantile of Student's t distribution with `degrees` of freedom, for p in (0.5, 1): by
///
/// ```text
/// P(T <= t) = 1 - I_x(degrees/2, 1/2) / 2,   x = degrees / (degrees + t^2)
/// ```
///
/// That of the normal distribution where `degrees` is infinite.
#[must_use]
pub fn student_quantile(p: f64, degrees: f64) -> f64 {
    let normal = normal_quantile(p);
    if degrees > 1e9 {
        return normal;
    }
    let distribution = |t: f64| 1.0 - 0.5 * beta_distribution(0.5 * degrees, 0.5, degrees / (degrees + t * t));
    let front = ln_gamma(0.5 * (degrees + 1.0)) - ln_gamma(0.5 * degrees) - 0.5 * (degrees * PI).ln();
    let density = |t: f64| (front - 0.5 * (degrees + 1.0) * (t * t / degrees).ln_1p()).exp();
    let mut high = 2.0 * normal + 1.0;
    while distribution(high) < p && high < 1e12 {
        high *= 2.0;
    }
    invert(p, 0.0, high, normal, distribution, density)
}

/// Solves F(x) = p for an increasing F on [low, high] by Newton's method kept inside a shrinking bracket.
#[must_use]
pub fn invert(
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
    fn quantiles_of_students_distribution_are_those_of_tables() {
        // One degree of freedom: tan(pi (p - 1/2)); two: (2p - 1) / sqrt(2 p (1 - p)).
        for p in [0.6, 0.9, 0.975, 0.999] {
            let exact = (PI * (p - 0.5)).tan();
            assert!((student_quantile(p, 1.0) / exact - 1.0).abs() < 1e-9, "{p}");
            let exact = (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt();
            assert!((student_quantile(p, 2.0) / exact - 1.0).abs() < 1e-9, "{p}");
        }
        for (degrees, value) in [(5.0, 2.570_582), (10.0, 2.228_139), (30.0, 2.042_272), (120.0, 1.979_930)] {
            assert!((student_quantile(0.975, degrees) - value).abs() < 1e-6, "{degrees}");
        }
        assert_eq!(student_quantile(0.975, f64::INFINITY), normal_quantile(0.975));
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
