//! Disturbance processes, filters and smoothers, likelihoods, prediction-error costs, search and uncertainty.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod chi_square;
pub mod descriptor;
pub mod discretize;
pub mod error;
mod expected;
pub mod experiment;
pub mod filter;
mod free_start;
pub mod horizon;
pub mod hybrid;
mod kernel;
pub mod likelihood;
pub mod memory;
pub mod multi_start;
pub mod noise;
pub mod nonlinear;
mod observed;
pub mod online;
pub mod pem;
pub mod posterior;
pub mod prior;
pub mod profile;
pub mod residual;
mod sample;
pub mod scores;
pub mod search;
mod seen_start;
mod smooth;
pub mod start;
pub mod state_space;
mod stretch;
pub mod uncertainty;

pub use smooth::SignalEstimates;
