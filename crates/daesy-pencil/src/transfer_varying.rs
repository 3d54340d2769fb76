//! State transfer for time-varying coefficients.
#![allow(non_snake_case)]
//!
//! Freezing `E(t)`, `F(t)` at the event gives wrong answers [@barton2002, sec. 4.3], so their derivatives enter. With
//! `e_k = H(t) t^k / k!` for `k >= 0` and `e_(-1-q) = delta^(q)`, every index obeys `e_k' = e_(k-1)` and
//! `t e_k = (k + 1) e_(k+1)`. The response `w = sum_k w_k e_k` to the discontinuity `sum_k f_k e_k` therefore satisfies
//!
//! ```text
//! sum_i C(k, i) ( E^(i) w_(k-i+1) - F^(i) w_(k-i) ) = f_k       for all k,
//! ```
//!
//! with generalized binomials. The levels `-Q-1 .. K` form a derivative array that reaches below zero; `w_k`, `k <= 0`,
//! are the impulses and the jump. They are unique as soon as `K` reaches the index minus one, which a rank decision
//! recognizes.

use crate::balance::{Balancing, balance, power_of_two};
use crate::combination::annihilator;
use crate::dense::{Vectors, block, check_finite, norm, set_block, svd};
use crate::error::PencilError;
use crate::jet::{CoefficientJet, LinearCoefficients, derivative};
use crate::pencil::Pencil;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide};
use crate::transfer::{Discontinuity, StateTransfer, TransferSubspaces};
use faer::Mat;

/// How the transfer of a time-varying system is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransferOptions {
    /// How ranks are decided.
    pub tolerance: RankTolerance,
    /// Largest index expected.
    pub max_index: usize,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self { tolerance: RankTolerance::default(), max_index: 8 }
    }
}

/// The transfer at one time of a time-varying system.
#[derive(Debug, Clone)]
pub struct VaryingTransfer {
    /// Jumps, impulses, continuous combinations.
    pub transfer: StateTransfer,
    /// Index found: number of derivative levels that were needed (at least 1).
    pub index: usize,
}

/// Jumps and impulses of all variables of `E(t) z' = F(t) z + G(t) u` at a discontinuity of `u` at `time`.
pub fn state_transfer_time_varying(
    coefficients: &dyn LinearCoefficients,
    time: f64,
    event: &Discontinuity,
    options: &TransferOptions,
) -> Result<VaryingTransfer, PencilError> {
    let solver = TransferArray::settle(coefficients, time, event.impulses.len(), options)?;
    let k = solver.jet.n_inputs();
    event.check(k)?;
    let mut levels = Vec::new();
    for (q, b) in event.impulses.iter().enumerate() {
        levels.push((-1 - q as isize, b.clone()));
    }
    for (order, d) in event.jumps.iter().enumerate() {
        levels.push((order as isize, d.clone()));
    }
    let forcing = solver.forcing_from_inputs(&levels);
    let response = solver.respond(&forcing)?;
    let jump = response.level(0);
    let mut impulses: Vec<Vec<f64>> = (0..solver.below).map(|q| response.level(-1 - q as isize)).collect();
    while impulses.last().is_some_and(|v| v.iter().all(|x| *x == 0.0)) {
        impulses.pop();
    }
    let mut columns = Vec::new();
    for c in 0..k {
        let Some(first) = event.first_order(c) else { continue };
        let unit: Vec<f64> = (0..k).map(|j| f64::from(u8::from(j == c))).collect();
        for order in first..=solver.above as isize {
            columns.push(solver.respond(&solver.forcing_from_inputs(&[(order, unit.clone())]))?.level(0));
        }
    }
    let directions = collect_columns(&columns, solver.n());
    let rest = annihilator(&directions, &solver.units(), &options.tolerance)?;
    let index = solver.above + 1;
    let mut rank_decisions = solver.decisions;
    rank_decisions.push(rest.decision);
    Ok(VaryingTransfer {
        transfer: StateTransfer { jump, impulses, continuous: rest.combinations, rank_decisions },
        index,
    })
}

/// Impulsive and nonimpulsive subspaces at one time, and the combinations that only impulses can move.
pub fn transfer_subspaces_time_varying(
    coefficients: &dyn LinearCoefficients,
    time: f64,
    options: &TransferOptions,
) -> Result<TransferSubspaces, PencilError> {
    let solver = TransferArray::settle(coefficients, time, 1, options)?;
    let m = solver.jet.n_equations();
    let response = |order: isize| -> Result<Vec<Vec<f64>>, PencilError> {
        (0..m)
            .map(|i| {
                let unit: Vec<f64> = (0..m).map(|j| f64::from(u8::from(j == i))).collect();
                Ok(solver.respond(&[(order, unit)])?.level(0))
            })
            .collect()
    };
    let mut smooth = Vec::new();
    for order in 0..=solver.above as isize {
        smooth.extend(response(order)?);
    }
    let nonimpulsive = collect_columns(&smooth, solver.n());
    let continuous = annihilator(&nonimpulsive, &solver.units(), &options.tolerance)?.combinations;
    let n = solver.n();
    let impulsive = range_basis(&collect_columns(&response(-1)?, n), &solver.units(), continuous.len())?;
    let nonimpulsive = range_basis(&nonimpulsive, &solver.units(), n - continuous.len())?;
    Ok(TransferSubspaces { impulsive, nonimpulsive, continuous })
}

fn collect_columns(columns: &[Vec<f64>], rows: usize) -> Mat<f64> {
    Mat::from_fn(rows, columns.len(), |i, j| columns[j][i])
}

/// The `rank` leading left singular vectors in comparable units.
fn range_basis(a: &Mat<f64>, units: &[f64], rank: usize) -> Result<Mat<f64>, PencilError> {
    let n = a.nrows();
    let scaled = Mat::from_fn(n, a.ncols(), |i, j| a[(i, j)] / units[i]);
    let dec = svd(scaled.as_ref(), Vectors::Left)?;
    Ok(Mat::from_fn(n, rank, |i, j| dec.u[(i, j)] * units[i]))
}

/// Generalized binomial coefficient `k (k-1) .. (k-i+1) / i!`, for negative `k` too.
fn binomial(k: isize, i: usize) -> f64 {
    (0..i).fold(1.0, |c, l| c * (k - l as isize) as f64 / (l + 1) as f64)
}

/// The array of all levels, in balanced units, with the levels above zero eliminated.
struct TransferArray {
    jet: CoefficientJet,
    balancing: Balancing,
    /// Number of levels below zero among the unknowns.
    below: usize,
    /// Highest equation level.
    above: usize,
    /// Left null space of the columns of levels above zero, `rows x left`.
    eliminate: Mat<f64>,
    /// Solver of the eliminated system for the levels up to zero.
    u: Mat<f64>,
    s: Vec<f64>,
    v: Mat<f64>,
    decisions: Vec<RankDecision>,
}

/// Response at the levels up to zero.
struct Response {
    n: usize,
    below: usize,
    /// Stacked from the lowest level up, in the caller's units.
    values: Vec<f64>,
}

impl Response {
    fn level(&self, k: isize) -> Vec<f64> {
        let position = (k + self.below as isize) as usize;
        self.values[position * self.n..(position + 1) * self.n].to_vec()
    }
}

impl TransferArray {
    /// Raises the number of levels until the jump and the impulses are unique.
    fn settle(
        coefficients: &dyn LinearCoefficients,
        time: f64,
        n_impulses: usize,
        options: &TransferOptions,
    ) -> Result<Self, PencilError> {
        let first = coefficients.jet(time, 0)?;
        first.check()?;
        let pencil = Pencil::new(first.e[0].clone(), first.f[0].clone())?;
        let balancing = balance(&pencil);
        let mut decisions = Vec::new();
        let mut undetermined = Vec::new();
        for above in 0..options.max_index.max(1) {
            let below = above + n_impulses;
            let jet = coefficients.jet(time, above + below + 2)?;
            jet.check()?;
            match Self::build(jet, &balancing, below, above, &options.tolerance, &mut decisions)? {
                Ok(mut array) => {
                    array.decisions = decisions;
                    return Ok(array);
                }
                Err(variables) => undetermined = variables,
            }
        }
        Err(PencilError::TransferNotUnique { variables: undetermined.iter().map(|j| j + 1).collect() })
    }

    /// Builds the array; an inner error lists the variables that are not determined yet.
    fn build(
        jet: CoefficientJet,
        balancing: &Balancing,
        below: usize,
        above: usize,
        tolerance: &RankTolerance,
        decisions: &mut Vec<RankDecision>,
    ) -> Result<Result<Self, Vec<usize>>, PencilError> {
        let (m, n) = (jet.n_equations(), jet.n_variables());
        let levels = below + above + 2;
        let scaled = |list: &[Mat<f64>], k: usize, is_e: bool| {
            let factor = power_of_two(balancing.time * (i32::from(is_e) - k as i32));
            let a = balancing.apply(&derivative(list, k, m, n));
            Mat::from_fn(m, n, |i, j| a[(i, j)] * factor)
        };
        let es: Vec<Mat<f64>> = (0..=levels).map(|k| scaled(&jet.e, k, true)).collect();
        let fs: Vec<Mat<f64>> = (0..=levels).map(|k| scaled(&jet.f, k, false)).collect();
        let mut array = Mat::<f64>::zeros(levels * m, levels * n);
        for row in 0..levels {
            let k = row as isize - below as isize - 1;
            for col in 0..levels {
                let j = col as isize - below as isize;
                let mut entry = Mat::zeros(m, n);
                if k + 1 >= j {
                    let i = (k + 1 - j) as usize;
                    let c = binomial(k, i);
                    entry += &es[i] * faer::Scale(c);
                }
                if k >= j {
                    let i = (k - j) as usize;
                    let c = binomial(k, i);
                    entry -= &fs[i] * faer::Scale(c);
                }
                set_block(&mut array, row * m, col * n, &entry);
            }
        }
        check_finite("E", &array)?;
        let wanted = (below + 1) * n;
        let low = block(&array, 0, levels * m, 0, wanted);
        let high = block(&array, 0, levels * m, wanted, levels * n);
        let reference = norm(es[0].as_ref()).max(norm(fs[0].as_ref()));
        let question = RankQuestion::Transfer { level: above };
        let dec = svd(high.as_ref(), Vectors::Left)?;
        let decision = decide(&dec.s, high.nrows(), high.ncols(), reference, tolerance, question);
        decisions.push(decision);
        let eliminate = block(&dec.u, 0, levels * m, decision.rank, levels * m);
        let reduced = eliminate.transpose() * &low;
        let dec = svd(reduced.as_ref(), Vectors::Both)?;
        let decision = decide(&dec.s, reduced.nrows(), wanted, reference, tolerance, question);
        decisions.push(decision);
        if decision.rank < wanted {
            let open = (0..n)
                .filter(|&j| (decision.rank..wanted).any(|c| (0..=below).any(|l| dec.v[(l * n + j, c)].abs() > 1e-8)))
                .collect();
            return Ok(Err(open));
        }
        Ok(Ok(Self {
            jet,
            balancing: balancing.clone(),
            below,
            above,
            eliminate,
            u: dec.u,
            s: dec.s,
            v: dec.v,
            decisions: Vec::new(),
        }))
    }

    fn n(&self) -> usize {
        self.jet.n_variables()
    }

    fn units(&self) -> Vec<f64> {
        self.balancing.cols.iter().map(|&k| power_of_two(k)).collect()
    }

    /// Forcing levels `f_k = sum_i C(k, i) G^(i) u_(k-i)` from levels of the input.
    fn forcing_from_inputs(&self, inputs: &[(isize, Vec<f64>)]) -> Vec<(isize, Vec<f64>)> {
        let (m, c) = (self.jet.n_equations(), self.jet.n_inputs());
        let mut out = Vec::new();
        for level in -(self.below as isize) - 1..=self.above as isize {
            let mut sum = vec![0.0; m];
            for (order, u) in inputs {
                if level >= *order {
                    let i = (level - order) as usize;
                    let weight = binomial(level, i);
                    let g = derivative(&self.jet.input, i, m, c);
                    for (s, x) in sum.iter_mut().zip(crate::dense::times(&g, u)) {
                        *s += weight * x;
                    }
                }
            }
            out.push((level, sum));
        }
        out
    }

    /// Solves for the levels up to zero.
    fn respond(&self, forcing: &[(isize, Vec<f64>)]) -> Result<Response, PencilError> {
        let (m, n) = (self.jet.n_equations(), self.n());
        let levels = self.below + self.above + 2;
        let mut rhs = Mat::<f64>::zeros(levels * m, 1);
        for (level, f) in forcing {
            let row = level + self.below as isize + 1;
            if row < 0 || row >= levels as isize {
                continue;
            }
            let factor = power_of_two(-self.balancing.time * *level as i32);
            for i in 0..m {
                rhs[(row as usize * m + i, 0)] += f[i] * factor * power_of_two(self.balancing.rows[i]);
            }
        }
        let size = norm(rhs.as_ref());
        let b = self.eliminate.transpose() * &rhs;
        let projected = self.u.transpose() * &b;
        let wanted = self.s.len();
        let residual = (wanted..projected.nrows()).map(|i| projected[(i, 0)].powi(2)).sum::<f64>().sqrt();
        let condition = self.s.first().copied().unwrap_or(1.0) / self.s.last().copied().unwrap_or(1.0);
        let rounding = 64.0 * f64::EPSILON * condition;
        if residual > rounding.clamp(1e-9, 1e-4) * size {
            return Err(PencilError::TransferImpossible { residual: residual / size });
        }
        let scaled = Mat::from_fn(wanted, 1, |i, _| projected[(i, 0)] / self.s[i]);
        let x = &self.v * &scaled;
        // Rounding errors reach entry p as |V_p,c| (|f| + s_0 |x|) / s_c; entries below that are zero, if they are also
        // small next to the largest.
        let largest = x.norm_max();
        let source = 16.0 * f64::EPSILON * (size + self.s.first().copied().unwrap_or(0.0) * largest);
        let reach = |p: usize| (0..wanted).map(|c| self.v[(p, c)].abs() * source / self.s[c]).sum::<f64>();
        // A response that is all rounding errors is none.
        let is_nothing = (0..wanted).all(|p| x[(p, 0)].abs() <= reach(p));
        let noise = |p: usize| if is_nothing { f64::INFINITY } else { reach(p).min(1e-9 * largest) };
        let values = (0..wanted)
            .map(|p| {
                let (level, j) = ((p / n) as i32 - self.below as i32, p % n);
                let value = x[(p, 0)];
                if value.abs() <= noise(p) {
                    0.0
                } else {
                    value * power_of_two(self.balancing.cols[j]) * power_of_two(self.balancing.time * level)
                }
            })
            .collect();
        Ok(Response { n, below: self.below, values })
    }
}
