//! Searches from several starts, of which the best counts, and searches as plain numbers, so that they can be made
//! elsewhere.
//!
//! As numbers a search is
//!
//! ```text
//! end, steps, evaluations, minima left, value, theta (n), gradient (n), curvature (n n, by rows), the last refused point (n, or nothing)
//! ```
//!
//! and nothing at all where its start is refused.

use faer::Mat;

use crate::search::{Expansion, RefusedPoint, SearchEnd, SearchResult, SearchSpace};

/// One search among several.
#[derive(Clone, PartialEq, Debug)]
pub struct StartOutcome {
    /// Where it started.
    pub start: Vec<f64>,
    /// Where it ended; empty when the start was refused.
    pub end: Vec<f64>,
    /// The cost there.
    pub cost: f64,
}

/// The end of a search of any kind.
pub trait Ended {
    /// Where it ended.
    fn theta(&self) -> &[f64];
    /// What was minimized, there.
    fn cost(&self) -> f64;
    /// Its steps.
    fn iterations(&self) -> usize;
}

impl<R> Ended for SearchResult<R> {
    fn theta(&self) -> &[f64] {
        &self.theta
    }

    fn cost(&self) -> f64 {
        self.expansion.value
    }

    fn iterations(&self) -> usize {
        self.iterations
    }
}

/// What came of searches from several starts so far.
pub struct MultiStart<F, R> {
    /// The search that ended at the smallest cost.
    pub best: Option<F>,
    /// All of them, in the order in which they were made.
    pub outcomes: Vec<StartOutcome>,
    /// Steps of all of them.
    pub iterations: usize,
    /// The first start that was refused.
    pub refused: Option<RefusedPoint<R>>,
}

impl<F, R> Default for MultiStart<F, R> {
    fn default() -> Self {
        Self { best: None, outcomes: Vec::new(), iterations: 0, refused: None }
    }
}

impl<F: Ended, R> MultiStart<F, R> {
    /// Takes a search from a start in.
    pub fn add(&mut self, from: &[f64], found: Result<F, R>) {
        let start = from.to_vec();
        match found {
            Ok(found) => {
                self.iterations += found.iterations();
                self.outcomes.push(StartOutcome { start, end: found.theta().to_vec(), cost: found.cost() });
                if self.best.as_ref().is_none_or(|best| found.cost() < best.cost()) {
                    self.best = Some(found);
                }
            }
            Err(refusal) => {
                self.outcomes.push(StartOutcome { start: start.clone(), end: Vec::new(), cost: f64::NAN });
                self.refused.get_or_insert(RefusedPoint { theta: start, refusal });
            }
        }
    }
}

/// A search as numbers.
#[must_use]
pub fn to_numbers<R>(result: &SearchResult<R>) -> Vec<f64> {
    let n = result.theta.len();
    let end = match result.end {
        SearchEnd::Converged => 0.0,
        SearchEnd::Stuck => 1.0,
        SearchEnd::TooManyIterations => 2.0,
    };
    let counts = [result.iterations, result.evaluations, result.n_left].map(|count| count as f64);
    let mut numbers = vec![end];
    numbers.extend(counts);
    numbers.push(result.expansion.value);
    numbers.extend(&result.theta);
    numbers.extend(&result.expansion.gradient);
    numbers.extend((0..n * n).map(|at| result.expansion.curvature[(at / n, at % n)]));
    numbers.extend(result.refused.last().into_iter().flat_map(|refused| &refused.theta));
    numbers
}

/// A search from numbers; `refusal` says why a point was refused. `None` where the numbers are no search.
#[must_use]
pub fn from_numbers<R>(
    numbers: &[f64],
    space: &SearchSpace,
    refusal: impl FnOnce(&[f64]) -> Option<R>,
) -> Option<SearchResult<R>> {
    let n = space.nominal.len();
    let (&[end, iterations, evaluations, n_left, value], rest) = numbers.split_first_chunk::<5>()?;
    let (theta, rest) = rest.split_at_checked(n)?;
    let (gradient, rest) = rest.split_at_checked(n)?;
    let (curvature, last) = rest.split_at_checked(n * n)?;
    let refused = (last.len() == n && n > 0)
        .then(|| refusal(last).map(|refusal| RefusedPoint { theta: last.to_vec(), refusal }))
        .flatten();
    Some(SearchResult {
        theta: theta.to_vec(),
        expansion: Expansion {
            value,
            gradient: gradient.to_vec(),
            curvature: Mat::from_fn(n, n, |i, j| curvature[i * n + j]),
        },
        at_bound: (0..n).map(|i| space.bound_at(i, theta[i])).collect(),
        end: match end {
            0.0 => SearchEnd::Converged,
            1.0 => SearchEnd::Stuck,
            _ => SearchEnd::TooManyIterations,
        },
        iterations: iterations as usize,
        evaluations: evaluations as usize,
        n_left: n_left as usize,
        refused: refused.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Bound;

    #[test]
    fn a_search_survives_the_journey() {
        let space = SearchSpace { lower: vec![0.0, -1.0], upper: vec![f64::INFINITY, 1.0], nominal: vec![1.0, 1.0] };
        let result = SearchResult {
            theta: vec![0.1 + 0.2, 1.0],
            expansion: Expansion {
                value: -0.0,
                gradient: vec![1e-300, 2.0],
                curvature: Mat::from_fn(2, 2, |i, j| (3 * i + j) as f64 / 7.0),
            },
            at_bound: vec![None, Some(Bound::Upper)],
            end: SearchEnd::Stuck,
            iterations: 12,
            evaluations: 40,
            n_left: 2,
            refused: vec![RefusedPoint { theta: vec![5.0, 6.0], refusal: "wall" }],
        };
        let numbers = to_numbers(&result);
        let back = from_numbers(&numbers, &space, |theta| (theta == [5.0, 6.0]).then_some("wall")).expect("numbers");
        assert_eq!(to_numbers(&back), numbers);
        assert_eq!((back.at_bound, back.end, back.refused), (result.at_bound, result.end, result.refused));
        assert!(from_numbers::<&str>(&[], &space, |_| None).is_none());
        assert!(from_numbers::<&str>(&numbers[..9], &space, |_| None).is_none());
    }
}
