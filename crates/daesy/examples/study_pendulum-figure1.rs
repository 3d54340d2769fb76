//! Figure 1 of the paper: lengths estimated from many data sets by prediction errors and by output errors.
//!
//! All data sets share the known force and the model's realizations, so that predictions are computed once: on the grid of the paper, then
//! on a finer one around its minima, where a parabola gives the estimate. `--gradient N` also searches N data sets without a grid.
//!
//! Arguments: number of samples (50000), of realizations (500), of data sets (100).
#![forbid(unsafe_code)]

mod pendulum;

use std::time::Instant;

use daesy_estimate::pem::{GrowingSearch, Prediction, PredictionProblem, PredictionSettings};
use daesy_system::Watch;
use pendulum::{TRUE_LENGTH, realization, study, table};

/// The minimum of the parabola through the three lowest points of a curve.
fn minimum(lengths: &[f64], costs: &[f64]) -> f64 {
    let lowest = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0);
    let at = lowest.clamp(1, costs.len() - 2);
    let (x, y) = (&lengths[at - 1..=at + 1], &costs[at - 1..=at + 1]);
    let (left, right) = ((y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1]));
    let curvature = (right - left) / (x[2] - x[0]);
    if curvature <= 0.0 { lengths[lowest] } else { 0.5 * (x[0] + x[1]) - 0.5 * left / curvature }
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

fn summary(name: &str, estimates: &[f64]) {
    let n = estimates.len() as f64;
    let mean = estimates.iter().sum::<f64>() / n;
    let std = (estimates.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
    let mut sorted = estimates.to_vec();
    sorted.sort_by(f64::total_cmp);
    println!("{name}: mean {mean:.4}, median {:.4}, standard deviation {std:.4}", sorted[sorted.len() / 2]);
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut n_searched = 0;
    if let Some(at) = arguments.iter().position(|argument| argument == "--gradient") {
        n_searched = arguments.get(at + 1).and_then(|n| n.parse().ok()).unwrap_or(1);
        arguments.truncate(at);
    }
    let number = |at: usize, default: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (n_samples, n_realizations, n_sets) = (number(0, 50_000), number(1, 500), number(2, 100));
    let watch = Watch::default();
    let force: Vec<f64> = realization(101, n_samples * 10 + 1).iter().map(|value| 0.6 * value).collect();
    let study = study(table(n_samples, &force, &[]), n_realizations, 50.0, 1);
    let begun = Instant::now();
    let sets = study.artificial_data(&[TRUE_LENGTH], n_sets, 202, &watch).expect("the truth has trajectories");
    println!("{n_sets} data sets of {n_samples} samples after {:.1} s", begun.elapsed().as_secs_f64());
    let coarse: Vec<f64> = (0..81).map(|at| 3.85 + 0.08 * f64::from(at)).collect();
    for is_undisturbed in [true, false] {
        let name = if is_undisturbed { "output error" } else { "prediction error" };
        let settings = PredictionSettings { is_undisturbed, ..study.settings.clone() };
        let mut problem = study.problem(settings, &[5.0]).expect("the start has a prediction");
        // Predictions are computed a few lengths at a time: a curve of costs for every data set is all that is kept.
        let mut curves: Vec<Vec<f64>> = vec![Vec::new(); n_sets];
        // Both curves have one minimum; what lies far from it need not be computed.
        let end = if is_undisturbed { 7.6 } else { 6.9 };
        let lengths: Vec<f64> = coarse.iter().copied().filter(|x| (5.7..end).contains(x)).collect();
        for some in lengths.chunks(9) {
            let thetas: Vec<Vec<f64>> = some.iter().map(|&length| vec![length]).collect();
            let predictions = problem.predict(&thetas, n_realizations, &watch).expect("all lengths have predictions");
            for prediction in &predictions {
                for (curve, set) in curves.iter_mut().zip(&sets) {
                    curve.push(cost(&problem, prediction, &set[0]));
                }
            }
            eprintln!(
                "{name}: {:.2} .. {:.2} after {:.1} s",
                some[0],
                some[some.len() - 1],
                begun.elapsed().as_secs_f64()
            );
        }
        let on_grid: Vec<f64> = curves
            .iter()
            .map(|curve| {
                let lowest = (0..curve.len()).min_by(|&a, &b| curve[a].total_cmp(&curve[b])).unwrap_or(0);
                lengths[lowest]
            })
            .collect();
        let refined: Vec<f64> = curves.iter().map(|curve| minimum(&lengths, curve)).collect();
        summary(&format!("{name}, minimum on the grid"), &on_grid);
        summary(&format!("{name}, minimum of the parabola"), &refined);
        if !is_undisturbed {
            let costs: Vec<f64> = curves[0].clone();
            for (set, data) in sets.iter().take(n_searched).enumerate() {
                problem.set_measured(data.clone());
                let search = GrowingSearch { problem: &problem, space: &study.space, watch: watch.clone() };
                let found = search.run(&[5.0], &mut |_, _| {}).expect("the start has a prediction");
                println!(
                    "data set {set}: search from 5.0 ends at {:.4} after {} steps, cost {:.8}; parabola {:.4}, lowest on the grid {:.8} ({:.1} s)",
                    found.result.theta[0],
                    found.iterations,
                    found.result.expansion.value,
                    refined[set],
                    if set == 0 { costs.iter().fold(f64::INFINITY, |a, &b| a.min(b)) } else { f64::NAN },
                    begun.elapsed().as_secs_f64()
                );
            }
        }
    }
}
