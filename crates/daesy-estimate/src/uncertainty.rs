//! How certain estimates are: covariance and identifiable directions.

use daesy_random::special_functions::student_quantile;
use faer::Mat;

use crate::likelihood::SemidefiniteInverse;
use crate::scores::ScoreSeries;
use crate::search::{Bound, Expansion, Objective};

/// How far estimates from artificial data lie apart.
pub struct Spread {
    /// Standard deviations.
    pub std: Vec<f64>,
    /// The covariance, `sum of (e - mean) (e - mean)^T / (n - 1)`.
    pub covariance: Mat<f64>,
}

impl Spread {
    /// The spread of estimates of equal length.
    #[must_use]
    pub fn of(estimates: &[Vec<f64>]) -> Self {
        let n = estimates.len() as f64;
        let n_unknowns = estimates.first().map_or(0, Vec::len);
        let mean = |i: usize| estimates.iter().map(|estimate| estimate[i]).sum::<f64>() / n;
        let means: Vec<f64> = (0..n_unknowns).map(mean).collect();
        let covariance = Mat::from_fn(n_unknowns, n_unknowns, |i, j| {
            let products = estimates.iter().map(|estimate| (estimate[i] - means[i]) * (estimate[j] - means[j]));
            products.sum::<f64>() / (n - 1.0).max(1.0)
        });
        Self { std: (0..n_unknowns).map(|i| covariance[(i, i)].sqrt()).collect(), covariance }
    }
}

/// Uncertainty of the estimates.
#[derive(Clone, Debug)]
pub struct Uncertainty {
    /// Inverse of the information on the directions that data determine; zero rows for variables at a bound.
    pub covariance: Mat<f64>,
    /// The sandwich form `I^-1 V I^-1` with the products `V` of scores: right also when the model is not [@white1982].
    pub robust_covariance: Mat<f64>,
    /// Whether the products of scores are not what the information promises, so that only the sandwich form holds; see
    /// [`Uncertainty::new`].
    pub fails_information_equality: bool,
    /// Standard deviations; infinite where a flat direction takes part, NaN at a bound.
    pub std: Vec<f64>,
    /// Standard deviations of the sandwich form.
    pub robust_std: Vec<f64>,
    /// Their degrees of freedom.
    pub robust_degrees: Vec<f64>,
    /// Number of directions that data determine.
    pub rank: usize,
    /// Directions that data do not determine, as changes of the variables in their own units; see
    /// [`separate_directions`].
    pub flat_directions: Vec<Vec<f64>>,
}

/// A direction is flat when its information in nominal units is below this fraction of the largest, or below
/// [`FLAT_ABSOLUTE`].
const FLAT_RELATIVE: f64 = 1e-13;
/// Information in nominal units below which a change by a thousand nominal values would not be noticed.
const FLAT_ABSOLUTE: f64 = 1e-6;

/// A right model is contradicted by its own scores with this probability.
pub const CONTRADICTED: f64 = 1e-3;

/// What the uncertainty of estimates follows from.
#[derive(Clone, Copy, Debug)]
pub struct Certainty<'a> {
    /// Information of the data about the unknowns.
    pub information: &'a Mat<f64>,
    /// Scores of the samples.
    pub scores: &'a ScoreSeries,
    /// Precision of the prior of every unknown; zero or left out where there is none.
    pub prior_precision: &'a [f64],
    /// Typical sizes of the unknowns.
    pub sizes: &'a [f64],
    /// The bounds they are at.
    pub at_bound: &'a [Option<Bound>],
}

impl Uncertainty {
    /// The uncertainty at an estimate. With priors of precision P (a diagonal), the information is I + P, and the
    /// sandwich `(I + P)^-1 (V + P) (I + P)^-1`.
    ///
    /// The information equality V = I fails where, for the estimate of some unknown, the variances by V and by I differ,
    /// see [`ScoreSeries::influence`]: for one in a thousand right models, as each of k unknowns is asked at the level
    /// of 0.001 / k.
    ///
    /// An unknown whose own information is below 1e-6 in nominal units is a flat direction by itself and takes no part in
    /// what follows: with information matrix J in nominal units, |J_ab| <= sqrt(J_aa J_bb), so that a change of a by a
    /// thousand nominal values, which hardly shows, moves the estimate of b by 1000 |J_ab| / J_bb, at most one standard
    /// error. What is left of such an entry may be all rounding, whose correlations mix it with what data tell.
    #[must_use]
    pub fn new(given: &Certainty<'_>) -> Self {
        let Certainty { information, scores, prior_precision, sizes, at_bound } = *given;
        let information = Mat::from_fn(sizes.len(), sizes.len(), |i, j| {
            information[(i, j)] + if i == j { prior_precision.get(i).copied().unwrap_or(0.0) } else { 0.0 }
        });
        let n = sizes.len();
        let is_told = |i: usize| information[(i, i)] * sizes[i] * sizes[i] >= FLAT_ABSOLUTE;
        let (free, untold): (Vec<usize>, Vec<usize>) =
            (0..n).filter(|&i| at_bound[i].is_none()).partition(|&i| is_told(i));
        let k = free.len();
        let scaled = Mat::from_fn(k, k, |a, b| {
            let (i, j) = (free[a], free[b]);
            0.5 * (information[(i, j)] + information[(j, i)]) * sizes[i] * sizes[j]
        });
        let mut inverse = Mat::<f64>::zeros(n, n);
        let mut is_open = vec![false; n];
        untold.iter().for_each(|&i| is_open[i] = true);
        let alone = |&i: &usize| (0..n).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
        let mut kernel: Vec<Vec<f64>> = untold.iter().map(alone).collect();
        let mut rank = 0;
        // Units of the diagonal first: information may differ by many orders between well-determined variables.
        let unit: Vec<f64> = (0..k).map(|a| 1.0 / scaled[(a, a)].sqrt()).collect();
        let correlation = Mat::from_fn(k, k, |a, b| scaled[(a, b)] * unit[a] * unit[b]);
        if k > 0
            && let Ok(eigen) = correlation.self_adjoint_eigen(faer::Side::Lower)
        {
            let (values, vectors) = (eigen.S().column_vector(), eigen.U());
            for at in 0..k {
                // Back to nominal units: the direction in which information is small.
                let direction: Vec<f64> = (0..k).map(|a| vectors[(a, at)] * unit[a]).collect();
                let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
                let along = values[at] / (length * length);
                if values[at] <= FLAT_RELATIVE * k as f64 || along < FLAT_ABSOLUTE {
                    let mut weights = vec![0.0; n];
                    for (a, &i) in free.iter().enumerate() {
                        weights[i] = direction[a] / length;
                        if weights[i].abs() > 1e-4 {
                            is_open[i] = true;
                        }
                    }
                    kernel.push(weights);
                } else {
                    rank += 1;
                    for (a, &i) in free.iter().enumerate() {
                        for (b, &j) in free.iter().enumerate() {
                            inverse[(i, j)] += direction[a] * direction[b] * sizes[i] * sizes[j] / values[at];
                        }
                    }
                }
            }
        }
        // What no determined direction reaches is not known exactly, but not at all.
        free.iter().filter(|&&i| inverse[(i, i)] <= 0.0).for_each(|&i| is_open[i] = true);
        let influence = scores.influence(&inverse);
        let prior = |i: usize| prior_precision.get(i).copied().unwrap_or(0.0);
        let by_prior = |i: usize, j: usize| (0..n).map(|k| inverse[(i, k)] * prior(k) * inverse[(k, j)]).sum::<f64>();
        let robust = Mat::from_fn(n, n, |i, j| influence.covariance[(i, j)] + by_prior(i, j));
        let asked: Vec<usize> = free.iter().copied().filter(|&i| !is_open[i]).collect();
        let level = CONTRADICTED / asked.len() as f64;
        let fails_information_equality = asked.iter().any(|&i| influence.variances[i].differs(level));
        let std = |matrix: &Mat<f64>| -> Vec<f64> {
            (0..n)
                .map(|i| match at_bound[i] {
                    Some(_) => f64::NAN,
                    None if is_open[i] || matrix[(i, i)].is_nan() => f64::INFINITY,
                    None => matrix[(i, i)].max(0.0).sqrt(),
                })
                .collect()
        };
        Self {
            std: std(&inverse),
            robust_std: std(&robust),
            covariance: inverse,
            robust_covariance: robust,
            robust_degrees: influence.variances.iter().map(|variance| variance.degrees).collect(),
            fails_information_equality,
            rank,
            flat_directions: separate_directions(kernel, sizes),
        }
    }
}

/// How other unknowns make up for one that is held, see [`Compensation::of`].
#[derive(Clone, PartialEq, Debug)]
pub struct Compensation {
    /// Relative changes of the unknowns for a relative change of the one by 1; zero for those at a bound.
    pub changes: Vec<f64>,
    /// The share of the information about it that the others cannot make up for.
    pub left: f64,
}

impl Compensation {
    /// The changes of the others that cost the least likelihood when one unknown is moved. With the information J by the
    /// logarithms of the unknowns, b the one and f the others that are free,
    ///
    /// ```text
    /// changes = -J_ff^-1 J_fb,   left = 1 - J_bf J_ff^-1 J_fb / J_bb
    /// ```
    ///
    /// If data see `a / b` only, nothing is left, and `a` changes as `b` does. `None` where the data do not see it, or
    /// its value is zero.
    #[must_use]
    pub fn of(information: &Mat<f64>, theta: &[f64], at_bound: &[Option<Bound>], at: usize) -> Option<Self> {
        let n = theta.len();
        let others: Vec<usize> = (0..n).filter(|&i| i != at && at_bound[i].is_none() && theta[i] != 0.0).collect();
        let by_logarithms = |i: usize, j: usize| information[(i, j)] * theta[i] * theta[j];
        let own = by_logarithms(at, at);
        if own.is_nan() || own <= 0.0 {
            return None;
        }
        let inner = Mat::from_fn(others.len(), others.len(), |a, b| by_logarithms(others[a], others[b]));
        let inverse = SemidefiniteInverse::new(&inner).matrix;
        let mut changes = vec![0.0; n];
        for (a, &i) in others.iter().enumerate() {
            changes[i] = -others.iter().enumerate().map(|(b, &j)| inverse[(a, b)] * by_logarithms(j, at)).sum::<f64>();
        }
        let left = 1.0 + others.iter().map(|&i| by_logarithms(at, i) * changes[i]).sum::<f64>() / own;
        Some(Self { changes, left: left.max(0.0) })
    }
}

/// Weights below this, relative to the largest of a direction, are none.
const NEGLIGIBLE_WEIGHT: f64 = 1e-3;

/// Other directions that span the same space, as few variables in each as possible, and as changes in the units of the
/// variables.
///
/// Weights in nominal units are brought to reduced echelon form, with the largest weights as pivots. Combinations that
/// have no variable in common come apart: if data see `a b` and `c k` only, one direction changes `a` and `b`, the
/// other `c` and `k`. A direction is as long as the nominal size of the variable that it changes most.
#[must_use]
pub fn separate_directions(mut directions: Vec<Vec<f64>>, sizes: &[f64]) -> Vec<Vec<f64>> {
    let n_rows = directions.len();
    let mut is_used = vec![false; sizes.len()];
    for row in 0..n_rows {
        let mut best = (row, 0, 0.0f64);
        for (at, direction) in directions.iter().enumerate().skip(row) {
            for (column, weight) in direction.iter().enumerate().filter(|(column, _)| !is_used[*column]) {
                if weight.abs() > best.2 {
                    best = (at, column, weight.abs());
                }
            }
        }
        let (at, column, size) = best;
        if size == 0.0 {
            break;
        }
        directions.swap(row, at);
        is_used[column] = true;
        let pivot = directions[row][column];
        directions[row].iter_mut().for_each(|weight| *weight /= pivot);
        let pivot_row = directions[row].clone();
        for (_, other) in directions.iter_mut().enumerate().filter(|(other, _)| *other != row) {
            let factor = other[column];
            other.iter_mut().zip(&pivot_row).for_each(|(weight, p)| *weight -= factor * p);
        }
    }
    for direction in &mut directions {
        let largest = direction.iter().fold(0.0f64, |largest, weight| largest.max(weight.abs()));
        for (weight, size) in direction.iter_mut().zip(sizes) {
            let share = if largest > 0.0 { *weight / largest } else { 0.0 };
            *weight = if share.abs() > NEGLIGIBLE_WEIGHT { share * size } else { 0.0 };
        }
    }
    directions
}

/// An objective with one variable held.
pub(crate) struct Held<'o, O: Objective> {
    pub objective: &'o mut O,
    pub at: usize,
    pub value: f64,
}

impl<O: Objective> Held<'_, O> {
    fn whole(&self, theta: &[f64]) -> Vec<f64> {
        let mut whole = theta.to_vec();
        whole.insert(self.at, self.value);
        whole
    }
}

impl<O: Objective> Objective for Held<'_, O> {
    type Refusal = O::Refusal;

    fn value(&mut self, theta: &[f64]) -> Result<f64, O::Refusal> {
        self.objective.value(&self.whole(theta))
    }

    fn expand(&mut self, theta: &[f64]) -> Result<Expansion, O::Refusal> {
        let whole = self.objective.expand(&self.whole(theta))?;
        let kept: Vec<usize> = (0..whole.gradient.len()).filter(|&i| i != self.at).collect();
        Ok(Expansion {
            value: whole.value,
            gradient: kept.iter().map(|&i| whole.gradient[i]).collect(),
            curvature: Mat::from_fn(kept.len(), kept.len(), |a, b| whole.curvature[(kept[a], kept[b])]),
        })
    }
}

/// The 95 % interval of an estimate: of the estimate itself or, for what only the size or the time constants of noise
/// depend on and cannot be negative, of its logarithm. Variances estimated from finitely many samples are skewed to the
/// right (chi-square, where they are independent); their logarithms much less.
///
/// By the normal law where `degrees` is infinite. Where the size of errors was taken from as many of them as there are
/// unknowns and `degrees` more, by Student's: few errors may be small by chance, and the standard error with them.
#[must_use]
pub fn confidence_interval(estimate: f64, std: f64, is_noise_scale: bool, degrees: f64) -> [f64; 2] {
    let reach = student_quantile(0.975, degrees) * std;
    if is_noise_scale && estimate > 0.0 && std.is_finite() {
        let factor = (reach / estimate).exp();
        [estimate / factor, estimate * factor]
    } else {
        [estimate - reach, estimate + reach]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chi_square::NORMAL_95;
    use crate::profile::{ProfileQuestion, profile_interval};
    use crate::scores::ExperimentScores;
    use crate::search::{SearchOptions, SearchSpace};

    /// The uncertainty where products of scores are the information: two hundred values for each of its eigenvectors.
    fn certain(h: &Mat<f64>, sizes: &[f64], at_bound: &[Option<Bound>]) -> Uncertainty {
        let eigen = h.self_adjoint_eigen(faer::Side::Lower).unwrap();
        let slope = |at: usize, i: usize| eigen.U()[(i, at)] * (eigen.S().column_vector()[at].max(0.0) / 200.0).sqrt();
        let by_error = (0..400).flat_map(|at| [slope(at % 2, 0), slope(at % 2, 1)]).collect();
        let mut rng = fastrand::Rng::with_seed(1);
        let errors = (0..400).map(|_| if rng.bool() { 1.0 } else { -1.0 }).collect();
        let scores = ExperimentScores { errors, by_error, ends: (1..=400).collect(), ..Default::default() };
        let scores = ScoreSeries { n_unknown: 2, experiments: vec![scores] };
        Uncertainty::new(&Certainty { information: h, scores: &scores, prior_precision: &[], sizes, at_bound })
    }

    #[test]
    fn scores_that_are_larger_than_the_information_says_are_noticed() {
        let mut rng = fastrand::Rng::with_seed(9);
        let mut fails = |size: f64| {
            let error = |_| size * ((0..12).map(|_| rng.f64()).sum::<f64>() - 6.0);
            let (errors, by_error) = ((0..200).map(error).collect(), vec![1.0; 200]);
            let scores = ExperimentScores { errors, by_error, ends: (1..=200).collect(), ..Default::default() };
            let scores = ScoreSeries { n_unknown: 1, experiments: vec![scores] };
            let information = Mat::from_fn(1, 1, |_, _| 200.0);
            let (sizes, at_bound) = ([1.0], [None]);
            let found = Uncertainty::new(&Certainty {
                information: &information,
                scores: &scores,
                prior_precision: &[],
                sizes: &sizes,
                at_bound: &at_bound,
            });
            (found.fails_information_equality, found.robust_std[0] / found.std[0])
        };
        let n_false = (0..500).filter(|_| fails(1.0).0).count();
        assert!(n_false <= 2, "{n_false} of 500");
        let (is_noticed, ratio) = fails(10.0);
        assert!(is_noticed && (ratio - 10.0).abs() < 2.0, "{ratio}");
        assert!(fails(0.1).0);
    }

    struct Quadratic(Mat<f64>);

    impl Objective for Quadratic {
        type Refusal = ();

        fn value(&mut self, theta: &[f64]) -> Result<f64, ()> {
            Ok(0.5 * (0..2).map(|i| (0..2).map(|j| theta[i] * self.0[(i, j)] * theta[j]).sum::<f64>()).sum::<f64>())
        }

        fn expand(&mut self, theta: &[f64]) -> Result<Expansion, ()> {
            Ok(Expansion {
                value: self.value(theta)?,
                gradient: (0..2).map(|i| (0..2).map(|j| self.0[(i, j)] * theta[j]).sum()).collect(),
                curvature: self.0.clone(),
            })
        }
    }

    #[test]
    fn profiles_of_a_quadratic_are_its_normal_intervals() {
        let h = Mat::from_fn(2, 2, |i, j| [[4.0, 1.5], [1.5, 1.0]][i][j]);
        let space = SearchSpace { lower: vec![-10.0; 2], upper: vec![10.0; 2], nominal: vec![1.0; 2] };
        let found = certain(&h, &[1.0, 1.0], &[None, None]);
        assert_eq!(found.rank, 2);
        for at in 0..2 {
            let options = SearchOptions { absolute: 1e-12, ..SearchOptions::default() };
            let question = ProfileQuestion {
                estimate: &[0.0, 0.0],
                minimum: 0.0,
                minima: &[],
                at,
                std: found.std[at],
                space: &space,
                options: &options,
            };
            let interval = profile_interval(&mut Quadratic(h.clone()), &question).ends;
            assert!((interval[1] - NORMAL_95 * found.std[at]).abs() < 1e-5, "{interval:?}");
            assert!((interval[0] + interval[1]).abs() < 1e-5);
        }
        // Where the model is right, both forms agree.
        assert!((found.robust_std[0] / found.std[0] - 1.0).abs() < 0.01);
    }

    #[test]
    fn information_that_is_all_rounding_hides_no_other() {
        // The first cancels from the model; what is left of it is rounding that looks correlated with the second.
        for rest in [1e-30f64, 1e-24, 1e-18, 1e-10] {
            let h =
                Mat::from_fn(2, 2, |i, j| [[rest, 0.9 * (4e4 * rest).sqrt()], [0.9 * (4e4 * rest).sqrt(), 4e4]][i][j]);
            let found = certain(&h, &[1.0, 1.0], &[None, None]);
            assert_eq!(found.rank, 1, "{rest:e}");
            assert_eq!(found.std[0], f64::INFINITY);
            assert!((found.std[1] / 0.005 - 1.0).abs() < 1e-9, "{rest:e}: {}", found.std[1]);
            assert_eq!(found.flat_directions, [vec![1.0, 0.0]]);
        }
    }

    #[test]
    fn flat_directions_are_named() {
        // Only the difference of the two is seen, in units of 1 and 100.
        let (a, b) = (1.0, -0.01);
        let h = Mat::from_fn(2, 2, |i, j| 50.0 * [a, b][i] * [a, b][j]);
        let found = certain(&h, &[1.0, 100.0], &[None, None]);
        assert_eq!(found.rank, 1);
        // In their own units: one of the first is a hundred of the second.
        let direction = &found.flat_directions[0];
        assert!((direction[1] / direction[0] - 100.0).abs() < 1e-4, "{direction:?}");
        assert!(found.std.iter().all(|std| std.is_infinite()));
        // A variable at its bound has no deviation, the others are as if it were known.
        let found = certain(&h, &[1.0, 100.0], &[None, Some(Bound::Lower)]);
        assert!(found.std[1].is_nan() && (found.std[0] - 50f64.sqrt().recip()).abs() < 1e-12);
    }

    #[test]
    fn what_makes_up_for_a_held_unknown_is_found() {
        // Data see a / b and c of log-likelihood -(ln(a / b))^2 500 - (ln c)^2 50, at a = 2, b = 5, c = 7; d is at its bound.
        let theta = [2.0, 5.0, 7.0, 1.0];
        let (ratio, alone) = ([1.0, -1.0, 0.0, 0.3], [0.0, 0.0, 1.0, 0.0]);
        let information = Mat::from_fn(4, 4, |i, j| {
            (1000.0 * ratio[i] * ratio[j] + 100.0 * alone[i] * alone[j]) / (theta[i] * theta[j])
        });
        let at_bound = [None, Some(Bound::Upper), None, Some(Bound::Lower)];
        let found = Compensation::of(&information, &theta, &at_bound, 1).unwrap();
        assert!(found.left < 1e-9 && (found.changes[0] - 1.0).abs() < 1e-9, "{found:?}");
        assert!(found.changes[2].abs() < 1e-9 && found.changes[3] == 0.0, "{found:?}");
        let found = Compensation::of(&information, &theta, &at_bound, 2).unwrap();
        assert!((found.left - 1.0).abs() < 1e-9);
    }

    #[test]
    fn independent_flat_directions_come_apart() {
        // Only a b and c k are seen: the kernel, mixed on purpose, at a = 2, b = 3, c = 5, k = 7.
        let (first, second) = ([1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]);
        let mixed = |p: f64, q: f64| (0..4).map(|i| p * first[i] + q * second[i]).collect::<Vec<f64>>();
        let apart = separate_directions(vec![mixed(0.6, 0.8), mixed(-0.8, 0.6)], &[2.0, 3.0, 5.0, 7.0]);
        assert_eq!(apart.len(), 2);
        for direction in &apart {
            let own: Vec<usize> = (0..4).filter(|&i| direction[i] != 0.0).collect();
            assert!(own == [0, 1] || own == [2, 3], "{apart:?}");
            let sizes = [2.0, 3.0, 5.0, 7.0];
            let (i, j) = (own[0], own[1]);
            assert!((direction[i] / sizes[i] + direction[j] / sizes[j]).abs() < 1e-12, "{apart:?}");
        }
    }
}
