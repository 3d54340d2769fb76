//! Dense kernels on top of faer: decompositions with safe settings, products, selections, triangular solves.
//!
//! faer's divide-and-conquer SVD is wrong on clustered spectra of order 250 and above, and its blocked QZ can stall on
//! pencils with singular `E`; both are used here with the unblocked variants only.

use crate::error::PencilError;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::gevd::{GevdParams, gevd_real, gevd_scratch};
use faer::linalg::svd::{ComputeSvdVectors, SvdParams, svd as faer_svd, svd_scratch};
use faer::{Auto, Mat, MatRef, Par, Spec};

/// Work that is done without being asked for, in units of one decomposition: 16 of matrices of 240 rows, some tenths of
/// a second.
const WORK: usize = 16 * 240 * 240 * 240;

/// The size up to which full matrices are taken: `n_decompositions` of n rows cost n_decompositions n^3, and what costs
/// more than is done without being asked for is left out or refused by name. The whole analysis of a pencil takes about
/// 16 decompositions (240 rows), its canonical form 3 (419), a least-squares solution 1 (604).
#[must_use]
pub const fn largest_dense(n_decompositions: usize) -> usize {
    let mut n = 1;
    while n_decompositions * (n + 1) * (n + 1) * (n + 1) <= WORK {
        n += 1;
    }
    n
}

/// Singular value decomposition `a = u diag(s) v^T` with full square factors (empty when not asked for).
#[derive(Clone, Debug)]
pub struct Svd {
    /// Left singular vectors.
    pub u: Mat<f64>,
    /// Singular values, descending.
    pub s: Vec<f64>,
    /// Right singular vectors.
    pub v: Mat<f64>,
}

/// Which singular vectors to compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vectors {
    /// None.
    None,
    /// The left ones.
    Left,
    /// The right ones.
    Right,
    /// Both.
    Both,
}

/// Full SVD; singular values in descending order.
///
/// # Errors
/// When the iteration does not converge.
pub fn svd(a: MatRef<'_, f64>, vectors: Vectors) -> Result<Svd, PencilError> {
    let (m, n) = a.shape();
    let k = m.min(n);
    let want_u = matches!(vectors, Vectors::Left | Vectors::Both);
    let want_v = matches!(vectors, Vectors::Right | Vectors::Both);
    if k == 0 {
        return Ok(Svd {
            u: if want_u { Mat::identity(m, m) } else { Mat::zeros(0, 0) },
            s: Vec::new(),
            v: if want_v { Mat::identity(n, n) } else { Mat::zeros(0, 0) },
        });
    }
    let config = SvdParams { recursion_threshold: 1 << 20, ..<SvdParams as Auto<f64>>::auto() };
    let params: Spec<SvdParams, f64> = config.into();
    let choose = |wanted| if wanted { ComputeSvdVectors::Full } else { ComputeSvdVectors::No };
    let request = svd_scratch::<f64>(m, n, choose(want_u), choose(want_v), Par::Seq, params);
    let mut memory = MemBuffer::new(request);
    let mut s = faer::diag::Diag::<f64>::zeros(k);
    let mut u = if want_u { Mat::zeros(m, m) } else { Mat::zeros(0, 0) };
    let mut v = if want_v { Mat::zeros(n, n) } else { Mat::zeros(0, 0) };
    faer_svd(
        a,
        s.as_mut(),
        want_u.then_some(u.as_mut()),
        want_v.then_some(v.as_mut()),
        Par::Seq,
        MemStack::new(&mut memory),
        params,
    )
    .map_err(|_| PencilError::NoConvergence { what: "singular value" })?;
    let s: Vec<f64> = s.column_vector().iter().copied().collect();
    Ok(Svd { u, s, v })
}

/// Generalized eigenvalues `(alpha_re + i alpha_im) / beta` of `f - s e`, eigenvalues only.
pub(crate) fn generalized_eigenvalues(f: MatRef<'_, f64>, e: MatRef<'_, f64>) -> Result<Vec<[f64; 3]>, PencilError> {
    let n = f.nrows();
    if n == 0 {
        return Ok(Vec::new());
    }
    let mut config = <GevdParams as Auto<f64>>::auto();
    config.schur.blocking_threshold = 1 << 20;
    let params: Spec<GevdParams, f64> = config.into();
    let no = faer::linalg::evd::ComputeEigenvectors::No;
    let request = gevd_scratch::<f64>(n, no, no, Par::Seq, params);
    // The query is known to be too small for some sizes; n^2 more doubles cost nothing here.
    let mut memory = MemBuffer::new(StackReq::all_of(&[request, StackReq::new::<f64>(4 * n * n + 1024)]));
    let (mut f, mut e) = (f.to_owned(), e.to_owned());
    let mut re = faer::diag::Diag::<f64>::zeros(n);
    let mut im = faer::diag::Diag::<f64>::zeros(n);
    let mut beta = faer::diag::Diag::<f64>::zeros(n);
    gevd_real(
        f.as_mut(),
        e.as_mut(),
        re.as_mut(),
        im.as_mut(),
        beta.as_mut(),
        None,
        None,
        Par::Seq,
        MemStack::new(&mut memory),
        params,
    )
    .map_err(|_| PencilError::NoConvergence { what: "generalized eigenvalue" })?;
    let (re, im, beta) = (re.column_vector(), im.column_vector(), beta.column_vector());
    Ok((0..n).map(|i| [re[i], im[i], beta[i]]).collect())
}

/// Frobenius norm.
pub(crate) fn norm(a: MatRef<'_, f64>) -> f64 {
    if a.nrows() == 0 || a.ncols() == 0 {
        return 0.0;
    }
    let sum: f64 = (0..a.ncols()).map(|j| a.col(j).iter().map(|x| x * x).sum::<f64>()).sum();
    // Squares within the range of doubles are safe; otherwise the careful way.
    if (1e-200..1e200).contains(&sum) { sum.sqrt() } else { a.norm_l2() }
}

/// Copy of rows `r0..r1` and columns `c0..c1`.
pub(crate) fn block(a: &Mat<f64>, r0: usize, r1: usize, c0: usize, c1: usize) -> Mat<f64> {
    a.as_ref().submatrix(r0, c0, r1 - r0, c1 - c0).to_owned()
}

/// Writes `value` at row `r0`, column `c0`.
pub(crate) fn set_block(a: &mut Mat<f64>, r0: usize, c0: usize, value: &Mat<f64>) {
    let (m, n) = value.shape();
    a.as_mut().submatrix_mut(r0, c0, m, n).copy_from(value.as_ref());
}

/// Sets rows `r0..r1`, columns `c0..c1` to zero.
pub(crate) fn clear_block(a: &mut Mat<f64>, r0: usize, r1: usize, c0: usize, c1: usize) {
    a.as_mut().submatrix_mut(r0, c0, r1 - r0, c1 - c0).fill(0.0);
}

/// `[a b]`.
pub(crate) fn beside(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows().max(b.nrows()), a.ncols() + b.ncols());
    set_block(&mut out, 0, 0, a);
    set_block(&mut out, 0, a.ncols(), b);
    out
}

/// `[a; b]`.
pub(crate) fn above(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let mut out = Mat::zeros(a.nrows() + b.nrows(), a.ncols().max(b.ncols()));
    set_block(&mut out, 0, 0, a);
    set_block(&mut out, a.nrows(), 0, b);
    out
}

/// Columns of `a` in the given order.
pub(crate) fn pick_columns(a: &Mat<f64>, columns: &[usize]) -> Mat<f64> {
    Mat::from_fn(a.nrows(), columns.len(), |i, j| a[(i, columns[j])])
}

/// Puts column `c0 + order[k]` in place `c0 + k`.
pub(crate) fn permute_columns(a: &mut Mat<f64>, c0: usize, order: &[usize]) {
    let m = a.nrows();
    let band = block(a, 0, m, c0, c0 + order.len());
    for (k, &from) in order.iter().enumerate() {
        a.as_mut().col_mut(c0 + k).copy_from(band.as_ref().col(from));
    }
}

/// Puts row `r0 + order[k]` in place `r0 + k`.
pub(crate) fn permute_rows(a: &mut Mat<f64>, r0: usize, order: &[usize]) {
    let n = a.ncols();
    let band = block(a, r0, r0 + order.len(), 0, n);
    for j in 0..n {
        for (k, &from) in order.iter().enumerate() {
            a[(r0 + k, j)] = band[(from, j)];
        }
    }
}

/// `a x` for a plain vector.
pub(crate) fn times(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)] * x[j]).sum()).collect()
}

/// Rows from which on it pays to look whether a matrix is diagonal.
pub(crate) const LARGE: usize = 64;

/// Whether a matrix has no entries beside its diagonal.
pub(crate) fn is_diagonal(a: MatRef<'_, f64>) -> bool {
    a.col_iter().enumerate().all(|(j, column)| column.iter().enumerate().all(|(i, x)| i == j || *x == 0.0))
}

/// Solves `r x = b` with upper triangular `r`, in place.
pub(crate) fn solve_upper(r: MatRef<'_, f64>, b: &mut Mat<f64>) {
    if r.nrows() >= LARGE && is_diagonal(r) {
        for column in b.col_iter_mut() {
            column.iter_mut().enumerate().for_each(|(i, x)| *x /= r[(i, i)]);
        }
    } else if r.nrows() > 0 && b.ncols() > 0 {
        faer::linalg::triangular_solve::solve_upper_triangular_in_place(r, b.as_mut(), Par::Seq);
    }
}

/// `a q` and `q^T`-style row updates on a band of rows: `a[rows, :] = q^T a[rows, :]`.
pub(crate) fn rotate_rows(a: &mut Mat<f64>, r0: usize, q: &Mat<f64>) {
    let (k, n) = (q.nrows(), a.ncols());
    if k == 0 || n == 0 {
        return;
    }
    let band = block(a, r0, r0 + k, 0, n);
    let rotated = q.transpose() * &band;
    set_block(a, r0, 0, &rotated);
}

/// `a[:, cols] = a[:, cols] q`.
pub(crate) fn rotate_columns(a: &mut Mat<f64>, c0: usize, q: &Mat<f64>) {
    let (k, m) = (q.nrows(), a.nrows());
    if k == 0 || m == 0 {
        return;
    }
    let band = block(a, 0, m, c0, c0 + k);
    let rotated = &band * q;
    set_block(a, 0, c0, &rotated);
}

/// Fails with the matrix's name if an entry is NaN or infinite.
pub(crate) fn check_finite(matrix: &'static str, a: &Mat<f64>) -> Result<(), PencilError> {
    for j in 0..a.ncols() {
        for i in 0..a.nrows() {
            let value = a[(i, j)];
            if !value.is_finite() {
                return Err(PencilError::NotFinite { matrix, row: i + 1, col: j + 1, value });
            }
        }
    }
    Ok(())
}

/// Fails with the matrix's name if its shape is not `rows x cols`.
pub(crate) fn check_shape(
    matrix: &'static str,
    a: &Mat<f64>,
    rows: usize,
    cols: usize,
    reason: &'static str,
) -> Result<(), PencilError> {
    if a.shape() != (rows, cols) {
        return Err(PencilError::WrongShape {
            matrix,
            rows: a.nrows(),
            cols: a.ncols(),
            expected: format!("{rows} x {cols}"),
            reason,
        });
    }
    Ok(())
}

/// Fails with the vector's name if its length is not `len` or an entry is not finite.
pub(crate) fn check_vector(
    matrix: &'static str,
    x: &[f64],
    len: usize,
    reason: &'static str,
) -> Result<(), PencilError> {
    if x.len() != len {
        return Err(PencilError::WrongShape { matrix, rows: x.len(), cols: 1, expected: format!("{len} x 1"), reason });
    }
    match x.iter().position(|v| !v.is_finite()) {
        Some(i) => Err(PencilError::NotFinite { matrix, row: i + 1, col: 1, value: x[i] }),
        None => Ok(()),
    }
}
