//! The equations of the start: all rows over all columns, with their values at a point.
//!
//! ```text
//! columns   z = (s, v, parameters that the start determines)
//! rows      F | g | initial conditions      demanded
//!           wishes for start values         by class, in the order of declaration within each
//! ```

use daesy_system::{DaeSystem, Evaluator, Part, Pattern, Rate, StartClass, StartOrigin};

use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::slopes::mend;

/// A group of rows: a part of the system with its derivative parts.
pub(crate) struct Rows {
    pub(crate) part: Part,
    pub(crate) by_states: Part,
    pub(crate) by_unknowns: Option<Part>,
    pub(crate) by_parameters: Part,
    pub(crate) by_inputs: Option<Part>,
}

/// The groups in the order of the rows; the last one are the wishes.
pub(crate) const ROWS: [Rows; 4] = [
    Rows {
        part: Part::Residual,
        by_states: Part::ResidualByStates,
        by_unknowns: Some(Part::ResidualByUnknowns),
        by_parameters: Part::ResidualByParameters,
        by_inputs: Some(Part::ResidualByInputs),
    },
    Rows {
        part: Part::Constraint,
        by_states: Part::ConstraintByStates,
        by_unknowns: None,
        by_parameters: Part::ConstraintByParameters,
        by_inputs: Some(Part::ConstraintByInputs),
    },
    Rows {
        part: Part::Initial,
        by_states: Part::InitialByStates,
        by_unknowns: Some(Part::InitialByUnknowns),
        by_parameters: Part::InitialByParameters,
        by_inputs: None,
    },
    Rows {
        part: Part::Start,
        by_states: Part::StartByStates,
        by_unknowns: Some(Part::StartByUnknowns),
        by_parameters: Part::StartByParameters,
        by_inputs: None,
    },
];

/// A wish that is not a row of the system: a column and the value it should have.
#[derive(Clone, Copy, PartialEq, Debug)]
struct OwnWish {
    column: usize,
    value: f64,
}

/// The start as a system of equations.
pub(crate) struct Problem<'s> {
    pub(crate) system: &'s dyn DaeSystem,
    pub(crate) n_states: usize,
    pub(crate) n_unknowns: usize,
    pub(crate) free: Vec<u32>,
    /// Jacobian of all rows by all columns.
    pub(crate) pattern: Pattern,
    /// For each derivative part the place of each entry in `pattern`; `u32::MAX` for parameters that are given.
    pub(crate) places: Vec<(Part, Vec<u32>)>,
    /// Rows before this must hold, those from here on are wishes.
    pub(crate) n_demanded: usize,
    /// The class of each wish.
    pub(crate) classes: Vec<StartClass>,
    /// The wishes, where the system has no rows for them.
    own: Vec<OwnWish>,
}

/// The wishes of a system that describes its start values only.
fn own_wishes(system: &dyn DaeSystem) -> Vec<(StartClass, OwnWish)> {
    let description = system.description();
    if !description.start_conditions.is_empty() {
        return Vec::new();
    }
    let n_states = description.states.len();
    let class = |column: usize, origin: StartOrigin| match (column < n_states, origin) {
        (true, StartOrigin::Default) => Some(StartClass::Default),
        (true, _) => Some(StartClass::Differential),
        (false, StartOrigin::Default) => None,
        (false, _) => Some(StartClass::Other),
    };
    let quantities = description.states.iter().chain(&description.unknowns).enumerate();
    let mut wishes: Vec<(StartClass, OwnWish)> = quantities
        .filter_map(|(column, it)| Some((class(column, it.start_origin)?, OwnWish { column, value: it.start })))
        .collect();
    wishes.sort_by_key(|(class, _)| *class);
    wishes
}

impl<'s> Problem<'s> {
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Self {
        let description = system.description();
        let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
        let free = description.free_parameters.clone();
        let n_cols = n_states + n_unknowns + free.len();
        let pattern = Pattern { n_rows: 0, n_cols, row_starts: vec![0], columns: Vec::new() };
        let own = own_wishes(system);
        let mut problem = Self {
            system,
            n_states,
            n_unknowns,
            free,
            pattern,
            places: Vec::with_capacity(3 * ROWS.len()),
            n_demanded: 0,
            classes: description.start_conditions.iter().map(|condition| condition.class).collect(),
            own: Vec::new(),
        };
        let mut column_of_parameter = vec![u32::MAX; description.parameters.len()];
        for (at, &parameter) in problem.free.iter().enumerate() {
            column_of_parameter[parameter as usize] = (n_states + n_unknowns + at) as u32;
        }
        let has_rows = !problem.classes.is_empty();
        for rows in ROWS.iter().filter(|rows| rows.part != Part::Start || has_rows) {
            if rows.part == Part::Start {
                problem.n_demanded = problem.pattern.n_rows;
            }
            problem.append(rows, &column_of_parameter);
        }
        if !has_rows {
            problem.n_demanded = problem.pattern.n_rows;
            for (class, wish) in own {
                problem.pattern.columns.push(wish.column as u32);
                problem.pattern.row_starts.push(problem.pattern.columns.len() as u32);
                problem.pattern.n_rows += 1;
                problem.classes.push(class);
                problem.own.push(wish);
            }
        }
        problem
    }

    /// Appends the rows of a group.
    fn append(&mut self, rows: &Rows, column_of_parameter: &[u32]) {
        let system = self.system;
        let n_rows = system.pattern(rows.part).n_rows;
        let n_states = self.n_states as u32;
        let empty = |part: Part| (part, Vec::with_capacity(system.pattern(part).n_entries()));
        let mut parts: Vec<(Part, Vec<u32>)> = vec![empty(rows.by_states)];
        parts.extend(rows.by_unknowns.map(empty));
        if !self.free.is_empty() {
            parts.push(empty(rows.by_parameters));
        }
        let pattern = &mut self.pattern;
        for row in 0..n_rows {
            for (part, places) in &mut parts {
                let source = system.pattern(*part);
                for &column in &source.columns[source.row(row)] {
                    let column = if *part == rows.by_states {
                        column
                    } else if Some(*part) == rows.by_unknowns {
                        column + n_states
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
        self.places.extend(parts);
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.pattern.n_rows
    }

    pub(crate) fn n_cols(&self) -> usize {
        self.pattern.n_cols
    }

    /// The only column of a row, where it has but one.
    pub(crate) fn only_column(&self, row: usize) -> Option<usize> {
        let entries = self.pattern.row(row);
        (entries.len() == 1).then(|| self.pattern.columns[entries.start] as usize)
    }

    /// The matrix of the least-change step: diagonal, transpose, rows, diagonal.
    pub(crate) fn step_pattern(&self) -> Pattern {
        let (n, m) = (self.n_cols(), self.n_rows());
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
            pattern.columns.extend(&self.pattern.columns[self.pattern.row(row)]);
            pattern.columns.push((n + row) as u32);
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        pattern
    }

    /// A demanded row in the model's words, with its place.
    pub(crate) fn label(&self, row: usize) -> (String, String) {
        let description = self.system.description();
        let (n_residuals, n_constraints) = (description.residuals.len(), description.constraints.len());
        let label = if row < n_residuals {
            description.residuals.get(row)
        } else if row < n_residuals + n_constraints {
            description.constraints.get(row - n_residuals)
        } else {
            description.initial.get(row - n_residuals - n_constraints).cloned()
        };
        label.map_or_else(Default::default, |label| (label.text, label.place))
    }

    /// Which of the demanded rows something depends on: states, their rates, free parameters, or other such rows. Each of
    /// the others has a column that no row reads beside it.
    pub(crate) fn rows_that_are_read(&self) -> Vec<bool> {
        let mut is_held = vec![false; self.n_cols()];
        is_held[..self.n_states].fill(true);
        is_held[self.n_states + self.n_unknowns..].fill(true);
        for rate in &self.system.description().rates {
            if let Rate::Unknown(unknown) = rate {
                is_held[self.n_states + *unknown as usize] = true;
            }
        }
        let columns_of = |row: usize| self.pattern.row(row).map(|entry| self.pattern.columns[entry] as usize);
        let mut rows_of = vec![Vec::new(); self.n_cols()];
        (0..self.n_demanded).for_each(|row| columns_of(row).for_each(|column| rows_of[column].push(row)));
        let mut n_rows: Vec<usize> = rows_of.iter().map(Vec::len).collect();
        let mut is_read = vec![true; self.n_demanded];
        let mut open: Vec<usize> = (0..self.n_cols()).collect();
        while let Some(column) = open.pop() {
            if is_held[column] || n_rows[column] != 1 {
                continue;
            }
            let Some(&row) = rows_of[column].iter().find(|&&row| is_read[row]) else { continue };
            is_read[row] = false;
            for column in columns_of(row) {
                n_rows[column] -= 1;
                open.push(column);
            }
        }
        is_read
    }

    /// A number of each column that is a function of its name alone (FNV-1a [@fowler1991]). Searches that have to leave a
    /// point in some direction take one by it, since the positions of variables differ between forms of a model, which
    /// would find different roots: of `p^2 = 4` from 0, say.
    pub(crate) fn keys(&self) -> Vec<u32> {
        let description = self.system.description();
        let quantities = description.states.iter().chain(&description.unknowns).map(|quantity| quantity.name.as_str());
        let free = self.free.iter().map(|&parameter| description.parameters[parameter as usize].as_str());
        let key = |name: &str| {
            name.bytes().fold(0x811C_9DC5, |key: u32, byte| (key ^ u32::from(byte)).wrapping_mul(0x0100_0193))
        };
        quantities.chain(free).map(key).collect()
    }

    /// The matrix of a start is singular at a column.
    pub(crate) fn singular(&self, time: f64, column: Option<usize>) -> IntegrateError {
        let description = self.system.description();
        let name = column.and_then(|at| description.states.iter().chain(&description.unknowns).nth(at));
        IntegrateError::Singular { time, variable: name.map_or(String::new(), |quantity| quantity.name.clone()) }
    }

    /// Typical sizes of the columns.
    pub(crate) fn scales(&self, parameters: &[f64]) -> Vec<f64> {
        let description = self.system.description();
        let quantities = description.states.iter().chain(&description.unknowns).map(|quantity| quantity.nominal);
        let of_parameter = |&at: &u32| match parameters[at as usize] {
            0.0 => 1.0,
            value => value.abs(),
        };
        quantities.chain(self.free.iter().map(of_parameter)).collect()
    }
}

/// Values of the rows and of their derivatives.
pub(crate) struct Values<'p, 's> {
    pub(crate) problem: &'p Problem<'s>,
    pub(crate) time: f64,
    pub(crate) inputs: &'p [f64],
    pub(crate) modes: &'p [f64],
    /// All parameters, those among the columns with the values of the last point.
    pub(crate) parameters: Vec<f64>,
    evaluator: Box<dyn Evaluator + 's>,
    scratch: Vec<f64>,
}

impl<'p, 's> Values<'p, 's> {
    pub(crate) fn new(problem: &'p Problem<'s>, around: &Surroundings<'p>) -> Self {
        Self {
            problem,
            time: around.time,
            inputs: around.inputs,
            modes: around.modes,
            parameters: around.parameters.to_vec(),
            evaluator: problem.system.evaluator(),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn around(&self) -> Surroundings<'_> {
        Surroundings { time: self.time, parameters: &self.parameters, inputs: self.inputs, modes: self.modes }
    }

    fn set_parameters(&mut self, z: &[f64]) {
        let first = self.problem.n_states + self.problem.n_unknowns;
        for (&parameter, &value) in self.problem.free.iter().zip(&z[first..]) {
            self.parameters[parameter as usize] = value;
        }
    }

    /// The rows at a point.
    pub(crate) fn residual(&mut self, z: &[f64], residual: &mut [f64]) {
        self.rows(z, Part::Residual, residual);
    }

    /// Initial conditions and wishes only.
    pub(crate) fn conditions(&mut self, z: &[f64], residual: &mut [f64]) {
        self.rows(z, Part::Initial, residual);
    }

    /// The rows of the groups from a part on.
    fn rows(&mut self, z: &[f64], first: Part, residual: &mut [f64]) {
        self.set_parameters(z);
        let problem = self.problem;
        let around =
            Surroundings { time: self.time, parameters: &self.parameters, inputs: self.inputs, modes: self.modes };
        let (states, rest) = z.split_at(problem.n_states);
        let point = around.point(states, &rest[..problem.n_unknowns]);
        let mut at = 0;
        for rows in &ROWS {
            if rows.part == Part::Start && !problem.own.is_empty() {
                continue;
            }
            let n = problem.system.pattern(rows.part).n_rows;
            if rows.part >= first {
                self.evaluator.evaluate(rows.part, &point, &mut residual[at..at + n]);
            }
            at += n;
        }
        for (value, wish) in residual[at..].iter_mut().zip(&problem.own) {
            *value = z[wish.column] - wish.value;
        }
    }

    /// Their derivatives at a point, in the order of the pattern.
    pub(crate) fn jacobian(&mut self, z: &[f64], jacobian: &mut [f64]) {
        self.derivatives(z, Part::Residual, jacobian);
    }

    /// Derivatives of initial conditions and wishes only.
    pub(crate) fn conditions_jacobian(&mut self, z: &[f64], jacobian: &mut [f64]) {
        self.derivatives(z, Part::Initial, jacobian);
    }

    /// Derivatives of the groups from a part on.
    fn derivatives(&mut self, z: &[f64], first: Part, jacobian: &mut [f64]) {
        self.set_parameters(z);
        let problem = self.problem;
        let around =
            Surroundings { time: self.time, parameters: &self.parameters, inputs: self.inputs, modes: self.modes };
        let (states, rest) = z.split_at(problem.n_states);
        let point = around.point(states, &rest[..problem.n_unknowns]);
        for (part, places) in problem.places.iter().filter(|(part, _)| *part >= first) {
            self.scratch.resize(places.len(), 0.0);
            self.evaluator.evaluate(*part, &point, &mut self.scratch);
            mend(problem.system, &mut *self.evaluator, *part, &point, &mut self.scratch);
            for (&place, &value) in places.iter().zip(&self.scratch) {
                if place != u32::MAX {
                    jacobian[place as usize] = value;
                }
            }
        }
        let first_own = jacobian.len() - problem.own.len();
        jacobian[first_own..].fill(1.0);
    }
}
