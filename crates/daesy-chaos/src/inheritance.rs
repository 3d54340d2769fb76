//! Whether the expanded model inherits the index: the sufficient conditions of [@pulch2008, theorems 1 to 4] on the
//! matrices of a linear model A x' + B x = s, with the direction that violates one.
//!
//! With M = B^-1 A_0 and index k, where A_0, B_0 are means and A_j, B_j what parameters change:
//!
//! ```text
//! (24)  kern(M^k) in kern(A_j)             theorem 2: the index stays for small changes of A
//! (28)  kern((M^T)^k) in kern((B^-1 A_j)^T)  theorem 3: with (24), the start values (x_0, 0, .. 0) are consistent
//! (33)  kern(M^(k-1)) in kern(B_j)         theorem 4: the index stays for small changes of B
//! ```
//!
//! The kernels are found without powers and inverses: kern(M^(i+1)) = { x : A_0 x in B kern(M^i) }. For (28) the same
//! is done with the transposes, since kern((M^T)^k) = B^T kern((B^-T A_0^T)^k).

use daesy_pencil::{Mat, PencilOptions, kronecker_structure};

use crate::RandomParameter;
use daesy_structure::linearize::{LinearMatrices, LinearModel};
use daesy_structure::words::{Term, combination_text};

/// One sufficient condition.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    /// Number of the theorem.
    pub theorem: u8,
    /// Whether it holds.
    pub holds: bool,
    /// What violates it, or why the theorem does not apply.
    pub witness: Option<String>,
}

/// The changes of a matrix that parameters make.
struct Change {
    parameter: String,
    matrices: LinearMatrices,
}

/// The model and its matrices at values of the random parameters; `None` if it is not linear there.
pub type AtValues<'a> = dyn Fn(&[f64]) -> Option<(LinearModel, LinearMatrices)> + 'a;

/// Ranks are decided at this share of the largest singular value.
const RANK: f64 = 1e-11;

/// A product below this share of its factors is zero.
const ZERO: f64 = 1e-9;

/// A mean below this share of what it is a mean of is rounding of a zero.
const ROUNDING: f64 = 1e-12;

/// Values at which changes are looked at, with what changes: one parameter at a time, then all together.
fn points(parameters: &[RandomParameter], means: &[f64]) -> Vec<(String, Vec<f64>)> {
    let mut points: Vec<(String, Vec<f64>)> = Vec::new();
    for (at, parameter) in parameters.iter().enumerate() {
        for probability in [0.1, 0.35, 0.8] {
            let mut values = means.to_vec();
            values[at] = parameter.distribution.parameter(parameter.distribution.germ_quantile(probability));
            points.push((parameter.name.clone(), values));
        }
    }
    if parameters.len() > 1 {
        for shift in [0.15, 0.45, 0.75] {
            let values = parameters
                .iter()
                .enumerate()
                .map(|(at, parameter)| {
                    let probability = (shift + 0.382 * at as f64).fract().clamp(0.05, 0.95);
                    parameter.distribution.parameter(parameter.distribution.germ_quantile(probability))
                })
                .collect();
            points.push(("all parameters together".to_owned(), values));
        }
    }
    points
}

/// The conditions for a model that is linear with constant coefficients at all values of its parameters; `None` for
/// others.
#[must_use]
pub fn conditions(parameters: &[RandomParameter], means: &[f64], at: &AtValues<'_>) -> Option<Vec<Condition>> {
    let (model, _) = at(means)?;
    let n = model.n_variables();
    if model.equations.len() != n || n == 0 {
        return None;
    }
    let mut changes: Vec<Change> = Vec::new();
    for (parameter, values) in points(parameters, means) {
        let (_, matrices) = at(&values)?;
        changes.push(Change { parameter, matrices });
    }
    let mean = mean_matrices(at, parameters, means)?;
    let scaled = Scaled::new(&mean.e, &mean.f);
    let difference = |matrix: &Mat<f64>, mean: &Mat<f64>| {
        let change = matrix - mean;
        // Rounding of the means is no change.
        let size = largest(mean).max(largest(matrix));
        (largest(&change) > 1e-12 * size).then_some(change)
    };
    let in_a: Vec<(&str, Mat<f64>)> = changes
        .iter()
        .filter_map(|change| Some((change.parameter.as_str(), difference(&change.matrices.e, &mean.e)?)))
        .collect();
    let in_b: Vec<(&str, Mat<f64>)> = changes
        .iter()
        .filter_map(|change| Some((change.parameter.as_str(), difference(&change.matrices.f, &mean.f)?)))
        .collect();
    let in_s = changes.iter().any(|change| {
        let size = mean.forcing.iter().chain(&change.matrices.forcing).fold(0.0f64, |most, s| most.max(s.abs()));
        let differs = change.matrices.forcing.iter().zip(&mean.forcing).any(|(a, b)| (a - b).abs() > 1e-12 * size);
        differs || difference(&change.matrices.g, &mean.g).is_some()
    });
    let pencil = mean.pencil().ok()?;
    let structure = kronecker_structure(&pencil, &PencilOptions::default()).ok()?;
    if !structure.is_regular {
        return None;
    }
    let index = structure.index;
    let mut found = Vec::new();
    if in_a.is_empty() && in_b.is_empty() {
        found.push(Condition { theorem: 1, holds: true, witness: None });
        return Some(found);
    }
    let is_singular = smallest_share(&scaled.b) <= 1e-13;
    let variable = |at: usize| model.variables[at].name.clone();
    let equation = |at: usize| format!("[{}]", model.equations[at].text);
    if !in_a.is_empty() {
        let kernel = scaled.kernel(index);
        let violated = violation(&scaled, &kernel, &in_a, false);
        let mut second = judged(2, violated, &kernel, &scaled.columns, "kern((B^-1 A_0)^k)", &variable);
        if is_singular && index > 1 {
            second = does_not_apply(2, "B is singular and the index is above 1");
        } else if !in_b.is_empty() {
            second = does_not_apply(2, &both(&second));
        }
        let transposed = scaled.transposed();
        let left = transposed.kernel(index);
        let violated = violation(&transposed, &left, &in_a, true);
        let mut third = judged(3, violated, &left, &transposed.columns, "kern((B^-T A_0^T)^k)", &equation);
        if !second.holds {
            third = Condition { theorem: 3, holds: false, witness: second.witness.clone() };
        } else if in_s {
            third = does_not_apply(3, "the right-hand side is random too");
        } else if is_singular {
            third = does_not_apply(3, "B is singular");
        }
        found.push(second);
        found.push(third);
    }
    if !in_b.is_empty() {
        let kernel = scaled.kernel(index.saturating_sub(1));
        let violated = violation(&scaled, &kernel, &in_b, false);
        let mut fourth = judged(4, violated, &kernel, &scaled.columns, "kern((B_0^-1 A)^(k-1))", &variable);
        if is_singular {
            fourth = does_not_apply(4, "the mean of B is singular");
        } else if !in_a.is_empty() {
            fourth = does_not_apply(4, &both(&fourth));
        }
        found.push(fourth);
    }
    Some(found)
}

fn both(condition: &Condition) -> String {
    match &condition.witness {
        Some(witness) => format!("both matrices are random, and {witness}"),
        None => "both matrices are random, though its condition holds".to_owned(),
    }
}

fn does_not_apply(theorem: u8, why: &str) -> Condition {
    Condition { theorem, holds: false, witness: Some(format!("the theorem does not apply: {why}")) }
}

/// Means of the matrices by Gauss quadrature, one parameter at a time: mean + sum of (mean over one - mean), which is
/// exact for sums of functions of single parameters, the form that the theorems speak of; for others a quasi-random
/// mean.
fn mean_matrices(at: &AtValues<'_>, parameters: &[RandomParameter], means: &[f64]) -> Option<LinearMatrices> {
    let (_, center) = at(means)?;
    let mut mean = center.clone();
    let mut floors = [&center.e, &center.f, &center.g].map(|matrix| Mat::<f64>::zeros(matrix.nrows(), matrix.ncols()));
    for (index, parameter) in parameters.iter().enumerate() {
        let n = parameter.distribution.max_degree().map_or(7, |most| (most + 1).min(7));
        let rule = parameter.distribution.recurrence(n).ok()?.gauss(n);
        let mut ends = Ends::default();
        for (&germ, &weight) in rule.points.iter().zip(&rule.weights) {
            let mut values = means.to_vec();
            values[index] = parameter.distribution.parameter(germ);
            let (_, there) = at(&values)?;
            add_change(&mut mean.e, weight, &there.e, &center.e);
            add_change(&mut mean.f, weight, &there.f, &center.f);
            add_change(&mut mean.g, weight, &there.g, &center.g);
            for (sum, (there, center)) in mean.forcing.iter_mut().zip(there.forcing.iter().zip(&center.forcing)) {
                *sum += weight * (there - center);
            }
            ends.meet(values[index], there);
        }
        ends.raise(&mut floors);
    }
    for (mean, floor) in [&mut mean.e, &mut mean.f, &mut mean.g].into_iter().zip(&floors) {
        remove_rounding(mean, floor);
    }
    Some(mean)
}

fn add_change(sum: &mut Mat<f64>, weight: f64, there: &Mat<f64>, center: &Mat<f64>) {
    for column in 0..sum.ncols() {
        for row in 0..sum.nrows() {
            sum[(row, column)] += weight * (there[(row, column)] - center[(row, column)]);
        }
    }
}

/// The matrices at the least and the greatest of some values of a parameter.
#[derive(Default)]
struct Ends {
    low: Option<(f64, LinearMatrices)>,
    high: Option<(f64, LinearMatrices)>,
}

impl Ends {
    fn meet(&mut self, value: f64, matrices: LinearMatrices) {
        if self.low.as_ref().is_none_or(|(low, _)| value < *low) {
            self.low = Some((value, matrices.clone()));
        }
        if self.high.as_ref().is_none_or(|(high, _)| value > *high) {
            self.high = Some((value, matrices));
        }
    }

    /// What is rounding in a mean: a share of the largest value, and what an error of the parameter itself in its last
    /// digits makes of it, `|p| |dM / dp|`, which is more where p varies little: p - 1 with p around 1.
    fn raise(&self, floors: &mut [Mat<f64>; 3]) {
        let (Some((low, at_low)), Some((high, at_high))) = (&self.low, &self.high) else { return };
        let reach = if high > low { low.abs().max(high.abs()) / (high - low) } else { 0.0 };
        let pairs = [(&at_low.e, &at_high.e), (&at_low.f, &at_high.f), (&at_low.g, &at_high.g)];
        for (floor, (low, high)) in floors.iter_mut().zip(pairs) {
            for column in 0..floor.ncols() {
                for row in 0..floor.nrows() {
                    let (low, high) = (low[(row, column)], high[(row, column)]);
                    let rounding =
                        ROUNDING * low.abs().max(high.abs()) + 16.0 * f64::EPSILON * reach * (high - low).abs();
                    floor[(row, column)] = floor[(row, column)].max(rounding);
                }
            }
        }
    }
}

/// Means that are zero up to the rounding of what they are means of become zero: p - 1 with p around 1 has no mean.
fn remove_rounding(mean: &mut Mat<f64>, floor: &Mat<f64>) {
    for column in 0..mean.ncols() {
        for row in 0..mean.nrows() {
            if mean[(row, column)].abs() <= floor[(row, column)] {
                mean[(row, column)] = 0.0;
            }
        }
    }
}

/// A_0 and B_0 with rows and columns scaled to similar size.
struct Scaled {
    a: Mat<f64>,
    b: Mat<f64>,
    rows: Vec<f64>,
    columns: Vec<f64>,
}

impl Scaled {
    /// From E and F of E x' = F x.
    fn new(e: &Mat<f64>, f: &Mat<f64>) -> Self {
        let n = e.nrows();
        let (size_a, size_b) = (largest(e).max(f64::MIN_POSITIVE), largest(f).max(f64::MIN_POSITIVE));
        let (mut rows, mut columns) = (vec![1.0; n], vec![1.0; n]);
        for _ in 0..6 {
            let entry = |row: usize, column: usize, rows: &[f64], columns: &[f64]| {
                let value = (e[(row, column)].abs() / size_a).max(f[(row, column)].abs() / size_b);
                value * rows[row] * columns[column]
            };
            for row in 0..n {
                let most = (0..n).map(|column| entry(row, column, &rows, &columns)).fold(0.0, f64::max);
                if most > 0.0 {
                    rows[row] /= most.sqrt();
                }
            }
            for column in 0..n {
                let most = (0..n).map(|row| entry(row, column, &rows, &columns)).fold(0.0, f64::max);
                if most > 0.0 {
                    columns[column] /= most.sqrt();
                }
            }
        }
        let scale = |matrix: &Mat<f64>, size: f64| {
            Mat::from_fn(n, n, |row, column| matrix[(row, column)] / size * rows[row] * columns[column])
        };
        Self { a: scale(e, size_a), b: scale(f, size_b), rows, columns }
    }

    fn transposed(&self) -> Self {
        Self {
            a: self.a.transpose().to_owned(),
            b: self.b.transpose().to_owned(),
            rows: self.columns.clone(),
            columns: self.rows.clone(),
        }
    }

    /// An orthonormal basis of kern((B^-1 A)^power).
    fn kernel(&self, power: usize) -> Mat<f64> {
        let n = self.a.nrows();
        let mut kernel = Mat::zeros(n, 0);
        for _ in 0..power {
            let image = &self.b * &kernel;
            let span = range(&image);
            // What is left of A x beside B kern(M^i).
            let along = span.transpose() * &self.a;
            let rest = &self.a - &span * along;
            kernel = null_space(&rest, largest_singular(&self.a));
        }
        kernel
    }

    /// A change with the same scaling.
    fn scale(&self, change: &Mat<f64>, is_transposed: bool) -> Mat<f64> {
        let n = change.nrows();
        Mat::from_fn(n, n, |row, column| {
            let value = if is_transposed { change[(column, row)] } else { change[(row, column)] };
            value * self.rows[row] * self.columns[column]
        })
    }
}

/// The worst direction of a kernel that a change does not map to zero.
struct Violation {
    parameter: String,
    direction: Vec<f64>,
}

fn violation(
    scaled: &Scaled,
    kernel: &Mat<f64>,
    changes: &[(&str, Mat<f64>)],
    is_transposed: bool,
) -> Option<Violation> {
    if kernel.ncols() == 0 {
        return None;
    }
    let mut worst: Option<(f64, Violation)> = None;
    for (parameter, change) in changes {
        let change = scaled.scale(change, is_transposed);
        let product = &change * kernel;
        let share = largest(&product) / largest(&change).max(f64::MIN_POSITIVE);
        if share > ZERO && worst.as_ref().is_none_or(|(most, _)| share > 1.01 * most) {
            let Ok(svd) = product.svd() else { continue };
            let v = svd.V();
            let direction = (0..kernel.nrows())
                .map(|row| (0..kernel.ncols()).map(|at| kernel[(row, at)] * v[(at, 0)]).sum::<f64>())
                .collect();
            worst = Some((share, Violation { parameter: (*parameter).to_owned(), direction }));
        }
    }
    worst.map(|(_, violation)| violation)
}

fn judged(
    theorem: u8,
    violation: Option<Violation>,
    kernel: &Mat<f64>,
    columns: &[f64],
    space: &str,
    name: &dyn Fn(usize) -> String,
) -> Condition {
    let Some(Violation { parameter, direction }) = violation else {
        return Condition { theorem, holds: true, witness: None };
    };
    let direction: Vec<f64> = direction.iter().zip(columns).map(|(value, scale)| value * scale).collect();
    let most = direction.iter().fold(0.0f64, |most, value| if value.abs() > most.abs() { *value } else { most });
    let terms: Vec<Term> = direction
        .iter()
        .enumerate()
        .filter(|(_, value)| value.abs() > 1e-7 * most.abs())
        .map(|(at, value)| Term { factor: value / most, name: name(at) })
        .collect();
    let witness = format!(
        "`{parameter}` acts on the direction {} of {space}, which has dimension {}",
        combination_text(&terms),
        kernel.ncols()
    );
    Condition { theorem, holds: false, witness: Some(witness) }
}

fn largest(matrix: &Mat<f64>) -> f64 {
    let mut most = 0.0f64;
    for column in 0..matrix.ncols() {
        for row in 0..matrix.nrows() {
            most = most.max(matrix[(row, column)].abs());
        }
    }
    most
}

fn singular_values(matrix: &Mat<f64>) -> Vec<f64> {
    matrix.singular_values().unwrap_or_default()
}

fn largest_singular(matrix: &Mat<f64>) -> f64 {
    singular_values(matrix).first().copied().unwrap_or(0.0)
}

fn smallest_share(matrix: &Mat<f64>) -> f64 {
    let values = singular_values(matrix);
    match (values.first(), values.last()) {
        (Some(&first), Some(&last)) if first > 0.0 => last / first,
        _ => 0.0,
    }
}

/// Orthonormal basis of the columns' span.
fn range(matrix: &Mat<f64>) -> Mat<f64> {
    let n = matrix.nrows();
    if matrix.ncols() == 0 {
        return Mat::zeros(n, 0);
    }
    let Ok(svd) = matrix.svd() else { return Mat::zeros(n, 0) };
    let values = svd.S().column_vector();
    let most = if values.nrows() > 0 { values[0] } else { 0.0 };
    let rank = (0..values.nrows()).filter(|&at| values[at] > RANK * most).count();
    Mat::from_fn(n, rank, |row, column| svd.U()[(row, column)])
}

/// Orthonormal basis of the null space, singular values below a share of `size` being zero.
fn null_space(matrix: &Mat<f64>, size: f64) -> Mat<f64> {
    let n = matrix.ncols();
    let Ok(svd) = matrix.svd() else { return Mat::zeros(n, 0) };
    let values = svd.S().column_vector();
    let rank = (0..values.nrows()).filter(|&at| values[at] > RANK * size).count();
    Mat::from_fn(n, n - rank, |row, column| svd.V()[(row, rank + column)])
}
