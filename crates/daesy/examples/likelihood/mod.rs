//! Random linear stochastic descriptor systems, and their likelihoods as joint normal densities.
//!
//! In canonical form, with N nilpotent of the index of the system and disturbances w from shaping filters,
//!
//! ```text
//! x_s' = A x_s + B u + K w        N x_a' = x_a + L w        x_w' = A_w x_w + B_w v,   w = C_w x_w
//! ```
//!
//! so that x_a = - sum_k N^k L C_w A_w^k x_w, for the filters have a pole excess that is large enough. The variables
//! are z = Q (x_s, x_a), and the equations are combined by a nonsingular P: every equation has all derivatives. All
//! measured values of an experiment are jointly normal; mean and covariance follow from matrix exponentials, and the
//! start (x_s free, x_a set by the noise [@gerdin2007, sec. 5]) is zero, estimated by generalized least squares,
//! diffuse, or at rest with the stationary covariance. No filter takes part.

use std::fmt::Write as _;
use std::path::PathBuf;

use daesy::Watch;
use daesy::program::{Status, ask};
use daesy::source::{Place, Source};
use daesy::table::Table;
use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Solve};

/// Ways to start.
pub const MODES: [&str; 4] = ["estimate", "diffuse", "zero", "stationary"];

/// Values of the unknowns at which likelihoods are compared: `theta` in the dynamics, `s` the size of the noise.
const THETAS: [f64; 2] = [0.2, 0.6];
const SIZES: [f64; 2] = [0.5, 1.25];

/// Standard deviation of the errors of measurement.
const DEVIATION: f64 = 0.1;

/// A system with its data.
pub struct Sdae {
    /// Its index.
    pub index: usize,
    n_s: usize,
    a: Mat<f64>,
    a_by_theta: Mat<f64>,
    b: Mat<f64>,
    k: Mat<f64>,
    nilpotent: Mat<f64>,
    l: Mat<f64>,
    q: Mat<f64>,
    p: Mat<f64>,
    h: Mat<f64>,
    /// By disturbance: the denominator of its spectral factor, highest power first.
    denominators: Vec<Vec<f64>>,
    times: Vec<f64>,
    inputs: Vec<f64>,
    /// By sample, then by measurement; NaN where a value is missing.
    measured: Vec<f64>,
}

/// How variables and equations are written: their order and units.
pub struct Arrangement {
    order: Vec<usize>,
    rows: Vec<usize>,
    units: Vec<f64>,
    factors: Vec<f64>,
}

fn number(random: &mut fastrand::Rng, low: f64, high: f64) -> f64 {
    ((low + (high - low) * random.f64()) * 100.0).round() / 100.0
}

fn matrix(random: &mut fastrand::Rng, n_rows: usize, n_cols: usize, size: f64) -> Mat<f64> {
    Mat::from_fn(n_rows, n_cols, |_, _| number(random, -size, size))
}

/// A matrix whose diagonal outweighs its rows.
fn dominant(random: &mut fastrand::Rng, n: usize) -> Mat<f64> {
    let mut a = matrix(random, n, n, 1.0);
    for row in 0..n {
        let sum: f64 = (0..n).map(|column| a[(row, column)].abs()).sum();
        a[(row, row)] = sum + 0.5;
    }
    a
}

impl Sdae {
    /// The system of a seed.
    pub fn random(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let random = &mut random;
        let index = 1 + (seed % 3) as usize;
        let n_s = random.usize(1..4);
        let n_a = index + random.usize(..2);
        let n_w = random.usize(1..3);
        // Stable for all theta of interest: a dominant negative diagonal.
        let mut a = matrix(random, n_s, n_s, 0.5);
        let mut a_by_theta = matrix(random, n_s, n_s, 0.3);
        for row in 0..n_s {
            a[(row, row)] = -number(random, 2.0, 4.0);
            a_by_theta[(row, row)] = -number(random, 0.5, 1.0);
        }
        let mut nilpotent = Mat::zeros(n_a, n_a);
        for row in 0..index - 1 {
            nilpotent[(row, row + 1)] = number(random, 0.5, 1.5);
        }
        let denominators = (0..n_w)
            .map(|_| {
                let n_poles = index + random.usize(..2);
                let mut polynomial = vec![1.0];
                for _ in 0..n_poles {
                    let pole = number(random, 0.5, 3.0);
                    polynomial.resize(polynomial.len() + 1, 0.0);
                    for at in (1..polynomial.len()).rev() {
                        polynomial[at] += pole * polynomial[at - 1];
                    }
                }
                polynomial
            })
            .collect();
        // The first values that determine a diffuse start are then those of one sample, or of one measurement.
        let (n, n_y) = (n_s + n_a, if random.bool() { n_s } else { 1 });
        let mut times = vec![0.0];
        let n_samples = 8 + random.usize(..6);
        for at in 1..n_samples {
            times.push(((times[at - 1] + number(random, 0.1, 0.5)) * 100.0).round() / 100.0);
        }
        let mut measured: Vec<f64> = (0..n_samples * n_y).map(|_| number(random, -2.0, 2.0)).collect();
        for _ in 0..random.usize(..3) {
            let at = random.usize(n_y..measured.len());
            measured[at] = f64::NAN;
        }
        Self {
            index,
            n_s,
            a,
            a_by_theta,
            b: matrix(random, n_s, 1, 1.0),
            k: matrix(random, n_s, n_w, 1.0),
            nilpotent,
            l: matrix(random, n_a, n_w, 1.0),
            q: dominant(random, n),
            p: dominant(random, n),
            h: matrix(random, n_y, n, 1.0),
            denominators,
            inputs: (0..n_samples).map(|_| number(random, -1.0, 1.0)).collect(),
            times,
            measured,
        }
    }

    fn n(&self) -> usize {
        self.q.nrows()
    }

    fn n_y(&self) -> usize {
        self.h.nrows()
    }

    /// Four orders, each in two systems of units; the first is plain.
    pub fn arrangements(&self, seed: u64) -> Vec<Arrangement> {
        let mut random = fastrand::Rng::with_seed(seed ^ 0x5DEE_CE66);
        let n = self.n();
        let plain: Vec<usize> = (0..n).collect();
        let mut all = Vec::new();
        for order in 0..4 {
            for is_scaled in [false, true] {
                let (mut columns, mut rows) = (plain.clone(), plain.clone());
                if order > 0 {
                    random.shuffle(&mut columns);
                    random.shuffle(&mut rows);
                }
                let mut unit = |_| if is_scaled { 10f64.powi(random.i32(-3..=3)) } else { 1.0 };
                let units = (0..n).map(&mut unit).collect();
                let factors = (0..n).map(&mut unit).collect();
                all.push(Arrangement { order: columns, rows, units, factors });
            }
        }
        all
    }

    /// The study that says all this.
    fn study(&self, arrangement: &Arrangement, mode: &str) -> String {
        let n_a = self.n() - self.n_s;
        let inverse = self.q.partial_piv_lu().inverse();
        let block = |top: &Mat<f64>, bottom: &Mat<f64>| {
            Mat::from_fn(self.n(), self.n(), |i, j| match (i < self.n_s, j < self.n_s) {
                (true, true) => top[(i, j)],
                (false, false) => bottom[(i - self.n_s, j - self.n_s)],
                _ => 0.0,
            })
        };
        let zero = Mat::zeros(n_a, n_a);
        let e = &self.p * block(&Mat::identity(self.n_s, self.n_s), &self.nilpotent) * &inverse;
        let f = &self.p * block(&self.a, &Mat::identity(n_a, n_a)) * &inverse;
        let f_by_theta = &self.p * block(&self.a_by_theta, &zero) * &inverse;
        let stack = |top: &Mat<f64>, bottom: &Mat<f64>| {
            Mat::from_fn(
                self.n(),
                top.ncols(),
                |i, j| {
                    if i < self.n_s { top[(i, j)] } else { bottom[(i - self.n_s, j)] }
                },
            )
        };
        let g = &self.p * stack(&self.b, &Mat::zeros(n_a, 1));
        let j = &self.p * stack(&self.k, &self.l);
        let Arrangement { order, rows, units, factors } = arrangement;
        let text = |rows: &[usize], n_cols: usize, entry: &dyn Fn(usize, usize) -> String| {
            let row = |&i: &usize| format!("[{}]", (0..n_cols).map(|j| entry(i, j)).collect::<Vec<_>>().join(", "));
            format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join(", "))
        };
        let at = |j: usize| (order[j], units[order[j]]);
        let e = text(rows, order.len(), &|i, j| format!("{:e}", factors[i] * e[(i, at(j).0)] * at(j).1));
        let f = text(rows, order.len(), &|i, j| {
            let (column, unit) = at(j);
            let factor = factors[i] * unit;
            format!("\"{:e} + ({:e})*theta\"", factor * f[(i, column)], factor * f_by_theta[(i, column)])
        });
        let g = text(rows, 1, &|i, _| format!("{:e}", factors[i] * g[(i, 0)]));
        let j = text(rows, self.k.ncols(), &|i, column| format!("{:e}", factors[i] * j[(i, column)]));
        let all: Vec<usize> = (0..self.n_y()).collect();
        let h = text(&all, order.len(), &|i, j| format!("{:e}", self.h[(i, at(j).0)] * at(j).1));
        let mut study = format!("[linear]\nE = {e}\nF = {f}\nG = {g}\nJ = {j}\nH = {h}\n[unknown]\n");
        study +=
            "theta = { start = 0.4, min = 0.1, max = 0.9 }\ns = { start = 1, min = 0.1, max = 3 }\n[disturbances]\n";
        for (at, denominator) in self.denominators.iter().enumerate() {
            let _ = writeln!(study, "w{} = {{ num = [\"s\"], den = {denominator:?} }}", at + 1);
        }
        study += "[inputs]\nu1 = { column = \"u\", hold = \"foh\" }\n[measurements]\n";
        for at in 1..=self.n_y() {
            let _ = writeln!(study, "y{at} = {{ column = \"y{at}\", std = {DEVIATION} }}");
        }
        let _ = writeln!(study, "[initial]\nmode = \"{mode}\"");
        study
    }

    fn data(&self) -> Table {
        let n_y = self.n_y();
        let mut names = vec!["t".to_owned(), "u".to_owned()];
        let mut columns = vec![self.times.clone(), self.inputs.clone()];
        for at in 0..n_y {
            names.push(format!("y{}", at + 1));
            columns.push(self.measured.iter().skip(at).step_by(n_y).copied().collect());
        }
        Table { names, columns }
    }

    /// Log-likelihoods by the program, at all values of theta and s.
    ///
    /// # Errors
    /// Codes of what it says where there are none.
    pub fn told(&self, arrangement: &Arrangement, mode: &str) -> Result<Vec<f64>, String> {
        let text = self.study(arrangement, mode);
        let place = Place::Study { name: "sdae.toml".to_owned(), text, folder: PathBuf::new(), models: Vec::new() };
        let source = Source { place, data: vec![self.data()] };
        let grid = |name: &str, [low, high]: [f64; 2]| ["--grid".to_owned(), format!("{name}={low}:{high}:2")];
        let arguments = [grid("theta", THETAS), grid("s", SIZES)].concat();
        let answer = ask("cost", source, &arguments, &Watch::default());
        if answer.status != Status::Done {
            return Err(answer.diagnostics.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join("; "));
        }
        let values = answer.document()["values"].as_array().cloned().unwrap_or_default();
        Ok(values.iter().map(|value| value.as_f64().unwrap_or(f64::NAN)).collect())
    }

    /// The same by the joint density.
    pub fn exact(&self, mode: &str) -> Vec<f64> {
        let at = |theta: f64| SIZES.map(|s| self.log_density(mode, theta, s));
        THETAS.into_iter().flat_map(at).collect()
    }

    fn log_density(&self, mode: &str, theta: f64, s: f64) -> f64 {
        let n_x: usize = self.n_s + self.denominators.iter().map(|it| it.len() - 1).sum::<usize>();
        let n_s = self.n_s;
        // Dynamics and noise of (x_s, x_w), and w^(k) = rates[k] x.
        let mut m = Mat::<f64>::zeros(n_x, n_x);
        let mut noise = Mat::<f64>::zeros(n_x, n_x);
        let mut w = Mat::<f64>::zeros(self.k.ncols(), n_x);
        let mut first = n_s;
        for (at, denominator) in self.denominators.iter().enumerate() {
            let n = denominator.len() - 1;
            for row in 0..n - 1 {
                m[(first + row, first + row + 1)] = 1.0;
            }
            for column in 0..n {
                m[(first + n - 1, first + column)] = -denominator[n - column];
            }
            noise[(first + n - 1, first + n - 1)] = 1.0;
            w[(at, first)] = s;
            first += n;
        }
        let filters = m.clone();
        for i in 0..n_s {
            for j in 0..n_s {
                m[(i, j)] = self.a[(i, j)] + theta * self.a_by_theta[(i, j)];
            }
        }
        let driven = &self.k * &w;
        for i in 0..n_s {
            for j in n_s..n_x {
                m[(i, j)] = driven[(i, j)];
            }
        }
        let mut algebraic = Mat::<f64>::zeros(self.l.nrows(), n_x);
        let (mut power, mut rate) = (Mat::<f64>::identity(self.l.nrows(), self.l.nrows()), w);
        for _ in 0..self.index {
            algebraic -= &power * &self.l * &rate;
            power = &power * &self.nilpotent;
            rate = &rate * &filters;
        }
        let inner =
            Mat::from_fn(
                self.n(),
                n_x,
                |i, j| {
                    if i >= n_s { algebraic[(i - n_s, j)] } else { f64::from(u8::from(i == j)) }
                },
            );
        let read = &self.h * &self.q * inner;
        // The start.
        let mut covariance = stationary(&m, &noise);
        let mut mean = Mat::<f64>::zeros(n_x, 1);
        if mode == "stationary" {
            let a = Mat::from_fn(n_s, n_s, |i, j| m[(i, j)]);
            let rest = a.partial_piv_lu().solve(&self.b * -self.inputs[0]);
            (0..n_s).for_each(|i| mean[(i, 0)] = rest[(i, 0)]);
        } else {
            for i in 0..n_x {
                for j in (0..n_x).filter(|&j| i < n_s || j < n_s) {
                    covariance[(i, j)] = 0.0;
                }
            }
        }
        // Means, covariances with all states before, and what the start does, sample by sample.
        let n_y = self.n_y();
        let n_samples = self.times.len();
        let (mut residual, mut response) = (Vec::new(), Vec::new());
        let mut states: Vec<Mat<f64>> = Vec::new();
        let mut blocks: Vec<Vec<Mat<f64>>> = Vec::new();
        let mut transition = Mat::<f64>::identity(n_x, n_x);
        for sample in 0..n_samples {
            if sample > 0 {
                let h = self.times[sample] - self.times[sample - 1];
                let (u, slope) = (self.inputs[sample - 1], (self.inputs[sample] - self.inputs[sample - 1]) / h);
                let whole = exponential(&Mat::from_fn(n_x + 2, n_x + 2, |i, j| match (i, j) {
                    (i, j) if i < n_x && j < n_x => h * m[(i, j)],
                    (i, j) if i < n_s && j == n_x => h * self.b[(i, 0)],
                    (i, j) if i == n_x && j == n_x + 1 => h,
                    _ => 0.0,
                }));
                let phi = Mat::from_fn(n_x, n_x, |i, j| whole[(i, j)]);
                mean = &phi * &mean + Mat::from_fn(n_x, 1, |i, _| whole[(i, n_x)] * u + whole[(i, n_x + 1)] * slope);
                // [@vanloan1978]
                let pair = exponential(&Mat::from_fn(2 * n_x, 2 * n_x, |i, j| match (i < n_x, j < n_x) {
                    (true, true) => -h * m[(i, j)],
                    (true, false) => h * noise[(i, j - n_x)],
                    (false, false) => h * m[(j - n_x, i - n_x)],
                    _ => 0.0,
                }));
                let added = &phi * Mat::from_fn(n_x, n_x, |i, j| pair[(i, n_x + j)]);
                covariance = &phi * &covariance * phi.transpose() + added;
                states.iter_mut().for_each(|state| *state = &phi * &*state);
                transition = &phi * transition;
            }
            states.push(covariance.clone());
            blocks.push(states.iter().map(|state| &read * state * read.transpose()).collect());
            let (value, start) = (&read * &mean, &read * &transition);
            for at in 0..n_y {
                residual.push(self.measured[sample * n_y + at] - value[(at, 0)]);
                response.push((0..n_s).map(|j| start[(at, j)]).collect::<Vec<f64>>());
            }
        }
        let present: Vec<usize> = (0..residual.len()).filter(|&at| residual[at].is_finite()).collect();
        let joint = Mat::from_fn(present.len(), present.len(), |i, j| {
            let (late, early) = (present[i].max(present[j]), present[i].min(present[j]));
            let error = if i == j { DEVIATION * DEVIATION } else { 0.0 };
            blocks[late / n_y][early / n_y][(late % n_y, early % n_y)] + error
        });
        let residual = Mat::from_fn(present.len(), 1, |i, _| residual[present[i]]);
        let response = Mat::from_fn(present.len(), n_s, |i, j| response[present[i]][j]);
        density(&joint, &residual, &response, mode)
    }
}

/// The log-density of residuals, with an effect of the start that is estimated or diffuse. A diffuse start is measured
/// by the first values that determine it.
fn density(joint: &Mat<f64>, residual: &Mat<f64>, response: &Mat<f64>, mode: &str) -> f64 {
    let Ok(factor) = joint.llt(faer::Side::Lower) else { return f64::NAN };
    let n = residual.nrows() as f64;
    let mut log = -0.5 * n * (2.0 * std::f64::consts::PI).ln();
    log -= (0..residual.nrows()).map(|i| factor.L()[(i, i)].ln()).sum::<f64>();
    let square = |residual: &Mat<f64>| (residual.transpose() * factor.solve(residual))[(0, 0)];
    if !matches!(mode, "estimate" | "diffuse") {
        return log - 0.5 * square(residual);
    }
    let information = response.transpose() * factor.solve(response);
    let best = information.partial_piv_lu().solve(response.transpose() * factor.solve(residual));
    log -= 0.5 * square(&(residual - response * best));
    if mode == "diffuse" {
        let first = Mat::from_fn(response.ncols(), response.ncols(), |i, j| response[(i, j)]);
        log += first.determinant().abs().ln() - 0.5 * information.determinant().ln();
    }
    log
}

/// X with M X + X M^T + S = 0, as one set of linear equations.
fn stationary(m: &Mat<f64>, s: &Mat<f64>) -> Mat<f64> {
    let n = m.nrows();
    let whole = Mat::from_fn(n * n, n * n, |row, column| {
        let ((i, j), (k, l)) = ((row / n, row % n), (column / n, column % n));
        (if j == l { m[(i, k)] } else { 0.0 }) + (if i == k { m[(j, l)] } else { 0.0 })
    });
    let found = whole.partial_piv_lu().solve(Mat::from_fn(n * n, 1, |row, _| -s[(row / n, row % n)]));
    Mat::from_fn(n, n, |i, j| found[(i * n + j, 0)])
}

/// exp(A) by its series, scaled and squared.
fn exponential(a: &Mat<f64>) -> Mat<f64> {
    let n = a.nrows();
    let size = (0..n).map(|i| (0..n).map(|j| a[(i, j)].abs()).sum::<f64>()).fold(0.0, f64::max);
    let n_squarings = size.log2().ceil().max(0.0) as i32 + 4;
    let scaled = Mat::from_fn(n, n, |i, j| a[(i, j)] * 0.5f64.powi(n_squarings));
    let mut term = Mat::<f64>::identity(n, n);
    let mut sum = term.clone();
    for k in 1..20 {
        term = Mat::from_fn(n, n, |i, j| (&term * &scaled)[(i, j)] / f64::from(k));
        sum += &term;
    }
    for _ in 0..n_squarings {
        sum = &sum * &sum;
    }
    sum
}

/// The largest difference between the likelihoods of all arrangements of a system and its joint density, relative to
/// their size, by mode.
///
/// # Errors
/// What the program says where it gives none.
pub fn largest_difference(seed: u64, mode: &str) -> Result<f64, String> {
    let sdae = Sdae::random(seed);
    let exact = sdae.exact(mode);
    let mut largest: f64 = 0.0;
    for arrangement in sdae.arrangements(seed) {
        let told = sdae.told(&arrangement, mode)?;
        for (told, exact) in told.iter().zip(&exact) {
            let off = (told - exact).abs() / exact.abs().max(1.0);
            largest = if off.is_nan() { f64::INFINITY } else { largest.max(off) };
        }
    }
    Ok(largest)
}
