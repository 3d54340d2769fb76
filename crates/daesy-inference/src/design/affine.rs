//! What an input tells of a linear model, as a function of the levels of its pieces.
//!
//! Predictions of a linear model are affine in its inputs, and so are the slopes of its normalized innovations by the
//! unknowns, `X` with a row for every value that is measured. The variances of the innovations do not depend on inputs.
//! With the levels l of pieces, and X_k what piece k adds by one unit,
//!
//! ```text
//! X(l) = X_0 + sum over pieces k of l_k X_k,       I(l) = X(l)' X(l) + R
//! ```
//!
//! where R is the same for all inputs: what variances tell, and what disturbances add to the information on average.
//! One run of the filter for every piece gives all of it, exactly; an exchange of a level then costs no run at all.

use daesy_pencil::Mat;

use super::search::pieces;
use super::{Asked, Expected, Goal, GoalPoint, Plan};
use daesy_study::failure::Failure;
use daesy_study::study::DesignInput;

/// Numbers that are kept at most.
const MOST_KEPT: usize = 30_000_000;

/// Slopes at all points of a goal, see the module.
pub(super) struct Affine {
    n_unknown: usize,
    points: Vec<Point>,
    /// The levels that the slopes are at.
    levels: Vec<f64>,
}

/// Slopes at one point.
struct Point {
    /// R
    fixed: Mat<f64>,
    /// X at the levels, `[value][unknown]`.
    slopes: Vec<f64>,
    by_piece: Vec<Share>,
}

/// What a piece adds to X by one unit of its level: nothing before it begins.
#[derive(Clone)]
struct Share {
    from: usize,
    slopes: Vec<f64>,
}

/// What is expected of a plan at one point of a goal.
struct Run {
    information: Mat<f64>,
    slopes: Vec<f64>,
}

/// What is expected of a plan at all points of a goal, where the model is linear.
fn runs(goal: &Goal<'_, '_>, plan: &Plan) -> Result<Option<Vec<Run>>, Failure> {
    let mut all = Vec::with_capacity(goal.points.len());
    for GoalPoint { theta, .. } in &goal.points {
        let Expected { information, slopes: Some(slopes), .. } =
            goal.designer.expected(plan, &goal.sensors, theta, Asked::default())?
        else {
            return Ok(None);
        };
        all.push(Run { information, slopes });
    }
    Ok(Some(all))
}

impl Affine {
    /// The pieces of one input of a plan, at its lower limit at first; `None` where there is no such function: the model
    /// is not linear, a limited rate makes the input another function of the levels, or there are too many numbers.
    pub(super) fn new(
        goal: &Goal<'_, '_>,
        plan: &Plan,
        at: usize,
        input: &DesignInput,
        n_pieces: usize,
    ) -> Result<Option<Self>, Failure> {
        let n_unknown = goal.designer.theta.len();
        let n_values = plan.times.len() * goal.sensors.len() * n_unknown * goal.points.len();
        if input.rate.is_some() || n_values.saturating_mul(n_pieces) > MOST_KEPT {
            return Ok(None);
        }
        let mut changed = plan.clone();
        let levels = vec![input.min; n_pieces];
        changed.inputs[at] = pieces(&plan.times, &levels, input);
        let Some(base) = runs(goal, &changed)? else { return Ok(None) };
        let mut points: Vec<Point> = base
            .into_iter()
            .zip(&goal.points)
            .map(|(Run { information, slopes }, at)| {
                let fixed = &information - products(&slopes, n_unknown) + &at.fixed;
                Point { fixed, slopes, by_piece: Vec::with_capacity(n_pieces) }
            })
            .collect();
        for piece in 0..n_pieces {
            let mut other = levels.clone();
            other[piece] = input.max;
            changed.inputs[at] = pieces(&plan.times, &other, input);
            let Some(found) = runs(goal, &changed)? else { return Ok(None) };
            for (point, Run { slopes, .. }) in points.iter_mut().zip(found) {
                let added =
                    slopes.iter().zip(&point.slopes).map(|(with, without)| (with - without) / (input.max - input.min));
                let added: Vec<f64> = added.collect();
                let from = added.iter().position(|slope| *slope != 0.0).unwrap_or(added.len());
                point.by_piece.push(Share { from, slopes: added[from..].to_vec() });
            }
        }
        Ok(Some(Self { n_unknown, points, levels }))
    }

    /// Multiplications that a level costs, about.
    pub(super) fn price(&self) -> usize {
        self.points.iter().map(|point| point.slopes.len() * (1 + self.n_unknown)).sum()
    }

    /// The value of a goal at some levels of all pieces.
    pub(super) fn value(&mut self, goal: &Goal<'_, '_>, levels: &[f64]) -> f64 {
        for (piece, (level, now)) in levels.iter().zip(&mut self.levels).enumerate() {
            let change = level - *now;
            if change != 0.0 {
                *now = *level;
                for point in &mut self.points {
                    let Share { from, slopes } = &point.by_piece[piece];
                    point.slopes[*from..].iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += change * slope);
                }
            }
        }
        let information = |point: &Point| products(&point.slopes, self.n_unknown) + &point.fixed;
        goal.mean(self.points.iter().map(information))
    }
}

/// X' X
fn products(slopes: &[f64], n_unknown: usize) -> Mat<f64> {
    let mut sum = Mat::zeros(n_unknown, n_unknown);
    for row in slopes.chunks_exact(n_unknown) {
        for i in 0..n_unknown {
            for j in 0..=i {
                sum[(i, j)] += row[i] * row[j];
            }
        }
    }
    Mat::from_fn(n_unknown, n_unknown, |i, j| if j <= i { sum[(i, j)] } else { sum[(j, i)] })
}
