//! Disturbed plants as ordinary differential equations in minimal coordinates, by hand: what peers of ensembles get.
//!
//! Right sides are written once, for numbers and for numbers with derivatives, so that peers have exact Jacobians.

pub mod ida;

use std::ops::{Add, Mul, Neg, Sub};

/// A number, or one with derivatives.
pub trait Scalar:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + Add<f64, Output = Self>
    + Mul<f64, Output = Self>
{
    /// A number that depends on nothing.
    fn constant(value: f64) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Size.
    fn abs(self) -> Self;
    /// 1 / x
    fn inverse(self) -> Self;
}

impl Scalar for f64 {
    fn constant(value: f64) -> Self {
        value
    }
    fn sin(self) -> Self {
        self.sin()
    }
    fn cos(self) -> Self {
        self.cos()
    }
    fn abs(self) -> Self {
        self.abs()
    }
    fn inverse(self) -> Self {
        1.0 / self
    }
}

/// A number with its derivative along one direction.
#[derive(Clone, Copy, Debug)]
pub struct Dual {
    /// The number.
    pub value: f64,
    /// Its derivative.
    pub slope: f64,
}

impl Dual {
    fn chain(self, value: f64, slope: f64) -> Self {
        Self { value, slope: slope * self.slope }
    }
}

impl Add for Dual {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { value: self.value + other.value, slope: self.slope + other.slope }
    }
}

impl Sub for Dual {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Dual {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self { value: self.value * other.value, slope: self.slope * other.value + self.value * other.slope }
    }
}

impl Neg for Dual {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1.0
    }
}

impl Add<f64> for Dual {
    type Output = Self;
    fn add(self, other: f64) -> Self {
        Self { value: self.value + other, slope: self.slope }
    }
}

impl Mul<f64> for Dual {
    type Output = Self;
    fn mul(self, other: f64) -> Self {
        self.chain(self.value * other, other)
    }
}

impl Scalar for Dual {
    fn constant(value: f64) -> Self {
        Self { value, slope: 0.0 }
    }
    fn sin(self) -> Self {
        self.chain(self.value.sin(), self.value.cos())
    }
    fn cos(self) -> Self {
        self.chain(self.value.cos(), -self.value.sin())
    }
    fn abs(self) -> Self {
        self.chain(self.value.abs(), self.value.signum())
    }
    fn inverse(self) -> Self {
        let inverse = 1.0 / self.value;
        self.chain(inverse, -inverse * inverse)
    }
}

/// x' = f(x, u, w), one output.
pub trait Plant {
    /// The model for daesy: its text, or a file below `problems/`.
    const MODEL: Model;
    /// Its class.
    const CLASS: &'static str;
    /// Name of the output there.
    const OUTPUT: &'static str;
    /// Names of the disturbances there; the known input is `u`.
    const DISTURBANCES: &'static [&'static str];
    /// Number of states.
    const N: usize;
    /// Jacobians have no entries further from the diagonal; `None` if they are dense.
    const BAND: Option<usize>;
    /// Size of the known input and of the disturbances.
    const SIZES: [f64; 2];
    /// x' at states, the known input and disturbances.
    fn rates<T: Scalar>(x: &[T], u: f64, w: &[f64], rates: &mut [T]);
    /// The output.
    fn output(x: &[f64]) -> f64;
}

/// Where a model is.
#[derive(Clone, Copy, Debug)]
pub enum Model {
    /// Below `problems/`.
    File(&'static str),
    /// Itself.
    Text(&'static str),
}

/// `problems/crane` in the coordinates of trolley and angle.
pub struct Crane;

impl Plant for Crane {
    const MODEL: Model = Model::File("crane/model.mo");
    const CLASS: &'static str = "Crane";
    const OUTPUT: &'static str = "angle";
    const DISTURBANCES: &'static [&'static str] = &["w"];
    const N: usize = 4;
    const BAND: Option<usize> = None;
    const SIZES: [f64; 2] = [40.0, 4.0];

    fn rates<T: Scalar>(x: &[T], u: f64, w: &[f64], rates: &mut [T]) {
        const TROLLEY: f64 = 10.0;
        const LOAD: f64 = 4.0;
        const ROPE: f64 = 3.0;
        const GRAVITY: f64 = 9.81;
        const FRICTION: f64 = 8.0;
        const DRAG: f64 = 0.4;
        let &[_, v, angle, turn] = x else { return };
        let (sine, cosine) = (angle.sin(), angle.cos());
        let along = (v + cosine * turn * ROPE) * -DRAG + w[0];
        let upwards = sine * turn * (-DRAG * ROPE) + -LOAD * GRAVITY;
        // Forces on the load across the rope and along it.
        let across = along * cosine + upwards * sine;
        let pull = along * sine - upwards * cosine + turn * turn * (LOAD * ROPE);
        let rate = (v * -FRICTION + sine * pull + u) * (sine * sine * LOAD + TROLLEY).inverse();
        rates[0] = v;
        rates[1] = rate;
        rates[2] = turn;
        rates[3] = (across * (1.0 / LOAD) - rate * cosine) * (1.0 / ROPE);
    }

    fn output(x: &[f64]) -> f64 {
        x[2]
    }
}

/// `problems/suspension`.
pub struct Suspension;

impl Plant for Suspension {
    const MODEL: Model = Model::File("suspension/model.mo");
    const CLASS: &'static str = "Suspension";
    const OUTPUT: &'static str = "z";
    const DISTURBANCES: &'static [&'static str] = &["wf", "wr"];
    const N: usize = 9;
    const BAND: Option<usize> = None;
    const SIZES: [f64; 2] = [4000.0, 0.05];

    fn rates<T: Scalar>(x: &[T], u: f64, w: &[f64], rates: &mut [T]) {
        const BODY: f64 = 600.0;
        const INERTIA: f64 = 900.0;
        const AXLE: f64 = 35.0;
        const FRONT: f64 = 1.2;
        const REAR: f64 = 1.4;
        const SPRING: f64 = 18000.0;
        const DAMPER: f64 = 1200.0;
        const QUADRATIC: f64 = 1500.0;
        const TYRE: f64 = 160_000.0;
        const LAG: f64 = 0.3;
        let &[z, v, p, q, zf, vf, zr, vr, h] = x else { return };
        let (xf, xr) = (z + p * FRONT - zf, z - p * REAR - zr);
        let (df, dr) = (v + q * FRONT - vf, v - q * REAR - vr);
        let strut = |x: T, d: T| -(x * SPRING) - d * DAMPER - d.abs() * d * QUADRATIC;
        let (ff, fr) = (strut(xf, df), strut(xr, dr));
        let (gf, gr) = ((zf + -w[0]) * -TYRE, (zr + -w[1]) * -TYRE);
        let heat = (df * df + dr * dr) * DAMPER + (df.abs() * df * df + dr.abs() * dr * dr) * QUADRATIC;
        rates[0] = v;
        rates[1] = (ff + fr + u) * (1.0 / BODY);
        rates[2] = q;
        rates[3] = (ff * FRONT - fr * REAR + FRONT * u) * (1.0 / INERTIA);
        rates[4] = vf;
        rates[5] = (gf - ff) * (1.0 / AXLE);
        rates[6] = vr;
        rates[7] = (gr - fr) * (1.0 / AXLE);
        rates[8] = (heat - h) * (1.0 / LAG);
    }

    fn output(x: &[f64]) -> f64 {
        x[0]
    }
}

/// Fifteen coils and capacitors in a line, each capacitor with a load that grows with its voltage.
pub struct Circuit;

impl Circuit {
    const SECTIONS: usize = 15;
}

impl Plant for Circuit {
    const MODEL: Model = Model::Text(
        "model Circuit
  parameter Integer n = 15;
  parameter Real L = 0.1;
  parameter Real C = 0.1;
  parameter Real R = 0.2;
  parameter Real G = 0.05;
  input Real u;
  input Real w;
  Real i[n](each start = 0, each fixed = true);
  Real v[n](each start = 0, each fixed = true);
  Real y;
equation
  for k in 1:n loop
    L*der(i[k]) = (if k == 1 then u else v[max(k - 1, 1)]) - v[k] - R*i[k];
    C*der(v[k]) = i[k] - (if k == n then -w else i[min(k + 1, n)]) - G*(v[k] + v[k]^3);
  end for;
  y = v[n];
end Circuit;
",
    );
    const CLASS: &'static str = "Circuit";
    const OUTPUT: &'static str = "y";
    const DISTURBANCES: &'static [&'static str] = &["w"];
    const N: usize = 2 * Self::SECTIONS;
    const BAND: Option<usize> = Some(1);
    const SIZES: [f64; 2] = [10.0, 1.0];

    fn rates<T: Scalar>(x: &[T], u: f64, w: &[f64], rates: &mut [T]) {
        const COIL: f64 = 0.1;
        const CAPACITOR: f64 = 0.1;
        const RESISTANCE: f64 = 0.2;
        const LOAD: f64 = 0.05;
        for k in 0..Self::SECTIONS {
            let (i, v) = (x[2 * k], x[2 * k + 1]);
            let before = if k == 0 { T::constant(u) } else { x[2 * k - 1] };
            let after = if k + 1 == Self::SECTIONS { T::constant(-w[0]) } else { x[2 * k + 2] };
            rates[2 * k] = (before - v - i * RESISTANCE) * (1.0 / COIL);
            rates[2 * k + 1] = (i - after - (v + v * v * v) * LOAD) * (1.0 / CAPACITOR);
        }
    }

    fn output(x: &[f64]) -> f64 {
        x[2 * Self::SECTIONS - 1]
    }
}
