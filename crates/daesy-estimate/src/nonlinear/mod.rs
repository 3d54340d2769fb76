//! State estimation for nonlinear models under disturbances, on the regularized equations.
//!
//! The state of a filter is that of the model's independent states and of the disturbances' channels together. Between
//! points of the disturbance grid every point that stands for the distribution follows the model itself, constraints
//! included; the channels run straight from grid point to grid point. Algebraic variables are observed like measurements.
//!
//! [`moments`] keeps a mean and a covariance, by points around the mean (unscented, [@julier2004]) or by derivatives
//! (extended), and smooths backwards [@sarkka2013, ch. 9 and 10]; [`particle`] keeps many weighted realizations
//! [@gordon1993].

mod given;
pub mod moments;
pub mod particle;
mod spectrum;

use daesy_integrate::ensemble::{Ensemble, EnsemblePoint, Experiment, Grid, InputTable};
use daesy_system::{Direction, StepProgram};

use crate::noise::DiscreteProcess;

pub use moments::{
    Carried, Crossed, MomentOptions, Moments, Spread, ahead_by_moments, cross_to_sample, filter_by_moments,
    start_points,
};
pub use particle::{ParticleOptions, drawn_starts, filter_by_particles};

/// Which approximation a result rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Approximation {
    /// Derivatives at the mean.
    Extended,
    /// Points around the mean.
    Unscented,
    /// Weighted realizations.
    Particles,
    /// Points around the means of several discrete states.
    Mixture,
}

impl Approximation {
    /// The words for it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Extended => "extended Kalman filter: normal distributions, derivatives at their means",
            Self::Unscented => "unscented Kalman filter: normal distributions, points around their means",
            Self::Particles => "particle filter: weighted realizations",
            Self::Mixture => {
                "mixture filter: normal distributions, one for each discrete state, points followed from event to event"
            }
        }
    }
}

/// One experiment, ready to be filtered.
pub struct FilterProblem<'a> {
    /// The method; its directions are those of [`state_directions`] for the extended filter, none otherwise.
    pub program: &'a dyn StepProgram,
    /// Time axis; samples lie on grid points.
    pub grid: &'a Grid,
    /// Known inputs.
    pub inputs: &'a (dyn daesy_integrate::Inputs + Sync),
    /// Known inputs on the grid.
    pub table: &'a InputTable,
    /// Parameters and start: one for all, or one for each of [`start_points`] or [`drawn_starts`] where disturbances take
    /// part in it.
    pub point: &'a EnsemblePoint,
    /// Disturbances.
    pub process: &'a DiscreteProcess,
    /// The model's inputs that they drive.
    pub slots: &'a [usize],
    /// `[sample * n_measured + output]`; NaN where missing. Measurements come first among the observed.
    pub measured: &'a [f64],
    /// Variances of their errors.
    pub variances: &'a [f64],
}

/// Estimated signals at sample times.
#[derive(Clone, PartialEq, Debug)]
pub struct StateEstimates {
    /// Log-likelihood of the measurements under the approximation, with the constants of 2 pi.
    pub log_likelihood: f64,
    /// `[sample * n_observed + signal]`: mean given the measurements so far.
    pub filtered: Vec<f64>,
    /// Its standard deviation.
    pub filtered_std: Vec<f64>,
    /// Mean given all measurements.
    pub smoothed: Vec<f64>,
    /// Its standard deviation.
    pub smoothed_std: Vec<f64>,
    /// `[sample * n_measured + output]`: measured less predicted; NaN where missing.
    pub innovations: Vec<f64>,
    /// Their standard deviations.
    pub innovation_std: Vec<f64>,
    /// `[(sample * n_measured + row) * n_measured + column]`: their covariances, NaN where missing; empty where a
    /// filter has none.
    pub innovation_covariances: Vec<f64>,
    /// What it rests on.
    pub approximation: Approximation,
    /// What a mixture says beside; `None` for other filters.
    pub mixture: Option<Mixture>,
}

/// What a mixture of normal distributions says of measurements, which are not normal where several discrete states are
/// possible.
#[derive(Clone, PartialEq, Debug)]
pub struct Mixture {
    /// `[sample]`: the logarithm of the density of what was measured; zero where nothing was.
    pub log_densities: Vec<f64>,
    /// `[sample]`: whether that is a normal one.
    pub is_normal: Vec<bool>,
    /// The most discrete states that were possible after a sample.
    pub n_most: usize,
    /// The largest weight of discrete states that were given up at a sample.
    pub given_up: f64,
}

impl Mixture {
    /// Of so many samples.
    #[must_use]
    pub fn new(n_samples: usize) -> Self {
        Self { log_densities: vec![0.0; n_samples], is_normal: vec![true; n_samples], n_most: 0, given_up: 0.0 }
    }

    /// Takes note of what was possible at one of them.
    pub fn note(&mut self, n_hypotheses: usize, given_up: f64) {
        self.n_most = self.n_most.max(n_hypotheses);
        self.given_up = self.given_up.max(given_up);
    }
}

/// The directions of the extended filter: one for each carried state, for each component of the channels and for the
/// noise of each, all inputs of disturbances moving.
#[must_use]
pub fn state_directions(n_states: usize, n_components: usize, inputs: &[u32]) -> Vec<Direction> {
    (0..n_states + 2 * n_components).map(|_| Direction { parameters: Vec::new(), inputs: inputs.to_vec() }).collect()
}

impl FilterProblem<'_> {
    fn n_measured(&self) -> usize {
        self.variances.len()
    }

    fn n_observed(&self) -> usize {
        self.program.layout().n_observed
    }

    /// The sample at each grid point, if there is one.
    fn sample_at(&self) -> Vec<Option<usize>> {
        let n = self.grid.n_intervals();
        let mut at = vec![None; n + 1];
        for (sample, time) in self.grid.samples.iter().enumerate() {
            let point = ((time - self.grid.start) / self.grid.step).round() as usize;
            at[point.min(n)] = Some(sample);
        }
        at
    }

    fn with_walk<R>(&self, n_lanes: usize, of: impl FnOnce(&Ensemble<'_>) -> R) -> R {
        // Samples are taken by the filter; the walk needs none.
        let experiments = [Experiment { grid: self.grid, inputs: self.inputs, table: self.table }];
        let ensemble = Ensemble {
            program: self.program,
            experiments: &experiments,
            n_realizations: n_lanes,
            options: Default::default(),
        };
        of(&ensemble)
    }
}
