//! A particle filter: many realizations, weighted by how well they explain the measurements [@gordon1993].
//!
//! Particles follow the model with noise of their own; where weights degenerate, particles are drawn again in
//! proportion to them, by systematic sampling. What is smoothed are the paths that survive to the end.

use daesy_integrate::ensemble::{EnsembleError, Walk, Wanted};
use daesy_system::Watch;

use super::given::GivenNoise;
use super::{Approximation, FilterProblem, StateEstimates};
use crate::noise::DiscreteProcess;
use crate::noise::normal::{Draw, fill};
use crate::noise::philox::{Purpose, experiment_and_pair, key, philox};

/// How to filter.
#[derive(Clone, Debug)]
pub struct ParticleOptions {
    /// Number of particles.
    pub n_particles: usize,
    /// Seed of their noise.
    pub seed: u64,
    /// Stops the filter.
    pub watch: Watch,
}

/// Standard normal numbers for all components: `[component * n_lanes + lane]`.
fn numbers(seed: u64, step: u32, purpose: Purpose, n_components: usize, n_lanes: usize) -> Vec<f64> {
    let lanes: Vec<u32> = (0..n_lanes as u32).collect();
    let mut values = vec![0.0; n_components.next_multiple_of(2) * n_lanes];
    let draw =
        |pair: usize| Draw { key: key(seed), step, pair: experiment_and_pair(0, pair as u32), purpose: purpose.word() };
    fill(draw, &lanes, &mut values);
    values
}

/// Components of the disturbances at the start of each particle.
#[must_use]
pub fn drawn_starts(process: &DiscreteProcess, seed: u64, n_particles: usize) -> Vec<Vec<f64>> {
    let start = numbers(seed, 0, Purpose::Start, process.n_components(), n_particles);
    (0..n_particles).map(|lane| process.drawn_start(&|component| start[component * n_particles + lane])).collect()
}

/// Which particles go on: systematic sampling with one uniform number.
fn systematic(weights: &[f64], uniform: f64) -> Vec<usize> {
    let n = weights.len();
    let mut chosen = Vec::with_capacity(n);
    let (mut sum, mut at) = (weights[0], 0);
    for i in 0..n {
        let target = (i as f64 + uniform) / n as f64;
        while sum <= target && at + 1 < n {
            at += 1;
            sum += weights[at];
        }
        chosen.push(at);
    }
    chosen
}

/// Filters an experiment.
///
/// # Errors
/// When no particle is left that could be followed.
pub fn filter_by_particles(
    problem: &FilterProblem<'_>,
    options: &ParticleOptions,
) -> Result<StateEstimates, EnsembleError> {
    let n_lanes = options.n_particles;
    problem.with_walk(n_lanes, |ensemble| {
        let wanted = Wanted::default();
        let mut noise = GivenNoise::new(problem.process, n_lanes, 0);
        for (lane, drawn) in drawn_starts(problem.process, options.seed, n_lanes).into_iter().enumerate() {
            for (component, value) in drawn.into_iter().enumerate() {
                noise.begin[component * n_lanes + lane] = value;
            }
        }
        let mut walk = Walk::new(ensemble, 0, problem.point, problem.slots, &wanted, &mut noise);
        run(problem, options, &mut walk, &mut noise)
    })
}

fn run(
    problem: &FilterProblem<'_>,
    options: &ParticleOptions,
    walk: &mut Walk<'_>,
    noise: &mut GivenNoise<'_>,
) -> Result<StateEstimates, EnsembleError> {
    let n_lanes = options.n_particles;
    let n_components = problem.process.n_components();
    let (n_measured, n_observed) = (problem.n_measured(), problem.n_observed());
    let n_samples = problem.grid.samples.len();
    let nothing = || vec![f64::NAN; n_samples * n_observed];
    let mut estimates = StateEstimates {
        log_likelihood: 0.0,
        filtered: nothing(),
        filtered_std: nothing(),
        smoothed: nothing(),
        smoothed_std: nothing(),
        innovations: vec![f64::NAN; n_samples * n_measured],
        innovation_std: vec![f64::NAN; n_samples * n_measured],
        innovation_covariances: Vec::new(),
        approximation: Approximation::Particles,
        mixture: None,
    };
    let mut weights = vec![1.0 / n_lanes as f64; n_lanes];
    // Observed values of all samples along the path of each particle.
    let mut history: Vec<Vec<f64>> = vec![Vec::new(); n_lanes];
    for (point, sample) in problem.sample_at().into_iter().enumerate() {
        if options.watch.is_stopped() {
            return Err(EnsembleError::Stopped);
        }
        if point > 0 {
            let drawn = numbers(options.seed, point as u32 - 1, Purpose::Innovation, n_components, n_lanes);
            noise.expect();
            for lane in 0..n_lanes {
                let step = problem.process.drawn_step(&|component| drawn[component * n_lanes + lane]);
                for (component, value) in step.into_iter().enumerate() {
                    noise.end[component * n_lanes + lane] += value;
                }
            }
            walk.cross(point - 1, noise);
            noise.begin.clone_from(&noise.end);
            // A particle that could not be followed stands for nothing.
            for (weight, _) in weights.iter_mut().zip(walk.is_alive()).filter(|(_, is_alive)| !**is_alive) {
                *weight = 0.0;
            }
            if let Some(failure) = walk.first_failure().filter(|_| !walk.is_alive().contains(&true)) {
                return Err(EnsembleError::of_filter(failure));
            }
        }
        let Some(sample) = sample else { continue };
        let rows = walk.observe(point);
        let measured = &problem.measured[sample * n_measured..(sample + 1) * n_measured];
        for output in (0..n_measured).filter(|&output| measured[output].is_finite()) {
            let values = &rows[output * n_lanes..(output + 1) * n_lanes];
            let (mean, std) = moments(values, &weights);
            estimates.innovations[sample * n_measured + output] = measured[output] - mean;
            estimates.innovation_std[sample * n_measured + output] = (std * std + problem.variances[output]).sqrt();
        }
        let logs = log_densities(problem, measured, &rows, walk.is_alive());
        let largest = logs.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        if largest.is_finite() {
            for (weight, log) in weights.iter_mut().zip(&logs) {
                *weight *= (log - largest).exp();
            }
            let sum: f64 = weights.iter().sum();
            estimates.log_likelihood += largest + sum.ln();
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        for signal in 0..n_observed {
            let (mean, std) = moments(&rows[signal * n_lanes..(signal + 1) * n_lanes], &weights);
            estimates.filtered[sample * n_observed + signal] = mean;
            estimates.filtered_std[sample * n_observed + signal] = std;
        }
        for (lane, history) in history.iter_mut().enumerate() {
            history.extend((0..n_observed).map(|signal| rows[signal * n_lanes + lane]));
        }
        let effective = 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>();
        if effective < 0.5 * n_lanes as f64 {
            let words = philox([point as u32, 0, 0, Purpose::Measurement.word() - 1], key(options.seed));
            let uniform = f64::from(words[0]) / 4_294_967_296.0;
            let chosen = systematic(&weights, uniform);
            redraw(walk, noise, &chosen, n_components);
            history = chosen.iter().map(|&from| history[from].clone()).collect();
            weights.fill(1.0 / n_lanes as f64);
            walk.restart(point, 0.0, noise);
        }
    }
    let samples: Vec<usize> = (0..n_samples).filter(|&s| estimates.filtered[s * n_observed].is_finite()).collect();
    for (at, &sample) in samples.iter().enumerate() {
        for signal in 0..n_observed {
            let values: Vec<f64> = history.iter().map(|path| path[at * n_observed + signal]).collect();
            let (mean, std) = moments(&values, &weights);
            estimates.smoothed[sample * n_observed + signal] = mean;
            estimates.smoothed_std[sample * n_observed + signal] = std;
        }
    }
    Ok(estimates)
}

/// By particle, the log-density of what was measured, sum over outputs of -(e^2 / R + log(2 pi R)) / 2 with e the
/// distance of what the particle observes, and R the variance of the error; minus infinity where it is not alive.
fn log_densities(problem: &FilterProblem<'_>, measured: &[f64], rows: &[f64], is_alive: &[bool]) -> Vec<f64> {
    let n_lanes = is_alive.len();
    (0..n_lanes)
        .map(|lane| {
            if !is_alive[lane] {
                return f64::NEG_INFINITY;
            }
            let mut log = 0.0;
            for output in (0..measured.len()).filter(|&output| measured[output].is_finite()) {
                let variance = problem.variances[output].max(f64::MIN_POSITIVE);
                let error = measured[output] - rows[output * n_lanes + lane];
                log -= 0.5 * (error * error / variance + (2.0 * std::f64::consts::PI * variance).ln());
            }
            if log.is_nan() { f64::NEG_INFINITY } else { log }
        })
        .collect()
}

/// Puts chosen particles in the place of all.
fn redraw(walk: &mut Walk<'_>, noise: &mut GivenNoise<'_>, chosen: &[usize], n_components: usize) {
    let n_lanes = chosen.len();
    let n_states = walk.n_states();
    for state in 0..n_states {
        let old: Vec<f64> = (0..n_lanes).map(|lane| walk.state(lane, state, 0)).collect();
        for (lane, &from) in chosen.iter().enumerate() {
            walk.set_state(lane, state, 0, old[from]);
        }
    }
    for component in 0..n_components {
        let row = component * n_lanes..(component + 1) * n_lanes;
        let old = noise.begin[row.clone()].to_vec();
        for (target, &from) in noise.begin[row].iter_mut().zip(chosen) {
            *target = old[from];
        }
    }
}

/// Weighted mean and standard deviation; values that are not numbers are left out.
fn moments(values: &[f64], weights: &[f64]) -> (f64, f64) {
    let pairs = || values.iter().zip(weights).filter(|(value, _)| value.is_finite());
    let sum: f64 = pairs().map(|(_, weight)| weight).sum();
    let mean = pairs().map(|(value, weight)| value * weight).sum::<f64>() / sum;
    let variance = pairs().map(|(value, weight)| weight * (value - mean).powi(2)).sum::<f64>() / sum;
    (mean, variance.max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systematic_sampling_keeps_what_is_heavy() {
        let chosen = systematic(&[0.1, 0.0, 0.65, 0.25], 0.5);
        assert_eq!(chosen, [2, 2, 2, 3]);
        assert_eq!(systematic(&[0.25; 4], 0.0), [0, 1, 2, 3]);
    }
}
