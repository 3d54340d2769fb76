//! Which equations depend on others in their leading derivatives, at all of several points.
//!
//! At each point a block of the system Jacobian is scaled and reduced row by row. The points share their pivots: a
//! pivot is the column whose entry is largest at the point where it is smallest, so that it is safe at all of them. A
//! row depends on those before it if nothing is left of it at any point. Where something is left at some points only,
//! the others are special and take no further part.
//!
//! Equations that were rewritten have coefficients which cancel identically but not by simplification, and are
//! evaluated to rounding errors. Rounding errors change completely when the point moves by a rounding error;
//! coefficients do not.

use daesy_graph::regular::{RegularDae, SolveBlock};
use daesy_graph::traverse::Leaf;
use daesy_graph::{Differentiator, Evaluator, ExprId, Graph};
use faer::Mat;

use super::StraightenError;
use crate::arrays::JetPoint;

/// Blocks with a singular value below this fraction of the largest are singular, after scaling rows and columns.
const SINGULAR: f64 = 1e-9;

/// Multipliers below this fraction of the largest are rounding errors.
const NO_MULTIPLIER: f64 = 1e-8;

/// By this fraction a point is moved to tell coefficients from rounding errors.
const SHAKE: f64 = 1e-12;

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
    /// All unknowns of the block.
    pub(super) block: std::ops::Range<usize>,
}

/// At most one dependency in each block that is singular at all points.
pub(super) fn find_dependencies(regular: &RegularDae, points: &[JetPoint]) -> Result<Vec<Dependency>, StraightenError> {
    let mut graph = regular.flat.graph.clone();
    let leaves: Vec<Leaf> =
        regular.unknowns.iter().chain(&regular.states).map(|leaf| Leaf::der(leaf.var, leaf.order)).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let samples: Vec<Sample<'_>> = points.iter().map(|point| Sample { point, beside: shaken(point) }).collect();
    let mut found = Vec::new();
    for block in &regular.blocks {
        let entries = BlockEntries::new(regular, block, &mut graph, &mut differentiator);
        let blocks: Vec<SampledBlock> = samples.iter().filter_map(|sample| entries.at(&graph, sample)).collect();
        if blocks.is_empty() && !points.is_empty() {
            return Err(StraightenError::NotFinite);
        }
        found.extend(dependency(regular, block, &blocks));
    }
    Ok(found)
}

/// A point and one that differs from it by rounding errors.
struct Sample<'a> {
    point: &'a JetPoint,
    beside: JetPoint,
}

fn shaken(point: &JetPoint) -> JetPoint {
    let mut moved = point.clone();
    let mut state = 0x9E37_79B9u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1u32 << 24) - 0.5
    };
    moved.time *= 1.0 + SHAKE * random();
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

    /// The block at a point without rounding errors, rows and columns scaled; None if an entry is not finite.
    fn at(&self, graph: &Graph, sample: &Sample<'_>) -> Option<SampledBlock> {
        let mut evaluator = Evaluator::new();
        let (mut here, mut beside) = (Vec::new(), Vec::new());
        evaluator.evaluate(graph, &self.values, sample.point, &mut here);
        evaluator.evaluate(graph, &self.values, &sample.beside, &mut beside);
        let mut matrix = Mat::<f64>::zeros(self.len, self.len);
        for (at, (&value, &near)) in here.iter().zip(&beside).enumerate() {
            if !value.is_finite() {
                return None;
            }
            let is_steady = (value - near).abs() <= UNSTEADY * value.abs().max(near.abs());
            if is_steady {
                matrix[(self.rows[at], self.columns[at])] += value;
            }
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
fn dependency(regular: &RegularDae, block: &SolveBlock, sampled: &[SampledBlock]) -> Option<Dependency> {
    if sampled.iter().any(|it| !is_singular(&it.matrix)) {
        return None;
    }
    let (start, len) = (block.start as usize, block.len as usize);
    let lines = |row: usize| -> Vec<Vec<f64>> {
        sampled.iter().map(|it| (0..len).map(|column| it.matrix[(row, column)]).collect()).collect()
    };
    let weights: Vec<f64> =
        (0..len).map(|row| sampled.iter().fold(1.0f64, |least, it| least.min(it.weights[row]))).collect();
    let mut rest: Vec<usize> = (0..len).collect();
    rest.sort_by_key(|&row| std::cmp::Reverse(regular.equations[start + row].differentiated));
    let mut elimination = Elimination::new(len, sampled.len());
    while let Some(&first) = rest.first() {
        let level = |row: usize| regular.equations[start + row].differentiated;
        let n_equal = rest.iter().take_while(|&&row| level(row) == level(first)).count();
        let at = elimination.best(&rest[..n_equal], &weights, &lines);
        let row = rest.remove(at);
        if let Some(others) = elimination.add(row, lines(row)) {
            let mut inner = Elimination::new(len, sampled.len());
            for &other in &others {
                inner.add(other, lines(other));
            }
            return Some(Dependency {
                row: start + row,
                others: inner.rows.iter().map(|reduced| start + reduced.row).collect(),
                pivots: inner.rows.iter().map(|reduced| start + reduced.pivot).collect(),
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

struct ReducedRow {
    row: usize,
    pivot: usize,
    /// The line at each point.
    lines: Vec<Vec<f64>>,
    /// The line at each point as a combination of original rows.
    multipliers: Vec<Vec<f64>>,
}

fn size_of(line: &[f64]) -> f64 {
    line.iter().fold(0.0f64, |size, value| size.max(value.abs()))
}

fn subtract(from: &mut [f64], factor: f64, line: &[f64]) {
    from.iter_mut().zip(line).for_each(|(value, other)| *value -= factor * other);
}

impl Elimination {
    fn new(n: usize, n_points: usize) -> Self {
        Self { rows: Vec::new(), n, is_live: vec![true; n_points] }
    }

    /// The position of the row to add next: the first of which about as much is left, at the point where least is, as
    /// of any other. A row that vanishes at one of the points, such as the start, gives no pivot that can be divided by
    /// there.
    fn best(&self, rows: &[usize], weights: &[f64], lines: &dyn Fn(usize) -> Vec<Vec<f64>>) -> usize {
        /// Among more rows than this the first is taken.
        const MAX_COMPARED: usize = 64;
        /// Rows of which at least this fraction of the most is left are as good.
        const AS_GOOD: f64 = 0.3;
        if rows.len() < 2 || rows.len() > MAX_COMPARED {
            return 0;
        }
        let left = |&row: &usize| {
            let mut lines = lines(row);
            self.reduce(&mut lines, &mut []);
            let live = lines.iter().zip(&self.is_live).filter(|(_, is_live)| **is_live);
            weights[row] * live.fold(f64::INFINITY, |least, (line, _)| least.min(size_of(line)))
        };
        let left: Vec<f64> = rows.iter().map(left).collect();
        let most = left.iter().fold(0.0f64, |most, &left| most.max(left));
        left.iter().position(|&left| left >= AS_GOOD * most).unwrap_or(0)
    }

    /// Subtracts the multiples of earlier rows that remove their pivots, from multipliers too where some are given.
    fn reduce(&self, lines: &mut [Vec<f64>], multipliers: &mut [Vec<f64>]) {
        for reduced in &self.rows {
            for at in (0..lines.len()).filter(|&at| self.is_live[at]) {
                let factor = lines[at][reduced.pivot] / reduced.lines[at][reduced.pivot];
                if factor != 0.0 {
                    subtract(&mut lines[at], factor, &reduced.lines[at]);
                    lines[at][reduced.pivot] = 0.0;
                    if let Some(of_point) = multipliers.get_mut(at) {
                        subtract(of_point, factor, &reduced.multipliers[at]);
                    }
                }
            }
        }
    }

    /// Adds a row given at all points, or says which earlier rows it is a combination of, in the order in which they
    /// were added.
    fn add(&mut self, row: usize, mut lines: Vec<Vec<f64>>) -> Option<Vec<usize>> {
        let n_points = lines.len();
        let sizes: Vec<f64> = lines.iter().map(|line| size_of(line)).collect();
        let mut multipliers = vec![vec![0.0; self.n]; n_points];
        for of_point in &mut multipliers {
            of_point[row] = 1.0;
        }
        self.reduce(&mut lines, &mut multipliers);
        let left: Vec<f64> = lines.iter().map(|line| size_of(line)).collect();
        let is_independent: Vec<bool> = (0..n_points)
            .map(|at| self.is_live[at] && left[at] > SINGULAR * sizes[at].max(f64::MIN_POSITIVE))
            .collect();
        if !is_independent.contains(&true) {
            return Some(self.support(row, &multipliers));
        }
        // The entry at the worst of the points that count, against the largest there.
        let worst = |column: usize| {
            let counting = (0..n_points).filter(|&at| is_independent[at]);
            counting.fold(f64::INFINITY, |worst, at| worst.min(lines[at][column].abs() / left[at]))
        };
        let typical = |column: usize| -> f64 {
            (0..n_points).filter(|&at| is_independent[at]).map(|at| lines[at][column].abs() / left[at]).sum()
        };
        let compare =
            |a: &usize, b: &usize| worst(*a).total_cmp(&worst(*b)).then_with(|| typical(*a).total_cmp(&typical(*b)));
        let pivot = (0..self.n).max_by(compare).unwrap_or(0);
        for at in 0..n_points {
            self.is_live[at] = is_independent[at] && lines[at][pivot].abs() > SINGULAR * left[at];
        }
        self.rows.push(ReducedRow { row, pivot, lines, multipliers });
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

    #[test]
    fn a_row_depends_on_others_only_where_it_does_at_all_points() {
        // [1 1; t t] at t = 0 and 2: dependent at both, with multipliers 0 and 2.
        let mut elimination = Elimination::new(2, 2);
        assert_eq!(elimination.add(0, vec![vec![1.0, 1.0], vec![1.0, 1.0]]), None);
        assert_eq!(elimination.add(1, vec![vec![0.0, 0.0], vec![2.0, 2.0]]), Some(vec![0]));
        // [1 1; 1 1 + t] is singular at t = 0 only.
        let mut elimination = Elimination::new(2, 2);
        assert_eq!(elimination.add(0, vec![vec![1.0, 1.0], vec![1.0, 1.0]]), None);
        assert_eq!(elimination.add(1, vec![vec![1.0, 1.0], vec![1.0, 3.0]]), None);
        assert_eq!(elimination.is_live, [false, true]);
    }

    #[test]
    fn a_row_that_vanishes_at_the_start_comes_last() {
        let rows = [vec![vec![0.0, 0.0], vec![1.0, 1.0]], vec![vec![1.0, 1.0], vec![1.0, 1.0]]];
        let elimination = Elimination::new(2, 2);
        assert_eq!(elimination.best(&[0, 1], &[1.0, 1.0], &|row| rows[row].clone()), 1);
    }

    #[test]
    fn a_pivot_is_chosen_that_vanishes_at_no_point() {
        let mut elimination = Elimination::new(3, 2);
        assert_eq!(elimination.add(0, vec![vec![1.0, 0.4, 0.0], vec![0.0, 0.4, 1.0]]), None);
        assert_eq!(elimination.rows[0].pivot, 1);
        assert_eq!(elimination.is_live, [true, true]);
    }
}
