//! State estimation for models with events under disturbances: a mixture of normal distributions, one for each discrete
//! state.
//!
//! What is uncertain are the discrete state q of a model (its discrete variables and clocks), and, beside it,
//! z = (states, discrete variables that are real numbers, components of the disturbances). Given the measurements so
//! far, p(q, z) is taken to be
//!
//! ```text
//! p(q, z) = sum over hypotheses h of  w_h  [q = q_h]  N(z; m_h, P_h)
//! ```
//!
//! From one sample to the next M points stand for every hypothesis, z_i = m_h + P_h^1/2 x_i, each with noise of its own
//! for the disturbances on the way. Points x and noise are standard normal with the exact mean 0 and covariance I
//! ([`points`]), so that what is linear has exact moments. Every point follows the model from event to event with the
//! discrete state that it has. At the sample points with the same discrete state make a hypothesis, with moments and
//! weight of its own ([`cloud`]), which the measurements y, with errors of covariance R, correct:
//!
//! ```text
//! S_h = cov y + R,   K = cov(z, y) S_h^-1,   m_h += K (y - E y),   P_h -= K S_h K'
//! w_h := w_h N(y; E y, S_h) / p(y),   p(y) = sum over h of w_h N(y; E y, S_h)
//! ```
//!
//! p(y) is what the sample adds to the likelihood. These are the pruned and merged Gaussian sums of
//! [@alspach1972; @blom1988], where the transition of modes is not a Markov chain but what the events of the model do to
//! the points. All parameters see the same points, so that the likelihood follows them smoothly but for steps of the
//! size 1/M where a point changes its discrete state.
//!
//! A point that is drawn beyond the border of a relation that all points of its hypothesis were on one side of has its
//! event at once. A condition or relation that some points of a hypothesis had and others had not is for every point
//! drawn what its own states say. Conditions and relations therefore make no hypotheses of their own.

pub mod cloud;
pub mod points;
mod run;
mod smooth;

use std::borrow::Cow;

use daesy_integrate::ensemble::{EnsembleError, Grid};
use daesy_integrate::{Inputs, IntegrateError, SimulateOptions};
use daesy_system::{DaeSystem, Watch};
use thiserror::Error;

use crate::noise::DiscreteProcess;

pub use run::filter_by_hypotheses;

/// One experiment, ready to be filtered.
pub struct HybridProblem<'a> {
    /// The model, its relations held between events.
    pub system: &'a dyn DaeSystem,
    /// Its parameters.
    pub parameters: &'a [f64],
    /// The number of the experiment, for what is random.
    pub experiment: usize,
    /// Time axis; samples lie on grid points.
    pub grid: &'a Grid,
    /// Known inputs.
    pub inputs: &'a (dyn Inputs + Sync),
    /// Which of the model's observed quantities are wanted; measurements come first.
    pub observed: &'a [u32],
    /// Disturbances.
    pub process: &'a DiscreteProcess,
    /// The model's inputs that they drive.
    pub slots: &'a [usize],
    /// `[sample * n_measured + output]`; NaN where missing.
    pub measured: &'a [f64],
    /// Variances of their errors.
    pub variances: &'a [f64],
    /// Tolerances of trajectories.
    pub integration: SimulateOptions,
}

/// How to filter.
#[derive(Clone, Debug)]
pub struct HybridOptions {
    /// Points for each hypothesis; more where the state is large. What fewer than one of them stands for is not seen.
    pub n_points: usize,
    /// Seed of the points.
    pub seed: u64,
    /// Whether signals are wanted beside the innovations.
    pub has_signals: bool,
    /// Stops the filter.
    pub watch: Watch,
}

/// Why an experiment cannot be filtered.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum HybridError {
    /// A point has no start, or cannot be followed.
    #[error(transparent)]
    Trajectory(#[from] IntegrateError),
    /// A trajectory ends before the last sample.
    #[error("the model ends the simulation at t = {time}, before the last sample")]
    Ended {
        /// When.
        time: f64,
    },
    /// A parameter that the start determines depends on the disturbances.
    #[error("the parameter `{name}` is determined at the start, and differs between points: {one} and {other}")]
    ParameterOfStart {
        /// Which.
        name: String,
        /// At one point.
        one: f64,
        /// At another.
        other: f64,
    },
    /// As for other filters.
    #[error(transparent)]
    Filter(#[from] EnsembleError),
}

/// Known inputs, and in the places of disturbances straight lines between the values at grid points.
pub(crate) struct DisturbedInputs<'a> {
    pub(crate) known: &'a (dyn Inputs + Sync),
    pub(crate) slots: &'a [usize],
    /// Time of the first grid point, and the distance of two.
    pub(crate) start: f64,
    pub(crate) step: f64,
    /// `[point * n_slots + slot]`
    pub(crate) values: Vec<f64>,
    /// Where steps have to end.
    pub(crate) breaks: Cow<'a, [f64]>,
}

impl DisturbedInputs<'_> {
    /// Adds a grid point with the components of the disturbances there.
    pub(crate) fn push(&mut self, weights: &[Vec<f64>], components: &[f64]) {
        let value = |weights: &Vec<f64>| weights.iter().zip(components).map(|(weight, x)| weight * x).sum::<f64>();
        self.values.extend(weights.iter().map(value));
    }
}

impl Inputs for DisturbedInputs<'_> {
    fn fill(&self, time: f64, is_after: bool, values: &mut [f64]) {
        self.known.fill(time, is_after, values);
        let n = self.slots.len();
        let last = (self.values.len() / n.max(1)).saturating_sub(1);
        let place = ((time - self.start) / self.step).clamp(0.0, last as f64);
        let before = (place.floor() as usize).min(last.saturating_sub(1));
        let after = (before + 1).min(last);
        let fraction = place - before as f64;
        for (at, &slot) in self.slots.iter().enumerate() {
            let (from, to) = (self.values[before * n + at], self.values[after * n + at]);
            values[slot] = if last == 0 { from } else { from + fraction * (to - from) };
        }
    }

    fn breaks(&self) -> &[f64] {
        &self.breaks
    }
}
