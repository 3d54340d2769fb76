//! Two groups of lanes at once: constants are loaded for both, and neither waits for the other.
#![allow(unsafe_code)]

use super::{LaneBits, LaneMask, Lanes, MAX_WIDTH};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The first group and the next; of lanes, of their bits, or of truth values.
#[derive(Clone, Copy)]
pub(crate) struct Twin<T>(T, T);

macro_rules! both {
    ($trait:ident, $method:ident) => {
        impl<T: $trait<Output = T>> $trait for Twin<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, b: Self) -> Self {
                Self(self.0.$method(b.0), self.1.$method(b.1))
            }
        }
    };
}

both!(Add, add);
both!(Sub, sub);
both!(Mul, mul);
both!(Div, div);
both!(BitAnd, bitand);
both!(BitOr, bitor);
both!(BitXor, bitxor);

impl<T: Neg<Output = T>> Neg for Twin<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0, -self.1)
    }
}

impl<T: Not<Output = T>> Not for Twin<T> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0, !self.1)
    }
}

impl<M: LaneMask> LaneMask for Twin<M> {
    #[inline(always)]
    fn any(self) -> bool {
        (self.0 | self.1).any()
    }
}

impl<B: LaneBits> LaneBits for Twin<B> {
    type Mask = Twin<B::Mask>;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self(B::splat(value), B::splat(value))
    }
    #[inline(always)]
    fn wrapping_add(self, b: Self) -> Self {
        Self(self.0.wrapping_add(b.0), self.1.wrapping_add(b.1))
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self) -> Self {
        Self(self.0.shift_left::<N>(), self.1.shift_left::<N>())
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self) -> Self {
        Self(self.0.shift_right::<N>(), self.1.shift_right::<N>())
    }
    #[inline(always)]
    fn eq(self, b: Self) -> Self::Mask {
        Twin(self.0.eq(b.0), self.1.eq(b.1))
    }
}

impl<L: Lanes> Lanes for Twin<L> {
    type Bits = Twin<L::Bits>;
    type Mask = Twin<L::Mask>;
    const WIDTH: usize = 2 * L::WIDTH;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        Self(L::splat(value), L::splat(value))
    }
    #[inline(always)]
    fn from_array(values: [f64; MAX_WIDTH]) -> Self {
        let mut later = values;
        later.rotate_left(L::WIDTH);
        Self(L::from_array(values), L::from_array(later))
    }
    #[inline(always)]
    fn to_array(self) -> [f64; MAX_WIDTH] {
        let mut values = self.0.to_array();
        values[L::WIDTH..2 * L::WIDTH].copy_from_slice(&self.1.to_array()[..L::WIDTH]);
        values
    }
    #[inline(always)]
    unsafe fn load(source: *const f64) -> Self {
        // SAFETY: the caller vouches for as many readable doubles as both groups have.
        unsafe { Self(L::load(source), L::load(source.add(L::WIDTH))) }
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut f64) {
        // SAFETY: the caller vouches for as many writable doubles as both groups have.
        unsafe {
            self.0.store(target);
            self.1.store(target.add(L::WIDTH));
        }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.abs(), self.1.abs())
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.sqrt(), self.1.sqrt())
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(self.0.floor(), self.1.floor())
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        Self(self.0.ceil(), self.1.ceil())
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        Self(self.0.trunc(), self.1.trunc())
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        Self(self.0.fused_mul_add(b.0, c.0), self.1.fused_mul_add(b.1, c.1))
    }
    #[inline(always)]
    fn lesser(self, b: Self) -> Self {
        Self(self.0.lesser(b.0), self.1.lesser(b.1))
    }
    #[inline(always)]
    fn greater(self, b: Self) -> Self {
        Self(self.0.greater(b.0), self.1.greater(b.1))
    }
    #[inline(always)]
    fn lt(self, b: Self) -> Self::Mask {
        Twin(self.0.lt(b.0), self.1.lt(b.1))
    }
    #[inline(always)]
    fn le(self, b: Self) -> Self::Mask {
        Twin(self.0.le(b.0), self.1.le(b.1))
    }
    #[inline(always)]
    fn eq(self, b: Self) -> Self::Mask {
        Twin(self.0.eq(b.0), self.1.eq(b.1))
    }
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        Twin(self.0.is_nan(), self.1.is_nan())
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Self(L::select(mask.0, yes.0, no.0), L::select(mask.1, yes.1, no.1))
    }
    #[inline(always)]
    fn to_bits(self) -> Self::Bits {
        Twin(self.0.to_bits(), self.1.to_bits())
    }
    #[inline(always)]
    fn from_bits(bits: Self::Bits) -> Self {
        Self(L::from_bits(bits.0), L::from_bits(bits.1))
    }
}
