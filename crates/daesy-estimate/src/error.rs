//! What can be wrong with an estimation problem.

use daesy_pencil::PencilError;
use thiserror::Error;

/// Whether a signal is measured or to be estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalRole {
    /// Measured.
    Measured,
    /// To be estimated.
    Estimated,
}

/// Why an estimation problem has no answer at some parameter values. Numbers count from 0.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum EstimateError {
    /// The linear model itself has no unique solution.
    #[error("{0}")]
    Pencil(#[from] PencilError),
    /// The model has another structure than where the search began.
    #[error("the structure of the model changes: {0}")]
    StructureDiffers(StructureChange),
    /// A signal has infinite variance.
    #[error("white noise {noise} reaches signal {signal} directly or differentiated: its variance is infinite")]
    InfiniteVariance {
        /// Measured or estimated.
        role: SignalRole,
        /// Which signal.
        signal: usize,
        /// Which white noise.
        noise: usize,
    },
    /// A coefficient has no finite value.
    #[error("{what} has no finite value")]
    NotFinite {
        /// Which one.
        what: String,
    },
    /// The variance of a measurement is negative.
    #[error("the variance of measurement {measurement} is {value}, which is negative")]
    NegativeVariance {
        /// Which measurement.
        measurement: usize,
        /// Its variance.
        value: f64,
    },
    /// The intensity of white noise is negative.
    #[error("the intensity of white noise {noise} is {value}, which is negative")]
    NegativeIntensity {
        /// Which noise.
        noise: usize,
        /// Its intensity.
        value: f64,
    },
    /// A process that has no stationary state was to start there.
    #[error("{what} has no stationary distribution: its dynamics are not stable")]
    NotStable {
        /// Which process.
        what: &'static str,
    },
    /// The shaping filter of a disturbance is far faster than the model.
    #[error("the shaping filter of disturbance {filter} is so fast that it cannot be told from white noise")]
    FilterNotDynamic {
        /// Which filter.
        filter: usize,
    },
    /// Start conditions contradict each other.
    #[error("start condition {condition} contradicts the others by {residual:e}")]
    InconsistentStart {
        /// Which condition.
        condition: usize,
        /// By how much, in units of the condition.
        residual: f64,
    },
    /// White noise sets the start.
    #[error("start condition {condition} has white noise {noise} in it: the start would have infinite variance")]
    WhiteStart {
        /// Which condition.
        condition: usize,
        /// Which white noise.
        noise: usize,
    },
    /// The prediction is not finite.
    #[error("the prediction overflows at time {time}: the model is unstable, or far too fast")]
    Overflow {
        /// When.
        time: f64,
    },
    /// A measurement without noise contradicts what is known exactly.
    #[error("measurement {measurement} at time {time} is known exactly to be {expected}, but {found} was measured")]
    Contradiction {
        /// Which measurement.
        measurement: usize,
        /// When.
        time: f64,
        /// The predicted value.
        expected: f64,
        /// The measured value.
        found: f64,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// There is nothing to learn from.
    #[error("no sample is left to count")]
    NoSamples,
}

/// How two structures differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StructureChange {
    /// The number of free start values.
    DegreesOfFreedom {
        /// At the start.
        was: usize,
        /// Here.
        is: usize,
    },
    /// The index.
    Index {
        /// At the start.
        was: usize,
        /// Here.
        is: usize,
    },
    /// The Jordan blocks at infinity.
    InfiniteBlocks {
        /// At the start.
        was: Vec<usize>,
        /// Here.
        is: Vec<usize>,
    },
    /// The leading coefficient of `det(s E - F)` has the other sign, so that it vanishes on the way.
    Crossed,
}

impl std::fmt::Display for StructureChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DegreesOfFreedom { was, is } => write!(formatter, "{was} degrees of freedom become {is}"),
            Self::Index { was, is } => write!(formatter, "index {was} becomes {is}"),
            Self::InfiniteBlocks { was, is } => {
                write!(formatter, "the blocks at infinity of sizes {was:?} become {is:?}")
            }
            Self::Crossed => write!(formatter, "on the way here the model loses a degree of freedom"),
        }
    }
}
