//! Searches as plain numbers, so that an executor may run them.
//!
//! A point that is handed over begins with what is asked: [`SEARCH`] and a start, or [`BOOTSTRAP`], the number of an
//! artificial data set and the estimate it is made at. A search comes back as
//!
//! ```text
//! end, steps, evaluations, value, theta (n), gradient (n), curvature (n n, by rows), the last refused point (n, or nothing)
//! ```
//!
//! and as nothing at all where its start is refused.

use daesy_estimate::search::{Expansion, RefusedPoint, SearchEnd, SearchResult, SearchSpace};
use daesy_pencil::Mat;

/// A search from a start.
pub const SEARCH: f64 = 0.0;
/// An estimate from artificial data.
pub const BOOTSTRAP: f64 = 1.0;

/// Points that ask for searches from starts.
#[must_use]
pub fn search_points(starts: &[Vec<f64>]) -> Vec<Vec<f64>> {
    starts.iter().map(|start| std::iter::once(SEARCH).chain(start.iter().copied()).collect()).collect()
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
    let mut numbers = vec![end, result.iterations as f64, result.evaluations as f64, result.expansion.value];
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
    let (&[end, iterations, evaluations, value], rest) = numbers.split_first_chunk::<4>()?;
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
        refused: refused.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use daesy_estimate::search::Bound;

    use super::*;

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
