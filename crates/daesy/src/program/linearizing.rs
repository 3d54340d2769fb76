//! `daesy linearize`: the model to first order, as text, JSON, a page, or a file for python-control.

use serde_json::Value;

use super::{Answer, LinearizeArgs, Status, cannot_write, edge, load_for, refuse, write_report};
use crate::file::write_whole;
use crate::linearization::{LinearForm, LinearizeOptions, linearize};

/// The kinds of file that `-o` writes.
#[derive(Clone, Copy)]
enum Kind {
    Json,
    Python,
}

pub(super) fn linearize_verb(args: &LinearizeArgs) -> Answer {
    let mut answer = Answer::new("linearize");
    let kind = match &args.file.output {
        None => None,
        Some(path) => match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref()
        {
            Some("json") => Some((path, Kind::Json)),
            Some("py") => Some((path, Kind::Python)),
            _ => return refuse("linearize", format!("`{}` is not a .json or .py file", path.display())),
        },
    };
    let loaded = match load_for(&args.file, "linearize") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    answer.diagnostics = loaded.diagnostics.clone();
    let options = LinearizeOptions { at: args.at.clone(), inputs: args.inputs.clone(), outputs: args.outputs.clone() };
    let form: LinearForm = match linearize(&loaded, &options) {
        Ok(form) => form,
        Err(failure) => return answer.refused(failure),
    };
    answer.keys = form.to_json();
    answer.text = form.to_text();
    answer.diagnostics.extend(form.diagnostics.iter().cloned());
    if let Some((path, kind)) = kind {
        let text = match kind {
            Kind::Json => edge::json_text(&Value::Object(answer.keys.clone())),
            Kind::Python => form.to_python(),
        };
        if let Err(error) = write_whole(path, text.as_bytes()) {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    }
    if let Some(path) = &args.file.report {
        if let Err(diagnostic) = write_report(&args.file, path, form.page()) {
            return answer.fail(Status::Fault, vec![*diagnostic]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    }
    answer
}
