//! The gradient of the likelihood of a whole stretch, backwards, at a price that does not grow with the number of
//! parameters.
//!
//! With constant gains every sample is the same linear map, `e = E x + F w`, `x^+ = A x + B w`, and `p` samples are a
//! block `(e_1 .. e_p, x^+) = M (x, w_1 .. w_p)` (see [`super::Block`]). Bars are derivatives of the log-likelihood as in
//! `filter::backwards`. For scaled innovations, `L = -1/2 sum of e^T e + ..`, one recursion of the size of the state
//! leads back over the blocks, and all that parameters have to do with samples is one sum of products:
//!
//! ```text
//! bar(e) = -e      bar(x) = M_x^T (bar(e), bar(x^+))      bar(M) = sum over blocks of (bar(e), bar(x^+)) (x, w)^T
//! ```
//!
//! `M` consists of `E A^k`, `A^k B`, `E A^k B`, `F` and `A^p`, so that `bar(M)` leads to those of `A`, `B`, `E` and `F` by
//! products of matrices, once for a stretch, and these to the gains, the rows and the step.
//!
//! The gains are those of the limit `P = f(P)` of the covariance of predictions, with `f` the measurements and the step
//! of one sample, and `df = A dP A^T` at fixed parameters. What depends on `P` directly, `X_0`, therefore counts as
//!
//! ```text
//! X = X_0 + A^T X A          tr(X_0 dP) = tr(X df)
//! ```
//!
//! and `f` is gone back over once, with `bar(P^+) = X`. [@christianson1994]
//!
//! What the beginning adds, `c = -1/2 log det(I + D S) + 1/2 g^T N g` with `g = T^T e` (see `stretch::slope`), has with
//! `u = U^T g`, `v = N g` the derivatives
//!
//! ```text
//! bar(D) = (u u^T - S U) / 2      bar(S) = -(v v^T + N) / 2      bar(g) = v
//! ```
//!
//! `g` is found by `g_b = M_x^T (e_b, g_(b+1))` from the last block to the first. That recursion backwards runs forwards:
//! `(c_b, y_(b+1)) = M_x y_b` from `y_0 = v` on adds `c_b` to `bar(e_b)` and `(e_b, g_(b+1)) y_b^T` to `bar(M_x)`. And
//! `S = E_p^T E_p + A_p^T S A_p` over blocks passes `2 E_p Y` on to `E_p` and `2 S A_p Y` to `A_p`, where
//! `Y = bar(S) + A_p Y A_p^T`.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{PartialPivLu, Solve};
use faer::{Accum, Mat, MatMut, Par};

use super::slope::{Powers, SampleMap, above, square_mat, sums_of_powers};
use super::{Block, CHUNK, Steady, step};
use crate::filter::{Bars, FilterModel, FilterSlope, RunData, SteadyCopy, correct_backwards, spread_backwards};
use crate::kernel::{add_product, add_scaled, dot, flat, matrix, square};

/// The blocks of a stretch as they were filtered.
#[derive(Clone, Debug)]
pub(crate) struct StretchRecord {
    /// The first sample.
    pub first: usize,
    /// `[block][state]`: before each block.
    pub x: Vec<f64>,
    /// `[block][innovation]`, scaled.
    pub e: Vec<f64>,
}

/// A stretch of samples with constant gains.
pub(crate) struct StretchSlopes<'a> {
    pub model: &'a FilterModel,
    pub data: &'a RunData<'a>,
    pub step_at: usize,
    pub block: &'a Block,
}

/// A stretch with the gains of the limit.
pub(crate) struct LimitSlope<'a> {
    pub steady: &'a Steady,
    pub model: &'a FilterModel,
    pub data: &'a RunData<'a>,
    pub step_at: usize,
    pub slope: &'a mut FilterSlope,
}

/// The map of one sample and how it comes about.
pub(super) struct SamplePath<'a> {
    model: &'a FilterModel,
    step_at: usize,
    s: &'a [f64],
    k: &'a [f64],
    /// Innovations that are not scaled: `[measurement]` by columns of the map.
    e: Mat<f64>,
    /// The state before each measurement, and after the last one.
    states: Vec<Mat<f64>>,
    pub map: SampleMap,
}

impl<'a> SamplePath<'a> {
    pub fn new(model: &'a FilterModel, step_at: usize, s: &'a [f64], k: &'a [f64]) -> Self {
        let (n, m) = (model.n, model.measurements.len());
        let step = &model.steps[step_at];
        let width = step.inputs.len() / n;
        let n_columns = n + m + width;
        let mut state = Mat::from_fn(n, n_columns, |i, j| f64::from(u8::from(i == j)));
        let mut e = Mat::zeros(m, n_columns);
        let mut states = Vec::with_capacity(m + 1);
        for (at, (row, gain)) in model.measurements.iter().zip(k.chunks_exact(n)).enumerate() {
            states.push(state.clone());
            for j in 0..n_columns {
                let feed = j.checked_sub(n + m).and_then(|order| row.feed.get(order)).copied().unwrap_or(0.0);
                let column = state.col_as_slice_mut(j);
                let own = f64::from(u8::from(j == n + at));
                e[(at, j)] = own - feed - dot(&row.h, column);
                add_scaled(column, e[(at, j)], gain);
            }
        }
        let mut after = matrix(&step.phi, n) * &state;
        for (order, column) in step.inputs.chunks_exact(n).enumerate() {
            add_scaled(after.col_as_slice_mut(n + m + order), 1.0, column);
        }
        states.push(state);
        let innovations = Mat::from_fn(m, n_columns, |at, j| e[(at, j)] / s[at].sqrt());
        Self { model, step_at, s, k, e, states, map: SampleMap { innovations, state: after } }
    }

    /// From slopes by the map to those by gains, variances, rows and the step.
    fn backwards(&self, bar: &SampleMap, slope: &mut FilterSlope, bars: &mut Bars) {
        let (n, m) = (self.model.n, self.model.measurements.len());
        let step = &self.model.steps[self.step_at];
        let of_step = &mut slope.steps[self.step_at];
        let target = MatMut::from_column_major_slice_mut(&mut of_step.phi, n, n);
        matmul(target, Accum::Add, &bar.state, self.states[m].transpose(), 1.0, Par::Seq);
        for (order, target) in of_step.inputs.chunks_exact_mut(n).enumerate() {
            add_scaled(target, 1.0, bar.state.col_as_slice(n + m + order));
        }
        let mut state_bar = matrix(&step.phi, n).transpose() * &bar.state;
        for (at, row) in self.model.measurements.iter().enumerate().rev() {
            let (s, gain, k_bar) = (self.s[at], &self.k[at * n..(at + 1) * n], &mut bars.k[at * n..(at + 1) * n]);
            let scale = 1.0 / s.sqrt();
            let of_row = &mut slope.rows[at];
            for j in 0..bar.state.ncols() {
                let column = state_bar.col_as_slice_mut(j);
                let (e, scaled_bar) = (self.e[(at, j)], bar.innovations[(at, j)]);
                let e_bar = scale * scaled_bar + dot(gain, column);
                bars.s[at] -= 0.5 * scale / s * scaled_bar * e;
                add_scaled(k_bar, e, column);
                add_scaled(column, -e_bar, &row.h);
                add_scaled(&mut of_row.h, -e_bar, self.states[at].col_as_slice(j));
                if let Some(feed) = j.checked_sub(n + m).and_then(|order| of_row.feed.get_mut(order)) {
                    *feed -= e_bar;
                }
            }
        }
    }
}

/// From slopes by the map of a block of `p` samples to those by the map of one.
fn block_backwards(powers: &Powers, sample: &SampleMap, bar: &Mat<f64>, p: usize) -> SampleMap {
    let (m, n) = (sample.innovations.nrows(), sample.state.nrows());
    let (n_given, height) = (sample.state.ncols() - n, p * m);
    let width = n_given - m;
    let a = &powers.doubled[0];
    let given = powers.reached.as_ref().subcols(0, n_given);
    let mut direct = Mat::<f64>::zeros(m, n_given);
    let mut later = Mat::<f64>::zeros(height - m, n_given);
    let mut reached = Mat::<f64>::zeros(n, p * n_given);
    for at in 0..p {
        for j in 0..n_given {
            let column = if j < m { n + at * m + j } else { n + height + at * width + (j - m) };
            let column = bar.col_as_slice(column);
            let (now, after) = column[at * m..height].split_at(m);
            add_scaled(direct.col_as_slice_mut(j), 1.0, now);
            add_scaled(later.col_as_slice_mut(j), 1.0, after);
            reached.col_as_slice_mut((p - 1 - at) * n_given + j).copy_from_slice(&column[height..]);
        }
    }
    // E A^k B for k < p - 1, then E A^k = (E A^(k-1)) A.
    let seen_before = powers.seen.as_ref().subrows(0, height - m);
    let mut given_bar = seen_before.transpose() * &later;
    let mut seen = bar.as_ref().submatrix(0, 0, height, n).to_owned();
    matmul(seen.as_mut().subrows_mut(0, height - m), Accum::Add, &later, given.transpose(), 1.0, Par::Seq);
    for k in (1..p).rev() {
        let (before, here) = seen.as_mut().split_at_row_mut(k * m);
        let before = before.subrows_mut((k - 1) * m, m);
        matmul(before, Accum::Add, here.as_ref().subrows(0, m), a.transpose(), 1.0, Par::Seq);
    }
    let mut a_bar = seen_before.transpose() * seen.as_ref().subrows(m, height - m);
    // A^k B = A (A^(k-1) B).
    for k in (1..p).rev() {
        let (before, here) = reached.as_mut().split_at_col_mut(k * n_given);
        let before = before.subcols_mut((k - 1) * n_given, n_given);
        matmul(before, Accum::Add, a.transpose(), here.as_ref().subcols(0, n_given), 1.0, Par::Seq);
    }
    let (n_before, reached) = ((p - 1) * n_given, reached.as_ref());
    a_bar += reached.subcols(n_given, n_before) * powers.reached.as_ref().subcols(0, n_before).transpose();
    given_bar += reached.subcols(0, n_given);
    // A^p by squares.
    let mut power_bar = bar.as_ref().submatrix(height, 0, n, n).to_owned();
    for power in powers.doubled[..powers.doubled.len() - 1].iter().rev() {
        power_bar = &power_bar * power.transpose() + power.transpose() * &power_bar;
    }
    a_bar += power_bar;
    let beside = |left: &dyn Fn(usize, usize) -> f64, right: &Mat<f64>| {
        Mat::from_fn(right.nrows(), n + n_given, |i, j| if j < n { left(i, j) } else { right[(i, j - n)] })
    };
    SampleMap { innovations: beside(&|i, j| seen[(i, j)], &direct), state: beside(&|i, j| a_bar[(i, j)], &given_bar) }
}

impl StretchSlopes<'_> {
    /// Back over the blocks of a stretch; `kept` is to be added to the slopes by the innovations of the first ones. Gives
    /// the slope by the map of a block.
    #[inline(always)]
    fn walk(&self, mut record: StretchRecord, kept: &[f64], x_bar: &mut [f64]) -> Mat<f64> {
        let (n, height, p) = (self.block.n, self.block.height(), self.block.n_samples);
        let (rows, columns) = (self.block.map.whole.nrows(), self.block.map.whole.ncols());
        let mut sum = Mat::<f64>::zeros(rows, columns);
        let n_blocks = record.e.len() / height;
        // What was found in the place of slopes by it.
        record.e.iter_mut().for_each(|e| *e = -*e);
        let n_kept = kept.len().min(record.e.len());
        add_scaled(&mut record.e[..n_kept], 1.0, kept);
        let mut after = vec![0.0; n * CHUNK.min(n_blocks)];
        for first in (0..n_blocks).step_by(CHUNK).rev() {
            let n_here = CHUNK.min(n_blocks - first);
            let e_bar = &record.e[first * height..(first + n_here) * height];
            let after = &mut after[..n_here * n];
            self.block.pull(e_bar, x_bar, after);
            let begin = record.first + first * p;
            let given = self.block.given(self.data, begin..begin + n_here * p);
            let states = matrix(&record.x[first * n..(first + n_here) * n], n);
            for (row, bar) in [(0, matrix(e_bar, height)), (height, matrix(after, n))] {
                let mut column = 0;
                for part in [states, given.values, given.inputs] {
                    let target = sum.as_mut().submatrix_mut(row, column, bar.nrows(), part.nrows());
                    matmul(target, Accum::Add, bar, part.transpose(), 1.0, Par::Seq);
                    column += part.nrows();
                }
            }
        }
        sum
    }

    /// Slopes by variances: those of `-1/2 log s` for every sample.
    fn count_logs(&self, record: &StretchRecord, s: &[f64], bars: &mut Bars) {
        let n_samples = (record.e.len() / s.len()) as f64;
        bars.s.iter_mut().zip(s).for_each(|(bar, s)| *bar -= 0.5 * n_samples / s);
    }

    /// Back over a stretch whose gains were there before.
    #[inline(always)]
    pub fn coast_backwards(&self, record: StretchRecord, gains: &SteadyCopy, slope: &mut FilterSlope, bars: &mut Bars) {
        let path = SamplePath::new(self.model, self.step_at, &gains.s, &gains.k);
        self.count_logs(&record, &gains.s, bars);
        let bar = self.walk(record, &[], &mut bars.x);
        slope.steps[self.step_at].is_used = true;
        path.backwards(&block_backwards(&self.block.powers, &path.map, &bar, self.block.n_samples), slope, bars);
    }
}

/// Slopes of what the covariance at the beginning changes.
struct BeginningSlope {
    /// By `D`, symmetric.
    difference: Mat<f64>,
    /// By the innovations of the first blocks.
    innovations: Vec<f64>,
    /// By the columns of the state of the map of a block.
    map: Mat<f64>,
}

impl LimitSlope<'_> {
    /// Back over a stretch that began with the covariance `S S^T`; `None` where a sum over all samples does not converge.
    #[inline(always)]
    pub fn leap_backwards(mut self, record: StretchRecord, s: &[f64], bars: &mut Bars) -> Option<()> {
        let Steady { gains, block, .. } = self.steady;
        let n = block.n;
        let path = SamplePath::new(self.model, self.step_at, &gains.s, &gains.k);
        let beginning = self.beginning(&record, s)?;
        let stretch = StretchSlopes { model: self.model, data: self.data, step_at: self.step_at, block };
        stretch.count_logs(&record, &gains.s, bars);
        let mut bar = stretch.walk(record, &beginning.innovations, &mut bars.x);
        for j in 0..n {
            add_scaled(bar.col_as_slice_mut(j), 1.0, beginning.map.col_as_slice(j));
        }
        path.backwards(&block_backwards(&block.powers, &path.map, &bar, block.n_samples), self.slope, bars);
        add_scaled(&mut bars.p, -1.0, &flat(&beginning.difference));
        self.limit(&block.powers.doubled[0], bars)?;
        bars.p = flat(&beginning.difference);
        bars.k.fill(0.0);
        bars.s.fill(0.0);
        bars.x.iter().chain(&bars.p).all(|x| x.is_finite()).then_some(())
    }

    /// From slopes by the gains and the covariance of the limit to those by the model.
    #[inline(always)]
    fn limit(&mut self, closed: &Mat<f64>, bars: &Bars) -> Option<()> {
        let model = self.model;
        let n = model.n;
        let mut p = vec![0.0; n * n];
        square(&mut p, &self.steady.factor, n);
        let mut before = vec![p];
        let gains = &self.steady.gains;
        for (gain, s) in gains.k.chunks_exact(n).zip(&gains.s) {
            let mut after = before[before.len() - 1].clone();
            after.chunks_exact_mut(n).zip(gain).for_each(|(column, k)| add_scaled(column, -s * k, gain));
            before.push(after);
        }
        let mut work = vec![0.0; n];
        let mut over_measurements = |p_bar: &mut [f64], take: &mut dyn FnMut(usize, &[f64], f64)| {
            for (at, row) in model.measurements.iter().enumerate().rev() {
                let gain = at * n..(at + 1) * n;
                let (k, k_bar) = (&gains.k[gain.clone()], &bars.k[gain]);
                let mut h_bar = vec![0.0; n];
                let (s, s_bar) = (gains.s[at], bars.s[at]);
                let r_bar = correct_backwards(&row.h, &before[at], k, s, k_bar, s_bar, p_bar, &mut h_bar, &mut work);
                take(at, &h_bar, r_bar);
            }
        };
        let mut direct = vec![0.0; n * n];
        over_measurements(&mut direct, &mut |_, _, _| ());
        add_scaled(&mut direct, 1.0, &bars.p);
        let total = sums_of_powers(&closed.transpose().to_owned(), vec![square_mat(&direct, n)])?.swap_remove(0);
        let mut p_bar = flat(&total);
        let step = &model.steps[self.step_at];
        let after = &before[before.len() - 1];
        spread_backwards(step, after, &mut p_bar, &mut self.slope.steps[self.step_at], &mut vec![0.0; n * n]);
        let rows = &mut self.slope.rows;
        over_measurements(&mut p_bar, &mut |at, h_bar, r_bar| {
            add_scaled(&mut rows[at].h, 1.0, h_bar);
            rows[at].variance += r_bar;
        });
        Some(())
    }

    /// Slopes of what the covariance `S S^T` at the beginning changes.
    #[inline(always)]
    fn beginning(&self, record: &StretchRecord, s: &[f64]) -> Option<BeginningSlope> {
        let Steady { block, memory, factor, sensitivity, .. } = self.steady;
        let (n, height, n_kept) = (block.n, block.height(), memory / block.n_samples);
        let (factor, at_limit) = (square_mat(s, n), square_mat(factor, n));
        let difference = &factor * factor.transpose() - &at_limit * at_limit.transpose();
        let root = square_mat(sensitivity, n);
        let seen = &root * root.transpose();
        let mut system = &difference * &seen;
        (0..n).for_each(|i| system[(i, i)] += 1.0);
        let inverse = PartialPivLu::new(system.as_ref()).solve(Mat::<f64>::identity(n, n));
        let spread = &inverse * &difference;
        // g_(b+1) by block.
        let felt = &record.e[..n_kept * height];
        let mut ahead = vec![0.0; n_kept * n];
        let mut g = vec![0.0; n];
        block.pull(felt, &mut g, &mut ahead);
        let mut v = vec![0.0; n];
        add_product(&mut v, &flat(&spread), &g);
        let u: Vec<f64> = (0..n).map(|j| dot(inverse.col_as_slice(j), &g)).collect();
        // y_b by block, then c_b.
        let mut along = vec![0.0; n_kept * n];
        let mut y = v.clone();
        for at in 0..n_kept {
            step(&block.forwards, &mut along[at * n..(at + 1) * n], &mut y);
        }
        let along = matrix(&along, n);
        let mut innovations = vec![0.0; n_kept * height];
        let target = MatMut::from_column_major_slice_mut(&mut innovations, height, n_kept);
        matmul(target, Accum::Replace, &block.map.seen, along, 1.0, Par::Seq);
        let mut map = above(&(matrix(felt, height) * along.transpose()), &(matrix(&ahead, n) * along.transpose()));
        let weight = Mat::from_fn(n, n, |i, j| v[i] * v[j] + 0.5 * (spread[(i, j)] + spread[(j, i)]));
        let weight = sums_of_powers(&block.map.power, vec![weight])?.swap_remove(0);
        map -= above(&block.map.seen, &(&seen * &block.map.power)) * weight;
        let pulled = &seen * &inverse;
        let entry = |i: usize, j: usize| 0.5 * (u[i] * u[j] - 0.5 * (pulled[(i, j)] + pulled[(j, i)]));
        Some(BeginningSlope { difference: Mat::from_fn(n, n, entry), innovations, map })
    }
}
