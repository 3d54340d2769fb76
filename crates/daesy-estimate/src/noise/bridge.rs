//! The exact law of a channel between grid points.
//!
//! Given chi at both ends of a span of length 2 d, its value in the middle is normal: with F, Q over d and S = F Q F' +
//! Q over 2 d
//!
//! ```text
//! mean = (F - G F F) chi_0 + G chi_1,   G = Q F' S^-1,     covariance = Q - G F Q
//! ```
//!
//! Halving again and again gives the process at every dyadic point of an interval, in whatever order points are asked
//! for, since the random numbers of a point belong to its place in the tree ([`super::philox::Purpose::Between`]).
//! Components of one channel stay correlated, and so do signals that share channels.

use super::channel::{Channel, over_span};
use super::jet::JetMatrix;

/// Halvings of an interval; inside the spans that are left, of 1/256 of the grid step, values lie on straight lines.
/// More would be paid for in digits: the weights of the ends grow with each level and nearly cancel.
pub const MAX_DEPTH: usize = 8;

/// How the middle of a span follows from its ends.
#[derive(Clone, Debug)]
pub struct BridgeLevel {
    /// Weight of the left end.
    pub left: JetMatrix,
    /// Weight of the right end.
    pub right: JetMatrix,
    /// Factor of the conditional covariance.
    pub factor: JetMatrix,
}

/// The levels of a channel: entry l halves spans of length 2^-l.
#[must_use]
pub fn levels(channel: &Channel, depth: usize) -> Option<Vec<BridgeLevel>> {
    (0..depth)
        .map(|level| {
            let span = over_span(&channel.dynamics, 0.5f64.powi(level as i32 + 1));
            let (f, q) = (&span.transition, &span.covariance);
            let fq = f.times(q);
            let s = fq.times(&f.transpose()).plus(1.0, q);
            let gain = q.times(&f.transpose()).over(&s)?;
            let left = f.plus(-1.0, &gain.times(f).times(f));
            let covariance = q.plus(-1.0, &gain.times(&fq));
            Some(BridgeLevel { left, right: gain, factor: covariance.cholesky()? })
        })
        .collect()
}
