//! User functions that could not be inlined, as programs over registers.
//!
//! A body such as that of the properties of water runs at every evaluation of a model. The reference evaluator looks
//! up every node of it in a hash table; a [`Program`] has its nodes in the order in which they are needed, with their
//! arguments in numbered registers, and gives the same bits. What the reference evaluator does not need is not
//! evaluated here either: branches become jumps. A part that several branches share is written once, as a part that is
//! run when it is first needed ([`Code::Force`]), so that a program is no longer than the expressions it was made of.
//!
//! Models ask again and again for the same: the properties of surroundings that stay, or those of a point at which
//! residuals, observed quantities and assertions are evaluated one after the other. Long programs therefore remember
//! their last results ([`Memory`]).
//!
//! As in the checked evaluation of the reference evaluator, the first value that is not finite ends a run.

mod translate;

use std::sync::{Arc, Mutex};

use daesy_graph::evaluate::Limits;
use daesy_graph::intrinsic::Intrinsic;
use daesy_graph::scalar::{apply_binary, apply_unary, is_true, truth};
use daesy_graph::{BinaryOp, UnaryOp};

/// A register of a routine: inputs and other locals first, then numbers, then intermediate values.
type Register = u32;

/// A stretch of the registers that a routine lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct List {
    start: u32,
    len: u32,
}

impl List {
    fn of(self, registers: &[Register]) -> &[Register] {
        &registers[self.start as usize..(self.start + self.len) as usize]
    }
}

/// One instruction. Jumps go to positions in the code.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Code {
    Unary {
        op: UnaryOp,
        to: Register,
        a: Register,
    },
    Binary {
        op: BinaryOp,
        to: Register,
        a: Register,
        b: Register,
    },
    Copy {
        to: Register,
        a: Register,
    },
    /// The truth of a number.
    Truth {
        to: Register,
        a: Register,
    },
    /// Ends the run where a register is not finite.
    Check {
        a: Register,
    },
    /// Ends the run where a register is not true.
    Assert {
        a: Register,
    },
    /// An element of an array.
    Load {
        to: Register,
        base: Register,
        len: u32,
        index: Register,
    },
    Store {
        base: Register,
        len: u32,
        index: Register,
        a: Register,
    },
    Jump {
        target: u32,
    },
    JumpUnless {
        a: Register,
        target: u32,
    },
    JumpIf {
        a: Register,
        target: u32,
    },
    /// Runs a routine; its outputs go to the registers from `to` on.
    Call {
        routine: u32,
        args: List,
        to: Register,
    },
    Intrinsic {
        which: u32,
    },
    /// None of the shared parts has run yet.
    Forget {
        flags: List,
    },
    /// Runs a shared part if it has not run yet.
    Force {
        part: u32,
        flag: Register,
    },
    /// The end of a shared part.
    Resume {
        flag: Register,
    },
    /// Counts statements.
    Count {
        n: u32,
    },
    /// Something without a value in functions.
    Fail,
    Return,
}

/// A table or generator that a routine uses.
#[derive(Clone, Debug)]
struct Use {
    intrinsic: Arc<Intrinsic>,
    args: Vec<Register>,
    results: Vec<Register>,
}

/// One function.
#[derive(Clone, Debug, Default)]
struct Routine {
    n_inputs: usize,
    outputs: Vec<Register>,
    /// The registers at the beginning, inputs to be filled in.
    registers: Vec<f64>,
    code: Vec<Code>,
    /// Where the shared parts begin.
    parts: Vec<u32>,
    lists: Vec<Register>,
    uses: Vec<Use>,
}

/// A function with all that it calls.
#[derive(Debug)]
pub(crate) struct Program {
    routines: Vec<Routine>,
    /// The last results of a long program, unless they depend on more than the arguments.
    memory: Option<Mutex<Memory>>,
    /// Registers of the last run: large tables among the arguments make them too large to be made anew each time.
    frames: Mutex<Vec<f64>>,
}

/// Instructions from which on a program remembers results.
const LONG: usize = 200;

/// Results that a program remembers.
const MAX_KNOWN: usize = 16;

/// The last results of a program.
#[derive(Debug, Default)]
struct Memory {
    known: Vec<Known>,
    /// The one that is replaced next.
    oldest: usize,
}

/// Arguments and what the function gave.
#[derive(Debug)]
struct Known {
    arguments: Vec<f64>,
    results: Vec<f64>,
}

impl Memory {
    /// The results at arguments that are the same to the last bit.
    fn recall(&self, arguments: &[f64]) -> Option<&[f64]> {
        let is_same = |known: &&Known| {
            known.arguments.iter().zip(arguments).all(|(known, argument)| known.to_bits() == argument.to_bits())
        };
        self.known.iter().find(is_same).map(|known| known.results.as_slice())
    }

    fn remember(&mut self, arguments: &[f64], results: &[f64]) {
        if self.known.len() < MAX_KNOWN {
            self.known.push(Known { arguments: arguments.to_vec(), results: results.to_vec() });
            return;
        }
        let known = &mut self.known[self.oldest];
        known.arguments.copy_from_slice(arguments);
        known.results.copy_from_slice(results);
        self.oldest = (self.oldest + 1) % MAX_KNOWN;
    }
}

/// Why a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// A value is not finite, an index is out of range, or an assertion does not hold.
    NoValue,
    /// Too many statements or levels of calls.
    Limit,
}

/// What a run needs beside its registers.
struct Run {
    limits: Limits,
    steps: u64,
    depth: u32,
    /// Where to go on after shared parts.
    returns: Vec<usize>,
}

impl Run {
    fn count(&mut self, n: u32) -> Result<(), Stop> {
        self.steps += u64::from(n);
        if self.steps > self.limits.steps { Err(Stop::Limit) } else { Ok(()) }
    }
}

fn finite(value: f64) -> Result<f64, Stop> {
    if value.is_finite() { Ok(value) } else { Err(Stop::NoValue) }
}

/// The offset of an element from its index.
fn element(index: f64, len: u32) -> Result<usize, Stop> {
    if index.fract() == 0.0 && index >= 1.0 && index <= f64::from(len) {
        Ok(index as usize - 1)
    } else {
        Err(Stop::NoValue)
    }
}

impl Program {
    fn of(routines: Vec<Routine>) -> Self {
        // Generators and the past of signals are no functions of their arguments alone.
        let is_pure = routines.iter().all(|routine| routine.uses.is_empty());
        let is_long = routines.iter().map(|routine| routine.code.len()).sum::<usize>() >= LONG;
        Self { routines, memory: (is_pure && is_long).then(Mutex::default), frames: Mutex::default() }
    }

    /// The outputs of the function at finite arguments.
    pub(crate) fn call(&self, arguments: &[f64], results: &mut [f64]) -> Result<(), Stop> {
        let routine = &self.routines[0];
        if arguments.len() != routine.n_inputs || results.len() != routine.outputs.len() {
            return Err(Stop::NoValue);
        }
        // Whoever finds the memory in use computes.
        if let Some(memory) = self.memory.as_ref().and_then(|memory| memory.try_lock().ok())
            && let Some(known) = memory.recall(arguments)
        {
            results.copy_from_slice(known);
            return Ok(());
        }
        self.compute(routine, arguments, results)?;
        if let Some(mut memory) = self.memory.as_ref().and_then(|memory| memory.try_lock().ok()) {
            memory.remember(arguments, results);
        }
        Ok(())
    }

    fn compute(&self, routine: &Routine, arguments: &[f64], results: &mut [f64]) -> Result<(), Stop> {
        // Whoever finds the registers in use takes others.
        let mut kept = self.frames.try_lock().ok();
        let mut own = Vec::new();
        let frames = kept.as_deref_mut().unwrap_or(&mut own);
        frames.clear();
        frames.extend_from_slice(arguments);
        frames.extend_from_slice(&routine.registers[arguments.len()..]);
        let mut run = Run { limits: Limits::default(), steps: 0, depth: 0, returns: Vec::new() };
        self.run(0, frames, 0, &mut run)?;
        for (result, &output) in results.iter_mut().zip(&routine.outputs) {
            *result = frames[output as usize];
        }
        Ok(())
    }

    /// Runs a routine whose registers are those from `base` on, filled in. Recurses once for each level of calls, which
    /// are limited.
    fn run(&self, which: usize, frames: &mut Vec<f64>, base: usize, run: &mut Run) -> Result<(), Stop> {
        run.count(1)?;
        if run.depth >= run.limits.call_depth {
            return Err(Stop::Limit);
        }
        run.depth += 1;
        let routine = &self.routines[which];
        let end = base + routine.registers.len();
        let mut at = 0;
        loop {
            let frame = &mut frames[base..end];
            let code = routine.code[at];
            at += 1;
            match code {
                Code::Unary { op, to, a } => frame[to as usize] = finite(apply_unary(op, frame[a as usize]))?,
                Code::Binary { op, to, a, b } => {
                    frame[to as usize] = finite(apply_binary(op, frame[a as usize], frame[b as usize]))?;
                }
                Code::Copy { to, a } => frame[to as usize] = frame[a as usize],
                Code::Truth { to, a } => frame[to as usize] = truth(is_true(frame[a as usize])),
                Code::Check { a } => {
                    finite(frame[a as usize])?;
                }
                Code::Assert { a } => {
                    if !is_true(frame[a as usize]) {
                        return Err(Stop::NoValue);
                    }
                }
                Code::Load { to, base: array, len, index } => {
                    let place = element(frame[index as usize], len)?;
                    frame[to as usize] = finite(frame[array as usize + place])?;
                }
                Code::Store { base: array, len, index, a } => {
                    let place = element(frame[index as usize], len)?;
                    frame[array as usize + place] = frame[a as usize];
                }
                Code::Jump { target } => at = target as usize,
                Code::JumpUnless { a, target } => {
                    if !is_true(frame[a as usize]) {
                        at = target as usize;
                    }
                }
                Code::JumpIf { a, target } => {
                    if is_true(frame[a as usize]) {
                        at = target as usize;
                    }
                }
                Code::Call { routine: callee, args, to } => {
                    self.enter(callee as usize, args.of(&routine.lists), frames, base, end);
                    self.run(callee as usize, frames, end, run)?;
                    for (place, &output) in self.routines[callee as usize].outputs.iter().enumerate() {
                        frames[base + to as usize + place] = frames[end + output as usize];
                    }
                }
                Code::Intrinsic { which } => routine.uses[which as usize].run(frame)?,
                Code::Forget { flags } => flags.of(&routine.lists).iter().for_each(|&flag| frame[flag as usize] = 0.0),
                Code::Force { part, flag } => {
                    if frame[flag as usize] == 0.0 {
                        run.returns.push(at);
                        at = routine.parts[part as usize] as usize;
                    }
                }
                Code::Resume { flag } => {
                    frame[flag as usize] = 1.0;
                    at = run.returns.pop().ok_or(Stop::NoValue)?;
                }
                Code::Count { n } => run.count(n)?,
                Code::Fail => return Err(Stop::NoValue),
                Code::Return => {
                    run.depth -= 1;
                    return Ok(());
                }
            }
        }
    }

    /// Fills in the registers of a routine, from `end` on, for arguments in the registers from `base` on.
    fn enter(&self, callee: usize, args: &[Register], frames: &mut Vec<f64>, base: usize, end: usize) {
        let registers = &self.routines[callee].registers;
        let next = end + registers.len();
        if frames.len() < next {
            frames.resize(next, 0.0);
        }
        frames[end..next].copy_from_slice(registers);
        for (place, &arg) in args.iter().enumerate() {
            frames[end + place] = frames[base + arg as usize];
        }
    }
}

impl Use {
    fn run(&self, frame: &mut [f64]) -> Result<(), Stop> {
        let inputs: Vec<f64> = self.args.iter().map(|&arg| frame[arg as usize]).collect();
        let mut outputs = vec![0.0; self.results.len()];
        self.intrinsic.evaluate(&inputs, &mut outputs).map_err(|_| Stop::NoValue)?;
        for (&result, value) in self.results.iter().zip(outputs) {
            frame[result as usize] = value;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
