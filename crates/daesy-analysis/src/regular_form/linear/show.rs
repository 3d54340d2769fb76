//! Regular forms as text and JSON: what linear and other models have in common, and the forms of linear ones.

use std::fmt::Write as _;

use daesy_structure::linearize::LinearKind;
use daesy_structure::words::enumerate;
use faer::Mat;
use serde_json::{Map, Value, json};

use super::{FeedbackLaw, LinearForm, Moved};

/// A matrix by rows.
pub(super) fn rows_of(matrix: &Mat<f64>) -> Value {
    let finite = |value: f64| if value.is_finite() { json!(value + 0.0) } else { Value::Null };
    (0..matrix.nrows())
        .map(|row| (0..matrix.ncols()).map(|column| finite(matrix[(row, column)])).collect::<Vec<Value>>())
        .collect::<Vec<_>>()
        .into()
}

/// What every regular form has.
pub(crate) struct Common<'f> {
    /// Strangeness index and numbers of differential, algebraic and redundant equations.
    pub(crate) counts: [usize; 4],
    pub(crate) smallest_gap: f64,
    pub(crate) states: &'f [String],
    pub(crate) inputs: &'f [String],
    pub(crate) moved: &'f [Moved],
    pub(crate) feedback: Option<&'f FeedbackLaw>,
}

impl Common<'_> {
    /// The kind of the model, the time and the counts.
    pub(crate) fn head(&self, kind: &str, time: f64) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("kind".into(), json!(kind));
        keys.insert("time".into(), json!(time));
        for (key, value) in ["mu", "d", "a", "v"].into_iter().zip(self.counts) {
            keys.insert(key.into(), json!(value));
        }
        keys
    }

    /// States, inputs, and what was moved between them.
    pub(crate) fn variables(&self) -> Value {
        let to = |moved: &Moved| if moved.is_state { "states" } else { "inputs" };
        let moved: Vec<Value> = self.moved.iter().map(|moved| json!({ "name": moved.name, "to": to(moved) })).collect();
        json!({ "states": self.states, "inputs": self.inputs, "moved": moved })
    }

    /// The feedback, if one was asked for.
    pub(crate) fn feedback(&self) -> Option<Value> {
        let feedback = self.feedback?;
        Some(json!({ "K": rows_of(&feedback.k), "law": feedback.law, "repaired": feedback.n_repaired }))
    }

    /// The counts in words, then the equations under their titles, then states and inputs.
    pub(crate) fn write(&self, text: &mut String, equations: &[(&str, &[String])]) {
        let [mu, d, a, v] = self.counts;
        let _ = write!(text, "\n\nStrangeness index mu = {mu}: {d} differential and {a} algebraic equations");
        if v > 0 {
            let _ = write!(text, ", {v} redundant");
        }
        let _ = writeln!(text, " (smallest rank gap {:.0e}).", self.smallest_gap);
        for (title, lines) in equations.iter().filter(|(_, lines)| !lines.is_empty()) {
            let _ = write!(text, "\n{title}:\n  {}\n", lines.join("\n  "));
        }
        let _ = writeln!(text, "\nStates: {}. Inputs: {}.", listed(self.states), listed(self.inputs));
        for moved in self.moved {
            let (was, is) = if moved.is_state { ("an input", "a state") } else { ("a variable", "an input") };
            let _ = writeln!(text, "`{}` was {was} and is now {is}.", moved.name);
        }
    }

    /// The feedback under its title.
    pub(crate) fn write_feedback(&self, text: &mut String, title: &str) {
        if let Some(feedback) = self.feedback {
            let _ = match feedback.n_repaired {
                0 => writeln!(text, "\nThe system is regular and strangeness-free without feedback."),
                _ => writeln!(text, "\n{title}:\n  {}", feedback.law.join("\n  ")),
            };
        }
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    enumerate(&names, 20)
}

impl LinearForm {
    /// The word for the kind of model.
    #[must_use]
    pub const fn kind_word(&self) -> &'static str {
        match self.kind {
            LinearKind::Constant => "linear-constant",
            LinearKind::TimeVarying => "linear-time-varying",
        }
    }

    fn common(&self) -> Common<'_> {
        Common {
            counts: [self.mu, self.d, self.a, self.v],
            smallest_gap: self.smallest_gap,
            states: &self.states,
            inputs: &self.inputs,
            moved: &self.moved,
            feedback: self.feedback.as_ref(),
        }
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let common = self.common();
        let mut keys = common.head(self.kind_word(), self.time);
        keys.insert("differential".into(), json!(self.differential));
        keys.insert("algebraic".into(), json!(self.algebraic));
        keys.insert("outputs".into(), json!(self.outputs));
        keys.insert("computed".into(), json!(self.computed));
        let m = &self.matrices;
        let mut matrices = Map::new();
        matrices.insert("E1".into(), rows_of(&m.e1));
        matrices.insert("A1".into(), rows_of(&m.a1));
        matrices.insert("B1".into(), rows_of(&m.b1));
        matrices.insert("f1".into(), json!(m.f1));
        matrices.insert("A2".into(), rows_of(&m.a2));
        matrices.insert("B2".into(), rows_of(&m.b2));
        matrices.insert("f2".into(), json!(m.f2));
        if let Some(rates) = &m.input_rates {
            matrices.insert("E13".into(), rows_of(rates));
        }
        if !m.b2_derivatives.is_empty() {
            matrices.insert("B2_derivatives".into(), m.b2_derivatives.iter().map(rows_of).collect());
        }
        keys.insert("matrices".into(), Value::Object(matrices));
        keys.insert("variables".into(), common.variables());
        if let Some(free) = &self.feedthrough {
            let mut value = json!({
                "removed": true,
                "outputs_added_as_states": free.added,
                "outputs": free.outputs,
                "matrices": {
                    "E": rows_of(&free.e), "A": rows_of(&free.a), "B": rows_of(&free.b), "f": free.f,
                    "C": rows_of(&free.c), "g": free.g,
                },
            });
            if let Some(rates) = &free.input_rates {
                value["matrices"]["E13"] = rows_of(rates);
            }
            keys.insert("feedthrough".into(), value);
        }
        keys.extend(common.feedback().map(|value| ("feedback".into(), value)));
        keys
    }

    /// The report for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "Model {}, {}",
            self.model,
            match self.kind {
                LinearKind::Constant => "linear with constant coefficients".to_owned(),
                LinearKind::TimeVarying =>
                    format!("linear with coefficients that depend on time, here at t = {}", self.time),
            }
        );
        let common = self.common();
        common.write(
            &mut text,
            &[
                ("Differential equations", &self.differential),
                ("Algebraic equations", &self.algebraic),
                ("Outputs", &self.outputs),
                ("Computed from these, nonlinearly", &self.computed),
            ],
        );
        if let Some(free) = &self.feedthrough {
            let _ = match free.added.is_empty() {
                true => writeln!(text, "\nNo input feeds through to an output."),
                false => writeln!(text, "\nFeed-through removed: {} became states.", listed(&free.added)),
            };
        }
        common.write_feedback(&mut text, "Regularizing feedback");
        text
    }
}
