//! Verbs for the first minutes: a study to begin with, completions for shells, and manual pages.

use clap::CommandFactory as _;
use serde_json::json;

use super::{Answer, Cli, CompletionsArgs, ManArgs, NewArgs, Status, cannot_write};
use crate::begin::begin;
use crate::diagnostic::Diagnostic;
use crate::file::write_whole;

pub(super) fn new_verb(args: &NewArgs) -> Answer {
    let mut answer = Answer::new("new");
    let begun = match begin(&args.name, args.data.as_deref()) {
        Ok(begun) => begun,
        Err(failure) => return answer.refused(failure),
    };
    let files: Vec<String> = begun.files.iter().map(|path| path.display().to_string()).collect();
    answer.text = format!(
        "Wrote {}.\nNext:  daesy identify {} --report page.html\n",
        files.join(", "),
        files.first().map_or("", String::as_str)
    );
    answer.keys.insert("files".into(), json!(files));
    answer
}

pub(super) fn completions_verb(args: &CompletionsArgs) -> Answer {
    let mut answer = Answer::new("completions");
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "daesy", &mut script);
    answer.text = String::from_utf8_lossy(&script).into_owned();
    answer
}

/// Serves an editor until it says goodbye.
pub(super) fn lsp_verb() -> Answer {
    let answer = Answer::new("lsp");
    match crate::lsp::serve() {
        Ok(()) => answer,
        Err(message) => answer.fail(Status::Fault, vec![Diagnostic::error("lsp", message)]),
    }
}

pub(super) fn man_verb(args: &ManArgs) -> Answer {
    let mut answer = Answer::new("man");
    let command = Cli::command();
    let mut commands = vec![("daesy".to_owned(), command.clone())];
    commands.extend(command.get_subcommands().map(|verb| (format!("daesy-{}", verb.get_name()), verb.clone())));
    if let Err(error) = std::fs::create_dir_all(&args.folder) {
        return answer.fail(Status::Fault, vec![cannot_write(&args.folder, &error)]);
    }
    let mut files = Vec::new();
    for (name, command) in commands {
        let path = args.folder.join(format!("{name}.1"));
        let mut page = Vec::new();
        let made = clap_mangen::Man::new(command.display_name(name))
            .render(&mut page)
            .and_then(|()| write_whole(&path, &page));
        if let Err(error) = made {
            return answer.fail(Status::Fault, vec![cannot_write(&path, &error)]);
        }
        files.push(path.display().to_string());
    }
    answer.text = format!("Wrote {} pages to {}.\n", files.len(), args.folder.display());
    answer.keys.insert("files".into(), json!(files));
    answer
}
