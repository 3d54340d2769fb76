//! Sizes without values: iterators whose range follows from their use, and `size` of components.

use daesy_graph::Span;
use smallvec::SmallVec;

use super::expr::{Ctx, UsedRange};
use super::instance::NodeKind;
use super::value::Type;
use super::{Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{ComponentRef, Equation, Expr, ExprKind, RefPart, Statement, StatementKind, Subscript};

impl<'a> Flattener<'a> {
    /// The size of a dimension that an iterator without range indexes.
    pub(crate) fn size_by_use_expr(&mut self, expr: &'a Expr, name: Name, ctx: &mut Ctx) -> Res<Option<UsedRange>> {
        let mut uses = Vec::new();
        super::check::indexed_by(expr, name, &mut uses);
        self.size_of_use(&uses, ctx)
    }

    pub(crate) fn size_of_use(&mut self, uses: &[super::check::Use<'a>], ctx: &mut Ctx) -> Res<Option<UsedRange>> {
        let mut range: Option<UsedRange> = None;
        for one in uses {
            let Ok(dims) = self.reference_sizes(one.reference, one.part, ctx) else { continue };
            let Some(&n) = dims.get(one.dimension) else { continue };
            let ty = self.dimension_type(one, ctx).unwrap_or(Type::Integer);
            let this = UsedRange { ty, n };
            if range.as_ref().is_some_and(|range| *range != this) {
                let message = "the iterator without range is used for dimensions of different sizes";
                let span = one.reference.span;
                return Err(self.error_help("iterator-range", span, message, "write `in 1:n`"));
            }
            range = Some(this);
        }
        Ok(range)
    }

    /// The type whose values index a dimension, when it is declared as `x[Boolean]` or `x[E]`.
    pub(crate) fn dimension_type(&mut self, one: &super::check::Use<'a>, ctx: &mut Ctx) -> Option<Type> {
        if ctx.locals.iter().any(|local| local.name == one.reference.parts[0].name.name) {
            return None;
        }
        let super::reference::Start::Node(node, used) = self.resolve_start(one.reference, ctx).ok()? else {
            return None;
        };
        if used != one.part + 1 {
            return None;
        }
        let node = self.force(node).ok()?;
        let NodeKind::Primitive(prim) = self.node(node).kind else { return None };
        let elem = self.prim(prim).elem.clone();
        let super::class::ElemKind::Component(decl) = elem.kind else { return None };
        let subscript = decl.subscripts.iter().chain(&decl.type_subscripts).nth(one.dimension)?;
        let Subscript::Expr(expr) = subscript else { return None };
        let ExprKind::Ref(reference) = &expr.kind else { return None };
        let scope = Ctx::new(elem.owner, NodeId::NONE);
        self.index_type(reference, &scope)
    }

    /// Sizes of a part of a reference, without its own subscripts.
    pub(crate) fn reference_sizes(
        &mut self,
        reference: &'a ComponentRef,
        part: usize,
        ctx: &mut Ctx,
    ) -> Res<SmallVec<[usize; 2]>> {
        if let Some(local) = ctx.locals.iter().rev().find(|local| local.name == reference.parts[0].name.name) {
            return Ok(if part == 0 { local.value.dims().iter().copied().collect() } else { SmallVec::new() });
        }
        let super::reference::Start::Node(node, used) = self.resolve_start(reference, ctx)? else {
            return Err(Refused);
        };
        if part + 1 < used {
            return Err(Refused);
        }
        let mut node = self.force(node)?;
        for step in &reference.parts[used..=part] {
            if let NodeKind::Array { first, .. } = self.node(node).kind {
                node = first;
            }
            match self.part_node(node, step, ctx)? {
                Ok(child) => node = self.force(child)?,
                Err(_) => return Err(Refused),
            }
        }
        Ok(match &self.node(node).kind {
            NodeKind::Array { dims, .. } => dims.iter().copied().collect(),
            NodeKind::Primitive(prim) => self.prim_dims(*prim),
            _ => SmallVec::new(),
        })
    }

    pub(crate) fn size_by_use_equations(
        &mut self,
        body: &'a [Equation],
        name: Name,
        ctx: &mut Ctx,
    ) -> Res<Option<UsedRange>> {
        let mut uses = Vec::new();
        super::check::each_expr_in_equations(body, &mut |expr| super::check::indexed_by(expr, name, &mut uses));
        super::check::each_connect(body, &mut |reference| {
            super::check::reference_indexed_by(reference, name, &mut uses)
        });
        self.size_of_use(&uses, ctx)
    }

    pub(crate) fn size_by_use_statements(
        &mut self,
        body: &'a [Statement],
        name: Name,
        ctx: &mut Ctx,
    ) -> Res<Option<UsedRange>> {
        let mut uses = Vec::new();
        for statement in body {
            match &statement.kind {
                StatementKind::Assign { target, value } => {
                    super::check::reference_indexed_by(target, name, &mut uses);
                    super::check::indexed_by(value, name, &mut uses);
                }
                StatementKind::AssignTuple { call, .. } => super::check::indexed_by(call, name, &mut uses),
                StatementKind::Call(call) => super::check::indexed_by(call, name, &mut uses),
                StatementKind::For { body, .. } => {
                    if let Some(size) = self.size_by_use_statements(body, name, ctx)? {
                        return Ok(Some(size));
                    }
                }
                _ => {}
            }
        }
        self.size_of_use(&uses, ctx)
    }

    /// Sizes of an expression that names a component, without reading its value.
    pub(crate) fn component_sizes(&mut self, expr: &'a Expr, ctx: &mut Ctx) -> Res<Option<SmallVec<[usize; 2]>>> {
        let ExprKind::Ref(reference) = &expr.kind else { return Ok(None) };
        if let Some(local) = ctx.locals.iter().rev().find(|local| local.name == reference.parts[0].name.name) {
            // A size is known before a value is.
            let is_whole = reference.parts.len() == 1 && reference.parts[0].subscripts.is_empty();
            return Ok((is_whole && !local.is_set).then(|| local.value.dims().iter().copied().collect()));
        }
        let super::reference::Start::Node(node, used) = self.resolve_start(reference, ctx)? else { return Ok(None) };
        let parts = &reference.parts[used..];
        self.node_sizes(node, &reference.parts[used - 1].subscripts, parts, expr.span, ctx).map(Some)
    }

    pub(crate) fn node_sizes(
        &mut self,
        node: NodeId,
        subscripts: &'a [Subscript],
        rest: &'a [RefPart],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<SmallVec<[usize; 2]>> {
        let node = self.force(node)?;
        let mut dims: SmallVec<[usize; 2]> = SmallVec::new();
        let mut inner = node;
        match self.node(node).kind.clone() {
            NodeKind::Primitive(prim) => {
                let all = self.prim_dims(prim);
                let chosen = self.subscripts(subscripts, &all, span, ctx)?;
                dims.extend(chosen.iter().filter_map(super::reference::kept));
                return Ok(dims);
            }
            NodeKind::Array { dims: all, first, .. } => {
                let chosen = self.subscripts(subscripts, &all, span, ctx)?;
                dims.extend(chosen.iter().filter_map(super::reference::kept));
                if all.contains(&0) {
                    return Ok(dims);
                }
                inner = first;
            }
            NodeKind::Complex(_) => {}
            _ => return Err(Refused),
        }
        if let Some((part, rest)) = rest.split_first() {
            match self.part_node(inner, part, ctx)? {
                Ok(child) => dims.extend(self.node_sizes(child, &part.subscripts, rest, span, ctx)?),
                Err(_) => return Err(Refused),
            }
        }
        Ok(dims)
    }
}
