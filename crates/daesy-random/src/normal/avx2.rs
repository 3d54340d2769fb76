//! The same numbers, bit for bit, eight at a time in AVX2 registers.
//!
//! The rounds of Philox are one long chain of products, and so are the polynomials; neither fills the processor alone.
//! Here the words of eight realizations are made while the normal numbers of the eight before them are, step by step in
//! turns, each on two registers. Rounds of Philox in which all but the word of the realization is the same for all
//! lanes are done with that word alone.

use std::arch::x86_64::{__m256d, __m256i};

use pulp::bytemuck::cast;
use pulp::x86::V3;

use super::rounds::Rounds;
use super::{COSINE, Draw, EVEN, HALF_ROOT, ODD, OFFSET, ROUNDER, SINE, TWO_POWER_52, UNIT_EXPONENT, pair};
use crate::philox::MULTIPLIERS;

/// Lanes of one turn.
const LANES: usize = 8;

/// Doubles of eight lanes.
type Reals = [__m256d; 2];

/// Words of 64 bits of eight lanes.
type Words = [__m256i; 2];

/// Writes two rows of normal numbers for each draw.
pub(super) struct FillAvx2<'f, D> {
    pub(super) simd: V3,
    pub(super) draws: D,
    pub(super) realizations: &'f [u32],
    pub(super) rows: &'f mut [f64],
}

impl<D: Fn(usize) -> Draw> pulp::NullaryFnOnce for FillAvx2<'_, D> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { simd, draws, realizations, rows } = self;
        let lanes = Lanes { simd };
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
        let mut uniform = lanes.words(&rounds, head);
        for (at, rows) in rows.chunks_exact_mut(2 * n).enumerate() {
            let (first, second) = rows.split_at_mut(n);
            let (first, second) = (first.as_chunks_mut::<LANES>().0, second.as_chunks_mut::<LANES>().0);
            for ((next, first), second) in tail.iter().zip(&mut *first).zip(&mut *second) {
                let turn = lanes.turn(&rounds, next, uniform);
                uniform = turn.uniform;
                *first = cast(turn.first);
                *second = cast(turn.second);
            }
            // Along with the last numbers go the first words of the next draw; after the last draw nobody needs them.
            rounds = Rounds::new(draws((at + 1).min(n_draws - 1)));
            let turn = lanes.turn(&rounds, head, uniform);
            uniform = turn.uniform;
            if let (Some(first), Some(second)) = (first.last_mut(), second.last_mut()) {
                *first = cast(turn.first);
                *second = cast(turn.second);
            }
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

/// What a turn gives.
struct Turn {
    /// For the next lanes.
    uniform: Uniform,
    first: Reals,
    second: Reals,
}

#[derive(Clone, Copy)]
struct Lanes {
    simd: V3,
}

#[inline(always)]
fn both<A: Copy, T>(a: [A; 2], of: impl Fn(A) -> T) -> [T; 2] {
    [of(a[0]), of(a[1])]
}

#[inline(always)]
fn both2<A: Copy, B: Copy, T>(a: [A; 2], b: [B; 2], of: impl Fn(A, B) -> T) -> [T; 2] {
    [of(a[0], b[0]), of(a[1], b[1])]
}

impl Lanes {
    #[inline(always)]
    fn real(self, value: f64) -> Reals {
        [self.simd.avx._mm256_set1_pd(value); 2]
    }
    #[inline(always)]
    fn add(self, a: Reals, b: Reals) -> Reals {
        both2(a, b, |a, b| self.simd.avx._mm256_add_pd(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Reals, b: Reals) -> Reals {
        both2(a, b, |a, b| self.simd.avx._mm256_sub_pd(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Reals, b: Reals) -> Reals {
        both2(a, b, |a, b| self.simd.avx._mm256_mul_pd(a, b))
    }
    #[inline(always)]
    fn div(self, a: Reals, b: Reals) -> Reals {
        both2(a, b, |a, b| self.simd.avx._mm256_div_pd(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Reals) -> Reals {
        both(a, |a| self.simd.avx._mm256_sqrt_pd(a))
    }
    /// `a b + c`, rounded once.
    #[inline(always)]
    fn mul_add(self, a: Reals, b: Reals, c: Reals) -> Reals {
        [self.simd.fma._mm256_fmadd_pd(a[0], b[0], c[0]), self.simd.fma._mm256_fmadd_pd(a[1], b[1], c[1])]
    }
    /// `no` where the highest bit of `which` is clear, else `yes`.
    #[inline(always)]
    fn select(self, which: Words, no: Reals, yes: Reals) -> Reals {
        let one = |at: usize| self.simd.avx._mm256_blendv_pd(no[at], yes[at], cast(which[at]));
        [one(0), one(1)]
    }
    #[inline(always)]
    fn reals(self, a: Words) -> Reals {
        both(a, cast)
    }
    #[inline(always)]
    fn bits(self, a: Reals) -> Words {
        both(a, cast)
    }

    #[inline(always)]
    fn word(self, value: u64) -> Words {
        [self.simd.avx._mm256_set1_epi64x(value.cast_signed()); 2]
    }
    #[inline(always)]
    fn xor(self, a: Words, b: Words) -> Words {
        both2(a, b, |a, b| self.simd.avx2._mm256_xor_si256(a, b))
    }
    #[inline(always)]
    fn and(self, a: Words, b: Words) -> Words {
        both2(a, b, |a, b| self.simd.avx2._mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or(self, a: Words, b: Words) -> Words {
        both2(a, b, |a, b| self.simd.avx2._mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn plus(self, a: Words, b: Words) -> Words {
        both2(a, b, |a, b| self.simd.avx2._mm256_add_epi64(a, b))
    }
    #[inline(always)]
    fn minus(self, a: Words, b: Words) -> Words {
        both2(a, b, |a, b| self.simd.avx2._mm256_sub_epi64(a, b))
    }
    #[inline(always)]
    fn left<const N: i32>(self, a: Words) -> Words {
        both(a, |a| self.simd.avx2._mm256_slli_epi64::<N>(a))
    }
    #[inline(always)]
    fn right<const N: i32>(self, a: Words) -> Words {
        both(a, |a| self.simd.avx2._mm256_srli_epi64::<N>(a))
    }
    /// The product of the lower halves.
    #[inline(always)]
    fn product(self, which: usize, a: Words) -> Words {
        let factor = self.word(u64::from(MULTIPLIERS[which]));
        both2(a, factor, |a, b| self.simd.avx2._mm256_mul_epu32(a, b))
    }
    /// The upper half of a product and something else.
    #[inline(always)]
    fn upper(self, product: Words, other: Words) -> Words {
        self.xor(self.right::<32>(product), other)
    }

    /// The first three rounds, in which much is the same for all lanes.
    #[inline(always)]
    fn begin(self, rounds: &Rounds, realizations: &[u32; LANES]) -> Counter {
        let realizations: [[u64; 4]; 2] = cast(realizations.map(u64::from));
        let realizations = realizations.map(cast);
        let first = self.product(0, self.xor(realizations, self.word(rounds.first)));
        let second = self.product(1, self.upper(first, self.word(rounds.second)));
        let a = self.upper(second, self.word(rounds.third[0]));
        let c = self.xor(first, self.word(rounds.third[1]));
        let (first, b, second) = (self.product(0, a), second, self.product(1, c));
        Counter {
            a: self.upper(second, self.xor(b, self.word(rounds.others[0][0]))),
            b: second,
            c: self.upper(first, self.word(rounds.others[0][1])),
            d: first,
        }
    }

    /// Both products of a round.
    #[inline(always)]
    fn products(self, counter: Counter) -> [Words; 2] {
        [self.product(0, counter.a), self.product(1, counter.c)]
    }

    /// What follows from them.
    #[inline(always)]
    fn mix(self, key: [u64; 2], counter: Counter, [first, second]: [Words; 2]) -> Counter {
        Counter {
            a: self.upper(second, self.xor(counter.b, self.word(key[0]))),
            b: second,
            c: self.upper(first, self.xor(counter.d, self.word(key[1]))),
            d: first,
        }
    }

    /// The upper 52 bits of two words behind the exponent of 1.
    #[inline(always)]
    fn join(self, upper: Words, lower: Words) -> Words {
        let joined =
            both2(lower, self.left::<32>(upper), |a, b| self.simd.avx2._mm256_blend_epi32::<0b1010_1010>(a, b));
        self.or(self.right::<12>(joined), self.word(UNIT_EXPONENT))
    }

    #[inline(always)]
    fn end(self, counter: Counter) -> Uniform {
        Uniform { radius: self.join(counter.a, counter.b), angle: self.join(counter.c, counter.d) }
    }

    #[inline(always)]
    fn words(self, rounds: &Rounds, realizations: &[u32; LANES]) -> Uniform {
        let mut counter = self.begin(rounds, realizations);
        for key in &rounds.others[1..] {
            counter = self.mix(*key, counter, self.products(counter));
        }
        self.end(counter)
    }

    /// Normal numbers from `uniform`, and the uniform ones of other realizations. What one part does with its operands
    /// is what the functions of the same names do that work on one lane; rounds of Philox are strewn in between.
    #[inline(always)]
    fn turn(self, rounds: &Rounds, realizations: &[u32; LANES], uniform: Uniform) -> Turn {
        let keys = &rounds.others;
        let one = self.real(1.0);
        // logarithm
        let u1 = self.sub(self.real(2.0), self.reals(uniform.radius));
        let bits = self.bits(u1);
        let exponent = self.right::<52>(self.plus(bits, self.word((OFFSET << 52).wrapping_sub(HALF_ROOT))));
        let y = self.mul(self.sub(self.reals(uniform.angle), one), self.real(4.0));
        let m = self.reals(self.minus(bits, self.left::<52>(self.minus(exponent, self.word(OFFSET)))));
        let s = self.div(self.sub(m, one), self.add(m, one));
        let mut counter = self.begin(rounds, realizations);
        // sine and cosine
        let rounder = self.real(ROUNDER);
        let shifted = self.add(y, rounder);
        let r = self.sub(y, self.sub(shifted, rounder));
        let r = self.mul(r, self.real(std::f64::consts::FRAC_PI_2));
        let x = self.mul(r, r);
        let (mut sine, mut cosine) = (self.real(SINE[0]), self.real(COSINE[0]));
        for at in 1..6 {
            let products = self.products(counter);
            sine = self.mul_add(sine, x, self.real(SINE[at]));
            cosine = self.mul_add(cosine, x, self.real(COSINE[at]));
            if at < 4 {
                counter = self.mix(keys[at], counter, products);
            }
        }
        let z = self.mul(s, s);
        let products = self.products(counter);
        let sine = self.mul_add(self.mul(sine, x), r, r);
        let w = self.mul(z, z);
        let cosine = self.mul_add(cosine, self.mul(x, x), self.mul_add(x, self.real(-0.5), one));
        counter = self.mix(keys[4], counter, products);
        let (mut odd, mut even) = (self.real(ODD[0]), self.real(EVEN[0]));
        odd = self.mul_add(odd, w, self.real(ODD[1]));
        even = self.mul_add(even, w, self.real(EVEN[1]));
        let products = self.products(counter);
        let quadrant = self.bits(shifted);
        let is_odd = self.left::<63>(quadrant);
        odd = self.mul_add(odd, w, self.real(ODD[2]));
        even = self.mul_add(even, w, self.real(EVEN[2]));
        let (a, b) = (self.select(is_odd, sine, cosine), self.select(is_odd, cosine, sine));
        counter = self.mix(keys[5], counter, products);
        odd = self.mul_add(odd, w, self.real(ODD[3]));
        let products = self.products(counter);
        let exponent = self.reals(self.or(exponent, self.word(TWO_POWER_52.to_bits())));
        let exponent = self.sub(exponent, self.real(TWO_POWER_52 + OFFSET as f64));
        let sum = self.add(self.mul_add(w, even, self.mul(z, odd)), self.real(2.0));
        let logarithm = self.mul_add(exponent, self.real(std::f64::consts::LN_2), self.mul(sum, s));
        let radius = self.sqrt(self.mul(self.real(-2.0), logarithm));
        counter = self.mix(keys[6], counter, products);
        let two = self.word(2);
        let sine_sign = self.left::<62>(self.and(quadrant, two));
        let cosine_sign = self.left::<62>(self.and(self.plus(quadrant, self.word(1)), two));
        let sine = self.reals(self.xor(self.bits(a), sine_sign));
        let cosine = self.reals(self.xor(self.bits(b), cosine_sign));
        Turn { uniform: self.end(counter), first: self.mul(radius, cosine), second: self.mul(radius, sine) }
    }
}
