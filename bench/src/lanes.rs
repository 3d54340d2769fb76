//! What hand-written lane code is made of: rows of lanes, parameters, and mathematics that vectorizes.

/// One variable of all lanes, aligned as the interpreter's rows are.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Row<const LANES: usize>(pub [f64; LANES]);

/// Where hand-written code has its parameters from.
pub trait Parameters<const LANES: usize> {
    /// Parameter `index` in a lane.
    fn get(&self, index: usize, lane: usize) -> f64;
}

/// Parameters known to the compiler: what a model with literals becomes.
pub struct Literal<V>(pub V);

/// Numbers that are constants of a type, so that the compiler folds them.
pub trait Values {
    /// The numbers.
    const VALUES: &'static [f64];
}

impl<V: Values, const LANES: usize> Parameters<LANES> for Literal<V> {
    #[inline(always)]
    fn get(&self, index: usize, _lane: usize) -> f64 {
        V::VALUES[index]
    }
}

/// A value of its own for every parameter and lane, as in a search over parameters.
pub struct PerLane<'a, const LANES: usize, const N: usize>(pub &'a [Row<LANES>; N]);

impl<const LANES: usize, const N: usize> Parameters<LANES> for PerLane<'_, LANES, N> {
    #[inline(always)]
    fn get(&self, index: usize, lane: usize) -> f64 {
        self.0[index].0[lane]
    }
}

/// Elementary functions for hand-written code.
pub trait Mathematics {
    /// e^x
    fn exp(x: f64) -> f64;
    /// Sine and cosine.
    fn sin_cos(x: f64) -> (f64, f64);
}

/// The standard library's, called for one lane after the other.
pub struct Standard;

impl Mathematics for Standard {
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        x.exp()
    }
    #[inline(always)]
    fn sin_cos(x: f64) -> (f64, f64) {
        x.sin_cos()
    }
}

/// Short polynomials for moderate arguments without NaN or infinity, a few units in the last place: the compiler
/// inlines and vectorizes them. Faster than anything that must be right everywhere.
pub struct Inline;

/// 1.5 * 2^52: adding it leaves the nearest whole number in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// c_0 + x (c_1 + x (c_2 + ..)), written out before the compiler looks for lanes.
macro_rules! horner {
    ($x:expr; $last:expr) => { $last };
    ($x:expr; $first:expr, $($rest:expr),+) => { $x.mul_add(horner!($x; $($rest),+), $first) };
}

impl Mathematics for Inline {
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUNDER);
        let k = shifted - ROUNDER;
        let r = k.mul_add(-1.908_214_929_270_587_7e-10, k.mul_add(-6.931_471_803_691_238e-1, x));
        let sum = horner!(r; 1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5_040.0,
            1.0 / 40_320.0, 1.0 / 362_880.0, 1.0 / 3_628_800.0, 1.0 / 39_916_800.0);
        sum * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
    }

    #[inline(always)]
    fn sin_cos(x: f64) -> (f64, f64) {
        let shifted = x.mul_add(std::f64::consts::FRAC_2_PI, ROUNDER);
        let k = shifted - ROUNDER;
        // pi/2 in three parts.
        let r = k.mul_add(-1.570_796_326_734_125_6, x);
        let r = k.mul_add(-6.077_100_506_303_966e-11, r);
        let r = k.mul_add(-2.022_266_248_795_950_7e-21, r);
        let z = r * r;
        let sine = horner!(z; -1.666_666_666_666_663_2e-1, 8.333_333_333_322_49e-3, -1.984_126_982_985_795e-4,
            2.755_731_370_707_006_8e-6, -2.505_076_025_340_686_3e-8, 1.589_690_995_211_55e-10);
        let sine = (r * z).mul_add(sine, r);
        let cosine = horner!(z; 1.0, -0.5, 4.166_666_666_666_66e-2, -1.388_888_888_887_411e-3,
            2.480_158_728_947_673e-5, -2.755_731_435_139_066_3e-7, 2.087_572_321_298_175e-9,
            -1.135_964_755_778_819_5e-11);
        let quarter_turns = shifted.to_bits();
        let is_odd = quarter_turns & 1 == 1;
        let s = if is_odd { cosine } else { sine };
        let c = if is_odd { sine } else { cosine };
        let sine_sign = (quarter_turns & 2) << 62;
        let cosine_sign = (quarter_turns.wrapping_add(1) & 2) << 62;
        (f64::from_bits(s.to_bits() ^ sine_sign), f64::from_bits(c.to_bits() ^ cosine_sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_functions_agree_with_the_standard_library() {
        for k in -4000..4000 {
            let x = f64::from(k) * 0.01;
            let (s, c) = Inline::sin_cos(x);
            assert!((s - x.sin()).abs() < 1e-15 && (c - x.cos()).abs() < 1e-15, "{x}");
            assert!((Inline::exp(x) / x.exp() - 1.0).abs() < 1e-14, "{x}");
        }
    }
}
