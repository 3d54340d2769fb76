//! Overconstrained connectors: the virtual connection graph, its spanning trees and the connections that are broken
//! [@modelica36, sec. 9.4].
//!
//! A record or type with a function `equalityConstraint` has more variables than degrees of freedom (an orientation of
//! a frame has nine, three of them free). Around a closed loop of connections the equations of equality would say too
//! much. Every such element of a connector is a node of a graph with three kinds of edges and nodes:
//!
//! - `Connections.branch(a, b)` is an edge that stays, because the equations of a component relate `a` and `b`;
//! - `connect(a, b)` is an edge that may be broken;
//! - `Connections.root(a)` is a definite root, `Connections.potentialRoot(a, priority)` a possible one.
//!
//! Connections are broken until the graph is a set of trees with one root each. What is left of a broken connection are
//! the equations `equalityConstraint(a, b) = 0`.

use std::sync::Arc;

use daesy_graph::flat::{Equation, Origin};
use daesy_graph::{Finding, Span};
use rustc_hash::FxHashMap;

use super::connect::End;
use super::expr::Ctx;
use super::instance::NodeKind;
use super::value::{Type, Value};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{ComponentRef, Equation as Written, EquationKind, Expr, ExprKind, NamedArg};

/// A connection of two overdetermined elements.
pub(crate) struct Breakable {
    left: End,
    left_outside: bool,
    right: End,
    right_outside: bool,
    span: Span,
    instance: NodeId,
    scope: ClassId,
}

/// A possible root.
#[derive(Clone, Copy)]
struct Potential {
    node: u32,
    priority: f64,
}

/// A demand that a root be the only one and reach every node on one way.
struct Unique {
    node: u32,
    message: String,
    span: Span,
}

/// The virtual connection graph.
#[derive(Default)]
pub(crate) struct ConnectionGraph {
    nodes: Vec<NodeId>,
    index: FxHashMap<NodeId, u32>,
    parents: Vec<u32>,
    /// For every set of joined nodes, at its lead: the definite root.
    definite: Vec<Option<u32>>,
    roots: Vec<(u32, Span)>,
    potential: Vec<Potential>,
    branches: Vec<(u32, u32, Span)>,
    connections: Vec<Breakable>,
    unique: Vec<Unique>,
    /// Distance from the root of its tree, known in the end.
    depths: Vec<Option<u32>>,
}

impl ConnectionGraph {
    fn node(&mut self, node: NodeId) -> u32 {
        if let Some(&at) = self.index.get(&node) {
            return at;
        }
        let at = self.nodes.len() as u32;
        self.index.insert(node, at);
        self.nodes.push(node);
        self.parents.push(at);
        self.definite.push(None);
        at
    }

    fn lead(&mut self, at: u32) -> u32 {
        let mut lead = at;
        while self.parents[lead as usize] != lead {
            lead = self.parents[lead as usize];
        }
        let mut at = at;
        while self.parents[at as usize] != lead {
            at = std::mem::replace(&mut self.parents[at as usize], lead);
        }
        lead
    }

    /// Joins two sets. Two definite roots cannot be in one tree: then nothing is joined, and the two are given back.
    fn join(&mut self, left: u32, right: u32) -> Result<(), (u32, u32)> {
        let (left, right) = (self.lead(left), self.lead(right));
        if left == right {
            return Ok(());
        }
        let root = match (self.definite[left as usize], self.definite[right as usize]) {
            (Some(one), Some(other)) => return Err((one, other)),
            (one, other) => one.or(other),
        };
        self.parents[right as usize] = left;
        self.definite[left as usize] = root;
        Ok(())
    }

    /// The root of every tree: the definite one, or the possible one with the lowest priority, the first of several.
    fn choose_roots(&mut self) -> FxHashMap<u32, u32> {
        let mut chosen: FxHashMap<u32, u32> = FxHashMap::default();
        let mut best: FxHashMap<u32, f64> = FxHashMap::default();
        for at in 0..self.potential.len() {
            let Potential { node, priority } = self.potential[at];
            let lead = self.lead(node);
            if best.get(&lead).is_none_or(|&known| priority < known) {
                best.insert(lead, priority);
                chosen.insert(lead, node);
            }
        }
        for at in 0..self.nodes.len() as u32 {
            let lead = self.lead(at);
            if let Some(root) = self.definite[lead as usize] {
                chosen.insert(lead, root);
            }
        }
        chosen
    }

    /// Distances from the roots along the edges that are left.
    fn measure(&mut self, roots: &FxHashMap<u32, u32>, kept: &[(u32, u32)]) {
        let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        let branches = self.branches.iter().map(|&(left, right, _)| (left, right));
        for (left, right) in branches.chain(kept.iter().copied()) {
            neighbours[left as usize].push(right);
            neighbours[right as usize].push(left);
        }
        self.depths = vec![None; self.nodes.len()];
        let mut front: Vec<u32> = roots.values().copied().collect();
        front.sort_unstable();
        let mut depth = 0;
        while !front.is_empty() {
            let mut next = Vec::new();
            for &at in &front {
                if self.depths[at as usize].is_none() {
                    self.depths[at as usize] = Some(depth);
                    next.extend(neighbours[at as usize].iter().copied());
                }
            }
            front = next;
            depth += 1;
        }
    }

    fn depth(&self, node: NodeId) -> Option<u32> {
        let &at = self.index.get(&node)?;
        self.depths.get(at as usize).copied().flatten()
    }
}

/// Whether an equation is, or has in it, a call of `Connections.branch`, `root` and the like.
pub(crate) fn is_connections_call(equation: &Written) -> bool {
    match &equation.kind {
        EquationKind::Call(call) => match &call.kind {
            ExprKind::Call { function, .. } => connections_function(function).is_some(),
            _ => false,
        },
        _ => false,
    }
}

/// The name after `Connections.`
pub(crate) fn connections_function(function: &ComponentRef) -> Option<&'static str> {
    let [first, second] = function.parts.as_slice() else { return None };
    (first.name.name.text() == "Connections").then(|| second.name.name.text())
}

impl<'a> Flattener<'a> {
    /// The function `equalityConstraint` of a class, if it has one.
    pub(crate) fn equality_constraint(&mut self, class: ClassId) -> Option<ClassId> {
        self.member_class(class, Name::new("equalityConstraint"))?.ok()
    }

    /// The function `equalityConstraint` of what a node is an instance of.
    pub(crate) fn constraint_of(&mut self, node: NodeId) -> Option<ClassId> {
        match self.node(node).kind.clone() {
            NodeKind::Complex(complex) if complex.is_record => self.equality_constraint(complex.class),
            NodeKind::Primitive(prim) => {
                let class = self.prim(prim).class_use.constrained?;
                self.equality_constraint(class)
            }
            _ => None,
        }
    }

    /// Keeps a connection of overdetermined elements until it is known whether it has to be broken.
    pub(crate) fn defer_breakable(
        &mut self,
        (left, left_outside): (End, bool),
        (right, right_outside): (End, bool),
        span: Span,
        ctx: &Ctx,
    ) {
        self.connection_graph.node(left.node);
        self.connection_graph.node(right.node);
        self.connection_graph.connections.push(Breakable {
            left,
            left_outside,
            right,
            right_outside,
            span,
            instance: ctx.instance,
            scope: ctx.scope,
        });
    }

    /// The node that an argument of a `Connections` function means; `None` when a component on the way is left out.
    fn connections_node(&mut self, arg: &'a Expr, ctx: &mut Ctx) -> Res<Option<NodeId>> {
        let ExprKind::Ref(reference) = &arg.kind else {
            let message = "an overdetermined element of a connector is needed here, such as `frame_a.R`";
            return Err(self.error("not-a-connector", arg.span, message));
        };
        let Some(ends) = self.connect_side(reference, ctx)? else { return Ok(None) };
        let [end] = ends.ends.as_slice() else {
            return Err(self.error("wrong-size", arg.span, "one element is needed here, not an array"));
        };
        let node = self.force(end.node)?;
        if self.constraint_of(node).is_none() {
            let finding = Finding::error(
                "not-overconstrained",
                arg.span,
                format!(
                    "`{}` is not overdetermined: its class has no function `equalityConstraint`",
                    self.node_path(node)
                ),
            )
            .with_help("declare the function in the record or type, or remove this operator");
            return Err(self.report(finding));
        }
        Ok(Some(node))
    }

    /// `Connections.branch(a, b)`, `root(a)`, `potentialRoot(a, priority)` and `uniqueRoot(a, message)` as equations.
    pub(crate) fn connections_equation(&mut self, call: &'a Expr, ctx: &mut Ctx) -> Res<()> {
        let ExprKind::Call { function, args, named } = &call.kind else { return Err(Refused) };
        let name = connections_function(function).unwrap_or_default();
        let n_allowed = match name {
            "branch" => 2..=2,
            "root" => 1..=1,
            "potentialRoot" | "uniqueRoot" => 1..=2,
            _ => {
                let message = format!("`Connections.{name}(..)` alone is not an equation");
                return Err(self.error("not-an-equation", call.span, message));
            }
        };
        if !n_allowed.contains(&(args.len() + named.len())) || args.is_empty() {
            let message = format!("`Connections.{name}` cannot take {} arguments", args.len() + named.len());
            return Err(self.error("wrong-arguments", call.span, message));
        }
        let Some(node) = self.connections_node(&args[0], ctx)? else { return Ok(()) };
        let node = self.connection_graph.node(node);
        match name {
            "branch" => {
                let Some(other) = args.get(1) else {
                    return Err(self.error("wrong-arguments", call.span, "`Connections.branch` takes two elements"));
                };
                let Some(other) = self.connections_node(other, ctx)? else { return Ok(()) };
                let other = self.connection_graph.node(other);
                self.connection_graph.branches.push((node, other, call.span));
            }
            "root" => self.connection_graph.roots.push((node, call.span)),
            "potentialRoot" => {
                let priority = match second_argument(args, named, "priority") {
                    Some(priority) => self.structural_scalar(priority, ctx, "a priority")?.value,
                    None => 0.0,
                };
                self.connection_graph.potential.push(Potential { node, priority });
            }
            _ => {
                let message = match second_argument(args, named, "message") {
                    Some(message) => self.message_text(message, ctx)?,
                    None => String::new(),
                };
                self.connection_graph.unique.push(Unique { node, message, span: call.span });
            }
        }
        Ok(())
    }

    /// Chooses the spanning trees, makes the connections that stay, and writes the equations of those that are broken.
    pub(crate) fn break_loops(&mut self) {
        let mut graph = std::mem::take(&mut self.connection_graph);
        for &(node, span) in &graph.roots.clone() {
            let lead = graph.lead(node);
            if graph.definite[lead as usize].is_none_or(|known| known == node) {
                graph.definite[lead as usize] = Some(node);
            } else {
                self.two_roots(&graph, node, node, span);
            }
        }
        for (left, right, span) in graph.branches.clone() {
            if let Err((one, other)) = graph.join(left, right) {
                self.two_roots(&graph, one, other, span);
            }
        }
        let connections = std::mem::take(&mut graph.connections);
        let mut kept = Vec::new();
        let mut broken = Vec::new();
        for connection in connections {
            let (left, right) = (graph.node(connection.left.node), graph.node(connection.right.node));
            let is_loop = graph.lead(left) == graph.lead(right);
            if is_loop || graph.join(left, right).is_err() {
                broken.push(connection);
            } else {
                kept.push((left, right));
                let ctx = Ctx::new(connection.scope, connection.instance);
                let _ = self.connect_parts(
                    (connection.left, connection.left_outside),
                    (connection.right, connection.right_outside),
                    connection.span,
                    &ctx,
                );
            }
        }
        let roots = graph.choose_roots();
        self.check_roots(&mut graph, &roots, &broken);
        graph.measure(&roots, &kept);
        self.connection_graph = graph;
        for connection in broken {
            let _ = self.broken_connection(&connection);
        }
    }

    fn two_roots(&mut self, graph: &ConnectionGraph, one: u32, other: u32, span: Span) {
        let path = |this: &Self, at: u32| this.node_path(graph.nodes[at as usize]);
        let message = format!("`{}` and `{}` are both roots of the same tree", path(self, one), path(self, other));
        self.error_help("two-roots", span, message, "only one of them can be given by `Connections.root`");
    }

    /// Every tree needs a root, and a root said to be unique must be the root of a tree without broken connections.
    fn check_roots(&mut self, graph: &mut ConnectionGraph, roots: &FxHashMap<u32, u32>, broken: &[Breakable]) {
        let mut without = Vec::new();
        for at in 0..graph.nodes.len() as u32 {
            let lead = graph.lead(at);
            if lead == at && !roots.contains_key(&lead) {
                without.push(at);
            }
        }
        for at in without {
            let path = self.node_path(graph.nodes[at as usize]);
            let span = self.node_span(graph.nodes[at as usize]);
            let message = format!("nothing that `{path}` is connected to is a root");
            let help = "add a component with `Connections.root` or `Connections.potentialRoot`, such as a world";
            self.error_help("no-root", span, message, help);
        }
        for at in 0..graph.unique.len() {
            let node = graph.unique[at].node;
            let lead = graph.lead(node);
            let has_loop = broken.iter().any(|connection| {
                let (left, right) = (graph.index[&connection.left.node], graph.index[&connection.right.node]);
                graph.lead(left) == lead || graph.lead(right) == lead
            });
            if has_loop || roots.get(&lead) != Some(&node) {
                let Unique { message, span, .. } = &graph.unique[at];
                let path = self.node_path(graph.nodes[node as usize]);
                let colon = if message.is_empty() { "" } else { ": " };
                let text = format!("`{path}` is not the only root of what is connected to it{colon}{message}");
                self.error("not-unique-root", *span, text);
            }
        }
    }

    /// `equalityConstraint(a, b) = 0`
    fn broken_connection(&mut self, connection: &Breakable) -> Res<()> {
        let (left, right) = (connection.left.node, connection.right.node);
        let function = self.constraint_of(left).ok_or(Refused)?;
        let mut ctx = Ctx::new(connection.scope, connection.instance);
        let span = connection.span;
        let values = vec![self.record_value(left, span, &mut ctx)?, self.record_value(right, span, &mut ctx)?];
        let value = self.call_by_values(function, values, span, &mut ctx)?;
        let residuals = self.numeric(value, "`equalityConstraint`", span)?;
        let component: Arc<str> = self.component_path(&ctx);
        let zero = self.graph.number(0.0);
        for &lhs in &residuals.items {
            let origin = Origin::Connection;
            self.out.equations.push(Equation { lhs, rhs: zero, origin, component: component.clone(), span });
        }
        Ok(())
    }

    /// `Connections.isRoot(a)` and `Connections.rooted(a)` as values.
    pub(crate) fn connections_value(&mut self, name: &str, args: &'a [Expr], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let [arg] = args else {
            let message = format!("`Connections.{name}` takes one element, not {}", args.len());
            return Err(self.error("wrong-arguments", span, message));
        };
        let Some(node) = self.connections_node(arg, ctx)? else {
            return Ok(Value::scalar(Type::Boolean, self.graph.truth(false)));
        };
        let is_true = match name {
            "isRoot" => self.connection_graph.depth(node) == Some(0),
            "rooted" => self.is_rooted(node, span)?,
            _ => {
                let message = format!("there is no function `Connections.{name}` with a value");
                return Err(self.error("unknown-function", span, message));
            }
        };
        Ok(Value::scalar(Type::Boolean, self.graph.truth(is_true)))
    }

    /// Whether a node is closer to the root than the one that it has a branch with.
    fn is_rooted(&mut self, node: NodeId, span: Span) -> Res<bool> {
        let graph = &self.connection_graph;
        let at = graph.index.get(&node).copied();
        let partners: Vec<u32> = graph
            .branches
            .iter()
            .filter_map(|&(left, right, _)| match at {
                Some(at) if left == at => Some(right),
                Some(at) if right == at => Some(left),
                _ => None,
            })
            .collect();
        let [partner] = partners.as_slice() else {
            let message = format!("`{}` has {} branches; `rooted` needs one", self.node_path(node), partners.len());
            return Err(self.error("wrong-arguments", span, message));
        };
        Ok(graph.depth(node) < graph.depth(graph.nodes[*partner as usize]))
    }
}

fn second_argument<'a>(args: &'a [Expr], named: &'a [NamedArg], name: &str) -> Option<&'a Expr> {
    args.get(1).or_else(|| named.iter().find(|arg| arg.name.name.text() == name).map(|arg| &arg.value))
}
