//! Alarms on the innovations of a filter, at a stated rate of false ones.
//!
//! Normalized innovations `z` of a right model are independent and of unit variance. Two tests look at them; a third
//! compares the model with one that has a fault:
//!
//! ```text
//! chi-square   |z|^2 over the values of a sample  >  the quantile of chi-square with as many degrees of freedom
//! CUSUM        up <- max(0, up + z - k),  down <- max(0, down - z - k);  alarm where one exceeds h, which goes back to 0
//! fault        sum <- max(0, sum + ln p_fault(y) - ln p(y));  alarm where it exceeds ln(1 / rate), and goes back to 0
//! ```
//!
//! The first finds outliers and jumps at once, the second shifts that last, down to a part of a standard deviation
//! [@page1954]. With `k = 1/2` a shift of one standard deviation is found soonest.
//!
//! `h` follows from the rate asked for. The mean number of samples between alarms of one side, from `u`, solves
//!
//! ```text
//! L(u) = 1 + L(0) Phi(k - u) + integral over 0 <= y <= h of L(y) phi(y + k - u) dy
//! ```
//!
//! [@brook1972; solved here by Gauss-Legendre quadrature], and since a side begins anew at 0 after each alarm, its
//! alarms come at the rate `1 / L(0)`, and those of `m` signals with two sides each at `2 m / L(0)`, whether they
//! depend on each other or not.
//!
//! The third test sums logarithms of what a sample is worth under a fault and without, each given all samples before. For
//! a right model `R <- (1 + R) p_fault / p` has the mean number of samples since it was zero, and `exp(sum) <= R`: the
//! mean number of samples between false alarms is `1 / rate` at least, however samples depend on each other
//! [@lorden1971]. A fault is found after about `ln(1 / rate)` over the mean of a sample's term under it.

use std::f64::consts::PI;

use daesy_random::special_functions::normal_distribution;
use faer::Mat;
use faer::linalg::solvers::Solve;

use crate::chi_square::chi_square_tail;

/// What a sample must be off by, in standard deviations, for a CUSUM to grow: half of the shift that it finds soonest.
pub const CUSUM_REFERENCE: f64 = 0.5;

/// The least and the most false alarms per sample that can be asked for.
pub const RATES: std::ops::RangeInclusive<f64> = 1e-12..=0.1;

/// Thresholds for a rate of false alarms.
#[derive(Clone, PartialEq, Debug)]
pub struct Thresholds {
    /// False alarms of each test per sample.
    pub rate: f64,
    /// By the number of values in a sample less one.
    pub chi_square: Vec<f64>,
    /// `h`.
    pub cusum: f64,
}

impl Thresholds {
    /// Thresholds of both tests for some signals. The rate is brought into [`RATES`].
    #[must_use]
    pub fn new(rate: f64, n_signals: usize) -> Self {
        let rate = rate.clamp(*RATES.start(), *RATES.end());
        let chi_square = (1..=n_signals).map(|degrees| chi_square_quantile(rate, degrees as f64)).collect();
        Self { rate, chi_square, cusum: cusum_threshold(0.5 * rate / n_signals.max(1) as f64) }
    }
}

/// The value that a chi-square variable exceeds with a probability.
#[must_use]
pub fn chi_square_quantile(tail: f64, degrees_of_freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, degrees_of_freedom + 10.0);
    while chi_square_tail(high, degrees_of_freedom) > tail {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if chi_square_tail(middle, degrees_of_freedom) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The threshold at which one side of a CUSUM gives alarms at a rate.
#[must_use]
pub fn cusum_threshold(rate: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 1.0 / run_length(middle) > rate {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Mean number of samples between alarms of one side with threshold `h`.
#[must_use]
pub fn run_length(h: f64) -> f64 {
    let k = CUSUM_REFERENCE;
    // Several points on the scale of the normal density.
    let n = (24.0 + 6.0 * h).min(160.0) as usize;
    let (nodes, weights) = gauss_legendre(n, h);
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    // Unknowns: L at the nodes, then L(0).
    let u = |i: usize| if i < n { nodes[i] } else { 0.0 };
    let matrix = Mat::from_fn(n + 1, n + 1, |i, j| {
        let unit = if i == j { 1.0 } else { 0.0 };
        let reached = if j < n { weights[j] * density(nodes[j] + k - u(i)) } else { normal_distribution(k - u(i)) };
        unit - reached
    });
    let solution = matrix.partial_piv_lu().solve(Mat::from_fn(n + 1, 1, |_, _| 1.0));
    solution[(n, 0)]
}

/// Nodes and weights of Gauss-Legendre quadrature on `[0, length]`.
fn gauss_legendre(n: usize, length: f64) -> (Vec<f64>, Vec<f64>) {
    let mut nodes = vec![0.0; n];
    let mut weights = vec![0.0; n];
    for at in 0..n {
        let mut x = (PI * (at as f64 + 0.75) / (n as f64 + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut before, mut now) = (1.0, x);
            for degree in 2..=n {
                let d = degree as f64;
                (before, now) = (now, ((2.0 * d - 1.0) * x * now - (d - 1.0) * before) / d);
            }
            slope = n as f64 * (x * now - before) / (x * x - 1.0);
            let step = now / slope;
            x -= step;
            if step.abs() < 1e-15 {
                break;
            }
        }
        nodes[at] = 0.5 * length * (1.0 + x);
        weights[at] = length / ((1.0 - x * x) * slope * slope);
    }
    (nodes, weights)
}

/// A test that found something.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Alarm {
    /// The values of a sample together are too far off.
    ChiSquare {
        /// Sum of their squares.
        value: f64,
        /// What it should not exceed.
        threshold: f64,
    },
    /// Samples are more likely under a fault, and have been for some time.
    Fault {
        /// Which fault.
        fault: usize,
        /// By how much, as a difference of log-likelihoods.
        value: f64,
        /// What it should not exceed.
        threshold: f64,
    },
    /// A signal has been off to one side for some time.
    Cusum {
        /// Which signal.
        signal: usize,
        /// Whether it is larger than expected.
        is_up: bool,
        /// The sum.
        value: f64,
        /// What it should not exceed.
        threshold: f64,
    },
}

/// All tests, sample after sample.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmTests {
    thresholds: Thresholds,
    /// `[signal][up, down]`.
    sums: Vec<[f64; 2]>,
    /// By fault.
    faults: Vec<f64>,
}

impl AlarmTests {
    /// Tests of some signals and for some faults, at rest.
    #[must_use]
    pub fn new(rate: f64, n_signals: usize, n_faults: usize) -> Self {
        let (thresholds, sums) = (Thresholds::new(rate, n_signals), vec![[0.0; 2]; n_signals]);
        Self { thresholds, sums, faults: vec![0.0; n_faults] }
    }

    /// What the tests compare with.
    #[must_use]
    pub fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// The sums that are carried on, `[signal][up, down]` in a row, then those of faults.
    #[must_use]
    pub fn sums(&self) -> Vec<f64> {
        self.sums.iter().flatten().chain(&self.faults).copied().collect()
    }

    /// Goes on from sums that were carried; nothing happens where they are not as many.
    pub fn set_sums(&mut self, sums: &[f64]) {
        let n = 2 * self.sums.len();
        if sums.len() == n + self.faults.len() {
            self.sums = sums[..n].chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            self.faults = sums[n..].to_vec();
        }
    }

    /// Takes, for each fault, by how much the log-density of a sample is larger under it. All faults together give as
    /// many false alarms as another test does at most.
    pub fn take_faults(&mut self, ratios: &[f64]) -> Vec<Alarm> {
        let threshold = (self.faults.len() as f64 / self.thresholds.rate).ln();
        let mut alarms = Vec::new();
        for (fault, (sum, ratio)) in self.faults.iter_mut().zip(ratios).enumerate() {
            *sum = (*sum + ratio).max(0.0);
            if *sum > threshold {
                alarms.push(Alarm::Fault { fault, value: *sum, threshold });
                *sum = 0.0;
            }
        }
        alarms
    }

    /// Takes the normalized innovations of a sample, NaN where there is none.
    pub fn take(&mut self, normalized: &[f64]) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        let present = normalized.iter().filter(|value| value.is_finite());
        let (value, n) = present.fold((0.0, 0usize), |(sum, n), z| (sum + z * z, n + 1));
        if let Some(&threshold) = n.checked_sub(1).and_then(|at| self.thresholds.chi_square.get(at))
            && value > threshold
        {
            alarms.push(Alarm::ChiSquare { value, threshold });
        }
        let threshold = self.thresholds.cusum;
        for (signal, (sums, &z)) in self.sums.iter_mut().zip(normalized).enumerate() {
            if !z.is_finite() {
                continue;
            }
            for (sum, (is_up, along)) in sums.iter_mut().zip([(true, z), (false, -z)]) {
                *sum = (*sum + along - CUSUM_REFERENCE).max(0.0);
                if *sum > threshold {
                    alarms.push(Alarm::Cusum { signal, is_up, value: *sum, threshold });
                    *sum = 0.0;
                }
            }
        }
        alarms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daesy_random::philox::philox_words;
    use daesy_random::special_functions::normal_quantile;

    #[test]
    fn run_lengths_of_tables_are_met() {
        // Two-sided run lengths of CUSUM charts with k = 1/2 in [@montgomery2013, table 9.3 and sec. 9.1.4].
        for (h, length) in [(4.0, 168.0), (5.0, 465.0)] {
            assert!((0.5 * run_length(h) / length - 1.0).abs() < 5e-3, "{h}: {}", 0.5 * run_length(h));
        }
        assert!((run_length(cusum_threshold(1e-5)) * 1e-5 - 1.0).abs() < 1e-9);
    }

    /// Over 400 000 samples of two signals all tests give as many alarms as they say, within four standard deviations of
    /// a Poisson number; those for faults, here shifts of the first signal, not more.
    #[test]
    fn false_alarms_come_at_the_stated_rate() {
        let (rate, n_samples) = (2e-3, 400_000u32);
        let mut tests = AlarmTests::new(rate, 2, 2);
        let uniform = |word: u64| (word as f64 + 0.5) / 4_294_967_296.0;
        let (mut n_jumps, mut n_shifts, mut n_faults) = (0u32, 0u32, 0u32);
        for at in 0..n_samples {
            let words = philox_words([at, 0, 0, 7], [24, 0]);
            let z = [normal_quantile(uniform(words[0])), normal_quantile(uniform(words[1]))];
            let by_faults = tests.take_faults(&[0.5 * z[0] - 0.125, -0.5 * z[0] - 0.125]);
            for alarm in tests.take(&z).into_iter().chain(by_faults) {
                match alarm {
                    Alarm::ChiSquare { .. } => n_jumps += 1,
                    Alarm::Cusum { .. } => n_shifts += 1,
                    Alarm::Fault { .. } => n_faults += 1,
                }
            }
        }
        let expected = rate * f64::from(n_samples);
        for found in [n_jumps, n_shifts] {
            assert!((f64::from(found) - expected).abs() < 4.0 * expected.sqrt(), "{found} of {expected}");
        }
        assert!(n_faults > 0 && f64::from(n_faults) < expected + 4.0 * expected.sqrt(), "{n_faults} of {expected}");
    }

    #[test]
    fn a_shift_of_one_standard_deviation_is_found_soon() {
        let mut tests = AlarmTests::new(1e-4, 1, 0);
        let found = (0..100)
            .position(|_| tests.take(&[1.0]).iter().any(|alarm| matches!(alarm, Alarm::Cusum { is_up: true, .. })));
        assert!(found.is_some_and(|at| at < 30), "{found:?}");
    }
}
