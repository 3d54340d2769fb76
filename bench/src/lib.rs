//! What the benchmarks share: clocks, growth exponents, peers in Python, models with hand-written rivals.
//!
//! A benchmark prints ratios against peers measured in the same run. It never fails for being slow.
#![deny(unsafe_code)]

pub mod clock;
pub mod expression;
#[cfg(feature = "solve")]
pub mod ivp;
pub mod lanes;
pub mod models;
pub mod peer;
#[cfg(feature = "ensemble")]
pub mod plants;
