//! Machine code for the arithmetic of a tape.
//!
//! Stretches of arithmetic become loops over lanes (`emit`); elementary functions and calls between them are left to
//! the steps of the interpreter. Code is made for one distance between rows, when the interpreter has run a tape so
//! often that it is worth it. For a single lane a whole tape becomes one function (`one`).

mod emit;
mod encode;
mod function;
mod one;
mod pages;

pub(super) use one::One;

use super::instruction::{Frame, LaneInstruction, for_form};
use super::{Backend, fuse};
use crate::memory::{Exchange, REPETITIONS};
use crate::operation::Opcode;
use crate::tape::{Operand, Tape};
use emit::Rows;
use encode::{Bytes, Width};
use pages::Pages;

/// Stretches shorter than this are left to the interpreter.
const SHORTEST: usize = 3;

/// Longer tapes are left to the interpreter.
const LONGEST_TAPE: usize = 60_000;

/// # Safety
/// The arguments are the first lanes of the slots, the constants, and how many rounds of lanes are computed, at least
/// one; all must belong to the tape and the stride that the code was made for. The processor must have AVX2 and FMA,
/// or AVX-512 for code of that width.
type Code = unsafe extern "sysv64" fn(*mut f64, *const f64, usize);

/// Groups of lanes that code works on side by side.
const COPIES: usize = 2;

/// Lanes are computed in multiples of so many.
const LANES: usize = 8;

/// A part of a program.
#[derive(Debug)]
enum Part {
    Code(Loops),
    LaneInstruction(LaneInstruction),
}

/// The loops of a stretch, by their first bytes.
#[derive(Clone, Copy, Debug)]
struct Loops {
    /// [`COPIES`] groups a round.
    most: usize,
    /// One group a round, for the lanes that are left; none where there are none.
    last: Option<usize>,
}

/// A tape as machine code, for rows that are some distance apart.
#[derive(Debug)]
pub(super) struct Native {
    parts: Vec<Part>,
    pages: Pages,
    rows: Rows,
}

impl Native {
    /// Code for rows `stride` apart, with the instructions of a backend that has machine code; none where there is
    /// little to gain, or the system gives no memory for it.
    pub(super) fn new(tape: &Tape, backend: Backend, stride: usize) -> Option<Self> {
        Self::for_rows(tape, backend, Rows { stride, width: width_of(backend), copies: COPIES, exchange: None })
    }

    /// The same for rows that are in each other's places; none where the interpreter has a part in it.
    pub(super) fn exchanged(tape: &Tape, backend: Backend, stride: usize, exchange: Exchange) -> Option<Self> {
        let rows = Rows { stride, width: width_of(backend), copies: COPIES, exchange: Some(exchange) };
        let code = Self::for_rows(tape, backend, rows)?;
        code.parts.iter().all(|part| matches!(part, Part::Code(_))).then_some(code)
    }

    /// Whether the code is for rows in these places.
    pub(super) fn is_for(&self, exchange: Exchange) -> bool {
        self.rows.exchange == Some(exchange)
    }

    fn for_rows(tape: &Tape, backend: Backend, rows: Rows) -> Option<Self> {
        let instructions = tape.instructions();
        // Slots and constants are reached by distances of 32 bits.
        let reaches = [(tape.n_slots(), rows.stride), (tape.constants().len(), REPETITIONS)];
        let is_near = |(n, distance): (usize, usize)| {
            let n_bytes = n.checked_mul(distance).and_then(|n_cells| n_cells.checked_mul(size_of::<f64>()));
            n_bytes.is_some_and(|n_bytes| i32::try_from(n_bytes).is_ok())
        };
        if instructions.len() > LONGEST_TAPE || !reaches.into_iter().all(is_near) {
            return None;
        }
        let mut bytes = Bytes::new(rows.width);
        let mut parts = Vec::new();
        let mut is_needed = vec![false; tape.n_slots()];
        is_needed[tape.n_inputs()..][..tape.n_outputs()].fill(true);
        // From the end, since what a stretch must store is what is read after it.
        let mut end = instructions.len();
        while end > 0 {
            let is_native = |at: &usize| emit::is_native(instructions[*at].opcode);
            let n = (0..end).rev().take_while(is_native).count();
            if n >= SHORTEST {
                let stretch = &instructions[end - n..end];
                let most = emit::emit(&mut bytes, stretch, &is_needed, rows);
                let single = Rows { copies: 1, ..rows };
                let has_last = rows.copies * rows.width.n_lanes() > LANES;
                let last = has_last.then(|| emit::emit(&mut bytes, stretch, &is_needed, single));
                parts.push(Part::Code(Loops { most, last }));
                for instruction in stretch.iter().rev() {
                    is_needed[instruction.target as usize] = false;
                    let operands = [instruction.a, instruction.b, instruction.c];
                    read(&mut is_needed, &operands[..instruction.opcode.n_operands()]);
                }
                end -= n;
                continue;
            }
            let instruction = &instructions[end - 1];
            parts.push(Part::LaneInstruction(for_form(&fuse::Form::Plain(*instruction), backend)));
            match instruction.opcode {
                Opcode::Call => {
                    let call = &tape.calls()[instruction.a.raw() as usize];
                    call.targets().iter().flatten().for_each(|&slot| is_needed[slot as usize] = false);
                    read(&mut is_needed, call.arguments());
                }
                Opcode::SinCos => {
                    is_needed[instruction.target as usize] = false;
                    is_needed[instruction.b.raw() as usize] = false;
                    read(&mut is_needed, &[instruction.a]);
                }
                opcode => {
                    is_needed[instruction.target as usize] = false;
                    let operands = [instruction.a, instruction.b, instruction.c];
                    read(&mut is_needed, &operands[..opcode.n_operands()]);
                }
            }
            end -= 1;
        }
        parts.reverse();
        if !parts.iter().any(|part| matches!(part, Part::Code(_))) {
            return None;
        }
        Some(Self { parts, pages: Pages::new(&bytes.finish())?, rows })
    }

    /// Runs the program.
    ///
    /// # Safety
    /// The frame must belong to the tape; the processor must have the instructions of the backend.
    pub(super) unsafe fn run(&self, frame: &Frame<'_>) {
        let Rows { stride, width, copies, .. } = self.rows;
        assert_eq!(frame.stride, stride, "code is run with the rows it was made for");
        let round = width.n_lanes() * copies;
        let (n_rounds, n_left) = (frame.n_computed / round, frame.n_computed % round);
        for part in &self.parts {
            match part {
                Part::Code(Loops { most, last }) => {
                    let runs = [(Some(*most), 0, n_rounds), (*last, n_rounds * round, n_left / width.n_lanes())];
                    // The loops count down to zero: with nothing to do they would not end.
                    for (offset, lane, n) in runs.into_iter().filter(|(_, _, n)| *n > 0) {
                        let offset = offset.expect("lanes come in as many as there is code for");
                        // SAFETY: the address is that of a function of this type, which `emit` has written.
                        let code = unsafe { std::mem::transmute::<*const u8, Code>(self.pages.address(offset)) };
                        // SAFETY: the caller's; the stride is the right one, and there is a group of lanes.
                        unsafe { code(frame.cells.add(lane), frame.constants, n) };
                    }
                }
                // SAFETY: the caller's.
                Part::LaneInstruction(step) => unsafe { step.run(frame) },
            }
        }
    }
}

/// Doubles that the machine code of a backend works on at a time.
const fn width_of(backend: Backend) -> Width {
    match backend {
        Backend::Native512 => Width::Eight,
        _ => Width::Four,
    }
}

fn read(is_needed: &mut [bool], operands: &[Operand]) {
    for slot in operands.iter().filter_map(|operand| operand.as_slot()) {
        is_needed[slot as usize] = true;
    }
}
