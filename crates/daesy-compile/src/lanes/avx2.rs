//! Lanes in AVX2 registers.
//!
//! Invariant of this module: its types are used only inside functions compiled with
//! `#[target_feature(enable = "avx2,fma")]`, which in turn are entered only after `is_x86_feature_detected!` said yes
//! (see `interpret::Backend`). Every `unsafe` block below rests on it; loads and stores rest on their callers in
//! addition. All functions are always inlined, so that each lands in such a function and becomes the one instruction
//! it names.
#![allow(unsafe_code)]

use super::{LaneBits, LaneMask, Lanes, MAX_WIDTH, SIGN_BIT};
use core::arch::x86_64::{
    __m256d, __m256i, _CMP_EQ_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _CMP_UNORD_Q, _MM_FROUND_NO_EXC, _MM_FROUND_TO_ZERO,
    _mm256_add_epi64, _mm256_add_pd, _mm256_and_pd, _mm256_and_si256, _mm256_andnot_pd, _mm256_blendv_pd,
    _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_ceil_pd, _mm256_cmp_pd, _mm256_cmpeq_epi64, _mm256_div_pd,
    _mm256_floor_pd, _mm256_fmadd_pd, _mm256_loadu_pd, _mm256_max_pd, _mm256_min_pd, _mm256_movemask_pd, _mm256_mul_pd,
    _mm256_or_pd, _mm256_or_si256, _mm256_round_pd, _mm256_set1_epi64x, _mm256_set1_pd, _mm256_slli_epi64,
    _mm256_sqrt_pd, _mm256_srli_epi64, _mm256_storeu_pd, _mm256_sub_pd, _mm256_xor_pd, _mm256_xor_si256,
};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// Four doubles in a register.
#[derive(Clone, Copy)]
pub(crate) struct Quad(__m256d);

/// Four bit patterns in a register.
#[derive(Clone, Copy)]
pub(crate) struct QuadBits(__m256i);

/// Four truth values in a register, all bits of an entry set or none.
#[derive(Clone, Copy)]
pub(crate) struct QuadMask(__m256d);

macro_rules! instruction {
    ($type:ident, $trait:ident, $method:ident, $intrinsic:ident) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, b: Self) -> Self {
                // SAFETY: AVX2 is there by the module's invariant.
                $type(unsafe { $intrinsic(self.0, b.0) })
            }
        }
    };
}

instruction!(Quad, Add, add, _mm256_add_pd);
instruction!(Quad, Sub, sub, _mm256_sub_pd);
instruction!(Quad, Mul, mul, _mm256_mul_pd);
instruction!(Quad, Div, div, _mm256_div_pd);
instruction!(QuadBits, BitAnd, bitand, _mm256_and_si256);
instruction!(QuadBits, BitOr, bitor, _mm256_or_si256);
instruction!(QuadBits, BitXor, bitxor, _mm256_xor_si256);
instruction!(QuadMask, BitAnd, bitand, _mm256_and_pd);
instruction!(QuadMask, BitOr, bitor, _mm256_or_pd);

impl Neg for Quad {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_xor_pd(self.0, _mm256_set1_pd(-0.0)) })
    }
}

impl Not for QuadMask {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_xor_pd(self.0, _mm256_castsi256_pd(_mm256_set1_epi64x(-1))) })
    }
}

impl LaneMask for QuadMask {
    #[inline(always)]
    fn any(self) -> bool {
        // SAFETY: AVX2 is there by the module's invariant.
        unsafe { _mm256_movemask_pd(self.0) != 0 }
    }
}

impl LaneBits for QuadBits {
    type Mask = QuadMask;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_set1_epi64x(value.cast_signed()) })
    }
    #[inline(always)]
    fn wrapping_add(self, b: Self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_add_epi64(self.0, b.0) })
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_slli_epi64::<N>(self.0) })
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_srli_epi64::<N>(self.0) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> QuadMask {
        // SAFETY: AVX2 is there by the module's invariant.
        QuadMask(unsafe { _mm256_castsi256_pd(_mm256_cmpeq_epi64(self.0, b.0)) })
    }
}

impl Lanes for Quad {
    type Bits = QuadBits;
    type Mask = QuadMask;
    const WIDTH: usize = 4;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_set1_pd(value) })
    }
    #[inline(always)]
    fn from_array(values: [f64; MAX_WIDTH]) -> Self {
        // SAFETY: AVX2 is there by the module's invariant; the array holds more than four doubles.
        Self(unsafe { _mm256_loadu_pd(values.as_ptr()) })
    }
    #[inline(always)]
    fn to_array(self) -> [f64; MAX_WIDTH] {
        let mut values = [0.0; MAX_WIDTH];
        // SAFETY: AVX2 is there by the module's invariant; the array holds more than four doubles.
        unsafe { _mm256_storeu_pd(values.as_mut_ptr(), self.0) };
        values
    }
    #[inline(always)]
    unsafe fn load(source: *const f64) -> Self {
        // SAFETY: AVX2 is there by the module's invariant; the caller vouches for four readable doubles.
        Self(unsafe { _mm256_loadu_pd(source) })
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut f64) {
        // SAFETY: AVX2 is there by the module's invariant; the caller vouches for four writable doubles.
        unsafe { _mm256_storeu_pd(target, self.0) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_andnot_pd(_mm256_set1_pd(f64::from_bits(SIGN_BIT)), self.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_floor_pd(self.0) })
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_ceil_pd(self.0) })
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_round_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: AVX2 and FMA are there by the module's invariant.
        Self(unsafe { _mm256_fmadd_pd(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn lesser(self, b: Self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_min_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn greater(self, b: Self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_max_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn lt(self, b: Self) -> QuadMask {
        // SAFETY: AVX2 is there by the module's invariant.
        QuadMask(unsafe { _mm256_cmp_pd::<_CMP_LT_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn le(self, b: Self) -> QuadMask {
        // SAFETY: AVX2 is there by the module's invariant.
        QuadMask(unsafe { _mm256_cmp_pd::<_CMP_LE_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> QuadMask {
        // SAFETY: AVX2 is there by the module's invariant.
        QuadMask(unsafe { _mm256_cmp_pd::<_CMP_EQ_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn is_nan(self) -> QuadMask {
        // SAFETY: AVX2 is there by the module's invariant.
        QuadMask(unsafe { _mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, self.0) })
    }
    #[inline(always)]
    fn select(mask: QuadMask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_blendv_pd(no.0, yes.0, mask.0) })
    }
    #[inline(always)]
    fn to_bits(self) -> QuadBits {
        // SAFETY: AVX2 is there by the module's invariant.
        QuadBits(unsafe { _mm256_castpd_si256(self.0) })
    }
    #[inline(always)]
    fn from_bits(bits: QuadBits) -> Self {
        // SAFETY: AVX2 is there by the module's invariant.
        Self(unsafe { _mm256_castsi256_pd(bits.0) })
    }
}
