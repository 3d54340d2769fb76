//! The verb `uq`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::answering::{Answer, Status};
use super::arguments::UqArgs;
use super::{cannot_write, load_for, table_kind};
use crate::diagnostic::Diagnostic;
use crate::file::write_whole;
use crate::table::{TableKind, to_bytes};
use crate::uq;
use crate::uq::{JointMap, SurrogateFile, UqSettings, read_surrogate};

pub(super) fn uq_verb(args: &UqArgs) -> Answer {
    let mut answer = Answer::new("uq");
    let kind = match table_kind(args.file.output.as_deref()) {
        Ok(kind) => kind,
        Err(diagnostic) => return answer.fail(Status::Usage, vec![*diagnostic]),
    };
    if args.file.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        return evaluate_surrogate(args, kind, answer);
    }
    let loaded = match load_for(&args.file, "uq") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    answer.diagnostics = loaded.diagnostics.clone();
    if let Some(name) = args.file.set.iter().map(|setting| &setting.name).find(|name| loaded.is_random(name)) {
        let message = format!("`{name}` is random in this study: `--set` gives it no other value");
        let help = "change its distribution below `[random]`, or take it out of there";
        return answer.fail(Status::Usage, vec![Diagnostic::error("random-parameter", message).with_help(help)]);
    }
    let settings = UqSettings {
        seed: args.file.common.seed,
        threads: args.file.common.threads,
        checkpoint: args.checkpoint.clone(),
    };
    let found = match uq::uq(&loaded, &settings) {
        Ok(found) => found,
        Err(failure) => return answer.refused_of(&loaded, failure),
    };
    answer.keys = found.to_json();
    answer.text = found.to_text();
    answer.diagnostics.extend(loaded.open_inputs());
    answer.diagnostics.extend(loaded.held_disturbances());
    answer.diagnostics.extend(found.diagnostics.iter().cloned());
    answer.tell_start(&loaded, &[]);
    let mut table = found.table();
    answer.distinct(&mut table);
    let mut files: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let Some(path) = &args.file.output {
        files.push((path, to_bytes(&table, kind)));
    }
    if let Some(path) = &args.file.report {
        files.push((
            path,
            found.page(&loaded).warning(&answer.diagnostics).from_run(args.file.provenance()).to_html().into_bytes(),
        ));
    }
    if let Some(path) = &args.surrogate {
        let joint = loaded.study.as_ref().and_then(|study| study.joint.as_ref());
        let Some(surrogate) = found.surrogate else {
            let (message, help) = match joint.and_then(|joint| joint.samples.as_ref()) {
                Some(samples) => (
                    format!(
                        "there are no polynomials in parameters that `{}` has samples of together: they are not independent, \
                         nor normal",
                        samples.file
                    ),
                    "give `mean` and `covariance` in `[random.joint]` instead of `samples`",
                ),
                None => (
                    "there are too few samples to fit a surrogate".to_owned(),
                    "take more `samples` or a lower `degree`",
                ),
            };
            return answer.fail(Status::Fault, vec![Diagnostic::error("surrogate", message).with_help(help)]);
        };
        let file = SurrogateFile { model: found.model, surrogate, joint: joint.and_then(JointMap::new) };
        files.push((path, file.to_text().into_bytes()));
    }
    answer.table = Some(table);
    for (path, bytes) in files {
        if let Err(error) = write_whole(path, &bytes) {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    }
    answer
}

/// The polynomials of an earlier run at parameter values.
fn evaluate_surrogate(args: &UqArgs, kind: TableKind, mut answer: Answer) -> Answer {
    let path = &args.file.file;
    let shown = path.display().to_string();
    if args.surrogate.is_some() || args.file.report.is_some() {
        let message = "a surrogate is evaluated to a table: `--surrogate` and `--report` have nothing to write";
        return answer.fail(Status::Usage, vec![Diagnostic::error("usage", message)]);
    }
    let set = match args.file.settings() {
        Ok(set) => set,
        Err(failure) => return answer.refused(failure),
    };
    let text = match daesy_model::file::read_text(path, daesy_model::file::MAX_DATA_BYTES) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("`{shown}` cannot be read: {error}");
            return answer.fail(Status::Fault, vec![Diagnostic::about_file("file", &shown, message)]);
        }
    };
    let evaluated = read_surrogate(&text, &shown).and_then(|file| {
        answer.model = Some(file.model.clone());
        file.evaluate(&set)
    });
    let evaluated = match evaluated {
        Ok(evaluated) => evaluated,
        Err(diagnostics) => return answer.fail(Status::Fault, diagnostics),
    };
    let parameters: Map<String, Value> =
        evaluated.parameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    answer.keys.insert("parameters".into(), Value::Object(parameters));
    let last = evaluated.table.names.iter().zip(&evaluated.table.columns).skip(1);
    let finals: Map<String, Value> = last.map(|(name, column)| (name.clone(), json!(column.last()))).collect();
    answer.keys.insert("final".into(), Value::Object(finals));
    if let Some(path) = &args.file.output {
        if let Err(error) = write_whole(path, &to_bytes(&evaluated.table, kind)) {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text = format!("Wrote {}.\n", path.display());
    } else {
        answer.text = evaluated.table.to_csv();
    }
    answer.table = Some(evaluated.table);
    answer
}
