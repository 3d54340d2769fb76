//! Coefficients of a linear time-varying system with their derivatives at one time.

use crate::dense::{check_finite, check_shape, check_vector};
use crate::error::PencilError;
use faer::Mat;

/// `E, F, G` and the known forcing `f` of `E z' = F z + G u + f` with their derivatives at one time: entry `k` of each
/// list is the `k`-th derivative. Lists may be shorter than asked for; the missing derivatives are zero.
#[derive(Debug, Clone, Default)]
pub struct CoefficientJet {
    /// Derivatives of `E`; at least one entry.
    pub e: Vec<Mat<f64>>,
    /// Derivatives of `F`; at least one entry.
    pub f: Vec<Mat<f64>>,
    /// Derivatives of `G`; empty if there are no inputs.
    pub input: Vec<Mat<f64>>,
    /// Derivatives of the known forcing; empty if there is none.
    pub forcing: Vec<Vec<f64>>,
}

/// Anything that gives the coefficients of a linear system and their derivatives.
pub trait LinearCoefficients {
    /// The coefficients at `time` with derivatives up to `order`.
    fn jet(&self, time: f64, order: usize) -> Result<CoefficientJet, PencilError>;
}

impl<T> LinearCoefficients for T
where
    T: Fn(f64, usize) -> Result<CoefficientJet, PencilError>,
{
    fn jet(&self, time: f64, order: usize) -> Result<CoefficientJet, PencilError> {
        self(time, order)
    }
}

impl LinearCoefficients for CoefficientJet {
    /// The jet itself, whatever the time: constant coefficients need one entry per list.
    fn jet(&self, _time: f64, _order: usize) -> Result<CoefficientJet, PencilError> {
        Ok(self.clone())
    }
}

impl CoefficientJet {
    /// Constant coefficients without inputs and forcing.
    pub fn constant(e: Mat<f64>, f: Mat<f64>) -> Self {
        Self { e: vec![e], f: vec![f], ..Self::default() }
    }

    /// With a constant input matrix.
    pub fn with_input(mut self, g: Mat<f64>) -> Self {
        self.input = vec![g];
        self
    }

    /// With forcing `f, f', ..`.
    pub fn with_forcing(mut self, derivatives: Vec<Vec<f64>>) -> Self {
        self.forcing = derivatives;
        self
    }

    pub(crate) fn n_equations(&self) -> usize {
        self.e.first().map_or(0, |e| e.nrows())
    }

    pub(crate) fn n_variables(&self) -> usize {
        self.e.first().map_or(0, |e| e.ncols())
    }

    pub(crate) fn n_inputs(&self) -> usize {
        self.input.first().map_or(0, |g| g.ncols())
    }

    /// Fails unless all matrices fit and are finite.
    pub(crate) fn check(&self) -> Result<(), PencilError> {
        let (m, n, k) = (self.n_equations(), self.n_variables(), self.n_inputs());
        for (name, list, cols) in [("E", &self.e, n), ("F", &self.f, n), ("G", &self.input, k)] {
            for a in list {
                check_shape(name, a, m, cols, "all derivatives of all coefficients have one row per equation")?;
                check_finite(name, a)?;
            }
        }
        if self.e.is_empty() || self.f.is_empty() {
            return Err(PencilError::WrongShape {
                matrix: if self.e.is_empty() { "E" } else { "F" },
                rows: 0,
                cols: 0,
                expected: "at least the value".into(),
                reason: "a jet holds the value and its derivatives",
            });
        }
        for v in &self.forcing {
            check_vector("f", v, m, "one value per equation")?;
        }
        Ok(())
    }
}

/// Derivative `k` from a list, zero beyond its end.
pub(crate) fn derivative(list: &[Mat<f64>], k: usize, rows: usize, cols: usize) -> Mat<f64> {
    list.get(k).cloned().unwrap_or_else(|| Mat::zeros(rows, cols))
}
