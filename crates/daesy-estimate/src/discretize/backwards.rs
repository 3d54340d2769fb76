//! Derivatives by a continuous model from those by its discretization, in one pass backwards.
//!
//! A bar denotes the derivative of a number `L` by the entries of a matrix, so that
//! `dL = tr(bar(X)^T dX)`. What a product `Z = X Y` passes on is [@giles2008, sec. 2.2]
//!
//! ```text
//! bar(X) += bar(Z) Y^T        bar(Y) += X^T bar(Z)
//! ```
//!
//! and for a symmetric `Q` with symmetric `bar(Q)`, `Z = X Q X^T` passes `2 bar(Z) X Q` on to `X` and `X^T bar(Z) X` to
//! `Q`. Applied to the sums and doublings of the module above in reverse order, that costs about twice as much as the
//! discretization itself, however many parameters the model depends on.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};

use super::{
    BLOCKED, ContinuousModel, DiscreteModel, NOISE_TERMS, TERMS, add_product, add_scaled, balancing, double, fold,
    n_doublings, scaled, short_step, taylor_factors,
};
use crate::kernel::{flat, matrix};

/// The derivatives of a number by the entries of a continuous model, from those by the entries of its discretization
/// over a step: `slope` holds `bar(Phi)`, `bar(G_j)` and the symmetric `bar(Q_d)`.
///
/// The model must have a discretization: one whose norm is not finite has no derivatives, and they are NaN.
pub(crate) fn discretize_backwards(model: &ContinuousModel, step: f64, slope: &DiscreteModel) -> ContinuousModel {
    let units = balancing(&model.dynamics);
    let balanced = scaled(model, &units, step);
    let degree = slope.inputs.len().saturating_sub(1);
    let Some(doublings) = n_doublings(&balanced.dynamics) else {
        let nothing = |a: &Mat<f64>| Mat::from_fn(a.nrows(), a.ncols(), |_, _| f64::NAN);
        return ContinuousModel {
            dynamics: nothing(&model.dynamics),
            input: nothing(&model.input),
            intensity: nothing(&model.intensity),
        };
    };
    let shortest = (-(doublings as f64)).exp2();
    let mut length = shortest;
    let mut path = Vec::with_capacity(doublings);
    if doublings > 0 {
        let mut jet = short_step(&balanced, &[], length, degree);
        for _ in 0..doublings {
            path.push(jet.value.clone());
            double(&mut jet, length);
            length *= 2.0;
        }
    }
    let mut slope = balanced_slope(slope, &units, step);
    for value in path.iter().rev() {
        length *= 0.5;
        halve(&mut slope, value, length);
    }
    let mut found = short_step_backwards(&balanced, &slope, shortest);
    for (j, &unit_j) in units.iter().enumerate() {
        for (i, &unit_i) in units.iter().enumerate() {
            found.dynamics[(i, j)] *= unit_j / unit_i * step;
            found.intensity[(i, j)] *= step / unit_i / unit_j;
        }
    }
    for j in 0..found.input.ncols() {
        for (i, &unit) in units.iter().enumerate() {
            found.input[(i, j)] *= step / unit;
        }
    }
    found
}

/// Slopes by the discretization in balanced units, with the step as the unit of time.
fn balanced_slope(slope: &DiscreteModel, units: &[f64], step: f64) -> DiscreteModel {
    let n = units.len();
    let of_power = |(power, g): (usize, &Mat<f64>)| {
        let factor = step.powi(power as i32);
        Mat::from_fn(n, g.ncols(), |i, j| g[(i, j)] * units[i] * factor)
    };
    DiscreteModel {
        transition: Mat::from_fn(n, n, |i, j| slope.transition[(i, j)] * units[i] / units[j]),
        inputs: slope.inputs.iter().enumerate().map(of_power).collect(),
        covariance: Mat::from_fn(n, n, |i, j| slope.covariance[(i, j)] * units[i] * units[j]),
    }
}

/// From slopes by the model of a step of length `2 h` to those by the model of a step of length `h`, which `value` is:
///
/// ```text
/// Phi' = Phi Phi     G_j' = Phi G_j + sum over i <= j of h^(j - i) / (j - i)! G_i     Q' = Q + Phi Q Phi^T
/// ```
fn halve(slope: &mut DiscreteModel, value: &DiscreteModel, h: f64) {
    let phi = &value.transition;
    let phi_t = phi.transpose();
    let mut transition = &slope.transition * phi_t + phi_t * &slope.transition;
    for (slope, value) in slope.inputs.iter().zip(&value.inputs) {
        transition += slope * value.transpose();
    }
    let spread = &slope.covariance * phi;
    transition += (&spread * &value.covariance) * faer::Scale(2.0);
    let inputs = (0..slope.inputs.len()).map(|i| {
        let mut sum = phi_t * &slope.inputs[i];
        let mut factor = 1.0;
        for (distance, later) in slope.inputs[i..].iter().enumerate() {
            if distance > 0 {
                factor *= h / distance as f64;
            }
            add_scaled(&mut sum, later, factor);
        }
        sum
    });
    slope.inputs = inputs.collect();
    slope.covariance += phi_t * spread;
    slope.transition = transition;
}

/// `c += a b^T` for column-major matrices of `rows` and `columns` rows; by plain loops where they are small.
fn add_outer_product(c: &mut [f64], a: &[f64], b: &[f64], rows: usize, columns: usize) {
    if rows == 0 || columns == 0 {
        return;
    }
    if rows < BLOCKED {
        for (a, b) in a.chunks_exact(rows).zip(b.chunks_exact(columns)) {
            for (target, &factor) in c.chunks_exact_mut(rows).zip(b) {
                crate::kernel::add_scaled(target, factor, a);
            }
        }
        return;
    }
    let target = MatMut::from_column_major_slice_mut(c, rows, columns);
    matmul(target, Accum::Add, matrix(a, rows), matrix(b, columns).transpose(), 1.0, Par::Seq);
}

/// Back over the series of a short step: `Z_k = A^k [I, B]` for `Phi` and all `G_j`, and `X_(k+1) = A X_k + X_k A^T` for
/// the covariance.
fn short_step_backwards(model: &ContinuousModel, slope: &DiscreteModel, tau: f64) -> ContinuousModel {
    let (n, n_inputs) = (model.dynamics.nrows(), model.input.ncols());
    let (a, a_t) = (flat(&model.dynamics), flat(&model.dynamics.transpose().to_owned()));
    let factors = taylor_factors(tau, slope.inputs.len().saturating_sub(1));
    let length = n * (n + n_inputs);
    let mut powers = vec![0.0; TERMS * length];
    (0..n).for_each(|i| powers[i * n + i] = 1.0);
    powers[n * n..length].copy_from_slice(&flat(&model.input));
    for k in 1..TERMS {
        let (before, next) = powers.split_at_mut(k * length);
        add_product(&mut next[..length], &a, &before[(k - 1) * length..], n, n);
    }
    let slopes: Vec<Vec<f64>> = slope.inputs.iter().map(flat).collect();
    let transition = flat(&slope.transition);
    let add_direct = |sum: &mut [f64], k: usize| {
        let (of_transition, of_inputs) = sum.split_at_mut(n * n);
        crate::kernel::add_scaled(of_transition, factors[k], &transition);
        for (power, slope) in slopes.iter().enumerate() {
            crate::kernel::add_scaled(of_inputs, factors[k + power + 1], slope);
        }
    };
    let mut dynamics = vec![0.0; n * n];
    let mut reached = vec![0.0; length];
    let mut spare = vec![0.0; length];
    add_direct(&mut reached, TERMS);
    for k in (0..TERMS).rev() {
        add_outer_product(&mut dynamics, &reached, &powers[k * length..(k + 1) * length], n, n);
        spare.fill(0.0);
        add_product(&mut spare, &a_t, &reached, n, n);
        add_direct(&mut spare, k);
        std::mem::swap(&mut reached, &mut spare);
    }
    let size = n * n;
    let n_spreads = NOISE_TERMS - 1;
    let mut spreads = vec![0.0; n_spreads * size];
    spreads[..size].copy_from_slice(&flat(&model.intensity));
    spare.truncate(size);
    for k in 1..n_spreads {
        spare.fill(0.0);
        add_product(&mut spare, &a, &spreads[(k - 1) * size..k * size], n, n);
        fold(&mut spreads[k * size..(k + 1) * size], &spare, n);
    }
    let covariance = flat(&slope.covariance);
    let mut half = vec![0.0; size];
    let mut intensity: Vec<f64> = covariance.iter().map(|x| x * factors[NOISE_TERMS]).collect();
    for k in (0..n_spreads).rev() {
        add_outer_product(&mut half, &intensity, &spreads[k * size..(k + 1) * size], n, n);
        spare.fill(0.0);
        add_product(&mut spare, &a_t, &intensity, n, n);
        fold(&mut intensity, &spare, n);
        crate::kernel::add_scaled(&mut intensity, factors[k + 1], &covariance);
    }
    crate::kernel::add_scaled(&mut dynamics, 2.0, &half);
    ContinuousModel {
        dynamics: Mat::from_fn(n, n, |i, j| dynamics[j * n + i]),
        input: Mat::from_fn(n, n_inputs, |i, j| reached[size + j * n + i]),
        intensity: Mat::from_fn(n, n, |i, j| intensity[j * n + i]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::discretize_with_derivatives;
    use super::*;

    /// What a pass backwards gives is, along any direction, what derivatives along it give forwards.
    #[test]
    fn backwards_and_forwards_agree() {
        let mut rng = fastrand::Rng::with_seed(21);
        let mut random = |rows: usize, columns: usize| Mat::from_fn(rows, columns, |_, _| 2.0 * rng.f64() - 1.0);
        for (n, step) in [(1, 0.1), (3, 0.05), (4, 2.5), (7, 40.0)] {
            let symmetric = |random: &mut dyn FnMut(usize, usize) -> Mat<f64>| {
                let a = random(n, n);
                &a + a.transpose()
            };
            let model = |random: &mut dyn FnMut(usize, usize) -> Mat<f64>| ContinuousModel {
                dynamics: random(n, n) - Mat::<f64>::identity(n, n),
                input: random(n, 2),
                intensity: symmetric(random),
            };
            let (value, direction) = (model(&mut random), model(&mut random));
            for degree in [0, 3] {
                let half = random(n, n);
                let slope = DiscreteModel {
                    transition: random(n, n),
                    inputs: (0..=degree).map(|_| random(n, 2)).collect(),
                    covariance: &half + half.transpose(),
                };
                let jet = discretize_with_derivatives(&value, std::slice::from_ref(&direction), step, degree);
                let along = |a: &Mat<f64>, b: &Mat<f64>| {
                    (0..a.ncols()).map(|j| crate::kernel::dot(a.col_as_slice(j), b.col_as_slice(j))).sum::<f64>()
                };
                let size = |a: &Mat<f64>, b: &Mat<f64>| a.norm_l2() * b.norm_l2();
                let forwards = &jet.derivatives[0];
                let pairs: Vec<(&Mat<f64>, &Mat<f64>)> = [(&slope.transition, &forwards.transition)]
                    .into_iter()
                    .chain(slope.inputs.iter().zip(&forwards.inputs))
                    .chain([(&slope.covariance, &forwards.covariance)])
                    .collect();
                let expected: f64 = pairs.iter().map(|(a, b)| along(a, b)).sum();
                let unit: f64 = pairs.iter().map(|(a, b)| size(a, b)).sum();
                let back = discretize_backwards(&value, step, &slope);
                let found = along(&back.dynamics, &direction.dynamics)
                    + along(&back.input, &direction.input)
                    + along(&back.intensity, &direction.intensity);
                assert!((found - expected).abs() < 1e-12 * unit, "n = {n}, degree {degree}: {found}, {expected}");
            }
        }
    }
}
