//! Many realizations of a disturbed system, side by side.
//!
//! Realizations advance in blocks of lanes through a compiled one-step method ([`daesy_system::StepProgram`]).
//! Disturbances live on a grid; steps end on its points, on sample times and where known inputs or equations jump by
//! time alone, so that no step contains a kink that is known beforehand. Inside an interval of the grid a block takes
//! 2^k equal steps, k by the error estimate of its worst lane. A lane that breaks down is left behind with a note of
//! when and why; the others go on.
//!
//! Everything that is computed for a block depends on that block alone, and sums over blocks are taken in their order:
//! results do not depend on the number of threads.

mod advance;
mod signals;
mod start;
mod sweep;
mod walk;

use daesy_system::{DaeSystem, Direction, StepMethod, StepProgram, StepProgramError, Watch};
use rayon::prelude::*;
use thiserror::Error;

use crate::simulate::Inputs;
use advance::Block;
pub use advance::Schedule;
pub use signals::InputTable;
pub use start::{EnsembleStart, StartSensitivity, reference_point, start_of};
pub use sweep::Member;
pub use walk::Walk;

/// Lanes of a block.
pub const BLOCK_LANES: usize = 64;

/// Intervals of the disturbance grid that a block advances before another point of parameters has its turn: a power of
/// 2, so small that disturbances of a chunk stay close to the processor.
pub const CHUNK: usize = 64;

/// Disturbances of many realizations, at several points of parameters.
pub trait Disturbances: Sync {
    /// Which entries of [`daesy_system::Point::inputs`] they give.
    fn slots(&self) -> &[usize];

    /// The lanes of realizations `first..first + n_lanes` of an experiment, one generator for each point asked for.
    /// Generators of one call are advanced in chunks of [`CHUNK`] intervals and may share what they have in common.
    fn block<'s>(
        &'s self,
        experiment: usize,
        first: usize,
        n_lanes: usize,
        points: std::ops::Range<usize>,
    ) -> Vec<Box<dyn LaneDisturbances + 's>>;
}

/// Disturbances of one block at one point of parameters.
pub trait LaneDisturbances {
    /// Makes `interval` the current one; called with 0, 1, 2, ..
    fn advance(&mut self, interval: usize);

    /// Writes the values at a fraction of the current interval. Row r of `values` (`stride` apart) is entry
    /// `rows[r].slot` of the inputs, or its derivative along a direction.
    fn fill(&mut self, fraction: f64, rows: &[DisturbanceRow], stride: usize, values: &mut [f64]);
}

/// A row that a disturbance fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisturbanceRow {
    /// Which row of the signals.
    pub row: usize,
    /// Position in the list of [`Disturbances::slots`].
    pub signal: usize,
    /// The direction whose derivative is meant; the value itself if none.
    pub direction: Option<usize>,
}

/// No disturbances at all.
pub struct Undisturbed;

impl Disturbances for Undisturbed {
    fn slots(&self) -> &[usize] {
        &[]
    }

    fn block<'s>(
        &'s self,
        _experiment: usize,
        _first: usize,
        _n_lanes: usize,
        points: std::ops::Range<usize>,
    ) -> Vec<Box<dyn LaneDisturbances + 's>> {
        points.map(|_| Box::new(Still) as Box<dyn LaneDisturbances + 's>).collect()
    }
}

struct Still;

impl LaneDisturbances for Still {
    fn advance(&mut self, _interval: usize) {}

    fn fill(&mut self, _fraction: f64, _rows: &[DisturbanceRow], _stride: usize, _values: &mut [f64]) {}
}

/// The time axis of an experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// First time.
    pub start: f64,
    /// Distance of grid points.
    pub step: f64,
    /// Times at which outputs are wanted, ascending, none before the start.
    pub samples: Vec<f64>,
}

impl Grid {
    /// Number of intervals up to the last sample.
    #[must_use]
    pub fn n_intervals(&self) -> usize {
        let last = self.samples.last().copied().unwrap_or(self.start);
        let n = (last - self.start) / self.step;
        // A sample on a grid point ends the interval before it.
        (n - 1e-6).ceil().max(0.0) as usize
    }

    /// A grid point.
    #[must_use]
    pub fn point(&self, at: usize) -> f64 {
        self.start + at as f64 * self.step
    }
}

/// One experiment: times, known inputs.
pub struct Experiment<'a> {
    /// The time axis.
    pub grid: &'a Grid,
    /// Known inputs; entries of disturbances are overwritten.
    pub inputs: &'a (dyn Inputs + Sync),
    /// The known inputs on the grid, by [`InputTable::new`].
    pub table: &'a InputTable,
}

/// A point of parameters at which realizations are computed.
#[derive(Clone, PartialEq, Debug)]
pub struct EnsemblePoint {
    /// All parameters.
    pub parameters: Vec<f64>,
    /// Their derivatives along each direction.
    pub tangents: Vec<Vec<f64>>,
    /// Where realizations start, by experiment.
    pub starts: Vec<EnsembleStart>,
}

/// How to integrate an ensemble.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EnsembleOptions {
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance, multiplied by nominal values.
    pub atol: f64,
    /// An interval of the grid is halved at most so often.
    pub max_halvings: u32,
    /// Number of threads; all cores when 0. Results do not depend on it.
    pub n_threads: usize,
}

impl Default for EnsembleOptions {
    fn default() -> Self {
        Self { rtol: 1e-6, atol: 1e-9, max_halvings: 16, n_threads: 0 }
    }
}

/// What is wanted of the realizations beside the sums of their outputs.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// Keep every lane's outputs.
    pub keeps_lanes: bool,
    /// For each functional, coefficients `[experiment][sample * n_rows + row]` of the observed rows, derivatives
    /// included: their sum is taken for each realization.
    pub functionals: &'a [Vec<Vec<f64>>],
}

/// Sums over the realizations of one experiment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OutputSums {
    /// `[sample * n_rows + row]`: sums of the observed rows, derivatives after the values.
    pub sums: Vec<f64>,
    /// `[sample * n_observed + output]`: sums of squares of the values.
    pub squares: Vec<f64>,
    /// Realizations that reached a sample.
    pub n_alive: Vec<u32>,
    /// `[sample * n_observed + output][realization]` where lanes are kept.
    pub lanes: Vec<Vec<f64>>,
    /// `[functional][realization]`; NaN for realizations that broke down.
    pub functionals: Vec<Vec<f64>>,
}

/// A realization that broke down.
#[derive(Clone, PartialEq, Debug)]
pub struct LaneFailure {
    /// Which point of parameters.
    pub point: usize,
    /// Which experiment.
    pub experiment: usize,
    /// Which realization.
    pub realization: usize,
    /// When.
    pub time: f64,
    /// Why.
    pub reason: LaneFailureReason,
}

/// Why a realization broke down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LaneFailureReason {
    /// A value was infinite or undefined.
    NotFinite,
    /// The error stayed too large with the smallest step.
    TooInaccurate,
    /// The equations came too close to singular for the fixed order of elimination.
    NearlySingular,
    /// The equations jump too often by time alone.
    TooManyJumps,
}

impl std::fmt::Display for LaneFailureReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::NotFinite => "a value became infinite or undefined",
            Self::TooInaccurate => "the error stayed too large with the smallest step",
            Self::NearlySingular => "the equations came too close to singular",
            Self::TooManyJumps => "the equations jump too often with time; simulate them one by one",
        })
    }
}

/// The outcome at one point of parameters.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EnsembleResult {
    /// By experiment.
    pub experiments: Vec<OutputSums>,
    /// Realizations that broke down.
    pub failures: Vec<LaneFailure>,
    /// Steps times lanes that were taken.
    pub lane_steps: u64,
    /// Steps that were repeated with smaller ones, times lanes.
    pub rejected_lane_steps: u64,
}

/// Why an ensemble could not be integrated.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum EnsembleError {
    /// The method cannot be compiled for the system.
    #[error(transparent)]
    Program(#[from] StepProgramError),
    /// No realizations were asked for.
    #[error("an ensemble needs at least one realization")]
    NoRealizations,
    /// The caller asked to stop.
    #[error("stopped before the end")]
    Stopped,
    /// All realizations broke down.
    #[error("all realizations broke down, the first at t = {time}: {reason}")]
    AllFailed {
        /// When the first did.
        time: f64,
        /// Why.
        reason: LaneFailureReason,
    },
    /// One of the points that stand for what a filter believes broke down, so that it believes nothing any more.
    #[error("a point of the filter broke down at t = {time}: {reason}")]
    FilterFailed {
        /// When it did.
        time: f64,
        /// Why.
        reason: LaneFailureReason,
    },
    /// What a filter believes is no distribution any more.
    #[error(
        "the covariance of a filter is none any more at t = {time}: a measurement would be known better than exactly"
    )]
    NoCovariance {
        /// When.
        time: f64,
    },
}

impl EnsembleError {
    /// A filter whose lane broke down.
    #[must_use]
    pub fn of_filter(failure: &LaneFailure) -> Self {
        Self::FilterFailed { time: failure.time, reason: failure.reason }
    }
}

/// A block of lanes at some points of parameters.
struct Task {
    experiment: usize,
    block: usize,
    first_point: usize,
}

/// An ensemble ready to be computed at any point of parameters.
pub struct Ensemble<'a> {
    /// The method.
    pub program: &'a dyn StepProgram,
    /// The experiments.
    pub experiments: &'a [Experiment<'a>],
    /// Number of realizations.
    pub n_realizations: usize,
    /// How to integrate.
    pub options: EnsembleOptions,
}

impl Ensemble<'_> {
    /// Units of work that [`Ensemble::run`] reports for so many points.
    #[must_use]
    pub fn work(&self, n_points: usize) -> u64 {
        let intervals: usize = self.experiments.iter().map(|experiment| experiment.grid.n_intervals()).sum();
        (intervals * self.n_realizations * n_points) as u64
    }

    /// Times of an experiment at which equations jump or bend by time alone, at given parameters; none where there are
    /// too many.
    fn switches(&self, experiment: usize, parameters: &[f64]) -> Option<Vec<f64>> {
        let grid = self.experiments[experiment].grid;
        self.program.breaks(parameters, grid.start, grid.point(grid.n_intervals()), advance::MAX_SWITCHES)
    }

    /// Computes all realizations at all points.
    ///
    /// # Errors
    /// When no realization is asked for, or none survives at some point.
    pub fn run(
        &self,
        points: &[EnsemblePoint],
        disturbances: &dyn Disturbances,
        wanted: &Wanted<'_>,
        watch: &Watch,
    ) -> Result<Vec<EnsembleResult>, EnsembleError> {
        if self.n_realizations == 0 {
            return Err(EnsembleError::NoRealizations);
        }
        let n_blocks = self.n_realizations.div_ceil(BLOCK_LANES);
        // Points share disturbances, and are parted only where threads would have nothing to do.
        let n_threads = match self.options.n_threads {
            0 => rayon::current_num_threads(),
            n => n,
        };
        let n_parts = n_threads.div_ceil((self.experiments.len() * n_blocks).max(1));
        let n_together = points.len().div_ceil(n_parts).max(1);
        let tasks: Vec<Task> = (0..self.experiments.len())
            .flat_map(|experiment| (0..n_blocks).map(move |block| (experiment, block)))
            .flat_map(|(experiment, block)| {
                let parts = (0..points.len()).step_by(n_together);
                parts.map(move |first| Task { experiment, block, first_point: first })
            })
            .collect();
        let advance = |&Task { experiment, block, first_point }: &Task| -> Vec<advance::Outcome> {
            let of_task = first_point..(first_point + n_together).min(points.len());
            let first = block * BLOCK_LANES;
            let n_lanes = BLOCK_LANES.min(self.n_realizations - first);
            let mut generators = disturbances.block(experiment, first, n_lanes, of_task.clone());
            let mut blocks: Vec<Block<'_>> = points[of_task]
                .iter()
                .map(|point| {
                    let switches = self.switches(experiment, &point.parameters);
                    Block::new(self, experiment, first, n_lanes, point, disturbances.slots(), wanted)
                        .with_switches(switches.as_deref())
                })
                .collect();
            let n_intervals = self.experiments[experiment].grid.n_intervals();
            for (block, generator) in blocks.iter_mut().zip(&mut generators) {
                block.begin(generator.as_mut());
            }
            for chunk in (0..n_intervals).step_by(CHUNK) {
                if watch.is_stopped() {
                    break;
                }
                let end = (chunk + CHUNK).min(n_intervals);
                for (block, generator) in blocks.iter_mut().zip(&mut generators) {
                    block.advance(chunk..end, generator.as_mut());
                    watch.advance(((end - chunk) * n_lanes) as u64);
                }
            }
            blocks.into_iter().map(Block::finish).collect()
        };
        let all = || tasks.par_iter().map(advance).collect();
        let outcomes: Vec<Vec<advance::Outcome>> = match self.options.n_threads {
            0 => all(),
            1 => tasks.iter().map(advance).collect(),
            n => match rayon::ThreadPoolBuilder::new().num_threads(n).build() {
                Ok(pool) => pool.install(all),
                Err(_) => all(),
            },
        };
        if watch.is_stopped() {
            return Err(EnsembleError::Stopped);
        }
        let mut results: Vec<EnsembleResult> = vec![EnsembleResult::default(); points.len()];
        for (task, outcomes) in tasks.iter().zip(outcomes) {
            for (point, outcome) in (task.first_point..).zip(outcomes) {
                results[point].add(task.experiment, point, outcome);
            }
        }
        for result in &results {
            for sums in &result.experiments {
                if sums.n_alive.contains(&0)
                    && let Some(first) = result.failures.iter().min_by(|a, b| a.time.total_cmp(&b.time))
                {
                    return Err(EnsembleError::AllFailed { time: first.time, reason: first.reason });
                }
            }
        }
        Ok(results)
    }
}

impl EnsembleResult {
    fn add(&mut self, experiment: usize, point: usize, outcome: advance::Outcome) {
        if self.experiments.len() <= experiment {
            self.experiments.push(outcome.sums);
        } else {
            let known = &mut self.experiments[experiment];
            let add = |known: &mut [f64], new: &[f64]| known.iter_mut().zip(new).for_each(|(known, new)| *known += new);
            add(&mut known.sums, &outcome.sums.sums);
            add(&mut known.squares, &outcome.sums.squares);
            for (known, new) in known.n_alive.iter_mut().zip(&outcome.sums.n_alive) {
                *known += new;
            }
            for (known, new) in known.lanes.iter_mut().zip(&outcome.sums.lanes) {
                known.extend_from_slice(new);
            }
            for (known, new) in known.functionals.iter_mut().zip(&outcome.sums.functionals) {
                known.extend_from_slice(new);
            }
        }
        self.failures.extend(outcome.failures.into_iter().map(|failure| LaneFailure { point, ..failure }));
        self.lane_steps += outcome.lane_steps;
        self.rejected_lane_steps += outcome.rejected_lane_steps;
    }
}

/// Chooses between the explicit methods and the implicit one by the work each needs for the first lanes, at the
/// tolerance asked for: steps, by each method's own error estimate, times operations of a step. It is counted over a
/// short time; what follows is taken to be like the second half of that, since many a start at rest asks for short
/// steps that nothing later does.
///
/// # Errors
/// When no explicit method can be compiled.
pub fn choose_method(
    system: &dyn DaeSystem,
    experiment: &Experiment<'_>,
    point: &EnsemblePoint,
    disturbances: &dyn Disturbances,
    observed: &[u32],
    options: EnsembleOptions,
) -> Result<StepMethod, EnsembleError> {
    const TRIAL_INTERVALS: usize = 100;
    const TRIAL_LANES: usize = 8;
    let reference = reference_point(experiment, point, system);
    let n_all = experiment.grid.n_intervals();
    let n_tried = n_all.min(TRIAL_INTERVALS);
    let plain = EnsemblePoint { tangents: Vec::new(), ..point.clone() };
    let tried = |method: StepMethod| -> Result<Trial, StepProgramError> {
        let request = daesy_system::StepRequest { method, directions: &[], observed, reference: &reference };
        let program = system.step_program(&request)?;
        // Steps of the first intervals; infinitely many where a lane breaks down.
        let steps = |n_intervals: usize| {
            let Grid { start, step, .. } = *experiment.grid;
            let grid = Grid { samples: vec![experiment.grid.point(n_intervals)], start, step };
            let table = InputTable::new(&grid, experiment.inputs, program.layout());
            let experiments = [Experiment { grid: &grid, inputs: experiment.inputs, table: &table }];
            let trial =
                Ensemble { program: program.as_ref(), experiments: &experiments, n_realizations: TRIAL_LANES, options };
            let outcome = trial.run(std::slice::from_ref(&plain), disturbances, &Wanted::default(), &Watch::default());
            let result = outcome.ok().and_then(|results| results.into_iter().next());
            result
                .filter(|result| result.failures.is_empty())
                .map_or(f64::INFINITY, |result| (result.lane_steps + result.rejected_lane_steps) as f64)
        };
        let mut n_steps = steps(n_tried);
        if n_all > n_tried && n_steps.is_finite() {
            let half = n_tried / 2;
            n_steps += (n_steps - steps(half)) / (n_tried - half) as f64 * (n_all - n_tried) as f64;
        }
        let n_operations = program.layout().n_operations as f64;
        Ok(Trial { method, work: n_steps * n_operations, one_step_each: (n_all * TRIAL_LANES) as f64 * n_operations })
    };
    let (third, fourth) = (tried(StepMethod::Explicit3)?, tried(StepMethod::Explicit4)?);
    // Of equals the more accurate.
    let explicit = if third.work < fourth.work { third } else { fourth };
    if explicit.work <= 2.0 * explicit.one_step_each {
        return Ok(explicit.method);
    }
    let Ok(implicit) = tried(StepMethod::Implicit3) else { return Ok(explicit.method) };
    Ok(if implicit.work < explicit.work { implicit.method } else { explicit.method })
}

/// What a method needs.
struct Trial {
    method: StepMethod,
    /// Infinite where a lane broke down.
    work: f64,
    /// What it would be with one step for each interval.
    one_step_each: f64,
}

/// Directions of differentiation for unknown parameters: which parameters each moves, and which inputs depend on it.
#[must_use]
pub fn directions(tangents: &[Vec<f64>], inputs: &[Vec<u32>]) -> Vec<Direction> {
    tangents
        .iter()
        .zip(inputs)
        .map(|(tangent, inputs)| Direction {
            parameters: (0..tangent.len() as u32).filter(|&at| tangent[at as usize] != 0.0).collect(),
            inputs: inputs.clone(),
        })
        .collect()
}
