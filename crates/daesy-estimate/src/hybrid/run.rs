//! The filter of one experiment, from sample to sample, and the way back.

use std::borrow::Cow;

use daesy_integrate::ensemble::EnsembleError;
use daesy_integrate::{SimulateOptions, Waypoint};
use rayon::prelude::*;

use super::cloud::{Believed, Evidence, Hypothesis, LEAST_WEIGHT, Layout, Particle, Sample, believe};
use super::points::{PointKey, standard_points};
use super::smooth::{Passage, smoothed};
use super::{DisturbedInputs, HybridError, HybridOptions, HybridProblem};
use crate::nonlinear::{Approximation, Mixture, StateEstimates};

/// Points for each number of a state and of the noise of one grid interval at least.
const POINTS_EACH: usize = 4;

/// The share of the pairs of points that there are dimensions at most: with fewer pairs than dimensions no points have
/// exact moments.
const DIMENSIONS: f64 = 0.75;

/// Parameters that the start determines are the same if they differ by no more than this, relative to their size.
const SAME_PARAMETER: f64 = 1e-9;

/// The grid point that start values are drawn for.
const START: usize = u32::MAX as usize;

/// An experiment on its way.
struct Walk<'f> {
    problem: &'f HybridProblem<'f>,
    options: &'f HybridOptions,
    layout: Layout,
    /// Of the components of the disturbances in each of their signals.
    weights: Vec<Vec<f64>>,
    n_pairs: usize,
}

/// A grid point at which points make hypotheses.
#[derive(Clone, Copy)]
struct Stop {
    point: usize,
    time: f64,
    sample: Option<usize>,
}

/// A point with where it comes from.
struct Followed {
    particle: Particle,
    /// Its hypothesis and state before.
    parent: usize,
    state: Vec<f64>,
    /// Observed quantities before.
    observed: Vec<f64>,
}

/// Filters an experiment, and smooths it where signals are wanted.
///
/// # Errors
/// When a point cannot be followed, or a measurement would be known better than exactly.
pub fn filter_by_hypotheses(
    problem: &HybridProblem<'_>,
    options: &HybridOptions,
) -> Result<StateEstimates, HybridError> {
    let walk = Walk::new(problem, options);
    let mut estimates = walk.nothing();
    let stops = walk.stops();
    let mut particles = walk.start()?;
    let mut passages: Vec<Passage> = Vec::new();
    for (at, &stop) in stops.iter().enumerate() {
        if options.watch.is_stopped() {
            return Err(EnsembleError::Stopped.into());
        }
        let sample = stop.sample.map(|sample| walk.sample(sample));
        let Believed { hypotheses, members, evidence, given_up } = believe(&walk.layout, &particles, sample.as_ref())?;
        if let Some(passage) = passages.last_mut() {
            passage.arrive(&walk.layout, &particles, &members);
        }
        estimates.mixture.iter_mut().for_each(|mixture| mixture.note(hypotheses.len(), given_up));
        if let (Some(sample), Some(evidence)) = (stop.sample, &evidence) {
            walk.note(&mut estimates, sample, evidence);
        }
        let next = stops.get(at + 1).copied();
        if next.is_none() && !options.has_signals {
            break;
        }
        let followed = walk.cross(&hypotheses, stop, next.unwrap_or(stop))?;
        if options.has_signals {
            if let Some(sample) = stop.sample {
                let found = signals(&followed);
                estimates.filtered[sample * found.means.len()..][..found.means.len()].copy_from_slice(&found.means);
                estimates.filtered_std[sample * found.means.len()..][..found.means.len()].copy_from_slice(&found.stds);
            }
            let parents = followed.iter().map(|followed| (followed.parent, followed.state.clone())).collect();
            passages.push(Passage::new(hypotheses, parents));
        }
        particles = followed.into_iter().map(|followed| followed.particle).collect();
    }
    if options.has_signals {
        for (&stop, hypotheses) in stops.iter().zip(smoothed(passages)) {
            let Some(sample) = stop.sample else { continue };
            let possible: Vec<Hypothesis> =
                hypotheses.into_iter().filter(|hypothesis| hypothesis.weight >= LEAST_WEIGHT).collect();
            let found = signals(&walk.cross(&possible, stop, stop)?);
            estimates.smoothed[sample * found.means.len()..][..found.means.len()].copy_from_slice(&found.means);
            estimates.smoothed_std[sample * found.means.len()..][..found.means.len()].copy_from_slice(&found.stds);
        }
    }
    Ok(estimates)
}

/// Moments of observed quantities.
struct Signals {
    means: Vec<f64>,
    stds: Vec<f64>,
}

/// Moments of what is observed at the beginning of legs.
fn signals(followed: &[Followed]) -> Signals {
    let n = followed.first().map_or(0, |first| first.observed.len());
    let sum: f64 = followed.iter().map(|followed| followed.particle.weight).sum();
    let mut means = vec![0.0; n];
    for Followed { particle, observed, .. } in followed {
        means.iter_mut().zip(observed).for_each(|(mean, value)| *mean += particle.weight / sum * value);
    }
    let mut squares = vec![0.0; n];
    for Followed { particle, observed, .. } in followed {
        for ((square, value), mean) in squares.iter_mut().zip(observed).zip(&means) {
            *square += particle.weight / sum * (value - mean).powi(2);
        }
    }
    Signals { means, stds: squares.into_iter().map(f64::sqrt).collect() }
}

impl<'f> Walk<'f> {
    fn new(problem: &'f HybridProblem<'f>, options: &'f HybridOptions) -> Self {
        let description = problem.system.description();
        let n_components = problem.process.n_components();
        let layout = Layout::new(&description.events, description.states.len(), n_components);
        let n_points = options.n_points.max(POINTS_EACH * (layout.n() + n_components));
        let weights = (0..problem.slots.len()).map(|signal| problem.process.weights(signal)).collect();
        Self { problem, options, layout, weights, n_pairs: n_points.div_ceil(2) }
    }

    fn n_points(&self) -> usize {
        2 * self.n_pairs
    }

    fn nothing(&self) -> StateEstimates {
        let n_samples = self.problem.grid.samples.len();
        let (n_measured, n_observed) = (self.problem.variances.len(), self.problem.observed.len());
        let signals = || vec![f64::NAN; n_samples * n_observed];
        StateEstimates {
            log_likelihood: 0.0,
            filtered: signals(),
            filtered_std: signals(),
            smoothed: signals(),
            smoothed_std: signals(),
            innovations: vec![f64::NAN; n_samples * n_measured],
            innovation_std: vec![f64::NAN; n_samples * n_measured],
            innovation_covariances: vec![f64::NAN; n_samples * n_measured * n_measured],
            approximation: Approximation::Mixture,
            mixture: Some(Mixture::new(n_samples)),
        }
    }

    /// The start, all samples, and grid points on the way to far ones: points of exact moments have fewer dimensions
    /// than there are pairs of them.
    fn stops(&self) -> Vec<Stop> {
        let grid = self.problem.grid;
        let n_components = self.problem.process.n_components().max(1);
        let room = (DIMENSIONS * self.n_pairs as f64) as usize;
        let longest = (room.saturating_sub(self.layout.n()) / n_components).max(1);
        let mut stops = vec![Stop { point: 0, time: grid.start, sample: None }];
        let mut last = 0;
        for (sample, &time) in grid.samples.iter().enumerate() {
            let point = ((time - grid.start) / grid.step).round() as usize;
            while point > last + longest {
                last += longest;
                stops.push(Stop { point: last, time: grid.start + last as f64 * grid.step, sample: None });
            }
            match stops.last_mut() {
                Some(stop) if stop.point == point => stop.sample = Some(sample),
                _ => stops.push(Stop { point, time, sample: Some(sample) }),
            }
            last = point;
        }
        stops
    }

    fn sample(&self, sample: usize) -> Sample<'f> {
        let n = self.problem.variances.len();
        let measured = &self.problem.measured[sample * n..(sample + 1) * n];
        Sample { time: self.problem.grid.samples[sample], measured, variances: self.problem.variances }
    }

    fn note(&self, estimates: &mut StateEstimates, sample: usize, evidence: &Evidence) {
        let n = self.problem.variances.len();
        let measured = self.sample(sample).measured;
        let present: Vec<usize> = (0..n).filter(|&output| measured[output].is_finite()).collect();
        for (i, &output) in present.iter().enumerate() {
            estimates.innovations[sample * n + output] = evidence.errors[(i, 0)];
            estimates.innovation_std[sample * n + output] = evidence.covariance[(i, i)].max(0.0).sqrt();
            for (j, &other) in present.iter().enumerate() {
                estimates.innovation_covariances[(sample * n + output) * n + other] = evidence.covariance[(i, j)];
            }
        }
        estimates.log_likelihood += evidence.log_density;
        if let Some(mixture) = &mut estimates.mixture {
            mixture.log_densities[sample] = evidence.log_density;
            mixture.is_normal[sample] = evidence.is_normal;
        }
    }

    fn observed_of(&self, row: &[f64]) -> Vec<f64> {
        self.problem.observed.iter().map(|&at| row[at as usize]).collect()
    }

    fn points(&self, grid_point: usize, n_dimensions: usize) -> faer::Mat<f64> {
        let of = PointKey { seed: self.options.seed, experiment: self.problem.experiment, grid_point };
        standard_points(of, n_dimensions, self.n_pairs)
    }

    fn inputs(&self, start: f64, values: Vec<f64>) -> DisturbedInputs<'f> {
        let &HybridProblem { inputs, slots, grid, .. } = self.problem;
        let breaks = Cow::Borrowed(inputs.breaks());
        DisturbedInputs { known: inputs, slots, start, step: grid.step, values, breaks }
    }

    /// Points at the start: the model starts in each under the disturbances that it draws.
    fn start(&self) -> Result<Vec<Particle>, HybridError> {
        let HybridProblem { system, parameters, grid, process, .. } = *self.problem;
        let standard = self.points(START, process.n_components());
        let options = SimulateOptions { start: grid.start, stop: grid.start, ..self.problem.integration.clone() };
        let start = |point: usize| {
            let components = process.drawn_start(&|component| standard[(component, point)]);
            let mut inputs = self.inputs(grid.start, Vec::new());
            inputs.push(&self.weights, &components);
            let leg = Waypoint::start(system, parameters, &inputs, &options)?;
            if leg.is_ended {
                return Err(HybridError::Ended { time: grid.start });
            }
            let weight = 1.0 / self.n_points() as f64;
            // A sample at the start is of what is there before anything happens.
            Ok(Particle { weight, at: leg.end, components, observed: self.observed_of(&leg.observed_before) })
        };
        let particles: Vec<Particle> =
            (0..self.n_points()).into_par_iter().map(start).collect::<Result<_, HybridError>>()?;
        let description = system.description();
        for &parameter in &description.free_parameters {
            let value = |particle: &Particle| particle.at.parameters[parameter as usize];
            let one = particles.first().map_or(0.0, value);
            let differs = |other: &f64| (one - other).abs() > SAME_PARAMETER * one.abs().max(other.abs());
            if let Some(other) = particles.iter().map(value).find(differs) {
                let name = description.parameters[parameter as usize].clone();
                return Err(HybridError::ParameterOfStart { name, one, other });
            }
        }
        Ok(particles)
    }

    /// Draws points of hypotheses and follows them to another stop.
    fn cross(&self, hypotheses: &[Hypothesis], from: Stop, to: Stop) -> Result<Vec<Followed>, HybridError> {
        let HybridProblem { system, grid, process, .. } = *self.problem;
        let (n, n_components) = (self.layout.n(), process.n_components());
        let n_intervals = to.point - from.point;
        let standard = self.points(from.point, n + n_intervals * n_components);
        let states: Vec<faer::Mat<f64>> = hypotheses.iter().map(|hypothesis| hypothesis.states(&standard)).collect();
        // Events are looked for as closely as in a simulation of the experiment.
        let span = grid.samples.last().map(|last| last - grid.start);
        let options = SimulateOptions { start: from.time, stop: to.time, span, ..self.problem.integration.clone() };
        let kinks: Vec<f64> = (1..n_intervals).map(|interval| from.time + interval as f64 * grid.step).collect();
        let follow = |task: usize| {
            let (parent, point) = (task / self.n_points(), task % self.n_points());
            let hypothesis = &hypotheses[parent];
            let state: Vec<f64> = (0..n).map(|i| states[parent][(i, point)]).collect();
            let mut components = self.layout.components(&state).to_vec();
            let mut inputs = self.inputs(from.time, Vec::new());
            inputs.push(&self.weights, &components);
            for interval in 0..n_intervals {
                let first = n + interval * n_components;
                let drawn = process.drawn_step(&|component| standard[(first + component, point)]);
                components = process.expected(&|component| components[component]);
                components.iter_mut().zip(drawn).for_each(|(component, drawn)| *component += drawn);
                inputs.push(&self.weights, &components);
            }
            let at = hypothesis.point(&self.layout, &state);
            let leg = at.follow(system, &inputs, &kinks, &hypothesis.follows, &options)?;
            if leg.is_ended {
                return Err(HybridError::Ended { time: leg.end.time });
            }
            let weight = hypothesis.weight / self.n_points() as f64;
            let observed = self.observed_of(&leg.observed);
            let particle = Particle { weight, at: leg.end, components, observed };
            Ok(Followed { particle, parent, state, observed: self.observed_of(&leg.observed_before) })
        };
        (0..hypotheses.len() * self.n_points()).into_par_iter().map(follow).collect()
    }
}
