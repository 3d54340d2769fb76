//! Values and attributes of variables: the layer that counts, its value, the checks, and the evaluation of what must be
//! known while the model is laid out (structural parameters).

use std::sync::Arc;

use daesy_graph::flat::{Equation, LARGEST_INTEGER, Origin, StateSelect, ValueType};
use daesy_graph::print::number_text;
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::Leaf;
use daesy_graph::whole::WholeError;
use daesy_graph::{ExprId, Finding, Span, Unit, VarId, VariableKind};
use smallvec::SmallVec;

use super::expr::{Ctx, Variability};
use super::instance::PrimId;
use super::modifier::{Access, Layer};
use super::value::{BindingKey, Dims, Scalars, Type, Value, count, dims_text};
use super::{Flattener, Refused, Res};
use crate::name::Name;
use crate::syntax::Expr;

/// A number that is known while the model is laid out.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub ty: Type,
    pub value: f64,
}

/// Attributes of the predefined types.
fn attributes(ty: &Type) -> &'static [&'static str] {
    match ty {
        Type::Real => {
            &["quantity", "unit", "displayUnit", "min", "max", "start", "fixed", "nominal", "unbounded", "stateSelect"]
        }
        Type::Integer => &["quantity", "min", "max", "start", "fixed"],
        Type::Boolean => &["quantity", "start", "fixed"],
        Type::String => &["quantity", "start", "fixed"],
        Type::Enumeration(_) => &["quantity", "min", "max", "start", "fixed"],
    }
}

impl<'a> Flattener<'a> {
    /// The value of a layer's modification, as far as it is meant for the element at hand.
    pub(crate) fn layer_value(&mut self, layer: &Layer, is_structural: bool) -> Res<Value> {
        let Some(expr) = self.modifier(layer.mods).binding else { return Err(Refused) };
        if layer.path.is_empty() {
            let mut ctx = Ctx::new(layer.scope, layer.instance);
            ctx.is_structural = is_structural;
            return self.expr(expr, &mut ctx);
        }
        let key = BindingKey {
            expr: std::ptr::from_ref(expr) as usize,
            scope: layer.scope,
            instance: layer.instance,
            is_structural,
        };
        let value = match self.values.get(&key) {
            Some(value) => value.clone(),
            None => {
                let mut ctx = Ctx::new(layer.scope, layer.instance);
                ctx.is_structural = is_structural;
                let value = Arc::new(self.expr(expr, &mut ctx)?);
                self.values.insert(key, value.clone());
                value
            }
        };
        let mut part: std::borrow::Cow<'_, Value> = std::borrow::Cow::Borrowed(&value);
        for access in &layer.path {
            let next = match access {
                Access::Index(index) => {
                    let dims = part.dims();
                    if dims.len() < index.len() || index.iter().zip(dims).any(|(&at, &dim)| at as usize >= dim) {
                        let name = self.modifier(layer.mods).name;
                        let message = if dims.is_empty() {
                            format!("the modification of `{name}` is a scalar, but what it modifies is in an array")
                        } else {
                            format!(
                                "the modification of `{name}` has size {}, which does not match the array",
                                dims_text(dims)
                            )
                        };
                        let help = "write `each` to give every element the same value";
                        return Err(self.error_help("missing-each", expr.span, message, help));
                    }
                    let mut offset = 0;
                    for (&at, &dim) in index.iter().zip(dims) {
                        offset = offset * dim + at as usize;
                    }
                    part.pick(&[offset], index.len(), &[])
                }
                Access::Field(name) => match part.field(*name) {
                    Some(field) => field.clone(),
                    None => {
                        let message = format!("the value is {} and has no field `{name}`", part.describe());
                        return Err(self.error("wrong-type", expr.span, message));
                    }
                },
            };
            part = std::borrow::Cow::Owned(next);
        }
        Ok(part.into_owned())
    }

    /// The layer that gives a variable its value.
    pub(crate) fn binding_layer(&self, prim: PrimId) -> Option<&Layer> {
        let prim = self.prim(prim);
        for layer in &prim.layers {
            let node = self.modifier(layer.mods);
            if node.is_break && !layer.is_field {
                return None;
            }
            if node.binding.is_some() {
                return Some(layer);
            }
        }
        None
    }

    fn prim_name(&self, prim: PrimId) -> String {
        let prim = self.prim(prim);
        match (prim.first, &prim.path) {
            (Some(first), _) if prim.dims.is_empty() => self.variables[first.index()].name.clone(),
            // An array may have no element whose name could be taken.
            (Some(_), _) => match self.complex(prim.parent) {
                Some(parent) => Self::child_path(&parent.path, prim.elem.name),
                None => prim.elem.name.text().to_owned(),
            },
            (None, Some(path)) => Self::child_path(path, prim.elem.name),
            (None, None) => prim.elem.name.text().to_owned(),
        }
    }

    /// The value of a constant or parameter as numbers, worked out once.
    pub(crate) fn known_value(&mut self, id: PrimId, span: Span) -> Res<Arc<Value>> {
        if let Some(value) = &self.prim(id).value {
            return value.clone();
        }
        if self.evaluating.contains(&id) {
            let from = self.evaluating.iter().position(|&one| one == id).unwrap_or(0);
            let mut chain: Vec<String> = self.evaluating[from..].iter().map(|&one| self.prim_name(one)).collect();
            chain.push(self.prim_name(id));
            let finding = Finding::error(
                "cyclic-parameters",
                self.prim(id).elem.span,
                format!("the value of `{}` depends on itself: {}", self.prim_name(id), chain.join(" -> ")),
            )
            .with_help("give one of them a value of its own")
            .with_names(chain);
            return Err(self.report(finding));
        }
        if self.evaluating.len() > 4 * self.options.max_depth {
            return Err(self.limit(
                "the chain of parameters that depend on each other",
                4 * self.options.max_depth,
                span,
            ));
        }
        self.evaluating.push(id);
        let result = self.known_value_inner(id, span).map(Arc::new);
        self.evaluating.pop();
        let prim = &mut self.prims[id.0 as usize];
        prim.value = Some(result.clone());
        if prim.variability == Variability::Parameter {
            prim.is_structural = true;
        }
        result
    }

    fn known_value_inner(&mut self, id: PrimId, span: Span) -> Res<Value> {
        let name = self.prim_name(id);
        let (ty, dims) = (self.prim(id).ty.clone(), self.prim(id).dims.clone());
        if self.prim(id).variability > Variability::Parameter {
            let message = format!("`{name}` varies, but its value must be known before the simulation here");
            let help =
                "array sizes, ranges, component conditions and subscripts of components need parameters or constants";
            return Err(self.not_structural(span, message, Some(help)));
        }
        if let Some(first) = self.prim(id).first
            && dims.is_empty()
            && let Some(value) = self.wished_value(&name, first)?
        {
            return Ok(Value::scalar(ty, self.graph.number(value)));
        }
        let layer = self.binding_layer(id).cloned();
        let (value, value_span) = match layer {
            Some(layer) => {
                // A constant may not depend on parameters, not even on known ones.
                let is_structural = self.prim(id).variability != Variability::Constant;
                let value = self.layer_value(&layer, is_structural)?;
                (value, self.modifier(layer.mods).binding.map_or(span, |expr| expr.span))
            }
            None => match self.attribute(id, "start", true)? {
                Some(start) if self.prim(id).variability == Variability::Parameter => {
                    self.report(Finding::warning(
                        "parameter-without-value",
                        self.prim(id).elem.span,
                        format!("parameter `{name}` has no value; its start value is used"),
                    ));
                    (start, span)
                }
                _ => {
                    let finding = Finding::error(
                        "parameter-without-value",
                        span,
                        format!("`{name}` has no value, but it must be known here"),
                    )
                    .with_label(self.prim(id).elem.span, "declared here")
                    .with_help(format!("give it one: `{} = ..`", self.prim(id).elem.name));
                    return Err(self.report(finding));
                }
            },
        };
        let value = self.coerce(value, &ty, &dims, &format!("`{name}`"), value_span)?;
        let Value::Scalars(mut scalars) = value else { return Ok(value) };
        let is_constant = self.prim(id).variability == Variability::Constant;
        self.replace_values(id, &mut scalars.items);
        for item in &mut scalars.items {
            if is_constant && self.variability_of(*item) > Variability::Constant {
                let message = format!("the value of the constant `{name}` depends on a parameter or variable");
                return Err(self.error("variability", value_span, message));
            }
            *item = if scalars.ty == Type::Integer {
                let number = self.known_integer(*item, value_span)?;
                self.graph.whole_number(number)
            } else {
                let number = self.known_number(*item, value_span)?;
                self.graph.number(number)
            };
        }
        Ok(Value::Scalars(scalars))
    }

    /// The number an expression of constants and parameters stands for; the parameters become structural.
    pub(crate) fn known_number(&mut self, expr: ExprId, span: Span) -> Res<f64> {
        if let Some(number) = self.graph.as_number(expr) {
            return Ok(number);
        }
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, &[expr], &mut leaves);
        self.reach = reach;
        let mut known: rustc_hash::FxHashMap<VarId, f64> = rustc_hash::FxHashMap::default();
        for leaf in leaves {
            match leaf {
                Leaf::Var { var, order: 0 } => {
                    let prim = self.var_prims[var.index()];
                    let value = self.known_value(prim, span)?;
                    let offset = var.index() - self.prim(prim).first.map_or(0, VarId::index);
                    if let Value::Scalars(scalars) = &*value
                        && let Some(number) = self.graph.as_number(scalars.items[offset])
                    {
                        known.insert(var, number);
                    }
                }
                _ => {
                    let help = "array sizes, ranges and conditions of components need parameters or constants";
                    let message = "the value of this expression is known only when the model runs";
                    return Err(self.not_structural(span, message, Some(help)));
                }
            }
        }
        let env = |var: VarId, _: u16| known.get(&var).copied().unwrap_or(f64::NAN);
        match self.evaluator.evaluate_checked(&self.graph, expr, &env) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.error("evaluation", span, format!("this expression has no value: {error}"))),
        }
    }

    /// A scalar that must be known now.
    pub(crate) fn structural_scalar(&mut self, expr: &'a Expr, ctx: &mut Ctx, what: &str) -> Res<Known> {
        let was = std::mem::replace(&mut ctx.is_structural, true);
        let value = self.expr(expr, ctx);
        ctx.is_structural = was;
        let scalars = self.scalars(value?, what, expr.span)?;
        let item = self.single(&scalars, expr.span)?;
        let value = self.known_number(item, expr.span)?;
        if scalars.ty == Type::Integer && value.abs() > LARGEST_INTEGER {
            let number = self.known_integer(item, expr.span)?;
            return Err(self.no_integer(WholeError::TooWide, &number.to_string(), expr.span));
        }
        Ok(Known { ty: scalars.ty, value })
    }

    /// The value of an attribute, with the variable's sizes; `None` when no layer gives one.
    pub(crate) fn attribute(&mut self, id: PrimId, name: &str, is_structural: bool) -> Res<Option<Value>> {
        let name = Name::new(name);
        let dims = self.prim(id).dims.clone();
        for at in 0..self.prim(id).layers.len() {
            let Some(layer) = self.layer_child(&self.prim(id).layers[at], name) else { continue };
            let node = self.modifier(layer.mods);
            if node.is_break {
                return Ok(None);
            }
            let Some(expr) = node.binding else { continue };
            let is_each = node.is_each;
            if is_each
                && dims.is_empty()
                && self.prim(id).layers[at].path.is_empty()
                && !self.is_in_array(self.prim(id).parent)
            {
                let message = format!("`each {name}` on something that is not an array");
                return Err(self.error_help("misplaced-each", expr.span, message, "remove `each`"));
            }
            self.check_final_attribute(id, at, name)?;
            let value = self.layer_value(&layer, is_structural)?;
            return self.spread(value, &dims, 0, is_each, name, expr.span).map(Some);
        }
        let class_use = self.prim(id).class_use.clone();
        let mut n_outside = self.prim(id).n_own_dims;
        for item in &class_use.items {
            for layer in &item.layers {
                let Some(layer) = self.layer_child(layer, name) else { continue };
                let node = self.modifier(layer.mods);
                let Some(expr) = node.binding else { continue };
                let is_each = node.is_each;
                let value = self.layer_value(&layer, is_structural)?;
                return self.spread(value, &dims, n_outside.min(dims.len()), is_each, name, expr.span).map(Some);
            }
            n_outside += item.dims.len();
        }
        Ok(None)
    }

    /// Whether a declaration or a modification gives an attribute, not the type alone.
    fn is_given_outside(&self, id: PrimId, name: &str) -> bool {
        let name = Name::new(name);
        let child =
            |layer| self.layer_child(layer, name).is_some_and(|found| self.modifier(found.mods).binding.is_some());
        self.prim(id).layers.iter().any(child)
    }

    /// An attribute made final by an inner layer may not be modified by an outer one.
    fn check_final_attribute(&mut self, id: PrimId, chosen: usize, name: Name) -> Res<()> {
        let below = self.prim(id).layers[chosen + 1..].to_vec();
        let class_use = self.prim(id).class_use.clone();
        let from_type = class_use.items.iter().flat_map(|item| item.layers.iter().cloned());
        let found = below
            .into_iter()
            .chain(from_type)
            .find_map(|layer| self.layer_child(&layer, name).filter(|layer| self.modifier(layer.mods).is_final));
        if let Some(layer) = found {
            let Some(outer) = self.layer_child(&self.prim(id).layers[chosen], name) else { return Ok(()) };
            let finding = Finding::error(
                "final-override",
                self.modifier(outer.mods).span,
                format!("the attribute `{name}` of `{}` is final and cannot be modified", self.prim_name(id)),
            )
            .with_label(self.modifier(layer.mods).span, "made final here");
            return Err(self.report(finding));
        }
        Ok(())
    }

    /// A value that belongs to the dimensions from `n_outside` on, repeated for those before.
    fn spread(
        &mut self,
        value: Value,
        dims: &[usize],
        n_outside: usize,
        is_each: bool,
        name: Name,
        span: Span,
    ) -> Res<Value> {
        let value = match value {
            Value::Tuple(mut items) if !items.is_empty() => items.swap_remove(0),
            other => other,
        };
        if dims.is_empty() && value.dims().is_empty() {
            return Ok(value);
        }
        let inner = &dims[n_outside..];
        if value.dims() == inner && !is_each {
            let n = count(&dims[..n_outside]);
            let rank = value.dims().len();
            let _ = rank;
            return Ok(value.pick(&vec![0; n], 0, &dims[..n_outside]));
        }
        if value.dims().is_empty() && (is_each || inner.is_empty()) {
            return Ok(value.pick(&vec![0; count(dims)], 0, dims));
        }
        if is_each && dims.is_empty() {
            let message = format!("`each {name}` on something that is not an array");
            return Err(self.error("misplaced-each", span, message));
        }
        let message = format!(
            "the attribute `{name}` has size {}, the variable has size {}",
            dims_text(value.dims()),
            dims_text(inner)
        );
        Err(self.error_help("missing-each", span, message, "write `each` to give every element the same value"))
    }

    /// Refuses attributes that the type does not have.
    pub(crate) fn check_prim_names(&mut self, layers: &[Layer], ty: &Type) -> Res<()> {
        let known = attributes(ty);
        let mut result = Ok(());
        for layer in layers.iter().filter(|layer| !layer.is_field) {
            for at in 0..self.modifier(layer.mods).children.len() {
                let child = self.modifier(layer.mods).children[at];
                let node = self.modifier(child);
                if known.contains(&node.name.text()) {
                    if !node.children.is_empty() {
                        let (name, span) = (node.name, node.span);
                        let message = format!("the attribute `{name}` has no parts to modify");
                        result = Err(self.error("unknown-modifier", span, message));
                    }
                    continue;
                }
                let (name, span) = (node.name, node.span);
                let mut finding =
                    Finding::error("unknown-modifier", span, format!("{} has no attribute `{name}`", ty.word()));
                finding.help = Self::suggest(name.text(), known.iter().copied());
                result = Err(self.report(finding));
            }
        }
        result
    }

    /// Works out attributes and values of all variables.
    pub(crate) fn finish_attributes(&mut self) {
        // When-clauses have made variables discrete since they were first looked at.
        self.variability.clear();
        let mut at = 0;
        while at < self.prims.len() {
            let id = PrimId(at as u32);
            at += 1;
            if self.prim(id).first.is_some() && count(&self.prim(id).dims) > 0 {
                let _ = self.finish_prim(id);
            }
            if self.n_errors > 200 {
                return;
            }
        }
    }

    fn scalar_attribute(&mut self, id: PrimId, name: &str, ty: &Type) -> Res<Option<SmallVec<[ExprId; 1]>>> {
        let Some(value) = self.attribute(id, name, false)? else { return Ok(None) };
        let dims = self.prim(id).dims.clone();
        let what = format!("the attribute `{name}` of `{}`", self.prim_name(id));
        let span = self.prim(id).elem.span;
        let Value::Scalars(scalars) = self.coerce(value, ty, &dims, &what, span)? else { return Ok(None) };
        for &item in &scalars.items {
            if self.variability_of(item) > Variability::Parameter {
                let message = format!("{what} depends on a variable; it must be a parameter expression");
                return Err(self.error("variability", span, message));
            }
        }
        Ok(Some(scalars.items))
    }

    pub(crate) fn text_attribute(&mut self, id: PrimId, name: &str) -> Res<Option<Vec<Arc<str>>>> {
        match self.attribute(id, name, true)? {
            None => Ok(None),
            Some(Value::Texts { items, .. }) => Ok(Some(items.into_iter().map(|item| item.text).collect())),
            Some(other) => {
                let message =
                    format!("the attribute `{name}` of `{}` is a String, not {}", self.prim_name(id), other.describe());
                Err(self.error("wrong-type", self.prim(id).elem.span, message))
            }
        }
    }

    fn finish_prim(&mut self, id: PrimId) -> Res<()> {
        let Some(first) = self.prim(id).first else { return Ok(()) };
        let (ty, n) = (self.prim(id).ty.clone(), count(&self.prim(id).dims));
        let variables = first.index()..first.index() + n;
        let has_any = |flattener: &Self| {
            let prim = flattener.prim(id);
            prim.layers.iter().any(|layer| !layer.is_field && !flattener.modifier(layer.mods).children.is_empty())
                || prim
                    .class_use
                    .items
                    .iter()
                    .flat_map(|item| &item.layers)
                    .any(|layer| !flattener.modifier(layer.mods).children.is_empty())
        };
        if has_any(self) {
            if let Some(items) = self.scalar_attribute(id, "start", &ty)? {
                let is_start_of_type = !self.is_given_outside(id, "start");
                for (at, &item) in variables.clone().zip(&items) {
                    self.variables[at].start = Some(item);
                    self.variables[at].is_start_of_type = is_start_of_type;
                }
            }
            if let Some(items) = self.scalar_attribute(id, "fixed", &Type::Boolean)? {
                for (at, &item) in variables.clone().zip(&items) {
                    let known = self.known_number(item, self.prim(id).elem.span)?;
                    self.variables[at].fixed = Some(known != 0.0);
                }
            }
            if ty != Type::Boolean && ty != Type::String {
                if let Some(items) = self.scalar_attribute(id, "min", &ty)? {
                    for (at, &item) in variables.clone().zip(&items) {
                        self.variables[at].min = Some(item);
                    }
                }
                if let Some(items) = self.scalar_attribute(id, "max", &ty)? {
                    for (at, &item) in variables.clone().zip(&items) {
                        self.variables[at].max = Some(item);
                    }
                }
            }
            self.text_attribute(id, "quantity")?;
            if ty == Type::Real {
                self.finish_real(id, variables.clone())?;
            }
        }
        let is_structural = self.prim(id).is_structural;
        for at in variables {
            self.variables[at].is_structural = is_structural;
        }
        self.finish_value(id)
    }

    fn finish_real(&mut self, id: PrimId, variables: std::ops::Range<usize>) -> Res<()> {
        if let Some(items) = self.scalar_attribute(id, "nominal", &Type::Real)? {
            for (at, &item) in variables.clone().zip(&items) {
                self.variables[at].nominal = Some(item);
            }
        }
        self.scalar_attribute(id, "unbounded", &Type::Boolean)?;
        if let Some(items) = self.text_attribute(id, "unit")? {
            for (at, item) in variables.clone().zip(&items) {
                if item.is_empty() {
                    continue;
                }
                let unit = match self.units.get(item) {
                    Some(unit) => unit.clone(),
                    None => {
                        let unit = Unit::parse(item);
                        self.units.insert(item.clone(), unit.clone());
                        unit
                    }
                };
                self.variables[at].unit = Some(unit);
            }
        }
        if let Some(items) = self.text_attribute(id, "displayUnit")? {
            for (at, item) in variables.clone().zip(&items) {
                self.variables[at].display_unit = (!item.is_empty()).then(|| item.clone());
            }
        }
        if let Some(Value::Scalars(scalars)) = self.attribute(id, "stateSelect", true)? {
            let is_state_select =
                matches!(&scalars.ty, Type::Enumeration(enumeration) if enumeration.name == "StateSelect");
            if !is_state_select {
                let message = format!("the attribute `stateSelect` of `{}` is not a StateSelect", self.prim_name(id));
                return Err(self.error("wrong-type", self.prim(id).elem.span, message));
            }
            for (at, &item) in variables.zip(&scalars.items) {
                self.variables[at].state_select = match self.graph.as_number(item) {
                    Some(1.0) => StateSelect::Never,
                    Some(2.0) => StateSelect::Avoid,
                    Some(4.0) => StateSelect::Prefer,
                    Some(5.0) => StateSelect::Always,
                    _ => StateSelect::Default,
                };
            }
        }
        Ok(())
    }

    /// The value of a declaration: a binding for constants and parameters, an equation for unknowns.
    fn finish_value(&mut self, id: PrimId) -> Res<()> {
        let Some(first) = self.prim(id).first else { return Ok(()) };
        let (ty, dims) = (self.prim(id).ty.clone(), self.prim(id).dims.clone());
        let name = self.prim_name(id);
        let declared = self.prim(id).elem.span;
        let variability = self.prim(id).variability;
        let is_fixed_value = variability <= Variability::Parameter;
        if ty == Type::String {
            return self.finish_text(id, first, &name);
        }
        if let Some(&value) = self.options.values.get(&name)
            && dims.is_empty()
            && variability == Variability::Parameter
        {
            let value = self.graph.number(value);
            self.variables[first.index()].binding = Some(value);
            return Ok(());
        }
        let Some(layer) = self.binding_layer(id).cloned() else {
            if is_fixed_value {
                self.missing_value(id, first, &name, declared);
            }
            return Ok(());
        };
        let span = self.modifier(layer.mods).binding.map_or(declared, |expr| expr.span);
        if self.modifier(layer.mods).is_final {
            for at in 0..count(&dims) {
                self.variables[first.index() + at].is_final = true;
            }
        }
        let n_folded = self.folded_units.len();
        let value = self.declared_value(id, first, &layer, span)?;
        if self.folded_units.len() > n_folded {
            let names = self.variables[first.index()..first.index() + count(&dims)].iter();
            self.folded_into.extend(names.map(|variable| variable.name.clone()));
        }
        let Value::Scalars(Scalars { mut items, .. }) = self.coerce(value, &ty, &dims, &format!("`{name}`"), span)?
        else {
            return Ok(());
        };
        self.replace_values(id, &mut items);
        let component: Arc<str> =
            self.complex(self.prim(id).parent).map_or_else(|| Arc::from(""), |complex| complex.path.clone());
        for (at, &item) in items.iter().enumerate() {
            let var = VarId((first.index() + at) as u32);
            let given = self.variability_of(item);
            if self.graph.as_number(item).is_some_and(f64::is_nan) {
                let message = format!("the value of `{name}` is not a number: a result or a field is not assigned");
                return Err(self.error("unset-variable", span, message));
            }
            if is_fixed_value {
                if given > variability {
                    let message = format!("the {} `{name}` has a value that is {}", variability.word(), given.word());
                    let help = "values of constants and parameters cannot depend on variables";
                    return Err(self.error_help("variability", span, message, help));
                }
                self.variables[var.index()].binding = Some(item);
            } else {
                if variability == Variability::Discrete && ty != Type::Real && given == Variability::Continuous {
                    let message = format!("the discrete `{name}` has a value that varies continuously");
                    return Err(self.error("variability", span, message));
                }
                let lhs = self.graph.var(var);
                self.out.equations.push(Equation {
                    lhs,
                    rhs: item,
                    origin: Origin::Binding,
                    component: component.clone(),
                    span,
                });
            }
        }
        Ok(())
    }

    /// The value of a number, as far as it is known now.
    fn declared_value(&mut self, id: PrimId, first: VarId, layer: &Layer, span: Span) -> Res<Value> {
        let variability = self.prim(id).variability;
        let wide = match (&self.prim(id).ty, variability) {
            (Type::Integer, Variability::Parameter) => self.wide_parameter(id, span),
            _ => None,
        };
        // Constants are folded, parameters keep their expressions.
        if let Some(wide) = wide {
            for at in 0..count(&self.prim(id).dims) {
                self.variables[first.index() + at].is_structural = true;
            }
            Ok(wide)
        } else if variability == Variability::Constant || self.prim(id).is_structural {
            let known = self.known_value(id, span)?;
            if variability == Variability::Parameter {
                // The expression is kept where it can be, the value was checked.
                self.layer_value(layer, false)
            } else {
                Ok(Value::clone(&known))
            }
        } else {
            self.layer_value(layer, false)
        }
    }

    /// The value of a String.
    fn finish_text(&mut self, id: PrimId, first: VarId, name: &str) -> Res<()> {
        let dims = self.prim(id).dims.clone();
        let declared = self.prim(id).elem.span;
        let Some(layer) = self.binding_layer(id).cloned() else {
            if self.prim(id).variability == Variability::Constant {
                self.missing_value(id, first, name, declared);
            }
            return Ok(());
        };
        let span = self.modifier(layer.mods).binding.map_or(declared, |expr| expr.span);
        let value = self.layer_value(&layer, false)?;
        if let Value::Texts { items, .. } = self.coerce(value, &Type::String, &dims, &format!("`{name}`"), span)? {
            for (at, item) in items.iter().enumerate().filter(|(_, item)| item.is_known) {
                self.variables[first.index() + at].text = Some(item.text.clone());
            }
            if items.iter().any(|item| !item.is_known) {
                let message =
                    format!("the text of `{name}` changes or is not known before the start: it is not computed");
                self.report(Finding::note("text-equation", span, message));
            }
        }
        Ok(())
    }

    /// Puts the values wished for in place of those of the model, element by element.
    fn replace_values(&mut self, id: PrimId, items: &mut [ExprId]) {
        let Some(first) = self.prim(id).first else { return };
        if self.options.values.is_empty() || self.prim(id).variability != Variability::Parameter {
            return;
        }
        for (at, item) in items.iter_mut().enumerate() {
            if let Some(&value) = self.options.values.get(&self.variables[first.index() + at].name) {
                *item = self.graph.number(value);
            }
        }
    }

    /// Parameters that a function leaves without a value where a condition does not hold, such as a field of a record
    /// for a device that has no breakdown, are zero there; that is told.
    fn fill_unset_parameters(&mut self) {
        let unset = self.graph.number(f64::NAN);
        let zero = self.graph.number(0.0);
        let mut substitution = Substitution::new();
        substitution.replace(unset, zero);
        for at in 0..self.variables.len() {
            let Some(binding) = self.variables[at].binding else { continue };
            if self.variables[at].kind != VariableKind::Parameter {
                continue;
            }
            let mut reach = std::mem::take(&mut self.reach);
            let is_open = reach.below(&self.graph, &[binding]).contains(&unset);
            self.reach = reach;
            if !is_open {
                continue;
            }
            self.variables[at].binding = Some(substitution.apply(&mut self.graph, binding));
            let (name, span) = (self.variables[at].name.clone(), self.variables[at].span);
            let message =
                format!("the function that gives `{name}` its value assigns none in some cases: it is 0 there");
            let finding = Finding::note("unset-value", span, message).with_names([name]);
            self.report(finding.with_help("assign it in all branches of the function"));
        }
    }

    /// Wishes for values of what is not there, or not free.
    pub(crate) fn check_values(&mut self) {
        self.fill_unset_parameters();
        let mut names: Vec<String> = self.options.values.keys().cloned().collect();
        names.sort_unstable();
        for name in names {
            let found = self.variables.iter().find(|variable| variable.name == name);
            if let (Some(variable), Some(&value)) = (found, self.options.values.get(&name))
                && !variable.value_type.holds(value)
            {
                self.wrong_value(&name, value);
                continue;
            }
            let problem = match found {
                None => Some(format!("there is no parameter `{name}` to be given a value")),
                Some(variable) if variable.kind != VariableKind::Parameter => {
                    Some(format!("`{name}` is not a parameter and cannot be given a value"))
                }
                Some(variable) if variable.is_final => Some(format!("`{name}` is final and cannot be given a value")),
                Some(_) => None,
            };
            if let Some(message) = problem {
                let free = self.variables.iter().filter(|it| it.kind == VariableKind::Parameter && !it.is_final);
                let known = free.map(|variable| variable.name.as_str());
                let mut finding = Finding::error("unknown-parameter", Span::NONE, message).with_names([name.clone()]);
                finding.help = Self::suggest(&name, known).filter(|_| found.is_none());
                self.report(finding);
                self.refused_values.push(name);
            }
        }
    }

    /// The value wished for a parameter, checked against its type.
    fn wished_value(&mut self, name: &str, first: VarId) -> Res<Option<f64>> {
        let Some(&value) = self.options.values.get(name) else { return Ok(None) };
        if self.variables[first.index()].value_type.holds(value) {
            return Ok(Some(value));
        }
        Err(self.wrong_value(name, value))
    }

    fn wrong_value(&mut self, name: &str, value: f64) -> Refused {
        let ty = self.variables.iter().find(|variable| variable.name == name).map(|variable| &variable.value_type);
        let what = match ty {
            Some(ValueType::Integer) if value.fract() == 0.0 => {
                format!(
                    "an Integer, which is set to at most {LARGEST_INTEGER} in magnitude; larger ones are exact where the model gives them"
                )
            }
            Some(ValueType::Integer) => "an Integer".to_owned(),
            Some(ValueType::Boolean) => "a Boolean: 0 or 1".to_owned(),
            Some(ValueType::Enumeration(enumeration)) => {
                format!("of type `{}`, whose values are 1 to {}", enumeration.name, enumeration.literals.len())
            }
            _ => "of another type".to_owned(),
        };
        let message = format!("`{name}` cannot be {}: it is {what}", number_text(value));
        self.report(Finding::error("wrong-value", Span::NONE, message).with_names([name.to_owned()]))
    }

    /// A constant or parameter that is given no value.
    fn missing_value(&mut self, id: PrimId, first: VarId, name: &str, declared: Span) {
        let n = count(&self.prim(id).dims);
        if self.prim(id).variability == Variability::Constant {
            let message = format!("the constant `{name}` has no value");
            let help = format!("give it one where it is declared: `{} = ..`", name.rsplit('.').next().unwrap_or(name));
            self.error_help("constant-without-value", declared, message, help);
            return;
        }
        let mut by_start = false;
        let mut without = false;
        for at in first.index()..first.index() + n {
            let variable = &mut self.variables[at];
            if variable.fixed == Some(false) || variable.kind != VariableKind::Parameter {
                continue;
            }
            if variable.start.is_some() {
                variable.binding = variable.start;
                by_start = true;
            } else {
                without = true;
            }
        }
        if by_start || without {
            let message = if by_start {
                format!("parameter `{name}` has no value; its start value is used")
            } else {
                format!("parameter `{name}` has no value")
            };
            let counts = if without { "it counts as 0: " } else { "" };
            let help = format!(
                "{counts}give it a value in the model (`{} = ..`), in `[parameters]` of a study, or with `--set {name}=..`",
                name.rsplit('.').next().unwrap_or(name)
            );
            let finding = Finding::warning("parameter-without-value", declared, message).with_names([name.to_owned()]);
            self.report(finding.with_help(help));
        }
    }

    /// Sizes of a primitive as a plain list.
    pub(crate) fn prim_dims(&self, id: PrimId) -> Dims {
        self.prim(id).dims.iter().copied().collect()
    }
}
