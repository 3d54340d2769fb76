//! A block of lanes that a caller takes from grid point to grid point, changing its states on the way, as filters do.

use super::advance::Block;
use super::{Ensemble, EnsemblePoint, LaneDisturbances, LaneFailure, Wanted};

/// A block of lanes under a caller's control.
pub struct Walk<'e> {
    block: Block<'e>,
    ensemble: &'e Ensemble<'e>,
    experiment: usize,
    n_lanes: usize,
}

impl<'e> Walk<'e> {
    /// Lanes at the start of an experiment; `slots` are the inputs that the disturbances drive.
    #[must_use]
    pub fn new(
        ensemble: &'e Ensemble<'e>,
        experiment: usize,
        point: &'e EnsemblePoint,
        slots: &[usize],
        wanted: &'e Wanted<'e>,
        disturbances: &mut dyn LaneDisturbances,
    ) -> Self {
        let n_lanes = ensemble.n_realizations;
        let switches = ensemble.switches(experiment, &point.parameters);
        let mut block =
            Block::new(ensemble, experiment, 0, n_lanes, point, slots, wanted).with_switches(switches.as_deref());
        block.begin(disturbances);
        Self { block, ensemble, experiment, n_lanes }
    }

    /// Number of carried states.
    #[must_use]
    pub fn n_states(&self) -> usize {
        self.ensemble.program.layout().states.len()
    }

    /// Crosses an interval of the grid.
    pub fn cross(&mut self, interval: usize, disturbances: &mut dyn LaneDisturbances) {
        self.block.advance(interval..interval + 1, disturbances);
    }

    /// A carried state of a lane; `direction` 0 is the state itself, k its derivative along direction k - 1.
    #[must_use]
    pub fn state(&mut self, lane: usize, state: usize, direction: usize) -> f64 {
        let n_carried = self.ensemble.program.layout().n_carried;
        let lanes = self.block.lanes_mut();
        let stride = lanes.stride();
        lanes.carried()[(direction * n_carried + state) * stride + lane]
    }

    /// Sets a carried state of a lane, or a derivative of it.
    pub fn set_state(&mut self, lane: usize, state: usize, direction: usize, value: f64) {
        let n_carried = self.ensemble.program.layout().n_carried;
        let lanes = self.block.lanes_mut();
        let stride = lanes.stride();
        lanes.carried_mut()[(direction * n_carried + state) * stride + lane] = value;
    }

    /// A carried state in all lanes.
    #[must_use]
    pub fn state_row(&self, state: usize) -> &[f64] {
        let lanes = self.block.lanes();
        let stride = lanes.stride();
        &lanes.carried()[state * stride..][..self.n_lanes]
    }

    /// A carried state in all lanes, to be set.
    pub fn state_row_mut(&mut self, state: usize) -> &mut [f64] {
        let n_lanes = self.n_lanes;
        let lanes = self.block.lanes_mut();
        let stride = lanes.stride();
        &mut lanes.carried_mut()[state * stride..][..n_lanes]
    }

    /// Makes changed states consistent at a grid point, under the disturbances at a fraction of an interval.
    pub fn restart(&mut self, point: usize, fraction: f64, disturbances: &mut dyn LaneDisturbances) {
        self.block.restart(point, fraction, disturbances);
    }

    /// Forgets how the lanes went so far: from this grid point on, steps depend on what the lanes carry alone.
    pub fn forget_pace(&mut self, point: usize) {
        self.block.forget_pace(point);
    }

    /// All that the lanes carry, states first and then where the search for unknowns begins: `[row][lane]`, without
    /// padding.
    #[must_use]
    pub fn carried(&mut self) -> Vec<f64> {
        let n_lanes = self.n_lanes;
        let lanes = self.block.lanes_mut();
        let stride = lanes.stride();
        without_padding(lanes.carried(), stride, n_lanes)
    }

    /// Gives the lanes what others carried; nothing happens where there is not as much of it.
    pub fn set_carried(&mut self, values: &[f64]) {
        let n_lanes = self.n_lanes;
        let lanes = self.block.lanes_mut();
        let stride = lanes.stride();
        if lanes.carried().len() / stride * n_lanes != values.len() {
            return;
        }
        for (row, values) in lanes.carried_mut().chunks_exact_mut(stride).zip(values.chunks_exact(n_lanes)) {
            row[..n_lanes].copy_from_slice(values);
        }
    }

    /// Observed rows at a grid point: `[row][lane]`, without padding.
    pub fn observe(&mut self, point: usize) -> Vec<f64> {
        let time = self.ensemble.experiments[self.experiment].grid.point(point);
        let n_lanes = self.n_lanes;
        let lanes = self.block.lanes_mut();
        let stride = lanes.stride();
        without_padding(lanes.observe(time), stride, n_lanes)
    }

    /// The first lane that broke down, if one did.
    #[must_use]
    pub fn first_failure(&self) -> Option<&LaneFailure> {
        self.block.outcome.failures.first()
    }

    /// Which lanes have not broken down.
    #[must_use]
    pub fn is_alive(&self) -> &[bool] {
        self.block.is_alive()
    }
}

/// The first lanes of rows.
fn without_padding(rows: &[f64], stride: usize, n_lanes: usize) -> Vec<f64> {
    let mut kept = Vec::with_capacity(rows.len() / stride * n_lanes);
    rows.chunks_exact(stride).for_each(|row| kept.extend_from_slice(&row[..n_lanes]));
    kept
}
