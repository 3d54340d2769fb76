//! A unit that runs: its functions as pure functions of time, mode, states, inputs and parameters.
//!
//! An instance remembers more than a function may: its parameters are set before it is initialized, and what happened
//! at events is inside it. Both become arguments here. An instance belongs to the parameters it was begun with; a
//! *mode* is a number that stands for a history of events,
//!
//! ```text
//! mode = start(t0, u0, p)                      begun and initialized there
//! mode' = event(t, mode, x, u, p)              the event that happened next
//! ```
//!
//! and an instance is brought to a mode by setting its saved state, where the unit offers that, or else by beginning
//! anew and going through the events again. Mode 0 is the start at the values of the description. The same arguments
//! give the same number, so that whoever asks twice gets the same answer.
//!
//! Event indicators are given relative to the event before: positive where they were after it, and no longer so where
//! they left that domain, z > 0 or z <= 0. An event may turn their signs; that is no other event [@fmi2, sec. 3.1].
//!
//! Instances live in worker processes, one for each thread that evaluates, several instances in each. A crash, a hang
//! or an error is an evaluation without a value, as of a division by zero: a step is taken again with another length,
//! a point of an ensemble is left out, and whoever gives up says what the unit said.

use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use daesy_graph::foreign::{ForeignFailure, ForeignUnit, points};
use rustc_hash::FxHashMap;

use crate::archive::{Archive, Limits};
use crate::description::{Block, Causality, Initial, Kind, Scalar, UnitDescription, Variability, Version};
use crate::error::ForeignError;
use crate::folder::PrivateFolder;
use crate::message::{Answer, Frame, Opening, part, verb};
use crate::native::Binary;
use crate::probe::Probed;
use crate::process::{Answering, Process};
use crate::worker::{Inside, n_values};

/// Functions of a unit, by their numbers.
pub(crate) mod function {
    pub(crate) const DERIVATIVES: u32 = 0;
    pub(crate) const INDICATORS: u32 = 1;
    pub(crate) const VALUES: u32 = 2;
    pub(crate) const START: u32 = 3;
    pub(crate) const EVENT: u32 = 4;
}

/// Instances of a worker, where there may be several.
const MOST_SLOTS: usize = 200;
/// Instances with the same parameters: one that leads, and one that follows an event later.
const MOST_TWINS: usize = 3;
/// Crashes after which nothing is tried any more.
const MOST_CRASHES: usize = 20;
/// What a unit was doing when an optional feature crashed.
const SAVING: &str = "saving its state";
const RESTORING: &str = "setting a saved state";
const DIFFERENTIATING: &str = "differentiating";
/// A mode of no instance: whoever asks for it begins anew.
const FRESH: u64 = u64::MAX;
/// Results that are remembered: at least those at the stages of a step.
const MOST_REMEMBERED: usize = 32;
/// Numbers in columns of Jacobians that are remembered, and columns at points that are in any case.
const MOST_NUMBERS: usize = 1 << 20;
const LEAST_REMEMBERED: usize = 8;
/// Questions in one message.
const MOST_AT_ONCE: usize = 256;

/// Places of the arguments `time, mode, states, inputs, parameters`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arguments {
    pub(crate) n_states: usize,
    pub(crate) n_inputs: usize,
    pub(crate) n_parameters: usize,
}

/// What the arguments are.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point<'a> {
    time: f64,
    mode: u64,
    states: &'a [f64],
    inputs: &'a [f64],
    parameters: &'a [f64],
}

impl Arguments {
    pub(crate) const fn count(self) -> usize {
        2 + self.n_states + self.n_inputs + self.n_parameters
    }

    fn point(self, all: &[f64]) -> Point<'_> {
        let (states, rest) = all[2..].split_at(self.n_states);
        let (inputs, parameters) = rest.split_at(self.n_inputs);
        Point { time: all[0], mode: all[1] as u64, states, inputs, parameters }
    }
}

/// An instance as the program sees it.
#[derive(Debug)]
struct Slot {
    number: u64,
    parameters: Vec<f64>,
    mode: u64,
    saved: Vec<u64>,
    last_use: u64,
}

#[derive(Debug)]
struct Worker {
    process: Box<dyn Answering>,
    slots: Vec<Slot>,
    clock: u64,
}

/// How a mode was reached: from another one, or from nothing, by what happened here.
#[derive(Clone, Debug)]
struct Mode {
    before: u64,
    time: f64,
    states: Vec<f64>,
    inputs: Vec<f64>,
    /// Whether each indicator was positive afterwards.
    is_positive: Vec<bool>,
}

#[derive(Debug, Default)]
struct Modes {
    list: Vec<Mode>,
    /// Answers of `start` and `event` by the bits of their arguments.
    known: FxHashMap<Vec<u64>, Vec<f64>>,
}

#[derive(Debug, Default)]
struct Trouble {
    n_crashes: usize,
    last: Option<ForeignFailure>,
    /// Nothing is tried any more.
    is_final: bool,
}

/// A question about one point.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Question {
    /// Derivatives, indicators or values.
    Evaluate { part: u8, arguments: Vec<f64> },
    /// The derivatives along a direction in variables.
    Directional { arguments: Vec<f64>, knowns: Vec<u32>, seed: Vec<f64> },
}

impl Question {
    fn arguments(&self) -> &[f64] {
        match self {
            Self::Evaluate { arguments, .. } | Self::Directional { arguments, .. } => arguments,
        }
    }

    /// The bits of all that is asked.
    fn key(&self) -> Vec<u64> {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
        match self {
            Self::Evaluate { part, arguments } => [vec![u64::from(*part)], bits(arguments)].concat(),
            Self::Directional { arguments, knowns, seed } => {
                let knowns = knowns.iter().map(|&known| u64::from(known)).collect();
                [vec![u64::MAX], bits(arguments), knowns, bits(seed)].concat()
            }
        }
    }

    fn doing(&self) -> &'static str {
        match self {
            Self::Evaluate { .. } => "evaluating",
            Self::Directional { .. } => DIFFERENTIATING,
        }
    }
}

/// A derivative as a sum of answers, each with its weight.
type Sum = Vec<(Question, f64)>;

/// Arguments, and for each of them what the derivative of a function by it is made of.
type AskedColumns = (Vec<usize>, Vec<(u32, Sum)>);

/// Columns of a Jacobian at a point: derivatives by the states, or by the parameters that move.
#[derive(Debug)]
struct Columns {
    function: u32,
    arguments: Vec<f64>,
    /// The argument of each.
    by: Vec<usize>,
    values: Vec<Option<Vec<f64>>>,
    /// What they were asked for along with, if nobody used them yet.
    fetched_with: Option<Company>,
}

/// What columns were fetched along with.
#[derive(Clone, Copy, Debug)]
enum Company {
    /// Columns of the partner.
    Columns,
    /// The function itself.
    Function,
}

/// Something that was evaluated.
#[derive(Debug)]
struct Remembered {
    function: u32,
    arguments: Vec<f64>,
    values: Vec<f64>,
    /// Whether it was asked for along with another, and nobody used it yet.
    is_fetched: bool,
}

/// Whether two things are asked at the same points, so that one message serves both: found out as it goes. Every pair
/// that is seen is good for some more; what was fetched for nobody counts against it.
#[derive(Debug)]
struct Pairing {
    left: AtomicU32,
    each: u32,
    most: u32,
}

impl Pairing {
    /// Pairs that are cheap to fetch: worth it if one of several is used.
    const fn cheap() -> Self {
        Self { left: AtomicU32::new(0), each: 8, most: 8 }
    }

    /// Pairs that are dear: worth it if every second one is used, after a step at the latest.
    const fn dear() -> Self {
        Self { left: AtomicU32::new(0), each: 2, most: 64 }
    }

    fn is_seen(&self) {
        let more = |left: u32| Some((left + self.each).min(self.most));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn fetches(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// The function that is usually asked at the same points: derivatives and values go together.
fn partner(function: u32) -> Option<u32> {
    match function {
        function::DERIVATIVES => Some(function::VALUES),
        function::VALUES => Some(function::DERIVATIVES),
        _ => None,
    }
}

/// Where the instances of a unit live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Residence {
    /// In processes of their own, which the program starts: a crash takes nobody else down.
    Apart,
    /// In this process, where the program is not at hand: inside a unit that carries another one.
    Inside,
}

/// What a unit will be used for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses<'a> {
    /// Unknowns whose start values are given. They are set like parameters where the unit allows it; else states are set
    /// after the unit has initialized itself.
    pub starts: &'a [String],
    /// Parameters that anything is differentiated by; any of them when left out.
    pub moved: Option<&'a [String]>,
}

/// A unit whose archive was unpacked.
#[derive(Debug)]
pub struct Unit {
    description: UnitDescription,
    kind: Kind,
    opening: Opening,
    pub(crate) arguments: Arguments,
    /// Scalars that are parameters to be set, inputs, and values to be read.
    pub(crate) parameters: Vec<usize>,
    parameter_names: Vec<String>,
    /// Parameters that derivatives are asked by, as positions among them.
    moved: Vec<usize>,
    pub(crate) inputs: Vec<usize>,
    pub(crate) values: Vec<usize>,
    is_single: bool,
    /// Whether saved states and directional derivatives are used: not any more after they crashed.
    has_saved_states: AtomicBool,
    has_directional: AtomicBool,
    /// Whether no events are expected.
    pub(crate) is_smooth: OnceLock<bool>,
    /// States that are set after the unit has initialized itself.
    pub(crate) imposed: Vec<usize>,
    /// Whether anything is differentiated by parameters.
    has_moved: bool,
    probed: OnceLock<Probed>,
    idle: Mutex<Vec<Worker>>,
    modes: Mutex<Modes>,
    trouble: Mutex<Trouble>,
    remembered: Mutex<Vec<Remembered>>,
    columns: Mutex<Vec<Columns>>,
    /// Derivatives and values; their columns; derivatives and their columns.
    pairs: Pairing,
    pairs_of_columns: Pairing,
    pairs_with_columns: Pairing,
    residence: Residence,
    /// Removed last, after the workers.
    _folder: PrivateFolder,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Reads what a unit says of itself; nothing of it is run or unpacked.
///
/// # Errors
/// When the archive is not safe, or the description cannot be read.
pub fn read_description(path: &Path) -> Result<(Archive, UnitDescription), ForeignError> {
    let shown = path.display().to_string();
    let limits = Limits::default();
    let failed = |error: std::io::Error| ForeignError::File { file: shown.clone(), reason: error.to_string() };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > limits.packed {
        let reason = format!("it has {size} bytes, and {} are the limit", limits.packed);
        return Err(ForeignError::Unsafe { reason });
    }
    read_archive(std::fs::read(path).map_err(failed)?)
}

/// The same from the bytes of a file.
///
/// # Errors
/// As [`read_description`].
pub fn read_archive(bytes: Vec<u8>) -> Result<(Archive, UnitDescription), ForeignError> {
    let archive = Archive::new(bytes, Limits::default())?;
    let description = UnitDescription::read(&archive.content(Path::new("modelDescription.xml"))?)?;
    Ok((archive, description))
}

/// The folder below `binaries` for this machine.
fn platform(version: Version) -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    match version {
        Version::Two => {
            let system = match system {
                "macos" => "darwin",
                "windows" => "win",
                other => other,
            };
            format!("{system}{}", if cfg!(target_pointer_width = "64") { "64" } else { "32" })
        }
        Version::Three => format!("{machine}-{}", if system == "macos" { "darwin" } else { system }),
    }
}

/// The library for this machine, relative to the unit's folder.
fn library(archive: &Archive, version: Version, identifier: &str) -> Result<std::path::PathBuf, ForeignError> {
    let wanted = platform(version);
    let extension = match std::env::consts::OS {
        "windows" => "dll",
        "macos" => "dylib",
        _ => "so",
    };
    let path = Path::new("binaries").join(&wanted).join(format!("{identifier}.{extension}"));
    if archive.entries().iter().any(|entry| entry.path == path) {
        return Ok(path);
    }
    let mut offered: Vec<String> = archive
        .entries()
        .iter()
        .filter_map(|entry| {
            Some(entry.path.strip_prefix("binaries").ok()?.iter().next()?.to_string_lossy().into_owned())
        })
        .collect();
    offered.sort();
    offered.dedup();
    if offered.contains(&wanted) {
        return Err(ForeignError::Description { reason: format!("there is no library `{}`", path.display()) });
    }
    let offered = if offered.is_empty() { "none (source code only)".to_owned() } else { offered.join(", ") };
    Err(ForeignError::Platform { wanted, offered })
}

/// An answer that fits no question.
fn garbled() -> ForeignError {
    ForeignError::Changed { what: "the worker answered something else than it was asked".to_owned() }
}

/// Blocks of some scalars, which must be all of each block, neighbours together.
fn blocks_of(description: &UnitDescription, scalars: &[usize]) -> Vec<Block> {
    let of = |&at: &usize| &description.scalars[at];
    scalars.iter().map(of).filter(|scalar| scalar.offset == 0).map(|scalar| scalar.block).collect()
}

/// The name of the parameter that holds the start value of an unknown.
#[must_use]
pub fn start_name(of: &str) -> String {
    format!("@start({of})")
}

/// Whether a study may set a parameter.
pub(crate) fn is_settable(scalar: &Scalar) -> bool {
    scalar.causality == Causality::Parameter
        && scalar.variability != Variability::Constant
        && scalar.block.scalar_type.is_number()
        && scalar.start.is_some()
}

/// Whether the start value of an unknown may be set.
fn has_settable_start(scalar: &Scalar) -> bool {
    matches!(scalar.causality, Causality::Output | Causality::Local)
        && scalar.variability as u8 >= Variability::Discrete as u8
        && scalar.initial != Initial::Calculated
        && scalar.start.is_some()
        && scalar.block.scalar_type.is_number()
        && scalar.block.size == 1
}

/// Whether a value is to be read for tables.
fn is_value(scalar: &Scalar) -> bool {
    matches!(scalar.causality, Causality::Output | Causality::Local)
        && scalar.variability as u8 >= Variability::Discrete as u8
        && scalar.block.scalar_type.is_number()
}

impl Unit {
    /// Unpacks a unit into a private folder.
    ///
    /// # Errors
    /// When there is no library for this machine, or the folder cannot be written.
    pub fn open(
        archive: &Archive,
        description: UnitDescription,
        uses: &Uses<'_>,
        residence: Residence,
    ) -> Result<Self, ForeignError> {
        let starts = uses.starts;
        let (kind, interface) = description.interface()?;
        let interface = interface.clone();
        let library = library(archive, description.version, &interface.identifier)?;
        let select = |wanted: &dyn Fn(&Scalar) -> bool| -> Vec<usize> {
            let places = description.scalars.iter().enumerate();
            places.filter(|(_, scalar)| wanted(scalar)).map(|(at, _)| at).collect()
        };
        let is_start = |scalar: &Scalar| starts.contains(&scalar.name) && has_settable_start(scalar);
        let parameters = select(&|scalar| is_settable(scalar) || is_start(scalar));
        let name_of = |&at: &usize| {
            let scalar = &description.scalars[at];
            if is_settable(scalar) { scalar.name.clone() } else { start_name(&scalar.name) }
        };
        let parameter_names: Vec<String> = parameters.iter().map(name_of).collect();
        let is_imposed = |state: &&crate::description::State| {
            let scalar = &description.scalars[state.state];
            starts.contains(&scalar.name) && !has_settable_start(scalar)
        };
        let imposed = description.states.iter().filter(is_imposed).map(|state| state.state).collect();
        let is_moved =
            |name: &String| uses.moved.is_none_or(|moved| moved.contains(name)) || name.starts_with("@start(");
        let moved = (0..parameter_names.len()).filter(|&at| is_moved(&parameter_names[at])).collect();
        let inputs = select(&|scalar| scalar.causality == Causality::Input && scalar.block.scalar_type.is_number());
        let values = select(&is_value);
        let folder = PrivateFolder::new()?;
        archive.unpack(folder.path())?;
        let resources = folder.path().join("resources");
        std::fs::create_dir_all(&resources)
            .map_err(|error| ForeignError::File { file: resources.display().to_string(), reason: error.to_string() })?;
        let resources = match description.version {
            Version::Two => uri(&resources),
            Version::Three => format!("{}{}", resources.display(), std::path::MAIN_SEPARATOR),
        };
        let input_blocks = blocks_of(&description, &inputs);
        let is_discrete_block = |block: &Block| {
            let mut own = inputs.iter().map(|&at| &description.scalars[at]).filter(|scalar| scalar.block == *block);
            own.any(|scalar| scalar.variability != Variability::Continuous)
        };
        let derivative =
            |state: &crate::description::State| description.scalars[state.derivative.scalar].block.reference;
        let opening = Opening {
            binary: Binary {
                library: folder.path().join(library).display().to_string(),
                version: description.version,
                kind,
                name: description.name.clone(),
                token: description.token.clone(),
                resources,
                needs_completed_steps: interface.needs_completed_steps,
            },
            folder: folder.path().display().to_string(),
            n_states: description.states.len(),
            n_indicators: if kind == Kind::ModelExchange { description.n_indicators } else { 0 },
            is_discrete: input_blocks.iter().map(is_discrete_block).collect(),
            inputs: input_blocks,
            values: blocks_of(&description, &values),
            derivatives: description.states.iter().map(derivative).collect(),
        };
        let has_arrays = description.scalars.iter().any(|scalar| scalar.block.size > 1);
        Ok(Self {
            arguments: Arguments {
                n_states: description.states.len(),
                n_inputs: inputs.len(),
                n_parameters: parameters.len(),
            },
            kind,
            opening,
            parameters,
            parameter_names,
            moved,
            inputs,
            values,
            is_single: interface.is_single,
            has_saved_states: AtomicBool::new(interface.has_saved_states),
            has_directional: AtomicBool::new(interface.has_directional_derivatives && !has_arrays),
            is_smooth: OnceLock::new(),
            imposed,
            has_moved: uses.moved.is_some_and(|moved| !moved.is_empty()),
            probed: OnceLock::new(),
            idle: Mutex::default(),
            modes: Mutex::default(),
            trouble: Mutex::default(),
            remembered: Mutex::default(),
            columns: Mutex::default(),
            pairs: Pairing::cheap(),
            pairs_of_columns: Pairing::cheap(),
            pairs_with_columns: Pairing::dear(),
            residence,
            description,
            _folder: folder,
        })
    }

    /// What the unit says of itself.
    #[must_use]
    pub const fn description(&self) -> &UnitDescription {
        &self.description
    }

    /// Who integrates.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether an input may change at events only.
    pub(crate) fn is_discrete_input(&self, at: usize) -> bool {
        self.description.scalars[self.inputs[at]].variability != Variability::Continuous
    }

    /// Values of the parameters in the description.
    #[must_use]
    pub fn default_parameters(&self) -> Vec<f64> {
        self.parameters.iter().map(|&at| self.description.scalars[at].start.unwrap_or(0.0)).collect()
    }

    /// Values of the inputs in the description.
    #[must_use]
    pub fn default_inputs(&self) -> Vec<f64> {
        self.inputs.iter().map(|&at| self.description.scalars[at].start.unwrap_or(0.0)).collect()
    }

    /// Whether an argument is an input that may change at events only.
    pub(crate) fn is_discrete_argument(&self, at: usize) -> bool {
        let input = at.checked_sub(2 + self.arguments.n_states);
        input.is_some_and(|input| input < self.inputs.len() && self.is_discrete_input(input))
    }

    /// Looks at the functions near a point, where they will be differentiated. What fails there is no trouble yet.
    pub(crate) fn look_around(&self, arguments: &[f64]) {
        if self.has_moved && self.probed.get().is_none() {
            let probed = self.probe(arguments);
            let _ = self.probed.set(probed);
            let mut trouble = lock(&self.trouble);
            if !trouble.is_final {
                *trouble = Trouble::default();
            }
        }
    }

    /// What was found about noise and dependencies.
    pub(crate) fn probed(&self) -> Option<&Probed> {
        self.probed.get()
    }

    fn start_time(&self) -> f64 {
        self.description.experiment.start.unwrap_or(0.0)
    }

    /// Notes what went wrong; an evaluation without a value need not be the end.
    fn note(&self, error: &ForeignError) -> ForeignFailure {
        let failure = ForeignFailure { code: error.code(), message: error.to_string(), help: error.help().to_owned() };
        let mut trouble = lock(&self.trouble);
        match error {
            ForeignError::Crashed { .. } => trouble.n_crashes += 1,
            // Nobody waits so long again, and what is missing will not come.
            ForeignError::Hung { .. }
            | ForeignError::Library { .. }
            | ForeignError::Missing { .. }
            | ForeignError::NoInstance { .. }
            | ForeignError::NoWorker { .. }
            | ForeignError::Changed { .. } => trouble.is_final = true,
            _ => {}
        }
        trouble.is_final |= trouble.n_crashes >= MOST_CRASHES;
        trouble.last = Some(failure.clone());
        failure
    }

    /// An idle worker, best one that has an instance with the parameters and the mode; else a new one.
    fn worker(&self, point: &Point<'_>) -> Result<Worker, ForeignError> {
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
    fn at<T>(
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
    fn chain(&self, mode: u64) -> Vec<(u64, Mode)> {
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
    fn begin(
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

    fn request(&self, verb: u8, slot: u64, part: Option<u8>, time: f64, states: &[f64], inputs: &[f64]) -> Frame {
        let frame = Frame::default().byte(verb);
        let frame = part.map_or(Frame::default().byte(verb), |part| frame.byte(part));
        frame.whole(slot).real(time).reals(states).reals(inputs)
    }

    /// Where in a run, and with which parameters.
    fn place(&self, point: &Point<'_>) -> String {
        const MOST_SHOWN: usize = 8;
        let scalars = &self.description.scalars;
        let named = self.parameters.iter().zip(point.parameters);
        let changed = named.filter(|(at, value)| scalars[**at].start != Some(**value));
        let shown: Vec<String> =
            changed.take(MOST_SHOWN).map(|(&at, value)| format!("{} = {value}", scalars[at].name)).collect();
        let with = if shown.is_empty() { "all parameters as in its description".to_owned() } else { shown.join(", ") };
        format!(" at time {} with {with}", point.time)
    }

    fn asked(
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
    fn judged(&self, answer: Answer, doing: &str, point: &Point<'_>) -> Result<Vec<f64>, ForeignError> {
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

    fn remember(&self, one: Remembered) {
        let mut remembered = lock(&self.remembered);
        if remembered.len() == MOST_REMEMBERED {
            remembered.remove(0);
        }
        remembered.push(one);
    }

    /// Answers to questions, each asked once: lanes that are there to fill up vectors ask what others ask.
    pub(crate) fn answers(&self, questions: &[Question]) -> Vec<Result<Vec<f64>, ForeignFailure>> {
        if let [one] = questions {
            return self.answers_of_different(std::slice::from_ref(one));
        }
        let mut known: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
        let mut different: Vec<Question> = Vec::with_capacity(questions.len());
        let mut place = |question: &Question| match known.entry(question.key()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                different.push(question.clone());
                *entry.insert(different.len() - 1)
            }
        };
        let places: Vec<usize> = questions.iter().map(&mut place).collect();
        let answers = self.answers_of_different(&different);
        places.into_iter().map(|at| answers[at].clone()).collect()
    }

    /// Answers to questions, in as few messages as instances allow: those that an instance is at hand for go together,
    /// and wait until one has been brought where it is needed.
    fn answers_of_different(&self, questions: &[Question]) -> Vec<Result<Vec<f64>, ForeignFailure>> {
        let mut answers = Vec::with_capacity(questions.len());
        let mut most = MOST_AT_ONCE;
        while let Some(first) = questions.get(answers.len()) {
            let rest = &questions[answers.len()..];
            let rest = &rest[..rest.len().min(most)];
            let point = self.arguments.point(first.arguments());
            let told = self.at(&point, |unit, worker, at| unit.ask_together(worker, at, rest));
            match told {
                Ok(told) => answers.extend(told.into_iter().zip(rest).map(|(one, question)| {
                    one.map(|values| self.since_event(question, values)).map_err(|error| self.note(&error))
                })),
                // Which of them took the worker down shows when they are asked one by one.
                Err(_) if rest.len() > 1 => most = 1,
                Err(failure) => answers.push(Err(failure)),
            }
        }
        answers
    }

    /// Indicators relative to what they were after the event that led to the mode; other values as they are.
    fn since_event(&self, question: &Question, mut values: Vec<f64>) -> Vec<f64> {
        if let Question::Evaluate { part: part::INDICATORS, arguments } = question {
            let modes = lock(&self.modes);
            let mode = (self.arguments.point(arguments).mode as usize).checked_sub(1).and_then(|at| modes.list.get(at));
            let domains = mode.map_or(&[][..], |mode| &mode.is_positive);
            for (value, _) in values.iter_mut().zip(domains).filter(|(_, is_positive)| !**is_positive) {
                // Zero belongs to the domain of negative ones.
                *value = if *value == 0.0 { f64::MIN_POSITIVE } else { -*value };
            }
        }
        values
    }

    /// Asks the first questions for which the worker has instances, that of the first being known.
    fn ask_together(
        &self,
        worker: &mut Worker,
        first: usize,
        questions: &[Question],
    ) -> Result<Vec<Result<Vec<f64>, ForeignError>>, ForeignError> {
        let mut frames = Vec::new();
        for question in questions {
            let point = self.arguments.point(question.arguments());
            let has_it = |slot: &Slot| slot.parameters == point.parameters && slot.mode == point.mode;
            let at = if frames.is_empty() { Some(first) } else { worker.slots.iter().position(has_it) };
            let Some(at) = at else { break };
            worker.slots[at].last_use = worker.clock;
            let slot = worker.slots[at].number;
            let request = |verb, part| self.request(verb, slot, part, point.time, point.states, point.inputs);
            frames.push(match question {
                Question::Evaluate { part, .. } => request(verb::EVALUATE, Some(*part)),
                Question::Directional { knowns, seed, .. } => request(verb::TANGENT, None).wholes(knowns).reals(seed),
            });
        }
        let Some(one) = questions.first() else { return Ok(Vec::new()) };
        let point = self.arguments.point(one.arguments());
        if let [frame] = frames.as_slice() {
            return match self.asked(worker, frame, one.doing(), &point) {
                Err(error @ (ForeignError::Crashed { .. } | ForeignError::Hung { .. })) => Err(error),
                told => {
                    self.leave_broken(worker, &told, &point);
                    Ok(vec![told])
                }
            };
        }
        let place = || self.place(&point);
        let many = Frame::default().byte(verb::MANY).frames(&frames);
        let told = match worker.process.ask(&many, one.doing(), &place)? {
            Answer::Many(told) if told.len() == frames.len() => told,
            Answer::Error(error) => return Err(error),
            _ => return Err(garbled()),
        };
        let mut answers = Vec::with_capacity(told.len());
        for (answer, question) in told.into_iter().zip(questions) {
            let point = self.arguments.point(question.arguments());
            let answer = self.judged(answer, question.doing(), &point);
            self.leave_broken(worker, &answer, &point);
            let is_broken = answer.is_err();
            answers.push(answer);
            if is_broken {
                // What came after may be of the same instance: it is asked again.
                break;
            }
        }
        Ok(answers)
    }

    /// What an instance is after an error nobody knows.
    fn leave_broken(&self, worker: &mut Worker, answer: &Result<Vec<f64>, ForeignError>, point: &Point<'_>) {
        if matches!(answer, Err(ForeignError::Status { .. } | ForeignError::Range { .. })) {
            worker.slots.retain(|slot| slot.parameters != point.parameters || slot.mode != point.mode);
        }
    }

    /// The mode that begins here, its next event, whether the run is over, and the states.
    pub(crate) fn start(&self, time: f64, inputs: &[f64], parameters: &[f64]) -> Result<Vec<f64>, ForeignFailure> {
        let key: Vec<u64> = std::iter::once(&time).chain(inputs).chain(parameters).map(|one| one.to_bits()).collect();
        let (states, is_positive) = (Vec::new(), Vec::new());
        self.recorded(key, Mode { before: FRESH, time, states, inputs: inputs.to_vec(), is_positive }, parameters)
    }

    /// The mode after an event, with the same facts.
    fn event(&self, point: &Point<'_>) -> Result<Vec<f64>, ForeignFailure> {
        let numbers = [point.time].into_iter().chain([point.states, point.inputs, point.parameters].concat());
        let key: Vec<u64> = std::iter::once(point.mode).chain(numbers.map(f64::to_bits)).collect();
        let (states, inputs) = (point.states.to_vec(), point.inputs.to_vec());
        let mode = Mode { before: point.mode, time: point.time, states, inputs, is_positive: Vec::new() };
        self.recorded(key, mode, point.parameters)
    }

    /// What happens at an event or a start, recorded as a mode.
    fn recorded(&self, key: Vec<u64>, mode: Mode, parameters: &[f64]) -> Result<Vec<f64>, ForeignFailure> {
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

    /// Typical sizes of the arguments, for differences.
    pub(crate) fn scale(&self, function: u32, at: usize, value: f64) -> f64 {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        let offset = if function == function::START { n_states + 1 } else { 0 };
        let scalars = &self.description.scalars;
        let place = if at == 0 { 0 } else { at + offset };
        let nominal = match place {
            0 => {
                let experiment = &self.description.experiment;
                let span = experiment.stop.unwrap_or(1.0) - experiment.start.unwrap_or(0.0);
                return span.abs().max(value.abs()).max(f64::MIN_POSITIVE);
            }
            1 => return 1.0,
            at if at < 2 + n_states => scalars[self.description.states[at - 2].state].nominal,
            at if at < 2 + n_states + n_inputs => scalars[self.inputs[at - 2 - n_states]].nominal,
            at => {
                // A parameter has the size that it has.
                let given = scalars[self.parameters[at - 2 - n_states - n_inputs]].nominal;
                let size = if value == 0.0 { given.unwrap_or(1.0) } else { value };
                return size.abs();
            }
        };
        nominal.unwrap_or(1.0).abs().max(value.abs())
    }

    /// The derivative of a function along a direction, as a sum of answers.
    ///
    /// Along states and inputs the unit is asked, where it offers that. Parameters are moved alone and always by the same
    /// step, so that the instances at these values are used again.
    fn derivative(&self, function: u32, inputs: &[f64], direction: &[f64]) -> Sum {
        let n_before = direction.len() - self.arguments.n_parameters;
        let (mut along, mut of_parameters) = (direction.to_vec(), direction.to_vec());
        along[n_before..].fill(0.0);
        of_parameters[..n_before].fill(0.0);
        if function != function::START {
            // A mode is a name, not a number.
            along[1] = 0.0;
        }
        let is_offered = function == function::DERIVATIVES && self.has_directional.load(Ordering::Relaxed);
        let mut sum = Sum::new();
        if is_offered && along[0] == 0.0 {
            sum.extend(self.directional(inputs, &along));
        } else {
            self.differences(function, inputs, &along, &mut sum);
        }
        self.differences(function, inputs, &of_parameters, &mut sum);
        sum
    }

    /// Derivatives along a direction in states and inputs, from the unit.
    fn directional(&self, arguments: &[f64], along: &[f64]) -> Option<(Question, f64)> {
        let scalars = &self.description.scalars;
        let direction = self.arguments.point(along);
        let (mut knowns, mut seed) = (Vec::new(), Vec::new());
        let states = self.description.states.iter().map(|state| state.state).zip(direction.states);
        let inputs = self.inputs.iter().copied().zip(direction.inputs);
        for (at, &change) in states.chain(inputs).filter(|(_, change)| **change != 0.0) {
            knowns.push(scalars[at].block.reference);
            seed.push(change);
        }
        let arguments = arguments.to_vec();
        (!knowns.is_empty()).then_some((Question::Directional { arguments, knowns, seed }, 1.0))
    }

    /// Central differences along a direction: the largest move in units of typical sizes is the cube root of the
    /// rounding unit, or of the noise of the unit if that is more.
    fn differences(&self, function: u32, inputs: &[f64], direction: &[f64], sum: &mut Sum) {
        let moves = inputs.iter().zip(direction).enumerate().filter(|(_, (_, change))| **change != 0.0);
        let largest =
            moves.map(|(at, (&value, change))| change.abs() / self.scale(function, at, value)).fold(0.0, f64::max);
        if largest == 0.0 {
            return;
        }
        let step = self.noise().max(f64::EPSILON).cbrt() / largest;
        let part = part_of(function);
        for sign in [1.0, -1.0] {
            let arguments = inputs.iter().zip(direction).map(|(at, change)| at + sign * step * change).collect();
            sum.push((Question::Evaluate { part, arguments }, sign / (2.0 * step)));
        }
    }

    /// The same for starts and events, whose answers are recorded as modes and asked one by one.
    fn differences_of_history(
        &self,
        function: u32,
        inputs: &[f64],
        direction: &[f64],
        outputs: &mut [f64],
    ) -> Result<(), ForeignFailure> {
        outputs.fill(0.0);
        let mut values = vec![0.0; outputs.len()];
        for (question, weight) in self.derivative(function, inputs, direction) {
            self.evaluate(function, question.arguments(), &mut values)?;
            outputs.iter_mut().zip(&values).for_each(|(output, value)| *output += weight * value);
        }
        Ok(())
    }

    /// The values of sums, each of a function, by as few messages as possible; NaN where there is none.
    fn sums(&self, sums: &[(u32, Sum)]) -> Vec<Vec<f64>> {
        let questions = sums.iter().flat_map(|(_, sum)| sum).map(|(question, _)| question.clone());
        self.totals(sums, &mut self.answers(&questions.collect::<Vec<Question>>()).into_iter())
    }

    /// The values of sums from the answers to all their questions, one after the other.
    fn totals(
        &self,
        sums: &[(u32, Sum)],
        answers: &mut dyn Iterator<Item = Result<Vec<f64>, ForeignFailure>>,
    ) -> Vec<Vec<f64>> {
        let mut values = Vec::with_capacity(sums.len());
        for (function, sum) in sums {
            let n_outputs = self.n_outputs(*function);
            let mut total = vec![0.0; n_outputs];
            for (_, weight) in sum {
                match answers.next() {
                    Some(Ok(answer)) if answer.len() == n_outputs => {
                        total.iter_mut().zip(answer).for_each(|(total, one)| *total += weight * one);
                    }
                    _ => total.fill(f64::NAN),
                }
            }
            values.push(total);
        }
        values
    }

    /// Derivatives at points; where the unit's own fail, differences take their place.
    fn derivatives(&self, function: u32, points: &[(&[f64], &[f64])]) -> Vec<Vec<f64>> {
        self.derivatives_of(&[function], points).pop().unwrap_or_default()
    }

    /// The same for several functions, by one message where possible; function by function.
    fn derivatives_of(&self, functions: &[u32], points: &[(&[f64], &[f64])]) -> Vec<Vec<Vec<f64>>> {
        let is_offered = self.has_directional.load(Ordering::Relaxed);
        let of_function = |&function: &u32| {
            points.iter().map(move |(inputs, direction)| (function, self.derivative(function, inputs, direction)))
        };
        let sums: Vec<(u32, Sum)> = functions.iter().flat_map(of_function).collect();
        let mut values = self.sums(&sums).into_iter();
        let is_bad = |values: &Vec<f64>| values.iter().any(|value| value.is_nan());
        let mut all = Vec::with_capacity(functions.len());
        for &function in functions {
            let mut own: Vec<Vec<f64>> = values.by_ref().take(points.len()).collect();
            if is_offered && function == function::DERIVATIVES && own.iter().any(is_bad) {
                for (value, (inputs, direction)) in own.iter_mut().zip(points).filter(|(value, _)| is_bad(value)) {
                    let mut sum = Sum::new();
                    let mut along = direction.to_vec();
                    along[1] = 0.0;
                    self.differences(function, inputs, &along, &mut sum);
                    *value = self.sums(&[(function, sum)]).pop().unwrap_or_default();
                }
            }
            all.push(own);
        }
        all
    }

    /// Number of results of a function of a point.
    pub(crate) fn n_outputs(&self, function: u32) -> usize {
        match function {
            function::DERIVATIVES => self.arguments.n_states,
            function::INDICATORS => self.opening.n_indicators,
            _ => n_values(&self.opening.values),
        }
    }

    /// The column of a Jacobian that a direction stands for: the state or parameter that moves alone, as an argument,
    /// and how far.
    fn column(&self, function: u32, direction: &[f64]) -> Option<(usize, f64)> {
        let is_of_point = matches!(function, function::DERIVATIVES | function::INDICATORS | function::VALUES);
        let mut moved = direction.iter().enumerate().filter(|(_, change)| **change != 0.0);
        let (at, &change) = moved.next().filter(|_| is_of_point)?;
        let is_column = self.columns_with(at).contains(&at);
        (is_column && moved.next().is_none()).then_some((at, change))
    }

    /// The arguments whose columns are computed together with that of one: all states, or all parameters that move.
    fn columns_with(&self, at: usize) -> Vec<usize> {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        if at < 2 + n_states {
            return (2..2 + n_states).collect();
        }
        self.moved.iter().map(|parameter| 2 + n_states + n_inputs + parameter).collect()
    }

    /// A column of the Jacobian at a point. Who asks for one will ask for the others: they come in the same message.
    fn column_at(&self, function: u32, inputs: &[f64], at: usize) -> Option<Vec<f64>> {
        let partner = partner(function);
        {
            let mut columns = lock(&self.columns);
            let is_here = |one: &Columns| one.by.contains(&at) && one.arguments == inputs;
            if let Some(known) = columns.iter_mut().find(|one| one.function == function && is_here(one)) {
                match known.fetched_with.take() {
                    Some(Company::Columns) => self.pairs_of_columns.is_seen(),
                    Some(Company::Function) => self.pairs_with_columns.is_seen(),
                    None => {}
                }
                let place = known.by.iter().position(|&by| by == at)?;
                return known.values[place].clone();
            }
            if columns.iter().any(|one| Some(one.function) == partner && is_here(one)) {
                self.pairs_of_columns.is_seen();
            }
        }
        if function == function::DERIVATIVES
            && lock(&self.remembered).iter().any(|one| one.function == function && one.arguments == inputs)
        {
            self.pairs_with_columns.is_seen();
        }
        let fetched = partner.filter(|_| self.pairs_of_columns.fetches());
        let functions: Vec<u32> = std::iter::once(function).chain(fetched).collect();
        let by = self.columns_with(at);
        let directions: Vec<Vec<f64>> = by.iter().map(|&by| unit_direction(inputs.len(), by)).collect();
        let points: Vec<(&[f64], &[f64])> = directions.iter().map(|direction| (inputs, direction.as_slice())).collect();
        let found = self.derivatives_of(&functions, &points);
        let place = by.iter().position(|&by| by == at)?;
        let sound = |values: Vec<f64>| (!values.iter().any(|value| value.is_nan())).then_some(values);
        let mut wanted = None;
        for (of, values) in functions.into_iter().zip(found) {
            let values: Vec<Option<Vec<f64>>> = values.into_iter().map(sound).collect();
            if of == function {
                wanted.clone_from(&values[place]);
            }
            let fetched_with = (of != function).then_some(Company::Columns);
            let arguments = inputs.to_vec();
            self.remember_columns(Columns { function: of, arguments, by: by.clone(), values, fetched_with });
        }
        wanted
    }

    fn remember_columns(&self, one: Columns) {
        let n_numbers = one.by.len() * self.n_outputs(one.function);
        let most = (MOST_NUMBERS / n_numbers.max(1)).clamp(LEAST_REMEMBERED, 2 * MOST_REMEMBERED);
        let mut columns = lock(&self.columns);
        if columns.len() >= most {
            columns.remove(0);
        }
        columns.push(one);
    }

    /// The questions whose answers are the columns of the derivatives at a point: by the states, and by the parameters
    /// that move.
    fn all_columns(&self, inputs: &[f64]) -> Vec<AskedColumns> {
        let function = function::DERIVATIVES;
        let sum = |&by: &usize| (function, self.derivative(function, inputs, &unit_direction(inputs.len(), by)));
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        let parameters = self.moved.iter().map(|parameter| 2 + n_states + n_inputs + parameter).collect();
        let kinds: [Vec<usize>; 2] = [(2..2 + n_states).collect(), parameters];
        let kinds = kinds.into_iter().filter(|by| !by.is_empty());
        kinds.map(|by| (by.clone(), by.iter().map(sum).collect())).collect()
    }

    /// What the unit said last, for a derivative without a value.
    fn no_derivative(&self) -> ForeignFailure {
        lock(&self.trouble).last.clone().unwrap_or_else(|| ForeignFailure {
            code: "fmu-status",
            message: "the unit has no derivative here".to_owned(),
            help: String::new(),
        })
    }

    /// What the description says that an unknown depends on; `None`: on everything.
    fn said_dependencies(&self, function: u32, output: usize) -> Option<&Vec<usize>> {
        if function == function::DERIVATIVES {
            return self.description.states[output].derivative.dependencies.as_ref();
        }
        let scalar = self.values[output];
        self.description.outputs.iter().find(|unknown| unknown.scalar == scalar)?.dependencies.as_ref()
    }

    /// The same, unless the unit was found to leave some out.
    fn believed_dependencies(&self, function: u32, output: usize) -> Option<&Vec<usize>> {
        let is_wrong = self.probed().is_some_and(|probed| probed.hidden_dependency.is_some());
        self.said_dependencies(function, output).filter(|_| !is_wrong)
    }

    /// Whether the description says that some unknown does not depend on everything.
    pub(crate) fn declares_dependencies(&self, function: u32) -> bool {
        (0..self.n_outputs(function)).any(|output| self.said_dependencies(function, output).is_some())
    }

    /// Whether the description lets an unknown depend on an argument.
    pub(crate) fn is_said_to_depend(&self, function: u32, output: usize, argument: usize) -> bool {
        self.depends_on(self.said_dependencies(function, output), argument)
    }

    /// The name of an unknown.
    pub(crate) fn unknown_name(&self, function: u32, output: usize) -> String {
        let scalars = &self.description.scalars;
        match function {
            function::DERIVATIVES => format!("der({})", scalars[self.description.states[output].state].name),
            _ => scalars[self.values[output]].name.clone(),
        }
    }

    /// The name of a state or input among the arguments.
    pub(crate) fn argument_name(&self, at: usize) -> String {
        let place = at - 2;
        let states = self.description.states.iter().map(|state| state.state);
        let scalar = states.chain(self.inputs.iter().copied()).nth(place);
        scalar.map_or_else(String::new, |scalar| self.description.scalars[scalar].name.clone())
    }

    /// Whether an unknown of the model structure depends on an argument of the functions of a point.
    fn depends_on(&self, dependencies: Option<&Vec<usize>>, input: usize) -> bool {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        let is_listed = |scalar: usize| dependencies.is_none_or(|list| list.contains(&scalar));
        match input {
            0 => true,
            1 => false,
            at if at < 2 + n_states => is_listed(self.description.states[at - 2].state),
            at if at < 2 + n_states + n_inputs => is_listed(self.inputs[at - 2 - n_states]),
            at => self.moved.contains(&(at - 2 - n_states - n_inputs)),
        }
    }

    /// Names of the parameters that can be set: `@start(x)` is the start value of x.
    pub fn parameter_names(&self) -> impl Iterator<Item = &str> {
        self.parameter_names.iter().map(String::as_str)
    }

    /// Names of the inputs.
    pub fn input_names(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|&at| self.description.scalars[at].name.as_str())
    }

    /// Names of the values that are read.
    pub fn value_names(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|&at| self.description.scalars[at].name.as_str())
    }

    /// Whether outputs may be read after inputs were set and before the next step. Both versions of the standard forbid
    /// it [@fmi2, sec. 4.2.4; @fmi3, sec. 4.2.1]: outputs are what the last step computed. The units that this program
    /// writes allow it.
    #[must_use]
    pub fn can_look(&self) -> bool {
        self.description.is_own()
    }

    /// A run of a unit that integrates itself: `inputs` fills in the inputs that hold from the time of a number on,
    /// `row` gets what is read at one time after the other, up to where the unit ends.
    ///
    /// # Errors
    /// When the unit fails; the error has where.
    pub fn step_through(
        &self,
        times: &[f64],
        parameters: &[f64],
        inputs: &mut dyn FnMut(usize, &mut [f64]),
        row: &mut dyn FnMut(SteppedRow),
    ) -> Result<(), ForeignFailure> {
        let Some(&first) = times.first() else { return Ok(()) };
        let mut given = self.default_inputs();
        inputs(0, &mut given);
        let point = Point { time: first, mode: FRESH, states: &[], inputs: &given, parameters };
        self.at(&point, |unit, worker, at| {
            let mut now = given.clone();
            unit.begin(worker, at, first, &now, &point)?;
            let slot = worker.slots[at].number;
            let frame = unit.request(verb::EVALUATE, slot, Some(part::VALUES), first, &[], &now);
            let before = unit.asked(worker, &frame, "evaluating", &point)?;
            row(SteppedRow { time: first, after: before.clone(), before, is_over: false });
            for (number, pair) in times.windows(2).enumerate() {
                let point = Point { time: pair[0], ..point };
                let frame = unit.request(verb::STEP, slot, None, pair[0], &[], &now).real(pair[1] - pair[0]);
                let answer = unit.asked(worker, &frame, "taking a step", &point)?;
                let [is_over, time, before @ ..] = answer.as_slice() else { return Err(garbled()) };
                let (is_over, before) = (*is_over != 0.0, before.to_vec());
                let mut after = before.clone();
                if !is_over {
                    inputs(number + 1, &mut now);
                    if unit.can_look() {
                        let frame = unit.request(verb::LOOK, slot, None, pair[1], &[], &now);
                        after = unit.asked(worker, &frame, "evaluating", &Point { time: pair[1], ..point })?;
                    }
                }
                row(SteppedRow { time: if is_over { *time } else { pair[1] }, before, after, is_over });
                if is_over {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// What is read of a unit that integrates itself.
#[derive(Clone, PartialEq, Debug)]
pub struct SteppedRow {
    /// The time, which is the one asked for unless the unit ended before it.
    pub time: f64,
    /// The values after the step that led here.
    pub before: Vec<f64>,
    /// The values after the inputs that hold from here on were set, where the unit can be read then; else those before.
    pub after: Vec<f64>,
    /// The unit ended the simulation.
    pub is_over: bool,
}

impl ForeignUnit for Unit {
    fn evaluate(&self, function: u32, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
        let partner = partner(function);
        {
            let mut remembered = lock(&self.remembered);
            let is_this = |one: &&mut Remembered| one.function == function && one.arguments == inputs;
            if let Some(known) = remembered.iter_mut().find(is_this) {
                if std::mem::take(&mut known.is_fetched) {
                    self.pairs.is_seen();
                }
                outputs.copy_from_slice(&known.values);
                return Ok(());
            }
            if remembered.iter().any(|one| Some(one.function) == partner && one.arguments == inputs) {
                self.pairs.is_seen();
            }
        }
        let values = match function {
            function::START => {
                let (given, parameters) = inputs[1..].split_at(self.arguments.n_inputs);
                self.start(inputs[0], given, parameters)?
            }
            function::EVENT => self.event(&self.arguments.point(inputs))?,
            _ => {
                let fetched = partner.filter(|_| self.pairs.fetches());
                let question =
                    |function: u32| Question::Evaluate { part: part_of(function), arguments: inputs.to_vec() };
                let mut questions: Vec<Question> = std::iter::once(function).chain(fetched).map(question).collect();
                let has_columns = function == function::DERIVATIVES && self.pairs_with_columns.fetches();
                let columns = if has_columns { self.all_columns(inputs) } else { Vec::new() };
                let sums = columns.iter().flat_map(|(_, sums)| sums).flat_map(|(_, sum)| sum);
                questions.extend(sums.map(|(question, _)| question.clone()));
                let mut answers = self.answers_of_different(&questions).into_iter();
                let values = answers.next().unwrap_or_else(|| Err(self.note(&garbled())))?;
                if let Some(function) = fetched
                    && let Some(Ok(values)) = answers.next()
                {
                    self.remember(Remembered { function, arguments: inputs.to_vec(), values, is_fetched: true });
                }
                for (by, sums) in columns {
                    let values = self.totals(&sums, &mut answers);
                    // What failed is asked again, in other ways.
                    if values.iter().flatten().all(|value| !value.is_nan()) {
                        let (arguments, fetched_with) = (inputs.to_vec(), Some(Company::Function));
                        let values = values.into_iter().map(Some).collect();
                        self.remember_columns(Columns { function, arguments, by, values, fetched_with });
                    }
                }
                values
            }
        };
        if values.len() != outputs.len() {
            return Err(self.note(&ForeignError::Changed { what: "the unit gave another number of values".to_owned() }));
        }
        outputs.copy_from_slice(&values);
        self.remember(Remembered { function, arguments: inputs.to_vec(), values, is_fetched: false });
        Ok(())
    }

    fn tangent(
        &self,
        function: u32,
        inputs: &[f64],
        direction: &[f64],
        outputs: &mut [f64],
    ) -> Result<(), ForeignFailure> {
        if matches!(function, function::START | function::EVENT) {
            return self.differences_of_history(function, inputs, direction, outputs);
        }
        let values = match self.column(function, direction) {
            Some((at, change)) => {
                let column = self.column_at(function, inputs, at);
                column.map(|column| column.iter().map(|value| change * value).collect())
            }
            None => self.derivatives(function, &[(inputs, direction)]).pop(),
        };
        let Some(values) = values.filter(|values: &Vec<f64>| !values.iter().any(|value| value.is_nan())) else {
            return Err(self.no_derivative());
        };
        outputs.copy_from_slice(&values);
        Ok(())
    }

    fn evaluate_all(&self, function: u32, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        let part = match function {
            function::DERIVATIVES => part::DERIVATIVES,
            function::INDICATORS => part::INDICATORS,
            function::VALUES => part::VALUES,
            _ => u8::MAX,
        };
        if n_points < 2 || part == u8::MAX {
            for (inputs, outputs) in points(n_points, inputs, outputs) {
                if self.evaluate(function, inputs, outputs).is_err() {
                    outputs.fill(f64::NAN);
                }
            }
            return;
        }
        let lists = inputs.chunks(inputs.len() / n_points);
        let questions: Vec<Question> =
            lists.map(|arguments| Question::Evaluate { part, arguments: arguments.to_vec() }).collect();
        let n_outputs = outputs.len() / n_points;
        for (answer, outputs) in self.answers(&questions).into_iter().zip(outputs.chunks_mut(n_outputs.max(1))) {
            match answer {
                Ok(values) if values.len() == outputs.len() => outputs.copy_from_slice(&values),
                _ => outputs.fill(f64::NAN),
            }
        }
    }

    fn tangent_all(&self, function: u32, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        if n_points < 2 || matches!(function, function::START | function::EVENT) {
            for (inputs, outputs) in points(n_points, inputs, outputs) {
                let (point, direction) = inputs.split_at(inputs.len() / 2);
                let is_still = direction.iter().all(|&change| change == 0.0);
                if is_still {
                    outputs.fill(0.0);
                } else if self.tangent(function, point, direction, outputs).is_err() {
                    outputs.fill(f64::NAN);
                }
            }
            return;
        }
        let (n_inputs, n_outputs) = (inputs.len() / n_points, outputs.len() / n_points);
        let lists: Vec<(&[f64], &[f64])> = inputs.chunks(n_inputs).map(|all| all.split_at(n_inputs / 2)).collect();
        let values = self.derivatives(function, &lists);
        for (values, outputs) in values.into_iter().zip(outputs.chunks_mut(n_outputs.max(1))) {
            outputs.copy_from_slice(&values);
        }
    }

    fn depends(&self, function: u32, output: usize, input: usize) -> bool {
        match function {
            function::DERIVATIVES => self.depends_on(self.believed_dependencies(function, output), input),
            function::INDICATORS => input != 1 && self.depends_on(None, input),
            function::VALUES => {
                self.description.scalars[self.values[output]].variability == Variability::Continuous
                    && self.depends_on(self.believed_dependencies(function, output), input)
            }
            // Time, inputs and parameters, no mode and no states.
            function::START => {
                output >= 3 && (input == 0 || self.depends_on(None, input + 1 + self.arguments.n_states))
            }
            _ => output >= 3 && input != 1 && self.depends_on(None, input),
        }
    }

    fn whole_variables(&self) -> Vec<&str> {
        let scalars = self.values.iter().map(|&at| &self.description.scalars[at]);
        scalars.filter(|scalar| !scalar.block.scalar_type.is_real()).map(|scalar| scalar.name.as_str()).collect()
    }

    fn noise(&self) -> f64 {
        self.probed().map_or(0.0, |probed| probed.noise)
    }

    fn failure(&self) -> Option<ForeignFailure> {
        lock(&self.trouble).last.clone()
    }
}

/// A number for a new instance. Broken ones were taken out of the list, so its length may be the number of another.
fn free_number(slots: &[Slot]) -> u64 {
    let is_taken = |number: &u64| slots.iter().any(|slot| slot.number == *number);
    (0..).find(|number| !is_taken(number)).unwrap_or_default()
}

/// The direction along one argument.
fn unit_direction(n: usize, along: usize) -> Vec<f64> {
    (0..n).map(|at| f64::from(u8::from(at == along))).collect()
}

/// What a worker is asked for the values of a function of a point.
pub(crate) fn part_of(function: u32) -> u8 {
    match function {
        function::DERIVATIVES => part::DERIVATIVES,
        function::INDICATORS => part::INDICATORS,
        _ => part::VALUES,
    }
}

/// A path as a URI.
fn uri(path: &Path) -> String {
    let text = path.display().to_string().replace('\\', "/");
    let mut made = String::from(if text.starts_with('/') { "file://" } else { "file:///" });
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                made.push(char::from(byte))
            }
            other => made.push_str(&format!("%{other:02X}")),
        }
    }
    made
}

/// Number of values of a unit.
pub(crate) fn count_values(unit: &Unit) -> usize {
    n_values(&unit.opening.values)
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
