//! Differential check between verbs on mutated models.
//!
//! ```text
//! cargo run --release -p daesy --example differential -- COUNT SEED PATH..
//! ```
//!
//! Takes Modelica files (or folders of them), changes numbers and operators in them, and compares what `simulate` gives
//! with `uq` and `cost` (`check.rs`). Models for which they differ are counted and written to
//! `differential_SEED_NUMBER.mo` in the folder for temporary files.

mod check;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use check::{Model, Outcome, compare};

/// Ten thousand mutants shall not take a day: roads that take longer are refused, and counted by none.
const PATIENCE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(count), Some(seed)) = (number(arguments.first()), number(arguments.get(1))) else {
        eprintln!("usage: differential COUNT SEED PATH..");
        return ExitCode::from(2);
    };
    let mut files = Vec::new();
    arguments[2..].iter().for_each(|path| collect(Path::new(path), &mut files));
    files.sort();
    if files.is_empty() {
        eprintln!("no `.mo` file there");
        return ExitCode::from(2);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut n_usable, mut n_answers, mut n_sensitive, mut n_wrong) = (0, 0, 0, 0);
    for at in 0..count {
        let file = &files[random.usize(..files.len())];
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let text = mutate(&text, &mut random);
        let model = Model {
            text: &text,
            class: None,
            pick: random.usize(..1000),
            share: 1.0,
            identifies: false,
            patience: PATIENCE,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| compare(&model)));
        let problem = match outcome {
            Ok(Outcome::Unusable) => continue,
            Ok(Outcome::Agree(n)) => {
                n_usable += 1;
                n_answers += n;
                continue;
            }
            Ok(Outcome::Sensitive(words)) => {
                println!("mutant {at} of {}: {words}", file.display());
                n_usable += 1;
                n_sensitive += 1;
                continue;
            }
            Ok(Outcome::Differ(words)) => words,
            Err(_) => "a panic".to_owned(),
        };
        n_wrong += 1;
        let kept = std::env::temp_dir().join(format!("differential_{seed}_{at}.mo"));
        let _ = std::fs::write(&kept, &text);
        eprintln!("mutant {at} of {} (kept as {}): {problem}", file.display(), kept.display());
    }
    println!(
        "{count} mutants, {n_usable} simulate, {n_sensitive} of them sensitive, {n_answers} answers of \
         other roads, {n_wrong} disagreements or panics"
    );
    if n_wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn number(text: Option<&String>) -> Option<u64> {
    text?.parse().ok()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if let Ok(entries) = std::fs::read_dir(path) {
        entries.flatten().for_each(|entry| collect(&entry.path(), files));
    } else if path.extension().is_some_and(|extension| extension == "mo") {
        files.push(path.to_path_buf());
    }
}

/// Changes up to three numbers or operators.
fn mutate(text: &str, random: &mut fastrand::Rng) -> String {
    let mut text = text.to_owned();
    for _ in 0..random.usize(1..=3) {
        let bytes = text.as_bytes();
        let places: Vec<usize> = (1..bytes.len().saturating_sub(1))
            .filter(|&at| bytes[at].is_ascii_digit() && !is_word(bytes[at - 1]) || b"+-*/<>".contains(&bytes[at]))
            .collect();
        if places.is_empty() {
            break;
        }
        let at = places[random.usize(..places.len())];
        if bytes[at].is_ascii_digit() {
            let end = (at..bytes.len()).find(|&end| !matches!(bytes[end], b'0'..=b'9' | b'.')).unwrap_or(bytes.len());
            let value: f64 = text[at..end].parse().unwrap_or(1.0);
            let factors = [0.0, 0.5, 2.0, 10.0, 1.0001];
            text.replace_range(at..end, &format!("{}", value * factors[random.usize(..factors.len())]));
        } else {
            let operators = ["+", "-", "*", "/"];
            text.replace_range(at..=at, operators[random.usize(..operators.len())]);
        }
    }
    text
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}
