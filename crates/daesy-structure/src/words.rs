//! Equations and lists of names as a person would say them.

use std::fmt::Write as _;

use daesy_graph::flat::{FlatDae, Origin};
use daesy_graph::print::number_text;
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

/// A coefficient with the name it belongs to; an empty name is a number.
#[derive(Clone, PartialEq, Debug)]
pub struct Term {
    /// The coefficient.
    pub factor: f64,
    /// The name.
    pub name: String,
}

/// A number for people: ten digits.
#[must_use]
pub fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.9e}").parse().unwrap_or(value);
    number_text(rounded)
}

/// A sum such as `x1 - 2*x2 + 0.5`; `0` if there is nothing.
#[must_use]
pub fn combination_text(terms: &[Term]) -> String {
    let mut text = String::new();
    for term in terms.iter().filter(|term| term.factor != 0.0) {
        text.push_str(match (text.is_empty(), term.factor < 0.0) {
            (true, true) => "-",
            (true, false) => "",
            (false, true) => " - ",
            (false, false) => " + ",
        });
        let size = short(term.factor.abs());
        let _ = match (term.name.is_empty(), size == "1") {
            (true, _) => write!(text, "{size}"),
            (false, true) => write!(text, "{}", term.name),
            (false, false) => write!(text, "{size}*{}", term.name),
        };
    }
    if text.is_empty() { "0".to_owned() } else { text }
}
