//! What a call from Python costs beyond the call in Rust: a model of two states, simulated again and again.
//!
//! Both sides run the same compiled model over the same span with the same rows, and count the fastest of many bursts.

use std::process::ExitCode;

use daesy::load::{LoadOptions, load_source};
use daesy::simulate::Simulator;
use daesy::source::{ModelText, Place, Source};
use daesy_bench::{clock, peer};

const MODEL: &str = "model Two Real x(start = 1, fixed = true); Real v(start = 0, fixed = true); \
                     equation der(x) = v; der(v) = -x - 0.1*v; annotation(experiment(StopTime = 1, Interval = 0.1)); end Two;";

/// Microseconds that a call from Python may cost more.
const ALLOWED: f64 = 50.0;

fn main() -> ExitCode {
    match compare() {
        Ok(is_met) => ExitCode::from(u8::from(!is_met)),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<bool, String> {
    let model = ModelText { name: "two.mo".to_owned(), text: MODEL.to_owned() };
    let source = Source { place: Place::Model(model), data: Vec::new() };
    let first = |diagnostics: &[daesy::diagnostic::Diagnostic]| {
        diagnostics.first().map_or_else(String::new, |diagnostic| diagnostic.render(false))
    };
    let loaded = load_source(&source, &LoadOptions::default()).map_err(|wrong| first(&wrong))?;
    let simulator = Simulator::new(&loaded).map_err(|failure| failure.to_string())?;
    let mut run = || drop(simulator.trace(&simulator.options));
    let [nanoseconds] = clock::race([&mut run]);
    let rust = nanoseconds * 1e-3;
    let printed = peer::run("python.py", MODEL)?;
    let python: f64 = printed.trim().parse().map_err(|_| format!("the peer printed `{}`", printed.trim()))?;
    let over = python - rust;
    println!("simulate, 2 states, 11 rows: {rust:.1} us in Rust, {python:.1} us from Python, {over:.1} us over it");
    println!("{}", if over < ALLOWED { "below 50 us" } else { "NOT below 50 us" });
    Ok(over < ALLOWED)
}
