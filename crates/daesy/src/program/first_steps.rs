//! Verbs for the first minutes: a study to begin with, completions for shells, and manual pages.

use clap::CommandFactory as _;
use serde_json::json;

use super::{Answer, Cli, CompletionsArgs, ManArgs, NewArgs, Status, cannot_write};
use crate::begin::begin;
use crate::diagnostic::Diagnostic;
use crate::file::write_whole;

pub(super) fn new_verb(args: &NewArgs) -> Answer {
    let mut answer = Answer::new("new");
    let begun = match begin(&args.name, args.data.as_deref(), &args.input) {
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
    answer.diagnostics = begun.left_out;
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
    let path = args.folder.join("options.md");
    if let Err(error) = write_whole(&path, options_page(&command).as_bytes()) {
        return answer.fail(Status::Fault, vec![cannot_write(&path, &error)]);
    }
    files.push(path.display().to_string());
    answer.text = format!("Wrote {} pages to {}.\n", files.len(), args.folder.display());
    answer.keys.insert("files".into(), json!(files));
    answer
}

/// All verbs with all their options as one page of Markdown: the chapter "Options" of the book.
fn options_page(command: &clap::Command) -> String {
    let mut page = String::from(
        "# Options\n\nEvery verb with every option, as `daesy VERB --help` has them. This page is made by the program itself\n\
         (`daesy man FOLDER` writes it as `options.md`), and a test compares the two.\n",
    );
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        page.push_str(&format!("\n## daesy {}\n\n{about}.\n\n| | |\n|---|---|\n", verb.get_name()));
        for argument in verb.get_arguments().filter(|argument| !argument.is_hide_set() && argument.get_id() != "help") {
            page.push_str(&format!("| `{}` | {} |\n", spelling(argument), meaning(argument)));
        }
    }
    page
}

/// How an option is written: `-o OUT`, `--output OUT`.
fn spelling(argument: &clap::Arg) -> String {
    let names: Vec<String> =
        argument.get_value_names().unwrap_or_default().iter().map(|name| name.replace('|', "\\|")).collect();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value && !names.is_empty() { format!(" {}", names.join(" ")) } else { String::new() };
    let short = argument.get_short().map(|short| format!("-{short}{value}"));
    let long = argument.get_long().map(|long| format!("--{long}{value}"));
    let spelled: Vec<String> = short.into_iter().chain(long).collect();
    match (spelled.is_empty(), value.is_empty()) {
        (true, true) => argument.get_id().as_str().to_uppercase(),
        (true, false) => value.trim().to_owned(),
        (false, _) => spelled.join("`, `"),
    }
}

fn meaning(argument: &clap::Arg) -> String {
    let help = argument.get_help().map(|help| help.to_string().replace('|', "\\|")).unwrap_or_default();
    let default: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let is_said = !argument.get_action().takes_values() || default.is_empty();
    if is_said { help } else { format!("{help}; {} when left out", default.join(", ")) }
}
