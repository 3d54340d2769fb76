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
//! dS = dE^T E + E^T dE + dA^T S A + A^T S dA + A^T dS A         over blocks, by doubling
//! ```
//!
//! The information about means is `de^T (I + T D T^T)^-1 de`, so that `(T^T de)^T N (T^T de)` is taken from its sum;
//! that about variances is the one of constant gains.

use faer::linalg::solvers::{PartialPivLu, Solve};
use faer::{Mat, Scale};

use super::{Block, Steady};
use crate::filter::{FilterModel, RunData};
use crate::kernel::{add_product, dot};

/// Blocks that are worked on as one product.
const CHUNK: usize = 64;

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
struct SampleMap {
    innovations: Mat<f64>,
    state: Mat<f64>,
}

/// The map of a block of samples, or a derivative of it.
struct BlockMap {
    /// Innovations by the state before the block.
    seen: Mat<f64>,
    /// The state after it by that before it.
    power: Mat<f64>,
    /// All of it, innovations before the state.
    whole: Mat<f64>,
}

fn square_mat(flat: &[f64], n: usize) -> Mat<f64> {
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

    /// The derivative of the limit itself: `dP = A dP A^T + R`.
    fn covariance(&self, lane: usize, closed: &Mat<f64>) -> Option<Mat<f64>> {
        let n = self.model.n;
        let after = self.update(lane, &Mat::zeros(n, n)).dp;
        let half = &self.d_phi[lane] * &self.p[self.p.len() - 1] * self.phi.transpose();
        let forced = &self.phi * after * self.phi.transpose()
            + symmetric_sum(&half)
            + square_mat(&self.model.steps[self.step_at].d_covariance[lane], n);
        sum_of_powers(closed, forced)
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

/// `X = A X A^T + R`; `None` if it does not converge.
fn sum_of_powers(a: &Mat<f64>, r: Mat<f64>) -> Option<Mat<f64>> {
    let (mut power, mut sum) = (a.clone(), r);
    for _ in 0..MOST_DOUBLINGS {
        let more = &power * &sum * power.transpose();
        sum += &more;
        let size = more.norm_max();
        if !size.is_finite() {
            return None;
        }
        if size <= 1e-17 * sum.norm_max() {
            return Some(symmetric_sum(&sum) * Scale(0.5));
        }
        power = &power * &power;
    }
    None
}

/// Products of matrices with derivatives: those of `q` samples from that of one.
struct Powers {
    /// `E A^k`, then `A^k B`, for `k < q`, and `A^q`.
    seen: Vec<Mat<f64>>,
    reached: Vec<Mat<f64>>,
    last: Mat<f64>,
}

impl Powers {
    fn new(sample: &SampleMap, n: usize, q: usize) -> Self {
        let a = sample.state.as_ref().subcols(0, n).to_owned();
        let n_given = sample.state.ncols() - n;
        let mut seen = vec![sample.innovations.as_ref().subcols(0, n).to_owned()];
        let mut reached = vec![sample.state.as_ref().subcols(n, n_given).to_owned()];
        let mut last = a.clone();
        for k in 1..q {
            seen.push(&seen[k - 1] * &a);
            reached.push(&a * &reached[k - 1]);
            last = &a * last;
        }
        Self { seen, reached, last }
    }

    /// Derivatives: `d(X Y) = dX Y + X dY`.
    fn derivative(&self, sample: &SampleMap, d_sample: &SampleMap, n: usize) -> Self {
        let of_state = |map: &SampleMap| map.state.as_ref().subcols(0, n).to_owned();
        let (a, da) = (of_state(sample), of_state(d_sample));
        let n_given = sample.state.ncols() - n;
        let mut seen = vec![d_sample.innovations.as_ref().subcols(0, n).to_owned()];
        let mut reached = vec![d_sample.state.as_ref().subcols(n, n_given).to_owned()];
        let mut last = da.clone();
        let mut power = a.clone();
        for k in 1..self.seen.len() {
            seen.push(&seen[k - 1] * &a + &self.seen[k - 1] * &da);
            reached.push(&a * &reached[k - 1] + &da * &self.reached[k - 1]);
            last = &a * last + &da * &power;
            power = &a * power;
        }
        Self { seen, reached, last }
    }
}

/// Puts the map of a block together; `direct` is what measurements and inputs of a sample do to its innovations, and
/// `later(k)` to those `k + 1` samples after it.
fn block_map(powers: Powers, direct: &Mat<f64>, later: &[Mat<f64>], m: usize) -> BlockMap {
    let (q, n) = (powers.seen.len(), powers.last.nrows());
    let (height, width) = (q * m, direct.ncols() - m);
    let mut whole = Mat::zeros(height + n, n + q * (m + width));
    let mut seen = Mat::zeros(height, n);
    for (k, part) in powers.seen.iter().enumerate() {
        for j in 0..n {
            for i in 0..m {
                seen[(k * m + i, j)] = part[(i, j)];
                whole[(k * m + i, j)] = part[(i, j)];
            }
        }
    }
    for j in 0..n {
        for i in 0..n {
            whole[(height + i, j)] = powers.last[(i, j)];
        }
    }
    for sample in 0..q {
        for j in 0..m + width {
            let column = if j < m { n + sample * m + j } else { n + height + sample * width + (j - m) };
            for i in 0..m {
                whole[(sample * m + i, column)] = direct[(i, j)];
                for after in sample + 1..q {
                    whole[(after * m + i, column)] = later[after - sample - 1][(i, j)];
                }
            }
            for i in 0..n {
                whole[(height + i, column)] = powers.reached[q - 1 - sample][(i, j)];
            }
        }
    }
    BlockMap { seen, power: powers.last, whole }
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
        let n_given = sample.state.ncols() - n;
        let powers = Powers::new(&sample, n, q);
        let direct = |map: &SampleMap| map.innovations.as_ref().subcols(n, n_given).to_owned();
        let given = &powers.reached[0];
        let mut limits = Vec::with_capacity(lanes);
        let (mut ds, mut dk) = (Vec::new(), Vec::new());
        let mut d_maps = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let dp = limit.covariance(lane, &closed)?;
            let updated = limit.update(lane, &dp);
            let d_sample = limit.d_map(lane, &updated);
            let d_powers = powers.derivative(&sample, &d_sample, n);
            let d_given = d_sample.state.as_ref().subcols(n, n_given);
            let later: Vec<Mat<f64>> = (0..q).map(|k| &d_powers.seen[k] * given + &powers.seen[k] * d_given).collect();
            d_maps.push(block_map(d_powers, &direct(&d_sample), &later, m));
            ds.extend(&updated.ds);
            dk.extend(updated.dk.into_iter().flatten());
            limits.push(dp);
        }
        let later: Vec<Mat<f64>> = powers.seen.iter().map(|seen| seen * given).collect();
        let map = block_map(powers, &direct(&sample), &later, m);
        let shares: Vec<f64> = (0..lanes * m).map(|at| 0.5 * ds[at] / self.gains.s[at % m]).collect();
        let walk = Walk { map: &map, d_maps: &d_maps, shares: &shares, n_kept: self.memory / q };
        let walked = walk.run(&self.block, data, stretch, x, &begin.dx);
        let correction = self.correction_slope(&map, &d_maps, &walked, s, begin, &limits, &shares)?;
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
        let dp = limits.iter().map(crate::kernel::flat).collect();
        let is_finite = gradient.iter().all(|x| x.is_finite());
        is_finite.then_some(StretchSlope { gradient, information, end: Tangent { dx: walked.dx, dp }, ds, dk })
    }

    /// The derivative of what the covariance at the beginning changes, by parameter.
    #[allow(clippy::too_many_arguments, reason = "the value and the derivative of each part")]
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
        // g = T^T e, backwards over the blocks that still feel the beginning.
        let mut g = Mat::<f64>::zeros(n, 1);
        let mut dg = vec![Mat::<f64>::zeros(n, 1); d_maps.len()];
        // T^T de, with innovations that are not scaled anew.
        let mut felt = dg.clone();
        let m = shares.len() / d_maps.len().max(1);
        for (e, d_e) in walked.kept.iter().zip(&walked.d_kept).rev() {
            for ((lane, felt), d_e) in felt.iter_mut().enumerate().zip(d_e) {
                let shares = &shares[lane * m..(lane + 1) * m];
                let d_e = Mat::from_fn(e.nrows(), 1, |i, _| d_e[(i, 0)] + shares[i % m] * e[(i, 0)]);
                *felt = map.seen.transpose() * d_e + map.power.transpose() * &*felt;
            }
            for ((dg, d_map), d_e) in dg.iter_mut().zip(d_maps).zip(d_e) {
                *dg = d_map.seen.transpose() * e
                    + map.seen.transpose() * d_e
                    + d_map.power.transpose() * &g
                    + map.power.transpose() * &*dg;
            }
            g = map.seen.transpose() * e + map.power.transpose() * &g;
        }
        let v = &spread * &g;
        let u = inverse.transpose() * &g;
        let pulled = &seen * &inverse;
        let seen_power = &seen * &map.power;
        let transposed = map.power.transpose().to_owned();
        let form = |a: &Mat<f64>, x: &Mat<f64>| (x.transpose() * a * x)[(0, 0)];
        let trace = |a: &Mat<f64>, b: &Mat<f64>| -> f64 {
            (0..n).map(|i| (0..n).map(|j| a[(i, j)] * b[(j, i)]).sum::<f64>()).sum()
        };
        let gradient: Option<Vec<f64>> = d_maps
            .iter()
            .enumerate()
            .map(|(lane, d_map)| {
                let half = d_map.seen.transpose() * &map.seen + d_map.power.transpose() * &seen_power;
                let d_seen = sum_of_powers(&transposed, symmetric_sum(&half))?;
                let d_difference = square_mat(&begin.dp[lane], n) - &limits[lane];
                let along = (0..n).map(|i| v[(i, 0)] * dg[lane][(i, 0)]).sum::<f64>();
                Some(
                    along + 0.5 * (form(&d_difference, &u) - form(&d_seen, &v))
                        - 0.5 * (trace(&pulled, &d_difference) + trace(&spread, &d_seen)),
                )
            })
            .collect();
        let lanes = d_maps.len();
        let spread_felt: Vec<Mat<f64>> = felt.iter().map(|felt| &spread * felt).collect();
        let information = Mat::from_fn(lanes, lanes, |a, b| (felt[a].transpose() * &spread_felt[b])[(0, 0)]);
        Some(CorrectionSlope { gradient: gradient?, information })
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
    /// Scaled innovations of the first blocks, and their derivatives by block and parameter.
    kept: Vec<Mat<f64>>,
    d_kept: Vec<Vec<Mat<f64>>>,
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
        let power = crate::kernel::flat(&self.map.power);
        let mut x = x.to_vec();
        for first in (0..n_blocks).step_by(CHUNK) {
            let n_here = CHUNK.min(n_blocks - first);
            let mut given = Mat::<f64>::zeros(columns, n_here);
            let mut innovations = Mat::<f64>::zeros(height, n_here);
            let begin = stretch.start + first * block.n_samples;
            block.each(data, begin..begin + n_here * block.n_samples, &mut x, |at, parts, found| {
                let mut column = given.col_as_slice_mut(at);
                for part in parts {
                    let (place, rest) = column.split_at_mut(part.len());
                    place.copy_from_slice(part);
                    column = rest;
                }
                innovations.col_as_slice_mut(at).copy_from_slice(&found[..height]);
            });
            let driven = &stacked * &given;
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
                let column = |a: &Mat<f64>| a.as_ref().subcols(at, 1).to_owned();
                walked.kept.push(column(&innovations));
                walked.d_kept.push(slopes.iter().map(column).collect());
            }
            for at in 0..n_here {
                let e = innovations.col_as_slice(at);
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
