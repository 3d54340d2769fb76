//! A whole tape as one function for a single lane.
//!
//! It reads its inputs where the caller has them, in a few groups one after the other, and writes its outputs where
//! the caller wants them, so that nothing is copied.

use super::LONGEST_TAPE;
use super::emit::{Scattered, emit_one};
use super::encode::{Bytes, N_BASES, Width};
use super::pages::Pages;
use crate::operation::Opcode;
use crate::tape::Tape;

/// Groups that the inputs may lie in.
const MOST_GROUPS: usize = N_BASES - Scattered::FIRST_GROUP as usize;

/// # Safety
/// The argument is a table of addresses: of as many doubles as the tape has slots, followed by its constants; of its
/// outputs; of each group of inputs. Slots and outputs are written, so that nothing else may refer to them. The
/// processor must have AVX2 and FMA.
type Code = unsafe extern "sysv64" fn(*const Table);

/// Addresses in the order of [`super::encode::Base`].
type Table = [*mut f64; N_BASES];

/// A tape as machine code for one lane.
#[derive(Debug)]
pub(in crate::interpret) struct One {
    pages: Pages,
    /// Lengths of the groups of inputs that the caller has.
    lengths: Vec<usize>,
    /// Outputs that the caller has.
    n_outputs: usize,
    /// Doubles that slots and constants take.
    n_cells: usize,
}

impl One {
    /// Code for groups of inputs that follow each other, and for outputs elsewhere; none for tapes that are long or
    /// call functions, or where the system gives no memory.
    pub(in crate::interpret) fn scattered(tape: &Tape, lengths: &[usize]) -> Option<Self> {
        let is_fitting = lengths.len() <= MOST_GROUPS && lengths.iter().sum::<usize>() == tape.n_inputs();
        if is_fitting { Self::new(tape, lengths, tape.n_outputs()) } else { None }
    }

    /// Code for inputs and outputs in their slots.
    pub(in crate::interpret) fn whole(tape: &Tape) -> Option<Self> {
        Self::new(tape, &[], 0)
    }

    fn new(tape: &Tape, lengths: &[usize], n_outputs: usize) -> Option<Self> {
        let instructions = tape.instructions();
        let n_cells = tape.n_slots().checked_add(tape.constants().len())?;
        let has_calls = instructions.iter().any(|instruction| instruction.opcode == Opcode::Call);
        let is_near = n_cells.checked_mul(size_of::<f64>()).is_some_and(|reach| i32::try_from(reach).is_ok());
        if has_calls || instructions.len() > LONGEST_TAPE || !is_near {
            return None;
        }
        let mut starts = vec![0];
        for &length in lengths {
            starts.push(starts[starts.len() - 1] + length);
        }
        let mut is_needed = vec![false; tape.n_slots()];
        is_needed[tape.n_inputs()..][..tape.n_outputs()].fill(true);
        let mut bytes = Bytes::new(Width::One);
        let scattered = Scattered { starts: &starts, n_outputs, n_slots: tape.n_slots() };
        emit_one(&mut bytes, instructions, &is_needed, scattered);
        let pages = Pages::new(&bytes.finish())?;
        Some(Self { pages, lengths: lengths.to_vec(), n_outputs, n_cells })
    }

    /// Whether the code can be run with these groups of inputs and these outputs.
    #[inline]
    pub(in crate::interpret) fn is_for(&self, groups: &[&[f64]], outputs: &[f64]) -> bool {
        let have_lengths = groups.iter().map(|group| group.len()).eq(self.lengths.iter().copied());
        have_lengths && outputs.len() >= self.n_outputs
    }

    /// Runs the code. `cells` holds the slots of the tape, followed by its constants.
    ///
    /// # Safety
    /// The cells must be those of a memory of one lane that was made for the tape, groups and outputs such as
    /// [`One::is_for`] approves of; the processor must have AVX2 and FMA.
    #[inline]
    pub(in crate::interpret) unsafe fn run(&self, cells: &mut [f64], groups: &[&[f64]], outputs: &mut [f64]) {
        debug_assert!(cells.len() >= self.n_cells, "slots and constants are there");
        debug_assert!(self.is_for(groups, outputs), "code is run with what it was made for");
        let mut table: Table = [cells.as_mut_ptr(); N_BASES];
        table[usize::from(Scattered::OUTPUTS.0)] = outputs.as_mut_ptr();
        for (address, group) in table[usize::from(Scattered::FIRST_GROUP)..].iter_mut().zip(groups) {
            // Nothing is written to the inputs of a tape.
            *address = group.as_ptr().cast_mut();
        }
        // SAFETY: the address is that of a function of this type, which `emit_one` has written. Slices that are
        // borrowed mutably overlap with nothing; the rest is the caller's.
        unsafe {
            let code = std::mem::transmute::<*const u8, Code>(self.pages.address(0));
            code(&raw const table);
        }
    }
}
