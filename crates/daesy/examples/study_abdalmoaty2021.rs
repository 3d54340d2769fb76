//! Figures 1 and 2 of [@abdalmoaty2021]: the drag of a disturbed pendulum by prediction errors and by output errors, as
//! box plots over the number of samples; the cost with the same random numbers for every value and with new ones.
//!
//! As in `study_pendulum-figure1`, the experiment is the one of the authors' program [@eriksson2021]. All data sets
//! share the known force and the model's realizations: predictions are computed once for each value of the grid, and a
//! record of N samples is the beginning of the longest.
//!
//! `cargo xtask study abdalmoaty2021 [data sets] [samples]` writes `book/studies/abdalmoaty2021`. Expected: 6 processor
//! minutes with 100 data sets (the default) of 50000 samples.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "other studies also take the printed experiment")]
mod pendulum;
mod pendulum_grid;
mod study;

use daesy::report::chart::{BoxFigures, Chart, Mark, Series, Tick};
use daesy::table::Table;
use daesy_estimate::pem::{PredictionProblem, PredictionSettings};
use daesy_system::Watch;
use pendulum::{Setting, TRUTH, table};
use pendulum_grid::{deviation, estimates, grid};
use study::{Record, digits};

const N_REALIZATIONS: usize = 500;
/// As in figure 2.
const N_FEW: usize = 20;
/// Records up to this length are compared with the whole grid.
const N_SHORT: usize = 10_000;
fn figure_1(record: &mut Record, n_sets: usize, n_samples: usize) {
    let lengths: Vec<usize> =
        [5000, 10_000, 20_000, 30_000, 40_000, 50_000].into_iter().filter(|&n| n <= n_samples).collect();
    // Short records scatter over the whole grid and are simulated for all of it; what long ones have far from the truth
    // need not be computed.
    let (short, long): (Vec<usize>, Vec<usize>) = lengths.iter().partition(|&&n| n <= N_SHORT);
    let mut output = Vec::new();
    let mut predicted = Vec::new();
    for (lengths, reach) in [(short, f64::INFINITY), (long, 1.05)] {
        let Some(&n_samples) = lengths.last() else { continue };
        let setting = Setting::Programmed;
        let force = setting.force(101, n_samples * pendulum::PER_SAMPLE + 1);
        let study = pendulum::study(setting, table(n_samples, &force, &[]), N_REALIZATIONS, 50.0, 1);
        let sets = study.artificial_data(&[TRUTH], n_sets, 202, &Watch::default()).expect("the truth has trajectories");
        let values = grid();
        let settings = PredictionSettings { is_undisturbed: true, ..study.settings.clone() };
        let undisturbed = study.problem(settings, &[5.0]).expect("the start has a prediction");
        output.extend(estimates(&undisturbed, 1, &values, &sets, &lengths));
        let problem = study.problem(study.settings.clone(), &[5.0]).expect("the start has a prediction");
        let near: Vec<f64> = values.iter().copied().filter(|value| (value - TRUTH).abs() < reach).collect();
        predicted.extend(estimates(&problem, N_REALIZATIONS, &near, &sets, &lengths));
    }

    record.number("data sets", n_sets as f64);
    for (name, of) in [("output error", &output), ("prediction error", &predicted)] {
        for (n, sample) in lengths.iter().zip(of) {
            let figures = BoxFigures::of(sample);
            record.number(&format!("{name}, N = {n}, median"), figures.median);
            record.number(&format!("{name}, N = {n}, mean"), figures.mean);
            record.number(&format!("{name}, N = {n}, standard deviation"), deviation(sample));
        }
    }
    let last = lengths.len() - 1;
    let (theirs, ours) = (BoxFigures::of(&output[last]), BoxFigures::of(&predicted[last]));
    let n = lengths[last];
    let shown = format!("{} and {}", digits(theirs.median, 3), digits(theirs.mean, 3));
    let remark = format!("at N = {n}; it depends on the one known force, which is ours");
    record.compare("output error: median and mean", "sec. V-A, Figure 1", "7.21 and 7.20", &shown, &remark);
    let shown = format!("{} and {}", digits(ours.median, 4), digits(ours.mean, 4));
    record.compare(
        "prediction error: median and mean",
        "sec. V-A, Figure 1",
        "converge on 6.25",
        &shown,
        &format!("at N = {n}"),
    );
    let bias = (ours.mean - TRUTH).abs();
    record.number("prediction error, bias at the end", bias);
    let remark = format!("at N = {n}, {n_sets} data sets instead of 1000; the grid has steps of 0.08");
    record.compare("prediction error: bias of the mean", "sec. V-A", "0.0343", &digits(bias, 3), &remark);
    let spread = digits(deviation(&predicted[last]), 3);
    record.compare("prediction error: standard deviation", "Figure 1", "not printed", &spread, &format!("at N = {n}"));

    let place = |at: usize, side: f64| at as f64 + side;
    let left: Vec<f64> = (0..lengths.len()).map(|at| place(at, -0.17)).collect();
    let right: Vec<f64> = (0..lengths.len()).map(|at| place(at, 0.17)).collect();
    let ticks = lengths.iter().enumerate().map(|(at, n)| Tick { at: at as f64, text: n.to_string() }).collect();
    let chart = Chart {
        title: format!("Estimates from {n_sets} data sets; the true value is dashed"),
        x_label: "samples N".to_owned(),
        y_label: "drag".to_owned(),
        series: vec![
            Series::boxes("output error", &left, &output, 1),
            Series::boxes("prediction error", &right, &predicted, 0),
        ],
        levels: vec![TRUTH],
        x_ticks: ticks,
        ..Chart::default()
    };
    record.picture(
        "figure_1",
        "Figure 1: boxes from quartile to quartile, the line is the median, the diamond the mean.",
        &[chart],
    );
    let mut all =
        Table { names: vec!["data set".to_owned()], columns: vec![(1..=n_sets).map(|at| at as f64).collect()] };
    for (name, of) in [("output", &output), ("prediction", &predicted)] {
        for (n, sample) in lengths.iter().zip(of) {
            all.names.push(format!("{name} {n}"));
            all.columns.push(sample.clone());
        }
    }
    record.table("figure_1", &all);
}

fn costs(problem: &PredictionProblem<'_>, values: &[Vec<f64>]) -> Vec<f64> {
    let predictions = problem.predict(values, N_FEW, &Watch::default()).expect("all values have predictions");
    predictions.iter().map(|prediction| problem.cost(prediction)).collect()
}

fn figure_2(record: &mut Record) {
    const N_SAMPLES: usize = 100;
    let setting = Setting::Programmed;
    let force = setting.force(101, N_SAMPLES * pendulum::PER_SAMPLE + 1);
    let empty = pendulum::study(setting, table(N_SAMPLES, &force, &[]), N_FEW, 0.0, 1);
    let angles =
        empty.artificial_data(&[TRUTH], 1, 202, &Watch::default()).expect("the truth has a trajectory").swap_remove(0);
    let study = pendulum::study(setting, table(N_SAMPLES, &force, &angles[0]), N_FEW, 0.0, 0);
    let values = grid();
    let thetas: Vec<Vec<f64>> = values.iter().map(|&value| vec![value]).collect();
    let mut problem = study.problem(study.settings.clone(), &[5.0]).expect("the start has a prediction");
    let common = costs(&problem, &thetas);
    let fresh: Vec<f64> = thetas
        .iter()
        .enumerate()
        .map(|(at, theta)| {
            problem.set_seed(1000 + at as u64);
            costs(&problem, std::slice::from_ref(theta))[0]
        })
        .collect();
    // Second differences against the range of the curve.
    let roughness = |values: &[f64]| {
        let sum: f64 = values.windows(3).map(|w| (w[0] - 2.0 * w[1] + w[2]).powi(2)).sum();
        let most = values.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let least = values.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        (sum / (values.len() - 2) as f64).sqrt() / (most - least)
    };
    let (smooth, rough) = (roughness(&common), roughness(&fresh));
    record.number("figure 2, roughness with common random numbers", smooth);
    record.number("figure 2, roughness with fresh ones", rough);
    let ours = format!("{} and {}", digits(smooth, 2), digits(rough, 2));
    record.compare(
        "roughness of the cost, common and fresh numbers",
        "Figure 2",
        "smooth, and not",
        &ours,
        "second differences over the range",
    );
    let chart = Chart {
        title: "Cost of 10 s of data with 20 realizations".to_owned(),
        x_label: "drag".to_owned(),
        series: vec![
            Series::line("new random numbers for every value", &values, &fresh, 1).with_mark(Mark::Dashed),
            Series::line("the same random numbers", &values, &common, 0),
        ],
        marked: vec![TRUTH],
        ..Chart::default()
    };
    record.picture(
        "figure_2",
        "Figure 2: the cost with and without fixed random numbers; the true value is marked.",
        &[chart],
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut record = Record::new("abdalmoaty2021");
    figure_1(&mut record, number(0, 100), number(1, 50_000));
    figure_2(&mut record);
    record.write();
}
