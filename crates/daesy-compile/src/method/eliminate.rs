//! Linear equations in a program: elimination in an order that is fixed when the program is made.
//!
//! The order of pivots is chosen on samples of the matrix: a pivot must not be far below the largest entry of its
//! column in every sample, the same for all lanes if possible, and create little fill [@duff2017]. What the samples
//! cannot promise, the program watches: for each pivot that varies it reports how much larger another entry of its
//! column is.

use crate::operation::{Binary, Unary};
use crate::tape::{TapeBuilder, Value};
use rustc_hash::FxHashMap;

/// An entry of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) column: usize,
}

/// The order in which the rows and columns of a square matrix are eliminated.
#[derive(Clone, Debug, Default)]
pub(super) struct PivotOrder {
    pivots: Vec<Place>,
}

/// A pivot is good enough where it is this fraction of the largest in its column, as in codes for circuits
/// [@davis2010]: rows in different units make honest pivots look small, and three digits are to spare. What a single
/// pivot may lose, a long chain of them loses again and again; where entries grow by more than [`MOST_GROWTH`], pivots
/// have to be larger.
const THRESHOLDS: [f64; 3] = [1e-3, 0.1, 1.0];

/// By how much the largest entry of a column may grow in the course of an elimination: the digits that may be lost.
const MOST_GROWTH: f64 = 1e4;

impl PivotOrder {
    /// Chooses pivots for an `n` by `n` matrix from samples of its entries (`samples[s][e]` belongs to `places[e]`).
    pub(super) fn choose(n: usize, places: &[Place], samples: &[Vec<f64>], is_uniform: &[bool]) -> Self {
        let mut found = Self::default();
        for threshold in THRESHOLDS {
            let growth;
            (found, growth) = Self::choose_above(threshold, n, places, samples, is_uniform);
            if growth <= MOST_GROWTH {
                break;
            }
        }
        found
    }

    /// The same with pivots above a fraction of the largest in their columns where there are some; also by how much
    /// the largest entry of a column grows in a sample.
    fn choose_above(
        threshold: f64,
        n: usize,
        places: &[Place],
        samples: &[Vec<f64>],
        is_uniform: &[bool],
    ) -> (Self, f64) {
        let mut growth = 1.0f64;
        let mut matrices: Vec<Vec<f64>> = samples
            .iter()
            .map(|sample| {
                let mut dense = vec![0.0; n * n];
                for (place, value) in places.iter().zip(sample) {
                    dense[place.row * n + place.column] += value;
                }
                dense
            })
            .collect();
        let mut is_entry = vec![false; n * n];
        let mut varies = vec![false; n * n];
        for (place, &uniform) in places.iter().zip(is_uniform) {
            is_entry[place.row * n + place.column] = true;
            varies[place.row * n + place.column] |= !uniform;
        }
        let largest_of = |matrix: &[f64], rows: &[usize], column: usize| {
            rows.iter().fold(0.0f64, |largest, &row| largest.max(matrix[row * n + column].abs()))
        };
        let mut rows: Vec<usize> = (0..n).collect();
        let mut columns: Vec<usize> = (0..n).collect();
        let sizes: Vec<Vec<f64>> =
            matrices.iter().map(|matrix| columns.iter().map(|&j| largest_of(matrix, &rows, j)).collect()).collect();
        let mut pivots = Vec::with_capacity(n);
        while !rows.is_empty() {
            let mut best: Option<(Place, (u8, bool, usize))> = None;
            let n_in_row: Vec<usize> =
                (0..n).map(|row| columns.iter().filter(|&&column| is_entry[row * n + column]).count()).collect();
            for &column in &columns {
                let n_column = rows.iter().filter(|&&row| is_entry[row * n + column]).count();
                let largest: Vec<f64> = matrices.iter().map(|matrix| largest_of(matrix, &rows, column)).collect();
                for &row in rows.iter().filter(|&&row| is_entry[row * n + column]) {
                    let ratio = matrices
                        .iter()
                        .zip(&largest)
                        .map(
                            |(matrix, &largest)| {
                                if largest > 0.0 { matrix[row * n + column].abs() / largest } else { 0.0 }
                            },
                        )
                        .fold(1.0, f64::min);
                    let key = if ratio >= threshold {
                        (0, varies[row * n + column], (n_in_row[row] - 1) * (n_column - 1))
                    } else {
                        // Among bad ones the least bad counts; steps keep the choice from hanging on rounding.
                        (1, false, (-8.0 * ratio.max(1e-300).log2()) as usize)
                    };
                    if best.is_none_or(|(_, known)| key < known) {
                        best = Some((Place { row, column }, key));
                    }
                }
            }
            let pivot = best.map_or(Place { row: rows[0], column: columns[0] }, |(place, _)| place);
            rows.retain(|&row| row != pivot.row);
            columns.retain(|&column| column != pivot.column);
            let below: Vec<usize> = rows.iter().copied().filter(|&row| is_entry[row * n + pivot.column]).collect();
            let right: Vec<usize> =
                columns.iter().copied().filter(|&column| is_entry[pivot.row * n + column]).collect();
            for &row in &below {
                for &column in &right {
                    is_entry[row * n + column] = true;
                    varies[row * n + column] |= varies[row * n + pivot.column]
                        || varies[pivot.row * n + column]
                        || varies[pivot.row * n + pivot.column];
                }
            }
            for (matrix, sizes) in matrices.iter_mut().zip(&sizes) {
                let by = matrix[pivot.row * n + pivot.column];
                for &row in &rows {
                    let factor = matrix[row * n + pivot.column] / by;
                    if factor != 0.0 && factor.is_finite() {
                        for &column in &columns {
                            let entry = matrix[row * n + column] - factor * matrix[pivot.row * n + column];
                            matrix[row * n + column] = entry;
                            if sizes[column] > 0.0 {
                                growth = growth.max(entry.abs() / sizes[column]);
                            }
                        }
                    }
                }
            }
            pivots.push(pivot);
        }
        (Self { pivots }, growth)
    }
}

/// A factored matrix in a program.
pub(super) struct Factors {
    steps: Vec<Step>,
}

struct Step {
    pivot: Place,
    value: Value,
    reciprocal: Value,
    /// Rows below with their factors.
    below: Vec<(usize, Value)>,
    /// The rest of the pivot's row.
    right: Vec<(usize, Value)>,
}

/// Watches how close a program comes to dividing by zero.
#[derive(Default)]
pub(super) struct Watch {
    growth: Option<Value>,
}

impl Watch {
    pub(super) fn note(&mut self, builder: &mut TapeBuilder, value: Value) {
        self.growth = Some(match self.growth {
            Some(known) => builder.binary(Binary::Max, known, value),
            None => value,
        });
    }

    /// The worst seen, at least 1; none if nothing is watched.
    pub(super) fn growth(&self, builder: &mut TapeBuilder) -> Option<Value> {
        let one = builder.constant(1.0);
        self.growth.map(|growth| builder.binary(Binary::Max, growth, one))
    }

    /// The same, 1 if nothing is watched.
    pub(super) fn value(&self, builder: &mut TapeBuilder) -> Value {
        self.growth(builder).unwrap_or_else(|| builder.constant(1.0))
    }
}

impl Factors {
    /// Factors a matrix in a given order.
    pub(super) fn new(
        builder: &mut TapeBuilder,
        order: &PivotOrder,
        mut entries: FxHashMap<Place, Value>,
        watch: Option<&mut Watch>,
    ) -> Self {
        let n = order.pivots.len();
        let mut rows: Vec<usize> = (0..n).collect();
        let mut columns: Vec<usize> = (0..n).collect();
        let one = builder.constant(1.0);
        let zero = builder.constant(0.0);
        let mut steps = Vec::with_capacity(n);
        let mut seen = Watch::default();
        for &pivot in &order.pivots {
            rows.retain(|&row| row != pivot.row);
            columns.retain(|&column| column != pivot.column);
            let by = entries.get(&pivot).copied().unwrap_or(zero);
            let reciprocal = builder.div(one, by);
            let mut below = Vec::new();
            let mut others: Option<Value> = None;
            for &row in &rows {
                if let Some(&value) = entries.get(&Place { row, column: pivot.column }) {
                    let factor = builder.mul(value, reciprocal);
                    below.push((row, factor));
                    let size = builder.unary(Unary::Abs, factor);
                    others = Some(others.map_or(size, |known| builder.binary(Binary::Max, known, size)));
                }
            }
            if let Some(others) = others
                && watch.is_some()
                && !builder.is_uniform(by)
            {
                seen.note(builder, others);
            }
            let right: Vec<(usize, Value)> = columns
                .iter()
                .filter_map(|&column| entries.get(&Place { row: pivot.row, column }).map(|&value| (column, value)))
                .collect();
            for &(row, factor) in &below {
                for &(column, value) in &right {
                    let product = builder.mul(factor, value);
                    let place = Place { row, column };
                    let updated = match entries.get(&place) {
                        Some(&known) => builder.sub(known, product),
                        None => builder.neg(product),
                    };
                    entries.insert(place, updated);
                }
            }
            steps.push(Step { pivot, value: by, reciprocal, below, right });
        }
        if let (Some(watch), Some(growth)) = (watch, seen.growth) {
            watch.note(builder, growth);
        }
        Self { steps }
    }

    /// Solves A x = b, one of several such systems.
    pub(super) fn solve(&self, builder: &mut TapeBuilder, rhs: &[Value]) -> Vec<Value> {
        self.solve_with(builder, rhs, |builder, sum, step| builder.mul(sum, step.reciprocal))
    }

    /// Solves A x = b, the only one: a reciprocal that nothing else needs is not worth it.
    pub(super) fn solve_once(&self, builder: &mut TapeBuilder, rhs: &[Value]) -> Vec<Value> {
        self.solve_with(builder, rhs, |builder, sum, step| {
            if step.below.is_empty() { builder.div(sum, step.value) } else { builder.mul(sum, step.reciprocal) }
        })
    }

    fn solve_with(
        &self,
        builder: &mut TapeBuilder,
        rhs: &[Value],
        divide: impl Fn(&mut TapeBuilder, Value, &Step) -> Value,
    ) -> Vec<Value> {
        let mut y = rhs.to_vec();
        for step in &self.steps {
            for &(row, factor) in &step.below {
                let product = builder.mul(factor, y[step.pivot.row]);
                y[row] = builder.sub(y[row], product);
            }
        }
        let mut x = vec![builder.constant(0.0); rhs.len()];
        for step in self.steps.iter().rev() {
            let mut sum = y[step.pivot.row];
            for &(column, value) in &step.right {
                let product = builder.mul(value, x[column]);
                sum = builder.sub(sum, product);
            }
            x[step.pivot.column] = divide(builder, sum, step);
        }
        x
    }
}

/// Solves M x = b for a symmetric, positive semidefinite M given by its lower triangle (`lower[i][j]`, j <= i); a
/// direction in which M is singular to rounding gets x = 0.
pub(super) fn solve_semidefinite(builder: &mut TapeBuilder, lower: &[Vec<Option<Value>>], rhs: &[Value]) -> Vec<Value> {
    /// A pivot below this fraction of its diagonal entry counts as zero.
    const REDUNDANT: f64 = 1e-11;
    let n = rhs.len();
    let mut l: Vec<Vec<Option<Value>>> = lower.to_vec();
    let mut reciprocals = Vec::with_capacity(n);
    let (zero, one, small) = (builder.constant(0.0), builder.constant(1.0), builder.constant(REDUNDANT));
    for k in 0..n {
        let pivot = l[k][k].unwrap_or(zero);
        let diagonal = lower[k][k].unwrap_or(zero);
        let reciprocal = builder.div(one, pivot);
        let reciprocal = if pivot == diagonal {
            reciprocal
        } else {
            let limit = builder.mul(diagonal, small);
            let is_regular = builder.binary(Binary::Less, limit, pivot);
            builder.select(is_regular, reciprocal, zero)
        };
        reciprocals.push(reciprocal);
        for i in k + 1..n {
            let Some(entry) = l[i][k] else { continue };
            let factor = builder.mul(entry, reciprocal);
            for j in k + 1..=i {
                let Some(other) = l[j][k] else { continue };
                let product = builder.mul(factor, other);
                l[i][j] = Some(match l[i][j] {
                    Some(known) => builder.sub(known, product),
                    None => builder.neg(product),
                });
            }
        }
    }
    let mut y = rhs.to_vec();
    for k in 0..n {
        for i in k + 1..n {
            if let Some(entry) = l[i][k] {
                let factor = builder.mul(entry, reciprocals[k]);
                let product = builder.mul(factor, y[k]);
                y[i] = builder.sub(y[i], product);
            }
        }
    }
    let mut x: Vec<Value> = (0..n).map(|k| builder.mul(y[k], reciprocals[k])).collect();
    for k in (0..n).rev() {
        for i in k + 1..n {
            if let Some(entry) = l[i][k] {
                let factor = builder.mul(entry, reciprocals[k]);
                let product = builder.mul(factor, x[i]);
                x[k] = builder.sub(x[k], product);
            }
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, Interpreter, TapeOptions};

    /// Entries of a matrix as inputs of a program that solves it.
    fn solve<const N: usize>(matrix: &[[f64; N]; N], exact: [f64; N], is_uniform: fn(&Place) -> bool) -> Vec<f64> {
        let rhs = matrix.map(|row| row.iter().zip(&exact).map(|(entry, x)| entry * x).sum::<f64>());
        let places: Vec<Place> = (0..N * N)
            .map(|at| Place { row: at / N, column: at % N })
            .filter(|place| matrix[place.row][place.column] != 0.0)
            .collect();
        let values: Vec<f64> = places.iter().map(|place| matrix[place.row][place.column]).collect();
        let uniform: Vec<bool> = places.iter().map(is_uniform).collect();
        let order = PivotOrder::choose(N, &places, std::slice::from_ref(&values), &uniform);
        let n = places.len();
        let mut builder = TapeBuilder::new(n + N, TapeOptions::default().with_structural_zeros());
        let entries = places.iter().enumerate().map(|(at, &place)| (place, builder.input(at))).collect();
        let mut watch = Watch::default();
        let factors = Factors::new(&mut builder, &order, entries, Some(&mut watch));
        let right: Vec<Value> = (0..N).map(|at| builder.input(n + at)).collect();
        let mut outputs = factors.solve(&mut builder, &right);
        outputs.push(watch.value(&mut builder));
        let mut inputs = values;
        inputs.extend(rhs);
        Interpreter::new(builder.finish(&outputs).unwrap()).evaluate(&inputs).unwrap()
    }

    #[test]
    fn elimination_avoids_zero_pivots_and_solves() {
        let matrix = [[0.0, 2.0, 0.0, 1.0], [1e-9, 0.0, 3.0, 0.0], [4.0, 0.0, 1.0, 0.0], [0.0, 0.0, 2.0, 5.0]];
        let exact = [1.0, -2.0, 0.5, 3.0];
        let found = solve(&matrix, exact, |_| false);
        for (found, exact) in found.iter().zip(exact) {
            assert!((found - exact).abs() < 1e-13);
        }
        assert!(found[4] <= 10.0, "no entry of a column is far larger than its pivot: {}", found[4]);
    }

    /// A ladder, whose diagonal differs between lanes: the entries beside it are the same for all, but one after the
    /// other as pivots they would make entries grow by 23 each.
    #[test]
    fn long_chains_of_small_pivots_are_avoided() {
        let entry = |row: usize, column: usize| match row.abs_diff(column) {
            0 => 0.1,
            1 => 0.0044 * (column as f64 - row as f64),
            _ => 0.0,
        };
        let matrix: [[f64; 30]; 30] = std::array::from_fn(|row| std::array::from_fn(|column| entry(row, column)));
        let exact = std::array::from_fn(|at| 1.0 + at as f64);
        let found = solve(&matrix, exact, |place| place.row != place.column);
        for (found, exact) in found.iter().zip(exact) {
            assert!((found - exact).abs() < 1e-10, "{found} {exact}");
        }
    }

    #[test]
    fn redundant_rows_of_a_semidefinite_matrix_are_left_alone() {
        // G G' for the rows (1, 2), (2, 4) and (0, 1): the second repeats the first.
        let lower = [vec![5.0], vec![10.0, 20.0], vec![2.0, 4.0, 1.0]];
        let mut builder = TapeBuilder::new(9, TapeOptions::default().with_structural_zeros());
        let mut at = 0;
        let values: Vec<Vec<Option<Value>>> = lower
            .iter()
            .map(|row| {
                row.iter()
                    .map(|_| {
                        at += 1;
                        Some(builder.input(at - 1))
                    })
                    .collect()
            })
            .collect();
        let rhs: Vec<Value> = (6..9).map(|at| builder.input(at)).collect();
        let outputs = solve_semidefinite(&mut builder, &values, &rhs);
        let mut inputs: Vec<f64> = lower.iter().flatten().copied().collect();
        inputs.extend([3.0, 6.0, 1.0]);
        let x = Interpreter::new(builder.finish(&outputs).unwrap()).evaluate(&inputs).unwrap();
        assert_eq!(x[1], 0.0);
        assert!((5.0 * x[0] + 2.0 * x[2] - 3.0).abs() < 1e-12 && (2.0 * x[0] + x[2] - 1.0).abs() < 1e-12);
    }
}
