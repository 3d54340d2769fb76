//! Random descriptor models of a hidden index, with exact coefficients' derivatives, and the joint distribution of
//! their samples, built without any filter.

use daesy_estimate::descriptor::{
    Coefficients, FilterBlock, ModelLayout, ParametricModel, SignalRows, StartMode, StartRows,
};
use daesy_estimate::error::EstimateError;
use daesy_estimate::experiment::{Experiment, InputJet, Segment, VarianceJet};
use faer::Mat;
use faer::linalg::solvers::Solve;

pub const N_UNKNOWN: usize = 6;
const N_FILTER: usize = 3;

/// `E = P diag(I, N) Q`, `F = P diag(A, I) Q`, with `P`, `Q`, `A`, `N` and everything else linear in the unknowns.
pub struct RandomModel {
    layout: ModelLayout,
    pub experiments: Vec<Experiment>,
    n_finite: usize,
    n_infinite: usize,
    p: [Mat<f64>; 2],
    q: [Mat<f64>; 2],
    a: [Mat<f64>; 2],
    nilpotent: [Mat<f64>; 2],
    input: [Mat<f64>; 2],
    disturbance: Mat<f64>,
    white: [Mat<f64>; 2],
    measured: [Mat<f64>; 2],
    estimated: Mat<f64>,
    start: Mat<f64>,
    start_values: Vec<f64>,
    noise_free: bool,
}

fn random(rng: &mut fastrand::Rng, rows: usize, columns: usize) -> Mat<f64> {
    Mat::from_fn(rows, columns, |_, _| 2.0 * rng.f64() - 1.0)
}

fn scaled(a: &Mat<f64>, factor: f64) -> Mat<f64> {
    a * faer::Scale(factor)
}

fn diagonal(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    let (n, m) = (a.nrows(), b.nrows());
    Mat::from_fn(n + m, n + m, |i, j| {
        if i < n && j < n {
            a[(i, j)]
        } else if i >= n && j >= n {
            b[(i - n, j - n)]
        } else {
            0.0
        }
    })
}

/// The filter `w''' + 2 w'' + 3 w' + theta_3 w = theta_4 v` in companion form.
fn filter_matrices(theta: &[f64]) -> (Mat<f64>, Mat<f64>, Mat<f64>) {
    let a = Mat::from_fn(3, 3, |i, j| [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-theta[3], -3.0, -2.0]][i][j]);
    let b = Mat::from_fn(3, 1, |i, _| [0.0, 0.0, theta[4]][i]);
    let c = Mat::from_fn(1, 3, |_, j| [1.0, 0.0, 0.0][j]);
    (a, b, c)
}

impl RandomModel {
    pub fn theta() -> Vec<f64> {
        vec![0.3, -0.2, 0.4, 1.5, 0.8, 0.1]
    }

    pub fn new(seed: u64, index: usize, start: StartMode, noise_free: bool) -> Self {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let n_finite = 3;
        let n_infinite = [0, 2, 2, 3][index];
        let n = n_finite + n_infinite;
        let near_identity = |rng: &mut fastrand::Rng| Mat::<f64>::identity(n, n) + scaled(&random(rng, n, n), 0.3);
        let shift = |rng: &mut fastrand::Rng, size: f64| {
            let values = random(rng, n_infinite, n_infinite);
            Mat::from_fn(n_infinite, n_infinite, |i, j| {
                if index >= 2 && j == i + 1 { size * (1.5 + values[(i, j)]) } else { 0.0 }
            })
        };
        let stable = random(rng, n_finite, n_finite) - scaled(&Mat::identity(n_finite, n_finite), 1.5);
        let white = |rng: &mut fastrand::Rng, size: f64| {
            let values = random(rng, n, 1);
            // White noise drives the finite part only: no signal may hold it.
            Mat::from_fn(n, 1, |i, _| if i < n_finite { size * values[(i, 0)] } else { 0.0 })
        };
        let mut experiments = Vec::new();
        for n_samples in [14, 9] {
            experiments.push(random_experiment(rng, n_samples));
        }
        let full = n + N_FILTER;
        let rows = n_finite;
        Self {
            layout: ModelLayout {
                n_unknown: N_UNKNOWN,
                filters: vec![FilterBlock { states: n..full, starts_at_zero: false }],
                start,
            },
            experiments,
            n_finite,
            n_infinite,
            p: [near_identity(rng), scaled(&random(rng, n, n), 0.1)],
            q: [near_identity(rng), scaled(&random(rng, n, n), 0.1)],
            a: [stable, random(rng, n_finite, n_finite)],
            nilpotent: [shift(rng, 1.0), shift(rng, 0.2)],
            input: [random(rng, n, 2), random(rng, n, 2)],
            disturbance: random(rng, n, 1),
            white: [white(rng, 0.5), white(rng, 0.3)],
            measured: [random(rng, 2, n), scaled(&random(rng, 2, n), 0.2)],
            estimated: random(rng, 2, n),
            start: random(rng, rows, n),
            start_values: (0..rows).map(|_| rng.f64() - 0.5).collect(),
            noise_free,
        }
    }

    /// The same model with one experiment of a constant step, complete but for one sample in the middle.
    pub fn with_even_samples(mut self, seed: u64, n_samples: usize) -> Self {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut measurements: Vec<f64> = (0..2 * n_samples).map(|_| 2.0 * rng.f64() - 1.0).collect();
        measurements[n_samples] = f64::NAN;
        let segment = |k: usize| Segment { length: if k + 1 < n_samples { 0.25 } else { 0.0 }, kick: Vec::new() };
        self.experiments = vec![Experiment {
            times: (0..n_samples).map(|k| 0.25 * k as f64).collect(),
            measurements,
            segments: (0..n_samples).map(segment).collect(),
            segment_of: (0..n_samples).collect(),
            inputs: (0..n_samples * 8).map(|_| rng.f64() - 0.5).collect(),
            n_inputs: 2,
            degree: 3,
            first_counted: 0,
        }];
        self
    }

    /// The same without the samples from one on.
    pub fn before(mut self, n_samples: usize) -> Self {
        for experiment in &mut self.experiments {
            experiment.times.truncate(n_samples);
            experiment.measurements.truncate(2 * n_samples);
            experiment.segments.truncate(n_samples);
            experiment.segment_of.truncate(n_samples);
            experiment.inputs.truncate(8 * n_samples);
            if let Some(last) = experiment.segments.last_mut() {
                last.length = 0.0;
            }
        }
        self
    }

    fn n(&self) -> usize {
        self.n_finite + self.n_infinite
    }

    fn at(&self, pair: &[Mat<f64>; 2], value: f64) -> Mat<f64> {
        &pair[0] + scaled(&pair[1], value)
    }

    fn start_rows(&self) -> StartRows {
        let full = self.n() + N_FILTER;
        let mut rows = StartRows::zeros(self.start.nrows(), full, 2);
        for i in 0..self.start.nrows() {
            for j in 0..self.n() {
                rows.variables[(i, j)] = self.start[(i, j)];
            }
        }
        rows.values = self.start_values.clone();
        rows
    }

    /// Canonical pieces at some parameters.
    fn pieces(&self, theta: &[f64]) -> Pieces {
        Pieces {
            p: self.at(&self.p, theta[0]),
            q: self.at(&self.q, theta[1]),
            a: self.at(&self.a, theta[2]),
            nilpotent: self.at(&self.nilpotent, theta[0]),
            input: self.at(&self.input, theta[1]),
            white: self.at(&self.white, theta[2]),
            measured: self.at(&self.measured, theta[0]),
        }
    }

    fn variances(&self, theta: &[f64]) -> Vec<f64> {
        vec![theta[5] * theta[5], if self.noise_free { 0.0 } else { 0.02 }]
    }
}

struct Pieces {
    p: Mat<f64>,
    q: Mat<f64>,
    a: Mat<f64>,
    nilpotent: Mat<f64>,
    input: Mat<f64>,
    white: Mat<f64>,
    measured: Mat<f64>,
}

fn random_experiment(rng: &mut fastrand::Rng, n_samples: usize) -> Experiment {
    let mut times = vec![0.3];
    for k in 1..n_samples {
        // Some steps repeat, some do not.
        let step = if k % 3 == 0 { 0.05 + rng.f64() } else { 0.25 };
        times.push(times[k - 1] + step);
    }
    let measurements =
        (0..2 * n_samples).map(|_| if rng.f64() < 0.25 { f64::NAN } else { 2.0 * rng.f64() - 1.0 }).collect();
    let degree = 3;
    let mut segments = Vec::new();
    let mut segment_of = Vec::new();
    // The experiment starts before its first sample, and some stretches between samples are in two pieces.
    segments.push(Segment { length: 0.3, kick: Vec::new() });
    for k in 0..n_samples {
        segment_of.push(segments.len());
        let length = if k + 1 < n_samples { times[k + 1] - times[k] } else { 0.0 };
        if k % 4 == 1 && length > 0.0 {
            segments.push(Segment { length: 0.4 * length, kick: vec![0.3, -0.2] });
            segments.push(Segment { length: 0.6 * length, kick: Vec::new() });
        } else {
            segments.push(Segment { length, kick: Vec::new() });
        }
    }
    let inputs = (0..segments.len() * (degree + 1) * 2).map(|_| rng.f64() - 0.5).collect();
    Experiment { times, measurements, segments, segment_of, inputs, n_inputs: 2, degree, first_counted: 0 }
}

fn padded(rows: &Mat<f64>, n: usize) -> SignalRows {
    SignalRows {
        variables: Mat::from_fn(rows.nrows(), n, |i, j| if j < rows.ncols() { rows[(i, j)] } else { 0.0 }),
        inputs: Mat::zeros(rows.nrows(), 2),
    }
}

impl ParametricModel for RandomModel {
    fn layout(&self) -> &ModelLayout {
        &self.layout
    }

    fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError> {
        let x = self.pieces(theta);
        let (n, full) = (self.n(), self.n() + N_FILTER);
        let (aw, bw, cw) = filter_matrices(theta);
        let e = &x.p * diagonal(&Mat::identity(self.n_finite, self.n_finite), &x.nilpotent) * &x.q;
        let f = &x.p * diagonal(&x.a, &Mat::identity(self.n_infinite, self.n_infinite)) * &x.q;
        let driven = &x.p * &self.disturbance * &cw;
        let input = &x.p * &x.input;
        let white = &x.p * &x.white;
        let mut f = diagonal(&f, &aw);
        for i in 0..n {
            for j in 0..N_FILTER {
                f[(i, n + j)] = driven[(i, j)];
            }
        }
        let start = self.start_rows();
        let none = StartRows::none(full, 2);
        let is_given = self.layout.start == StartMode::Given;
        Ok(Coefficients {
            e: diagonal(&e, &Mat::identity(N_FILTER, N_FILTER)),
            f,
            g: Mat::from_fn(full, 2, |i, j| if i < n { input[(i, j)] } else { 0.0 }),
            j: Mat::from_fn(full, 2, |i, j| match (i < n, j) {
                (true, 0) => white[(i, 0)],
                (false, 1) => bw[(i - n, 0)],
                _ => 0.0,
            }),
            intensities: vec![theta[2].exp(), 1.0],
            measured: padded(&x.measured, full),
            estimated: padded(&self.estimated, full),
            variances: self.variances(theta),
            insisted: if is_given { start.clone() } else { none.clone() },
            wished: if is_given { none } else { start },
        })
    }

    /// All pieces are linear in the unknowns and products hold at most three different ones, so that differences of the
    /// four corner points of a cubic are exact but for rounding.
    fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
        (0..N_UNKNOWN)
            .map(|at| {
                let moved = |by: f64| {
                    let mut theta = theta.to_vec();
                    theta[at] += by;
                    self.coefficients(&theta)
                };
                let (a, b, c, d) = (moved(1.0)?, moved(-1.0)?, moved(2.0)?, moved(-2.0)?);
                let slope = |get: &dyn Fn(&Coefficients) -> &Mat<f64>| {
                    let near = get(&a) - get(&b);
                    let far = get(&c) - get(&d);
                    scaled(&near, 8.0 / 12.0) - scaled(&far, 1.0 / 12.0)
                };
                let mut derivative = a.clone();
                derivative.e = slope(&|x| &x.e);
                derivative.f = slope(&|x| &x.f);
                derivative.g = slope(&|x| &x.g);
                derivative.j = slope(&|x| &x.j);
                derivative.measured.variables = slope(&|x| &x.measured.variables);
                derivative.measured.inputs = slope(&|x| &x.measured.inputs);
                derivative.estimated.variables = slope(&|x| &x.estimated.variables);
                derivative.estimated.inputs = slope(&|x| &x.estimated.inputs);
                derivative.intensities = vec![if at == 2 { theta[2].exp() } else { 0.0 }, 0.0];
                derivative.variances = (0..2)
                    .map(|k| (8.0 * (a.variances[k] - b.variances[k]) - (c.variances[k] - d.variances[k])) / 12.0)
                    .collect();
                for rows in [&mut derivative.insisted, &mut derivative.wished] {
                    *rows = StartRows::zeros(rows.len(), self.n() + N_FILTER, 2);
                }
                Ok(derivative)
            })
            .collect()
    }

    fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }
}

/// The same model with inputs that grow with the first unknown, and variances over time that do with the second.
pub struct WithTables<'a> {
    pub model: &'a RandomModel,
    pub moves_variances: bool,
}

impl ParametricModel for WithTables<'_> {
    fn layout(&self) -> &ModelLayout {
        self.model.layout()
    }

    fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError> {
        self.model.coefficients(theta)
    }

    fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
        self.model.derivatives(theta)
    }

    fn experiments(&self) -> &[Experiment] {
        self.model.experiments()
    }

    fn inputs(&self, experiment: usize, theta: &[f64]) -> Option<InputJet> {
        let inputs = &self.model.experiments[experiment].inputs;
        let times = |factor: f64| inputs.iter().map(|u| factor * u).collect::<Vec<f64>>();
        let slope = |at: usize| times(if at == 0 { 2.0 * theta[0] } else { 0.0 });
        Some(InputJet { value: times(1.0 + theta[0] * theta[0]), derivatives: (0..N_UNKNOWN).map(slope).collect() })
    }

    fn variances(&self, experiment: usize, theta: &[f64]) -> Option<VarianceJet> {
        let n_values = self.model.experiments[experiment].measurements.len();
        let table = |factor: f64| (0..n_values).map(|k| factor * (0.02 + 1e-3 * (k % 7) as f64)).collect::<Vec<f64>>();
        let slope = |at: usize| table(if at == 1 { theta[1].exp() } else { 0.0 });
        let jet = || VarianceJet { value: table(theta[1].exp()), derivatives: (0..N_UNKNOWN).map(slope).collect() };
        self.moves_variances.then(jet)
    }
}

/// The same model with its variables and equations in another order and other units; wishes for the start are its
/// variables in their order, all zero. States of filters stay where they are.
pub struct Rearranged<'a> {
    pub model: &'a RandomModel,
    layout: ModelLayout,
    variables: Vec<usize>,
    equations: Vec<usize>,
    variable_units: Vec<f64>,
    equation_units: Vec<f64>,
}

impl<'a> Rearranged<'a> {
    pub fn new(model: &'a RandomModel, start: StartMode, rng: &mut fastrand::Rng, decades: f64) -> Self {
        let n = model.n();
        let order = |rng: &mut fastrand::Rng| {
            let mut list: Vec<usize> = (0..n).collect();
            rng.shuffle(&mut list);
            list.extend(n..n + N_FILTER);
            list
        };
        let units = |rng: &mut fastrand::Rng| {
            let own = (0..n).map(|_| 10f64.powf(decades * (2.0 * rng.f64() - 1.0))).collect::<Vec<f64>>();
            own.into_iter().chain([1.0; N_FILTER]).collect()
        };
        Self {
            model,
            layout: ModelLayout { start, ..model.layout.clone() },
            variables: order(rng),
            equations: order(rng),
            variable_units: units(rng),
            equation_units: units(rng),
        }
    }

    fn rearranged(&self, of: Coefficients, is_value: bool) -> Coefficients {
        let full = self.variables.len();
        let n = self.model.n();
        let columns =
            |a: &Mat<f64>| Mat::from_fn(a.nrows(), full, |i, j| a[(i, self.variables[j])] * self.variable_units[j]);
        let rows =
            |a: &Mat<f64>| Mat::from_fn(full, a.ncols(), |i, j| a[(self.equations[i], j)] * self.equation_units[i]);
        let mut wished = StartRows::zeros(n, full, 2);
        for i in 0..n {
            wished.variables[(i, i)] = f64::from(u8::from(is_value));
        }
        Coefficients {
            e: rows(&columns(&of.e)),
            f: rows(&columns(&of.f)),
            g: rows(&of.g),
            j: rows(&of.j),
            measured: SignalRows { variables: columns(&of.measured.variables), ..of.measured },
            estimated: SignalRows { variables: columns(&of.estimated.variables), ..of.estimated },
            insisted: StartRows::none(full, 2),
            wished,
            ..of
        }
    }
}

impl ParametricModel for Rearranged<'_> {
    fn layout(&self) -> &ModelLayout {
        &self.layout
    }

    fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError> {
        Ok(self.rearranged(self.model.coefficients(theta)?, true))
    }

    fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
        Ok(self.model.derivatives(theta)?.into_iter().map(|of| self.rearranged(of, false)).collect())
    }

    fn experiments(&self) -> &[Experiment] {
        &self.model.experiments
    }
}

/// Joint distribution of all values of an experiment and of the signals to estimate: `mean + columns delta`,
/// covariance.
pub struct Joint {
    pub mean: Vec<f64>,
    pub covariance: Mat<f64>,
    pub columns: Mat<f64>,
    /// Standard deviations of the measurement errors.
    pub deviations: Vec<f64>,
    /// Mean, covariance with the values, own variance and columns of every signal at every sample.
    pub signal_mean: Vec<f64>,
    pub signal_cross: Mat<f64>,
    pub signal_variance: Vec<f64>,
    pub signal_columns: Mat<f64>,
}

/// Plain Taylor series with squaring, independent of the crate.
fn exponential(a: &Mat<f64>) -> Mat<f64> {
    let n = a.nrows();
    let squarings = 12;
    let small = scaled(a, 0.5f64.powi(squarings));
    let mut sum = Mat::<f64>::identity(n, n);
    let mut term = sum.clone();
    for k in 1..20 {
        term = &term * &small * faer::Scale(1.0 / f64::from(k));
        sum += &term;
    }
    for _ in 0..squarings {
        sum = &sum * &sum;
    }
    sum
}

/// `A X + X A^T = -Q` in Kronecker form.
fn stationary(a: &Mat<f64>, q: &Mat<f64>) -> Mat<f64> {
    let n = a.nrows();
    let one = |is: bool| f64::from(u8::from(is));
    let matrix = Mat::from_fn(n * n, n * n, |row, column| {
        let (i, j) = (row % n, row / n);
        let (k, l) = (column % n, column / n);
        one(j == l) * a[(i, k)] + one(i == k) * a[(j, l)]
    });
    let x = matrix.partial_piv_lu().solve(Mat::from_fn(n * n, 1, |row, _| -q[(row % n, row / n)]));
    Mat::from_fn(n, n, |i, j| x[(i + n * j, 0)])
}

impl RandomModel {
    /// The joint distribution, in the canonical coordinates that the model was made of.
    pub fn joint(&self, theta: &[f64], at: usize) -> Joint {
        let experiment = &self.experiments[at];
        let pieces = self.pieces(theta);
        let (nf, ni) = (self.n_finite, self.n_infinite);
        let (aw, bw, cw) = filter_matrices(theta);
        let big = nf + N_FILTER;
        let q_inverse = pieces.q.partial_piv_lu().solve(Mat::<f64>::identity(nf + ni, nf + ni));
        let q_s = q_inverse.as_ref().subcols(0, nf).to_owned();
        let q_a = q_inverse.as_ref().subcols(nf, ni).to_owned();
        let g_s = pieces.input.as_ref().subrows(0, nf).to_owned();
        let g_a = pieces.input.as_ref().subrows(nf, ni).to_owned();
        let j_s = self.disturbance.as_ref().subrows(0, nf) * &cw;
        let j_a = self.disturbance.as_ref().subrows(nf, ni) * &cw;
        let mut dynamics = diagonal(&pieces.a, &aw);
        for i in 0..nf {
            for j in 0..N_FILTER {
                dynamics[(i, nf + j)] = j_s[(i, j)];
            }
        }
        let drive = Mat::from_fn(big, 2, |i, j| if i < nf { g_s[(i, j)] } else { 0.0 });
        let noise = Mat::from_fn(big, 2, |i, j| match (i < nf, j) {
            (true, 0) => pieces.white[(i, 0)],
            (false, 1) => bw[(i - nf, 0)],
            _ => 0.0,
        });
        let weights = Mat::from_fn(2, 2, |i, j| if i == j { [theta[2].exp(), 1.0][i] } else { 0.0 });
        let intensity = &noise * weights * noise.transpose();
        // z = Q_s x - Q_a sum N^k (G_a u^(k) + J_a A_w^k w)
        let mut z_state = Mat::zeros(nf + ni, big);
        let mut z_inputs: Vec<Mat<f64>> = Vec::new();
        let mut power = Mat::<f64>::identity(ni, ni);
        let mut filtered = Mat::<f64>::identity(N_FILTER, N_FILTER);
        for _ in 0..=3 {
            let through = &q_a * &power * &j_a * &filtered;
            for i in 0..nf + ni {
                for j in 0..N_FILTER {
                    z_state[(i, nf + j)] -= through[(i, j)];
                }
            }
            z_inputs.push(-(&q_a * &power * &g_a));
            power = &power * &pieces.nilpotent;
            filtered = &filtered * &aw;
        }
        for i in 0..nf + ni {
            for j in 0..nf {
                z_state[(i, j)] = q_s[(i, j)];
            }
        }
        let width = 8;
        let u = |segment: usize, order: usize| -> Mat<f64> {
            Mat::from_fn(2, 1, |i, _| experiment.inputs[segment * width + order * 2 + i])
        };
        let z_of = |segment: usize| -> Mat<f64> {
            (0..4).fold(Mat::zeros(nf + ni, 1), |sum, order| sum + &z_inputs[order] * u(segment, order))
        };
        // Start: the conditions and the stationary filter. But where conditions are insisted on, they speak of x_s
        // alone.
        let pi = stationary(&aw, &(&bw * bw.transpose()));
        let mode = self.layout.start;
        let conditions = &self.start * &z_state;
        let known = &self.start * z_of(0);
        let r_x = conditions.as_ref().subcols(0, nf).to_owned();
        let r_w = conditions.as_ref().subcols(nf, N_FILTER).to_owned();
        let lu = r_x.partial_piv_lu();
        let mut x0 = lu.solve(Mat::from_fn(nf, 1, |i, _| self.start_values[i] - known[(i, 0)]));
        let mut from_filter = -lu.solve(&r_w);
        if mode != StartMode::Given {
            from_filter = Mat::zeros(nf, N_FILTER);
        }
        if mode == StartMode::Zero {
            x0 = Mat::zeros(nf, 1);
        }
        let lift =
            Mat::from_fn(
                big,
                N_FILTER,
                |i, j| {
                    if i < nf { from_filter[(i, j)] } else { f64::from(u8::from(i - nf == j)) }
                },
            );
        let mut mean = Mat::from_fn(big, 1, |i, _| if i < nf { x0[(i, 0)] } else { 0.0 });
        let mut covariance = &lift * &pi * lift.transpose();
        if mode == StartMode::Stationary {
            mean = -dynamics.partial_piv_lu().solve(&drive * u(0, 0));
            covariance = stationary(&dynamics, &intensity);
        }
        let free = lu.solve(Mat::<f64>::identity(nf, nf));
        let mut columns = Mat::from_fn(big, nf, |i, j| if i < nf { free[(i, j)] } else { 0.0 });
        // Walk over the segments, keeping the transition from every sample to now.
        let n_samples = experiment.times.len();
        let mut at_sample: Vec<(Mat<f64>, Mat<f64>, Mat<f64>)> = Vec::new();
        let mut transitions: Vec<Vec<Mat<f64>>> = Vec::new();
        let mut from: Vec<Mat<f64>> = Vec::new();
        for (segment, stretch) in experiment.segments.iter().enumerate() {
            if let Some(sample) = experiment.segment_of.iter().position(|&first| first == segment) {
                at_sample.push((mean.clone(), covariance.clone(), columns.clone()));
                from.push(Mat::identity(big, big));
                transitions.push(from.clone());
                assert_eq!(sample + 1, at_sample.len());
            }
            // x' = A x + B u with u a polynomial: one exponential with u, u', .. as further states.
            let whole = big + 8;
            let mut extended = Mat::zeros(whole, whole);
            for i in 0..big {
                for j in 0..big {
                    extended[(i, j)] = dynamics[(i, j)];
                }
                for j in 0..2 {
                    extended[(i, big + j)] = drive[(i, j)];
                }
            }
            for i in 0..6 {
                extended[(big + i, big + i + 2)] = 1.0;
            }
            let flow = exponential(&scaled(&extended, stretch.length));
            let phi = flow.as_ref().submatrix(0, 0, big, big).to_owned();
            let state = Mat::from_fn(whole, 1, |i, _| {
                if i < big { mean[(i, 0)] } else { experiment.inputs[segment * width + i - big] }
            });
            mean = (&flow * state).as_ref().subrows(0, big).to_owned();
            // The block matrix of Van Loan.
            let pair = Mat::from_fn(2 * big, 2 * big, |i, j| match (i < big, j < big) {
                (true, true) => -dynamics[(i, j)],
                (true, false) => intensity[(i, j - big)],
                (false, false) => dynamics[(j - big, i - big)],
                (false, true) => 0.0,
            });
            let van_loan = exponential(&scaled(&pair, stretch.length));
            let added = &phi * van_loan.as_ref().submatrix(0, big, big, big);
            covariance = &phi * &covariance * phi.transpose() + added;
            columns = &phi * &columns;
            for earlier in &mut from {
                *earlier = &phi * &*earlier;
            }
            if !stretch.kick.is_empty() {
                mean += &drive * Mat::from_fn(2, 1, |i, _| stretch.kick[i]);
            }
        }
        let rows = |h: &Mat<f64>| h * &z_state;
        let c = rows(&pieces.measured);
        let m = rows(&self.estimated);
        let present: Vec<(usize, usize)> = (0..n_samples)
            .flat_map(|k| (0..2).map(move |i| (k, i)))
            .filter(|&(k, i)| !experiment.measurements[2 * k + i].is_nan())
            .collect();
        let variances = self.variances(theta);
        // Cov(x_k, x_l) for k >= l is Phi(k, l) P_l.
        let between = |k: usize, l: usize| -> Mat<f64> {
            if k >= l {
                &transitions[k][l] * &at_sample[l].1
            } else {
                (&transitions[l][k] * &at_sample[k].1).transpose().to_owned()
            }
        };
        let entry = |a: &Mat<f64>, i: usize, x: &Mat<f64>, b: &Mat<f64>, j: usize| -> f64 {
            (0..big).map(|p| (0..big).map(|q| a[(i, p)] * x[(p, q)] * b[(j, q)]).sum::<f64>()).sum()
        };
        let mut joint = Joint {
            mean: Vec::new(),
            covariance: Mat::zeros(present.len(), present.len()),
            columns: Mat::zeros(present.len(), nf),
            deviations: present.iter().map(|&(_, i)| variances[i].sqrt()).collect(),
            signal_mean: Vec::new(),
            signal_cross: Mat::zeros(2 * n_samples, present.len()),
            signal_variance: Vec::new(),
            signal_columns: Mat::zeros(2 * n_samples, nf),
        };
        for (a, &(k, i)) in present.iter().enumerate() {
            let direct = &pieces.measured * z_of(experiment.segment_of[k]);
            joint.mean.push((0..big).map(|p| c[(i, p)] * at_sample[k].0[(p, 0)]).sum::<f64>() + direct[(i, 0)]);
            for (b, &(l, j)) in present.iter().enumerate() {
                joint.covariance[(a, b)] =
                    entry(&c, i, &between(k, l), &c, j) + if a == b { variances[i] } else { 0.0 };
            }
            for column in 0..nf {
                joint.columns[(a, column)] = (0..big).map(|p| c[(i, p)] * at_sample[k].2[(p, column)]).sum();
            }
        }
        for k in 0..n_samples {
            let direct = &self.estimated * z_of(experiment.segment_of[k]);
            for i in 0..2 {
                let row = 2 * k + i;
                joint
                    .signal_mean
                    .push((0..big).map(|p| m[(i, p)] * at_sample[k].0[(p, 0)]).sum::<f64>() + direct[(i, 0)]);
                joint.signal_variance.push(entry(&m, i, &at_sample[k].1, &m, i));
                for (b, &(l, j)) in present.iter().enumerate() {
                    joint.signal_cross[(row, b)] = entry(&m, i, &between(k, l), &c, j);
                }
                for column in 0..nf {
                    joint.signal_columns[(row, column)] =
                        (0..big).map(|p| m[(i, p)] * at_sample[k].2[(p, column)]).sum();
                }
            }
        }
        joint
    }

    /// The values that are there, and the sample of each.
    pub fn present(&self, at: usize) -> Vec<(usize, f64)> {
        let experiment = &self.experiments[at];
        experiment
            .measurements
            .iter()
            .enumerate()
            .filter(|(_, value)| !value.is_nan())
            .map(|(place, &value)| (place / 2, value))
            .collect()
    }
}
