//! Linear systems with a fixed pattern: dense elimination for small ones, sparse LU for large ones.

use daesy_system::Pattern;
use faer::prelude::*;
use faer::sparse::linalg::solvers::{Lu, SymbolicLu};
use faer::sparse::{SparseColMat, SymbolicSparseColMat};

/// Systems up to this size are factored densely.
const DENSE_LIMIT: usize = 48;

/// The matrix was singular, at the given column where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SingularMatrix {
    pub(crate) column: Option<usize>,
}

/// A square matrix of fixed pattern with its factorization.
pub(crate) struct LinearSolver {
    n: usize,
    kind: Kind,
}

// There is one of these per matrix, so that its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Kind {
    Dense {
        /// Row-major factors.
        factors: Vec<f64>,
        pivots: Vec<usize>,
        /// Place of each entry of the pattern.
        places: Vec<usize>,
    },
    Sparse {
        pattern: SymbolicSparseColMat<usize>,
        symbolic: SymbolicLu<usize>,
        /// Place of each entry of the row-wise pattern in the column-wise values.
        places: Vec<usize>,
        factors: Option<Lu<usize, f64>>,
    },
}

impl LinearSolver {
    /// Prepares systems with the given pattern.
    pub(crate) fn new(pattern: &Pattern) -> Result<Self, SingularMatrix> {
        let n = pattern.n_rows;
        if n <= DENSE_LIMIT {
            let places = pattern.entries().map(|(row, column)| row * n + column).collect();
            return Ok(Self { n, kind: Kind::Dense { factors: vec![0.0; n * n], pivots: vec![0; n], places } });
        }
        let mut column_starts = vec![0usize; n + 1];
        for &column in &pattern.columns {
            column_starts[column as usize + 1] += 1;
        }
        for column in 0..n {
            column_starts[column + 1] += column_starts[column];
        }
        let mut next = column_starts.clone();
        let mut rows = vec![0usize; pattern.n_entries()];
        let mut places = Vec::with_capacity(pattern.n_entries());
        for (row, column) in pattern.entries() {
            rows[next[column]] = row;
            places.push(next[column]);
            next[column] += 1;
        }
        let pattern = SymbolicSparseColMat::new_checked(n, n, column_starts, None, rows);
        let symbolic = SymbolicLu::try_new(pattern.as_ref()).map_err(|_| SingularMatrix { column: None })?;
        Ok(Self { n, kind: Kind::Sparse { pattern, symbolic, places, factors: None } })
    }

    /// Factors the matrix with the given values, in the order of the pattern.
    pub(crate) fn factor(&mut self, values: &[f64]) -> Result<(), SingularMatrix> {
        let n = self.n;
        match &mut self.kind {
            Kind::Dense { factors, pivots, places } => {
                factors.fill(0.0);
                for (&place, &value) in places.iter().zip(values) {
                    factors[place] += value;
                }
                factor_dense(n, factors, pivots)
            }
            Kind::Sparse { pattern, symbolic, places, factors } => {
                let mut sorted = vec![0.0; values.len()];
                for (&place, &value) in places.iter().zip(values) {
                    sorted[place] = value;
                }
                if sorted.iter().any(|value| !value.is_finite()) {
                    return Err(SingularMatrix { column: None });
                }
                let matrix = SparseColMat::new(pattern.clone(), sorted);
                let lu = Lu::try_new_with_symbolic(symbolic.clone(), matrix.as_ref())
                    .map_err(|_| SingularMatrix { column: None })?;
                *factors = Some(lu);
                Ok(())
            }
        }
    }

    /// Solves in place with the last factorization.
    pub(crate) fn solve(&self, rhs: &mut [f64]) -> Result<(), SingularMatrix> {
        match &self.kind {
            Kind::Dense { factors, pivots, .. } => solve_dense(self.n, factors, pivots, rhs),
            Kind::Sparse { factors, .. } => {
                let Some(factors) = factors else { return Err(SingularMatrix { column: None }) };
                let n = rhs.len();
                factors.solve_in_place(MatMut::from_column_major_slice_mut(rhs, n, 1));
            }
        }
        // The sparse factorization reports a singular matrix by values that are not finite.
        match rhs.iter().position(|value| !value.is_finite()) {
            Some(column) => Err(SingularMatrix { column: Some(column) }),
            None => Ok(()),
        }
    }
}

/// Gaussian elimination with row pivoting, rows scaled by their largest entry for the choice of the pivot.
fn factor_dense(n: usize, a: &mut [f64], pivots: &mut [usize]) -> Result<(), SingularMatrix> {
    let mut scales = vec![0.0f64; n];
    for row in 0..n {
        scales[row] = a[row * n..(row + 1) * n].iter().fold(0.0, |scale: f64, value| scale.max(value.abs()));
    }
    for k in 0..n {
        let mut best = (k, -1.0);
        for row in k..n {
            let size = a[row * n + k].abs() / scales[row];
            if size > best.1 {
                best = (row, size);
            }
        }
        let (pivot, size) = best;
        let is_usable = size > 1e-300 && a[pivot * n + k].is_finite();
        if !is_usable {
            return Err(SingularMatrix { column: Some(k) });
        }
        pivots[k] = pivot;
        if pivot != k {
            scales.swap(pivot, k);
            for column in 0..n {
                a.swap(pivot * n + column, k * n + column);
            }
        }
        let inverse = 1.0 / a[k * n + k];
        let (upper, lower) = a.split_at_mut((k + 1) * n);
        let pivot_row = &upper[k * n..];
        for row in lower.chunks_exact_mut(n) {
            let factor = row[k] * inverse;
            row[k] = factor;
            if factor != 0.0 {
                for column in k + 1..n {
                    row[column] -= factor * pivot_row[column];
                }
            }
        }
    }
    Ok(())
}

fn solve_dense(n: usize, a: &[f64], pivots: &[usize], x: &mut [f64]) {
    for k in 0..n {
        x.swap(k, pivots[k]);
    }
    for row in 0..n {
        let sum: f64 = a[row * n..row * n + row].iter().zip(&x[..row]).map(|(a, x)| a * x).sum();
        x[row] -= sum;
    }
    for row in (0..n).rev() {
        let sum: f64 = a[row * n + row + 1..(row + 1) * n].iter().zip(&x[row + 1..n]).map(|(a, x)| a * x).sum();
        x[row] = (x[row] - sum) / a[row * n + row];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tridiagonal(n: usize) -> (Pattern, Vec<f64>) {
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        let mut values = Vec::new();
        for row in 0..n {
            for column in row.saturating_sub(1)..(row + 2).min(n) {
                pattern.columns.push(column as u32);
                values.push(if row == column { 0.1 } else { 1.0 + 0.1 * row as f64 });
            }
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        (pattern, values)
    }

    #[test]
    fn dense_and_sparse_solve_the_same_systems() {
        for n in [1, 2, 7, 48, 50, 400] {
            let (pattern, values) = tridiagonal(n);
            let expected: Vec<f64> = (0..n).map(|at| (at as f64).sin() + 2.0).collect();
            let mut rhs = vec![0.0; n];
            for ((row, column), value) in pattern.entries().zip(&values) {
                rhs[row] += value * expected[column];
            }
            let mut solver = LinearSolver::new(&pattern).unwrap();
            solver.factor(&values).unwrap();
            solver.solve(&mut rhs).unwrap();
            for (got, want) in rhs.iter().zip(&expected) {
                assert!((got - want).abs() < 1e-9, "n = {n}: {got} {want}");
            }
        }
    }

    #[test]
    fn a_singular_matrix_is_reported() {
        for n in [4, 100] {
            let (pattern, values) = tridiagonal(n);
            let mut solver = LinearSolver::new(&pattern).unwrap();
            let zeros = vec![0.0; values.len()];
            let mut rhs = vec![1.0; n];
            let is_reported = solver.factor(&zeros).and_then(|()| solver.solve(&mut rhs)).is_err();
            assert!(is_reported);
        }
    }
}
