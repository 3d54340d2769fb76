//! A highest-value transversal with optimal offsets that prove it.
//!
//! As a linear program: maximise sum sigma_ij over transversals; its dual has offsets c_i, d_j with d_j - c_i >=
//! sigma_ij and minimises sum d_j - sum c_i. A transversal inside the tight entries (d_j - c_i = sigma_ij) is
//! optimal.
//!
//! The primal-dual method starts with c = 0, d_j = max_i sigma_ij and a maximum matching of the tight entries. While
//! equations are unmatched, one search from all of them together, by levels of accumulated slack, finds the smallest
//! slack D at which an unmatched variable is reached; the offsets of everything reached at a level l < D rise by D -
//! l, which makes the entries on the way tight, and the matching of the tight entries is completed. The unmatched
//! equations of a block rise together, so that D added up times their number is bounded by the value of the
//! transversal: O(sqrt(n k)) rounds for orders up to k, as in [@gabow1989]. For models of physical systems the number
//! of rounds is about the index.
//!
//! Where a round settles only few equations, each at its own D, searches from single equations with a bounded number
//! of steps settle those whose variable is close by, at a cost that does not depend on the size of the block.

use crate::blocks::BlockTriangularForm;
use crate::incidence::Incidence;
use crate::matching::{BothWays, Matching, PushRelabel, UNMATCHED, kernel_matching};

use super::level_queue::LevelQueue;

/// A transversal of largest value and offsets, optimal but not the smallest, which are tight on it.
pub(super) struct Assignment {
    pub(super) transversal: Matching,
    pub(super) equation_offsets: Vec<i64>,
    pub(super) variable_offsets: Vec<i64>,
}

/// Highest-value transversal of a block-diagonal pattern: `inner` has only entries inside the irreducible `blocks`,
/// all of which have a transversal.
pub(super) fn highest_value_transversal(inner: &Incidence, blocks: &BlockTriangularForm) -> Assignment {
    let n = inner.n_equations();
    let mut variable_offsets = vec![0i64; n];
    for (&variable, &order) in inner.variables().iter().zip(inner.orders()) {
        let highest = &mut variable_offsets[variable as usize];
        *highest = (*highest).max(i64::from(order));
    }
    let equation_offsets = vec![0i64; n];

    let tight = inner
        .filter(|_, entry| i64::from(inner.orders()[entry]) == variable_offsets[inner.variables()[entry] as usize]);
    let tight_by_variable = tight.transpose();
    let tight = BothWays { by_equation: &tight, by_variable: &tight_by_variable };
    let mut transversal = kernel_matching(tight);
    let mut free = transversal.unmatched_equations();
    let mut push_relabel = PushRelabel::new(n);
    push_relabel.complete(tight, blocks.variables(), &mut transversal, &mut free, |_, _| true);

    free.sort_unstable_by_key(|&equation| blocks.block_slots()[equation as usize]);
    let by_variable = inner.transpose();
    let pattern = BothWays { by_equation: inner, by_variable: &by_variable };
    let mut state = Assignment { transversal, equation_offsets, variable_offsets };
    let mut search = SlackSearch::new(n);
    for group in free.chunk_by(|&a, &b| blocks.block_slots()[a as usize] == blocks.block_slots()[b as usize]) {
        let block = blocks.block(blocks.block_slots()[group[0] as usize] as usize);
        let mut free = group.to_vec();
        while !free.is_empty() {
            let n_before = free.len();
            search.raise_together(inner, &mut state, &free);
            let Assignment { transversal, equation_offsets, variable_offsets } = &mut state;
            push_relabel.complete(pattern, block.variables, transversal, &mut free, |equation, entry| {
                variable_offsets[entry.variable as usize]
                    == equation_offsets[equation as usize] + i64::from(entry.order)
            });
            if free.len() > n_before / 2 {
                search.pair_nearby(inner, &mut state, &mut free, block.size());
            }
        }
    }
    state
}

/// Work space of the searches by accumulated slack.
struct SlackSearch {
    distance: Vec<i64>,
    round_of: Vec<u32>,
    /// The variable by which an equation was reached, and the equation before it.
    came_by: Vec<Step>,
    round: u32,
    reached: Vec<u32>,
    queue: LevelQueue,
}

/// One step of a search: from an equation to a variable in it.
#[derive(Clone, Copy)]
struct Step {
    equation: u32,
    variable: u32,
}

/// Where a search ended.
struct Nearest {
    slack: i64,
    step: Step,
}

/// First bound on the equations settled by a search from a single equation.
const SMALLEST_SEARCH: usize = 32;

/// Searches from single equations may cost this many times the size of the block before all join in one search.
const EFFORT_NEARBY: usize = 2;

impl SlackSearch {
    fn new(n: usize) -> Self {
        let nowhere = Step { equation: UNMATCHED, variable: UNMATCHED };
        Self {
            distance: vec![0; n],
            round_of: vec![0; n],
            came_by: vec![nowhere; n],
            round: 0,
            reached: Vec::new(),
            queue: LevelQueue::new(),
        }
    }

    /// Pairs each free equation for which a search of bounded size finds an unmatched variable; the bound doubles as
    /// long as all searches together stay within a multiple of the block's size. What remains is left in `free`.
    fn pair_nearby(&mut self, inner: &Incidence, state: &mut Assignment, free: &mut Vec<u32>, block_size: usize) {
        let mut bound = SMALLEST_SEARCH;
        while !free.is_empty() && free.len().saturating_mul(bound) <= EFFORT_NEARBY * block_size.max(SMALLEST_SEARCH) {
            free.retain(|&equation| {
                let Some(nearest) = self.search(inner, state, &[equation], bound) else { return true };
                self.raise(state, nearest.slack);
                self.flip(state, nearest.step);
                false
            });
            bound *= 2;
        }
    }

    /// Raises the offsets until an unmatched variable is reached from the free equations by tight entries.
    fn raise_together(&mut self, inner: &Incidence, state: &mut Assignment, free: &[u32]) {
        let nearest = self
            .search(inner, state, free, usize::MAX)
            .expect("an irreducible block has a transversal, so that an unmatched variable is within reach");
        self.raise(state, nearest.slack);
    }

    /// Finds the unmatched variable of least accumulated slack; `None` if there is none among the first `bound`
    /// equations.
    fn search(&mut self, inner: &Incidence, state: &Assignment, free: &[u32], bound: usize) -> Option<Nearest> {
        let Assignment { transversal, equation_offsets, variable_offsets } = state;
        let nowhere = Step { equation: UNMATCHED, variable: UNMATCHED };
        self.round += 1;
        self.reached.clear();
        self.queue.restart(0);
        for &equation in free {
            self.reach(equation, 0, nowhere);
        }
        let mut nearest: Option<Nearest> = None;
        let mut limit = i64::MAX;
        let mut n_settled = 0;
        while let Some(item) = self.queue.pop() {
            if item.level >= limit {
                break;
            }
            let equation = item.node as usize;
            if self.distance[equation] < item.level {
                continue;
            }
            n_settled += 1;
            if n_settled > bound {
                return None;
            }
            for entry in inner.entry_range(equation) {
                let variable = inner.variables()[entry];
                let slack =
                    variable_offsets[variable as usize] - equation_offsets[equation] - i64::from(inner.orders()[entry]);
                let level = item.level + slack;
                if level >= limit {
                    continue;
                }
                let step = Step { equation: item.node, variable };
                let next = transversal.equation_slots()[variable as usize];
                if next == UNMATCHED {
                    limit = level;
                    nearest = Some(Nearest { slack: level, step });
                } else if self.round_of[next as usize] != self.round || self.distance[next as usize] > level {
                    self.reach(next, level, step);
                }
            }
        }
        nearest
    }

    fn reach(&mut self, equation: u32, level: i64, step: Step) {
        let at = equation as usize;
        if self.round_of[at] != self.round {
            self.round_of[at] = self.round;
            self.reached.push(equation);
        }
        self.distance[at] = level;
        self.came_by[at] = step;
        self.queue.push(level, equation);
    }

    /// Raises what was reached at less than `slack` by the difference.
    fn raise(&self, state: &mut Assignment, slack: i64) {
        for &equation in &self.reached {
            let rise = slack - self.distance[equation as usize];
            if rise > 0 {
                state.equation_offsets[equation as usize] += rise;
                let variable = state.transversal.variable_slots()[equation as usize];
                if variable != UNMATCHED {
                    state.variable_offsets[variable as usize] += rise;
                }
            }
        }
    }

    /// Flips the path that ended with `last`.
    fn flip(&self, state: &mut Assignment, last: Step) {
        let mut step = last;
        state.transversal.flip(core::iter::from_fn(|| {
            let current = step;
            (current.equation != UNMATCHED).then(|| {
                step = self.came_by[current.equation as usize];
                (current.equation, current.variable)
            })
        }));
    }
}
