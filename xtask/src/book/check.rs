//! Runs what a chapter shows, in a folder of its own, and compares it with what the chapter says.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Chapter;
use super::blocks::{Action, Block, Expected, blocks_of};
use crate::problem::Problem;
use crate::process::{self, Finished};

/// No block of the book may take longer.
const LIMIT: Duration = Duration::from_secs(300);

/// Where chapters run.
pub struct Room {
    /// The program `daesy`.
    pub program: PathBuf,
    /// Files every chapter starts with.
    pub examples: PathBuf,
    /// The repository's problems, seen by the chapters as `problems`.
    pub problems: PathBuf,
    /// Folder for the chapters' own folders.
    pub scratch: PathBuf,
}

/// What running a chapter gave.
#[derive(Default)]
pub struct ChapterReport {
    /// Blocks that were run or compared.
    pub n_checked: usize,
    /// What went wrong.
    pub problems: Vec<Problem>,
}

/// Runs the blocks of a chapter in their order.
pub fn run_chapter(room: &Room, chapter: &Chapter) -> ChapterReport {
    let mut report = ChapterReport::default();
    let path = chapter.path();
    let stem = chapter.file.trim_end_matches(".md").replace('/', "-");
    let folder = room.scratch.join(&stem);
    if let Err(e) = prepare(room, &folder) {
        report.problems.push(Problem::of_file(&path, format!("cannot prepare {}: {e}", folder.display())));
        return report;
    }
    let mut printed: Option<String> = None;
    for block in blocks_of(&chapter.text) {
        let block = match block {
            Ok(block) => block,
            Err(bad) => {
                report.problems.push(Problem::at(&path, bad.line, bad.reason));
                continue;
            }
        };
        match perform(room, &folder, &block, printed.as_deref()) {
            Ok(Performed::Nothing) => {}
            Ok(Performed::Compared) => report.n_checked += 1,
            Ok(Performed::Ran(stdout)) => {
                report.n_checked += 1;
                printed = Some(stdout);
            }
            Err(message) => {
                printed = None;
                report.problems.push(Problem::at(&path, block.line, message));
            }
        }
    }
    report
}

enum Performed {
    Nothing,
    Compared,
    Ran(String),
}

fn perform(room: &Room, folder: &Path, block: &Block, printed: Option<&str>) -> Result<Performed, String> {
    if let Some(name) = &block.file {
        let file = folder.join(name);
        let made = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, &block.text));
        made.map_err(|e| format!("cannot write {name}: {e}"))?;
    }
    match &block.action {
        Action::Show => Ok(Performed::Nothing),
        Action::Run(expected) => {
            let mut shell = Command::new("sh");
            shell.args(["-e", "-u", "-c", &block.text]);
            let finished = run_inside(room, folder, &mut shell)?;
            if expected.is_met_by(finished.status) {
                Ok(Performed::Ran(finished.stdout))
            } else {
                Err(mismatch(*expected, &finished))
            }
        }
        Action::CompareOutput => {
            let printed = printed.ok_or("there is no shell block above whose output this could be")?;
            if is_output(&block.text, printed) {
                Ok(Performed::Compared)
            } else {
                Err(format!("the commands above print something else:\n{}", printed.trim_end()))
            }
        }
        Action::Flatten => {
            let name = block.file.clone().unwrap_or_else(|| "block.mo".to_owned());
            fs::write(folder.join(&name), &block.text).map_err(|e| format!("cannot write {name}: {e}"))?;
            let mut command = Command::new(&room.program);
            command.args(["flatten", &name]);
            let finished = run_inside(room, folder, &mut command)?;
            if finished.status == Some(0) {
                Ok(Performed::Compared)
            } else {
                Err(mismatch(Expected::Success, &finished))
            }
        }
    }
}

fn run_inside(room: &Room, folder: &Path, command: &mut Command) -> Result<Finished, String> {
    let programs = room.program.parent().map(Path::to_path_buf).into_iter();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path: OsString =
        std::env::join_paths(programs.chain(std::env::split_paths(&others))).map_err(|e| format!("odd PATH: {e}"))?;
    command.current_dir(folder).env("PATH", path).env("NO_COLOR", "1");
    process::run_captured(command, &room.scratch.join("log"), LIMIT)
}

fn mismatch(expected: Expected, finished: &Finished) -> String {
    let wanted = match expected {
        Expected::Success => "exit status 0".to_owned(),
        Expected::Failure => "an exit status other than 0".to_owned(),
        Expected::Status(status) => format!("exit status {status}"),
    };
    let found = match finished.status {
        _ if finished.is_timed_out => format!("more than {} s of work", LIMIT.as_secs()),
        Some(status) => format!("exit status {status}"),
        None => "an end by a signal".to_owned(),
    };
    format!("{wanted} expected, {found} found\n{}{}", finished.stdout, finished.stderr).trim_end().to_owned()
}

/// Whether `shown` is what was printed; a line `...` stands for any number of lines.
fn is_output(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let (shown, printed) = (lines(shown), lines(printed));
    let mut parts = shown.split(|line| line == "...");
    let first = parts.next().unwrap_or_default();
    if !printed.starts_with(first) {
        return false;
    }
    let mut at = first.len();
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return at == printed.len();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return printed.len() >= at + part.len() && printed.ends_with(part);
        }
        match (at..=printed.len()).find(|start| printed[*start..].starts_with(part)) {
            Some(start) => at = start + part.len(),
            None => return false,
        }
    }
    true
}

fn prepare(room: &Room, folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    copy_tree(&room.examples, folder)?;
    copy_tree(&room.problems, &folder.join("problems"))
}

/// Copies a folder with all below it; does nothing if there is none.
pub fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A room whose `daesy` is a script: it copies its file to standard output, and fails on `bad`.
    fn room(name: &str) -> Room {
        let base = std::env::temp_dir().join(format!("daesy-book-{name}-{}", std::process::id()));
        let room = Room {
            program: base.join("bin/daesy"),
            examples: base.join("examples"),
            problems: base.join("problems"),
            scratch: base.join("scratch"),
        };
        for folder in ["bin", "examples", "problems/pendulum"] {
            fs::create_dir_all(base.join(folder)).expect("temporary folder");
        }
        fs::write(&room.program, "#!/bin/sh\ncat \"$2\"\nif grep -q bad \"$2\"; then exit 3; fi\n").expect("script");
        fs::set_permissions(&room.program, fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::write(base.join("examples/hello.txt"), "hello\n").expect("example");
        fs::write(base.join("problems/pendulum/pendulum.mo"), "model P\nend P;\n").expect("problem");
        room
    }

    fn run(name: &str, text: &str) -> ChapterReport {
        let room = room(name);
        let chapter =
            Chapter { title: "T".to_owned(), file: "t.md".to_owned(), text: text.to_owned(), shown: String::new() };
        let report = run_chapter(&room, &chapter);
        fs::remove_dir_all(room.scratch.parent().expect("scratch has a parent")).expect("temporary folder");
        report
    }

    #[test]
    fn good_chapters_pass() {
        let text = "```sh\ndaesy check hello.txt\n```\n\n```text,output\nhello\n```\n\n\
                    ```modelica,file=own.mo\nmodel Own\n```\n\n```sh\ncat own.mo problems/pendulum/pendulum.mo\n```\n\n\
                    ```text,output\nmodel Own\n...\nend P;\n```\n\n```modelica,check\nmodel A\nend A;\n```\n\n\
                    ```sh,fails\nfalse\n```\n\n```sh,fails=4\nexit 4\n```\n";
        let report = run("good", text);
        assert_eq!(report.problems, []);
        assert_eq!(report.n_checked, 7);
    }

    #[test]
    fn every_kind_of_failure_is_found_at_its_line() {
        let text = "```sh\nfalse; true\n```\n\n```sh,fails\ntrue\n```\n\n```sh,fails=2\nexit 1\n```\n\n\
                    ```sh\necho one\n```\n\n```text,output\ntwo\n```\n\n```modelica,check\nbad\n```\n\n```sh\necho $UNSET_NAME\n```\n";
        let lines: Vec<usize> = run("failing", text).problems.into_iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 5, 9, 17, 21, 25]);
    }

    #[test]
    fn output_without_a_command_is_a_mistake() {
        assert_eq!(run("orphan", "```text,output\nx\n```\n").problems.len(), 1);
    }

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(is_output("a\nb\n", "a  \nb\n\n"));
        assert!(!is_output("a\n", "a\nb\n"));
        assert!(is_output("a\n...\n", "a\nb\nc\n"));
        assert!(is_output("...\nc\n", "a\nb\nc\n"));
        assert!(is_output("...\nb\n...\n", "a\nb\nc\n"));
        assert!(is_output("a\n...\nc\n", "a\nc\n"));
        assert!(!is_output("a\n...\na\n", "a\n"));
        assert!(!is_output("...\nd\n...\n", "a\nb\nc\n"));
    }
}
