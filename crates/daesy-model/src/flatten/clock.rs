//! The operators of clocks and clocked signals [@modelica36, ch. 16].
//!
//! A call such as `sample(u, c)` becomes a mark: a node of the graph that stands for the value until all equations are
//! known and module `partition` finds out which variables tick together. No mark is left in a flat model.

use std::sync::Arc;

use daesy_graph::flat::{Enumeration, ValueType};
use daesy_graph::function::{Function, FunctionId};
use daesy_graph::{ExprId, Node, Span, VarId, VariableKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::expr::Ctx;
use super::value::{Scalars, Type, Value};
use super::{Flattener, Refused, Res};
use crate::syntax::{Expr, NamedArg};

/// What a mark stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mark {
    /// The left limit of a continuous signal at the ticks of a clock.
    Sample,
    /// A clocked signal between ticks.
    Hold,
    /// Every n-th tick.
    Sub,
    /// So many ticks in the interval of the argument.
    Super,
    /// Ticks that are late by a part of the interval.
    Shift,
    /// Ticks that are early by a part of the interval.
    Back,
    /// The last value of a signal of another clock.
    NoClock,
    /// The time since the tick before.
    Interval,
    /// Whether this is the first tick.
    FirstTick,
    /// A clock that the equations around determine.
    Inferred,
    /// A clock with an interval in seconds.
    Every,
    /// A clock that ticks when a condition becomes true.
    OnEvent,
    /// The clock in the argument, with a method for derivatives.
    Same,
}

/// A mark with its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkCall {
    pub mark: Mark,
    /// The signal, clock or condition.
    pub argument: ExprId,
    /// The clock of `sample`, the counter, the interval.
    pub first: ExprId,
    /// The resolution.
    pub second: ExprId,
}

/// A `when` clause of a clock: its equations belong to that clock.
#[derive(Clone, Debug)]
pub(crate) struct Tie {
    pub clock: ExprId,
    /// Sides of the equations.
    pub sides: Vec<ExprId>,
}

/// All marks of a model.
pub(crate) struct Marks {
    functions: Vec<(Mark, FunctionId)>,
    n_calls: u32,
    pub clock_type: Arc<Enumeration>,
    pub spans: FxHashMap<ExprId, Span>,
    /// Types of marked values that are not Real.
    pub types: FxHashMap<ExprId, ValueType>,
    /// Methods for derivatives, by mark.
    pub methods: FxHashMap<ExprId, Arc<str>>,
    /// Arguments of `previous`.
    pub previous: Vec<VarId>,
    pub ties: Vec<Tie>,
    /// Variables whose derivatives became variables.
    pub discretized: FxHashSet<VarId>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            n_calls: 0,
            // A clock has no value of its own: an enumeration without literals.
            clock_type: Arc::new(Enumeration { name: "Clock".to_owned(), literals: Vec::new() }),
            spans: FxHashMap::default(),
            types: FxHashMap::default(),
            methods: FxHashMap::default(),
            previous: Vec::new(),
            ties: Vec::new(),
            discretized: FxHashSet::default(),
        }
    }
}

impl Marks {
    /// Whether the model has clocks at all.
    pub(crate) fn is_used(&self) -> bool {
        !self.functions.is_empty() || !self.previous.is_empty()
    }

    /// The mark that a function of the graph is.
    pub(crate) fn of_function(&self, function: FunctionId) -> Option<Mark> {
        self.functions.iter().find(|(_, known)| *known == function).map(|(mark, _)| *mark)
    }

    pub(crate) fn is_clock_type(&self, ty: &Type) -> bool {
        matches!(ty, Type::Enumeration(enumeration) if Arc::ptr_eq(enumeration, &self.clock_type))
    }
}

impl<'a> Flattener<'a> {
    /// Whether a value is a clock.
    pub(crate) fn is_clock(&self, value: &Value) -> bool {
        matches!(value, Value::Scalars(scalars) if self.marks.is_clock_type(&scalars.ty))
    }

    /// The mark that an expression is.
    pub(crate) fn mark_call(&self, expr: ExprId) -> Option<MarkCall> {
        let Node::Call { function, args, .. } = self.graph.node(expr) else { return None };
        let mark = self.marks.of_function(function)?;
        match *self.graph.args(args) {
            [argument, first, second, _] => Some(MarkCall { mark, argument, first, second }),
            _ => None,
        }
    }

    fn mark(&mut self, call: MarkCall, span: Span) -> ExprId {
        let known = self.marks.functions.iter().find(|(mark, _)| *mark == call.mark);
        let function = known.map(|(_, function)| *function).unwrap_or_else(|| {
            let function = self.graph.add_function(Function {
                name: format!("${:?}", call.mark),
                n_inputs: 4,
                outputs: vec![0],
                n_locals: 4,
                body: Vec::new(),
                span: Span::NONE,
            });
            self.marks.functions.push((call.mark, function));
            function
        });
        // What has no argument of its own belongs to the place where it is written.
        let is_own =
            matches!(call.mark, Mark::Interval | Mark::FirstTick | Mark::Inferred | Mark::Every | Mark::OnEvent);
        self.marks.n_calls += 1;
        let number = self.graph.number(if is_own { f64::from(self.marks.n_calls) } else { 0.0 });
        let made = self.graph.call(function, 0, &[call.argument, call.first, call.second, number]);
        self.marks.spans.entry(made).or_insert(span);
        made
    }

    fn clock_value(&self, item: ExprId) -> Value {
        Value::scalar(Type::Enumeration(self.marks.clock_type.clone()), item)
    }

    /// Whether `sample(..)` is that of clocks and not that of events.
    pub(crate) fn is_clocked_sample(&mut self, args: &'a [Expr], named: &'a [NamedArg], ctx: &mut Ctx) -> Res<bool> {
        if args.len() + named.len() == 1 {
            return Ok(true);
        }
        let Some(second) = args.get(1).or_else(|| named.first().map(|named| &named.value)) else { return Ok(false) };
        let value = self.expr(second, ctx)?;
        Ok(self.is_clock(&value))
    }

    /// Calls an operator of clocks.
    pub(crate) fn clock_call(
        &mut self,
        name: &str,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        if ctx.in_function {
            return Err(self.error("event-in-function", span, format!("`{name}` cannot be used in a function")));
        }
        let zero = self.graph.number(0.0);
        let plain = |mark: Mark| MarkCall { mark, argument: zero, first: zero, second: zero };
        match name {
            "Clock" => self.clock_constructor(args, named, span, ctx),
            "previous" => {
                let value = self.variable_argument(name, args, named, span, ctx)?;
                let mut scalars = self.scalars(value, "`previous`", span)?;
                for item in &mut scalars.items {
                    if let Node::Var { var, order: 0 } = self.graph.node(*item) {
                        self.marks.previous.push(var);
                    }
                    *item = self.pre_of(*item, span)?;
                }
                Ok(Value::Scalars(scalars))
            }
            "sample" => {
                let values = self.arguments(name, &["u", "clock"], 1, args, named, span, ctx)?;
                let clock = match &values[1] {
                    Some(Value::Scalars(clock)) => self.single(&clock.clone(), span)?,
                    _ => zero,
                };
                self.marked(MarkCall { first: clock, ..plain(Mark::Sample) }, values, span)
            }
            "hold" | "noClock" => {
                let values = self.arguments(name, &["u"], 1, args, named, span, ctx)?;
                self.marked(plain(if name == "hold" { Mark::Hold } else { Mark::NoClock }), values, span)
            }
            "subSample" | "superSample" => {
                let values = self.arguments(name, &["u", "factor"], 1, args, named, span, ctx)?;
                // A factor of 0 stands for one that is to be found.
                let first = match &values[1] {
                    Some(factor) => self.counter(name, "factor", factor.clone(), 1.0, span)?,
                    None => zero,
                };
                let mark = if name == "subSample" { Mark::Sub } else { Mark::Super };
                self.marked(MarkCall { first, ..plain(mark) }, values, span)
            }
            "shiftSample" | "backSample" => {
                let (mark, counter) =
                    if name == "shiftSample" { (Mark::Shift, "shiftCounter") } else { (Mark::Back, "backCounter") };
                let values = self.arguments(name, &["u", counter, "resolution"], 2, args, named, span, ctx)?;
                let first = match &values[1] {
                    Some(value) => self.counter(name, counter, value.clone(), 0.0, span)?,
                    None => zero,
                };
                let second = match &values[2] {
                    Some(value) => self.counter(name, "resolution", value.clone(), 1.0, span)?,
                    None => self.graph.number(1.0),
                };
                self.marked(MarkCall { first, second, ..plain(mark) }, values, span)
            }
            "interval" | "firstTick" => {
                let values = self.arguments(name, &["u"], 0, args, named, span, ctx)?;
                let argument = match values.into_iter().next().flatten() {
                    Some(Value::Scalars(scalars)) => scalars.items.first().copied().unwrap_or(zero),
                    _ => zero,
                };
                let (mark, ty) =
                    if name == "interval" { (Mark::Interval, Type::Real) } else { (Mark::FirstTick, Type::Boolean) };
                Ok(Value::scalar(ty, self.mark(MarkCall { argument, ..plain(mark) }, span)))
            }
            _ => Err(Refused),
        }
    }

    /// The first of some values with a mark on every scalar.
    fn marked(&mut self, call: MarkCall, values: Vec<Option<Value>>, span: Span) -> Res<Value> {
        let value = values.into_iter().next().flatten().ok_or(Refused)?;
        let value_type = match &value {
            Value::Scalars(scalars) => match &scalars.ty {
                Type::Integer => Some(ValueType::Integer),
                Type::Boolean => Some(ValueType::Boolean),
                Type::Enumeration(enumeration) => Some(ValueType::Enumeration(enumeration.clone())),
                Type::Real | Type::String => None,
            },
            _ => None,
        };
        Ok(value.map_scalars(&mut |argument| {
            let made = self.mark(MarkCall { argument, ..call }, span);
            if let Some(value_type) = &value_type {
                self.marks.types.insert(made, value_type.clone());
            }
            made
        }))
    }

    /// A whole number that must be known, as an expression.
    fn counter(&mut self, name: &str, what: &str, value: Value, least: f64, span: Span) -> Res<ExprId> {
        let scalars = self.scalars(value, what, span)?;
        let item = self.single(&scalars, span)?;
        let number = self.known_number(item, span)?;
        if scalars.ty != Type::Integer || number < least {
            let message = format!("`{what}` of `{name}` is an Integer of at least {least}, not {number}");
            return Err(self.error("wrong-arguments", span, message));
        }
        Ok(self.graph.number(number))
    }

    /// `Clock(..)`
    fn clock_constructor(&mut self, args: &'a [Expr], named: &'a [NamedArg], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let zero = self.graph.number(0.0);
        let made = |mark: Mark, argument: ExprId, first: ExprId| MarkCall { mark, argument, first, second: zero };
        let Some(leading) = args.first().or_else(|| named.first().map(|named| &named.value)) else {
            let item = self.mark(made(Mark::Inferred, zero, zero), span);
            return Ok(self.clock_value(item));
        };
        let value = self.expr(leading, ctx)?;
        let scalars = self.scalars(value, "`Clock`", span)?;
        let names: &[&str] = match &scalars.ty {
            Type::Integer => &["intervalCounter", "resolution"],
            Type::Real => &["interval"],
            Type::Boolean => &["condition", "startInterval"],
            ty if self.marks.is_clock_type(ty) => &["c", "solverMethod"],
            other => {
                let message = format!("there is no clock of {}", other.word());
                return Err(self.error("wrong-type", span, message));
            }
        };
        let values = self.arguments("Clock", names, 1, args, named, span, ctx)?;
        let mut items = Vec::with_capacity(2);
        let mut method = None;
        for value in values.into_iter().flatten() {
            match value {
                Value::Scalars(scalars) => items.push(self.single(&scalars, span)?),
                Value::Texts { items, .. } => method = items.first().map(|text| text.text.clone()),
                other => {
                    let message = format!("`Clock` has no argument that is {}", other.describe());
                    return Err(self.error("wrong-type", span, message));
                }
            }
        }
        let Some(&leading) = items.first() else { return Err(Refused) };
        let call = match names[0] {
            "intervalCounter" | "interval" => {
                let counter = self.known_number(leading, span)?;
                let resolution = match items.get(1) {
                    Some(&resolution) => self.known_number(resolution, span)?,
                    None => 1.0,
                };
                let interval = counter / resolution;
                if !(interval > 0.0 && interval.is_finite()) {
                    let message = format!("the interval of a clock is positive, not {interval}");
                    return Err(self.error("wrong-arguments", span, message));
                }
                made(Mark::Every, zero, self.graph.number(interval))
            }
            "condition" => made(Mark::OnEvent, leading, items.get(1).copied().unwrap_or(zero)),
            _ => made(Mark::Same, leading, zero),
        };
        let item = self.mark(call, span);
        if let Some(method) = method {
            self.marks.methods.insert(item, method);
        }
        Ok(self.clock_value(item))
    }

    /// Whether an expression is a clock: a variable of that type, or what an operator made of one.
    pub(crate) fn is_clock_expr(&self, expr: ExprId) -> bool {
        match self.graph.node(expr) {
            Node::Var { var, .. } => self.is_clock_variable(var),
            _ => self.mark_call(expr).is_some_and(|call| match call.mark {
                Mark::Inferred | Mark::Every | Mark::OnEvent | Mark::Same => true,
                Mark::Sub | Mark::Super | Mark::Shift | Mark::Back => self.is_clock_expr(call.argument),
                _ => false,
            }),
        }
    }

    /// Whether a variable is a clock.
    pub(crate) fn is_clock_variable(&self, var: VarId) -> bool {
        let prim = self.var_prims[var.index()];
        self.marks.is_clock_type(&self.prim(prim).ty) && self.variables[var.index()].kind != VariableKind::Parameter
    }

    /// The clock of a when-clause, if its condition is one.
    pub(crate) fn clock_condition(&mut self, value: &Value, span: Span) -> Res<Option<ExprId>> {
        match value {
            Value::Scalars(scalars) if self.is_clock(value) => {
                let scalars: Scalars = scalars.clone();
                self.single(&scalars, span).map(Some)
            }
            _ => Ok(None),
        }
    }
}
