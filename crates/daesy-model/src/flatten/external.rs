//! External functions known by name, and what calls do about events.

use daesy_graph::Span;

use super::expr::{Ctx, Local};
use super::function::{FunctionInfo, first_result};
use super::value::{Field, Record, Type, Value};
use super::{ClassId, Flattener, NodeId, Res};
use crate::syntax::External;

impl<'a> Flattener<'a> {
    /// Whether a function is annotated to make events like equations do.
    pub(crate) fn generates_events(&self, class: ClassId) -> bool {
        let Some(annotation) = self.class(class).ast.and_then(|ast| ast.annotation.as_ref()) else { return false };
        super::class::is_true(annotation, "GenerateEvents")
    }

    /// Relations in functions make no events [@modelica36, sec. 8.5]; what is not Real changes at events anyway.
    pub(crate) fn without_events(&mut self, value: &Value) -> Value {
        match value {
            Value::Scalars(scalars) if scalars.ty == Type::Real => {
                value.map_scalars(&mut |item| self.graph.no_event(item))
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
        given: Vec<Option<Value>>,
        span: Span,
    ) -> Res<Value> {
        let language = external.language.as_deref().unwrap_or("C");
        let name =
            external.function.map_or_else(|| self.class(info.class).name.text(), |function| function.name.text());
        let inputs: Vec<Value> = given.into_iter().flatten().collect();
        let values = if external.function.is_none() {
            inputs
        } else {
            // The arguments are expressions in the inputs.
            let mut inner = Ctx::new(info.class, NodeId::NONE);
            inner.in_function = true;
            for (elem, value) in info.inputs.iter().zip(inputs) {
                inner.locals.push(Local { name: elem.name, value, is_assignable: false, is_set: true });
            }
            let mut values = Vec::with_capacity(external.args.len());
            for arg in &external.args {
                values.push(first_result(self.expr(arg, &mut inner)?));
            }
            values
        };
        let known = if name == "fabs" { "abs" } else { name };
        let is_single = info.outputs.len() == 1;
        if let (Some(op), [only], true) = (super::builtin::unary_function(known), values.as_slice(), is_single) {
            return self.unary_call(known, op, only.clone(), span);
        }
        if let ("atan2", [left, right], true) = (name, values.as_slice(), is_single) {
            return self.binary_call(name, left.clone(), right.clone(), span);
        }
        if let ("pow", [left, right], true) = (name, values.as_slice(), is_single) {
            return self.binary_value(crate::syntax::BinaryOp::Pow, left.clone(), right.clone(), span);
        }
        let message = format!("the external function `{name}` (\"{language}\")");
        Err(self.unsupported("external functions", span, &message))
    }
}
