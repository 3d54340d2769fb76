//! All options of all verbs as a chapter of the book, made from what the program itself reads.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;

/// The chapter. A test compares it with the one in the book.
#[must_use]
pub fn option_chapter() -> String {
    let mut text =
        "# All options\n\nThis page is made from the program: `daesy VERB --help` says the same.\n".to_owned();
    for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(
            text,
            "\n## daesy {}\n\n{about}{}\n\n",
            verb.get_name(),
            if about.ends_with(['.', '?']) { "" } else { "." }
        );
        text.push_str(&table(verb));
    }
    text
}

fn table(verb: &Command) -> String {
    let mut rows = "| option | meaning |\n|---|---|\n".to_owned();
    let args = verb.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = args.partition(|arg| arg.is_positional());
    for arg in positional.into_iter().chain(options) {
        let help = arg.get_help().map(|help| help.to_string().replace('\n', " ")).unwrap_or_default();
        let default = default_of(arg);
        let _ = writeln!(rows, "| `{}` | {}{default} |", words(arg).replace('|', "\\|"), help.replace('|', "\\|"));
    }
    rows
}

/// How an option is written.
fn words(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().map(|names| names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "));
    let value = if takes_value { names.unwrap_or_else(|| arg.get_id().as_str().to_uppercase()) } else { String::new() };
    let flags: Vec<String> = arg
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(arg.get_long().map(|long| format!("--{long}")))
        .collect();
    let words = [flags.join(", "), value];
    words.iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

fn default_of(arg: &Arg) -> String {
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if defaults.is_empty() || !arg.get_action().takes_values() {
        return String::new();
    }
    format!("; `{}` when left out", defaults.join(" "))
}
