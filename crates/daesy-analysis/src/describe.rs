//! `daesy describe`: what is in a model, with values, units, bounds and descriptions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use daesy_graph::flat::{FlatDae, ValueType, Variable, VariableKind};
use daesy_graph::{Evaluator, ExprId, VarId};
use daesy_structure::linearize::parameter_values;
use serde_json::{Map, Value, json};

use daesy_study::load::Loaded;

/// One name of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// The value of a parameter; `null` where it has none, or only the start gives it one.
    pub value: Value,
    /// Its unit, as the model writes it.
    pub unit: Option<String>,
    /// Least value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Start value.
    pub start: Option<f64>,
    /// Whether the start value is insisted on.
    pub fixed: Option<bool>,
    /// What the model says it is.
    pub description: Option<String>,
    /// `file:line:column` of its declaration.
    pub place: Option<String>,
}

/// What is in a model.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Description {
    /// Parameters.
    pub parameters: Vec<Entry>,
    /// Inputs.
    pub inputs: Vec<Entry>,
    /// Unknowns that are declared as outputs.
    pub outputs: Vec<Entry>,
    /// All unknowns, outputs included.
    pub variables: Vec<Entry>,
}

/// Lists what is in a model, parameter values of the study put in.
#[must_use]
pub fn describe(loaded: &Loaded) -> Description {
    let flat = &loaded.flat;
    let reader = Reader { flat, values: parameter_values(flat).unwrap_or_default() };
    let mut description = Description::default();
    for (at, variable) in flat.variables.iter().enumerate() {
        if variable.is_hidden() {
            continue;
        }
        let entry = reader.entry(at, variable);
        match variable.kind {
            VariableKind::Constant => {}
            VariableKind::Parameter => description.parameters.push(entry),
            VariableKind::Input => description.inputs.push(entry),
            VariableKind::Continuous | VariableKind::Discrete => {
                if variable.is_output {
                    description.outputs.push(entry.clone());
                }
                description.variables.push(entry);
            }
        }
    }
    description
}

struct Reader<'a> {
    flat: &'a FlatDae,
    /// Values of constants and parameters; empty where they have none.
    values: Vec<f64>,
}

impl Reader<'_> {
    fn number(&self, expr: Option<ExprId>) -> Option<f64> {
        let value = |var: VarId, _: u16| self.values.get(var.index()).copied().unwrap_or(f64::NAN);
        let number = Evaluator::new().evaluate_one(&self.flat.graph, expr?, &value);
        number.is_finite().then_some(number)
    }

    fn entry(&self, at: usize, variable: &Variable) -> Entry {
        let number = self.values.get(at).copied().filter(|value| value.is_finite() && variable.binding.is_some());
        let value = match (&variable.text, &variable.value_type, number) {
            (Some(text), _, _) => json!(text.as_ref()),
            (None, ValueType::Boolean, Some(number)) => json!(number != 0.0),
            (None, ValueType::Integer, Some(number)) => {
                json!(variable.wide_integer(&self.flat.graph).unwrap_or(number as i64))
            }
            (None, _, number) => json!(number),
        };
        Entry {
            name: variable.name.clone(),
            value: if variable.kind == VariableKind::Parameter { value } else { Value::Null },
            unit: variable.unit.as_ref().map(|unit| unit.text.to_string()),
            min: self.number(variable.min),
            max: self.number(variable.max),
            start: self.number(variable.start),
            fixed: variable.fixed,
            description: variable.description.as_ref().map(ToString::to_string),
            place: self.flat.sources.place(variable.span).map(|place| place.to_string()),
        }
    }
}

impl Entry {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "min": self.min,
            "max": self.max,
            "start": self.start,
            "fixed": self.fixed,
            "description": self.description,
            "place": self.place,
        })
    }

    fn shown_value(&self) -> String {
        match (&self.value, self.start, self.fixed) {
            (Value::Null, Some(start), Some(true)) => format!("start = {start}, fixed"),
            (Value::Null, Some(start), _) => format!("start = {start}"),
            (Value::Null, None, _) => String::new(),
            (value, ..) => value.to_string(),
        }
    }

    fn bounds(&self) -> String {
        let text = |bound: Option<f64>| bound.map_or_else(String::new, |bound| bound.to_string());
        if self.min.is_none() && self.max.is_none() {
            return String::new();
        }
        format!("{}..{}", text(self.min), text(self.max))
    }
}

impl Description {
    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let list = |entries: &[Entry]| Value::Array(entries.iter().map(Entry::to_json).collect());
        let mut keys = Map::new();
        keys.insert("parameters".into(), list(&self.parameters));
        keys.insert("inputs".into(), list(&self.inputs));
        keys.insert("outputs".into(), list(&self.outputs));
        keys.insert("variables".into(), list(&self.variables));
        keys
    }

    /// The lists for a person, in which every name occurs once.
    #[must_use]
    pub fn to_text(&self, model: &str) -> String {
        let mut text = format!("{model}\n");
        let outputs: BTreeSet<&str> = self.outputs.iter().map(|output| output.name.as_str()).collect();
        let is_other = |entry: &&Entry| !outputs.contains(entry.name.as_str());
        let others: Vec<Entry> = self.variables.iter().filter(is_other).cloned().collect();
        let groups = [
            ("Parameters", &self.parameters),
            ("Inputs", &self.inputs),
            ("Outputs", &self.outputs),
            (if self.outputs.is_empty() { "Variables" } else { "Other variables" }, &others),
        ];
        for (title, entries) in groups.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            let _ = writeln!(text, "\n{title} ({})", entries.len());
            let rows: Vec<[String; 5]> = entries
                .iter()
                .map(|entry| {
                    let unit = entry.unit.clone().unwrap_or_default();
                    let description = entry.description.clone().unwrap_or_default();
                    [entry.name.clone(), entry.shown_value(), unit, entry.bounds(), description]
                })
                .collect();
            let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
            let widths = [width(0), width(1), width(2), width(3)];
            for row in &rows {
                let cells: Vec<String> =
                    widths.iter().zip(row).map(|(&width, cell)| format!("{cell:<width$}")).collect();
                let _ = writeln!(text, "{}", format!("  {}  {}", cells.join("  "), row[4]).trim_end());
            }
        }
        text
    }
}
