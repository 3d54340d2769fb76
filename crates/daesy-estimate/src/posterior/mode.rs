//! Where chains begin.
//!
//! In coordinates q without bounds a density has another mode than in those of the unknowns, x, for its logarithm is
//! `l(x(q)) + log |dx/dq|`. Away from bounds the difference is small. At a bound it is all: q is infinite there, and so
//! is the scale that the curvature of l gives there. With `x' = dx/dq` and `a = d log |x'| / dq`, the mode in q and the
//! curvature at it are
//!
//! ```text
//! x' dl/dx + a = 0
//! -d2/dq2 = x'^2 H - x'' dl/dx - da/dq = x'^2 H + a^2 - da/dq,      H = -d2l/dx2,  x'' = a x',
//! ```
//!
//! the last by the first. `a^2 - da/dq` is 1 beside one bound and at least 1/2 between two, so that no direction with a
//! bound is without curvature. For a normal density of mean m and standard deviation s above a bound at 0 the mode is at
//! `x = (m + sqrt(m^2 + 4 s^2)) / 2`, with the curvature `1 + x^2 / s^2`.
//!
//! The mode is sought by Newton's method with the curvature H of the unknowns' mode, from such a point.

use faer::Mat;

use super::nuts::bounded_inverse;
use super::{LogDensity, Mode, Slope, Transform, Unbounded};

/// Steps at most.
const MAX_STEPS: usize = 30;

/// Halvings of a step at most.
const MAX_HALVINGS: usize = 12;

/// The search is over when a step promises to gain no more than this in the logarithm of the density.
const ENOUGH: f64 = 1e-3;

/// The longest step in one coordinate: e-fold distances from a bound.
const LONGEST: f64 = 2.0;

/// Where chains begin in coordinates without bounds, with the covariance that the curvature gives.
pub(super) struct Beginning {
    pub center: Vec<f64>,
    pub covariance: Mat<f64>,
}

impl Beginning {
    pub(super) fn beside(density: &Unbounded<'_>, mode: &Mode) -> Self {
        let at_bounds = |spread: f64| -> Vec<f64> {
            let variances = bounded_inverse(&mode.curvature);
            let coordinate = |(i, transform): (usize, &Transform)| {
                transform.coordinate(transform.moved_inside(mode.theta[i], spread * variances[(i, i)].sqrt()))
            };
            density.transforms.iter().enumerate().map(coordinate).collect()
        };
        let candidates = [1.0, 0.1, 0.0].map(at_bounds);
        let value = |q: &Vec<f64>| density.evaluate(q).map_or(f64::NEG_INFINITY, |slope| slope.value);
        let best = candidates.iter().max_by(|one, other| value(one).total_cmp(&value(other)));
        let mut center = best.unwrap_or(&candidates[0]).clone();
        let mut here = density.evaluate(&center);
        for _ in 0..MAX_STEPS {
            let Some(slope) = &here else { break };
            let Some((next, gained)) = climb(density, mode, &center, slope) else { break };
            let gain = gained.value - slope.value;
            (center, here) = (next, Some(gained));
            if gain < ENOUGH {
                break;
            }
        }
        let covariance = bounded_inverse(&curvature(density, mode, &center));
        Self { center, covariance }
    }
}

/// The curvature in coordinates without bounds, as it is at their mode.
fn curvature(density: &Unbounded<'_>, mode: &Mode, q: &[f64]) -> Mat<f64> {
    let n = q.len();
    let jacobian: Vec<f64> = density.transforms.iter().zip(q).map(|(transform, q)| transform.derivative(*q)).collect();
    Mat::from_fn(n, n, |i, j| {
        let of_bound = if i == j {
            let (slope, bend) = (density.transforms[i].log_derivative(q[i]).1, density.transforms[i].log_bend(q[i]));
            slope * slope - bend
        } else {
            0.0
        };
        jacobian[i] * mode.curvature[(i, j)] * jacobian[j] + of_bound
    })
}

/// A step uphill; `None` where there is none to gain.
fn climb(density: &Unbounded<'_>, mode: &Mode, q: &[f64], here: &Slope) -> Option<(Vec<f64>, Slope)> {
    let n = q.len();
    let inverse = bounded_inverse(&curvature(density, mode, q));
    let step: Vec<f64> = (0..n).map(|i| (0..n).map(|j| inverse[(i, j)] * here.gradient[j]).sum()).collect();
    let bounded = step.iter().zip(density.transforms).filter(|(_, transform)| **transform != Transform::Free);
    let longest = bounded.map(|(step, _)| step.abs()).fold(0.0, f64::max);
    let mut part = if longest > LONGEST { LONGEST / longest } else { 1.0 };
    for _ in 0..MAX_HALVINGS {
        let next: Vec<f64> = q.iter().zip(&step).map(|(q, step)| q + part * step).collect();
        if let Some(slope) = density.evaluate(&next).filter(|slope| slope.value > here.value) {
            return Some((next, slope));
        }
        part *= 0.5;
    }
    None
}
