//! Derivatives of the likelihood of a whole stretch by parameters, exact, at a few times the price of its value.
//!
//! With constant gains every sample is the same linear map of the state `x` before it and `w = (y, u)` of the sample,
//! and so are its derivatives. For scaled innovations `e` and the state `x^+` after the sample
//!
//! ```text
//! e = E x + F w    x^+ = A x + B w        de = E dx + dE x + dF w    dx^+ = A dx + dA x + dB w
//! ```
//!
//! Blocks of samples are put together as in [`super::Block`], `d(E A^k)` and `d(A^k B)` by the product rule; many
//! blocks then are one product of matrices. The derivative of the covariance `P` to which predictions converge solves a
//! linear equation, `dP = A dP A^T + R`, with `R` what a sample makes of `dP = 0`; it is summed by doubling
//! [@smith1968].
//!
//! What the beginning of the stretch adds to the likelihood (see the module above) is, with `S = T^T T`, `g = T^T e`
//! and `U = (I + D S)^-1`, `N = U D`,
//!
//! ```text
//! -1/2 log det(I + D S) + 1/2 g^T N g
//! ```
//!
//! whose derivative needs no inverse of `D` [@woodbury1950]:
//!
//! ```text
//! g^T N dg + 1/2 (U^T g)^T dD (U^T g) - 1/2 (N g)^T dS (N g) - 1/2 tr(S U dD) - 1/2 tr(N dS)
//! dS = dE^T E + E^T dE + dA^T S A + A^T S dA + A^T dS A         over blocks
//! ```
//!
//! `dS` itself is not needed, only `tr(W dS)` with `W = N + N g (N g)^T`, which is the same for all parameters. With
//! `Y = A Y A^T + W`, summed by doubling once, `tr(W dS) = 2 tr(Y (dE^T E + dA^T S A))`.
//!
//! The information about means is `de^T (I + T D T^T)^-1 de`, so that `(T^T de)^T N (T^T de)` is taken from its sum;
//! that about variances is the one of constant gains.

use faer::linalg::solvers::{PartialPivLu, Solve};
use faer::{Mat, MatRef, Scale};

use super::{Block, CHUNK, SMALL, Steady};
use crate::filter::{FilterModel, RunData};
use crate::kernel::{add_product, add_scaled, add_square_product, dot, flat, matrix, trace_of_product};

/// Doublings after which a sum over all samples must have converged: the value's did before.
const MOST_DOUBLINGS: usize = 40;

/// Where derivatives stand at the beginning of a stretch, and at its end.
pub(crate) struct Tangent {
    /// `[parameter][state]`.
    pub dx: Vec<Vec<f64>>,
    /// `[parameter]`: derivative of the prediction's covariance.
    pub dp: Vec<Vec<f64>>,
}

/// What a stretch adds.
pub(crate) struct StretchSlope {
    /// By parameter.
    pub gradient: Vec<f64>,
    /// Nearly the information matrix.
    pub information: Mat<f64>,
    /// At its end.
    pub end: Tangent,
    /// `[parameter][measurement]`: derivative of the innovation variance.
    pub ds: Vec<f64>,
    /// `[parameter][measurement][state]`: derivative of the gain.
    pub dk: Vec<f64>,
}

/// The map of one sample, or a derivative of it: rows are the scaled innovations, then the state after the sample;
/// columns the state before it, then its measurements, then its inputs.
pub(super) struct SampleMap {
    pub innovations: Mat<f64>,
    pub state: Mat<f64>,
}

impl SampleMap {
    /// The columns of measurements and inputs.
    fn given<'a>(&self, part: &'a Mat<f64>) -> MatRef<'a, f64> {
        let n = self.state.nrows();
        part.as_ref().subcols(n, part.ncols() - n)
    }
}

/// The map of a block of samples, or a derivative of it.
#[derive(Clone, Debug)]
pub(super) struct BlockMap {
    /// Innovations by the state before the block.
    pub seen: Mat<f64>,
    /// The state after it by that before it.
    pub power: Mat<f64>,
    /// All of it, innovations before the state.
    pub whole: Mat<f64>,
}

impl BlockMap {
    /// The map of as many samples as there are powers.
    pub fn new(powers: &Powers, sample: &SampleMap) -> Self {
        let later = &powers.seen * sample.given(&sample.state);
        Self::put_together(powers, sample, &later)
    }

    /// Its derivative.
    fn derivative(powers: &Powers, sample: &SampleMap, d_powers: &Powers, d_sample: &SampleMap) -> Self {
        let later = &d_powers.seen * sample.given(&sample.state) + &powers.seen * d_sample.given(&d_sample.state);
        Self::put_together(d_powers, d_sample, &later)
    }

    /// What measurements and inputs of a sample do to its innovations is in the map of the sample, the `k`-th of `later`
    /// is what they do to those `k + 1` samples after it.
    fn put_together(powers: &Powers, sample: &SampleMap, later: &Mat<f64>) -> Self {
        let (power, direct) = (powers.last().clone(), sample.given(&sample.innovations));
        let (n, height, n_given, m) = (power.nrows(), powers.seen.nrows(), direct.ncols(), direct.nrows());
        let (q, width) = (height / m, n_given - m);
        let mut whole = Mat::zeros(height + n, n + q * n_given);
        for j in 0..n {
            let (upper, lower) = whole.col_as_slice_mut(j).split_at_mut(height);
            upper.copy_from_slice(powers.seen.col_as_slice(j));
            lower.copy_from_slice(power.col_as_slice(j));
        }
        for at in 0..q {
            for j in 0..n_given {
                let column = if j < m { n + at * m + j } else { n + height + at * width + (j - m) };
                let (upper, lower) = whole.col_as_slice_mut(column).split_at_mut(height);
                let (now, after) = upper[at * m..].split_at_mut(m);
                now.iter_mut().enumerate().for_each(|(i, now)| *now = direct[(i, j)]);
                after.copy_from_slice(&later.col_as_slice(j)[..after.len()]);
                lower.copy_from_slice(powers.reached.col_as_slice((q - 1 - at) * n_given + j));
            }
        }
        Self { seen: powers.seen.clone(), power, whole }
    }

    /// What a change of the `j`-th state before the block does to innovations and the state after it, times weights of
    /// these.
    #[inline(always)]
    fn back(&self, j: usize, weights: &[f64]) -> f64 {
        dot(self.whole.col_as_slice(j), weights)
    }
}

pub(super) fn square_mat(flat: &[f64], n: usize) -> Mat<f64> {
    Mat::from_fn(n, flat.len() / n, |i, j| flat[j * n + i])
}

/// `a = a + a^T`
fn symmetric_sum(a: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] + a[(j, i)])
}

/// Derivatives of the gains and of the covariance after the measurements of a sample, given that before them.
struct Updated {
    ds: Vec<f64>,
    dk: Vec<Vec<f64>>,
    dp: Mat<f64>,
}

/// The filter of one step at its limit, with derivatives.
struct Limit<'a> {
    model: &'a FilterModel,
    steady: &'a Steady,
    phi: Mat<f64>,
    d_phi: Vec<Mat<f64>>,
    /// The covariance before each measurement of a sample, and after all.
    p: Vec<Mat<f64>>,
    step_at: usize,
}

impl<'a> Limit<'a> {
    fn new(model: &'a FilterModel, steady: &'a Steady, step_at: usize) -> Self {
        let n = model.n;
        let factor = square_mat(&steady.factor, n);
        let mut p = vec![&factor * factor.transpose()];
        for (row, gain) in model.measurements.iter().zip(steady.gains.k.chunks_exact(n)) {
            let last = &p[p.len() - 1];
            let ph: Vec<f64> = (0..n).map(|i| (0..n).map(|j| last[(i, j)] * row.h[j]).sum()).collect();
            p.push(Mat::from_fn(n, n, |i, j| last[(i, j)] - 0.5 * (gain[i] * ph[j] + ph[i] * gain[j])));
        }
        let step = &model.steps[step_at];
        let d_phi = step.d_phi.iter().map(|flat| square_mat(flat, n)).collect();
        Self { model, steady, phi: square_mat(&step.phi, n), d_phi, p, step_at }
    }

    /// Takes the derivative of the covariance over the measurements of a sample.
    fn update(&self, lane: usize, dp: &Mat<f64>) -> Updated {
        let n = self.model.n;
        let mut updated = Updated { ds: Vec::new(), dk: Vec::new(), dp: dp.clone() };
        let gains = &self.steady.gains;
        for (at, (gain, &s)) in gains.k.chunks_exact(n).zip(&gains.s).enumerate() {
            let (h, d_h) = self.model.row(at, lane);
            let (p, dp) = (&self.p[at], &mut updated.dp);
            let times = |a: &Mat<f64>, x: &[f64]| -> Vec<f64> {
                (0..n).map(|i| (0..n).map(|j| a[(i, j)] * x[j]).sum()).collect()
            };
            let mut dph = times(dp, h);
            let along = dot(h, &dph);
            let moved = times(p, d_h);
            let ds = along + 2.0 * dot(h, &moved) + self.model.d_variance(at, lane);
            dph.iter_mut().zip(&moved).for_each(|(sum, more)| *sum += more);
            for j in 0..n {
                for i in 0..n {
                    dp[(i, j)] += gain[i] * (gain[j] * ds - dph[j]) - dph[i] * gain[j];
                }
            }
            updated.dk.push((0..n).map(|i| (dph[i] - gain[i] * ds) / s).collect());
            updated.ds.push(ds);
        }
        updated
    }

    /// The derivatives of the limit itself: `dP = A dP A^T + R`.
    fn covariances(&self, closed: &Mat<f64>) -> Option<Vec<Mat<f64>>> {
        let n = self.model.n;
        let forced = |lane: usize| {
            let after = self.update(lane, &Mat::zeros(n, n)).dp;
            let half = &self.d_phi[lane] * &self.p[self.p.len() - 1] * self.phi.transpose();
            &self.phi * after * self.phi.transpose()
                + symmetric_sum(&half)
                + square_mat(&self.model.steps[self.step_at].d_covariance[lane], n)
        };
        sums_of_powers(closed, (0..self.d_phi.len()).map(forced).collect())
    }

    /// The map of a sample.
    fn map(&self) -> SampleMap {
        self.map_with(None).0
    }

    /// The derivative of that map.
    fn d_map(&self, lane: usize, updated: &Updated) -> SampleMap {
        self.map_with(Some((lane, updated))).1
    }

    fn map_with(&self, lane: Option<(usize, &Updated)>) -> (SampleMap, SampleMap) {
        let (model, gains) = (self.model, &self.steady.gains);
        let (n, m) = (model.n, model.measurements.len());
        let step = &model.steps[self.step_at];
        let width = step.inputs.len() / n;
        let n_columns = n + m + width;
        let orders = model.measurements.first().map_or(0, |row| row.feed.len().min(width));
        let (mut state, mut d_state) = (Mat::<f64>::zeros(n, n_columns), Mat::<f64>::zeros(n, n_columns));
        (0..n).for_each(|i| state[(i, i)] = 1.0);
        let (mut innovations, mut d_innovations) = (Mat::zeros(m, n_columns), Mat::zeros(m, n_columns));
        for (at, row) in model.measurements.iter().enumerate() {
            let (gain, s) = (&gains.k[at * n..(at + 1) * n], gains.s[at]);
            let scale = 1.0 / s.sqrt();
            for j in 0..n_columns {
                let mut e = if j == n + at { 1.0 } else { 0.0 };
                let of_input = j.checked_sub(n + m).filter(|&order| order < orders);
                e -= of_input.map_or(0.0, |order| row.feed[order]);
                e -= (0..n).map(|i| row.h[i] * state[(i, j)]).sum::<f64>();
                if let Some((lane, updated)) = lane {
                    let (d_h, d_feed) = (model.row(at, lane).1, model.d_feed(at, lane));
                    let mut de = -of_input.map_or(0.0, |order| d_feed[order]);
                    for i in 0..n {
                        de -= d_h[i] * state[(i, j)] + row.h[i] * d_state[(i, j)];
                    }
                    d_innovations[(at, j)] = scale * (de - 0.5 * updated.ds[at] / s * e);
                    for i in 0..n {
                        d_state[(i, j)] += updated.dk[at][i] * e + gain[i] * de;
                    }
                }
                innovations[(at, j)] = scale * e;
                for i in 0..n {
                    state[(i, j)] += gain[i] * e;
                }
            }
        }
        let add_inputs = |state: &mut Mat<f64>, inputs: &[f64]| {
            for (order, column) in inputs.chunks_exact(n).enumerate() {
                for i in 0..n {
                    state[(i, n + m + order)] += column[i];
                }
            }
        };
        if let Some((lane, _)) = lane {
            d_state = &self.phi * &d_state + &self.d_phi[lane] * &state;
            add_inputs(&mut d_state, &step.d_inputs[lane]);
        }
        state = &self.phi * state;
        add_inputs(&mut state, &step.inputs);
        (SampleMap { innovations, state }, SampleMap { innovations: d_innovations, state: d_state })
    }
}

/// `X = A X A^T + R` for several `R`; `None` if it does not converge.
pub(super) fn sums_of_powers(a: &Mat<f64>, mut sums: Vec<Mat<f64>>) -> Option<Vec<Mat<f64>>> {
    let n = a.nrows();
    if n < SMALL {
        return small_sums_of_powers(a, &sums);
    }
    let mut power = a.clone();
    for _ in 0..MOST_DOUBLINGS {
        let mut is_over = true;
        for sum in &mut sums {
            let more = &power * &*sum * power.transpose();
            *sum += &more;
            let size = more.norm_max();
            if !size.is_finite() {
                return None;
            }
            is_over &= size <= 1e-17 * sum.norm_max();
        }
        if is_over {
            return Some(sums.iter().map(|sum| symmetric_sum(sum) * Scale(0.5)).collect());
        }
        power = &power * &power;
    }
    None
}

/// The same by plain loops, in a few places of memory.
fn small_sums_of_powers(a: &Mat<f64>, sums: &[Mat<f64>]) -> Option<Vec<Mat<f64>>> {
    let n = a.nrows();
    let mut power = flat(a);
    let mut sums: Vec<Vec<f64>> = sums.iter().map(flat).collect();
    let (mut power_t, mut half, mut more) = (vec![0.0; n * n], vec![0.0; n * n], vec![0.0; n * n]);
    // Comparisons with NaN keep it.
    let larger = |largest: f64, x: &f64| if x.abs() > largest || x.is_nan() { x.abs() } else { largest };
    let largest = |a: &[f64]| a.iter().fold(0.0f64, larger);
    for _ in 0..MOST_DOUBLINGS {
        for j in 0..n {
            (0..n).for_each(|i| power_t[i * n + j] = power[j * n + i]);
        }
        let mut is_over = true;
        for sum in &mut sums {
            half.fill(0.0);
            add_square_product(&mut half, &power, sum, n);
            more.fill(0.0);
            add_square_product(&mut more, &half, &power_t, n);
            add_scaled(sum, 1.0, &more);
            let size = largest(&more);
            if !size.is_finite() {
                return None;
            }
            is_over &= size <= 1e-17 * largest(sum);
        }
        if is_over {
            let entry = |sum: &[f64], i: usize, j: usize| 0.5 * (sum[j * n + i] + sum[i * n + j]);
            return Some(sums.iter().map(|sum| Mat::from_fn(n, n, |i, j| entry(sum, i, j))).collect());
        }
        half.fill(0.0);
        add_square_product(&mut half, &power, &power, n);
        std::mem::swap(&mut power, &mut half);
    }
    None
}

/// Products of matrices for `q` samples, a power of 2, or their derivatives; found by doubling.
#[derive(Clone, Debug)]
pub(super) struct Powers {
    /// `E A^k` for `k < q`, one below the other.
    pub seen: Mat<f64>,
    /// `A^k B` for `k < q`, side by side.
    pub reached: Mat<f64>,
    /// `A`, `A^2`, `A^4` .. `A^q`.
    pub doubled: Vec<Mat<f64>>,
}

/// Two matrices, one below the other.
pub(super) fn above(upper: &Mat<f64>, lower: &Mat<f64>) -> Mat<f64> {
    let n = upper.nrows();
    let entry = |i: usize, j: usize| if i < n { upper[(i, j)] } else { lower[(i - n, j)] };
    Mat::from_fn(n + lower.nrows(), upper.ncols(), entry)
}

/// Two matrices side by side.
fn beside(left: &Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
    let n = left.ncols();
    let entry = |i: usize, j: usize| if j < n { left[(i, j)] } else { right[(i, j - n)] };
    Mat::from_fn(left.nrows(), n + right.ncols(), entry)
}

impl Powers {
    /// Those of one sample.
    fn of_one(sample: &SampleMap, n: usize) -> Self {
        let n_given = sample.state.ncols() - n;
        Self {
            seen: sample.innovations.as_ref().subcols(0, n).to_owned(),
            reached: sample.state.as_ref().subcols(n, n_given).to_owned(),
            doubled: vec![sample.state.as_ref().subcols(0, n).to_owned()],
        }
    }

    pub fn new(sample: &SampleMap, n: usize, q: usize) -> Self {
        let Self { mut seen, mut reached, mut doubled } = Self::of_one(sample, n);
        for level in 0..q.ilog2() as usize {
            let power = &doubled[level];
            seen = above(&seen, &(&seen * power));
            reached = beside(&reached, &(power * &reached));
            doubled.push(power * power);
        }
        Self { seen, reached, doubled }
    }

    /// `A^q`
    fn last(&self) -> &Mat<f64> {
        &self.doubled[self.doubled.len() - 1]
    }

    /// Derivatives: `d(X Y) = dX Y + X dY`.
    fn derivative(&self, d_sample: &SampleMap, n: usize) -> Self {
        let Self { mut seen, mut reached, mut doubled } = Self::of_one(d_sample, n);
        for (level, power) in self.doubled[..self.doubled.len() - 1].iter().enumerate() {
            let d_power = &doubled[level];
            let values =
                (self.seen.as_ref().subrows(0, seen.nrows()), self.reached.as_ref().subcols(0, reached.ncols()));
            seen = above(&seen, &(&seen * power + values.0 * d_power));
            reached = beside(&reached, &(power * &reached + d_power * values.1));
            doubled.push(d_power * power + power * d_power);
        }
        Self { seen, reached, doubled }
    }
}

impl Steady {
    /// The derivatives of what the samples from `first` to before `end` add to the likelihood, from the state `x` and
    /// its covariance `S S^T` on; `None` where they cannot be had safely.
    #[allow(clippy::too_many_arguments, reason = "what a stretch is and where it begins")]
    #[inline(always)]
    pub fn slope(
        &self,
        model: &FilterModel,
        data: &RunData<'_>,
        step_at: usize,
        stretch: std::ops::Range<usize>,
        x: &[f64],
        s: &[f64],
        begin: &Tangent,
    ) -> Option<StretchSlope> {
        let (n, m, q) = (model.n, self.block.n_measured, self.block.n_samples);
        let lanes = begin.dx.len();
        let limit = Limit::new(model, self, step_at);
        let sample = limit.map();
        let closed = sample.state.as_ref().subcols(0, n).to_owned();
        let (powers, map) = (&self.block.powers, &self.block.map);
        let limits = limit.covariances(&closed)?;
        let (mut ds, mut dk) = (Vec::new(), Vec::new());
        let mut d_maps = Vec::with_capacity(lanes);
        for (lane, dp) in limits.iter().enumerate() {
            let updated = limit.update(lane, dp);
            let d_sample = limit.d_map(lane, &updated);
            let d_powers = powers.derivative(&d_sample, n);
            d_maps.push(BlockMap::derivative(powers, &sample, &d_powers, &d_sample));
            ds.extend(&updated.ds);
            dk.extend(updated.dk.into_iter().flatten());
        }
        let shares: Vec<f64> = (0..lanes * m).map(|at| 0.5 * ds[at] / self.gains.s[at % m]).collect();
        let walk = Walk { map, d_maps: &d_maps, shares: &shares, n_kept: self.memory / q };
        let walked = walk.run(&self.block, data, stretch, x, &begin.dx);
        let correction = self.correction_slope(map, &d_maps, &walked, s, begin, &limits, &shares)?;
        let n_samples = walked.n_blocks * q;
        let mut information = walked.information;
        let gradient: Vec<f64> = (0..lanes)
            .map(|lane| {
                let logs: f64 = shares[lane * m..(lane + 1) * m].iter().sum();
                walked.gradient[lane] - logs * n_samples as f64 + correction.gradient[lane]
            })
            .collect();
        for a in 0..lanes {
            for b in 0..lanes {
                let variances = dot(&shares[a * m..(a + 1) * m], &shares[b * m..(b + 1) * m]);
                information[(a, b)] += 2.0 * variances * n_samples as f64 - correction.information[(a, b)];
            }
        }
        let dp = limits.iter().map(flat).collect();
        let is_finite = gradient.iter().all(|x| x.is_finite());
        is_finite.then_some(StretchSlope { gradient, information, end: Tangent { dx: walked.dx, dp }, ds, dk })
    }

    /// The derivative of what the covariance at the beginning changes, by parameter.
    #[allow(clippy::too_many_arguments, reason = "the value and the derivative of each part")]
    #[inline(always)]
    fn correction_slope(
        &self,
        map: &BlockMap,
        d_maps: &[BlockMap],
        walked: &Walked,
        s: &[f64],
        begin: &Tangent,
        limits: &[Mat<f64>],
        shares: &[f64],
    ) -> Option<CorrectionSlope> {
        let n = map.power.nrows();
        let factor = square_mat(s, n);
        let at_limit = square_mat(&self.factor, n);
        let difference = &factor * factor.transpose() - &at_limit * at_limit.transpose();
        let root = square_mat(&self.sensitivity, n);
        let seen = &root * root.transpose();
        let mut system = &difference * &seen;
        (0..n).for_each(|i| system[(i, i)] += 1.0);
        // U = (I + D S)^-1
        let inverse = PartialPivLu::new(system.as_ref()).solve(Mat::<f64>::identity(n, n));
        let spread = &inverse * &difference;
        // g = T^T e, backwards over the blocks that still feel the beginning: (e, g) of a block gives g before it.
        let (height, lanes) = (map.seen.nrows(), d_maps.len());
        let m = shares.len() / lanes.max(1);
        let mut ahead = vec![0.0; height + n];
        let mut d_ahead = vec![ahead.clone(); lanes];
        // T^T de, with innovations that are not scaled anew.
        let mut felt_ahead = d_ahead.clone();
        let mut next = vec![0.0; n];
        let blocks = walked.kept.chunks_exact(height).zip(walked.d_kept.chunks_exact(height * lanes));
        for (e, d_e) in blocks.rev() {
            ahead[..height].copy_from_slice(e);
            for (lane, d_e) in d_e.chunks_exact(height).enumerate() {
                let (d_ahead, felt) = (&mut d_ahead[lane], &mut felt_ahead[lane]);
                d_ahead[..height].copy_from_slice(d_e);
                let shares = shares[lane * m..(lane + 1) * m].iter().cycle();
                felt.iter_mut()
                    .zip(d_e)
                    .zip(e)
                    .zip(shares)
                    .for_each(|(((felt, d_e), e), share)| *felt = d_e + share * e);
                for (j, next) in next.iter_mut().enumerate() {
                    *next = d_maps[lane].back(j, &ahead) + map.back(j, d_ahead);
                }
                d_ahead[height..].copy_from_slice(&next);
                next.iter_mut().enumerate().for_each(|(j, next)| *next = map.back(j, felt));
                felt[height..].copy_from_slice(&next);
            }
            next.iter_mut().enumerate().for_each(|(j, next)| *next = map.back(j, &ahead));
            ahead[height..].copy_from_slice(&next);
        }
        let state = |ahead: &Vec<f64>| Mat::from_fn(n, 1, |i, _| ahead[height + i]);
        let (g, felt): (Mat<f64>, Vec<Mat<f64>>) = (state(&ahead), felt_ahead.iter().map(state).collect());
        let v = &spread * &g;
        let u = inverse.transpose() * &g;
        let pulled = &seen * &inverse;
        let form = |a: &Mat<f64>, x: &Mat<f64>| (x.transpose() * a * x)[(0, 0)];
        // tr((v v^T + N) dS) for all parameters at once: with Y = A Y A^T + v v^T + N it is 2 tr(Y (dE^T E + dA^T S A)).
        let weight = sums_of_powers(&map.power, vec![&v * v.transpose() + &spread])?.swap_remove(0);
        let pull = above(&map.seen, &(&seen * &map.power)) * weight;
        let of_lane = |(lane, d_map): (usize, &BlockMap)| {
            let d_difference = square_mat(&begin.dp[lane], n) - &limits[lane];
            let d_sensitivity: f64 = (0..n).map(|j| dot(d_map.whole.col_as_slice(j), pull.col_as_slice(j))).sum();
            let along: f64 = (0..n).map(|i| v[(i, 0)] * d_ahead[lane][height + i]).sum();
            along + 0.5 * (form(&d_difference, &u) - trace_of_product(&pulled, &d_difference)) - d_sensitivity
        };
        let gradient = d_maps.iter().enumerate().map(of_lane).collect();
        let spread_felt: Vec<Mat<f64>> = felt.iter().map(|felt| &spread * felt).collect();
        let information = Mat::from_fn(lanes, lanes, |a, b| (felt[a].transpose() * &spread_felt[b])[(0, 0)]);
        Some(CorrectionSlope { gradient, information })
    }
}

/// What the covariance at the beginning of a stretch changes.
struct CorrectionSlope {
    gradient: Vec<f64>,
    /// To be taken from the sum over all samples.
    information: Mat<f64>,
}

/// The samples of a stretch, block by block.
struct Walk<'a> {
    map: &'a BlockMap,
    d_maps: &'a [BlockMap],
    /// `[parameter][measurement]`: `ds / (2 s)`.
    shares: &'a [f64],
    /// Blocks whose innovations are kept.
    n_kept: usize,
}

struct Walked {
    n_blocks: usize,
    /// `-sum of e de`
    gradient: Vec<f64>,
    /// `sum of de de / s`, unscaled.
    information: Mat<f64>,
    dx: Vec<Vec<f64>>,
    /// Scaled innovations of the first blocks, and their derivatives: `[block][parameter][innovation]`.
    kept: Vec<f64>,
    d_kept: Vec<f64>,
}

impl Walk<'_> {
    #[inline(always)]
    fn run(
        &self,
        block: &Block,
        data: &RunData<'_>,
        stretch: std::ops::Range<usize>,
        x: &[f64],
        dx: &[Vec<f64>],
    ) -> Walked {
        let (n, lanes) = (x.len(), dx.len());
        let height = self.map.seen.nrows();
        let (rows, columns) = (self.map.whole.nrows(), self.map.whole.ncols());
        let m = self.shares.len() / lanes.max(1);
        let n_blocks = (stretch.end - stretch.start) / block.n_samples;
        let mut walked = Walked {
            n_blocks,
            gradient: vec![0.0; lanes],
            information: Mat::zeros(lanes, lanes),
            dx: dx.to_vec(),
            kept: Vec::new(),
            d_kept: Vec::new(),
        };
        let stacked = Mat::from_fn(lanes * rows, columns, |i, j| self.d_maps[i / rows].whole[(i % rows, j)]);
        let power = flat(&self.map.power);
        let mut x = x.to_vec();
        for first in (0..n_blocks).step_by(CHUNK) {
            let n_here = CHUNK.min(n_blocks - first);
            let begin = stretch.start + first * block.n_samples;
            let given = block.given(data, begin..begin + n_here * block.n_samples);
            let (mut states, mut innovations) = (vec![0.0; n * n_here], vec![0.0; height * n_here]);
            block.advance(&given, &mut x, &mut states, &mut innovations);
            let mut driven = stacked.as_ref().subcols(0, n) * matrix(&states, n);
            block.add_given(driven.as_mut(), stacked.as_ref(), &given);
            let mut slopes: Vec<Mat<f64>> = Vec::with_capacity(lanes);
            for (lane, dx) in walked.dx.iter_mut().enumerate() {
                let mut before = Mat::<f64>::zeros(n, n_here);
                for at in 0..n_here {
                    before.col_as_slice_mut(at).copy_from_slice(dx);
                    let state = lane * rows + height;
                    dx.copy_from_slice(&driven.col_as_slice(at)[state..state + n]);
                    add_product(dx, &power, before.col_as_slice(at));
                }
                slopes.push(&self.map.seen * before + driven.as_ref().subrows(lane * rows, height));
            }
            for at in 0..n_here.min(self.n_kept.saturating_sub(first)) {
                walked.kept.extend(&innovations[at * height..(at + 1) * height]);
                slopes.iter().for_each(|slopes| walked.d_kept.extend(slopes.col_as_slice(at)));
            }
            for at in 0..n_here {
                let e = &innovations[at * height..(at + 1) * height];
                for (lane, slope) in slopes.iter_mut().enumerate() {
                    let slope = slope.col_as_slice_mut(at);
                    walked.gradient[lane] -= dot(e, slope);
                    let shares = self.shares[lane * m..(lane + 1) * m].iter().cycle();
                    slope.iter_mut().zip(e).zip(shares).for_each(|((slope, e), share)| *slope += share * e);
                }
                for a in 0..lanes {
                    for b in 0..=a {
                        walked.information[(a, b)] += dot(slopes[a].col_as_slice(at), slopes[b].col_as_slice(at));
                    }
                }
            }
        }
        for a in 0..lanes {
            for b in 0..a {
                walked.information[(b, a)] = walked.information[(a, b)];
            }
        }
        walked
    }
}
