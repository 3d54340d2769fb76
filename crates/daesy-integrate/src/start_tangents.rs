//! How consistent start values follow parameters, inputs and given start values.
//!
//! With z = (s, v, parameters that the start determines) and r(z; p, u) = 0 the rows of the start that hold (module
//! `initialize`: what is demanded, and the wishes for start values that were granted),
//!
//! ```text
//! r_z z' = -(r_p p' + r_u u')
//! ```
//!
//! which is exact: as many rows as columns. A wish that happens to hold though it was not granted does not count, as
//! the ones before it determine the start. Where the rows leave something open the change is the least one.
//!
//! A start value of a state moves alone as far as what is demanded lets it: the conditions that contain it are set
//! aside, and the other states follow by the least change.

use daesy_system::{DaeSystem, Part};

use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::initialize::choice::{Choice, Square, choose_by_numbers, choose_by_structure};
use crate::initialize::newton::{Search, fill_step};
use crate::initialize::problem::{Problem, ROWS, Values};
use crate::initialize::{InitializeOptions, Initialized, start_weights};
use crate::linear::LinearSolver;

/// What a solution is differentiated by.
#[derive(Clone, PartialEq, Debug)]
pub enum Direction {
    /// A change of all parameters at once, one entry each; see [`parameter_direction`].
    Parameters(Vec<f64>),
    /// The start value of the state at this position. Start conditions that contain it are set aside, the others are
    /// kept, and the remaining states follow by the least change.
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
    let around = Surroundings { time, parameters: &start.parameters, inputs, modes };
    let mut changes = Changes::new(&problem, start, &around);
    let mut tangents = Vec::with_capacity(directions.len());
    for direction in directions {
        tangents.push(match direction {
            Direction::Parameters(change) => changes.along(change, &[])?,
            Direction::Start(state) => changes.with_start(*state as usize)?,
        });
    }
    Ok(tangents)
}

/// How a start follows changes.
pub(crate) struct Changes<'p, 's> {
    search: Search<'p, 's>,
    start: &'p Initialized,
    around: Surroundings<'p>,
    z: Vec<f64>,
    rule: Option<Rule>,
}

/// Which rows determine the change.
enum Rule {
    /// As many as there are columns.
    Square { choice: Choice, square: Square, solver: LinearSolver<f64> },
    /// Some; the change is the least.
    LeastChange { is_active: Vec<bool>, solver: LinearSolver<f64> },
}

impl<'p, 's> Changes<'p, 's> {
    pub(crate) fn new(problem: &'p Problem<'s>, start: &'p Initialized, around: &Surroundings<'p>) -> Self {
        let mut search = Search::new(Values::new(problem, around), InitializeOptions::default());
        let free = problem.free.iter().map(|&parameter| start.parameters[parameter as usize]);
        let z: Vec<f64> = start.states.iter().chain(&start.unknowns).copied().chain(free).collect();
        search.evaluate(&z);
        Self { search, start, around: *around, z, rule: None }
    }

    fn singular(&self, column: Option<usize>) -> IntegrateError {
        self.search.problem().singular(self.around.time, column)
    }

    /// The change of the start along a change of all parameters, and one of the inputs where there is one.
    pub(crate) fn along(&mut self, change: &[f64], inputs: &[f64]) -> Result<StartTangent, IntegrateError> {
        let drive = self.drive(change, inputs);
        let rule = match self.rule.take() {
            Some(rule) => rule,
            None => self.rule().map_err(|column| self.singular(column))?,
        };
        let rule = self.rule.insert(rule);
        let step = rule.solve(&self.search, &drive);
        let step = step.map_err(|column| self.search.problem().singular(self.around.time, column))?;
        Ok(self.tangent(&step, change.to_vec()))
    }

    /// r_p dp + r_u du, parameters that the start determines held.
    fn drive(&self, change: &[f64], inputs: &[f64]) -> Vec<f64> {
        let problem = self.search.problem();
        let system = problem.system;
        let free = &problem.free;
        let mut evaluator = system.evaluator();
        let point = self.around.point(&self.start.states, &self.start.unknowns);
        let mut drive = Vec::with_capacity(problem.n_rows());
        for rows in &ROWS {
            let first = drive.len();
            if first == problem.n_rows() {
                break;
            }
            drive.resize(first + system.pattern(rows.part).n_rows, 0.0);
            let mut add = |part: Part, change: &dyn Fn(usize) -> f64| {
                let pattern = system.pattern(part);
                let mut values = vec![0.0; pattern.n_entries()];
                evaluator.evaluate(part, &point, &mut values);
                for ((row, column), value) in pattern.entries().zip(values) {
                    drive[first + row] += value * change(column);
                }
            };
            add(rows.by_parameters, &|column| if free.contains(&(column as u32)) { 0.0 } else { change[column] });
            if let (Some(part), false) = (rows.by_inputs, inputs.is_empty()) {
                add(part, &|column| inputs.get(column).copied().unwrap_or(0.0));
            }
        }
        drive.resize(problem.n_rows(), 0.0);
        drive
    }

    /// The rows that hold at the start and are independent.
    fn rule(&self) -> Result<Rule, Option<usize>> {
        let problem = self.search.problem();
        let counts = |row: usize| row < problem.n_demanded || self.search.holds(&self.z, row);
        let mut jacobian = self.search.jacobian.clone();
        for row in (0..problem.n_rows()).filter(|&row| !counts(row)) {
            jacobian[problem.pattern.row(row)].fill(0.0);
        }
        let is_entry: Vec<bool> = jacobian.iter().map(|value| *value != 0.0).collect();
        let mut choice = choose_by_structure(problem, &is_entry);
        let mut is_regular = self.search.is_regular(&choice);
        if !is_regular && let Some(by_numbers) = choose_by_numbers(problem, &jacobian) {
            choice = by_numbers;
            is_regular = self.search.is_regular(&choice);
        }
        if is_regular && choice.kept.is_empty() {
            let square = choice.square(problem);
            let mut solver = LinearSolver::new(&square.pattern).map_err(|error| error.column)?;
            solver.factor(&self.search.square_matrix(&choice, &square)).map_err(|error| error.column)?;
            return Ok(Rule::Square { choice, square, solver });
        }
        let is_active = choice.is_active;
        let mut solver = LinearSolver::new(&problem.step_pattern()).map_err(|error| error.column)?;
        let mut values = Vec::new();
        let scales = active_scales(&self.search, &is_active);
        let weights = start_weights(problem);
        fill_step(problem, &self.search.jacobian, &self.search.scales, &weights, &scales, &mut values);
        solver.factor(&values).map_err(|error| error.column)?;
        Ok(Rule::LeastChange { is_active, solver })
    }

    /// The change of the start with the start value of a state.
    fn with_start(&mut self, state: usize) -> Result<StartTangent, IntegrateError> {
        let problem = self.search.problem();
        let n_before = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let pattern = &problem.pattern;
        let contains = |row: usize| pattern.columns[pattern.row(row)].iter().any(|&column| column as usize == state);
        let is_active: Vec<bool> =
            (0..problem.n_rows()).map(|row| row < n_before || row < problem.n_demanded && !contains(row)).collect();
        let mut weights = start_weights(problem);
        weights[state] = INSISTED;
        let scales = active_scales(&self.search, &is_active);
        let mut values = Vec::new();
        fill_step(problem, &self.search.jacobian, &self.search.scales, &weights, &scales, &mut values);
        let mut rhs = vec![0.0; problem.n_cols() + problem.n_rows()];
        rhs[state] = INSISTED * INSISTED / self.search.scales[state];
        LinearSolver::new(&problem.step_pattern())
            .and_then(|mut solver| solver.factor(&values).and_then(|()| solver.solve(&mut rhs)))
            .map_err(|error| self.singular(error.column))?;
        let step: Vec<f64> = self.search.scales.iter().zip(&rhs).map(|(scale, value)| scale * value).collect();
        Ok(self.tangent(&step, vec![0.0; self.start.parameters.len()]))
    }

    fn tangent(&self, step: &[f64], mut parameters: Vec<f64>) -> StartTangent {
        let problem = self.search.problem();
        let (states, rest) = step.split_at(problem.n_states);
        let (unknowns, free) = rest.split_at(problem.n_unknowns);
        for (&parameter, &value) in problem.free.iter().zip(free) {
            parameters[parameter as usize] = value;
        }
        StartTangent { states: states.to_vec(), unknowns: unknowns.to_vec(), parameters }
    }
}

/// Scales of the rows that count, zero for others.
fn active_scales(search: &Search<'_, '_>, is_active: &[bool]) -> Vec<f64> {
    search.row_scales.iter().zip(is_active).map(|(&scale, &active)| if active { scale } else { 0.0 }).collect()
}

impl Rule {
    /// The change of all columns that answers a drive of the rows.
    fn solve(&mut self, search: &Search<'_, '_>, drive: &[f64]) -> Result<Vec<f64>, Option<usize>> {
        let scales = &search.scales;
        let mut step = vec![0.0; scales.len()];
        match self {
            Self::Square { choice, square, solver } => {
                let mut rhs: Vec<f64> = choice.rows.iter().map(|&row| -drive[row] * search.row_scales[row]).collect();
                solver.solve(&mut rhs).map_err(|error| error.column)?;
                for (&column, value) in square.columns.iter().zip(rhs) {
                    step[column] = value * scales[column];
                }
            }
            Self::LeastChange { is_active, solver } => {
                let mut rhs = vec![0.0; step.len()];
                let of_row = |(&drive, &scale): (&f64, &f64)| if scale == 0.0 { 0.0 } else { -drive * scale };
                rhs.extend(drive.iter().zip(&active_scales(search, is_active)).map(of_row));
                solver.solve(&mut rhs).map_err(|error| error.column)?;
                for (at, value) in step.iter_mut().enumerate() {
                    *value = rhs[at] * scales[at];
                }
            }
        }
        Ok(step)
    }
}

/// How all parameters change with one of them, dependent ones included: by central differences of two step sizes,
/// extrapolated.
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
