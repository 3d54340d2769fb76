//! The run on a surface that both sides of a relation lead to, until it is left (module `sliding`).

use daesy_system::{DaeSystem, Part};

use super::{Course, Inputs, Pace, Run, SimulateOptions, Simulation, Slide, StateEvent};
use crate::chatter::History;
use crate::error::IntegrateError;
use crate::event_iteration::{EventLoop, Settled};
use crate::initialize::Initialized;
use crate::root::Crossing as RootCrossing;
use crate::simulate::Rules;
use crate::sliding::{Approach, ModeOfSides, SlidingSystem};
use crate::stepper::Stepper;

/// What the weight of a side may be beyond 0 and 1 before the surface is left, at most: enough for the other side to
/// lead away for certain.
const SLACK: f64 = 1e-7;

/// Constraints of both sides that differ by more than this, relative to their size, are not mixed.
const SAME_CONSTRAINT: f64 = 1e-9;

/// Derivatives of event functions that differ by less than this, relative to the largest of them, are multiples.
const SAME_BORDER: f64 = 1e-9;

/// Unknowns that differ by less than this, relative to their size, are those of the same mode.
const SAME_SIDE: f64 = 1e-9;

/// The relative tolerance that margins of event functions of units are compared with, where the one at hand is smaller.
const USUAL_RTOL: f64 = 1e-6;

/// A surface to slide along.
pub(crate) struct Surface {
    root: usize,
    weight: f64,
    is_true_above: bool,
    /// What differs between both sides.
    sides: Vec<ModeOfSides>,
    partners: Vec<Partner>,
    /// Whether the event function is above zero on both sides: a model that runs elsewhere has another one on each.
    is_above_on_both: bool,
}

/// A relation that changes where another one does.
struct Partner {
    root: usize,
    /// Its position among the modes.
    mode: usize,
    /// Whether it holds where the other does not.
    is_opposite: bool,
    /// Whether it is true where its event function is above zero.
    is_true_above: bool,
}

impl Partner {
    /// Whether it holds where the other relation does, or does not.
    const fn holds(&self, is_true: bool) -> bool {
        is_true != self.is_opposite
    }
}

/// A crossing that changed no state.
pub(crate) struct Turn {
    root: usize,
    modes_before: Vec<f64>,
}

impl Surface {
    /// The system on the surface.
    pub(crate) fn system<'b>(&self, base: &'b dyn DaeSystem, rtol: f64) -> SlidingSystem<'b> {
        let partners = self.partners.iter().map(|partner| partner.root).collect();
        SlidingSystem::new(base, self.root, partners, self.sides.clone(), SLACK.min(0.1 * rtol))
    }

    /// Where a stepper of the base is, on the surface; none where no mixture of both sides stays on it.
    pub(crate) fn stepper<'b, 'i>(
        &self,
        sliding: &'b SlidingSystem<'b>,
        base: &Stepper<'_, '_>,
        inputs: &'i dyn Inputs,
        options: &'i SimulateOptions,
        is_recording: bool,
    ) -> Option<Stepper<'b, 'i>> {
        let now = &base.now;
        let mut unknowns = now.unknowns.clone();
        unknowns.push(self.weight);
        let parameters = base.model.parameters.clone();
        let start = Initialized { states: now.states.clone(), unknowns, parameters, iterations: 0, residual: 0.0 };
        let (values, modes) = (base.model.input_values.clone(), base.model.modes.clone());
        let mut stepper = Stepper::new(sliding, inputs, options, now.time, &start, values, modes).ok()?;
        if is_recording {
            stepper.record_stages().ok()?;
        }
        stepper.restart().ok()?;
        sliding.is_inside(weight_of(&stepper)).then_some(stepper)
    }

    /// Whether the modes are those that the two sides were told by: after another event of a model that runs elsewhere,
    /// others are the two sides.
    pub(crate) fn has_its_modes(&self, switched: &[f64], stepper: &Stepper<'_, '_>) -> bool {
        !self.is_above_on_both || stepper.model.modes[..switched.len()] == *switched
    }

    /// Takes a stepper of the base to where the solution left the surface, on the side it left to.
    /// [`Surface::go_on_beside`] follows, if anything does.
    pub(crate) fn leave(
        &self,
        sliding: &SlidingSystem<'_>,
        slid: &Stepper<'_, '_>,
        has_its_modes: bool,
        stepper: &mut Stepper<'_, '_>,
        events: &EventLoop<'_>,
    ) {
        stepper.absorb(slid);
        if has_its_modes {
            sliding.take_side(weight_of(slid) >= 0.5, &mut stepper.model.modes);
        }
        events.remember(&mut stepper.model.modes);
    }

    /// Goes on from the surface after it was left with a weight. Its event functions count as crossed only when they
    /// are away from zero for certain.
    pub(crate) fn go_on_beside(
        &self,
        weight: f64,
        stepper: &mut Stepper<'_, '_>,
        events: &mut EventLoop<'_>,
    ) -> Result<(), IntegrateError> {
        let is_true = weight >= 0.5;
        stepper.restart()?;
        events.mark_sides(stepper);
        let noise = events.noise(stepper);
        events.sides[self.root] = self.is_above_on_both || is_true == self.is_true_above;
        events.bands[self.root] = noise[self.root];
        for partner in &self.partners {
            events.sides[partner.root] = partner.holds(is_true) == partner.is_true_above;
            events.bands[partner.root] = noise[partner.root];
        }
        Ok(())
    }

    /// What is told of an interval on the surface.
    pub(crate) fn told(&self, from: f64, until: f64, events: &EventLoop<'_>) -> (u32, Slide) {
        let held = events.events.roots[self.root].held;
        let label = events.events.held[held as usize].clone();
        (held, Slide { from, until, relation: label.text, place: label.place })
    }
}

impl<'s, 'i> Run<'s, 'i> {
    pub(super) fn borders(&mut self) -> Borders<'_, 's, 'i> {
        Borders { stepper: &mut self.stepper, events: &mut self.events, n_true_roots: self.n_true_roots }
    }
}

impl Run<'_, '_> {
    /// Slides along the surface of a relation that has just changed, if both sides lead to it. None if they do not, or
    /// where no mixture of both stays on it.
    pub(super) fn slide(
        &mut self,
        crossing: &RootCrossing,
        settled: &Settled,
        modes_before: &[f64],
        before: &[f64],
        simulation: &mut Simulation,
    ) -> Result<Option<Course>, IntegrateError> {
        // What slides is a system of its own, whose past nobody writes.
        if !self.pasts.is_empty() || !settled.reinitialized.is_empty() || settled.terminated_by.is_some() {
            return Ok(None);
        }
        for &root in &crossing.roots {
            if let Some(surface) = self.borders().surface(root, settled, modes_before)
                && let Some(course) = self.slide_along(&surface, settled, before, simulation)?
            {
                return Ok(Some(course));
            }
        }
        Ok(None)
    }

    pub(super) fn slide_along(
        &mut self,
        surface: &Surface,
        settled: &Settled,
        before: &[f64],
        simulation: &mut Simulation,
    ) -> Result<Option<Course>, IntegrateError> {
        let system = self.stepper.model.equations.system;
        let sliding = surface.system(system, self.options.rtol);
        let from = self.stepper.now.time;
        let Some(mut stepper) = surface.stepper(&sliding, &self.stepper, self.inputs, self.options, false) else {
            return Ok(None);
        };
        let after = stepper.observe_here();
        let row = self.write_jump(simulation, before.to_vec(), after, false)?;
        let held = settled.held.clone();
        simulation.events.push(StateEvent { time: from, is_scheduled: false, row, held, reinitialized: Vec::new() });
        let mut events = EventLoop::new(&sliding);
        events.mark_sides(&stepper);
        events.take_clocks(&self.events);
        let n_roots = sliding.exits().end;
        let mut run = Run {
            inputs: self.inputs,
            rules: Rules::default(),
            options: self.options,
            stepper,
            next_output: self.next_output,
            events,
            has_events: true,
            history: History::new(n_roots, self.options.stop - self.options.start),
            has_warned: std::mem::take(&mut self.has_warned),
            n_told: self.n_told,
            end: self.end,
            n_true_roots: self.n_true_roots,
            observed_before: None,
            pasts: Vec::new(),
            pace: Pace::new(from),
            turn: None,
        };
        let mut course = Course::Continues;
        let n_switched = run.events.events.n_switched();
        let switched = run.stepper.model.modes[..n_switched].to_vec();
        let mut has_its_modes = true;
        while run.stepper.now.time < self.end && sliding.is_inside(weight_of(&run.stepper)) && has_its_modes {
            course = run.run_to(self.end, simulation)?;
            if course != Course::Continues {
                break;
            }
            has_its_modes = surface.has_its_modes(&switched, &run.stepper);
        }
        let before = run.stepper.observe_here();
        self.next_output = run.next_output;
        self.has_warned = std::mem::take(&mut run.has_warned);
        self.n_told = run.n_told;
        let weight = weight_of(&run.stepper);
        self.events.take_clocks(&run.events);
        surface.leave(&sliding, &run.stepper, has_its_modes, &mut self.stepper, &self.events);
        let until = self.stepper.now.time;
        let (held, slide) = surface.told(from, until, &self.events);
        simulation.slides.push(slide);
        if course == Course::Ends {
            return Ok(Some(Course::Ends));
        }
        surface.go_on_beside(weight, &mut self.stepper, &mut self.events)?;
        if until >= self.end {
            // What follows is up to the break of the inputs.
            self.observed_before = Some(before);
            return Ok(Some(Course::Continues));
        }
        let after = self.stepper.observe_here();
        let row = self.write_jump(simulation, before, after, false)?;
        simulation.events.push(StateEvent {
            time: until,
            is_scheduled: false,
            row,
            held: vec![held],
            reinitialized: Vec::new(),
        });
        // A surface around this one may be left too.
        Ok(Some(course))
    }
}

/// Who looks for surfaces at the point reached.
pub(crate) struct Borders<'a, 's, 'i> {
    pub(crate) stepper: &'a mut Stepper<'s, 'i>,
    pub(crate) events: &'a mut EventLoop<'s>,
    /// Event functions of the model itself.
    pub(crate) n_true_roots: usize,
}

impl Borders<'_, '_, '_> {
    /// The surface of an event function, where both sides lead to it. What the event has switched must be what follows
    /// from the relation, so that turning it over leads back to the modes before the event: a variable with a memory, or
    /// a when-clause, has no two sides.
    pub(crate) fn surface(&mut self, root: usize, settled: &Settled, modes_before: &[f64]) -> Option<Surface> {
        let held = self.events.events.roots.get(root)?.held;
        if root >= self.n_true_roots || !settled.held.contains(&held) {
            return None;
        }
        let mode = self.events.events.n_switched() + held as usize;
        let own = self.stepper.model.modes.clone();
        let mut turned = self.events.turned_over(root, self.stepper)?;
        let n_switched = self.events.events.n_switched();
        if turned[..n_switched] != modes_before[..n_switched] {
            return None;
        }
        let is_true = own[mode] == 1.0;
        let is_true_above = is_true == self.events.sides[root];
        let partners = self.partners(root, is_true_above);
        let mut here = own.clone();
        for partner in &partners {
            here[partner.mode] = f64::from(u8::from(partner.holds(is_true)));
            turned[partner.mode] = f64::from(u8::from(partner.holds(!is_true)));
        }
        let other = self.stepper.unknowns_with(turned.clone())?;
        let mut place = self.stepper.place_here();
        if here != own {
            place.unknowns = self.stepper.unknowns_with(here.clone())?;
        }
        self.stepper.model.modes.clone_from(&here);
        let rate_here = self.stepper.evaluate_at(Part::RootRates, &place)[root];
        let constraints_here = self.stepper.evaluate_at(Part::Constraint, &place);
        let value_here = self.stepper.evaluate_at(Part::Roots, &place)[root];
        let noise = self.events.noise(self.stepper)[root];
        place.unknowns = other;
        self.stepper.model.modes.clone_from(&turned);
        let rate_there = self.stepper.evaluate_at(Part::RootRates, &place)[root];
        let constraints_there = self.stepper.evaluate_at(Part::Constraint, &place);
        let value_there = self.stepper.evaluate_at(Part::Roots, &place)[root];
        self.stepper.model.modes = own;
        // A relation that moves its own border is a hysteresis, or contradicts itself.
        let is_border = |value: f64| value.abs() <= noise;
        if !is_border(value_here) || !is_border(value_there) {
            return None;
        }
        let are_same = constraints_here
            .iter()
            .zip(&constraints_there)
            .all(|(here, there)| (here - there).abs() <= SAME_CONSTRAINT * here.abs().max(there.abs()).max(1.0));
        if !are_same {
            return None;
        }
        let (rate_false, rate_true) = if is_true { (rate_there, rate_here) } else { (rate_here, rate_there) };
        let weight = Approach { rate_false, rate_true, is_true_above }.weight()?;
        let (when_false, when_true) = if is_true { (&turned, &here) } else { (&here, &turned) };
        let differ = |&mode: &usize| when_false[mode] != when_true[mode];
        let sides = (0..here.len())
            .filter(differ)
            .map(|mode| ModeOfSides { mode, when_false: when_false[mode], when_true: when_true[mode] })
            .collect();
        Some(Surface { root, weight, is_true_above, sides, partners, is_above_on_both: false })
    }

    /// The border of an event function of a model that runs elsewhere. Nothing is known of its relations but what it
    /// does: where it is the same after two crossings in a row as before them, it has no memory of them, and the modes
    /// before and after the last one are the two sides of the border.
    pub(crate) fn elsewhere(
        &mut self,
        turn: &mut Option<Turn>,
        roots: &[usize],
        settled: &Settled,
        modes_before: Vec<f64>,
        states_before: &[f64],
    ) -> Option<Surface> {
        let last = turn.take();
        let &[root] = roots else { return None };
        let is_still = settled.terminated_by.is_none() && self.stepper.now.states == states_before;
        if !self.stepper.model.equations.system.is_elsewhere() || !is_still || root >= self.n_true_roots {
            return None;
        }
        let surface = match last {
            Some(last) if last.root == root => self.surface_elsewhere(root, &last.modes_before, &modes_before),
            _ => None,
        };
        *turn = Some(Turn { root, modes_before });
        surface
    }

    /// The border between the modes at hand and others, where those `earlier` are the same as those at hand and both
    /// sides lead to it. The event function is that of the modes at hand: below zero the others hold.
    fn surface_elsewhere(&mut self, root: usize, earlier: &[f64], others: &[f64]) -> Option<Surface> {
        let own = self.stepper.model.modes.clone();
        let (n, first) = (self.events.events.n_switched(), self.events.events.switched_before());
        let taken = |modes: &[f64]| {
            let mut all = own.clone();
            all[..n].copy_from_slice(&modes[..n]);
            all[first..first + n].copy_from_slice(&modes[first..first + n]);
            all
        };
        let others = taken(others);
        let here = self.stepper.unknowns_with(own.clone())?;
        let was = self.stepper.unknowns_with(taken(earlier))?;
        let mut place = self.stepper.place_here();
        place.unknowns.clone_from(&was);
        self.stepper.model.modes = taken(earlier);
        let seen_before = self.stepper.observe(&place);
        self.stepper.model.modes.clone_from(&own);
        place.unknowns.clone_from(&here);
        let seen_here = self.stepper.observe(&place);
        let is_same = |(here, was): (&f64, &f64)| (here - was).abs() <= SAME_SIDE * here.abs().max(was.abs());
        let are_same = |here: &[f64], was: &[f64]| here.iter().zip(was).all(is_same);
        if !are_same(&here, &was) || !are_same(&seen_here, &seen_before) {
            return None;
        }
        let there = self.stepper.unknowns_with(others.clone())?;
        let noise = self.events.noise(self.stepper);
        let rate_true = self.stepper.evaluate_at(Part::RootRates, &place)[root];
        let values = self.stepper.evaluate_at(Part::Roots, &place);
        place.unknowns = there;
        let rate_false = self.stepper.evaluate_at(Part::RootRates, &place)[root];
        // Where two relations are at their borders, an event may have turned both. The margin with which a unit tells its
        // crossings is its own, whatever the tolerance is here.
        let margin = (USUAL_RTOL / self.stepper.model.rtol).max(1.0);
        let is_at_border = |&other: &usize| values[other].abs() <= margin * noise[other];
        if !(0..self.n_true_roots).filter(is_at_border).eq([root]) {
            return None;
        }
        let weight = Approach { rate_false, rate_true, is_true_above: true }.weight()?;
        let differ = (0..own.len()).filter(|&mode| own[mode] != others[mode]);
        let side = |mode: usize| ModeOfSides { mode, when_false: others[mode], when_true: own[mode] };
        let sides = differ.map(side).collect();
        Some(Surface { root, weight, is_true_above: true, sides, partners: Vec::new(), is_above_on_both: true })
    }

    /// The relations whose event functions are multiples of that of a relation, at the point reached: they are zero
    /// there too, and their derivatives by the states are multiples.
    fn partners(&mut self, root: usize, is_true_above: bool) -> Vec<Partner> {
        let place = self.stepper.place_here();
        let pattern = self.stepper.model.equations.system.pattern(Part::RootsByStates);
        let mut slopes = vec![0.0; pattern.n_entries()];
        self.stepper.evaluate_into(Part::RootsByStates, &place, &mut slopes);
        let gradient = |root: usize| -> Vec<(u32, f64)> {
            let entries = pattern.row(root).map(|entry| (pattern.columns[entry], slopes[entry]));
            entries.filter(|(_, slope)| *slope != 0.0).collect()
        };
        let own = gradient(root);
        let Some(&(column, largest)) = own.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) else {
            return Vec::new();
        };
        let values = self.stepper.evaluate_at(Part::Roots, &place);
        let noise = self.events.noise(self.stepper);
        let events = &self.events.events;
        let held = events.roots[root].held;
        let mut partners = Vec::new();
        for other in (0..self.n_true_roots.min(events.roots.len())).filter(|&other| events.roots[other].held != held) {
            let mode = events.n_switched() + events.roots[other].held as usize;
            let is_true = match self.stepper.model.modes.get(mode) {
                Some(&value) if value == 0.0 || value == 1.0 => value == 1.0,
                _ => continue,
            };
            let theirs = gradient(other);
            let Some(&(_, slope)) = theirs.iter().find(|(one, _)| *one == column) else { continue };
            let factor = slope / largest;
            let is_multiple = theirs.len() == own.len()
                && theirs.iter().zip(&own).all(|((a, theirs), (b, own))| {
                    a == b && (theirs - factor * own).abs() <= SAME_BORDER * slope.abs()
                });
            if !is_multiple || values[other].abs() > noise[other] {
                continue;
            }
            let is_theirs_true_above = is_true == self.events.sides[other];
            // Where the relation is true, their event function is above zero, or below.
            let is_above = (factor > 0.0) == is_true_above;
            let is_opposite = is_above != is_theirs_true_above;
            partners.push(Partner { root: other, mode, is_opposite, is_true_above: is_theirs_true_above });
        }
        partners
    }
}

/// The weight of the side where the relation is true: the last unknown.
pub(crate) fn weight_of(stepper: &Stepper<'_, '_>) -> f64 {
    stepper.now.unknowns.last().copied().unwrap_or(f64::NAN)
}
