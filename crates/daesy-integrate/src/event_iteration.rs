//! What happens at events: discrete variables and held relations get new values until nothing changes any more.
//!
//! An event is settled by two nested iterations [@modelica36, app. B]. The inner one keeps the values before the event
//! fixed and computes m := M(t, s, v, m) with v from F(t, s, v, m) = 0 until neither changes. Then states are given
//! their new values where a when-clause says so, the present values become the values before, and the inner iteration
//! is done again, until that too changes nothing. Where several relations disturb each other the inner iteration
//! changes only the first of them at a time, which ends for the complementarity problems that ideal diodes and their
//! like make (the least-index rule of [@murty1974]).

use daesy_system::{ActionKind, Before, DaeSystem, Evaluator, Events, Part, Pattern, Quantity, Root};

use crate::equations::Surroundings;
use crate::error::IntegrateError;
use crate::initialize::{InitializeOptions, Initialized, initialize_from};
use crate::jump::{Crossing, JumpRule};
use crate::linear::LinearSolver;
use crate::simulate::Rules;
use crate::stepper::{KeptStates, Stepper};

/// Rounds of the outer iteration before an event counts as unsettled.
const MAX_ROUNDS: usize = 200;

/// Rounds of the inner iteration after which relations change one at a time.
const SIMULTANEOUS_ROUNDS: usize = 12;

/// So many variables are named that change without end.
const MOST_NAMED: usize = 6;

/// The round of the inner iteration in which all combinations of the relations that keep changing are tried, and how
/// many such relations there may be.
const COMBINATION_ROUND: usize = 40;
const MAX_COMBINED: usize = 8;

/// Rounds of the inner iteration after which relations that rounding alone decides stay as they are.
const ROUNDING_ROUNDS: usize = 3;

/// Rounds of the outer iteration in which a relation has changed after which rounding alone does not change it again.
const MAX_TURNS: u32 = 2;

/// Times closer than this, relative to their size, are one event.
pub(crate) const SAME_TIME: f64 = 1e-13;

/// Ticks of a clock are met this closely, relative to its interval.
const SAME_TICK: f64 = 1e-9;

/// Values before the start that follow from it are the same if they differ by less, relative to their size.
const SAME_START: f64 = 1e-12;

/// Rounds of an iteration after which discrete variables in a loop are solved for together: with the unknowns, and
/// among themselves.
const JOINT_ROUNDS: usize = 4;
const JOINT_INNER_ROUNDS: usize = 16;

/// Discrete variables that are solved for together at most.
const MAX_JOINT: usize = 64;

/// Steps of Newton's method for them.
const MAX_JOINT_STEPS: usize = 20;

/// They are moved by this part of their size to see what follows.
const JOINT_DISTANCE: f64 = 1e-6;

/// Values of discrete variables in a loop are the same if they differ by less, relative to their size.
const SAME_VALUE: f64 = 1e-12;

/// States that change by more than this to meet the constraints of new modes, relative to their size, have jumped.
const MOVED: f64 = 1e-4;

/// The part of the tolerance within which values are known no better.
const NOISE: f64 = 0.1;

/// States and unknowns that should not change are off by this fraction of their sizes.
const ROUNDING: f64 = 64.0 * f64::EPSILON;

/// An event function so many times farther from zero than its band has left it.
const OUTSIDE: f64 = 10.0;

/// A clock of `sample(start, interval)`: ticks at start, start + interval, ..
#[derive(Clone, Copy)]
struct Clock {
    start: f64,
    interval: f64,
}

impl Clock {
    /// The time of a tick; infinite if there is no such tick.
    fn tick(self, number: f64) -> f64 {
        if number == 0.0 {
            self.start
        } else if self.interval > 0.0 {
            self.start + number * self.interval
        } else {
            f64::INFINITY
        }
    }

    /// The number of the tick next to a time.
    fn number_near(self, time: f64) -> f64 {
        if self.interval > 0.0 { ((time - self.start) / self.interval).round().max(0.0) } else { 0.0 }
    }

    /// Whether a tick is at a time, to rounding: of the interval, but not where that is far longer than the times.
    fn meets(self, time: f64, number: f64) -> bool {
        let sizes = time.abs() + self.start.abs();
        let tolerance = SAME_TICK * self.interval.abs().min(sizes) + SAME_TIME * sizes;
        (time - self.tick(number)).abs() <= tolerance
    }

    /// The number of the first tick after a time and after the tick `last`.
    fn number_after(self, time: f64, last: f64) -> f64 {
        let near = self.number_near(time);
        let is_past = self.tick(near) < time || self.meets(time, near);
        (if is_past { near + 1.0 } else { near }).max(last + 1.0)
    }
}

/// States that when-clauses gave new values, all at once, with the point where these were computed.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Reinit {
    /// The actions.
    pub(crate) actions: Vec<usize>,
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    pub(crate) modes: Vec<f64>,
    /// Which states kept their values, those that were given included.
    pub(crate) kept: Vec<bool>,
    /// Which moved though others ought to have.
    pub(crate) displaced: Vec<usize>,
}

/// What an event did.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Settled {
    /// States that were given new values, one round after the other.
    pub(crate) reinits: Vec<Reinit>,
    /// Whether a mode changed or a state was given a new value.
    pub(crate) has_changed: bool,
    /// Whether a discrete variable or the condition of a when-clause changed.
    pub(crate) has_switched: bool,
    /// States that were given new values.
    pub(crate) reinitialized: Vec<u32>,
    /// Held values that changed.
    pub(crate) held: Vec<u32>,
    /// The action that ended the simulation.
    pub(crate) terminated_by: Option<usize>,
    /// Actions that warned.
    pub(crate) warnings: Vec<usize>,
}

/// What is known of the events of a system during a run.
pub(crate) struct EventLoop<'s> {
    pub(crate) events: &'s Events,
    evaluator: Box<dyn Evaluator + 's>,
    updated: Vec<f64>,
    actions: Vec<f64>,
    schedule: Vec<f64>,
    assertions: Vec<f64>,
    /// The side of each event function since the last event.
    pub(crate) sides: Vec<bool>,
    /// How far from zero each event function must be to have crossed.
    pub(crate) bands: Vec<f64>,
    /// Event functions that rest at zero but for rounding: within their bands their relations stay as they are.
    pub(crate) is_resting: Vec<bool>,
    /// The event functions when the event at hand began.
    at_event: Vec<f64>,
    /// By held relation: in how many rounds of the event at hand it has changed.
    n_turns: Vec<u32>,
    roots: Vec<f64>,
    /// The number of the last tick of each clock, counted from 0; below 0 before the first.
    last_ticks: Vec<f64>,
}

/// Discrete variables that change from round to round.
struct Loops {
    /// Their values at the beginning.
    first: Vec<f64>,
    /// By discrete variable: whether it is a number that has changed.
    is_moving: Vec<bool>,
    /// By mode: whether it has changed since relations change one at a time.
    is_turning: Vec<bool>,
    /// Numbers closer than this, relative to their size, are the same.
    tolerance: f64,
}

impl Loops {
    fn new(events: &Events, modes: &[f64]) -> Self {
        let n = events.discrete.len();
        Self {
            first: modes[..n].to_vec(),
            is_moving: vec![false; n],
            is_turning: vec![false; modes.len()],
            tolerance: 0.0,
        }
    }

    fn note(&mut self, events: &Events, modes: &[f64], wanted: &[f64]) {
        for (at, discrete) in events.discrete.iter().enumerate() {
            self.is_moving[at] |= discrete.is_real && modes[at] != wanted[at];
        }
    }

    fn note_turns(&mut self, modes: &[f64], wanted: &[f64]) {
        for (is_turning, (mode, wanted)) in self.is_turning.iter_mut().zip(modes.iter().zip(wanted)) {
            *is_turning |= mode != wanted;
        }
    }
}

/// Which modes get their wanted values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    /// Discrete variables and conditions of when-clauses.
    Switched,
    /// The first relation that wants to change.
    FirstHeld,
}

/// Values just before an event.
struct Origin {
    states: Vec<f64>,
    unknowns: Vec<f64>,
    modes: Vec<f64>,
}

/// The states that follow a change of modes. Where the rule knows none they stay, and it says why.
fn transfer_states(stepper: &mut Stepper<'_, '_>, origin: &Origin, transfer: &mut dyn JumpRule) -> Option<String> {
    let mut states = origin.states.clone();
    let crossing = Crossing {
        time: stepper.now.time,
        inputs_before: &stepper.model.input_values,
        inputs_after: &stepper.model.input_values,
        observed_before: &[],
        parameters: &stepper.model.parameters,
        modes: &origin.modes,
        modes_after: &stepper.model.modes,
        unknowns: &origin.unknowns,
    };
    match transfer.cross(&crossing, &mut states) {
        Ok(_) => {
            stepper.now.states.copy_from_slice(&states);
            None
        }
        Err(refusal) => {
            stepper.now.states.copy_from_slice(&origin.states);
            Some(refusal.reason)
        }
    }
}

/// Whether states moved to meet the constraints.
fn have_moved(before: &[f64], after: &[f64], states: &[Quantity]) -> bool {
    before.iter().zip(after).zip(states).any(|((before, after), state)| {
        (before - after).abs() > MOVED * before.abs().max(after.abs()).max(state.nominal)
    })
}

/// A start with its modes.
#[derive(Clone, PartialEq, Debug)]
pub struct HybridStart {
    /// States, unknowns and parameters.
    pub initialized: Initialized,
    /// Modes.
    pub modes: Vec<f64>,
}

/// Consistent start values with the modes that go with them: relations, discrete variables and start values are found
/// together.
///
/// # Errors
/// When there are none; the error names the equation or the relations that do not settle.
pub fn initialize_with_events(
    system: &dyn DaeSystem,
    time: f64,
    parameters: &[f64],
    inputs: &[f64],
    options: &InitializeOptions,
) -> Result<HybridStart, IntegrateError> {
    if let Some(of_start) = system.start_system() {
        let mut start = initialize_with_events(of_start, time, parameters, inputs, options)?;
        // Discrete variables come first among the modes.
        start.modes.truncate(system.description().n_modes);
        return Ok(start);
    }
    let events = &system.description().events;
    let mut modes = events.start_modes();
    if !events.has_layout {
        let initialized = initialize_from(system, time, parameters, inputs, &modes, options, None)?;
        return Ok(HybridStart { initialized, modes });
    }
    modes[events.initial()] = 1.0;
    let mut settler = EventLoop::new(system);
    let description = system.description();
    let mut guess: Vec<f64> = description.states.iter().map(|state| state.start).collect();
    let mut unknowns: Vec<f64> = description.unknowns.iter().map(|unknown| unknown.start).collect();
    let mut weights = vec![1.0];
    if events.has_homotopy {
        weights = vec![0.0, 0.1, 0.3, 0.6, 1.0];
    }
    let mut found: Option<Initialized> = None;
    for weight in weights {
        modes[events.homotopy()] = weight;
        let mut is_done = false;
        for round in 0..MAX_ROUNDS {
            settler.set_before(&mut modes, &guess, &unknowns, inputs);
            // Parameters that the start determines are known once it is.
            let parameters = found.as_ref().map_or(parameters, |found| &found.parameters);
            let around = Surroundings { time, parameters, inputs, modes: &modes };
            let before = settler.wanted_before(&around, &guess, &unknowns);
            let has_other_past = settler.adopt_before(&mut modes, &before);
            let around = Surroundings { time, parameters, inputs, modes: &modes };
            let wanted = settler.wanted(&around, &guess, &unknowns);
            let is_one_at_a_time = round > SIMULTANEOUS_ROUNDS;
            if round + 1 == MAX_ROUNDS {
                return Err(settler.unsettled(time, &modes, &wanted));
            }
            if is_one_at_a_time && settler.adopt(&mut modes, &wanted, Share::Switched, 0.0) {
                continue;
            }
            let share = if is_one_at_a_time { Share::FirstHeld } else { Share::All };
            let changed = settler.adopt(&mut modes, &wanted, share, 0.0) || has_other_past;
            if !changed && found.is_some() && is_done {
                settler.check_before(time, &before)?;
                settler
                    .check_wanted(time, &wanted)
                    .map_err(|error| settler.grown(time, &wanted, round).unwrap_or(error))?;
                break;
            }
            if !changed || round % 4 == 3 || round == 0 || is_one_at_a_time || found.is_some() {
                let next = initialize_from(system, time, parameters, inputs, &modes, options, found.as_ref())?;
                guess.clone_from(&next.states);
                unknowns.clone_from(&next.unknowns);
                found = Some(next);
                is_done = true;
            }
        }
    }
    modes[events.initial()] = 0.0;
    settler.remember(&mut modes);
    let Some(initialized) = found else {
        return Err(IntegrateError::Unsettled { time, names: Vec::new(), place: String::new() });
    };
    settler.set_before(&mut modes, &initialized.states, &initialized.unknowns, inputs);
    Ok(HybridStart { initialized, modes })
}

impl<'s> EventLoop<'s> {
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Self {
        let events = &system.description().events;
        let n = |part: Part| if events.has_layout { system.pattern(part).n_rows } else { 0 };
        Self {
            events,
            evaluator: system.evaluator(),
            updated: vec![0.0; n(Part::Modes)],
            actions: vec![0.0; n(Part::Actions)],
            schedule: vec![0.0; n(Part::Schedule)],
            assertions: vec![0.0; n(Part::Assertions)],
            sides: vec![false; n(Part::Roots)],
            bands: vec![0.0; n(Part::Roots)],
            is_resting: vec![false; n(Part::Roots)],
            at_event: vec![0.0; n(Part::Roots)],
            n_turns: vec![0; events.held.len()],
            roots: vec![0.0; n(Part::Roots)],
            last_ticks: vec![-1.0; events.n_clocks],
        }
    }

    /// Whether there is anything to look after.
    pub(crate) fn is_needed(&self) -> bool {
        let events = self.events;
        events.has_layout && (events.can_happen() || events.has_terminal || !events.assertions.is_empty())
    }

    /// The values that the modes want at a point, conditions that are not numbers counting as false.
    fn wanted(&mut self, around: &Surroundings<'_>, states: &[f64], unknowns: &[f64]) -> Vec<f64> {
        self.evaluator.evaluate(Part::Modes, &around.point(states, unknowns), &mut self.updated);
        self.updated.clone()
    }

    /// Gives a share of the modes their wanted values. True where something changed. Numbers stay that differ by less
    /// than `tolerance`, relative to their size.
    fn adopt(&self, modes: &mut [f64], wanted: &[f64], share: Share, tolerance: f64) -> bool {
        let n_switched = self.events.n_switched();
        let range = match share {
            Share::All => 0..wanted.len(),
            Share::Switched => 0..n_switched,
            Share::FirstHeld => n_switched..wanted.len(),
        };
        let mut has_changed = false;
        for at in range {
            let value = wanted[at];
            if modes[at] != value && value.is_finite() {
                let is_real = self.events.discrete.get(at).is_some_and(|discrete| discrete.is_real);
                if is_real && (modes[at] - value).abs() <= tolerance * value.abs() {
                    continue;
                }
                modes[at] = value;
                has_changed = true;
                if share == Share::FirstHeld {
                    break;
                }
            }
        }
        has_changed
    }

    /// The values that the discrete variables had before the start, by what is known of it.
    fn wanted_before(&mut self, around: &Surroundings<'_>, states: &[f64], unknowns: &[f64]) -> Vec<f64> {
        let mut before = vec![0.0; self.events.discrete.len()];
        self.evaluator.evaluate(Part::ModesBefore, &around.point(states, unknowns), &mut before);
        before
    }

    /// Gives the discrete variables their values before the start; true where one changed.
    fn adopt_before(&self, modes: &mut [f64], before: &[f64]) -> bool {
        let first = self.events.switched_before();
        let mut has_changed = false;
        for (mode, &value) in modes[first..].iter_mut().zip(before) {
            // While the start is searched, what follows from it need not exist.
            if value.is_finite() && *mode != value {
                // A start that is found to its tolerance only would never settle otherwise.
                has_changed |= (*mode - value).abs() > SAME_START * (mode.abs() + value.abs());
                *mode = value;
            }
        }
        has_changed
    }

    /// Refuses a value before the start that does not exist.
    fn check_before(&self, time: f64, before: &[f64]) -> Result<(), IntegrateError> {
        match before.iter().zip(&self.events.discrete).find(|(value, _)| !value.is_finite()) {
            None => Ok(()),
            Some((_, discrete)) => Err(IntegrateError::NotFinite {
                time,
                equation: discrete.before.text.clone(),
                place: discrete.before.place.clone(),
                variable: discrete.name.clone(),
                value: f64::NAN,
            }),
        }
    }

    /// Refuses values that the modes want and that do not exist or are not exact, once the others have settled: `adopt`
    /// leaves the old value in their place.
    fn check_wanted(&self, time: f64, wanted: &[f64]) -> Result<(), IntegrateError> {
        let events = self.events;
        for (discrete, &value) in events.discrete.iter().zip(wanted) {
            let variable = discrete.name.clone();
            if !value.is_finite() {
                return Err(IntegrateError::ObservedNotFinite { time, variable });
            }
            if value.abs() > discrete.largest {
                return Err(IntegrateError::IntegerOverflow { time, variable, value });
            }
        }
        let held = wanted.get(events.n_switched()..).unwrap_or_default();
        match held.iter().zip(&events.held).find(|(value, _)| !value.is_finite()) {
            None => Ok(()),
            Some((_, label)) => Err(IntegrateError::NotFinite {
                time,
                equation: label.text.clone(),
                place: label.place.clone(),
                variable: String::new(),
                value: f64::NAN,
            }),
        }
    }

    /// Discrete variables that have no value, or one that is too large, after many rounds: they determine each other,
    /// and each round led farther away.
    fn grown(&self, time: f64, wanted: &[f64], round: usize) -> Option<IntegrateError> {
        let lost = self.events.discrete.iter().zip(wanted);
        let lost = lost.filter(|(discrete, value)| !value.is_finite() || value.abs() > discrete.largest);
        let names = lost.map(|(discrete, _)| discrete.name.clone()).take(MOST_NAMED).collect();
        (round > SIMULTANEOUS_ROUNDS).then_some(IntegrateError::Unsettled { time, names, place: String::new() })
    }

    fn unsettled(&self, time: f64, modes: &[f64], wanted: &[f64]) -> IntegrateError {
        let events = self.events;
        let (mut names, mut place) = (Vec::new(), String::new());
        for (at, _) in wanted.iter().enumerate().filter(|&(at, &value)| modes[at] != value).take(MOST_NAMED) {
            let label = if at < events.discrete.len() {
                names.push(events.discrete[at].name.clone());
                continue;
            } else if at < events.n_switched() {
                &events.conditions[at - events.discrete.len()]
            } else {
                &events.held[at - events.n_switched()]
            };
            names.push(label.text.clone());
            if place.is_empty() {
                place.clone_from(&label.place);
            }
        }
        IntegrateError::Unsettled { time, names, place }
    }

    /// The present values become the values before.
    pub(crate) fn remember(&self, modes: &mut [f64]) {
        let (n, before) = (self.events.n_switched(), self.events.switched_before());
        modes.copy_within(0..n, before);
    }

    /// Sets the values before of continuous quantities.
    fn set_before(&self, modes: &mut [f64], states: &[f64], unknowns: &[f64], inputs: &[f64]) {
        let first = self.events.continuous_before();
        for (at, before) in self.events.before.iter().enumerate() {
            modes[first + at] = match *before {
                Before::State(state) => states[state as usize],
                Before::Unknown(unknown) => unknowns[unknown as usize],
                Before::Input(input) => inputs[input as usize],
            };
        }
    }

    /// Sets the values before of continuous quantities to those at hand; called before inputs or states change at an
    /// event.
    pub(crate) fn mark_before(&self, stepper: &mut Stepper<'_, '_>) {
        if self.events.has_layout {
            self.set_before(
                &mut stepper.model.modes,
                &stepper.now.states,
                &stepper.now.unknowns,
                &stepper.model.input_values,
            );
        }
    }

    /// Gives conditions of when-clauses and held values that `follows` marks, by position among the modes, what they are
    /// at the point at hand, without an event: what a condition was before is what it is. True where one changed.
    pub(crate) fn adopt_silently(&mut self, stepper: &mut Stepper<'_, '_>, follows: &[bool]) -> bool {
        if !follows.contains(&true) {
            return false;
        }
        let around = stepper.surroundings();
        let wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
        let (n_switched, before) = (self.events.n_switched(), self.events.switched_before());
        let modes = &mut stepper.model.modes;
        let mut has_changed = false;
        for (at, &value) in wanted.iter().enumerate().filter(|(at, value)| follows[*at] && value.is_finite()) {
            has_changed |= modes[at] != value;
            modes[at] = value;
            if at < n_switched {
                modes[before + at] = value;
            }
        }
        has_changed
    }

    /// Settles an event at the point at hand. The clocks that tick now are asked for; `is_end` says that this is the
    /// end. Where modes change, the rule for transfers gives the states that follow.
    pub(crate) fn settle(
        &mut self,
        stepper: &mut Stepper<'_, '_>,
        is_end: bool,
        rules: &mut Rules<'_>,
    ) -> Result<Settled, IntegrateError> {
        let mut settled = Settled::default();
        let mut origin = stepper.has_constraints().then(|| Origin {
            states: stepper.now.states.clone(),
            unknowns: stepper.now.unknowns.clone(),
            modes: stepper.model.modes.clone(),
        });
        let time = stepper.now.time;
        let first_clock = self.events.clocks();
        let ticks = self.ticks(stepper);
        let has_ticks = ticks.contains(&true);
        for (at, &ticks) in ticks.iter().enumerate() {
            stepper.model.modes[first_clock + at] = f64::from(u8::from(ticks));
        }
        let terminal = self.events.terminal();
        stepper.model.modes[terminal] = f64::from(u8::from(is_end));
        self.remember(&mut stepper.model.modes);
        let at_start = stepper.model.modes.clone();
        let mut has_passed = !has_ticks && !is_end;
        self.at_event = self.values_here(stepper).to_vec();
        self.n_turns.fill(0);
        let mut missing = vec![false; self.events.discrete.len()];
        for round in 0..=MAX_ROUNDS {
            let held_before = stepper.model.modes[self.events.n_switched()..self.events.n_updated()].to_vec();
            self.settle_relations(stepper, round, rules, origin.as_ref())?;
            let held = &stepper.model.modes[self.events.n_switched()..];
            for (n_turns, (before, held)) in self.n_turns.iter_mut().zip(held_before.iter().zip(held)) {
                *n_turns += u32::from(before != held);
            }
            for (missing, value) in missing.iter_mut().zip(&self.updated) {
                *missing |= !value.is_finite();
            }
            let has_acted = self.act(stepper, &mut settled)?;
            if has_acted {
                // From here on the states are not those before the event.
                origin = None;
            }
            let (n, before) = (self.events.n_switched(), self.events.switched_before());
            let is_same = stepper.model.modes[..n] == stepper.model.modes[before..before + n];
            self.remember(&mut stepper.model.modes);
            if is_same && !has_acted {
                if has_passed {
                    break;
                }
                // What ticks does so at the event only.
                has_passed = true;
                stepper.model.modes[first_clock..first_clock + ticks.len()].fill(0.0);
            }
            if round == MAX_ROUNDS {
                let wanted = stepper.model.modes[before..before + n].to_vec();
                return Err(self.unsettled(time, &at_start, &wanted));
            }
        }
        let n = self.events.n_updated();
        let n_switched = self.events.n_switched();
        for at in 0..n {
            if stepper.model.modes[at] != at_start[at] {
                settled.has_changed = true;
                if at >= n_switched {
                    settled.held.push((at - n_switched) as u32);
                } else {
                    settled.has_switched = true;
                }
            }
        }
        self.check_wanted(time, &self.updated)?;
        // What a when-clause gives exists in its own round only: the value before the event is no answer.
        let is_lost = |at: &usize| missing[*at] && stepper.model.modes[*at] == at_start[*at];
        if let Some(at) = (0..missing.len()).find(is_lost) {
            return Err(IntegrateError::ObservedNotFinite { time, variable: self.events.discrete[at].name.clone() });
        }
        settled.has_changed |= !settled.reinitialized.is_empty() || is_end && self.events.has_terminal;
        self.mark_sides(stepper);
        Ok(settled)
    }

    /// The inner iteration: modes and unknowns that agree with each other, values before fixed.
    fn settle_relations(
        &mut self,
        stepper: &mut Stepper<'_, '_>,
        outer_round: usize,
        rules: &mut Rules<'_>,
        origin: Option<&Origin>,
    ) -> Result<(), IntegrateError> {
        let mut is_solved = outer_round > 0;
        let mut refused = None;
        let mut loops = Loops::new(self.events, &stepper.model.modes);
        for round in 0..MAX_ROUNDS {
            let has_changed = self.follow(stepper, round, &mut loops)?;
            if !has_changed && is_solved {
                // Constraints that states which go on do not meet ask for a jump that no rule gives.
                return match (refused, origin) {
                    (Some(reason), Some(origin))
                        if have_moved(
                            &origin.states,
                            &stepper.now.states,
                            &stepper.model.equations.system.description().states,
                        ) =>
                    {
                        Err(IntegrateError::NoTransfer { time: stepper.now.time, reason })
                    }
                    _ => Ok(()),
                };
            }
            if round == COMBINATION_ROUND && self.try_combinations(stepper, &loops, rules, origin) {
                return Ok(());
            }
            if let (true, Some(origin), Some(transfer)) = (has_changed, origin, &mut rules.transfer) {
                refused = transfer_states(stepper, origin, &mut **transfer);
            }
            stepper.restart().map_err(|error| self.in_mode(error, stepper))?;
            is_solved = true;
            if has_changed && round % JOINT_ROUNDS == JOINT_ROUNDS - 1 && self.solve_together(stepper, &mut loops) {
                stepper.restart().map_err(|error| self.in_mode(error, stepper))?;
            }
        }
        Err(self.unsettled_here(stepper))
    }

    /// Discrete values follow each other with the unknowns as they are, which costs no solution of the equations. True
    /// where one changed. Where relations change one at a time, discrete variables follow those at hand before the next
    /// relation changes: what is solved for next is one mode of the model, not a mixture of several.
    fn follow(
        &mut self,
        stepper: &mut Stepper<'_, '_>,
        round: usize,
        loops: &mut Loops,
    ) -> Result<bool, IntegrateError> {
        let is_one_at_a_time = round > SIMULTANEOUS_ROUNDS;
        // A value may follow all others one after the other.
        let most = MAX_ROUNDS + self.events.n_updated();
        for inner in 0..most {
            let around = stepper.surroundings();
            let mut wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
            if round >= ROUNDING_ROUNDS {
                self.leave_undecided(stepper, &mut wanted, 0);
            } else {
                if self.is_resting.contains(&true) {
                    self.leave_resting(stepper, &mut wanted);
                }
                // The rounds begin anew where `pre` of a variable has changed, as that of an ideal diode that switches.
                if self.n_turns.iter().any(|&n_turns| n_turns >= MAX_TURNS) {
                    self.leave_undecided(stepper, &mut wanted, MAX_TURNS);
                }
            }
            self.take_borders(stepper, &mut wanted);
            loops.note(self.events, &stepper.model.modes, &wanted);
            if is_one_at_a_time {
                loops.note_turns(&stepper.model.modes, &wanted);
            }
            let share = if is_one_at_a_time { Share::Switched } else { Share::All };
            if !self.adopt(&mut stepper.model.modes, &wanted, share, loops.tolerance) {
                let turns = is_one_at_a_time && inner == 0;
                if !turns || !self.adopt(&mut stepper.model.modes, &wanted, Share::FirstHeld, loops.tolerance) {
                    return Ok(inner > 0);
                }
            }
            if inner % JOINT_INNER_ROUNDS == JOINT_INNER_ROUNDS - 1 {
                self.solve_together(stepper, loops);
            }
        }
        Err(self.unsettled_here(stepper))
    }

    /// Solves for discrete variables that determine each other, directly or through the unknowns, by Newton's method:
    ///
    /// ```text
    /// z - M(t, s, v, z) = 0,     F(t, s, v, z) = 0
    /// ```
    ///
    /// with v from the second for given z, all other modes as they are, and the derivatives by differences; a loop of
    /// assignments such as a = b + 1, b = 2 a - 5 has a solution that following one by the other never reaches. The
    /// values at hand stay where that fails.
    fn solve_together(&mut self, stepper: &mut Stepper<'_, '_>, loops: &mut Loops) -> bool {
        let moving: Vec<usize> = (0..loops.is_moving.len()).filter(|&at| loops.is_moving[at]).collect();
        let n = moving.len();
        if n == 0 || n > MAX_JOINT {
            return false;
        }
        let entries = u32::try_from(n).unwrap_or(u32::MAX);
        let pattern = Pattern {
            n_rows: n,
            n_cols: n,
            row_starts: (0..=entries).map(|row| row * entries).collect(),
            columns: (0..n).flat_map(|_| 0..entries).collect(),
        };
        let Ok(mut solver) = LinearSolver::<f64>::new(&pattern) else { return false };
        let mut modes = stepper.model.modes.clone();
        for &at in &moving {
            modes[at] = loops.first[at];
        }
        for _ in 0..MAX_JOINT_STEPS {
            let Some(mut residual) = self.loop_residual(stepper, &modes, &moving) else { return false };
            let mut matrix = vec![0.0; n * n];
            for (column, &at) in moving.iter().enumerate() {
                let distance = JOINT_DISTANCE * modes[at].abs().max(1e-3);
                let mut beside = modes.clone();
                beside[at] += distance;
                let Some(there) = self.loop_residual(stepper, &beside, &moving) else { return false };
                for row in 0..n {
                    matrix[row * n + column] = (there[row] - residual[row]) / (beside[at] - modes[at]);
                }
            }
            if solver.factor(&matrix).is_err() || solver.solve(&mut residual).is_err() {
                return false;
            }
            let mut is_close = true;
            for (&at, change) in moving.iter().zip(&residual) {
                modes[at] -= change;
                is_close &= change.abs() <= SAME_VALUE * modes[at].abs().max(f64::MIN_POSITIVE);
            }
            if !moving.iter().all(|&at| modes[at].is_finite()) {
                return false;
            }
            if is_close || residual.iter().all(|change| *change == 0.0) {
                stepper.model.modes = modes;
                loops.tolerance = 10.0 * SAME_VALUE;
                return true;
            }
        }
        false
    }

    /// z - M(t, s, v, z) for some modes z, with v solved for them; none where the equations have no solution.
    fn loop_residual(&mut self, stepper: &mut Stepper<'_, '_>, modes: &[f64], moving: &[usize]) -> Option<Vec<f64>> {
        let unknowns = stepper.unknowns_with(modes.to_vec())?;
        let around = Surroundings { modes, ..stepper.surroundings() };
        let wanted = self.wanted(&around, &stepper.now.states, &unknowns);
        moving.iter().map(|&at| Some(modes[at] - wanted[at]).filter(|value| value.is_finite())).collect()
    }

    /// Tries the combinations of the relations that keep changing, those first that differ least from what is held,
    /// until the equations agree with one. The least-index rule may go round in circles where the two sides of a
    /// relation do not mean the same quantity, as in friction, whose path is a torque at rest and an acceleration in
    /// motion.
    fn try_combinations(
        &mut self,
        stepper: &mut Stepper<'_, '_>,
        loops: &Loops,
        rules: &mut Rules<'_>,
        origin: Option<&Origin>,
    ) -> bool {
        let n_switched = self.events.n_switched();
        let turning: Vec<usize> = (n_switched..loops.is_turning.len()).filter(|&at| loops.is_turning[at]).collect();
        let (modes, now) = (stepper.model.modes.clone(), stepper.now.clone());
        let is_truth = |at: &usize| modes[*at] == 0.0 || modes[*at] == 1.0;
        if turning.is_empty() || turning.len() > MAX_COMBINED || !turning.iter().all(is_truth) {
            return false;
        }
        let mut turns: Vec<u32> = (0..1 << turning.len()).collect();
        turns.sort_by_key(|turned| turned.count_ones());
        for turned in turns {
            stepper.model.modes.clone_from(&modes);
            stepper.now.clone_from(&now);
            for (bit, &at) in turning.iter().enumerate() {
                if turned >> bit & 1 == 1 {
                    stepper.model.modes[at] = 1.0 - modes[at];
                }
            }
            if self.agrees(stepper, rules, origin) {
                return true;
            }
        }
        stepper.model.modes = modes;
        stepper.now = now;
        false
    }

    /// Whether the equations have a solution with the relations at hand that wants the same relations.
    fn agrees(&mut self, stepper: &mut Stepper<'_, '_>, rules: &mut Rules<'_>, origin: Option<&Origin>) -> bool {
        for _ in 0..MAX_ROUNDS {
            let around = stepper.surroundings();
            let wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
            if self.adopt(&mut stepper.model.modes, &wanted, Share::Switched, SAME_VALUE) {
                continue;
            }
            let mut refused = None;
            if let (Some(origin), Some(transfer)) = (origin, &mut rules.transfer) {
                refused = transfer_states(stepper, origin, &mut **transfer);
            }
            if stepper.restart().is_err() {
                return false;
            }
            let states = &stepper.model.equations.system.description().states;
            if refused.is_some() && origin.is_some_and(|o| have_moved(&o.states, &stepper.now.states, states)) {
                return false;
            }
            let around = stepper.surroundings();
            let mut wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
            self.leave_undecided(stepper, &mut wanted, 0);
            if self.adopt(&mut stepper.model.modes, &wanted, Share::Switched, SAME_VALUE) {
                continue;
            }
            let n_switched = self.events.n_switched();
            return wanted[n_switched..] == stepper.model.modes[n_switched..wanted.len()];
        }
        false
    }

    /// What keeps changing at the point at hand.
    fn unsettled_here(&mut self, stepper: &Stepper<'_, '_>) -> IntegrateError {
        let around = stepper.surroundings();
        let wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
        self.unsettled(stepper.now.time, &stepper.model.modes, &wanted)
    }

    /// Keeps relations as they are whose event functions are zero as far as anyone can tell: with continuous equations
    /// such as those of a diode with two slopes, rounding alone would turn them again and again. Only those that have
    /// changed in so many rounds of the event are looked at.
    fn leave_undecided(&mut self, stepper: &Stepper<'_, '_>, wanted: &mut [f64], n_turns: u32) {
        let noise = self.noise(stepper);
        self.values_here(stepper);
        let n_switched = self.events.n_switched();
        for ((root, value), noise) in self.events.roots.iter().zip(&self.roots).zip(&noise) {
            if value.abs() <= *noise && self.n_turns[root.held as usize] >= n_turns {
                let at = n_switched + root.held as usize;
                wanted[at] = stepper.model.modes[at];
            }
        }
    }

    /// Relations whose event functions an event has made zero, but for errors of solving equations again, have the value
    /// they have at zero: where a when-clause stores `b = x`, `x > pre(b)` is not true after it, in whatever digit `x`
    /// has changed since. A function that led to the event is as near to zero; there the side it has reached counts. It
    /// goes on counting where the event makes the function zero again: where x falls to b and the event stores `b = x`,
    /// `x >= pre(b)` has become false and stays so, since x is below b a moment later.
    fn take_borders(&mut self, stepper: &Stepper<'_, '_>, wanted: &mut [f64]) {
        let n_switched = self.events.n_switched();
        let differs = |root: &Root| {
            let at = n_switched + root.held as usize;
            wanted[at] != stepper.model.modes[at]
        };
        if !self.events.roots.iter().any(differs) {
            return;
        }
        self.values_here(stepper);
        let (noise, rounding) = (self.noise(stepper), self.rounding(stepper));
        for (at, root) in self.events.roots.iter().enumerate() {
            let value = self.roots[at];
            let held = n_switched + root.held as usize;
            if self.at_event[at].abs() <= OUTSIDE * noise[at] {
                if self.n_turns[root.held as usize] > 0 && value.abs() <= rounding[at] {
                    wanted[held] = stepper.model.modes[held];
                }
            } else if value.abs() <= noise[at]
                && root.is_above(value) != root.is_above(0.0)
                && matches!(wanted[held], 0.0 | 1.0)
            {
                wanted[held] = 1.0 - wanted[held];
            }
        }
    }

    /// Keeps relations as they are whose event functions rest at zero, whichever side rounding puts them on.
    fn leave_resting(&mut self, stepper: &Stepper<'_, '_>, wanted: &mut [f64]) {
        self.values_here(stepper);
        let n_switched = self.events.n_switched();
        for (at, root) in self.events.roots.iter().enumerate() {
            if self.is_resting[at] && self.roots[at].abs() <= self.bands[at] {
                let held = n_switched + root.held as usize;
                wanted[held] = stepper.model.modes[held];
            }
        }
    }

    /// A failure to solve the equations, with the modes it happened in.
    fn in_mode(&self, error: IntegrateError, stepper: &Stepper<'_, '_>) -> IntegrateError {
        let IntegrateError::Singular { time, variable } = error else { return error };
        let (events, n_switched) = (self.events, self.events.n_switched());
        let relations: Vec<String> = (0..events.held.len())
            .take(6)
            .map(|at| {
                let (text, value) = (&events.held[at].text, stepper.model.modes[n_switched + at]);
                match value {
                    0.0 => format!("not ({text})"),
                    1.0 => text.clone(),
                    value => format!("{text} = {value}"),
                }
            })
            .collect();
        let place = events.held.first().map_or(String::new(), |label| label.place.clone());
        IntegrateError::SingularMode { time, variable, relations: relations.join(", "), place }
    }

    /// What when-clauses do beside assigning. True where a state got a new value.
    fn act(&mut self, stepper: &mut Stepper<'_, '_>, settled: &mut Settled) -> Result<bool, IntegrateError> {
        if self.events.actions.is_empty() {
            return Ok(false);
        }
        let time = stepper.now.time;
        let around = stepper.surroundings();
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        self.evaluator.evaluate(Part::Actions, &point, &mut self.actions);
        let mut given: Vec<(usize, f64)> = Vec::new();
        let mut reinit = Reinit::default();
        for (at, action) in self.events.actions.iter().enumerate() {
            let (acts, value) = (self.actions[2 * at], self.actions[2 * at + 1]);
            if acts != 1.0 {
                continue;
            }
            match &action.kind {
                ActionKind::Reinit { state, sign } => {
                    if !value.is_finite() {
                        return Err(IntegrateError::NotFinite {
                            time,
                            equation: action.label.text.clone(),
                            place: action.label.place.clone(),
                            variable: String::new(),
                            value,
                        });
                    }
                    let (state, value) = (*state as usize, sign * value);
                    let weight = stepper.model.state_weights[state];
                    let is_other = |known: &&(usize, f64)| known.0 == state && (known.1 - value).abs() > weight;
                    if let Some(&(_, first)) = given.iter().find(is_other) {
                        let description = stepper.model.equations.system.description();
                        return Err(IntegrateError::ContradictingReinit {
                            time,
                            variable: description.states[state].name.clone(),
                            values: [first, value],
                            place: action.label.place.clone(),
                        });
                    }
                    given.push((state, value));
                    reinit.actions.push(at);
                }
                ActionKind::Assert { message, is_warning } => {
                    if value == 1.0 {
                        continue;
                    }
                    if *is_warning {
                        settled.warnings.push(at);
                    } else {
                        return Err(IntegrateError::Assertion {
                            time,
                            message: message.clone(),
                            place: action.label.place.clone(),
                        });
                    }
                }
                ActionKind::Terminate { .. } => settled.terminated_by = settled.terminated_by.or(Some(at)),
            }
        }
        if given.is_empty() {
            return Ok(false);
        }
        reinit.states.clone_from(&stepper.now.states);
        reinit.unknowns.clone_from(&stepper.now.unknowns);
        reinit.modes.clone_from(&stepper.model.modes);
        for &(state, value) in &given {
            stepper.now.states[state] = value;
            settled.reinitialized.push(state as u32);
        }
        let states: Vec<usize> = given.iter().map(|&(state, _)| state).collect();
        let KeptStates { kept, displaced } =
            stepper.restart_keeping(&states).map_err(|error| self.in_mode(error, stepper))?;
        (reinit.kept, reinit.displaced) = (kept, displaced);
        settled.reinits.push(reinit);
        Ok(true)
    }

    /// Notes on which side each event function is now.
    pub(crate) fn mark_sides(&mut self, stepper: &Stepper<'_, '_>) {
        let around = stepper.surroundings();
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        self.evaluator.evaluate(Part::Roots, &point, &mut self.roots);
        for (at, (side, root)) in self.sides.iter_mut().zip(&self.events.roots).enumerate() {
            let value = self.roots[at];
            if !(self.is_resting[at] && value.abs() <= self.bands[at]) {
                *side = root.is_above(value);
            }
        }
    }

    /// Whether relations at the point at hand differ from what is held though their event functions seem to be on the
    /// side they were: at an event a function may be zero but for rounding, on either side. Such functions count as on
    /// the side of what is held.
    pub(crate) fn contradict(&mut self, stepper: &Stepper<'_, '_>) -> bool {
        let around = stepper.surroundings();
        let wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
        let first = self.events.n_switched();
        let is_contradicted = |root: &Root| {
            let at = first + root.held as usize;
            wanted[at].is_finite() && wanted[at] != stepper.model.modes[at]
        };
        if !self.events.roots.iter().any(is_contradicted) {
            return false;
        }
        self.values_here(stepper);
        let noise = self.noise(stepper);
        let mut is_any_turned = false;
        for (at, root) in self.events.roots.iter().enumerate() {
            let is_above = root.is_above(self.roots[at]);
            if is_contradicted(root) && self.sides[at] == is_above && self.roots[at].abs() > noise[at] {
                self.sides[at] = !is_above;
                is_any_turned = true;
            }
        }
        is_any_turned
    }

    /// The event functions at the point at hand.
    pub(crate) fn values_here(&mut self, stepper: &Stepper<'_, '_>) -> &[f64] {
        let around = stepper.surroundings();
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        self.evaluator.evaluate(Part::Roots, &point, &mut self.roots);
        &self.roots
    }

    /// Sharpens event functions that have left their bands, by the values last looked at.
    pub(crate) fn sharpen(&mut self) {
        for ((band, is_resting), value) in self.bands.iter_mut().zip(&mut self.is_resting).zip(&self.roots) {
            if value.abs() > OUTSIDE * *band {
                *band = 0.0;
                *is_resting = false;
            }
        }
    }

    /// The modes with the relation of an event function turned over; None if its value is not a truth.
    pub(crate) fn turned(&self, root: usize, modes: &[f64]) -> Option<Vec<f64>> {
        let at = self.events.n_switched() + self.events.roots[root].held as usize;
        let mut turned = modes.to_vec();
        turned[at] = match modes[at] {
            0.0 => 1.0,
            1.0 => 0.0,
            _ => return None,
        };
        Some(turned)
    }

    /// The modes with the relation of an event function turned over at the point at hand, and discrete variables
    /// following it; None where that does not settle or the condition of a when-clause would change.
    pub(crate) fn turned_over(&mut self, root: usize, stepper: &Stepper<'_, '_>) -> Option<Vec<f64>> {
        let mut turned = self.turned(root, &stepper.model.modes)?;
        let n = self.events.discrete.len();
        for _ in 0..=n {
            let around = Surroundings { modes: &turned, ..stepper.surroundings() };
            let wanted = self.wanted(&around, &stepper.now.states, &stepper.now.unknowns);
            if wanted[n..self.events.n_switched()] != turned[n..self.events.n_switched()] {
                return None;
            }
            if wanted[..n] == turned[..n] {
                return Some(turned);
            }
            turned[..n].copy_from_slice(&wanted[..n]);
        }
        None
    }

    /// Whether the rates at the point at hand, discrete variables or conditions of when-clauses depend on the relation
    /// of an event function.
    pub(crate) fn makes_difference(&mut self, root: usize, stepper: &mut Stepper<'_, '_>) -> bool {
        let Some(turned) = self.turned(root, &stepper.model.modes) else { return true };
        let (states, unknowns) = (&stepper.now.states, &stepper.now.unknowns);
        let here = stepper.surroundings();
        let there = Surroundings { modes: &turned, ..here };
        let n_switched = self.events.n_switched();
        if self.wanted(&here, states, unknowns)[..n_switched] != self.wanted(&there, states, unknowns)[..n_switched] {
            return true;
        }
        stepper.rates_with(turned).is_none_or(|rates| stepper.have_changed(&rates))
    }

    /// How far event functions may be off where states and unknowns are, by their tolerances.
    pub(crate) fn noise(&mut self, stepper: &Stepper<'_, '_>) -> Vec<f64> {
        let (states, unknowns) = (&stepper.model.state_weights, &stepper.model.unknown_weights);
        self.spread(stepper, |part, column| {
            NOISE * if part == Part::RootsByStates { states[column] } else { unknowns[column] }
        })
    }

    /// How far event functions may be off by the rounding of states and unknowns alone.
    pub(crate) fn rounding(&mut self, stepper: &Stepper<'_, '_>) -> Vec<f64> {
        let (states, unknowns) = (&stepper.now.states, &stepper.now.unknowns);
        self.spread(stepper, |part, column| {
            ROUNDING * if part == Part::RootsByStates { states[column] } else { unknowns[column] }.abs()
        })
    }

    /// How far event functions change at most where each state and unknown, by part and column, changes by so much.
    fn spread(&mut self, stepper: &Stepper<'_, '_>, change: impl Fn(Part, usize) -> f64) -> Vec<f64> {
        let system = stepper.model.equations.system;
        let around = stepper.surroundings();
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        let mut spread = vec![0.0; self.sides.len()];
        for part in [Part::RootsByStates, Part::RootsByUnknowns] {
            let pattern = system.pattern(part);
            let mut values = vec![0.0; pattern.n_entries()];
            self.evaluator.evaluate(part, &point, &mut values);
            for (row, spread) in spread.iter_mut().enumerate() {
                for entry in pattern.row(row) {
                    *spread += values[entry].abs() * change(part, pattern.columns[entry] as usize);
                }
            }
        }
        spread
    }

    fn evaluate_schedule(&mut self, stepper: &Stepper<'_, '_>) {
        let around = stepper.surroundings();
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        self.evaluator.evaluate(Part::Schedule, &point, &mut self.schedule);
    }

    /// The next time at which something is scheduled, later than now; what changes with time alone is searched up to
    /// `until`.
    pub(crate) fn next_scheduled(&mut self, stepper: &Stepper<'_, '_>, until: f64) -> f64 {
        let time = stepper.now.time;
        let resolution = SAME_TIME * (2.0 * time.abs());
        let around = Surroundings { time: time + resolution, ..stepper.surroundings() };
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        let mut next = stepper.model.equations.system.next_switch(&point, until);
        if self.schedule.is_empty() {
            return next;
        }
        self.evaluate_schedule(stepper);
        let n = self.events.scheduled.len();
        let is_later = |candidate: f64| candidate - time > SAME_TIME * (time.abs() + candidate.abs());
        for &candidate in self.schedule[..n].iter().filter(|candidate| is_later(**candidate)) {
            next = next.min(candidate);
        }
        for (clock, &last) in self.schedule[n..].chunks_exact(2).zip(&self.last_ticks) {
            let clock = Clock { start: clock[0], interval: clock[1] };
            next = next.min(clock.tick(clock.number_after(time, last)));
        }
        next
    }

    /// Whether something happens at the end of a stretch, to rounding, where `scheduled` comes next: that, or a tick.
    /// Rounding of ticks is that of their intervals ([`Clock::meets`]): a record whose times were written with ten digits
    /// ends at a tick all the same.
    pub(crate) fn is_due(&self, scheduled: f64, end: f64) -> bool {
        let is_here = scheduled.is_finite() && scheduled - end <= SAME_TIME * (end.abs() + scheduled.abs());
        let clocks = self.schedule.get(self.events.scheduled.len()..).unwrap_or_default().chunks_exact(2);
        let mut clocks = clocks.map(|clock| Clock { start: clock[0], interval: clock[1] }).zip(&self.last_ticks);
        is_here
            || clocks.any(|(clock, &last)| {
                let number = clock.number_near(end);
                number > last && clock.meets(end, number)
            })
    }

    /// Refuses clocks that tick more often until `stop` than there may be steps.
    pub(crate) fn check_clocks(
        &mut self,
        stepper: &Stepper<'_, '_>,
        stop: f64,
        limit: usize,
    ) -> Result<(), IntegrateError> {
        if self.events.n_clocks == 0 {
            return Ok(());
        }
        self.evaluate_schedule(stepper);
        let clocks = self.schedule[self.events.scheduled.len()..].chunks_exact(2);
        for clock in clocks.map(|clock| Clock { start: clock[0], interval: clock[1] }) {
            let n_ticks = (stop - clock.start.max(stepper.now.time)) / clock.interval;
            if n_ticks > limit as f64 {
                return Err(IntegrateError::TooManyTicks { interval: clock.interval, n_ticks, limit });
            }
        }
        Ok(())
    }

    /// Which clocks tick now. A tick is met by the first event within rounding of it, before or after, and by no other.
    fn ticks(&mut self, stepper: &Stepper<'_, '_>) -> Vec<bool> {
        if self.events.n_clocks == 0 {
            return Vec::new();
        }
        self.evaluate_schedule(stepper);
        let time = stepper.now.time;
        let clocks = self.schedule[self.events.scheduled.len()..].chunks_exact(2);
        clocks
            .zip(&mut self.last_ticks)
            .map(|(clock, last)| {
                let clock = Clock { start: clock[0], interval: clock[1] };
                let number = clock.number_near(time);
                let ticks = number > *last && clock.meets(time, number);
                if ticks {
                    *last = number;
                }
                ticks
            })
            .collect()
    }

    /// The number of the last tick of each clock.
    pub(crate) fn last_ticks(&self) -> &[f64] {
        &self.last_ticks
    }

    /// Goes on from these ticks.
    pub(crate) fn set_last_ticks(&mut self, ticks: &[f64]) {
        self.last_ticks.clone_from_slice(ticks);
    }

    /// Goes on with the clocks of another loop of the same model.
    pub(crate) fn take_clocks(&mut self, other: &EventLoop<'_>) {
        self.last_ticks.clone_from(&other.last_ticks);
    }

    /// The first assertion that does not hold at the point at hand, and those that only warn.
    pub(crate) fn broken_assertions(&mut self, stepper: &Stepper<'_, '_>, warned: &mut Vec<usize>) -> Option<usize> {
        let around = stepper.surroundings();
        let point = around.point(&stepper.now.states, &stepper.now.unknowns);
        self.evaluator.evaluate(Part::Assertions, &point, &mut self.assertions);
        let mut broken = None;
        for (at, assertion) in self.events.assertions.iter().enumerate() {
            if self.assertions[at] != 0.0 {
                continue;
            }
            if assertion.is_warning {
                warned.push(at);
            } else {
                broken = broken.or(Some(at));
            }
        }
        broken
    }

    /// An assertion that does not hold as an error.
    pub(crate) fn assertion_error(&self, time: f64, assertion: usize) -> IntegrateError {
        let assertion = &self.events.assertions[assertion];
        IntegrateError::Assertion { time, message: assertion.message.clone(), place: assertion.label.place.clone() }
    }
}
