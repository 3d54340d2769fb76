//! Attacks by mutation: on the whole program, and on its parser, flattener, study reader and reader of units alone.
//!
//! ```text
//! cargo run --release -p daesy --example attack -- program|parse|flatten|study|unit SECONDS [--seed N] PATH..
//! ```
//!
//! `program` mutates studies with their models and data, and models (those given, and some of its own), runs the
//! program `daesy` beside this one on them with random verbs and options, 2 GB of memory, 20 s of computing and a limit of
//! 3 s that the program itself shall keep, and checks what must hold: no panic, no signal, an exit status between 0 and
//! 3, with `--json` one valid document, and a finding wherever the status is not 0. Each case that fails is kept in a folder with its files and the command, and
//! its kind is told once.
//!
//! The other targets work on texts within this process; see `in_process`. The same seed gives the same texts.

mod end_to_end;
mod in_process;
mod mutate;
mod units;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use end_to_end::{Case, collect, make_case, own_kits, run_case};
use mutate::Random;

const USAGE: &str = "attack program|parse|flatten|study|unit SECONDS [--seed N] PATH..";

/// What is asked.
struct Request {
    target: String,
    seconds: u64,
    seed: u64,
    paths: Vec<PathBuf>,
}

fn read_request() -> Option<Request> {
    let mut words = std::env::args().skip(1);
    let target = words.next()?;
    let seconds = words.next()?.parse().ok()?;
    let mut request = Request { target, seconds, seed: 0, paths: Vec::new() };
    while let Some(word) = words.next() {
        if word == "--seed" {
            request.seed = words.next()?.parse().ok()?;
        } else {
            request.paths.push(PathBuf::from(word));
        }
    }
    Some(request)
}

fn main() -> ExitCode {
    let Some(request) = read_request() else {
        println!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if request.target == "program" {
        return match attack_program(&request) {
            Ok(code) => code,
            Err(error) => {
                println!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    match in_process::Target::named(&request.target) {
        Some(target) => in_process::attack(target, request.seconds, request.seed, &request.paths),
        None => {
            println!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

/// The program is two folders up from an example.
fn program() -> std::io::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folder = here.parent().and_then(Path::parent).unwrap_or_else(|| Path::new("."));
    let program = folder.join(format!("daesy{}", std::env::consts::EXE_SUFFIX));
    if program.exists() {
        return Ok(program);
    }
    let message = format!("there is no {}: build the program first", program.display());
    Err(std::io::Error::new(std::io::ErrorKind::NotFound, message))
}

fn attack_program(request: &Request) -> std::io::Result<ExitCode> {
    let program = program()?;
    let mut kits = own_kits();
    request.paths.iter().for_each(|path| collect(path, &mut kits));
    println!("{} kits, {} s, seed {}", kits.len(), request.seconds, request.seed);
    let top = std::env::temp_dir().join(format!("daesy-attack-{}", std::process::id()));
    let begun = Instant::now();
    let mut n_cases = 0_u64;
    let mut failures: BTreeMap<String, u64> = BTreeMap::new();
    while begun.elapsed() < Duration::from_secs(request.seconds) {
        // Each case has a generator of its own, so that one can be made again without those before it.
        let mut random = Random((request.seed << 32) ^ n_cases.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let case = make_case(&mut random, &kits);
        let folder = top.join(n_cases.to_string());
        std::fs::create_dir_all(&folder)?;
        let problem = run_case(&program, &folder, &case)?;
        n_cases += 1;
        match problem {
            None => std::fs::remove_dir_all(&folder)?,
            Some(problem) => {
                let n = failures.entry(problem.clone()).or_default();
                *n += 1;
                if *n == 1 {
                    keep_command(&folder, &case)?;
                    println!("{problem}\n    {} (cd {})", case.arguments.join(" "), folder.display());
                } else {
                    std::fs::remove_dir_all(&folder)?;
                }
            }
        }
    }
    if failures.is_empty() {
        let _ = std::fs::remove_dir_all(&top);
    }
    let n_failures: u64 = failures.values().sum();
    println!("{n_cases} cases, {n_failures} failures of {} kinds", failures.len());
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn keep_command(folder: &Path, case: &Case) -> std::io::Result<()> {
    let quoted: Vec<String> = case.arguments.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    std::fs::write(folder.join("command"), format!("daesy {}\n", quoted.join(" ")))
}
