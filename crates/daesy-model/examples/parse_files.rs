//! Reads Modelica files and folders and says what is wrong with them, how long it took, and whether tokens and tree can
//! be turned into text again.
//!
//! ```text
//! cargo run --release -p daesy-model --example parse_files -- [--quiet] [--round-trip] PATH..
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use daesy_graph::{FileId, Level, SourceFile, SourceMap};
use daesy_model::{lexer, parser, print};

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else { return };
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            collect(&entry, files);
        }
    } else if path.extension().is_some_and(|extension| extension == "mo") {
        files.push(path.to_owned());
    }
}

/// Spans of this file print as `nowhere`, so that trees can be compared by what they say.
const NOWHERE: FileId = FileId(u32::MAX);

fn is_faithful(text: &str) -> bool {
    let joined: String = lexer::tokens(text).map(|token| token.text(text)).collect();
    let first = parser::parse(NOWHERE, text).definition;
    let again = parser::parse(NOWHERE, &print::print(&first));
    joined == text
        && again.findings.iter().all(|finding| finding.level < Level::Error)
        && format!("{:?}", again.definition) == format!("{first:?}")
}

fn main() -> ExitCode {
    let mut is_quiet = false;
    let mut goes_round = false;
    let mut paths = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quiet" => is_quiet = true,
            "--round-trip" => goes_round = true,
            _ => collect(Path::new(&argument), &mut paths),
        }
    }
    let mut sources = SourceMap::default();
    for path in &paths {
        match std::fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => {
                sources.add(SourceFile::new(path.display().to_string(), text));
            }
            Ok(Err(error)) => println!("{}: not UTF-8: {error}", path.display()),
            Err(error) => println!("{}: {error}", path.display()),
        }
    }
    let (mut n_bytes, mut n_bad, mut n_unfaithful) = (0, 0, 0);
    let mut elapsed = Duration::ZERO;
    for (number, file) in sources.files().iter().enumerate() {
        let start = Instant::now();
        let parsed = parser::parse(FileId(number as u32), &file.text);
        elapsed += start.elapsed();
        n_bytes += file.text.len();
        let is_bad = parsed.findings.iter().any(|finding| finding.level == Level::Error);
        n_bad += usize::from(is_bad);
        if !is_quiet {
            for finding in &parsed.findings {
                let place = sources.place(finding.span).map_or_else(|| file.name.clone(), |place| place.to_string());
                let help = finding.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
                println!("{place}: {} [{}] {}{help}", finding.level.word(), finding.code, finding.message);
            }
        }
        if goes_round && !is_bad && !is_faithful(&file.text) {
            n_unfaithful += 1;
            println!("{}: does not survive printing", file.name);
        }
    }
    println!(
        "{} files, {:.1} MB, {:.0} ms, {n_bad} with errors{}",
        sources.files().len(),
        n_bytes as f64 / 1e6,
        elapsed.as_secs_f64() * 1e3,
        if goes_round { format!(", {n_unfaithful} unfaithful") } else { String::new() }
    );
    if n_bad + n_unfaithful == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
