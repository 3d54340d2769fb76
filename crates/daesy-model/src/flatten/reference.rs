//! References to components, constants, literals and functions.

use std::sync::Arc;

use daesy_graph::{Finding, Span, Unit, VarId};
use smallvec::SmallVec;

use super::class::Core;
use super::expr::{Chosen, Ctx, Variability};
use super::instance::{NodeKind, PrimId};
use super::lookup::Found;
use super::value::{Dims, Field, FunctionValue, Record, Scalars, Type, Value, count, offsets};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::syntax::{ClassKind, ComponentRef, RefPart};

/// What the first parts of a reference lead to.
pub(crate) enum Start {
    /// A component; so many parts have been used up, the last of them without its subscripts.
    Node(NodeId, usize),
    /// A class; all parts are used up.
    Class(ClassId),
    /// A literal of an enumeration.
    Literal(ClassId, usize),
}

impl<'a> Flattener<'a> {
    /// The value of a reference.
    pub(crate) fn reference(&mut self, reference: &'a ComponentRef, ctx: &mut Ctx) -> Res<Value> {
        let first = &reference.parts[0];
        if !reference.is_global {
            if let Some(local) = ctx.locals.iter().rev().find(|local| local.name == first.name.name) {
                let has_elements = count(local.value.dims()) > 0;
                if !local.is_set && has_elements {
                    let message = format!("`{}` is used before it has a value", first.name.name);
                    return Err(self.error("unset-variable", first.name.span, message));
                }
                let value = local.value.clone();
                return self.value_parts(value, &reference.parts, reference.span, ctx);
            }
            if first.name.name.text() == "time" && reference.parts.len() == 1 && self.is_builtin("time", ctx.scope) {
                if ctx.is_structural {
                    return Err(self.not_structural(reference.span, "`time` cannot be used here", None));
                }
                if ctx.in_function {
                    return Err(self.error("time-in-function", reference.span, "`time` cannot be used in a function"));
                }
                return Ok(Value::scalar(Type::Real, self.graph.time()));
            }
        }
        match self.resolve_start(reference, ctx)? {
            Start::Node(node, used) => {
                self.walk(node, &reference.parts[used - 1].subscripts, &reference.parts[used..], reference.span, ctx)
            }
            Start::Literal(class, at) => {
                let Core::Enumeration(enumeration) = self.class(class).core.clone() else { return Err(Refused) };
                Ok(Value::scalar(Type::Enumeration(enumeration), self.graph.number(at as f64 + 1.0)))
            }
            Start::Class(class) => {
                let core = self.class_use(class)?.class;
                match self.class(core).kind {
                    ClassKind::Function | ClassKind::OperatorFunction => {
                        Ok(Value::Function(Box::new(FunctionValue { class: core, bound: Vec::new() })))
                    }
                    _ => {
                        let message = format!("`{}` is a class, not a value", self.class(class).full);
                        Err(self.error("not-a-value", reference.span, message))
                    }
                }
            }
        }
    }

    /// Goes from the first name to a component or class.
    pub(crate) fn resolve_start(&mut self, reference: &'a ComponentRef, ctx: &Ctx) -> Res<Start> {
        let first = &reference.parts[0];
        let found = if reference.is_global {
            self.top_class(first.name.name).map(|found| found.map(|class| Found::Class { class, is_local: false }))
        } else {
            self.lookup(first.name.name, ctx.scope)
        };
        let Some(found) = found else {
            return Err(self.unknown_name(first.name, ctx.scope, false));
        };
        let mut found = self.bind_found(found?, first.name, reference.is_global, ctx.scope, ctx.instance)?;
        let mut used = 1;
        loop {
            match found {
                Found::Component { holder, at, is_local } => {
                    let name = reference.parts[used - 1].name;
                    let elem = self.class(holder).elements[at as usize].clone();
                    self.check_unconditional(&elem, name.span, ctx)?;
                    let node = if is_local && used == 1 && ctx.instance.is_some() {
                        let Some(complex) = self.complex(ctx.instance) else { return Err(Refused) };
                        match self.child(&complex, name.name) {
                            Some(node) => self.seen_as_outer.get(&node).copied().unwrap_or(node),
                            None => return Err(self.unknown_name(name, ctx.scope, false)),
                        }
                    } else {
                        self.constant_node(holder, at, name.span)?
                    };
                    return Ok(Start::Node(node, used));
                }
                Found::Class { class, .. } => {
                    if used == reference.parts.len() {
                        return Ok(Start::Class(class));
                    }
                    let part = &reference.parts[used];
                    let core = self.class_use(class)?.class;
                    if let Core::Enumeration(enumeration) = &self.class(core).core {
                        let literal = enumeration.literals.iter().position(|one| one == part.name.name.text());
                        return match literal {
                            Some(at) if used + 1 == reference.parts.len() => Ok(Start::Literal(core, at)),
                            _ => {
                                let known = enumeration.clone();
                                let mut finding = Finding::error(
                                    "unknown-literal",
                                    part.name.span,
                                    format!("the enumeration `{}` has no literal `{}`", known.name, part.name.name),
                                );
                                finding.help =
                                    Self::suggest(part.name.name.text(), known.literals.iter().map(String::as_str));
                                Err(self.report(finding))
                            }
                        };
                    }
                    found = match self.member(class, part.name.name) {
                        Some(next) => match next? {
                            Found::Class { class, .. } => {
                                Found::Class { class: self.bind_context(class, NodeId::NONE), is_local: false }
                            }
                            Found::Component { holder, at, .. } => Found::Component { holder, at, is_local: false },
                        },
                        None => {
                            let full = self.class(class).full.clone();
                            let mut finding = Finding::error(
                                "unknown-name",
                                part.name.span,
                                format!("`{full}` has no element `{}`", part.name.name),
                            );
                            let known = self.element_names(core);
                            finding.help = Self::suggest(part.name.name.text(), known);
                            return Err(self.report(finding));
                        }
                    };
                    used += 1;
                }
            }
        }
    }

    /// Conditional components can be used in connect equations only [@modelica36, sec. 4.4.5].
    fn check_unconditional(&mut self, elem: &super::class::Elem<'a>, span: Span, ctx: &Ctx) -> Res<()> {
        if let super::class::ElemKind::Component(decl) = elem.kind
            && decl.condition.is_some()
            && !ctx.in_connect
        {
            let finding = Finding::error(
                "conditional-component",
                span,
                format!("`{}` has a condition and can be used in connect equations only", elem.name),
            )
            .with_label(elem.span, "declared here");
            return Err(self.report(finding));
        }
        Ok(())
    }

    /// The node of a constant that is declared in a package or an enclosing class.
    fn constant_node(&mut self, holder: ClassId, at: u32, span: Span) -> Res<NodeId> {
        let elem = self.class(holder).elements[at as usize].clone();
        let package = self.package_node(holder)?;
        let is_constant = matches!(elem.kind, super::class::ElemKind::Component(decl)
            if decl.variability == Some(crate::syntax::VariabilityPrefix::Constant));
        if !is_constant {
            let message = format!("`{}` is declared in `{}` and is not a constant", elem.name, self.class(holder).full);
            let finding = Finding::error("not-constant", span, message)
                .with_label(elem.span, "declared here")
                .with_help("from enclosing classes and packages only constants can be used");
            return Err(self.report(finding));
        }
        let Some(complex) = self.complex(package) else { return Err(Refused) };
        self.child(&complex, elem.name).ok_or(Refused)
    }

    /// The value of a component with subscripts, or of one of its parts.
    pub(crate) fn walk(
        &mut self,
        node: NodeId,
        subscripts: &'a [crate::syntax::Subscript],
        rest: &'a [RefPart],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let node = self.force(node)?;
        match self.node(node).kind.clone() {
            NodeKind::Primitive(prim) => {
                if let Some(part) = rest.first() {
                    let message = format!("`{}` has no part `{}`", self.node(node).name, part.name.name);
                    return Err(self.error("unknown-name", part.name.span, message));
                }
                self.prim_reference(prim, subscripts, span, ctx)
            }
            NodeKind::Array { dims, first, .. } => {
                let chosen = self.subscripts(subscripts, &dims, span, ctx)?;
                if chosen.iter().any(|chosen| matches!(chosen, Chosen::Dynamic(_))) {
                    let whole = self.walk(node, &[], rest, span, ctx)?;
                    return self.index_value(&whole, &chosen, ctx, span);
                }
                let lists: Vec<Vec<usize>> = chosen.iter().map(positions).collect();
                let new_dims: Dims = chosen.iter().filter_map(kept).collect();
                let mut values = Vec::new();
                for offset in offsets(&dims, &lists) {
                    values.push(self.walk_complex(NodeId(first.0 + offset as u32), rest, span, ctx)?);
                }
                if values.is_empty() {
                    return self.empty_value(&new_dims, rest, span);
                }
                Value::stack(values, &new_dims)
                    .ok_or_else(|| self.error("wrong-size", span, "the elements of this array differ in size"))
            }
            NodeKind::Complex(_) => {
                if !subscripts.is_empty() {
                    let message = format!("`{}` is not an array", self.node(node).name);
                    return Err(self.error("wrong-rank", span, message));
                }
                self.walk_complex(node, rest, span, ctx)
            }
            NodeKind::Object(object) => self.object_value(&object, span),
            NodeKind::Absent(condition) => {
                let finding = Finding::error(
                    "disabled-component",
                    span,
                    format!("`{}` is not there: its condition is false", self.node(node).name),
                )
                .with_label(condition, "the condition")
                .with_help("a conditional component can be used in connect equations only");
                Err(self.report(finding))
            }
            _ => Err(Refused),
        }
    }

    /// The external object of a component, made by the constructor that its declaration calls.
    fn object_value(&mut self, object: &super::instance::ObjectNode, span: Span) -> Res<Value> {
        if let Some(known) = &*object.value.borrow() {
            return known.clone();
        }
        let layer = object.layers.iter().find(|layer| self.modifier(layer.mods).binding.is_some()).cloned();
        let value = match layer {
            Some(layer) => self.layer_value(&layer, true).map(super::function::first_result),
            None => {
                let finding = Finding::error("parameter-without-value", span, "this external object is not made")
                    .with_label(object.span, "declared here")
                    .with_help("give it a value: a call of its class");
                Err(self.report(finding))
            }
        };
        *object.value.borrow_mut() = Some(value.clone());
        value
    }

    fn empty_value(&mut self, dims: &[usize], _rest: &'a [RefPart], _span: Span) -> Res<Value> {
        Ok(Value::Scalars(Scalars { ty: Type::Real, dims: dims.iter().copied().collect(), items: SmallVec::new() }))
    }

    fn walk_complex(&mut self, node: NodeId, rest: &'a [RefPart], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let Some(part) = rest.first() else { return self.record_value(node, span, ctx) };
        let child = self.part_node(node, part, ctx)?;
        match child {
            Ok(child) => self.walk(child, &part.subscripts, &rest[1..], span, ctx),
            Err(class) => {
                // A function or literal reached through a component's class.
                let message = format!(
                    "`{}` is a class of a component and cannot be used as a value here",
                    self.class(class).full
                );
                Err(self.error("not-a-value", part.name.span, message))
            }
        }
    }

    /// The component a part of a reference names, or the class it names instead.
    pub(crate) fn part_node(&mut self, node: NodeId, part: &RefPart, ctx: &Ctx) -> Res<Result<NodeId, ClassId>> {
        let node = self.force(node)?;
        let Some(complex) = self.complex(node) else { return Err(Refused) };
        let Some(child) = self.child(&complex, part.name.name) else {
            if let Some(Ok(Found::Class { class, .. })) = self.member(complex.class, part.name.name) {
                return Ok(Err(class));
            }
            let class = self.class(complex.class);
            let mut finding = Finding::error(
                "unknown-name",
                part.name.span,
                format!("`{}` of class `{}` has no element `{}`", complex.path, class.full, part.name.name),
            );
            let known = self.element_names(complex.class);
            finding.help = Self::suggest_or_list(part.name.name.text(), known);
            return Err(self.report(finding));
        };
        let class = self.class(complex.class);
        let Some(&at) = class.table.get(&part.name.name) else { return Ok(Ok(child)) };
        let elem = &class.elements[at as usize];
        if elem.prefixes.is_protected && !complex.inherited.in_package && node != ctx.instance {
            let finding = Finding::error(
                "protected-access",
                part.name.span,
                format!("`{}` is protected in `{}`", part.name.name, class.full),
            )
            .with_label(elem.span, "declared here")
            .with_help("protected components can be used inside their class only");
            return Err(self.report(finding));
        }
        let elem = elem.clone();
        self.check_unconditional(&elem, part.name.span, ctx)?;
        Ok(Ok(child))
    }

    /// A composite instance as a record value.
    pub(crate) fn record_value(&mut self, node: NodeId, span: Span, ctx: &mut Ctx) -> Res<Value> {
        let node = self.force(node)?;
        let Some(complex) = self.complex(node) else {
            return self.walk(node, &[], &[], span, ctx);
        };
        if !complex.is_record && !complex.is_connector {
            let message = format!(
                "`{}` is a {} and cannot be used as a value",
                complex.path,
                super::check::kind_word(self.class(complex.class).kind)
            );
            return Err(self.error("not-a-value", span, message));
        }
        let n = self.class(complex.class).components.len();
        let mut fields = Vec::with_capacity(n);
        for at in 0..n {
            let child = NodeId(complex.first.0 + at as u32);
            let child = self.force(child)?;
            if matches!(self.node(child).kind, NodeKind::Absent(_)) {
                continue;
            }
            let name = self.node(child).name;
            let value = self.walk(child, &[], &[], span, ctx)?;
            fields.push(Field { name, value });
        }
        Ok(Value::Record(Box::new(Record { class: complex.class, dims: Dims::new(), fields })))
    }

    /// The value of a variable.
    fn prim_reference(
        &mut self,
        prim: PrimId,
        subscripts: &'a [crate::syntax::Subscript],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let dims = self.prim_dims(prim);
        if subscripts.is_empty() {
            return self.prim_value(prim, None, span, ctx);
        }
        let chosen = self.subscripts(subscripts, &dims, span, ctx)?;
        if chosen.iter().all(|chosen| matches!(chosen, Chosen::One(_))) {
            let mut offset = 0;
            for (chosen, dim) in chosen.iter().zip(&dims) {
                let Chosen::One(at) = chosen else { continue };
                offset = offset * dim + at;
            }
            return self.prim_value(prim, Some(offset), span, ctx);
        }
        let whole = self.prim_value(prim, None, span, ctx)?;
        self.index_value(&whole, &chosen, ctx, span)
    }

    /// Remembers that a constant with a unit is folded here, which takes the unit out of sight: a current of one ampere
    /// becomes a plain 1 and vanishes as a factor.
    fn note_folded_unit(&mut self, id: PrimId, span: Span) {
        if self.prim(id).variability != Variability::Constant || self.prim(id).ty != Type::Real {
            return;
        }
        let has_unit = match self.constant_units.get(&id) {
            Some(&known) => known,
            None => {
                self.constant_units.insert(id, false);
                let units = self.text_attribute(id, "unit").ok().flatten().unwrap_or_default();
                let is_more = |unit: &Arc<str>| {
                    !unit.is_empty() && Unit::parse(unit).dimension().is_none_or(|dimension| !dimension.is_one())
                };
                let has_unit = units.iter().any(is_more);
                self.constant_units.insert(id, has_unit);
                has_unit
            }
        };
        if has_unit {
            self.folded_units.push(span);
        }
    }

    /// The value of a variable, all of it or one element.
    pub(crate) fn prim_value(&mut self, id: PrimId, offset: Option<usize>, span: Span, ctx: &mut Ctx) -> Res<Value> {
        let prim = self.prim(id);
        let is_known = prim.first.is_none()
            || prim.variability == Variability::Constant
            || (ctx.is_structural && prim.variability == Variability::Parameter)
            || (prim.ty == Type::String && prim.variability == Variability::Parameter);
        if is_known {
            let rank = prim.dims.len();
            self.note_folded_unit(id, span);
            let value = self.known_value(id, span)?;
            return Ok(match offset {
                Some(offset) => value.pick(&[offset], rank, &[]),
                None => Value::clone(&value),
            });
        }
        let (Some(first), ty, dims) = (prim.first, prim.ty.clone(), prim.dims.clone()) else { return Err(Refused) };
        if ctx.is_structural {
            // Gives the finding that names the variable.
            self.known_value(id, span)?;
        }
        if ty == Type::String
            && let Some(layer) = self.binding_layer(id).cloned()
            && !self.evaluating.contains(&id)
        {
            // A text that is given once and for all.
            self.evaluating.push(id);
            let value = self.layer_value(&layer, false);
            self.evaluating.pop();
            if let Value::Texts { items, .. } = &value?
                && items.len() == count(&dims)
                && items.iter().all(|item| item.is_known)
            {
                let value = Value::Texts { dims: dims.iter().copied().collect(), items: items.clone() };
                return Ok(match offset {
                    Some(offset) => value.pick(&[offset], dims.len(), &[]),
                    None => value,
                });
            }
        }
        if ty == Type::String {
            let name = self.variables[first.index()].name.clone();
            let text = super::value::Text { text: Arc::from(format!("<{name}>")), is_known: false };
            let n = if offset.is_some() { 1 } else { count(&dims) };
            let dims: Dims = if offset.is_some() { Dims::new() } else { dims.iter().copied().collect() };
            return Ok(Value::Texts { dims, items: vec![text; n] });
        }
        if ty == Type::Integer
            && self.prim(id).variability == Variability::Parameter
            && let Some(value) = self.wide_parameter(id, span)
        {
            return Ok(match offset {
                Some(offset) => value.pick(&[offset], dims.len(), &[]),
                None => value,
            });
        }
        if let Some(assigned) = &ctx.assigned
            && let Some(value) = assigned.get(id)
        {
            let rank = dims.len();
            return Ok(match offset {
                Some(offset) => value.pick(&[offset], rank, &[]),
                None => value.clone(),
            });
        }
        Ok(match offset {
            Some(offset) => Value::scalar(ty, self.graph.var(VarId(first.0 + offset as u32))),
            None => {
                let n = count(&dims) as u32;
                let items = (0..n).map(|at| self.graph.var(VarId(first.0 + at))).collect();
                Value::Scalars(Scalars { ty, dims: dims.iter().copied().collect(), items })
            }
        })
    }

    /// Whether all scalars of a value stand for "not assigned yet".
    fn is_unset(&self, value: &Value) -> bool {
        let Value::Scalars(scalars) = value else { return false };
        let is_nan = |item: &daesy_graph::ExprId| self.graph.as_number(*item).is_some_and(f64::is_nan);
        !scalars.items.is_empty() && scalars.items.iter().all(is_nan)
    }

    /// Subscripts and fields of a value that is not a component.
    ///
    /// Subscripts belong to the part of the name that they stand after: `p.y[2]` of an array of records `p` is the second
    /// element of `y` of every record [@modelica36, sec. 10.6.9].
    pub(crate) fn value_parts(&mut self, value: Value, parts: &'a [RefPart], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let mut value = value;
        for (at, part) in parts.iter().enumerate() {
            let n_outer = if at > 0 { value.dims().len() } else { 0 };
            if at > 0 {
                value = match value.field(part.name.name) {
                    Some(field) if at + 1 == parts.len() && self.is_unset(field) => {
                        let message = format!("`{}` is used before it has a value", part.name.name);
                        return Err(self.error("unset-variable", part.name.span, message));
                    }
                    Some(field) => field.clone(),
                    None => {
                        let message = format!("{} has no field `{}`", value.describe(), part.name.name);
                        return Err(self.error("unknown-name", part.name.span, message));
                    }
                };
            }
            if !part.subscripts.is_empty() {
                let chosen = self.part_subscripts(part, n_outer, value.dims(), part.name.span, ctx)?;
                value = self.index_value(&value, &chosen, ctx, span)?;
            }
        }
        Ok(value)
    }

    /// What the subscripts of a part of a name choose from an array with `dims`, the first `n_outer` of which belong to
    /// the parts before it and are kept whole.
    pub(crate) fn part_subscripts(
        &mut self,
        part: &'a RefPart,
        n_outer: usize,
        dims: &[usize],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<SmallVec<[Chosen; 2]>> {
        let (outer, own) = dims.split_at(n_outer);
        let mut chosen: SmallVec<[Chosen; 2]> = outer.iter().map(|&dim| Chosen::Many((0..dim).collect())).collect();
        chosen.extend(self.subscripts(&part.subscripts, own, span, ctx)?);
        Ok(chosen)
    }
}

pub(crate) fn positions(chosen: &Chosen) -> Vec<usize> {
    match chosen {
        Chosen::One(at) => vec![*at],
        Chosen::Many(list) => list.clone(),
        Chosen::Dynamic(_) => Vec::new(),
    }
}

pub(crate) fn kept(chosen: &Chosen) -> Option<usize> {
    match chosen {
        Chosen::Many(list) => Some(list.len()),
        _ => None,
    }
}
