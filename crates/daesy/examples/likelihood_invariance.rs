//! A campaign of random linear stochastic descriptor systems whose likelihoods are known.
//!
//! ```text
//! cargo run --release -p daesy --example likelihood_invariance -- [COUNT [SEED]]
//! ```
//!
//! COUNT systems of index 1 to 3, with noise in the algebraic part too, are written in four orders of variables and
//! equations and in two systems of units each. For all ways to start, the log-likelihoods that `cost` gives must equal
//! the joint normal density of the data to 1e-8. Every system that is off or refused is named by its seed.

mod likelihood;

use std::process::ExitCode;

use likelihood::{MODES, largest_difference};

const SAME: f64 = 1e-8;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let (count, seed) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(1));
    let mut is_good = true;
    for mode in MODES {
        let (mut n_off, mut n_refused, mut largest) = (0, 0, 0.0f64);
        for seed in seed..seed + count {
            match largest_difference(seed, mode) {
                Ok(off) if off <= SAME => largest = largest.max(off),
                Ok(off) => {
                    n_off += 1;
                    println!("{mode} {seed}: off by {off:.1e}");
                }
                Err(said) => {
                    n_refused += 1;
                    println!("{mode} {seed}: refused, {said}");
                }
            }
        }
        println!("{mode}: {count} systems, {n_off} off, {n_refused} refused, the others within {largest:.1e}");
        is_good &= n_off + n_refused == 0;
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
