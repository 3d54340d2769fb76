//! Storage for the slots of a tape: `[slot][lane]`, every row on a cache line of its own.

use crate::tape::Tape;

/// Doubles per cache line.
const LINE: usize = 8;

/// How often a constant is repeated with several lanes, so that reading the widest group of lanes reads it only.
pub(crate) const REPETITIONS: usize = 8;

/// Rows of inputs and outputs that are in each other's places: what one run gives is where the next one, with code for rows in their own
/// places, takes it from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Exchange {
    /// First slot of the inputs.
    pub(crate) input: usize,
    /// First slot of the outputs.
    pub(crate) output: usize,
    /// How many.
    pub(crate) n: usize,
}

impl Exchange {
    /// Where a slot is.
    pub(crate) const fn place(self, slot: usize) -> usize {
        let Self { input, output, n } = self;
        if slot >= input && slot < input + n {
            output + (slot - input)
        } else if slot >= output && slot < output + n {
            input + (slot - output)
        } else {
            slot
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([f64; LINE]);

/// The slots of one tape for a number of trajectories (lanes) side by side.
///
/// Row `s` holds slot `s` of all lanes. Rows start `stride` doubles apart: 1 for a single lane, else the number of lanes rounded
/// up to an odd multiple of 8, so that rows are aligned to 64 bytes and do not compete for the same few places of a cache. Lanes
/// beyond `n_lanes` mean nothing, some are computed along. Behind the rows
/// are the constants of the tape, once for a single lane, else eight times each.
#[derive(Clone, Default)]
pub struct LaneMemory {
    lines: Vec<CacheLine>,
    /// Identity of the tape.
    tape: u64,
    n_inputs: usize,
    n_outputs: usize,
    n_slots: usize,
    n_lanes: usize,
    stride: usize,
    /// Arguments and results of one call.
    pub(crate) scratch: Vec<f64>,
}

impl LaneMemory {
    /// Zeros for all slots of a tape.
    #[must_use]
    pub fn new(tape: &Tape, n_lanes: usize) -> Self {
        let (stride, repetitions) =
            if n_lanes == 1 { (1, 1) } else { ((n_lanes.div_ceil(LINE) | 1) * LINE, REPETITIONS) };
        let n_cells = tape.n_slots() * stride;
        let n_lines = (n_cells + tape.constants().len() * repetitions).div_ceil(LINE);
        let scratch = tape.calls().iter().map(|call| call.arguments().len() + call.targets().len()).max().unwrap_or(0);
        let mut memory = Self {
            lines: vec![CacheLine([0.0; LINE]); n_lines],
            tape: tape.identity,
            n_inputs: tape.n_inputs(),
            n_outputs: tape.n_outputs(),
            n_slots: tape.n_slots(),
            n_lanes,
            stride,
            scratch: vec![0.0; scratch],
        };
        for (cells, &value) in memory.cells_mut()[n_cells..].chunks_mut(repetitions).zip(tape.constants()) {
            cells.fill(value);
        }
        memory
    }

    /// Whether it was made for this tape.
    #[must_use]
    pub fn is_for(&self, tape: &Tape) -> bool {
        self.tape == tape.identity
    }

    /// Number of trajectories.
    #[must_use]
    pub const fn n_lanes(&self) -> usize {
        self.n_lanes
    }
    /// Distance between rows, in doubles.
    #[must_use]
    pub const fn stride(&self) -> usize {
        self.stride
    }
    /// Lanes that are computed: a single one, or the next multiple of 8.
    pub(crate) const fn n_computed(&self) -> usize {
        if self.n_lanes == 1 { 1 } else { self.n_lanes.next_multiple_of(LINE) }
    }
    /// Number of slots.
    #[must_use]
    pub const fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// The lanes of an input.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn input(&self, index: usize) -> &[f64] {
        &self.inputs()[index * self.stride..][..self.n_lanes]
    }
    /// The lanes of an input, to be set. Executing does not change them.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn input_mut(&mut self, index: usize) -> &mut [f64] {
        let (stride, n_lanes) = (self.stride, self.n_lanes);
        &mut self.inputs_mut()[index * stride..][..n_lanes]
    }
    /// The lanes of an output, after executing.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn output(&self, index: usize) -> &[f64] {
        &self.outputs()[index * self.stride..][..self.n_lanes]
    }
    /// All inputs, rows `stride` apart.
    #[must_use]
    pub fn inputs(&self) -> &[f64] {
        &self.cells()[..self.n_inputs * self.stride]
    }
    /// All inputs, rows `stride` apart, to be set.
    #[must_use]
    pub fn inputs_mut(&mut self) -> &mut [f64] {
        let end = self.n_inputs * self.stride;
        &mut self.cells_mut()[..end]
    }
    /// All outputs, rows `stride` apart.
    #[must_use]
    pub fn outputs(&self) -> &[f64] {
        &self.cells()[self.n_inputs * self.stride..][..self.n_outputs * self.stride]
    }
    /// Copies whole rows: output `output + k` becomes input `input + k` for k < n, as between the steps of a method.
    ///
    /// # Panics
    /// If there are not so many inputs or outputs.
    pub fn feed_back(&mut self, output: usize, input: usize, n: usize) {
        assert!(output + n <= self.n_outputs && input + n <= self.n_inputs, "rows beyond the inputs or outputs");
        let stride = self.stride;
        let start = (self.n_inputs + output) * stride;
        self.cells_mut().copy_within(start..start + n * stride, input * stride);
    }

    /// Sets a constant of the program for these lanes.
    ///
    /// # Panics
    /// If there is no such constant.
    pub(crate) fn set_constant(&mut self, index: usize, value: f64) {
        let repetitions = if self.n_lanes == 1 { 1 } else { REPETITIONS };
        let first = self.n_slots * self.stride + index * repetitions;
        self.cells_mut()[first..first + repetitions].fill(value);
    }

    #[allow(unsafe_code)]
    pub(crate) fn cells(&self) -> &[f64] {
        // SAFETY: a cache line is eight doubles in C layout without padding, and the pointer comes from the vector of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * LINE) }
    }
    #[allow(unsafe_code)]
    pub(crate) fn cells_mut(&mut self) -> &mut [f64] {
        // SAFETY: as in `cells`, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * LINE) }
    }
}

impl std::fmt::Debug for LaneMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneMemory")
            .field("n_slots", &self.n_slots)
            .field("n_lanes", &self.n_lanes)
            .field("stride", &self.stride)
            .finish_non_exhaustive()
    }
}
