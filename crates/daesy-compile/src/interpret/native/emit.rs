//! From a stretch of a tape to machine code: which values are in registers when.
//!
//! The code for lanes is a loop over groups of them. Its body does the instructions in the order of the tape, each
//! for several groups of four or eight lanes side by side, so that none waits for another. The code for one lane is a whole
//! tape without a loop; it calls elementary functions, before which it stores what is read after them. A value lives
//! in a register from where it is computed to where it is last read; when registers run out, the one whose value is
//! read latest goes to the slot that the tape gave it [@belady1966]. What code after the stretch needs is stored at
//! once. Operands that are not in registers are read from memory where they are used.

use super::encode::{Base, Bytes, Code, Comparison, Fused, Literal, Order, Place, Register, Relation, Rounding, Width};
use super::function;
use crate::memory::{Exchange, REPETITIONS};
use crate::operation::Opcode;
use crate::tape::{Instruction, Operand, Source};

const BYTES: usize = size_of::<f64>();

/// No instruction of the stretch.
const NEVER: u32 = u32::MAX;

/// Registers that hold values of cells, at most; one more is for what lives inside one instruction of the tape.
const MOST_REGISTERS: usize = Width::Eight.n_registers() - 1;

/// Where functions take their arguments and leave their results.
const RESULT: Register = Register(0);
const SECOND_RESULT: Register = Register(1);

/// Whether there is machine code for an operation in lanes.
pub(super) fn is_native(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Copy
            | Opcode::Neg
            | Opcode::Not
            | Opcode::Abs
            | Opcode::Sign
            | Opcode::Sqrt
            | Opcode::Ceil
            | Opcode::Floor
            | Opcode::Trunc
            | Opcode::Add
            | Opcode::Sub
            | Opcode::Mul
            | Opcode::Div
            | Opcode::Min
            | Opcode::Max
            | Opcode::Quotient
            | Opcode::Modulo
            | Opcode::Remainder
            | Opcode::Less
            | Opcode::LessEqual
            | Opcode::Greater
            | Opcode::GreaterEqual
            | Opcode::Equal
            | Opcode::NotEqual
            | Opcode::And
            | Opcode::Or
            | Opcode::Select
            | Opcode::MulThenAdd
            | Opcode::MulThenSub
            | Opcode::SubProduct
            | Opcode::FusedMulAdd
            | Opcode::FusedMulSub
            | Opcode::FusedSubProduct
    )
}

/// What happens next to the values of an instruction, for one group of lanes.
#[derive(Clone, Copy)]
struct Future {
    /// The next instructions that read the operands.
    operands: [u32; 3],
    /// The next one that reads the result.
    target: u32,
    /// Whether code after the stretch reads the result.
    is_stored: bool,
    /// The same for the second result of [`Opcode::SinCos`].
    second: u32,
    is_second_stored: bool,
}

/// An operand of one group of lanes: a cell, or a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operated {
    Cell(u32),
    Constant(u32),
}

/// What a register holds.
#[derive(Clone, Copy)]
struct Held {
    cell: u32,
    next: u32,
    /// Whether the slot in memory holds something else.
    is_dirty: bool,
}

struct Emitter<'b> {
    bytes: &'b mut Bytes,
    storage: Storage<'b>,
    /// Groups of lanes that are worked on side by side.
    copies: u32,
    registers: [Option<Held>; MOST_REGISTERS],
    /// So many of them are there.
    n_registers: usize,
    /// The register for what lives inside one instruction of the tape.
    scratch: Register,
    /// By cell, the register that holds it.
    places: Vec<Option<Register>>,
    /// Registers that the instruction at hand reads.
    pinned: u32,
}

/// Rows of lanes as code sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// Their distance in doubles.
    pub(super) stride: usize,
    /// Lanes of a group.
    pub(super) width: Width,
    /// Groups that are worked on side by side.
    pub(super) copies: usize,
    /// Rows that are in each other's places.
    pub(super) exchange: Option<Exchange>,
}

/// Slots of a single lane as code sees them: inputs in groups and outputs where the caller has them, the rest in
/// memory of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scattered<'a> {
    /// The first slot of each group of inputs, and the first after them.
    pub(super) starts: &'a [usize],
    /// Outputs that the caller has, after the inputs that it has.
    pub(super) n_outputs: usize,
    pub(super) n_slots: usize,
}

impl Rows {
    /// Bytes of a group of lanes.
    const fn group(&self) -> usize {
        self.width.n_lanes() * BYTES
    }
}

impl Scattered<'_> {
    /// The address of all slots, which the constants follow.
    pub(super) const CELLS: Base = Base(0);
    pub(super) const OUTPUTS: Base = Base(1);
    /// The address of the first group of inputs.
    pub(super) const FIRST_GROUP: u8 = 2;

    fn slot(&self, slot: usize) -> Place {
        let n_inputs = self.starts[self.starts.len() - 1];
        let (base, at) = if slot < n_inputs {
            let group = self.starts.partition_point(|&start| start <= slot) - 1;
            (Base(Self::FIRST_GROUP + group as u8), slot - self.starts[group])
        } else if slot < n_inputs + self.n_outputs {
            (Self::OUTPUTS, slot - n_inputs)
        } else {
            (Self::CELLS, slot)
        };
        Place::Memory(base, (at * BYTES) as i32)
    }
}

/// Where slots and constants are.
#[derive(Clone, Copy, Debug)]
enum Storage<'a> {
    Lanes(Rows),
    One(Scattered<'a>),
}

impl Storage<'_> {
    const SLOTS: Base = Base(0);
    const CONSTANTS: Base = Base(1);

    fn cell(&self, cell: u32) -> Place {
        match self {
            Self::Lanes(rows) => {
                let (slot, copy) = (cell as usize / rows.copies, cell as usize % rows.copies);
                let slot = rows.exchange.map_or(slot, |exchange| exchange.place(slot));
                Place::Memory(Self::SLOTS, (slot * rows.stride * BYTES + copy * rows.group()) as i32)
            }
            Self::One(scattered) => scattered.slot(cell as usize),
        }
    }

    const fn constant(&self, index: u32) -> Place {
        match self {
            Self::Lanes(_) => Place::Memory(Self::CONSTANTS, (index as usize * REPETITIONS * BYTES) as i32),
            Self::One(scattered) => {
                Place::Memory(Scattered::CELLS, ((scattered.n_slots + index as usize) * BYTES) as i32)
            }
        }
    }
}

impl<'b> Emitter<'b> {
    fn new(bytes: &'b mut Bytes, storage: Storage<'b>, n_slots: usize) -> Self {
        let (copies, width) = match storage {
            Storage::Lanes(rows) => (rows.copies, rows.width),
            Storage::One(_) => (1, Width::One),
        };
        let n_registers = width.n_registers() - 1;
        Self {
            bytes,
            storage,
            copies: copies as u32,
            registers: [None; MOST_REGISTERS],
            n_registers,
            scratch: Register(n_registers as u8),
            places: vec![None; n_slots * copies],
            pinned: 0,
        }
    }
}

/// Appends the loop for a stretch; gives where it begins. `is_needed` says by slot what is read after it.
pub(super) fn emit(bytes: &mut Bytes, stretch: &[Instruction], is_needed: &[bool], rows: Rows) -> usize {
    bytes.align();
    let start = bytes.position();
    let mut emitter = Emitter::new(bytes, Storage::Lanes(rows), is_needed.len());
    for (instruction, future) in stretch.iter().zip(look_ahead(stretch, is_needed)) {
        for copy in 0..emitter.copies {
            emitter.instruction(instruction, copy, future);
        }
    }
    bytes.repeat(start, (rows.copies * rows.group()) as i32);
    start
}

/// Appends the function for all instructions of a tape without calls, for one lane. `is_needed` says by slot what is
/// read after it.
pub(super) fn emit_one(bytes: &mut Bytes, instructions: &[Instruction], is_needed: &[bool], scattered: Scattered<'_>) {
    bytes.begin();
    let mut emitter = Emitter::new(bytes, Storage::One(scattered), is_needed.len());
    for (instruction, future) in instructions.iter().zip(look_ahead(instructions, is_needed)) {
        emitter.instruction(instruction, 0, future);
    }
    bytes.end();
}

fn look_ahead(stretch: &[Instruction], is_needed: &[bool]) -> Vec<Future> {
    let mut futures = Vec::with_capacity(stretch.len());
    let mut next = vec![NEVER; is_needed.len()];
    let mut is_stored = is_needed.to_vec();
    // Copies differ in their cells only, so that slots of the tape are enough.
    for (at, instruction) in stretch.iter().enumerate().rev() {
        let mut written = |slot: usize| {
            let first_read = std::mem::replace(&mut next[slot], NEVER);
            (first_read, std::mem::replace(&mut is_stored[slot], false))
        };
        let (target, is_target_stored) = written(instruction.target as usize);
        let (second, is_second_stored) = match instruction.opcode {
            Opcode::SinCos => written(instruction.b.raw() as usize),
            _ => (NEVER, false),
        };
        let mut future = Future { operands: [NEVER; 3], target, is_stored: is_target_stored, second, is_second_stored };
        let operands = [instruction.a, instruction.b, instruction.c];
        let slots = operands[..instruction.opcode.n_operands()].iter().map(|operand| operand.as_slot());
        for (future, slot) in future.operands.iter_mut().zip(slots.clone()) {
            *future = slot.map_or(NEVER, |slot| next[slot as usize]);
        }
        for slot in slots.flatten() {
            next[slot as usize] = at as u32;
        }
        futures.push(future);
    }
    futures.reverse();
    futures
}

impl Emitter<'_> {
    fn operated(&self, operand: Operand, copy: u32) -> Operated {
        match operand.source() {
            Source::Slot(slot) => Operated::Cell(slot as u32 * self.copies + copy),
            Source::Constant(index) => Operated::Constant(index as u32),
        }
    }

    /// Where an operand is.
    fn place(&self, operated: Operated) -> Place {
        match operated {
            Operated::Constant(index) => self.storage.constant(index),
            Operated::Cell(cell) => self.places[cell as usize].map_or_else(|| self.storage.cell(cell), Place::Register),
        }
    }

    fn is_in_register(&self, operated: Operated) -> bool {
        matches!(self.place(operated), Place::Register(_))
    }

    fn pin(&mut self, register: Register) {
        self.pinned |= 1 << register.0;
    }

    /// A register for something new. It may hold a value that is not read any more, but none that is pinned.
    fn free(&mut self) -> Register {
        let open = |at: &usize| self.pinned & 1 << at == 0;
        let empty = (0..self.n_registers).filter(open).find(|&at| self.registers[at].is_none());
        let at = empty.unwrap_or_else(|| {
            // The one that is read latest; of equals one that need not be stored.
            let key = |at: &usize| self.registers[*at].map_or((NEVER, true), |held| (held.next, !held.is_dirty));
            (0..self.n_registers)
                .filter(open)
                .max_by_key(key)
                .expect("an instruction reads fewer operands than there are registers")
        });
        let register = Register(at as u8);
        if let Some(held) = self.registers[at].take() {
            if held.is_dirty && held.next != NEVER {
                self.bytes.store(register, self.storage.cell(held.cell));
            }
            self.places[held.cell as usize] = None;
        }
        register
    }

    /// An operand in a register, loaded if it must be; pinned.
    fn register(&mut self, operated: Operated, next: u32) -> Register {
        let place = self.place(operated);
        if let Place::Register(register) = place {
            self.pin(register);
            return register;
        }
        let register = self.free();
        self.bytes.copy(register, place);
        if let Operated::Cell(cell) = operated
            && next != NEVER
        {
            self.registers[usize::from(register.0)] = Some(Held { cell, next, is_dirty: false });
            self.places[cell as usize] = Some(register);
        }
        self.pin(register);
        register
    }

    /// An operand wherever it is; pinned.
    fn anywhere(&mut self, operated: Operated) -> Place {
        let place = self.place(operated);
        if let Place::Register(register) = place {
            self.pin(register);
        }
        place
    }

    /// Notes when operands are read next, and forgets those that are not.
    fn release(&mut self, operands: &[Operated], next: [u32; 3]) {
        for (&operated, next) in operands.iter().zip(next) {
            let Operated::Cell(cell) = operated else { continue };
            let Some(register) = self.places[cell as usize] else { continue };
            let held = &mut self.registers[usize::from(register.0)];
            if next == NEVER {
                *held = None;
                self.places[cell as usize] = None;
            } else if let Some(held) = held {
                held.next = next;
            }
        }
    }

    /// A register for the result, which may be that of an operand that is not read again.
    fn result(&mut self) -> Register {
        self.pinned = 0;
        self.free()
    }

    /// The register of an operand that is not read again, if it is in one and no other operand is in it.
    fn dying(&self, operated: Operated, next: u32, others: [Operated; 2]) -> Option<Register> {
        match self.place(operated) {
            Place::Register(register) if next == NEVER && !others.contains(&operated) => Some(register),
            _ => None,
        }
    }

    fn instruction(&mut self, instruction: &Instruction, copy: u32, future: Future) {
        let n = instruction.opcode.n_operands();
        let all = [instruction.a, instruction.b, instruction.c];
        let mut operands = [Operated::Constant(0); 3];
        for (operated, operand) in operands.iter_mut().zip(&all[..n]) {
            *operated = self.operated(*operand, copy);
        }
        self.pinned = 0;
        let target = self.compute(instruction.opcode, &operands[..n], future.operands);
        self.settle(instruction.target * self.copies + copy, target, future.target, future.is_stored);
        if instruction.opcode == Opcode::SinCos {
            let second = instruction.b.raw() * self.copies + copy;
            self.settle(second, SECOND_RESULT, future.second, future.is_second_stored);
        }
    }

    /// Notes that a register holds the new value of a cell.
    fn settle(&mut self, cell: u32, register: Register, next: u32, is_stored: bool) {
        // What the slot held before is not read any more.
        if let Some(old) = self.places[cell as usize].take() {
            self.registers[usize::from(old.0)] = None;
        }
        if is_stored {
            self.bytes.store(register, self.storage.cell(cell));
        }
        self.registers[usize::from(register.0)] = None;
        if next != NEVER {
            self.registers[usize::from(register.0)] = Some(Held { cell, next, is_dirty: !is_stored });
            self.places[cell as usize] = Some(register);
        }
    }

    /// Calls an elementary function. It overwrites all registers, so that what is read later goes to its slot.
    fn call(&mut self, address: usize, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        let mut arguments = [Place::Register(RESULT); 2];
        for (argument, &operated) in arguments.iter_mut().zip(operands) {
            *argument = self.place(operated);
        }
        self.release(operands, next);
        for at in 0..self.n_registers {
            let Some(held) = self.registers[at].take() else { continue };
            if held.is_dirty {
                self.bytes.store(Register(at as u8), self.storage.cell(held.cell));
            }
            self.places[held.cell as usize] = None;
        }
        if operands.len() == 1 {
            self.bytes.copy(RESULT, arguments[0]);
        } else {
            // Either may be where the other has to go.
            self.bytes.copy(scratch, arguments[0]);
            self.bytes.copy(SECOND_RESULT, arguments[1]);
            self.bytes.copy(RESULT, Place::Register(scratch));
        }
        self.bytes.call(address);
        RESULT
    }

    /// Emits an operation; gives the register of its result.
    fn compute(&mut self, opcode: Opcode, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        match opcode {
            Opcode::Copy => self.single(operands, next, |bytes, target, a| bytes.copy(target, a)),
            Opcode::Sqrt => self.single(operands, next, |bytes, target, a| bytes.sqrt(target, a)),
            Opcode::Floor => self.single(operands, next, |bytes, target, a| bytes.round(Rounding::Floor, target, a)),
            Opcode::Ceil => self.single(operands, next, |bytes, target, a| bytes.round(Rounding::Ceil, target, a)),
            Opcode::Trunc => self.single(operands, next, |bytes, target, a| bytes.round(Rounding::Trunc, target, a)),
            Opcode::Neg => self.with_literal(Code::XOR, Literal::SignBit, operands, next),
            Opcode::Abs => self.with_literal(Code::AND, Literal::AllButSign, operands, next),
            Opcode::Not => {
                let a = self.register(operands[0], next[0]);
                self.release(operands, next);
                let target = self.result();
                self.bytes.truth(Relation::Equal, target, a, Place::Literal(Literal::Zero));
                target
            }
            Opcode::Sign => self.sign(operands, next),
            Opcode::Add => self.symmetric(Code::ADD, operands, next),
            Opcode::Mul => self.symmetric(Code::MUL, operands, next),
            Opcode::Sub => self.binary(operands, next, |bytes, target, a, b| bytes.operate(Code::SUB, target, a, b)),
            Opcode::Div => self.binary(operands, next, |bytes, target, a, b| bytes.operate(Code::DIV, target, a, b)),
            Opcode::Min => self.extreme(Code::MIN, operands, next),
            Opcode::Max => self.extreme(Code::MAX, operands, next),
            Opcode::Quotient => self.binary(operands, next, |bytes, target, a, b| {
                bytes.operate(Code::DIV, scratch, a, b);
                bytes.round(Rounding::Trunc, target, Place::Register(scratch));
            }),
            Opcode::Modulo => self.remainder(Rounding::Floor, operands, next),
            Opcode::Remainder => self.remainder(Rounding::Trunc, operands, next),
            Opcode::Less => self.relation(Relation::Less, operands, next),
            Opcode::LessEqual => self.relation(Relation::LessEqual, operands, next),
            Opcode::Equal => self.relation(Relation::Equal, operands, next),
            Opcode::NotEqual => self.relation(Relation::NotEqual, operands, next),
            Opcode::Greater => self.relation(Relation::Less, &[operands[1], operands[0]], [next[1], next[0], NEVER]),
            Opcode::GreaterEqual => {
                self.relation(Relation::LessEqual, &[operands[1], operands[0]], [next[1], next[0], NEVER])
            }
            Opcode::And => self.logic(Code::AND, operands, next),
            Opcode::Or => self.logic(Code::OR, operands, next),
            Opcode::Select => {
                let first = self.register(operands[0], next[0]);
                let no = self.register(operands[2], next[2]);
                let yes = match self.storage {
                    Storage::Lanes(_) => self.anywhere(operands[1]),
                    // Read from memory it would be two doubles.
                    Storage::One(_) => Place::Register(self.register(operands[1], next[1])),
                };
                self.release(operands, next);
                let target = self.result();
                let second = Place::Literal(Literal::Zero);
                self.bytes.choose(Comparison { relation: Relation::NotEqual, first, second }, scratch, target, no, yes);
                target
            }
            Opcode::MulThenAdd => self.product_then(Code::ADD, operands, next),
            Opcode::MulThenSub => self.product_then(Code::SUB, operands, next),
            Opcode::SubProduct => {
                let a = self.register(operands[0], next[0]);
                let b = self.anywhere(operands[1]);
                self.bytes.operate(Code::MUL, scratch, a, b);
                let c = self.register(operands[2], next[2]);
                self.release(operands, next);
                let target = self.result();
                self.bytes.operate(Code::SUB, target, c, Place::Register(scratch));
                target
            }
            Opcode::FusedMulAdd => self.fused(Fused::MulAdd, operands, next),
            Opcode::FusedMulSub => self.fused(Fused::MulSub, operands, next),
            Opcode::FusedSubProduct => self.fused(Fused::SubProduct, operands, next),
            _ => {
                let address = function::address(opcode).expect("stretches consist of native operations");
                self.call(address, operands, next)
            }
        }
    }

    fn single(
        &mut self,
        operands: &[Operated],
        next: [u32; 3],
        emit: impl Fn(&mut Bytes, Register, Place),
    ) -> Register {
        let a = self.anywhere(operands[0]);
        self.release(operands, next);
        let target = self.result();
        emit(self.bytes, target, a);
        target
    }

    fn binary(
        &mut self,
        operands: &[Operated],
        next: [u32; 3],
        emit: impl Fn(&mut Bytes, Register, Register, Place),
    ) -> Register {
        let a = self.register(operands[0], next[0]);
        let b = self.anywhere(operands[1]);
        self.release(operands, next);
        let target = self.result();
        emit(self.bytes, target, a, b);
        target
    }

    fn symmetric(&mut self, code: Code, operands: &[Operated], next: [u32; 3]) -> Register {
        let is_swapped = !self.is_in_register(operands[0]) && self.is_in_register(operands[1]);
        let emit = |bytes: &mut Bytes, target, a, b| bytes.operate(code, target, a, b);
        if is_swapped {
            self.binary(&[operands[1], operands[0]], [next[1], next[0], NEVER], emit)
        } else {
            self.binary(operands, next, emit)
        }
    }

    fn with_literal(&mut self, code: Code, literal: Literal, operands: &[Operated], next: [u32; 3]) -> Register {
        let a = self.register(operands[0], next[0]);
        self.release(operands, next);
        let target = self.result();
        self.bytes.operate(code, target, a, Place::Literal(literal));
        target
    }

    fn relation(&mut self, relation: Relation, operands: &[Operated], next: [u32; 3]) -> Register {
        self.binary(operands, next, |bytes, target, a, b| bytes.truth(relation, target, a, b))
    }

    fn logic(&mut self, code: Code, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        let a = self.register(operands[0], next[0]);
        self.bytes.compare(Relation::NotEqual, scratch, a, Place::Literal(Literal::Zero));
        let b = self.register(operands[1], next[1]);
        self.release(operands, next);
        let target = self.result();
        self.bytes.compare(Relation::NotEqual, target, b, Place::Literal(Literal::Zero));
        self.bytes.operate(code, target, target, Place::Register(scratch));
        self.bytes.operate(Code::AND, target, target, Place::Literal(Literal::One));
        target
    }

    /// A register for the result that is not that of `kept`, which is read after the result is first written.
    fn result_beside(&mut self, kept: Register) -> Register {
        self.pinned = 0;
        self.pin(kept);
        self.free()
    }

    /// The processor's extremes give the second operand where either is NaN; here a first one that is NaN counts.
    fn extreme(&mut self, code: Code, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        let a = self.register(operands[0], next[0]);
        let b = self.anywhere(operands[1]);
        self.bytes.operate(code, scratch, a, b);
        self.release(operands, next);
        let target = self.result_beside(a);
        let itself = Place::Register(a);
        let is_nan = Comparison { relation: Relation::Unordered, first: a, second: itself };
        self.bytes.choose(is_nan, target, target, scratch, itself);
        target
    }

    fn sign(&mut self, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        let a = self.register(operands[0], next[0]);
        self.release(operands, next);
        let target = self.result_beside(a);
        self.bytes.operate(Code::XOR, scratch, scratch, Place::Register(scratch));
        self.bytes.compare(Relation::Less, scratch, scratch, Place::Register(a));
        self.bytes.operate(Code::AND, scratch, scratch, Place::Literal(Literal::One));
        self.bytes.compare(Relation::Less, target, a, Place::Literal(Literal::Zero));
        self.bytes.operate(Code::AND, target, target, Place::Literal(Literal::MinusOne));
        self.bytes.operate(Code::ADD, target, target, Place::Register(scratch));
        let itself = Place::Register(a);
        let is_nan = Comparison { relation: Relation::Unordered, first: a, second: itself };
        self.bytes.choose(is_nan, scratch, target, target, itself);
        target
    }

    /// `a - round(a / b) b`
    fn remainder(&mut self, rounding: Rounding, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        self.binary(operands, next, |bytes, target, a, b| {
            bytes.operate(Code::DIV, scratch, a, b);
            bytes.round(rounding, scratch, Place::Register(scratch));
            bytes.operate(Code::MUL, scratch, scratch, b);
            bytes.operate(Code::SUB, target, a, Place::Register(scratch));
        })
    }

    /// `a b` rounded, then added to or less `c`.
    fn product_then(&mut self, code: Code, operands: &[Operated], next: [u32; 3]) -> Register {
        let scratch = self.scratch;
        let a = self.register(operands[0], next[0]);
        let b = self.anywhere(operands[1]);
        self.bytes.operate(Code::MUL, scratch, a, b);
        let c = self.anywhere(operands[2]);
        self.release(operands, next);
        let target = self.result();
        self.bytes.operate(code, target, scratch, c);
        target
    }

    /// A fused product overwrites one of its operands: one that is not read again, or a copy.
    fn fused(&mut self, fused: Fused, operands: &[Operated], next: [u32; 3]) -> Register {
        let (mut a, mut b, c) = (operands[0], operands[1], operands[2]);
        let [mut next_a, mut next_b, next_c] = next;
        let swap = |a: &mut Operated, b: &mut Operated, next_a: &mut u32, next_b: &mut u32| {
            std::mem::swap(a, b);
            std::mem::swap(next_a, next_b);
        };
        if let Some(target) = self.dying(c, next_c, [a, b]) {
            self.pin(target);
            if !self.is_in_register(a) {
                swap(&mut a, &mut b, &mut next_a, &mut next_b);
            }
            let first = self.register(a, next_a);
            let second = self.anywhere(b);
            self.bytes.operate(Code::fused(fused, Order::PlusTarget), target, first, second);
            self.release(operands, next);
            return target;
        }
        if self.dying(a, next_a, [b, c]).is_none() {
            swap(&mut a, &mut b, &mut next_a, &mut next_b);
        }
        if let Some(target) = self.dying(a, next_a, [b, c]) {
            self.pin(target);
            if self.is_in_register(b) {
                let first = self.register(b, next_b);
                let second = self.anywhere(c);
                self.bytes.operate(Code::fused(fused, Order::TargetTimesFirst), target, first, second);
            } else {
                let first = self.register(c, next_c);
                let second = self.anywhere(b);
                self.bytes.operate(Code::fused(fused, Order::TargetTimesSecond), target, first, second);
            }
            self.release(operands, next);
            return target;
        }
        // None may be overwritten: a copy of one in memory costs no more than reading it.
        if self.is_in_register(c) && !(self.is_in_register(a) && self.is_in_register(b)) {
            if self.is_in_register(a) {
                std::mem::swap(&mut a, &mut b);
            }
            let first = self.register(c, next_c);
            let second = self.anywhere(b);
            let place = self.anywhere(a);
            let target = self.free();
            self.bytes.copy(target, place);
            self.bytes.operate(Code::fused(fused, Order::TargetTimesSecond), target, first, second);
            self.release(operands, next);
            return target;
        }
        if !self.is_in_register(a) {
            swap(&mut a, &mut b, &mut next_a, &mut next_b);
        }
        let first = self.register(a, next_a);
        let second = self.anywhere(b);
        let place = self.anywhere(c);
        let target = self.free();
        self.bytes.copy(target, place);
        self.bytes.operate(Code::fused(fused, Order::PlusTarget), target, first, second);
        self.release(operands, next);
        target
    }
}
