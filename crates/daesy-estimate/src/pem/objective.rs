//! The cost as something to minimize.

use daesy_system::Watch;
use faer::Mat;

use super::problem::{PointRefusal, Prediction, PredictionProblem};
use crate::search::{Expansion, Objective};

/// The cost with a number of realizations.
pub struct PredictionObjective<'p, 'a> {
    /// What is predicted.
    pub problem: &'p PredictionProblem<'a>,
    /// Number of realizations.
    pub n_realizations: usize,
    /// Stops the search.
    pub watch: Watch,
    /// Evaluations so far.
    pub evaluations: usize,
}

impl PredictionObjective<'_, '_> {
    /// Gradient and Gauss-Newton matrix of the cost: g = -2/N sum S' e, H = 2/N sum S' S with S the weighted
    /// derivatives.
    #[must_use]
    pub fn expansion(problem: &PredictionProblem<'_>, prediction: &Prediction) -> Expansion {
        let errors = problem.errors(prediction);
        let n = problem.n_unknowns();
        let factor = 2.0 / problem.n_used() as f64;
        let mut gradient = vec![0.0; n];
        let mut curvature = Mat::zeros(n, n);
        let n_outputs = problem.n_outputs();
        let weights = &problem.settings().weights;
        for (at, (experiment, errors)) in problem.experiments().iter().zip(&errors).enumerate() {
            for (entry, error) in errors.iter().enumerate() {
                if !experiment.is_used[entry / n_outputs] || !experiment.measured[entry].is_finite() {
                    continue;
                }
                let weight = weights[entry % n_outputs];
                for i in 0..n {
                    let si = weight * prediction.tangents[i][at][entry];
                    gradient[i] -= factor * si * error;
                    for j in 0..=i {
                        curvature[(i, j)] += factor * si * weight * prediction.tangents[j][at][entry];
                    }
                }
            }
        }
        for i in 0..n {
            for j in i + 1..n {
                curvature[(i, j)] = curvature[(j, i)];
            }
        }
        Expansion { value: problem.cost(prediction), gradient, curvature }
    }
}

impl Objective for PredictionObjective<'_, '_> {
    type Refusal = PointRefusal;

    fn value(&mut self, theta: &[f64]) -> Result<f64, PointRefusal> {
        self.evaluations += 1;
        let prediction = self.problem.predict_in_search(theta, false, self.n_realizations, &self.watch)?;
        Ok(self.problem.cost(&prediction))
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, PointRefusal> {
        self.evaluations += 1;
        let prediction = self.problem.predict_in_search(theta, true, self.n_realizations, &self.watch)?;
        Ok(Self::expansion(self.problem, &prediction))
    }
}
