//! Work and precision of single trajectories: daesy on problems in their original form against SUNDIALS IDA and diffsol
//! on hand-reduced ones with analytic Jacobians, all in one run.
//!
//! `cargo xtask bench solve [problem ..] [--instructions]`
//!
//! Every solver runs at several tolerances; the error achieved at the end of the interval is measured against reference
//! values. Times are processor times of the fastest of several runs, with everything from the start values on. At each
//! of some errors the time of each solver is read from its curve (straight lines between the logarithms), and ratios
//! are printed. With `--instructions` the instructions of one run at each tolerance are counted by valgrind and
//! compared the same way.

use std::hint::black_box;
use std::process::Command;

use daesy_bench::ivp::race::{Models, Point, SOLVERS, Solver, Timed, at_tolerance, cost_at};
use daesy_bench::ivp::{PROBLEMS, Problem, Reached, Unreached};

const DIGITS: std::ops::RangeInclusive<i32> = 2..=11;

/// Errors at which times are compared.
const ERRORS: [f64; 6] = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8];

/// What is hoped for as geometric mean.
const GOAL: f64 = 2.0;

/// One run; a function of its own so that instructions can be counted in it.
#[inline(never)]
fn measured_solve(solver: Solver, problem: &Problem, models: &Models, rtol: f64) -> Result<Reached, Unreached> {
    solver.solve(problem, models, rtol)
}

/// Runs before the one whose instructions are counted, where what is made once for all runs is made. Times are those of
/// the fastest of nine.
const N_WARM_UP: usize = 8;

/// One run whose instructions are not counted.
#[inline(never)]
fn warm_up(solver: Solver, problem: &Problem, models: &Models, rtol: f64) -> Result<Reached, Unreached> {
    solver.solve(problem, models, rtol)
}

/// Instructions of one run, counted by valgrind in a process of its own.
fn instructions(solver: Solver, problem: &Problem, digits: i32) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_solve*"])
        .arg(std::env::current_exe().ok()?)
        .args(["--one", problem.folder, solver.name(), &digits.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find_map(|line| line.split("Collected :").nth(1).map(str::to_owned))?;
    line.trim().replace(',', "").parse().ok()
}

fn run_one(arguments: &[String]) {
    let [folder, solver, digits] = arguments else { return };
    let Some(problem) = PROBLEMS.iter().find(|problem| problem.folder == *folder) else { return };
    let Some(solver) = SOLVERS.into_iter().find(|known| known.name() == *solver) else { return };
    let (Ok(models), Ok(digits)) = (Models::load(problem), digits.parse()) else { return };
    let rtol = 10f64.powi(digits);
    for _ in 0..N_WARM_UP {
        let _ = black_box(warm_up(solver, problem, &models, rtol));
    }
    let _ = black_box(measured_solve(solver, problem, &models, rtol));
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// Ratios of the peers' costs to daesy's at equal errors, printed.
fn compare(what: &str, curves: &[Vec<Point>; 4]) -> Vec<f64> {
    println!("  {what} of the peers over daesy's at equal error:");
    print!("    {:<16}", "error");
    ERRORS.iter().for_each(|error| print!("{error:>9.0e}"));
    println!();
    let mut best = vec![None::<f64>; ERRORS.len()];
    for (solver, curve) in SOLVERS.iter().zip(curves).skip(1) {
        print!("    {:<16}", solver.name());
        for (at, &error) in ERRORS.iter().enumerate() {
            match (cost_at(&curves[0], error), cost_at(curve, error)) {
                (Some(own), Some(peer)) => {
                    let ratio = peer / own;
                    print!("{ratio:>9.2}");
                    best[at] = Some(best[at].map_or(ratio, |known| known.min(ratio)));
                }
                _ => print!("{:>9}", "-"),
            }
        }
        println!();
    }
    best.into_iter().flatten().collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--one") {
        run_one(&arguments[1..]);
        return;
    }
    let counts = arguments.iter().any(|argument| argument == "--instructions");
    let chosen: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let (mut by_time, mut by_instructions) = (Vec::new(), Vec::new());
    println!(
        "Single trajectories; fastest of several runs; the peers have hand-reduced index-1 forms and analytic Jacobians."
    );
    for problem in PROBLEMS {
        if !chosen.is_empty() && !chosen.iter().any(|name| problem.folder.contains(name.as_str())) {
            continue;
        }
        println!("{}", problem.folder);
        let models = match Models::load(problem) {
            Ok(models) => models,
            Err(unreached) => {
                println!("  not loaded: {}", unreached.reason);
                continue;
            }
        };
        let mut times: [Vec<Point>; 4] = Default::default();
        let mut work: [Vec<Point>; 4] = Default::default();
        for digits in DIGITS {
            let rtol = 10f64.powi(-digits);
            let found = at_tolerance(problem, &models, rtol);
            for (at, (solver, found)) in SOLVERS.into_iter().zip(found).enumerate() {
                let Timed { reached: Reached { error, n_steps }, seconds } = match found {
                    Ok(timed) => timed,
                    Err(unreached) => {
                        println!("  {} at {rtol:.0e}: {}", solver.name(), unreached.reason);
                        continue;
                    }
                };
                let counted = if counts { instructions(solver, problem, -digits) } else { None };
                print!(
                    "  {rtol:.0e} {:<15} error {error:8.2e} {:>10.1} us {n_steps:>7} steps",
                    solver.name(),
                    seconds * 1e6
                );
                match counted {
                    Some(counted) => println!(" {:>10.0} thousand instructions", counted / 1e3),
                    None => println!(),
                }
                times[at].push(Point { error, cost: seconds });
                work[at].extend(counted.map(|cost| Point { error, cost }));
            }
        }
        let ratios = compare("times", &times);
        println!("  faster than the best peer by {:.2} (least {:.2})", geometric_mean(&ratios), least(&ratios));
        by_time.push(geometric_mean(&ratios));
        if counts {
            let ratios = compare("instructions", &work);
            println!("  fewer than the best peer by {:.2} (least {:.2})", geometric_mean(&ratios), least(&ratios));
            by_instructions.push(geometric_mean(&ratios));
        }
    }
    println!("geometric mean over problems, time: {:.2} (goal {GOAL})", geometric_mean(&by_time));
    if counts {
        println!("geometric mean over problems, instructions: {:.2}", geometric_mean(&by_instructions));
    } else {
        println!("instructions were not counted (--instructions, by valgrind)");
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
