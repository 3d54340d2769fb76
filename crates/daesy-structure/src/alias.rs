//! Alias elimination: variables that are another variable up to sign, or known from parameters or an input.
//!
//! Component models consist mostly of equations such as `a = b` and `a + b = 0` from connections. Each of them
//! removes one unknown. The eliminated variable stays reportable: [`Elimination::standings`] gives it in terms of
//! what remains.
//!
//! An equation is used if, after replacing variables already eliminated, it reads `+-a +-b = 0` or `+-a + known = 0`
//! with `known` a sum of terms that hold only parameters and constants, or a single input. No coefficient is divided
//! by, so that the domain never changes.
//!
//! Equal variables are kept in a forest of trees joined by size, with signs along the edges. An equation that cannot
//! be used yet is filed under each of its unknowns and looked at again when one of them becomes known or joins
//! another; of two trees that join, only the equations of the smaller one are looked at. The work is O(n log n) in
//! any order of the equations.

use std::cmp::Reverse;
use std::collections::VecDeque;

use daesy_graph::flat::{FlatDae, StateSelect, Variable, VariableKind};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, UnaryOp, VarId};

/// A variable that was eliminated by an equation of the flat model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EliminatedBy {
    /// The variable.
    pub var: VarId,
    /// Position of the equation in `FlatDae::equations`.
    pub equation: u32,
}

/// What a variable is after elimination.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Standing {
    /// It remains.
    Remains,
    /// It is another variable, or its negative.
    Alias {
        /// The variable that remains.
        of: VarId,
        /// Whether the sign changes.
        is_negated: bool,
    },
    /// It is an expression in parameters, constants and inputs.
    Known(ExprId),
}

/// The result of alias elimination.
#[derive(Clone, Debug)]
pub struct Elimination {
    /// The standing of every variable of the flat model.
    pub standings: Vec<Standing>,
    /// Which equation eliminated which variable, in the order found.
    pub eliminated: Vec<EliminatedBy>,
    /// Whether each equation of the flat model was used up.
    pub is_used: Vec<bool>,
}

/// Sums longer than this are no aliases; looking further would cost more than it finds.
const MAX_TERMS: usize = 6;

/// Expressions with more nodes than this are not taken as "known".
const MAX_KNOWN_NODES: usize = 24;

/// Trees of variables that are equal up to sign.
struct Forest {
    parent: Vec<u32>,
    /// Sign of a variable against its parent.
    is_negated: Vec<bool>,
    /// Number of variables in the tree of a root.
    size: Vec<u32>,
    /// Value of a root's variable, where known.
    known: Vec<Option<ExprId>>,
    /// The variable of a root's tree that should remain.
    best: Vec<u32>,
}

struct Root {
    var: u32,
    is_negated: bool,
}

impl Forest {
    fn new(n_variables: usize) -> Self {
        Self {
            parent: (0..n_variables as u32).collect(),
            is_negated: vec![false; n_variables],
            size: vec![1; n_variables],
            known: vec![None; n_variables],
            best: (0..n_variables as u32).collect(),
        }
    }

    /// The root of a variable's tree and the sign relative to it, with path compression.
    fn root(&mut self, var: u32) -> Root {
        let mut root = var;
        let mut is_negated = false;
        while self.parent[root as usize] != root {
            is_negated ^= self.is_negated[root as usize];
            root = self.parent[root as usize];
        }
        let (mut at, mut sign) = (var, is_negated);
        while self.parent[at as usize] != root && at != root {
            let next = self.parent[at as usize];
            let next_sign = sign ^ self.is_negated[at as usize];
            self.parent[at as usize] = root;
            self.is_negated[at as usize] = sign;
            at = next;
            sign = next_sign;
        }
        Root { var: root, is_negated }
    }
}

/// An unknown of a sum with its net factor, which counts occurrences with their signs.
#[derive(Clone, Copy)]
struct UnknownTerm {
    root: u32,
    factor: i32,
}

/// A term of a sum with its sign.
#[derive(Clone, Copy)]
struct SignedTerm {
    expr: ExprId,
    is_negated: bool,
}

/// An equation read as a sum of signed terms.
#[derive(Default)]
struct Terms {
    unknowns: Vec<UnknownTerm>,
    known: Vec<SignedTerm>,
    stack: Vec<SignedTerm>,
}

/// Finds aliases among the given equations of a flat model.
///
/// `is_candidate[i]` says whether equation i may be used: continuous equations, not those of discrete variables.
pub fn eliminate_aliases(flat: &mut FlatDae, is_candidate: &[bool]) -> Elimination {
    let n_variables = flat.variables.len();
    let mut forest = Forest::new(n_variables);
    let ranks = preference(flat);
    let mut is_used = vec![false; flat.equations.len()];
    let mut eliminated = Vec::new();
    let mut terms = Terms::default();
    let mut filed: Vec<Vec<u32>> = vec![Vec::new(); n_variables];
    let mut is_filed = vec![false; flat.equations.len()];
    let mut queue: VecDeque<u32> = (0..flat.equations.len() as u32).filter(|&at| is_candidate[at as usize]).collect();
    while let Some(at) = queue.pop_front() {
        if is_used[at as usize] {
            continue;
        }
        let equation = &flat.equations[at as usize];
        let (lhs, rhs) = (equation.lhs, equation.rhs);
        if !collect(&flat.graph, &flat.variables, lhs, rhs, &mut forest, &mut terms) {
            continue;
        }
        match terms.unknowns[..] {
            [UnknownTerm { root, factor: factor @ (1 | -1) }]
                if is_known(&flat.graph, &flat.variables, &terms.known) =>
            {
                let value = known_value(&mut flat.graph, &terms.known, factor == 1);
                forest.known[root as usize] = Some(value);
                eliminated.push(EliminatedBy { var: VarId(forest.best[root as usize]), equation: at });
                is_used[at as usize] = true;
                queue.extend(filed[root as usize].drain(..));
            }
            [
                UnknownTerm { root: first, factor: first_factor @ (1 | -1) },
                UnknownTerm { root: second, factor: second_factor @ (1 | -1) },
            ] if terms.known.is_empty() => {
                let (keep, join) = if forest.size[first as usize] >= forest.size[second as usize] {
                    (first, second)
                } else {
                    (second, first)
                };
                let (own, other) = (forest.best[keep as usize], forest.best[join as usize]);
                let is_first_better = ranks[own as usize] >= ranks[other as usize];
                let (best, worse) = if is_first_better { (own, other) } else { (other, own) };
                forest.parent[join as usize] = keep;
                forest.is_negated[join as usize] = first_factor == second_factor;
                forest.size[keep as usize] += forest.size[join as usize];
                forest.best[keep as usize] = best;
                eliminated.push(EliminatedBy { var: VarId(worse), equation: at });
                is_used[at as usize] = true;
                let moved = std::mem::take(&mut filed[join as usize]);
                queue.extend(&moved);
                filed[keep as usize].extend(moved);
            }
            _ if !is_filed[at as usize] && is_known(&flat.graph, &flat.variables, &terms.known) => {
                is_filed[at as usize] = true;
                terms.unknowns.iter().for_each(|term| filed[term.root as usize].push(at));
            }
            _ => {}
        }
    }
    let standings = (0..n_variables as u32)
        .map(|var| {
            let root = forest.root(var);
            let best = forest.best[root.var as usize];
            match forest.known[root.var as usize] {
                Some(value) if root.is_negated => Standing::Known(flat.graph.neg(value)),
                Some(value) => Standing::Known(value),
                None if best == var => Standing::Remains,
                None => {
                    let is_negated = root.is_negated ^ forest.root(best).is_negated;
                    Standing::Alias { of: VarId(best), is_negated }
                }
            }
        })
        .collect();
    Elimination { standings, eliminated, is_used }
}

/// Which of two equal variables should remain: one the user asked to be a state, is differentiated, has a start
/// value, is public, and stands high in the component tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    state_select: StateSelect,
    is_differentiated: bool,
    is_fixed: bool,
    has_public_start: bool,
    depth: Reverse<usize>,
    name_length: Reverse<usize>,
}

fn preference(flat: &FlatDae) -> Vec<Preference> {
    let mut is_differentiated = vec![false; flat.variables.len()];
    for node in flat.graph.nodes() {
        if let Node::Var { var, order } = node
            && order > 0
        {
            is_differentiated[var.index()] = true;
        }
    }
    flat.variables
        .iter()
        .zip(is_differentiated)
        .map(|(variable, is_differentiated)| Preference {
            state_select: variable.state_select,
            is_differentiated,
            is_fixed: variable.fixed == Some(true),
            has_public_start: variable.start.is_some() && !variable.is_protected,
            depth: Reverse(variable.name.bytes().filter(|&byte| byte == b'.').count()),
            name_length: Reverse(variable.name.len()),
        })
        .collect()
}

/// Reads `lhs - rhs` as a sum of few signed terms; false where it is no such sum or has no unknown.
fn collect(
    graph: &Graph,
    variables: &[Variable],
    lhs: ExprId,
    rhs: ExprId,
    forest: &mut Forest,
    terms: &mut Terms,
) -> bool {
    terms.unknowns.clear();
    terms.known.clear();
    terms.stack.clear();
    terms.stack.extend([SignedTerm { expr: lhs, is_negated: false }, SignedTerm { expr: rhs, is_negated: true }]);
    let mut n_steps = 0;
    while let Some(SignedTerm { expr, is_negated }) = terms.stack.pop() {
        n_steps += 1;
        if n_steps > 4 * MAX_TERMS {
            return false;
        }
        match graph.node(expr) {
            Node::Binary { op: BinaryOp::Add, lhs, rhs } => {
                terms.stack.extend([SignedTerm { expr: lhs, is_negated }, SignedTerm { expr: rhs, is_negated }]);
            }
            Node::Binary { op: BinaryOp::Sub, lhs, rhs } => {
                let subtracted = SignedTerm { expr: rhs, is_negated: !is_negated };
                terms.stack.extend([SignedTerm { expr: lhs, is_negated }, subtracted]);
            }
            Node::Unary { op: UnaryOp::Neg, arg } => {
                terms.stack.push(SignedTerm { expr: arg, is_negated: !is_negated });
            }
            Node::Var { var, order: 0 } if variables[var.index()].kind == VariableKind::Continuous => {
                let root = forest.root(var.0);
                let is_negated = is_negated ^ root.is_negated;
                match forest.known[root.var as usize] {
                    Some(value) => terms.known.push(SignedTerm { expr: value, is_negated }),
                    None => terms.add_unknown(root.var, if is_negated { -1 } else { 1 }),
                }
            }
            _ => terms.known.push(SignedTerm { expr, is_negated }),
        }
        if terms.known.len() > MAX_TERMS || terms.unknowns.len() > MAX_TERMS {
            return false;
        }
    }
    terms.known.retain(|term| graph.as_number(term.expr) != Some(0.0));
    terms.unknowns.retain(|term| term.factor != 0);
    !terms.unknowns.is_empty()
}

impl Terms {
    fn add_unknown(&mut self, root: u32, factor: i32) {
        match self.unknowns.iter_mut().find(|term| term.root == root) {
            Some(term) => term.factor += factor,
            None => self.unknowns.push(UnknownTerm { root, factor }),
        }
    }
}

/// Whether all terms hold only parameters and constants, or are one input up to sign; nothing differentiated.
fn is_known(graph: &Graph, variables: &[Variable], terms: &[SignedTerm]) -> bool {
    let mut stack: Vec<ExprId> = terms.iter().map(|term| term.expr).collect();
    let (mut n_nodes, mut n_inputs, mut n_negations) = (0, 0, 0);
    while let Some(expr) = stack.pop() {
        n_nodes += 1;
        if n_nodes > MAX_KNOWN_NODES {
            return false;
        }
        match graph.node(expr) {
            Node::Number(_) => {}
            Node::Var { var, order: 0 } => match variables[var.index()].kind {
                VariableKind::Parameter | VariableKind::Constant => {}
                VariableKind::Input => n_inputs += 1,
                VariableKind::Continuous | VariableKind::Discrete => return false,
            },
            Node::Unary { op: UnaryOp::Neg, arg } => {
                n_negations += 1;
                stack.push(arg);
            }
            Node::Unary { .. } | Node::Binary { .. } => graph.for_each_child(expr, |child| stack.push(child)),
            _ => return false,
        }
    }
    n_inputs == 0 || n_inputs == 1 && n_nodes == 1 + n_negations
}

/// The value of a variable from `+-var + known = 0`.
fn known_value(graph: &mut Graph, known: &[SignedTerm], negate: bool) -> ExprId {
    let mut value = graph.number(0.0);
    for term in known {
        value = if term.is_negated ^ negate { graph.sub(value, term.expr) } else { graph.add(value, term.expr) };
    }
    value
}
