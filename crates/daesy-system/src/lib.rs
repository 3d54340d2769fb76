//! The contract between models and methods.
//!
//! A model in regular form reaches integrators, filters and estimators only through
//! the types here:
//!
//! ```text
//! s' = S(s, v)                     each state's rate is another state or an unknown        Rate
//! 0  = F(t, s, v; p, u, m)         as many residuals as unknowns v                         Part::Residual
//! 0  = g(t, s; p, u, m)            constraints, explicit and hidden                        Part::Constraint
//! y  = h(t, s, v; p, u, m)         everything a user may look at                           Part::Observed
//! z  = r(t, s, v; p, u, m)         event functions, a sign change is an event              Part::Roots
//! ```
//!
//! with parameters p, inputs and their derivatives u, and modes m (discrete variables and the truth of relations,
//! constant between events). How modes change at events is in [`events`].
#![forbid(unsafe_code)]

pub mod events;
mod labels;
pub mod lane_step;
pub mod runge_kutta;
mod watch;

pub use lane_step::{
    Direction, InputTangent, LaneSteps, ReferencePoint, StepLayout, StepMethod, StepProgram, StepProgramError,
    StepRequest,
};

pub use labels::Labels;

pub use events::{Action, ActionKind, AssertionLabel, Before, DiscreteVariable, EventLabel, Events, Root};

use thiserror::Error;

pub use runge_kutta::{ExplicitMethod, ExplicitStart, ExplicitSteps, Offer};
pub use watch::{Progress, Watch};

/// What the rate of a state is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// The state at this position.
    State(u32),
    /// The unknown at this position.
    Unknown(u32),
}

/// A signal whose past the system reads. Whoever integrates writes it, step by step; what is read is constant as long as
/// a step lasts.
pub trait Past: Send + Sync {
    /// Begins a run on this thread at a row of [`Part::Observed`].
    fn begin(&self, time: f64, row: &[f64]);

    /// Writes a stretch of the trajectory: rows at the fractions [`PAST_PLACES`] of it. False, and nothing is written,
    /// where values between are not known to the tolerance; with `is_final` they are taken all the same.
    fn write(&self, rows: &[(f64, Vec<f64>)], tolerance: f64, is_final: bool) -> bool;

    /// Says that an event happened at the end of what was written.
    fn note_event(&self);

    /// How long a step from a row may be, as far as that can be told before it is taken.
    fn longest_step(&self, time: f64, row: &[f64]) -> f64;

    /// How far beyond what has been written a row asks for values; not above zero where it asks for nothing new. A
    /// step whose rows do has to be made shorter: what is written there later was not known when the step was taken.
    fn excess(&self, row: &[f64]) -> f64;

    /// Ends the run of this thread.
    fn end(&self);
}

/// Fractions of a stretch at which a past is written: Chebyshev's points (1 - cos(pi k / 8)) / 2, then two at which the
/// polynomial through those is compared.
pub const PAST_PLACES: [f64; 11] = [
    0.0,
    0.038_060_233_744_356_62,
    0.146_446_609_406_726_24,
    0.308_658_283_817_455_1,
    0.5,
    0.691_341_716_182_544_9,
    0.853_553_390_593_273_8,
    0.961_939_766_255_643_4,
    1.0,
    0.23,
    0.6,
];

/// A vector- or matrix-valued function of a [`Point`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Part {
    /// F
    Residual,
    /// dF/dv
    ResidualByUnknowns,
    /// dF/ds
    ResidualByStates,
    /// dF/dt, with the inputs held at their given values and derivatives (their own time dependence is in
    /// `ResidualByInputs`).
    ResidualByTime,
    /// dF/dp
    ResidualByParameters,
    /// dF/du
    ResidualByInputs,
    /// g
    Constraint,
    /// dg/ds
    ConstraintByStates,
    /// dg/dt, the inputs held
    ConstraintByTime,
    /// dg/dp
    ConstraintByParameters,
    /// dg/du
    ConstraintByInputs,
    /// h
    Observed,
    /// dh/dv
    ObservedByUnknowns,
    /// dh/ds
    ObservedByStates,
    /// dh/dp
    ObservedByParameters,
    /// dh/du
    ObservedByInputs,
    /// r
    Roots,
    /// dr/dv
    RootsByUnknowns,
    /// dr/ds
    RootsByStates,
    /// dr/dt, the inputs held
    RootsByTime,
    /// dr/dp
    RootsByParameters,
    /// dr/du
    RootsByInputs,
    /// The total time derivatives of r; without a value where they need more than states, unknowns and inputs at hand.
    RootRates,
    /// Their derivatives with respect to v
    RootRatesByUnknowns,
    /// Their derivatives with respect to s
    RootRatesByStates,
    /// Their derivatives with respect to t, the inputs held
    RootRatesByTime,
    /// Their derivatives with respect to p
    RootRatesByParameters,
    /// Their derivatives with respect to u
    RootRatesByInputs,
    /// New values of the modes that change at events: discrete variables, conditions and held values, see [`Events`].
    Modes,
    /// Values of the discrete variables before the start: what initial equations say of `pre`, or the `start`
    /// attributes.
    ModesBefore,
    /// Times of scheduled events, then first tick and interval of each clock, see [`Events`].
    Schedule,
    /// Derivatives of the rows of `Schedule` with respect to p
    ScheduleByParameters,
    /// Whether each action of a when-clause acts, and its value: two numbers for each of [`Events::actions`].
    Actions,
    /// Derivatives of the rows of `Actions` with respect to v
    ActionsByUnknowns,
    /// Derivatives of the rows of `Actions` with respect to s
    ActionsByStates,
    /// Derivatives of the rows of `Actions` with respect to t, the inputs held
    ActionsByTime,
    /// Derivatives of the rows of `Actions` with respect to p
    ActionsByParameters,
    /// Derivatives of the rows of `Actions` with respect to the values before of continuous quantities, in the order of
    /// [`Events::before`]
    ActionsByBefore,
    /// The truth of each of [`Events::assertions`].
    Assertions,
    /// Residuals of initial equations and insisted start values, in (s, v, p).
    Initial,
    /// Their derivatives with respect to v
    InitialByUnknowns,
    /// Their derivatives with respect to s
    InitialByStates,
    /// Their derivatives with respect to p
    InitialByParameters,
    /// Start values that are wished for: value less start, for each of [`Description::start_conditions`], in (s, v, p).
    Start,
    /// Their derivatives with respect to v
    StartByUnknowns,
    /// Their derivatives with respect to s
    StartByStates,
    /// Their derivatives with respect to p
    StartByParameters,
}

/// Where a matrix has entries: compressed sparse rows, columns ascending in each row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pattern {
    /// Number of rows.
    pub n_rows: usize,
    /// Number of columns.
    pub n_cols: usize,
    /// Position of each row's first entry, and one past the last row's last.
    pub row_starts: Vec<u32>,
    /// Column of each entry.
    pub columns: Vec<u32>,
}

impl Pattern {
    /// Number of entries.
    #[must_use]
    pub fn n_entries(&self) -> usize {
        self.columns.len()
    }

    /// The entries of a row as positions in the value array.
    #[must_use]
    pub fn row(&self, row: usize) -> core::ops::Range<usize> {
        self.row_starts[row] as usize..self.row_starts[row + 1] as usize
    }

    /// Every entry as (row, column), in the order of the value array.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.n_rows).flat_map(move |row| self.row(row).map(move |entry| (row, self.columns[entry] as usize)))
    }
}

/// A point at which a model is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Time.
    pub time: f64,
    /// States s.
    pub states: &'a [f64],
    /// Unknowns v.
    pub unknowns: &'a [f64],
    /// All parameters p, dependent ones included.
    pub parameters: &'a [f64],
    /// Inputs u: for each input its value and the derivatives the model needs, see [`Input`].
    pub inputs: &'a [f64],
    /// Modes m, in the order of [`Events`].
    pub modes: &'a [f64],
}

/// The same for many realizations at once: every array is `[variable][lane]` with `n_lanes` lanes.
#[derive(Clone, Copy, Debug)]
pub struct LanePoint<'a> {
    /// Number of lanes.
    pub n_lanes: usize,
    /// Time, shared by all lanes.
    pub time: f64,
    /// States.
    pub states: &'a [f64],
    /// Unknowns.
    pub unknowns: &'a [f64],
    /// Parameters.
    pub parameters: &'a [f64],
    /// Inputs.
    pub inputs: &'a [f64],
    /// Modes.
    pub modes: &'a [f64],
}

/// What a method may know about a state or an unknown.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantity {
    /// Its name: `x` or `der(x)`, `der(der(x))`, ..
    pub name: String,
    /// Typical size, positive.
    pub nominal: f64,
    /// The value to start from.
    pub start: f64,
    /// Where the start value comes from.
    pub start_origin: StartOrigin,
    /// Smallest and largest sensible value.
    pub min: f64,
    /// Largest sensible value.
    pub max: f64,
    /// How much it holds on to its value, of a state.
    pub persistence: Persistence,
}

/// How much a state holds on to its value where an event gives new values to others: a class gives way only where the
/// constraints cannot be satisfied by those below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Persistence {
    /// It should never be a state.
    Never,
    /// It should rather not be a state.
    Avoid,
    /// It was written as `y = expression` of other states, or has no name of its own.
    Follows,
    /// Nothing is known.
    #[default]
    Default,
    /// It should rather be a state.
    Prefer,
    /// It should always be a state.
    Always,
}

/// Where a start value comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StartOrigin {
    /// None was given: zero.
    Default,
    /// A `start` attribute: a guess, to be changed as little as possible.
    Guess,
    /// `fixed = true`, or a study's `[initial]`: to be kept.
    Fixed,
}

/// How much a start value that is not insisted on counts: a class gives way only to those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StartClass {
    /// A `start` that was written for a variable whose derivative occurs in the model.
    Differential,
    /// A `start` that was written for another variable.
    Other,
    /// Zero, for a variable whose derivative occurs in the model and for which nothing was written.
    Default,
}

/// A start value that is wished for; its row is in [`Part::Start`].
#[derive(Clone, PartialEq, Debug)]
pub struct StartCondition {
    /// The variable.
    pub name: String,
    /// How much it counts.
    pub class: StartClass,
    /// Typical size of the variable, positive.
    pub nominal: f64,
}

/// An input and where its values stand in [`Point::inputs`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Position of its value; derivatives follow.
    pub start: usize,
    /// The highest derivative the model needs.
    pub derivatives_needed: u16,
}

/// A set of unknowns to be solved together: equations and unknowns `start..start + len`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// First position.
    pub start: u32,
    /// Number.
    pub len: u32,
    /// Whether the residuals are linear in these unknowns.
    pub is_linear: bool,
}

/// An equation as it is told to the user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EquationLabel {
    /// The equation in the model's words.
    pub text: String,
    /// `file:line:column`, empty where there is none.
    pub place: String,
    /// How often it was differentiated.
    pub differentiated: u16,
}

/// A row that gives a column a guess: it is linear in the column, with a factor of one or minus one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuessRule {
    /// The position of the column among states, then unknowns.
    pub column: u32,
    /// The position of the row among residuals, then constraints.
    pub row: u32,
}

/// The fixed facts about a system.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Description {
    /// Full name of the model.
    pub model: String,
    /// States.
    pub states: Vec<Quantity>,
    /// Their rates.
    pub rates: Vec<Rate>,
    /// Unknowns.
    pub unknowns: Vec<Quantity>,
    /// Blocks of unknowns in the order of solution.
    pub blocks: Vec<Block>,
    /// Residuals in the model's words.
    pub residuals: Labels,
    /// Constraints in the model's words.
    pub constraints: Labels,
    /// Residuals of the start problem in the model's words.
    pub initial: Vec<EquationLabel>,
    /// Start values that are wished for, by class, in the order of declaration within each. Where there are none, the
    /// start values of [`Description::states`] and [`Description::unknowns`] are the wishes.
    pub start_conditions: Vec<StartCondition>,
    /// Where a search for a start begins at columns without a start value of their own.
    pub guesses: Vec<GuessRule>,
    /// Names of all parameters.
    pub parameters: Vec<String>,
    /// Positions of parameters that the start problem determines.
    pub free_parameters: Vec<u32>,
    /// Inputs.
    pub inputs: Vec<Input>,
    /// Length of [`Point::inputs`].
    pub n_inputs: usize,
    /// Names of what [`Part::Observed`] gives.
    pub observed: Vec<String>,
    /// Number of modes.
    pub n_modes: usize,
    /// Number of event functions.
    pub n_roots: usize,
    /// What happens at events.
    pub events: Events,
}

/// Solves F(t, s, v) = 0 for the unknowns without iterations.
pub trait LinearUnknowns {
    /// Operations of one solve, about.
    fn n_operations(&self) -> usize;

    /// Writes the unknowns at a point, whose own unknowns are not looked at.
    fn solve(&mut self, point: &Point<'_>, unknowns: &mut [f64]);

    /// The same with the backward error, in units of rounding: the largest residual of an equation relative to the
    /// sizes of its terms. A large number, or none at all, means that the elimination went wrong.
    fn solve_watched(&mut self, point: &Point<'_>, unknowns: &mut [f64]) -> f64;
}

/// Takes steps of Newton's method back to the constraints g(t, s) = 0, each the least change in a weighted norm.
pub trait ConstraintStep {
    /// Writes, one after the other,
    ///
    /// - ds / w, which minimizes its sum of squares under G ds = -g,
    /// - 1 over the norm of each row of G diag(w), 1 for a row of zeros,
    /// - g
    ///
    /// at a point, whose unknowns are not looked at; w are the weights.
    fn run(&mut self, point: &Point<'_>, weights: &[f64], results: &mut [f64]);
}

/// A compiled model.
pub trait DaeSystem: Send + Sync {
    /// The fixed facts.
    fn description(&self) -> &Description;

    /// Where a part has entries; vector-valued parts have one column.
    fn pattern(&self, part: Part) -> &Pattern;

    /// An evaluator with memory of its own; make one per thread.
    fn evaluator(&self) -> Box<dyn Evaluator + '_>;

    /// An evaluator for many lanes.
    fn lane_evaluator(&self, n_lanes: usize) -> Box<dyn LaneEvaluator + '_>;

    /// All parameter values, given those that differ from the model's.
    ///
    /// # Errors
    /// When a parameter's expression has no finite value.
    fn parameter_values(&self, given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError>;

    /// Gives the parameters that are bound to [`Description::free_parameters`] the values that follow from those.
    fn follow_free_parameters(&self, _parameters: &mut [f64]) {}

    /// The same equations with relations held between events and `homotopy` followed, where this system has neither and
    /// a start may depend on them.
    fn start_system(&self) -> Option<&dyn DaeSystem> {
        None
    }

    /// Derivatives of all parameter values by one that is given, at given values.
    ///
    /// # Errors
    /// When a parameter's expression has no finite value.
    fn parameter_tangent(&self, given: &[GivenParameter], by: u32) -> Result<Vec<f64>, ParameterError> {
        let mut tangent = vec![0.0; self.parameter_values(given)?.len()];
        tangent[by as usize] = 1.0;
        Ok(tangent)
    }

    /// The unknowns in closed form, where the system is linear in them block by block and not large. The reference is
    /// a point where they will be asked for; it guides the order of elimination.
    fn linear_unknowns(&self, _reference: &Point<'_>) -> Option<Box<dyn LinearUnknowns + '_>> {
        None
    }

    /// Steps back to the constraints, where there are few.
    fn constraint_step(&self) -> Option<Box<dyn ConstraintStep + '_>> {
        None
    }

    /// Steps of an explicit method as one program, where the unknowns have a closed form
    /// ([`DaeSystem::linear_unknowns`]). It is made after it was asked for some times.
    fn explicit_steps(&self, _method: &ExplicitMethod<'_>) -> Offer<Box<dyn ExplicitSteps + '_>> {
        Offer::Never
    }

    /// Whether it is a model that runs elsewhere, whose evaluations cost much and tell by themselves why they fail.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Observed quantities that are not of a Real type, beside the discrete variables.
    fn whole_observed(&self) -> Vec<usize> {
        Vec::new()
    }

    /// How much its equations are off by noise, relative to their size; zero where that is rounding.
    fn noise(&self) -> f64 {
        0.0
    }

    /// Signals whose past the system reads.
    fn pasts(&self) -> Vec<Box<dyn Past + '_>> {
        Vec::new()
    }

    /// The first time after that of the point and not after `until` at which something that depends on time alone
    /// changes, though no schedule ([`Part::Schedule`]) gives it; infinite if there is none. Parameters and modes are
    /// those of the point.
    fn next_switch(&self, _point: &Point<'_>, _until: f64) -> f64 {
        f64::INFINITY
    }

    /// A one-step method for many realizations at once.
    ///
    /// # Errors
    /// When the system cannot be advanced in lanes.
    fn step_program(&self, _request: &StepRequest<'_>) -> Result<Box<dyn StepProgram>, StepProgramError> {
        Err(StepProgramError::Unsupported { reason: "this system has no steps for many lanes".to_owned() })
    }
}

/// A parameter value from outside.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GivenParameter {
    /// Position in [`Description::parameters`].
    pub parameter: u32,
    /// Its value.
    pub value: f64,
}

/// Why parameters have no values.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// An expression gave no finite number.
    #[error("the value of parameter `{name}` is not a finite number ({value})")]
    NotFinite {
        /// Which.
        name: String,
        /// What it gave.
        value: f64,
    },
    /// A value was given to a parameter that is bound to one which the start determines.
    #[error(
        "parameter `{name}` follows from a parameter that is determined at the start: no other value can be given to it"
    )]
    FollowsFromStart {
        /// Which.
        name: String,
    },
}

/// Evaluates a system at single points.
pub trait Evaluator {
    /// Writes the values of a part, in the order of its pattern.
    fn evaluate(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]);
}

/// Evaluates a system at many points at once; values are `[entry][lane]`.
pub trait LaneEvaluator {
    /// Writes the values of a part, in the order of its pattern.
    fn evaluate(&mut self, part: Part, point: &LanePoint<'_>, values: &mut [f64]);
}
