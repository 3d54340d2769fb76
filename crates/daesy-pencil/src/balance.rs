//! Balancing of a pencil by powers of two, so that rank decisions do not depend on units.
//!
//! ```text
//! E_b = 2^t D_r E D_c,    F_b = D_r F D_c,    D_r, D_c diagonal powers of two
//! ```
//!
//! First the logarithms of all nonzero entries are brought near zero in least squares [@curtis1972], which undoes any row,
//! column and time scaling whatever the pattern; then a few rounds of row and column normalization of `|E_b|^2 + |F_b|^2`
//! make the large entries comparable [@lemonnier2006]. Scaling by powers of two is free of rounding errors.

use crate::pencil::Pencil;
use faer::Mat;

/// Exponents of the powers of two that balance a pencil.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balancing {
    /// Exponent per equation.
    pub rows: Vec<i32>,
    /// Exponent per variable.
    pub cols: Vec<i32>,
    /// Exponent of the time scale: `E` is multiplied by `2^time`.
    pub time: i32,
}

/// A balanced pencil and how it was obtained.
pub(crate) struct Balanced {
    pub e: Mat<f64>,
    pub f: Mat<f64>,
    pub balancing: Balancing,
}

/// `2^k` for any `k` in range; saturates instead of overflowing.
pub(crate) fn power_of_two(k: i32) -> f64 {
    2f64.powi(k.clamp(-1022, 1023))
}

impl Balancing {
    /// No scaling at all.
    pub fn identity(n_equations: usize, n_variables: usize) -> Self {
        Self { rows: vec![0; n_equations], cols: vec![0; n_variables], time: 0 }
    }

    /// `D_r a D_c`.
    pub(crate) fn apply(&self, a: &Mat<f64>) -> Mat<f64> {
        Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * power_of_two(self.rows[i] + self.cols[j]))
    }

    /// The balanced pencil.
    pub(crate) fn scale(&self, pencil: &Pencil) -> Balanced {
        let t = power_of_two(self.time);
        let mut e = self.apply(pencil.e());
        for j in 0..e.ncols() {
            for i in 0..e.nrows() {
                e[(i, j)] *= t;
            }
        }
        Balanced { e, f: self.apply(pencil.f()), balancing: self.clone() }
    }
}

/// Finds the balancing of a pencil.
pub fn balance(pencil: &Pencil) -> Balancing {
    let (m, n) = (pencil.n_equations(), pencil.n_variables());
    let mut fit = LogFit::new(pencil);
    fit.solve();
    let mut rows = fit.rows;
    let mut cols = fit.cols;
    let mut time = fit.time;
    equilibrate(pencil, &mut rows, &mut cols, time);
    // The time scale ends where both matrices have the same norm; zero matrices leave it alone.
    let weight = |a: &Mat<f64>| -> f64 {
        let mut sum = 0.0;
        for j in 0..n {
            for i in 0..m {
                sum += (a[(i, j)] * (rows[i] + cols[j]).exp2()).powi(2);
            }
        }
        sum.sqrt()
    };
    let (we, wf) = (weight(pencil.e()), weight(pencil.f()));
    if we > 0.0 && wf > 0.0 && (wf / we).is_finite() {
        time = (wf / we).log2();
        equilibrate(pencil, &mut rows, &mut cols, time);
    }
    Balancing {
        rows: rows.iter().map(|x| x.round() as i32).collect(),
        cols: cols.iter().map(|x| x.round() as i32).collect(),
        time: time.round() as i32,
    }
}

/// Finds the balancing of a pencil and applies it.
pub(crate) fn balanced(pencil: &Pencil) -> Balanced {
    balance(pencil).scale(pencil)
}

/// Rounds of row and column normalization of `|E|^2 + |F|^2`; stops when all sums are within a factor of two of each other
/// or no longer improve (patterns without a perfect matching have no balanced form).
fn equilibrate(pencil: &Pencil, rows: &mut [f64], cols: &mut [f64], time: f64) {
    let (m, n) = (rows.len(), cols.len());
    let t = time.exp2();
    let mut w = Mat::<f64>::zeros(m, n);
    for j in 0..n {
        for i in 0..m {
            let s = (rows[i] + cols[j]).exp2();
            w[(i, j)] = (pencil.e()[(i, j)] * t * s).powi(2) + (pencil.f()[(i, j)] * s).powi(2);
        }
    }
    let mut last = f64::INFINITY;
    for _ in 0..40 {
        let mut sums = vec![0.0; m];
        for j in 0..n {
            for i in 0..m {
                sums[i] += w[(i, j)];
            }
        }
        let mut spread = 1.0f64;
        let mut factors = vec![1.0; m];
        for i in 0..m {
            if sums[i] > 0.0 && sums[i].is_finite() {
                let ratio = n as f64 / sums[i];
                spread = spread.max(ratio.max(1.0 / ratio));
                factors[i] = ratio;
                rows[i] += 0.5 * ratio.log2();
            }
        }
        for j in 0..n {
            let mut sum = 0.0;
            for i in 0..m {
                w[(i, j)] *= factors[i];
                sum += w[(i, j)];
            }
            if sum > 0.0 && sum.is_finite() {
                let ratio = m as f64 / sum;
                spread = spread.max(ratio.max(1.0 / ratio));
                for i in 0..m {
                    w[(i, j)] *= ratio;
                }
                cols[j] += 0.5 * ratio.log2();
            }
        }
        if spread < 2.0 || spread > 0.95 * last {
            break;
        }
        last = spread;
    }
}

/// Least squares fit `log2 |a_ij| + r_i + c_j (+ t for E) = 0` over the nonzero entries, by conjugate gradients.
struct LogFit {
    entries: Vec<LogEntry>,
    rows: Vec<f64>,
    cols: Vec<f64>,
    time: f64,
}

struct LogEntry {
    row: usize,
    col: usize,
    in_e: bool,
    log: f64,
}

impl LogFit {
    fn new(pencil: &Pencil) -> Self {
        let (m, n) = (pencil.n_equations(), pencil.n_variables());
        let mut entries = Vec::new();
        for (in_e, a) in [(true, pencil.e()), (false, pencil.f())] {
            for col in 0..n {
                for row in 0..m {
                    let x = a[(row, col)].abs();
                    if x > 0.0 {
                        entries.push(LogEntry { row, col, in_e, log: x.log2() });
                    }
                }
            }
        }
        Self { entries, rows: vec![0.0; m], cols: vec![0.0; n], time: 0.0 }
    }

    fn solve(&mut self) {
        let (m, n) = (self.rows.len(), self.cols.len());
        let forward = |x: &[f64]| -> Vec<f64> {
            self.entries.iter().map(|a| x[a.row] + x[m + a.col] + if a.in_e { x[m + n] } else { 0.0 }).collect()
        };
        let backward = |y: &[f64]| -> Vec<f64> {
            let mut x = vec![0.0; m + n + 1];
            for (a, v) in self.entries.iter().zip(y) {
                x[a.row] += v;
                x[m + a.col] += v;
                if a.in_e {
                    x[m + n] += v;
                }
            }
            x
        };
        // Jacobi scaling by the counts of entries makes dense patterns converge in a handful of steps.
        let mut count = vec![0.0f64; m + n + 1];
        for a in &self.entries {
            count[a.row] += 1.0;
            count[m + a.col] += 1.0;
            if a.in_e {
                count[m + n] += 1.0;
            }
        }
        let precondition =
            |g: &[f64]| -> Vec<f64> { g.iter().zip(&count).map(|(g, c)| if *c > 0.0 { g / c } else { 0.0 }).collect() };
        let mut x = vec![0.0; m + n + 1];
        let mut residual: Vec<f64> = self.entries.iter().map(|a| -a.log).collect();
        let mut gradient = backward(&residual);
        let mut scaled = precondition(&gradient);
        let mut direction = scaled.clone();
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let mut rho = dot(&gradient, &scaled);
        // The gradient in units of its preconditioner is the mean shift still due per line: a tenth of a power of two is enough.
        let stop = 1e-2 * self.entries.len() as f64;
        for _ in 0..(m + n + 1).min(400) {
            if rho <= stop {
                break;
            }
            let image = forward(&direction);
            let curvature = dot(&image, &image);
            if curvature <= 0.0 {
                break;
            }
            let alpha = rho / curvature;
            for (x, d) in x.iter_mut().zip(&direction) {
                *x += alpha * d;
            }
            for (r, q) in residual.iter_mut().zip(&image) {
                *r -= alpha * q;
            }
            gradient = backward(&residual);
            scaled = precondition(&gradient);
            let next = dot(&gradient, &scaled);
            let beta = next / rho;
            rho = next;
            for (d, s) in direction.iter_mut().zip(&scaled) {
                *d = s + beta * *d;
            }
        }
        self.rows.copy_from_slice(&x[..m]);
        self.cols.copy_from_slice(&x[m..m + n]);
        self.time = x[m + n];
    }
}
