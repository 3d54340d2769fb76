//! What is wrong with a pattern that is not square or has no perfect matching.
//!
//! The decomposition of Dulmage and Mendelsohn [@dulmage1958; @pothen1990] is unique:
//!
//! ```text
//!               over    well    under          variables
//!   over     [  A_o      0       0   ]   more equations than variables; every variable has a partner
//!   well     [   *      A_w      0   ]   square, with a perfect matching
//!   under    [   *       *      A_u  ]   more variables than equations; every equation has a partner
//! ```
//!
//! An equation is in the over-determined part if some maximum matching leaves it out, a variable is in the
//! under-determined part if some maximum matching leaves it out. A pattern may have both parts even though it is
//! square: then it is structurally singular. The parts are found from any maximum matching by alternating paths,
//! O(nonzeros).
//!
//! [`DulmageMendelsohn::culprits`] condenses the two parts to what an engineer has to look at.

use crate::blocks::{BlockTriangularForm, matched_components};
use crate::incidence::Incidence;
use crate::matching::{Matching, UNMATCHED, maximum_matching};

mod culprits;

pub use culprits::{CulpritOptions, CulpritSet, Culprits};

/// Part of the decomposition that an equation or a variable belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Too many equations for too few variables.
    Over,
    /// As many equations as variables, and they can be solved.
    Well,
    /// Too few equations for too many variables.
    Under,
}

/// The coarse decomposition and the blocks of the well-determined part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DulmageMendelsohn {
    /// The maximum matching it was derived from.
    pub matching: Matching,
    /// Part of each equation.
    pub equation_parts: Vec<Part>,
    /// Part of each variable.
    pub variable_parts: Vec<Part>,
    /// Irreducible blocks of the well-determined part in the order of solution.
    pub well_blocks: BlockTriangularForm,
}

impl DulmageMendelsohn {
    /// Whether all is well-determined.
    pub fn is_regular(&self) -> bool {
        self.matching.is_perfect()
    }

    /// How many equations are too many: the number of equations left out by every maximum matching.
    pub fn n_excess_equations(&self) -> usize {
        self.equation_parts.len() - self.matching.len()
    }

    /// How many equations are missing: the number of variables left out by every maximum matching.
    pub fn n_missing_equations(&self) -> usize {
        self.variable_parts.len() - self.matching.len()
    }

    /// The equations of a part, ascending.
    pub fn equations(&self, part: Part) -> Vec<u32> {
        members(&self.equation_parts, part)
    }

    /// The variables of a part, ascending.
    pub fn variables(&self, part: Part) -> Vec<u32> {
        members(&self.variable_parts, part)
    }

    /// Small sets of equations and variables that cannot be right; see [`Culprits`]. `incidence` is the decomposed one.
    pub fn culprits(&self, incidence: &Incidence, options: &CulpritOptions) -> Culprits {
        culprits::find(self, incidence, options)
    }
}

fn members(parts: &[Part], part: Part) -> Vec<u32> {
    (0u32..).zip(parts).filter(|&(_, &own)| own == part).map(|(position, _)| position).collect()
}

/// The Dulmage-Mendelsohn decomposition of a pattern, whatever the derivative orders.
pub fn dulmage_mendelsohn(incidence: &Incidence) -> DulmageMendelsohn {
    DulmageMendelsohn::from_matching(incidence, maximum_matching(incidence))
}

impl DulmageMendelsohn {
    /// The decomposition from a matching that is known to be maximum.
    pub fn from_matching(incidence: &Incidence, matching: Matching) -> Self {
        let mut equation_parts = vec![Part::Well; incidence.n_equations()];
        let mut variable_parts = vec![Part::Well; incidence.n_variables()];
        if !matching.is_perfect() {
            let over = alternating_reach(incidence, matching.equation_slots(), &matching.unmatched_equations());
            for equation in over {
                equation_parts[equation as usize] = Part::Over;
                for &variable in incidence.variables_of(equation as usize) {
                    variable_parts[variable as usize] = Part::Over;
                }
            }
            let transposed = incidence.transpose();
            let under = alternating_reach(&transposed, matching.variable_slots(), &matching.unmatched_variables());
            for variable in under {
                variable_parts[variable as usize] = Part::Under;
                for &equation in transposed.variables_of(variable as usize) {
                    equation_parts[equation as usize] = Part::Under;
                }
            }
        }
        let well_blocks = matched_components(incidence, &matching, |equation| equation_parts[equation] == Part::Well);
        Self { matching, equation_parts, variable_parts, well_blocks }
    }
}

/// Rows reached from `starts` by steps row - any column in it - the row paired with that column.
fn alternating_reach(incidence: &Incidence, row_of_column: &[u32], starts: &[u32]) -> Vec<u32> {
    let mut is_reached = vec![false; incidence.n_equations()];
    let mut reached = starts.to_vec();
    for &row in starts {
        is_reached[row as usize] = true;
    }
    let mut head = 0;
    while head < reached.len() {
        let row = reached[head] as usize;
        head += 1;
        for &column in incidence.variables_of(row) {
            let next = row_of_column[column as usize];
            if next != UNMATCHED && !is_reached[next as usize] {
                is_reached[next as usize] = true;
                reached.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidence::pattern;

    #[test]
    fn a_balanced_singular_model_shows_both_faults() {
        // Variable 0 is given twice; variables 2 and 3 share one equation; variable 1 is fine.
        let incidence = pattern(4, &[&[0], &[0], &[0, 1], &[1, 2, 3]]);
        let parts = dulmage_mendelsohn(&incidence);
        assert!(!parts.is_regular());
        assert_eq!((parts.n_excess_equations(), parts.n_missing_equations()), (1, 1));
        assert_eq!(parts.equations(Part::Over), [0, 1]);
        assert_eq!(parts.variables(Part::Over), [0]);
        assert_eq!(parts.equations(Part::Well), [2]);
        assert_eq!(parts.variables(Part::Well), [1]);
        assert_eq!(parts.equations(Part::Under), [3]);
        assert_eq!(parts.variables(Part::Under), [2, 3]);
        assert_eq!(parts.well_blocks.n_blocks(), 1);
        let culprits = parts.culprits(&incidence, &CulpritOptions::default());
        assert_eq!(culprits.over_determined, [CulpritSet { equations: vec![0, 1], variables: vec![0] }]);
        assert_eq!(culprits.under_determined, [CulpritSet { equations: vec![3], variables: vec![2, 3] }]);
    }

    #[test]
    fn an_equation_without_unknowns_and_a_variable_without_equations_stand_alone() {
        let incidence = pattern(2, &[&[], &[0]]);
        let parts = dulmage_mendelsohn(&incidence);
        let culprits = parts.culprits(&incidence, &CulpritOptions::default());
        assert_eq!(culprits.over_determined, [CulpritSet { equations: vec![0], variables: vec![] }]);
        assert_eq!(culprits.under_determined, [CulpritSet { equations: vec![], variables: vec![1] }]);
    }
}
