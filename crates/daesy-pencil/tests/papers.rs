//! The linear examples of the papers, and checks of the formulas against independent ones.

mod hidden;

use daesy_pencil::{
    CoefficientJet, ConsistencyRequest, DescriptorSystem, Discontinuity, InputRole, Mat, Pencil, PencilError,
    PencilOptions, PresamplingFilter, RankTolerance, ShapingFilter, SignalRole, StrangenessOptions, Wishes,
    insert_presampling_filter, reinterpret, split_finite_infinite, standard_form, strangeness_free, well_posedness,
    with_shaping_filter,
};
use fastrand::Rng;

fn matrix(rows: &[&[f64]]) -> Mat<f64> {
    let cols = rows.first().map_or(0, |r| r.len());
    Mat::from_fn(rows.len(), cols, |i, j| rows[i][j])
}

fn options() -> PencilOptions {
    PencilOptions::default()
}

fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() <= tolerance)
}

/// `(s E - F)^-1 b` by a plain LU.
fn resolvent(e: &Mat<f64>, f: &Mat<f64>, s: f64, b: &Mat<f64>) -> Mat<f64> {
    use faer::linalg::solvers::Solve;
    let a = Mat::from_fn(e.nrows(), e.ncols(), |i, j| s * e[(i, j)] - f[(i, j)]);
    a.full_piv_lu().solve(b)
}

/// Equation (10) of gerdin2007, with `y = z1 + z2`.
fn integrating_sampling() -> DescriptorSystem {
    let e = matrix(&[&[1., 0.], &[0., 0.]]);
    let f = matrix(&[&[-2., 0.], &[0., -1.]]);
    DescriptorSystem::new(Pencil::new(e, f).expect("fits"))
        .with_disturbance(matrix(&[&[1.], &[1.]]))
        .and_then(|s| s.with_measured(matrix(&[&[1., 1.]])))
        .expect("fits")
}

#[test]
fn gerdin_example_10_is_ill_posed_by_z2_until_presampled() {
    let system = integrating_sampling();
    let verdict = well_posedness(&system, &[0], &options()).expect("regular");
    assert!(!verdict.is_well_posed);
    assert_eq!(verdict.infinite_variables, vec![1]);
    let y = &verdict.signals[0];
    assert_eq!((y.role, y.finite_variance, y.presampling_order), (SignalRole::Measured, false, 1));
    assert_eq!(y.infinite_variables, vec![1]);
    let culprit = y.culprit.expect("named");
    assert_eq!((culprit.disturbance, culprit.differentiations, culprit.pole_excess_needed), (0, 0, 2));

    let filter = PresamplingFilter { role: SignalRole::Measured, signal: 0, time_constant: 0.01, order: 1 };
    let filtered = insert_presampling_filter(&system, &filter).expect("fits");
    let verdict = well_posedness(&filtered, &[0], &options()).expect("regular");
    assert!(verdict.is_well_posed);
    // z2 itself still has infinite variance; only the measurement was repaired.
    assert_eq!(verdict.infinite_variables, vec![1]);
    // The paper's own form: z3' = -100 z3 + 100 z1 + 100 v1.
    let form = standard_form(&filtered, &options()).expect("regular");
    let rates: Vec<f64> = form.split.finite_eigenvalues().expect("converges").iter().map(|l| l.re).collect();
    assert!(close(&rates, &[-100.0, -2.0], 1e-9));
    // Transfer function from v1 to y: (1/(s+2) + 1) / (0.01 s + 1).
    let s = 3.0;
    let x = resolvent(&Mat::identity(2, 2), &form.dynamics, s, &form.noise);
    let y = &form.measured.state * x;
    assert!((y[(0, 0)] - (1.0 / (s + 2.0) + 1.0) / (0.01 * s + 1.0)).abs() < 1e-12);
}

#[test]
fn coloured_noise_makes_gerdin_example_10_well_posed() {
    let system = integrating_sampling();
    assert!(well_posedness(&system, &[2], &options()).expect("regular").is_well_posed);
    let filter =
        ShapingFilter::new(matrix(&[&[-1.0]]), matrix(&[&[1.0]]), matrix(&[&[1.0]]), matrix(&[&[0.0]])).expect("fits");
    assert_eq!(filter.pole_excess(), vec![Some(2)]);
    let shaped = with_shaping_filter(&system, &filter).expect("fits");
    assert!(well_posedness(&shaped, &[0], &options()).expect("regular").is_well_posed);
    let form = standard_form(&shaped, &options()).expect("regular");
    assert_eq!(form.dynamics.nrows(), 2);
    assert!(form.measured.disturbance_terms.iter().all(|t| t.norm_max() == 0.0));
}

#[test]
fn bad_pole_excess_is_refused() {
    let system = integrating_sampling();
    let error = well_posedness(&system, &[3], &options()).expect_err("odd");
    assert_eq!(error, PencilError::BadPoleExcess { disturbance: 1, pole_excess: 3 });
    let error = well_posedness(&system, &[0, 0], &options()).expect_err("two");
    assert!(error.to_string().contains("one pole excess per column of J"));
}

#[test]
fn pole_excess_of_shaping_filters() {
    // w1 = 1 / (s^2 + 0.8 s + 16), w2 = (s + 1) times that, w3 = w1 plus white noise.
    let filter = ShapingFilter::new(
        matrix(&[&[0., 1.], &[-16., -0.8]]),
        matrix(&[&[0., 0.], &[1., 0.]]),
        matrix(&[&[1., 0.], &[1., 1.], &[1., 0.], &[0., 0.]]),
        matrix(&[&[0., 0.], &[0., 0.], &[0., 0.1], &[0., 0.]]),
    )
    .expect("fits");
    assert_eq!(filter.pole_excess(), vec![Some(4), Some(2), Some(0), None]);
}

/// Condition (8) of gerdin2007, literally: powers of `Ebar`, projected along `R(Ebar^n)` on `N(Ebar^n)`.
fn theorem_3_holds(e: &Mat<f64>, f: &Mat<f64>, j: &Mat<f64>, h: &Mat<f64>, p: usize) -> bool {
    let n = e.nrows();
    let minus = Mat::from_fn(n, n, |a, b| -f[(a, b)]);
    // Any lambda will do in exact arithmetic; the one with the smallest resolvent does in ours.
    let size = |s: f64| resolvent(e, &minus, s, &Mat::identity(n, n)).norm_l2();
    let lambda = [0.7, -1.3, 2.9, -4.1].into_iter().min_by(|a, b| size(*a).total_cmp(&size(*b))).expect("four");
    let ebar = resolvent(e, &minus, lambda, e);
    let mut power = Mat::<f64>::identity(n, n);
    for _ in 0..n {
        power = &power * &ebar;
    }
    let dec = power.svd().expect("converges");
    let s: Vec<f64> = dec.S().column_vector().iter().copied().collect();
    let rank = s.iter().filter(|x| **x > 1e-7 * s[0]).count();
    let mut basis = Mat::zeros(n, n);
    for k in 0..n {
        for i in 0..n {
            basis[(i, k)] = if k < rank { dec.U()[(i, k)] } else { dec.V()[(i, k)] };
        }
    }
    let mut column = resolvent(e, &minus, lambda, j);
    for step in 0..=n {
        if step >= p {
            use faer::linalg::solvers::Solve;
            let mut coordinates = basis.full_piv_lu().solve(&column);
            for i in 0..rank {
                coordinates[(i, 0)] = 0.0;
            }
            if (h * (&basis * coordinates)).norm_max() > 1e-7 {
                return false;
            }
        }
        column = &ebar * &column;
    }
    true
}

#[test]
fn well_posedness_agrees_with_theorem_3_as_printed() {
    let mut rng = Rng::with_seed(41);
    let mut seen = [0, 0];
    for _ in 0..200 {
        let structure = hidden::Structure {
            n_finite: rng.usize(1..=2),
            infinite_block_sizes: if rng.bool() { vec![1, 2] } else { vec![3] },
            ..Default::default()
        };
        let (ce, cf) = hidden::canonical(&mut rng, &structure);
        let n = ce.nrows();
        let (p, q) = (hidden::conditioned(&mut rng, n, 5.0), hidden::conditioned(&mut rng, n, 5.0));
        // Sparse couplings in canonical coordinates, so that the condition fails and holds in turn.
        let mut sparse =
            |rows: usize, cols: usize| Mat::from_fn(rows, cols, |_, _| if rng.u8(0..3) == 0 { 1.0 } else { 0.0 });
        let (cj, ch) = (sparse(n, 1), sparse(1, n));
        let (e, f, j, h) = (&p * &ce * &q, &p * &cf * &q, &p * &cj, &ch * &q);
        let pencil = Pencil::new(e.clone(), f.clone()).expect("fits");
        let system = DescriptorSystem::new(pencil)
            .with_disturbance(j.clone())
            .and_then(|s| s.with_measured(h.clone()))
            .expect("fits");
        for p in 0..4 {
            let expected = theorem_3_holds(&e, &f, &j, &h, p);
            let verdict = well_posedness(&system, &[2 * p as i32], &options()).expect("regular");
            assert_eq!(verdict.is_well_posed, expected);
            seen[usize::from(expected)] += 1;
            // The reported remedy is enough, and no smaller pole excess is.
            if let Some(c) = verdict.signals[0].culprit {
                assert!(theorem_3_holds(&e, &f, &j, &h, (c.pole_excess_needed / 2) as usize));
                assert!(!theorem_3_holds(&e, &f, &j, &h, (c.pole_excess_needed / 2) as usize - 1));
                let filter = PresamplingFilter {
                    role: SignalRole::Measured,
                    signal: 0,
                    time_constant: 0.5,
                    order: verdict.signals[0].presampling_order,
                };
                let repaired = insert_presampling_filter(&system, &filter).expect("fits");
                let verdict = well_posedness(&repaired, &[2 * p as i32], &options()).expect("regular");
                assert!(verdict.is_well_posed, "{verdict:?}");
            }
        }
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
}

#[test]
fn standard_form_has_the_transfer_function_of_the_descriptor_system() {
    let mut rng = Rng::with_seed(8);
    for index in 0..=4 {
        for _ in 0..20 {
            let sizes = if index == 0 { vec![] } else { vec![1, index] };
            let structure = hidden::Structure { n_finite: 3, infinite_block_sizes: sizes, ..Default::default() };
            let disguise = hidden::Disguise { condition: 10.0, scaling: 100.0 };
            let pencil = hidden::hide(&mut rng, structure, disguise).pencil;
            let n = pencil.n_variables();
            let g = hidden::gaussian(&mut rng, n, 2);
            let h = hidden::gaussian(&mut rng, 2, n);
            let system = DescriptorSystem::new(pencil.clone())
                .with_input(g.clone())
                .and_then(|s| s.with_measured(h.clone()))
                .expect("fits");
            let form = standard_form(&system, &options()).expect("regular");
            assert_eq!(form.measured.input_terms.len(), form.split.index);
            for s in [-2.3, 0.9, 4.0] {
                let expected = &h * resolvent(pencil.e(), pencil.f(), s, &g);
                let x = resolvent(&Mat::identity(3, 3), &form.dynamics, s, &form.input);
                let mut found = &form.measured.state * x;
                for (k, d) in form.measured.input_terms.iter().enumerate() {
                    found += d * faer::Scale(s.powi(k as i32));
                }
                let error = (&found - &expected).norm_max();
                assert!(error < 1e-8 * expected.norm_max(), "index {index} s {s}: {error:e}");
            }
        }
    }
}

#[test]
fn input_terms_have_the_sign_of_the_equations() {
    // 0 = -z1 + u, z1' = z2, z2' = z3: so z = (u, u', u'').
    let e = matrix(&[&[0., 0., 0.], &[1., 0., 0.], &[0., 1., 0.]]);
    let f = matrix(&[&[-1., 0., 0.], &[0., 1., 0.], &[0., 0., 1.]]);
    let system = DescriptorSystem::new(Pencil::new(e, f).expect("fits"))
        .with_input(matrix(&[&[1.], &[0.], &[0.]]))
        .expect("fits");
    let form = standard_form(&system, &options()).expect("regular");
    for k in 0..3 {
        for i in 0..3 {
            let wanted = f64::from(u8::from(i == k));
            assert!((form.variables.input_terms[k][(i, 0)] - wanted).abs() < 1e-14);
        }
    }
    assert_eq!(form.variables.input_derivatives_needed(), vec![Some(2)]);
    let split = &form.split;
    let z = split.determined_part(&system.input, &[vec![3.0], vec![4.0], vec![5.0]]).expect("given");
    assert!(close(&z, &[3.0, 4.0, 5.0], 1e-13));
    let error = split.determined_part(&system.input, &[vec![3.0], vec![4.0]]).expect_err("u'' is missing");
    assert_eq!(error, PencilError::MissingDerivatives { needed: 2, given: 2 });
}

#[test]
fn consistent_initial_values_keep_what_is_insisted_on() {
    // Pendulum about its rest: x' = vx, y' = vy, vx' = -x, vy' = lambda + u, 0 = y.
    let e = Mat::from_fn(5, 5, |i, j| f64::from(u8::from(i == j && i < 4)));
    let mut f = Mat::zeros(5, 5);
    f[(0, 2)] = 1.0;
    f[(1, 3)] = 1.0;
    f[(2, 0)] = -1.0;
    f[(3, 4)] = 1.0;
    f[(4, 1)] = 1.0;
    let pencil = Pencil::new(e, f).expect("fits");
    let split = split_finite_infinite(&pencil, &options()).expect("regular");
    assert_eq!((split.n_finite, split.index), (2, 3));
    let g = matrix(&[&[0.], &[0.], &[0.], &[1.], &[0.]]);
    let u = vec![vec![7.0], vec![0.0], vec![0.0]];
    let guess = [0.3, 0.1, -0.2, 0.5, 1.0];
    let request = ConsistencyRequest { guess: &guess, ..Default::default() };
    let z = split.consistent_initial_values(&g, &u, &request).expect("consistent");
    assert!(close(&z.values, &[0.3, 0.0, -0.2, 0.0, -7.0], 1e-12), "{:?}", z.values);
    assert_eq!(z.changed, vec![1, 3, 4]);
    // What the solution itself does with the guess: the same here, since the constraints do not involve x and vx.
    assert!(close(&split.continue_from(&guess, &g, &u).expect("given"), &z.values, 1e-12));
    assert!(close(&split.free_part(&guess).expect("fits"), &[0.3, 0.0, -0.2, 0.0, 0.0], 1e-12));
    let insisted = ConsistencyRequest { insisted: &[0, 3], ..request };
    match split.consistent_initial_values(&g, &u, &insisted) {
        Err(PencilError::InconsistentValues { variables, .. }) => assert_eq!(variables, vec![4]),
        other => panic!("{other:?}"),
    }
    let insisted = ConsistencyRequest { insisted: &[0, 2], ..request };
    assert!(split.consistent_initial_values(&g, &u, &insisted).is_ok());
}

#[test]
fn nearest_values_are_nearest_in_the_given_scales() {
    // x1 + x2 + x3 = 3 from (0, 0, 0): plain distance gives (1, 1, 1); x3 a hundred times stiffer gives nearly nothing
    // to it.
    let c = matrix(&[&[1., 1., 1.]]);
    let request = ConsistencyRequest { guess: &[0.0; 3], ..Default::default() };
    let z = daesy_pencil::nearest_consistent(&c, &[3.0], &request).expect("consistent");
    assert!(close(&z.values, &[1.0, 1.0, 1.0], 1e-13));
    let request = ConsistencyRequest { scales: Some(&[1.0, 1.0, 0.01]), ..request };
    let z = daesy_pencil::nearest_consistent(&c, &[3.0], &request).expect("consistent");
    let share = 3.0 / 2.0001;
    assert!(close(&z.values, &[share, share, share * 1e-4], 1e-12), "{:?}", z.values);
    let request = ConsistencyRequest { insisted: &[0], ..request };
    let z = daesy_pencil::nearest_consistent(&c, &[3.0], &request).expect("consistent");
    assert_eq!(z.values[0], 0.0);
    assert!((z.values.iter().sum::<f64>() - 3.0).abs() < 1e-12);
}

#[test]
fn barton_example_3_1_transfers_x1_plus_2_x2() {
    let e = matrix(&[&[1., 2.], &[0., 0.]]);
    let f = matrix(&[&[0., 0.], &[-1., -1.]]);
    let g = matrix(&[&[0.], &[1.]]);
    let split = split_finite_infinite(&Pencil::new(e, f).expect("fits"), &options()).expect("regular");
    assert_eq!((split.index, split.n_finite), (1, 1));
    let transfer = split.state_transfer(&g, &Discontinuity::step(&[1.0])).expect("fits");
    assert!(close(&transfer.jump, &[2.0, -1.0], 1e-14), "{:?}", transfer.jump);
    assert!(transfer.impulses.is_empty());
    assert_eq!(transfer.continuous.len(), 1);
    assert_eq!(transfer.continuous[0].describe(&["x1", "x2"]), "x1 + 2*x2");
    assert!(close(&transfer.apply(&[5.0, 1.0]), &[7.0, 0.0], 1e-13));
    let spaces = split.transfer_subspaces();
    let parallel = |m: &Mat<f64>, v: [f64; 2]| (m[(0, 0)] * v[1] - m[(1, 0)] * v[0]).abs() < 1e-14;
    assert!(parallel(&spaces.impulsive, [-1.0, 1.0]));
    assert!(parallel(&spaces.nonimpulsive, [-2.0, 1.0]));
    assert_eq!(spaces.continuous[0].describe(&["x1", "x2"]), "x1 + 2*x2");
    // An impulse makes the impulses 2 and -1 and moves nothing: f enters the algebraic equation only.
    let transfer = split.state_transfer(&g, &Discontinuity::impulse(&[1.0])).expect("fits");
    assert!(close(&transfer.jump, &[0.0, 0.0], 1e-14));
    assert!(close(&transfer.impulses[0], &[2.0, -1.0], 1e-14));
}

#[test]
fn campbell_example_4_is_strangeness_free_and_example_9_swaps_the_source() {
    let (l, c, r) = (0.5, 2e-3, 10.0);
    let e = matrix(&[&[l, 0., 0., 0.], &[0., 0., 1., 0.], &[0.; 4], &[0.; 4]]);
    let a = matrix(&[&[0., 1., 0., 0.], &[1.0 / c, 0., 0., 0.], &[-r, 0., 0., 1.], &[0., 1., 1., 1.]]);
    let b = matrix(&[&[0.], &[0.], &[0.], &[-1.]]);
    let jet = CoefficientJet::constant(e, a).with_input(b);
    let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
    assert_eq!((form.mu, form.d, form.a, form.v), (0, 2, 2, 0));
    let tolerance = RankTolerance::default();
    // Positions: I, v_L, v_C, v_R, v_s.
    let own = reinterpret(&form, None, &Wishes::default(), &tolerance).expect("possible");
    assert_eq!((own.states.as_slice(), own.inputs.as_slice()), ([0, 1, 2, 3].as_slice(), [4].as_slice()));
    assert!(own.moved_to_inputs.is_empty() && own.moved_to_states.is_empty() && !own.needs_input_derivatives);
    let wishes = Wishes { inputs: vec![1], states: vec![] };
    let swapped = reinterpret(&form, None, &wishes, &tolerance).expect("possible");
    assert_eq!(swapped.inputs, vec![1]);
    assert_eq!((swapped.moved_to_inputs, swapped.moved_to_states), (vec![1], vec![4]));
    assert!(!swapped.needs_input_derivatives);
    assert_eq!(swapped.algebraic_states.len(), 2);
    // The current as an input would need v_L = L I': not strangeness-free as a free system.
    let wishes = Wishes { inputs: vec![0], states: vec![] };
    assert_eq!(
        reinterpret(&form, None, &wishes, &tolerance).expect_err("differentiated"),
        PencilError::WishesImpossible { missing: 1 }
    );
    // Two more inputs than there are degrees of freedom: impossible.
    let wishes = Wishes { inputs: vec![0, 1, 2], states: vec![] };
    assert_eq!(
        reinterpret(&form, None, &wishes, &tolerance).expect_err("too many"),
        PencilError::WishesImpossible { missing: 2 }
    );
}

#[test]
fn campbell_example_3_has_the_counts_of_a_constrained_mechanism() {
    // M(t) p'' + D p' + K p = S u + G(t)^T lambda, G(t) p = 0, with one and with two constraints.
    for n_constraints in [1, 2] {
        let n = 6 + n_constraints;
        let coefficients = move |t: f64, order: usize| {
            let mut e = vec![Mat::<f64>::zeros(n, n); order + 1];
            let mut f = vec![Mat::<f64>::zeros(n, n); order + 1];
            for i in 0..3 {
                e[0][(i, i)] = 1.0;
                f[0][(i, i + 3)] = 1.0;
                for j in 0..3 {
                    e[0][(3 + i, 3 + j)] = f64::from(u8::from(i == j)) * (2.0 + t) + 0.1 * (i + j) as f64;
                    if order > 0 {
                        e[1][(3 + i, 3 + j)] = f64::from(u8::from(i == j));
                    }
                    f[0][(3 + i, j)] = -1.0 - (i * j) as f64;
                    f[0][(3 + i, 3 + j)] = -0.2 * f64::from(u8::from(i == j));
                }
            }
            for c in 0..n_constraints {
                for i in 0..3 {
                    // Entry cos(w t + phase) and its derivatives.
                    let (w, phase) = (1.0 + c as f64, 0.7 * i as f64 + 0.4 * c as f64);
                    for (k, fk) in f.iter_mut().enumerate() {
                        let value = w.powi(k as i32) * (w * t + phase + k as f64 * std::f64::consts::FRAC_PI_2).cos();
                        fk[(3 + i, 6 + c)] = value;
                        fk[(6 + c, i)] = value;
                    }
                }
            }
            let mut g = Mat::zeros(n, 3);
            for i in 0..3 {
                g[(3 + i, i)] = 1.0;
            }
            Ok(CoefficientJet { e, f, input: vec![g], forcing: vec![] })
        };
        for time in [0.0, 0.3, 1.9] {
            let form = strangeness_free(&coefficients, time, &StrangenessOptions::default()).expect("settles");
            assert_eq!((form.mu, form.d, form.a, form.v), (2, 6 - 2 * n_constraints, 3 * n_constraints, 0));
            // The hidden constraint G p' + G' p = 0 is among the algebraic equations.
            let jet = coefficients(time, 1).expect("given");
            for c in 0..n_constraints {
                let mut row = vec![0.0; n + 3];
                for i in 0..3 {
                    row[i] = jet.f[1][(6 + c, i)];
                    row[3 + i] = jet.f[0][(6 + c, i)];
                }
                assert!(is_in_row_space(&form.a2, &form.b2, &row), "constraint {c} at {time}");
            }
            let given = StrangenessOptions { inputs: InputRole::Given, ..Default::default() };
            let form = strangeness_free(&coefficients, time, &given).expect("settles");
            assert_eq!((form.mu, form.d, form.a, form.v), (2, 6 - 2 * n_constraints, 3 * n_constraints, 0));
            assert!(form.b2_derivatives.is_empty(), "the force enters lambda without derivatives");
        }
    }
}

fn is_in_row_space(a: &Mat<f64>, b: &Mat<f64>, row: &[f64]) -> bool {
    let (m, n) = (a.nrows(), a.ncols() + b.ncols());
    let all = Mat::from_fn(n, m, |j, i| if j < a.ncols() { a[(i, j)] } else { b[(i, j - a.ncols())] });
    let q = all.qr().compute_thin_Q();
    let r = Mat::from_fn(n, 1, |j, _| row[j]);
    let rest = &r - &q * (q.transpose() * &r);
    rest.norm_max() < 1e-9 * r.norm_max()
}
