//! Balancing of a pencil by powers of two, so that rank decisions do not depend on units.
//!
//! ```text
//! E_b = 2^t D_r E D_c,    F_b = D_r F D_c,    D_r, D_c diagonal powers of two
//! ```
//!
//! First the logarithms of all nonzero entries are brought near zero in least squares [@curtis1972], which undoes any
//! row, column and time scaling whatever the pattern; then a few rounds of row and column normalization of
//! `|E_b|^2 + |F_b|^2` make the large entries comparable [@lemonnier2006]. Scaling by powers of two is free of rounding
//! errors.

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

/// The nearest exponent that a double can have: norms that overflow have logarithms that are not finite.
fn exponent(log: f64) -> i32 {
    log.round().clamp(-1022.0, 1023.0) as i32
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

    /// `D_c`: the size of every variable, in the caller's units, that balancing takes as one.
    pub fn variable_sizes(&self) -> Vec<f64> {
        self.cols.iter().map(|&exponent| power_of_two(exponent)).collect()
    }

    /// `D_r a D_c`.
    pub(crate) fn apply(&self, a: &Mat<f64>) -> Mat<f64> {
        // Two factors: their product may leave the range although the entry does not.
        let units = |exponents: &[i32]| -> Vec<f64> { exponents.iter().map(|&k| power_of_two(k)).collect() };
        let (rows, cols) = (units(&self.rows), units(&self.cols));
        Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * rows[i] * cols[j])
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
    let m = pencil.n_equations();
    let mut fit = LogFit::new(pencil);
    fit.solve();
    let mut rows = fit.rows;
    let mut cols = fit.cols;
    let mut time = fit.time;
    equilibrate(pencil, &mut rows, &mut cols, time);
    // The time scale ends where both matrices have the same norm; zero matrices leave it alone.
    let row_scales: Vec<f64> = rows.iter().map(|x| x.exp2()).collect();
    let weight = |a: &Mat<f64>| -> f64 {
        let mut sum = 0.0;
        for (j, col) in cols.iter().enumerate() {
            let column = a.col(j);
            let scaled: f64 = (0..m).map(|i| column[i] * row_scales[i]).map(|x| x * x).sum();
            let scale = col.exp2();
            sum += scaled * scale * scale;
        }
        sum.sqrt()
    };
    let (we, wf) = (weight(pencil.e()), weight(pencil.f()));
    if we > 0.0 && wf > 0.0 && (wf / we).is_finite() {
        time = (wf / we).log2();
        equilibrate(pencil, &mut rows, &mut cols, time);
    }
    Balancing {
        rows: rows.iter().map(|x| exponent(*x)).collect(),
        cols: cols.iter().map(|x| exponent(*x)).collect(),
        time: exponent(time),
    }
}

/// Finds the balancing of a pencil and applies it.
pub(crate) fn balanced(pencil: &Pencil) -> Balanced {
    balance(pencil).scale(pencil)
}

/// Rounds of row and column normalization of `|E|^2 + |F|^2`; stops when all sums are within a factor of two of each
/// other or no longer improve (patterns without a perfect matching have no balanced form).
fn equilibrate(pencil: &Pencil, rows: &mut [f64], cols: &mut [f64], time: f64) {
    let (m, n) = (rows.len(), cols.len());
    if m == 0 || n == 0 {
        return;
    }
    let t = time.exp2();
    // Squares of the scaled entries, column by column.
    let mut w = vec![0.0; m * n];
    let row_scales: Vec<f64> = rows.iter().map(|x| x.exp2()).collect();
    for (j, column) in w.chunks_exact_mut(m).enumerate() {
        let (e, f) = (pencil.e().col(j), pencil.f().col(j));
        let scale = cols[j].exp2();
        for (i, entry) in column.iter_mut().enumerate() {
            let s = row_scales[i] * scale;
            let (a, b) = (e[i] * t * s, f[i] * s);
            *entry = a * a + b * b;
        }
    }
    let mut last = f64::INFINITY;
    let (mut sums, mut factors) = (vec![0.0; m], vec![1.0; m]);
    for _ in 0..40 {
        sums.fill(0.0);
        for column in w.chunks_exact(m) {
            sums.iter_mut().zip(column).for_each(|(sum, entry)| *sum += entry);
        }
        let mut spread = 1.0f64;
        for i in 0..m {
            factors[i] = 1.0;
            if sums[i] > 0.0 && sums[i].is_finite() {
                let ratio = n as f64 / sums[i];
                spread = spread.max(ratio.max(1.0 / ratio));
                factors[i] = ratio;
                rows[i] += 0.5 * ratio.log2();
            }
        }
        for (column, col) in w.chunks_exact_mut(m).zip(cols.iter_mut()) {
            let mut sum = 0.0;
            for (entry, factor) in column.iter_mut().zip(&factors) {
                *entry *= factor;
                sum += *entry;
            }
            if sum > 0.0 && sum.is_finite() {
                let ratio = m as f64 / sum;
                spread = spread.max(ratio.max(1.0 / ratio));
                column.iter_mut().for_each(|entry| *entry *= ratio);
                *col += 0.5 * ratio.log2();
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
    /// The nonzero entries of `E` column by column, then those of `F`.
    columns: Vec<LogColumn>,
    /// Row of each entry.
    entry_rows: Vec<u32>,
    /// Logarithm of each entry.
    logs: Vec<f64>,
    rows: Vec<f64>,
    cols: Vec<f64>,
    time: f64,
}

/// The entries `start..end` of a column of one of the matrices.
struct LogColumn {
    col: usize,
    in_e: bool,
    start: usize,
    end: usize,
}

impl LogFit {
    fn new(pencil: &Pencil) -> Self {
        let (m, n) = (pencil.n_equations(), pencil.n_variables());
        let (mut columns, mut entry_rows, mut logs) = (Vec::with_capacity(2 * n), Vec::new(), Vec::new());
        for (in_e, a) in [(true, pencil.e()), (false, pencil.f())] {
            for col in 0..n {
                let start = logs.len();
                let column = a.col(col);
                for row in 0..m {
                    let x = column[row].abs();
                    if x > 0.0 {
                        entry_rows.push(row as u32);
                        logs.push(x.log2());
                    }
                }
                columns.push(LogColumn { col, in_e, start, end: logs.len() });
            }
        }
        Self { columns, entry_rows, logs, rows: vec![0.0; m], cols: vec![0.0; n], time: 0.0 }
    }

    /// Takes `alpha` times the image of a direction from the residual and writes the gradient that is left.
    fn descend(&self, residual: &mut [f64], direction: &[f64], alpha: f64, gradient: &mut [f64]) {
        let (m, n) = (self.rows.len(), self.cols.len());
        gradient.fill(0.0);
        for column in &self.columns {
            let shared = direction[m + column.col] + if column.in_e { direction[m + n] } else { 0.0 };
            let mut sum = 0.0;
            let entries = column.start..column.end;
            for (r, &row) in residual[entries.clone()].iter_mut().zip(&self.entry_rows[entries]) {
                *r -= alpha * (direction[row as usize] + shared);
                gradient[row as usize] += *r;
                sum += *r;
            }
            gradient[m + column.col] += sum;
            if column.in_e {
                gradient[m + n] += sum;
            }
        }
    }

    /// Square of the length of the image of a direction.
    fn curvature(&self, direction: &[f64]) -> f64 {
        let (m, n) = (self.rows.len(), self.cols.len());
        let of_column = |column: &LogColumn| {
            let shared = direction[m + column.col] + if column.in_e { direction[m + n] } else { 0.0 };
            let rows = &self.entry_rows[column.start..column.end];
            rows.iter().map(|&row| direction[row as usize] + shared).map(|x| x * x).sum::<f64>()
        };
        self.columns.iter().map(of_column).sum()
    }

    fn solve(&mut self) {
        let (m, n) = (self.rows.len(), self.cols.len());
        // Jacobi scaling by the counts of entries makes dense patterns converge in a handful of steps.
        let mut count = vec![0.0f64; m + n + 1];
        for &row in &self.entry_rows {
            count[row as usize] += 1.0;
        }
        for column in &self.columns {
            let len = (column.end - column.start) as f64;
            count[m + column.col] += len;
            if column.in_e {
                count[m + n] += len;
            }
        }
        let precondition =
            |g: &[f64]| -> Vec<f64> { g.iter().zip(&count).map(|(g, c)| if *c > 0.0 { g / c } else { 0.0 }).collect() };
        let mut x = vec![0.0; m + n + 1];
        let mut residual: Vec<f64> = self.logs.iter().map(|log| -log).collect();
        let mut gradient = vec![0.0; m + n + 1];
        self.descend(&mut residual, &x, 0.0, &mut gradient);
        let mut scaled = precondition(&gradient);
        let mut direction = scaled.clone();
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let mut rho = dot(&gradient, &scaled);
        // The gradient in units of its preconditioner is the mean shift still due per line: a tenth of a power of two
        // is enough.
        let stop = 1e-2 * self.logs.len() as f64;
        for _ in 0..(m + n + 1).min(400) {
            if rho <= stop {
                break;
            }
            let curvature = self.curvature(&direction);
            if curvature <= 0.0 {
                break;
            }
            let alpha = rho / curvature;
            for (x, d) in x.iter_mut().zip(&direction) {
                *x += alpha * d;
            }
            self.descend(&mut residual, &direction, alpha, &mut gradient);
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
