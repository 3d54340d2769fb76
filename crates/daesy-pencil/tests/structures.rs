//! Integers of pencils: hidden structures, shared reference cases, degenerate shapes.

mod hidden;

use daesy_pencil::{Mat, Pencil, PencilError, PencilOptions, kronecker_structure, split_finite_infinite};
use fastrand::Rng;
use hidden::{Disguise, Structure, hide};

fn options() -> PencilOptions {
    PencilOptions::default()
}

fn matrix(rows: &[&[f64]]) -> Mat<f64> {
    let cols = rows.first().map_or(0, |r| r.len());
    Mat::from_fn(rows.len(), cols, |i, j| rows[i][j])
}

#[test]
fn hidden_regular_structures_are_recovered() {
    let mut wrong = Vec::new();
    for seed in 0..300 {
        let draw = hidden::random_draw(seed, 60);
        let split = split_finite_infinite(&draw.pencil, &options()).expect("regular");
        let is_right = split.n_finite == draw.structure.n_finite
            && split.infinite_block_sizes == draw.structure.infinite_block_sizes;
        if !is_right {
            assert!(split.is_doubtful(), "seed {seed}: a miss must be flagged by its gap");
            wrong.push(seed);
        }
        let e = split.backward_errors();
        assert!(e.staircase < 1e-12 && e.decoupling < 1e-12 && e.canonical < 1e-12, "seed {seed}: {e:?}");
    }
    assert!(wrong.is_empty(), "seeds {wrong:?}");
}

#[test]
fn large_hidden_structures_are_recovered() {
    let mut rng = Rng::with_seed(5);
    for sizes in [vec![1; 40], vec![1, 1, 2, 3, 3, 4, 5, 5], vec![5; 12]] {
        let infinite: usize = sizes.iter().sum();
        let structure = Structure { n_finite: 200 - infinite, infinite_block_sizes: sizes, ..Structure::default() };
        let draw = hide(&mut rng, structure, Disguise { condition: 1e4, scaling: 1e8 });
        let split = split_finite_infinite(&draw.pencil, &options()).expect("regular");
        assert_eq!(split.n_finite, draw.structure.n_finite);
        assert_eq!(split.infinite_block_sizes, draw.structure.infinite_block_sizes);
        let e = split.backward_errors();
        assert!(e.staircase < 1e-12 && e.decoupling < 1e-12 && e.canonical < 1e-12, "{e:?}");
    }
}

#[test]
fn canonical_form_holds_entry_by_entry() {
    let mut rng = Rng::with_seed(11);
    let structure = Structure { n_finite: 4, infinite_block_sizes: vec![1, 2, 3], ..Structure::default() };
    let draw = hide(&mut rng, structure, Disguise { condition: 10.0, scaling: 1e3 });
    let s = split_finite_infinite(&draw.pencil, &options()).expect("regular");
    let pe = &s.left * draw.pencil.e() * &s.right;
    let pf = &s.left * draw.pencil.f() * &s.right;
    let identity = &s.right * &s.right_inverse;
    for i in 0..10 {
        for j in 0..10 {
            let want_e = match (i < 4, j < 4) {
                (true, true) => f64::from(i == j),
                (false, false) => s.nilpotent[(i - 4, j - 4)],
                _ => 0.0,
            };
            let want_f = match (i < 4, j < 4) {
                (true, true) => s.dynamics[(i, j)],
                (false, false) => f64::from(i == j),
                _ => 0.0,
            };
            assert!((pe[(i, j)] - want_e).abs() < 1e-8, "E {i} {j}");
            assert!((pf[(i, j)] - want_f).abs() < 1e-8, "F {i} {j}");
            // Q Q^-1 = I in the units of row i over those of column j.
            let unit = s.right.as_ref().row(i).norm_l2() * s.right_inverse.as_ref().col(j).norm_l2();
            assert!((identity[(i, j)] - f64::from(i == j)).abs() < 1e-12 * unit.max(1.0), "Q {i} {j}");
        }
    }
    let n3 = &s.nilpotent * &s.nilpotent * &s.nilpotent;
    assert_eq!(n3.norm_max(), 0.0, "N is nilpotent exactly");
    assert!((&s.nilpotent * &s.nilpotent).norm_max() > 0.0);
}

#[test]
fn finite_eigenvalues_survive_the_disguise() {
    let mut rng = Rng::with_seed(3);
    for index in 1..=5 {
        let lambda = [-3.0, -0.5, 0.25, 7.0];
        let n = 4 + index;
        let mut e = Mat::zeros(n, n);
        let mut f = Mat::zeros(n, n);
        for k in 0..4 {
            e[(k, k)] = 1.0;
            f[(k, k)] = lambda[k];
        }
        for k in 4..n {
            f[(k, k)] = 1.0;
            if k + 1 < n {
                e[(k, k + 1)] = 1.0;
            }
        }
        let p = hidden::conditioned(&mut rng, n, 10.0);
        let q = hidden::conditioned(&mut rng, n, 10.0);
        let scale = |k: usize| 10f64.powi((k as i32 * 5) % 17 - 8);
        let wrap = |x: &Mat<f64>| {
            let y = &p * x * &q;
            Mat::from_fn(n, n, |i, j| y[(i, j)] * scale(i) * scale(j + 3))
        };
        let pencil = Pencil::new(wrap(&e), wrap(&f)).expect("fits");
        let s = split_finite_infinite(&pencil, &options()).expect("regular");
        assert_eq!((s.n_finite, s.index), (4, index));
        for (found, wanted) in s.finite_eigenvalues().expect("converges").iter().zip(lambda) {
            assert!((found.re - wanted).abs() < 1e-7 && found.im.abs() < 1e-7, "{found:?} {wanted}");
        }
    }
}

#[test]
fn scaling_rows_columns_and_time_changes_no_integer() {
    let mut rng = Rng::with_seed(17);
    // A sparse chain of index 4 next to a circuit-like finite part: patterns without a dense filling are the hard ones.
    let n = 8;
    let mut e = Mat::zeros(n, n);
    let mut f = Mat::zeros(n, n);
    for k in 0..4 {
        f[(k, k)] = 1.0;
        if k < 3 {
            e[(k, k + 1)] = 1.0;
        }
    }
    for k in 4..n {
        e[(k, k)] = 1.0;
        f[(k, k)] = -2.0;
        f[(k, (k + 3) % n)] = 1.0;
    }
    for _ in 0..200 {
        let mut factor = || 10f64.powf(16.0 * rng.f64() - 8.0);
        let rows: Vec<f64> = (0..n).map(|_| factor()).collect();
        let cols: Vec<f64> = (0..n).map(|_| factor()).collect();
        let time = factor();
        let pencil = Pencil::new(
            Mat::from_fn(n, n, |i, j| e[(i, j)] * rows[i] * cols[j] * time),
            Mat::from_fn(n, n, |i, j| f[(i, j)] * rows[i] * cols[j]),
        )
        .expect("fits");
        let s = split_finite_infinite(&pencil, &options()).expect("regular");
        assert_eq!((s.n_finite, s.index, s.infinite_block_sizes.as_slice()), (4, 4, [4].as_slice()));
        assert!(!s.is_doubtful());
    }
}

#[test]
fn hidden_singular_structures_are_recovered() {
    let mut rng = Rng::with_seed(23);
    for round in 0..200 {
        let mut some = |count: usize, low: usize| {
            let k = rng.usize(0..=count);
            let mut v: Vec<usize> = (0..k).map(|_| rng.usize(low..=3)).collect();
            v.sort_unstable();
            v
        };
        let structure = Structure {
            infinite_block_sizes: some(3, 1),
            left_minimal_indices: some(2, 0),
            right_minimal_indices: some(2, 0),
            n_finite: some(4, 1).len(),
        };
        let disguise = Disguise { condition: 20.0, scaling: if round % 2 == 0 { 1.0 } else { 1e6 } };
        let draw = hide(&mut rng, structure.clone(), disguise);
        let k = kronecker_structure(&draw.pencil, &options()).expect("any shape has an answer");
        assert_eq!(k.n_finite, structure.n_finite, "{structure:?}");
        assert_eq!(k.infinite_block_sizes, structure.infinite_block_sizes);
        assert_eq!(k.left_minimal_indices, structure.left_minimal_indices);
        assert_eq!(k.right_minimal_indices, structure.right_minimal_indices);
        assert_eq!(k.redundant_equations.len(), structure.left_minimal_indices.len());
        assert_eq!(k.free_variables.len(), structure.right_minimal_indices.len());
        assert_eq!(k.is_regular, k.left_minimal_indices.is_empty() && k.right_minimal_indices.is_empty());
        // Leaving out the redundant equations and prescribing the free variables leaves a regular pencil.
        let rows: Vec<usize> = (0..k.n_equations).filter(|i| !k.redundant_equations.contains(i)).collect();
        let cols: Vec<usize> = (0..k.n_variables).filter(|j| !k.free_variables.contains(j)).collect();
        let pick = |a: &Mat<f64>| Mat::from_fn(rows.len(), cols.len(), |i, j| a[(rows[i], cols[j])]);
        let rest = Pencil::new(pick(draw.pencil.e()), pick(draw.pencil.f())).expect("fits");
        assert!(kronecker_structure(&rest, &options()).expect("answer").is_regular);
    }
}

#[test]
fn redundant_equations_and_free_variables_are_named() {
    // x1' = x2, x1 = 0, 2 x1 = 0, and x4 appears nowhere; x3 + x5 = 0 determines only the sum.
    let e = matrix(&[&[1., 0., 0., 0., 0.], &[0.; 5], &[0.; 5], &[0.; 5]]);
    let f = matrix(&[&[0., 1., 0., 0., 0.], &[1., 0., 0., 0., 0.], &[2., 0., 0., 0., 0.], &[0., 0., 1., 0., 1.]]);
    let k = kronecker_structure(&Pencil::new(e, f).expect("fits"), &options()).expect("answer");
    assert!(!k.is_regular);
    assert_eq!(k.normal_rank, 3);
    assert_eq!(k.equations_involved, vec![1, 2]);
    assert_eq!(k.redundant_equations.len(), 1);
    assert_eq!(k.undetermined_variables, vec![2, 3, 4]);
    assert_eq!(k.free_variables.len(), 2);
    assert!(k.free_variables.contains(&3));
    assert_eq!(k.index, 2);
}

#[test]
fn degenerate_pencils_have_answers() {
    let empty = Pencil::new(Mat::zeros(0, 0), Mat::zeros(0, 0)).expect("fits");
    let s = split_finite_infinite(&empty, &options()).expect("regular");
    assert_eq!((s.n_finite, s.n_infinite, s.index), (0, 0, 0));

    let zero = Pencil::new(Mat::zeros(2, 2), Mat::zeros(2, 2)).expect("fits");
    match split_finite_infinite(&zero, &options()) {
        Err(PencilError::SingularPencil { structure }) => {
            assert_eq!(structure.left_minimal_indices, vec![0, 0]);
            assert_eq!(structure.right_minimal_indices, vec![0, 0]);
            assert_eq!(structure.free_variables, vec![0, 1]);
        }
        other => panic!("zero pencil: {other:?}"),
    }

    let no_rows = Pencil::new(Mat::zeros(0, 3), Mat::zeros(0, 3)).expect("fits");
    assert_eq!(kronecker_structure(&no_rows, &options()).expect("answer").right_minimal_indices, vec![0, 0, 0]);

    let ode = Pencil::new(Mat::identity(3, 3), Mat::zeros(3, 3)).expect("fits");
    let s = split_finite_infinite(&ode, &options()).expect("regular");
    assert_eq!((s.n_finite, s.index), (3, 0));

    let algebraic = Pencil::new(Mat::zeros(3, 3), Mat::identity(3, 3)).expect("fits");
    let s = split_finite_infinite(&algebraic, &options()).expect("regular");
    assert_eq!((s.n_finite, s.index, s.infinite_block_sizes), (0, 1, vec![1, 1, 1]));
}

#[test]
fn bad_input_names_the_matrix_and_the_reason() {
    let text = |r: Result<Pencil, PencilError>| r.expect_err("bad").to_string();
    assert_eq!(
        text(Pencil::new(Mat::zeros(2, 2), Mat::zeros(2, 3))),
        "matrix F is 2 x 3, but 2 x 2 is needed (E and F multiply the same variables)"
    );
    let mut e = Mat::zeros(2, 2);
    e[(1, 0)] = f64::NAN;
    assert_eq!(text(Pencil::new(e, Mat::zeros(2, 2))), "matrix E has NaN at row 2, column 1 (counted from 1)");
    let wide = Pencil::new(Mat::zeros(1, 2), Mat::zeros(1, 2)).expect("fits");
    let error = split_finite_infinite(&wide, &options()).expect_err("not square");
    assert!(error.to_string().starts_with("matrix E is 1 x 2, but a square matrix is needed"));
    // x1' + x2 twice: one equation redundant, one variable free.
    let e = matrix(&[&[1., 0.], &[1., 0.]]);
    let f = matrix(&[&[0., -1.], &[0., -1.]]);
    let error = split_finite_infinite(&Pencil::new(e, f).expect("fits"), &options()).expect_err("singular");
    assert_eq!(error.to_string(), "the pencil s E - F is singular: 1 equations are redundant and 1 variables are free");
}

/// The folder of shared reference cases, if it is there.
fn shared_cases() -> Option<std::path::PathBuf> {
    let given = std::env::var_os("DAESY_CASES").map(std::path::PathBuf::from);
    let folder =
        given.unwrap_or_else(|| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases"));
    folder.is_dir().then_some(folder)
}

fn read_matrix(v: &serde_json::Value) -> Mat<f64> {
    let rows = v.as_array().expect("rows");
    Mat::from_fn(rows.len(), rows[0].as_array().expect("row").len(), |i, j| rows[i][j].as_f64().expect("number"))
}

/// Kronecker structure of `[A - s E; C]`, `[A - s E, B]` and `[A - s E, B; C, D]` where the reference program states
/// it.
fn singular_extensions_agree(id: &str, case: &serde_json::Value, pencil: &Pencil) {
    let says = &case["slicot_says"];
    let sizes = |key: &str| -> Vec<usize> {
        says[key].as_array().expect("list").iter().map(|v| v.as_u64().expect("size") as usize).collect()
    };
    let extend = |right: Option<&str>, below: Option<&str>| {
        let n = pencil.n_variables();
        let (b, c) = (right.map(|k| read_matrix(&case[k])), below.map(|k| read_matrix(&case[k])));
        let (w, h) = (b.as_ref().map_or(0, |b| b.ncols()), c.as_ref().map_or(0, |c| c.nrows()));
        let d = if w * h > 0 { read_matrix(&case["D"]) } else { Mat::zeros(h, w) };
        let e = Mat::from_fn(n + h, n + w, |i, j| if i < n && j < n { pencil.e()[(i, j)] } else { 0.0 });
        let f = Mat::from_fn(n + h, n + w, |i, j| match (&b, &c) {
            _ if i < n && j < n => pencil.f()[(i, j)],
            (Some(b), _) if i < n => b[(i, j - n)],
            (_, Some(c)) if j < n => c[(i - n, j)],
            _ => d[(i - n, j - n)],
        });
        kronecker_structure(&Pencil::new(e, f).expect("fits"), &options()).expect("answer")
    };
    if !says["left_kronecker_AsE_C"].is_null() {
        let k = extend(None, Some("C"));
        assert_eq!(k.left_minimal_indices, sizes("left_kronecker_AsE_C"), "{id}");
        assert_eq!(k.infinite_block_sizes, sizes("inf_mult_AsE_C"), "{id}");
    }
    if !says["right_kronecker_AsE_B"].is_null() {
        assert_eq!(extend(Some("B"), None).right_minimal_indices, sizes("right_kronecker_AsE_B"), "{id}");
    }
    if !says["normal_rank_G"].is_null() {
        let k = extend(Some("B"), Some("C"));
        assert_eq!(k.normal_rank, pencil.n_variables() + says["normal_rank_G"].as_u64().expect("rank") as usize);
        let zeros: Vec<f64> =
            says["finite_zeros"].as_array().expect("list").iter().filter_map(|v| v.as_f64()).collect();
        assert_eq!(k.finite_eigenvalues.len(), zeros.len(), "{id}");
        for (found, wanted) in k.finite_eigenvalues.iter().zip(zeros) {
            assert!((found.re - wanted).abs() < 1e-9 && found.im.abs() < 1e-9, "{id}");
        }
    }
}

#[test]
fn shared_descriptor_cases_pass() {
    let Some(folder) = shared_cases() else {
        println!("no shared cases here; nothing to compare with");
        return;
    };
    let text = std::fs::read_to_string(folder.join("descriptor/pencils.json")).expect("readable");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let cases = document["cases"].as_array().expect("cases");
    assert!(!cases.is_empty());
    for case in cases {
        let id = case["id"].as_str().expect("id");
        let exact = &case["exact"];
        let pencil = Pencil::new(read_matrix(&case["E"]), read_matrix(&case["A"])).expect("fits");
        let s = split_finite_infinite(&pencil, &options()).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(s.n_finite as u64, exact["n_finite"].as_u64().expect("count"), "{id}");
        assert_eq!(s.index as u64, exact["index"].as_u64().expect("index"), "{id}");
        let mut blocks: Vec<u64> = exact["infinite_block_sizes"]
            .as_array()
            .expect("sizes")
            .iter()
            .map(|v| v.as_u64().expect("size"))
            .collect();
        blocks.sort_unstable();
        assert_eq!(s.infinite_block_sizes.iter().map(|&b| b as u64).collect::<Vec<_>>(), blocks, "{id}");
        singular_extensions_agree(id, case, &pencil);
        // Eigenvalues by the exact characteristic polynomial: its coefficients from the computed roots.
        let poly: Vec<f64> = exact["char_poly_coeffs_high_to_low"]
            .as_array()
            .expect("coefficients")
            .iter()
            .map(|v| v.as_str().expect("text").parse().expect("number"))
            .collect();
        let mut product = vec![(1.0, 0.0)];
        for root in s.finite_eigenvalues().expect("converges") {
            let mut next = product.clone();
            next.push((0.0, 0.0));
            for (k, &(a, b)) in product.iter().enumerate() {
                next[k + 1].0 -= a * root.re - b * root.im;
                next[k + 1].1 -= a * root.im + b * root.re;
            }
            product = next;
        }
        let size = poly.iter().map(|c| c.abs()).fold(0.0, f64::max) / poly[0].abs();
        for (got, want) in product.iter().zip(&poly) {
            assert!((got.0 - want / poly[0]).abs() < 1e-8 * size, "{id}: {got:?} {}", want / poly[0]);
        }
    }
}
