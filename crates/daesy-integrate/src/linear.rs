//! Linear systems with a fixed pattern, real or complex: elimination along a fixed pattern for small ones, supernodal LU for large
//! ones.
//!
//! A small matrix is analysed once: pivots are chosen for stability and little fill [@markowitz1957], and where the factors
//! have entries is written down. Later matrices of the same pattern are factored along it without any search. Multipliers that
//! have grown lead to a new choice of pivots.

use daesy_system::Pattern;
use faer::prelude::*;
use faer::sparse::linalg::solvers::{Lu, SymbolicLu};
use faer::sparse::{SparseColMat, SymbolicSparseColMat};
use faer::traits::ComplexField;

/// Systems up to this size are factored along a fixed pattern.
const SMALL_LIMIT: usize = 64;

/// A pivot may be so much smaller than the largest entry of its column when pivots are chosen.
const THRESHOLD: f64 = 0.1;

/// A multiplier that has grown so much since pivots were chosen asks for a new choice.
const GROWTH: f64 = 1e3;

/// The matrix was singular, at the given column where that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SingularMatrix {
    pub(crate) column: Option<usize>,
}

/// What the entries of a matrix are.
pub(crate) trait Scalar: ComplexField + Copy {
    /// Operations of a product, in those of real numbers.
    const COST: f64;
    /// Zero.
    const ZERO: Self;
    /// A bound of the modulus within a factor of 2.
    fn size(self) -> f64;
    /// The product.
    fn times(self, other: Self) -> Self;
    /// self - a b
    fn minus_product(self, a: Self, b: Self) -> Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// 1 / self
    fn inverse(self) -> Self;
    /// A real number.
    fn real(value: f64) -> Self;
}

impl Scalar for f64 {
    const COST: f64 = 1.0;
    const ZERO: Self = 0.0;
    fn size(self) -> f64 {
        self.abs()
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn minus_product(self, a: Self, b: Self) -> Self {
        self - a * b
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
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
    fn size(self) -> f64 {
        self.re.abs() + self.im.abs()
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn minus_product(self, a: Self, b: Self) -> Self {
        self - a * b
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn inverse(self) -> Self {
        let square = self.re * self.re + self.im * self.im;
        c64::new(self.re / square, -self.im / square)
    }
    fn real(value: f64) -> Self {
        c64::new(value, 0.0)
    }
}

/// A square matrix of fixed pattern with its factorization.
pub(crate) struct LinearSolver<T: Scalar> {
    n: usize,
    kind: Kind<T>,
}

// There is one of these per matrix, so that its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Kind<T: Scalar> {
    Small(SmallLu<T>),
    Large(LargeLu<T>),
}

impl<T: Scalar> LinearSolver<T> {
    /// Prepares systems with the given pattern.
    pub(crate) fn new(pattern: &Pattern) -> Result<Self, SingularMatrix> {
        let n = pattern.n_rows;
        let kind =
            if n <= SMALL_LIMIT { Kind::Small(SmallLu::new(pattern)) } else { Kind::Large(LargeLu::new(pattern)?) };
        Ok(Self { n, kind })
    }

    /// Factors the matrix with the given values, in the order of the pattern.
    pub(crate) fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        match &mut self.kind {
            Kind::Small(lu) => lu.factor(values),
            Kind::Large(lu) => lu.factor(values),
        }
    }

    /// Operations of a factorization, about.
    pub(crate) fn factor_cost(&self) -> f64 {
        T::COST
            * match &self.kind {
                Kind::Small(lu) => lu.cost,
                Kind::Large(lu) => 30.0 * lu.places.len() as f64,
            }
    }

    /// Operations of a solve, about.
    pub(crate) fn solve_cost(&self) -> f64 {
        T::COST
            * match &self.kind {
                Kind::Small(lu) => (lu.filled.len() + 2 * lu.n) as f64,
                Kind::Large(lu) => 6.0 * lu.places.len() as f64,
            }
    }

    /// Solves in place with the last factorization.
    pub(crate) fn solve(&mut self, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        debug_assert_eq!(rhs.len(), self.n);
        match &mut self.kind {
            Kind::Small(lu) => lu.solve(rhs),
            Kind::Large(lu) => lu.solve(rhs)?,
        }
        // The sparse factorization reports a singular matrix by values that are not finite.
        match rhs.iter().position(|value| !value.size().is_finite()) {
            Some(column) => Err(SingularMatrix { column: Some(column) }),
            None => Ok(()),
        }
    }
}

/// Factors of a small matrix, rows and columns in the order of the pivots, stored densely but worked on only where entries are.
struct SmallLu<T> {
    n: usize,
    /// Row and column of each entry of the pattern.
    entries: Vec<[u32; 2]>,
    is_analysed: bool,
    /// Operations of an elimination.
    cost: f64,
    row_order: Vec<u32>,
    column_order: Vec<u32>,
    /// Place of each entry of the pattern.
    places: Vec<u32>,
    /// Places of all entries of the factors.
    filled: Vec<u32>,
    /// Rows below and columns beside each pivot that have entries.
    below: Vec<u32>,
    below_starts: Vec<u32>,
    beside: Vec<u32>,
    beside_starts: Vec<u32>,
    a: Vec<T>,
    inverses: Vec<T>,
    /// Largest multiplier of each pivot, now and when the pivots were chosen.
    growths: Vec<f64>,
    chosen_growths: Vec<f64>,
    work: Vec<T>,
}

impl<T: Scalar> SmallLu<T> {
    fn new(pattern: &Pattern) -> Self {
        let n = pattern.n_rows;
        Self {
            n,
            entries: pattern.entries().map(|(row, column)| [row as u32, column as u32]).collect(),
            is_analysed: false,
            cost: 0.0,
            row_order: Vec::new(),
            column_order: Vec::new(),
            places: Vec::new(),
            filled: Vec::new(),
            below: Vec::new(),
            below_starts: Vec::new(),
            beside: Vec::new(),
            beside_starts: Vec::new(),
            a: vec![T::ZERO; n * n],
            inverses: vec![T::ZERO; n],
            growths: vec![0.0; n],
            chosen_growths: vec![0.0; n],
            work: vec![T::ZERO; n],
        }
    }

    fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        if self.is_analysed && self.eliminate(values) {
            let has_grown = |(&now, &chosen): (&f64, &f64)| now > GROWTH * chosen.max(1.0);
            if !self.growths.iter().zip(&self.chosen_growths).any(has_grown) {
                return Ok(());
            }
        }
        self.analyse(values)?;
        if !self.eliminate(values) {
            return Err(SingularMatrix { column: None });
        }
        self.chosen_growths.copy_from_slice(&self.growths);
        Ok(())
    }

    /// Chooses pivots by Markowitz' count among entries that are not small in their column, rows scaled to their largest entry.
    fn analyse(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        let n = self.n;
        self.is_analysed = false;
        let mut a = vec![T::ZERO; n * n];
        let mut is_entry = vec![false; n * n];
        for (&[row, column], &value) in self.entries.iter().zip(values) {
            let at = row as usize * n + column as usize;
            a[at] = a[at].plus(value);
            is_entry[at] = true;
        }
        for row in a.chunks_exact_mut(n.max(1)) {
            let scale = row.iter().fold(0.0f64, |scale, value| scale.max(value.size()));
            if scale > 0.0 && scale.is_finite() {
                row.iter_mut().for_each(|value| *value = value.times(T::real(1.0 / scale)));
            }
        }
        let mut rows: Vec<usize> = (0..n).collect();
        let mut columns: Vec<usize> = (0..n).collect();
        self.row_order.clear();
        self.column_order.clear();
        for _ in 0..n {
            let count_of_row: Vec<usize> =
                rows.iter().map(|&row| columns.iter().filter(|&&column| is_entry[row * n + column]).count()).collect();
            let (mut best, mut best_count, mut best_size) = (None, usize::MAX, 0.0);
            for (column_at, &column) in columns.iter().enumerate() {
                let largest = rows.iter().fold(0.0f64, |largest, &row| largest.max(a[row * n + column].size()));
                if largest <= 1e-250 || !largest.is_finite() {
                    return Err(SingularMatrix { column: Some(column) });
                }
                let count_of_column = rows.iter().filter(|&&row| is_entry[row * n + column]).count();
                for (row_at, &row) in rows.iter().enumerate() {
                    let size = a[row * n + column].size();
                    if size >= THRESHOLD * largest {
                        let count = (count_of_row[row_at] - 1) * (count_of_column - 1);
                        if count < best_count || count == best_count && size > best_size {
                            (best, best_count, best_size) = (Some((row_at, column_at)), count, size);
                        }
                    }
                }
            }
            let Some((row_at, column_at)) = best else {
                return Err(SingularMatrix { column: columns.first().copied() });
            };
            let (pivot_row, pivot_column) = (rows.swap_remove(row_at), columns.swap_remove(column_at));
            self.row_order.push(pivot_row as u32);
            self.column_order.push(pivot_column as u32);
            let inverse = a[pivot_row * n + pivot_column].inverse();
            for &row in &rows {
                if is_entry[row * n + pivot_column] {
                    let factor = a[row * n + pivot_column].times(inverse);
                    for &column in &columns {
                        if is_entry[pivot_row * n + column] {
                            is_entry[row * n + column] = true;
                            let at = row * n + column;
                            a[at] = a[at].minus_product(factor, a[pivot_row * n + column]);
                        }
                    }
                }
            }
        }
        self.write_down(&is_entry);
        self.is_analysed = true;
        Ok(())
    }

    /// Writes down where the factors have entries.
    fn write_down(&mut self, is_entry: &[bool]) {
        let n = self.n;
        let (mut place_of_row, mut place_of_column) = (vec![0u32; n], vec![0u32; n]);
        for at in 0..n {
            place_of_row[self.row_order[at] as usize] = at as u32;
            place_of_column[self.column_order[at] as usize] = at as u32;
        }
        self.places = self
            .entries
            .iter()
            .map(|&[row, column]| place_of_row[row as usize] * n as u32 + place_of_column[column as usize])
            .collect();
        let is_filled =
            |row: usize, column: usize| is_entry[self.row_order[row] as usize * n + self.column_order[column] as usize];
        self.filled.clear();
        self.cost = 0.0;
        (self.below, self.beside) = (Vec::new(), Vec::new());
        (self.below_starts, self.beside_starts) = (vec![0], vec![0]);
        for k in 0..n {
            self.filled.push((k * n + k) as u32);
            for other in k + 1..n {
                if is_filled(other, k) {
                    self.below.push(other as u32);
                    self.filled.push((other * n + k) as u32);
                }
                if is_filled(k, other) {
                    self.beside.push(other as u32);
                    self.filled.push((k * n + other) as u32);
                }
            }
            let (n_below, n_beside) =
                (self.below.len() as u32 - self.below_starts[k], self.beside.len() as u32 - self.beside_starts[k]);
            self.cost += f64::from(n_below * (n_beside + 2) + 4);
            self.below_starts.push(self.below.len() as u32);
            self.beside_starts.push(self.beside.len() as u32);
        }
    }

    fn below(&self, k: usize) -> &[u32] {
        &self.below[self.below_starts[k] as usize..self.below_starts[k + 1] as usize]
    }

    fn beside(&self, k: usize) -> &[u32] {
        &self.beside[self.beside_starts[k] as usize..self.beside_starts[k + 1] as usize]
    }

    /// Eliminates along the pattern; false where a pivot has become too small for it.
    fn eliminate(&mut self, values: &[T]) -> bool {
        let n = self.n;
        let mut a = std::mem::take(&mut self.a);
        for &place in &self.filled {
            a[place as usize] = T::ZERO;
        }
        for (&place, &value) in self.places.iter().zip(values) {
            a[place as usize] = a[place as usize].plus(value);
        }
        let mut is_good = true;
        for k in 0..n {
            let (upper, lower) = a.split_at_mut((k + 1) * n);
            let pivot_row = &upper[k * n..];
            let pivot = pivot_row[k];
            let inverse = pivot.inverse();
            self.inverses[k] = inverse;
            if !inverse.size().is_finite() {
                is_good = false;
                break;
            }
            let (below, beside) = (self.below(k), self.beside(k));
            // Multipliers are compared with what row scaling allowed when the pivots were chosen; large ones mean growth.
            let mut growth = 0.0f64;
            if beside.len() == n - k - 1 {
                let tail = &pivot_row[k + 1..];
                for &row in below {
                    let row = &mut lower[(row as usize - k - 1) * n..][..n];
                    let factor = row[k].times(inverse);
                    row[k] = factor;
                    growth = growth.max(factor.size());
                    for (value, &above) in row[k + 1..].iter_mut().zip(tail) {
                        *value = value.minus_product(factor, above);
                    }
                }
            } else {
                for &row in below {
                    let row = &mut lower[(row as usize - k - 1) * n..][..n];
                    let factor = row[k].times(inverse);
                    row[k] = factor;
                    growth = growth.max(factor.size());
                    if factor.size() != 0.0 {
                        for &column in beside {
                            let column = column as usize;
                            row[column] = row[column].minus_product(factor, pivot_row[column]);
                        }
                    }
                }
            }
            self.growths[k] = growth;
        }
        self.a = a;
        is_good
    }

    fn solve(&mut self, rhs: &mut [T]) {
        let n = self.n;
        let mut work = std::mem::take(&mut self.work);
        for (value, &row) in work.iter_mut().zip(&self.row_order) {
            *value = rhs[row as usize];
        }
        for k in 0..n {
            let value = work[k];
            if value.size() != 0.0 {
                for &row in self.below(k) {
                    let row = row as usize;
                    work[row] = work[row].minus_product(self.a[row * n + k], value);
                }
            }
        }
        for k in (0..n).rev() {
            let mut value = work[k];
            let row = &self.a[k * n..][..n];
            for &column in self.beside(k) {
                value = value.minus_product(row[column as usize], work[column as usize]);
            }
            work[k] = value.times(self.inverses[k]);
        }
        for (&value, &column) in work.iter().zip(&self.column_order) {
            rhs[column as usize] = value;
        }
        self.work = work;
    }
}

/// Factors of a large matrix.
struct LargeLu<T: Scalar> {
    pattern: SymbolicSparseColMat<usize>,
    symbolic: SymbolicLu<usize>,
    /// Place of each entry of the row-wise pattern in the column-wise values.
    places: Vec<usize>,
    factors: Option<Lu<usize, T>>,
}

impl<T: Scalar> LargeLu<T> {
    fn new(pattern: &Pattern) -> Result<Self, SingularMatrix> {
        let n = pattern.n_rows;
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
        Ok(Self { pattern, symbolic, places, factors: None })
    }

    fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        let mut sorted = vec![T::ZERO; values.len()];
        for (&place, &value) in self.places.iter().zip(values) {
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

    fn solve(&self, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        let Some(factors) = &self.factors else { return Err(SingularMatrix { column: None }) };
        let n = rhs.len();
        factors.solve_in_place(MatMut::from_column_major_slice_mut(rhs, n, 1));
        Ok(())
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
