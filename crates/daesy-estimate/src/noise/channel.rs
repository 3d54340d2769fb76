//! One source of white noise and everything that follows from it.
//!
//! By the theorem of Cayley and Hamilton the response of a filter to one column b of its input matrix is, at all times,
//!
//! ```text
//! x(t) = K chi(t),   K = [b, A b, .., A^(n-1) b],     d chi = A_c chi dt + e_1 dz,     A_c = [ 0       -a_0     ]
//!                                                                                          [ 1  0    -a_1     ]
//!                                                                                          [    ..    ..      ]
//!                                                                                          [       1 -a_(n-1) ]
//! ```
//!
//! with a the characteristic polynomial of A. The pair (A_c, e_1) is controllable whatever A and b are, so that the
//! covariance of chi over any step is positive definite and its Cholesky factor smooth; where a parameter makes b
//! vanish, or the filter lose a mode, only K becomes singular, and K enters linearly. Time is counted in grid steps.

use faer::Mat;

use super::jet::JetMatrix;
use crate::discretize::{ContinuousModel, discretize_with_derivatives, stationary_covariance};

/// A channel on the grid.
#[derive(Clone, PartialEq, Debug)]
pub struct Channel {
    /// Number of components of chi.
    pub order: usize,
    /// Dynamics A_c, in grid steps.
    pub dynamics: JetMatrix,
    /// Over one grid step.
    pub transition: JetMatrix,
    /// Lower triangular factor of the covariance over one grid step.
    pub factor: JetMatrix,
    /// Lower triangular factor of the stationary covariance; `None` if the channel starts at zero.
    pub start: Option<JetMatrix>,
    /// Whether anything here depends on a direction.
    pub varies: Vec<bool>,
}

/// Transition and covariance over a span.
pub(super) struct Span {
    pub(super) transition: JetMatrix,
    pub(super) covariance: JetMatrix,
}

/// The characteristic polynomial of a matrix, lowest power first, the leading 1 left out (Faddeev and Le Verrier).
#[must_use]
pub fn characteristic_polynomial(a: &JetMatrix) -> Vec<Vec<f64>> {
    let n = a.value.nrows();
    let n_directions = a.derivatives.len();
    let trace = |matrix: &Mat<f64>| (0..n).map(|i| matrix[(i, i)]).sum::<f64>();
    let mut coefficients = vec![vec![0.0; n]; 1 + n_directions];
    let mut m = JetMatrix::constant(Mat::zeros(n, n), n_directions);
    let mut last = vec![0.0; 1 + n_directions];
    last[0] = 1.0;
    for k in 1..=n {
        m = a.times(&m);
        for i in 0..n {
            m.value[(i, i)] += last[0];
            for direction in 0..n_directions {
                m.derivatives[direction][(i, i)] += last[1 + direction];
            }
        }
        let product = a.times(&m);
        last[0] = -trace(&product.value) / k as f64;
        for direction in 0..n_directions {
            last[1 + direction] = -trace(&product.derivatives[direction]) / k as f64;
        }
        for (coefficients, last) in coefficients.iter_mut().zip(&last) {
            coefficients[n - k] = *last;
        }
    }
    coefficients
}

/// A_c, with its derivatives.
#[must_use]
pub fn companion(coefficients: &[Vec<f64>]) -> JetMatrix {
    let n = coefficients[0].len();
    let last_column = |a: &[f64]| Mat::from_fn(n, n, |i, j| if j + 1 == n { -a[i] } else { 0.0 });
    let mut value = last_column(&coefficients[0]);
    for i in 1..n {
        value[(i, i - 1)] += 1.0;
    }
    JetMatrix { value, derivatives: coefficients[1..].iter().map(|a| last_column(a)).collect() }
}

fn model(dynamics: &Mat<f64>, has_noise: bool) -> ContinuousModel {
    let n = dynamics.nrows();
    let mut intensity = Mat::zeros(n, n);
    if has_noise && n > 0 {
        intensity[(0, 0)] = 1.0;
    }
    ContinuousModel { dynamics: dynamics.clone(), input: Mat::zeros(n, 0), intensity }
}

/// Transition and covariance over a span in grid steps.
pub(super) fn over_span(dynamics: &JetMatrix, span: f64) -> Span {
    let derivatives: Vec<ContinuousModel> =
        dynamics.derivatives.iter().map(|derivative| model(derivative, false)).collect();
    let jet = discretize_with_derivatives(&model(&dynamics.value, true), &derivatives, span, 0);
    Span {
        transition: JetMatrix {
            value: jet.value.transition,
            derivatives: jet.derivatives.iter().map(|derivative| derivative.transition.clone()).collect(),
        },
        covariance: JetMatrix {
            value: jet.value.covariance,
            derivatives: jet.derivatives.into_iter().map(|derivative| derivative.covariance).collect(),
        },
    }
}

/// What keeps a channel from being realized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChannelProblem {
    /// Too many or too different time constants for the grid.
    IllConditioned,
    /// No stationary law.
    Unstable,
}

impl Channel {
    /// A channel from its characteristic polynomial in grid steps.
    pub(super) fn new(coefficients: &[Vec<f64>], starts_at_zero: bool) -> Result<Self, ChannelProblem> {
        let dynamics = companion(coefficients);
        let span = over_span(&dynamics, 1.0);
        let factor = span.covariance.cholesky().ok_or(ChannelProblem::IllConditioned)?;
        let start = if starts_at_zero {
            None
        } else {
            let derivatives: Vec<ContinuousModel> =
                dynamics.derivatives.iter().map(|derivative| model(derivative, false)).collect();
            let jet =
                stationary_covariance(&model(&dynamics.value, true), &derivatives).ok_or(ChannelProblem::Unstable)?;
            let covariance = JetMatrix { value: jet.value, derivatives: jet.derivatives };
            Some(covariance.cholesky().ok_or(ChannelProblem::Unstable)?)
        };
        let varies = coefficients[1..].iter().map(|derivative| derivative.iter().any(|a| *a != 0.0)).collect();
        Ok(Self { order: coefficients[0].len(), dynamics, transition: span.transition, factor, start, varies })
    }
}
