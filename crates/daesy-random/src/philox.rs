//! A counter-based generator: the random numbers are a function of what they are for.
//!
//! Philox4x32-10 [@salmon2011] maps a counter of 128 bits to 128 random bits under a key of 64 bits. The key is the
//! seed; the counter says what the numbers are for.

/// The factors of a round.
pub const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds of Philox4x32.
#[must_use]
#[inline]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox_words(counter, key).map(|word| word as u32)
}

/// The same with words in 64 bits, which loops over many counters turn into vectors: products of 32 bits want 64 bits
/// of room, and what the upper halves hold between rounds is never looked at.
#[must_use]
#[inline(always)]
pub fn philox_words(counter: [u32; 4], key: [u32; 2]) -> [u64; 4] {
    const LOW: u64 = 0xFFFF_FFFF;
    let [mut a, mut b, mut c, mut d] = counter.map(u64::from);
    for round in 0..10 {
        let key = round_key(key, round);
        let first = u64::from(MULTIPLIERS[0]) * (a & LOW);
        let second = u64::from(MULTIPLIERS[1]) * (c & LOW);
        [a, b, c, d] = [second >> 32 ^ b ^ u64::from(key[0]), second, first >> 32 ^ d ^ u64::from(key[1]), first];
    }
    [a, b, c, d].map(|word| word & LOW)
}

/// The key of a round.
#[must_use]
#[inline(always)]
pub const fn round_key(key: [u32; 2], round: u32) -> [u32; 2] {
    [key[0].wrapping_add(WEYL[0].wrapping_mul(round)), key[1].wrapping_add(WEYL[1].wrapping_mul(round))]
}

/// A seed as a key.
#[must_use]
pub const fn key(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

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
