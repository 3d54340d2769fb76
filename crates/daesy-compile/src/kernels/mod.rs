//! Elementary functions on lanes, accurate to two units in the last place over the whole range of doubles.
//!
//! Each function is written once, generic over the width (`crate::lanes`), without branches except for huge arguments
//! of the circular functions, and without fused multiply-add: where a product is needed exactly it is split
//! [@dekker1971]. So the same bits come out at width one, on plain arrays and in vector registers, on any machine.
//! Infinities, NaN, subnormal numbers and signed zeros are treated as IEEE 754-2019 recommends; results that overflow
//! or underflow do so by rounding.
//!
//! Argument reductions and several approximations follow fdlibm [@fdlibm], rearranged to run without branches:
//! Copyright (C) 1993, 2004 by Sun Microsystems, Inc. Permission to use, copy, modify, and distribute this software
//! is freely granted, provided that this notice is preserved.

pub(crate) mod circular;
pub(crate) mod elementary;
pub(crate) mod exponential;
pub(crate) mod hyperbolic;
pub(crate) mod inverse_circular;
pub(crate) mod logarithm;
pub(crate) mod power;
mod reduction;

use crate::lanes::{LaneBits, Lanes};

/// 1.5 * 2^52: adding and subtracting it rounds a number below 2^51 to the nearest whole number, and the lowest bits
/// of the sum are that number in two's complement.
pub(crate) const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// c_0 + c_1 x + .. + c_{N-1} x^{N-1}, even and odd powers apart so that the two chains run side by side.
#[inline(always)]
pub(crate) fn polynomial<L: Lanes, const N: usize>(x: L, coefficients: &[f64; N]) -> L {
    let x2 = x * x;
    let (mut even, mut odd) = (L::splat(0.0), L::splat(0.0));
    let mut k = N;
    let (mut even_is_empty, mut odd_is_empty) = (true, true);
    while k > 0 {
        k -= 1;
        let c = L::splat(coefficients[k]);
        if k.is_multiple_of(2) {
            even = if even_is_empty { c } else { even * x2 + c };
            even_is_empty = false;
        } else {
            odd = if odd_is_empty { c } else { odd * x2 + c };
            odd_is_empty = false;
        }
    }
    even + odd * x
}

/// Nearest whole number, ties to even, for |x| < 2^51.
#[inline(always)]
pub(crate) fn round<L: Lanes>(x: L) -> L {
    (x + L::splat(ROUNDER)) - L::splat(ROUNDER)
}

/// 2^k for whole k in [-1022, 1023].
#[inline(always)]
pub(crate) fn power_of_two<L: Lanes>(k: L) -> L {
    // The lowest bits of 2^52 + 1023 + k are the biased exponent; the shift drops all others.
    let biased = k + L::splat(4_503_599_627_370_496.0 + 1023.0);
    L::from_bits(biased.to_bits().shift_left::<52>())
}

/// y 2^k for whole k in [-2044, 2046], rounded once: the first product is exact for y near 1.
#[inline(always)]
pub(crate) fn scale<L: Lanes>(y: L, k: L) -> L {
    let half = round(k * L::splat(0.5));
    y * power_of_two(half) * power_of_two(k - half)
}

/// An unevaluated sum hi + lo, |lo| at most about half a unit in the last place of hi.
#[derive(Clone, Copy)]
pub(crate) struct Pair<L> {
    pub(crate) hi: L,
    pub(crate) lo: L,
}

/// a + b as a pair, exact when |a| >= |b| or a = 0.
#[inline(always)]
pub(crate) fn fast_two_sum<L: Lanes>(a: L, b: L) -> Pair<L> {
    let hi = a + b;
    Pair { hi, lo: (a - hi) + b }
}

/// x as a sum of two numbers of at most 26 bits, for |x| < 2^995 [@dekker1971].
#[inline(always)]
fn halves<L: Lanes>(x: L) -> Pair<L> {
    let c = L::splat(134_217_729.0) * x;
    let hi = c - (c - x);
    Pair { hi, lo: x - hi }
}

/// a b as an exact pair, for factors below 2^995 whose product does not underflow [@dekker1971].
#[inline(always)]
pub(crate) fn two_product<L: Lanes>(a: L, b: L) -> Pair<L> {
    let (x, y) = (halves(a), halves(b));
    let hi = a * b;
    Pair { hi, lo: (((x.hi * y.hi - hi) + x.hi * y.lo) + x.lo * y.hi) + x.lo * y.lo }
}

/// numerator / denominator to about 0.5 units in the last place, by one division and one exact remainder.
#[inline(always)]
pub(crate) fn quotient<L: Lanes>(numerator: Pair<L>, denominator: Pair<L>) -> L {
    let inverse = L::splat(1.0) / denominator.hi;
    let q = numerator.hi * inverse;
    let product = two_product(q, denominator.hi);
    let remainder = ((numerator.hi - product.hi) - product.lo) + (numerator.lo - q * denominator.lo);
    q + remainder * inverse
}
