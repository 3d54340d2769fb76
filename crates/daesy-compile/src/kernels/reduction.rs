//! Reduction of angles: x = n pi/2 + hi + lo with |hi| <= pi/4, n modulo 4.
//!
//! Up to 1.6e6 in three steps with pi/2 in pieces of 33 bits, whose products with n < 2^20 are exact [@cody1980]; all
//! steps are always taken, so hi + lo keeps at least 90 correct bits after the worst cancellation. Beyond that, per
//! lane, the product of the mantissa with those 192 bits of 2/pi that matter modulo 4 [@payne1983].

use super::{Pair, ROUNDER, fast_two_sum, two_product};
use crate::lanes::{LaneMask, Lanes, MAX_WIDTH};

const PI_2_A: f64 = 1.570_796_326_734_125_6;
const PI_2_B: f64 = 6.077_100_506_303_966e-11;
const PI_2_C: f64 = 2.022_266_248_711_166_5e-21;
const PI_2_D: f64 = 8.478_427_660_368_9e-32;
const PI_2_LO: f64 = 6.123_233_995_736_766e-17;
const LARGEST_DIRECT: f64 = 1.6e6;

/// 64 zero bits, then the fraction bits of 2/pi.
const TWO_OVER_PI: [u64; 22] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
    0xa9e3_9161_5ee6_1b08,
];

/// An angle up to multiples of 2 pi.
pub(crate) struct Reduced<L: Lanes> {
    /// The angle left over, in [-pi/4, pi/4].
    pub(crate) angle: Pair<L>,
    /// The two lowest bits are the number of quarter turns modulo 4; the others carry no meaning.
    pub(crate) quarter_turns: L::Bits,
}

/// Reduces an angle. Infinities give NaN.
#[inline(always)]
pub(crate) fn reduce<L: Lanes>(x: L) -> Reduced<L> {
    let shifted = x * L::splat(std::f64::consts::FRAC_2_PI) + L::splat(ROUNDER);
    let n = shifted - L::splat(ROUNDER);
    let a = x - n * L::splat(PI_2_A);
    let b = fast_two_sum(a, -(n * L::splat(PI_2_B)));
    let c = fast_two_sum(b.hi, -(n * L::splat(PI_2_C)));
    let low = (b.lo + c.lo) - n * L::splat(PI_2_D);
    let angle = fast_two_sum(c.hi, low);
    let is_large = L::splat(LARGEST_DIRECT).lt(x.abs());
    if is_large.any() {
        return reduce_with_large_lanes(x, angle, shifted);
    }
    Reduced { angle, quarter_turns: shifted.to_bits() }
}

/// Replaces the lanes with large arguments.
#[cold]
#[inline(never)]
fn replace_large(x: &[f64; MAX_WIDTH], hi: &mut [f64; MAX_WIDTH], lo: &mut [f64; MAX_WIDTH], n: &mut [f64; MAX_WIDTH]) {
    for lane in 0..MAX_WIDTH {
        if x[lane].abs() > LARGEST_DIRECT {
            let reduced = reduce_large(x[lane]);
            hi[lane] = reduced.angle.hi;
            lo[lane] = reduced.angle.lo;
            n[lane] = f64::from_bits(reduced.quarter_turns);
        }
    }
}

#[inline(always)]
fn reduce_with_large_lanes<L: Lanes>(x: L, angle: Pair<L>, shifted: L) -> Reduced<L> {
    let (mut hi, mut lo, mut n) = (angle.hi.to_array(), angle.lo.to_array(), shifted.to_array());
    replace_large(&x.to_array(), &mut hi, &mut lo, &mut n);
    Reduced { angle: Pair { hi: L::from_array(hi), lo: L::from_array(lo) }, quarter_turns: L::from_array(n).to_bits() }
}

/// Reduces one argument of magnitude at least 2^20.
///
/// With |x| = M 2^e, M < 2^53, the bits of 2/pi of weight above 2^(1-e) contribute multiples of 4 to M 2^e (2/pi).
/// The 192 bits from there on, times M and modulo 2^192, are the quarter turns modulo 4 with 190 fraction bits, short
/// by less than 2^-137. No double comes closer to a multiple of pi/2 than about 2^-62, so 75 correct bits remain.
fn reduce_large(x: f64) -> Reduced<f64> {
    if !x.is_finite() {
        return Reduced { angle: Pair { hi: f64::NAN, lo: 0.0 }, quarter_turns: 0 };
    }
    let bits = x.to_bits();
    let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
    let exponent = ((bits >> 52) & 0x7ff) as usize; // e = exponent - 1075 >= -32 as |x| >= 2^20
    let offset = exponent + 62 - 1075;
    let (word, shift) = (offset / 64, offset % 64);
    let window = |k: usize| {
        let pair = (u128::from(TWO_OVER_PI[word + k]) << 64) | u128::from(TWO_OVER_PI[word + k + 1]);
        (pair << shift >> 64) as u64
    };
    let m = u128::from(mantissa);
    let p0 = m * u128::from(window(2));
    let p1 = m * u128::from(window(1)) + (p0 >> 64);
    let p2 = (m * u128::from(window(0)) + (p1 >> 64)) as u64;
    let upper = (u128::from(p2) << 64) | (p1 & u128::from(u64::MAX));
    let fraction = ((upper << 2) | u128::from((p0 as u64) >> 62)).cast_signed();
    // To the nearest quarter turn: a fraction of one half or more counts as negative.
    let turns = (p2 >> 62).wrapping_add(u64::from(fraction < 0));
    let magnitude = fraction.unsigned_abs();
    let zeros = magnitude.leading_zeros();
    let normalized = if zeros < 128 { magnitude << zeros } else { 0 };
    // fraction = normalized 2^(-128 - zeros): the upper 53 bits, then the next 64.
    let unit = f64::from_bits((1023 - u64::from(zeros)) << 52);
    let hi = ((normalized >> 75) as f64) * (unit / 9_007_199_254_740_992.0);
    let lo = (((normalized << 53) >> 64) as f64) * (unit / 9_007_199_254_740_992.0 / 18_446_744_073_709_551_616.0);
    let product = two_product(hi, std::f64::consts::FRAC_PI_2);
    let angle = fast_two_sum(product.hi, product.lo + (hi * PI_2_LO + lo * std::f64::consts::FRAC_PI_2));
    let is_negative = (fraction < 0) != (x < 0.0);
    let sign = if is_negative { -1.0 } else { 1.0 };
    Reduced {
        angle: Pair { hi: sign * angle.hi, lo: sign * angle.lo },
        quarter_turns: if x < 0.0 { turns.wrapping_neg() } else { turns }.wrapping_add(ROUNDER.to_bits()),
    }
}
