//! Steps of many realizations at once: what an ensemble integrator knows of a compiled one-step method.
//!
//! A method advances *carried rows*, one value per lane each: the states that are independent of each other, what
//! else the method takes from step to step, and, for every direction of differentiation, the derivatives of all
//! these. At each node `t + c h` of a step it reads *signal rows*: every input of the model with the derivatives it
//! needs, then their derivatives by the directions.
//!
//! ```text
//! carried   [ states | kept from the last step ]          and the same again for each direction
//! signals   [ inputs as in Point::inputs ]                and, for each direction, the inputs that depend on it
//! ```

use thiserror::Error;

/// A one-step method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StepMethod {
    /// Kutta's explicit method of order 3, projected on the constraints.
    Explicit3,
    /// The classical explicit Runge-Kutta method of order 4, projected on the constraints.
    Explicit4,
    /// An L-stable diagonally implicit method of order 3 [@alexander1977], projected on the constraints.
    Implicit3,
}

/// A direction in which trajectories are differentiated.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Direction {
    /// Parameters that change along it.
    pub parameters: Vec<u32>,
    /// Inputs that change along it, as positions in `Description::inputs`.
    pub inputs: Vec<u32>,
}

/// A point near which steps will be taken; it guides the order of elimination.
#[derive(Clone, PartialEq, Debug)]
pub struct ReferencePoint {
    /// Time.
    pub time: f64,
    /// States.
    pub states: Vec<f64>,
    /// Unknowns.
    pub unknowns: Vec<f64>,
    /// Parameters.
    pub parameters: Vec<f64>,
    /// Inputs.
    pub inputs: Vec<f64>,
    /// The length of a typical step.
    pub step: f64,
}

/// What a step program shall do.
#[derive(Clone, Debug)]
pub struct StepRequest<'a> {
    /// The method.
    pub method: StepMethod,
    /// Directions of differentiation.
    pub directions: &'a [Direction],
    /// Observed quantities that are wanted, as positions in `Description::observed`.
    pub observed: &'a [u32],
    /// Where steps will be taken.
    pub reference: &'a ReferencePoint,
}

/// How the rows of a step program are laid out.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StepLayout {
    /// The states that are carried, as positions in `Description::states`; they come first among the carried rows.
    pub states: Vec<u32>,
    /// The unknowns that are carried after the states, as positions in `Description::unknowns`.
    pub unknowns: Vec<u32>,
    /// Nominal values of the carried states.
    pub nominal: Vec<f64>,
    /// Number of carried rows, derivatives not counted.
    pub n_carried: usize,
    /// Number of directions.
    pub n_directions: usize,
    /// Nodes of a step at which signals are read, ascending, the last one 1.
    pub nodes: Vec<f64>,
    /// Number of inputs with their derivatives.
    pub n_inputs: usize,
    /// The signal rows after the inputs: whose derivative along which direction.
    pub input_tangents: Vec<InputTangent>,
    /// Number of observed quantities; their derivatives by each direction follow.
    pub n_observed: usize,
    /// Operations per step and lane.
    pub n_operations: usize,
    /// Order of the method.
    pub order: u32,
    /// Order of its error estimate.
    pub estimate_order: u32,
}

/// A signal row that holds the derivative of an input along a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputTangent {
    /// The direction.
    pub direction: u32,
    /// Position in `Point::inputs`.
    pub slot: u32,
}

impl StepLayout {
    /// Number of carried rows, derivatives included.
    #[must_use]
    pub const fn n_carried_rows(&self) -> usize {
        self.n_carried * (1 + self.n_directions)
    }

    /// Number of signal rows at one node.
    #[must_use]
    pub const fn n_signal_rows(&self) -> usize {
        self.n_inputs + self.input_tangents.len()
    }

    /// Number of observed rows, derivatives included.
    #[must_use]
    pub const fn n_observed_rows(&self) -> usize {
        self.n_observed * (1 + self.n_directions)
    }
}

/// Why there is no step program.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StepProgramError {
    /// The system cannot be advanced in lanes.
    #[error("{reason}")]
    Unsupported {
        /// Why.
        reason: String,
    },
}

/// A compiled one-step method, shared among threads.
pub trait StepProgram: Send + Sync {
    /// The layout of its rows.
    fn layout(&self) -> &StepLayout;

    /// Times within a span at which equations jump or bend by time alone, at given parameters, ascending; none where
    /// there are more than `limit` of them.
    fn breaks(&self, _parameters: &[f64], _from: f64, _until: f64, _limit: usize) -> Option<Vec<f64>> {
        Some(Vec::new())
    }

    /// Memory for a number of lanes; make one per thread.
    fn lanes(&self, n_lanes: usize) -> Box<dyn LaneSteps + '_>;
}

/// Realizations side by side. Rows have [`LaneSteps::stride`] values, of which the first `n_lanes` count.
pub trait LaneSteps: Send {
    /// Distance between rows.
    fn stride(&self) -> usize;

    /// Sets the step length, the parameters and their derivatives along each direction (`[direction][parameter]`).
    fn prepare(&mut self, step: f64, parameters: &[f64], tangents: &[Vec<f64>]);

    /// Sets the step length and parameters of their own for each lane (`[lane][parameter]`). Programs with directions
    /// have no use for it: derivatives of parameters are zero.
    fn prepare_each(&mut self, step: f64, parameters: &[&[f64]]);

    /// The carried rows.
    fn carried(&self) -> &[f64];

    /// The carried rows, to be set. A start sets the state rows and their derivatives; [`LaneSteps::start`] finds the
    /// rest.
    fn carried_mut(&mut self) -> &mut [f64];

    /// The signal rows of a node.
    fn signals_mut(&mut self, node: usize) -> &mut [f64];

    /// One over the error that a carried state may have, one row for each.
    fn weights_mut(&mut self) -> &mut [f64];

    /// Completes the carried rows from the states and the signals at the last node.
    fn start(&mut self, time: f64);

    /// Takes a step from `time`; the result waits for [`LaneSteps::accept`].
    fn step(&mut self, time: f64);

    /// The largest estimated error of a state in units of what is allowed, by lane; NaN where a lane broke down.
    fn error(&self) -> &[f64];

    /// How close an elimination came to dividing by zero, by lane: 1 is harmless, large is not. Empty where nothing
    /// can.
    fn growth(&self) -> &[f64];

    /// Makes the result of the step the new carried rows.
    fn accept(&mut self);

    /// The observed rows at the carried states and the signals of the last node.
    fn observe(&mut self, time: f64) -> &[f64];

    /// All states of the system at the carried ones, rows as in `Description::states`.
    fn all_states(&mut self, time: f64) -> &[f64];
}
