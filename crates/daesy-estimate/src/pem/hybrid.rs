//! Models with events under disturbances: filtered as mixtures, and realized.

use std::borrow::Cow;

use daesy_integrate::{SimulateOptions, simulate};
use daesy_system::Watch;
use rayon::prelude::*;

use super::filtering::{FilterRequest, require_on_grid};
use super::problem::{MAX_STEPS, ParameterPoint, PointRefusal, PredictionProblem};
use crate::hybrid::{DisturbedInputs, HybridError, HybridOptions, HybridProblem, filter_by_hypotheses};
use crate::noise::DiscreteProcess;
use crate::noise::normal::{Draw, pair};
use crate::noise::philox::{Purpose, experiment_and_pair, key};
use crate::nonlinear::StateEstimates;

/// Relative tolerance of realizations at most.
const REALIZED: f64 = 1e-8;

impl From<HybridError> for PointRefusal {
    fn from(error: HybridError) -> Self {
        match error {
            HybridError::Trajectory(error) => Self::Trajectory(error),
            HybridError::Ended { time } => Self::Ended { time },
            HybridError::ParameterOfStart { name, one, other } => Self::ParameterOfStart { name, one, other },
            HybridError::Filter(error) => Self::Ensemble(error),
        }
    }
}

impl PredictionProblem<'_> {
    /// Filters one experiment of a model with events.
    pub(super) fn filter_with_events(
        &self,
        theta: &[f64],
        request: &FilterRequest<'_>,
        watch: &Watch,
    ) -> Result<StateEstimates, PointRefusal> {
        let own = &self.experiments[request.experiment];
        require_on_grid(&own.grid)?;
        let ParameterPoint { parameters, filters, .. } = self.parameterization.at(theta, false)?;
        let parameters = self.parameters_in(request.experiment, &parameters);
        let process = DiscreteProcess::new(&filters, own.grid.step, self.settings.interpolation.depth())?;
        let integration = SimulateOptions {
            rtol: self.settings.options.rtol,
            atol: self.settings.options.atol,
            ..SimulateOptions::default()
        };
        let problem = HybridProblem {
            system: self.system,
            parameters: &parameters,
            experiment: request.experiment,
            grid: &own.grid,
            inputs: own.inputs,
            observed: &self.observed,
            process: &process,
            slots: &self.slots,
            measured: request.measured,
            variances: request.variances,
            integration,
        };
        let options = HybridOptions {
            n_points: self.settings.n_points,
            seed: self.settings.seed,
            has_signals: request.smooths,
            watch: watch.clone(),
        };
        Ok(filter_by_hypotheses(&problem, &options)?)
    }

    /// Outputs of single realizations of a model with events: `[realization][experiment][sample * n_outputs + output]`.
    /// Each is a trajectory as `simulate` makes it, under a disturbance of its own.
    pub(super) fn realize_with_events(
        &self,
        theta: &[f64],
        n_realizations: usize,
        watch: &Watch,
    ) -> Result<Vec<Vec<Vec<f64>>>, PointRefusal> {
        let ParameterPoint { parameters, filters, .. } = self.parameterization.at(theta, false)?;
        let realize = |realization: usize| {
            let realized = (0..self.experiments.len())
                .map(|experiment| {
                    let step = self.experiments[experiment].grid.step;
                    let process = DiscreteProcess::new(&filters, step, self.settings.interpolation.depth())?;
                    let parameters = self.parameters_in(experiment, &parameters);
                    self.realization(experiment, &parameters, &process, realization as u32, watch)
                })
                .collect::<Result<Vec<_>, PointRefusal>>()?;
            Ok(realized)
        };
        (0..n_realizations).into_par_iter().map(realize).collect()
    }

    fn realization(
        &self,
        experiment: usize,
        parameters: &[f64],
        process: &DiscreteProcess,
        realization: u32,
        watch: &Watch,
    ) -> Result<Vec<f64>, PointRefusal> {
        let own = &self.experiments[experiment];
        let numbers = |step: usize, purpose: Purpose| -> Vec<f64> {
            let of = |pair_idx: usize| {
                let draw = Draw {
                    key: key(self.settings.seed),
                    step: step as u32,
                    pair: experiment_and_pair(experiment as u32, pair_idx as u32),
                    purpose: purpose.word(),
                };
                pair(draw, realization)
            };
            (0..process.n_components().div_ceil(2)).flat_map(of).collect()
        };
        let weights: Vec<Vec<f64>> = (0..self.slots.len()).map(|signal| process.weights(signal)).collect();
        let n_intervals = own.grid.n_intervals();
        let kinks = (1..n_intervals).map(|point| own.grid.start + point as f64 * own.grid.step);
        let mut breaks: Vec<f64> = own.inputs.breaks().iter().copied().chain(kinks).collect();
        breaks.sort_by(f64::total_cmp);
        let mut inputs = DisturbedInputs {
            known: own.inputs,
            slots: &self.slots,
            start: own.grid.start,
            step: own.grid.step,
            values: Vec::new(),
            breaks: Cow::Owned(breaks),
        };
        let drawn = numbers(0, Purpose::Start);
        let mut components = process.drawn_start(&|component| drawn[component]);
        inputs.push(&weights, &components);
        for interval in 0..n_intervals {
            let drawn = numbers(interval, Purpose::Innovation);
            let step = process.drawn_step(&|component| drawn[component]);
            components = process.expected(&|component| components[component]);
            components.iter_mut().zip(step).for_each(|(component, step)| *component += step);
            inputs.push(&weights, &components);
        }
        let options = self.event_options(own, REALIZED, watch, MAX_STEPS);
        let run = simulate(self.system, parameters, &inputs, &options).map_err(PointRefusal::Trajectory)?;
        self.sampled(&own.grid.samples, &run)
    }
}
