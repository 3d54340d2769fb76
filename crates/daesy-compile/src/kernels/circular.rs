//! Sine, cosine and tangent [@fdlibm, k_sin.c and k_cos.c].

use super::reduction::{Reduced, reduce};
use super::{Pair, fast_two_sum, quotient};
use crate::lanes::{LaneBits, Lanes};

const S: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_49e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_3e-8,
    1.589_690_995_211_55e-10,
];
const C: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// Below this magnitude sin x = tan x = x to half a unit in the last place.
const TINY: f64 = 7.450_580_596_923_828e-9;

/// sin(hi + lo) for |hi| <= pi/4 as a sum.
#[inline(always)]
fn sine_sum<L: Lanes>(angle: Pair<L>) -> Pair<L> {
    let (x, y) = (angle.hi, angle.lo);
    let z = x * x;
    let w = z * z;
    let r = L::splat(S[1]) + z * (L::splat(S[2]) + z * L::splat(S[3])) + z * w * (L::splat(S[4]) + z * L::splat(S[5]));
    let v = z * x;
    let rest = v * L::splat(S[0]) - (z * (L::splat(0.5) * y - v * r) - y);
    fast_two_sum(x, rest)
}

/// cos(hi + lo) for |hi| <= pi/4 as a sum.
#[inline(always)]
fn cosine_sum<L: Lanes>(angle: Pair<L>) -> Pair<L> {
    let (x, y) = (angle.hi, angle.lo);
    let z = x * x;
    let w = z * z;
    let r = z * (L::splat(C[0]) + z * (L::splat(C[1]) + z * L::splat(C[2])))
        + w * w * (L::splat(C[3]) + z * (L::splat(C[4]) + z * L::splat(C[5])));
    let half = L::splat(0.5) * z;
    let main = L::splat(1.0) - half;
    let rest = ((L::splat(1.0) - main) - half) + (z * r - x * y);
    fast_two_sum(main, rest)
}

/// Where the number of quarter turns is odd.
#[inline(always)]
fn is_odd<L: Lanes>(quarter_turns: L::Bits) -> L::Mask {
    let one = L::Bits::splat(1);
    (quarter_turns & one).eq(one)
}

/// Changes the sign where the number of quarter turns is 2 or 3 modulo 4.
#[inline(always)]
fn negate_second_half<L: Lanes>(value: L, quarter_turns: L::Bits) -> L {
    L::from_bits(value.to_bits() ^ (quarter_turns & L::Bits::splat(2)).shift_left::<62>())
}

/// Sine and cosine of one angle.
pub(crate) struct SinCos<L> {
    pub(crate) sin: L,
    pub(crate) cos: L,
}

/// Both functions for little more than the price of one.
#[inline(always)]
pub(crate) fn sin_cos<L: Lanes>(x: L) -> SinCos<L> {
    let Reduced { angle, quarter_turns } = reduce(x);
    let (s, c) = (sine_sum(angle).hi, cosine_sum(angle).hi);
    let swap = is_odd::<L>(quarter_turns);
    let sin = negate_second_half(L::select(swap, c, s), quarter_turns);
    let next = quarter_turns.wrapping_add(L::Bits::splat(1));
    let cos = negate_second_half(L::select(swap, s, c), next);
    SinCos { sin: L::select(x.abs().lt(L::splat(TINY)), x, sin), cos }
}

/// Sine.
#[inline(always)]
pub(crate) fn sin<L: Lanes>(x: L) -> L {
    sin_cos(x).sin
}

/// Cosine.
#[inline(always)]
pub(crate) fn cos<L: Lanes>(x: L) -> L {
    sin_cos(x).cos
}

/// Tangent: the quotient of sine and cosine, each known to more than double precision.
#[inline(always)]
pub(crate) fn tan<L: Lanes>(x: L) -> L {
    let Reduced { angle, quarter_turns } = reduce(x);
    let (s, c) = (sine_sum(angle), cosine_sum(angle));
    let swap = is_odd::<L>(quarter_turns);
    let numerator = Pair { hi: L::select(swap, -c.hi, s.hi), lo: L::select(swap, -c.lo, s.lo) };
    let denominator = Pair { hi: L::select(swap, s.hi, c.hi), lo: L::select(swap, s.lo, c.lo) };
    L::select(x.abs().lt(L::splat(TINY)), x, quotient(numerator, denominator))
}
