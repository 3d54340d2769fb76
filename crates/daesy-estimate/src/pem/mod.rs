//! Identification by prediction errors of simulated ensembles.
//!
//! The prediction of a measurement is the mean over M realizations of the disturbances, and the cost the mean of
//! squared errors [@abdalmoaty2021, eq. (3)],
//!
//! ```text
//! J(theta) = 1/N sum over k of |W (y_k - ybar_k(theta))|^2,     ybar_k = 1/M sum over m of y_k^(m)(theta)
//! ```
//!
//! over the N sample times used, missing values left out. All theta see the same random numbers, so that J is smooth,
//! its gradient exact, and its minimum found by Gauss-Newton steps ([`objective`]). Without disturbances this is the
//! output-error method. The same problem can be filtered ([`filtering`]), which gives a likelihood under the filter's
//! approximation ([`likelihood`]), or sample by sample as they come ([`live`]).

pub mod filtering;
pub mod growing;
mod hybrid;
pub mod likelihood;
pub mod live;
pub mod objective;
pub mod problem;
pub mod uncertainty;

pub use filtering::{FilterKind, FilterRequest};
pub use growing::{GrowingSearch, GrownSearch, OutputSearch, grown_start};
pub use likelihood::{FilterExpansion, FilterLikelihood};
pub use live::{LiveFilter, LiveState};
pub use objective::PredictionObjective;
pub use problem::{
    MeasuredExperiment, ParameterPoint, Parameterization, PointRefusal, Prediction, PredictionProblem,
    PredictionSettings,
};
pub use uncertainty::{PredictionUncertainty, StandardErrorKind};
