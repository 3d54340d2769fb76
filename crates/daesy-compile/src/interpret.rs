//! Running a tape: the seam between programs and whatever executes them, and the interpreter behind it.
//!
//! The interpreter takes one instruction after the other over all lanes. With a single lane it works on doubles, else on four
//! lanes at a time, in AVX2 registers where the processor has them. All ways give the same bits (see `crate::lanes`).
#![allow(unsafe_code)]

use crate::kernels::circular;
use crate::lanes::{Lanes, portable};
use crate::memory::{LaneMemory, REPETITIONS};
use crate::operation::{BinaryKernel, OpcodeVisitor, TernaryKernel, UnaryKernel, visit};
use crate::tape::{Instruction, Operand, Source, Tape};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// Why a tape was not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The memory was made for another tape.
    #[error("the memory was made for another program")]
    WrongMemory,
    /// A vector of inputs has the wrong length.
    #[error("{found} input values for a program with {expected} inputs")]
    WrongInputs {
        /// Inputs of the program.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The processor lacks the instructions asked for.
    #[error("this processor lacks the instructions of the backend {backend:?}")]
    MissingInstructions {
        /// What was asked for.
        backend: Backend,
    },
}

/// Something that can run a tape: today the interpreter, tomorrow machine code. Callers know no more than this.
///
/// The result must not depend on the number of lanes, on other lanes, or on the executor: every executor does the operations of
/// the tape as [`crate::Opcode`] defines them, bit for bit.
pub trait Executor: Send + Sync {
    /// The program.
    fn tape(&self) -> &Tape;

    /// Computes the outputs of all lanes from their inputs.
    ///
    /// # Errors
    /// [`ExecutionError::WrongMemory`] if the memory was made for another tape.
    fn execute(&self, memory: &mut LaneMemory) -> Result<(), ExecutionError>;

    /// Memory for this program.
    fn memory(&self, n_lanes: usize) -> LaneMemory {
        LaneMemory::new(self.tape(), n_lanes)
    }

    /// The outputs for one set of inputs. For repeated use keep a [`LaneMemory`] instead.
    ///
    /// # Errors
    /// [`ExecutionError::WrongInputs`] if the number of values differs from the number of inputs.
    fn evaluate(&self, inputs: &[f64]) -> Result<Vec<f64>, ExecutionError> {
        if inputs.len() != self.tape().n_inputs() {
            return Err(ExecutionError::WrongInputs { expected: self.tape().n_inputs(), found: inputs.len() });
        }
        let mut memory = self.memory(1);
        memory.inputs_mut().copy_from_slice(inputs);
        self.execute(&mut memory)?;
        Ok(memory.outputs().to_vec())
    }
}

/// The instructions that the interpreter uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// Those of every processor.
    Portable,
    /// AVX2 and FMA of x86-64.
    Avx2,
}

impl Backend {
    /// The fastest that this processor has.
    #[must_use]
    pub fn detect() -> Self {
        if Self::Avx2.is_available() { Self::Avx2 } else { Self::Portable }
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
        }
    }
}

/// The interpreter of one tape. Cheap to clone and share among threads; each thread has its own [`LaneMemory`].
#[derive(Clone, Debug)]
pub struct Interpreter {
    tape: Arc<Tape>,
    backend: Backend,
    /// The program for one lane: operands are places in its memory, slots first, then constants.
    single: Arc<[Instruction]>,
}

impl Interpreter {
    /// An interpreter with the fastest instructions of this processor.
    #[must_use]
    pub fn new(tape: impl Into<Arc<Tape>>) -> Self {
        Self::assemble(tape.into(), Backend::detect())
    }

    /// An interpreter with the instructions asked for.
    ///
    /// # Errors
    /// [`ExecutionError::MissingInstructions`] if the processor lacks them.
    pub fn with_backend(tape: impl Into<Arc<Tape>>, backend: Backend) -> Result<Self, ExecutionError> {
        if backend.is_available() {
            Ok(Self::assemble(tape.into(), backend))
        } else {
            Err(ExecutionError::MissingInstructions { backend })
        }
    }

    fn assemble(tape: Arc<Tape>, backend: Backend) -> Self {
        // The loops below rely on this for memory safety; the builder makes no other tapes.
        assert!(tape.is_sound(), "a tape names only slots, constants and calls that exist");
        let n_slots = tape.n_slots() as u32;
        let place = |operand: Operand| match operand.source() {
            Source::Slot(_) => operand,
            Source::Constant(index) => Operand::slot(n_slots + index as u32),
        };
        let single = (tape.instructions().iter())
            .map(|&i| Instruction { a: place(i.a), b: place(i.b), c: place(i.c), ..i })
            .collect();
        Self { tape, backend, single }
    }

    /// The instructions in use.
    #[must_use]
    pub const fn backend(&self) -> Backend {
        self.backend
    }
}

impl Executor for Interpreter {
    fn tape(&self) -> &Tape {
        &self.tape
    }

    fn execute(&self, memory: &mut LaneMemory) -> Result<(), ExecutionError> {
        if !memory.is_for(&self.tape) {
            return Err(ExecutionError::WrongMemory);
        }
        // SAFETY of all arms: `assemble` has checked that the tape is sound, the memory was made for it, and its stride is 1
        // exactly when it has one lane; AVX2 is chosen only where it is available.
        match (self.backend, memory.n_lanes()) {
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx2, 1) => unsafe { run_one_avx2(self, memory) },
            #[cfg(target_arch = "x86_64")]
            (Backend::Avx2, _) => unsafe { run_avx2(self, memory) },
            (_, 1) => unsafe { run::<f64>(self, memory) },
            (_, _) => unsafe { run::<portable::Quad>(self, memory) },
        }
        Ok(())
    }
}

/// # Safety
/// As [`run`]; the processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2(interpreter: &Interpreter, memory: &mut LaneMemory) {
    // SAFETY: the caller's.
    unsafe { run::<crate::lanes::avx2::Quad>(interpreter, memory) }
}

/// # Safety
/// As [`run`]; the processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_one_avx2(interpreter: &Interpreter, memory: &mut LaneMemory) {
    // SAFETY: the caller's.
    unsafe { run::<f64>(interpreter, memory) }
}

/// Executes all instructions.
///
/// # Safety
/// The tape must be sound and `memory` made for it; `L::WIDTH` must be 1 for one lane, else 2 or 4, so that two groups of lanes
/// divide the stride.
#[inline(always)]
unsafe fn run<L: Lanes>(interpreter: &Interpreter, memory: &mut LaneMemory) {
    let tape = &*interpreter.tape;
    let (stride, n_lanes) = (memory.stride(), memory.n_lanes());
    let mut scratch = std::mem::take(&mut memory.scratch);
    let cells = memory.cells_mut().as_mut_ptr();
    let frame = Frame {
        cells,
        // SAFETY: the constants lie behind the slots.
        constants: unsafe { cells.add(tape.n_slots() * stride) },
        stride,
        n_lanes,
        tape,
        scratch: RefCell::new(&mut scratch),
    };
    let instructions = if L::WIDTH == 1 { &*interpreter.single } else { tape.instructions() };
    for instruction in instructions {
        visit(instruction.opcode, Step::<L> { frame: &frame, instruction, lanes: PhantomData });
    }
    memory.scratch = scratch;
}

/// What all instructions of one run share.
struct Frame<'a> {
    cells: *mut f64,
    constants: *const f64,
    stride: usize,
    n_lanes: usize,
    tape: &'a Tape,
    scratch: RefCell<&'a mut [f64]>,
}

/// Lanes of an operand: lane k is at `start + (k & mask)`, so that the mask 0 reads a constant again and again.
#[derive(Clone, Copy)]
struct Row {
    start: *const f64,
    mask: usize,
}

impl Row {
    /// # Safety
    /// `lane + L::WIDTH` must not exceed the stride, unless the row is a constant.
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, lane: usize) -> L {
        // SAFETY: within the row by the caller; a constant is repeated as often as the widest lanes need.
        unsafe { L::load(self.start.add(lane & self.mask)) }
    }
}

impl Frame<'_> {
    /// The row of an operand of a sound tape; at width 1 of an operand of the program for one lane.
    #[inline(always)]
    fn row<L: Lanes>(&self, operand: Operand) -> Row {
        if L::WIDTH == 1 || operand.raw() & Operand::CONSTANT == 0 {
            Row { start: self.target::<L>(operand.raw()), mask: usize::MAX }
        } else {
            let index = (operand.raw() & !Operand::CONSTANT) as usize;
            // SAFETY: the tape is sound, so the constant exists.
            Row { start: unsafe { self.constants.add(index * REPETITIONS) }, mask: 0 }
        }
    }

    /// The row of a slot of a sound tape.
    #[inline(always)]
    fn target<L: Lanes>(&self, slot: u32) -> *mut f64 {
        let stride = if L::WIDTH == 1 { 1 } else { self.stride };
        // SAFETY: the tape is sound, so the slot exists.
        unsafe { self.cells.add(slot as usize * stride) }
    }
}

/// One instruction on its way to its kernel.
struct Step<'a, L> {
    frame: &'a Frame<'a>,
    instruction: &'a Instruction,
    lanes: PhantomData<L>,
}

/// Stores a value in all lanes of a row, two groups of lanes at a time: neither waits for the other.
///
/// Rows are equal or disjoint and a group is stored after it was read, so a row may be computed from itself. To be used in an
/// unsafe block, with `run`'s promises on the tape and the stride: then all groups lie within their rows.
macro_rules! sweep {
    ($frame:expr, $target:expr, |$lane:ident| $value:expr) => {
        if L::WIDTH == 1 {
            let $lane = 0;
            $value.store($target);
        } else {
            let mut lane = 0;
            while lane < $frame.stride {
                let $lane = lane;
                let first: L = $value;
                let $lane = lane + L::WIDTH;
                let second: L = $value;
                first.store($target.add(lane));
                second.store($target.add(lane + L::WIDTH));
                lane += 2 * L::WIDTH;
            }
        }
    };
}

impl<L: Lanes> OpcodeVisitor for Step<'_, L> {
    // SAFETY of all blocks: steps are made by `run` alone, which has been promised what `sweep` needs.

    #[inline(always)]
    fn copy(self) {
        let a = self.frame.row::<L>(self.instruction.a);
        let target = self.frame.target::<L>(self.instruction.target);
        unsafe { sweep!(self.frame, target, |lane| a.load::<L>(lane)) }
    }

    #[inline(always)]
    fn unary<K: UnaryKernel>(self) {
        let a = self.frame.row::<L>(self.instruction.a);
        let target = self.frame.target::<L>(self.instruction.target);
        unsafe { sweep!(self.frame, target, |lane| K::apply(a.load::<L>(lane))) }
    }

    #[inline(always)]
    fn binary<K: BinaryKernel>(self) {
        let a = self.frame.row::<L>(self.instruction.a);
        let b = self.frame.row::<L>(self.instruction.b);
        let target = self.frame.target::<L>(self.instruction.target);
        unsafe { sweep!(self.frame, target, |lane| K::apply(a.load::<L>(lane), b.load::<L>(lane))) }
    }

    #[inline(always)]
    fn ternary<K: TernaryKernel>(self) {
        let a = self.frame.row::<L>(self.instruction.a);
        let b = self.frame.row::<L>(self.instruction.b);
        let c = self.frame.row::<L>(self.instruction.c);
        let target = self.frame.target::<L>(self.instruction.target);
        unsafe { sweep!(self.frame, target, |lane| K::apply(a.load::<L>(lane), b.load::<L>(lane), c.load::<L>(lane))) }
    }

    #[inline(always)]
    fn sin_cos(self) {
        let a = self.frame.row::<L>(self.instruction.a);
        let sine = self.frame.target::<L>(self.instruction.target);
        let cosine = self.frame.target::<L>(self.instruction.b.raw());
        let end = if L::WIDTH == 1 { 1 } else { self.frame.stride };
        let mut lane = 0;
        while lane < end {
            unsafe {
                let both = circular::sin_cos(a.load::<L>(lane));
                both.sin.store(sine.add(lane));
                both.cos.store(cosine.add(lane));
            }
            lane += L::WIDTH;
        }
    }

    #[inline(always)]
    fn call(self) {
        call(self.frame, self.instruction);
    }
}

/// Calls a function lane by lane.
#[inline(never)]
fn call(frame: &Frame<'_>, instruction: &Instruction) {
    let call = &frame.tape.calls()[instruction.a.raw() as usize];
    let mut scratch = frame.scratch.borrow_mut();
    let (arguments, results) = scratch.split_at_mut(call.arguments().len());
    let results = &mut results[..call.targets().len()];
    let repetitions = if frame.n_lanes == 1 { 1 } else { REPETITIONS };
    for lane in 0..frame.n_lanes {
        for (argument, &operand) in arguments.iter_mut().zip(call.arguments()) {
            // SAFETY: the tape is sound, so slot or constant exist, and so does the lane.
            *argument = unsafe {
                match operand.source() {
                    Source::Slot(slot) => frame.cells.add(slot * frame.stride + lane).read(),
                    Source::Constant(index) => frame.constants.add(index * repetitions).read(),
                }
            };
        }
        results.fill(0.0);
        (call.function())(arguments, results);
        for (&result, target) in results.iter().zip(call.targets()) {
            if let Some(slot) = target {
                // SAFETY: the tape is sound, so the slot exists, and so does the lane.
                unsafe { frame.cells.add(*slot as usize * frame.stride + lane).write(result) };
            }
        }
    }
}
