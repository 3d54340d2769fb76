//! Known inputs on the grid of an experiment, evaluated once for all realizations and parameters.

use daesy_system::StepLayout;

use super::Grid;
use crate::simulate::Inputs;

/// Known inputs at the nodes of every interval, and the places where a step has to end.
#[derive(Clone, PartialEq, Debug)]
pub struct InputTable {
    n_inputs: usize,
    n_nodes: usize,
    /// `[interval][node][input]`, the last node as seen from the left.
    values: Vec<f64>,
    /// The inputs at the start.
    first: Vec<f64>,
    /// Ends of steps.
    stops: Stops,
    /// By interval: it has to be taken in 2^level steps at least, so that the inputs are integrated to their tolerance.
    least_levels: Vec<u8>,
}

/// A place where a step has to end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stop {
    /// Fraction of the interval.
    pub(super) fraction: f64,
    /// When.
    pub(super) time: f64,
    /// Whether an input jumps.
    pub(super) jumps: bool,
    /// Whether equations jump or bend by time alone: a step ends just before, and the next one begins just after.
    pub(super) is_switch: bool,
    /// The sample that is taken.
    pub(super) sample: Option<u32>,
}

/// Times closer than this fraction of an interval are one.
const SAME: f64 = 1e-6;

/// The same where equations jump, since what is missed is an error.
const SAME_SWITCH: f64 = 1e-9;

/// Known inputs are integrated with errors below this, relative to their sizes.
const INPUT_TOLERANCE: f64 = 1e-6;

/// Intervals are halved at most so often for known inputs.
const MAX_INPUT_LEVEL: u8 = 12;

/// The time of a break that is rounded to a grid point, or the grid point where there is none: an input that jumps
/// there would be read on the wrong side otherwise.
pub(super) fn at_break(inputs: &dyn Inputs, time: f64, step: f64) -> f64 {
    let breaks = inputs.breaks();
    let after = breaks.partition_point(|&known| known < time);
    let near = [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|at| breaks.get(at));
    near.copied().find(|known| (known - time).abs() <= SAME * step).unwrap_or(time)
}

/// Ends of steps, interval by interval.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Stops {
    stops: Vec<Stop>,
    /// Where the stops of each interval begin.
    starts: Vec<u32>,
    /// Whether equations jump at the start.
    pub(super) begins_with_switch: bool,
}

impl Stops {
    /// The stops of an interval, the last of them at its end.
    pub(super) fn of(&self, interval: usize) -> &[Stop] {
        &self.stops[self.starts[interval] as usize..self.starts[interval + 1] as usize]
    }

    /// The stops with times more at which equations jump or bend.
    pub(super) fn with_switches(&self, grid: &Grid, times: &[f64]) -> Self {
        let n_intervals = grid.n_intervals();
        let mut collected = Collected::new(grid);
        collected.by_interval = (0..n_intervals).map(|interval| self.of(interval).to_vec()).collect();
        for &time in times {
            collected.add(Stop { fraction: 0.0, time, jumps: false, is_switch: true, sample: None });
        }
        collected.finish()
    }
}

/// Stops on their way into a table.
struct Collected<'g> {
    grid: &'g Grid,
    by_interval: Vec<Vec<Stop>>,
    begins_with_switch: bool,
}

impl<'g> Collected<'g> {
    fn new(grid: &'g Grid) -> Self {
        Self { grid, by_interval: vec![Vec::new(); grid.n_intervals()], begins_with_switch: false }
    }

    /// Adds a stop by its time.
    fn add(&mut self, stop: Stop) {
        let same = if stop.is_switch { SAME_SWITCH } else { SAME };
        let position = (stop.time - self.grid.start) / self.grid.step;
        let n_intervals = self.by_interval.len();
        if n_intervals == 0 {
            return;
        }
        if position < same {
            self.begins_with_switch |= stop.is_switch && position > -same;
            return;
        }
        let interval = ((position - same).floor() as usize).min(n_intervals - 1);
        let mut fraction = position - interval as f64;
        if fraction > 1.0 + same {
            return;
        }
        if (fraction - 1.0).abs() <= same {
            fraction = 1.0;
        }
        let known = self.by_interval[interval].iter_mut().find(|known| (known.fraction - fraction).abs() <= same);
        match known {
            Some(known) => {
                known.jumps |= stop.jumps;
                known.is_switch |= stop.is_switch;
                known.sample = known.sample.or(stop.sample);
            }
            None => self.by_interval[interval].push(Stop { fraction, ..stop }),
        }
    }

    fn finish(self) -> Stops {
        let mut finished = Stops { stops: Vec::new(), starts: vec![0], begins_with_switch: self.begins_with_switch };
        for (interval, mut stops) in self.by_interval.into_iter().enumerate() {
            if stops.iter().all(|stop| stop.fraction < 1.0) {
                let time = self.grid.point(interval + 1);
                stops.push(Stop { fraction: 1.0, time, jumps: false, is_switch: false, sample: None });
            }
            stops.sort_by(|a, b| a.fraction.total_cmp(&b.fraction));
            finished.stops.extend(stops);
            finished.starts.push(finished.stops.len() as u32);
        }
        finished
    }
}

impl InputTable {
    /// Evaluates the known inputs where a method will ask for them.
    #[must_use]
    pub fn new(grid: &Grid, inputs: &dyn Inputs, layout: &StepLayout) -> Self {
        let n_intervals = grid.n_intervals();
        let (n_inputs, n_nodes) = (layout.n_inputs, layout.nodes.len());
        let mut values = vec![0.0; n_intervals * n_nodes * n_inputs];
        let mut first = vec![0.0; n_inputs];
        inputs.fill(grid.start, true, &mut first);
        if n_inputs > 0 {
            for (at, slots) in values.chunks_exact_mut(n_inputs).enumerate() {
                let (interval, node) = (at / n_nodes, at % n_nodes);
                let time = if node + 1 == n_nodes {
                    grid.point(interval + 1)
                } else {
                    grid.point(interval) + layout.nodes[node] * grid.step
                };
                inputs.fill(at_break(inputs, time, grid.step), node + 1 < n_nodes, slots);
            }
        }
        let mut stops = Collected::new(grid);
        let (mut before, mut after) = (vec![0.0; n_inputs], vec![0.0; n_inputs]);
        for &time in inputs.breaks() {
            inputs.fill(time, false, &mut before);
            inputs.fill(time, true, &mut after);
            let jumps = before
                .iter()
                .zip(&after)
                .any(|(before, after)| (before - after).abs() > 1e-9 * (before.abs() + after.abs()));
            stops.add(Stop { fraction: 0.0, time, jumps, is_switch: false, sample: None });
        }
        for (sample, &time) in grid.samples.iter().enumerate() {
            stops.add(Stop { fraction: 0.0, time, jumps: false, is_switch: false, sample: Some(sample as u32) });
        }
        let stops = stops.finish();
        let least_levels =
            (0..n_intervals).map(|interval| least_level(grid, inputs, n_inputs, interval, &stops)).collect();
        Self { n_inputs, n_nodes, values, first, stops, least_levels }
    }

    pub(super) fn stops(&self) -> &Stops {
        &self.stops
    }

    /// An interval is taken in 2^level steps at least.
    pub(super) fn least_level(&self, interval: usize) -> u32 {
        u32::from(self.least_levels[interval])
    }

    pub(super) fn at(&self, interval: usize, node: usize) -> &[f64] {
        &self.values[(interval * self.n_nodes + node) * self.n_inputs..][..self.n_inputs]
    }

    /// The known inputs at the start.
    #[must_use]
    pub fn first(&self) -> &[f64] {
        &self.first
    }
}

/// How often the steps of an interval are halved until the rule that all methods share where rates depend on inputs
/// alone, Simpson's, gives the integrals of the inputs as well as one of higher order.
fn least_level(grid: &Grid, inputs: &dyn Inputs, n_inputs: usize, interval: usize, stops: &Stops) -> u8 {
    if n_inputs == 0 || inputs.is_cubic() {
        return 0;
    }
    let mut from = 0.0;
    let mut level = 0;
    for stop in stops.of(interval) {
        let time = |fraction: f64| at_break(inputs, grid.point(interval) + fraction * grid.step, grid.step);
        let piece = Piece { start: time(from), end: time(stop.fraction) };
        while level < MAX_INPUT_LEVEL && !piece.is_integrated(inputs, n_inputs, 1 << level) {
            level += 1;
        }
        from = stop.fraction;
    }
    level
}

/// A part of an interval without breaks.
struct Piece {
    start: f64,
    end: f64,
}

impl Piece {
    /// Whether so many steps integrate all inputs to their tolerance. The points of the rule of higher order divide a
    /// step into parts without a common measure, so that no oscillation looks constant.
    fn is_integrated(&self, inputs: &dyn Inputs, n_inputs: usize, n_steps: usize) -> bool {
        const NODES: [f64; 5] = [0.0, 0.276_393_202_250_021, 0.5, 0.723_606_797_749_979, 1.0];
        let width = (self.end - self.start) / n_steps as f64;
        let mut rows = vec![vec![0.0; n_inputs]; NODES.len()];
        let mut sizes = vec![0.0f64; n_inputs];
        let mut differences = vec![0.0f64; n_inputs];
        for step in 0..n_steps {
            let begin = self.start + step as f64 * width;
            for (row, node) in rows.iter_mut().zip(NODES) {
                let is_end = step + 1 == n_steps && node == 1.0;
                let time = if is_end { self.end } else { begin + node * width };
                inputs.fill(time, !is_end, row);
            }
            for at in 0..n_inputs {
                let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|node| rows[node][at]);
                let simpson = (a + 4.0 * c + e) / 6.0;
                // Lobatto's rule with four points, of order 6.
                let lobatto = (a + 5.0 * b + 5.0 * d + e) / 12.0;
                differences[at] = differences[at].max((simpson - lobatto).abs());
                sizes[at] = [a, b, c, d, e].iter().fold(sizes[at], |size, value| size.max(value.abs()));
            }
        }
        differences.iter().zip(&sizes).all(|(difference, size)| *difference <= INPUT_TOLERANCE * size)
    }
}
