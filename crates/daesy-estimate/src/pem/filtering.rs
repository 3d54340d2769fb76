//! Filters of a prediction problem: its experiments one by one, at a point of unknowns.

use daesy_integrate::ensemble::Grid;
use daesy_system::Watch;

use super::problem::{Machine, PointRefusal, PredictionProblem, Prepared, StartPlace};
use crate::horizon::{Ahead, Horizon};
use crate::noise::DiscreteProcess;
use crate::nonlinear::{
    Approximation, FilterProblem, MomentOptions, ParticleOptions, Spread, StateEstimates, ahead_by_moments,
    drawn_starts, filter_by_moments, filter_by_particles, start_points, state_directions,
};

/// A filter for nonlinear models.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterKind {
    /// By derivatives at the mean.
    Extended,
    /// By points around the mean.
    Unscented,
    /// By weighted realizations.
    Particles {
        /// How many.
        n_particles: usize,
    },
}

/// What is measured in an experiment, and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct FilterRequest<'a> {
    /// Which experiment.
    pub experiment: usize,
    /// `[sample * n_measured + output]`; NaN where missing. Measurements come first among the observed.
    pub measured: &'a [f64],
    /// Variances of their errors.
    pub variances: &'a [f64],
    /// Whether signals are wanted beside the innovations.
    pub smooths: bool,
}

impl PredictionProblem<'_> {
    /// Filters one experiment, and estimates all observed quantities in it if they are wanted.
    ///
    /// # Errors
    /// When the point means nothing, or samples are not on grid points.
    pub fn filter(
        &self,
        theta: &[f64],
        request: &FilterRequest<'_>,
        kind: &FilterKind,
        watch: &Watch,
    ) -> Result<StateEstimates, PointRefusal> {
        if self.is_mixture() {
            return self.filter_with_events(theta, request, watch);
        }
        if self.by_events || self.slots.is_empty() {
            return self.undisturbed(theta, request, kind, watch);
        }
        let points = |process: &DiscreteProcess| match kind {
            FilterKind::Particles { n_particles } => drawn_starts(process, self.settings.seed, *n_particles),
            FilterKind::Extended | FilterKind::Unscented => start_points(process),
        };
        self.with_filter(theta, request, kind, &points, |problem| match kind {
            FilterKind::Extended | FilterKind::Unscented => {
                filter_by_moments(problem, &moment_options(kind, request.smooths, watch))
            }
            FilterKind::Particles { n_particles } => {
                let options =
                    ParticleOptions { n_particles: *n_particles, seed: self.settings.seed, watch: watch.clone() };
                filter_by_particles(problem, &options)
            }
        })?
        .map_err(PointRefusal::from)
    }

    /// What a filter makes of a model without disturbances, whose start is known: nothing is uncertain but the
    /// measurements.
    fn undisturbed(
        &self,
        theta: &[f64],
        request: &FilterRequest<'_>,
        kind: &FilterKind,
        watch: &Watch,
    ) -> Result<StateEstimates, PointRefusal> {
        let means = self.predict(&[theta.to_vec()], 1, watch)?.swap_remove(0).means.swap_remove(request.experiment);
        let (n_observed, n_measured) = (self.n_outputs(), request.variances.len());
        let zero = vec![0.0; means.len()];
        let mut estimates = StateEstimates {
            log_likelihood: 0.0,
            filtered: means.clone(),
            filtered_std: zero.clone(),
            smoothed: means.clone(),
            smoothed_std: zero,
            innovations: Vec::with_capacity(request.measured.len()),
            innovation_std: Vec::with_capacity(request.measured.len()),
            innovation_covariances: vec![f64::NAN; request.measured.len() * n_measured],
            approximation: match kind {
                FilterKind::Extended => Approximation::Extended,
                _ => Approximation::Unscented,
            },
            mixture: None,
        };
        for (at, &measured) in request.measured.iter().enumerate() {
            let (sample, output) = (at / n_measured, at % n_measured);
            let (error, variance) = (measured - means[sample * n_observed + output], request.variances[output]);
            let is_present = measured.is_finite();
            estimates.innovations.push(error);
            estimates.innovation_std.push(if is_present { variance.sqrt() } else { f64::NAN });
            if is_present {
                for other in (0..n_measured).filter(|&other| request.measured[sample * n_measured + other].is_finite())
                {
                    let covariance = if other == output { variance } else { 0.0 };
                    estimates.innovation_covariances[at * n_measured + other] = covariance;
                }
                let density = error * error / variance + (2.0 * std::f64::consts::PI * variance).ln();
                estimates.log_likelihood -= 0.5 * density;
            }
        }
        Ok(estimates)
    }

    /// Predictions of the measurements of one experiment with each horizon. In the place of particles, which have no
    /// cheap way to look ahead, points around the mean are taken.
    ///
    /// # Errors
    /// As [`Self::filter`].
    pub fn ahead(
        &self,
        theta: &[f64],
        request: &FilterRequest<'_>,
        kind: &FilterKind,
        horizons: &[Horizon],
        watch: &Watch,
    ) -> Result<Vec<Ahead>, PointRefusal> {
        self.with_filter(theta, request, kind, &start_points, |problem| {
            ahead_by_moments(problem, &moment_options(kind, false, watch), horizons)
        })?
        .map_err(PointRefusal::from)
    }

    /// Sets up the filter of one experiment.
    fn with_filter<R>(
        &self,
        theta: &[f64],
        request: &FilterRequest<'_>,
        kind: &FilterKind,
        points: &dyn Fn(&DiscreteProcess) -> Vec<Vec<f64>>,
        of: impl FnOnce(&FilterProblem<'_>) -> R,
    ) -> Result<R, PointRefusal> {
        let mut prepared = self.prepare(theta, false, 0)?;
        let own = &self.experiments[request.experiment];
        let from = StartPlace { experiment: request.experiment, time: own.grid.start, inputs: own.inputs };
        let start = self.filter_start(&from, &prepared.point.parameters, &prepared.process, points)?;
        prepared.point.starts = vec![start];
        require_on_grid(&own.grid)?;
        let machine = if *kind == FilterKind::Extended { self.extended_machine(&mut prepared)? } else { self.plain()? };
        Ok(of(&FilterProblem {
            program: machine.program.as_ref(),
            grid: &own.grid,
            inputs: own.inputs,
            table: &machine.tables[request.experiment],
            point: &prepared.point,
            process: &prepared.process,
            slots: &self.slots,
            measured: request.measured,
            variances: request.variances,
        }))
    }

    /// The method with derivatives by all states, components of the disturbances and their noise, made when first needed; the point
    /// gets the tangents that go with it.
    pub(super) fn extended_machine(&self, prepared: &mut Prepared) -> Result<&Machine, PointRefusal> {
        let n_states = self.plain()?.program.layout().states.len();
        let n_components = prepared.process.n_components();
        let n = n_states + 2 * n_components;
        prepared.point.tangents = vec![vec![0.0; prepared.point.parameters.len()]; n];
        for start in prepared.point.starts.iter_mut().flat_map(|start| &mut start.lanes) {
            start.state_tangents = vec![vec![0.0; start.states.len()]; n];
        }
        let made = self.extended.get_or_init(|| {
            let description = self.system.description();
            let is_driven = |input: &daesy_system::Input| self.slots.contains(&input.start);
            let inputs: Vec<u32> = (0..description.inputs.len() as u32)
                .filter(|&at| is_driven(&description.inputs[at as usize]))
                .collect();
            self.machine(prepared, &state_directions(n_states, n_components, &inputs))
        });
        made.as_ref().map_err(|error| error.clone().into())
    }
}

/// Refuses samples between grid points.
pub(super) fn require_on_grid(grid: &Grid) -> Result<(), PointRefusal> {
    for &time in &grid.samples {
        let position = (time - grid.start) / grid.step;
        if (position - position.round()).abs() > 1e-6 {
            return Err(PointRefusal::OffGrid { time, step: grid.step });
        }
    }
    Ok(())
}

fn moment_options(kind: &FilterKind, smooths: bool, watch: &Watch) -> MomentOptions {
    let spread = if *kind == FilterKind::Extended { Spread::Derivatives } else { Spread::Points };
    MomentOptions { spread, smooths, watch: watch.clone() }
}
