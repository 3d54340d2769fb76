//! What is known of unknowns before there are data, and objectives that count it.
//!
//! The maximum a posteriori minimizes `-log L(theta) - sum over i of log p_i(theta_i)`. For a linear Gaussian model
//! with normal priors it is the mean of the posterior, with the covariance `(I + P)^-1` of information and prior
//! precision.

use daesy_random::special_functions::{ln_gamma, normal_distribution};
use faer::Mat;

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

    /// Whether the density at a point, its slope and its curvature are numbers: squares of sizes below 1e-154, or of
    /// distances beyond 1e154 of them, are none. The ends of the support, where the density may be zero, do not count.
    #[must_use]
    pub fn has_numbers_at(&self, x: f64) -> bool {
        let of_normal =
            |z: f64, std: f64| (z * z).is_finite() && (std * std).is_finite() && (1.0 / (std * std)).is_finite();
        match *self {
            Self::Normal { mean, std } => of_normal((x - mean) / std, std),
            Self::Lognormal { location, scale } => {
                let z = if x > 0.0 { (x.ln() - location) / scale } else { 0.0 };
                location.is_finite() && of_normal(z, scale)
            }
            Self::Uniform { min, max } => (max - min).is_finite(),
            Self::Gamma { shape, scale } => (1.0 / scale).is_finite() && (x / scale).is_finite() && shape.is_finite(),
        }
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

/// What a fit that counts no priors says of the unknowns: they are normal around its estimate t, with its covariance C.
/// Its negative logarithm
///
/// ```text
/// 1/2 (theta - t)' C^+ (theta - t)
/// ```
///
/// is what the likelihood is for methods that have one; for others, which look at some statistic of the data only, such
/// as at means, it is that of the statistic [@kim2002]. Directions that the fit does not determine have no precision.
#[derive(Clone, Debug)]
pub struct LimitedInformation {
    /// Where the fit ended.
    pub estimate: Vec<f64>,
    /// The inverse of its covariance, zero where that is.
    pub precision: Mat<f64>,
}

/// Variances below this fraction of the largest, in sizes of the unknowns, are those of directions that a fit does not
/// determine, whose covariance is left out.
const UNDETERMINED: f64 = 1e-13;

impl LimitedInformation {
    /// The distribution of an estimate with its covariance, rows of zeros where there is none; `sizes` are typical ones
    /// of the unknowns.
    #[must_use]
    pub fn new(estimate: &[f64], covariance: &Mat<f64>, sizes: &[f64]) -> Self {
        let n = estimate.len();
        let scaled = Mat::from_fn(n, n, |i, j| 0.5 * (covariance[(i, j)] + covariance[(j, i)]) / (sizes[i] * sizes[j]));
        let mut precision = Mat::<f64>::zeros(n, n);
        if let Ok(eigen) = scaled.self_adjoint_eigen(faer::Side::Lower) {
            let (values, vectors) = (eigen.S().column_vector(), eigen.U());
            let largest = values.iter().fold(0.0f64, |largest, &value| largest.max(value));
            for at in (0..n).filter(|&at| values[at] > UNDETERMINED * largest) {
                for i in 0..n {
                    for j in 0..n {
                        precision[(i, j)] += vectors[(i, at)] * vectors[(j, at)] / (values[at] * sizes[i] * sizes[j]);
                    }
                }
            }
        }
        Self { estimate: estimate.to_vec(), precision }
    }
}

impl Objective for LimitedInformation {
    type Refusal = std::convert::Infallible;

    fn value(&mut self, theta: &[f64]) -> Result<f64, Self::Refusal> {
        Ok(self.expand(theta)?.value)
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, Self::Refusal> {
        let n = theta.len();
        let away = Mat::from_fn(n, 1, |i, _| theta[i] - self.estimate[i]);
        let pull = &self.precision * &away;
        Ok(Expansion {
            value: 0.5 * (away.transpose() * &pull)[(0, 0)],
            gradient: (0..n).map(|i| pull[(i, 0)]).collect(),
            curvature: self.precision.clone(),
        })
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
    use crate::search::{SearchOptions, SearchSpace, minimize};

    #[test]
    fn normal_priors_and_normal_estimates_weigh_by_their_precisions() {
        // One direction of two is determined: b - 2 a = 3, with a variance of 0.04; a is about 1 with one of 0.25.
        let across = [-2.0f64, 1.0];
        let norm = 5.0;
        let covariance = Mat::from_fn(2, 2, |i, j| 0.04 * across[i] * across[j] / (norm * norm));
        let inner = LimitedInformation::new(&[10.0, 23.0], &covariance, &[1.0, 1.0]);
        let priors = [Some(Prior::Normal { mean: 1.0, std: 0.5 }), None];
        let space = SearchSpace { lower: vec![-1e9; 2], upper: vec![1e9; 2], nominal: vec![1.0; 2] };
        let mut objective = WithPriors { inner, priors: &priors, factor: 1.0 };
        let options = SearchOptions { absolute: 1e-24, relative: 0.0, ..SearchOptions::default() };
        let found = minimize(&mut objective, &[10.0, 23.0], &space, &options, &mut |_| {}).unwrap();
        assert!((found.theta[0] - 1.0).abs() < 1e-9 && (found.theta[1] - 5.0).abs() < 1e-9, "{:?}", found.theta);
        // Both determined: precisions add.
        let covariance = Mat::from_fn(1, 1, |_, _| 0.01);
        let inner = LimitedInformation::new(&[2.0], &covariance, &[1.0]);
        let priors = [Some(Prior::Normal { mean: 1.0, std: 0.2 })];
        let space = SearchSpace { lower: vec![-1e9], upper: vec![1e9], nominal: vec![1.0] };
        let mut objective = WithPriors { inner, priors: &priors, factor: 1.0 };
        let found = minimize(&mut objective, &[2.0], &space, &options, &mut |_| {}).unwrap();
        assert!((found.theta[0] - (2.0 * 100.0 + 25.0) / 125.0).abs() < 1e-9, "{:?}", found.theta);
    }

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
