//! How far a polynomial within an implicit step is from the solution.
//!
//! Stiff states that follow what drives them have tiny errors at the ends of steps of any length, and so have the
//! estimates made of them; between the ends a long step may miss all that happens. From a point (s, v) of the
//! polynomial with slope s', a Newton step towards the solution,
//!
//! ```text
//! ds - h gamma R(ds, dv) = h gamma (R(s, v) - s'),     F_s ds + F_v dv = -F(t, s, v),
//! ```
//!
//! with the matrix of the step is the distance itself for stiff states, and a part of the error of a step for others.

use crate::equations::{StageMatrix, Surroundings};
use crate::error::IntegrateError;
use crate::model::{Model, Moment};

/// A point of a polynomial, and memory.
pub(crate) struct Gauge {
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    /// The slopes of the states, times the length of the step.
    pub(crate) slopes: Vec<f64>,
    inputs: Vec<f64>,
    base: Vec<f64>,
    state_changes: Vec<f64>,
    unknown_changes: Vec<f64>,
}

impl Gauge {
    pub(crate) fn new(n_states: usize, n_unknowns: usize, n_inputs: usize) -> Self {
        Self {
            states: vec![0.0; n_states],
            unknowns: vec![0.0; n_unknowns],
            slopes: vec![0.0; n_states],
            inputs: vec![0.0; n_inputs],
            base: vec![0.0; n_states],
            state_changes: vec![0.0; n_states],
            unknown_changes: vec![0.0; n_unknowns],
        }
    }

    /// The distance from the solution at a fraction `x` of a step, in units of the tolerance of steps; infinite where
    /// the equations have no value.
    pub(crate) fn distance(
        &mut self,
        model: &mut Model<'_, '_>,
        matrix: &mut StageMatrix<f64>,
        old: &Moment,
        step: f64,
        gamma: f64,
        x: f64,
    ) -> Result<f64, IntegrateError> {
        let time = old.time + x * step;
        model.inputs().fill(time, true, &mut self.inputs);
        let around = Surroundings { time, parameters: &model.parameters, inputs: &self.inputs, modes: &model.modes };
        let equations = &mut model.equations;
        if !equations.residual(&around.point(&self.states, &self.unknowns), &mut self.unknown_changes) {
            return Ok(f64::INFINITY);
        }
        equations.rates(&self.states, &self.unknowns, &mut self.base);
        for (base, slope) in self.base.iter_mut().zip(&self.slopes) {
            *base = gamma * (step * *base - slope);
        }
        equations
            .solve_stage(matrix, &self.base, step * gamma, &mut self.state_changes, &mut self.unknown_changes)
            .map_err(|singular| equations.singular(time, singular))?;
        let error = model.size_of_error(self.state_changes.iter().copied(), &self.states, &self.unknown_changes).error;
        Ok(if error.is_finite() { error } else { f64::INFINITY })
    }
}
