//! Linear systems with a fixed pattern, real or complex.
//!
//! Small ones are eliminated along a pattern found once (`small`). From large ones rows and columns with a single entry
//! are taken out (`singletons`), and what is left is ordered for little fill; where fill stays low, as in circuits,
//! they are factored column by column, and later matrices along the same pattern (`sparse`); where it does not, as in
//! grids, by blocks of columns (`supernodal`).

mod singletons;
mod small;
mod sparse;
mod supernodal;
mod tiny;

use std::ops::{Add, Mul, Sub};

use daesy_system::Pattern;
use faer::c64;
use faer::traits::ComplexField;

use singletons::Singletons;
use small::SmallLu;
use sparse::SparseLu;
use supernodal::SupernodalLu;

/// Systems up to this size are factored along a fixed pattern.
const SMALL_LIMIT: usize = 64;

/// Operations per entry of the factors from which on blocks of columns pay.
const MANY_OPERATIONS: f64 = 25.0;

/// The matrix was singular, at the given column where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SingularMatrix {
    /// The column.
    pub column: Option<usize>,
}

/// What the entries of a matrix are.
pub trait Scalar: ComplexField + Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// Operations of a product, in those of real numbers.
    const COST: f64;
    /// Zero.
    const ZERO: Self;
    /// A bound of the modulus within a factor of 2.
    fn size(self) -> f64;
    /// The product.
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
    /// self - a b
    #[inline(always)]
    fn minus_product(self, a: Self, b: Self) -> Self {
        self - a * b
    }
    /// The sum.
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    /// 1 / self
    fn inverse(self) -> Self;
    /// A real number.
    fn real(value: f64) -> Self;
    /// Zero in place of what no other number of a model feels.
    ///
    /// What spreads along a chain of thousands of cells shrinks by a factor from one to the next and ends at the
    /// smallest denormal number, which such factors round to itself: all cells behind would be computed with numbers
    /// that processors take a hundred times longer for.
    #[inline(always)]
    fn felt(self) -> Self {
        if self.size() < NEGLIGIBLE { Self::ZERO } else { self }
    }
}

/// Sizes below this are zero: farther from the smallest numbers than any product of them with an entry leads.
const NEGLIGIBLE: f64 = 1e-250;

impl Scalar for f64 {
    const COST: f64 = 1.0;
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn size(self) -> f64 {
        self.abs()
    }
    #[inline(always)]
    fn inverse(self) -> Self {
        1.0 / self
    }
    fn real(value: f64) -> Self {
        value
    }
}

impl Scalar for c64 {
    const COST: f64 = 3.0;
    const ZERO: Self = c64::new(0.0, 0.0);
    #[inline(always)]
    fn size(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
    #[inline(always)]
    fn inverse(self) -> Self {
        let square = self.re * self.re + self.im * self.im;
        c64::new(self.re / square, -self.im / square)
    }
    fn real(value: f64) -> Self {
        c64::new(value, 0.0)
    }
}

/// A square matrix of fixed pattern with its factorization.
pub struct LinearSolver<T: Scalar> {
    n: usize,
    singletons: Option<Singletons<T>>,
    kind: Kind<T>,
    solution: Vec<T>,
}

// There is one of these per matrix, so that its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Kind<T: Scalar> {
    Small(SmallLu<T>),
    Sparse(SparseLu<T>),
    Supernodal(SupernodalLu<T>),
}

impl<T: Scalar> Kind<T> {
    fn solve(&mut self, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        match self {
            Self::Small(lu) => lu.solve(rhs),
            Self::Sparse(lu) => lu.solve(rhs)?,
            Self::Supernodal(lu) => lu.solve(rhs)?,
        }
        Ok(())
    }
}

impl<T: Scalar> LinearSolver<T> {
    /// Prepares systems with the given pattern.
    ///
    /// # Errors
    /// When the pattern itself is singular.
    pub fn new(pattern: &Pattern) -> Result<Self, SingularMatrix> {
        let n = pattern.n_rows;
        if n <= SMALL_LIMIT {
            return Ok(Self { n, singletons: None, kind: Kind::Small(SmallLu::new(pattern)), solution: Vec::new() });
        }
        let (singletons, core) = Singletons::new(pattern);
        let in_whole = |singular: SingularMatrix| SingularMatrix {
            column: singular.column.map(|column| singletons.column_of_core(column)),
        };
        let kind = if core.n_rows <= SMALL_LIMIT {
            Kind::Small(SmallLu::new(&core))
        } else {
            let sparse = SparseLu::new(&core).map_err(in_whole)?;
            if sparse.operations_per_entry > MANY_OPERATIONS {
                Kind::Supernodal(SupernodalLu::new(&core).map_err(in_whole)?)
            } else {
                Kind::Sparse(sparse)
            }
        };
        let singletons = singletons.is_any().then_some(singletons);
        Ok(Self { n, singletons, kind, solution: Vec::new() })
    }

    /// Factors the matrix with the given values, in the order of the pattern.
    ///
    /// # Errors
    /// When the matrix is singular.
    pub fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        let values = match &mut self.singletons {
            Some(singletons) => singletons.take(values)?,
            None => values,
        };
        let result = match &mut self.kind {
            Kind::Small(lu) => lu.factor(values),
            Kind::Sparse(lu) => lu.factor(values),
            Kind::Supernodal(lu) => lu.factor(values),
        };
        result.map_err(|singular| match &self.singletons {
            Some(singletons) => {
                SingularMatrix { column: singular.column.map(|column| singletons.column_of_core(column)) }
            }
            None => singular,
        })
    }

    /// Operations of a factorization, about.
    pub(crate) fn factor_cost(&self) -> f64 {
        T::COST
            * match &self.kind {
                Kind::Small(lu) => lu.cost,
                Kind::Sparse(lu) => lu.factor_cost,
                Kind::Supernodal(lu) => 30.0 * lu.n_entries() as f64,
            }
    }

    /// Operations of a solve, about.
    pub(crate) fn solve_cost(&self) -> f64 {
        T::COST
            * match &self.kind {
                Kind::Small(lu) => (lu.filled.len() + 2 * lu.n) as f64,
                Kind::Sparse(lu) => lu.solve_cost(),
                Kind::Supernodal(lu) => 6.0 * lu.n_entries() as f64,
            }
    }

    /// Solves in place with the last factorization.
    ///
    /// # Errors
    /// When the matrix turns out to be singular.
    pub fn solve(&mut self, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        debug_assert_eq!(rhs.len(), self.n);
        match &mut self.singletons {
            Some(singletons) => singletons.solve(rhs, &mut self.solution, |core| self.kind.solve(core))?,
            None => self.kind.solve(rhs)?,
        }
        // The sparse factorization reports a singular matrix by values that are not finite.
        match rhs.iter().position(|value| !value.size().is_finite()) {
            Some(column) => Err(SingularMatrix { column: Some(column) }),
            None => Ok(()),
        }
    }
}

/// A pattern column by column.
struct Columns {
    n: usize,
    starts: Vec<usize>,
    rows: Vec<usize>,
    /// Place of each entry of the row-wise pattern.
    places: Vec<usize>,
}

impl Columns {
    fn new(pattern: &Pattern) -> Self {
        let n = pattern.n_rows;
        let mut starts = vec![0usize; n + 1];
        for &column in &pattern.columns {
            starts[column as usize + 1] += 1;
        }
        for column in 0..n {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut rows = vec![0usize; pattern.n_entries()];
        let mut places = Vec::with_capacity(pattern.n_entries());
        for (row, column) in pattern.entries() {
            rows[next[column]] = row;
            places.push(next[column]);
            next[column] += 1;
        }
        Self { n, starts, rows, places }
    }

    fn rows_of(&self, column: usize) -> &[usize] {
        &self.rows[self.starts[column]..self.starts[column + 1]]
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
            let mut solver = LinearSolver::<f64>::new(&pattern).unwrap();
            solver.factor(&values).unwrap();
            solver.solve(&mut rhs).unwrap();
            for (got, want) in rhs.iter().zip(&expected) {
                assert!((got - want).abs() < 1e-9, "n = {n}: {got} {want}");
            }
        }
    }

    /// A grid of resistors with an unsymmetric part, real and complex: new values along the old pattern, and values for
    /// which the old pivots vanish.
    #[test]
    fn new_values_are_factored_along_the_old_pattern() {
        let m = 12;
        let n = m * m;
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        for row in 0..n {
            let (i, j) = (row / m, row % m);
            let mut columns = vec![row];
            for (di, dj) in [(-1isize, 0isize), (1, 0), (0, -1), (0, 1)] {
                let (a, b) = (i as isize + di, j as isize + dj);
                if (0..m as isize).contains(&a) && (0..m as isize).contains(&b) {
                    columns.push(a as usize * m + b as usize);
                }
            }
            columns.sort_unstable();
            pattern.columns.extend(columns.iter().map(|&column| column as u32));
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        let mut real = LinearSolver::<f64>::new(&pattern).unwrap();
        let mut complex = LinearSolver::<c64>::new(&pattern).unwrap();
        assert!(matches!(real.kind, Kind::Sparse(_)));
        for round in 0..4 {
            let value = |(at, (row, column)): (usize, (usize, usize))| {
                let noise = ((at * 7919 + round * 104_729) % 1000) as f64 / 1000.0;
                if row == column && round == 2 {
                    1e-14
                } else if row == column {
                    4.0 + noise
                } else {
                    -1.0 + noise
                }
            };
            let values: Vec<f64> = pattern.entries().enumerate().map(value).collect();
            let expected: Vec<f64> = (0..n).map(|at| 1.0 + (at as f64).cos()).collect();
            let mut rhs = vec![0.0; n];
            for ((row, column), value) in pattern.entries().zip(&values) {
                rhs[row] += value * expected[column];
            }
            let mut complex_rhs: Vec<c64> = rhs.iter().map(|&value| c64::new(0.0, value)).collect();
            real.factor(&values).unwrap();
            real.solve(&mut rhs).unwrap();
            let complex_values: Vec<c64> = values.iter().map(|&value| c64::new(0.0, value)).collect();
            complex.factor(&complex_values).unwrap();
            complex.solve(&mut complex_rhs).unwrap();
            for at in 0..n {
                assert!((rhs[at] - expected[at]).abs() < 1e-9, "round {round}: {} {}", rhs[at], expected[at]);
                assert!((complex_rhs[at].re - expected[at]).abs() < 1e-9, "round {round}");
            }
        }
    }

    /// A chain with a row that sums over everything and a column that only this row knows, and rows that give their
    /// unknown at once.
    #[test]
    fn rows_and_columns_with_one_entry_are_taken_out() {
        let m = 300;
        let n = m + 40;
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        for row in 0..n {
            let columns: Vec<usize> = if row < 20 {
                // Row r gives unknown m + r, which the chain uses.
                (m..=m + row).collect()
            } else if row < 40 {
                // Unknown m + r only occurs here and in later sums.
                (0..m + row + 1).collect()
            } else {
                let link = row - 40;
                let mut columns: Vec<usize> = (link.saturating_sub(1)..(link + 2).min(m)).collect();
                columns.push(m + link % 20);
                columns
            };
            pattern.columns.extend(columns.into_iter().map(|column| column as u32));
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        let value = |(at, (row, column)): (usize, (usize, usize))| {
            let noise = ((at * 7919) % 1000) as f64 / 1000.0;
            let is_diagonal = row >= 40 && column == row - 40 || row < 40 && column == m + row;
            if is_diagonal { 4.0 + noise } else { 0.5 - noise }
        };
        let values: Vec<f64> = pattern.entries().enumerate().map(value).collect();
        let expected: Vec<f64> = (0..n).map(|at| 1.0 + (at as f64).cos()).collect();
        let mut rhs = vec![0.0; n];
        for ((row, column), value) in pattern.entries().zip(&values) {
            rhs[row] += value * expected[column];
        }
        let mut solver = LinearSolver::<f64>::new(&pattern).unwrap();
        assert!(
            solver.singletons.is_some() && matches!(&solver.kind, Kind::Sparse(lu) if lu.operations_per_entry < 10.0)
        );
        for _ in 0..2 {
            solver.factor(&values).unwrap();
            let mut solution = rhs.clone();
            solver.solve(&mut solution).unwrap();
            assert!(solution.iter().zip(&expected).all(|(got, want)| (got - want).abs() < 1e-9));
        }
    }

    /// A step into a long chain: every cell has half the value of the one before, or less. Once with a matrix that is
    /// taken out row by row, once with one that is factored.
    #[test]
    fn what_shrinks_along_a_chain_ends_at_zero() {
        let n = 3000;
        for is_coupled in [false, true] {
            let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
            let mut values = Vec::new();
            for row in 0..n {
                for column in row.saturating_sub(1)..(row + 1 + usize::from(is_coupled)).min(n) {
                    pattern.columns.push(column as u32);
                    values.push(if column == row { 2.0 } else { -1.0 + 0.5 * f64::from(u8::from(is_coupled)) });
                }
                pattern.row_starts.push(pattern.columns.len() as u32);
            }
            let mut solver = LinearSolver::<f64>::new(&pattern).unwrap();
            solver.factor(&values).unwrap();
            let mut solution = vec![0.0; n];
            solution[0] = 1.0;
            solver.solve(&mut solution).unwrap();
            assert!(solution.iter().all(|value| *value == 0.0 || value.is_normal()), "coupled: {is_coupled}");
            assert!(solution[300].abs() > 1e-250 && solution[n - 1] == 0.0, "coupled: {is_coupled}");
            let ratio = solution[100] / solution[99];
            let expected = if is_coupled { 2.0 - 3f64.sqrt() } else { 0.5 };
            assert!((ratio / expected - 1.0).abs() < 1e-12, "coupled: {is_coupled}, ratio {ratio}");
        }
    }

    #[test]
    fn a_singular_matrix_is_reported() {
        for n in [4, 100] {
            let (pattern, values) = tridiagonal(n);
            let mut solver = LinearSolver::<f64>::new(&pattern).unwrap();
            let zeros = vec![0.0; values.len()];
            let mut rhs = vec![1.0; n];
            let is_reported = solver.factor(&zeros).and_then(|()| solver.solve(&mut rhs)).is_err();
            assert!(is_reported);
        }
    }
}
