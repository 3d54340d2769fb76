//! The chi-square distribution, by the incomplete gamma function.

use daesy_random::special_functions::gamma_tail;

/// Probability that a chi-square variable with the given degrees of freedom exceeds `x`: `Q(k/2, x/2)`.
#[must_use]
pub fn chi_square_tail(x: f64, degrees_of_freedom: f64) -> f64 {
    if x.is_nan() || degrees_of_freedom <= 0.0 {
        return f64::NAN;
    }
    gamma_tail(0.5 * degrees_of_freedom, 0.5 * x)
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
