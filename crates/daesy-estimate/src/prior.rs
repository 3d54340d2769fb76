//! What is known of unknowns before there are data, and objectives that count it.
//!
//! The maximum a posteriori minimizes `-log L(theta) - sum over i of log p_i(theta_i)`. For a linear Gaussian model
//! with normal priors it is the mean of the posterior, with the covariance `(I + P)^-1` of information and prior
//! precision.

use daesy_random::special_functions::{ln_gamma, normal_distribution};

use crate::search::{Expansion, Objective};

/// The density of one unknown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Prior {
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// The logarithm is normal; mean and standard deviation are those of the logarithm.
    Lognormal {
        /// Mean of the logarithm.
        location: f64,
        /// Standard deviation of the logarithm.
        scale: f64,
    },
    /// Uniform on an interval.
    Uniform {
        /// Lower end.
        min: f64,
        /// Upper end.
        max: f64,
    },
    /// Gamma.
    Gamma {
        /// Shape.
        shape: f64,
        /// Scale.
        scale: f64,
    },
}

impl Prior {
    /// A lognormal prior by mean and standard deviation of the variable itself.
    #[must_use]
    pub fn lognormal(mean: f64, std: f64) -> Self {
        let variance = (std / mean).powi(2).ln_1p();
        Self::Lognormal { location: mean.ln() - 0.5 * variance, scale: variance.sqrt() }
    }

    /// Values that are possible.
    #[must_use]
    pub fn support(&self) -> (f64, f64) {
        match *self {
            Self::Normal { .. } => (f64::NEG_INFINITY, f64::INFINITY),
            Self::Lognormal { .. } | Self::Gamma { .. } => (0.0, f64::INFINITY),
            Self::Uniform { min, max } => (min, max),
        }
    }

    /// The quantile at `Phi(z)`: so many standard deviations from the middle of a normal distribution (for the gamma
    /// distribution by Wilson and Hilferty's approximation).
    #[must_use]
    pub fn at(&self, z: f64) -> f64 {
        match *self {
            Self::Normal { mean, std } => mean + z * std,
            Self::Lognormal { location, scale } => (location + z * scale).exp(),
            Self::Uniform { min, max } => min + (max - min) * normal_distribution(z),
            Self::Gamma { shape, scale } => {
                let root = 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt());
                shape * scale * root.max(0.1).powi(3)
            }
        }
    }

    /// The logarithm of the density, constants included.
    #[must_use]
    pub fn log_density(&self, x: f64) -> f64 {
        let normal = |z: f64, std: f64| -0.5 * (z * z + (2.0 * std::f64::consts::PI).ln()) - std.ln();
        let (least, most) = self.support();
        if x < least || x > most {
            return f64::NEG_INFINITY;
        }
        match *self {
            Self::Normal { mean, std } => normal((x - mean) / std, std),
            Self::Lognormal { location, scale } => normal((x.ln() - location) / scale, scale) - x.ln(),
            Self::Uniform { min, max } => -(max - min).ln(),
            Self::Gamma { shape, scale } => (shape - 1.0) * x.ln() - x / scale - ln_gamma(shape) - shape * scale.ln(),
        }
    }

    /// The derivative of the logarithm of the density.
    #[must_use]
    pub fn slope(&self, x: f64) -> f64 {
        match *self {
            Self::Normal { mean, std } => (mean - x) / (std * std),
            Self::Lognormal { location, scale } => -((x.ln() - location) / (scale * scale) + 1.0) / x,
            Self::Uniform { .. } => 0.0,
            Self::Gamma { shape, scale } => (shape - 1.0) / x - 1.0 / scale,
        }
    }

    /// Minus the second derivative, zero where that is negative: the information of the prior.
    #[must_use]
    pub fn precision(&self, x: f64) -> f64 {
        let value = match *self {
            Self::Normal { std, .. } => 1.0 / (std * std),
            Self::Lognormal { location, scale } => {
                (1.0 / (scale * scale) - (x.ln() - location) / (scale * scale) - 1.0) / (x * x)
            }
            Self::Uniform { .. } => 0.0,
            Self::Gamma { shape, .. } => (shape - 1.0) / (x * x),
        };
        if value.is_finite() { value.max(0.0) } else { 0.0 }
    }
}

/// The precision of every prior at a point; zero where there is none.
#[must_use]
pub fn precisions(priors: &[Option<Prior>], theta: &[f64]) -> Vec<f64> {
    priors.iter().zip(theta).map(|(prior, x)| prior.map_or(0.0, |prior| prior.precision(*x))).collect()
}

/// The logarithm of the product of all densities.
#[must_use]
pub fn log_prior(priors: &[Option<Prior>], theta: &[f64]) -> f64 {
    priors.iter().zip(theta).map(|(prior, x)| prior.map_or(0.0, |prior| prior.log_density(*x))).sum()
}

/// A negative log-likelihood, times a factor, with priors counted alike.
pub struct WithPriors<'p, O> {
    /// The negative log-likelihood times the factor.
    pub inner: O,
    /// By unknown.
    pub priors: &'p [Option<Prior>],
    /// The factor.
    pub factor: f64,
}

impl<O: Objective> Objective for WithPriors<'_, O> {
    type Refusal = O::Refusal;

    fn value(&mut self, theta: &[f64]) -> Result<f64, O::Refusal> {
        Ok(self.inner.value(theta)? - self.factor * log_prior(self.priors, theta))
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, O::Refusal> {
        let mut expansion = self.inner.expand(theta)?;
        expansion.value -= self.factor * log_prior(self.priors, theta);
        for (i, prior) in self.priors.iter().enumerate() {
            if let Some(prior) = prior {
                expansion.gradient[i] -= self.factor * prior.slope(theta[i]);
                expansion.curvature[(i, i)] += self.factor * prior.precision(theta[i]);
            }
        }
        Ok(expansion)
    }
}

/// An objective that is lent keeps what it counts.
impl<O: Objective> Objective for &mut O {
    type Refusal = O::Refusal;

    fn value(&mut self, theta: &[f64]) -> Result<f64, O::Refusal> {
        (**self).value(theta)
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, O::Refusal> {
        (**self).expand(theta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_integrate_to_one_and_slopes_are_their_derivatives() {
        let priors = [
            Prior::Normal { mean: 1.0, std: 0.5 },
            Prior::lognormal(2.0, 0.7),
            Prior::Uniform { min: 0.5, max: 3.0 },
            Prior::Gamma { shape: 3.0, scale: 0.4 },
        ];
        let means = [1.0, 2.0, 1.75, 1.2];
        for (prior, expected) in priors.iter().zip(means) {
            let h = 1e-4;
            let points = (0..200_000).map(|k| -4.0 + h * (f64::from(k) + 0.5));
            let (mut total, mut mean) = (0.0, 0.0);
            for x in points {
                let density = prior.log_density(x).exp();
                total += h * density;
                mean += h * x * density;
            }
            assert!((total - 1.0).abs() < 1e-3 && (mean - expected).abs() < 2e-3, "{prior:?}: {total} {mean}");
            for x in [0.6, 1.3, 2.5] {
                let d = 1e-5;
                let slope = (prior.log_density(x + d) - prior.log_density(x - d)) / (2.0 * d);
                assert!((slope - prior.slope(x)).abs() < 1e-6, "{prior:?} at {x}");
                let bend = -(prior.slope(x + d) - prior.slope(x - d)) / (2.0 * d);
                assert!((bend.max(0.0) - prior.precision(x)).abs() < 1e-5, "{prior:?} at {x}");
            }
        }
    }
}
