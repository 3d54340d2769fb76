//! Exact discretization of linear stochastic differential equations, with exact derivatives.
//!
//! ```text
//! dx = (A x + B u) dt + dw,   E dw dw^T = Q dt,     u(t + s) = sum over j of c_j s^j / j!  for 0 <= s <= h
//!
//! x(t + h) = Phi x(t) + sum over j of G_j c_j + noise of covariance Q_d
//! Phi = e^(A h)    G_j = integral of e^(A (h - s)) s^j / j! ds B    Q_d = integral of e^(A s) Q e^(A^T s) ds
//! ```
//!
//! The three are summed as Taylor series over a step so short that `|A| h / 2^k <= 1/4`, and doubled `k` times:
//! `Phi <- Phi Phi`, `G_j <- Phi G_j + sum over i <= j of h^(j - i) / (j - i)! G_i`, `Q_d <- Q_d + Phi Q_d Phi^T`.
//! Unlike the exponential of the block matrix of [@vanloan1978], which holds `-A`, this neither overflows nor cancels
//! for stiff systems, and `Q_d` stays positive semidefinite. Sums and products are differentiated by the product rule,
//! so that derivatives are exact.
//!
//! `A` is balanced by powers of two first, so that units do not matter.

mod backwards;

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};

use crate::kernel::{flat, matrix};

pub(crate) use backwards::discretize_backwards;

/// A linear stochastic differential equation `dx = (A x + B u) dt + dw`, `E dw dw^T = Q dt`; also a derivative of one.
#[derive(Clone, Debug)]
pub struct ContinuousModel {
    /// `A`, `states x states`.
    pub dynamics: Mat<f64>,
    /// `B`, `states x inputs`.
    pub input: Mat<f64>,
    /// `Q`, `states x states`, symmetric.
    pub intensity: Mat<f64>,
}

/// What happens to the state within one step; also a derivative of it.
#[derive(Clone, Debug)]
pub struct DiscreteModel {
    /// `Phi`.
    pub transition: Mat<f64>,
    /// `G_j` by power `j` of the input's polynomial.
    pub inputs: Vec<Mat<f64>>,
    /// `Q_d`, symmetric.
    pub covariance: Mat<f64>,
}

/// A discretization with its derivatives.
#[derive(Clone, Debug)]
pub struct DiscreteJet {
    /// The discretization.
    pub value: DiscreteModel,
    /// Its derivatives, one for each derivative of the continuous model.
    pub derivatives: Vec<DiscreteModel>,
}

/// The matrix exponential.
#[must_use]
pub fn expm(a: &Mat<f64>) -> Mat<f64> {
    expm_with_derivatives(a, &[]).swap_remove(0)
}

/// The matrix exponential of `a`, followed by its Frechet derivatives in the given directions.
#[must_use]
pub fn expm_with_derivatives(a: &Mat<f64>, directions: &[Mat<f64>]) -> Vec<Mat<f64>> {
    let n = a.nrows();
    let model = |dynamics: &Mat<f64>| ContinuousModel {
        dynamics: dynamics.clone(),
        input: Mat::zeros(n, 0),
        intensity: Mat::zeros(0, 0),
    };
    let derivatives: Vec<ContinuousModel> = directions.iter().map(model).collect();
    let jet = discretize_with_derivatives(&model(a), &derivatives, 1.0, 0);
    std::iter::once(jet.value).chain(jet.derivatives).map(|discrete| discrete.transition).collect()
}

/// Discretizes over a step; `degree` is that of the polynomials that inputs are made of.
#[must_use]
pub fn discretize(model: &ContinuousModel, step: f64, degree: usize) -> DiscreteModel {
    discretize_with_derivatives(model, &[], step, degree).value
}

/// Norm of `A h` up to which the series are summed.
const SHORT: f64 = 0.25;
/// Terms of the series of `Phi` and `G`: `0.25^13 / 13!` is 2e-18.
const TERMS: usize = 13;
/// Terms of the series of `Q_d`, whose operator `X -> A X + X A^T` has twice the norm: `0.5^17 / 17!` is 2e-20.
const NOISE_TERMS: usize = 17;

/// As [`discretize`], with the derivatives that belong to those of the continuous model.
///
/// An `intensity` of size 0 leaves the noise out.
#[must_use]
pub fn discretize_with_derivatives(
    model: &ContinuousModel,
    derivatives: &[ContinuousModel],
    step: f64,
    degree: usize,
) -> DiscreteJet {
    let units = balancing(&model.dynamics);
    let balanced = scaled(model, &units, step);
    let directions: Vec<ContinuousModel> =
        derivatives.iter().map(|direction| scaled(direction, &units, step)).collect();
    let Some(doublings) = n_doublings(&balanced.dynamics) else {
        let nothing = |model: &ContinuousModel| DiscreteModel {
            transition: filled(&model.dynamics, f64::NAN),
            inputs: vec![filled(&model.input, f64::NAN); degree + 1],
            covariance: filled(&model.intensity, f64::NAN),
        };
        return DiscreteJet { value: nothing(model), derivatives: derivatives.iter().map(nothing).collect() };
    };
    let mut length = (-(doublings as f64)).exp2();
    let mut jet = short_step(&balanced, &directions, length, degree);
    for _ in 0..doublings {
        double(&mut jet, length);
        length *= 2.0;
    }
    unscale(&mut jet.value, &units, step);
    for derivative in &mut jet.derivatives {
        unscale(derivative, &units, step);
    }
    jet
}

/// How often a step must be halved until its series converge fast; `None` where the norm of `A h` is not finite or
/// beyond all reason.
fn n_doublings(a: &Mat<f64>) -> Option<usize> {
    let size = one_norm(a);
    let doublings = if size > SHORT { (size / SHORT).log2().ceil() } else { 0.0 };
    (0.0..=1000.0).contains(&doublings).then_some(doublings as usize)
}

fn filled(like: &Mat<f64>, value: f64) -> Mat<f64> {
    Mat::from_fn(like.nrows(), like.ncols(), |_, _| value)
}

pub(crate) fn one_norm(a: &Mat<f64>) -> f64 {
    let column = |j: usize| (0..a.nrows()).map(|i| a[(i, j)].abs()).sum::<f64>();
    (0..a.ncols()).map(column).fold(0.0, |largest, sum| if sum > largest || sum.is_nan() { sum } else { largest })
}

/// Powers of two `d` that make rows and columns of `d_i^-1 a_ij d_j` alike in size.   [@parlett1969]
pub(crate) fn balancing(a: &Mat<f64>) -> Vec<f64> {
    let n = a.nrows();
    let mut units = vec![1.0f64; n];
    for _ in 0..8 {
        let mut has_changed = false;
        for i in 0..n {
            let (mut row, mut column) = (0.0, 0.0);
            for j in (0..n).filter(|&j| j != i) {
                row += a[(i, j)].abs() * units[j] / units[i];
                column += a[(j, i)].abs() * units[i] / units[j];
            }
            if !(row > 0.0 && column > 0.0 && row.is_finite() && column.is_finite()) {
                continue;
            }
            let factor = (0.5 * (row / column).log2()).round().clamp(-60.0, 60.0).exp2();
            if factor != 1.0 && column * factor + row / factor < 0.95 * (column + row) {
                units[i] *= factor;
                has_changed = true;
            }
        }
        if !has_changed {
            break;
        }
    }
    units
}

/// The model in balanced units, with the step as the unit of time.
fn scaled(model: &ContinuousModel, units: &[f64], step: f64) -> ContinuousModel {
    let a = &model.dynamics;
    let (b, q) = (&model.input, &model.intensity);
    ContinuousModel {
        dynamics: Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * units[j] / units[i] * step),
        input: Mat::from_fn(b.nrows(), b.ncols(), |i, j| b[(i, j)] / units[i] * step),
        intensity: Mat::from_fn(q.nrows(), q.ncols(), |i, j| q[(i, j)] / units[i] / units[j] * step),
    }
}

fn unscale(model: &mut DiscreteModel, units: &[f64], step: f64) {
    let DiscreteModel { transition, inputs, covariance } = model;
    *transition = Mat::from_fn(transition.nrows(), transition.ncols(), |i, j| transition[(i, j)] * units[i] / units[j]);
    let mut power = 1.0;
    for g in inputs {
        *g = Mat::from_fn(g.nrows(), g.ncols(), |i, j| g[(i, j)] * units[i] * power);
        power *= step;
    }
    *covariance = Mat::from_fn(covariance.nrows(), covariance.ncols(), |i, j| covariance[(i, j)] * units[i] * units[j]);
}

fn add_scaled(sum: &mut Mat<f64>, term: &Mat<f64>, factor: f64) {
    for j in 0..sum.ncols() {
        crate::kernel::add_scaled(sum.col_as_slice_mut(j), factor, term.col_as_slice(j));
    }
}

/// `a x + (a x)^T` for symmetric `x`.
fn lyapunov_operator(ax: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(ax.nrows(), ax.ncols(), |i, j| ax[(i, j)] + ax[(j, i)])
}

/// A term of a series with its derivatives, side by side.
struct Term {
    value: Mat<f64>,
    derivatives: Mat<f64>,
    spare: Mat<f64>,
}

impl Term {
    fn new<'m>(value: &Mat<f64>, derivatives: impl Iterator<Item = Option<&'m Mat<f64>>>) -> Self {
        let n = value.ncols();
        let derivatives: Vec<Option<&Mat<f64>>> = derivatives.collect();
        let entry = |i: usize, j: usize| derivatives[j / n].map_or(0.0, |matrix| matrix[(i, j % n)]);
        let derivatives = Mat::from_fn(value.nrows(), derivatives.len() * n, entry);
        Self { value: value.clone(), spare: derivatives.clone(), derivatives }
    }

    /// From `X` and `dX` to `A X` and `dA X + A dX`.
    fn multiply(&mut self, a: &Mat<f64>, directions: &[ContinuousModel]) {
        let n = self.value.ncols();
        matmul(&mut self.spare, Accum::Replace, a, &self.derivatives, 1.0, Par::Seq);
        for (at, direction) in directions.iter().enumerate() {
            let target = self.spare.as_mut().subcols_mut(at * n, n);
            matmul(target, Accum::Add, &direction.dynamics, &self.value, 1.0, Par::Seq);
        }
        std::mem::swap(&mut self.derivatives, &mut self.spare);
        self.value = a * &self.value;
    }

    /// Adds this times a factor to a sum.
    fn add_to(&self, sum: &mut Self, factor: f64) {
        add_scaled(&mut sum.value, &self.value, factor);
        add_scaled(&mut sum.derivatives, &self.derivatives, factor);
    }

    /// `X + X^T` for the value and all derivatives.
    fn make_symmetric(&mut self) {
        let n = self.value.ncols();
        for first in (0..self.derivatives.ncols()).step_by(n.max(1)) {
            let mut square = self.derivatives.as_mut().subcols_mut(first, n);
            for j in 0..n {
                for i in 0..=j {
                    let sum = square[(i, j)] + square[(j, i)];
                    square[(i, j)] = sum;
                    square[(j, i)] = sum;
                }
            }
        }
        self.value = lyapunov_operator(&self.value);
    }

    fn derivative(&self, at: usize) -> Mat<f64> {
        let n = self.value.ncols();
        self.derivatives.as_ref().subcols(at * n, n).to_owned()
    }
}

/// `tau^k / k!` for all `k` that the series of a short step need.
fn taylor_factors(tau: f64, degree: usize) -> Vec<f64> {
    let mut factors = vec![1.0];
    for k in 1..=(TERMS + degree + 1).max(NOISE_TERMS) {
        factors.push(factors[k - 1] * tau / k as f64);
    }
    factors
}

/// Rows from which on blocked products pay.
const BLOCKED: usize = 8;

/// `c += a b` for column-major matrices, `a` of `rows x inner`; by plain loops where they are small.
fn add_product(c: &mut [f64], a: &[f64], b: &[f64], rows: usize, inner: usize) {
    if rows == 0 || inner == 0 {
        return;
    }
    if rows < BLOCKED {
        for (c, b) in c.chunks_exact_mut(rows).zip(b.chunks_exact(inner)) {
            crate::kernel::add_product(c, a, b);
        }
        return;
    }
    let n_columns = b.len() / inner;
    let target = MatMut::from_column_major_slice_mut(c, rows, n_columns);
    matmul(target, Accum::Add, matrix(a, rows), matrix(b, inner), 1.0, Par::Seq);
}

/// `x <- y + y^T` for square matrices of order `n`.
fn fold(x: &mut [f64], y: &[f64], n: usize) {
    for j in 0..n {
        for i in 0..n {
            x[j * n + i] = y[j * n + i] + y[i * n + j];
        }
    }
}

/// Taylor series over a step of length `tau`, the model alone: the powers `A^k [I, B]` for `Phi` and all `G_j`, and
/// those of the operator `X -> A X + X A^T` for the noise, in the same few places of memory.
fn short_step_value(model: &ContinuousModel, tau: f64, degree: usize) -> DiscreteModel {
    let (n, n_inputs) = (model.dynamics.nrows(), model.input.ncols());
    let a = flat(&model.dynamics);
    let factors = taylor_factors(tau, degree);
    let mut transition = vec![0.0; n * n];
    (0..n).for_each(|i| transition[i * n + i] = 1.0);
    let mut term = transition.clone();
    term.extend(flat(&model.input));
    let mut next = vec![0.0; term.len()];
    let mut inputs = vec![vec![0.0; n * n_inputs]; degree + 1];
    for k in 0..=TERMS {
        for (j, sum) in inputs.iter_mut().enumerate() {
            crate::kernel::add_scaled(sum, factors[k + j + 1], &term[n * n..]);
        }
        if k < TERMS {
            next.fill(0.0);
            add_product(&mut next, &a, &term, n, n);
            std::mem::swap(&mut term, &mut next);
            crate::kernel::add_scaled(&mut transition, factors[k + 1], &term[..n * n]);
        }
    }
    let mut covariance = filled(&model.intensity, 0.0);
    if n > 0 && model.intensity.nrows() == n {
        let mut sum = vec![0.0; n * n];
        let mut term = flat(&model.intensity);
        next.truncate(n * n);
        for (k, &factor) in factors.iter().enumerate().take(NOISE_TERMS + 1).skip(1) {
            crate::kernel::add_scaled(&mut sum, factor, &term);
            if k < NOISE_TERMS {
                next.fill(0.0);
                add_product(&mut next, &a, &term, n, n);
                fold(&mut term, &next, n);
            }
        }
        covariance = matrix(&sum, n).to_owned();
    }
    let entries = |sum: &Vec<f64>| Mat::from_fn(n, n_inputs, |i, j| sum[j * n + i]);
    let transition = Mat::from_fn(n, n, |i, j| transition[j * n + i]);
    DiscreteModel { transition, inputs: inputs.iter().map(entries).collect(), covariance }
}

/// Taylor series over a step of length `tau`.
fn short_step(model: &ContinuousModel, directions: &[ContinuousModel], tau: f64, degree: usize) -> DiscreteJet {
    if directions.is_empty() {
        return DiscreteJet { value: short_step_value(model, tau, degree), derivatives: Vec::new() };
    }
    let a = &model.dynamics;
    let n = a.nrows();
    let factors = taylor_factors(tau, degree);
    let factor = |k: usize| factors[k];
    let constant = |value: &Mat<f64>| Term::new(value, directions.iter().map(|_| None));

    // Powers of A, shared by Phi and G.
    let mut power = constant(&Mat::identity(n, n));
    let mut transition = constant(&Mat::identity(n, n));
    let mut reached = Term::new(&model.input, directions.iter().map(|direction| Some(&direction.input)));
    let nothing = Mat::zeros(n, model.input.ncols());
    let mut inputs: Vec<Term> = (0..=degree).map(|_| constant(&nothing)).collect();
    for k in 0..=TERMS {
        inputs.iter_mut().enumerate().for_each(|(j, sum)| reached.add_to(sum, factor(k + j + 1)));
        if k < TERMS {
            power.multiply(a, directions);
            reached.multiply(a, directions);
            power.add_to(&mut transition, factor(k + 1));
        }
    }

    let mut covariance = constant(&filled(&model.intensity, 0.0));
    if model.intensity.nrows() == n {
        let mut term = Term::new(&model.intensity, directions.iter().map(|direction| Some(&direction.intensity)));
        for k in 1..=NOISE_TERMS {
            term.add_to(&mut covariance, factor(k));
            if k < NOISE_TERMS {
                term.multiply(a, directions);
                term.make_symmetric();
            }
        }
    }
    let derivatives = (0..directions.len())
        .map(|at| DiscreteModel {
            transition: transition.derivative(at),
            inputs: inputs.iter().map(|sum| sum.derivative(at)).collect(),
            covariance: covariance.derivative(at),
        })
        .collect();
    let inputs = inputs.into_iter().map(|sum| sum.value).collect();
    let value = DiscreteModel { transition: transition.value, inputs, covariance: covariance.value };
    DiscreteJet { value, derivatives }
}

/// From a step of length `h` to one of `2 h`.
fn double(jet: &mut DiscreteJet, h: f64) {
    let DiscreteJet { value, derivatives } = jet;
    let phi = value.transition.clone();
    let phi_t = phi.transpose().to_owned();
    let has_noise = value.covariance.nrows() > 0;
    let spread = if has_noise { &phi * &value.covariance } else { Mat::zeros(0, 0) };
    for derivative in derivatives.iter_mut() {
        let d_phi = derivative.transition.clone();
        derivative.transition = &d_phi * &phi + &phi * &d_phi;
        let shifted = shift(&derivative.inputs, h);
        for ((g, value), shifted) in derivative.inputs.iter_mut().zip(&value.inputs).zip(shifted) {
            *g = &d_phi * value + &phi * &*g + shifted;
        }
        if has_noise {
            let half = &spread * d_phi.transpose();
            let grown = &phi * &derivative.covariance * &phi_t;
            derivative.covariance = &derivative.covariance + grown + lyapunov_operator(&half);
        }
    }
    value.transition = &phi * &phi;
    let shifted = shift(&value.inputs, h);
    for (g, shifted) in value.inputs.iter_mut().zip(shifted) {
        *g = &phi * &*g + shifted;
    }
    if has_noise {
        let grown = &spread * &phi_t;
        let sum = &value.covariance + grown;
        value.covariance = Mat::from_fn(sum.nrows(), sum.ncols(), |i, j| 0.5 * (sum[(i, j)] + sum[(j, i)]));
    }
}

/// `sum over i <= j of h^(j - i) / (j - i)! G_i` for every `j`: the polynomial of the input seen from the middle of the
/// double step.
fn shift(inputs: &[Mat<f64>], h: f64) -> Vec<Mat<f64>> {
    (0..inputs.len())
        .map(|j| {
            let mut sum = inputs[j].clone();
            let mut factor = 1.0;
            for distance in 1..=j {
                factor *= h / distance as f64;
                add_scaled(&mut sum, &inputs[j - distance], factor);
            }
            sum
        })
        .collect()
}

/// A stationary covariance with its derivatives.
#[derive(Clone, Debug)]
pub struct StationaryJet {
    /// `X` with `A X + X A^T + Q = 0`.
    pub value: Mat<f64>,
    /// Its derivatives, one for each derivative of the model.
    pub derivatives: Vec<Mat<f64>>,
}

/// The stationary covariance of a stable model, `A X + X A^T + Q = 0`; `None` if `A` is not stable.
///
/// `X` is the integral of `e^(A s) Q e^(A^T s)` over all `s >= 0`, by doubling the span until nothing is added.
/// [@smith1968]
#[must_use]
pub fn stationary_covariance(model: &ContinuousModel, derivatives: &[ContinuousModel]) -> Option<StationaryJet> {
    let n = model.dynamics.nrows();
    let without_input = |dynamics: &Mat<f64>, intensity: &Mat<f64>| ContinuousModel {
        dynamics: dynamics.clone(),
        input: Mat::zeros(n, 0),
        intensity: intensity.clone(),
    };
    if n == 0 {
        let none = Mat::zeros(0, 0);
        return Some(StationaryJet { value: none.clone(), derivatives: vec![none; derivatives.len()] });
    }
    let size = one_norm(&model.dynamics);
    if !(size > 0.0 && size.is_finite()) {
        return None;
    }
    if n == 1 {
        // In closed form: filters of first order are the most frequent ones.
        let rate = -2.0 * model.dynamics[(0, 0)];
        let value = Mat::from_fn(1, 1, |_, _| model.intensity[(0, 0)] / rate);
        let moved = |direction: &ContinuousModel| {
            let forced = 2.0 * direction.dynamics[(0, 0)] * value[(0, 0)] + direction.intensity[(0, 0)];
            Mat::from_fn(1, 1, |_, _| forced / rate)
        };
        let derivatives = derivatives.iter().map(moved).collect();
        return (rate > 0.0).then_some(StationaryJet { value, derivatives });
    }
    let units = balancing(&model.dynamics);
    let solve = |intensity: &Mat<f64>| -> Option<Mat<f64>> {
        let step = discretize(&without_input(&model.dynamics, intensity), 1.0 / size, 0);
        let mut phi = Mat::from_fn(n, n, |i, j| step.transition[(i, j)] * units[j] / units[i]);
        let mut sum = Mat::from_fn(n, n, |i, j| step.covariance[(i, j)] / units[i] / units[j]);
        for _ in 0..64 {
            let added = &phi * &sum * phi.transpose();
            sum += &added;
            phi = &phi * &phi;
            let left = one_norm(&phi);
            if !left.is_finite() {
                return None;
            }
            if left < 1e-9 {
                // The next doubling would add less than 1e-18 of what is there.
                return Some(Mat::from_fn(n, n, |i, j| 0.5 * (sum[(i, j)] + sum[(j, i)]) * units[i] * units[j]));
            }
        }
        None
    };
    let value = solve(&model.intensity)?;
    let derivatives = derivatives
        .iter()
        .map(|direction| {
            let forced = lyapunov_operator(&(&direction.dynamics * &value)) + &direction.intensity;
            solve(&forced)
        })
        .collect::<Option<Vec<_>>>()?;
    Some(StationaryJet { value, derivatives })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(rng: &mut fastrand::Rng, rows: usize, columns: usize) -> Mat<f64> {
        Mat::from_fn(rows, columns, |_, _| 2.0 * rng.f64() - 1.0)
    }

    fn random_model(rng: &mut fastrand::Rng, n: usize, m: usize) -> ContinuousModel {
        let l = random(rng, n, 2);
        ContinuousModel { dynamics: random(rng, n, n), input: random(rng, n, m), intensity: &l * l.transpose() }
    }

    fn distance(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
        (a - b).norm_max()
    }

    #[test]
    fn closed_forms_are_reproduced() {
        // A harmonic oscillator, the integral of white noise, and a double integrator with a ramp at its input.
        let (w, t) = (3.0f64, 0.7f64);
        let a = Mat::from_fn(2, 2, |i, j| [[0.0, w], [-w, 0.0]][i][j] * t);
        let phi = expm(&a);
        let expected =
            Mat::from_fn(2, 2, |i, j| [[(w * t).cos(), (w * t).sin()], [-(w * t).sin(), (w * t).cos()]][i][j]);
        assert!(distance(&phi, &expected) < 1e-14);
        let q = 0.3;
        let double_integrator = ContinuousModel {
            dynamics: Mat::from_fn(2, 2, |i, j| [[0.0, 1.0], [0.0, 0.0]][i][j]),
            input: Mat::from_fn(2, 1, |i, _| [0.0, 1.0][i]),
            intensity: Mat::from_fn(2, 2, |i, j| if i == 1 && j == 1 { q } else { 0.0 }),
        };
        let h = 5.0f64;
        let discrete = discretize(&double_integrator, h, 1);
        let covariance = Mat::from_fn(2, 2, |i, j| q * [[h.powi(3) / 3.0, h * h / 2.0], [h * h / 2.0, h]][i][j]);
        assert!(distance(&discrete.covariance, &covariance) < 1e-13 * h.powi(3));
        assert!((discrete.inputs[0][(0, 0)] - h * h / 2.0).abs() < 1e-13);
        assert!((discrete.inputs[1][(0, 0)] - h.powi(3) / 6.0).abs() < 1e-13);
        assert!((discrete.inputs[1][(1, 0)] - h * h / 2.0).abs() < 1e-13);
    }

    #[test]
    fn stiff_models_neither_overflow_nor_cancel() {
        let model = ContinuousModel {
            dynamics: Mat::from_fn(2, 2, |i, j| [[-1e7, 0.0], [1.0, -0.5]][i][j]),
            input: Mat::from_fn(2, 1, |i, _| [1e7, 0.0][i]),
            intensity: Mat::from_fn(2, 2, |i, j| if i == j { 2.0 } else { 0.0 }),
        };
        let discrete = discretize(&model, 1.0, 0);
        assert!((discrete.covariance[(0, 0)] / 1e-7 - 1.0).abs() < 1e-12);
        let slow = 2.0 * (1.0 - (-1.0f64).exp());
        assert!((discrete.covariance[(1, 1)] / slow - 1.0).abs() < 1e-6);
        assert!((discrete.inputs[0][(0, 0)] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn derivatives_equal_differences() {
        let mut rng = fastrand::Rng::with_seed(7);
        for n in [1, 3, 6] {
            let model = random_model(&mut rng, n, 2);
            let direction = ContinuousModel {
                intensity: {
                    let l = random(&mut rng, n, n);
                    &l + l.transpose()
                },
                ..random_model(&mut rng, n, 2)
            };
            let at = |epsilon: f64| {
                let moved = ContinuousModel {
                    dynamics: &model.dynamics + &direction.dynamics * faer::Scale(epsilon),
                    input: &model.input + &direction.input * faer::Scale(epsilon),
                    intensity: &model.intensity + &direction.intensity * faer::Scale(epsilon),
                };
                discretize(&moved, 2.5, 3)
            };
            let jet = discretize_with_derivatives(&model, std::slice::from_ref(&direction), 2.5, 3);
            let (plus, minus) = (at(1e-5), at(-1e-5));
            let check = |exact: &Mat<f64>, plus: &Mat<f64>, minus: &Mat<f64>| {
                let difference = (plus - minus) * faer::Scale(0.5e5);
                assert!(distance(exact, &difference) < 1e-7 * (1.0 + exact.norm_max()), "n = {n}");
            };
            let exact = &jet.derivatives[0];
            check(&exact.transition, &plus.transition, &minus.transition);
            check(&exact.covariance, &plus.covariance, &minus.covariance);
            for j in 0..4 {
                check(&exact.inputs[j], &plus.inputs[j], &minus.inputs[j]);
            }
        }
    }

    #[test]
    fn two_steps_are_one_of_double_length() {
        let mut rng = fastrand::Rng::with_seed(11);
        let model = random_model(&mut rng, 5, 1);
        let (half, whole) = (discretize(&model, 1.5, 0), discretize(&model, 3.0, 0));
        assert!(
            distance(&whole.transition, &(&half.transition * &half.transition)) < 1e-12 * whole.transition.norm_max()
        );
        let grown = &half.covariance + &half.transition * &half.covariance * half.transition.transpose();
        assert!(distance(&whole.covariance, &grown) < 1e-12 * grown.norm_max());
    }

    #[test]
    fn stationary_covariances_solve_their_equation() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut model = random_model(&mut rng, 5, 1);
        for i in 0..5 {
            model.dynamics[(i, i)] -= 3.0;
        }
        let direction = random_model(&mut rng, 5, 1);
        let jet = stationary_covariance(&model, std::slice::from_ref(&direction)).expect("it is stable");
        let residual = lyapunov_operator(&(&model.dynamics * &jet.value)) + &model.intensity;
        assert!(residual.norm_max() < 1e-13);
        let moved = |epsilon: f64| ContinuousModel {
            dynamics: &model.dynamics + &direction.dynamics * faer::Scale(epsilon),
            input: model.input.clone(),
            intensity: &model.intensity + &direction.intensity * faer::Scale(epsilon),
        };
        let value = |epsilon: f64| stationary_covariance(&moved(epsilon), &[]).expect("it is stable").value;
        let difference = (value(1e-5) - value(-1e-5)) * faer::Scale(0.5e5);
        assert!(distance(&jet.derivatives[0], &difference) < 1e-8);
        model.dynamics[(0, 0)] = 30.0;
        assert!(stationary_covariance(&model, &[]).is_none());
        // One state: as part of two that do not know of each other.
        let one = |a: f64, q: f64| ContinuousModel {
            dynamics: Mat::from_fn(1, 1, |_, _| a),
            input: Mat::zeros(1, 0),
            intensity: Mat::from_fn(1, 1, |_, _| q),
        };
        let two = |a: f64, q: f64, other: f64| ContinuousModel {
            dynamics: Mat::from_fn(2, 2, |i, j| if i == j { [a, other][i] } else { 0.0 }),
            input: Mat::zeros(2, 0),
            intensity: Mat::from_fn(2, 2, |i, j| if i == j { [q, -other][i] } else { 0.0 }),
        };
        let alone = stationary_covariance(&one(-0.7, 1.3), &[one(0.4, -0.2)]).expect("it is stable");
        let beside = stationary_covariance(&two(-0.7, 1.3, -1.0), &[two(0.4, -0.2, 0.0)]).expect("it is stable");
        assert!((alone.value[(0, 0)] - beside.value[(0, 0)]).abs() < 1e-14);
        assert!((alone.derivatives[0][(0, 0)] - beside.derivatives[0][(0, 0)]).abs() < 1e-14);
        assert!(stationary_covariance(&one(0.3, 1.0), &[]).is_none());
    }
}
