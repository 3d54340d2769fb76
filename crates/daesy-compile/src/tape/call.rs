//! Calls of functions that run per lane, and where their arguments are.
//!
//! A call keeps its arguments twice: one by one, and as stretches of slots that executors read at once. Nobody outside
//! of this module changes one of them, so they cannot part.

use super::Operand;
use std::fmt;
use std::sync::Arc;

/// A function of the model that runs per lane: reads the arguments, writes the results. It must be pure.
pub trait PerLane: Send + Sync {
    /// The results of one lane.
    fn call(&self, arguments: &[f64], results: &mut [f64]);

    /// Whether many lanes at once cost less than one at a time.
    fn takes_all(&self) -> bool {
        false
    }

    /// The results of many lanes, one lane after the other in both lists.
    fn call_all(&self, n_lanes: usize, arguments: &[f64], results: &mut [f64]) {
        let (n_arguments, n_results) = (arguments.len() / n_lanes.max(1), results.len() / n_lanes.max(1));
        for lane in 0..n_lanes {
            let own = &mut results[lane * n_results..(lane + 1) * n_results];
            self.call(&arguments[lane * n_arguments..(lane + 1) * n_arguments], own);
        }
    }
}

impl<F: Fn(&[f64], &mut [f64]) + Send + Sync> PerLane for F {
    fn call(&self, arguments: &[f64], results: &mut [f64]) {
        self(arguments, results);
    }
}

/// A function that runs per lane, shared.
pub type LaneFunction = Arc<dyn PerLane>;

/// One call of a [`LaneFunction`].
#[derive(Clone)]
pub struct Call {
    function: LaneFunction,
    arguments: Vec<Operand>,
    /// The same arguments, with those in slots one after the other as one: what runs reads these.
    stretches: Vec<Stretch>,
    targets: Vec<Option<u32>>,
}

/// Arguments in slots one after the other, such as those of a table, or one argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) first: Operand,
    pub(crate) len: u32,
}

impl Stretch {
    fn all_of(arguments: &[Operand]) -> Vec<Self> {
        let mut stretches: Vec<Self> = Vec::new();
        for &argument in arguments {
            match (stretches.last_mut(), argument.as_slot()) {
                (Some(last), Some(slot)) if last.first.as_slot().is_some_and(|first| first + last.len == slot) => {
                    last.len += 1;
                }
                _ => stretches.push(Self { first: argument, len: 1 }),
            }
        }
        stretches
    }
}

impl Call {
    pub(crate) fn new(function: LaneFunction, arguments: Vec<Operand>, targets: Vec<Option<u32>>) -> Self {
        Self { function, stretches: Stretch::all_of(&arguments), arguments, targets }
    }

    /// Puts other places for the arguments.
    pub(crate) fn map_arguments(&mut self, place: impl FnMut(Operand) -> Operand) {
        self.arguments = self.arguments.iter().copied().map(place).collect();
        self.stretches = Stretch::all_of(&self.arguments);
    }

    /// Where its arguments are, in stretches.
    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// The function.
    #[must_use]
    pub fn function(&self) -> &LaneFunction {
        &self.function
    }
    /// Where its arguments are.
    #[must_use]
    pub fn arguments(&self) -> &[Operand] {
        &self.arguments
    }
    /// The slots of its results; `None` for a result that is not needed.
    #[must_use]
    pub fn targets(&self) -> &[Option<u32>] {
        &self.targets
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("arguments", &self.arguments)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Executor, Interpreter, TapeBuilder, TapeOptions, Value};
    use std::sync::Arc;

    /// Inputs that become constants do so for functions too: 1, 10, 100, .. times the arguments tell where each came
    /// from, alone and beside others in every order.
    #[test]
    fn functions_read_constants_for_inputs() {
        let inputs = [2.0, 3.0, 5.0, 7.0];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
            let expected: f64 =
                order.iter().zip([1.0, 10.0, 100.0, 1000.0]).map(|(&at, weight)| weight * inputs[at]).sum();
            for first in 0..=inputs.len() {
                let mut b = TapeBuilder::new(inputs.len(), TapeOptions::default());
                let weighted = b.register(
                    1,
                    Arc::new(|arguments: &[f64], results: &mut [f64]| {
                        results[0] = arguments.iter().rev().fold(0.0, |sum, argument| 10.0 * sum + argument);
                    }),
                );
                let arguments: Vec<Value> = order.iter().map(|&at| b.input(at)).collect();
                let result = b.call(weighted, &arguments)[0];
                let tape = b.finish(&[result]).unwrap();
                let n_constants = tape.constants().len();
                let interpreter = Interpreter::new(tape.with_constants_for_inputs(first));
                let mut memory = interpreter.memory(3);
                for (at, &value) in inputs.iter().enumerate() {
                    match at.checked_sub(first) {
                        Some(constant) => memory.set_constant(n_constants + constant, value),
                        None => memory.input_mut(at).fill(value),
                    }
                }
                interpreter.execute(&mut memory).unwrap();
                assert_eq!(memory.output(0), [expected; 3], "{order:?} from {first}");
            }
        }
    }
}
