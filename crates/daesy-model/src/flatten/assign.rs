//! Assignments to variables and parts of them, on symbolic values.

use daesy_graph::{ExprId, Span, VarId, VariableKind};
use smallvec::SmallVec;

use super::algorithm::Target;
use super::expr::{Chosen, Ctx, Variability};
use super::instance::{NodeKind, PrimId};
use super::reference::Start;
use super::value::{Dims, Scalars, Type, Value, count, dims_text, offsets};
use super::{Flattener, NodeId, Refused, Res};
use crate::syntax::{ComponentRef, RefPart, Subscript};

impl<'a> Flattener<'a> {
    /// Gives a variable, or a part of it, a value.
    pub(crate) fn assign(&mut self, target: &'a ComponentRef, value: Value, ctx: &mut Ctx) -> Res<()> {
        let first = &target.parts[0];
        if let Some(at) = ctx.locals.iter().rposition(|local| local.name == first.name.name) {
            if !ctx.locals[at].is_assignable {
                let message = format!("`{}` is an iterator, input or constant and cannot be assigned", first.name.name);
                return Err(self.error("not-assignable", target.span, message));
            }
            let part = Target { subscripts: &first.subscripts, rest: &target.parts[1..] };
            return self.assign_local(at, part, value, target.span, ctx);
        }
        if ctx.in_function {
            return Err(self.unknown_name(first.name, ctx.scope, false));
        }
        match self.resolve_start(target, ctx)? {
            Start::Node(node, used) => self.assign_node(
                node,
                &target.parts[used - 1].subscripts,
                &target.parts[used..],
                value,
                target.span,
                ctx,
            ),
            _ => Err(self.error("not-assignable", target.span, "only variables can be assigned")),
        }
    }

    pub(crate) fn assign_node(
        &mut self,
        node: NodeId,
        subscripts: &'a [Subscript],
        rest: &'a [RefPart],
        value: Value,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<()> {
        let node = self.force(node)?;
        match self.node(node).kind.clone() {
            NodeKind::Primitive(prim) => {
                let part = Target { subscripts, rest };
                self.assign_prim(prim, part, value, span, ctx)
            }
            NodeKind::Array { dims, first, .. } => {
                let chosen = self.subscripts(subscripts, &dims, span, ctx)?;
                if chosen.iter().any(|one| matches!(one, Chosen::Dynamic(_))) {
                    return Err(self.unsupported(
                        "assigned components with changing subscripts",
                        span,
                        "this assignment",
                    ));
                }
                let lists: Vec<Vec<usize>> = chosen.iter().map(super::reference::positions).collect();
                let n_kept = chosen.iter().filter_map(super::reference::kept).count();
                let all = offsets(&dims, &lists);
                for (at, offset) in all.iter().enumerate() {
                    let part = if n_kept == 0 { value.clone() } else { value.pick(&[at], n_kept, &[]) };
                    self.assign_node(NodeId(first.0 + *offset as u32), &[], rest, part, span, ctx)?;
                }
                Ok(())
            }
            NodeKind::Complex(complex) => match rest.first() {
                Some(part) => match self.part_node(node, part, ctx)? {
                    Ok(child) => self.assign_node(child, &part.subscripts, &rest[1..], value, span, ctx),
                    Err(_) => Err(self.error("not-assignable", span, "only variables can be assigned")),
                },
                None => {
                    let n = self.class(complex.class).components.len();
                    for at in 0..n {
                        let child = NodeId(complex.first.0 + at as u32);
                        let name = self.node(child).name;
                        let Some(field) = value.field(name).cloned() else {
                            let message = format!("the value is {} and has no field `{name}`", value.describe());
                            return Err(self.error("wrong-type", span, message));
                        };
                        self.assign_node(child, &[], &[], field, span, ctx)?;
                    }
                    Ok(())
                }
            },
            _ => Err(Refused),
        }
    }

    pub(crate) fn assign_prim(
        &mut self,
        prim: PrimId,
        part: Target<'a>,
        value: Value,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<()> {
        let Some(first) = self.prim(prim).first else {
            return Err(self.error("not-assignable", span, "a constant cannot be assigned"));
        };
        let is_free_parameter = self.prim(prim).variability == Variability::Parameter;
        let is_input = count(&self.prim(prim).dims) > 0 && self.variables[first.index()].kind == VariableKind::Input;
        if self.prim(prim).variability == Variability::Constant || (is_free_parameter && !self.in_initial) || is_input {
            let name = self.prim(prim).elem.name;
            let message = format!("`{name}` is a constant, parameter or input and cannot be assigned");
            return Err(self.error("not-assignable", span, message));
        }
        if self.prim(prim).ty == Type::String {
            return Err(self.unsupported("texts that change", span, "assigning a String"));
        }
        if !ctx.assigned.as_ref().is_some_and(|assigned| assigned.values.contains_key(&prim)) {
            return Err(Refused);
        }
        let dims = self.prim_dims(prim);
        let chosen = self.subscripts(part.subscripts, &dims, span, ctx)?;
        let Some(assigned) = ctx.assigned.as_mut() else { return Err(Refused) };
        let Some(place) = assigned.values.get_mut(&prim) else { return Err(Refused) };
        self.write(place, &chosen, value, span)?;
        let touched: Vec<usize> = if chosen.iter().any(|one| matches!(one, Chosen::Dynamic(_))) {
            (0..count(&dims)).collect()
        } else {
            let lists: Vec<Vec<usize>> = chosen.iter().map(super::reference::positions).collect();
            offsets(&dims, &lists)
        };
        assigned.touched.extend(touched.into_iter().map(|at| VarId(first.0 + at as u32)));
        Ok(())
    }

    /// Replaces a part of a local in its place: an array that is written element by element is not copied for each.
    fn assign_local(&mut self, at: usize, part: Target<'a>, new: Value, span: Span, ctx: &mut Ctx) -> Res<()> {
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut path: SmallVec<[usize; 2]> = SmallVec::new();
        let Target { mut subscripts, mut rest } = part;
        let is_whole = loop {
            if chosen.is_empty() && subscripts.is_empty() && rest.is_empty() {
                break true;
            }
            let dims: Dims = within(&mut ctx.locals[at].value, &path).dims().iter().copied().collect();
            let n_lead = chosen.len();
            chosen.extend(self.subscripts(subscripts, &dims[n_lead..], span, ctx)?);
            let Some((field, others)) = rest.split_first() else { break false };
            let value = within(&mut ctx.locals[at].value, &path);
            let Value::Record(record) = value else {
                let message = format!("{} has no field `{}`", value.describe(), field.name.name);
                return Err(self.error("unknown-name", field.name.span, message));
            };
            let Some(place) = record.fields.iter().position(|one| one.name == field.name.name) else {
                let message = format!("the record has no field `{}`", field.name.name);
                return Err(self.error("unknown-name", field.name.span, message));
            };
            path.push(place);
            (subscripts, rest) = (&field.subscripts, others);
        };
        let local = &mut ctx.locals[at];
        let place = within(&mut local.value, &path);
        if is_whole {
            *place = self.whole(place, new, span, local.is_set)?;
        } else {
            self.write(place, &chosen, new, span)?;
        }
        local.is_set = true;
        Ok(())
    }

    /// The whole of a variable replaced: types and sizes are checked, sizes left open are taken from the value.
    pub(crate) fn whole(&mut self, old: &Value, new: Value, span: Span, is_set: bool) -> Res<Value> {
        match old {
            Value::Scalars(scalars) => {
                let is_open = !is_set && count(&scalars.dims) == 0 && scalars.dims.len() == new.dims().len();
                let dims: Dims = if is_open { new.dims().iter().copied().collect() } else { scalars.dims.clone() };
                self.coerce(new, &scalars.ty, &dims, "the variable", span)
            }
            Value::Texts { dims, .. } => self.coerce(new, &Type::String, dims, "the variable", span),
            Value::Record(record) => {
                let dims: Dims = new.dims().iter().copied().collect();
                if dims != record.dims {
                    let message = format!(
                        "the variable has size {}, its value has size {}",
                        dims_text(&record.dims),
                        dims_text(&dims)
                    );
                    return Err(self.error("wrong-size", span, message));
                }
                self.typed_value(record.class, new, &dims, "the variable", span)
            }
            _ => Ok(new),
        }
    }

    /// Replaces the chosen elements of a value.
    pub(crate) fn write(&mut self, place: &mut Value, chosen: &[Chosen], new: Value, span: Span) -> Res<()> {
        let kept: Dims = chosen.iter().filter_map(super::reference::kept).collect();
        match place {
            Value::Record(record) => {
                let Value::Record(new) = new else {
                    return Err(self.error("wrong-type", span, "a record cannot be given this value"));
                };
                for field in &mut record.fields {
                    let Some(value) = new.fields.iter().find(|one| one.name == field.name) else {
                        return Err(self.error("wrong-type", span, format!("the value has no field `{}`", field.name)));
                    };
                    let mut all: Vec<Chosen> = chosen.to_vec();
                    all.extend(field.value.dims()[chosen.len()..].iter().map(|&dim| Chosen::Many((0..dim).collect())));
                    self.write(&mut field.value, &all, value.value.clone(), span)?;
                }
            }
            Value::Texts { dims, items } => {
                let new = self.coerce(new, &Type::String, &kept, "the element", span)?;
                let (Value::Texts { items: values, .. }, false) =
                    (new, chosen.iter().any(|one| matches!(one, Chosen::Dynamic(_))))
                else {
                    return Err(self.unsupported("texts that change", span, "assigning this element"));
                };
                let lists: Vec<Vec<usize>> = chosen.iter().map(super::reference::positions).collect();
                for (offset, value) in offsets(dims, &lists).into_iter().zip(values) {
                    items[offset] = value;
                }
            }
            Value::Scalars(scalars) => {
                let Value::Scalars(new) = self.coerce(new, &scalars.ty, &kept, "the element", span)? else {
                    return Err(Refused);
                };
                self.write_scalars(scalars, chosen, &new);
            }
            Value::Tuple(_) | Value::Function(_) | Value::Object(_) => *place = new,
        }
        Ok(())
    }

    /// Replaces every combination of chosen positions; changing subscripts try all and select.
    fn write_scalars(&mut self, scalars: &mut Scalars, chosen: &[Chosen], new: &Scalars) {
        let items = &mut scalars.items;
        let lists: Vec<Vec<usize>> = chosen
            .iter()
            .zip(&scalars.dims)
            .map(|(one, &dim)| match one {
                Chosen::Dynamic(_) => (0..dim).collect(),
                other => super::reference::positions(other),
            })
            .collect();
        let mut index = vec![0usize; chosen.len()];
        let sizes: Vec<usize> = lists.iter().map(Vec::len).collect();
        for _ in 0..count(&sizes) {
            let mut offset = 0;
            let mut source = 0;
            let mut condition: Option<ExprId> = None;
            for (at, one) in chosen.iter().enumerate() {
                let position = lists[at][index[at]];
                offset = offset * scalars.dims[at] + position;
                match one {
                    Chosen::Many(list) => source = source * list.len() + index[at],
                    Chosen::Dynamic(item) => {
                        let number = self.graph.number(position as f64 + 1.0);
                        let is_meant = self.graph.equal(*item, number);
                        condition = Some(match condition {
                            Some(condition) => self.graph.and(condition, is_meant),
                            None => is_meant,
                        });
                    }
                    Chosen::One(_) => {}
                }
            }
            items[offset] = match condition {
                Some(condition) => self.graph.select(condition, new.items[source], items[offset]),
                None => new.items[source],
            };
            for at in (0..index.len()).rev() {
                index[at] += 1;
                if index[at] < sizes[at] {
                    break;
                }
                index[at] = 0;
            }
        }
    }
}

/// The value that fields of records lead to, one after the other.
fn within<'v>(value: &'v mut Value, path: &[usize]) -> &'v mut Value {
    path.iter().fold(value, |value, &field| match value {
        Value::Record(record) => &mut record.fields[field].value,
        other => other,
    })
}
