//! The same system at many values of its parameters, side by side.
//!
//! Lanes of a block share their steps. So that what one member gives does not depend on its neighbours, a pilot block
//! finds step lengths and sizes of states over time once, with some accuracy to spare; all others keep to its schedule.
//! A member for which that is too coarse is told apart by its own error estimate, and left to the caller.

use daesy_system::Watch;
use rayon::prelude::*;

use super::advance::{Block, Outcome, Schedule};
use super::{
    BLOCK_LANES, CHUNK, Disturbances, Ensemble, EnsembleOptions, EnsemblePoint, EnsembleStart, StartSensitivity,
    Undisturbed, Wanted,
};

/// The pilot's errors are smaller than those asked for by this factor.
const SPARE: f64 = 4.0;

/// One trajectory of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// All parameters.
    pub parameters: Vec<f64>,
    /// A consistent start.
    pub start: StartSensitivity,
}

impl Ensemble<'_> {
    /// Finds step lengths in the first experiment, without disturbances, by members that stand for all others; none
    /// when one of them breaks down, or when their equations jump at different times. Members beyond the lanes of a
    /// block are not looked at.
    #[must_use]
    pub fn pilot(&self, members: &[Member], watch: &Watch) -> Option<Schedule> {
        let members = &members[..members.len().min(BLOCK_LANES)];
        let options =
            EnsembleOptions { rtol: self.options.rtol / SPARE, atol: self.options.atol / SPARE, ..self.options };
        let finer = Ensemble { options, ..*self };
        let point = common_point(members)?;
        let wanted = Wanted::default();
        let switches = self.switches(0, &point.parameters)?;
        if members.iter().any(|member| self.switches(0, &member.parameters).as_ref() != Some(&switches)) {
            return None;
        }
        let block = finer.block(&point, members, &wanted).with_switches(Some(&switches)).with_record();
        let mut schedule = finer.walk(block, watch).finish_schedule()?;
        schedule.switches = switches;
        Some(schedule)
    }

    /// Outputs of members, `[sample * n_observed + output]`; none for those that broke down or need shorter steps, and
    /// for all that were left when the caller asked to stop. What a member gives depends on the schedule and on itself.
    #[must_use]
    pub fn sweep(&self, schedule: &Schedule, members: &[Member], watch: &Watch) -> Vec<Option<Vec<f64>>> {
        let wanted = Wanted { keeps_lanes: true, functionals: &[] };
        let blocks: Vec<Vec<Option<Vec<f64>>>> = members
            .par_chunks(BLOCK_LANES)
            .map(|members| {
                let none = || vec![None; members.len()];
                let Some(point) = common_point(members) else { return none() };
                let block = self
                    .block(&point, members, &wanted)
                    .with_switches(Some(&schedule.switches))
                    .with_schedule(schedule);
                let outcome: Outcome = self.walk(block, watch).finish();
                if watch.is_stopped() {
                    return none();
                }
                watch.advance(members.len() as u64);
                (0..members.len())
                    .map(|lane| {
                        let has_failed = outcome.failures.iter().any(|failure| failure.realization == lane)
                            || self.switches(0, &members[lane].parameters).as_ref() != Some(&schedule.switches);
                        (!has_failed).then(|| outcome.sums.lanes.iter().map(|lanes| lanes[lane]).collect())
                    })
                    .collect()
            })
            .collect();
        blocks.into_iter().flatten().collect()
    }

    fn block<'e>(&'e self, point: &'e EnsemblePoint, members: &'e [Member], wanted: &'e Wanted<'e>) -> Block<'e> {
        let parameters = members.iter().map(|member| member.parameters.as_slice()).collect();
        Block::new(self, 0, 0, members.len(), point, &[], wanted).with_lane_parameters(parameters)
    }

    fn walk<'e>(&self, mut block: Block<'e>, watch: &Watch) -> Block<'e> {
        let n_intervals = self.experiments[0].grid.n_intervals();
        for still in &mut Undisturbed.block(0, 0, 0, 0..1) {
            block.begin(still.as_mut());
            for chunk in (0..n_intervals).step_by(CHUNK) {
                if watch.is_stopped() {
                    break;
                }
                block.advance(chunk..(chunk + CHUNK).min(n_intervals), still.as_mut());
            }
        }
        block
    }
}

/// The starts of members; their parameters are set lane by lane.
fn common_point(members: &[Member]) -> Option<EnsemblePoint> {
    Some(EnsemblePoint {
        parameters: members.first()?.parameters.clone(),
        tangents: Vec::new(),
        starts: vec![EnsembleStart { lanes: members.iter().map(|member| member.start.clone()).collect() }],
    })
}
