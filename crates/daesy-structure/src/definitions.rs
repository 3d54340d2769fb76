//! Variables that an equation defines: `y = expression`, put in wherever they occur.
//!
//! Models name what they compute: a velocity is the derivative of a position, a reaction rate is a product. For a
//! method each of these names is one more unknown and one more equation, or, where constraints are differentiated,
//! several more states and hidden constraints. The condensed form puts definitions in; the expression graph shares
//! what occurs many times. The variables stay reportable like aliases.
//!
//! An equation defines y if it is a sum of which y, not differentiated, is one term and occurs in no other. There are
//! two cases:
//!
//! - y = der(x), up to sign: y may be differentiated elsewhere, and its start value becomes that of the derivative.
//! - any other expression: y must not be differentiated anywhere. A start value of its own would get lost; it may if
//!   everything that y follows from has one.
//!
//! Nothing is divided by, so that the domain never changes. In large models a definition is put in only if that does
//! not add entries to the Jacobians, and none of several unknowns into another such one. What relations and `pre`
//! look at keeps its name, so that events are told in the model's words.

use daesy_graph::flat::{FlatDae, VariableKind, WhenAction};
use daesy_graph::regular::{Derivative, GuessRule};
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, UnaryOp, VarId};
use rustc_hash::FxHashMap;

use crate::alias::{EliminatedBy, Elimination, Standing};
use crate::regularize::total_derivative;

/// Models with more equations are large.
const LARGE: usize = 300;

/// Sums longer than this define nothing.
const MAX_TERMS: usize = 40;

/// A search for cycles ends after this many definitions.
const MAX_SEARCH: usize = 400;

/// In small models an expression may go with so many variables to so many places.
const MAX_ENTRIES: usize = 400;

struct Definition {
    value: ExprId,
    equation: u32,
}

/// Definitions that may all be put in, in the order in which they were found.
struct Definitions {
    of: FxHashMap<VarId, Definition>,
    order: Vec<VarId>,
}

/// A term of a sum with its sign.
#[derive(Clone, Copy)]
struct SignedTerm {
    expr: ExprId,
    is_negated: bool,
}

/// Marks defined variables and the equations that define them as eliminated. `residuals` are those with aliases
/// replaced.
pub(crate) fn inline_definitions(
    flat: &mut FlatDae,
    residuals: &[ExprId],
    is_candidate: impl Fn(usize) -> bool,
    elimination: &mut Elimination,
) {
    let n_variables = flat.variables.len();
    let Definitions { of: definitions, order } = find(flat, residuals, is_candidate, elimination);
    let resolved = resolve(flat, &definitions, &order);
    for var in order {
        elimination.eliminated.push(EliminatedBy { var, equation: definitions[&var].equation });
        elimination.is_used[definitions[&var].equation as usize] = true;
        elimination.standings[var.index()] = Standing::Known(resolved[&var]);
    }
    for at in 0..n_variables {
        if let Standing::Alias { of, is_negated } = elimination.standings[at]
            && let Some(&value) = resolved.get(&of)
        {
            let value = if is_negated { flat.graph.neg(value) } else { value };
            elimination.standings[at] = Standing::Known(value);
        }
    }
}

/// Where searches for a start begin in a form that keeps defined variables: at the values that definitions give them,
/// or, for `y = der(x)` with a start value of y, at this value of the derivative. With definitions put in they begin
/// there too, so that of several solutions both forms find the same.
pub(crate) fn guesses(
    flat: &mut FlatDae,
    residuals: &[ExprId],
    is_candidate: impl Fn(usize) -> bool,
    elimination: &Elimination,
) -> Vec<GuessRule> {
    let found = find(flat, residuals, is_candidate, elimination);
    let rule = |var: &VarId| {
        let Definition { value, equation } = found.of[var];
        let derivative = match flat.graph.node(value) {
            Node::Unary { op: UnaryOp::Neg, arg } => flat.graph.node(arg),
            node => node,
        };
        let of = match (flat.variables[var.index()].start, derivative) {
            (Some(_), Node::Var { var, order: order @ 1.. }) => Derivative { var, order },
            (Some(_), _) => return None,
            (None, _) => Derivative { var: *var, order: 0 },
        };
        Some(GuessRule { of, source: equation })
    };
    found.order.iter().filter_map(rule).collect()
}

/// Equations in the order in which they are looked at, with what they may define alone.
fn passes(flat: &FlatDae, candidates: &[u32]) -> Vec<(u32, Option<ExprId>)> {
    // What is written as `y = expression` is meant as a definition; what only can be read as one comes after.
    let written: Vec<Option<ExprId>> = candidates
        .iter()
        .map(|&at| {
            let equation = &flat.equations[at as usize];
            let is_variable = |expr: &ExprId| matches!(flat.graph.node(*expr), Node::Var { order: 0, .. });
            [equation.lhs, equation.rhs].into_iter().find(is_variable)
        })
        .collect();
    let first = candidates.iter().zip(&written).filter(|(_, own)| own.is_some()).map(|(&at, &own)| (at, own));
    first.chain(candidates.iter().map(|&at| (at, None))).collect()
}

fn find(
    flat: &mut FlatDae,
    residuals: &[ExprId],
    is_candidate: impl Fn(usize) -> bool,
    elimination: &Elimination,
) -> Definitions {
    let n_variables = flat.variables.len();
    let candidates: Vec<u32> = (0..residuals.len() as u32).filter(|&at| is_candidate(at as usize)).collect();
    let is_large = candidates.len() > LARGE;
    // Memory of a walk grows with the graph: it is made once.
    let (mut reach, mut below) = (Reach::new(), Reach::new());
    let mut leaves = Vec::new();
    let mut n_uses = vec![0usize; n_variables];
    let mut is_differentiated = vec![false; n_variables];
    for &at in &candidates {
        reach.leaves(&flat.graph, &[residuals[at as usize]], &mut leaves);
        for leaf in &leaves {
            if let Leaf::Var { var, order } = *leaf {
                n_uses[var.index()] += 1;
                is_differentiated[var.index()] |= order > 0;
            }
        }
    }
    let is_kept = kept(flat, elimination);
    let mut definitions: FxHashMap<VarId, Definition> = FxHashMap::default();
    let mut order = Vec::new();
    let mut terms = Vec::new();
    let passes = passes(flat, &candidates);
    let mut is_spent = vec![false; residuals.len()];
    // What a variable would become, in large models: unknowns in its place, and whether another one is made of it.
    // Definitions of several unknowns are not put into each other: along a ladder they would add up to sums over all
    // of it.
    let mut weights = vec![1u32; n_variables];
    let mut is_in_definition = vec![false; n_variables];
    for (at, only) in passes {
        if is_spent[at as usize] || !split(&flat.graph, residuals[at as usize], &mut terms) {
            continue;
        }
        for own in 0..terms.len() {
            if only.is_some_and(|only| only != terms[own].expr) {
                continue;
            }
            let Node::Var { var, order: 0 } = flat.graph.node(terms[own].expr) else { continue };
            if is_kept[var.index()] || definitions.contains_key(&var) {
                continue;
            }
            let others: Vec<SignedTerm> =
                terms.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, &term)| term).collect();
            let is_derivative = matches!(
                others[..],
                [SignedTerm { expr, .. }] if matches!(flat.graph.node(expr), Node::Var { order: 1.., .. })
            );
            if !is_derivative && is_differentiated[var.index()] {
                continue;
            }
            let roots: Vec<ExprId> = others.iter().map(|term| term.expr).collect();
            reach.leaves(&flat.graph, &roots, &mut leaves);
            if !is_derivative
                && flat.variables[var.index()].start.is_some()
                && !is_started(flat, &definitions, &mut below, &leaves)
            {
                continue;
            }
            let n_leaves = leaves.iter().filter(|leaf| is_unknown(flat, **leaf)).count();
            let uses = n_uses[var.index()].max(1) - 1;
            let is_cheap = if is_large {
                n_leaves.saturating_sub(1) * uses.saturating_sub(1) <= n_leaves + uses
            } else {
                n_leaves * uses <= MAX_ENTRIES
            };
            let names: Vec<VarId> =
                leaves.iter().filter(|leaf| is_unknown(flat, **leaf)).filter_map(variable_of).collect();
            let heaviest = names.iter().map(|leaf| weights[leaf.index()]).max().unwrap_or(1);
            if is_large && n_leaves > 1 && (heaviest > 1 || is_in_definition[var.index()]) {
                continue;
            }
            if !is_cheap || reaches(flat, &definitions, &mut below, &leaves, var) {
                continue;
            }
            // own + others = 0, or -own + others = 0.
            let is_positive = !terms[own].is_negated;
            let mut value = flat.graph.number(0.0);
            for term in others {
                value = if term.is_negated ^ is_positive {
                    flat.graph.sub(value, term.expr)
                } else {
                    flat.graph.add(value, term.expr)
                };
            }
            names.iter().for_each(|leaf| is_in_definition[leaf.index()] = true);
            weights[var.index()] = if n_leaves > 1 { n_leaves as u32 } else { heaviest };
            definitions.insert(var, Definition { value, equation: at });
            is_spent[at as usize] = true;
            order.push(var);
            break;
        }
    }
    Definitions { of: definitions, order }
}

fn variable_of(leaf: &Leaf) -> Option<VarId> {
    match *leaf {
        Leaf::Var { var, .. } => Some(var),
        Leaf::Time => None,
    }
}

fn is_unknown(flat: &FlatDae, leaf: Leaf) -> bool {
    matches!(leaf, Leaf::Var { var, .. } if flat.variables[var.index()].kind == VariableKind::Continuous)
}

/// Variables that must stay: those that events look at or change, and what is no unknown that remains.
fn kept(flat: &FlatDae, elimination: &Elimination) -> Vec<bool> {
    let mut is_kept: Vec<bool> = flat
        .variables
        .iter()
        .zip(&elimination.standings)
        .map(|(variable, standing)| variable.kind != VariableKind::Continuous || *standing != Standing::Remains)
        .collect();
    let mut in_relations = Vec::new();
    for node in flat.graph.nodes() {
        match node {
            Node::Pre(var) => is_kept[var.index()] = true,
            // What events speak of keeps its name.
            Node::Binary {
                op: BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Greater | BinaryOp::GreaterEqual,
                lhs,
                rhs,
            } => in_relations.extend([lhs, rhs]),
            _ => {}
        }
    }
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    reach.leaves(&flat.graph, &in_relations, &mut leaves);
    for leaf in leaves {
        if let Leaf::Var { var, order: 0 } = leaf {
            is_kept[var.index()] = true;
        }
    }
    let branches = flat.when_clauses.iter().flat_map(|clause| &clause.branches);
    for action in branches.flat_map(|branch| &branch.actions) {
        if let WhenAction::Reinit { variable, .. } = action {
            is_kept[variable.index()] = true;
        }
    }
    // What is kept under another name is kept.
    for (at, standing) in elimination.standings.iter().enumerate() {
        if let Standing::Alias { of, .. } = standing
            && flat.graph.find(&Node::Pre(VarId(at as u32))).is_some()
        {
            is_kept[of.index()] = true;
        }
    }
    is_kept
}

/// Reads an expression as a sum of signed terms; false where it is too long.
fn split(graph: &Graph, expr: ExprId, terms: &mut Vec<SignedTerm>) -> bool {
    terms.clear();
    let mut stack = vec![SignedTerm { expr, is_negated: false }];
    while let Some(SignedTerm { expr, is_negated }) = stack.pop() {
        if terms.len() + stack.len() > MAX_TERMS {
            return false;
        }
        match graph.node(expr) {
            Node::Binary { op: BinaryOp::Add, lhs, rhs } => {
                stack.extend([SignedTerm { expr: rhs, is_negated }, SignedTerm { expr: lhs, is_negated }]);
            }
            Node::Binary { op: BinaryOp::Sub, lhs, rhs } => {
                let subtracted = SignedTerm { expr: rhs, is_negated: !is_negated };
                stack.extend([subtracted, SignedTerm { expr: lhs, is_negated }]);
            }
            Node::Unary { op: UnaryOp::Neg, arg } => stack.push(SignedTerm { expr: arg, is_negated: !is_negated }),
            _ => terms.push(SignedTerm { expr, is_negated }),
        }
    }
    true
}

/// Whether all unknowns that the leaves lead to have start values.
fn is_started(flat: &FlatDae, definitions: &FxHashMap<VarId, Definition>, reach: &mut Reach, leaves: &[Leaf]) -> bool {
    let mut seen: rustc_hash::FxHashSet<VarId> = rustc_hash::FxHashSet::default();
    let mut stack: Vec<VarId> = Vec::new();
    let mut below = leaves.to_vec();
    loop {
        for &leaf in below.iter().filter(|leaf| is_unknown(flat, **leaf)) {
            let Leaf::Var { var, order } = leaf else { continue };
            if definitions.contains_key(&var) {
                if seen.insert(var) {
                    stack.push(var);
                }
            } else if order > 0 || flat.variables[var.index()].start.is_none() {
                return false;
            }
        }
        if seen.len() > MAX_SEARCH {
            return false;
        }
        let Some(var) = stack.pop() else { return true };
        reach.leaves(&flat.graph, &[definitions[&var].value], &mut below);
    }
}

/// Whether the leaves lead to a variable, through definitions found so far.
fn reaches(
    flat: &FlatDae,
    definitions: &FxHashMap<VarId, Definition>,
    reach: &mut Reach,
    leaves: &[Leaf],
    wanted: VarId,
) -> bool {
    let mut stack: Vec<VarId> = Vec::new();
    let mut seen: rustc_hash::FxHashSet<VarId> = rustc_hash::FxHashSet::default();
    let mut below = leaves.to_vec();
    loop {
        for leaf in &below {
            if let Leaf::Var { var, .. } = *leaf {
                if var == wanted {
                    return true;
                }
                if definitions.contains_key(&var) && seen.insert(var) {
                    stack.push(var);
                }
            }
        }
        if seen.len() > MAX_SEARCH {
            return true;
        }
        let Some(var) = stack.pop() else { return false };
        reach.leaves(&flat.graph, &[definitions[&var].value], &mut below);
    }
}

/// The value of each defined variable in terms of variables that remain.
fn resolve(
    flat: &mut FlatDae,
    definitions: &FxHashMap<VarId, Definition>,
    order: &[VarId],
) -> FxHashMap<VarId, ExprId> {
    let mut resolved: FxHashMap<VarId, ExprId> = FxHashMap::default();
    let mut substitution = Substitution::new();
    let mut reach = Reach::new();
    let mut leaves = Vec::new();
    let mut stack: Vec<VarId> = Vec::new();
    for &root in order {
        stack.push(root);
        while let Some(&var) = stack.last() {
            if resolved.contains_key(&var) {
                stack.pop();
                continue;
            }
            let value = definitions[&var].value;
            reach.leaves(&flat.graph, &[value], &mut leaves);
            let before = stack.len();
            for leaf in &leaves {
                if let Leaf::Var { var, .. } = *leaf
                    && definitions.contains_key(&var)
                    && !resolved.contains_key(&var)
                {
                    stack.push(var);
                }
            }
            if stack.len() > before {
                continue;
            }
            for &leaf in &leaves {
                if let Leaf::Var { var, order } = leaf
                    && let Some(&value) = resolved.get(&var)
                {
                    let value = (0..order).fold(value, |value, _| total_derivative(flat, value));
                    substitution.replace_leaf(&mut flat.graph, leaf, value);
                }
            }
            let value = substitution.apply(&mut flat.graph, value);
            resolved.insert(var, value);
            stack.pop();
        }
    }
    resolved
}
