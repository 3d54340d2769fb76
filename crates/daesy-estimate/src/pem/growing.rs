//! Searches that grow: over more and more realizations, and for models with events over more and more of the record.

use daesy_system::Watch;

use super::objective::PredictionObjective;
use super::problem::{PointRefusal, PredictionProblem};
use crate::memory::{Memory, Remembered, remembered_point};
use crate::multi_start::Ended;
use crate::search::{SearchOptions, SearchProgress, SearchResult, SearchSpace, minimize, settle};

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

/// Where a growing search ended.
pub struct GrownSearch {
    /// The last stage.
    pub result: SearchResult<PointRefusal>,
    /// Steps of all stages.
    pub iterations: usize,
}

impl Ended for GrownSearch {
    fn theta(&self) -> &[f64] {
        &self.result.theta
    }

    fn cost(&self) -> f64 {
        self.result.expansion.value
    }

    fn iterations(&self) -> usize {
        self.iterations
    }
}

/// Realizations of the first stage.
const FIRST_STAGE: usize = 64;

impl GrowingSearch<'_, '_> {
    /// Numbers of realizations, ascending.
    fn stages(&self) -> Vec<usize> {
        let n = self.problem.realizations(self.problem.settings().n_realizations);
        let mut stages = vec![n];
        while stages[0] > 2 * FIRST_STAGE {
            stages.insert(0, (stages[0] / 4).max(FIRST_STAGE));
        }
        stages
    }

    /// When a stage ends: early ones need no more digits than their own Monte Carlo error leaves meaning to. A single
    /// trajectory costs so little that a long valley may be followed to its end.
    fn options(is_last: bool, n_realizations: usize) -> SearchOptions {
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

    /// Minimizes from a start, with its evaluations kept.
    ///
    /// # Errors
    /// The refusal of the start.
    pub fn run(
        &self,
        start: &[f64],
        memory: &mut dyn Memory,
        observe: &mut dyn FnMut(usize, &SearchProgress<'_>),
    ) -> Result<GrownSearch, PointRefusal> {
        let problem = self.problem;
        let stages = self.stages();
        let mut theta = start.to_vec();
        let mut iterations = 0;
        let mut last: Option<SearchResult<PointRefusal>> = None;
        for (at, &n_realizations) in stages.iter().enumerate() {
            let is_last = at + 1 == stages.len();
            let watch = self.watch.clone();
            let inner = PredictionObjective { problem, n_realizations, watch: watch.clone(), evaluations: 0 };
            let label = match problem.settings().is_undisturbed {
                true => "output-error".to_owned(),
                false => format!("pem{n_realizations}"),
            };
            let mut objective = Remembered { inner, label, memory: &mut *memory, watch };
            let options = Self::options(is_last, n_realizations);
            let result =
                minimize(&mut objective, &theta, self.space, &options, &mut |state| observe(n_realizations, state));
            let result = match (result, last.take()) {
                // Where a sample passes an event its derivative jumps.
                (Ok(found), _) if problem.meets_events() => {
                    let unit = found.expansion.value / problem.n_used() as f64;
                    settle(&mut objective, found, self.space, &options, unit)
                }
                (Ok(found), _) => found,
                // A stage that was stopped before its first point leaves the end of the one before it.
                (Err(_), Some(before)) if self.watch.is_stopped() => {
                    last = Some(before);
                    break;
                }
                (Err(refusal), _) => return Err(refusal),
            };
            iterations += result.iterations;
            theta.clone_from(&result.theta);
            last = Some(result);
        }
        let result = last.expect("there is at least one stage");
        Ok(GrownSearch { result, iterations })
    }
}

/// The first share of the samples that a fit of a model with events grows over, and the factor from one to the next.
const FIRST_SHARE: f64 = 0.06;
const GROWTH: f64 = 1.25;

/// A search for models with events, which begins at the fit of the beginning of every record, grown over more and more
/// of it. Where events come at other times than in the data the cost over a whole record has many minima, one for each
/// way to pair them; over the beginning there is one event at most to pair.
pub struct EventSearch<'p, 'a> {
    /// The search over whole records.
    pub whole: GrowingSearch<'p, 'a>,
    /// The problem of a share of every record, around a point; `None` where there is none.
    pub beginning: &'p dyn Fn(f64, &[f64]) -> Option<PredictionProblem<'a>>,
    /// Whether output errors at a point are as large as the accuracy of the measurements says.
    pub is_explained: &'p dyn Fn(&[f64]) -> bool,
}

/// The fit of the beginning of every record, grown; see [`EventSearch`].
pub fn grown_start<'a>(
    beginning: &dyn Fn(f64, &[f64]) -> Option<PredictionProblem<'a>>,
    from: &[f64],
    space: &SearchSpace,
    watch: &Watch,
) -> Vec<f64> {
    let mut theta = from.to_vec();
    let shares = std::iter::successors(Some(FIRST_SHARE), |share| Some(share * GROWTH));
    for share in shares.take_while(|share| *share < 1.0) {
        let Some(problem) = beginning(share, &theta) else { continue };
        if problem.n_used() <= theta.len() || watch.is_stopped() {
            continue;
        }
        let watch = watch.clone();
        let mut objective = PredictionObjective { problem: &problem, n_realizations: 1, watch, evaluations: 0 };
        let options = SearchOptions { relative: 1e-5, max_iterations: 30, ..SearchOptions::default() };
        if let Ok(found) = minimize(&mut objective, &theta, space, &options, &mut |_| {}) {
            theta = found.theta;
        }
    }
    theta
}

impl EventSearch<'_, '_> {
    /// Minimizes from a start, with evaluations kept. Where the grown fit leaves errors that the accuracy of the
    /// measurements does not explain, or nobody says how accurate they are, the search from the start itself is made
    /// too, and the better of both is kept. A model without events needs the search from the start only.
    ///
    /// # Errors
    /// The refusal of the start.
    pub fn run(
        &self,
        from: &[f64],
        memory: &mut dyn Memory,
        observe: &mut dyn FnMut(usize, &SearchProgress<'_>),
    ) -> Result<GrownSearch, PointRefusal> {
        if !self.whole.problem.meets_events() {
            return self.whole.run(from, memory, observe);
        }
        let watch = &self.whole.watch;
        let near = || grown_start(self.beginning, from, self.whole.space, watch);
        let near = remembered_point(memory, "grown", from, watch, near);
        let grown = self.whole.run(&near, memory, observe);
        if grown.as_ref().is_ok_and(|found| (self.is_explained)(&found.result.theta)) {
            return grown;
        }
        match (self.whole.run(from, memory, observe), grown) {
            (Ok(direct), Ok(grown)) => Ok(if grown.cost() < direct.cost() { grown } else { direct }),
            (Err(_), grown) => grown,
            (direct, Err(_)) => direct,
        }
    }
}
