//! The gradient of the likelihood in one run backwards, at a price that does not grow with the number of parameters.
//!
//! A bar denotes the derivative of the log-likelihood `L` by a quantity at some place of the run, at fixed values of all
//! that came before. Going back over a measurement of variance `s`, counted with `-(log(2 pi s) + e^2 / s) / 2`
//! [@giles2008, sec. 2; @griewank2008, ch. 3]
//!
//! ```text
//! e = y - h x - feed u      x+ = x + K e            bar(e) = K^T bar(x+) - e / s      bar(K) = e bar(x+)
//!                                                   bar(x) = bar(x+) - h bar(e)       bar(h) = -bar(e) x
//! q = P h   s = h^T q + r   K = q / s   P+ = P - q q^T / s
//!                                                   z = bar(P+) K
//!                                                   bar(s) = K^T z - K^T bar(K) / s - (1 / s - e^2 / s^2) / 2
//!                                                   bar(q) = bar(K) / s - 2 z + h bar(s)
//!                                                   bar(P) = bar(P+) + (bar(q) h^T + h bar(q)^T) / 2
//!                                                   bar(h) += P bar(q) + q bar(s)     bar(r) = bar(s)
//! ```
//!
//! and over a step
//!
//! ```text
//! x+ = Phi x + G u          bar(x) = Phi^T bar(x+)          bar(Phi) += bar(x+) x^T        bar(G) += bar(x+) u^T
//! P+ = Phi P Phi^T + Q_d    bar(P) = Phi^T bar(P+) Phi      bar(Phi) += 2 bar(P+) Phi P    bar(Q_d) += bar(P+)
//! ```
//!
//! Of the run only `x`, the gains, and the factor of `P` after the measurements of every sample are kept; before a
//! measurement `P = P+ + s K K^T`. While gains are constant, `bar(K)` and `bar(s)` add up and are passed on to the sample
//! that the gains are from. Columns `X` of a diffuse start are further states without measured values, `E = -h X` and
//! `X+ = X + K E`, whose normal matrix `N = sum of E^T E / s` adds `-1/2 log det N`.
//!
//! In the end every parameter has its share of each matrix: `dL = <bar(Phi), dPhi> + <bar(Q_d), dQ_d> + ..`.

use faer::Mat;

use super::tape::{Mark, Taken, Tape};
use super::{FilterModel, RunData, StepModel};
use crate::kernel::{add_product, add_scaled, add_square_product, dot, square};
use crate::stretch::{LimitSlope, StretchSlopes};

/// Derivatives of the log-likelihood by the matrices of a step.
#[derive(Clone)]
pub(crate) struct StepSlope {
    pub phi: Vec<f64>,
    /// `[power][input]` columns.
    pub inputs: Vec<f64>,
    /// Symmetric.
    pub covariance: Vec<f64>,
    /// Whether any sample was a step of this length from the next.
    pub is_used: bool,
}

/// Derivatives of the log-likelihood by what the filter knows of a measurement.
#[derive(Clone)]
pub(crate) struct RowSlope {
    pub h: Vec<f64>,
    pub feed: Vec<f64>,
    pub variance: f64,
}

/// Derivatives of the log-likelihood by all that a filter reads.
pub(crate) struct FilterSlope {
    pub steps: Vec<StepSlope>,
    pub rows: Vec<RowSlope>,
    /// By what impulses of inputs do.
    pub input: Vec<f64>,
    /// By parameter: what starts, variances over time and inputs that depend on parameters bring.
    pub gradient: Vec<f64>,
}

impl FilterSlope {
    pub fn new(model: &FilterModel) -> Self {
        let of_step = |step: &StepModel| StepSlope {
            phi: vec![0.0; step.phi.len()],
            inputs: vec![0.0; step.inputs.len()],
            covariance: vec![0.0; step.phi.len()],
            is_used: false,
        };
        let rows = model.measurements.iter();
        Self {
            steps: model.steps.iter().map(of_step).collect(),
            rows: rows
                .map(|r| RowSlope { h: vec![0.0; r.h.len()], feed: vec![0.0; r.feed.len()], variance: 0.0 })
                .collect(),
            input: vec![0.0; model.input.len()],
            gradient: vec![0.0; model.n_theta],
        }
    }

    /// What a parameter brings by what measurements read and impulses do.
    pub fn along(&self, model: &FilterModel, lane: usize) -> f64 {
        let rows = self.rows.iter().zip(&model.d_measurements[lane]);
        let of_rows: f64 =
            rows.map(|(slope, d)| dot(&slope.h, &d.h) + dot(&slope.feed, &d.feed) + slope.variance * d.variance).sum();
        self.gradient[lane] + of_rows + dot(&self.input, &model.d_input[lane])
    }
}

/// Where derivatives stand on the way back.
pub(crate) struct Bars {
    /// By the state.
    pub x: Vec<f64>,
    /// By the columns of a diffuse start.
    columns: Vec<Vec<f64>>,
    /// By the covariance, symmetric.
    pub p: Vec<f64>,
    /// By constant gains and their variances.
    pub k: Vec<f64>,
    pub s: Vec<f64>,
}

/// Goes back over the covariance's part of a measurement (see the module): from `bar(P+)`, `bar(K)` and `bar(s)` to
/// `bar(P)`; `p` is the covariance before the measurement. Adds to `bar(h)` and gives `bar(r)`.
#[allow(clippy::too_many_arguments, reason = "the quantities of the equations above")]
#[inline(always)]
pub(crate) fn correct_backwards(
    h: &[f64],
    p: &[f64],
    gain: &[f64],
    s: f64,
    gain_bar: &[f64],
    s_bar: f64,
    p_bar: &mut [f64],
    h_bar: &mut [f64],
    work: &mut [f64],
) -> f64 {
    let n = h.len();
    work.fill(0.0);
    add_product(work, p_bar, gain);
    let s_bar = s_bar + dot(gain, work) - dot(gain, gain_bar) / s;
    for (q, (gain_bar, h)) in work.iter_mut().zip(gain_bar.iter().zip(h)) {
        *q = gain_bar / s - 2.0 * *q + s_bar * h;
    }
    for (j, column) in p_bar.chunks_exact_mut(n.max(1)).enumerate() {
        let (half_h, half_q) = (0.5 * h[j], 0.5 * work[j]);
        for (out, (q, h)) in column.iter_mut().zip(work.iter().zip(h)) {
            *out += q * half_h + h * half_q;
        }
    }
    add_product(h_bar, p, work);
    add_scaled(h_bar, s_bar * s, gain);
    s_bar
}

/// Goes back over the covariance's part of a step: from `bar(P+)` to `bar(P)`, with `p` the covariance before it.
#[inline(always)]
pub(crate) fn spread_backwards(
    step: &StepModel,
    p: &[f64],
    p_bar: &mut [f64],
    slope: &mut StepSlope,
    work: &mut [f64],
) {
    let n = p.len().isqrt();
    add_scaled(&mut slope.covariance, 1.0, p_bar);
    slope.is_used = true;
    work.fill(0.0);
    add_square_product(work, p_bar, &step.phi, n);
    // bar(Phi) += 2 W P and bar(P) = Phi^T W with W = bar(P+) Phi; P is symmetric.
    for (target, p) in slope.phi.chunks_exact_mut(n.max(1)).zip(p.chunks_exact(n.max(1))) {
        for (column, &p) in work.chunks_exact(n.max(1)).zip(p) {
            add_scaled(target, 2.0 * p, column);
        }
    }
    for (j, column) in work.chunks_exact(n.max(1)).enumerate() {
        for (i, phi) in step.phi.chunks_exact(n.max(1)).enumerate().take(j + 1) {
            let value = dot(phi, column);
            p_bar[j * n + i] = value;
            p_bar[i * n + j] = value;
        }
    }
}

/// `a += x y^T` for `a` of `x.len()` rows.
#[inline(always)]
fn add_outer(a: &mut [f64], x: &[f64], y: &[f64]) {
    for (column, &y) in a.chunks_exact_mut(x.len().max(1)).zip(y) {
        add_scaled(column, y, x);
    }
}

/// Goes back over a run and adds what it finds to `slope`. `normal_bar` is the derivative by the normal matrix of a
/// diffuse start, and empty where there is none. `None` where a stretch has no derivative that can be had safely.
pub(crate) fn run_backwards(
    model: &FilterModel,
    data: &RunData<'_>,
    tape: Tape,
    normal_bar: &Mat<f64>,
    slope: &mut FilterSlope,
) -> Option<()> {
    pulp::Arch::new().dispatch(Back { model, data, tape, normal_bar, slope })
}

/// A run backwards as something that can be compiled for several sets of instructions.
struct Back<'a> {
    model: &'a FilterModel,
    data: &'a RunData<'a>,
    tape: Tape,
    normal_bar: &'a Mat<f64>,
    slope: &'a mut FilterSlope,
}

impl pulp::WithSimd for Back<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
        let (n, m, q) = (self.model.n, self.model.measurements.len(), self.normal_bar.ncols());
        let width = (self.data.experiment.degree + 1) * self.data.experiment.n_inputs;
        let mut way = WayBack {
            model: self.model,
            data: self.data,
            normal_bar: self.normal_bar,
            slope: self.slope,
            orders: self.model.measurements.first().map_or(0, |row| row.feed.len().min(width)),
            bars: Bars {
                x: vec![0.0; n],
                columns: vec![vec![0.0; n]; q],
                p: vec![0.0; n * n],
                k: vec![0.0; m * n],
                s: vec![0.0; m],
            },
            p: vec![0.0; n * n],
            state: vec![0.0; n * (q + 1)],
            gain: vec![0.0; n],
            gain_bar: vec![0.0; n],
            vector: vec![0.0; n],
            matrix: vec![0.0; n * n],
        };
        way.go(self.tape)?;
        way.finish();
        Some(())
    }
}

struct WayBack<'a> {
    model: &'a FilterModel,
    data: &'a RunData<'a>,
    normal_bar: &'a Mat<f64>,
    slope: &'a mut FilterSlope,
    /// Entries of the inputs that measurements see directly.
    orders: usize,
    bars: Bars,
    /// The covariance after what was last gone back over.
    p: Vec<f64>,
    /// The state before it, then the columns of a diffuse start.
    state: Vec<f64>,
    gain: Vec<f64>,
    gain_bar: Vec<f64>,
    vector: Vec<f64>,
    matrix: Vec<f64>,
}

impl WayBack<'_> {
    #[inline(always)]
    fn go(&mut self, mut tape: Tape) -> Option<()> {
        while let Some(mark) = tape.take_mark() {
            match mark {
                Mark::Ended => self.take_covariance(&mut tape),
                Mark::Moved { step_at, segment } => {
                    tape.take_numbers(&mut self.state);
                    self.move_back(step_at, segment);
                }
                Mark::Spread { step_at } => {
                    self.take_covariance(&mut tape);
                    let (step, slope) = (&self.model.steps[step_at], &mut self.slope.steps[step_at]);
                    spread_backwards(step, &self.p, &mut self.bars.p, slope, &mut self.matrix);
                }
                Mark::Kicked { segment } => {
                    add_outer(&mut self.slope.input, &self.bars.x, &self.data.experiment.segments[segment].kick);
                }
                Mark::Taken(taken) => {
                    tape.take_numbers(&mut self.gain);
                    tape.take_numbers(&mut self.state);
                    self.untake(&taken);
                }
                Mark::Restored { at, s } => {
                    tape.take_numbers(&mut self.gain);
                    add_own_outer(&mut self.p, s, &self.gain);
                    self.gain_bar.fill(0.0);
                    // Variances of such measurements do not change over time.
                    let r_bar = self.uncorrect(at, s, 0.0);
                    self.slope.rows[at].variance += r_bar;
                }
                Mark::Leapt { step_at, record } => {
                    tape.take_numbers(&mut self.matrix);
                    let steady = self.model.steady[step_at].get()?.as_ref()?;
                    let limit = LimitSlope { steady, model: self.model, data: self.data, step_at, slope: self.slope };
                    limit.leap_backwards(record, &self.matrix, &mut self.bars)?;
                }
                Mark::Coasted { step_at, record, block, gains } => {
                    let stretch = StretchSlopes { model: self.model, data: self.data, step_at, block: &block };
                    stretch.coast_backwards(record, &gains, self.slope, &mut self.bars);
                }
            }
        }
        Some(())
    }

    #[inline(always)]
    fn take_covariance(&mut self, tape: &mut Tape) {
        tape.take_numbers(&mut self.matrix);
        square(&mut self.p, &self.matrix, self.model.n);
    }

    /// Back over the covariance's part of a measurement, before which it is `p`; gives the slope by the variance.
    #[inline(always)]
    fn uncorrect(&mut self, at: usize, s: f64, s_bar: f64) -> f64 {
        let (row, slope) = (&self.model.measurements[at], &mut self.slope.rows[at]);
        let (gain, gain_bar, p_bar) = (&self.gain, &self.gain_bar, &mut self.bars.p);
        correct_backwards(&row.h, &self.p, gain, s, gain_bar, s_bar, p_bar, &mut slope.h, &mut self.vector)
    }

    /// Back over a measurement.
    #[inline(always)]
    fn untake(&mut self, taken: &Taken) {
        let &Taken { sample, at, e, s, is_counted, is_steady } = taken;
        let (n, m) = (self.model.n, self.model.measurements.len());
        let row = &self.model.measurements[at];
        let slope = &mut self.slope.rows[at];
        let bars = &mut self.bars;
        let mut e_bar = dot(&self.gain, &bars.x);
        let mut s_bar = 0.0;
        if is_counted {
            e_bar -= e / s;
            s_bar -= 0.5 * (1.0 - e * e / s) / s;
        }
        self.gain_bar.fill(0.0);
        add_scaled(&mut self.gain_bar, e, &bars.x);
        add_scaled(&mut bars.x, -e_bar, &row.h);
        add_scaled(&mut slope.h, -e_bar, &self.state[..n]);
        let segment = self.data.experiment.segment_of[sample];
        let orders = self.orders;
        add_scaled(&mut slope.feed[..orders], -e_bar, &self.data.inputs_of(segment)[..orders]);
        for (sum, d_inputs) in self.slope.gradient.iter_mut().zip(self.data.d_inputs_of(segment)) {
            *sum -= e_bar * dot(&row.feed[..orders], &d_inputs[..orders]);
        }
        s_bar += self.untake_columns(at, s, is_counted);
        if is_steady {
            add_scaled(&mut self.bars.k[at * n..(at + 1) * n], 1.0, &self.gain_bar);
            self.bars.s[at] += s_bar;
            return;
        }
        let kept = &mut self.bars.k[at * n..(at + 1) * n];
        add_scaled(&mut self.gain_bar, 1.0, kept);
        kept.fill(0.0);
        s_bar += std::mem::take(&mut self.bars.s[at]);
        add_own_outer(&mut self.p, s, &self.gain);
        let r_bar = self.uncorrect(at, s, s_bar);
        match self.data.variances {
            None => self.slope.rows[at].variance += r_bar,
            Some(table) => {
                let derivatives = table.derivatives.iter().map(|list| list[sample * m + at]);
                self.slope.gradient.iter_mut().zip(derivatives).for_each(|(sum, d)| *sum += r_bar * d);
            }
        }
    }

    /// Back over what a measurement did to the columns of a diffuse start; gives their share of the slope by the
    /// innovation variance.
    #[inline(always)]
    fn untake_columns(&mut self, at: usize, s: f64, is_counted: bool) -> f64 {
        let (n, h) = (self.model.n, &self.model.measurements[at].h);
        let columns = || self.state[n..].chunks_exact(n.max(1));
        let seen: Vec<f64> = columns().map(|x| -dot(h, x)).collect();
        let mut s_bar = 0.0;
        for (a, (bar, x)) in self.bars.columns.iter_mut().zip(columns()).enumerate() {
            let mut e_bar = dot(&self.gain, bar);
            if is_counted {
                let pull: f64 = seen.iter().enumerate().map(|(b, e)| self.normal_bar[(a, b)] * e).sum();
                e_bar += 2.0 * pull / s;
                s_bar -= seen[a] * pull / (s * s);
            }
            add_scaled(&mut self.gain_bar, seen[a], bar);
            add_scaled(bar, -e_bar, h);
            add_scaled(&mut self.slope.rows[at].h, -e_bar, x);
        }
        s_bar
    }

    /// Back over a step of the means.
    #[inline(always)]
    fn move_back(&mut self, step_at: usize, segment: usize) {
        let n = self.model.n;
        let (step, slope) = (&self.model.steps[step_at], &mut self.slope.steps[step_at]);
        let (x, columns) = self.state.split_at(n);
        add_outer(&mut slope.inputs, &self.bars.x, self.data.inputs_of(segment));
        if !self.data.d_inputs.is_empty() {
            let by_input: Vec<f64> = step.inputs.chunks_exact(n.max(1)).map(|g| dot(g, &self.bars.x)).collect();
            for (sum, d_inputs) in self.slope.gradient.iter_mut().zip(self.data.d_inputs_of(segment)) {
                *sum += dot(&by_input, d_inputs);
            }
        }
        let bars = std::iter::once(&mut self.bars.x).chain(&mut self.bars.columns);
        for (bar, x) in bars.zip(std::iter::once(x).chain(columns.chunks_exact(n.max(1)))) {
            add_outer(&mut slope.phi, bar, x);
            for (out, phi) in self.vector.iter_mut().zip(step.phi.chunks_exact(n.max(1))) {
                *out = dot(phi, bar);
            }
            bar.copy_from_slice(&self.vector);
        }
    }

    /// What parameters bring by the start.
    #[inline(always)]
    fn finish(self) {
        let n = self.model.n;
        for (sum, d_start) in self.slope.gradient.iter_mut().zip(&self.data.start.derivatives) {
            *sum += dot(&self.bars.x, &d_start.mean);
            for j in 0..n {
                *sum += dot(&self.bars.p[j * n..(j + 1) * n], d_start.covariance.col_as_slice(j));
            }
            for (j, bar) in self.bars.columns.iter().enumerate() {
                *sum += dot(bar, d_start.directions.col_as_slice(j));
            }
        }
    }
}

/// `p += s k k^T`
#[inline(always)]
fn add_own_outer(p: &mut [f64], s: f64, k: &[f64]) {
    for (column, &y) in p.chunks_exact_mut(k.len().max(1)).zip(k) {
        add_scaled(column, s * y, k);
    }
}
