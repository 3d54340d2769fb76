//! Estimates of the drag of the pendulum by comparing values on a grid.

use daesy_estimate::pem::PredictionProblem;
use daesy_system::Watch;

/// Samples left out, 50 s.
const TRANSIENT: usize = 500;

/// Values of the drag that are compared.
pub fn grid() -> Vec<f64> {
    (0..81).map(|at| 3.85 + 0.08 * f64::from(at)).collect()
}

fn lowest(values: &[f64], costs: &[f64]) -> f64 {
    values[(0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0)]
}

/// Estimates on the grid, by length of the record and data set.
pub fn estimates(
    problem: &PredictionProblem<'_>,
    n_realizations: usize,
    values: &[f64],
    sets: &[Vec<Vec<f64>>],
    lengths: &[usize],
) -> Vec<Vec<f64>> {
    let mut costs = vec![vec![Vec::with_capacity(values.len()); sets.len()]; lengths.len()];
    for some in values.chunks(6) {
        let thetas: Vec<Vec<f64>> = some.iter().map(|&value| vec![value]).collect();
        let predictions =
            problem.predict(&thetas, n_realizations, &Watch::default()).expect("all values have predictions");
        for prediction in &predictions {
            let mean = &prediction.means[0];
            for (set, data) in sets.iter().enumerate() {
                let (mut sum, mut from) = (0.0, TRANSIENT);
                for (at, &n) in lengths.iter().enumerate() {
                    let errors =
                        mean[from..n].iter().zip(&data[0][from..n]).map(|(mean, measured)| (measured - mean).powi(2));
                    sum += errors.sum::<f64>();
                    from = n;
                    costs[at][set].push(sum / (n - TRANSIENT) as f64);
                }
            }
        }
        eprintln!("up to {:.2}", some[some.len() - 1]);
    }
    costs.iter().map(|of| of.iter().map(|costs| lowest(values, costs)).collect()).collect()
}

/// Standard deviation of a sample.
pub fn deviation(sample: &[f64]) -> f64 {
    let n = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / n;
    (sample.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}
