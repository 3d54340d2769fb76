//! The state-space-like standard form of a descriptor system, with derivatives of inputs.
//!
//! ```text
//! x'  = A x + B u + L w
//! H z = C x + sum over k of ( D_k u^(k) + K_k w^(k) ),      k = 0 .. index - 1
//! ```
//!
//! From the canonical form, `x_a = -(I + N d/dt + .. + N^(m-1) d^(m-1)/dt^(m-1)) (G_a u + J_a w)`, hence
//! `D_k = -H Q_a N^k G_a`; the minus sign is lost in the printed (B.14b). [@gerdin2007, eq. (11), (19), (B.11)-(B.14)]

use crate::balance::power_of_two;
use crate::dense::{block, times};
use crate::error::PencilError;
use crate::pencil::{DescriptorSystem, Pencil};
use crate::split::{FiniteInfiniteSplit, PencilOptions, split_finite_infinite};
use faer::Mat;

/// How a signal follows from the state and the external signals:
/// `signal = state x + sum_k input_terms[k] u^(k) + sum_k disturbance_terms[k] w^(k)`.
#[derive(Debug, Clone)]
pub struct SignalMap {
    /// `C`, `signals x n_finite`.
    pub state: Mat<f64>,
    /// `D_k`, `signals x inputs`, one per derivative; entries that are zero up to rounding are exactly zero.
    pub input_terms: Vec<Mat<f64>>,
    /// `K_k`, `signals x disturbances`, one per derivative; zero entries likewise.
    pub disturbance_terms: Vec<Mat<f64>>,
}

impl SignalMap {
    /// Highest derivative of each input that any signal needs; `None` if the input does not enter directly.
    pub fn input_derivatives_needed(&self) -> Vec<Option<usize>> {
        highest_orders(&self.input_terms)
    }

    /// Value of the signals for a state and the derivatives `u, u', ..` of the inputs; missing derivatives count as
    /// zero.
    pub fn evaluate(&self, state: &[f64], input_derivatives: &[Vec<f64>]) -> Vec<f64> {
        let mut out = times(&self.state, state);
        for (d, u) in self.input_terms.iter().zip(input_derivatives) {
            for (o, x) in out.iter_mut().zip(times(d, u)) {
                *o += x;
            }
        }
        out
    }
}

fn highest_orders(terms: &[Mat<f64>]) -> Vec<Option<usize>> {
    let channels = terms.first().map_or(0, |t| t.ncols());
    (0..channels)
        .map(|c| (0..terms.len()).rev().find(|&k| (0..terms[k].nrows()).any(|i| terms[k][(i, c)] != 0.0)))
        .collect()
}

/// A descriptor system as `x' = A x + B u + L w` with maps to all signals.
#[derive(Debug, Clone)]
pub struct StandardForm {
    /// `A`.
    pub dynamics: Mat<f64>,
    /// `B`.
    pub input: Mat<f64>,
    /// `L`.
    pub noise: Mat<f64>,
    /// Map to all variables `z`.
    pub variables: SignalMap,
    /// Map to the measured signals `H z`.
    pub measured: SignalMap,
    /// Map to the signals to estimate `M z`.
    pub estimated: SignalMap,
    /// The split it follows from.
    pub split: FiniteInfiniteSplit,
}

/// Converts a regular descriptor system to its standard form.
pub fn standard_form(system: &DescriptorSystem, options: &PencilOptions) -> Result<StandardForm, PencilError> {
    let split = split_finite_infinite(&system.pencil, options)?;
    let input = Chain::new(&split, &system.input);
    let noise = Chain::new(&split, &system.disturbance);
    let n = system.pencil.n_variables();
    let map = |h: &Mat<f64>, state: Mat<f64>| SignalMap {
        state,
        input_terms: input.seen_by(h),
        disturbance_terms: noise.seen_by(h),
    };
    let identity = Mat::identity(n, n);
    Ok(StandardForm {
        dynamics: split.dynamics.clone(),
        input: split.finite_rows(&system.input),
        noise: split.finite_rows(&system.disturbance),
        variables: map(&identity, split.finite_basis()),
        measured: map(&system.measured, &system.measured * split.finite_basis()),
        estimated: map(&system.estimated, &system.estimated * split.finite_basis()),
        split,
    })
}

/// The terms `-Q_a N^k P_a b` for `k = 0 .. index - 1`, each with a bound made of absolute values, so that what is zero
/// up to rounding can be told from what is small in its units.
pub(crate) struct Chain {
    terms: Vec<Mat<f64>>,
    bounds: Vec<Mat<f64>>,
    negligible: f64,
}

impl Chain {
    pub(crate) fn new(split: &FiniteInfiniteSplit, b: &Mat<f64>) -> Self {
        let (n, nf) = (split.left.ncols(), split.n_finite);
        let q = split.infinite_basis();
        let p = block(&split.left, nf, n, 0, n);
        let mut x = &p * b;
        let mut y = split.left_bound(&p) * absolute(b);
        let (q_abs, n_abs) = (split.right_bound(&q), graded_absolute(&split.nilpotent));
        let (mut terms, mut bounds) = (Vec::new(), Vec::new());
        for _ in 0..split.index {
            terms.push(-(&q * &x));
            bounds.push(&q_abs * &y);
            x = &split.nilpotent * &x;
            y = &n_abs * &y;
        }
        Self { terms, bounds, negligible: split.negligible }
    }

    /// `h` times the terms, negligible entries set to zero.
    pub(crate) fn seen_by(&self, h: &Mat<f64>) -> Vec<Mat<f64>> {
        let h_abs = absolute(h);
        self.terms
            .iter()
            .zip(&self.bounds)
            .map(|(t, b)| {
                let (value, bound) = (h * t, &h_abs * b);
                Mat::from_fn(value.nrows(), value.ncols(), |i, j| {
                    if value[(i, j)].abs() <= self.negligible * bound[(i, j)] { 0.0 } else { value[(i, j)] }
                })
            })
            .collect()
    }
}

/// Entries smaller than this fraction of their line are judged by the line: they may be rounding errors of the
/// factorization.
const GRADING: f64 = 1e-2;

impl FiniteInfiniteSplit {
    /// Absolute values of columns of `Q`, each entry at least a fraction of its column in balanced units.
    pub(crate) fn right_bound(&self, q: &Mat<f64>) -> Mat<f64> {
        let unit = |i: usize| power_of_two(self.balancing.cols[i]);
        let largest: Vec<f64> =
            (0..q.ncols()).map(|j| (0..q.nrows()).fold(0.0f64, |s, i| s.max(q[(i, j)].abs() / unit(i)))).collect();
        Mat::from_fn(q.nrows(), q.ncols(), |i, j| q[(i, j)].abs().max(GRADING * largest[j] * unit(i)))
    }

    /// Absolute values of rows of `P`, each entry at least a fraction of its row in balanced units.
    pub(crate) fn left_bound(&self, p: &Mat<f64>) -> Mat<f64> {
        let unit = |j: usize| power_of_two(self.balancing.rows[j]);
        let largest: Vec<f64> =
            (0..p.nrows()).map(|i| (0..p.ncols()).fold(0.0f64, |s, j| s.max(p[(i, j)].abs() / unit(j)))).collect();
        Mat::from_fn(p.nrows(), p.ncols(), |i, j| p[(i, j)].abs().max(GRADING * largest[i] * unit(j)))
    }
}

/// Absolute values, nonzero entries at least a fraction of the largest.
pub(crate) fn graded_absolute(a: &Mat<f64>) -> Mat<f64> {
    let largest = if a.nrows() == 0 || a.ncols() == 0 { 0.0 } else { a.norm_max() };
    Mat::from_fn(
        a.nrows(),
        a.ncols(),
        |i, j| {
            if a[(i, j)] == 0.0 { 0.0 } else { a[(i, j)].abs().max(GRADING * largest) }
        },
    )
}

pub(crate) fn absolute(a: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].abs())
}

/// A linear filter driven by white noise that shapes the disturbances: `z_w' = A z_w + B v`, `w = C z_w + D v`.
/// [@gerdin2007, eq. (B.5)]
#[derive(Debug, Clone)]
pub struct ShapingFilter {
    /// `A_w`.
    pub dynamics: Mat<f64>,
    /// `B_w`.
    pub noise: Mat<f64>,
    /// `C_w`.
    pub output: Mat<f64>,
    /// `D_w`.
    pub direct: Mat<f64>,
}

impl ShapingFilter {
    /// Takes the four matrices and checks that they fit.
    pub fn new(dynamics: Mat<f64>, noise: Mat<f64>, output: Mat<f64>, direct: Mat<f64>) -> Result<Self, PencilError> {
        use crate::dense::{check_finite, check_shape};
        let (n, v, w) = (dynamics.nrows(), noise.ncols(), output.nrows());
        check_shape("A_w", &dynamics, n, n, "filter dynamics are square")?;
        check_shape("B_w", &noise, n, v, "B_w has one row per filter state")?;
        check_shape("C_w", &output, w, n, "C_w has one column per filter state")?;
        check_shape("D_w", &direct, w, v, "D_w maps white noise to disturbances")?;
        for (name, a) in [("A_w", &dynamics), ("B_w", &noise), ("C_w", &output), ("D_w", &direct)] {
            check_finite(name, a)?;
        }
        Ok(Self { dynamics, noise, output, direct })
    }

    /// `num / den`, highest power first, in companion form: `x_n' = -a x + v`, `w = c x + d v`. `None` if the
    /// denominator is zero or of lower degree than the numerator.
    pub fn from_factor(num: &[f64], den: &[f64]) -> Option<Self> {
        let strip = |list: &[f64]| -> Vec<f64> { list.iter().copied().skip_while(|x| *x == 0.0).collect() };
        let (num, den) = (strip(num), strip(den));
        if den.is_empty() || num.len() > den.len() {
            return None;
        }
        let order = den.len() - 1;
        let lead = den[0];
        let a = |power: usize| den[order - power] / lead;
        let b = |power: usize| num.len().checked_sub(power + 1).map_or(0.0, |at| num[at] / lead);
        let direct = b(order);
        let shift = |i: usize, k: usize| f64::from(u8::from(k == i + 1));
        Some(Self {
            dynamics: Mat::from_fn(order, order, |i, k| if i + 1 < order { shift(i, k) } else { -a(k) }),
            noise: Mat::from_fn(order, 1, |i, _| f64::from(u8::from(i + 1 == order))),
            output: Mat::from_fn(1, order, |_, k| b(k) - direct * a(k)),
            direct: Mat::from_fn(1, 1, |_, _| direct),
        })
    }

    /// White noise as it is.
    pub fn white() -> Self {
        Self {
            dynamics: Mat::zeros(0, 0),
            noise: Mat::zeros(0, 1),
            output: Mat::zeros(1, 0),
            direct: Mat::identity(1, 1),
        }
    }

    /// Independent filters side by side.
    pub fn side_by_side(filters: &[Self]) -> Self {
        let join = |of: &dyn Fn(&Self) -> &Mat<f64>| {
            let rows = filters.iter().map(|filter| of(filter).nrows()).sum();
            let columns = filters.iter().map(|filter| of(filter).ncols()).sum();
            let mut whole = Mat::zeros(rows, columns);
            let (mut row, mut column) = (0, 0);
            for filter in filters {
                crate::dense::set_block(&mut whole, row, column, of(filter));
                row += of(filter).nrows();
                column += of(filter).ncols();
            }
            whole
        };
        Self {
            dynamics: join(&|filter| &filter.dynamics),
            noise: join(&|filter| &filter.noise),
            output: join(&|filter| &filter.output),
            direct: join(&|filter| &filter.direct),
        }
    }

    /// Pole excess `2 p` of the spectrum of each disturbance: twice the relative degree of its row of the transfer
    /// function. A disturbance that is identically zero has `None`.
    pub fn pole_excess(&self) -> Vec<Option<i32>> {
        let n = self.dynamics.nrows();
        (0..self.output.nrows())
            .map(|l| {
                let is_zero = |row: &Mat<f64>, size: &Mat<f64>| {
                    (0..row.ncols()).all(|j| row[(0, j)].abs() <= 1e-12 * size[(0, j)])
                };
                let pick = |a: &Mat<f64>| block(a, l, l + 1, 0, a.ncols());
                let direct = pick(&self.direct);
                if !is_zero(&direct, &Mat::zeros(1, direct.ncols())) {
                    return Some(0);
                }
                let mut row = pick(&self.output);
                let mut size = absolute(&row);
                let (a_abs, b_abs) = (absolute(&self.dynamics), absolute(&self.noise));
                for k in 0..n {
                    if !is_zero(&(&row * &self.noise), &(&size * &b_abs)) {
                        return Some(2 * (k as i32 + 1));
                    }
                    row = &row * &self.dynamics;
                    size = &size * &a_abs;
                }
                None
            })
            .collect()
    }
}

/// The system with its disturbances made by a shaping filter: variables `(z, z_w)`, disturbance `v`. [@gerdin2007, eq.
/// (B.9)]
pub fn with_shaping_filter(system: &DescriptorSystem, filter: &ShapingFilter) -> Result<DescriptorSystem, PencilError> {
    use crate::dense::{check_shape, set_block};
    let (m, n) = (system.pencil.n_equations(), system.pencil.n_variables());
    let k = filter.dynamics.nrows();
    let v = filter.noise.ncols();
    check_shape("C_w", &filter.output, system.disturbance.ncols(), k, "the filter makes one signal per column of J")?;
    let mut e = Mat::zeros(m + k, n + k);
    let mut f = Mat::zeros(m + k, n + k);
    set_block(&mut e, 0, 0, system.pencil.e());
    set_block(&mut e, m, n, &Mat::identity(k, k));
    set_block(&mut f, 0, 0, system.pencil.f());
    set_block(&mut f, 0, n, &(&system.disturbance * &filter.output));
    set_block(&mut f, m, n, &filter.dynamics);
    let mut g = Mat::zeros(m + k, system.input.ncols());
    set_block(&mut g, 0, 0, &system.input);
    let mut j = Mat::zeros(m + k, v);
    set_block(&mut j, 0, 0, &(&system.disturbance * &filter.direct));
    set_block(&mut j, m, 0, &filter.noise);
    let widen = |h: &Mat<f64>| {
        let mut out = Mat::zeros(h.nrows(), n + k);
        set_block(&mut out, 0, 0, h);
        out
    };
    DescriptorSystem::new(Pencil::new(e, f)?)
        .with_input(g)?
        .with_disturbance(j)?
        .with_measured(widen(&system.measured))?
        .with_estimated(widen(&system.estimated))
}
