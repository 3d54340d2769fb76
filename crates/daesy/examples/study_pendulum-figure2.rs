//! Figure 2 of the paper: the cost over the length of the pendulum from 10 s of data and 20 realizations, with the same
//! random numbers for all lengths and with new ones for each. `--write FILE` writes the data instead.
#![forbid(unsafe_code)]

mod pendulum;

use daesy_system::Watch;
use pendulum::{Setting, TRUTH, study, table};

const N_SAMPLES: usize = 100;
const N_REALIZATIONS: usize = 20;

fn main() {
    let setting = Setting::new(true);
    let force = setting.force(101, N_SAMPLES * 10 + 1);
    let watch = Watch::default();
    let empty = study(setting, table(N_SAMPLES, &force, &[]), N_REALIZATIONS, 0.0, 1);
    let angles = empty.artificial_data(&[TRUTH], 1, 202, &watch).expect("the truth has a trajectory").swap_remove(0);
    let data = table(N_SAMPLES, &force, &angles[0]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, file] = &arguments[..]
        && flag == "--write"
    {
        std::fs::write(file, data.to_csv()).expect("the file can be written");
        return;
    }
    let study = study(setting, data, N_REALIZATIONS, 0.0, 0);
    let lengths: Vec<Vec<f64>> = (0..81).map(|at| vec![3.85 + 0.08 * f64::from(at)]).collect();
    let mut problem = study.problem(study.settings.clone(), &[5.0]).expect("the start has a prediction");
    let cost = |problem: &daesy_estimate::pem::PredictionProblem<'_>, lengths: &[Vec<f64>]| -> Vec<f64> {
        let predictions = problem.predict(lengths, N_REALIZATIONS, &watch).expect("all lengths have predictions");
        predictions.iter().map(|prediction| problem.cost(prediction)).collect()
    };
    let common = cost(&problem, &lengths);
    let fresh: Vec<f64> = lengths
        .iter()
        .enumerate()
        .map(|(at, length)| {
            problem.set_seed(1000 + at as u64);
            cost(&problem, std::slice::from_ref(length))[0]
        })
        .collect();
    println!("length,common,fresh");
    for ((length, common), fresh) in lengths.iter().zip(&common).zip(&fresh) {
        println!("{},{common},{fresh}", length[0]);
    }
    // Roughness: second differences against the range of the curve.
    let roughness = |values: &[f64]| {
        let sum: f64 = values.windows(3).map(|w| (w[0] - 2.0 * w[1] + w[2]).powi(2)).sum();
        let range = values.iter().fold(0.0f64, |a, &b| a.max(b)) - values.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        (sum / (values.len() - 2) as f64).sqrt() / range
    };
    eprintln!("roughness: common random numbers {:.2e}, fresh ones {:.2e}", roughness(&common), roughness(&fresh));
}
