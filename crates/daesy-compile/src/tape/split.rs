//! Parting a program into what is the same for all lanes and what is not.
//!
//! Values that depend on uniform inputs only (parameters, the length of a step) are computed once by a *prelude* for
//! a single lane and handed to the *main* program as further inputs. A division by such a value becomes a product
//! with its reciprocal.

use super::build::{Node, TapeBuilder, Value};
use super::{Tape, TapeError, TapeOptions};
use crate::operation::Opcode;
use rustc_hash::FxHashMap;

/// A program in two parts.
#[derive(Clone, Debug)]
pub struct SplitTape {
    /// From the uniform inputs to what the main program takes from them.
    pub prelude: Tape,
    /// From the lanes' inputs, followed by the outputs of the prelude, to the outputs.
    pub main: Tape,
}

/// What the prelude hands over.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Hoisted {
    Value(u32),
    Reciprocal(u32),
}

impl TapeBuilder {
    /// Finishes a program whose first `n_lane_inputs` inputs differ from lane to lane while the others do not.
    ///
    /// # Errors
    /// [`TapeError::TooFewInputs`] if there are not so many inputs, [`TapeError::TooLong`] as [`TapeBuilder::finish`].
    ///
    /// # Panics
    /// If an output belongs to another builder.
    pub fn finish_split(self, outputs: &[Value], n_lane_inputs: usize) -> Result<SplitTape, TapeError> {
        let n_inputs = self.n_inputs();
        if n_lane_inputs > n_inputs {
            return Err(TapeError::TooFewInputs { n_lane_inputs, n_inputs });
        }
        let is_uniform = self.uniform_values(n_lane_inputs);
        let n = self.nodes.len();
        let mut is_needed = vec![false; n];
        let mut hoisted: Vec<Hoisted> = Vec::new();
        let mut places: FxHashMap<Hoisted, usize> = FxHashMap::default();
        let mut hoist = |what: Hoisted| {
            places.entry(what).or_insert_with(|| {
                hoisted.push(what);
                hoisted.len() - 1
            });
        };
        let is_constant = |node: u32| matches!(self.nodes[node as usize], Node::Constant(_));
        for output in outputs {
            is_needed[output.0 as usize] = true;
            if is_uniform[output.0 as usize] && !is_constant(output.0) {
                hoist(Hoisted::Value(output.0));
            }
        }
        for node in (0..n).rev() {
            if !is_needed[node] || is_uniform[node] {
                continue;
            }
            let mut need = |argument: u32, as_divisor: bool| {
                is_needed[argument as usize] = true;
                if is_uniform[argument as usize] && !is_constant(argument) {
                    hoist(if as_divisor { Hoisted::Reciprocal(argument) } else { Hoisted::Value(argument) });
                }
            };
            match self.nodes[node] {
                Node::Input(_) | Node::Constant(_) => {}
                Node::Operation { opcode, arguments } => {
                    for (at, &argument) in arguments[..opcode.n_operands()].iter().enumerate() {
                        need(argument, opcode == Opcode::Div && at == 1);
                    }
                }
                Node::Call(call) => {
                    for &argument in &self.calls[call as usize].arguments {
                        need(argument, false);
                    }
                }
                Node::Result { call, .. } => need(self.calls[call as usize].node, false),
            }
        }
        let prelude = self.prelude(&hoisted, n_lane_inputs, &is_uniform)?;
        let options = self.options();
        let mut main = TapeBuilder::new(n_lane_inputs + hoisted.len(), options);
        let mut images: Vec<Option<Value>> = vec![None; n];
        let input_of = |main: &TapeBuilder, what: Hoisted| places.get(&what).map(|at| main.input(n_lane_inputs + at));
        for node in 0..n {
            if !is_needed[node] {
                continue;
            }
            images[node] = if is_uniform[node] {
                match self.nodes[node] {
                    Node::Constant(index) => Some(main.constant(self.constants[index as usize])),
                    _ => input_of(&main, Hoisted::Value(node as u32)),
                }
            } else if let Node::Operation { opcode: Opcode::Div, arguments: [a, b, _] } = self.nodes[node]
                && is_uniform[b as usize]
                && !is_constant(b)
            {
                let factor = input_of(&main, Hoisted::Reciprocal(b));
                images[a as usize].zip(factor).map(|(a, factor)| main.mul(a, factor))
            } else {
                self.copy_node(&mut main, node, &images)
            };
        }
        let outputs: Vec<Value> = outputs
            .iter()
            .map(|output| images[output.0 as usize].expect("what an output needs has been copied"))
            .collect();
        Ok(SplitTape { prelude, main: main.finish(&outputs)? })
    }

    fn prelude(&self, hoisted: &[Hoisted], n_lane_inputs: usize, is_uniform: &[bool]) -> Result<Tape, TapeError> {
        let n_uniform = self.n_inputs() - n_lane_inputs;
        let mut prelude = TapeBuilder::new(n_uniform, TapeOptions::default());
        let mut images: Vec<Option<Value>> = vec![None; self.nodes.len()];
        let last = hoisted.iter().map(|what| match *what {
            Hoisted::Value(node) | Hoisted::Reciprocal(node) => node as usize + 1,
        });
        for node in 0..last.max().unwrap_or(0) {
            if is_uniform[node] {
                images[node] = match self.nodes[node] {
                    Node::Input(input) => Some(prelude.input(input as usize - n_lane_inputs)),
                    Node::Constant(index) => Some(prelude.constant(self.constants[index as usize])),
                    _ => self.copy_node(&mut prelude, node, &images),
                };
            }
        }
        let outputs: Vec<Value> = hoisted
            .iter()
            .map(|what| {
                let image = |node: u32| images[node as usize].expect("uniform values need uniform values only");
                match *what {
                    Hoisted::Value(node) => image(node),
                    Hoisted::Reciprocal(node) => {
                        let one = prelude.constant(1.0);
                        prelude.div(one, image(node))
                    }
                }
            })
            .collect();
        prelude.finish(&outputs)
    }

    /// Which values do not depend on the first inputs. Calls count as dependent.
    fn uniform_values(&self, n_lane_inputs: usize) -> Vec<bool> {
        let mut is_uniform: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let uniform = match node {
                Node::Input(input) => *input as usize >= n_lane_inputs,
                Node::Constant(_) => true,
                Node::Operation { opcode, arguments } => {
                    arguments[..opcode.n_operands()].iter().all(|&argument| is_uniform[argument as usize])
                }
                Node::Call(_) | Node::Result { .. } => false,
            };
            is_uniform.push(uniform);
        }
        is_uniform
    }

    /// A node in another builder, given the images of what it needs.
    fn copy_node(&self, target: &mut Self, node: usize, images: &[Option<Value>]) -> Option<Value> {
        match self.nodes[node] {
            Node::Input(input) => Some(target.input(input as usize)),
            Node::Constant(index) => Some(target.constant(self.constants[index as usize])),
            Node::Operation { opcode, arguments } => {
                let image = |at: usize| images[arguments[at] as usize];
                match opcode.n_operands() {
                    1 => Some(target.raw_operation(opcode, [image(0)?, image(0)?, image(0)?], 1)),
                    2 => Some(target.raw_operation(opcode, [image(0)?, image(1)?, image(1)?], 2)),
                    _ => Some(target.raw_operation(opcode, [image(0)?, image(1)?, image(2)?], 3)),
                }
            }
            Node::Call(_) => None,
            Node::Result { call, position } => {
                let pending = &self.calls[call as usize];
                let arguments: Option<Vec<Value>> =
                    pending.arguments.iter().map(|&argument| images[argument as usize]).collect();
                let function = target.register_shared(pending.results.len(), &pending.function);
                Some(target.call(function, &arguments?)[position as usize])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, Interpreter, Unary};

    #[test]
    fn prelude_and_main_give_what_the_whole_gives() {
        let build = || {
            let mut b = TapeBuilder::new(4, TapeOptions::default().with_structural_zeros().with_contraction());
            let [x, y, p, q] = [0, 1, 2, 3].map(|at| b.input(at));
            let root = b.unary(Unary::Sqrt, p);
            let ratio = b.div(root, q);
            let scaled = b.mul(x, ratio);
            let divided = b.div(y, root);
            let sum = b.add(scaled, divided);
            let outputs = [sum, ratio, x, q];
            (b, outputs)
        };
        let (whole, outputs) = build();
        let whole = Interpreter::new(whole.finish(&outputs).unwrap());
        let (parted, outputs) = build();
        let parted = parted.finish_split(&outputs, 2).unwrap();
        let inputs = [1.5, -0.25, 2.0, 3.0];
        let hoisted = Interpreter::new(parted.prelude).evaluate(&inputs[2..]).unwrap();
        let mut main_inputs = inputs[..2].to_vec();
        main_inputs.extend(hoisted);
        let main = Interpreter::new(parted.main);
        assert!(main.tape().instructions().iter().all(|instruction| instruction.opcode != Opcode::Div));
        let found = main.evaluate(&main_inputs).unwrap();
        for (found, expected) in found.iter().zip(whole.evaluate(&inputs).unwrap()) {
            assert!((found - expected).abs() < 1e-15);
        }
    }
}
