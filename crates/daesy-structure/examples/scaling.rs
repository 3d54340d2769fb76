//! Prints how long the structural analysis takes as systems grow, and the growth exponent per decade.
//!
//! `cargo run --release -p daesy-structure --example scaling [largest number of equations] [part of a family's name]`
//!
//! Every system is analysed in the order in which a model declares it and shuffled. Beyond the size of the caches, a
//! shuffled system pays for each first visit in main memory; its exponent shows the machine more than the algorithms.

use std::fs::read_to_string;
use std::time::Instant;

use daesy_structure::{Tearer, block_triangular_form, maximum_matching, sigma_analysis};

#[allow(dead_code, missing_docs)]
#[path = "../tests/structure/planted.rs"]
mod planted;

/// One family of systems.
struct Family {
    name: &'static str,
    build: fn(usize, &mut fastrand::Rng) -> planted::Plain,
}

/// Processor seconds of this process where Linux tells them, so that a busy machine does not blur the figures;
/// otherwise the clock on the wall.
struct Stopwatch {
    start: f64,
    wall: Instant,
}

impl Stopwatch {
    fn start() -> Self {
        Self { start: processor_seconds().unwrap_or(0.0), wall: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        // Processor time is told in coarse ticks.
        let wall = self.wall.elapsed().as_secs_f64();
        processor_seconds().map_or(wall, |now| if wall < 0.05 { wall } else { now - self.start })
    }
}

fn processor_seconds() -> Option<f64> {
    let nanoseconds: f64 = read_to_string("/proc/self/schedstat").ok()?.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds * 1e-9)
}

/// Seconds of one size, each the best of several runs.
#[derive(Clone, Copy)]
struct Seconds {
    matching: f64,
    blocks: f64,
    sigma: f64,
    tearing: f64,
}

impl Seconds {
    /// The Sigma-method includes matching and blocks of its own.
    fn total(&self) -> f64 {
        self.sigma + self.tearing
    }
}

fn side(n_per_node: f64, n: usize) -> usize {
    (n as f64 / n_per_node).sqrt().round().max(2.0) as usize
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let largest = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000usize);
    let wanted = arguments.next().unwrap_or_default();
    let families = [
        Family { name: "pendulum chain", build: |n, _| planted::pendulum_chain(n / 3) },
        Family { name: "gear train", build: |n, _| planted::gear_train(n / 3) },
        Family { name: "differentiators", build: |n, _| planted::differentiator_cascade(n) },
        Family { name: "sawtooth ring, 10", build: |n, _| planted::sawtooth_ring(n, 10) },
        Family { name: "sawtooth ring, 1000", build: |n, _| planted::sawtooth_ring(n, 1000) },
        Family { name: "circuit grid", build: |n, rng| planted::circuit_grid(side(3.0, n), rng) },
        Family { name: "rod grid", build: |n, _| planted::rod_grid(side(3.0, n)) },
        Family { name: "random, blocks<=50", build: |n, rng| planted::random_blocks(n, 50, 3, 3, rng) },
        Family { name: "random, any block", build: |n, rng| planted::random_blocks(n, n, 3, 3, rng) },
    ];
    println!(
        "{:<20} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>7} {:>8} {:>8} {:>7}",
        "family",
        "order",
        "equations",
        "entries",
        "match s",
        "btf s",
        "sigma s",
        "tear s",
        "expo",
        "index",
        "blocks",
        "largest",
        "torn"
    );
    for family in families.iter().filter(|family| family.name.contains(&wanted)) {
        for is_shuffled in [false, true] {
            let mut previous: Option<(usize, f64)> = None;
            let mut n = 10_000;
            while n <= largest {
                let mut rng = fastrand::Rng::with_seed(n as u64);
                let plain = (family.build)(n, &mut rng);
                let system = if is_shuffled { plain.hide(&mut rng) } else { plain.as_declared() };
                drop(plain);
                let measured = measure(&system, (2_000_000 / n).clamp(2, 40));
                let n_equations = system.incidence.n_equations();
                let exponent = previous.map(|(n_before, seconds)| {
                    (measured.seconds.total() / seconds).ln() / (n_equations as f64 / n_before as f64).ln()
                });
                previous = Some((n_equations, measured.seconds.total()));
                println!(
                    "{:<20} {:>8} {:>9} {:>9} {:>8.4} {:>8.4} {:>8.4} {:>8.4} {:>6} {:>7} {:>8} {:>8} {:>7}",
                    family.name,
                    if is_shuffled { "shuffled" } else { "declared" },
                    n_equations,
                    system.incidence.n_entries(),
                    measured.seconds.matching,
                    measured.seconds.blocks,
                    measured.seconds.sigma,
                    measured.seconds.tearing,
                    exponent.map_or(String::from("-"), |value| format!("{value:.2}")),
                    measured.structural_index,
                    measured.n_blocks,
                    measured.largest_block,
                    measured.n_torn,
                );
                n *= 10;
            }
        }
    }
}

/// What is printed for one system.
struct Measured {
    seconds: Seconds,
    structural_index: u32,
    n_blocks: usize,
    largest_block: usize,
    n_torn: usize,
}

fn measure(system: &planted::Hidden, n_runs: usize) -> Measured {
    let incidence = &system.incidence;
    let seconds = Seconds { matching: f64::MAX, blocks: f64::MAX, sigma: f64::MAX, tearing: f64::MAX };
    let mut measured = Measured { seconds, structural_index: 0, n_blocks: 0, largest_block: 0, n_torn: 0 };
    let best = &mut measured.seconds;
    for _ in 0..n_runs {
        let clock = Stopwatch::start();
        let matching = maximum_matching(incidence);
        best.matching = best.matching.min(clock.seconds());

        let clock = Stopwatch::start();
        let form = block_triangular_form(incidence, &matching);
        best.blocks = best.blocks.min(clock.seconds());
        assert!(form.is_ok());

        let clock = Stopwatch::start();
        let analysis = sigma_analysis(incidence).expect("generated systems are regular");
        best.sigma = best.sigma.min(clock.seconds());
        assert!(analysis.equation_offsets == system.equation_offsets);
        assert!(analysis.variable_offsets == system.variable_offsets);

        let jacobian = analysis.system_jacobian(incidence);
        let is_solvable = vec![true; jacobian.n_entries()];
        let blocks = &analysis.fine_blocks;
        let clock = Stopwatch::start();
        let mut tearer = Tearer::new(&jacobian, &is_solvable, blocks);
        measured.n_torn = (0..blocks.n_blocks())
            .filter(|&block_idx| blocks.places(block_idx).len() > 1)
            .map(|block_idx| tearer.tear(block_idx).tearing_variables.len())
            .sum();
        best.tearing = best.tearing.min(clock.seconds());
        measured.structural_index = analysis.structural_index;
        measured.n_blocks = blocks.n_blocks();
        measured.largest_block = blocks.largest_block();
    }
    measured
}
