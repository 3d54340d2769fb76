//! Points for Monte Carlo and quasi-Monte-Carlo methods, each a function of its number alone.
//!
//! Pseudo-random numbers come from the counter-based generator Philox 4x32-10 [@salmon2011], keyed by the seed and by
//! what they are for: the same bits on any number of threads and after a restart. Low-discrepancy points are those of
//! Sobol with the direction numbers of Joe and Kuo [@joe2008], shifted digit by digit by a random number so that the
//! seed matters and no coordinate is ever 0.

use daesy_random::philox::{key, philox};

use crate::sobol_directions::DIRECTIONS;

/// What random numbers are for; different purposes never share numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Samples of a Monte Carlo method.
    Samples,
    /// Held-out samples that judge a surrogate.
    Validation,
    /// The digital shift of low-discrepancy points.
    Shift,
}

/// 64 random bits for a sample and a coordinate.
fn bits(seed: u64, purpose: Purpose, sample: u64, coordinate: u32) -> u64 {
    let counter = [sample as u32, (sample >> 32) as u32, coordinate, purpose as u32 + 0x5EED];
    let words = philox(counter, key(seed));
    u64::from(words[0]) | u64::from(words[1]) << 32
}

/// A number of the open interval (0, 1) from random bits.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// A point of the open unit cube.
#[must_use]
pub fn random_point(seed: u64, purpose: Purpose, sample: u64, n_coordinates: usize) -> Vec<f64> {
    (0..n_coordinates).map(|coordinate| unit(bits(seed, purpose, sample, coordinate as u32))).collect()
}

/// Low-discrepancy points of the open unit cube.
#[derive(Clone, Debug)]
pub struct SobolSequence {
    /// By coordinate: direction numbers, one per bit of the sample's number.
    directions: Vec<[u32; 32]>,
    /// By coordinate.
    shift: Vec<u32>,
}

impl SobolSequence {
    /// Largest number of coordinates.
    pub const MAX_COORDINATES: usize = DIRECTIONS.len() + 1;

    /// The sequence with a shift that the seed decides; `None` if there are too many coordinates.
    #[must_use]
    pub fn new(n_coordinates: usize, seed: u64) -> Option<Self> {
        if n_coordinates > Self::MAX_COORDINATES {
            return None;
        }
        let directions = (0..n_coordinates).map(direction_numbers).collect();
        let shift = (0..n_coordinates).map(|at| bits(seed, Purpose::Shift, 0, at as u32) as u32).collect();
        Some(Self { directions, shift })
    }

    /// A point of the sequence.
    #[must_use]
    pub fn point(&self, sample: u32) -> Vec<f64> {
        let gray = sample ^ (sample >> 1);
        let coordinate = |(directions, shift): (&[u32; 32], &u32)| {
            let digits = (0..32).filter(|bit| gray >> bit & 1 == 1).fold(*shift, |sum, bit| sum ^ directions[bit]);
            (f64::from(digits) + 0.5) / 4_294_967_296.0
        };
        self.directions.iter().zip(&self.shift).map(coordinate).collect()
    }
}

fn direction_numbers(coordinate: usize) -> [u32; 32] {
    let mut numbers = [0u32; 32];
    let Some(at) = coordinate.checked_sub(1) else {
        for (bit, number) in numbers.iter_mut().enumerate() {
            *number = 1 << (31 - bit);
        }
        return numbers;
    };
    let direction = &DIRECTIONS[at];
    let degree = direction.initial.len();
    for bit in 0..32 {
        numbers[bit] = if bit < degree {
            direction.initial[bit] << (31 - bit)
        } else {
            let mut number = numbers[bit - degree] ^ (numbers[bit - degree] >> degree);
            for term in 1..degree {
                if direction.coefficients >> (degree - 1 - term) & 1 == 1 {
                    number ^= numbers[bit - term];
                }
            }
            number
        };
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dyadic_interval_holds_one_sobol_point() {
        // In each coordinate the first 2^k points of the sequence are one in each interval of length 2^-k.
        let sequence = SobolSequence::new(SobolSequence::MAX_COORDINATES, 7).unwrap();
        let points: Vec<Vec<f64>> = (0..256).map(|sample| sequence.point(sample)).collect();
        for coordinate in 0..SobolSequence::MAX_COORDINATES {
            let mut is_met = [false; 256];
            for point in &points {
                is_met[(point[coordinate] * 256.0) as usize] = true;
            }
            assert!(is_met.iter().all(|&met| met), "coordinate {coordinate}");
        }
        assert!(SobolSequence::new(SobolSequence::MAX_COORDINATES + 1, 0).is_none());
    }

    #[test]
    fn the_first_unshifted_points_are_the_published_ones() {
        let mut sequence = SobolSequence::new(3, 0).unwrap();
        sequence.shift.fill(0);
        let close = |sample: u32, expected: [f64; 3]| {
            sequence.point(sample).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9)
        };
        assert!(close(1, [0.5, 0.5, 0.5]) && close(2, [0.75, 0.25, 0.25]) && close(3, [0.25, 0.75, 0.75]));
        assert!(close(4, [0.375, 0.375, 0.625]));
    }
}
