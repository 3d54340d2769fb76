//! `cargo xtask test`: every check that must hold, in order, with one line each at the end.

use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::workspace::Workspace;
use crate::{book, browser, dependencies, memory, process, python, tidy};

/// How a step ended.
pub enum Outcome {
    /// It holds; the text says how much was looked at.
    Passed(String),
    /// Its tool is missing; the text names the tool and how to get it.
    Skipped(String),
    /// It does not hold.
    Failed(String),
}

impl Outcome {
    /// `Passed` or `Failed`, from a check that prints its own problems.
    pub fn from_check(is_success: bool) -> Self {
        if is_success { Self::Passed(String::new()) } else { Self::Failed("see above".to_owned()) }
    }
}

struct Step {
    name: &'static str,
    check: fn(&Workspace) -> Outcome,
}

struct Line {
    name: &'static str,
    verdict: &'static str,
    seconds: f64,
    note: String,
}

fn steps(workspace: &Workspace) -> Vec<Step> {
    let mut steps = vec![
        Step { name: "format", check: format },
        Step { name: "tidy", check: |w| Outcome::from_check(tidy::run(w)) },
        Step { name: "dependencies", check: dependencies::check },
        Step { name: "clippy", check: clippy },
        Step { name: "rust", check: rust_tests },
        Step { name: "memory", check: memory::check },
        Step { name: "rustdoc", check: rustdoc },
        Step { name: "package", check: package },
        Step { name: "demo", check: demo },
    ];
    steps.push(Step { name: "units", check: units });
    if python::has_package(workspace) {
        steps.push(Step { name: "python", check: python::tests });
    }
    if !python::notebooks(workspace).is_empty() {
        steps.push(Step { name: "notebooks", check: python::run_notebooks });
    }
    steps.push(Step { name: "book", check: |w| Outcome::from_check(book::run(w, true)) });
    steps.push(Step { name: "browser", check: browser::check });
    steps
}

/// Runs the named steps, or all of them; returns whether nothing failed.
pub fn run(workspace: &Workspace, wanted: &[String]) -> bool {
    let steps = steps(workspace);
    if let Some(unknown) = wanted.iter().find(|name| steps.iter().all(|step| step.name != name.as_str())) {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        eprintln!("no step `{unknown}`; there are: {}", names.join(", "));
        return false;
    }
    let mut lines = Vec::new();
    for step in steps.iter().filter(|step| wanted.is_empty() || wanted.iter().any(|name| name == step.name)) {
        println!("\n=== {}", step.name);
        let start = Instant::now();
        let outcome = (step.check)(workspace);
        lines.push(line(step.name, outcome, start.elapsed().as_secs_f64(), process::is_ci()));
    }
    println!();
    for line in &lines {
        println!("{:<14}{:<9}{:>7.1} s  {}", line.name, line.verdict, line.seconds, line.note);
    }
    let count = |verdict: &str| lines.iter().filter(|line| line.verdict == verdict).count();
    let n_skipped = count("skipped");
    let skipped = if n_skipped > 0 { format!(", {n_skipped} skipped") } else { String::new() };
    println!("{} passed, {} failed{skipped}", count("passed"), count("FAILED"));
    count("FAILED") == 0
}

fn line(name: &'static str, outcome: Outcome, seconds: f64, is_ci: bool) -> Line {
    let (verdict, note) = match outcome {
        Outcome::Passed(note) => ("passed", note),
        Outcome::Skipped(note) if is_ci => ("FAILED", format!("may not be skipped here: {note}")),
        Outcome::Skipped(note) => ("skipped", note),
        Outcome::Failed(note) => ("FAILED", note),
    };
    Line { name, verdict, seconds, note }
}

/// Makes sure that a component of the toolchain is there, installing it where rustup can.
fn toolchain_component(workspace: &Workspace, subcommand: &str, component: &str) -> Result<(), Outcome> {
    let is_there = |workspace: &Workspace| {
        workspace.cargo().args([subcommand, "--version"]).output().is_ok_and(|output| output.status.success())
    };
    if is_there(workspace) {
        return Ok(());
    }
    if process::find_program("rustup").is_some() {
        let mut install = std::process::Command::new("rustup");
        install.current_dir(&workspace.root).args(["component", "add", component]);
        if process::run(&mut install).is_ok() && is_there(workspace) {
            return Ok(());
        }
    }
    Err(Outcome::Skipped(format!("cargo {subcommand} is missing: rustup component add {component}")))
}

fn outcome_of(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed(String::new()),
        Err(message) => Outcome::Failed(message),
    }
}

fn format(workspace: &Workspace) -> Outcome {
    if let Err(outcome) = toolchain_component(workspace, "fmt", "rustfmt") {
        return outcome;
    }
    let mut results = vec![process::run(workspace.cargo().args(["fmt", "--all", "--check"]))];
    for manifest in ["bench/Cargo.toml", "raster/Cargo.toml"] {
        if workspace.root.join(manifest).is_file() {
            results.push(process::run(workspace.cargo().args(["fmt", "--manifest-path", manifest, "--check"])));
        }
    }
    outcome_of(results.into_iter().collect())
}

fn clippy(workspace: &Workspace) -> Outcome {
    if let Err(outcome) = toolchain_component(workspace, "clippy", "clippy") {
        return outcome;
    }
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    let mut results = vec![process::run(workspace.cargo().args(arguments))];
    if workspace.root.join("bench/Cargo.toml").is_file() {
        let mut command = workspace.cargo();
        command.args(["clippy", "--quiet", "--manifest-path", "bench/Cargo.toml", "--all-targets", "--locked"]);
        command.args(["--", "-D", "warnings"]).env("CARGO_TARGET_DIR", workspace.target.join("bench"));
        results.push(process::run(&mut command));
    }
    outcome_of(results.into_iter().collect())
}

/// The sums of cargo's `test result:` lines.
#[derive(Default, Debug, PartialEq, Eq)]
struct TestCounts {
    n_passed: usize,
    n_failed: usize,
    n_ignored: usize,
}

impl TestCounts {
    fn see(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let counts = counts.split_once(". ").map_or("", |(_, rest)| rest);
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let (Some(Ok(number)), Some(what)) = (words.next().map(str::parse::<usize>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.n_passed += number,
                "failed" => self.n_failed += number,
                "ignored" => self.n_ignored += number,
                _ => {}
            }
        }
    }
}

fn rust_tests(workspace: &Workspace) -> Outcome {
    let mut counts = TestCounts::default();
    let mut command = workspace.cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    let result = process::run_watched(&mut command, |line| counts.see(line));
    let TestCounts { n_passed, n_failed, n_ignored } = counts;
    match result {
        Ok(()) if n_ignored > 0 => Outcome::Failed(format!("{n_ignored} ignored tests; a test runs or is deleted")),
        Ok(()) => Outcome::Passed(format!("{n_passed} tests passed, {n_failed} failed")),
        Err(message) => Outcome::Failed(format!("{n_passed} tests passed, {n_failed} failed; {message}")),
    }
}

/// Documents the workspace; every complaint of rustdoc counts, except that it takes citations for links.
fn rustdoc(workspace: &Workspace) -> Outcome {
    let mut command = workspace.cargo();
    command.args(["doc", "--quiet", "--workspace", "--no-deps", "--locked", "--message-format=json"]);
    let output = match command.stderr(Stdio::inherit()).output() {
        Ok(output) => output,
        Err(e) => return Outcome::Failed(format!("cannot run cargo doc: {e}")),
    };
    let complaints: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(documentation_complaint).collect();
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 if output.status.success() => Outcome::Passed(String::new()),
        0 => Outcome::Failed(format!("cargo doc ended with {}", output.status)),
        n_complaints => Outcome::Failed(format!("{n_complaints} complaints")),
    }
}

/// The text of a warning or error among cargo's JSON messages. A citation, an at sign and a key in brackets, looks to
/// rustdoc like a link with an empty disambiguator; `cargo xtask tidy` checks those against the bibliography.
fn documentation_complaint(line: &str) -> Option<String> {
    let message = &serde_json::from_str::<Value>(line).ok()?["message"];
    let text = message["message"].as_str()?;
    let is_complaint = message["level"] == "warning" || message["level"] == "error";
    let is_summary = text.ends_with("emitted") && message["spans"].as_array().is_none_or(Vec::is_empty);
    let is_citation = text == "unknown disambiguator ``";
    (is_complaint && !is_summary && !is_citation)
        .then(|| message["rendered"].as_str().unwrap_or(text).trim_end().to_owned())
}

/// Packs every crate that can be published, as a registry would get it. What the packages hold is built by the other
/// steps.
fn package(workspace: &Workspace) -> Outcome {
    let packages = workspace.metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let publishable: Vec<&str> = packages
        .iter()
        .filter(|package| package["publish"].is_null())
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut command = workspace.cargo();
    command.args(["package", "--quiet", "--locked", "--no-verify", "--allow-dirty"]);
    command.args(publishable.iter().flat_map(|name| ["--package", name]));
    match process::run(&mut command) {
        Ok(()) => Outcome::Passed(format!("{} packages", publishable.len())),
        Err(message) => Outcome::Failed(message),
    }
}

fn demo(workspace: &Workspace) -> Outcome {
    let program = match book::build_program(workspace) {
        Ok(program) => program,
        Err(message) => return Outcome::Failed(message),
    };
    let folder = workspace.scratch("demo");
    if let Err(e) = std::fs::create_dir_all(&folder) {
        return Outcome::Failed(format!("cannot make {}: {e}", folder.display()));
    }
    outcome_of(process::run(std::process::Command::new(program).arg("demo").current_dir(folder)))
}

/// The importer that exported units are tried in.
const IMPORTER: &str = "fmpy==0.3.32";

/// Exported units in a foreign importer.
fn units(workspace: &Workspace) -> Outcome {
    let interpreter = match python::environment(workspace, "units", &[IMPORTER]) {
        Ok(interpreter) => interpreter,
        Err(message) => return Outcome::Skipped(format!("{IMPORTER} cannot be installed: {message}")),
    };
    let program = match book::build_program(workspace) {
        Ok(program) => program,
        Err(message) => return Outcome::Failed(message),
    };
    let mut command = std::process::Command::new(interpreter);
    command.arg(workspace.root.join("crates/daesy-fmu-library/tests/importer.py")).arg(program);
    outcome_of(process::run(command.arg(&workspace.root).arg(workspace.scratch("units"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_result_lines_are_summed() {
        let mut counts = TestCounts::default();
        counts.see("running 3 tests");
        counts.see("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s");
        counts.see("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(counts, TestCounts { n_passed: 15, n_failed: 2, n_ignored: 1 });
    }

    #[test]
    fn citations_are_no_broken_links() {
        let message = |level: &str, text: &str| {
            format!(
                r#"{{"reason":"compiler-message","message":{{"level":"{level}","message":"{text}","spans":[{{}}]}}}}"#
            )
        };
        assert_eq!(documentation_complaint(&message("warning", "unknown disambiguator ``")), None);
        assert_eq!(documentation_complaint(&message("note", "all is well")), None);
        assert_eq!(documentation_complaint(r#"{"reason":"build-finished","success":true}"#), None);
        let broken = documentation_complaint(&message("warning", "unresolved link to `Graph`"));
        assert_eq!(broken.as_deref(), Some("unresolved link to `Graph`"));
        let summary = r#"{"message":{"level":"warning","message":"2 warnings emitted","spans":[]}}"#;
        assert_eq!(documentation_complaint(summary), None);
    }

    #[test]
    fn a_missing_tool_is_a_failure_under_ci_only() {
        let skipped = || Outcome::Skipped("no browser".to_owned());
        assert_eq!(line("browser", skipped(), 0.0, false).verdict, "skipped");
        assert_eq!(line("browser", skipped(), 0.0, true).verdict, "FAILED");
    }
}
