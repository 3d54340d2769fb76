//! Returns to the constraints by the smallest change of the states.
//!
//! ```text
//! minimize |W^-1 ds|  subject to  g(t, s + ds) = 0,     Newton:  [ I   G~^T ] [ ds~   ]   [  0 ]
//!                                                                 [ G~ -eps  ] [ lambda ] = [ -g ]      G~ = G W, ds = W ds~
//! ```
//!
//! with W the nominal values; eps, at the size of rounding, keeps redundant constraints from stopping the solve.

use daesy_system::{DaeSystem, Evaluator, Part, Pattern};

use crate::error::IntegrateError;
use crate::linear::LinearSolver;
use crate::newton::Surroundings;

/// Size of the regularization against redundant constraints, relative to rows of norm one.
const REDUNDANCY: f64 = 1e-13;

/// Newton steps before the projection gives up.
const MAX_ITERATIONS: usize = 8;

/// Projects states onto the constraints of a system.
pub(crate) struct Projector<'s> {
    system: &'s dyn DaeSystem,
    solver: LinearSolver,
    n_entries: usize,
    jacobian: Vec<f64>,
    residual: Vec<f64>,
    rhs: Vec<f64>,
    values: Vec<f64>,
    row_scales: Vec<f64>,
    scales: Vec<f64>,
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
    /// Prepares projection; nothing where the system has no constraints.
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Result<Option<Self>, IntegrateError> {
        let description = system.description();
        let (n_states, n_constraints) = (description.states.len(), description.constraints.len());
        if n_constraints == 0 {
            return Ok(None);
        }
        let jacobian = system.pattern(Part::ConstraintByStates);
        let mut pattern = Pattern {
            n_rows: n_states + n_constraints,
            n_cols: n_states + n_constraints,
            row_starts: vec![0],
            columns: Vec::new(),
        };
        let mut rows_of_state: Vec<Vec<u32>> = vec![Vec::new(); n_states];
        for (row, column) in jacobian.entries() {
            rows_of_state[column].push(row as u32);
        }
        for (state, rows) in rows_of_state.iter().enumerate() {
            pattern.columns.push(state as u32);
            pattern.columns.extend(rows.iter().map(|row| n_states as u32 + row));
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        for row in 0..n_constraints {
            pattern.columns.extend(jacobian.row(row).map(|entry| jacobian.columns[entry]));
            pattern.columns.push((n_states + row) as u32);
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        let solver = LinearSolver::new(&pattern).map_err(|_| IntegrateError::Singular {
            time: f64::NAN,
            variable: description.states.first().map_or(String::new(), |state| state.name.clone()),
        })?;
        Ok(Some(Self {
            system,
            solver,
            n_entries: pattern.n_entries(),
            jacobian: vec![0.0; jacobian.n_entries()],
            residual: vec![0.0; n_constraints],
            rhs: vec![0.0; n_states + n_constraints],
            values: Vec::new(),
            row_scales: vec![1.0; n_constraints],
            scales: description.states.iter().map(|state| state.nominal).collect(),
        }))
    }

    /// Keeps states as they are in projections to come.
    pub(crate) fn hold(&mut self, held: &[bool]) {
        for (scale, _) in self.scales.iter_mut().zip(held).filter(|(_, held)| **held) {
            *scale = 0.0;
        }
    }

    /// Keeps no state any more.
    pub(crate) fn release(&mut self) {
        for (scale, state) in self.scales.iter_mut().zip(&self.system.description().states) {
            *scale = state.nominal;
        }
    }

    /// Moves the states onto the constraints until a Newton step changes them by less than `goal` of their nominal values.
    pub(crate) fn project(
        &mut self,
        evaluator: &mut dyn Evaluator,
        around: &Surroundings<'_>,
        states: &mut [f64],
        unknowns: &[f64],
        goal: f64,
    ) -> Result<Projected, IntegrateError> {
        let n_states = states.len();
        let mut total: f64 = 0.0;
        for _ in 0..MAX_ITERATIONS {
            let point = around.point(states, unknowns);
            evaluator.evaluate(Part::Constraint, &point, &mut self.residual);
            evaluator.evaluate(Part::ConstraintByStates, &point, &mut self.jacobian);
            if let Some(row) = self.residual.iter().position(|value| !value.is_finite()) {
                let label = &self.system.description().constraints[row];
                return Err(IntegrateError::NotFinite {
                    time: around.time,
                    equation: label.text.clone(),
                    place: label.place.clone(),
                });
            }
            self.fill(n_states);
            let residual = self.rhs[n_states..].iter().fold(0.0, |size: f64, value| size.max(value.abs()));
            if residual == 0.0 {
                return Ok(Projected { change: total, residual });
            }
            let solved = self.solver.factor(&self.values).and_then(|()| self.solver.solve(&mut self.rhs));
            if let Err(singular) = solved {
                let states = &self.system.description().states;
                let name = singular.column.and_then(|at| states.get(at)).or(states.first());
                return Err(IntegrateError::Singular {
                    time: around.time,
                    variable: name.map_or(String::new(), |state| state.name.clone()),
                });
            }
            let mut change: f64 = 0.0;
            for ((state, step), scale) in states.iter_mut().zip(&self.rhs).zip(&self.scales) {
                *state += step * scale;
                change = change.max(step.abs());
            }
            total = total.max(change);
            if change <= goal {
                return Ok(Projected { change: total, residual: residual.min(change) });
            }
        }
        let worst = (0..self.residual.len()).max_by(|&a, &b| self.residual[a].abs().total_cmp(&self.residual[b].abs()));
        let label = &self.system.description().constraints[worst.unwrap_or(0)];
        Err(IntegrateError::NoConsistentStart {
            time: around.time,
            equation: label.text.clone(),
            place: label.place.clone(),
            residual: worst.map_or(0.0, |worst| self.residual[worst]),
            also: Vec::new(),
        })
    }

    /// Writes the matrix and the right side, rows of G~ scaled to norm one.
    fn fill(&mut self, n_states: usize) {
        let jacobian = self.system.pattern(Part::ConstraintByStates);
        for row in 0..jacobian.n_rows {
            let norm = jacobian
                .row(row)
                .map(|entry| (self.jacobian[entry] * self.scales[jacobian.columns[entry] as usize]).powi(2))
                .sum::<f64>()
                .sqrt();
            self.row_scales[row] = if norm > 0.0 { 1.0 / norm } else { 1.0 };
        }
        let scaled = |entry: usize, row: usize| {
            self.jacobian[entry] * self.scales[jacobian.columns[entry] as usize] * self.row_scales[row]
        };
        self.values.clear();
        self.values.reserve(self.n_entries);
        let mut columns: Vec<Vec<f64>> = vec![Vec::new(); n_states];
        for row in 0..jacobian.n_rows {
            for entry in jacobian.row(row) {
                columns[jacobian.columns[entry] as usize].push(scaled(entry, row));
            }
        }
        for column in &columns {
            self.values.push(1.0);
            self.values.extend_from_slice(column);
        }
        for row in 0..jacobian.n_rows {
            self.values.extend(jacobian.row(row).map(|entry| scaled(entry, row)));
            self.values.push(-REDUNDANCY);
        }
        self.rhs[..n_states].fill(0.0);
        for row in 0..jacobian.n_rows {
            self.rhs[n_states + row] = -self.residual[row] * self.row_scales[row];
        }
    }
}
