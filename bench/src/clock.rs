//! Clocks that a busy machine does not disturb, and growth exponents.

use std::fs::read_to_string;
use std::time::Instant;

use cpu_time::ProcessTime;

/// Processor seconds of this process.
pub struct Stopwatch(ProcessTime);

impl Stopwatch {
    /// Starts to count.
    #[must_use]
    pub fn start() -> Self {
        Self(ProcessTime::now())
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Seconds of the fastest of several runs; what a run returns is dropped outside the measured time.
pub fn best_of<T>(n_runs: usize, mut run: impl FnMut() -> T) -> f64 {
    (0..n_runs)
        .map(|_| {
            let clock = Stopwatch::start();
            let result = run();
            let seconds = clock.seconds();
            drop(result);
            seconds
        })
        .fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of one call of each, from the fastest of many short bursts, by turns: the best ones were not
/// interrupted, and a processor that changes its speed does so for all.
pub fn race<const N: usize>(mut calls: [&mut dyn FnMut(); N]) -> [f64; N] {
    const BURST: f64 = 20e3;
    const N_ROUNDS: usize = 800;
    let n_calls: [usize; N] = std::array::from_fn(|k| {
        calls[k]();
        let start = Instant::now();
        calls[k]();
        let once = (start.elapsed().as_nanos() as f64).max(1.0);
        (BURST / once).clamp(1.0, 1e4) as usize
    });
    let mut best = [f64::INFINITY; N];
    for _ in 0..N_ROUNDS {
        for ((call, best), n_calls) in calls.iter_mut().zip(&mut best).zip(n_calls) {
            let start = Instant::now();
            for _ in 0..n_calls {
                call();
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / n_calls as f64);
        }
    }
    best
}

/// How much memory the process has held at most, in bytes, where Linux tells.
#[must_use]
pub fn memory_high_water() -> Option<u64> {
    let status = read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Starts to count that anew, where Linux lets a process do so.
pub fn reset_memory_high_water() {
    // Where it is not possible the figure stays that of the whole run so far, which is an upper bound.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Size and cost of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Size of the problem.
    pub size: f64,
    /// Seconds.
    pub seconds: f64,
}

impl Measurement {
    /// The exponent p with seconds ~ size^p from an earlier measurement to this.
    #[must_use]
    pub fn growth_since(&self, earlier: Self) -> f64 {
        (self.seconds / earlier.seconds).ln() / (self.size / earlier.size).ln()
    }

    /// Seconds at another size if the growth stays as it was from `earlier` to this.
    #[must_use]
    pub fn extrapolate(&self, earlier: Self, size: f64) -> f64 {
        self.seconds * (size / self.size).powf(self.growth_since(earlier))
    }
}
