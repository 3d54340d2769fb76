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

mod ask;
mod binary;
mod dependencies;
mod differentiate;
mod function_calls;
mod place;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use daesy_graph::foreign::ForeignFailure;
use rustc_hash::FxHashMap;

use self::binary::{library, uri};
use crate::archive::Archive;
use crate::description::{Block, Causality, Initial, Kind, Scalar, UnitDescription, Variability, Version};
use crate::error::ForeignError;
use crate::folder::PrivateFolder;
use crate::message::{Opening, part, verb};
use crate::native::Binary;
use crate::probe::Probed;
use crate::process::Answering;
use crate::worker::n_values;

pub use self::binary::{read_archive, read_description};

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
}

impl Unit {
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

/// What a worker is asked for the values of a function of a point.
pub(crate) fn part_of(function: u32) -> u8 {
    match function {
        function::DERIVATIVES => part::DERIVATIVES,
        function::INDICATORS => part::INDICATORS,
        _ => part::VALUES,
    }
}

/// Number of values of a unit.
pub(crate) fn count_values(unit: &Unit) -> usize {
    n_values(&unit.opening.values)
}
