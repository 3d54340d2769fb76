//! The series itself: coefficients of every variable over time, and what follows from them.

use std::ops::RangeInclusive;

use crate::basis::Basis;
use crate::sampling::SobolSequence;

/// How much of a variable's variance is due to a parameter [@sobol2001].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SobolIndices {
    /// Alone.
    pub first: f64,
    /// Alone and together with others.
    pub total: f64,
}

/// Coefficients of one variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// By polynomial, then by row of the table.
    pub coefficients: Vec<Vec<f64>>,
}

/// Polynomials in the random parameters for every variable at every time.
#[derive(Clone, PartialEq, Debug)]
pub struct Surrogate {
    /// The polynomials.
    pub basis: Basis,
    /// Times of the rows.
    pub times: Vec<f64>,
    /// The variables.
    pub series: Vec<Series>,
}

/// Two quantiles of a variable over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantiles {
    /// By probability that was asked for, then by row.
    pub values: Vec<Vec<f64>>,
}

/// Points at which series are looked at for quantiles.
#[derive(Clone, PartialEq, Debug)]
pub struct QuantilePoints {
    n: usize,
    /// Values by polynomial, then by point.
    polynomials: Vec<Vec<f64>>,
}

/// From one row to the next a quantile moves by no more than this, in standard deviations from the mean; where it moves
/// farther it is sought among all values.
const WINDOW: f64 = 0.05;

/// A standard deviation below this share of a variable's size is rounding.
const ROUNDING: f64 = 1e-11;

impl Series {
    /// The mean over time.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.coefficients[0]
    }

    /// The variance over time.
    #[must_use]
    pub fn variance(&self) -> Vec<f64> {
        let n = self.coefficients[0].len();
        (0..n).map(|row| self.coefficients[1..].iter().map(|values| values[row] * values[row]).sum()).collect()
    }

    /// The standard deviation over time.
    #[must_use]
    pub fn std(&self) -> Vec<f64> {
        self.variance().into_iter().map(f64::sqrt).collect()
    }

    /// Size of the variable: the largest magnitude of its mean.
    #[must_use]
    pub fn size(&self) -> f64 {
        self.coefficients[0].iter().fold(0.0, |most, value| most.max(value.abs()))
    }
}

impl Surrogate {
    /// Sobol indices of a variable by parameter, then by row; NaN where nothing varies.
    #[must_use]
    pub fn sobol(&self, series: &Series) -> Vec<Vec<SobolIndices>> {
        let variance = series.variance();
        let largest = variance.iter().copied().fold(0.0, f64::max);
        let floor = (ROUNDING * series.size()).powi(2).max(1e-20 * largest);
        let indices = self.basis.indices.indices();
        (0..self.basis.n_parameters())
            .map(|parameter| {
                variance
                    .iter()
                    .enumerate()
                    .map(|(row, &variance)| {
                        if variance <= floor || variance == 0.0 {
                            return SobolIndices { first: f64::NAN, total: f64::NAN };
                        }
                        let (mut first, mut total) = (0.0, 0.0);
                        for (index, values) in indices.iter().zip(&series.coefficients).skip(1) {
                            if index[parameter] > 0 {
                                let square = values[row] * values[row];
                                total += square;
                                let is_alone = index.iter().enumerate().all(|(at, &k)| at == parameter || k == 0);
                                first += if is_alone { square } else { 0.0 };
                            }
                        }
                        SobolIndices { first: first / variance, total: total / variance }
                    })
                    .collect()
            })
            .collect()
    }

    /// Values of a variable over time for germ values.
    #[must_use]
    pub fn evaluate(&self, series: &Series, germ: &[f64]) -> Vec<f64> {
        let values = self.basis.evaluate(germ);
        let mut rows = vec![0.0; self.times.len()];
        for (value, coefficients) in values.iter().zip(&series.coefficients) {
            for (row, coefficient) in rows.iter_mut().zip(coefficients) {
                *row += value * coefficient;
            }
        }
        rows
    }

    /// Points whose values stand for the distribution: as many as fit into a bound of work, between 512 and 8192.
    #[must_use]
    pub fn quantile_points(&self) -> QuantilePoints {
        let work = (self.basis.len() * self.times.len() * self.series.len()).max(1);
        let n = (1_500_000_000 / work).clamp(512, 8192) as u32;
        let n_parameters = self.basis.n_parameters();
        let unit = |sample: u32| -> Vec<f64> {
            if n_parameters == 1 {
                return vec![(f64::from(sample) + 0.5) / f64::from(n)];
            }
            match SobolSequence::new(n_parameters, 0) {
                Some(sequence) => sequence.point(sample),
                None => crate::sampling::random_point(
                    0,
                    crate::sampling::Purpose::Shift,
                    u64::from(sample) + 1,
                    n_parameters,
                ),
            }
        };
        let mut polynomials = vec![Vec::with_capacity(n as usize); self.basis.len()];
        for sample in 0..n {
            let values = self.basis.evaluate(&self.basis.germ_of_unit(&unit(sample)));
            polynomials.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
        }
        QuantilePoints { n: n as usize, polynomials }
    }

    /// Quantiles of a variable over time, from the series at the points of [`Self::quantile_points`].
    #[must_use]
    pub fn quantiles(&self, series: &Series, points: &QuantilePoints, probabilities: &[f64]) -> Quantiles {
        let n_rows = self.times.len();
        let (mean, std) = (series.mean(), series.std());
        let mut quantiles = vec![vec![0.0; n_rows]; probabilities.len()];
        let mut values = vec![0.0; points.n];
        let mut window = Vec::new();
        // In standard deviations from the mean, at the row before.
        let mut seen = vec![f64::NAN; probabilities.len()];
        for row in 0..n_rows {
            if series.coefficients[1..].iter().all(|values| values[row] == 0.0) {
                quantiles.iter_mut().for_each(|quantile| quantile[row] = mean[row]);
                continue;
            }
            values.fill(0.0);
            for (polynomial, coefficients) in points.polynomials.iter().zip(&series.coefficients) {
                let coefficient = coefficients[row];
                values.iter_mut().zip(polynomial).for_each(|(value, polynomial)| *value += polynomial * coefficient);
            }
            for (at, &probability) in probabilities.iter().enumerate() {
                let expected = mean[row] + seen[at] * std[row];
                let near = expected - WINDOW * std[row]..=expected + WINDOW * std[row];
                let found = quantile_within(&values, probability, near, &mut window)
                    .unwrap_or_else(|| empirical_quantile(&mut values.clone(), probability));
                quantiles[at][row] = found;
                seen[at] = (found - mean[row]) / std[row];
            }
        }
        Quantiles { values: quantiles }
    }

    /// Largest magnitude of a polynomial's coefficient over all rows, relative to the largest standard deviation, by
    /// variable.
    #[must_use]
    pub fn decay(&self, series: &Series) -> Vec<f64> {
        let largest = series.std().into_iter().fold(0.0, f64::max);
        let size = |values: &Vec<f64>| values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        series.coefficients.iter().map(|values| if largest > 0.0 { size(values) / largest } else { 0.0 }).collect()
    }
}

/// A quantile of values, interpolated between the two nearest; the values are reordered.
#[must_use]
pub fn empirical_quantile(values: &mut [f64], probability: f64) -> f64 {
    let n = values.len();
    if n == 0 {
        return f64::NAN;
    }
    let place = (probability * n as f64 - 0.5).clamp(0.0, (n - 1) as f64);
    let below = place.floor() as usize;
    let (_, &mut low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let high = rest.iter().copied().fold(f64::INFINITY, f64::min);
    if high.is_finite() { low + (place - below as f64) * (high - low) } else { low }
}

/// What [`empirical_quantile`] gives, from the values in a range alone; `None` where the two nearest are not both there.
fn quantile_within(values: &[f64], probability: f64, range: RangeInclusive<f64>, window: &mut Vec<f64>) -> Option<f64> {
    window.clear();
    let mut n_below = 0;
    for &value in values {
        n_below += usize::from(value < *range.start());
        if range.contains(&value) {
            window.push(value);
        }
    }
    let last = values.len().checked_sub(1)?;
    let place = (probability * values.len() as f64 - 0.5).clamp(0.0, last as f64);
    let below = place.floor() as usize;
    let (from, to) = (below.checked_sub(n_below)?, (below + 1).min(last) - n_below);
    if to >= window.len() {
        return None;
    }
    let (_, &mut low, rest) = window.select_nth_unstable_by(from, f64::total_cmp);
    let high = rest.iter().copied().fold(f64::INFINITY, f64::min);
    Some(if high.is_finite() { low + (place - below as f64) * (high - low) } else { low })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::RandomParameter;
    use crate::distribution::Distribution;
    use crate::index_set::IndexSet;
    use crate::projection::{RuleFamily, tensor_projection};

    #[test]
    fn moments_indices_and_quantiles_of_a_product() {
        // y = x1 (1 + x2), x1 uniform on [0, 2], x2 standard normal: mean 1, E y^2 = 4/3 * 2, variance 5/3,
        // variance of E(y | x1) = 1/3, of E(y | x2) = 1.
        let parameters = vec![
            RandomParameter { name: "x1".into(), distribution: Distribution::Uniform { min: 0.0, max: 2.0 } },
            RandomParameter { name: "x2".into(), distribution: Distribution::Normal { mean: 0.0, std: 1.0 } },
        ];
        let basis = Basis::new(parameters, IndexSet::total(2, 2)).unwrap();
        let projection = tensor_projection(&basis, &[3, 3], RuleFamily::Gauss).unwrap();
        let value = |point: &Vec<f64>| {
            let p = basis.parameter_values(point);
            p[0] * (1.0 + p[1])
        };
        let coefficients = projection
            .weights
            .iter()
            .map(|weights| vec![weights.iter().zip(&projection.points).map(|(w, p)| w * value(p)).sum()])
            .collect();
        let series = Series { name: "y".into(), coefficients };
        let surrogate = Surrogate { basis: basis.clone(), times: vec![0.0], series: vec![series] };
        let series = &surrogate.series[0];
        assert!((series.mean()[0] - 1.0).abs() < 1e-13 && (series.variance()[0] - 5.0 / 3.0).abs() < 1e-12);
        let sobol = surrogate.sobol(series);
        assert!((sobol[0][0].first - 0.2).abs() < 1e-12 && (sobol[1][0].first - 0.6).abs() < 1e-12);
        assert!((sobol[0][0].total - 0.4).abs() < 1e-12 && (sobol[1][0].total - 0.8).abs() < 1e-12);
        let at = basis.germ_values(&[0.5, 0.7]);
        assert!((surrogate.evaluate(series, &at)[0] - 0.85).abs() < 1e-12);
        // Half of the values are below the median: P(y <= m) by a fine sum over x1.
        let points = surrogate.quantile_points();
        let median = surrogate.quantiles(series, &points, &[0.5]).values[0][0];
        let n = 4000;
        let below: f64 = (0..n)
            .map(|k| {
                let x1 = 2.0 * (f64::from(k) + 0.5) / f64::from(n);
                daesy_random::special_functions::normal_distribution(median / x1 - 1.0) / f64::from(n)
            })
            .sum();
        assert!((below - 0.5).abs() < 2e-3, "{below}");
    }

    #[test]
    fn a_quantile_within_a_range_is_that_of_all_values() {
        let values: Vec<f64> = (0..500).map(|k| (f64::from(k * k) * 0.37).sin() + 1e-3 * f64::from(k)).collect();
        let mut window = Vec::new();
        let mut n_found = 0;
        for probability in [0.0, 0.05, 0.31, 0.5, 0.95, 1.0] {
            let expected = empirical_quantile(&mut values.clone(), probability);
            for off in [-0.3, -0.04, 0.0, 0.04, 0.3] {
                let range = expected + off - 0.1..=expected + off + 0.1;
                if let Some(found) = quantile_within(&values, probability, range, &mut window) {
                    assert_eq!(found, expected, "{probability} {off}");
                    n_found += 1;
                }
            }
            assert_eq!(quantile_within(&values, probability, f64::NAN..=f64::NAN, &mut window), None);
        }
        assert!(n_found >= 12, "{n_found}");
    }

    #[test]
    fn quantiles_of_a_list() {
        let mut values = vec![5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(empirical_quantile(&mut values, 0.5), 3.0);
        assert_eq!(empirical_quantile(&mut values, 0.0), 1.0);
        assert_eq!(empirical_quantile(&mut values, 1.0), 5.0);
        assert_eq!(empirical_quantile(&mut values, 0.4), 2.5);
    }
}
