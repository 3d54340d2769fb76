//! The Kalman filter in square-root form, with forward derivatives.
//!
//! The covariance of the state is kept as `P = S S^T`. Measurements are taken one by one, so that a missing one is
//! simply left out; for `y = h x + feed + e` with variance `r` [@bierman1977, ch. II, Potter's method]
//!
//! ```text
//! f = S^T h    s = f^T f + r    K = S f / s    x <- x + K (y - h x - feed)    S <- S - K f^T / (1 + sqrt(r / s))
//! ```
//!
//! which is exact also for `r = 0` and singular `S`. Over a step, `S` is the triangular factor of `[Phi S, L_d]`.
//!
//! Derivatives with respect to a parameter run beside it on `dx` and `dP`, which need no derivative of `S`:
//!
//! ```text
//! dP <- dP - (dPh K^T + K dPh^T) + K K^T ds,   dPh = dP h + P dh,   ds = h dP h + 2 dh P h + dr,   dK = (dPh - K ds) / s
//! dP <- Phi dP Phi^T + dPhi P Phi^T + Phi P dPhi^T + dQ_d
//! ```
//!
//! A state that is not known at the start, `x + X delta`, runs as further columns `X`; every innovation is then
//! `e + E delta`, and `delta` follows by least squares [@dejong1991].
//!
//! When step, pattern of measurements and variances stay the same, gain and innovation variance converge; the filter
//! goes on with constant ones once what is left of their change is below [`FilterOptions::steady_tolerance`]. Where
//! only the value of the likelihood or its gradient is wanted, and nothing of single samples, long stretches of such
//! samples are taken as a whole (`stretch`).

mod backwards;
mod tape;

use std::f64::consts::PI;
use std::sync::OnceLock;

use faer::Mat;

use crate::error::EstimateError;
use crate::experiment::{Experiment, VarianceJet};
use crate::kernel::{
    add_product, add_scaled, add_square_product, add_symmetric_product, dot, flat, semidefinite_factor, square,
};
use crate::scores::ExperimentScores;
use crate::start::{StartJet, StartState};
use crate::state_space::{SignalTerms, StateSpace};
use crate::stretch::{Block, BlockSums, Steady, StretchRecord, StretchSlope, Tangent, predict_factor, shrink};
pub(crate) use backwards::{Bars, FilterSlope, correct_backwards, run_backwards, spread_backwards};
pub(crate) use tape::SteadyCopy;
use tape::{Mark, Taken, Tape};

/// How the filter runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FilterOptions {
    /// The gain is taken as constant when the rest of its change, relative to its largest possible value, is below
    /// this; 0 never does it.
    pub steady_tolerance: f64,
}

impl Default for FilterOptions {
    fn default() -> Self {
        Self { steady_tolerance: 1e-12 }
    }
}

/// A discretization for the inner loop.
#[derive(Clone, Debug)]
pub(crate) struct StepModel {
    pub phi: Vec<f64>,
    /// `[power][input]` columns.
    pub inputs: Vec<f64>,
    /// Factor of the noise, `n` rows.
    pub noise: Vec<f64>,
    pub d_phi: Vec<Vec<f64>>,
    pub d_inputs: Vec<Vec<f64>>,
    pub d_covariance: Vec<Vec<f64>>,
}

/// Rows of a measurement in the inner loop.
#[derive(Clone, Debug)]
pub(crate) struct MeasurementRow {
    pub h: Vec<f64>,
    /// `[derivative order][input]`.
    pub feed: Vec<f64>,
    pub variance: f64,
}

/// Model of one parameter value for the inner loop.
#[derive(Clone, Debug)]
pub(crate) struct FilterModel {
    pub n: usize,
    n_theta: usize,
    pub measurements: Vec<MeasurementRow>,
    /// `[theta][measurement]`.
    d_measurements: Vec<Vec<MeasurementRow>>,
    pub input: Vec<f64>,
    d_input: Vec<Vec<f64>>,
    pub steps: Vec<StepModel>,
    /// By step: where the filter converges to, found when it is first asked for.
    steady: Vec<OnceLock<Option<Steady>>>,
}

/// What the filter needs of a model besides its steps; also a derivative of that.
#[derive(Clone, Debug)]
pub(crate) struct FilterSpace {
    pub measured: SignalTerms,
    /// What an impulse of an input does.
    pub input: Mat<f64>,
}

impl From<&StateSpace> for FilterSpace {
    fn from(space: &StateSpace) -> Self {
        Self { measured: space.measured.clone(), input: space.input.clone() }
    }
}

fn rows_of(map: &SignalTerms, variances: &[f64]) -> Vec<MeasurementRow> {
    (0..map.state.nrows())
        .map(|row| MeasurementRow {
            h: (0..map.state.ncols()).map(|j| map.state[(row, j)]).collect(),
            feed: map.inputs.iter().flat_map(|term| (0..term.ncols()).map(move |j| term[(row, j)])).collect(),
            variance: variances[row],
        })
        .collect()
}

impl FilterModel {
    /// `variances` are those of the measurements, followed by their derivatives.
    pub fn new(space: &FilterSpace, derivatives: &[FilterSpace], variances: &[&[f64]], steps: Vec<StepModel>) -> Self {
        let d_rows = derivatives.iter().zip(&variances[1..]).map(|(space, r)| rows_of(&space.measured, r));
        Self {
            n: space.input.nrows(),
            n_theta: derivatives.len(),
            measurements: rows_of(&space.measured, variances[0]),
            d_measurements: d_rows.collect(),
            input: flat(&space.input),
            d_input: derivatives.iter().map(|space| flat(&space.input)).collect(),
            steady: vec![OnceLock::new(); steps.len()],
            steps,
        }
    }

    /// The row of a measurement on the state, and its derivative with respect to a parameter.
    pub fn row(&self, measurement: usize, lane: usize) -> (&[f64], &[f64]) {
        (&self.measurements[measurement].h, &self.d_measurements[lane][measurement].h)
    }

    /// The derivative of what inputs do to a measurement.
    pub fn d_feed(&self, measurement: usize, lane: usize) -> &[f64] {
        &self.d_measurements[lane][measurement].feed
    }

    /// The derivative of the variance of a measurement.
    pub fn d_variance(&self, measurement: usize, lane: usize) -> f64 {
        self.d_measurements[lane][measurement].variance
    }
}

/// What one experiment brings besides the model.
pub(crate) struct RunData<'a> {
    pub experiment: &'a Experiment,
    /// For every segment its step, nothing for length zero.
    pub step_of: &'a [Option<usize>],
    /// For every sample where its stretch ends ([`ends_of_stretches`]).
    pub stretch_ends: &'a [usize],
    pub inputs: &'a [f64],
    /// Derivatives of the inputs; empty where they do not depend on parameters.
    pub d_inputs: &'a [Vec<f64>],
    pub variances: Option<&'a VarianceJet>,
    pub start: &'a StartJet,
    /// Covariance of the estimate of an unknown start, where it is known already.
    pub start_covariance: Option<&'a Mat<f64>>,
    /// Whether that start has an infinite prior variance.
    pub is_diffuse: bool,
}

impl RunData<'_> {
    /// Coefficients of the inputs over a segment, `[power][input]`.
    pub(crate) fn inputs_of(&self, segment: usize) -> &[f64] {
        let width = (self.experiment.degree + 1) * self.experiment.n_inputs;
        &self.inputs[segment * width..(segment + 1) * width]
    }

    /// Their derivatives by parameters; none where they do not depend on these.
    fn d_inputs_of(&self, segment: usize) -> Vec<&[f64]> {
        let width = (self.experiment.degree + 1) * self.experiment.n_inputs;
        self.d_inputs.iter().map(|list| &list[segment * width..(segment + 1) * width]).collect()
    }
}

/// For every sample the first one from it on that is not complete, or not a single step before the next one, or whose
/// step is another.
pub(crate) fn ends_of_stretches(experiment: &Experiment, step_of: &[Option<usize>]) -> Vec<usize> {
    let n_samples = experiment.times.len();
    let m = experiment.measurements.len().checked_div(n_samples).unwrap_or(0);
    let mut ends: Vec<usize> = (0..n_samples).collect();
    for sample in (0..n_samples.saturating_sub(1)).rev() {
        let (segment, next) = (experiment.segment_of[sample], experiment.segment_of[sample + 1]);
        let is_single =
            next == segment + 1 && step_of[segment].is_some() && experiment.segments[segment].kick.is_empty();
        if is_single && !experiment.measurements[sample * m..(sample + 1) * m].iter().any(|value| value.is_nan()) {
            let goes_on = ends[sample + 1] > sample + 1 && step_of[segment] == step_of[next];
            ends[sample] = if goes_on { ends[sample + 1] } else { sample + 1 };
        }
    }
    ends
}

/// What a run is to find besides the likelihood.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RunOptions {
    /// Gradient, information and scores.
    pub with_derivatives: bool,
    /// No scores, and an information that is that of constant gains in long stretches, which are then taken as a
    /// whole.
    pub is_summed: bool,
    /// Derivatives of the columns of an unknown start, for the diffuse likelihood.
    pub with_diffuse_derivatives: bool,
    /// One-step predictions and innovations.
    pub with_record: bool,
    /// What the way back needs, with the columns of an unknown start where its prior variance is infinite; without
    /// forward derivatives.
    pub with_tape: bool,
}

/// One-step predictions; `[sample][measurement]`, NaN where nothing was measured.
#[derive(Clone, Debug, Default)]
pub struct Innovations {
    /// Measured minus predicted.
    pub innovations: Vec<f64>,
    /// Variances of the innovations.
    pub variances: Vec<f64>,
    /// Predicted measurements, also where nothing was measured.
    pub predictions: Vec<f64>,
}

/// Sums of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunSums {
    /// `sum of -(log(2 pi s) + e^2 / s) / 2`
    pub log_likelihood: f64,
    pub n_counted: usize,
    /// Values known exactly beforehand, which say nothing.
    pub n_redundant: usize,
    pub gradient: Vec<f64>,
    /// Over parameters and unknown start directions.
    pub information: Mat<f64>,
    /// The scores of all values that are counted.
    pub scores: ExperimentScores,
    /// `sum of E^T E / s` and `sum of E^T e / s`.
    pub normal_matrix: Mat<f64>,
    pub normal_vector: Vec<f64>,
    /// Derivatives of the normal matrix.
    pub d_normal_matrix: Vec<Mat<f64>>,
    pub record: Innovations,
    /// Of a run that is to be gone back over.
    pub tape: Option<Tape>,
}

/// Gains of one sample, for the steady state.
#[derive(Clone, Default)]
struct Gains {
    /// `[measurement]`: innovation variance; NaN for a missing one.
    s: Vec<f64>,
    /// `[measurement][state]`.
    k: Vec<f64>,
    /// `[theta][measurement]` and `[theta][measurement][state]`.
    ds: Vec<f64>,
    dk: Vec<f64>,
    /// Square roots of the diagonal of `P` before the sample.
    size: Vec<f64>,
    /// `[measurement]`: `log(2 pi s)`.
    log: Vec<f64>,
}

struct State<'m> {
    model: &'m FilterModel,
    n_delta: usize,
    x: Vec<f64>,
    s: Vec<f64>,
    p: Vec<f64>,
    is_p_fresh: bool,
    /// `[theta][state]`, `[theta][n n]`.
    dx: Vec<Vec<f64>>,
    dp: Vec<Vec<f64>>,
    /// `[delta][state]`, `[theta][delta][state]`.
    columns: Vec<Vec<f64>>,
    d_columns: Vec<Vec<Vec<f64>>>,
    work: Vec<f64>,
    vector: Vec<f64>,
    matrix: Vec<f64>,
}

impl<'m> State<'m> {
    fn new(model: &'m FilterModel, start: &StartJet, options: RunOptions) -> Self {
        let n = model.n;
        let StartState { mean, covariance, directions } = &start.value;
        let mut s = semidefinite_factor(covariance);
        s.resize(n * n, 0.0);
        let lanes = if options.with_derivatives { model.n_theta } else { 0 };
        let column = |a: &Mat<f64>, j: usize| -> Vec<f64> { (0..n).map(|i| a[(i, j)]).collect() };
        let n_delta = directions.ncols();
        Self {
            model,
            n_delta,
            x: mean.clone(),
            s,
            p: vec![0.0; n * n],
            is_p_fresh: false,
            dx: start.derivatives[..lanes].iter().map(|d| d.mean.clone()).collect(),
            dp: start.derivatives[..lanes].iter().map(|d| flat(&d.covariance)).collect(),
            columns: (0..n_delta).map(|j| column(directions, j)).collect(),
            d_columns: if options.with_diffuse_derivatives {
                start.derivatives.iter().map(|d| (0..n_delta).map(|j| column(&d.directions, j)).collect()).collect()
            } else {
                Vec::new()
            },
            work: Vec::new(),
            vector: vec![0.0; n],
            matrix: vec![0.0; n * n],
        }
    }

    #[inline(always)]
    fn refresh_p(&mut self) {
        if !self.is_p_fresh {
            square(&mut self.p, &self.s, self.model.n);
            self.is_p_fresh = true;
        }
    }

    /// The state, and the columns of an unknown start where a tape keeps them.
    #[inline(always)]
    fn kept(&self, with_columns: bool) -> impl Iterator<Item = &[f64]> {
        let columns = self.columns.iter().filter(move |_| with_columns);
        std::iter::once(&self.x[..]).chain(columns.map(|column| &column[..]))
    }

    /// Means over a step.
    #[inline(always)]
    fn predict_means(&mut self, step: &StepModel, inputs: &[f64], d_inputs: &[&[f64]]) {
        let n = self.model.n;
        // Derivatives first: they need the state before the step.
        for (lane, dx) in self.dx.iter_mut().enumerate() {
            self.vector.fill(0.0);
            add_product(&mut self.vector, &step.phi, dx);
            add_product(&mut self.vector, &step.d_phi[lane], &self.x);
            add_product(&mut self.vector, &step.d_inputs[lane], inputs);
            if let Some(d_inputs) = d_inputs.get(lane) {
                add_product(&mut self.vector, &step.inputs, d_inputs);
            }
            dx.copy_from_slice(&self.vector);
        }
        for (lane, columns) in self.d_columns.iter_mut().enumerate() {
            for (column, value) in columns.iter_mut().zip(&self.columns) {
                self.vector.fill(0.0);
                add_product(&mut self.vector, &step.phi, column);
                add_product(&mut self.vector, &step.d_phi[lane], value);
                column.copy_from_slice(&self.vector);
            }
        }
        for column in &mut self.columns {
            self.vector.fill(0.0);
            add_product(&mut self.vector, &step.phi, column);
            column.copy_from_slice(&self.vector);
        }
        self.vector.fill(0.0);
        add_product(&mut self.vector, &step.phi, &self.x);
        add_product(&mut self.vector, &step.inputs, inputs);
        debug_assert_eq!(self.vector.len(), n);
        std::mem::swap(&mut self.x, &mut self.vector);
    }

    /// Impulses of the inputs.
    #[inline(always)]
    fn kick(&mut self, areas: &[f64]) {
        if areas.is_empty() {
            return;
        }
        add_product(&mut self.x, &self.model.input, areas);
        for (dx, d_input) in self.dx.iter_mut().zip(&self.model.d_input) {
            add_product(dx, d_input, areas);
        }
    }

    /// Covariances over a step.
    #[inline(always)]
    fn predict_covariances(&mut self, step_at: usize) {
        let n = self.model.n;
        let step = &self.model.steps[step_at];
        if !self.dp.is_empty() {
            self.refresh_p();
        }
        for (lane, dp) in self.dp.iter_mut().enumerate() {
            // With B = dPhi P + Phi dP / 2: Phi dP Phi^T + dPhi P Phi^T + Phi P dPhi^T = B Phi^T + Phi B^T.
            self.matrix.fill(0.0);
            add_square_product(&mut self.matrix, &step.phi, dp, n);
            self.matrix.iter_mut().for_each(|x| *x *= 0.5);
            add_square_product(&mut self.matrix, &step.d_phi[lane], &self.p, n);
            dp.copy_from_slice(&step.d_covariance[lane]);
            add_symmetric_product(dp, &self.matrix, &step.phi, n);
        }
        predict_factor(self.model, step_at, &mut self.s, &mut self.work);
        self.is_p_fresh = false;
    }
}

/// Variance, relative to the effect of an unknown start, that stands for an exact measurement of it.
const SHARP: f64 = 1e-10;

/// Fewer samples are not worth the search for their constant gains.
const SHORTEST_LEAP: usize = 128;

/// Relative innovation variance below which a value without noise is known beforehand.
const CERTAIN: f64 = 1e-14;

/// Runs the filter over one experiment, with the instructions this machine has.
pub(crate) fn run(
    model: &FilterModel,
    data: &RunData<'_>,
    filter: &FilterOptions,
    options: RunOptions,
) -> Result<RunSums, EstimateError> {
    pulp::Arch::new().dispatch(Run { model, data, filter, options })
}

/// A run as something that can be compiled for several sets of instructions. A closure would not do: it is compiled
/// once, for the least of them.
struct Run<'a> {
    model: &'a FilterModel,
    data: &'a RunData<'a>,
    filter: &'a FilterOptions,
    options: RunOptions,
}

impl pulp::WithSimd for Run<'_> {
    type Output = Result<RunSums, EstimateError>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        run_inlined(self.model, self.data, self.filter, self.options)
    }
}

/// Room for one measurement, and for one sample.
struct Work {
    /// Derivatives of the innovation: by parameters, then by directions of the start.
    de: Vec<f64>,
    /// Derivatives of its variance.
    ds: Vec<f64>,
    /// `S^T h`
    f: Vec<f64>,
    /// `P h`, and its derivative by a parameter.
    ph: Vec<f64>,
    dph: Vec<f64>,
    /// The gain K.
    gain: Vec<f64>,
    /// The score of the sample.
    score: Vec<f64>,
}

/// One value measured at a sample.
#[derive(Clone, Copy)]
struct Reading<'r> {
    sample: usize,
    time: f64,
    /// Which measurement.
    at: usize,
    value: f64,
    prediction: f64,
    /// Coefficients of the inputs there, and their derivatives by parameters.
    inputs: &'r [f64],
    d_inputs: &'r [&'r [f64]],
    is_counted: bool,
}

impl Reading<'_> {
    /// The innovation e.
    fn error(&self) -> f64 {
        self.value - self.prediction
    }
}

/// Whether gains are constant, and how far they are from it.
struct Pace {
    is_steady: bool,
    last_change: f64,
    /// The step that led to the sample, where it was a single one.
    last_step: Option<usize>,
}

impl Pace {
    /// Gains change from here on.
    fn break_off(&mut self) {
        self.is_steady = false;
        self.last_change = f64::INFINITY;
    }

    /// Looks at the gains of a sample beside those of the sample before it, one step `only_step` apart: their change c_k
    /// shrinks like a geometric series, so that c_k / (1 - c_k / c_(k-1)) is left of it; rounding sets the floor.
    #[inline(always)]
    fn look(&mut self, gains: &Gains, previous: &Gains, only_step: Option<usize>, tolerance: f64, sizes: [usize; 3]) {
        let is_same = only_step.is_some() && only_step == self.last_step && same_pattern(&gains.s, &previous.s);
        if !is_same || gains.s.iter().any(|s| s.is_nan()) {
            self.last_change = f64::INFINITY;
            return;
        }
        let [n, m, lanes] = sizes;
        let change = change_of(gains, previous, n, m, lanes);
        let ratio = (change / self.last_change).min(0.999_999);
        let left = if self.last_change.is_finite() { change / (1.0 - ratio) } else { f64::INFINITY };
        if (left <= tolerance && change <= self.last_change) || change <= 2e-15 {
            self.is_steady = true;
        }
        self.last_change = change;
    }
}

impl RunSums {
    fn new(lanes: usize, q: usize, n_d_columns: usize) -> Self {
        Self {
            log_likelihood: 0.0,
            n_counted: 0,
            n_redundant: 0,
            gradient: vec![0.0; lanes],
            information: Mat::zeros(lanes + q, lanes + q),
            scores: ExperimentScores::default(),
            normal_matrix: Mat::zeros(q, q),
            normal_vector: vec![0.0; q],
            d_normal_matrix: vec![Mat::zeros(q, q); n_d_columns],
            record: Innovations::default(),
            tape: None,
        }
    }
}

impl Gains {
    /// Room for the gains of a sample; `s` is the factor of the covariance before it.
    #[inline(always)]
    fn begin(&mut self, n: usize, m: usize, lanes: usize, s: &[f64]) {
        let renew = |list: &mut Vec<f64>, len: usize, value: f64| {
            list.clear();
            list.resize(len, value);
        };
        renew(&mut self.s, m, f64::NAN);
        renew(&mut self.log, m, f64::NAN);
        renew(&mut self.k, m * n, 0.0);
        renew(&mut self.ds, lanes * m, 0.0);
        renew(&mut self.dk, lanes * m * n, 0.0);
        self.size.clear();
        self.size.extend((0..n).map(|i| (0..n).map(|k| s[k * n + i].powi(2)).sum::<f64>().sqrt()));
    }

    /// The gains of a stretch that was taken as a whole.
    fn take_over(&mut self, steady: &Steady, slope: Option<StretchSlope>) {
        self.s.clone_from(&steady.gains.s);
        self.k.clone_from(&steady.gains.k);
        self.log = self.s.iter().map(|s| (2.0 * PI * s).ln()).collect();
        if let Some(slope) = slope {
            self.ds = slope.ds;
            self.dk = slope.dk;
        }
    }
}

impl State<'_> {
    /// Derivatives of an innovation at fixed gain history: `de = -h dx - dh x - dfeed u - feed du` by parameters, and
    /// `E = -h X` by directions of the start.
    #[inline(always)]
    fn innovation_slopes(&self, reading: &Reading<'_>, orders: usize, de: &mut [f64]) {
        let row = &self.model.measurements[reading.at];
        let lanes = self.dx.len();
        for (lane, slot) in de[..lanes].iter_mut().enumerate() {
            let d_row = &self.model.d_measurements[lane][reading.at];
            let mut d = -dot(&row.h, &self.dx[lane])
                - dot(&d_row.h, &self.x)
                - dot(&d_row.feed[..orders], &reading.inputs[..orders]);
            if let Some(d_inputs) = reading.d_inputs.get(lane) {
                d -= dot(&row.feed[..orders], &d_inputs[..orders]);
            }
            *slot = d;
        }
        for (column, slot) in self.columns.iter().zip(&mut de[lanes..]) {
            *slot = -dot(&row.h, column);
        }
    }

    /// Takes a measurement with the constant gain; gives its variance.
    #[inline(always)]
    fn correct_steadily(&mut self, reading: &Reading<'_>, gains: &Gains, work: &mut Work) -> f64 {
        let (n, m, at) = (self.model.n, self.model.measurements.len(), reading.at);
        work.gain.copy_from_slice(&gains.k[at * n..(at + 1) * n]);
        for lane in 0..self.dx.len() {
            work.ds[lane] = gains.ds[lane * m + at];
            let dk = &gains.dk[(lane * m + at) * n..(lane * m + at + 1) * n];
            add_scaled(&mut self.dx[lane], reading.error(), dk);
            add_scaled(&mut self.dx[lane], work.de[lane], &work.gain);
        }
        gains.s[at]
    }

    /// Takes a measurement by Potter's method, with the derivatives of gain, variance and covariance (see the module);
    /// gives its variance. `None` for a value that was known exactly before it was measured: it must agree, and says
    /// nothing.
    #[inline(always)]
    fn correct(
        &mut self,
        reading: &Reading<'_>,
        data: &RunData<'_>,
        gains: &mut Gains,
        work: &mut Work,
    ) -> Result<Option<f64>, EstimateError> {
        let (n, m, lanes) = (self.model.n, self.model.measurements.len(), self.dx.len());
        let &Reading { sample, time, at, value, prediction, .. } = reading;
        let e = reading.error();
        let row = &self.model.measurements[at];
        let r = data.variances.map_or(row.variance, |table| table.value[sample * m + at]);
        if r < 0.0 {
            return Err(EstimateError::NegativeVariance { measurement: at, value: r });
        }
        for (k, slot) in work.f.iter_mut().enumerate() {
            *slot = dot(&self.s[k * n..(k + 1) * n], &row.h);
        }
        let spread = dot(&work.f, &work.f);
        let mut s = spread + r;
        if !s.is_finite() || !e.is_finite() {
            return Err(EstimateError::Overflow { time });
        }
        let scale: f64 = row.h.iter().zip(&gains.size).map(|(h, size)| (h * size).powi(2)).sum();
        let start_seen = dot(&work.de[lanes..], &work.de[lanes..]);
        if (s <= CERTAIN * scale || s == 0.0) && start_seen > 0.0 {
            // Only the unknown start shows in it: it is measured, as good as exactly.
            s = SHARP * start_seen;
        } else if s <= CERTAIN * scale || s == 0.0 {
            let size = value.abs().max(prediction.abs()).max(scale.sqrt());
            if e.abs() > 1e-6 * size {
                return Err(EstimateError::Contradiction { measurement: at, time, expected: prediction, found: value });
            }
            return Ok(None);
        }
        work.ph.fill(0.0);
        add_product(&mut work.ph, &self.s, &work.f);
        for (k, ph) in work.gain.iter_mut().zip(&work.ph) {
            *k = ph / s;
        }
        gains.s[at] = s;
        gains.log[at] = (2.0 * PI * s).ln();
        gains.k[at * n..(at + 1) * n].copy_from_slice(&work.gain);
        if lanes > 0 {
            self.refresh_p();
        }
        for lane in 0..lanes {
            let d_row = &self.model.d_measurements[lane][at];
            let dr = data.variances.map_or(d_row.variance, |table| table.derivatives[lane][sample * m + at]);
            work.dph.fill(0.0);
            add_product(&mut work.dph, &self.dp[lane], &row.h);
            let along = dot(&row.h, &work.dph);
            add_product(&mut work.dph, &self.p, &d_row.h);
            let ds = along + 2.0 * dot(&d_row.h, &work.ph) + dr;
            work.ds[lane] = ds;
            let dk = &mut gains.dk[(lane * m + at) * n..(lane * m + at + 1) * n];
            for (dk, (dph, gain)) in dk.iter_mut().zip(work.dph.iter().zip(&work.gain)) {
                *dk = (dph - gain * ds) / s;
            }
            gains.ds[lane * m + at] = ds;
            add_scaled(&mut self.dx[lane], e, dk);
            add_scaled(&mut self.dx[lane], work.de[lane], &work.gain);
            let dp = &mut self.dp[lane];
            for j in 0..n {
                let (kj, dphj) = (work.gain[j], work.dph[j]);
                for i in 0..n {
                    dp[j * n + i] += work.gain[i] * (kj * ds - dphj) - work.dph[i] * kj;
                }
            }
        }
        shrink(&mut self.s, &work.f, &work.gain, r, s);
        self.is_p_fresh = false;
        Ok(Some(s))
    }

    /// The columns of an unknown start after a measurement, `X + K E` with `E = -h X`, with their derivatives, and those
    /// of the normal matrix `sum of E^T E / s`.
    #[inline(always)]
    fn correct_columns(&mut self, reading: &Reading<'_>, s: f64, gains: &Gains, work: &Work, sums: &mut RunSums) {
        let (n, m, at, lanes, q) =
            (self.model.n, self.model.measurements.len(), reading.at, self.dx.len(), self.n_delta);
        let row = &self.model.measurements[at];
        for (lane, columns) in self.d_columns.iter_mut().enumerate() {
            let d_row = &self.model.d_measurements[lane][at];
            let dk = &gains.dk[(lane * m + at) * n..(lane * m + at + 1) * n];
            let mut d_e = vec![0.0; q];
            for j in 0..q {
                d_e[j] = -dot(&row.h, &columns[j]) - dot(&d_row.h, &self.columns[j]);
                add_scaled(&mut columns[j], work.de[lanes + j], dk);
                add_scaled(&mut columns[j], d_e[j], &work.gain);
            }
            if reading.is_counted {
                let target = &mut sums.d_normal_matrix[lane];
                for a in 0..q {
                    for b in 0..q {
                        let (ea, eb) = (work.de[lanes + a], work.de[lanes + b]);
                        target[(a, b)] += (d_e[a] * eb + ea * d_e[b] - ea * eb * work.ds[lane] / s) / s;
                    }
                }
            }
        }
        for (column, &along) in self.columns.iter_mut().zip(&work.de[lanes..]) {
            add_scaled(column, along, &work.gain);
        }
    }
}

/// Counts a measurement of innovation e with variance s: to the likelihood -(log(2 pi s) + e^2 / s) / 2, to the score its
/// derivative, and to the information
///
/// ```text
/// de de^T / s + w ds ds^T,   w = (1 - l)^2 / (2 s^2) with a diffuse start, (1 - l) / (2 s^2) with another
/// ```
///
/// where the leverage l = E C E^T / s is the share of the value that goes into the start: what a value tells about the
/// start it cannot tell about variances.
#[inline(always)]
fn count(sums: &mut RunSums, data: &RunData<'_>, options: RunOptions, [log, e, s]: [f64; 3], work: &mut Work) {
    let lanes = work.ds.len();
    let q = work.de.len() - lanes;
    let (de, ds) = (&work.de, &work.ds);
    sums.n_counted += 1;
    sums.log_likelihood -= 0.5 * (log + e * e / s);
    for a in 0..q {
        for b in 0..q {
            sums.normal_matrix[(a, b)] += de[lanes + a] * de[lanes + b] / s;
        }
        sums.normal_vector[a] += de[lanes + a] * e / s;
    }
    if lanes == 0 {
        return;
    }
    for lane in 0..lanes {
        let slope = -0.5 * ds[lane] / s - e * de[lane] / s + 0.5 * e * e * ds[lane] / (s * s);
        work.score[lane] += slope;
    }
    let leverage = data.start_covariance.map_or(0.0, |covariance| {
        let e = &de[lanes..];
        (0..q).map(|i| (0..q).map(|j| e[i] * covariance[(i, j)] * e[j]).sum::<f64>()).sum::<f64>() / s
    });
    let left = (1.0 - leverage).clamp(0.0, 1.0);
    let weight = 0.5 * if data.is_diffuse { left * left } else { left } / (s * s);
    if !options.is_summed {
        sums.scores.errors.push(e / s.sqrt());
        sums.scores.by_error.extend(de[..lanes].iter().map(|de| -de / s.sqrt()));
        sums.scores.by_square.extend(ds.iter().map(|ds| ds * weight.sqrt()));
        sums.scores.by_start.extend(de[lanes..].iter().map(|de| -de / s.sqrt()));
    }
    for a in 0..lanes + q {
        for b in 0..=a {
            let mut sum = de[a] * de[b] / s;
            if a < lanes {
                sum += weight * ds[a] * ds[b];
            }
            sums.information[(a, b)] += sum;
        }
    }
}

/// A run on its way from sample to sample.
struct Way<'m> {
    state: State<'m>,
    gains: Gains,
    /// Gains of the sample before.
    previous: Gains,
    pace: Pace,
    work: Work,
    sums: RunSums,
    /// Entries of the inputs that measurements see directly.
    orders: usize,
    /// Where the run is to be gone back over.
    tape: Option<Tape>,
    /// Whether the tape keeps the columns of an unknown start.
    with_columns: bool,
}

impl<'m> Way<'m> {
    /// At the first sample.
    #[inline(always)]
    fn new(model: &'m FilterModel, data: &RunData<'_>, options: RunOptions) -> Self {
        let experiment = data.experiment;
        let n = model.n;
        let lanes = if options.with_derivatives { model.n_theta } else { 0 };
        let state = State::new(model, data.start, options);
        let q = state.n_delta;
        let width = (experiment.degree + 1) * experiment.n_inputs;
        let mut way = Self {
            gains: Gains::default(),
            previous: Gains::default(),
            pace: Pace { is_steady: false, last_change: f64::INFINITY, last_step: None },
            work: Work {
                de: vec![0.0; lanes + q],
                ds: vec![0.0; lanes],
                f: vec![0.0; n],
                ph: vec![0.0; n],
                dph: vec![0.0; n],
                gain: vec![0.0; n],
                score: vec![0.0; lanes],
            },
            sums: RunSums::new(lanes, q, state.d_columns.len()),
            orders: model.measurements.first().map_or(0, |row| row.feed.len().min(width)),
            tape: options.with_tape.then(Tape::default),
            with_columns: data.is_diffuse,
            state,
        };
        for segment in 0..experiment.segment_of.first().copied().unwrap_or(0) {
            if let Some(at) = data.step_of[segment] {
                way.predict_means(data, segment, at, &data.d_inputs_of(segment));
                way.predict_covariances(at);
            }
            way.kick(data, segment);
        }
        way
    }

    #[inline(always)]
    fn predict_means(&mut self, data: &RunData<'_>, segment: usize, step_at: usize, d_inputs: &[&[f64]]) {
        if let Some(tape) = &mut self.tape {
            tape.add(self.state.kept(self.with_columns), Mark::Moved { step_at, segment });
        }
        self.state.predict_means(&self.state.model.steps[step_at], data.inputs_of(segment), d_inputs);
    }

    #[inline(always)]
    fn predict_covariances(&mut self, step_at: usize) {
        if let Some(tape) = &mut self.tape {
            tape.add([&self.state.s[..]], Mark::Spread { step_at });
        }
        self.state.predict_covariances(step_at);
    }

    #[inline(always)]
    fn kick(&mut self, data: &RunData<'_>, segment: usize) {
        let areas = &data.experiment.segments[segment].kick;
        if let Some(tape) = self.tape.as_mut().filter(|_| !areas.is_empty()) {
            tape.add([], Mark::Kicked { segment });
        }
        self.state.kick(areas);
    }

    /// Takes the measurements of a sample, one by one.
    #[inline(always)]
    fn take(
        &mut self,
        data: &RunData<'_>,
        options: RunOptions,
        sample: usize,
        inputs: &[f64],
        d_inputs: &[&[f64]],
    ) -> Result<(), EstimateError> {
        let Self { state, gains, previous, pace, work, sums, orders, tape, with_columns } = self;
        let (model, experiment, orders) = (state.model, data.experiment, *orders);
        let (m, lanes) = (model.measurements.len(), work.ds.len());
        let values = &experiment.measurements[sample * m..(sample + 1) * m];
        let is_counted = sample >= experiment.first_counted;
        if pace.is_steady && (data.variances.is_some() || !same_pattern(values, &gains.s)) {
            pace.break_off();
        }
        if !pace.is_steady {
            std::mem::swap(gains, previous);
            gains.begin(model.n, m, lanes, &state.s);
        }
        work.score.fill(0.0);
        let mut has_score = false;
        for (at, row) in model.measurements.iter().enumerate() {
            let prediction = dot(&row.h, &state.x) + dot(&row.feed[..orders], &inputs[..orders]);
            if options.with_record {
                sums.record.predictions.push(prediction);
                sums.record.innovations.push(f64::NAN);
                sums.record.variances.push(f64::NAN);
            }
            let value = values[at];
            if value.is_nan() {
                continue;
            }
            let time = experiment.times[sample];
            let reading = Reading { sample, time, at, value, prediction, inputs, d_inputs, is_counted };
            state.innovation_slopes(&reading, orders, &mut work.de);
            let corrected = match pace.is_steady {
                true => Some(state.correct_steadily(&reading, gains, work)),
                false => state.correct(&reading, data, gains, work)?,
            };
            let Some(s) = corrected else {
                sums.n_redundant += 1;
                continue;
            };
            let e = reading.error();
            if let Some(tape) = tape {
                let mark = Mark::Taken(Taken { sample, at, e, s, is_counted, is_steady: pace.is_steady });
                tape.add(state.kept(*with_columns).chain([&work.gain[..]]), mark);
            }
            state.correct_columns(&reading, s, gains, work, sums);
            add_scaled(&mut state.x, e, &work.gain);
            if options.with_record {
                let last = sums.record.innovations.len() - 1;
                sums.record.innovations[last] = e;
                sums.record.variances[last] = s;
            }
            if is_counted {
                has_score = lanes > 0;
                count(sums, data, options, [gains.log[at], e, s], work);
            }
        }
        if has_score {
            sums.gradient.iter_mut().zip(&work.score).for_each(|(sum, slope)| *sum += slope);
            if !options.is_summed {
                sums.scores.ends.push(sums.scores.errors.len());
            }
        }
        Ok(())
    }

    /// Goes on to the next sample; gives the step, where it is a single one.
    #[inline(always)]
    fn advance(&mut self, data: &RunData<'_>, sample: usize, d_inputs: &[&[f64]]) -> Option<usize> {
        let experiment = data.experiment;
        let segment = experiment.segment_of[sample];
        let end = experiment.segment_of.get(sample + 1).copied().unwrap_or(segment);
        let mut only_step = None;
        for piece in segment..end {
            if let Some(at) = data.step_of[piece] {
                if piece == segment {
                    self.predict_means(data, piece, at, d_inputs);
                } else {
                    self.predict_means(data, piece, at, &data.d_inputs_of(piece));
                }
                only_step = if piece == segment && end == segment + 1 { Some(at) } else { None };
                let goes_on = self.pace.is_steady && only_step == self.pace.last_step && only_step.is_some();
                if self.pace.is_steady && !goes_on {
                    // The pattern of steps changes: the covariance goes on from where it converged.
                    self.pace.break_off();
                    restore(&mut self.state, &self.gains, &mut self.tape);
                }
                if !goes_on {
                    self.predict_covariances(at);
                }
            }
            self.kick(data, piece);
        }
        only_step
    }
}

#[inline(always)]
fn run_inlined(
    model: &FilterModel,
    data: &RunData<'_>,
    filter: &FilterOptions,
    options: RunOptions,
) -> Result<RunSums, EstimateError> {
    let experiment = data.experiment;
    let mut way = Way::new(model, data, options);
    let (n, m, lanes, q) = (model.n, model.measurements.len(), way.work.ds.len(), way.state.n_delta);
    let has_slopes = lanes > 0 || options.with_tape;
    let may_sum = !has_slopes || (options.is_summed || options.with_tape) && data.d_inputs.is_empty();
    let may_leap = may_sum && q + experiment.first_counted == 0 && !options.with_record && data.variances.is_none();
    // Derivatives of gains converge later than gains, c k r^k instead of c r^k, which is not seen where none are there.
    let steady_tolerance = if options.with_tape { 0.1 } else { 1.0 } * filter.steady_tolerance;
    let mut next = 0;
    let mut leap_at = if may_leap && filter.steady_tolerance > 0.0 { 0 } else { usize::MAX };
    while next < experiment.times.len() {
        let is_steady = way.pace.is_steady;
        if let (true, true, Some(step_at)) = (is_steady && lanes == 0, leap_at < usize::MAX, way.pace.last_step) {
            next = coast(&mut way, data, step_at, next);
        } else if next >= leap_at && (lanes == 0 || !is_steady) {
            match leap(&mut way, data, filter, next) {
                Leap::Over { end, step_at, steady, slope } => {
                    next = end;
                    leap_at = end + 1;
                    way.pace.is_steady = true;
                    way.pace.last_step = Some(step_at);
                    way.gains.take_over(steady, slope);
                }
                Leap::NotBefore(sample) => leap_at = sample,
            }
        }
        let sample = next;
        next += 1;
        let segment = experiment.segment_of[sample];
        let (inputs, d_inputs) = (data.inputs_of(segment), data.d_inputs_of(segment));
        way.take(data, options, sample, inputs, &d_inputs)?;
        let only_step = way.advance(data, sample, &d_inputs);
        if !way.state.x.iter().all(|x| x.is_finite()) {
            return Err(EstimateError::Overflow { time: experiment.times[sample] });
        }
        if !way.pace.is_steady && filter.steady_tolerance > 0.0 && data.variances.is_none() {
            way.pace.look(&way.gains, &way.previous, only_step, steady_tolerance, [n, m, lanes]);
        }
        way.pace.last_step = only_step;
    }
    if let Some(tape) = &mut way.tape {
        tape.add([&way.state.s[..]], Mark::Ended);
    }
    let mut sums = way.sums;
    sums.tape = way.tape;
    for a in 0..lanes + q {
        for b in 0..a {
            sums.information[(b, a)] = sums.information[(a, b)];
        }
    }
    Ok(sums)
}

/// What came of the try to take many samples at once.
enum Leap<'m> {
    /// All samples before `end` are done, and the gains are constant.
    Over { end: usize, step_at: usize, steady: &'m Steady, slope: Option<StretchSlope> },
    /// It cannot be done; it makes sense to try again at this sample.
    NotBefore(usize),
}

/// Takes the samples from `first` on as a whole, as long as they are complete and one step apart.
#[inline(always)]
fn leap<'m>(way: &mut Way<'m>, data: &RunData<'_>, filter: &FilterOptions, first: usize) -> Leap<'m> {
    let Way { state, sums, tape, .. } = way;
    let model = state.model;
    let m = model.measurements.len();
    let Some(step_at) = data.step_of.get(data.experiment.segment_of[first]).copied().flatten().filter(|_| m > 0) else {
        return Leap::NotBefore(first + 1);
    };
    let end = data.stretch_ends[first];
    if end - first < SHORTEST_LEAP {
        return Leap::NotBefore(end + 1);
    }
    // Found outside the lock, where the instructions are known.
    let known = &model.steady[step_at];
    let steady = match known.get() {
        Some(steady) => steady,
        None => {
            let found = Steady::find(model, step_at, filter.steady_tolerance);
            known.get_or_init(|| found)
        }
    };
    let Some(steady) = steady.as_ref().filter(|s| end - first >= s.memory) else {
        return Leap::NotBefore(end + 1);
    };
    let Some(correction) = steady.correction(&state.s) else {
        // Nearer to the limit it goes better.
        return Leap::NotBefore(first + first.clamp(4, 64));
    };
    let mut x = state.x.clone();
    let n_kept = steady.memory * m;
    let mut record = match tape {
        Some(_) => steady.block.record(&(first..end)),
        None => StretchRecord { first, x: Vec::new(), e: vec![0.0; n_kept] },
    };
    let blocks = steady.block.filter(data, first..end, &mut x, &mut record);
    let logs: f64 = steady.gains.s.iter().map(|s| (2.0 * PI * s).ln()).sum();
    let gain = 0.5 * (correction.twice_gain(&record.e[..n_kept]) - blocks.squares - logs * blocks.n_samples as f64);
    if !gain.is_finite() || !x.iter().all(|x| x.is_finite()) {
        // Sample by sample it shows where.
        return Leap::NotBefore(end + 1);
    }
    let mut slope = None;
    if !state.dx.is_empty() {
        let begin = Tangent { dx: std::mem::take(&mut state.dx), dp: std::mem::take(&mut state.dp) };
        slope = steady.slope(model, data, step_at, first..end, &state.x, &state.s, &begin);
        let Some(slope) = &mut slope else {
            (state.dx, state.dp) = (begin.dx, begin.dp);
            return Leap::NotBefore(end + 1);
        };
        sums.gradient.iter_mut().zip(&slope.gradient).for_each(|(sum, more)| *sum += more);
        sums.information += &slope.information;
        (state.dx, state.dp) = (std::mem::take(&mut slope.end.dx), std::mem::take(&mut slope.end.dp));
    }
    if let Some(tape) = tape {
        tape.add([&state.s[..]], Mark::Leapt { step_at, record });
    }
    sums.log_likelihood += gain;
    sums.n_counted += m * blocks.n_samples;
    state.x = x;
    state.s.clone_from(&steady.factor);
    state.is_p_fresh = false;
    Leap::Over { end: first + blocks.n_samples, step_at, steady, slope }
}

/// Goes on with constant gains as long as samples are complete and one step apart; gives the first sample that is left.
#[inline(always)]
fn coast(way: &mut Way<'_>, data: &RunData<'_>, step_at: usize, first: usize) -> usize {
    let Way { state, gains, sums, tape, .. } = way;
    let m = state.model.measurements.len();
    let end =
        if data.step_of[data.experiment.segment_of[first]] == Some(step_at) { data.stretch_ends[first] } else { first };
    if m == 0 || state.model.n == 0 || end - first < SHORTEST_LEAP {
        return first;
    }
    let mut x = state.x.clone();
    let block = Block::new(state.model, step_at, &gains.s, &gains.k);
    let samples = if tape.is_some() { first..end } else { first..first };
    let mut record = block.record(&samples);
    let BlockSums { n_samples, squares } = block.filter(data, first..end, &mut x, &mut record);
    if !squares.is_finite() || !x.iter().all(|x| x.is_finite()) {
        // Sample by sample it shows where.
        return first;
    }
    if let Some(tape) = tape {
        let gains = SteadyCopy { s: gains.s.clone(), k: gains.k.clone() };
        tape.add([], Mark::Coasted { step_at, record, block: Box::new(block), gains });
    }
    sums.log_likelihood -= 0.5 * (squares + gains.log.iter().sum::<f64>() * n_samples as f64);
    sums.n_counted += m * n_samples;
    state.x = x;
    first + n_samples
}

/// Nothing is lost in the steady state: `S` and `dP` stay as predicted when it was reached, and take the measurements
/// of the sample that was left out of them.
fn restore(state: &mut State<'_>, gains: &Gains, tape: &mut Option<Tape>) {
    let model = state.model;
    let n = model.n;
    let m = model.measurements.len();
    for (at, row) in model.measurements.iter().enumerate() {
        let s = gains.s[at];
        let gain = &gains.k[at * n..(at + 1) * n];
        if let Some(tape) = tape {
            tape.add([gain], Mark::Restored { at, s });
        }
        state.refresh_p();
        let mut ph = vec![0.0; n];
        add_product(&mut ph, &state.p, &row.h);
        for lane in 0..state.dp.len() {
            let d_row = &model.d_measurements[lane][at];
            let mut dph = vec![0.0; n];
            add_product(&mut dph, &state.dp[lane], &row.h);
            add_product(&mut dph, &state.p, &d_row.h);
            let ds = gains.ds[lane * m + at];
            for j in 0..n {
                for i in 0..n {
                    state.dp[lane][j * n + i] += gain[i] * (gain[j] * ds - dph[j]) - dph[i] * gain[j];
                }
            }
        }
        let f: Vec<f64> = (0..n).map(|k| dot(&state.s[k * n..(k + 1) * n], &row.h)).collect();
        shrink(&mut state.s, &f, gain, row.variance, s);
        state.is_p_fresh = false;
    }
}

/// Whether the same values are missing.
fn same_pattern(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_nan() == b.is_nan())
}

/// The largest relative change of innovation variances, gains and their derivatives.
fn change_of(now: &Gains, before: &Gains, n: usize, m: usize, lanes: usize) -> f64 {
    let mut change = 0.0f64;
    let mut see = |difference: f64| {
        if difference > change || difference.is_nan() {
            change = if difference.is_nan() { f64::INFINITY } else { difference };
        }
    };
    for at in 0..m {
        let s = now.s[at];
        see((s - before.s[at]).abs() / s);
        let unit = |i: usize| if now.size[i] > 0.0 { s.sqrt() / now.size[i] } else { 0.0 };
        for i in 0..n {
            see((now.k[at * n + i] - before.k[at * n + i]).abs() * unit(i));
        }
        for lane in 0..lanes {
            let place = lane * m + at;
            let size_s = now.ds[place].abs().max(1e-30 * s);
            let range = place * n..(place + 1) * n;
            let (dk, dk_before) = (&now.dk[range.clone()], &before.dk[range]);
            let size_k = (0..n).fold(0.0f64, |largest, i| largest.max(dk[i].abs() * unit(i)));
            // Derivatives matter relative to the largest of them.
            let size = (size_s / s).max(size_k).max(f64::MIN_POSITIVE);
            see((now.ds[place] - before.ds[place]).abs() / s / size * 1e-2);
            for i in 0..n {
                see((dk[i] - dk_before[i]).abs() * unit(i) / size * 1e-2);
            }
        }
    }
    change
}
