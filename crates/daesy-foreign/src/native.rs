//! The library of a unit, loaded and called: the only place of this crate with `unsafe`.
//!
//! This runs in worker processes only, but for filters that carry a unit to another program. What is promised where code of somebody else is called, once for all blocks:
//!
//! - Functions are taken from the library by the names of the standard and have the signatures of its headers
//!   [@fmi2; @fmi3]; the library stays loaded as long as they may be called.
//! - An instance is the pointer that the library gave, not null, freed once, and used by one thread at a time.
//! - Arrays are handed over as a pointer with their own length, and live until the call returns.
//! - Texts end in a zero byte and live until the call returns; tables of callbacks live as long as the instance.
//!
//! What the library does with its own memory cannot be checked from here; that is why it runs in a process of its own.

mod logger;
mod three;
mod two;

use std::path::Path;

use libloading::Library;

use crate::description::{Block, Kind, Version};
use crate::error::ForeignError;

/// What to load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Binary {
    pub(crate) library: String,
    pub(crate) version: Version,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) token: String,
    pub(crate) resources: String,
    pub(crate) needs_completed_steps: bool,
}

/// What a unit says after an event.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Discrete {
    pub(crate) needs_update: bool,
    pub(crate) is_over: bool,
    pub(crate) states_changed: bool,
    pub(crate) next_time: Option<f64>,
}

/// What the unit says of a step that it was told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stepped {
    pub(crate) wants_event: bool,
    pub(crate) is_over: bool,
}

/// How far a step of the unit led.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Advanced {
    pub(crate) time: f64,
    pub(crate) is_over: bool,
}

/// Status of a call [@fmi2, sec. 2.1.3].
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Failed {
    /// There is no value at this point.
    Discard(String),
    /// The call failed.
    Error(ForeignError),
}

pub(crate) type Done<T = ()> = Result<T, Failed>;

/// A saved state of a unit; to be given back to the instance that made it.
#[derive(Debug)]
pub(crate) struct Saved(*mut std::ffi::c_void);

// SAFETY: It is a name for something inside an instance, and goes where that goes.
unsafe impl Send for Saved {}

/// Calls of an instance that both versions have.
pub(crate) trait Instance {
    fn setup(&mut self, time: f64, stop: Option<f64>, tolerance: Option<f64>) -> Done;
    fn enter_initialization(&mut self, time: f64, stop: Option<f64>, tolerance: Option<f64>) -> Done;
    fn exit_initialization(&mut self) -> Done;
    fn enter_event_mode(&mut self) -> Done;
    fn update_discrete(&mut self) -> Done<Discrete>;
    fn enter_continuous_mode(&mut self) -> Done;
    fn completed_step(&mut self) -> Done<Stepped>;
    fn set_time(&mut self, time: f64) -> Done;
    fn set_states(&mut self, states: &[f64]) -> Done;
    fn states(&mut self, states: &mut [f64]) -> Done;
    fn derivatives(&mut self, derivatives: &mut [f64]) -> Done;
    fn indicators(&mut self, indicators: &mut [f64]) -> Done;
    /// How many event indicators the library has, if it says so.
    fn n_indicators(&mut self) -> Done<Option<usize>>;
    fn set(&mut self, block: Block, values: &[f64]) -> Done;
    fn get(&mut self, blocks: &[Block], values: &mut [f64]) -> Done;
    fn directional(&mut self, unknowns: &[u32], knowns: &[u32], seed: &[f64], values: &mut [f64]) -> Done;
    fn step(&mut self, time: f64, length: f64) -> Done<Advanced>;
    fn save(&mut self) -> Done<Saved>;
    fn restore(&mut self, saved: &Saved) -> Done;
    fn forget(&mut self, saved: Saved);
}

/// A loaded library.
pub(crate) enum Loaded {
    Two(two::Functions),
    Three(three::Functions),
}

impl Loaded {
    /// Loads the library of a unit and looks its functions up.
    pub(crate) fn open(binary: &Binary) -> Result<Self, ForeignError> {
        let library = open(Path::new(&binary.library))?;
        Ok(match binary.version {
            Version::Two => Self::Two(two::Functions::find(library, binary.kind)?),
            Version::Three => Self::Three(three::Functions::find(library, binary.kind)?),
        })
    }

    /// A new instance.
    pub(crate) fn instance(&self, binary: &Binary) -> Result<Box<dyn Instance + Send + '_>, ForeignError> {
        Ok(match self {
            Self::Two(functions) => Box::new(two::Component::new(functions, binary)?),
            Self::Three(functions) => Box::new(three::Component::new(functions, binary)?),
        })
    }
}

#[cfg(unix)]
fn open(path: &Path) -> Result<Library, ForeignError> {
    use libloading::os::unix;
    // SAFETY: initializers of the library run here; see the head of this module.
    let opened = unsafe { unix::Library::open(Some(path), unix::RTLD_LAZY | unix::RTLD_LOCAL) };
    opened.map(Library::from).map_err(|error| ForeignError::Library { reason: error.to_string() })
}

#[cfg(not(unix))]
fn open(path: &Path) -> Result<Library, ForeignError> {
    // SAFETY: initializers of the library run here; see the head of this module.
    unsafe { Library::new(path) }.map_err(|error| ForeignError::Library { reason: error.to_string() })
}

/// A function of the library by its name, as a function pointer of type `T`.
fn find<T: Copy>(library: &Library, name: &str) -> Result<T, ForeignError> {
    // SAFETY: the standard says which type the function of this name has, and `T` is that type; see the head.
    let symbol = unsafe { library.get::<T>(name.as_bytes()) };
    symbol.map(|symbol| *symbol).map_err(|_| ForeignError::Missing { function: name.to_owned() })
}

/// What a status means: 0 fine, 1 warning, 2 discard, 3 error, 4 fatal, 5 pending.
fn judge(function: &str, status: i32) -> Done {
    let status = match status {
        0 | 1 => return Ok(()),
        2 => return Err(Failed::Discard(logger::words())),
        3 => "error",
        4 => "fatal",
        5 => "pending",
        _ => "unknown",
    };
    Err(Failed::Error(ForeignError::Status {
        function: function.to_owned(),
        status: status.to_owned(),
        place: String::new(),
        log: logger::words(),
    }))
}

fn not_offered<T>(function: &str) -> Done<T> {
    Err(Failed::Error(ForeignError::Missing { function: function.to_owned() }))
}

/// The standard output of this process for the caller alone: what the library prints goes nowhere.
#[cfg(unix)]
pub(crate) fn own_standard_output() -> Option<std::fs::File> {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    unsafe extern "C" {
        fn dup2(old: i32, new: i32) -> i32;
    }
    let own = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").ok()?;
    // SAFETY: both are open files, and nobody else of this process writes to standard output.
    let status = unsafe { dup2(nowhere.as_raw_fd(), std::io::stdout().as_raw_fd()) };
    (status >= 0).then(|| own.into())
}

/// The standard output of this process; a library that prints garbles it.
#[cfg(not(unix))]
pub(crate) fn own_standard_output() -> Option<std::io::Stdout> {
    Some(std::io::stdout())
}
