//! Predictions several samples ahead, and without any measurement.
//!
//! After sample j a filter has a mean x and a covariance P from the measurements up to j. Its prediction of sample
//! j + k uses none of the measurements in between:
//!
//! ```text
//! x(j+1|j) = Phi x + inputs,  P(j+1|j) = Phi P Phi' + Q,  and so on k times,      y = h x(j+k|j),  var = h P(j+k|j) h' + r
//! ```
//!
//! [@ljung1999, sec. 3.2]. A sample with fewer than k samples before it, and every sample of a free run, is predicted
//! from the start. A start that is not known is estimated from all measurements of the record first.

use std::collections::VecDeque;

use faer::Mat;

use crate::descriptor::ParametricModel;
use crate::error::EstimateError;
use crate::filter::RunData;
use crate::likelihood::{Assembled, Derivatives, Likelihood, Scope};
use crate::online::{dot, fed, square_factor, times};
use crate::smooth::Road;

/// How far ahead a prediction looks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Horizon {
    /// This many samples.
    Samples(usize),
    /// To the end: no measurement is used.
    Free,
}

/// Predictions of one experiment with one horizon, `[sample * n_measured + measurement]`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ahead {
    /// Predicted measurements.
    pub means: Vec<f64>,
    /// Variances of the prediction errors.
    pub variances: Vec<f64>,
}

/// What is believed after the last `n` samples, the latest first, and without any.
#[derive(Clone, Debug)]
pub(crate) struct Beliefs<B> {
    after: VecDeque<B>,
    pub(crate) free: B,
    longest: usize,
}

impl<B: Clone> Beliefs<B> {
    pub(crate) fn new(start: B, horizons: &[Horizon]) -> Self {
        let samples = horizons.iter().map(|horizon| match horizon {
            Horizon::Samples(n) => *n,
            Horizon::Free => 1,
        });
        Self { after: VecDeque::new(), free: start, longest: samples.max().unwrap_or(1).max(1) }
    }

    /// The belief that a prediction with a horizon comes from.
    pub(crate) fn of(&self, horizon: Horizon) -> &B {
        match horizon {
            Horizon::Samples(n) => self.after.get(n.max(1) - 1).unwrap_or(&self.free),
            Horizon::Free => &self.free,
        }
    }

    /// The belief from all measurements so far.
    pub(crate) fn latest(&self) -> &B {
        self.after.front().unwrap_or(&self.free)
    }

    /// A sample was taken.
    pub(crate) fn push(&mut self, corrected: B) {
        self.after.push_front(corrected);
        self.after.truncate(self.longest);
    }

    /// All of them, to be moved on.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut B> {
        self.after.iter_mut().chain(std::iter::once(&mut self.free))
    }
}

/// A mean and a square root of a covariance.
#[derive(Clone, Debug)]
struct Belief {
    mean: Vec<f64>,
    factor: Mat<f64>,
}

/// The row of a measurement at a sample.
struct Seen {
    row: Vec<f64>,
    fed: f64,
    variance: f64,
}

impl Belief {
    fn predict(&self, seen: &Seen) -> (f64, f64) {
        let along = self.along(&seen.row);
        (dot(&seen.row, &self.mean) + seen.fed, dot(&along, &along) + seen.variance)
    }

    fn along(&self, row: &[f64]) -> Vec<f64> {
        let n = row.len();
        (0..n).map(|k| (0..n).map(|i| self.factor[(i, k)] * row[i]).sum()).collect()
    }

    /// Takes a measured value; one that is known exactly already says nothing.
    fn correct(&mut self, seen: &Seen, value: f64) {
        let n = seen.row.len();
        let along = self.along(&seen.row);
        let (mean, variance) = self.predict(seen);
        let sizes: f64 =
            (0..n).map(|i| seen.row[i].powi(2) * (0..n).map(|k| self.factor[(i, k)].powi(2)).sum::<f64>()).sum();
        if variance <= 1e-14 * sizes || variance == 0.0 {
            return;
        }
        let gain: Vec<f64> = times(&self.factor, &along).iter().map(|entry| entry / variance).collect();
        let shrink = 1.0 / (1.0 + (seen.variance / variance).sqrt());
        for (i, gain) in gain.iter().enumerate() {
            self.mean[i] += gain * (value - mean);
            for (k, along) in along.iter().enumerate() {
                self.factor[(i, k)] -= shrink * gain * along;
            }
        }
    }
}

impl<M: ParametricModel> Likelihood<'_, M> {
    /// Predictions of all measurements with each horizon: `[experiment][horizon]`.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn ahead(&self, theta: &[f64], horizons: &[Horizon]) -> Result<Vec<Vec<Ahead>>, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Measured)?;
        let mut all = Vec::new();
        for (at, start) in assembled.starts.iter().enumerate() {
            let found = match start.value.directions.ncols() {
                0 => None,
                _ => Some(self.find_start(at, &assembled, start)?),
            };
            let start = found.as_ref().map_or(start, |found| &found.start);
            all.push(ahead(&assembled, &self.run_data(at, &assembled, start), horizons)?);
        }
        Ok(all)
    }
}

fn ahead(assembled: &Assembled, data: &RunData<'_>, horizons: &[Horizon]) -> Result<Vec<Ahead>, EstimateError> {
    let space = assembled.space();
    let (n, m) = (assembled.filter.n, space.measured.state.nrows());
    let experiment = data.experiment;
    let start = &data.start.value;
    let road = Road::new(&assembled.filter, data);
    let first = Belief { mean: start.mean.clone(), factor: square_factor(&start.covariance) };
    let mut beliefs = Beliefs::new(first, horizons);
    for segment in 0..experiment.segment_of.first().copied().unwrap_or(0) {
        beliefs.iter_mut().for_each(|belief| road.advance(&mut belief.mean, &mut belief.factor, segment));
    }
    let mut found = vec![Ahead::default(); horizons.len()];
    for (sample, &time) in experiment.times.iter().enumerate() {
        let segment = experiment.segment_of[sample];
        let seen: Vec<Seen> = (0..m)
            .map(|measurement| Seen {
                row: (0..n).map(|j| space.measured.state[(measurement, j)]).collect(),
                fed: fed(&space.measured.inputs, measurement, data.inputs_of(segment), experiment.n_inputs),
                variance: data.variances.map_or(assembled.coefficients.variances[measurement], |table| {
                    table.value[sample * m + measurement]
                }),
            })
            .collect();
        for (found, &horizon) in found.iter_mut().zip(horizons) {
            for seen in &seen {
                let (mean, variance) = beliefs.of(horizon).predict(seen);
                if !mean.is_finite() || !variance.is_finite() {
                    return Err(EstimateError::Overflow { time });
                }
                found.means.push(mean);
                found.variances.push(variance);
            }
        }
        let mut corrected = beliefs.latest().clone();
        for (seen, &value) in seen.iter().zip(&experiment.measurements[sample * m..]) {
            if !value.is_nan() {
                corrected.correct(seen, value);
            }
        }
        beliefs.push(corrected);
        let end = experiment.segment_of.get(sample + 1).copied().unwrap_or(segment);
        for piece in segment..end {
            beliefs.iter_mut().for_each(|belief| road.advance(&mut belief.mean, &mut belief.factor, piece));
        }
    }
    Ok(found)
}
