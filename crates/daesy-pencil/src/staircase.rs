//! Orthogonal staircase reduction of a pencil of any shape.
#![allow(non_snake_case)]
//!
//! Letters: `U`, `Z` orthogonal, `TE = U^T E Z`, `TF = U^T F Z`.
//!
//! Row phase, on the leading block that is still active: a left null space of `E` gives `s` equations without derivatives,
//! whose rows of `F` have rank `t`; `s - t` of them are redundant, and `t` variables are determined and leave the block
//! together with the `s` equations. It ends when `E` has full row rank:
//!
//! ```text
//! U^T (s E - F) Z = [ s E_r - F_r     *      ]   E_r of full row rank
//!                   [     0       s E_i - F_i ]   E_i strictly block upper triangular, F_i block upper triangular
//! ```
//!
//! The counts of round `k` (from 1) tell the structure: `s_k - t_k` left blocks of minimal index `k - 1`, `t_k - s_(k+1)`
//! infinite blocks of size `k`. For a regular pencil `s_k = t_k`, `F_i` is upper triangular, and `E_r` is square.
//!
//! Column phase, only if `E_r` has more columns than rows: the transposed step on `E_r`; in round `k`, `c_k - t_k` right blocks
//! of minimal index `k - 1`. What remains is square with `E_f` nonsingular: the finite part.   [@vandooren1979], [@barton2002, sec. 4.1]

use crate::dense::{Vectors, block, clear_block, norm, pick_columns, rotate_columns, rotate_rows, svd};
use crate::error::PencilError;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide};
use faer::Mat;

/// Noise in the leading block of `E`, relative to its norm. Eliminating variables by algebraic rows of size `p` magnifies the
/// noise seen so far by up to `1 / p`; singular values below that are not told apart from zero.
struct Noise {
    seen: f64,
    expected: f64,
    /// What the noise may have become at worst: a kept singular value below it makes its decision doubtful.
    worst: f64,
}

impl Noise {
    /// Beyond this no singular value is called noise on expectation alone.
    const CEILING: f64 = 1e-8;

    fn observe(&mut self, largest_dropped: f64) {
        self.seen = self.seen.max(largest_dropped);
    }

    fn magnify(&mut self, smallest_differential: f64, weakest_pivot: f64) {
        self.expected = self.expected.max((self.seen / weakest_pivot).min(Self::CEILING));
        self.worst = self.worst.max(self.seen / (weakest_pivot * smallest_differential));
    }

    /// Lowers the gap of a decision whose last kept singular value is within reach of the noise and stands apart from the
    /// others that count.
    fn judge(&self, decision: &mut RankDecision, singular_values: &[f64], tolerance: &RankTolerance) {
        let Some(last) = decision.rank.checked_sub(1) else { return };
        let before =
            if last == 0 { 1.0 } else { singular_values[last - 1] / singular_values[last] * decision.smallest_kept };
        let is_apart = before > 1e3 * decision.smallest_kept;
        if is_apart && decision.smallest_kept < self.worst {
            decision.gap = decision.gap.min(decision.smallest_kept / self.worst);
            decision.is_doubtful = decision.gap < tolerance.doubtful_gap;
        }
    }
}

/// One round of a staircase: how many lines had no derivative, and how many of them were independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round {
    pub nulls: usize,
    pub independent: usize,
}

/// Result of the reduction; the finite part sits in rows `finite_rows.0..finite_rows.1` and the columns likewise.
pub(crate) struct Staircase {
    pub U: Mat<f64>,
    pub Z: Mat<f64>,
    pub TE: Mat<f64>,
    pub TF: Mat<f64>,
    pub row_rounds: Vec<Round>,
    pub column_rounds: Vec<Round>,
    pub finite_rows: (usize, usize),
    pub finite_cols: (usize, usize),
    pub rank_decisions: Vec<RankDecision>,
}

/// Reduces `(E, F)`; see the module's text.
pub(crate) fn reduce(E: &Mat<f64>, F: &Mat<f64>, tolerance: &RankTolerance) -> Result<Staircase, PencilError> {
    let (m, n) = E.shape();
    let mut TE = E.clone();
    let mut TF = F.clone();
    let mut U = Mat::<f64>::identity(m, m);
    let mut Z = Mat::<f64>::identity(n, n);
    let mut decisions = Vec::new();
    let (scale_e, scale_f) = (spectral_scale(E), spectral_scale(F));
    let mut row_rounds = Vec::new();
    let mut noise = Noise { seen: 8.0 * f64::EPSILON, expected: 0.0, worst: 0.0 };
    let (mut rows, mut cols) = (m, n);
    loop {
        let active = block(&TE, 0, rows, 0, cols);
        let dec = svd(active.as_ref(), Vectors::Left)?;
        let question = RankQuestion::DifferentialRows { level: row_rounds.len() };
        let relative = tolerance.relative.max(noise.expected);
        let mut decision = decide(&dec.s, rows, cols, scale_e, &RankTolerance { relative, ..*tolerance }, question);
        noise.judge(&mut decision, &dec.s, tolerance);
        decisions.push(decision);
        let smallest_differential = decision.smallest_kept;
        let r = decision.rank;
        let s = rows - r;
        noise.observe(decision.largest_dropped);
        if s == 0 {
            break;
        }
        rotate_rows(&mut TE, 0, &dec.u);
        rotate_rows(&mut TF, 0, &dec.u);
        if row_rounds.is_empty() {
            U = dec.u;
        } else {
            rotate_columns(&mut U, 0, &dec.u);
        }
        clear_block(&mut TE, r, rows, 0, cols);
        let algebraic = block(&TF, r, rows, 0, cols);
        let dec = svd(algebraic.as_ref(), Vectors::Both)?;
        let question = RankQuestion::AlgebraicRows { level: row_rounds.len() };
        let decision = decide(&dec.s, s, cols, scale_f, tolerance, question);
        decisions.push(decision);
        let t = decision.rank;
        if t > 0 {
            noise.magnify(smallest_differential, decision.smallest_kept);
        }
        // Independent rows and their variables go last, so that F_i is upper triangular with the singular values on its
        // diagonal; the largest comes last.
        let order = |size: usize| -> Vec<usize> { (t..size).chain((0..t).rev()).collect() };
        let left = pick_columns(&dec.u, &order(s));
        let right = pick_columns(&dec.v, &order(cols));
        rotate_rows(&mut TE, r, &left);
        rotate_rows(&mut TF, r, &left);
        rotate_columns(&mut U, r, &left);
        rotate_columns(&mut TE, 0, &right);
        rotate_columns(&mut TF, 0, &right);
        if row_rounds.is_empty() {
            Z = right;
        } else {
            rotate_columns(&mut Z, 0, &right);
        }
        clear_block(&mut TE, r, rows, 0, cols);
        clear_block(&mut TF, r, rows, 0, cols);
        for k in 0..t {
            TF[(r + s - t + k, cols - t + k)] = dec.s[t - 1 - k];
        }
        row_rounds.push(Round { nulls: s, independent: t });
        rows = r;
        cols -= t;
    }
    let mut column_rounds = Vec::new();
    let (mut row0, mut col0) = (0, 0);
    while cols - col0 > rows - row0 {
        let active = block(&TE, row0, rows, col0, cols);
        let dec = svd(active.as_ref(), Vectors::Right)?;
        let question = RankQuestion::DifferentialColumns { level: column_rounds.len() };
        let (h, w) = active.shape();
        let mut decision = decide(&dec.s, h, w, scale_e, tolerance, question);
        // Full row rank was decided before; deflating rows keeps it.
        decision.rank = h;
        decisions.push(decision);
        let c = w - h;
        let order: Vec<usize> = (h..w).chain(0..h).collect();
        let right = pick_columns(&dec.v, &order);
        rotate_columns(&mut TE, col0, &right);
        rotate_columns(&mut TF, col0, &right);
        rotate_columns(&mut Z, col0, &right);
        clear_block(&mut TE, row0, rows, col0, col0 + c);
        let free = block(&TF, row0, rows, col0, col0 + c);
        let dec = svd(free.as_ref(), Vectors::Left)?;
        let question = RankQuestion::AlgebraicColumns { level: column_rounds.len() };
        let decision = decide(&dec.s, h, c, scale_f, tolerance, question);
        decisions.push(decision);
        let t = decision.rank;
        rotate_rows(&mut TE, row0, &dec.u);
        rotate_rows(&mut TF, row0, &dec.u);
        rotate_columns(&mut U, row0, &dec.u);
        clear_block(&mut TE, row0, rows, col0, col0 + c);
        clear_block(&mut TF, row0 + t, rows, col0, col0 + c);
        column_rounds.push(Round { nulls: c, independent: t });
        row0 += t;
        col0 += c;
    }
    Ok(Staircase {
        U,
        Z,
        TE,
        TF,
        row_rounds,
        column_rounds,
        finite_rows: (row0, rows),
        finite_cols: (col0, cols),
        rank_decisions: decisions,
    })
}

/// Reference size of a balanced matrix: its Frobenius norm over the square root of the smaller dimension would be the mean
/// singular value; the plain Frobenius norm is a safe stand-in for the largest one.
fn spectral_scale(a: &Mat<f64>) -> f64 {
    norm(a.as_ref())
}

/// Multiplicities from counts per round: blocks of index `k - 1` from `nulls - independent`.
pub(crate) fn minimal_indices(rounds: &[Round]) -> Vec<usize> {
    let mut out = Vec::new();
    for (k, round) in rounds.iter().enumerate() {
        out.extend(std::iter::repeat_n(k, round.nulls - round.independent));
    }
    out
}

/// Sizes of the infinite blocks, ascending, from the rounds of the row phase.
pub(crate) fn infinite_blocks(rounds: &[Round]) -> Vec<usize> {
    let mut out = Vec::new();
    for (k, round) in rounds.iter().enumerate() {
        let next = rounds.get(k + 1).map_or(0, |r| r.nulls);
        out.extend(std::iter::repeat_n(k + 1, round.independent.saturating_sub(next)));
    }
    out
}
