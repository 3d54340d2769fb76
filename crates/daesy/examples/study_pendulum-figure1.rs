//! Figure 1 of the paper: estimates from many data sets by prediction errors and by output errors.
//!
//! The text of [@abdalmoaty2021, sec. V] says that the length is sought; the program that the authors published with it
//! seeks the drag, at the same true value 6.25 and with the scales of force and disturbance the other way round. Only
//! the latter gives the bias of the output-error method that the paper reports, so that is what is computed here;
//! `--printed` takes the text at its word.
//!
//! All data sets share the known force and the model's realizations, so that predictions are computed once for each
//! value of the grid; a parabola through the three lowest points refines an estimate. The output-error bias depends on
//! the one known force: `--forces N` repeats the output-error fits with N other forces. `--gradient N` also searches N
//! data sets without a grid. `--write FILE` writes a data set instead.
//!
//! Arguments: number of samples (50000), of realizations (500), of data sets (100).
#![forbid(unsafe_code)]

mod pendulum;

use std::time::Instant;

use daesy::prediction_study::PredictionStudy;
use daesy_estimate::memory::Forgetful;
use daesy_estimate::pem::{GrowingSearch, Prediction, PredictionProblem, PredictionSettings};
use daesy_system::Watch;
use pendulum::{Setting, TRUTH, study, table};

/// The grid of the paper.
fn grid() -> Vec<f64> {
    (0..81).map(|at| 3.85 + 0.08 * f64::from(at)).collect()
}

/// The minimum of the parabola through the three lowest points of a curve.
fn minimum(values: &[f64], costs: &[f64]) -> f64 {
    let lowest = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0);
    let at = lowest.clamp(1, costs.len() - 2);
    let (x, y) = (&values[at - 1..=at + 1], &costs[at - 1..=at + 1]);
    let (left, right) = ((y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1]));
    let curvature = (right - left) / (x[2] - x[0]);
    if curvature <= 0.0 { values[lowest] } else { 0.5 * (x[0] + x[1]) - 0.5 * left / curvature }
}

/// The cost of one data set, without the problem's own.
fn cost(problem: &PredictionProblem<'_>, prediction: &Prediction, data: &[f64]) -> f64 {
    let is_used = &problem.experiments()[0].is_used;
    let (mut sum, mut n) = (0.0, 0.0);
    for ((mean, measured), is_used) in prediction.means[0].iter().zip(data).zip(is_used) {
        if *is_used {
            sum += (measured - mean).powi(2);
            n += 1.0;
        }
    }
    sum / n
}

/// Mean, median and standard deviation.
fn summary(estimates: &[f64]) -> String {
    let n = estimates.len() as f64;
    let mean = estimates.iter().sum::<f64>() / n;
    let std = (estimates.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
    let mut sorted = estimates.to_vec();
    sorted.sort_by(f64::total_cmp);
    format!("mean {mean:.4}, median {:.4}, standard deviation {std:.4}", sorted[sorted.len() / 2])
}

/// Costs of all data sets over the grid: a curve for each.
fn curves(
    problem: &PredictionProblem<'_>,
    n_realizations: usize,
    values: &[f64],
    sets: &[Vec<Vec<f64>>],
    begun: Instant,
) -> Vec<Vec<f64>> {
    let mut curves: Vec<Vec<f64>> = vec![Vec::new(); sets.len()];
    // A few values at a time: the costs are all that is kept.
    for some in values.chunks(9) {
        let thetas: Vec<Vec<f64>> = some.iter().map(|&value| vec![value]).collect();
        let predictions =
            problem.predict(&thetas, n_realizations, &Watch::default()).expect("all values have predictions");
        for prediction in &predictions {
            for (curve, set) in curves.iter_mut().zip(sets) {
                curve.push(cost(problem, prediction, &set[0]));
            }
        }
        eprintln!("{:.2} .. {:.2} after {:.1} s", some[0], some[some.len() - 1], begun.elapsed().as_secs_f64());
    }
    curves
}

fn on_grid(values: &[f64], curve: &[f64]) -> f64 {
    values[(0..curve.len()).min_by(|&a, &b| curve[a].total_cmp(&curve[b])).unwrap_or(0)]
}

fn output_errors(study: &PredictionStudy) -> PredictionProblem<'_> {
    let settings = PredictionSettings { is_undisturbed: true, ..study.settings.clone() };
    study.problem(settings, &[5.0]).expect("the start has a prediction")
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let target = arguments.iter().position(|argument| argument == "--write").map(|at| {
        let file = arguments.get(at + 1).cloned().expect("--write needs a file");
        arguments.drain(at..=at + 1);
        file
    });
    let mut option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        let value = arguments.get(at + 1).and_then(|n| n.parse::<usize>().ok());
        arguments.drain(at..=at + usize::from(value.is_some()));
        Some(value.unwrap_or(1))
    };
    let n_searched = option("--gradient").unwrap_or(0);
    let n_forces = option("--forces").unwrap_or(0);
    let setting = Setting::new(option("--printed").is_some());
    let number = |at: usize, default: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (n_samples, n_realizations, n_sets) = (number(0, 50_000), number(1, 500), number(2, 100));
    let watch = Watch::default();
    let begun = Instant::now();
    let transient = if target.is_some() { 0.0 } else { 50.0 };
    let make = |force_seed: u64, data_seed: u64| {
        let force = setting.force(force_seed, n_samples * 10 + 1);
        let study = study(setting, table(n_samples, &force, &[]), n_realizations, transient, 1);
        let sets = study.artificial_data(&[TRUTH], n_sets, data_seed, &watch).expect("the truth has trajectories");
        (study, sets)
    };
    if let Some(file) = target {
        let (_, sets) = make(101, 202);
        let data = table(n_samples, &setting.force(101, n_samples * 10 + 1), &sets[0][0]);
        std::fs::write(file, data.to_csv()).expect("the file can be written");
        return;
    }
    let values = grid();
    let (study, sets) = make(101, 202);
    println!("{n_sets} data sets of {n_samples} samples after {:.1} s", begun.elapsed().as_secs_f64());
    let found = curves(&output_errors(&study), 1, &values, &sets, begun);
    let estimates: Vec<f64> = found.iter().map(|curve| on_grid(&values, curve)).collect();
    println!("output error, minimum on the grid: {}", summary(&estimates));
    if n_forces > 0 {
        let means: Vec<f64> = (0..n_forces as u64)
            .map(|at| {
                let (study, sets) = make(1000 + at, 2000 + at);
                let found = curves(&output_errors(&study), 1, &values, &sets, begun);
                let sum: f64 = found.iter().map(|curve| on_grid(&values, curve)).sum();
                let mean = sum / n_sets as f64;
                println!("output error with another force: mean {mean:.4}");
                mean
            })
            .collect();
        println!("output error, means of {n_forces} forces: {}", summary(&means));
    }
    let mut problem = study.problem(study.settings.clone(), &[5.0]).expect("the start has a prediction");
    let before = Instant::now();
    problem.predict(&[vec![TRUTH]], n_realizations, &watch).expect("the truth has a prediction");
    println!("one cost of {n_realizations} realizations takes {:.2} s", before.elapsed().as_secs_f64());
    // Curves have one minimum; what lies far from it need not be computed.
    let near: Vec<f64> = values.iter().copied().filter(|value| (value - TRUTH).abs() < 1.25).collect();
    let found = curves(&problem, n_realizations, &near, &sets, begun);
    let coarse: Vec<f64> = found.iter().map(|curve| on_grid(&near, curve)).collect();
    let refined: Vec<f64> = found.iter().map(|curve| minimum(&near, curve)).collect();
    println!("prediction error, minimum on the grid: {}", summary(&coarse));
    println!("prediction error, minimum of the parabola: {}", summary(&refined));
    for (set, data) in sets.iter().take(n_searched).enumerate() {
        problem.set_measured(data.clone());
        let search = GrowingSearch { problem: &problem, space: &study.space, watch: watch.clone() };
        let end = search.run(&[5.0], &mut Forgetful, &mut |_, _| {}).expect("the start has a prediction");
        println!(
            "data set {set}: search from 5.0 ends at {:.4} after {} steps, cost {:.8e}; parabola {:.4}, lowest on the grid {:.8e} ({:.1} s)",
            end.result.theta[0],
            end.iterations,
            end.result.expansion.value,
            refined[set],
            found[set].iter().fold(f64::INFINITY, |a, &b| a.min(b)),
            begun.elapsed().as_secs_f64()
        );
    }
}
