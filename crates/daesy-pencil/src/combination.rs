//! Linear combinations of variables in a form that people can read: reduced rows with a leading one.

use crate::dense::{Vectors, block, norm, svd};
use crate::error::PencilError;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide};
use faer::Mat;
use std::fmt::Write as _;

/// A linear combination of variables.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearCombination {
    /// One coefficient per variable; the leading one is 1.
    pub coefficients: Vec<f64>,
}

impl LinearCombination {
    /// Text such as `x1 + 2*x2`; `names` holds one name per variable.
    pub fn describe<S: AsRef<str>>(&self, names: &[S]) -> String {
        let mut out = String::new();
        for (c, name) in self.coefficients.iter().zip(names) {
            if *c == 0.0 {
                continue;
            }
            match (out.is_empty(), *c < 0.0) {
                (true, true) => out.push('-'),
                (true, false) => {}
                (false, true) => out.push_str(" - "),
                (false, false) => out.push_str(" + "),
            }
            if c.abs() != 1.0 {
                // Writing to a string cannot fail.
                let _ = write!(out, "{}*", c.abs());
            }
            out.push_str(name.as_ref());
        }
        if out.is_empty() { "0".into() } else { out }
    }

    /// Value of the combination.
    pub fn value(&self, z: &[f64]) -> f64 {
        self.coefficients.iter().zip(z).map(|(c, x)| c * x).sum()
    }
}

/// Row operations that bring a matrix of full row rank to reduced form, and the result: `multiplier a = reduced`.
pub(crate) struct ReducedRows {
    pub reduced: Mat<f64>,
    pub multiplier: Mat<f64>,
}

/// Gauss-Jordan elimination with the leftmost acceptable pivots; entries that are zero up to rounding become exactly
/// zero.
///
/// `scales` are the units of the columns: column `j` is judged after multiplication by `scales[j]`.
pub(crate) fn reduce_rows(a: &Mat<f64>, scales: &[f64]) -> ReducedRows {
    let (m, n) = a.shape();
    // Columns in comparable units, rows of unit length: thresholds then have a meaning.
    let mut x = Mat::from_fn(m, n, |i, j| a[(i, j)] * scales[j]);
    let mut multiplier = Mat::<f64>::identity(m, m);
    for i in 0..m {
        let length = (0..n).map(|j| x[(i, j)].powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            scale_row(&mut x, i, 1.0 / length);
            scale_row(&mut multiplier, i, 1.0 / length);
        }
    }
    let mut pivots: Vec<usize> = Vec::new();
    for threshold in [1e-2, 1e-5, 1e-9] {
        for col in 0..n {
            if pivots.contains(&col) || pivots.len() == m {
                continue;
            }
            let rank = pivots.len();
            let best = (rank..m).max_by(|&p, &q| x[(p, col)].abs().total_cmp(&x[(q, col)].abs()));
            let Some(best) = best.filter(|&p| x[(p, col)].abs() > threshold) else {
                continue;
            };
            swap_rows(&mut x, rank, best);
            swap_rows(&mut multiplier, rank, best);
            let pivot = x[(rank, col)];
            scale_row(&mut x, rank, 1.0 / pivot);
            scale_row(&mut multiplier, rank, 1.0 / pivot);
            for i in 0..m {
                let factor = x[(i, col)];
                if i != rank && factor != 0.0 {
                    subtract_row(&mut x, i, rank, factor);
                    subtract_row(&mut multiplier, i, rank, factor);
                    x[(i, col)] = 0.0;
                }
            }
            pivots.push(col);
        }
    }
    // Rows in the order of their leading variables.
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by_key(|&i| pivots.get(i).copied().unwrap_or(n));
    let mut reduced = Mat::zeros(m, n);
    let mut sorted = Mat::zeros(m, m);
    for (to, &from) in order.iter().enumerate() {
        let largest = (0..n).fold(0.0f64, |s, j| s.max(x[(from, j)].abs()));
        let lead = (0..n).find(|&j| x[(from, j)].abs() > 1e-9 * largest);
        let unit = lead.map_or(1.0, |j| scales[j] / x[(from, j)]);
        for j in 0..n {
            if x[(from, j)].abs() > 1e-11 * largest {
                reduced[(to, j)] = tidy(x[(from, j)] / scales[j] * unit);
            }
        }
        for j in 0..m {
            sorted[(to, j)] = multiplier[(from, j)] * unit;
        }
    }
    ReducedRows { reduced, multiplier: sorted }
}

/// Rounds to the nearest integer when only rounding errors separate them.
fn tidy(x: f64) -> f64 {
    let nearest = x.round();
    if nearest != 0.0 && (x - nearest).abs() <= 1e-12 * nearest.abs() { nearest } else { x }
}

fn scale_row(a: &mut Mat<f64>, i: usize, factor: f64) {
    for j in 0..a.ncols() {
        a[(i, j)] *= factor;
    }
}

fn swap_rows(a: &mut Mat<f64>, p: usize, q: usize) {
    for j in 0..a.ncols() {
        let t = a[(p, j)];
        a[(p, j)] = a[(q, j)];
        a[(q, j)] = t;
    }
}

fn subtract_row(a: &mut Mat<f64>, i: usize, from: usize, factor: f64) {
    for j in 0..a.ncols() {
        let v = a[(from, j)];
        a[(i, j)] -= factor * v;
    }
}

/// The rows of a matrix as combinations.
pub(crate) fn combinations_of(rows: &Mat<f64>, scales: &[f64]) -> Vec<LinearCombination> {
    let reduced = reduce_rows(rows, scales).reduced;
    (0..reduced.nrows())
        .map(|i| LinearCombination { coefficients: (0..reduced.ncols()).map(|j| reduced[(i, j)]).collect() })
        .collect()
}

/// Combinations that vanish on every column of `directions`, with the decision about their number.
pub(crate) struct Annihilator {
    pub combinations: Vec<LinearCombination>,
    pub decision: RankDecision,
}

/// All combinations `c` with `c directions = 0`; `scales` are the units of the variables.
pub(crate) fn annihilator(
    directions: &Mat<f64>,
    scales: &[f64],
    tolerance: &RankTolerance,
) -> Result<Annihilator, PencilError> {
    let (n, k) = directions.shape();
    let mut scaled = Mat::from_fn(n, k, |i, j| directions[(i, j)] / scales[i]);
    for j in 0..k {
        let length = (0..n).map(|i| scaled[(i, j)].powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            for i in 0..n {
                scaled[(i, j)] /= length;
            }
        }
    }
    let dec = svd(scaled.as_ref(), Vectors::Left)?;
    let reference = norm(scaled.as_ref());
    let tolerance = RankTolerance { relative: tolerance.relative.max(1e-9), ..*tolerance };
    let decision = decide(&dec.s, n, k, reference, &tolerance, RankQuestion::ReachableJumps);
    let left = block(&dec.u, 0, n, decision.rank, n);
    let rows = Mat::from_fn(left.ncols(), n, |i, j| left[(j, i)] / scales[j]);
    Ok(Annihilator { combinations: combinations_of(&rows, scales), decision })
}
