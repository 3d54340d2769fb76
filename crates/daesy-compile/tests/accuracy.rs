//! Every transcendental operation against arbitrary-precision arithmetic: at most two units in the last place,
//! everywhere.
//!
//! `DAESY_KERNEL_SAMPLES` sets the number of samples per function and range.

use astro_float_num::{BigFloat, Consts, RoundingMode};
use daesy_compile::{Binary, Unary};

const PRECISION: usize = 192;
const ROUNDING: RoundingMode = RoundingMode::ToEven;
const ALLOWED: f64 = 2.0;

fn n_samples() -> usize {
    std::env::var("DAESY_KERNEL_SAMPLES").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

/// The number itself, also a subnormal one (which the reference arithmetic does not convert by itself).
fn exact(x: f64) -> BigFloat {
    if !x.is_subnormal() {
        return BigFloat::from_f64(x, PRECISION);
    }
    let mut number = BigFloat::from_f64(x * 2f64.powi(600), PRECISION);
    let exponent = number.exponent().expect("a finite number has an exponent");
    number.set_exponent(exponent - 600);
    number
}

/// Leading digits and exponent: the number is digits * 2^exponent with digits in [1/2, 1).
fn leading(x: &BigFloat) -> Option<(f64, i32)> {
    let (words, _, _, exponent, _) = x.as_raw_parts()?;
    let top = *words.last()?;
    (top != 0).then(|| (top as f64 / 18_446_744_073_709_551_616.0, exponent))
}

fn ldexp(x: f64, exponent: i32) -> f64 {
    let first = exponent.clamp(-1000, 1000);
    let second = (exponent - first).clamp(-1000, 1000);
    x * 2f64.powi(first) * 2f64.powi(second)
}

/// Distance of `got` from the reference in units in the last place of the reference.
fn error_in_ulps(reference: &BigFloat, got: f64) -> f64 {
    if reference.is_nan() {
        return if got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.is_nan() {
        return f64::INFINITY;
    }
    let (digits, exponent) = match leading(reference) {
        Some(parts) => parts,
        None if reference.is_inf() => return if got.is_infinite() { 0.0 } else { f64::INFINITY },
        None => return if got == 0.0 { 0.0 } else { f64::INFINITY },
    };
    let unit = (exponent - 53).max(-1074);
    if exponent > 1024 || (exponent == 1024 && digits >= 1.0 - 2f64.powi(-53)) {
        // Overflow: infinity, or the largest double if the true value is that close.
        return if got.is_infinite() { 0.0 } else { f64::INFINITY };
    }
    if got.is_infinite() {
        let largest = exact(f64::MAX);
        let gap = largest.sub(&reference.abs(), PRECISION, ROUNDING);
        return leading(&gap).map_or(1.0, |(d, e)| 1.0 + ldexp(d, e - 971));
    }
    let difference = reference.sub(&exact(got), PRECISION, ROUNDING);
    leading(&difference).map_or(0.0, |(d, e)| ldexp(d, e - unit))
}

/// Numbers spread over [low, high], over magnitudes, and over all bit patterns.
struct Sampler {
    rng: fastrand::Rng,
}

impl Sampler {
    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.rng.f64()
    }
    /// Either sign, exponents between the given powers of two.
    fn spread(&mut self, low: f64, high: f64) -> f64 {
        let magnitude = (1.0 + self.rng.f64()) * 2f64.powf(self.uniform(low, high).floor());
        if self.rng.bool() { -magnitude } else { magnitude }
    }
    fn near(&mut self, centre: f64) -> f64 {
        centre * (1.0 + self.spread(-53.0, -1.0))
    }
    fn bits(&mut self) -> f64 {
        f64::from_bits(self.rng.u64(..))
    }
}

type Reference = fn(&BigFloat, &mut Consts) -> BigFloat;
type Draw = fn(&mut Sampler) -> f64;
type DrawTwo = fn(&mut Sampler) -> (f64, f64);

fn check(op: Unary, reference: Reference, draws: &[Draw]) {
    let mut sampler = Sampler { rng: fastrand::Rng::with_seed(op as u64 + 1) };
    let mut constants = Consts::new().expect("constants of the reference arithmetic");
    let mut worst = (0.0, 0.0);
    for draw in draws {
        for _ in 0..n_samples() {
            let x = draw(&mut sampler);
            if !x.is_finite() {
                continue;
            }
            let got = op.evaluate(x);
            let error = error_in_ulps(&reference(&exact(x), &mut constants), got);
            if error > worst.0 {
                worst = (error, x);
            }
        }
    }
    println!("{op:?}: worst error {:.3} ulp at {:e}", worst.0, worst.1);
    assert!(worst.0 <= ALLOWED, "{op:?}({:e}) = {:e} is off by {} ulp", worst.1, op.evaluate(worst.1), worst.0);
}

#[test]
fn exponential_is_accurate() {
    let draws: &[Draw] = &[
        |s| s.uniform(-746.0, 710.0),
        |s| s.spread(-60.0, 9.0),
        |s| s.uniform(-1.0, 1.0),
        |s| s.uniform(-746.0, -707.0),
    ];
    check(Unary::Exp, |x, c| x.exp(PRECISION, ROUNDING, c), draws);
}

#[test]
fn logarithms_are_accurate() {
    let draws: &[Draw] = &[
        |s| s.spread(-1074.0, 1023.0).abs(),
        |s| s.uniform(0.5, 2.0),
        |s| s.near(1.0),
        |s| s.spread(-1074.0, -1022.0).abs(),
        |s| 10f64.powi(s.rng.i32(-300..300)),
    ];
    check(Unary::Log, |x, c| x.ln(PRECISION, ROUNDING, c), draws);
    check(Unary::Log10, |x, c| x.log10(PRECISION, ROUNDING, c), draws);
}

#[test]
fn circular_functions_are_accurate() {
    let draws: &[Draw] = &[
        |s| s.uniform(-10.0, 10.0),
        |s| s.uniform(-2e6, 2e6),
        |s| s.spread(-1070.0, 21.0),
        |s| s.spread(20.0, 1023.0),
        |s| f64::from(s.rng.i32(-2000..2000)) * std::f64::consts::FRAC_PI_2,
        |s| f64::from(s.rng.i32(..)) * std::f64::consts::FRAC_PI_2,
        // Close to multiples of pi/2 as convergents of continued fractions give them.
        |s| [6381956970095103.0 * 2f64.powi(797), 5419351.0, 710.0, 22.0, 355.0, 103993.0, 52174.0][s.rng.usize(..7)],
    ];
    check(Unary::Sin, |x, c| x.sin(wide(x), ROUNDING, c), draws);
    check(Unary::Cos, |x, c| x.cos(wide(x), ROUNDING, c), draws);
    check(Unary::Tan, |x, c| x.tan(wide(x), ROUNDING, c), draws);
}

/// Enough digits for the reference to survive its own reduction.
fn wide(x: &BigFloat) -> usize {
    PRECISION + x.exponent().unwrap_or(0).max(0).unsigned_abs() as usize
}

#[test]
fn inverse_circular_functions_are_accurate() {
    let inside: &[Draw] = &[
        |s| s.uniform(-1.0, 1.0),
        |s| s.spread(-1070.0, -1.0),
        |s| s.uniform(0.45, 0.55),
        |s| (1.0 - s.spread(-53.0, -2.0).abs()) * if s.rng.bool() { 1.0 } else { -1.0 },
    ];
    check(Unary::Asin, |x, c| x.asin(PRECISION, ROUNDING, c), inside);
    check(Unary::Acos, |x, c| x.acos(PRECISION, ROUNDING, c), inside);
    let all: &[Draw] =
        &[|s| s.uniform(-4.0, 4.0), |s| s.spread(-1070.0, 1023.0), |s| s.spread(-10.0, 10.0), Sampler::bits];
    check(Unary::Atan, |x, c| x.atan(PRECISION, ROUNDING, c), all);
}

#[test]
fn hyperbolic_functions_are_accurate() {
    let draws: &[Draw] = &[
        |s| s.uniform(-712.0, 712.0),
        |s| s.uniform(-25.0, 25.0),
        |s| s.uniform(-1.0, 1.0),
        |s| s.spread(-1070.0, 4.0),
        |s| s.spread(-6.0, 2.0),
    ];
    check(Unary::Sinh, |x, c| x.sinh(PRECISION, ROUNDING, c), draws);
    check(Unary::Cosh, |x, c| x.cosh(PRECISION, ROUNDING, c), draws);
    check(Unary::Tanh, |x, c| x.tanh(PRECISION, ROUNDING, c), draws);
}

#[test]
fn powers_are_accurate() {
    let mut sampler = Sampler { rng: fastrand::Rng::with_seed(77) };
    let mut constants = Consts::new().expect("constants of the reference arithmetic");
    let draws: &[DrawTwo] = &[
        |s| (s.spread(-1070.0, 1023.0).abs(), s.uniform(-1.0, 1.0)),
        |s| (s.uniform(0.0, 10.0), s.uniform(-50.0, 50.0)),
        |s| (s.near(1.0).abs(), s.spread(0.0, 52.0)),
        |s| {
            // Results over the whole range of exponents, subnormal ones included.
            let x = s.spread(-1070.0, 1023.0).abs();
            (x, s.uniform(-1080.0, 1024.0) / x.log2())
        },
        |s| (s.uniform(1.0, 2.0), s.uniform(-1070.0, 1023.0)),
        |s| (-s.uniform(0.1, 10.0), f64::from(s.rng.i32(-30..30))),
        |s| (s.uniform(1.2, 1.25), s.uniform(-3000.0, 3000.0)),
        |s| (s.uniform(1.7, 1.75), s.uniform(-1000.0, 1000.0)),
    ];
    let mut worst = (0.0, 0.0, 0.0);
    for draw in draws {
        for _ in 0..n_samples() {
            let (x, y) = draw(&mut sampler);
            let got = Binary::Pow.evaluate(x, y);
            let magnitude = exact(x.abs());
            let exponent = exact(y);
            let power = magnitude.ln(PRECISION + 64, ROUNDING, &mut constants);
            let power = power.mul(&exponent, PRECISION + 64, ROUNDING).exp(PRECISION, ROUNDING, &mut constants);
            let reference = if x < 0.0 && y % 2.0 != 0.0 { power.neg() } else { power };
            let error = error_in_ulps(&reference, got);
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
    }
    println!("Pow: worst error {:.3} ulp at {:e} ^ {:e}", worst.0, worst.1, worst.2);
    assert!(worst.0 <= ALLOWED, "{:e} ^ {:e} is off by {} ulp", worst.1, worst.2, worst.0);
}

#[test]
fn angles_of_points_are_accurate() {
    let mut sampler = Sampler { rng: fastrand::Rng::with_seed(78) };
    let mut constants = Consts::new().expect("constants of the reference arithmetic");
    let draws: &[DrawTwo] = &[
        |s| (s.uniform(-1.0, 1.0), s.uniform(-1.0, 1.0)),
        |s| (s.spread(-1070.0, 1023.0), s.spread(-1070.0, 1023.0)),
        |s| (s.spread(-5.0, 5.0), s.spread(-5.0, 5.0)),
        |s| (s.spread(-60.0, 0.0), s.spread(-5.0, 5.0)),
    ];
    let mut worst = (0.0, 0.0, 0.0);
    for draw in draws {
        for _ in 0..n_samples() {
            let (y, x) = draw(&mut sampler);
            let got = Binary::Atan2.evaluate(y, x);
            let ratio = exact(y).div(&exact(x), PRECISION, ROUNDING);
            let mut reference = ratio.atan(PRECISION, ROUNDING, &mut constants);
            if x < 0.0 {
                let pi = constants.pi(PRECISION, ROUNDING);
                reference = if y < 0.0 {
                    reference.sub(&pi, PRECISION, ROUNDING)
                } else {
                    reference.add(&pi, PRECISION, ROUNDING)
                };
            }
            let error = error_in_ulps(&reference, got);
            if error > worst.0 {
                worst = (error, y, x);
            }
        }
    }
    println!("Atan2: worst error {:.3} ulp at ({:e}, {:e})", worst.0, worst.1, worst.2);
    assert!(worst.0 <= ALLOWED, "atan2({:e}, {:e}) is off by {} ulp", worst.1, worst.2, worst.0);
}

/// Largest difference to the platform's library that two errors of two units allow, for anything that is not special.
#[test]
fn platform_library_agrees() {
    type Pair = (Unary, fn(f64) -> f64);
    let pairs: [Pair; 13] = [
        (Unary::Exp, f64::exp),
        (Unary::Log, f64::ln),
        (Unary::Log10, f64::log10),
        (Unary::Sin, f64::sin),
        (Unary::Cos, f64::cos),
        (Unary::Tan, f64::tan),
        (Unary::Asin, f64::asin),
        (Unary::Acos, f64::acos),
        (Unary::Atan, f64::atan),
        (Unary::Sinh, f64::sinh),
        (Unary::Cosh, f64::cosh),
        (Unary::Tanh, f64::tanh),
        (Unary::Sqrt, f64::sqrt),
    ];
    let mut sampler = Sampler { rng: fastrand::Rng::with_seed(5) };
    for (op, library) in pairs {
        for k in 0..20_000 {
            let x = match k % 4 {
                0 => sampler.bits(),
                1 => sampler.uniform(-800.0, 800.0),
                2 => sampler.spread(-30.0, 3.0),
                _ => sampler.uniform(-1.0, 1.0),
            };
            let (got, expected) = (op.evaluate(x), library(x));
            if expected.is_nan() || got.is_nan() {
                assert_eq!(got.is_nan(), expected.is_nan(), "{op:?}({x:e})");
                continue;
            }
            let distance = (got.to_bits() as i64).wrapping_sub(expected.to_bits() as i64).unsigned_abs();
            assert!(got == expected || distance <= 4, "{op:?}({x:e}) = {got:e}, the library says {expected:e}");
        }
    }
}
