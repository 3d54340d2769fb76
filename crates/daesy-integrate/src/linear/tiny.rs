//! Elimination along a fixed pattern for up to 16 rows.
//!
//! Entries are in an array of 16 by 16 places, so that a row and a column of four bits each make a place that exists:
//! nothing is checked in loops that are only a few turns long.

use super::Scalar;

/// Largest number of rows.
pub(super) const LIMIT: usize = 16;

const N_PLACES: usize = LIMIT * LIMIT;

/// Rows or columns, as many as are in use.
#[derive(Clone, Copy)]
struct List {
    members: [u8; LIMIT],
    n: u8,
}

impl List {
    const EMPTY: Self = Self { members: [0; LIMIT], n: 0 };

    fn new(members: &[u32]) -> Self {
        let mut list = Self::EMPTY;
        for (known, &member) in list.members.iter_mut().zip(members) {
            *known = member as u8;
        }
        list.n = members.len() as u8;
        list
    }

    #[inline(always)]
    fn members(&self) -> &[u8] {
        &self.members[..usize::from(self.n)]
    }
}

/// Factors, rows and columns in the order of the pivots.
pub(super) struct TinyLu<T> {
    n: usize,
    row_order: List,
    column_order: List,
    /// Rows below and columns beside each pivot that have entries.
    below: [List; LIMIT],
    beside: [List; LIMIT],
    /// Place of each entry of the pattern.
    places: Vec<u8>,
    /// Places that elimination fills.
    fill: Vec<u8>,
    a: [T; N_PLACES],
    inverses: [T; LIMIT],
}

#[inline(always)]
const fn at(row: u8, column: u8) -> usize {
    // A number below 256.
    ((row << 4) | (column & 15)) as usize
}

impl<T: Scalar> TinyLu<T> {
    pub(super) const fn new(n: usize) -> Self {
        Self {
            n,
            row_order: List::EMPTY,
            column_order: List::EMPTY,
            below: [List::EMPTY; LIMIT],
            beside: [List::EMPTY; LIMIT],
            places: Vec::new(),
            fill: Vec::new(),
            a: [T::ZERO; N_PLACES],
            inverses: [T::ZERO; LIMIT],
        }
    }

    pub(super) fn set_orders(&mut self, rows: &[u32], columns: &[u32]) {
        self.row_order = List::new(rows);
        self.column_order = List::new(columns);
    }

    /// Takes the places of the entries and of all entries of the factors, row by row for n columns.
    pub(super) fn set_places(&mut self, places: &[u32], filled: &[u32]) {
        let place = |&place: &u32| at((place as usize / self.n) as u8, (place as usize % self.n) as u8) as u8;
        self.places.clear();
        self.places.extend(places.iter().map(place));
        self.fill.clear();
        self.fill.extend(filled.iter().map(place));
    }

    pub(super) fn set_pivot(&mut self, k: usize, below: &[u32], beside: &[u32]) {
        self.below[k] = List::new(below);
        self.beside[k] = List::new(beside);
    }

    /// Eliminates along the pattern; false where a pivot has become too small for it. Writes the largest multiplier of
    /// each pivot.
    pub(super) fn eliminate(&mut self, values: &[T], growths: &mut [f64]) -> bool {
        let a = &mut self.a;
        for &place in &self.fill {
            a[usize::from(place)] = T::ZERO;
        }
        for (&place, &value) in self.places.iter().zip(values) {
            let place = usize::from(place);
            a[place] = a[place].plus(value);
        }
        let pivots = growths.iter_mut().zip(&mut self.inverses).zip(self.below.iter().zip(&self.beside));
        for (k, ((growth, inverse), (below, beside))) in pivots.enumerate().take(self.n) {
            let k = k as u8;
            let reciprocal = a[at(k, k)].inverse();
            *inverse = reciprocal;
            if !reciprocal.size().is_finite() {
                return false;
            }
            let mut largest = 0.0f64;
            for &row in below.members() {
                let factor = a[at(row, k)].times(reciprocal);
                a[at(row, k)] = factor;
                let size = factor.size();
                largest = if size > largest { size } else { largest };
                for &column in beside.members() {
                    a[at(row, column)] = a[at(row, column)].minus_product(factor, a[at(k, column)]);
                }
            }
            *growth = largest;
        }
        true
    }

    /// Solves in place.
    pub(super) fn solve(&self, rhs: &mut [T]) {
        let a = &self.a;
        let mut work = [T::ZERO; LIMIT];
        for (value, &row) in work.iter_mut().zip(self.row_order.members()) {
            *value = rhs[usize::from(row)];
        }
        for (k, below) in self.below.iter().enumerate().take(self.n) {
            let value = work[k];
            for &row in below.members() {
                let known = &mut work[usize::from(row & 15)];
                *known = known.minus_product(a[at(row, k as u8)], value);
            }
        }
        for (k, (beside, &inverse)) in self.beside.iter().zip(&self.inverses).enumerate().take(self.n).rev() {
            let mut value = work[k];
            for &column in beside.members() {
                value = value.minus_product(a[at(k as u8, column)], work[usize::from(column & 15)]);
            }
            work[k] = value.times(inverse);
        }
        for (&value, &column) in work.iter().zip(self.column_order.members()) {
            rhs[usize::from(column)] = value;
        }
    }
}
