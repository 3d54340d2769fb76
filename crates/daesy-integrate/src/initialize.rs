//! Consistent start values: what is insisted on is kept, what the equations demand is solved, the rest changes as little as possible.
//!
//! With z = (s, v, free parameters) and r(z) = 0 all of F = 0, g = 0 and the start conditions, each Newton step solves
//!
//! ```text
//! minimize |D (z + dz - z0)|  subject to  J dz = -r(z)        [ D^2  J^T ] [ dz     ]   [ D^2 (z0 - z) ]
//!                                                             [ J   -eps ] [ lambda ] = [ -r           ]
//! ```
//!
//! where z0 are the given start values and D weighs them: a guess by the user weighs more than the default zero, a state more than an
//! unknown. The step is damped until the residuals shrink. Before that the unknowns are solved at the given states; where this satisfies
//! everything, no state changes at all.
//!
//! Where nothing is left to choose the step is simply J dz = -r: either r has as many rows as z, or there are no constraints and no
//! start conditions, so that the states keep their given values and F = 0 determines v. Both are sparse systems of moderate fill,
//! which the bordered one is not; they are tried first, and left for it if their matrix is singular.

use daesy_system::{DaeSystem, Part, Pattern, StartOrigin};

use crate::block_solve::solve_by_blocks;
use crate::culprit::{CONDITIONS, CONSTRAINTS, Culprit, RESIDUALS, find_culprit};
use crate::equations::Surroundings;
use crate::error::{EquationOff, IntegrateError};
use crate::linear::LinearSolver;
use crate::slopes::mend;

/// How start values are searched.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InitializeOptions {
    /// Scaled residuals below this count as zero.
    pub tolerance: f64,
    /// Newton steps before giving up.
    pub max_iterations: usize,
}

impl Default for InitializeOptions {
    fn default() -> Self {
        Self { tolerance: 1e-10, max_iterations: 60 }
    }
}

/// Consistent start values.
#[derive(Clone, PartialEq, Debug)]
pub struct Initialized {
    /// States.
    pub states: Vec<f64>,
    /// Unknowns.
    pub unknowns: Vec<f64>,
    /// Parameters, those that the start conditions determine included.
    pub parameters: Vec<f64>,
    /// Newton steps taken.
    pub iterations: usize,
    /// Largest scaled residual left.
    pub residual: f64,
}

/// Weight of a default start value against a user's guess.
pub(crate) const DEFAULT_WEIGHT: f64 = 1e-2;

/// Weight of an unknown's start value against a state's.
pub(crate) const UNKNOWN_WEIGHT: f64 = 1e-3;

/// Regularization against redundant conditions, relative to rows of norm one.
const REDUNDANCY: f64 = 1e-12;

/// How often a failed search begins again beside the given values.
const MAX_REPETITIONS: usize = 3;

/// Larger systems are searched once.
const MAX_UNKNOWNS_TO_REPEAT: usize = 3000;

/// Rows of the start problem: a part of the system with its derivative parts.
pub(crate) struct Rows {
    part: Part,
    by_states: Part,
    by_unknowns: Option<Part>,
    pub(crate) by_parameters: Part,
}

pub(crate) const ROWS: [Rows; 3] = [
    Rows {
        part: Part::Residual,
        by_states: Part::ResidualByStates,
        by_unknowns: Some(Part::ResidualByUnknowns),
        by_parameters: Part::ResidualByParameters,
    },
    Rows {
        part: Part::Constraint,
        by_states: Part::ConstraintByStates,
        by_unknowns: None,
        by_parameters: Part::ConstraintByParameters,
    },
    Rows {
        part: Part::Initial,
        by_states: Part::InitialByStates,
        by_unknowns: Some(Part::InitialByUnknowns),
        by_parameters: Part::InitialByParameters,
    },
];

pub(crate) struct Problem<'s> {
    system: &'s dyn DaeSystem,
    n_states: usize,
    n_unknowns: usize,
    pub(crate) free: Vec<u32>,
    /// Jacobian of all rows by (s, v, free parameters).
    pub(crate) pattern: Pattern,
    /// For each of the nine derivative parts the place of each entry in `pattern`; `u32::MAX` for fixed parameters.
    pub(crate) places: Vec<(Part, Vec<u32>)>,
}

impl<'s> Problem<'s> {
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Self {
        let description = system.description();
        let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
        let free = description.free_parameters.clone();
        let mut column_of_parameter = vec![u32::MAX; description.parameters.len()];
        for (at, &parameter) in free.iter().enumerate() {
            column_of_parameter[parameter as usize] = (n_states + n_unknowns + at) as u32;
        }
        let n_cols = n_states + n_unknowns + free.len();
        let n_entries = |part: Part| system.pattern(part).n_entries();
        let of_rows = |rows: &Rows| n_entries(rows.by_states) + rows.by_unknowns.map_or(0, n_entries);
        let mut pattern = Pattern {
            n_rows: 0,
            n_cols,
            row_starts: Vec::with_capacity(1 + ROWS.iter().map(|rows| system.pattern(rows.part).n_rows).sum::<usize>()),
            columns: Vec::with_capacity(ROWS.iter().map(of_rows).sum()),
        };
        pattern.row_starts.push(0);
        let mut places = Vec::with_capacity(3 * ROWS.len());
        for rows in &ROWS {
            let n_rows = system.pattern(rows.part).n_rows;
            let empty = |part: Part| (part, Vec::with_capacity(n_entries(part)));
            let mut parts: Vec<(Part, Vec<u32>)> = vec![empty(rows.by_states)];
            parts.extend(rows.by_unknowns.map(empty));
            if !free.is_empty() {
                parts.push(empty(rows.by_parameters));
            }
            for row in 0..n_rows {
                for (part, places) in &mut parts {
                    let source = system.pattern(*part);
                    for entry in source.row(row) {
                        let column = source.columns[entry];
                        let column = if *part == rows.by_states {
                            column
                        } else if Some(*part) == rows.by_unknowns {
                            column + n_states as u32
                        } else {
                            column_of_parameter[column as usize]
                        };
                        if column == u32::MAX {
                            places.push(u32::MAX);
                        } else {
                            places.push(pattern.columns.len() as u32);
                            pattern.columns.push(column);
                        }
                    }
                }
                pattern.row_starts.push(pattern.columns.len() as u32);
            }
            pattern.n_rows += n_rows;
            places.extend(parts);
        }
        Self { system, n_states, n_unknowns, free, pattern, places }
    }

    /// The first column that a square step solves for, where the step is square.
    fn square_from(&self) -> Option<usize> {
        let (n_rows, n_cols) = (self.pattern.n_rows, self.pattern.n_cols);
        if n_rows == n_cols {
            Some(0)
        } else if n_rows == self.n_unknowns && self.free.is_empty() {
            Some(self.n_states)
        } else {
            None
        }
    }

    /// The entries of the Jacobian from a column on, columns counted from there.
    fn square_pattern(&self, first_column: usize) -> Pattern {
        let n = self.pattern.n_rows;
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        for row in 0..n {
            let columns = self.pattern.row(row).map(|entry| self.pattern.columns[entry] as usize);
            pattern
                .columns
                .extend(columns.filter(|&column| column >= first_column).map(|column| (column - first_column) as u32));
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        pattern
    }

    /// The matrix of the least-change step: diagonal, transpose, rows, diagonal.
    pub(crate) fn step_pattern(&self) -> Pattern {
        let (n, m) = (self.pattern.n_cols, self.pattern.n_rows);
        let mut by_column: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (row, column) in self.pattern.entries() {
            by_column[column].push(row as u32);
        }
        let mut pattern = Pattern { n_rows: n + m, n_cols: n + m, row_starts: vec![0], columns: Vec::new() };
        for (column, rows) in by_column.iter().enumerate() {
            pattern.columns.push(column as u32);
            pattern.columns.extend(rows.iter().map(|row| n as u32 + row));
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        for row in 0..m {
            pattern.columns.extend(self.pattern.row(row).map(|entry| self.pattern.columns[entry]));
            pattern.columns.push((n + row) as u32);
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        pattern
    }

    fn label(&self, row: usize) -> (String, String) {
        let description = self.system.description();
        let label = description.residuals.iter().chain(&description.constraints).chain(&description.initial).nth(row);
        label.map_or_else(Default::default, |label| (label.text.clone(), label.place.clone()))
    }
}

/// Finds consistent start values near the given ones. Where the search ends at a point that leads nowhere, it begins again a little
/// beside the given values.
///
/// # Errors
/// When none are found; the error names the equation that is farthest off.
pub fn initialize(
    system: &dyn DaeSystem,
    time: f64,
    parameters: &[f64],
    inputs: &[f64],
    modes: &[f64],
    options: &InitializeOptions,
) -> Result<Initialized, IntegrateError> {
    initialize_from(system, time, parameters, inputs, modes, options, None)
}

/// The same, beginning at values that were consistent under other circumstances.
pub(crate) fn initialize_from(
    system: &dyn DaeSystem,
    time: f64,
    parameters: &[f64],
    inputs: &[f64],
    modes: &[f64],
    options: &InitializeOptions,
    near: Option<&Initialized>,
) -> Result<Initialized, IntegrateError> {
    if let Some(near) = near {
        let found = initialize_once(system, time, parameters, inputs, modes, options, &Beginning::Near(near));
        if found.is_ok() {
            return found;
        }
    }
    let first = initialize_once(system, time, parameters, inputs, modes, options, &Beginning::Given);
    if first.is_ok() || system.description().unknowns.len() > MAX_UNKNOWNS_TO_REPEAT {
        return first;
    }
    let again = (1..=MAX_REPETITIONS).find_map(|attempt| {
        initialize_once(system, time, parameters, inputs, modes, options, &Beginning::Beside(attempt)).ok()
    });
    again.map_or(first, Ok)
}

/// Where a search begins.
enum Beginning<'a> {
    /// At the given start values.
    Given,
    /// A little beside them, each time elsewhere.
    Beside(usize),
    /// At values that were consistent under other circumstances.
    Near(&'a Initialized),
}

/// States that start conditions such as `x = 1` give directly; true for each of them.
fn set_states_directly(
    system: &dyn DaeSystem,
    time: f64,
    parameters: &[f64],
    inputs: &[f64],
    modes: &[f64],
    states: &mut [f64],
) -> Vec<bool> {
    let by_states = system.pattern(Part::InitialByStates);
    let by_unknowns = system.pattern(Part::InitialByUnknowns);
    let unknowns: Vec<f64> = system.description().unknowns.iter().map(|unknown| unknown.start).collect();
    let mut residual = vec![0.0; by_states.n_rows];
    let mut derivatives = vec![0.0; by_states.n_entries()];
    let mut evaluator = system.evaluator();
    let around = Surroundings { time, parameters, inputs, modes };
    let point = around.point(states, &unknowns);
    evaluator.evaluate(Part::Initial, &point, &mut residual);
    evaluator.evaluate(Part::InitialByStates, &point, &mut derivatives);
    let mut is_given = vec![false; states.len()];
    for row in 0..by_states.n_rows {
        let entries = by_states.row(row);
        if entries.len() == 1 && by_unknowns.row(row).is_empty() {
            let step = -residual[row] / derivatives[entries.start];
            if step.is_finite() {
                let state = by_states.columns[entries.start] as usize;
                states[state] += step;
                is_given[state] = true;
            }
        }
    }
    is_given
}

#[allow(clippy::too_many_arguments)]
fn initialize_once(
    system: &dyn DaeSystem,
    time: f64,
    parameters: &[f64],
    inputs: &[f64],
    modes: &[f64],
    options: &InitializeOptions,
    beginning: &Beginning<'_>,
) -> Result<Initialized, IntegrateError> {
    let problem = Problem::new(system);
    let description = system.description();
    let (n_states, n_unknowns) = (problem.n_states, problem.n_unknowns);
    let quantities: Vec<_> = description.states.iter().chain(&description.unknowns).collect();
    let mut scales: Vec<f64> = quantities.iter().map(|quantity| quantity.nominal).collect();
    let mut weights: Vec<f64> = quantities
        .iter()
        .enumerate()
        .map(|(at, quantity)| {
            let weight = if quantity.start_origin == StartOrigin::Default { DEFAULT_WEIGHT } else { 1.0 };
            if at < n_states { weight } else { weight * UNKNOWN_WEIGHT }
        })
        .collect();
    let mut start: Vec<f64> = quantities.iter().map(|quantity| quantity.start).collect();
    for &parameter in &problem.free {
        let value = parameters[parameter as usize];
        start.push(value);
        scales.push(if value == 0.0 { 1.0 } else { value.abs() });
        weights.push(UNKNOWN_WEIGHT);
    }
    let mut parameters = parameters.to_vec();
    let mut z = start.clone();
    let mut evaluator = system.evaluator();
    let n_rows = problem.pattern.n_rows;
    let n_cols = problem.pattern.n_cols;
    let mut residual = vec![0.0; n_rows];
    let mut jacobian = vec![0.0; problem.pattern.n_entries()];
    let mut scratch = Vec::new();
    let mut square_from = problem.square_from();
    let pattern_of = |square_from: Option<usize>| match square_from {
        Some(first_column) => problem.square_pattern(first_column),
        None => problem.step_pattern(),
    };
    let mut solver: Option<LinearSolver<f64>> = None;
    let mut values = Vec::new();
    let mut rhs = vec![0.0; n_cols + n_rows];
    let mut row_scales = vec![1.0; n_rows];

    let mut evaluate_residual = |z: &[f64], parameters: &mut [f64], residual: &mut [f64]| {
        for (at, &parameter) in problem.free.iter().enumerate() {
            parameters[parameter as usize] = z[n_states + n_unknowns + at];
        }
        let around = Surroundings { time, parameters, inputs, modes };
        let point = around.point(&z[..n_states], &z[n_states..n_states + n_unknowns]);
        let mut at = 0;
        for rows in &ROWS {
            let n = system.pattern(rows.part).n_rows;
            evaluator.evaluate(rows.part, &point, &mut residual[at..at + n]);
            at += n;
        }
    };
    let is_given = set_states_directly(system, time, &parameters, inputs, modes, &mut z[..n_states]);
    start[..n_states].copy_from_slice(&z[..n_states]);
    if let Beginning::Near(near) = beginning {
        z[..n_states].copy_from_slice(&near.states);
        z[n_states..n_states + n_unknowns].copy_from_slice(&near.unknowns);
        for (at, &parameter) in problem.free.iter().enumerate() {
            z[n_states + n_unknowns + at] = near.parameters[parameter as usize];
        }
        // States that start conditions give directly have their values from those.
        set_states_directly(system, time, &parameters, inputs, modes, &mut z[..n_states]);
    }
    if let Beginning::Beside(attempt) = *beginning {
        // What start conditions give is no guess: where equations have no value there, the model is at fault.
        let is_guess = |at: usize| !is_given.get(at).copied().unwrap_or(false);
        for (at, value) in z[..n_states + n_unknowns].iter_mut().enumerate().filter(|(at, _)| is_guess(*at)) {
            // Any direction will do, but the same on every machine.
            let sign = if (at + attempt).is_multiple_of(2) { -1.0 } else { 1.0 };
            *value += sign * 0.07 * attempt as f64 * value.abs().max(0.3 * scales[at]);
        }
    }
    {
        // The given states are kept as they are if nothing speaks against them; if something does, the unknowns that follow from them
        // are still the best place to search from.
        let around = Surroundings { time, parameters: &parameters, inputs, modes };
        let mut unknowns = z[n_states..n_states + n_unknowns].to_vec();
        if solve_by_blocks(system, &around, &z[..n_states], &mut unknowns) {
            for (at, quantity) in description.unknowns.iter().enumerate() {
                z[n_states + at] = unknowns[at];
                if quantity.start_origin == StartOrigin::Default {
                    start[n_states + at] = unknowns[at];
                }
            }
        }
    }
    evaluate_residual(&z, &mut parameters, &mut residual);
    let mut jacobian_evaluator = system.evaluator();
    let mut last_size = f64::INFINITY;
    for iteration in 0..=options.max_iterations {
        if let Some(row) = residual.iter().position(|value| !value.is_finite()) {
            return Err(not_finite(&problem, &Surroundings { time, parameters: &parameters, inputs, modes }, &z, row));
        }
        {
            let around = Surroundings { time, parameters: &parameters, inputs, modes };
            let point = around.point(&z[..n_states], &z[n_states..n_states + n_unknowns]);
            for (part, places) in &problem.places {
                scratch.resize(places.len(), 0.0);
                jacobian_evaluator.evaluate(*part, &point, &mut scratch);
                mend(system, &mut *jacobian_evaluator, *part, &point, &mut scratch);
                for (&place, &value) in places.iter().zip(&scratch) {
                    if place != u32::MAX {
                        jacobian[place as usize] = value;
                    }
                }
            }
        }
        if let Some(entry) = jacobian.iter().position(|value| !value.is_finite()) {
            let row = (0..n_rows).find(|&row| problem.pattern.row(row).contains(&entry)).unwrap_or(0);
            return Err(not_finite(&problem, &Surroundings { time, parameters: &parameters, inputs, modes }, &z, row));
        }
        for (row, row_scale) in row_scales.iter_mut().enumerate() {
            let norm = problem
                .pattern
                .row(row)
                .map(|entry| (jacobian[entry] * scales[problem.pattern.columns[entry] as usize]).powi(2))
                .sum::<f64>()
                .sqrt();
            *row_scale = if norm > 0.0 { 1.0 / norm } else { 1.0 };
        }
        let size = scaled_size(&residual, &row_scales);
        let is_settled = size <= options.tolerance || size <= 1e3 * options.tolerance && size >= 0.5 * last_size;
        if is_settled || iteration == options.max_iterations {
            if size <= 1e3 * options.tolerance {
                let unknowns = z[n_states..n_states + n_unknowns].to_vec();
                z.truncate(n_states);
                return Ok(Initialized { states: z, unknowns, parameters, iterations: iteration, residual: size });
            }
            return Err(inconsistent(&problem, time, &residual, &row_scales));
        }
        last_size = size;
        let mut analysed = match solver.take() {
            Some(solver) => solver,
            None => LinearSolver::new(&pattern_of(square_from)).map_err(|_| singular(&problem, time, None))?,
        };
        if let Some(first_column) = square_from {
            values.clear();
            let scaled = |row: usize, entry: usize| {
                let column = problem.pattern.columns[entry] as usize;
                (column >= first_column).then(|| jacobian[entry] * scales[column] * row_scales[row])
            };
            for row in 0..n_rows {
                values.extend(problem.pattern.row(row).filter_map(|entry| scaled(row, entry)));
            }
            rhs.fill(0.0);
            let solution = &mut rhs[first_column..first_column + n_rows];
            for (value, (residual, scale)) in solution.iter_mut().zip(residual.iter().zip(&row_scales)) {
                *value = -residual * scale;
            }
            if analysed.factor(&values).and_then(|()| analysed.solve(solution)).is_err() {
                square_from = None;
                analysed = LinearSolver::new(&pattern_of(None)).map_err(|_| singular(&problem, time, None))?;
            }
        }
        if square_from.is_none() {
            fill_step(&problem, &jacobian, &scales, &weights, &row_scales, &mut values);
            for column in 0..n_cols {
                rhs[column] = weights[column].powi(2) * (start[column] - z[column]) / scales[column];
            }
            for row in 0..n_rows {
                rhs[n_cols + row] = -residual[row] * row_scales[row];
            }
            analysed
                .factor(&values)
                .and_then(|()| analysed.solve(&mut rhs))
                .map_err(|error| singular(&problem, time, error.column))?;
        }
        solver = Some(analysed);
        let mut damping = 1.0;
        let mut trial = z.clone();
        let mut trial_residual = residual.clone();
        loop {
            for column in 0..n_cols {
                trial[column] = z[column] + damping * rhs[column] * scales[column];
            }
            evaluate_residual(&trial, &mut parameters, &mut trial_residual);
            let trial_size = scaled_size(&trial_residual, &row_scales);
            if trial_size <= (1.0 - 0.1 * damping) * size || trial_size <= options.tolerance {
                break;
            }
            if damping < 1e-4 {
                if size <= 1e3 * options.tolerance {
                    break;
                }
                return Err(inconsistent(&problem, time, &residual, &row_scales));
            }
            damping *= 0.5;
        }
        std::mem::swap(&mut z, &mut trial);
        std::mem::swap(&mut residual, &mut trial_residual);
    }
    Err(IntegrateError::TooManySteps { limit: options.max_iterations, time })
}

fn singular(problem: &Problem<'_>, time: f64, column: Option<usize>) -> IntegrateError {
    let description = problem.system.description();
    let name = column.and_then(|at| description.states.iter().chain(&description.unknowns).nth(at));
    IntegrateError::Singular { time, variable: name.map_or(String::new(), |quantity| quantity.name.clone()) }
}

fn scaled_size(residual: &[f64], row_scales: &[f64]) -> f64 {
    residual.iter().zip(row_scales).fold(0.0, |size: f64, (value, scale)| {
        let scaled = (value * scale).abs();
        if scaled.is_nan() { f64::INFINITY } else { size.max(scaled) }
    })
}

/// The failure of a search, with the equations that are farthest off.
/// Names the equation of a row and the variable that keeps it from having a value.
fn not_finite(problem: &Problem<'_>, around: &Surroundings<'_>, z: &[f64], row: usize) -> IntegrateError {
    let (equation, place) = problem.label(row);
    let mut first = 0;
    let mut culprit = Culprit::default();
    for family in [RESIDUALS, CONSTRAINTS, CONDITIONS] {
        let n_rows = problem.system.pattern(family.part).n_rows;
        if (first..first + n_rows).contains(&row) {
            let (states, rest) = z.split_at(problem.n_states);
            let unknowns = &rest[..problem.n_unknowns];
            culprit = find_culprit(problem.system, family, row - first, around, states, unknowns);
        }
        first += n_rows;
    }
    IntegrateError::NotFinite { time: around.time, equation, place, variable: culprit.name, value: culprit.value }
}

fn inconsistent(problem: &Problem<'_>, time: f64, residual: &[f64], row_scales: &[f64]) -> IntegrateError {
    let size = |row: usize| (residual[row] * row_scales[row]).abs();
    let mut rows: Vec<usize> = (0..residual.len()).collect();
    rows.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
    let worst = rows.first().map_or(0.0, |&row| size(row));
    let mut off = rows.iter().take(3).filter(|&&row| size(row) >= 1e-3 * worst).map(|&row| {
        let (equation, place) = problem.label(row);
        EquationOff { equation, place, residual: residual[row] }
    });
    let first = off.next();
    let (equation, place, residual) =
        first.map_or_else(Default::default, |first| (first.equation, first.place, first.residual));
    IntegrateError::NoConsistentStart { time, equation, place, residual, also: off.collect() }
}

pub(crate) fn fill_step(
    problem: &Problem<'_>,
    jacobian: &[f64],
    scales: &[f64],
    weights: &[f64],
    row_scales: &[f64],
    values: &mut Vec<f64>,
) {
    let n = problem.pattern.n_cols;
    let mut by_column: Vec<Vec<f64>> = vec![Vec::new(); n];
    for row in 0..problem.pattern.n_rows {
        for entry in problem.pattern.row(row) {
            let column = problem.pattern.columns[entry] as usize;
            by_column[column].push(jacobian[entry] * scales[column] * row_scales[row]);
        }
    }
    values.clear();
    for (column, entries) in by_column.iter().enumerate() {
        values.push(weights[column].powi(2));
        values.extend_from_slice(entries);
    }
    for row in 0..problem.pattern.n_rows {
        for entry in problem.pattern.row(row) {
            let column = problem.pattern.columns[entry] as usize;
            values.push(jacobian[entry] * scales[column] * row_scales[row]);
        }
        values.push(-REDUNDANCY);
    }
}
