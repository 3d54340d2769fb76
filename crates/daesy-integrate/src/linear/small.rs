//! Elimination along a fixed pattern for small matrices.
//!
//! A matrix is analysed once: pivots are chosen for stability and little fill [@markowitz1957], and where the factors
//! have entries is written down. Later matrices of the same pattern are factored along it without any search.
//! Multipliers that have grown lead to a new choice of pivots. Matrices of up to 16 rows are worked on in memory of
//! fixed size (`tiny`).

use daesy_system::Pattern;

use super::tiny::{self, TinyLu};
use super::{Scalar, SingularMatrix};

/// A pivot may be so much smaller than the largest entry of its column when pivots are chosen.
const THRESHOLD: f64 = 0.1;

/// A multiplier that has grown so much since pivots were chosen asks for a new choice.
const GROWTH: f64 = 1e3;

/// Factors of a small matrix, rows and columns in the order of the pivots, stored densely but worked on only where
/// entries are.
pub(super) struct SmallLu<T> {
    pub(super) n: usize,
    /// Row and column of each entry of the pattern.
    entries: Vec<[u32; 2]>,
    is_analysed: bool,
    /// Operations of an elimination.
    pub(super) cost: f64,
    row_order: Vec<u32>,
    column_order: Vec<u32>,
    /// Place of each entry of the pattern.
    places: Vec<u32>,
    /// Places of all entries of the factors.
    pub(super) filled: Vec<u32>,
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
    /// The factors of a matrix with few rows.
    tiny: Option<Box<TinyLu<T>>>,
}

impl<T: Scalar> SmallLu<T> {
    pub(super) fn new(pattern: &Pattern) -> Self {
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
            a: if n <= tiny::LIMIT { Vec::new() } else { vec![T::ZERO; n * n] },
            inverses: if n <= tiny::LIMIT { Vec::new() } else { vec![T::ZERO; n] },
            growths: vec![0.0; n],
            chosen_growths: vec![0.0; n],
            work: if n <= tiny::LIMIT { Vec::new() } else { vec![T::ZERO; n] },
            tiny: (n <= tiny::LIMIT).then(|| Box::new(TinyLu::new(n))),
        }
    }

    /// Factors along the pattern, with new pivots where the old ones do not do any more.
    pub(super) fn factor(&mut self, values: &[T]) -> Result<(), SingularMatrix> {
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

    /// Chooses pivots by Markowitz' count among entries that are not small in their column, rows scaled to their
    /// largest entry.
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
        self.row_order.reserve(n);
        self.column_order.reserve(n);
        let mut count_of_row: Vec<usize> = Vec::with_capacity(n);
        for _ in 0..n {
            let count = |&row: &usize| columns.iter().filter(|&&column| is_entry[row * n + column]).count();
            count_of_row.clear();
            count_of_row.extend(rows.iter().map(count));
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
        let n_entries = is_entry.iter().filter(|is_entry| **is_entry).count();
        self.filled.reserve(n_entries);
        for list in [&mut self.below, &mut self.beside] {
            list.clear();
            list.reserve(n_entries);
        }
        for starts in [&mut self.below_starts, &mut self.beside_starts] {
            starts.clear();
            starts.reserve(n + 1);
            starts.push(0);
        }
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
        if let Some(tiny) = &mut self.tiny {
            tiny.set_orders(&self.row_order, &self.column_order);
            tiny.set_places(&self.places, &self.filled);
            for k in 0..n {
                let range = |starts: &[u32]| starts[k] as usize..starts[k + 1] as usize;
                tiny.set_pivot(k, &self.below[range(&self.below_starts)], &self.beside[range(&self.beside_starts)]);
            }
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
        if let Some(tiny) = &mut self.tiny {
            return tiny.eliminate(values, &mut self.growths);
        }
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
            // Multipliers are compared with what row scaling allowed when the pivots were chosen; large ones mean
            // growth.
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

    /// Solves in place.
    pub(super) fn solve(&mut self, rhs: &mut [T]) {
        if let Some(tiny) = &self.tiny {
            tiny.solve(rhs);
            return;
        }
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
