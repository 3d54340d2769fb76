//! How often 95 % intervals of the default method hold the truth, over many artificial data sets.
#![allow(dead_code, reason = "every study is a program of its own and uses what it needs")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use daesy::Model;
use daesy::identify::{Identification, IdentifyOptions};
use daesy::report::chart::{Chart, Series, Tick};
use daesy::table::Table;

use super::study::Record;
pub use super::study::noise::Noise;

/// Data sets where nobody says how many.
const N_SETS: u64 = 200;

/// One step of the classical Runge-Kutta method; `rate` takes the fraction of the step and the state.
pub fn runge_kutta<const N: usize>(state: &mut [f64; N], step: f64, rate: impl Fn(f64, &[f64; N]) -> [f64; N]) {
    let moved = |by: f64, slope: &[f64; N]| std::array::from_fn(|i| state[i] + by * step * slope[i]);
    let first = rate(0.0, state);
    let second = rate(0.5, &moved(0.5, &first));
    let third = rate(0.5, &moved(0.5, &second));
    let fourth = rate(1.0, &moved(1.0, &third));
    *state = std::array::from_fn(|i| state[i] + step / 6.0 * (first[i] + 2.0 * second[i] + 2.0 * third[i] + fourth[i]));
}

/// Stack of a thread that identifies.
const STACK: usize = 64 << 20;

/// What `of` gives for 0, 1, .., by as many threads as there are processors, in order. Threads of their own, since tasks
/// of a pool that wait for others of it take up new ones meanwhile, each deeper in the stack than the one before.
pub fn side_by_side<T: Send>(n: u64, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= n {
                return done;
            }
            done.push((at, of(at)));
        }
    };
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let begin = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker).expect("a thread");
        let workers: Vec<_> = (0..n_threads).map(begin).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker that ends")).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, found)| found).collect()
}

/// A study, and what its data are made with.
pub struct Coverage {
    /// The name of the record.
    pub name: &'static str,
    /// The study.
    pub study: Model,
    /// Parameters of the model with the values that data are made with.
    pub truth: &'static [(&'static str, f64)],
    /// Sizes of disturbances and errors of measurement, likewise.
    pub sizes: &'static [(&'static str, f64)],
    /// Data by seed.
    pub data: fn(u64) -> Table,
}

/// What the data sets gave for one unknown.
struct Tally {
    estimates: Vec<f64>,
    std_errors: Vec<f64>,
    n_held: usize,
}

impl Tally {
    fn new(found: &[Identification], name: &str, truth: f64) -> Self {
        let mut tally = Self { estimates: Vec::new(), std_errors: Vec::new(), n_held: 0 };
        for found in found {
            let Some(parameter) = found.parameters.iter().find(|parameter| parameter.name == name) else { continue };
            let [low, high] = parameter.ci95;
            tally.n_held += usize::from(low <= truth && truth <= high);
            tally.estimates.push(parameter.estimate);
            tally.std_errors.push(parameter.std_error);
        }
        tally
    }

    fn mean(&self) -> f64 {
        self.estimates.iter().sum::<f64>() / self.estimates.len().max(1) as f64
    }

    fn spread(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum();
        (squares / (self.estimates.len() as f64 - 1.0).max(1.0)).sqrt()
    }

    /// Distances from the truth in stated standard errors.
    fn distances(&self, truth: f64) -> Vec<f64> {
        self.estimates.iter().zip(&self.std_errors).map(|(estimate, error)| (estimate - truth) / error).collect()
    }
}

impl Coverage {
    /// Identifies as many data sets as the first argument says, 200 if there is none; with a second argument, those that
    /// are begun within so many minutes.
    ///
    /// A data set without a search that converges counts among those whose intervals miss.
    pub fn run(&self) -> Record {
        self.run_with(N_SETS, |_, _| ()).0
    }

    /// The same, with another number of data sets and something more to do with each.
    pub fn run_with<T: Send>(
        &self,
        n_sets: u64,
        more: impl Fn(&Model, &Identification) -> T + Sync,
    ) -> (Record, Vec<T>) {
        let n_sets = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(n_sets);
        let minutes = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(f64::INFINITY);
        let begun = Instant::now();
        let done = AtomicU64::new(0);
        let one = |set: u64| {
            if begun.elapsed().as_secs_f64() > 60.0 * minutes {
                return None;
            }
            let study = self.study.with_data(vec![(self.data)(1000 + set)]);
            let study = study.unwrap_or_else(|failure| panic!("data set {set}: {failure}"));
            let found = study.identify(&IdentifyOptions::default());
            let found = found.unwrap_or_else(|failure| panic!("data set {set}: {failure}"));
            let n_done = 1 + done.fetch_add(1, Ordering::Relaxed);
            if n_done.is_multiple_of(10) {
                eprintln!("{n_done} data sets");
            }
            if !found.converged {
                eprintln!("data set {set} did not converge");
                return None;
            }
            let more = more(&study, &found);
            Some((found, more))
        };
        let all = side_by_side(n_sets, one);
        let (found, more): (Vec<Identification>, Vec<T>) = all.into_iter().flatten().unzip();
        (self.record(done.into_inner(), &found), more)
    }

    fn record(&self, n_sets: u64, found: &[Identification]) -> Record {
        let mut record = Record::new(self.name);
        record.number("data sets", n_sets as f64);
        record.number("searches that converged", found.len() as f64);
        for method in ["ml", "pem", "output-error"] {
            let n = found.iter().filter(|found| found.method.word() == method).count();
            if n > 0 {
                record.number(&format!("fits by {method}"), n as f64);
            }
        }
        let n_robust = found.iter().filter(|found| found.robust_reason.is_some()).count();
        record.number("fits with robust errors", n_robust as f64);
        let warns = |found: &&Identification| found.diagnostics.iter().any(|finding| finding.code == "noise-size");
        record.number("warnings of the size of noise", found.iter().filter(warns).count() as f64);
        let mut boxes = Vec::new();
        let mut table = Table { names: Vec::new(), columns: Vec::new() };
        for (name, truth) in self.truth.iter().chain(self.sizes) {
            let tally = Tally::new(found, name, *truth);
            let distances = tally.distances(*truth);
            let of = |what: &str| format!("{name}: {what}");
            record.number(&of("truth"), *truth);
            record.number(&of("intervals that hold it, percent"), 100.0 * tally.n_held as f64 / n_sets as f64);
            let worst = distances.iter().fold(0.0f64, |worst, distance| worst.max(distance.abs()));
            record.number(&of("farthest estimate, in its standard errors"), worst);
            record.number(&of("bias"), tally.mean() - truth);
            record.number(&of("standard error of the bias"), tally.spread() / (found.len() as f64).sqrt());
            record.number(&of("spread of the estimates"), tally.spread());
            record.number(
                &of("mean stated error"),
                tally.std_errors.iter().sum::<f64>() / tally.std_errors.len().max(1) as f64,
            );
            if self.sizes.iter().any(|(size, _)| size == name) {
                let mut ratios: Vec<f64> = tally.estimates.iter().map(|estimate| estimate / truth).collect();
                ratios.sort_by(f64::total_cmp);
                let near = ratios.iter().filter(|ratio| (0.8..=1.2).contains(*ratio)).count();
                record.number(&of("mean estimate over truth"), tally.mean() / truth);
                if let (Some(least), Some(most)) = (ratios.first(), ratios.last()) {
                    record.number(&of("median estimate over truth"), ratios[ratios.len() / 2]);
                    record.number(&of("smallest estimate over truth"), *least);
                    record.number(&of("largest estimate over truth"), *most);
                }
                let share = 100.0 * near as f64 / n_sets as f64;
                record.number(&of("estimates within 20 percent of the truth, percent"), share);
            }
            boxes.push(distances);
            table.names.extend([(*name).to_owned(), format!("{name}, standard error")]);
            table.columns.extend([tally.estimates, tally.std_errors]);
        }
        record.table("estimates", &table);
        let places: Vec<f64> = (1..=boxes.len()).map(|at| at as f64).collect();
        let names = self.truth.iter().chain(self.sizes).map(|(name, _)| (*name).to_owned());
        let chart = Chart {
            title: format!("Distance from the truth in {} data sets", found.len()),
            y_label: "stated standard errors".to_owned(),
            levels: vec![-1.96, 0.0, 1.96],
            x_ticks: places.iter().zip(names).map(|(&at, text)| Tick { at, text }).collect(),
            series: vec![Series::boxes("", &places, &boxes, 0)],
            ..Chart::default()
        };
        let caption = "Estimates less the truth, in the standard errors that were stated: quartiles, median and mean \
                       (dot), whiskers, and what lies beyond; 95 % of them should lie between the outer lines.";
        record.picture("distances", caption, &[chart]);
        record
    }
}
