//! Arrays of Python and matrices of daesy.

use daesy::pencil::Mat;
use numpy::ndarray::ArrayView2;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;

/// A matrix from a two-dimensional array.
pub fn matrix(array: &PyReadonlyArray2<'_, f64>) -> Mat<f64> {
    let view: ArrayView2<'_, f64> = array.as_array();
    Mat::from_fn(view.nrows(), view.ncols(), |row, column| view[(row, column)])
}

/// A two-dimensional array, row by row, from a matrix.
pub fn from_matrix<'py>(py: Python<'py>, matrix: &Mat<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (n_rows, n_columns) = matrix.shape();
    let values: Vec<f64> =
        (0..n_rows).flat_map(|row| (0..n_columns).map(move |column| (row, column))).map(|at| matrix[at]).collect();
    PyArray1::from_vec(py, values).reshape([n_rows, n_columns])
}

/// A two-dimensional array, row by row, from rows of equal length.
pub fn from_rows<'py>(py: Python<'py>, rows: &[Vec<f64>], n_columns: usize) -> PyResult<Bound<'py, PyArray2<f64>>> {
    PyArray1::from_vec(py, rows.concat()).reshape([rows.len(), n_columns])
}

/// An array of shape (columns, rows) that takes the columns over in one piece.
pub fn from_columns<'py>(py: Python<'py>, columns: &[Vec<f64>]) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let n_rows = columns.first().map_or(0, Vec::len);
    PyArray1::from_vec(py, columns.concat()).reshape([columns.len(), n_rows])
}
