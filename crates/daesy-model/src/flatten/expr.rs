//! Expressions to values: names resolved, arrays expanded, everything scalar in the graph.

use std::sync::Arc;

use daesy_graph::flat::{Assertion, ValueType};
use daesy_graph::function::Statement as Step;
use daesy_graph::{BinaryOp, ExprId, Node, Span, UnaryOp, VariableKind};
use smallvec::SmallVec;

use super::budget::PASS;
use super::value::{Dims, Scalars, Text, Type, Value, count, offsets};
use super::{ClassId, Flattener, NodeId, Res};
use crate::name::Name;
use crate::syntax::{BinaryOp as Operator, Expr, ExprBranch, ExprKind, Iterator, Subscript};

/// How freely a value changes. The order matters: what changes less comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Variability {
    Constant,
    Parameter,
    Discrete,
    Continuous,
}

impl Variability {
    /// As it is called in findings.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Parameter => "parameter",
            Self::Discrete => "discrete",
            Self::Continuous => "continuous",
        }
    }
}

/// How freely an expression changes where it is written, and inside of `noEvent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes {
    as_written: Variability,
    inside_no_event: Variability,
}

impl Changes {
    const fn of(variability: Variability) -> Self {
        Self { as_written: variability, inside_no_event: variability }
    }

    fn max(self, other: Self) -> Self {
        Self {
            as_written: self.as_written.max(other.as_written),
            inside_no_event: self.inside_no_event.max(other.inside_no_event),
        }
    }

    /// Of something that changes at events only, where it may make events.
    fn at_events(self) -> Self {
        Self { as_written: self.as_written.min(Variability::Discrete), ..self }
    }
}

/// Finds how far an iterator without range runs.
pub(crate) type SizeByUse<'f, F> = dyn Fn(&mut F, Name, &mut Ctx) -> Res<Option<UsedRange>> + 'f;

/// What an iterator without range runs through.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct UsedRange {
    /// `Integer`, `Boolean` or an enumeration.
    pub ty: Type,
    /// How many values.
    pub n: usize,
}

/// A name that means a value: an iterator, or a variable of a function.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub name: Name,
    pub value: Value,
    /// Iterators and inputs cannot be assigned.
    pub is_assignable: bool,
    /// A value has been given to it.
    pub is_set: bool,
}

/// Where an expression is read.
#[derive(Clone, Debug)]
pub(crate) struct Ctx {
    /// The class it is written in.
    pub scope: ClassId,
    /// The instance of that class.
    pub instance: NodeId,
    /// Iterators and variables of functions, innermost last.
    pub locals: Vec<Local>,
    /// What `end` stands for, innermost last.
    pub ends: Vec<usize>,
    /// Parameters are replaced by their values.
    pub is_structural: bool,
    /// Inside a function.
    pub in_function: bool,
    /// Inside a function that is being made into a program: values may hold its locals.
    pub in_program: bool,
    /// In a when-clause.
    pub in_when: bool,
    /// In a connect equation.
    pub in_connect: bool,
    /// How many blocks of statements are around the one at hand.
    pub n_blocks: usize,
    /// Variables assigned by the algorithm at hand, with their values so far.
    pub assigned: Option<Box<super::algorithm::Assigned>>,
}

impl Ctx {
    /// In a class and its instance.
    pub(crate) fn new(scope: ClassId, instance: NodeId) -> Self {
        Self {
            scope,
            instance,
            locals: Vec::new(),
            ends: Vec::new(),
            is_structural: false,
            in_function: false,
            in_program: false,
            in_when: false,
            in_connect: false,
            n_blocks: 0,
            assigned: None,
        }
    }

    /// The same, with parameters replaced by their values.
    pub(crate) fn structural(scope: ClassId, instance: NodeId) -> Self {
        Self { is_structural: true, ..Self::new(scope, instance) }
    }
}

/// Which elements of one dimension a subscript means.
#[derive(Clone, Debug)]
pub(crate) enum Chosen {
    One(usize),
    Many(Vec<usize>),
    /// Known only when the model runs; counts from 1.
    Dynamic(ExprId),
}

impl<'a> Flattener<'a> {
    /// The value of an expression.
    pub(crate) fn expr(&mut self, expr: &'a Expr, ctx: &mut Ctx) -> Res<Value> {
        let span = expr.span;
        self.spend(1, span)?;
        match &expr.kind {
            ExprKind::Real(value) => Ok(Value::scalar(Type::Real, self.graph.number(*value))),
            ExprKind::Integer(value) => Ok(Value::scalar(Type::Integer, self.graph.whole_number(*value))),
            ExprKind::Boolean(value) => Ok(Value::scalar(Type::Boolean, self.graph.truth(*value))),
            ExprKind::String(text) => {
                Ok(Value::Texts { dims: Dims::new(), items: vec![Text { text: text.clone(), is_known: true }] })
            }
            ExprKind::Parenthesized(inner) => self.expr(inner, ctx),
            ExprKind::Ref(reference) => self.reference(reference, ctx),
            ExprKind::Unary(op, inner) => {
                let value = self.expr(inner, ctx)?;
                self.unary_value(*op, value, span)
            }
            ExprKind::Binary(..) => {
                // Long chains such as `a + b + c + ..` lean to the left: go down in a loop.
                let mut spine = Vec::new();
                let mut at = expr;
                while let ExprKind::Binary(op, left, right) = &at.kind {
                    spine.push((*op, right, at.span));
                    at = left;
                }
                let mut value = self.expr(at, ctx)?;
                while let Some((op, right, span)) = spine.pop() {
                    let right = self.guarded(op, &value, right, ctx)?;
                    value = self.binary_value(op, value, right, span)?;
                }
                Ok(value)
            }
            ExprKind::If { branches, otherwise } => self.if_expression(branches, otherwise, span, ctx),
            ExprKind::Call { function, args, named } => self.call(function, args, named, span, ctx),
            ExprKind::Comprehension { function, body, iterators } => {
                self.comprehension(function.as_ref(), body, iterators, span, ctx)
            }
            ExprKind::Array(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    values.push(self.expr(item, ctx)?);
                }
                self.array_of(values, span)
            }
            ExprKind::Matrix(rows) => {
                let mut values = Vec::with_capacity(rows.len());
                for row in rows {
                    let mut columns = Vec::with_capacity(row.len());
                    for item in row {
                        columns.push(self.expr(item, ctx)?);
                    }
                    values.push(columns);
                }
                self.matrix_of(values, span)
            }
            ExprKind::Range { start, step, stop } => {
                let items = self.range_numbers(start, step.as_deref(), stop, ctx)?;
                Ok(Value::Scalars(items))
            }
            ExprKind::Tuple(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items.iter().flatten() {
                    values.push(self.expr(item, ctx)?);
                }
                if values.len() == 1 && items.len() == 1 {
                    return Ok(values.swap_remove(0));
                }
                Ok(Value::Tuple(values))
            }
            ExprKind::PartialFunction { function, named } => self.partial_function(function, named, ctx),
            ExprKind::Subscripted { base, subscripts } => {
                let value = super::function::first_result(self.expr(base, ctx)?);
                let dims: Dims = value.dims().iter().copied().collect();
                let chosen = self.subscripts(subscripts, &dims, span, ctx)?;
                self.index_value(&value, &chosen, ctx, span)
            }
            ExprKind::End => match ctx.ends.last() {
                Some(&end) => Ok(Value::scalar(Type::Integer, self.graph.number(end as f64))),
                None => Err(self.error("misplaced-end", span, "`end` can be used in array subscripts only")),
            },
            ExprKind::Error => Err(self.error("syntax", span, "this expression could not be read")),
        }
    }

    /// The right side of an operator: that of `and` and `or` matters only where the left side does not decide.
    fn guarded(&mut self, op: Operator, left: &Value, right: &'a Expr, ctx: &mut Ctx) -> Res<Value> {
        let guard = match (op, left) {
            (Operator::And, Value::Scalars(scalars)) if scalars.dims.is_empty() => Some(scalars.items[0]),
            (Operator::Or, Value::Scalars(scalars)) if scalars.dims.is_empty() => {
                Some(self.graph.not(scalars.items[0]))
            }
            _ => None,
        };
        match guard {
            Some(guard) => self.under(guard, |this| this.expr(right, ctx)),
            None => self.expr(right, ctx),
        }
    }

    /// Does something that happens under a condition only: assertions of functions called there hold under it.
    pub(crate) fn under<T>(&mut self, condition: ExprId, work: impl FnOnce(&mut Self) -> T) -> T {
        let n_path = self.functions.path.len();
        self.functions.path.push(condition);
        let result = work(self);
        self.functions.path.truncate(n_path);
        result
    }

    /// The truth of a condition that the layout of the model has settled: a number, or an expression of parameters that
    /// sizes depend on or that are annotated with `Evaluate = true`. Branches that cannot be taken are not looked at.
    pub(crate) fn settled(&mut self, condition: ExprId, span: Span) -> Option<f64> {
        if let Some(number) = self.graph.as_number(condition) {
            return Some(number);
        }
        if self.variability_of(condition) > Variability::Parameter {
            return None;
        }
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, &[condition], &mut leaves);
        self.reach = reach;
        let is_settled = leaves.iter().all(|leaf| match leaf {
            daesy_graph::traverse::Leaf::Var { var, .. } => {
                let id = self.var_prims[var.index()];
                let prim = self.prim(id);
                let is_meant = prim.is_structural || prim.elem.is_evaluated();
                is_meant && !matches!(prim.value, Some(Err(_))) && self.binding_layer(id).is_some()
            }
            daesy_graph::traverse::Leaf::Time => false,
        });
        is_settled.then(|| self.known_number(condition, span).ok()).flatten()
    }

    /// `if .. then .. elseif .. else ..`
    fn if_expression(
        &mut self,
        branches: &'a [ExprBranch],
        otherwise: &'a Expr,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let mut conditions: Vec<(ExprId, Res<Value>, Span)> = Vec::new();
        let n_path = self.functions.path.len();
        let mut last: Option<&'a Expr> = None;
        for branch in branches {
            let condition = match self.condition(&branch.condition, ctx) {
                Ok(condition) => condition,
                Err(refused) => {
                    self.functions.path.truncate(n_path);
                    return Err(refused);
                }
            };
            match self.settled(condition, branch.condition.span) {
                Some(known) if known != 0.0 => {
                    last = Some(&branch.value);
                    break;
                }
                Some(_) => {}
                None => {
                    let value = self.under(condition, |this| this.expr(&branch.value, ctx));
                    let negated = self.graph.not(condition);
                    self.functions.path.push(negated);
                    conditions.push((condition, value, branch.condition.span));
                }
            }
        }
        let result = self.expr(last.unwrap_or(otherwise), ctx);
        self.functions.path.truncate(n_path);
        let mut result = result?;
        while let Some((condition, value, condition_span)) = conditions.pop() {
            let value = value?;
            result = match self.select_value(condition, &value, &result) {
                Some(value) => value,
                None if value.dims() != result.dims()
                    && self.variability_of(condition) <= Variability::Parameter
                    && !ctx.in_function =>
                {
                    // Branches of different sizes are right when the condition is known [@modelica36, sec. 3.6.5].
                    let known = self.known_number(condition, condition_span)?;
                    if known != 0.0 { value } else { result }
                }
                None => {
                    let message =
                        format!("the branches of `if` differ: {} and {}", value.describe(), result.describe());
                    return Err(self.error("wrong-type", span, message));
                }
            };
        }
        Ok(result)
    }

    /// The only item of a scalar.
    pub(crate) fn single(&mut self, scalars: &Scalars, span: Span) -> Res<ExprId> {
        match scalars.items.as_slice() {
            [item] if scalars.dims.is_empty() => Ok(*item),
            _ => {
                let message = format!("a scalar is needed here, not size {}", super::value::dims_text(&scalars.dims));
                Err(self.error("wrong-size", span, message))
            }
        }
    }

    /// A scalar expression's graph node and type.
    pub(crate) fn scalar_expr(&mut self, expr: &'a Expr, ctx: &mut Ctx) -> Res<Scalars> {
        let value = self.expr(expr, ctx)?;
        let scalars = self.scalars(value, "this place", expr.span)?;
        self.single(&scalars, expr.span)?;
        Ok(scalars)
    }

    /// A condition.
    pub(crate) fn condition(&mut self, expr: &'a Expr, ctx: &mut Ctx) -> Res<ExprId> {
        let value = self.expr(expr, ctx)?;
        let scalars = self.boolean(value, "a condition", expr.span)?;
        self.single(&scalars, expr.span)
    }

    /// `{a, b, c}`
    pub(crate) fn array_of(&mut self, values: Vec<Value>, span: Span) -> Res<Value> {
        let n = values.len();
        if n == 0 {
            return Err(self.error_help("empty-array", span, "`{}` has no type", "write `fill(0.0, 0)`"));
        }
        let described: Vec<String> = {
            let mut described: Vec<String> = values.iter().map(Value::describe).collect();
            described.dedup();
            described
        };
        let first = values.into_iter().map(|value| match value {
            Value::Tuple(mut items) if !items.is_empty() => items.swap_remove(0),
            other => other,
        });
        match Value::stack(first.collect(), &[n]) {
            Some(value) => Ok(value),
            None => {
                let message = format!("the elements of an array differ: {}", described.join(", "));
                Err(self.error("wrong-type", span, message))
            }
        }
    }

    /// The numbers `start : step : stop`.
    pub(crate) fn range_numbers(
        &mut self,
        start: &'a Expr,
        step: Option<&'a Expr>,
        stop: &'a Expr,
        ctx: &mut Ctx,
    ) -> Res<Scalars> {
        let first = self.structural_scalar(start, ctx, "the start of a range")?;
        let last = self.structural_scalar(stop, ctx, "the end of a range")?;
        let step = match step {
            Some(step) => Some(self.structural_scalar(step, ctx, "the step of a range")?),
            None => None,
        };
        let span = start.span.to(stop.span);
        let fits = first.ty.fits(&last.ty) || last.ty.fits(&first.ty);
        if !fits || first.ty == Type::String {
            let message = format!("a range cannot go from {} to {}", first.ty.word(), last.ty.word());
            return Err(self.error("wrong-type", span, message));
        }
        let (from, to) = (first.value, last.value);
        let by = step.as_ref().map_or(1.0, |step| step.value);
        if by == 0.0 {
            return Err(self.error("zero-step", span, "the step of a range is zero"));
        }
        let ty = if first.ty == Type::Real || last.ty == Type::Real || step.is_some_and(|step| step.ty == Type::Real) {
            Type::Real
        } else {
            first.ty
        };
        let n = ((to - from) / by * (1.0 + 4.0 * f64::EPSILON) + 1e-10).floor() + 1.0;
        let n = if n.is_finite() && n > 0.0 { n as usize } else { 0 };
        self.reserve(&[n], span)?;
        let items = (0..n).map(|at| self.graph.number(from + at as f64 * by)).collect();
        Ok(Scalars { ty, dims: Dims::from_slice(&[n]), items })
    }

    /// The vector an iterator runs through.
    pub(crate) fn iterator_values(&mut self, range: &'a Expr, ctx: &mut Ctx) -> Res<Value> {
        if let ExprKind::Ref(reference) = &range.kind
            && reference.parts.iter().all(|part| part.subscripts.is_empty())
            && !ctx.locals.iter().any(|local| local.name == reference.parts[0].name.name)
            && let Some(ty) = self.index_type(reference, ctx)
        {
            let (first, n) = match &ty {
                Type::Boolean => (0, 2),
                Type::Enumeration(enumeration) => (1, enumeration.literals.len()),
                _ => (0, 0),
            };
            return Ok(self.counted(ty, first, n));
        }
        let value = self.expr(range, ctx)?;
        let dims: Dims = value.dims().iter().copied().collect();
        if dims.len() != 1 {
            let message = format!("an iterator runs through a vector, not {}", value.describe());
            return Err(self.error("wrong-size", range.span, message));
        }
        if ctx.in_program { Ok(value) } else { self.settle(value, range.span) }
    }

    /// The vector `{first, first + 1, ..}` of `n` elements.
    fn counted(&mut self, ty: Type, first: usize, n: usize) -> Value {
        let items = (first..first + n).map(|at| self.graph.number(at as f64)).collect();
        Value::Scalars(Scalars { ty, dims: Dims::from_slice(&[n]), items })
    }

    /// Replaces parameters by their values where that is possible, so that loops can be laid out.
    fn settle(&mut self, value: Value, span: Span) -> Res<Value> {
        let Value::Scalars(mut scalars) = value else { return Ok(value) };
        if scalars.ty == Type::Real {
            return Ok(Value::Scalars(scalars));
        }
        for item in &mut scalars.items {
            if self.graph.as_number(*item).is_none() && self.variability_of(*item) <= Variability::Parameter {
                *item = if scalars.ty == Type::Integer {
                    let known = self.known_integer(*item, span)?;
                    self.graph.whole_number(known)
                } else {
                    let known = self.known_number(*item, span)?;
                    self.graph.number(known)
                };
            }
        }
        Ok(Value::Scalars(scalars))
    }

    /// Runs `body` for every combination of the iterators' values, the last iterator fastest.
    pub(crate) fn for_each(
        &mut self,
        iterators: &'a [Iterator],
        fallback: &SizeByUse<'_, Self>,
        ctx: &mut Ctx,
        body: &mut dyn FnMut(&mut Self, &mut Ctx) -> Res<()>,
    ) -> Res<Vec<usize>> {
        self.for_each_of(&iterators.iter().collect::<Vec<_>>(), fallback, ctx, body)
    }

    fn for_each_of(
        &mut self,
        iterators: &[&'a Iterator],
        fallback: &SizeByUse<'_, Self>,
        ctx: &mut Ctx,
        body: &mut dyn FnMut(&mut Self, &mut Ctx) -> Res<()>,
    ) -> Res<Vec<usize>> {
        let Some((first, rest)) = iterators.split_first() else {
            body(self, ctx)?;
            return Ok(Vec::new());
        };
        let values = match &first.range {
            Some(range) => self.iterator_values(range, ctx)?,
            None => {
                let Some(range) = fallback(self, first.name.name, ctx)? else {
                    let message = format!("the range of `{}` does not follow from its use", first.name.name);
                    return Err(self.error_help("iterator-range", first.name.span, message, "write `in 1:n`"));
                };
                let from = usize::from(range.ty != Type::Boolean);
                self.counted(range.ty, from, range.n)
            }
        };
        let n = values.dims().first().copied().unwrap_or(0);
        let mut dims = vec![n];
        let n_locals = ctx.locals.len();
        let mut failed = false;
        let mut inner = None;
        for at in 0..n {
            self.spend(PASS, first.name.span)?;
            let value = values.pick(&[at], 1, &[]);
            ctx.locals.push(Local { name: first.name.name, value, is_assignable: false, is_set: true });
            let result = self.for_each_of(rest, fallback, ctx, body);
            ctx.locals.truncate(n_locals);
            match result {
                Ok(dims) => {
                    inner.get_or_insert(dims);
                }
                Err(_) => {
                    failed = true;
                    if self.n_errors > 50 {
                        break;
                    }
                }
            }
        }
        if failed {
            return Err(super::Refused);
        }
        dims.extend(inner.unwrap_or_else(|| vec![0; rest.len()]));
        Ok(dims)
    }

    fn comprehension(
        &mut self,
        function: Option<&'a crate::syntax::ComponentRef>,
        body: &'a Expr,
        iterators: &'a [Iterator],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let name = function.map(|function| function.parts.last().map_or("", |part| part.name.name.text()));
        let is_reduction = matches!(name, Some("sum" | "product" | "min" | "max"));
        if let Some(name) = name
            && !is_reduction
            && name != "array"
        {
            let message = format!("`{name}` cannot run through iterators");
            return Err(self.error_help("not-a-reduction", span, message, "sum, product, min, max and array can"));
        }
        let mut values = Vec::new();
        let fallback = |this: &mut Self, name: Name, ctx: &mut Ctx| this.size_by_use_expr(body, name, ctx);
        // {f(i, j) for i in u, j in v} is {{f(i, j) for i in u} for j in v}: the last iterator is the first dimension
        // [@modelica36, sec. 10.4.1.2].
        let mut iterators: Vec<&'a Iterator> = iterators.iter().collect();
        if !is_reduction {
            iterators.reverse();
        }
        let dims = self.for_each_of(&iterators, &fallback, ctx, &mut |this, ctx| {
            let value = this.expr(body, ctx)?;
            values.push(value);
            Ok(())
        })?;
        if !is_reduction {
            if count(&dims) == 0 {
                let items = SmallVec::new();
                return Ok(Value::Scalars(Scalars { ty: Type::Real, dims: dims.into_iter().collect(), items }));
            }
            let described = values.first().map(Value::describe).unwrap_or_default();
            return match Value::stack(values, &dims) {
                Some(value) => Ok(value),
                None => Err(self.error("wrong-type", span, format!("elements of the array differ from {described}"))),
            };
        }
        let name = name.unwrap_or_default();
        if values.is_empty() {
            let number = match name {
                "sum" => 0.0,
                "product" => 1.0,
                "min" => f64::MAX,
                _ => f64::MIN,
            };
            return Ok(Value::scalar(Type::Real, self.graph.number(number)));
        }
        let mut values = values.into_iter();
        let mut result = values.next().unwrap_or_else(|| Value::Tuple(Vec::new()));
        for value in values {
            result = match name {
                "sum" => self.binary_value(crate::syntax::BinaryOp::Add, result, value, span)?,
                "product" => self.binary_value(crate::syntax::BinaryOp::Mul, result, value, span)?,
                _ => self.min_max(name == "min", result, value, span)?,
            };
        }
        Ok(result)
    }

    /// Which elements of an array with `dims` the subscripts mean; missing ones mean all.
    pub(crate) fn subscripts(
        &mut self,
        subscripts: &'a [Subscript],
        dims: &[usize],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<SmallVec<[Chosen; 2]>> {
        if subscripts.len() > dims.len() {
            let message = format!("{} subscripts on something with {} dimensions", subscripts.len(), dims.len());
            return Err(self.error("wrong-rank", span, message));
        }
        let mut chosen = SmallVec::new();
        for (at, &dim) in dims.iter().enumerate() {
            chosen.push(match subscripts.get(at) {
                None | Some(Subscript::All(_)) => Chosen::Many((0..dim).collect()),
                Some(Subscript::Expr(expr)) => self.subscript(expr, dim, ctx)?,
            });
        }
        Ok(chosen)
    }

    fn subscript(&mut self, expr: &'a Expr, dim: usize, ctx: &mut Ctx) -> Res<Chosen> {
        ctx.ends.push(dim);
        let value = self.expr(expr, ctx);
        ctx.ends.pop();
        let scalars = self.scalars(value?, "a subscript", expr.span)?;
        if matches!(scalars.ty, Type::Real | Type::String) {
            let message = format!("a subscript is an Integer, Boolean or enumeration, not {}", scalars.ty.word());
            return Err(self.error("wrong-type", expr.span, message));
        }
        let is_boolean = scalars.ty == Type::Boolean;
        let mut positions = Vec::with_capacity(scalars.items.len());
        for &item in &scalars.items {
            let number = match self.graph.as_number(item) {
                Some(number) => number,
                None if !ctx.in_program
                    && self.variability_of(item) <= Variability::Parameter
                    && self.can_be_known(item) =>
                {
                    self.known_number(item, expr.span)?
                }
                None if scalars.dims.is_empty() => {
                    let item = if is_boolean {
                        let one = self.graph.number(1.0);
                        self.graph.add(item, one)
                    } else {
                        item
                    };
                    if !ctx.in_program {
                        self.assert_within(item, dim, expr.span, ctx);
                    }
                    return Ok(Chosen::Dynamic(item));
                }
                None => {
                    return Err(self.unsupported("vectors of subscripts that change", expr.span, "this subscript"));
                }
            };
            let number = if is_boolean { number + 1.0 } else { number };
            if number < 1.0 || number > dim as f64 {
                let message = format!("subscript {number} is outside 1..{dim}");
                return Err(self.error("out-of-bounds", expr.span, message));
            }
            positions.push(number as usize - 1);
        }
        match scalars.dims.len() {
            0 => Ok(Chosen::One(positions[0])),
            1 => Ok(Chosen::Many(positions)),
            _ => Err(self.error("wrong-rank", expr.span, "a subscript is a scalar or a vector")),
        }
    }

    /// Asserts that a subscript that changes is one of 1..dim where it is used.
    fn assert_within(&mut self, item: ExprId, dim: usize, span: Span, ctx: &Ctx) {
        self.assert_from_one(item, dim, format!("a subscript is outside 1..{dim}"), span, ctx);
    }

    /// Asserts that a number that changes is one of 1..last where it is used: under the conditions around it, and in a
    /// when-clause where that holds.
    pub(crate) fn assert_from_one(&mut self, item: ExprId, last: usize, message: String, span: Span, ctx: &Ctx) {
        let (one, last) = (self.graph.number(1.0), self.graph.number(last as f64));
        let lower = self.graph.binary(BinaryOp::GreaterEqual, item, one);
        let upper = self.graph.binary(BinaryOp::LessEqual, item, last);
        let mut condition = self.graph.and(lower, upper);
        let guards: Vec<ExprId> = self.functions.path.iter().chain(&self.functions.when).copied().collect();
        for guard in guards {
            let negated = self.graph.not(guard);
            condition = self.graph.or(negated, condition);
        }
        if self.graph.as_number(condition) == Some(1.0) {
            return;
        }
        if ctx.in_program {
            self.functions.program_assertions.push(Step::Assert { condition, message });
            return;
        }
        if self.functions.asserted.insert((condition, span)) {
            let component = self.component_path(ctx);
            self.out.assertions.push(Assertion { condition, message, is_warning: false, component, span });
        }
    }

    /// The chosen elements of a value.
    pub(crate) fn index_value(&mut self, value: &Value, chosen: &[Chosen], ctx: &Ctx, span: Span) -> Res<Value> {
        let dims: Dims = value.dims()[..chosen.len()].iter().copied().collect();
        if let Some(at) = chosen.iter().position(|chosen| matches!(chosen, Chosen::Dynamic(_))) {
            let Chosen::Dynamic(index) = chosen[at] else { return Ok(value.clone()) };
            if dims[at] == 0 {
                return Err(self.error("out-of-bounds", span, "a subscript on an array without elements"));
            }
            if ctx.in_program
                && let Some(found) = self.local_index(value, chosen, span)
            {
                return found;
            }
            let mut result = None;
            for position in (0..dims[at]).rev() {
                let mut fixed: SmallVec<[Chosen; 2]> = chosen.iter().cloned().collect();
                fixed[at] = Chosen::One(position);
                let candidate = self.index_value(value, &fixed, ctx, span)?;
                result = Some(match result {
                    None => candidate,
                    Some(otherwise) => {
                        let number = self.graph.number(position as f64 + 1.0);
                        let condition = self.graph.binary(BinaryOp::Equal, index, number);
                        self.select_value(condition, &candidate, &otherwise).unwrap_or(otherwise)
                    }
                });
            }
            return Ok(result.unwrap_or_else(|| value.clone()));
        }
        let lists: Vec<Vec<usize>> = chosen
            .iter()
            .map(|chosen| match chosen {
                Chosen::One(at) => vec![*at],
                Chosen::Many(list) => list.clone(),
                Chosen::Dynamic(_) => Vec::new(),
            })
            .collect();
        let new_dims: Dims = chosen
            .iter()
            .filter_map(|chosen| match chosen {
                Chosen::Many(list) => Some(list.len()),
                _ => None,
            })
            .collect();
        Ok(value.pick(&offsets(&dims, &lists), chosen.len(), &new_dims))
    }

    /// How freely an expression changes [@modelica36, sec. 3.8]: relations, `ceil`, `floor`, `integer` and `div` of
    /// what varies continuously change at events only, unless they are inside `noEvent`.
    pub(crate) fn variability_of(&mut self, expr: ExprId) -> Variability {
        for at in self.variability.len()..=expr.index() {
            let Some(node) = self.graph.nodes().nth(at) else { break };
            let known = |expr: ExprId| self.variability[expr.index()];
            let changes = match node {
                Node::Number(_) => Changes::of(Variability::Constant),
                Node::Var { var, order } => Changes::of(match self.variables[var.index()].kind {
                    VariableKind::Constant => Variability::Constant,
                    VariableKind::Parameter => Variability::Parameter,
                    VariableKind::Discrete if order == 0 => Variability::Discrete,
                    VariableKind::Input if self.variables[var.index()].value_type != ValueType::Real => {
                        Variability::Discrete
                    }
                    _ => Variability::Continuous,
                }),
                Node::Pre(_) | Node::Sample { .. } | Node::Initial | Node::Terminal => {
                    Changes::of(Variability::Discrete)
                }
                Node::Unary { op: UnaryOp::NoEvent, arg } => Changes::of(known(arg).inside_no_event),
                Node::Unary { op: UnaryOp::WithEvents, arg } => Changes::of(known(arg).as_written),
                Node::Unary { op: UnaryOp::Ceil | UnaryOp::Floor, arg } => known(arg).at_events(),
                Node::Unary { arg, .. } | Node::Smooth { arg, .. } => known(arg),
                Node::Binary { op, lhs, rhs } => {
                    let both = known(lhs).max(known(rhs));
                    if op.is_relation() || op == BinaryOp::Quotient { both.at_events() } else { both }
                }
                Node::Select { condition, then, otherwise } => known(condition).max(known(then)).max(known(otherwise)),
                Node::Call { function, .. } if self.marks.of_function(function).is_some() => {
                    Changes::of(Variability::Discrete)
                }
                Node::Call { args, .. } => {
                    let args = self.graph.args(args).iter().map(|&arg| known(arg).as_written);
                    Changes::of(args.max().unwrap_or(Variability::Constant))
                }
                Node::Time | Node::Local(_) | Node::LocalAt { .. } => Changes::of(Variability::Continuous),
            };
            self.variability.push(changes);
        }
        self.variability[expr.index()].as_written
    }

    /// The first text of a value, for messages.
    pub(crate) fn message_text(&mut self, expr: &'a Expr, ctx: &mut Ctx) -> Res<String> {
        match self.expr(expr, ctx)? {
            Value::Texts { items, .. } => {
                let Some(first) = items.first() else { return Ok(String::new()) };
                self.keep_bytes(first.text.len(), expr.span)?;
                Ok(first.text.to_string())
            }
            other => {
                let message = format!("a String is needed here, not {}", other.describe());
                Err(self.error("wrong-type", expr.span, message))
            }
        }
    }

    /// The type an iterator or dimension runs through, when the name is that of `Boolean` or an enumeration.
    pub(crate) fn index_type(&mut self, reference: &'a crate::syntax::ComponentRef, ctx: &Ctx) -> Option<Type> {
        let parts: SmallVec<[crate::syntax::Ident; 4]> = reference.parts.iter().map(|part| part.name).collect();
        let first = if reference.is_global {
            self.top_class(parts[0].name)
                .map(|found| found.map(|class| super::lookup::Found::Class { class, is_local: false }))
        } else {
            self.lookup(parts[0].name, ctx.scope)
        };
        let Some(Ok(super::lookup::Found::Class { mut class, .. })) = first else { return None };
        for part in &parts[1..] {
            class = self.member_class(class, part.name)?.ok()?;
        }
        let class = self.class_use(class).ok()?.class;
        match &self.class(class).core {
            super::class::Core::Boolean => Some(Type::Boolean),
            super::class::Core::Enumeration(enumeration) => Some(Type::Enumeration(Arc::clone(enumeration))),
            _ => None,
        }
    }
}
