//! From `RegularDae` to a fast `DaeSystem`.
//!
//! A model's expressions become a straight-line program ([`Tape`]), built by [`TapeBuilder`] and run by an
//! [`Executor`] for one trajectory or for many side by side ([`LaneMemory`]). The same inputs give the same bits
//! whatever the number of lanes, the processor and the [`Backend`].
#![deny(unsafe_code)]

mod discrete_start;
mod enclosure;
mod event_code;
mod functions;
mod interpret;
mod kernels;
mod lanes;
mod lower;
mod memory;
mod method;
mod operation;
mod pool;
mod roots;
mod starts;
mod switches;
mod system;
mod tape;
mod timed;

pub use interpret::{Backend, ExecutionError, Executor, Interpreter};
pub use lower::{CompileError, CompiledSystem, compile, compile_with_events};
pub use memory::LaneMemory;
pub use operation::{Binary, Opcode, Ternary, Unary};
pub use switches::{breaks_in_time, switching_functions};
pub use tape::{
    Call, FunctionId, Instruction, LaneFunction, Operand, PerLane, Source, SplitTape, Tape, TapeBuilder, TapeError,
    TapeOptions, Value,
};
