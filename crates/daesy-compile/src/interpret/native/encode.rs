//! Instructions of x86-64 with AVX2 and FMA, or with AVX-512, as bytes, as few of them as tapes need.
//!
//! All work on eight doubles in a register `zmm0..zmm31`, on four in `ymm0..ymm15`, or on one in the lower part of it,
//! and have three operands, `target = first op second`, of which the second may be in memory [@intel2024, vol. 2].
//! They are the same operations with the same rounding at every width, and so are their bytes behind the prefix: VEX
//! for up to four doubles, EVEX for eight. Comparisons of eight doubles leave one bit each in a register of their own,
//! which only this module knows of.

/// A vector register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Register(pub(super) u8);

/// Where the second operand of an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Register(Register),
    /// Bytes after an address.
    Memory(Base, i32),
    /// A constant of the code itself.
    Literal(Literal),
}

/// An address from which memory is read or written. Code for lanes has the first two as arguments; code for one lane
/// has the address of a table of them as argument and looks them up when it first needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Base(pub(super) u8);

/// The general registers that hold the addresses: rdi, rsi, rcx, rdx, r8 to r11. None of them survives a call.
const ADDRESSES: [u8; N_BASES] = [7, 6, 1, 2, 8, 9, 10, 11];

/// Addresses that code can tell apart.
pub(super) const N_BASES: usize = 8;

/// How many doubles the instructions work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    Eight,
    Four,
    One,
}

impl Width {
    /// Doubles of a register that are worked on.
    pub(super) const fn n_lanes(self) -> usize {
        match self {
            Self::Eight => 8,
            Self::Four => 4,
            Self::One => 1,
        }
    }

    /// Registers there are.
    pub(super) const fn n_registers(self) -> usize {
        match self {
            Self::Eight => 32,
            Self::Four | Self::One => 16,
        }
    }
}

/// Constants of the code, eight times each after its last instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Literal {
    SignBit,
    AllButSign,
    Zero,
    One,
    MinusOne,
}

const LITERALS: [u64; 5] = [1 << 63, !(1 << 63), 0, 0x3FF0_0000_0000_0000, 0xBFF0_0000_0000_0000];

/// Operation codes with the tables they are from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Code {
    table: u8,
    is_wide: bool,
    byte: u8,
    /// The prefix and the byte of the instruction for one double.
    prefix_of_one: u8,
    byte_of_one: u8,
}

/// Prefixes as the encoding numbers them.
const PREFIX_66: u8 = 1;
const PREFIX_F3: u8 = 2;
const PREFIX_F2: u8 = 3;

/// Bytes of a register of eight doubles.
const LINE: i32 = 64;

/// Bytes of a literal with its repetitions.
const LITERAL: usize = LINE as usize;

/// The register for a bit per lane.
const MASK: u8 = 1;

impl Code {
    /// An operation on doubles.
    const fn plain(byte: u8) -> Self {
        Self { table: 1, is_wide: false, byte, prefix_of_one: PREFIX_F2, byte_of_one: byte }
    }
    /// An operation on bits. For one lane it is done on two, so that its second operand must not be a double in memory.
    const fn bitwise(table: u8, byte: u8) -> Self {
        Self { table, is_wide: false, byte, prefix_of_one: PREFIX_66, byte_of_one: byte }
    }
    /// A fused product.
    pub(super) const fn fused(fused: Fused, order: Order) -> Self {
        let base = match fused {
            Fused::MulAdd => 0x98,
            Fused::MulSub => 0x9A,
            Fused::SubProduct => 0x9C,
        };
        let offset = match order {
            Order::TargetTimesSecond => 0x00,
            Order::TargetTimesFirst => 0x10,
            Order::PlusTarget => 0x20,
        };
        let byte = base + offset;
        Self { table: 2, is_wide: true, byte, prefix_of_one: PREFIX_66, byte_of_one: byte + 1 }
    }
    pub(super) const LOAD: Self = Self::plain(0x10);
    const STORE: Self = Self::plain(0x11);
    const MOVE: Self = Self::bitwise(1, 0x28);
    pub(super) const SQRT: Self = Self::plain(0x51);
    pub(super) const AND: Self = Self::bitwise(1, 0x54);
    pub(super) const OR: Self = Self::bitwise(1, 0x56);
    pub(super) const XOR: Self = Self::bitwise(1, 0x57);
    pub(super) const ADD: Self = Self::plain(0x58);
    pub(super) const MUL: Self = Self::plain(0x59);
    pub(super) const SUB: Self = Self::plain(0x5C);
    pub(super) const MIN: Self = Self::plain(0x5D);
    pub(super) const DIV: Self = Self::plain(0x5E);
    pub(super) const MAX: Self = Self::plain(0x5F);
    const COMPARE: Self = Self::plain(0xC2);
    const ROUND: Self = Self { table: 3, is_wide: false, byte: 0x09, prefix_of_one: PREFIX_66, byte_of_one: 0x0B };
    const BLEND: Self = Self::bitwise(3, 0x4B);
    /// Of eight doubles: which of two, by a bit per lane.
    const BLEND_BY_BITS: Self = Self::bitwise(2, 0x65);
    /// All bits of a lane, or none, from a bit per lane.
    const SPREAD_BITS: Self = Self::bitwise(2, 0x38);
}

/// `a b + c`, `a b - c`, `c - a b`, rounded once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fused {
    MulAdd,
    MulSub,
    SubProduct,
}

/// Which operand a fused product overwrites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// `target = target * second + first`
    TargetTimesSecond,
    /// `target = first * target + second`
    TargetTimesFirst,
    /// `target = first * second + target`
    PlusTarget,
}

/// Relations whose answer for NaN is that of the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Relation {
    Equal = 0x00,
    Unordered = 0x03,
    NotEqual = 0x04,
    Less = 0x11,
    LessEqual = 0x12,
}

/// Directions of rounding, without exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Floor = 0x09,
    Ceil = 0x0A,
    Trunc = 0x0B,
}

/// A relation between two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Comparison {
    pub(super) relation: Relation,
    pub(super) first: Register,
    pub(super) second: Place,
}

/// In which of eight lanes an instruction acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Masked {
    /// In all.
    No,
    /// In those whose bit is set; a blend takes its first operand in the others.
    Yes,
    /// In those whose bit is set; the others become zero.
    OrZero,
}

/// A reference to a literal that waits for the end of the code.
struct Fixup {
    at: usize,
    /// Where the next instruction begins.
    end: usize,
    literal: Literal,
}

/// Bytes in the making.
pub(super) struct Bytes {
    code: Vec<u8>,
    fixups: Vec<Fixup>,
    width: Width,
    /// Bit k says that address k is in its register.
    known: u8,
}

impl Bytes {
    pub(super) const fn new(width: Width) -> Self {
        let known = match width {
            Width::Eight | Width::Four => 0b11,
            Width::One => 0,
        };
        Self { code: Vec::new(), fixups: Vec::new(), width, known }
    }

    pub(super) const fn position(&self) -> usize {
        self.code.len()
    }

    /// `target = first op second`
    pub(super) fn operate(&mut self, code: Code, target: Register, first: Register, second: Place) {
        self.instruction(code, target, first, second, None);
    }

    /// `target = source`
    pub(super) fn copy(&mut self, target: Register, source: Place) {
        let code = if matches!(source, Place::Register(_)) { Code::MOVE } else { Code::LOAD };
        self.instruction(code, target, Register(0), source, None);
    }

    /// `target = sqrt(source)`
    pub(super) fn sqrt(&mut self, target: Register, source: Place) {
        self.instruction(Code::SQRT, target, self.beside(target, source), source, None);
    }

    pub(super) fn round(&mut self, rounding: Rounding, target: Register, source: Place) {
        self.instruction(Code::ROUND, target, self.beside(target, source), source, Some(rounding as u8));
    }

    /// The first operand of an instruction with one operand: for one lane the upper part of the result is from it, so
    /// that it should be one that is there already.
    const fn beside(&self, target: Register, source: Place) -> Register {
        match (self.width, source) {
            (Width::Eight | Width::Four, _) => Register(0),
            (Width::One, Place::Register(register)) => register,
            (Width::One, _) => target,
        }
    }

    /// All bits of `target` set where the relation holds, else none.
    pub(super) fn compare(&mut self, relation: Relation, target: Register, first: Register, second: Place) {
        if self.width == Width::Eight {
            self.compare_bits(relation, first, second);
            let bits = Place::Register(Register(MASK));
            self.wide(Code::SPREAD_BITS, PREFIX_F3, target, Register(0), bits, None, Masked::No);
            return;
        }
        self.instruction(Code::COMPARE, target, first, second, Some(relation as u8));
    }

    /// A bit for each of eight lanes in which the relation holds.
    fn compare_bits(&mut self, relation: Relation, first: Register, second: Place) {
        let last = Some(relation as u8);
        self.wide(Code::COMPARE, PREFIX_66, Register(MASK), first, second, last, Masked::No);
    }

    /// 1 in `target` where the relation holds, else 0.
    pub(super) fn truth(&mut self, relation: Relation, target: Register, first: Register, second: Place) {
        let one = Place::Literal(Literal::One);
        if self.width == Width::Eight {
            self.compare_bits(relation, first, second);
            self.wide(Code::LOAD, PREFIX_66, target, Register(0), one, None, Masked::OrZero);
            return;
        }
        self.compare(relation, target, first, second);
        self.operate(Code::AND, target, target, one);
    }

    /// `target = if relation(first, second) { yes } else { no }`; `mask`, which may be the target, is overwritten.
    /// Neither of the two values may be in it.
    pub(super) fn choose(
        &mut self,
        comparison: Comparison,
        mask: Register,
        target: Register,
        no: Register,
        yes: Place,
    ) {
        let Comparison { relation, first, second } = comparison;
        if self.width == Width::Eight {
            self.compare_bits(relation, first, second);
            self.wide(Code::BLEND_BY_BITS, PREFIX_66, target, no, yes, None, Masked::Yes);
            return;
        }
        self.compare(relation, mask, first, second);
        self.instruction(Code::BLEND, target, no, yes, Some(mask.0 << 4));
    }

    /// Writes `source` to memory.
    pub(super) fn store(&mut self, source: Register, memory: Place) {
        self.instruction(Code::STORE, source, Register(0), memory, None);
    }

    fn instruction(&mut self, code: Code, target: Register, first: Register, second: Place, last: Option<u8>) {
        if self.width == Width::Eight {
            self.wide(code, PREFIX_66, target, first, second, last, Masked::No);
            return;
        }
        let high_second = match second {
            Place::Register(register) => register.0 >> 3,
            Place::Memory(base, _) => {
                self.look_up(base);
                ADDRESSES[usize::from(base.0)] >> 3
            }
            Place::Literal(_) => 0,
        };
        let (long, prefix, byte) = match self.width {
            Width::Eight | Width::Four => (1, PREFIX_66, code.byte),
            Width::One => (0, code.prefix_of_one, code.byte_of_one),
        };
        let high_target = (!(target.0 >> 3) & 1) << 7;
        let rest = (!first.0 & 15) << 3 | long << 2 | prefix;
        if code.table == 1 && high_second == 0 {
            self.code.extend([0xC5, high_target | rest]);
        } else {
            self.code.extend([0xC4, high_target | 1 << 6 | (!high_second & 1) << 5 | code.table]);
            self.code.push(u8::from(code.is_wide) << 7 | rest);
        }
        self.code.push(byte);
        self.operands(target, second, last, 1);
    }

    /// An instruction on eight doubles.
    #[allow(clippy::too_many_arguments)]
    fn wide(
        &mut self,
        code: Code,
        prefix: u8,
        target: Register,
        first: Register,
        second: Place,
        last: Option<u8>,
        masked: Masked,
    ) {
        // Bits 3 and 4 of the register or address of the second operand; without an index register bit 4 is 0.
        let (high, highest) = match second {
            Place::Register(register) => (register.0 >> 3, register.0 >> 4),
            Place::Memory(base, _) => {
                self.look_up(base);
                (ADDRESSES[usize::from(base.0)] >> 3, 0)
            }
            Place::Literal(_) => (0, 0),
        };
        let not = |bits: u8, shift: u32| (!bits & 1) << shift;
        let (target_high, target_highest) = (not(target.0 >> 3, 7), not(target.0 >> 4, 4));
        self.code.push(0x62);
        self.code.push(target_high | not(highest, 6) | not(high, 5) | target_highest | code.table);
        self.code.push(1 << 7 | (!first.0 & 15) << 3 | 1 << 2 | prefix);
        let mask = match masked {
            Masked::No => 0,
            Masked::Yes => MASK,
            Masked::OrZero => 1 << 7 | MASK,
        };
        self.code.push(0b10 << 5 | not(first.0 >> 4, 3) | mask);
        self.code.push(code.byte);
        self.operands(target, second, last, LINE);
    }

    /// The end of an instruction: its operands but for the first, and the last byte that some have. A short distance
    /// counts in units of `unit` bytes.
    fn operands(&mut self, target: Register, second: Place, last: Option<u8>, unit: i32) {
        let low = (target.0 & 7) << 3;
        match second {
            Place::Register(register) => self.code.push(0xC0 | low | (register.0 & 7)),
            Place::Memory(base, bytes) => self.memory(low | (ADDRESSES[usize::from(base.0)] & 7), bytes, unit),
            Place::Literal(literal) => {
                self.code.push(low | 0b101);
                let at = self.code.len();
                self.code.extend([0; 4]);
                self.fixups.push(Fixup { at, end: self.code.len() + usize::from(last.is_some()), literal });
            }
        }
        self.code.extend(last);
    }

    fn memory(&mut self, registers: u8, bytes: i32, unit: i32) {
        if let (0, Ok(byte)) = (bytes % unit, i8::try_from(bytes / unit)) {
            self.code.push(0x40 | registers);
            self.code.push(byte.cast_unsigned());
        } else {
            self.code.push(0x80 | registers);
            self.code.extend(bytes.to_le_bytes());
        }
    }

    /// Loads an address from the table that rbx points to, unless it is known.
    fn look_up(&mut self, base: Base) {
        if self.known & 1 << base.0 == 0 {
            self.known |= 1 << base.0;
            let register = ADDRESSES[usize::from(base.0)];
            // mov register, [rbx + 8 base]
            self.code.extend([0x48 | (register >> 3) << 2, 0x8B, 0x43 | (register & 7) << 3, 8 * base.0]);
        }
    }

    /// Begins a function whose argument is the table of addresses.
    pub(super) fn begin(&mut self) {
        // push rbx; mov rbx, rdi
        self.code.extend([0x53, 0x48, 0x89, 0xFB]);
    }

    /// Calls a function, which overwrites all registers but rbx. The stack is aligned: `begin` has pushed one
    /// register on it.
    pub(super) fn call(&mut self, address: usize) {
        // mov rax, address; call rax
        self.code.extend([0x48, 0xB8]);
        self.code.extend((address as u64).to_le_bytes());
        self.code.extend([0xFF, 0xD0]);
        self.known = 0;
    }

    /// Ends a function that was begun.
    pub(super) fn end(&mut self) {
        // pop rbx; ret
        self.code.extend([0x5B, 0xC3]);
    }

    /// Adds to the first argument and goes back to `start`, as often as the third argument says; then returns.
    pub(super) fn repeat(&mut self, start: usize, advance: i32) {
        // add rdi, advance; dec rdx; jnz start; vzeroupper; ret
        self.code.extend([0x48, 0x81, 0xC7]);
        self.code.extend(advance.to_le_bytes());
        self.code.extend([0x48, 0xFF, 0xCA, 0x0F, 0x85]);
        let back = start as i64 - (self.code.len() as i64 + 4);
        self.code.extend((back as i32).to_le_bytes());
        self.code.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }

    /// Aligns what comes next.
    pub(super) fn align(&mut self) {
        self.code.resize(self.code.len().next_multiple_of(64), 0xCC);
    }

    /// The code, followed by its literals.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.align();
        let first = self.code.len();
        for literal in LITERALS {
            for _ in 0..LITERAL / size_of_val(&literal) {
                self.code.extend(literal.to_le_bytes());
            }
        }
        for fixup in &self.fixups {
            let target = first + fixup.literal as usize * LITERAL;
            let distance = (target - fixup.end) as i32;
            self.code[fixup.at..fixup.at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code
    }
}
