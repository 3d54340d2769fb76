//! Disturbances with rational spectra: realizations on a grid and between its points.
//!
//! A disturbance is the output of a shaping filter driven by unit white noise, `dx = A x dt + B dz`, `w = C x`
//! [@abdalmoaty2021, eq. (4), with its dt]. What makes realizations comparable from one parameter value to the next is
//! that the random numbers they are made of never change ([`philox`]) and that they enter smoothly. A factor of the
//! covariance of x over a step is not smooth where that covariance is singular, so the filter is written by *channels*
//! ([`channel`]) whose covariance never is. Between grid points a realization is a straight line, or follows the exact
//! conditional law ([`bridge`]).

pub mod bridge;
pub mod channel;
pub mod jet;
pub mod lanes;
pub mod philox;
pub mod process;

pub use daesy_random::normal;
pub use lanes::{Interpolation, ShapedNoise};
pub use process::{DiscreteProcess, InterpolationError, NoiseError, ShapingFilter};
