//! Points of a derivative array: the nearest jet to a start that satisfies the equations and their derivatives.
//!
//! In Taylor coefficients the array is [F]_i = 0, i = 0 .. l, in the unknowns x_(j,k), and
//!
//! ```text
//! d[F]_i / dx_(j,k) = sum over orders o of [dF / dx_j^(o)]_(i - k + o)  k! / (k - o)!
//! ```
//!
//! The Gauss-Newton step of least change solves the linearized array by singular values. The array may be redundant,
//! and then is rank deficient on its solution set but not beside it: of the steps that singular values cut off at
//! several thresholds give, the one that leaves the smallest residual is taken.

use daesy_graph::ExprId;
use daesy_pencil::{Pencil, Vectors, balance, svd};
use faer::Mat;

use super::{ArrayError, ArrayModel, JetPoint, factorial};

/// So many times its size, or its nominal value, a variable is far from where a search for it began: Newton's method may
/// have run off, and what it found says nothing about the model.
pub const FAR: f64 = 1e6;

/// Scaled residuals below this are zero.
const SOLVED: f64 = 1e-9;

/// Derivatives may change by so many times more than values.
const EASE_OF_DERIVATIVES: f64 = 30.0;

/// Singular values below these fractions of the largest are cut off.
const THRESHOLDS: [f64; 4] = [1e-12, 1e-9, 1e-6, 1e-3];

const MAX_ITERATIONS: usize = 60;

/// What is asked of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct PointRequest<'a> {
    /// Number of differentiations.
    pub(super) level: usize,
    /// Values that must stay, by position of the variable.
    pub(super) held: &'a [bool],
    /// How much easier than others a value changes, by position of the variable.
    pub(super) ease: &'a [f64],
    /// Whether the initial equations hold too.
    pub(super) with_initial: bool,
    /// Whether to go on where the residuals shrink slowly.
    pub(super) is_patient: bool,
}

/// A point of an array.
pub(super) struct ArrayPoint {
    pub(super) point: JetPoint,
    /// Largest scaled residual.
    pub(super) residual: f64,
}

/// A linearized array.
struct Linearized {
    /// Rows scaled to unit length, columns in their units.
    matrix: Mat<f64>,
    residual: Vec<f64>,
    /// The flat equation of each row.
    sources: Vec<usize>,
}

struct Unknown {
    position: usize,
    k: usize,
    unit: f64,
}

impl ArrayModel {
    /// Whether a point was found that is near another one. Far away, terms may be so large that their rounding errors
    /// hide all others, and anything satisfies the equations.
    pub(super) fn is_near(&self, start: &JetPoint, found: &Result<ArrayPoint, ArrayError>) -> bool {
        found.as_ref().is_ok_and(|found| {
            self.variables.iter().zip(&self.nominal).all(|(&var, nominal)| {
                let (here, there) = (start.derivative(var, 0), found.point.derivative(var, 0));
                (there - here).abs() <= FAR * here.abs().max(*nominal)
            })
        })
    }

    /// The nearest point of the array with `level` differentiations.
    pub(super) fn consistent(
        &mut self,
        start: &JetPoint,
        request: &PointRequest<'_>,
    ) -> Result<ArrayPoint, ArrayError> {
        let mut point = start.clone();
        let unknowns = self.unknowns(&mut point, request);
        let mut current = self.linearize(&point, &unknowns, request)?;
        let mut size = norm(&current.residual);
        let mut n_slow = 0;
        for _ in 0..MAX_ITERATIONS {
            if largest(&current.residual) < 1e-14 {
                break;
            }
            let Some(next) = self.step(&point, &unknowns, request, &current, size)? else { break };
            let reached = norm(&next.current.residual);
            n_slow = if reached > 0.5 * size { n_slow + 1 } else { 0 };
            (point, current, size) = (next.point, next.current, reached);
            if n_slow > if request.is_patient { 25 } else { 3 } {
                break;
            }
        }
        let worst = largest(&current.residual);
        if worst > SOLVED {
            let at = (0..current.residual.len())
                .max_by(|&a, &b| current.residual[a].abs().total_cmp(&current.residual[b].abs()))
                .unwrap_or(0);
            let equation = current.sources.get(at).copied().unwrap_or(0);
            return Err(ArrayError::NoPoint { level: request.level, residual: worst, equation });
        }
        Ok(ArrayPoint { point, residual: worst })
    }

    fn unknowns(&mut self, point: &mut JetPoint, request: &PointRequest<'_>) -> Vec<Unknown> {
        let jet = self.linearization(point, 0);
        let pencil = Pencil::new(jet.e[0].clone(), jet.f[0].clone());
        let time_unit = pencil.map_or(1.0, |pencil| 2f64.powi(balance(&pencil).time.clamp(-60, 60)));
        let mut unknowns = Vec::new();
        for (position, &var) in self.variables.iter().enumerate() {
            let n = request.level + self.orders[position].max(1) + 1;
            let series = &mut point.coefficients[var.index()];
            if series.len() < n {
                series.resize(n, 0.0);
            }
            for k in usize::from(request.held[position])..n {
                let ease = if k == 0 { request.ease[position] } else { EASE_OF_DERIVATIVES };
                let rate = time_unit.powi(k as i32) / factorial(k);
                unknowns.push(Unknown { position, k, unit: self.nominal[position] * ease * rate });
            }
        }
        unknowns
    }

    fn linearize(
        &mut self,
        point: &JetPoint,
        unknowns: &[Unknown],
        request: &PointRequest<'_>,
    ) -> Result<Linearized, ArrayError> {
        let level = request.level;
        let n_rows = self.rows.len() * (level + 1) + if request.with_initial { self.initial.len() } else { 0 };
        let mut column = vec![vec![usize::MAX; 0]; self.variables.len()];
        for (at, unknown) in unknowns.iter().enumerate() {
            let list = &mut column[unknown.position];
            list.resize(list.len().max(unknown.k + 1), usize::MAX);
            list[unknown.k] = at;
        }
        let mut matrix = Mat::<f64>::zeros(n_rows, unknowns.len());
        let mut residual = vec![0.0; n_rows];
        let mut sources = vec![0; n_rows];
        let mut first = 0;
        let groups = [(false, level), (true, 0)];
        for (is_initial, level) in groups.into_iter().take(1 + usize::from(request.with_initial)) {
            let rows = if is_initial { self.initial.clone() } else { self.rows.clone() };
            let roots: Vec<ExprId> = rows
                .iter()
                .flat_map(|row| std::iter::once(row.residual).chain(row.entries.iter().map(|entry| entry.value)))
                .collect();
            let values = self.expand(&roots, level, point);
            let mut at = 0;
            for row in &rows {
                let series = &values[at * (level + 1)..][..=level];
                for (i, value) in series.iter().enumerate() {
                    residual[first + i] = *value;
                    sources[first + i] = row.source;
                    if !value.is_finite() {
                        return Err(ArrayError::NotFinite { equation: row.source });
                    }
                }
                at += 1;
                for entry in &row.entries {
                    let series = &values[at * (level + 1)..][..=level];
                    at += 1;
                    for i in 0..=level {
                        for k in entry.order..=entry.order + i {
                            let Some(&to) = column[entry.position].get(k).filter(|to| **to != usize::MAX) else {
                                continue;
                            };
                            let factor: f64 = (k - entry.order + 1..=k).map(|j| j as f64).product();
                            matrix[(first + i, to)] += series[i + entry.order - k] * factor * unknowns[to].unit;
                        }
                    }
                }
                first += level + 1;
            }
        }
        for row in 0..n_rows {
            let length = (0..unknowns.len()).map(|at| matrix[(row, at)].powi(2)).sum::<f64>().sqrt();
            if !length.is_finite() {
                return Err(ArrayError::NotFinite { equation: sources[row] });
            }
            if length > 0.0 {
                for at in 0..unknowns.len() {
                    matrix[(row, at)] /= length;
                }
                residual[row] /= length;
            }
        }
        Ok(Linearized { matrix, residual, sources })
    }

    fn step(
        &mut self,
        point: &JetPoint,
        unknowns: &[Unknown],
        request: &PointRequest<'_>,
        current: &Linearized,
        size: f64,
    ) -> Result<Option<Reached>, ArrayError> {
        let parts = svd(current.matrix.as_ref(), Vectors::Both)?;
        let reference = parts.s.first().copied().unwrap_or(0.0);
        let along: Vec<f64> = (0..parts.s.len())
            .map(|at| (0..current.residual.len()).map(|row| parts.u[(row, at)] * current.residual[row]).sum())
            .collect();
        let mut best: Option<Reached> = None;
        let mut last_rank = usize::MAX;
        for threshold in THRESHOLDS {
            let rank = parts.s.iter().filter(|&&value| value > threshold * reference).count();
            if rank == last_rank {
                continue;
            }
            last_rank = rank;
            let mut change = vec![0.0; unknowns.len()];
            for (at, (along, size)) in along.iter().zip(&parts.s).enumerate().take(rank) {
                let factor = -along / size;
                for (row, change) in change.iter_mut().enumerate() {
                    *change += factor * parts.v[(row, at)];
                }
            }
            let mut damping = 1.0;
            for _ in 0..8 {
                let mut trial = point.clone();
                for (unknown, change) in unknowns.iter().zip(&change) {
                    let var = self.variables[unknown.position];
                    trial.coefficients[var.index()][unknown.k] += damping * change * unknown.unit;
                }
                if let Ok(next) = self.linearize(&trial, unknowns, request) {
                    let reached = norm(&next.residual);
                    let bar = best.as_ref().map_or(size * (1.0 - 1e-4 * damping), |best| norm(&best.current.residual));
                    if reached < bar {
                        best = Some(Reached { point: trial, current: next });
                        break;
                    }
                    if reached < 1e-12 {
                        break;
                    }
                }
                damping *= 0.4;
            }
            if best.as_ref().is_some_and(|best| norm(&best.current.residual) < 0.1 * size) {
                break;
            }
        }
        Ok(best)
    }
}

struct Reached {
    point: JetPoint,
    current: Linearized,
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0f64, |size, value| size.max(value.abs()))
}
