//! What of an information is more than errors of its derivatives.
//!
//! Slopes of the likelihood of a filter are differences of whole runs. With R a row for every value (its slopes by all
//! unknowns) and R' the same from differences over other widths, an information `I = R^T R` has along a direction v
//!
//! ```text
//! v^T I v = |R v|^2,      with an error of about  v^T N v,   N = (R - R')^T (R - R')
//! ```
//!
//! Along a direction that data do not determine, R v is nothing but error: the remainder of the differences, four times as
//! large over twice the width, or rounding, which is another one. Either way |R v|^2 is no more than |(R - R') v|^2, or
//! little more. Directions are those of the correlation matrix of the information, since data may determine unknowns very
//! differently well.

use daesy_estimate::scores::ScoreSeries;
use daesy_pencil::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

/// What is more than so many times its error is more than that.
const CERTAIN: f64 = 10.0;

/// N, see the module.
pub(super) fn noise(scores: &ScoreSeries, others: &ScoreSeries) -> Mat<f64> {
    let n = scores.n_unknown;
    let mut sum = Mat::zeros(n, n);
    for (own, other) in scores.experiments.iter().zip(&others.experiments) {
        for (own, other) in [(&own.by_error, &other.by_error), (&own.by_square, &other.by_square)] {
            for (own, other) in own.chunks_exact(n).zip(other.chunks_exact(n)) {
                let off: Vec<f64> = own.iter().zip(other).map(|(a, b)| a - b).collect();
                for i in 0..n {
                    for j in 0..n {
                        sum[(i, j)] += off[i] * off[j];
                    }
                }
            }
        }
    }
    sum
}

/// An information in units of its diagonal, with its directions.
struct Directions {
    /// By unknown; zero where nothing is told of it.
    unit: Vec<f64>,
    values: Vec<f64>,
    vectors: Mat<f64>,
    is_told: Vec<bool>,
}

impl Directions {
    fn new(information: &Mat<f64>, noise: &Mat<f64>) -> Option<Self> {
        let n = information.nrows();
        let unit: Vec<f64> =
            (0..n).map(|i| information[(i, i)]).map(|own| if own > 0.0 { 1.0 / own.sqrt() } else { 0.0 }).collect();
        let scaled = |of: &Mat<f64>| Mat::from_fn(n, n, |i, j| 0.5 * (of[(i, j)] + of[(j, i)]) * unit[i] * unit[j]);
        let (correlation, noise) = (scaled(information), scaled(noise));
        let eigen = SelfAdjointEigen::new(correlation.as_ref(), faer::Side::Lower).ok()?;
        let vectors = eigen.U().to_owned();
        let values: Vec<f64> = (0..n).map(|k| eigen.S().column_vector()[k]).collect();
        let along = |k: usize| (vectors.col(k).transpose() * &noise * vectors.col(k)).max(0.0);
        let is_told = (0..n).map(|k| values[k] > CERTAIN * along(k)).collect();
        Some(Self { unit, values, vectors, is_told })
    }
}

/// An information without what may be all error.
pub(super) struct Sure {
    pub(super) information: Mat<f64>,
    /// The number of directions that are told.
    pub(super) n_told: usize,
}

/// The information without what may be all error.
pub(super) fn without_noise(information: &Mat<f64>, noise: &Mat<f64>) -> Sure {
    let n = information.nrows();
    let Some(Directions { unit, values, vectors, is_told }) = Directions::new(information, noise) else {
        return Sure { information: Mat::zeros(n, n), n_told: 0 };
    };
    let told: Vec<usize> = (0..n).filter(|&k| is_told[k]).collect();
    if told.len() == n {
        return Sure { information: information.clone(), n_told: n };
    }
    let kept = Mat::from_fn(n, n, |i, j| match unit[i] * unit[j] {
        0.0 => 0.0,
        units => told.iter().map(|&k| vectors[(i, k)] * values[k] * vectors[(j, k)]).sum::<f64>() / units,
    });
    Sure { information: kept, n_told: told.len() }
}

/// An orthonormal basis of what is told of the unknowns in units of their `sizes`, orthogonal to all directions that are
/// not; `None` where all of it is told.
pub(super) fn told(information: &Mat<f64>, noise: &Mat<f64>, sizes: &[f64]) -> Option<Mat<f64>> {
    let n = sizes.len();
    let Directions { unit, vectors, is_told, .. } = Directions::new(information, noise)?;
    let alone = |i: usize| (0..n).map(|j| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    let mut flat: Vec<Vec<f64>> = (0..n).filter(|&i| unit[i] == 0.0).map(alone).collect();
    let directions = (0..n).filter(|&k| !is_told[k]);
    flat.extend(directions.map(|k| (0..n).map(|i| vectors[(i, k)] * unit[i] / sizes[i]).collect::<Vec<f64>>()));
    let mut left = Mat::<f64>::identity(n, n);
    let mut n_flat = 0;
    for direction in flat {
        let own = Mat::from_fn(n, 1, |i, _| direction[i]);
        let rest = &left * &own;
        let (length, whole) = (rest.norm_l2(), own.norm_l2());
        if length > 1e-9 * whole {
            let rest = rest * faer::Scale(1.0 / length);
            left -= &rest * rest.transpose();
            n_flat += 1;
        }
    }
    if n_flat == 0 {
        return None;
    }
    let eigen = SelfAdjointEigen::new(left.as_ref(), faer::Side::Lower).ok()?;
    Some(eigen.U().subcols(n_flat, n - n_flat).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slopes by three unknowns of which the first two show as a sum, with errors that depend on the width.
    fn scores(width: f64) -> ScoreSeries {
        let mut series = ScoreSeries { n_unknown: 3, experiments: vec![Default::default()] };
        for k in 0..50 {
            let t = f64::from(k) * 0.1;
            let error = width * width * t.cos();
            series.experiments[0].by_error.extend([t.sin() + error, t.sin() - 2.0 * error, 1e-3 * t.exp()]);
        }
        series
    }

    fn information(of: &ScoreSeries) -> Mat<f64> {
        let rows: Vec<&[f64]> = of.experiments[0].by_error.chunks_exact(3).collect();
        Mat::from_fn(3, 3, |i, j| rows.iter().map(|row| row[i] * row[j]).sum())
    }

    #[test]
    fn errors_of_differences_are_no_information() {
        let (fine, wide) = (scores(1e-2), scores(2e-2));
        let (raw, noise) = (information(&fine), noise(&fine, &wide));
        let Sure { information: kept, n_told } = without_noise(&raw, &noise);
        assert_eq!(n_told, 2);
        let along = |of: &Mat<f64>, v: [f64; 3]| -> f64 {
            (0..3).map(|i| (0..3).map(|j| v[i] * of[(i, j)] * v[j]).sum::<f64>()).sum()
        };
        // A direction beside the difference of the first two, which the errors alone seem to tell, is gone.
        let least = |of: &Mat<f64>| {
            let unit = |i: usize| of[(i, i)].sqrt();
            let correlation = Mat::from_fn(3, 3, |i, j| of[(i, j)] / (unit(i) * unit(j)));
            SelfAdjointEigen::new(correlation.as_ref(), faer::Side::Lower).unwrap().S().column_vector()[0]
        };
        assert!(least(&raw) > 1e-8 && least(&kept).abs() < 1e-14, "{} {}", least(&raw), least(&kept));
        assert!(along(&kept, [1.0, -1.0, 0.0]) < 0.2 * along(&raw, [1.0, -1.0, 0.0]));
        for direction in [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]] {
            let (before, after) = (along(&raw, direction), along(&kept, direction));
            assert!((after / before - 1.0).abs() < 1e-3, "{direction:?}: {before} {after}");
        }
        // In units of 1, 2 and 3 the flat direction is (1, -1/2, 0).
        let told = told(&raw, &noise, &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((told.nrows(), told.ncols()), (3, 2));
        let inside = |v: [f64; 3]| (told.transpose() * Mat::from_fn(3, 1, |i, _| v[i])).norm_l2();
        assert!(inside([1.0, -0.5, 0.0]) < 1e-3 && (inside([0.0, 0.0, 1.0]) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn an_information_without_errors_is_left_as_it_is() {
        let exact = scores(0.1);
        let raw = information(&exact);
        let none = noise(&exact, &exact);
        let Sure { information, n_told } = without_noise(&raw, &none);
        assert_eq!((information, n_told), (raw.clone(), 3));
        assert_eq!(told(&raw, &none, &[1.0; 3]), None);
    }
}
