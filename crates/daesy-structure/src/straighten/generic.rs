//! The verdict that holds beside the start: what derivative arrays say at several points aside.
//!
//! A rank at one point says something about that point. The ranks of a model are those at almost all of its points,
//! which are the largest ones: where the points disagree, those at which solutions are unique decide, and among them
//! those that confirm structure, because the number of free start values never exceeds what structure promises, and
//! reaches it only where the system Jacobian is regular [@pryce2001; @oki2023].

use daesy_graph::VarId;

use crate::arrays::{ArrayAnalysis, ArrayError};

/// What derivative arrays say beside the start.
#[derive(Clone, Debug)]
pub struct GenericVerdict {
    /// The analyses at the points that agree; at least one.
    pub analyses: Vec<ArrayAnalysis>,
    /// Number of points at which something else was found.
    pub n_others: usize,
    /// Whether nothing satisfies the equations and their derivatives at one of the points.
    pub is_contradicted: bool,
}

/// Sizes by which analyses are compared.
fn sizes(analysis: &ArrayAnalysis) -> [usize; 4] {
    [analysis.form.mu, analysis.form.d, analysis.form.a, analysis.form.v]
}

/// Finds out what holds at almost all of the points; None if nothing was found at any of them. `structural` is the
/// number of free start values that structure promises.
#[must_use]
pub fn generic_verdict(
    found: Vec<Result<ArrayAnalysis, ArrayError>>,
    structural: Option<usize>,
) -> Option<GenericVerdict> {
    let n = found.len();
    let is_contradicted = found.iter().any(|result| matches!(result, Err(ArrayError::NoPoint { .. })));
    // A point that was hardly reached says nothing, and one with small gaps little.
    let (doubtful, sure): (Vec<ArrayAnalysis>, Vec<ArrayAnalysis>) = found
        .into_iter()
        .filter_map(Result::ok)
        .filter(|analysis| !analysis.is_rough())
        .partition(|analysis| analysis.is_doubtful);
    let analyses = if sure.is_empty() { doubtful } else { sure };
    let n = n.min(analyses.len());
    let weight = |analysis: &ArrayAnalysis| {
        let confirms = analysis.is_regular && Some(analysis.form.d) == structural;
        let n_same = analyses.iter().filter(|other| sizes(other) == sizes(analysis)).count();
        (confirms, analysis.is_regular, n_same, analysis.form.d + analysis.form.a)
    };
    let best = sizes(analyses.iter().max_by_key(|analysis| weight(analysis))?);
    let analyses: Vec<ArrayAnalysis> = analyses.into_iter().filter(|analysis| sizes(analysis) == best).collect();
    Some(GenericVerdict { n_others: n - analyses.len(), is_contradicted, analyses })
}

impl GenericVerdict {
    /// Whether structure is right at almost all points.
    #[must_use]
    pub fn confirms(&self, structural: usize) -> bool {
        self.analyses.iter().any(|analysis| analysis.is_regular && analysis.form.d == structural)
    }

    /// Whether what an analysis at the start would leave out and hold is redundant and open at all points. Which
    /// equation of a redundant set goes, and which of several open variables is held, is a matter of choice.
    #[must_use]
    pub fn bears_out(&self, start: &ArrayAnalysis) -> bool {
        self.n_others == 0
            && !self.is_contradicted
            && self.analyses.iter().all(|analysis| {
                let is_redundant = |equation: &usize| analysis.redundant.contains(equation);
                let is_open = |var: &VarId| analysis.undetermined.contains(var) || analysis.free.contains(var);
                analysis.form.v == start.form.v
                    && analysis.form.d == start.form.d
                    && start.left_out.iter().all(is_redundant)
                    && start.free.iter().all(is_open)
            })
    }
}
