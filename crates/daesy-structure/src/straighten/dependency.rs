//! Which equations depend on others in their leading derivatives, at all of several points.
//!
//! At each point a block of the system Jacobian is scaled and reduced row by row. The points share their pivots: a
//! pivot is the column whose entry is largest at the point where it is smallest, so that it is safe at all of them. But
//! a run comes to other points, too, and is divided by the pivot there: a pivot that never changes vanishes nowhere, and
//! one that has the same sign at all points is less likely to vanish between them than one that has not. Such rows and
//! columns come first. A row depends on those before it if nothing is left of it at any point. Where something is left
//! at some points only, the others are special and take no further part.
//!
//! Equations that were rewritten have coefficients which cancel identically but not by simplification, and are
//! evaluated to rounding errors. Rounding errors change completely when the point moves by a rounding error;
//! coefficients do not.

use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::regular::{RegularDae, SolveBlock};
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{Differentiator, Evaluator, ExprId, Graph};
use faer::Mat;

use super::StraightenError;
use crate::arrays::JetPoint;

/// Blocks with a singular value below this fraction of the largest are singular, after scaling rows and columns.
const SINGULAR: f64 = 1e-9;

/// Multipliers below this fraction of the largest are rounding errors.
const NO_MULTIPLIER: f64 = 1e-8;

/// By this fraction a point is moved to tell coefficients from rounding errors, and so often: a rounding error is a
/// small multiple of the last digit, and the same one time in three.
const SHAKE: f64 = 1e-12;
const N_SHAKES: u32 = 10;

/// Entries that change by more than this fraction then are rounding errors.
const UNSTEADY: f64 = 1e-2;

/// An equation that depends on others in the leading derivatives of a block.
pub(super) struct Dependency {
    /// The equation r, as a position in the regular form.
    pub(super) row: usize,
    /// The equations I.
    pub(super) others: Vec<usize>,
    /// The unknowns J, one for each equation in I, in the order of elimination.
    pub(super) pivots: Vec<usize>,
    /// Whether these pivots stay the same numbers all the time.
    pub(super) are_fixed: bool,
    /// All unknowns of the block.
    pub(super) block: std::ops::Range<usize>,
}

/// At most one dependency in each block that is singular at all points.
pub(super) fn find_dependencies(regular: &RegularDae, points: &[JetPoint]) -> Result<Vec<Dependency>, StraightenError> {
    let mut graph = regular.flat.graph.clone();
    let leaves: Vec<Leaf> =
        regular.unknowns.iter().chain(&regular.states).map(|leaf| Leaf::der(leaf.var, leaf.order)).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let latest = points.iter().fold(0.0f64, |latest, point| latest.max(point.time.abs()));
    let shaken = |point| (1..=N_SHAKES).map(|seed| shaken(point, latest, seed)).collect();
    let samples: Vec<Sample<'_>> = points.iter().map(|point| Sample { point, beside: shaken(point) }).collect();
    let mut found = Vec::new();
    for block in &regular.blocks {
        let entries = BlockEntries::new(regular, block, &mut graph, &mut differentiator);
        let blocks: Vec<SampledBlock> = samples.iter().filter_map(|sample| entries.at(&graph, sample)).collect();
        if blocks.is_empty() && !points.is_empty() {
            return Err(StraightenError::NotFinite);
        }
        found.extend(dependency(regular, block, &blocks, &entries.are_numbers(&regular.flat, &graph)));
    }
    Ok(found)
}

/// A point and some that differ from it by rounding errors.
struct Sample<'a> {
    point: &'a JetPoint,
    beside: Vec<JetPoint>,
}

/// A point moved by a fraction of its values and of the latest of all times: time, too, moves where it is zero.
fn shaken(point: &JetPoint, latest: f64, seed: u32) -> JetPoint {
    let mut moved = point.clone();
    let mut state = 0x9E37_79B9u32.wrapping_mul(seed);
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24) - 0.5
    };
    moved.time += SHAKE * latest * random();
    for value in moved.coefficients.iter_mut().flatten() {
        *value *= 1.0 + SHAKE * random();
    }
    moved
}

/// The entries of a block of the system Jacobian as expressions.
struct BlockEntries {
    len: usize,
    rows: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<ExprId>,
    /// Rows and derivatives by everything else.
    others: Vec<(usize, ExprId)>,
}

/// A block of the system Jacobian at a point.
struct SampledBlock {
    /// Rows and columns scaled.
    matrix: Mat<f64>,
    /// By row: how much of it is in the block, of all its derivatives. Where little is, it may become nothing on the
    /// way.
    weights: Vec<f64>,
}

impl BlockEntries {
    fn new(regular: &RegularDae, block: &SolveBlock, graph: &mut Graph, differentiator: &mut Differentiator) -> Self {
        let (start, len) = (block.start as usize, block.len as usize);
        let mut made = Self { len, rows: Vec::new(), columns: Vec::new(), values: Vec::new(), others: Vec::new() };
        for row in 0..len {
            for entry in differentiator.gradient(graph, regular.equations[start + row].residual) {
                let column = entry.column as usize;
                if (start..start + len).contains(&column) {
                    made.rows.push(row);
                    made.columns.push(column - start);
                    made.values.push(entry.value);
                } else {
                    made.others.push((row, entry.value));
                }
            }
        }
        made
    }

    /// By row and column: whether the entry is the same number all the time, zero included.
    fn are_numbers(&self, flat: &FlatDae, graph: &Graph) -> Vec<bool> {
        let mut all = vec![true; self.len * self.len];
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        for ((&row, &column), &value) in self.rows.iter().zip(&self.columns).zip(&self.values) {
            reach.leaves(graph, &[value], &mut leaves);
            all[row * self.len + column] &= leaves.iter().all(|leaf| match leaf {
                Leaf::Time => false,
                Leaf::Var { var, .. } => flat.variables[var.index()].kind == VariableKind::Parameter,
            });
        }
        all
    }

    /// The block at a point without rounding errors, rows and columns scaled; None if an entry is not finite.
    fn at(&self, graph: &Graph, sample: &Sample<'_>) -> Option<SampledBlock> {
        let mut evaluator = Evaluator::new();
        let (mut here, mut beside) = (Vec::new(), Vec::new());
        evaluator.evaluate(graph, &self.values, sample.point, &mut here);
        if here.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut is_steady = vec![true; here.len()];
        for moved in &sample.beside {
            evaluator.evaluate(graph, &self.values, moved, &mut beside);
            for ((is_steady, &value), &near) in is_steady.iter_mut().zip(&here).zip(&beside) {
                // Beside a point on the border of its domain an entry has no value, which says nothing.
                *is_steady &= near.is_nan() || (value - near).abs() <= UNSTEADY * value.abs().max(near.abs());
            }
        }
        let mut matrix = Mat::<f64>::zeros(self.len, self.len);
        for (at, &value) in here.iter().enumerate().filter(|(at, _)| is_steady[*at]) {
            matrix[(self.rows[at], self.columns[at])] += value;
        }
        let mut sizes = vec![0.0f64; self.len];
        for &(row, value) in &self.others {
            let value = evaluator.evaluate_one(graph, value, sample.point).abs();
            sizes[row] = sizes[row].max(if value.is_finite() { value } else { 0.0 });
        }
        let weight = |row: usize| {
            let own = (0..self.len).fold(0.0f64, |size, column| size.max(matrix[(row, column)].abs()));
            if own > 0.0 { own / own.max(sizes[row]) } else { 0.0 }
        };
        let weights = (0..self.len).map(weight).collect();
        Some(SampledBlock { matrix: scaled(matrix), weights })
    }
}

/// Scales rows and columns to largest entry one.
fn scaled(mut matrix: Mat<f64>) -> Mat<f64> {
    let (m, n) = matrix.shape();
    for _ in 0..3 {
        for row in 0..m {
            let size = (0..n).fold(0.0f64, |size, column| size.max(matrix[(row, column)].abs()));
            if size > 0.0 {
                (0..n).for_each(|column| matrix[(row, column)] /= size);
            }
        }
        for column in 0..n {
            let size = (0..m).fold(0.0f64, |size, row| size.max(matrix[(row, column)].abs()));
            if size > 0.0 {
                (0..m).for_each(|row| matrix[(row, column)] /= size);
            }
        }
    }
    matrix
}

fn is_singular(matrix: &Mat<f64>) -> bool {
    daesy_pencil::svd(matrix.as_ref(), daesy_pencil::Vectors::None).is_ok_and(|parts| {
        let largest = parts.s.first().copied().unwrap_or(0.0);
        parts.s.last().is_none_or(|&smallest| smallest <= SINGULAR * largest)
    })
}

/// Takes the rows of a singular block in the order of their differentiations, most first, until one depends on those
/// before it.
fn dependency(
    regular: &RegularDae,
    block: &SolveBlock,
    sampled: &[SampledBlock],
    is_number: &[bool],
) -> Option<Dependency> {
    if sampled.iter().any(|it| !is_singular(&it.matrix)) {
        return None;
    }
    let (start, len) = (block.start as usize, block.len as usize);
    let line = |row: usize| Line {
        values: sampled.iter().map(|it| (0..len).map(|column| it.matrix[(row, column)]).collect()).collect(),
        is_number: (0..len).map(|column| is_number[row * len + column]).collect(),
    };
    let weights: Vec<f64> =
        (0..len).map(|row| sampled.iter().fold(1.0f64, |least, it| least.min(it.weights[row]))).collect();
    let mut rest: Vec<usize> = (0..len).collect();
    rest.sort_by_key(|&row| std::cmp::Reverse(regular.equations[start + row].differentiated));
    let mut elimination = Elimination::new(len, sampled.len());
    while let Some(&first) = rest.first() {
        let level = |row: usize| regular.equations[start + row].differentiated;
        let n_equal = rest.iter().take_while(|&&row| level(row) == level(first)).count();
        let at = elimination.best(&rest[..n_equal], &weights, &line);
        let row = rest.remove(at);
        if let Some(others) = elimination.add(row, line(row)) {
            let mut inner = Elimination::new(len, sampled.len());
            for &other in &others {
                inner.add(other, line(other));
            }
            return Some(Dependency {
                row: start + row,
                others: inner.rows.iter().map(|reduced| start + reduced.row).collect(),
                pivots: inner.rows.iter().map(|reduced| start + reduced.pivot).collect(),
                are_fixed: inner.rows.iter().all(|reduced| reduced.line.is_number[reduced.pivot]),
                block: start..start + len,
            });
        }
    }
    None
}

/// Rows reduced one after the other at all points, with the multipliers that made them.
struct Elimination {
    rows: Vec<ReducedRow>,
    n: usize,
    /// Whether a point still takes part.
    is_live: Vec<bool>,
}

/// A row at all points.
#[derive(Clone)]
struct Line {
    /// By point and column.
    values: Vec<Vec<f64>>,
    /// By column: whether the entry is the same number everywhere, but for the scaling of rows and columns.
    is_number: Vec<bool>,
}

/// How sure it is that an entry vanishes nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Safety {
    /// It has both signs, or nearly vanishes at one of the points.
    Doubtful,
    /// It has one sign at all points.
    OneSign,
    /// It is a number.
    Number,
}

struct ReducedRow {
    row: usize,
    pivot: usize,
    line: Line,
    /// The line at each point as a combination of original rows.
    multipliers: Vec<Vec<f64>>,
}

fn size_of(line: &[f64]) -> f64 {
    line.iter().fold(0.0f64, |size, value| size.max(value.abs()))
}

fn subtract(from: &mut [f64], factor: f64, line: &[f64]) {
    from.iter_mut().zip(line).for_each(|(value, other)| *value -= factor * other);
}

impl Line {
    /// How sure it is that an entry vanishes nowhere, as the points that count say.
    fn safety(&self, column: usize, counting: &[usize]) -> Safety {
        /// An entry below this fraction of the largest in its row is too small to be divided by.
        const SMALL: f64 = 0.05;
        let values = counting.iter().map(|&at| (self.values[at][column], size_of(&self.values[at])));
        let is_large = values.clone().all(|(value, size)| value.abs() > SMALL * size);
        let has_one_sign = values.clone().all(|(value, _)| value > 0.0) || values.clone().all(|(value, _)| value < 0.0);
        match (is_large && has_one_sign, self.is_number[column]) {
            (false, _) => Safety::Doubtful,
            (true, false) => Safety::OneSign,
            (true, true) => Safety::Number,
        }
    }
}

impl Elimination {
    fn new(n: usize, n_points: usize) -> Self {
        Self { rows: Vec::new(), n, is_live: vec![true; n_points] }
    }

    /// The position of the row to add next: the first of which about as much is left, at the point where least is, as
    /// of any other. A row that vanishes at one of the points, such as the start, gives no pivot that can be divided by
    /// there.
    fn best(&self, rows: &[usize], weights: &[f64], line: &dyn Fn(usize) -> Line) -> usize {
        /// Among more rows than this the first is taken.
        const MAX_COMPARED: usize = 64;
        /// Rows of which at least this fraction of the most is left are as good.
        const AS_GOOD: f64 = 0.3;
        if rows.len() < 2 || rows.len() > MAX_COMPARED {
            return 0;
        }
        let left = |&row: &usize| {
            let mut line = line(row);
            self.reduce(&mut line, &mut []);
            let live: Vec<usize> = (0..line.values.len()).filter(|&at| self.is_live[at]).collect();
            let least = live.iter().fold(f64::INFINITY, |least, &at| least.min(size_of(&line.values[at])));
            let safety = (0..self.n).map(|column| line.safety(column, &live)).max().unwrap_or(Safety::Doubtful);
            (weights[row] * least, safety)
        };
        let left: Vec<(f64, Safety)> = rows.iter().map(left).collect();
        let most = left.iter().fold(0.0f64, |most, &(left, _)| most.max(left));
        let is_good = |at: &usize| left[*at].0 >= AS_GOOD * most;
        let best = (0..rows.len()).filter(is_good).max_by_key(|&at| (left[at].1, std::cmp::Reverse(at)));
        best.unwrap_or(0)
    }

    /// Subtracts the multiples of earlier rows that remove their pivots, from multipliers too where some are given.
    fn reduce(&self, line: &mut Line, multipliers: &mut [Vec<f64>]) {
        for ReducedRow { pivot, line: by, multipliers: of_row, .. } in &self.rows {
            let is_number = line.is_number[*pivot] && by.is_number[*pivot];
            for at in (0..line.values.len()).filter(|&at| self.is_live[at]) {
                let factor = line.values[at][*pivot] / by.values[at][*pivot];
                if factor == 0.0 {
                    continue;
                }
                subtract(&mut line.values[at], factor, &by.values[at]);
                line.values[at][*pivot] = 0.0;
                for (own, (other, value)) in line.is_number.iter_mut().zip(by.is_number.iter().zip(&by.values[at])) {
                    *own &= *value == 0.0 || is_number && *other;
                }
                if let Some(of_point) = multipliers.get_mut(at) {
                    subtract(of_point, factor, &of_row[at]);
                }
            }
        }
    }

    /// Adds a row given at all points, or says which earlier rows it is a combination of, in the order in which they
    /// were added.
    fn add(&mut self, row: usize, mut line: Line) -> Option<Vec<usize>> {
        let n_points = line.values.len();
        let sizes: Vec<f64> = line.values.iter().map(|line| size_of(line)).collect();
        let mut multipliers = vec![vec![0.0; self.n]; n_points];
        for of_point in &mut multipliers {
            of_point[row] = 1.0;
        }
        self.reduce(&mut line, &mut multipliers);
        let left: Vec<f64> = line.values.iter().map(|line| size_of(line)).collect();
        let is_independent = |at: &usize| self.is_live[*at] && left[*at] > SINGULAR * sizes[*at].max(f64::MIN_POSITIVE);
        let counting: Vec<usize> = (0..n_points).filter(is_independent).collect();
        if counting.is_empty() {
            return Some(self.support(row, &multipliers));
        }
        // The entry at the worst of the points that count, against the largest there.
        let share = |at: usize, column: usize| line.values[at][column].abs() / left[at];
        let worst = |column: usize| counting.iter().fold(f64::INFINITY, |worst, &at| worst.min(share(at, column)));
        let typical = |column: usize| -> f64 { counting.iter().map(|&at| share(at, column)).sum() };
        let compare = |a: &usize, b: &usize| {
            let by_safety = line.safety(*a, &counting).cmp(&line.safety(*b, &counting));
            by_safety.then_with(|| worst(*a).total_cmp(&worst(*b))).then_with(|| typical(*a).total_cmp(&typical(*b)))
        };
        let pivot = (0..self.n).max_by(compare).unwrap_or(0);
        for (at, (is_live, left)) in self.is_live.iter_mut().zip(&left).enumerate() {
            *is_live = counting.contains(&at) && line.values[at][pivot].abs() > SINGULAR * left;
        }
        self.rows.push(ReducedRow { row, pivot, line, multipliers });
        None
    }

    /// The earlier rows that take part in a combination at one of the points.
    fn support(&self, row: usize, multipliers: &[Vec<f64>]) -> Vec<usize> {
        let mut takes_part = vec![false; self.n];
        for (of_point, _) in multipliers.iter().zip(&self.is_live).filter(|(_, is_live)| **is_live) {
            let largest = size_of(of_point);
            for (at, multiplier) in of_point.iter().enumerate() {
                takes_part[at] |= at != row && multiplier.abs() > NO_MULTIPLIER * largest;
            }
        }
        self.rows.iter().map(|reduced| reduced.row).filter(|&at| takes_part[at]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that changes from point to point.
    fn line(values: &[&[f64]]) -> Line {
        Line {
            values: values.iter().map(|value| value.to_vec()).collect(),
            is_number: vec![false; values.first().map_or(0, |value| value.len())],
        }
    }

    #[test]
    fn a_row_depends_on_others_only_where_it_does_at_all_points() {
        // [1 1; t t] at t = 0 and 2: dependent at both, with multipliers 0 and 2.
        let mut elimination = Elimination::new(2, 2);
        assert_eq!(elimination.add(0, line(&[&[1.0, 1.0], &[1.0, 1.0]])), None);
        assert_eq!(elimination.add(1, line(&[&[0.0, 0.0], &[2.0, 2.0]])), Some(vec![0]));
        // [1 1; 1 1 + t] is singular at t = 0 only.
        let mut elimination = Elimination::new(2, 2);
        assert_eq!(elimination.add(0, line(&[&[1.0, 1.0], &[1.0, 1.0]])), None);
        assert_eq!(elimination.add(1, line(&[&[1.0, 1.0], &[1.0, 3.0]])), None);
        assert_eq!(elimination.is_live, [false, true]);
    }

    #[test]
    fn a_row_that_vanishes_at_the_start_comes_last() {
        let rows = [line(&[&[0.0, 0.0], &[1.0, 1.0]]), line(&[&[1.0, 1.0], &[1.0, 1.0]])];
        let elimination = Elimination::new(2, 2);
        assert_eq!(elimination.best(&[0, 1], &[1.0, 1.0], &|row| rows[row].clone()), 1);
    }

    #[test]
    fn a_pivot_is_chosen_that_vanishes_at_no_point() {
        let mut elimination = Elimination::new(3, 2);
        assert_eq!(elimination.add(0, line(&[&[1.0, 0.4, 0.0], &[0.0, 0.4, 1.0]])), None);
        assert_eq!(elimination.rows[0].pivot, 1);
        assert_eq!(elimination.is_live, [true, true]);
    }

    /// Of [t - 1, 0.9] the second, which has one sign; of [t - 1, 0.5] with a number second even that; and the row with
    /// a number before the one without, also after a reduction that leaves it one.
    #[test]
    fn numbers_are_divided_by_before_what_may_vanish_between_the_points() {
        let mut elimination = Elimination::new(2, 2);
        assert_eq!(elimination.add(0, line(&[&[-1.0, 0.9], &[1.0, 0.9]])), None);
        assert_eq!(elimination.rows[0].pivot, 1);
        let numbered = Line { is_number: vec![false, true], ..line(&[&[2.0, 0.5], &[1.0, 0.5]]) };
        let mut elimination = Elimination::new(2, 2);
        assert_eq!(elimination.add(0, numbered.clone()), None);
        assert_eq!(elimination.rows[0].pivot, 1);
        let rows = [line(&[&[1.0, 1.0], &[1.0, 1.0]]), numbered];
        let elimination = Elimination::new(2, 2);
        assert_eq!(elimination.best(&[0, 1], &[1.0, 1.0], &|row| rows[row].clone()), 1);
        let mut elimination = Elimination::new(3, 1);
        let number = |values: &[f64]| Line { is_number: vec![true; 3], ..line(&[values]) };
        assert_eq!(elimination.add(0, number(&[1.0, 0.5, 0.0])), None);
        let mut mixed = Line { is_number: vec![true, true, false], ..line(&[&[1.0, 1.0, 1.0]]) };
        elimination.reduce(&mut mixed, &mut []);
        assert_eq!(
            (mixed.values[0].as_slice(), mixed.is_number.as_slice()),
            ([0.0, 0.5, 1.0].as_slice(), [true, true, false].as_slice())
        );
    }
}
