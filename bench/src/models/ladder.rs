//! A ladder of fifty sections with an inductor, a capacitor and a diode each: 100 states, index 0.

use super::{Model, rows, rows_mut};
use crate::expression::{Expression, FlatBuilder};
use crate::lanes::{Mathematics, Parameters, Row, Values};

/// L i_k' = v_(k-1) - v_k - R i_k, C v_k' = i_k - i_(k+1) - Is (exp(v_k / Vt) - 1) - G v_k, v_0 = sin(omega t).
#[derive(Clone, Copy, Default)]
pub struct Ladder;

const N_SECTIONS: usize = 50;

impl Values for Ladder {
    const VALUES: &'static [f64] = &[1e-3, 1e-6, 10.0, 1e-5, 1e-9, 0.026, 6.0];
}

impl Model for Ladder {
    const NAME: &'static str = "ladder, 100 states";
    const PARAMETERS: &'static [&'static str] = &["L", "C", "R", "G", "Is", "Vt", "omega"];
    const N_STATES: usize = 2 * N_SECTIONS;
    const N_UNKNOWNS: usize = 2 * N_SECTIONS;

    fn typical_states() -> Vec<f64> {
        [0.01, 0.3].repeat(N_SECTIONS)
    }

    fn describe<'m>(model: &'m FlatBuilder, p: &[Expression<'m>]) {
        let &[inductance, capacitance, resistance, leakage, saturation, thermal, omega] = p else {
            unreachable!("seven parameters")
        };
        let sections: Vec<_> =
            (1..=N_SECTIONS).map(|k| [model.unknown(format!("i[{k}]")), model.unknown(format!("v[{k}]"))]).collect();
        let mut before = (omega * model.time()).sin();
        for (k, [i, v]) in sections.iter().enumerate() {
            let next = sections.get(k + 1).map_or(model.number(0.0), |[i, _]| i.der(0));
            model.equation(inductance * i.der(1) - (before - v.der(0) - resistance * i.der(0)));
            let diode = saturation * ((v.der(0) / thermal).exp() - 1.0);
            model.equation(capacitance * v.der(1) - (i.der(0) - next - diode - leakage * v.der(0)));
            before = v.der(0);
        }
    }

    #[inline(always)]
    fn residual<const LANES: usize, P: Parameters<LANES>, M: Mathematics>(
        time: f64,
        states: &[Row<LANES>],
        unknowns: &[Row<LANES>],
        p: &P,
        residuals: &mut [Row<LANES>],
    ) {
        let s = rows::<LANES, { 2 * N_SECTIONS }>(states);
        let ds = rows::<LANES, { 2 * N_SECTIONS }>(unknowns);
        let out = rows_mut::<LANES, { 2 * N_SECTIONS }>(residuals);
        let source = Row(std::array::from_fn(|k| M::sin_cos(p.get(6, k) * time).0));
        let zero = Row([0.0; LANES]);
        for section in 0..N_SECTIONS {
            let before = if section == 0 { &source } else { &s[2 * section - 1] };
            let next = if section + 1 == N_SECTIONS { &zero } else { &s[2 * section + 2] };
            let (upper, lower) = out.split_at_mut(2 * section + 1);
            let own = Section {
                before,
                next,
                current: &s[2 * section],
                voltage: &s[2 * section + 1],
                current_rate: &ds[2 * section],
                voltage_rate: &ds[2 * section + 1],
            };
            own.residual::<P, M>(p, &mut upper[2 * section], &mut lower[0]);
        }
    }
}

/// What the two laws of a section read.
struct Section<'a, const LANES: usize> {
    before: &'a Row<LANES>,
    next: &'a Row<LANES>,
    current: &'a Row<LANES>,
    voltage: &'a Row<LANES>,
    current_rate: &'a Row<LANES>,
    voltage_rate: &'a Row<LANES>,
}

impl<const LANES: usize> Section<'_, LANES> {
    #[inline(always)]
    fn residual<P: Parameters<LANES>, M: Mathematics>(
        &self,
        p: &P,
        loop_law: &mut Row<LANES>,
        node_law: &mut Row<LANES>,
    ) {
        for k in 0..LANES {
            let (i, v) = (self.current.0[k], self.voltage.0[k]);
            loop_law.0[k] = p.get(0, k) * self.current_rate.0[k] - (self.before.0[k] - v - p.get(2, k) * i);
            let diode = p.get(4, k) * (M::exp(v / p.get(5, k)) - 1.0);
            node_law.0[k] = p.get(1, k) * self.voltage_rate.0[k] - (i - self.next.0[k] - diode - p.get(3, k) * v);
        }
    }
}
