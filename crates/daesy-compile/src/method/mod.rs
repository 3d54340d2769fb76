//! One-step methods for many lanes, each step one straight-line program.
//!
//! The unknowns v of the regular form are eliminated block by block in the program itself: linear blocks by Gaussian
//! elimination, others by a fixed number of Newton steps from the values of the last step. States that a constraint
//! makes equal (`der(x) = v`) are carried once. After each step the states return to the constraints by the least
//! change, in units of nominal values,
//!
//! ```text
//! s := s - W^2 G' (G W^2 G')^-1 g(t, s),     G = dg/ds, W = diag(nominal)
//! ```
//!
//! Single trajectories have programs of their own for parts of a step: the unknowns where they are linear
//! (`unknowns`), all stages of an explicit method (`runge_kutta`), the way back to the constraints (`constraints`).
//!
//! Derivatives along directions in parameters and inputs are those of the program (see `tape::tangent`): exact for
//! the numbers that it computes. What depends on parameters and the step length alone is computed once (see
//! `tape::split`).

// Sums over several lists at once read best with the index of the formula.
#![allow(clippy::needless_range_loop)]

mod blueprint;
mod constraints;
mod eliminate;
mod lane_explicit;
mod lane_implicit;
mod run;
mod runge_kutta;
mod unknowns;

use daesy_system::{StepProgramError, StepRequest};

use crate::lower::CompiledSystem;
pub(crate) use constraints::ConstraintProgram;
pub(crate) use run::CompiledSteps;
pub(crate) use runge_kutta::ExplicitProgram;
pub(crate) use unknowns::UnknownsProgram;

/// Builds the programs of a method.
pub(crate) fn build(system: &CompiledSystem, request: &StepRequest<'_>) -> Result<CompiledSteps, StepProgramError> {
    let blueprint = blueprint::Blueprint::new(system, request)?;
    CompiledSteps::new(&blueprint)
}
