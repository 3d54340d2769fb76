//! Counter-based random numbers, normal ones for many lanes at once, and the special functions of distributions.
#![deny(unsafe_code)]

pub mod normal;
pub mod philox;
pub mod special_functions;
