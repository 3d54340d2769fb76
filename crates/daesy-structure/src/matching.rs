//! Maximum matching of equations with variables.
//!
//! A matching pairs equations with variables that occur in them, each at most once; a maximum matching has as many
//! pairs as possible. Its size is the structural rank of the pattern.
//!
//! The start (`kernel`) follows the rules of Karp and Sipser [@karp1981], which lose nothing, as far as they go. What
//! they leave is completed by pushing (`push_relabel`). On systems with loops hidden in a triangular order, searching
//! for augmenting paths takes time that grows nearly with the square of the size, since the paths are long and block
//! one another; pushing does not. No recursion.

use crate::incidence::{Incidence, LocalOrder};

mod kernel;
mod push_relabel;

pub(crate) use kernel::kernel_matching;
pub(crate) use push_relabel::{BothWays, PushRelabel};

/// Marks a missing partner in the compact arrays.
pub(crate) const UNMATCHED: u32 = u32::MAX;

/// Pairs of equations and variables, each in at most one pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matching {
    variable_of_equation: Vec<u32>,
    equation_of_variable: Vec<u32>,
    n_pairs: usize,
}

impl Matching {
    /// No pairs.
    pub fn empty(n_equations: usize, n_variables: usize) -> Self {
        Self {
            variable_of_equation: vec![UNMATCHED; n_equations],
            equation_of_variable: vec![UNMATCHED; n_variables],
            n_pairs: 0,
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.n_pairs
    }

    /// Whether there is no pair at all.
    pub fn is_empty(&self) -> bool {
        self.n_pairs == 0
    }

    /// Whether every equation and every variable has a partner.
    pub fn is_perfect(&self) -> bool {
        self.n_pairs == self.variable_of_equation.len() && self.n_pairs == self.equation_of_variable.len()
    }

    /// The variable paired with an equation.
    #[inline]
    pub fn variable_of(&self, equation: usize) -> Option<u32> {
        Some(self.variable_of_equation[equation]).filter(|&variable| variable != UNMATCHED)
    }

    /// The equation paired with a variable.
    #[inline]
    pub fn equation_of(&self, variable: usize) -> Option<u32> {
        Some(self.equation_of_variable[variable]).filter(|&equation| equation != UNMATCHED)
    }

    /// Equations without a partner, ascending.
    pub fn unmatched_equations(&self) -> Vec<u32> {
        unmatched(&self.variable_of_equation)
    }

    /// Variables without a partner, ascending.
    pub fn unmatched_variables(&self) -> Vec<u32> {
        unmatched(&self.equation_of_variable)
    }

    /// The same pairs with the roles of equations and variables exchanged.
    pub fn transpose(self) -> Matching {
        Matching {
            variable_of_equation: self.equation_of_variable,
            equation_of_variable: self.variable_of_equation,
            n_pairs: self.n_pairs,
        }
    }

    /// Compact arrays with [`UNMATCHED`] for "none".
    #[inline]
    pub(crate) fn variable_slots(&self) -> &[u32] {
        &self.variable_of_equation
    }

    /// Compact arrays with [`UNMATCHED`] for "none".
    #[inline]
    pub(crate) fn equation_slots(&self) -> &[u32] {
        &self.equation_of_variable
    }

    /// The pairs in original numbers, when those of `self` are numbers of `order`.
    pub(crate) fn in_original_numbers(&self, order: &LocalOrder) -> Matching {
        let mut original = Matching::empty(self.variable_of_equation.len(), self.equation_of_variable.len());
        for (place, &variable) in self.variable_of_equation.iter().enumerate() {
            if variable != UNMATCHED {
                original.pair(order.equations[place], order.variables[variable as usize]);
            }
        }
        original
    }

    /// Flips an augmenting path, given as its (equation, new variable) pairs: one more pair than before.
    pub(crate) fn flip(&mut self, path: impl IntoIterator<Item = (u32, u32)>) {
        for (equation, variable) in path {
            self.variable_of_equation[equation as usize] = variable;
            self.equation_of_variable[variable as usize] = equation;
        }
        self.n_pairs += 1;
    }

    fn from_partners(variable_of_equation: Vec<u32>, equation_of_variable: Vec<u32>) -> Self {
        let n_pairs = variable_of_equation.iter().filter(|&&variable| variable != UNMATCHED).count();
        Self { variable_of_equation, equation_of_variable, n_pairs }
    }

    fn pair(&mut self, equation: u32, variable: u32) {
        self.variable_of_equation[equation as usize] = variable;
        self.equation_of_variable[variable as usize] = equation;
        self.n_pairs += 1;
    }
}

fn unmatched(partners: &[u32]) -> Vec<u32> {
    (0u32..).zip(partners).filter(|&(_, &partner)| partner == UNMATCHED).map(|(position, _)| position).collect()
}

/// A maximum matching of the pattern, whatever the derivative orders.
pub fn maximum_matching(incidence: &Incidence) -> Matching {
    let transposed = incidence.transpose();
    let pattern = BothWays { by_equation: incidence, by_variable: &transposed };
    let mut matching = kernel_matching(pattern);
    let mut free = matching.unmatched_equations();
    let scope: Vec<u32> = (0..incidence.n_variables() as u32).collect();
    PushRelabel::new(incidence.n_variables()).complete(pattern, &scope, &mut matching, &mut free, |_, _| true);
    matching
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidence::pattern;

    #[test]
    fn empty_patterns_have_empty_matchings() {
        let matching = maximum_matching(&pattern(0, &[]));
        assert!(matching.is_empty() && matching.is_perfect());
        let matching = maximum_matching(&pattern(2, &[&[], &[]]));
        assert!(matching.is_empty() && !matching.is_perfect());
        assert_eq!(matching.unmatched_equations(), [0, 1]);
    }

    #[test]
    fn a_wrong_greedy_pair_is_corrected_along_a_long_path() {
        // Equation i holds variables i and i + 1; the last equation holds only variable 0: one perfect matching exists.
        let n = 2000u32;
        let mut rows: Vec<Vec<u32>> = (0..n - 1).map(|i| vec![i, i + 1]).collect();
        rows.push(vec![0]);
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let incidence = pattern(n as usize, &rows);
        // Start from the diagonal, where only the path through all equations is left.
        let mut matching = Matching::empty(n as usize, n as usize);
        for i in 0..n - 1 {
            matching.pair(i, i);
        }
        let mut free = matching.unmatched_equations();
        let transposed = incidence.transpose();
        let pattern = BothWays { by_equation: &incidence, by_variable: &transposed };
        let scope: Vec<u32> = (0..n).collect();
        PushRelabel::new(n as usize).complete(pattern, &scope, &mut matching, &mut free, |_, _| true);
        assert!(free.is_empty() && matching.is_perfect());
        assert_eq!(matching.variable_of(n as usize - 1), Some(0));
        assert_eq!(matching.variable_of(0), Some(1));
    }
}
