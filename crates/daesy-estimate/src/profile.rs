//! Profile intervals: which values of one variable are compatible with the data, whatever the others are.
//!
//! With `l(v)` the least negative log-likelihood over all other variables when one is held at `v`, the 95 % interval
//! reaches from the lowest to the highest `v` with
//!
//! ```text
//! excess(v) = l(v) - l(estimate) - chi-square(0.95, 1) / 2 < 0
//! ```
//!
//! Its ends are found by going outwards until the excess is positive and then by bracketing. `l` is itself the result
//! of a search, which may end in the wrong valley. Going outwards it starts from what was best before and from the
//! estimate, and, before a value is taken to be outside, from points spread over the bounds. Within a bracket it starts
//! in between what was best at both ends of it, which is near where the others move smoothly; the end that comes of
//! this is asked once more from the estimate, and where that finds another valley all steps are done so.
//! Other minima are looked for as well, by searches for all variables from points spread over the bounds, once for all
//! profiles: where data are compatible with two separate ranges, the interval holds both.

use crate::chi_square::CHI_SQUARE_95;
use crate::search::{Objective, SearchOptions, SearchSpace, minimize};
use crate::uncertainty::Held;

/// What an end of a profile interval is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileEnd {
    /// The likelihood has dropped enough there.
    Crossing,
    /// It has not, up to the bound.
    Bound,
    /// The model has no likelihood beyond it.
    Wall,
    /// It was not found.
    NotFound,
}

/// A profile interval.
#[derive(Clone, PartialEq, Debug)]
pub struct ProfileInterval {
    /// Its ends; infinite where none was found.
    pub ends: [f64; 2],
    /// What they are.
    pub kinds: [ProfileEnd; 2],
    /// Whether values in between are not compatible with the data.
    pub has_gap: bool,
}

/// A value of the variable with the best of the others.
#[derive(Clone)]
struct Tried {
    value: f64,
    /// Infinite where the objective refuses.
    excess: f64,
    others: Vec<f64>,
}

/// Starts spread over the bounds before a value counts as outside.
const SPREAD: usize = 4;

/// Starts of the search for other minima.
const MINIMA: usize = 9;

/// Steps outwards before an end counts as not found.
const OUTWARDS: usize = 40;

/// What searches for the others must still promise to go on, and what the excess at an end may be: of the 1.92 between
/// the estimate and an end that is a millionth of the interval.
const CONVERGED: f64 = 1e-9;
const ON_THE_END: f64 = 1e-6;

/// The same for searches that only tell whether there is another valley.
const LOOSE: f64 = 1e-2;

/// A point that fits the data as well as others do.
#[derive(Clone, PartialEq, Debug)]
pub struct Minimum {
    /// The variables.
    pub theta: Vec<f64>,
    /// The negative log-likelihood there.
    pub value: f64,
}

struct Profile<'o, O: Objective> {
    objective: &'o mut O,
    at: usize,
    estimate: f64,
    /// The others at the estimate.
    others: Vec<f64>,
    minimum: f64,
    space: &'o SearchSpace,
    rest: SearchSpace,
    options: SearchOptions,
    minima: Vec<Tried>,
}

impl<O: Objective> Profile<'_, O> {
    /// The best of the others from some starts.
    fn best(&mut self, value: f64, starts: &[Vec<f64>], options: &SearchOptions) -> Tried {
        let target = self.minimum + 0.5 * CHI_SQUARE_95;
        let mut best = Tried { value, excess: f64::INFINITY, others: self.others.clone() };
        let mut held = Held { objective: &mut *self.objective, at: self.at, value };
        for start in starts {
            let found = if start.is_empty() {
                held.value(&[]).ok().map(|found| (found, Vec::new()))
            } else {
                let found = minimize(&mut held, &self.rest.clamp(start), &self.rest, options, &mut |_| {});
                found.ok().map(|found| (found.expansion.value, found.theta))
            };
            if let Some((found, others)) = found.filter(|(found, _)| found - target < best.excess) {
                best = Tried { value, excess: found - target, others };
            }
            if start.is_empty() {
                break;
            }
        }
        best
    }

    /// From the neighbours' best and from the estimate.
    fn near(&mut self, value: f64, neighbours: &[&Tried]) -> Tried {
        let mut starts: Vec<Vec<f64>> = neighbours.iter().map(|tried| tried.others.clone()).collect();
        if !starts.contains(&self.others) {
            starts.push(self.others.clone());
        }
        self.best(value, &starts, &self.options.clone())
    }

    /// From in between the best of two neighbours.
    fn between(&mut self, inner: &Tried, outer: &Tried, part: f64) -> Tried {
        let mix = |a: f64, b: f64| a + part * (b - a);
        let start = inner.others.iter().zip(&outer.others).map(|(a, b)| mix(*a, *b)).collect();
        self.best(mix(inner.value, outer.value), &[start], &self.options.clone())
    }

    /// The same, and from points spread over the bounds if that leaves it outside.
    fn sure(&mut self, value: f64, neighbours: &[&Tried]) -> Tried {
        let found = self.near(value, neighbours);
        if found.excess < 0.0 || self.others.is_empty() {
            return found;
        }
        let starts = self.rest.starts(&self.others, SPREAD, self.at as u64 + 1);
        let loose = SearchOptions { absolute: LOOSE, ..self.options.clone() };
        let other = self.best(value, &starts[1..], &loose);
        if other.excess > found.excess + LOOSE {
            return found;
        }
        let other = self.best(value, &[other.others], &self.options.clone());
        if other.excess < found.excess { other } else { found }
    }

    /// Goes outwards from a value inside; gives the last one inside and, unless the bound was met or nothing found, the
    /// first outside.
    fn bracket(&mut self, from: Tried, direction: f64, first: f64) -> (Tried, Result<Tried, ProfileEnd>) {
        let bound = if direction < 0.0 { self.space.lower[self.at] } else { self.space.upper[self.at] };
        let mut inner = from;
        let mut reach = first;
        for _ in 0..OUTWARDS {
            let value = inner.value + direction * reach;
            let value = if direction < 0.0 { value.max(bound) } else { value.min(bound) };
            let found = self.sure(value, &[&inner]);
            if found.excess >= 0.0 {
                return (inner, Ok(found));
            }
            inner = found;
            if value == bound {
                return (inner, Err(ProfileEnd::Bound));
            }
            reach *= 1.6;
        }
        (inner, Err(ProfileEnd::NotFound))
    }

    /// The crossing between a value inside and one outside. The square root of the drop is almost linear in the
    /// distance; every other step halves the bracket, so that it ends in any case.
    fn crossing(&mut self, mut inner: Tried, mut outer: Tried) -> (f64, ProfileEnd) {
        let half = 0.5 * CHI_SQUARE_95;
        let root = |excess: f64| (excess + half).max(0.0).sqrt();
        let outermost = outer.clone();
        let mut is_smooth = true;
        for step in 0..80 {
            let size = (outer.value - self.estimate).abs().max(1e-9 * self.space.nominal[self.at]);
            if (outer.value - inner.value).abs() <= 1e-6 * size {
                break;
            }
            let part = (half.sqrt() - root(inner.excess)) / (root(outer.excess) - root(inner.excess));
            let is_quadratic = outer.excess.is_finite() && part.is_finite() && step % 2 == 0;
            let part = if is_quadratic { part.clamp(0.02, 0.98) } else { 0.5 };
            let value = inner.value + part * (outer.value - inner.value);
            let mut found = match is_smooth {
                true => self.between(&inner, &outer, part),
                false => self.near(value, &[&inner, &outer]),
            };
            if found.excess.abs() < ON_THE_END {
                let again = if is_smooth { self.near(value, &[&found]) } else { found.clone() };
                if again.excess > -ON_THE_END {
                    return (found.value, ProfileEnd::Crossing);
                }
                // There is another valley, which steps on the way may have missed.
                (found, outer, is_smooth) = (again, outermost.clone(), false);
            }
            if found.excess < 0.0 {
                inner = found;
            } else {
                outer = found;
            }
        }
        let kind = if outer.excess.is_finite() { ProfileEnd::Crossing } else { ProfileEnd::Wall };
        (0.5 * (inner.value + outer.value), kind)
    }

    /// A minimum beyond an end that is compatible with the data again, the farthest of those known.
    fn valley(&self, outside: &Tried, direction: f64) -> Option<Tried> {
        let distance = |tried: &Tried| direction * (tried.value - outside.value);
        let beyond = self.minima.iter().filter(|tried| distance(tried) > 0.0);
        beyond.max_by(|a, b| distance(a).total_cmp(&distance(b))).cloned()
    }

    /// One end.
    fn end(&mut self, direction: f64, first: f64) -> (f64, ProfileEnd, bool) {
        let start = Tried { value: self.estimate, excess: -0.5 * CHI_SQUARE_95, others: self.others.clone() };
        let (mut inner, mut outcome) = self.bracket(start, direction, first);
        let mut has_gap = false;
        for _ in 0..3 {
            let Ok(outer) = &outcome else { break };
            let outer = outer.clone();
            let Some(valley) = self.valley(&outer, direction) else { break };
            has_gap = true;
            (inner, outcome) = self.bracket(valley, direction, first);
        }
        match outcome {
            Ok(outer) => {
                let (value, kind) = self.crossing(inner, outer);
                (value, kind, has_gap)
            }
            Err(ProfileEnd::NotFound) => (direction * f64::INFINITY, ProfileEnd::NotFound, has_gap),
            Err(kind) => (inner.value, kind, has_gap),
        }
    }
}

/// What a profile is made of besides the objective.
pub struct ProfileQuestion<'a> {
    /// The estimate.
    pub estimate: &'a [f64],
    /// The value there.
    pub minimum: f64,
    /// Other points that are compatible with the data, see [`other_minima`].
    pub minima: &'a [Minimum],
    /// Which variable.
    pub at: usize,
    /// Its standard deviation, as far as known.
    pub std: f64,
    /// Bounds and sizes.
    pub space: &'a SearchSpace,
    /// How to search.
    pub options: &'a SearchOptions,
}

/// Minima that searches for all variables find from points spread over the bounds, as far as they are compatible with the
/// data.
pub fn other_minima<O: Objective>(
    objective: &mut O,
    estimate: &[f64],
    minimum: f64,
    space: &SearchSpace,
    options: &SearchOptions,
) -> Vec<Minimum> {
    let mut minima = Vec::new();
    for start in space.starts(estimate, MINIMA, 7).iter().skip(1) {
        if let Ok(found) = minimize(objective, start, space, options, &mut |_| {})
            && found.expansion.value < minimum + 0.5 * CHI_SQUARE_95
        {
            minima.push(Minimum { theta: found.theta, value: found.expansion.value });
        }
    }
    minima
}

/// The 95 % profile interval of one variable of a negative log-likelihood.
pub fn profile_interval<O: Objective>(objective: &mut O, question: &ProfileQuestion<'_>) -> ProfileInterval {
    let &ProfileQuestion { estimate, minimum, minima, at, std, space, options } = question;
    let without =
        |list: &[f64]| -> Vec<f64> { list.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, x)| *x).collect() };
    let rest =
        SearchSpace { lower: without(&space.lower), upper: without(&space.upper), nominal: without(&space.nominal) };
    let others = without(estimate);
    let minima = minima.iter().map(|found| Tried {
        value: found.theta[at],
        excess: found.value - minimum - 0.5 * CHI_SQUARE_95,
        others: without(&found.theta),
    });
    let minima = minima.collect();
    let options = SearchOptions { absolute: options.absolute.max(CONVERGED), ..options.clone() };
    let mut profile = Profile { objective, at, estimate: estimate[at], others, minimum, space, rest, options, minima };
    let first = if std.is_finite() && std > 0.0 { 1.96 * std } else { space.nominal[at] };
    let (low, low_kind, low_gap) = profile.end(-1.0, first);
    let (high, high_kind, high_gap) = profile.end(1.0, first);
    ProfileInterval { ends: [low, high], kinds: [low_kind, high_kind], has_gap: low_gap || high_gap }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::search::Expansion;

    /// A function of two variables with derivatives by differences, for searches in tests.
    struct Plain(fn(f64, f64) -> f64);

    impl Objective for Plain {
        type Refusal = ();

        fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
            Ok((self.0)(theta[0], theta[1]))
        }

        fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
            let f = |i: f64, j: f64| (self.0)(theta[0] + 1e-4 * i, theta[1] + 1e-4 * j);
            let second = |a: f64, b: f64, c: f64| ((a - 2.0 * b + c) * 1e8).max(1e-3);
            let curvature =
                [second(f(1.0, 0.0), f(0.0, 0.0), f(-1.0, 0.0)), second(f(0.0, 1.0), f(0.0, 0.0), f(0.0, -1.0))];
            Ok(Expansion {
                value: f(0.0, 0.0),
                gradient: vec![(f(1.0, 0.0) - f(-1.0, 0.0)) * 5e3, (f(0.0, 1.0) - f(0.0, -1.0)) * 5e3],
                curvature: Mat::from_fn(2, 2, |i, j| if i == j { curvature[i] } else { 0.0 }),
            })
        }
    }

    fn interval(f: fn(f64, f64) -> f64, estimate: [f64; 2], at: usize, std: f64, bounds: [f64; 2]) -> ProfileInterval {
        let space = SearchSpace { lower: vec![bounds[0]; 2], upper: vec![bounds[1]; 2], nominal: vec![1.0; 2] };
        let options = SearchOptions { absolute: 1e-12, ..SearchOptions::default() };
        let minimum = f(estimate[0], estimate[1]);
        let minima = other_minima(&mut Plain(f), &estimate, minimum, &space, &options);
        let (estimate, minima, space, options) = (&estimate, &minima, &space, &options);
        profile_interval(&mut Plain(f), &ProfileQuestion { estimate, minimum, minima, at, std, space, options })
    }

    #[test]
    fn the_interval_of_a_product_reaches_to_the_bounds() {
        // Only x y = 4.5 is seen, sharply: x is between 4.5 / 20 and 20.
        let found = interval(|x, y| 200.0 * (x * y - 4.5).powi(2), [2.0, 2.25], 0, f64::INFINITY, [0.1, 20.0]);
        let slack = (0.5 * CHI_SQUARE_95 / 200.0).sqrt();
        assert!((found.ends[0] - (4.5 - slack) / 20.0).abs() < 1e-4, "{found:?}");
        assert_eq!((found.ends[1], found.kinds[1]), (20.0, ProfileEnd::Bound), "{found:?}");
    }

    #[test]
    fn a_second_valley_belongs_to_the_interval() {
        // Symmetric under exchange: (1, 5) and (5, 1) are equally good.
        let f = |x: f64, y: f64| 50.0 * ((x + y - 6.0).powi(2) + 0.1 * (x * y - 5.0).powi(2));
        let found = interval(f, [5.0, 1.0], 0, 0.2, [-10.0, 10.0]);
        assert!(found.ends[0] < 1.0 && found.ends[1] > 5.0 && found.has_gap, "{found:?}");
    }
}
