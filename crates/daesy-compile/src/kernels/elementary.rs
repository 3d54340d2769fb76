//! Operations of a few instructions: signs, extremes, whole-number division, relations and logic.
//!
//! The truth value of a number x is x != 0, so NaN counts as true; results of relations and logic are 0 and 1.

use crate::lanes::Lanes;

/// 1 where the mask holds, else 0.
#[inline(always)]
pub(crate) fn truth<L: Lanes>(mask: L::Mask) -> L {
    L::select(mask, L::splat(1.0), L::splat(0.0))
}

/// Where the number counts as true.
#[inline(always)]
pub(crate) fn is_true<L: Lanes>(x: L) -> L::Mask {
    !x.eq(L::splat(0.0))
}

/// 1, -1, or 0 for either zero; NaN for NaN.
#[inline(always)]
pub(crate) fn sign<L: Lanes>(x: L) -> L {
    let zero = L::splat(0.0);
    let result = L::select(zero.lt(x), L::splat(1.0), L::select(x.lt(zero), L::splat(-1.0), zero));
    L::select(x.is_nan(), x, result)
}

/// a if a < b or a is NaN, else b.
#[inline(always)]
pub(crate) fn min<L: Lanes>(a: L, b: L) -> L {
    L::select(a.is_nan(), a, a.lesser(b))
}

/// a if a > b or a is NaN, else b.
#[inline(always)]
pub(crate) fn max<L: Lanes>(a: L, b: L) -> L {
    L::select(a.is_nan(), a, a.greater(b))
}

/// a / b truncated towards zero.
#[inline(always)]
pub(crate) fn whole_quotient<L: Lanes>(a: L, b: L) -> L {
    (a / b).trunc()
}

/// a - floor(a / b) b
#[inline(always)]
pub(crate) fn modulo<L: Lanes>(a: L, b: L) -> L {
    a - (a / b).floor() * b
}

/// a - trunc(a / b) b
#[inline(always)]
pub(crate) fn remainder<L: Lanes>(a: L, b: L) -> L {
    a - whole_quotient(a, b) * b
}
