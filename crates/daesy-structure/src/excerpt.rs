//! Equations of a model that can be looked at on their own.
//!
//! Ranks of derivative arrays are decided by dense matrices, so that what is looked at must be small. It can be, where
//! the system Jacobian of the regular form is block triangular: if all blocks but some are regular, the equations of
//! these and of what they read,
//!
//! ```text
//! P:  F_P(t, x_P, x_P', ..) = 0         what the blocks in question read, closed over derivatives
//! R:  F_R(t, x_P, x_P', .., x_R, x_R', ..) = 0      everything else, regular for whatever x_P is
//! ```
//!
//! are a model of their own: R determines x_R, and says nothing about x_P. Free start values add up, d = d_P + d_R, and
//! an equation of P that is replaced by one with the same solutions of P leaves the solutions of the whole as they are.
//! Sets of such equations that share no unknown are models of their own, too, each.
//!
//! Where even P is too large, the blocks in question are looked at with the nearest of what they read, and the rest is
//! known functions of time, whichever they are: what depends on each other for all of these depends on each other for
//! those that solve the rest.

use std::collections::VecDeque;

use daesy_graph::flat::{Equation, FlatDae, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::{ExprId, Leaf, Reach, VarId};
use rustc_hash::FxHashSet;

/// Equations and unknowns of a model that are looked at on their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    /// Positions of the equations, in order.
    pub equations: Vec<usize>,
    /// The unknowns, as many, in order.
    pub unknowns: Vec<VarId>,
    /// Unknowns of other equations that these read; known functions of time.
    pub border: Vec<VarId>,
    /// Positions of the equations of discrete variables, which belong to every excerpt.
    discrete: Vec<usize>,
}

/// Which unknowns equations hold, and by which equations each is found.
struct Reading {
    /// By equation.
    unknowns: Vec<Vec<VarId>>,
    /// By variable: a set of equations.
    set_of: Vec<usize>,
    /// By set: equations that are solved together.
    equations: Vec<Vec<usize>>,
    /// By set: what they are solved for.
    solved: Vec<Vec<VarId>>,
    /// Equations of discrete variables.
    discrete: Vec<usize>,
}

const NONE: usize = usize::MAX;

impl Reading {
    fn new(flat: &FlatDae, regular: &RegularDae) -> Self {
        let mut set_of = vec![NONE; flat.variables.len()];
        let (mut equations, mut solved) = (Vec::new(), Vec::new());
        for block in &regular.blocks {
            let range = block.start as usize..(block.start + block.len) as usize;
            let unknowns: Vec<VarId> = regular.unknowns[range.clone()].iter().map(|unknown| unknown.var).collect();
            unknowns.iter().for_each(|var| set_of[var.index()] = equations.len());
            equations.push(regular.equations[range].iter().map(|equation| equation.source as usize).collect());
            solved.push(unknowns);
        }
        for eliminated in &regular.eliminated {
            set_of[eliminated.var.index()] = equations.len();
            equations.push(vec![eliminated.source as usize]);
            solved.push(vec![eliminated.var]);
        }
        let mut reach = Reach::new();
        let unknowns = flat.equations.iter().map(|it| unknowns_in(flat, &mut reach, &[it.lhs, it.rhs])).collect();
        let discrete = regular.discrete_equations.iter().map(|equation| equation.source as usize).collect();
        Self { unknowns, set_of, equations, solved, discrete }
    }

    /// The sets that a set reads.
    fn read(&self, set: usize) -> impl Iterator<Item = usize> {
        let unknowns = self.equations[set].iter().flat_map(|&at| &self.unknowns[at]);
        unknowns.map(|var| self.set_of[var.index()]).filter(move |&read| read != NONE && read != set)
    }

    /// Everything that sets read, those read directly first, as long as there are at most `limit` unknowns; `None` if
    /// the sets themselves have more.
    fn closure(&self, sets: &[usize], limit: usize) -> Option<Vec<usize>> {
        let mut is_in = vec![false; self.equations.len()];
        let mut queue: VecDeque<usize> = VecDeque::new();
        let (mut found, mut n) = (Vec::new(), 0);
        for &set in sets {
            if !std::mem::replace(&mut is_in[set], true) {
                n += self.solved[set].len();
                found.push(set);
                queue.push_back(set);
            }
        }
        if n > limit {
            return None;
        }
        while let Some(set) = queue.pop_front() {
            for read in self.read(set) {
                if !is_in[read] && n + self.solved[read].len() <= limit {
                    is_in[read] = true;
                    n += self.solved[read].len();
                    found.push(read);
                    queue.push_back(read);
                }
            }
        }
        Some(found)
    }

    /// Sets that hang together by what they read.
    fn components(&self, sets: &[usize]) -> Vec<Vec<usize>> {
        let mut parent: Vec<usize> = (0..self.equations.len()).collect();
        let mut is_in = vec![false; self.equations.len()];
        sets.iter().for_each(|&set| is_in[set] = true);
        for &set in sets {
            for read in self.read(set).filter(|&read| is_in[read]) {
                let (a, b) = (root(&mut parent, set), root(&mut parent, read));
                parent[a.max(b)] = a.min(b);
            }
        }
        let mut place = vec![NONE; self.equations.len()];
        let mut found: Vec<Vec<usize>> = Vec::new();
        for &set in sets {
            let root = root(&mut parent, set);
            if place[root] == NONE {
                place[root] = found.len();
                found.push(Vec::new());
            }
            found[place[root]].push(set);
        }
        found
    }

    fn excerpt(&self, sets: &[usize]) -> Excerpt {
        let mut equations: Vec<usize> = sets.iter().flat_map(|&set| self.equations[set].iter().copied()).collect();
        let mut unknowns: Vec<VarId> = sets.iter().flat_map(|&set| self.solved[set].iter().copied()).collect();
        equations.sort_unstable();
        unknowns.sort_unstable();
        let mut border: Vec<VarId> = equations.iter().flat_map(|&at| self.unknowns[at].iter().copied()).collect();
        border.sort_unstable();
        border.dedup();
        border.retain(|var| unknowns.binary_search(var).is_err());
        Excerpt { equations, unknowns, border, discrete: self.discrete.clone() }
    }
}

fn root(parent: &mut [usize], mut at: usize) -> usize {
    while parent[at] != at {
        parent[at] = parent[parent[at]];
        at = parent[at];
    }
    at
}

fn unknowns_in(flat: &FlatDae, reach: &mut Reach, exprs: &[ExprId]) -> Vec<VarId> {
    let mut leaves = Vec::new();
    reach.leaves(&flat.graph, exprs, &mut leaves);
    let unknown = |leaf: &Leaf| match *leaf {
        Leaf::Var { var, .. } if flat.variables[var.index()].kind == VariableKind::Continuous => Some(var),
        _ => None,
    };
    leaves.iter().filter_map(unknown).collect()
}

/// What blocks of a regular form read, in parts that share no unknown, each with at most `limit` unknowns. Of a larger
/// part each block in question is looked at alone, with at most `near` unknowns; `None` if a block has more.
#[must_use]
pub fn excerpts(
    flat: &FlatDae,
    regular: &RegularDae,
    blocks: &[usize],
    limit: usize,
    near: usize,
) -> Option<Vec<Excerpt>> {
    let reading = Reading::new(flat, regular);
    let all = reading.closure(blocks, usize::MAX)?;
    let mut found = Vec::new();
    for component in reading.components(&all) {
        let n: usize = component.iter().map(|&set| reading.solved[set].len()).sum();
        if n <= limit {
            found.push(reading.excerpt(&component));
            continue;
        }
        let mut is_taken = vec![false; reading.equations.len()];
        for &block in component.iter().filter(|set| blocks.contains(set)) {
            if !is_taken[block] {
                let sets = reading.closure(&[block], near)?;
                // Blocks that are looked at already are not replaced twice.
                let sets: Vec<usize> = sets.into_iter().filter(|&set| !is_taken[set]).collect();
                sets.iter().for_each(|&set| is_taken[set] = true);
                found.push(reading.excerpt(&sets));
            }
        }
    }
    Some(found)
}

/// Parts of a model that share no unknown, the first equations first.
#[must_use]
pub fn components(flat: &FlatDae, regular: &RegularDae) -> Vec<Excerpt> {
    let reading = Reading::new(flat, regular);
    let all: Vec<usize> = (0..reading.equations.len()).collect();
    let mut parts: Vec<Excerpt> = reading.components(&all).iter().map(|sets| reading.excerpt(sets)).collect();
    parts.sort_by_key(|part| part.equations.first().copied());
    parts
}

/// What parts of a model leave, with their unknowns as known functions of time; `None` if that is nothing.
#[must_use]
pub fn rest(flat: &FlatDae, regular: &RegularDae, parts: &[&Excerpt]) -> Option<Excerpt> {
    let reading = Reading::new(flat, regular);
    let mut is_taken = vec![false; reading.equations.len()];
    for var in parts.iter().flat_map(|part| &part.unknowns) {
        let set = reading.set_of[var.index()];
        if set != NONE {
            is_taken[set] = true;
        }
    }
    let left: Vec<usize> = (0..reading.equations.len()).filter(|&set| !is_taken[set]).collect();
    (!left.is_empty()).then(|| reading.excerpt(&left))
}

/// Number of variables of the first-order form of a model: derivatives below the highest count.
#[must_use]
pub fn n_columns(flat: &FlatDae) -> usize {
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let mut orders = vec![1usize; flat.variables.len()];
    for equation in &flat.equations {
        reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
        for leaf in &leaves {
            if let Leaf::Var { var, order } = *leaf {
                orders[var.index()] = orders[var.index()].max(usize::from(order));
            }
        }
    }
    let unknowns = flat.variables.iter().zip(&orders).filter(|(variable, _)| variable.kind == VariableKind::Continuous);
    unknowns.map(|(_, order)| order).sum()
}

impl Excerpt {
    /// Whether one of the equations is differentiated in the regular form of the whole.
    #[must_use]
    pub fn differentiates(&self, regular: &RegularDae) -> bool {
        self.equations.iter().any(|&at| regular.verdict.differentiations[at] > 0)
    }

    /// The equations as a model with the same variables, in which those of other equations are known: functions of time
    /// at the border, numbers elsewhere. Discrete variables, and what gives them values, stay.
    #[must_use]
    pub fn model(&self, whole: &FlatDae) -> FlatDae {
        let mut flat = whole.clone();
        let zero = flat.graph.number(0.0);
        let is_known = |var: VarId| self.unknowns.binary_search(&var).is_err();
        for var in (0..whole.variables.len() as u32).map(VarId) {
            let variable = &mut flat.variables[var.index()];
            if variable.kind != VariableKind::Continuous || !is_known(var) {
                continue;
            }
            variable.fixed = None;
            if self.border.binary_search(&var).is_ok() {
                variable.kind = VariableKind::Input;
            } else {
                variable.kind = VariableKind::Parameter;
                variable.binding = Some(zero);
                variable.start = None;
            }
        }
        flat.equations = self.equations.iter().chain(&self.discrete).map(|&at| whole.equations[at].clone()).collect();
        let mut reach = Reach::new();
        flat.initial_equations.retain(|equation| {
            !unknowns_in(whole, &mut reach, &[equation.lhs, equation.rhs]).into_iter().any(is_known)
        });
        flat
    }

    /// The whole with what became of the excerpt's model in its place: variables that were added come last, and the
    /// equations of the excerpt first. The same is done to the positions of `others`, which share nothing with it.
    #[must_use]
    pub fn put_back(&self, whole: &FlatDae, new: FlatDae, others: &mut [Self]) -> FlatDae {
        let mut is_own = vec![false; whole.equations.len()];
        self.equations.iter().for_each(|&at| is_own[at] = true);
        let FlatDae { graph, mut variables, mut equations, .. } = new;
        // Those of discrete variables stay where they were.
        let sides = |equation: &Equation| (equation.lhs, equation.rhs);
        let discrete: FxHashSet<(ExprId, ExprId)> =
            self.discrete.iter().map(|&at| sides(&whole.equations[at])).collect();
        equations.retain(|equation| !discrete.contains(&sides(equation)));
        let mut place = vec![NONE; whole.equations.len()];
        let others_of_whole = (0..whole.equations.len()).filter(|&at| !is_own[at]);
        (equations.len()..).zip(others_of_whole).for_each(|(new, at)| place[at] = new);
        equations.extend(whole.equations.iter().zip(&is_own).filter(|(_, own)| !**own).map(|(it, _)| it.clone()));
        for (new, old) in variables.iter_mut().zip(&whole.variables) {
            if new.kind != old.kind {
                *new = old.clone();
            }
        }
        for other in others {
            other.equations.iter_mut().chain(&mut other.discrete).for_each(|at| *at = place[*at]);
        }
        FlatDae { graph, variables, equations, ..whole.clone() }
    }
}
