//! Linear descriptor systems `E z' = F z + G u + J w` on plain matrices.
//!
//! | question | function |
//! |---|---|
//! | Is the pencil regular, what is redundant, what is free? | [`kronecker_structure`] |
//! | Index, degrees of freedom, canonical form | [`split_finite_infinite`] |
//! | State-space-like form with input derivatives | [`standard_form`] |
//! | Consistent initial values | [`FiniteInfiniteSplit::consistent_initial_values`], [`nearest_consistent`] |
//! | Well-posed estimation, presampling filter | [`well_posedness`], [`relative_degrees`], [`insert_presampling_filter`] |
//! | Jumps and impulses at discontinuities | [`FiniteInfiniteSplit::state_transfer`], [`state_transfer_time_varying`] |
//! | Strangeness-free form, constant or time-varying | [`strangeness_free`], [`strangeness_over`] |
//! | Choice of states and inputs, feed-through, feedback | [`reinterpret`], [`remove_feedthrough`], [`regularizing_feedback`] |
//!
//! All rank decisions are made on a balanced pencil by singular values and are returned with their gaps.
#![forbid(unsafe_code)]

mod balance;
mod combination;
mod dense;
mod error;
mod initial;
mod jet;
mod kronecker;
mod pencil;
mod pivoted;
mod rank;
mod reinterpretation;
mod split;
mod staircase;
mod standard_form;
mod strangeness;
mod transfer;
mod transfer_varying;
mod well_posed;

pub use balance::{Balancing, balance};
pub use combination::LinearCombination;
pub use dense::{Svd, Vectors, largest_dense, svd};
pub use error::PencilError;
pub use faer::Mat;
pub use initial::{ConsistencyRequest, ConsistentValues, nearest_consistent};
pub use jet::{CoefficientJet, LinearCoefficients};
pub use kronecker::{KroneckerStructure, kronecker_structure};
pub use pencil::{DescriptorSystem, Pencil};
pub use rank::{RankDecision, RankQuestion, RankTolerance};
pub use reinterpretation::{
    Feedback, FeedthroughFree, OutputEquation, Reinterpretation, Wishes, regularizing_feedback, reinterpret,
    remove_feedthrough,
};
pub use split::{BackwardErrors, Eigenvalue, FiniteInfiniteSplit, PencilOptions, split_finite_infinite};
pub use standard_form::{ShapingFilter, SignalMap, StandardForm, standard_form, with_shaping_filter};
pub use strangeness::{
    InputRole, RedundantEquations, StrangenessFree, StrangenessOptions, StructureAt, strangeness_free, strangeness_over,
};
pub use transfer::{Discontinuity, StateTransfer, TransferSubspaces};
pub use transfer_varying::{
    TransferOptions, VaryingTransfer, state_transfer_time_varying, transfer_subspaces_time_varying,
};
pub use well_posed::{
    DisturbancePath, PresamplingFilter, SignalRole, SignalVerdict, WellPosedness, insert_presampling_filter,
    relative_degrees, well_posedness,
};
