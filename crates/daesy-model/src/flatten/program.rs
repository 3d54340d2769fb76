//! Functions and loops that stay programs: loops and recursion that depend on data.
//!
//! The body is translated statement by statement to [`daesy_graph::Function`]; every scalar of every variable is one
//! local.

use daesy_graph::function::{Function, Statement as Step};
use daesy_graph::substitute::Substitution;
use daesy_graph::{BinaryOp, ExprId, Finding, FunctionId, Node, Span, VarId};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::expr::{Chosen, Ctx, Local};
use super::function::{FunctionInfo, first_result};
use super::instance::{NodeKind, PrimId};
use super::modifier::Layers;
use super::reference::Start;
use super::value::{Dims, Field, FunctionValue, Scalars, Type, Value, count};
use super::{Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{ComponentRef, ExprKind, Iterator, Statement, StatementBranch, StatementKind};

/// A function made into a program, with the shape of its results.
#[derive(Clone)]
pub(crate) struct Program {
    id: FunctionId,
    outputs: Vec<Value>,
}

/// A program being written.
struct Writer {
    n_locals: u32,
}

impl<'a> Flattener<'a> {
    /// Calls a function as a program.
    pub(crate) fn call_program(
        &mut self,
        info: &FunctionInfo<'a>,
        given: Vec<Option<Value>>,
        span: Span,
    ) -> Res<Value> {
        let values: Res<Vec<Value>> = given.iter().flatten().map(|value| self.narrowed(value, span)).collect();
        let values = values?;
        let key = (info.class, values.iter().map(shape).collect::<Vec<_>>().join(";"));
        let program = match self.functions.programs.get(&key) {
            Some(program) => program.clone(),
            None => {
                // Conditions and assertions around the call are none of the program's.
                let path = std::mem::take(&mut self.functions.path);
                let assertions = std::mem::take(&mut self.functions.program_assertions);
                let program = self.write_program(info, &values, key.clone(), span);
                self.functions.path = path;
                self.functions.program_assertions = assertions;
                if program.is_err() {
                    self.functions.programs.remove(&key);
                }
                program?
            }
        };
        let mut args = Vec::new();
        for value in &values {
            input_items(value, &mut args);
        }
        let mut at = 0u16;
        let results: Vec<Value> = program
            .outputs
            .iter()
            .map(|output| {
                output.map_scalars(&mut |_| {
                    let item = self.graph.call(program.id, at, &args);
                    at += 1;
                    item
                })
            })
            .collect();
        Ok(match results.len() {
            1 => results.into_iter().next().unwrap_or_else(|| Value::Tuple(Vec::new())),
            _ => Value::Tuple(results),
        })
    }

    fn write_program(
        &mut self,
        info: &FunctionInfo<'a>,
        values: &[Value],
        key: (super::ClassId, String),
        span: Span,
    ) -> Res<Program> {
        let mut writer = Writer { n_locals: 0 };
        let mut inner = Ctx::new(info.class, NodeId::NONE);
        inner.in_function = true;
        inner.in_program = true;
        for (elem, value) in info.inputs.iter().zip(values) {
            let value = self.new_inputs(&mut writer, value);
            inner.locals.push(Local { name: elem.name, value, is_assignable: false, is_set: true });
        }
        let n_inputs = writer.n_locals;
        // The number is needed for calls of the function by itself.
        let empty = Function {
            name: self.class(info.class).full.to_string(),
            n_inputs,
            outputs: Vec::new(),
            n_locals: n_inputs,
            body: Vec::new(),
            span: info.span,
        };
        let id = self.graph.add_function(empty);
        let mut body = Vec::new();
        let n_before = inner.locals.len();
        self.declare_locals(info, &Layers::new(), &mut inner)?;
        body.append(&mut self.functions.program_assertions);
        for at in n_before..inner.locals.len() {
            let initial = inner.locals[at].value.clone();
            inner.locals[at].is_set = true;
            if matches!(initial, Value::Texts { .. } | Value::Function(_)) {
                continue;
            }
            let value = self.new_locals(&mut writer, &initial);
            let initial = self.narrowed(&initial, span)?;
            self.write_items(&mut body, &value, &initial);
            inner.locals[at].value = value;
        }
        let outputs: Vec<Value> = info
            .outputs
            .iter()
            .filter_map(|elem| {
                inner.locals.iter().find(|local| local.name == elem.name).map(|local| local.value.clone())
            })
            .collect();
        let program = Program { id, outputs: outputs.clone() };
        // Known before the body is written, for recursion.
        self.functions.programs.insert(key, program.clone());
        for part in &info.body {
            inner.scope = part.scope;
            self.write_statements(&mut writer, part.statements, &mut inner, &mut body)?;
        }
        let mut output_locals = Vec::new();
        for value in &outputs {
            let mut items = Vec::new();
            value.flat_items(&mut items);
            for item in items {
                let Node::Local(local) = self.graph.node(item) else {
                    return Err(self.unsupported("functions as programs", span, "this output"));
                };
                output_locals.push(local);
            }
        }
        let function = Function {
            name: self.class(info.class).full.to_string(),
            n_inputs,
            outputs: output_locals,
            n_locals: writer.n_locals,
            body,
            span: info.span,
        };
        self.graph.set_function(id, function);
        Ok(program)
    }

    /// Runs a loop of an algorithm section when the model runs, as a program: what it assigns are its outputs, and
    /// everything else that it reads is an input.
    ///
    /// Nothing inside of a program makes an event. In a when-statement nothing has to; elsewhere loops that compare
    /// anything are refused.
    pub(crate) fn run_loop(&mut self, statement: &'a Statement, what: &str, ctx: &mut Ctx) -> Res<()> {
        let mut targets = Vec::new();
        assigned_in(statement, &mut targets);
        let mut variables: Vec<(Name, PrimId)> = Vec::new();
        for target in targets {
            let name = target.parts[0].name.name;
            if ctx.locals.iter().any(|local| local.name == name) || variables.iter().any(|(known, _)| *known == name) {
                continue;
            }
            match self.resolve_start(target, ctx) {
                Ok(Start::Node(node, 1)) => match self.force(node).map(|node| self.node(node).kind.clone()) {
                    Ok(NodeKind::Primitive(prim)) if target.parts.len() == 1 => variables.push((name, prim)),
                    _ => return Err(self.open_loop(statement, what)),
                },
                _ => return Err(self.open_loop(statement, what)),
            }
        }
        let path = std::mem::take(&mut self.functions.path);
        let assertions = std::mem::take(&mut self.functions.program_assertions);
        // What it reads is known once it was written; inputs are the first locals.
        let mut written = self.write_loop(statement, &variables, 0, ctx);
        let mut inputs = Vec::new();
        if let Ok(first) = &written {
            let mut seen = FxHashSet::default();
            let (mut exprs, mut compares) = (Vec::new(), false);
            for_each_expr(&first.body, &mut |expr| exprs.push(expr));
            let mut own = Vec::new();
            first.outputs.iter().for_each(|value| value.flat_items(&mut own));
            for expr in exprs {
                self.loop_leaves(expr, &mut seen, &mut inputs);
                compares |= self.compares(expr, &own);
            }
            if compares && !ctx.in_when {
                self.functions.path = path;
                self.functions.program_assertions = assertions;
                return Err(self.open_loop(statement, what));
            }
            written = self.write_loop(statement, &variables, inputs.len() as u32, ctx);
        }
        self.functions.path = path;
        self.functions.program_assertions = assertions;
        let WrittenLoop { n_locals, mut body, outputs } = written?;
        let mut substitution = Substitution::new();
        for (at, &input) in inputs.iter().enumerate() {
            let local = self.graph.local(at as u32);
            substitution.replace(input, local);
        }
        replace_exprs(&mut body, &mut |expr| substitution.apply(&mut self.graph, expr));
        let name = format!("a loop in {}", self.class(ctx.scope).full);
        let mut output_locals = Vec::new();
        for value in &outputs {
            let mut items = Vec::new();
            value.flat_items(&mut items);
            output_locals.extend(items.into_iter().filter_map(|item| match self.graph.node(item) {
                Node::Local(local) => Some(local),
                _ => None,
            }));
        }
        let n_inputs = inputs.len() as u32;
        let function = Function { name, n_inputs, outputs: output_locals, n_locals, body, span: statement.span };
        let id = self.graph.add_function(function);
        let mut at = 0u16;
        for ((_, prim), output) in variables.into_iter().zip(outputs) {
            let value = output.map_scalars(&mut |_| {
                let item = self.graph.call(id, at, &inputs);
                at += 1;
                item
            });
            let first = self.prim(prim).first;
            let n = count(value.dims()) as u32;
            if let (Some(assigned), Some(first)) = (ctx.assigned.as_mut(), first) {
                assigned.values.insert(prim, value);
                assigned.touched.extend((0..n).map(|at| VarId(first.0 + at)));
            }
        }
        Ok(())
    }

    /// A loop that cannot be run when the model runs.
    fn open_loop(&mut self, statement: &Statement, what: &str) -> Refused {
        let feature = if matches!(statement.kind, StatementKind::While(_)) { "while" } else { "for" };
        let message = format!("{what} is not supported here: {feature}");
        let finding = Finding::error("unsupported", statement.span, message).with_names([feature.to_owned()]);
        self.report(finding.with_help("put the loop into a function"))
    }

    /// The statements of a loop, with locals from `n_inputs` on.
    fn write_loop(
        &mut self,
        statement: &'a Statement,
        variables: &[(Name, PrimId)],
        n_inputs: u32,
        ctx: &Ctx,
    ) -> Res<WrittenLoop> {
        let mut writer = Writer { n_locals: n_inputs };
        let mut inner = ctx.clone();
        inner.in_program = true;
        let (mut body, mut outputs) = (Vec::new(), Vec::new());
        for &(name, prim) in variables {
            let known = ctx.assigned.as_ref().and_then(|assigned| assigned.get(prim)).cloned();
            let initial = known.ok_or(Refused)?;
            let initial = self.narrowed(&initial, statement.span)?;
            let value = self.new_locals(&mut writer, &initial);
            self.write_items(&mut body, &value, &initial);
            outputs.push(value.clone());
            inner.locals.push(Local { name, value, is_assignable: true, is_set: true });
        }
        self.write_statements(&mut writer, std::slice::from_ref(statement), &mut inner, &mut body)?;
        Ok(WrittenLoop { n_locals: writer.n_locals, body, outputs })
    }

    /// What an expression of a loop reads that is no local of it.
    fn loop_leaves(&self, expr: ExprId, seen: &mut FxHashSet<ExprId>, leaves: &mut Vec<ExprId>) {
        let mut stack = vec![expr];
        while let Some(expr) = stack.pop() {
            if !seen.insert(expr) {
                continue;
            }
            match self.graph.node(expr) {
                Node::Time | Node::Var { .. } | Node::Pre(_) | Node::Sample { .. } | Node::Initial | Node::Terminal => {
                    leaves.push(expr);
                }
                _ => self.graph.for_each_child(expr, |child| stack.push(child)),
            }
        }
    }

    /// Whether an expression of a loop compares anything but locals that count passes and choose elements; `own` are
    /// those of the variables that it assigns.
    fn compares(&self, expr: ExprId, own: &[ExprId]) -> bool {
        let mut stack = vec![expr];
        let mut seen = FxHashSet::default();
        while let Some(expr) = stack.pop() {
            if !seen.insert(expr) {
                continue;
            }
            if let Node::Binary { op, lhs, rhs } = self.graph.node(expr)
                && op.is_relation()
            {
                let is_counter = matches!(self.graph.node(lhs), Node::Local(_)) && !own.contains(&lhs);
                let is_subscript = op == BinaryOp::Equal && self.graph.as_number(rhs).is_some();
                if !(is_subscript || is_counter && op == BinaryOp::Less) {
                    return true;
                }
            }
            self.graph.for_each_child(expr, |child| stack.push(child));
        }
        false
    }

    /// New locals for an input; what a function given as an argument was bound to are inputs too.
    fn new_inputs(&mut self, writer: &mut Writer, shape: &Value) -> Value {
        match shape {
            Value::Texts { .. } | Value::Object(_) => shape.clone(),
            Value::Function(function) => {
                let bound = function
                    .bound
                    .iter()
                    .map(|field| Field { name: field.name, value: self.new_inputs(writer, &field.value) })
                    .collect();
                Value::Function(Box::new(FunctionValue { class: function.class, bound }))
            }
            _ => self.new_locals(writer, shape),
        }
    }

    /// New locals in the shape of a value.
    fn new_locals(&mut self, writer: &mut Writer, shape: &Value) -> Value {
        shape.map_scalars(&mut |_| {
            writer.n_locals += 1;
            self.graph.local(writer.n_locals - 1)
        })
    }

    /// `target := value`, scalar by scalar; placeholders are left out.
    fn write_items(&mut self, body: &mut Vec<Step>, target: &Value, value: &Value) {
        let (mut targets, mut values) = (Vec::new(), Vec::new());
        target.flat_items(&mut targets);
        value.flat_items(&mut values);
        for (target, value) in targets.into_iter().zip(values) {
            let is_placeholder = self.graph.as_number(value).is_some_and(f64::is_nan);
            if let Node::Local(local) = self.graph.node(target)
                && !is_placeholder
                && target != value
            {
                body.push(Step::Assign { local, value });
            }
        }
    }

    fn write_statements(
        &mut self,
        writer: &mut Writer,
        statements: &'a [Statement],
        ctx: &mut Ctx,
        body: &mut Vec<Step>,
    ) -> Res<()> {
        for statement in statements {
            match &statement.kind {
                StatementKind::Assign { target, value } => {
                    let value = first_result(self.expr(value, ctx)?);
                    body.append(&mut self.functions.program_assertions);
                    self.write_assign(writer, target, value, ctx, body)?;
                }
                StatementKind::AssignTuple { targets, call } => {
                    let values = match self.expr(call, ctx)? {
                        Value::Tuple(values) => values,
                        single => vec![single],
                    };
                    body.append(&mut self.functions.program_assertions);
                    // All results are taken before the first is assigned.
                    let mut kept = Vec::with_capacity(values.len());
                    for value in values {
                        let temporary = self.new_locals(writer, &value);
                        self.write_items(body, &temporary, &value);
                        kept.push(temporary);
                    }
                    for (target, value) in targets.iter().zip(kept) {
                        if let Some(target) = target {
                            self.write_assign(writer, target, value, ctx, body)?;
                        }
                    }
                }
                StatementKind::Call(call) => {
                    let ExprKind::Call { function, args, named } = &call.kind else { return Err(Refused) };
                    if function.parts[0].name.name.text() == "assert" {
                        if let Some(assertion) = self.assertion(args, named, call.span, ctx)?
                            && !assertion.is_warning
                        {
                            body.push(Step::Assert { condition: assertion.condition, message: assertion.message });
                        }
                    } else {
                        self.expr(call, ctx)?;
                        body.append(&mut self.functions.program_assertions);
                    }
                }
                StatementKind::If { branches, otherwise } => {
                    self.write_if(writer, branches, otherwise.as_deref(), ctx, body)?;
                }
                StatementKind::While(branch) => {
                    let condition = self.condition(&branch.condition, ctx)?;
                    // What the condition asserts must hold before every pass.
                    let assertions = std::mem::take(&mut self.functions.program_assertions);
                    body.extend(assertions.iter().cloned());
                    let mut inner = Vec::new();
                    self.write_statements(writer, &branch.body, ctx, &mut inner)?;
                    inner.extend(assertions);
                    body.push(Step::While { condition, body: inner });
                }
                StatementKind::For { iterators, body: loop_body } => {
                    self.write_for(writer, iterators, loop_body, statement.span, ctx, body)?;
                }
                StatementKind::Break => body.push(Step::Break),
                StatementKind::Return => body.push(Step::Return),
                StatementKind::When(_) => {
                    return Err(self.error("misplaced-when", statement.span, "a function cannot have when-statements"));
                }
            }
        }
        Ok(())
    }

    fn write_if(
        &mut self,
        writer: &mut Writer,
        branches: &'a [StatementBranch],
        otherwise: Option<&'a [Statement]>,
        ctx: &mut Ctx,
        body: &mut Vec<Step>,
    ) -> Res<()> {
        let Some((first, others)) = branches.split_first() else {
            return self.write_statements(writer, otherwise.unwrap_or_default(), ctx, body);
        };
        let condition = self.condition(&first.condition, ctx)?;
        body.append(&mut self.functions.program_assertions);
        let mut then = Vec::new();
        self.write_statements(writer, &first.body, ctx, &mut then)?;
        let mut rest = Vec::new();
        self.write_if(writer, others, otherwise, ctx, &mut rest)?;
        body.push(Step::If { condition, then, otherwise: rest });
        Ok(())
    }

    fn write_for(
        &mut self,
        writer: &mut Writer,
        iterators: &'a [Iterator],
        statements: &'a [Statement],
        span: Span,
        ctx: &mut Ctx,
        body: &mut Vec<Step>,
    ) -> Res<()> {
        let Some((first, rest)) = iterators.split_first() else {
            return self.write_statements(writer, statements, ctx, body);
        };
        let Some(range) = &first.range else {
            return Err(self.unsupported("loops without range in programs", span, "this for-loop"));
        };
        // A counter runs from 1 to n; the iterator's value follows from it.
        let counter = writer.n_locals;
        writer.n_locals += 1;
        let counter_value = self.graph.local(counter);
        let (value, n) = match &range.kind {
            ExprKind::Range { start, step, stop } => {
                let start = self.scalar_expr(start, ctx)?;
                let stop = self.scalar_expr(stop, ctx)?;
                let step = match step {
                    Some(step) => Some(self.scalar_expr(step, ctx)?),
                    None => None,
                };
                // The bounds are taken once, before the loop.
                let first_value = self.keep(writer, start.items[0], body);
                let by = match &step {
                    Some(step) => self.keep(writer, step.items[0], body),
                    None => self.graph.number(1.0),
                };
                let difference = self.graph.sub(stop.items[0], first_value);
                let quotient = self.graph.div(difference, by);
                let slack = self.graph.number(1e-10);
                let quotient = self.graph.add(quotient, slack);
                let floor = self.graph.unary(daesy_graph::UnaryOp::Floor, quotient);
                let one = self.graph.number(1.0);
                let n = self.graph.add(floor, one);
                let n = self.keep(writer, n, body);
                let before = self.graph.sub(counter_value, one);
                let moved = self.graph.mul(before, by);
                let value = self.graph.add(first_value, moved);
                let is_real = start.ty == Type::Real || step.is_some_and(|step| step.ty == Type::Real);
                (Value::scalar(if is_real { Type::Real } else { start.ty }, value), n)
            }
            _ => {
                let vector = first_result(self.expr(range, ctx)?);
                let dims: Dims = vector.dims().iter().copied().collect();
                if dims.len() != 1 {
                    return Err(self.error("wrong-size", range.span, "an iterator runs through a vector"));
                }
                let kept = self.new_locals(writer, &vector);
                self.write_items(body, &kept, &vector);
                let chosen = [Chosen::Dynamic(counter_value)];
                let value = self.index_value(&kept, &chosen, ctx, range.span)?;
                (value, self.graph.number(dims[0] as f64))
            }
        };
        body.append(&mut self.functions.program_assertions);
        let one = self.graph.number(1.0);
        let zero = self.graph.number(0.0);
        body.push(Step::Assign { local: counter, value: zero });
        let condition = self.graph.less(counter_value, n);
        let next = self.graph.add(counter_value, one);
        let mut inner = vec![Step::Assign { local: counter, value: next }];
        let n_locals = ctx.locals.len();
        ctx.locals.push(Local { name: first.name.name, value, is_assignable: false, is_set: true });
        let result = self.write_for(writer, rest, statements, span, ctx, &mut inner);
        ctx.locals.truncate(n_locals);
        result?;
        body.push(Step::While { condition, body: inner });
        Ok(())
    }

    /// A new local with the given value.
    fn keep(&mut self, writer: &mut Writer, value: ExprId, body: &mut Vec<Step>) -> ExprId {
        let local = writer.n_locals;
        writer.n_locals += 1;
        body.push(Step::Assign { local, value });
        self.graph.local(local)
    }

    fn write_assign(
        &mut self,
        writer: &mut Writer,
        target: &'a ComponentRef,
        value: Value,
        ctx: &mut Ctx,
        body: &mut Vec<Step>,
    ) -> Res<()> {
        let first = &target.parts[0];
        let Some(local) = ctx.locals.iter().rev().find(|local| local.name == first.name.name) else {
            return Err(self.unknown_name(first.name, ctx.scope, false));
        };
        if !local.is_assignable {
            let message = format!("`{}` is an iterator, input or constant and cannot be assigned", first.name.name);
            return Err(self.error("not-assignable", target.span, message));
        }
        if let Value::Texts { .. } = local.value {
            return Err(self.unsupported("texts in programs", target.span, "assigning a String"));
        }
        let mut place = local.value.clone();
        for (at, part) in target.parts.iter().enumerate() {
            let n_outer = if at > 0 { place.dims().len() } else { 0 };
            if at > 0 {
                let Some(field) = place.field(part.name.name).cloned() else {
                    let message = format!("there is no field `{}`", part.name.name);
                    return Err(self.error("unknown-name", part.name.span, message));
                };
                place = field;
            }
            if part.subscripts.is_empty() {
                continue;
            }
            let dims: Dims = place.dims().iter().copied().collect();
            let chosen = self.part_subscripts(part, n_outer, &dims, target.span, ctx)?;
            if chosen.iter().any(|one| matches!(one, Chosen::Dynamic(_))) {
                let is_scalar = chosen.len() == dims.len() && !chosen.iter().any(|one| matches!(one, Chosen::Many(_)));
                let block = self.block_of(&place);
                let (Some((base, len)), true, true) = (block, is_scalar, at + 1 == target.parts.len()) else {
                    return Err(self.unsupported("slices with changing subscripts", target.span, "this assignment"));
                };
                let Value::Scalars(scalars) = &place else { return Err(Refused) };
                let new = self.coerce(value, &scalars.ty.clone(), &[], "the element", target.span)?;
                let Value::Scalars(new) = self.narrowed(&new, target.span)? else { return Err(Refused) };
                let index = self.linear_index(&chosen, &dims);
                body.push(Step::AssignAt { base, len, index, value: new.items[0] });
                return Ok(());
            }
            place = self.index_value(&place, &chosen, ctx, target.span)?;
        }
        let dims: Dims = place.dims().iter().copied().collect();
        let value = match &place {
            Value::Scalars(scalars) => self.coerce(value, &scalars.ty.clone(), &dims, "the variable", target.span)?,
            Value::Record(record) => self.typed_value(record.class, value, &dims, "the variable", target.span)?,
            _ => value,
        };
        let value = self.narrowed(&value, target.span)?;
        let mut items = Vec::new();
        value.flat_items(&mut items);
        if items.len() > 1 {
            // The value may use what is being assigned.
            let temporary = self.new_locals(writer, &value);
            self.write_items(body, &temporary, &value);
            self.write_items(body, &place, &temporary);
        } else {
            self.write_items(body, &place, &value);
        }
        Ok(())
    }

    /// The locals of a value that lie in a row.
    fn block_of(&self, value: &Value) -> Option<(u32, u32)> {
        let Value::Scalars(scalars) = value else { return None };
        let Node::Local(base) = self.graph.node(*scalars.items.first()?) else { return None };
        let in_row = scalars
            .items
            .iter()
            .enumerate()
            .all(|(at, &item)| matches!(self.graph.node(item), Node::Local(local) if local == base + at as u32));
        in_row.then_some((base, scalars.items.len() as u32))
    }

    /// Position in a row, from 1.
    fn linear_index(&mut self, chosen: &[Chosen], dims: &[usize]) -> ExprId {
        let one = self.graph.number(1.0);
        let mut index = self.graph.number(0.0);
        for (chosen, &dim) in chosen.iter().zip(dims) {
            let position = match chosen {
                Chosen::One(at) => self.graph.number(*at as f64),
                Chosen::Dynamic(item) => self.graph.sub(*item, one),
                Chosen::Many(_) => self.graph.number(0.0),
            };
            let size = self.graph.number(dim as f64);
            let scaled = self.graph.mul(index, size);
            index = self.graph.add(scaled, position);
        }
        self.graph.add(index, one)
    }

    /// An element of an array of locals by a changing subscript; `None` where it is no such array.
    pub(crate) fn local_index(&mut self, value: &Value, chosen: &[Chosen], _span: Span) -> Option<Res<Value>> {
        let Value::Scalars(scalars) = value else { return None };
        if chosen.len() != scalars.dims.len() || chosen.iter().any(|one| matches!(one, Chosen::Many(_))) {
            return None;
        }
        let (base, len) = self.block_of(value)?;
        let index = self.linear_index(chosen, &scalars.dims);
        let item = self.graph.local_at(base, len, index);
        let items = SmallVec::from_slice(&[item]);
        Some(Ok(Value::Scalars(Scalars { ty: scalars.ty.clone(), dims: Dims::new(), items })))
    }
}

/// A loop as a program that is being written.
struct WrittenLoop {
    n_locals: u32,
    body: Vec<Step>,
    /// The locals of each variable that it assigns.
    outputs: Vec<Value>,
}

/// The variables that a statement assigns.
fn assigned_in<'a>(statement: &'a Statement, found: &mut Vec<&'a ComponentRef>) {
    match &statement.kind {
        StatementKind::Assign { target, .. } => found.push(target),
        StatementKind::AssignTuple { targets, .. } => found.extend(targets.iter().flatten()),
        StatementKind::If { branches, otherwise } => {
            let bodies = branches.iter().map(|branch| &branch.body).chain(otherwise);
            bodies.flatten().for_each(|statement| assigned_in(statement, found));
        }
        StatementKind::For { body, .. } => body.iter().for_each(|statement| assigned_in(statement, found)),
        StatementKind::While(branch) => branch.body.iter().for_each(|statement| assigned_in(statement, found)),
        StatementKind::When(_) | StatementKind::Call(_) | StatementKind::Break | StatementKind::Return => {}
    }
}

/// Visits all expressions of a program.
fn for_each_expr(body: &[Step], visit: &mut dyn FnMut(ExprId)) {
    for step in body {
        match step {
            Step::Assign { value, .. } => visit(*value),
            Step::AssignAt { index, value, .. } => {
                visit(*index);
                visit(*value);
            }
            Step::If { condition, then, otherwise } => {
                visit(*condition);
                for_each_expr(then, visit);
                for_each_expr(otherwise, visit);
            }
            Step::While { condition, body } => {
                visit(*condition);
                for_each_expr(body, visit);
            }
            Step::Assert { condition, .. } => visit(*condition),
            Step::Intrinsic { .. } | Step::Break | Step::Return => {}
        }
    }
}

/// Replaces all expressions of a program.
fn replace_exprs(body: &mut [Step], replaced: &mut dyn FnMut(ExprId) -> ExprId) {
    for step in body {
        match step {
            Step::Assign { value, .. } => *value = replaced(*value),
            Step::AssignAt { index, value, .. } => {
                *index = replaced(*index);
                *value = replaced(*value);
            }
            Step::If { condition, then, otherwise } => {
                *condition = replaced(*condition);
                replace_exprs(then, replaced);
                replace_exprs(otherwise, replaced);
            }
            Step::While { condition, body } => {
                *condition = replaced(*condition);
                replace_exprs(body, replaced);
            }
            Step::Assert { condition, .. } => *condition = replaced(*condition),
            Step::Intrinsic { .. } | Step::Break | Step::Return => {}
        }
    }
}

/// The scalars of an input in the order of its locals.
fn input_items(value: &Value, items: &mut Vec<ExprId>) {
    match value {
        Value::Function(function) => function.bound.iter().for_each(|field| input_items(&field.value, items)),
        _ => value.flat_items(items),
    }
}

/// The shape of a value as text.
fn shape(value: &Value) -> String {
    match value {
        Value::Function(function) => {
            let bound: Vec<String> =
                function.bound.iter().map(|field| format!("{}={}", field.name, shape(&field.value))).collect();
            format!("function{}({})", function.class.0, bound.join(","))
        }
        Value::Scalars(scalars) => format!("{}{:?}", scalars.ty.word(), scalars.dims.as_slice()),
        Value::Texts { items, .. } => format!("{items:?}"),
        Value::Record(record) => {
            let fields: Vec<String> = record.fields.iter().map(|field| shape(&field.value)).collect();
            format!("record{:?}({})", record.dims.as_slice(), fields.join(","))
        }
        Value::Tuple(items) => items.iter().map(shape).collect::<Vec<_>>().join(","),
        Value::Object(object) => format!("{:p}", std::sync::Arc::as_ptr(object)),
    }
}
