//! One step after the other: the choice of method and step size, the return to the constraints, and values between step
//! ends.
//!
//! Systems that are not stiff take explicit steps of order 8 (module `dormand_prince`), stiff ones linearly implicit steps of
//! order 4 or 5 where the tolerance is loose (module `rosenbrock`) and implicit ones of order 9 or 13 else (module
//! `radau`); a contest decides which (module `contest`). Every accepted step ends on the constraints. Between step ends
//! the states follow the polynomial of the method and are moved onto the constraints, after which the unknowns are
//! solved from their equations.

use daesy_system::{DaeSystem, Part, Rate};
use faer::c64;

use crate::collocation::Collocation;
use crate::contest::{Change, Contest, Kind, Progress};
use crate::dormand_prince::{DormandPrince, ERROR_ORDER, borders};
use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::initialize::Initialized;
use crate::linear::SingularMatrix;
use crate::model::{Model, Moment, Trial};
use crate::project::{Projected, Projector};
use crate::radau::{Attempt, Radau};
use crate::rosenbrock::Rosenbrock;
use crate::simulate::{Inputs, Method, MultipleRoot, SimulateOptions, SingularSlope};
use crate::spectral::Spectral;
use crate::unknowns::{Care, UnknownSolver};

/// Where another method takes over, the first step is this part of the one that was planned.
const RESORT_STEP: f64 = 0.1;

/// Systems with more unknowns begin with implicit steps: they are networks or grids, which are stiff.
const LARGE: usize = 400;

/// By how much an implicit step may grow at once.
const MAX_GROWTH: f64 = 8.0;

/// Where no state moves, steps are as long as unknowns that are searched for stay this near to the line through the last two
/// points, in units of their sizes: of several solutions the one at hand is followed. What is left of them by the line
/// falls with the square of the step, its fourth power with the eighth, as errors of explicit steps do.
const LARGEST_STRIDE: f64 = 0.1;

/// The shortest such step, as a part of the time span: unknowns may jump.
const SHORTEST_STRIDE: f64 = 1e-5;

/// Rates that differ by less, relative to their size, are the same.
const SAME_RATE: f64 = 1e-3;

/// Values of all variables at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) time: f64,
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    pub(crate) inputs: Vec<f64>,
}

/// Steps taken so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) steps: usize,
    pub(crate) rejected: usize,
}

/// Work done by a stepper.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StepperWork {
    pub(crate) factorizations: usize,
    pub(crate) evaluations: usize,
}

/// The end of a step to be tried.
#[derive(Clone, Copy, Debug)]
struct Aim {
    time: f64,
    step: f64,
    /// Whether inputs may break there, so that their values before count.
    is_at_break: bool,
}

/// What the choice of the next step size remembers of the last step.
#[derive(Clone, Copy, Debug)]
struct Memory {
    step: f64,
    error: f64,
}

/// The method for stiff systems.
enum Implicit {
    Radau(Box<Radau>),
    Rosenbrock(Box<Rosenbrock>),
}

impl Implicit {
    fn restart(&mut self) {
        match self {
            Self::Radau(radau) => radau.restart(),
            Self::Rosenbrock(rosenbrock) => rosenbrock.restart(),
        }
    }
}

/// A point on the way and what is needed to go on from it.
///
/// Whoever changes the states, unknowns, inputs or modes calls [`Stepper::restart`] afterwards.
pub(crate) struct Stepper<'s, 'i> {
    options: &'i SimulateOptions,
    pub(crate) model: Model<'s, 'i>,
    projector: Option<Projector<'s>>,
    contest: Contest,
    /// The method of the last step.
    last_kind: Kind,
    explicit: DormandPrince<'s>,
    spectral: Spectral,
    implicit: Option<Implicit>,
    pub(crate) now: Moment,
    /// Where the last step began.
    old: Moment,
    /// Where the step being tried ends.
    next: Moment,
    next_step: f64,
    memory: Option<Memory>,
    /// By how much steps may grow; small after a failed iteration.
    largest_growth: f64,
    is_first_step: bool,
    /// Whether what is carried along came near the border of stability.
    is_pressed: bool,
    /// The last points that were asked for within a step, the latest last.
    found: Vec<Found>,
    /// The same and the solver for rows: steps do not depend on what is read.
    row_found: Vec<Found>,
    row_solver: Option<UnknownSolver<'s>>,
    pub(crate) taken: Taken,
    pub(crate) constraint_residual_max: f64,
}

/// Points within a step that are remembered: a parabola goes through three.
const MAX_FOUND: usize = 3;

/// A point between the ends of a step.
struct Found {
    /// The ends of the step.
    ends: [f64; 2],
    time: f64,
    unknowns: Vec<f64>,
}

/// What became of the states where some were given new values.
pub(crate) struct KeptStates {
    /// Which kept their values, those that were given included.
    pub(crate) kept: Vec<bool>,
    /// Which moved though others ought to have: the constraints have no solution else.
    pub(crate) displaced: Vec<usize>,
}

impl<'s, 'i> Stepper<'s, 'i> {
    /// Begins at a consistent point.
    pub(crate) fn new(
        system: &'s dyn DaeSystem,
        inputs: &'i dyn Inputs,
        options: &'i SimulateOptions,
        time: f64,
        start: &Initialized,
        input_values: Vec<f64>,
        modes: Vec<f64>,
    ) -> Result<Self, IntegrateError> {
        let (n_states, n_unknowns) = (start.states.len(), start.unknowns.len());
        let now =
            Moment { time, states: start.states.clone(), unknowns: start.unknowns.clone(), rates: vec![0.0; n_states] };
        let model = Model::new(system, inputs, &now, start.parameters.clone(), input_values, modes)?;
        let kind = match options.method {
            Method::Auto if n_unknowns > LARGE && n_states > 0 => Kind::Implicit,
            Method::Auto | Method::Explicit => Kind::Explicit,
            Method::Rosenbrock | Method::Radau => Kind::Implicit,
        };
        let mut stepper = Self {
            options,
            model,
            projector: Projector::new(system)?,
            contest: Contest::new(kind, options.method == Method::Auto && n_unknowns <= LARGE),
            last_kind: kind,
            explicit: DormandPrince::new(n_states, n_unknowns),
            spectral: Spectral::new(n_states, n_unknowns),
            implicit: None,
            old: now.clone(),
            next: now.clone(),
            now,
            next_step: 0.0,
            memory: None,
            largest_growth: MAX_GROWTH,
            is_first_step: true,
            is_pressed: false,
            found: Vec::new(),
            row_found: Vec::new(),
            row_solver: None,
            taken: Taken::default(),
            constraint_residual_max: 0.0,
        };
        stepper.model.equations.rates(&stepper.now.states, &stepper.now.unknowns, &mut stepper.now.rates);
        stepper.prepare_method()?;
        stepper.next_step = stepper.first_step();
        Ok(stepper)
    }

    /// Looks whether equations have infinite slopes at the point reached, for the record: explicit steps ask for none.
    pub(crate) fn look_at_slopes(&mut self) {
        let cost = self.model.equations.work.cost;
        // What is not finite here is told where it is needed.
        let _ = self.model.differentiate(&self.now.clone());
        self.model.equations.work.cost = cost;
    }

    /// The first equation found with an infinite slope.
    pub(crate) fn singular_slope(&self) -> Option<SingularSlope> {
        let found = self.model.equations.singular_slope?;
        let label = self.model.equations.system.description().residuals.get(found.row)?;
        Some(SingularSlope { time: found.time, equation: label.text, place: label.place })
    }

    /// The first unknown found at a root of higher order.
    pub(crate) fn multiple_root(&self) -> Option<MultipleRoot> {
        let found = self.model.equations.multiple_root?;
        let unknown = self.model.equations.system.description().unknowns.get(found.unknown)?;
        Some(MultipleRoot { time: found.time, variable: unknown.name.clone() })
    }

    pub(crate) fn work(&self) -> StepperWork {
        let work = self.model.equations.work;
        StepperWork { factorizations: work.factorizations, evaluations: work.evaluations }
    }

    /// Makes the method that goes on ready, with its tolerance of steps.
    fn prepare_method(&mut self) -> Result<(), IntegrateError> {
        let asked = self.options.rtol;
        let mut rtol = asked;
        if self.contest.kind() == Kind::Implicit {
            match &mut self.implicit {
                Some(implicit) => implicit.restart(),
                None => self.implicit = Some(self.make_implicit()?),
            }
            if let Some(Implicit::Radau(radau)) = &self.implicit {
                rtol = radau.tolerance(asked);
            }
        }
        self.model.rtol = rtol;
        self.model.atol = self.options.atol * (rtol / asked);
        self.memory = None;
        self.largest_growth = MAX_GROWTH;
        Ok(())
    }

    /// The implicit method for the tolerance asked for. Derivatives follow the stages of an iterated one.
    fn make_implicit(&self) -> Result<Implicit, IntegrateError> {
        let asked = self.options.rtol;
        let tableau = match self.options.method {
            Method::Radau => None,
            Method::Rosenbrock => Some(Rosenbrock::for_tolerance(asked)),
            Method::Auto | Method::Explicit => Rosenbrock::suited(asked),
        };
        match tableau {
            Some(tableau) if !self.explicit.is_recording => {
                Ok(Implicit::Rosenbrock(Box::new(Rosenbrock::new(&self.model, tableau)?)))
            }
            _ => Ok(Implicit::Radau(Box::new(Radau::new(&self.model, Radau::first_stages(asked))?))),
        }
    }

    /// Takes the linearly implicit method where the iterated one gets nowhere, however short its steps: it needs no
    /// iteration to converge, only one matrix. False where that is not so.
    fn resort_to_rosenbrock(&mut self) -> Result<bool, IntegrateError> {
        let is_iterated = self.contest.kind() == Kind::Implicit && matches!(self.implicit, Some(Implicit::Radau(_)));
        if self.options.method != Method::Auto || !is_iterated || self.explicit.is_recording {
            return Ok(false);
        }
        let tableau = Rosenbrock::for_tolerance(self.options.rtol);
        self.implicit = Some(Implicit::Rosenbrock(Box::new(Rosenbrock::new(&self.model, tableau)?)));
        self.prepare_method()?;
        self.model.unknown_solver.forget_matrix();
        self.model.set_weights(&self.now);
        Ok(true)
    }

    /// Leaves a start at which the equations do not determine the unknowns by the explicit method, which solves them
    /// beside it only: implicit ones need their matrix at the start itself. False where that is not so.
    fn resort_to_explicit(&mut self, error: &IntegrateError) -> Result<bool, IntegrateError> {
        let is_singular = self.is_first_step && matches!(error, IntegrateError::Singular { .. });
        if self.options.method != Method::Auto || self.contest.kind() == Kind::Explicit || !is_singular {
            return Ok(false);
        }
        self.contest = Contest::new(Kind::Explicit, true);
        self.spectral.forget();
        self.prepare_method()?;
        self.model.unknown_solver.forget_matrix();
        self.model.set_weights(&self.now);
        Ok(true)
    }

    fn change_method(&mut self, change: Change) -> Result<(), IntegrateError> {
        self.spectral.forget();
        self.prepare_method()?;
        self.next_step = change.step.unwrap_or(self.next_step);
        Ok(())
    }

    /// Takes one step that ends at `end` at the latest; a step that ends there sees the inputs just before it.
    pub(crate) fn advance(&mut self, end: f64) -> Result<(), IntegrateError> {
        let options = self.options;
        let span = options.stop - options.start;
        // Near the start the steps of a stiff model may be tiny against the whole span.
        let smallest = 1e-14 * self.now.time.abs() + 1e-24 * span;
        self.model.set_weights(&self.now);
        let left = end - self.now.time;
        let mut step = self.next_step.min(options.max_step).max(smallest);
        let mut was_rejected = false;
        loop {
            if options.watch.is_stopped() {
                return Err(IntegrateError::Stopped { time: self.now.time });
            }
            if self.taken.steps + self.taken.rejected >= options.max_steps {
                return Err(IntegrateError::TooManySteps { limit: options.max_steps, time: self.now.time });
            }
            step = self.within_stability(step);
            let is_last = step >= left * (1.0 - 1e-10);
            if is_last {
                step = left;
            } else if 2.0 * step > left {
                step = 0.5 * left;
            }
            let mut worst = usize::MAX;
            let aim = Aim { time: if is_last { end } else { self.now.time + step }, step, is_at_break: is_last };
            match self.attempt(aim) {
                Ok(Attempt::Solved(trial)) if trial.error <= 1.0 => return self.accept(trial, aim, was_rejected),
                Ok(Attempt::Solved(trial)) => {
                    worst = trial.worst;
                    step *= self.reduction(trial);
                }
                Ok(Attempt::Failed { reduction }) => {
                    if reduction < 1.0 {
                        self.largest_growth = 1.0;
                    }
                    step *= reduction;
                }
                Err(error) if step <= 1e3 * smallest => {
                    if !self.resort_to_rosenbrock()? && !self.resort_to_explicit(&error)? {
                        return Err(error);
                    }
                    step = RESORT_STEP * self.next_step.min(options.max_step);
                }
                Err(_) => {
                    if let Some(implicit) = &mut self.implicit {
                        implicit.restart();
                    }
                    self.model.unknown_solver.forget_matrix();
                    step *= 0.3;
                }
            }
            if !was_rejected {
                // Errors that grow within a step may come from a part that has become fast.
                self.spectral.hasten();
            }
            was_rejected = true;
            self.taken.rejected += 1;
            if let Some(change) = self.contest.after_rejection(self.model.equations.work.cost) {
                self.change_method(change)?;
                self.model.set_weights(&self.now);
                step = self.next_step.min(options.max_step);
            }
            if step < smallest {
                if !self.resort_to_rosenbrock()? {
                    return Err(self.step_too_small(worst, step));
                }
                step = RESORT_STEP * self.next_step.min(options.max_step);
            }
        }
    }

    /// The longest step within the region of stability of the explicit method, where that is at work.
    fn within_stability(&mut self, step: f64) -> f64 {
        if self.contest.kind() == Kind::Implicit || self.now.states.is_empty() {
            return step;
        }
        let borders = borders(self.options.rtol);
        if self.spectral.is_due(step, borders) {
            // A step that failed left the inputs of one of its stages.
            self.model.fill_inputs(self.now.time, true);
            self.spectral.look(&mut self.model, &self.now, step, borders);
        }
        self.spectral.limit(step, borders)
    }

    /// Names the state that resists and the equation that gives its derivative.
    pub(crate) fn step_too_small(&self, worst: usize, step: f64) -> IntegrateError {
        let description = self.model.equations.system.description();
        let state = if worst < description.states.len() { worst } else { 0 };
        let variable = description.states.get(state).map(|state| state.name.clone());
        let mut at = state;
        let unknown = loop {
            match description.rates.get(at) {
                Some(Rate::State(next)) => at = *next as usize,
                Some(Rate::Unknown(unknown)) => break Some(*unknown as usize),
                None => break None,
            }
        };
        let label = unknown.and_then(|unknown| description.residuals.get(unknown)).unwrap_or_default();
        IntegrateError::StepTooSmall {
            time: self.now.time,
            step,
            variable: variable.unwrap_or_default(),
            equation: label.text,
            place: label.place,
        }
    }

    /// Tries a step; one with a small enough error is completed in `next`.
    fn attempt(&mut self, aim: Aim) -> Result<Attempt, IntegrateError> {
        let Aim { time, step, is_at_break } = aim;
        // A step that failed left the inputs of one of its stages.
        self.model.fill_inputs(self.now.time, true);
        let is_still = self.now.states.is_empty() && !self.explicit.is_recording;
        let attempt = match (self.contest.kind(), &mut self.implicit) {
            (Kind::Implicit, Some(Implicit::Radau(radau))) => {
                radau.try_step(&mut self.model, &self.now, step, time, is_at_break)?
            }
            (Kind::Implicit, Some(Implicit::Rosenbrock(rosenbrock))) => {
                rosenbrock.try_step(&mut self.model, &self.now, step, time, is_at_break)?
            }
            // Without states there is nothing to integrate: the unknowns at the end are solved for below.
            _ if is_still => {
                self.explicit.unknowns = self.unknowns_ahead(time);
                Attempt::Solved(Trial { error: 0.0, worst: usize::MAX })
            }
            _ => {
                let trial = self.explicit.try_step(&mut self.model, &self.now, step, time, is_at_break)?;
                if trial.error.is_finite() { Attempt::Solved(trial) } else { Attempt::Failed { reduction: 0.3 } }
            }
        };
        let Attempt::Solved(mut trial) = attempt else { return Ok(attempt) };
        if !is_still && trial.error <= 1.0 {
            trial.error = trial.error.max(self.gap(step)?);
        }
        if trial.error > 1.0 {
            return Ok(Attempt::Solved(trial));
        }
        self.next.time = time;
        self.model.fill_inputs(time, !is_at_break);
        let (states, unknowns, is_solved) = match (self.contest.kind(), &self.implicit) {
            (Kind::Implicit, Some(Implicit::Radau(radau))) => {
                let last = radau.method.n_stages - 1;
                (&radau.stage_states[last][..], &radau.stage_unknowns[last][..], true)
            }
            (Kind::Implicit, Some(Implicit::Rosenbrock(rosenbrock))) => {
                (rosenbrock.states(), rosenbrock.unknowns(), false)
            }
            _ => (&self.explicit.states[..], &self.explicit.unknowns[..], false),
        };
        self.next.states.copy_from_slice(states);
        self.next.unknowns.copy_from_slice(unknowns);
        let has_moved = project(&mut self.projector, &mut self.model, &mut self.next)?;
        self.constraint_residual_max = self.constraint_residual_max.max(has_moved.residual);
        if !is_solved || has_moved.change > 0.0 {
            let next = &mut self.next;
            self.model.solve_unknowns(next.time, &next.states, &mut next.unknowns, Care::Checked)?;
        }
        self.model.equations.rates(&self.next.states, &self.next.unknowns, &mut self.next.rates);
        if self.next.states == self.now.states && step > SHORTEST_STRIDE * self.span() {
            let off = self.model.distance_of_searched(&self.next.unknowns, &self.unknowns_ahead(time));
            trial.error = trial.error.max((off / LARGEST_STRIDE).powi(4));
        }
        let is_explicit = self.contest.kind() == Kind::Explicit;
        let may_hide = self.model.has_preferred() || self.is_near_border(&self.next, step);
        if is_explicit && !is_still && may_hide {
            let radius = self.spectral.radius();
            trial.error = trial.error.max(self.explicit.gap(&mut self.model, &self.now, &self.next, radius)?);
            self.model.fill_inputs(time, !is_at_break);
        }
        Ok(Attempt::Solved(trial))
    }

    /// The error within an implicit step just tried, in units of the tolerance asked for.
    fn gap(&mut self, step: f64) -> Result<f64, IntegrateError> {
        let gap = match (self.contest.kind(), &mut self.implicit) {
            (Kind::Implicit, Some(Implicit::Radau(radau))) => radau.gap(&mut self.model, &self.now, step)?,
            (Kind::Implicit, Some(Implicit::Rosenbrock(rosenbrock))) => {
                rosenbrock.gap(&mut self.model, &self.now, step)?
            }
            _ => 0.0,
        };
        Ok(gap * (self.model.rtol / self.options.rtol))
    }

    /// By how much a rejected step shrinks.
    fn reduction(&mut self, trial: Trial) -> f64 {
        match (self.contest.kind(), &mut self.implicit) {
            (Kind::Implicit, Some(implicit)) => {
                let order = match implicit {
                    Implicit::Radau(radau) => {
                        radau.reject();
                        radau.method.n_stages as f64 + 1.0
                    }
                    Implicit::Rosenbrock(rosenbrock) => rosenbrock.tableau.order,
                };
                if self.is_first_step {
                    return 0.1;
                }
                (0.9 * trial.error.powf(-1.0 / order)).clamp(0.125, 0.9)
            }
            _ => (0.9 * trial.error.powf(-1.0 / ERROR_ORDER)).clamp(0.2, 0.9),
        }
    }

    /// Whether an explicit step to a point came near the border of stability.
    fn is_near_border(&self, new: &Moment, step: f64) -> bool {
        self.explicit.is_near_border(new, step, self.model.rtol, self.spectral.radius())
    }

    /// Goes on to the point tried.
    fn accept(&mut self, trial: Trial, aim: Aim, was_rejected: bool) -> Result<(), IntegrateError> {
        self.taken.steps += 1;
        self.last_kind = self.contest.kind();
        std::mem::swap(&mut self.old, &mut self.now);
        std::mem::swap(&mut self.now, &mut self.next);
        let mut is_near_border = false;
        match (self.contest.kind(), &mut self.implicit) {
            (Kind::Implicit, Some(implicit)) => {
                match implicit {
                    Implicit::Radau(radau) => radau.accept(&self.old, aim.step),
                    Implicit::Rosenbrock(rosenbrock) => rosenbrock.restart(),
                }
                self.choose_implicit_step(trial, aim.step, was_rejected);
            }
            _ => {
                let largest = if was_rejected { 1.0 } else { 5.0 };
                let error = trial.error.max(1e-12);
                let mut factor = 0.9 * error.powf(-0.9 / ERROR_ORDER);
                if let Some(memory) = self.memory {
                    factor *= memory.error.powf(0.2 / ERROR_ORDER);
                }
                self.memory = Some(Memory { step: aim.step, error: error.max(1e-4) });
                self.next_step = aim.step * factor.clamp(0.3, largest);
                is_near_border = self.is_pressed || self.is_near_border(&self.now, aim.step);
                self.spectral.count_step();
            }
        }
        self.is_first_step = false;
        let work = self.model.equations.work.cost;
        let progress = Progress { time: self.now.time, work, next_step: self.next_step, is_near_border };
        match self.contest.after_step(progress) {
            Some(change) => self.change_method(change),
            None => Ok(()),
        }
    }

    /// The step size by the errors of the last two steps [@gustafsson1994].
    fn choose_implicit_step(&mut self, trial: Trial, step: f64, was_rejected: bool) {
        let (order, safety) = match &self.implicit {
            Some(Implicit::Radau(radau)) => {
                let max_iterations = (7 + (5 * (radau.method.n_stages - 3)) / 2) as f64;
                let safety = 0.9 * (2.0 * max_iterations + 1.0) / (2.0 * max_iterations + radau.n_iterations as f64);
                (radau.method.n_stages as f64 + 1.0, safety)
            }
            Some(Implicit::Rosenbrock(rosenbrock)) => (rosenbrock.tableau.order, 0.9),
            None => return,
        };
        let error = trial.error.max(1e-10);
        let mut factor = (safety * error.powf(-1.0 / order)).clamp(0.2, 8.0);
        if let Some(memory) = self.memory {
            let predicted = safety * step / memory.step * (memory.error / (error * error)).powf(1.0 / order);
            factor = factor.min(predicted.clamp(0.2, 8.0));
        }
        self.memory = Some(Memory { step, error: error.max(1e-2) });
        factor = factor.min(if was_rejected { 1.0 } else { self.largest_growth });
        self.largest_growth = (1.2 * self.largest_growth).min(MAX_GROWTH);
        // Matrices are kept as long as the step stays; a small gain is not worth new ones.
        let is_kept = matches!(&self.implicit, Some(Implicit::Radau(radau)) if radau.may_keep_step(factor));
        self.next_step = if is_kept { step } else { step * factor };
    }

    /// A step whose error is a small fraction of the tolerance, by the first two derivatives [@hairer1993, sec. II.4].
    fn first_step(&mut self) -> f64 {
        self.model.set_weights(&self.now);
        let span = self.options.stop - self.options.start;
        let n = self.now.states.len().max(1) as f64;
        let weights = &self.model.state_weights;
        let size = |values: &mut dyn Iterator<Item = f64>| {
            mean_size(values.zip(weights).map(|(value, weight)| value / weight), n)
        };
        let value = size(&mut self.now.states.iter().copied());
        let rate = size(&mut self.now.rates.iter().copied());
        let guess = if value < 1e-5 || rate < 1e-5 { 1e-6 * span.min(1.0) } else { 0.01 * value / rate };
        let guess = guess.min(span);
        let states: Vec<f64> =
            self.now.states.iter().zip(&self.now.rates).map(|(state, rate)| state + guess * rate).collect();
        let (mut unknowns, mut rates) = (self.now.unknowns.clone(), self.now.rates.clone());
        self.model.set_scales(guess);
        let time = self.now.time + guess;
        // Where the equations have no solution there, the first derivative has to do.
        let second = match self.model.solve_unknowns(time, &states, &mut unknowns, Care::Checked) {
            Ok(()) => {
                self.model.equations.rates(&states, &unknowns, &mut rates);
                let weights = &self.model.state_weights;
                mean_size((0..states.len()).map(|at| (rates[at] - self.now.rates[at]) / weights[at]), n) / guess
            }
            Err(_) => {
                self.model.unknown_solver.forget_matrix();
                rate / guess
            }
        };
        let steepest = rate.max(second);
        let order = if self.contest.kind() == Kind::Explicit { 8.0 } else { 4.0 };
        let by_derivatives =
            if steepest <= 1e-15 { guess.max(1e-3 * span) } else { (0.01 / steepest).powf(1.0 / order) };
        by_derivatives.min(100.0 * guess).min(span)
    }

    /// Everything at the point reached that is neither state nor unknown.
    pub(crate) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            time: self.now.time,
            parameters: &self.model.parameters,
            inputs: &self.model.input_values,
            modes: &self.model.modes,
        }
    }

    /// Goes on from the states, inputs and modes at hand after the caller changed them.
    pub(crate) fn restart(&mut self) -> Result<(), IntegrateError> {
        self.restart_holding(None)
    }

    /// Goes on from states of which some were given new values. Those are kept; what they are derivatives of is kept
    /// too, since a force of any size changes no position at once; of the others those follow that the model wants as
    /// states least ([`crate::keep`]), by the least change. Where the constraints leave no other choice, all others
    /// follow, and at last only the given values are kept.
    pub(crate) fn restart_keeping(&mut self, given: &[usize]) -> Result<KeptStates, IntegrateError> {
        let n_states = self.now.states.len();
        let Some(projector) = &mut self.projector else {
            return self.restart().map(|()| KeptStates { kept: vec![true; n_states], displaced: Vec::new() });
        };
        let is_given: Vec<bool> = (0..n_states).map(|state| given.contains(&state)).collect();
        let below = below(&self.model.equations.system.description().rates, given);
        let persistent = projector.kept(&mut self.model, &self.now, &below);
        let before = self.now.clone();
        let mut result = self.restart_holding(Some(&persistent)).map(|()| persistent.clone());
        for held in [below, is_given] {
            if result.is_err() {
                self.now = before.clone();
                result = self.restart_holding(Some(&held)).map(|()| held);
            }
        }
        let kept = result?;
        let has_moved = |&state: &usize| {
            let (now, then, weight) = (self.now.states[state], before.states[state], self.model.state_weights[state]);
            persistent[state] && !kept[state] && (now - then).abs() > weight
        };
        Ok(KeptStates { displaced: (0..n_states).filter(has_moved).collect(), kept })
    }

    fn restart_holding(&mut self, held: Option<&[bool]>) -> Result<(), IntegrateError> {
        self.model.unknown_solver.forget_matrix();
        self.row_solver.iter_mut().for_each(UnknownSolver::forget_matrix);
        self.contest.restart();
        self.spectral.forget();
        self.prepare_method()?;
        self.is_first_step = true;
        self.solve_here(held)?;
        self.next_step = self.first_step();
        Ok(())
    }

    /// Moves the states at hand onto the constraints, some of them held, and solves for unknowns and rates.
    pub(crate) fn solve_here(&mut self, held: Option<&[bool]>) -> Result<(), IntegrateError> {
        self.model.set_weights(&self.now);
        if let (Some(projector), Some(held)) = (&mut self.projector, held) {
            projector.hold(held);
        }
        let projected = project(&mut self.projector, &mut self.model, &mut self.now);
        if let Some(projector) = &mut self.projector {
            projector.release();
        }
        self.constraint_residual_max = self.constraint_residual_max.max(projected?.residual);
        self.model.set_scales(0.0);
        let now = &mut self.now;
        // After a jump the last unknowns may be far from the new ones.
        self.model.search_unknowns(now.time, &now.states, &mut now.unknowns)?;
        self.model.equations.rates(&now.states, &now.unknowns, &mut now.rates);
        Ok(())
    }

    /// Ends the last step earlier, at a place within it that [`Stepper::between`] gave; [`Stepper::restart`] follows.
    pub(crate) fn go_back(&mut self, place: &Place) {
        self.now.time = place.time;
        self.now.states.copy_from_slice(&place.states);
        self.now.unknowns.copy_from_slice(&place.unknowns);
        self.model.input_values.copy_from_slice(&place.inputs);
    }

    /// The rates at the point reached, also after [`Stepper::go_back`].
    pub(crate) fn rates_here(&self) -> Vec<f64> {
        let mut rates = vec![0.0; self.now.states.len()];
        self.model.equations.rates(&self.now.states, &self.now.unknowns, &mut rates);
        rates
    }

    /// The unknowns at the point reached with other modes; None if the equations have no solution then.
    pub(crate) fn unknowns_with(&mut self, modes: Vec<f64>) -> Option<Vec<f64>> {
        let here = std::mem::replace(&mut self.model.modes, modes);
        self.model.unknown_solver.forget_matrix();
        self.model.set_scales(0.0);
        let mut unknowns = self.now.unknowns.clone();
        let result = self.model.solve_unknowns(self.now.time, &self.now.states, &mut unknowns, Care::Checked);
        self.model.modes = here;
        self.model.unknown_solver.forget_matrix();
        result.ok().map(|()| unknowns)
    }

    /// The rates at the point reached with other modes; None if the equations have no solution then.
    pub(crate) fn rates_with(&mut self, modes: Vec<f64>) -> Option<Vec<f64>> {
        let unknowns = self.unknowns_with(modes)?;
        let mut rates = vec![0.0; self.now.states.len()];
        self.model.equations.rates(&self.now.states, &unknowns, &mut rates);
        Some(rates)
    }

    /// The point reached.
    pub(crate) fn place_here(&self) -> Place {
        Place {
            time: self.now.time,
            states: self.now.states.clone(),
            unknowns: self.now.unknowns.clone(),
            inputs: self.model.input_values.clone(),
        }
    }

    /// The point where the last step began.
    pub(crate) fn place_at_start(&self) -> Place {
        let mut inputs = self.model.input_values.clone();
        self.model.inputs().fill(self.old.time, true, &mut inputs);
        Place { time: self.old.time, states: self.old.states.clone(), unknowns: self.old.unknowns.clone(), inputs }
    }

    /// Goes on from where another stepper is, which had the unknowns of this one and perhaps more, and takes over its
    /// counts. [`Stepper::restart`] follows.
    pub(crate) fn absorb(&mut self, other: &Stepper<'_, '_>) {
        self.now.time = other.now.time;
        self.now.states.copy_from_slice(&other.now.states);
        let n = self.now.unknowns.len();
        self.now.unknowns.copy_from_slice(&other.now.unknowns[..n]);
        self.model.input_values.copy_from_slice(&other.model.input_values);
        self.model.modes.copy_from_slice(&other.model.modes);
        self.taken.steps += other.taken.steps;
        self.taken.rejected += other.taken.rejected;
        let (work, more) = (&mut self.model.equations.work, other.model.equations.work);
        work.evaluations += more.evaluations;
        work.factorizations += more.factorizations;
        self.constraint_residual_max = self.constraint_residual_max.max(other.constraint_residual_max);
    }

    /// Whether rates differ from those at the point reached by more than what states at their tolerances explain.
    pub(crate) fn have_changed(&self, rates: &[f64]) -> bool {
        let weights = &self.model.state_weights;
        rates.iter().zip(&self.now.rates).zip(weights).any(|((before, after), weight)| {
            let size = before.abs().max(after.abs());
            (before - after).abs() > SAME_RATE * size.max(weight / self.span())
        })
    }

    /// Where the last step began.
    pub(crate) fn step_start(&self) -> f64 {
        self.old.time
    }

    /// The length of the time span, or of the one that this is a part of.
    pub(crate) fn span(&self) -> f64 {
        self.options.span.unwrap_or(self.options.stop - self.options.start)
    }

    /// Times closer than this are not told apart.
    pub(crate) fn resolution(&self) -> f64 {
        4.0 * f64::EPSILON * self.now.time.abs() + 1e-18 * (self.options.stop - self.options.start)
    }

    /// Whether states are bound by constraints.
    pub(crate) fn has_constraints(&self) -> bool {
        self.projector.is_some()
    }

    /// A place a little ahead, by the present rates alone.
    pub(crate) fn along_tangent(&self, distance: f64) -> Place {
        let time = self.now.time + distance;
        let states = self.now.states.iter().zip(&self.now.rates).map(|(state, rate)| state + distance * rate).collect();
        let mut inputs = vec![0.0; self.model.input_values.len()];
        self.model.inputs().fill(time, true, &mut inputs);
        Place { time, states, unknowns: self.now.unknowns.clone(), inputs }
    }

    /// The place reached with one state moved by its tolerance, up or down.
    pub(crate) fn beside(&self, state: usize, sign: f64) -> Place {
        let mut states = self.now.states.clone();
        states[state] += sign * self.model.state_weights[state];
        let (unknowns, inputs) = (self.now.unknowns.clone(), self.model.input_values.clone());
        Place { time: self.now.time, states, unknowns, inputs }
    }

    /// Takes the last step again such that it ends at `end`, which is within it.
    pub(crate) fn retake(&mut self, end: f64) -> Result<(), IntegrateError> {
        self.now.clone_from(&self.old);
        self.model.fill_inputs(self.now.time, true);
        if let Some(implicit) = &mut self.implicit {
            implicit.restart();
        }
        self.next_step = end - self.now.time;
        self.advance(end)
    }

    /// Values at a time within the last step, interpolated only: no equation need be satisfied.
    pub(crate) fn roughly(&mut self, time: f64) -> Place {
        let inputs = self.inputs_within(time);
        let (mut states, mut unknowns) = (self.now.states.clone(), self.now.unknowns.clone());
        if time != self.now.time {
            let x = self.fraction(time);
            if self.interpolate(x, &mut states).is_err() {
                // Where no stage between can be evaluated, the chord has to do.
                for (state, old) in states.iter_mut().zip(&self.old.states) {
                    *state = old + x * (*state - old);
                }
            }
            for (unknown, old) in unknowns.iter_mut().zip(&self.old.unknowns) {
                *unknown = old + x * (*unknown - old);
            }
        }
        Place { time, states, unknowns, inputs }
    }

    fn fraction(&self, time: f64) -> f64 {
        (time - self.old.time) / (self.now.time - self.old.time)
    }

    /// Inputs at a time within the last step.
    fn inputs_within(&self, time: f64) -> Vec<f64> {
        let mut inputs = self.model.input_values.clone();
        if time != self.now.time {
            self.model.inputs().fill(time, true, &mut inputs);
        }
        inputs
    }

    /// The states at a fraction of the last step by the polynomial of the method.
    fn interpolate(&mut self, x: f64, states: &mut [f64]) -> Result<(), IntegrateError> {
        match (self.last_kind, &mut self.implicit) {
            (Kind::Implicit, Some(Implicit::Radau(radau))) => radau.between(&self.old, x, states),
            (Kind::Implicit, Some(Implicit::Rosenbrock(rosenbrock))) => rosenbrock.between(&self.old, x, states),
            _ => {
                let here = self.model.input_values.clone();
                let result = self.explicit.between(&mut self.model, &self.old, &self.now, x, states);
                self.model.input_values = here;
                result?;
            }
        }
        Ok(())
    }

    /// Observed quantities at the point reached.
    pub(crate) fn observe_here(&mut self) -> Vec<f64> {
        let mut row = vec![0.0; self.model.equations.system.description().observed.len()];
        self.model.evaluate(Part::Observed, &self.now, &mut row);
        row
    }

    /// How far observed quantities at the point reached may be off by rounding: several times the most that they change
    /// where each state and unknown moves by some units in the last place, up or down, in several patterns, and unknowns
    /// by what solving for them leaves. What cancels in such a change still shows the rounding of the formulas, though
    /// not in every one.
    pub(crate) fn rounding_of_observed(&mut self) -> Vec<f64> {
        const SEVERAL: f64 = 16.0;
        const SOLVED: f64 = 1e-13;
        let system = self.model.equations.system;
        let quantities = &system.description().unknowns;
        let here = self.observe_here();
        let mut rounding = vec![0.0f64; here.len()];
        for period in [2_usize, 3, 5, 7, 11, 13, 17, 19] {
            let units = period as f64 * f64::EPSILON;
            let mut place = self.now.clone();
            let sign = |at: usize| if at.is_multiple_of(period) { 1.0 } else { -1.0 };
            for (at, value) in place.states.iter_mut().enumerate() {
                *value += sign(at) * units * value.abs();
            }
            for (at, (value, quantity)) in place.unknowns.iter_mut().zip(quantities).enumerate() {
                *value += sign(at) * (units * value.abs() + SOLVED * quantity.nominal);
            }
            let mut there = vec![0.0; here.len()];
            self.model.evaluate(Part::Observed, &place, &mut there);
            for (rounding, (here, there)) in rounding.iter_mut().zip(here.iter().zip(&there)) {
                *rounding = rounding.max(SEVERAL * (here - there).abs());
            }
        }
        rounding
    }

    /// Observed quantities at a place with the modes at hand.
    pub(crate) fn observe(&mut self, place: &Place) -> Vec<f64> {
        self.evaluate_at(Part::Observed, place)
    }

    /// Any vector-valued part at a place with the modes at hand.
    pub(crate) fn evaluate_at(&mut self, part: Part, place: &Place) -> Vec<f64> {
        let mut values = vec![0.0; self.model.equations.system.pattern(part).n_rows];
        self.evaluate_into(part, place, &mut values);
        values
    }

    /// Any part at a place with the modes at hand.
    pub(crate) fn evaluate_into(&mut self, part: Part, place: &Place, values: &mut [f64]) {
        let model = &mut self.model;
        let around = Surroundings {
            time: place.time,
            parameters: &model.parameters,
            inputs: &place.inputs,
            modes: &model.modes,
        };
        model.equations.evaluator().evaluate(part, &around.point(&place.states, &place.unknowns), values);
    }

    /// As [`Stepper::between`], for rows: whatever is read, at whatever times, steps go on as if nothing had been. They
    /// keep their own matrix, and what reading costs does not count where methods compete.
    pub(crate) fn read(&mut self, time: f64) -> Result<Place, IntegrateError> {
        let cost = self.model.equations.work.cost;
        let solver = match self.row_solver.take() {
            Some(solver) => solver,
            None => {
                let Model { equations, parameters, input_values: inputs, modes, .. } = &mut self.model;
                let around = Surroundings { time: self.now.time, parameters, inputs, modes };
                let mut solver = UnknownSolver::new(equations, &around, &self.now.states, &self.now.unknowns)?;
                solver.is_trusting = true;
                solver
            }
        };
        let own = std::mem::replace(&mut self.model.unknown_solver, solver);
        std::mem::swap(&mut self.found, &mut self.row_found);
        let result = self.between(time);
        std::mem::swap(&mut self.found, &mut self.row_found);
        self.row_solver = Some(std::mem::replace(&mut self.model.unknown_solver, own));
        self.model.equations.work.cost = cost;
        result
    }

    /// Values at a time within the last step, on the constraints and with all equations satisfied.
    pub(crate) fn between(&mut self, time: f64) -> Result<Place, IntegrateError> {
        let x = self.fraction(time);
        let mut states = self.now.states.clone();
        if time != self.now.time {
            self.interpolate(x, &mut states)?;
        }
        let ends = [self.old.time, self.now.time];
        self.found.retain(|found| found.ends == ends);
        let mut unknowns = self.unknowns_on_parabola(time).unwrap_or_else(|| self.unknowns_on_chord(time));
        let inputs = self.inputs_within(time);
        let here = std::mem::replace(&mut self.model.input_values, inputs);
        let result = self.complete(time, &mut states, &mut unknowns);
        let inputs = std::mem::replace(&mut self.model.input_values, here);
        result?;
        if self.found.len() == MAX_FOUND {
            self.found.remove(0);
        }
        self.found.push(Found { ends, time, unknowns: unknowns.clone() });
        Ok(Place { time, states, unknowns, inputs })
    }

    /// Whether unknowns are all that changes, as far as the last step tells.
    pub(crate) fn is_at_rest(&self) -> bool {
        let has_stepped = self.old.time < self.now.time || self.now.states.is_empty();
        has_stepped && self.old.states == self.now.states && !self.now.unknowns.is_empty()
    }

    /// Unknowns on the line through both ends of the last step, ahead of it; those of its end where something happened
    /// since.
    fn unknowns_ahead(&self, time: f64) -> Vec<f64> {
        let (step, ahead) = (self.now.time - self.old.time, time - self.now.time);
        let x = if self.is_first_step || step <= 0.0 { 0.0 } else { ahead / step };
        self.now.unknowns.iter().zip(&self.old.unknowns).map(|(now, old)| now + x * (now - old)).collect()
    }

    /// Unknowns on the parabola through the last three points that were asked for within the step, where these came one
    /// after the other and a time follows them closely, as rows of a table do.
    fn unknowns_on_parabola(&self, time: f64) -> Option<Vec<f64>> {
        let [a, b, c] = &self.found[..] else { return None };
        let is_next = a.time < b.time && b.time < c.time && c.time < time && time - c.time <= 1.5 * (c.time - b.time);
        let weight = |at: f64, x: f64, y: f64| (time - x) * (time - y) / ((at - x) * (at - y));
        let (of_a, of_b) = (weight(a.time, b.time, c.time), weight(b.time, a.time, c.time));
        let of_c = weight(c.time, a.time, b.time);
        let all = a.unknowns.iter().zip(&b.unknowns).zip(&c.unknowns);
        is_next.then(|| all.map(|((a, b), c)| of_a * a + of_b * b + of_c * c).collect())
    }

    /// Unknowns on the line between the nearest points on both sides of a time that are known: the ends of the step, and
    /// the last point that was found within it. Steps may be long where no state moves, and equations with several
    /// solutions keep the one that they are at.
    fn unknowns_on_chord(&self, time: f64) -> Vec<f64> {
        let mut before = (self.old.time, &self.old.unknowns);
        let mut after = (self.now.time, &self.now.unknowns);
        if let Some(found) = self.found.last() {
            *(if found.time <= time { &mut before } else { &mut after }) = (found.time, &found.unknowns);
        }
        let x = if after.0 > before.0 { (time - before.0) / (after.0 - before.0) } else { 1.0 };
        before.1.iter().zip(after.1).map(|(old, new)| old + x * (new - old)).collect()
    }

    /// Moves interpolated states onto the constraints and solves the unknowns, with the inputs at hand.
    fn complete(&mut self, time: f64, states: &mut [f64], unknowns: &mut [f64]) -> Result<(), IntegrateError> {
        if let Some(projector) = &mut self.projector {
            let projected = projector.project(&mut self.model, time, states, unknowns)?;
            self.constraint_residual_max = self.constraint_residual_max.max(projected.residual);
        }
        self.model.set_scales(0.0);
        // Within a long step unknowns may be far from the line between its ends.
        self.model.search_unknowns(time, states, unknowns)
    }

    /// Keeps the values of all stages of steps to come.
    pub(crate) fn record_stages(&mut self) -> Result<(), IntegrateError> {
        self.explicit.is_recording = true;
        self.implicit = None;
        self.prepare_method()
    }

    /// The method of the last step.
    pub(crate) fn last_kind(&self) -> Kind {
        self.last_kind
    }

    /// The stages of the last step, which was explicit.
    pub(crate) fn explicit_stages(&self) -> ExplicitStages {
        ExplicitStages { step: self.now.time - self.old.time, points: self.explicit.recorded.clone() }
    }

    /// The stages of the last step, where it was implicit.
    pub(crate) fn implicit_stages(&self) -> Option<ImplicitStages> {
        let Some(Implicit::Radau(radau)) = &self.implicit else { return None };
        Some(ImplicitStages {
            step: self.now.time - self.old.time,
            method: radau.method,
            points: radau.points(&self.old),
        })
    }

    /// Solves with the matrices of the last implicit step.
    pub(crate) fn solve_stages(&mut self, real: &mut [f64], complex: &mut [Vec<c64>]) -> Result<(), SingularMatrix> {
        match &mut self.implicit {
            Some(Implicit::Radau(radau)) => radau.solve_stages(&mut self.model, real, complex),
            _ => Err(SingularMatrix { column: None }),
        }
    }

    /// An error of what was carried along the last step, which was implicit, through the filter of the step's own
    /// error.
    pub(crate) fn filter_error(&mut self, raw_error: &mut [f64]) -> Result<(), IntegrateError> {
        let step = self.now.time - self.old.time;
        if let Some(Implicit::Radau(radau)) = &mut self.implicit {
            radau.filter_other(&mut self.model, self.now.time, step, raw_error)?;
        }
        Ok(())
    }

    /// Says whether what is carried along the steps came near the border of stability with the last one.
    pub(crate) fn press(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
    }

    /// Keeps the next step from being longer.
    pub(crate) fn limit_step(&mut self, longest: f64) {
        self.next_step = self.next_step.min(longest);
    }

    /// Returns to the linearized constraints G ds + g_p dp = 0 by the least change, with some states kept as they are.
    pub(crate) fn project_tangent_keeping(
        &mut self,
        kept: &[bool],
        states: &mut [f64],
        parameters: &[f64],
    ) -> Result<(), IntegrateError> {
        if let Some(projector) = &mut self.projector {
            projector.hold(kept);
        }
        let result = self.project_tangent(states, parameters);
        if let Some(projector) = &mut self.projector {
            projector.release();
        }
        result
    }

    /// Returns to the linearized constraints G ds + drive = 0 by the least change.
    pub(crate) fn project_change(&mut self, states: &mut [f64], drive: &[f64]) -> Result<(), IntegrateError> {
        match &mut self.projector {
            Some(projector) => projector.project_change(&mut self.model, &self.now, states, drive),
            None => Ok(()),
        }
    }

    /// Returns to the linearized constraints G ds + g_p dp = 0 by the least change.
    pub(crate) fn project_tangent(&mut self, states: &mut [f64], parameters: &[f64]) -> Result<(), IntegrateError> {
        match &mut self.projector {
            Some(projector) => projector.project_tangent(&mut self.model, &self.now, states, parameters),
            None => Ok(()),
        }
    }
}

/// Stages of an explicit step.
pub(crate) struct ExplicitStages {
    pub(crate) step: f64,
    pub(crate) points: Vec<Place>,
}

/// Stages of an implicit step.
pub(crate) struct ImplicitStages {
    pub(crate) step: f64,
    pub(crate) method: &'static Collocation,
    pub(crate) points: Vec<Place>,
}

/// The root of the mean square of values; the largest of them where squares overflow.
fn mean_size(values: impl Iterator<Item = f64>, n: f64) -> f64 {
    let (mut sum, mut largest) = (0.0, 0.0f64);
    for value in values {
        sum += value * value;
        largest = largest.max(value.abs());
    }
    if sum.is_infinite() { largest } else { (sum / n).sqrt() }
}

/// States that are given, and those that are derivatives of lower order than any given one.
fn below(rates: &[Rate], given: &[usize]) -> Vec<bool> {
    let depth = |state: usize| {
        let (mut at, mut depth) = (state, 1);
        while let Rate::State(next) = rates[at] {
            at = next as usize;
            depth += 1;
        }
        depth
    };
    let deepest = given.iter().map(|&state| depth(state)).max().unwrap_or(0);
    (0..rates.len()).map(|state| given.contains(&state) || depth(state) > deepest).collect()
}

/// Moves a point onto the constraints where there are some.
fn project(
    projector: &mut Option<Projector<'_>>,
    model: &mut Model<'_, '_>,
    moment: &mut Moment,
) -> Result<Projected, IntegrateError> {
    match projector {
        Some(projector) => projector.project(model, moment.time, &mut moment.states, &moment.unknowns),
        None => Ok(Projected { change: 0.0, residual: 0.0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residual::{NoInputs, ResidualFunction, ResidualStart, ResidualSystem};

    /// x' = -1000 (x - cos t) - sin t, with the solution cos t.
    struct Stiff;

    impl ResidualFunction for Stiff {
        fn evaluate(&self, time: f64, values: &[f64], rates: &[f64], residual: &mut [f64]) {
            residual[0] = rates[0] + 1000.0 * (values[0] - time.cos()) + time.sin();
        }
    }

    #[test]
    fn the_linearly_implicit_method_takes_over_on_the_way() {
        let start =
            ResidualStart { values: vec![1.0], rates: vec![0.0], is_differential: vec![true], nominal: vec![1.0] };
        let options = SimulateOptions {
            start: 0.0,
            stop: 2.0,
            rtol: 1e-7,
            atol: 1e-9,
            max_steps: 100_000,
            ..SimulateOptions::default()
        };
        let system = ResidualSystem::new(&Stiff, &start);
        let initialized = Initialized {
            states: vec![1.0],
            unknowns: vec![0.0],
            parameters: Vec::new(),
            iterations: 0,
            residual: 0.0,
        };
        let mut stepper =
            Stepper::new(&system, &NoInputs, &options, 0.0, &initialized, Vec::new(), Vec::new()).unwrap();
        assert!(!stepper.resort_to_rosenbrock().unwrap(), "explicit steps iterate nothing");
        stepper.contest = Contest::new(Kind::Implicit, false);
        stepper.prepare_method().unwrap();
        while stepper.now.time < 1.0 {
            stepper.advance(1.0).unwrap();
        }
        assert!(stepper.resort_to_rosenbrock().unwrap());
        while stepper.now.time < 2.0 {
            stepper.advance(2.0).unwrap();
        }
        assert!(matches!(stepper.implicit, Some(Implicit::Rosenbrock(_))));
        assert!((stepper.now.states[0] - 2.0_f64.cos()).abs() < 1e-6, "{}", stepper.now.states[0]);
        assert!(!stepper.resort_to_rosenbrock().unwrap(), "it takes over once");
    }
}
