//! LU of large matrices with little fill, column by column.
//!
//! Rows are matched to columns for a diagonal without structural zeros, rows and columns ordered by approximate minimum
//! degree. The first matrix is factored with a search for the entries of each column [@gilbert1988], keeping a diagonal
//! pivot unless it is small, as circuits ask for [@davis2010]; later ones go along the same pattern with the same
//! pivots, until one of those decays.

use daesy_system::Pattern;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::sparse::SymbolicSparseColMatRef;
use faer::sparse::linalg::amd;

use super::{Columns, Scalar, SingularMatrix};

/// The diagonal is the pivot unless it is smaller than this fraction of the largest entry of its column.
const DIAGONAL: f64 = 1e-3;

/// A pivot smaller than this fraction of the largest entry of its column asks for new pivots.
const DECAYED: f64 = 1e-6;

/// No pivot, no match.
const NONE: u32 = u32::MAX;

/// Factors of a large matrix of little fill: row scales, L with unit diagonal and U, both by columns, in the order of
/// the pivots.
pub(super) struct SparseLu<T> {
    columns: Columns,
    /// The column eliminated at each place.
    order: Vec<u32>,
    /// The row that is the diagonal of each column.
    diagonal: Vec<u32>,
    /// Operations per entry of the factors, as the ordering foresees.
    pub(super) operations_per_entry: f64,
    pub(super) factor_cost: f64,
    is_analysed: bool,
    /// Place of each row.
    place_of_row: Vec<u32>,
    lower_starts: Vec<u32>,
    lower_rows: Vec<u32>,
    lower: Vec<T>,
    upper_starts: Vec<u32>,
    /// Columns of U by places, each after those it depends on.
    upper_rows: Vec<u32>,
    upper: Vec<T>,
    inverses: Vec<T>,
    row_scales: Vec<f64>,
    values: Vec<T>,
    work: Vec<T>,
}

impl<T: Scalar> SparseLu<T> {
    pub(super) fn new(pattern: &Pattern) -> Result<Self, SingularMatrix> {
        let columns = Columns::new(pattern);
        let n = columns.n;
        let diagonal = match_rows(&columns)?;
        let mut column_of_row = vec![0usize; n];
        for (column, &row) in diagonal.iter().enumerate() {
            column_of_row[row as usize] = column;
        }
        // The pattern with matched rows on the diagonal.
        let mut rows: Vec<usize> = columns.rows.iter().map(|&row| column_of_row[row]).collect();
        for column in 0..n {
            rows[columns.starts[column]..columns.starts[column + 1]].sort_unstable();
        }
        let symbolic = SymbolicSparseColMatRef::new_checked(n, n, &columns.starts, None, &rows);
        let (mut order, mut inverse) = (vec![0usize; n], vec![0usize; n]);
        let mut memory = MemBuffer::new(amd::order_scratch::<usize>(n, rows.len()));
        let stack = MemStack::new(&mut memory);
        let foreseen = amd::order(&mut order, &mut inverse, symbolic, amd::Control::default(), stack)
            .map_err(|_| SingularMatrix { column: None })?;
        Ok(Self {
            operations_per_entry: foreseen.n_mult_subs_lu / (foreseen.n_div + n as f64),
            factor_cost: 2.0 * foreseen.n_mult_subs_lu + 4.0 * rows.len() as f64,
            order: order.iter().map(|&column| column as u32).collect(),
            diagonal,
            is_analysed: false,
            place_of_row: vec![NONE; n],
            lower_starts: Vec::new(),
            lower_rows: Vec::new(),
            lower: Vec::new(),
            upper_starts: Vec::new(),
            upper_rows: Vec::new(),
            upper: Vec::new(),
            inverses: vec![T::ZERO; n],
            row_scales: vec![1.0; n],
            values: vec![T::ZERO; columns.rows.len()],
            work: vec![T::ZERO; n],
            columns,
        })
    }

    pub(super) fn solve_cost(&self) -> f64 {
        (self.lower.len() + self.upper.len() + 4 * self.columns.n) as f64
    }

    pub(super) fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
        self.row_scales.fill(0.0);
        for (&place, &value) in self.columns.places.iter().zip(values) {
            self.values[place] = value;
            let scale = &mut self.row_scales[self.columns.rows[place]];
            *scale = scale.max(value.size());
        }
        for (row, scale) in self.row_scales.iter_mut().enumerate() {
            if *scale == 0.0 || !scale.is_finite() {
                let column = self.diagonal.iter().position(|&diagonal| diagonal as usize == row);
                return Err(SingularMatrix { column });
            }
            *scale = 1.0 / *scale;
        }
        for (value, &row) in self.values.iter_mut().zip(&self.columns.rows) {
            *value = value.times(T::real(self.row_scales[row]));
        }
        if self.is_analysed && self.factor_along() {
            return Ok(());
        }
        self.is_analysed = false;
        self.factor_anew()?;
        self.is_analysed = true;
        Ok(())
    }

    /// Factors with a search for entries and pivots.
    fn factor_anew(&mut self) -> Result<(), SingularMatrix> {
        let n = self.columns.n;
        self.work.fill(T::ZERO);
        self.place_of_row.fill(NONE);
        self.lower_starts = vec![0];
        self.upper_starts = vec![0];
        self.lower_rows.clear();
        self.lower.clear();
        self.upper_rows.clear();
        self.upper.clear();
        let mut seen = vec![NONE; n];
        let (mut stack, mut next_child) = (Vec::new(), Vec::new());
        let mut reached: Vec<u32> = Vec::new();
        let mut candidates: Vec<u32> = Vec::new();
        for k in 0..n {
            let column = self.order[k] as usize;
            reached.clear();
            candidates.clear();
            // Rows that can be reached from those of the column through columns of L, each after those that lead to it.
            for entry in self.columns.starts[column]..self.columns.starts[column + 1] {
                let row = self.columns.rows[entry] as u32;
                if seen[row as usize] == k as u32 {
                    continue;
                }
                seen[row as usize] = k as u32;
                stack.push(row);
                next_child.push(self.first_below(row));
                while let (Some(&row), Some(child)) = (stack.last(), next_child.last_mut()) {
                    let place = self.place_of_row[row as usize];
                    let end = if place == NONE { 0 } else { self.lower_starts[place as usize + 1] };
                    let mut deeper = None;
                    while *child < end {
                        let below = self.lower_rows[*child as usize];
                        *child += 1;
                        if seen[below as usize] != k as u32 {
                            seen[below as usize] = k as u32;
                            deeper = Some(below);
                            break;
                        }
                    }
                    if let Some(below) = deeper {
                        stack.push(below);
                        next_child.push(self.first_below(below));
                    } else {
                        stack.pop();
                        next_child.pop();
                        if place == NONE { candidates.push(row) } else { reached.push(row) }
                    }
                }
            }
            for entry in self.columns.starts[column]..self.columns.starts[column + 1] {
                self.work[self.columns.rows[entry]] = self.values[entry];
            }
            for &row in reached.iter().rev() {
                let place = self.place_of_row[row as usize] as usize;
                let value = self.work[row as usize];
                self.work[row as usize] = T::ZERO;
                self.upper_rows.push(place as u32);
                self.upper.push(value);
                if value.size() != 0.0 {
                    for at in self.lower_starts[place] as usize..self.lower_starts[place + 1] as usize {
                        let below = self.lower_rows[at] as usize;
                        self.work[below] = self.work[below].minus_product(self.lower[at], value);
                    }
                }
            }
            self.upper_starts.push(self.upper.len() as u32);
            let diagonal = self.diagonal[column];
            let is_open = self.place_of_row[diagonal as usize] == NONE && seen[diagonal as usize] == k as u32;
            let Some(pivot) = self.pivot(&candidates, is_open.then_some(diagonal)) else {
                self.work.fill(T::ZERO);
                return Err(SingularMatrix { column: Some(column) });
            };
            let inverse = self.work[pivot as usize].inverse();
            self.inverses[k] = inverse;
            self.place_of_row[pivot as usize] = k as u32;
            for &row in &candidates {
                if row != pivot {
                    self.lower_rows.push(row);
                    self.lower.push(self.work[row as usize].times(inverse));
                }
                self.work[row as usize] = T::ZERO;
            }
            self.lower_starts.push(self.lower.len() as u32);
        }
        // From here on rows go by their places.
        for row in &mut self.lower_rows {
            *row = self.place_of_row[*row as usize];
        }
        Ok(())
    }

    /// The row of the largest entry, or the preferred one where its entry is not much smaller; `None` where there is no
    /// entry to divide by.
    fn pivot(&self, candidates: &[u32], preferred: Option<u32>) -> Option<u32> {
        let (mut pivot, mut largest) = (None, 0.0);
        for &row in candidates {
            let size = self.work[row as usize].size();
            if size > largest {
                (pivot, largest) = (Some(row), size);
            }
        }
        let diagonal = preferred.filter(|&row| self.work[row as usize].size() >= DIAGONAL * largest);
        diagonal.or(pivot).filter(|_| largest >= 1e-250 && largest.is_finite())
    }

    fn first_below(&self, row: u32) -> u32 {
        let place = self.place_of_row[row as usize];
        if place == NONE { 0 } else { self.lower_starts[place as usize] }
    }

    /// Factors along the known pattern; false where a pivot has decayed.
    fn factor_along(&mut self) -> bool {
        let n = self.columns.n;
        let work = &mut self.work;
        for k in 0..n {
            let column = self.order[k] as usize;
            for entry in self.columns.starts[column]..self.columns.starts[column + 1] {
                work[self.place_of_row[self.columns.rows[entry]] as usize] = self.values[entry];
            }
            for at in self.upper_starts[k] as usize..self.upper_starts[k + 1] as usize {
                let place = self.upper_rows[at] as usize;
                let value = work[place];
                work[place] = T::ZERO;
                self.upper[at] = value;
                let range = self.lower_starts[place] as usize..self.lower_starts[place + 1] as usize;
                for (&below, &factor) in self.lower_rows[range.clone()].iter().zip(&self.lower[range]) {
                    work[below as usize] = work[below as usize].minus_product(factor, value);
                }
            }
            let pivot = work[k];
            work[k] = T::ZERO;
            let inverse = pivot.inverse();
            self.inverses[k] = inverse;
            let mut largest = 0.0f64;
            for at in self.lower_starts[k] as usize..self.lower_starts[k + 1] as usize {
                let below = self.lower_rows[at] as usize;
                largest = largest.max(work[below].size());
                self.lower[at] = work[below].times(inverse);
                work[below] = T::ZERO;
            }
            let size = pivot.size();
            let is_good = size >= DECAYED * largest && size > 1e-250 && size.is_finite();
            if !is_good {
                work.fill(T::ZERO);
                return false;
            }
        }
        true
    }

    pub(super) fn solve(&mut self, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        if !self.is_analysed {
            return Err(SingularMatrix { column: None });
        }
        let n = self.columns.n;
        let work = &mut self.work;
        for (row, &value) in rhs.iter().enumerate() {
            work[self.place_of_row[row] as usize] = value.times(T::real(self.row_scales[row]));
        }
        for k in 0..n {
            let value = work[k].felt();
            work[k] = value;
            if value.size() != 0.0 {
                let range = self.lower_starts[k] as usize..self.lower_starts[k + 1] as usize;
                for (&below, &factor) in self.lower_rows[range.clone()].iter().zip(&self.lower[range]) {
                    work[below as usize] = work[below as usize].minus_product(factor, value);
                }
            }
        }
        for k in (0..n).rev() {
            let value = work[k].times(self.inverses[k]).felt();
            rhs[self.order[k] as usize] = value;
            work[k] = T::ZERO;
            if value.size() != 0.0 {
                let range = self.upper_starts[k] as usize..self.upper_starts[k + 1] as usize;
                for (&above, &factor) in self.upper_rows[range.clone()].iter().zip(&self.upper[range]) {
                    work[above as usize] = work[above as usize].minus_product(factor, value);
                }
            }
        }
        Ok(())
    }
}

/// A row for each column such that the entry is not a structural zero: the diagonal where it is there, then the first
/// free row, then augmenting paths.
fn match_rows(columns: &Columns) -> Result<Vec<u32>, SingularMatrix> {
    let n = columns.n;
    let mut row_of = vec![NONE; n];
    let mut column_of = vec![NONE; n];
    for column in 0..n {
        if columns.rows_of(column).contains(&column) {
            row_of[column] = column as u32;
            column_of[column] = column as u32;
        }
    }
    for column in 0..n {
        if row_of[column] == NONE
            && let Some(&row) = columns.rows_of(column).iter().find(|&&row| column_of[row] == NONE)
        {
            row_of[column] = row as u32;
            column_of[row] = column as u32;
        }
    }
    let mut seen = vec![NONE; n];
    let mut next = vec![0usize; n];
    for root in 0..n {
        if row_of[root] != NONE {
            continue;
        }
        // Depth first, without recursion: a path of columns, each of which takes the row of the next.
        let mut path = vec![root];
        seen[root] = root as u32;
        next[root] = columns.starts[root];
        let mut is_found = false;
        while let Some(&column) = path.last() {
            let rows = &columns.rows[next[column]..columns.starts[column + 1]];
            let usable =
                rows.iter().position(|&row| column_of[row] == NONE || seen[column_of[row] as usize] != root as u32);
            let Some(offset) = usable else {
                path.pop();
                continue;
            };
            let row = rows[offset];
            next[column] += offset + 1;
            if column_of[row] == NONE {
                is_found = true;
                break;
            }
            let deeper = column_of[row] as usize;
            seen[deeper] = root as u32;
            next[deeper] = columns.starts[deeper];
            path.push(deeper);
        }
        if !is_found {
            return Err(SingularMatrix { column: Some(root) });
        }
        for &column in path.iter().rev() {
            let row = columns.rows[next[column] - 1];
            row_of[column] = row as u32;
            column_of[row] = column as u32;
        }
    }
    Ok(row_of)
}
