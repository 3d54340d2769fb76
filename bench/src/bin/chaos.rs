//! Random parameters: the linearized amplifier with three random capacitors and five random resistors by Galerkin
//! expansion, sparse collocation, Monte Carlo, and by chaospy's sparse collocation on simulations of the same
//! integrator; and the growth of the expansion of an RC ladder.
//!
//! Errors are of the standard deviation of the output over time, relative to its largest value, against a sparse grid
//! of degree 5.

use std::time::Instant;

use daesy::failure::Failure;
use daesy::load::{LoadOptions, Loaded, load_source};
use daesy::source::{ModelText, Place, Source};
use daesy::uq::{UqSettings, run_at, uq};
use daesy_bench::peer;
use serde_json::{Value, json};

const NOMINAL: [(&str, f64); 8] = [
    ("C1", 1e-6),
    ("C2", 2e-6),
    ("C3", 3e-6),
    ("R1", 9000.0),
    ("R2", 9000.0),
    ("R3", 9000.0),
    ("R4", 9000.0),
    ("R5", 9000.0),
];
const RELATIVE: f64 = 0.1;
const OUTPUT: &str = "U5";

fn load_text(study: String, name: &str, model: String) -> Result<Loaded, String> {
    let models = vec![ModelText { name: name.to_owned(), text: model }];
    let place = Place::Study { name: "study.toml".to_owned(), text: study, folder: ".".into(), models };
    load_source(&Source { place, data: Vec::new() }, &LoadOptions::default()).map_err(|wrong| format!("{wrong:?}"))
}

fn told(failure: Failure) -> String {
    failure.to_string()
}

fn amplifier(uq: &str) -> Result<Loaded, String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../problems/amplifier/linear.mo");
    let model = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let random: String = NOMINAL
        .iter()
        .map(|(name, mean)| format!("{name} = {{ uniform = {{ mean = {mean:e}, relative = {RELATIVE} }} }}\n"))
        .collect();
    let study = format!(
        "[model]\nfile = \"linear.mo\"\n[random]\n{random}[simulate]\nstop = 0.05\nstep = 0.001\nrtol = 1e-9\natol = 1e-11\n\
         [uq]\nvalidation = 0\nvariables = [\"{OUTPUT}\"]\n{uq}\n"
    );
    load_text(study, "linear.mo", model)
}

struct Found {
    std: Vec<f64>,
    seconds: f64,
    n_runs: usize,
    n_unknowns: usize,
}

fn solve(options: &str, seed: u64) -> Result<Found, String> {
    let loaded = amplifier(options)?;
    let settings = UqSettings { seed, threads: Some(1), checkpoint: None };
    let begin = Instant::now();
    let found = uq(&loaded, &settings).map_err(told)?;
    Ok(Found {
        std: found.moments[0].std.clone(),
        seconds: begin.elapsed().as_secs_f64(),
        n_runs: found.n_simulations,
        n_unknowns: found.n_unknowns.unwrap_or(0),
    })
}

/// chaospy chooses the points and fits; the simulations are daesy's.
fn chaospy(order: usize) -> Result<Found, String> {
    let bounds: Vec<[f64; 2]> =
        NOMINAL.iter().map(|(_, mean)| [mean * (1.0 - RELATIVE), mean * (1.0 + RELATIVE)]).collect();
    let ask = |request: Value| -> Result<Value, String> {
        serde_json::from_str(&peer::run("chaos.py", &request.to_string())?).map_err(|error| error.to_string())
    };
    let grid = ask(json!({ "bounds": bounds, "order": order }))?;
    let points: Vec<Vec<f64>> = serde_json::from_value(grid["points"].clone()).map_err(|error| error.to_string())?;
    let loaded = amplifier("degree = 2")?;
    let begin = Instant::now();
    let settings = UqSettings { threads: Some(1), ..UqSettings::default() };
    let runs = run_at(&loaded, &points, &settings).map_err(told)?;
    let simulated = begin.elapsed().as_secs_f64();
    let values: Vec<&Vec<f64>> = runs.values.iter().map(AsRef::as_ref).collect();
    let fit = ask(json!({
        "bounds": bounds, "order": order, "points": points, "weights": grid["weights"], "values": values,
    }))?;
    let std: Vec<f64> = serde_json::from_value(fit["std"].clone()).map_err(|error| error.to_string())?;
    let own = grid["seconds"].as_f64().unwrap_or(0.0) + fit["seconds"].as_f64().unwrap_or(0.0);
    println!("    (chaospy's own part: {own:.2} s)");
    Ok(Found { std, seconds: simulated + own, n_runs: points.len(), n_unknowns: 0 })
}

fn ladder(n: usize, degree: usize) -> Result<(), String> {
    let model = format!(
        "model Ladder parameter Real R = 1; parameter Real C = 1; parameter Real Rl = 2;\n\
         Real v[{n}](each start = 0, each fixed = true); Real i[{n}];\nequation\n\
         i[1] = (1 - v[1])/R;\nfor k in 2:{n} loop i[k] = (v[k-1] - v[k])/R; end for;\n\
         for k in 1:{n}-1 loop C*der(v[k]) = i[k] - i[k+1]; end for;\nC*der(v[{n}]) = i[{n}] - v[{n}]/Rl;\nend Ladder;"
    );
    let random: String = ["R = 1", "C = 1", "Rl = 2"].iter().fold(String::new(), |text, entry| {
        let (name, mean) = entry.split_once(" = ").unwrap_or((entry, "1"));
        text + &format!("{name} = {{ uniform = {{ mean = {mean}, relative = 0.2 }} }}\n")
    });
    let study = format!(
        "[model]\nfile = \"ladder.mo\"\n[random]\n{random}[simulate]\nstop = 1\nstep = 0.5\nrtol = 1e-4\n\
         [uq]\nmethod = \"galerkin\"\ndegree = {degree}\nvalidation = 0\nvariables = [\"v[1]\", \"v[{n}]\"]\n"
    );
    let loaded = load_text(study, "ladder.mo", model)?;
    let begin = Instant::now();
    let settings = UqSettings { threads: Some(1), ..UqSettings::default() };
    let found = uq(&loaded, &settings).map_err(told)?;
    let seconds = begin.elapsed().as_secs_f64();
    let unknowns = found.n_unknowns.unwrap_or(0);
    println!(
        "  {unknowns:>7} unknowns: {seconds:>8.2} s, {:>6.1} us and {:>5.1} kB per unknown",
        1e6 * seconds / unknowns as f64,
        peak_kilobytes() / unknowns as f64
    );
    Ok(())
}

/// Largest memory of the process so far.
fn peak_kilobytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(f64::NAN)
}

fn main() -> Result<(), String> {
    println!("RC ladder, three random parameters, one thread:");
    for (n, degree) in [(100, 2), (250, 3), (1000, 3), (2500, 3)] {
        ladder(n, degree)?;
    }
    println!("amplifier, three random capacitors and five random resistors, one thread:");
    let reference = solve("method = \"collocation\"\ngrid = \"sparse\"\ndegree = 5", 0)?;
    println!("  reference: sparse grid of degree 5, {} simulations, {:.1} s", reference.n_runs, reference.seconds);
    let size = reference.std.iter().copied().fold(0.0, f64::max);
    let report = |name: &str, found: &Found| {
        let error = found.std.iter().zip(&reference.std).fold(0.0f64, |most, (a, b)| most.max((a - b).abs())) / size;
        println!(
            "  {name:<28} {:>8.2} s  error {error:.1e}  ({} simulations, {} unknowns)",
            found.seconds, found.n_runs, found.n_unknowns
        );
    };
    for degree in 1..=3 {
        let found = solve(&format!("method = \"galerkin\"\ndegree = {degree}"), 0)?;
        report(&format!("galerkin, degree {degree}"), &found);
    }
    for degree in 1..=3 {
        let found = solve(&format!("method = \"collocation\"\ngrid = \"sparse\"\ndegree = {degree}"), 0)?;
        report(&format!("collocation, degree {degree}"), &found);
    }
    for order in 1..=3 {
        match chaospy(order) {
            Ok(found) => report(&format!("chaospy, order {order}"), &found),
            Err(reason) => println!("  chaospy, order {order}: {reason}"),
        }
    }
    for samples in [100, 1000] {
        for method in ["monte-carlo", "quasi-monte-carlo"] {
            let found = solve(&format!("method = \"{method}\"\ndegree = 1\nsamples = {samples}"), 1)?;
            report(&format!("{method}, {samples}"), &found);
        }
    }
    Ok(())
}
