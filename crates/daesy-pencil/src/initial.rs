//! Consistent values: the free part of an initial value, and the nearest value that satisfies all constraints.

use crate::dense::{Vectors, check_vector, norm, pick_columns, svd, times};
use crate::error::PencilError;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide};
use crate::split::FiniteInfiniteSplit;
use crate::standard_form::Chain;
use faer::Mat;

/// What the caller knows about the values.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConsistencyRequest<'a> {
    /// Values to stay close to, one per variable.
    pub guess: &'a [f64],
    /// Variables (from 0) whose values must not change.
    pub insisted: &'a [usize],
    /// Size of a unit change per variable (nominal values); all 1 if absent.
    pub scales: Option<&'a [f64]>,
    /// How ranks are decided.
    pub tolerance: RankTolerance,
}

/// Values that satisfy all constraints.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsistentValues {
    /// The values.
    pub values: Vec<f64>,
    /// Variables (from 0) whose value differs from the guess.
    pub changed: Vec<usize>,
    /// Scaled distance from the guess.
    pub distance: f64,
    /// How the independence of the constraints was decided.
    pub rank_decision: RankDecision,
}

/// The nearest `z` to the guess, in scaled least squares, with `constraints z = target`, insisted values kept.
///
/// Insisted values that contradict the constraints are an error that names them.   [@campbell2011, eq. (25)]
pub fn nearest_consistent(
    constraints: &Mat<f64>,
    target: &[f64],
    request: &ConsistencyRequest<'_>,
) -> Result<ConsistentValues, PencilError> {
    let (m, n) = constraints.shape();
    check_vector("guess", request.guess, n, "one value per variable")?;
    check_vector("target", target, m, "one value per constraint")?;
    if let Some(scales) = request.scales {
        check_vector("scales", scales, n, "one scale per variable")?;
        if let Some(&bad) = scales.iter().find(|s| **s <= 0.0) {
            return Err(PencilError::BadOption { option: "scales", value: bad, expected: "greater than zero" });
        }
    }
    if let Some(&bad) = request.insisted.iter().find(|j| **j >= n) {
        return Err(PencilError::BadOption {
            option: "insisted",
            value: bad as f64,
            expected: "a position below the number of variables",
        });
    }
    let scale = |j: usize| request.scales.map_or(1.0, |s| s[j]);
    // Rows in units of their own size, so that constraints in different units weigh the same.
    let size = |i: usize| (0..n).map(|j| (constraints[(i, j)] * scale(j)).powi(2)).sum::<f64>().sqrt();
    let weights: Vec<f64> = (0..m).map(|i| if size(i) > 0.0 { 1.0 / size(i) } else { 1.0 }).collect();
    let scaled = Mat::from_fn(m, n, |i, j| weights[i] * constraints[(i, j)] * scale(j));
    let defect: Vec<f64> = times(constraints, request.guess)
        .iter()
        .zip(target)
        .zip(&weights)
        .map(|((have, want), w)| w * (want - have))
        .collect();
    let noise = (0..m)
        .map(|i| {
            let terms: f64 = (0..n).map(|j| (constraints[(i, j)] * request.guess[j]).abs()).sum();
            weights[i] * (terms + target[i].abs())
        })
        .fold(0.0, f64::max);
    let movable: Vec<usize> = (0..n).filter(|j| !request.insisted.contains(j)).collect();
    let a = pick_columns(&scaled, &movable);
    let dec = svd(a.as_ref(), Vectors::Both)?;
    let reference = norm(scaled.as_ref()).clamp(f64::MIN_POSITIVE, 1.0);
    let question = RankQuestion::ConsistentValues;
    let decision = decide(&dec.s, m, movable.len(), reference, &request.tolerance, question);
    let mut step = vec![0.0; movable.len()];
    let mut rest = defect.clone();
    for k in 0..decision.rank {
        let along: f64 = (0..m).map(|i| dec.u[(i, k)] * defect[i]).sum();
        for (j, s) in step.iter_mut().enumerate() {
            *s += dec.v[(j, k)] * along / dec.s[k];
        }
        for (i, r) in rest.iter_mut().enumerate() {
            *r -= dec.u[(i, k)] * along;
        }
    }
    let violation = rest.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    if violation > 1e-9 * (noise + 1e-3 * reference) {
        // The combination of constraints that cannot be met involves these insisted variables.
        let involved = |j: &&usize| {
            let sum: f64 = (0..m).map(|i| rest[i] * scaled[(i, **j)]).sum();
            sum.abs() > 1e-9 * violation
        };
        let variables = request.insisted.iter().filter(involved).map(|j| j + 1).collect();
        return Err(PencilError::InconsistentValues { variables, residual: violation / noise.max(f64::MIN_POSITIVE) });
    }
    let mut values = request.guess.to_vec();
    for (&j, s) in movable.iter().zip(&step) {
        values[j] += s * scale(j);
    }
    let changed = (0..n)
        .filter(|&j| {
            let difference = (values[j] - request.guess[j]).abs();
            difference > 1e-10 * (values[j].abs() + request.guess[j].abs()) + 1e-13 * scale(j)
        })
        .collect();
    let distance = step.iter().map(|s| s * s).sum::<f64>().sqrt();
    Ok(ConsistentValues { values, changed, distance, rank_decision: decision })
}

impl FiniteInfiniteSplit {
    /// The projector on `R(Ebar^n)` along `N(Ebar^n)`: what it keeps of an initial value can be chosen freely, the rest
    /// is determined by the inputs. [@gerdin2007, eq. (9), (14)]
    pub fn free_projector(&self) -> Mat<f64> {
        self.finite_basis() * self.finite_coordinates()
    }

    /// The part of an initial value that matters for `t > t_0`.
    pub fn free_part(&self, value: &[f64]) -> Result<Vec<f64>, PencilError> {
        check_vector("z0", value, self.right.nrows(), "one value per variable")?;
        Ok(times(&self.free_projector(), value))
    }

    /// The part of `z` that the inputs determine: `Q_a x_a = -sum_k Q_a N^k G_a u^(k)`.
    ///
    /// `input_derivatives` holds `u, u', ..` at the time in question; derivatives that have an effect must be given.
    pub fn determined_part(&self, input: &Mat<f64>, input_derivatives: &[Vec<f64>]) -> Result<Vec<f64>, PencilError> {
        let n = self.right.nrows();
        crate::dense::check_shape("G", input, n, input.ncols(), "G has one row per equation")?;
        for u in input_derivatives {
            check_vector("u", u, input.ncols(), "one value per input")?;
        }
        let terms = Chain::new(self, input).seen_by(&Mat::identity(n, n));
        let mut out = vec![0.0; n];
        for (k, term) in terms.iter().enumerate() {
            match input_derivatives.get(k) {
                Some(u) => {
                    for (o, x) in out.iter_mut().zip(times(term, u)) {
                        *o += x;
                    }
                }
                None if term.norm_max() > 0.0 => {
                    return Err(PencilError::MissingDerivatives { needed: k, given: input_derivatives.len() });
                }
                None => {}
            }
        }
        Ok(out)
    }

    /// The value the solution takes right after `t_0` when started from a possibly inconsistent `value`: its free part
    /// is kept, the rest follows from the inputs. [@gerdin2007, remark 4]
    pub fn continue_from(
        &self,
        value: &[f64],
        input: &Mat<f64>,
        input_derivatives: &[Vec<f64>],
    ) -> Result<Vec<f64>, PencilError> {
        let free = self.free_part(value)?;
        let determined = self.determined_part(input, input_derivatives)?;
        Ok(free.iter().zip(&determined).map(|(a, b)| a + b).collect())
    }

    /// The consistent value nearest to a guess, with insisted values kept.
    pub fn consistent_initial_values(
        &self,
        input: &Mat<f64>,
        input_derivatives: &[Vec<f64>],
        request: &ConsistencyRequest<'_>,
    ) -> Result<ConsistentValues, PencilError> {
        let constraints = self.infinite_coordinates();
        let target = times(&constraints, &self.determined_part(input, input_derivatives)?);
        nearest_consistent(&constraints, &target, request)
    }
}
