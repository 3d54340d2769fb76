//! Natural and decimal logarithm [@fdlibm, e_log.c and e_log10.c].

use crate::lanes::{LaneBits, LaneMask, Lanes, upper_half};

const LN2_HI: f64 = 6.931_471_803_691_238e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
const INV_LN10_HI: f64 = 4.342_944_818_781_689e-1;
const INV_LN10_LO: f64 = 2.508_294_671_164_527_5e-11;
const LOG10_2_HI: f64 = 3.010_299_956_636_117_7e-1;
const LOG10_2_LO: f64 = 3.694_239_077_158_931e-13;

/// Coefficients of R in log(1 + f) = f - (f^2/2 - s (f^2/2 + R(s^2))), s = f / (2 + f).
const LG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];

/// The bits of sqrt(1/2), the lower end of mantissas.
const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;

/// x = 2^exponent (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and the terms of log(1 + f).
struct Parts<L> {
    exponent: L,
    f: L,
    half_square: L,
    /// s (f^2/2 + R)
    correction: L,
}

/// 2^52 + 1023, the bias of an exponent in the lowest bits of a number of magnitude 2^52.
const BIAS: f64 = 4_503_599_627_370_496.0 + 1023.0;

/// For positive finite x.
#[inline(always)]
fn parts<L: Lanes>(x: L) -> Parts<L> {
    let is_subnormal = x.lt(L::splat(f64::MIN_POSITIVE));
    if is_subnormal.any() {
        let scaled = L::select(is_subnormal, x * L::splat(18_014_398_509_481_984.0), x);
        return parts_of_normal(scaled, L::select(is_subnormal, L::splat(BIAS + 54.0), L::splat(BIAS)));
    }
    parts_of_normal(x, L::splat(BIAS))
}

#[inline(always)]
fn parts_of_normal<L: Lanes>(x: L, bias: L) -> Parts<L> {
    let shifted = x.to_bits().wrapping_add(L::Bits::splat(ONE_BITS - SQRT_HALF_BITS));
    let exponent =
        L::from_bits(shifted.shift_right::<52>() | L::Bits::splat(4_503_599_627_370_496.0_f64.to_bits())) - bias;
    let mantissa = (shifted & L::Bits::splat((1 << 52) - 1)).wrapping_add(L::Bits::splat(SQRT_HALF_BITS));
    let f = L::from_bits(mantissa) - L::splat(1.0);
    let half_square = L::splat(0.5) * f * f;
    let s = f / (L::splat(2.0) + f);
    let z = s * s;
    let w = z * z;
    let t1 = w * (L::splat(LG[1]) + w * (L::splat(LG[3]) + w * L::splat(LG[5])));
    let t2 = z * (L::splat(LG[0]) + w * (L::splat(LG[2]) + w * (L::splat(LG[4]) + w * L::splat(LG[6]))));
    Parts { exponent, f, half_square, correction: s * (half_square + (t1 + t2)) }
}

/// Keeps the logarithm of positive finite numbers and puts in those of all others.
#[inline(always)]
fn with_special_values<L: Lanes>(x: L, logarithm: L) -> L {
    let zero = L::splat(0.0);
    let infinity = L::splat(f64::INFINITY);
    let is_ordinary = zero.lt(x) & x.lt(infinity);
    if (!is_ordinary).any() {
        let not_positive = L::select(x.eq(zero), -infinity, L::splat(f64::NAN));
        let others = L::select(x.le(zero), not_positive, x);
        return L::select(is_ordinary, logarithm, others);
    }
    logarithm
}

/// Natural logarithm.
#[inline(always)]
pub(crate) fn log<L: Lanes>(x: L) -> L {
    let Parts { exponent, f, half_square, correction } = parts(x);
    let low = exponent * L::splat(LN2_LO) + correction;
    let result = exponent * L::splat(LN2_HI) - ((half_square - low) - f);
    with_special_values(x, result)
}

/// Decimal logarithm.
#[inline(always)]
pub(crate) fn log10<L: Lanes>(x: L) -> L {
    let Parts { exponent, f, half_square, correction } = parts(x);
    let hi = upper_half(f - half_square);
    let lo = ((f - hi) - half_square) + correction;
    let main = hi * L::splat(INV_LN10_HI);
    let power = exponent * L::splat(LOG10_2_HI);
    let low = exponent * L::splat(LOG10_2_LO) + (lo + hi) * L::splat(INV_LN10_LO) + lo * L::splat(INV_LN10_HI);
    let sum = power + main;
    let result = (low + ((power - sum) + main)) + sum;
    with_special_values(x, result)
}
