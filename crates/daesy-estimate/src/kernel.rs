//! Small dense kernels on column-major slices, for the inner loop of the filter. They are inlined everywhere, so that
//! what calls them decides which instructions they may use; sums are taken in a fixed order, whatever these are. From
//! [`BLOCKED`] rows on products of matrices are blocked for the caches, which plain loops are not.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

/// Rows of square matrices from which on blocked products pay.
pub(crate) const BLOCKED: usize = 48;

/// A square matrix in a slice.
pub(crate) fn matrix(a: &[f64], n: usize) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(a, n, a.len() / n.max(1))
}

fn matrix_mut(a: &mut [f64], n: usize) -> MatMut<'_, f64> {
    let columns = a.len() / n.max(1);
    MatMut::from_column_major_slice_mut(a, n, columns)
}

/// `c += a b`
fn add_blocked(c: &mut [f64], a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    matmul(matrix_mut(c, a.nrows()), Accum::Add, a, b, 1.0, Par::Seq);
}

/// Column-major copy.
pub(crate) fn flat(a: &Mat<f64>) -> Vec<f64> {
    let mut out = Vec::with_capacity(a.nrows() * a.ncols());
    for j in 0..a.ncols() {
        out.extend((0..a.nrows()).map(|i| a[(i, j)]));
    }
    out
}

/// Eight partial sums, then their sum.
///
/// Here and below loops count: adapters of iterators are not always inlined into code for other instructions, and a call
/// among sums that are kept in registers costs more than the sums.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let (a, a_rest) = a[..n].as_chunks::<8>();
    let (b, b_rest) = b[..n].as_chunks::<8>();
    let n_chunks = a.len().min(b.len());
    let (a, b) = (&a[..n_chunks], &b[..n_chunks]);
    let mut sums = [0.0; 8];
    for k in 0..n_chunks {
        let (a, b) = (&a[k], &b[k]);
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    let n_rest = a_rest.len().min(b_rest.len()).min(8);
    let (a, b) = (&a_rest[..n_rest], &b_rest[..n_rest]);
    for i in 0..n_rest {
        sums[i] += a[i] * b[i];
    }
    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

/// `y += factor x`
#[inline(always)]
pub(crate) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    let n = y.len().min(x.len());
    let (y, x) = (&mut y[..n], &x[..n]);
    for i in 0..n {
        y[i] += factor * x[i];
    }
}

/// `y += a x` with `a` of `y.len()` rows.
#[inline(always)]
pub(crate) fn add_product(y: &mut [f64], a: &[f64], x: &[f64]) {
    let n = y.len();
    if n == 0 {
        return;
    }
    for k in 0..(a.len() / n).min(x.len()) {
        add_scaled(y, x[k], &a[k * n..(k + 1) * n]);
    }
}

/// `c += a b` with square matrices of order `n`.
#[inline(always)]
pub(crate) fn add_square_product(c: &mut [f64], a: &[f64], b: &[f64], n: usize) {
    if n == 0 {
        return;
    }
    if n >= BLOCKED {
        add_blocked(c, matrix(a, n), matrix(b, n));
        return;
    }
    for (c, b) in c.chunks_exact_mut(n).zip(b.chunks_exact(n)) {
        add_product(c, a, b);
    }
}

/// `c += a b^T + b a^T` with square matrices of order `n`.
#[inline(always)]
pub(crate) fn add_symmetric_product(c: &mut [f64], a: &[f64], b: &[f64], n: usize) {
    if n >= BLOCKED {
        add_blocked(c, matrix(a, n), matrix(b, n).transpose());
        add_blocked(c, matrix(b, n), matrix(a, n).transpose());
        return;
    }
    for (a, b) in a.chunks_exact(n.max(1)).zip(b.chunks_exact(n.max(1))) {
        for j in 0..n {
            let (aj, bj) = (a[j], b[j]);
            for ((out, a), b) in c[j * n..(j + 1) * n].iter_mut().zip(a).zip(b) {
                *out += a * bj + b * aj;
            }
        }
    }
}

/// `p = s s^T` with square `s` of order `n`.
#[inline(always)]
pub(crate) fn square(p: &mut [f64], s: &[f64], n: usize) {
    p.fill(0.0);
    if n == 0 {
        return;
    }
    if n >= BLOCKED {
        add_blocked(p, matrix(s, n), matrix(s, n).transpose());
        return;
    }
    for column in s.chunks_exact(n) {
        for (p, &x) in p.chunks_exact_mut(n).zip(column) {
            add_scaled(p, x, column);
        }
    }
}

/// Householder triangularization: from `w` of `rows` x `n` to upper triangular `r` with `r^T r = w^T w`, in place.
#[inline(always)]
pub(crate) fn triangularize(w: &mut [f64], rows: usize, n: usize) {
    for k in 0..n.min(rows) {
        let (left, right) = w.split_at_mut((k + 1) * rows);
        let pivot = &mut left[k * rows + k..];
        let tail = dot(&pivot[1..], &pivot[1..]);
        if tail == 0.0 {
            continue;
        }
        let length = (pivot[0] * pivot[0] + tail).sqrt();
        let head = if pivot[0] > 0.0 { -length } else { length };
        // Reflector I - v v^T / beta with v = (pivot[0] - head, tail).
        let v0 = pivot[0] - head;
        let beta = -head * v0;
        pivot[0] = v0;
        for column in right.chunks_exact_mut(rows) {
            let column = &mut column[k..];
            let factor = dot(pivot, column) / beta;
            add_scaled(column, -factor, pivot);
        }
        pivot[0] = head;
        pivot[1..].fill(0.0);
    }
}

/// Solves `a x = b` by elimination with pivots by columns, `x` in the place of `b` and of any number of columns; what is
/// in `a` is used up. A singular `a` gives values that are not finite.
#[inline(always)]
pub(crate) fn solve_in_place(a: &mut [f64], b: &mut [f64], n: usize) {
    for k in 0..n {
        let pivot = (k + 1..n).fold(k, |best, i| if a[k * n + i].abs() > a[k * n + best].abs() { i } else { best });
        if pivot != k {
            a.chunks_exact_mut(n).chain(b.chunks_exact_mut(n)).for_each(|column| column.swap(k, pivot));
        }
        let (left, right) = a.split_at_mut((k + 1) * n);
        let factors = &mut left[k * n..];
        let scale = 1.0 / factors[k];
        factors[k + 1..].iter_mut().for_each(|x| *x *= scale);
        for column in right.chunks_exact_mut(n).chain(b.chunks_exact_mut(n)) {
            let head = column[k];
            add_scaled(&mut column[k + 1..], -head, &factors[k + 1..]);
        }
    }
    for column in b.chunks_exact_mut(n.max(1)) {
        for k in (0..n).rev() {
            let value = column[k] / a[k * n + k];
            column[k] = value;
            add_scaled(&mut column[..k], -value, &a[k * n..k * n + k]);
        }
    }
}

/// A factor `l` of a positive semidefinite matrix, `l l^T = a`, by Cholesky's method with pivots on the matrix of
/// correlations; directions of relative variance below `1e-14` count as certain. Column-major, `n` rows, as many
/// columns as the rank.
pub(crate) fn semidefinite_factor(a: &Mat<f64>) -> Vec<f64> {
    let n = a.nrows();
    let sizes: Vec<f64> = (0..n).map(|i| a[(i, i)].max(0.0).sqrt()).collect();
    let unit = |i: usize| if sizes[i] > 0.0 { 1.0 / sizes[i] } else { 0.0 };
    let mut rest = vec![0.0; n * n];
    for (j, target) in rest.chunks_exact_mut(n.max(1)).enumerate() {
        let scale = unit(j);
        target.iter_mut().zip(a.col_as_slice(j)).enumerate().for_each(|(i, (x, a))| *x = a * unit(i) * scale);
    }
    let mut factor: Vec<f64> = Vec::new();
    let mut column = vec![0.0; n];
    for _ in 0..n {
        let Some(pivot) = (0..n).max_by(|&p, &q| rest[p * n + p].total_cmp(&rest[q * n + q])) else { break };
        let size = rest[pivot * n + pivot];
        if size <= 1e-14 || size.is_nan() {
            break;
        }
        let root = size.sqrt();
        column.iter_mut().zip(&rest[pivot * n..(pivot + 1) * n]).for_each(|(x, rest)| *x = rest / root);
        // Columns that were pivots are zero, and so is what is to be taken from them.
        for (target, &x) in rest.chunks_exact_mut(n).zip(&column).filter(|(_, x)| **x != 0.0) {
            add_scaled(target, -x, &column);
        }
        rest[pivot * n..(pivot + 1) * n].fill(0.0);
        rest.iter_mut().skip(pivot).step_by(n).for_each(|x| *x = 0.0);
        factor.extend(column.iter().zip(&sizes).map(|(x, size)| x * size));
    }
    factor
}

/// A factor with fewer entries than this share makes a product sparse.
const SPARSE: f64 = 0.05;

/// `a b`, along the entries of the factors where one of them is large and has few.
pub(crate) fn product(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let is_sparse = |a: &Mat<f64>| {
        let n_entries: usize = a.col_iter().map(|column| column.iter().filter(|x| **x != 0.0).count()).sum();
        n_entries as f64 <= SPARSE * (a.nrows() * a.ncols()) as f64
    };
    let is_small = a.nrows().min(a.ncols()).min(b.ncols()) < BLOCKED;
    if is_small || !(is_sparse(a) || is_sparse(b)) {
        return a * b;
    }
    let entries: Vec<Vec<(usize, f64)>> =
        a.col_iter().map(|column| column.iter().copied().enumerate().filter(|(_, x)| *x != 0.0).collect()).collect();
    let mut sum = Mat::zeros(a.nrows(), b.ncols());
    for j in 0..b.ncols() {
        let target = sum.col_as_slice_mut(j);
        for (entries, &factor) in entries.iter().zip(b.col_as_slice(j)).filter(|(_, factor)| **factor != 0.0) {
            entries.iter().for_each(|&(i, x)| target[i] += x * factor);
        }
    }
    sum
}

/// Whether all entries are zero.
pub(crate) fn is_zero(a: &Mat<f64>) -> bool {
    (0..a.ncols()).all(|j| a.col_as_slice(j).iter().all(|x| *x == 0.0))
}

/// tr(A B)
pub(crate) fn trace_of_product(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)] * b[(j, i)]).sum::<f64>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_products_are_the_same_as_plain_ones() {
        let mut rng = fastrand::Rng::with_seed(8);
        for n in [5, BLOCKED + 3] {
            let mut random = || -> Vec<f64> { (0..n * n).map(|_| rng.f64() - 0.5).collect() };
            let (a, b, c) = (random(), random(), random());
            let entry = |a: &[f64], i: usize, j: usize| a[j * n + i];
            let (mut product, mut symmetric, mut own) = (c.clone(), c.clone(), c.clone());
            add_square_product(&mut product, &a, &b, n);
            add_symmetric_product(&mut symmetric, &a, &b, n);
            square(&mut own, &a, n);
            for i in 0..n {
                for j in 0..n {
                    let sum = |term: &dyn Fn(usize) -> f64| (0..n).map(term).sum::<f64>();
                    let ab = sum(&|k| entry(&a, i, k) * entry(&b, k, j));
                    let abt = sum(&|k| entry(&a, i, k) * entry(&b, j, k) + entry(&b, i, k) * entry(&a, j, k));
                    let aat = sum(&|k| entry(&a, i, k) * entry(&a, j, k));
                    assert!((entry(&product, i, j) - entry(&c, i, j) - ab).abs() < 1e-13 * n as f64);
                    assert!((entry(&symmetric, i, j) - entry(&c, i, j) - abt).abs() < 1e-13 * n as f64);
                    assert!((entry(&own, i, j) - aat).abs() < 1e-13 * n as f64);
                }
            }
        }
    }

    #[test]
    fn elimination_solves() {
        let mut rng = fastrand::Rng::with_seed(9);
        for n in [1, 2, 6] {
            let a = Mat::from_fn(n, n, |i, j| if i == j && i == 0 && n > 1 { 0.0 } else { rng.f64() - 0.5 });
            let x = Mat::from_fn(n, 3, |_, _| rng.f64() - 0.5);
            let mut b = flat(&(&a * &x));
            solve_in_place(&mut flat(&a), &mut b, n);
            for (found, expected) in b.iter().zip(flat(&x)) {
                assert!((found - expected).abs() < 1e-12, "n = {n}");
            }
        }
    }

    #[test]
    fn sparse_products_are_the_same_as_dense_ones() {
        let mut rng = fastrand::Rng::with_seed(6);
        let n = BLOCKED + 12;
        let mut random = |share: f64| Mat::from_fn(n, n, |_, _| if rng.f64() < share { rng.f64() - 0.5 } else { 0.0 });
        for (a, b) in [(0.03, 0.03), (0.03, 1.0), (1.0, 0.03), (1.0, 1.0)] {
            let (a, b) = (random(a), random(b));
            assert!((product(&a, &b) - &a * &b).norm_max() < 1e-14);
        }
    }

    #[test]
    fn factors_reproduce_what_they_factor() {
        let mut rng = fastrand::Rng::with_seed(5);
        for (n, rank) in [(1, 1), (4, 2), (6, 6), (7, 0)] {
            let l = Mat::from_fn(n, rank, |i, _| (rng.f64() - 0.5) * 10f64.powi(i as i32 - 3));
            let a = &l * l.transpose();
            let factor = semidefinite_factor(&a);
            assert_eq!(factor.len(), n * rank);
            let again =
                Mat::from_fn(n, n, |i, j| (0..rank).map(|k| factor[i + k * n] * factor[j + k * n]).sum::<f64>());
            for i in 0..n {
                for j in 0..n {
                    let size = (a[(i, i)] * a[(j, j)]).sqrt();
                    assert!((a[(i, j)] - again[(i, j)]).abs() <= 1e-13 * size);
                }
            }
        }
        let (rows, n) = (7, 4);
        let w: Vec<f64> = (0..rows * n).map(|_| rng.f64() - 0.5).collect();
        let mut r = w.clone();
        triangularize(&mut r, rows, n);
        for i in 0..n {
            for j in 0..n {
                let before = dot(&w[i * rows..(i + 1) * rows], &w[j * rows..(j + 1) * rows]);
                let after = dot(&r[i * rows..(i + 1) * rows], &r[j * rows..(j + 1) * rows]);
                assert!((before - after).abs() < 1e-14);
                assert!(i <= j || r[j * rows + i] == 0.0);
            }
        }
    }
}
