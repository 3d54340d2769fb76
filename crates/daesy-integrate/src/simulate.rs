//! Adaptive integration with output on a given grid.
//!
//! The method is an L-stable, stiffly accurate Runge-Kutta method of order 4 with an error estimate of order 3 (see the module
//! `tableau`). Every accepted step ends on the constraints. Where an input jumps, the table has a row before and a row after.
//! Output between step ends is by cubic interpolation of the states, after which the unknowns are solved from their equations, so
//! that every row of the output satisfies all equations.

use daesy_system::{DaeSystem, Part};

use crate::error::IntegrateError;
use crate::initialize::{InitializeOptions, Initialized, initialize};
use crate::newton::{Newton, Outcome, Surroundings};
use crate::project::Projector;
use crate::tableau::{A, C, ERROR, GAMMA, STAGES};
use crate::transfer::{Crossed, Crossing, Transfer};

/// Values of the inputs over time.
pub trait Inputs {
    /// Writes all inputs and the derivatives the model needs. At a break, `is_after` asks for the right limit.
    fn fill(&self, time: f64, is_after: bool, values: &mut [f64]);

    /// Times at which an input or a needed derivative jumps, ascending.
    fn breaks(&self) -> &[f64];
}

/// How to integrate.
#[derive(Clone, PartialEq, Debug)]
pub struct SimulateOptions {
    /// First time.
    pub start: f64,
    /// Last time, not before the first.
    pub stop: f64,
    /// Times of output rows, ascending, within start and stop.
    pub output_times: Vec<f64>,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance, multiplied by nominal values.
    pub atol: f64,
    /// Steps before giving up.
    pub max_steps: usize,
}

/// A trajectory and the work it took.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation {
    /// Times of the rows.
    pub times: Vec<f64>,
    /// Observed quantities, row by row.
    pub rows: Vec<Vec<f64>>,
    /// Rows that follow a jump: each has the same time as the row before it.
    pub jumps: Vec<usize>,
    /// The consistent start.
    pub start: Initialized,
    /// Accepted steps.
    pub steps: usize,
    /// Rejected steps.
    pub rejected: usize,
    /// Matrices factored.
    pub factorizations: usize,
    /// Evaluations of the residuals.
    pub evaluations: usize,
    /// Largest constraint residual at an accepted point, relative to the size of its row.
    pub constraint_residual_max: f64,
}

/// Whether two rows at the same time differ by more than rounding.
fn is_jump(before: &[f64], after: &[f64]) -> bool {
    before
        .iter()
        .zip(after)
        .any(|(before, after)| (before - after).abs() > 1e-9 * before.abs().max(after.abs()).max(1e-6))
}

/// Newton stops when the remaining error is below this fraction of the tolerance.
const NEWTON_GOAL: f64 = 0.03;

struct Run<'s, 'i> {
    system: &'s dyn DaeSystem,
    inputs: &'i dyn Inputs,
    transfer: Option<&'i mut dyn Transfer>,
    options: &'i SimulateOptions,
    newton: Newton<'s>,
    output_newton: Newton<'s>,
    projector: Option<Projector<'s>>,
    parameters: Vec<f64>,
    modes: Vec<f64>,
    input_values: Vec<f64>,
    time: f64,
    states: Vec<f64>,
    unknowns: Vec<f64>,
    rates: Vec<f64>,
    state_weights: Vec<f64>,
    unknown_weights: Vec<f64>,
    stage_rates: Vec<Vec<f64>>,
    constraint_residual_max: f64,
}

/// One step, not yet accepted.
struct Trial {
    states: Vec<f64>,
    unknowns: Vec<f64>,
    error: f64,
    worst: usize,
}

/// Integrates a system from its consistent start.
///
/// # Errors
/// When no consistent start is found or the method gives up; the error says when and where.
pub fn simulate(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    options: &SimulateOptions,
) -> Result<Simulation, IntegrateError> {
    simulate_with(system, parameters, inputs, None, options)
}

/// Integrates a system from its consistent start; at every break of the inputs `transfer` gives the states that follow.
///
/// # Errors
/// When no consistent start is found or the method gives up; the error says when and where.
pub fn simulate_with<'i>(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &'i dyn Inputs,
    transfer: Option<&'i mut dyn Transfer>,
    options: &'i SimulateOptions,
) -> Result<Simulation, IntegrateError> {
    let description = system.description();
    let mut input_values = vec![0.0; description.n_inputs];
    inputs.fill(options.start, true, &mut input_values);
    let modes = vec![0.0; description.n_modes];
    let start = initialize(system, options.start, parameters, &input_values, &modes, &InitializeOptions::default())?;
    let mut run = Run {
        system,
        inputs,
        transfer,
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
        rates: vec![0.0; start.states.len()],
        state_weights: vec![1.0; start.states.len()],
        unknown_weights: vec![1.0; start.unknowns.len()],
        stage_rates: vec![vec![0.0; start.states.len()]; STAGES],
        constraint_residual_max: 0.0,
    };
    run.newton.rates(&run.states, &run.unknowns, &mut run.rates);
    let mut simulation = Simulation {
        times: Vec::with_capacity(options.output_times.len()),
        rows: Vec::with_capacity(options.output_times.len()),
        jumps: Vec::new(),
        start,
        steps: 0,
        rejected: 0,
        factorizations: 0,
        evaluations: 0,
        constraint_residual_max: 0.0,
    };
    run.integrate(&mut simulation)?;
    simulation.factorizations = run.newton.work.factorizations + run.output_newton.work.factorizations;
    simulation.evaluations = run.newton.work.evaluations + run.output_newton.work.evaluations;
    simulation.constraint_residual_max = run.constraint_residual_max;
    Ok(simulation)
}

impl Run<'_, '_> {
    fn integrate(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let options = self.options;
        let mut next_output = 0;
        while next_output < options.output_times.len() && options.output_times[next_output] <= options.start {
            let row = self.observe_here();
            simulation.times.push(options.output_times[next_output]);
            simulation.rows.push(row);
            next_output += 1;
        }
        if self.transfer.as_ref().is_some_and(|transfer| transfer.acts_at_start(options.start)) {
            self.cross_break(simulation)?;
        }
        let span = options.stop - options.start;
        let breaks: Vec<f64> = self
            .inputs
            .breaks()
            .iter()
            .copied()
            .filter(|&time| time > options.start && time < options.stop)
            .chain([options.stop])
            .collect();
        let mut step = self.first_step(span);
        for end in breaks {
            while self.time < end {
                self.set_weights();
                // Near the start the steps of a stiff model may be tiny against the whole span.
                let smallest = 1e-14 * self.time.abs() + 1e-24 * span;
                let left = end - self.time;
                let mut this_step = if step >= left {
                    left
                } else if 2.0 * step > left {
                    0.5 * left
                } else {
                    step
                };
                loop {
                    if simulation.steps + simulation.rejected >= options.max_steps {
                        return Err(IntegrateError::TooManySteps { limit: options.max_steps, time: self.time });
                    }
                    let is_last = this_step >= left;
                    let new_time = if is_last { end } else { self.time + this_step };
                    let trial = self.try_step(this_step, new_time, is_last);
                    let worst = match trial {
                        Ok(Some(trial)) if trial.error <= 1.0 => {
                            simulation.steps += 1;
                            let old_step = this_step;
                            self.accept(trial, new_time, old_step, &mut next_output, simulation, &mut step)?;
                            break;
                        }
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
                    simulation.rejected += 1;
                    if this_step < smallest {
                        let states = &self.system.description().states;
                        let variable = states.get(worst).or(states.first()).map(|state| state.name.clone());
                        return Err(IntegrateError::StepTooSmall {
                            time: self.time,
                            step: this_step,
                            variable: variable.unwrap_or_default(),
                        });
                    }
                }
            }
            if end < options.stop {
                self.cross_break(simulation)?;
                step = self.first_step(span);
            }
        }
        Ok(())
    }

    /// A step whose first-order change is a small fraction of what the tolerance allows to be seen.
    fn first_step(&mut self, span: f64) -> f64 {
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

    fn accept(
        &mut self,
        trial: Trial,
        new_time: f64,
        step: f64,
        next_output: &mut usize,
        simulation: &mut Simulation,
        next_step: &mut f64,
    ) -> Result<(), IntegrateError> {
        let old = (self.time, std::mem::replace(&mut self.states, trial.states), self.rates.clone());
        let old_unknowns = std::mem::replace(&mut self.unknowns, trial.unknowns);
        self.time = new_time;
        self.return_to_constraints()?;
        self.newton.rates(&self.states, &self.unknowns, &mut self.rates);
        while let Some(&time) = self.options.output_times.get(*next_output).filter(|&&time| time <= new_time) {
            let row = if time == new_time {
                self.observe_here()
            } else {
                self.observe_between(&old.1, &old.2, &old_unknowns, old.0, time)?
            };
            simulation.times.push(time);
            simulation.rows.push(row);
            *next_output += 1;
        }
        let factor = (0.9 * trial.error.max(1e-8).powf(-0.25)).clamp(0.2, 5.0);
        // A matrix is kept as long as the step stays; a small gain is not worth a new one.
        *next_step = if (0.95..1.3).contains(&factor) { step } else { step * factor };
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

    /// Crosses a break of the inputs: the states that follow, and a row before and after where something jumps.
    fn cross_break(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let time = self.time;
        let before = self.observe_here();
        let inputs_before = self.input_values.clone();
        self.inputs.fill(time, true, &mut self.input_values);
        let mut crossed = Crossed::Smoothly;
        if let Some(transfer) = &mut self.transfer {
            let crossing = Crossing {
                time,
                inputs_before: &inputs_before,
                inputs_after: &self.input_values,
                observed_before: &before,
                parameters: &self.parameters,
            };
            crossed = transfer
                .cross(&crossing, &mut self.states)
                .map_err(|error| IntegrateError::NoTransfer { time, reason: error.reason })?;
        }
        self.restart_after_break()?;
        let after = self.observe_here();
        if crossed == Crossed::WithJump || is_jump(&before, &after) {
            if simulation.times.last() != Some(&time) {
                simulation.times.push(time);
                simulation.rows.push(before);
            }
            simulation.times.push(time);
            simulation.rows.push(after);
            simulation.jumps.push(simulation.rows.len() - 1);
        }
        Ok(())
    }

    /// Goes on from the states at hand with the inputs at hand.
    fn restart_after_break(&mut self) -> Result<(), IntegrateError> {
        self.newton.forget_matrix();
        self.output_newton.forget_matrix();
        self.return_to_constraints()?;
        let around = Surroundings {
            time: self.time,
            parameters: &self.parameters,
            inputs: &self.input_values,
            modes: &self.modes,
        };
        solve_unknowns(
            &mut self.output_newton,
            &around,
            &mut self.states,
            &mut self.unknowns,
            &self.state_weights,
            &self.unknown_weights,
        )?;
        self.newton.rates(&self.states, &self.unknowns, &mut self.rates);
        Ok(())
    }

    fn observe_here(&mut self) -> Vec<f64> {
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

    /// Observed quantities at a time within the last step.
    fn observe_between(
        &mut self,
        old_states: &[f64],
        old_rates: &[f64],
        old_unknowns: &[f64],
        old_time: f64,
        time: f64,
    ) -> Result<Vec<f64>, IntegrateError> {
        let step = self.time - old_time;
        let x = (time - old_time) / step;
        // Cubic Hermite polynomials on [0, 1].
        let (h00, h10) = ((1.0 + 2.0 * x) * (1.0 - x) * (1.0 - x), x * (1.0 - x) * (1.0 - x) * step);
        let (h01, h11) = (x * x * (3.0 - 2.0 * x), x * x * (x - 1.0) * step);
        let mut states: Vec<f64> = (0..old_states.len())
            .map(|at| h00 * old_states[at] + h10 * old_rates[at] + h01 * self.states[at] + h11 * self.rates[at])
            .collect();
        let mut unknowns: Vec<f64> =
            old_unknowns.iter().zip(&self.unknowns).map(|(old, new)| old + x * (new - old)).collect();
        let mut input_values = vec![0.0; self.input_values.len()];
        self.inputs.fill(time, true, &mut input_values);
        let around = Surroundings { time, parameters: &self.parameters, inputs: &input_values, modes: &self.modes };
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
        let mut row = vec![0.0; self.system.description().observed.len()];
        self.output_newton.evaluator().evaluate(Part::Observed, &around.point(&states, &unknowns), &mut row);
        Ok(row)
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
