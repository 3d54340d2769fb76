//! Samples of Monte Carlo methods, side by side in lanes.
//!
//! Step lengths come from a pilot: the first samples of the study, which every process that works on it knows. What a
//! sample gives depends on them and on itself, whoever computes it and in whatever company.

use daesy_compile::CompiledSystem;
use daesy_integrate::ensemble::{
    BLOCK_LANES, Ensemble, EnsembleOptions, EnsemblePoint, EnsembleStart, Experiment, Grid, InputTable, Member,
    Schedule, Undisturbed, choose_method, reference_point, start_of,
};
use daesy_integrate::{Inputs as _, SimulateOptions};
use daesy_system::{DaeSystem, StepLayout, StepProgram, StepRequest, Watch};
use rayon::prelude::*;

use daesy_study::inputs::StudyInputs;

/// Intervals that the time span has at least.
const MIN_INTERVALS: usize = 50;

/// What an operation takes in lanes, in nanoseconds: measured once, so that the choice does not depend on the machine.
const LANE_OPERATION: f64 = 0.5;

/// The same for a trajectory alone, and what each of its evaluations takes beside operations.
const LONE_OPERATION: f64 = 2.5;
const LONE_EVALUATION: f64 = 300.0;

/// Evaluations of the equations that a step in lanes holds.
const STAGES: f64 = 4.0;

/// A model compiled for lanes, with its steps.
pub struct LaneRuns {
    program: Box<dyn StepProgram>,
    schedule: Schedule,
    grid: Grid,
    table: InputTable,
    options: EnsembleOptions,
}

/// The model and what is asked of it.
pub struct LaneTask<'a> {
    /// The model, without events.
    pub system: &'a CompiledSystem,
    /// Its inputs, without breaks.
    pub inputs: &'a StudyInputs,
    /// Times and tolerances.
    pub options: &'a SimulateOptions,
    /// Wanted columns of the observed quantities.
    pub columns: &'a [usize],
}

impl LaneRuns {
    /// Compiles the model and finds its steps by parameters that stand for all others; none where lanes do not serve: a
    /// model that has no steps in lanes or assertions, which are checked all the time, a pilot that breaks down, or more
    /// work than `n_evaluations` of the adaptive
    /// method, whose steps are of higher order.
    pub fn new(task: &LaneTask<'_>, pilots: &[Vec<f64>], n_evaluations: usize) -> Option<Self> {
        let options = task.options;
        let span = options.stop - options.start;
        let n_outputs = options.output_times.len().saturating_sub(1).max(1);
        let n_intervals = n_outputs * MIN_INTERVALS.div_ceil(n_outputs);
        let has_assertions = task.system.description().events.assertions.iter().any(|assertion| !assertion.is_warning);
        if span <= 0.0 || has_assertions {
            return None;
        }
        let grid =
            Grid { start: options.start, step: span / n_intervals as f64, samples: options.output_times.clone() };
        let pilots = &pilots[..pilots.len().min(BLOCK_LANES)];
        let members: Option<Vec<Member>> =
            pilots.iter().map(|parameters| member(task, parameters.clone(), options.start)).collect();
        let members = members?;
        let first = members.first()?;
        let point = EnsemblePoint {
            parameters: first.parameters.clone(),
            tangents: Vec::new(),
            starts: vec![EnsembleStart { lanes: vec![first.start.clone()] }],
        };
        let observed: Vec<u32> = task.columns.iter().map(|&column| column as u32).collect();
        let ensemble_options = EnsembleOptions { rtol: options.rtol, atol: options.atol, ..EnsembleOptions::default() };
        let layout =
            StepLayout { n_inputs: task.system.description().n_inputs, nodes: vec![1.0], ..StepLayout::default() };
        let table = InputTable::new(&grid, task.inputs, &layout);
        let experiment = Experiment { grid: &grid, inputs: task.inputs, table: &table };
        let method = choose_method(task.system, &experiment, &point, &Undisturbed, &observed, ensemble_options).ok()?;
        let reference = reference_point(&experiment, &point, task.system);
        let request = StepRequest { method, directions: &[], observed: &observed, reference: &reference };
        let program = task.system.step_program(&request).ok()?;
        let table = InputTable::new(&grid, task.inputs, program.layout());
        let schedule = {
            let experiments = [Experiment { grid: &grid, inputs: task.inputs, table: &table }];
            let ensemble = Ensemble {
                program: program.as_ref(),
                experiments: &experiments,
                n_realizations: members.len(),
                options: ensemble_options,
            };
            ensemble.pilot(&members, &options.watch)?
        };
        let n_operations = program.layout().n_operations as f64;
        let in_lanes = schedule.n_steps() as f64 * n_operations * LANE_OPERATION;
        let alone = n_evaluations as f64 * (n_operations / STAGES * LONE_OPERATION + LONE_EVALUATION);
        let is_worth_it = in_lanes < alone;
        is_worth_it.then_some(Self { program, schedule, grid, table, options: ensemble_options })
    }

    /// Columns of the wanted quantities, one after the other, for each set of parameters there is; none where it has to
    /// be computed alone.
    pub fn run(&self, task: &LaneTask<'_>, parameters: Vec<Option<Vec<f64>>>, watch: &Watch) -> Vec<Option<Vec<f64>>> {
        let started: Vec<Option<Member>> = parameters
            .into_par_iter()
            .map(|parameters| if watch.is_stopped() { None } else { member(task, parameters?, self.grid.start) })
            .collect();
        let members: Vec<Member> = started.iter().flatten().cloned().collect();
        let experiments = [Experiment { grid: &self.grid, inputs: task.inputs, table: &self.table }];
        let ensemble = Ensemble {
            program: self.program.as_ref(),
            experiments: &experiments,
            n_realizations: members.len(),
            options: self.options,
        };
        let (n_rows, n_columns) = (self.grid.samples.len(), task.columns.len());
        let in_columns = |outputs: Vec<f64>| -> Vec<f64> {
            (0..n_columns)
                .flat_map(|column| (0..n_rows).map(move |row| row * n_columns + column))
                .map(|at| outputs[at])
                .collect()
        };
        let mut found = ensemble.sweep(&self.schedule, &members, watch).into_iter();
        // Alone, a value that is not finite is told with its place.
        let is_finite = |outputs: &Vec<f64>| outputs.iter().all(|value| value.is_finite());
        let found = started.iter().map(|started| started.as_ref().and_then(|_| found.next().flatten()));
        found.map(|outputs| outputs.filter(is_finite).map(in_columns)).collect()
    }
}

/// A member at its consistent start, if it has one.
fn member(task: &LaneTask<'_>, parameters: Vec<f64>, time: f64) -> Option<Member> {
    let mut inputs = vec![0.0; task.system.description().n_inputs];
    task.inputs.fill(time, true, &mut inputs);
    let start = start_of(task.system, time, &parameters, &inputs, &[], &[]).ok()?;
    Some(Member { parameters: start.parameters.clone(), start })
}
