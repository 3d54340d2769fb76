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

use faer::linalg::solvers::{PartialPivLu, Solve};
use faer::{Mat, Scale};

use crate::filter::{FilterModel, RunData, StepModel};
use crate::kernel::{
    BLOCKED, add_product, add_scaled, add_square_product, dot, flat, matrix, semidefinite_factor, solve_in_place,
    square, triangularize,
};
pub(crate) use backwards::{LimitSlope, StretchRecord, StretchSlopes};
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
#[derive(Clone, Debug)]
pub(crate) struct Block {
    n: usize,
    n_measured: usize,
    /// Inputs and their powers of a sample.
    width: usize,
    n_samples: usize,
    /// Columns of the state.
    of_state: Vec<f64>,
    /// All columns, by strips of rows.
    strips: Vec<Strip>,
}

/// Rows of a strip: enough for the registers that sums are kept in.
const STRIP: usize = 16;

/// Some rows of the map, without the samples that come after them.
#[derive(Clone, Debug)]
struct Strip {
    n_samples: usize,
    columns: Vec<[f64; STRIP]>,
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
        let Block { n, n_measured, n_samples, of_state, .. } = &self.steady.block;
        let (n, height) = (*n, n_measured * n_samples);
        let rows = height + n;
        // T^T e, from the last block to the first.
        let mut ahead = vec![0.0; rows];
        for block in innovations.chunks_exact(height).rev() {
            ahead[..height].copy_from_slice(block);
            let next: Vec<f64> = of_state.chunks_exact(rows).map(|column| dot(column, &ahead)).collect();
            ahead[height..].copy_from_slice(&next);
        }
        let sensitivity = &self.steady.sensitivity;
        let rank = sensitivity.len() / n;
        let t = least_squares(sensitivity, n, &ahead[height..]);
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
    for _ in 0..MOST_DOUBLINGS {
        let mut system = &g * &p;
        for i in 0..n {
            system[(i, i)] += 1.0;
        }
        let lu = PartialPivLu::new(system.as_ref());
        let va = lu.solve(&a);
        let vg = lu.solve(&g);
        let gain = a.transpose() * (&p * &va);
        let sharper = &a * vg * a.transpose();
        a = &a * va;
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

/// The filter of constant gains, sample by sample.
struct SampleFilter<'a> {
    model: &'a FilterModel,
    step: &'a StepModel,
    k: &'a [f64],
    /// `[measurement]`: one over the standard deviation of its innovation.
    scales: &'a [f64],
    /// Inputs that measurements see directly.
    orders: usize,
    next: Vec<f64>,
}

impl SampleFilter<'_> {
    /// Takes a sample, measurements before inputs, and goes on to the next one. A closure would not be sure to be
    /// inlined where the instructions are known.
    #[inline(always)]
    fn advance(&mut self, x: &mut Vec<f64>, given: &[f64], innovations: &mut Vec<f64>) {
        let (n, m) = (x.len(), self.model.measurements.len());
        for (at, row) in self.model.measurements.iter().enumerate() {
            let feed = dot(&row.feed[..self.orders], &given[m..m + self.orders]);
            let e = given[at] - dot(&row.h, x) - feed;
            add_scaled(x, e, &self.k[at * n..(at + 1) * n]);
            innovations.push(e * self.scales[at]);
        }
        self.next.fill(0.0);
        add_product(&mut self.next, &self.step.phi, x);
        add_product(&mut self.next, &self.step.inputs, &given[m..]);
        std::mem::swap(x, &mut self.next);
    }
}

impl Block {
    #[inline(always)]
    pub fn new(model: &FilterModel, step_at: usize, s: &[f64], k: &[f64]) -> Self {
        let (n, m) = (model.n, model.measurements.len());
        let step = &model.steps[step_at];
        let width = step.inputs.len() / n;
        let n_given = m + width;
        let n_samples = if n > 16 { 16 } else { 8 };
        let orders = model.measurements.first().map_or(0, |row| row.feed.len().min(width));
        let scales: Vec<f64> = s.iter().map(|s| 1.0 / s.sqrt()).collect();
        let mut filter = SampleFilter { model, step, k, scales: &scales, orders, next: vec![0.0; n] };
        let height = n_samples * m;
        let rows = height + n;
        let mut matrix = vec![0.0; rows * (n + n_samples * n_given)];
        let mut innovations = Vec::with_capacity(height);
        for j in 0..n + n_given {
            let (mut x, mut given) = (vec![0.0; n], vec![0.0; n_given]);
            let from_given = j.checked_sub(n);
            match from_given {
                Some(j) => given[j] = 1.0,
                None => x[j] = 1.0,
            }
            let column_at = |at: usize| match from_given {
                None => j * rows,
                Some(j) if j < m => (n + at * m + j) * rows,
                Some(j) => (n + height + at * width + (j - m)) * rows,
            };
            innovations.clear();
            for after in 1..=n_samples {
                filter.advance(&mut x, &given, &mut innovations);
                given.fill(0.0);
                // What a sample does `after` samples later is the same for all samples.
                let column = column_at(n_samples - after);
                matrix[column + height..column + rows].copy_from_slice(&x);
            }
            let n_columns = if from_given.is_some() { n_samples } else { 1 };
            for at in 0..n_columns {
                let column = column_at(at);
                matrix[column + at * m..column + height].copy_from_slice(&innovations[..height - at * m]);
            }
        }
        let strips = (0..rows).step_by(STRIP).map(|first| {
            let end = first + STRIP;
            let n_samples = if end > height { n_samples } else { end.div_ceil(m) };
            let given = (n..n + n_samples * m).chain(n + height..n + height + n_samples * width);
            let column =
                |j: usize| std::array::from_fn(|i| if first + i < rows { matrix[j * rows + first + i] } else { 0.0 });
            Strip { n_samples, columns: (0..n).chain(given).map(column).collect() }
        });
        let strips = strips.collect();
        matrix.truncate(rows * n);
        Self { n, n_measured: m, width, n_samples, of_state: matrix, strips }
    }

    /// Filters whole blocks of samples, and goes on with the state; `kept` gets the scaled innovations of the first blocks
    /// and `states` what was before them, as many as fit.
    #[inline(always)]
    pub fn filter(
        &self,
        data: &RunData<'_>,
        samples: Range<usize>,
        x: &mut [f64],
        kept: &mut [f64],
        states: &mut [f64],
    ) -> BlockSums {
        let (n, height) = (self.n, self.n_samples * self.n_measured);
        let mut squares = 0.0;
        let n_blocks = self.each(data, samples, x, |at, [x, ..], found| {
            let start = at * height;
            if start < kept.len() {
                kept[start..start + height].copy_from_slice(&found[..height]);
            }
            if at * n < states.len() {
                states[at * n..(at + 1) * n].copy_from_slice(x);
            }
            squares += dot(&found[..height], &found[..height]);
        });
        BlockSums { n_samples: n_blocks * self.n_samples, squares }
    }

    /// Room for a record of all whole blocks of some samples.
    pub fn record(&self, samples: &Range<usize>) -> StretchRecord {
        let n_blocks = samples.len() / self.n_samples;
        let height = self.n_samples * self.n_measured;
        StretchRecord { first: samples.start, x: vec![0.0; n_blocks * self.n], e: vec![0.0; n_blocks * height] }
    }

    /// Takes whole blocks of samples one after the other and goes on with the state. `visit` gets the number of the
    /// block, the state before it, its measurements and its inputs, and what the map makes of them. Gives the number of
    /// blocks.
    #[inline(always)]
    fn each(
        &self,
        data: &RunData<'_>,
        samples: Range<usize>,
        x: &mut [f64],
        mut visit: impl FnMut(usize, [&[f64]; 3], &[f64]),
    ) -> usize {
        let Self { n, n_measured: m, width, n_samples: p, .. } = *self;
        let height = p * m;
        let mut found = vec![0.0; self.strips.len() * STRIP];
        let n_blocks = samples.len() / p;
        for at in 0..n_blocks {
            let sample = samples.start + at * p;
            let values = &data.experiment.measurements[sample * m..(sample + p) * m];
            let segment = data.experiment.segment_of[sample];
            let inputs = &data.inputs[segment * width..(segment + p) * width];
            for (strip, found) in self.strips.iter().zip(found.chunks_exact_mut(STRIP)) {
                let mut sums = [0.0; STRIP];
                let (of_state, of_given) = strip.columns.split_at(n);
                let (of_values, of_inputs) = of_given.split_at(strip.n_samples * m);
                add_columns(&mut sums, of_state, x);
                add_columns(&mut sums, of_values, values);
                add_columns(&mut sums, of_inputs, inputs);
                found.copy_from_slice(&sums);
            }
            visit(at, [x, values, inputs], &found);
            x.copy_from_slice(&found[height..height + n]);
        }
        n_blocks
    }

    /// A factor of `T^T T` and the number of samples after which a state is forgotten; `None` if it never is.
    fn sensitivity(&self, sizes: &[f64]) -> Option<(Vec<f64>, usize)> {
        let n = self.n;
        let height = self.n_samples * self.n_measured;
        let rows = height + n;
        let at = |i: usize, j: usize| self.of_state[j * rows + i];
        // A state without variance may have had one at the beginning: it must be forgotten, too.
        let size = |i: usize| if sizes[i] > 0.0 { sizes[i] } else { 1.0 };
        let innovations = Mat::from_fn(height, n, at);
        let mut power = Mat::from_fn(n, n, |i, j| at(height + i, j));
        let mut information = innovations.transpose() * &innovations;
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

/// Adds columns times values; columns without a value are those of samples that do not matter.
#[inline(always)]
fn add_columns(sums: &mut [f64; STRIP], columns: &[[f64; STRIP]], values: &[f64]) {
    let n = columns.len().min(values.len());
    let (columns, values) = (&columns[..n], &values[..n]);
    for k in 0..n {
        let (column, value) = (&columns[k], values[k]);
        for i in 0..STRIP {
            sums[i] += value * column[i];
        }
    }
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
