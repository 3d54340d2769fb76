//! Pencils with a known structure behind random transformations.
#![allow(dead_code, missing_docs, non_snake_case)]

use daesy_pencil::{Mat, Pencil};
use fastrand::Rng;

/// What is hidden.
#[derive(Debug, Clone, Default)]
pub struct Structure {
    pub n_finite: usize,
    /// Ascending.
    pub infinite_block_sizes: Vec<usize>,
    pub left_minimal_indices: Vec<usize>,
    pub right_minimal_indices: Vec<usize>,
}

/// How it is hidden.
#[derive(Debug, Clone, Copy)]
pub struct Disguise {
    pub condition: f64,
    /// Rows and columns are scaled by factors between `1 / scaling` and `scaling`.
    pub scaling: f64,
}

/// A hidden structure.
pub struct Draw {
    pub structure: Structure,
    pub disguise: Disguise,
    pub pencil: Pencil,
}

pub fn normal(rng: &mut Rng) -> f64 {
    let u = rng.f64().max(1e-300);
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

pub fn gaussian(rng: &mut Rng, m: usize, n: usize) -> Mat<f64> {
    Mat::from_fn(m, n, |_, _| normal(rng))
}

pub fn orthogonal(rng: &mut Rng, n: usize) -> Mat<f64> {
    gaussian(rng, n, n).qr().compute_Q()
}

/// Random square matrix with singular values spread evenly, in logarithm, over `1 / condition .. 1`.
pub fn conditioned(rng: &mut Rng, n: usize, condition: f64) -> Mat<f64> {
    let u = orthogonal(rng, n);
    let v = orthogonal(rng, n);
    let last = (n.max(2) - 1) as f64;
    let scaled = Mat::from_fn(n, n, |i, j| u[(i, j)] * condition.powf(-(j as f64) / last));
    &scaled * v.transpose()
}

fn log_uniform(rng: &mut Rng, low: f64, high: f64) -> f64 {
    (low.ln() + rng.f64() * (high.ln() - low.ln())).exp()
}

/// Random finite part and random infinite blocks of sizes 1 to 5 that fill `n`.
pub fn random_structure(rng: &mut Rng, n: usize) -> Structure {
    let n_infinite = if rng.u8(0..8) == 0 { 0 } else { rng.usize(1..=n) };
    let largest = rng.usize(1..=5);
    let mut sizes = Vec::new();
    let mut left = n_infinite;
    while left > 0 {
        let size = rng.usize(1..=largest).min(left);
        sizes.push(size);
        left -= size;
    }
    sizes.sort_unstable();
    Structure { n_finite: n - n_infinite, infinite_block_sizes: sizes, ..Structure::default() }
}

/// The canonical pencil of a structure: finite part with random dynamics, then infinite, right, left blocks.
pub fn canonical(rng: &mut Rng, structure: &Structure) -> (Mat<f64>, Mat<f64>) {
    let nf = structure.n_finite;
    let infinite: usize = structure.infinite_block_sizes.iter().sum();
    let (right_rows, n_right) =
        (structure.right_minimal_indices.iter().sum::<usize>(), structure.right_minimal_indices.len());
    let (left_cols, n_left) =
        (structure.left_minimal_indices.iter().sum::<usize>(), structure.left_minimal_indices.len());
    let rows = nf + infinite + right_rows + left_cols + n_left;
    let cols = nf + infinite + right_rows + n_right + left_cols;
    let mut E = Mat::zeros(rows, cols);
    let mut F = Mat::zeros(rows, cols);
    let scale = 1.0 / (nf.max(1) as f64).sqrt();
    for j in 0..nf {
        E[(j, j)] = 1.0;
        for i in 0..nf {
            F[(i, j)] = scale * normal(rng);
        }
    }
    let (mut r, mut c) = (nf, nf);
    for &size in &structure.infinite_block_sizes {
        for k in 0..size {
            F[(r + k, c + k)] = 1.0;
            if k + 1 < size {
                E[(r + k, c + k + 1)] = 1.0;
            }
        }
        r += size;
        c += size;
    }
    for &size in &structure.right_minimal_indices {
        for k in 0..size {
            E[(r + k, c + k)] = 1.0;
            F[(r + k, c + k + 1)] = 1.0;
        }
        r += size;
        c += size + 1;
    }
    for &size in &structure.left_minimal_indices {
        for k in 0..size {
            E[(r + k, c + k)] = 1.0;
            F[(r + k + 1, c + k)] = 1.0;
        }
        r += size + 1;
        c += size;
    }
    (E, F)
}

/// Hides a structure.
pub fn hide(rng: &mut Rng, structure: Structure, disguise: Disguise) -> Draw {
    let (E, F) = canonical(rng, &structure);
    let (m, n) = E.shape();
    let P = conditioned(rng, m, disguise.condition);
    let Q = conditioned(rng, n, disguise.condition);
    let factors = |rng: &mut Rng, k: usize| -> Vec<f64> {
        (0..k).map(|_| log_uniform(rng, 1.0 / disguise.scaling, disguise.scaling)).collect()
    };
    let (dr, dc) = (factors(rng, m), factors(rng, n));
    let wrap = |X: &Mat<f64>| -> Mat<f64> {
        let Y = &P * X * &Q;
        Mat::from_fn(m, n, |i, j| dr[i] * Y[(i, j)] * dc[j])
    };
    let pencil = Pencil::new(wrap(&E), wrap(&F)).expect("finite entries of equal shape");
    Draw { structure, disguise, pencil }
}

/// A random regular draw with condition 1e4 and scaling 1e8 exactly: the hard corner of [`random_draw`].
pub fn hard_draw(seed: u64, n_max: usize) -> Draw {
    let mut rng = Rng::with_seed(seed);
    let n = log_uniform(&mut rng, 2.0, n_max as f64 + 0.99) as usize;
    let structure = random_structure(&mut rng, n);
    hide(&mut rng, structure, Disguise { condition: 1e4, scaling: 1e8 })
}

/// A random regular draw of size at most `n_max` with condition up to 1e4 and scaling up to 1e8.
pub fn random_draw(seed: u64, n_max: usize) -> Draw {
    let mut rng = Rng::with_seed(seed);
    let n = log_uniform(&mut rng, 2.0, n_max as f64 + 0.99) as usize;
    let structure = random_structure(&mut rng, n);
    let disguise = Disguise {
        condition: log_uniform(&mut rng, 1.0 + 1e-9, 1e4),
        scaling: if rng.bool() { 1.0 } else { log_uniform(&mut rng, 1.0, 1e8) },
    };
    hide(&mut rng, structure, disguise)
}
