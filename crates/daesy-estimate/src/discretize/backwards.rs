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
use faer::{Accum, Mat, MatRef, Par};

use super::{
    ContinuousModel, DiscreteModel, NOISE_TERMS, TERMS, add_scaled, balancing, double, lyapunov_operator, n_doublings,
    scaled, short_step,
};

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

/// Rows from which on blocked products pay.
const BLOCKED: usize = 8;

/// `c += a b`, by plain loops where matrices are small.
fn add_product(c: &mut Mat<f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    if c.nrows() >= BLOCKED {
        matmul(c, Accum::Add, a, b, 1.0, Par::Seq);
        return;
    }
    for j in 0..c.ncols() {
        let column = c.col_as_slice_mut(j);
        for k in 0..a.ncols() {
            let factor = b[(k, j)];
            column.iter_mut().enumerate().for_each(|(i, sum)| *sum += a[(i, k)] * factor);
        }
    }
}

/// Back over the series of a short step: `Z_k = A^k [I, B]` for `Phi` and all `G_j`, and `X_(k+1) = A X_k + X_k A^T` for
/// the covariance.
fn short_step_backwards(model: &ContinuousModel, slope: &DiscreteModel, tau: f64) -> ContinuousModel {
    let a = &model.dynamics;
    let (n, n_inputs) = (a.nrows(), model.input.ncols());
    let mut factors = vec![1.0];
    for k in 1..=(TERMS + slope.inputs.len()).max(NOISE_TERMS) {
        factors.push(factors[k - 1] * tau / k as f64);
    }
    let mut powers: Vec<Mat<f64>> = Vec::with_capacity(TERMS);
    powers.push(Mat::from_fn(n, n + n_inputs, |i, j| match j.checked_sub(n) {
        None => f64::from(u8::from(i == j)),
        Some(input) => model.input[(i, input)],
    }));
    for k in 1..TERMS {
        let mut next = Mat::zeros(n, n + n_inputs);
        add_product(&mut next, a.as_ref(), powers[k - 1].as_ref());
        powers.push(next);
    }
    let add_direct = |sum: &mut Mat<f64>, k: usize| {
        for j in 0..n {
            crate::kernel::add_scaled(sum.col_as_slice_mut(j), factors[k], slope.transition.col_as_slice(j));
        }
        for (power, slope) in slope.inputs.iter().enumerate() {
            for j in 0..n_inputs {
                let column = sum.col_as_slice_mut(n + j);
                crate::kernel::add_scaled(column, factors[k + power + 1], slope.col_as_slice(j));
            }
        }
    };
    let mut dynamics = Mat::<f64>::zeros(n, n);
    let mut reached = Mat::<f64>::zeros(n, n + n_inputs);
    let mut spare = reached.clone();
    add_direct(&mut reached, TERMS);
    for (k, power) in powers.iter().enumerate().rev() {
        add_product(&mut dynamics, reached.as_ref(), power.transpose());
        spare.fill(0.0);
        add_product(&mut spare, a.transpose(), reached.as_ref());
        add_direct(&mut spare, k);
        std::mem::swap(&mut reached, &mut spare);
    }
    let mut spreads: Vec<Mat<f64>> = Vec::with_capacity(NOISE_TERMS);
    spreads.push(model.intensity.clone());
    let mut spare = Mat::<f64>::zeros(n, n);
    for k in 1..NOISE_TERMS - 1 {
        spare.fill(0.0);
        add_product(&mut spare, a.as_ref(), spreads[k - 1].as_ref());
        spreads.push(lyapunov_operator(&spare));
    }
    let mut half = Mat::<f64>::zeros(n, n);
    let mut intensity = &slope.covariance * faer::Scale(factors[NOISE_TERMS]);
    for (k, spread) in spreads.iter().enumerate().rev() {
        add_product(&mut half, intensity.as_ref(), spread.as_ref());
        spare.fill(0.0);
        add_product(&mut spare, a.transpose(), intensity.as_ref());
        for j in 0..n {
            for i in 0..n {
                intensity[(i, j)] = spare[(i, j)] + spare[(j, i)] + factors[k + 1] * slope.covariance[(i, j)];
            }
        }
    }
    add_scaled(&mut dynamics, &half, 2.0);
    let input = reached.as_ref().subcols(n, n_inputs).to_owned();
    ContinuousModel { dynamics, input, intensity }
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
