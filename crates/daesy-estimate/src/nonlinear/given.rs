//! Disturbances whose channels a filter sets, straight lines between grid points.

use daesy_integrate::ensemble::{DisturbanceRow, LaneDisturbances};

use crate::noise::DiscreteProcess;

/// How components move with one of them at the begin of an interval, or with the noise within it.
pub(super) struct Slopes {
    pub(super) begin: Vec<f64>,
    pub(super) end: Vec<f64>,
}

/// Channels at both ends of an interval: `[component * n_lanes + lane]`.
pub(super) struct GivenNoise<'p> {
    process: &'p DiscreteProcess,
    n_lanes: usize,
    /// First direction that belongs to a component.
    first_direction: usize,
    /// Of the components in each signal.
    weights: Vec<Vec<f64>>,
    pub(super) begin: Vec<f64>,
    pub(super) end: Vec<f64>,
    /// What one standard deviation of each normal number of an interval's noise adds: `[number * n_components +
    /// component]`.
    pub(super) steps: Vec<f64>,
}

impl<'p> GivenNoise<'p> {
    pub(super) fn new(process: &'p DiscreteProcess, n_lanes: usize, first_direction: usize) -> Self {
        let n = process.n_components() * n_lanes;
        let weights = (0..process.n_outputs()).map(|signal| process.weights(signal)).collect();
        let step = |number: usize| process.drawn_step(&|other: usize| if other == number { 1.0 } else { 0.0 });
        let steps = (0..process.n_components()).flat_map(step).collect();
        Self { process, n_lanes, first_direction, weights, begin: vec![0.0; n], end: vec![0.0; n], steps }
    }

    /// Derivatives by a component at the begin, or, beyond these, by a normal number of the interval's noise.
    pub(super) fn slopes(&self, direction: usize) -> Slopes {
        let n = self.process.n_components();
        match direction.checked_sub(n) {
            Some(number) => Slopes { begin: vec![0.0; n], end: self.steps[number * n..(number + 1) * n].to_vec() },
            None => {
                let unit = |other: usize| if other == direction { 1.0 } else { 0.0 };
                Slopes { begin: (0..n).map(unit).collect(), end: self.process.expected(&unit) }
            }
        }
    }

    /// The expected channels at the end of the interval.
    pub(super) fn expect(&mut self) {
        self.process.expect_in_lanes(&self.begin, self.n_lanes, &mut self.end);
    }
}

impl LaneDisturbances for GivenNoise<'_> {
    fn advance(&mut self, _interval: usize) {}

    fn fill(&mut self, fraction: f64, rows: &[DisturbanceRow], stride: usize, values: &mut [f64]) {
        let n_lanes = self.n_lanes;
        for row in rows {
            let target = &mut values[row.row * stride..][..n_lanes];
            let weights = &self.weights[row.signal];
            match row.direction {
                None => {
                    target.fill(0.0);
                    for (component, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                        let begin = &self.begin[component * n_lanes..][..n_lanes];
                        let end = &self.end[component * n_lanes..][..n_lanes];
                        for ((target, begin), end) in target.iter_mut().zip(begin).zip(end) {
                            *target += weight * (begin + fraction * (end - begin));
                        }
                    }
                }
                Some(direction) => {
                    let derivative = direction.checked_sub(self.first_direction).map_or(0.0, |direction| {
                        let read = |values: &[f64]| values.iter().zip(weights).map(|(x, w)| x * w).sum::<f64>();
                        let Slopes { begin, end } = self.slopes(direction);
                        let begin = read(&begin);
                        begin + fraction * (read(&end) - begin)
                    });
                    target.fill(derivative);
                }
            }
        }
    }
}
