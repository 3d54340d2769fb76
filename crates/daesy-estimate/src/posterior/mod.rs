//! Samples of a posterior distribution, by Hamiltonian Monte Carlo with exact gradients.
//!
//! Unknowns with bounds are sampled in coordinates without any ([`transform`]); chains that know nothing of each other
//! run by the No-U-Turn sampler ([`nuts`]); whether they agree, and how many independent draws they are worth, is said
//! by [`diagnostics`].
//!
//! Random numbers are functions of the seed, the chain and their place in it, so that draws do not depend on threads.

pub mod diagnostics;
pub mod nuts;
pub mod transform;

use faer::Mat;
use rayon::prelude::*;

pub use diagnostics::{Convergence, convergence};
pub use nuts::{Chain, NutsOptions, run_chain};
pub use transform::Transform;

/// A density that is known but for a factor.
pub trait LogDensity: Sync {
    /// Its logarithm with the gradient; `None` where it is zero or not defined.
    fn evaluate(&self, theta: &[f64]) -> Option<Slope>;
}

/// A value with its gradient.
#[derive(Clone, PartialEq, Debug)]
pub struct Slope {
    /// The value.
    pub value: f64,
    /// The gradient.
    pub gradient: Vec<f64>,
}

/// How to sample.
#[derive(Clone, PartialEq, Debug)]
pub struct SampleOptions {
    /// Chains.
    pub n_chains: usize,
    /// Draws of each that are kept.
    pub n_draws: usize,
    /// Draws before these, which teach the sampler.
    pub n_warmup: usize,
    /// Seed.
    pub seed: u64,
}

/// Draws of all chains, in the coordinates of the unknowns.
#[derive(Clone, PartialEq, Debug)]
pub struct Draws {
    /// `[chain][draw][unknown]`.
    pub theta: Vec<Vec<Vec<f64>>>,
    /// `[chain][draw]`: logarithm of the density in the coordinates of the unknowns, but for a constant.
    pub log_density: Vec<Vec<f64>>,
    /// Trajectories that left the surface of constant energy, after the warm-up.
    pub divergences: usize,
    /// Trajectories that were cut at their greatest length.
    pub n_cut: usize,
    /// Evaluations of the density.
    pub n_evaluations: u64,
    /// Mean probability of acceptance.
    pub acceptance: f64,
}

/// A density in coordinates without bounds.
struct Unbounded<'a> {
    density: &'a dyn LogDensity,
    transforms: &'a [Transform],
}

impl LogDensity for Unbounded<'_> {
    fn evaluate(&self, q: &[f64]) -> Option<Slope> {
        let theta: Vec<f64> = self.transforms.iter().zip(q).map(|(transform, q)| transform.value(*q)).collect();
        let Slope { mut value, mut gradient } = self.density.evaluate(&theta)?;
        for (i, transform) in self.transforms.iter().enumerate() {
            let (log_factor, slope) = transform.log_derivative(q[i]);
            value += log_factor;
            gradient[i] = gradient[i] * transform.derivative(q[i]) + slope;
        }
        let is_finite = value.is_finite() && gradient.iter().all(|slope| slope.is_finite());
        is_finite.then_some(Slope { value, gradient })
    }
}

/// Samples a density around its mode. `information` is its curvature there, in the coordinates of the unknowns; it
/// gives the first metric and the spread of the starts of the chains.
#[must_use]
pub fn sample(
    density: &dyn LogDensity,
    transforms: &[Transform],
    mode: &[f64],
    information: &Mat<f64>,
    options: &SampleOptions,
) -> Draws {
    let n = mode.len();
    let unbounded = Unbounded { density, transforms };
    let center: Vec<f64> = transforms.iter().zip(mode).map(|(transform, x)| transform.coordinate(*x)).collect();
    let jacobian: Vec<f64> = transforms.iter().zip(&center).map(|(transform, q)| transform.derivative(*q)).collect();
    let metric = Mat::from_fn(n, n, |i, j| jacobian[i] * information[(i, j)] * jacobian[j]);
    let covariance = nuts::bounded_inverse(&metric);
    let nuts = NutsOptions { n_warmup: options.n_warmup, n_draws: options.n_draws, ..NutsOptions::default() };
    let chains: Vec<Chain> = (0..options.n_chains)
        .into_par_iter()
        .map(|chain| run_chain(&unbounded, &center, &covariance, &nuts, options.seed, chain as u32))
        .collect();
    let theta = |draw: &Vec<f64>| -> Vec<f64> {
        transforms.iter().zip(draw).map(|(transform, q)| transform.value(*q)).collect()
    };
    let log_jacobian = |draw: &Vec<f64>| -> f64 {
        transforms.iter().zip(draw).map(|(transform, q)| transform.log_derivative(*q).0).sum()
    };
    Draws {
        log_density: chains
            .iter()
            .map(|chain| chain.draws.iter().zip(&chain.values).map(|(q, value)| value - log_jacobian(q)).collect())
            .collect(),
        divergences: chains.iter().map(|chain| chain.divergences).sum(),
        n_cut: chains.iter().map(|chain| chain.n_cut).sum(),
        n_evaluations: chains.iter().map(|chain| chain.n_evaluations).sum(),
        acceptance: chains.iter().map(|chain| chain.acceptance).sum::<f64>() / options.n_chains.max(1) as f64,
        theta: chains.iter().map(|chain| chain.draws.iter().map(theta).collect()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal distribution with correlation.
    struct Normal {
        mean: Vec<f64>,
        precision: Mat<f64>,
    }

    impl LogDensity for Normal {
        fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
            let n = theta.len();
            let d: Vec<f64> = theta.iter().zip(&self.mean).map(|(a, b)| a - b).collect();
            let gradient: Vec<f64> =
                (0..n).map(|i| -(0..n).map(|j| self.precision[(i, j)] * d[j]).sum::<f64>()).collect();
            Some(Slope { value: 0.5 * gradient.iter().zip(&d).map(|(g, d)| g * d).sum::<f64>(), gradient })
        }
    }

    fn options(n_draws: usize) -> SampleOptions {
        SampleOptions { n_chains: 4, n_draws, n_warmup: 500, seed: 11 }
    }

    fn column(draws: &Draws, at: usize) -> Vec<Vec<f64>> {
        draws.theta.iter().map(|chain| chain.iter().map(|draw| draw[at]).collect()).collect()
    }

    /// Mean and standard deviation within four Monte Carlo errors, and chains that agree.
    fn check(draws: &Draws, at: usize, mean: f64, std: f64) {
        let chains = column(draws, at);
        let found = convergence(&chains);
        assert!(found.rhat < 1.01, "{found:?}");
        let all: Vec<f64> = chains.concat();
        let n = all.len() as f64;
        let m = all.iter().sum::<f64>() / n;
        let s = (all.iter().map(|x| (x - m).powi(2)).sum::<f64>() / n).sqrt();
        let error = std / found.ess_bulk.sqrt();
        assert!((m - mean).abs() < 4.0 * error, "mean {m} of {mean}, error {error}");
        let squares: Vec<Vec<f64>> =
            chains.iter().map(|chain| chain.iter().map(|x| (x - mean).powi(2)).collect()).collect();
        let error = std / (2.0 * convergence(&squares).ess_bulk).sqrt() * 1.5;
        assert!((s - std).abs() < 4.0 * error, "std {s} of {std}, error {error}");
    }

    #[test]
    fn a_correlated_normal_distribution_is_met() {
        let (a, b, r) = (2.0f64, 0.01f64, 0.95f64);
        let d = 1.0 - r * r;
        let precision = Mat::from_fn(2, 2, |i, j| match (i, j) {
            (0, 0) => 1.0 / (a * a * d),
            (1, 1) => 1.0 / (b * b * d),
            _ => -r / (a * b * d),
        });
        let density = Normal { mean: vec![3.0, -1.0], precision: precision.clone() };
        let free = [Transform::Free; 2];
        // A first metric that is far off: warm-up must find the right one.
        let wrong = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 0.0 });
        for information in [&precision, &wrong] {
            let draws = sample(&density, &free, &[3.0, -1.0], information, &options(1000));
            assert_eq!(draws.divergences, 0);
            check(&draws, 0, 3.0, a);
            check(&draws, 1, -1.0, b);
        }
    }

    /// An exponential distribution within bounds: moments by quadrature.
    struct Exponential;

    impl LogDensity for Exponential {
        fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
            (0.0..=2.0).contains(&theta[0]).then(|| Slope { value: -1.5 * theta[0], gradient: vec![-1.5] })
        }
    }

    #[test]
    fn bounds_are_counted_with_their_jacobian() {
        let n = 200_000;
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        for k in 0..n {
            let x = 2.0 * (f64::from(k) + 0.5) / f64::from(n);
            let density = (-1.5 * x).exp();
            total += density;
            first += x * density;
            second += x * x * density;
        }
        let mean = first / total;
        let std = (second / total - mean * mean).sqrt();
        let transform = [Transform::new(0.0, 2.0, 1.0)];
        let draws = sample(&Exponential, &transform, &[0.5], &Mat::from_fn(1, 1, |_, _| 2.0), &options(2000));
        check(&draws, 0, mean, std);
        assert!(draws.theta.iter().flatten().all(|draw| (0.0..=2.0).contains(&draw[0])));
    }

    #[test]
    fn draws_do_not_depend_on_threads() {
        let density = Normal { mean: vec![0.0], precision: Mat::from_fn(1, 1, |_, _| 1.0) };
        let run = || sample(&density, &[Transform::Free], &[0.0], &Mat::from_fn(1, 1, |_, _| 1.0), &options(50));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(pool.install(run), run());
    }
}
