//! Values that a variable may have by its type.

use daesy_graph::Span;
use daesy_graph::finding::{Finding, nearest};
use daesy_graph::flat::{FlatDae, LARGEST_INTEGER, ValueType, Variable, VariableKind};
use daesy_graph::print::number_text;

use super::Loaded;
use crate::diagnostic::Diagnostic;

/// That a parameter which must be able to take all values of an interval is no Real.
pub(super) fn no_real(variable: &Variable, span: Span, what: &str) -> Option<Finding> {
    let kind = match &variable.value_type {
        ValueType::Real => return None,
        ValueType::Integer => "an Integer",
        ValueType::Boolean => "a Boolean",
        ValueType::Enumeration(_) => "of an enumeration",
        ValueType::String => "a String",
    };
    let message =
        format!("`{}` is {kind} and cannot be {what}: values between those of its type mean nothing", variable.name);
    let help = "give its value in `[parameters]`, and compare studies with different ones";
    Some(Finding::error("wrong-type", span, message).with_names([&variable.name]).with_help(help))
}

/// Why a parameter cannot have a value: its type has no such value.
pub(crate) fn type_problem(variable: &Variable, value: f64) -> Option<String> {
    let name = &variable.name;
    let is_whole = value.fract() == 0.0;
    match &variable.value_type {
        ValueType::Integer if !is_whole => Some(format!("`{name}` is an Integer and cannot be {value}")),
        ValueType::Integer if value.abs() > LARGEST_INTEGER => Some(format!(
            "`{name}` is an Integer and cannot be {}: it is set to at most {LARGEST_INTEGER} in magnitude, and larger \
             ones are exact where the model gives them",
            number_text(value)
        )),
        ValueType::Boolean if value != 0.0 && value != 1.0 => {
            Some(format!("`{name}` is a Boolean and cannot be {value}: 0 is false, 1 is true"))
        }
        ValueType::Enumeration(enumeration)
            if !is_whole || value < 1.0 || value > enumeration.literals.len() as f64 =>
        {
            let literals: Vec<String> = enumeration
                .literals
                .iter()
                .enumerate()
                .map(|(at, literal)| format!("{} is {literal}", at + 1))
                .collect();
            Some(format!(
                "`{name}` is of the type `{}` and cannot be {value}: {}",
                enumeration.name,
                literals.join(", ")
            ))
        }
        ValueType::String => Some(format!("`{name}` is a String and cannot be given a number")),
        _ => None,
    }
}

/// Values given with `--set` must be values of the parameters' types.
///
/// # Errors
/// A diagnostic for each that is not.
pub fn check_types(loaded: &Loaded, set: &[(String, f64)]) -> Result<(), Vec<Diagnostic>> {
    let problem = |(name, value): &(String, f64)| {
        let variable = &loaded.flat.variables[loaded.flat.find(name)?.index()];
        let of_unit = || loaded.unit.as_ref().and_then(|unit| unit.description().value_problem(name, *value));
        let message = type_problem(variable, *value).or_else(of_unit)?;
        let mut diagnostic = Diagnostic::error("set", format!("--set: {message}"));
        diagnostic.names = vec![name.clone()];
        Some(diagnostic)
    };
    let diagnostics: Vec<Diagnostic> = set.iter().filter_map(problem).collect();
    if diagnostics.is_empty() { Ok(()) } else { Err(diagnostics) }
}

/// Names given with `--set` must be parameters that may be changed.
pub(super) fn check_set(flat: &FlatDae, set: &[(String, f64)]) -> Result<(), Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    for (name, _) in set {
        let problem = match flat.find(name).map(|var| &flat.variables[var.index()]) {
            Some(variable) if variable.kind != VariableKind::Parameter => {
                Some((format!("`{name}` is not a parameter"), None))
            }
            Some(variable) if variable.is_final => Some((format!("`{name}` is final and cannot be changed"), None)),
            Some(_) => None,
            None => {
                let known = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Parameter);
                let near = nearest(name, known.map(|variable| variable.name.as_str()));
                Some((format!("the model has no parameter `{name}`"), near.map(str::to_owned)))
            }
        };
        if let Some((message, near)) = problem {
            let mut diagnostic = Diagnostic::error("set", format!("--set: {message}"));
            diagnostic.names = vec![name.clone()];
            diagnostic.help = near.map(|near| format!("did you mean `{near}`?"));
            diagnostics.push(diagnostic);
        }
    }
    if diagnostics.is_empty() { Ok(()) } else { Err(diagnostics) }
}
