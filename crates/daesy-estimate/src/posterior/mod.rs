//! Samples of a posterior distribution, by Hamiltonian Monte Carlo with exact gradients.
//!
//! Unknowns with bounds are sampled in coordinates without any ([`transform`]); chains that know nothing of each other
//! run by the No-U-Turn sampler ([`nuts`]); whether they agree, and how many independent draws they are worth, is said
//! by [`diagnostics`].
//!
//! Random numbers are functions of the seed, the chain and their place in it, so that draws do not depend on threads.
//!
//! The longest step that is stable is set by the greatest curvature on the way, and warm-up learns an average one. Where
//! a posterior narrows somewhere, as that of a mean does where its standard deviation becomes small, trajectories
//! diverge there, and the draws avoid the place [@betancourt2017, sec. 6.2]. A run in which any does is taken again from
//! its start with shorter steps ([`ACCEPTANCES`]); what is left is told.

mod bounded;
pub mod diagnostics;
mod mode;
pub mod nuts;
mod proper;
pub mod transform;

use faer::Mat;
use rayon::prelude::*;

use mode::Beginning;
use nuts::Running;

pub use bounded::have_ray_in_box;
pub use diagnostics::{Convergence, convergence};
pub use nuts::{Chain, NutsOptions, run_chain};
pub use proper::precision_by_fall;
pub use transform::Transform;

/// A density that is known but for a factor.
pub trait LogDensity: Sync {
    /// Its logarithm with the gradient; `None` where it is zero or not defined.
    fn evaluate(&self, theta: &[f64]) -> Option<Slope>;

    /// Whether the work is to end, with the draws that there are. From then on there may be no values.
    fn is_over(&self) -> bool {
        false
    }
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
    /// The probability of acceptance that steps were chosen for, one of [`ACCEPTANCES`].
    pub target_acceptance: f64,
}

/// Probabilities of acceptance that steps are chosen for, one after another until no trajectory diverges. The first is
/// the cheapest for a normal distribution; at the last a step is about a third as long.
pub const ACCEPTANCES: [f64; 3] = [0.8, 0.95, 0.99];

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

    fn is_over(&self) -> bool {
        self.density.is_over()
    }
}

/// A mode of a density with the curvature of its negative logarithm there, in the coordinates of the unknowns.
#[derive(Clone, Debug)]
pub struct Mode {
    /// The mode.
    pub theta: Vec<f64>,
    /// The curvature.
    pub curvature: Mat<f64>,
}

/// Draws of a chain before the other chains take theirs.
const TURN: usize = 50;

/// Samples a density around its modes: chains begin around one after another, with the metric of the curvature there.
///
/// Chains take turns, so that where the work has to end before all is drawn ([`LogDensity::is_over`]) all of them have
/// about as many draws; they are cut to the same number, which may be none.
#[must_use]
pub fn sample(density: &dyn LogDensity, transforms: &[Transform], modes: &[Mode], options: &SampleOptions) -> Draws {
    let unbounded = Unbounded { density, transforms };
    let beginnings: Vec<Beginning> = modes.iter().map(|mode| Beginning::beside(&unbounded, mode)).collect();
    let run = |target_acceptance: f64| -> Vec<Chain> {
        let (n_warmup, n_draws) = (options.n_warmup, options.n_draws);
        let nuts = NutsOptions { n_warmup, n_draws, target_acceptance, ..NutsOptions::default() };
        let chains: Vec<_> = beginnings.iter().cycle().take(options.n_chains).enumerate().collect();
        let begin = |(chain, Beginning { center, covariance }): (usize, &Beginning)| {
            Running::begin(&unbounded, center, covariance, &nuts, options.seed, chain as u32)
        };
        let mut running: Vec<Running<'_>> = chains.into_par_iter().map(begin).collect();
        while !density.is_over() && running.iter().any(|chain| chain.n_left() > 0) {
            running.par_iter_mut().for_each(|chain| chain.go_on(TURN));
        }
        running.into_iter().map(Running::end).collect()
    };
    let mut n_evaluations = 0;
    let mut tried: Option<(f64, Vec<Chain>)> = None;
    for target in ACCEPTANCES {
        let chains = run(target);
        n_evaluations += chains.iter().map(|chain| chain.n_evaluations).sum::<u64>();
        // Where shorter steps do not help, as at an edge where the density ends, yet shorter ones will not.
        let before = tried.as_ref().map_or(usize::MAX, |(_, chains)| n_divergences(chains));
        let now = n_divergences(&chains);
        let is_cut_short = density.is_over() && tried.is_some();
        if now < before && !is_cut_short {
            tried = Some((target, chains));
        }
        if now == 0 || now >= before || density.is_over() {
            break;
        }
    }
    let (target_acceptance, mut chains) = tried.unwrap_or_default();
    let n_common = chains.iter().map(|chain| chain.draws.len()).min().unwrap_or(0);
    if density.is_over() {
        chains.iter_mut().for_each(|chain| {
            chain.draws.truncate(n_common);
            chain.values.truncate(n_common);
        });
    }
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
        divergences: n_divergences(&chains),
        n_cut: chains.iter().map(|chain| chain.n_cut).sum(),
        n_evaluations,
        acceptance: chains.iter().map(|chain| chain.acceptance).sum::<f64>() / options.n_chains.max(1) as f64,
        target_acceptance,
        theta: chains.iter().map(|chain| chain.draws.iter().map(theta).collect()).collect(),
    }
}

fn n_divergences(chains: &[Chain]) -> usize {
    chains.iter().map(|chain| chain.divergences).sum()
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

    fn around(theta: &[f64], curvature: &Mat<f64>) -> [Mode; 1] {
        [Mode { theta: theta.to_vec(), curvature: curvature.clone() }]
    }

    fn one(curvature: f64) -> Mat<f64> {
        Mat::from_fn(1, 1, |_, _| curvature)
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
            let draws = sample(&density, &free, &around(&[3.0, -1.0], information), &options(1000));
            assert_eq!(draws.divergences, 0);
            check(&draws, 0, 3.0, a);
            check(&draws, 1, -1.0, b);
        }
    }

    /// Mean and standard deviation by quadrature over a range from zero, for the logarithm of a density.
    fn moments(end: f64, log_density: impl Fn(f64) -> f64) -> (f64, f64) {
        let n = 200_000;
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        for k in 0..n {
            let x = end * (f64::from(k) + 0.5) / f64::from(n);
            let density = log_density(x).exp();
            total += density;
            first += x * density;
            second += x * x * density;
        }
        let mean = first / total;
        (mean, (second / total - mean * mean).sqrt())
    }

    /// An exponential distribution within bounds.
    struct Exponential;

    impl LogDensity for Exponential {
        fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
            (0.0..=2.0).contains(&theta[0]).then(|| Slope { value: -1.5 * theta[0], gradient: vec![-1.5] })
        }
    }

    #[test]
    fn bounds_are_counted_with_their_jacobian() {
        let (mean, std) = moments(2.0, |x| -1.5 * x);
        let transform = [Transform::new(0.0, 2.0, 1.0)];
        let draws = sample(&Exponential, &transform, &around(&[0.5], &one(2.0)), &options(2000));
        check(&draws, 0, mean, std);
        assert!(draws.theta.iter().flatten().all(|draw| (0.0..=2.0).contains(&draw[0])));
    }

    #[test]
    fn chains_begin_where_the_mass_is_though_the_mode_is_at_a_bound() {
        let scale = 0.02;
        // The mean of a normal distribution of standard deviation `scale` above zero, in standard deviations.
        for mean in [-3.0, 0.0, 0.01, 0.05, 1.0] {
            let density = Normal { mean: vec![mean * scale], precision: one(scale.powi(-2)) };
            let mode = around(&[mean.max(0.0) * scale], &one(scale.powi(-2)));
            let expected = moments(8.0 * scale, |x| -0.5 * (x / scale - mean).powi(2));
            // The other bound is far away or not there; the typical size has nothing to do with the scale.
            for transform in [Transform::new(0.0, f64::INFINITY, 100.0), Transform::new(0.0, 2.0, 1.0)] {
                let draws = sample(&density, &[transform], &mode, &options(2000));
                assert_eq!(draws.divergences, 0, "{mean} {transform:?}");
                check(&draws, 0, expected.0, expected.1);
                let least = draws.theta.iter().flatten().map(|draw| draw[0]).fold(f64::INFINITY, f64::min);
                assert!(least > 0.0 && least < 0.2 * expected.0);
            }
        }
    }

    /// Normal in `v`, and in `x` given `v` with a standard deviation that falls from one to `neck` where `v` is negative.
    struct Bottle {
        neck: f64,
    }

    impl LogDensity for Bottle {
        fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
            let (x, v) = (theta[0], theta[1]);
            let share = 1.0 / (1.0 + (-4.0 * v).exp());
            let std = self.neck + (1.0 - self.neck) * share;
            let std_slope = 4.0 * (1.0 - self.neck) * share * (1.0 - share);
            let square = (x / std).powi(2);
            let value = -0.5 * v * v - std.ln() - 0.5 * square;
            Some(Slope { value, gradient: vec![-x / (std * std), -v + (square - 1.0) * std_slope / std] })
        }
    }

    #[test]
    fn steps_become_shorter_where_trajectories_diverge() {
        let unit = Mat::from_fn(2, 2, |i, j| if i == j { 1.0 } else { 0.0 });
        let draw =
            |neck: f64| sample(&Bottle { neck }, &[Transform::Free; 2], &around(&[0.0; 2], &unit), &options(1000));
        // Hardly a neck: the longest steps will do.
        let draws = draw(0.5);
        assert_eq!((draws.divergences, draws.target_acceptance), (0, 0.8));
        check(&draws, 1, 0.0, 1.0);
        let draws = draw(0.1);
        assert_eq!(draws.divergences, 0);
        assert!(draws.target_acceptance > 0.8);
        check(&draws, 1, 0.0, 1.0);
    }

    /// A density whose time is over after so many evaluations.
    struct Limited {
        density: Normal,
        n_left: std::sync::atomic::AtomicI64,
    }

    impl LogDensity for Limited {
        fn evaluate(&self, theta: &[f64]) -> Option<Slope> {
            self.n_left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            if self.is_over() { None } else { self.density.evaluate(theta) }
        }

        fn is_over(&self) -> bool {
            self.n_left.load(std::sync::atomic::Ordering::Relaxed) < 0
        }
    }

    #[test]
    fn draws_are_kept_where_the_time_is_over() {
        let density = || Normal { mean: vec![0.0], precision: one(1.0) };
        let whole = sample(&density(), &[Transform::Free], &around(&[0.0], &one(1.0)), &options(1000));
        let cut = |n_left: i64| {
            let limited = Limited { density: density(), n_left: n_left.into() };
            sample(&limited, &[Transform::Free], &around(&[0.0], &one(1.0)), &options(1000)).theta
        };
        // The warm-up takes about half of the evaluations.
        let found = cut(whole.n_evaluations as i64 * 4 / 5);
        let n = found[0].len();
        assert!((100..1000).contains(&n), "{n}");
        for (chain, whole) in found.iter().zip(&whole.theta) {
            assert_eq!(chain, &whole[..n]);
        }
        assert!(cut(100).iter().all(Vec::is_empty));
    }

    #[test]
    fn draws_do_not_depend_on_threads() {
        let density = Normal { mean: vec![0.0], precision: Mat::from_fn(1, 1, |_, _| 1.0) };
        let run = || sample(&density, &[Transform::Free], &around(&[0.0], &one(1.0)), &options(50));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(pool.install(run), run());
    }
}
