//! Distributions of random parameters.
//!
//! A parameter is a function of a standard random variable, its germ, in whose polynomials everything is expanded: an
//! affine function for most distributions, so that polynomials of the parameter are polynomials of the germ. The
//! lognormal distribution is the exception: its moments do not determine it and its polynomials are not complete
//! [@ernst2012], so its germ is the normal variable that it is the exponential of.

use crate::error::ChaosError;
use crate::recurrence::{Recurrence, Rule};
use daesy_random::special_functions::{
    beta_distribution, gamma_distribution, invert, ln_gamma, normal_distribution, normal_quantile,
};

/// A distribution of a random parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// Uniform on an interval; germ uniform on [-1, 1].
    Uniform {
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
    /// Normal; germ standard normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Normal, restricted to an interval; mean and standard deviation are those before. Germ (x - mean) / std.
    TruncatedNormal {
        /// Mean of the normal distribution.
        mean: f64,
        /// Its standard deviation.
        std: f64,
        /// Lower end; may be minus infinity.
        min: f64,
        /// Upper end; may be infinity.
        max: f64,
    },
    /// The exponential of a normal variable; mean and standard deviation of the variable itself. Germ standard normal.
    Lognormal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Beta on an interval; germ on [-1, 1].
    Beta {
        /// Exponent at the lower end, plus one.
        alpha: f64,
        /// Exponent at the upper end, plus one.
        beta: f64,
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
    /// Gamma; germ of unit scale.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
    /// Density with the form of a triangle; germ on [-1, 1].
    Triangular {
        /// Lower end.
        min: f64,
        /// Where the density is highest.
        mode: f64,
        /// Upper end.
        max: f64,
    },
    /// The empirical distribution of samples, ascending; germ of mean 0 and standard deviation 1.
    Samples(Vec<f64>),
}

/// Farther out than this many standard deviations a truncated normal distribution has no weight in double precision.
const NORMAL_REACH: f64 = 39.0;

fn wrong(what: impl Into<String>) -> ChaosError {
    ChaosError::Distribution { what: what.into() }
}

/// Shapes of gamma and beta distributions: their functions take a number of terms that grows with the root of it, and
/// beyond this they are normal distributions to more than nine digits.
const MAX_SHAPE: f64 = 1e10;

/// Below this shape, half of all values of a gamma or beta distribution are within 1e-300 of a border: rules and
/// quantiles no longer tell them from it.
const MIN_SHAPE: f64 = 1e-3;

impl Distribution {
    /// Checks that there are values and that every number makes sense.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), ChaosError> {
        let interval = |min: f64, max: f64| {
            if min < max {
                Ok(())
            } else if min == max {
                Err(wrong(format!("the support [{min}, {max}] is a single value: the parameter would not be random")))
            } else {
                Err(wrong(format!("the support is empty: min = {min} is above max = {max}")))
            }
        };
        let positive = |name: &str, value: f64| {
            if value > 0.0 { Ok(()) } else { Err(wrong(format!("`{name}` must be greater than zero, not {value}"))) }
        };
        let shaped = |name: &str, value: f64| {
            positive(name, value)?;
            if value < MIN_SHAPE {
                return Err(wrong(format!(
                    "`{name}` = {value:e} is less than {MIN_SHAPE:e}: nearly all values are at the border of the support"
                )));
            }
            if value <= MAX_SHAPE {
                return Ok(());
            }
            Err(wrong(format!("`{name}` = {value:e} is more than {MAX_SHAPE:e}: take a normal distribution instead")))
        };
        match *self {
            Self::Uniform { min, max } => interval(min, max),
            Self::Normal { std, .. } => positive("std", std),
            Self::TruncatedNormal { mean, std, min, max } => {
                positive("std", std)?;
                interval(min, max)?;
                let weight = self.truncated_weight();
                if weight > 1e-280 {
                    return Ok(());
                }
                Err(wrong(format!(
                    "the normal distribution of mean {mean} and standard deviation {std} has no weight between {min} and {max}"
                )))
            }
            Self::Lognormal { mean, std } => {
                positive("mean", mean)?;
                positive("std", std)
            }
            Self::Beta { alpha, beta, min, max } => {
                shaped("alpha", alpha)?;
                shaped("beta", beta)?;
                interval(min, max)
            }
            Self::Gamma { shape, scale } => {
                shaped("shape", shape)?;
                positive("scale", scale)
            }
            Self::Triangular { min, mode, max } => {
                interval(min, max)?;
                if min <= mode && mode <= max {
                    return Ok(());
                }
                Err(wrong(format!("`mode` = {mode} is outside the support [{min}, {max}]")))
            }
            Self::Samples(ref values) => match (values.first(), values.last()) {
                (None, _) | (_, None) => Err(wrong("there are no samples")),
                (Some(first), Some(last)) if first == last => {
                    Err(wrong(format!("all samples are {first}: the parameter would not be random")))
                }
                _ => Ok(()),
            },
        }
    }

    /// Samples in any order, as a distribution.
    #[must_use]
    pub fn from_samples(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self::Samples(values)
    }

    fn truncated_weight(&self) -> f64 {
        let Self::TruncatedNormal { mean, std, min, max } = *self else { return 1.0 };
        let (low, high) = ((min - mean) / std, (max - mean) / std);
        // Both in the upper tail: take the complement, where digits are not lost.
        if low > 0.0 {
            normal_distribution(-low) - normal_distribution(-high)
        } else {
            normal_distribution(high) - normal_distribution(low)
        }
    }

    /// Mean and scale that make the parameter of its germ: parameter = shift + scale germ, the exponential of that
    /// for lognormal.
    fn affine(&self) -> Affine {
        let ends = |min: f64, max: f64| Affine { shift: 0.5 * (min + max), scale: 0.5 * (max - min) };
        match *self {
            Self::Uniform { min, max } | Self::Beta { min, max, .. } | Self::Triangular { min, max, .. } => {
                ends(min, max)
            }
            Self::Normal { mean, std } | Self::TruncatedNormal { mean, std, .. } => Affine { shift: mean, scale: std },
            Self::Lognormal { mean, std } => {
                let variance = (std / mean).powi(2).ln_1p();
                Affine { shift: mean.ln() - 0.5 * variance, scale: variance.sqrt() }
            }
            Self::Gamma { scale, .. } => Affine { shift: 0.0, scale },
            Self::Samples(ref values) => {
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
                Affine { shift: mean, scale: variance.sqrt() }
            }
        }
    }

    /// Whether the parameter is a polynomial (an affine function) of its germ.
    #[must_use]
    pub const fn is_affine(&self) -> bool {
        !matches!(self, Self::Lognormal { .. })
    }

    /// The parameter's value for a value of its germ.
    #[must_use]
    pub fn parameter(&self, germ: f64) -> f64 {
        let Affine { shift, scale } = self.affine();
        if self.is_affine() { shift + scale * germ } else { (shift + scale * germ).exp() }
    }

    /// The germ's value for a value of the parameter.
    #[must_use]
    pub fn germ(&self, parameter: f64) -> f64 {
        let Affine { shift, scale } = self.affine();
        if self.is_affine() { (parameter - shift) / scale } else { (parameter.ln() - shift) / scale }
    }

    /// Smallest and largest value of the parameter.
    #[must_use]
    pub fn support(&self) -> (f64, f64) {
        match *self {
            Self::Uniform { min, max }
            | Self::Beta { min, max, .. }
            | Self::Triangular { min, max, .. }
            | Self::TruncatedNormal { min, max, .. } => (min, max),
            Self::Normal { .. } => (f64::NEG_INFINITY, f64::INFINITY),
            Self::Lognormal { .. } | Self::Gamma { .. } => (0.0, f64::INFINITY),
            Self::Samples(ref values) => {
                (values.first().copied().unwrap_or(f64::NAN), values.last().copied().unwrap_or(f64::NAN))
            }
        }
    }

    /// Mean of the parameter.
    ///
    /// # Errors
    /// For samples with too few values.
    pub fn mean(&self) -> Result<f64, ChaosError> {
        if let Self::Lognormal { mean, .. } = *self {
            return Ok(mean);
        }
        // The first recurrence coefficient is the mean of the germ.
        let rule = self.recurrence(1)?.gauss(1);
        Ok(self.parameter(rule.points[0]))
    }

    /// The value of the germ below which it falls with probability p.
    #[must_use]
    pub fn germ_quantile(&self, p: f64) -> f64 {
        match *self {
            Self::Uniform { .. } => 2.0 * p - 1.0,
            Self::Normal { .. } | Self::Lognormal { .. } => normal_quantile(p),
            Self::TruncatedNormal { mean, std, min, max } => {
                let (low, high) = ((min - mean) / std, (max - mean) / std);
                let value = if low > 0.0 {
                    let (a, b) = (normal_distribution(-high), normal_distribution(-low));
                    -normal_quantile(b - p * (b - a))
                } else {
                    let (a, b) = (normal_distribution(low), normal_distribution(high));
                    normal_quantile(a + p * (b - a))
                };
                value.clamp(low, high)
            }
            Self::Beta { alpha, beta, .. } => {
                let front = ln_gamma(alpha + beta) - ln_gamma(alpha) - ln_gamma(beta);
                let density = |x: f64| (front + (alpha - 1.0) * x.ln() + (beta - 1.0) * (-x).ln_1p()).exp();
                let guess = alpha / (alpha + beta);
                2.0 * invert(p, 0.0, 1.0, guess, |x| beta_distribution(alpha, beta, x), density) - 1.0
            }
            Self::Gamma { shape, .. } => {
                let density = |x: f64| ((shape - 1.0) * x.ln() - x - ln_gamma(shape)).exp();
                // Wilson and Hilferty's approximation.
                let ninth = 1.0 / (9.0 * shape);
                let guess = shape * (1.0 - ninth + normal_quantile(p) * ninth.sqrt()).powi(3);
                let high = shape + 60.0 * shape.sqrt() + 800.0;
                invert(p, 0.0, high, guess.max(1e-8 * shape), |x| gamma_distribution(shape, x), density)
            }
            Self::Triangular { .. } => {
                let mode = self.germ_mode();
                let below = 0.5 * (mode + 1.0);
                if p <= below {
                    -1.0 + (2.0 * (mode + 1.0) * p).sqrt()
                } else {
                    1.0 - (2.0 * (1.0 - mode) * (1.0 - p)).sqrt()
                }
            }
            Self::Samples(ref values) => {
                let at = ((p * values.len() as f64) as usize).min(values.len().saturating_sub(1));
                self.germ(values[at])
            }
        }
    }

    fn germ_mode(&self) -> f64 {
        match *self {
            Self::Triangular { min, mode, max } => (2.0 * mode - min - max) / (max - min),
            _ => 0.0,
        }
    }

    /// Recurrence coefficients of the germ's orthonormal polynomials: n of each kind, enough for degree n and Gauss
    /// rules of n points. Closed forms where there are some, the discretized Stieltjes procedure otherwise.
    ///
    /// # Errors
    /// When samples have too few different values.
    pub fn recurrence(&self, n: usize) -> Result<Recurrence, ChaosError> {
        match *self {
            Self::Uniform { .. } => Ok(Recurrence::legendre(n)),
            Self::Normal { .. } | Self::Lognormal { .. } => Ok(Recurrence::hermite(n)),
            Self::Beta { alpha, beta, .. } => Ok(Recurrence::jacobi(n, alpha, beta)),
            Self::Gamma { shape, .. } => Ok(Recurrence::laguerre(n, shape)),
            Self::Triangular { .. } => {
                // A linear density on each piece: Gauss-Legendre with one point more is exact.
                let rule = Recurrence::legendre(n + 2).gauss(n + 2);
                let mode = self.germ_mode();
                let mut fine = Fine::default();
                fine.add_piece(&rule, -1.0, mode, |x| (x + 1.0) / (mode + 1.0));
                fine.add_piece(&rule, mode, 1.0, |x| (1.0 - x) / (1.0 - mode));
                Recurrence::of_points(n, &fine.points, &fine.weights)
            }
            Self::TruncatedNormal { mean, std, min, max } => {
                let low = ((min - mean) / std).max(-NORMAL_REACH);
                let high = ((max - mean) / std).min(NORMAL_REACH);
                // Densities relative to the largest one, which a far tail would otherwise lose.
                let top = if low > 0.0 {
                    low
                } else if high < 0.0 {
                    high
                } else {
                    0.0
                };
                let rule = Recurrence::legendre(24).gauss(24);
                let mut fine = Fine::default();
                // Where the density is below 1e-40 of its largest value it does not matter.
                let reach = |from: f64| (from * from + 184.0).sqrt();
                let low = if low < 0.0 { low.max(-reach(top)) } else { low };
                let high = if high > 0.0 { high.min(reach(top)) } else { high };
                let n_pieces = 8 + n / 4;
                for piece in 0..n_pieces {
                    let at = |k: usize| low + (high - low) * k as f64 / n_pieces as f64;
                    fine.add_piece(&rule, at(piece), at(piece + 1), |x| (0.5 * (top * top - x * x)).exp());
                }
                Recurrence::of_points(n, &fine.points, &fine.weights)
            }
            Self::Samples(ref values) => {
                let points: Vec<f64> = values.iter().map(|&value| self.germ(value)).collect();
                Recurrence::of_points(n, &points, &vec![1.0; points.len()])
            }
        }
    }

    /// Largest degree of the germ's polynomials; `None` if there is no limit.
    #[must_use]
    pub fn max_degree(&self) -> Option<usize> {
        let Self::Samples(values) = self else { return None };
        let different = values.windows(2).filter(|pair| pair[0] != pair[1]).count();
        Some(different)
    }
}

struct Affine {
    shift: f64,
    scale: f64,
}

/// Points and weights that stand for a density.
#[derive(Default)]
struct Fine {
    points: Vec<f64>,
    weights: Vec<f64>,
}

impl Fine {
    fn add_piece(&mut self, rule: &Rule, low: f64, high: f64, density: impl Fn(f64) -> f64) {
        if high <= low {
            return;
        }
        let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
        for (&point, &weight) in rule.points.iter().zip(&rule.weights) {
            let x = middle + half * point;
            self.points.push(x);
            self.weights.push(weight * 2.0 * half * density(x));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Distribution> {
        vec![
            Distribution::Uniform { min: 1.0, max: 4.0 },
            Distribution::Normal { mean: -2.0, std: 0.5 },
            Distribution::TruncatedNormal { mean: 1.0, std: 2.0, min: 0.0, max: 3.0 },
            Distribution::TruncatedNormal { mean: 0.0, std: 1.0, min: 6.0, max: f64::INFINITY },
            Distribution::Lognormal { mean: 2.0, std: 0.7 },
            Distribution::Beta { alpha: 2.0, beta: 5.0, min: -1.0, max: 3.0 },
            Distribution::Gamma { shape: 2.5, scale: 0.3 },
            Distribution::Triangular { min: 0.0, mode: 1.0, max: 4.0 },
            Distribution::from_samples((0..500).map(|k| (f64::from(k) * 0.37).sin()).collect()),
        ]
    }

    /// Mean and variance of the parameter by its Gauss rule.
    fn moments(distribution: &Distribution) -> (f64, f64) {
        let rule = distribution.recurrence(40).unwrap().gauss(40);
        let value = |x: &f64| distribution.parameter(*x);
        let mean: f64 = rule.points.iter().zip(&rule.weights).map(|(x, w)| w * value(x)).sum();
        let variance = rule.points.iter().zip(&rule.weights).map(|(x, w)| w * (value(x) - mean).powi(2)).sum();
        (mean, variance)
    }

    #[test]
    fn moments_agree_with_closed_forms() {
        let close = |distribution: &Distribution, mean: f64, variance: f64| {
            let (found_mean, found_variance) = moments(distribution);
            assert!((found_mean - mean).abs() < 1e-11 * mean.abs().max(1.0), "{distribution:?} {found_mean} {mean}");
            assert!((found_variance / variance - 1.0).abs() < 1e-10, "{distribution:?} {found_variance} {variance}");
            assert!((distribution.mean().unwrap() - mean).abs() < 1e-12 * mean.abs().max(1.0));
        };
        let list = all();
        close(&list[0], 2.5, 0.75);
        close(&list[1], -2.0, 0.25);
        close(&list[4], 2.0, 0.49);
        close(&list[5], -1.0 + 4.0 * 2.0 / 7.0, 16.0 * 10.0 / (49.0 * 8.0));
        close(&list[6], 0.75, 0.225);
        close(&list[7], 5.0 / 3.0, (16.0 + 1.0 - 4.0) / 18.0);
        // The truncated normal: with a = (min - mean)/std, b, Z and the density f,
        // mean + std (f(a) - f(b)) / Z and std^2 (1 + (a f(a) - b f(b)) / Z - ((f(a) - f(b)) / Z)^2).
        let f = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let z = normal_distribution(1.0) - normal_distribution(-0.5);
        let shift = (f(-0.5) - f(1.0)) / z;
        let factor = 1.0 + (-0.5 * f(-0.5) - f(1.0)) / z - shift * shift;
        close(&list[2], 1.0 + 2.0 * shift, 4.0 * factor);
    }

    #[test]
    fn quantiles_invert_the_distribution() {
        // The mean of the parameter over equally likely quantiles is its mean.
        for distribution in all() {
            let n = 2000;
            let values: Vec<f64> = (0..n)
                .map(|k| distribution.parameter(distribution.germ_quantile((f64::from(k) + 0.5) / f64::from(n))))
                .collect();
            assert!(values.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12), "{distribution:?}");
            let mean = values.iter().sum::<f64>() / f64::from(n);
            let (exact, variance) = moments(&distribution);
            assert!((mean - exact).abs() < 1e-2 * variance.sqrt(), "{distribution:?}: {mean} {exact}");
            let (low, high) = distribution.support();
            assert!(values.iter().all(|&value| low <= value && value <= high));
            let germ = distribution.germ_quantile(0.3);
            assert!((distribution.germ(distribution.parameter(germ)) - germ).abs() < 1e-12);
        }
    }

    #[test]
    fn polynomials_are_orthonormal() {
        for distribution in all() {
            let rule = distribution.recurrence(20).unwrap().gauss(20);
            let recurrence = distribution.recurrence(12).unwrap();
            let mut values = Vec::new();
            let mut gram = vec![vec![0.0; 10]; 10];
            for (&point, &weight) in rule.points.iter().zip(&rule.weights) {
                recurrence.evaluate(point, 9, &mut values);
                for (row, first) in gram.iter_mut().zip(&values) {
                    for (entry, second) in row.iter_mut().zip(&values) {
                        *entry += weight * first * second;
                    }
                }
            }
            for (i, row) in gram.iter().enumerate() {
                for (j, entry) in row.iter().enumerate() {
                    let expected = f64::from(u8::from(i == j));
                    assert!((entry - expected).abs() < 1e-10, "{distribution:?} {i} {j} {entry}");
                }
            }
        }
    }

    #[test]
    fn senseless_distributions_are_refused() {
        let refused = [
            Distribution::Uniform { min: 2.0, max: 1.0 },
            Distribution::Uniform { min: 2.0, max: 2.0 },
            Distribution::Normal { mean: 0.0, std: 0.0 },
            Distribution::Normal { mean: 0.0, std: f64::NAN },
            Distribution::TruncatedNormal { mean: 0.0, std: 1.0, min: 50.0, max: 60.0 },
            Distribution::Lognormal { mean: -1.0, std: 1.0 },
            Distribution::Beta { alpha: 0.0, beta: 1.0, min: 0.0, max: 1.0 },
            Distribution::Gamma { shape: 1.0, scale: -1.0 },
            Distribution::Triangular { min: 0.0, mode: 2.0, max: 1.0 },
            Distribution::from_samples(Vec::new()),
            Distribution::from_samples(vec![3.0; 4]),
        ];
        for distribution in refused {
            assert!(distribution.check().is_err(), "{distribution:?}");
        }
        for distribution in all() {
            assert!(distribution.check().is_ok(), "{distribution:?}");
        }
    }
}
