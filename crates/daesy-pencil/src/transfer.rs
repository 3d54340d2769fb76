//! State transfer at discontinuities of the forcing: jumps, impulses, and what stays continuous.
//!
//! A discontinuity is the singular part of `u` at one instant,
//!
//! ```text
//! u = smooth + H(t) ( d_0 + d_1 t + d_2 t^2 / 2 + .. ) + b_0 delta + b_1 delta' + ..
//! ```
//!
//! In the canonical form `x_s' = A x_s + g_s` integrates and `x_a = -sum_k N^k g_a^(k)` differentiates, so that
//!
//! ```text
//! jump of x_s     = sum_k A^k b_k                  impulse of order q in x_s = sum_(k>q) A^(k-q-1) b_k
//! jump of x_a     = -sum_k N^k d_k                 impulse of order q in x_a = -sum_k N^k (d_(k-1-q) + b_(q-k))
//! ```
//!
//! and the state transfer is unique for any index.   [@barton2002, sec. 2, eq. (2.5)-(2.9)]

use crate::balance::power_of_two;
use crate::combination::{LinearCombination, annihilator, combinations_of};
use crate::dense::{check_shape, check_vector, times};
use crate::error::PencilError;
use crate::rank::{RankDecision, RankTolerance};
use crate::split::FiniteInfiniteSplit;
use crate::standard_form::{Chain, absolute, graded_absolute};
use faer::Mat;

/// What happens to the inputs at one instant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Discontinuity {
    /// `jumps[k][c]`: jump of derivative `k` of input `c` (0 is a step, 1 a kink, ..).
    pub jumps: Vec<Vec<f64>>,
    /// `impulses[k][c]`: coefficient of derivative `k` of the delta function in input `c`.
    pub impulses: Vec<Vec<f64>>,
}

impl Discontinuity {
    /// A step of the given sizes.
    pub fn step(sizes: &[f64]) -> Self {
        Self { jumps: vec![sizes.to_vec()], impulses: Vec::new() }
    }

    /// A jump of derivative `order`.
    pub fn kink(order: usize, sizes: &[f64]) -> Self {
        let mut jumps = vec![vec![0.0; sizes.len()]; order];
        jumps.push(sizes.to_vec());
        Self { jumps, impulses: Vec::new() }
    }

    /// Delta functions of the given areas.
    pub fn impulse(areas: &[f64]) -> Self {
        Self { jumps: Vec::new(), impulses: vec![areas.to_vec()] }
    }

    pub(crate) fn check(&self, n_inputs: usize) -> Result<(), PencilError> {
        for v in self.jumps.iter() {
            check_vector("jumps", v, n_inputs, "one value per input")?;
        }
        for v in self.impulses.iter() {
            check_vector("impulses", v, n_inputs, "one value per input")?;
        }
        Ok(())
    }

    /// First order at which input `c` is not smooth, counted so that an impulse `delta^(k)` is `-1 - k`; `None` if it
    /// is smooth.
    pub(crate) fn first_order(&self, c: usize) -> Option<isize> {
        if let Some(k) = self.impulses.iter().rposition(|v| v[c] != 0.0) {
            return Some(-1 - k as isize);
        }
        self.jumps.iter().position(|v| v[c] != 0.0).map(|k| k as isize)
    }
}

/// How the variables respond to a discontinuity.
#[derive(Debug, Clone, PartialEq)]
pub struct StateTransfer {
    /// Jump of every variable.
    pub jump: Vec<f64>,
    /// `impulses[q][i]`: coefficient of derivative `q` of the delta function in variable `i`; no trailing zero orders.
    pub impulses: Vec<Vec<f64>>,
    /// Combinations that stay continuous whatever the sizes of these discontinuities and of all later ones in the same
    /// inputs, in reduced form.
    pub continuous: Vec<LinearCombination>,
    /// Rank decisions with their gaps.
    pub rank_decisions: Vec<RankDecision>,
}

impl StateTransfer {
    /// The values right after, from those right before.
    pub fn apply(&self, before: &[f64]) -> Vec<f64> {
        before.iter().zip(&self.jump).map(|(a, b)| a + b).collect()
    }
}

/// The subspaces of [@barton2002, eq. (2.9)].
#[derive(Debug, Clone)]
pub struct TransferSubspaces {
    /// Basis of the moves that only impulses can make, `n x d`.
    pub impulsive: Mat<f64>,
    /// Basis of the moves that steps and higher discontinuities make, `n x (n - d)`.
    pub nonimpulsive: Mat<f64>,
    /// Combinations that stay continuous under any forcing without impulses, in reduced form; `d` of them.
    pub continuous: Vec<LinearCombination>,
}

impl FiniteInfiniteSplit {
    fn units(&self) -> Vec<f64> {
        self.balancing.cols.iter().map(|&k| power_of_two(k)).collect()
    }

    /// Impulsive and nonimpulsive subspaces, and the combinations that only impulses can move.
    pub fn transfer_subspaces(&self) -> TransferSubspaces {
        TransferSubspaces {
            impulsive: self.finite_basis(),
            nonimpulsive: self.infinite_basis(),
            continuous: combinations_of(&self.finite_coordinates(), &self.units()),
        }
    }

    /// Jumps and impulses of all variables of `E z' = F z + G u` at a discontinuity of `u`.
    pub fn state_transfer(&self, input: &Mat<f64>, event: &Discontinuity) -> Result<StateTransfer, PencilError> {
        let n = self.right.nrows();
        check_shape("G", input, n, input.ncols(), "G has one row per equation")?;
        event.check(input.ncols())?;
        let responses = Responses::new(self, input, event.impulses.len());
        let (jumps, areas) = (&event.jumps, &event.impulses);
        let mut jump = Sum::new(n);
        for (term, d) in responses.algebraic.iter().zip(jumps) {
            jump.add(term, d);
        }
        for (k, b) in areas.iter().enumerate() {
            jump.add(&responses.dynamic[k], b);
        }
        let orders = self.index + areas.len();
        let mut impulses = Vec::new();
        for q in 0..orders {
            let mut coefficient = Sum::new(n);
            for (k, term) in responses.algebraic.iter().enumerate() {
                if let Some(d) = k.checked_sub(1 + q).and_then(|i| jumps.get(i)) {
                    coefficient.add(term, d);
                }
                if let Some(b) = q.checked_sub(k).and_then(|i| areas.get(i)) {
                    coefficient.add(term, b);
                }
            }
            for (k, b) in areas.iter().enumerate().skip(q + 1) {
                coefficient.add(&responses.dynamic[k - q - 1], b);
            }
            impulses.push(coefficient.tidy());
        }
        while impulses.last().is_some_and(|v| v.iter().all(|x| *x == 0.0)) {
            impulses.pop();
        }
        let directions = responses.reachable(event, n, input.ncols());
        let rest = annihilator(&directions, &self.units(), &RankTolerance::default())?;
        let mut rank_decisions = self.rank_decisions.clone();
        rank_decisions.push(rest.decision);
        Ok(StateTransfer { jump: jump.tidy(), impulses, continuous: rest.combinations, rank_decisions })
    }
}

/// Response of `z` to unit discontinuities: `algebraic[k] = -Q_a N^k G_a`, `dynamic[k] = Q_s A^k G_s`.
struct Responses {
    algebraic: Vec<Mat<f64>>,
    dynamic: Vec<Mat<f64>>,
}

impl Responses {
    fn new(split: &FiniteInfiniteSplit, input: &Mat<f64>, n_impulses: usize) -> Self {
        let n = split.right.nrows();
        let algebraic = Chain::new(split, input).seen_by(&Mat::identity(n, n));
        let mut dynamic = Vec::new();
        let basis = split.finite_basis();
        let rows = crate::dense::block(&split.left, 0, split.n_finite, 0, n);
        let mut g = &rows * input;
        let mut size = split.left_bound(&rows) * absolute(input);
        for _ in 0..n_impulses {
            let value = &basis * &g;
            let bound = split.right_bound(&basis) * &size;
            dynamic.push(Mat::from_fn(n, input.ncols(), |i, j| {
                if value[(i, j)].abs() <= split.negligible * bound[(i, j)] { 0.0 } else { value[(i, j)] }
            }));
            g = &split.dynamics * &g;
            size = graded_absolute(&split.dynamics) * &size;
        }
        Self { algebraic, dynamic }
    }

    /// All directions in which `z` can jump when each input misbehaves from its first order on.
    fn reachable(&self, event: &Discontinuity, n: usize, n_inputs: usize) -> Mat<f64> {
        let mut columns: Vec<Vec<f64>> = Vec::new();
        let mut take = |m: &Mat<f64>, c: usize| {
            let v: Vec<f64> = (0..m.nrows()).map(|i| m[(i, c)]).collect();
            if v.iter().any(|x| *x != 0.0) {
                columns.push(v);
            }
        };
        for c in 0..n_inputs {
            let Some(first) = event.first_order(c) else { continue };
            for m in self.algebraic.iter().skip(first.max(0) as usize) {
                take(m, c);
            }
            for m in self.dynamic.iter().take((-first).max(0) as usize) {
                take(m, c);
            }
        }
        Mat::from_fn(n, columns.len(), |i, j| columns[j][i])
    }
}

/// A sum of products that remembers the size of its terms.
pub(crate) struct Sum {
    value: Vec<f64>,
    size: Vec<f64>,
}

impl Sum {
    pub(crate) fn new(n: usize) -> Self {
        Self { value: vec![0.0; n], size: vec![0.0; n] }
    }

    pub(crate) fn add(&mut self, a: &Mat<f64>, x: &[f64]) {
        for (v, t) in self.value.iter_mut().zip(times(a, x)) {
            *v += t;
        }
        for (s, t) in self.size.iter_mut().zip(times(&absolute(a), &x.iter().map(|v| v.abs()).collect::<Vec<_>>())) {
            *s += t;
        }
    }

    /// The value, with entries that are only rounding errors set to zero.
    pub(crate) fn tidy(self) -> Vec<f64> {
        self.value.iter().zip(&self.size).map(|(v, s)| if v.abs() <= 1e-12 * s { 0.0 } else { *v }).collect()
    }
}
