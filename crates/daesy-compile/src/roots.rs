//! Event functions in states, where definitions lead there.
//!
//! A relation speaks of variables that may be unknowns: `y > 0` with `y = x1 - x2`. Where such a variable is alone in
//! its block and its equation gives it as a sum, c y + e = 0 with a number c, it is put in, again and again. The
//! event function then depends on states and can be followed between steps without solving for unknowns, and its rate
//! exists, on which sliding depends.

use daesy_graph::regular::RegularDae;
use daesy_graph::{ExprId, Graph, Leaf, Reach, Substitution};
use rustc_hash::FxHashMap;

/// Puts definitions into event functions; `residuals` are the equations in the order of the unknowns.
pub(crate) fn expand(regular: &RegularDae, graph: &mut Graph, residuals: &[ExprId], roots: &mut [ExprId]) {
    let position: FxHashMap<Leaf, usize> = (regular.unknowns.iter().enumerate())
        .filter(|(_, unknown)| unknown.order == 0)
        .map(|(at, unknown)| (Leaf::var(unknown.var), at))
        .collect();
    let mut is_alone = vec![false; regular.unknowns.len()];
    for block in regular.blocks.iter().filter(|block| block.len == 1) {
        is_alone[block.start as usize] = true;
    }
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    reach.leaves(graph, roots, &mut leaves);
    let mut definitions: FxHashMap<usize, (Leaf, ExprId)> = FxHashMap::default();
    let mut open: Vec<Leaf> = std::mem::take(&mut leaves);
    let mut is_seen = vec![false; regular.unknowns.len()];
    while let Some(leaf) = open.pop() {
        let Some(&at) = position.get(&leaf).filter(|&&at| is_alone[at]) else { continue };
        if std::mem::replace(&mut is_seen[at], true) {
            continue;
        }
        let Ok(form) = graph.linear_coefficients(residuals[at], &[leaf]) else { continue };
        let [entry] = form.coefficients[..] else { continue };
        let Some(coefficient) = graph.as_number(entry.value).filter(|value| *value != 0.0) else { continue };
        let factor = graph.number(-1.0 / coefficient);
        let value = graph.mul(factor, form.remainder);
        leaves.clear();
        reach.leaves(graph, &[value], &mut leaves);
        open.extend(leaves.iter().copied());
        definitions.insert(at, (leaf, value));
    }
    // Blocks need earlier blocks only.
    let mut order: Vec<usize> = definitions.keys().copied().collect();
    order.sort_unstable();
    let mut substitution = Substitution::new();
    for at in order {
        let (leaf, value) = definitions[&at];
        let value = substitution.apply(graph, value);
        substitution.replace_leaf(graph, leaf, value);
    }
    if !definitions.is_empty() {
        for root in roots {
            *root = substitution.apply(graph, *root);
        }
    }
}
