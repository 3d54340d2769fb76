//! Orthogonal staircase reduction of a pencil of any shape.
#![allow(non_snake_case)]
//!
//! Letters: `U`, `Z` orthogonal, `TE = U^T E Z`, `TF = U^T F Z`.
//!
//! Row phase, on the leading block that is still active: a left null space of `E` gives `s` equations without
//! derivatives, whose rows of `F` have rank `t`; `s - t` of them are redundant, and `t` variables are determined and
//! leave the block together with the `s` equations. It ends when `E` has full row rank:
//!
//! ```text
//! U^T (s E - F) Z = [ s E_r - F_r     *      ]   E_r of full row rank
//!                   [     0       s E_i - F_i ]   E_i strictly block upper triangular, F_i block upper triangular
//! ```
//!
//! The counts of round `k` (from 1) tell the structure: `s_k - t_k` left blocks of minimal index `k - 1`,
//! `t_k - s_(k+1)` infinite blocks of size `k`. For a regular pencil `s_k = t_k`, `F_i` is upper triangular, and `E_r`
//! is square.
//!
//! Ranks that are beyond doubt are decided by a pivoted QR factorization, the others by singular values.
//!
//! Column phase, only if `E_r` has more columns than rows: the transposed step on `E_r`; in round `k`, `c_k - t_k`
//! right blocks of minimal index `k - 1`. What remains is square with `E_f` nonsingular: the finite part.
//! [@vandooren1979], [@barton2002, sec. 4.1]

use crate::dense::{
    LARGE, Vectors, block, clear_block, is_diagonal, norm, permute_columns, permute_rows, pick_columns, rotate_columns,
    rotate_rows, svd,
};
use crate::error::PencilError;
use crate::pivoted::{Clear, PivotedQr};
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide, describe};
use faer::Mat;

/// Noise in the leading block of `E`, relative to its norm. Eliminating variables by algebraic rows of size `p`
/// magnifies the noise seen so far by up to `1 / p`; singular values below that are not told apart from zero.
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

    /// Lowers the gap of a decision whose last kept singular value is within reach of the noise and stands apart from
    /// the others that count.
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
    /// Whether the finite part of `TE` is upper triangular already.
    pub is_triangular: bool,
}

/// The reduction under way: the leading `rows x cols` block is still active.
struct Reduction<'a> {
    U: Mat<f64>,
    Z: Mat<f64>,
    TE: Mat<f64>,
    TF: Mat<f64>,
    rows: usize,
    cols: usize,
    rounds: Vec<Round>,
    decisions: Vec<RankDecision>,
    noise: Noise,
    scale_e: f64,
    scale_f: f64,
    tolerance: &'a RankTolerance,
    is_triangular: bool,
}

/// Rank of the active block of `E`, relative sizes next to the cut included.
struct Differential {
    rank: usize,
    smallest: f64,
}

impl Reduction<'_> {
    fn question(&self) -> RankQuestion {
        RankQuestion::DifferentialRows { level: self.rounds.len() }
    }

    /// Moves the equations without derivatives to the end of the active block.
    fn compress_derivatives(&mut self) -> Result<Differential, PencilError> {
        let (rows, cols, n) = (self.rows, self.cols, self.TE.ncols());
        let relative = self.tolerance.relative.max(self.noise.expected);
        let tolerance = RankTolerance { relative, ..*self.tolerance };
        let mut clear = Clear::of(&tolerance);
        clear.kept = clear.kept.max(self.noise.worst);
        let active = self.TE.as_ref().submatrix(0, 0, rows, cols);
        if rows == cols && rows >= LARGE && is_diagonal(active) {
            // Singular values can be read off, and the triangle is there already.
            let smallest = (0..rows).fold(f64::INFINITY, |least, i| least.min(active[(i, i)].abs()));
            if smallest > clear.kept * self.scale_e {
                let values = vec![smallest; rows];
                let decision = describe(&values, rows, rows, cols, self.scale_e, &tolerance, self.question());
                self.is_triangular = true;
                self.decisions.push(decision);
                return Ok(Differential { rank: rows, smallest: decision.smallest_kept });
            }
        }
        if let Some(qr) = PivotedQr::of(active, self.scale_e, clear, &tolerance, self.question()) {
            let rank = qr.decision.rank;
            let is_last = rank == rows;
            if !is_last || rows == cols {
                qr.rotate_rows(self.TE.as_mut().submatrix_mut(0, cols, rows, n - cols));
                qr.rotate_rows(self.TF.as_mut().submatrix_mut(0, 0, rows, n));
                if self.rounds.is_empty() {
                    self.U = qr.q();
                } else {
                    let m = self.U.nrows();
                    qr.rotate_columns(self.U.as_mut().submatrix_mut(0, 0, m, rows));
                }
                // The last triangle stays one, with its columns in the order of the pivots.
                clear_block(&mut self.TE, 0, rows, 0, cols);
                for k in 0..cols {
                    let col = if is_last { k } else { qr.order[k] };
                    for i in 0..(k + 1).min(rank) {
                        self.TE[(i, col)] = qr.r(i, k);
                    }
                }
                if is_last {
                    permute_columns(&mut self.TF, 0, &qr.order);
                    permute_columns(&mut self.Z, 0, &qr.order);
                    // Rows below the active block have no entries in these columns.
                    self.is_triangular = true;
                }
            }
            self.noise.observe(qr.decision.largest_dropped);
            self.decisions.push(qr.decision);
            return Ok(Differential { rank, smallest: qr.decision.smallest_kept });
        }
        let dec = svd(active, Vectors::Left)?;
        let mut decision = decide(&dec.s, rows, cols, self.scale_e, &tolerance, self.question());
        self.noise.judge(&mut decision, &dec.s, self.tolerance);
        self.decisions.push(decision);
        self.noise.observe(decision.largest_dropped);
        let rank = decision.rank;
        if rank < rows {
            rotate_rows(&mut self.TE, 0, &dec.u);
            rotate_rows(&mut self.TF, 0, &dec.u);
            if self.rounds.is_empty() {
                self.U = dec.u;
            } else {
                rotate_columns(&mut self.U, 0, &dec.u);
            }
            clear_block(&mut self.TE, rank, rows, 0, cols);
        }
        Ok(Differential { rank, smallest: decision.smallest_kept })
    }

    /// Solves the equations without derivatives, the last `rows - r` of the active block, for as many variables as they
    /// determine, and shrinks the active block.
    fn deflate(&mut self, r: usize, smallest_differential: f64) -> Result<(), PencilError> {
        let (rows, cols) = (self.rows, self.cols);
        let s = rows - r;
        let question = RankQuestion::AlgebraicRows { level: self.rounds.len() };
        let algebraic = self.TF.as_ref().submatrix(r, 0, s, cols);
        let pivoted = if s <= cols {
            let clear = Clear::of(self.tolerance);
            PivotedQr::of(algebraic.transpose(), self.scale_f, clear, self.tolerance, question)
        } else {
            None
        };
        let t = match pivoted {
            Some(qr) if qr.decision.rank == s => {
                // A^T Pi = Q R, so that Pi^T A Q = R^T; both orders reversed make it upper triangular with the largest
                // pivot last.
                let decision = RankDecision { rows: s, cols, ..qr.decision };
                self.decisions.push(decision);
                self.noise.magnify(smallest_differential, decision.smallest_kept);
                let row_order: Vec<usize> = qr.order.iter().rev().copied().collect();
                permute_rows(&mut self.TE, r, &row_order);
                permute_rows(&mut self.TF, r, &row_order);
                permute_columns(&mut self.U, r, &row_order);
                let col_order: Vec<usize> = (s..cols).chain((0..s).rev()).collect();
                let n = self.Z.nrows();
                if self.rounds.is_empty() {
                    self.Z = qr.q();
                } else {
                    qr.rotate_columns(self.Z.as_mut().submatrix_mut(0, 0, n, cols));
                }
                permute_columns(&mut self.Z, 0, &col_order);
                for a in [&mut self.TE, &mut self.TF] {
                    qr.rotate_columns(a.as_mut().submatrix_mut(0, 0, r, cols));
                    permute_columns(a, 0, &col_order);
                    clear_block(a, r, rows, 0, cols);
                }
                for k in 0..s {
                    for j in 0..=k {
                        self.TF[(rows - 1 - k, cols - 1 - j)] = qr.r(j, k);
                    }
                }
                s
            }
            _ => {
                let dec = svd(algebraic, Vectors::Both)?;
                let decision = decide(&dec.s, s, cols, self.scale_f, self.tolerance, question);
                self.decisions.push(decision);
                let t = decision.rank;
                if t > 0 {
                    self.noise.magnify(smallest_differential, decision.smallest_kept);
                }
                // Independent rows and their variables go last, so that F_i is upper triangular with the singular
                // values on its diagonal; the largest comes last.
                let order = |size: usize| -> Vec<usize> { (t..size).chain((0..t).rev()).collect() };
                let left = pick_columns(&dec.u, &order(s));
                let right = pick_columns(&dec.v, &order(cols));
                rotate_rows(&mut self.TE, r, &left);
                rotate_rows(&mut self.TF, r, &left);
                rotate_columns(&mut self.U, r, &left);
                rotate_columns(&mut self.TE, 0, &right);
                rotate_columns(&mut self.TF, 0, &right);
                if self.rounds.is_empty() {
                    self.Z = right;
                } else {
                    rotate_columns(&mut self.Z, 0, &right);
                }
                clear_block(&mut self.TE, r, rows, 0, cols);
                clear_block(&mut self.TF, r, rows, 0, cols);
                for k in 0..t {
                    self.TF[(r + s - t + k, cols - t + k)] = dec.s[t - 1 - k];
                }
                t
            }
        };
        self.rounds.push(Round { nulls: s, independent: t });
        self.rows = r;
        self.cols -= t;
        Ok(())
    }
}

/// Reduces `(E, F)`; see the module's text.
pub(crate) fn reduce(E: &Mat<f64>, F: &Mat<f64>, tolerance: &RankTolerance) -> Result<Staircase, PencilError> {
    let (m, n) = E.shape();
    let mut reduction = Reduction {
        U: Mat::identity(m, m),
        Z: Mat::identity(n, n),
        TE: E.clone(),
        TF: F.clone(),
        rows: m,
        cols: n,
        rounds: Vec::new(),
        decisions: Vec::new(),
        noise: Noise { seen: 8.0 * f64::EPSILON, expected: 0.0, worst: 0.0 },
        scale_e: norm(E.as_ref()),
        scale_f: norm(F.as_ref()),
        tolerance,
        is_triangular: false,
    };
    loop {
        let differential = reduction.compress_derivatives()?;
        if differential.rank == reduction.rows {
            break;
        }
        reduction.deflate(differential.rank, differential.smallest)?;
    }
    let Reduction { mut U, mut Z, mut TE, mut TF, rows, cols, rounds: row_rounds, mut decisions, .. } = reduction;
    let (scale_e, scale_f, is_triangular) = (reduction.scale_e, reduction.scale_f, reduction.is_triangular);
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
        is_triangular,
    })
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
