//! One block of lanes at one point of parameters, from start to end.

use daesy_system::{LaneSteps, StepLayout};

use super::signals::{Stops, at_break};
use super::{
    DisturbanceRow, Ensemble, EnsemblePoint, Experiment, LaneDisturbances, LaneFailure, LaneFailureReason, OutputSums,
    Wanted,
};

/// A growth of elimination factors, or of Newton's last step, beyond this is not trusted.
const MAX_GROWTH: f64 = 1e8;

/// Scales of states shrink no faster than this from one interval to the next.
const SCALE_DECAY: f64 = 0.998;

/// An error estimate of order 2 may be larger than what is allowed by this factor at most.
const MOST_LEEWAY: f64 = 10.0;

/// Scales of states are looked at every so many intervals.
const SCALE_INTERVALS: usize = 4;

/// Steps end this long before a time at which equations jump and begin this long after it, relative to the time.
const GAP: f64 = 1e-12;

/// Equations that jump more often by time alone are not advanced in lanes.
pub(super) const MAX_SWITCHES: usize = 100_000;

/// So many intervals in a row with room to spare make steps longer again.
const PATIENCE: u32 = 8;

/// Step lengths and sizes of states over time, so that trajectories can be computed without regard to each other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Schedule {
    /// By interval: it is taken in 2^level steps.
    levels: Vec<u32>,
    /// Sizes of the states, every [`SCALE_INTERVALS`] intervals.
    scales: Vec<Vec<f64>>,
    /// Times at which equations jump or bend by time alone.
    pub(super) switches: Vec<f64>,
}

impl Schedule {
    /// Steps from start to end.
    #[must_use]
    pub fn n_steps(&self) -> u64 {
        self.levels.iter().map(|&level| 1u64 << level).sum()
    }
}

/// What a block does about its steps.
enum Pace<'e> {
    /// Finds step lengths by its worst lane.
    Found,
    /// The same, and keeps what it found.
    Recorded(Schedule),
    /// Keeps to a schedule; lanes for which it is too coarse are left behind.
    Kept(&'e Schedule),
}

/// What a block leaves.
pub(super) struct Outcome {
    pub(super) sums: OutputSums,
    pub(super) failures: Vec<LaneFailure>,
    pub(super) lane_steps: u64,
    pub(super) rejected_lane_steps: u64,
}

/// A block of lanes at one point of parameters.
pub(super) struct Block<'e> {
    ensemble: &'e Ensemble<'e>,
    experiment: &'e Experiment<'e>,
    experiment_at: usize,
    layout: &'e StepLayout,
    point: &'e EnsemblePoint,
    /// Parameters of each lane, where they differ.
    lane_parameters: Vec<&'e [f64]>,
    pace: Pace<'e>,
    wanted: &'e Wanted<'e>,
    /// Ends of steps where equations jump by time alone; those of the inputs where they do not.
    stops: Option<Stops>,
    /// Where in the next interval the first step begins: after a jump a little late.
    late: f64,
    lanes: Box<dyn LaneSteps + 'e>,
    first: usize,
    n_lanes: usize,
    is_alive: Vec<bool>,
    n_alive: usize,
    rows: Vec<DisturbanceRow>,
    /// By input, whether a disturbance gives it.
    is_disturbed: Vec<bool>,
    /// Intervals are taken in 2^level steps.
    level: u32,
    n_easy: u32,
    /// The interval from which on sizes of states are looked at every [`SCALE_INTERVALS`] intervals.
    scales_from: usize,
    prepared: f64,
    /// By how much the estimate may be larger than what is allowed.
    leeway: f64,
    scales: Vec<f64>,
    saved: Vec<f64>,
    inputs: Vec<f64>,
    pub(super) outcome: Outcome,
    arch: pulp::Arch,
}

/// Why an interval has to be repeated.
enum Refusal {
    None,
    Error(f64),
    Growth,
}

impl<'e> Block<'e> {
    pub(super) fn new(
        ensemble: &'e Ensemble<'e>,
        experiment_at: usize,
        first: usize,
        n_lanes: usize,
        point: &'e EnsemblePoint,
        slots: &[usize],
        wanted: &'e Wanted<'e>,
    ) -> Self {
        let experiment = &ensemble.experiments[experiment_at];
        let layout = ensemble.program.layout();
        let lanes = ensemble.program.lanes(n_lanes);
        let mut rows = Vec::new();
        for (signal, &slot) in slots.iter().enumerate() {
            rows.push(DisturbanceRow { row: slot, signal, direction: None });
            for (at, tangent) in layout.input_tangents.iter().enumerate() {
                if tangent.slot as usize == slot {
                    let direction = Some(tangent.direction as usize);
                    rows.push(DisturbanceRow { row: layout.n_inputs + at, signal, direction });
                }
            }
        }
        let n_samples = experiment.grid.samples.len();
        let n_kept = if wanted.keeps_lanes { n_samples * layout.n_observed } else { 0 };
        Self {
            ensemble,
            experiment,
            experiment_at,
            layout,
            point,
            lane_parameters: Vec::new(),
            pace: Pace::Found,
            wanted,
            stops: None,
            late: 0.0,
            saved: Vec::with_capacity(layout.n_carried_rows() * lanes.stride()),
            lanes,
            first,
            n_lanes,
            is_alive: vec![true; n_lanes],
            n_alive: n_lanes,
            rows,
            is_disturbed: (0..layout.n_inputs).map(|slot| slots.contains(&slot)).collect(),
            level: 0,
            n_easy: 0,
            scales_from: 0,
            prepared: f64::NAN,
            leeway: leeway(layout, ensemble.options.rtol),
            scales: vec![0.0; layout.states.len()],
            inputs: vec![0.0; layout.n_inputs],
            outcome: Outcome {
                sums: OutputSums {
                    sums: vec![0.0; n_samples * layout.n_observed_rows()],
                    squares: vec![0.0; n_samples * layout.n_observed],
                    n_alive: vec![0; n_samples],
                    lanes: vec![Vec::new(); n_kept],
                    functionals: vec![vec![0.0; n_lanes]; wanted.functionals.len()],
                },
                failures: Vec::new(),
                lane_steps: 0,
                rejected_lane_steps: 0,
            },
            arch: pulp::Arch::new(),
        }
    }

    /// Ends steps where equations jump by time alone.
    pub(super) fn with_switches(mut self, times: Option<&[f64]>) -> Self {
        match times {
            Some([]) => {}
            Some(times) => {
                self.stops = Some(self.experiment.table.stops().with_switches(self.experiment.grid, times));
            }
            None => self.give_up(LaneFailureReason::TooManyJumps),
        }
        self
    }

    /// Leaves all lanes behind at the start.
    fn give_up(&mut self, reason: LaneFailureReason) {
        self.is_alive.fill(false);
        self.n_alive = 0;
        let time = self.experiment.grid.start;
        for lane in 0..self.n_lanes {
            self.outcome.failures.push(LaneFailure {
                point: 0,
                experiment: self.experiment_at,
                realization: self.first + lane,
                time,
                reason,
            });
        }
    }

    fn stops(&self) -> &Stops {
        self.stops.as_ref().unwrap_or_else(|| self.experiment.table.stops())
    }

    /// The part of an interval that lies between a jump at a time and the steps before and after it.
    fn gap(&self, time: f64) -> f64 {
        let grid = self.experiment.grid;
        GAP * (time.abs() / grid.step + 1.0)
    }

    /// Gives each lane parameters of its own.
    pub(super) fn with_lane_parameters(mut self, parameters: Vec<&'e [f64]>) -> Self {
        self.lane_parameters = parameters;
        self
    }

    /// Keeps step lengths, for [`Block::finish_schedule`].
    pub(super) fn with_record(mut self) -> Self {
        self.pace = Pace::Recorded(Schedule::default());
        self
    }

    /// Keeps to step lengths.
    pub(super) fn with_schedule(mut self, schedule: &'e Schedule) -> Self {
        self.pace = Pace::Kept(schedule);
        self
    }

    /// The step lengths that were found, if no lane broke down.
    pub(super) fn finish_schedule(self) -> Option<Schedule> {
        match self.pace {
            Pace::Recorded(schedule) if self.n_alive == self.n_lanes => Some(schedule),
            _ => None,
        }
    }

    /// Sets the start values and takes samples at the start.
    pub(super) fn begin(&mut self, disturbances: &mut dyn LaneDisturbances) {
        let start = &self.point.starts[self.experiment_at];
        let stride = self.lanes.stride();
        let n_carried = self.layout.n_carried;
        let carried = self.lanes.carried_mut();
        carried.fill(0.0);
        for lane in 0..self.n_lanes {
            let from = start.lanes.get(self.first + lane).unwrap_or(&start.lanes[0]);
            for (row, &state) in self.layout.states.iter().enumerate() {
                carried[row * stride + lane] = from.states[state as usize];
                for direction in 0..self.layout.n_directions {
                    carried[((1 + direction) * n_carried + row) * stride + lane] =
                        from.state_tangents[direction][state as usize];
                }
            }
            for (at, &unknown) in self.layout.unknowns.iter().enumerate() {
                carried[(self.layout.states.len() + at) * stride + lane] = from.unknowns[unknown as usize];
            }
        }
        let start_time = self.experiment.grid.start;
        self.prepare(self.experiment.grid.step);
        disturbances.advance(0);
        let node = self.layout.nodes.len() - 1;
        self.inputs.copy_from_slice(self.experiment.table.first());
        self.fill_signals(node, 0.0, disturbances);
        self.lanes.start(start_time);
        self.update_scales(0);
        let tolerance = 1e-6 * self.experiment.grid.step;
        let n_first = self.experiment.grid.samples.partition_point(|&time| time <= start_time + tolerance);
        for sample in 0..n_first {
            self.take_sample(sample, start_time);
        }
        if self.stops().begins_with_switch {
            self.late = self.gap(start_time);
            self.lanes.start(start_time + self.late * self.experiment.grid.step);
        }
    }

    pub(super) fn finish(mut self) -> Outcome {
        for functional in &mut self.outcome.sums.functionals {
            for (value, &is_alive) in functional.iter_mut().zip(&self.is_alive) {
                if !is_alive {
                    *value = f64::NAN;
                }
            }
        }
        self.outcome
    }

    fn prepare(&mut self, step: f64) {
        if self.prepared.to_bits() != step.to_bits() {
            if self.lane_parameters.is_empty() {
                self.lanes.prepare(step, &self.point.parameters, &self.point.tangents);
            } else {
                self.lanes.prepare_each(step, &self.lane_parameters);
            }
            self.prepared = step;
        }
    }

    /// Writes the signal rows of a node from `self.inputs` and the disturbances.
    fn fill_signals(&mut self, node: usize, fraction: f64, disturbances: &mut dyn LaneDisturbances) {
        let stride = self.lanes.stride();
        let rows = self.lanes.signals_mut(node);
        self.arch.dispatch(Spread { rows: &mut *rows, stride, values: &self.inputs, is_given: &self.is_disturbed });
        disturbances.fill(fraction, &self.rows, stride, rows);
    }

    /// Allowed errors from the size of the states: relative to the largest of all lanes, lately.
    fn update_scales(&mut self, interval: usize) {
        let stride = self.lanes.stride();
        let carried = self.lanes.carried();
        for (row, scale) in self.scales.iter_mut().enumerate() {
            let values = &carried[row * stride..][..self.n_lanes];
            let mut largest = self.arch.dispatch(LargestSize(values));
            if !largest.is_finite() || self.n_alive < self.n_lanes {
                let alive =
                    values.iter().zip(&self.is_alive).filter(|(value, is_alive)| **is_alive && value.is_finite());
                largest = alive.fold(0.0f64, |largest, (value, _)| largest.max(value.abs()));
            }
            *scale = largest.max(*scale * SCALE_DECAY);
        }
        match &mut self.pace {
            Pace::Found => {}
            Pace::Recorded(schedule) => {
                schedule.scales.truncate(interval / SCALE_INTERVALS);
                schedule.scales.push(self.scales.clone());
            }
            Pace::Kept(schedule) => {
                if let Some(scales) = schedule.scales.get(interval / SCALE_INTERVALS) {
                    self.scales.copy_from_slice(scales);
                }
            }
        }
        let options = self.ensemble.options;
        let rows = self.lanes.weights_mut().chunks_exact_mut(stride);
        for (row, (scale, nominal)) in rows.zip(self.scales.iter().zip(&self.layout.nominal)) {
            row.fill(1.0 / (self.leeway * (options.rtol * scale + options.atol * nominal)));
        }
    }

    /// Goes through some intervals of the grid.
    pub(super) fn advance(&mut self, intervals: std::ops::Range<usize>, disturbances: &mut dyn LaneDisturbances) {
        for interval in intervals {
            if self.n_alive == 0 {
                return;
            }
            disturbances.advance(interval);
            if (interval - self.scales_from).is_multiple_of(SCALE_INTERVALS) {
                self.update_scales(interval);
            }
            if let Pace::Kept(schedule) = self.pace {
                self.level = schedule.levels[interval];
            }
            let mut finest = 0;
            let mut from = std::mem::take(&mut self.late);
            for at in 0..self.stops().of(interval).len() {
                let stop = self.stops().of(interval)[at];
                let gap = if stop.is_switch { self.gap(stop.time) } else { 0.0 };
                if stop.fraction - gap > from {
                    finest = finest.max(self.cross(interval, from, stop.fraction - gap, disturbances));
                }
                from = stop.fraction + gap;
                if stop.jumps || stop.is_switch {
                    let time = stop.time + gap * self.experiment.grid.step;
                    self.experiment.inputs.fill(time, true, &mut self.inputs);
                    let node = self.layout.nodes.len() - 1;
                    self.fill_signals(node, stop.fraction, disturbances);
                    self.lanes.start(time);
                    self.late = if stop.fraction == 1.0 { gap } else { 0.0 };
                }
                if let Some(sample) = stop.sample {
                    self.take_sample(sample as usize, stop.time);
                }
            }
            if let Pace::Recorded(schedule) = &mut self.pace {
                schedule.levels.push(finest);
            }
        }
    }

    /// Steps from one fraction of an interval to another, with as many steps as the error asks for; gives the level it
    /// took.
    fn cross(&mut self, interval: usize, from: f64, to: f64, disturbances: &mut dyn LaneDisturbances) -> u32 {
        self.saved.clear();
        self.level = self.level.max(self.experiment.table.least_level(interval));
        loop {
            let n_steps = 1usize << self.level;
            // A single step that is refused has changed nothing.
            if n_steps > 1 && self.saved.is_empty() {
                self.saved.extend_from_slice(self.lanes.carried());
            }
            let mut worst = 0.0f64;
            let mut refusal = Refusal::None;
            let mut refused_at = 0;
            for step in 0..n_steps {
                self.step(interval, from, to, step, n_steps, disturbances);
                self.outcome.lane_steps += self.n_alive as u64;
                refusal = self.judge(&mut worst);
                if !matches!(refusal, Refusal::None) {
                    refused_at = step;
                    break;
                }
                self.lanes.accept();
            }
            let error = match refusal {
                Refusal::None => {
                    let level = self.level;
                    self.relax(worst);
                    return level;
                }
                Refusal::Error(error) => error,
                Refusal::Growth => f64::INFINITY,
            };
            if self.level >= self.ensemble.options.max_halvings || matches!(self.pace, Pace::Kept(_)) {
                self.leave_behind(interval, from, to, refused_at, n_steps);
                if !matches!(self.pace, Pace::Kept(_)) {
                    self.level = self.level.saturating_sub(6);
                }
                if self.n_alive == 0 {
                    return self.level;
                }
            } else {
                let order = f64::from(self.layout.estimate_order + 1);
                let halvings =
                    if error.is_finite() { ((error.log2() / order) + 0.3).ceil().clamp(1.0, 3.0) } else { 1.0 };
                self.level = (self.level + halvings as u32).min(self.ensemble.options.max_halvings);
            }
            self.n_easy = 0;
            self.outcome.rejected_lane_steps += (refused_at as u64 + 1) * self.n_alive as u64;
            self.outcome.lane_steps -= (refused_at as u64 + 1) * self.n_alive as u64;
            if !self.saved.is_empty() {
                self.lanes.carried_mut().copy_from_slice(&self.saved);
            }
        }
    }

    /// One step, not yet accepted.
    fn step(
        &mut self,
        interval: usize,
        from: f64,
        to: f64,
        step: usize,
        n_steps: usize,
        disturbances: &mut dyn LaneDisturbances,
    ) {
        let grid = self.experiment.grid;
        let layout = self.layout;
        let is_whole = from == 0.0 && to == 1.0;
        let width = (to - from) / n_steps as f64;
        let begin = from + width * step as f64;
        let length = if is_whole { grid.step / n_steps as f64 } else { width * grid.step };
        self.prepare(length);
        for (node, &c) in layout.nodes.iter().enumerate() {
            let is_end = step + 1 == n_steps && node + 1 == layout.nodes.len();
            let fraction = if is_end { to } else { begin + c * width };
            if is_whole && n_steps == 1 {
                self.inputs.copy_from_slice(self.experiment.table.at(interval, node));
            } else if layout.n_inputs > self.rows.len() || layout.n_directions > 0 {
                let time = grid.point(interval) + fraction * grid.step;
                let time = if is_end && to == 1.0 { grid.point(interval + 1) } else { time };
                let time = at_break(self.experiment.inputs, time, grid.step);
                self.experiment.inputs.fill(time, !is_end, &mut self.inputs);
            }
            self.fill_signals(node, fraction, disturbances);
        }
        self.lanes.step(grid.point(interval) + begin * grid.step);
    }

    /// The largest absolute value; NaN if not all are finite.
    fn largest_size(&self, values: &[f64]) -> f64 {
        if values.is_empty() { 0.0 } else { self.arch.dispatch(LargestSize(values)) }
    }

    /// Whether the last step may be accepted; keeps the worst error, which nobody asks for while steps are longest.
    fn judge(&self, worst: &mut f64) -> Refusal {
        let (errors, growths) = (self.lanes.error(), self.lanes.growth());
        if self.level == 0 && self.arch.dispatch(AllWithin([(errors, 1.0), (growths, MAX_GROWTH)])) {
            return Refusal::None;
        }
        // Lanes that were left behind can only make these larger.
        let (of_all, growth_of_all) = (self.largest_size(errors), self.largest_size(growths));
        if of_all <= 1.0 && growth_of_all <= MAX_GROWTH {
            *worst = worst.max(of_all);
            return Refusal::None;
        }
        let mut largest = 0.0f64;
        let mut growth = 0.0f64;
        for lane in 0..self.n_lanes {
            if self.is_alive[lane] {
                largest = larger_or_nan(largest, errors[lane]);
                growth = larger_or_nan(growth, growths.get(lane).copied().unwrap_or(1.0));
            }
        }
        *worst = worst.max(largest);
        if largest.is_nan() || growth.is_nan() || growth > MAX_GROWTH {
            Refusal::Growth
        } else if largest > 1.0 {
            Refusal::Error(largest)
        } else {
            Refusal::None
        }
    }

    /// Takes longer steps again where there has been room for a while.
    fn relax(&mut self, worst: f64) {
        if self.level == 0 || matches!(self.pace, Pace::Kept(_)) {
            return;
        }
        let factor = 2f64.powi(self.layout.estimate_order as i32 + 1);
        self.n_easy = if worst * factor < 0.5 { self.n_easy + 1 } else { 0 };
        if self.n_easy >= PATIENCE {
            self.level -= 1;
            self.n_easy = 0;
        }
    }

    /// Gives up the lanes that stopped the block.
    fn leave_behind(&mut self, interval: usize, from: f64, to: f64, step: usize, n_steps: usize) {
        let grid = self.experiment.grid;
        let fraction = from + (to - from) * step as f64 / n_steps as f64;
        let time = grid.point(interval) + fraction * grid.step;
        for lane in 0..self.n_lanes {
            if !self.is_alive[lane] {
                continue;
            }
            let growth = self.lanes.growth().get(lane).copied().unwrap_or(1.0);
            let error = self.lanes.error()[lane];
            let reason = if !error.is_finite() || growth.is_nan() {
                LaneFailureReason::NotFinite
            } else if growth > MAX_GROWTH {
                LaneFailureReason::NearlySingular
            } else if error > 1.0 {
                LaneFailureReason::TooInaccurate
            } else {
                continue;
            };
            self.is_alive[lane] = false;
            self.n_alive -= 1;
            self.outcome.failures.push(LaneFailure {
                point: 0,
                experiment: self.experiment_at,
                realization: self.first + lane,
                time,
                reason,
            });
        }
    }

    /// Completes changed states at a grid point.
    pub(super) fn restart(&mut self, point: usize, fraction: f64, disturbances: &mut dyn LaneDisturbances) {
        let grid = self.experiment.grid;
        let time = at_break(self.experiment.inputs, grid.point(point), grid.step) + self.late * grid.step;
        self.experiment.inputs.fill(time, true, &mut self.inputs);
        let node = self.layout.nodes.len() - 1;
        self.fill_signals(node, fraction, disturbances);
        self.lanes.start(time);
    }

    /// Forgets step lengths and sizes of states, as at the start: what follows depends on the states alone.
    pub(super) fn forget_pace(&mut self, point: usize) {
        self.level = 0;
        self.n_easy = 0;
        self.scales.fill(0.0);
        self.scales_from = point;
    }

    /// The rows of a method's lanes.
    pub(super) fn lanes(&self) -> &dyn LaneSteps {
        self.lanes.as_ref()
    }

    /// The same for callers that change states on the way.
    pub(super) fn lanes_mut(&mut self) -> &mut dyn LaneSteps {
        self.lanes.as_mut()
    }

    /// Realizations that are left.
    pub(super) fn is_alive(&self) -> &[bool] {
        &self.is_alive
    }

    fn take_sample(&mut self, sample: usize, time: f64) {
        let stride = self.lanes.stride();
        let (n_rows, n_observed) = (self.layout.n_observed_rows(), self.layout.n_observed);
        let rows = self.lanes.observe(time);
        let sums = &mut self.outcome.sums;
        sums.n_alive[sample] = self.n_alive as u32;
        let is_whole = self.n_alive == self.n_lanes;
        for row in 0..n_rows {
            let values = &rows[row * stride..][..self.n_lanes];
            sums.sums[sample * n_rows + row] = if is_whole {
                tree_sum(values, |value| value)
            } else {
                values.iter().zip(&self.is_alive).filter(|(_, is_alive)| **is_alive).map(|(value, _)| value).sum()
            };
            if row < n_observed {
                sums.squares[sample * n_observed + row] = if is_whole {
                    tree_sum(values, |value| value * value)
                } else {
                    let alive = values.iter().zip(&self.is_alive).filter(|(_, is_alive)| **is_alive);
                    alive.map(|(value, _)| value * value).sum()
                };
                if self.wanted.keeps_lanes {
                    let kept = values.iter().zip(&self.is_alive);
                    sums.lanes[sample * n_observed + row] =
                        kept.map(|(&value, &is_alive)| if is_alive { value } else { f64::NAN }).collect();
                }
            }
            for (functional, coefficients) in sums.functionals.iter_mut().zip(self.wanted.functionals) {
                let coefficient = coefficients[self.experiment_at][sample * n_rows + row];
                if coefficient != 0.0 {
                    for (sum, value) in functional.iter_mut().zip(values) {
                        *sum += coefficient * value;
                    }
                }
            }
        }
    }
}

/// By how much the estimate may be larger than what is allowed.
///
/// The estimate is that of a method of order 2, while the result has order 3. For a rate L of change, relative to the
/// states,
///
/// ```text
/// estimate = (h L)^3,  error = (h L)^4 = estimate^(4/3),   so that error = rtol where estimate = rtol^(3/4)
/// ```
///
/// Where a right side has kinks that law does not hold, and leeway is limited. Methods of order 4 have enough accuracy
/// to spare at the steps that disturbances make necessary.
fn leeway(layout: &StepLayout, rtol: f64) -> f64 {
    if layout.estimate_order == 2 && rtol > 0.0 { rtol.powf(-0.25).clamp(1.0, MOST_LEEWAY) } else { 1.0 }
}

/// Writes values to the rows of all lanes, but for rows that are given, with the instructions this machine has.
struct Spread<'v> {
    rows: &'v mut [f64],
    stride: usize,
    values: &'v [f64],
    is_given: &'v [bool],
}

impl pulp::WithSimd for Spread<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        for ((row, &value), &is_given) in self.rows.chunks_exact_mut(self.stride).zip(self.values).zip(self.is_given) {
            if !is_given {
                row.fill(value);
            }
        }
    }
}

/// Whether the sizes of all numbers are at most as large as their limits, with the instructions this machine has; no if
/// one is not a number.
struct AllWithin<'v>([(&'v [f64], f64); 2]);

impl pulp::WithSimd for AllWithin<'_> {
    type Output = bool;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) -> bool {
        let mut n_within = 0u64;
        let mut n = 0;
        for (values, limit) in self.0 {
            n += values.len();
            for value in values {
                n_within += u64::from(value.abs() <= limit);
            }
        }
        n_within == n as u64
    }
}

/// The search for the largest absolute value with the instructions this machine has; NaN if not all are finite.
struct LargestSize<'v>(&'v [f64]);

impl pulp::WithSimd for LargestSize<'_> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) -> f64 {
        largest_size_inlined(self.0)
    }
}

/// The larger of two numbers; NaN if one of them is.
fn larger_or_nan(one: f64, other: f64) -> f64 {
    if one.is_nan() || one >= other { one } else { other }
}

#[inline(always)]
fn largest_size_inlined(values: &[f64]) -> f64 {
    let mut largest = [0.0f64; 8];
    // Infinities and NaN survive in a sum.
    let mut sums = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    let mut look = |at: usize, value: f64| {
        let size = value.abs();
        largest[at] = if size > largest[at] { size } else { largest[at] };
        sums[at] += size;
    };
    for chunk in chunks {
        for at in 0..8 {
            look(at, chunk[at]);
        }
    }
    rest.iter().enumerate().for_each(|(at, &value)| look(at, value));
    if sums.iter().sum::<f64>().is_finite() { largest.iter().fold(0.0, |a: f64, &b| a.max(b)) } else { f64::NAN }
}

/// A sum in a fixed order: eight partial sums, then their sum.
fn tree_sum(values: &[f64], of: impl Fn(f64) -> f64) -> f64 {
    let mut partial = [0.0f64; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (sum, &value) in partial.iter_mut().zip(chunk) {
            *sum += of(value);
        }
    }
    for (sum, &value) in partial.iter_mut().zip(rest) {
        *sum += of(value);
    }
    ((partial[0] + partial[4]) + (partial[2] + partial[6])) + ((partial[1] + partial[5]) + (partial[3] + partial[7]))
}
