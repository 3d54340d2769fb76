//! What of a start can be chosen freely: the state of the model's own standard form.
//!
//! With `P E Q = diag(I, N)`, `P F Q = diag(A, I)` of the model alone, without the filters of its disturbances
//! [@gerdin2007, eq. (14)],
//!
//! ```text
//! z(t_0) = Q_s x_s(t_0) + Q_a x_a(t_0),        x_s = P_s E z
//! ```
//!
//! `x_s(t_0)` is free, and `x_a(t_0) = -sum over k of N^k (G_a u^(k) + J_a w^(k))` is set by inputs and disturbances.
//! The projector `Pi = Q_s P_s E` takes the free part out of a value of `z`; it depends neither on the choice of `P`
//! and `Q`, nor, but for the obvious permutation and scaling, on the order and the units of variables and equations. A
//! start value that is written for a variable with noise in its algebraic part is hence a condition on `(Pi z)_i`; the
//! noise comes on top of it.
//!
//! With the transformations of [`state_space`](crate::state_space), `dQ = Q V` and `d(Q^-1) = -V Q^-1`, so that
//!
//! ```text
//! dPi = Q_a V_21 (Q^-1)_s - Q_s V_12 (Q^-1)_a
//! ```

use daesy_pencil::{Pencil, PencilOptions, split_finite_infinite};
use faer::Mat;

use crate::descriptor::{Coefficients, ModelLayout, StartMode, StartRows};
use crate::error::EstimateError;
use crate::state_space::{Couplings, Structure};

/// `Pi` with its derivatives, over all variables: states of filters have no part in it.
#[derive(Clone, Debug)]
pub(crate) struct FreeProjector {
    value: Mat<f64>,
    derivatives: Vec<Mat<f64>>,
}

impl FreeProjector {
    /// The projector; `None` if start conditions need none: they are to hold with the noise in them, there are no
    /// filters, or nothing is algebraic.
    pub fn new(
        layout: &ModelLayout,
        structure: &Structure,
        coefficients: &Coefficients,
        derivatives: &[Coefficients],
    ) -> Result<Option<Self>, EstimateError> {
        let is_free = matches!(layout.start, StartMode::Zero | StartMode::Estimated | StartMode::Diffuse);
        let n_filter: usize = layout.filters.iter().map(|filter| filter.states.len()).sum();
        if !is_free || n_filter == 0 || structure.index == 0 {
            return Ok(None);
        }
        let all = coefficients.e.ncols();
        let n = all - n_filter;
        let own = |a: &Mat<f64>| a.as_ref().submatrix(0, 0, n, n).to_owned();
        let widened = |a: Mat<f64>| Mat::from_fn(all, all, |i, j| if i < n && j < n { a[(i, j)] } else { 0.0 });
        let pencil = Pencil::new(own(&coefficients.e), own(&coefficients.f))?;
        let split = split_finite_infinite(&pencil, &PencilOptions::default())?;
        let couplings = Couplings::new(&split);
        let (finite, infinite) = (split.finite_coordinates(), split.infinite_coordinates());
        let derivatives = derivatives
            .iter()
            .map(|direction| {
                let moved = couplings.directions(&own(&direction.e), &own(&direction.f));
                widened(&couplings.q_a * moved.v21 * &finite - &couplings.q_s * moved.v12 * &infinite)
            })
            .collect();
        Ok(Some(Self { value: widened(&couplings.q_s * &finite), derivatives }))
    }

    /// Conditions on the free part only.
    pub fn rows(&self, rows: &StartRows) -> StartRows {
        StartRows { variables: &rows.variables * &self.value, ..rows.clone() }
    }

    /// Their derivative with respect to a parameter.
    pub fn row_derivatives(&self, rows: &StartRows, d_rows: &StartRows, parameter: usize) -> StartRows {
        let variables = &d_rows.variables * &self.value + &rows.variables * &self.derivatives[parameter];
        StartRows { variables, ..d_rows.clone() }
    }
}
