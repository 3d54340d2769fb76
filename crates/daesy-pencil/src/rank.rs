//! Rank decisions by singular values, each recorded with the gap that supports it.
//!
//! Singular values are compared with a reference norm that belongs to the whole (balanced) matrix, not to the block at
//! hand: the rounding error of an orthogonal reduction is of the size of the whole.

use std::fmt;

/// How ranks are decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTolerance {
    /// Singular values above `relative` times the reference norm count.
    pub relative: f64,
    /// The cut may move within `relative / window .. relative * window` to the widest gap found there.
    pub window: f64,
    /// A decision with a smaller gap is called doubtful.
    pub doubtful_gap: f64,
}

impl Default for RankTolerance {
    fn default() -> Self {
        Self { relative: 1e-12, window: 1e2, doubtful_gap: 1e3 }
    }
}

/// The question a rank decision answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankQuestion {
    /// How many equations still hold derivatives after `level` deflations.
    DifferentialRows {
        /// Deflations done before.
        level: usize,
    },
    /// How many of the equations without derivatives are independent after `level` deflations.
    AlgebraicRows {
        /// Deflations done before.
        level: usize,
    },
    /// How many variables still appear differentiated, in the search for free variables.
    DifferentialColumns {
        /// Deflations done before.
        level: usize,
    },
    /// How many of the undifferentiated variables are determined, in the search for free variables.
    AlgebraicColumns {
        /// Deflations done before.
        level: usize,
    },
    /// Rank of `s E - F` at a generic `s`.
    NormalRank,
    /// Rank of the derivative array with respect to the derivatives of the unknowns.
    DerivativeArray {
        /// Number of differentiations.
        level: usize,
    },
    /// Number of independent algebraic constraints found in the derivative array.
    Constraints {
        /// Number of differentiations.
        level: usize,
    },
    /// Number of differential equations that remain on the constraint manifold.
    Dynamics {
        /// Number of differentiations.
        level: usize,
    },
    /// Independence of constraints on values.
    ConsistentValues,
    /// Unique determination of jumps and impulses.
    Transfer {
        /// Number of derivative levels used.
        level: usize,
    },
    /// Rank of a feed-through matrix.
    FeedThrough,
    /// Rank of the algebraic part on the kernel of the differential part.
    Feedback,
    /// Independence of variables chosen as states.
    StateChoice,
    /// Dimension of the reachable jumps.
    ReachableJumps,
}

impl fmt::Display for RankQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DifferentialRows { level } => write!(f, "differential equations after {level} deflations"),
            Self::AlgebraicRows { level } => write!(f, "independent algebraic equations after {level} deflations"),
            Self::DifferentialColumns { level } => write!(f, "differentiated variables after {level} deflations"),
            Self::AlgebraicColumns { level } => write!(f, "determined variables after {level} deflations"),
            Self::NormalRank => write!(f, "rank of s E - F at a generic s"),
            Self::DerivativeArray { level } => write!(f, "derivative array with {level} differentiations"),
            Self::Constraints { level } => write!(f, "constraints in the array with {level} differentiations"),
            Self::Dynamics { level } => write!(f, "dynamics on the constraints with {level} differentiations"),
            Self::ConsistentValues => write!(f, "constraints on values"),
            Self::Transfer { level } => write!(f, "jumps and impulses from {level} derivative levels"),
            Self::FeedThrough => write!(f, "feed-through"),
            Self::Feedback => write!(f, "algebraic equations on the kernel of the differential part"),
            Self::StateChoice => write!(f, "independent states"),
            Self::ReachableJumps => write!(f, "reachable jumps"),
        }
    }
}

/// One decided rank with the singular values next to the cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankDecision {
    /// What was asked.
    pub question: RankQuestion,
    /// Rows of the matrix.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// The decided rank.
    pub rank: usize,
    /// Smallest singular value that counts, relative to the reference norm (1 if none counts).
    pub smallest_kept: f64,
    /// Largest singular value that does not count, relative to the reference norm (rounding level if none).
    pub largest_dropped: f64,
    /// Safety factor of the decision: the smallest of `smallest_kept / largest_dropped` and the two distances, squared,
    /// to the threshold. Large is good.
    pub gap: f64,
    /// Whether the gap is below [`RankTolerance::doubtful_gap`].
    pub is_doubtful: bool,
}

/// Decides a rank from descending singular values against `reference`.
pub(crate) fn decide(
    singular_values: &[f64],
    rows: usize,
    cols: usize,
    reference: f64,
    tolerance: &RankTolerance,
    question: RankQuestion,
) -> RankDecision {
    let unit = f64::EPSILON;
    let scale = if reference > 0.0 { reference } else { 1.0 };
    let rel = |i: usize| singular_values[i] / scale;
    let n = singular_values.len();
    let kept_value = |r: usize| if r == 0 { 1.0 } else { rel(r - 1) };
    let dropped_value = |r: usize| if r == n { unit } else { rel(r).max(unit) };
    let mut rank = (0..n).filter(|&i| rel(i) > tolerance.relative).count();
    if tolerance.window > 1.0 {
        let high = tolerance.relative * tolerance.window;
        let low = tolerance.relative / tolerance.window;
        let first = (0..n).filter(|&i| rel(i) > high).count();
        let last = (0..n).filter(|&i| rel(i) > low).count();
        let mut best = f64::NEG_INFINITY;
        for r in first..=last {
            let ratio = kept_value(r).min(high) / dropped_value(r).max(low);
            if ratio > best {
                best = ratio;
                rank = r;
            }
        }
    }
    describe(singular_values, rank, rows, cols, reference, tolerance, question)
}

/// The record of a rank that is known: the singular values next to the cut and the gap.
pub(crate) fn describe(
    singular_values: &[f64],
    rank: usize,
    rows: usize,
    cols: usize,
    reference: f64,
    tolerance: &RankTolerance,
    question: RankQuestion,
) -> RankDecision {
    let scale = if reference > 0.0 { reference } else { 1.0 };
    let n = singular_values.len();
    let rank = rank.min(n);
    let smallest_kept = if rank == 0 { 1.0 } else { singular_values[rank - 1] / scale };
    let largest_dropped = if rank == n { f64::EPSILON } else { (singular_values[rank] / scale).max(f64::EPSILON) };
    let to_threshold = |x: f64| (x.max(tolerance.relative) / x.min(tolerance.relative)).powi(2);
    let gap = (smallest_kept / largest_dropped)
        .min(if rank == 0 { f64::INFINITY } else { to_threshold(smallest_kept) })
        .min(if rank == n { f64::INFINITY } else { to_threshold(largest_dropped) });
    RankDecision {
        question,
        rows,
        cols,
        rank,
        smallest_kept,
        largest_dropped,
        gap,
        is_doubtful: gap < tolerance.doubtful_gap,
    }
}
