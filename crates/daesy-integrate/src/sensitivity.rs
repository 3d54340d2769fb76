//! Forward sensitivities: how a trajectory follows parameters and start values.
//!
//! The first-order change (ds, dv) of a solution in the direction dp of the parameters satisfies
//!
//! ```text
//! ds' = S(ds, dv),     F_v dv + F_s ds + F_p dp = 0,     G ds + g_p dp = 0
//! ```
//!
//! It is integrated after each accepted step by the method of that step at its own stages (the staggered direct method
//! [@feehery1997]): at explicit stages dv follows from the factors of F_v there; the stages of an implicit step are
//! iterated with the factors the step itself used. So the result is, up to the tolerance of iterations, the exact
//! derivative of the numerical solution with its steps held fixed. The error of a step is estimated for the changes as
//! for the trajectory, by the same embedded methods; a step too long for them is taken again. The tolerance is relative
//! to each change, and absolute to what the trajectory's is over the size of the parameter [@feehery1997].
//!
//! At a break of the inputs states are continuous and return to the constraints by the least change; their changes do
//! the same. How they cross events is in module `saltation`.

use daesy_system::{DaeSystem, Part, Rate};
use faer::c64;

use crate::chatter::{History, Trouble};
use crate::contest::Kind;
use crate::dop853::{ERROR_3, ERROR_5};
use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::events::{EventLoop, HybridStart, initialize_with_events};
use crate::explicit::{ERROR_ORDER, NEAR_BORDER, combined_error, largest_rate};
use crate::initialize::InitializeOptions;
use crate::linear::LinearSolver;
use crate::root::locate;
use crate::saltation::{Cause, Verge, add_product, add_scaled};
use crate::simulate::{Inputs, Rules, SimulateOptions, Simulation, StateEvent, Termination};
use crate::start_tangents::{Direction, StartTangent, start_tangents};
use crate::step::Stepper;

/// A trajectory with its derivatives.
#[derive(Clone, PartialEq, Debug)]
pub struct SensitiveSimulation {
    /// The trajectory. There is one row per output time; where an input breaks, it is that before the break.
    pub simulation: Simulation,
    /// The derivative of each observed quantity: row by row, direction by direction.
    pub sensitivities: Vec<Vec<Vec<f64>>>,
}

/// Scheduled times closer than this to the end of a stretch, relative to their size, belong to it.
const SAME_TIME: f64 = 1e-13;

/// Iterations of the stages of an implicit step.
const MAX_ITERATIONS: usize = 40;

/// Integrates a system from its consistent start together with its derivatives in the given directions.
///
/// Steps end at the output times and at events, which the derivatives cross as their times follow the parameters
/// (module `saltation`).
///
/// # Errors
/// As [`crate::simulate()`]; also where an event has no derivative, and where the solution slides along the border of a
/// relation.
pub fn simulate_with_sensitivities(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    options: &SimulateOptions,
    directions: &[Direction],
) -> Result<SensitiveSimulation, IntegrateError> {
    sensitive(system, parameters, inputs, options, directions, Reading::Before)
}

/// The same with every row after what jumps at its time, as a measured value is that after the input was set, and after
/// the clock has ticked.
///
/// # Errors
/// As [`simulate_with_sensitivities`].
pub fn sampled_sensitivities(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    options: &SimulateOptions,
    directions: &[Direction],
) -> Result<SensitiveSimulation, IntegrateError> {
    sensitive(system, parameters, inputs, options, directions, Reading::After)
}

/// What a row shows where something jumps at its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Before,
    After,
}

fn sensitive(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    options: &SimulateOptions,
    directions: &[Direction],
    reading: Reading,
) -> Result<SensitiveSimulation, IntegrateError> {
    let description = system.description();
    let mut input_values = vec![0.0; description.n_inputs];
    inputs.fill(options.start, true, &mut input_values);
    let HybridStart { initialized: start, modes } =
        initialize_with_events(system, options.start, parameters, &input_values, &InitializeOptions::default())?;
    let tangents = start_tangents(system, &start, options.start, &input_values, &modes, directions)?;
    let mut stepper = Stepper::new(system, inputs, options, options.start, &start, input_values, modes)?;
    stepper.record_stages()?;
    let mut events = EventLoop::new(system);
    let has_events = events.is_needed();
    if has_events {
        events.mark_sides(&stepper);
    }
    let follower = Follower::new(system, tangents, &stepper)?;
    let mut walk = Walk {
        inputs,
        stepper,
        follower,
        events,
        has_events,
        history: History::new(description.n_roots, options.stop - options.start),
        simulation: Simulation::begin(start, options.output_times.len()),
        reading,
    };
    let sensitivities = walk.integrate(options)?;
    walk.simulation.finish(&walk.stepper);
    Ok(SensitiveSimulation { simulation: walk.simulation, sensitivities })
}

/// Whether a walk goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Continues,
    Ends,
}

/// A trajectory with its changes on their way.
struct Walk<'s, 'i> {
    inputs: &'i dyn Inputs,
    stepper: Stepper<'s, 'i>,
    follower: Follower<'s>,
    events: EventLoop<'s>,
    has_events: bool,
    history: History,
    simulation: Simulation,
    reading: Reading,
}

impl Walk<'_, '_> {
    fn integrate(&mut self, options: &SimulateOptions) -> Result<Vec<Vec<Vec<f64>>>, IntegrateError> {
        let mut sensitivities = Vec::with_capacity(options.output_times.len());
        let breaks = self.inputs.breaks().iter().copied();
        let reads_after = self.reading == Reading::After;
        let is_within =
            |time: &f64| *time > options.start && (*time < options.stop || reads_after && *time == options.stop);
        let breaks: Vec<f64> = breaks.filter(is_within).collect();
        let outputs = options.output_times.iter().copied();
        let mut ends: Vec<f64> = breaks.iter().copied().chain(outputs).chain([options.stop]).collect();
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let mut next_output = 0;
        if self.has_events && self.happen(&Cause::Fixed)? == Course::Ends {
            return Ok(sensitivities);
        }
        for end in ends {
            let mut is_due = false;
            while self.stepper.now.time < end {
                let scheduled =
                    if self.has_events { self.events.next_scheduled(&self.stepper, end) } else { f64::INFINITY };
                let tolerance = if scheduled.is_finite() { SAME_TIME * (end.abs() + scheduled.abs()) } else { 0.0 };
                is_due = scheduled <= end + tolerance;
                let is_before = scheduled < end - tolerance;
                let goal = if is_before { scheduled } else { end };
                if self.go_on(goal)? == Course::Ends {
                    return Ok(sensitivities);
                }
                if is_before && self.stepper.now.time >= goal && self.happen(&Cause::Scheduled)? == Course::Ends {
                    return Ok(sensitivities);
                }
            }
            if !reads_after {
                self.read(options, &mut next_output, &mut sensitivities);
            }
            let course = if breaks.contains(&end) {
                self.cross_break(end)?
            } else if is_due && (end < options.stop || reads_after) {
                self.happen(&Cause::Scheduled)?
            } else {
                Course::Continues
            };
            if reads_after {
                self.read(options, &mut next_output, &mut sensitivities);
            }
            if course == Course::Ends {
                break;
            }
        }
        Ok(sensitivities)
    }

    /// The rows that are due here.
    fn read(&mut self, options: &SimulateOptions, next: &mut usize, sensitivities: &mut Vec<Vec<Vec<f64>>>) {
        while options.output_times.get(*next).is_some_and(|&time| time <= self.stepper.now.time) {
            self.simulation.times.push(options.output_times[*next]);
            self.simulation.rows.push(self.stepper.observe_here());
            sensitivities.push(self.follower.observe(&mut self.stepper));
            *next += 1;
        }
    }

    /// Takes a step, and the event that ends it, if there is one.
    fn go_on(&mut self, goal: f64) -> Result<Course, IntegrateError> {
        let before = self.follower.tangents.clone();
        self.stepper.advance(goal)?;
        self.follow()?;
        let crossing = if self.has_events { locate(&mut self.events, &mut self.stepper)? } else { None };
        let Some(crossing) = crossing else {
            if self.has_events {
                let values = self.events.values_here(&self.stepper).to_vec();
                self.history.note_values(&values);
                if let Some((root, trouble)) = self.history.fallen(&values, &mut self.events, &self.stepper) {
                    return Err(self.told(trouble, root));
                }
                self.events.sharpen();
            }
            return Ok(Course::Continues);
        };
        let time = crossing.place.time;
        // The changes follow the steps that were taken: one of them has to end here.
        self.follower.tangents = before;
        self.stepper.retake(time)?;
        self.follow()?;
        if self.stepper.now.time < time {
            return Ok(Course::Continues);
        }
        let middle = self.stepper.roughly(0.5 * (self.stepper.step_start() + time));
        let values = self.stepper.evaluate_at(Part::Roots, &middle);
        self.history.note_values(&values);
        self.stepper.go_back(&crossing.place);
        if let Some(broken) = crossing.broken {
            return Err(self.events.assertion_error(time, broken));
        }
        for &root in &crossing.roots {
            if let Some(trouble) = self.history.note(time, root) {
                return Err(self.told(trouble, root));
            }
            self.history.note_busy(root);
        }
        self.happen(&Cause::Roots(&crossing.roots))
    }

    /// What is wrong with the events of a function, at the point reached.
    fn told(&self, trouble: Trouble, root: usize) -> IntegrateError {
        let held = self.events.events.roots[root].held as usize;
        trouble.told(self.stepper.now.time, &self.events.events.held[held])
    }

    /// Carries the changes over the last step. One that is too long for them is taken again, shorter.
    fn follow(&mut self) -> Result<(), IntegrateError> {
        loop {
            let before = self.follower.tangents.clone();
            let error = self.follower.follow(&mut self.stepper)?;
            let (start, step) = (self.stepper.step_start(), self.stepper.now.time - self.stepper.step_start());
            let factor = 0.9 * error.size.max(1e-10).powf(-1.0 / error.order);
            if error.size <= 1.0 || step < 1e3 * self.stepper.resolution() {
                self.stepper.limit_step(step * factor.clamp(0.3, 8.0));
                return Ok(());
            }
            self.follower.tangents = before;
            self.stepper.retake(start + step * factor.clamp(0.1, 0.8))?;
        }
    }

    /// Settles an event at the point reached and carries the changes over it.
    fn happen(&mut self, cause: &Cause<'_>) -> Result<Course, IntegrateError> {
        let verge = self.verge()?;
        let changes = verge.time_changes(&mut self.stepper, &self.events, cause, &self.follower.tangents)?;
        self.events.mark_before(&mut self.stepper);
        self.settle(&verge, &changes, matches!(cause, Cause::Scheduled))
    }

    fn verge(&mut self) -> Result<Verge, IntegrateError> {
        self.follower.factor_here(&mut self.stepper)?;
        let solver = &mut self.follower.solver;
        Verge::new(&mut self.stepper, self.inputs, &mut |_, rates| solver.solve(rates).is_ok())
    }

    fn settle(&mut self, verge: &Verge, changes: &[f64], is_scheduled: bool) -> Result<Course, IntegrateError> {
        let settled = self.events.settle(&mut self.stepper, false, &mut Rules::default())?;
        verge.cross(&mut self.stepper, &self.events, &settled, changes, &mut self.follower.tangents)?;
        self.follower.settle(&mut self.stepper)?;
        let time = self.stepper.now.time;
        if settled.has_changed {
            let (held, reinitialized) = (settled.held, settled.reinitialized);
            self.simulation.events.push(StateEvent { time, is_scheduled, row: None, held, reinitialized });
        }
        let Some(action) = settled.terminated_by else { return Ok(Course::Continues) };
        let action = &self.events.events.actions[action];
        if let daesy_system::ActionKind::Terminate { message } = &action.kind {
            let (message, place) = (message.clone(), action.label.place.clone());
            self.simulation.termination = Some(Termination { time, message, place });
        }
        Ok(Course::Ends)
    }

    fn cross_break(&mut self, time: f64) -> Result<Course, IntegrateError> {
        let verge = if self.has_events { Some(self.verge()?) } else { None };
        self.events.mark_before(&mut self.stepper);
        self.inputs.fill(time, true, &mut self.stepper.model.input_values);
        self.stepper.restart()?;
        match verge {
            Some(verge) => self.settle(&verge, &vec![0.0; self.follower.tangents.len()], true),
            None => self.follower.settle(&mut self.stepper).map(|()| Course::Continues),
        }
    }
}

/// The changes in all directions at the point reached.
struct Follower<'s> {
    system: &'s dyn DaeSystem,
    tangents: Vec<StartTangent>,
    /// How far to go in each direction for a change as large as the parameter or start value itself.
    reaches: Vec<f64>,
    /// Of the equations, relative to their size.
    noise: f64,
    solver: LinearSolver<f64>,
    by_unknowns: Vec<f64>,
    by_states: Vec<f64>,
    by_parameters: Vec<f64>,
}

impl<'s> Follower<'s> {
    fn new(
        system: &'s dyn DaeSystem,
        tangents: Vec<StartTangent>,
        stepper: &Stepper<'_, '_>,
    ) -> Result<Self, IntegrateError> {
        let reach = |values: &[f64], changes: &[f64]| {
            let ratios = values.iter().zip(changes).filter(|(_, change)| **change != 0.0);
            ratios.map(|(value, change)| (value / change).abs()).fold(0.0, f64::max)
        };
        let reaches = tangents.iter().map(|tangent| {
            let by_parameters = reach(&stepper.model.parameters, &tangent.parameters);
            let by_states = reach(&stepper.now.states, &tangent.states);
            [by_parameters, by_states].into_iter().find(|reach| *reach > 0.0).unwrap_or(1.0)
        });
        let reaches = reaches.collect();
        let solver = LinearSolver::new(system.pattern(Part::ResidualByUnknowns))
            .map_err(|_| IntegrateError::Singular { time: f64::NAN, variable: String::new() })?;
        let n_entries = |part: Part| vec![0.0; system.pattern(part).n_entries()];
        Ok(Self {
            system,
            tangents,
            reaches,
            noise: system.noise(),
            solver,
            by_unknowns: n_entries(Part::ResidualByUnknowns),
            by_states: n_entries(Part::ResidualByStates),
            by_parameters: n_entries(Part::ResidualByParameters),
        })
    }

    /// Evaluates F_v, F_s and F_p at a point.
    fn linearize(&mut self, stepper: &mut Stepper<'_, '_>, at: &StagePoint<'_>) {
        let model = &mut stepper.model;
        let around =
            Surroundings { time: at.time, parameters: &model.parameters, inputs: at.inputs, modes: &model.modes };
        let point = around.point(at.states, at.unknowns);
        let evaluator = model.equations.evaluator();
        evaluator.evaluate(Part::ResidualByUnknowns, &point, &mut self.by_unknowns);
        evaluator.evaluate(Part::ResidualByStates, &point, &mut self.by_states);
        evaluator.evaluate(Part::ResidualByParameters, &point, &mut self.by_parameters);
    }

    /// dv from F_v dv = -(F_s ds + F_p dp) with F_v factored.
    fn unknowns(&mut self, states: &[f64], parameters: &[f64], unknowns: &mut [f64]) -> bool {
        unknowns.fill(0.0);
        add_product(self.system, Part::ResidualByStates, &self.by_states, states, unknowns);
        add_product(self.system, Part::ResidualByParameters, &self.by_parameters, parameters, unknowns);
        unknowns.iter_mut().for_each(|value| *value = -*value);
        self.solver.solve(unknowns).is_ok()
    }

    /// Goes on to the end of the last step.
    fn follow(&mut self, stepper: &mut Stepper<'_, '_>) -> Result<ChangeError, IntegrateError> {
        let is_implicit = stepper.last_kind() == Kind::Implicit;
        if self.tangents.is_empty() {
            // A trajectory alone: nothing is linearized.
            if !is_implicit {
                stepper.press(false);
            }
            return Ok(ChangeError { size: 0.0, order: ERROR_ORDER });
        }
        if is_implicit {
            let error = self.follow_implicit(stepper)?;
            self.settle(stepper)?;
            return Ok(error);
        }
        let (error, last_stages) = self.follow_explicit(stepper)?;
        self.settle(stepper)?;
        let step = stepper.now.time - stepper.step_start();
        let mut rates = vec![0.0; self.system.description().states.len()];
        let mut is_near_border = false;
        for (tangent, last) in self.tangents.iter().zip(&last_stages) {
            stepper.model.equations.rates(&tangent.states, &tangent.unknowns, &mut rates);
            is_near_border |= step * largest_rate(&tangent.states, &last.states, &rates, &last.rates) > NEAR_BORDER;
        }
        stepper.press(is_near_border);
        Ok(error)
    }

    /// The size of an error of the change in one direction, in units of its tolerance. Derivatives of equations with
    /// noise e, by differences, are right to e^(2/3), and no step makes changes better than that.
    fn size_of_error(
        &self,
        stepper: &Stepper<'_, '_>,
        direction: usize,
        changes: &[f64],
        error: impl Iterator<Item = f64>,
    ) -> f64 {
        let looser = (self.noise.powf(2.0 / 3.0) / stepper.model.rtol).max(1.0);
        let (rtol, atol) = (looser * stepper.model.rtol, looser * stepper.model.atol / self.reaches[direction]);
        let (mut largest, mut sum_of_squares) = (0.0f64, 0.0);
        for ((error, change), state) in error.zip(changes).zip(&self.system.description().states) {
            let scaled = (error / (rtol * change.abs() + atol * state.nominal)).abs();
            largest = largest.max(scaled);
            sum_of_squares += scaled * scaled;
        }
        f64::sqrt(sum_of_squares / changes.len().max(1) as f64).max(0.3 * largest)
    }

    fn follow_explicit(
        &mut self,
        stepper: &mut Stepper<'_, '_>,
    ) -> Result<(ChangeError, Vec<LastStage>), IntegrateError> {
        let stages = stepper.explicit_stages();
        let step = stages.step;
        let n_states = self.system.description().states.len();
        let n_stages = stages.points.len();
        let mut rates = vec![vec![vec![0.0; n_states]; n_stages]; self.tangents.len()];
        let mut unknowns = vec![0.0; self.by_unknown_rows()];
        let mut states = vec![0.0; n_states];
        let mut last_states = Vec::with_capacity(self.tangents.len());
        let mut tangents = std::mem::take(&mut self.tangents);
        for (stage, stored) in stages.points.iter().enumerate() {
            let at = StagePoint {
                time: stored.time,
                states: &stored.states,
                unknowns: &stored.unknowns,
                inputs: &stored.inputs,
            };
            self.linearize(stepper, &at);
            if self.solver.factor(&self.by_unknowns).is_err() {
                return Err(self.singular(stored.time));
            }
            for (tangent, rates) in tangents.iter().zip(&mut rates) {
                states.copy_from_slice(&tangent.states);
                for (weight, rate) in crate::dop853::A[stage].iter().zip(rates.iter()) {
                    add_scaled(step * weight, rate, &mut states);
                }
                if !self.unknowns(&states, &tangent.parameters, &mut unknowns) {
                    return Err(self.singular(stored.time));
                }
                stepper.model.equations.rates(&states, &unknowns, &mut rates[stage]);
                if stage + 1 == n_stages {
                    last_states.push(states.clone());
                }
            }
        }
        let mut size = 0.0f64;
        for (direction, (tangent, rates)) in tangents.iter_mut().zip(&rates).enumerate() {
            for (weight, rate) in crate::dop853::A[crate::dop853::STAGES].iter().zip(rates) {
                add_scaled(step * weight, rate, &mut tangent.states);
            }
            let estimate = |weights: &[f64]| {
                let sum =
                    |state: usize| weights.iter().zip(rates).map(|(weight, rate)| weight * rate[state]).sum::<f64>();
                self.size_of_error(stepper, direction, &tangent.states, (0..n_states).map(|state| step * sum(state)))
            };
            size = size.max(combined_error(estimate(&ERROR_5), estimate(&ERROR_3)));
        }
        self.tangents = tangents;
        let last_rates = rates.into_iter().filter_map(|mut rates| rates.pop());
        let last_stages = last_states.into_iter().zip(last_rates).map(|(states, rates)| LastStage { states, rates });
        Ok((ChangeError { size, order: ERROR_ORDER }, last_stages.collect()))
    }

    fn by_unknown_rows(&self) -> usize {
        self.system.description().unknowns.len()
    }

    fn singular(&self, time: f64) -> IntegrateError {
        let unknown = self.system.description().unknowns.first();
        IntegrateError::Singular { time, variable: unknown.map_or(String::new(), |unknown| unknown.name.clone()) }
    }

    /// Solves the linear equations of all stages by the iteration of the step.
    fn follow_implicit(&mut self, stepper: &mut Stepper<'_, '_>) -> Result<ChangeError, IntegrateError> {
        let Some(stages) = stepper.implicit_stages() else { return Err(self.singular(stepper.now.time)) };
        let method = stages.method;
        let mut size_of_errors = 0.0f64;
        let step = stages.step;
        let s = method.n_stages;
        let n = self.by_unknown_rows();
        let n_states = self.system.description().states.len();
        let mut linear = Vec::with_capacity(s);
        for stored in &stages.points {
            let at = StagePoint {
                time: stored.time,
                states: &stored.states,
                unknowns: &stored.unknowns,
                inputs: &stored.inputs,
            };
            self.linearize(stepper, &at);
            linear.push([self.by_unknowns.clone(), self.by_states.clone(), self.by_parameters.clone()]);
        }
        let mut tangents = std::mem::take(&mut self.tangents);
        let chain: Vec<(usize, Rate)> = stepper.model.equations.chain().collect();
        for (direction, tangent) in tangents.iter_mut().enumerate() {
            let mut error = vec![0.0; n_states];
            stepper.model.equations.rates(&tangent.states, &tangent.unknowns, &mut error);
            let mut stage_unknowns = vec![tangent.unknowns.clone(); s];
            let mut stage_states = vec![vec![0.0; n_states]; s];
            let mut residuals = vec![vec![0.0; n]; s];
            let mut last_size = f64::INFINITY;
            for iteration in 0.. {
                for &(state, source) in &chain {
                    for i in 0..s {
                        let sum: f64 = (0..s)
                            .map(|j| {
                                method.a[i][j]
                                    * match source {
                                        Rate::State(next) => stage_states[j][next as usize],
                                        Rate::Unknown(unknown) => stage_unknowns[j][unknown as usize],
                                    }
                            })
                            .sum();
                        stage_states[i][state] = tangent.states[state] + step * sum;
                    }
                }
                for i in 0..s {
                    let [by_unknowns, by_states, by_parameters] = &linear[i];
                    let out = &mut residuals[i];
                    out.fill(0.0);
                    add_product(self.system, Part::ResidualByUnknowns, by_unknowns, &stage_unknowns[i], out);
                    add_product(self.system, Part::ResidualByStates, by_states, &stage_states[i], out);
                    add_product(self.system, Part::ResidualByParameters, by_parameters, &tangent.parameters, out);
                }
                let size = self.correct(stepper, method, &residuals, &mut stage_unknowns)?;
                let largest = stage_unknowns.iter().flatten().fold(0.0f64, |largest, value| largest.max(value.abs()));
                let rate = (size / last_size).min(1.0);
                if size <= 1e-13 * largest || iteration > 0 && size * rate <= 1e-10 * largest {
                    break;
                }
                if iteration >= MAX_ITERATIONS || !size.is_finite() {
                    return Err(self.singular(stepper.now.time));
                }
                last_size = size;
            }
            // The last stage is the step.
            let last = &stage_unknowns[s - 1];
            tangent.unknowns.copy_from_slice(last);
            for &(state, source) in &chain {
                let sum: f64 = (0..s)
                    .map(|j| {
                        method.a[s - 1][j]
                            * match source {
                                Rate::State(next) => stage_states[j][next as usize],
                                Rate::Unknown(unknown) => stage_unknowns[j][unknown as usize],
                            }
                    })
                    .sum();
                tangent.states[state] += step * sum;
                let embedded = method.error.iter().enumerate().map(|(stage, weight)| {
                    weight
                        * match source {
                            Rate::State(next) => stage_states[stage][next as usize],
                            Rate::Unknown(unknown) => stage_unknowns[stage][unknown as usize],
                        }
                });
                error[state] = step * (method.eigenvalue * error[state] + embedded.sum::<f64>());
            }
            stepper.filter_error(&mut error)?;
            let size = self.size_of_error(stepper, direction, &tangent.states, error.into_iter());
            size_of_errors = size_of_errors.max(size);
        }
        self.tangents = tangents;
        Ok(ChangeError { size: size_of_errors, order: s as f64 + 1.0 })
    }

    /// One iteration with the factors of the step; the largest change.
    fn correct(
        &self,
        stepper: &mut Stepper<'_, '_>,
        method: &crate::collocation::Collocation,
        residuals: &[Vec<f64>],
        stage_unknowns: &mut [Vec<f64>],
    ) -> Result<f64, IntegrateError> {
        let (s, n) = (method.n_stages, self.by_unknown_rows());
        let mut real: Vec<f64> = (0..n).map(|at| (0..s).map(|i| method.left[i] * residuals[i][at]).sum()).collect();
        let mut complex: Vec<Vec<c64>> = method
            .pairs
            .iter()
            .map(|pair| {
                let entry = |at: usize| (0..s).fold(c64::new(0.0, 0.0), |sum, i| sum + pair.left[i] * residuals[i][at]);
                (0..n).map(entry).collect()
            })
            .collect();
        stepper.solve_stages(&mut real, &mut complex).map_err(|_| self.singular(stepper.now.time))?;
        let mut largest = 0.0f64;
        for i in 0..s {
            for at in 0..n {
                let mut change = method.vector[i] * real[at];
                for (pair, rhs) in method.pairs.iter().zip(&complex) {
                    change += 2.0 * (pair.vector[i] * rhs[at]).re;
                }
                stage_unknowns[i][at] -= change;
                largest = largest.max(change.abs());
            }
        }
        Ok(largest)
    }

    /// Linearizes the equations at the point reached and factors F_v.
    fn factor_here(&mut self, stepper: &mut Stepper<'_, '_>) -> Result<(), IntegrateError> {
        let here = stepper.place_here();
        let at = StagePoint { time: here.time, states: &here.states, unknowns: &here.unknowns, inputs: &here.inputs };
        self.linearize(stepper, &at);
        self.solver.factor(&self.by_unknowns).map_err(|_| self.singular(here.time))
    }

    /// Returns to the linearized constraints and solves the unknowns at the point reached.
    fn settle(&mut self, stepper: &mut Stepper<'_, '_>) -> Result<(), IntegrateError> {
        if self.tangents.is_empty() {
            return Ok(());
        }
        let mut tangents = std::mem::take(&mut self.tangents);
        for tangent in &mut tangents {
            stepper.project_tangent(&mut tangent.states, &tangent.parameters)?;
        }
        self.factor_here(stepper)?;
        for tangent in &mut tangents {
            let StartTangent { states, unknowns, parameters } = tangent;
            if !self.unknowns(states, parameters, unknowns) {
                return Err(self.singular(stepper.now.time));
            }
        }
        self.tangents = tangents;
        Ok(())
    }

    /// The changes of observed quantities, direction by direction.
    fn observe(&mut self, stepper: &mut Stepper<'_, '_>) -> Vec<Vec<f64>> {
        if self.tangents.is_empty() {
            return Vec::new();
        }
        let model = &mut stepper.model;
        let around = Surroundings {
            time: stepper.now.time,
            parameters: &model.parameters,
            inputs: &model.input_values,
            modes: &model.modes,
        };
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        let evaluator = model.equations.evaluator();
        let mut evaluate = |part: Part| {
            let mut values = vec![0.0; self.system.pattern(part).n_entries()];
            evaluator.evaluate(part, &point, &mut values);
            values
        };
        let by_states = evaluate(Part::ObservedByStates);
        let by_unknowns = evaluate(Part::ObservedByUnknowns);
        let by_parameters = evaluate(Part::ObservedByParameters);
        let n_observed = self.system.description().observed.len();
        let observe = |tangent: &StartTangent| {
            let mut row = vec![0.0; n_observed];
            add_product(self.system, Part::ObservedByStates, &by_states, &tangent.states, &mut row);
            add_product(self.system, Part::ObservedByUnknowns, &by_unknowns, &tangent.unknowns, &mut row);
            add_product(self.system, Part::ObservedByParameters, &by_parameters, &tangent.parameters, &mut row);
            row
        };
        self.tangents.iter().map(observe).collect()
    }
}

/// The estimated error of changes over a step.
struct ChangeError {
    /// In units of the tolerance.
    size: f64,
    /// The power of the step size that it is proportional to.
    order: f64,
}

/// The change at the last stage of an explicit step, with its rates.
struct LastStage {
    states: Vec<f64>,
    rates: Vec<f64>,
}

/// Where a stage is evaluated.
struct StagePoint<'a> {
    time: f64,
    states: &'a [f64],
    unknowns: &'a [f64],
    inputs: &'a [f64],
}
