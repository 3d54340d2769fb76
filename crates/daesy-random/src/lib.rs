//! Counter-based random numbers and the special functions of distributions.
#![forbid(unsafe_code)]

pub mod philox;
pub mod special_functions;
