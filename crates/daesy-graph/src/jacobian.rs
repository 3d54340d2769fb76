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
//! where the weight of an end is the sum over all ways to it of the products of factors. Branches of `if` are never gone
//! through backwards: a derivative stays inside its branch, where it is defined. The work for a row is proportional to
//! what is below it and not yet known from other rows, times the entries of its inner (nonlinear) nodes.

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
    /// The nonzero partial derivatives of an expression, by column. For many expressions use a [`Differentiator`].
    pub fn gradient(&mut self, expr: ExprId, leaves: &[Leaf]) -> Vec<GradientEntry> {
        Differentiator::new(self, leaves).gradient(self, expr)
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

/// What an expression is to the leaves at hand. Zero is the first, so that a fresh table costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
enum Role {
    /// Not yet looked at.
    #[default]
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
/// Numbers in the tables are stored plus one, zero meaning none: tables of zeros are had for nothing, so that the
/// cost follows what is touched.
#[derive(Clone, Debug)]
pub struct Differentiator {
    roles: Vec<u8>,
    /// By expression: column of a leaf, or place in `stretches` of an inner node.
    places: Vec<u32>,
    stretches: Vec<Stretch>,
    pool: Vec<GradientEntry>,
    weights: Vec<u32>,
    sums: Vec<u32>,
    touched: Vec<u32>,
    reach: Reach,
    spine: Reach,
}

impl Differentiator {
    /// Prepares differentiation by the given leaves, which must differ.
    #[must_use]
    pub fn new(graph: &mut Graph, leaves: &[Leaf]) -> Self {
        let exprs: Vec<ExprId> = leaves.iter().map(|&leaf| graph.leaf(leaf)).collect();
        let len = graph.len();
        let mut made = Self {
            roles: vec![0; len],
            places: vec![0; len],
            stretches: Vec::new(),
            pool: Vec::new(),
            weights: vec![0; len],
            sums: vec![0; leaves.len()],
            touched: Vec::new(),
            reach: Reach::new(),
            spine: Reach::new(),
        };
        for (column, expr) in exprs.into_iter().enumerate() {
            made.roles[expr.index()] = Role::Leaf as u8;
            made.places[expr.index()] = column as u32;
        }
        made
    }

    /// The nonzero partial derivatives of an expression, by column.
    pub fn gradient(&mut self, graph: &mut Graph, expr: ExprId) -> Vec<GradientEntry> {
        let mut entries = Vec::new();
        self.gradient_into(graph, expr, &mut entries);
        graph.finish_tangents();
        entries
    }

    fn role(&self, expr: ExprId) -> Role {
        match self.roles[expr.index()] {
            0 => Role::Unknown,
            1 => Role::Constant,
            2 => Role::Leaf,
            3 => Role::Spine,
            _ => Role::Inner,
        }
    }

    fn gradient_into(&mut self, graph: &mut Graph, root: ExprId, entries: &mut Vec<GradientEntry>) {
        let len = graph.len();
        if self.roles.len() < len {
            self.roles.resize(len, 0);
            self.places.resize(len, 0);
            self.weights.resize(len, 0);
        }
        let mut reach = std::mem::take(&mut self.reach);
        let roles = &self.roles;
        let seen = &*graph;
        reach.below_while(seen, &[root], |expr| roles[expr.index()] == 0 && !is_flat(&seen.node(expr)));
        for &expr in reach.met() {
            if self.role(expr) == Role::Unknown {
                let role = self.judge(graph, expr);
                self.roles[expr.index()] = role as u8;
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
        // (column, argument, derivative)
        let mut parts: Vec<(u32, u32, ExprId)> = Vec::new();
        let mut entries = Vec::new();
        let mut active: SmallVec<[bool; 4]> = SmallVec::from_elem(false, children.len());
        for (at, &child) in children.iter().enumerate().skip(condition) {
            entries.clear();
            self.expand(graph, child, &mut entries);
            active[at] = !entries.is_empty();
            parts.extend(entries.iter().map(|entry| (entry.column, at as u32, entry.value)));
        }
        parts.sort_unstable_by_key(|&(column, at, _)| (column, at));
        let start = self.pool.len() as u32;
        let mut arguments: SmallVec<[Tangent; 4]> = SmallVec::from_elem(None, children.len());
        for group in parts.chunk_by(|a, b| a.0 == b.0) {
            arguments.fill(None);
            for &(_, at, value) in group {
                arguments[at as usize] = Some(value);
            }
            if let Some(value) = graph.node_tangent(expr, &arguments, Some(&active)) {
                self.pool.push(GradientEntry { column: group[0].0, value });
            }
        }
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
        spine.below_while(graph, &[root], |expr| roles[expr.index()] == Role::Spine as u8);
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
