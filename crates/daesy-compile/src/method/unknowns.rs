//! The unknowns of a system whose blocks are all linear, as one straight-line program.
//!
//! Block by block, with the unknowns of earlier blocks known, A v = -F(v = 0) is solved by Gaussian elimination in an
//! order of pivots that is fixed when the program is made, on samples near a reference point (module `eliminate`).
//! Systems of the size of a mechanism are solved faster this way than by evaluating residuals and matrix and
//! factoring. A second program also tells how well its result solves each equation, by the backward error row by row
//! [@higham2002, sec. 7.1]
//!
//! ```text
//! max_i |A v - b|_i / (|A| (|v| + n) + |b|)_i      in units of rounding, n the nominal values
//! ```
//!
//! so that the caller can turn to a factorization with pivots of its own. Units of equations and unknowns do not
//! change that number, while a pivot may look small against its column only because a mass is small against a length.

use daesy_graph::{Differentiator, ExprId, Graph, Leaf, Reach};
use daesy_system::{DaeSystem, Evaluator, LinearUnknowns, Part, Point};
use rustc_hash::FxHashMap;

use super::eliminate::{Factors, PivotOrder, Place, Watch};
use crate::interpret::{Executor, Interpreter};
use crate::lower::{CompiledSystem, Lowering};
use crate::memory::LaneMemory;
use crate::operation::{Binary, Unary};
use crate::pool::{Lent, Pool};
use crate::tape::{TapeBuilder, TapeOptions, Value};

/// Systems with more unknowns are solved by factorizations.
const MOST_UNKNOWNS: usize = 64;

/// So much longer than the program of the residuals the program may be, for each unknown.
const MOST_OPERATIONS_PER_UNKNOWN: usize = 40;

/// Points beside the reference at which pivots must be good.
const N_SAMPLES: usize = 4;

/// How the unknowns of all blocks are eliminated.
pub(crate) struct Elimination {
    /// Residuals and their derivatives.
    graph: Graph,
    blocks: Vec<LinearBlock>,
    /// Places of the unknowns among the inputs of tapes.
    unknown_places: Vec<usize>,
}

struct LinearBlock {
    start: usize,
    /// Right-hand sides, then entries of the matrix.
    roots: Vec<ExprId>,
    /// All below them, arguments first.
    order: Vec<ExprId>,
    places: Vec<Place>,
    pivots: PivotOrder,
    nominals: Vec<f64>,
}

impl Elimination {
    /// Chooses pivots near a reference; none for systems that are not linear or large.
    fn new(system: &CompiledSystem, reference: &Point<'_>) -> Option<Self> {
        let regular = &system.regular;
        let n = regular.unknowns.len();
        if n == 0 || n > MOST_UNKNOWNS || regular.blocks.iter().any(|block| !block.is_linear) {
            return None;
        }
        let samples = samples(system, reference);
        let leaves: Vec<Leaf> = regular.unknowns.iter().map(|known| Leaf::der(known.var, known.order)).collect();
        let unknown_places: Vec<usize> = regular
            .unknowns
            .iter()
            .map(|known| system.places.of_leaf.get(&(known.var, known.order)).map(|&place| place as usize))
            .collect::<Option<_>>()?;
        let mut graph = (*system.graph).clone();
        let mut differentiator = Differentiator::new(&mut graph, &leaves);
        let gradients: Vec<Vec<daesy_graph::GradientEntry>> =
            system.rows.residual.iter().map(|&row| differentiator.gradient(&mut graph, row)).collect();
        let pattern = system.pattern(Part::ResidualByUnknowns);
        let mut reach = Reach::new();
        let mut blocks = Vec::new();
        for block in &regular.blocks {
            let (start, end) = (block.start as usize, (block.start + block.len) as usize);
            let (mut places, mut entries, mut positions) = (Vec::new(), Vec::new(), Vec::new());
            for (row, gradient) in gradients.iter().enumerate().take(end).skip(start) {
                for (at, entry) in gradient.iter().enumerate() {
                    let column = entry.column as usize;
                    if (start..end).contains(&column) {
                        places.push(Place { row: row - start, column: column - start });
                        entries.push(entry.value);
                        positions.push(pattern.row(row).start + at);
                    }
                }
            }
            let roots: Vec<ExprId> = system.rows.residual[start..end].iter().chain(&entries).copied().collect();
            let order: Vec<ExprId> = reach.below(&graph, &roots).to_vec();
            let sampled: Vec<Vec<f64>> =
                samples.iter().map(|sample| positions.iter().map(|&at| sample[at]).collect()).collect();
            let pivots = PivotOrder::choose(end - start, &places, &sampled, &vec![false; places.len()]);
            let nominals = system.description.unknowns[start..end].iter().map(|unknown| unknown.nominal).collect();
            blocks.push(LinearBlock { start, roots, order, places, pivots, nominals });
        }
        Some(Self { graph, blocks, unknown_places })
    }

    /// What puts expressions into programs.
    pub(super) fn lowering<'a>(&'a self, system: &'a CompiledSystem) -> Lowering<'a> {
        Lowering::new(&system.places, &self.graph, &system.graph)
    }

    /// Writes the solution into a program, with time, states, parameters, inputs and modes as bound; binds the
    /// unknowns to it. The largest backward error is watched where that is asked for.
    pub(super) fn solve(
        &self,
        builder: &mut TapeBuilder,
        lowering: &mut Lowering<'_>,
        mut watch: Option<&mut Watch>,
    ) -> Vec<Value> {
        let zero = builder.constant(0.0);
        for &place in &self.unknown_places {
            lowering.bindings[place] = zero;
        }
        let mut unknowns = vec![zero; self.unknown_places.len()];
        for block in &self.blocks {
            let mut values = lowering.lower(builder, &block.order, &block.roots);
            let entries = values.split_off(block.nominals.len());
            let right: Vec<Value> = values.into_iter().map(|value| builder.neg(value)).collect();
            let matrix: FxHashMap<Place, Value> = block.places.iter().copied().zip(entries).collect();
            let factors = Factors::new(builder, &block.pivots, matrix.clone(), None);
            let solution = factors.solve(builder, &right);
            // A division alone cannot go wrong.
            if let Some(watch) = &mut watch
                && solution.len() > 1
            {
                let error = backward_error(builder, &matrix, &solution, &right, &block.nominals);
                watch.note(builder, error);
            }
            for (at, value) in solution.into_iter().enumerate() {
                unknowns[block.start + at] = value;
                lowering.bindings[self.unknown_places[block.start + at]] = value;
            }
        }
        unknowns
    }
}

/// The programs that give all unknowns, one of them the backward error too.
pub(crate) struct UnknownsProgram {
    pub(super) elimination: Elimination,
    quick: Interpreter,
    watched: Interpreter,
    pub(super) n_operations: usize,
    memories: Pool<Memories>,
}

/// Memory of both programs, and what one of them finds: unknowns and backward error.
#[derive(Default)]
struct Memories {
    quick: LaneMemory,
    watched: LaneMemory,
    found: Vec<f64>,
}

impl UnknownsProgram {
    /// The program, unless a block is not linear or it would be long.
    pub(crate) fn new(system: &CompiledSystem, reference: &Point<'_>) -> Option<Self> {
        let elimination = Elimination::new(system, reference)?;
        let n_inputs = system.places.n_inputs;
        let mut builder = TapeBuilder::new(n_inputs, TapeOptions::default());
        let mut lowering = elimination.lowering(system);
        lowering.bindings = (0..n_inputs).map(|input| builder.input(input)).collect();
        let mut watch = Watch::default();
        let mut unknowns = elimination.solve(&mut builder, &mut lowering, Some(&mut watch));
        let n = unknowns.len();
        let quick = Interpreter::new(builder.clone().finish(&unknowns).ok()?);
        unknowns.push(watch.value(&mut builder));
        let watched = Interpreter::new(builder.finish(&unknowns).ok()?);
        let n_operations = quick.tape().instructions().len();
        let n_residual = system.program(Part::Residual).tape().instructions().len();
        let is_short = n_operations <= 2 * n_residual + MOST_OPERATIONS_PER_UNKNOWN * n;
        is_short.then_some(Self { elimination, quick, watched, n_operations, memories: Pool::new() })
    }

    /// A solver with memory of its own.
    pub(crate) fn solver(&self) -> TapeUnknowns<'_> {
        let memories = self.memories.lend(|| Memories {
            quick: self.quick.memory(1),
            watched: self.watched.memory(1),
            found: vec![0.0; self.watched.tape().n_outputs()],
        });
        TapeUnknowns { program: self, memories }
    }
}

/// The largest residual of A x = b relative to the sizes of its terms, in units of rounding.
fn backward_error(
    builder: &mut TapeBuilder,
    matrix: &FxHashMap<Place, Value>,
    solution: &[Value],
    right: &[Value],
    nominals: &[f64],
) -> Value {
    let sizes: Vec<Value> = solution
        .iter()
        .zip(nominals)
        .map(|(&unknown, &nominal)| {
            let (size, nominal) = (builder.unary(Unary::Abs, unknown), builder.constant(nominal));
            builder.binary(Binary::Add, size, nominal)
        })
        .collect();
    let mut worst: Option<Value> = None;
    for (row, &right) in right.iter().enumerate() {
        let (mut rest, mut size) = (right, builder.unary(Unary::Abs, right));
        for (column, &unknown) in solution.iter().enumerate() {
            if let Some(&entry) = matrix.get(&Place { row, column }) {
                let product = builder.mul(entry, unknown);
                rest = builder.sub(rest, product);
                let product = builder.mul(entry, sizes[column]);
                let product = builder.unary(Unary::Abs, product);
                size = builder.binary(Binary::Add, size, product);
            }
        }
        let rest = builder.unary(Unary::Abs, rest);
        let error = builder.div(rest, size);
        worst = Some(worst.map_or(error, |worst| builder.binary(Binary::Max, worst, error)));
    }
    let unit = builder.constant(1.0 / f64::EPSILON);
    let worst = worst.unwrap_or(unit);
    builder.mul(worst, unit)
}

/// dF/dv at the reference and at points beside it, where it is finite.
fn samples(system: &CompiledSystem, reference: &Point<'_>) -> Vec<Vec<f64>> {
    let description = &system.description;
    // A fixed sequence of numbers in -1..1; any would do.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let mut evaluator: Box<dyn Evaluator + '_> = system.evaluator();
    let mut samples = Vec::new();
    for sample in 0..=N_SAMPLES {
        let spread = if sample == 0 { 0.0 } else { 0.3 };
        let mut beside = |values: &[f64], quantities: &[daesy_system::Quantity]| -> Vec<f64> {
            let values = values.iter().zip(quantities);
            values.map(|(value, known)| value + spread * next() * value.abs().max(0.5 * known.nominal)).collect()
        };
        let states = beside(reference.states, &description.states);
        let unknowns = beside(reference.unknowns, &description.unknowns);
        let point = Point { states: &states, unknowns: &unknowns, ..*reference };
        let mut values = vec![0.0; system.pattern(Part::ResidualByUnknowns).n_entries()];
        evaluator.evaluate(Part::ResidualByUnknowns, &point, &mut values);
        if values.iter().all(|value| value.is_finite()) {
            samples.push(values);
        }
    }
    samples
}

/// Runs the programs.
pub(crate) struct TapeUnknowns<'s> {
    program: &'s UnknownsProgram,
    memories: Lent<'s, Memories>,
}

/// Runs a program at a point.
fn run(executor: &Interpreter, memory: &mut LaneMemory, point: &Point<'_>, outputs: &mut [f64]) {
    // The unknowns have a place among the inputs, but are not read.
    let groups: [&[f64]; 6] =
        [&[point.time], point.states, point.unknowns, point.parameters, point.inputs, point.modes];
    executor.evaluate_groups(memory, &groups, outputs);
}

impl LinearUnknowns for TapeUnknowns<'_> {
    fn n_operations(&self) -> usize {
        self.program.n_operations
    }

    fn solve(&mut self, point: &Point<'_>, unknowns: &mut [f64]) {
        run(&self.program.quick, &mut self.memories.quick, point, unknowns);
    }

    fn solve_watched(&mut self, point: &Point<'_>, unknowns: &mut [f64]) -> f64 {
        let Memories { watched, found, .. } = &mut *self.memories;
        run(&self.program.watched, watched, point, found);
        let (found, error) = found.split_at(unknowns.len());
        unknowns.copy_from_slice(found);
        error[0]
    }
}
