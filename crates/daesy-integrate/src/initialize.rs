//! Consistent start values: what was written holds, as far as the equations allow it.
//!
//! With z = (s, v, parameters that the start determines) the start satisfies
//!
//! ```text
//! 1  F = 0, g = 0, initial equations and values that are `fixed`           must hold, or there is no start
//! 2  `start` written for variables whose derivatives occur                 as many as possible hold exactly,
//! 3  `start` written for other variables                                   each class within what those before
//! 4  zero for variables of class 2 without a `start`                       it leave open
//! 5  all other start values                                                guesses for Newton's method
//! ```
//!
//! Which wishes of the classes 2 to 4 hold is a matter of ranks (`choice`): there is no compromise between two of them,
//! and their sizes take no part; nominal values only where one moves another of its class a million times as far.
//! Together with what is demanded they make a square system, which Newton's method solves (`newton`). The choice is
//! made from structure, which is right at all points but special ones, and confirmed by numbers where the search
//! begins; where these say that the square system is singular, a nearby point that satisfies the equations at a time
//! nearby decides whether the place is special or the equations are. At a special place more wishes may hold than
//! elsewhere, and do if there is such a start.
//!
//! Wishes that are independent may still ask for what no solution has: x = 2 on the unit circle. Then the start with
//! the least change is taken, and wishes are added to it as long as solutions exist, classes one after the other.
//!
//! Most models have states that are free and unknowns that follow from them. There the states keep their start values,
//! and the unknowns are solved block by block.

pub(crate) mod choice;
pub(crate) mod newton;
pub(crate) mod problem;
mod silenced;

use daesy_system::{DaeSystem, GuessRule, Part, StartClass, StartOrigin, Watch};

use crate::block_solve::solve_by_blocks;
use crate::culprit::{CONDITIONS, CONSTRAINTS, Culprit, RESIDUALS, find_culprit};
use crate::equations::Surroundings;
use crate::error::{EquationOff, IntegrateError, TriedValue};
use crate::event_iteration::HybridStart;
use choice::{Choice, choose_by_numbers, choose_by_structure};
use newton::{Found, Search, Way, scatter};
use problem::{Problem, Values};
use silenced::Silenced;

/// How start values are searched.
#[derive(Clone, PartialEq, Debug)]
pub struct InitializeOptions {
    /// Scaled residuals below this count as zero.
    pub tolerance: f64,
    /// Newton steps before giving up.
    pub max_iterations: usize,
    /// So many tolerances may be left where residuals stop shrinking, as they do around roots of higher order.
    pub slack: f64,
    /// Stops the search.
    pub watch: Watch,
}

impl InitializeOptions {
    /// The usual ones, with a search that can be stopped.
    #[must_use]
    pub fn watched(watch: &Watch) -> Self {
        Self { watch: watch.clone(), ..Self::default() }
    }
}

impl Default for InitializeOptions {
    fn default() -> Self {
        Self { tolerance: 1e-10, max_iterations: 60, slack: 1e3, watch: Watch::default() }
    }
}

/// Consistent start values.
#[derive(Clone, PartialEq, Debug)]
pub struct Initialized {
    /// States.
    pub states: Vec<f64>,
    /// Unknowns.
    pub unknowns: Vec<f64>,
    /// Parameters, those that the start determines and those bound to them included.
    pub parameters: Vec<f64>,
    /// Newton steps taken.
    pub iterations: usize,
    /// Largest scaled residual left.
    pub residual: f64,
}

/// Weight of a default start value against a user's guess, where the least change is searched.
const DEFAULT_WEIGHT: f64 = 1e-2;

/// Weight of an unknown's start value against a state's.
const UNKNOWN_WEIGHT: f64 = 1e-3;

/// How often a failed search begins again beside the given values.
const MAX_REPETITIONS: usize = 3;

/// Searches that begin farther and farther away, where those from beside the given values fail.
const FAR_SEARCHES: u32 = 8;

/// In larger systems no searches begin far away.
const MAX_SEARCHED_AROUND: usize = 200;

/// In larger systems numbers are not asked about structure, and searches begin once.
const MAX_REPEATED: usize = 3000;

/// A nearby point is so far away, relative to the sizes of the variables.
const NEARBY: f64 = 1e-3;

/// A nearby point at which something has no value is moved to other sides so many times at most.
const MAX_TURNS: usize = 8;

/// Wishes for start values hold if they are off by no more than this, relative to the sizes of their terms.
const HOLDS: f64 = 1e-11;

/// A free value that is off by no more than this, relative to its size, is meant to be the one that was written: a
/// search that ends at a point without a value comes as near as the root of its tolerance.
const APPROACHED: f64 = 1e-5;

/// From a point at which the matrix is singular, a search that goes so many sizes away follows rounding errors.
const LOST: f64 = 1e12;

/// A row of which a step leaves a larger share is not linear.
const CURVED: f64 = 1e-6;

/// Rows that determine columns one after the other are followed so far, each with so many steps of Newton's method.
const MAX_WAVES: usize = 40;
const MAX_SINGLE_STEPS: usize = 12;
const MAX_WOKEN_STEPS: usize = 100;

/// Searches that may be spent on adding wishes to a start one by one.
const MAX_ADDITIONS: usize = 400;

/// Finds consistent start values near the given ones, see the module. Where the search ends at a point that leads
/// nowhere, it begins again a little beside the given values.
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
    let problem = Problem::new(system);
    let around = Surroundings { time, parameters, inputs, modes };
    let mut search = Search::new(Values::new(&problem, &around), options.clone());
    let given = search.given();
    if let Some(near) = near {
        let free = problem.free.iter().map(|&parameter| near.parameters[parameter as usize]);
        let begin: Vec<f64> = near.states.iter().chain(&near.unknowns).copied().chain(free).collect();
        if let Ok(started) = search.start(&given, &begin) {
            search.judge(&started.z)?;
            return Ok(search.initialized(started));
        }
    }
    let started = match search.start(&given, &given.clone()) {
        Ok(started) => started,
        Err(refusal) => {
            let repaired = search.repair(&given)?;
            if search.is_lost(&repaired.z, &given) {
                return Err(refusal);
            }
            repaired
        }
    };
    search.judge(&started.z)?;
    Ok(search.initialized(started))
}

/// Which wishes of [`Part::Start`] count where a start was found, whatever values they ask for: those of the square
/// system that structure chooses, or, where that is singular there and nearby, those that numbers choose. Where the
/// equations are linear these are the ones with which the start was found.
///
/// Whoever starts a model by equations of another form asks here, so that a value that coefficients nearly determine is
/// decided alike. `None` if so much hangs together that numbers are not asked.
#[must_use]
pub fn counting_wishes(
    system: &dyn DaeSystem,
    time: f64,
    inputs: &[f64],
    start: &HybridStart,
    options: &InitializeOptions,
) -> Option<Vec<bool>> {
    let problem = Problem::new(system);
    let HybridStart { initialized, modes } = start;
    let around = Surroundings { time, parameters: &initialized.parameters, inputs, modes };
    let free = problem.free.iter().map(|&parameter| initialized.parameters[parameter as usize]);
    let z: Vec<f64> = initialized.states.iter().chain(&initialized.unknowns).copied().chain(free).collect();
    let mut search = Search::new(Values::new(&problem, &around), options.clone());
    let is_entry = search.entries(&z);
    let mut choice = choose_by_structure(&problem, &is_entry);
    if problem.n_cols() <= MAX_REPEATED {
        search.evaluate(&z);
        if !search.is_regular(&choice) {
            search.evaluate_nearby(&z);
            if !search.is_regular(&choice) {
                choice = choose_by_numbers(&problem, &search.jacobian)?;
            }
        }
        choice = search.without_long_levers(choice);
    }
    Some(choice.is_active[problem.n_demanded..].to_vec())
}

/// A start that was found.
struct Started {
    z: Vec<f64>,
    found: Found,
}

impl Search<'_, '_> {
    fn initialized(&self, started: Started) -> Initialized {
        let problem = self.problem();
        let Started { z, found } = started;
        let (states, rest) = z.split_at(problem.n_states);
        let (unknowns, free) = rest.split_at(problem.n_unknowns);
        let mut parameters = self.values.parameters.clone();
        for (&parameter, &value) in problem.free.iter().zip(free) {
            parameters[parameter as usize] = value;
        }
        problem.system.follow_free_parameters(&mut parameters);
        Initialized {
            states: states.to_vec(),
            unknowns: unknowns.to_vec(),
            parameters,
            iterations: found.iterations,
            residual: found.residual,
        }
    }

    /// Whether a point that a search has found is a start, whatever search it was: the one judgement of all verbs.
    ///
    /// With rows r, their terms `|dr/dz| |z|` and a point z' beside z, what is demanded must be small in units that do
    /// not grow without bound where z comes near to a point at which r has no value:
    ///
    /// ```text
    /// |r| <= 1e-3 max over columns of |dr/dz| |z|    or    |r| <= tolerance * sum over columns of |dr/dz|(z') max(|z|, nominal)
    /// ```
    ///
    /// A row such as `der(c) + a/b` with a and b towards zero fails both; in units of its own derivatives, which are
    /// about 1/b, whatever is left of it would vanish. And where free values are those that were written but for a small
    /// rest, what is demanded must have a value without the rest as well: there the search came near to a start that
    /// does not exist, as with `a*c/(b*c)` and c = 0.
    ///
    /// Rows that only give the values of what nothing else reads are left out: an angle of a phasor that is zero,
    /// `atan2(0, 0)`, is any angle, and moves nothing.
    fn judge(&mut self, z: &[f64]) -> Result<(), IntegrateError> {
        let problem = self.problem();
        self.evaluate(z);
        let mut far: Vec<usize> = (0..problem.n_demanded).filter(|&row| self.is_far_off(row, z)).collect();
        if !far.is_empty() {
            let is_read = problem.rows_that_are_read();
            far.retain(|&row| is_read[row]);
        }
        let is_near = (problem.n_demanded..problem.n_rows()).any(|row| self.is_nearly_met(row, z));
        if is_near {
            self.check_where_met(z)?;
        }
        if far.is_empty() {
            return Ok(());
        }
        self.evaluate(z);
        let residual = self.residual.clone();
        let beside = self.perturbed(z, NEARBY, 1);
        let time = self.beside_time();
        self.evaluate(&beside);
        self.values.time = time;
        let limit = self.options.slack * self.options.tolerance;
        let mut scales = vec![0.0; problem.n_rows()];
        for row in far {
            let unit = |entry: usize| {
                let column = problem.pattern.columns[entry] as usize;
                self.jacobian[entry].abs() * z[column].abs().max(self.scales[column])
            };
            let units: f64 = problem.pattern.row(row).map(unit).sum();
            if units.is_finite() && residual[row].abs() > limit * units {
                scales[row] = 1.0 / units.max(f64::MIN_POSITIVE);
            }
        }
        if scales.iter().all(|scale| *scale == 0.0) {
            return Ok(());
        }
        Err(inconsistent(problem, time, z, &residual, &scales))
    }

    /// Whether a wish holds but for a rest, where rows and derivatives were evaluated.
    fn is_nearly_met(&self, row: usize, z: &[f64]) -> bool {
        let problem = self.problem();
        let rest = self.residual[row].abs();
        problem.only_column(row).is_some_and(|column| {
            let size = self.jacobian[problem.pattern.row(row).start].abs() * z[column].abs().max(self.scales[column]);
            rest != 0.0 && rest <= APPROACHED * size
        })
    }

    /// Refuses a point if what is demanded has no value where free values are exactly those that were written.
    fn check_where_met(&mut self, z: &[f64]) -> Result<(), IntegrateError> {
        let problem = self.problem();
        let is_entry = self.entries(z);
        let choice = choose_by_structure(problem, &is_entry);
        self.evaluate(z);
        let first_initial = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let is_met = |row: usize| row < problem.n_demanded || self.residual[row] == 0.0 || self.is_nearly_met(row, z);
        let rows: Vec<usize> = (first_initial..problem.n_rows())
            .filter(|&row| choice.is_active[row] && problem.only_column(row).is_some() && is_met(row))
            .collect();
        self.check_at(z, &rows, problem.n_demanded)
    }

    /// The given start values: of each column the first that an initial condition or a wish gives it alone.
    fn given(&mut self) -> Vec<f64> {
        let problem = self.problem();
        let description = problem.system.description();
        let quantities = description.states.iter().chain(&description.unknowns).map(|quantity| quantity.start);
        let free = problem.free.iter().map(|&parameter| self.values.parameters[parameter as usize]);
        let mut z: Vec<f64> = quantities.chain(free).collect();
        let n_before = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let rows: Vec<usize> = (n_before..problem.n_rows()).collect();
        self.set_single(&mut z, &rows);
        self.follow_rules(&mut z);
        if !self.has_value(&z) {
            self.set_determined(&mut z, &[]);
        }
        z
    }

    /// Gives columns without a start value of their own the ones that rules give them, those first that follow from
    /// no other such column. Rows are linear in their columns, so that one step of Newton's method does.
    fn follow_rules(&mut self, z: &mut [f64]) {
        let problem = self.problem();
        let description = problem.system.description();
        let first_initial = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let mut is_open = vec![false; problem.n_cols()];
        let quantities = description.states.iter().chain(&description.unknowns);
        for (is_open, quantity) in is_open.iter_mut().zip(quantities) {
            *is_open = quantity.start_origin == StartOrigin::Default;
        }
        for column in (first_initial..problem.n_demanded).filter_map(|row| problem.only_column(row)) {
            is_open[column] = false;
        }
        let mut rules: Vec<&GuessRule> =
            description.guesses.iter().filter(|rule| is_open[rule.column as usize]).collect();
        let mut is_ahead = vec![false; problem.n_cols()];
        rules.iter().for_each(|rule| is_ahead[rule.column as usize] = true);
        for _ in 0..MAX_WAVES {
            let columns = |rule: &GuessRule| &problem.pattern.columns[problem.pattern.row(rule.row as usize)];
            let follows = |rule: &GuessRule| columns(rule).iter().any(|&it| it != rule.column && is_ahead[it as usize]);
            let (later, now): (Vec<&GuessRule>, Vec<&GuessRule>) = rules.iter().partition(|rule| follows(rule));
            if now.is_empty() {
                return;
            }
            self.evaluate(z);
            for rule in now {
                let column = rule.column as usize;
                is_ahead[column] = false;
                let entry =
                    problem.pattern.row(rule.row as usize).find(|&it| problem.pattern.columns[it] == rule.column);
                let step = entry.map_or(f64::NAN, |entry| -self.residual[rule.row as usize] / self.jacobian[entry]);
                if step.is_finite() {
                    z[column] += step;
                }
            }
            rules = later;
        }
    }

    /// Whether all that is demanded has finite values and derivatives at a point.
    fn has_value(&mut self, z: &[f64]) -> bool {
        self.evaluate(z);
        let n_demanded = self.problem().n_demanded;
        let n_entries = self.problem().pattern.row_starts[n_demanded] as usize;
        let is_finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        is_finite(&self.residual[..n_demanded]) && is_finite(&self.jacobian[..n_entries])
    }

    /// Gives columns the values that demanded rows determine one after the other, each in one column whose others are
    /// known by then: what follows from parameters and fixed start values alone, such as a cross-section, a permeance
    /// and its reciprocal, which has no value at the guess of zero. Columns that other rows determine stay, and those
    /// that are known already.
    pub(crate) fn set_determined(&mut self, z: &mut [f64], known: &[usize]) {
        let problem = self.problem();
        let mut is_known = vec![false; problem.n_cols()];
        known.iter().for_each(|&column| is_known[column] = true);
        let mut is_done = vec![false; problem.n_demanded];
        for _ in 0..MAX_WAVES {
            let mut wave: Vec<(usize, usize)> = Vec::new();
            for row in (0..problem.n_demanded).filter(|&row| !is_done[row]) {
                let mut open =
                    problem.pattern.row(row).filter(|&entry| !is_known[problem.pattern.columns[entry] as usize]);
                if let (Some(entry), None) = (open.next(), open.next()) {
                    wave.push((row, entry));
                }
            }
            if wave.is_empty() {
                return;
            }
            for &(row, entry) in &wave {
                is_done[row] = true;
                is_known[problem.pattern.columns[entry] as usize] = true;
            }
            self.solve_one_by_one(z, &wave);
        }
    }

    /// Newton's method for rows in one column each, with their entries, the others as they are. The first row of a
    /// column counts; a column stays where that leads nowhere. A column at which its row has no value begins at its
    /// nominal value and keeps the sign of that: towards the root of `1/G - R` from above Newton's step is too long.
    fn solve_one_by_one(&mut self, z: &mut [f64], wave: &[(usize, usize)]) {
        let columns = &self.problem().pattern.columns;
        let before = z.to_vec();
        self.evaluate(z);
        let mut is_woken = vec![false; z.len()];
        for &(row, entry) in wave {
            let column = columns[entry] as usize;
            if !self.residual[row].is_finite() || !self.jacobian[entry].is_finite() {
                is_woken[column] = true;
                z[column] = self.scales[column];
            }
        }
        let n_steps = if is_woken.contains(&true) { MAX_WOKEN_STEPS } else { MAX_SINGLE_STEPS };
        for _ in 0..n_steps {
            self.evaluate(z);
            let mut is_moved = vec![false; z.len()];
            let mut has_moved = false;
            for &(row, entry) in wave {
                let column = columns[entry] as usize;
                let mut step = -self.residual[row] / self.jacobian[entry];
                if is_woken[column] {
                    step = step.max(-0.75 * z[column]);
                }
                if step.is_finite() && step != 0.0 && !std::mem::replace(&mut is_moved[column], true) {
                    z[column] += step;
                    has_moved |= step.abs() > f64::EPSILON * z[column].abs();
                }
            }
            if !has_moved {
                break;
            }
        }
        self.evaluate(z);
        for &(row, entry) in wave {
            let column = columns[entry] as usize;
            let size = (self.jacobian[entry] * z[column]).abs();
            if self.residual[row].is_nan() || self.residual[row].abs() > HOLDS * size {
                z[column] = before[column];
            }
        }
    }

    /// Gives columns the values that rows which are linear in them give them alone, the first row of each column.
    fn set_single(&mut self, z: &mut [f64], rows: &[usize]) {
        let problem = self.problem();
        let mut is_set = vec![false; problem.n_cols()];
        let single: Vec<(usize, usize)> = rows
            .iter()
            .filter_map(|&row| Some((row, problem.only_column(row)?)))
            .filter(|&(_, column)| !std::mem::replace(&mut is_set[column], true))
            .collect();
        if single.is_empty() {
            return;
        }
        let mut residual = vec![0.0; problem.n_rows()];
        self.values.conditions_jacobian(z, &mut self.jacobian);
        let before = z.to_vec();
        self.values.conditions(z, &mut residual);
        let first = residual.clone();
        let step = |residual: &[f64], row: usize| -residual[row] / self.jacobian[problem.pattern.row(row).start];
        let go = |z: &mut [f64], residual: &[f64], row: usize, column: usize| {
            let step = step(residual, row);
            z[column] += if step.is_finite() { step } else { 0.0 };
        };
        single.iter().for_each(|&(row, column)| go(z, &first, row, column));
        self.values.conditions(z, &mut residual);
        for &(row, column) in &single {
            // The difference of two numbers is exact when they are close: the second time the value is met exactly. A
            // row that is not met by then is curved, and may have another root where such a step leads.
            if residual[row].abs() <= CURVED * first[row].abs() {
                go(z, &residual, row, column);
            } else {
                z[column] = before[column];
            }
        }
    }

    /// A start from some point on: what is given where nothing speaks against it, or what the choice of rows says.
    fn start(&mut self, given: &[f64], begin: &[f64]) -> Result<Started, IntegrateError> {
        if let Some(started) = self.start_as_given(given, begin) {
            return Ok(started);
        }
        let mut begin = begin.to_vec();
        self.solve_unknowns(&mut begin);
        let is_entry = self.entries(&begin);
        let choice = choose_by_structure(self.problem(), &is_entry);
        if self.problem().n_cols() > MAX_REPEATED {
            return self.attempt(&choice, &begin, given);
        }
        self.evaluate_at_begin(&choice, &begin);
        let mut special = None;
        if !self.is_regular(&choice) {
            if let Some(started) = self.start_with_more(&choice, &begin, given) {
                return Ok(started);
            }
            self.evaluate_at_begin(&choice, &begin);
            special = choose_by_numbers(self.problem(), &self.jacobian);
            self.evaluate_nearby(&begin);
            if !self.is_regular(&choice) {
                return self.start_by_numbers(&begin, given);
            }
        }
        let steady = self.without_long_levers(choice.clone());
        let started = self.attempts(&steady, &begin, given);
        let started =
            if started.is_err() && steady != choice { self.attempts(&choice, &begin, given) } else { started };
        match special {
            Some(special) if started.as_ref().is_ok_and(|started| self.is_lost(&started.z, &begin)) => {
                self.attempts(&special, &begin, given)
            }
            _ => started,
        }
    }

    /// Whether a search has gone where only rounding errors lead: the matrix is singular where it began, and what should
    /// be zero in it is not.
    fn is_lost(&self, z: &[f64], begin: &[f64]) -> bool {
        let far =
            |((value, begin), scale): ((&f64, &f64), &f64)| (value - begin).abs() > LOST * begin.abs().max(*scale);
        z.iter().zip(begin).zip(&self.scales).any(far)
    }

    /// At a special point a wish may hold whatever the others are, as y = 0 does with y = t x at t = 0, and take the
    /// place of one that is free there only. The choice that numbers make at the point itself is taken if all that
    /// structure has chosen holds with it as well.
    fn start_with_more(&mut self, choice: &Choice, begin: &[f64], given: &[f64]) -> Option<Started> {
        let more = choose_by_numbers(self.problem(), &self.jacobian)?;
        if more.kept.len() > choice.kept.len() || more == *choice {
            return None;
        }
        let started = self.attempt(&more, begin, given).ok()?;
        self.evaluate(&started.z);
        let has_all = choice.rows.iter().all(|&row| row < self.problem().n_demanded || self.holds(&started.z, row));
        has_all.then_some(started)
    }

    /// Keeps states at their given values, where each of them has one and the rest follows.
    fn start_as_given(&mut self, given: &[f64], begin: &[f64]) -> Option<Started> {
        let problem = self.problem();
        let mut z = begin.to_vec();
        z[..problem.n_states].copy_from_slice(&given[..problem.n_states]);
        if !problem.free.is_empty() || !self.solve_unknowns(&mut z) {
            return None;
        }
        self.evaluate(&z);
        let demanded: Vec<bool> = (0..problem.n_rows()).map(|row| row < problem.n_demanded).collect();
        let residual = self.size(&self.residual, &demanded);
        let is_start = residual <= self.options.tolerance && self.are_wishes_settled(&z);
        let is_start = is_start && self.keeps_silenced(&z, given) && self.has_no_long_lever(&z);
        is_start.then_some(Started { z, found: Found { iterations: 0, residual } })
    }

    /// Whether the wishes that do not hold would not hold either without long levers.
    fn has_no_long_lever(&mut self, z: &[f64]) -> bool {
        let problem = self.problem();
        self.evaluate(z);
        if (problem.n_demanded..problem.n_rows()).all(|row| self.holds(z, row)) || problem.n_cols() > MAX_REPEATED {
            return true;
        }
        let is_entry = self.entries(z);
        let choice = choose_by_structure(problem, &is_entry);
        self.evaluate(z);
        self.without_long_levers(choice.clone()) == choice
    }

    /// Whether columns that the modes at hand leave open have their given values. They are only where initial equations
    /// are about more than single states.
    fn keeps_silenced(&mut self, z: &[f64], given: &[f64]) -> bool {
        let problem = self.problem();
        let first_initial = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let is_of_state = |row: usize| problem.only_column(row).is_some_and(|column| column < problem.n_states);
        if (first_initial..problem.n_demanded).all(is_of_state) {
            return true;
        }
        let is_entry = self.entries(z);
        let silenced = Silenced::find(problem, &is_entry);
        self.evaluate(z);
        silenced.columns.iter().all(|&column| z[column] == given[column])
            && silenced.wishes.iter().all(|&row| self.holds(z, row))
    }

    /// Solves for the unknowns at the states of a point; false where that fails for some of them.
    fn solve_unknowns(&mut self, z: &mut [f64]) -> bool {
        let problem = self.problem();
        let (states, rest) = z.split_at_mut(problem.n_states);
        let mut unknowns = rest[..problem.n_unknowns].to_vec();
        let is_solved = solve_by_blocks(problem.system, &self.values.around(), states, &mut unknowns);
        rest[..problem.n_unknowns].copy_from_slice(&unknowns);
        is_solved
    }

    /// Whether a point where unknowns follow from the states needs no choice among wishes: each that does not hold
    /// comes after ones that hold its state, or all of them.
    fn are_wishes_settled(&self, z: &[f64]) -> bool {
        let problem = self.problem();
        let n_before = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        let mut is_held = vec![false; problem.n_states];
        let mut n_held = 0;
        for row in n_before..problem.n_rows() {
            if n_held == problem.n_states {
                return true;
            }
            let holds = row < problem.n_demanded || self.holds(z, row);
            match problem.only_column(row) {
                Some(state) if state < problem.n_states && is_held[state] => {}
                _ if !holds => return false,
                Some(state) if state < problem.n_states => {
                    is_held[state] = true;
                    n_held += 1;
                }
                _ => {}
            }
        }
        true
    }

    /// Whether a row holds where rows and derivatives were evaluated.
    pub(crate) fn holds(&self, z: &[f64], row: usize) -> bool {
        let pattern = &self.problem().pattern;
        let size = |entry: usize| {
            let column = pattern.columns[entry] as usize;
            (self.jacobian[entry] * z[column].abs().max(self.scales[column])).abs()
        };
        self.residual[row].abs() <= HOLDS * pattern.row(row).map(size).sum::<f64>()
    }

    /// The entries of the Jacobian that are not zero at a point or beside it.
    fn entries(&mut self, z: &[f64]) -> Vec<bool> {
        self.evaluate(z);
        let mut is_entry: Vec<bool> = self.jacobian.iter().map(|value| *value != 0.0).collect();
        if is_entry.iter().all(|is_entry| *is_entry) {
            return is_entry;
        }
        let beside = self.perturbed(z, NEARBY, 1);
        let time = self.beside_time();
        self.evaluate(&beside);
        self.values.time = time;
        for (is_entry, value) in is_entry.iter_mut().zip(&self.jacobian) {
            *is_entry |= *value != 0.0;
        }
        is_entry
    }

    /// Moves to a time nearby, and gives the one before.
    fn beside_time(&mut self) -> f64 {
        let time = self.values.time;
        self.values.time = time + NEARBY * time.abs().max(1.0);
        time
    }

    /// A point beside another, the same on every machine.
    fn perturbed(&self, z: &[f64], by: f64, attempt: u32) -> Vec<f64> {
        let moved =
            |((value, scale), key): ((&f64, &f64), &u32)| value + by * scatter(*key, attempt) * value.abs().max(*scale);
        z.iter().zip(&self.scales).zip(&self.keys).map(moved).collect()
    }

    /// A point beside another at which what is demanded has a value, if such a one is found: a root that is zero at the
    /// point has none on one of its sides. Columns of rows without a value go to the other side.
    fn perturbed_with_value(&mut self, z: &[f64], attempt: u32) -> Vec<f64> {
        let problem = self.problem();
        let mut beside = self.perturbed(z, NEARBY, attempt);
        for _ in 0..MAX_TURNS {
            self.evaluate(&beside);
            let mut turns = vec![false; z.len()];
            for row in 0..problem.n_demanded {
                let has_value = self.residual[row].is_finite()
                    && self.jacobian[problem.pattern.row(row)].iter().all(|d| d.is_finite());
                if !has_value {
                    let columns = &problem.pattern.columns[problem.pattern.row(row)];
                    columns.iter().for_each(|&column| turns[column as usize] = true);
                }
            }
            if !turns.contains(&true) {
                break;
            }
            for ((value, center), _) in beside.iter_mut().zip(z).zip(&turns).filter(|(_, turns)| **turns) {
                *value = center - (*value - center);
            }
        }
        beside
    }

    /// Evaluates rows and derivatives beside a point, at a time nearby, where what is demanded holds if such a point is
    /// found.
    fn evaluate_nearby(&mut self, z: &[f64]) {
        let time = self.beside_time();
        let beside = self.perturbed_with_value(z, 2);
        let mut point = beside.clone();
        let demanded: Vec<bool> = (0..self.problem().n_rows()).map(|row| row < self.problem().n_demanded).collect();
        let weights = vec![1.0; z.len()];
        let way = Way::LeastChange { weights: &weights, target: &beside };
        let found = self.run(&mut point, &demanded, way);
        self.evaluate(if found.is_ok() { &point } else { &beside });
        self.values.time = time;
    }

    /// Evaluates rows and derivatives where a search with a choice of rows begins.
    fn evaluate_at_begin(&mut self, choice: &Choice, begin: &[f64]) {
        let mut z = begin.to_vec();
        self.set_single(&mut z, &choice.rows);
        self.evaluate(&z);
    }

    /// Solves for a choice of rows from a point on.
    fn attempt(&mut self, choice: &Choice, begin: &[f64], given: &[f64]) -> Result<Started, IntegrateError> {
        let problem = self.problem();
        let mut z = begin.to_vec();
        for &column in &choice.kept {
            z[column] = given[column];
        }
        let conditions: Vec<usize> = self.conditions_of(choice);
        self.set_single(&mut z, &conditions);
        self.values.residual(&z, &mut self.residual);
        let mut choice = choice.clone();
        choice.keep_given(problem, &self.residual);
        let found = self.run(&mut z, &choice.is_active.clone(), Way::Square(&choice))?;
        Ok(Started { z, found })
    }

    /// The same by steps that change as little as possible. Where the matrix is singular at a point, Newton's step has
    /// no value there; but the point may be a solution already in the directions that its rows do not see, as x = 0 is
    /// of `x^2 = y` where another row says `y = 0`. What is found from elsewhere is off by the root of a tolerance.
    fn attempt_with_least_change(
        &mut self,
        choice: &Choice,
        begin: &[f64],
        given: &[f64],
    ) -> Result<Started, IntegrateError> {
        let mut z = begin.to_vec();
        for &column in &choice.kept {
            z[column] = given[column];
        }
        let conditions: Vec<usize> = self.conditions_of(choice);
        self.set_single(&mut z, &conditions);
        let (weights, target) = (vec![1.0; z.len()], z.clone());
        let way = Way::LeastChange { weights: &weights, target: &target };
        let found = self.run(&mut z, &choice.is_active, way)?;
        Ok(Started { z, found })
    }

    /// Initial conditions and wishes among the rows of a choice.
    fn conditions_of(&self, choice: &Choice) -> Vec<usize> {
        let problem = self.problem();
        let n_before = problem.n_demanded - problem.system.pattern(Part::Initial).n_rows;
        choice.rows.iter().copied().filter(|&row| row >= n_before).collect()
    }

    /// The same, and if it fails from points beside and then farther and farther away: what rows give alone is no
    /// guess, and a solution elsewhere comes before one that drops what was written.
    fn attempts(&mut self, choice: &Choice, begin: &[f64], given: &[f64]) -> Result<Started, IntegrateError> {
        let first = self.attempt(choice, begin, given);
        if first.is_ok() {
            return first;
        }
        if matches!(first, Err(IntegrateError::Singular { .. }))
            && let Ok(started) = self.attempt_with_least_change(choice, begin, given)
        {
            // Steps that change little meet what is asked to a tolerance; Newton's method, where it has steps there, to
            // rounding.
            return self.attempt(choice, &started.z, given).or(Ok(started));
        }
        let near = (1..=MAX_REPETITIONS).find_map(|attempt| {
            let beside = self.beside(begin, attempt);
            self.attempt(choice, &beside, given).ok()
        });
        let found = near.or_else(|| self.search_far(choice, begin, given)).or_else(|| {
            // Other directions, which are not the same in every form of the model: better than none.
            let positions = (0..self.keys.len() as u32).collect();
            let keys = std::mem::replace(&mut self.keys, positions);
            let found = self.search_far(choice, begin, given);
            self.keys = keys;
            found
        });
        found.map_or(first, Ok)
    }

    /// Searches from points that are farther and farther away.
    fn search_far(&mut self, choice: &Choice, begin: &[f64], given: &[f64]) -> Option<Started> {
        let n_far = if self.problem().n_cols() <= MAX_SEARCHED_AROUND { FAR_SEARCHES } else { 0 };
        (1..=n_far).find_map(|attempt| {
            let mut far = self.perturbed(begin, 0.5 * f64::from(attempt), attempt);
            self.solve_unknowns(&mut far);
            self.attempt(choice, &far, given).ok()
        })
    }

    /// A little beside a point, each time elsewhere, unknowns following where they can.
    fn beside(&mut self, begin: &[f64], attempt: usize) -> Vec<f64> {
        let problem = self.problem();
        let mut z = begin.to_vec();
        for (at, value) in z[..problem.n_states + problem.n_unknowns].iter_mut().enumerate() {
            // Any direction will do, but the same on every machine.
            let sign = if (at + attempt).is_multiple_of(2) { -1.0 } else { 1.0 };
            *value += sign * 0.07 * attempt as f64 * value.abs().max(0.3 * self.scales[at]);
        }
        self.solve_unknowns(&mut z);
        z
    }

    /// The start where structure does not know which rows are independent: numbers at a nearby point decide, and again
    /// at the start that was found. Rows and derivatives were evaluated nearby.
    fn start_by_numbers(&mut self, begin: &[f64], given: &[f64]) -> Result<Started, IntegrateError> {
        let problem = self.problem();
        let time = self.values.time;
        let too_large = || problem.singular(time, None);
        let choice = choose_by_numbers(problem, &self.jacobian).ok_or_else(too_large)?;
        let mut choice = self.without_long_levers(choice);
        let mut last = None;
        for _ in 0..=MAX_REPETITIONS {
            let started = self.attempts(&choice, begin, given)?;
            self.evaluate_nearby(&started.z);
            let Some(next) = choose_by_numbers(problem, &self.jacobian) else { return Ok(started) };
            let next = self.without_long_levers(next);
            if next == choice {
                return Ok(started);
            }
            choice = next;
            last = Some(started);
        }
        last.ok_or_else(too_large)
    }

    /// The start with the least change, to which wishes are added as long as there are solutions: all of a class at
    /// once where that works, halves of them where not.
    fn repair(&mut self, given: &[f64]) -> Result<Started, IntegrateError> {
        let problem = self.problem();
        let weights = start_weights(problem);
        let mut is_active: Vec<bool> = (0..problem.n_rows()).map(|row| row < problem.n_demanded).collect();
        let mut target = given.to_vec();
        self.solve_unknowns(&mut target);
        let mut started = self.least_change(&target, &is_active, &weights)?;
        if problem.n_cols() > MAX_REPEATED {
            return Ok(started);
        }
        let mut ranges = Vec::new();
        for class in [StartClass::Default, StartClass::Other, StartClass::Differential] {
            let first = problem.classes.partition_point(|known| *known < class);
            let end = problem.classes.partition_point(|known| *known <= class);
            if first < end {
                ranges.push(problem.n_demanded + first..problem.n_demanded + end);
            }
        }
        for _ in 0..MAX_ADDITIONS {
            let Some(range) = ranges.pop() else { break };
            let mut more = is_active.clone();
            more[range.clone()].fill(true);
            let mut z = started.z.clone();
            let way = Way::LeastChange { weights: &weights, target: &target };
            match self.run(&mut z, &more, way) {
                Ok(found) => {
                    is_active = more;
                    started = Started { z, found };
                }
                Err(_) if range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    ranges.push(middle..range.end);
                    ranges.push(range.start..middle);
                }
                Err(_) => {}
            }
        }
        Ok(started)
    }

    /// A start that satisfies what is demanded with the least change from a target, searched from there or from beside.
    fn least_change(&mut self, target: &[f64], is_active: &[bool], weights: &[f64]) -> Result<Started, IntegrateError> {
        let mut first = None;
        for attempt in 0..=MAX_REPETITIONS {
            let mut z = if attempt == 0 { target.to_vec() } else { self.beside(target, attempt) };
            match self.run(&mut z, is_active, Way::LeastChange { weights, target }) {
                Ok(found) => return Ok(Started { z, found }),
                Err(error) => first = first.or(Some(error)),
            }
            if self.problem().n_cols() > MAX_REPEATED {
                break;
            }
        }
        let time = self.values.time;
        Err(first.unwrap_or(IntegrateError::TooManySteps { limit: self.options.max_iterations, time }))
    }
}

/// How much a column resists change where the least change is searched.
pub(crate) fn start_weights(problem: &Problem<'_>) -> Vec<f64> {
    let description = problem.system.description();
    let quantities = description.states.iter().chain(&description.unknowns).enumerate();
    let weight = |(at, quantity): (usize, &daesy_system::Quantity)| {
        let weight = if quantity.start_origin == StartOrigin::Default { DEFAULT_WEIGHT } else { 1.0 };
        if at < problem.n_states { weight } else { weight * UNKNOWN_WEIGHT }
    };
    quantities.map(weight).chain(problem.free.iter().map(|_| UNKNOWN_WEIGHT)).collect()
}

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

/// The values of some columns, each once, as many as a message can hold.
pub(crate) fn tried_at(
    columns: impl Iterator<Item = usize>,
    quantities: &[&daesy_system::Quantity],
    values: &[f64],
) -> Vec<TriedValue> {
    const MOST: usize = 6;
    let mut tried: Vec<TriedValue> = Vec::new();
    for column in columns {
        let (Some(quantity), Some(&value)) = (quantities.get(column), values.get(column)) else { continue };
        if tried.len() < MOST && !tried.iter().any(|known| known.name == quantity.name) {
            tried.push(TriedValue { name: quantity.name.clone(), value });
        }
    }
    tried
}

/// The failure of a search, with the demanded equations that are farthest off.
fn inconsistent(problem: &Problem<'_>, time: f64, z: &[f64], residual: &[f64], row_scales: &[f64]) -> IntegrateError {
    let size = |row: usize| (residual[row] * row_scales[row]).abs();
    let mut rows: Vec<usize> = (0..problem.n_demanded).collect();
    rows.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
    let worst = rows.first().map_or(0.0, |&row| size(row));
    rows.truncate(3);
    rows.retain(|&row| size(row) >= 1e-3 * worst);
    let description = problem.system.description();
    let quantities: Vec<&daesy_system::Quantity> = description.states.iter().chain(&description.unknowns).collect();
    let columns = rows.iter().flat_map(|&row| &problem.pattern.columns[problem.pattern.row(row)]);
    let tried = tried_at(columns.map(|&column| column as usize), &quantities, z);
    let mut off = rows.iter().map(|&row| {
        let (equation, place) = problem.label(row);
        EquationOff { equation, place, residual: residual[row] }
    });
    let first = off.next();
    let (equation, place, residual) =
        first.map_or_else(Default::default, |first| (first.equation, first.place, first.residual));
    IntegrateError::NoConsistentStart { time, equation, place, residual, also: off.collect(), tried }
}
