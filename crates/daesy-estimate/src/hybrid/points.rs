//! Standard normal points whose mean and covariance are exact.
//!
//! In every dimension the first half of the points has one value in each of as many parts of equal probability, in
//! random order (a Latin hypercube, [@mckay1979]); the second half mirrors the first. With G the first half, one column
//! for each point, L the Cholesky factor of G G' / n and X = L^-1 G,
//!
//! ```text
//! [X, -X] has the mean 0 and  X X' / n = I
//! ```

use daesy_random::special_functions::normal_quantile;
use faer::Mat;

use crate::noise::philox::{Purpose, experiment_and_pair, key, philox};

/// What points are drawn for: the same ones at every parameter value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointKey {
    /// Seed.
    pub seed: u64,
    /// Number of the experiment.
    pub experiment: usize,
    /// Number of the grid point from which they are followed.
    pub grid_point: usize,
}

/// So many points, two for each pair: `[dimension, point]`. There are more pairs than dimensions.
#[must_use]
pub fn standard_points(of: PointKey, n_dimensions: usize, n_pairs: usize) -> Mat<f64> {
    let quantiles: Vec<f64> = (0..n_pairs).map(|i| normal_quantile((i as f64 + 0.5) / n_pairs as f64)).collect();
    let mut half = Mat::<f64>::zeros(n_dimensions, n_pairs);
    for dimension in 0..n_dimensions {
        let third = experiment_and_pair(of.experiment as u32, dimension as u32);
        let word = |pair: usize| {
            let counter = [of.grid_point as u32, pair as u32, third, Purpose::Points.word()];
            let words = philox(counter, key(of.seed));
            (words[0], words[1], pair)
        };
        let mut order: Vec<(u32, u32, usize)> = (0..n_pairs).map(word).collect();
        order.sort_unstable();
        for (place, &(_, _, pair)) in order.iter().enumerate() {
            half[(dimension, pair)] = quantiles[place];
        }
    }
    whiten(&mut half);
    Mat::from_fn(n_dimensions, 2 * n_pairs, |i, point| {
        if point < n_pairs { half[(i, point)] } else { -half[(i, point - n_pairs)] }
    })
}

/// X = L^-1 G, see the module.
fn whiten(half: &mut Mat<f64>) {
    let covariance = &*half * half.transpose() * faer::Scale(1.0 / half.ncols() as f64);
    if let Ok(factor) = covariance.llt(faer::Side::Lower) {
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(factor.L(), half.as_mut(), faer::Par::Seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_covariance_are_exact_and_points_normal() {
        let of = PointKey { seed: 3, experiment: 1, grid_point: 70 };
        let points = standard_points(of, 12, 64);
        assert_eq!((points.nrows(), points.ncols()), (12, 128));
        let covariance = &points * points.transpose() * faer::Scale(1.0 / 128.0);
        for i in 0..12 {
            assert!(points.row(i).iter().sum::<f64>().abs() < 1e-12);
            for j in 0..12 {
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((covariance[(i, j)] - expected).abs() < 1e-12, "{i} {j} {}", covariance[(i, j)]);
            }
            // The fourth moment of a normal number is 3, and that of 64 pairs strays by sqrt(96 / 64) = 1.2.
            let fourth = points.row(i).iter().map(|x| x.powi(4)).sum::<f64>() / 128.0;
            assert!((1.2..4.8).contains(&fourth), "{fourth}");
        }
        assert_eq!(points, standard_points(of, 12, 64));
        assert_ne!(points, standard_points(PointKey { grid_point: 71, ..of }, 12, 64));
    }
}
