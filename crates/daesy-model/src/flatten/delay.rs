//! `delay` [@modelica36, sec. 3.7.4.1].
//!
//! A time of zero that parameters give delays nothing. A signal that changes at events only is a list of changes, and so is the delayed one. The changes that are under way
//! wait in a queue of discrete variables, the next one first:
//!
//! ```text
//! when {u <> pre(u), time >= pre(at[1])} then
//!   take out the k entries whose time has come, y = the last of them; put in (time + T, u) if u has changed
//! end when
//! ```
//!
//! A signal that varies continuously, or a time that does, needs a history ([`daesy_graph::history`]), which is read in
//! smooth pieces; where one ends is an event:
//!
//! ```text
//! at = time - T;   y = if initial() then u else value(piece, at)
//! when at >= end(pre(piece)) then piece = piece_of(at) end when
//! ```

use std::sync::Arc;

use daesy_graph::flat::{Assertion, Equation, Origin, ValueType, WhenAction, WhenBranch, WhenClause};
use daesy_graph::foreign::{Foreign, ForeignUnit};
use daesy_graph::function::{Function, FunctionId};
use daesy_graph::history::{History, Question};
use daesy_graph::intrinsic::Intrinsic;
use daesy_graph::substitute::Substitution;
use daesy_graph::{ExprId, Graph, Node, Span, VarId, VariableKind};
use rustc_hash::FxHashMap;

use super::expr::{Ctx, Variability};
use super::value::{Type, Value};
use super::{Flattener, Refused, Res};
use crate::syntax::{Expr, NamedArg};

/// Changes that may be under way at a time.
const CAPACITY: usize = 8;

/// A time that does not come.
const NEVER: f64 = 1e60;

/// Times closer than this, relative to their size, are the same.
const SAME_TIME: f64 = 1e-13;

/// Calls of `delay` that wait for all equations to be known.
#[derive(Default)]
pub(crate) struct Delays {
    function: Option<FunctionId>,
    spans: FxHashMap<ExprId, Span>,
}

/// The variables of a queue.
struct Queue {
    signal: VarId,
    output: VarId,
    length: VarId,
    at: Vec<VarId>,
    values: Vec<VarId>,
    lag: ExprId,
    span: Span,
}

impl<'a> Flattener<'a> {
    /// `delay(signal, lag, max)`
    pub(crate) fn delay_call(
        &mut self,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let names = ["expr", "delayTime", "delayMax"];
        let mut values = self.arguments("delay", &names, 2, args, named, span, ctx)?.into_iter();
        let (Some(Some(signal)), Some(Some(lag))) = (values.next(), values.next()) else { return Err(Refused) };
        let signal = self.scalars(signal, "`delay`", span)?;
        let lag = self.numeric(lag, "`delay`", span)?;
        let (item, lag) = (self.single(&signal, span)?, self.single(&lag, span)?);
        if ctx.in_function || !signal.ty.is_numeric() {
            return Err(self.unsupported("delay", span, "a `delay` in a function, or of other than numbers"));
        }
        let function = *self.delays.function.get_or_insert_with(|| {
            self.graph.add_function(Function {
                name: "$delay".to_owned(),
                n_inputs: 2,
                outputs: vec![0],
                n_locals: 2,
                body: Vec::new(),
                span: Span::NONE,
            })
        });
        let made = self.graph.call(function, 0, &[item, lag]);
        self.delays.spans.entry(made).or_insert(span);
        Ok(Value::scalar(Type::Real, made))
    }

    /// Replaces all calls of `delay`.
    pub(crate) fn resolve_delays(&mut self) -> Res<()> {
        let Some(function) = self.delays.function else { return Ok(()) };
        let mut exprs = self.exprs_beside_equations();
        exprs.extend(self.out.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]));
        let mut reach = std::mem::take(&mut self.reach);
        let below = reach.below(&self.graph, &exprs).to_vec();
        self.reach = reach;
        let mut substitution = Substitution::new();
        for expr in below {
            let Node::Call { function: called, args, .. } = self.graph.node(expr) else { continue };
            let (true, &[item, lag]) = (called == function, self.graph.args(args)) else { continue };
            let span = self.delays.spans.get(&expr).copied().unwrap_or(Span::NONE);
            let is_fixed = self.variability_of(lag) <= Variability::Parameter;
            if is_fixed && self.is_known_zero(lag, span) {
                substitution.replace(expr, item);
                continue;
            }
            let output = match self.event_value(item).filter(|_| is_fixed) {
                Some(value) => {
                    let queue = self.queue(value, lag, span);
                    self.serve(&queue);
                    self.graph.var(queue.output)
                }
                None => self.past(item, lag, span),
            };
            substitution.replace(expr, output);
        }
        self.apply_everywhere(&mut substitution);
        Ok(())
    }

    /// Whether a time that parameters give is zero, so that nothing is delayed; these parameters are then structural.
    fn is_known_zero(&mut self, lag: ExprId, span: Span) -> bool {
        if !self.can_be_known(lag) {
            return false;
        }
        let marks: Vec<bool> = self.prims.iter().map(|prim| prim.is_structural).collect();
        let is_zero = self.known_number(lag, span).is_ok_and(|lag| lag == 0.0);
        if !is_zero {
            self.prims.iter_mut().zip(marks).for_each(|(prim, mark)| prim.is_structural = mark);
        }
        self.copy_structural_marks();
        is_zero
    }

    /// What a signal was some time ago, by its history.
    fn past(&mut self, item: ExprId, lag: ExprId, span: Span) -> ExprId {
        let name = format!("$delay{}", self.variables.len());
        let continuous = |this: &mut Self, part: &str| {
            let var = this.clock_variable(format!("{name}.{part}"), ValueType::Real, span);
            this.variables[var.index()].kind = VariableKind::Continuous;
            var
        };
        let (signal, at, output) = (continuous(self, "u"), continuous(self, "at"), continuous(self, "y"));
        let piece = self.clock_variable(format!("{name}.piece"), ValueType::Integer, span);
        let unit: Arc<dyn ForeignUnit> = Arc::new(History::new(format!("{name}.u"), format!("{name}.at")));
        let ask = |graph: &mut Graph, question: Question, args: &[ExprId]| {
            let (function, name, n_inputs) = question.signature();
            let foreign = Foreign { unit: unit.clone(), function, name, n_inputs, n_outputs: 1, order: 0 };
            graph.call_intrinsic(&Intrinsic::Foreign(foreign), 0, args)
        };
        let graph = &mut self.graph;
        let (u, at_value, y) = (graph.var(signal), graph.var(at), graph.var(output));
        let (time, now, before) = (graph.time(), graph.var(piece), graph.pre(piece));
        let then = graph.sub(time, lag);
        let value = ask(graph, Question::Value, &[now, at_value]);
        let is_initial = graph.intern(Node::Initial);
        let value = graph.select(is_initial, u, value);
        let end = ask(graph, Question::End, &[before]);
        let next = ask(graph, Question::Piece, &[at_value]);
        let is_over = graph.greater_equal(at_value, end);
        let zero = graph.number(0.0);
        let is_later = graph.greater(lag, zero);
        let component: Arc<str> = Arc::from("");
        for (lhs, rhs) in [(u, item), (at_value, then), (y, value)] {
            let component = component.clone();
            self.out.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component, span });
        }
        let actions = vec![WhenAction::Assign { variable: piece, value: next, span }];
        let branches = vec![WhenBranch { conditions: vec![is_over], actions }];
        self.out.when_clauses.push(WhenClause { branches, component: component.clone(), span });
        let message = "the time of a `delay` must be positive".to_owned();
        self.out.assertions.push(Assertion { condition: is_later, message, is_warning: false, component, span });
        y
    }

    /// The value of an expression that changes at events only, or that an equation says is equal to one that does.
    fn event_value(&mut self, item: ExprId) -> Option<ExprId> {
        if self.variability_of(item) <= Variability::Discrete {
            return Some(item);
        }
        let sides: Vec<(ExprId, ExprId)> =
            self.out.equations.iter().map(|equation| (equation.lhs, equation.rhs)).collect();
        sides.into_iter().find_map(|(lhs, rhs)| {
            let other = if lhs == item { rhs } else { lhs };
            ((lhs == item || rhs == item) && self.variability_of(other) <= Variability::Discrete).then_some(other)
        })
    }

    fn queue(&mut self, value: ExprId, lag: ExprId, span: Span) -> Queue {
        let name = format!("$delay{}", self.variables.len());
        let real = |this: &mut Self, part: String| this.clock_variable(format!("{name}.{part}"), ValueType::Real, span);
        let (signal, output) = (real(self, "u".to_owned()), real(self, "y".to_owned()));
        let at: Vec<VarId> = (1..=CAPACITY).map(|place| real(self, format!("at[{place}]"))).collect();
        let values = (1..=CAPACITY).map(|place| real(self, format!("value[{place}]"))).collect();
        let length = self.clock_variable(format!("{name}.length"), ValueType::Integer, span);
        let never = self.graph.number(NEVER);
        for var in &at {
            self.variables[var.index()].start = Some(never);
        }
        let (lhs, now) = (self.graph.var(signal), self.graph.var(output));
        let component: Arc<str> = Arc::from("");
        let equation = |lhs: ExprId, rhs: ExprId| Equation {
            lhs,
            rhs,
            origin: Origin::Equation,
            component: component.clone(),
            span,
        };
        self.out.equations.push(equation(lhs, value));
        self.out.initial_equations.push(equation(now, lhs));
        Queue { signal, output, length, at, values, lag, span }
    }

    /// The when-clause of a queue.
    fn serve(&mut self, queue: &Queue) {
        let span = queue.span;
        let time = self.graph.time();
        let (signal, signal_before) = (self.graph.var(queue.signal), self.graph.pre(queue.signal));
        let is_new = self.graph.not_equal(signal, signal_before);
        let at: Vec<ExprId> = queue.at.iter().map(|&var| self.graph.pre(var)).collect();
        let values: Vec<ExprId> = queue.values.iter().map(|&var| self.graph.pre(var)).collect();
        let length = self.graph.pre(queue.length);
        // Rounding may have put the time just before the one that has come.
        let slack = self.graph.number(1.0 + SAME_TIME);
        let late = self.graph.mul(time, slack);
        let has_come: Vec<ExprId> = at
            .iter()
            .map(|&at| {
                let relation = self.graph.less_equal(at, late);
                self.graph.no_event(relation)
            })
            .collect();
        let (zero, one) = (self.graph.number(0.0), self.graph.number(1.0));
        let mut n_taken = zero;
        let mut output = self.graph.pre(queue.output);
        for (&come, &value) in has_come.iter().zip(&values) {
            let counted = self.graph.select(come, one, zero);
            n_taken = self.graph.add(n_taken, counted);
            output = self.graph.select(come, value, output);
        }
        let left = self.graph.sub(length, n_taken);
        let arrival = self.graph.add(time, queue.lag);
        let never = self.graph.number(NEVER);
        let assign = |variable: VarId, value: ExprId| WhenAction::Assign { variable, value, span };
        let mut actions = vec![assign(queue.output, output)];
        for place in 0..CAPACITY {
            let here = self.graph.number(place as f64);
            let is_last = self.graph.equal(left, here);
            let is_mine = self.graph.and(is_new, is_last);
            let kept = self.shifted(&at, place, n_taken, never);
            let kept_value = self.shifted(&values, place, n_taken, zero);
            let new_at = self.graph.select(is_mine, arrival, kept);
            let new_value = self.graph.select(is_mine, signal, kept_value);
            actions.push(assign(queue.at[place], new_at));
            actions.push(assign(queue.values[place], new_value));
        }
        let added = self.graph.select(is_new, one, zero);
        let new_length = self.graph.add(left, added);
        actions.push(assign(queue.length, new_length));
        let capacity = self.graph.number(CAPACITY as f64);
        let condition = self.graph.less_equal(new_length, capacity);
        let message = format!("more than {CAPACITY} changes of a signal are on their way through a `delay`");
        let component: Arc<str> = Arc::from("");
        let assertion = Assertion { condition, message, is_warning: false, component: component.clone(), span };
        actions.push(WhenAction::Assert(assertion));
        let is_time = self.graph.greater_equal(time, at[0]);
        let branches = vec![WhenBranch { conditions: vec![is_new, is_time], actions }];
        self.out.when_clauses.push(WhenClause { branches, component, span });
    }

    /// The entry of a place after so many were taken out in front.
    fn shifted(&mut self, entries: &[ExprId], place: usize, n_taken: ExprId, empty: ExprId) -> ExprId {
        (0..=CAPACITY).rev().fold(empty, |otherwise, taken| {
            let entry = entries.get(place + taken).copied().unwrap_or(empty);
            let number = self.graph.number(taken as f64);
            let is_it = self.graph.equal(n_taken, number);
            self.graph.select(is_it, entry, otherwise)
        })
    }
}
