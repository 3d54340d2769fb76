//! What all lanes of a draw have in common in the rounds of Philox.

use super::Draw;
use crate::philox::{MULTIPLIERS, round_key};

/// What the rounds of Philox add to the words of a realization; see [`crate::philox::philox_words`].
///
/// Of the counter (step, realization, pair, purpose) only the second word differs between lanes: it is in one of four
/// words after the first round, in two after the second, in three after the third.
pub(super) struct Rounds {
    /// The first word after round 0 but for the realization.
    pub(super) first: u64,
    /// What is added to the third word in round 1.
    pub(super) second: u64,
    /// What is added to the first and third word in round 2.
    pub(super) third: [u64; 2],
    /// The same in rounds 3 to 9.
    pub(super) others: [[u64; 2]; 7],
}

impl Rounds {
    #[inline(always)]
    pub(super) fn new(draw: Draw) -> Self {
        let product = |which: usize, word: u32| {
            let product = u64::from(MULTIPLIERS[which]) * u64::from(word);
            [(product >> 32) as u32, product as u32]
        };
        let key = |round: u32| round_key(draw.key, round);
        let [of_step, of_pair] = [product(0, draw.step), product(1, draw.pair)];
        let third_word = product(1, of_step[0] ^ draw.purpose ^ key(0)[1]);
        let first_word = product(0, third_word[0] ^ of_pair[1] ^ key(1)[0]);
        let mut others = std::array::from_fn(|at| key(at as u32 + 3).map(u64::from));
        others[0][1] ^= u64::from(first_word[1]);
        Self {
            first: u64::from(of_pair[0] ^ key(0)[0]),
            second: u64::from(of_step[1] ^ key(1)[1]),
            third: [u64::from(third_word[1] ^ key(2)[0]), u64::from(first_word[0] ^ key(2)[1])],
            others,
        }
    }
}
