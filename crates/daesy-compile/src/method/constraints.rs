//! Newton's step back to the constraints as one program, for few of them.
//!
//! ```text
//! ds~ = -G~' (G~ G~' + eps)^-1 D g,      G~ = D G W,   D scales rows to norm one,   W = diag(weights)
//! ```
//!
//! The matrix is symmetric and, with eps at the size of rounding against redundant constraints, positive definite: it
//! is eliminated from the first row to the last, one triangle alone.

use daesy_graph::{Differentiator, ExprId, Leaf, Reach};
use daesy_system::{ConstraintStep, Point};

use crate::interpret::{Executor, Interpreter};
use crate::lower::{CompiledSystem, Lowering};
use crate::memory::LaneMemory;
use crate::operation::{Binary, Unary};
use crate::pool::{Lent, Pool};
use crate::tape::{TapeBuilder, TapeOptions, Value};

/// So many constraints are few.
const FEW: usize = 12;

/// Longer programs are not used.
const MOST_OPERATIONS: usize = 3_000;

/// Size of the regularization against redundant constraints, relative to rows of norm one.
const REDUNDANCY: f64 = 1e-13;

/// The program of a step.
pub(crate) struct ConstraintProgram {
    executor: Interpreter,
    memories: Pool<LaneMemory>,
}

/// An entry of a row of G~.
struct Entry {
    state: usize,
    value: Value,
}

impl ConstraintProgram {
    /// The program, unless there are many constraints or they depend on more than time, states, parameters, inputs
    /// and modes.
    pub(crate) fn new(system: &CompiledSystem) -> Option<Self> {
        let regular = &system.regular;
        let (n_states, n_unknowns, m) = (regular.states.len(), regular.unknowns.len(), regular.constraints.len());
        if m == 0 || m > FEW {
            return None;
        }
        let rows = &system.rows.constraint;
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        reach.leaves(&system.graph, rows, &mut leaves);
        let is_unknown = |leaf: &Leaf| match *leaf {
            Leaf::Var { var, order } => regular.unknowns.iter().any(|known| known.var == var && known.order == order),
            Leaf::Time => false,
        };
        if leaves.iter().any(is_unknown) {
            return None;
        }
        let columns: Vec<Leaf> = regular.states.iter().map(|state| Leaf::der(state.var, state.order)).collect();
        let mut graph = (*system.graph).clone();
        let mut differentiator = Differentiator::new(&mut graph, &columns);
        let gradients: Vec<Vec<daesy_graph::GradientEntry>> =
            rows.iter().map(|&row| differentiator.gradient(&mut graph, row)).collect();
        let derivatives = gradients.iter().flatten().map(|entry| entry.value);
        let roots: Vec<ExprId> = rows.iter().copied().chain(derivatives).collect();
        let order: Vec<ExprId> = reach.below(&graph, &roots).to_vec();
        // Time, states, parameters, inputs and modes as in other programs, then the weights.
        let n_others = system.places.n_inputs - 1 - n_states - n_unknowns;
        let first_weight = 1 + n_states + n_others;
        let mut builder = TapeBuilder::new(first_weight + n_states, TapeOptions::default());
        let mut lowering = Lowering::new(&system.places, &graph, &system.graph);
        let zero = builder.constant(0.0);
        lowering.bindings = (0..=n_states).map(|at| builder.input(at)).collect();
        lowering.bindings.extend(std::iter::repeat_n(zero, n_unknowns));
        lowering.bindings.extend((0..n_others).map(|at| builder.input(1 + n_states + at)));
        let mut residuals = lowering.lower(&mut builder, &order, &roots);
        let mut derivatives = residuals.split_off(m).into_iter();
        let (mut scaled_rows, mut scales) = (Vec::with_capacity(m), Vec::with_capacity(m));
        for gradient in &gradients {
            let mut row: Vec<Entry> = gradient
                .iter()
                .zip(&mut derivatives)
                .map(|(entry, value)| {
                    let state = entry.column as usize;
                    let weight = builder.input(first_weight + state);
                    Entry { state, value: builder.mul(value, weight) }
                })
                .collect();
            let scale = scale_of(&mut builder, &row);
            for entry in &mut row {
                entry.value = builder.mul(entry.value, scale);
            }
            scaled_rows.push(row);
            scales.push(scale);
        }
        let right: Vec<Value> = residuals
            .iter()
            .zip(&scales)
            .map(|(&residual, &scale)| {
                let scaled = builder.mul(residual, scale);
                builder.neg(scaled)
            })
            .collect();
        let matrix = products(&mut builder, &scaled_rows);
        let multipliers = solve(&mut builder, matrix, &right);
        let mut step: Vec<Option<Value>> = vec![None; n_states];
        for (row, &multiplier) in scaled_rows.iter().zip(&multipliers) {
            for entry in row {
                let product = builder.mul(entry.value, multiplier);
                let known = &mut step[entry.state];
                *known = Some(known.map_or(product, |known| builder.add(known, product)));
            }
        }
        let mut outputs: Vec<Value> = step.into_iter().map(|value| value.unwrap_or(zero)).collect();
        outputs.extend(scales);
        outputs.extend(residuals);
        let tape = builder.finish(&outputs).ok()?;
        let is_short = tape.instructions().len() <= MOST_OPERATIONS;
        is_short.then(|| Self { executor: Interpreter::new(tape), memories: Pool::new() })
    }

    /// Something that runs the program, with memory of its own.
    pub(crate) fn step(&self) -> TapeConstraintStep<'_> {
        TapeConstraintStep { program: self, memory: self.memories.lend(|| self.executor.memory(1)) }
    }
}

/// 1 over the norm of a row, 1 where all of it is zero.
fn scale_of(builder: &mut TapeBuilder, row: &[Entry]) -> Value {
    let (mut sum, zero, one) = (builder.constant(0.0), builder.constant(0.0), builder.constant(1.0));
    for (at, entry) in row.iter().enumerate() {
        let square = builder.mul(entry.value, entry.value);
        sum = if at == 0 { square } else { builder.add(sum, square) };
    }
    let norm = builder.unary(Unary::Sqrt, sum);
    let scale = builder.div(one, norm);
    let is_some = builder.binary(Binary::Greater, sum, zero);
    builder.select(is_some, scale, one)
}

/// The lower triangle of G~ G~' + eps.
fn products(builder: &mut TapeBuilder, rows: &[Vec<Entry>]) -> Vec<Vec<Option<Value>>> {
    let redundancy = builder.constant(REDUNDANCY);
    let mut matrix = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let mut line = Vec::with_capacity(at + 1);
        for other in &rows[..=at] {
            let mut sum: Option<Value> = None;
            for entry in row {
                for partner in other.iter().filter(|partner| partner.state == entry.state) {
                    let product = builder.mul(entry.value, partner.value);
                    sum = Some(sum.map_or(product, |sum| builder.add(sum, product)));
                }
            }
            line.push(sum);
        }
        line[at] = Some(line[at].map_or(redundancy, |diagonal| builder.add(diagonal, redundancy)));
        matrix.push(line);
    }
    matrix
}

/// Solves M x = b for a symmetric positive definite M = L D L' given by its lower triangle [@golub2013, sec. 4.1].
fn solve(builder: &mut TapeBuilder, mut matrix: Vec<Vec<Option<Value>>>, right: &[Value]) -> Vec<Value> {
    let n = right.len();
    let one = builder.constant(1.0);
    let mut solution = right.to_vec();
    let mut inverses = Vec::with_capacity(n);
    for k in 0..n {
        let pivot = matrix[k][k].unwrap_or(one);
        let inverse = builder.div(one, pivot);
        inverses.push(inverse);
        let column: Vec<Option<Value>> = (k + 1..n).map(|row| matrix[row][k]).collect();
        for row in k + 1..n {
            let Some(entry) = column[row - k - 1] else { continue };
            let factor = builder.mul(entry, inverse);
            matrix[row][k] = Some(factor);
            for other in k + 1..=row {
                let Some(above) = column[other - k - 1] else { continue };
                let product = builder.mul(factor, above);
                matrix[row][other] = Some(match matrix[row][other] {
                    Some(known) => builder.sub(known, product),
                    None => builder.neg(product),
                });
            }
            let product = builder.mul(factor, solution[k]);
            solution[row] = builder.sub(solution[row], product);
        }
    }
    for k in (0..n).rev() {
        solution[k] = builder.mul(solution[k], inverses[k]);
        for row in k + 1..n {
            if let Some(factor) = matrix[row][k] {
                let product = builder.mul(factor, solution[row]);
                solution[k] = builder.sub(solution[k], product);
            }
        }
    }
    solution
}

/// Runs the program.
pub(crate) struct TapeConstraintStep<'s> {
    program: &'s ConstraintProgram,
    memory: Lent<'s, LaneMemory>,
}

impl ConstraintStep for TapeConstraintStep<'_> {
    fn run(&mut self, point: &Point<'_>, weights: &[f64], results: &mut [f64]) {
        let groups: [&[f64]; 6] = [&[point.time], point.states, point.parameters, point.inputs, point.modes, weights];
        self.program.executor.evaluate_groups(&mut self.memory, &groups, results);
    }
}
