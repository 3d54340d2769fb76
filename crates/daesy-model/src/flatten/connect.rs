//! Connections: sets of connected variables, equality of potentials, sums of flows [@modelica36, ch. 9].
//!
//! A connector is seen from two sides: *inside* by the model whose component has it, *outside* by the class that
//! declares it. In a set of connected flow variables, those seen from outside count negatively:
//!
//! ```text
//! sum of flows of inside connectors - sum of flows of outside connectors = 0
//! ```
//!
//! Every flow variable of a connector is in exactly one set from the inside; alone in its set it is zero.

use std::sync::Arc;

use daesy_graph::flat::{Assertion, Equation, Origin};
use daesy_graph::{ExprId, Finding, Span, VarId, VariableKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::expr::{Ctx, Variability};
use super::instance::{NodeKind, PrimId};
use super::reference::Start;
use super::value::{Dims, Type, Value, count, dims_text, offsets};
use super::{Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{Causality, ClassKind, ComponentRef, ConnectorPrefix, Expr, ExprKind, RefPart, Subscript};

/// One side of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Face {
    pub var: VarId,
    pub is_outside: bool,
}

/// Sets of connected variables.
#[derive(Default)]
pub(crate) struct Connections {
    faces: Vec<Face>,
    index: FxHashMap<Face, u32>,
    parents: Vec<u32>,
    spans: Vec<Span>,
    components: Vec<Arc<str>>,
    cardinality: FxHashMap<NodeId, usize>,
    pub streams: super::stream::StreamSets,
    /// Variables that can give a connection its value.
    sources: FxHashSet<VarId>,
}

/// A connector, or an element of an array of simple connectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub node: NodeId,
    pub offset: Option<usize>,
}

/// What one side of a connect equation means.
pub(crate) struct Ends {
    pub dims: Dims,
    pub ends: Vec<End>,
    is_outside: bool,
}

impl Connections {
    fn face(&mut self, face: Face, span: Span, component: &Arc<str>) -> u32 {
        if let Some(&at) = self.index.get(&face) {
            return at;
        }
        let at = self.faces.len() as u32;
        self.index.insert(face, at);
        self.faces.push(face);
        self.parents.push(at);
        self.spans.push(span);
        self.components.push(component.clone());
        at
    }

    fn root(&mut self, at: u32) -> u32 {
        let mut root = at;
        while self.parents[root as usize] != root {
            root = self.parents[root as usize];
        }
        let mut at = at;
        while self.parents[at as usize] != root {
            at = std::mem::replace(&mut self.parents[at as usize], root);
        }
        root
    }

    fn join(&mut self, left: u32, right: u32) {
        let (left, right) = (self.root(left), self.root(right));
        // The older one leads, so that the order of equations follows the order of connections.
        if left < right {
            self.parents[right as usize] = left;
        } else {
            self.parents[left as usize] = right;
        }
    }
}

impl<'a> Flattener<'a> {
    /// `connect(left, right)`
    pub(crate) fn connect(
        &mut self,
        left: &'a ComponentRef,
        right: &'a ComponentRef,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<()> {
        if self.has_expandable && self.defer_connect(left, right, span, ctx)? {
            return Ok(());
        }
        self.connect_now(left, right, span, ctx)
    }

    /// What one side of a connect equation means.
    pub(crate) fn connect_side(&mut self, reference: &'a ComponentRef, ctx: &mut Ctx) -> Res<Option<Ends>> {
        self.ends(reference, ctx)
    }

    /// `connect(left, right)` with everything there.
    pub(crate) fn connect_now(
        &mut self,
        left: &'a ComponentRef,
        right: &'a ComponentRef,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<()> {
        let left = self.ends(left, ctx)?;
        let right = self.ends(right, ctx)?;
        let (Some(left), Some(right)) = (left, right) else { return Ok(()) };
        if left.dims != right.dims {
            let message = format!("connectors of size {} and {}", dims_text(&left.dims), dims_text(&right.dims));
            return Err(self.error_help("wrong-size", span, message, "both sides of connect need the same sizes"));
        }
        for (&one, &other) in left.ends.iter().zip(&right.ends) {
            self.connect_ends(one, left.is_outside, other, right.is_outside, span, ctx, true)?;
        }
        Ok(())
    }

    /// The connectors a reference means; `None` when a component on the way is left out.
    fn ends(&mut self, reference: &'a ComponentRef, ctx: &mut Ctx) -> Res<Option<Ends>> {
        let was = std::mem::replace(&mut ctx.in_connect, true);
        let result = self.ends_inner(reference, ctx);
        ctx.in_connect = was;
        result
    }

    fn ends_inner(&mut self, reference: &'a ComponentRef, ctx: &mut Ctx) -> Res<Option<Ends>> {
        let Start::Node(node, used) = self.resolve_start(reference, ctx)? else {
            return Err(self.error("not-a-connector", reference.span, "connect needs connectors"));
        };
        let first = self.force(node)?;
        if matches!(self.node(first).kind, NodeKind::Absent(_)) {
            return Ok(None);
        }
        let is_outside = self.is_connector(first);
        let mut ends = Ends { dims: Dims::new(), ends: Vec::new(), is_outside };
        let parts = &reference.parts[used..];
        let is_there = self.collect_ends(
            first,
            &reference.parts[used - 1].subscripts,
            parts,
            reference.span,
            ctx,
            &mut ends,
            true,
        )?;
        if !is_there {
            return Ok(None);
        }
        let bad = ends.ends.iter().find(|end| !self.is_connector(end.node)).copied();
        if let Some(bad) = bad {
            let message = format!("`{}` is not a connector", self.node_path(bad.node));
            return Err(self.error_help(
                "not-a-connector",
                reference.span,
                message,
                "only connectors can be connected",
            ));
        }
        Ok(Some(ends))
    }

    fn is_connector(&self, node: NodeId) -> bool {
        match &self.node(node).kind {
            NodeKind::Complex(complex) => complex.is_connector || complex.inherited.in_connector,
            NodeKind::Array { class, first, dims } => {
                let kind = self.class(*class).kind;
                matches!(kind, ClassKind::Connector | ClassKind::ExpandableConnector)
                    || (count(dims) > 0 && self.is_connector(*first))
            }
            NodeKind::Primitive(prim) => {
                let parent = self.prim(*prim).parent;
                self.prim(*prim).class_use.is_connector
                    || self.complex(parent).is_some_and(|complex| complex.inherited.in_connector)
            }
            _ => false,
        }
    }

    fn leads_to_connector(&mut self, node: NodeId) -> Res<bool> {
        let node = self.force(node)?;
        Ok(matches!(self.node(node).kind, NodeKind::Absent(_)) || self.is_connector(node))
    }

    #[allow(clippy::too_many_arguments, reason = "a walk with its result")]
    fn collect_ends(
        &mut self,
        node: NodeId,
        subscripts: &'a [Subscript],
        rest: &'a [RefPart],
        span: Span,
        ctx: &mut Ctx,
        ends: &mut Ends,
        is_first: bool,
    ) -> Res<bool> {
        let node = self.force(node)?;
        match self.node(node).kind.clone() {
            NodeKind::Absent(_) => Ok(false),
            NodeKind::Primitive(prim) => {
                if let Some(part) = rest.first() {
                    let message = format!("`{}` has no part `{}`", self.node(node).name, part.name.name);
                    return Err(self.error("unknown-name", part.name.span, message));
                }
                if self.constraint_of(node).is_some() {
                    // An overdetermined type is one element, also where it is an array of numbers.
                    if self.prim(prim).n_own_dims > 0 || !subscripts.is_empty() {
                        let what = "an element of an array of overdetermined types, or a part of one, in a connection";
                        return Err(self.unsupported("overconstrained arrays", span, what));
                    }
                    ends.ends.push(End { node, offset: None });
                    return Ok(true);
                }
                let dims = self.prim_dims(prim);
                let chosen = self.subscripts(subscripts, &dims, span, ctx)?;
                let lists: Vec<Vec<usize>> = chosen.iter().map(super::reference::positions).collect();
                if is_first {
                    ends.dims.extend(chosen.iter().filter_map(super::reference::kept));
                }
                for offset in offsets(&dims, &lists) {
                    ends.ends.push(End { node, offset: Some(offset) });
                }
                Ok(true)
            }
            NodeKind::Array { dims, first, .. } => {
                let chosen = self.subscripts(subscripts, &dims, span, ctx)?;
                let lists: Vec<Vec<usize>> = chosen.iter().map(super::reference::positions).collect();
                if lists
                    .iter()
                    .zip(&chosen)
                    .any(|(list, one)| list.is_empty() && matches!(one, super::expr::Chosen::Dynamic(_)))
                {
                    return Err(self.error("variability", span, "subscripts in connect must be known"));
                }
                if is_first {
                    ends.dims.extend(chosen.iter().filter_map(super::reference::kept));
                }
                let mut is_there = true;
                for (at, offset) in offsets(&dims, &lists).into_iter().enumerate() {
                    let element = NodeId(first.0 + offset as u32);
                    is_there &= self.collect_ends(element, &[], rest, span, ctx, ends, is_first && at == 0)?;
                }
                Ok(is_there)
            }
            NodeKind::Complex(_) => match rest.split_first() {
                None => {
                    ends.ends.push(End { node, offset: None });
                    Ok(true)
                }
                Some((part, rest)) => match self.part_node(node, part, ctx)? {
                    Ok(child) if !rest.is_empty() && !self.leads_to_connector(child)? => {
                        let message = format!("`{}` is a component of a component", part.name.name);
                        let help = "only the class's own connectors and those of its components can be connected";
                        Err(self.error_help("connect-form", span, message, help))
                    }
                    Ok(child) => self.collect_ends(child, &part.subscripts, rest, span, ctx, ends, is_first),
                    Err(_) => Err(self.error("not-a-connector", span, "connect needs connectors")),
                },
            },
            _ => Err(Refused),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "two ends of a connection")]
    pub(crate) fn connect_ends(
        &mut self,
        left: End,
        left_outside: bool,
        right: End,
        right_outside: bool,
        span: Span,
        ctx: &Ctx,
        is_top: bool,
    ) -> Res<()> {
        let left = End { node: self.force(left.node)?, ..left };
        let right = End { node: self.force(right.node)?, ..right };
        if is_top {
            *self.connections.cardinality.entry(left.node).or_insert(0) += 1;
            *self.connections.cardinality.entry(right.node).or_insert(0) += 1;
        }
        if self.constraint_of(left.node).is_some() && self.constraint_of(right.node).is_some() {
            self.defer_breakable((left, left_outside), (right, right_outside), span, ctx);
            return Ok(());
        }
        self.connect_parts((left, left_outside), (right, right_outside), span, ctx)
    }

    /// Connects the parts of two connectors that have been made.
    pub(crate) fn connect_parts(
        &mut self,
        (left, left_outside): (End, bool),
        (right, right_outside): (End, bool),
        span: Span,
        ctx: &Ctx,
    ) -> Res<()> {
        match (self.node(left.node).kind.clone(), self.node(right.node).kind.clone()) {
            (NodeKind::Complex(one), NodeKind::Complex(other)) => {
                match (self.is_expandable(left.node), self.is_expandable(right.node)) {
                    (false, false) => {}
                    (true, true) => {
                        self.expandable_pairs.push(super::expandable::Pair {
                            left: left.node,
                            left_outside,
                            right: right.node,
                            right_outside,
                            span,
                            instance: ctx.instance,
                        });
                        return Ok(());
                    }
                    _ => {
                        let message = format!("`{}` and `{}`: only one of them is expandable", one.path, other.path);
                        return Err(self.error("incompatible-connectors", span, message));
                    }
                }
                if left.node == right.node {
                    let message = format!("`{}` is connected to itself", one.path);
                    return Err(self.error("self-connection", span, message));
                }
                self.join_streams(left.node, left_outside, right.node, right_outside);
                let n_one = self.class(one.class).components.len();
                let n_other = self.class(other.class).components.len();
                for at in 0..n_one {
                    let child = NodeId(one.first.0 + at as u32);
                    let name = self.node(child).name;
                    let Some(partner) = self.child(&other, name) else {
                        return Err(self.incompatible(left.node, right.node, name, span));
                    };
                    let child = self.force(child)?;
                    let partner = self.force(partner)?;
                    let is_absent = |this: &Self, node: NodeId| matches!(this.node(node).kind, NodeKind::Absent(_));
                    match (is_absent(self, child), is_absent(self, partner)) {
                        (true, true) => continue,
                        (false, false) => {}
                        _ => return Err(self.incompatible(left.node, right.node, name, span)),
                    }
                    let one = End { node: child, offset: None };
                    let other = End { node: partner, offset: None };
                    self.connect_ends(one, left_outside, other, right_outside, span, ctx, false)?;
                }
                if n_one != n_other {
                    let missing = (0..n_other)
                        .map(|at| self.node(NodeId(other.first.0 + at as u32)).name)
                        .find(|&name| self.child(&one, name).is_none());
                    if let Some(name) = missing {
                        return Err(self.incompatible(right.node, left.node, name, span));
                    }
                }
                Ok(())
            }
            (
                NodeKind::Array { dims: one_dims, first: one, .. },
                NodeKind::Array { dims: other_dims, first: other, .. },
            ) => {
                if one_dims != other_dims {
                    let message = format!("connectors of size {} and {}", dims_text(&one_dims), dims_text(&other_dims));
                    return Err(self.error("wrong-size", span, message));
                }
                for at in 0..count(&one_dims) as u32 {
                    let one = End { node: NodeId(one.0 + at), offset: None };
                    let other = End { node: NodeId(other.0 + at), offset: None };
                    self.connect_ends(one, left_outside, other, right_outside, span, ctx, false)?;
                }
                Ok(())
            }
            (NodeKind::Primitive(one), NodeKind::Primitive(other)) => {
                self.connect_prims(one, left.offset, left_outside, other, right.offset, right_outside, span, ctx)
            }
            _ => {
                let type_of = |end: End| {
                    let class = self.complex(end.node).map(|complex| self.class(complex.class).full.to_string());
                    class.map_or_else(|| "a signal".to_owned(), |class| format!("a `{class}`"))
                };
                let message = format!(
                    "`{}` is {}, `{}` is {}: connectors of different kinds",
                    self.node_path(left.node),
                    type_of(left),
                    self.node_path(right.node),
                    type_of(right)
                );
                let help = "connect connectors of the same type; between a signal and a physical connector stands a source \
                            that the signal controls, or a sensor";
                Err(self.error_help("incompatible-connectors", span, message, help))
            }
        }
    }

    fn incompatible(&mut self, with: NodeId, without: NodeId, name: Name, span: Span) -> Refused {
        let class =
            |node| self.complex(node).map_or_else(String::new, |complex| self.class(complex.class).full.to_string());
        let message = format!(
            "`{}` is a `{}`, `{}` is a `{}`: only the first has `{name}`",
            self.node_path(with),
            class(with),
            self.node_path(without),
            class(without)
        );
        let finding = Finding::error("incompatible-connectors", span, message).with_help(
            "connect connectors of the same type, or put a component between them that has one of each, such as a motor",
        );
        self.report(finding)
    }

    #[allow(clippy::too_many_arguments, reason = "two ends of a connection")]
    fn connect_prims(
        &mut self,
        one: PrimId,
        one_offset: Option<usize>,
        one_outside: bool,
        other: PrimId,
        other_offset: Option<usize>,
        other_outside: bool,
        span: Span,
        ctx: &Ctx,
    ) -> Res<()> {
        let (left, right) = (self.prim(one), self.prim(other));
        let names = |this: &Self| {
            let name = |prim: PrimId| {
                this.prim(prim).first.map_or_else(String::new, |first| this.variables[first.index()].name.clone())
            };
            format!("`{}` and `{}`", name(one), name(other))
        };
        let is_discrete_pair = |left: &Type, right: &Type| left.fits(right) || right.fits(left);
        if !is_discrete_pair(&left.ty, &right.ty) || (left.ty == Type::Real) != (right.ty == Type::Real) {
            let message = format!("{} cannot be connected: {} and {}", names(self), left.ty.word(), right.ty.word());
            return Err(self.error("incompatible-connectors", span, message));
        }
        if left.connector_prefix != right.connector_prefix {
            let message = format!("{} cannot be connected: one is flow or stream, the other is not", names(self));
            return Err(self.error("incompatible-connectors", span, message));
        }
        let dims_of = |prim: &super::instance::Prim<'_>, offset: Option<usize>| -> Dims {
            if offset.is_some() { Dims::new() } else { prim.dims.iter().copied().collect() }
        };
        let (left_dims, right_dims) = (dims_of(left, one_offset), dims_of(right, other_offset));
        if left_dims != right_dims {
            let message =
                format!("{} differ in size: {} and {}", names(self), dims_text(&left_dims), dims_text(&right_dims));
            return Err(self.error("wrong-size", span, message));
        }
        let (Some(left_first), Some(right_first)) = (left.first, right.first) else { return Err(Refused) };
        let (left_variability, right_variability) = (left.variability, right.variability);
        let (left_causality, right_causality) = (left.causality, right.causality);
        let prefix = left.connector_prefix;
        let n = count(&left_dims) as u32;
        let pairs: Vec<(VarId, VarId)> = (0..n)
            .map(|at| {
                (
                    VarId(left_first.0 + one_offset.map_or(at, |offset| offset as u32)),
                    VarId(right_first.0 + other_offset.map_or(at, |offset| offset as u32)),
                )
            })
            .collect();
        let component = self.component_path(ctx);
        if left_variability <= Variability::Parameter || right_variability <= Variability::Parameter {
            if left_variability.max(right_variability) > Variability::Parameter {
                let message = format!("{} cannot be connected: one is a parameter or constant", names(self));
                return Err(self.error("incompatible-connectors", span, message));
            }
            if self.prim(one).ty == Type::String {
                return Ok(());
            }
            return self.connect_parameters(&pairs, &component, span);
        }
        // Two sources: two outputs of components, or two inputs of the class itself.
        let is_source = |this: &Self, prim: PrimId, causality: Option<Causality>, is_outside: bool| match causality {
            Some(Causality::Output) => !is_outside,
            Some(Causality::Input) => is_outside && !this.is_protected_in(prim, ctx.instance),
            None => false,
        };
        if is_source(self, one, left_causality, one_outside) && is_source(self, other, right_causality, other_outside) {
            let message = format!("{} both give a value to the connection", names(self));
            return Err(self.error_help("two-sources", span, message, "connect outputs to inputs"));
        }
        if prefix == Some(ConnectorPrefix::Stream) || self.prim(one).ty == Type::String {
            return Ok(());
        }
        let is_flow = prefix == Some(ConnectorPrefix::Flow);
        let left_expandable = self.is_expandable(self.prim(one).parent);
        let right_expandable = self.is_expandable(self.prim(other).parent);
        for (left, right) in pairs {
            if !left_expandable && (left_causality != Some(Causality::Input) || one_outside) {
                self.connections.sources.insert(left);
            }
            if !right_expandable && (right_causality != Some(Causality::Input) || other_outside) {
                self.connections.sources.insert(right);
            }
            let left = Face { var: left, is_outside: is_flow && one_outside };
            let right = Face { var: right, is_outside: is_flow && other_outside };
            let left = self.connections.face(left, span, &component);
            let right = self.connections.face(right, span, &component);
            self.connections.join(left, right);
        }
        Ok(())
    }

    /// Parameters that are connected must be equal.
    fn connect_parameters(&mut self, pairs: &[(VarId, VarId)], component: &Arc<str>, span: Span) -> Res<()> {
        for &(left, right) in pairs {
            let name = self.variables[left.index()].name.clone();
            let other = self.variables[right.index()].name.clone();
            let (left, right) = (self.face_value(left, span)?, self.face_value(right, span)?);
            let condition = self.graph.equal(left, right);
            if self.graph.as_number(condition) == Some(0.0) {
                let message = format!("`{name}` and `{other}` are connected but have different values");
                return Err(self.error("incompatible-connectors", span, message));
            }
            if self.graph.as_number(condition).is_none() {
                self.out.assertions.push(Assertion {
                    condition,
                    message: format!("connected parameters {name} and {other} must be equal"),
                    is_warning: false,
                    component: component.clone(),
                    span,
                });
            }
        }
        Ok(())
    }

    /// Whether a variable belongs to a protected component of an instance: nothing outside gives it a value
    /// [@modelica36, sec. 9.3].
    fn is_protected_in(&self, prim: PrimId, instance: NodeId) -> bool {
        let Some(complex) = self.complex(instance) else { return false };
        let class = self.class(complex.class);
        let mut name = self.prim(prim).elem.name;
        let mut at = self.prim(prim).parent;
        while at != instance {
            if !at.is_some() {
                return false;
            }
            name = self.node(at).name;
            at = self.node(at).parent;
        }
        class.table.get(&name).is_some_and(|&at| class.elements[at as usize].prefixes.is_protected)
    }

    fn face_value(&mut self, var: VarId, span: Span) -> Res<ExprId> {
        if self.variables[var.index()].kind != VariableKind::Constant {
            return Ok(self.graph.var(var));
        }
        let prim = self.var_prims[var.index()];
        let value = self.known_value(prim, span)?;
        let offset = var.index() - self.prim(prim).first.map_or(0, VarId::index);
        match &*value {
            Value::Scalars(scalars) => Ok(scalars.items[offset]),
            _ => Err(Refused),
        }
    }

    /// How often a connector occurs in connect equations.
    pub(crate) fn cardinality(&mut self, args: &'a [Expr], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let [only] = args else {
            return Err(self.error("wrong-arguments", span, "`cardinality` takes one connector"));
        };
        let ExprKind::Ref(reference) = &only.kind else {
            return Err(self.error("not-a-connector", span, "`cardinality` takes a connector"));
        };
        let Some(ends) = self.ends(reference, ctx)? else {
            return Ok(Value::scalar(Type::Integer, self.graph.number(0.0)));
        };
        let [end] = ends.ends.as_slice() else {
            return Err(self.error("wrong-size", span, "`cardinality` takes one connector"));
        };
        let n = self.connections.cardinality.get(&end.node).copied().unwrap_or(0);
        Ok(Value::scalar(Type::Integer, self.graph.number(n as f64)))
    }

    /// Equations of all sets.
    pub(crate) fn close_connections(&mut self) {
        let mut connections = std::mem::take(&mut self.connections);
        // Flow variables that nothing is connected to from the inside.
        for at in 0..self.prims.len() {
            let prim = &self.prims[at];
            let (Some(first), Some(ConnectorPrefix::Flow)) = (prim.first, prim.connector_prefix) else { continue };
            if prim.variability <= Variability::Parameter {
                continue;
            }
            let span = prim.elem.span;
            let component = self.complex(prim.parent).map_or_else(|| Arc::from(""), |complex| complex.path.clone());
            for var in first.0..first.0 + count(&prim.dims) as u32 {
                connections.face(Face { var: VarId(var), is_outside: false }, span, &component);
            }
        }
        let n = connections.faces.len();
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut set_of: FxHashMap<u32, usize> = FxHashMap::default();
        for at in 0..n as u32 {
            let root = connections.root(at);
            let set = *set_of.entry(root).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[set].push(at);
        }
        for set in &members {
            let Some(&lead) = set.first() else { continue };
            let face = connections.faces[lead as usize];
            let span = connections.spans[lead as usize];
            let component = connections.components[lead as usize].clone();
            if self.variables[face.var.index()].is_flow {
                let mut sum: Option<ExprId> = None;
                for &at in set {
                    let face = connections.faces[at as usize];
                    let value = self.graph.var(face.var);
                    sum = Some(match (sum, face.is_outside) {
                        (None, false) => value,
                        (None, true) => self.graph.neg(value),
                        (Some(sum), false) => self.graph.add(sum, value),
                        (Some(sum), true) => self.graph.sub(sum, value),
                    });
                }
                let Some(lhs) = sum else { continue };
                let rhs = self.graph.number(0.0);
                let origin = if set.len() == 1 { Origin::UnconnectedFlow } else { Origin::FlowSum };
                self.out.equations.push(Equation { lhs, rhs, origin, component, span });
            } else {
                let member = set.iter().map(|&at| connections.faces[at as usize].var).find(|var| {
                    let prim = self.var_prims[var.index()];
                    self.is_expandable(self.prim(prim).parent)
                });
                if let Some(member) = member
                    && !set.iter().any(|&at| connections.sources.contains(&connections.faces[at as usize].var))
                {
                    let name = self.variables[member.index()].name.clone();
                    let message = format!("nothing gives `{name}` in an expandable connector its value");
                    self.error_help("expandable-connector", span, message, "connect an output to it");
                }
                let lhs = self.graph.var(face.var);
                for &at in &set[1..] {
                    let rhs = self.graph.var(connections.faces[at as usize].var);
                    self.out.equations.push(Equation {
                        lhs,
                        rhs,
                        origin: Origin::Connection,
                        component: connections.components[at as usize].clone(),
                        span: connections.spans[at as usize],
                    });
                }
            }
        }
        self.connections = connections;
        self.close_streams();
    }
}
