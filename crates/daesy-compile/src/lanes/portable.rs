//! Lanes without any special instruction: one double, and four in an array that the compiler may keep in registers.
#![allow(unsafe_code)]

use super::{LaneBits, LaneMask, Lanes, MAX_WIDTH};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

impl Lanes for f64 {
    type Bits = u64;
    type Mask = bool;
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn from_array(values: [f64; MAX_WIDTH]) -> Self {
        values[0]
    }
    #[inline(always)]
    fn to_array(self) -> [f64; MAX_WIDTH] {
        let mut values = [0.0; MAX_WIDTH];
        values[0] = self;
        values
    }
    #[inline(always)]
    unsafe fn load(source: *const f64) -> Self {
        // SAFETY: the caller vouches for one readable double.
        unsafe { source.read() }
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut f64) {
        // SAFETY: the caller vouches for one writable double.
        unsafe { target.write(self) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f64::abs(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        f64::floor(self)
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        f64::ceil(self)
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        f64::trunc(self)
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        f64::mul_add(self, b, c)
    }
    #[inline(always)]
    fn lesser(self, b: Self) -> Self {
        if self < b { self } else { b }
    }
    #[inline(always)]
    fn greater(self, b: Self) -> Self {
        if self > b { self } else { b }
    }
    #[inline(always)]
    fn lt(self, b: Self) -> bool {
        self < b
    }
    #[inline(always)]
    fn le(self, b: Self) -> bool {
        self <= b
    }
    #[inline(always)]
    fn eq(self, b: Self) -> bool {
        self == b
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    #[inline(always)]
    fn select(mask: bool, yes: Self, no: Self) -> Self {
        if mask { yes } else { no }
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

impl LaneBits for u64 {
    type Mask = bool;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn wrapping_add(self, b: Self) -> Self {
        u64::wrapping_add(self, b)
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self) -> Self {
        self << N
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self) -> Self {
        self >> N
    }
    #[inline(always)]
    fn eq(self, b: Self) -> bool {
        self == b
    }
}

impl LaneMask for bool {
    #[inline(always)]
    fn any(self) -> bool {
        self
    }
}

/// Four doubles in an array.
#[derive(Clone, Copy)]
pub(crate) struct Quad([f64; 4]);

/// Four bit patterns in an array.
#[derive(Clone, Copy)]
pub(crate) struct QuadBits([u64; 4]);

/// Four truth values in an array, all bits of an entry set or none.
#[derive(Clone, Copy)]
pub(crate) struct QuadMask([u64; 4]);

macro_rules! elementwise {
    ($type:ident, $trait:ident, $method:ident, $op:expr) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, b: Self) -> Self {
                let op = $op;
                $type([op(self.0[0], b.0[0]), op(self.0[1], b.0[1]), op(self.0[2], b.0[2]), op(self.0[3], b.0[3])])
            }
        }
    };
}

elementwise!(Quad, Add, add, |a: f64, b: f64| a + b);
elementwise!(Quad, Sub, sub, |a: f64, b: f64| a - b);
elementwise!(Quad, Mul, mul, |a: f64, b: f64| a * b);
elementwise!(Quad, Div, div, |a: f64, b: f64| a / b);
elementwise!(QuadBits, BitAnd, bitand, |a: u64, b: u64| a & b);
elementwise!(QuadBits, BitOr, bitor, |a: u64, b: u64| a | b);
elementwise!(QuadBits, BitXor, bitxor, |a: u64, b: u64| a ^ b);
elementwise!(QuadMask, BitAnd, bitand, |a: u64, b: u64| a & b);
elementwise!(QuadMask, BitOr, bitor, |a: u64, b: u64| a | b);

impl Neg for Quad {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|x| -x)
    }
}

impl Not for QuadMask {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        let m = self.0;
        Self([!m[0], !m[1], !m[2], !m[3]])
    }
}

impl LaneMask for QuadMask {
    #[inline(always)]
    fn any(self) -> bool {
        let m = self.0;
        (m[0] | m[1] | m[2] | m[3]) != 0
    }
}

impl LaneBits for QuadBits {
    type Mask = QuadMask;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    fn wrapping_add(self, b: Self) -> Self {
        let (a, b) = (self.0, b.0);
        Self([a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1]), a[2].wrapping_add(b[2]), a[3].wrapping_add(b[3])])
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self) -> Self {
        let a = self.0;
        Self([a[0] << N, a[1] << N, a[2] << N, a[3] << N])
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self) -> Self {
        let a = self.0;
        Self([a[0] >> N, a[1] >> N, a[2] >> N, a[3] >> N])
    }
    #[inline(always)]
    fn eq(self, b: Self) -> QuadMask {
        let (a, b) = (self.0, b.0);
        QuadMask([ones(a[0] == b[0]), ones(a[1] == b[1]), ones(a[2] == b[2]), ones(a[3] == b[3])])
    }
}

#[inline(always)]
fn ones(condition: bool) -> u64 {
    if condition { u64::MAX } else { 0 }
}

impl Quad {
    #[inline(always)]
    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let a = self.0;
        Self([f(a[0]), f(a[1]), f(a[2]), f(a[3])])
    }
    #[inline(always)]
    fn compare(self, b: Self, f: impl Fn(f64, f64) -> bool) -> QuadMask {
        let (a, b) = (self.0, b.0);
        QuadMask([ones(f(a[0], b[0])), ones(f(a[1], b[1])), ones(f(a[2], b[2])), ones(f(a[3], b[3]))])
    }
}

impl Lanes for Quad {
    type Bits = QuadBits;
    type Mask = QuadMask;
    const WIDTH: usize = 4;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    fn from_array(values: [f64; MAX_WIDTH]) -> Self {
        Self([values[0], values[1], values[2], values[3]])
    }
    #[inline(always)]
    fn to_array(self) -> [f64; MAX_WIDTH] {
        let mut values = [0.0; MAX_WIDTH];
        values[..4].copy_from_slice(&self.0);
        values
    }
    #[inline(always)]
    unsafe fn load(source: *const f64) -> Self {
        // SAFETY: the caller vouches for four readable doubles; an array of doubles needs no more alignment than they
        // do.
        Self(unsafe { source.cast::<[f64; 4]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut f64) {
        // SAFETY: the caller vouches for four writable doubles; an array of doubles needs no more alignment than they
        // do.
        unsafe { target.cast::<[f64; 4]>().write(self.0) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map(f64::abs)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map(f64::sqrt)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        self.map(f64::floor)
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        self.map(f64::ceil)
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        self.map(f64::trunc)
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        let (a, b, c) = (self.0, b.0, c.0);
        Self([a[0].mul_add(b[0], c[0]), a[1].mul_add(b[1], c[1]), a[2].mul_add(b[2], c[2]), a[3].mul_add(b[3], c[3])])
    }
    #[inline(always)]
    fn lesser(self, b: Self) -> Self {
        let (a, b) = (self.0, b.0);
        Self([a[0].lesser(b[0]), a[1].lesser(b[1]), a[2].lesser(b[2]), a[3].lesser(b[3])])
    }
    #[inline(always)]
    fn greater(self, b: Self) -> Self {
        let (a, b) = (self.0, b.0);
        Self([a[0].greater(b[0]), a[1].greater(b[1]), a[2].greater(b[2]), a[3].greater(b[3])])
    }
    #[inline(always)]
    fn lt(self, b: Self) -> QuadMask {
        self.compare(b, |a, b| a < b)
    }
    #[inline(always)]
    fn le(self, b: Self) -> QuadMask {
        self.compare(b, |a, b| a <= b)
    }
    #[inline(always)]
    fn eq(self, b: Self) -> QuadMask {
        self.compare(b, |a, b| a == b)
    }
    #[inline(always)]
    fn is_nan(self) -> QuadMask {
        self.compare(self, |a, _| a.is_nan())
    }
    #[inline(always)]
    fn select(mask: QuadMask, yes: Self, no: Self) -> Self {
        let (m, y, n) = (mask.0, yes.to_bits().0, no.to_bits().0);
        Self::from_bits(QuadBits([
            (m[0] & y[0]) | (!m[0] & n[0]),
            (m[1] & y[1]) | (!m[1] & n[1]),
            (m[2] & y[2]) | (!m[2] & n[2]),
            (m[3] & y[3]) | (!m[3] & n[3]),
        ]))
    }
    #[inline(always)]
    fn to_bits(self) -> QuadBits {
        let a = self.0;
        QuadBits([a[0].to_bits(), a[1].to_bits(), a[2].to_bits(), a[3].to_bits()])
    }
    #[inline(always)]
    fn from_bits(bits: QuadBits) -> Self {
        let b = bits.0;
        Self([f64::from_bits(b[0]), f64::from_bits(b[1]), f64::from_bits(b[2]), f64::from_bits(b[3])])
    }
}
