//! A counter-based generator: the random numbers are a function of what they are for.
//!
//! Philox4x32-10 [@salmon2011] maps a counter of 128 bits to 128 random bits under a key of 64 bits. The key is the seed; the counter
//! says which step, which realization, which experiment and component, and what for.

pub(super) const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds of Philox4x32.
#[must_use]
#[inline]
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    }
    counter
}

/// The same with words in 64 bits, which loops over many counters turn into vectors: products of 32 bits want 64 bits of room, and
/// what the upper halves hold between rounds is never looked at.
#[must_use]
#[inline(always)]
pub fn philox_words(counter: [u32; 4], mut key: [u32; 2]) -> [u64; 4] {
    const LOW: u64 = 0xFFFF_FFFF;
    let [mut a, mut b, mut c, mut d] = counter.map(u64::from);
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = u64::from(MULTIPLIERS[0]) * (a & LOW);
        let second = u64::from(MULTIPLIERS[1]) * (c & LOW);
        [a, b, c, d] = [second >> 32 ^ b ^ u64::from(key[0]), second, first >> 32 ^ d ^ u64::from(key[1]), first];
    }
    [a, b, c, d].map(|word| word & LOW)
}

/// The key of a round.
#[inline(always)]
pub(super) const fn round_key(key: [u32; 2], round: u32) -> [u32; 2] {
    [key[0].wrapping_add(WEYL[0].wrapping_mul(round)), key[1].wrapping_add(WEYL[1].wrapping_mul(round))]
}

/// A seed as a key.
#[must_use]
pub const fn key(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// What a group of random numbers is for. Two numbers of the same purpose, step, realization, experiment and pair are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Innovations from one grid point to the next.
    Innovation,
    /// A point between two grid points, by its number in the binary tree over the interval: 1 is the middle, 2 n and 2 n + 1 are the
    /// middles of the halves on either side of n.
    Between(u32),
    /// The state of a filter at the start.
    Start,
    /// Measurement errors of simulated data.
    Measurement,
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
        }
    }
}

/// The third word of the counter: experiment and pair of components.
#[must_use]
pub const fn experiment_and_pair(experiment: u32, pair: u32) -> u32 {
    experiment.wrapping_shl(12) ^ pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_words_are_the_same() {
        for second in [0, 1, 0x85a3_08d3, u32::MAX] {
            let (counter, key) = ([0x243f_6a88, second, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
            assert_eq!(philox(counter, key).map(u64::from), philox_words(counter, key));
        }
    }

    /// The known answers that come with the authors' Random123 library (kat_vectors, philox4x32 10).
    #[test]
    fn known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
