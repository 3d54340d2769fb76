//! The pencil `s E - F` and the descriptor system built on it.
//!
//! Sign convention of the whole crate: `E z' = F z + G u + J w`, `y = H z`; the pencil is `s E - F`.

use crate::dense::{check_finite, check_shape};
use crate::error::PencilError;
use faer::Mat;

/// The matrix pencil `s E - F` of `E z' = F z`; any shape.
#[derive(Debug, Clone)]
pub struct Pencil {
    e: Mat<f64>,
    f: Mat<f64>,
}

impl Pencil {
    /// Takes `E` and `F`, both `equations x variables`, and checks that they fit and are finite.
    pub fn new(e: Mat<f64>, f: Mat<f64>) -> Result<Self, PencilError> {
        check_shape("F", &f, e.nrows(), e.ncols(), "E and F multiply the same variables")?;
        check_finite("E", &e)?;
        check_finite("F", &f)?;
        Ok(Self { e, f })
    }

    /// The coefficient of the derivatives.
    pub fn e(&self) -> &Mat<f64> {
        &self.e
    }

    /// The coefficient of the variables.
    pub fn f(&self) -> &Mat<f64> {
        &self.f
    }

    /// Number of equations (rows).
    pub fn n_equations(&self) -> usize {
        self.e.nrows()
    }

    /// Number of variables (columns).
    pub fn n_variables(&self) -> usize {
        self.e.ncols()
    }

    /// Fails unless there are as many equations as variables.
    pub(crate) fn require_square(&self) -> Result<(), PencilError> {
        if self.n_equations() == self.n_variables() {
            return Ok(());
        }
        Err(PencilError::WrongShape {
            matrix: "E",
            rows: self.n_equations(),
            cols: self.n_variables(),
            expected: "a square matrix".into(),
            reason: "a unique solution needs as many equations as variables",
        })
    }
}

/// `E z' = F z + G u + J w`, `y = H z`, and `M z`, the signals to estimate.   [@gerdin2007, eq. (2), (4), (15)]
///
/// Absent matrices have zero columns (`G`, `J`) or zero rows (`H`, `M`).
#[derive(Debug, Clone)]
pub struct DescriptorSystem {
    /// `s E - F`.
    pub pencil: Pencil,
    /// Effect of known inputs, `equations x inputs`.
    pub input: Mat<f64>,
    /// Effect of disturbances, `equations x disturbances`.
    pub disturbance: Mat<f64>,
    /// Measured combinations, `outputs x variables`.
    pub measured: Mat<f64>,
    /// Combinations to estimate, `signals x variables`.
    pub estimated: Mat<f64>,
}

impl DescriptorSystem {
    /// A system without inputs, disturbances and outputs.
    pub fn new(pencil: Pencil) -> Self {
        let (m, n) = (pencil.n_equations(), pencil.n_variables());
        Self {
            pencil,
            input: Mat::zeros(m, 0),
            disturbance: Mat::zeros(m, 0),
            measured: Mat::zeros(0, n),
            estimated: Mat::zeros(0, n),
        }
    }

    /// With known inputs entering by `G`.
    pub fn with_input(mut self, g: Mat<f64>) -> Result<Self, PencilError> {
        check_shape("G", &g, self.pencil.n_equations(), g.ncols(), "G has one row per equation")?;
        check_finite("G", &g)?;
        self.input = g;
        Ok(self)
    }

    /// With disturbances entering by `J`.
    pub fn with_disturbance(mut self, j: Mat<f64>) -> Result<Self, PencilError> {
        check_shape("J", &j, self.pencil.n_equations(), j.ncols(), "J has one row per equation")?;
        check_finite("J", &j)?;
        self.disturbance = j;
        Ok(self)
    }

    /// With measured signals `H z`.
    pub fn with_measured(mut self, h: Mat<f64>) -> Result<Self, PencilError> {
        check_shape("H", &h, h.nrows(), self.pencil.n_variables(), "H has one column per variable")?;
        check_finite("H", &h)?;
        self.measured = h;
        Ok(self)
    }

    /// With signals `M z` to estimate.
    pub fn with_estimated(mut self, m: Mat<f64>) -> Result<Self, PencilError> {
        check_shape("M", &m, m.nrows(), self.pencil.n_variables(), "M has one column per variable")?;
        check_finite("M", &m)?;
        self.estimated = m;
        Ok(self)
    }
}
