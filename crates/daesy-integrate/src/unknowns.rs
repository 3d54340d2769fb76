//! The unknowns at given states: Newton's method on F(t, s, v) = 0 for v.
//!
//! In mechanics F is linear in v, and for many models dF/dv is constant; one step of Newton's method is then exact.
//! Whether this is so is tried out at points beside the start, and looked at again whenever a solve is checked: a model
//! that is linear at the start only is found out there and treated as nonlinear from then on.
//!
//! Where the system itself has its unknowns in closed form ([`daesy_system::LinearUnknowns`]), that is used as long as
//! it solves the equations to rounding.

use daesy_system::{LinearUnknowns, Part, Quantity};

use crate::block_solve::{solve_in_order, solve_patiently};
use crate::equations::{Equations, FlatUnknown, Surroundings};
use crate::error::IntegrateError;
use crate::initialize::tried_at;
use crate::linear::LinearSolver;

/// Newton iterations before giving up.
const MAX_ITERATIONS: usize = 30;

/// Unknowns are known to this fraction of their sizes.
const ROUNDING: f64 = 1e-12;

/// A slower convergence than this asks for a new matrix.
const SLOW: f64 = 0.2;

/// How often in a row a first step is believed by the convergence that was seen with its matrix before.
const MAX_TRUSTED: usize = 8;

/// What is left then has to be this part of what is left else.
const TRUSTED_GOAL: f64 = 0.1;

/// Convergence is not believed to be faster than this.
const FASTEST: f64 = 0.02;

/// What dF/dv depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dependence {
    /// On nothing.
    Constant,
    /// On time and states.
    Linear,
    /// On the unknowns too.
    Nonlinear,
}

/// How much a solve may be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Care {
    /// A system known to be linear is solved by one step.
    Quick,
    /// The last step is small whatever is known.
    Checked,
}

/// The backward error of a closed form may be so many units of rounding: four digits are to spare.
const MAX_ERROR: f64 = 1e4;

/// The unknowns in closed form.
struct ClosedForm<'s> {
    program: Box<dyn LinearUnknowns + 's>,
    /// Operations beside those of the residuals.
    extra_cost: f64,
    n_bad: usize,
}

/// Solves that came out bad before the closed form is given up.
const MAX_BAD: usize = 20;

/// Solves for the unknowns, with the last matrix as long as it does.
pub(crate) struct UnknownSolver<'s> {
    /// The unknowns in closed form.
    closed: Option<ClosedForm<'s>>,
    /// Made when it is first needed, since a closed form needs none.
    solver: Option<LinearSolver<f64>>,
    /// dF/dv
    by_unknowns: Vec<f64>,
    change: Vec<f64>,
    guess: Vec<f64>,
    dependence: Dependence,
    has_matrix: bool,
    /// By how much the last steps with the matrix shrank; none where that is not known.
    rate: Option<f64>,
    /// How often in a row it was believed.
    n_trusted: usize,
    /// Whether it is believed: by rows, which nothing builds upon, and not by stages, whose errors add up.
    pub(crate) is_trusting: bool,
}

impl<'s> UnknownSolver<'s> {
    /// Prepares solves of a system, tried out near a point.
    pub(crate) fn new(
        equations: &mut Equations<'s>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &[f64],
    ) -> Result<Self, IntegrateError> {
        let dependence = find_dependence(equations, around, states, unknowns);
        let n = unknowns.len();
        let system = equations.system;
        let has_blocks = system.description().blocks.iter().any(|block| block.len > 1);
        // A constant matrix is factored once.
        let is_wanted = dependence != Dependence::Constant || !has_blocks;
        let point = around.point(states, unknowns);
        let program = if is_wanted { system.linear_unknowns(&point) } else { None };
        let closed = program.and_then(|mut program| {
            let mut found = vec![0.0; n];
            let error = program.solve_watched(&point, &mut found);
            let extra_cost = (0.5 * program.n_operations() as f64 - equations.residual_cost()).max(0.0);
            (error <= MAX_ERROR).then_some(ClosedForm { program, extra_cost, n_bad: 0 })
        });
        let mut unknown_solver = Self {
            closed,
            solver: None,
            by_unknowns: Vec::new(),
            change: vec![0.0; n],
            guess: vec![0.0; n],
            dependence,
            has_matrix: false,
            rate: None,
            n_trusted: 0,
            is_trusting: false,
        };
        if unknown_solver.closed.is_none() {
            unknown_solver.solver(equations, around.time)?;
        }
        Ok(unknown_solver)
    }

    fn solver(&mut self, equations: &Equations<'_>, time: f64) -> Result<&mut LinearSolver<f64>, IntegrateError> {
        let solver = match self.solver.take() {
            Some(solver) => solver,
            None => {
                let pattern = equations.system.pattern(Part::ResidualByUnknowns);
                self.by_unknowns.resize(pattern.n_entries(), 0.0);
                LinearSolver::new(pattern).map_err(|singular| equations.singular(time, singular))?
            }
        };
        Ok(self.solver.insert(solver))
    }

    /// The next solve makes a new matrix.
    pub(crate) fn forget_matrix(&mut self) {
        self.has_matrix = false;
    }

    /// Whether the unknowns have a closed form that is trusted.
    pub(crate) const fn has_closed_form(&self) -> bool {
        self.closed.is_some()
    }

    /// Takes note of solves by the closed form that were done elsewhere.
    pub(crate) fn count_closed(&self, equations: &mut Equations<'_>, n_solves: usize) {
        let extra_cost = self.closed.as_ref().map_or(0.0, |closed| closed.extra_cost);
        equations.work.evaluations += n_solves;
        equations.work.cost += n_solves as f64 * (equations.residual_cost() + extra_cost);
    }

    fn factor(
        &mut self,
        equations: &mut Equations<'_>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &[f64],
    ) -> Result<(), IntegrateError> {
        (self.has_matrix, self.rate) = (false, None);
        self.solver(equations, around.time)?;
        let point = around.point(states, unknowns);
        equations.evaluator().evaluate(Part::ResidualByUnknowns, &point, &mut self.by_unknowns);
        if !equations.mend_slopes(Part::ResidualByUnknowns, &point, &mut self.by_unknowns) {
            return Err(equations.not_finite(around, states, unknowns));
        }
        equations.count_jacobian();
        let Some(solver) = &mut self.solver else { return Ok(()) };
        let result = solver.factor(&self.by_unknowns);
        equations.count_factorization(solver.factor_cost());
        result.map_err(|singular| equations.singular(around.time, singular))?;
        self.has_matrix = true;
        Ok(())
    }

    /// Solves F = 0 until the remaining error is below `goal`; `scales` says how each unknown counts.
    #[allow(
        clippy::too_many_arguments,
        reason = "one kernel; a struct would be made anew for each of millions of calls"
    )]
    pub(crate) fn solve(
        &mut self,
        equations: &mut Equations<'_>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &mut [f64],
        scales: &[f64],
        goal: f64,
        care: Care,
    ) -> Result<(), IntegrateError> {
        let result = self.iterate(equations, around, states, unknowns, scales, goal, care);
        let is_lost = matches!(result, Err(IntegrateError::Singular { .. } | IntegrateError::Unsolved { .. }));
        if !is_lost || self.dependence != Dependence::Nonlinear {
            return result;
        }
        unknowns.copy_from_slice(&self.guess);
        let flat = solve_patiently(equations.system, around, states, unknowns);
        if let Some(unknown) = flat {
            equations.multiple_root.get_or_insert(FlatUnknown { time: around.time, unknown });
        } else {
            unknowns.copy_from_slice(&self.guess);
            if !solve_in_order(equations.system, around, states, unknowns) {
                return result;
            }
        }
        self.has_matrix = false;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "as `solve`")]
    fn iterate(
        &mut self,
        equations: &mut Equations<'_>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &mut [f64],
        scales: &[f64],
        goal: f64,
        care: Care,
    ) -> Result<(), IntegrateError> {
        self.guess.copy_from_slice(unknowns);
        if self.solve_closed(equations, around, states, unknowns, care) {
            return Ok(());
        }
        let mut is_fresh = false;
        if !self.has_matrix || self.dependence == Dependence::Linear {
            self.factor(equations, around, states, unknowns)?;
            is_fresh = true;
        }
        let mut last_size = f64::INFINITY;
        let mut n_restarts = 0;
        for iteration in 0..MAX_ITERATIONS {
            if !equations.residual(&around.point(states, unknowns), &mut self.change) {
                if n_restarts > 0 {
                    return Err(equations.not_finite(around, states, unknowns));
                }
                n_restarts += 1;
                unknowns.copy_from_slice(&self.guess);
                self.factor(equations, around, states, unknowns)?;
                is_fresh = true;
                continue;
            }
            let Some(solver) = &mut self.solver else {
                self.factor(equations, around, states, unknowns)?;
                continue;
            };
            equations.work.cost += solver.solve_cost();
            solver.solve(&mut self.change).map_err(|singular| equations.singular(around.time, singular))?;
            let mut size = 0.0f64;
            for ((unknown, change), scale) in unknowns.iter_mut().zip(&self.change).zip(scales) {
                *unknown -= change;
                size = size.max((change * scale).abs());
            }
            if !size.is_finite() {
                return Err(equations.not_finite(around, states, &self.guess));
            }
            if self.dependence != Dependence::Nonlinear {
                if care == Care::Quick || iteration > 0 && size <= goal || size == 0.0 {
                    return Ok(());
                }
                if iteration == 0 {
                    continue;
                }
                // One step was not enough: the system is not what it seemed.
                self.dependence = Dependence::Nonlinear;
            }
            let seen = self.rate.filter(|_| self.is_trusting && self.n_trusted < MAX_TRUSTED);
            let rate = if iteration == 0 { seen.unwrap_or(1.0) } else { size / last_size };
            self.n_trusted = if iteration == 0 { self.n_trusted + 1 } else { 0 };
            if iteration > 0 {
                self.rate = Some(rate.max(FASTEST));
            }
            let forecast = if rate < 0.9 { size * rate / (1.0 - rate) } else { 10.0 * size };
            let enough = if iteration == 0 { TRUSTED_GOAL * goal } else { goal };
            if size == 0.0 || forecast <= enough || size <= 1e-3 * goal {
                if rate > SLOW && iteration > 0 {
                    self.has_matrix = false;
                }
                return Ok(());
            }
            if iteration > 0 && rate > SLOW || iteration == 0 && !is_fresh && size > 1e6 * goal {
                if rate > 2.0 && !is_fresh {
                    unknowns.copy_from_slice(&self.guess);
                }
                self.factor(equations, around, states, unknowns)?;
                is_fresh = true;
            }
            last_size = size;
        }
        if self.is_at_rounding(equations, around, states, unknowns) {
            return Ok(());
        }
        Err(self.unsolved(equations, around, states, unknowns, scales))
    }
}

impl UnknownSolver<'_> {
    /// Solves by the closed form, where there is one; whether that gave the unknowns.
    fn solve_closed(
        &mut self,
        equations: &mut Equations<'_>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &mut [f64],
        care: Care,
    ) -> bool {
        let Some(closed) = &mut self.closed else { return false };
        equations.work.evaluations += 1;
        equations.work.cost += equations.residual_cost() + closed.extra_cost;
        let point = around.point(states, unknowns);
        // Every step ends with a look at the error; within a step it changes little.
        let is_good = match care {
            Care::Quick => {
                closed.program.solve(&point, &mut self.change);
                true
            }
            Care::Checked => closed.program.solve_watched(&point, &mut self.change) <= MAX_ERROR,
        };
        if is_good && self.change.iter().all(|value| value.is_finite()) {
            unknowns.copy_from_slice(&self.change);
            return true;
        }
        closed.n_bad += 1;
        if closed.n_bad > MAX_BAD {
            self.closed = None;
        }
        false
    }

    /// That the iteration did not converge: the unknown that changed most, and the equation that is off most.
    fn unsolved(
        &self,
        equations: &mut Equations<'_>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &[f64],
        scales: &[f64],
    ) -> IntegrateError {
        let scaled = |at: &usize| (self.change[*at] * scales[*at]).abs();
        let largest = (0..unknowns.len()).max_by(|a, b| scaled(a).total_cmp(&scaled(b)));
        let quantities = &equations.system.description().unknowns;
        let variable = largest.map_or(String::new(), |at| quantities[at].name.clone());
        let mut residual = vec![0.0; unknowns.len()];
        let has_values = equations.residual(&around.point(states, unknowns), &mut residual);
        let worst = (0..residual.len()).max_by(|&a, &b| residual[a].abs().total_cmp(&residual[b].abs()));
        let description = equations.system.description();
        let Some(row) = worst.filter(|_| has_values) else {
            return IntegrateError::Unsolved {
                time: around.time,
                variable,
                equation: String::new(),
                place: String::new(),
                residual: 0.0,
                tried: Vec::new(),
            };
        };
        let pattern = equations.system.pattern(Part::ResidualByUnknowns);
        let all: Vec<&Quantity> = description.unknowns.iter().collect();
        let columns = pattern.columns[pattern.row(row)].iter().map(|&column| column as usize);
        let label = description.residuals.get(row).unwrap_or_default();
        IntegrateError::Unsolved {
            time: around.time,
            variable,
            equation: label.text,
            place: label.place,
            residual: residual[row],
            tried: tried_at(columns, &all, unknowns),
        }
    }

    /// Whether residuals are no larger than what rounding of the unknowns makes of them: derivatives of 1e12 with a
    /// nominal value of one are never known to a fraction of that, and the angle of a phasor that is zero but for
    /// rounding is anything.
    fn is_at_rounding(
        &mut self,
        equations: &mut Equations<'_>,
        around: &Surroundings<'_>,
        states: &[f64],
        unknowns: &[f64],
    ) -> bool {
        let point = around.point(states, unknowns);
        let mut residual = vec![0.0; unknowns.len()];
        if self.by_unknowns.is_empty() || !equations.residual(&point, &mut residual) {
            return false;
        }
        self.has_matrix = false;
        equations.evaluator().evaluate(Part::ResidualByUnknowns, &point, &mut self.by_unknowns);
        if !equations.mend_slopes(Part::ResidualByUnknowns, &point, &mut self.by_unknowns) {
            return false;
        }
        let pattern = equations.system.pattern(Part::ResidualByUnknowns);
        let quantities = &equations.system.description().unknowns;
        residual.iter().enumerate().all(|(row, residual)| {
            let noise = |entry: usize| {
                let column = pattern.columns[entry] as usize;
                self.by_unknowns[entry].abs() * unknowns[column].abs().max(quantities[column].nominal)
            };
            residual.abs() <= ROUNDING * pattern.row(row).map(noise).sum::<f64>()
        })
    }
}

/// Compares dF/dv at points beside the given one.
fn find_dependence(
    equations: &mut Equations<'_>,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &[f64],
) -> Dependence {
    let description = equations.system.description();
    // Any numbers without a pattern do.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut beside = |value: f64, nominal: f64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let spread = (seed >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        value + spread * (0.1 * value.abs() + 0.1 * nominal)
    };
    let n_entries = equations.system.pattern(Part::ResidualByUnknowns).n_entries();
    let (mut here, mut there) = (vec![0.0; n_entries], vec![0.0; n_entries]);
    let evaluator = equations.evaluator();
    evaluator.evaluate(Part::ResidualByUnknowns, &around.point(states, unknowns), &mut here);
    let mut dependence = Dependence::Constant;
    // What is linear by its form has no corners that one look could miss.
    let n_looks = if description.blocks.iter().all(|block| block.is_linear) { 1 } else { 3 };
    for _ in 0..n_looks {
        let others: Vec<f64> =
            unknowns.iter().zip(&description.unknowns).map(|(&value, known)| beside(value, known.nominal)).collect();
        evaluator.evaluate(Part::ResidualByUnknowns, &around.point(states, &others), &mut there);
        if there != here {
            return Dependence::Nonlinear;
        }
        let other_states: Vec<f64> =
            states.iter().zip(&description.states).map(|(&value, known)| beside(value, known.nominal)).collect();
        let later = Surroundings { time: beside(around.time, 1.0), ..*around };
        evaluator.evaluate(Part::ResidualByUnknowns, &later.point(&other_states, &others), &mut there);
        if there != here {
            dependence = Dependence::Linear;
        }
    }
    dependence
}
