//! What uncertain parameters add to the uncertainty of estimates and predictions.
//!
//! With parameters theta = mean + L z, z standard normal of p components, a signal has by the law of total variance
//!
//! ```text
//! var s = E var(s | theta) + var E(s | theta)
//! ```
//!
//! Both parts are taken over the 2 p points mean +- h L e_i with h = sqrt(p), which have the mean and the covariance of
//! theta [@julier2004]: the first as the mean of the variances there, the second as the mean square of E(s | theta)
//! around the value at the mean, which is the one that is reported. Where a point has no answer, as outside of the
//! domain of a parameter, h is taken ten and a hundred times smaller, with weights 1 / (2 h^2): that is the delta
//! method by central differences, and the first part is that at the mean.
//!
//! Where samples of the parameters are given, draws of a posterior, both parts are means over them.

use daesy_pencil::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

/// Uncertain parameters among all that may be chosen.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    /// Their positions.
    pub positions: Vec<usize>,
    /// Columns of a root of their covariance.
    columns: Vec<Vec<f64>>,
    /// Samples of them, which are taken first.
    draws: Vec<Vec<f64>>,
}

/// Points at a distance from the mean.
#[derive(Clone, PartialEq, Debug)]
pub struct SpreadPoints {
    /// Two for each column.
    pub points: Vec<Vec<f64>>,
    /// The weight of each in a mean square around the mean.
    pub weight: f64,
    /// Whether the mean over the points is that over the distribution.
    pub is_whole: bool,
}

impl Spread {
    /// Parameters at these positions with this covariance; nothing if none of them is uncertain.
    #[must_use]
    pub fn new(positions: Vec<usize>, covariance: &[Vec<f64>]) -> Option<Self> {
        let n = positions.len();
        if n == 0 {
            return None;
        }
        let scale: Vec<f64> = (0..n).map(|i| covariance[i][i].max(0.0).sqrt()).collect();
        let unit = |i: usize| if scale[i] > 0.0 { 1.0 / scale[i] } else { 0.0 };
        let correlation = Mat::from_fn(n, n, |i, j| 0.5 * (covariance[i][j] + covariance[j][i]) * unit(i) * unit(j));
        let eigen = SelfAdjointEigen::new(correlation.as_ref(), faer::Side::Lower).ok()?;
        let column = |k: usize| -> Vec<f64> {
            let size = eigen.S().column_vector()[k].max(0.0).sqrt();
            (0..n).map(|i| scale[i] * size * eigen.U()[(i, k)]).collect()
        };
        let columns: Vec<Vec<f64>> =
            (0..n).map(column).filter(|column| column.iter().any(|entry| *entry != 0.0)).collect();
        (!columns.is_empty()).then_some(Self { positions, columns, draws: Vec::new() })
    }

    /// The same parameters with samples of them.
    #[must_use]
    pub fn with_draws(self, draws: Vec<Vec<f64>>) -> Self {
        Self { draws, ..self }
    }

    /// The same parameters by their covariance alone.
    #[must_use]
    pub fn without_draws(self) -> Self {
        self.with_draws(Vec::new())
    }

    /// These parameters and others that are independent of them, by their covariances alone.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        let (n, n_other) = (self.positions.len(), other.positions.len());
        let above = self.columns.into_iter().map(|column| [column, vec![0.0; n_other]].concat());
        let below = other.columns.into_iter().map(|column| [vec![0.0; n], column].concat());
        let columns = above.chain(below).collect();
        Self { positions: [self.positions, other.positions].concat(), columns, draws: Vec::new() }
    }

    /// Points around a mean, samples or the widest first.
    pub fn points(&self, mean: &[f64]) -> impl Iterator<Item = SpreadPoints> {
        let widest = (self.columns.len() as f64).sqrt();
        let placed = |draw: &Vec<f64>| {
            let mut point = mean.to_vec();
            self.positions.iter().zip(draw).for_each(|(&at, value)| point[at] = *value);
            point
        };
        let weight = 1.0 / self.draws.len().max(1) as f64;
        let drawn = SpreadPoints { points: self.draws.iter().map(placed).collect(), weight, is_whole: true };
        let around = [1.0, 0.1, 0.01].into_iter().map(move |share| {
            let reach = share * widest;
            let moved = |column: &Vec<f64>, sign: f64| {
                let mut point = mean.to_vec();
                self.positions.iter().zip(column).for_each(|(&at, entry)| point[at] += sign * reach * entry);
                point
            };
            let points = self.columns.iter().flat_map(|column| [moved(column, 1.0), moved(column, -1.0)]).collect();
            SpreadPoints { points, weight: 0.5 / (reach * reach), is_whole: share == 1.0 }
        });
        (!self.draws.is_empty()).then_some(drawn).into_iter().chain(around)
    }

    /// The variance of a quantity with this gradient: `g' covariance g`, for exact derivatives.
    #[must_use]
    pub fn variance(&self, gradient: &dyn Fn(usize) -> f64) -> f64 {
        let along = |column: &Vec<f64>| -> f64 {
            self.positions.iter().zip(column).map(|(&at, entry)| gradient(at) * entry).sum()
        };
        self.columns.iter().map(|column| along(column).powi(2)).sum()
    }
}

impl SpreadPoints {
    /// The standard deviation of a quantity whose value and standard deviation are given at the mean and at each point.
    pub(crate) fn std(&self, here: (f64, f64), there: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
        let strays = there.clone().map(|(value, _)| (value - here.0).powi(2)).sum::<f64>() * self.weight;
        let own = match self.is_whole {
            true => there.map(|(_, std)| std * std).sum::<f64>() * self.weight,
            false => here.1 * here.1,
        };
        (own + strays).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_the_moments_of_the_parameters() {
        let covariance = vec![vec![4.0, 1.8], vec![1.8, 1.0]];
        let spread = Spread::new(vec![0, 2], &covariance).unwrap();
        let mean = [1.0, 7.0, -2.0];
        for around in spread.points(&mean) {
            for (i, a) in [(0, 0), (1, 2)] {
                for (j, b) in [(0, 0), (1, 2)] {
                    let products = around.points.iter().map(|point| (point[a] - mean[a]) * (point[b] - mean[b]));
                    let found = products.sum::<f64>() * around.weight;
                    assert!((found - covariance[i][j]).abs() < 1e-12, "{i} {j}: {found}");
                }
            }
            assert!(around.points.iter().all(|point| point[1] == 7.0));
            // A linear map of the parameters with an error of its own.
            let map = |point: &[f64]| 3.0 * point[0] - point[2];
            let there = around.points.iter().map(|point| (map(point), 0.5));
            let expected = (9.0 * 4.0 - 6.0 * 1.8 + 1.0 + 0.25f64).sqrt();
            assert!((around.std((map(&mean), 0.5), there) - expected).abs() < 1e-12);
        }
        let gradient = |at: usize| [3.0, 100.0, -1.0][at];
        assert!((spread.variance(&gradient) - (9.0 * 4.0 - 6.0 * 1.8 + 1.0)).abs() < 1e-12);
        // Samples come first, each with the same weight.
        let drawn = Spread::new(vec![0, 2], &covariance).unwrap().with_draws(vec![vec![3.0, -1.0], vec![-1.0, -3.0]]);
        let around = drawn.points(&mean).next().unwrap();
        assert_eq!(around.points, [[3.0, 7.0, -1.0], [-1.0, 7.0, -3.0]]);
        let there = around.points.iter().map(|point| (point[0], 0.0));
        assert!((around.std((1.0, 0.0), there) - 2.0).abs() < 1e-12);
        assert_eq!(Spread::new(vec![0], &[vec![0.0]]), None);
        assert_eq!(Spread::new(Vec::new(), &[]), None);
    }
}
