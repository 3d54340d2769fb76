//! The cartesian pendulum, index 3.

use super::{Model, rows, rows_mut};
use crate::expression::{Expression, FlatBuilder};
use crate::lanes::{Mathematics, Parameters, Row, Values};

/// m x'' = lambda x, m y'' = lambda y - m g, x^2 + y^2 = L^2.
#[derive(Clone, Copy, Default)]
pub struct Pendulum;

impl Values for Pendulum {
    const VALUES: &'static [f64] = &[0.3, 9.81, 1.2];
}

impl Model for Pendulum {
    const NAME: &'static str = "pendulum";
    const PARAMETERS: &'static [&'static str] = &["m", "g", "L"];
    const N_STATES: usize = 4;
    const N_UNKNOWNS: usize = 3;

    fn describe<'m>(model: &'m FlatBuilder, parameters: &[Expression<'m>]) {
        let &[m, g, length] = parameters else { unreachable!("three parameters") };
        let [x, y, lambda] = ["x", "y", "lambda"].map(|name| model.unknown(name));
        model.equation(m * x.der(2) - lambda.der(0) * x.der(0));
        model.equation(m * y.der(2) - (lambda.der(0) * y.der(0) - m * g));
        model.equation(x.der(0).squared() + y.der(0).squared() - length.squared());
    }

    #[inline(always)]
    fn residual<const LANES: usize, P: Parameters<LANES>, M: Mathematics>(
        _time: f64,
        states: &[Row<LANES>],
        unknowns: &[Row<LANES>],
        p: &P,
        residuals: &mut [Row<LANES>],
    ) {
        let [x, vx, y, vy] = rows::<LANES, 4>(states);
        let [ax, ay, lambda] = rows::<LANES, 3>(unknowns);
        let [force_x, force_y, length] = rows_mut::<LANES, 3>(residuals);
        for k in 0..LANES {
            let (m, g) = (p.get(0, k), p.get(1, k));
            let (x, y, vx, vy) = (x.0[k], y.0[k], vx.0[k], vy.0[k]);
            let (ax, ay, lambda) = (ax.0[k], ay.0[k], lambda.0[k]);
            force_x.0[k] = m * ax - lambda * x;
            force_y.0[k] = m * ay - (lambda * y - m * g);
            length.0[k] = 2.0 * (x * ax + vx * vx + y * ay + vy * vy);
        }
    }
}
