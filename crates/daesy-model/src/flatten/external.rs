//! External functions known by name, and what calls do about events.

use daesy_graph::substitute::Substitution;
use daesy_graph::{ExprId, Node, Span, UnaryOp};

use super::expr::Ctx;
use super::function::{FunctionInfo, first_result};
use super::modifier::Layer;
use super::value::{Field, Record, Scalars, Type, Value};
use super::{ClassId, Flattener, Res};
use crate::syntax::{Expr, ExprKind, External};

impl<'a> Flattener<'a> {
    /// Whether a function is annotated to make events like equations do.
    pub(crate) fn generates_events(&self, class: ClassId) -> bool {
        let Some(annotation) = self.class(class).ast.and_then(|ast| ast.annotation.as_ref()) else { return false };
        super::class::is_true(annotation, "GenerateEvents")
    }

    /// The arguments of a call, marked so that a `noEvent` around the body does not reach them.
    pub(crate) fn keep_events(&mut self, given: &[Option<Value>]) -> Vec<Option<Value>> {
        let mut keep = |value: &Value| value.map_scalars(&mut |item| self.graph.with_events(item));
        given.iter().map(|value| value.as_ref().map(&mut keep)).collect()
    }

    /// The expression without the marks that keep events inside of `noEvent`; those that are inside of one already
    /// stay, unless `everywhere`.
    pub(crate) fn unmarked(&mut self, item: ExprId, everywhere: bool) -> ExprId {
        if !self.graph.keeps_events(item) {
            return item;
        }
        let is_barrier = |node: Node| matches!(node, Node::Unary { op: UnaryOp::NoEvent, .. } | Node::Smooth { .. });
        let mut reach = std::mem::take(&mut self.reach);
        let graph = &self.graph;
        let below = reach.below_while(graph, &[item], |expr| everywhere || !is_barrier(graph.node(expr))).to_vec();
        self.reach = reach;
        let mut substitution = Substitution::new();
        // Arguments come first, so that marks inside of marked arguments are known when they are needed.
        for expr in below {
            match self.graph.node(expr) {
                Node::Unary { op: UnaryOp::WithEvents, arg } => {
                    let image = substitution.apply(&mut self.graph, arg);
                    substitution.replace(expr, image);
                }
                node if !everywhere && is_barrier(node) => substitution.replace(expr, expr),
                _ => {}
            }
        }
        substitution.apply(&mut self.graph, item)
    }

    /// The result of a call whose body makes no events while its arguments do [@modelica36, sec. 8.5]; what is not Real
    /// changes at events anyway.
    pub(crate) fn without_events(&mut self, value: &Value) -> Value {
        match value {
            Value::Scalars(scalars) => {
                let is_real = scalars.ty == Type::Real;
                value.map_scalars(&mut |item| {
                    if is_real && self.graph.has_own_events(item) {
                        self.graph.no_event(item)
                    } else {
                        self.unmarked(item, false)
                    }
                })
            }
            Value::Record(record) => {
                let fields = record
                    .fields
                    .iter()
                    .map(|field| Field { name: field.name, value: self.without_events(&field.value) })
                    .collect();
                Value::Record(Box::new(Record { class: record.class, dims: record.dims.clone(), fields }))
            }
            Value::Tuple(items) => Value::Tuple(items.iter().map(|item| self.without_events(item)).collect()),
            other => other.clone(),
        }
    }

    /// External functions: those that daesy knows by name.
    pub(crate) fn external_call(
        &mut self,
        info: &FunctionInfo<'a>,
        external: &'a External,
        layers: &[Layer],
        given: Vec<Option<Value>>,
        span: Span,
        ctx: &Ctx,
    ) -> Res<Value> {
        let mut inner = self.entered(info, layers, given, span, ctx)?;
        let n_inputs = inner.locals.len();
        let name =
            external.function.map_or_else(|| self.class(info.class).name.text(), |function| function.name.text());
        if let Some(value) = self.mathematical(info, external, name, &mut inner, span)? {
            return Ok(value);
        }
        if !super::native::is_known(name) {
            let language = external.language.as_deref().unwrap_or("C");
            let message = format!("the external function `{name}` (\"{language}\")");
            return Err(self.unsupported("external functions", span, &message));
        }
        // Outputs and protected variables are what the function writes to.
        self.declare_locals(info, layers, &mut inner)?;
        let mut values = Vec::with_capacity(external.args.len());
        let mut places = Vec::with_capacity(external.args.len());
        if external.function.is_none() {
            values.extend(inner.locals.iter().take(n_inputs).map(|local| local.value.clone()));
            places.resize(values.len(), None);
        }
        for arg in &external.args {
            let place = local_of(arg, &inner);
            values.push(match place {
                Some(place) => inner.locals[place].value.clone(),
                None => first_result(self.expr(arg, &mut inner)?),
            });
            places.push(place);
        }
        let done = self.native(name, &values, span)?;
        for (at, value) in done.written {
            if let Some(place) = places.get(at).copied().flatten() {
                inner.locals[place].value = like(&inner.locals[place].value, value);
            }
        }
        let result = external.result.as_ref().map(|result| result.parts[0].name.name);
        let result = result.or_else(|| (info.outputs.len() == 1).then(|| info.outputs[0].name));
        if let (Some(value), Some(name)) = (done.returned, result)
            && let Some(local) = inner.locals.iter_mut().find(|local| local.name == name)
        {
            local.value = like(&local.value, value);
        }
        self.function_results(info, &inner)
    }

    /// A function of C's mathematical library, if it is one.
    fn mathematical(
        &mut self,
        info: &FunctionInfo<'a>,
        external: &'a External,
        name: &str,
        inner: &mut Ctx,
        span: Span,
    ) -> Res<Option<Value>> {
        let known = if name == "fabs" { "abs" } else { name };
        let is_mathematical = super::builtin::unary_function(known).is_some() || matches!(name, "atan2" | "pow");
        if !is_mathematical || info.outputs.len() != 1 {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(2);
        for arg in &external.args {
            values.push(first_result(self.expr(arg, inner)?));
        }
        if external.function.is_none() {
            values.extend(inner.locals.iter().map(|local| local.value.clone()));
        }
        match (super::builtin::unary_function(known), values.as_slice()) {
            (Some(op), [only]) => self.unary_call(known, op, only.clone(), span).map(Some),
            (None, [left, right]) if name == "pow" => {
                self.binary_value(crate::syntax::BinaryOp::Pow, left.clone(), right.clone(), span).map(Some)
            }
            (None, [left, right]) => self.binary_call(name, left.clone(), right.clone(), span).map(Some),
            _ => Ok(None),
        }
    }
}

/// The variable of a function that an argument names.
fn local_of(arg: &Expr, inner: &Ctx) -> Option<usize> {
    let ExprKind::Ref(reference) = &arg.kind else { return None };
    let [part] = reference.parts.as_slice() else { return None };
    let is_plain = part.subscripts.is_empty() && !reference.is_global;
    is_plain.then(|| inner.locals.iter().rposition(|local| local.name == part.name.name)).flatten()
}

/// A value with the type that the variable was declared with: C has integers for enumerations.
fn like(old: &Value, new: Value) -> Value {
    match (old, new) {
        (Value::Scalars(old), Value::Scalars(new)) => Value::Scalars(Scalars { ty: old.ty.clone(), ..new }),
        (_, new) => new,
    }
}
