//! Which states keep their values where a when-clause gives new values to others.
//!
//! The states satisfy g(t, s) = 0, so that with some given others must follow. Each state has a class
//! ([`Persistence`]); a class moves only where those below it cannot satisfy the constraints that are broken, and those
//! that break when these states move. Sets of columns of G = dg/ds that can satisfy rows of their own are the
//! independent sets of a matroid, so that such rows are matched to columns greedily, the least persistent class first.
//! A row is open if it has no column yet, or if its column has an entry in an open row and could leave it for that one.
//! The states of a class with an entry in an open row move, by the least change among them; once no row is open, all
//! others keep their values.

use daesy_system::{Pattern, Persistence};

const NONE: u32 = u32::MAX;

/// The classes, those that give way first first.
const CLASSES: [Persistence; 6] = [
    Persistence::Never,
    Persistence::Avoid,
    Persistence::Follows,
    Persistence::Default,
    Persistence::Prefer,
    Persistence::Always,
];

/// The constraint Jacobian where it is not zero, with a matching of some of its rows to columns.
struct Matching {
    columns_of: Vec<Vec<u32>>,
    rows_of: Vec<Vec<u32>>,
    column_of: Vec<u32>,
    row_of: Vec<u32>,
    /// Rows that must be matched: those that are broken, and those with an entry of a state that moves.
    is_active: Vec<bool>,
}

impl Matching {
    fn new(pattern: &Pattern, jacobian: &[f64], is_held: &[bool], is_broken: Vec<bool>) -> Self {
        let (mut columns_of, mut rows_of) = (vec![Vec::new(); pattern.n_rows], vec![Vec::new(); pattern.n_cols]);
        for ((row, column), value) in pattern.entries().zip(jacobian) {
            if *value != 0.0 && !is_held[column] {
                columns_of[row].push(column as u32);
                rows_of[column].push(row as u32);
            }
        }
        let (column_of, row_of) = (vec![NONE; pattern.n_rows], vec![NONE; pattern.n_cols]);
        Self { columns_of, rows_of, column_of, row_of, is_active: is_broken }
    }

    fn open_rows(&self) -> Vec<bool> {
        let is_single = |(&column, &is_active): (&u32, &bool)| is_active && column == NONE;
        let mut is_open: Vec<bool> = self.column_of.iter().zip(&self.is_active).map(is_single).collect();
        let mut queue: Vec<usize> = (0..is_open.len()).filter(|&row| is_open[row]).collect();
        while let Some(row) = queue.pop() {
            for &column in &self.columns_of[row] {
                let left = self.row_of[column as usize];
                if left != NONE && !std::mem::replace(&mut is_open[left as usize], true) {
                    queue.push(left as usize);
                }
            }
        }
        is_open
    }

    /// Matches one more column to an active row, if possible without leaving out one that is matched.
    fn add(&mut self, column: usize) {
        let mut met_from = vec![NONE; self.column_of.len()];
        let mut queue = vec![column as u32];
        let mut next = 0;
        while next < queue.len() {
            let from = queue[next];
            next += 1;
            for &row in &self.rows_of[from as usize] {
                if !self.is_active[row as usize] || met_from[row as usize] != NONE {
                    continue;
                }
                met_from[row as usize] = from;
                if self.column_of[row as usize] == NONE {
                    self.augment(row, &met_from);
                    return;
                }
                queue.push(self.column_of[row as usize]);
            }
        }
    }

    fn augment(&mut self, row: u32, met_from: &[u32]) {
        let mut row = row;
        while row != NONE {
            let column = met_from[row as usize];
            let before = std::mem::replace(&mut self.row_of[column as usize], row);
            self.column_of[row as usize] = column;
            row = before;
        }
    }
}

/// Which states keep their values, those included that are held in any case; see the module.
pub(crate) fn kept(
    pattern: &Pattern,
    jacobian: &[f64],
    is_broken: Vec<bool>,
    is_held: &[bool],
    persistence: impl Fn(usize) -> Persistence,
) -> Vec<bool> {
    let mut matching = Matching::new(pattern, jacobian, is_held, is_broken);
    let mut is_kept = vec![true; pattern.n_cols];
    for class in CLASSES {
        loop {
            let is_open = matching.open_rows();
            let is_called = |column: &usize| {
                let is_asked = is_kept[*column] && persistence(*column) <= class;
                is_asked && matching.rows_of[*column].iter().any(|&row| is_open[row as usize])
            };
            let called: Vec<usize> = (0..pattern.n_cols).filter(is_called).collect();
            if called.is_empty() {
                break;
            }
            for &column in &called {
                is_kept[column] = false;
                for &row in &matching.rows_of[column] {
                    matching.is_active[row as usize] = true;
                }
            }
            called.iter().for_each(|&column| matching.add(column));
        }
    }
    is_kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(rows: &[&[u32]], n_cols: usize) -> Pattern {
        let mut pattern = Pattern { n_rows: rows.len(), n_cols, row_starts: vec![0], columns: Vec::new() };
        for row in rows {
            pattern.columns.extend(*row);
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        pattern
    }

    use Persistence::{Always, Default, Follows, Prefer};

    #[test]
    fn a_preferred_difference_is_kept_and_the_default_follows() {
        // d = b - a with b given: a follows where d is preferred, and d where a is.
        let pattern = pattern(&[&[0, 1, 2]], 3);
        let given_last = [false, false, true];
        let keep = |classes: [Persistence; 3]| kept(&pattern, &[1.0; 3], vec![true], &given_last, |at| classes[at]);
        assert_eq!(keep([Default, Prefer, Always]), [false, true, true]);
        assert_eq!(keep([Prefer, Follows, Always]), [true, false, true]);
        // Neither is preferred: the least change decides.
        assert_eq!(keep([Default, Default, Always]), [false, false, true]);
    }

    #[test]
    fn a_class_moves_only_where_lower_ones_do_not_reach() {
        // e = f(a, b) and a + c = 1 with b given: e follows, and a and c need not.
        let pattern = pattern(&[&[0, 1, 2], &[1, 3]], 4);
        let (is_held, is_broken) = ([false, false, true, false], [true, false]);
        let keep = |values: [f64; 5], last: Persistence| {
            let classes = [Follows, Default, Default, last];
            kept(&pattern, &values, is_broken.to_vec(), &is_held, |at| classes[at])
        };
        assert_eq!(keep([1.0; 5], Default), [false, true, true, true]);
        // Entries that are zero count for nothing: e cannot make up for b, so that a must, and c with it.
        assert_eq!(keep([0.0, 1.0, 1.0, 1.0, 1.0], Default), [true, false, true, false]);
        assert_eq!(keep([0.0, 1.0, 1.0, 1.0, 1.0], Always), [true, false, true, false]);
    }
}
