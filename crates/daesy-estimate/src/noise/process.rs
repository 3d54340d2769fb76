//! A set of shaping filters on a grid.

use faer::Mat;
use thiserror::Error;

use super::bridge::{self, BridgeLevel};
use super::channel::{Channel, ChannelProblem, characteristic_polynomial, over_span};
use super::jet::JetMatrix;
use crate::discretize::{ContinuousModel, stationary_covariance};

/// A shaping filter `dx = A x dt + B dz`, `w = C x` with unit white noise, and its derivatives along the directions of
/// a search.
#[derive(Clone, Debug)]
pub struct ShapingFilter {
    /// A.
    pub dynamics: JetMatrix,
    /// B.
    pub input: JetMatrix,
    /// C, one row per signal.
    pub output: JetMatrix,
    /// Whether it starts at rest instead of stationary.
    pub starts_at_zero: bool,
    /// For each signal, how many derivatives are needed.
    pub derivatives_needed: Vec<u16>,
}

/// Why a filter cannot be realized.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// A needed derivative has infinite variance.
    #[error(
        "signal {signal} of disturbance {filter} is needed with {needed} derivatives, which takes a pole excess of at least \
         {} in its spectrum; it has {}", 2 * (needed + 1), 2 * available
    )]
    TooRough {
        /// The filter.
        filter: usize,
        /// The signal of the filter.
        signal: usize,
        /// Derivatives needed.
        needed: u16,
        /// Differentiations after which white noise appears.
        available: u16,
    },
    /// There is no stationary law.
    #[error("disturbance {filter} has no stationary law: its filter is not stable")]
    Unstable {
        /// The filter.
        filter: usize,
    },
    /// The time constants differ too much.
    #[error("the time constants of disturbance {filter} differ too much from each other for a grid of this step")]
    IllConditioned {
        /// The filter.
        filter: usize,
    },
}

/// The weights of one channel in one signal.
#[derive(Clone, Debug)]
pub(super) struct Readout {
    /// Weights of the components of chi.
    pub(super) weights: Vec<f64>,
    /// Their derivatives.
    pub(super) derivatives: Vec<Vec<f64>>,
}

/// A row of output: a signal or a derivative of it, as a sum over channels.
#[derive(Clone, Debug)]
pub(super) struct OutputRow {
    /// By channel; `None` if a channel does not reach it.
    pub(super) channels: Vec<Option<Readout>>,
}

/// Filters on a grid, at one point of parameters.
#[derive(Clone, Debug)]
pub struct DiscreteProcess {
    pub(super) channels: Vec<Channel>,
    pub(super) bridges: Vec<Vec<BridgeLevel>>,
    pub(super) outputs: Vec<OutputRow>,
}

/// How far straight lines between grid points are from the process.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InterpolationError {
    /// Root mean square error in the middle of an interval.
    pub rms: f64,
    /// Standard deviation of the signal.
    pub std: f64,
}

impl DiscreteProcess {
    /// Brings filters to a grid. Outputs are, filter by filter and signal by signal, the signal and the derivatives
    /// needed of it.
    ///
    /// # Errors
    /// When a derivative does not exist, or a law.
    pub fn new(filters: &[ShapingFilter], step: f64, depth: usize) -> Result<Self, NoiseError> {
        let mut channels: Vec<Channel> = Vec::new();
        let mut bridges = Vec::new();
        let mut outputs: Vec<OutputRow> = Vec::new();
        for (at, filter) in filters.iter().enumerate() {
            check_smoothness(at, filter)?;
            let a = filter.dynamics.map(|matrix| scale(matrix, step));
            let b = filter.input.map(|matrix| scale(matrix, step.sqrt()));
            let coefficients = characteristic_polynomial(&a);
            let channel = Channel::new(&coefficients, filter.starts_at_zero).map_err(|problem| match problem {
                ChannelProblem::IllConditioned => NoiseError::IllConditioned { filter: at },
                ChannelProblem::Unstable => NoiseError::Unstable { filter: at },
            })?;
            let levels = bridge::levels(&channel, depth).ok_or(NoiseError::IllConditioned { filter: at })?;
            let first_channel = channels.len();
            let n = filter.dynamics.value.nrows();
            let krylov: Vec<JetMatrix> = (0..b.value.ncols())
                .map(|column| {
                    let mut power = b.map(|matrix| matrix.get(.., column..column + 1).to_owned());
                    let mut columns = Vec::with_capacity(n);
                    for _ in 0..n {
                        let next = a.times(&power);
                        columns.push(std::mem::replace(&mut power, next));
                    }
                    side_by_side(&columns)
                })
                .collect();
            for signal in 0..filter.output.value.nrows() {
                let mut row = filter.output.map(|matrix| matrix.get(signal..signal + 1, ..).to_owned());
                for _ in 0..=filter.derivatives_needed[signal] {
                    let readouts = krylov.iter().map(|krylov| {
                        let weights = row.times(krylov);
                        let list = |matrix: &Mat<f64>| (0..n).map(|i| matrix[(0, i)]).collect::<Vec<f64>>();
                        Some(Readout {
                            weights: list(&weights.value),
                            derivatives: weights.derivatives.iter().map(list).collect(),
                        })
                    });
                    outputs
                        .push(OutputRow { channels: vec![None; first_channel].into_iter().chain(readouts).collect() });
                    row = row.times(&filter.dynamics);
                }
            }
            for _ in 0..b.value.ncols() {
                channels.push(channel.clone());
                bridges.push(levels.clone());
            }
        }
        for output in &mut outputs {
            output.channels.resize_with(channels.len(), || None);
        }
        Ok(Self { channels, bridges, outputs })
    }

    /// Number of output rows.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Number of components of all channels together.
    #[must_use]
    pub fn n_components(&self) -> usize {
        self.channels.iter().map(|channel| channel.order).sum()
    }

    /// Number of components of each channel.
    pub fn orders(&self) -> impl Iterator<Item = usize> + '_ {
        self.channels.iter().map(|channel| channel.order)
    }

    /// The weights of all components in an output row.
    #[must_use]
    pub fn weights(&self, output: usize) -> Vec<f64> {
        let mut weights = Vec::with_capacity(self.n_components());
        for (readout, channel) in self.outputs[output].channels.iter().zip(&self.channels) {
            match readout {
                Some(readout) => weights.extend_from_slice(&readout.weights),
                None => weights.extend(std::iter::repeat_n(0.0, channel.order)),
            }
        }
        weights
    }

    /// A matrix of each channel applied to that channel's components.
    fn applied(&self, of: impl Fn(&Channel) -> Option<&Mat<f64>>, components: &dyn Fn(usize) -> f64) -> Vec<f64> {
        let mut result = Vec::with_capacity(self.n_components());
        let mut at = 0;
        for channel in &self.channels {
            match of(channel) {
                Some(matrix) => {
                    for i in 0..channel.order {
                        result.push((0..channel.order).map(|j| matrix[(i, j)] * components(at + j)).sum());
                    }
                }
                None => result.extend(std::iter::repeat_n(0.0, channel.order)),
            }
            at += channel.order;
        }
        result
    }

    /// The expected components one grid step later.
    #[must_use]
    pub fn expected(&self, components: &dyn Fn(usize) -> f64) -> Vec<f64> {
        self.applied(|channel| Some(&channel.transition.value), components)
    }

    /// The expected components one grid step later in every lane: `[component * n_lanes + lane]`.
    pub fn expect_in_lanes(&self, begin: &[f64], n_lanes: usize, end: &mut [f64]) {
        end.fill(0.0);
        let mut at = 0;
        for channel in &self.channels {
            for i in 0..channel.order {
                let end = &mut end[(at + i) * n_lanes..][..n_lanes];
                for j in 0..channel.order {
                    let weight = channel.transition.value[(i, j)];
                    let begin = &begin[(at + j) * n_lanes..][..n_lanes];
                    end.iter_mut().zip(begin).for_each(|(end, begin)| *end += weight * begin);
                }
            }
            at += channel.order;
        }
    }

    /// What a grid step adds to the components, from standard normal numbers.
    #[must_use]
    pub fn drawn_step(&self, numbers: &dyn Fn(usize) -> f64) -> Vec<f64> {
        self.applied(|channel| Some(&channel.factor.value), numbers)
    }

    /// Components at the start, from standard normal numbers.
    #[must_use]
    pub fn drawn_start(&self, numbers: &dyn Fn(usize) -> f64) -> Vec<f64> {
        self.applied(|channel| channel.start.as_ref().map(|start| &start.value), numbers)
    }

    fn block_diagonal(&self, of: impl Fn(&Channel) -> Option<&Mat<f64>>) -> Mat<f64> {
        let n = self.n_components();
        let mut matrix = Mat::zeros(n, n);
        let mut at = 0;
        for channel in &self.channels {
            if let Some(factor) = of(channel) {
                let covariance = factor * factor.transpose();
                matrix.get_mut(at..at + channel.order, at..at + channel.order).copy_from(&covariance);
            }
            at += channel.order;
        }
        matrix
    }

    /// Covariance of the components at the start.
    #[must_use]
    pub fn start_covariance(&self) -> Mat<f64> {
        self.block_diagonal(|channel| channel.start.as_ref().map(|start| &start.value))
    }

    /// Whether an output row depends on a direction.
    #[must_use]
    pub fn depends_on(&self, output: usize, direction: usize) -> bool {
        self.outputs[output].channels.iter().zip(&self.channels).any(|(readout, channel)| {
            readout.as_ref().is_some_and(|readout| {
                channel.varies[direction] || readout.derivatives[direction].iter().any(|weight| *weight != 0.0)
            })
        })
    }

    /// How far straight lines are from the process, for each output row; channels without a stationary law are left
    /// out.
    ///
    /// With P the stationary covariance, F and Q over half a step, the error in the middle is
    /// r (F - (I + F F) / 2) chi + r (I - F / 2) z_1 - r z_2 / 2 with z_1, z_2 of covariance Q.
    #[must_use]
    pub fn interpolation_error(&self) -> Vec<InterpolationError> {
        self.outputs
            .iter()
            .map(|output| {
                let (mut error, mut variance) = (0.0, 0.0);
                for (readout, channel) in output.channels.iter().zip(&self.channels) {
                    let Some(readout) = readout else { continue };
                    let n = channel.order;
                    let mut intensity = Mat::zeros(n, n);
                    intensity[(0, 0)] = 1.0;
                    let model = ContinuousModel {
                        dynamics: channel.dynamics.value.clone(),
                        input: Mat::zeros(n, 0),
                        intensity,
                    };
                    let Some(stationary) = stationary_covariance(&model, &[]) else { continue };
                    let half = over_span(&JetMatrix::constant(channel.dynamics.value.clone(), 0), 0.5);
                    let (f, q) = (&half.transition.value, &half.covariance.value);
                    let row = Mat::from_fn(1, n, |_, i| readout.weights[i]);
                    let identity = Mat::<f64>::identity(n, n);
                    let quadratic = |row: &Mat<f64>, matrix: &Mat<f64>| (row * matrix * row.transpose())[(0, 0)];
                    let bend = &row * (f - (&identity + f * f) * faer::Scale(0.5));
                    let first = &row * (&identity - f * faer::Scale(0.5));
                    error += quadratic(&bend, &stationary.value) + quadratic(&first, q) + 0.25 * quadratic(&row, q);
                    variance += quadratic(&row, &stationary.value);
                }
                InterpolationError { rms: error.max(0.0).sqrt(), std: variance.max(0.0).sqrt() }
            })
            .collect()
    }
}

fn scale(matrix: &Mat<f64>, factor: f64) -> Mat<f64> {
    Mat::from_fn(matrix.nrows(), matrix.ncols(), |i, j| matrix[(i, j)] * factor)
}

fn side_by_side(columns: &[JetMatrix]) -> JetMatrix {
    let n = columns.first().map_or(0, |column| column.value.nrows());
    let join = |of: &dyn Fn(&JetMatrix) -> &Mat<f64>| Mat::from_fn(n, columns.len(), |i, j| of(&columns[j])[(i, 0)]);
    let n_directions = columns.first().map_or(0, |column| column.derivatives.len());
    JetMatrix {
        value: join(&|column| &column.value),
        derivatives: (0..n_directions).map(|at| join(&|column| &column.derivatives[at])).collect(),
    }
}

/// C A^k B must vanish for k below the derivatives needed.
fn check_smoothness(at: usize, filter: &ShapingFilter) -> Result<(), NoiseError> {
    for signal in 0..filter.output.value.nrows() {
        let mut row = filter.output.value.get(signal..signal + 1, ..).to_owned();
        let needed = filter.derivatives_needed[signal];
        for available in 1..=needed {
            let direct = &row * &filter.input.value;
            let size = |matrix: &Mat<f64>| {
                (0..matrix.nrows())
                    .flat_map(|i| (0..matrix.ncols()).map(move |j| (i, j)))
                    .fold(0.0f64, |size, (i, j)| size.max(matrix[(i, j)].abs()))
            };
            if size(&direct) > 1e-12 * size(&row) * size(&filter.input.value) {
                return Err(NoiseError::TooRough { filter: at, signal, needed, available });
            }
            row = row * &filter.dynamics.value;
        }
    }
    Ok(())
}
