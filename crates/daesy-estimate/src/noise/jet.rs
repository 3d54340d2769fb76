//! Small matrices with their derivatives along a few directions.

use faer::Mat;

/// A matrix and its derivatives.
#[derive(Clone, PartialEq, Debug)]
pub struct JetMatrix {
    /// The matrix.
    pub value: Mat<f64>,
    /// Its derivatives, one for each direction.
    pub derivatives: Vec<Mat<f64>>,
}

impl JetMatrix {
    /// A matrix that does not change.
    #[must_use]
    pub fn constant(value: Mat<f64>, n_directions: usize) -> Self {
        let zero = Mat::zeros(value.nrows(), value.ncols());
        Self { derivatives: vec![zero; n_directions], value }
    }

    /// Applies a linear map to the matrix and its derivatives.
    #[must_use]
    pub fn map(&self, of: impl Fn(&Mat<f64>) -> Mat<f64>) -> Self {
        Self { value: of(&self.value), derivatives: self.derivatives.iter().map(&of).collect() }
    }

    /// `self * other`
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let derivatives = self
            .derivatives
            .iter()
            .zip(&other.derivatives)
            .map(|(left, right)| left * &other.value + &self.value * right)
            .collect();
        Self { value: &self.value * &other.value, derivatives }
    }

    /// `self + factor * other`
    #[must_use]
    pub fn plus(&self, factor: f64, other: &Self) -> Self {
        let add =
            |a: &Mat<f64>, b: &Mat<f64>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] + factor * b[(i, j)]);
        let pairs = self.derivatives.iter().zip(&other.derivatives);
        Self { value: add(&self.value, &other.value), derivatives: pairs.map(|(a, b)| add(a, b)).collect() }
    }

    /// The transpose.
    #[must_use]
    pub fn transpose(&self) -> Self {
        self.map(|matrix| matrix.transpose().to_owned())
    }

    /// The lower triangular L with L L' = self, and its derivatives: dL = L low(L^-1 dS L^-T), `low` the lower triangle
    /// with half the diagonal [@giles2008, sec. 2.2]. `None` if the matrix is not positive definite.
    #[must_use]
    pub fn cholesky(&self) -> Option<Self> {
        let n = self.value.nrows();
        let scale: Vec<f64> = (0..n).map(|i| self.value[(i, i)].sqrt()).collect();
        if scale.iter().any(|scale| !(*scale > 0.0 && scale.is_finite())) {
            return None;
        }
        let scaled = |m: &Mat<f64>| Mat::from_fn(n, n, |i, j| 0.5 * (m[(i, j)] + m[(j, i)]) / (scale[i] * scale[j]));
        let lower = plain_cholesky(&scaled(&self.value))?;
        let derivatives = self
            .derivatives
            .iter()
            .map(|derivative| {
                let left = forward(&lower, &scaled(derivative));
                let inner = forward(&lower, &left.transpose().to_owned());
                let low = Mat::from_fn(n, n, |i, j| match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.0,
                    std::cmp::Ordering::Equal => 0.5 * inner[(i, j)],
                    std::cmp::Ordering::Greater => inner[(i, j)],
                });
                unscale(&(&lower * low), &scale)
            })
            .collect();
        Some(Self { value: unscale(&lower, &scale), derivatives })
    }

    /// `self * other^-1` for a symmetric, positive definite `other`.
    #[must_use]
    pub fn over(&self, other: &Self) -> Option<Self> {
        let factor = Self::constant(other.value.clone(), 0).cholesky()?.value;
        let divide = |m: &Mat<f64>| {
            let half = forward(&factor, &m.transpose().to_owned());
            backward(&factor, &half).transpose().to_owned()
        };
        let value = divide(&self.value);
        let derivatives = self
            .derivatives
            .iter()
            .zip(&other.derivatives)
            .map(|(own, others)| divide(&(own - &value * others)))
            .collect();
        Some(Self { value, derivatives })
    }
}

fn unscale(lower: &Mat<f64>, scale: &[f64]) -> Mat<f64> {
    Mat::from_fn(lower.nrows(), lower.ncols(), |i, j| lower[(i, j)] * scale[i])
}

fn plain_cholesky(matrix: &Mat<f64>) -> Option<Mat<f64>> {
    let n = matrix.nrows();
    let mut lower = Mat::zeros(n, n);
    for j in 0..n {
        let mut pivot = matrix[(j, j)];
        for k in 0..j {
            pivot -= lower[(j, k)] * lower[(j, k)];
        }
        if pivot <= 0.0 || !pivot.is_finite() {
            return None;
        }
        lower[(j, j)] = pivot.sqrt();
        for i in j + 1..n {
            let mut sum = matrix[(i, j)];
            for k in 0..j {
                sum -= lower[(i, k)] * lower[(j, k)];
            }
            lower[(i, j)] = sum / lower[(j, j)];
        }
    }
    Some(lower)
}

/// `lower^-1 * rhs`
fn forward(lower: &Mat<f64>, rhs: &Mat<f64>) -> Mat<f64> {
    let mut x = rhs.clone();
    for column in 0..rhs.ncols() {
        for i in 0..lower.nrows() {
            for k in 0..i {
                let part = lower[(i, k)] * x[(k, column)];
                x[(i, column)] -= part;
            }
            x[(i, column)] /= lower[(i, i)];
        }
    }
    x
}

/// `lower^-T * rhs`
fn backward(lower: &Mat<f64>, rhs: &Mat<f64>) -> Mat<f64> {
    let mut x = rhs.clone();
    for column in 0..rhs.ncols() {
        for i in (0..lower.nrows()).rev() {
            for k in i + 1..lower.nrows() {
                let part = lower[(k, i)] * x[(k, column)];
                x[(i, column)] -= part;
            }
            x[(i, column)] /= lower[(i, i)];
        }
    }
    x
}
