//! The built-in operators and functions [@modelica36, sec. 3.7 and 10.3].

use daesy_graph::flat::{Assertion, LARGEST_INTEGER};
use daesy_graph::{BinaryOp as Op, ExprId, Node, Span, UnaryOp as Unary, VarId, VariableKind};
use smallvec::SmallVec;

use super::expr::{Ctx, Variability};
use super::value::{Dims, Scalars, Type, Value, count, dims_text};
use super::{ClassId, Flattener, Refused, Res};
use crate::name::Name;
use crate::syntax::{Expr, ExprKind, NamedArg};

/// Names with a meaning of their own.
const NAMES: &[&str] = &[
    "abs",
    "sign",
    "sqrt",
    "Integer",
    "String",
    "div",
    "mod",
    "rem",
    "ceil",
    "floor",
    "integer",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "log",
    "log10",
    "der",
    "delay",
    "cardinality",
    "homotopy",
    "semiLinear",
    "inStream",
    "actualStream",
    "spatialDistribution",
    "getInstanceName",
    "initial",
    "terminal",
    "noEvent",
    "smooth",
    "sample",
    "pre",
    "edge",
    "change",
    "reinit",
    "assert",
    "terminate",
    "ndims",
    "size",
    "scalar",
    "vector",
    "matrix",
    "identity",
    "diagonal",
    "zeros",
    "ones",
    "fill",
    "linspace",
    "min",
    "max",
    "sum",
    "product",
    "transpose",
    "outerProduct",
    "symmetric",
    "cross",
    "skew",
    "cat",
    "array",
    "time",
    "previous",
    "hold",
    "subSample",
    "superSample",
    "shiftSample",
    "backSample",
    "noClock",
    "interval",
    "transition",
    "initialState",
    "activeState",
    "ticksInState",
    "timeInState",
    "firstTick",
    "promote",
    "pure",
    "rooted",
    "Clock",
];

fn is_name(name: &str) -> bool {
    use std::sync::OnceLock;
    static SET: OnceLock<rustc_hash::FxHashSet<&'static str>> = OnceLock::new();
    SET.get_or_init(|| NAMES.iter().copied().collect()).contains(name)
}

/// Names of the built-in functions, for suggestions.
pub(crate) const fn names() -> &'static [&'static str] {
    NAMES
}

/// The operation of a function of one number.
pub(crate) fn unary_function(name: &str) -> Option<Unary> {
    Some(match name {
        "abs" => Unary::Abs,
        "sign" => Unary::Sign,
        "sqrt" => Unary::Sqrt,
        "exp" => Unary::Exp,
        "log" => Unary::Log,
        "log10" => Unary::Log10,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "tan" => Unary::Tan,
        "asin" => Unary::Asin,
        "acos" => Unary::Acos,
        "atan" => Unary::Atan,
        "sinh" => Unary::Sinh,
        "cosh" => Unary::Cosh,
        "tanh" => Unary::Tanh,
        "ceil" => Unary::Ceil,
        "floor" | "integer" => Unary::Floor,
        _ => return None,
    })
}

/// The feature that an operator which is not supported belongs to.
fn unsupported_operator(name: &str) -> Option<&'static str> {
    Some(match name {
        "transition" | "initialState" | "activeState" | "ticksInState" | "timeInState" => "state machines",
        _ => return None,
    })
}

impl<'a> Flattener<'a> {
    /// Whether a name is that of a built-in function here: one that no class of the user's hides.
    pub(crate) fn is_builtin(&mut self, name: &str, scope: ClassId) -> bool {
        if !is_name(name) {
            return false;
        }
        let key = (scope, Name::new(name));
        if let Some(&known) = self.shadowed.get(&key) {
            return known;
        }
        let is_builtin = matches!(name, "String" | "Integer" | "Clock") || self.lookup(key.1, scope).is_none();
        self.shadowed.insert(key, is_builtin);
        is_builtin
    }

    /// Evaluates the arguments of a built-in function, which has the given argument names.
    #[allow(clippy::too_many_arguments, reason = "a call with its place")]
    pub(crate) fn arguments(
        &mut self,
        function: &str,
        names: &[&str],
        n_needed: usize,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Vec<Option<Value>>> {
        if args.len() > names.len() {
            let message = format!("`{function}` takes {} arguments, not {}", names.len(), args.len());
            return Err(self.error("wrong-arguments", span, message));
        }
        let mut values: Vec<Option<Value>> = vec![None; names.len()];
        for (place, arg) in values.iter_mut().zip(args) {
            *place = Some(self.expr(arg, ctx)?);
        }
        for arg in named {
            let Some(at) = names.iter().position(|&name| name == arg.name.name.text()) else {
                let message = format!("`{function}` has no argument `{}`", arg.name.name);
                let help = Self::suggest(arg.name.name.text(), names.iter().copied()).unwrap_or_default();
                return Err(self.error_help("wrong-arguments", arg.name.span, message, help));
            };
            if values[at].is_some() {
                let message = format!("the argument `{}` of `{function}` is given twice", names[at]);
                return Err(self.error("wrong-arguments", arg.name.span, message));
            }
            values[at] = Some(self.expr(&arg.value, ctx)?);
        }
        if let Some(missing) = values[..n_needed].iter().position(Option::is_none) {
            let message = format!("`{function}` needs the argument `{}`", names[missing]);
            return Err(self.error("wrong-arguments", span, message));
        }
        for value in values.iter_mut().flatten() {
            if let Value::Tuple(items) = value
                && !items.is_empty()
            {
                *value = items.swap_remove(0);
            }
        }
        Ok(values)
    }

    fn known_size(&mut self, value: Value, span: Span) -> Res<usize> {
        let scalars = self.scalars(value, "an array size", span)?;
        if scalars.ty != Type::Integer {
            let message = format!("an array size is an Integer, not {}", scalars.ty.word());
            return Err(self.error("wrong-type", span, message));
        }
        let item = self.single(&scalars, span)?;
        let number = self.known_number(item, span)?;
        if number < 0.0 {
            return Err(self.error("negative-size", span, format!("an array size is {number}")));
        }
        Ok(number as usize)
    }

    /// Calls a built-in function.
    pub(crate) fn builtin(
        &mut self,
        name: &str,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        if let Some(op) = unary_function(name) {
            let values = self.arguments(name, &["x"], 1, args, named, span, ctx)?;
            let value = values.into_iter().flatten().next().ok_or(Refused)?;
            return self.unary_call(name, op, value, span);
        }
        match name {
            "atan2" | "div" | "mod" | "rem" => {
                let values = self.arguments(name, &["x", "y"], 2, args, named, span, ctx)?;
                let mut values = values.into_iter().flatten();
                let (Some(left), Some(right)) = (values.next(), values.next()) else { return Err(Refused) };
                self.binary_call(name, left, right, span)
            }
            "min" | "max" => self.min_max_call(name, args, named, span, ctx),
            "Integer" => {
                let values = self.arguments(name, &["e"], 1, args, named, span, ctx)?;
                let value = values.into_iter().flatten().next().ok_or(Refused)?;
                let mut scalars = self.scalars(value, "`Integer`", span)?;
                if !matches!(scalars.ty, Type::Enumeration(_) | Type::Integer) {
                    let message = format!("`Integer(e)` needs an enumeration, not {}", scalars.ty.word());
                    return Err(self.error_help("wrong-type", span, message, "`integer(x)` rounds a Real down"));
                }
                scalars.ty = Type::Integer;
                Ok(Value::Scalars(scalars))
            }
            "String" => self.string_call(args, named, span, ctx),
            "der" => self.der_call(args, named, span, ctx),
            "previous" | "hold" | "subSample" | "superSample" | "shiftSample" | "backSample" | "noClock"
            | "interval" | "firstTick" | "Clock" => self.clock_call(name, args, named, span, ctx),
            "sample" if self.is_clocked_sample(args, named, ctx)? => self.clock_call(name, args, named, span, ctx),
            "pre" | "edge" | "change" | "initial" | "terminal" | "sample" | "noEvent" | "smooth" => {
                self.event_call(name, args, named, span, ctx)
            }
            "homotopy" => self.homotopy_call(args, named, span, ctx),
            "semiLinear" => self.semi_linear_call(args, named, span, ctx),
            "delay" => self.delay_call(args, named, span, ctx),
            "spatialDistribution" => self.transport_call(args, named, span, ctx),
            "cardinality" => self.cardinality(args, span, ctx),
            "inStream" | "actualStream" => self.stream_call(name == "inStream", args, span, ctx),
            "getInstanceName" => {
                let path = if ctx.instance.is_some() { self.node_path(ctx.instance) } else { String::new() };
                let root = self
                    .complex(self.root)
                    .map_or_else(String::new, |root| self.class(root.class).name.text().to_owned());
                let text = if path.is_empty() { root } else { format!("{root}.{path}") };
                Ok(Value::text(&text))
            }
            "assert" | "terminate" | "reinit" => {
                let message = format!("`{name}` is an equation or statement, not a value");
                Err(self.error("not-a-value", span, message))
            }
            "rooted" => self.connections_value(name, args, span, ctx),
            "pure" => match args {
                [only] => self.expr(only, ctx),
                _ => Err(self.error("wrong-arguments", span, "`pure` takes one call")),
            },
            _ => match unsupported_operator(name) {
                Some(feature) => Err(self.unsupported(feature, span, &format!("the operator `{name}`"))),
                None => self.array_call(name, args, named, span, ctx),
            },
        }
    }

    /// Operators that have to do with events.
    fn event_call(
        &mut self,
        name: &str,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        match name {
            "pre" => {
                let value = self.variable_argument(name, args, named, span, ctx)?;
                let mut scalars = self.scalars(value, "`pre`", span)?;
                for item in &mut scalars.items {
                    self.note_pre(*item, ctx.in_when, span);
                    *item = self.pre_of(*item, span)?;
                }
                Ok(Value::Scalars(scalars))
            }
            "edge" | "change" => {
                let value = self.variable_argument(name, args, named, span, ctx)?;
                let mut scalars = self.scalars(value, name, span)?;
                if name == "edge" && scalars.ty != Type::Boolean {
                    let message = format!("`edge` needs a Boolean, not {}", scalars.ty.word());
                    return Err(self.error("wrong-type", span, message));
                }
                for item in &mut scalars.items {
                    let before = self.pre_of(*item, span)?;
                    *item = if name == "edge" {
                        let not_before = self.graph.not(before);
                        self.graph.and(*item, not_before)
                    } else {
                        self.graph.not_equal(*item, before)
                    };
                }
                scalars.ty = Type::Boolean;
                Ok(Value::Scalars(scalars))
            }
            "initial" | "terminal" => {
                self.arguments(name, &[], 0, args, named, span, ctx)?;
                if ctx.in_function {
                    return Err(self.error(
                        "event-in-function",
                        span,
                        format!("`{name}()` cannot be used in a function"),
                    ));
                }
                let node = if name == "initial" { Node::Initial } else { Node::Terminal };
                Ok(Value::scalar(Type::Boolean, self.graph.intern(node)))
            }
            "sample" => {
                if ctx.in_function {
                    return Err(self.error("event-in-function", span, "`sample` cannot be used in a function"));
                }
                let values = self.arguments(name, &["start", "interval"], 2, args, named, span, ctx)?;
                let mut items = SmallVec::<[ExprId; 2]>::new();
                for value in values.into_iter().flatten() {
                    let scalars = self.numeric(value, "`sample`", span)?;
                    let item = self.single(&scalars, span)?;
                    if self.variability_of(item) > Variability::Parameter {
                        let message = "the arguments of `sample` must be parameter expressions";
                        return Err(self.error("variability", span, message));
                    }
                    items.push(item);
                }
                self.assert_positive(items[1], span, ctx)?;
                Ok(Value::scalar(Type::Boolean, self.graph.sample(items[0], items[1])))
            }
            "noEvent" => {
                let values = self.arguments(name, &["expr"], 1, args, named, span, ctx)?;
                let value = values.into_iter().flatten().next().ok_or(Refused)?;
                Ok(value.map_scalars(&mut |item| {
                    let item = self.unmarked(item, true);
                    self.graph.no_event(item)
                }))
            }
            "smooth" => {
                let values = self.arguments(name, &["p", "expr"], 2, args, named, span, ctx)?;
                let mut values = values.into_iter().flatten();
                let (Some(order), Some(value)) = (values.next(), values.next()) else { return Err(Refused) };
                let order = self.known_size(order, span)? as u16;
                Ok(value.map_scalars(&mut |item| {
                    let item = self.unmarked(item, true);
                    self.graph.smooth(order, item)
                }))
            }
            _ => Err(Refused),
        }
    }

    /// `homotopy(actual, simplified)`
    fn homotopy_call(&mut self, args: &'a [Expr], named: &'a [NamedArg], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let values = self.arguments("homotopy", &["actual", "simplified"], 2, args, named, span, ctx)?;
        let mut values = values.into_iter().flatten();
        let (Some(actual), Some(simplified)) = (values.next(), values.next()) else { return Err(Refused) };
        let actual = self.numeric(actual, "`homotopy`", span)?;
        let simplified = self.numeric(simplified, "`homotopy`", span)?;
        if actual.dims != simplified.dims {
            return Err(self.error("wrong-size", span, "the arguments of `homotopy` differ in size"));
        }
        let items = actual
            .items
            .iter()
            .zip(&simplified.items)
            .map(|(&actual, &simplified)| self.graph.homotopy(actual, simplified))
            .collect();
        Ok(Value::Scalars(Scalars { ty: Type::Real, dims: actual.dims, items }))
    }

    fn semi_linear_call(&mut self, args: &'a [Expr], named: &'a [NamedArg], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let names = ["x", "positiveSlope", "negativeSlope"];
        let values = self.arguments("semiLinear", &names, 3, args, named, span, ctx)?;
        let mut parts = Vec::with_capacity(3);
        for value in values.into_iter().flatten() {
            parts.push(self.numeric(value, "`semiLinear`", span)?);
        }
        self.semi_linear(&parts, ctx.in_function, span)
    }

    /// `semiLinear(x, p, n)`: `p x` where `x` is not negative, else `n x`; arrays element by element
    /// [@modelica36, sec. 3.7.4 and 12.4.6].
    ///
    /// Where `x` is zero it says nothing of slopes that are unknowns, such as what a fluid at rest carries with it. For
    /// those the specification lets tools choose, and here a term is added that joins the two slopes,
    ///
    /// ```text
    /// e^3 / (e^2 + x^2) (p - n),     e = 1e-9
    /// ```
    ///
    /// so that a point between two flows takes the mean at rest. Where `|x| > 1000 e` it is left out: there it is below
    /// rounding, but a slope that occurs in it alone would seem to be determined by it.
    fn semi_linear(&mut self, parts: &[Scalars], in_function: bool, span: Span) -> Res<Value> {
        let dims = parts.iter().map(|part| &part.dims).find(|dims| !dims.is_empty()).cloned().unwrap_or_default();
        if let Some(other) = parts.iter().find(|part| !part.dims.is_empty() && part.dims != dims) {
            let message = format!("`semiLinear` cannot join sizes {} and {}", dims_text(&dims), dims_text(&other.dims));
            return Err(self.error("wrong-size", span, message));
        }
        let zero = self.graph.number(0.0);
        let items = (0..count(&dims))
            .map(|at| {
                let item = |part: &Scalars| part.items[if part.dims.is_empty() { 0 } else { at }];
                let (x, positive, negative) = (item(&parts[0]), item(&parts[1]), item(&parts[2]));
                let condition = self.graph.greater_equal(x, zero);
                let then = self.graph.mul(positive, x);
                let otherwise = self.graph.mul(negative, x);
                let select = self.graph.select(condition, then, otherwise);
                let exact = self.graph.smooth(0, select);
                let is_known = in_function
                    || self.variability_of(positive).max(self.variability_of(negative)) < Variability::Continuous;
                if is_known { exact } else { self.joined_at_rest(exact, x, positive, negative) }
            })
            .collect();
        Ok(Value::Scalars(Scalars { ty: Type::Real, dims, items }))
    }

    /// `exact + e^3 / (e^2 + x^2) (p - n)` near rest, `exact` elsewhere, without events in between.
    fn joined_at_rest(&mut self, exact: ExprId, x: ExprId, positive: ExprId, negative: ExprId) -> ExprId {
        const REST: f64 = 1e-9;
        const NEAR_REST: f64 = 1e3 * REST;
        let (cube, square) = (self.graph.number(REST.powi(3)), self.graph.number(REST.powi(2)));
        let x_square = self.graph.mul(x, x);
        let sum = self.graph.add(square, x_square);
        let weight = self.graph.div(cube, sum);
        let (size, near, zero) =
            (self.graph.unary(Unary::Abs, x), self.graph.number(NEAR_REST), self.graph.number(0.0));
        let is_near = self.graph.less(size, near);
        let weight = self.graph.select(is_near, weight, zero);
        let weight = self.graph.no_event(weight);
        let difference = self.graph.sub(positive, negative);
        let joint = self.graph.mul(weight, difference);
        self.graph.add(exact, joint)
    }

    /// The value of an argument that must be a variable.
    pub(crate) fn variable_argument(
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
        let (Some(argument), true) = (args.first(), args.len() == 1 && named.is_empty()) else {
            return Err(self.error("wrong-arguments", span, format!("`{name}` takes one argument")));
        };
        let mut inner = argument;
        while let ExprKind::Parenthesized(next) = &inner.kind {
            inner = next;
        }
        if !matches!(inner.kind, ExprKind::Ref(_)) {
            let message = format!("the argument of `{name}` must be a variable");
            let help = "give the expression a variable of its own";
            return Err(self.error_help("not-a-variable", span, message, help));
        }
        // The variable itself is meant, also in an algorithm that has assigned it.
        let assigned = ctx.assigned.take();
        let value = self.expr(inner, ctx);
        ctx.assigned = assigned;
        value
    }

    /// `pre` of a continuous variable has a meaning in when-clauses only; what is continuous is known in the end.
    /// A clock needs time between its ticks.
    fn assert_positive(&mut self, interval: ExprId, span: Span, ctx: &Ctx) -> Res<()> {
        let message = "the interval of `sample` must be positive";
        match self.graph.as_number(interval) {
            Some(number) if number > 0.0 => Ok(()),
            Some(number) => Err(self.error("out-of-range", span, format!("{message}, not {number}"))),
            None => {
                let zero = self.graph.number(0.0);
                let condition = self.graph.less(zero, interval);
                let component = self.component_path(ctx);
                let message = message.to_owned();
                self.out.assertions.push(Assertion { condition, message, is_warning: false, component, span });
                Ok(())
            }
        }
    }

    fn note_pre(&mut self, item: ExprId, in_when: bool, span: Span) {
        if let Node::Var { var, order: 0 } = self.graph.node(item)
            && !in_when
            && self.variables[var.index()].kind == VariableKind::Continuous
        {
            self.pre_uses.push((var, span));
        }
    }

    /// The left limit of a variable.
    pub(crate) fn pre_of(&mut self, item: ExprId, span: Span) -> Res<ExprId> {
        match self.graph.node(item) {
            Node::Number(_) => Ok(item),
            Node::Var { var, order: 0 } => match self.variables[var.index()].kind {
                VariableKind::Constant | VariableKind::Parameter => Ok(item),
                _ => Ok(self.graph.pre(var)),
            },
            _ => Err(self.error("not-a-variable", span, "`pre` needs a variable")),
        }
    }

    /// A function of one number, element by element.
    pub(crate) fn unary_call(&mut self, name: &str, op: Unary, value: Value, span: Span) -> Res<Value> {
        let mut scalars = self.numeric(value, &format!("`{name}`"), span)?;
        let is_integer = scalars.ty == Type::Integer;
        if !matches!(name, "abs" | "integer") {
            self.as_reals(&mut scalars, span)?;
        }
        scalars.ty = match name {
            "abs" => scalars.ty,
            "sign" | "integer" => Type::Integer,
            "ceil" | "floor" => Type::Real,
            _ => Type::Real,
        };
        for item in &mut scalars.items {
            *item = match (name, is_integer) {
                ("abs", true) => self.integer_magnitude(*item, span)?,
                ("integer", true) => *item,
                _ => self.graph.unary(op, *item),
            };
        }
        self.check_integers(&mut scalars, span)?;
        Ok(Value::Scalars(scalars))
    }

    /// A function of two numbers, element by element.
    pub(crate) fn binary_call(&mut self, name: &str, left: Value, right: Value, span: Span) -> Res<Value> {
        let what = format!("`{name}`");
        let left = self.numeric(left, &what, span)?;
        let right = self.numeric(right, &what, span)?;
        let op = match name {
            "atan2" => Op::Atan2,
            "div" => Op::Quotient,
            "mod" => Op::Modulo,
            _ => Op::Remainder,
        };
        let is_integer = left.ty == Type::Integer && right.ty == Type::Integer && name != "atan2";
        let ty = if is_integer { Type::Integer } else { Type::Real };
        let dims = if left.dims.is_empty() { right.dims.clone() } else { left.dims.clone() };
        if !left.dims.is_empty() && !right.dims.is_empty() && left.dims != right.dims {
            let message = format!("{what} cannot join sizes {} and {}", dims_text(&left.dims), dims_text(&right.dims));
            return Err(self.error("wrong-size", span, message));
        }
        if name != "atan2" && right.items.iter().any(|&item| self.graph.as_number(item) == Some(0.0)) {
            let message = format!("{what} divides by zero: it has no value");
            return Err(self.error_help("evaluation", span, message, "the second argument must not be 0"));
        }
        let mut items = SmallVec::with_capacity(count(&dims));
        for at in 0..count(&dims) {
            let left = left.items[if left.dims.is_empty() { 0 } else { at }];
            let right = right.items[if right.dims.is_empty() { 0 } else { at }];
            items.push(match ty {
                Type::Integer => self.integer_binary(op, left, right, span)?,
                _ => self.graph.binary(op, left, right),
            });
        }
        Ok(Value::Scalars(Scalars { ty, dims, items }))
    }

    fn min_max_call(
        &mut self,
        name: &str,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let values = self.arguments(name, &["x", "y"], 1, args, named, span, ctx)?;
        let mut values = values.into_iter();
        let (first, second) = (values.next().flatten().ok_or(Refused)?, values.next().flatten());
        if let Some(second) = second {
            return self.min_max(name == "min", first, second, span);
        }
        let scalars = self.scalars(first, name, span)?;
        let ty = scalars.ty.clone();
        let mut items = scalars.items.iter();
        let Some(&start) = items.next() else {
            // The smallest of nothing is as large as can be [@modelica36, sec. 10.3.4].
            let is_min = name == "min";
            let (smallest, largest) = bounds(&ty);
            let number = match ty {
                Type::Integer => self.graph.whole_number(if is_min { i64::MAX } else { i64::MIN }),
                _ => self.graph.number(if is_min { largest } else { smallest }),
            };
            return Ok(Value::scalar(ty, number));
        };
        let mut result = start;
        for &item in items {
            let op = if name == "min" { Op::Min } else { Op::Max };
            result = match ty {
                Type::Integer => self.integer_binary(op, result, item, span)?,
                _ => self.graph.binary(op, result, item),
            };
        }
        Ok(Value::scalar(ty, result))
    }

    /// `der(expression)`, by the chain rule.
    fn der_call(&mut self, args: &'a [Expr], named: &'a [NamedArg], span: Span, ctx: &mut Ctx) -> Res<Value> {
        if ctx.in_function {
            return Err(self.error("event-in-function", span, "`der` cannot be used in a function"));
        }
        let values = self.arguments("der", &["x"], 1, args, named, span, ctx)?;
        let value = values.into_iter().flatten().next().ok_or(Refused)?;
        let mut scalars = self.numeric(value, "`der`", span)?;
        if scalars.ty == Type::Integer && !matches!(args.first().map(|arg| &arg.kind), Some(ExprKind::Integer(_))) {
            return Err(self.error("wrong-type", span, "`der` needs a Real, not an Integer"));
        }
        for item in &mut scalars.items {
            *item = match self.graph.node(*item) {
                Node::Var { var, order } => match self.variables[var.index()].kind {
                    VariableKind::Continuous | VariableKind::Input => self.graph.der(var, order + 1),
                    VariableKind::Constant | VariableKind::Parameter => self.graph.number(0.0),
                    VariableKind::Discrete => {
                        let message =
                            format!("`{}` is discrete and has no derivative", self.variables[var.index()].name);
                        return Err(self.error("variability", span, message));
                    }
                },
                _ => {
                    let variables = &self.variables;
                    self.graph.total_time_derivative(*item, &|var: VarId| variables[var.index()].kind)
                }
            };
        }
        scalars.ty = Type::Real;
        Ok(Value::Scalars(scalars))
    }

    /// Functions that build arrays and take them apart.
    fn array_call(
        &mut self,
        name: &str,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        if let Some(arg) = named.first() {
            let message = format!("`{name}` has no argument `{}`", arg.name.name);
            return Err(self.error("wrong-arguments", arg.name.span, message));
        }
        if name == "size" || name == "ndims" {
            return self.size_call(name, args, span, ctx);
        }
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(match self.expr(arg, ctx)? {
                Value::Tuple(mut items) if !items.is_empty() => items.swap_remove(0),
                other => other,
            });
        }
        let expected = match name {
            "identity" | "diagonal" | "scalar" | "vector" | "matrix" | "transpose" | "symmetric" | "skew" | "sum"
            | "product" => Some(1),
            "outerProduct" | "cross" | "promote" => Some(2),
            "linspace" => Some(3),
            _ => None,
        };
        if let Some(expected) = expected
            && values.len() != expected
        {
            let message = format!("`{name}` takes {expected} arguments, not {}", values.len());
            return Err(self.error("wrong-arguments", span, message));
        }
        match name {
            "array" => self.array_of(values, span),
            "sum" | "product" => {
                let scalars = self.numeric(values.swap_remove(0), &format!("`{name}`"), span)?;
                let is_sum = name == "sum";
                let mut result = None;
                for &item in &scalars.items {
                    result = Some(match result {
                        None => item,
                        Some(so_far) if scalars.ty == Type::Integer => {
                            self.integer_binary(if is_sum { Op::Add } else { Op::Mul }, so_far, item, span)?
                        }
                        Some(so_far) if is_sum => self.graph.add(so_far, item),
                        Some(so_far) => self.graph.mul(so_far, item),
                    });
                }
                let item = result.unwrap_or_else(|| self.graph.number(if is_sum { 0.0 } else { 1.0 }));
                Ok(Value::scalar(scalars.ty, item))
            }
            "transpose" => self.transpose(&values[0], span),
            "zeros" | "ones" | "fill" | "identity" | "linspace" => self.filled(name, values, span),
            "diagonal" | "symmetric" | "outerProduct" | "cross" | "skew" => self.matrix_call(name, values, span),
            "scalar" | "vector" | "matrix" => self.reshaped(name, values.swap_remove(0), span),
            "cat" => {
                if values.len() < 2 {
                    return Err(self.error("wrong-arguments", span, "`cat` needs a dimension and arrays"));
                }
                let along = self.known_size(values.remove(0), span)?;
                if along == 0 {
                    return Err(self.error("wrong-arguments", span, "dimensions count from 1"));
                }
                self.cat(along - 1, values, span)
            }
            "promote" => {
                let rank = self.known_size(values.swap_remove(1), span)?;
                Ok(super::array::promote(values.swap_remove(0), rank))
            }
            _ => Err(self.error("unknown-function", span, format!("there is no function `{name}`"))),
        }
    }

    /// Arrays of the same or evenly spaced numbers.
    fn filled(&mut self, name: &str, mut values: Vec<Value>, span: Span) -> Res<Value> {
        match name {
            "zeros" | "ones" => {
                let number = self.graph.number(if name == "zeros" { 0.0 } else { 1.0 });
                let mut dims = Dims::new();
                for value in values {
                    dims.push(self.known_size(value, span)?);
                }
                if dims.is_empty() {
                    return Err(self.error("wrong-arguments", span, format!("`{name}` needs a size")));
                }
                self.fill(&Value::scalar(Type::Integer, number), &dims, span)
            }
            "fill" => {
                let mut values = values.into_iter();
                let Some(value) = values.next() else {
                    return Err(self.error("wrong-arguments", span, "`fill` needs a value and sizes"));
                };
                let mut dims = Dims::new();
                for value in values {
                    dims.push(self.known_size(value, span)?);
                }
                self.fill(&value, &dims, span)
            }
            "identity" => {
                let n = self.known_size(values.swap_remove(0), span)?;
                self.identity(n, span)
            }
            "linspace" => {
                let n = self.known_size(values.swap_remove(2), span)?;
                let last = self.numeric(values.swap_remove(1), "`linspace`", span)?;
                let first = self.numeric(values.swap_remove(0), "`linspace`", span)?;
                let (first, last) = (self.single(&first, span)?, self.single(&last, span)?);
                if n < 2 {
                    return Err(self.error("wrong-arguments", span, "`linspace` needs at least two points"));
                }
                self.reserve(&[n], span)?;
                let difference = self.graph.sub(last, first);
                let mut items = SmallVec::with_capacity(n);
                for at in 0..n {
                    let numerator = self.graph.number(at as f64);
                    let denominator = self.graph.number((n - 1) as f64);
                    let scaled = self.graph.mul(difference, numerator);
                    let step = self.graph.div(scaled, denominator);
                    items.push(self.graph.add(first, step));
                }
                Ok(Value::Scalars(Scalars { ty: Type::Real, dims: Dims::from_slice(&[n]), items }))
            }
            _ => Err(Refused),
        }
    }

    /// Matrices and vectors made of vectors.
    fn matrix_call(&mut self, name: &str, mut values: Vec<Value>, span: Span) -> Res<Value> {
        match name {
            "diagonal" => {
                let vector = self.numeric(values.swap_remove(0), "`diagonal`", span)?;
                self.need_rank(&vector, 1, name, span)?;
                self.diagonal(&vector, span)
            }
            "symmetric" => {
                let mut matrix = self.numeric(values.swap_remove(0), "`symmetric`", span)?;
                self.need_rank(&matrix, 2, name, span)?;
                let n = matrix.dims[0];
                if matrix.dims[1] != n {
                    return Err(self.error("wrong-size", span, "`symmetric` needs a square matrix"));
                }
                for row in 0..n {
                    for column in 0..row {
                        matrix.items[row * n + column] = matrix.items[column * n + row];
                    }
                }
                Ok(Value::Scalars(matrix))
            }
            "outerProduct" => {
                let right = self.numeric(values.swap_remove(1), "`outerProduct`", span)?;
                let left = self.numeric(values.swap_remove(0), "`outerProduct`", span)?;
                self.need_rank(&left, 1, name, span)?;
                self.need_rank(&right, 1, name, span)?;
                self.reserve(&[left.items.len(), right.items.len()], span)?;
                let mut items = SmallVec::new();
                for &a in &left.items {
                    for &b in &right.items {
                        items.push(self.graph.mul(a, b));
                    }
                }
                let dims = Dims::from_slice(&[left.items.len(), right.items.len()]);
                Ok(Value::Scalars(Scalars { ty: Type::Real, dims, items }))
            }
            "cross" => {
                let right = self.numeric(values.swap_remove(1), "`cross`", span)?;
                let left = self.numeric(values.swap_remove(0), "`cross`", span)?;
                if left.dims.as_slice() != [3] || right.dims.as_slice() != [3] {
                    return Err(self.error("wrong-size", span, "`cross` needs two vectors of size 3"));
                }
                let items = self.cross(&left.items, &right.items);
                Ok(Value::Scalars(Scalars { ty: Type::Real, dims: Dims::from_slice(&[3]), items }))
            }
            "skew" => {
                let vector = self.numeric(values.swap_remove(0), "`skew`", span)?;
                if vector.dims.as_slice() != [3] {
                    return Err(self.error("wrong-size", span, "`skew` needs a vector of size 3"));
                }
                let items = self.skew(&vector.items);
                Ok(Value::Scalars(Scalars { ty: Type::Real, dims: Dims::from_slice(&[3, 3]), items }))
            }
            _ => Err(Refused),
        }
    }

    /// The same elements as a scalar, vector or matrix.
    fn reshaped(&mut self, name: &str, value: Value, span: Span) -> Res<Value> {
        let dims: Dims = value.dims().iter().copied().collect();
        let new: Option<Dims> = match name {
            "scalar" => (count(&dims) == 1).then(Dims::new),
            "vector" => {
                let large = dims.iter().filter(|&&dim| dim > 1).count();
                (large <= 1).then(|| Dims::from_slice(&[count(&dims)]))
            }
            _ => match dims.len() {
                0 => Some(Dims::from_slice(&[1, 1])),
                1 => Some(Dims::from_slice(&[dims[0], 1])),
                _ => dims[2..].iter().all(|&dim| dim == 1).then(|| Dims::from_slice(&dims[..2])),
            },
        };
        match new {
            Some(new) => Ok(reshape(value, &new)),
            None => {
                let message = format!("`{name}` cannot be made of size {}", dims_text(&dims));
                Err(self.error("wrong-size", span, message))
            }
        }
    }

    fn need_rank(&mut self, scalars: &Scalars, rank: usize, name: &str, span: Span) -> Res<()> {
        if scalars.dims.len() == rank {
            return Ok(());
        }
        let message = format!("`{name}` needs {rank} dimensions, not size {}", dims_text(&scalars.dims));
        Err(self.error("wrong-size", span, message))
    }

    /// `size` and `ndims`; of a component without its value, so that models work too.
    fn size_call(&mut self, name: &str, args: &'a [Expr], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let Some(array) = args.first().filter(|_| args.len() <= 2) else {
            return Err(self.error("wrong-arguments", span, format!("`{name}` needs an array")));
        };
        let dims = match self.component_sizes(array, ctx)? {
            Some(dims) => dims,
            None => {
                let was = std::mem::replace(&mut ctx.is_structural, false);
                let value = self.expr(array, ctx);
                ctx.is_structural = was;
                value?.dims().iter().copied().collect()
            }
        };
        if name == "ndims" {
            return Ok(Value::scalar(Type::Integer, self.graph.number(dims.len() as f64)));
        }
        let Some(which) = args.get(1) else {
            let items = dims.iter().map(|&dim| self.graph.number(dim as f64)).collect();
            return Ok(Value::Scalars(Scalars { ty: Type::Integer, dims: Dims::from_slice(&[dims.len()]), items }));
        };
        let which = self.structural_scalar(which, ctx, "a dimension")?;
        let at = which.value as usize;
        if which.ty != Type::Integer || at < 1 || at > dims.len() {
            let message = format!("there is no dimension {} in size {}", which.value, dims_text(&dims));
            return Err(self.error("wrong-size", span, message));
        }
        Ok(Value::scalar(Type::Integer, self.graph.number(dims[at - 1] as f64)))
    }
}

/// The smallest and the largest value of a type.
pub(crate) fn bounds(ty: &Type) -> (f64, f64) {
    match ty {
        Type::Real | Type::String => (f64::MIN, f64::MAX),
        Type::Integer => (-LARGEST_INTEGER, LARGEST_INTEGER),
        Type::Boolean => (0.0, 1.0),
        Type::Enumeration(enumeration) => (1.0, enumeration.literals.len() as f64),
    }
}

/// The same elements in another shape.
fn reshape(value: Value, dims: &[usize]) -> Value {
    match value {
        Value::Scalars(mut scalars) => {
            scalars.dims = dims.iter().copied().collect();
            Value::Scalars(scalars)
        }
        Value::Texts { items, .. } => Value::Texts { dims: dims.iter().copied().collect(), items },
        Value::Record(mut record) => {
            let n = record.dims.len();
            for field in &mut record.fields {
                let inner: Dims = dims.iter().copied().chain(field.value.dims()[n..].iter().copied()).collect();
                let value = std::mem::replace(&mut field.value, Value::Tuple(Vec::new()));
                field.value = reshape(value, &inner);
            }
            record.dims = dims.iter().copied().collect();
            Value::Record(record)
        }
        other => other,
    }
}
