//! Expandable connectors: members come into being by being connected [@modelica36, sec. 9.1.3].
//!
//! A declared member is made when something is connected to it; an undeclared one takes its type from its partner.
//! Expandable connectors that are connected to each other have the same members in the end.

use std::rc::Rc;
use std::sync::Arc;

use daesy_graph::Span;
use rustc_hash::FxHashMap;

use super::connect::End;
use super::expr::Ctx;
use super::instance::{Inherited, NodeKind};
use super::reference::Start;
use super::value::Dims;
use super::{Flattener, NodeId, Res};
use crate::name::Name;
use crate::syntax::{ClassKind, ComponentRef, Subscript};

/// A connection that waits for a member to be made.
pub(crate) struct Waiting<'a> {
    pub left: &'a ComponentRef,
    pub right: &'a ComponentRef,
    pub span: Span,
    pub ctx: Ctx,
}

/// A member that an expandable connector does not have yet.
struct Missing<'a> {
    connector: NodeId,
    name: Name,
    subscripts: &'a [Subscript],
}

/// Two connected expandable connectors.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub left: NodeId,
    pub left_outside: bool,
    pub right: NodeId,
    pub right_outside: bool,
    pub span: Span,
    pub instance: NodeId,
}

impl<'a> Flattener<'a> {
    /// Whether a node is an expandable connector.
    pub(crate) fn is_expandable(&self, node: NodeId) -> bool {
        self.complex(node).is_some_and(|complex| self.class(complex.class).kind == ClassKind::ExpandableConnector)
    }

    /// The member of an expandable connector that a reference asks for and that is not there.
    fn missing_member(&mut self, reference: &'a ComponentRef, ctx: &mut Ctx) -> Res<Option<Missing<'a>>> {
        let was = std::mem::replace(&mut ctx.in_connect, true);
        let result = self.missing_member_inner(reference, ctx);
        ctx.in_connect = was;
        result
    }

    fn missing_member_inner(&mut self, reference: &'a ComponentRef, ctx: &mut Ctx) -> Res<Option<Missing<'a>>> {
        let Start::Node(node, used) = self.resolve_start(reference, ctx)? else { return Ok(None) };
        let mut node = self.force(node)?;
        for at in used..=reference.parts.len() {
            if let NodeKind::Array { dims, first, .. } = self.node(node).kind.clone() {
                let chosen = self.subscripts(&reference.parts[at - 1].subscripts, &dims, reference.span, ctx)?;
                let lists: Vec<Vec<usize>> = chosen.iter().map(super::reference::positions).collect();
                let Some(&offset) = super::value::offsets(&dims, &lists).first() else { return Ok(None) };
                node = NodeId(first.0 + offset as u32);
            }
            let Some(part) = reference.parts.get(at) else { return Ok(None) };
            let Some(complex) = self.complex(node) else { return Ok(None) };
            match self.child(&complex, part.name.name) {
                Some(child) => node = self.force(child)?,
                None if self.is_expandable(node) => {
                    if at + 1 < reference.parts.len() {
                        let what = "a new member with members of its own";
                        return Err(self.unsupported("nested expandable connectors", reference.span, what));
                    }
                    let missing = Missing { connector: node, name: part.name.name, subscripts: &part.subscripts };
                    return Ok(Some(missing));
                }
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Puts a connection aside when it needs a member that is not there yet.
    pub(crate) fn defer_connect(
        &mut self,
        left: &'a ComponentRef,
        right: &'a ComponentRef,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<bool> {
        if self.missing_member(left, ctx)?.is_none() && self.missing_member(right, ctx)?.is_none() {
            return Ok(false);
        }
        self.waiting.push(Waiting { left, right, span, ctx: ctx.clone() });
        Ok(true)
    }

    /// Makes the members that were asked for, then the connections that waited for them.
    pub(crate) fn expand_connectors(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        // How large new arrays must be: the largest subscript asked for.
        let mut sizes: FxHashMap<(NodeId, Name), Dims> = FxHashMap::default();
        let mut is_made: Vec<bool> = Vec::with_capacity(waiting.len());
        for one in &waiting {
            let mut ctx = one.ctx.clone();
            for reference in [one.left, one.right] {
                let Ok(Some(missing)) = self.missing_member(reference, &mut ctx) else { continue };
                let mut dims = Dims::new();
                for subscript in missing.subscripts {
                    if let Subscript::Expr(expr) = subscript
                        && let Ok(index) = self.structural_scalar(expr, &mut ctx, "a subscript")
                    {
                        dims.push(index.value.max(0.0) as usize);
                    }
                }
                let known = sizes.entry((missing.connector, missing.name)).or_default();
                if known.len() < dims.len() {
                    known.resize(dims.len(), 0);
                }
                for (known, dim) in known.iter_mut().zip(&dims) {
                    *known = (*known).max(*dim);
                }
            }
            is_made.push(false);
        }
        loop {
            let mut has_changed = false;
            for (at, one) in waiting.iter().enumerate() {
                if is_made[at] {
                    continue;
                }
                let mut ctx = one.ctx.clone();
                let (Ok(left), Ok(right)) =
                    (self.missing_member(one.left, &mut ctx), self.missing_member(one.right, &mut ctx))
                else {
                    is_made[at] = true;
                    continue;
                };
                let (missing, partner) = match (left, right) {
                    (None, None) => {
                        is_made[at] = true;
                        has_changed = true;
                        let _ = self.connect_now(one.left, one.right, one.span, &mut ctx);
                        continue;
                    }
                    (Some(missing), None) => (missing, one.right),
                    (None, Some(missing)) => (missing, one.left),
                    (Some(_), Some(_)) => continue,
                };
                let dims = sizes.get(&(missing.connector, missing.name)).cloned().unwrap_or_default();
                match self.make_member(&missing, partner, &dims, one.span, &mut ctx) {
                    Ok(()) => has_changed = true,
                    Err(_) => is_made[at] = true,
                }
            }
            if !has_changed {
                break;
            }
        }
        for (at, one) in waiting.iter().enumerate() {
            if !is_made[at] {
                let message = "both sides are members that no other connection declares";
                self.error("expandable-connector", one.span, message);
            }
        }
        self.join_expandables();
    }

    fn make_member(
        &mut self,
        missing: &Missing<'a>,
        partner: &'a ComponentRef,
        dims: &[usize],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<()> {
        let Some(ends) = self.connect_side(partner, ctx)? else {
            // The partner is left out: so is the member.
            let absent = self.push_node(missing.connector, missing.name, NodeKind::Absent(span));
            self.extra_members.insert((missing.connector, missing.name), absent);
            return Ok(());
        };
        let Some(&first) = ends.ends.first() else { return Ok(()) };
        let all: Dims = if missing.subscripts.is_empty() { ends.dims.clone() } else { dims.iter().copied().collect() };
        self.copy_member(missing.connector, missing.name, first, &all, span)
    }

    /// A member like another connector, with the given sizes.
    fn copy_member(&mut self, connector: NodeId, name: Name, like: End, dims: &[usize], span: Span) -> Res<()> {
        let Some(parent) = self.complex(connector) else { return Err(super::Refused) };
        let member = self.push_node(connector, name, NodeKind::Busy);
        self.extra_members.insert((connector, name), member);
        let path = Self::child_path(&parent.path, name);
        let inherited = Inherited {
            in_connector: true,
            is_protected: parent.inherited.is_protected,
            connector_prefix: None,
            ..Inherited::default()
        };
        match self.node(like.node).kind.clone() {
            NodeKind::Primitive(prim) => self.copy_primitive(member, connector, prim, dims, &path, inherited),
            NodeKind::Complex(complex) if dims.is_empty() => {
                let layers = super::modifier::Layers::new();
                self.make_complex(member, complex.class, layers, Arc::from(path), inherited, true, span)
            }
            NodeKind::Complex(complex) => {
                let first = NodeId(self.nodes.len() as u32);
                let n = super::value::count(dims);
                for _ in 0..n {
                    self.push_node(member, name, NodeKind::Busy);
                }
                self.set_kind(member, NodeKind::Array { dims: Rc::from(dims), first, class: complex.class });
                let mut index: smallvec::SmallVec<[u32; 2]> = smallvec::SmallVec::from_elem(0, dims.len());
                for at in 0..n {
                    let path: Arc<str> = Arc::from(format!("{path}{}", super::instance::index_text(&index)));
                    let layers = super::modifier::Layers::new();
                    let node = NodeId(first.0 + at as u32);
                    self.make_complex(node, complex.class, layers, path, inherited, true, span)?;
                    super::instance::next_index(&mut index, dims);
                }
                Ok(())
            }
            _ => Err(self.unsupported("expandable connectors", span, &format!("the member `{path}`"))),
        }
    }

    /// Members of an expandable connector that are there.
    fn members(&self, node: NodeId) -> Vec<(Name, NodeId)> {
        let Some(complex) = self.complex(node) else { return Vec::new() };
        let n = self.class(complex.class).components.len() as u32;
        let mut members: Vec<(Name, NodeId)> = (0..n)
            .map(|at| NodeId(complex.first.0 + at))
            .filter(|&child| !matches!(self.node(child).kind, NodeKind::Pending { .. } | NodeKind::Absent(_)))
            .map(|child| (self.node(child).name, child))
            .collect();
        let mut extra: Vec<(Name, NodeId)> = self
            .extra_members
            .iter()
            .filter(|((connector, _), _)| *connector == node)
            .map(|((_, name), &child)| (*name, child))
            .filter(|(_, child)| !matches!(self.node(*child).kind, NodeKind::Absent(_)))
            .collect();
        extra.sort_by_key(|(_, child)| *child);
        members.extend(extra);
        members
    }

    /// Members of two connected connectors that are expandable themselves are connected too.
    fn add_nested_pairs(&self, pairs: &mut Vec<Pair>) -> bool {
        let n_before = pairs.len();
        for at in 0..n_before {
            let pair = pairs[at];
            for (name, left) in self.members(pair.left) {
                let Some((_, right)) = self.members(pair.right).into_iter().find(|(other, _)| *other == name) else {
                    continue;
                };
                let is_known = pairs.iter().any(|one| (one.left, one.right) == (left, right));
                if self.is_expandable(left) && self.is_expandable(right) && !is_known {
                    pairs.push(Pair { left, right, ..pair });
                }
            }
        }
        pairs.len() > n_before
    }

    /// Connected expandable connectors get the members of each other, then the members are connected.
    fn join_expandables(&mut self) {
        let mut pairs = std::mem::take(&mut self.expandable_pairs);
        loop {
            let mut has_changed = self.add_nested_pairs(&mut pairs);
            for pair in &pairs {
                for (from, to) in [(pair.left, pair.right), (pair.right, pair.left)] {
                    for (name, member) in self.members(from) {
                        if self.members(to).iter().any(|(other, _)| *other == name) {
                            continue;
                        }
                        let Some(complex) = self.complex(to) else { continue };
                        let declared = self.child(&complex, name);
                        let result = match declared {
                            Some(child) => self.force(child).map(|_| ()),
                            None => {
                                let (like, dims) = match self.node(member).kind.clone() {
                                    NodeKind::Array { dims, first, .. } => (first, dims.iter().copied().collect()),
                                    NodeKind::Primitive(prim) => (member, self.prim_dims(prim)),
                                    _ => (member, Dims::new()),
                                };
                                self.copy_member(to, name, End { node: like, offset: None }, &dims, pair.span)
                            }
                        };
                        has_changed |= result.is_ok();
                    }
                }
            }
            if !has_changed {
                break;
            }
        }
        for pair in &pairs {
            let ctx = Ctx::new(super::ClassId::ROOT, pair.instance);
            for (name, member) in self.members(pair.left) {
                let partner = self.members(pair.right).into_iter().find(|(other, _)| *other == name);
                // Connectors that are expandable themselves are pairs of their own.
                if let Some((_, partner)) = partner.filter(|_| !self.is_expandable(member)) {
                    let left = End { node: member, offset: None };
                    let right = End { node: partner, offset: None };
                    let _ =
                        self.connect_ends(left, pair.left_outside, right, pair.right_outside, pair.span, &ctx, false);
                }
            }
        }
    }
}
