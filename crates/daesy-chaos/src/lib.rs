//! Random parameters: distributions, orthonormal polynomials, quadrature, the Galerkin expansion of models, moments
//! and Sobol indices.
//!
//! A quantity that depends on independent random parameters is written as a series of polynomials that are
//! orthonormal for their distributions [@pulch2008, sec. 2.3]:
//!
//! ```text
//! X(xi, t) = v_0(t) Phi_0(xi) + .. + v_m(t) Phi_m(xi)        mean v_0, variance v_1^2 + .. + v_m^2
//! ```
//!
//! The coefficients come from the model itself, expanded into a larger one whose unknowns they are ([`galerkin`]), or
//! from values of the model at points ([`projection`]).
#![forbid(unsafe_code)]

pub mod basis;
pub mod distribution;
pub mod error;
pub mod galerkin;
pub mod index_set;
pub mod inheritance;
pub mod projection;
pub mod recurrence;
pub mod sampling;
mod sobol_directions;
pub mod surrogate;

pub use basis::{Basis, RandomParameter};
pub use distribution::Distribution;
pub use error::ChaosError;
pub use galerkin::{ExpandOptions, Expanded, ExpansionFacts, Ramp, expand, first_nonlinear, ramped};
pub use index_set::{IndexSet, MAX_DEGREE, MultiIndex, hyperbolic_terms, total_degree_terms};
pub use projection::{
    AdaptiveOptions, PointValues, Projection, RuleFamily, adaptive_projection, regression, sparse_projection,
    tensor_projection,
};
pub use recurrence::{Recurrence, Rule, clenshaw_curtis};
pub use sampling::{Purpose, SobolSequence, random_point};
pub use surrogate::{QuantilePoints, Quantiles, Series, SobolIndices, Surrogate, empirical_quantile};
