//! Derivative arrays, strangeness-free forms, choice of variables, feed-through and feedback.

mod hidden;

use daesy_pencil::{
    CoefficientJet, ConsistencyRequest, InputRole, Mat, OutputEquation, PencilError, RankTolerance, RedundantEquations,
    StrangenessOptions, Wishes, regularizing_feedback, reinterpret, remove_feedthrough, strangeness_free,
    strangeness_over,
};
use fastrand::Rng;

fn matrix(rows: &[&[f64]]) -> Mat<f64> {
    let cols = rows.first().map_or(0, |r| r.len());
    Mat::from_fn(rows.len(), cols, |i, j| rows[i][j])
}

fn times(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)] * x[j]).sum()).collect()
}

#[test]
fn constant_systems_have_strangeness_index_one_below_the_index() {
    let mut rng = Rng::with_seed(2);
    for round in 0..60 {
        let n = rng.usize(2..=9);
        let structure = hidden::random_structure(&mut rng, n);
        let disguise = hidden::Disguise { condition: 20.0, scaling: if round % 2 == 0 { 1.0 } else { 1e6 } };
        let draw = hidden::hide(&mut rng, structure, disguise);
        let jet = CoefficientJet::constant(draw.pencil.e().clone(), draw.pencil.f().clone());
        let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
        let index = draw.structure.infinite_block_sizes.last().copied().unwrap_or(0);
        assert_eq!(form.mu, index.saturating_sub(1), "{:?}", draw.structure);
        assert_eq!((form.d, form.v), (draw.structure.n_finite, 0));
        assert_eq!(form.a, n - draw.structure.n_finite);
        // The same system given with (zero) derivatives goes through the ranks of the array itself.
        let (e, f) = (jet.e[0].clone(), jet.f[0].clone());
        let zero = Mat::zeros(n, n);
        let varying = CoefficientJet { e: vec![e, zero.clone()], f: vec![f, zero], ..Default::default() };
        let array = strangeness_free(&varying, 0.0, &StrangenessOptions::default()).expect("settles");
        assert_eq!((array.mu, array.d, array.a, array.v), (form.mu, form.d, form.a, form.v));
    }
}

#[test]
fn hidden_singular_systems_have_the_right_counts() {
    let mut rng = Rng::with_seed(12);
    for _ in 0..60 {
        let mut some = |count: usize, low: usize, high: usize| {
            let k = rng.usize(0..=count);
            let mut v: Vec<usize> = (0..k).map(|_| rng.usize(low..=high)).collect();
            v.sort_unstable();
            v
        };
        let structure = hidden::Structure {
            n_finite: some(3, 1, 1).len(),
            infinite_block_sizes: some(2, 1, 3),
            left_minimal_indices: some(2, 0, 2),
            right_minimal_indices: some(2, 0, 2),
        };
        let draw = hidden::hide(&mut rng, structure.clone(), hidden::Disguise { condition: 5.0, scaling: 1.0 });
        let jet = CoefficientJet::constant(draw.pencil.e().clone(), draw.pencil.f().clone());
        let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
        // A right block of index k holds k differential equations, a left one k constraints and one redundancy.
        let right: usize = structure.right_minimal_indices.iter().sum();
        let left: usize = structure.left_minimal_indices.iter().sum();
        let infinite: usize = structure.infinite_block_sizes.iter().sum();
        assert_eq!(form.v, structure.left_minimal_indices.len(), "{structure:?}");
        assert_eq!(form.d, structure.n_finite + right, "{structure:?}");
        assert_eq!(form.a, infinite + left, "{structure:?}");
        let depth = structure.infinite_block_sizes.iter().map(|k| k - 1).chain(structure.left_minimal_indices).max();
        assert_eq!(form.mu, depth.unwrap_or(0));
    }
}

#[test]
fn constraints_hold_on_exact_time_varying_solutions() {
    // z = R(t) y with a rotation R and y = (y1, y2, y3): y1' = -y1 + g1, y3' = y2 + g2, 0 = y3 + g3; so
    // y3 = -g3, y2 = -g3' - g2, y1 free. All with explicit functions of time.
    let rotation = |t: f64, k: usize| -> Mat<f64> {
        // Derivative k of [cos t, -sin t, 0; sin t, cos t, 0; 0, 0, 1 + t].
        let (c, s) =
            ((t + k as f64 * std::f64::consts::FRAC_PI_2).cos(), (t + k as f64 * std::f64::consts::FRAC_PI_2).sin());
        let last = match k {
            0 => 1.0 + t,
            1 => 1.0,
            _ => 0.0,
        };
        matrix(&[&[c, -s, 0.], &[s, c, 0.], &[0., 0., last]])
    };
    // y = S z with S = [cos, sin; -sin, cos] and 1 / (1 + t); multiply the last column's use out: use y3 (1 + t) = z3,
    // that is write the system for x = (y1, y2, z3) and rotate only the first two. Constraint: z3 / (1 + t) = -g3.
    let e0 = matrix(&[&[1., 0., 0.], &[0., 0., 1.], &[0., 0., 0.]]);
    let coefficients = |t: f64, order: usize| {
        // x' where y3 = z3 / (1 + t): multiply equation 2 by (1 + t): z3' - z3 / (1 + t) = (1 + t)(y2 + g2);
        // equation 3 times (1 + t): 0 = z3 + (1 + t) g3. With w(t) = 1 / (1 + t).
        let w = |k: usize| {
            (-1f64).powi(k as i32) * (1..=k).map(|i| i as f64).product::<f64>() / (1.0 + t).powi(k as i32 + 1)
        };
        let a = |k: usize| {
            let q = match k {
                0 => 1.0 + t,
                1 => 1.0,
                _ => 0.0,
            };
            let id = f64::from(u8::from(k == 0));
            matrix(&[&[-id, 0., 0.], &[0., q, w(k)], &[0., 0., id]])
        };
        // (y1, y2, z3) = S(t) z with S the transposed rotation and 1 in the corner.
        let s = |k: usize| {
            let r = rotation(t, k);
            let corner = f64::from(u8::from(k == 0));
            matrix(&[&[r[(0, 0)], r[(1, 0)], 0.], &[r[(0, 1)], r[(1, 1)], 0.], &[0., 0., corner]])
        };
        let binomial = |n: usize, k: usize| (0..k).fold(1.0, |c, l| c * (n - l) as f64 / (l + 1) as f64);
        let (mut e, mut f, mut forcing) = (Vec::new(), Vec::new(), Vec::new());
        for k in 0..=order {
            e.push(&e0 * s(k));
            let mut sum = -(&e0 * s(k + 1));
            for i in 0..=k {
                sum += (a(i) * s(k - i)) * faer::Scale(binomial(k, i));
            }
            f.push(sum);
            // g1 = sin 2t, g2 = t^2, g3 = exp(t); forcing (g1, (1 + t) g2, (1 + t) g3).
            let g1 = 2f64.powi(k as i32) * (2.0 * t + k as f64 * std::f64::consts::FRAC_PI_2).sin();
            let cubic = match k {
                0 => (1.0 + t) * t * t,
                1 => 2.0 * t + 3.0 * t * t,
                2 => 2.0 + 6.0 * t,
                3 => 6.0,
                _ => 0.0,
            };
            let g3 = (1.0 + t + k as f64) * t.exp();
            forcing.push(vec![g1, cubic, g3]);
        }
        Ok(CoefficientJet { e, f, input: vec![], forcing })
    };
    for time in [0.0, 0.7, 2.0] {
        let form = strangeness_free(&coefficients, time, &StrangenessOptions::default()).expect("settles");
        assert_eq!((form.mu, form.d, form.a, form.v), (1, 1, 2, 0));
        for free in [-1.0, 0.0, 2.5] {
            let y = [free, -time.exp() - time * time, -time.exp() * (1.0 + time)];
            let z = times(&rotation(time, 0), &[y[0], y[1], 0.0]);
            let z = [z[0], z[1], y[2]];
            let residual: Vec<f64> = times(&form.a2, &z).iter().zip(&form.f2).map(|(a, b)| a + b).collect();
            assert!(residual.iter().all(|r| r.abs() < 1e-10), "{residual:?}");
        }
        // Consistent values: from anywhere, the constraints hold afterwards.
        let request = ConsistencyRequest { guess: &[1.0, 2.0, 3.0], ..Default::default() };
        let z = form.consistent_values(&[], &request).expect("consistent").values;
        assert!((z[2] + time.exp() * (1.0 + time)).abs() < 1e-10);
    }
}

#[test]
fn overdetermined_equations_are_counted_and_contradictions_reported() {
    // x' = f1, 0 = x + f2: redundant, and consistent only if f1 = -f2'.
    let e = matrix(&[&[1.], &[0.]]);
    let f = matrix(&[&[0.], &[1.]]);
    let jet = CoefficientJet::constant(e, f);
    let options = StrangenessOptions::default();
    let form = strangeness_free(&jet, 0.0, &options).expect("settles");
    assert_eq!((form.mu, form.d, form.a, form.v), (1, 0, 1, 1));
    let agree = jet.clone().with_forcing(vec![vec![2.0, 5.0], vec![0.0, -2.0]]);
    let form = strangeness_free(&agree, 0.0, &options).expect("consistent");
    assert!((form.f2[0] / form.a2[(0, 0)] - 5.0).abs() < 1e-14);
    let differ = jet.with_forcing(vec![vec![2.0, 5.0], vec![0.0, 1.0]]);
    match strangeness_free(&differ, 0.0, &options) {
        Err(PencilError::InconsistentEquations { equations, .. }) => assert_eq!(equations, vec![1, 2]),
        other => panic!("{other:?}"),
    }
    let remove = StrangenessOptions { redundant: RedundantEquations::Remove, ..options };
    let form = strangeness_free(&differ, 0.0, &remove).expect("removed");
    assert_eq!((form.d, form.a, form.v), (0, 1, 1));
    assert!(form.contradiction > 0.1);
}

#[test]
fn changing_ranks_show_over_several_times() {
    // t x' = -x + 1: differential except at t = 0.
    let coefficients = |t: f64, _: usize| {
        Ok(CoefficientJet {
            e: vec![matrix(&[&[t]]), matrix(&[&[1.0]])],
            f: vec![matrix(&[&[-1.0]]), matrix(&[&[0.0]])],
            ..Default::default()
        })
    };
    let found = strangeness_over(&coefficients, &[-1.0, 0.0, 1.0], &StrangenessOptions::default()).expect("settles");
    assert_eq!(found.iter().map(|s| (s.d, s.a)).collect::<Vec<_>>(), vec![(1, 0), (0, 1), (1, 0)]);
}

#[test]
fn underdetermined_systems_get_new_inputs() {
    // x1' = x2 + x3: two free variables become inputs, and none of them is differentiated.
    let jet = CoefficientJet::constant(matrix(&[&[1., 0., 0.]]), matrix(&[&[0., 1., 1.]]));
    let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
    assert_eq!((form.mu, form.d, form.a, form.v), (0, 1, 0, 0));
    let choice = reinterpret(&form, None, &Wishes::default(), &RankTolerance::default()).expect("possible");
    assert_eq!((choice.states, choice.moved_to_inputs), (vec![0], vec![1, 2]));
    assert!(!choice.needs_input_derivatives);
}

#[test]
fn given_inputs_are_differentiated_and_behaviour_inputs_are_not() {
    // x1 = u, x2 = x1': index 2 for given u.
    let e = matrix(&[&[0., 0.], &[1., 0.]]);
    let f = matrix(&[&[-1., 0.], &[0., 1.]]);
    let jet = CoefficientJet::constant(e, f).with_input(matrix(&[&[1.], &[0.]]));
    let given = StrangenessOptions { inputs: InputRole::Given, readable: true, ..Default::default() };
    let form = strangeness_free(&jet, 0.0, &given).expect("settles");
    assert_eq!((form.mu, form.d, form.a), (1, 0, 2));
    // 0 = x1 - u, 0 = x2 - u'.
    assert_eq!(form.b2_derivatives.len(), 1);
    for (i, (b0, b1)) in [(-1.0, 0.0), (0.0, -1.0)].iter().enumerate() {
        for j in 0..2 {
            assert!((form.a2[(i, j)] - f64::from(u8::from(i == j))).abs() < 1e-14);
        }
        assert!((form.b2[(i, 0)] - b0).abs() < 1e-14);
        assert!((form.b2_derivatives[0][(i, 0)] - b1).abs() < 1e-14);
    }
    let request = ConsistencyRequest { guess: &[0.0, 0.0, 3.0], insisted: &[2], ..Default::default() };
    let z = form.consistent_values(&[vec![4.0]], &request).expect("consistent").values;
    assert!((z[0] - 3.0).abs() + (z[1] - 4.0).abs() < 1e-13);
    assert_eq!(
        form.consistent_values(&[], &request).expect_err("u' is missing"),
        PencilError::MissingDerivatives { needed: 1, given: 1 }
    );
    let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
    assert_eq!((form.mu, form.d, form.a), (0, 1, 1));
    // Keeping u as the input needs its derivative; taking x2 as the input does not.
    let tolerance = RankTolerance::default();
    let choice = reinterpret(&form, None, &Wishes::default(), &tolerance).expect("possible");
    assert!(!choice.needs_input_derivatives);
    assert_eq!(choice.inputs.len(), 1);
    let keep = Wishes { inputs: vec![2], states: vec![] };
    let choice = reinterpret(&form, None, &keep, &tolerance);
    assert!(choice.is_err() || choice.is_ok_and(|c| c.inputs == [2]));
}

/// `C (s E - A)^-1 B + D` at a real `s`.
fn transfer_function(e: &Mat<f64>, a: &Mat<f64>, b: &Mat<f64>, c: &Mat<f64>, s: f64) -> Mat<f64> {
    use faer::linalg::solvers::Solve;
    let m = Mat::from_fn(e.nrows(), e.ncols(), |i, j| s * e[(i, j)] - a[(i, j)]);
    c * m.full_piv_lu().solve(b)
}

#[test]
fn removing_feedthrough_keeps_the_transfer_function() {
    let mut rng = Rng::with_seed(6);
    for rank in 0..=2 {
        let (e, a) = (hidden::gaussian(&mut rng, 4, 4), hidden::gaussian(&mut rng, 4, 4));
        let b = hidden::gaussian(&mut rng, 4, 3);
        let d = hidden::gaussian(&mut rng, 3, rank) * hidden::gaussian(&mut rng, rank, 3);
        let output = OutputEquation { c: hidden::gaussian(&mut rng, 3, 4), d, g: vec![1.0, -2.0, 0.5] };
        let f = vec![0.1, 0.2, 0.3, 0.4];
        let free = remove_feedthrough(&e, &a, &b, &f, &output, &RankTolerance::default()).expect("fits");
        assert_eq!(free.n_added, rank);
        assert_eq!(free.e.shape(), (4 + rank, 4 + rank));
        for s in [0.3, -1.7] {
            let before = transfer_function(&e, &a, &b, &output.c, s) + &output.d;
            let after = transfer_function(&free.e, &free.a, &free.b, &free.c, s);
            assert!((&before - &after).norm_max() < 1e-9 * before.norm_max().max(1.0));
        }
        // The constant parts agree at rest: y = C x + D u + g with 0 = A x + B u + f at u = 0.
        let column = |v: &[f64]| Mat::from_fn(v.len(), 1, |i, _| v[i]);
        let zero = Mat::zeros(4, 4);
        let before = transfer_function(&zero, &a, &column(&f), &output.c, 0.0) + column(&output.g);
        let zero = Mat::zeros(4 + rank, 4 + rank);
        let after = transfer_function(&zero, &free.a, &column(&free.f), &free.c, 0.0) + column(&free.g);
        assert!((&before - &after).norm_max() < 1e-9);
    }
}

#[test]
fn feedback_regularizes_what_is_not_regular_as_a_free_system() {
    // Linear version of example 7 of campbell2011: x2' = 0, 0 = x2 + u; x1 appears nowhere until u = K x + w.
    let e = matrix(&[&[0., 1.], &[0., 0.]]);
    let a = matrix(&[&[0., 0.], &[0., 1.]]);
    let b = matrix(&[&[0.], &[1.]]);
    let jet = CoefficientJet::constant(e, a).with_input(b);
    let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
    assert_eq!((form.mu, form.d, form.a, form.v), (0, 1, 1, 0));
    let feedback = regularizing_feedback(&form, &RankTolerance::default()).expect("possible");
    assert_eq!(feedback.n_repaired, 1);
    assert!(feedback.k[(0, 0)].abs() > 0.1 && feedback.k[(0, 1)].abs() < 1e-12, "{:?}", feedback.k);
    let closed = CoefficientJet::constant(
        Mat::from_fn(2, 2, |i, j| if i < form.d { form.e1[(i, j)] } else { 0.0 }),
        Mat::from_fn(2, 2, |i, j| if i < form.d { feedback.a1[(i, j)] } else { feedback.a2[(i - form.d, j)] }),
    );
    let check = strangeness_free(&closed, 0.0, &StrangenessOptions::default()).expect("settles");
    assert_eq!((check.mu, check.d, check.a, check.v), (0, 1, 1, 0));
}

#[test]
fn random_feedbacks_give_strangeness_free_loops() {
    let mut rng = Rng::with_seed(19);
    let mut repaired = 0;
    for _ in 0..40 {
        let (n, m) = (5, 2);
        let d = rng.usize(1..=3);
        let hole = rng.usize(0..=m.min(n - d));
        // E = [I_d 0; 0 0], A_22 with a hole that only the inputs reach; hidden by random transformations.
        let mut e = Mat::zeros(n, n);
        let mut a = hidden::gaussian(&mut rng, n, n);
        for i in 0..d {
            e[(i, i)] = 1.0;
        }
        for i in d..d + hole {
            for j in d..n {
                a[(i, j)] = 0.0;
            }
        }
        let mut b = Mat::zeros(n, m);
        for i in 0..hole {
            b[(d + i, i)] = 1.0;
        }
        let (p, q) = (hidden::conditioned(&mut rng, n, 5.0), hidden::conditioned(&mut rng, n, 5.0));
        let jet = CoefficientJet::constant(&p * &e * &q, &p * &a * &q).with_input(&p * &b);
        let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
        assert_eq!((form.mu, form.d, form.a, form.v), (0, d, n - d, 0));
        let feedback = regularizing_feedback(&form, &RankTolerance::default()).expect("possible");
        assert_eq!(feedback.n_repaired, hole);
        repaired += hole;
        assert!(hole > 0 || feedback.k.norm_max() == 0.0);
        let closed = CoefficientJet::constant(
            Mat::from_fn(n, n, |i, j| if i < d { form.e1[(i, j)] } else { 0.0 }),
            Mat::from_fn(n, n, |i, j| if i < d { feedback.a1[(i, j)] } else { feedback.a2[(i - d, j)] }),
        );
        let check = strangeness_free(&closed, 0.0, &StrangenessOptions::default()).expect("settles");
        assert_eq!((check.mu, check.d, check.a, check.v), (0, d, n - d, 0));
    }
    assert!(repaired > 10);
}

#[test]
fn unreachable_constraints_are_not_regularizable() {
    // x1' = 0, x2 and u appear nowhere: d + a = 1, not 2.
    let jet = CoefficientJet::constant(matrix(&[&[1., 0.]]), matrix(&[&[0., 0.]])).with_input(matrix(&[&[0.]]));
    let form = strangeness_free(&jet, 0.0, &StrangenessOptions::default()).expect("settles");
    assert!(matches!(
        regularizing_feedback(&form, &RankTolerance::default()),
        Err(PencilError::NotRegularizable { .. })
    ));
}
