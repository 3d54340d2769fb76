//! x^y for real x and y [@fdlibm, e_pow.c]: 2^(y log2 |x|) with log2 |x| to more than 68 bits, then sign and special
//! cases.

use super::exponential::{clamp, tail_polynomial};
use super::{polynomial, round, scale};
use crate::lanes::{LaneBits, LaneMask, Lanes, SIGN_BIT, sign_bit, upper_half};

/// log2(3/2) in two parts.
const LOG2_1_5_HI: f64 = 5.849_624_872_207_642e-1;
const LOG2_1_5_LO: f64 = 1.350_039_202_129_749e-8;
/// Coefficients of (3/2) (log(1 + f) - 2 s - 2/3 s^3) / s^5, s = f / (2 + f).
const C: [f64; 6] = [
    5.999_999_999_999_946e-1,
    4.285_714_285_785_502e-1,
    3.333_333_298_183_774_3e-1,
    2.727_281_238_085_34e-1,
    2.306_607_457_755_617_5e-1,
    2.069_750_178_003_384_2e-1,
];
/// ln 2 in two parts, and 2 / (3 ln 2) in two parts.
const LN2_HI: f64 = 6.931_471_824_645_996e-1;
const LN2_LO: f64 = -1.904_654_299_957_768e-9;
const CP: f64 = 9.617_966_939_259_756e-1;
const CP_HI: f64 = 9.617_967_009_544_373e-1;
const CP_LO: f64 = -7.028_461_650_952_758e-9;
const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_3_2: f64 = 1.224_744_871_391_589;

/// log2(x) = hi + lo for positive finite x, `hi` with 21 bits.
struct BinaryLogarithm<L> {
    hi: L,
    lo: L,
}

/// 2^52 + 1023, the bias of an exponent in the lowest bits of a number of magnitude 2^52.
const BIAS: f64 = 4_503_599_627_370_496.0 + 1023.0;

#[inline(always)]
fn binary_logarithm<L: Lanes>(x: L) -> BinaryLogarithm<L> {
    let is_subnormal = x.lt(L::splat(f64::MIN_POSITIVE));
    if is_subnormal.any() {
        let scaled = L::select(is_subnormal, x * L::splat(18_014_398_509_481_984.0), x);
        return binary_logarithm_of_normal(scaled, L::select(is_subnormal, L::splat(BIAS + 54.0), L::splat(BIAS)));
    }
    binary_logarithm_of_normal(x, L::splat(BIAS))
}

#[inline(always)]
fn binary_logarithm_of_normal<L: Lanes>(x: L, bias: L) -> BinaryLogarithm<L> {
    let c = L::splat;
    let bits = x.to_bits();
    let mut n = L::from_bits(bits.shift_right::<52>() | L::Bits::splat(4_503_599_627_370_496.0_f64.to_bits())) - bias;
    let mut m = L::from_bits((bits & L::Bits::splat((1 << 52) - 1)) | L::Bits::splat(1.0_f64.to_bits()));
    // Mantissas around 1 and around 3/2.
    let is_upper = c(SQRT_3).le(m);
    m = L::select(is_upper, m * c(0.5), m);
    n = L::select(is_upper, n + c(1.0), n);
    let is_middle = c(SQRT_3_2).lt(m);
    let centre = L::select(is_middle, c(1.5), c(1.0));
    let log_centre_hi = L::select(is_middle, c(LOG2_1_5_HI), c(0.0));
    let log_centre_lo = L::select(is_middle, c(LOG2_1_5_LO), c(0.0));
    // s = s_hi + s_lo = (m - centre) / (m + centre)
    let u = m - centre;
    let v = c(1.0) / (m + centre);
    let s = u * v;
    let s_hi = upper_half(s);
    let sum_hi = upper_half(m + centre);
    let sum_lo = m - (sum_hi - centre);
    let s_lo = v * ((u - s_hi * sum_hi) - s_hi * sum_lo);
    let s2 = s * s;
    let mut r = s2 * s2 * polynomial(s2, &C);
    r = r + s_lo * (s_hi + s);
    let square = s_hi * s_hi;
    let t_hi = upper_half(c(3.0) + square + r);
    let t_lo = r - ((t_hi - c(3.0)) - square);
    let u = s_hi * t_hi;
    let v = s_lo * t_hi + t_lo * s;
    let p_hi = upper_half(u + v);
    let p_lo = v - (p_hi - u);
    let z_hi = c(CP_HI) * p_hi;
    let z_lo = c(CP_LO) * p_hi + p_lo * c(CP) + log_centre_lo;
    let hi = upper_half(((z_hi + z_lo) + log_centre_hi) + n);
    let lo = z_lo - (((hi - n) - log_centre_hi) - z_hi);
    BinaryLogarithm { hi, lo }
}

/// x^y for positive finite x and finite y.
#[inline(always)]
fn positive_power<L: Lanes>(x: L, y: L) -> L {
    let c = L::splat;
    // The logarithm of a double other than 1 exceeds 2^-53: beyond 2^66 the exponent decides nothing but overflow or
    // underflow.
    let y = clamp(y, -73_786_976_294_838_206_464.0, 73_786_976_294_838_206_464.0);
    let log = binary_logarithm(x);
    let y_hi = upper_half(y);
    let p_lo = (y - y_hi) * log.hi + y * log.lo;
    let p_hi = y_hi * log.hi;
    let z = p_lo + p_hi;
    let k = round(z);
    let p_hi = p_hi - k;
    let t = upper_half(p_lo + p_hi);
    let u = t * c(LN2_HI);
    let v = (p_lo - (t - p_hi)) * c(std::f64::consts::LN_2) + t * c(LN2_LO);
    let r = u + v;
    let r_lo = v - (r - u);
    let tail = r + (r * r * tail_polynomial(r) + (r_lo + r_lo * r));
    let result = scale(c(1.0) + tail, k);
    let result = L::select(c(1100.0).lt(z), c(f64::INFINITY), result);
    L::select(z.lt(c(-1100.0)), c(0.0), result)
}

/// x^y; NaN for negative x with fractional y.
#[inline(always)]
pub(crate) fn pow<L: Lanes>(x: L, y: L) -> L {
    let c = L::splat;
    let (zero, one, infinity) = (c(0.0), c(1.0), c(f64::INFINITY));
    let is_ordinary = zero.lt(x) & x.lt(infinity) & y.abs().lt(infinity);
    if !(!is_ordinary).any() {
        return positive_power(x, y);
    }
    let magnitude = x.abs();
    let mut result = positive_power(magnitude, y);
    let of_zero = L::select(y.lt(zero), infinity, zero);
    let of_infinity = L::select(y.lt(zero), zero, infinity);
    result = L::select(magnitude.eq(zero), of_zero, result);
    result = L::select(magnitude.eq(infinity), of_infinity, result);
    let is_whole = y.trunc().eq(y);
    let half = y * c(0.5);
    let is_odd = is_whole & !half.trunc().eq(half);
    let sign = L::select(sign_bit(x) & is_odd, L::from_bits(L::Bits::splat(SIGN_BIT)), zero);
    result = L::from_bits(result.to_bits() | sign.to_bits());
    let is_invalid = x.lt(zero) & !magnitude.eq(infinity) & !is_whole;
    result = L::select(is_invalid, c(f64::NAN), result);
    result = L::select(x.is_nan() | y.is_nan(), x + y, result);
    L::select(y.eq(zero) | x.eq(one), one, result)
}
