//! Structural analysis as systems grow, and index reduction against CasADi's `dae_reduce_index`.
//!
//! `cargo xtask bench structure [LARGEST NUMBER OF EQUATIONS]`
#![forbid(unsafe_code)]

use std::fmt::Write;

use daesy_bench::clock::{Measurement, best_of};
use daesy_bench::expression::FlatBuilder;
use daesy_bench::peer;
use daesy_graph::flat::FlatDae;
use daesy_structure::{
    Entry, Incidence, IncidenceBuilder, IncidenceError, block_triangular_form, maximum_matching, regularize,
    sigma_analysis,
};
use planted::Plain;

#[allow(dead_code, missing_docs)]
#[path = "../../../crates/daesy-structure/tests/structure/planted.rs"]
mod planted;

/// Size at which index reductions are compared.
const COMPARED: usize = 10_000;

/// How many times faster than CasADi the index is to be reduced there.
const GOAL: f64 = 50.0;

/// A run of the peer that is expected to take longer is not started.
const PATIENCE: f64 = 40.0;

/// One family of systems.
struct Family {
    name: &'static str,
    build: fn(usize, &mut fastrand::Rng) -> Plain,
}

fn side(n_per_node: f64, n: usize) -> usize {
    (n as f64 / n_per_node).sqrt().round().max(2.0) as usize
}

const FAMILIES: [Family; 9] = [
    Family { name: "chain of pendulums", build: |n, _| planted::pendulum_chain(n / 3) },
    Family { name: "chain of gears", build: |n, _| planted::gear_train(n / 3) },
    Family { name: "chain of differentiators", build: |n, _| planted::differentiator_cascade(n) },
    Family { name: "ring, offsets to 10", build: |n, _| planted::sawtooth_ring(n, 10) },
    Family { name: "ring, offsets to 1000", build: |n, _| planted::sawtooth_ring(n, 1000) },
    Family { name: "grid of resistors", build: |n, rng| planted::circuit_grid(side(3.0, n), rng) },
    Family { name: "grid of rods", build: |n, _| planted::rod_grid(side(3.0, n)) },
    Family { name: "random, blocks to 50", build: |n, rng| planted::random_blocks(n, 50, 3, 3, rng) },
    Family { name: "random, any block", build: |n, rng| planted::random_blocks(n, n, 3, 3, rng) },
];

/// One family of each kind, of an index that the peer can handle.
const COMPARED_FAMILIES: [&str; 3] = ["chain of pendulums", "grid of resistors", "random, blocks to 50"];

/// In which order equations and variables are numbered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Neighbours close together, as models are written.
    Written,
    /// At random: nearly every access misses the cache once the system outgrows it.
    Shuffled,
}

/// A signature matrix with the offsets it was built to have.
struct System {
    incidence: Incidence,
    equation_offsets: Vec<u32>,
    variable_offsets: Vec<u32>,
}

impl System {
    fn new(plain: Plain, order: Order, rng: &mut fastrand::Rng) -> Result<Self, IncidenceError> {
        if order == Order::Shuffled {
            let hidden = plain.hide(rng);
            return Ok(Self {
                incidence: hidden.incidence,
                equation_offsets: hidden.equation_offsets,
                variable_offsets: hidden.variable_offsets,
            });
        }
        let mut builder = IncidenceBuilder::new(plain.rows.len())?;
        for row in &plain.rows {
            builder.push_equation(row.iter().copied())?;
        }
        Ok(Self {
            incidence: builder.finish(),
            equation_offsets: plain.equation_offsets,
            variable_offsets: plain.variable_offsets,
        })
    }
}

/// Prints times and growth exponents of one family at 1e4, 1e5, .. equations; returns the exponent over all sizes.
fn scale(family: &Family, order: Order, largest: usize) -> Option<f64> {
    let mut measured: Vec<Measurement> = Vec::new();
    let mut n = 10_000;
    while n <= largest {
        let mut rng = fastrand::Rng::with_seed(n as u64);
        let system = System::new((family.build)(n, &mut rng), order, &mut rng).ok()?;
        let incidence = &system.incidence;
        let n_runs = if n > 100_000 { 2 } else { 5 };
        let matching_seconds = best_of(n_runs, || maximum_matching(incidence));
        let matching = maximum_matching(incidence);
        let block_seconds = best_of(n_runs, || block_triangular_form(incidence, &matching));
        let whole_seconds = best_of(n_runs, || sigma_analysis(incidence));
        let Ok(analysis) = sigma_analysis(incidence) else {
            println!("{:<26} {:>9} is said to be singular, but is not", family.name, incidence.n_equations());
            return None;
        };
        let is_right = analysis.equation_offsets == system.equation_offsets
            && analysis.variable_offsets == system.variable_offsets;
        let now = Measurement { size: incidence.n_equations() as f64, seconds: whole_seconds };
        println!(
            "{:<26} {:>9} {:>9} {:>9.4} {:>9.4} {:>9.4} {:>8} {:>8} {:>7}",
            family.name,
            incidence.n_equations(),
            incidence.n_entries(),
            matching_seconds,
            block_seconds,
            whole_seconds,
            measured.last().map_or_else(|| "-".to_owned(), |&earlier| format!("{:.2}", now.growth_since(earlier))),
            analysis.structural_index,
            if is_right { "right" } else { "WRONG" },
        );
        measured.push(now);
        n *= 10;
    }
    match measured[..] {
        [first, .., last] => Some(last.growth_since(first)),
        _ => None,
    }
}

/// A system of first order: what CasADi takes.
struct FirstOrder {
    n_variables: usize,
    /// Entries of each equation; orders are 0 and 1.
    rows: Vec<Vec<Entry>>,
}

impl FirstOrder {
    /// Derivatives below the highest become variables of their own: x_0' = x_1, x_1' = x_2, ..
    fn of(plain: &Plain) -> Self {
        let n = plain.rows.len();
        let mut highest = vec![0u8; n];
        for entry in plain.rows.iter().flatten() {
            let order = &mut highest[entry.variable as usize];
            *order = (*order).max(entry.order);
        }
        let mut rows = Vec::new();
        let mut first = Vec::with_capacity(n);
        let mut n_variables = 0u32;
        for &order in &highest {
            first.push(n_variables);
            n_variables += u32::from(order.max(1));
            for next in n_variables - u32::from(order.max(1)) + 1..n_variables {
                rows.push(vec![Entry { variable: next - 1, order: 1 }, Entry { variable: next, order: 0 }]);
            }
        }
        let place = |entry: &Entry| {
            let variable = entry.variable as usize;
            let is_derivative = entry.order > 0 && entry.order == highest[variable];
            let step = u32::from(entry.order) - u32::from(is_derivative);
            Entry { variable: first[variable] + step, order: u8::from(is_derivative) }
        };
        rows.extend(plain.rows.iter().map(|row| row.iter().map(place).collect::<Vec<_>>()));
        Self { n_variables: n_variables as usize, rows }
    }

    /// Coefficient of an entry.
    fn coefficient(equation: usize, place: usize) -> f64 {
        1.0 + ((equation * 7 + place * 3) % 11) as f64 / 8.0
    }

    /// The equations as the peer's script reads them.
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.n_variables);
        for (equation, row) in self.rows.iter().enumerate() {
            for (place, entry) in row.iter().enumerate() {
                let coefficient = Self::coefficient(equation, place);
                // Writing to a string does not fail.
                let _ = write!(text, "{} {} {coefficient} ", entry.variable, entry.order);
            }
            text.push('\n');
        }
        text
    }

    /// The same equations as a flat model.
    fn flat(&self) -> FlatDae {
        let model = FlatBuilder::default();
        let unknowns: Vec<_> = (0..self.n_variables).map(|k| model.unknown(format!("x[{}]", k + 1))).collect();
        for (equation, row) in self.rows.iter().enumerate() {
            let mut total = model.number(0.0);
            for (place, entry) in row.iter().enumerate() {
                let value = unknowns[entry.variable as usize].der(u16::from(entry.order));
                let value = if entry.order == 0 { value.sin() } else { value };
                total = total + Self::coefficient(equation, place) * value;
            }
            model.equation(total);
        }
        drop(unknowns);
        model.finish("Planted")
    }
}

/// A system of the family with about this many equations once it is of first order.
fn first_order(family: &Family, n_equations: usize) -> FirstOrder {
    let build = |n: usize| FirstOrder::of(&(family.build)(n, &mut fastrand::Rng::with_seed(1)));
    let trial = build(n_equations.max(400));
    let share = n_equations.max(400) as f64 / trial.rows.len() as f64;
    build((n_equations as f64 * share).round() as usize)
}

/// What CasADi needs, or why it is not known.
fn ask_peer(system: &FirstOrder) -> Result<Measurement, String> {
    let answer = peer::run("structure.py", &system.text())?;
    let seconds = answer.split_whitespace().next().and_then(|word| word.parse().ok());
    let seconds = seconds.ok_or_else(|| answer.trim().to_owned())?;
    Ok(Measurement { size: system.rows.len() as f64, seconds })
}

/// Prints both at growing sizes up to `COMPARED`; returns how many times faster ours is there.
fn compare(family: &Family) -> Option<f64> {
    let mut measured: Vec<Measurement> = Vec::new();
    let mut n = 625;
    loop {
        let system = first_order(family, n);
        let flat = system.flat();
        let mut copies: Vec<FlatDae> = (0..3).map(|_| flat.clone()).collect();
        let ours = best_of(3, || copies.pop().map(regularize).is_some_and(|result| result.is_ok()));
        let expected = match measured[..] {
            [.., earlier, last] => last.extrapolate(earlier, system.rows.len() as f64),
            _ => 0.0,
        };
        let peer = if expected > PATIENCE {
            None
        } else {
            match ask_peer(&system) {
                Ok(measurement) => Some(measurement),
                Err(message) => {
                    println!("{:<26} {:>9} {ours:>11.5} {message}", family.name, system.rows.len());
                    return None;
                }
            }
        };
        let seconds = peer.map_or(expected, |measurement| measurement.seconds);
        let growth = match (measured.last(), peer) {
            (Some(&last), Some(now)) => format!("{:.2}", now.growth_since(last)),
            _ => "-".to_owned(),
        };
        println!(
            "{:<26} {:>9} {ours:>11.5} {seconds:>11.3} {growth:>8} {:>9.0} {}",
            family.name,
            system.rows.len(),
            seconds / ours,
            if peer.is_some() { "measured" } else { "extrapolated from the two sizes before" },
        );
        measured.extend(peer);
        if n == COMPARED {
            return Some(seconds / ours);
        }
        // After the patience has ended only the last size is of interest.
        n = if peer.is_some() { (n * 2).min(COMPARED) } else { COMPARED };
    }
}

fn main() {
    let largest = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000usize);
    println!(
        "Processor seconds, best of several, of systems of known structure. `whole` is the analysis a model goes through:"
    );
    println!("matching, offsets and block-triangular form; `matching` and `blocks` are the same two on their own.");
    for (order, text) in [(Order::Written, "as written"), (Order::Shuffled, "shuffled")] {
        println!(
            "{:<26} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>7}",
            text, "equations", "entries", "matching", "blocks", "whole", "growth", "index", "answer"
        );
        let is_asked = |family: &&Family| order == Order::Written || COMPARED_FAMILIES.contains(&family.name);
        let exponents: Vec<f64> =
            FAMILIES.iter().filter(is_asked).filter_map(|family| scale(family, order, largest)).collect();
        if let Some(worst) = exponents.into_iter().reduce(f64::max) {
            println!("{text}: worst growth exponent from 10000 to {largest} equations {worst:.2}, goal at most 1.1");
        }
    }
    println!();
    println!(
        "Index reduction from expressions, processor seconds: `regularize` (incidence, aliases, matching, offsets,"
    );
    println!(
        "differentiated equations, blocks, linearity) against CasADi's `dae_reduce_index` on the same first-order system."
    );
    println!("{:<26} {:>9} {:>11} {:>11} {:>8} {:>9}", "family", "equations", "daesy", "CasADi", "growth", "ratio");
    let ratios = FAMILIES.iter().filter(|family| COMPARED_FAMILIES.contains(&family.name)).filter_map(compare);
    if let Some(worst) = ratios.reduce(f64::min) {
        println!("at {COMPARED} equations at least {worst:.0} times faster, goal {GOAL}");
    }
}
