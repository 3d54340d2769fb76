//! The structure of a model as places of entries, for pictures: what is solved together in which order, and which
//! constraint holds which state.

use daesy_structure::words::equation_text;
use daesy_system::{DaeSystem, Part};

use crate::failure::Failure;
use crate::load::Loaded;
use crate::prepare::{Purpose, prepare};

/// Places of the entries of a matrix.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entries {
    /// Row of each entry.
    pub rows: Vec<usize>,
    /// Column of each entry.
    pub columns: Vec<usize>,
}

/// What is solved together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPlace {
    /// First row and column.
    pub start: usize,
    /// Number of rows and columns.
    pub len: usize,
}

/// An equation and how often it is differentiated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DifferentiatedEquation {
    /// The equation.
    pub text: String,
    /// How often.
    pub times: u16,
}

/// The structure of a model in regular form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructureMap {
    /// Full name of the model.
    pub model: String,
    /// Equations of the unknowns, in the order of solution.
    pub equations: Vec<String>,
    /// Unknowns in the same order.
    pub unknowns: Vec<String>,
    /// Which equation holds which unknown.
    pub entries: Entries,
    /// Blocks along the diagonal.
    pub blocks: Vec<BlockPlace>,
    /// States.
    pub states: Vec<String>,
    /// Constraints, hidden ones included.
    pub constraints: Vec<DifferentiatedEquation>,
    /// Which constraint holds which state.
    pub constraint_entries: Entries,
    /// Equations that are differentiated.
    pub differentiated: Vec<DifferentiatedEquation>,
}

/// The structure of a model.
///
/// # Errors
/// Diagnostics, when the model cannot be regularized.
pub fn structure_map(loaded: &Loaded) -> Result<StructureMap, Failure> {
    let prepared = prepare(loaded, Purpose::VERDICT)?;
    let system = &prepared.system;
    let description = system.description();
    let entries = |part: Part| {
        let (rows, columns) = system.pattern(part).entries().unzip();
        Entries { rows, columns }
    };
    let regular = system.regular();
    let differentiated = regular.verdict.differentiations.iter().enumerate().filter(|(_, times)| **times > 0);
    Ok(StructureMap {
        model: description.model.clone(),
        equations: description.residuals.iter().map(|label| label.text).collect(),
        unknowns: description.unknowns.iter().map(|unknown| unknown.name.clone()).collect(),
        entries: entries(Part::ResidualByUnknowns),
        blocks: description
            .blocks
            .iter()
            .map(|block| BlockPlace { start: block.start as usize, len: block.len as usize })
            .collect(),
        states: description.states.iter().map(|state| state.name.clone()).collect(),
        constraints: description
            .constraints
            .iter()
            .map(|label| DifferentiatedEquation { text: label.text, times: label.differentiated })
            .collect(),
        constraint_entries: entries(Part::ConstraintByStates),
        differentiated: differentiated
            .map(|(at, &times)| DifferentiatedEquation { text: equation_text(&regular.flat, at), times })
            .collect(),
    })
}
