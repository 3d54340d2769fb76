//! Long stretches of complete samples at a constant step, without a covariance for every sample.
//!
//! With the covariance `P` to which the prediction's covariance converges, all gains are constant and the filter is a
//! linear map from one sample to the next. Several samples are put together to one map (lifting): with the state `x`
//! before a block of samples and `w = (y, u)` of all of them
//!
//! ```text
//! (e_1 .. e_p, x^+) = M (x, w_1 .. w_p)           innovations e divided by their standard deviations
//! ```
//!
//! which costs `n^2 / p` operations a sample for the state and is a long product instead of many short ones that wait
//! for each other.
//!
//! The covariance `P_0` at the beginning of the stretch differs from `P`. That changes the joint covariance of the
//! scaled innovations from `I` to `I + T D T^T`, where `D = P_0 - P` and `T` is what a change of the first state makes
//! of them. Hence, exactly [@woodbury1950; @dejong1991],
//!
//! ```text
//! log L = log L_P - 1/2 log det(I + W) + 1/2 (t^T t - t^T (I + W)^-1 t),       W = C^T D C,   C C^T = T^T T,   C t = T^T e
//! ```
//!
//! `T^T T` is the sum over all samples of the stretch; powers of the filter's own dynamics make it converge, and it is
//! found by doubling, as is `P` itself: after `k` steps of the structure-preserving doubling algorithm [@chu2004]
//!
//! ```text
//! A <- A V A     G <- G + A V G A^T     H <- H + A^T H V A     V = (I + G H)^-1     A_0 = Phi^T   G_0 = h^T R^-1 h   H_0 = Q
//! ```
//!
//! `H` is the covariance of the prediction `2^k` samples after an exactly known state. What it gives is tried on the
//! square-root filter itself and refused when its gains do not stay constant; `I + W` is refused when it is too close
//! to singular. The filter then goes on sample by sample, which it does as well when measurements without noise are
//! there.

mod backwards;
mod slope;

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{PartialPivLu, Solve};
use faer::{Accum, Mat, MatMut, MatRef, Par, Scale};

use crate::filter::{FilterModel, RunData, StepModel};
use crate::kernel::{
    BLOCKED, add_product, add_scaled, add_square_product, dot, flat, matrix, semidefinite_factor, solve_in_place,
    square, triangularize,
};
use backwards::SamplePath;
pub(crate) use backwards::{LimitSlope, StretchRecord, StretchSlopes};
use slope::{BlockMap, Powers};
pub(crate) use slope::{StretchSlope, Tangent};

/// Relative size of what is left of a state once it counts as forgotten.
const FORGOTTEN: f64 = 1e-13;

/// More doublings than this and the gains do not converge in any record.
const MOST_DOUBLINGS: usize = 24;

/// How far from singular `I + W` must be, relative to its largest entry: the digits that may be lost.
const WORST_CONDITION: f64 = 1e5;

/// Constant gains; nothing is missing.
#[derive(Clone, Debug)]
pub(crate) struct SteadyGains {
    /// `[measurement]`: innovation variance.
    pub s: Vec<f64>,
    /// `[measurement][state]`.
    pub k: Vec<f64>,
}

/// Where the filter of one step converges to.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    pub gains: SteadyGains,
    /// Factor of the prediction's covariance.
    pub factor: Vec<f64>,
    pub block: Block,
    /// After so many samples a state is forgotten.
    pub memory: usize,
    /// Factor `C` of `T^T T` over that many samples, `n` rows.
    sensitivity: Vec<f64>,
}

/// The map of a block of samples. Rows are the scaled innovations, then the state after the block; columns the state
/// before the block, then the measurements of all samples, then their inputs.
///
/// Only the state waits for the block before it. What measurements and inputs do to the states of many blocks is one
/// product of matrices with a column for every block, and so are the innovations once the states are there.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    n: usize,
    n_measured: usize,
    /// Inputs and their powers of a sample.
    width: usize,
    n_samples: usize,
    powers: Powers,
    map: BlockMap,
    /// From state to state, and transposed, by strips of rows.
    forwards: Vec<[f64; STRIP]>,
    backwards: Vec<[f64; STRIP]>,
}

/// Rows of a strip: enough for the registers that sums are kept in.
const STRIP: usize = 16;

/// Blocks that are worked on as one product.
const CHUNK: usize = 128;

/// What was given to some blocks, a column for each of them.
#[derive(Clone, Copy)]
struct Given<'a> {
    values: MatRef<'a, f64>,
    inputs: MatRef<'a, f64>,
}

/// What a run over blocks found.
pub(crate) struct BlockSums {
    /// Samples that were filtered.
    pub n_samples: usize,
    /// Sum of squares of the scaled innovations.
    pub squares: f64,
}

impl Steady {
    /// Finds the gains for a step; `None` if they do not converge or cannot be had safely.
    #[inline(always)]
    pub fn find(model: &FilterModel, step_at: usize, tolerance: f64) -> Option<Self> {
        let n = model.n;
        if n == 0 || model.measurements.iter().any(|row| row.variance.is_nan() || row.variance <= 0.0) {
            return None;
        }
        let covariance = limit(model, step_at)?;
        let mut factor = semidefinite_factor(&covariance);
        factor.resize(n * n, 0.0);
        let sizes: Vec<f64> = (0..n).map(|i| covariance[(i, i)].max(0.0).sqrt()).collect();
        let mut gains = constant_gains(model, &mut factor);
        predict_factor(model, step_at, &mut factor, &mut Vec::new());
        let block = Block::new(model, step_at, &gains.s, &gains.k);
        let (sensitivity, memory) = block.sensitivity(&sizes)?;
        // What a square-root step changes is what the doubling got wrong; it adds up for as long as the filter
        // remembers.
        let before = gains;
        let settled = factor.clone();
        gains = constant_gains(model, &mut factor);
        let mut change = 0.0f64;
        for (at, (s, s_before)) in gains.s.iter().zip(&before.s).enumerate() {
            change = change.max((s - s_before).abs() / s);
            for i in (0..n).filter(|&i| sizes[i] > 0.0) {
                change = change.max((gains.k[at * n + i] - before.k[at * n + i]).abs() * s.sqrt() / sizes[i]);
            }
        }
        let left = change * (memory as f64 / 16.0).max(1.0);
        (left <= tolerance || change <= 4e-15).then_some(Self {
            gains: before,
            factor: settled,
            block,
            memory,
            sensitivity,
        })
    }

    /// What changes when the covariance at the beginning is `S S^T` instead of the one it converges to; `None` if that
    /// cannot be had safely.
    #[inline(always)]
    pub fn correction(&self, s: &[f64]) -> Option<Correction<'_>> {
        let n = self.block.n;
        let rank = self.sensitivity.len() / n;
        let mut difference = vec![0.0; n * n];
        let mut limit = vec![0.0; n * n];
        square(&mut difference, s, n);
        square(&mut limit, &self.factor, n);
        add_scaled(&mut difference, -1.0, &limit);
        let mut product = vec![0.0; n];
        let mut matrix = vec![0.0; rank * rank];
        let mut largest = 1.0f64;
        for (j, column) in self.sensitivity.chunks_exact(n).enumerate() {
            product.fill(0.0);
            add_product(&mut product, &difference, column);
            for i in j..rank {
                matrix[j * rank + i] = dot(&self.sensitivity[i * n..(i + 1) * n], &product);
            }
            largest = largest.max(matrix[j * rank + j].abs());
            matrix[j * rank + j] += 1.0;
        }
        for j in 0..rank {
            let pivot = matrix[j * rank + j];
            if pivot.is_nan() || pivot <= largest / WORST_CONDITION {
                return None;
            }
            let root = pivot.sqrt();
            let (left, right) = matrix.split_at_mut((j + 1) * rank);
            let column = &mut left[j * rank + j..];
            column.iter_mut().for_each(|x| *x /= root);
            for (at, target) in right.chunks_exact_mut(rank).enumerate() {
                add_scaled(&mut target[j + 1 + at..], -column[1 + at], &column[1 + at..]);
            }
        }
        Some(Correction { steady: self, cholesky: matrix })
    }
}

/// The Cholesky factor of `I + W` for one beginning.
pub(crate) struct Correction<'s> {
    steady: &'s Steady,
    cholesky: Vec<f64>,
}

impl Correction<'_> {
    /// `-log det(I + W) + t^T t - t^T (I + W)^-1 t` for scaled innovations of whole blocks.
    #[inline(always)]
    pub fn twice_gain(&self, innovations: &[f64]) -> f64 {
        let block = &self.steady.block;
        let n = block.n;
        let mut g = vec![0.0; n];
        block.pull(innovations, &mut g, &mut vec![0.0; innovations.len() / block.height() * n]);
        let sensitivity = &self.steady.sensitivity;
        let rank = sensitivity.len() / n;
        let t = least_squares(sensitivity, n, &g);
        let mut y = t.clone();
        let mut log_det = 0.0;
        for j in 0..rank {
            let column = &self.cholesky[j * rank..(j + 1) * rank];
            log_det += 2.0 * column[j].ln();
            let value = y[j] / column[j];
            y[j] = value;
            add_scaled(&mut y[j + 1..], -value, &column[j + 1..]);
        }
        dot(&t, &t) - dot(&y, &y) - log_det
    }
}

/// The covariance of predictions in the limit, by doubling.
#[inline(always)]
fn limit(model: &FilterModel, step_at: usize) -> Option<Mat<f64>> {
    let n = model.n;
    if n >= SMALL { limit_blocked(model, step_at) } else { limit_small(model, step_at) }
}

/// Rows up to which plain loops are faster than blocked products and factorizations.
const SMALL: usize = 12;

/// The same by plain loops, in a few places of memory.
#[inline(always)]
fn limit_small(model: &FilterModel, step_at: usize) -> Option<Mat<f64>> {
    let n = model.n;
    let size = n * n;
    let step = &model.steps[step_at];
    let mut memory = vec![0.0; 8 * size];
    let mut parts = memory.chunks_exact_mut(size);
    let [a, g, p, a_t, system, spread, gain, work] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    // V A beside V G.
    let mut solved = vec![0.0; 2 * size];
    for (i, row) in step.phi.chunks_exact(n).enumerate() {
        (0..n).for_each(|j| a[j * n + i] = row[j]);
    }
    for row in &model.measurements {
        for (column, &h) in g.chunks_exact_mut(n).zip(&row.h) {
            add_scaled(column, h / row.variance, &row.h);
        }
    }
    for noise in step.noise.chunks_exact(n) {
        for (column, &x) in p.chunks_exact_mut(n).zip(noise) {
            add_scaled(column, x, noise);
        }
    }
    for _ in 0..MOST_DOUBLINGS {
        system.fill(0.0);
        add_square_product(system, g, p, n);
        (0..n).for_each(|i| system[i * n + i] += 1.0);
        solved[..size].copy_from_slice(a);
        solved[size..].copy_from_slice(g);
        solve_in_place(system, &mut solved, n);
        let (va, vg) = solved.split_at(size);
        for j in 0..n {
            (0..n).for_each(|i| a_t[i * n + j] = a[j * n + i]);
        }
        // H gains A^T H V A, G gains A V G A^T.
        spread.fill(0.0);
        add_square_product(spread, p, va, n);
        gain.fill(0.0);
        add_square_product(gain, a_t, spread, n);
        spread.fill(0.0);
        add_square_product(spread, a, vg, n);
        work.fill(0.0);
        add_square_product(work, spread, a_t, n);
        add_symmetric_part(g, work, n);
        add_symmetric_part(p, gain, n);
        spread.fill(0.0);
        add_square_product(spread, a, va, n);
        a.copy_from_slice(spread);
        if (0..n).all(|i| gain[i * n + i].abs() <= 1e-16 * p[i * n + i].abs()) {
            return p.iter().all(|x| x.is_finite()).then(|| matrix(p, n).to_owned());
        }
    }
    None
}

/// `a += (b + b^T) / 2` for symmetric `a`.
#[inline(always)]
fn add_symmetric_part(a: &mut [f64], b: &[f64], n: usize) {
    for j in 0..n {
        for i in 0..n {
            a[j * n + i] += 0.5 * (b[j * n + i] + b[i * n + j]);
        }
    }
}

/// The same with blocked products and factorizations.
fn limit_blocked(model: &FilterModel, step_at: usize) -> Option<Mat<f64>> {
    let n = model.n;
    let step = &model.steps[step_at];
    let mut a = Mat::from_fn(n, n, |i, j| step.phi[i * n + j]);
    let mut g = Mat::zeros(n, n);
    for row in &model.measurements {
        let h = Mat::from_fn(n, 1, |i, _| row.h[i]);
        g += &h * h.transpose() * Scale(1.0 / row.variance);
    }
    let noise = Mat::from_fn(n, step.noise.len() / n, |i, j| step.noise[j * n + i]);
    let mut p = &noise * noise.transpose();
    // V A beside V G.
    let mut solved = Mat::<f64>::zeros(n, 2 * n);
    for _ in 0..MOST_DOUBLINGS {
        let mut system = &g * &p;
        for i in 0..n {
            system[(i, i)] += 1.0;
        }
        solved.as_mut().subcols_mut(0, n).copy_from(&a);
        solved.as_mut().subcols_mut(n, n).copy_from(&g);
        PartialPivLu::new(system.as_ref()).solve_in_place(&mut solved);
        let gain = a.transpose() * (&p * solved.as_ref().subcols(0, n));
        let moved = &a * &solved;
        let sharper = moved.as_ref().subcols(n, n) * a.transpose();
        a.copy_from(moved.as_ref().subcols(0, n));
        g += &sharper;
        p += &gain;
        // Symmetric but for rounding, which must not grow.
        g = (&g + g.transpose()) * Scale(0.5);
        p = (&p + p.transpose()) * Scale(0.5);
        let is_over = (0..n).all(|i| gain[(i, i)].abs() <= 1e-16 * p[(i, i)].abs());
        if is_over {
            return flat(&p).iter().all(|x| x.is_finite()).then_some(p);
        }
    }
    None
}

/// Takes the measurements of a sample into a factor of the covariance, by Potter's method, and gives the gains.
#[inline(always)]
fn constant_gains(model: &FilterModel, factor: &mut [f64]) -> SteadyGains {
    let n = model.n;
    let mut gains = SteadyGains { s: Vec::new(), k: Vec::new() };
    for row in &model.measurements {
        let f: Vec<f64> = factor.chunks_exact(n).map(|column| dot(column, &row.h)).collect();
        let s = dot(&f, &f) + row.variance;
        let mut gain = vec![0.0; n];
        add_product(&mut gain, factor, &f);
        gain.iter_mut().for_each(|k| *k /= s);
        shrink(factor, &f, &gain, row.variance, s);
        gains.s.push(s);
        gains.k.extend(gain);
    }
    gains
}

/// Potter's step: the factor after a measurement of variance `r`, where `f = S^T h` and `s = f^T f + r`.
#[inline(always)]
pub(crate) fn shrink(factor: &mut [f64], f: &[f64], gain: &[f64], r: f64, s: f64) {
    let scale = 1.0 / (1.0 + (r / s).sqrt());
    for (column, f) in factor.chunks_exact_mut(gain.len().max(1)).zip(f) {
        add_scaled(column, -scale * f, gain);
    }
}

/// Takes a factor of the covariance over a step: the triangular factor of `[Phi S, L_d]`.
#[inline(always)]
pub(crate) fn predict_factor(model: &FilterModel, step_at: usize, factor: &mut [f64], work: &mut Vec<f64>) {
    let n = model.n;
    let step = &model.steps[step_at];
    let n_noise = step.noise.len().checked_div(n).unwrap_or(0);
    let rows = n + n_noise;
    if n >= BLOCKED {
        predict_blocked(step, factor, n);
        return;
    }
    work.clear();
    work.resize(rows * n + n, 0.0);
    let (work, column) = work.split_at_mut(rows * n);
    for k in 0..n {
        column.fill(0.0);
        add_product(column, &step.phi, &factor[k * n..(k + 1) * n]);
        for i in 0..n {
            work[i * rows + k] = column[i];
        }
    }
    for k in 0..n_noise {
        for i in 0..n {
            work[i * rows + n + k] = step.noise[k * n + i];
        }
    }
    triangularize(work, rows, n);
    for k in 0..n {
        for i in 0..n {
            factor[k * n + i] = if i >= k { work[i * rows + k] } else { 0.0 };
        }
    }
}

/// The same with blocked products and reflections.
fn predict_blocked(step: &StepModel, factor: &mut [f64], n: usize) {
    let moved = matrix(&step.phi, n) * matrix(factor, n);
    let noise = matrix(&step.noise, n);
    let stacked = Mat::from_fn(n + noise.ncols(), n, |i, j| if i < n { moved[(j, i)] } else { noise[(j, i - n)] });
    let triangle = stacked.qr();
    let triangle = triangle.thin_R();
    for k in 0..n {
        for i in 0..n {
            factor[k * n + i] = if i >= k { triangle[(k, i)] } else { 0.0 };
        }
    }
}

impl Block {
    #[inline(always)]
    pub fn new(model: &FilterModel, step_at: usize, s: &[f64], k: &[f64]) -> Self {
        let (n, n_measured) = (model.n, model.measurements.len());
        let n_samples = if n > 16 { 16 } else { 8 };
        let sample = SamplePath::new(model, step_at, s, k).map;
        let powers = Powers::new(&sample, n, n_samples);
        let map = BlockMap::new(&powers, &sample);
        let strips = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<[f64; STRIP]> {
            let column =
                |first: usize, j: usize| std::array::from_fn(|i| if first + i < n { entry(first + i, j) } else { 0.0 });
            (0..n).step_by(STRIP).flat_map(|first| (0..n).map(move |j| column(first, j))).collect()
        };
        Self {
            n,
            n_measured,
            width: model.steps[step_at].inputs.len() / n,
            n_samples,
            forwards: strips(&|i, j| map.power[(i, j)]),
            backwards: strips(&|i, j| map.power[(j, i)]),
            powers,
            map,
        }
    }

    /// Innovations of a block.
    fn height(&self) -> usize {
        self.n_samples * self.n_measured
    }

    /// What is given to the whole blocks of some samples of a stretch.
    fn given<'a>(&self, data: &RunData<'a>, samples: Range<usize>) -> Given<'a> {
        let Self { n_measured: m, width, n_samples: p, .. } = *self;
        let n_blocks = samples.len() / p;
        let segment = data.experiment.segment_of.get(samples.start).copied().unwrap_or(0);
        let values = &data.experiment.measurements[samples.start * m..(samples.start + n_blocks * p) * m];
        let inputs = &data.inputs[segment * width..(segment + n_blocks * p) * width];
        Given {
            values: MatRef::from_column_major_slice(values, p * m, n_blocks),
            inputs: MatRef::from_column_major_slice(inputs, p * width, n_blocks),
        }
    }

    /// Adds what some rows of the map make of measurements and inputs.
    fn add_given(&self, mut target: MatMut<'_, f64>, rows: MatRef<'_, f64>, given: &Given<'_>) {
        let mut first = self.n;
        for part in [given.values, given.inputs] {
            if part.nrows() > 0 {
                let columns = rows.subcols(first, part.nrows());
                matmul(target.as_mut(), Accum::Add, columns, part, 1.0, Par::Seq);
            }
            first += part.nrows();
        }
    }

    /// Filters some blocks and goes on with the state: `states` gets what was before each of them, `[block][state]`, and
    /// `innovations` the scaled ones, `[block][innovation]`.
    #[inline(always)]
    fn advance(&self, given: &Given<'_>, x: &mut [f64], states: &mut [f64], innovations: &mut [f64]) {
        let (n, n_blocks) = (self.n, given.values.ncols());
        let (seen, moved) = self.map.whole.as_ref().split_at_row(self.height());
        states.fill(0.0);
        self.add_given(MatMut::from_column_major_slice_mut(states, n, n_blocks), moved, given);
        for at in 0..n_blocks {
            step(&self.forwards, &mut states[at * n..(at + 1) * n], x);
        }
        let mut target = MatMut::from_column_major_slice_mut(innovations, seen.nrows(), n_blocks);
        matmul(target.as_mut(), Accum::Replace, seen.subcols(0, n), matrix(states, n), 1.0, Par::Seq);
        self.add_given(target, seen, given);
    }

    /// Filters whole blocks of samples, and goes on with the state. The record gets the scaled innovations of the first
    /// blocks and the states before them, as many as fit.
    #[inline(always)]
    pub fn filter(
        &self,
        data: &RunData<'_>,
        samples: Range<usize>,
        x: &mut [f64],
        record: &mut StretchRecord,
    ) -> BlockSums {
        let (n, height, p) = (self.n, self.height(), self.n_samples);
        let n_blocks = samples.len() / p;
        let room = CHUNK.min(n_blocks);
        let (mut states, mut innovations) = (vec![0.0; n * room], vec![0.0; height * room]);
        let mut squares = 0.0;
        for first in (0..n_blocks).step_by(CHUNK) {
            let n_here = CHUNK.min(n_blocks - first);
            let begin = samples.start + first * p;
            let given = self.given(data, begin..begin + n_here * p);
            let states = record.x.get_mut(first * n..(first + n_here) * n).unwrap_or(&mut states[..n_here * n]);
            let place = first * height..(first + n_here) * height;
            if let Some(found) = record.e.get_mut(place) {
                self.advance(&given, x, states, found);
                squares += dot(found, found);
            } else {
                let found = &mut innovations[..n_here * height];
                self.advance(&given, x, states, found);
                squares += dot(found, found);
                let kept = record.e.get_mut(first * height..).unwrap_or_default();
                kept.iter_mut().zip(found).for_each(|(kept, found)| *kept = *found);
            }
        }
        BlockSums { n_samples: n_blocks * p, squares }
    }

    /// From slopes by the scaled innovations of some blocks, `[block][innovation]`, and by the state after the last one,
    /// `x_bar`, to that by the state before the first one; `after` gets those by the state after each of them,
    /// `[block][state]`: `bar(x) = E_x^T bar(e) + A_p^T bar(x^+)`.
    #[inline(always)]
    fn pull(&self, e_bar: &[f64], x_bar: &mut [f64], after: &mut [f64]) {
        let (n, height) = (self.n, self.height());
        let n_blocks = e_bar.len() / height;
        let target = MatMut::from_column_major_slice_mut(after, n, n_blocks);
        matmul(target, Accum::Replace, self.map.seen.transpose(), matrix(e_bar, height), 1.0, Par::Seq);
        for at in (0..n_blocks).rev() {
            step(&self.backwards, &mut after[at * n..(at + 1) * n], x_bar);
        }
    }

    /// Room for a record of all whole blocks of some samples.
    pub fn record(&self, samples: &Range<usize>) -> StretchRecord {
        let n_blocks = samples.len() / self.n_samples;
        StretchRecord { first: samples.start, x: vec![0.0; n_blocks * self.n], e: vec![0.0; n_blocks * self.height()] }
    }

    /// A factor of `T^T T` and the number of samples after which a state is forgotten; `None` if it never is.
    fn sensitivity(&self, sizes: &[f64]) -> Option<(Vec<f64>, usize)> {
        let n = self.n;
        // A state without variance may have had one at the beginning: it must be forgotten, too.
        let size = |i: usize| if sizes[i] > 0.0 { sizes[i] } else { 1.0 };
        let mut power = self.map.power.clone();
        let mut information = self.map.seen.transpose() * &self.map.seen;
        let mut memory = self.n_samples;
        for _ in 0..MOST_DOUBLINGS {
            let is_forgotten = (0..n).all(|j| (0..n).all(|i| power[(i, j)].abs() * size(j) <= FORGOTTEN * size(i)));
            if is_forgotten {
                return Some((semidefinite_factor(&information), memory));
            }
            let more = power.transpose() * (&information * &power);
            information += &more;
            power = &power * &power;
            memory *= 2;
        }
        None
    }
}

/// `z <- A z + b` with `A` by strips of rows; the `z` before takes the place of `b`.
#[inline(always)]
fn step(strips: &[[f64; STRIP]], b: &mut [f64], z: &mut [f64]) {
    let n = z.len();
    if n <= STRIP {
        let sums = product_of_strip(strips, z);
        for i in 0..n {
            (z[i], b[i]) = (sums[i] + b[i], z[i]);
        }
        return;
    }
    let n_strips = strips.len() / n;
    // All of the old state is needed until the last strip.
    for at in 0..n_strips {
        let sums = product_of_strip(&strips[at * n..(at + 1) * n], z);
        let b = &mut b[at * STRIP..n.min((at + 1) * STRIP)];
        for i in 0..b.len() {
            b[i] += sums[i];
        }
    }
    for i in 0..n {
        (z[i], b[i]) = (b[i], z[i]);
    }
}

/// A strip of rows times a vector, in two sums that do not wait for each other.
#[inline(always)]
fn product_of_strip(columns: &[[f64; STRIP]], values: &[f64]) -> [f64; STRIP] {
    let n = columns.len().min(values.len());
    let (columns, values) = (&columns[..n], &values[..n]);
    let (mut even, mut odd) = ([0.0; STRIP], [0.0; STRIP]);
    for k in 0..n / 2 {
        let (first, second) = (&columns[2 * k], &columns[2 * k + 1]);
        let (x, y) = (values[2 * k], values[2 * k + 1]);
        for i in 0..STRIP {
            even[i] += x * first[i];
        }
        for i in 0..STRIP {
            odd[i] += y * second[i];
        }
    }
    if n % 2 == 1 {
        for i in 0..STRIP {
            even[i] += values[n - 1] * columns[n - 1][i];
        }
    }
    for i in 0..STRIP {
        even[i] += odd[i];
    }
    even
}

/// The `t` that brings `C t` nearest to `b`, for `C` of `n` rows and full column rank.
fn least_squares(c: &[f64], n: usize, b: &[f64]) -> Vec<f64> {
    let rank = c.len() / n;
    let mut work = c.to_vec();
    work.extend(b);
    triangularize(&mut work, n, rank + 1);
    let mut t = work[rank * n..rank * n + rank].to_vec();
    for j in (0..rank).rev() {
        let value = t[j] / work[j * n + j];
        t[j] = value;
        let column = &work[j * n..j * n + j];
        add_scaled(&mut t[..j], -value, column);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterSpace;
    use crate::state_space::SignalTerms;

    /// The limit must be what one more sample leaves as it is: `P = Phi (P - P h h^T P / (h^T P h + r)) Phi^T + L L^T`.
    #[test]
    fn small_and_large_limits_stay_as_they_are() {
        let mut rng = fastrand::Rng::with_seed(7);
        for n in [1, 2, 5, 9] {
            let mut random = |len: usize| -> Vec<f64> { (0..len).map(|_| rng.f64() - 0.5).collect() };
            let step = StepModel {
                phi: random(n * n),
                inputs: Vec::new(),
                noise: random(n * n),
                d_phi: Vec::new(),
                d_inputs: Vec::new(),
                d_covariance: Vec::new(),
            };
            let h = Mat::from_fn(1, n, |_, j| 1.0 / (1.0 + j as f64));
            let measured = SignalTerms { state: h.clone(), inputs: vec![Mat::zeros(1, 0)] };
            let space = FilterSpace { measured, input: Mat::zeros(n, 0) };
            let model = FilterModel::new(&space, &[], &[&[0.1]], vec![step]);
            let (phi, noise) = (matrix(&model.steps[0].phi, n), matrix(&model.steps[0].noise, n));
            for p in [limit_small(&model, 0).unwrap(), limit_blocked(&model, 0).unwrap()] {
                let seen = &h * &p;
                let spread = (&seen * h.transpose())[(0, 0)] + 0.1;
                let after = &p - seen.transpose() * &seen * Scale(1.0 / spread);
                let next = phi * after * phi.transpose() + noise * noise.transpose();
                assert!((&next - &p).norm_max() < 1e-13 * p.norm_max(), "n = {n}");
            }
        }
    }

    /// Blocks must give what their samples give one after the other, and the way back over them must be the transpose of
    /// the way there.
    #[test]
    fn blocks_are_their_samples_one_after_the_other() {
        let mut rng = fastrand::Rng::with_seed(12);
        for (n, m) in [(1, 1), (5, 2), (STRIP, 1), (STRIP + 1, 2), (2 * STRIP + 3, 1)] {
            let mut random = |len: usize| -> Vec<f64> { (0..len).map(|_| rng.f64() - 0.5).collect() };
            let small = |list: Vec<f64>| -> Vec<f64> { list.iter().map(|x| x / (n as f64).sqrt()).collect() };
            let step = StepModel {
                phi: small(random(n * n)),
                inputs: random(n),
                noise: Vec::new(),
                d_phi: Vec::new(),
                d_inputs: Vec::new(),
                d_covariance: Vec::new(),
            };
            let (rows, feed) = (small(random(m * n)), random(m));
            let measured = SignalTerms {
                state: Mat::from_fn(m, n, |i, j| rows[i * n + j]),
                inputs: vec![Mat::from_fn(m, 1, |i, _| feed[i])],
            };
            let space = FilterSpace { measured, input: Mat::zeros(n, 1) };
            let model = FilterModel::new(&space, &[], &[&vec![0.1; m]], vec![step]);
            let s: Vec<f64> = random(m).iter().map(|x| 1.0 + x).collect();
            let k = small(random(m * n));
            let block = Block::new(&model, 0, &s, &k);
            let (n_blocks, p) = (3, block.n_samples);
            let (values, inputs, start) = (random(n_blocks * p * m), random(n_blocks * p), random(n));
            let filter = |values: &[f64], inputs: &[f64]| {
                let given = Given {
                    values: MatRef::from_column_major_slice(values, p * m, n_blocks),
                    inputs: MatRef::from_column_major_slice(inputs, p, n_blocks),
                };
                let (mut x, mut states, mut found) = (start.clone(), vec![0.0; n_blocks * n], vec![0.0; values.len()]);
                block.advance(&given, &mut x, &mut states, &mut found);
                (x, states, found)
            };
            let (mut x, mut states, mut innovations) = (start.clone(), Vec::new(), Vec::new());
            for (sample, input) in inputs.iter().enumerate() {
                if sample % p == 0 {
                    states.extend(&x);
                }
                for (at, row) in model.measurements.iter().enumerate() {
                    let e = values[sample * m + at] - dot(&row.h, &x) - row.feed[0] * input;
                    add_scaled(&mut x, e, &k[at * n..(at + 1) * n]);
                    innovations.push(e / s[at].sqrt());
                }
                let mut next = vec![0.0; n];
                add_product(&mut next, &model.steps[0].phi, &x);
                add_scaled(&mut next, *input, &model.steps[0].inputs);
                x = next;
            }
            let found = filter(&values, &inputs);
            for (found, expected) in [(&found.0, &x), (&found.1, &states), (&found.2, &innovations)] {
                assert_eq!(found.len(), expected.len());
                assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-13), "n = {n}");
            }
            // Without anything given, from a change of the state to those of all that follows from it.
            let (end, states, seen) = filter(&vec![0.0; values.len()], &vec![0.0; inputs.len()]);
            let (e_bar, end_bar) = (random(values.len()), random(n));
            let (mut x_bar, mut after) = (end_bar.clone(), vec![0.0; n_blocks * n]);
            block.pull(&e_bar, &mut x_bar, &mut after);
            let later = p * m;
            let whole = dot(&e_bar, &seen) + dot(&end_bar, &end);
            let rest = dot(&e_bar[later..], &seen[later..]) + dot(&end_bar, &end);
            assert!((dot(&x_bar, &start) - whole).abs() < 1e-13, "n = {n}");
            assert!((dot(&after[..n], &states[n..2 * n]) - rest).abs() < 1e-13, "n = {n}");
            assert_eq!(after[(n_blocks - 1) * n..], end_bar);
        }
    }

    /// A covariance of low rank over a step, with noise of low rank: `S S^T` must be `Phi S S^T Phi^T + L L^T`.
    #[test]
    fn large_factors_are_predicted_like_small_ones() {
        let mut rng = fastrand::Rng::with_seed(4);
        let n = BLOCKED + 5;
        let mut random = |len: usize| -> Vec<f64> { (0..len).map(|_| rng.f64() - 0.5).collect() };
        let step = StepModel {
            phi: random(n * n),
            inputs: Vec::new(),
            noise: random(2 * n),
            d_phi: Vec::new(),
            d_inputs: Vec::new(),
            d_covariance: Vec::new(),
        };
        let mut factor = random(3 * n);
        factor.resize(n * n, 0.0);
        let before = matrix(&factor, n).to_owned();
        let moved = matrix(&step.phi, n) * &before;
        let expected = &moved * moved.transpose() + matrix(&step.noise, n) * matrix(&step.noise, n).transpose();
        predict_blocked(&step, &mut factor, n);
        let found = matrix(&factor, n) * matrix(&factor, n).transpose();
        assert!((found - &expected).norm_max() < 1e-12 * expected.norm_max());
    }
}
