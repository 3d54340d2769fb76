//! Running a tape: the seam between programs and whatever executes them, and the interpreter.
//!
//! The interpreter takes one step after the other over all lanes. A step is an instruction of the tape, or a product
//! or a sum of products that several instructions compute (`fuse`), and has a function of its own, known when the
//! interpreter is made (`instruction`). With a single lane it works on doubles, else on eight lanes at a time, in AVX-512 or
//! AVX2 registers where the processor has them. What has run often becomes machine code (`native`). All ways give the same
//! bits (see `crate::lanes`).
#![allow(unsafe_code)]

mod fuse;
mod instruction;
#[cfg(all(target_arch = "x86_64", unix))]
mod native;

use crate::memory::{Exchange, LaneMemory};
use crate::tape::Tape;
use instruction::{Frame, LaneInstruction, SingleInstruction};
use std::cell::RefCell;
use std::ops::Range;
#[cfg(all(target_arch = "x86_64", unix))]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// More values are asked for than there are outputs.
    #[error("{found} values asked of a program with {available} outputs")]
    WrongOutputs {
        /// Outputs of the program.
        available: usize,
        /// Values asked for.
        found: usize,
    },
    /// Memory for so many lanes cannot be had.
    #[error("{n_lanes} lanes of a program with {n_slots} slots do not fit in memory")]
    TooLarge {
        /// Slots of the program.
        n_slots: usize,
        /// Lanes asked for.
        n_lanes: usize,
    },
    /// The processor lacks the instructions asked for.
    #[error("this processor lacks the instructions of the backend {backend:?}")]
    MissingInstructions {
        /// What was asked for.
        backend: Backend,
    },
}

/// Something that can run a tape. Callers know no more than this.
///
/// The result must not depend on the number of lanes, on other lanes, or on the executor: every executor does the
/// operations of the tape as [`crate::Opcode`] defines them, bit for bit.
pub trait Executor: Send + Sync {
    /// The program.
    fn tape(&self) -> &Tape;

    /// Computes the outputs of all lanes from their inputs.
    ///
    /// # Errors
    /// [`ExecutionError::WrongMemory`] if the memory was made for another tape.
    fn execute(&self, memory: &mut LaneMemory) -> Result<(), ExecutionError>;

    /// Memory for this program.
    ///
    /// # Panics
    /// If the lanes do not fit in memory; [`LaneMemory::try_new`] gives an error instead.
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
    /// The same, and machine code for what runs often: the arithmetic of several lanes, all of a single one.
    Native,
    /// The same with AVX-512 (F and DQ) for several lanes.
    Native512,
}

/// The fastest backend that may be used, as a number.
static FASTEST: AtomicU8 = AtomicU8::new(Backend::Native512 as u8);

impl Backend {
    /// Makes interpreters that are made from now on in this process use no faster backend than this one.
    pub fn limit_to(self) {
        FASTEST.store(self as u8, Ordering::Relaxed);
    }

    /// The fastest that this processor has and the process may use.
    #[must_use]
    pub fn detect() -> Self {
        let fastest = FASTEST.load(Ordering::Relaxed);
        let is_usable = |backend: &Self| *backend as u8 <= fastest && backend.is_available();
        [Self::Native512, Self::Native, Self::Avx2].into_iter().find(is_usable).unwrap_or(Self::Portable)
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
            Self::Native => cfg!(all(unix, not(miri))) && Self::Avx2.is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Native512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && Self::Native.is_available()
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Native512 => false,
        }
    }

    /// Whether there is machine code for what runs often.
    const fn has_code(self) -> bool {
        matches!(self, Self::Native | Self::Native512)
    }
}

/// The interpreter of one tape. Cheap to clone and share among threads; each thread has its own [`LaneMemory`].
#[derive(Clone, Debug)]
pub struct Interpreter {
    tape: Arc<Tape>,
    backend: Backend,
    instructions: Arc<Instructions>,
    /// The same as machine code.
    #[cfg(all(target_arch = "x86_64", unix))]
    native: Arc<NativeCodes>,
}

/// The steps of a tape, made when they are first taken.
#[derive(Default, Debug)]
struct Instructions {
    /// Whether the program has run for one lane.
    has_run: AtomicBool,
    /// For one lane, made for the second run.
    single: OnceLock<Box<[SingleInstruction]>>,
    /// For several lanes.
    lanes: OnceLock<Box<[LaneInstruction]>>,
    /// Stretches of inputs that the program reads.
    read_inputs: OnceLock<Box<[Range<usize>]>>,
}

/// Distances between rows for which there is machine code: multiples of eight up to this many.
#[cfg(all(target_arch = "x86_64", unix))]
const NATIVE_STRIDES: usize = 9;

/// Machine code of one tape; none where it was tried in vain.
#[cfg(all(target_arch = "x86_64", unix))]
#[derive(Debug)]
struct NativeCodes {
    /// For lanes, by the distance between rows.
    lanes: [OnceLock<Option<native::Native>>; NATIVE_STRIDES],
    /// The same for rows that are in each other's places.
    exchanged: [OnceLock<Option<native::Native>>; NATIVE_STRIDES],
    /// For one lane with its inputs and outputs in their slots.
    whole: OnceLock<Option<native::One>>,
    /// For one lane with its inputs and outputs where the caller has them.
    scattered: OnceLock<Option<native::One>>,
    /// Runs in lanes, and of a single lane, until code is made.
    n_cold: AtomicU32,
    n_cold_one: AtomicU32,
}

/// Runs in lanes before code is worth it.
#[cfg(all(target_arch = "x86_64", unix))]
const N_COLD: u32 = 64;

/// The same for a single lane, where the interpreter loses more.
#[cfg(all(target_arch = "x86_64", unix))]
const N_COLD_ONE: u32 = 24;

/// What is made after a number of runs.
#[cfg(all(target_arch = "x86_64", unix))]
#[inline]
fn after_runs<'c, T>(
    code: &'c OnceLock<Option<T>>,
    n_cold: &AtomicU32,
    make: impl FnOnce() -> Option<T>,
) -> Option<&'c T> {
    if let Some(known) = code.get() {
        return known.as_ref();
    }
    // Lost counts do no harm.
    let n_left = n_cold.load(Ordering::Relaxed);
    if n_left > 0 {
        n_cold.store(n_left - 1, Ordering::Relaxed);
        return None;
    }
    code.get_or_init(make).as_ref()
}

#[cfg(all(target_arch = "x86_64", unix))]
impl NativeCodes {
    fn new(n_cold: u32) -> Self {
        Self {
            lanes: Default::default(),
            exchanged: Default::default(),
            whole: OnceLock::new(),
            scattered: OnceLock::new(),
            n_cold: AtomicU32::new(n_cold),
            n_cold_one: AtomicU32::new(n_cold),
        }
    }

    fn for_lanes(&self, tape: &Tape, backend: Backend, stride: usize) -> Option<&native::Native> {
        let code = self.lanes.get((stride / 8).checked_sub(1)?)?;
        after_runs(code, &self.n_cold, || native::Native::new(tape, backend, stride))
    }

    /// Code for rows in each other's places, once there is some for rows in their own.
    fn for_exchanged_lanes(
        &self,
        tape: &Tape,
        backend: Backend,
        stride: usize,
        exchange: Exchange,
    ) -> Option<&native::Native> {
        let at = (stride / 8).checked_sub(1)?;
        self.lanes.get(at)?.get()?.as_ref()?;
        let code = self.exchanged[at].get_or_init(|| native::Native::exchanged(tape, backend, stride, exchange));
        code.as_ref().filter(|code| code.is_for(exchange))
    }

    fn whole(&self, tape: &Tape) -> Option<&native::One> {
        after_runs(&self.whole, &self.n_cold_one, || native::One::whole(tape))
    }

    #[inline]
    fn scattered(&self, tape: &Tape, groups: &[&[f64]], outputs: &[f64]) -> Option<&native::One> {
        let code = after_runs(&self.scattered, &self.n_cold_one, || {
            let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
            native::One::scattered(tape, &lengths)
        });
        code.filter(|code| code.is_for(groups, outputs))
    }
}

impl Interpreter {
    /// An interpreter with the fastest instructions of this processor.
    #[must_use]
    pub fn new(tape: impl Into<Arc<Tape>>) -> Self {
        let interpreter = Self::assemble(tape.into(), Backend::detect());
        #[cfg(all(target_arch = "x86_64", unix))]
        {
            interpreter.native.n_cold.store(N_COLD, Ordering::Relaxed);
            interpreter.native.n_cold_one.store(N_COLD_ONE, Ordering::Relaxed);
        }
        interpreter
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

    /// Both ways to an interpreter end here: no executor of this crate runs a tape that is not sound.
    fn assemble(tape: Arc<Tape>, backend: Backend) -> Self {
        // The loops below rely on this for memory safety; the builder makes no other tapes.
        assert!(tape.is_sound(), "a tape names only slots, constants and calls that exist");
        Self {
            tape,
            backend,
            instructions: Arc::default(),
            #[cfg(all(target_arch = "x86_64", unix))]
            native: Arc::new(NativeCodes::new(0)),
        }
    }

    /// The steps for one lane; none at the first run. Many programs, such as those of a start that is right at once,
    /// run once, and making steps takes longer than a run without them.
    fn single_instructions(&self) -> Option<&[SingleInstruction]> {
        if self.instructions.single.get().is_none() && !self.instructions.has_run.swap(true, Ordering::Relaxed) {
            return None;
        }
        let make = || instruction::for_one_lane(&fuse::fuse(&self.tape), self.tape.n_slots());
        Some(self.instructions.single.get_or_init(make))
    }

    /// Stretches of inputs that hold all that the program reads, in order. Inputs that nothing reads, such as the
    /// entries of a long table, need no copy; shorter gaps than a few cache lines are copied along.
    fn read_inputs(&self) -> &[Range<usize>] {
        const LONGEST_GAP: usize = 64;
        self.instructions.read_inputs.get_or_init(|| {
            let is_read = self.tape.read_slots();
            let mut stretches: Vec<Range<usize>> = Vec::new();
            for at in (0..self.tape.n_inputs()).filter(|&at| is_read[at]) {
                match stretches.last_mut().filter(|last| at - last.end <= LONGEST_GAP) {
                    Some(last) => last.end = at + 1,
                    None => stretches.push(at..at + 1),
                }
            }
            stretches.into()
        })
    }

    fn lane_instructions(&self) -> &[LaneInstruction] {
        self.instructions.lanes.get_or_init(|| instruction::for_lanes(&fuse::fuse(&self.tape), self.backend))
    }

    #[cfg(all(target_arch = "x86_64", unix))]
    fn native_code(&self, stride: usize) -> Option<&native::Native> {
        if self.backend.has_code() { self.native.for_lanes(&self.tape, self.backend, stride) } else { None }
    }

    #[cfg(not(all(target_arch = "x86_64", unix)))]
    #[allow(clippy::unused_self)]
    const fn native_code(&self, _stride: usize) -> Option<std::convert::Infallible> {
        None
    }

    /// Runs the program for one trajectory whose inputs are in several slices, one after the other, and writes the
    /// first outputs. Where there is machine code, nothing is copied.
    ///
    /// # Errors
    /// [`ExecutionError::WrongMemory`] if the memory was made for another tape or not for one lane,
    /// [`ExecutionError::WrongInputs`] if the number of values differs from the number of inputs,
    /// [`ExecutionError::WrongOutputs`] if more values are asked for than there are outputs.
    #[inline]
    pub fn execute_one(
        &self,
        memory: &mut LaneMemory,
        groups: &[&[f64]],
        outputs: &mut [f64],
    ) -> Result<(), ExecutionError> {
        if !memory.is_for(&self.tape) || memory.n_lanes() != 1 {
            return Err(ExecutionError::WrongMemory);
        }
        let available = self.tape.n_outputs();
        if outputs.len() > available {
            return Err(ExecutionError::WrongOutputs { available, found: outputs.len() });
        }
        #[cfg(all(target_arch = "x86_64", unix))]
        if self.backend.has_code()
            && let Some(code) = self.native.scattered(&self.tape, groups, outputs)
        {
            // SAFETY: the memory is one of this tape for one lane, `scattered` gives code for these groups and
            // outputs only, and the processor has the instructions of the backend.
            unsafe { code.run(memory.cells_mut(), groups, outputs) };
            return Ok(());
        }
        self.copy_and_execute(memory, groups, outputs)
    }

    /// [`Interpreter::execute_one`] with memory and slices that fit, which callers inside this crate have.
    ///
    /// # Panics
    /// If they do not.
    #[inline]
    pub(crate) fn evaluate_groups(&self, memory: &mut LaneMemory, groups: &[&[f64]], outputs: &mut [f64]) {
        if let Err(error) = self.execute_one(memory, groups, outputs) {
            panic!("{error}");
        }
    }

    /// [`Executor::execute`] with memory of this program.
    ///
    /// # Panics
    /// If it is that of another.
    pub(crate) fn run_lanes(&self, memory: &mut LaneMemory) {
        if let Err(error) = self.execute(memory) {
            panic!("{error}");
        }
    }

    fn copy_and_execute(
        &self,
        memory: &mut LaneMemory,
        groups: &[&[f64]],
        outputs: &mut [f64],
    ) -> Result<(), ExecutionError> {
        let (expected, found) = (self.tape.n_inputs(), groups.iter().map(|group| group.len()).sum());
        if found != expected {
            return Err(ExecutionError::WrongInputs { expected, found });
        }
        let inputs = memory.inputs_mut();
        let mut first = 0;
        for group in groups {
            let end = first + group.len();
            for stretch in self.read_inputs() {
                let here = stretch.start.max(first)..stretch.end.min(end);
                if !here.is_empty() {
                    inputs[here.clone()].copy_from_slice(&group[here.start - first..here.end - first]);
                }
            }
            first = end;
        }
        self.interpret(memory);
        outputs.copy_from_slice(&memory.outputs()[..outputs.len()]);
        Ok(())
    }

    /// Whether [`Interpreter::execute_exchanged`] can run the program in lanes of this memory.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) fn can_exchange(&self, memory: &LaneMemory, exchange: Exchange) -> bool {
        self.backend.has_code()
            && memory.n_lanes() > 1
            && self.native.for_exchanged_lanes(&self.tape, self.backend, memory.stride(), exchange).is_some()
    }

    /// Without machine code rows stay in their places.
    #[cfg(not(all(target_arch = "x86_64", unix)))]
    #[allow(clippy::unused_self)]
    pub(crate) const fn can_exchange(&self, _memory: &LaneMemory, _exchange: Exchange) -> bool {
        false
    }

    /// Runs the program with rows of inputs and outputs in each other's places; says whether it could.
    pub(crate) fn execute_exchanged(&self, memory: &mut LaneMemory, exchange: Exchange) -> bool {
        if !memory.is_for(&self.tape) || !self.can_exchange(memory, exchange) {
            return false;
        }
        #[cfg(all(target_arch = "x86_64", unix))]
        self.with_frame(memory, |frame| {
            if let Some(code) = self.native.for_exchanged_lanes(&self.tape, self.backend, frame.stride, exchange) {
                // SAFETY: the memory is one of this tape, and the processor has the instructions of the backend.
                unsafe { code.run(frame) };
            }
        });
        true
    }

    /// Hands over what all steps of a run share. The memory must be one of this tape.
    fn with_frame(&self, memory: &mut LaneMemory, run: impl FnOnce(&Frame<'_>)) {
        debug_assert!(memory.is_for(&self.tape), "memory belongs to its program");
        let (stride, n_lanes, n_computed) = (memory.stride(), memory.n_lanes(), memory.n_computed());
        let (cells, scratch) = memory.parts_mut();
        let first_constant = self.tape.n_slots() * stride;
        assert!(first_constant <= cells.len(), "memory has room for all slots");
        let cells = cells.as_mut_ptr();
        run(&Frame {
            cells,
            // SAFETY: within the memory, or right after it.
            constants: unsafe { cells.add(first_constant) },
            stride,
            n_computed,
            n_lanes,
            tape: &self.tape,
            scratch: RefCell::new(scratch),
        });
    }

    /// Takes one step after the other. The memory must be one of this tape.
    fn interpret(&self, memory: &mut LaneMemory) {
        // The promises of all runs below: `assemble` has checked that the tape is sound, the memory was made for it,
        // and its stride is 1 exactly when it has one lane, else a multiple of 8 that is not less than the lanes to
        // be computed; AVX2 is used only where `Backend::is_available` found it.
        self.with_frame(memory, |frame| match (self.backend, frame.n_lanes) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the promises above, for one lane.
            (Backend::Avx2 | Backend::Native | Backend::Native512, 1) => unsafe {
                match self.single_instructions() {
                    Some(steps) => instruction::run_single_avx2(steps, frame),
                    None => instruction::run_unprepared_avx2(frame),
                }
            },
            // SAFETY: the promises above, for one lane.
            (_, 1) => unsafe {
                match self.single_instructions() {
                    Some(steps) => instruction::run_single_plain(steps, frame),
                    None => instruction::run_unprepared_plain(frame),
                }
            },
            _ => match self.native_code(frame.stride) {
                #[cfg(all(target_arch = "x86_64", unix))]
                // SAFETY: the promises above.
                Some(code) => unsafe { code.run(frame) },
                _ => {
                    for step in self.lane_instructions() {
                        // SAFETY: the promises above.
                        unsafe { step.run(frame) };
                    }
                }
            },
        });
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
        if memory.n_lanes() == 0 {
            return Ok(());
        }
        #[cfg(all(target_arch = "x86_64", unix))]
        if self.backend.has_code()
            && memory.n_lanes() == 1
            && let Some(code) = self.native.whole(&self.tape)
        {
            // SAFETY: the memory is one of this tape for one lane, whole code needs no groups or outputs, and the
            // processor has the instructions of the backend.
            unsafe { code.run(memory.cells_mut(), &[], &mut []) };
            return Ok(());
        }
        self.interpret(memory);
        Ok(())
    }
}
