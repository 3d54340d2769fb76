//! The worker: a process of its own that loads the library of a unit and does what it is asked, so that a unit that
//! crashes takes nobody else down.
//!
//! A worker holds numbered instances of one unit. It sets only what changed since the last request. Where the program
//! that started it is gone, it removes the unit's folder and ends.

use std::io::{BufReader, Write};
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::description::Version;
use crate::error::ForeignError;
use crate::message::{Answer, Frame, Opening, Parcel, part, verb};
use crate::native::{Discrete, Done, Failed, Instance, Loaded, Saved, own_standard_output};
use crate::process::Answering;

/// Most rounds of an event.
const MOST_ROUNDS: usize = 1000;
/// Most saved states of an instance.
const MOST_SAVED: usize = 8;
/// What stands for a time that never comes.
pub(crate) const NEVER: f64 = 1e100;

/// An instance with what was set last.
struct Slot<'l> {
    instance: Box<dyn Instance + Send + 'l>,
    saved: Vec<(u64, Saved)>,
    time: f64,
    states: Vec<f64>,
    inputs: Vec<f64>,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        for (_, saved) in self.saved.drain(..) {
            self.instance.forget(saved);
        }
    }
}

struct Worker {
    opening: Opening,
    loaded: &'static Loaded,
    slots: FxHashMap<u64, Slot<'static>>,
}

/// A point of a trajectory.
struct At {
    slot: u64,
    time: f64,
    states: Vec<f64>,
    inputs: Vec<f64>,
}

fn at(from: &mut Parcel) -> Option<At> {
    Some(At { slot: from.whole()?, time: from.real()?, states: from.reals()?, inputs: from.reals()? })
}

fn garbled() -> Failed {
    Failed::Error(ForeignError::Library { reason: "the worker did not understand what it was asked".to_owned() })
}

/// Answers requests from standard input on standard output until there are no more.
pub fn serve() {
    let Some(mut output) = own_standard_output() else { return };
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut inside = Inside::default();
    loop {
        let Some(mut parcel) = Parcel::receive(&mut input) else {
            clean_up(inside.folder());
            return;
        };
        let was_open = inside.worker.is_some();
        let Some(answer) = inside.answer(&mut parcel) else { return };
        if let (false, Some(folder)) = (was_open, inside.folder()) {
            watch_program(folder.to_owned());
        }
        if answer.frame().send(&mut output).is_err() || output.flush().is_err() {
            clean_up(inside.folder());
            return;
        }
    }
}

/// A worker, or one that was not opened yet.
#[derive(Default)]
pub(crate) struct Inside {
    worker: Option<Worker>,
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Inside").field("folder", &self.folder()).finish_non_exhaustive()
    }
}

impl Inside {
    fn folder(&self) -> Option<&str> {
        self.worker.as_ref().map(|worker| worker.opening.folder.as_str())
    }

    /// The answer to a request; none where it is the last.
    fn answer(&mut self, parcel: &mut Parcel) -> Option<Answer> {
        let worker = &mut self.worker;
        Some(match parcel.byte() {
            Some(verb::OPEN) => told(Opening::read(parcel).ok_or_else(garbled).and_then(open).map(|opened| {
                *worker = Some(opened);
                Vec::new()
            })),
            Some(verb::CLOSE) | None => return None,
            Some(verb::MANY) => match (worker, parcel.parcels()) {
                (Some(worker), Some(mut parcels)) => {
                    Answer::Many(parcels.iter_mut().map(|one| worker.told(one)).collect())
                }
                _ => told(Err(garbled())),
            },
            Some(request) => match worker {
                Some(worker) => told(worker.answer(request, parcel)),
                None => told(Err(garbled())),
            },
        })
    }
}

impl Answering for Inside {
    fn ask(&mut self, frame: &Frame, _: &str, _: &dyn Fn() -> String) -> Result<Answer, ForeignError> {
        let answer = self.answer(&mut Parcel::of(frame));
        answer.ok_or_else(|| ForeignError::Library { reason: "the unit was closed".to_owned() })
    }
}

/// Ends this process when the program is gone, though a unit may hang.
#[cfg(unix)]
fn watch_program(folder: String) {
    let program = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == program {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        // The main thread ends first, unless it hangs.
        std::thread::sleep(std::time::Duration::from_millis(500));
        clean_up(Some(&folder));
        std::process::exit(0);
    });
}

#[cfg(not(unix))]
fn watch_program(_: String) {}

/// The program is gone: nobody else will remove the folder.
fn clean_up(folder: Option<&str>) {
    let Some(folder) = folder.map(Path::new) else { return };
    let is_ours = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("daesy-fmu-"));
    if is_ours {
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn open(opening: Opening) -> Done<Worker> {
    let loaded = Loaded::open(&opening.binary).map_err(Failed::Error)?;
    // The library stays loaded as long as the process lives.
    Ok(Worker { opening, loaded: Box::leak(Box::new(loaded)), slots: FxHashMap::default() })
}

/// What was found out, as an answer.
fn told(found: Done<Vec<f64>>) -> Answer {
    match found {
        Ok(values) => Answer::Numbers(values),
        Err(Failed::Discard(log)) => Answer::Discard(log),
        Err(Failed::Error(error)) => Answer::Error(error),
    }
}

impl Worker {
    /// The answer to one of several questions.
    fn told(&mut self, parcel: &mut Parcel) -> Answer {
        let request = parcel.byte().ok_or_else(garbled);
        told(request.and_then(|request| self.answer(request, parcel)))
    }

    fn answer(&mut self, request: u8, parcel: &mut Parcel) -> Done<Vec<f64>> {
        match request {
            verb::BEGIN => self.begin(parcel),
            verb::EVALUATE => {
                let (part, at) = (parcel.byte().ok_or_else(garbled)?, at(parcel).ok_or_else(garbled)?);
                self.evaluate(part, &at)
            }
            verb::TANGENT => {
                let at = at(parcel).ok_or_else(garbled)?;
                let (knowns, seed) = parcel.wholes().zip(parcel.reals()).ok_or_else(garbled)?;
                let mut values = vec![0.0; self.opening.derivatives.len()];
                let (slot, opening) = self.at(&at)?;
                slot.instance.directional(&opening.derivatives, &knowns, &seed, &mut values)?;
                Ok(values)
            }
            verb::EVENT => {
                let at = at(parcel).ok_or_else(garbled)?;
                self.event(&at)
            }
            verb::COMPLETED => {
                let at = at(parcel).ok_or_else(garbled)?;
                let stepped = self.at(&at)?.0.instance.completed_step()?;
                Ok(vec![f64::from(u8::from(stepped.wants_event)), f64::from(u8::from(stepped.is_over))])
            }
            verb::SAVE => {
                let (slot, key) = parcel.whole().zip(parcel.whole()).ok_or_else(garbled)?;
                self.save(slot, key)
            }
            verb::RESTORE => {
                let (slot, key) = parcel.whole().zip(parcel.whole()).ok_or_else(garbled)?;
                self.restore(slot, key)
            }
            verb::STEP => {
                let (at, length) = at(parcel).zip(parcel.real()).ok_or_else(garbled)?;
                self.step(&at, length)
            }
            verb::LOOK => {
                let at = at(parcel).ok_or_else(garbled)?;
                let (slot, opening) = self.slot(at.slot)?;
                set_inputs(&mut *slot.instance, opening, &at.inputs, None, true)?;
                self.evaluate(part::VALUES, &at)
            }
            _ => Err(garbled()),
        }
    }

    fn slot(&mut self, slot: u64) -> Done<(&mut Slot<'static>, &Opening)> {
        let opening = &self.opening;
        self.slots.get_mut(&slot).map(|slot| (slot, opening)).ok_or_else(garbled)
    }

    /// Makes an instance and initializes it; the answer is that of an event.
    fn begin(&mut self, parcel: &mut Parcel) -> Done<Vec<f64>> {
        let (slot, time) = parcel.whole().zip(parcel.real()).ok_or_else(garbled)?;
        let (stop, tolerance) = parcel.optional().zip(parcel.optional()).ok_or_else(garbled)?;
        let (blocks, starts, inputs) = (parcel.blocks(), parcel.reals(), parcel.reals());
        let ((blocks, starts), inputs) = blocks.zip(starts).zip(inputs).ok_or_else(garbled)?;
        self.slots.remove(&slot);
        let opening = &self.opening;
        let mut instance = self.loaded.instance(&opening.binary).map_err(Failed::Error)?;
        let mut rest = starts.as_slice();
        for block in blocks {
            let (own, later) = rest.split_at_checked(block.size as usize).ok_or_else(garbled)?;
            set_block(&mut *instance, block, own)?;
            rest = later;
        }
        instance.setup(time, stop, tolerance)?;
        instance.enter_initialization(time, stop, tolerance)?;
        set_inputs(&mut *instance, opening, &inputs, None, true)?;
        instance.exit_initialization()?;
        let mut made = Slot { instance, saved: Vec::new(), time, states: vec![0.0; opening.n_states], inputs };
        let answer = if opening.binary.kind == crate::description::Kind::ModelExchange {
            let discrete = settle(&mut *made.instance)?;
            let n_indicators = match (opening.binary.version, opening.n_indicators) {
                (Version::Two, 1..) => None,
                _ => made.instance.n_indicators()?,
            };
            if let Some(n_indicators) = n_indicators.filter(|n| *n != opening.n_indicators) {
                let reason =
                    format!("it has {n_indicators} event indicators, and its description {}", opening.n_indicators);
                return Err(Failed::Error(ForeignError::Library { reason }));
            }
            made.instance.states(&mut made.states)?;
            outcome(discrete, &mut made, opening)?
        } else {
            facts(Discrete::default())
        };
        self.slots.insert(slot, made);
        Ok(answer)
    }

    /// Sets what changed.
    fn at(&mut self, at: &At) -> Done<(&mut Slot<'static>, &Opening)> {
        let (slot, opening) = self.slot(at.slot)?;
        if at.states.len() != opening.n_states || at.inputs.len() != n_values(&opening.inputs) {
            return Err(garbled());
        }
        if slot.time.to_bits() != at.time.to_bits() {
            slot.instance.set_time(at.time)?;
            slot.time = at.time;
        }
        if opening.n_states > 0 && slot.states != at.states {
            slot.instance.set_states(&at.states)?;
            slot.states.clone_from(&at.states);
        }
        if slot.inputs != at.inputs {
            set_inputs(&mut *slot.instance, opening, &at.inputs, Some(&slot.inputs), false)?;
            slot.inputs.clone_from(&at.inputs);
        }
        Ok((slot, opening))
    }

    fn evaluate(&mut self, part: u8, at: &At) -> Done<Vec<f64>> {
        let (slot, opening) = if self.opening.binary.kind == crate::description::Kind::ModelExchange {
            self.at(at)?
        } else {
            self.slot(at.slot)?
        };
        let n = match part {
            part::DERIVATIVES => opening.n_states,
            part::INDICATORS => opening.n_indicators,
            _ => n_values(&opening.values),
        };
        let mut values = vec![0.0; n];
        match part {
            _ if n == 0 => {}
            part::DERIVATIVES => slot.instance.derivatives(&mut values)?,
            part::INDICATORS => slot.instance.indicators(&mut values)?,
            _ => slot.instance.get(&opening.values, &mut values)?,
        }
        Ok(values)
    }

    fn event(&mut self, at: &At) -> Done<Vec<f64>> {
        let (slot, opening) = self.at(at)?;
        if opening.binary.needs_completed_steps {
            slot.instance.completed_step()?;
        }
        slot.instance.enter_event_mode()?;
        set_inputs(&mut *slot.instance, opening, &at.inputs, None, true)?;
        let discrete = settle(&mut *slot.instance)?;
        if discrete.states_changed {
            slot.instance.states(&mut slot.states)?;
        }
        outcome(discrete, slot, opening)
    }

    fn save(&mut self, slot: u64, key: u64) -> Done<Vec<f64>> {
        let (slot, _) = self.slot(slot)?;
        let saved = slot.instance.save()?;
        if slot.saved.len() == MOST_SAVED {
            let (_, oldest) = slot.saved.remove(0);
            slot.instance.forget(oldest);
        }
        slot.saved.push((key, saved));
        Ok(slot.saved.iter().map(|(key, _)| *key as f64).collect())
    }

    fn restore(&mut self, slot: u64, key: u64) -> Done<Vec<f64>> {
        let (slot, _) = self.slot(slot)?;
        let Some((_, saved)) = slot.saved.iter().find(|(known, _)| *known == key) else { return Err(garbled()) };
        slot.instance.restore(saved)?;
        // Everything is set again.
        slot.time = f64::NAN;
        slot.states.fill(f64::NAN);
        slot.inputs.fill(f64::NAN);
        Ok(Vec::new())
    }

    /// Lets the unit take a step itself; the answer says whether it is over and which time it reached, then all
    /// values.
    fn step(&mut self, at: &At, length: f64) -> Done<Vec<f64>> {
        let (slot, opening) = self.slot(at.slot)?;
        set_inputs(&mut *slot.instance, opening, &at.inputs, None, true)?;
        let stepped = slot.instance.step(at.time, length)?;
        let mut values = vec![0.0; n_values(&opening.values)];
        slot.instance.get(&opening.values, &mut values)?;
        Ok([&[f64::from(u8::from(stepped.is_over)), stepped.time], values.as_slice()].concat())
    }
}

pub(crate) fn n_values(blocks: &[crate::description::Block]) -> usize {
    blocks.iter().map(|block| block.size as usize).sum()
}

/// Sets inputs, which are whole numbers where their type is one of these; parameters that are moved for differences are
/// not.
fn set_input(instance: &mut dyn Instance, block: crate::description::Block, values: &[f64]) -> Done {
    let range = match block.scalar_type {
        crate::description::ScalarType::Boolean => Some((0.0, 1.0)),
        other => other.range(),
    };
    let is_value = |value: f64, (least, most): (f64, f64)| value.fract() == 0.0 && (least..=most).contains(&value);
    if let Some((least, most)) = range
        && let Some(&value) = values.iter().find(|value| !is_value(**value, (least, most)))
    {
        return Err(Failed::Error(ForeignError::Range { value, least, most, place: String::new() }));
    }
    instance.set(block, values)
}

/// Sets values, each of which its type must have.
fn set_block(instance: &mut dyn Instance, block: crate::description::Block, values: &[f64]) -> Done {
    let wrong = values.iter().find(|value| !block.scalar_type.holds(**value));
    match (wrong, block.scalar_type.range()) {
        (Some(&value), Some((least, most))) => {
            Err(Failed::Error(ForeignError::Range { value, least, most, place: String::new() }))
        }
        _ => instance.set(block, values),
    }
}

/// Sets inputs that differ from those set before; discrete ones only where that is allowed.
fn set_inputs(
    instance: &mut dyn Instance,
    opening: &Opening,
    inputs: &[f64],
    before: Option<&[f64]>,
    with_discrete: bool,
) -> Done {
    let mut first = 0;
    for (&block, &is_discrete) in opening.inputs.iter().zip(&opening.is_discrete) {
        let range = first..first + block.size as usize;
        first = range.end;
        let own = inputs.get(range.clone()).ok_or_else(garbled)?;
        let has_changed = before.is_none_or(|before| before.get(range) != Some(own));
        if has_changed && (with_discrete || !is_discrete) {
            set_input(instance, block, own)?;
        }
    }
    Ok(())
}

/// Iterates an event until it settles, and goes on to continuous time.
fn settle(instance: &mut dyn Instance) -> Done<Discrete> {
    let mut all = Discrete::default();
    for _ in 0..MOST_ROUNDS {
        let one = instance.update_discrete()?;
        all = Discrete {
            states_changed: all.states_changed || one.states_changed,
            is_over: all.is_over || one.is_over,
            ..one
        };
        if !one.needs_update || one.is_over {
            instance.enter_continuous_mode()?;
            return Ok(all);
        }
    }
    Err(Failed::Error(ForeignError::Status {
        function: "update of discrete states".to_owned(),
        status: format!("no end after {MOST_ROUNDS} rounds"),
        place: String::new(),
        log: String::new(),
    }))
}

/// Next time and whether it is over.
fn facts(discrete: Discrete) -> Vec<f64> {
    let next = discrete.next_time.filter(|time| *time < NEVER).unwrap_or(NEVER);
    vec![next, f64::from(u8::from(discrete.is_over))]
}

/// What an event leaves: next time, whether it is over, states, and indicators.
fn outcome(discrete: Discrete, slot: &mut Slot<'_>, opening: &Opening) -> Done<Vec<f64>> {
    let mut all = facts(discrete);
    all.extend(&slot.states);
    if opening.n_indicators > 0 {
        let mut indicators = vec![0.0; opening.n_indicators];
        slot.instance.indicators(&mut indicators)?;
        all.extend(indicators);
    }
    Ok(all)
}
