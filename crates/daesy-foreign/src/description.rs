//! `modelDescription.xml` of FMI 2.0 and 3.0 as one structure [@fmi2; @fmi3].
//!
//! Arrays of FMI 3 whose dimensions are numbers, or structural parameters at their start values, become scalars
//! `name[i,j]`, the last index running fastest; what belongs together when values are exchanged is a [`Block`].

mod dialect2;
mod dialect3;
mod element;

use std::sync::Arc;

use daesy_graph::flat::LARGEST_INTEGER;

use crate::error::ForeignError;

/// Largest description.
const MAX_BYTES: usize = 256 << 20;
/// Most elements and texts.
const MAX_NODES: u32 = 8_000_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 64;
/// Most scalars that arrays may become.
const MAX_SCALARS: usize = 1_000_000;

/// Version of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// FMI 2.0
    Two,
    /// FMI 3.0
    Three,
}

impl Version {
    /// As it is written.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Two => "2.0",
            Self::Three => "3.0",
        }
    }
}

/// Who integrates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The importer: Model Exchange.
    ModelExchange,
    /// The unit: Co-Simulation.
    CoSimulation,
}

/// What a unit says about one of its interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// Name of the library.
    pub identifier: String,
    /// Whether derivatives along directions are offered.
    pub has_directional_derivatives: bool,
    /// Whether its state can be saved and set.
    pub has_saved_states: bool,
    /// Whether there can be one instance in a process only.
    pub is_single: bool,
    /// Whether the tool that made it must be installed.
    pub needs_tool: bool,
    /// Whether it wants to be told of the ends of steps.
    pub needs_completed_steps: bool,
}

/// Types of variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum ScalarType {
    Float64 = 0,
    Float32 = 1,
    Int8 = 2,
    UInt8 = 3,
    Int16 = 4,
    UInt16 = 5,
    Int32 = 6,
    UInt32 = 7,
    Int64 = 8,
    UInt64 = 9,
    Boolean = 10,
    Enumeration = 11,
    String = 12,
    Binary = 13,
    Clock = 14,
}

impl ScalarType {
    /// The type with a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        use ScalarType::*;
        let all = [
            Float64,
            Float32,
            Int8,
            UInt8,
            Int16,
            UInt16,
            Int32,
            UInt32,
            Int64,
            UInt64,
            Boolean,
            Enumeration,
            String,
            Binary,
            Clock,
        ];
        all.get(usize::from(number)).copied()
    }

    /// Whether its values are numbers.
    #[must_use]
    pub const fn is_number(self) -> bool {
        (self as u8) < Self::String as u8
    }

    /// The least and the largest value of a type of whole numbers.
    #[must_use]
    pub const fn range(self) -> Option<(f64, f64)> {
        Some(match self {
            Self::Int8 => (i8::MIN as f64, i8::MAX as f64),
            Self::UInt8 => (0.0, u8::MAX as f64),
            Self::Int16 => (i16::MIN as f64, i16::MAX as f64),
            Self::UInt16 => (0.0, u16::MAX as f64),
            Self::Int32 | Self::Enumeration => (i32::MIN as f64, i32::MAX as f64),
            Self::UInt32 => (0.0, u32::MAX as f64),
            Self::Int64 => (-LARGEST_INTEGER, LARGEST_INTEGER),
            Self::UInt64 => (0.0, LARGEST_INTEGER),
            _ => return None,
        })
    }

    /// Whether a number is, after rounding, a value of the type.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        self.range().is_none_or(|(least, most)| (least..=most).contains(&value.round()))
    }

    /// Whether its values are real numbers.
    #[must_use]
    pub const fn is_real(self) -> bool {
        matches!(self, Self::Float64 | Self::Float32)
    }
}

/// What a variable is to the outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Causality {
    Parameter,
    StructuralParameter,
    CalculatedParameter,
    Input,
    Output,
    Local,
    Independent,
}

/// When a variable changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Variability {
    Constant,
    Fixed,
    Tunable,
    Discrete,
    Continuous,
}

/// How a variable gets its first value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Initial {
    Exact,
    Approx,
    Calculated,
}

/// Values that are exchanged together: a scalar, or all elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Block {
    /// Their type.
    pub scalar_type: ScalarType,
    /// The value reference.
    pub reference: u32,
    /// How many they are.
    pub size: u32,
}

/// A scalar variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar {
    /// Name, with subscripts where it is an element of an array.
    pub name: String,
    /// What it is exchanged with.
    pub block: Block,
    /// Its place there.
    pub offset: u32,
    /// What it is to the outside.
    pub causality: Causality,
    /// When it changes.
    pub variability: Variability,
    /// How it gets its first value.
    pub initial: Initial,
    /// Its first value.
    pub start: Option<f64>,
    /// The first value of a text.
    pub text: Option<Arc<str>>,
    /// Its unit.
    pub unit: Option<String>,
    /// Its unit for display.
    pub display_unit: Option<String>,
    /// Least value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Typical size.
    pub nominal: Option<f64>,
    /// What it is.
    pub description: Option<String>,
    /// Names of the values of an enumeration whose values are 1, 2, ..
    pub literals: Option<Arc<Literals>>,
}

/// An enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Literals {
    /// Name of the type.
    pub name: String,
    /// Names of its values.
    pub names: Vec<String>,
}

/// An unknown of the model structure with what it depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// Position among the variables.
    pub scalar: usize,
    /// Positions of the variables it depends on; `None`: on all.
    pub dependencies: Option<Vec<usize>>,
}

/// A continuous state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Position of the state among the variables.
    pub state: usize,
    /// Its derivative, with what that depends on.
    pub derivative: Unknown,
}

/// The default experiment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Experiment {
    /// Start time.
    pub start: Option<f64>,
    /// Stop time.
    pub stop: Option<f64>,
    /// Relative tolerance.
    pub tolerance: Option<f64>,
    /// Step.
    pub step: Option<f64>,
}

/// What `modelDescription.xml` says.
#[derive(Clone, PartialEq, Debug)]
pub struct UnitDescription {
    /// Version of the interface.
    pub version: Version,
    /// Name of the model.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// The tool that made it.
    pub tool: Option<String>,
    /// GUID or instantiation token.
    pub token: String,
    /// Model Exchange.
    pub model_exchange: Option<Interface>,
    /// Co-Simulation.
    pub co_simulation: Option<Interface>,
    /// Number of event indicators.
    pub n_indicators: usize,
    /// The variables that they are, where the version has some.
    pub indicators: Vec<usize>,
    /// The default experiment.
    pub experiment: Experiment,
    /// All variables.
    pub scalars: Vec<Scalar>,
    /// Continuous states, in the order in which they are exchanged.
    pub states: Vec<State>,
    /// Outputs.
    pub outputs: Vec<Unknown>,
}

impl UnitDescription {
    /// Reads a description.
    ///
    /// # Errors
    /// When it is no description, or one of a version that is not supported.
    pub fn read(bytes: &[u8]) -> Result<Self, ForeignError> {
        let text = element::text_of(bytes)?;
        element::check_depth(&text)?;
        let options = roxmltree::ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&text, options)
            .map_err(|error| ForeignError::Description { reason: error.to_string() })?;
        let root = document.root_element();
        if root.tag_name().name() != "fmiModelDescription" {
            return Err(ForeignError::Description {
                reason: format!("the first element is `{}`, not `fmiModelDescription`", root.tag_name().name()),
            });
        }
        let version = root.attribute("fmiVersion").unwrap_or("");
        match version.split('.').next() {
            Some("2") => dialect2::read(root),
            Some("3") => dialect3::read(root),
            _ => Err(ForeignError::Unsupported { what: format!("FMI version `{version}`") }),
        }
    }

    /// Whether this program wrote the unit.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.tool.as_deref().is_some_and(|tool| tool.starts_with("daesy "))
    }

    /// The interface to use: Model Exchange where both are offered.
    ///
    /// # Errors
    /// When there is none.
    pub fn interface(&self) -> Result<(Kind, &Interface), ForeignError> {
        match (&self.model_exchange, &self.co_simulation) {
            (Some(interface), _) => Ok((Kind::ModelExchange, interface)),
            (None, Some(interface)) => Ok((Kind::CoSimulation, interface)),
            (None, None) => Err(ForeignError::Unsupported {
                what: "a unit with neither Model Exchange nor Co-Simulation".to_owned(),
            }),
        }
    }

    /// Why a variable cannot have a value: its type has no such value.
    #[must_use]
    pub fn value_problem(&self, name: &str, value: f64) -> Option<String> {
        let scalar = self.scalars.iter().find(|scalar| scalar.name == name)?;
        let scalar_type = scalar.block.scalar_type;
        if scalar_type == ScalarType::Boolean {
            let is_value = value == 0.0 || value == 1.0;
            return (!is_value).then(|| format!("`{name}` is a Boolean and cannot be {value}: 0 is false, 1 is true"));
        }
        let (least, most) = scalar_type.range()?;
        let is_value = value.fract() == 0.0 && scalar_type.holds(value);
        (!is_value)
            .then(|| format!("`{name}` is an Integer of the unit that holds {least} to {most}, and cannot be {value}"))
    }

    /// How an interface is called in documents.
    #[must_use]
    pub fn kinds(&self) -> Vec<&'static str> {
        let offered = [(self.model_exchange.is_some(), "me"), (self.co_simulation.is_some(), "cs")];
        offered.iter().filter(|(is_offered, _)| *is_offered).map(|(_, name)| *name).collect()
    }
}

#[cfg(test)]
mod tests;
