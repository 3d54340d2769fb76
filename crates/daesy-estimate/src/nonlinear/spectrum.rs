//! Eigenvalues and eigenvectors of symmetric matrices of the sizes that filters have, again and again without new
//! memory.
//!
//! Up to [`SMALL`] rows Jacobi's rotations [@golub2013, sec. 8.5],
//!
//! ```text
//! A := J' A J,  V := V J,   J = [ c s; -s c ] in rows and columns i < j,  t = s/c the smaller root of t^2 + 2 tau t = 1,
//!                           tau = (a_jj - a_ii) / (2 a_ij)
//! ```
//!
//! sweep by sweep until nothing beside the diagonal counts, which takes three to five of them; larger ones as `faer`
//! does it. Both are accurate to rounding relative to the largest eigenvalue.

use faer::Mat;
use faer::linalg::solvers::SelfAdjointEigen;

/// Matrices with so many rows at most are rotated.
const SMALL: usize = 8;

/// More sweeps are never needed for numbers that are finite.
const MAX_SWEEPS: usize = 30;

/// A symmetric matrix in its eigenvectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spectrum {
    n: usize,
    /// By position, not in order.
    values: Vec<f64>,
    /// `[eigenvalue * n + row]`
    vectors: Vec<f64>,
    rotated: Vec<f64>,
}

impl Spectrum {
    /// Takes a matrix apart, of which the lower triangle is read; `false` if that is not possible, since not all of it
    /// is finite.
    pub(crate) fn decompose(&mut self, n: usize, entry: impl Fn(usize, usize) -> f64) -> bool {
        self.n = n;
        self.values.clear();
        self.vectors.clear();
        if n > SMALL {
            let matrix = Mat::from_fn(n, n, |i, j| if i >= j { entry(i, j) } else { 0.0 });
            let Ok(eigen) = SelfAdjointEigen::new(matrix.as_ref(), faer::Side::Lower) else { return false };
            self.values.extend(eigen.S().column_vector().iter());
            self.vectors.extend((0..n * n).map(|at| eigen.U()[(at % n, at / n)]));
            return self.values.iter().all(|value| value.is_finite());
        }
        self.rotated.clear();
        self.rotated.extend((0..n * n).map(|at| entry((at / n).max(at % n), (at / n).min(at % n))));
        self.vectors.extend((0..n * n).map(|at| if at / n == at % n { 1.0 } else { 0.0 }));
        let is_done = rotate(&mut self.rotated, &mut self.vectors, n);
        self.values.extend((0..n).map(|at| self.rotated[at * (n + 1)]));
        is_done
    }

    /// Eigenvalues.
    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The eigenvector of an eigenvalue.
    pub(crate) fn vector(&self, at: usize) -> &[f64] {
        &self.vectors[at * self.n..(at + 1) * self.n]
    }

    /// An entry of `V diag(weights) V'`.
    pub(crate) fn entry(&self, weights: &[f64], i: usize, j: usize) -> f64 {
        let term = |(at, weight): (usize, &f64)| {
            let vector = self.vector(at);
            weight * vector[i] * vector[j]
        };
        weights.iter().enumerate().map(term).sum()
    }
}

/// Rotates a symmetric matrix to its diagonal, and the rows of `vectors` with it; `false` if it is not finite.
fn rotate(a: &mut [f64], vectors: &mut [f64], n: usize) -> bool {
    for _ in 0..MAX_SWEEPS {
        let (mut beside, mut all) = (0.0, 0.0);
        for i in 0..n {
            all += a[i * (n + 1)] * a[i * (n + 1)];
            beside += (0..i).map(|j| a[i * n + j] * a[i * n + j]).sum::<f64>();
        }
        if !(all + beside).is_finite() {
            return false;
        }
        // What is left moves eigenvalues by its square.
        if beside <= f64::EPSILON * f64::EPSILON * all {
            return true;
        }
        for j in 1..n {
            for i in 0..j {
                let off = a[i * n + j];
                if off == 0.0 {
                    continue;
                }
                let tau = (a[j * (n + 1)] - a[i * (n + 1)]) / (2.0 * off);
                let t = tau.signum() / (tau.abs() + (1.0 + tau * tau).sqrt());
                let c = 1.0 / (1.0 + t * t).sqrt();
                let s = t * c;
                a[i * (n + 1)] -= t * off;
                a[j * (n + 1)] += t * off;
                a[i * n + j] = 0.0;
                a[j * n + i] = 0.0;
                for k in (0..n).filter(|&k| k != i && k != j) {
                    let (one, other) = (a[k * n + i], a[k * n + j]);
                    let (one, other) = (c * one - s * other, s * one + c * other);
                    a[k * n + i] = one;
                    a[i * n + k] = one;
                    a[k * n + j] = other;
                    a[j * n + k] = other;
                }
                for k in 0..n {
                    let (one, other) = (vectors[i * n + k], vectors[j * n + k]);
                    vectors[i * n + k] = c * one - s * other;
                    vectors[j * n + k] = s * one + c * other;
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes on both sides of [`SMALL`]; ranks from none to all, and eigenvalues that are equal.
    #[test]
    fn vectors_are_orthonormal_and_give_the_matrix_back() {
        let mut spectrum = Spectrum::default();
        for n in 1..=SMALL + 2 {
            for rank in 0..=n {
                let factor = Mat::from_fn(n, rank, |i, k| ((1 + 7 * i + 3 * k) as f64 * 1.7).sin());
                let matrix = &factor * factor.transpose() + Mat::<f64>::identity(n, n) * faer::Scale((rank % 2) as f64);
                assert!(spectrum.decompose(n, |i, j| matrix[(i, j)]));
                let size = matrix.norm_max().max(1.0);
                let values = spectrum.values().to_vec();
                for i in 0..n {
                    for j in 0..n {
                        assert!((spectrum.entry(&values, i, j) - matrix[(i, j)]).abs() < 1e-13 * size, "{n} {rank}");
                        let product: f64 = spectrum.vector(i).iter().zip(spectrum.vector(j)).map(|(a, b)| a * b).sum();
                        assert!((product - if i == j { 1.0 } else { 0.0 }).abs() < 1e-13, "{n} {rank}");
                    }
                }
                // The sorted eigenvalues of another method.
                let mut sorted = values;
                sorted.sort_by(f64::total_cmp);
                let other = SelfAdjointEigen::new(matrix.as_ref(), faer::Side::Lower).unwrap();
                for (value, other) in sorted.iter().zip(other.S().column_vector().iter()) {
                    assert!((value - other).abs() < 1e-13 * size, "{n} {rank}: {value} {other}");
                }
            }
        }
        assert!(!spectrum.decompose(2, |_, _| f64::NAN));
        assert!(!spectrum.decompose(SMALL + 1, |_, _| f64::NAN));
    }
}
