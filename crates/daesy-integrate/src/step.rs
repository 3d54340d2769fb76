//! One step after the other: the method, its error control, the return to the constraints and values between step ends.
//!
//! The method is an L-stable, stiffly accurate Runge-Kutta method of order 4 with an error estimate of order 3 (see the module
//! `tableau`). Every accepted step ends on the constraints. Between step ends the states are interpolated by cubic polynomials and
//! moved onto the constraints, after which the unknowns are solved from their equations.

use daesy_system::{DaeSystem, Part, Rate};

use crate::block_solve::solve_by_blocks;
use crate::error::IntegrateError;
use crate::initialize::Initialized;
use crate::newton::{Newton, Outcome, Surroundings};
use crate::project::Projector;
use crate::simulate::{Inputs, SimulateOptions};
use crate::tableau::{A, C, ERROR, GAMMA, STAGES};

/// Newton stops when the remaining error is below this fraction of the tolerance.
const NEWTON_GOAL: f64 = 0.03;

/// Values of all variables at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) time: f64,
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    pub(crate) inputs: Vec<f64>,
}

/// States and unknowns between two points.
struct Interpolated {
    states: Vec<f64>,
    unknowns: Vec<f64>,
}

/// Steps taken so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) steps: usize,
    pub(crate) rejected: usize,
}

/// A point on the way and what is needed to go on from it.
///
/// Whoever changes `states`, `unknowns`, `input_values` or `modes` calls [`Stepper::restart`] afterwards.
pub(crate) struct Stepper<'s, 'i> {
    system: &'s dyn DaeSystem,
    inputs: &'i dyn Inputs,
    options: &'i SimulateOptions,
    newton: Newton<'s>,
    output_newton: Newton<'s>,
    projector: Option<Projector<'s>>,
    pub(crate) parameters: Vec<f64>,
    pub(crate) modes: Vec<f64>,
    pub(crate) input_values: Vec<f64>,
    pub(crate) time: f64,
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    rates: Vec<f64>,
    /// Where the last step began.
    old: Place,
    old_rates: Vec<f64>,
    next_step: f64,
    state_weights: Vec<f64>,
    unknown_weights: Vec<f64>,
    stage_rates: Vec<Vec<f64>>,
    pub(crate) taken: Taken,
    pub(crate) constraint_residual_max: f64,
}

/// One step, not yet accepted.
struct Trial {
    states: Vec<f64>,
    unknowns: Vec<f64>,
    error: f64,
    worst: usize,
}

/// Work done by a stepper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StepperWork {
    pub(crate) factorizations: usize,
    pub(crate) evaluations: usize,
}

impl<'s, 'i> Stepper<'s, 'i> {
    /// Begins at a consistent point.
    pub(crate) fn new(
        system: &'s dyn DaeSystem,
        inputs: &'i dyn Inputs,
        options: &'i SimulateOptions,
        start: &Initialized,
        input_values: Vec<f64>,
        modes: Vec<f64>,
    ) -> Result<Self, IntegrateError> {
        let n_states = start.states.len();
        let mut stepper = Self {
            system,
            inputs,
            options,
            newton: Newton::new(system)?,
            output_newton: Newton::new(system)?,
            projector: Projector::new(system)?,
            parameters: start.parameters.clone(),
            modes,
            input_values,
            time: options.start,
            states: start.states.clone(),
            unknowns: start.unknowns.clone(),
            rates: vec![0.0; n_states],
            old: Place::default(),
            old_rates: vec![0.0; n_states],
            next_step: 0.0,
            state_weights: vec![1.0; n_states],
            unknown_weights: vec![1.0; start.unknowns.len()],
            stage_rates: vec![vec![0.0; n_states]; STAGES],
            taken: Taken::default(),
            constraint_residual_max: 0.0,
        };
        stepper.newton.rates(&stepper.states, &stepper.unknowns, &mut stepper.rates);
        stepper.next_step = stepper.first_step();
        Ok(stepper)
    }

    pub(crate) fn work(&self) -> StepperWork {
        StepperWork {
            factorizations: self.newton.work.factorizations + self.output_newton.work.factorizations,
            evaluations: self.newton.work.evaluations + self.output_newton.work.evaluations,
        }
    }

    /// Takes one step that ends at `end` at the latest; a step that ends there sees the inputs just before it.
    pub(crate) fn advance(&mut self, end: f64) -> Result<(), IntegrateError> {
        let options = self.options;
        let span = options.stop - options.start;
        self.set_weights();
        // Near the start the steps of a stiff model may be tiny against the whole span.
        let smallest = 1e-14 * self.time.abs() + 1e-24 * span;
        let left = end - self.time;
        let mut this_step = if self.next_step >= left {
            left
        } else if 2.0 * self.next_step > left {
            0.5 * left
        } else {
            self.next_step
        };
        loop {
            if options.watch.is_stopped() {
                return Err(IntegrateError::Stopped { time: self.time });
            }
            if self.taken.steps + self.taken.rejected >= options.max_steps {
                return Err(IntegrateError::TooManySteps { limit: options.max_steps, time: self.time });
            }
            let is_last = this_step >= left;
            let new_time = if is_last { end } else { self.time + this_step };
            let worst = match self.try_step(this_step, new_time, is_last) {
                Ok(Some(trial)) if trial.error <= 1.0 => return self.accept(trial, new_time, this_step),
                Ok(Some(trial)) => {
                    this_step *= (0.9 * trial.error.powf(-0.25)).clamp(0.15, 0.9);
                    trial.worst
                }
                Ok(None) => {
                    self.newton.forget_matrix();
                    this_step *= 0.3;
                    usize::MAX
                }
                Err(error) if this_step <= 1e3 * smallest => return Err(error),
                Err(_) => {
                    self.newton.forget_matrix();
                    this_step *= 0.3;
                    usize::MAX
                }
            };
            self.taken.rejected += 1;
            if this_step < smallest {
                return Err(self.step_too_small(worst, this_step));
            }
        }
    }

    /// Names the state that resists and the equation that gives its derivative.
    fn step_too_small(&self, worst: usize, step: f64) -> IntegrateError {
        let description = self.system.description();
        let state = if worst < description.states.len() { worst } else { 0 };
        let variable = description.states.get(state).map(|state| state.name.clone());
        let mut at = state;
        let unknown = loop {
            match description.rates.get(at) {
                Some(Rate::State(next)) => at = *next as usize,
                Some(Rate::Unknown(unknown)) => break Some(*unknown as usize),
                None => break None,
            }
        };
        let label = unknown.and_then(|unknown| description.residuals.get(unknown)).cloned();
        IntegrateError::StepTooSmall {
            time: self.time,
            step,
            variable: variable.unwrap_or_default(),
            equation: label.as_ref().map_or(String::new(), |label| label.text.clone()),
            place: label.map_or(String::new(), |label| label.place),
        }
    }

    /// A step whose first-order change is a small fraction of what the tolerance allows to be seen.
    fn first_step(&mut self) -> f64 {
        let span = self.options.stop - self.options.start;
        self.set_weights();
        let size = |values: &[f64]| {
            let n = values.len().max(1) as f64;
            (values.iter().zip(&self.state_weights).map(|(value, weight)| (value / weight).powi(2)).sum::<f64>() / n)
                .sqrt()
        };
        let rate = size(&self.rates);
        let guess = if rate > 1e-10 { 0.5 / rate } else { span };
        // The tolerance is of order 4 in the step: the fourth root of what a first-order method would take.
        let scale = self.options.rtol.powf(-0.5);
        (guess * scale).min(1e-2 * span).max(1e-20 * span)
    }

    fn set_weights(&mut self) {
        let description = self.system.description();
        let (rtol, atol) = (self.options.rtol, self.options.atol);
        for ((weight, value), quantity) in self.state_weights.iter_mut().zip(&self.states).zip(&description.states) {
            *weight = rtol * value.abs() + atol * quantity.nominal;
        }
        for ((weight, value), quantity) in
            self.unknown_weights.iter_mut().zip(&self.unknowns).zip(&description.unknowns)
        {
            *weight = rtol * value.abs().max(quantity.nominal) + atol * quantity.nominal;
        }
    }

    /// One step of the method; nothing where Newton's method did not converge.
    fn try_step(&mut self, step: f64, new_time: f64, is_at_break: bool) -> Result<Option<Trial>, IntegrateError> {
        let n_states = self.states.len();
        let eta = GAMMA * step;
        let mut states = self.states.clone();
        let mut unknowns = self.unknowns.clone();
        let mut base = vec![0.0; n_states];
        self.stage_rates[0].copy_from_slice(&self.rates);
        let mut is_fresh = false;
        for stage in 1..STAGES {
            let time = if stage == STAGES - 1 { new_time } else { self.time + C[stage] * step };
            self.inputs.fill(time, !(is_at_break && stage == STAGES - 1), &mut self.input_values);
            for state in 0..n_states {
                let mut sum = 0.0;
                for before in 0..stage {
                    sum += A[stage][before] * self.stage_rates[before][state];
                }
                base[state] = self.states[state] + step * sum;
            }
            let around =
                Surroundings { time, parameters: &self.parameters, inputs: &self.input_values, modes: &self.modes };
            if !self.newton.has_matrix_for(eta) {
                self.newton.factor(&around, eta, &states, &unknowns)?;
                is_fresh = true;
            }
            let guess = unknowns.clone();
            loop {
                let outcome = self.newton.solve(
                    &around,
                    eta,
                    &base,
                    &mut states,
                    &mut unknowns,
                    &self.state_weights,
                    &self.unknown_weights,
                    NEWTON_GOAL,
                )?;
                match outcome {
                    Outcome::Converged { rate } => {
                        if rate > 0.3 && !is_fresh {
                            self.newton.forget_matrix();
                            self.newton.factor(&around, eta, &states, &unknowns)?;
                            is_fresh = true;
                        }
                        break;
                    }
                    Outcome::Diverged if is_fresh => return Ok(None),
                    Outcome::Diverged => {
                        unknowns.copy_from_slice(&guess);
                        states.copy_from_slice(&self.states);
                        self.newton.factor(&around, eta, &states, &unknowns)?;
                        is_fresh = true;
                    }
                }
            }
            let mut rates = std::mem::take(&mut self.stage_rates[stage]);
            self.newton.rates(&states, &unknowns, &mut rates);
            self.stage_rates[stage] = rates;
        }
        let (mut error, mut worst) = (0.0f64, 0);
        let mut sum_of_squares = 0.0;
        for state in 0..n_states {
            let estimate: f64 = (0..STAGES).map(|stage| ERROR[stage] * self.stage_rates[stage][state]).sum();
            let weight = self.state_weights[state].max(self.options.rtol * states[state].abs());
            let scaled = (step * estimate / weight).abs();
            sum_of_squares += scaled * scaled;
            if scaled > error {
                (error, worst) = (scaled, state);
            }
        }
        let error = (sum_of_squares / n_states.max(1) as f64).sqrt().max(0.3 * error);
        if !error.is_finite() {
            return Ok(None);
        }
        Ok(Some(Trial { states, unknowns, error, worst }))
    }

    fn accept(&mut self, trial: Trial, new_time: f64, step: f64) -> Result<(), IntegrateError> {
        self.taken.steps += 1;
        self.old.time = self.time;
        self.old.states = std::mem::replace(&mut self.states, trial.states);
        self.old.unknowns = std::mem::replace(&mut self.unknowns, trial.unknowns);
        self.old_rates.copy_from_slice(&self.rates);
        self.time = new_time;
        self.return_to_constraints()?;
        self.newton.rates(&self.states, &self.unknowns, &mut self.rates);
        let factor = (0.9 * trial.error.max(1e-8).powf(-0.25)).clamp(0.2, 5.0);
        // A matrix is kept as long as the step stays; a small gain is not worth a new one.
        self.next_step = if (0.95..1.3).contains(&factor) { step } else { step * factor };
        Ok(())
    }

    /// Moves the states onto the constraints and solves the unknowns there.
    fn return_to_constraints(&mut self) -> Result<(), IntegrateError> {
        let Some(projector) = &mut self.projector else { return Ok(()) };
        let around = Surroundings {
            time: self.time,
            parameters: &self.parameters,
            inputs: &self.input_values,
            modes: &self.modes,
        };
        let goal = (0.1 * self.options.rtol).min(1e-8);
        let projected = projector.project(self.newton.evaluator(), &around, &mut self.states, &self.unknowns, goal)?;
        self.constraint_residual_max = self.constraint_residual_max.max(projected.residual);
        if projected.change > 0.0 {
            solve_unknowns(
                &mut self.output_newton,
                &around,
                &mut self.states,
                &mut self.unknowns,
                &self.state_weights,
                &self.unknown_weights,
            )?;
        }
        Ok(())
    }

    /// Everything at the point reached that is neither state nor unknown.
    pub(crate) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings { time: self.time, parameters: &self.parameters, inputs: &self.input_values, modes: &self.modes }
    }

    /// Goes on from the states, inputs and modes at hand, which somebody changed.
    pub(crate) fn restart(&mut self) -> Result<(), IntegrateError> {
        self.restart_holding(None)
    }

    /// Goes on from states of which some were given new values. Those are kept; what they are derivatives of is kept too, since a force
    /// of any size changes no position at once; all others follow by the least change. Where the constraints leave no other choice,
    /// only the given values are kept.
    pub(crate) fn restart_keeping(&mut self, given: &[usize]) -> Result<(), IntegrateError> {
        if self.projector.is_none() {
            return self.restart();
        }
        let rates = &self.system.description().rates;
        let depth = |state: usize| {
            let (mut at, mut depth) = (state, 1);
            while let Rate::State(next) = rates[at] {
                at = next as usize;
                depth += 1;
            }
            depth
        };
        let deepest = given.iter().map(|&state| depth(state)).max().unwrap_or(0);
        let is_given: Vec<bool> = (0..self.states.len()).map(|state| given.contains(&state)).collect();
        let is_kept: Vec<bool> =
            (0..self.states.len()).map(|state| is_given[state] || depth(state) > deepest).collect();
        let (states, unknowns) = (self.states.clone(), self.unknowns.clone());
        self.restart_holding(Some(&is_kept)).or_else(|_| {
            self.states.copy_from_slice(&states);
            self.unknowns.copy_from_slice(&unknowns);
            self.restart_holding(Some(&is_given))
        })
    }

    fn restart_holding(&mut self, held: Option<&[bool]>) -> Result<(), IntegrateError> {
        self.newton.forget_matrix();
        self.output_newton.forget_matrix();
        if let (Some(projector), Some(held)) = (&mut self.projector, held) {
            projector.hold(held);
        }
        let returned = self.return_to_constraints();
        if let Some(projector) = &mut self.projector {
            projector.release();
        }
        returned?;
        let around = Surroundings {
            time: self.time,
            parameters: &self.parameters,
            inputs: &self.input_values,
            modes: &self.modes,
        };
        let guess = self.unknowns.clone();
        let solved = solve_unknowns(
            &mut self.output_newton,
            &around,
            &mut self.states,
            &mut self.unknowns,
            &self.state_weights,
            &self.unknown_weights,
        );
        if let Err(error) = solved {
            // After a jump the last unknowns may be far from the new ones.
            self.unknowns.copy_from_slice(&guess);
            if !solve_by_blocks(self.system, &around, &self.states, &mut self.unknowns) {
                return Err(error);
            }
        }
        self.newton.rates(&self.states, &self.unknowns, &mut self.rates);
        self.next_step = self.first_step();
        Ok(())
    }

    /// Ends the last step earlier, at a place within it that [`Stepper::between`] gave; [`Stepper::restart`] follows.
    pub(crate) fn go_back(&mut self, place: &Place) {
        self.time = place.time;
        self.states.copy_from_slice(&place.states);
        self.unknowns.copy_from_slice(&place.unknowns);
        self.input_values.copy_from_slice(&place.inputs);
    }

    /// Where the last step began.
    pub(crate) fn step_start(&self) -> f64 {
        self.old.time
    }

    /// Times closer than this are not told apart.
    pub(crate) fn resolution(&self) -> f64 {
        4.0 * f64::EPSILON * self.time.abs() + 1e-18 * (self.options.stop - self.options.start)
    }

    /// Whether states are bound by constraints.
    pub(crate) fn has_constraints(&self) -> bool {
        self.projector.is_some()
    }

    /// A place a little ahead, by the present rates alone.
    pub(crate) fn along_tangent(&self, distance: f64) -> Place {
        let time = self.time + distance;
        let states = self.states.iter().zip(&self.rates).map(|(state, rate)| state + distance * rate).collect();
        let mut inputs = vec![0.0; self.input_values.len()];
        self.inputs.fill(time, true, &mut inputs);
        Place { time, states, unknowns: self.unknowns.clone(), inputs }
    }

    /// Takes the last step again such that it ends at `end`, which is within it.
    pub(crate) fn retake(&mut self, end: f64) -> Result<(), IntegrateError> {
        self.time = self.old.time;
        self.states.copy_from_slice(&self.old.states);
        self.unknowns.copy_from_slice(&self.old.unknowns);
        self.rates.copy_from_slice(&self.old_rates);
        self.next_step = end - self.time;
        self.advance(end)
    }

    /// Values at a time within the last step, interpolated only: no equation need be satisfied.
    pub(crate) fn roughly(&self, time: f64) -> Place {
        let mut inputs = vec![0.0; self.input_values.len()];
        let is_end = time == self.time;
        if is_end {
            inputs.copy_from_slice(&self.input_values);
        } else {
            self.inputs.fill(time, true, &mut inputs);
        }
        let Interpolated { states, unknowns } = self.interpolate(time);
        Place { time, states, unknowns, inputs }
    }

    /// Cubic Hermite interpolation of the states and linear interpolation of the unknowns over the last step.
    fn interpolate(&self, time: f64) -> Interpolated {
        let step = self.time - self.old.time;
        let x = (time - self.old.time) / step;
        // Cubic Hermite polynomials on [0, 1].
        let (h00, h10) = ((1.0 + 2.0 * x) * (1.0 - x) * (1.0 - x), x * (1.0 - x) * (1.0 - x) * step);
        let (h01, h11) = (x * x * (3.0 - 2.0 * x), x * x * (x - 1.0) * step);
        let states = (0..self.states.len())
            .map(|at| {
                h00 * self.old.states[at] + h10 * self.old_rates[at] + h01 * self.states[at] + h11 * self.rates[at]
            })
            .collect();
        let unknowns = self.old.unknowns.iter().zip(&self.unknowns).map(|(old, new)| old + x * (new - old)).collect();
        Interpolated { states, unknowns }
    }

    /// Observed quantities at the point reached.
    pub(crate) fn observe_here(&mut self) -> Vec<f64> {
        let around = Surroundings {
            time: self.time,
            parameters: &self.parameters,
            inputs: &self.input_values,
            modes: &self.modes,
        };
        let mut row = vec![0.0; self.system.description().observed.len()];
        self.newton.evaluator().evaluate(Part::Observed, &around.point(&self.states, &self.unknowns), &mut row);
        row
    }

    /// Observed quantities at a place with the modes at hand.
    pub(crate) fn observe(&mut self, place: &Place) -> Vec<f64> {
        self.evaluate_at(Part::Observed, place)
    }

    /// Any vector-valued part at a place with the modes at hand.
    pub(crate) fn evaluate_at(&mut self, part: Part, place: &Place) -> Vec<f64> {
        let around =
            Surroundings { time: place.time, parameters: &self.parameters, inputs: &place.inputs, modes: &self.modes };
        let mut values = vec![0.0; self.system.pattern(part).n_rows];
        self.output_newton.evaluator().evaluate(part, &around.point(&place.states, &place.unknowns), &mut values);
        values
    }

    /// Values at a time within the last step, on the constraints and with all equations satisfied.
    pub(crate) fn between(&mut self, time: f64) -> Result<Place, IntegrateError> {
        let Interpolated { mut states, mut unknowns } = self.interpolate(time);
        let mut inputs = vec![0.0; self.input_values.len()];
        if time == self.time {
            inputs.copy_from_slice(&self.input_values);
        } else {
            self.inputs.fill(time, true, &mut inputs);
        }
        let around = Surroundings { time, parameters: &self.parameters, inputs: &inputs, modes: &self.modes };
        if let Some(projector) = &mut self.projector {
            let goal = (0.1 * self.options.rtol).min(1e-8);
            let projected = projector.project(self.output_newton.evaluator(), &around, &mut states, &unknowns, goal)?;
            self.constraint_residual_max = self.constraint_residual_max.max(projected.residual);
        }
        solve_unknowns(
            &mut self.output_newton,
            &around,
            &mut states,
            &mut unknowns,
            &self.state_weights,
            &self.unknown_weights,
        )?;
        Ok(Place { time, states, unknowns, inputs })
    }
}

/// Solves the unknowns at fixed states, with the matrix at hand first and a new one if that does not do.
fn solve_unknowns(
    newton: &mut Newton<'_>,
    around: &Surroundings<'_>,
    states: &mut [f64],
    unknowns: &mut [f64],
    state_weights: &[f64],
    unknown_weights: &[f64],
) -> Result<(), IntegrateError> {
    let guess = unknowns.to_vec();
    for attempt in 0..4 {
        if attempt > 0 || !newton.has_matrix_for(0.0) {
            newton.factor(around, 0.0, states, unknowns)?;
        }
        let outcome = newton.solve(around, 0.0, &[], states, unknowns, state_weights, unknown_weights, NEWTON_GOAL)?;
        if let Outcome::Converged { rate } = outcome {
            if rate > 0.3 {
                newton.forget_matrix();
            }
            return Ok(());
        }
        if unknowns.iter().any(|value| !value.is_finite()) || attempt == 0 {
            unknowns.copy_from_slice(&guess);
        }
    }
    let name = newton.first_unknown();
    Err(IntegrateError::Singular { time: around.time, variable: name })
}
