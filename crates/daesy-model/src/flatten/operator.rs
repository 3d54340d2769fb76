//! Operators on values: scalars, arrays, matrices, texts [@modelica36, ch. 10.6].

use std::sync::Arc;

use daesy_graph::{BinaryOp as Op, ExprId, Finding, Span, UnaryOp as GraphUnary};
use smallvec::SmallVec;

use super::expr::Variability;
use super::value::{Dims, Scalars, Text, Type, Value, count, dims_text};
use super::{Flattener, Res};
use crate::syntax::{BinaryOp, UnaryOp};

/// Longer texts that are not known are not shown.
const MAX_JOINED: usize = 1000;

impl Flattener<'_> {
    /// The scalars of a value; anything else is an error that names the operator.
    pub(crate) fn scalars(&mut self, value: Value, what: &str, span: Span) -> Res<Scalars> {
        match value {
            Value::Scalars(scalars) => Ok(scalars),
            // A call used as an expression gives its first result.
            Value::Tuple(mut items) if !items.is_empty() => {
                let first = items.swap_remove(0);
                self.scalars(first, what, span)
            }
            other => {
                let message = format!("{what} cannot be applied to {}", other.describe());
                Err(self.error("wrong-type", span, message))
            }
        }
    }

    pub(crate) fn numeric(&mut self, value: Value, what: &str, span: Span) -> Res<Scalars> {
        let scalars = self.scalars(value, what, span)?;
        if scalars.ty.is_numeric() {
            return Ok(scalars);
        }
        let message = format!("{what} needs numbers, not {}", scalars.ty.word());
        Err(self.error("wrong-type", span, message))
    }

    pub(crate) fn boolean(&mut self, value: Value, what: &str, span: Span) -> Res<Scalars> {
        let scalars = self.scalars(value, what, span)?;
        if scalars.ty == Type::Boolean {
            return Ok(scalars);
        }
        let message = format!("{what} needs a Boolean, not {}", scalars.ty.word());
        Err(self.error("wrong-type", span, message))
    }

    pub(crate) fn unary_value(&mut self, op: UnaryOp, value: Value, span: Span) -> Res<Value> {
        match op {
            UnaryOp::Plus | UnaryOp::ElementPlus => Ok(Value::Scalars(self.numeric(value, "`+`", span)?)),
            UnaryOp::Minus | UnaryOp::ElementMinus => {
                if let Value::Record(_) = &value {
                    return self.record_operator("'-'", vec![value], span);
                }
                let mut scalars = self.numeric(value, "`-`", span)?;
                for item in &mut scalars.items {
                    *item = match scalars.ty {
                        Type::Integer => self.integer_negated(*item, span)?,
                        _ => self.graph.neg(*item),
                    };
                }
                Ok(Value::Scalars(scalars))
            }
            UnaryOp::Not => {
                let mut scalars = self.boolean(value, "`not`", span)?;
                for item in &mut scalars.items {
                    *item = self.graph.unary(GraphUnary::Not, *item);
                }
                Ok(Value::Scalars(scalars))
            }
        }
    }

    pub(crate) fn binary_value(&mut self, op: BinaryOp, left: Value, right: Value, span: Span) -> Res<Value> {
        if matches!(left, Value::Record(_)) || matches!(right, Value::Record(_)) {
            return self.record_operator(operator_name(op), vec![left, right], span);
        }
        match op {
            BinaryOp::Add if matches!(left, Value::Texts { .. }) => self.concatenate(left, right, span),
            BinaryOp::Add | BinaryOp::ElementAdd => {
                self.arithmetic(Op::Add, left, right, op == BinaryOp::ElementAdd, "+", span)
            }
            BinaryOp::Sub | BinaryOp::ElementSub => {
                self.arithmetic(Op::Sub, left, right, op == BinaryOp::ElementSub, "-", span)
            }
            BinaryOp::Mul => self.multiply(left, right, span),
            BinaryOp::ElementMul => self.arithmetic(Op::Mul, left, right, true, ".*", span),
            BinaryOp::Div => {
                if !right.dims().is_empty() {
                    let message = format!("`/` needs a scalar on the right, not {}", right.describe());
                    return Err(self.error_help("wrong-size", span, message, "`./` divides element by element"));
                }
                self.arithmetic(Op::Div, left, right, true, "/", span)
            }
            BinaryOp::ElementDiv => self.arithmetic(Op::Div, left, right, true, "./", span),
            BinaryOp::Pow => self.power(left, right, span),
            BinaryOp::ElementPow => self.arithmetic(Op::Pow, left, right, true, ".^", span),
            BinaryOp::Less => self.relation(Op::Less, left, right, "<", span),
            BinaryOp::LessEqual => self.relation(Op::LessEqual, left, right, "<=", span),
            BinaryOp::Greater => self.relation(Op::Greater, left, right, ">", span),
            BinaryOp::GreaterEqual => self.relation(Op::GreaterEqual, left, right, ">=", span),
            BinaryOp::Equal => self.relation(Op::Equal, left, right, "==", span),
            BinaryOp::NotEqual => self.relation(Op::NotEqual, left, right, "<>", span),
            BinaryOp::And | BinaryOp::Or => {
                let (op, what) = if op == BinaryOp::And { (Op::And, "`and`") } else { (Op::Or, "`or`") };
                let left = self.boolean(left, what, span)?;
                let right = self.boolean(right, what, span)?;
                self.elementwise(op, left, right, Type::Boolean, false, what, span).map(Value::Scalars)
            }
        }
    }

    fn concatenate(&mut self, left: Value, right: Value, span: Span) -> Res<Value> {
        match (left, right) {
            (Value::Texts { dims: left_dims, items: left }, Value::Texts { dims: right_dims, items: right })
                if left_dims == right_dims =>
            {
                for (left, right) in left.iter().zip(&right) {
                    self.reserve_text(left.text.len() + right.text.len(), span)?;
                }
                let items = left
                    .iter()
                    .zip(&right)
                    .map(|(left, right)| Text {
                        text: Arc::from(format!("{}{}", left.text, right.text)),
                        is_known: left.is_known && right.is_known,
                    })
                    .collect();
                Ok(Value::Texts { dims: left_dims, items })
            }
            (left, right) => {
                let message = format!("`+` cannot join {} and {}", left.describe(), right.describe());
                Err(self.error_help("wrong-type", span, message, "`String(x)` makes a text of a number"))
            }
        }
    }

    fn arithmetic(
        &mut self,
        op: Op,
        left: Value,
        right: Value,
        is_elementwise: bool,
        symbol: &str,
        span: Span,
    ) -> Res<Value> {
        let what = format!("`{symbol}`");
        let mut left = self.numeric(left, &what, span)?;
        let mut right = self.numeric(right, &what, span)?;
        let is_integer = left.ty == Type::Integer && right.ty == Type::Integer && !matches!(op, Op::Div | Op::Pow);
        let ty = if is_integer { Type::Integer } else { Type::Real };
        if !is_integer {
            self.as_reals(&mut left, span)?;
            self.as_reals(&mut right, span)?;
        }
        self.elementwise(op, left, right, ty, is_elementwise, &what, span).map(Value::Scalars)
    }

    #[allow(clippy::too_many_arguments, reason = "an operator with its place and its name in findings")]
    fn elementwise(
        &mut self,
        op: Op,
        left: Scalars,
        right: Scalars,
        ty: Type,
        may_broadcast: bool,
        what: &str,
        span: Span,
    ) -> Res<Scalars> {
        self.spend(left.items.len().max(right.items.len()), span)?;
        let n = left.items.len().max(right.items.len());
        let dims = if left.dims == right.dims || (may_broadcast && right.dims.is_empty()) {
            Some(left.dims.clone())
        } else {
            (may_broadcast && left.dims.is_empty()).then(|| right.dims.clone())
        };
        if let Some(dims) = dims {
            let n = if left.items.is_empty() || right.items.is_empty() { 0 } else { n };
            let mut items = SmallVec::with_capacity(n);
            for at in 0..n {
                let left = left.items[if left.dims.is_empty() { 0 } else { at }];
                let right = right.items[if right.dims.is_empty() { 0 } else { at }];
                items.push(match ty {
                    Type::Integer => self.integer_binary(op, left, right, span)?,
                    _ => self.graph.binary(op, left, right),
                });
            }
            return Ok(Scalars { ty, dims, items });
        }
        let message = format!("{what} cannot join sizes {} and {}", dims_text(&left.dims), dims_text(&right.dims));
        Err(self.error_help("wrong-size", span, message, "both sides need the same sizes"))
    }

    fn relation(&mut self, op: Op, left: Value, right: Value, symbol: &str, span: Span) -> Res<Value> {
        if let (Value::Texts { items: left, .. }, Value::Texts { items: right, .. }) = (&left, &right)
            && let ([left], [right]) = (left.as_slice(), right.as_slice())
        {
            if !left.is_known || !right.is_known {
                return Err(self.unsupported("comparison of texts that change", span, &format!("`{symbol}`")));
            }
            let order = left.text.cmp(&right.text);
            let holds = match op {
                Op::Less => order.is_lt(),
                Op::LessEqual => order.is_le(),
                Op::Greater => order.is_gt(),
                Op::GreaterEqual => order.is_ge(),
                Op::Equal => order.is_eq(),
                _ => order.is_ne(),
            };
            return Ok(Value::scalar(Type::Boolean, self.graph.truth(holds)));
        }
        let what = format!("`{symbol}`");
        let left = self.scalars(left, &what, span)?;
        let right = self.scalars(right, &what, span)?;
        if !left.dims.is_empty() || !right.dims.is_empty() {
            let message =
                format!("{what} compares scalars, not sizes {} and {}", dims_text(&left.dims), dims_text(&right.dims));
            return Err(self.error("wrong-size", span, message));
        }
        if !left.ty.fits(&right.ty) && !right.ty.fits(&left.ty) {
            let message = format!("{what} cannot compare {} with {}", left.ty.word(), right.ty.word());
            return Err(self.error("wrong-type", span, message));
        }
        let item = if left.ty == Type::Integer && right.ty == Type::Integer {
            self.integer_binary(op, left.items[0], right.items[0], span)?
        } else {
            self.graph.binary(op, left.items[0], right.items[0])
        };
        let is_of_reals = left.ty == Type::Real || right.ty == Type::Real;
        if is_of_reals && matches!(op, Op::Equal | Op::NotEqual) && self.functions.stack.is_empty() {
            self.warn_of_real_equality(left.items[0], right.items[0], symbol, span);
        }
        Ok(Value::scalar(Type::Boolean, item))
    }

    /// Outside of functions, Reals that vary cannot be compared for equality [@modelica36, sec. 3.5]: whether they are
    /// equal at an instant depends on rounding and on where steps end.
    fn warn_of_real_equality(&mut self, left: ExprId, right: ExprId, symbol: &str, span: Span) {
        if self.variability_of(left).max(self.variability_of(right)) <= Variability::Parameter
            || self.reads_locals(&[left, right])
        {
            return;
        }
        let message = format!("`{symbol}` compares Reals that vary: that they are equal at an instant is chance");
        let help = "use `<=` or `>=`, whose changes are events, or compare the distance with a tolerance";
        self.report(Finding::warning("real-equality", span, message).with_help(help));
    }

    /// Sum of products, left to right.
    pub(crate) fn dot(&mut self, left: &[ExprId], right: impl Iterator<Item = ExprId>) -> ExprId {
        let mut sum = None;
        for (&left, right) in left.iter().zip(right) {
            let product = self.graph.mul(left, right);
            sum = Some(sum.map_or(product, |sum| self.graph.add(sum, product)));
        }
        sum.unwrap_or_else(|| self.graph.number(0.0))
    }

    fn integer_dot(&mut self, left: &[ExprId], right: &[ExprId], span: Span) -> Res<ExprId> {
        let mut sum = self.graph.number(0.0);
        for (&left, &right) in left.iter().zip(right) {
            let product = self.integer_binary(Op::Mul, left, right, span)?;
            sum = self.integer_binary(Op::Add, sum, product, span)?;
        }
        Ok(sum)
    }

    pub(crate) fn multiply(&mut self, left: Value, right: Value, span: Span) -> Res<Value> {
        if left.dims().is_empty() || right.dims().is_empty() {
            return self.arithmetic(Op::Mul, left, right, true, "*", span);
        }
        let left = self.numeric(left, "`*`", span)?;
        let right = self.numeric(right, "`*`", span)?;
        let ty = if left.ty == Type::Integer && right.ty == Type::Integer { Type::Integer } else { Type::Real };
        let fits = match (left.dims.len(), right.dims.len()) {
            (1, 1 | 2) => left.dims[0] == right.dims[0],
            (2, 1 | 2) => left.dims[1] == right.dims[0],
            _ => false,
        };
        if !fits {
            let message = format!("`*` cannot multiply sizes {} and {}", dims_text(&left.dims), dims_text(&right.dims));
            return Err(self.error_help("wrong-size", span, message, "`.*` multiplies element by element"));
        }
        let (n_rows, n_inner) = if left.dims.len() == 1 { (1, left.dims[0]) } else { (left.dims[0], left.dims[1]) };
        let n_columns = if right.dims.len() == 1 { 1 } else { right.dims[1] };
        self.reserve(&[n_rows, n_columns], span)?;
        self.spend(n_rows.saturating_mul(n_columns).saturating_mul(n_inner), span)?;
        let mut items = SmallVec::with_capacity(n_rows * n_columns);
        for row in 0..n_rows {
            for column in 0..n_columns {
                let row = left.items[row * n_inner..(row + 1) * n_inner].to_vec();
                let column: Vec<ExprId> = (0..n_inner).map(|at| right.items[at * n_columns + column]).collect();
                items.push(match ty {
                    Type::Integer => self.integer_dot(&row, &column, span)?,
                    _ => self.dot(&row, column.into_iter()),
                });
            }
        }
        let mut dims = Dims::new();
        if left.dims.len() == 2 {
            dims.push(n_rows);
        }
        if right.dims.len() == 2 {
            dims.push(n_columns);
        }
        Ok(Value::Scalars(Scalars { ty, dims, items }))
    }

    fn power(&mut self, left: Value, right: Value, span: Span) -> Res<Value> {
        if left.dims().is_empty() && right.dims().is_empty() {
            return self.arithmetic(Op::Pow, left, right, false, "^", span);
        }
        let base = self.numeric(left, "`^`", span)?;
        let exponent = self.numeric(right, "`^`", span)?;
        let is_square = base.dims.len() == 2 && base.dims[0] == base.dims[1];
        let exponent = match exponent.items.as_slice() {
            [one] if exponent.dims.is_empty() && exponent.ty == Type::Integer => {
                let is_known = self.variability_of(*one) <= Variability::Parameter && self.can_be_known(*one);
                if is_known { Some(self.known_number(*one, span)?) } else { None }
            }
            _ => None,
        };
        let Some(exponent) = exponent.filter(|&value| is_square && (0.0..=1e4).contains(&value)) else {
            let message = "`^` on arrays needs a square matrix and an Integer that is known and not negative";
            return Err(self.error_help("wrong-size", span, message, "`.^` raises element by element"));
        };
        let n = base.dims[0];
        let mut result = self.identity(n, span)?;
        let base = Value::Scalars(base);
        for _ in 0..exponent as usize {
            result = self.multiply(result, base.clone(), span)?;
        }
        Ok(result)
    }

    /// The identity matrix.
    pub(crate) fn identity(&mut self, n: usize, span: Span) -> Res<Value> {
        self.reserve(&[n, n], span)?;
        let (zero, one) = (self.graph.number(0.0), self.graph.number(1.0));
        let items = (0..n * n).map(|at| if at / n == at % n { one } else { zero }).collect();
        Ok(Value::Scalars(Scalars { ty: Type::Integer, dims: Dims::from_slice(&[n, n]), items }))
    }

    /// `if condition then .. else ..` on values of the same shape; `None` when they do not match.
    pub(crate) fn select_value(&mut self, condition: ExprId, then: &Value, otherwise: &Value) -> Option<Value> {
        match (then, otherwise) {
            (Value::Scalars(then), Value::Scalars(otherwise)) => {
                if then.dims != otherwise.dims {
                    return None;
                }
                let ty = if then.ty.fits(&otherwise.ty) {
                    otherwise.ty.clone()
                } else if otherwise.ty.fits(&then.ty) {
                    then.ty.clone()
                } else {
                    return None;
                };
                let items = then
                    .items
                    .iter()
                    .zip(&otherwise.items)
                    .map(|(&then, &otherwise)| self.graph.select(condition, then, otherwise))
                    .collect();
                Some(Value::Scalars(Scalars { ty, dims: then.dims.clone(), items }))
            }
            (Value::Record(then), Value::Record(otherwise)) if then.dims == otherwise.dims => {
                let mut fields = Vec::with_capacity(then.fields.len());
                for field in &then.fields {
                    let other = otherwise.fields.iter().find(|other| other.name == field.name)?;
                    let value = self.select_value(condition, &field.value, &other.value)?;
                    fields.push(super::value::Field { name: field.name, value });
                }
                let record = super::value::Record { class: then.class, dims: then.dims.clone(), fields };
                Some(Value::Record(Box::new(record)))
            }
            (Value::Texts { dims, items: then }, Value::Texts { dims: other_dims, items: otherwise })
                if dims == other_dims =>
            {
                let items = then
                    .iter()
                    .zip(otherwise)
                    .map(|(then, otherwise)| {
                        if then == otherwise {
                            then.clone()
                        } else if then.text.len() + otherwise.text.len() > MAX_JOINED {
                            Text { text: Arc::from("<text>"), is_known: false }
                        } else {
                            Text { text: Arc::from(format!("{} | {}", then.text, otherwise.text)), is_known: false }
                        }
                    })
                    .collect();
                Some(Value::Texts { dims: dims.clone(), items })
            }
            (Value::Tuple(then), Value::Tuple(otherwise)) if then.len() == otherwise.len() => {
                let mut items = Vec::with_capacity(then.len());
                for (then, otherwise) in then.iter().zip(otherwise) {
                    items.push(self.select_value(condition, then, otherwise)?);
                }
                Some(Value::Tuple(items))
            }
            (Value::Function(then), Value::Function(otherwise)) if then == otherwise => {
                Some(Value::Function(then.clone()))
            }
            _ => None,
        }
    }

    /// A value of the given type and sizes from a value that should be one.
    pub(crate) fn coerce(&mut self, value: Value, ty: &Type, dims: &[usize], what: &str, span: Span) -> Res<Value> {
        let value = match value {
            Value::Tuple(mut items) if !items.is_empty() => items.swap_remove(0),
            other => other,
        };
        let fits = match &value {
            Value::Scalars(scalars) => scalars.ty.fits(ty) || count(&scalars.dims) == 0,
            Value::Texts { .. } => *ty == Type::String,
            _ => false,
        };
        if !fits {
            let message = format!("{what} is {}, its value is {}", ty.word(), value.describe());
            return Err(self.error_help("wrong-type", span, message, type_help(ty, &value)));
        }
        if value.dims() != dims {
            let message =
                format!("{what} has size {}, its value has size {}", dims_text(dims), dims_text(value.dims()));
            let help = if value.dims().is_empty() {
                "write `each` to give every element the same value, or `fill(value, n)`"
            } else {
                "sizes must agree"
            };
            return Err(self.error_help("wrong-size", span, message, help));
        }
        Ok(match value {
            Value::Scalars(mut scalars) => {
                if *ty == Type::Real {
                    self.as_reals(&mut scalars, span)?;
                }
                scalars.ty = ty.clone();
                Value::Scalars(scalars)
            }
            other => other,
        })
    }
}

fn type_help(ty: &Type, value: &Value) -> &'static str {
    match (ty, value) {
        (Type::Integer, Value::Scalars(scalars)) if scalars.ty == Type::Real => {
            "`integer(x)` rounds down to an Integer"
        }
        (Type::Real, Value::Scalars(scalars)) if scalars.ty == Type::Boolean => "write `if condition then 1 else 0`",
        (Type::String, _) => "`String(x)` makes a text",
        _ => "types must agree",
    }
}

fn operator_name(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add | BinaryOp::ElementAdd => "'+'",
        BinaryOp::Sub | BinaryOp::ElementSub => "'-'",
        BinaryOp::Mul | BinaryOp::ElementMul => "'*'",
        BinaryOp::Div | BinaryOp::ElementDiv => "'/'",
        BinaryOp::Pow | BinaryOp::ElementPow => "'^'",
        BinaryOp::Less => "'<'",
        BinaryOp::LessEqual => "'<='",
        BinaryOp::Greater => "'>'",
        BinaryOp::GreaterEqual => "'>='",
        BinaryOp::Equal => "'=='",
        BinaryOp::NotEqual => "'<>'",
        BinaryOp::And => "'and'",
        BinaryOp::Or => "'or'",
    }
}
