//! A system with its inputs, parameters and modes at hand: what every method works on.

use daesy_system::{DaeSystem, Part, Persistence};

use crate::block_solve::solve_by_blocks;
use crate::equations::{Equations, Surroundings};
use crate::error::IntegrateError;
use crate::simulate::Inputs;
use crate::unknowns::{Care, UnknownSolver};

/// Unknowns are solved to this fraction of the tolerance.
pub(crate) const UNKNOWN_GOAL: f64 = 0.01;

/// A point on the way with the rates of its states.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) time: f64,
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    pub(crate) rates: Vec<f64>,
}

/// A step tried: its result is in the memory of the method.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Trial {
    /// Estimated error in units of the tolerance.
    pub(crate) error: f64,
    /// The state with the largest error.
    pub(crate) worst: usize,
}

/// A system with everything that surrounds it.
pub(crate) struct Model<'s, 'i> {
    pub(crate) equations: Equations<'s>,
    pub(crate) unknown_solver: UnknownSolver<'s>,
    inputs: &'i dyn Inputs,
    pub(crate) parameters: Vec<f64>,
    pub(crate) modes: Vec<f64>,
    pub(crate) input_values: Vec<f64>,
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
    /// What an error of each state and unknown is measured by.
    pub(crate) state_weights: Vec<f64>,
    pub(crate) unknown_weights: Vec<f64>,
    /// Unknowns that the model prefers as states: their errors count as those of states do.
    preferred: Vec<usize>,
    /// How a change of each unknown counts, see [`Equations::scales`].
    pub(crate) scales: Vec<f64>,
}

impl<'s, 'i> Model<'s, 'i> {
    pub(crate) fn new(
        system: &'s dyn DaeSystem,
        inputs: &'i dyn Inputs,
        start: &Moment,
        parameters: Vec<f64>,
        input_values: Vec<f64>,
        modes: Vec<f64>,
    ) -> Result<Self, IntegrateError> {
        let mut equations = Equations::new(system);
        let around = Surroundings { time: start.time, parameters: &parameters, inputs: &input_values, modes: &modes };
        let unknown_solver = UnknownSolver::new(&mut equations, &around, &start.states, &start.unknowns)?;
        let (n_states, n_unknowns) = (start.states.len(), start.unknowns.len());
        let quantities = system.description().unknowns.iter().enumerate();
        let preferred = quantities.filter(|(_, quantity)| quantity.persistence >= Persistence::Prefer);
        Ok(Self {
            preferred: preferred.map(|(at, _)| at).collect(),
            equations,
            unknown_solver,
            inputs,
            parameters,
            modes,
            input_values,
            rtol: 1e-6,
            atol: 1e-9,
            state_weights: vec![1.0; n_states],
            unknown_weights: vec![1.0; n_unknowns],
            scales: vec![1.0; n_unknowns],
        })
    }

    /// Values of a part at a moment.
    pub(crate) fn evaluate(&mut self, part: Part, at: &Moment, values: &mut [f64]) {
        let around = Surroundings {
            time: at.time,
            parameters: &self.parameters,
            inputs: &self.input_values,
            modes: &self.modes,
        };
        self.equations.evaluator().evaluate(part, &around.point(&at.states, &at.unknowns), values);
    }

    /// Fills the inputs at a time. At a break the limit from the left or from the right is asked for.
    pub(crate) fn fill_inputs(&mut self, time: f64, is_after: bool) {
        self.inputs.fill(time, is_after, &mut self.input_values);
    }

    pub(crate) fn inputs(&self) -> &'i dyn Inputs {
        self.inputs
    }

    pub(crate) fn set_weights(&mut self, moment: &Moment) {
        let description = self.equations.system.description();
        let (rtol, atol) = (self.rtol, self.atol);
        for ((weight, value), quantity) in self.state_weights.iter_mut().zip(&moment.states).zip(&description.states) {
            *weight = rtol * value.abs() + atol * quantity.nominal;
        }
        for ((weight, value), quantity) in
            self.unknown_weights.iter_mut().zip(&moment.unknowns).zip(&description.unknowns)
        {
            *weight = rtol * value.abs().max(quantity.nominal) + atol * quantity.nominal;
        }
    }

    /// Sets how changes of unknowns count when they last for `eta`; zero counts them for themselves.
    pub(crate) fn set_scales(&mut self, eta: f64) {
        self.equations.scales(eta, &self.state_weights, &self.unknown_weights, &mut self.scales);
    }

    /// Solves the unknowns at given states with the inputs at hand.
    pub(crate) fn solve_unknowns(
        &mut self,
        time: f64,
        states: &[f64],
        unknowns: &mut [f64],
        care: Care,
    ) -> Result<(), IntegrateError> {
        let around =
            Surroundings { time, parameters: &self.parameters, inputs: &self.input_values, modes: &self.modes };
        self.unknown_solver.solve(&mut self.equations, &around, states, unknowns, &self.scales, UNKNOWN_GOAL, care)
    }

    /// The same from a guess that may be far away: where Newton's method loses its way, block by block.
    pub(crate) fn search_unknowns(
        &mut self,
        time: f64,
        states: &[f64],
        unknowns: &mut [f64],
    ) -> Result<(), IntegrateError> {
        let guess = unknowns.to_vec();
        let Err(error) = self.solve_unknowns(time, states, unknowns, Care::Checked) else { return Ok(()) };
        self.unknown_solver.forget_matrix();
        unknowns.copy_from_slice(&guess);
        let around =
            Surroundings { time, parameters: &self.parameters, inputs: &self.input_values, modes: &self.modes };
        if solve_by_blocks(self.equations.system, &around, states, unknowns) { Ok(()) } else { Err(error) }
    }

    /// Evaluates dF/dv and dF/ds at a point with the inputs at hand.
    pub(crate) fn differentiate(&mut self, at: &Moment) -> Result<(), IntegrateError> {
        let around = Surroundings {
            time: at.time,
            parameters: &self.parameters,
            inputs: &self.input_values,
            modes: &self.modes,
        };
        if self.equations.evaluate_jacobians(&around.point(&at.states, &at.unknowns)) {
            Ok(())
        } else {
            Err(self.equations.not_finite(&around, &at.states, &at.unknowns))
        }
    }

    /// Whether equations may have several solutions.
    pub(crate) fn has_nonlinear_blocks(&self) -> bool {
        self.equations.system.description().blocks.iter().any(|block| !block.is_linear)
    }

    /// The largest distance between values of unknowns that are solved for together with others, or not linearly, in
    /// units of their sizes.
    pub(crate) fn distance_of_searched(&self, values: &[f64], others: &[f64]) -> f64 {
        let description = self.equations.system.description();
        let searched = description.blocks.iter().filter(|block| !block.is_linear);
        let distance =
            |at: usize| (values[at] - others[at]).abs() / values[at].abs().max(description.unknowns[at].nominal);
        searched
            .flat_map(|block| block.start as usize..(block.start + block.len) as usize)
            .map(distance)
            .fold(0.0, f64::max)
    }

    /// Whether there are unknowns whose errors count as those of states do.
    pub(crate) fn has_preferred(&self) -> bool {
        !self.preferred.is_empty()
    }

    /// The errors of the unknowns at `states`, where these are off by `errors`, with the inputs at hand; nothing where
    /// none counts. `unknowns` are a guess.
    pub(crate) fn unknown_errors(
        &mut self,
        time: f64,
        states: &[f64],
        errors: &[f64],
        unknowns: &[f64],
    ) -> Result<Vec<f64>, IntegrateError> {
        if self.preferred.is_empty() {
            return Ok(Vec::new());
        }
        let mut here = unknowns.to_vec();
        self.solve_unknowns(time, states, &mut here, Care::Checked)?;
        let mut beside = here.clone();
        let moved: Vec<f64> = states.iter().zip(errors).map(|(state, error)| state - error).collect();
        self.solve_unknowns(time, &moved, &mut beside, Care::Checked)?;
        Ok(here.iter().zip(&beside).map(|(here, beside)| here - beside).collect())
    }

    /// The size of errors of the states, and of the unknowns that the model prefers as states, in units of the
    /// tolerance, and the state with the largest one.
    ///
    /// A state may determine another quantity that is far more sensitive, as the mass of a liquid does its pressure:
    /// an error of 1e-6 in the mass is one of 1e-2 in the pressure. Models say which of both is to be followed by
    /// `stateSelect`. Errors of unknowns may be left out where nobody prefers one.
    pub(crate) fn size_of_error(
        &self,
        errors: impl Iterator<Item = f64>,
        new_states: &[f64],
        unknown_errors: &[f64],
    ) -> Trial {
        let (mut largest, mut worst, mut sum_of_squares) = (0.0f64, 0, 0.0);
        for (state, error) in errors.enumerate() {
            let weight = self.state_weights[state].max(self.rtol * new_states[state].abs());
            let scaled = (error / weight).abs();
            sum_of_squares += scaled * scaled;
            if scaled > largest {
                (largest, worst) = (scaled, state);
            }
        }
        for &unknown in self.preferred.iter().filter(|_| !unknown_errors.is_empty()) {
            let scaled = (unknown_errors[unknown] / self.unknown_weights[unknown]).abs();
            sum_of_squares += scaled * scaled;
            largest = largest.max(scaled);
        }
        // Squares of large errors overflow.
        let mean = if sum_of_squares.is_infinite() {
            largest
        } else {
            (sum_of_squares / (new_states.len() + self.preferred.len()).max(1) as f64).sqrt()
        };
        Trial { error: mean.max(0.3 * largest), worst }
    }
}
