//! Random numbers of the generator whose state is hidden (`impureRandom` of the Standard Library).
//!
//! The state becomes discrete variables `s`. The numbers that a when-clause draws follow each other,
//!
//! ```text
//! when .. then  (r_1, s_1) = g(pre(s));  (r_2, s_2) = g(s_1);  ..  s = s_n  end when
//! ```
//!
//! in the order in which the calls are written, whether or not the branch of an `if` that a call stands in is taken.
//! Which of two when-clauses draws first is not said by any model, so that one may draw only.

use daesy_graph::flat::{ValueType, WhenAction};
use daesy_graph::function::{Function, FunctionId};
use daesy_graph::intrinsic::{Generator, Intrinsic};
use daesy_graph::substitute::Substitution;
use daesy_graph::{ExprId, Node, Span};

use super::native::Done;
use super::value::{Type, Value};
use super::{Flattener, Res};

/// Calls that wait for the when-clauses to be known.
#[derive(Default)]
pub(crate) struct Impure {
    function: Option<FunctionId>,
    /// Where each call is, in the order of the calls.
    spans: Vec<Span>,
    /// The state at the beginning.
    state: Vec<ExprId>,
}

impl Flattener<'_> {
    /// `setInternalState(state, n, id)`
    pub(crate) fn set_impure_state(&mut self, args: &[Value], span: Span) -> Res<Done> {
        let Some(Value::Scalars(state)) = args.first() else { return Err(self.wrong_call("setInternalState", span)) };
        let state = state.items.to_vec();
        if !self.impure.state.is_empty() && self.impure.state != state {
            let what = "a hidden generator of random numbers that is set twice";
            return Err(self.unsupported("impure functions", span, what));
        }
        self.impure.state = state;
        Ok(Done::default())
    }

    /// `y = impureRandom(id)`
    pub(crate) fn draw_impure(&mut self, span: Span) -> Done {
        let function = *self.impure.function.get_or_insert_with(|| {
            self.graph.add_function(Function {
                name: "$random".to_owned(),
                n_inputs: 1,
                outputs: vec![0],
                n_locals: 1,
                body: Vec::new(),
                span: Span::NONE,
            })
        });
        // Each call is another one.
        let number = self.graph.number(self.impure.spans.len() as f64);
        self.impure.spans.push(span);
        let call = self.graph.call(function, 0, &[number]);
        Done { returned: Some(Value::scalar(Type::Real, call)), written: Vec::new() }
    }

    /// The calls among expressions and what they are made of, in their order.
    fn impure_calls(&mut self, exprs: &[ExprId]) -> Vec<(usize, ExprId)> {
        let mut reach = std::mem::take(&mut self.reach);
        let below = reach.below(&self.graph, exprs).to_vec();
        self.reach = reach;
        let mut calls: Vec<(usize, ExprId)> = below
            .into_iter()
            .filter_map(|expr| match self.graph.node(expr) {
                Node::Call { function, args, .. } if Some(function) == self.impure.function => {
                    let number = self.graph.as_number(*self.graph.args(args).first()?)?;
                    Some((number as usize, expr))
                }
                _ => None,
            })
            .collect();
        calls.sort_unstable();
        calls
    }

    /// Replaces all calls by the steps of the generator.
    pub(crate) fn resolve_impure(&mut self) -> Res<()> {
        if self.impure.function.is_none() {
            return Ok(());
        }
        let mut elsewhere: Vec<ExprId> = self.out.equations.iter().flat_map(|it| [it.lhs, it.rhs]).collect();
        elsewhere.extend(self.out.initial_equations.iter().flat_map(|it| [it.lhs, it.rhs]));
        elsewhere.extend(self.out.assertions.iter().map(|assertion| assertion.condition));
        let mut drawing = None;
        for clause in 0..self.out.when_clauses.len() {
            for branch in 0..self.out.when_clauses[clause].branches.len() {
                let one = &self.out.when_clauses[clause].branches[branch];
                elsewhere.extend(&one.conditions);
                let values = one.actions.iter().filter_map(|action| match action {
                    WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => Some(*value),
                    WhenAction::Assert(assertion) => Some(assertion.condition),
                    WhenAction::Terminate { .. } => None,
                });
                let values: Vec<ExprId> = values.collect();
                let calls = self.impure_calls(&values);
                let Some(&(first, _)) = calls.first() else { continue };
                if drawing.is_some() {
                    let what = "random numbers of a hidden generator in more than one when-clause";
                    return Err(self.unsupported("impure functions", self.impure.spans[first], what));
                }
                drawing = Some((clause, branch, calls));
            }
        }
        if let Some(&(first, _)) = self.impure_calls(&elsewhere).first() {
            let what = "random numbers of a hidden generator outside when-clauses";
            return Err(self.unsupported("impure functions", self.impure.spans[first], what));
        }
        let Some((clause, branch, calls)) = drawing else { return Ok(()) };
        let span = self.impure.spans[calls[0].0];
        let generator = Generator::Xorshift1024Star;
        if self.impure.state.len() != generator.n_state() {
            let what = "random numbers of a hidden generator that has no state yet";
            return Err(self.unsupported("impure functions", span, what));
        }
        let mut variables = Vec::new();
        for (at, start) in self.impure.state.clone().into_iter().enumerate() {
            let name = format!("$random.state[{}]", at + 1);
            let var = self.clock_variable(name, ValueType::Integer, span);
            self.variables[var.index()].start = Some(start);
            self.variables[var.index()].fixed = Some(true);
            variables.push(var);
        }
        let mut state: Vec<ExprId> = variables.iter().map(|&var| self.graph.pre(var)).collect();
        let mut substitution = Substitution::new();
        for (_, call) in calls {
            let intrinsic = Intrinsic::Random(generator);
            let number = self.graph.call_intrinsic(&intrinsic, 0, &state);
            state = (1..=state.len()).map(|at| self.graph.call_intrinsic(&intrinsic, at as u16, &state)).collect();
            substitution.replace(call, number);
        }
        self.apply_everywhere(&mut substitution);
        for at in 0..self.out.when_clauses[clause].branches.len() {
            for (&variable, &new) in variables.iter().zip(&state) {
                let value = if at == branch { new } else { self.graph.pre(variable) };
                let action = WhenAction::Assign { variable, value, span };
                self.out.when_clauses[clause].branches[at].actions.push(action);
            }
        }
        Ok(())
    }
}
