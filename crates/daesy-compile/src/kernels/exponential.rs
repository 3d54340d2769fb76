//! The exponential function and the reduction it shares with powers and hyperbolic functions.

use super::{Pair, ROUNDER, fast_two_sum, scale};
use crate::lanes::{LaneBits, LaneMask, Lanes};

/// ln 2 in two parts; the first has 33 significant bits, so that its product with an exponent is exact.
const LN2_HI: f64 = 6.931_471_803_691_238e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;

/// (e^r - 1 - r) / r^2 on |r| <= 1.001 ln(2)/2 by Chebyshev interpolation, error 1.5e-18.
const TAIL: [f64; 11] = [
    0.5,
    0.166_666_666_666_666_7,
    0.041_666_666_666_666_67,
    0.008_333_333_333_326_084,
    0.001_388_888_888_888_371_1,
    0.000_198_412_698_750_022_8,
    2.480_158_732_567_746e-5,
    2.755_725_517_000_089e-6,
    2.755_727_347_871_858e-7,
    2.510_531_272_962_210_3e-8,
    2.091_475_532_589_32e-9,
];

/// (e^r - 1 - r) / r^2, the powers in a tree so that few operations wait for each other.
#[inline(always)]
pub(crate) fn tail_polynomial<L: Lanes>(r: L) -> L {
    let c = |k: usize| L::splat(TAIL[k]);
    let r2 = r * r;
    let r4 = r2 * r2;
    let low = (c(0) + c(1) * r) + (c(2) + c(3) * r) * r2;
    let middle = (c(4) + c(5) * r) + (c(6) + c(7) * r) * r2;
    let high = (c(8) + c(9) * r) + c(10) * r2;
    low + (middle + high * r4) * r4
}

/// e^x = 2^exponent (1 + tail.hi + tail.lo), |tail| <= 0.42.
pub(crate) struct ScaledExponential<L> {
    pub(crate) exponent: L,
    pub(crate) tail: Pair<L>,
}

/// x = k ln 2 + r.hi + r.lo with |r| <= ln(2)/2.
struct Reduced<L> {
    /// k
    exponent: L,
    /// k + `ROUNDER`, whose lowest bits are k in two's complement
    shifted: L,
    r: Pair<L>,
}

#[inline(always)]
fn reduce<L: Lanes>(x: L) -> Reduced<L> {
    let shifted = x * L::splat(std::f64::consts::LOG2_E) + L::splat(ROUNDER);
    let exponent = shifted - L::splat(ROUNDER);
    let a = x - exponent * L::splat(LN2_HI);
    let b = exponent * L::splat(LN2_LO);
    let r = a - b;
    Reduced { exponent, shifted, r: Pair { hi: r, lo: (a - r) - b } }
}

/// Writes e^x as a power of two times a number near one, for |x| < 2^40; relative error of `tail` about 2^-56.
#[inline(always)]
pub(crate) fn scaled_exponential<L: Lanes>(x: L) -> ScaledExponential<L> {
    let Reduced { exponent, r, .. } = reduce(x);
    let rest = r.hi * r.hi * tail_polynomial(r.hi) + (r.lo + r.lo * r.hi);
    ScaledExponential { exponent, tail: fast_two_sum(r.hi, rest) }
}

/// Restricts x to [lower, upper]; NaN passes.
#[inline(always)]
pub(crate) fn clamp<L: Lanes>(x: L, lower: f64, upper: f64) -> L {
    L::splat(upper).lesser(L::splat(lower).greater(x))
}

/// e^x
#[inline(always)]
pub(crate) fn exp<L: Lanes>(x: L) -> L {
    // Beyond these bounds the result is infinite or zero, and so is the result at them.
    let is_ordinary = x.abs().lt(L::splat(708.0));
    let is_special = (!is_ordinary).any();
    let x = if is_special { clamp(x, -750.0, 711.0) } else { x };
    let Reduced { exponent, shifted, r: Pair { hi: r, .. } } = reduce(x);
    let mantissa = L::splat(1.0) + (r + r * r * tail_polynomial(r));
    if is_special {
        return scale(mantissa, exponent);
    }
    // Neither overflow nor underflow: the exponents are added.
    L::from_bits(mantissa.to_bits().wrapping_add(shifted.to_bits().shift_left::<52>()))
}
