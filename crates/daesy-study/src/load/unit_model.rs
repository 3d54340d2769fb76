//! The model that a unit is.

use std::path::Path;
use std::sync::Arc;

use daesy_foreign::description::{Scalar, ScalarType, UnitDescription};
use daesy_foreign::unit::start_name;
use daesy_foreign::{ForeignError, Residence, Unit, Uses, described, flat_model, read_description};
use daesy_graph::finding::{Finding, Level};
use daesy_graph::flat::FlatDae;

use super::Native;
use super::apply::no_boolean;
use crate::diagnostic::Diagnostic;
use crate::study::{Named, Quantity, QuantityValue, Study};

pub(super) fn is_unit(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("fmu"))
}

/// A unit of another tool as a model.
pub(super) struct UnitModel {
    pub(super) flat: FlatDae,
    pub(super) unit: Option<Arc<Unit>>,
    pub(super) notes: Vec<Diagnostic>,
}

pub(super) fn unit_model(
    path: &Path,
    values: &[(String, f64)],
    uses: &Uses<'_>,
    native: Native,
    study: Option<&Study>,
) -> Result<UnitModel, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let refused = |error: ForeignError| {
        vec![Diagnostic::about_file(error.code(), &shown, error.to_string()).with_help(error.help())]
    };
    let (archive, description) = read_description(path).map_err(refused)?;
    match native {
        Native::Describe => {
            return Ok(UnitModel { flat: described(&description, values), unit: None, notes: Vec::new() });
        }
        Native::Forbidden => return Err(refused(ForeignError::Forbidden)),
        Native::Run => {}
    }
    let unit = Arc::new(Unit::open(&archive, description, uses, Residence::Apart).map_err(refused)?);
    drop(archive);
    if let Some(study) = study {
        let wrong = values_of_unit(unit.description(), study);
        if !wrong.is_empty() {
            return Err(wrong.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect());
        }
    }
    let flat = flat_model(&unit, values).map_err(|failure| {
        vec![Diagnostic::about_file(failure.code, &shown, failure.message).with_help(failure.help)]
    })?;
    let tool = unit.description().tool.as_deref().map_or_else(String::new, |tool| format!(" (made by {tool})"));
    let message = format!("the model is third-party native code{tool}, which ran in processes of its own");
    let mut note = Diagnostic::about_file("foreign-code", &shown, message).with_level(Level::Note);
    note = note.with_help("run units of people you trust only; `--no-native` forbids it");
    let mut notes = vec![note];
    for remark in unit.remarks() {
        let told = Diagnostic::about_file(remark.code, &shown, remark.message).with_level(Level::Warning);
        notes.push(told.with_help(remark.help));
    }
    Ok(UnitModel { flat, unit: Some(unit), notes })
}

/// Start values that a study gives as numbers, by the names of the parameters that hold them.
pub(super) fn numbers_of_starts(study: &Study) -> Vec<(String, f64)> {
    let number = |value: &Named<Quantity>| match value.item.value {
        QuantityValue::Number(number) => Some((start_name(&value.name), number)),
        QuantityValue::Expression(_) => None,
    };
    study.initial.values.iter().filter_map(number).collect()
}

/// Findings about values that variables of a unit cannot have.
fn values_of_unit(description: &UnitDescription, study: &Study) -> Vec<Finding> {
    let given = study.parameters.iter().chain(&study.initial.values);
    let problem = |value: &Named<Quantity>| {
        let QuantityValue::Number(number) = value.item.value else { return None };
        let is_boolean = |scalar: &Scalar| scalar.name == value.name && scalar.block.scalar_type == ScalarType::Boolean;
        if study.initial.truths.contains(&value.name) && !description.scalars.iter().any(is_boolean) {
            return Some(no_boolean(value));
        }
        let message = description.value_problem(&value.name, number)?;
        Some(Finding::error("wrong-type", value.item.span, message).with_names([&value.name]))
    };
    given.filter_map(problem).collect()
}

/// Start values that a study gives are set in the unit before it is initialized, or after that where they are of states
/// that it computes; what the unit makes of them is where it starts.
pub(super) fn take_back_starts(flat: &mut FlatDae, study: &Study) {
    for value in &study.initial.values {
        let (parameter, variable) = (flat.find(&start_name(&value.name)), flat.find(&value.name));
        if let (Some(parameter), Some(variable)) = (parameter, variable) {
            flat.variables[parameter.index()].binding = flat.variables[variable.index()].start;
            let variable = &mut flat.variables[variable.index()];
            (variable.fixed, variable.is_start_of_type) = (None, false);
        }
    }
}
