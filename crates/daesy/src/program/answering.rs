//! What a verb answers, for people and for programs.

use std::io::{IsTerminal, Write as _};

use daesy_graph::VarId;
use daesy_graph::finding::Level;
use daesy_graph::source::Place;
use serde_json::{Map, Value, json};

use super::arguments::{CommonArgs, FileArgs};
use super::edge;
use crate::diagnostic::{Diagnostic, visible};
use crate::failure::Failure;
use crate::json::ToJson as _;
use crate::load::Loaded;
use crate::simulate::asserted::failing_assertions;
use crate::start_report::{StartReport, changed_to_json};
use crate::table::Table;

/// What a verb has to say.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The verb; `None` when none could be read.
    pub command: Option<String>,
    /// Full name of the model.
    pub model: Option<String>,
    /// What the JSON document holds beside the keys that every document has.
    pub keys: Map<String, Value>,
    /// The answer for a person.
    pub text: String,
    /// The table that `-o` writes, on verbs that have one.
    pub table: Option<Table>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
    /// How it ended.
    pub status: Status,
}

/// Exit status of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Done.
    Done = 0,
    /// The model, study or data is at fault.
    Fault = 1,
    /// Wrong usage.
    Usage = 2,
    /// The numerical method gave up.
    GaveUp = 3,
}

impl Answer {
    pub(super) fn new(verb: &'static str) -> Self {
        Self {
            command: Some(verb.to_owned()),
            model: None,
            keys: Map::new(),
            text: String::new(),
            table: None,
            diagnostics: Vec::new(),
            status: Status::Done,
        }
    }

    /// Gives findings about the whole run the place of the file that the user named.
    pub(super) fn about(mut self, args: &FileArgs) -> Self {
        if let Some(limit) = args.time_limit.filter(|_| self.status == Status::GaveUp && args.is_late()) {
            let message = format!("the work was ended after {limit} s, as `--time-limit` asks");
            self.diagnostics.push(Diagnostic::note("time-limit", message));
        }
        let file = args.file.display().to_string();
        for diagnostic in self.diagnostics.iter_mut().filter(|diagnostic| diagnostic.place.is_none()) {
            diagnostic.place = Some(Place { file: file.clone(), line: 1, column: 1 });
        }
        self
    }

    /// Refused after the model was read: what the study leaves open may be why.
    pub(super) fn refused_of(self, loaded: &Loaded, failure: Failure) -> Self {
        let mut answer = self.refused(failure);
        answer.diagnostics.extend(loaded.open_inputs());
        answer
    }

    pub(super) fn fail(mut self, status: Status, diagnostics: Vec<Diagnostic>) -> Self {
        self.status = status;
        self.diagnostics.extend(diagnostics);
        self
    }

    /// Diagnostics go to standard error, the answer to standard output.
    pub(super) fn tell(self, common: &CommonArgs) -> Status {
        let mut stderr = std::io::stderr().lock();
        let with_color = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        for diagnostic in &self.diagnostics {
            if !(common.quiet && diagnostic.level == Level::Note) {
                let _ = write!(stderr, "{}", diagnostic.render(with_color));
            }
        }
        drop(stderr);
        if common.json && self.has_document() {
            return self.write_json();
        }
        edge::print(&visible(&self.text), self.status)
    }

    /// A stream that was followed to its end has a document for every sample, and none for the whole.
    fn has_document(&self) -> bool {
        self.command.as_deref() != Some("watch") || self.status != Status::Done
    }

    /// The one JSON document of a run. Numbers that are not finite are `null`.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut document = Map::new();
        document.insert("daesy".into(), json!(env!("CARGO_PKG_VERSION")));
        document.insert("command".into(), json!(self.command));
        document.insert("model".into(), json!(self.model));
        let findings = self.diagnostics.iter().map(|diagnostic| diagnostic.to_json()).collect();
        document.insert("findings".into(), Value::Array(findings));
        document.extend(self.keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        Value::Object(document)
    }

    pub(super) fn write_json(self) -> Status {
        edge::print(&edge::json_text(&self.document()), self.status)
    }

    /// Tells which start values had to change, at other values of some parameters. A document that has estimated start
    /// values under `initial` keeps them.
    pub(super) fn tell_start(&mut self, loaded: &Loaded, values: &[(&str, f64)]) {
        let given: Vec<(VarId, f64)> =
            values.iter().filter_map(|&(name, value)| Some((loaded.flat.find(name)?, value))).collect();
        let Some(report) = StartReport::of_study(loaded, &given) else { return };
        let told = report.findings(&loaded.flat);
        self.diagnostics.extend(told.iter().map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources)));
        if !self.keys.contains_key("initial") {
            self.keys.insert("initial".into(), json!({ "changed": changed_to_json(&report.changed) }));
        }
    }

    /// Tells which assertions of the model do not hold along the records, at other values of some parameters.
    pub(super) fn tell_assertions(&mut self, loaded: &Loaded, values: &[(&str, f64)]) {
        let given: Vec<(VarId, f64)> =
            values.iter().filter_map(|&(name, value)| Some((loaded.flat.find(name)?, value))).collect();
        self.diagnostics.extend(failing_assertions(loaded, &given));
    }

    /// Gives columns that would be found under the name of another one names of their own, and says so.
    pub(super) fn distinct(&mut self, table: &mut Table) {
        for (old, new) in table.make_names_distinct() {
            let message = format!("there is a column `{old}` already: this one of the table is called `{new}`");
            let warning = Diagnostic::new(Level::Warning, "column-renamed", message);
            self.diagnostics.push(Diagnostic { names: vec![old], ..warning });
        }
    }
}
