//! What jumps: how states cross discontinuities of inputs and relations, with the impulses that belong to them.
#![forbid(unsafe_code)]

mod impulse_balance;
mod least_squares;
mod simulate;

pub use impulse_balance::transfer_rule;
pub use simulate::{
    Event, EventKind, ImpulseAt, ImpulseOf, Jump, TransferFailure, Transferred, TransferredPart,
    simulate_with_transfer, transfer_as_far_as_possible,
};
