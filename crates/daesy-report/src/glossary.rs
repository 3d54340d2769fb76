//! What a page says of the names it shows: unit and description from the model, and what experiments are called.

use std::collections::{BTreeMap, HashMap};

use daesy_graph::flat::{FlatDae, Variable, VariableKind};
use daesy_study::load::Loaded;
use daesy_study::study::Study;

/// Names of the model with what it says of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Glossary {
    entries: BTreeMap<String, Said>,
    experiments: Vec<String>,
    /// What the study wants to see.
    asked: Option<Vec<String>>,
    /// What is measured, estimated or an output.
    important: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Said {
    unit: String,
    description: String,
}

impl Glossary {
    /// What a model and its study say.
    #[must_use]
    pub fn of(loaded: &Loaded) -> Self {
        Self::new(&loaded.flat, loaded.study.as_ref())
    }

    /// What a model says, and a study where there is one.
    #[must_use]
    pub fn new(flat: &FlatDae, study: Option<&Study>) -> Self {
        let said = |variable: &Variable| Said {
            unit: variable.unit.as_ref().map_or_else(String::new, |unit| readable(&unit.text)),
            description: variable.description.as_ref().map_or_else(String::new, ToString::to_string),
        };
        let entries = flat.variables.iter().map(|variable| (variable.name.clone(), said(variable)));
        let files = study.and_then(|study| study.data.as_ref()).map(|data| &data.files);
        let experiments = files.into_iter().flatten().map(|file| file.name.clone()).collect();
        let asked = study.and_then(|study| study.report_signals.as_ref());
        let asked = asked.map(|signals| signals.iter().map(|signal| signal.name.clone()).collect());
        let measured = study.into_iter().flat_map(|study| study.measurements.iter().map(|signal| signal.name.clone()));
        let estimated = study.into_iter().flat_map(|study| study.signals.iter().map(|signal| signal.name.clone()));
        let is_output = |variable: &&Variable| {
            variable.is_output && matches!(variable.kind, VariableKind::Continuous | VariableKind::Discrete)
        };
        let outputs = flat.variables.iter().filter(is_output).map(|variable| variable.name.clone());
        let important = measured.chain(estimated).chain(outputs).collect();
        Self { entries: entries.collect(), experiments, asked, important }
    }

    /// Whether the study says what it wants to see.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Those of the names that matter: what the study asks for; else what is measured, estimated, an output or a state,
    /// which is what a derivative is there of; else all but derivatives. A name may come twice.
    #[must_use]
    pub fn that_matter(&self, names: &[String]) -> Vec<usize> {
        let places: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let place = |name: &str| places.get(name).copied();
        if let Some(asked) = &self.asked {
            return asked.iter().filter_map(|name| place(name)).collect();
        }
        let states = names.iter().filter_map(|name| place(name.strip_prefix("der(")?.strip_suffix(')')?));
        let mut chosen: Vec<usize> = self.important.iter().filter_map(|name| place(name)).chain(states).collect();
        if chosen.is_empty() {
            chosen = (0..names.len()).filter(|&at| !names[at].starts_with("der(")).collect();
        }
        chosen
    }

    /// The unit of a name; empty where it has none.
    #[must_use]
    pub fn unit(&self, name: &str) -> &str {
        self.entries.get(name).map_or("", |said| &said.unit)
    }

    /// The description of a name; empty where it has none.
    #[must_use]
    pub fn description(&self, name: &str) -> &str {
        self.entries.get(name).map_or("", |said| &said.description)
    }

    /// A name for an axis: with its unit.
    #[must_use]
    pub fn label(&self, name: &str) -> String {
        with_unit(name, self.unit(name))
    }

    /// A name for a caption: with its description.
    #[must_use]
    pub fn words(&self, name: &str) -> String {
        match self.description(name) {
            "" => name.to_owned(),
            description => format!("{name} ({description})"),
        }
    }

    /// What an experiment is called, from 0, where there are several.
    #[must_use]
    pub fn experiment(&self, at: usize, n_experiments: usize) -> String {
        if n_experiments < 2 {
            return String::new();
        }
        match self.experiments.get(at) {
            Some(file) => format!(" in experiment {} ({file})", at + 1),
            None => format!(" in experiment {}", at + 1),
        }
    }
}

/// A unit as one writes it by hand: `kg.m/s2` is kg·m/s², `degC` °C, and the unit 1 is none.
fn readable(unit: &str) -> String {
    if unit == "1" {
        return String::new();
    }
    let words = [("degC", "°C"), ("degF", "°F"), ("Ohm", "Ω"), ("deg", "°")];
    let mut text = String::new();
    let mut rest = unit;
    // Letters since the last operator: a word may have a prefix, and a number raises a name to its power.
    let mut n_letters = 0;
    while let Some(first) = rest.chars().next() {
        let word = words.iter().find(|(word, _)| {
            let after = rest.strip_prefix(word).map(|after| after.chars().next());
            n_letters < 2 && after.is_some_and(|next| !next.is_some_and(char::is_alphabetic))
        });
        if let Some((word, shown)) = word {
            text.push_str(shown);
            rest = &rest[word.len()..];
            n_letters += word.len();
            continue;
        }
        let power = "0123456789-+".chars().position(|digit| digit == first).filter(|_| n_letters > 0);
        match (power, first) {
            (Some(at), _) => text.extend("⁰¹²³⁴⁵⁶⁷⁸⁹⁻".chars().nth(at)),
            (None, '.') => text.push('·'),
            (None, other) => text.push(other),
        }
        n_letters = if power.is_some() || first.is_alphabetic() { n_letters + 1 } else { 0 };
        rest = &rest[first.len_utf8()..];
    }
    text
}

/// Words with a unit, where there is one.
#[must_use]
pub fn with_unit(words: &str, unit: &str) -> String {
    if unit.is_empty() { words.to_owned() } else { format!("{words} in {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_written_as_by_hand() {
        for (unit, shown) in [
            ("degC", "°C"),
            ("W/(m2.degC)", "W/(m²·°C)"),
            ("kg.m/s2", "kg·m/s²"),
            ("m-3", "m⁻³"),
            ("kOhm", "kΩ"),
            ("Ohm.m", "Ω·m"),
            ("degree", "degree"),
            ("1/s", "1/s"),
            ("1", ""),
        ] {
            assert_eq!(readable(unit), shown, "{unit}");
        }
    }
}
