//! Whether a posterior is one, where its curvature says nothing.
//!
//! A standard deviation v enters a likelihood by its square: at v = 0 both slope and curvature in v vanish, though the
//! density falls away from there. Along such an unknown the density is followed to both sides, the others at their best
//! values: `p(v) = max over the others of log density`. If it falls, that is a side of a proper posterior, as far as can
//! be seen; a density that stays as it is belongs to something that nothing determines.

use crate::search::{Objective, SearchOptions, SearchSpace, minimize};
use crate::uncertainty::Held;

/// The first distance, in typical sizes, and the factor to the next.
const FIRST: f64 = 1e-3;
const FACTOR: f64 = 4.0;

/// Distances.
const MAX_DISTANCES: i32 = 16;

/// By how much the logarithm of the density must fall.
const FALLEN: f64 = 10.0;

/// By how much it has fallen at a distance that tells the width.
const NOTICED: f64 = 0.5;

/// The precision of an unknown by how a density falls away on both sides of its mode, or ends at a bound; `None` where
/// it does not. `objective` is the negative logarithm.
pub fn precision_by_fall<O: Objective>(objective: &mut O, mode: &[f64], at: usize, space: &SearchSpace) -> Option<f64> {
    let value = objective.value(mode).ok()?;
    let without = |values: &[f64]| -> Vec<f64> {
        values.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, value)| *value).collect()
    };
    let others =
        SearchSpace { lower: without(&space.lower), upper: without(&space.upper), nominal: without(&space.nominal) };
    let options = SearchOptions { absolute: 0.1 * NOTICED, ..SearchOptions::default() };
    let mut precision = 0.0f64;
    for sign in [1.0, -1.0] {
        let mut best = without(mode);
        let mut has_fallen = false;
        for power in 0..MAX_DISTANCES {
            let distance = FIRST * FACTOR.powi(power) * space.nominal[at];
            let beside = mode[at] + sign * distance;
            if beside < space.lower[at] || beside > space.upper[at] {
                has_fallen = true;
                break;
            }
            let mut held = Held { objective, at, value: beside };
            // Beyond where the density has a value it is zero.
            let Ok(found) = minimize(&mut held, &best, &others, &options, &mut |_| {}) else {
                has_fallen = true;
                break;
            };
            let fall = found.expansion.value - value;
            if fall >= NOTICED && precision < 2.0 * fall / (distance * distance) {
                precision = 2.0 * fall / (distance * distance);
            }
            if fall >= FALLEN {
                has_fallen = true;
                break;
            }
            best = found.theta;
        }
        if !has_fallen {
            return None;
        }
    }
    Some(precision)
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::search::Expansion;

    /// Of two unknowns, with derivatives by differences.
    struct Plain<F>(F);

    impl<F: Fn(f64, f64) -> f64> Objective for Plain<F> {
        type Refusal = ();

        fn value(&mut self, x: &[f64]) -> Result<f64, ()> {
            Ok(self.0(x[0], x[1]))
        }

        fn expand(&mut self, x: &[f64]) -> Result<Expansion, ()> {
            let value = self.0(x[0], x[1]);
            let differences = [0, 1].map(|i| {
                let h = 1e-4 * x[i].abs().max(1.0);
                let beside = |sign: f64| {
                    let mut there = [x[0], x[1]];
                    there[i] += sign * h;
                    self.0(there[0], there[1])
                };
                let (above, below) = (beside(1.0), beside(-1.0));
                ((above - below) / (2.0 * h), (above + below - 2.0 * value) / (h * h))
            });
            let gradient = differences.iter().map(|(slope, _)| *slope).collect();
            let curvature = Mat::from_fn(2, 2, |i, j| if i == j { differences[i].1.max(0.0) } else { 0.0 });
            Ok(Expansion { value, gradient, curvature })
        }
    }

    fn space() -> SearchSpace {
        SearchSpace { lower: vec![f64::NEG_INFINITY; 2], upper: vec![f64::INFINITY; 2], nominal: vec![1.0; 2] }
    }

    #[test]
    fn a_standard_deviation_at_zero_is_determined() {
        // Twenty values of variance 0.2 + v^2 and mean m, whose mean square is 0.2: the fall is 10 v^4 / 0.08.
        let mut plain = Plain(|v: f64, m: f64| {
            let variance = 0.2 + v * v;
            10.0 * (variance.ln() + (0.2 + m * m) / variance)
        });
        let precision = precision_by_fall(&mut plain, &[0.0, 0.0], 0, &space()).unwrap();
        assert!(precision > 1.0 && precision < 100.0, "{precision}");
    }

    #[test]
    fn what_another_unknown_makes_up_for_is_not() {
        // Only a^2 + b is seen, then nothing of a.
        let mut bent = Plain(|a: f64, b: f64| 50.0 * (a * a + b).powi(2));
        assert_eq!(precision_by_fall(&mut bent, &[0.0, 0.0], 0, &space()), None);
        let mut unseen = Plain(|_, b: f64| b * b);
        assert_eq!(precision_by_fall(&mut unseen, &[0.0, 0.0], 0, &space()), None);
        // Between bounds it is proper all the same, though nothing tells its width.
        let bounded = SearchSpace { lower: vec![-1.0, -1.0], upper: vec![1.0, 1.0], ..space() };
        assert_eq!(precision_by_fall(&mut unseen, &[0.0, 0.0], 0, &bounded), Some(0.0));
    }
}
