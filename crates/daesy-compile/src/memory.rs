//! Storage for the slots of a tape: `[slot][lane]`, every row on a cache line of its own.

use crate::interpret::ExecutionError;
use crate::tape::Tape;

/// Doubles per cache line.
const LINE: usize = 8;

/// How often a constant is repeated with several lanes, so that reading the widest group of lanes reads it only.
pub(crate) const REPETITIONS: usize = 8;

/// Rows of inputs and outputs that are in each other's places: what one run gives is where the next one, with code
/// for rows in their own places, takes it from.
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
/// Row `s` holds slot `s` of all lanes. Rows start `stride` doubles apart: 1 for a single lane, else the number of
/// lanes rounded up to an odd multiple of 8, so that rows are aligned to 64 bytes and do not compete for the same few
/// places of a cache. Lanes beyond `n_lanes` mean nothing, some are computed along. After the rows come the constants
/// of the tape, once for a single lane, else eight times each. Memory without lanes is memory with nothing to
/// compute.
///
/// Invariant, on which the unsafe code of the executors rests: `lines` has room for `n_slots` rows of `stride`
/// doubles and the constants after them, all sizes are those of the tape with this identity, and
/// `n_computed() <= stride`.
///
/// The default is empty and belongs to no tape.
#[derive(Clone, Default)]
pub struct LaneMemory {
    lines: Vec<CacheLine>,
    /// Identity of the tape; 0 for none.
    tape: u64,
    n_inputs: usize,
    n_outputs: usize,
    n_slots: usize,
    n_lanes: usize,
    stride: usize,
    /// Arguments and results of one call.
    scratch: Vec<f64>,
}

/// What a tape takes in memory.
struct Extent {
    stride: usize,
    repetitions: usize,
    /// Doubles of all slots.
    n_cells: usize,
    n_lines: usize,
}

impl Extent {
    /// `None` if the number of doubles cannot be counted.
    fn of(tape: &Tape, n_lanes: usize) -> Option<Self> {
        let (stride, repetitions) = match n_lanes {
            1 => (1, 1),
            _ => ((n_lanes.div_ceil(LINE) | 1).checked_mul(LINE)?, REPETITIONS),
        };
        let n_cells = tape.n_slots().checked_mul(stride)?;
        let n_constants = tape.constants().len().checked_mul(repetitions)?;
        let n_lines = n_cells.checked_add(n_constants)?.div_ceil(LINE);
        Some(Self { stride, repetitions, n_cells, n_lines })
    }
}

impl LaneMemory {
    /// Zeros for all slots of a tape.
    ///
    /// # Panics
    /// If the lanes do not fit in memory; [`LaneMemory::try_new`] gives an error instead.
    #[must_use]
    pub fn new(tape: &Tape, n_lanes: usize) -> Self {
        Self::try_new(tape, n_lanes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Zeros for all slots of a tape.
    ///
    /// # Errors
    /// [`ExecutionError::TooLarge`] if the lanes do not fit in memory.
    pub fn try_new(tape: &Tape, n_lanes: usize) -> Result<Self, ExecutionError> {
        let too_large = || ExecutionError::TooLarge { n_slots: tape.n_slots(), n_lanes };
        let Extent { stride, repetitions, n_cells, n_lines } = Extent::of(tape, n_lanes).ok_or_else(too_large)?;
        let mut lines = Vec::new();
        lines.try_reserve_exact(n_lines).map_err(|_| too_large())?;
        lines.resize(n_lines, CacheLine([0.0; LINE]));
        let scratch = tape.calls().iter().map(|call| call.arguments().len() + call.targets().len()).max().unwrap_or(0);
        let mut memory = Self {
            lines,
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
        Ok(memory)
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
        let start = self.row_start("input", index, self.n_inputs);
        &self.inputs()[start..][..self.n_lanes]
    }
    /// The lanes of an input, to be set. Executing does not change them.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn input_mut(&mut self, index: usize) -> &mut [f64] {
        let (start, n_lanes) = (self.row_start("input", index, self.n_inputs), self.n_lanes);
        &mut self.inputs_mut()[start..][..n_lanes]
    }
    /// The lanes of an output, after executing.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn output(&self, index: usize) -> &[f64] {
        let start = self.row_start("output", index, self.n_outputs);
        &self.outputs()[start..][..self.n_lanes]
    }
    /// Where the row of an input or output begins; the product cannot overflow for one that exists.
    fn row_start(&self, what: &str, index: usize, n_rows: usize) -> usize {
        assert!(index < n_rows, "{what} {index} of a program with {n_rows}");
        index * self.stride
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
        let has = |first: usize, n_rows: usize| first <= n_rows && n <= n_rows - first;
        assert!(has(output, self.n_outputs) && has(input, self.n_inputs), "rows beyond the inputs or outputs");
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
        // SAFETY: a cache line is eight doubles in C layout without padding, and the pointer comes from the vector of
        // them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * LINE) }
    }
    pub(crate) fn cells_mut(&mut self) -> &mut [f64] {
        self.parts_mut().0
    }
    /// All cells, and room for the arguments and results of one call.
    #[allow(unsafe_code)]
    pub(crate) fn parts_mut(&mut self) -> (&mut [f64], &mut [f64]) {
        // SAFETY: as in `cells`, and the borrow is unique.
        let cells = unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * LINE) };
        (cells, &mut self.scratch)
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
