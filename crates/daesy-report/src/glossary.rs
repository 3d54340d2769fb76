//! What a page says of the names it shows: unit and description from the model, and what experiments are called.

use std::collections::BTreeMap;

use daesy_study::load::Loaded;

/// Names of the model with what it says of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Glossary {
    entries: BTreeMap<String, Said>,
    experiments: Vec<String>,
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
        let said = |variable: &daesy_graph::flat::Variable| Said {
            unit: variable.unit.as_ref().map_or_else(String::new, |unit| unit.text.to_string()),
            description: variable.description.as_ref().map_or_else(String::new, ToString::to_string),
        };
        let entries = loaded.flat.variables.iter().map(|variable| (variable.name.clone(), said(variable)));
        let data = loaded.study.as_ref().and_then(|study| study.data.as_ref());
        let files = data.map(|data| data.files.iter().map(|file| file.name.clone()).collect());
        Self { entries: entries.collect(), experiments: files.unwrap_or_default() }
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

/// Words with a unit, where there is one.
#[must_use]
pub fn with_unit(words: &str, unit: &str) -> String {
    if unit.is_empty() { words.to_owned() } else { format!("{words} in {unit}") }
}
