//! The same numbers, bit for bit, sixteen at a time in AVX-512 registers.
//!
//! What is done to which operands, and in which turns, is what `avx2` does; a comparison leaves a bit per lane in a
//! register of its own, and three words are mixed by one instruction.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512d, __m512i, _mm256_loadu_si256, _mm512_add_epi64, _mm512_add_pd, _mm512_and_si512, _mm512_castpd_si512,
    _mm512_castsi512_pd, _mm512_cvtepu32_epi64, _mm512_div_pd, _mm512_fmadd_pd, _mm512_mask_blend_epi32,
    _mm512_mask_blend_pd, _mm512_mul_epu32, _mm512_mul_pd, _mm512_or_si512, _mm512_set1_epi64, _mm512_set1_pd,
    _mm512_slli_epi64, _mm512_sqrt_pd, _mm512_srli_epi64, _mm512_storeu_pd, _mm512_sub_epi64, _mm512_sub_pd,
    _mm512_ternarylogic_epi64, _mm512_test_epi64_mask, _mm512_xor_si512,
};

use super::rounds::Rounds;
use super::{COSINE, Draw, EVEN, HALF_ROOT, ODD, OFFSET, ROUNDER, SINE, TWO_POWER_52, UNIT_EXPONENT, pair};
use crate::philox::MULTIPLIERS;

/// Lanes of one turn.
const LANES: usize = 8 * REGISTERS;

/// Registers for the numbers of one turn.
const REGISTERS: usize = 2;

/// Doubles of the lanes of a turn.
type Reals = [__m512d; REGISTERS];

/// Words of 64 bits of the lanes of a turn.
type Words = [__m512i; REGISTERS];

/// Writes two rows of normal numbers for each draw.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) fn fill(draws: impl Fn(usize) -> Draw, realizations: &[u32], rows: &mut [f64]) {
    let n = realizations.len();
    let (groups, rest) = realizations.as_chunks::<LANES>();
    if !rest.is_empty() {
        for (at, rows) in rows.chunks_exact_mut(2 * n).enumerate() {
            for (lane, &realization) in (n - rest.len()..n).zip(rest) {
                [rows[lane], rows[n + lane]] = pair(draws(at), realization);
            }
        }
    }
    let Some((head, tail)) = groups.split_first() else { return };
    let n_draws = rows.len() / (2 * n);
    let mut rounds = Rounds::new(draws(0));
    let mut uniform = words(&rounds, head);
    for (at, rows) in rows.chunks_exact_mut(2 * n).enumerate() {
        let (first, second) = rows.split_at_mut(n);
        let (first, second) = (first.as_chunks_mut::<LANES>().0, second.as_chunks_mut::<LANES>().0);
        for ((next, first), second) in tail.iter().zip(&mut *first).zip(&mut *second) {
            uniform = turn(&rounds, next, uniform, first, second);
        }
        // Along with the last numbers go the first words of the next draw; after the last draw nobody needs them.
        rounds = Rounds::new(draws((at + 1).min(n_draws - 1)));
        if let (Some(first), Some(second)) = (first.last_mut(), second.last_mut()) {
            uniform = turn(&rounds, head, uniform, first, second);
        }
    }
}

/// Words of Philox in the making; what the upper halves hold is never looked at.
#[derive(Clone, Copy)]
struct Counter {
    a: Words,
    b: Words,
    c: Words,
    d: Words,
}

/// The two numbers in 1..2 of each lane.
#[derive(Clone, Copy)]
struct Uniform {
    radius: Words,
    angle: Words,
}

/// Functions that do one instruction for both registers of a turn.
macro_rules! instructions {
    ($($name:ident($($operand:ident: $type:ty),+) -> $result:ty = $instruction:expr;)*) => {
        $(
            #[target_feature(enable = "avx512f,avx512dq")]
            #[inline]
            fn $name($($operand: $type),+) -> $result {
                [$instruction($($operand[0]),+), $instruction($($operand[1]),+)]
            }
        )*
    };
}

instructions! {
    add(a: Reals, b: Reals) -> Reals = _mm512_add_pd;
    sub(a: Reals, b: Reals) -> Reals = _mm512_sub_pd;
    mul(a: Reals, b: Reals) -> Reals = _mm512_mul_pd;
    div(a: Reals, b: Reals) -> Reals = _mm512_div_pd;
    sqrt(a: Reals) -> Reals = _mm512_sqrt_pd;
    mul_add(a: Reals, b: Reals, c: Reals) -> Reals = _mm512_fmadd_pd;
    reals(a: Words) -> Reals = _mm512_castsi512_pd;
    bits(a: Reals) -> Words = _mm512_castpd_si512;
    xor(a: Words, b: Words) -> Words = _mm512_xor_si512;
    // a xor b xor c
    xor3(a: Words, b: Words, c: Words) -> Words = _mm512_ternarylogic_epi64::<0x96>;
    and(a: Words, b: Words) -> Words = _mm512_and_si512;
    or(a: Words, b: Words) -> Words = _mm512_or_si512;
    plus(a: Words, b: Words) -> Words = _mm512_add_epi64;
    minus(a: Words, b: Words) -> Words = _mm512_sub_epi64;
    // The product of the lower halves.
    product(a: Words, b: Words) -> Words = _mm512_mul_epu32;
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn real(value: f64) -> Reals {
    [_mm512_set1_pd(value); REGISTERS]
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn word(value: u64) -> Words {
    [_mm512_set1_epi64(value.cast_signed()); REGISTERS]
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn left<const N: u32>(a: Words) -> Words {
    [_mm512_slli_epi64::<N>(a[0]), _mm512_slli_epi64::<N>(a[1])]
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn right<const N: u32>(a: Words) -> Words {
    [_mm512_srli_epi64::<N>(a[0]), _mm512_srli_epi64::<N>(a[1])]
}

/// `no` where the lowest bit of `which` is clear, else `yes`.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn select(which: Words, no: Reals, yes: Reals) -> Reals {
    let lowest = _mm512_set1_epi64(1);
    [
        _mm512_mask_blend_pd(_mm512_test_epi64_mask(which[0], lowest), no[0], yes[0]),
        _mm512_mask_blend_pd(_mm512_test_epi64_mask(which[1], lowest), no[1], yes[1]),
    ]
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn factor(which: usize) -> Words {
    word(u64::from(MULTIPLIERS[which]))
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn load(realizations: &[u32; LANES]) -> Words {
    let (halves, _) = realizations.as_chunks::<8>();
    // SAFETY: each half is eight words of 32 bits, which is what is read.
    let read = |half: &[u32; 8]| unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
    [_mm512_cvtepu32_epi64(read(&halves[0])), _mm512_cvtepu32_epi64(read(&halves[1]))]
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn store(values: Reals, target: &mut [f64; LANES]) {
    let (halves, _) = target.as_chunks_mut::<8>();
    for (value, half) in values.into_iter().zip(halves) {
        // SAFETY: a half is eight doubles, which is what is written.
        unsafe { _mm512_storeu_pd(half.as_mut_ptr(), value) };
    }
}

/// The first three rounds, in which much is the same for all lanes.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn begin(rounds: &Rounds, realizations: &[u32; LANES]) -> Counter {
    let realizations = load(realizations);
    let first = product(factor(0), xor(realizations, word(rounds.first)));
    let second = product(factor(1), xor(right::<32>(first), word(rounds.second)));
    let a = xor(right::<32>(second), word(rounds.third[0]));
    let c = xor(first, word(rounds.third[1]));
    let (first, b, second) = (product(factor(0), a), second, product(factor(1), c));
    Counter {
        a: xor3(right::<32>(second), b, word(rounds.others[0][0])),
        b: second,
        c: xor(right::<32>(first), word(rounds.others[0][1])),
        d: first,
    }
}

/// Both products of a round.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn products(counter: Counter) -> [Words; 2] {
    [product(factor(0), counter.a), product(factor(1), counter.c)]
}

/// What follows from them.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn mix(key: [u64; 2], counter: Counter, [first, second]: [Words; 2]) -> Counter {
    Counter {
        a: xor3(right::<32>(second), counter.b, word(key[0])),
        b: second,
        c: xor3(right::<32>(first), counter.d, word(key[1])),
        d: first,
    }
}

/// The upper 52 bits of two words behind the exponent of 1.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn join(upper: Words, lower: Words) -> Words {
    const UPPER_HALVES: u16 = 0b1010_1010_1010_1010;
    let upper = left::<32>(upper);
    let joined = [
        _mm512_mask_blend_epi32(UPPER_HALVES, lower[0], upper[0]),
        _mm512_mask_blend_epi32(UPPER_HALVES, lower[1], upper[1]),
    ];
    or(right::<12>(joined), word(UNIT_EXPONENT))
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn end(counter: Counter) -> Uniform {
    Uniform { radius: join(counter.a, counter.b), angle: join(counter.c, counter.d) }
}

#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn words(rounds: &Rounds, realizations: &[u32; LANES]) -> Uniform {
    let mut counter = begin(rounds, realizations);
    for key in &rounds.others[1..] {
        counter = mix(*key, counter, products(counter));
    }
    end(counter)
}

/// Writes the normal numbers from `uniform`; gives the uniform ones of other realizations. See `avx2`.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn turn(
    rounds: &Rounds,
    realizations: &[u32; LANES],
    uniform: Uniform,
    first: &mut [f64; LANES],
    second: &mut [f64; LANES],
) -> Uniform {
    let keys = &rounds.others;
    let one = real(1.0);
    // logarithm
    let u1 = sub(real(2.0), reals(uniform.radius));
    let pattern = bits(u1);
    let exponent = right::<52>(plus(pattern, word((OFFSET << 52).wrapping_sub(HALF_ROOT))));
    let y = mul(sub(reals(uniform.angle), one), real(4.0));
    let m = reals(minus(pattern, left::<52>(minus(exponent, word(OFFSET)))));
    let s = div(sub(m, one), add(m, one));
    let mut counter = begin(rounds, realizations);
    // sine and cosine
    let rounder = real(ROUNDER);
    let shifted = add(y, rounder);
    let r = sub(y, sub(shifted, rounder));
    let r = mul(r, real(std::f64::consts::FRAC_PI_2));
    let x = mul(r, r);
    let (mut sine, mut cosine) = (real(SINE[0]), real(COSINE[0]));
    for at in 1..6 {
        let both = products(counter);
        sine = mul_add(sine, x, real(SINE[at]));
        cosine = mul_add(cosine, x, real(COSINE[at]));
        if at < 4 {
            counter = mix(keys[at], counter, both);
        }
    }
    let z = mul(s, s);
    let both = products(counter);
    let sine = mul_add(mul(sine, x), r, r);
    let w = mul(z, z);
    let cosine = mul_add(cosine, mul(x, x), mul_add(x, real(-0.5), one));
    counter = mix(keys[4], counter, both);
    let (mut odd, mut even) = (real(ODD[0]), real(EVEN[0]));
    odd = mul_add(odd, w, real(ODD[1]));
    even = mul_add(even, w, real(EVEN[1]));
    let both = products(counter);
    let quadrant = bits(shifted);
    odd = mul_add(odd, w, real(ODD[2]));
    even = mul_add(even, w, real(EVEN[2]));
    let (a, b) = (select(quadrant, sine, cosine), select(quadrant, cosine, sine));
    counter = mix(keys[5], counter, both);
    odd = mul_add(odd, w, real(ODD[3]));
    let both = products(counter);
    let exponent = reals(or(exponent, word(TWO_POWER_52.to_bits())));
    let exponent = sub(exponent, real(TWO_POWER_52 + OFFSET as f64));
    let sum = add(mul_add(w, even, mul(z, odd)), real(2.0));
    let logarithm = mul_add(exponent, real(std::f64::consts::LN_2), mul(sum, s));
    let radius = sqrt(mul(real(-2.0), logarithm));
    counter = mix(keys[6], counter, both);
    let two = word(2);
    let sine_sign = left::<62>(and(quadrant, two));
    let cosine_sign = left::<62>(and(plus(quadrant, word(1)), two));
    let sine = reals(xor(bits(a), sine_sign));
    let cosine = reals(xor(bits(b), cosine_sign));
    store(mul(radius, cosine), first);
    store(mul(radius, sine), second);
    end(counter)
}
