//! Adaptive integration with output on a given grid: from break to break of the inputs, step by step, row by row.
//!
//! Where an input jumps, the table has a row before and a row after. Every row satisfies all equations.

use daesy_system::{DaeSystem, Watch};

use crate::error::IntegrateError;
use crate::initialize::{InitializeOptions, Initialized, initialize};
use crate::step::Stepper;
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
    /// Asked before every step whether to stop.
    pub watch: Watch,
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
    let stepper = Stepper::new(system, inputs, options, &simulation.start, input_values, modes)?;
    let mut run = Run { inputs, transfer, options, stepper, next_output: 0 };
    run.integrate(&mut simulation)?;
    let work = run.stepper.work();
    simulation.steps = run.stepper.taken.steps;
    simulation.rejected = run.stepper.taken.rejected;
    simulation.factorizations = work.factorizations;
    simulation.evaluations = work.evaluations;
    simulation.constraint_residual_max = run.stepper.constraint_residual_max;
    Ok(simulation)
}

struct Run<'s, 'i> {
    inputs: &'i dyn Inputs,
    transfer: Option<&'i mut dyn Transfer>,
    options: &'i SimulateOptions,
    stepper: Stepper<'s, 'i>,
    next_output: usize,
}

impl Run<'_, '_> {
    fn integrate(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let options = self.options;
        self.write_rows(simulation)?;
        if self.transfer.as_ref().is_some_and(|transfer| transfer.acts_at_start(options.start)) {
            self.cross_break(simulation)?;
        }
        let breaks: Vec<f64> = self
            .inputs
            .breaks()
            .iter()
            .copied()
            .filter(|&time| time > options.start && time < options.stop)
            .chain([options.stop])
            .collect();
        for end in breaks {
            while self.stepper.time < end {
                self.stepper.advance(end)?;
                self.write_rows(simulation)?;
            }
            if end < options.stop {
                self.cross_break(simulation)?;
            }
        }
        Ok(())
    }

    /// Writes the rows up to the time reached.
    fn write_rows(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let reached = self.stepper.time;
        while let Some(&time) = self.options.output_times.get(self.next_output).filter(|&&time| time <= reached) {
            let row = if time == reached || time <= self.options.start {
                self.stepper.observe_here()
            } else {
                let place = self.stepper.between(time)?;
                self.stepper.observe(&place)
            };
            simulation.times.push(time);
            simulation.rows.push(row);
            self.next_output += 1;
        }
        Ok(())
    }

    /// Crosses a break of the inputs: the states that follow, and a row before and after where something jumps.
    fn cross_break(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let time = self.stepper.time;
        let before = self.stepper.observe_here();
        let inputs_before = self.stepper.input_values.clone();
        self.inputs.fill(time, true, &mut self.stepper.input_values);
        let mut crossed = Crossed::Smoothly;
        if let Some(transfer) = &mut self.transfer {
            let crossing = Crossing {
                time,
                inputs_before: &inputs_before,
                inputs_after: &self.stepper.input_values,
                observed_before: &before,
                parameters: &self.stepper.parameters,
            };
            crossed = transfer
                .cross(&crossing, &mut self.stepper.states)
                .map_err(|error| IntegrateError::NoTransfer { time, reason: error.reason })?;
        }
        self.stepper.restart()?;
        let after = self.stepper.observe_here();
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
}
