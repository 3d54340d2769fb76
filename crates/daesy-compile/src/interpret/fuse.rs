//! Joining instructions whose result only the next one needs: a product of three, a sum of two products.
//!
//! ```text
//! +-(f0 * f1 * f2) +- (g0 * g1 * g2),   one to three factors each, products from the left
//! ```
//!
//! An interpreter is bound by the rows it loads and stores; what is joined is never stored. Every product and sum is
//! rounded as in the instructions it stands for, so that not a bit changes.

use crate::operation::Opcode;
use crate::tape::{Instruction, Operand, Tape};

const MOST_FACTORS: usize = 3;

/// A product from the left; constants come before slots in the first two factors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    factors: [Operand; MOST_FACTORS],
    n_factors: u8,
}

impl Term {
    fn of(operand: Operand) -> Self {
        Self { factors: [operand; MOST_FACTORS], n_factors: 1 }
    }

    /// The product with one more factor.
    fn times(mut self, factor: Operand) -> Option<Self> {
        if usize::from(self.n_factors) == MOST_FACTORS {
            return None;
        }
        self.factors[usize::from(self.n_factors)] = factor;
        self.n_factors += 1;
        // Products commute, so that fewer kinds have to be told apart.
        if self.n_factors == 2 && self.factors[1].is_constant() {
            self.factors.swap(0, 1);
        }
        Some(self)
    }

    pub(super) fn factors(&self) -> &[Operand] {
        &self.factors[..usize::from(self.n_factors)]
    }

    /// Which factors are constants; none for what no step computes.
    pub(super) fn kind(&self) -> Option<Kind> {
        let are_constant = self.factors.map(|factor| factor.is_constant());
        match are_constant[..usize::from(self.n_factors)] {
            [false] => Some(Kind::S),
            [true] => Some(Kind::K),
            [true, false] => Some(Kind::Ks),
            [false, false] => Some(Kind::Ss),
            [true, false, false] => Some(Kind::Kss),
            [false, false, true] => Some(Kind::Ssk),
            [false, false, false] => Some(Kind::Sss),
            _ => None,
        }
    }
}

/// The factors of a term: K is a constant, S a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    S,
    K,
    Ks,
    Ss,
    Kss,
    Ssk,
    Sss,
}

/// What a step computes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// An instruction as it is.
    Plain(Instruction),
    /// `target = term`
    Product { target: u32, term: Term },
    /// `target = first + second`, or the difference
    Sum { target: u32, first: Term, second: Term, is_difference: bool },
}

/// Which write a slot holds the value of.
const NEVER: u32 = u32::MAX;

/// The reads and writes of a tape.
struct Uses {
    /// For each instruction and operand the instruction that wrote it, or `NEVER`.
    writers: Vec<[u32; 3]>,
    /// How often the value that an instruction writes is read; outputs count as read once more.
    n_reads: Vec<u32>,
}

impl Uses {
    fn of(tape: &Tape) -> Self {
        let mut last_writer = vec![NEVER; tape.n_slots()];
        let mut uses = Self { writers: Vec::new(), n_reads: vec![0; tape.instructions().len()] };
        for (position, instruction) in tape.instructions().iter().enumerate() {
            let mut writers = [NEVER; 3];
            let mut read = |operand: Operand| {
                let writer = operand.as_slot().map_or(NEVER, |slot| last_writer[slot as usize]);
                if writer != NEVER {
                    uses.n_reads[writer as usize] += 1;
                }
                writer
            };
            if instruction.opcode == Opcode::Call {
                let call = &tape.calls()[instruction.a.raw() as usize];
                for &operand in call.arguments() {
                    read(operand);
                }
                for &slot in call.targets().iter().flatten() {
                    last_writer[slot as usize] = position as u32;
                }
            } else {
                let operands = [instruction.a, instruction.b, instruction.c];
                for (writer, &operand) in writers.iter_mut().zip(&operands[..instruction.opcode.n_operands()]) {
                    *writer = read(operand);
                }
                last_writer[instruction.target as usize] = position as u32;
                if instruction.opcode == Opcode::SinCos {
                    last_writer[instruction.b.raw() as usize] = position as u32;
                }
            }
            uses.writers.push(writers);
        }
        for &writer in &last_writer[tape.n_inputs()..][..tape.n_outputs()] {
            if writer != NEVER {
                uses.n_reads[writer as usize] += 1;
            }
        }
        uses
    }
}

/// A product that may be joined with the one instruction that reads it, with the writers of its factors.
#[derive(Clone, Copy)]
struct Candidate {
    term: Term,
    writers: [u32; MOST_FACTORS],
}

/// The steps of a tape, in order.
pub(super) fn fuse(tape: &Tape) -> Vec<Form> {
    let uses = Uses::of(tape);
    let n = tape.instructions().len();
    let mut forms: Vec<Option<Form>> = Vec::with_capacity(n);
    let mut candidates: Vec<Option<Candidate>> = vec![None; n];
    let mut last_writer = vec![NEVER; tape.n_slots()];
    for (position, instruction) in tape.instructions().iter().enumerate() {
        let join = Join { last_writer: &last_writer, candidates: &candidates };
        let writers = uses.writers[position];
        let joined = join.instruction(instruction, writers);
        let form = match joined {
            Some(joined) => {
                for taken in joined.taken.into_iter().flatten() {
                    forms[taken as usize] = None;
                }
                if let (Form::Product { term, .. }, 1) = (joined.form, uses.n_reads[position]) {
                    let mut writers = [NEVER; MOST_FACTORS];
                    for (writer, factor) in writers.iter_mut().zip(term.factors()) {
                        *writer = factor.as_slot().map_or(NEVER, |slot| last_writer[slot as usize]);
                    }
                    candidates[position] = Some(Candidate { term, writers });
                }
                joined.form
            }
            None => Form::Plain(*instruction),
        };
        forms.push(Some(form));
        match instruction.opcode {
            Opcode::Call => {
                for &slot in tape.calls()[instruction.a.raw() as usize].targets().iter().flatten() {
                    last_writer[slot as usize] = position as u32;
                }
            }
            Opcode::SinCos => {
                last_writer[instruction.target as usize] = position as u32;
                last_writer[instruction.b.raw() as usize] = position as u32;
            }
            _ => last_writer[instruction.target as usize] = position as u32,
        }
    }
    forms.into_iter().flatten().collect()
}

/// A form with the instructions that it makes superfluous.
struct Joined {
    form: Form,
    taken: [Option<u32>; 2],
}

/// What is known before an instruction.
struct Join<'a> {
    last_writer: &'a [u32],
    candidates: &'a [Option<Candidate>],
}

impl Join<'_> {
    /// The product that an operand is, if all its factors are still where they were. One that the product itself
    /// overwrote is: once joined, the product is never written.
    fn product(&self, writer: u32) -> Option<Term> {
        let candidate = self.candidates.get(writer as usize).copied().flatten()?;
        let is_there = |(&factor, &before): (&Operand, &u32)| {
            factor.as_slot().is_none_or(|slot| {
                let last = self.last_writer[slot as usize];
                last == before || last == writer
            })
        };
        candidate.term.factors().iter().zip(&candidate.writers).all(is_there).then_some(candidate.term)
    }

    /// `a * b`, with the product that one of them is.
    fn multiply(&self, a: Operand, b: Operand, writers: [u32; 2]) -> (Term, Option<u32>) {
        let longer = |operand: u32, other: Operand| {
            self.product(operand).and_then(|term| term.times(other)).filter(|term| term.kind().is_some())
        };
        if let Some(term) = longer(writers[0], b) {
            return (term, Some(writers[0]));
        }
        if let Some(term) = longer(writers[1], a) {
            return (term, Some(writers[1]));
        }
        let [first, second] = if b.is_constant() { [b, a] } else { [a, b] };
        (Term { factors: [first, second, second], n_factors: 2 }, None)
    }

    /// An operand of a sum, with the product that it is.
    fn summand(&self, operand: Operand, writer: u32) -> (Term, Option<u32>) {
        self.product(writer).map_or((Term::of(operand), None), |term| (term, Some(writer)))
    }

    fn instruction(&self, instruction: &Instruction, writers: [u32; 3]) -> Option<Joined> {
        let &Instruction { opcode, target, a, b, c } = instruction;
        let (first, second, is_difference) = match opcode {
            Opcode::Mul => {
                let (term, taken) = self.multiply(a, b, [writers[0], writers[1]]);
                return term.kind().map(|_| Joined { form: Form::Product { target, term }, taken: [taken, None] });
            }
            Opcode::Add => (self.summand(a, writers[0]), self.summand(b, writers[1]), false),
            Opcode::Sub => (self.summand(a, writers[0]), self.summand(b, writers[1]), true),
            Opcode::MulThenAdd | Opcode::MulThenSub => {
                let product = self.multiply(a, b, [writers[0], writers[1]]);
                (product, self.summand(c, writers[2]), opcode == Opcode::MulThenSub)
            }
            Opcode::SubProduct => (self.summand(c, writers[2]), self.multiply(a, b, [writers[0], writers[1]]), true),
            _ => return None,
        };
        // A value that is read twice by one instruction is no candidate, so the two never take the same.
        let ((first, first_taken), (second, second_taken)) = (first, second);
        let (first_kind, second_kind) = (first.kind()?, second.kind()?);
        let [first, second] =
            if !is_difference && second_kind < first_kind { [second, first] } else { [first, second] };
        let form = Form::Sum { target, first, second, is_difference };
        Some(Joined { form, taken: [first_taken, second_taken] })
    }
}
