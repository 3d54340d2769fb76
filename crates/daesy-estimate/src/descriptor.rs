//! A linear stochastic descriptor model whose coefficients depend on parameters.
//!
//! ```text
//! E z' = F z + G u + J v,      y_k = H z(t_k) + H_u u(t_k) + e_k,      signals = M z + M_u u
//! ```
//!
//! `v` is white noise, its components independent and each of its own intensity. The states of shaping filters are
//! variables like all others and stand at the end of `z`.

use std::ops::Range;

use faer::Mat;

use crate::error::EstimateError;
use crate::experiment::{Experiment, InputJet, VarianceJet};

/// Coefficients at some parameter values; also a derivative of them.
#[derive(Clone, Debug)]
pub struct Coefficients {
    /// `E`.
    pub e: Mat<f64>,
    /// `F`.
    pub f: Mat<f64>,
    /// `G`.
    pub g: Mat<f64>,
    /// `J`.
    pub j: Mat<f64>,
    /// Intensities of the components of `v`; those that drive filters must be one.
    pub intensities: Vec<f64>,
    /// `H` and `H_u`.
    pub measured: SignalRows,
    /// `M` and `M_u`.
    pub estimated: SignalRows,
    /// Variances of the measurements.
    pub variances: Vec<f64>,
    /// What must hold at the start.
    pub insisted: StartRows,
    /// What should hold at the start, in the order of preference.
    pub wished: StartRows,
}

/// Rows of `c z + d u`.
#[derive(Clone, Debug)]
pub struct SignalRows {
    /// Coefficients of the variables.
    pub variables: Mat<f64>,
    /// Coefficients of the inputs.
    pub inputs: Mat<f64>,
}

/// Conditions `c z + b z' + d u = value` at the start.
#[derive(Clone, Debug)]
pub struct StartRows {
    /// Coefficients of the variables.
    pub variables: Mat<f64>,
    /// Coefficients of their derivatives.
    pub derivatives: Mat<f64>,
    /// Coefficients of the inputs.
    pub inputs: Mat<f64>,
    /// Right-hand side.
    pub values: Vec<f64>,
}

impl SignalRows {
    /// No rows.
    #[must_use]
    pub fn none(n_variables: usize, n_inputs: usize) -> Self {
        Self { variables: Mat::zeros(0, n_variables), inputs: Mat::zeros(0, n_inputs) }
    }
}

impl StartRows {
    /// No conditions.
    #[must_use]
    pub fn none(n_variables: usize, n_inputs: usize) -> Self {
        Self::zeros(0, n_variables, n_inputs)
    }

    /// Conditions without coefficients.
    #[must_use]
    pub fn zeros(n_rows: usize, n_variables: usize, n_inputs: usize) -> Self {
        Self {
            variables: Mat::zeros(n_rows, n_variables),
            derivatives: Mat::zeros(n_rows, n_variables),
            inputs: Mat::zeros(n_rows, n_inputs),
            values: vec![0.0; n_rows],
        }
    }

    /// Number of conditions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The states of one disturbance's shaping filter among the variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterBlock {
    /// Variables and equations of the filter.
    pub states: Range<usize>,
    /// Whether it starts at zero instead of in its stationary distribution.
    pub starts_at_zero: bool,
}

/// How the model's own variables start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartMode {
    /// From the conditions, exactly.
    Given,
    /// What the conditions leave free of the state of the standard form is zero.
    Zero,
    /// What the conditions leave free is estimated by maximum likelihood, for every experiment of its own.
    Estimated,
    /// What the conditions leave free has a prior of infinite variance.
    Diffuse,
    /// Everything, disturbances included, is in its stationary distribution around rest under the first inputs.
    Stationary,
}

/// What does not depend on parameters.
#[derive(Clone, Debug)]
pub struct ModelLayout {
    /// Number of unknown parameters.
    pub n_unknown: usize,
    /// Filters, whose states are the last variables.
    pub filters: Vec<FilterBlock>,
    /// How the model starts.
    pub start: StartMode,
}

/// A model that depends on unknown parameters, with its data.
pub trait ParametricModel {
    /// What does not depend on parameters.
    fn layout(&self) -> &ModelLayout;

    /// The coefficients.
    ///
    /// # Errors
    /// When one has no finite value.
    fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError>;

    /// Derivatives of the coefficients, one for each unknown.
    ///
    /// # Errors
    /// When one has no finite value.
    fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError>;

    /// The data.
    fn experiments(&self) -> &[Experiment];

    /// The inputs of an experiment where they depend on parameters; `None` if those of the experiment hold.
    fn inputs(&self, _experiment: usize, _theta: &[f64]) -> Option<InputJet> {
        None
    }

    /// Variances of measurements where they change with time; `None` if those of the coefficients hold.
    fn variances(&self, _experiment: usize, _theta: &[f64]) -> Option<VarianceJet> {
        None
    }
}
