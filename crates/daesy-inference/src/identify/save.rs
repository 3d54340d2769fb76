//! The study with its estimates in the place of the unknowns, to be applied to other records.

use std::fmt::Write as _;

use super::{Identification, ParameterEstimate};
use daesy_graph::finding::Finding;
use daesy_report::words::short;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;
use daesy_study::problem::Problem;
use daesy_study::study::read_study;
use daesy_study::study::{QuantityValue, Study};

/// A normal distribution has values further from its mean, in standard deviations, in 3 of 1000 cases.
const NEAR_BOUND: f64 = 3.0;

/// Whether the study names what was found: start values that were estimated with it are those of one record, and are
/// estimated again for another.
fn is_unknown(study: &Study, parameter: &ParameterEstimate) -> bool {
    study.unknown.iter().any(|unknown| unknown.name == parameter.name)
}

impl Identification {
    /// The text of the study without its `[unknown]`: the estimates are in `[parameters]`, their covariance, or the file
    /// with draws of their posterior, in `[random.joint]`, the method in `[identify]`. Everything else stays, comments
    /// included.
    ///
    /// # Errors
    /// When the text is laid out in a way that lines cannot be exchanged in.
    pub fn study_text(&self, study: &Study, draws: Option<&str>) -> Result<String, Box<Diagnostic>> {
        let joint = self.joint_section(study, draws);
        let text = study.sources.files().first().map_or("", |file| file.text.as_str());
        let mut values = String::new();
        for parameter in self.parameters.iter().filter(|parameter| is_unknown(study, parameter)) {
            let _ = writeln!(values, "{:?} = {:?}", parameter.name, parameter.estimate);
        }
        let mut written = String::new();
        let (mut is_left_out, mut is_placed, mut has_method) = (false, false, false);
        let mut is_identify = false;
        for line in text.lines() {
            let header = line.trim_start();
            if header.starts_with('[') {
                let name = header.trim_start_matches('[').trim_start();
                let ends = |rest: &str| rest.trim_start().starts_with([']', '.']);
                is_left_out = ["unknown", "random.joint"].iter().any(|left| name.strip_prefix(left).is_some_and(ends));
                is_identify = name.strip_prefix("identify").is_some_and(|rest| rest.trim_start().starts_with(']'));
                if is_identify {
                    let _ = writeln!(written, "{line}\nmethod = \"{}\"", self.method.word());
                    has_method = true;
                    continue;
                }
                let is_parameters =
                    name.strip_prefix("parameters").is_some_and(|rest| rest.trim_start().starts_with(']'));
                if is_parameters && !is_placed {
                    let _ = write!(written, "{line}\n{values}");
                    is_placed = true;
                    continue;
                }
            }
            let is_method =
                is_identify && header.strip_prefix("method").is_some_and(|rest| rest.trim_start().starts_with('='));
            if !is_left_out && !is_method {
                let _ = writeln!(written, "{line}");
            }
        }
        if !has_method {
            let _ = write!(written, "\n[identify]\nmethod = \"{}\"\n", self.method.word());
        }
        if !is_placed {
            let _ = write!(written, "\n[parameters]\n{values}");
        }
        written.push_str(&joint);
        // What was written is read again: it must be the same study with the estimates known.
        let again = read_study("saved", &written).study;
        let is_right = again.is_some_and(|again| {
            let is_known = |name: &str, value: f64| {
                let mut named = again.parameters.iter().filter(|parameter| parameter.name == name);
                named.any(|parameter| parameter.item.value == QuantityValue::Number(value))
            };
            again.unknown.is_empty()
                && again.joint.is_some() != joint.is_empty()
                && again.identify.method.as_deref() == Some(self.method.word())
                && again.measurements.len() == study.measurements.len()
                && self
                    .parameters
                    .iter()
                    .all(|parameter| !is_unknown(study, parameter) || is_known(&parameter.name, parameter.estimate))
        });
        if is_right {
            return Ok(written);
        }
        Err(Box::new(
            Diagnostic::error("save", "the estimates cannot be put into the text of this study")
                .with_help("write `[unknown]` as a section of its own, one unknown a line"),
        ))
    }

    /// Warnings about bounds that the normal distribution in `[random.joint]` reaches over: it knows none.
    #[must_use]
    pub fn saved_beyond_bounds(&self, loaded: &Loaded) -> Vec<Diagnostic> {
        let Ok(problem) = Problem::read(loaded) else { return Vec::new() };
        let mut told = Vec::new();
        for (at, unknown) in problem.unknowns.iter().enumerate() {
            let Some(parameter) = self.parameters.iter().find(|parameter| parameter.name == unknown.name) else {
                continue;
            };
            for bound in [problem.space.lower[at], problem.space.upper[at]] {
                let away = (bound - parameter.estimate).abs() / parameter.std_error;
                if parameter.moves_model && bound.is_finite() && away < NEAR_BOUND {
                    let message = format!(
                        "the distribution of `{}` that is saved reaches over its bound {bound}, which is {} standard errors away: \
                         `uq` and `estimate` will take values beyond it",
                        unknown.name,
                        short(away, 2)
                    );
                    let help =
                        "draws keep within bounds: `--posterior 1000 --posterior-file draws.csv` saves them instead";
                    let finding = Finding::warning("saved-bounds", unknown.span, message).with_names([&unknown.name]);
                    told.extend(
                        loaded.study.iter().map(|study| Diagnostic::resolve(&finding, &study.sources).with_help(help)),
                    );
                }
            }
        }
        told
    }

    /// `[random.joint]` of the parameters that the model's motion depends on and the data determine; nothing if there
    /// are none.
    fn joint_section(&self, study: &Study, draws: Option<&str>) -> String {
        let known: Vec<usize> = (0..self.parameters.len())
            .filter(|&at| {
                is_unknown(study, &self.parameters[at])
                    && self.parameters[at].moves_model
                    && self.covariance[at][at].is_finite()
            })
            .collect();
        if known.is_empty() {
            return String::new();
        }
        let list = |entries: Vec<String>| format!("[{}]", entries.join(", "));
        let number = |value: f64| format!("{value:?}");
        let names = list(known.iter().map(|&at| format!("{:?}", self.parameters[at].name)).collect());
        if let Some(file) = draws {
            return format!("\n[random.joint]\nnames = {names}\nsamples = {file:?}\n");
        }
        let mean = list(known.iter().map(|&at| number(self.parameters[at].estimate)).collect());
        // Symmetric to the last digit.
        let entry = |i: usize, j: usize| number(self.covariance[i.max(j)][i.min(j)]);
        let rows = known.iter().map(|&i| list(known.iter().map(|&j| entry(i, j)).collect())).collect();
        format!("\n[random.joint]\nnames = {names}\nmean = {mean}\ncovariance = {}\n", list(rows))
    }
}
