//! The cost as something to minimize, with more and more realizations.

use daesy_system::Watch;
use faer::Mat;

use super::problem::{PointRefusal, Prediction, PredictionProblem};
use crate::search::{Expansion, Objective, SearchOptions, SearchProgress, SearchResult, SearchSpace, minimize};

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
        let prediction = self.problem.predict(&[theta.to_vec()], self.n_realizations, &self.watch)?;
        Ok(self.problem.cost(&prediction[0]))
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, PointRefusal> {
        self.evaluations += 1;
        let prediction = self.problem.differentiate(theta, self.n_realizations, &self.watch)?;
        Ok(Self::expansion(self.problem, &prediction))
    }
}

/// How a search went.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchTrace {
    /// Where it started.
    pub start: Vec<f64>,
    /// Where it ended.
    pub end: Vec<f64>,
    /// The cost there.
    pub cost: f64,
    /// Number of realizations.
    pub n_realizations: usize,
}

/// A search whose number of realizations grows as it converges: the first m realizations are the same for every m, so
/// that each stage starts near its end.
pub struct GrowingSearch<'p, 'a> {
    /// What is predicted.
    pub problem: &'p PredictionProblem<'a>,
    /// Bounds and nominal values.
    pub space: &'p SearchSpace,
    /// Stops the search.
    pub watch: Watch,
}

/// Realizations of the first stage.
const FIRST_STAGE: usize = 64;

impl GrowingSearch<'_, '_> {
    /// Numbers of realizations, ascending.
    #[must_use]
    pub fn stages(&self) -> Vec<usize> {
        let n = self.problem.realizations(self.problem.settings().n_realizations);
        let mut stages = vec![n];
        while stages[0] > 2 * FIRST_STAGE {
            stages.insert(0, (stages[0] / 4).max(FIRST_STAGE));
        }
        stages
    }

    /// When a stage ends: early ones need no more digits than their own Monte Carlo error leaves meaning to. A single
    /// trajectory costs so little that a long valley may be followed to its end.
    #[must_use]
    pub fn options(is_last: bool, n_realizations: usize) -> SearchOptions {
        SearchOptions {
            relative: if is_last { 1e-9 } else { 1e-4 },
            max_iterations: match (is_last, n_realizations) {
                (true, 1) => 500,
                (true, _) => 60,
                (false, _) => 30,
            },
            ..SearchOptions::default()
        }
    }

    /// Minimizes from a start.
    ///
    /// # Errors
    /// The refusal of the start.
    pub fn run(
        &self,
        start: &[f64],
        observe: &mut dyn FnMut(usize, &SearchProgress<'_>),
    ) -> Result<GrownSearch, PointRefusal> {
        let stages = self.stages();
        let mut theta = start.to_vec();
        let mut traces = Vec::new();
        let mut iterations = 0;
        let mut last = None;
        for (at, &n_realizations) in stages.iter().enumerate() {
            let is_last = at + 1 == stages.len();
            let mut objective = PredictionObjective {
                problem: self.problem,
                n_realizations,
                watch: self.watch.clone(),
                evaluations: 0,
            };
            let options = Self::options(is_last, n_realizations);
            let result = minimize(&mut objective, &theta, self.space, &options, &mut |progress| {
                observe(n_realizations, progress);
            })?;
            iterations += result.iterations;
            traces.push(SearchTrace {
                start: theta.clone(),
                end: result.theta.clone(),
                cost: result.expansion.value,
                n_realizations,
            });
            theta.clone_from(&result.theta);
            last = Some(result);
        }
        let result = last.expect("there is at least one stage");
        Ok(GrownSearch { result, iterations, traces })
    }
}

/// Where a growing search ended.
pub struct GrownSearch {
    /// The last stage.
    pub result: SearchResult<PointRefusal>,
    /// Steps of all stages.
    pub iterations: usize,
    /// The stages.
    pub traces: Vec<SearchTrace>,
}
