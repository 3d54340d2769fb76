//! Replacing expressions by expressions.

use crate::graph::Graph;
use crate::node::ExprId;
use crate::traverse::Leaf;

/// A set of replacements, done at the same time (what is put in is not looked at again), with memory of what they made
/// of every expression met so far: applying one substitution to many equations costs each shared part once.
#[derive(Clone, Debug, Default)]
pub struct Substitution {
    /// What an expression becomes, by number; `NOT_YET` where that is not known.
    images: Vec<u32>,
    stack: Vec<ExprId>,
    children: Vec<ExprId>,
}

const NOT_YET: u32 = u32::MAX;

impl Substitution {
    /// No replacements yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `expr`, a leaf or anything else, by `replacement`. Replacements must be known before the first use.
    pub fn replace(&mut self, expr: ExprId, replacement: ExprId) {
        self.grow(expr.index() + 1);
        self.images[expr.index()] = replacement.0;
    }

    /// Replaces a leaf by an expression.
    pub fn replace_leaf(&mut self, graph: &mut Graph, leaf: Leaf, replacement: ExprId) {
        let expr = graph.leaf(leaf);
        self.replace(expr, replacement);
    }

    fn grow(&mut self, len: usize) {
        if self.images.len() < len {
            self.images.resize(len, NOT_YET);
        }
    }

    /// The expression with everything replaced, simplified where something has changed.
    pub fn apply(&mut self, graph: &mut Graph, expr: ExprId) -> ExprId {
        self.grow(graph.len());
        self.stack.clear();
        self.stack.push(expr);
        while let Some(&top) = self.stack.last() {
            if self.images[top.index()] != NOT_YET {
                self.stack.pop();
                continue;
            }
            let before = self.stack.len();
            let (images, stack, children) = (&self.images, &mut self.stack, &mut self.children);
            children.clear();
            let mut has_changed = false;
            graph.for_each_child(top, |child| {
                let image = images[child.index()];
                if image == NOT_YET {
                    stack.push(child);
                } else {
                    has_changed |= image != child.0;
                    children.push(ExprId(image));
                }
            });
            if self.stack.len() == before {
                let image = if has_changed { graph.rebuild(top, &self.children) } else { top };
                self.images[top.index()] = image.0;
                self.stack.pop();
            }
        }
        ExprId(self.images[expr.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::VarId;

    #[test]
    fn replacements_happen_at_the_same_time() {
        let mut g = Graph::default();
        let (x, y) = (g.var(VarId(0)), g.var(VarId(1)));
        let difference = g.sub(x, y);
        let mut swap = Substitution::new();
        swap.replace_leaf(&mut g, Leaf::var(VarId(0)), y);
        swap.replace_leaf(&mut g, Leaf::var(VarId(1)), x);
        let swapped = swap.apply(&mut g, difference);
        assert_eq!(swapped, g.sub(y, x));
    }

    #[test]
    fn results_are_simplified_and_the_untouched_stays() {
        let mut g = Graph::default();
        let (x, y, zero) = (g.var(VarId(0)), g.var(VarId(1)), g.number(0.0));
        let product = g.mul(x, y);
        let sum = g.add(product, y);
        let mut substitution = Substitution::new();
        substitution.replace(x, zero);
        assert_eq!(substitution.apply(&mut g, sum), y);
        assert_eq!(substitution.apply(&mut g, y), y);
    }

    #[test]
    fn a_chain_of_a_million_is_replaced_without_recursion() {
        let mut g = Graph::default();
        let (x, y) = (g.var(VarId(0)), g.var(VarId(1)));
        let mut e = x;
        for _ in 0..1_000_000 {
            e = g.unary(crate::node::UnaryOp::Sin, e);
        }
        let mut substitution = Substitution::new();
        substitution.replace(x, y);
        let replaced = substitution.apply(&mut g, e);
        let mut back = Substitution::new();
        back.replace(y, x);
        assert_eq!(back.apply(&mut g, replaced), e);
    }
}
