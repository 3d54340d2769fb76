//! The unknowns at given states, block by block.
//!
//! The equations are in block-triangular order, so that Newton's step J dv = -F is found by going through the blocks
//! once, with factors of the diagonal blocks only: an equation with thousands of entries, such as the sum of all
//! currents into a ground, costs no more than its entries. Blocks whose entries are not finite yet (a division by an
//! unknown that still has its default value zero) and those that need them wait for the next step, when what they need
//! has its value.

use daesy_system::{Block, DaeSystem, Part, Pattern, Quantity};

use crate::equations::Surroundings;
use crate::linear::{LinearSolver, SingularMatrix};

/// Newton steps before giving up; each may also bring one more layer of blocks into play.
const MAX_STEPS: usize = 40;

/// So many steps in a row may shrink slowly or grow.
const MAX_SLOW_STEPS: usize = 12;

/// Steps below this fraction of an unknown's size end the search.
const GOAL: f64 = 1e-12;

/// Limited steps that are not counted.
const MAX_LIMITED_STEPS: usize = 60;

/// Solves F(t, s, v) = 0 for the unknowns v at fixed states. False where a block is singular or the search does not
/// settle; the unknowns are then worth nothing.
///
/// Of several solutions the one near the given values is meant: where the matrix of a nonlinear block is nearly
/// singular, Newton's step leads far away. Unknowns of such blocks at most double, or move by their nominal value, in
/// one step, and go wherever the step leads only if that finds nothing.
pub(crate) fn solve_by_blocks(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
) -> bool {
    let mut near = unknowns.to_vec();
    let search = search_by_blocks(system, around, states, &mut near, Stride::Limited);
    if search.is_found {
        unknowns.copy_from_slice(&near);
        return true;
    }
    search.was_limited && search_by_blocks(system, around, states, unknowns, Stride::Free).is_found
}

/// How far a step may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stride {
    Limited,
    Free,
}

/// How a search ended.
struct Search {
    is_found: bool,
    /// Whether a step was made shorter.
    was_limited: bool,
}

fn search_by_blocks(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
    stride: Stride,
) -> Search {
    let mut n_limited = 0;
    let is_found = settle_blocks(system, around, states, unknowns, stride, &mut n_limited);
    Search { is_found, was_limited: n_limited > 0 }
}

fn settle_blocks(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
    stride: Stride,
    n_limited: &mut usize,
) -> bool {
    let description = system.description();
    let pattern = system.pattern(Part::ResidualByUnknowns);
    let mut evaluator = system.evaluator();
    let mut residual = vec![0.0; pattern.n_rows];
    let mut jacobian = vec![0.0; pattern.n_entries()];
    let mut step = vec![0.0; unknowns.len()];
    let mut is_waiting = vec![false; unknowns.len()];
    let mut blocks: Vec<Option<DiagonalBlock>> = description.blocks.iter().map(|_| None).collect();
    let (mut last_size, mut n_slow) = (f64::INFINITY, 0);
    let mut n_steps = 0;
    while n_steps < MAX_STEPS {
        let point = around.point(states, unknowns);
        evaluator.evaluate(Part::Residual, &point, &mut residual);
        evaluator.evaluate(Part::ResidualByUnknowns, &point, &mut jacobian);
        let mut has_waiting = false;
        for (block, known) in description.blocks.iter().zip(&mut blocks) {
            let (start, end) = (block.start as usize, (block.start + block.len) as usize);
            let mut waits = false;
            for row in start..end {
                let mut sum = -residual[row];
                waits |= !residual[row].is_finite();
                for entry in pattern.row(row) {
                    let column = pattern.columns[entry] as usize;
                    waits |= !jacobian[entry].is_finite() || column < start && is_waiting[column];
                    if column < start {
                        sum -= jacobian[entry] * step[column];
                    }
                }
                step[row] = sum;
            }
            if waits {
                has_waiting = true;
                step[start..end].fill(0.0);
                is_waiting[start..end].fill(true);
                continue;
            }
            is_waiting[start..end].fill(false);
            if end - start == 1 {
                let inside = pattern.row(start).filter(|&entry| pattern.columns[entry] as usize == start);
                let diagonal: f64 = inside.map(|entry| jacobian[entry]).sum();
                step[start] /= diagonal;
                if diagonal == 0.0 || !step[start].is_finite() {
                    return false;
                }
                continue;
            }
            let made = match known.take() {
                Some(made) => made,
                None => match DiagonalBlock::new(pattern, start, end) {
                    Ok(made) => made,
                    Err(_) => return false,
                },
            };
            if known.insert(made).solve(&jacobian, &mut step[start..end]).is_err() {
                return false;
            }
        }
        let is_limited = stride == Stride::Limited
            && *n_limited < MAX_LIMITED_STEPS
            && limit_steps(&description.blocks, &description.unknowns, unknowns, &mut step);
        *n_limited += usize::from(is_limited);
        n_steps += usize::from(!is_limited);
        let mut size = 0.0f64;
        for ((value, step), quantity) in unknowns.iter_mut().zip(&step).zip(&description.unknowns) {
            *value += step;
            size = size.max(step.abs() / value.abs().max(quantity.nominal));
        }
        if !size.is_finite() {
            return false;
        }
        if size <= GOAL {
            return !has_waiting;
        }
        // Steps that shrink slowly to the end creep towards a root where the matrix is singular.
        n_slow = if size > 0.3 * last_size && !is_limited { n_slow + 1 } else { 0 };
        if n_slow > MAX_SLOW_STEPS && !has_waiting {
            return false;
        }
        last_size = size;
    }
    false
}

/// Shortens steps of nonlinear blocks that are longer than the unknowns are large; true where one was.
fn limit_steps(blocks: &[Block], quantities: &[Quantity], unknowns: &[f64], step: &mut [f64]) -> bool {
    let mut is_any = false;
    for block in blocks.iter().filter(|block| !block.is_linear) {
        let range = block.start as usize..(block.start + block.len) as usize;
        let excess = range
            .clone()
            .fold(1.0f64, |excess, at| excess.max(step[at].abs() / unknowns[at].abs().max(quantities[at].nominal)));
        if excess > 1.0 && excess.is_finite() {
            step[range].iter_mut().for_each(|step| *step /= excess);
            is_any = true;
        }
    }
    is_any
}

/// A diagonal block of several rows.
struct DiagonalBlock {
    solver: LinearSolver<f64>,
    /// Its entries among those of the whole matrix.
    entries: Vec<usize>,
    values: Vec<f64>,
}

impl DiagonalBlock {
    fn new(pattern: &Pattern, start: usize, end: usize) -> Result<Self, SingularMatrix> {
        let n = end - start;
        let mut block = Pattern { n_rows: n, n_cols: n, row_starts: Vec::with_capacity(n + 1), columns: Vec::new() };
        let mut entries = Vec::new();
        block.row_starts.push(0);
        for row in start..end {
            for entry in pattern.row(row).filter(|&entry| (start..end).contains(&(pattern.columns[entry] as usize))) {
                block.columns.push(pattern.columns[entry] - start as u32);
                entries.push(entry);
            }
            block.row_starts.push(block.columns.len() as u32);
        }
        Ok(Self { solver: LinearSolver::new(&block)?, values: Vec::with_capacity(entries.len()), entries })
    }

    /// Solves with the right side in `step`.
    fn solve(&mut self, jacobian: &[f64], step: &mut [f64]) -> Result<(), SingularMatrix> {
        self.values.clear();
        self.values.extend(self.entries.iter().map(|&entry| jacobian[entry]));
        self.solver.factor(&self.values)?;
        self.solver.solve(step)
    }
}
