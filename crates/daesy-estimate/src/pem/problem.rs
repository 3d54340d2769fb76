//! Predictions of measurements at points of parameters.

use std::sync::{Arc, OnceLock};

use daesy_integrate::ensemble::{
    BLOCK_LANES, DisturbanceRow, Disturbances, Ensemble, EnsembleError, EnsembleOptions, EnsemblePoint, EnsembleResult,
    EnsembleStart, Experiment, Grid, InputTable, LaneFailure, Undisturbed, Wanted, choose_method, directions,
    reference_point, start_of,
};
use daesy_integrate::{
    Direction as StartDirection, Inputs, IntegrateError, SimulateOptions, Simulation, sampled_sensitivities, simulate,
};
use daesy_system::{
    DaeSystem, ParameterError, Part, StartClass, StepMethod, StepProgram, StepProgramError, StepRequest, Watch,
};
use rayon::prelude::*;
use thiserror::Error;

use crate::noise::{DiscreteProcess, Interpolation, NoiseError, ShapedNoise, ShapingFilter};

/// What a point of unknowns means for the model.
#[derive(Clone, Debug)]
pub struct ParameterPoint {
    /// All parameters.
    pub parameters: Vec<f64>,
    /// Their derivatives, `[unknown][parameter]`; empty where none were asked for.
    pub tangents: Vec<Vec<f64>>,
    /// Filters of the disturbances, with their derivatives by the unknowns.
    pub filters: Vec<ShapingFilter>,
}

/// Why a point of unknowns has no prediction.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum PointRefusal {
    /// A parameter has no value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// An expression of the study has no finite value.
    #[error("{what} has no finite value")]
    NotFinite {
        /// Which.
        what: String,
    },
    /// A sample that is used has no prediction, or the prediction no derivative.
    #[error("output {output} has no finite prediction at t = {time}, or no finite derivative")]
    NoPrediction {
        /// Which output.
        output: usize,
        /// When.
        time: f64,
        /// The unknown by which it has no derivative.
        by: Option<usize>,
    },
    /// A disturbance cannot be realized.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// There is no consistent start.
    #[error(transparent)]
    Start(#[from] IntegrateError),
    /// A trajectory with its events cannot be followed, or its derivatives cannot.
    #[error(transparent)]
    Trajectory(IntegrateError),
    /// A trajectory ends before the last sample.
    #[error("the model ends the simulation at t = {time}, before the last sample")]
    Ended {
        /// When.
        time: f64,
    },
    /// The ensemble cannot be integrated.
    #[error(transparent)]
    Ensemble(#[from] EnsembleError),
    /// The model cannot be advanced in lanes.
    #[error(transparent)]
    Program(#[from] StepProgramError),
    /// A parameter that the start determines has other values in other realizations or experiments.
    #[error(
        "the parameter `{name}` is determined at the start, and differs between realizations or experiments: {one} and {other}"
    )]
    ParameterOfStart {
        /// Which.
        name: String,
        /// In the first realization of the first experiment.
        one: f64,
        /// In another.
        other: f64,
    },
    /// A filter needs samples on grid points.
    #[error(
        "the filter steps along points {step} apart, and the sample at t = {time} is between two of them: the samples are not \
         evenly spaced, or not by a multiple of that"
    )]
    OffGrid {
        /// The sample's time.
        time: f64,
        /// The distance of grid points.
        step: f64,
    },
}

/// Parameters that starts determine are the same if they differ by no more than this, relative to their size.
const SAME_PARAMETER: f64 = 1e-9;

/// Relative tolerance of trajectories with events at most: costs are compared between points that are close together.
const EVENT_TOLERANCE: f64 = 1e-8;

/// The same where derivatives are differences, which are taken over this fraction of an unknown: an error of a
/// trajectory by 1e-10 is one of its derivative by 1e-5.
const DIFFERENCE_TOLERANCE: f64 = 1e-10;
const DIFFERENCE: f64 = 1e-5;

/// Times that differ by less, relative to their sizes, are the same.
const SAME_TIME: f64 = 1e-13;

/// Steps of a trajectory before giving up.
pub(super) const MAX_STEPS: usize = 10_000_000;

/// A search gives up a trajectory that takes so many times the steps of the one at the reference, and more than so many:
/// where two limits of a switch come together, the number of events has no bound, and neither has the work.
const SEARCH_FACTOR: usize = 50;
const LEAST_SEARCH_STEPS: usize = 20_000;

/// From unknowns to parameters and disturbances.
pub trait Parameterization: Sync {
    /// Number of unknowns.
    fn n_unknowns(&self) -> usize;

    /// What a point means, with derivatives by the unknowns if asked.
    ///
    /// # Errors
    /// When it means nothing.
    fn at(&self, theta: &[f64], with_derivatives: bool) -> Result<ParameterPoint, PointRefusal>;

    /// Sets those parameters that tell records apart, such as their start values, to what they are in one of them.
    fn begin_record(&self, record: usize, parameters: &mut [f64]) {
        let _ = (record, parameters);
    }

    /// Variances of the measurement errors at a point; zero where a measurement is exact.
    ///
    /// # Errors
    /// When one has no finite value, or is negative.
    fn variances(&self, theta: &[f64]) -> Result<Vec<f64>, PointRefusal>;
}

/// One experiment with its measurements.
pub struct MeasuredExperiment<'a> {
    /// The time axis; its samples are the times of the measurements.
    pub grid: Grid,
    /// Known inputs.
    pub inputs: &'a (dyn Inputs + Sync),
    /// `[sample * n_outputs + output]`; NaN where missing.
    pub measured: Vec<f64>,
    /// Whether a sample counts.
    pub is_used: Vec<bool>,
}

/// How predictions are made.
#[derive(Clone, PartialEq, Debug)]
pub struct PredictionSettings {
    /// Number of realizations.
    pub n_realizations: usize,
    /// Seed of the disturbances.
    pub seed: u64,
    /// Whether every other realization mirrors the one before it.
    pub is_antithetic: bool,
    /// Disturbances between grid points.
    pub interpolation: Interpolation,
    /// The method; chosen by a trial if none.
    pub method: Option<StepMethod>,
    /// Tolerances.
    pub options: EnsembleOptions,
    /// What errors are multiplied by, per output.
    pub weights: Vec<f64>,
    /// Whether disturbances are left out, as in the output-error method.
    pub is_undisturbed: bool,
    /// Points for each discrete state, where disturbances move events.
    pub n_points: usize,
}

/// Predictions of all experiments at one point.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prediction {
    /// `[experiment][sample * n_outputs + output]`
    pub means: Vec<Vec<f64>>,
    /// Variances over the realizations, likewise.
    pub variances: Vec<Vec<f64>>,
    /// Derivatives of the means, `[unknown][experiment][..]`.
    pub tangents: Vec<Vec<Vec<f64>>>,
    /// Realizations that broke down.
    pub failures: Vec<LaneFailure>,
    /// Steps times lanes.
    pub lane_steps: u64,
}

/// A compiled method with the inputs it reads.
pub(super) struct Machine {
    pub(super) program: Box<dyn StepProgram>,
    pub(super) tables: Vec<InputTable>,
}

/// Predictions of measurements by a model.
pub struct PredictionProblem<'a> {
    pub(super) system: &'a dyn DaeSystem,
    pub(super) parameterization: &'a dyn Parameterization,
    pub(super) experiments: Vec<MeasuredExperiment<'a>>,
    pub(super) observed: Vec<u32>,
    pub(super) slots: Vec<usize>,
    pub(super) settings: PredictionSettings,
    method: StepMethod,
    plain: OnceLock<Result<Machine, StepProgramError>>,
    differentiated: OnceLock<Result<Machine, StepProgramError>>,
    /// The method of the extended filter, with derivatives by the states.
    pub(super) extended: OnceLock<Result<Machine, StepProgramError>>,
    reference: Vec<f64>,
    /// See [`Self::search_steps`].
    search_steps: OnceLock<usize>,
    starts_depend_on_lanes: bool,
    /// Whether trajectories are followed one by one, from event to event.
    pub(super) by_events: bool,
}

/// When and under which inputs an experiment starts, and its number for what is random.
pub(super) struct StartPlace<'a> {
    pub(super) experiment: usize,
    pub(super) time: f64,
    pub(super) inputs: &'a (dyn Inputs + Sync),
}

/// A point with everything that an ensemble needs.
pub(super) struct Prepared {
    pub(super) point: EnsemblePoint,
    pub(super) process: Arc<DiscreteProcess>,
}

impl<'a> PredictionProblem<'a> {
    /// Compiles the model for an ensemble. `observed` are the measured quantities, `slots` the model's inputs that the
    /// outputs of the filters drive, and `reference` a point of unknowns at which the method is chosen.
    ///
    /// # Errors
    /// When the reference has no prediction.
    pub fn new(
        system: &'a dyn DaeSystem,
        parameterization: &'a dyn Parameterization,
        experiments: Vec<MeasuredExperiment<'a>>,
        observed: Vec<u32>,
        slots: Vec<usize>,
        settings: PredictionSettings,
        reference: &[f64],
    ) -> Result<Self, PointRefusal> {
        let slots = if settings.is_undisturbed { Vec::new() } else { slots };
        let by_inputs = system.pattern(Part::ConstraintByInputs);
        let is_disturbed = |column: usize| slots.contains(&column);
        // A start that was written for an unknown may come before the zero of a state, which follows from both then.
        let conditions = &system.description().start_conditions;
        let has_class = |class: StartClass| conditions.iter().any(|condition| condition.class == class);
        let unknowns_decide = system.pattern(Part::InitialByUnknowns).n_entries() > 0
            || has_class(StartClass::Other) && has_class(StartClass::Default);
        let starts_depend_on_lanes =
            by_inputs.entries().any(|(_, column)| is_disturbed(column)) || !slots.is_empty() && unknowns_decide;
        let plain_method = settings.method.unwrap_or(StepMethod::Explicit4);
        let mut problem = Self {
            system,
            parameterization,
            experiments,
            observed,
            slots,
            method: plain_method,
            plain: OnceLock::new(),
            differentiated: OnceLock::new(),
            extended: OnceLock::new(),
            reference: reference.to_vec(),
            search_steps: OnceLock::new(),
            starts_depend_on_lanes,
            by_events: false,
            settings,
        };
        let prepared = problem.prepare(reference, false, 1)?;
        if problem.settings.method.is_none() {
            let layout = daesy_system::StepLayout { n_inputs: system.description().n_inputs, ..Default::default() };
            let first = &problem.experiments[0];
            let short = Grid { samples: Vec::new(), ..first.grid.clone() };
            let table = InputTable::new(&short, first.inputs, &layout);
            let experiment = Experiment { grid: &first.grid, inputs: first.inputs, table: &table };
            let noise = problem.noise(vec![prepared.process.clone()]);
            let chosen = choose_method(
                system,
                &experiment,
                &prepared.point,
                noise.as_ref(),
                &problem.observed,
                problem.settings.options,
            );
            drop(noise);
            problem.method = chosen?;
        }
        let _ = problem.plain.set(problem.machine(&prepared, &[]));
        problem.plain()?;
        Ok(problem)
    }

    /// A model with events. Without disturbances predictions are one trajectory for each experiment, whose derivatives
    /// cross events as the times of these follow the unknowns; with those that drive `slots` it can be filtered and
    /// realized, and predictions are those without them. `reference` is a point of unknowns whose trajectories tell how
    /// much work is usual.
    #[must_use]
    pub fn by_events(
        system: &'a dyn DaeSystem,
        parameterization: &'a dyn Parameterization,
        experiments: Vec<MeasuredExperiment<'a>>,
        observed: Vec<u32>,
        slots: Vec<usize>,
        settings: PredictionSettings,
        reference: &[f64],
    ) -> Self {
        let slots = if settings.is_undisturbed { Vec::new() } else { slots };
        Self {
            system,
            parameterization,
            experiments,
            observed,
            method: StepMethod::Explicit4,
            plain: OnceLock::new(),
            differentiated: OnceLock::new(),
            extended: OnceLock::new(),
            reference: reference.to_vec(),
            search_steps: OnceLock::new(),
            starts_depend_on_lanes: false,
            by_events: true,
            settings: PredictionSettings { is_undisturbed: slots.is_empty(), ..settings },
            slots,
        }
    }

    /// Whether disturbances act in a model that is followed from event to event.
    #[must_use]
    pub fn is_mixture(&self) -> bool {
        self.by_events && !self.slots.is_empty()
    }

    /// Whether trajectories are followed from event to event, and meet any.
    #[must_use]
    pub fn meets_events(&self) -> bool {
        self.by_events && self.system.description().events.can_happen()
    }

    /// One trajectory for each experiment, with derivatives across its events; central differences of trajectories
    /// where these are not computed, as where a discrete variable takes a value that depends on states, or a solution
    /// slides along the border of a relation.
    fn follow(
        &self,
        theta: &[f64],
        with_derivatives: bool,
        watch: &Watch,
        max_steps: usize,
    ) -> Result<Prediction, PointRefusal> {
        match self.follow_exactly(theta, with_derivatives, watch, max_steps) {
            Err(PointRefusal::Trajectory(IntegrateError::NotDifferentiable { .. })) => {}
            found => return found,
        }
        let mut prediction = self.trajectory(theta, watch, max_steps)?;
        if with_derivatives {
            let derivative = |i: usize| -> Result<Vec<Vec<f64>>, PointRefusal> {
                let step = DIFFERENCE * if theta[i] == 0.0 { 1.0 } else { theta[i].abs() };
                let moved = |sign: f64| {
                    let mut theta = theta.to_vec();
                    theta[i] += sign * step;
                    self.trajectory(&theta, watch, max_steps)
                };
                let (up, down) = (moved(1.0)?, moved(-1.0)?);
                let slope = |(up, down): (&f64, &f64)| (up - down) / (2.0 * step);
                let slopes = |(up, down): (&Vec<f64>, &Vec<f64>)| up.iter().zip(down).map(slope).collect();
                Ok(up.means.iter().zip(&down.means).map(slopes).collect())
            };
            let found: Result<Vec<_>, PointRefusal> = (0..theta.len()).into_par_iter().map(derivative).collect();
            prediction.tangents = found?;
        }
        Ok(prediction)
    }

    pub(super) fn event_options(
        &self,
        experiment: &MeasuredExperiment<'a>,
        rtol: f64,
        watch: &Watch,
        max_steps: usize,
    ) -> SimulateOptions {
        let samples = &experiment.grid.samples;
        SimulateOptions {
            start: experiment.grid.start,
            stop: samples.last().copied().unwrap_or(experiment.grid.start),
            output_times: samples.clone(),
            rtol: self.settings.options.rtol.min(rtol),
            atol: self.settings.options.atol.min(1e-3 * rtol),
            max_steps,
            watch: watch.clone(),
            ..SimulateOptions::default()
        }
    }

    fn observed_of(&self, row: &[f64]) -> Vec<f64> {
        self.observed.iter().map(|&at| row[at as usize]).collect()
    }

    /// Trajectories as `simulate` makes them; the last of several rows of the same time is that after what jumps there.
    fn trajectory(&self, theta: &[f64], watch: &Watch, max_steps: usize) -> Result<Prediction, PointRefusal> {
        let mut parameters = self.parameterization.at(theta, false)?.parameters;
        let mut prediction = Prediction::default();
        for (record, experiment) in self.experiments.iter().enumerate() {
            self.parameterization.begin_record(record, &mut parameters);
            let options = self.event_options(experiment, DIFFERENCE_TOLERANCE, watch, max_steps);
            let run =
                simulate(self.system, &parameters, experiment.inputs, &options).map_err(PointRefusal::Trajectory)?;
            let means = self.sampled(&experiment.grid.samples, &run)?;
            prediction.variances.push(vec![0.0; means.len()]);
            prediction.means.push(means);
            prediction.lane_steps += run.steps as u64;
        }
        Ok(prediction)
    }

    /// Observed quantities of a trajectory at samples: at the start its first row, later what is there after a jump.
    pub(super) fn sampled(&self, samples: &[f64], run: &Simulation) -> Result<Vec<f64>, PointRefusal> {
        let mut values = Vec::with_capacity(samples.len() * self.observed.len());
        for &sample in samples {
            let is_start = run.times.first().is_some_and(|&start| sample <= start);
            // What happens within rounding of a sample, as a tick at 12 * 0.1 of one at 1.2, has happened.
            let is_reached = |time: &f64| *time <= sample + SAME_TIME * (time.abs() + sample.abs());
            let last = if is_start { 1 } else { run.times.partition_point(is_reached) };
            if last == 0 || run.times[last - 1] < sample {
                let time = run.termination.as_ref().map_or(f64::NAN, |termination| termination.time);
                return Err(PointRefusal::Ended { time });
            }
            values.extend(self.observed_of(&run.rows[last - 1]));
        }
        Ok(values)
    }

    fn follow_exactly(
        &self,
        theta: &[f64],
        with_derivatives: bool,
        watch: &Watch,
        max_steps: usize,
    ) -> Result<Prediction, PointRefusal> {
        let ParameterPoint { parameters, tangents, .. } = self.parameterization.at(theta, with_derivatives)?;
        let directions: Vec<StartDirection> = tangents.into_iter().map(StartDirection::Parameters).collect();
        let mut prediction = Prediction { tangents: vec![Vec::new(); directions.len()], ..Prediction::default() };
        let follow = |(record, experiment): (usize, &MeasuredExperiment<'a>)| {
            let mut parameters = parameters.clone();
            self.parameterization.begin_record(record, &mut parameters);
            let options = self.event_options(experiment, EVENT_TOLERANCE, watch, max_steps);
            sampled_sensitivities(self.system, &parameters, experiment.inputs, &options, &directions)
        };
        let found: Result<Vec<_>, IntegrateError> = self.experiments.par_iter().enumerate().map(follow).collect();
        for (experiment, run) in self.experiments.iter().zip(found.map_err(PointRefusal::Trajectory)?) {
            if run.sensitivities.len() < experiment.grid.samples.len() {
                let time = run.simulation.termination.map_or(f64::NAN, |termination| termination.time);
                return Err(PointRefusal::Ended { time });
            }
            let means: Vec<f64> = run.simulation.rows.iter().flat_map(|row| self.observed_of(row)).collect();
            prediction.variances.push(vec![0.0; means.len()]);
            prediction.means.push(means);
            prediction.lane_steps += run.simulation.steps as u64;
            for (direction, all) in prediction.tangents.iter_mut().enumerate() {
                all.push(run.sensitivities.iter().flat_map(|rows| self.observed_of(&rows[direction])).collect());
            }
        }
        Ok(prediction)
    }

    pub(super) fn machine(
        &self,
        prepared: &Prepared,
        directions: &[daesy_system::Direction],
    ) -> Result<Machine, StepProgramError> {
        let layout = daesy_system::StepLayout { n_inputs: self.system.description().n_inputs, ..Default::default() };
        let first = &self.experiments[0];
        let short = Grid { samples: Vec::new(), ..first.grid.clone() };
        let table = InputTable::new(&short, first.inputs, &layout);
        let experiment = Experiment { grid: &first.grid, inputs: first.inputs, table: &table };
        let reference = reference_point(&experiment, &prepared.point, self.system);
        let request = StepRequest { method: self.method, directions, observed: &self.observed, reference: &reference };
        let program = self.system.step_program(&request)?;
        let tables = self
            .experiments
            .par_iter()
            .map(|experiment| InputTable::new(&experiment.grid, experiment.inputs, program.layout()))
            .collect();
        Ok(Machine { program, tables })
    }

    /// The machine without derivatives.
    pub(super) fn plain(&self) -> Result<&Machine, PointRefusal> {
        let made = self.plain.get_or_init(|| {
            Err(StepProgramError::Unsupported { reason: "the reference has no consistent start".to_owned() })
        });
        made.as_ref().map_err(|error| error.clone().into())
    }

    /// The machine with derivatives, made when first needed.
    fn differentiated(&self) -> Result<&Machine, PointRefusal> {
        if self.differentiated.get().is_none() {
            let prepared = self.prepare(&self.reference, true, 1)?;
            let inputs: Vec<Vec<u32>> = (0..self.parameterization.n_unknowns())
                .map(|direction| {
                    let driven = (0..self.slots.len())
                        .filter(|&output| prepared.process.depends_on(output, direction))
                        .map(|output| self.slots[output]);
                    let description = self.system.description();
                    let mut inputs: Vec<u32> = driven
                        .filter_map(|slot| {
                            let holds = |input: &daesy_system::Input| {
                                (input.start..=input.start + usize::from(input.derivatives_needed)).contains(&slot)
                            };
                            description.inputs.iter().position(holds).map(|at| at as u32)
                        })
                        .collect();
                    inputs.sort_unstable();
                    inputs.dedup();
                    inputs
                })
                .collect();
            let directions = directions(&prepared.point.tangents, &inputs);
            let _ = self.differentiated.set(self.machine(&prepared, &directions));
        }
        match self.differentiated.get() {
            Some(Ok(machine)) => Ok(machine),
            Some(Err(error)) => Err(error.clone().into()),
            None => Err(PointRefusal::NotFinite { what: "the model with derivatives".to_owned() }),
        }
    }

    fn noise(&self, points: Vec<Arc<DiscreteProcess>>) -> Box<dyn Disturbances + '_> {
        if self.slots.is_empty() {
            return Box::new(Undisturbed);
        }
        Box::new(ShapedNoise {
            seed: self.settings.seed,
            is_antithetic: self.settings.is_antithetic,
            interpolation: self.settings.interpolation,
            slots: self.slots.clone(),
            points,
            first_step: 0,
        })
    }

    /// Parameters, disturbances and starts at a point.
    pub(super) fn prepare(
        &self,
        theta: &[f64],
        with_derivatives: bool,
        n_realizations: usize,
    ) -> Result<Prepared, PointRefusal> {
        let ParameterPoint { mut parameters, mut tangents, filters } =
            self.parameterization.at(theta, with_derivatives)?;
        let filters = if self.slots.is_empty() { Vec::new() } else { filters };
        let step = self.experiments[0].grid.step;
        let process = Arc::new(DiscreteProcess::new(&filters, step, self.settings.interpolation.depth())?);
        let mut starts = Vec::with_capacity(self.experiments.len());
        for (at, experiment) in self.experiments.iter().enumerate() {
            let from = StartPlace { experiment: at, time: experiment.grid.start, inputs: experiment.inputs };
            starts.push(self.start_at(&from, &parameters, &tangents, &process, n_realizations)?);
        }
        if !self.system.description().free_parameters.is_empty() {
            (parameters, tangents) = self.parameters_of_starts(&starts)?;
        }
        Ok(Prepared { point: EnsemblePoint { parameters, tangents, starts }, process })
    }

    /// Parameters as they are in one of the records.
    pub(super) fn parameters_in(&self, record: usize, parameters: &[f64]) -> Vec<f64> {
        let mut own = parameters.to_vec();
        self.parameterization.begin_record(record, &mut own);
        own
    }

    /// The start of an experiment, in every realization where disturbances take part in it; with none of them, where the
    /// disturbances have their means.
    pub(super) fn start_at(
        &self,
        from: &StartPlace<'_>,
        parameters: &[f64],
        tangents: &[Vec<f64>],
        process: &Arc<DiscreteProcess>,
        n_realizations: usize,
    ) -> Result<EnsembleStart, PointRefusal> {
        let n_inputs = self.system.description().n_inputs;
        let n_directions = tangents.len();
        let parameters = &self.parameters_in(from.experiment, parameters);
        let mut inputs = vec![0.0; n_inputs];
        from.inputs.fill(from.time, true, &mut inputs);
        for &slot in &self.slots {
            inputs[slot] = 0.0;
        }
        if !self.starts_depend_on_lanes || n_realizations == 0 {
            let start = start_of(self.system, from.time, parameters, &inputs, tangents, &[])?;
            return Ok(EnsembleStart { lanes: vec![start] });
        }
        let noise = self.noise(vec![process.clone()]);
        let first_values =
            first_values(noise.as_ref(), from.experiment, n_realizations, n_directions, self.slots.len());
        let lanes = first_values
            .par_iter()
            .map(|values| {
                let mut inputs = inputs.clone();
                let mut input_tangents = vec![vec![0.0; n_inputs]; n_directions];
                for (signal, &slot) in self.slots.iter().enumerate() {
                    inputs[slot] = values[signal];
                    for (direction, tangent) in input_tangents.iter_mut().enumerate() {
                        tangent[slot] = values[(1 + direction) * self.slots.len() + signal];
                    }
                }
                start_of(self.system, from.time, parameters, &inputs, tangents, &input_tangents)
            })
            .collect::<Result<Vec<_>, IntegrateError>>()?;
        Ok(EnsembleStart { lanes })
    }

    /// The start of an experiment as a filter has it: where disturbances take part in it, one for each of some points of
    /// their components.
    pub(super) fn filter_start(
        &self,
        from: &StartPlace<'_>,
        parameters: &[f64],
        process: &Arc<DiscreteProcess>,
        points: &dyn Fn(&DiscreteProcess) -> Vec<Vec<f64>>,
    ) -> Result<EnsembleStart, PointRefusal> {
        if !self.starts_depend_on_lanes {
            return self.start_at(from, parameters, &[], process, 0);
        }
        let parameters = &self.parameters_in(from.experiment, parameters);
        let mut inputs = vec![0.0; self.system.description().n_inputs];
        from.inputs.fill(from.time, true, &mut inputs);
        let weights: Vec<Vec<f64>> = (0..self.slots.len()).map(|signal| process.weights(signal)).collect();
        let lanes = points(process)
            .par_iter()
            .map(|components| {
                let mut inputs = inputs.clone();
                for (weights, &slot) in weights.iter().zip(&self.slots) {
                    inputs[slot] = weights.iter().zip(components).map(|(weight, value)| weight * value).sum();
                }
                start_of(self.system, from.time, parameters, &inputs, &[], &[])
            })
            .collect::<Result<Vec<_>, IntegrateError>>()?;
        Ok(EnsembleStart { lanes })
    }

    /// Parameters with their tangents where starts determine some of them: one value each for all realizations of all
    /// experiments.
    pub(super) fn parameters_of_starts(
        &self,
        starts: &[EnsembleStart],
    ) -> Result<(Vec<f64>, Vec<Vec<f64>>), PointRefusal> {
        let mut all = starts.iter().flat_map(|start| &start.lanes);
        let Some(first) = all.next() else {
            return Err(PointRefusal::NotFinite { what: "the start of no experiment".to_owned() });
        };
        let description = self.system.description();
        for start in all {
            for &parameter in &description.free_parameters {
                let (one, other) = (first.parameters[parameter as usize], start.parameters[parameter as usize]);
                if (one - other).abs() > SAME_PARAMETER * one.abs().max(other.abs()) {
                    let name = description.parameters[parameter as usize].clone();
                    return Err(PointRefusal::ParameterOfStart { name, one, other });
                }
            }
        }
        Ok((first.parameters.clone(), first.parameter_tangents.clone()))
    }

    /// Number of outputs.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.observed.len()
    }

    /// Number of unknowns.
    #[must_use]
    pub fn n_unknowns(&self) -> usize {
        self.parameterization.n_unknowns()
    }

    /// The experiments.
    #[must_use]
    pub fn experiments(&self) -> &[MeasuredExperiment<'a>] {
        &self.experiments
    }

    /// Puts other measurements in the place of those at hand, `[experiment][sample * n_outputs + output]`.
    pub fn set_measured(&mut self, measured: Vec<Vec<f64>>) {
        for (experiment, measured) in self.experiments.iter_mut().zip(measured) {
            experiment.measured = measured;
        }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &PredictionSettings {
        &self.settings
    }

    /// Draws the disturbances from another seed.
    pub fn set_seed(&mut self, seed: u64) {
        self.settings.seed = seed;
    }

    /// The method in use.
    #[must_use]
    pub fn method(&self) -> StepMethod {
        self.method
    }

    /// How far straight lines are from the disturbances, by filter output.
    ///
    /// # Errors
    /// When the point means nothing.
    pub fn interpolation_error(&self, theta: &[f64]) -> Result<Vec<crate::noise::InterpolationError>, PointRefusal> {
        Ok(self.prepare(theta, false, 1)?.process.interpolation_error())
    }

    /// Units of work that predictions at so many points report.
    #[must_use]
    pub fn work(&self, n_points: usize, n_realizations: usize) -> u64 {
        let intervals: usize = self.experiments.iter().map(|experiment| experiment.grid.n_intervals()).sum();
        (intervals * n_points * n_realizations) as u64
    }

    fn run(
        &self,
        prepared: &[Prepared],
        machine: &Machine,
        n_realizations: usize,
        wanted: &Wanted<'_>,
        watch: &Watch,
    ) -> Result<Vec<EnsembleResult>, PointRefusal> {
        let experiments: Vec<Experiment<'_>> = self
            .experiments
            .iter()
            .zip(&machine.tables)
            .map(|(experiment, table)| Experiment { grid: &experiment.grid, inputs: experiment.inputs, table })
            .collect();
        let ensemble = Ensemble {
            program: machine.program.as_ref(),
            experiments: &experiments,
            n_realizations,
            options: self.settings.options,
        };
        let points: Vec<EnsemblePoint> = prepared.iter().map(|prepared| prepared.point.clone()).collect();
        let noise = self.noise(prepared.iter().map(|prepared| prepared.process.clone()).collect());
        Ok(ensemble.run(&points, noise.as_ref(), wanted, watch)?)
    }

    /// Number of realizations that count: one is enough where nothing is random.
    #[must_use]
    pub fn realizations(&self, asked: usize) -> usize {
        if self.slots.is_empty() { 1 } else { asked }
    }

    /// Predictions at several points, all from the same random numbers.
    ///
    /// # Errors
    /// When a point has no prediction.
    pub fn predict(
        &self,
        thetas: &[Vec<f64>],
        n_realizations: usize,
        watch: &Watch,
    ) -> Result<Vec<Prediction>, PointRefusal> {
        if self.by_events {
            return thetas.iter().map(|theta| self.follow(theta, false, watch, MAX_STEPS)).collect();
        }
        let n = self.realizations(n_realizations);
        let prepared = thetas
            .iter()
            .map(|theta| self.prepare(theta, false, n))
            .collect::<Result<Vec<Prepared>, PointRefusal>>()?;
        let results = self.run(&prepared, self.plain()?, n, &Wanted::default(), watch)?;
        results.into_iter().map(|result| self.finite(self.prediction(result, 0))).collect()
    }

    /// A prediction with its derivatives.
    ///
    /// # Errors
    /// When the point has no prediction.
    pub fn differentiate(
        &self,
        theta: &[f64],
        n_realizations: usize,
        watch: &Watch,
    ) -> Result<Prediction, PointRefusal> {
        if self.by_events {
            return self.follow(theta, true, watch, MAX_STEPS);
        }
        let n = self.realizations(n_realizations);
        let prepared = [self.prepare(theta, true, n)?];
        let machine = self.differentiated()?;
        let mut results = self.run(&prepared, machine, n, &Wanted::default(), watch)?;
        self.finite(self.prediction(results.swap_remove(0), self.n_unknowns()))
    }

    /// The prediction that a search asks for, with its derivatives where these are asked for: a point whose trajectories
    /// need far more steps than those at the reference is refused.
    ///
    /// # Errors
    /// When the point has no prediction, or one that takes too long.
    pub fn predict_in_search(
        &self,
        theta: &[f64],
        with_derivatives: bool,
        n_realizations: usize,
        watch: &Watch,
    ) -> Result<Prediction, PointRefusal> {
        if self.by_events {
            return self.follow(theta, with_derivatives, watch, self.search_steps(watch));
        }
        if with_derivatives {
            return self.differentiate(theta, n_realizations, watch);
        }
        Ok(self.predict(&[theta.to_vec()], n_realizations, watch)?.swap_remove(0))
    }

    /// Steps that a trajectory of a search may take.
    fn search_steps(&self, watch: &Watch) -> usize {
        *self.search_steps.get_or_init(|| {
            let usual = self.follow(&self.reference, false, watch, MAX_STEPS).map(|found| found.lane_steps as usize);
            usual.map_or(MAX_STEPS, |steps| steps.saturating_mul(SEARCH_FACTOR).clamp(LEAST_SEARCH_STEPS, MAX_STEPS))
        })
    }

    /// For each functional of the observed rows and their derivatives, its value for each realization, experiments
    /// added up.
    pub(super) fn functionals(
        &self,
        theta: &[f64],
        n_realizations: usize,
        functionals: &[Vec<Vec<f64>>],
        watch: &Watch,
    ) -> Result<Vec<Vec<f64>>, PointRefusal> {
        let n = self.realizations(n_realizations);
        let prepared = [self.prepare(theta, true, n)?];
        let wanted = Wanted { keeps_lanes: false, functionals };
        let result = self.run(&prepared, self.differentiated()?, n, &wanted, watch)?.swap_remove(0);
        let mut sums = vec![vec![0.0; n]; functionals.len()];
        for experiment in &result.experiments {
            for (sums, values) in sums.iter_mut().zip(&experiment.functionals) {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        Ok(sums)
    }

    /// Outputs of single realizations, without measurement errors:
    /// `[realization][experiment][sample * n_outputs + output]`.
    ///
    /// # Errors
    /// When the point has no prediction.
    pub fn realize(
        &self,
        theta: &[f64],
        n_realizations: usize,
        watch: &Watch,
    ) -> Result<Vec<Vec<Vec<f64>>>, PointRefusal> {
        if self.is_mixture() {
            return self.realize_with_events(theta, n_realizations, watch);
        }
        if self.by_events {
            return Ok(vec![self.follow(theta, false, watch, MAX_STEPS)?.means; n_realizations]);
        }
        let prepared = [self.prepare(theta, false, n_realizations)?];
        let wanted = Wanted { keeps_lanes: true, functionals: &[] };
        let result = self.run(&prepared, self.plain()?, n_realizations, &wanted, watch)?.swap_remove(0);
        Ok((0..n_realizations)
            .map(|lane| {
                let of =
                    |sums: &daesy_integrate::ensemble::OutputSums| sums.lanes.iter().map(|row| row[lane]).collect();
                result.experiments.iter().map(of).collect()
            })
            .collect())
    }

    fn prediction(&self, result: EnsembleResult, n_directions: usize) -> Prediction {
        let n_outputs = self.n_outputs();
        let n_rows = n_outputs * (1 + n_directions);
        let mut prediction = Prediction {
            means: Vec::new(),
            variances: Vec::new(),
            tangents: vec![Vec::new(); n_directions],
            failures: result.failures,
            lane_steps: result.lane_steps,
        };
        for sums in &result.experiments {
            let (mut means, mut variances) = (Vec::new(), Vec::new());
            let mut tangents: Vec<Vec<f64>> = vec![Vec::new(); n_directions];
            for (sample, &n) in sums.n_alive.iter().enumerate() {
                let n = f64::from(n);
                for output in 0..n_outputs {
                    let mean = sums.sums[sample * n_rows + output] / n;
                    let square = sums.squares[sample * n_outputs + output] / n;
                    means.push(mean);
                    variances.push(((square - mean * mean) * n / (n - 1.0).max(1.0)).max(0.0));
                    for (direction, tangent) in tangents.iter_mut().enumerate() {
                        tangent.push(sums.sums[sample * n_rows + (1 + direction) * n_outputs + output] / n);
                    }
                }
            }
            prediction.means.push(means);
            prediction.variances.push(variances);
            for (all, tangent) in prediction.tangents.iter_mut().zip(tangents) {
                all.push(tangent);
            }
        }
        prediction
    }

    /// Number of sample times that count.
    #[must_use]
    pub fn n_used(&self) -> usize {
        let n_outputs = self.n_outputs();
        let counts = |experiment: &MeasuredExperiment<'_>, sample: usize| {
            let row = &experiment.measured[sample * n_outputs..(sample + 1) * n_outputs];
            experiment.is_used[sample] && row.iter().any(|value| value.is_finite())
        };
        self.experiments
            .iter()
            .map(|experiment| (0..experiment.is_used.len()).filter(|&sample| counts(experiment, sample)).count())
            .sum()
    }

    /// Weighted errors of a prediction, `[experiment][..]`; zero where nothing was measured or is used.
    #[must_use]
    pub fn errors(&self, prediction: &Prediction) -> Vec<Vec<f64>> {
        let n_outputs = self.n_outputs();
        self.experiments
            .iter()
            .zip(&prediction.means)
            .map(|(experiment, means)| {
                let pairs = experiment.measured.iter().zip(means).enumerate();
                pairs
                    .map(|(at, (measured, mean))| {
                        let is_used = experiment.is_used[at / n_outputs] && measured.is_finite();
                        if is_used { (measured - mean) * self.settings.weights[at % n_outputs] } else { 0.0 }
                    })
                    .collect()
            })
            .collect()
    }

    /// A prediction that has a value at every sample that is used, with its derivatives.
    fn finite(&self, prediction: Prediction) -> Result<Prediction, PointRefusal> {
        let n_outputs = self.n_outputs();
        let missing = |values: &[Vec<f64>]| {
            self.experiments.iter().zip(values).find_map(|(experiment, values)| {
                // Where nothing is measured, all samples are wanted.
                let is_used = |sample: usize| experiment.is_used.get(sample).is_none_or(|&is_used| is_used);
                let is_missing = |&at: &usize| is_used(at / n_outputs) && !values[at].is_finite();
                let at = (0..values.len()).find(is_missing)?;
                Some((at % n_outputs, experiment.grid.samples[at / n_outputs]))
            })
        };
        if let Some((output, time)) = missing(&prediction.means) {
            return Err(PointRefusal::NoPrediction { output, time, by: None });
        }
        for (by, tangents) in prediction.tangents.iter().enumerate() {
            if let Some((output, time)) = missing(tangents) {
                return Err(PointRefusal::NoPrediction { output, time, by: Some(by) });
            }
        }
        Ok(prediction)
    }

    /// The cost of a prediction.
    #[must_use]
    pub fn cost(&self, prediction: &Prediction) -> f64 {
        let sum: f64 = self.errors(prediction).iter().map(|errors| errors.iter().map(|e| e * e).sum::<f64>()).sum();
        sum / self.n_used() as f64
    }
}

/// Values of the disturbances at the start: `[lane][(1 + direction) * n + signal]`.
fn first_values(
    noise: &dyn Disturbances,
    experiment: usize,
    n_realizations: usize,
    n_directions: usize,
    n: usize,
) -> Vec<Vec<f64>> {
    let mut all = Vec::with_capacity(n_realizations);
    for first in (0..n_realizations).step_by(BLOCK_LANES) {
        let n_lanes = BLOCK_LANES.min(n_realizations - first);
        let mut lanes = noise.block(experiment, first, n_lanes, 0..1).swap_remove(0);
        lanes.advance(0);
        let mut values = vec![0.0; (1 + n_directions) * n * n_lanes];
        let rows: Vec<DisturbanceRow> = (0..(1 + n_directions) * n)
            .map(|row| DisturbanceRow { row, signal: row % n, direction: (row / n).checked_sub(1) })
            .collect();
        lanes.fill(0.0, &rows, n_lanes, &mut values);
        all.extend((0..n_lanes).map(|lane| values.iter().skip(lane).step_by(n_lanes).copied().collect()));
    }
    all
}
