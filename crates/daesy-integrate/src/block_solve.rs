//! The unknowns at given states, block by block.
//!
//! The equations are in block-triangular order, so that Newton's step J dv = -F is found by going through the blocks
//! once, with factors of the diagonal blocks only: an equation with thousands of entries, such as the sum of all
//! currents into a ground, costs no more than its entries. Blocks whose entries are not finite yet (a division by an
//! unknown that still has its default value zero) and those that need them wait for the next step, when what they need
//! has its value. A block that waits for nothing but itself, such as a loop through 1/x with the guess x = 0, is woken
//! by moving the unknown that keeps it from having a value.

use std::ops::Range;

use daesy_system::{Block, DaeSystem, Evaluator, Part, Pattern, Quantity};

use crate::equations::Surroundings;
use crate::linear::{LinearSolver, SingularMatrix};

/// Newton steps before giving up; each may also bring one more layer of blocks into play.
const MAX_STEPS: usize = 40;

/// So many steps in a row may shrink slowly or grow.
const MAX_SLOW_STEPS: usize = 12;

/// Steps below this fraction of an unknown's size end the search.
const GOAL: f64 = 1e-12;

/// Steps that are this small and shrink no more are rounding errors of the equations: where these hold functions that
/// iterate, or small differences of large values, no step is as small as [`GOAL`].
const NOISE: f64 = 1e-9;

/// Creeping towards a root of order m leaves (1 - 1/m)^2 of a step two steps later, rounding as much or more.
const NO_LESS: f64 = 0.75;

/// Limited steps that are not counted.
const MAX_LIMITED_STEPS: usize = 60;

/// How often unknowns are moved to where their equations have values.
const MAX_WAKINGS: usize = 12;

/// Evaluations of the model that may be spent on this in one search.
const MAX_PROBES: usize = 60;

/// Moves that are tried then, in units of the unknown's size.
const WAKING_MOVES: [f64; 6] = [1.0, -1.0, 1e-3, -1e-3, 100.0, -100.0];

/// Solves F(t, s, v) = 0 for the unknowns v at fixed states. False where a block is singular or the search does not
/// settle; those unknowns that do not need such blocks have their values then, the others are guesses.
///
/// Of several solutions the one near the given values is meant: where the matrix of a nonlinear block is nearly
/// singular, Newton's step leads far away. Unknowns of such blocks at most double, or move by their nominal value, in
/// one step, and go wherever the step leads only if that finds nothing. What Newton's steps do not find from afar is
/// followed from equations that the given values satisfy ([`deform`]).
pub(crate) fn solve_by_blocks(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
) -> bool {
    let mut near = unknowns.to_vec();
    let search = search_by_blocks(system, around, states, &mut near, Stride::Limited);
    if search.end == End::Found {
        unknowns.copy_from_slice(&near);
        return true;
    }
    let mut far = unknowns.to_vec();
    if search.was_limited && search_by_blocks(system, around, states, &mut far, Stride::Free).end == End::Found {
        unknowns.copy_from_slice(&far);
        return true;
    }
    if search.end == End::Lost && deform(system, around, states, unknowns) {
        return true;
    }
    if search.end == End::Partial {
        unknowns.copy_from_slice(&near);
    }
    false
}

/// Strides of a deformation.
const MAX_DEFORMATIONS: usize = 60;

/// Follows the solution of F(t, s, v) = (1 - r) F(t, s, v0) from r = 0, where it is the guess v0, to r = 1, in strides
/// that are halved where Newton's method does not converge and doubled where it does. [@allgower2003, ch. 1]
fn deform(system: &dyn DaeSystem, around: &Surroundings<'_>, states: &[f64], unknowns: &mut [f64]) -> bool {
    let mut newton = BlockNewton::new(system);
    let mut first = vec![0.0; newton.residual.len()];
    newton.evaluator.evaluate(Part::Residual, &around.point(states, unknowns), &mut first);
    if first.iter().any(|residual| !residual.is_finite()) {
        return false;
    }
    let (mut done, mut stride) = (0.0, 0.1);
    let mut reached = unknowns.to_vec();
    for _ in 0..MAX_DEFORMATIONS {
        let next = f64::min(done + stride, 1.0);
        newton.left = first.iter().map(|residual| (1.0 - next) * residual).collect();
        let mut trial = reached.clone();
        if settle_blocks(&mut newton, around, states, &mut trial, Stride::Free, &mut 0) != End::Found {
            stride *= 0.5;
        } else if next < 1.0 {
            (done, reached, stride) = (next, trial, 2.0 * stride);
        } else {
            unknowns.copy_from_slice(&trial);
            return true;
        }
    }
    false
}

/// Newton steps to a root of higher order, each of which leaves a fixed share of the distance.
const MAX_PATIENT_STEPS: usize = 200;

/// How often unknowns are moved aside where the matrix is singular.
const MAX_ASIDE: usize = 3;

/// How far, as a fraction of the nominal value.
const ASIDE: f64 = 1e-3;

/// A root of higher order farther away than this, in sizes of the unknowns, is that of a step too long.
const NEAR: f64 = 1.0;

/// Solves F(t, s, v) = 0 near the given unknowns where the matrix is singular there or at the root, as in x^3 = t
/// around t = 0. Gives one of the unknowns that the equations do not determine to first order; `None` where there is no
/// such root nearby.
///
/// At a root of order m Newton's steps shrink by 1 - 1/m only, and the root is known to the m-th part of the digits.
/// The search therefore ends where the residuals are below what rounding of time and states makes of them, or where
/// steps vanish; where the matrix itself vanishes, the unknowns are moved aside by a little first, towards larger
/// values.
pub(crate) fn solve_patiently(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
) -> Option<usize> {
    let guess = unknowns.to_vec();
    let quantities = &system.description().unknowns;
    let mut flat = None;
    for _ in 0..=MAX_ASIDE {
        match settle_patiently(system, around, states, unknowns) {
            Settled::At(slow) => {
                let is_near = unknowns.iter().zip(&guess).zip(quantities).all(|((value, guess), quantity)| {
                    (value - guess).abs() <= NEAR * guess.abs().max(quantity.nominal)
                });
                return flat.or(slow).filter(|_| is_near);
            }
            Settled::Singular(range) => {
                flat = flat.or(Some(range.start));
                for at in range {
                    unknowns[at] += ASIDE * unknowns[at].abs().max(quantities[at].nominal);
                }
            }
            Settled::Nowhere => return None,
        }
    }
    None
}

/// Where patient steps lead.
enum Settled {
    /// To a root; with an unknown that crept there.
    At(Option<usize>),
    /// Where the matrix of these unknowns is singular.
    Singular(Range<usize>),
    Nowhere,
}

fn settle_patiently(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
) -> Settled {
    let mut newton = BlockNewton::new(system);
    let mut last_size = f64::INFINITY;
    let mut slow = None;
    for _ in 0..MAX_PATIENT_STEPS {
        match newton.step(around, states, unknowns) {
            Ok(false) => {}
            Ok(true) => return Settled::Nowhere,
            Err(range) if newton.is_at_rounding(around, states, unknowns) && slow.is_some() => {
                return Settled::At(slow.or(Some(range.start)));
            }
            Err(range) => return Settled::Singular(range),
        }
        let description = system.description();
        limit_steps(&description.blocks, &description.unknowns, unknowns, &mut newton.step);
        let (size, largest) = newton.advance(unknowns);
        if !size.is_finite() {
            return Settled::Nowhere;
        }
        // Steps that are short far away and shrink fast at the end lead to a simple root.
        if size > 0.3 * last_size {
            slow = Some(largest);
        } else if size > GOAL {
            slow = None;
        }
        if size <= GOAL || slow.is_some() && newton.is_at_rounding(around, states, unknowns) {
            return Settled::At(slow);
        }
        last_size = size;
    }
    Settled::Nowhere
}

/// Solves F(t, s, v) = 0 one block after the other: the first blocks stay as they are once their own steps would be no
/// longer than rounding. What an equation with a jump makes of their unknowns, such as an angle within one turn, then is
/// computed from the same digits in all further steps, where it would jump with the last of them for ever. False where
/// a block does not settle, or one that is not linear settles far away.
pub(crate) fn solve_in_order(
    system: &dyn DaeSystem,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
) -> bool {
    let guess = unknowns.to_vec();
    let description = system.description();
    let size = |at: usize, value: f64| value.abs().max(description.unknowns[at].nominal);
    let range = |block: &Block| block.start as usize..(block.start + block.len) as usize;
    let mut newton = BlockNewton::new(system);
    let (mut n_steps, mut last_move) = (0, f64::INFINITY);
    while n_steps < MAX_STEPS {
        if newton.step(around, states, unknowns) != Ok(false) {
            return false;
        }
        n_steps += 1;
        for block in &description.blocks[newton.n_settled..] {
            let relative = |at: usize| newton.step[at].abs() / size(at, unknowns[at]);
            let moves = range(block).map(relative).fold(0.0, f64::max);
            let is_noise = moves <= NOISE && moves >= NO_LESS * last_move;
            if moves > GOAL && !is_noise {
                last_move = moves;
                break;
            }
            newton.step[range(block)].fill(0.0);
            (newton.n_settled, n_steps, last_move) = (newton.n_settled + 1, 0, f64::INFINITY);
        }
        if newton.n_settled == description.blocks.len() {
            let nonlinear = description.blocks.iter().filter(|block| !block.is_linear);
            return nonlinear.flat_map(range).all(|at| (unknowns[at] - guess[at]).abs() <= NEAR * size(at, guess[at]));
        }
        if !newton.advance(unknowns).0.is_finite() {
            return false;
        }
    }
    false
}

/// How far a step may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stride {
    Limited,
    Free,
}

/// What a search has found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// All unknowns.
    Found,
    /// All that do not need a block which is singular or has no value.
    Partial,
    /// Nothing.
    Lost,
}

/// How a search ended.
struct Search {
    end: End,
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
    let end = settle_blocks(&mut BlockNewton::new(system), around, states, unknowns, stride, &mut n_limited);
    Search { end, was_limited: n_limited > 0 }
}

fn settle_blocks(
    newton: &mut BlockNewton<'_>,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
    stride: Stride,
    n_limited: &mut usize,
) -> End {
    let system = newton.system;
    let description = system.description();
    let (mut last_size, mut size_before_last, mut n_slow) = (f64::INFINITY, f64::INFINITY, 0);
    let (mut n_steps, mut n_wakings, mut n_probes) = (0, 0, 0);
    while n_steps < MAX_STEPS {
        // A singular block makes no step; what does not need it goes on.
        let is_stuck = newton.step(around, states, unknowns).is_err();
        let has_waiting = newton.has_waiting;
        let is_limited = stride == Stride::Limited
            && *n_limited < MAX_LIMITED_STEPS
            && limit_steps(&description.blocks, &description.unknowns, unknowns, &mut newton.step);
        *n_limited += usize::from(is_limited);
        n_steps += usize::from(!is_limited);
        let (size, _) = newton.advance(unknowns);
        if !size.is_finite() {
            return End::Lost;
        }
        let is_noise = size <= NOISE && size >= NO_LESS * size_before_last;
        if size <= GOAL || is_noise {
            if newton.asleep.is_empty() || n_wakings == MAX_WAKINGS || n_probes == MAX_PROBES {
                return if has_waiting || is_stuck { End::Partial } else { End::Found };
            }
            n_wakings += 1;
            let asleep = std::mem::take(&mut newton.asleep);
            let evaluator = &mut *newton.evaluator;
            let moved =
                asleep.iter().filter(|block| wake(system, evaluator, around, states, unknowns, block, &mut n_probes));
            if moved.count() == 0 {
                return End::Partial;
            }
        }
        // Steps that shrink slowly to the end creep towards a root where the matrix is singular.
        n_slow = if size > 0.3 * last_size && !is_limited { n_slow + 1 } else { 0 };
        if n_slow > MAX_SLOW_STEPS && !has_waiting {
            return End::Lost;
        }
        (size_before_last, last_size) = (last_size, size);
    }
    End::Lost
}

/// Moves unknowns of a block to where its equations and their derivatives have values, one for each equation without;
/// false where none does. An unknown that has no value yet is moved by its nominal value, so that a guess of zero is as
/// good as any other.
fn wake(
    system: &dyn DaeSystem,
    evaluator: &mut dyn Evaluator,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &mut [f64],
    block: &Range<usize>,
    n_probes: &mut usize,
) -> bool {
    let quantities = &system.description().unknowns;
    let pattern = system.pattern(Part::ResidualByUnknowns);
    let mut residual = vec![0.0; pattern.n_rows];
    let mut jacobian = vec![0.0; pattern.n_entries()];
    // Whether a row has a value at unknowns, which are looked at anew where they have moved.
    let mut has_value = |unknowns: &[f64], row: usize, has_moved: bool| {
        if has_moved {
            if *n_probes == MAX_PROBES {
                return false;
            }
            *n_probes += 1;
            let point = around.point(states, unknowns);
            evaluator.evaluate(Part::Residual, &point, &mut residual);
            evaluator.evaluate(Part::ResidualByUnknowns, &point, &mut jacobian);
        }
        residual[row].is_finite() && pattern.row(row).all(|entry| jacobian[entry].is_finite())
    };
    let (mut has_moved, mut is_new) = (false, true);
    for row in block.clone() {
        if has_value(unknowns, row, std::mem::take(&mut is_new)) {
            continue;
        }
        let columns: Vec<usize> = pattern.row(row).map(|entry| pattern.columns[entry] as usize).collect();
        let inside = columns.into_iter().filter(|column| block.contains(column));
        let moves = WAKING_MOVES.iter().flat_map(|share| inside.clone().map(move |column| (column, *share)));
        is_new = true;
        for (column, share) in moves {
            let before = unknowns[column];
            unknowns[column] = before + share * before.abs().max(quantities[column].nominal);
            if has_value(unknowns, row, true) {
                (has_moved, is_new) = (true, false);
                break;
            }
            unknowns[column] = before;
        }
    }
    has_moved
}

/// Newton's steps through the blocks, with what they need.
struct BlockNewton<'s> {
    system: &'s dyn DaeSystem,
    evaluator: Box<dyn Evaluator + 's>,
    residual: Vec<f64>,
    /// What residuals are to be instead of zero, where not empty.
    left: Vec<f64>,
    jacobian: Vec<f64>,
    step: Vec<f64>,
    is_waiting: Vec<bool>,
    /// Whether a block waited in the last step.
    has_waiting: bool,
    /// Blocks that waited for nothing but themselves.
    asleep: Vec<Range<usize>>,
    blocks: Vec<Option<DiagonalBlock>>,
    /// The first blocks, so many of them, make no step.
    n_settled: usize,
}

impl<'s> BlockNewton<'s> {
    fn new(system: &'s dyn DaeSystem) -> Self {
        let description = system.description();
        let pattern = system.pattern(Part::ResidualByUnknowns);
        Self {
            system,
            evaluator: system.evaluator(),
            residual: vec![0.0; pattern.n_rows],
            left: Vec::new(),
            jacobian: vec![0.0; pattern.n_entries()],
            step: vec![0.0; description.unknowns.len()],
            is_waiting: vec![false; description.unknowns.len()],
            has_waiting: false,
            asleep: Vec::new(),
            blocks: description.blocks.iter().map(|_| None).collect(),
            n_settled: 0,
        }
    }

    /// Finds the next step; true where a block waits for others, an error with the unknowns of the first singular
    /// block, which makes no step.
    fn step(&mut self, around: &Surroundings<'_>, states: &[f64], unknowns: &[f64]) -> Result<bool, Range<usize>> {
        let pattern = self.system.pattern(Part::ResidualByUnknowns);
        let point = around.point(states, unknowns);
        self.evaluator.evaluate(Part::Residual, &point, &mut self.residual);
        self.residual.iter_mut().zip(&self.left).for_each(|(residual, left)| *residual -= left);
        self.evaluator.evaluate(Part::ResidualByUnknowns, &point, &mut self.jacobian);
        let (residual, jacobian, step) = (&self.residual, &self.jacobian, &mut self.step);
        (self.has_waiting, self.asleep) = (false, Vec::new());
        let mut singular = None;
        for (at, (block, known)) in self.system.description().blocks.iter().zip(&mut self.blocks).enumerate() {
            let (start, end) = (block.start as usize, (block.start + block.len) as usize);
            if at < self.n_settled {
                step[start..end].fill(0.0);
                continue;
            }
            let (mut waits, mut waits_for_others) = (false, false);
            for row in start..end {
                let mut sum = -residual[row];
                waits |= !residual[row].is_finite();
                for entry in pattern.row(row) {
                    let column = pattern.columns[entry] as usize;
                    waits |= !jacobian[entry].is_finite();
                    waits_for_others |= column < start && self.is_waiting[column];
                    if column < start {
                        sum -= jacobian[entry] * step[column];
                    }
                }
                step[row] = sum;
            }
            self.is_waiting[start..end].fill(waits || waits_for_others);
            if waits || waits_for_others {
                self.has_waiting = true;
                if !waits_for_others {
                    self.asleep.push(start..end);
                }
                step[start..end].fill(0.0);
                continue;
            }
            if end - start == 1 {
                let inside = pattern.row(start).filter(|&entry| pattern.columns[entry] as usize == start);
                let diagonal: f64 = inside.map(|entry| jacobian[entry]).sum();
                step[start] /= diagonal;
                if diagonal == 0.0 || !step[start].is_finite() {
                    (step[start], self.is_waiting[start]) = (0.0, true);
                    singular = singular.or(Some(start..end));
                }
                continue;
            }
            let made = match known.take() {
                Some(made) => Ok(known.insert(made)),
                None => DiagonalBlock::new(pattern, start, end).map(|made| known.insert(made)),
            };
            if made.and_then(|made| made.solve(jacobian, &mut step[start..end])).is_err() {
                step[start..end].fill(0.0);
                self.is_waiting[start..end].fill(true);
                singular = singular.or(Some(start..end));
            }
        }
        singular.map_or(Ok(self.has_waiting), Err)
    }

    /// Goes along the step; gives its size relative to the unknowns, and the unknown that moves most.
    fn advance(&self, unknowns: &mut [f64]) -> (f64, usize) {
        let (mut size, mut largest) = (0.0f64, 0);
        let quantities = &self.system.description().unknowns;
        for (at, ((value, step), quantity)) in unknowns.iter_mut().zip(&self.step).zip(quantities).enumerate() {
            *value += step;
            let relative = step.abs() / value.abs().max(quantity.nominal);
            if relative > size || relative.is_nan() {
                (size, largest) = (relative, at);
            }
        }
        (size, largest)
    }

    /// Whether the residuals are no larger than what rounding of time and states makes of them.
    fn is_at_rounding(&mut self, around: &Surroundings<'_>, states: &[f64], unknowns: &[f64]) -> bool {
        self.evaluator.evaluate(Part::Residual, &around.point(states, unknowns), &mut self.residual);
        let mut noise = vec![0.0f64; self.residual.len()];
        let mut moved = vec![0.0; self.residual.len()];
        let rounded: Vec<f64> = states.iter().map(|state| state * (1.0 + ROUNDING)).collect();
        let later = Surroundings { time: around.time * (1.0 + ROUNDING), ..*around };
        for point in [later.point(states, unknowns), around.point(&rounded, unknowns)] {
            self.evaluator.evaluate(Part::Residual, &point, &mut moved);
            for ((noise, moved), residual) in noise.iter_mut().zip(&moved).zip(&self.residual) {
                *noise += (moved - residual).abs();
            }
        }
        self.residual.iter().zip(&noise).all(|(residual, noise)| residual.abs() <= *noise)
    }
}

/// Relative change of time and states by rounding.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

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
