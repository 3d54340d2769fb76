//! Newton's method for the rows of the start that must hold, damped until the residuals shrink.
//!
//! With as many rows as columns each step solves B dz = -r. With fewer it is the least change from a target z_0 in a
//! weighted norm,
//!
//! ```text
//! minimize |D (z + dz - z_0)|  subject to  J dz = -r(z)        [ D^2  J^T ] [ dz     ]   [ D^2 (z_0 - z) ]
//!                                                              [ J   -eps ] [ lambda ] = [ -r            ]
//! ```
//!
//! where eps is there for rows that follow from others.

use daesy_system::{Part, StartClass};

use super::choice::{Choice, Square};
use super::problem::{Problem, Values};
use super::{InitializeOptions, inconsistent, not_finite};
use crate::error::IntegrateError;
use crate::linear::LinearSolver;

/// Regularization against redundant conditions, relative to rows of norm one.
const REDUNDANCY: f64 = 1e-12;

/// Residuals within so many units of rounding of their terms are zero.
const ROUNDING: f64 = 32.0;

/// Limited steps that are not counted.
const MAX_LIMITED_STEPS: usize = 60;

/// Whole steps from a point that is good enough on.
const MAX_REFINEMENTS: usize = 4;

/// A row of which this share of its largest term is left is not solved, however small that is.
const FAR_OFF: f64 = 1e-3;

/// Columns that change by no more than this fraction of their values are as exact as they get.
const REFINED: f64 = 1e-13;

/// Rows count as linear along a step if their residuals are as foreseen but for this fraction.
const LINEAR: f64 = 0.1;

/// How a step is found.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// From as many rows as columns.
    Square(&'a Choice),
    /// As the least change from a target.
    LeastChange {
        /// Of the columns.
        weights: &'a [f64],
        /// Where they are pulled.
        target: &'a [f64],
    },
}

/// What a search took, and what it left.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Found {
    pub(crate) iterations: usize,
    /// Largest scaled residual.
    pub(crate) residual: f64,
}

/// Values and derivatives of the rows at a point, with memory to search from there.
pub(crate) struct Search<'p, 's> {
    pub(crate) values: Values<'p, 's>,
    pub(crate) scales: Vec<f64>,
    /// See [`Problem::keys`].
    pub(crate) keys: Vec<u32>,
    pub(crate) options: InitializeOptions,
    pub(crate) residual: Vec<f64>,
    pub(crate) jacobian: Vec<f64>,
    pub(crate) row_scales: Vec<f64>,
}

impl<'p, 's> Search<'p, 's> {
    pub(crate) fn new(values: Values<'p, 's>, options: InitializeOptions) -> Self {
        let problem = values.problem;
        Self {
            scales: problem.scales(&values.parameters),
            keys: problem.keys(),
            options,
            residual: vec![0.0; problem.n_rows()],
            jacobian: vec![0.0; problem.pattern.n_entries()],
            row_scales: vec![1.0; problem.n_rows()],
            values,
        }
    }

    pub(crate) fn problem(&self) -> &'p Problem<'s> {
        self.values.problem
    }

    /// Evaluates rows and derivatives, and scales rows to norm one.
    pub(crate) fn evaluate(&mut self, z: &[f64]) {
        self.values.residual(z, &mut self.residual);
        self.linearize(z);
    }

    fn linearize(&mut self, z: &[f64]) {
        self.values.jacobian(z, &mut self.jacobian);
        self.row_scales = row_scales(self.problem(), &self.jacobian, &self.scales);
    }

    /// The largest scaled residual of the rows that must hold.
    pub(crate) fn size(&self, residual: &[f64], is_active: &[bool]) -> f64 {
        let rows = residual.iter().zip(&self.row_scales).zip(is_active).filter(|(_, active)| **active);
        rows.fold(0.0, |size: f64, ((value, scale), _)| {
            let scaled = (value * scale).abs();
            if scaled.is_nan() { f64::INFINITY } else { size.max(scaled) }
        })
    }

    /// Whether what is left of the rows is no more than the rounding of their terms.
    fn is_rounding(&self, z: &[f64], is_active: &[bool]) -> bool {
        let pattern = &self.problem().pattern;
        (0..pattern.n_rows).filter(|&row| is_active[row]).all(|row| {
            let size = |entry: usize| {
                let column = pattern.columns[entry] as usize;
                self.jacobian[entry].abs() * z[column].abs().max(self.scales[column])
            };
            let terms: f64 = pattern.row(row).map(size).sum();
            let left = self.residual[row].abs();
            left * self.row_scales[row] <= self.options.tolerance || left <= ROUNDING * f64::EPSILON * terms
        })
    }

    fn check_finite(&self, z: &[f64], is_active: &[bool]) -> Result<(), IntegrateError> {
        let problem = self.problem();
        let is_finite = |row: usize| {
            self.residual[row].is_finite() && self.jacobian[problem.pattern.row(row)].iter().all(|it| it.is_finite())
        };
        match (0..problem.n_rows()).find(|&row| is_active[row] && !is_finite(row)) {
            Some(row) => Err(not_finite(problem, &self.values.around(), z, row)),
            None => Ok(()),
        }
    }

    /// Searches a point where the active rows hold, from `z`, which has it then.
    ///
    /// Of several solutions the one near `z` is meant: where the matrix is nearly singular, Newton's step leads far
    /// away. Columns at most double, or move by their nominal value, in one step, unless the rows are as good as linear
    /// along it; they go wherever the step leads only if that finds nothing.
    pub(crate) fn run(&mut self, z: &mut Vec<f64>, is_active: &[bool], way: Way<'_>) -> Result<Found, IntegrateError> {
        let begin = z.clone();
        let mut n_limited = 0;
        let mut found = self.settle(z, is_active, way, &mut n_limited, MAX_LIMITED_STEPS);
        if found.is_err() && n_limited > 0 {
            *z = begin;
            found = self.settle(z, is_active, way, &mut n_limited, 0);
        }
        let found = found?;
        self.check_where_exact(z, is_active)?;
        Ok(found)
    }

    /// Refuses a point that only comes near to a solution at which an equation has no value: from `log(x)` with `x = 0`,
    /// or from `v/abs(v)` where a constraint says that v is zero, Newton's method goes towards zero until the tolerance
    /// is met, and no further. What was asked of single columns, and what follows from it row by row, is then put in
    /// exactly.
    fn check_where_exact(&mut self, z: &[f64], is_active: &[bool]) -> Result<(), IntegrateError> {
        let problem = self.problem();
        let n_before = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let is_single = |row: &usize| is_active[*row] && problem.only_column(*row).is_some();
        let single: Vec<usize> = (n_before..problem.n_rows()).filter(is_single).collect();
        self.evaluate(z);
        let is_met = single.iter().all(|&row| self.residual[row] == 0.0);
        if is_met && !(0..n_before).any(|row| self.is_far_off(row, z)) {
            return Ok(());
        }
        self.check_at(z, &single, n_before)
    }

    /// Refuses a point if one of the first rows has no value where some rows, which are in one column each, are met
    /// exactly, and so is what follows from them row by row.
    pub(super) fn check_at(&mut self, z: &[f64], single: &[usize], n_checked: usize) -> Result<(), IntegrateError> {
        let problem = self.problem();
        let mut exact = z.to_vec();
        self.set_single(&mut exact, single);
        let known: Vec<usize> = single.iter().filter_map(|&row| problem.only_column(row)).collect();
        self.set_determined(&mut exact, &known);
        let mut residual = vec![0.0; problem.n_rows()];
        self.values.residual(&exact, &mut residual);
        let refused = residual[..n_checked].iter().position(|value| !value.is_finite());
        self.evaluate(z);
        refused.map_or(Ok(()), |row| Err(not_finite(problem, &self.values.around(), &exact, row)))
    }

    /// Whether what is left of a row is no rounding of its own terms.
    pub(super) fn is_far_off(&self, row: usize, z: &[f64]) -> bool {
        let pattern = &self.problem().pattern;
        let terms = pattern.row(row).map(|entry| (self.jacobian[entry] * z[pattern.columns[entry] as usize]).abs());
        self.residual[row].abs() > FAR_OFF * terms.fold(0.0, f64::max)
    }

    /// Newton's method with at most so many steps that are made shorter.
    fn settle(
        &mut self,
        z: &mut Vec<f64>,
        is_active: &[bool],
        way: Way<'_>,
        n_limited: &mut usize,
        most_limited: usize,
    ) -> Result<Found, IntegrateError> {
        let problem = self.problem();
        let time = self.values.time;
        let mut steps = Steps::new(problem, way).map_err(|column| problem.singular(time, column))?;
        let tolerance = self.options.tolerance;
        let mut last_size = f64::INFINITY;
        let mut step = vec![0.0; problem.n_cols()];
        let mut iteration = 0;
        self.values.residual(z, &mut self.residual);
        loop {
            if self.options.watch.is_stopped() {
                return Err(IntegrateError::Stopped { time });
            }
            self.linearize(z);
            self.check_finite(z, is_active)?;
            let size = self.size(&self.residual, is_active);
            let is_settled = size <= tolerance || size <= 1e3 * tolerance && size >= 0.5 * last_size;
            let is_over = is_settled || iteration == self.options.max_iterations;
            let mut share = 1.0;
            if !is_over {
                steps.step(self, z, is_active, &mut step).map_err(|column| problem.singular(time, column))?;
                if *n_limited < most_limited {
                    share = self.limit(z, &mut step, size, is_active);
                }
            }
            if is_over || !self.damp(z, &step, size, share, is_active) {
                if size <= tolerance || self.is_rounding(z, is_active) {
                    let residual = self.refine(z, is_active, &mut steps, size);
                    return Ok(Found { iterations: iteration, residual });
                }
                if size <= self.options.slack * tolerance {
                    return Ok(Found { iterations: iteration, residual: size });
                }
                return Err(inconsistent(problem, time, z, &self.residual, &self.row_scales));
            }
            *n_limited += usize::from(share < 1.0);
            iteration += usize::from(share == 1.0);
            last_size = if share < 1.0 { f64::INFINITY } else { size };
        }
    }

    /// Whole steps from a point that is good enough on, as long as they change a column by more than the rounding of
    /// its own value and residuals do not grow: a capacitance of 1e-12 that is an unknown of nominal value one is not
    /// known to any digit where all residuals are below a tolerance. Gives the largest residual.
    fn refine(&mut self, z: &mut Vec<f64>, is_active: &[bool], steps: &mut Steps<'_>, mut size: f64) -> f64 {
        let mut step = vec![0.0; z.len()];
        for _ in 0..MAX_REFINEMENTS {
            if steps.step(self, z, is_active, &mut step).is_err() {
                break;
            }
            if step.iter().zip(&*z).all(|(step, value)| step.abs() <= REFINED * value.abs()) {
                break;
            }
            let trial: Vec<f64> = z.iter().zip(&step).map(|(value, step)| value + step).collect();
            let mut residual = vec![0.0; self.residual.len()];
            self.values.residual(&trial, &mut residual);
            let trial_size = self.size(&residual, is_active);
            if trial_size > size.max(self.options.tolerance) {
                break;
            }
            *z = trial;
            self.residual = residual;
            size = trial_size;
            self.linearize(z);
        }
        size
    }

    /// Makes a step shorter that moves columns by more than their sizes, unless the rows follow it as linear ones do at
    /// its end and at the end of the short one; gives the share that is left.
    fn limit(&mut self, z: &[f64], step: &mut [f64], size: f64, is_active: &[bool]) -> f64 {
        let relative = |(column, value): (usize, &f64)| value.abs() / z[column].abs().max(self.scales[column]);
        let excess = step.iter().enumerate().map(relative).fold(1.0, f64::max);
        if excess == 1.0 || !excess.is_finite() {
            return 1.0;
        }
        let share = 1.0 / excess;
        let is_linear = [share, 1.0].into_iter().all(|share| {
            let trial: Vec<f64> = z.iter().zip(&*step).map(|(value, step)| value + share * step).collect();
            let mut off = vec![0.0; self.residual.len()];
            self.values.residual(&trial, &mut off);
            for (off, before) in off.iter_mut().zip(&self.residual) {
                *off -= (1.0 - share) * before;
            }
            self.size(&off, is_active) <= LINEAR * share * size
        });
        if is_linear {
            return 1.0;
        }
        step.iter_mut().for_each(|step| *step *= share);
        share
    }

    /// Takes as much of a step, which is a share of Newton's, as makes residuals shrink; false, and nothing taken,
    /// where nothing does.
    fn damp(&mut self, z: &mut Vec<f64>, step: &[f64], size: f64, share: f64, is_active: &[bool]) -> bool {
        let mut damping = 1.0;
        let mut trial = z.clone();
        let mut trial_residual = self.residual.clone();
        loop {
            for (column, value) in trial.iter_mut().enumerate() {
                *value = z[column] + damping * step[column];
            }
            self.values.residual(&trial, &mut trial_residual);
            let trial_size = self.size(&trial_residual, is_active);
            if trial_size <= (1.0 - 0.1 * damping * share) * size || trial_size <= self.options.tolerance {
                std::mem::swap(z, &mut trial);
                std::mem::swap(&mut self.residual, &mut trial_residual);
                return true;
            }
            if damping < 1e-4 {
                return false;
            }
            damping *= 0.5;
        }
    }

    /// The scaled entries of a square part.
    pub(crate) fn square_matrix(&self, choice: &Choice, square: &Square) -> Vec<f64> {
        let pattern = &square.pattern;
        let mut matrix = Vec::with_capacity(square.entries.len());
        for (at, &row) in choice.rows.iter().enumerate() {
            let scale = self.row_scales[row];
            matrix.extend(pattern.row(at).map(|entry| {
                let column = square.columns[pattern.columns[entry] as usize];
                self.jacobian[square.entries[entry]] * self.scales[column] * scale
            }));
        }
        matrix
    }

    /// Whether the rows of a choice determine the columns at the point where the Jacobian was taken, all numbers
    /// balanced.
    pub(crate) fn is_regular(&self, choice: &Choice) -> bool {
        let square = choice.square(self.problem());
        let values: Vec<f64> = square.entries.iter().map(|&entry| self.jacobian[entry]).collect();
        if values.iter().any(|value| !value.is_finite()) || square.columns.len() != choice.rows.len() {
            return false;
        }
        let balanced = super::choice::balance(&square.pattern, &values);
        let Ok(mut solver) = LinearSolver::new(&square.pattern) else { return false };
        if solver.factor(&balanced).is_err() {
            return false;
        }
        (0..2u32).all(|attempt| {
            let mut vector: Vec<f64> =
                (0..choice.rows.len() as u32).map(|at| if scatter(at, attempt) > 0.0 { 1.0 } else { -1.0 }).collect();
            solver.solve(&mut vector).is_ok() && vector.iter().all(|value| value.abs() < LARGEST_INVERSE)
        })
    }
}

impl Search<'_, '_> {
    /// The choice with wishes exchanged until none moves another one of its class by more than a lever of
    /// [`LARGEST_LEVER`] (`choice`), at the point where the Jacobian was taken.
    pub(super) fn without_long_levers(&self, choice: Choice) -> Choice {
        let mut choice = choice;
        for _ in 0..MAX_EXCHANGES {
            let Some((out, into)) = self.longest_lever(&choice) else { break };
            choice = choice.exchanged(out, into);
        }
        choice
    }

    /// The wish k that was chosen and the wish j that was not with the largest `S_jk` of those that are too large.
    fn longest_lever(&self, choice: &Choice) -> Option<(usize, usize)> {
        let problem = self.problem();
        let class = |row: usize| problem.classes[row - problem.n_demanded];
        let square = choice.square(problem);
        let mut place = vec![usize::MAX; problem.n_cols()];
        square.columns.iter().enumerate().for_each(|(at, &column)| place[column] = at);
        let left: Vec<(usize, usize)> = (problem.n_demanded..problem.n_rows())
            .filter(|&row| !choice.is_active[row])
            .filter_map(|row| Some((row, place[problem.only_column(row)?])))
            .filter(|&(_, at)| at != usize::MAX)
            .collect();
        if left.is_empty() || square.columns.len() != choice.rows.len() {
            return None;
        }
        let mut solver = LinearSolver::new(&square.pattern).ok()?;
        solver.factor(&self.square_matrix(choice, &square)).ok()?;
        let mut longest: Option<(f64, usize, usize)> = None;
        for wanted in [StartClass::Differential, StartClass::Other, StartClass::Default] {
            let left: Vec<(usize, usize)> = left.iter().copied().filter(|&(row, _)| class(row) == wanted).collect();
            let chosen = choice.rows.iter().enumerate().filter(|&(_, &row)| row >= problem.n_demanded);
            let chosen: Vec<(usize, usize)> =
                chosen.map(|(at, &row)| (at, row)).filter(|&(_, row)| class(row) == wanted).collect();
            if left.is_empty() || chosen.is_empty() {
                continue;
            }
            let mut all = vec![0.0; choice.rows.len()];
            chosen.iter().for_each(|&(at, _)| all[at] = scatter(at as u32, 3));
            solver.solve(&mut all).ok()?;
            if left.iter().all(|&(_, at)| all[at].abs() <= LARGEST_LEVER) {
                continue;
            }
            for &(at, out) in &chosen {
                let mut one = vec![0.0; choice.rows.len()];
                one[at] = 1.0;
                solver.solve(&mut one).ok()?;
                for &(into, column) in &left {
                    let lever = one[column].abs();
                    if lever.is_finite() && lever > longest.map_or(LARGEST_LEVER, |known| known.0) {
                        longest = Some((lever, out, into));
                    }
                }
            }
        }
        longest.map(|(_, out, into)| (out, into))
    }
}

/// A written value that moves another one of its class by more than this, in units of their nominal values, is as good
/// as determined by it.
const LARGEST_LEVER: f64 = 1e6;

/// Wishes that are exchanged at most.
const MAX_EXCHANGES: usize = 50;

/// A balanced matrix whose inverse has larger entries is singular for the purposes of a start.
const LARGEST_INVERSE: f64 = 1e10;

/// Numbers between -1 and 1, at least 0.5 from zero, that look random and are the same everywhere.
pub(crate) fn scatter(at: u32, attempt: u32) -> f64 {
    let mixed = at.wrapping_mul(0x9E37_79B9).wrapping_add(attempt.wrapping_mul(0x85EB_CA6B)).wrapping_add(0x165_667B1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x2C1B_3C6D);
    let mixed = (mixed ^ (mixed >> 12)).wrapping_mul(0x297A_2D39);
    let mixed = mixed ^ (mixed >> 15);
    let size = 0.5 + 0.5 * f64::from(mixed >> 8) / f64::from(1u32 << 24);
    if mixed & 1 == 0 { size } else { -size }
}

/// 1 over the norm of each row in units of the columns' sizes.
pub(crate) fn row_scales(problem: &Problem<'_>, jacobian: &[f64], scales: &[f64]) -> Vec<f64> {
    let pattern = &problem.pattern;
    let scale = |row: usize| {
        let square = |entry: usize| (jacobian[entry] * scales[pattern.columns[entry] as usize]).powi(2);
        let norm = pattern.row(row).map(square).sum::<f64>().sqrt();
        if norm > 0.0 { 1.0 / norm } else { 1.0 }
    };
    (0..pattern.n_rows).map(scale).collect()
}

/// Solves for steps.
struct Steps<'a> {
    way: Way<'a>,
    square: Option<Square>,
    solver: LinearSolver<f64>,
    matrix: Vec<f64>,
    rhs: Vec<f64>,
}

impl<'a> Steps<'a> {
    fn new(problem: &Problem<'_>, way: Way<'a>) -> Result<Self, Option<usize>> {
        let square = match way {
            Way::Square(choice) => Some(choice.square(problem)),
            Way::LeastChange { .. } => None,
        };
        if square.as_ref().is_some_and(|square| square.columns.len() != square.pattern.n_rows) {
            return Err(None);
        }
        let solver = match &square {
            Some(square) => LinearSolver::new(&square.pattern),
            None => LinearSolver::new(&problem.step_pattern()),
        };
        let in_whole = |column: Option<usize>| match &square {
            Some(square) => column.and_then(|column| square.columns.get(column).copied()),
            None => column,
        };
        let solver = solver.map_err(|error| in_whole(error.column))?;
        Ok(Self { way, square, solver, matrix: Vec::new(), rhs: Vec::new() })
    }

    /// Writes the step from a point where rows and derivatives are known.
    fn step(
        &mut self,
        search: &Search<'_, '_>,
        z: &[f64],
        is_active: &[bool],
        step: &mut [f64],
    ) -> Result<(), Option<usize>> {
        let scales = &search.scales;
        match (self.way, &self.square) {
            (Way::Square(choice), Some(square)) => {
                self.matrix = search.square_matrix(choice, square);
                self.rhs = choice.rows.iter().map(|&row| -search.residual[row] * search.row_scales[row]).collect();
                let solved = self.solver.factor(&self.matrix).and_then(|()| self.solver.solve(&mut self.rhs));
                solved.map_err(|error| error.column.and_then(|column| square.columns.get(column).copied()))?;
                step.fill(0.0);
                for (&column, &value) in square.columns.iter().zip(&self.rhs) {
                    step[column] = value * scales[column];
                }
            }
            (Way::LeastChange { weights, target }, _) => {
                let n = step.len();
                let active_scales: Vec<f64> = search
                    .row_scales
                    .iter()
                    .zip(is_active)
                    .map(|(&it, &active)| if active { it } else { 0.0 })
                    .collect();
                fill_step(search.problem(), &search.jacobian, scales, weights, &active_scales, &mut self.matrix);
                self.rhs.clear();
                self.rhs.extend((0..n).map(|at| weights[at].powi(2) * (target[at] - z[at]) / scales[at]));
                self.rhs.extend(
                    search
                        .residual
                        .iter()
                        .zip(&active_scales)
                        .map(|(&it, &scale)| if scale == 0.0 { 0.0 } else { -it * scale }),
                );
                let solved = self.solver.factor(&self.matrix).and_then(|()| self.solver.solve(&mut self.rhs));
                solved.map_err(|error| error.column)?;
                for (at, value) in step.iter_mut().enumerate() {
                    *value = self.rhs[at] * scales[at];
                }
            }
            (Way::Square(_), None) => return Err(None),
        }
        Ok(())
    }
}

/// The values of [`Problem::step_pattern`]; rows whose scale is zero do not count.
pub(crate) fn fill_step(
    problem: &Problem<'_>,
    jacobian: &[f64],
    scales: &[f64],
    weights: &[f64],
    row_scales: &[f64],
    values: &mut Vec<f64>,
) {
    let pattern = &problem.pattern;
    let scaled = |row: usize, entry: usize| match row_scales[row] {
        0.0 => 0.0,
        scale => jacobian[entry] * scales[pattern.columns[entry] as usize] * scale,
    };
    let mut by_column: Vec<Vec<f64>> = vec![Vec::new(); pattern.n_cols];
    for row in 0..pattern.n_rows {
        for entry in pattern.row(row) {
            by_column[pattern.columns[entry] as usize].push(scaled(row, entry));
        }
    }
    values.clear();
    for (column, entries) in by_column.iter().enumerate() {
        values.push(weights[column].powi(2));
        values.extend_from_slice(entries);
    }
    for row in 0..pattern.n_rows {
        values.extend(pattern.row(row).map(|entry| scaled(row, entry)));
        values.push(-REDUNDANCY);
    }
}
