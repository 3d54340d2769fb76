//! Block-triangular form: the finest sequence of subsystems that can be solved one after the other.
//!
//! With equations paired with variables, let equation i need equation k when a variable of i is paired with k. The
//! strongly connected components of this graph are the irreducible blocks; they do not depend on the pairing. In
//! solve order the matrix is
//!
//! ```text
//! [ A_11                ]   block 1, solved first
//! [ A_21  A_22          ]   block 2, uses variables of block 1
//! [  ..    ..  ..  A_mm ]   block m
//! ```
//!
//! The components come from Tarjan's algorithm [@tarjan1972] with an explicit stack, O(nonzeros), in the order of
//! solution.

use thiserror::Error;

use crate::incidence::{Incidence, LocalOrder};
use crate::matching::{Matching, UNMATCHED};

/// Irreducible blocks in the order in which they are solved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTriangularForm {
    block_starts: Vec<u32>,
    equations: Vec<u32>,
    variables: Vec<u32>,
    block_of_equation: Vec<u32>,
}

/// One irreducible block: position k of `variables` is paired with position k of `equations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Equations of the block.
    pub equations: &'a [u32],
    /// Variables the block determines.
    pub variables: &'a [u32],
}

impl Block<'_> {
    /// Number of equations, which is the number of variables.
    pub fn size(&self) -> usize {
        self.equations.len()
    }
}

/// Why there is no block-triangular form.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// Not every equation and variable has a partner.
    #[error("{n_equations} equations and {n_variables} variables have only {n_pairs} pairs")]
    NotPerfect {
        /// Number of equations.
        n_equations: usize,
        /// Number of variables.
        n_variables: usize,
        /// Number of pairs.
        n_pairs: usize,
    },
}

impl BlockTriangularForm {
    /// Number of blocks.
    pub fn n_blocks(&self) -> usize {
        self.block_starts.len() - 1
    }

    /// A block by its place in the order of solution.
    pub fn block(&self, block_idx: usize) -> Block<'_> {
        let range = self.places(block_idx);
        Block { equations: &self.equations[range.clone()], variables: &self.variables[range] }
    }

    /// Places of a block in [`BlockTriangularForm::equations`] and [`BlockTriangularForm::variables`].
    pub fn places(&self, block_idx: usize) -> core::ops::Range<usize> {
        self.block_starts[block_idx] as usize..self.block_starts[block_idx + 1] as usize
    }

    /// All blocks in the order of solution.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = Block<'_>> + ExactSizeIterator {
        (0..self.n_blocks()).map(|block_idx| self.block(block_idx))
    }

    /// The block an equation belongs to; `None` for an equation outside the decomposed part.
    pub fn block_of_equation(&self, equation: usize) -> Option<u32> {
        Some(self.block_of_equation[equation]).filter(|&block| block != UNMATCHED)
    }

    /// All equations, block after block.
    pub fn equations(&self) -> &[u32] {
        &self.equations
    }

    /// All variables, block after block, each at the place of its equation.
    pub fn variables(&self) -> &[u32] {
        &self.variables
    }

    /// Size of the largest block, 0 without blocks.
    pub fn largest_block(&self) -> usize {
        self.blocks().map(|block| block.size()).max().unwrap_or(0)
    }

    /// The blocks in original numbers, when those of `self` are numbers of `order`.
    pub(crate) fn in_original_numbers(&self, order: &LocalOrder) -> BlockTriangularForm {
        let mut block_of_equation = vec![UNMATCHED; self.block_of_equation.len()];
        for (&equation, &block) in order.equations.iter().zip(&self.block_of_equation) {
            block_of_equation[equation as usize] = block;
        }
        BlockTriangularForm {
            block_starts: self.block_starts.clone(),
            equations: self.equations.iter().map(|&place| order.equations[place as usize]).collect(),
            variables: self.variables.iter().map(|&place| order.variables[place as usize]).collect(),
            block_of_equation,
        }
    }

    #[inline]
    pub(crate) fn block_slots(&self) -> &[u32] {
        &self.block_of_equation
    }
}

/// The block-triangular form of a perfectly matched pattern.
pub fn block_triangular_form(incidence: &Incidence, matching: &Matching) -> Result<BlockTriangularForm, BlocksError> {
    let (n_equations, n_variables) = (incidence.n_equations(), incidence.n_variables());
    let fits = matching.variable_slots().len() == n_equations && matching.equation_slots().len() == n_variables;
    if !fits || !matching.is_perfect() {
        return Err(BlocksError::NotPerfect { n_equations, n_variables, n_pairs: matching.len() });
    }
    Ok(matched_components(incidence, matching, |_| true))
}

/// One equation on the way of the depth-first search.
struct Frame {
    equation: u32,
    next_entry: u32,
}

/// Strongly connected components of those matched equations that `is_member` names. Entries whose variable is
/// unmatched or paired with an equation that is not a member are passed over.
pub(crate) fn matched_components(
    incidence: &Incidence,
    matching: &Matching,
    is_member: impl Fn(usize) -> bool,
) -> BlockTriangularForm {
    const UNSEEN: u32 = 0;
    let n = incidence.n_equations();
    // 0: unseen; otherwise discovery number or, later, the lowest number reachable; DONE once the component is closed.
    const DONE: u32 = u32::MAX;
    let mut low = vec![UNSEEN; n];
    let mut block_of_equation = vec![UNMATCHED; n];
    let mut block_starts = vec![0u32];
    let mut equations = Vec::with_capacity(n);
    let mut open: Vec<u32> = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut clock = 0u32;
    let equation_slots = matching.equation_slots();

    for root in 0..n {
        if low[root] != UNSEEN || matching.variable_slots()[root] == UNMATCHED || !is_member(root) {
            continue;
        }
        clock += 1;
        low[root] = clock;
        open.push(root as u32);
        frames.push(Frame { equation: root as u32, next_entry: incidence.entry_range(root).start as u32 });
        // Discovery numbers of the equations on `frames`, kept apart because `low` sinks.
        let mut discovery = vec![clock];
        while let Some(frame) = frames.last_mut() {
            let equation = frame.equation as usize;
            let end = incidence.entry_range(equation).end as u32;
            let mut descend = None;
            while frame.next_entry < end {
                let variable = incidence.variables()[frame.next_entry as usize];
                frame.next_entry += 1;
                let next = equation_slots[variable as usize];
                if next == UNMATCHED || next as usize == equation || !is_member(next as usize) {
                    continue;
                }
                let reached = low[next as usize];
                if reached == UNSEEN {
                    descend = Some(next);
                    break;
                }
                if reached != DONE && reached < low[equation] {
                    low[equation] = reached;
                }
            }
            if let Some(next) = descend {
                clock += 1;
                low[next as usize] = clock;
                discovery.push(clock);
                open.push(next);
                let next_entry = incidence.entry_range(next as usize).start as u32;
                frames.push(Frame { equation: next, next_entry });
                continue;
            }
            let own_low = low[equation];
            frames.pop();
            let is_root = discovery.pop() == Some(own_low);
            if is_root {
                let block = block_starts.len() as u32 - 1;
                while let Some(member) = open.pop() {
                    low[member as usize] = DONE;
                    block_of_equation[member as usize] = block;
                    equations.push(member);
                    if member as usize == equation {
                        break;
                    }
                }
                block_starts.push(equations.len() as u32);
            } else if let Some(parent) = frames.last() {
                let parent_low = &mut low[parent.equation as usize];
                *parent_low = (*parent_low).min(own_low);
            }
        }
    }
    let variables = equations.iter().map(|&equation| matching.variable_slots()[equation as usize]).collect();
    BlockTriangularForm { block_starts, equations, variables, block_of_equation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidence::pattern;
    use crate::matching::maximum_matching;

    #[test]
    fn a_loop_between_two_single_equations_is_found_in_solve_order() {
        // f0(x0, x1, x3), f1(x1, x2), f2(x2, x1), f3(x3, x0, x1)... with x1, x2 from f1, f2; then x0, x3; last x4.
        let incidence = pattern(5, &[&[4, 0], &[1, 2], &[2, 1], &[3, 0, 1], &[0, 1]]);
        let matching = maximum_matching(&incidence);
        let form = block_triangular_form(&incidence, &matching).unwrap();
        let sizes: Vec<usize> = form.blocks().map(|block| block.size()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 5);
        assert_eq!(form.largest_block(), 2);
        let mut first = form.block(0).variables.to_vec();
        first.sort_unstable();
        assert_eq!(first, [1, 2]);
        assert_eq!(form.block(1).variables, [0]);
    }

    #[test]
    fn an_imperfect_matching_is_refused() {
        let incidence = pattern(2, &[&[0], &[0]]);
        let matching = maximum_matching(&incidence);
        assert_eq!(
            block_triangular_form(&incidence, &matching),
            Err(BlocksError::NotPerfect { n_equations: 2, n_variables: 2, n_pairs: 1 })
        );
    }
}
