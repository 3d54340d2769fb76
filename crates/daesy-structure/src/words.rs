//! Equations and lists of names as a person would say them.

use daesy_graph::flat::{FlatDae, Origin};
use daesy_graph::regular::Derivative;

/// `x`, `der(x)`, `der(der(x))`, ..
#[must_use]
pub fn derivative_name(flat: &FlatDae, derivative: Derivative) -> String {
    let name = flat.variables[derivative.var.index()].name.clone();
    (0..derivative.order).fold(name, |name, _| format!("der({name})"))
}

/// An equation in the model's words: as written where it was written, else as it follows from connections.
#[must_use]
pub fn equation_text(flat: &FlatDae, at: usize) -> String {
    let equation = &flat.equations[at];
    let text = flat.equation_text(equation);
    match equation.origin {
        Origin::Equation | Origin::Binding | Origin::Algorithm => text,
        Origin::Connection => format!("{text} (connection)"),
        Origin::FlowSum => format!("{text} (sum of flows at a connection)"),
        Origin::UnconnectedFlow => format!("{text} (nothing is connected)"),
    }
}

/// `a, b and c`, or the first few and how many more there are.
#[must_use]
pub fn enumerate(names: &[&str], max_listed: usize) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        _ if names.len() > max_listed => {
            let listed: Vec<String> = names[..max_listed].iter().map(|name| format!("`{name}`")).collect();
            format!("{} and {} more", listed.join(", "), names.len() - max_listed)
        }
        [before @ .., last] => {
            let listed: Vec<String> = before.iter().map(|name| format!("`{name}`")).collect();
            format!("{} and `{last}`", listed.join(", "))
        }
    }
}
