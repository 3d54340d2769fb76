//! Disturbance processes, filters and smoothers, likelihoods, prediction-error costs, search and uncertainty.
#![forbid(unsafe_code)]

pub mod discretize;
pub mod search;
