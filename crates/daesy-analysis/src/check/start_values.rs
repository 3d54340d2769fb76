//! Which start values are free, and which follow from them.

use std::cmp::Reverse;

use daesy_integrate::HybridStart;
use daesy_pencil::largest_dense;
use daesy_system::{DaeSystem, Description, Part, Pattern, Point};
use rustc_hash::FxHashMap;

use daesy_study::prepare::Prepared;

/// States by what the constraints leave open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct StartValues {
    /// Names of free start values.
    pub(super) free: Vec<String>,
    /// Names of those that follow.
    pub(super) following: Vec<String>,
}

/// Constraints that hang together and have more states than this are not sorted out.
const MAX_TOGETHER: usize = largest_dense(1);

/// A pivot below this fraction of its row's first size counts as zero.
const PIVOT_TOLERANCE: f64 = 1e-9;

/// Chooses which start values are free: those the user insists on first, then guesses, then the others, each only if
/// the constraints and the ones chosen before leave it open.
///
/// With the constraints linearized, G ds = 0, a state follows if it can be solved for from the states that come before
/// it in this order: the pivots of an elimination that takes the columns from the last to the first. Constraints
/// without a common state do not meet, so that each set of them is eliminated for itself.
pub(super) fn choose_free(prepared: &Prepared, start: &HybridStart, time: f64) -> StartValues {
    let description = prepared.system.description();
    let pattern = prepared.system.pattern(Part::ConstraintByStates);
    let values = constraint_jacobian(prepared, description, pattern, start, time);
    let n = description.states.len();
    let mut follows = vec![false; n];
    let mut order: Vec<usize> = (0..n).collect();
    let is_derivative = |state: usize| description.states[state].name.starts_with("der(");
    order.sort_by_key(|&state| (Reverse(description.states[state].start_origin), is_derivative(state), state));
    let mut rank_of = vec![0; n];
    for (rank, &state) in order.iter().enumerate() {
        rank_of[state] = rank;
    }
    for rows in sets_of_rows(pattern) {
        let mut columns: Vec<usize> =
            rows.iter().flat_map(|&row| pattern.row(row)).map(|entry| pattern.columns[entry] as usize).collect();
        columns.sort_unstable_by_key(|&column| Reverse(rank_of[column]));
        columns.dedup();
        if columns.len() > MAX_TOGETHER {
            return StartValues::default();
        }
        let place: FxHashMap<usize, usize> = columns.iter().enumerate().map(|(at, &column)| (column, at)).collect();
        let mut matrix = vec![vec![0.0; columns.len()]; rows.len()];
        for (line, &row) in matrix.iter_mut().zip(&rows) {
            for entry in pattern.row(row) {
                let column = pattern.columns[entry] as usize;
                line[place[&column]] += values[entry] * description.states[column].nominal;
            }
        }
        for at in pivot_columns(&mut matrix) {
            follows[columns[at]] = true;
        }
    }
    let mut chosen = StartValues::default();
    for (state, follows) in description.states.iter().zip(follows) {
        if follows { &mut chosen.following } else { &mut chosen.free }.push(state.name.clone());
    }
    chosen
}

fn constraint_jacobian(
    prepared: &Prepared,
    description: &Description,
    pattern: &Pattern,
    start: &HybridStart,
    time: f64,
) -> Vec<f64> {
    let mut values = vec![0.0; pattern.n_entries()];
    let mut inputs = vec![0.0; description.n_inputs];
    daesy_integrate::Inputs::fill(&prepared.inputs, time, true, &mut inputs);
    let HybridStart { initialized: start, modes } = start;
    let point = Point {
        time,
        states: &start.states,
        unknowns: &start.unknowns,
        parameters: &start.parameters,
        inputs: &inputs,
        modes,
    };
    prepared.system.evaluator().evaluate(Part::ConstraintByStates, &point, &mut values);
    values
}

/// The rows of a pattern in sets that share no column.
fn sets_of_rows(pattern: &Pattern) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..pattern.n_rows).collect();
    fn root(parent: &mut [usize], mut row: usize) -> usize {
        while parent[row] != row {
            parent[row] = parent[parent[row]];
            row = parent[row];
        }
        row
    }
    let mut first_row = vec![usize::MAX; pattern.n_cols];
    for (row, column) in pattern.entries() {
        if first_row[column] == usize::MAX {
            first_row[column] = row;
        } else {
            let (a, b) = (root(&mut parent, row), root(&mut parent, first_row[column]));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut sets: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for row in 0..pattern.n_rows {
        sets.entry(root(&mut parent, row)).or_default().push(row);
    }
    let mut sets: Vec<Vec<usize>> = sets.into_values().collect();
    sets.sort_unstable();
    sets
}

/// The first columns, from the left, that are independent of those before them, by elimination with row pivoting.
fn pivot_columns(matrix: &mut [Vec<f64>]) -> Vec<usize> {
    let n_columns = matrix.first().map_or(0, Vec::len);
    for line in matrix.iter_mut() {
        let size = line.iter().fold(0.0f64, |size, value| size.max(value.abs()));
        if size > 0.0 {
            line.iter_mut().for_each(|value| *value /= size);
        }
    }
    let mut pivots = Vec::new();
    for column in 0..n_columns {
        let done = pivots.len();
        let Some(best) =
            (done..matrix.len()).max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))
        else {
            break;
        };
        if matrix[best][column].abs() <= PIVOT_TOLERANCE {
            continue;
        }
        matrix.swap(done, best);
        let (above, below) = matrix.split_at_mut(done + 1);
        let pivot = &above[done];
        for line in below {
            let factor = line[column] / pivot[column];
            if factor != 0.0 {
                line[column..].iter_mut().zip(&pivot[column..]).for_each(|(value, pivot)| *value -= factor * pivot);
            }
        }
        pivots.push(column);
    }
    pivots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivots_are_the_first_independent_columns() {
        // Column 1 is twice column 0; column 3 is column 0 plus column 2.
        let mut matrix = vec![vec![1.0, 2.0, 0.0, 1.0], vec![2.0, 4.0, 1.0, 3.0], vec![0.0, 0.0, 1.0, 1.0]];
        assert_eq!(pivot_columns(&mut matrix), [0, 2]);
    }

    #[test]
    fn rows_without_a_common_column_stand_apart() {
        let pattern = Pattern { n_rows: 4, n_cols: 5, row_starts: vec![0, 2, 3, 5, 5], columns: vec![0, 1, 4, 1, 2] };
        assert_eq!(sets_of_rows(&pattern), [vec![0, 2], vec![1], vec![3]]);
    }
}
