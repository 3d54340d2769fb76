//! Ranks by QR with column pivoting: a third of the work of singular values, for the decisions that are clear.
#![allow(non_snake_case)]
//!
//! ```text
//! A Pi = Q [ R_11  R_12 ]  r        sigma_min(R_11) <= sigma_r(A),     sigma_(r+1)(A) <= |R_22|
//!          [  0    R_22 ]
//! ```
//!
//! so that a small `|R_22|` beside a large `sigma_min(R_11)` proves the rank without any singular value of `A`.
//! `sigma_min(R_11)` comes from a few steps of inverse iteration with the triangle. What is not clear is left to the
//! singular values: pivoting alone can hide a small one. [@golub2013, sec. 5.4]

use crate::dense::norm;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, describe};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::householder as reflectors;
use faer::linalg::solvers::ColPivQr;
use faer::{Conj, Mat, MatMut, MatRef, Par};

/// A factorization whose rank is beyond doubt.
pub(crate) struct PivotedQr {
    factors: ColPivQr<f64>,
    /// Column of `A` in place `k` of `A Pi`.
    pub order: Vec<usize>,
    pub decision: RankDecision,
}

/// What makes a decision clear: kept singular values above `kept`, dropped ones below `dropped`, relative to the
/// reference.
#[derive(Clone, Copy)]
pub(crate) struct Clear {
    pub kept: f64,
    pub dropped: f64,
}

impl Clear {
    /// A block whose smallest kept singular value is below this makes later rounds depend on how well the null space is
    /// known; singular vectors know it best.
    const WELL_CONDITIONED: f64 = 1e-6;

    /// Well beyond the window within which singular values would look for the widest gap, on both sides.
    pub fn of(tolerance: &RankTolerance) -> Self {
        let window = tolerance.window.max(10.0);
        let kept = (10.0 * tolerance.relative * window).max(Self::WELL_CONDITIONED);
        Self { kept, dropped: tolerance.relative / window }
    }
}

impl PivotedQr {
    /// Factors `a`; `None` if its rank is not clear.
    pub fn of(
        a: MatRef<'_, f64>,
        reference: f64,
        clear: Clear,
        tolerance: &RankTolerance,
        question: RankQuestion,
    ) -> Option<Self> {
        let (m, n) = a.shape();
        let size = norm(a);
        if m.min(n) == 0 || size == 0.0 || !size.is_finite() || reference <= 0.0 {
            return None;
        }
        let factors = a.col_piv_qr();
        let R = factors.thin_R();
        let k = m.min(n);
        let rank = (0..k).take_while(|&i| R[(i, i)].abs() > clear.kept * reference).count();
        if rank == 0 {
            return None;
        }
        let rest: f64 = (rank..n).map(|j| (rank..(j + 1).min(k)).map(|i| R[(i, j)].powi(2)).sum::<f64>()).sum();
        let dropped = rest.sqrt();
        let kept = smallest_singular_value(R.submatrix(0, 0, rank, rank));
        let is_clear = kept > clear.kept * reference && dropped <= clear.dropped * reference;
        if !is_clear {
            return None;
        }
        let mut values = vec![kept; rank];
        if rank < k {
            values.push(dropped);
        }
        let decision = describe(&values, rank, m, n, reference, tolerance, question);
        let order = factors.P().arrays().0.to_vec();
        Some(Self { factors, order, decision })
    }

    /// Entry of `R`.
    pub fn r(&self, i: usize, j: usize) -> f64 {
        self.factors.thin_R()[(i, j)]
    }

    /// `Q`, square.
    pub fn q(&self) -> Mat<f64> {
        self.factors.compute_Q()
    }

    /// `a <- Q^T a`.
    pub fn rotate_rows(&self, a: MatMut<'_, f64>) {
        let (basis, coefficients) = (self.factors.Q_basis(), self.factors.Q_coeff());
        if a.ncols() == 0 {
            return;
        }
        let request = reflectors::apply_block_householder_sequence_transpose_on_the_left_in_place_scratch::<f64>(
            basis.nrows(),
            coefficients.nrows(),
            a.ncols(),
        );
        reflectors::apply_block_householder_sequence_transpose_on_the_left_in_place_with_conj(
            basis,
            coefficients,
            Conj::No,
            a,
            Par::Seq,
            MemStack::new(&mut MemBuffer::new(request)),
        );
    }

    /// `a <- a Q`.
    pub fn rotate_columns(&self, a: MatMut<'_, f64>) {
        self.rotate_rows(a.transpose_mut());
    }
}

/// Smallest singular value of an upper triangular matrix by inverse iteration; an upper bound, close after a few steps.
fn smallest_singular_value(R: MatRef<'_, f64>) -> f64 {
    let n = R.nrows();
    // Any start that is not orthogonal to the wanted vector will do; this one has no pattern.
    let mut x = Mat::from_fn(n, 1, |i, _| 0.5 + (0.618_033_988_749_895 * (i + 1) as f64).fract());
    let mut estimate = f64::INFINITY;
    for _ in 0..4 {
        let length = norm(x.as_ref());
        x.as_mut().col_mut(0).iter_mut().for_each(|v| *v /= length);
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(R.transpose(), x.as_mut(), Par::Seq);
        let length = norm(x.as_ref());
        estimate = estimate.min(1.0 / length);
        x.as_mut().col_mut(0).iter_mut().for_each(|v| *v /= length);
        faer::linalg::triangular_solve::solve_upper_triangular_in_place(R, x.as_mut(), Par::Seq);
        estimate = estimate.min(1.0 / norm(x.as_ref()));
        if !estimate.is_finite() || estimate == 0.0 {
            return 0.0;
        }
    }
    estimate
}
