//! How often 95 % intervals of the pendulum's length hold the truth, over many artificial data sets; with `--drag`, of
//! its drag, which takes far longer records.
//!
//! Arguments: number of data sets (200), of samples (500), of realizations (100).
#![forbid(unsafe_code)]

mod pendulum;

use daesy_estimate::memory::Forgetful;
use daesy_estimate::pem::{GrowingSearch, PredictionUncertainty};
use daesy_system::Watch;
use pendulum::{Setting, TRUTH, study, table};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_printed = !arguments.iter().any(|argument| argument == "--drag");
    arguments.retain(|argument| argument != "--drag");
    let setting = Setting::new(is_printed);
    let number = |at: usize, default: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (n_sets, n_samples, n_realizations) = (number(0, 200), number(1, 500), number(2, 100));
    let watch = Watch::default();
    let force = setting.force(303, n_samples * 10 + 1);
    let study = study(setting, table(n_samples, &force, &[]), n_realizations, 20.0, 0);
    let variances: Vec<Option<f64>> = study.measured.iter().map(|measured| measured.variance).collect();
    let sets = study.artificial_data(&[TRUTH], n_sets, 404, &watch).expect("the truth has trajectories");
    let mut n_covered = 0i32;
    let (mut sum, mut squares, mut predicted, mut n_free) = (0.0, 0.0, 0.0, 0.0f64);
    for (at, set) in sets.into_iter().enumerate() {
        // Each data set has realizations of its own on the side of the model, so that Monte Carlo errors differ too.
        let mut settings = study.settings.clone();
        settings.seed = 10_000 + at as u64;
        let mut problem = study.problem(settings, &[6.0]).expect("the start has a prediction");
        problem.set_measured(set);
        let search = GrowingSearch { problem: &problem, space: &study.space, watch: watch.clone() };
        let found = search.run(&[6.0], &mut Forgetful, &mut |_, _| {}).expect("the start has a prediction").result;
        let is_fixed = [found.at_bound[0].is_some()];
        let errors =
            PredictionUncertainty::new(&problem, &found.theta, &study.space.nominal, &variances, &is_fixed, &watch)
                .expect("the estimate has a prediction");
        let is_covered = (found.theta[0] - TRUTH).abs() <= 1.959_964 * errors.std[0];
        n_covered += i32::from(is_covered);
        sum += found.theta[0];
        squares += found.theta[0].powi(2);
        // An estimate at a bound has no standard error, and its interval counts as one that misses.
        if errors.std[0].is_finite() {
            predicted += errors.std[0].powi(2);
            n_free += 1.0;
        }
        if (at + 1) % 20 == 0 {
            eprintln!("{} data sets: {n_covered} intervals hold the truth", at + 1);
        }
    }
    let n = n_sets as f64;
    let spread = ((squares - sum * sum / n) / (n - 1.0)).sqrt();
    println!(
        "{n_covered} of {n_sets} intervals hold the truth ({:.1} %); mean {:.4}, spread {spread:.4}, standard errors {:.4} on average",
        100.0 * f64::from(n_covered) / n,
        sum / n,
        (predicted / n_free.max(1.0)).sqrt()
    );
}
