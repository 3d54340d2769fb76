//! Supernodal LU of large matrices with much fill.

use daesy_system::Pattern;
use faer::prelude::*;
use faer::sparse::linalg::solvers::{Lu, SymbolicLu};
use faer::sparse::{SparseColMat, SymbolicSparseColMat};

use super::{Columns, Scalar, SingularMatrix};

/// Factors of a large matrix.
pub(super) struct SupernodalLu<T: Scalar> {
    columns: Columns,
    pattern: SymbolicSparseColMat<usize>,
    symbolic: SymbolicLu<usize>,
    factors: Option<Lu<usize, T>>,
}

impl<T: Scalar> SupernodalLu<T> {
    pub(super) fn new(pattern: &Pattern) -> Result<Self, SingularMatrix> {
        let columns = Columns::new(pattern);
        let pattern =
            SymbolicSparseColMat::new_checked(columns.n, columns.n, columns.starts.clone(), None, columns.rows.clone());
        let symbolic = SymbolicLu::try_new(pattern.as_ref()).map_err(|_| SingularMatrix { column: None })?;
        Ok(Self { columns, pattern, symbolic, factors: None })
    }

    pub(super) fn n_entries(&self) -> usize {
        self.columns.rows.len()
    }

    pub(super) fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        let mut sorted = vec![T::ZERO; values.len()];
        for (&place, &value) in self.columns.places.iter().zip(values) {
            sorted[place] = value;
        }
        if sorted.iter().any(|value| !value.size().is_finite()) {
            return Err(SingularMatrix { column: None });
        }
        let matrix = SparseColMat::new(self.pattern.clone(), sorted);
        let lu = Lu::try_new_with_symbolic(self.symbolic.clone(), matrix.as_ref())
            .map_err(|_| SingularMatrix { column: None })?;
        self.factors = Some(lu);
        Ok(())
    }

    pub(super) fn solve(&self, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        let Some(factors) = &self.factors else { return Err(SingularMatrix { column: None }) };
        let n = rhs.len();
        factors.solve_in_place(MatMut::from_column_major_slice_mut(rhs, n, 1));
        Ok(())
    }
}
