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
    /// Ends of steps, by interval.
    stops: Vec<Stop>,
    /// Where each interval's stops begin.
    stop_starts: Vec<u32>,
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
    /// The sample that is taken.
    pub(super) sample: Option<u32>,
}

/// Times closer than this fraction of an interval are one.
const SAME: f64 = 1e-6;

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
                inputs.fill(time, node + 1 < n_nodes, slots);
            }
        }
        let mut stops: Vec<Vec<Stop>> = vec![Vec::new(); n_intervals];
        let mut add = |time: f64, jumps: bool, sample: Option<u32>| {
            let position = (time - grid.start) / grid.step;
            if position < SAME || n_intervals == 0 {
                return;
            }
            let interval = ((position - SAME).floor() as usize).min(n_intervals - 1);
            let mut fraction = position - interval as f64;
            if fraction > 1.0 + SAME {
                return;
            }
            if (fraction - 1.0).abs() <= SAME {
                fraction = 1.0;
            }
            let known = stops[interval].iter_mut().find(|stop| (stop.fraction - fraction).abs() <= SAME);
            match known {
                Some(stop) => {
                    stop.jumps |= jumps;
                    stop.sample = stop.sample.or(sample);
                }
                None => stops[interval].push(Stop { fraction, time, jumps, sample }),
            }
        };
        let (mut before, mut after) = (vec![0.0; n_inputs], vec![0.0; n_inputs]);
        for &time in inputs.breaks() {
            inputs.fill(time, false, &mut before);
            inputs.fill(time, true, &mut after);
            let jumps = before
                .iter()
                .zip(&after)
                .any(|(before, after)| (before - after).abs() > 1e-9 * (before.abs() + after.abs()));
            add(time, jumps, None);
        }
        for (sample, &time) in grid.samples.iter().enumerate() {
            add(time, false, Some(sample as u32));
        }
        let mut stop_starts = vec![0];
        let mut all = Vec::new();
        for (interval, mut stops) in stops.into_iter().enumerate() {
            if stops.iter().all(|stop| stop.fraction < 1.0) {
                stops.push(Stop { fraction: 1.0, time: grid.point(interval + 1), jumps: false, sample: None });
            }
            stops.sort_by(|a, b| a.fraction.total_cmp(&b.fraction));
            all.extend(stops);
            stop_starts.push(all.len() as u32);
        }
        Self { n_inputs, n_nodes, values, first, stops: all, stop_starts }
    }

    pub(super) fn stops(&self, interval: usize) -> &[Stop] {
        &self.stops[self.stop_starts[interval] as usize..self.stop_starts[interval + 1] as usize]
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
