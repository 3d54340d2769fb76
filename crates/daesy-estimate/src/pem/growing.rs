//! Searches that grow: over more and more realizations, and over more and more of the record.

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

/// The first share of the samples that a fit grows over, and the factor from one to the next.
const FIRST_SHARE: f64 = 0.06;
const GROWTH: f64 = 1.25;

/// Points that are tried beside the start where a fit leaves errors that nothing explains.
const FURTHER_STARTS: usize = 8;

/// A search for the fit of output errors.
///
/// Least squares of trajectories have local minima, and a fit in one of them looks like any other but for its errors:
/// where events come at other times than in the data, or an oscillation is out of step with it, there is a minimum for
/// each way to pair them. Over the beginning of a record there is one event or period at most to pair. So where a fit
/// leaves errors that nothing explains, the search is made again: from the fit of the beginning of every record, grown
/// over more and more of it, which for a model with events comes first, and from points all over the bounds.
pub struct OutputSearch<'p, 'a> {
    /// The search over whole records.
    pub whole: GrowingSearch<'p, 'a>,
    /// The problem of a share of every record, around a point; `None` where there is none.
    pub beginning: &'p dyn Fn(f64, &[f64]) -> Option<PredictionProblem<'a>>,
    /// Whether output errors at a point are such as errors of measurement are, or need no explanation.
    pub is_explained: &'p dyn Fn(&[f64]) -> bool,
    /// Where the points all over the bounds come from.
    pub seed: u64,
}

/// Where a search for output errors begins.
#[derive(Clone, Copy)]
enum Way {
    /// At the start.
    Start,
    /// At the fit of the beginning of every record.
    Beginning,
    /// At the best of many points.
    Elsewhere,
}

/// The fit of the beginning of every record, grown; see [`OutputSearch`].
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

impl OutputSearch<'_, '_> {
    /// Minimizes from a start, with evaluations kept: one way after the other, until what is left is explained. The best
    /// is kept.
    ///
    /// # Errors
    /// The refusal of the start.
    pub fn run(
        &self,
        from: &[f64],
        memory: &mut dyn Memory,
        observe: &mut dyn FnMut(usize, &SearchProgress<'_>),
    ) -> Result<GrownSearch, PointRefusal> {
        let watch = &self.whole.watch;
        let mut ways = [Way::Start, Way::Beginning, Way::Elsewhere];
        if self.whole.problem.meets_events() {
            ways.swap(0, 1);
        }
        let mut best: Option<GrownSearch> = None;
        let mut refusal = None;
        for way in ways {
            let near = match way {
                Way::Start => from.to_vec(),
                Way::Beginning => {
                    let near = || grown_start(self.beginning, from, self.whole.space, watch);
                    remembered_point(memory, "grown", from, watch, near)
                }
                Way::Elsewhere => remembered_point(memory, "elsewhere", from, watch, || self.best_of_many(from)),
            };
            match self.whole.run(&near, memory, observe) {
                Ok(found) if best.as_ref().is_none_or(|best| found.cost() < best.cost()) => best = Some(found),
                Ok(_) => {}
                Err(why) => refusal = refusal.or(Some(why)),
            }
            let is_explained = |best: &GrownSearch| (self.is_explained)(&best.result.theta);
            if watch.is_stopped() || best.as_ref().is_some_and(is_explained) {
                break;
            }
        }
        best.ok_or_else(|| refusal.unwrap_or(PointRefusal::NotFinite { what: "the start".to_owned() }))
    }

    /// The end of the best of some short searches from points all over the bounds.
    fn best_of_many(&self, from: &[f64]) -> Vec<f64> {
        let GrowingSearch { problem, space, watch } = &self.whole;
        let options = SearchOptions { relative: 1e-3, max_iterations: 15, ..SearchOptions::default() };
        let mut best = (f64::INFINITY, from.to_vec());
        for start in space.starts(from, 1 + FURTHER_STARTS, self.seed).into_iter().skip(1) {
            if watch.is_stopped() {
                break;
            }
            let mut objective =
                PredictionObjective { problem, n_realizations: 1, watch: watch.clone(), evaluations: 0 };
            if let Ok(found) = minimize(&mut objective, &start, space, &options, &mut |_| {})
                && found.expansion.value < best.0
            {
                best = (found.expansion.value, found.theta);
            }
        }
        best.1
    }
}
