//! The filter of a nonlinear model as an object that takes one sample after the other.
//!
//! It goes from sample to sample by the same steps as [`PredictionProblem::filter`] does over a record, and carries
//! numbers only: moments, and where the lanes begin to search for unknowns. Time between samples is divided into whole
//! steps of the disturbances' grid, slightly shorter ones where it is no multiple of it.
//!
//! Components of disturbances are kept in units of the step, `x = [b, a b, ..] chi` with `a = A h`, `b = B sqrt(h)`, so
//! that component `j` of a channel becomes `(h / h')^(j + 1/2)` times as large at another step `h'`.

use std::sync::Arc;

use daesy_integrate::Inputs;
use daesy_integrate::ensemble::{EnsemblePoint, EnsembleStart, Grid, InputTable};
use faer::Mat;

use super::filtering::FilterKind;
use super::problem::{Machine, ParameterPoint, PointRefusal, PredictionProblem, Prepared, StartPlace};
use crate::kernel::flat;
use crate::noise::{DiscreteProcess, ShapingFilter};
use crate::nonlinear::{Carried, Crossed, FilterProblem, Moments, Spread, cross_to_sample, start_points};

/// Grids of disturbances that are kept at most.
const MAX_KEPT: usize = 16;

/// Times between samples that differ by less than this part of a step from whole steps are whole steps.
const SAME: f64 = 1e-6;

/// Where a filter is.
#[derive(Clone, Debug)]
pub struct LiveState {
    /// The time of the last sample, or of the start.
    pub time: f64,
    /// The step in whose units components of disturbances are.
    step: f64,
    /// What is carried; nothing at the start.
    carried: Option<Carried>,
    point: EnsemblePoint,
}

/// A filter for nonlinear models that takes samples as they come.
pub struct LiveFilter<'p, 'a> {
    problem: &'p PredictionProblem<'a>,
    machine: &'p Machine,
    spread: Spread,
    filters: Vec<ShapingFilter>,
    variances: Vec<f64>,
    /// The grid of the disturbances.
    step: f64,
    processes: Vec<(f64, Arc<DiscreteProcess>)>,
    prepared: Prepared,
}

impl<'a> PredictionProblem<'a> {
    /// The filter of the problem's model at a point, to be taken over samples by hand. The problem's first experiment
    /// gives the step of the disturbances' grid.
    ///
    /// # Errors
    /// When the point means nothing.
    pub fn live<'p>(&'p self, theta: &[f64], kind: FilterKind) -> Result<LiveFilter<'p, 'a>, PointRefusal> {
        let mut prepared = self.prepare(theta, false, 0)?;
        let ParameterPoint { filters, .. } = self.parameterization.at(theta, false)?;
        let is_extended = kind == FilterKind::Extended;
        let machine = if is_extended { self.extended_machine(&mut prepared)? } else { self.plain()? };
        Ok(LiveFilter {
            machine,
            spread: if is_extended { Spread::Derivatives } else { Spread::Points },
            filters: if self.slots.is_empty() { Vec::new() } else { filters },
            variances: self.parameterization.variances(theta)?,
            step: self.experiments[0].grid.step,
            processes: vec![(self.experiments[0].grid.step, prepared.process.clone())],
            prepared,
            problem: self,
        })
    }
}

impl LiveFilter<'_, '_> {
    /// The state at the start of an experiment.
    ///
    /// # Errors
    /// When there is no consistent start.
    pub fn begin(&self, time: f64, inputs: &(dyn Inputs + Sync)) -> Result<LiveState, PointRefusal> {
        let EnsemblePoint { parameters, tangents, .. } = &self.prepared.point;
        let from = StartPlace { experiment: 0, time, inputs };
        let mut parameters = parameters.clone();
        if !self.problem.system.description().free_parameters.is_empty() {
            let at_mean = self.problem.start_at(&from, &parameters, &[], &self.prepared.process, 0)?;
            parameters = self.problem.parameters_of_starts(&[at_mean])?.0;
        }
        let start = self.problem.filter_start(&from, &parameters, &self.prepared.process, &start_points)?;
        let mut starts = vec![start];
        self.add_tangents(&mut starts);
        let point = EnsemblePoint { parameters, tangents: tangents.clone(), starts };
        Ok(LiveState { time, step: self.step, carried: None, point })
    }

    /// Derivatives of the start by the states, which the extended filter sets itself.
    fn add_tangents(&self, starts: &mut [EnsembleStart]) {
        let n = self.prepared.point.tangents.len();
        for start in starts.iter_mut().flat_map(|start| &mut start.lanes) {
            start.state_tangents = vec![vec![0.0; start.states.len()]; n];
        }
    }

    /// Steps from a state to a time.
    #[must_use]
    pub fn n_steps(&self, state: &LiveState, time: f64) -> f64 {
        (time - state.time) / self.step
    }

    /// Goes to a sample, not earlier than the state, under inputs that are known from the state's time to the sample's,
    /// and takes its measurements, NaN where one is missing.
    ///
    /// # Errors
    /// When disturbances cannot be brought to the time between the samples.
    pub fn cross(
        &mut self,
        state: &mut LiveState,
        time: f64,
        inputs: &(dyn Inputs + Sync),
        measured: &[f64],
    ) -> Result<Crossed, PointRefusal> {
        let span = time - state.time;
        let n_whole = (span / self.step).round();
        let step = if (span - n_whole * self.step).abs() <= SAME * self.step || span <= 0.0 {
            self.step
        } else {
            span / (span / self.step).ceil()
        };
        let process = self.process(step)?;
        if let Some(carried) = &mut state.carried {
            rescale(carried, &process, self.machine.program.layout().states.len(), state.step / step);
        }
        state.step = step;
        let grid = Grid { start: state.time, step, samples: vec![time] };
        let table = InputTable::new(&grid, inputs, self.machine.program.layout());
        let problem = FilterProblem {
            program: self.machine.program.as_ref(),
            grid: &grid,
            inputs,
            table: &table,
            point: &state.point,
            process: &process,
            slots: &self.problem.slots,
            measured: &[],
            variances: &self.variances,
        };
        let crossed = cross_to_sample(&problem, self.spread, state.carried.as_ref(), measured);
        state.carried = Some(crossed.carried.clone());
        state.time = time;
        Ok(crossed)
    }

    /// The disturbances on a grid.
    fn process(&mut self, step: f64) -> Result<Arc<DiscreteProcess>, PointRefusal> {
        if let Some((_, process)) = self.processes.iter().find(|(known, _)| (known - step).abs() <= 1e-12 * step) {
            return Ok(process.clone());
        }
        let depth = self.problem.settings.interpolation.depth();
        let made = Arc::new(DiscreteProcess::new(&self.filters, step, depth)?);
        if self.processes.len() == MAX_KEPT {
            // The first is that of the grid.
            self.processes.remove(1);
        }
        self.processes.push((step, made.clone()));
        Ok(made)
    }

    /// All numbers of a state, to be kept.
    #[must_use]
    pub fn numbers(&self, state: &LiveState) -> Vec<Vec<f64>> {
        let start = &state.point.starts[0].lanes[0];
        let (moments, lanes) = match &state.carried {
            Some(Carried { moments, lanes }) => {
                ([moments.mean.clone(), flat(&moments.covariance)].concat(), lanes.clone())
            }
            None => (Vec::new(), Vec::new()),
        };
        vec![
            vec![state.time, state.step],
            moments,
            lanes,
            start.states.clone(),
            start.unknowns.clone(),
            state.point.parameters.clone(),
            self.processes.iter().map(|(step, _)| *step).collect(),
        ]
    }

    /// A state from numbers that were kept, shaped like one at a start; `None` where they do not fit.
    #[must_use]
    pub fn restored(&mut self, like: &LiveState, numbers: &[Vec<f64>]) -> Option<LiveState> {
        let [times, moments, lanes, states, unknowns, parameters, steps] = numbers else { return None };
        let mut state = like.clone();
        let lane = &mut state.point.starts[0].lanes[0];
        let n = self.machine.program.layout().states.len() + self.prepared.process.n_components();
        let fits = times.len() == 2
            && lane.states.len() == states.len()
            && lane.unknowns.len() == unknowns.len()
            && state.point.parameters.len() == parameters.len()
            && (moments.is_empty() || moments.len() == n + n * n);
        if !fits {
            return None;
        }
        for &step in steps {
            self.process(step).ok()?;
        }
        lane.states.clone_from(states);
        lane.unknowns.clone_from(unknowns);
        state.point.parameters.clone_from(parameters);
        state.point.starts[0].lanes.truncate(1);
        (state.time, state.step) = (times[0], times[1]);
        state.carried = (!moments.is_empty()).then(|| Carried {
            moments: Moments {
                mean: moments[..n].to_vec(),
                covariance: Mat::from_fn(n, n, |i, j| moments[n + j * n + i]),
            },
            lanes: lanes.clone(),
        });
        Some(state)
    }
}

/// Brings the components of disturbances to the units of another step; `ratio` is the old step over the new one.
fn rescale(carried: &mut Carried, process: &DiscreteProcess, n_states: usize, ratio: f64) {
    if ratio == 1.0 {
        return;
    }
    let Moments { mean, covariance } = &mut carried.moments;
    let mut factors = vec![1.0; n_states];
    for order in process.orders() {
        factors.extend((0..order).map(|j| ratio.powf(j as f64 + 0.5)));
    }
    let n = mean.len();
    mean.iter_mut().zip(&factors).for_each(|(value, factor)| *value *= factor);
    *covariance = Mat::from_fn(n, n, |i, j| covariance[(i, j)] * factors[i] * factors[j]);
}
