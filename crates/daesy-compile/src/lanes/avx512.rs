//! Lanes in AVX-512 registers.
//!
//! Invariant of this module, as of `avx2`: its types are used only inside functions compiled with
//! `#[target_feature(enable = "avx512f,avx512dq")]`, which in turn are entered only after `is_x86_feature_detected!`
//! said yes (see `interpret::Backend`). Every `unsafe` block below rests on it; loads and stores rest on their callers
//! in addition. All functions are always inlined, so that each lands in such a function and becomes the one
//! instruction it names.
#![allow(unsafe_code)]

use super::{LaneBits, LaneMask, Lanes, MAX_WIDTH};
use core::arch::x86_64::{
    __m512d, __m512i, __mmask8, _CMP_EQ_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _CMP_UNORD_Q, _MM_FROUND_NO_EXC,
    _MM_FROUND_TO_NEG_INF, _MM_FROUND_TO_POS_INF, _MM_FROUND_TO_ZERO, _mm512_abs_pd, _mm512_add_epi64, _mm512_add_pd,
    _mm512_and_si512, _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_cmp_pd_mask, _mm512_cmpeq_epi64_mask,
    _mm512_div_pd, _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_mask_blend_pd, _mm512_max_pd, _mm512_min_pd, _mm512_mul_pd,
    _mm512_or_si512, _mm512_roundscale_pd, _mm512_set1_epi64, _mm512_set1_pd, _mm512_sllv_epi64, _mm512_sqrt_pd,
    _mm512_srlv_epi64, _mm512_storeu_pd, _mm512_sub_pd, _mm512_xor_pd, _mm512_xor_si512,
};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// Eight doubles in a register.
#[derive(Clone, Copy)]
pub(crate) struct Oct(__m512d);

/// Eight bit patterns in a register.
#[derive(Clone, Copy)]
pub(crate) struct OctBits(__m512i);

/// Eight truth values, a bit each.
#[derive(Clone, Copy)]
pub(crate) struct OctMask(__mmask8);

macro_rules! instruction {
    ($type:ident, $trait:ident, $method:ident, $intrinsic:ident) => {
        impl $trait for $type {
            type Output = Self;
            #[inline(always)]
            fn $method(self, b: Self) -> Self {
                // SAFETY: AVX-512 is there by the module's invariant.
                $type(unsafe { $intrinsic(self.0, b.0) })
            }
        }
    };
}

instruction!(Oct, Add, add, _mm512_add_pd);
instruction!(Oct, Sub, sub, _mm512_sub_pd);
instruction!(Oct, Mul, mul, _mm512_mul_pd);
instruction!(Oct, Div, div, _mm512_div_pd);
instruction!(OctBits, BitAnd, bitand, _mm512_and_si512);
instruction!(OctBits, BitOr, bitor, _mm512_or_si512);
instruction!(OctBits, BitXor, bitxor, _mm512_xor_si512);

impl BitAnd for OctMask {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, b: Self) -> Self {
        Self(self.0 & b.0)
    }
}

impl BitOr for OctMask {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, b: Self) -> Self {
        Self(self.0 | b.0)
    }
}

impl Neg for Oct {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_xor_pd(self.0, _mm512_set1_pd(-0.0)) })
    }
}

impl Not for OctMask {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl LaneMask for OctMask {
    #[inline(always)]
    fn any(self) -> bool {
        self.0 != 0
    }
}

impl LaneBits for OctBits {
    type Mask = OctMask;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_set1_epi64(value.cast_signed()) })
    }
    #[inline(always)]
    fn wrapping_add(self, b: Self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_add_epi64(self.0, b.0) })
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_sllv_epi64(self.0, _mm512_set1_epi64(i64::from(N))) })
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_srlv_epi64(self.0, _mm512_set1_epi64(i64::from(N))) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> OctMask {
        // SAFETY: AVX-512 is there by the module's invariant.
        OctMask(unsafe { _mm512_cmpeq_epi64_mask(self.0, b.0) })
    }
}

impl Lanes for Oct {
    type Bits = OctBits;
    type Mask = OctMask;
    const WIDTH: usize = 8;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_set1_pd(value) })
    }
    #[inline(always)]
    fn from_array(values: [f64; MAX_WIDTH]) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant; the array holds eight doubles.
        Self(unsafe { _mm512_loadu_pd(values.as_ptr()) })
    }
    #[inline(always)]
    fn to_array(self) -> [f64; MAX_WIDTH] {
        let mut values = [0.0; MAX_WIDTH];
        // SAFETY: AVX-512 is there by the module's invariant; the array holds eight doubles.
        unsafe { _mm512_storeu_pd(values.as_mut_ptr(), self.0) };
        values
    }
    #[inline(always)]
    unsafe fn load(source: *const f64) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant; the caller vouches for eight readable doubles.
        Self(unsafe { _mm512_loadu_pd(source) })
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut f64) {
        // SAFETY: AVX-512 is there by the module's invariant; the caller vouches for eight writable doubles.
        unsafe { _mm512_storeu_pd(target, self.0) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_abs_pd(self.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_sqrt_pd(self.0) })
    }
    #[inline(always)]
    fn floor(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_roundscale_pd::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_fmadd_pd(self.0, b.0, c.0) })
    }
    #[inline(always)]
    fn lesser(self, b: Self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_min_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn greater(self, b: Self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_max_pd(self.0, b.0) })
    }
    #[inline(always)]
    fn lt(self, b: Self) -> OctMask {
        // SAFETY: AVX-512 is there by the module's invariant.
        OctMask(unsafe { _mm512_cmp_pd_mask::<_CMP_LT_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn le(self, b: Self) -> OctMask {
        // SAFETY: AVX-512 is there by the module's invariant.
        OctMask(unsafe { _mm512_cmp_pd_mask::<_CMP_LE_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn eq(self, b: Self) -> OctMask {
        // SAFETY: AVX-512 is there by the module's invariant.
        OctMask(unsafe { _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(self.0, b.0) })
    }
    #[inline(always)]
    fn is_nan(self) -> OctMask {
        // SAFETY: AVX-512 is there by the module's invariant.
        OctMask(unsafe { _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(self.0, self.0) })
    }
    #[inline(always)]
    fn select(mask: OctMask, yes: Self, no: Self) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_mask_blend_pd(mask.0, no.0, yes.0) })
    }
    #[inline(always)]
    fn to_bits(self) -> OctBits {
        // SAFETY: AVX-512 is there by the module's invariant.
        OctBits(unsafe { _mm512_castpd_si512(self.0) })
    }
    #[inline(always)]
    fn from_bits(bits: OctBits) -> Self {
        // SAFETY: AVX-512 is there by the module's invariant.
        Self(unsafe { _mm512_castsi512_pd(bits.0) })
    }
}
