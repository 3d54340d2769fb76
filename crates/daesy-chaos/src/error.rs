//! What can go wrong with random parameters.

use thiserror::Error;

/// Why an expansion cannot be made.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum ChaosError {
    /// A distribution has no values, or a number of it is out of range.
    #[error("{what}")]
    Distribution {
        /// What is wrong, in words.
        what: String,
    },
    /// Samples have too few different values for the degree that is asked for.
    #[error("the samples have {} different values, which carry polynomials up to degree {available}; degree {needed} was asked for", available + 1)]
    TooFewValues {
        /// Highest degree possible.
        available: usize,
        /// Degree asked for.
        needed: usize,
    },
    /// The Galerkin system of a model cannot be built.
    #[error("{reason}")]
    NotExpandable {
        /// Why.
        reason: String,
        /// A variable or parameter that the reason is about, if any.
        name: Option<String>,
    },
    /// Quadrature would need too many points.
    #[error(
        "quadrature over {n_parameters} random parameters with {points_each} points each needs {n_points:.3e} points; {limit:.1e} is the limit"
    )]
    TooManyPoints {
        /// Random parameters that enter together.
        n_parameters: usize,
        /// Points per parameter.
        points_each: usize,
        /// Points in all.
        n_points: f64,
        /// The limit.
        limit: f64,
    },
    /// A function of random parameters is not finite where it must be known.
    #[error("{what} is not a finite number at {place}")]
    NotFinite {
        /// What was evaluated.
        what: String,
        /// Values of the random parameters.
        place: String,
    },
}
