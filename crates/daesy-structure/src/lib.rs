//! From FlatDae to RegularDae: incidence, matching, offsets, blocks, verification.
//!
//! The structural algorithms see which variable occurs in which equation and how often it is differentiated there
//! ([`incidence`]), never an expression.
#![forbid(unsafe_code)]

pub mod alias;
pub mod array_verdict;
pub mod arrays;
pub mod blocks;
mod bound;
pub mod chosen_form;
mod definitions;
pub mod discrete;
pub mod dulmage_mendelsohn;
pub mod excerpt;
mod explain;
mod held_rates;
pub mod incidence;
pub mod linear_verdict;
pub mod linearize;
pub mod matching;
pub mod offsets;
pub mod parameters;
pub mod reduction;
pub mod regularize;
pub mod straighten;
pub mod verify;
pub mod words;

pub use blocks::{Block, BlockTriangularForm, BlocksError, block_triangular_form};
pub use dulmage_mendelsohn::{CulpritOptions, CulpritSet, Culprits, DulmageMendelsohn, Part, dulmage_mendelsohn};
pub use incidence::{Entry, Incidence, IncidenceBuilder, IncidenceError, LocalOrder, Renumbered};
pub use matching::{Matching, maximum_matching};
pub use offsets::{OffsetsError, SigmaAnalysis, sigma_analysis};
pub use regularize::{RegularizeError, condense, regularize};
pub use verify::{RankRow, Verification, verify};
