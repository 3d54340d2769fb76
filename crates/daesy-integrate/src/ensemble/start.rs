//! Where realizations start, and how that depends on parameters.
//!
//! A start is solved completely: relations and discrete variables, `homotopy`, parameters that the start determines and
//! those bound to them (modules `event_iteration` and `initialize`). Its derivatives along directions in parameters and inputs
//! are in `start_tangents`.

use daesy_system::{DaeSystem, ReferencePoint};

use super::{EnsemblePoint, Experiment};
use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::event_iteration::{HybridStart, initialize_with_events};
use crate::initialize::problem::Problem;
use crate::initialize::{InitializeOptions, Initialized};
use crate::start_tangents::{Changes, StartTangent};

/// The start of an ensemble: one for all lanes, or one for each.
#[derive(Clone, PartialEq, Debug)]
pub struct EnsembleStart {
    /// States and unknowns of each lane; a single one counts for all.
    pub lanes: Vec<StartSensitivity>,
}

/// A start with its derivatives.
#[derive(Clone, PartialEq, Debug)]
pub struct StartSensitivity {
    /// States.
    pub states: Vec<f64>,
    /// Unknowns.
    pub unknowns: Vec<f64>,
    /// All parameters, those that the start determines included.
    pub parameters: Vec<f64>,
    /// Derivatives of the states along each direction.
    pub state_tangents: Vec<Vec<f64>>,
    /// Derivatives of the parameters along each direction.
    pub parameter_tangents: Vec<Vec<f64>>,
}

/// A consistent start with its derivatives along directions in parameters (`tangents[direction][parameter]`) and
/// inputs.
///
/// # Errors
/// When no consistent start is found.
pub fn start_of(
    system: &dyn DaeSystem,
    time: f64,
    parameters: &[f64],
    inputs: &[f64],
    tangents: &[Vec<f64>],
    input_tangents: &[Vec<f64>],
) -> Result<StartSensitivity, IntegrateError> {
    let HybridStart { initialized: start, modes } =
        initialize_with_events(system, time, parameters, inputs, &InitializeOptions::default())?;
    let (mut state_tangents, mut parameter_tangents) = (Vec::new(), Vec::new());
    if !tangents.is_empty() {
        let problem = Problem::new(system);
        let around = Surroundings { time, parameters: &start.parameters, inputs, modes: &modes };
        let mut changes = Changes::new(&problem, &start, &around);
        for (direction, tangent) in tangents.iter().enumerate() {
            let of_inputs = input_tangents.get(direction).map_or(&[][..], Vec::as_slice);
            let StartTangent { states, parameters, .. } = changes.along(tangent, of_inputs)?;
            state_tangents.push(states);
            parameter_tangents.push(parameters);
        }
    }
    let Initialized { states, unknowns, parameters, .. } = start;
    Ok(StartSensitivity { states, unknowns, parameters, state_tangents, parameter_tangents })
}

/// The point near which an ensemble takes its steps.
#[must_use]
pub fn reference_point(experiment: &Experiment<'_>, point: &EnsemblePoint, system: &dyn DaeSystem) -> ReferencePoint {
    let description = system.description();
    let start = point.starts.first().and_then(|start| start.lanes.first());
    ReferencePoint {
        time: experiment.grid.start,
        states: start.map_or_else(|| vec![0.0; description.states.len()], |start| start.states.clone()),
        unknowns: start.map_or_else(|| vec![0.0; description.unknowns.len()], |start| start.unknowns.clone()),
        parameters: point.parameters.clone(),
        inputs: experiment.table.first().to_vec(),
        step: experiment.grid.step,
    }
}
