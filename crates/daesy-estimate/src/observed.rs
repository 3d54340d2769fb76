//! The part of a large state that measurements depend on.
//!
//! Over a step `x^+ = Phi x + sum over j of G_j c_j + noise`, with `Phi = e^(A h)`. Measured are `y = H x + ..`. Let the
//! columns of `O` span a space that holds the rows of `H` and is closed under `Phi^T`, and let them be orthonormal. Then
//! `z = O^T x` has dynamics of its own, without any approximation:
//!
//! ```text
//! z^+ = (O^T Phi O) z + sum over j of O^T G_j c_j + noise of covariance O^T Q_d O        y = (H O) z + ..
//! ```
//!
//! for `O^T Phi = (Phi^T O)^T` has its rows in the space of `O^T`. Derivatives by parameters are those of the whole model
//! if the space holds the rows of `dH` and is closed under `dPhi^T`, too. Measurements of diffusion, heat or damped
//! waves forget all but the slow and smooth part of a state within a step, so that a few dozen columns close the space
//! to rounding where the state has thousands of entries. Nothing of the state is approximated by that: what is left out
//! has no effect on any measured value.
//!
//! Columns are found one after the other, from the rows of `H` on, by applying `Phi^T`, and what sticks out of the space
//! by less than [`CLOSED`] of its size counts as inside. Sizes are those that states reach within the record
//! ([`sizes`]), so that units do not matter.
//!
//! No exponential is computed. What is needed of it is its product with vectors, by `k` steps of the Pade approximation
//! with numerator of degree 6 and denominator of degree 8 [@hairer1996, sec. IV.3]
//!
//! ```text
//! e^z = r(z) + O(z^15),   r(z) = product over 4 pairs of poles of f(z),   f(z) = c + rho / (z - p) + its conjugate
//! e^(A h) x = r(A h / k)^k x        f(A) x = c x + 2 Re(rho u),   (A - p) u = x
//! ```
//!
//! each of which is the solution of a sparse linear system. `r` decays like `z^-2`, and every partial product is bounded
//! by one on the negative axis, so that nothing is amplified. With a spectrum in a sector around that axis `k = 8` is
//! enough for all digits, however stiff the system is; `k` is doubled until the result no longer changes. Derivatives of
//! `r` follow from those of the systems, `(A - p) u' = x' - A' u`.
//!
//! Inputs are polynomials over a step: with `u' = u_1, u_1' = u_2, ..` as further states, their matrices `G_j` are part of
//! the same exponential [@vanloan1978].
//!
//! The noise is `O^T Q_d O = integral of v v^T ds` with `v(s) = O^T e^(A s) L` over the step, by Gauss's formula on
//! intervals that double in length from `1 / |A|` on: `e^(-a s)` is smooth on `[t, 2 t]` as long as it is not negligible.
//! The intervals are halved until the result no longer changes.

use std::f64::consts::PI;

use daesy_integrate::linear::LinearSolver;
use daesy_system::Pattern;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par, c64};

use crate::descriptor::Coefficients;
use crate::discretize::{balancing, one_norm};
use crate::filter::{FilterSpace, StepModel};
use crate::kernel::{add_scaled, dot, flat, matrix, semidefinite_factor};
use crate::start::{StartJet, StartState};
use crate::state_space::{SignalTerms, StateSpace, StateSpaceJet};

/// States from which on it pays to look for the part that is seen.
const LARGE: usize = 48;

/// A matrix with more entries than this share is not sparse.
const SPARSE: f64 = 0.1;

/// More different steps than this, and each of them would be worked on for itself for too long.
const MOST_LENGTHS: usize = 4;

/// What sticks out of the space by less than this share is inside.
const CLOSED: f64 = 4e-15;

/// Two computations that differ by less than this share are the same: rounding adds up over hundreds of steps.
const SAME: f64 = 1e-12;

/// Steps of the rational approximation: the fewest and the most that are tried.
const STEPS: [usize; 2] = [8, 64];

/// Parts that the intervals of the noise are divided into at most.
const MOST_PARTS: usize = 8;

/// Sizes of states that are never reached, in balanced units.
const UNREACHED: f64 = 1e-12;

/// Poles of the approximation with positive imaginary part. The first has no zeros at its side.
const POLES: [c64; 4] = [
    c64::new(3.694_856_329_386_847, 11.269_699_300_097_058),
    c64::new(9.161_628_867_584_668, 1.558_377_394_061_903_5),
    c64::new(8.402_252_985_149_52, 4.691_162_756_054_332),
    c64::new(6.741_261_817_878_965, 7.885_949_689_485_411),
];

/// Its zeros, beside the other poles.
const ZEROS: [c64; 3] = [
    c64::new(-10.505_250_095_518_688, 1.942_118_721_032_767_5),
    c64::new(-9.472_626_985_460_394, 5.894_021_010_037_723),
    c64::new(-7.022_122_919_020_918_5, 10.143_463_070_941_534),
];

/// A sparse matrix by rows.
struct Sparse {
    pattern: Pattern,
    values: Vec<f64>,
}

impl Sparse {
    fn new(n: usize, mut entries: Vec<(u32, u32, f64)>) -> Self {
        entries.sort_unstable_by_key(|&(row, column, _)| (row, column));
        let mut row_starts = vec![0u32; n + 1];
        for &(row, ..) in &entries {
            row_starts[row as usize + 1] += 1;
        }
        for row in 0..n {
            row_starts[row + 1] += row_starts[row];
        }
        let columns = entries.iter().map(|&(_, column, _)| column).collect();
        let pattern = Pattern { n_rows: n, n_cols: n, row_starts, columns };
        Self { pattern, values: entries.into_iter().map(|(.., value)| value).collect() }
    }

    /// `y -= factor a x`
    fn subtract_product(&self, factor: f64, x: &[c64], y: &mut [c64]) {
        for (row, y) in y.iter_mut().enumerate() {
            for entry in self.pattern.row(row) {
                *y -= x[self.pattern.columns[entry] as usize] * (factor * self.values[entry]);
            }
        }
    }
}

/// A sparse matrix and its derivatives by parameters.
struct SparseJet {
    /// With all entries of the diagonal.
    value: Sparse,
    derivatives: Vec<Sparse>,
}

/// A vector and its derivatives by parameters.
#[derive(Clone)]
struct Column {
    value: Vec<f64>,
    derivatives: Vec<Vec<f64>>,
}

/// One step of the rational approximation of the exponential of a matrix.
struct RationalStep<'m> {
    matrix: &'m SparseJet,
    step: f64,
    solvers: Vec<LinearSolver<c64>>,
    values: Vec<c64>,
}

impl<'m> RationalStep<'m> {
    fn new(matrix: &'m SparseJet, step: f64) -> Option<Self> {
        let solvers = POLES.iter().map(|_| LinearSolver::new(&matrix.value.pattern)).collect::<Result<_, _>>().ok()?;
        let mut made = Self { matrix, step, solvers, values: Vec::new() };
        made.set(step)?;
        Some(made)
    }

    /// Factors for another step.
    fn set(&mut self, step: f64) -> Option<()> {
        self.step = step;
        let Sparse { pattern, values } = &self.matrix.value;
        for (solver, pole) in self.solvers.iter_mut().zip(POLES) {
            self.values.clear();
            self.values.extend(values.iter().map(|value| c64::new(step * value, 0.0)));
            for (entry, (row, column)) in pattern.entries().enumerate() {
                if row == column {
                    self.values[entry] -= pole;
                }
            }
            solver.factor(&self.values).ok()?;
        }
        Some(())
    }

    /// Takes a column over a step.
    fn advance(&mut self, x: &mut Column) -> Option<()> {
        for (at, solver) in self.solvers.iter_mut().enumerate() {
            let p = POLES[at];
            let square = p.re * p.re + p.im * p.im;
            let width = c64::new(0.0, 2.0 * p.im);
            let (c, rho) = match at.checked_sub(1).map(|zero| ZEROS[zero]) {
                None => (0.0, c64::new(square, 0.0) / width),
                Some(q) => {
                    let c = square / (q.re * q.re + q.im * q.im);
                    (c, (p - q) * (p - q.conj()) * c / width)
                }
            };
            let mut u: Vec<c64> = x.value.iter().map(|&value| c64::new(value, 0.0)).collect();
            solver.solve(&mut u).ok()?;
            for (derivative, by) in x.derivatives.iter_mut().zip(&self.matrix.derivatives) {
                let mut du: Vec<c64> = derivative.iter().map(|&value| c64::new(value, 0.0)).collect();
                by.subtract_product(self.step, &u, &mut du);
                if du.iter().any(|value| value.re != 0.0 || value.im != 0.0) {
                    solver.solve(&mut du).ok()?;
                    for (x, u) in derivative.iter_mut().zip(&du) {
                        *x = c * *x + 2.0 * (rho.re * u.re - rho.im * u.im);
                    }
                }
            }
            for (x, u) in x.value.iter_mut().zip(&u) {
                *x = c * *x + 2.0 * (rho.re * u.re - rho.im * u.im);
            }
        }
        Some(())
    }
}

/// A model whose states are measured in their sizes.
struct Scaled {
    n: usize,
    dynamics: SparseJet,
    /// The transpose, with the inputs and their powers as further states.
    transposed: SparseJet,
    /// Columns of the noise.
    noise: Vec<Column>,
    norm: f64,
}

impl Scaled {
    fn new(jet: &StateSpaceJet, units: &[f64], degree: usize) -> Self {
        let n = units.len();
        let n_inputs = jet.value.input.ncols();
        let n_whole = n + (degree + 1) * n_inputs;
        let entries = |space: &StateSpace| -> Vec<(u32, u32, f64)> {
            let mut list = Vec::new();
            for j in 0..n {
                for i in 0..n {
                    let value = space.dynamics[(i, j)];
                    if value != 0.0 {
                        list.push((i as u32, j as u32, value * units[j] / units[i]));
                    }
                }
            }
            list
        };
        let transposed = |space: &StateSpace, list: &[(u32, u32, f64)]| -> Vec<(u32, u32, f64)> {
            let mut list: Vec<_> = list.iter().map(|&(i, j, value)| (j, i, value)).collect();
            for j in 0..n_inputs {
                for i in (0..n).filter(|&i| space.input[(i, j)] != 0.0) {
                    list.push(((n + j) as u32, i as u32, space.input[(i, j)] / units[i]));
                }
            }
            list
        };
        let with_diagonal = |mut list: Vec<(u32, u32, f64)>, size: usize| {
            let mut has = vec![false; size];
            list.iter().filter(|(i, j, _)| i == j).for_each(|&(i, ..)| has[i as usize] = true);
            list.extend((0..size).filter(|&i| !has[i]).map(|i| (i as u32, i as u32, 0.0)));
            Sparse::new(size, list)
        };
        let own = entries(&jet.value);
        let mut whole = transposed(&jet.value, &own);
        whole.extend((0..degree * n_inputs).map(|at| ((n + n_inputs + at) as u32, (n + at) as u32, 1.0)));
        let (mut d_own, mut d_whole) = (Vec::new(), Vec::new());
        for space in &jet.derivatives {
            let list = entries(space);
            d_whole.push(Sparse::new(n_whole, transposed(space, &list)));
            d_own.push(Sparse::new(n, list));
        }
        let column = |noise: &Mat<f64>, k: usize| -> Vec<f64> { (0..n).map(|i| noise[(i, k)] / units[i]).collect() };
        let noise = (0..jet.value.noise.ncols()).map(|k| Column {
            value: column(&jet.value.noise, k),
            derivatives: jet.derivatives.iter().map(|space| column(&space.noise, k)).collect(),
        });
        let mut sums = vec![0.0; n];
        own.iter().for_each(|&(_, j, value)| sums[j as usize] += f64::abs(value));
        Self {
            n,
            noise: noise.collect(),
            norm: sums.into_iter().fold(0.0, f64::max),
            dynamics: SparseJet { value: with_diagonal(own, n), derivatives: d_own },
            transposed: SparseJet { value: with_diagonal(whole, n_whole), derivatives: d_whole },
        }
    }
}

/// The sizes that states reach: `x` follows impulses of noises and inputs and the start over the record, in steps that
/// double. Every such column counts relative to its largest value in balanced units.
fn sizes(jet: &StateSpaceJet, starts: &[StartJet], span: f64) -> Option<Vec<f64>> {
    let space = &jet.value;
    let n = space.dynamics.nrows();
    let balanced = balancing(&space.dynamics);
    let scaled = Scaled::new(jet, &balanced, 0);
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut add = |entry: &dyn Fn(usize) -> f64| {
        let column: Vec<f64> = (0..n).map(|i| entry(i) / balanced[i]).collect();
        if column.iter().any(|x| *x != 0.0) {
            columns.push(column);
        }
    };
    for part in [&space.noise, &space.input] {
        (0..part.ncols()).for_each(|k| add(&|i| part[(i, k)]));
    }
    for StartState { mean, covariance, directions } in starts.iter().map(|start| &start.value) {
        add(&|i| mean[i]);
        add(&|i| covariance[(i, i)].max(0.0).sqrt());
        add(&|i| (0..directions.ncols()).map(|k| directions[(i, k)].abs()).sum());
    }
    let value = SparseJet { value: scaled.dynamics.value, derivatives: Vec::new() };
    let mut step = 1.0 / scaled.norm.max(1.0 / span);
    let mut rational = RationalStep::new(&value, step)?;
    let mut reached: Vec<Vec<f64>> = vec![vec![0.0; n]; columns.len()];
    let mut time = 0.0;
    loop {
        for (column, reached) in columns.iter_mut().zip(&mut reached) {
            reached.iter_mut().zip(&*column).for_each(|(most, x)| *most = most.max(x.abs()));
            let mut moved = Column { value: std::mem::take(column), derivatives: Vec::new() };
            rational.advance(&mut moved)?;
            *column = moved.value;
        }
        time += step;
        if time > span {
            break;
        }
        step *= 2.0;
        rational.set(step)?;
    }
    let mut sizes = vec![UNREACHED; n];
    for reached in &reached {
        let largest = reached.iter().fold(0.0f64, |most, x| most.max(*x));
        sizes.iter_mut().zip(reached).for_each(|(size, x)| *size = size.max(x / largest));
    }
    let units: Vec<f64> = sizes.iter().zip(&balanced).map(|(size, unit)| size.log2().round().exp2() * unit).collect();
    units.iter().all(|unit| unit.is_finite() && *unit > 0.0).then_some(units)
}

/// Orthonormal columns.
struct Basis {
    n: usize,
    columns: Vec<f64>,
}

impl Basis {
    fn len(&self) -> usize {
        self.columns.len() / self.n
    }

    fn matrix(&self) -> MatRef<'_, f64> {
        matrix(&self.columns, self.n)
    }

    /// Adds what sticks out of the space, largest first.
    fn absorb(&mut self, candidates: &[Vec<f64>]) {
        let n = self.n;
        let mut rest = Mat::from_fn(n, candidates.len(), |i, j| candidates[j][i]);
        for _ in 0..2 {
            let along = self.matrix().transpose() * &rest;
            matmul(rest.as_mut(), Accum::Add, self.matrix(), along.as_ref(), -1.0, Par::Seq);
        }
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        loop {
            let size = |&j: &usize| dot(rest.col_as_slice(j), rest.col_as_slice(j)).sqrt();
            let Some((place, largest)) =
                left.iter().map(size).enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, size)| *size > CLOSED)
            else {
                return;
            };
            let pivot = left.swap_remove(place);
            let mut column: Vec<f64> = rest.col_as_slice(pivot).iter().map(|x| x / largest).collect();
            for _ in 0..2 {
                for old in self.columns.chunks_exact(n) {
                    let along = dot(old, &column);
                    add_scaled(&mut column, -along, old);
                }
                let length = dot(&column, &column).sqrt();
                column.iter_mut().for_each(|x| *x /= length);
            }
            for &j in &left {
                let along = dot(&column, rest.col_as_slice(j));
                add_scaled(rest.col_as_slice_mut(j), -along, &column);
            }
            self.columns.extend(column);
        }
    }

    /// Coordinates of the part of a vector that is in the space.
    fn coordinates(&self, x: &[f64]) -> Vec<f64> {
        self.columns.chunks_exact(self.n).map(|column| dot(column, &x[..self.n])).collect()
    }
}

/// The transposed exponential over one length.
struct Backward<'m> {
    rational: RationalStep<'m>,
    length: f64,
    n_steps: usize,
    /// What it makes of the columns of the basis, further states included.
    images: Vec<Column>,
}

impl<'m> Backward<'m> {
    fn new(scaled: &'m Scaled, length: f64, n_steps: usize) -> Option<Self> {
        let rational = RationalStep::new(&scaled.transposed, length / n_steps as f64)?;
        Some(Self { rational, length, n_steps, images: Vec::new() })
    }

    /// Whether twice as many steps give the same images. Exponentials are linear: it is tried on the sum of the columns,
    /// with signs that change, and seen relative to the largest image, which is given for values and for the derivatives
    /// by every parameter.
    fn is_resolved(&mut self, basis: &Basis, scaled: &Scaled, largest: &[f64]) -> Option<bool> {
        // Steps as short as this resolve every frequency.
        if scaled.norm * self.length <= self.n_steps as f64 {
            return Some(true);
        }
        let sign = |at: usize| if at % 3 == 1 { -1.0 } else { 1.0 };
        let mut sum = vec![0.0; basis.n];
        basis.columns.chunks_exact(basis.n).enumerate().for_each(|(at, column)| add_scaled(&mut sum, sign(at), column));
        let lanes = largest.len() - 1;
        self.rational.set(self.length / (2 * self.n_steps) as f64)?;
        let mut off = power(&mut self.rational, 2 * self.n_steps, &sum, lanes)?;
        for (at, image) in self.images.iter().enumerate() {
            add_scaled(&mut off.value, -sign(at), &image.value);
            off.derivatives.iter_mut().zip(&image.derivatives).for_each(|(off, d)| add_scaled(off, -sign(at), d));
        }
        let size = SAME * (basis.len() as f64).sqrt();
        let is_small = |off: &[f64], largest: f64| dot(off, off).sqrt() <= size * largest;
        let rest = off.derivatives.iter().zip(&largest[1..]);
        Some(is_small(&off.value, largest[0]) && rest.into_iter().all(|(off, &largest)| is_small(off, largest)))
    }
}

/// Several steps, from a column that does not depend on parameters.
fn power(rational: &mut RationalStep<'_>, n_steps: usize, row: &[f64], lanes: usize) -> Option<Column> {
    let n = rational.matrix.value.pattern.n_rows;
    let mut value = row.to_vec();
    value.resize(n, 0.0);
    let mut column = Column { value, derivatives: vec![vec![0.0; n]; lanes] };
    for _ in 0..n_steps {
        rational.advance(&mut column)?;
    }
    Some(column)
}

/// A model in the coordinates `z` that measurements depend on.
pub(crate) struct Observed {
    /// The map from `x` to `z`.
    map: Mat<f64>,
    pub steps: Vec<StepModel>,
    /// There are steps of the given lengths only: dynamics and intensity are NaN.
    pub value: StateSpace,
    pub derivatives: Vec<FilterSpace>,
}

/// What the part that is seen is looked for in.
pub(crate) struct Whole<'a> {
    pub jet: &'a StateSpaceJet,
    pub coefficients: &'a Coefficients,
    pub derivatives: &'a [Coefficients],
    pub lengths: &'a [f64],
    /// Of the polynomials that inputs are made of.
    pub degree: usize,
    pub starts: &'a [StartJet],
    /// The longest record.
    pub span: f64,
    /// Whether signals to estimate count as measured.
    pub with_estimated: bool,
}

impl Observed {
    /// Finds the part of a large and sparse model that measurements depend on; `None` if that is not much less than the
    /// whole, or cannot be had safely.
    pub fn new(whole: &Whole<'_>) -> Option<Self> {
        let Whole { jet, lengths, degree, .. } = *whole;
        let space = &jet.value;
        let n = space.dynamics.nrows();
        let lanes = jet.derivatives.len();
        let is_sparse = |a: &Mat<f64>| {
            let n_entries: usize = a.col_iter().map(|column| column.iter().filter(|x| **x != 0.0).count()).sum();
            n_entries as f64 <= SPARSE * (n * n) as f64
        };
        let is_fit = n >= LARGE
            && (1..=MOST_LENGTHS).contains(&lengths.len())
            && space.measured.state.nrows() + space.noise.ncols() <= n / 8
            && (!whole.with_estimated || space.estimated.state.nrows() <= n / 8)
            && std::iter::once(space).chain(&jet.derivatives).all(|space| is_sparse(&space.dynamics))
            && one_norm(&space.dynamics).is_finite();
        if !is_fit {
            return None;
        }
        let units = sizes(jet, whole.starts, whole.span)?;
        let scaled = Scaled::new(jet, &units, degree);
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for space in std::iter::once(space).chain(&jet.derivatives) {
            let estimated = Some(&space.estimated.state).filter(|_| whole.with_estimated);
            for terms in std::iter::once(&space.measured.state).chain(estimated) {
                for row in 0..terms.nrows() {
                    let row: Vec<f64> = (0..n).map(|j| terms[(row, j)] * units[j]).collect();
                    let length = dot(&row, &row).sqrt();
                    if length > 0.0 {
                        rows.push(row.iter().map(|x| x / length).collect());
                    }
                }
            }
        }
        let Closed { basis, backward } = close(&rows, &scaled, lengths, lanes)?;
        let mut steps = Vec::with_capacity(lengths.len());
        for (backward, &length) in backward.iter().zip(lengths) {
            let noise = covariances(&scaled, &basis, whole, length)?;
            steps.push(step_model(&basis, backward, &noise, n));
        }
        let map = Mat::from_fn(basis.len(), n, |k, i| basis.columns[k * n + i] / units[i]);
        let r = basis.len();
        let seen = |terms: &SignalTerms| SignalTerms {
            state: Mat::from_fn(terms.state.nrows(), n, |i, j| terms.state[(i, j)] * units[j]) * basis.matrix(),
            inputs: terms.inputs.clone(),
        };
        let value = StateSpace {
            dynamics: Mat::from_fn(r, r, |_, _| f64::NAN),
            input: &map * &space.input,
            noise: &map * &space.noise,
            intensity: Mat::from_fn(r, r, |_, _| f64::NAN),
            measured: seen(&space.measured),
            estimated: seen(&space.estimated),
            variables: SignalTerms { state: Mat::zeros(0, r), inputs: Vec::new() },
            sizes: Vec::new(),
        };
        let derivative =
            |space: &StateSpace| FilterSpace { measured: seen(&space.measured), input: &map * &space.input };
        let derivatives = jet.derivatives.iter().map(derivative).collect();
        Some(Self { steps, value, derivatives, map })
    }

    /// The start in these coordinates.
    pub fn start(&self, start: &StartJet) -> StartJet {
        let seen = |state: &StartState| StartState {
            mean: (0..self.map.nrows())
                .map(|k| state.mean.iter().enumerate().map(|(i, x)| self.map[(k, i)] * x).sum())
                .collect(),
            covariance: &self.map * (&state.covariance * self.map.transpose()),
            directions: &self.map * &state.directions,
        };
        StartJet { value: seen(&start.value), derivatives: start.derivatives.iter().map(seen).collect() }
    }
}

/// A space that is closed, and under what.
struct Closed<'m> {
    basis: Basis,
    /// By length.
    backward: Vec<Backward<'m>>,
}

/// The smallest space that holds the rows and is closed under all exponentials and their derivatives.
fn close<'m>(rows: &[Vec<f64>], scaled: &'m Scaled, lengths: &[f64], lanes: usize) -> Option<Closed<'m>> {
    let [mut n_steps, most] = STEPS;
    while n_steps <= most {
        let backward: Option<Vec<_>> = lengths.iter().map(|&length| Backward::new(scaled, length, n_steps)).collect();
        let mut closed = Closed { basis: Basis { n: scaled.n, columns: Vec::new() }, backward: backward? };
        let largest = closed.fill(rows, lanes)?;
        let Closed { basis, backward } = &mut closed;
        let resolved: Option<Vec<bool>> =
            backward.iter_mut().map(|it| it.is_resolved(basis, scaled, &largest)).collect();
        if resolved?.into_iter().all(|is| is) {
            return Some(closed);
        }
        n_steps *= 2;
    }
    None
}

impl Closed<'_> {
    /// Closes the space of some rows; gives the largest image, and the largest derivatives of one.
    fn fill(&mut self, rows: &[Vec<f64>], lanes: usize) -> Option<Vec<f64>> {
        let Self { basis, backward } = self;
        let n = basis.n;
        basis.absorb(rows);
        // Derivatives count relative to the largest of them. What inputs do is no part of the space.
        let (mut largest, mut inside) = (vec![0.0f64; lanes + 1], vec![0.0f64; lanes + 1]);
        let mut done = 0;
        while done < basis.len() {
            let mut candidates: Vec<(usize, Vec<f64>)> = Vec::new();
            let end = basis.len();
            for at in done..end {
                for backward in &mut *backward {
                    let column = &basis.columns[at * n..(at + 1) * n];
                    let image = power(&mut backward.rational, backward.n_steps, column, lanes)?;
                    for (kind, x) in std::iter::once(&image.value).chain(&image.derivatives).enumerate() {
                        largest[kind] = largest[kind].max(dot(x, x).sqrt());
                        inside[kind] = inside[kind].max(dot(&x[..n], &x[..n]).sqrt());
                        candidates.push((kind, x[..n].to_vec()));
                    }
                    backward.images.push(image);
                }
            }
            done = end;
            if !largest.iter().all(|size| size.is_finite()) {
                return None;
            }
            candidates.retain(|(kind, _)| inside[*kind] > 0.0);
            for (kind, candidate) in &mut candidates {
                candidate.iter_mut().for_each(|x| *x /= inside[*kind]);
            }
            basis.absorb(candidates.into_iter().map(|(_, candidate)| candidate).collect::<Vec<_>>().as_slice());
            if basis.len() > n / 2 {
                return None;
            }
        }
        Some(largest)
    }
}

/// `Q_d` in coordinates of the basis, and its derivatives.
struct Covariances {
    value: Mat<f64>,
    derivatives: Vec<Mat<f64>>,
}

/// The noise over a step, with as many parts as are needed.
fn covariances(scaled: &Scaled, basis: &Basis, whole: &Whole<'_>, length: f64) -> Option<Covariances> {
    let lanes = whole.derivatives.len();
    let mut n_parts = 1;
    let mut coarse = integrate(scaled, basis, whole, length, n_parts, 0)?;
    while n_parts < MOST_PARTS {
        let fine = integrate(scaled, basis, whole, length, 2 * n_parts, 0)?;
        let size = (0..basis.len()).fold(0.0f64, |most, i| most.max(fine.value[(i, i)]));
        if (&coarse.value - &fine.value).norm_max() <= SAME * size {
            return if lanes == 0 { Some(coarse) } else { integrate(scaled, basis, whole, length, n_parts, lanes) };
        }
        (n_parts, coarse) = (2 * n_parts, fine);
    }
    None
}

/// Nodes of Gauss's formula.
const NODES: usize = 12;

/// Gauss's formula on `[0, 1]`: distances between its nodes, from 0 and to 1, and weights.
fn gauss() -> ([f64; NODES + 1], [f64; NODES]) {
    let m = NODES as f64;
    let (mut nodes, mut weights) = ([0.0; NODES], [0.0; NODES]);
    for at in 0..NODES / 2 {
        let mut x = (PI * (at as f64 + 0.75) / (m + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..8 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=NODES {
                let k = k as f64;
                (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = m * (before - x * value) / (1.0 - x * x);
            x -= value / slope;
        }
        let weight = 1.0 / ((1.0 - x * x) * slope * slope);
        (nodes[at], nodes[NODES - 1 - at]) = (0.5 * (1.0 - x), 0.5 * (1.0 + x));
        (weights[at], weights[NODES - 1 - at]) = (weight, weight);
    }
    let mut gaps = [0.0; NODES + 1];
    for at in 0..=NODES / 2 {
        let before = if at == 0 { 0.0 } else { nodes[at - 1] };
        let gap = nodes[at] - before;
        (gaps[at], gaps[NODES - at]) = (gap, gap);
    }
    (gaps, weights)
}

/// A source of noise at a node of Gauss's formula, in coordinates of the basis.
struct Node {
    weight: f64,
    source: usize,
    value: Vec<f64>,
    derivatives: Vec<Vec<f64>>,
}

/// The integral of the noise, on intervals that double in length, each in some parts.
fn integrate(
    scaled: &Scaled,
    basis: &Basis,
    whole: &Whole<'_>,
    length: f64,
    n_parts: usize,
    lanes: usize,
) -> Option<Covariances> {
    let r = basis.len();
    let (gaps, weights) = gauss();
    let n_levels = (scaled.norm * length).log2().ceil().clamp(0.0, 200.0) as i32;
    let intensity = &whole.coefficients.intensities;
    let is_active =
        |at: usize| intensity[at] != 0.0 || whole.derivatives.iter().any(|direction| direction.intensities[at] != 0.0);
    let mut columns: Vec<(usize, Column)> =
        scaled.noise.iter().cloned().enumerate().filter(|(at, _)| is_active(*at)).collect();
    if columns.is_empty() {
        return Some(Covariances { value: Mat::zeros(r, r), derivatives: vec![Mat::zeros(r, r); lanes] });
    }
    columns.iter_mut().for_each(|(_, column)| column.derivatives.truncate(lanes));
    let mut nodes: Vec<Node> = Vec::new();
    let mut first = length * f64::from(-n_levels).exp2();
    // Gaps are symmetric.
    let part = first / n_parts as f64;
    let steps: Option<Vec<RationalStep<'_>>> =
        gaps[..=NODES / 2].iter().map(|gap| RationalStep::new(&scaled.dynamics, gap * part)).collect();
    let mut steps = steps?;
    for level in 0..=n_levels {
        if level > 1 {
            first *= 2.0;
        }
        let part = first / n_parts as f64;
        if level > 1 {
            for (step, gap) in steps.iter_mut().zip(&gaps) {
                step.set(gap * part)?;
            }
        }
        for _ in 0..n_parts {
            for at in 0..=NODES {
                for (source, column) in &mut columns {
                    steps[at.min(NODES - at)].advance(column)?;
                    if at < NODES {
                        let value = basis.coordinates(&column.value);
                        let derivatives = column.derivatives.iter().map(|d| basis.coordinates(d)).collect();
                        nodes.push(Node { weight: weights[at] * part, source: *source, value, derivatives });
                    }
                }
            }
        }
    }
    let v = Mat::from_fn(r, nodes.len(), |i, k| nodes[k].value[i]);
    let weighted = Mat::from_fn(r, nodes.len(), |i, k| v[(i, k)] * nodes[k].weight * intensity[nodes[k].source]);
    let value = &weighted * v.transpose();
    let derivatives = (0..lanes).map(|lane| {
        let d_intensity = &whole.derivatives[lane].intensities;
        let half = Mat::from_fn(r, nodes.len(), |i, k| {
            let Node { weight, source, value, derivatives } = &nodes[k];
            weight * (intensity[*source] * derivatives[lane][i] + 0.5 * d_intensity[*source] * value[i])
        });
        let half = half * v.transpose();
        &half + half.transpose()
    });
    let found =
        Covariances { value: (&value + value.transpose()) * faer::Scale(0.5), derivatives: derivatives.collect() };
    flat(&found.value).iter().all(|x| x.is_finite()).then_some(found)
}

/// The step in coordinates of the basis.
fn step_model(basis: &Basis, backward: &Backward<'_>, noise: &Covariances, n: usize) -> StepModel {
    let r = basis.len();
    let lanes = noise.derivatives.len();
    let transition = |image: &dyn Fn(usize) -> Vec<f64>| -> Vec<f64> {
        let mut images = Mat::<f64>::zeros(n, r);
        for k in 0..r {
            images.col_as_slice_mut(k).copy_from_slice(&image(k)[..n]);
        }
        flat(&(images.transpose() * basis.matrix()))
    };
    let inputs = |image: &dyn Fn(usize) -> Vec<f64>| -> Vec<f64> {
        let images: Vec<Vec<f64>> = (0..r).map(image).collect();
        (n..images[0].len()).flat_map(|at| images.iter().map(move |image| image[at])).collect()
    };
    let value = |k: usize| backward.images[k].value.clone();
    let derivative = |lane: usize| move |k: usize| backward.images[k].derivatives[lane].clone();
    StepModel {
        phi: transition(&value),
        inputs: inputs(&value),
        noise: semidefinite_factor(&noise.value),
        d_phi: (0..lanes).map(|lane| transition(&derivative(lane))).collect(),
        d_inputs: (0..lanes).map(|lane| inputs(&derivative(lane))).collect(),
        d_covariance: noise.derivatives.iter().map(flat).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{ModelLayout, ParametricModel, SignalRows, StartMode, StartRows};
    use crate::error::EstimateError;
    use crate::experiment::Experiment;
    use crate::filter::{FilterOptions, RunOptions, RunSums, run};
    use crate::likelihood::{Derivatives, Likelihood, Scope};

    /// A rod of `n` cells that conducts with `theta_0`, heated at one end by an input with `theta_1` and by noise of
    /// intensity `theta_2`, losing heat at the other; measured near that end, and as a mean weighted by `theta_1`. A flow
    /// carries heat along. States have units of their own.
    struct Rod {
        layout: ModelLayout,
        n: usize,
        flow: f64,
        units: Vec<f64>,
        experiments: Vec<Experiment>,
    }

    impl Rod {
        fn new(n: usize, flow: f64, with_units: bool) -> Self {
            let mut rng = fastrand::Rng::with_seed(9);
            let n_samples = 30;
            let times: Vec<f64> = (0..n_samples).map(|k| 0.5 * k as f64).collect();
            let measurements = (0..2 * n_samples).map(|_| rng.f64() - 0.5).collect();
            let inputs = (0..n_samples).map(|_| rng.f64()).collect();
            let mut experiment = Experiment::with_held_inputs(times, measurements, inputs, 1);
            experiment.segments[3].kick = vec![0.7];
            let unit = |_| if with_units { 10f64.powi(rng.i32(-6..6)) } else { 1.0 };
            Self {
                layout: ModelLayout { n_unknown: 3, filters: Vec::new(), start: StartMode::Given },
                n,
                flow,
                units: (0..n).map(unit).collect(),
                experiments: vec![experiment],
            }
        }

        /// At `theta`, or the derivative by one of them, for all but E is linear in each.
        fn with(&self, theta: [f64; 3], by: Option<usize>) -> Coefficients {
            let n = self.n;
            let value = |at: usize| by.map_or(theta[at], |by| if by == at { 1.0 } else { 0.0 });
            let one = if by.is_none() { 1.0 } else { 0.0 };
            let (k, heat) = (value(0) * (n * n) as f64 / 100.0, value(1) * n as f64 / 10.0);
            let mut f = Mat::<f64>::zeros(n, n);
            for i in 0..n {
                for j in [i.wrapping_sub(1), i + 1].into_iter().filter(|&j| j < n) {
                    let carried = if j < i { self.flow * one } else { 0.0 };
                    f[(i, j)] += k + carried;
                    f[(i, i)] -= k + carried;
                }
            }
            f[(0, 0)] -= heat;
            f[(n - 1, n - 1)] -= one * n as f64 / 10.0;
            let unit = |i: usize| self.units[i];
            let source = |size: f64| Mat::from_fn(n, 1, |i, _| if i == 0 { size / unit(i) } else { 0.0 });
            let measured = |i: usize, j: usize| match (i, j) {
                (0, j) if j + 3 == n => one,
                (1, _) => value(1) / n as f64,
                _ => 0.0,
            };
            let mut insisted = StartRows::zeros(n, n, 1);
            insisted.variables = Mat::from_fn(n, n, |i, j| if i == j { one } else { 0.0 });
            Coefficients {
                e: Mat::from_fn(n, n, |i, j| if i == j { one } else { 0.0 }),
                f: Mat::from_fn(n, n, |i, j| f[(i, j)] * unit(j) / unit(i)),
                g: source(heat),
                j: source(one),
                intensities: vec![value(2)],
                measured: SignalRows {
                    variables: Mat::from_fn(2, n, |i, j| measured(i, j) * unit(j)),
                    inputs: Mat::zeros(2, 1),
                },
                estimated: SignalRows {
                    variables: Mat::from_fn(1, n, |_, j| if j == n / 2 { one * unit(j) } else { 0.0 }),
                    inputs: Mat::zeros(1, 1),
                },
                variances: vec![1e-3 * one; 2],
                insisted,
                wished: StartRows::none(n, 1),
            }
        }
    }

    impl ParametricModel for Rod {
        fn layout(&self) -> &ModelLayout {
            &self.layout
        }

        fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError> {
            Ok(self.with([theta[0], theta[1], theta[2]], None))
        }

        fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
            Ok((0..3).map(|by| self.with([theta[0], theta[1], theta[2]], Some(by))).collect())
        }

        fn experiments(&self) -> &[Experiment] {
            &self.experiments
        }
    }

    fn sums(model: &Rod, theta: &[f64], scope: Scope) -> (RunSums, usize) {
        let filter = FilterOptions::default();
        let likelihood = Likelihood::new(model, theta, filter).expect("it has a likelihood");
        let assembled = likelihood.assemble(theta, Derivatives::All, scope).expect("it is regular");
        let data = likelihood.run_data(0, &assembled, &assembled.starts[0]);
        let options = RunOptions { with_derivatives: true, ..RunOptions::default() };
        (run(&assembled.filter, &data, &filter, options).expect("it runs"), assembled.filter.n)
    }

    #[test]
    fn what_is_seen_has_the_likelihood_of_the_whole() {
        let theta = [0.8, 0.6, 0.04];
        for (flow, with_units) in [(0.0, false), (0.0, true), (60.0, true)] {
            let model = Rod::new(160, flow, with_units);
            let (whole, n_whole) = sums(&model, &theta, Scope::Whole);
            let (seen, n_seen) = sums(&model, &theta, Scope::Measured);
            assert!(2 * n_seen < n_whole, "{n_seen} of {n_whole}");
            let off = (seen.log_likelihood / whole.log_likelihood - 1.0).abs();
            assert!(off < 1e-11, "{n_seen} of {n_whole}: {off:e}");
            for a in 0..3 {
                let size = whole.gradient[a].abs().max(whole.information[(a, a)].sqrt());
                let off = (seen.gradient[a] - whole.gradient[a]).abs() / size;
                assert!(off < 1e-10, "parameter {a}, {n_seen} of {n_whole}: {off:e}");
                for b in 0..3 {
                    let size = (whole.information[(a, a)] * whole.information[(b, b)]).sqrt();
                    let off = (seen.information[(a, b)] - whole.information[(a, b)]).abs() / size;
                    assert!(off < 1e-10, "information {a} {b}, {n_seen} of {n_whole}: {off:e}");
                }
            }
        }
    }

    #[test]
    fn what_is_seen_has_the_estimates_of_the_whole() {
        let theta = [0.8, 0.6, 0.04];
        let model = Rod::new(160, 60.0, true);
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect("it has a likelihood");
        let estimates = |scope: Scope| likelihood.estimate_in(&theta, scope).expect("it has estimates").swap_remove(0);
        let (whole, seen) = (estimates(Scope::Whole), estimates(Scope::Estimated));
        assert!(likelihood.assemble(&theta, Derivatives::None, Scope::Estimated).expect("it is regular").filter.n < 80);
        let parts = |of: &crate::SignalEstimates| {
            [&of.filtered, &of.filtered_std, &of.smoothed, &of.smoothed_std].map(|list| list[0].clone())
        };
        for (whole, seen) in parts(&whole).iter().zip(&parts(&seen)) {
            let size = whole.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            let off = whole.iter().zip(seen).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(size > 0.0 && off < 1e-10 * size, "{off:e} of {size:e}");
        }
    }

    /// A damped oscillator: the exponential is known, and so is its derivative by the frequency.
    #[test]
    fn rational_steps_follow_exponentials() {
        let (damping, frequency) = (0.3f64, 0.9f64);
        let entries = |a: f64, w: f64| vec![(0, 0, a), (0, 1, w), (1, 0, -w), (1, 1, a)];
        let jet = SparseJet {
            value: Sparse::new(2, entries(-damping, frequency)),
            derivatives: vec![Sparse::new(2, entries(0.0, 1.0))],
        };
        let mut rational = RationalStep::new(&jet, 0.5).expect("it is regular");
        let mut x = Column { value: vec![1.0, 0.0], derivatives: vec![vec![0.0, 0.0]] };
        for _ in 0..4 {
            rational.advance(&mut x).expect("it is regular");
        }
        let (size, angle) = ((-damping * 2.0).exp(), frequency * 2.0);
        let expected = [size * angle.cos(), -size * angle.sin()];
        let slopes = [-2.0 * size * angle.sin(), -2.0 * size * angle.cos()];
        for i in 0..2 {
            assert!((x.value[i] - expected[i]).abs() < 4e-15);
            assert!((x.derivatives[0][i] - slopes[i]).abs() < 4e-15);
        }
    }

    #[test]
    fn gauss_formula_integrates_polynomials() {
        let (gaps, weights) = gauss();
        let mut x = 0.0;
        let mut sum = 0.0;
        for (gap, weight) in gaps.iter().zip(&weights) {
            x += gap;
            sum += weight * x.powi(23);
        }
        assert!((sum - 1.0 / 24.0).abs() < 1e-16);
        assert!((gaps.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }
}
