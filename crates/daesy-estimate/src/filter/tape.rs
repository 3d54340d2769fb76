//! What a run of the filter went through, kept for the way back.

use crate::stretch::{Block, StretchRecord};

/// More numbers than this are not kept, 256 MiB: gradients of such runs are taken forwards.
const MOST_NUMBERS: usize = 1 << 25;

/// Something that happened during a run.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// Means went over a segment by a step. Kept: the state before it.
    Moved { step_at: usize, segment: usize },
    /// The covariance went over a step. Kept: its factor before it.
    Spread { step_at: usize },
    /// Impulses of inputs at the end of a segment.
    Kicked { segment: usize },
    /// A measurement was taken. Kept: the state before it, then the gain.
    Taken(Taken),
    /// The covariance took a measurement that had been left out of it while gains were constant. Kept: the gain.
    Restored { at: usize, s: f64 },
    /// The run is over. Kept: the factor of the covariance.
    Ended,
    /// A stretch of samples was taken as a whole, from a covariance of its own. Kept: the factor of that.
    Leapt { step_at: usize, record: StretchRecord },
    /// A stretch was taken as a whole with the constant gains that were there.
    Coasted { step_at: usize, record: StretchRecord, block: Box<Block>, gains: SteadyCopy },
}

/// The constant gains of a stretch.
#[derive(Clone, Debug)]
pub(crate) struct SteadyCopy {
    pub s: Vec<f64>,
    pub k: Vec<f64>,
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub sample: usize,
    /// Which one.
    pub at: usize,
    /// Innovation.
    pub e: f64,
    /// Its variance.
    pub s: f64,
    pub is_counted: bool,
    /// Whether gain and variance are those of an earlier sample.
    pub is_steady: bool,
}

/// Marks in the order of the run, and what they kept, one after the other.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tape {
    marks: Vec<Mark>,
    numbers: Vec<f64>,
    is_too_long: bool,
}

impl Tape {
    /// Adds what happened, after what it needs to know of the state before it.
    #[inline(always)]
    pub fn add<'a>(&mut self, kept: impl IntoIterator<Item = &'a [f64]>, mark: Mark) {
        if self.is_too_long {
            return;
        }
        kept.into_iter().for_each(|part| self.numbers.extend_from_slice(part));
        self.marks.push(mark);
        if self.numbers.len() > MOST_NUMBERS {
            *self = Self { is_too_long: true, ..Self::default() };
        }
    }

    /// Whether the run was too long to be kept.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// The last mark that is left.
    #[inline(always)]
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.marks.pop()
    }

    /// Hands out the last numbers that are left.
    #[inline(always)]
    pub fn take_numbers(&mut self, into: &mut [f64]) {
        let rest = self.numbers.len() - into.len();
        into.copy_from_slice(&self.numbers[rest..]);
        self.numbers.truncate(rest);
    }
}
