//! Normal random numbers for many lanes at once, by the method of Box and Muller [@box1958].
//!
//! ```text
//! a = sqrt(-2 ln u1) cos(2 pi u2),     b = sqrt(-2 ln u1) sin(2 pi u2)
//! ```
//!
//! Logarithm, sine and cosine are polynomials in additions, products, quotients and fused products, each rounded as
//! IEEE 754 says, so that every machine gives the same bits; their error is a few units in the last place, far below
//! what a sample could show.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod rounds;

use std::sync::atomic::{AtomicU8, Ordering};

use crate::philox::philox_words;

/// Coefficients of the logarithm, odd and even powers apart, highest first. As in [@fdlibm].
const ODD: [f64; 4] =
    [0.147_981_986_051_165_86, 0.181_835_721_616_180_5, 0.285_714_287_436_623_9, 0.666_666_666_666_673_5];
const EVEN: [f64; 3] = [0.153_138_376_992_093_73, 0.222_221_984_321_497_84, 0.399_999_999_994_094_2];

/// Coefficients of the sine, highest power first. As in [@fdlibm].
const SINE: [f64; 6] = [
    1.589_690_995_211_55e-10,
    -2.505_076_025_340_686_3e-8,
    2.755_731_370_707_006_8e-6,
    -1.984_126_982_985_795e-4,
    8.333_333_333_322_49e-3,
    -1.666_666_666_666_663_2e-1,
];

/// Coefficients of the cosine, highest power first. As in [@fdlibm].
const COSINE: [f64; 6] = [
    -1.135_964_755_778_819_5e-11,
    2.087_572_321_298_175e-9,
    -2.755_731_435_139_066_3e-7,
    2.480_158_728_947_673e-5,
    -1.388_888_888_887_411e-3,
    4.166_666_666_666_66e-2,
];

/// The bits of the root of 1/2.
const HALF_ROOT: u64 = 0x3FE6_A09E_667F_3BCD;

/// Added to an exponent, so that it is never negative.
const OFFSET: u64 = 2048;

/// As the last digits of this number a small whole number becomes a double without a conversion.
const TWO_POWER_52: f64 = 4_503_599_627_370_496.0;

/// Adding and taking away 1.5 * 2^52 rounds to the nearest whole number.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// The bits of 1.
const UNIT_EXPONENT: u64 = 0x3FF0_0000_0000_0000;

/// Lanes that are worked on together.
const WIDTH: usize = 64;

/// Which numbers are wanted: everything of the counter but the realization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    /// The seed as a key.
    pub key: [u32; 2],
    /// The step.
    pub step: u32,
    /// Which of several pairs of numbers of a step.
    pub pair: u32,
    /// What the numbers are for.
    pub purpose: u32,
}

/// The instructions that numbers of many lanes are made with. All give the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Instructions {
    /// Those of every processor.
    Portable,
    /// AVX2 and FMA of x86-64.
    Avx2,
    /// AVX-512 (F and DQ).
    Avx512,
}

/// The widest instructions that may be used, as a number.
static WIDEST: AtomicU8 = AtomicU8::new(Instructions::Avx512 as u8);

impl Instructions {
    /// Makes all threads of the process use no wider instructions than these.
    pub fn limit_to(self) {
        WIDEST.store(self as u8, Ordering::Relaxed);
    }

    fn is_allowed(self) -> bool {
        self as u8 <= WIDEST.load(Ordering::Relaxed)
    }

    /// Whether this processor has them.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => pulp::x86::V3::try_new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// The widest that this processor has and the process may use.
    #[must_use]
    pub fn detect() -> Self {
        let widest = [Self::Avx512, Self::Avx2].into_iter().find(|wide| wide.is_allowed() && wide.is_available());
        widest.unwrap_or(Self::Portable)
    }
}

/// Writes two rows of normal numbers, one number in each for each realization, for each of many draws, with the
/// instructions this machine has. `draws` says which draw the k-th pair of rows is.
pub fn fill(draws: impl Fn(usize) -> Draw, realizations: &[u32], rows: &mut [f64]) {
    fill_by(Instructions::detect(), draws, realizations, rows);
}

/// The same with the instructions asked for, or with portable ones where the processor lacks them.
pub fn fill_by(instructions: Instructions, draws: impl Fn(usize) -> Draw, realizations: &[u32], rows: &mut [f64]) {
    if realizations.is_empty() || rows.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if instructions == Instructions::Avx512 && instructions.is_available() {
            // SAFETY: the processor has the instructions.
            #[allow(unsafe_code)]
            unsafe {
                avx512::fill(draws, realizations, rows);
            };
            return;
        }
        if instructions == Instructions::Avx2
            && let Some(simd) = pulp::x86::V3::try_new()
        {
            simd.vectorize(avx2::FillAvx2 { simd, draws, realizations, rows });
            return;
        }
    }
    pulp::Arch::new().dispatch(Fill { draws, realizations, rows });
}

struct Fill<'f, D> {
    draws: D,
    realizations: &'f [u32],
    rows: &'f mut [f64],
}

// A closure would do, were it sure to be inlined where the instructions are known.
impl<D: Fn(usize) -> Draw> pulp::WithSimd for Fill<'_, D> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        let n = self.realizations.len();
        for (at, rows) in self.rows.chunks_exact_mut(2 * n).enumerate() {
            let (first, second) = rows.split_at_mut(n);
            fill_inlined((self.draws)(at), self.realizations, first, second);
        }
    }
}

#[inline(always)]
fn fill_inlined(draw: Draw, realizations: &[u32], first: &mut [f64], second: &mut [f64]) {
    let lanes = realizations.chunks(WIDTH).zip(first.chunks_mut(WIDTH)).zip(second.chunks_mut(WIDTH));
    for ((realizations, first), second) in lanes {
        // One loop over lanes for each part, so that the compiler turns each into vectors.
        let (mut radii, mut angles) = ([0u64; WIDTH], [0u64; WIDTH]);
        for ((&realization, a), b) in realizations.iter().zip(&mut radii).zip(&mut angles) {
            let words = philox_words([draw.step, realization, draw.pair, draw.purpose], draw.key);
            *a = words[0] << 32 | words[1];
            *b = words[2] << 32 | words[3];
        }
        for (((first, second), a), b) in first.iter_mut().zip(second).zip(&radii).zip(&angles) {
            [*first, *second] = box_muller([*a, *b]);
        }
    }
}

/// Two normal numbers for one realization.
#[must_use]
pub fn pair(draw: Draw, realization: u32) -> [f64; 2] {
    let words = philox_words([draw.step, realization, draw.pair, draw.purpose], draw.key);
    box_muller([words[0] << 32 | words[1], words[2] << 32 | words[3]])
}

#[inline(always)]
fn box_muller(bits: [u64; 2]) -> [f64; 2] {
    // In 1..2; the first is turned around so that its logarithm is finite.
    let u1 = 2.0 - f64::from_bits(bits[0] >> 12 | UNIT_EXPONENT);
    let u2 = f64::from_bits(bits[1] >> 12 | UNIT_EXPONENT) - 1.0;
    let radius = (-2.0 * logarithm(u1)).sqrt();
    let [sine, cosine] = sine_cosine(u2);
    [radius * cosine, radius * sine]
}

/// ln x for normal x > 0: x = 2^e m with m near 1, ln m = 2 artanh((m - 1) / (m + 1)).
#[inline(always)]
fn logarithm(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits.wrapping_sub(HALF_ROOT).wrapping_add(OFFSET << 52)) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(exponent.wrapping_sub(OFFSET) << 52));
    let exponent = f64::from_bits(exponent | TWO_POWER_52.to_bits()) - (TWO_POWER_52 + OFFSET as f64);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let w = z * z;
    // Even and odd powers of z apart, so that one need not wait for the other.
    let (odd, even) = (horner(w, ODD), horner(w, EVEN));
    let sum = w.mul_add(even, z * odd) + 2.0;
    exponent.mul_add(std::f64::consts::LN_2, sum * s)
}

/// A polynomial by its coefficients, highest power first.
#[inline(always)]
fn horner<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, *coefficient);
    }
    sum
}

/// sin and cos of 2 pi u for 0 <= u < 1.
#[inline(always)]
fn sine_cosine(u: f64) -> [f64; 2] {
    let y = u * 4.0;
    let shifted = y + ROUNDER;
    let quarter = shifted - ROUNDER;
    let r = (y - quarter) * std::f64::consts::FRAC_PI_2;
    let z = r * r;
    let sine = horner(z, SINE);
    let sine = (sine * z).mul_add(r, r);
    let cosine = horner(z, COSINE);
    let cosine = cosine.mul_add(z * z, z.mul_add(-0.5, 1.0));
    let quadrant = shifted.to_bits();
    let (a, b) = if quadrant & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
    let sine_sign = (quadrant & 2) << 62;
    let cosine_sign = (quadrant.wrapping_add(1) & 2) << 62;
    [f64::from_bits(a.to_bits() ^ sine_sign), f64::from_bits(b.to_bits() ^ cosine_sign)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elementary_functions_are_accurate() {
        for at in 1..4000u32 {
            let u = f64::from(at) / 4000.0;
            assert!((logarithm(u) - u.ln()).abs() <= 4e-16 * (1.0 + u.ln().abs()), "{u}");
            let angle = 2.0 * std::f64::consts::PI * u;
            let [sine, cosine] = sine_cosine(u);
            assert!((sine - angle.sin()).abs() < 1e-15 && (cosine - angle.cos()).abs() < 1e-15, "{u}");
        }
        assert!((logarithm(2f64.powi(-52)) + 52.0 * 2f64.ln()).abs() < 1e-14);
        assert_eq!(logarithm(1.0), 0.0);
    }

    #[test]
    fn numbers_are_standard_normal() {
        let realizations: Vec<u32> = (0..1000).collect();
        let mut rows = vec![0.0; 2000];
        let mut moments = [0.0f64; 5];
        let mut product = 0.0;
        for step in 0..200 {
            fill(|_| Draw { key: [7, 0], step, pair: 0, purpose: 0 }, &realizations, &mut rows);
            for (x, y) in rows[..1000].iter().zip(&rows[1000..]) {
                for (power, moment) in moments.iter_mut().enumerate() {
                    *moment += x.powi(power as i32) + y.powi(power as i32);
                }
                product += x * y;
            }
        }
        let n = moments[0];
        // Four standard errors of each moment.
        assert!((moments[1] / n).abs() < 4.0 / n.sqrt());
        assert!((moments[2] / n - 1.0).abs() < 4.0 * (2.0 / n).sqrt());
        assert!((moments[3] / n).abs() < 4.0 * (15.0 / n).sqrt());
        assert!((moments[4] / n - 3.0).abs() < 4.0 * (96.0 / n).sqrt());
        assert!((product / (n / 2.0)).abs() < 4.0 / (n / 2.0).sqrt());
    }

    #[test]
    fn a_number_does_not_depend_on_its_neighbours_or_the_instructions() {
        let draw = Draw { key: [1, 2], step: 3, pair: 4, purpose: 5 };
        for n in [1, 8, 13, 16, 40, 64, 101] {
            let realizations: Vec<u32> = (0..n).map(|at: u32| at.wrapping_mul(0x9E37_79B9)).collect();
            let draws = |at: usize| {
                let step = at as u32;
                Draw { step, purpose: step.wrapping_mul(0x0123_4567), ..draw }
            };
            let n = n as usize;
            let all = [Instructions::Portable, Instructions::Avx2, Instructions::Avx512];
            for instructions in all.into_iter().filter(|instructions| instructions.is_available()) {
                let mut rows = vec![0.0; 50 * 2 * n];
                fill_by(instructions, draws, &realizations, &mut rows);
                for (at, rows) in rows.chunks_exact(2 * n).enumerate() {
                    for (lane, &realization) in realizations.iter().enumerate() {
                        let bits = |[a, b]: [f64; 2]| [a.to_bits(), b.to_bits()];
                        assert_eq!(bits(pair(draws(at), realization)), bits([rows[lane], rows[n + lane]]));
                    }
                }
            }
        }
    }
}
