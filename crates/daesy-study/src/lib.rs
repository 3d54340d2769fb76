//! A model, what is known about it and what was measured, as one problem; and the one road from a flat model to a
//! compiled system.
//!
//! Nothing is printed here.
#![forbid(unsafe_code)]

pub mod data;
pub mod decimal;
pub mod diagnostic;
pub mod distribute;
pub mod embedded;
pub mod expression;
pub mod failure;
pub mod initial;
pub mod inputs;
pub mod limits;
mod linear_model;
pub mod linear_study;
pub mod live;
pub mod load;
pub mod misled;
mod no_trajectory;
pub mod prediction_study;
pub mod prepare;
mod presampling;
pub mod problem;
pub mod source;
mod special_start;
pub mod start_point;
pub mod stochastic;
pub mod structure_map;
pub mod study;
pub mod table;
pub mod unknown_start;
pub mod varying;
