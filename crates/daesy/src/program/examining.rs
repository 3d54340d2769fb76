//! The verbs that look at a model without solving it: `check`, `regularize`, `describe`, `flatten`, `export`.

use daesy_fmu::description::{Kinds, Version};
use daesy_graph::finding::Level;

use super::answering::{Answer, Status};
use super::arguments::{ExportArgs, FileArgs, RegularizeArgs};
use super::{cannot_write, load_for, load_native, refuse, write_report};
use crate::diagnostic::Diagnostic;
use crate::export::{ExportOptions, ObserverOptions, export, export_observer};
use crate::file::write_whole;
use crate::load::Native;
use crate::regular_form::linear::RegularizeOptions;
use crate::regular_form::nonlinear::regular_form;
use crate::report::Page;
use crate::{check, describe, flat_text};

pub(super) fn check_verb(args: &FileArgs) -> Answer {
    let mut answer = Answer::new("check");
    let loaded = match load_for(args, "check") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    let check = check::check(&loaded);
    answer.model = Some(check.model.clone());
    answer.keys = check.to_json();
    answer.text = check.to_text();
    if let Some(path) = &args.report
        && let Err(diagnostic) = write_report(args, path, check_page(&check))
    {
        return answer.fail(Status::Fault, vec![*diagnostic]);
    }
    let status = if check.has_errors() { Status::Fault } else { Status::Done };
    answer.fail(status, check.diagnostics)
}

pub(super) fn regularize_verb(args: &RegularizeArgs) -> Answer {
    let mut answer = Answer::new("regularize");
    let loaded = match load_for(&args.file, "regularize") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    let options = RegularizeOptions {
        time: args.time,
        remove_feedthrough: args.remove_feedthrough,
        feedback: args.feedback,
        states: args.state.clone(),
        inputs: args.input.clone(),
        drop_redundant: args.drop_redundant,
        given_inputs: args.given_inputs,
    };
    let form = match regular_form(&loaded, &options) {
        Ok(form) => form,
        Err(diagnostics) => return answer.fail(Status::Fault, diagnostics),
    };
    answer.keys = form.to_json();
    answer.text = form.to_text();
    if let Some(path) = &args.file.report {
        let mut page = Page::new(&format!("Regularization of {}", form.model()));
        page.preformatted(&form.to_text());
        if let Err(diagnostic) = write_report(&args.file, path, page) {
            return answer.fail(Status::Fault, vec![*diagnostic]);
        }
    }
    answer.fail(Status::Done, form.into_diagnostics())
}

pub(super) fn describe_verb(args: &FileArgs) -> Answer {
    let mut answer = Answer::new("describe");
    match load_native(args, "describe", Native::Describe) {
        Ok(loaded) => {
            let described = describe::describe(&loaded);
            answer.keys = described.to_json();
            answer.text = described.to_text(&loaded.flat.model);
            answer.model = Some(loaded.flat.model);
            answer.diagnostics = loaded.diagnostics;
            answer
        }
        Err(failure) => answer.refused(failure),
    }
}

pub(super) fn flatten_verb(args: &FileArgs) -> Answer {
    let mut answer = Answer::new("flatten");
    match load_for(args, "flatten") {
        Ok(loaded) => {
            answer.model = Some(loaded.flat.model.clone());
            answer.diagnostics = loaded.diagnostics;
            if args.common.json {
                answer.keys = flat_text::to_json(&loaded.flat);
            } else {
                answer.text = flat_text::to_base_modelica(&loaded.flat);
                let parts = flat_text::not_spelled_out(&loaded.flat, &answer.text);
                if !parts.is_empty() {
                    let message = format!("the text cannot be read again: it has {}", parts.join(", and "));
                    let help = "`--json` says what the variables and equations are; other verbs take the model itself";
                    let warning = Diagnostic::new(Level::Warning, "not-spelled-out", message).with_help(help);
                    answer.diagnostics.push(warning);
                }
            }
            answer
        }
        Err(failure) => answer.refused(failure),
    }
}

pub(super) fn export_verb(args: &ExportArgs) -> Answer {
    let mut answer = Answer::new("export");
    let Some(path) = &args.file.output else {
        return refuse("export", "say where to write the unit: `-o NAME.fmu`".to_owned());
    };
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("fmu")) {
        return refuse("export", format!("`{}` is not an .fmu file", path.display()));
    }
    if args.observer && args.kind == "me" {
        return refuse("export", "a filter takes samples: it is for Co-Simulation (`--kind cs`)".to_owned());
    }
    let loaded = match load_for(&args.file, if args.observer { "estimate" } else { "export" }) {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    let version = if args.fmi == "3" { Version::Three } else { Version::Two };
    let exported = if args.observer {
        match args.file.settings() {
            Ok(set) => export_observer(&loaded, &ObserverOptions { version: Some(version), step: args.step, set }),
            Err(failure) => Err(failure),
        }
    } else {
        let kinds = Kinds { model_exchange: args.kind != "cs", co_simulation: args.kind != "me" };
        export(&loaded, ExportOptions { version, kinds })
    };
    let exported = match exported {
        Ok(exported) => exported,
        Err(failure) => return answer.refused(failure),
    };
    if let Err(error) = write_whole(path, &exported.bytes) {
        return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
    }
    answer.keys = exported.to_json();
    answer.text = exported.to_text(&loaded.flat.model);
    answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    answer.diagnostics = exported.diagnostics;
    answer
}

/// The check as a page.
pub(crate) fn check_page(check: &check::Check) -> Page {
    let mut page = Page::new(&format!("Check of {}", check.model));
    add_check(&mut page, check);
    page
}

/// The check as a part of a page.
pub(crate) fn add_check(page: &mut Page, check: &check::Check) {
    let size = check.size;
    page.table(
        &["equations", "unknowns", "parameters", "inputs"],
        &[vec![
            size.equations.to_string(),
            size.unknowns.to_string(),
            size.parameters.to_string(),
            size.inputs.to_string(),
        ]],
    );
    if let Some(verdict) = &check.verdict {
        for paragraph in verdict.paragraphs() {
            let mut lines = paragraph.lines();
            page.paragraph(lines.next().unwrap_or_default());
            let items: Vec<&str> = lines.map(str::trim).collect();
            if !items.is_empty() {
                page.list(&items);
            }
        }
    }
    for diagnostic in &check.diagnostics {
        let place = diagnostic.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let help = diagnostic.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        page.remark(diagnostic.level.word(), &format!("{place}{}{help}", diagnostic.message));
    }
}
