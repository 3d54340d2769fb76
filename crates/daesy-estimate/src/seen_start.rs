//! An unknown start as the measurements see it.
//!
//! With `x(t_0) = x_0 + D delta`, the noise-free measured values are `y_0 + X delta`. Weighted by the accuracies of the
//! measurements, `W X = U R^T` with orthonormal columns `U`; `delta = R^-T eta` gives unknowns `eta` that data
//! determine equally well and leaves out what they do not determine at all. Likelihoods depend on `eta` through `U`
//! alone, hence neither on the choice of `D` nor on units of variables.
//!
//! An infinite prior variance of `delta` needs a unit, for `-log det A / 2` with the information `A` about `delta`
//! changes when `delta` is measured otherwise, possibly in dependence on the parameters. The unit is taken from the
//! measurements: with `r` independent rows `X_1` of `X`, the first in time,
//!
//! ```text
//! log L = (all terms of a known start) - log det A / 2 + log |det X_1|
//! ```
//!
//! is, but for `r log(2 pi) / 2`, the log-density of the `N - r` values `y_2 - X_2 X_1^-1 y_1`, whose distribution has
//! no unknown start in it. It is the same for every choice of `D`, of order and of units; and it is the usual exact
//! diffuse likelihood where the start itself is what the first samples measure. [@dejong1991; @francke2010]

use faer::Mat;
use faer::linalg::solvers::Solve;

use crate::descriptor::ParametricModel;
use crate::error::EstimateError;
use crate::filter::{FilterModel, RunData};
use crate::kernel::{add_product, dot};
use crate::likelihood::{Derivatives, Likelihood, Scope};
use crate::start::StartJet;

/// A measured value: sample and measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Present {
    sample: usize,
    measurement: usize,
}

/// `U`, `R^-T` and where the rows come from.
pub(crate) struct SeenStart {
    /// `R^-T`, of as many columns as data determine.
    pub transform: Mat<f64>,
    rows: Vec<Present>,
    /// Standard deviations by row.
    deviations: Vec<f64>,
    seen: Mat<f64>,
}

/// Relative singular value below which data do not determine a direction.
const UNSEEN: f64 = 1e-10;

/// Relative independence that is asked of the rows that set the unit.
const INDEPENDENT: f64 = 1e-6;

/// Free responses beyond this size say no more than those before.
const HUGE: f64 = 1e100;

impl SeenStart {
    pub fn new(model: &FilterModel, data: &RunData<'_>) -> Self {
        let directions = &data.start.value.directions;
        let q = directions.ncols();
        let deviations_of = deviations(model, data);
        let (mut rows, mut deviations, mut response) = (Vec::new(), Vec::new(), Vec::new());
        let mut columns: Vec<Vec<f64>> = (0..q).map(|j| column(directions, j)).collect();
        let mut walk = Walk::new(model, data);
        while let Some(sample) = walk.next(&mut |phi| columns.iter_mut().for_each(|column| advance(column, phi, None)))
        {
            for (measurement, row) in model.measurements.iter().enumerate() {
                let deviation = deviations_of(sample, measurement);
                if let Some(deviation) = deviation {
                    rows.push(Present { sample, measurement });
                    deviations.push(deviation);
                    response.extend(columns.iter().map(|column| dot(&row.h, column) / deviation));
                }
            }
            if columns.iter().flatten().any(|x| x.is_nan() || x.abs() >= HUGE) {
                break;
            }
        }
        let weighted = Mat::from_fn(rows.len(), q, |i, j| response[i * q + j]);
        let transform = orthonormalizing(&weighted);
        let seen = &weighted * &transform;
        Self { transform, rows, deviations, seen }
    }

    /// The start with `eta` in the place of `delta`.
    pub fn transformed(&self, start: &StartJet) -> StartJet {
        let mut start = start.clone();
        start.value.directions = &start.value.directions * &self.transform;
        for derivative in &mut start.derivatives {
            derivative.directions = &derivative.directions * &self.transform;
        }
        start
    }

    /// The same in other units: `eta = units eta'`.
    pub fn in_units_of(mut self, units: &Mat<f64>) -> Self {
        self.transform = &self.transform * units;
        self.seen = &self.seen * units;
        self
    }

    /// `delta` of an `eta`.
    pub fn delta(&self, eta: &[f64]) -> Vec<f64> {
        let t = &self.transform;
        (0..t.nrows()).map(|i| eta.iter().enumerate().map(|(j, eta)| t[(i, j)] * eta).sum()).collect()
    }

    /// The rows that set the unit: going through the samples, at each the ones that are most accurately measured and
    /// independent of those before.
    pub fn anchors(&self) -> Vec<Present> {
        let r = self.seen.ncols();
        let row = |at: usize| -> Vec<f64> { (0..r).map(|j| self.seen[(at, j)]).collect() };
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let mut chosen = Vec::new();
        let left_of = |basis: &[Vec<f64>], at: usize| {
            let mut left = row(at);
            for _ in 0..2 {
                for known in basis {
                    let along: f64 = known.iter().zip(&left).map(|(a, b)| a * b).sum();
                    left.iter_mut().zip(known).for_each(|(x, k)| *x -= along * k);
                }
            }
            left
        };
        let mut first = 0;
        while first < self.rows.len() && chosen.len() < r {
            let sample = self.rows[first].sample;
            let end = (first..self.rows.len()).find(|&at| self.rows[at].sample != sample).unwrap_or(self.rows.len());
            loop {
                let candidates = (first..end).map(|at| (at, left_of(&basis, at), norm(&row(at))));
                let best = candidates
                    .filter(|(_, left, whole)| *whole > UNSEEN && norm(left) > INDEPENDENT * whole)
                    .max_by(|a, b| norm(&a.1).total_cmp(&norm(&b.1)));
                let Some((at, left, _)) = best.filter(|_| chosen.len() < r) else { break };
                let size = norm(&left);
                basis.push(left.iter().map(|x| x / size).collect());
                chosen.push(self.rows[at]);
            }
            first = end;
        }
        chosen
    }

    /// `log |det X_1|` in terms of `eta`, with its derivatives at a fixed transformation. Anchors that do not fit,
    /// because data determine more or less here, are chosen anew.
    pub fn unit(&self, model: &FilterModel, data: &RunData<'_>, anchors: &[Present], lanes: usize) -> StartUnit {
        let r = self.seen.ncols();
        let own;
        let anchors = if anchors.len() == r {
            anchors
        } else {
            own = self.anchors();
            &own
        };
        let place = |anchor: &Present| self.rows.iter().position(|row| row == anchor);
        let Some(places) = anchors.iter().map(place).collect::<Option<Vec<usize>>>().filter(|list| list.len() == r)
        else {
            return StartUnit { log_determinant: 0.0, derivatives: vec![0.0; lanes] };
        };
        let square = Mat::from_fn(r, r, |i, j| self.seen[(places[i], j)] * self.deviations[places[i]]);
        let log_determinant = log_determinant(&square);
        let mut derivatives = vec![0.0; lanes];
        if lanes > 0 && r > 0 {
            let inverse = square.partial_piv_lu().solve(Mat::<f64>::identity(r, r));
            for (lane, derivative) in derivatives.iter_mut().enumerate() {
                let moved = self.anchor_derivatives(model, data, anchors, lane);
                *derivative = (0..r).map(|i| (0..r).map(|j| inverse[(i, j)] * moved[(j, i)]).sum::<f64>()).sum();
            }
        }
        StartUnit { log_determinant, derivatives }
    }

    /// `dX_1` in terms of `eta` for one parameter.
    fn anchor_derivatives(
        &self,
        model: &FilterModel,
        data: &RunData<'_>,
        anchors: &[Present],
        lane: usize,
    ) -> Mat<f64> {
        let r = self.seen.ncols();
        let value = &data.start.value.directions * &self.transform;
        let slope = &data.start.derivatives[lane].directions * &self.transform;
        let mut columns: Vec<Vec<f64>> = (0..r).map(|j| column(&value, j)).collect();
        let mut d_columns: Vec<Vec<f64>> = (0..r).map(|j| column(&slope, j)).collect();
        let mut moved = Mat::zeros(r, r);
        let mut walk = Walk::new(model, data);
        let last = anchors.iter().map(|anchor| anchor.sample).max();
        while let Some(sample) = walk.next_with(lane, &mut |phi, d_phi| {
            for (column, d_column) in columns.iter_mut().zip(&mut d_columns) {
                advance(d_column, phi, Some((d_phi, column)));
                advance(column, phi, None);
            }
        }) {
            for (i, anchor) in anchors.iter().enumerate().filter(|(_, anchor)| anchor.sample == sample) {
                let (h, d_h) = model.row(anchor.measurement, lane);
                for j in 0..r {
                    moved[(i, j)] = dot(h, &d_columns[j]) + dot(d_h, &columns[j]);
                }
            }
            if Some(sample) >= last {
                break;
            }
        }
        moved
    }
}

impl<M: ParametricModel> Likelihood<'_, M> {
    /// How many values a diffuse start takes, one for each of its directions that data determine: the likelihood is a
    /// density of the others. Zero for other starts.
    ///
    /// # Errors
    /// As [`Likelihood::evaluate`].
    pub fn n_taken_by_start(&self, theta: &[f64]) -> Result<usize, EstimateError> {
        let assembled = self.assemble(theta, Derivatives::None, Scope::Measured)?;
        let determined = |(at, start): (usize, &StartJet)| {
            let data = self.run_data(at, &assembled, start);
            if data.is_diffuse { SeenStart::new(&assembled.filter, &data).transform.ncols() } else { 0 }
        };
        Ok(assembled.starts.iter().enumerate().map(determined).sum())
    }
}

/// What makes a diffuse likelihood independent of the choice of the unknowns at the start.
pub(crate) struct StartUnit {
    pub log_determinant: f64,
    pub derivatives: Vec<f64>,
}

fn column(a: &Mat<f64>, j: usize) -> Vec<f64> {
    (0..a.nrows()).map(|i| a[(i, j)]).collect()
}

/// `x <- phi x (+ d_phi y)`.
fn advance(x: &mut Vec<f64>, phi: &[f64], moved: Option<(&[f64], &Vec<f64>)>) {
    let mut next = vec![0.0; x.len()];
    add_product(&mut next, phi, x);
    if let Some((d_phi, y)) = moved {
        add_product(&mut next, d_phi, y);
    }
    *x = next;
}

fn log_determinant(square: &Mat<f64>) -> f64 {
    if square.nrows() == 0 {
        return 0.0;
    }
    let triangle = square.qr();
    (0..square.nrows()).map(|i| triangle.R()[(i, i)].abs().ln()).sum()
}

/// Standard deviations of values that are there; one thousandth of their size for values that are measured without
/// error.
fn deviations<'a>(model: &'a FilterModel, data: &'a RunData<'_>) -> impl Fn(usize, usize) -> Option<f64> + 'a {
    let m = model.measurements.len();
    let values = &data.experiment.measurements;
    let sizes: Vec<f64> = (0..m)
        .map(|at| {
            let present = values.iter().skip(at).step_by(m).filter(|value| value.is_finite());
            let (sum, n) = present.fold((0.0, 0usize), |(sum, n), value| (sum + value * value, n + 1));
            let size = (sum / n.max(1) as f64).sqrt();
            if size > 0.0 && size.is_finite() { 1e-3 * size } else { 1.0 }
        })
        .collect();
    move |sample, measurement| {
        if values[sample * m + measurement].is_nan() {
            return None;
        }
        let own = model.measurements[measurement].variance;
        let variance = data.variances.map_or(own, |table| table.value[sample * m + measurement]);
        Some(if variance > 0.0 && variance.is_finite() { variance.sqrt() } else { sizes[measurement] })
    }
}

/// `T` with as many columns as `a` has rank, such that `a T` has orthonormal columns.
fn orthonormalizing(a: &Mat<f64>) -> Mat<f64> {
    let q = a.ncols();
    let lengths: Vec<f64> = (0..q).map(|j| (0..a.nrows()).map(|i| a[(i, j)].powi(2)).sum::<f64>().sqrt()).collect();
    let unit: Vec<f64> = lengths.iter().map(|&l| if l > 0.0 && l.is_finite() { 1.0 / l } else { 0.0 }).collect();
    if a.nrows() == 0 || unit.iter().all(|unit| *unit == 0.0) {
        return Mat::zeros(q, 0);
    }
    let scaled = Mat::from_fn(a.nrows(), q, |i, j| if unit[j] == 0.0 { 0.0 } else { a[(i, j)] * unit[j] });
    let triangle = scaled.qr().thin_R().to_owned();
    let Ok(svd) = triangle.svd() else { return Mat::zeros(q, 0) };
    let (values, vectors) = (svd.S().column_vector(), svd.V());
    let rank = (0..values.nrows()).filter(|&k| values[k] > UNSEEN * values[0]).count();
    Mat::from_fn(q, rank, |i, j| unit[i] * vectors[(i, j)] / values[j])
}

/// The way of an experiment from its start over all samples.
struct Walk<'a> {
    model: &'a FilterModel,
    data: &'a RunData<'a>,
    segment: usize,
    sample: usize,
}

impl<'a> Walk<'a> {
    fn new(model: &'a FilterModel, data: &'a RunData<'a>) -> Self {
        Self { model, data, segment: 0, sample: 0 }
    }

    /// The next sample; `step` takes the transitions on the way to it.
    fn next(&mut self, step: &mut dyn FnMut(&[f64])) -> Option<usize> {
        self.go(&mut |model, at| step(&model.steps[at].phi))
    }

    /// As [`Walk::next`], with the derivatives of the transitions with respect to a parameter.
    fn next_with(&mut self, lane: usize, step: &mut dyn FnMut(&[f64], &[f64])) -> Option<usize> {
        self.go(&mut |model, at| step(&model.steps[at].phi, &model.steps[at].d_phi[lane]))
    }

    fn go(&mut self, step: &mut dyn FnMut(&FilterModel, usize)) -> Option<usize> {
        let sample = self.sample;
        let end = *self.data.experiment.segment_of.get(sample)?;
        for segment in self.segment..end {
            if let Some(at) = self.data.step_of[segment] {
                step(self.model, at);
            }
        }
        self.segment = end;
        self.sample += 1;
        Some(sample)
    }
}
