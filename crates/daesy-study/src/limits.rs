//! How much a study or an option may ask for: every size is compared with a named limit, and with the memory that is
//! free, before memory is taken.
//!
//! A refusal is a [`Refusal`]: what was asked, the limit, and what to do. Whoever reads the number makes a finding of
//! it, at its place.

use daesy_graph::Span;
use daesy_graph::finding::Finding;

/// Most realizations of an ensemble: a standard error of 1e-3 of the spread needs 1e6.
pub const MAX_REALIZATIONS: u64 = 10_000_000;
/// Most points from which a search starts.
pub const MAX_STARTS: u64 = 10_000;
/// Most draws of a chain.
pub const MAX_DRAWS: u64 = 1_000_000;
/// Most chains.
pub const MAX_CHAINS: u64 = 1000;
/// Most data sets of a parametric bootstrap.
pub const MAX_BOOTSTRAP: u64 = 100_000;
/// Most samples that a prediction looks ahead.
pub const MAX_HORIZON: u64 = 10_000;
/// Highest order of a presampling filter.
pub const MAX_FILTER_ORDER: u64 = 50;
/// Most particles of a filter.
pub const MAX_PARTICLES: u64 = 10_000_000;
/// Most intervals of the grid of disturbances in one experiment: their numbers are counted in 32 bits.
pub const MAX_NOISE_INTERVALS: f64 = 1e9;
/// Most points of a parameter grid, all axes together.
pub const MAX_GRID_POINTS: u64 = 1_000_000;
/// Highest degree of a polynomial basis: beyond it, rules of quadrature lose their accuracy.
pub const MAX_DEGREE: u64 = daesy_chaos::MAX_DEGREE as u64;
/// Most points per parameter of a grid of quadrature.
pub const MAX_QUADRATURE_POINTS: u64 = 1000;
/// Most samples of a Monte Carlo method.
pub const MAX_SAMPLES: u64 = 100_000_000;
/// Most lines before the header of a data file.
pub const MAX_SKIPPED: u64 = 1_000_000;
/// Most threads.
pub const MAX_THREADS: u64 = 1024;
/// Smallest relative tolerance: some fifty times the rounding error of a double.
pub const MIN_RTOL: f64 = 1e-14;
/// Most variables of a model given by matrices whose analysis needs them in full.
pub const MAX_DENSE: usize = 2000;

/// Share of the free memory that a request may take.
const SHARE: f64 = 0.8;

/// Why a size is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Kind of finding.
    pub code: &'static str,
    /// What was asked, and the limit.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Refusal {
    /// The finding at its place.
    #[must_use]
    pub fn at(self, span: Span) -> Finding {
        Finding::error(self.code, span, self.message).with_help(self.help)
    }
}

/// Compares a number that was asked for with the most there may be.
///
/// # Errors
/// When it is larger.
pub fn at_most(what: &str, asked: u64, most: u64) -> Result<(), Refusal> {
    if asked <= most {
        return Ok(());
    }
    let message = format!("{what} is {asked}, but the limit is {most}");
    Err(Refusal { code: "too-large", message, help: format!("take {most} at most") })
}

/// Compares the bytes that something needs with those that are free.
///
/// # Errors
/// When they are too many.
pub fn fits(what: &str, bytes: f64, help: &str) -> Result<(), Refusal> {
    let free = free_memory();
    if bytes <= SHARE * free {
        return Ok(());
    }
    let message = format!("{what} would need about {}, and {} are free", size_text(bytes), size_text(free));
    Err(Refusal { code: "too-much-memory", message, help: help.to_owned() })
}

/// The grid of disturbances of one experiment: `span / step` intervals, each with the inputs at its nodes.
///
/// # Errors
/// When there are too many intervals, or they do not fit into memory.
pub fn noise_grid(step: f64, span: f64, n_inputs: usize) -> Result<(), Refusal> {
    /// Numbers per input and interval, and what is kept about breaks within it.
    const NODES: f64 = 8.0;
    const BREAKS: f64 = 48.0;
    let n_intervals = (span / step).ceil().max(1.0);
    let what = format!("`noise_step` = {step:e} makes {n_intervals:.3e} intervals of {span} s");
    if n_intervals > MAX_NOISE_INTERVALS {
        let message = format!("{what}, but the limit is {MAX_NOISE_INTERVALS:.0e}");
        let help = format!("take a `noise_step` of {:.2e} or more", span / MAX_NOISE_INTERVALS);
        return Err(Refusal { code: "too-large", message, help });
    }
    let bytes = n_intervals * (8.0 * NODES * n_inputs as f64 + BREAKS);
    fits(&format!("{what}: that"), bytes, "take a larger `noise_step`, or shorter data")
}

/// The rows of a simulation: as many numbers as variables each, once by row, once by column and once as text.
///
/// # Errors
/// When they do not fit into memory.
pub fn output_rows(n_rows: f64, n_variables: usize) -> Result<(), Refusal> {
    const OF_NUMBER: f64 = 8.0 + 8.0 + 20.0;
    const OF_ROW: f64 = 48.0;
    let bytes = n_rows * (OF_NUMBER * n_variables as f64 + OF_ROW);
    let what = format!("{n_rows:.0} output rows of {n_variables} variables");
    fits(&what, bytes, "take a longer `step` in `[simulate]` (`Interval` of the model), or an earlier end")
}

/// The realizations of an ensemble: each has its states and their derivatives at the start, and the values of its
/// outputs.
///
/// # Errors
/// When they do not fit into memory.
pub fn ensemble(n_realizations: usize, numbers_each: usize) -> Result<(), Refusal> {
    at_most("`realizations`", n_realizations as u64, MAX_REALIZATIONS)?;
    let bytes = 8.0 * n_realizations as f64 * numbers_each as f64;
    fits(&format!("{n_realizations} realizations"), bytes, "take fewer `realizations`")
}

/// A matrix of a linear model: its rows become equations and its columns variables.
///
/// # Errors
/// When they do not fit into memory.
pub fn matrix(what: &str, n_rows: usize, n_columns: usize) -> Result<(), Refusal> {
    /// What an equation or a variable takes in a flat model, its regular form and its programs.
    const BYTES_EACH: f64 = 2000.0;
    let what = format!("{what} of {n_rows} rows and {n_columns} columns");
    fits(&what, BYTES_EACH * (n_rows as f64 + n_columns as f64), "take a smaller model")
}

/// A linear model whose matrices are needed in full.
///
/// # Errors
/// When it has too many variables, or its matrices do not fit into memory.
pub fn dense(n_rows: usize, n_columns: usize) -> Result<(), Refusal> {
    /// Matrices that are held at the same time: the pencil, its reductions and their transformations.
    const MATRICES: f64 = 24.0;
    let n = n_rows.max(n_columns);
    if n > MAX_DENSE {
        let message = format!("the model has {n} variables; its matrices are reduced in full, for up to {MAX_DENSE}");
        let help = "`daesy check` and `daesy simulate` take larger models".to_owned();
        return Err(Refusal { code: "too-large", message, help });
    }
    let bytes = 8.0 * MATRICES * n_rows as f64 * n_columns as f64;
    fits(&format!("reducing matrices of {n_rows} rows and {n_columns} columns"), bytes, "take a smaller model")
}

/// A relative tolerance that rounding errors allow.
///
/// # Errors
/// When it is smaller.
pub fn tolerance(what: &str, rtol: f64) -> Result<(), Refusal> {
    if rtol >= MIN_RTOL {
        return Ok(());
    }
    let message = format!("{what} is {rtol:e}, but the limit is {MIN_RTOL:e}: smaller errors drown in rounding");
    Err(Refusal { code: "too-small", message, help: "1e-10 is a small tolerance, 1e-6 the usual one".to_owned() })
}

/// Bytes that this process can still have: what the system has free, within the limits of the process and of its
/// group; 8 GB where nothing is known.
#[must_use]
pub fn free_memory() -> f64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let in_system = kilobytes(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(8e9);
    let status = read("/proc/self/status");
    let of_process = address_space(&read("/proc/self/limits")).map_or(f64::INFINITY, |limit| {
        let taken = kilobytes(&status, "VmSize:").unwrap_or(0.0);
        (limit - taken).max(0.0)
    });
    let number = |path: &str| read(path).trim().parse::<f64>().ok();
    let of_group = number("/sys/fs/cgroup/memory.max").map_or(f64::INFINITY, |limit| {
        let taken = number("/sys/fs/cgroup/memory.current").unwrap_or(0.0);
        (limit - taken).max(0.0)
    });
    in_system.min(of_process).min(of_group)
}

/// The bytes that a line such as `VmSize:   1234 kB` says.
fn kilobytes(text: &str, key: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(1024.0 * rest.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()?)
}

/// The soft limit in the line `Max address space  1000000  unlimited  bytes`; `None` if there is none.
fn address_space(text: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A number of bytes for people.
#[must_use]
pub fn size_text(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes / 1e3;
    for unit in UNITS {
        if value < 1000.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1e3;
    }
    format!("{:.1e} EB", value * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_was_asked_and_the_limit() {
        assert_eq!(at_most("`starts`", MAX_STARTS, MAX_STARTS), Ok(()));
        let refusal = at_most("`starts`", u64::MAX, MAX_STARTS).unwrap_err();
        assert_eq!(refusal.message, "`starts` is 18446744073709551615, but the limit is 10000");
        assert_eq!(noise_grid(1e-300, 2.0, 1).unwrap_err().code, "too-large");
        assert_eq!(noise_grid(1e-3, 2.0, 1), Ok(()));
        assert!(fits("this", 1e3, "").is_ok());
        assert_eq!(fits("this", 1e18, "less").unwrap_err().code, "too-much-memory");
        assert!(tolerance("`rtol`", 1e-13).is_ok() && tolerance("`rtol`", 1e-17).is_err());
    }

    #[test]
    fn limits_of_the_process_are_read() {
        assert_eq!(kilobytes("VmPeak:\t 5 kB\nVmSize:\t    2048 kB\n", "VmSize:"), Some(2_097_152.0));
        assert_eq!(address_space("Limit\nMax address space         4096000   unlimited  bytes\n"), Some(4_096_000.0));
        assert_eq!(address_space("Max address space         unlimited   unlimited  bytes\n"), None);
        assert_eq!(size_text(2.5e9), "2.5 GB");
    }
}
