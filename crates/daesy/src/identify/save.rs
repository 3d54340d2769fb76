//! The study with its estimates in the place of the unknowns, to be applied to other records.

use std::fmt::Write as _;

use super::Identification;
use crate::diagnostic::Diagnostic;
use crate::study::read_study;
use crate::study::{QuantityValue, Study};

impl Identification {
    /// The text of the study without its `[unknown]`; the estimates are in `[parameters]`, everything else stays,
    /// comments included.
    ///
    /// # Errors
    /// When the text is laid out in a way that lines cannot be exchanged in.
    pub fn study_text(&self, study: &Study) -> Result<String, Box<Diagnostic>> {
        let text = study.sources.files().first().map_or("", |file| file.text.as_str());
        let mut values = String::new();
        for parameter in &self.parameters {
            let _ = writeln!(values, "{:?} = {:?}", parameter.name, parameter.estimate);
        }
        let mut written = String::new();
        let (mut is_unknown, mut is_placed) = (false, false);
        for line in text.lines() {
            let header = line.trim_start();
            if header.starts_with('[') {
                let name = header.trim_start_matches('[').trim_start();
                let ends = |rest: &str| rest.trim_start().starts_with([']', '.']);
                is_unknown = name.strip_prefix("unknown").is_some_and(ends);
                let is_parameters =
                    name.strip_prefix("parameters").is_some_and(|rest| rest.trim_start().starts_with(']'));
                if is_parameters && !is_placed {
                    let _ = write!(written, "{line}\n{values}");
                    is_placed = true;
                    continue;
                }
            }
            if !is_unknown {
                let _ = writeln!(written, "{line}");
            }
        }
        if !is_placed {
            let _ = write!(written, "\n[parameters]\n{values}");
        }
        // What was written is read again: it must be the same study with the estimates known.
        let again = read_study("saved", &written).study;
        let is_right = again.is_some_and(|again| {
            let is_known = |name: &str, value: f64| {
                let mut named = again.parameters.iter().filter(|parameter| parameter.name == name);
                named.any(|parameter| parameter.item.value == QuantityValue::Number(value))
            };
            again.unknown.is_empty()
                && again.measurements.len() == study.measurements.len()
                && self.parameters.iter().all(|parameter| is_known(&parameter.name, parameter.estimate))
        });
        if is_right {
            return Ok(written);
        }
        Err(Box::new(
            Diagnostic::error("save", "the estimates cannot be put into the text of this study")
                .with_help("write `[unknown]` as a section of its own, one unknown a line"),
        ))
    }
}
