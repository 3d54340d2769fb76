//! State transfer against analytic distribution solutions, constant and time-varying.

mod hidden;

use daesy_pencil::{
    CoefficientJet, Discontinuity, Mat, Pencil, PencilError, PencilOptions, TransferOptions, split_finite_infinite,
    state_transfer_time_varying, transfer_subspaces_time_varying,
};
use fastrand::Rng;

fn matrix(rows: &[&[f64]]) -> Mat<f64> {
    let cols = rows.first().map_or(0, |r| r.len());
    Mat::from_fn(rows.len(), cols, |i, j| rows[i][j])
}

fn times(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)] * x[j]).sum()).collect()
}

fn assert_close(a: &[f64], b: &[f64], tolerance: f64, what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    let size = b.iter().fold(1.0f64, |s, x| s.max(x.abs()));
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= tolerance * size, "{what}: {a:?} not {b:?}");
    }
}

/// `x1 = u`, `x2 = x1'`, `x3 = x2'`, `x4 = x3'`, and `x5' = -x5 + x3`: index 4 with one state driven by `u''`.
fn chain() -> (Mat<f64>, Mat<f64>, Mat<f64>) {
    let mut e = Mat::zeros(5, 5);
    let mut f = Mat::zeros(5, 5);
    f[(0, 0)] = -1.0;
    for i in 1..4 {
        e[(i, i - 1)] = 1.0;
        f[(i, i)] = 1.0;
    }
    e[(4, 4)] = 1.0;
    f[(4, 4)] = -1.0;
    f[(4, 2)] = 1.0;
    let g = matrix(&[&[1.], &[0.], &[0.], &[0.], &[0.]]);
    (e, f, g)
}

struct Expected {
    event: Discontinuity,
    jump: [f64; 5],
    impulses: Vec<[f64; 5]>,
}

/// Solutions by hand: with `u = H`, `x = (H, delta, delta', delta'')` and `x5 = delta - exp(-t) H`; and so on.
fn analytic() -> Vec<Expected> {
    vec![
        Expected {
            event: Discontinuity::step(&[1.0]),
            jump: [1., 0., 0., 0., -1.],
            impulses: vec![[0., 1., 0., 0., 1.], [0., 0., 1., 0., 0.], [0., 0., 0., 1., 0.]],
        },
        Expected {
            event: Discontinuity::kink(1, &[1.0]),
            jump: [0., 1., 0., 0., 1.],
            impulses: vec![[0., 0., 1., 0., 0.], [0., 0., 0., 1., 0.]],
        },
        Expected {
            event: Discontinuity::kink(2, &[3.0]),
            jump: [0., 0., 3., 0., 0.],
            impulses: vec![[0., 0., 0., 3., 0.]],
        },
        Expected { event: Discontinuity::kink(3, &[1.0]), jump: [0., 0., 0., 1., 0.], impulses: vec![] },
        Expected { event: Discontinuity::kink(4, &[1.0]), jump: [0.; 5], impulses: vec![] },
        Expected {
            event: Discontinuity::impulse(&[1.0]),
            jump: [0., 0., 0., 0., 1.],
            impulses: vec![[1., 0., 0., 0., -1.], [0., 1., 0., 0., 1.], [0., 0., 1., 0., 0.], [0., 0., 0., 1., 0.]],
        },
    ]
}

#[test]
fn index_4_chain_agrees_with_the_distribution_solution() {
    let (e, f, g) = chain();
    let split = split_finite_infinite(&Pencil::new(e.clone(), f.clone()).expect("fits"), &PencilOptions::default())
        .expect("regular");
    assert_eq!((split.index, split.n_finite), (4, 1));
    let jet = CoefficientJet::constant(e, f).with_input(g.clone());
    for (case, expected) in analytic().iter().enumerate() {
        let direct = split.state_transfer(&g, &expected.event).expect("fits");
        let varying =
            state_transfer_time_varying(&jet, 0.0, &expected.event, &TransferOptions::default()).expect("unique");
        assert_eq!(varying.index, 4);
        for (found, how) in [(&direct, "direct"), (&varying.transfer, "array")] {
            assert_close(&found.jump, &expected.jump, 1e-12, how);
            assert_eq!(found.impulses.len(), expected.impulses.len(), "{how} case {case}");
            for (a, b) in found.impulses.iter().zip(&expected.impulses) {
                assert_close(a, b, 1e-12, how);
            }
        }
        assert_eq!(direct.continuous.len(), varying.transfer.continuous.len(), "case {case}");
    }
    // x5 itself jumps with a step of u, but x5 - x2 + x1 does not: continuity of the row E_1 x alone would say x5.
    let names = ["x1", "x2", "x3", "x4", "x5"];
    let spaces = split.transfer_subspaces();
    assert_eq!(spaces.continuous[0].describe(&names), "x1 - x2 + x5");
}

#[test]
fn hidden_chain_agrees_with_the_distribution_solution() {
    let mut rng = Rng::with_seed(31);
    let (e, f, g) = chain();
    for round in 0..20 {
        let p = hidden::conditioned(&mut rng, 5, 20.0);
        let q = hidden::conditioned(&mut rng, 5, 20.0);
        let scale: f64 = if round % 2 == 0 { 1.0 } else { 1e6 };
        let row = |i: usize| scale.powi(i as i32 % 3 - 1);
        let wrap = |x: &Mat<f64>| Mat::from_fn(5, x.ncols(), |i, j| x[(i, j)] * row(i));
        let (pe, pf, pg) = (wrap(&(&p * &e * &q)), wrap(&(&p * &f * &q)), wrap(&(&p * &g)));
        use faer::linalg::solvers::DenseSolveCore;
        let inverse = q.full_piv_lu().inverse();
        let split =
            split_finite_infinite(&Pencil::new(pe.clone(), pf.clone()).expect("fits"), &PencilOptions::default())
                .expect("regular");
        assert_eq!(split.index, 4);
        let jet = CoefficientJet::constant(pe, pf).with_input(pg.clone());
        for expected in analytic() {
            let direct = split.state_transfer(&pg, &expected.event).expect("fits");
            let varying =
                state_transfer_time_varying(&jet, 0.0, &expected.event, &TransferOptions::default()).expect("unique");
            for found in [&direct, &varying.transfer] {
                assert_close(&found.jump, &times(&inverse, &expected.jump), 1e-8, "jump");
                for (k, b) in expected.impulses.iter().enumerate() {
                    assert_close(&found.impulses[k], &times(&inverse, b), 1e-8, "impulse");
                }
                for c in &found.continuous {
                    let size: f64 = c.coefficients.iter().map(|x| x.abs()).fold(0.0, f64::max)
                        * found.jump.iter().map(|x| x.abs()).fold(0.0, f64::max);
                    assert!(c.value(&found.jump).abs() < 1e-7 * size.max(1e-30));
                }
            }
        }
    }
}

/// A polynomial in `t` with matrix coefficients.
#[derive(Clone)]
struct Polynomial(Vec<Mat<f64>>);

impl Polynomial {
    fn random(rng: &mut Rng, n: usize, degree: usize) -> Self {
        let mut list = vec![hidden::conditioned(rng, n, 3.0)];
        list.extend((0..degree).map(|_| hidden::gaussian(rng, n, n) * faer::Scale(0.3)));
        Self(list)
    }

    fn times(&self, other: &Self) -> Self {
        let mut out = vec![Mat::zeros(self.0[0].nrows(), other.0[0].ncols()); self.0.len() + other.0.len() - 1];
        for (i, a) in self.0.iter().enumerate() {
            for (j, b) in other.0.iter().enumerate() {
                out[i + j] += a * b;
            }
        }
        Self(out)
    }

    fn derivative(&self) -> Self {
        if self.0.len() == 1 {
            return Self(vec![Mat::zeros(self.0[0].nrows(), self.0[0].ncols())]);
        }
        Self(self.0.iter().enumerate().skip(1).map(|(k, a)| a * faer::Scale(k as f64)).collect())
    }

    fn minus(&self, other: &Self) -> Self {
        let zero = Mat::zeros(self.0[0].nrows(), self.0[0].ncols());
        Self(
            (0..self.0.len().max(other.0.len()))
                .map(|k| self.0.get(k).unwrap_or(&zero) - other.0.get(k).unwrap_or(&zero))
                .collect(),
        )
    }

    fn at(&self, t: f64) -> Mat<f64> {
        let mut out = Mat::zeros(self.0[0].nrows(), self.0[0].ncols());
        for a in self.0.iter().rev() {
            out = out * faer::Scale(t) + a;
        }
        out
    }

    fn jet(&self, t: f64, order: usize) -> Vec<Mat<f64>> {
        let mut out = Vec::new();
        let mut p = self.clone();
        for _ in 0..=order {
            out.push(p.at(t));
            p = p.derivative();
        }
        out
    }
}

/// `diag(I, N(t)) y' = diag(C, I) y + g`, hidden by `z = S(t)^-1 y` and `P(t)`; two states, `N` 3 x 3 of index 3.
struct HiddenVarying {
    e: Polynomial,
    f: Polynomial,
    p: Polynomial,
    s: Polynomial,
    n: Polynomial,
}

impl HiddenVarying {
    fn new(rng: &mut Rng) -> Self {
        let nilpotent = |rng: &mut Rng| {
            let mut m = Mat::zeros(5, 5);
            for (i, j) in [(2, 3), (2, 4), (3, 4)] {
                m[(i, j)] = 0.5 + rng.f64();
            }
            m
        };
        let mut n = Polynomial(vec![nilpotent(rng), nilpotent(rng), nilpotent(rng)]);
        n.0[0][(0, 0)] = 1.0;
        n.0[0][(1, 1)] = 1.0;
        let mut c = Polynomial(vec![Mat::identity(5, 5), Mat::zeros(5, 5)]);
        for k in 0..2 {
            for i in 0..2 {
                for j in 0..2 {
                    c.0[k][(i, j)] = hidden::normal(rng);
                }
            }
        }
        let (p, s) = (Polynomial::random(rng, 5, 2), Polynomial::random(rng, 5, 2));
        let e = p.times(&n).times(&s);
        let f = p.times(&c.times(&s).minus(&n.times(&s.derivative())));
        Self { e, f, p, s, n }
    }

    fn coefficients(&self) -> impl Fn(f64, usize) -> Result<CoefficientJet, PencilError> + '_ {
        |t, order| {
            Ok(CoefficientJet {
                e: self.e.jet(t, order),
                f: self.f.jet(t, order),
                input: self.p.jet(t, order),
                forcing: vec![],
            })
        }
    }
}

#[test]
fn time_varying_transfer_agrees_with_known_transformations() {
    let mut rng = Rng::with_seed(77);
    let mut frozen_was_wrong = 0;
    for _ in 0..20 {
        let system = HiddenVarying::new(&mut rng);
        let time = 0.4 * rng.f64();
        use faer::linalg::solvers::DenseSolveCore;
        let s: Vec<Mat<f64>> = system.s.jet(time, 2);
        let q0 = s[0].full_piv_lu().inverse();
        let q1 = -(&q0 * &s[1] * &q0);
        // A step in g_c (the last row): y_c = -H, y_b = -n_bc delta,
        // y_a = -n_ab (n_bc delta)' - n_ac delta = -n_bc (n_ab delta' - n_ab' delta) - n_ac delta.
        let (n0, n1) = (system.n.at(time), system.n.derivative().at(time));
        let (ab, ac, bc, dab) = (n0[(2, 3)], n0[(2, 4)], n0[(3, 4)], n1[(2, 3)]);
        let jump_y = [0.0, 0.0, 0.0, 0.0, -1.0];
        let delta_y = [0.0, 0.0, bc * dab - ac, -bc, 0.0];
        let slope_y = [0.0, 0.0, -ab * bc, 0.0, 0.0];
        // z = Q(t) y with Q delta' = Q0 delta' - Q1 delta; the jump of y_c also meets the impulses through nothing
        // else.
        let jump_z = times(&q0, &jump_y);
        let first = times(&q0, &delta_y);
        let second = times(&q1, &slope_y);
        let delta_z: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a - b).collect();
        let slope_z = times(&q0, &slope_y);
        let event = Discontinuity::step(&[0.0, 0.0, 0.0, 0.0, 1.0]);
        let coefficients = system.coefficients();
        let found =
            state_transfer_time_varying(&coefficients, time, &event, &TransferOptions::default()).expect("unique");
        assert_eq!(found.index, 3);
        assert_close(&found.transfer.jump, &jump_z, 1e-9, "jump");
        assert_close(&found.transfer.impulses[0], &delta_z, 1e-9, "delta");
        assert_close(&found.transfer.impulses[1], &slope_z, 1e-9, "delta'");
        assert_eq!(found.transfer.impulses.len(), 2);
        // An impulse in g_1 moves y_1 by 1 and nothing else.
        let event = Discontinuity::impulse(&[1.0, 0.0, 0.0, 0.0, 0.0]);
        let found =
            state_transfer_time_varying(&coefficients, time, &event, &TransferOptions::default()).expect("unique");
        assert_close(&found.transfer.jump, &times(&q0, &[1.0, 0.0, 0.0, 0.0, 0.0]), 1e-9, "impulse");
        assert!(found.transfer.impulses.is_empty());
        // The continuous combinations are the first two rows of S.
        let spaces = transfer_subspaces_time_varying(&coefficients, time, &TransferOptions::default()).expect("unique");
        assert_eq!(spaces.continuous.len(), 2);
        let rows = Mat::from_fn(5, 2, |i, j| s[0][(j, i)]);
        let basis = rows.qr().compute_thin_Q();
        for c in &spaces.continuous {
            let v = Mat::from_fn(5, 1, |i, _| c.coefficients[i]);
            let rest = &v - &basis * (basis.transpose() * &v);
            assert!(rest.norm_max() < 1e-8 * v.norm_max());
        }
        assert_eq!((spaces.impulsive.ncols(), spaces.nonimpulsive.ncols()), (2, 3));
        // Freezing the coefficients at the event is wrong.
        let pencil = Pencil::new(system.e.at(time), system.f.at(time)).expect("fits");
        let event = Discontinuity::step(&[0.0, 0.0, 0.0, 0.0, 1.0]);
        let frozen = split_finite_infinite(&pencil, &PencilOptions::default())
            .and_then(|split| split.state_transfer(&system.p.at(time), &event));
        let differs = frozen.map_or(true, |t| t.jump.iter().zip(&jump_z).any(|(a, b)| (a - b).abs() > 1e-6));
        frozen_was_wrong += usize::from(differs);
    }
    assert_eq!(frozen_was_wrong, 20);
}

#[test]
fn time_varying_step_agrees_with_a_stretched_input() {
    // Independent of any distribution calculus: z' of a quickly rising smooth input, solved in closed form.
    // E z' = F z + u with z2 = -t z1 + u2, z1' = z2' + u1 (index 1, time-varying): (1 + t) z1' = -z1 + u2' + u1.
    let coefficients = |t: f64, order: usize| {
        let mut f = vec![matrix(&[&[0., 0.], &[-t, -1.]])];
        if order > 0 {
            f.push(matrix(&[&[0., 0.], &[-1., 0.]]));
        }
        Ok(CoefficientJet {
            e: vec![matrix(&[&[1., -1.], &[0., 0.]])],
            f,
            input: vec![Mat::identity(2, 2)],
            forcing: vec![],
        })
    };
    let time = 0.5;
    let event = Discontinuity::step(&[0.0, 1.0]);
    let found = state_transfer_time_varying(&coefficients, time, &event, &TransferOptions::default()).expect("unique");
    // Integrating (1 + t) z1' over a short rise of u2 gives z1 = 1 / 1.5; then z2 = 1 - 0.5 / 1.5.
    assert_close(&found.transfer.jump, &[1.0 / 1.5, 1.0 - 0.5 / 1.5], 1e-12, "jump");
    assert_eq!(found.transfer.continuous[0].describe(&["z1", "z2"]), "z1 - z2");
}

#[test]
fn free_variables_make_the_transfer_not_unique() {
    // x1' = x2 + u with x2 free.
    let jet = CoefficientJet::constant(matrix(&[&[1., 0.]]), matrix(&[&[0., 1.]])).with_input(matrix(&[&[1.]]));
    let error = state_transfer_time_varying(&jet, 0.0, &Discontinuity::step(&[1.0]), &TransferOptions::default())
        .expect_err("free");
    assert!(matches!(error, PencilError::TransferNotUnique { ref variables } if variables.contains(&2)), "{error}");
}
