//! The rank of every diagonal block of the system Jacobian at a point.
//!
//! Rows and columns of a block are scaled to largest entry one. Small blocks are decided by singular values, large
//! ones, which are sparse, by inverse iteration with their LU factors. Where a block is singular, the null vectors
//! say which of its equations depend on each other and which of its unknowns stay open.
//!
//! A root where the Jacobian vanishes need not be hit exactly: x^3 = 0 is "solved" by x = 1e-4 to any usual
//! tolerance, and there the Jacobian is not zero. Newton's method tells: at a regular root its second step is much
//! smaller than its first, at a root of multiplicity m the steps shrink by (m - 1) / m only.

use daesy_graph::finding::Finding;
use daesy_graph::regular::RegularDae;
use daesy_graph::{Differentiator, Environment, Evaluator, ExprId, Graph, Leaf, VarId};
use faer::Mat;
use faer::linalg::solvers::Solve;
use faer::sparse::{SparseColMat, Triplet};
use rustc_hash::FxHashMap;

use super::RankRow;
use crate::explain;
use crate::words::{derivative_name, enumerate, equation_text};

/// Blocks up to this size are decided by singular values.
const DENSE_BLOCK: usize = 200;

/// Singular values below this fraction of the largest count as zero, after scaling rows and columns.
const RANK_TOLERANCE: f64 = 1e-11;

/// Entries of a null vector below this fraction of its largest are taken as zero.
const NULL_VECTOR_TOLERANCE: f64 = 1e-4;

/// At most so many blocks are listed with their rank; the others are counted.
const MAX_LISTED_BLOCKS: usize = 40;

/// Entries of the Jacobian that are at least this large are no rounding errors.
const SMALL_ENTRY: f64 = 1e-8;

/// The point with all values moved by about 1e-13 of themselves. A small entry that changes by as much as it is large,
/// such as 2 y (x - sin(t)) on solutions with x = sin(t), is what rounding left of a zero, and says nothing of a rank.
struct Nearby<'a>(&'a dyn Environment);

impl Environment for Nearby<'_> {
    fn value(&self, var: VarId, order: u16) -> f64 {
        let scattered = (var.0 ^ u32::from(order) << 20).wrapping_mul(2_654_435_761) >> 8;
        let share = 0.5 + f64::from(scattered) / f64::from(1u32 << 24);
        self.0.value(var, order) * (1.0 + 1e-13 * share)
    }

    fn time(&self) -> f64 {
        self.0.time()
    }

    fn pre(&self, var: VarId) -> f64 {
        self.0.pre(var)
    }
}

/// What the blocks say.
pub(super) struct BlockVerdict {
    /// Whether all blocks are regular.
    pub(super) are_regular: bool,
    /// Those that are not.
    pub(super) singular: Vec<usize>,
    /// Ranks, the smallest gaps first.
    pub(super) rank_decisions: Vec<RankRow>,
    /// Singular blocks in words.
    pub(super) findings: Vec<Finding>,
}

/// A square block by its entries.
#[derive(Clone)]
struct BlockMatrix {
    len: usize,
    rows: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

/// A rank, its gap, and for a singular block the equations and unknowns concerned.
struct BlockRank {
    rank: usize,
    gap: f64,
    dependent: Vec<usize>,
    undetermined: Vec<usize>,
}

/// The expressions of a block: its residuals and the entries of its Jacobian.
struct BlockExpressions {
    residuals: Vec<ExprId>,
    rows: Vec<u32>,
    columns: Vec<u32>,
    entries: Vec<ExprId>,
}

/// Decides the rank of every block of the system Jacobian.
pub(super) fn verify_blocks(regular: &RegularDae, point: &dyn Environment) -> BlockVerdict {
    let mut graph = regular.flat.graph.clone();
    let leaves: Vec<Leaf> = regular.unknowns.iter().map(|unknown| Leaf::der(unknown.var, unknown.order)).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let mut evaluator = Evaluator::new();
    let (mut values, mut nearby) = (Vec::new(), Vec::new());
    let mut verdict =
        BlockVerdict { are_regular: true, singular: Vec::new(), rank_decisions: Vec::new(), findings: Vec::new() };
    let mut n_scalar = 0;
    for (at, block) in regular.blocks.iter().enumerate() {
        let (start, len) = (block.start as usize, block.len as usize);
        let mut expressions =
            BlockExpressions { residuals: Vec::new(), rows: Vec::new(), columns: Vec::new(), entries: Vec::new() };
        for row in 0..len {
            let residual = regular.equations[start + row].residual;
            expressions.residuals.push(residual);
            let gradient = differentiator.gradient(&mut graph, residual);
            for entry in gradient.iter().filter(|entry| (start..start + len).contains(&(entry.column as usize))) {
                expressions.rows.push(row as u32);
                expressions.columns.push(entry.column - start as u32);
                expressions.entries.push(entry.value);
            }
        }
        evaluator.evaluate(&graph, &expressions.entries, point, &mut values);
        evaluator.evaluate(&graph, &expressions.entries, &Nearby(point), &mut nearby);
        for (value, near) in values.iter_mut().zip(&nearby).filter(|(value, _)| value.abs() < SMALL_ENTRY) {
            if value.abs() <= (near - *value).abs() {
                *value = 0.0;
            }
        }
        let is_finite = values.iter().all(|value| value.is_finite());
        let matrix = BlockMatrix {
            len,
            rows: expressions.rows.clone(),
            columns: expressions.columns.clone(),
            values: values.clone(),
        };
        let decision = if is_finite { matrix.rank() } else { BlockRank::nothing_known(len) };
        let is_multiple_root = decision.rank == len
            && !block.is_linear
            && len <= DENSE_BLOCK
            && is_multiple_root(regular, start, &expressions, &graph, point);
        if decision.rank < len || is_multiple_root {
            verdict.are_regular = false;
            verdict.singular.push(at);
            let rank = if is_multiple_root { BlockRank::nothing_known(len) } else { decision };
            let row = RankRow { what: block_name(regular, start, len), rank: rank.rank, gap: rank.gap };
            verdict.rank_decisions.push(row);
            verdict.findings.push(singular_block(regular, start, &rank, is_finite));
        } else if len == 1 {
            n_scalar += 1;
        } else {
            let row = RankRow { what: block_name(regular, start, len), rank: len, gap: decision.gap };
            verdict.rank_decisions.push(row);
        }
    }
    verdict.summarize(n_scalar);
    verdict
}

impl BlockVerdict {
    /// Lists the smallest gaps first and counts the rest.
    fn summarize(&mut self, n_scalar: usize) {
        self.rank_decisions.sort_by(|a, b| a.gap.total_cmp(&b.gap));
        if self.rank_decisions.len() > MAX_LISTED_BLOCKS {
            let rest = self.rank_decisions.split_off(MAX_LISTED_BLOCKS);
            self.rank_decisions.push(RankRow {
                what: format!("{} further sets of equations", rest.len()),
                rank: rest.iter().map(|row| row.rank).sum(),
                gap: rest.first().map_or(1.0, |row| row.gap),
            });
        }
        if n_scalar > 0 {
            self.rank_decisions.push(RankRow {
                what: format!("{n_scalar} unknowns with an equation of their own"),
                rank: n_scalar,
                gap: 1.0 / f64::EPSILON,
            });
        }
    }
}

fn names(regular: &RegularDae, start: usize, columns: impl Iterator<Item = usize>) -> Vec<String> {
    columns.map(|column| derivative_name(&regular.flat, regular.unknowns[start + column])).collect()
}

fn block_name(regular: &RegularDae, start: usize, len: usize) -> String {
    let listed = names(regular, start, 0..len.min(7));
    let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
    match &listed[..] {
        names if len > names.len() => {
            format!("equations for {} and {} more", enumerate_all(&names[..6]), len - 6)
        }
        names => format!("equations for {}", enumerate(names, 7)),
    }
}

fn enumerate_all(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn singular_block(regular: &RegularDae, start: usize, rank: &BlockRank, is_finite: bool) -> Finding {
    let flat = &regular.flat;
    let names = names(regular, start, rank.undetermined.iter().copied());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut equations: Vec<usize> = rank.dependent.iter().map(|&row| start + row).collect();
    equations.sort_by_key(|&at| flat.equations[regular.equations[at].source as usize].span);
    let sources: Vec<usize> = equations.iter().map(|&at| regular.equations[at].source as usize).collect();
    let span = sources.first().map_or(daesy_graph::Span::NONE, |&at| flat.equations[at].span);
    let message = if !is_finite {
        format!("the equations for {} have no finite derivatives at the start", enumerate(&names, 6))
    } else if equations.len() == 1 {
        format!("at the start this equation does not determine {}", enumerate(&names, 6))
    } else {
        format!(
            "at the start these {} equations do not determine {}: they depend on each other",
            equations.len(),
            enumerate(&names, 6)
        )
    };
    let mut finding = Finding::warning("numerically-singular", span, message).with_names(names.iter().copied());
    for &at in equations.iter().take(8) {
        let equation = &regular.equations[at];
        let times = match equation.differentiated {
            0 => String::new(),
            1 => ", differentiated once".to_owned(),
            2 => ", differentiated twice".to_owned(),
            n => format!(", differentiated {n} times"),
        };
        let source = equation.source as usize;
        finding = finding.with_label(flat.equations[source].span, format!("{}{times}", equation_text(flat, source)));
    }
    let has_flows = sources.iter().any(|&at| explain::is_balance_of_flows(flat, at));
    finding.with_help(if !is_finite {
        "give a `start` value at which the equation can be differentiated"
    } else if equations.len() == 1 {
        "its derivative by the unknown is zero there: start elsewhere, or write the equation so that it determines the unknown"
    } else if has_flows {
        "structure sees as many equations as unknowns, but their values make some of them follow from others: is a ground or \
         another fixed reference missing?"
    } else {
        "structure sees as many equations as unknowns, but their values make some of them follow from others: look for an \
         equation written twice in other words, parameter values that cancel, or start values at a singular position"
    })
}

impl BlockRank {
    /// A block of which only its failure is known: all of it is listed.
    fn nothing_known(len: usize) -> Self {
        Self { rank: len - 1, gap: 1.0, dependent: (0..len).collect(), undetermined: (0..len).collect() }
    }

    fn regular(len: usize, gap: f64) -> Self {
        Self { rank: len, gap, dependent: Vec::new(), undetermined: Vec::new() }
    }
}

impl BlockMatrix {
    fn rank(mut self) -> BlockRank {
        if self.len == 1 {
            let is_zero = self.values.iter().sum::<f64>() == 0.0;
            return if is_zero {
                BlockRank { rank: 0, ..BlockRank::nothing_known(1) }
            } else {
                BlockRank::regular(1, 1e16)
            };
        }
        if self.len > DENSE_BLOCK {
            self.scale();
            return self.rank_by_inverse_iteration();
        }
        let matched = self.clone();
        self.scale();
        let found = self.rank_by_singular_values();
        if found.rank == self.len {
            return found;
        }
        // Units far from each other, such as those of farads and seconds, look like dependence until rows and columns
        // fit.
        let again = matched.scale_by_matching().map(|matrix| matrix.rank_by_singular_values());
        again.filter(|again| again.rank == self.len).unwrap_or(found)
    }

    /// Scales rows and columns such that the entries of the transversal of largest product become one and no other is
    /// larger [@duff2001]; `None` if every transversal has a zero. Whatever the units of equations and unknowns, the
    /// result is the same.
    ///
    /// With costs c = -ln|a| the transversal is an assignment of least cost; its potentials, c_ij >= u_i + v_j with
    /// equality on it, are the logarithms of the factors.
    fn scale_by_matching(mut self) -> Option<Self> {
        let n = self.len;
        let dense = self.dense();
        let cost = |row: usize, column: usize| -dense[(row, column)].abs().ln();
        // Row and column 0 stand for nothing; `owner` is the row of a column.
        let (mut u, mut v) = (vec![0.0; n + 1], vec![0.0; n + 1]);
        let mut owner = vec![0; n + 1];
        for row in 1..=n {
            owner[0] = row;
            let mut column = 0;
            let mut least = vec![f64::INFINITY; n + 1];
            let mut previous = vec![0; n + 1];
            let mut is_used = vec![false; n + 1];
            while owner[column] != 0 {
                is_used[column] = true;
                let (mut delta, mut next) = (f64::INFINITY, 0);
                for other in (1..=n).filter(|&other| !is_used[other]) {
                    let reduced = cost(owner[column] - 1, other - 1) - u[owner[column]] - v[other];
                    if reduced < least[other] {
                        least[other] = reduced;
                        previous[other] = column;
                    }
                    if least[other] < delta {
                        (delta, next) = (least[other], other);
                    }
                }
                if next == 0 {
                    return None;
                }
                for other in 0..=n {
                    if is_used[other] {
                        u[owner[other]] += delta;
                        v[other] -= delta;
                    } else {
                        least[other] -= delta;
                    }
                }
                column = next;
            }
            while column != 0 {
                owner[column] = owner[previous[column]];
                column = previous[column];
            }
        }
        for ((&row, &column), value) in self.rows.iter().zip(&self.columns).zip(&mut self.values) {
            *value *= (u[row as usize + 1] + v[column as usize + 1]).exp();
        }
        Some(self)
    }

    /// Scales rows and columns to largest entry one.
    fn scale(&mut self) {
        let mut sizes = vec![0.0f64; self.len];
        for round in 0..6 {
            let positions = if round % 2 == 0 { &self.rows } else { &self.columns };
            sizes.fill(0.0);
            for (&at, value) in positions.iter().zip(&self.values) {
                sizes[at as usize] = sizes[at as usize].max(value.abs());
            }
            for (&at, value) in positions.iter().zip(&mut self.values) {
                if sizes[at as usize] > 0.0 {
                    *value /= sizes[at as usize];
                }
            }
        }
    }

    fn dense(&self) -> Mat<f64> {
        let mut matrix = Mat::<f64>::zeros(self.len, self.len);
        for ((&row, &column), &value) in self.rows.iter().zip(&self.columns).zip(&self.values) {
            matrix[(row as usize, column as usize)] += value;
        }
        matrix
    }

    fn rank_by_singular_values(&self) -> BlockRank {
        let matrix = self.dense();
        let Ok(singular_values) = matrix.singular_values() else { return BlockRank::nothing_known(self.len) };
        let largest = singular_values.first().copied().unwrap_or(0.0);
        let threshold = RANK_TOLERANCE * largest;
        let rank = singular_values.iter().filter(|&&value| value > threshold && value > 0.0).count();
        let kept = if rank == 0 { 0.0 } else { singular_values[rank - 1] };
        let dropped = singular_values.get(rank).copied().unwrap_or(0.0).max(f64::EPSILON * largest);
        let gap = if dropped > 0.0 { kept / dropped } else { 1.0 };
        if rank == self.len {
            return BlockRank::regular(rank, gap);
        }
        let Ok(svd) = matrix.svd() else { return BlockRank { rank, gap, ..BlockRank::nothing_known(self.len) } };
        let (u, v) = (svd.U(), svd.V());
        let size = |vectors: &dyn Fn(usize, usize) -> f64, at: usize| {
            (rank..self.len).fold(0.0f64, |size, column| size.max(vectors(at, column).abs()))
        };
        let sizes_u: Vec<f64> = (0..self.len).map(|at| size(&|row, column| u[(row, column)], at)).collect();
        let sizes_v: Vec<f64> = (0..self.len).map(|at| size(&|row, column| v[(row, column)], at)).collect();
        BlockRank { rank, gap, dependent: significant(&sizes_u), undetermined: significant(&sizes_v) }
    }

    /// Estimates the smallest singular value: x -> A^-1 x -> A^-T A^-1 x grows along its singular vectors.
    fn rank_by_inverse_iteration(&self) -> BlockRank {
        let n = self.len;
        // An exactly singular matrix has no factors; a perturbation far below the tolerance gives it some.
        let plain = self.inverse_iteration(0.0).or_else(|| self.inverse_iteration(1e-13));
        let Some(found) = plain else { return BlockRank::nothing_known(n) };
        if found.smallest > RANK_TOLERANCE {
            return BlockRank::regular(n, found.smallest / f64::EPSILON);
        }
        let dependent = significant(&found.left);
        let undetermined = significant(&found.right);
        BlockRank { rank: n - 1, gap: 1.0 / found.smallest.max(f64::EPSILON), dependent, undetermined }
    }

    fn inverse_iteration(&self, perturbation: f64) -> Option<SmallestSingular> {
        let n = self.len;
        let triplets: Vec<Triplet<usize, usize, f64>> = (0..self.values.len())
            .map(|at| {
                let change = perturbation * (1.0 + 0.5 * (at as f64).sin());
                Triplet::new(self.rows[at] as usize, self.columns[at] as usize, self.values[at] + change)
            })
            .collect();
        let matrix = SparseColMat::<usize, f64>::try_new_from_triplets(n, n, &triplets).ok()?;
        let lu = matrix.sp_lu().ok()?;
        let mut x = Mat::<f64>::from_fn(n, 1, |row, _| 1.0 + 0.3 * (row as f64).cos());
        let mut right = x.clone();
        let mut smallest = 0.0;
        for _ in 0..5 {
            let scale = 1.0 / x.norm_l2();
            right = lu.solve(Mat::from_fn(n, 1, |row, _| x[(row, 0)] * scale));
            let size = right.norm_l2();
            if !size.is_finite() || size == 0.0 {
                return None;
            }
            smallest = 1.0 / size;
            x = lu.solve_transpose(Mat::from_fn(n, 1, |row, _| right[(row, 0)] / size));
            if !x.norm_l2().is_finite() {
                return None;
            }
        }
        let sizes = |vector: &Mat<f64>| (0..n).map(|row| vector[(row, 0)].abs()).collect();
        Some(SmallestSingular { smallest, left: sizes(&x), right: sizes(&right) })
    }
}

/// An estimate of the smallest singular value with the sizes of its vectors' entries.
struct SmallestSingular {
    smallest: f64,
    left: Vec<f64>,
    right: Vec<f64>,
}

fn significant(sizes: &[f64]) -> Vec<usize> {
    let largest = sizes.iter().fold(0.0f64, |largest, &size| largest.max(size));
    (0..sizes.len()).filter(|&at| sizes[at] > NULL_VECTOR_TOLERANCE * largest).collect()
}

/// A point with some values replaced.
struct Moved<'a> {
    base: &'a dyn Environment,
    values: FxHashMap<(VarId, u16), f64>,
}

impl Environment for Moved<'_> {
    fn value(&self, var: VarId, order: u16) -> f64 {
        self.values.get(&(var, order)).copied().unwrap_or_else(|| self.base.value(var, order))
    }

    fn time(&self) -> f64 {
        self.base.time()
    }

    fn pre(&self, var: VarId) -> f64 {
        self.base.pre(var)
    }
}

/// Whether Newton's method in the unknowns of a block shrinks its steps as slowly as at a multiple root.
fn is_multiple_root(
    regular: &RegularDae,
    start: usize,
    expressions: &BlockExpressions,
    graph: &Graph,
    point: &dyn Environment,
) -> bool {
    /// Steps below this fraction of a variable's size are rounding.
    const ROUNDING: f64 = 1e-8;
    let len = expressions.residuals.len();
    let unknowns = &regular.unknowns[start..start + len];
    let mut evaluator = Evaluator::new();
    let (mut residuals, mut entries) = (Vec::new(), Vec::new());
    let mut moved = Moved { base: point, values: FxHashMap::default() };
    for unknown in unknowns {
        moved.values.insert((unknown.var, unknown.order), point.value(unknown.var, unknown.order));
    }
    let mut last = f64::INFINITY;
    for _ in 0..2 {
        evaluator.evaluate(graph, &expressions.residuals, &moved, &mut residuals);
        evaluator.evaluate(graph, &expressions.entries, &moved, &mut entries);
        if residuals.iter().chain(&entries).any(|value| !value.is_finite()) {
            return false;
        }
        let matrix = BlockMatrix {
            len,
            rows: expressions.rows.clone(),
            columns: expressions.columns.clone(),
            values: entries.clone(),
        };
        let rhs = Mat::from_fn(len, 1, |row, _| -residuals[row]);
        let step = matrix.dense().full_piv_lu().solve(rhs);
        let mut size = 0.0f64;
        for (at, unknown) in unknowns.iter().enumerate() {
            let value = moved.values.entry((unknown.var, unknown.order)).or_default();
            size = size.max(step[(at, 0)].abs() / value.abs().max(1.0));
            *value += step[(at, 0)];
        }
        if size.is_nan() || size <= ROUNDING {
            return false;
        }
        if size > 0.3 * last && size < last {
            return true;
        }
        last = size;
    }
    false
}
