//! Normal random numbers for many lanes at once, by the method of Box and Muller [@box1958].
//!
//! ```text
//! a = sqrt(-2 ln u1) cos(2 pi u2),     b = sqrt(-2 ln u1) sin(2 pi u2)
//! ```
//!
//! Logarithm, sine and cosine are polynomials in additions, products and quotients only, each rounded as IEEE 754 says, so that every
//! machine gives the same bits; their error is a few units in the last place, far below what a sample could show.

use super::philox::philox;

const WIDTH: usize = 8;

/// Which numbers are wanted: everything of the counter but the realization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    /// The seed as a key.
    pub key: [u32; 2],
    /// The step.
    pub step: u32,
    /// Experiment and pair of components, see [`super::philox::experiment_and_pair`].
    pub pair: u32,
    /// The purpose, see [`super::philox::Purpose::word`].
    pub purpose: u32,
}

/// Writes two normal numbers for each realization.
pub fn fill(draw: Draw, realizations: &[u32], first: &mut [f64], second: &mut [f64]) {
    let lanes = realizations.chunks(WIDTH).zip(first.chunks_mut(WIDTH)).zip(second.chunks_mut(WIDTH));
    for ((realizations, first), second) in lanes {
        let n = realizations.len().min(first.len()).min(second.len());
        let mut lanes = [0; WIDTH];
        lanes[..n].copy_from_slice(&realizations[..n]);
        let pair = eight(draw, &lanes);
        first[..n].copy_from_slice(&pair[0][..n]);
        second[..n].copy_from_slice(&pair[1][..n]);
    }
}

/// Two normal numbers for one realization.
#[must_use]
pub fn pair(draw: Draw, realization: u32) -> [f64; 2] {
    let pair = eight(draw, &[realization; WIDTH]);
    [pair[0][0], pair[1][0]]
}

#[inline]
fn eight(draw: Draw, realizations: &[u32; WIDTH]) -> [[f64; WIDTH]; 2] {
    let mut bits = [[0u64; WIDTH]; 2];
    for lane in 0..WIDTH {
        let words = philox([draw.step, realizations[lane], draw.pair, draw.purpose], draw.key);
        bits[0][lane] = u64::from(words[0]) << 32 | u64::from(words[1]);
        bits[1][lane] = u64::from(words[2]) << 32 | u64::from(words[3]);
    }
    let mut result = [[0.0; WIDTH]; 2];
    for lane in 0..WIDTH {
        // In 1..2; the first is turned around so that its logarithm is finite.
        let u1 = 2.0 - f64::from_bits(bits[0][lane] >> 12 | 0x3FF0_0000_0000_0000);
        let u2 = f64::from_bits(bits[1][lane] >> 12 | 0x3FF0_0000_0000_0000) - 1.0;
        let radius = (-2.0 * logarithm(u1)).sqrt();
        let [sine, cosine] = sine_cosine(u2);
        result[0][lane] = radius * cosine;
        result[1][lane] = radius * sine;
    }
    result
}

/// ln x for normal x > 0: x = 2^e m with m near 1, ln m = 2 artanh((m - 1) / (m + 1)).
#[inline]
fn logarithm(x: f64) -> f64 {
    const HALF_ROOT: u64 = 0x3FE6_A09E_667F_3BCD;
    let bits = x.to_bits();
    let exponent = (bits.wrapping_sub(HALF_ROOT) as i64) >> 52;
    let m = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 2.0 / 21.0;
    for coefficient in
        [2.0 / 19.0, 2.0 / 17.0, 2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0]
    {
        sum = sum * z + coefficient;
    }
    exponent as f64 * std::f64::consts::LN_2 + sum * s
}

/// sin and cos of 2 pi u for 0 <= u < 1.
#[inline]
fn sine_cosine(u: f64) -> [f64; 2] {
    let y = u * 4.0;
    // Adding and taking away 1.5 * 2^52 rounds to the nearest whole number.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let shifted = y + ROUNDER;
    let quarter = shifted - ROUNDER;
    let r = (y - quarter) * std::f64::consts::FRAC_PI_2;
    let z = r * r;
    let mut sine = -7.647_163_731_819_816e-13;
    for coefficient in [
        1.605_904_383_682_161_5e-10,
        -2.505_210_838_544_172e-8,
        2.755_731_922_398_589e-6,
        -1.984_126_984_126_984e-4,
        8.333_333_333_333_333e-3,
        -1.666_666_666_666_666_6e-1,
    ] {
        sine = sine * z + coefficient;
    }
    let sine = sine * z * r + r;
    let mut cosine = 4.779_477_332_387_385e-14;
    for coefficient in [
        -1.147_074_559_772_972_4e-11,
        2.087_675_698_786_81e-9,
        -2.755_731_922_398_589e-7,
        2.480_158_730_158_73e-5,
        -1.388_888_888_888_889e-3,
        4.166_666_666_666_666_4e-2,
        -0.5,
        1.0,
    ] {
        cosine = cosine * z + coefficient;
    }
    let quadrant = shifted.to_bits();
    let (a, b) = if quadrant & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
    let sine_sign = (quadrant & 2) << 62;
    let cosine_sign = (quadrant.wrapping_add(1) & 2) << 62;
    [f64::from_bits(a.to_bits() ^ sine_sign), f64::from_bits(b.to_bits() ^ cosine_sign)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elementary_functions_are_accurate() {
        for at in 1..4000u32 {
            let u = f64::from(at) / 4000.0;
            assert!((logarithm(u) - u.ln()).abs() <= 4e-16 * (1.0 + u.ln().abs()), "{u}");
            let angle = 2.0 * std::f64::consts::PI * u;
            let [sine, cosine] = sine_cosine(u);
            assert!((sine - angle.sin()).abs() < 1e-15 && (cosine - angle.cos()).abs() < 1e-15, "{u}");
        }
        assert!((logarithm(2f64.powi(-52)) + 52.0 * 2f64.ln()).abs() < 1e-14);
        assert_eq!(logarithm(1.0), 0.0);
    }

    #[test]
    fn numbers_are_standard_normal() {
        let realizations: Vec<u32> = (0..1000).collect();
        let (mut a, mut b) = (vec![0.0; 1000], vec![0.0; 1000]);
        let mut moments = [0.0f64; 5];
        let mut product = 0.0;
        for step in 0..200 {
            fill(Draw { key: [7, 0], step, pair: 0, purpose: 0 }, &realizations, &mut a, &mut b);
            for (x, y) in a.iter().zip(&b) {
                for (power, moment) in moments.iter_mut().enumerate() {
                    *moment += x.powi(power as i32) + y.powi(power as i32);
                }
                product += x * y;
            }
        }
        let n = moments[0];
        // Four standard errors of each moment.
        assert!((moments[1] / n).abs() < 4.0 / n.sqrt());
        assert!((moments[2] / n - 1.0).abs() < 4.0 * (2.0 / n).sqrt());
        assert!((moments[3] / n).abs() < 4.0 * (15.0 / n).sqrt());
        assert!((moments[4] / n - 3.0).abs() < 4.0 * (96.0 / n).sqrt());
        assert!((product / (n / 2.0)).abs() < 4.0 / (n / 2.0).sqrt());
    }

    #[test]
    fn a_number_does_not_depend_on_its_neighbours() {
        let draw = Draw { key: [1, 2], step: 3, pair: 4, purpose: 5 };
        let realizations: Vec<u32> = (0..13).collect();
        let (mut a, mut b) = (vec![0.0; 13], vec![0.0; 13]);
        fill(draw, &realizations, &mut a, &mut b);
        for (lane, &realization) in realizations.iter().enumerate() {
            assert_eq!(pair(draw, realization), [a[lane], b[lane]]);
        }
    }
}
