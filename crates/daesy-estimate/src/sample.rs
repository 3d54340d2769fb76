//! Artificial data: samples of a model with its disturbances and measurement errors, exact in distribution.

use crate::descriptor::ParametricModel;
use crate::discretize::{ContinuousModel, DiscreteModel, discretize};
use crate::error::EstimateError;
use crate::kernel::semidefinite_factor;
use crate::likelihood::{Derivatives, Likelihood, Scope};
use faer::Mat;

impl<M: ParametricModel> Likelihood<'_, M> {
    /// Draws measurements of all experiments at their times and under their inputs: `[sample][measurement]` each.
    ///
    /// `normal` gives independent standard normal numbers. A start that is not known is taken at its conditions.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn sample(&self, theta: &[f64], normal: &mut dyn FnMut() -> f64) -> Result<Vec<Vec<f64>>, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Whole)?;
        let space = &assembled.jet.value;
        let n = space.dynamics.nrows();
        let m = space.measured.state.nrows();
        let continuous = ContinuousModel {
            dynamics: space.dynamics.clone(),
            input: space.input.clone(),
            intensity: space.intensity.clone(),
        };
        let mut cache: Vec<Option<Step>> = Vec::new();
        let mut all = Vec::new();
        for (at, start) in assembled.starts.iter().enumerate() {
            let data = self.run_data(at, &assembled, start);
            let experiment = data.experiment;
            let width = (experiment.degree + 1) * experiment.n_inputs;
            let mut x = start.value.mean.clone();
            disturb(&mut x, &semidefinite_factor(&start.value.covariance), normal);
            let mut values = vec![f64::NAN; experiment.times.len() * m];
            for (segment, stretch) in experiment.segments.iter().enumerate() {
                let inputs = &data.inputs[segment * width..(segment + 1) * width];
                let first = experiment.segment_of.partition_point(|&of| of < segment);
                if experiment.segment_of.get(first) == Some(&segment) {
                    for row in 0..m {
                        let mut value: f64 = (0..n).map(|j| space.measured.state[(row, j)] * x[j]).sum();
                        for (order, term) in space.measured.inputs.iter().take(experiment.degree + 1).enumerate() {
                            for j in 0..experiment.n_inputs {
                                value += term[(row, j)] * inputs[order * experiment.n_inputs + j];
                            }
                        }
                        let variance = data
                            .variances
                            .map_or(assembled.coefficients.variances[row], |table| table.value[first * m + row]);
                        values[first * m + row] = value + variance.sqrt() * normal();
                    }
                }
                if let Some(step) = data.step_of[segment] {
                    if cache.len() <= step {
                        cache.resize_with(step + 1, || None);
                    }
                    let step = cache[step].get_or_insert_with(|| {
                        let model = discretize(&continuous, stretch.length, experiment.degree);
                        Step { noise: semidefinite_factor(&model.covariance), model }
                    });
                    let mut next = times(&step.model.transition, &x);
                    for (power, g) in step.model.inputs.iter().enumerate() {
                        let u = &inputs[power * experiment.n_inputs..(power + 1) * experiment.n_inputs];
                        next.iter_mut().zip(times(g, u)).for_each(|(a, b)| *a += b);
                    }
                    disturb(&mut next, &step.noise, normal);
                    x = next;
                }
                if !stretch.kick.is_empty() {
                    x.iter_mut().zip(times(&space.input, &stretch.kick)).for_each(|(a, b)| *a += b);
                }
            }
            all.push(values);
        }
        Ok(all)
    }
}

struct Step {
    model: DiscreteModel,
    noise: Vec<f64>,
}

/// Adds `factor` times standard normal numbers.
fn disturb(x: &mut [f64], factor: &[f64], normal: &mut dyn FnMut() -> f64) {
    if x.is_empty() {
        return;
    }
    for column in factor.chunks_exact(x.len()) {
        let size = normal();
        x.iter_mut().zip(column).for_each(|(x, c)| *x += size * c);
    }
}

fn times(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..a.nrows()).map(|i| (0..a.ncols()).map(|j| a[(i, j)] * x[j]).sum()).collect()
}
