//! What the random numbers of realizations are for: the counters of the generator [`daesy_random::philox`].
//!
//! The key is the seed; the counter says which step, which realization, which experiment and component, and what for.

pub use daesy_random::philox::{MULTIPLIERS, key, philox, philox_words, round_key};

/// What a group of random numbers is for. Two numbers of the same purpose, step, realization, experiment and pair are
/// the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Innovations from one grid point to the next.
    Innovation,
    /// A point between two grid points, by its number in the binary tree over the interval: 1 is the middle, 2 n and 2
    /// n + 1 are the middles of the halves on either side of n.
    Between(u32),
    /// The state of a filter at the start.
    Start,
    /// Measurement errors of simulated data.
    Measurement,
    /// Points that stand for a distribution.
    Points,
}

impl Purpose {
    /// The last word of the counter.
    #[must_use]
    pub const fn word(self) -> u32 {
        match self {
            Self::Innovation => 0,
            Self::Between(node) => node,
            Self::Start => u32::MAX,
            Self::Measurement => u32::MAX - 1,
            Self::Points => u32::MAX - 3,
        }
    }
}

/// The third word of the counter: experiment and pair of components.
#[must_use]
pub const fn experiment_and_pair(experiment: u32, pair: u32) -> u32 {
    experiment.wrapping_shl(12) ^ pair
}
