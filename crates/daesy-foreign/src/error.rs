//! Why a unit is refused, or runs no more.

use thiserror::Error;

/// What is wrong with a unit.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// The file cannot be read.
    #[error("`{file}` cannot be read: {reason}")]
    File {
        /// Which file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The archive is damaged, or has a form that no unit needs.
    #[error("the archive is damaged or of an unusual form: {reason}")]
    Archive {
        /// What is wrong with it.
        reason: String,
    },
    /// The archive would harm the machine it is unpacked on.
    #[error("the archive is not safe to unpack: {reason}")]
    Unsafe {
        /// What it would do.
        reason: String,
    },
    /// `modelDescription.xml` is missing or says something that the standard does not allow.
    #[error("modelDescription.xml: {reason}")]
    Description {
        /// What is wrong, and where.
        reason: String,
    },
    /// Something that the standard allows and daesy does not do.
    #[error("{what} is not supported")]
    Unsupported {
        /// What.
        what: String,
    },
    /// There is no binary for this machine.
    #[error("the unit has no binary for this machine (`{wanted}`), only for {offered}")]
    Platform {
        /// What is looked for.
        wanted: String,
        /// What there is.
        offered: String,
    },
    /// The library cannot be loaded.
    #[error("the unit's library cannot be loaded: {reason}")]
    Library {
        /// What the loader says.
        reason: String,
    },
    /// A function of the standard is missing.
    #[error("the unit's library lacks the function `{function}`")]
    Missing {
        /// Its name.
        function: String,
    },
    /// No instance could be made.
    #[error("the unit made no instance{log}")]
    NoInstance {
        /// What it said.
        log: String,
    },
    /// A function ended with an error.
    #[error("the unit's function `{function}` ended with the status {status}{place}{log}")]
    Status {
        /// The function.
        function: String,
        /// The status.
        status: String,
        /// Where in the run.
        place: String,
        /// What the unit said.
        log: String,
    },
    /// A variable cannot have a value.
    #[error("a variable of the unit cannot be {value}: it holds whole numbers from {least} to {most}{place}")]
    Range {
        /// The value.
        value: f64,
        /// What it may be at least.
        least: f64,
        /// What it may be at most.
        most: f64,
        /// Where in the run.
        place: String,
    },
    /// The unit took its process down.
    #[error("the unit crashed ({how}) while {doing}{place}")]
    Crashed {
        /// How the process ended.
        how: String,
        /// What was asked of it.
        doing: String,
        /// Where in the run.
        place: String,
    },
    /// The unit does not answer.
    #[error("the unit gave no answer within {seconds} s while {doing}{place}")]
    Hung {
        /// The time limit.
        seconds: u64,
        /// What was asked of it.
        doing: String,
        /// Where in the run.
        place: String,
    },
    /// The program that workers are started from is not there.
    #[error("no worker can be started: {reason}")]
    NoWorker {
        /// Why.
        reason: String,
    },
    /// Native code is not to be run.
    #[error("the unit is native code of another tool, and `--no-native` forbids to run it")]
    Forbidden,
    /// Something changed that was taken for fixed.
    #[error("{what}")]
    Changed {
        /// What.
        what: String,
    },
}

impl ForeignError {
    /// A short stable word for the kind.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Archive { .. } => "fmu-archive",
            Self::Unsafe { .. } => "fmu-unsafe",
            Self::Description { .. } => "fmu-description",
            Self::Unsupported { .. } => "fmu-unsupported",
            Self::Platform { .. } => "fmu-platform",
            Self::Library { .. } | Self::Missing { .. } => "fmu-library",
            Self::NoInstance { .. } => "fmu-instance",
            Self::Status { .. } | Self::Range { .. } | Self::Changed { .. } => "fmu-status",
            Self::Crashed { .. } => "fmu-crash",
            Self::Hung { .. } => "fmu-timeout",
            Self::NoWorker { .. } => "fmu-worker",
            Self::Forbidden => "no-native",
        }
    }

    /// The remedy.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::File { .. } => "check the path and its permissions",
            Self::Archive { .. } => "export the unit again, or copy it again if it was transferred",
            Self::Unsafe { .. } => "nothing was unpacked; do not trust this file, and ask whoever made it",
            Self::Description { .. } => "export the unit again, or report this to the maker of the exporting tool",
            Self::Unsupported { .. } => "export the unit another way: FMI 2.0 or 3.0, Model Exchange if possible",
            Self::Platform { .. } => "export it for this platform, or run daesy on one that it was exported for",
            Self::Library { .. } => "a library that it needs may be missing: `ldd` on the binary names it",
            Self::Missing { .. } => "the unit does not follow the standard: export it with another version of the tool",
            Self::NoInstance { .. } => {
                "the token in modelDescription.xml must be that of the binary, and a licence of the exporting tool may be needed"
            }
            Self::Range { .. } => "give a value that its type has, or export the unit with a wider type (FMI 3.0)",
            Self::Status { .. } => "look at the unit's own message, and at the values that it was given",
            Self::Changed { .. } => "report this with the unit",
            Self::Crashed { .. } => "the run itself goes on being safe; try other values, or ask the maker of the unit",
            Self::Hung { .. } => "raise the limit by the environment variable DAESY_FMU_SECONDS if it is only slow",
            Self::NoWorker { .. } => "install the program `daesy` beside the Python package, or put it on the PATH",
            Self::Forbidden => "leave the option out if you trust whoever made the unit",
        }
    }
}
