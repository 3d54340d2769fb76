//! A campaign of random models whose structure misleads and whose solutions are known.
//!
//! ```text
//! cargo run --release -p daesy --example hidden_structure -- [COUNT [SEED]]
//! ```
//!
//! Simulates COUNT linear models with coefficients that depend on time, and as many nonlinear ones, of index 1 to 3. A
//! trajectory must be right to 1e-6, or the model refused; at most 5 of 100 may be refused. Every model that is wrong
//! or refused is named by its seed.

mod hidden;

use std::process::ExitCode;

use daesy::Watch;
use daesy::program::{Status, ask};
use daesy::source::{ModelText, Place, Source};
use hidden::{Hidden, Outcome, largest_error, nonlinear, time_varying};

const ACCURATE: f64 = 1e-6;

fn outcome(hidden: &Hidden) -> Outcome {
    let model = ModelText { name: "hidden.mo".to_owned(), text: hidden.text.clone() };
    let source = Source { place: Place::Model(model), data: Vec::new() };
    let answer = ask("simulate", source, &[], &Watch::default());
    match (&answer.table, answer.status) {
        (Some(table), Status::Done) => Outcome::Solved(largest_error(hidden, &table.names, &table.columns)),
        _ => Outcome::Refused(answer.diagnostics.iter().map(|it| it.code.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (count, seed) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(1));
    let mut is_good = true;
    for kind in ["time-varying", "nonlinear"] {
        let (mut n_wrong, mut n_refused) = (0, 0);
        for seed in seed..seed + count {
            let hidden = if kind == "nonlinear" { nonlinear(seed) } else { time_varying(seed) };
            match outcome(&hidden) {
                Outcome::Solved(error) if error <= ACCURATE => {}
                Outcome::Solved(error) => {
                    n_wrong += 1;
                    println!("{kind} {seed}, index {}, {} unknowns: wrong by {error:.1e}", hidden.index, hidden.n());
                }
                Outcome::Refused(codes) => {
                    n_refused += 1;
                    println!("{kind} {seed}, index {}, {} unknowns: refused, {codes}", hidden.index, hidden.n());
                }
            }
        }
        println!("{kind}: {count} models, {n_wrong} wrong, {n_refused} refused");
        is_good &= n_wrong == 0 && 20 * n_refused <= count;
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
