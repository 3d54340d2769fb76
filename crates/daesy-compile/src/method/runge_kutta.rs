//! A step of an explicit Runge-Kutta method for one trajectory as one program.
//!
//! For systems whose unknowns are eliminated (module `unknowns`) all stages follow each other in one tape, whose
//! inputs are
//!
//! ```text
//! [ t, h, t_end | states | rates | parameters | inputs of stage 2 .. s | modes ]
//! ```
//!
//! What depends on parameters alone is computed once a step, and nothing goes through memory between stages.

use daesy_graph::regular::Rate;
use daesy_system::{ExplicitMethod, ExplicitStart, ExplicitSteps};

use super::unknowns::UnknownsProgram;
use crate::interpret::{Backend, Executor, Interpreter};
use crate::lower::CompiledSystem;
use crate::memory::LaneMemory;
use crate::pool::{Lent, Pool};
use crate::tape::{TapeBuilder, TapeOptions, Value};

/// Longer programs are not written: what is saved between stages is little then.
const MOST_OPERATIONS: usize = 20_000;

/// Time, step and end among the inputs.
const N_TIMES: usize = 3;

/// The program of a step.
pub(crate) struct ExplicitProgram {
    executor: Interpreter,
    memories: Pool<LaneMemory>,
    nodes: Vec<f64>,
    rows: Vec<Vec<f64>>,
    estimates: Vec<Vec<f64>>,
}

impl ExplicitProgram {
    /// The program, unless it would be long or call functions.
    pub(crate) fn new(
        system: &CompiledSystem,
        unknowns: &UnknownsProgram,
        method: &ExplicitMethod<'_>,
    ) -> Option<Self> {
        let regular = &system.regular;
        let (n_states, n_parameters) = (regular.states.len(), regular.parameters.len());
        let (n_inputs, n_modes) = (system.description.n_inputs, system.description.n_modes);
        let n_stages = method.n_stages();
        let n_terms: usize = method.rows.iter().chain(method.estimates).map(|row| row.len()).sum();
        let n_operations = n_stages * unknowns.n_operations + n_terms * n_states;
        if n_operations > MOST_OPERATIONS {
            return None;
        }
        let first_rate = N_TIMES + n_states;
        let first_parameter = first_rate + n_states;
        let first_input = first_parameter + n_parameters;
        let first_mode = first_input + (n_stages - 1) * n_inputs;
        let mut builder = TapeBuilder::new(first_mode + n_modes, TapeOptions::default());
        let (time, step, end) = (builder.input(0), builder.input(1), builder.input(2));
        let start: Vec<Value> = (0..n_states).map(|at| builder.input(N_TIMES + at)).collect();
        let mut rates: Vec<Vec<Value>> = vec![(0..n_states).map(|at| builder.input(first_rate + at)).collect()];
        let mut lowering = unknowns.elimination.lowering(system);
        // Time, states, unknowns, parameters, inputs, modes.
        let place_of_parameter = 1 + n_states + regular.unknowns.len();
        let zero = builder.constant(0.0);
        lowering.bindings = vec![zero; place_of_parameter + n_parameters + n_inputs + n_modes];
        for at in 0..n_parameters {
            lowering.bindings[place_of_parameter + at] = builder.input(first_parameter + at);
        }
        let place_of_input = place_of_parameter + n_parameters;
        for at in 0..n_modes {
            lowering.bindings[place_of_input + n_inputs + at] = builder.input(first_mode + at);
        }
        let mut states = start.clone();
        let mut found = Vec::new();
        for stage in 1..n_stages {
            states = advance(&mut builder, &start, step, method.rows[stage], &rates);
            lowering.bindings[0] = if stage == n_stages - 1 {
                end
            } else {
                let node = builder.constant(method.nodes[stage]);
                let passed = builder.mul(node, step);
                builder.add(time, passed)
            };
            lowering.bindings[1..=n_states].copy_from_slice(&states);
            for at in 0..n_inputs {
                lowering.bindings[place_of_input + at] = builder.input(first_input + (stage - 1) * n_inputs + at);
            }
            found = unknowns.elimination.solve(&mut builder, &mut lowering, None);
            let rate = |rate: &Rate| match *rate {
                Rate::State(state) => states[state as usize],
                Rate::Unknown(unknown) => found[unknown as usize],
            };
            rates.push(regular.rates.iter().map(rate).collect());
        }
        let mut outputs: Vec<Value> = rates[1..].iter().flatten().copied().collect();
        outputs.extend(states);
        outputs.extend(advance(&mut builder, &start, step, method.rows[n_stages], &rates));
        outputs.extend(found);
        for weights in method.estimates {
            for state in 0..n_states {
                let mut sum = zero;
                for (&weight, rates) in weights.iter().zip(&rates).filter(|(weight, _)| **weight != 0.0) {
                    let weight = builder.constant(weight);
                    let product = builder.mul(weight, rates[state]);
                    sum = builder.add(sum, product);
                }
                outputs.push(sum);
            }
        }
        let tape = builder.finish(&outputs).ok()?;
        let is_wanted = tape.calls().is_empty() && tape.instructions().len() <= 2 * MOST_OPERATIONS;
        // It was asked for often.
        let executor = if is_wanted { Interpreter::with_backend(tape, Backend::detect()).ok()? } else { return None };
        Some(Self {
            executor,
            memories: Pool::new(),
            nodes: method.nodes.to_vec(),
            rows: method.rows.iter().map(|row| row.to_vec()).collect(),
            estimates: method.estimates.iter().map(|row| row.to_vec()).collect(),
        })
    }

    /// Whether it takes steps of this method.
    pub(crate) fn is_for(&self, method: &ExplicitMethod<'_>) -> bool {
        self.nodes == method.nodes && self.rows == method.rows && self.estimates == method.estimates
    }

    /// Something that runs the program, with memory of its own.
    pub(crate) fn steps(&self) -> TapeSteps<'_> {
        TapeSteps { program: self, memory: self.memories.lend(|| self.executor.memory(1)) }
    }
}

/// start + step * sum of coefficients times rates
fn advance(builder: &mut TapeBuilder, start: &[Value], step: Value, row: &[f64], rates: &[Vec<Value>]) -> Vec<Value> {
    let mut states = start.to_vec();
    for (&coefficient, rates) in row.iter().zip(rates).filter(|(coefficient, _)| **coefficient != 0.0) {
        let coefficient = builder.constant(coefficient);
        let factor = builder.mul(step, coefficient);
        for (state, &rate) in states.iter_mut().zip(rates) {
            let product = builder.mul(factor, rate);
            *state = builder.add(*state, product);
        }
    }
    states
}

/// Runs the program.
pub(crate) struct TapeSteps<'s> {
    program: &'s ExplicitProgram,
    memory: Lent<'s, LaneMemory>,
}

impl ExplicitSteps for TapeSteps<'_> {
    fn run(&mut self, start: &ExplicitStart<'_>, results: &mut [f64]) {
        let times = [start.time, start.step, start.end];
        let groups: [&[f64]; 6] = [&times, start.states, start.rates, start.parameters, start.inputs, start.modes];
        self.program.executor.evaluate_groups(&mut self.memory, &groups, results);
    }
}
