//! The chi-square distribution, by the incomplete gamma function.

/// Logarithm of the gamma function for positive arguments, by Lanczos' approximation [@press2007, sec. 6.1].
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = C[1..].iter().enumerate().fold(C[0], |sum, (i, c)| sum + c / (x + i as f64 + 1.0));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Probability that a chi-square variable with the given degrees of freedom exceeds `x`.
///
/// `Q(k/2, x/2)` by its series below `k/2 + 1` and by its continued fraction above [@press2007, sec. 6.2].
#[must_use]
pub fn chi_square_tail(x: f64, degrees_of_freedom: f64) -> f64 {
    if x.is_nan() || degrees_of_freedom <= 0.0 {
        return f64::NAN;
    }
    if x <= 0.0 {
        return 1.0;
    }
    let (a, x) = (0.5 * degrees_of_freedom, 0.5 * x);
    if !x.is_finite() {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut sum, mut term, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..10_000 {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < 1e-17 * sum {
                break;
            }
        }
        return (1.0 - sum * front).clamp(0.0, 1.0);
    }
    let mut b = x + 1.0 - a;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..10_000 {
        let an = -f64::from(i) * (f64::from(i) - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        let factor = c * d;
        h *= factor;
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (h * front).clamp(0.0, 1.0)
}

/// The 95 % quantile of the standard normal distribution, both tails.
pub const NORMAL_95: f64 = 1.959_963_984_540_054;
/// The 95 % quantile of the chi-square distribution with one degree of freedom.
pub const CHI_SQUARE_95: f64 = 3.841_458_820_694_124;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_tables_are_met() {
        for (x, k, p) in [
            (3.841_458_820_694_124, 1.0, 0.05),
            (18.307_038_053_275_146, 10.0, 0.05),
            (2.558_212_160_186, 10.0, 0.99),
            (124.342_113_404_004_45, 100.0, 0.05),
            (0.0, 3.0, 1.0),
        ] {
            assert!((chi_square_tail(x, k) - p).abs() < 1e-6, "{x} {k}: {}", chi_square_tail(x, k));
        }
        // With two degrees of freedom it is an exponential distribution.
        assert!((chi_square_tail(5.0, 2.0) - (-2.5f64).exp()).abs() < 1e-15);
        assert!(chi_square_tail(1e4, 3.0) < 1e-300);
    }
}
