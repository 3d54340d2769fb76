//! How consistent start values follow parameters and given start values.
//!
//! With z = (s, v, free parameters), r(z; p) = 0 the conditions of the start and z0 the given values, the least change
//! (module `initialize`) gives, to first order and with the curvature of r left out,
//!
//! ```text
//! [ D^2  J^T ] [ dz     ]   [ D^2 dz0 ]
//! [ J   -eps ] [ lambda ] = [ -r_p dp ]
//! ```
//!
//! which is exact wherever the conditions leave nothing to choose, or the given values were consistent already.

use daesy_system::{DaeSystem, Part, StartOrigin};

use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::initialize::{DEFAULT_WEIGHT, Initialized, Problem, ROWS, UNKNOWN_WEIGHT, fill_step};
use crate::linear::LinearSolver;

/// What a solution is differentiated by.
#[derive(Clone, PartialEq, Debug)]
pub enum Direction {
    /// A change of all parameters at once, one entry each; see [`parameter_direction`].
    Parameters(Vec<f64>),
    /// The start value of the state at this position. Start conditions that contain it are set aside, the others are kept, and the
    /// remaining states follow by the least change.
    Start(u32),
}

/// The first-order change of a consistent point.
#[derive(Clone, PartialEq, Debug)]
pub struct StartTangent {
    /// Change of the states.
    pub states: Vec<f64>,
    /// Change of the unknowns.
    pub unknowns: Vec<f64>,
    /// Change of the parameters, those that the start conditions determine included.
    pub parameters: Vec<f64>,
}

/// Weight of a start value that is differentiated by.
const INSISTED: f64 = 1e4;

/// How consistent start values change in each of the directions.
///
/// # Errors
/// When the matrix of the start conditions is singular.
pub fn start_tangents(
    system: &dyn DaeSystem,
    start: &Initialized,
    time: f64,
    inputs: &[f64],
    modes: &[f64],
    directions: &[Direction],
) -> Result<Vec<StartTangent>, IntegrateError> {
    let problem = Problem::new(system);
    let description = system.description();
    let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
    let (n_rows, n_cols) = (problem.pattern.n_rows, problem.pattern.n_cols);
    let around = Surroundings { time, parameters: &start.parameters, inputs, modes };
    let point = around.point(&start.states, &start.unknowns);
    let mut evaluator = system.evaluator();
    let mut jacobian = vec![0.0; problem.pattern.n_entries()];
    let mut scratch = Vec::new();
    for (part, places) in &problem.places {
        scratch.resize(places.len(), 0.0);
        evaluator.evaluate(*part, &point, &mut scratch);
        for (&place, &value) in places.iter().zip(&scratch) {
            if place != u32::MAX {
                jacobian[place as usize] = value;
            }
        }
    }
    let quantities = description.states.iter().chain(&description.unknowns);
    let mut scales: Vec<f64> = quantities.clone().map(|quantity| quantity.nominal).collect();
    let mut weights: Vec<f64> = quantities
        .enumerate()
        .map(|(at, quantity)| {
            let weight = if quantity.start_origin == StartOrigin::Default { DEFAULT_WEIGHT } else { 1.0 };
            if at < n_states { weight } else { weight * UNKNOWN_WEIGHT }
        })
        .collect();
    for &parameter in &problem.free {
        let value = start.parameters[parameter as usize];
        scales.push(if value == 0.0 { 1.0 } else { value.abs() });
        weights.push(UNKNOWN_WEIGHT);
    }
    let row_scales: Vec<f64> = (0..n_rows)
        .map(|row| {
            let entries = problem.pattern.row(row);
            let sum: f64 =
                entries.map(|entry| (jacobian[entry] * scales[problem.pattern.columns[entry] as usize]).powi(2)).sum();
            if sum > 0.0 { 1.0 / sum.sqrt() } else { 1.0 }
        })
        .collect();
    let n_before_initial = n_rows - system.pattern(Part::Initial).n_rows;
    let singular = |column: Option<usize>| {
        let name = column.and_then(|at| description.states.iter().chain(&description.unknowns).nth(at));
        IntegrateError::Singular { time, variable: name.map_or(String::new(), |quantity| quantity.name.clone()) }
    };
    let mut solver = LinearSolver::new(&problem.step_pattern()).map_err(|error| singular(error.column))?;
    let mut values = Vec::new();
    let mut is_factored = false;
    let mut tangents = Vec::with_capacity(directions.len());
    for direction in directions {
        let mut rhs = vec![0.0; n_cols + n_rows];
        match direction {
            Direction::Parameters(change) => {
                let by_parameters = rows_by_parameters(system, &mut *evaluator, &point, change);
                for row in 0..n_rows {
                    rhs[n_cols + row] = -by_parameters[row] * row_scales[row];
                }
                if !is_factored {
                    fill_step(&problem, &jacobian, &scales, &weights, &row_scales, &mut values);
                    solver.factor(&values).map_err(|error| singular(error.column))?;
                    is_factored = true;
                }
            }
            Direction::Start(state) => {
                let state = *state as usize;
                let contains = |row: usize| {
                    row >= n_before_initial
                        && problem.pattern.row(row).any(|entry| problem.pattern.columns[entry] as usize == state)
                };
                let own_scales: Vec<f64> =
                    (0..n_rows).map(|row| if contains(row) { 0.0 } else { row_scales[row] }).collect();
                let mut own_weights = weights.clone();
                own_weights[state] = INSISTED;
                fill_step(&problem, &jacobian, &scales, &own_weights, &own_scales, &mut values);
                solver.factor(&values).map_err(|error| singular(error.column))?;
                is_factored = false;
                rhs[state] = INSISTED * INSISTED / scales[state];
            }
        }
        solver.solve(&mut rhs).map_err(|error| singular(error.column))?;
        let scaled = |at: usize| rhs[at] * scales[at];
        let mut parameters = match direction {
            Direction::Parameters(change) => change.clone(),
            Direction::Start(_) => vec![0.0; start.parameters.len()],
        };
        for (at, &parameter) in problem.free.iter().enumerate() {
            parameters[parameter as usize] = scaled(n_states + n_unknowns + at);
        }
        tangents.push(StartTangent {
            states: (0..n_states).map(scaled).collect(),
            unknowns: (n_states..n_states + n_unknowns).map(scaled).collect(),
            parameters,
        });
    }
    Ok(tangents)
}

/// r_p dp, free parameters held.
fn rows_by_parameters(
    system: &dyn DaeSystem,
    evaluator: &mut dyn daesy_system::Evaluator,
    point: &daesy_system::Point<'_>,
    change: &[f64],
) -> Vec<f64> {
    let free = &system.description().free_parameters;
    let mut products = Vec::new();
    for rows in &ROWS {
        let pattern = system.pattern(rows.by_parameters);
        let mut values = vec![0.0; pattern.n_entries()];
        evaluator.evaluate(rows.by_parameters, point, &mut values);
        for row in 0..pattern.n_rows {
            let entries = pattern.row(row).filter(|&entry| !free.contains(&pattern.columns[entry]));
            products.push(entries.map(|entry| values[entry] * change[pattern.columns[entry] as usize]).sum());
        }
    }
    products
}

/// How all parameters change with one of them, dependent ones included: by central differences of two step sizes, extrapolated.
///
/// # Errors
/// When parameters have no finite values beside the given ones.
pub fn parameter_direction(
    system: &dyn DaeSystem,
    given: &[daesy_system::GivenParameter],
    parameter: u32,
) -> Result<Vec<f64>, daesy_system::ParameterError> {
    let here = system.parameter_values(given)?;
    let value = here[parameter as usize];
    let others: Vec<_> = given.iter().copied().filter(|given| given.parameter != parameter).collect();
    let difference = |step: f64| {
        let at = |value: f64| {
            let mut given = others.clone();
            given.push(daesy_system::GivenParameter { parameter, value });
            system.parameter_values(&given)
        };
        let (up, down) = (at(value + step)?, at(value - step)?);
        let width = (value + step) - (value - step);
        Ok(up.iter().zip(&down).map(|(up, down)| (up - down) / width).collect::<Vec<f64>>())
    };
    let step = 1e-3 * if value == 0.0 { 1.0 } else { value.abs() };
    let (wide, narrow) = (difference(step)?, difference(0.5 * step)?);
    let mut direction: Vec<f64> = wide.iter().zip(&narrow).map(|(wide, narrow)| (4.0 * narrow - wide) / 3.0).collect();
    direction[parameter as usize] = 1.0;
    Ok(direction)
}
