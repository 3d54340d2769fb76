//! A few doubles side by side: the only arithmetic that kernels and the interpreter are written in.
//!
//! Every kernel is one generic function over [`Lanes`]. It runs at width 1 (`f64`), and at width 8 as twins
//! ([`twin::Twin`]) of four lanes in plain arrays ([`portable::Quad`]) or in AVX2 registers (`avx2::Quad`), or in
//! AVX-512 registers (`avx512::Oct`). All operations offered here are exact or correctly rounded by IEEE 754, none is
//! contracted, and none depends on neighbours; so all give the same bits. Only the sign and payload of a NaN may differ, and no operation of a
//! tape can turn these into anything else.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod portable;
pub(crate) mod twin;

/// The widest implementation, for arrays that hold the lanes of any.
pub(crate) const MAX_WIDTH: usize = 8;

/// Doubles side by side.
pub(crate) trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The same lanes as 64-bit patterns.
    type Bits: LaneBits<Mask = Self::Mask>;
    /// A truth value per lane.
    type Mask: LaneMask;
    /// Number of lanes.
    const WIDTH: usize;

    /// The same number in all lanes.
    fn splat(value: f64) -> Self;
    /// The first `WIDTH` entries.
    fn from_array(values: [f64; MAX_WIDTH]) -> Self;
    /// The lanes, followed by zeros.
    fn to_array(self) -> [f64; MAX_WIDTH];
    /// Reads `WIDTH` doubles.
    ///
    /// # Safety
    /// `source` must be valid for reading `WIDTH` doubles.
    #[allow(unsafe_code)]
    unsafe fn load(source: *const f64) -> Self;
    /// Writes `WIDTH` doubles.
    ///
    /// # Safety
    /// `target` must be valid for writing `WIDTH` doubles.
    #[allow(unsafe_code)]
    unsafe fn store(self, target: *mut f64);

    /// |x|
    fn abs(self) -> Self;
    /// Correctly rounded square root.
    fn sqrt(self) -> Self;
    /// Towards minus infinity.
    fn floor(self) -> Self;
    /// Towards plus infinity.
    fn ceil(self) -> Self;
    /// Towards zero.
    fn trunc(self) -> Self;
    /// `self * b + c` with one rounding.
    fn fused_mul_add(self, b: Self, c: Self) -> Self;

    /// `self` if `self < b`, else `b` (which is also the answer where either is NaN).
    fn lesser(self, b: Self) -> Self;
    /// `self` if `self > b`, else `b` (which is also the answer where either is NaN).
    fn greater(self, b: Self) -> Self;

    /// `self < b`, false for NaN.
    fn lt(self, b: Self) -> Self::Mask;
    /// `self <= b`, false for NaN.
    fn le(self, b: Self) -> Self::Mask;
    /// `self == b`, false for NaN.
    fn eq(self, b: Self) -> Self::Mask;
    /// `self` is NaN.
    fn is_nan(self) -> Self::Mask;
    /// `yes` where the mask holds, else `no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Bit patterns of the lanes.
    fn to_bits(self) -> Self::Bits;
    /// Lanes of given bit patterns.
    fn from_bits(bits: Self::Bits) -> Self;
}

/// 64-bit patterns side by side.
pub(crate) trait LaneBits: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> {
    /// A truth value per lane.
    type Mask: LaneMask;
    /// The same pattern in all lanes.
    fn splat(value: u64) -> Self;
    /// Sum modulo 2^64.
    fn wrapping_add(self, b: Self) -> Self;
    /// Shift left, zeros move in.
    fn shift_left<const N: i32>(self) -> Self;
    /// Shift right, zeros move in.
    fn shift_right<const N: i32>(self) -> Self;
    /// Equal patterns.
    fn eq(self, b: Self) -> Self::Mask;
}

/// Truth values side by side.
pub(crate) trait LaneMask: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// Whether any lane is true.
    fn any(self) -> bool;
}

/// The sign bit alone.
pub(crate) const SIGN_BIT: u64 = 1 << 63;

/// `magnitude` (not negative) with the sign of `sign`.
#[inline(always)]
pub(crate) fn with_sign_of<L: Lanes>(magnitude: L, sign: L) -> L {
    L::from_bits(magnitude.to_bits() | (sign.to_bits() & L::Bits::splat(SIGN_BIT)))
}

/// The upper 32 bits of the representation, the lower cleared: a truncation to 21 bits of mantissa.
#[inline(always)]
pub(crate) fn upper_half<L: Lanes>(x: L) -> L {
    L::from_bits(x.to_bits() & L::Bits::splat(0xffff_ffff_0000_0000))
}

/// Whether the sign bit is set (true for -0.0).
#[inline(always)]
pub(crate) fn sign_bit<L: Lanes>(x: L) -> L::Mask {
    let sign = L::Bits::splat(SIGN_BIT);
    (x.to_bits() & sign).eq(sign)
}
