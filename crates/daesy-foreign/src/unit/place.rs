//! Instances in worker processes, brought to the point at which they are asked.

use std::sync::atomic::Ordering;

use daesy_graph::foreign::ForeignFailure;

use super::{
    DIFFERENTIATING, FRESH, MOST_SLOTS, MOST_TWINS, Mode, Point, RESTORING, Residence, SAVING, Slot, Unit, Worker,
    garbled, lock,
};
use crate::error::ForeignError;
use crate::message::{Answer, Frame, verb};
use crate::process::{Answering, Process};
use crate::worker::Inside;

impl Unit {
    /// An idle worker, best one that has an instance with the parameters and the mode; else a new one.
    pub(super) fn worker(&self, point: &Point<'_>) -> Result<Worker, ForeignError> {
        let mut idle = lock(&self.idle);
        let fits = |worker: &Worker| {
            let same = |slot: &Slot| slot.parameters == point.parameters && slot.mode == point.mode;
            worker.slots.iter().any(same)
        };
        let at = idle.iter().position(fits).or_else(|| idle.len().checked_sub(1));
        if let Some(at) = at {
            return Ok(idle.swap_remove(at));
        }
        drop(idle);
        let mut process: Box<dyn Answering> = match self.residence {
            Residence::Apart => Box::new(Process::start()?),
            Residence::Inside => Box::new(Inside::default()),
        };
        match process.ask(&self.opening.frame(), "loading its library", &String::new)? {
            Answer::Error(error) => Err(error),
            _ => Ok(Worker { process, slots: Vec::new(), clock: 0 }),
        }
    }

    /// Asks a worker about an instance at the parameters and the mode of a point. The request gets the number of the
    /// instance.
    pub(super) fn at<T>(
        &self,
        point: &Point<'_>,
        mut ask: impl FnMut(&Self, &mut Worker, usize) -> Result<T, ForeignError>,
    ) -> Result<T, ForeignFailure> {
        {
            let trouble = lock(&self.trouble);
            if trouble.is_final
                && let Some(last) = &trouble.last
            {
                return Err(last.clone());
            }
        }
        let run = |ask: &mut dyn FnMut(&Self, &mut Worker, usize) -> Result<T, ForeignError>| {
            let mut worker = self.worker(point)?;
            let slot = self.bring(&mut worker, point);
            let result = slot.and_then(|slot| ask(self, &mut worker, slot));
            let is_dead = matches!(result, Err(ForeignError::Crashed { .. } | ForeignError::Hung { .. }));
            if is_dead {
                return result;
            }
            if let Err(error @ (ForeignError::Status { .. } | ForeignError::Range { .. })) = &result {
                self.leave_broken(&mut worker, &Err(error.clone()), point);
            }
            lock(&self.idle).push(worker);
            result
        };
        let result = run(&mut ask).or_else(|error| if self.gives_up(&error) { run(&mut ask) } else { Err(error) });
        result.map_err(|error| self.note(&error))
    }

    /// Gives up an optional feature that crashed; says whether it did.
    fn gives_up(&self, error: &ForeignError) -> bool {
        let ForeignError::Crashed { doing, .. } = error else { return false };
        match doing.as_str() {
            SAVING | RESTORING => self.has_saved_states.swap(false, Ordering::Relaxed),
            DIFFERENTIATING => self.has_directional.swap(false, Ordering::Relaxed),
            _ => false,
        }
    }

    /// Brings an instance to the parameters and the mode of a point.
    fn bring(&self, worker: &mut Worker, point: &Point<'_>) -> Result<usize, ForeignError> {
        worker.clock += 1;
        let clock = worker.clock;
        let has_same = |slot: &Slot| slot.parameters == point.parameters;
        if let Some(at) = worker.slots.iter().position(|slot| has_same(slot) && slot.mode == point.mode) {
            worker.slots[at].last_use = clock;
            return Ok(at);
        }
        let chain = self.chain(point.mode);
        let is_before = |slot: &Slot| chain.last().is_some_and(|(_, last)| last.before == slot.mode);
        let follower = worker.slots.iter().position(|slot| has_same(slot) && is_before(slot));
        let is_saved = |slot: &Slot| has_same(slot) && slot.saved.contains(&point.mode);
        if let Some(at) = worker.slots.iter().position(is_saved).filter(|_| follower.is_none()) {
            let frame = Frame::default().byte(verb::RESTORE).whole(worker.slots[at].number).whole(point.mode);
            self.asked(worker, &frame, RESTORING, point)?;
            worker.slots[at].mode = point.mode;
            worker.slots[at].last_use = clock;
            return Ok(at);
        }
        let (at, n_done) = match follower {
            Some(at) => (at, chain.len() - 1),
            None => self.furthest(worker, point, &chain),
        };
        if point.mode != FRESH {
            self.replay(worker, at, point, &chain, n_done)?;
        }
        let slot = &mut worker.slots[at];
        (slot.last_use, slot.mode) = (clock, point.mode);
        slot.parameters = point.parameters.to_vec();
        Ok(at)
    }

    /// The events that lead to a mode, the first of them its start, each with the number of the mode that it leads to.
    pub(super) fn chain(&self, mode: u64) -> Vec<(u64, Mode)> {
        let modes = lock(&self.modes);
        let mut chain = Vec::new();
        let mut mode = mode;
        while let Some(record) = (mode as usize).checked_sub(1).and_then(|at| modes.list.get(at)) {
            chain.push((mode, record.clone()));
            mode = record.before;
        }
        chain.reverse();
        chain
    }

    /// An instance to be brought to a mode, and how many of the events that lead there are behind it: one that is on
    /// the way, if there is one beside that which leads; else a new one; else that which was not used for longest.
    fn furthest(&self, worker: &mut Worker, point: &Point<'_>, chain: &[(u64, Mode)]) -> (usize, usize) {
        let most = if self.is_single { 1 } else { MOST_SLOTS };
        let is_same = |slot: &Slot| slot.parameters == point.parameters;
        for (n_done, (mode, _)) in chain.iter().enumerate().rev() {
            if let Some(at) = worker.slots.iter().position(|slot| is_same(slot) && slot.mode == *mode) {
                return (at, n_done + 1);
            }
        }
        let n_same = worker.slots.iter().filter(|slot| is_same(slot)).count();
        let has_room = worker.slots.len() < most && n_same < MOST_TWINS;
        let candidates = worker.slots.iter().enumerate().filter(|(_, slot)| n_same < MOST_TWINS || is_same(slot));
        let oldest = candidates.min_by_key(|(_, slot)| slot.last_use).map(|(at, _)| at);
        match oldest {
            Some(at) if !has_room => (at, 0),
            _ => {
                let number = free_number(&worker.slots);
                let slot = Slot { number, parameters: Vec::new(), mode: FRESH, saved: Vec::new(), last_use: 0 };
                worker.slots.push(slot);
                (worker.slots.len() - 1, 0)
            }
        }
    }

    /// Goes through the events that lead to a mode, from the start where nothing of them is done.
    fn replay(
        &self,
        worker: &mut Worker,
        at: usize,
        point: &Point<'_>,
        chain: &[(u64, Mode)],
        n_done: usize,
    ) -> Result<(), ForeignError> {
        if n_done == 0 {
            match chain.first() {
                Some((_, start)) => self.begin(worker, at, start.time, &start.inputs, point)?,
                None => self.begin(worker, at, self.start_time(), &self.default_inputs(), point)?,
            };
        }
        // Nobody may find an instance that is half on its way.
        worker.slots[at].parameters = vec![f64::NAN];
        for (_, event) in &chain[n_done.max(1).min(chain.len())..] {
            let slot = worker.slots[at].number;
            let frame = self.request(verb::EVENT, slot, None, event.time, &event.states, &event.inputs);
            self.asked(worker, &frame, "repeating an event", point)?;
        }
        Ok(())
    }

    /// Makes an instance, sets what differs from the description, and initializes it.
    pub(super) fn begin(
        &self,
        worker: &mut Worker,
        at: usize,
        time: f64,
        inputs: &[f64],
        point: &Point<'_>,
    ) -> Result<Vec<f64>, ForeignError> {
        // Nobody may find an instance that is half on its way.
        worker.slots[at].parameters = vec![f64::NAN];
        worker.slots[at].saved.clear();
        let scalars = &self.description.scalars;
        let (mut blocks, mut starts) = (Vec::new(), Vec::new());
        let mut first = 0;
        while first < self.parameters.len() {
            let block = scalars[self.parameters[first]].block;
            let range = first..(first + block.size as usize).min(self.parameters.len());
            let differs = |at: usize| scalars[self.parameters[at]].start != Some(point.parameters[at]);
            if range.clone().any(differs) {
                blocks.push(block);
                starts.extend(&point.parameters[range.clone()]);
            }
            first = range.end;
        }
        let frame = Frame::default()
            .byte(verb::BEGIN)
            .whole(worker.slots[at].number)
            .real(time)
            .optional(None)
            .optional(self.description.experiment.tolerance)
            .blocks(&blocks)
            .reals(&starts)
            .reals(inputs);
        self.asked(worker, &frame, "initializing", point)
    }

    pub(super) fn request(
        &self,
        verb: u8,
        slot: u64,
        part: Option<u8>,
        time: f64,
        states: &[f64],
        inputs: &[f64],
    ) -> Frame {
        let frame = Frame::default().byte(verb);
        let frame = part.map_or(Frame::default().byte(verb), |part| frame.byte(part));
        frame.whole(slot).real(time).reals(states).reals(inputs)
    }

    /// Where in a run, and with which parameters.
    pub(super) fn place(&self, point: &Point<'_>) -> String {
        const MOST_SHOWN: usize = 8;
        let scalars = &self.description.scalars;
        let named = self.parameters.iter().zip(point.parameters);
        let changed = named.filter(|(at, value)| scalars[**at].start != Some(**value));
        let shown: Vec<String> =
            changed.take(MOST_SHOWN).map(|(&at, value)| format!("{} = {value}", scalars[at].name)).collect();
        let with = if shown.is_empty() { "all parameters as in its description".to_owned() } else { shown.join(", ") };
        format!(" at time {} with {with}", point.time)
    }

    pub(super) fn asked(
        &self,
        worker: &mut Worker,
        frame: &Frame,
        doing: &str,
        point: &Point<'_>,
    ) -> Result<Vec<f64>, ForeignError> {
        let answer = worker.process.ask(frame, doing, &|| self.place(point))?;
        self.judged(answer, doing, point)
    }

    /// The numbers of an answer.
    pub(super) fn judged(&self, answer: Answer, doing: &str, point: &Point<'_>) -> Result<Vec<f64>, ForeignError> {
        match answer {
            Answer::Numbers(values) => Ok(values),
            Answer::Discard(log) => Err(ForeignError::Status {
                function: doing.to_owned(),
                status: "discard".to_owned(),
                place: self.place(point),
                log,
            }),
            Answer::Error(ForeignError::Status { function, status, log, .. }) => {
                Err(ForeignError::Status { function, status, place: self.place(point), log })
            }
            Answer::Error(ForeignError::Range { value, least, most, .. }) => {
                Err(ForeignError::Range { value, least, most, place: self.place(point) })
            }
            Answer::Error(error) => Err(error),
            Answer::Many(_) => Err(garbled()),
        }
    }
}

impl Unit {
    /// The mode that begins here, its next event, whether the run is over, and the states.
    pub(crate) fn start(&self, time: f64, inputs: &[f64], parameters: &[f64]) -> Result<Vec<f64>, ForeignFailure> {
        let key: Vec<u64> = std::iter::once(&time).chain(inputs).chain(parameters).map(|one| one.to_bits()).collect();
        let (states, is_positive) = (Vec::new(), Vec::new());
        self.recorded(key, Mode { before: FRESH, time, states, inputs: inputs.to_vec(), is_positive }, parameters)
    }

    /// The mode after an event, with the same facts.
    pub(super) fn event(&self, point: &Point<'_>) -> Result<Vec<f64>, ForeignFailure> {
        let numbers = [point.time].into_iter().chain([point.states, point.inputs, point.parameters].concat());
        let key: Vec<u64> = std::iter::once(point.mode).chain(numbers.map(f64::to_bits)).collect();
        let (states, inputs) = (point.states.to_vec(), point.inputs.to_vec());
        let mode = Mode { before: point.mode, time: point.time, states, inputs, is_positive: Vec::new() };
        self.recorded(key, mode, point.parameters)
    }

    /// What happens at an event or a start, recorded as a mode.
    pub(super) fn recorded(&self, key: Vec<u64>, mode: Mode, parameters: &[f64]) -> Result<Vec<f64>, ForeignFailure> {
        if let Some(known) = lock(&self.modes).known.get(&key) {
            return Ok(known.clone());
        }
        let point =
            Point { time: mode.time, mode: mode.before, states: &mode.states, inputs: &mode.inputs, parameters };
        let is_start = mode.before == FRESH;
        let facts = self.at(&point, |unit, worker, at| {
            let mut outcome = if is_start {
                unit.begin(worker, at, mode.time, &mode.inputs, &point)?
            } else {
                unit.save(worker, at, &point)?;
                let slot = worker.slots[at].number;
                let frame = unit.request(verb::EVENT, slot, None, mode.time, &mode.states, &mode.inputs);
                unit.asked(worker, &frame, "an event", &point)?
            };
            let indicators = outcome.split_off(outcome.len().min(2 + unit.arguments.n_states));
            let is_positive = indicators.iter().map(|&indicator| indicator > 0.0).collect();
            let mut modes = lock(&unit.modes);
            modes.list.push(Mode { is_positive, ..mode.clone() });
            let number = modes.list.len() as u64;
            let mut facts = vec![number as f64];
            facts.extend(outcome);
            modes.known.insert(key.clone(), facts.clone());
            // Without events there is one mode only.
            let is_smooth = unit.is_smooth.get() == Some(&true);
            worker.slots[at].mode = if is_smooth { 0 } else { number };
            worker.slots[at].parameters = parameters.to_vec();
            Ok(facts)
        })?;
        if self.is_smooth.get() == Some(&true) && (facts[1] < crate::worker::NEVER || facts[2] != 0.0) {
            let what =
                "the unit has events in time at these parameters, though it had none at those of its description";
            return Err(self.note(&ForeignError::Changed { what: what.to_owned() }));
        }
        Ok(facts)
    }

    /// Saves the state of an instance, where that is offered, so that its mode can be found again.
    fn save(&self, worker: &mut Worker, at: usize, point: &Point<'_>) -> Result<(), ForeignError> {
        let slot = &worker.slots[at];
        if !self.has_saved_states.load(Ordering::Relaxed) || slot.saved.contains(&point.mode) {
            return Ok(());
        }
        let frame = Frame::default().byte(verb::SAVE).whole(slot.number).whole(point.mode);
        let saved = self.asked(worker, &frame, SAVING, point)?;
        worker.slots[at].saved = saved.into_iter().map(|key| key as u64).collect();
        Ok(())
    }
}

/// A number for a new instance. Broken ones were taken out of the list, so its length may be the number of another.
fn free_number(slots: &[Slot]) -> u64 {
    let is_taken = |number: &u64| slots.iter().any(|slot| slot.number == *number);
    (0..).find(|number| !is_taken(number)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_instance_has_the_number_of_no_other() {
        let slot = |number| Slot { number, parameters: Vec::new(), mode: FRESH, saved: Vec::new(), last_use: 0 };
        let mut slots: Vec<Slot> = (0..3).map(slot).collect();
        slots.remove(0);
        assert_eq!(free_number(&slots), 0);
        slots.push(slot(0));
        assert_eq!(free_number(&slots), 3);
    }
}
