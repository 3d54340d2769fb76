//! Where realizations start, and how that depends on parameters.
//!
//! A start z = (s, v) satisfies R(z, p, u) = 0: residuals, constraints, start conditions. Its derivative along a direction in
//! parameters and inputs is the least change that keeps R at zero,
//!
//! ```text
//! R_z z' = -(R_p p' + R_u u'),     |W^-1 z'| least
//! ```
//!
//! exact where the conditions determine the start, and where start values satisfy them as they are.

use daesy_system::{DaeSystem, Part, Point, ReferencePoint};
use faer::Mat;
use faer::linalg::solvers::Svd;

use super::{EnsemblePoint, Experiment};
use crate::error::IntegrateError;
use crate::initialize::{InitializeOptions, initialize};

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
    /// Derivatives of the states along each direction.
    pub state_tangents: Vec<Vec<f64>>,
}

/// A consistent start with its derivatives along directions in parameters (`tangents[direction][parameter]`) and inputs.
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
    let modes = vec![0.0; system.description().n_modes];
    let start = initialize(system, time, parameters, inputs, &modes, &InitializeOptions::default())?;
    let mut state_tangents = Vec::new();
    if !tangents.is_empty() {
        let n_states = start.states.len();
        let n = n_states + start.unknowns.len();
        let point = Point {
            time,
            states: &start.states,
            unknowns: &start.unknowns,
            parameters: &start.parameters,
            inputs,
            modes: &modes,
        };
        let mut evaluator = system.evaluator();
        let groups: [(Part, Option<Part>, Part, Option<Part>); 3] = [
            (
                Part::ResidualByStates,
                Some(Part::ResidualByUnknowns),
                Part::ResidualByParameters,
                Some(Part::ResidualByInputs),
            ),
            (Part::ConstraintByStates, None, Part::ConstraintByParameters, Some(Part::ConstraintByInputs)),
            (Part::InitialByStates, Some(Part::InitialByUnknowns), Part::InitialByParameters, None),
        ];
        let n_rows: usize = groups.iter().map(|group| system.pattern(group.0).n_rows).sum();
        let mut matrix = Mat::<f64>::zeros(n_rows, n);
        let mut rhs = Mat::<f64>::zeros(n_rows, tangents.len());
        let description = system.description();
        let nominal: Vec<f64> =
            description.states.iter().chain(&description.unknowns).map(|quantity| quantity.nominal).collect();
        let mut first = 0;
        for (by_states, by_unknowns, by_parameters, by_inputs) in groups {
            let mut entries = |part: Part, each: &mut dyn FnMut(usize, usize, f64)| {
                let pattern = system.pattern(part);
                let mut values = vec![0.0; pattern.n_entries()];
                evaluator.evaluate(part, &point, &mut values);
                for ((row, column), value) in pattern.entries().zip(values) {
                    each(row, column, value);
                }
            };
            entries(by_states, &mut |row, column, value| matrix[(first + row, column)] = value * nominal[column]);
            if let Some(part) = by_unknowns {
                entries(part, &mut |row, column, value| {
                    matrix[(first + row, n_states + column)] = value * nominal[n_states + column];
                });
            }
            entries(by_parameters, &mut |row, column, value| {
                for (direction, tangent) in tangents.iter().enumerate() {
                    rhs[(first + row, direction)] -= value * tangent[column];
                }
            });
            if let Some(part) = by_inputs {
                entries(part, &mut |row, column, value| {
                    for (direction, tangent) in input_tangents.iter().enumerate() {
                        rhs[(first + row, direction)] -= value * tangent.get(column).copied().unwrap_or(0.0);
                    }
                });
            }
            first += system.pattern(by_states).n_rows;
        }
        for row in 0..n_rows {
            let size = (0..n).fold(0.0f64, |size, column| size.max(matrix[(row, column)].abs()));
            if size > 0.0 && size.is_finite() {
                (0..n).for_each(|column| matrix[(row, column)] /= size);
                (0..tangents.len()).for_each(|column| rhs[(row, column)] /= size);
            }
        }
        let solution = least_change(&matrix, &rhs);
        state_tangents = (0..tangents.len())
            .map(|direction| (0..n_states).map(|state| solution[(state, direction)] * nominal[state]).collect())
            .collect();
    }
    Ok(StartSensitivity { states: start.states, unknowns: start.unknowns, state_tangents })
}

/// The solution of least norm, redundant rows allowed.
fn least_change(matrix: &Mat<f64>, rhs: &Mat<f64>) -> Mat<f64> {
    let zeros = || Mat::zeros(matrix.ncols(), rhs.ncols());
    if matrix.nrows() == 0 || matrix.ncols() == 0 {
        return zeros();
    }
    let Ok(svd) = Svd::new_thin(matrix.as_ref()) else { return zeros() };
    let singular = svd.S().column_vector();
    let largest = singular.iter().fold(0.0f64, |largest, &value| largest.max(value));
    let projected = svd.U().transpose() * rhs;
    let scaled = Mat::from_fn(projected.nrows(), projected.ncols(), |row, column| {
        if singular[row] > 1e-11 * largest { projected[(row, column)] / singular[row] } else { 0.0 }
    });
    svd.V() * scaled
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
