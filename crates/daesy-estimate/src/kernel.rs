//! Small dense kernels on column-major slices, for the inner loop of the filter. They are inlined everywhere, so that
//! what calls them decides which instructions they may use; sums are taken in a fixed order, whatever these are.

use faer::Mat;

/// Column-major copy.
pub(crate) fn flat(a: &Mat<f64>) -> Vec<f64> {
    let mut out = Vec::with_capacity(a.nrows() * a.ncols());
    for j in 0..a.ncols() {
        out.extend((0..a.nrows()).map(|i| a[(i, j)]));
    }
    out
}

/// Eight partial sums, then their sum.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let (a, a_rest) = a[..n].as_chunks::<8>();
    let (b, b_rest) = b[..n].as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

/// `y += factor x`
#[inline(always)]
pub(crate) fn add_scaled(y: &mut [f64], factor: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += factor * x;
    }
}

/// `y += a x` with `a` of `y.len()` rows.
#[inline(always)]
pub(crate) fn add_product(y: &mut [f64], a: &[f64], x: &[f64]) {
    let n = y.len();
    if n == 0 {
        return;
    }
    for (column, &x) in a.chunks_exact(n).zip(x) {
        add_scaled(y, x, column);
    }
}

/// `c += a b` with square matrices of order `n`.
#[inline(always)]
pub(crate) fn add_square_product(c: &mut [f64], a: &[f64], b: &[f64], n: usize) {
    if n == 0 {
        return;
    }
    for (c, b) in c.chunks_exact_mut(n).zip(b.chunks_exact(n)) {
        add_product(c, a, b);
    }
}

/// `p = s s^T` with square `s` of order `n`.
#[inline(always)]
pub(crate) fn square(p: &mut [f64], s: &[f64], n: usize) {
    p.fill(0.0);
    if n == 0 {
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

/// A factor `l` of a positive semidefinite matrix, `l l^T = a`, by Cholesky's method with pivots on the matrix of
/// correlations; directions of relative variance below `1e-14` count as certain. Column-major, `n` rows, as many
/// columns as the rank.
pub(crate) fn semidefinite_factor(a: &Mat<f64>) -> Vec<f64> {
    let n = a.nrows();
    let sizes: Vec<f64> = (0..n).map(|i| a[(i, i)].max(0.0).sqrt()).collect();
    let unit = |i: usize| if sizes[i] > 0.0 { 1.0 / sizes[i] } else { 0.0 };
    let mut rest = Mat::from_fn(n, n, |i, j| a[(i, j)] * unit(i) * unit(j));
    let mut factor: Vec<f64> = Vec::new();
    for _ in 0..n {
        let Some(pivot) = (0..n).max_by(|&p, &q| rest[(p, p)].total_cmp(&rest[(q, q)])) else { break };
        let size = rest[(pivot, pivot)];
        if size <= 1e-14 || size.is_nan() {
            break;
        }
        let root = size.sqrt();
        let column: Vec<f64> = (0..n).map(|i| rest[(i, pivot)] / root).collect();
        for j in 0..n {
            for i in 0..n {
                rest[(i, j)] -= column[i] * column[j];
            }
        }
        for i in 0..n {
            rest[(i, pivot)] = 0.0;
            rest[(pivot, i)] = 0.0;
        }
        factor.extend(column.iter().zip(&sizes).map(|(x, size)| x * size));
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;

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
