//! What data to come tell of the unknowns of a linear model, on average over the disturbances.
//!
//! The likelihood of Gaussian data is a sum over innovations `e_k` of variance `s_k`, and its expected information is
//!
//! ```text
//! I_ij = sum over k of  E[de_k/di de_k/dj] / s_k  +  ds_k/di ds_k/dj / (2 s_k^2)
//! ```
//!
//! [@cavanaugh1996], which is `dmu_i' S^-1 dmu_j + tr(S^-1 dS_i S^-1 dS_j) / 2` of the joint density of mean mu and
//! covariance S [@klein2000]. Under the true model innovations are independent of each other, and the filter's estimate
//! deviates from its mean by xi, which is linear in the innovations so far, as its sensitivities delta_i are:
//!
//! ```text
//! rho_i = dh_i xi + h delta_i,     de_i = E[de_i] - rho_i
//! a value:   xi <- xi + K e,       delta_i <- delta_i + dK_i e - K rho_i,     E[e^2] = s
//! a step:    xi <- Phi xi,         delta_i <- Phi delta_i + dPhi_i xi
//! ```
//!
//! So the covariance of `(xi, delta_1, ..)` obeys a recursion that is exact, begins at zero and asks for no data. What
//! disturbances add to the information of the expected record is `R_ij = sum over k of E[rho_i rho_j] / s_k`: the same
//! for all inputs, since means do not enter.
//!
//! The derivatives of a start that is estimated with the unknowns are means; what they take away from the information of
//! the expected record does not concern R. A start of infinite prior variance is counted like one that is estimated: the
//! two differ by as much as a few values tell, however long the record is.

use faer::{Mat, MatRef};

use crate::descriptor::ParametricModel;
use crate::error::EstimateError;
use crate::filter::{FilterModel, RunData};
use crate::kernel::matrix;
use crate::likelihood::{Derivatives, Likelihood, Scope};

/// Relative innovation variance below which a value is known beforehand, as in the filter.
const CERTAIN: f64 = 1e-14;

/// Multiplications that are done at most.
const MOST_MULTIPLICATIONS: f64 = 3e10;

impl<M: ParametricModel> Likelihood<'_, M> {
    /// R: what disturbances add on average to the information of the expected record, `[unknown][unknown]`. Of the data
    /// only times and empty cells count. `None` where that has no bound, since a value without error tells an unknown
    /// start, or where it is too much work.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn information_of_disturbances(&self, theta: &[f64]) -> Result<Option<Mat<f64>>, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::All, Scope::Measured)?;
        let p = theta.len();
        let mut information = Mat::zeros(p, p);
        for (at, start) in assembled.starts.iter().enumerate() {
            let data = self.run_data(at, &assembled, start);
            let n = assembled.filter.n as f64;
            let work = data.experiment.times.len() as f64 * n.powi(3) * (1.0 + p as f64).powi(2) * 4.0;
            if work > MOST_MULTIPLICATIONS {
                return Ok(None);
            }
            let Some(found) = Spread::new(&assembled.filter, &data).information(&data)? else { return Ok(None) };
            information += found;
        }
        Ok(Some(information))
    }
}

/// Covariances on the way of the filter.
struct Spread<'m> {
    model: &'m FilterModel,
    /// P, of the error of the estimate.
    p: Mat<f64>,
    /// Its derivatives.
    dp: Vec<Mat<f64>>,
    /// Of (xi, delta_1, ..).
    joint: Mat<f64>,
}

/// Makes a matrix symmetric.
fn symmetric(a: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| 0.5 * (a[(i, j)] + a[(j, i)]))
}

/// The product of a matrix with a vector.
fn along(a: MatRef<'_, f64>, x: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.nrows()];
    for (column, x) in a.col_iter().zip(x) {
        sum.iter_mut().zip(column.iter()).for_each(|(sum, a)| *sum += a * x);
    }
    sum
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl<'m> Spread<'m> {
    fn new(model: &'m FilterModel, data: &RunData<'_>) -> Self {
        let dp: Vec<Mat<f64>> = data.start.derivatives.iter().map(|start| start.covariance.clone()).collect();
        let size = model.n * (1 + dp.len());
        Self { model, p: data.start.value.covariance.clone(), dp, joint: Mat::zeros(size, size) }
    }

    /// R of one record.
    fn information(mut self, data: &RunData<'_>) -> Result<Option<Mat<f64>>, EstimateError> {
        let experiment = data.experiment;
        let m = self.model.measurements.len();
        let mut information = Mat::zeros(self.dp.len(), self.dp.len());
        let first = experiment.segment_of.first().copied().unwrap_or(0);
        (0..first).for_each(|piece| self.step(data, piece));
        for sample in 0..experiment.times.len() {
            let sizes: Vec<f64> = (0..self.model.n).map(|i| self.p[(i, i)].max(0.0)).collect();
            for at in 0..m {
                if experiment.measurements[sample * m + at].is_nan() {
                    continue;
                }
                let Some(told) = self.value(data, sample, at, &sizes)? else { return Ok(None) };
                if sample >= experiment.first_counted {
                    information += told;
                }
            }
            let from = experiment.segment_of[sample];
            let until = experiment.segment_of.get(sample + 1).copied().unwrap_or(from);
            (from..until).for_each(|piece| self.step(data, piece));
        }
        Ok(Some(information))
    }

    /// What a value tells, `E[rho_i rho_j] / s`; `None` where it has no error and tells the start.
    fn value(
        &mut self,
        data: &RunData<'_>,
        sample: usize,
        at: usize,
        sizes: &[f64],
    ) -> Result<Option<Mat<f64>>, EstimateError> {
        let (n, lanes, m) = (self.model.n, self.dp.len(), self.model.measurements.len());
        let row = &self.model.measurements[at];
        let r = data.variances.map_or(row.variance, |table| table.value[sample * m + at]);
        if r < 0.0 {
            return Err(EstimateError::NegativeVariance { measurement: at, value: r });
        }
        let ph = along(self.p.as_ref(), &row.h);
        let s = dot(&row.h, &ph) + r;
        if !s.is_finite() {
            return Err(EstimateError::Overflow { time: data.experiment.times[sample] });
        }
        let scale: f64 = row.h.iter().zip(sizes).map(|(h, size)| h * h * size).sum();
        if s <= CERTAIN * scale || s == 0.0 {
            // It is known beforehand, or tells the start alone.
            return Ok((data.start.value.directions.ncols() == 0).then(|| Mat::zeros(lanes, lanes)));
        }
        let gain: Vec<f64> = ph.iter().map(|x| x / s).collect();
        // (K, dK_1, ..), and the rows of rho on the joint state.
        let mut gains = gain.clone();
        let mut rows = Vec::with_capacity(lanes);
        for lane in 0..lanes {
            let (h, dh) = self.model.row(at, lane);
            let dr = data
                .variances
                .map_or(self.model.d_variance(at, lane), |table| table.derivatives[lane][sample * m + at]);
            let mut dph = along(self.dp[lane].as_ref(), h);
            let ds = dot(h, &dph) + 2.0 * dot(dh, &ph) + dr;
            dph.iter_mut().zip(along(self.p.as_ref(), dh)).for_each(|(sum, more)| *sum += more);
            gains.extend((0..n).map(|i| (dph[i] - gain[i] * ds) / s));
            let dp = &self.dp[lane];
            self.dp[lane] =
                Mat::from_fn(n, n, |i, j| dp[(i, j)] - dph[i] * gain[j] - gain[i] * dph[j] + gain[i] * gain[j] * ds);
            rows.push((lane, h, dh));
        }
        let reduced = Mat::from_fn(n, n, |i, j| self.p[(i, j)] - gain[i] * ph[j]);
        let left = along(reduced.as_ref(), &row.h);
        self.p = symmetric(&Mat::from_fn(n, n, |i, j| reduced[(i, j)] + (r * gain[i] - left[i]) * gain[j]));
        // rho of all lanes with the joint state, by its columns.
        let rho = |joint: &Mat<f64>| -> Vec<Vec<f64>> {
            let of = |&(lane, h, dh): &(usize, &[f64], &[f64])| {
                let mut sum = along(joint.as_ref().subcols(0, n), dh);
                let own = along(joint.as_ref().subcols(n * (1 + lane), n), h);
                sum.iter_mut().zip(own).for_each(|(sum, more)| *sum += more);
                sum
            };
            rows.iter().map(of).collect()
        };
        let before = rho(&self.joint);
        let with = |i: usize, j: usize| {
            let (_, h, dh) = rows[j];
            dot(dh, &before[i][..n]) + dot(h, &before[i][n * (1 + j)..n * (2 + j)])
        };
        let told = Mat::from_fn(lanes, lanes, |i, j| 0.5 * (with(i, j) + with(j, i)) / s);
        for (lane, row) in before.iter().enumerate() {
            for (j, x) in row.iter().enumerate() {
                (0..n).for_each(|i| self.joint[(n * (1 + lane) + i, j)] -= gain[i] * x);
            }
        }
        for (lane, column) in rho(&self.joint).iter().enumerate() {
            for (j, factor) in gain.iter().enumerate() {
                column.iter().enumerate().for_each(|(i, x)| self.joint[(i, n * (1 + lane) + j)] -= factor * x);
            }
        }
        for (j, b) in gains.iter().enumerate() {
            gains.iter().enumerate().for_each(|(i, a)| self.joint[(i, j)] += a * b * s);
        }
        Ok(Some(told))
    }

    fn step(&mut self, data: &RunData<'_>, piece: usize) {
        let Some(at) = data.step_of[piece] else { return };
        let (n, lanes) = (self.model.n, self.dp.len());
        let step = &self.model.steps[at];
        let phi = matrix(&step.phi, n);
        // Rows, then columns.
        let moved = |joint: &Mat<f64>| -> Mat<f64> {
            let mut next = Mat::zeros(joint.nrows(), joint.ncols());
            let common = joint.as_ref().subrows(0, n);
            next.as_mut().subrows_mut(0, n).copy_from(&(phi * common));
            for lane in 0..lanes {
                let own = joint.as_ref().subrows(n * (1 + lane), n);
                let rows = phi * own + matrix(&step.d_phi[lane], n) * common;
                next.as_mut().subrows_mut(n * (1 + lane), n).copy_from(&rows);
            }
            next
        };
        self.joint = symmetric(&moved(&moved(&self.joint).transpose().to_owned()));
        for lane in 0..lanes {
            let half = matrix(&step.d_phi[lane], n) * &self.p * phi.transpose();
            let spread = phi * &self.dp[lane] * phi.transpose() + matrix(&step.d_covariance[lane], n);
            self.dp[lane] = symmetric(&(spread + &half + half.transpose()));
        }
        let noise = matrix(&step.noise, n);
        self.p = symmetric(&(phi * &self.p * phi.transpose() + noise * noise.transpose()));
    }
}
