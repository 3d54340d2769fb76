//! The Sigma-method: how often each equation must be differentiated, structural index and degrees of freedom.
//!
//! A highest-value transversal T pairs equations with variables such that the sum of sigma_ij over the pairs is
//! largest. The canonical offsets are the smallest integers c_i, d_j with [@pryce2001]
//!
//! ```text
//! c_i >= 0,   d_j - c_i >= sigma_ij for all entries,   d_j - c_i = sigma_ij on T.
//! ```
//!
//! Equation i is differentiated c_i times and variable j up to order d_j; the system Jacobian has the entries with
//! d_j - c_i = sigma_ij. The number of degrees of freedom is sum d_j - sum c_i, which is the value of T. These
//! offsets are those of Pantelides' algorithm [@pantelides1988], extended to any order.
//!
//! How they are found, near-linear in the nonzeros, after renumbering for locality if need be:
//!
//! 1. The block-triangular form of the whole pattern: a transversal never leaves a block, so that each block is on its
//!    own.
//! 2. Inside, a transversal and some optimal offsets (module `transversal`).
//! 3. Given T, the smallest offsets solve a longest-path problem: c_k >= c_i + sigma_ij - sigma_kj for every entry (i,
//!    j) with j paired with k. Blocks are lifted from the last solved to the first, because a block only makes demands
//!    on those solved before it. Within a block the offsets of step 2 turn all path lengths to one sign, so that a
//!    queue ordered by level settles every equation once instead of sweeping until nothing changes.

use thiserror::Error;

use crate::blocks::{BlockTriangularForm, matched_components};
use crate::incidence::{Incidence, LocalOrder, Renumbered};
use crate::matching::{Matching, maximum_matching};

mod level_queue;
mod transversal;

use level_queue::LevelQueue;

/// The structural analysis of a square, structurally regular DAE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigmaAnalysis {
    /// A highest-value transversal.
    pub transversal: Matching,
    /// c_i: how often equation i is differentiated.
    pub equation_offsets: Vec<u32>,
    /// d_j: the order of the highest derivative of variable j that is solved for.
    pub variable_offsets: Vec<u32>,
    /// The blocks of the whole pattern, which stay blocks whatever is differentiated.
    pub coarse_blocks: BlockTriangularForm,
    /// The blocks of the system Jacobian (entries with d_j - c_i = sigma_ij), in the order in which the highest
    /// derivatives are solved. They refine the coarse ones.
    pub fine_blocks: BlockTriangularForm,
    /// The index of the Sigma-method: max c_i, plus 1 if some d_j is 0.
    pub structural_index: u32,
    /// The index without a surcharge for unrelated variables: max over i of c_i, plus 1 only where equation i takes
    /// part in determining a variable with d_j = 0. At most [`SigmaAnalysis::structural_index`], and equal to it for
    /// irreducible models.
    pub related_index: u32,
    /// sum d_j - sum c_i, the number of start values that are free.
    pub degrees_of_freedom: u64,
    /// sum c_i, the number of equations that constrain the start values: each equation and its derivatives below
    /// order c_i.
    pub n_constraints: u64,
}

impl SigmaAnalysis {
    /// Whether an entry of the signature matrix belongs to the system Jacobian: d_j - c_i = sigma_ij.
    pub fn is_in_system_jacobian(&self, equation: usize, variable: u32, order: u8) -> bool {
        self.variable_offsets[variable as usize] == self.equation_offsets[equation] + u32::from(order)
    }

    /// The analysis in original numbers, when those of `self` are numbers of `order`.
    fn in_original_numbers(self, order: &LocalOrder) -> SigmaAnalysis {
        let scatter = |values: &[u32], places: &[u32]| {
            let mut original = vec![0; values.len()];
            for (&value, &place) in values.iter().zip(places) {
                original[place as usize] = value;
            }
            original
        };
        SigmaAnalysis {
            transversal: self.transversal.in_original_numbers(order),
            equation_offsets: scatter(&self.equation_offsets, &order.equations),
            variable_offsets: scatter(&self.variable_offsets, &order.variables),
            coarse_blocks: self.coarse_blocks.in_original_numbers(order),
            fine_blocks: self.fine_blocks.in_original_numbers(order),
            ..self
        }
    }

    /// The pattern of the system Jacobian. Row i belongs to the c_i-th derivative of equation i, column j to the d_j-th
    /// derivative of variable j.
    pub fn system_jacobian(&self, incidence: &Incidence) -> Incidence {
        incidence.filter(|equation, entry| {
            self.is_in_system_jacobian(equation, incidence.variables()[entry], incidence.orders()[entry])
        })
    }
}

/// Why there are no offsets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OffsetsError {
    /// There is no transversal; the Dulmage-Mendelsohn decomposition of `matching` says why.
    #[error(
        "structurally singular: {n_equations} equations and {n_variables} variables, of which only {} can be paired",
        matching.len()
    )]
    StructurallySingular {
        /// Number of equations.
        n_equations: usize,
        /// Number of variables.
        n_variables: usize,
        /// A maximum matching of the pattern.
        matching: Matching,
    },
    /// An offset exceeds what can be stored.
    #[error("equation {equation} would have to be differentiated {offset} times")]
    OffsetTooLarge {
        /// Equation at fault.
        equation: u32,
        /// Its offset.
        offset: i64,
    },
}

/// Structural analysis by the Sigma-method.
pub fn sigma_analysis(incidence: &Incidence) -> Result<SigmaAnalysis, OffsetsError> {
    sigma_analysis_from(incidence, &[])
}

/// The same with the smallest offsets that differentiate each variable up to a given order at least, d_j >= l_j; an
/// empty list asks for nothing.
pub fn sigma_analysis_from(incidence: &Incidence, least: &[u32]) -> Result<SigmaAnalysis, OffsetsError> {
    if !incidence.is_scattered() {
        return analyse(incidence, least);
    }
    let Renumbered { incidence: local, order } = Renumbered::breadth_first(incidence);
    let places = order.variables.iter().take(least.len());
    let local_least: Vec<u32> = places.map(|&place| least[place as usize]).collect();
    match analyse(&local, &local_least) {
        Ok(analysis) => Ok(analysis.in_original_numbers(&order)),
        Err(OffsetsError::StructurallySingular { n_equations, n_variables, matching }) => {
            let matching = matching.in_original_numbers(&order);
            Err(OffsetsError::StructurallySingular { n_equations, n_variables, matching })
        }
        Err(OffsetsError::OffsetTooLarge { equation, offset }) => {
            Err(OffsetsError::OffsetTooLarge { equation: order.equations[equation as usize], offset })
        }
    }
}

fn analyse(incidence: &Incidence, least: &[u32]) -> Result<SigmaAnalysis, OffsetsError> {
    let matching = maximum_matching(incidence);
    if !matching.is_perfect() {
        let (n_equations, n_variables) = (incidence.n_equations(), incidence.n_variables());
        return Err(OffsetsError::StructurallySingular { n_equations, n_variables, matching });
    }
    let coarse_blocks = matched_components(incidence, &matching, |_| true);
    let block_slots = coarse_blocks.block_slots();
    let inner = incidence.filter(|equation, entry| {
        let partner = matching.equation_slots()[incidence.variables()[entry] as usize];
        block_slots[partner as usize] == block_slots[equation]
    });
    let assignment = transversal::highest_value_transversal(&inner, &coarse_blocks);
    let offsets = smallest_offsets(incidence, &coarse_blocks, &assignment, least)?;
    Ok(conclude(incidence, coarse_blocks, assignment.transversal, offsets))
}

/// sigma of each equation at its variable of the transversal.
fn transversal_orders(incidence: &Incidence, transversal: &Matching) -> Vec<u8> {
    (0..incidence.n_equations())
        .map(|equation| {
            let variable = transversal.variable_slots()[equation];
            incidence.order(equation, variable).unwrap_or(0)
        })
        .collect()
}

struct Offsets {
    equation: Vec<u32>,
    variable: Vec<u32>,
}

/// The smallest offsets for a given transversal, from any optimal offsets inside the blocks.
///
/// Write c_i = c0_i + u_i with the optimal offsets c0, d0 of the block. A demand of i on k through variable j, paired
/// with k, then reads u_k >= u_i - (d0_j - c0_i - sigma_ij), where the bracket is not negative. So the equation with
/// the largest u has its final value, and so on downwards: Dijkstra's rule.
fn smallest_offsets(
    incidence: &Incidence,
    blocks: &BlockTriangularForm,
    assignment: &transversal::Assignment,
    least: &[u32],
) -> Result<Offsets, OffsetsError> {
    let n = incidence.n_equations();
    let orders = transversal_orders(incidence, &assignment.transversal);
    let partner = assignment.transversal.equation_slots();
    let block_slots = blocks.block_slots();
    // What is asked for and demands of later blocks, then u + c0.
    let mut offset = vec![0i64; n];
    for (&least, &equation) in least.iter().zip(partner) {
        let equation = equation as usize;
        offset[equation] = offset[equation].max(i64::from(least) - i64::from(orders[equation]));
    }
    let mut is_settled = vec![false; n];
    let mut queue = LevelQueue::new();

    for block in blocks.blocks().rev() {
        let block_idx = block_slots[block.equations[0] as usize];
        if block.size() > 1 {
            // Levels are -u, so that the smallest level is served first.
            let level = |equation: u32| assignment.equation_offsets[equation as usize] - offset[equation as usize];
            queue.restart(block.equations.iter().map(|&equation| level(equation)).min().unwrap_or(0));
            for &equation in block.equations {
                queue.push(level(equation), equation);
            }
            while let Some(item) = queue.pop() {
                let equation = item.node as usize;
                if is_settled[equation] {
                    continue;
                }
                is_settled[equation] = true;
                let own = assignment.equation_offsets[equation];
                offset[equation] = own - item.level;
                for entry in incidence.entry_range(equation) {
                    let variable = incidence.variables()[entry] as usize;
                    let next = partner[variable] as usize;
                    if block_slots[next] != block_idx || is_settled[next] {
                        continue;
                    }
                    let slack = assignment.variable_offsets[variable] - own - i64::from(incidence.orders()[entry]);
                    let level = item.level + slack;
                    let demanded = assignment.equation_offsets[next] - level;
                    if demanded > offset[next] {
                        offset[next] = demanded;
                        queue.push(level, next as u32);
                    }
                }
            }
        }
        for &equation in block.equations {
            let equation = equation as usize;
            for entry in incidence.entry_range(equation) {
                let variable = incidence.variables()[entry] as usize;
                let next = partner[variable] as usize;
                if block_slots[next] != block_idx {
                    let demanded = offset[equation] + i64::from(incidence.orders()[entry]) - i64::from(orders[next]);
                    offset[next] = offset[next].max(demanded);
                }
            }
        }
    }

    let too_large = |equation: usize, offset: i64| OffsetsError::OffsetTooLarge { equation: equation as u32, offset };
    let mut equation_offsets = Vec::with_capacity(n);
    let mut variable_offsets = vec![0u32; n];
    for (equation, &value) in offset.iter().enumerate() {
        equation_offsets.push(u32::try_from(value).map_err(|_| too_large(equation, value))?);
        let highest = value + i64::from(orders[equation]);
        let variable = assignment.transversal.variable_slots()[equation] as usize;
        variable_offsets[variable] = u32::try_from(highest).map_err(|_| too_large(equation, highest))?;
    }
    Ok(Offsets { equation: equation_offsets, variable: variable_offsets })
}

/// Fine blocks and the figures that follow from the offsets.
fn conclude(
    incidence: &Incidence,
    coarse_blocks: BlockTriangularForm,
    transversal: Matching,
    offsets: Offsets,
) -> SigmaAnalysis {
    let Offsets { equation: equation_offsets, variable: variable_offsets } = offsets;
    let jacobian = incidence.filter(|equation, entry| {
        let order = u32::from(incidence.orders()[entry]);
        variable_offsets[incidence.variables()[entry] as usize] == equation_offsets[equation] + order
    });
    let fine_blocks = matched_components(&jacobian, &transversal, |_| true);

    let highest = equation_offsets.iter().copied().max().unwrap_or(0);
    let has_algebraic = variable_offsets.contains(&0);
    let related_index = related_index(&jacobian, &transversal, &fine_blocks, &equation_offsets, &variable_offsets);
    let n_constraints: u64 = equation_offsets.iter().map(|&offset| u64::from(offset)).sum();
    let n_orders: u64 = variable_offsets.iter().map(|&offset| u64::from(offset)).sum();
    SigmaAnalysis {
        transversal,
        equation_offsets,
        variable_offsets,
        coarse_blocks,
        fine_blocks,
        structural_index: highest + u32::from(has_algebraic),
        related_index,
        // The value of the transversal, a sum of orders, is never negative.
        degrees_of_freedom: n_orders - n_constraints,
        n_constraints,
    }
}

/// max over i of c_i + r_i, where r_i = 1 if a variable with d_j = 0 depends, through the system Jacobian, on
/// equation i.
fn related_index(
    jacobian: &Incidence,
    transversal: &Matching,
    fine_blocks: &BlockTriangularForm,
    equation_offsets: &[u32],
    variable_offsets: &[u32],
) -> u32 {
    let n_blocks = fine_blocks.n_blocks();
    let block_slots = fine_blocks.block_slots();
    let mut is_needed_again = vec![false; n_blocks];
    let mut index = 0;
    for block_idx in (0..n_blocks).rev() {
        let block = fine_blocks.block(block_idx);
        if block.variables.iter().any(|&variable| variable_offsets[variable as usize] == 0) {
            is_needed_again[block_idx] = true;
        }
        let surcharge = is_needed_again[block_idx];
        for &equation in block.equations {
            index = index.max(equation_offsets[equation as usize] + u32::from(surcharge));
            if surcharge {
                for &variable in jacobian.variables_of(equation as usize) {
                    is_needed_again[block_slots[transversal.equation_slots()[variable as usize] as usize] as usize] =
                        true;
                }
            }
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidence::{Entry, IncidenceBuilder};

    fn signature(n_variables: usize, rows: &[&[(u32, u8)]]) -> Incidence {
        let mut builder = IncidenceBuilder::new(n_variables).unwrap();
        for row in rows {
            builder.push_equation(row.iter().map(|&(variable, order)| Entry { variable, order })).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn the_pendulum_has_index_three_and_two_degrees_of_freedom() {
        // x'' + x l = 0, y'' + y l = g, x^2 + y^2 = L^2.
        let incidence = signature(3, &[&[(0, 2), (2, 0)], &[(1, 2), (2, 0)], &[(0, 0), (1, 0)]]);
        let analysis = sigma_analysis(&incidence).unwrap();
        assert_eq!(analysis.equation_offsets, [0, 0, 2]);
        assert_eq!(analysis.variable_offsets, [2, 2, 0]);
        assert_eq!((analysis.structural_index, analysis.related_index), (3, 3));
        assert_eq!(analysis.degrees_of_freedom, 2);
        assert_eq!(analysis.n_constraints, 2);
        assert_eq!(analysis.coarse_blocks.n_blocks(), 1);
        assert_eq!(analysis.fine_blocks.n_blocks(), 1);
    }

    #[test]
    fn two_coupled_pendulums_of_pryce_have_index_five() {
        // Pryce's example: the length of the second pendulum depends on the tension of the first.
        let incidence = signature(
            6,
            &[
                &[(0, 2), (2, 0)],
                &[(1, 2), (2, 0)],
                &[(0, 0), (1, 0)],
                &[(3, 2), (5, 0)],
                &[(4, 2), (5, 0)],
                &[(3, 0), (4, 0), (2, 0)],
            ],
        );
        let analysis = sigma_analysis(&incidence).unwrap();
        assert_eq!(analysis.equation_offsets, [2, 2, 4, 0, 0, 2]);
        assert_eq!(analysis.variable_offsets, [4, 4, 2, 2, 2, 0]);
        assert_eq!(analysis.structural_index, 5);
        assert_eq!(analysis.degrees_of_freedom, 4);
        assert_eq!(analysis.coarse_blocks.n_blocks(), 2);
        assert_eq!(analysis.coarse_blocks.block(0).size(), 3);
        assert!(analysis.coarse_blocks.block(0).equations.contains(&2));
    }

    #[test]
    fn an_unrelated_algebraic_variable_does_not_raise_the_related_index() {
        // A pendulum with the multiplier as a derivative (index 2) beside y = f(t) (index 1).
        let incidence = signature(4, &[&[(0, 2), (2, 1)], &[(1, 2), (2, 1)], &[(0, 0), (1, 0)], &[(3, 0)]]);
        let analysis = sigma_analysis(&incidence).unwrap();
        assert_eq!(analysis.equation_offsets, [0, 0, 2, 0]);
        assert_eq!((analysis.structural_index, analysis.related_index), (3, 2));
    }

    #[test]
    fn a_velocity_can_be_asked_for_as_a_state() {
        // s1' = v1, s2' = v2, v1' = 0, v2' = 0, d = s2 - s1, v = d'.
        let rows: [&[(u32, u8)]; 6] =
            [&[(0, 1), (1, 0)], &[(2, 1), (3, 0)], &[(1, 1)], &[(3, 1)], &[(0, 0), (2, 0), (4, 0)], &[(4, 1), (5, 0)]];
        let incidence = signature(6, &rows);
        let plain = sigma_analysis(&incidence).unwrap();
        assert_eq!(plain.equation_offsets, [0, 0, 0, 0, 1, 0]);
        // With v' too, d'' and so s1'' and s2'' are needed.
        let raised = sigma_analysis_from(&incidence, &[0, 0, 0, 0, 0, 1]).unwrap();
        assert_eq!(raised.equation_offsets, [1, 1, 0, 0, 2, 1]);
        assert_eq!(raised.variable_offsets, [2, 1, 2, 1, 2, 1]);
        assert_eq!(raised.degrees_of_freedom, plain.degrees_of_freedom);
    }

    #[test]
    fn an_explicit_ode_has_index_zero() {
        let analysis = sigma_analysis(&signature(2, &[&[(0, 1), (1, 0)], &[(0, 0), (1, 1)]])).unwrap();
        assert_eq!((analysis.structural_index, analysis.related_index), (0, 0));
        assert_eq!(analysis.degrees_of_freedom, 2);
        assert_eq!(analysis.fine_blocks.n_blocks(), 2);
    }

    #[test]
    fn an_empty_system_is_analysed() {
        let analysis = sigma_analysis(&signature(0, &[])).unwrap();
        assert_eq!((analysis.structural_index, analysis.degrees_of_freedom), (0, 0));
    }

    #[test]
    fn a_singular_pattern_is_refused_with_its_matching() {
        let refused = sigma_analysis(&signature(2, &[&[(0, 1)], &[(0, 0)]]));
        assert!(matches!(refused, Err(OffsetsError::StructurallySingular { matching, .. }) if matching.len() == 1));
    }
}
