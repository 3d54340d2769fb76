//! Straight-line programs: a builder that folds, shares and prunes, and the finished tape with its slots.
//!
//! A [`TapeBuilder`] collects values in static single assignment form. It folds operations on constants with the very
//! kernels that run later, applies only identities that hold bit for bit, and shares equal expressions.
//! [`TapeBuilder::finish`] drops what no output needs, joins operations where the result stays the same (a product
//! with the sum that alone uses it; sine and cosine of one angle), orders the instructions and gives values to slots
//! by their live ranges.
//!
//! A [`Tape`] is a list of [`Instruction`]s over slots:
//!
//! ```text
//! slots  [ inputs | outputs | temporaries ]
//! ```
//!
//! Inputs are never overwritten, each output has a slot of its own, temporaries are reused. What a slot is, one
//! double or a row of lanes, is up to the [`crate::Executor`].

mod allocate;
mod build;
mod call;
mod split;
mod tangent;

pub use build::{FunctionId, TapeBuilder, TapeOptions, Value};
pub use call::{Call, LaneFunction, PerLane};
pub use split::SplitTape;

use crate::operation::Opcode;
use std::fmt;

/// Why a tape could not be finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// More values or slots than 31 bits can number.
    #[error("the program needs {needed} numbers for its values, but only {limit} can be told apart")]
    TooLong {
        /// How many were asked for.
        needed: usize,
        /// How many there can be.
        limit: usize,
    },
    /// A program is to be parted after more inputs than it has.
    #[error("{n_lane_inputs} inputs that differ between lanes, of a program with {n_inputs} inputs")]
    TooFewInputs {
        /// Inputs that are to differ.
        n_lane_inputs: usize,
        /// Inputs that there are.
        n_inputs: usize,
    },
}

/// Where an instruction reads from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The slot with this number.
    Slot(usize),
    /// The constant with this number.
    Constant(usize),
}

/// A [`Source`] in four bytes: the highest bit marks constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand(u32);

impl Operand {
    pub(crate) const CONSTANT: u32 = 1 << 31;
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn slot(index: u32) -> Self {
        Self(index)
    }
    pub(crate) const fn constant(index: u32) -> Self {
        Self(index | Self::CONSTANT)
    }
    pub(crate) const fn raw(self) -> u32 {
        self.0
    }
    pub(crate) const fn is_constant(self) -> bool {
        self.0 & Self::CONSTANT != 0
    }
    pub(crate) const fn as_slot(self) -> Option<u32> {
        if self.is_constant() { None } else { Some(self.0) }
    }
    /// Slot or constant.
    #[must_use]
    pub const fn source(self) -> Source {
        if self.0 & Self::CONSTANT == 0 {
            Source::Slot(self.0 as usize)
        } else {
            Source::Constant((self.0 & !Self::CONSTANT) as usize)
        }
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source().fmt(f)
    }
}

/// `target = opcode(a, b, c)`; a target may be the slot of an operand.
///
/// `SinCos` has its second target in `b`, a call its number in `a`; both as slots.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What to do.
    pub opcode: Opcode,
    /// The slot written.
    pub target: u32,
    /// First operand.
    pub a: Operand,
    /// Second operand.
    pub b: Operand,
    /// Third operand.
    pub c: Operand,
}

/// A finished straight-line program. All slots and constants that its instructions name exist.
#[derive(Clone, Debug)]
pub struct Tape {
    /// Tells tapes apart; clones, being equal, share it.
    pub(crate) identity: u64,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) constants: Vec<f64>,
    pub(crate) calls: Vec<Call>,
    pub(crate) n_inputs: usize,
    pub(crate) n_outputs: usize,
    pub(crate) n_slots: usize,
}

impl Tape {
    /// A program without outputs.
    pub(crate) fn of_nothing(n_inputs: usize) -> Self {
        Self {
            identity: allocate::next_identity(),
            instructions: Vec::new(),
            constants: Vec::new(),
            calls: Vec::new(),
            n_inputs,
            n_outputs: 0,
            n_slots: n_inputs,
        }
    }

    /// The program.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }
    /// The constants it refers to.
    #[must_use]
    pub fn constants(&self) -> &[f64] {
        &self.constants
    }
    /// The calls it refers to.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }
    /// Number of inputs; they are the first slots.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        self.n_inputs
    }
    /// Number of outputs; their slots follow the inputs.
    #[must_use]
    pub const fn n_outputs(&self) -> usize {
        self.n_outputs
    }
    /// Number of slots in all.
    #[must_use]
    pub const fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// By slot, whether an instruction reads it.
    pub(crate) fn read_slots(&self) -> Vec<bool> {
        let mut is_read = vec![false; self.n_slots];
        for instruction in &self.instructions {
            let own = [instruction.a, instruction.b, instruction.c];
            let operands = match instruction.opcode {
                Opcode::Call => self.calls[instruction.a.raw() as usize].arguments(),
                opcode => &own[..opcode.n_operands()],
            };
            operands.iter().filter_map(|operand| operand.as_slot()).for_each(|slot| is_read[slot as usize] = true);
        }
        is_read
    }

    /// The same program with constants in the place of the inputs from `first` on: input k becomes constant
    /// `n + k - first` of a program that had n. They are zero until [`crate::LaneMemory::set_constant`] sets them.
    pub(crate) fn with_constants_for_inputs(&self, first: usize) -> Self {
        let mut tape = self.clone();
        let (n_constants, inputs) = (self.constants.len(), first..self.n_inputs);
        let renamed = |operand: Operand| match operand.source() {
            Source::Slot(slot) if inputs.contains(&slot) => Operand::constant((n_constants + slot - first) as u32),
            _ => operand,
        };
        for instruction in &mut tape.instructions {
            let operands = [&mut instruction.a, &mut instruction.b, &mut instruction.c];
            for operand in operands.into_iter().take(instruction.opcode.n_operands()) {
                *operand = renamed(*operand);
            }
        }
        for call in &mut tape.calls {
            call.map_arguments(renamed);
        }
        tape.constants.resize(n_constants + inputs.len(), 0.0);
        tape.identity = allocate::next_identity();
        tape
    }

    /// Whether every slot, constant and call that an instruction names exists, and none writes to an input.
    ///
    /// Tapes are built so; executors that read and write without bounds checks ask once more.
    pub(crate) fn is_sound(&self) -> bool {
        let is_readable = |operand: Operand| match operand.source() {
            Source::Slot(slot) => slot < self.n_slots,
            Source::Constant(index) => index < self.constants.len(),
        };
        let is_writable = |slot: u32| (self.n_inputs..self.n_slots).contains(&(slot as usize));
        self.n_inputs + self.n_outputs <= self.n_slots
            && self.instructions.iter().all(|instruction| match instruction.opcode {
                Opcode::Call => self.calls.get(instruction.a.raw() as usize).is_some_and(|call| {
                    call.arguments().iter().all(|&operand| is_readable(operand))
                        && call.targets().iter().flatten().all(|&slot| is_writable(slot))
                }),
                Opcode::SinCos => {
                    is_readable(instruction.a)
                        && is_writable(instruction.target)
                        && is_writable(instruction.b.raw())
                        && instruction.target != instruction.b.raw()
                }
                opcode => {
                    is_writable(instruction.target)
                        && [instruction.a, instruction.b, instruction.c][..opcode.n_operands()]
                            .iter()
                            .all(|&operand| is_readable(operand))
                }
            })
    }
}
