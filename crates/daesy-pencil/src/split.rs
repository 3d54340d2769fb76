//! Split of a regular pencil into its finite and infinite part, decoupled to the canonical form.
#![allow(non_snake_case)]
//!
//! ```text
//! P E Q = [ I  0 ]     P F Q = [ A  0 ]     N nilpotent      [@gerdin2007, eq. (C.2)]
//!         [ 0  N ]             [ 0  I ]
//! ```
//!
//! The infinite part is deflated by rank decisions (a staircase), not by the size of QZ eigenvalues: Jordan blocks at
//! infinity come out of QZ as large finite numbers. The coupling is removed by the generalized Sylvester equation
//!
//! ```text
//! E_f R + L E_i = -E_c,      F_f R + L F_i = -F_c             [@gerdin2007, eq. (C.4)]
//! ```
//!
//! which is solved by substitution: `E_i` is strictly block upper triangular and `F_i` upper triangular after the
//! staircase.

use crate::balance::{Balanced, Balancing, balance, power_of_two};
use crate::dense::{beside, block, clear_block, norm, rotate_columns, rotate_rows, set_block, solve_upper};
use crate::error::PencilError;
use crate::kronecker::{eigenvalues, from_staircase, identity_balanced};
use crate::pencil::Pencil;
use crate::rank::{RankDecision, RankTolerance};
use crate::staircase::{infinite_blocks, minimal_indices, reduce};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Mat, Par};

/// A finite eigenvalue `re + i im`, in reciprocal units of the caller's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eigenvalue {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

/// How a pencil is analysed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PencilOptions {
    /// How ranks are decided.
    pub tolerance: RankTolerance,
    /// Whether rows, columns and time are scaled by powers of two first.
    pub balance: bool,
    /// An entry of a product counts as zero below this fraction of the sum of the absolute values of its terms.
    pub negligible: f64,
}

impl Default for PencilOptions {
    fn default() -> Self {
        Self { tolerance: RankTolerance::default(), balance: true, negligible: 1e-10 }
    }
}

/// Relative backward errors of the factorizations, on the balanced pencil.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackwardErrors {
    /// `|U^T (E, F) Z - (TE, TF)| / |(E, F)|` of the orthogonal staircase, over the entries that were kept.
    pub staircase: f64,
    /// Norm of the entries that rank decisions set to zero, over `|(E, F)|`: the distance to the pencil with this
    /// structure.
    pub dropped: f64,
    /// Residual of the generalized Sylvester equation over `|(E_f, F_f)| |R| + |L| |(E_i, F_i)| + |(E_c, F_c)|`.
    pub decoupling: f64,
    /// `|P (E, F) Q - canonical| / (|P| |(E, F)| |Q| + |canonical|)` of the canonical form.
    pub canonical: f64,
}

/// A regular pencil in canonical form.
#[derive(Debug, Clone)]
pub struct FiniteInfiniteSplit {
    /// Degrees of freedom: size of `A`.
    pub n_finite: usize,
    /// Size of `N`.
    pub n_infinite: usize,
    /// Nilpotency index of `N`: 0 for an ordinary differential equation.
    pub index: usize,
    /// Sizes of the Jordan blocks of `N`, ascending.
    pub infinite_block_sizes: Vec<usize>,
    /// `P`.
    pub left: Mat<f64>,
    /// `Q`.
    pub right: Mat<f64>,
    /// `Q^-1`, from the factors, without inverting `Q`.
    pub right_inverse: Mat<f64>,
    /// `A`.
    pub dynamics: Mat<f64>,
    /// `N`; strictly block upper triangular, so that `N^index` is exactly zero.
    pub nilpotent: Mat<f64>,
    /// All rank decisions with their gaps.
    pub rank_decisions: Vec<RankDecision>,
    /// The scaling used.
    pub balancing: Balancing,
    pub(crate) negligible: f64,
    finite_e: Mat<f64>,
    finite_f: Mat<f64>,
    evidence: Evidence,
}

/// What the backward errors are computed from, all balanced.
#[derive(Debug, Clone)]
struct Evidence {
    E: Mat<f64>,
    F: Mat<f64>,
    U: Mat<f64>,
    Z: Mat<f64>,
    TE: Mat<f64>,
    TF: Mat<f64>,
    decoupling: f64,
}

impl FiniteInfiniteSplit {
    /// Finite eigenvalues, by QZ on the deflated finite part; sorted by real part.
    pub fn finite_eigenvalues(&self) -> Result<Vec<Eigenvalue>, PencilError> {
        eigenvalues(&self.finite_f, &self.finite_e, self.balancing.time)
    }

    /// `Q_s`: the columns of `Q` that multiply the free states; they span `R(Ebar^n)`.
    pub fn finite_basis(&self) -> Mat<f64> {
        block(&self.right, 0, self.right.nrows(), 0, self.n_finite)
    }

    /// `Q_a`: the columns of `Q` that multiply the determined variables; they span `N(Ebar^n)`.
    pub fn infinite_basis(&self) -> Mat<f64> {
        let n = self.right.nrows();
        block(&self.right, 0, n, self.n_finite, n)
    }

    /// Rows of `Q^-1` that give the free states, `x_s = W_s z`.
    pub fn finite_coordinates(&self) -> Mat<f64> {
        block(&self.right_inverse, 0, self.n_finite, 0, self.right.ncols())
    }

    /// Rows of `Q^-1` that give the determined variables, `x_a = W_a z`.
    pub fn infinite_coordinates(&self) -> Mat<f64> {
        let n = self.right.ncols();
        block(&self.right_inverse, self.n_finite, n, 0, n)
    }

    /// Rows of `P b` that drive the free states.
    pub fn finite_rows(&self, b: &Mat<f64>) -> Mat<f64> {
        let n = self.left.ncols();
        &block(&self.left, 0, self.n_finite, 0, n) * b
    }

    /// Backward errors of all steps: products of order `n^3`, about as much work as the split itself.
    pub fn backward_errors(&self) -> BackwardErrors {
        let Evidence { E, F, U, Z, TE, TF, decoupling } = &self.evidence;
        let (staircase, dropped) = staircase_errors(E, F, U, Z, TE, TF);
        // The balanced factors differ from the public ones by powers of two.
        let (n, nf, t) = (E.nrows(), self.n_finite, power_of_two(self.balancing.time));
        let (row_units, col_units) = (units(&self.balancing.rows), units(&self.balancing.cols));
        let P = Mat::from_fn(n, n, |i, j| self.left[(i, j)] / row_units[j] / if i < nf { t } else { 1.0 });
        let Q = Mat::from_fn(n, n, |i, j| self.right[(i, j)] / col_units[i]);
        let A = Mat::from_fn(nf, nf, |i, j| self.dynamics[(i, j)] / t);
        let N = Mat::from_fn(n - nf, n - nf, |i, j| self.nilpotent[(i, j)] * t);
        let canonical = canonical_error(E, F, &P, &Q, &A, &N);
        BackwardErrors { staircase, dropped, decoupling: *decoupling, canonical }
    }

    /// Whether any rank decision has a doubtful gap.
    pub fn is_doubtful(&self) -> bool {
        self.rank_decisions.iter().any(|d| d.is_doubtful)
    }
}

/// Splits a regular pencil; a singular one is an error that carries its Kronecker structure.
///
/// Guarantees: `P E Q`, `P F Q` have the canonical form up to the reported backward errors; the counts follow from the
/// recorded rank decisions alone.   [@gerdin2007, app. C], [@barton2002, sec. 4.1]
pub fn split_finite_infinite(pencil: &Pencil, options: &PencilOptions) -> Result<FiniteInfiniteSplit, PencilError> {
    pencil.require_square()?;
    let b = if options.balance { balance(pencil).scale(pencil) } else { identity_balanced(pencil) };
    let Balanced { e, f, balancing } = b;
    let staircase = reduce(&e, &f, &options.tolerance)?;
    let is_regular =
        minimal_indices(&staircase.row_rounds).is_empty() && minimal_indices(&staircase.column_rounds).is_empty();
    if !is_regular {
        let structure = from_staircase(&e, &f, &staircase, balancing.time, &options.tolerance)?;
        return Err(PencilError::SingularPencil { structure: Box::new(structure) });
    }
    let n = e.nrows();
    let nf = staircase.finite_rows.1;
    let ni = n - nf;
    let blocks = infinite_blocks(&staircase.row_rounds);
    // Level sizes from the top of the infinite part down: the last deflated level comes first.
    let levels: Vec<usize> = staircase.row_rounds.iter().rev().map(|r| r.independent).collect();
    let rank_decisions = staircase.rank_decisions;
    let (mut U, Z, mut TE, mut TF) = (staircase.U, staircase.Z, staircase.TE, staircase.TF);
    if !staircase.is_triangular {
        triangularize_finite(&mut U, &mut TE, &mut TF, nf);
    }

    let E_f = block(&TE, 0, nf, 0, nf);
    let F_f = block(&TF, 0, nf, 0, nf);
    let system = Decoupling {
        E_c: block(&TE, 0, nf, nf, n),
        F_c: block(&TF, 0, nf, nf, n),
        E_i: block(&TE, nf, n, nf, n),
        F_i: block(&TF, nf, n, nf, n),
        E_f: &E_f,
        F_f: &F_f,
        levels: &levels,
    };
    let Coupling { R, L, residual } = system.solve();

    let mut A = F_f.clone();
    solve_upper(E_f.as_ref(), &mut A);
    let mut N = system.E_i.clone();
    solve_upper(system.F_i.as_ref(), &mut N);
    clear_lower_levels(&mut N, &levels);

    // P_b = diag(E_f^-1, F_i^-1) [I L; 0 I] U^T,  Q_b = Z [I R; 0 I],  Q_b^-1 = [I -R; 0 I] Z^T.
    let Ut = U.transpose().to_owned();
    let (U_f, U_i) = (block(&Ut, 0, nf, 0, n), block(&Ut, nf, n, 0, n));
    let mut P_f = &U_f + &L * &U_i;
    solve_upper(E_f.as_ref(), &mut P_f);
    let mut P_i = U_i;
    solve_upper(system.F_i.as_ref(), &mut P_i);
    let (Z_f, Z_i) = (block(&Z, 0, n, 0, nf), block(&Z, 0, n, nf, n));
    let Q_i = &Z_f * &R + &Z_i;
    let Q_b = beside(&Z_f, &Q_i);
    let Zt = Z.transpose().to_owned();
    let (Zt_f, Zt_i) = (block(&Zt, 0, nf, 0, n), block(&Zt, nf, n, 0, n));
    let mut W_b = Mat::zeros(n, n);
    set_block(&mut W_b, 0, 0, &(&Zt_f - &R * &Zt_i));
    set_block(&mut W_b, nf, 0, &Zt_i);
    let mut P_b = Mat::zeros(n, n);
    set_block(&mut P_b, 0, 0, &P_f);
    set_block(&mut P_b, nf, 0, &P_i);

    // Back to the caller's units: E_b = 2^t D_r E D_c makes P_f carry 2^t, A = 2^t A_b, N = N_b / 2^t.
    let t = power_of_two(balancing.time);
    let (row_units, col_units) = (units(&balancing.rows), units(&balancing.cols));
    let left = Mat::from_fn(n, n, |i, j| P_b[(i, j)] * row_units[j] * if i < nf { t } else { 1.0 });
    let right = Mat::from_fn(n, n, |i, j| Q_b[(i, j)] * col_units[i]);
    let right_inverse = Mat::from_fn(n, n, |i, j| W_b[(i, j)] / col_units[j]);
    let dynamics = Mat::from_fn(nf, nf, |i, j| A[(i, j)] * t);
    let nilpotent = Mat::from_fn(ni, ni, |i, j| N[(i, j)] / t);
    Ok(FiniteInfiniteSplit {
        n_finite: nf,
        n_infinite: ni,
        index: blocks.last().copied().unwrap_or(0),
        infinite_block_sizes: blocks,
        left,
        right,
        right_inverse,
        dynamics,
        nilpotent,
        rank_decisions,
        balancing,
        negligible: options.negligible,
        finite_e: E_f,
        finite_f: F_f,
        evidence: Evidence { E: e, F: f, U, Z, TE, TF, decoupling: residual },
    })
}

/// Powers of two.
fn units(exponents: &[i32]) -> Vec<f64> {
    exponents.iter().map(|&k| power_of_two(k)).collect()
}

/// Makes `E_f` upper triangular by a QR factorization of the leading rows.
fn triangularize_finite(U: &mut Mat<f64>, TE: &mut Mat<f64>, TF: &mut Mat<f64>, nf: usize) {
    if nf < 2 {
        return;
    }
    let q = TE.as_ref().submatrix(0, 0, nf, nf).qr().compute_Q();
    rotate_rows(TE, 0, &q);
    rotate_rows(TF, 0, &q);
    rotate_columns(U, 0, &q);
    for j in 0..nf {
        for i in j + 1..nf {
            TE[(i, j)] = 0.0;
        }
    }
}

/// Error of the kept entries and size of the dropped ones, both relative.
fn staircase_errors(
    e: &Mat<f64>,
    f: &Mat<f64>,
    U: &Mat<f64>,
    Z: &Mat<f64>,
    TE: &Mat<f64>,
    TF: &Mat<f64>,
) -> (f64, f64) {
    let size = norm(e.as_ref()).hypot(norm(f.as_ref()));
    if size == 0.0 {
        return (0.0, 0.0);
    }
    let (mut kept, mut dropped) = (0.0, 0.0);
    for (original, reduced) in [(e, TE), (f, TF)] {
        let exact = U.transpose() * original * Z;
        for j in 0..exact.ncols() {
            for i in 0..exact.nrows() {
                let difference = exact[(i, j)] - reduced[(i, j)];
                let difference = difference * difference;
                if reduced[(i, j)] == 0.0 { dropped += difference } else { kept += difference }
            }
        }
    }
    (kept.sqrt() / size, dropped.sqrt() / size)
}

fn canonical_error(e: &Mat<f64>, f: &Mat<f64>, P: &Mat<f64>, Q: &Mat<f64>, A: &Mat<f64>, N: &Mat<f64>) -> f64 {
    let (n, nf) = (e.nrows(), A.nrows());
    let mut ce = Mat::zeros(n, n);
    let mut cf = Mat::zeros(n, n);
    for i in 0..nf {
        ce[(i, i)] = 1.0;
    }
    for i in nf..n {
        cf[(i, i)] = 1.0;
    }
    set_block(&mut ce, nf, nf, N);
    set_block(&mut cf, 0, 0, A);
    let de = P * e * Q - &ce;
    let df = P * f * Q - &cf;
    let size = norm(e.as_ref()).hypot(norm(f.as_ref()));
    let scale = norm(P.as_ref()) * size * norm(Q.as_ref()) + norm(ce.as_ref()).hypot(norm(cf.as_ref()));
    if scale > 0.0 { norm(de.as_ref()).hypot(norm(df.as_ref())) / scale } else { 0.0 }
}

/// Zeroes everything on and below the diagonal blocks.
fn clear_lower_levels(N: &mut Mat<f64>, levels: &[usize]) {
    let n = N.nrows();
    let mut start = 0;
    for &size in levels {
        clear_block(N, start, n, start, start + size);
        start += size;
    }
}

/// The generalized Sylvester equation of the decoupling.
struct Decoupling<'a> {
    E_f: &'a Mat<f64>,
    F_f: &'a Mat<f64>,
    E_c: Mat<f64>,
    F_c: Mat<f64>,
    E_i: Mat<f64>,
    F_i: Mat<f64>,
    levels: &'a [usize],
}

struct Coupling {
    R: Mat<f64>,
    L: Mat<f64>,
    residual: f64,
}

impl Decoupling<'_> {
    /// Substitution, with one step of iterative refinement where its residual is above rounding.
    fn solve(&self) -> Coupling {
        let (nf, ni) = self.E_c.shape();
        if nf == 0 || ni == 0 {
            return Coupling { R: Mat::zeros(nf, ni), L: Mat::zeros(nf, ni), residual: 0.0 };
        }
        let (mut R, mut L) = self.substitute(&self.E_c, &self.F_c);
        let mut residual = f64::INFINITY;
        for pass in 0..2 {
            let de = self.E_f * &R + &L * &self.E_i + &self.E_c;
            let df = self.F_f * &R + &L * &self.F_i + &self.F_c;
            let scale = norm(self.E_f.as_ref()).hypot(norm(self.F_f.as_ref())) * norm(R.as_ref())
                + norm(L.as_ref()) * norm(self.E_i.as_ref()).hypot(norm(self.F_i.as_ref()))
                + norm(self.E_c.as_ref()).hypot(norm(self.F_c.as_ref()));
            residual = if scale > 0.0 { norm(de.as_ref()).hypot(norm(df.as_ref())) / scale } else { 0.0 };
            if residual <= 8.0 * f64::EPSILON {
                break;
            }
            if pass == 0 {
                let (dR, dL) = self.substitute(&de, &df);
                R += dR;
                L += dL;
            }
        }
        Coupling { R, L, residual }
    }

    /// Solves `E_f R + L E_i = -c`, `F_f R + L F_i = -d` level by level:
    /// `R_k = -E_f^-1 (c_k + L_(<k) E_i[<k, k])`, `L_k = -(d_k + F_f R_k + L_(<k) F_i[<k, k]) F_i[k, k]^-1`.
    fn substitute(&self, c: &Mat<f64>, d: &Mat<f64>) -> (Mat<f64>, Mat<f64>) {
        let (nf, ni) = c.shape();
        let mut R = Mat::zeros(nf, ni);
        let mut L = Mat::zeros(nf, ni);
        let mut start = 0;
        for &size in self.levels {
            let end = start + size;
            let done = block(&L, 0, nf, 0, start);
            let mut rhs = block(c, 0, nf, start, end) + &done * &block(&self.E_i, 0, start, start, end);
            solve_upper(self.E_f.as_ref(), &mut rhs);
            let r = -&rhs;
            let mut l = block(d, 0, nf, start, end) + self.F_f * &r + &done * &block(&self.F_i, 0, start, start, end);
            let pivots = self.F_i.as_ref().submatrix(start, start, size, size);
            solve_lower_triangular_in_place(pivots.transpose(), l.as_mut().transpose_mut(), Par::Seq);
            let l = -l;
            set_block(&mut R, 0, start, &r);
            set_block(&mut L, 0, start, &l);
            start = end;
        }
        (R, L)
    }
}
