//! Hyperbolic sine, cosine and tangent from e^|x| in pairs of doubles.

use super::exponential::{ScaledExponential, clamp, scaled_exponential};
use super::{Pair, fast_two_sum, power_of_two, quotient, scale};
use crate::lanes::{LaneMask, Lanes, with_sign_of};

/// From here on e^-|x| does not count.
const LARGE: f64 = 22.0;

/// e^x - offset for e^x = 2^k (1 + tail), k in [0, 60], offset 0 or 1.
#[inline(always)]
fn unscaled<L: Lanes>(e: &ScaledExponential<L>, offset: f64) -> Pair<L> {
    let power = power_of_two(e.exponent);
    let sum = fast_two_sum(power - L::splat(offset), power * e.tail.hi);
    Pair { hi: sum.hi, lo: sum.lo + power * e.tail.lo }
}

/// e^x / 2 without early overflow, for x >= 0.
#[inline(always)]
fn half_exponential<L: Lanes>(x: L) -> L {
    let e = scaled_exponential(clamp(x, 0.0, 715.0));
    scale(L::splat(1.0) + e.tail.hi, e.exponent - L::splat(1.0))
}

/// `small` where the magnitude is, e^x / 2 elsewhere.
#[inline(always)]
fn with_large<L: Lanes>(magnitude: L, small: L) -> L {
    let is_small = magnitude.lt(L::splat(LARGE));
    if (!is_small).any() {
        return L::select(is_small, small, half_exponential(magnitude));
    }
    small
}

/// Hyperbolic sine: (t + t / (1 + t)) / 2 with t = e^|x| - 1.
#[inline(always)]
pub(crate) fn sinh<L: Lanes>(x: L) -> L {
    let magnitude = x.abs();
    let one = L::splat(1.0);
    let t = unscaled(&scaled_exponential(clamp(magnitude, 0.0, LARGE)), 1.0);
    let inverse = one / (one + t.hi);
    let sum = fast_two_sum(t.hi, t.hi * inverse);
    let small = L::splat(0.5) * (sum.hi + (sum.lo + t.lo * (one + inverse * inverse)));
    with_sign_of(with_large(magnitude, small), x)
}

/// Hyperbolic cosine: (E + 1 / E) / 2 with E = e^|x|.
#[inline(always)]
pub(crate) fn cosh<L: Lanes>(x: L) -> L {
    let magnitude = x.abs();
    let e = unscaled(&scaled_exponential(clamp(magnitude, 0.0, LARGE)), 0.0);
    let small = L::splat(0.5) * (e.hi + (L::splat(1.0) / e.hi + e.lo));
    with_large(magnitude, small)
}

/// Hyperbolic tangent: t / (t + 2) with t = e^(2|x|) - 1.
#[inline(always)]
pub(crate) fn tanh<L: Lanes>(x: L) -> L {
    let doubled = x.abs() + x.abs();
    let t = unscaled(&scaled_exponential(clamp(doubled, 0.0, 40.0)), 1.0);
    let two = L::splat(2.0);
    // The order of the addends is that of their size up to t = 2; beyond, the lost low part is below 2^-53 of the sum.
    let sum = t.hi + two;
    let virtual_t = sum - two;
    let low = (two - (sum - virtual_t)) + (t.hi - virtual_t);
    let denominator = Pair { hi: sum, lo: low + t.lo };
    with_sign_of(quotient(t, denominator), x)
}
