//! `spatialDistribution` [@modelica36, sec. 3.7.4.2].
//!
//! What is in a pipe is kept by a unit ([`daesy_graph::transport`]), which is read in smooth pieces at the end by which
//! the content leaves. Where a piece ends, or the flow turns, is an event:
//!
//! ```text
//! d = if forward then -1 else 1;   at = if forward then 1 - x else -x
//! read = if initial() then (if forward then the last value else the first one) else value(piece, at, d)
//! when {d (at - border(pre(piece), d)) >= 0, change(forward)} then piece = piece_of(at, d) end when
//! out0 = if forward then in0 else read;   out1 = if forward then read else in1
//! ```
//!
//! The specification leaves open by how little `out0` may differ from `in0` where the flow is forward, and `out1` from
//! `in1` where it is not; here they are equal.

use std::sync::Arc;

use daesy_graph::flat::{Assertion, Equation, Origin, ValueType, WhenAction, WhenBranch, WhenClause};
use daesy_graph::foreign::{Foreign, ForeignUnit};
use daesy_graph::function::{Function, FunctionId};
use daesy_graph::intrinsic::Intrinsic;
use daesy_graph::substitute::Substitution;
use daesy_graph::transport::{Question, Transport};
use daesy_graph::{ExprId, Graph, Node, Span, VariableKind};
use rustc_hash::FxHashMap;

use super::expr::Ctx;
use super::value::{Type, Value};
use super::{Flattener, Refused, Res};
use crate::syntax::{Expr, NamedArg};

/// How far the content may move against the direction that the model says, in lengths of the pipe.
const AGAINST: f64 = 1e-6;

/// Arguments before the places and values at the start.
const N_SIGNALS: usize = 4;

/// Calls of `spatialDistribution` that wait for all equations to be known.
#[derive(Default)]
pub(crate) struct Transports {
    /// By how many places are given at the start.
    functions: FxHashMap<usize, FunctionId>,
    spans: FxHashMap<ExprId, Span>,
}

impl<'a> Flattener<'a> {
    /// `spatialDistribution(in0, in1, x, positiveVelocity, initialPoints, initialValues)`
    pub(crate) fn transport_call(
        &mut self,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let names = ["in0", "in1", "x", "positiveVelocity", "initialPoints", "initialValues"];
        let values = self.arguments("spatialDistribution", &names, N_SIGNALS, args, named, span, ctx)?;
        if ctx.in_function {
            return Err(self.unsupported("spatialDistribution", span, "a `spatialDistribution` in a function"));
        }
        let what = "`spatialDistribution`";
        let mut items = Vec::with_capacity(N_SIGNALS);
        let mut lists = [None, None];
        for (at, value) in values.into_iter().enumerate() {
            match value {
                Some(value) if at < N_SIGNALS => {
                    let is_direction = at + 1 == N_SIGNALS;
                    let scalars = match is_direction {
                        true => self.boolean(value, what, span)?,
                        false => self.numeric(value, what, span)?,
                    };
                    items.push(self.single(&scalars, span)?);
                }
                Some(value) => {
                    let scalars = self.numeric(value, what, span)?;
                    if scalars.dims.len() != 1 {
                        let message = format!("`{}` of {what} is a vector", names[at]);
                        return Err(self.error("wrong-size", span, message));
                    }
                    lists[at - N_SIGNALS] = Some(scalars.items.to_vec());
                }
                None => {}
            }
        }
        let (zero, one) = (self.graph.number(0.0), self.graph.number(1.0));
        let [points, values] = lists;
        let points = points.unwrap_or_else(|| vec![zero, one]);
        let values = values.unwrap_or_else(|| vec![zero, zero]);
        if points.len() != values.len() || points.len() < 2 {
            let (n_points, n_values) = (points.len(), values.len());
            let message = format!("{what} has {n_points} `initialPoints` and {n_values} `initialValues`");
            let help = "give both the same length, at least 2: what is in the pipe at each of the points from 0 to 1";
            return Err(self.error_help("wrong-size", span, message, help));
        }
        let n_points = points.len();
        items.extend(points);
        items.extend(values);
        let graph = &mut self.graph;
        let function = *self.transports.functions.entry(n_points).or_insert_with(|| {
            let n_inputs = N_SIGNALS + 2 * n_points;
            graph.add_function(Function {
                name: format!("$spatialDistribution{n_points}"),
                n_inputs: n_inputs as u32,
                outputs: vec![0, 1],
                n_locals: n_inputs as u32,
                body: Vec::new(),
                span: Span::NONE,
            })
        });
        let made = [0, 1].map(|output| self.graph.call(function, output, &items));
        for call in made {
            self.transports.spans.entry(call).or_insert(span);
        }
        Ok(Value::Tuple(made.map(|call| Value::scalar(Type::Real, call)).to_vec()))
    }

    /// Replaces all calls of `spatialDistribution`.
    pub(crate) fn resolve_transports(&mut self) -> Res<()> {
        if self.transports.functions.is_empty() {
            return Ok(());
        }
        let mut exprs = self.exprs_beside_equations();
        exprs.extend(self.out.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]));
        let mut reach = std::mem::take(&mut self.reach);
        let below = reach.below(&self.graph, &exprs).to_vec();
        self.reach = reach;
        let mut substitution = Substitution::new();
        let mut made: FxHashMap<Vec<ExprId>, [ExprId; 2]> = FxHashMap::default();
        for expr in below {
            let Node::Call { function, args, output } = self.graph.node(expr) else { continue };
            if !self.transports.functions.values().any(|&known| known == function) {
                continue;
            }
            let args = self.graph.args(args).to_vec();
            let span = self.transports.spans.get(&expr).copied().unwrap_or(Span::NONE);
            let ends = match made.get(&args) {
                Some(&ends) => ends,
                None => {
                    let ends = self.pipe(&args, span)?;
                    made.insert(args, ends);
                    ends
                }
            };
            substitution.replace(expr, ends[usize::from(output)]);
        }
        self.apply_everywhere(&mut substitution);
        Ok(())
    }

    fn equate_in_pipe(&mut self, lhs: ExprId, rhs: ExprId, span: Span) {
        self.out.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component: Arc::from(""), span });
    }

    /// The variables and equations of a pipe; what is at its ends.
    fn pipe(&mut self, args: &[ExprId], span: Span) -> Res<[ExprId; 2]> {
        let [in0, in1, x, is_forward, ref initial @ ..] = *args else { return Err(Refused) };
        let (points, values) = initial.split_at(initial.len() / 2);
        let name = format!("$transport{}", self.variables.len());
        let continuous = |this: &mut Self, part: &str| {
            let var = this.clock_variable(format!("{name}.{part}"), ValueType::Real, span);
            this.variables[var.index()].kind = VariableKind::Continuous;
            this.graph.var(var)
        };
        let [low, high, moved, at, read, out0, out1] =
            ["in0", "in1", "x", "at", "read", "out0", "out1"].map(|part| continuous(self, part));
        for (place, (&point, &value)) in points.iter().zip(values).enumerate() {
            let (point_var, value_var) = (format!("point[{}]", place + 1), format!("value[{}]", place + 1));
            let (point_var, value_var) = (continuous(self, &point_var), continuous(self, &value_var));
            self.equate_in_pipe(point_var, point, span);
            self.equate_in_pipe(value_var, value, span);
        }
        let forward_var = self.clock_variable(format!("{name}.forward"), ValueType::Boolean, span);
        let piece = self.clock_variable(format!("{name}.piece"), ValueType::Integer, span);
        let unit: Arc<dyn ForeignUnit> = Arc::new(Transport::new(&name, points.len()));
        let ask = |graph: &mut Graph, question: Question, args: &[ExprId]| {
            let (function, name, n_inputs) = question.signature();
            let foreign = Foreign { unit: unit.clone(), function, name, n_inputs, n_outputs: 1, order: 0 };
            graph.call_intrinsic(&Intrinsic::Foreign(foreign), 0, args)
        };
        let graph = &mut self.graph;
        let (forward, piece_now, piece_before) = (graph.var(forward_var), graph.var(piece), graph.pre(piece));
        let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|number| graph.number(number));
        let direction = graph.select(forward, minus_one, one);
        let (low_end, high_end) = (graph.neg(moved), graph.sub(one, moved));
        let leaving = graph.select(forward, high_end, low_end);
        let value = ask(graph, Question::Value, &[piece_now, at, direction]);
        let first = graph.select(forward, values[values.len() - 1], values[0]);
        let is_initial = graph.intern(Node::Initial);
        let value = graph.select(is_initial, first, value);
        let at_low = graph.select(forward, low, read);
        let at_high = graph.select(forward, read, high);
        let last_piece = graph.number((points.len() - 2) as f64);
        let first_piece = graph.select(forward, last_piece, zero);
        let border = ask(graph, Question::Border, &[piece_before, direction]);
        let next = ask(graph, Question::Piece, &[at, direction]);
        let beyond = graph.sub(at, border);
        let beyond = graph.mul(direction, beyond);
        let is_over = graph.greater_equal(beyond, zero);
        let forward_before = graph.pre(forward_var);
        let has_turned = graph.not_equal(forward, forward_before);
        let excess = ask(graph, Question::Excess, &[at, direction]);
        let excess = graph.select(is_initial, zero, excess);
        let allowed = graph.number(AGAINST);
        let with_flow = graph.less_equal(excess, allowed);
        let with_flow = graph.no_event(with_flow);
        let sides = [
            (low, in0),
            (high, in1),
            (moved, x),
            (forward, is_forward),
            (at, leaving),
            (read, value),
            (out0, at_low),
            (out1, at_high),
        ];
        for (lhs, rhs) in sides {
            self.equate_in_pipe(lhs, rhs, span);
        }
        let component: Arc<str> = Arc::from("");
        let start =
            Equation { lhs: piece_now, rhs: first_piece, origin: Origin::Equation, component: component.clone(), span };
        self.out.initial_equations.push(start);
        let actions = vec![WhenAction::Assign { variable: piece, value: next, span }];
        let branches = vec![WhenBranch { conditions: vec![is_over, has_turned], actions }];
        self.out.when_clauses.push(WhenClause { branches, component: component.clone(), span });
        let message = "`x` of a `spatialDistribution` moves against its `positiveVelocity`".to_owned();
        let mut assertions = vec![(with_flow, message)];
        assertions.extend(self.ordered(points));
        for (condition, message) in assertions {
            let component = component.clone();
            self.out.assertions.push(Assertion { condition, message, is_warning: false, component, span });
        }
        Ok([out0, out1])
    }

    /// Conditions on the points at the start of a pipe, with what is said where they do not hold.
    fn ordered(&mut self, points: &[ExprId]) -> Vec<(ExprId, String)> {
        let mut conditions = Vec::with_capacity(points.len() + 1);
        let graph = &mut self.graph;
        let (zero, one) = (graph.number(0.0), graph.number(1.0));
        let (first, last) = (points[0], points[points.len() - 1]);
        let at_ends = "`initialPoints` of a `spatialDistribution` begin with 0 and end with 1";
        conditions.push((graph.equal(first, zero), at_ends.to_owned()));
        conditions.push((graph.equal(last, one), at_ends.to_owned()));
        let in_order = "`initialPoints` of a `spatialDistribution` grow, and 0 and 1 stand there once";
        for (at, pair) in points.windows(2).enumerate() {
            let is_end = at == 0 || at + 2 == points.len();
            let condition = if is_end { graph.less(pair[0], pair[1]) } else { graph.less_equal(pair[0], pair[1]) };
            conditions.push((condition, in_order.to_owned()));
        }
        conditions
    }
}
