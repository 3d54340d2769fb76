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
    pub(super) begin: Vec<f64>,
    pub(super) end: Vec<f64>,
}

impl<'p> GivenNoise<'p> {
    pub(super) fn new(process: &'p DiscreteProcess, n_lanes: usize, first_direction: usize) -> Self {
        let n = process.n_components() * n_lanes;
        Self { process, n_lanes, first_direction, begin: vec![0.0; n], end: vec![0.0; n] }
    }

    /// What one standard deviation of a normal number of the interval's noise adds to the components.
    pub(super) fn step(&self, number: usize) -> Vec<f64> {
        self.process.drawn_step(&|other: usize| if other == number { 1.0 } else { 0.0 })
    }

    /// Derivatives by a component at the begin, or, beyond these, by a normal number of the interval's noise.
    pub(super) fn slopes(&self, direction: usize) -> Slopes {
        let n = self.process.n_components();
        match direction.checked_sub(n) {
            Some(number) => Slopes { begin: vec![0.0; n], end: self.step(number) },
            None => {
                let unit = |other: usize| if other == direction { 1.0 } else { 0.0 };
                Slopes { begin: (0..n).map(unit).collect(), end: self.process.expected(&unit) }
            }
        }
    }

    /// The expected channels at the end of the interval.
    pub(super) fn expect(&mut self) {
        let n_lanes = self.n_lanes;
        for lane in 0..n_lanes {
            let at = |component: usize| self.begin[component * n_lanes + lane];
            let end = self.process.expected(&at);
            for (component, value) in end.into_iter().enumerate() {
                self.end[component * n_lanes + lane] = value;
            }
        }
    }
}

impl LaneDisturbances for GivenNoise<'_> {
    fn advance(&mut self, _interval: usize) {}

    fn fill(&mut self, fraction: f64, rows: &[DisturbanceRow], stride: usize, values: &mut [f64]) {
        let n = self.process.n_components();
        for row in rows {
            let target = &mut values[row.row * stride..][..self.n_lanes];
            match row.direction {
                None => {
                    let weights = self.process.weights(row.signal);
                    for (lane, target) in target.iter_mut().enumerate() {
                        *target = (0..n)
                            .map(|component| {
                                let at = component * self.n_lanes + lane;
                                weights[component] * (self.begin[at] + fraction * (self.end[at] - self.begin[at]))
                            })
                            .sum();
                    }
                }
                Some(direction) => {
                    let derivative = direction.checked_sub(self.first_direction).map_or(0.0, |direction| {
                        let weights = self.process.weights(row.signal);
                        let read = |values: &[f64]| values.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>();
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
