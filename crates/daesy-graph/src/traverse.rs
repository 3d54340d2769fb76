//! Walking the graph below an expression, without recursion and at a cost proportional to what is below.

use smallvec::SmallVec;

use crate::graph::Graph;
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};

/// What an expression can be differentiated by, solved for, or depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Leaf {
    /// Time.
    Time,
    /// The `order`-th time derivative of a variable.
    Var {
        /// The variable.
        var: VarId,
        /// How often it is differentiated.
        order: u16,
    },
}

impl Leaf {
    /// A variable itself.
    #[must_use]
    pub const fn var(var: VarId) -> Self {
        Self::Var { var, order: 0 }
    }

    /// A time derivative of a variable.
    #[must_use]
    pub const fn der(var: VarId, order: u16) -> Self {
        Self::Var { var, order }
    }

    /// The node of the leaf.
    #[must_use]
    pub const fn node(self) -> Node {
        match self {
            Self::Time => Node::Time,
            Self::Var { var, order } => Node::Var { var, order },
        }
    }
}

impl Graph {
    /// The expression of a leaf.
    pub fn leaf(&mut self, leaf: Leaf) -> ExprId {
        self.intern(leaf.node())
    }

    /// The leaf that an expression is, if it is one.
    #[must_use]
    pub fn as_leaf(&self, expr: ExprId) -> Option<Leaf> {
        match self.node(expr) {
            Node::Time => Some(Leaf::Time),
            Node::Var { var, order } => Some(Leaf::Var { var, order }),
            _ => None,
        }
    }

    /// Calls `visit` with every child of an expression, in order.
    pub fn for_each_child(&self, expr: ExprId, mut visit: impl FnMut(ExprId)) {
        match self.node(expr) {
            Node::Number(_)
            | Node::Time
            | Node::Var { .. }
            | Node::Pre(_)
            | Node::Initial
            | Node::Terminal
            | Node::Local(_) => {}
            Node::Unary { arg, .. } | Node::Smooth { arg, .. } | Node::LocalAt { index: arg, .. } => visit(arg),
            Node::Binary { lhs, rhs, .. } | Node::Sample { start: lhs, interval: rhs } => {
                visit(lhs);
                visit(rhs);
            }
            Node::Select { condition, then, otherwise } => {
                visit(condition);
                visit(then);
                visit(otherwise);
            }
            Node::Call { args, .. } => self.args(args).iter().for_each(|&arg| visit(arg)),
        }
    }

    /// The children of an expression, in order.
    #[must_use]
    pub fn children(&self, expr: ExprId) -> SmallVec<[ExprId; 4]> {
        let mut children = SmallVec::new();
        self.for_each_child(expr, |child| children.push(child));
        children
    }
}

impl Graph {
    /// Whether the value of an expression may change between events, given the leaves that do. Relations, `ceil`,
    /// `floor`, `div` and `sample` change at events only, unless they are inside `noEvent` or `smooth`.
    pub fn varies_between_events(&self, root: ExprId, mut is_continuous: impl FnMut(Leaf) -> bool) -> bool {
        let mut seen = rustc_hash::FxHashSet::default();
        let mut waiting = vec![(root, false)];
        while let Some((expr, is_quiet)) = waiting.pop() {
            if !seen.insert((expr, is_quiet)) {
                continue;
            }
            let is_quiet = match self.node(expr) {
                Node::Unary { op: UnaryOp::NoEvent, .. } | Node::Smooth { .. } => true,
                Node::Unary { op: UnaryOp::WithEvents, .. } => false,
                Node::Unary { op: UnaryOp::Ceil | UnaryOp::Floor, .. } if !is_quiet => continue,
                Node::Binary { op, .. } if !is_quiet && (op.is_relation() || op == BinaryOp::Quotient) => continue,
                Node::Sample { .. } => continue,
                _ => is_quiet,
            };
            if self.as_leaf(expr).is_some_and(&mut is_continuous) {
                return true;
            }
            self.for_each_child(expr, |child| waiting.push((child, is_quiet)));
        }
        false
    }
}

/// Reusable memory for walks: marks that are forgotten by counting up, and the list of what was met.
///
/// A walk costs time proportional to the number of nodes below its roots, whatever the size of the graph.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    marks: Vec<u32>,
    generation: u32,
    stack: Vec<ExprId>,
    met: Vec<ExprId>,
}

impl Reach {
    /// Memory for walks; it grows with the graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn begin(&mut self, graph: &Graph) {
        if self.generation == u32::MAX {
            self.marks.fill(0);
            self.generation = 0;
        }
        self.generation += 1;
        if self.marks.len() < graph.len() {
            self.marks.resize(graph.len(), 0);
        }
        self.stack.clear();
        self.met.clear();
    }

    fn mark(&mut self, expr: ExprId) -> bool {
        let mark = &mut self.marks[expr.index()];
        let is_new = *mark != self.generation;
        *mark = self.generation;
        is_new
    }

    fn walk(&mut self, graph: &Graph, roots: &[ExprId], mut enter: impl FnMut(ExprId) -> bool) {
        self.begin(graph);
        for &root in roots {
            if self.mark(root) {
                self.stack.push(root);
            }
        }
        while let Some(expr) = self.stack.pop() {
            self.met.push(expr);
            if enter(expr) {
                let (marks, generation, stack) = (&mut self.marks, self.generation, &mut self.stack);
                graph.for_each_child(expr, |child| {
                    let mark = &mut marks[child.index()];
                    if *mark != generation {
                        *mark = generation;
                        stack.push(child);
                    }
                });
            }
        }
    }

    /// All expressions below the roots, themselves included, arguments first.
    pub fn below(&mut self, graph: &Graph, roots: &[ExprId]) -> &[ExprId] {
        self.walk(graph, roots, |_| true);
        self.met.sort_unstable();
        &self.met
    }

    /// All expressions below the roots, arguments first; `enter` says whether to look below an expression.
    pub fn below_while(&mut self, graph: &Graph, roots: &[ExprId], enter: impl FnMut(ExprId) -> bool) -> &[ExprId] {
        self.walk(graph, roots, enter);
        self.met.sort_unstable();
        &self.met
    }

    /// What the last walk met, in the order it was given back.
    pub(crate) fn met(&self) -> &[ExprId] {
        &self.met
    }

    /// Writes the leaves below the roots into `leaves`, each once, in order: the incidence of an equation with sides
    /// `roots`. Variables that occur in `pre` only are not among them.
    pub fn leaves(&mut self, graph: &Graph, roots: &[ExprId], leaves: &mut Vec<Leaf>) {
        leaves.clear();
        self.walk(graph, roots, |expr| {
            leaves.extend(graph.as_leaf(expr));
            true
        });
        leaves.sort_unstable();
    }

    /// Whether an expression depends on one of the leaves for which `is_meant` says so.
    pub fn depends_on(&mut self, graph: &Graph, expr: ExprId, mut is_meant: impl FnMut(Leaf) -> bool) -> bool {
        let mut found = false;
        self.walk(graph, &[expr], |expr| {
            if let Some(leaf) = graph.as_leaf(expr) {
                found = found || is_meant(leaf);
            }
            !found
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_listed_once_in_order() {
        let mut g = Graph::default();
        let x = g.var(VarId(3));
        let dx = g.der(VarId(3), 1);
        let y = g.var(VarId(1));
        let t = g.time();
        let a = g.mul(dx, y);
        let b = g.add(a, t);
        let e = g.add(b, y);
        let mut reach = Reach::new();
        let mut leaves = Vec::new();
        reach.leaves(&g, &[e, x], &mut leaves);
        assert_eq!(leaves, [Leaf::Time, Leaf::var(VarId(1)), Leaf::var(VarId(3)), Leaf::der(VarId(3), 1)]);
        assert!(reach.depends_on(&g, e, |leaf| leaf == Leaf::der(VarId(3), 1)));
        assert!(!reach.depends_on(&g, e, |leaf| leaf == Leaf::var(VarId(3))));
        assert_eq!(reach.below(&g, &[a]), [dx, y, a]);
    }

    #[test]
    fn a_chain_of_a_million_is_walked_without_recursion() {
        let mut g = Graph::default();
        let mut e = g.var(VarId(0));
        for i in 1..1_000_000 {
            let x = g.var(VarId(i));
            e = g.add(e, x);
        }
        let mut leaves = Vec::new();
        Reach::new().leaves(&g, &[e], &mut leaves);
        assert_eq!(leaves.len(), 1_000_000);
    }
}
