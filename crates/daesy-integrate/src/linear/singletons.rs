//! Rows and columns with a single entry, taken out before a large matrix is factored.
//!
//! A column with one entry among the rows that are left belongs to an unknown that only one equation knows: the current
//! into a ground, the power of a machine. Its row, which may be a sum over the whole model, would fill the factors;
//! taken out with its column it costs its entries. Likewise a row with one entry gives its unknown at once. What is
//! left,
//!
//! ```text
//! [ R      ] [ x_first ]   [ b ]      R lower triangular: one unknown after the other
//! [ * K    ] [ x_core  ] = [ . ]      K the core, without rows or columns of one entry
//! [ * * C  ] [ x_last  ]   [ . ]      C upper triangular in the order of removal: backwards
//! ```
//!
//! is a block-triangular form that costs one pass over the entries to find.

use daesy_system::Pattern;

use super::{Scalar, SingularMatrix};

/// A row with the entry that is its pivot.
#[derive(Clone, Copy, Debug)]
struct Pivot {
    row: u32,
    column: u32,
    entry: u32,
}

/// A matrix parted into singletons and a core.
pub(super) struct Singletons<T> {
    pattern: Pattern,
    first: Vec<Pivot>,
    last: Vec<Pivot>,
    /// Rows and columns of the core.
    core_rows: Vec<u32>,
    core_columns: Vec<u32>,
    /// Entries of the matrix that are those of the core, row by row.
    core_entries: Vec<u32>,
    /// Entries of core rows in columns that are known before, row by row of the core.
    known_entries: Vec<u32>,
    known_starts: Vec<u32>,
    values: Vec<T>,
    core_values: Vec<T>,
    core_rhs: Vec<T>,
}

impl<T: Scalar> Singletons<T> {
    /// Parts a matrix; the pattern of its core comes with it.
    pub(super) fn new(pattern: &Pattern) -> (Self, Pattern) {
        let n = pattern.n_rows;
        let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut row_counts: Vec<u32> = (0..n).map(|row| pattern.row(row).len() as u32).collect();
        for (row, column) in pattern.entries() {
            rows_of[column].push(row as u32);
        }
        let mut column_counts: Vec<u32> = rows_of.iter().map(|rows| rows.len() as u32).collect();
        let (mut has_row, mut has_column) = (vec![true; n], vec![true; n]);
        let mut single_rows: Vec<u32> = (0..n as u32).filter(|&row| row_counts[row as usize] == 1).collect();
        let mut single_columns: Vec<u32> = (0..n as u32).filter(|&at| column_counts[at as usize] == 1).collect();
        let (mut first, mut last) = (Vec::new(), Vec::new());
        loop {
            let (row, column, is_first) = if let Some(column) = single_columns.pop() {
                if !has_column[column as usize] || column_counts[column as usize] != 1 {
                    continue;
                }
                let Some(&row) = rows_of[column as usize].iter().find(|&&row| has_row[row as usize]) else { continue };
                (row, column, false)
            } else if let Some(row) = single_rows.pop() {
                if !has_row[row as usize] || row_counts[row as usize] != 1 {
                    continue;
                }
                let mut columns = pattern.row(row as usize).map(|entry| pattern.columns[entry]);
                let Some(column) = columns.find(|&column| has_column[column as usize]) else { continue };
                (row, column, true)
            } else {
                break;
            };
            let Some(entry) = pattern.row(row as usize).find(|&entry| pattern.columns[entry] == column) else {
                continue;
            };
            has_row[row as usize] = false;
            has_column[column as usize] = false;
            let pivot = Pivot { row, column, entry: entry as u32 };
            if is_first { &mut first } else { &mut last }.push(pivot);
            for entry in pattern.row(row as usize) {
                let other = pattern.columns[entry];
                column_counts[other as usize] -= 1;
                if has_column[other as usize] && column_counts[other as usize] == 1 {
                    single_columns.push(other);
                }
            }
            for &other in &rows_of[column as usize] {
                row_counts[other as usize] -= 1;
                if has_row[other as usize] && row_counts[other as usize] == 1 {
                    single_rows.push(other);
                }
            }
        }
        let chosen = |has: &[bool]| (0..n as u32).filter(|&at| has[at as usize]).collect::<Vec<u32>>();
        let (core_rows, core_columns) = (chosen(&has_row), chosen(&has_column));
        let mut place_of_column = vec![u32::MAX; n];
        for (place, &column) in core_columns.iter().enumerate() {
            place_of_column[column as usize] = place as u32;
        }
        let mut core =
            Pattern { n_rows: core_rows.len(), n_cols: core_columns.len(), row_starts: vec![0], columns: Vec::new() };
        let (mut core_entries, mut known_entries, mut known_starts) = (Vec::new(), Vec::new(), vec![0]);
        for &row in &core_rows {
            for entry in pattern.row(row as usize) {
                match place_of_column[pattern.columns[entry] as usize] {
                    u32::MAX => known_entries.push(entry as u32),
                    place => {
                        core.columns.push(place);
                        core_entries.push(entry as u32);
                    }
                }
            }
            core.row_starts.push(core.columns.len() as u32);
            known_starts.push(known_entries.len() as u32);
        }
        let parted = Self {
            first,
            last,
            core_values: vec![T::ZERO; core_entries.len()],
            core_rhs: vec![T::ZERO; core_rows.len()],
            core_rows,
            core_columns,
            core_entries,
            known_entries,
            known_starts,
            values: vec![T::ZERO; pattern.n_entries()],
            pattern: pattern.clone(),
        };
        (parted, core)
    }

    /// Whether anything was taken out.
    pub(super) fn is_any(&self) -> bool {
        !(self.first.is_empty() && self.last.is_empty())
    }

    /// The matrix's column of a column of the core.
    pub(super) fn column_of_core(&self, column: usize) -> usize {
        self.core_columns.get(column).map_or(column, |&column| column as usize)
    }

    /// Takes the values of a matrix; gives those of its core.
    pub(super) fn take(&mut self, values: &[T]) -> Result<&[T], SingularMatrix> {
        self.values.copy_from_slice(values);
        for pivot in self.first.iter().chain(&self.last) {
            let size = values[pivot.entry as usize].size();
            if size < 1e-250 || !size.is_finite() {
                return Err(SingularMatrix { column: Some(pivot.column as usize) });
            }
        }
        for (value, &entry) in self.core_values.iter_mut().zip(&self.core_entries) {
            *value = values[entry as usize];
        }
        Ok(&self.core_values)
    }

    /// The unknown of a pivot's row, all others of the row known in `solution`.
    fn solve_row(&self, pivot: Pivot, rhs: T, solution: &[T]) -> T {
        let mut sum = rhs;
        for entry in self.pattern.row(pivot.row as usize).filter(|&entry| entry != pivot.entry as usize) {
            sum = sum.minus_product(self.values[entry], solution[self.pattern.columns[entry] as usize]);
        }
        sum.times(self.values[pivot.entry as usize].inverse()).felt()
    }

    /// Solves in place, the core by `solve_core`.
    pub(super) fn solve(
        &mut self,
        rhs: &mut [T],
        solution: &mut Vec<T>,
        solve_core: impl FnOnce(&mut [T]) -> Result<(), SingularMatrix>,
    ) -> Result<(), SingularMatrix> {
        solution.clear();
        solution.resize(rhs.len(), T::ZERO);
        for at in 0..self.first.len() {
            let pivot = self.first[at];
            solution[pivot.column as usize] = self.solve_row(pivot, rhs[pivot.row as usize], solution);
        }
        for (place, &row) in self.core_rows.iter().enumerate() {
            let mut sum = rhs[row as usize];
            for at in self.known_starts[place] as usize..self.known_starts[place + 1] as usize {
                let entry = self.known_entries[at] as usize;
                sum = sum.minus_product(self.values[entry], solution[self.pattern.columns[entry] as usize]);
            }
            self.core_rhs[place] = sum;
        }
        if !self.core_rhs.is_empty() {
            solve_core(&mut self.core_rhs)?;
        }
        for (&column, &value) in self.core_columns.iter().zip(&self.core_rhs) {
            solution[column as usize] = value;
        }
        for at in (0..self.last.len()).rev() {
            let pivot = self.last[at];
            solution[pivot.column as usize] = self.solve_row(pivot, rhs[pivot.row as usize], solution);
        }
        rhs.copy_from_slice(solution);
        Ok(())
    }
}
