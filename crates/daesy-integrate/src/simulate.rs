//! Adaptive integration with output on a given grid: from event to event, step by step, row by row.
//!
//! Events are breaks of the inputs, scheduled times (relations of time alone, clocks), and sign changes of event
//! functions, which are located within steps. Where both sides of a relation lead to its border, the solution slides
//! along it (`slide`). Where something jumps, the table has a row before and a row after. Every row satisfies all
//! equations.

pub mod exchange;
pub mod leg;
pub(crate) mod slide;

use daesy_system::{DaeSystem, PAST_PLACES, Part, Past, Watch};

use crate::chatter::{History, Trouble};
use crate::error::IntegrateError;
use crate::event_iteration::{EventLoop, HybridStart, SAME_TIME, Settled, initialize_with_events};
use crate::initialize::{InitializeOptions, Initialized};
use crate::jump::{Crossed, Crossing, JumpRule};
use crate::root::{Crossing as RootCrossing, broken_within, crossed_roots, locate};
use crate::rows::RowSink;
use crate::stepper::{Place, Stepper};

/// Values of the inputs over time.
pub trait Inputs {
    /// Writes all inputs and the derivatives the model needs. At a break, `is_after` asks for the right limit.
    fn fill(&self, time: f64, is_after: bool, values: &mut [f64]);

    /// Times at which an input or a needed derivative jumps, ascending.
    fn breaks(&self) -> &[f64];

    /// Whether all inputs are known to be polynomials of degree three at most between breaks, which Simpson's rule
    /// integrates exactly.
    fn is_cubic(&self) -> bool {
        false
    }
}

/// The method that takes the steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// The explicit or the implicit one, whichever advances further for the same work; of the implicit ones the one
    /// that suits the tolerance.
    #[default]
    Auto,
    /// Explicit steps of order 8, for systems that are not stiff.
    Explicit,
    /// Linearly implicit steps of order 4 or 5, for stiff systems at loose tolerances.
    Rosenbrock,
    /// Implicit steps of order 5 to 13, for stiff systems.
    Radau,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Explicit, Self::Rosenbrock, Self::Radau];

    /// Its word in studies and on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Explicit => "explicit",
            Self::Rosenbrock => "rosenbrock",
            Self::Radau => "radau",
        }
    }
}

/// How to integrate.
#[derive(Clone, PartialEq, Debug)]
pub struct SimulateOptions {
    /// First time.
    pub start: f64,
    /// Last time, not before the first.
    pub stop: f64,
    /// Times of output rows, ascending, within start and stop.
    pub output_times: Vec<f64>,
    /// The length of time that what is small is a part of: of the whole of which this run is a leg; its own if `None`.
    pub span: Option<f64>,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance, multiplied by nominal values.
    pub atol: f64,
    /// Steps before giving up.
    pub max_steps: usize,
    /// Asked before every step whether to stop.
    pub watch: Watch,
    /// The method that takes the steps.
    pub method: Method,
    /// The longest step; infinite where the tolerance alone decides.
    pub max_step: f64,
    /// Whether the times at which steps end are kept.
    pub keeps_steps: bool,
    /// Who takes the rows as they come, so that they are not kept.
    pub rows: Option<RowSink>,
}

impl Default for SimulateOptions {
    fn default() -> Self {
        Self {
            start: 0.0,
            stop: 1.0,
            output_times: Vec::new(),
            span: None,
            rtol: 1e-6,
            atol: 1e-9,
            max_steps: 100_000_000,
            watch: Watch::default(),
            method: Method::Auto,
            max_step: f64::INFINITY,
            keeps_steps: false,
            rows: None,
        }
    }
}

/// The last point of a trajectory, with everything that belongs to it.
#[derive(Clone, PartialEq, Debug)]
pub struct EndPoint {
    /// Time.
    pub time: f64,
    /// States.
    pub states: Vec<f64>,
    /// Unknowns.
    pub unknowns: Vec<f64>,
    /// Parameters, those that the start determined included.
    pub parameters: Vec<f64>,
    /// Inputs and the derivatives of them that the model needs.
    pub inputs: Vec<f64>,
    /// Modes.
    pub modes: Vec<f64>,
}

/// A trajectory as far as it goes.
#[derive(Clone, PartialEq, Debug)]
pub struct AsFarAsPossible {
    /// The trajectory, or the part of it before a failure.
    pub simulation: Simulation,
    /// Why it ends before its time.
    pub failure: Option<IntegrateError>,
}

/// A trajectory and the work it took.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation {
    /// Times of the rows.
    pub times: Vec<f64>,
    /// Observed quantities, row by row. Where somebody takes them as they come ([`SimulateOptions::rows`]), only the
    /// first and those at jumps are kept, and the others are empty.
    pub rows: Vec<Vec<f64>>,
    /// The largest size of each observed quantity in the rows.
    pub sizes: Vec<f64>,
    /// Rows that follow a jump: each has the same time as the row before it.
    pub jumps: Vec<usize>,
    /// The consistent start.
    pub start: Initialized,
    /// Accepted steps.
    pub steps: usize,
    /// Rejected steps.
    pub rejected: usize,
    /// Matrices factored.
    pub factorizations: usize,
    /// Evaluations of the residuals.
    pub evaluations: usize,
    /// Largest constraint residual at an accepted point, relative to the size of its row.
    pub constraint_residual_max: f64,
    /// Events of the model, in order.
    pub events: Vec<StateEvent>,
    /// Intervals in which the solution slid along the border of a relation.
    pub slides: Vec<Slide>,
    /// An equation with an infinite derivative, where one was met.
    pub singular_slope: Option<SingularSlope>,
    /// An unknown that was found at a root of higher order, where one was.
    pub multiple_root: Option<MultipleRoot>,
    /// Rows at times at which the equations have no value, where the limit from both sides stands.
    pub limits: Vec<LimitRow>,
    /// Assertions that only warn, each when it first did not hold.
    pub warnings: Vec<Warned>,
    /// States that `reinit` moved beside those it names, though they ought to have kept their values.
    pub displaced: Vec<Displaced>,
    /// What ended the simulation before its time.
    pub termination: Option<Termination>,
    /// Where it ended.
    pub end: Option<EndPoint>,
    /// Ends of steps, where they were asked for.
    pub step_ends: Vec<f64>,
}

impl Simulation {
    /// Nothing but its start yet.
    pub(crate) fn begin(start: Initialized, n_rows: usize, n_observed: usize) -> Self {
        Self {
            times: Vec::with_capacity(n_rows),
            rows: Vec::with_capacity(n_rows),
            sizes: vec![0.0; n_observed],
            jumps: Vec::new(),
            start,
            steps: 0,
            rejected: 0,
            factorizations: 0,
            evaluations: 0,
            constraint_residual_max: 0.0,
            events: Vec::new(),
            slides: Vec::new(),
            displaced: Vec::new(),
            singular_slope: None,
            multiple_root: None,
            limits: Vec::new(),
            warnings: Vec::new(),
            termination: None,
            end: None,
            step_ends: Vec::new(),
        }
    }

    /// Takes note of the work done and the point reached.
    pub(crate) fn finish(&mut self, stepper: &Stepper<'_, '_>) {
        let work = stepper.work();
        self.steps = stepper.taken.steps;
        self.rejected = stepper.taken.rejected;
        self.factorizations = work.factorizations;
        self.evaluations = work.evaluations;
        self.constraint_residual_max = stepper.constraint_residual_max;
        self.singular_slope = stepper.singular_slope();
        self.multiple_root = stepper.multiple_root();
        self.end = Some(EndPoint {
            time: stepper.now.time,
            states: stepper.now.states.clone(),
            unknowns: stepper.now.unknowns.clone(),
            parameters: stepper.model.parameters.clone(),
            inputs: stepper.model.input_values.clone(),
            modes: stepper.model.modes.clone(),
        });
    }
}

/// An equation that has a value where its derivative is infinite, as sqrt(x) has at 0.
#[derive(Clone, PartialEq, Debug)]
pub struct SingularSlope {
    /// When this was first met.
    pub time: f64,
    /// The equation in the model's words.
    pub equation: String,
    /// Where it was written.
    pub place: String,
}

/// An unknown that the equations do not determine to first order, as x^3 = t does not determine x at t = 0.
#[derive(Clone, PartialEq, Debug)]
pub struct MultipleRoot {
    /// When this was first met.
    pub time: f64,
    /// The unknown.
    pub variable: String,
}

/// A row at a time at which the equations have no value although they have one on both sides, as (t - 1) x = t^2 - 1
/// has at t = 1.
#[derive(Clone, PartialEq, Debug)]
pub struct LimitRow {
    /// When.
    pub time: f64,
    /// Why there is no value.
    pub cause: IntegrateError,
}

/// An event that the model made.
#[derive(Clone, PartialEq, Debug)]
pub struct StateEvent {
    /// When.
    pub time: f64,
    /// Whether its time was known beforehand.
    pub is_scheduled: bool,
    /// The row after it, where something jumped.
    pub row: Option<usize>,
    /// Held relations that changed, by position in `Events::held`.
    pub held: Vec<u32>,
    /// States that were given new values.
    pub reinitialized: Vec<u32>,
}

/// An interval in which the solution slid along the border of a relation, see [`crate::simulate()`].
#[derive(Clone, PartialEq, Debug)]
pub struct Slide {
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub until: f64,
    /// The relation in the model's words.
    pub relation: String,
    /// Where it was written.
    pub place: String,
}

/// An assertion that only warns.
#[derive(Clone, PartialEq, Debug)]
pub struct Warned {
    /// When it was first seen not to hold.
    pub time: f64,
    /// What it says.
    pub message: String,
    /// Where it was written.
    pub place: String,
}

/// States that moved where `reinit` gave new values to others with which they cannot keep theirs.
#[derive(Clone, PartialEq, Debug)]
pub struct Displaced {
    /// When.
    pub time: f64,
    /// Those that moved.
    pub moved: Vec<String>,
    /// Those that were given values.
    pub given: Vec<String>,
    /// Where that was written.
    pub place: String,
}

/// The end of a simulation by `terminate`.
#[derive(Clone, PartialEq, Debug)]
pub struct Termination {
    /// When.
    pub time: f64,
    /// What it says.
    pub message: String,
    /// Where it was written.
    pub place: String,
}

/// What whoever starts a simulation wants to have a say in.
#[derive(Default)]
pub struct Rules<'i> {
    /// Gives the states that follow a break of the inputs.
    pub transfer: Option<Box<dyn JumpRule + 'i>>,
}

/// A relation is followed over the edge of where equations are defined this far, relative to the time span.
const EDGE: f64 = 1e-5;

/// States that are moved by their tolerance in search of a relation that changes.
const MAX_BESIDE: usize = 500;

/// Where no state moves, no error asks for short steps; there are so many at least, so that equations with several
/// solutions keep the one that they are at. They do not end where rows often are: these are at the very times at which
/// equations degenerate.
const STRIDES: f64 = 397.0;

/// How often a step is halved until polynomials follow a signal whose past is read.
const MAX_HALVINGS: usize = 6;

/// Where a step leads beyond the past, it is taken again up to a time that is known to this part of the step.
const PAST_END: f64 = 1e-3;

/// How often a step is taken again so that it reads nothing but the past.
const MAX_PAST_RETAKES: usize = 20;

/// Steps after which the pace is looked at.
const PACE: usize = 200_000;

/// So many times in a row a pace may be too slow while something moves: what is fast may be so for a while only.
const MAX_SLOW: usize = 10;

/// A state that moves by more than so many times its tolerance has moved.
const MOVES: f64 = 10.0;

/// How fast the time advances.
struct Pace {
    /// Where the count began.
    since: f64,
    n_before: usize,
    /// The states then.
    states: Vec<f64>,
    /// Whether one of them has moved since.
    has_moved: bool,
    /// How often in a row it was too slow.
    n_slow: usize,
}

impl Pace {
    fn new(time: f64) -> Self {
        Self { since: time, n_before: 0, states: Vec::new(), has_moved: true, n_slow: 0 }
    }
}

/// Units of progress that the time span is divided into.
const PROGRESS: u64 = 1000;

/// What differs between two rows at the same time by more than rounding, given the largest size of each quantity so far.
fn differences(before: &[f64], after: &[f64], sizes: &[f64]) -> Vec<usize> {
    let is_different = |&at: &usize| {
        let size = before[at].abs().max(after[at].abs()).max(sizes[at]).max(1e-6);
        (before[at] - after[at]).abs() > 1e-9 * size
    };
    (0..before.len()).filter(is_different).collect()
}

/// Differences below this may be rounding errors of what a quantity is computed from, which may be much larger than the
/// quantity itself.
const FAINT: f64 = 1e-9;

/// Integrates a system from its consistent start.
///
/// # Errors
/// When no consistent start is found or the method gives up; the error says when and where.
pub fn simulate(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &dyn Inputs,
    options: &SimulateOptions,
) -> Result<Simulation, IntegrateError> {
    simulate_with(system, parameters, inputs, Rules::default(), options)
}

/// Integrates a system from its consistent start; at every break of the inputs `rules.transfer` gives the states that
/// follow.
///
/// # Errors
/// When no consistent start is found or the method gives up; the error says when and where.
pub fn simulate_with<'i>(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &'i dyn Inputs,
    rules: Rules<'i>,
    options: &'i SimulateOptions,
) -> Result<Simulation, IntegrateError> {
    let AsFarAsPossible { simulation, failure } =
        simulate_as_far_as_possible(system, parameters, inputs, rules, options)?;
    failure.map_or(Ok(simulation), Err)
}

/// As [`simulate_with`], but a failure on the way leaves the part of the trajectory before it.
///
/// # Errors
/// When there is no start.
pub fn simulate_as_far_as_possible<'i>(
    system: &dyn DaeSystem,
    parameters: &[f64],
    inputs: &'i dyn Inputs,
    rules: Rules<'i>,
    options: &'i SimulateOptions,
) -> Result<AsFarAsPossible, IntegrateError> {
    let description = system.description();
    let mut input_values = vec![0.0; description.n_inputs];
    inputs.fill(options.start, true, &mut input_values);
    let HybridStart { initialized, modes } = initialize_with_events(
        system,
        options.start,
        parameters,
        &input_values,
        &InitializeOptions::watched(&options.watch),
    )?;
    let mut simulation = Simulation::begin(initialized, options.output_times.len(), description.observed.len());
    let mut stepper = Stepper::new(system, inputs, options, options.start, &simulation.start, input_values, modes)?;
    stepper.look_at_slopes();
    let mut run = Run::new(system, inputs, rules, options, stepper);
    options.rows.iter().for_each(RowSink::begin);
    options.watch.expect(PROGRESS);
    run.begin_pasts();
    let failure = run.integrate(&mut simulation).err();
    run.pasts.iter().for_each(|past| past.end());
    if let Some(error) = &failure {
        run.write_last_row(error, &mut simulation);
    }
    let handed = run.hand_over(&mut simulation, 0);
    simulation.finish(&run.stepper);
    Ok(AsFarAsPossible { simulation, failure: failure.or(handed.err()) })
}

struct Run<'s, 'i> {
    inputs: &'i dyn Inputs,
    rules: Rules<'i>,
    options: &'i SimulateOptions,
    stepper: Stepper<'s, 'i>,
    next_output: usize,
    events: EventLoop<'s>,
    has_events: bool,
    history: History,
    /// By assertion, then by action: whether it has warned.
    has_warned: Vec<bool>,
    /// Units of progress told so far.
    n_told: u64,
    /// Where inputs break next, or the end.
    end: f64,
    /// Event functions of the model itself.
    n_true_roots: usize,
    /// Observed quantities just before the next break, where the solution slid to it.
    observed_before: Option<Vec<f64>>,
    /// Signals whose past is read.
    pasts: Vec<Box<dyn Past + 's>>,
    /// A time passed, with the steps taken up to it.
    pace: Pace,
    /// The last crossing of a model that runs elsewhere.
    turn: Option<slide::Turn>,
}

/// Whether a simulation goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Continues,
    Ends,
    /// The surface that the solution slid along is left.
    Leaves,
}

impl<'s, 'i> Run<'s, 'i> {
    fn new(
        system: &'s dyn DaeSystem,
        inputs: &'i dyn Inputs,
        rules: Rules<'i>,
        options: &'i SimulateOptions,
        stepper: Stepper<'s, 'i>,
    ) -> Self {
        let description = system.description();
        let events = EventLoop::new(system);
        let n_warnings = description.events.assertions.len() + description.events.actions.len();
        Self {
            inputs,
            rules,
            options,
            stepper,
            next_output: 0,
            has_events: events.is_needed(),
            events,
            history: History::new(description.n_roots, options.stop - options.start),
            has_warned: vec![false; n_warnings],
            n_told: 0,
            end: options.stop,
            n_true_roots: description.n_roots,
            observed_before: None,
            pasts: system.pasts(),
            pace: Pace::new(options.start),
            turn: None,
        }
    }
}

impl Run<'_, '_> {
    fn integrate(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let options = self.options;
        self.check_assertions(simulation)?;
        self.write_rows(simulation)?;
        if self.rules.transfer.as_ref().is_some_and(|transfer| transfer.acts_at_start(options.start)) {
            self.cross_break(simulation)?;
        }
        if self.has_events {
            self.events.check_clocks(&self.stepper, options.stop, options.max_steps)?;
            self.events.mark_sides(&self.stepper);
            if self.happen(simulation, false, true)? == Course::Ends {
                return Ok(());
            }
        }
        let is_inside = |time: &f64| *time > options.start && *time < options.stop;
        let breaks: Vec<f64> = self.inputs.breaks().iter().copied().filter(is_inside).collect();
        for end in breaks.into_iter().chain([options.stop]) {
            while self.stepper.now.time < end {
                if self.run_to(end, simulation)? == Course::Ends {
                    return Ok(());
                }
            }
            if (end < options.stop || self.jumps_at_stop()) && self.cross_break(simulation)? == Course::Ends {
                return Ok(());
            }
        }
        // Where the solution slides to the end, the sides of its relation are not asked again.
        let is_settled = self.observed_before.is_some() && !self.events.events.has_terminal;
        if self.has_events && options.stop > options.start && !is_settled {
            self.happen(simulation, true, true)?;
        }
        Ok(())
    }

    /// Whether an input has another value from the stop on, as a held sample has. Derivatives beyond it mean nothing.
    fn jumps_at_stop(&self) -> bool {
        let stop = self.options.stop;
        if self.inputs.breaks().binary_search_by(|time| time.total_cmp(&stop)).is_err() || stop <= self.options.start {
            return false;
        }
        let mut after = self.stepper.model.input_values.clone();
        let mut before = after.clone();
        self.inputs.fill(stop, false, &mut before);
        self.inputs.fill(stop, true, &mut after);
        let inputs = &self.stepper.model.equations.system.description().inputs;
        inputs.iter().any(|input| before[input.start] != after[input.start])
    }

    /// Goes on to the next event, or to `end` where there is none before.
    fn run_to(&mut self, end: f64, simulation: &mut Simulation) -> Result<Course, IntegrateError> {
        self.end = end;
        let scheduled = self.events.next_scheduled(&self.stepper, end);
        // What is scheduled within rounding of the end belongs to it.
        let is_scheduled = scheduled < end - 1e-13 * (end.abs() + scheduled.abs());
        let goal = if is_scheduled { scheduled } else { end };
        while self.stepper.now.time < goal {
            let mut reach = goal.min(self.stepper.now.time + self.longest_step());
            if self.stepper.is_at_rest() && self.stepper.model.has_nonlinear_blocks() {
                reach = reach.min(self.stepper.now.time + self.stepper.span() / STRIDES);
            }
            if let Err(error) = self.stepper.advance(reach) {
                return self.cross_edge(error, simulation);
            }
            self.stay_within_past()?;
            self.check_pace()?;
            if self.options.keeps_steps {
                simulation.step_ends.push(self.stepper.now.time);
            }
            if self.has_events {
                match locate(&mut self.events, &mut self.stepper) {
                    Ok(Some(crossing)) => return self.cross_roots(&crossing, simulation),
                    Ok(None) => {}
                    Err(error) => return self.cross_edge(error, simulation),
                }
            }
            self.write_pasts(self.stepper.step_start(), self.stepper.now.time)?;
            if self.has_events {
                let values = self.events.values_here(&self.stepper).to_vec();
                self.history.note_values(&values);
                if let Some((root, trouble)) = self.history.fallen(&values, &mut self.events, &self.stepper) {
                    return Err(self.told(trouble, root));
                }
                self.events.sharpen();
            }
            self.write_rows(simulation)?;
            self.note_warnings(simulation);
            self.tell_progress();
        }
        if is_scheduled && self.has_events { self.happen(simulation, false, true) } else { Ok(Course::Continues) }
    }

    fn begin_pasts(&mut self) {
        if !self.pasts.is_empty() {
            let row = self.stepper.observe_here();
            self.pasts.iter().for_each(|past| past.begin(self.stepper.now.time, &row));
        }
    }

    /// How long a step may be that reads the past and not what it is about to make.
    fn longest_step(&mut self) -> f64 {
        if self.pasts.is_empty() {
            return f64::INFINITY;
        }
        let row = self.stepper.observe_here();
        let time = self.stepper.now.time;
        self.pasts.iter().map(|past| past.longest_step(time, &row)).fold(f64::INFINITY, f64::min)
    }

    /// Takes the last step again where it leads to where the model asks for what is not yet the past: up to the time
    /// at which it begins to, by bisection. Rows and event functions within a step read what was known when it began.
    fn stay_within_past(&mut self) -> Result<(), IntegrateError> {
        if self.pasts.is_empty() {
            return Ok(());
        }
        for _ in 0..MAX_PAST_RETAKES {
            let (start, end) = (self.stepper.step_start(), self.stepper.now.time);
            let middle = 0.5 * (start + end);
            let Some(mut late) = [middle, end].into_iter().find(|&time| self.asks_beyond_past(time)) else {
                return Ok(());
            };
            let mut early = start;
            while late - early > PAST_END * (end - start) {
                let middle = 0.5 * (early + late);
                if self.asks_beyond_past(middle) { late = middle } else { early = middle }
            }
            if early - start <= self.stepper.resolution() {
                return Err(self.stepper.step_too_small(usize::MAX, late - start));
            }
            self.stepper.retake(early)?;
        }
        let (start, end) = (self.stepper.step_start(), self.stepper.now.time);
        Err(self.stepper.step_too_small(usize::MAX, end - start))
    }

    /// Whether the model asks, at a time within the last step, for what has not been written.
    fn asks_beyond_past(&mut self, time: f64) -> bool {
        let place = match self.stepper.between(time) {
            Ok(place) => place,
            // Equations that read what is not known have no solution there.
            Err(_) => self.stepper.roughly(time),
        };
        let row = self.stepper.observe(&place);
        self.pasts.iter().any(|past| past.excess(&row) > 0.0)
    }

    /// Writes a part of the last step for those who read the past.
    fn write_pasts(&mut self, from: f64, to: f64) -> Result<(), IntegrateError> {
        let all: Vec<usize> = (0..self.pasts.len()).collect();
        self.write_past(&all, from, to, 0)
    }

    /// The same for some of them, in halves where one polynomial does not follow.
    fn write_past(&mut self, which: &[usize], from: f64, to: f64, depth: usize) -> Result<(), IntegrateError> {
        if which.is_empty() || to <= from {
            return Ok(());
        }
        let mut rows = Vec::with_capacity(PAST_PLACES.len());
        for x in PAST_PLACES {
            let time = if x == 1.0 { to } else { from + x * (to - from) };
            let place = self.stepper.between(time)?;
            rows.push((time, self.stepper.observe(&place)));
        }
        let is_rough = |at: &usize| !self.pasts[*at].write(&rows, self.options.rtol, depth == MAX_HALVINGS);
        let rough: Vec<usize> = which.iter().copied().filter(is_rough).collect();
        let middle = 0.5 * (from + to);
        self.write_past(&rough, from, middle, depth + 1)?;
        self.write_past(&rough, middle, to, depth + 1)
    }

    /// Gives up early where steps are so short that the rest of the run would exceed the limit of steps at this pace: at
    /// once where no state moves, as where the solution stays at a jump that makes no event; where something moves, after
    /// a long time only, for a run may be slow for a while and fast again.
    fn check_pace(&mut self) -> Result<(), IntegrateError> {
        let pace = &mut self.pace;
        let states = &self.stepper.now.states;
        if !pace.has_moved {
            let weights = &self.stepper.model.state_weights;
            let mut moves = states.iter().zip(&pace.states).zip(weights);
            pace.has_moved = moves.any(|((now, before), weight)| (now - before).abs() > MOVES * weight);
        }
        let n_steps = self.stepper.taken.steps + self.stepper.taken.rejected;
        let n = n_steps - pace.n_before;
        if n < PACE {
            return Ok(());
        }
        let (since, time) = (pace.since, self.stepper.now.time);
        let is_slow = (time - since) * self.options.max_steps as f64 <= (self.options.stop - time) * n as f64;
        pace.n_slow = if is_slow { pace.n_slow + 1 } else { 0 };
        if is_slow && (!pace.has_moved || pace.n_slow >= MAX_SLOW) {
            return Err(IntegrateError::TooShortSteps { n, since, time });
        }
        (pace.since, pace.n_before, pace.has_moved) = (time, n_steps, false);
        pace.states.clone_from(states);
        Ok(())
    }

    /// Where equations are defined on one side of a relation only, as sqrt(h) in `if h > 0 then sqrt(h) else 0`, no
    /// step leads beyond: the solution is followed along its tangent until the relation changes, if that is near. Where
    /// the rates are smaller than what they are computed to, a relation that changes within the tolerance of a state
    /// changes now.
    fn cross_edge(&mut self, error: IntegrateError, simulation: &mut Simulation) -> Result<Course, IntegrateError> {
        if !self.has_events || matches!(error, IntegrateError::Stopped { .. } | IntegrateError::TooManySteps { .. }) {
            return Err(error);
        }
        let mut distance = self.stepper.resolution();
        while distance <= EDGE * self.stepper.span() {
            let place = self.stepper.along_tangent(distance);
            if let Some(crossing) = self.edge_at(place) {
                return self.settle_edge(&crossing, error, simulation);
            }
            distance *= 4.0;
        }
        for state in 0..self.stepper.now.states.len().min(MAX_BESIDE) {
            for sign in [-1.0, 1.0] {
                let place = self.stepper.beside(state, sign);
                if let Some(crossing) = self.edge_at(place) {
                    return self.settle_edge(&crossing, error, simulation);
                }
            }
        }
        Err(error)
    }

    /// A crossing at a place, if relations have changed there.
    fn edge_at(&mut self, place: Place) -> Option<RootCrossing> {
        let roots = crossed_roots(&self.events, &mut self.stepper, &place);
        (!roots.is_empty()).then_some(RootCrossing { place, roots, broken: None })
    }

    fn settle_edge(
        &mut self,
        crossing: &RootCrossing,
        error: IntegrateError,
        simulation: &mut Simulation,
    ) -> Result<Course, IntegrateError> {
        self.stepper.go_back(&crossing.place);
        self.settle_crossing(crossing, simulation).map_err(|_| error)
    }

    fn cross_roots(&mut self, crossing: &RootCrossing, simulation: &mut Simulation) -> Result<Course, IntegrateError> {
        let time = crossing.place.time;
        while let Some(&output) = self.options.output_times.get(self.next_output).filter(|&&output| output < time) {
            let place = self.stepper.read(output)?;
            let row = self.stepper.observe(&place);
            self.push_row(simulation, output, row)?;
            self.next_output += 1;
        }
        // One step may lead from crossing to crossing.
        let middle = self.stepper.roughly(0.5 * (self.stepper.step_start() + time));
        let values = self.stepper.evaluate_at(Part::Roots, &middle);
        self.history.note_values(&values);
        self.write_pasts(self.stepper.step_start(), time)?;
        self.stepper.go_back(&crossing.place);
        if let Some(broken) = crossing.broken {
            return Err(self.events.assertion_error(time, broken));
        }
        self.settle_crossing(crossing, simulation)
    }

    /// Settles the event of a crossing at the point reached.
    fn settle_crossing(
        &mut self,
        crossing: &RootCrossing,
        simulation: &mut Simulation,
    ) -> Result<Course, IntegrateError> {
        let time = self.stepper.now.time;
        self.write_rows(simulation)?;
        if crossing.roots.iter().any(|&root| root >= self.n_true_roots) {
            return Ok(Course::Leaves);
        }
        for &root in &crossing.roots {
            if let Some(trouble) = self.history.note(time, root) {
                return Err(self.told(trouble, root));
            }
        }
        let rates = self.stepper.rates_here();
        let before = self.stepper.observe_here();
        let modes_before = self.stepper.model.modes.clone();
        let states_before = self.stepper.now.states.clone();
        self.events.mark_before(&mut self.stepper);
        let settled = self.events.settle(&mut self.stepper, false, &mut self.rules)?;
        let mut turn = self.turn.take();
        let elsewhere =
            self.borders().elsewhere(&mut turn, &crossing.roots, &settled, modes_before.clone(), &states_before);
        self.turn = turn;
        if let Some(surface) = elsewhere
            && let Some(course) = self.slide_along(&surface, &settled, &before, simulation)?
        {
            return Ok(course);
        }
        let noise = self.idle_noise(crossing, &settled, &rates, &modes_before);
        // Where both sides have the same rates, they do not both lead to the border, whatever rounding says.
        if noise.is_none()
            && let Some(course) = self.slide(crossing, &settled, &modes_before, &before, simulation)?
        {
            return Ok(course);
        }
        self.judge(crossing, noise);
        self.finish_event(simulation, before, settled, false)
    }

    /// What is wrong with the events of a function, at the point reached.
    fn told(&self, trouble: Trouble, root: usize) -> IntegrateError {
        let held = self.events.events.roots[root].held as usize;
        trouble.told(self.stepper.now.time, &self.events.events.held[held])
    }

    /// How far event functions may be off, where a crossing made no difference to anything.
    fn idle_noise(
        &mut self,
        crossing: &RootCrossing,
        settled: &Settled,
        rates: &[f64],
        modes_before: &[f64],
    ) -> Option<Vec<f64>> {
        if !settled.reinitialized.is_empty() || settled.has_switched {
            return None;
        }
        let noise = self.events.noise(&self.stepper);
        let is_noisy = |&root: &usize| self.history.is_within(root, noise[root]);
        let is_idle = !self.stepper.have_changed(rates)
            || crossing.roots.iter().any(is_noisy) && self.rates_agree_with(modes_before.to_vec());
        is_idle.then_some(noise)
    }

    /// Dulls event functions that cross zero by noise alone, and sharpens those that have left it.
    fn judge(&mut self, crossing: &RootCrossing, idle_noise: Option<Vec<f64>>) {
        for &root in &crossing.roots {
            self.events.bands[root] = 0.0;
            match &idle_noise {
                None => self.history.note_busy(root),
                Some(noise) if self.history.note_idle(root, noise[root]) => self.events.bands[root] = noise[root],
                Some(_) => {}
            }
        }
    }

    /// Whether the rates at the point reached are the same with the modes before the event. Those of the crossing itself
    /// are from unknowns between two ends of a step, whose errors can be larger than what an event changes.
    fn rates_agree_with(&mut self, modes_before: Vec<f64>) -> bool {
        self.stepper.rates_with(modes_before).is_some_and(|rates| !self.stepper.have_changed(&rates))
    }

    /// Settles an event at the point reached and writes rows where something jumps. What begins at a time need not
    /// have a value yet at this time itself, where a relation such as `time > 0` in `if time > 0 then sin(time)/time
    /// else 1` does not hold: then the event happens at the next time that is told apart.
    fn happen(
        &mut self,
        simulation: &mut Simulation,
        is_end: bool,
        is_scheduled: bool,
    ) -> Result<Course, IntegrateError> {
        let before = self.stepper.observe_here();
        self.events.mark_before(&mut self.stepper);
        let is_plain = is_scheduled && !is_end && self.events.events.n_clocks == 0;
        let later = is_plain.then(|| self.stepper.along_tangent(self.stepper.resolution()));
        let modes = self.stepper.model.modes.clone();
        let settled = match (self.events.settle(&mut self.stepper, is_end, &mut self.rules), later) {
            (Err(error @ IntegrateError::NotFinite { .. }), Some(later)) => {
                self.stepper.go_back(&later);
                self.stepper.model.modes = modes;
                self.events.settle(&mut self.stepper, is_end, &mut self.rules).map_err(|_| error)?
            }
            (settled, _) => settled?,
        };
        self.finish_event(simulation, before, settled, is_scheduled)
    }

    fn finish_event(
        &mut self,
        simulation: &mut Simulation,
        before: Vec<f64>,
        settled: Settled,
        is_scheduled: bool,
    ) -> Result<Course, IntegrateError> {
        let time = self.stepper.now.time;
        let states = &self.stepper.model.equations.system.description().states;
        for reinit in settled.reinits.iter().filter(|reinit| !reinit.displaced.is_empty()) {
            let given = settled.reinitialized.iter().map(|&state| states[state as usize].name.clone()).collect();
            let moved = reinit.displaced.iter().map(|&state| states[state].name.clone()).collect();
            let place = reinit.actions.first().map(|&action| self.events.events.actions[action].label.place.clone());
            simulation.displaced.push(Displaced { time, moved, given, place: place.unwrap_or_default() });
        }
        if settled.has_changed {
            self.pasts.iter().for_each(|past| past.note_event());
            let after = self.stepper.observe_here();
            let row = self.write_jump(simulation, before, after, false)?;
            simulation.events.push(StateEvent {
                time,
                is_scheduled,
                row,
                held: settled.held,
                reinitialized: settled.reinitialized,
            });
        }
        let n_assertions = self.events.events.assertions.len();
        for action in settled.warnings {
            if !std::mem::replace(&mut self.has_warned[n_assertions + action], true) {
                let action = &self.events.events.actions[action];
                if let daesy_system::ActionKind::Assert { message, .. } = &action.kind {
                    let (message, place) = (message.clone(), action.label.place.clone());
                    simulation.warnings.push(Warned { time, message, place });
                }
            }
        }
        self.check_assertions(simulation)?;
        if let Some(action) = settled.terminated_by {
            let action = &self.events.events.actions[action];
            if let daesy_system::ActionKind::Terminate { message } = &action.kind {
                let (message, place) = (message.clone(), action.label.place.clone());
                simulation.termination = Some(Termination { time, message, place });
            }
            if simulation.times.last() != Some(&time) {
                let row = self.stepper.observe_here();
                self.push_row(simulation, time, row)?;
            }
            return Ok(Course::Ends);
        }
        Ok(Course::Continues)
    }

    /// Whether rows before and after an event at the point reached differ by more than rounding. A sum of large terms
    /// that is zero differs from itself by their rounding, not by its own.
    fn is_jump(&mut self, before: &[f64], after: &[f64], sizes: &[f64]) -> bool {
        let different = differences(before, after, sizes);
        let by = |at: usize| (before[at] - after[at]).abs();
        if different.iter().all(|&at| by(at) <= FAINT) && !different.is_empty() {
            let rounding = self.stepper.rounding_of_observed();
            return different.iter().any(|&at| by(at) > rounding[at]);
        }
        !different.is_empty()
    }

    /// Rows before and after, where something jumps or `is_wanted`; gives the row after. An event that follows another
    /// within rounding of its time, as when a brake lets go and then turns, belongs to that: what was between them
    /// lasted no time.
    fn write_jump(
        &mut self,
        simulation: &mut Simulation,
        before: Vec<f64>,
        after: Vec<f64>,
        is_wanted: bool,
    ) -> Result<Option<usize>, IntegrateError> {
        if !is_wanted && !self.is_jump(&before, &after, &simulation.sizes) {
            return Ok(None);
        }
        let time = self.stepper.now.time;
        let is_after_jump = simulation.jumps.last().is_some_and(|row| row + 1 == simulation.rows.len());
        match simulation.times.last() {
            Some(&last) if is_after_jump && last < time && time - last <= SAME_TIME * time.abs() => {
                simulation.times.pop();
                simulation.rows.pop();
                self.push_row(simulation, last, after)?;
                return Ok(None);
            }
            Some(&last) if last == time => {}
            _ => self.push_row(simulation, time, before)?,
        }
        self.push_row(simulation, time, after)?;
        simulation.jumps.push(simulation.rows.len() - 1);
        Ok(Some(simulation.rows.len() - 1))
    }

    /// Assertions at the point reached: an error, or warnings.
    fn check_assertions(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        if self.events.events.assertions.is_empty() {
            return Ok(());
        }
        let mut warned = Vec::new();
        if let Some(broken) = self.events.broken_assertions(&self.stepper, &mut warned) {
            return Err(self.events.assertion_error(self.stepper.now.time, broken));
        }
        let time = self.stepper.now.time;
        warned.into_iter().for_each(|at| self.warn(simulation, at, time));
        Ok(())
    }

    /// Assertions that only warn are looked at within every step until they do; others end the step in which they break.
    fn note_warnings(&mut self, simulation: &mut Simulation) {
        let assertions = self.events.events.assertions.iter().enumerate();
        let open: Vec<usize> =
            assertions.filter(|(at, it)| it.is_warning && !self.has_warned[*at]).map(|(at, _)| at).collect();
        if open.is_empty() {
            return;
        }
        for (at, time) in broken_within(&mut self.stepper, &open) {
            self.warn(simulation, at, time);
        }
    }

    fn warn(&mut self, simulation: &mut Simulation, at: usize, time: f64) {
        if !std::mem::replace(&mut self.has_warned[at], true) {
            let assertion = &self.events.events.assertions[at];
            let (message, place) = (assertion.message.clone(), assertion.label.place.clone());
            simulation.warnings.push(Warned { time, message, place });
        }
    }

    /// Writes the rows up to the time reached.
    fn write_rows(&mut self, simulation: &mut Simulation) -> Result<(), IntegrateError> {
        let reached = self.stepper.now.time;
        while let Some(&time) = self.options.output_times.get(self.next_output).filter(|&&time| time <= reached) {
            let row = if time == reached || time <= self.options.start {
                self.stepper.observe_here()
            } else {
                match self.row_within(time) {
                    Ok(row) => row,
                    Err(cause) => {
                        let row = self.limit_row(time).ok_or_else(|| cause.clone())?;
                        simulation.limits.push(LimitRow { time, cause });
                        row
                    }
                }
            };
            self.push_row(simulation, time, row)?;
            self.next_output += 1;
        }
        Ok(())
    }

    /// The row at a time within the last step.
    fn row_within(&mut self, time: f64) -> Result<Vec<f64>, IntegrateError> {
        let place = self.stepper.read(time)?;
        let row = self.stepper.observe(&place);
        match row.iter().position(|value| !value.is_finite()) {
            Some(at) => {
                let variable = self.stepper.model.equations.system.description().observed[at].clone();
                Err(IntegrateError::ObservedNotFinite { time, variable })
            }
            None => Ok(row),
        }
    }

    /// The limit of rows from both sides of a time within the last step; None where there is none.
    ///
    /// With m(h) = (f(t - h) + f(t + h)) / 2 and d(h) = f(t + h) - f(t - h), the limit is (4 m(h) - m(2 h)) / 3 with an
    /// error of fourth order in h where f is smooth there. Of a smooth f, d shrinks with h; of a jump it does not, and
    /// at a pole it grows.
    fn limit_row(&mut self, time: f64) -> Option<Vec<f64>> {
        /// The distance as a fraction of what the step has on both sides.
        const DISTANCE: f64 = 1e-3;
        /// Differences below this fraction of the size are rounding errors of quotients that nearly have no value.
        const ROUNDING: f64 = 1e-7;
        let room = (time - self.stepper.step_start()).min(self.stepper.now.time - time);
        let h = DISTANCE * room;
        if h <= 1e-9 * time.abs() {
            return None;
        }
        let mut rows = Vec::with_capacity(4);
        for distance in [-2.0 * h, -h, h, 2.0 * h] {
            rows.push(self.row_within(time + distance).ok()?);
        }
        let n = rows[0].len();
        let limits = (0..n).map(|at| {
            let [far_before, before, after, far_after] = [0, 1, 2, 3].map(|row| rows[row][at]);
            let (near, far) = ((before + after) / 2.0, (far_before + far_after) / 2.0);
            let size = rows.iter().fold(0.0f64, |size, row| size.max(row[at].abs()));
            let (difference, wider) = ((after - before).abs(), (far_after - far_before).abs());
            let is_smooth =
                difference <= 0.75 * wider + ROUNDING * size && (near - far).abs() <= wider + ROUNDING * size;
            is_smooth.then_some((4.0 * near - far) / 3.0)
        });
        limits.collect()
    }

    /// The row of the point from which no step led on, after a failure that left it as it was.
    fn write_last_row(&mut self, error: &IntegrateError, simulation: &mut Simulation) {
        let is_intact = matches!(
            error,
            IntegrateError::StepTooSmall { .. }
                | IntegrateError::NotFinite { .. }
                | IntegrateError::TooManySteps { .. }
                | IntegrateError::TooShortSteps { .. }
                | IntegrateError::Singular { .. }
                | IntegrateError::Unsolved { .. }
        );
        let time = self.stepper.now.time;
        if !is_intact || simulation.times.last().is_none_or(|&last| last >= time) {
            return;
        }
        self.inputs.fill(time, true, &mut self.stepper.model.input_values);
        let row = self.stepper.observe_here();
        // A row without finite values is none.
        let _ = self.push_row(simulation, time, row);
    }

    /// Says how much of the time span is done.
    fn tell_progress(&mut self) {
        let span = self.options.stop - self.options.start;
        let done = ((self.stepper.now.time - self.options.start) / span * PROGRESS as f64) as u64;
        if done > self.n_told {
            self.options.watch.advance(done - self.n_told);
            self.n_told = done;
        }
    }

    fn push_row(&mut self, simulation: &mut Simulation, time: f64, row: Vec<f64>) -> Result<(), IntegrateError> {
        for (at, (size, value)) in simulation.sizes.iter_mut().zip(&row).enumerate() {
            *size = size.max(value.abs());
            if !value.is_finite() {
                let variable = self.stepper.model.equations.system.description().observed[at].clone();
                return Err(IntegrateError::ObservedNotFinite { time, variable });
            }
        }
        simulation.times.push(time);
        simulation.rows.push(row);
        self.hand_over(simulation, 1)
    }

    /// Hands rows to whoever takes them, but for the last `n_held`: an event that follows a jump at once may replace the
    /// last row. Of those handed over, the first and both sides of jumps are kept.
    fn hand_over(&mut self, simulation: &mut Simulation, n_held: usize) -> Result<(), IntegrateError> {
        let Some(sink) = &self.options.rows else { return Ok(()) };
        let n_done = simulation.rows.len().saturating_sub(n_held);
        for row in sink.n_taken()..n_done {
            let time = simulation.times[row];
            if sink.take(time, &simulation.rows[row]).is_break() {
                return Err(IntegrateError::Stopped { time });
            }
            // Whether the row before this one stands before a jump is known by now.
            let last_jump = simulation.jumps.iter().rev().find(|&&jump| jump <= row);
            if row > 1 && last_jump.is_none_or(|&jump| jump < row - 1) {
                simulation.rows[row - 1] = Vec::new();
            }
        }
        Ok(())
    }

    /// Crosses a break of the inputs: the states that follow, and a row before and after where something jumps.
    fn cross_break(&mut self, simulation: &mut Simulation) -> Result<Course, IntegrateError> {
        let time = self.stepper.now.time;
        let before = self.observed_before.take().unwrap_or_else(|| self.stepper.observe_here());
        self.events.mark_before(&mut self.stepper);
        let inputs_before = self.stepper.model.input_values.clone();
        self.inputs.fill(time, true, &mut self.stepper.model.input_values);
        let mut crossed = Crossed::Smoothly;
        if let Some(transfer) = &mut self.rules.transfer {
            let crossing = Crossing {
                time,
                inputs_before: &inputs_before,
                inputs_after: &self.stepper.model.input_values,
                observed_before: &before,
                parameters: &self.stepper.model.parameters,
                modes: &self.stepper.model.modes,
                modes_after: &self.stepper.model.modes,
                unknowns: &self.stepper.now.unknowns,
            };
            crossed = transfer
                .cross(&crossing, &mut self.stepper.now.states)
                .map_err(|error| IntegrateError::NoTransfer { time, reason: error.reason })?;
        }
        self.pasts.iter().for_each(|past| past.note_event());
        self.stepper.restart()?;
        let settled = if self.has_events {
            self.events.settle(&mut self.stepper, false, &mut self.rules)?
        } else {
            Settled::default()
        };
        let after = self.stepper.observe_here();
        self.write_jump(simulation, before, after.clone(), crossed == Crossed::WithJump)?;
        if self.has_events { self.finish_event(simulation, after, settled, true) } else { Ok(Course::Continues) }
    }
}
