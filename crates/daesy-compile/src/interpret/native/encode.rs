//! Instructions of x86-64 with AVX2 and FMA as bytes, as few of them as tapes need.
//!
//! All work on four doubles in a register `ymm0..ymm15` and have three operands, `target = first op second`, of which the second may
//! be in memory [@intel2024, vol. 2].

/// A vector register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Register(pub(super) u8);

/// Where the second operand of an instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Register(Register),
    /// Bytes behind the first argument of the code: slots.
    Cell(i32),
    /// Bytes behind the second argument: constants of the tape.
    Constant(i32),
    /// A constant of the code itself.
    Literal(Literal),
}

/// Constants of the code, four times each behind its last instruction.
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
}

impl Code {
    const fn plain(byte: u8) -> Self {
        Self { table: 1, is_wide: false, byte }
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
        Self { table: 2, is_wide: true, byte: base + offset }
    }
    pub(super) const LOAD: Self = Self::plain(0x10);
    pub(super) const STORE: Self = Self::plain(0x11);
    pub(super) const MOVE: Self = Self::plain(0x28);
    pub(super) const SQRT: Self = Self::plain(0x51);
    pub(super) const AND: Self = Self::plain(0x54);
    pub(super) const OR: Self = Self::plain(0x56);
    pub(super) const XOR: Self = Self::plain(0x57);
    pub(super) const ADD: Self = Self::plain(0x58);
    pub(super) const MUL: Self = Self::plain(0x59);
    pub(super) const SUB: Self = Self::plain(0x5C);
    pub(super) const MIN: Self = Self::plain(0x5D);
    pub(super) const DIV: Self = Self::plain(0x5E);
    pub(super) const MAX: Self = Self::plain(0x5F);
    const COMPARE: Self = Self::plain(0xC2);
    const ROUND: Self = Self { table: 3, is_wide: false, byte: 0x09 };
    const BLEND: Self = Self { table: 3, is_wide: false, byte: 0x4B };
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

/// A reference to a literal that waits for the end of the code.
struct Fixup {
    at: usize,
    /// Where the next instruction begins.
    end: usize,
    literal: Literal,
}

/// Bytes in the making.
#[derive(Default)]
pub(super) struct Bytes {
    code: Vec<u8>,
    fixups: Vec<Fixup>,
}

impl Bytes {
    pub(super) fn position(&self) -> usize {
        self.code.len()
    }

    /// `target = first op second`
    pub(super) fn operate(&mut self, code: Code, target: Register, first: Register, second: Place) {
        self.instruction(code, target, first, second, None);
    }

    /// `target = op(source)`
    pub(super) fn single(&mut self, code: Code, target: Register, source: Place) {
        self.instruction(code, target, Register(0), source, None);
    }

    /// All bits of `target` set where the relation holds, else none.
    pub(super) fn compare(&mut self, relation: Relation, target: Register, first: Register, second: Place) {
        self.instruction(Code::COMPARE, target, first, second, Some(relation as u8));
    }

    pub(super) fn round(&mut self, rounding: Rounding, target: Register, source: Place) {
        self.instruction(Code::ROUND, target, Register(0), source, Some(rounding as u8));
    }

    /// `target = if mask { second } else { first }`
    pub(super) fn blend(&mut self, target: Register, first: Register, second: Place, mask: Register) {
        self.instruction(Code::BLEND, target, first, second, Some(mask.0 << 4));
    }

    /// Writes `source` to a cell.
    pub(super) fn store(&mut self, source: Register, cell: i32) {
        self.instruction(Code::STORE, source, Register(0), Place::Cell(cell), None);
    }

    fn instruction(&mut self, code: Code, target: Register, first: Register, second: Place, last: Option<u8>) {
        /// rdi and rsi hold the first and second argument.
        const RDI: u8 = 7;
        const RSI: u8 = 6;
        let high_second = match second {
            Place::Register(register) => register.0 >> 3,
            _ => 0,
        };
        self.code.push(0xC4);
        self.code.push((!(target.0 >> 3) & 1) << 7 | 1 << 6 | (!high_second & 1) << 5 | code.table);
        self.code.push(u8::from(code.is_wide) << 7 | (!first.0 & 15) << 3 | 0b101);
        self.code.push(code.byte);
        let low = (target.0 & 7) << 3;
        match second {
            Place::Register(register) => self.code.push(0xC0 | low | (register.0 & 7)),
            Place::Cell(bytes) => self.memory(low | RDI, bytes),
            Place::Constant(bytes) => self.memory(low | RSI, bytes),
            Place::Literal(literal) => {
                self.code.push(low | 0b101);
                let at = self.code.len();
                self.code.extend([0; 4]);
                self.fixups.push(Fixup { at, end: self.code.len() + usize::from(last.is_some()), literal });
            }
        }
        self.code.extend(last);
    }

    fn memory(&mut self, registers: u8, bytes: i32) {
        if let Ok(byte) = i8::try_from(bytes) {
            self.code.push(0x40 | registers);
            self.code.push(byte.cast_unsigned());
        } else {
            self.code.push(0x80 | registers);
            self.code.extend(bytes.to_le_bytes());
        }
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

    /// The code with its literals behind it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.align();
        let first = self.code.len();
        for literal in LITERALS {
            for _ in 0..4 {
                self.code.extend(literal.to_le_bytes());
            }
        }
        for fixup in &self.fixups {
            let target = first + fixup.literal as usize * 32;
            let distance = (target - fixup.end) as i32;
            self.code[fixup.at..fixup.at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code
    }
}
