//! Arc sine, arc cosine, arc tangent [@fdlibm, e_asin.c, e_acos.c, s_atan.c, e_atan2.c].

use crate::lanes::{Lanes, sign_bit, upper_half, with_sign_of};

const PI_2_HI: f64 = std::f64::consts::FRAC_PI_2;
const PI_2_LO: f64 = 6.123_233_995_736_766e-17;
const PI_LO: f64 = 1.224_646_799_147_353_2e-16;

const P: [f64; 6] = [
    1.666_666_666_666_666_6e-1,
    -3.255_658_186_224_009e-1,
    2.012_125_321_348_629_3e-1,
    -4.005_553_450_067_941e-2,
    7.915_349_942_898_145e-4,
    3.479_331_075_960_212e-5,
];
const Q: [f64; 4] =
    [-2.403_394_911_734_414, 2.020_945_760_233_505_7, -6.882_839_716_054_533e-1, 7.703_815_055_590_194e-2];

/// asin(sqrt(z)) / sqrt(z) - 1 for 0 <= z <= 1/4.
#[inline(always)]
fn arc_sine_rational<L: Lanes>(z: L) -> L {
    let c = L::splat;
    let p = z * (c(P[0]) + z * (c(P[1]) + z * (c(P[2]) + z * (c(P[3]) + z * (c(P[4]) + z * c(P[5]))))));
    let q = c(1.0) + z * (c(Q[0]) + z * (c(Q[1]) + z * (c(Q[2]) + z * c(Q[3]))));
    p / q
}

/// The pieces that arc sine and arc cosine share.
struct Pieces<L: Lanes> {
    is_inner: L::Mask,
    /// asin(t)/t - 1 at t = |x| inside, t = sqrt((1 - |x|)/2) outside
    ratio: L,
    /// t outside
    root: L,
    /// The upper half of `root` and what it lacks.
    root_hi: L,
    root_lo: L,
}

#[inline(always)]
fn pieces<L: Lanes>(x: L) -> Pieces<L> {
    let magnitude = x.abs();
    let half = L::splat(0.5);
    let is_inner = magnitude.lt(half);
    let z = L::select(is_inner, magnitude * magnitude, (L::splat(1.0) - magnitude) * half);
    let ratio = arc_sine_rational(z);
    let root = z.sqrt();
    let root_hi = upper_half(root);
    let sum = root + root_hi;
    let divisor = L::select(sum.eq(L::splat(0.0)), L::splat(1.0), sum);
    let root_lo = (z - root_hi * root_hi) / divisor;
    Pieces { is_inner, ratio, root, root_hi, root_lo }
}

/// Arc sine; NaN outside [-1, 1].
#[inline(always)]
pub(crate) fn asin<L: Lanes>(x: L) -> L {
    let Pieces { is_inner, ratio, root, root_hi, root_lo } = pieces(x);
    let magnitude = x.abs();
    let two = L::splat(2.0);
    let quarter = L::splat(0.5 * PI_2_HI);
    let inner = magnitude + magnitude * ratio;
    let outer = quarter - ((two * root * ratio - (L::splat(PI_2_LO) - two * root_lo)) - (quarter - two * root_hi));
    with_sign_of(L::select(is_inner, inner, outer), x)
}

/// Arc cosine; NaN outside [-1, 1].
#[inline(always)]
pub(crate) fn acos<L: Lanes>(x: L) -> L {
    let Pieces { is_inner, ratio, root, root_hi, root_lo } = pieces(x);
    let two = L::splat(2.0);
    let inner = L::splat(PI_2_HI) - (x - (L::splat(PI_2_LO) - x * ratio));
    let left = two * (L::splat(PI_2_HI) - (root + (ratio * root - L::splat(PI_2_LO))));
    let right = two * (root_hi + (ratio * root + root_lo));
    L::select(is_inner, inner, L::select(x.lt(L::splat(0.0)), left, right))
}

const A: [f64; 11] = [
    3.333_333_333_333_293e-1,
    -1.999_999_999_987_648_3e-1,
    1.428_571_427_250_346_6e-1,
    -1.111_111_040_546_235_6e-1,
    9.090_887_133_436_507e-2,
    -7.691_876_205_044_83e-2,
    6.661_073_137_387_531e-2,
    -5.833_570_133_790_573_5e-2,
    4.976_877_994_615_932_4e-2,
    -3.653_157_274_421_691_6e-2,
    1.628_582_011_536_578_2e-2,
];

/// atan(x) for x >= 0 (infinity included): from one of the centres 0, 1/2, 1, 3/2, infinity by
/// atan(x) = atan(c) + atan((x - c) / (1 + c x)).
#[inline(always)]
fn atan_of_magnitude<L: Lanes>(x: L) -> L {
    let c = L::splat;
    let one = c(1.0);
    let pick = |mask: L::Mask, new: [L; 4], old: [L; 4]| {
        [
            L::select(mask, new[0], old[0]),
            L::select(mask, new[1], old[1]),
            L::select(mask, new[2], old[2]),
            L::select(mask, new[3], old[3]),
        ]
    };
    // numerator, denominator, atan(centre) in two parts
    let mut choice = [-one, x, c(PI_2_HI), c(PI_2_LO)];
    choice = pick(
        x.lt(c(39.0 / 16.0)),
        [x - c(1.5), one + c(1.5) * x, c(9.827_937_232_473_29e-1), c(1.390_331_103_123_099_8e-17)],
        choice,
    );
    choice = pick(
        x.lt(c(19.0 / 16.0)),
        [x - one, x + one, c(std::f64::consts::FRAC_PI_4), c(3.061_616_997_868_383e-17)],
        choice,
    );
    choice = pick(
        x.lt(c(11.0 / 16.0)),
        [c(2.0) * x - one, c(2.0) + x, c(4.636_476_090_008_061e-1), c(2.269_877_745_296_168_7e-17)],
        choice,
    );
    choice = pick(x.lt(c(7.0 / 16.0)), [x, one, c(0.0), c(0.0)], choice);
    let [numerator, denominator, hi, lo] = choice;
    let t = numerator / denominator;
    let z = t * t;
    let w = z * z;
    let even = z * (c(A[0]) + w * (c(A[2]) + w * (c(A[4]) + w * (c(A[6]) + w * (c(A[8]) + w * c(A[10]))))));
    let odd = w * (c(A[1]) + w * (c(A[3]) + w * (c(A[5]) + w * (c(A[7]) + w * c(A[9])))));
    hi - ((t * (even + odd) - lo) - t)
}

/// Arc tangent.
#[inline(always)]
pub(crate) fn atan<L: Lanes>(x: L) -> L {
    with_sign_of(atan_of_magnitude(x.abs()), x)
}

/// The angle of the point (x, y), in [-pi, pi]; signed zeros and infinities as in IEEE 754.
#[inline(always)]
pub(crate) fn atan2<L: Lanes>(y: L, x: L) -> L {
    let (ax, ay) = (x.abs(), y.abs());
    let zero = L::splat(0.0);
    let infinity = L::splat(f64::INFINITY);
    // Where 0/0 or inf/inf would arise the ratio is 0 or 1 by convention.
    let ratio = ay / ax;
    let ratio = L::select(ay.eq(zero), L::select(ax.is_nan(), ax, zero), ratio);
    let ratio = L::select(ay.eq(infinity) & ax.eq(infinity), L::splat(1.0), ratio);
    let angle = atan_of_magnitude(ratio);
    let obtuse = L::splat(std::f64::consts::PI) - (angle - L::splat(PI_LO));
    // So steep that the angle is a right one on either side.
    let obtuse = L::select(L::splat(1_152_921_504_606_846_976.0).lt(ratio), angle, obtuse);
    with_sign_of(L::select(sign_bit(x), obtuse, angle), y)
}
