//! Returns to the constraints by the smallest change of the states.
//!
//! ```text
//! minimize |W^-1 ds|  subject to  g(t, s + ds) = 0,     Newton:  [ I   G~^T ] [ ds~   ]   [  0 ]
//!                                                                 [ G~ -eps  ] [ lambda ] = [ -g ]      G~ = G W, ds = W ds~
//! ```
//!
//! with W the nominal values; eps, at the size of rounding, keeps redundant constraints from stopping the solve. The
//! matrix is made once per point and kept while iterations contract. Few constraints are solved by the equations (G~
//! G~^T + eps) lambda = -g of their own size instead, as one program where the system has it
//! ([`daesy_system::ConstraintStep`]); should its iterations not end, those with a pivoting factorization begin anew.

use daesy_system::{ConstraintStep, DaeSystem, Evaluator, Part, Pattern};

use crate::culprit::{CONSTRAINTS, find_culprit};
use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::keep;
use crate::linear::{LinearSolver, SingularMatrix};
use crate::model::{Model, Moment};

/// Size of the regularization against redundant constraints, relative to rows of norm one.
const REDUNDANCY: f64 = 1e-13;

/// Constraints that are off by less than this are satisfied.
const GOAL: f64 = 2e-13;

/// Those that stay off by less than this are satisfied as well as rounding lets them be.
const STALLED: f64 = 1e-9;

/// Constraints that are off by less than this, relative to the sizes of their terms, are off by rounding.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Constraints that are off by more than this, relative to nominal values, were broken by new values.
const BROKEN: f64 = 1e-11;

/// Newton steps before the projection gives up.
const MAX_ITERATIONS: usize = 12;

/// Steps of the system's own program before it is given up.
const MAX_PROGRAM_STEPS: usize = 5;

/// So many constraints are few.
const FEW: usize = 40;

/// Projects states onto the constraints of a system.
pub(crate) struct Projector<'s> {
    system: &'s dyn DaeSystem,
    /// Made when it is first needed, since a program of the system needs none.
    matrix: Option<Matrix>,
    jacobian: Vec<f64>,
    residual: Vec<f64>,
    row_scales: Vec<f64>,
    scales: Vec<f64>,
    step: Vec<f64>,
    program: Option<StepProgram<'s>>,
}

/// The matrix of Newton's step.
struct Matrix {
    solver: LinearSolver<f64>,
    /// Whether it is that of the constraints' own size.
    is_condensed: bool,
    /// For the large one: place of each entry of G and of its transpose.
    places: Vec<[u32; 2]>,
    rhs: Vec<f64>,
    values: Vec<f64>,
    /// One row of G~, spread out.
    spread: Vec<f64>,
}

impl Matrix {
    fn new(jacobian: &Pattern) -> Result<Self, SingularMatrix> {
        let is_condensed = jacobian.n_rows <= FEW;
        let (pattern, places) = if is_condensed { (shared_states(jacobian), Vec::new()) } else { bordered(jacobian) };
        Ok(Self {
            solver: LinearSolver::new(&pattern)?,
            is_condensed,
            places,
            rhs: vec![0.0; pattern.n_rows],
            values: vec![0.0; pattern.n_entries()],
            spread: vec![0.0; jacobian.n_cols],
        })
    }

    /// Factors with the rows of G~ at hand.
    fn factor(&mut self, pattern: &Pattern, jacobian: &[f64]) -> Result<(), SingularMatrix> {
        if self.is_condensed {
            let m = pattern.n_rows;
            for row in 0..m {
                for entry in pattern.row(row) {
                    self.spread[pattern.columns[entry] as usize] += jacobian[entry];
                }
                for other in 0..m {
                    let product: f64 = pattern
                        .row(other)
                        .map(|entry| jacobian[entry] * self.spread[pattern.columns[entry] as usize])
                        .sum();
                    self.values[row * m + other] = if row == other { product + REDUNDANCY } else { product };
                }
                for entry in pattern.row(row) {
                    self.spread[pattern.columns[entry] as usize] = 0.0;
                }
            }
        } else {
            // The diagonal entries keep the values set here.
            self.values.fill(1.0);
            for (entry, &[place, transposed]) in self.places.iter().enumerate() {
                self.values[place as usize] = jacobian[entry];
                self.values[transposed as usize] = jacobian[entry];
            }
            for row in 0..pattern.n_rows {
                // The last entry of each of these rows is the diagonal.
                let last = pattern.n_cols + pattern.n_entries() + pattern.row_starts[row + 1] as usize + row;
                self.values[last] = -REDUNDANCY;
            }
        }
        self.solver.factor(&self.values)
    }
}

/// Newton's step as a program of the system.
struct StepProgram<'s> {
    program: Box<dyn ConstraintStep + 's>,
    /// Step, scales of rows, residuals.
    results: Vec<f64>,
    /// The states as they were, should the program fail.
    given: Vec<f64>,
}

/// How far off the constraints were and are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Projected {
    /// Largest change of a state relative to its nominal value.
    pub(crate) change: f64,
    /// Largest constraint residual left, relative to the size of its row.
    pub(crate) residual: f64,
}

impl<'s> Projector<'s> {
    /// Prepares projection; None if the system has no constraints.
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Result<Option<Self>, IntegrateError> {
        let description = system.description();
        let (n_states, n_constraints) = (description.states.len(), description.constraints.len());
        if n_constraints == 0 {
            return Ok(None);
        }
        let jacobian = system.pattern(Part::ConstraintByStates);
        let program = system.constraint_step();
        let matrix = if program.is_none() { Some(Matrix::new(jacobian)) } else { None };
        let matrix = matrix.transpose().map_err(|_| IntegrateError::Singular {
            time: f64::NAN,
            variable: description.states.first().map_or(String::new(), |state| state.name.clone()),
        })?;
        Ok(Some(Self {
            system,
            matrix,
            jacobian: vec![0.0; jacobian.n_entries()],
            residual: vec![0.0; n_constraints],
            row_scales: vec![1.0; n_constraints],
            scales: description.states.iter().map(|state| state.nominal).collect(),
            step: vec![0.0; n_states],
            program: program.map(|program| StepProgram {
                program,
                results: vec![0.0; n_states + 2 * n_constraints],
                given: vec![0.0; n_states],
            }),
        }))
    }

    /// Keeps states as they are in projections to come.
    pub(crate) fn hold(&mut self, held: &[bool]) {
        for (scale, _) in self.scales.iter_mut().zip(held).filter(|(_, held)| **held) {
            *scale = 0.0;
        }
    }

    /// Which states keep their values where some are held: the others move by class, see [`crate::keep`].
    pub(crate) fn kept(&mut self, model: &mut Model<'_, '_>, now: &Moment, is_held: &[bool]) -> Vec<bool> {
        model.evaluate(Part::Constraint, now, &mut self.residual);
        model.evaluate(Part::ConstraintByStates, now, &mut self.jacobian);
        let pattern = self.system.pattern(Part::ConstraintByStates);
        let states = &self.system.description().states;
        let is_broken = |row: usize| {
            let sum = |size: &dyn Fn(usize) -> f64| -> f64 {
                let entries = pattern.row(row);
                entries.map(|entry| self.jacobian[entry].abs() * size(pattern.columns[entry] as usize)).sum()
            };
            let (nominal, terms) = (sum(&|at| states[at].nominal), sum(&|at| now.states[at].abs()));
            self.residual[row].abs() > (BROKEN * nominal).max(ROUNDING * terms)
        };
        let is_broken = (0..pattern.n_rows).map(is_broken).collect();
        keep::kept(pattern, &self.jacobian, is_broken, is_held, |state| states[state].persistence)
    }

    /// Keeps no state any more.
    pub(crate) fn release(&mut self) {
        for (scale, state) in self.scales.iter_mut().zip(&self.system.description().states) {
            *scale = state.nominal;
        }
    }

    /// Returns the change of states to the linearized constraints G ds + g_p dp = 0 at a point by the least change.
    pub(crate) fn project_tangent(
        &mut self,
        model: &mut Model<'_, '_>,
        now: &Moment,
        states: &mut [f64],
        parameters: &[f64],
    ) -> Result<(), IntegrateError> {
        let by_parameters = self.system.pattern(Part::ConstraintByParameters);
        let mut values = vec![0.0; by_parameters.n_entries()];
        model.evaluate(Part::ConstraintByParameters, now, &mut values);
        let product = |entry: usize| values[entry] * parameters[by_parameters.columns[entry] as usize];
        let drive: Vec<f64> = (0..by_parameters.n_rows).map(|row| by_parameters.row(row).map(product).sum()).collect();
        self.project_change(model, now, states, &drive)
    }

    /// Returns the change of states to the linearized constraints G ds + drive = 0 at a point by the least change.
    pub(crate) fn project_change(
        &mut self,
        model: &mut Model<'_, '_>,
        now: &Moment,
        states: &mut [f64],
        drive: &[f64],
    ) -> Result<(), IntegrateError> {
        model.evaluate(Part::ConstraintByStates, now, &mut self.jacobian);
        let by_states = self.system.pattern(Part::ConstraintByStates);
        for row in 0..by_states.n_rows {
            let product = |entry: usize| self.jacobian[entry] * states[by_states.columns[entry] as usize];
            self.residual[row] = by_states.row(row).map(product).sum::<f64>() + drive[row];
        }
        self.factor().and_then(|()| self.solve()).map_err(|singular| self.singular(now.time, singular))?;
        for (state, step) in states.iter_mut().zip(&self.step) {
            *state += step;
        }
        Ok(())
    }

    /// Moves the states onto the constraints until these are off by rounding, relative to nominal values.
    pub(crate) fn project(
        &mut self,
        model: &mut Model<'_, '_>,
        time: f64,
        states: &mut [f64],
        unknowns: &[f64],
    ) -> Result<Projected, IntegrateError> {
        let around =
            Surroundings { time, parameters: &model.parameters, inputs: &model.input_values, modes: &model.modes };
        let evaluator = model.equations.evaluator();
        if let Some(projected) = self.run_program(evaluator, &around, states, unknowns) {
            return Ok(projected);
        }
        let (mut total, mut last) = (0.0f64, f64::INFINITY);
        let mut has_matrix = false;
        for _ in 0..MAX_ITERATIONS {
            let point = around.point(states, unknowns);
            evaluator.evaluate(Part::Constraint, &point, &mut self.residual);
            if let Some(row) = self.residual.iter().position(|value| !value.is_finite()) {
                let label = self.system.description().constraints.get(row).unwrap_or_default();
                let culprit = find_culprit(self.system, CONSTRAINTS, row, &around, states, unknowns);
                return Err(IntegrateError::NotFinite {
                    variable: culprit.name,
                    value: culprit.value,
                    time,
                    equation: label.text,
                    place: label.place,
                });
            }
            let mut size = self.scaled_residual();
            // Near rounding the iteration may stop to contract.
            let is_settled = size <= GOAL || size <= STALLED && size > 0.3 * last;
            if size == 0.0 || has_matrix && (is_settled || self.is_rounding(states)) {
                return Ok(Projected { change: total, residual: size });
            }
            if !has_matrix || size > 0.1 * last {
                evaluator.evaluate(Part::ConstraintByStates, &point, &mut self.jacobian);
                self.factor().map_err(|singular| self.singular(time, singular))?;
                has_matrix = true;
                size = self.scaled_residual();
                if size == 0.0 {
                    return Ok(Projected { change: total, residual: size });
                }
            }
            last = size;
            let change = self.solve().map_err(|singular| self.singular(time, singular))?;
            for (state, step) in states.iter_mut().zip(&self.step) {
                *state += step;
            }
            total = total.max(change);
        }
        let worst = (0..self.residual.len()).max_by(|&a, &b| self.residual[a].abs().total_cmp(&self.residual[b].abs()));
        let label = self.system.description().constraints.get(worst.unwrap_or(0)).unwrap_or_default();
        Err(IntegrateError::NoConsistentStart {
            time,
            equation: label.text,
            place: label.place,
            residual: worst.map_or(0.0, |worst| self.residual[worst]),
            also: Vec::new(),
            tried: Vec::new(),
        })
    }

    /// The same by steps that are a program of the system; None, and the states as they were, if that does not lead to
    /// the constraints.
    fn run_program(
        &mut self,
        evaluator: &mut dyn Evaluator,
        around: &Surroundings<'_>,
        states: &mut [f64],
        unknowns: &[f64],
    ) -> Option<Projected> {
        let StepProgram { program, results, given } = self.program.as_mut()?;
        given.copy_from_slice(states);
        let (mut total, mut last) = (0.0f64, f64::INFINITY);
        for iteration in 0..MAX_PROGRAM_STEPS {
            if iteration > 0 {
                // Most often one step is enough, so that the constraints alone are looked at first.
                evaluator.evaluate(Part::Constraint, &around.point(states, unknowns), &mut self.residual);
                let size = scaled_size(&self.residual, &self.row_scales);
                if size <= GOAL || size <= STALLED && size > 0.3 * last {
                    return Some(Projected { change: total, residual: size });
                }
            }
            program.run(&around.point(states, unknowns), &self.scales, results);
            let (step, rest) = results.split_at(self.scales.len());
            let (row_scales, residual) = rest.split_at(self.row_scales.len());
            self.row_scales.copy_from_slice(row_scales);
            last = scaled_size(residual, row_scales);
            if last == 0.0 {
                return Some(Projected { change: total, residual: last });
            }
            let mut change = 0.0f64;
            for ((state, step), scale) in states.iter_mut().zip(step).zip(&self.scales) {
                change = if step.is_finite() { change.max(step.abs()) } else { f64::INFINITY };
                *state += step * scale;
            }
            if !change.is_finite() {
                break;
            }
            total = total.max(change);
        }
        states.copy_from_slice(given);
        None
    }

    fn singular(&self, time: f64, singular: SingularMatrix) -> IntegrateError {
        let states = &self.system.description().states;
        let name = singular.column.and_then(|at| states.get(at)).or(states.first());
        IntegrateError::Singular { time, variable: name.map_or(String::new(), |state| state.name.clone()) }
    }

    /// Whether all constraints are off by no more than rounding of their terms, whose sizes follow from the last
    /// factorization.
    fn is_rounding(&self, states: &[f64]) -> bool {
        let pattern = self.system.pattern(Part::ConstraintByStates);
        (0..pattern.n_rows).all(|row| {
            let term = |entry: usize| {
                let column = pattern.columns[entry] as usize;
                let scale = self.scales[column];
                if scale > 0.0 { (self.jacobian[entry] * states[column] / scale).abs() } else { 0.0 }
            };
            let terms: f64 = pattern.row(row).map(term).sum();
            (self.residual[row] * self.row_scales[row]).abs() <= ROUNDING * terms
        })
    }

    /// The largest residual with rows of G~ scaled to norm one.
    fn scaled_residual(&self) -> f64 {
        scaled_size(&self.residual, &self.row_scales)
    }

    /// Scales rows of G~ to norm one and factors.
    fn factor(&mut self) -> Result<(), SingularMatrix> {
        let pattern = self.system.pattern(Part::ConstraintByStates);
        for row in 0..pattern.n_rows {
            let mut sum = 0.0;
            for entry in pattern.row(row) {
                self.jacobian[entry] *= self.scales[pattern.columns[entry] as usize];
                sum += self.jacobian[entry] * self.jacobian[entry];
            }
            let scale = if sum > 0.0 { 1.0 / sum.sqrt() } else { 1.0 };
            self.row_scales[row] = scale;
            for entry in pattern.row(row) {
                self.jacobian[entry] *= scale;
            }
        }
        let mut matrix = match self.matrix.take() {
            Some(matrix) => matrix,
            None => Matrix::new(pattern)?,
        };
        let result = matrix.factor(pattern, &self.jacobian);
        self.matrix = Some(matrix);
        result
    }

    /// The step of the states for the residuals at hand; its largest entry relative to nominal values.
    fn solve(&mut self) -> Result<f64, SingularMatrix> {
        let pattern = self.system.pattern(Part::ConstraintByStates);
        let n_states = self.scales.len();
        let Some(Matrix { solver, is_condensed, rhs, .. }) = &mut self.matrix else {
            return Err(SingularMatrix { column: None });
        };
        let first = if *is_condensed { 0 } else { n_states };
        rhs[..first].fill(0.0);
        for row in 0..pattern.n_rows {
            rhs[first + row] = -self.residual[row] * self.row_scales[row];
        }
        solver.solve(rhs)?;
        if *is_condensed {
            self.step.fill(0.0);
            for row in 0..pattern.n_rows {
                let lambda = rhs[row];
                for entry in pattern.row(row) {
                    self.step[pattern.columns[entry] as usize] += self.jacobian[entry] * lambda;
                }
            }
        } else {
            self.step.copy_from_slice(&rhs[..n_states]);
        }
        let mut change = 0.0f64;
        for (step, scale) in self.step.iter_mut().zip(&self.scales) {
            change = change.max(step.abs());
            *step *= scale;
        }
        Ok(change)
    }
}

/// The largest of scaled values; infinite where one is not a number.
fn scaled_size(values: &[f64], scales: &[f64]) -> f64 {
    let scaled = values.iter().zip(scales).map(|(value, scale)| (value * scale).abs());
    scaled.fold(0.0, |largest, value| {
        if value <= largest {
            largest
        } else if value.is_nan() {
            f64::INFINITY
        } else {
            value
        }
    })
}

/// All pairs of constraints: dense, as constraints are few.
fn shared_states(jacobian: &Pattern) -> Pattern {
    let m = jacobian.n_rows;
    Pattern {
        n_rows: m,
        n_cols: m,
        row_starts: (0..=m).map(|row| (row * m) as u32).collect(),
        columns: (0..m).flat_map(|_| 0..m as u32).collect(),
    }
}

/// The pattern of the bordered matrix, and the places of each entry of G in it and in the transposed part.
fn bordered(jacobian: &Pattern) -> (Pattern, Vec<[u32; 2]>) {
    let (n_states, n_constraints) = (jacobian.n_cols, jacobian.n_rows);
    let n = n_states + n_constraints;
    let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
    let mut places = vec![[0u32; 2]; jacobian.n_entries()];
    let mut entries_of_state: Vec<Vec<[u32; 2]>> = vec![Vec::new(); n_states];
    for (entry, (row, column)) in jacobian.entries().enumerate() {
        entries_of_state[column].push([row as u32, entry as u32]);
    }
    for (state, entries) in entries_of_state.iter().enumerate() {
        pattern.columns.push(state as u32);
        for &[row, entry] in entries {
            places[entry as usize][1] = pattern.columns.len() as u32;
            pattern.columns.push(n_states as u32 + row);
        }
        pattern.row_starts.push(pattern.columns.len() as u32);
    }
    for row in 0..n_constraints {
        for entry in jacobian.row(row) {
            places[entry][0] = pattern.columns.len() as u32;
            pattern.columns.push(jacobian.columns[entry]);
        }
        pattern.columns.push((n_states + row) as u32);
        pattern.row_starts.push(pattern.columns.len() as u32);
    }
    (pattern, places)
}
