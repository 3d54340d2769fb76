//! Records from values, and the operators of operator records [@modelica36, ch. 14].

use std::rc::Rc;

use daesy_graph::Span;
use rustc_hash::FxHashSet;

use super::class::{Core, Elem, ElemKind};
use super::expr::{Ctx, Local};
use super::function::{Named, first_result, has_value, uses_any};
use super::modifier::{Layer, Layers};
use super::value::{Dims, Field, Record, Type, Value, count};
use super::{ClassId, Flattener, NodeId, Res};
use crate::name::Name;
use crate::syntax::{ClassKind, Expr, NamedArg};

impl<'a> Flattener<'a> {
    /// A record from values for its fields.
    pub(crate) fn construct_record(
        &mut self,
        class: ClassId,
        layers: &[Layer],
        positional: Vec<Value>,
        named: Vec<Named>,
        span: Span,
        ctx: &Ctx,
    ) -> Res<Value> {
        self.expand(class)?;
        let full = self.class(class).full.clone();
        let elems: Vec<Rc<Elem<'a>>> =
            self.class(class).components.iter().map(|&at| self.class(class).elements[at as usize].clone()).collect();
        let mut given: Vec<Option<Value>> = vec![None; elems.len()];
        let settable: Vec<usize> = elems
            .iter()
            .enumerate()
            .filter(|(_, elem)| {
                let is_constant = matches!(elem.kind, ElemKind::Component(decl)
                    if decl.variability == Some(crate::syntax::VariabilityPrefix::Constant) || elem.prefixes.is_final && has_value(elem) && decl.variability.is_some());
                !is_constant && !elem.prefixes.is_protected
            })
            .map(|(at, _)| at)
            .collect();
        if positional.len() > settable.len() {
            let message = format!("`{full}` has {} fields, not {}", settable.len(), positional.len());
            return Err(self.error("wrong-arguments", span, message));
        }
        for (&at, value) in settable.iter().zip(positional) {
            given[at] = Some(value);
        }
        for one in named {
            let found = settable.iter().copied().find(|&at| elems[at].name == one.name);
            let Some(at) = found else {
                if elems.iter().any(|elem| elem.name == one.name) {
                    let message =
                        format!("the field `{}` of `{full}` is constant or final and cannot be given", one.name);
                    return Err(self.error("wrong-arguments", one.span, message));
                }
                let message = format!("`{full}` has no field `{}`", one.name);
                let known: Vec<&str> = settable.iter().map(|&at| elems[at].name.text()).collect();
                let help = Self::suggest(one.name.text(), known).unwrap_or_default();
                return Err(self.error_help("wrong-arguments", one.span, message, help));
            };
            if given[at].is_some() {
                let message = format!("the field `{}` of `{full}` is given twice", one.name);
                return Err(self.error("wrong-arguments", one.span, message));
            }
            given[at] = Some(one.value);
        }
        // Arrays in place of scalars make an array of records, as with functions [@modelica36, sec. 12.4.6].
        let mut extra: Option<Dims> = None;
        let mut is_spread = vec![false; given.len()];
        for (at, value) in given.iter().enumerate() {
            let Some(value) = value else { continue };
            is_spread[at] = self.spreads(&elems[at], value, &mut extra, &full, span)?;
        }
        let Some(extra) = extra else { return self.record_of(class, layers, &elems, given, span, ctx) };
        self.reserve(&extra, span)?;
        let mut records = Vec::with_capacity(count(&extra));
        for offset in 0..count(&extra) {
            let part = |(value, &is_spread): (&Option<Value>, &bool)| match value {
                Some(value) if is_spread => Some(value.pick(&[offset], extra.len(), &[])),
                other => other.clone(),
            };
            let given = given.iter().zip(&is_spread).map(part).collect();
            records.push(self.record_of(class, layers, &elems, given, span, ctx)?);
        }
        if records.is_empty() {
            return self.placeholder(class, &extra, span);
        }
        Value::stack(records, &extra).ok_or_else(|| self.error("wrong-size", span, "the records differ in size"))
    }

    /// A record whose fields have the given values, or those that its class gives.
    fn record_of(
        &mut self,
        class: ClassId,
        layers: &[Layer],
        elems: &[Rc<Elem<'a>>],
        given: Vec<Option<Value>>,
        span: Span,
        ctx: &Ctx,
    ) -> Res<Value> {
        let full = self.class(class).full.clone();
        let mut inner = Ctx::new(class, NodeId::NONE);
        inner.is_structural = ctx.is_structural;
        inner.in_function = true;
        // Defaults may use other fields: given ones first, then in order of need.
        let mut values: Vec<Option<Value>> = vec![None; elems.len()];
        for (at, value) in given.into_iter().enumerate() {
            if let Some(value) = value {
                let value = self.shape_local(&elems[at], Some(value), span, &mut inner)?;
                inner.locals.push(Local {
                    name: elems[at].name,
                    value: value.clone(),
                    is_assignable: false,
                    is_set: true,
                });
                values[at] = Some(value);
            }
        }
        let names: FxHashSet<Name> = elems.iter().map(|elem| elem.name).collect();
        while let Some(first) = values.iter().position(Option::is_none) {
            let at = (first..elems.len())
                .find(|&at| {
                    values[at].is_none()
                        && matches!(elems[at].kind, ElemKind::Component(decl)
                        if !uses_any(decl, &|name| {
                            name != elems[at].name
                                && names.contains(&name)
                                && !inner.locals.iter().any(|local| local.name == name)
                        }))
                })
                .unwrap_or(first);
            let elem = elems[at].clone();
            let value = match self.default_value(layers, &elem, &mut inner)? {
                Some(value) => self.shape_local(&elem, Some(value), span, &mut inner)?,
                None => {
                    let message = format!("`{full}` needs a value for its field `{}`", elem.name);
                    return Err(self.error("wrong-arguments", span, message));
                }
            };
            inner.locals.push(Local { name: elem.name, value: value.clone(), is_assignable: false, is_set: true });
            values[at] = Some(value);
        }
        let fields = elems
            .iter()
            .zip(values)
            .filter_map(|(elem, value)| value.map(|value| Field { name: elem.name, value }))
            .collect();
        Ok(Value::Record(Box::new(Record { class, dims: Dims::new(), fields })))
    }

    /// The functions of an operator of an operator record.
    pub(crate) fn operator_functions(&mut self, class: ClassId, operator: &str) -> Vec<ClassId> {
        let Some(Ok(found)) = self.member_class(class, Name::new(operator)) else { return Vec::new() };
        let Ok(class_use) = self.class_use(found) else { return Vec::new() };
        let core = class_use.class;
        if matches!(self.class(core).kind, ClassKind::Function | ClassKind::OperatorFunction) {
            return vec![core];
        }
        let _ = self.expand(core);
        let names: Vec<Name> =
            self.class(core).elements.iter().filter(|elem| !elem.is_component()).map(|elem| elem.name).collect();
        let mut functions = Vec::with_capacity(names.len());
        for name in names {
            if let Some(Ok(class)) = self.member_class(core, name)
                && let Ok(class_use) = self.class_use(class)
            {
                functions.push(class_use.class);
            }
        }
        functions
    }

    /// An operator applied to operator records [@modelica36, ch. 14].
    pub(crate) fn record_operator(&mut self, operator: &str, values: Vec<Value>, span: Span) -> Res<Value> {
        let classes: Vec<ClassId> = values
            .iter()
            .filter_map(|value| match value {
                Value::Record(record) => Some(record.class),
                _ => None,
            })
            .collect();
        for class in classes {
            for function in self.operator_functions(class, operator) {
                let Ok(info) = self.function_info(function) else { continue };
                let n_required = info.inputs.iter().filter(|elem| !has_value(elem)).count();
                if values.len() < n_required || values.len() > info.inputs.len() {
                    continue;
                }
                let mut fits = true;
                for (value, elem) in values.iter().zip(&info.inputs) {
                    fits &= self.fits_input(value, elem)?;
                }
                if fits {
                    let mut ctx = Ctx::new(function, NodeId::NONE);
                    ctx.in_function = true;
                    return self.call_function(function, &Layers::new(), values, Vec::new(), span, &mut ctx);
                }
            }
            // A scalar beside a record: the record may be made of it.
            if values.len() == 2 {
                let mut converted = Vec::with_capacity(2);
                let mut n_converted = 0;
                for value in &values {
                    if matches!(value, Value::Record(_)) {
                        converted.push(value.clone());
                        continue;
                    }
                    for function in self.operator_functions(class, "'constructor'") {
                        let Ok(info) = self.function_info(function) else { continue };
                        let n_required = info.inputs.iter().filter(|elem| !has_value(elem)).count();
                        if n_required > 1 || info.inputs.is_empty() || !self.fits_input(value, &info.inputs[0])? {
                            continue;
                        }
                        let mut ctx = Ctx::new(function, NodeId::NONE);
                        ctx.in_function = true;
                        let made = self.call_function(
                            function,
                            &Layers::new(),
                            vec![value.clone()],
                            Vec::new(),
                            span,
                            &mut ctx,
                        )?;
                        converted.push(made);
                        n_converted += 1;
                        break;
                    }
                }
                if converted.len() == 2 && n_converted == 1 {
                    return self.record_operator(operator, converted, span);
                }
            }
        }
        // Element by element on arrays.
        let dims: Vec<Dims> = values.iter().map(|value| value.dims().iter().copied().collect()).collect();
        if let Some(all) = dims.iter().find(|dims| !dims.is_empty()).cloned()
            && dims.iter().all(|dims| dims.is_empty() || *dims == all)
            && count(&all) > 0
        {
            let mut results = Vec::with_capacity(count(&all));
            for at in 0..count(&all) {
                let parts = values
                    .iter()
                    .map(
                        |value| {
                            if value.dims().is_empty() { value.clone() } else { value.pick(&[at], all.len(), &[]) }
                        },
                    )
                    .collect();
                results.push(first_result(self.record_operator(operator, parts, span)?));
            }
            if let Some(value) = Value::stack(results, &all) {
                return Ok(value);
            }
        }
        let described: Vec<String> = values.iter().map(Value::describe).collect();
        let message = format!("the operator {operator} is not defined for {}", described.join(" and "));
        Err(self.error_help("wrong-type", span, message, "only operator records define operators; use the fields"))
    }

    pub(crate) fn fits_input(&mut self, value: &Value, elem: &Rc<Elem<'a>>) -> Res<bool> {
        let ElemKind::Component(decl) = elem.kind else { return Ok(false) };
        let class = self.resolve_class(&decl.type_name, elem.owner, NodeId::NONE)?;
        let class_use = self.class_use(class)?;
        let rank: usize = decl.subscripts.len()
            + decl.type_subscripts.len()
            + class_use.items.iter().map(|item| item.dims.len()).sum::<usize>();
        if value.dims().len() != rank {
            return Ok(false);
        }
        Ok(match (&self.class(class_use.class).core, value) {
            (Core::Real, Value::Scalars(scalars)) => scalars.ty.is_numeric(),
            (Core::Integer, Value::Scalars(scalars)) => scalars.ty == Type::Integer,
            (Core::Boolean, Value::Scalars(scalars)) => scalars.ty == Type::Boolean,
            (Core::String, Value::Texts { .. }) => true,
            (Core::Long, Value::Record(record)) => {
                record.class == class_use.class
                    || match (self.class(record.class).ast, self.class(class_use.class).ast) {
                        (Some(left), Some(right)) => std::ptr::eq(left, right),
                        _ => false,
                    }
            }
            _ => false,
        })
    }

    pub(crate) fn operator_record_call(
        &mut self,
        class: ClassId,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let (positional, by_name) = self.argument_values(args, named, ctx)?;
        for function in self.operator_functions(class, "'constructor'") {
            // Inside a constructor the plain record constructor is meant.
            if self.functions.stack.contains(&function) {
                continue;
            }
            let Ok(info) = self.function_info(function) else { continue };
            let mut fits = positional.len() <= info.inputs.len();
            for (value, elem) in positional.iter().zip(&info.inputs) {
                fits = fits && self.fits_input(value, elem)?;
            }
            for one in &by_name {
                fits = fits && info.inputs.iter().any(|elem| elem.name == one.name);
            }
            let n_missing = info
                .inputs
                .iter()
                .skip(positional.len())
                .filter(|elem| !has_value(elem) && !by_name.iter().any(|one| one.name == elem.name))
                .count();
            if fits && n_missing == 0 {
                return self.call_function(function, &Layers::new(), positional, by_name, span, ctx);
            }
        }
        self.construct_record(class, &Layers::new(), positional, by_name, span, ctx)
    }
}
