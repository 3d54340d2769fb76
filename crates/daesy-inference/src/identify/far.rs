//! What an executor is asked, as plain numbers.
//!
//! A point that is handed over begins with what is asked: [`SEARCH`] and a start, or [`BOOTSTRAP`], the number of an
//! artificial data set and the estimate it is made at. A search comes back as
//! `daesy_estimate::multi_start` writes it.

/// A search from a start.
pub const SEARCH: f64 = 0.0;
/// An estimate from artificial data.
pub const BOOTSTRAP: f64 = 1.0;

/// Points that ask for searches from starts.
#[must_use]
pub fn search_points(starts: &[Vec<f64>]) -> Vec<Vec<f64>> {
    starts.iter().map(|start| std::iter::once(SEARCH).chain(start.iter().copied()).collect()).collect()
}
