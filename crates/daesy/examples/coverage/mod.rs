//! How often 95 % intervals of the default method hold the truth, over many artificial data sets.

#[path = "../study/noise.rs"]
mod noise;

use daesy::Model;
use daesy::identify::IdentifyOptions;
use daesy::table::Table;
pub use noise::Noise;

/// A model with its study, and what its data are made with.
pub struct Coverage {
    /// The study.
    pub study: &'static str,
    /// The model.
    pub model: &'static str,
    /// Parameters with the values that data are made with.
    pub truth: &'static [(&'static str, f64)],
    /// Data by seed.
    pub data: fn(u64) -> Table,
}

impl Coverage {
    /// Identifies as many data sets as the first argument says, 200 if there is none, and prints for each parameter how
    /// many intervals hold its truth, how far the worst estimate is off in standard errors, and the mean of estimates.
    pub fn run(&self) {
        let n_sets = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200u64);
        let study = Model::parse_study(self.study, self.model).unwrap_or_else(|failure| panic!("{failure:?}"));
        let mut n_held = vec![0u64; self.truth.len()];
        let mut worst = vec![0.0f64; self.truth.len()];
        let mut sums = vec![0.0; self.truth.len()];
        let mut n_done = 0u64;
        for set in 0..n_sets {
            let found = study.with_data(vec![(self.data)(1000 + set)]);
            let found = match found.and_then(|study| study.identify(&IdentifyOptions::default())) {
                Ok(found) if found.converged => found,
                Ok(_) => {
                    eprintln!("data set {set} did not converge");
                    continue;
                }
                Err(failure) => panic!("data set {set}: {failure:?}"),
            };
            n_done += 1;
            for (at, (name, truth)) in self.truth.iter().enumerate() {
                let Some(parameter) = found.parameters.iter().find(|parameter| parameter.name == *name) else {
                    continue;
                };
                let [low, high] = parameter.ci95;
                n_held[at] += u64::from(low <= *truth && *truth <= high);
                worst[at] = worst[at].max((parameter.estimate - truth).abs() / parameter.std_error);
                sums[at] += parameter.estimate;
            }
            if n_done.is_multiple_of(20) {
                eprintln!("{n_done} data sets");
            }
        }
        println!("{n_done} of {n_sets} data sets converged.");
        for (at, (name, truth)) in self.truth.iter().enumerate() {
            let n = n_done.max(1) as f64;
            println!(
                "{name}: {:.1} % of 95 % intervals hold {truth}; worst estimate {:.2} standard errors off; mean {:.6}",
                100.0 * n_held[at] as f64 / n,
                worst[at],
                sums[at] / n
            );
        }
    }
}
