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
//!
//! Where the solution slides along the surface g = 0 of a relation (module `sliding`), it is that of a system with the
//! weight w of both sides as one unknown more and g = 0 as one constraint more, and the changes are those of that
//! system. With f- the rates before the surface is reached, at a time that moves by dt, and f the rates on it,
//!
//! ```text
//! ds+ = ds + (f- - f) dt,        dt = -(g_s ds + g_p dp) / g'-
//! ```
//!
//! which satisfies g_s ds+ + g_p dp = -g_t dt - g_s f dt = 0, since g' = 0 with the rates f. Where w leaves its
//! interval, the rates are those of the side that is left alone, f- = f+: changes are continuous there, whenever it
//! happens. Where another event ends sliding, they jump by (f- - f+) dt as at any event.

use daesy_system::{DaeSystem, Part, Rate};
use faer::c64;

use crate::chatter::{History, Trouble};
use crate::contest::Kind;
use crate::dop853::{ERROR_3, ERROR_5};
use crate::dormand_prince::{ERROR_ORDER, NEAR_BORDER, combined_error, largest_rate};
use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::event_iteration::{EventLoop, HybridStart, Settled, initialize_with_events};
use crate::initialize::InitializeOptions;
use crate::linear::LinearSolver;
use crate::root::locate;
use crate::saltation::{Cause, Verge, add_product, add_scaled};
use crate::simulate::slide::{Borders, Surface, Turn, weight_of};
use crate::simulate::{Inputs, Rules, SimulateOptions, Simulation, StateEvent, Termination};
use crate::sliding::SlidingSystem;
use crate::start_tangents::{Direction, StartTangent, start_tangents};
use crate::stepper::Stepper;

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
/// As [`crate::simulate()`]; also where an event has no derivative.
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
/// the clock has ticked; but for the start, where the row is the first one of a simulation.
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
    let HybridStart { initialized: start, modes } = initialize_with_events(
        system,
        options.start,
        parameters,
        &input_values,
        &InitializeOptions::watched(&options.watch),
    )?;
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
        options,
        stepper,
        follower,
        events,
        has_events,
        history: History::new(description.n_roots, options.stop - options.start),
        n_true_roots: description.n_roots,
        turn: None,
        slide: None,
        leaving: None,
    };
    let mut record = Record::new(
        inputs,
        options,
        reading,
        Simulation::begin(start, options.output_times.len(), description.observed.len()),
    );
    // The start is a row before what happens there, as the first row of a simulation.
    walk.read(&mut record);
    if !has_events || walk.happen(&Cause::Fixed, &mut record)? != Course::Ends {
        walk.walk(&mut record)?;
    }
    record.simulation.finish(&walk.stepper);
    Ok(SensitiveSimulation { simulation: record.simulation, sensitivities: record.sensitivities })
}

/// Whether a walk goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Continues,
    Ends,
    /// The surface that the solution slid along is left.
    Leaves,
}

/// What is ahead, and what was read on the way.
struct Record {
    simulation: Simulation,
    sensitivities: Vec<Vec<Vec<f64>>>,
    reading: Reading,
    breaks: Vec<f64>,
    /// Times at which steps end: breaks, rows, the end.
    ends: Vec<f64>,
    next_end: usize,
    /// An event is scheduled at the next end.
    is_due: bool,
    next_output: usize,
}

impl Record {
    fn new(inputs: &dyn Inputs, options: &SimulateOptions, reading: Reading, simulation: Simulation) -> Self {
        let reads_after = reading == Reading::After;
        let is_within =
            |time: &f64| *time > options.start && (*time < options.stop || reads_after && *time == options.stop);
        let breaks: Vec<f64> = inputs.breaks().iter().copied().filter(is_within).collect();
        let outputs = options.output_times.iter().copied();
        let mut ends: Vec<f64> = breaks.iter().copied().chain(outputs).chain([options.stop]).collect();
        ends.sort_by(f64::total_cmp);
        ends.dedup();
        let sensitivities = Vec::with_capacity(options.output_times.len());
        Self { simulation, sensitivities, reading, breaks, ends, next_end: 0, is_due: false, next_output: 0 }
    }
}

/// A surface that the solution slides along.
struct Sliding<'s> {
    system: &'s SlidingSystem<'s>,
    surface: &'s Surface,
    /// The discrete variables and conditions that it belongs to.
    switched: Vec<f64>,
}

/// A trajectory with its changes on their way.
struct Walk<'s, 'i> {
    inputs: &'i dyn Inputs,
    options: &'i SimulateOptions,
    stepper: Stepper<'s, 'i>,
    follower: Follower<'s>,
    events: EventLoop<'s>,
    has_events: bool,
    history: History,
    /// Event functions of the model itself.
    n_true_roots: usize,
    /// The last crossing of a model that runs elsewhere.
    turn: Option<Turn>,
    slide: Option<Sliding<'s>>,
    /// The rates after the event that ended sliding, and how its time follows each direction.
    leaving: Option<(Vec<f64>, Vec<f64>)>,
}

impl Walk<'_, '_> {
    /// Goes on to the end, or to where a surface is left.
    fn walk(&mut self, record: &mut Record) -> Result<Course, IntegrateError> {
        let options = self.options;
        while let Some(&end) = record.ends.get(record.next_end) {
            let number = record.next_end;
            while record.next_end == number && self.stepper.now.time < end {
                let scheduled =
                    if self.has_events { self.events.next_scheduled(&self.stepper, end) } else { f64::INFINITY };
                let tolerance = if scheduled.is_finite() { SAME_TIME * (end.abs() + scheduled.abs()) } else { 0.0 };
                record.is_due = self.has_events && self.events.is_due(scheduled, end);
                let is_before = scheduled < end - tolerance;
                let goal = if is_before { scheduled } else { end };
                let mut course = self.go_on(goal, record)?;
                let is_here = record.next_end == number && is_before && self.stepper.now.time >= goal;
                if course == Course::Continues && is_here {
                    course = self.happen(&Cause::Scheduled, record)?;
                }
                if course != Course::Continues {
                    return Ok(course);
                }
                if self.has_left() {
                    return Ok(Course::Leaves);
                }
            }
            if record.next_end > number {
                continue;
            }
            if record.reading == Reading::Before {
                self.read(record);
            }
            let course = if record.breaks.contains(&end) {
                self.cross_break(end, record)?
            } else if record.is_due && (end < options.stop || record.reading == Reading::After) {
                self.happen(&Cause::Scheduled, record)?
            } else {
                Course::Continues
            };
            if course == Course::Leaves {
                return Ok(course);
            }
            if record.reading == Reading::After {
                self.read(record);
            }
            (record.next_end, record.is_due) = (number + 1, false);
            if course == Course::Ends {
                return Ok(course);
            }
            if self.has_left() {
                return Ok(Course::Leaves);
            }
        }
        Ok(Course::Continues)
    }

    /// Whether the solution is no longer on the surface that it slid along.
    fn has_left(&self) -> bool {
        self.slide.as_ref().is_some_and(|slide| {
            let is_inside = slide.system.is_inside(weight_of(&self.stepper));
            !is_inside || !slide.surface.has_its_modes(&slide.switched, &self.stepper)
        })
    }

    /// The rows that are due here.
    fn read(&mut self, record: &mut Record) {
        let times = &self.options.output_times;
        while times.get(record.next_output).is_some_and(|&time| time <= self.stepper.now.time) {
            record.simulation.times.push(times[record.next_output]);
            record.simulation.rows.push(self.stepper.observe_here());
            record.sensitivities.push(self.follower.observe(&mut self.stepper));
            record.next_output += 1;
        }
    }

    /// Takes a step, and the event that ends it, if there is one.
    fn go_on(&mut self, goal: f64, record: &mut Record) -> Result<Course, IntegrateError> {
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
        if crossing.roots.iter().any(|&root| root >= self.n_true_roots) {
            return Ok(Course::Leaves);
        }
        for &root in &crossing.roots {
            if let Some(trouble) = self.history.note(time, root) {
                return Err(self.told(trouble, root));
            }
            self.history.note_busy(root);
        }
        self.happen(&Cause::Roots(&crossing.roots), record)
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

    /// Settles an event at the point reached and carries the changes over it, or slides where both sides of a relation
    /// lead to its border.
    fn happen(&mut self, cause: &Cause<'_>, record: &mut Record) -> Result<Course, IntegrateError> {
        let verge = self.verge()?;
        let changes = verge.time_changes(&mut self.stepper, &self.events, cause, &self.follower.tangents)?;
        let (modes, states) = (self.stepper.model.modes.clone(), self.stepper.now.states.clone());
        self.events.mark_before(&mut self.stepper);
        let settled = self.events.settle(&mut self.stepper, false, &mut Rules::default())?;
        if let Cause::Roots(roots) = *cause
            && let Some(surface) = self.surface(roots, &settled, modes, &states, verge.rates())
            && let Some(course) = self.slide_along(&surface, &verge, &changes, &settled, record)?
        {
            return Ok(course);
        }
        self.cross(&verge, &changes, settled, matches!(cause, Cause::Scheduled), record)
    }

    fn verge(&mut self) -> Result<Verge, IntegrateError> {
        self.follower.factor_here(&mut self.stepper)?;
        let solver = &mut self.follower.solver;
        Verge::new(&mut self.stepper, self.inputs, &mut |_, rates| solver.solve(rates).is_ok())
    }

    /// The surface to slide along after a crossing, if there is one.
    fn surface(
        &mut self,
        roots: &[usize],
        settled: &Settled,
        modes_before: Vec<f64>,
        states_before: &[f64],
        rates_before: &[f64],
    ) -> Option<Surface> {
        let has_changed = self.stepper.have_changed(rates_before) || settled.has_switched;
        let mut turn = self.turn.take();
        let mut borders =
            Borders { stepper: &mut self.stepper, events: &mut self.events, n_true_roots: self.n_true_roots };
        let mut surface = borders.elsewhere(&mut turn, roots, settled, modes_before.clone(), states_before);
        if surface.is_none() && has_changed && settled.reinitialized.is_empty() && settled.terminated_by.is_none() {
            surface = roots.iter().find_map(|&root| borders.surface(root, settled, &modes_before));
        }
        self.turn = turn;
        surface
    }

    /// Slides along a surface until it is left; none where no mixture of both sides stays on it.
    fn slide_along(
        &mut self,
        surface: &Surface,
        verge: &Verge,
        changes: &[f64],
        settled: &Settled,
        record: &mut Record,
    ) -> Result<Option<Course>, IntegrateError> {
        let system = surface.system(self.stepper.model.equations.system, self.options.rtol);
        let Some(mut stepper) = surface.stepper(&system, &self.stepper, self.inputs, self.options, true) else {
            return Ok(None);
        };
        let (from, rates) = (stepper.now.time, stepper.rates_here());
        let mut tangents = self.follower.tangents.clone();
        for (tangent, &dt) in tangents.iter_mut().zip(changes) {
            add_scaled(dt, verge.rates(), &mut tangent.states);
            add_scaled(-dt, &rates, &mut tangent.states);
            tangent.unknowns.push(0.0);
        }
        let mut follower = Follower::new(&system, tangents, &stepper)?;
        follower.reaches.clone_from(&self.follower.reaches);
        follower.settle(&mut stepper)?;
        let mut events = EventLoop::new(&system);
        events.mark_sides(&stepper);
        events.take_clocks(&self.events);
        let event = |time: f64, held: Vec<u32>| StateEvent {
            time,
            is_scheduled: false,
            row: None,
            held,
            reinitialized: Vec::new(),
        };
        record.simulation.events.push(event(from, settled.held.clone()));
        let switched = stepper.model.modes[..self.events.events.n_switched()].to_vec();
        let mut walk = Walk {
            inputs: self.inputs,
            options: self.options,
            stepper,
            follower,
            events,
            has_events: true,
            history: History::new(system.exits().end, self.options.stop - self.options.start),
            n_true_roots: self.n_true_roots,
            turn: None,
            slide: Some(Sliding { system: &system, surface, switched }),
            leaving: None,
        };
        let course = walk.walk(record)?;
        let has_its_modes =
            walk.slide.as_ref().is_none_or(|slide| surface.has_its_modes(&slide.switched, &walk.stepper));
        let weight = weight_of(&walk.stepper);
        surface.leave(&system, &walk.stepper, has_its_modes, &mut self.stepper, &self.events);
        self.events.take_clocks(&walk.events);
        let until = self.stepper.now.time;
        let (held, slide) = surface.told(from, until, &self.events);
        record.simulation.slides.push(slide);
        if course != Course::Leaves {
            return Ok(Some(Course::Ends));
        }
        surface.go_on_beside(weight, &mut self.stepper, &mut self.events)?;
        self.follower.tangents = walk.follower.tangents;
        let after = self.stepper.rates_here();
        for (at, tangent) in self.follower.tangents.iter_mut().enumerate() {
            tangent.unknowns.pop();
            if let Some((rates, changes)) = &walk.leaving {
                add_scaled(changes[at], rates, &mut tangent.states);
                add_scaled(-changes[at], &after, &mut tangent.states);
            }
        }
        self.follower.settle(&mut self.stepper)?;
        record.simulation.events.push(event(until, vec![held]));
        Ok(Some(Course::Continues))
    }

    /// Carries the changes over an event that has settled.
    fn cross(
        &mut self,
        verge: &Verge,
        changes: &[f64],
        settled: Settled,
        is_scheduled: bool,
        record: &mut Record,
    ) -> Result<Course, IntegrateError> {
        verge.cross(&mut self.stepper, &self.events, &settled, changes, &mut self.follower.tangents)?;
        self.follower.settle(&mut self.stepper)?;
        self.leaving = self.has_left().then(|| (self.stepper.rates_here(), changes.to_vec()));
        let time = self.stepper.now.time;
        if settled.has_changed {
            let (held, reinitialized) = (settled.held, settled.reinitialized);
            record.simulation.events.push(StateEvent { time, is_scheduled, row: None, held, reinitialized });
        }
        let Some(action) = settled.terminated_by else { return Ok(Course::Continues) };
        let action = &self.events.events.actions[action];
        if let daesy_system::ActionKind::Terminate { message } = &action.kind {
            let (message, place) = (message.clone(), action.label.place.clone());
            record.simulation.termination = Some(Termination { time, message, place });
        }
        Ok(Course::Ends)
    }

    /// Crosses a break of the inputs. A surface that it moves, or that the solution does not stay on with the new
    /// inputs, is left before.
    fn cross_break(&mut self, time: f64, record: &mut Record) -> Result<Course, IntegrateError> {
        let verge = if self.has_events { Some(self.verge()?) } else { None };
        let before = self.stepper.now.clone();
        self.events.mark_before(&mut self.stepper);
        self.inputs.fill(time, true, &mut self.stepper.model.input_values);
        let restarted = self.stepper.restart();
        if self.slide.is_some() {
            let moves = self.stepper.now.states.iter().zip(&before.states).zip(&self.stepper.model.state_weights);
            let has_moved = moves.into_iter().any(|((now, before), weight)| (now - before).abs() > *weight);
            if restarted.is_err() || has_moved || self.has_left() {
                self.inputs.fill(time, false, &mut self.stepper.model.input_values);
                self.stepper.now = before;
                return Ok(Course::Leaves);
            }
        }
        restarted?;
        match verge {
            Some(verge) => {
                let settled = self.events.settle(&mut self.stepper, false, &mut Rules::default())?;
                self.cross(&verge, &vec![0.0; self.follower.tangents.len()], settled, true, record)
            }
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
        let mut evaluate = |part: Part| {
            let mut values = vec![0.0; self.system.pattern(part).n_entries()];
            stepper.model.evaluate(part, &stepper.now, &mut values);
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
