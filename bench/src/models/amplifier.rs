//! The transistor amplifier [@hairer1996, sec. VI.1], as in the Test Set for IVP Solvers: eight node voltages, five
//! capacitors, two transistors.

use super::{Model, rows, rows_mut};
use crate::expression::{Expression, FlatBuilder};
use crate::lanes::{Mathematics, Parameters, Row, Values};

/// Kirchhoff's current law at eight nodes; index 1, though all eight derivatives occur.
#[derive(Clone, Copy, Default)]
pub struct Amplifier;

const UB: usize = 0;
const UF: usize = 1;
const ALPHA: usize = 2;
const BETA: usize = 3;
/// R0 to R9.
const R: usize = 4;
/// Before C1 to C5.
const C: usize = 13;

impl Values for Amplifier {
    const VALUES: &'static [f64] = &[
        6.0, 0.026, 0.99, 1e-6, 1000.0, 9000.0, 9000.0, 9000.0, 9000.0, 9000.0, 9000.0, 9000.0, 9000.0, 9000.0, 1e-6,
        2e-6, 3e-6, 4e-6, 5e-6,
    ];
}

impl Model for Amplifier {
    const NAME: &'static str = "amplifier";
    const PARAMETERS: &'static [&'static str] = &[
        "Ub", "UF", "alpha", "beta", "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "C1", "C2", "C3",
        "C4", "C5",
    ];
    const N_STATES: usize = 8;
    const N_UNKNOWNS: usize = 8;

    fn typical_states() -> Vec<f64> {
        vec![0.0, 3.0, 3.0, 6.0, 3.0, 3.0, 6.0, 0.0]
    }

    fn describe<'m>(model: &'m FlatBuilder, p: &[Expression<'m>]) {
        let nodes: Vec<_> = (1..=8).map(|k| model.unknown(format!("U{k}"))).collect();
        let u = |k: usize| nodes[k - 1].der(0);
        let du = |k: usize| nodes[k - 1].der(1);
        let r = |k: usize| p[R + k];
        let c = |k: usize| p[C + k];
        let (ub, uf, alpha, beta) = (p[UB], p[UF], p[ALPHA], p[BETA]);
        let emitter = |voltage: Expression<'m>| beta * ((voltage / uf).exp() - 1.0);
        let source = 0.1 * (200.0 * std::f64::consts::PI * model.time()).sin();
        let (g23, g56) = (emitter(u(2) - u(3)), emitter(u(5) - u(6)));
        model.equation(c(1) * (du(1) - du(2)) + (u(1) - source) / r(0));
        model.equation(c(1) * (du(1) - du(2)) - u(2) / r(1) - (u(2) - ub) / r(2) - (1.0 - alpha) * g23);
        model.equation(c(2) * du(3) + u(3) / r(3) - g23);
        model.equation(c(3) * (du(4) - du(5)) + (u(4) - ub) / r(4) + alpha * g23);
        model.equation(c(3) * (du(4) - du(5)) - u(5) / r(5) - (u(5) - ub) / r(6) - (1.0 - alpha) * g56);
        model.equation(c(4) * du(6) + u(6) / r(7) - g56);
        model.equation(c(5) * (du(7) - du(8)) + (u(7) - ub) / r(8) + alpha * g56);
        model.equation(c(5) * (du(7) - du(8)) - u(8) / r(9));
    }

    #[inline(always)]
    fn residual<const LANES: usize, P: Parameters<LANES>, M: Mathematics>(
        time: f64,
        states: &[Row<LANES>],
        unknowns: &[Row<LANES>],
        p: &P,
        residuals: &mut [Row<LANES>],
    ) {
        let u = rows::<LANES, 8>(states);
        let du = rows::<LANES, 8>(unknowns);
        let out = rows_mut::<LANES, 8>(residuals);
        let source = 0.1 * (200.0 * std::f64::consts::PI * time).sin();
        for k in 0..LANES {
            let [u1, u2, u3, u4, u5, u6, u7, u8] =
                [u[0].0[k], u[1].0[k], u[2].0[k], u[3].0[k], u[4].0[k], u[5].0[k], u[6].0[k], u[7].0[k]];
            let r = |index: usize| p.get(R + index, k);
            let c = |index: usize| p.get(C + index, k);
            let (ub, uf, alpha, beta) = (p.get(UB, k), p.get(UF, k), p.get(ALPHA, k), p.get(BETA, k));
            let g23 = beta * (M::exp((u2 - u3) / uf) - 1.0);
            let g56 = beta * (M::exp((u5 - u6) / uf) - 1.0);
            let i1 = c(1) * (du[0].0[k] - du[1].0[k]);
            let i3 = c(3) * (du[3].0[k] - du[4].0[k]);
            let i5 = c(5) * (du[6].0[k] - du[7].0[k]);
            out[0].0[k] = i1 + (u1 - source) / r(0);
            out[1].0[k] = i1 - u2 / r(1) - (u2 - ub) / r(2) - (1.0 - alpha) * g23;
            out[2].0[k] = c(2) * du[2].0[k] + u3 / r(3) - g23;
            out[3].0[k] = i3 + (u4 - ub) / r(4) + alpha * g23;
            out[4].0[k] = i3 - u5 / r(5) - (u5 - ub) / r(6) - (1.0 - alpha) * g56;
            out[5].0[k] = c(4) * du[5].0[k] + u6 / r(7) - g56;
            out[6].0[k] = i5 + (u7 - ub) / r(8) + alpha * g56;
            out[7].0[k] = i5 - u8 / r(9);
        }
    }
}
