//! How estimates of [@abdalmoaty2021, Figure 1] scatter over the known force, which the paper and we have one of.
//!
//! `cargo xtask study abdalmoaty2021-forces [forces]` writes `book/studies/abdalmoaty2021-forces`. Expected: 2 processor
//! minutes with 12 forces (the default).
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "other studies also take the printed experiment")]
mod pendulum;
mod pendulum_grid;
mod study;

use daesy::report::chart::{Chart, Series, Tick};
use daesy::table::Table;
use daesy_estimate::pem::PredictionSettings;
use daesy_system::Watch;
use pendulum::{Setting, TRUTH, table};
use pendulum_grid::{deviation, estimates, grid};
use study::{Record, digits};

const N_SAMPLES: usize = 10_000;
const N_REALIZATIONS: usize = 100;
/// Data sets for each force.
const N_SETS: usize = 10;
/// Values farther from the truth need not be computed for prediction errors.
const REACH: f64 = 1.5;

fn mean(sample: &[f64]) -> f64 {
    sample.iter().sum::<f64>() / sample.len() as f64
}

fn main() {
    let n_forces: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(12);
    let mut record = Record::new("abdalmoaty2021-forces");
    let (mut output, mut predicted) = (Vec::new(), Vec::new());
    for force in 0..n_forces {
        let setting = Setting::Programmed;
        let known = setting.force(101 + force, N_SAMPLES * pendulum::PER_SAMPLE + 1);
        let study = pendulum::study(setting, table(N_SAMPLES, &known, &[]), N_REALIZATIONS, 50.0, 1);
        let sets = study.artificial_data(&[TRUTH], N_SETS, 202 + force, &Watch::default());
        let sets = sets.expect("the truth has trajectories");
        let values = grid();
        let settings = PredictionSettings { is_undisturbed: true, ..study.settings.clone() };
        let undisturbed = study.problem(settings, &[5.0]).expect("the start has a prediction");
        output.extend(estimates(&undisturbed, 1, &values, &sets, &[N_SAMPLES]));
        let problem = study.problem(study.settings.clone(), &[5.0]).expect("the start has a prediction");
        let near: Vec<f64> = values.into_iter().filter(|value| (value - TRUTH).abs() < REACH).collect();
        predicted.extend(estimates(&problem, N_REALIZATIONS, &near, &sets, &[N_SAMPLES]));
    }
    record.number("known forces", n_forces as f64);
    record.number("data sets for each", N_SETS as f64);
    for (name, of, theirs) in
        [("output error", &output, "7.20, one force"), ("prediction error", &predicted, "converge on 6.25")]
    {
        let means: Vec<f64> = of.iter().map(|sample| mean(sample)).collect();
        let within = of.iter().map(|sample| deviation(sample).powi(2)).sum::<f64>() / of.len() as f64;
        record.number(&format!("{name}, mean over forces"), mean(&means));
        record.number(&format!("{name}, standard deviation of the means of forces"), deviation(&means));
        record.number(&format!("{name}, standard deviation over data sets of one force"), within.sqrt());
        let ours = format!("{} +- {} over forces", digits(mean(&means), 3), digits(deviation(&means), 2));
        let remark = format!("N = {N_SAMPLES}; +- {} over data sets of one force", digits(within.sqrt(), 2));
        record.compare(&format!("{name}: mean"), "sec. V-A, Figure 1", theirs, &ours, &remark);
    }
    let place = |side: f64| (0..n_forces).map(|at| at as f64 + side).collect::<Vec<f64>>();
    let chart = Chart {
        title: format!("Estimates for {n_forces} known forces; the true value is dashed"),
        x_label: "known force".to_owned(),
        y_label: "drag".to_owned(),
        series: vec![
            Series::boxes("output error", &place(-0.17), &output, 1),
            Series::boxes("prediction error", &place(0.17), &predicted, 0),
        ],
        levels: vec![TRUTH],
        x_ticks: (0..n_forces).map(|at| Tick { at: at as f64, text: (at + 1).to_string() }).collect(),
        ..Chart::default()
    };
    let caption = format!("Boxes over {N_SETS} data sets of {N_SAMPLES} samples each, by known force.");
    record.picture("forces", &caption, &[chart]);
    let mut all =
        Table { names: vec!["data set".to_owned()], columns: vec![(1..=N_SETS).map(|at| at as f64).collect()] };
    for (name, of) in [("output", &output), ("prediction", &predicted)] {
        for (at, sample) in of.iter().enumerate() {
            all.names.push(format!("{name} {}", at + 1));
            all.columns.push(sample.clone());
        }
    }
    record.table("forces", &all);
    record.write();
}
