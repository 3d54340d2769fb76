//! The model inside a unit: what its resources hold, and what becomes of that when a unit is instantiated.

use daesy_compile::{CompileError, CompiledSystem, compile_with_events};
use daesy_graph::regular::RegularDae;
use daesy_graph::stored::{NotStored, from_bytes, to_bytes};

use crate::variable::{ExportedVariable, exported_variables};

/// The file in the resources that holds the model.
pub const RESOURCE: &str = "model.daesy";

/// How a unit is simulated when nobody says otherwise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// First time.
    pub start: f64,
    /// Last time.
    pub stop: f64,
    /// Time between rows of results.
    pub step: f64,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance, multiplied by nominal values.
    pub atol: f64,
}

impl Settings {
    pub(crate) const fn numbers(self) -> [f64; 5] {
        [self.start, self.stop, self.step, self.rtol, self.atol]
    }

    pub(crate) fn of(numbers: &[f64]) -> Option<Self> {
        let &[start, stop, step, rtol, atol] = numbers else { return None };
        Some(Self { start, stop, step, rtol, atol })
    }
}

/// Why the resources of a unit hold no model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The bytes cannot be read.
    #[error("the model in the resources cannot be read: {0}")]
    Unreadable(#[from] NotStored),
    /// The bytes are no filter.
    #[error("the filter in the resources cannot be read")]
    Damaged,
    /// The filter cannot be made.
    #[error("the filter in the resources cannot be made: {0}")]
    Refused(String),
    /// The model cannot be compiled.
    #[error("the model in the resources cannot be compiled: {0}")]
    Uncompiled(#[from] CompileError),
}

/// The bytes of the resource that holds a model.
#[must_use]
pub fn write_resource(regular: &RegularDae, settings: Settings) -> Vec<u8> {
    let mut bytes: Vec<u8> = settings.numbers().iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend_from_slice(&to_bytes(regular));
    bytes
}

/// What tells one unit from another: its resource as a number of 128 bits (FNV-1a), in the form of a GUID.
#[must_use]
pub fn token(resource: &[u8]) -> String {
    let mix =
        |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    let hash = resource.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, mix);
    let text = format!("{hash:032x}");
    format!("{{{}-{}-{}-{}-{}}}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
}

/// A model that can be instantiated.
pub struct Model {
    /// The compiled model.
    pub system: CompiledSystem,
    /// Its variables; a value reference is a position here.
    pub variables: Vec<ExportedVariable>,
    /// How it is simulated.
    pub settings: Settings,
    /// What tells it from others.
    pub token: String,
}

impl Model {
    /// Reads a resource.
    ///
    /// # Errors
    /// When it holds no model.
    pub fn read(resource: &[u8]) -> Result<Self, ModelError> {
        const LENGTH: usize = 40;
        if resource.len() < LENGTH {
            return Err(NotStored { at: resource.len() }.into());
        }
        let (head, rest) = resource.split_at(LENGTH);
        let number = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&head[8 * at..8 * at + 8]);
            f64::from_le_bytes(eight)
        };
        let settings = Settings::of(&[0, 1, 2, 3, 4].map(number)).ok_or(ModelError::Damaged)?;
        let system = compile_with_events(from_bytes(rest)?)?;
        let variables = exported_variables(&system);
        Ok(Self { system, variables, settings, token: token(resource) })
    }
}
