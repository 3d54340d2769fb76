//! Consistent start values and adaptive integration of systems in regular form.
//!
//! A system is handed over as a [`daesy_system::DaeSystem`]: states s whose rates are other states or unknowns v,
//! residuals F(t, s, v) = 0 that determine v, and constraints g(t, s) = 0. Integration treats it as an ordinary
//! differential equation on the manifold g = 0 and returns to the manifold after every step.
#![forbid(unsafe_code)]
// Sums over several arrays at once read best with the index of the formula.
#![allow(clippy::needless_range_loop)]

mod block_solve;
mod chatter;
mod collocation;
mod contest;
mod culprit;
mod dop853;
mod dormand_prince;
pub mod ensemble;
mod equations;
pub mod error;
pub mod event_iteration;
mod gauge;
pub mod initialize;
pub mod jump;
mod keep;
pub mod linear;
pub mod linearization;
mod model;
mod project;
mod radau;
pub mod residual;
mod root;
mod rosenbrock;
pub mod rows;
mod saltation;
pub mod sensitivity;
pub mod simulate;
mod sliding;
mod slopes;
mod spectral;
pub mod start_tangents;
mod stepper;
mod unknowns;

pub use error::{EquationOff, IntegrateError, TriedValue};
pub use event_iteration::{HybridStart, initialize_with_events};
pub use initialize::{InitializeOptions, Initialized, counting_wishes, initialize};
pub use jump::{Crossed, Crossing, JumpError, JumpRule};
pub use linearization::{Linearization, linearize};
pub use rows::{RowSink, TakeRows};
pub use sensitivity::{SensitiveSimulation, sampled_sensitivities, simulate_with_sensitivities};
pub use simulate::exchange::{Advanced, Exchange, Happened, Seed, SettableInputs, Snapshot, Tangent};
pub use simulate::leg::{Leg, Waypoint};
pub use simulate::{
    AsFarAsPossible, Displaced, EndPoint, Inputs, Method, MultipleRoot, Rules, SimulateOptions, Simulation,
    SingularSlope, Slide, StateEvent, Termination, Warned, simulate, simulate_as_far_as_possible, simulate_with,
};
pub use start_tangents::{Direction, StartTangent, parameter_direction, start_tangents};
