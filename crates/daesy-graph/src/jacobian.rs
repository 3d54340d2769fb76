//! Sparse gradients of many expressions by many leaves.
//!
//! Forward derivatives with a list of nonzero entries at each node, shared between rows. A sum of n terms written as a
//! chain would carry lists of length 1, 2, .., n; so sums, differences, and products and quotients with a factor that
//! does not change (the *linear spine* below an expression) are gone through backwards instead:
//!
//! ```text
//! d expr / dx = sum over the ends e of the spine: weight(e) * de / dx
//! ```
//!
//! where the weight of an end is the sum over all ways to it of the products of factors. Branches of `if` are never
//! gone through backwards: a derivative stays inside its branch, where it is defined. The work for a row is
//! proportional to what is below it and not yet known from other rows, times the entries of its inner (nonlinear)
//! nodes.

use smallvec::SmallVec;

use crate::derivative::{Tangent, is_flat};
use crate::graph::Graph;
use crate::node::{BinaryOp, ExprId, Node, UnaryOp};
use crate::traverse::{Leaf, Reach};

/// One nonzero entry of a gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GradientEntry {
    /// Position in the list of leaves.
    pub column: u32,
    /// The partial derivative.
    pub value: ExprId,
}

/// One nonzero entry of a Jacobian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JacobianEntry {
    /// Position in the list of rows.
    pub row: u32,
    /// Position in the list of leaves.
    pub column: u32,
    /// The partial derivative.
    pub value: ExprId,
}

impl Graph {
    /// The nonzero partial derivatives of an expression, by column. For many expressions and the same leaves use a
    /// [`Differentiator`], which remembers.
    pub fn gradient(&mut self, expr: ExprId, leaves: &[Leaf]) -> Vec<GradientEntry> {
        let mut differentiator = std::mem::take(&mut self.scratch.differentiator);
        differentiator.retarget(self, leaves);
        let gradient = differentiator.gradient(self, expr);
        self.scratch.differentiator = differentiator;
        gradient
    }

    /// The nonzero partial derivatives of all rows, row by row and there by column.
    pub fn jacobian(&mut self, rows: &[ExprId], leaves: &[Leaf]) -> Vec<JacobianEntry> {
        let mut differentiator = Differentiator::new(self, leaves);
        let mut entries = Vec::new();
        let mut gradient = Vec::new();
        for (row, &expr) in rows.iter().enumerate() {
            differentiator.gradient_into(self, expr, &mut gradient);
            entries.extend(gradient.iter().map(|entry| JacobianEntry {
                row: row as u32,
                column: entry.column,
                value: entry.value,
            }));
        }
        self.finish_tangents();
        entries
    }
}

/// What an expression is to the leaves at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Not yet looked at.
    Unknown,
    /// The derivative is zero.
    Constant,
    /// One of the leaves.
    Leaf,
    /// A sum, or a product with a constant factor.
    Spine,
    /// Anything else that has a derivative.
    Inner,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: u32,
    end: u32,
}

/// Gradients by a fixed list of leaves, with memory of everything differentiated so far.
///
/// Numbers in `weights` and `sums` are stored plus one, zero meaning none.
#[derive(Clone, Debug, Default)]
pub struct Differentiator {
    roles: Vec<Role>,
    /// The expressions whose role is known.
    judged: Vec<ExprId>,
    /// By expression: column of a leaf, or place in `stretches` of an inner node.
    places: Vec<u32>,
    stretches: Vec<Stretch>,
    pool: Vec<GradientEntry>,
    weights: Vec<u32>,
    sums: Vec<u32>,
    touched: Vec<u32>,
    reach: Reach,
    spine: Reach,
    parts: Vec<Part>,
    part_entries: Vec<GradientEntry>,
}

/// The derivative of one argument of a node by one leaf.
#[derive(Clone, Copy, Debug)]
struct Part {
    column: u32,
    argument: u32,
    value: ExprId,
}

impl Differentiator {
    /// Prepares differentiation by the given leaves, which must differ.
    #[must_use]
    pub fn new(graph: &mut Graph, leaves: &[Leaf]) -> Self {
        let mut made = Self::default();
        made.retarget(graph, leaves);
        made
    }

    /// Forgets everything and prepares differentiation by other leaves, at a cost proportional to what was known.
    pub fn retarget(&mut self, graph: &mut Graph, leaves: &[Leaf]) {
        for expr in self.judged.drain(..) {
            self.roles[expr.index()] = Role::Unknown;
        }
        self.stretches.clear();
        self.pool.clear();
        for (column, &leaf) in leaves.iter().enumerate() {
            let expr = graph.leaf(leaf);
            self.grow(graph.len());
            self.roles[expr.index()] = Role::Leaf;
            self.places[expr.index()] = column as u32;
            self.judged.push(expr);
        }
        if self.sums.len() < leaves.len() {
            self.sums.resize(leaves.len(), 0);
        }
    }

    fn grow(&mut self, len: usize) {
        if self.roles.len() < len {
            self.roles.resize(len, Role::Unknown);
            self.places.resize(len, 0);
            self.weights.resize(len, 0);
        }
    }

    /// The nonzero partial derivatives of an expression, by column.
    pub fn gradient(&mut self, graph: &mut Graph, expr: ExprId) -> Vec<GradientEntry> {
        let mut entries = Vec::new();
        self.gradient_into(graph, expr, &mut entries);
        graph.finish_tangents();
        entries
    }

    fn role(&self, expr: ExprId) -> Role {
        self.roles[expr.index()]
    }

    fn gradient_into(&mut self, graph: &mut Graph, root: ExprId, entries: &mut Vec<GradientEntry>) {
        self.grow(graph.len());
        let mut reach = std::mem::take(&mut self.reach);
        let roles = &self.roles;
        let seen = &*graph;
        reach.below_while(seen, &[root], |expr| roles[expr.index()] == Role::Unknown && !is_flat(&seen.node(expr)));
        for &expr in reach.met() {
            if self.role(expr) == Role::Unknown {
                let role = self.judge(graph, expr);
                self.roles[expr.index()] = role;
                self.judged.push(expr);
                if role == Role::Inner {
                    let stretch = self.inner_gradient(graph, expr);
                    self.places[expr.index()] = self.stretches.len() as u32;
                    self.stretches.push(stretch);
                }
            }
        }
        self.reach = reach;
        entries.clear();
        self.expand(graph, root, entries);
        entries.sort_unstable_by_key(|entry| entry.column);
    }

    fn judge(&self, graph: &Graph, expr: ExprId) -> Role {
        let node = graph.node(expr);
        if is_flat(&node) {
            return Role::Constant;
        }
        let varies = |expr: ExprId| self.role(expr) != Role::Constant;
        match node {
            Node::Unary { op: UnaryOp::Neg, arg } => {
                if varies(arg) {
                    Role::Spine
                } else {
                    Role::Constant
                }
            }
            Node::Binary { op, lhs, rhs } => match (varies(lhs), varies(rhs)) {
                (false, false) => Role::Constant,
                (left, right) => match op {
                    BinaryOp::Add | BinaryOp::Sub => Role::Spine,
                    BinaryOp::Mul if left != right => Role::Spine,
                    BinaryOp::Div if !right => Role::Spine,
                    _ => Role::Inner,
                },
            },
            Node::Select { then, otherwise, .. } => {
                if varies(then) || varies(otherwise) {
                    Role::Inner
                } else {
                    Role::Constant
                }
            }
            Node::LocalAt { .. } => Role::Constant,
            _ => {
                let mut is_inner = false;
                graph.for_each_child(expr, |child| is_inner |= varies(child));
                if is_inner { Role::Inner } else { Role::Constant }
            }
        }
    }

    /// The gradient of an inner node from those of its arguments.
    fn inner_gradient(&mut self, graph: &mut Graph, expr: ExprId) -> Stretch {
        let children = graph.children(expr);
        let condition = usize::from(matches!(graph.node(expr), Node::Select { .. }));
        let mut parts = std::mem::take(&mut self.parts);
        let mut entries = std::mem::take(&mut self.part_entries);
        parts.clear();
        let mut active: SmallVec<[bool; 4]> = SmallVec::from_elem(false, children.len());
        for (at, &child) in children.iter().enumerate().skip(condition) {
            entries.clear();
            self.expand(graph, child, &mut entries);
            active[at] = !entries.is_empty();
            parts.extend(entries.iter().map(|entry| Part {
                column: entry.column,
                argument: at as u32,
                value: entry.value,
            }));
        }
        parts.sort_unstable_by_key(|part| (part.column, part.argument));
        let start = self.pool.len() as u32;
        let mut arguments: SmallVec<[Tangent; 4]> = SmallVec::from_elem(None, children.len());
        for group in parts.chunk_by(|a, b| a.column == b.column) {
            arguments.fill(None);
            for part in group {
                arguments[part.argument as usize] = Some(part.value);
            }
            if let Some(value) = graph.node_tangent(expr, &arguments, Some(&active)) {
                self.pool.push(GradientEntry { column: group[0].column, value });
            }
        }
        self.parts = parts;
        self.part_entries = entries;
        Stretch { start, end: self.pool.len() as u32 }
    }

    /// Appends the gradient of an expression, all of whose inner nodes have theirs, in any order.
    fn expand(&mut self, graph: &mut Graph, root: ExprId, entries: &mut Vec<GradientEntry>) {
        match self.role(root) {
            Role::Unknown | Role::Constant => {}
            Role::Leaf => {
                let value = graph.number(1.0);
                entries.push(GradientEntry { column: self.places[root.index()], value });
            }
            Role::Inner => {
                let stretch = self.stretches[self.places[root.index()] as usize];
                entries.extend_from_slice(&self.pool[stretch.start as usize..stretch.end as usize]);
            }
            Role::Spine => self.expand_spine(graph, root, entries),
        }
    }

    fn expand_spine(&mut self, graph: &mut Graph, root: ExprId, entries: &mut Vec<GradientEntry>) {
        let mut spine = std::mem::take(&mut self.spine);
        let roles = &self.roles;
        spine.below_while(graph, &[root], |expr| roles[expr.index()] == Role::Spine);
        let one = graph.number(1.0);
        self.weights[root.index()] = one.0 + 1;
        for &expr in spine.met().iter().rev() {
            let weight = match std::mem::take(&mut self.weights[expr.index()]) {
                0 => continue,
                weight => ExprId(weight - 1),
            };
            match self.role(expr) {
                Role::Unknown | Role::Constant => {}
                Role::Leaf => self.add_to_sum(graph, self.places[expr.index()], weight),
                Role::Inner => {
                    let stretch = self.stretches[self.places[expr.index()] as usize];
                    for at in stretch.start..stretch.end {
                        let GradientEntry { column, value } = self.pool[at as usize];
                        let term = graph.mul(weight, value);
                        self.add_to_sum(graph, column, term);
                    }
                }
                Role::Spine => match graph.node(expr) {
                    Node::Unary { arg, .. } => {
                        let opposite = graph.neg(weight);
                        self.add_to_weight(graph, arg, opposite);
                    }
                    Node::Binary { op, lhs, rhs } => match op {
                        BinaryOp::Add => {
                            self.add_to_weight(graph, lhs, weight);
                            self.add_to_weight(graph, rhs, weight);
                        }
                        BinaryOp::Sub => {
                            self.add_to_weight(graph, lhs, weight);
                            let opposite = graph.neg(weight);
                            self.add_to_weight(graph, rhs, opposite);
                        }
                        BinaryOp::Mul => {
                            let (factor, rest) = if self.role(lhs) == Role::Constant { (lhs, rhs) } else { (rhs, lhs) };
                            let product = graph.mul(weight, factor);
                            self.add_to_weight(graph, rest, product);
                        }
                        _ => {
                            let quotient = graph.div(weight, rhs);
                            self.add_to_weight(graph, lhs, quotient);
                        }
                    },
                    _ => {}
                },
            }
        }
        self.spine = spine;
        for column in self.touched.drain(..) {
            let value = ExprId(std::mem::take(&mut self.sums[column as usize]) - 1);
            if graph.as_number(value) != Some(0.0) {
                entries.push(GradientEntry { column, value });
            }
        }
    }

    fn add_to_weight(&mut self, graph: &mut Graph, expr: ExprId, term: ExprId) {
        if self.role(expr) == Role::Constant {
            return;
        }
        let weight = &mut self.weights[expr.index()];
        *weight = 1 + if *weight == 0 { term } else { graph.add(ExprId(*weight - 1), term) }.0;
    }

    fn add_to_sum(&mut self, graph: &mut Graph, column: u32, term: ExprId) {
        let sum = &mut self.sums[column as usize];
        if *sum == 0 {
            self.touched.push(column);
            *sum = term.0 + 1;
        } else {
            *sum = graph.add(ExprId(*sum - 1), term).0 + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::VarId;

    #[test]
    fn a_long_sum_has_a_gradient_of_linear_size() {
        // Quadratic work would show: 200,000 terms.
        let n = 200_000;
        let mut g = Graph::default();
        let mut sum = g.number(1.0);
        let three = g.number(3.0);
        for i in 0..n {
            let x = g.var(VarId(i));
            let term = g.mul(three, x);
            sum = if i % 2 == 0 { g.add(sum, term) } else { g.sub(sum, term) };
        }
        let leaves: Vec<Leaf> = (0..n).map(|i| Leaf::var(VarId(i))).collect();
        let gradient = g.gradient(sum, &leaves);
        assert_eq!(gradient.len(), n as usize);
        for entry in gradient {
            assert_eq!(g.as_number(entry.value), Some(if entry.column % 2 == 0 { 3.0 } else { -3.0 }));
        }
    }

    #[test]
    fn ways_that_meet_again_are_added() {
        // s_0 = x, s_{k+1} = s_k + p s_k has 2^k ways; the derivative is (1 + p)^k.
        let mut g = Graph::default();
        let (x, p) = (g.var(VarId(0)), g.var(VarId(1)));
        let mut s = x;
        for _ in 0..60 {
            let scaled = g.mul(p, s);
            s = g.add(s, scaled);
        }
        let gradient = g.gradient(s, &[Leaf::var(VarId(0))]);
        let value = crate::Evaluator::new().evaluate_one(&g, gradient[0].value, &|_: VarId, _: u16| 0.25);
        assert!((value / 1.25f64.powi(60) - 1.0).abs() < 1e-13);
    }

    #[test]
    fn terms_that_cancel_leave_no_entry() {
        let mut g = Graph::default();
        let (x, y) = (g.var(VarId(0)), g.var(VarId(1)));
        let sum = g.add(x, y);
        let e = g.sub(sum, x);
        let gradient = g.gradient(e, &[Leaf::var(VarId(0)), Leaf::var(VarId(1))]);
        assert_eq!(gradient.len(), 1);
        assert_eq!(gradient[0].column, 1);
    }
}
