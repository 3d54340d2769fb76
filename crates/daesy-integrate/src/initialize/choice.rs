//! Which wishes for start values can hold.
//!
//! The demanded rows J_1 leave the tangent space T = null(J_1). A wish holds if its row, restricted to T, is
//! independent of the rows of the wishes before it: classes one after the other, and within a class in the order of
//! declaration. Independent sets of rows are a matroid, so that this greedy choice keeps as many wishes of the first
//! class as any other, then as many of the second, and so on.
//!
//! Structure gives the choice for all points but special ones: rows matched to columns, each new row by an augmenting
//! path. A search that fails leaves a set of columns that no later path can enter, so that all failures together cost
//! no more than the entries. With the rows chosen the matrix B is square. Where B is regular at some point, the choice
//! is the one that numbers make there: the chosen rows are independent, and a row that was turned down adds nothing to
//! the structural rank, which bounds the rank. Where B is singular at a nearby generic point too, numbers decide by
//! orthogonal reduction of the rows, in the same order.
//!
//! A value that coefficients nearly determine (`b = 1e-8 e` where e is written as well) is independent of what determines
//! it, but whoever lets it hold moves the other one by its difference divided by 1e-8. With the chosen matrix B
//!
//! ```text
//! S_jk = dz_j / dw_k,   B dz = e_k      in units of nominal values, wishes j and k of one class, k chosen, j not
//! ```
//!
//! are these levers. They belong to the solutions of what is demanded, however that is written. Wishes are exchanged until
//! no lever is larger than `LARGEST_LEVER`: |det B| grows by |S_jk| each time, so that this ends.

use daesy_system::Pattern;

use super::problem::Problem;
use super::silenced::Silenced;

/// Rows that determine the columns, as many as there are but for those that keep their guesses.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Choice {
    /// Rows of the square system.
    pub(crate) rows: Vec<usize>,
    /// Columns that keep their values.
    pub(crate) kept: Vec<usize>,
    /// Whether each row must hold: what is demanded, redundant rows included, and the wishes that were chosen.
    pub(crate) is_active: Vec<bool>,
}

impl Choice {
    fn new(problem: &Problem<'_>, rows: Vec<usize>, kept: Vec<usize>) -> Self {
        let mut is_active: Vec<bool> = (0..problem.n_rows()).map(|row| row < problem.n_demanded).collect();
        for &row in &rows {
            is_active[row] = true;
        }
        Self { rows, kept, is_active }
    }

    /// The same with one row for another.
    pub(super) fn exchanged(&self, out: usize, into: usize) -> Self {
        let mut exchanged = self.clone();
        exchanged.rows.retain(|&row| row != out);
        exchanged.rows.push(into);
        exchanged.rows.sort_unstable();
        (exchanged.is_active[out], exchanged.is_active[into]) = (false, true);
        exchanged
    }

    /// Takes rows out that give the value of a single column, which has it already: it is kept then.
    pub(crate) fn keep_given(&mut self, problem: &Problem<'_>, residual: &[f64]) {
        let kept = &mut self.kept;
        self.rows.retain(|&row| match problem.only_column(row) {
            Some(column) if residual[row] == 0.0 => {
                kept.push(column);
                false
            }
            _ => true,
        });
    }

    /// The pattern of the square system, with the place of each of its entries in the whole Jacobian.
    pub(crate) fn square(&self, problem: &Problem<'_>) -> Square {
        let n = self.rows.len();
        let mut place = vec![u32::MAX; problem.n_cols()];
        let mut is_kept = vec![false; problem.n_cols()];
        self.kept.iter().for_each(|&column| is_kept[column] = true);
        let columns: Vec<usize> = (0..problem.n_cols()).filter(|&column| !is_kept[column]).collect();
        for (at, &column) in columns.iter().enumerate() {
            place[column] = at as u32;
        }
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        let mut entries = Vec::new();
        for &row in &self.rows {
            for entry in problem.pattern.row(row) {
                let at = place[problem.pattern.columns[entry] as usize];
                if at != u32::MAX {
                    pattern.columns.push(at);
                    entries.push(entry);
                }
            }
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        Square { pattern, entries, columns }
    }
}

/// A square part of the Jacobian.
pub(crate) struct Square {
    pub(crate) pattern: Pattern,
    /// Its entries in the whole Jacobian.
    pub(crate) entries: Vec<usize>,
    /// Its columns in the whole Jacobian.
    pub(crate) columns: Vec<usize>,
}

/// Rows matched to columns, one row after the other.
pub(super) struct GreedyMatching<'p> {
    pattern: &'p Pattern,
    is_entry: &'p [bool],
    pub(super) row_of: Vec<usize>,
    pub(super) column_of: Vec<usize>,
    /// The row from which a column was met in the search at hand.
    met_from: Vec<usize>,
    /// Columns that searches met and could not leave.
    is_dead: Vec<bool>,
}

pub(super) const NONE: usize = usize::MAX;

impl<'p> GreedyMatching<'p> {
    pub(super) fn new(pattern: &'p Pattern, is_entry: &'p [bool]) -> Self {
        Self {
            pattern,
            is_entry,
            row_of: vec![NONE; pattern.n_cols],
            column_of: vec![NONE; pattern.n_rows],
            met_from: vec![NONE; pattern.n_cols],
            is_dead: vec![false; pattern.n_cols],
        }
    }

    /// Matches one more row, if possible without leaving out one that is matched.
    pub(super) fn add(&mut self, row: usize) -> bool {
        let mut queue = vec![row];
        let mut met: Vec<usize> = Vec::new();
        let mut next = 0;
        while next < queue.len() {
            let from = queue[next];
            next += 1;
            // Unknowns come after states and are the better partners of equations.
            for entry in self.pattern.row(from).rev() {
                let column = self.pattern.columns[entry] as usize;
                if !self.is_entry[entry] || self.is_dead[column] || self.met_from[column] != NONE {
                    continue;
                }
                self.met_from[column] = from;
                met.push(column);
                if self.row_of[column] == NONE {
                    self.augment(column, row);
                    met.iter().for_each(|&column| self.met_from[column] = NONE);
                    return true;
                }
                queue.push(self.row_of[column]);
            }
        }
        for column in met {
            self.met_from[column] = NONE;
            self.is_dead[column] = true;
        }
        false
    }

    fn augment(&mut self, column: usize, root: usize) {
        let mut column = column;
        loop {
            let row = self.met_from[column];
            let before = self.column_of[row];
            self.row_of[column] = row;
            self.column_of[row] = column;
            if row == root {
                return;
            }
            column = before;
        }
    }
}

/// The choice that structure makes, with entries that are not zero.
pub(crate) fn choose_by_structure(problem: &Problem<'_>, is_entry: &[bool]) -> Choice {
    let mut matching = GreedyMatching::new(&problem.pattern, is_entry);
    let silenced = Silenced::find(problem, is_entry);
    silenced.columns.iter().for_each(|&column| matching.is_dead[column] = true);
    let mut rows = Vec::with_capacity(problem.n_cols());
    for row in silenced.order(problem) {
        if rows.len() + silenced.columns.len() == problem.n_cols() {
            break;
        }
        if matching.add(row) {
            rows.push(row);
        }
    }
    rows.sort_unstable();
    let kept = (0..problem.n_cols()).filter(|&column| matching.row_of[column] == NONE).collect();
    Choice::new(problem, rows, kept)
}

/// Columns that hang together beyond this are left to structure.
const MAX_TOGETHER: usize = 500;

/// What is left of a row below this fraction of its size counts as zero.
const RANK_TOLERANCE: f64 = 1e-9;

/// The choice that numbers make with a Jacobian; `None` where too much hangs together.
pub(crate) fn choose_by_numbers(problem: &Problem<'_>, jacobian: &[f64]) -> Option<Choice> {
    let balanced = balance(&problem.pattern, jacobian);
    let is_entry: Vec<bool> = jacobian.iter().map(|value| *value != 0.0).collect();
    let silenced = Silenced::find(problem, &is_entry);
    let mut rank = vec![0; problem.n_rows()];
    silenced.order(problem).enumerate().for_each(|(at, row)| rank[row] = at);
    let mut rows = Vec::with_capacity(problem.n_cols());
    let mut kept = Vec::new();
    for component in components(&problem.pattern, &balanced) {
        if component.columns.len() > MAX_TOGETHER {
            return None;
        }
        let mut basis = Basis::new(&component.columns, problem.n_cols());
        let mut ordered = component.rows;
        ordered.sort_unstable_by_key(|&row| rank[row]);
        let (demanded, wished) = ordered.split_at(ordered.partition_point(|&row| row < problem.n_demanded));
        let mut add = |basis: &mut Basis, row: usize| {
            let entries = problem.pattern.row(row);
            if basis.add(entries.map(|entry| (problem.pattern.columns[entry] as usize, balanced[entry]))) {
                rows.push(row);
            }
        };
        demanded.iter().for_each(|&row| add(&mut basis, row));
        for &column in silenced.columns.iter().filter(|column| component.columns.binary_search(column).is_ok()) {
            if basis.add(std::iter::once((column, 1.0))) {
                kept.push(column);
            }
        }
        for &row in wished {
            if basis.vectors.len() == component.columns.len() {
                break;
            }
            add(&mut basis, row);
        }
        kept.extend(basis.undetermined().into_iter().map(|at| component.columns[at]));
    }
    rows.sort_unstable();
    kept.sort_unstable();
    Some(Choice::new(problem, rows, kept))
}

/// Scales rows and columns until their largest entries are one, so that the units of variables and equations do not
/// matter.
pub(super) fn balance(pattern: &Pattern, jacobian: &[f64]) -> Vec<f64> {
    let mut values = jacobian.to_vec();
    for _ in 0..6 {
        let (mut rows, mut columns) = (vec![0.0f64; pattern.n_rows], vec![0.0f64; pattern.n_cols]);
        for ((row, column), value) in pattern.entries().zip(&values) {
            rows[row] = rows[row].max(value.abs());
            columns[column] = columns[column].max(value.abs());
        }
        for ((row, column), value) in pattern.entries().zip(&mut values) {
            if *value != 0.0 {
                *value /= (rows[row] * columns[column]).sqrt();
            }
        }
    }
    values
}

/// Rows and columns that hang together.
struct Component {
    rows: Vec<usize>,
    columns: Vec<usize>,
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

/// Sets of columns without common rows, each with its rows in their order.
fn components(pattern: &Pattern, values: &[f64]) -> Vec<Component> {
    let mut parent: Vec<usize> = (0..pattern.n_cols).collect();
    let columns_of = |row: usize| {
        pattern.row(row).filter(|&entry| values[entry] != 0.0).map(|entry| pattern.columns[entry] as usize)
    };
    for row in 0..pattern.n_rows {
        let mut columns = columns_of(row);
        let Some(first) = columns.next() else { continue };
        for column in columns {
            let (a, b) = (root(&mut parent, first), root(&mut parent, column));
            parent[a.max(b)] = a.min(b);
        }
    }
    let mut at = vec![usize::MAX; pattern.n_cols];
    let mut found: Vec<Component> = Vec::new();
    for column in 0..pattern.n_cols {
        let root = root(&mut parent, column);
        if at[root] == usize::MAX {
            at[root] = found.len();
            found.push(Component { rows: Vec::new(), columns: Vec::new() });
        }
        found[at[root]].columns.push(column);
    }
    for row in 0..pattern.n_rows {
        if let Some(first) = columns_of(row).next() {
            found[at[root(&mut parent, first)]].rows.push(row);
        }
    }
    found
}

/// An orthonormal basis of the rows taken so far.
struct Basis {
    /// Place of each column, `usize::MAX` for those of others.
    place: Vec<usize>,
    n: usize,
    vectors: Vec<Vec<f64>>,
}

impl Basis {
    fn new(columns: &[usize], n_cols: usize) -> Self {
        let mut place = vec![usize::MAX; n_cols];
        for (at, &column) in columns.iter().enumerate() {
            place[column] = at;
        }
        Self { place, n: columns.len(), vectors: Vec::new() }
    }

    /// Takes a row if it is independent of those taken before.
    fn add(&mut self, entries: impl Iterator<Item = (usize, f64)>) -> bool {
        let mut vector = vec![0.0; self.n];
        for (column, value) in entries {
            if value != 0.0 {
                vector[self.place[column]] += value;
            }
        }
        self.add_vector(vector)
    }

    fn add_vector(&mut self, mut vector: Vec<f64>) -> bool {
        let size = norm(&vector);
        if size == 0.0 || !size.is_finite() {
            return false;
        }
        vector.iter_mut().for_each(|value| *value /= size);
        // Twice is enough for orthogonality to rounding.
        for _ in 0..2 {
            for other in &self.vectors {
                let product: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                if product != 0.0 {
                    vector.iter_mut().zip(other).for_each(|(value, other)| *value -= product * other);
                }
            }
        }
        let rest = norm(&vector);
        if rest <= RANK_TOLERANCE {
            return false;
        }
        vector.iter_mut().for_each(|value| *value /= rest);
        self.vectors.push(vector);
        true
    }

    /// Places that the rows leave open: keeping their values makes the rest determined.
    fn undetermined(mut self) -> Vec<usize> {
        let mut open = Vec::new();
        for at in 0..self.n {
            if self.vectors.len() == self.n {
                break;
            }
            let mut unit = vec![0.0; self.n];
            unit[at] = 1.0;
            if self.add_vector(unit) {
                open.push(at);
            }
        }
        open
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}
