//! The reference evaluator: what expressions are worth at a point, plainly and without cleverness.
//!
//! The operations are those of [`crate::scalar`]. `if`, `and`, `or` and `homotopy` need only the arguments that decide,
//! in this order: what they do not need is not an error. Functions are interpreted statement by statement.
//!
//! Two ways to ask: [`Evaluator::evaluate`] gives a number whatever happens (NaN or infinity where something is not
//! defined), [`Evaluator::evaluate_checked`] gives finite numbers or the reason why there is none.

use rustc_hash::FxHashMap;

use crate::function::{Function, FunctionId, Statement};
use crate::graph::Graph;
use crate::node::{ArgList, BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::scalar::{apply_binary, apply_unary, is_true, truth};
use crate::traverse::{Leaf, Reach};

/// Where the values of leaves come from.
pub trait Environment {
    /// The value of the `order`-th time derivative of a variable.
    fn value(&self, var: VarId, order: u16) -> f64;

    /// Time.
    fn time(&self) -> f64 {
        0.0
    }

    /// The left limit of a discrete variable.
    fn pre(&self, var: VarId) -> f64 {
        self.value(var, 0)
    }

    /// Whether this is the start.
    fn is_initial(&self) -> bool {
        false
    }

    /// Whether this is the end.
    fn is_terminal(&self) -> bool {
        false
    }

    /// Whether this is a tick of the given clock.
    fn is_sample(&self, _start: f64, _interval: f64) -> bool {
        false
    }

    /// The weight of the actual expression of `homotopy`: 1 for the model as it is, 0 for the simplified one.
    fn homotopy(&self) -> f64 {
        1.0
    }
}

/// A time and the values of parameters and constants by variable; NaN for all others.
#[derive(Clone, Copy, Debug)]
pub struct AtTime<'a> {
    /// The time.
    pub time: f64,
    /// By variable.
    pub parameter_of: &'a [f64],
}

impl Environment for AtTime<'_> {
    fn value(&self, var: VarId, _order: u16) -> f64 {
        self.parameter_of.get(var.index()).copied().unwrap_or(f64::NAN)
    }

    fn time(&self) -> f64 {
        self.time
    }
}

impl<F: Fn(VarId, u16) -> f64> Environment for F {
    fn value(&self, var: VarId, order: u16) -> f64 {
        self(var, order)
    }
}

/// Why an expression has no finite value.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// A quotient, `div`, `mod` or `rem` by zero.
    #[error("division by zero")]
    DivisionByZero {
        /// The quotient.
        expr: ExprId,
    },
    /// A function of one argument outside of its domain.
    #[error("{function} of {argument}")]
    OutsideDomain {
        /// Its name.
        function: &'static str,
        /// The argument.
        argument: f64,
        /// The expression.
        expr: ExprId,
    },
    /// A negative number to a broken power, or zero to a negative one.
    #[error("{base} to the power {exponent}")]
    PowerOutsideDomain {
        /// The base.
        base: f64,
        /// The exponent.
        exponent: f64,
        /// The power.
        expr: ExprId,
    },
    /// The result is too large for a double.
    #[error("the result is too large")]
    Overflow {
        /// The expression.
        expr: ExprId,
    },
    /// A leaf has no value, or one that is not finite.
    #[error("a variable has no finite value")]
    NoValue {
        /// The leaf, if it is time or a variable (and not the left limit of one).
        leaf: Option<Leaf>,
        /// The expression.
        expr: ExprId,
    },
    /// An array element that does not exist.
    #[error("index {index} is outside of 1 to {len}")]
    IndexOutOfRange {
        /// The index.
        index: f64,
        /// The number of elements.
        len: u32,
        /// The function.
        function: String,
    },
    /// A function runs for too long.
    #[error("the function `{function}` did not end within {limit} statements")]
    StepLimit {
        /// The function.
        function: String,
        /// The limit on statements for one evaluation.
        limit: u64,
    },
    /// Functions call each other too deep.
    #[error("function {function} is called more than {limit} levels deep")]
    CallDepth {
        /// The function.
        function: String,
        /// The limit.
        limit: u32,
    },
    /// An assertion of a function does not hold.
    #[error("assertion in function {function}: {message}")]
    AssertionFailed {
        /// The function.
        function: String,
        /// What the assertion says.
        message: String,
    },
    /// A call that does not fit the function.
    #[error("function {function} has no place for {given} arguments or no such output")]
    WrongCall {
        /// The function.
        function: String,
        /// Number of arguments given.
        given: usize,
    },
}

impl EvaluationError {
    /// The expression that has no value, where it is known.
    #[must_use]
    pub const fn expr(&self) -> Option<ExprId> {
        match *self {
            Self::DivisionByZero { expr }
            | Self::OutsideDomain { expr, .. }
            | Self::PowerOutsideDomain { expr, .. }
            | Self::Overflow { expr }
            | Self::NoValue { expr, .. } => Some(expr),
            _ => None,
        }
    }
}

/// Bounds on the interpretation of functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Statements and calls in one evaluation.
    pub steps: u64,
    /// Levels of calls.
    pub call_depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 1_000_000, call_depth: 200 }
    }
}

/// Values already known, by expression: an array whose entries count only if their mark is the current one.
#[derive(Clone, Debug, Default)]
struct DenseMemo {
    values: Vec<f64>,
    marks: Vec<u32>,
    generation: u32,
}

impl DenseMemo {
    fn begin(&mut self, len: usize) {
        if self.generation == u32::MAX {
            self.marks.fill(0);
            self.generation = 0;
        }
        self.generation += 1;
        if self.marks.len() < len {
            // Graphs grow. Memory that is asked for as zeros is not written until it is used.
            let len = len + len / 2;
            (self.marks, self.values, self.generation) = (vec![0; len], vec![0.0; len], 1);
        }
    }

    fn get(&self, expr: ExprId) -> Option<f64> {
        (self.marks[expr.index()] == self.generation).then(|| self.values[expr.index()])
    }

    fn set(&mut self, expr: ExprId, value: f64) {
        self.marks[expr.index()] = self.generation;
        self.values[expr.index()] = value;
    }
}

/// The results of calls already made, all outputs of each.
type CallResults = FxHashMap<(FunctionId, ArgList), Vec<f64>>;

/// Evaluates expressions of a graph; keeps its memory between calls.
#[derive(Clone, Debug, Default)]
pub struct Evaluator {
    /// Bounds on functions.
    pub limits: Limits,
    memo: DenseMemo,
    reach: Reach,
    stack: Vec<ExprId>,
    /// Memory for the bodies of functions.
    memos: Vec<DenseMemo>,
}

impl Evaluator {
    /// An evaluator with the usual limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The values of `roots`, NaN or infinite where they are not defined. Replaces what is in `values`.
    pub fn evaluate(&mut self, graph: &Graph, roots: &[ExprId], env: &dyn Environment, values: &mut Vec<f64>) {
        values.clear();
        self.memo.begin(graph.len());
        if roots.iter().any(|&root| graph.has_calls(root)) {
            // A call in a branch that is not taken may never end (recursion): only what is needed is evaluated.
            let mut run =
                Run { graph, env, is_checked: false, limits: self.limits, steps: 0, depth: 0, memos: &mut self.memos };
            let mut calls = CallResults::default();
            for &root in roots {
                let value = run.value(root, None, &mut self.memo, &mut self.stack, &mut calls);
                values.push(value.unwrap_or(f64::NAN));
            }
            return;
        }
        let memo = &mut self.memo.values;
        evaluate_in_order(graph, self.reach.below(graph, roots), env, memo);
        values.extend(roots.iter().map(|&root| memo[root.index()]));
    }

    /// The value of one expression, NaN or infinite where it is not defined.
    pub fn evaluate_one(&mut self, graph: &Graph, root: ExprId, env: &dyn Environment) -> f64 {
        let mut values = Vec::with_capacity(1);
        self.evaluate(graph, &[root], env, &mut values);
        values[0]
    }

    /// The finite value of an expression.
    ///
    /// # Errors
    /// The first thing met that is not defined: a division by zero, a logarithm of a negative number, an assertion of a
    /// function that does not hold, and so on.
    pub fn evaluate_checked(
        &mut self,
        graph: &Graph,
        root: ExprId,
        env: &dyn Environment,
    ) -> Result<f64, EvaluationError> {
        self.memo.begin(graph.len());
        let mut run =
            Run { graph, env, is_checked: true, limits: self.limits, steps: 0, depth: 0, memos: &mut self.memos };
        run.value(root, None, &mut self.memo, &mut self.stack, &mut CallResults::default())
    }

    /// The outputs of a function.
    ///
    /// # Errors
    /// The first thing met that is not defined.
    pub fn call_checked(
        &mut self,
        graph: &Graph,
        function: FunctionId,
        args: &[f64],
    ) -> Result<Vec<f64>, EvaluationError> {
        let nothing = |_: VarId, _: u16| f64::NAN;
        let mut run = Run {
            graph,
            env: &nothing,
            is_checked: true,
            limits: self.limits,
            steps: 0,
            depth: 0,
            memos: &mut self.memos,
        };
        run.call(function, args)
    }
}

/// Evaluates expressions without calls, arguments first, into `memo`, by expression.
fn evaluate_in_order(graph: &Graph, order: &[ExprId], env: &dyn Environment, memo: &mut [f64]) {
    for &expr in order {
        let of = |expr: ExprId| memo[expr.index()];
        let value = match graph.node(expr) {
            Node::Unary { op, arg } => apply_unary(op, of(arg)),
            Node::Binary { op: BinaryOp::Homotopy, lhs, rhs } => mix(env.homotopy(), of(lhs), of(rhs)),
            Node::Binary { op, lhs, rhs } => apply_binary(op, of(lhs), of(rhs)),
            Node::Select { condition, then, otherwise } => {
                if is_true(of(condition)) {
                    of(then)
                } else {
                    of(otherwise)
                }
            }
            Node::Smooth { arg, .. } => of(arg),
            Node::Sample { start, interval } => truth(env.is_sample(of(start), of(interval))),
            leaf => leaf_value(leaf, env),
        };
        memo[expr.index()] = value;
    }
}

/// Expressions that are evaluated many times: what is below them is listed once.
#[derive(Clone, Debug)]
pub struct Listed {
    roots: Vec<ExprId>,
    /// Arguments first; `None` where there are calls, of which only those that are needed may be made.
    order: Option<Vec<ExprId>>,
}

impl Listed {
    /// Lists what is below the roots.
    #[must_use]
    pub fn new(graph: &Graph, roots: Vec<ExprId>) -> Self {
        let has_calls = roots.iter().any(|&root| graph.has_calls(root));
        let order = (!has_calls).then(|| Reach::new().below(graph, &roots).to_vec());
        Self { roots, order }
    }

    /// The values of the roots in the graph they were listed in, as [`Evaluator::evaluate`] gives them. `memory` is
    /// overwritten.
    pub fn evaluate(&self, graph: &Graph, env: &dyn Environment, memory: &mut Vec<f64>, values: &mut [f64]) {
        match &self.order {
            Some(order) => {
                memory.resize(graph.len(), 0.0);
                evaluate_in_order(graph, order, env, memory);
                for (value, root) in values.iter_mut().zip(&self.roots) {
                    *value = memory[root.index()];
                }
            }
            None => {
                Evaluator::new().evaluate(graph, &self.roots, env, memory);
                values.copy_from_slice(memory);
            }
        }
    }
}

fn mix(weight: f64, actual: f64, simplified: f64) -> f64 {
    if weight == 1.0 {
        actual
    } else if weight == 0.0 {
        simplified
    } else {
        weight * actual + (1.0 - weight) * simplified
    }
}

fn leaf_value(node: Node, env: &dyn Environment) -> f64 {
    match node {
        Node::Number(bits) => f64::from_bits(bits),
        Node::Time => env.time(),
        Node::Var { var, order } => env.value(var, order),
        Node::Pre(var) => env.pre(var),
        Node::Initial => truth(env.is_initial()),
        Node::Terminal => truth(env.is_terminal()),
        // Locals mean nothing outside of a function.
        _ => f64::NAN,
    }
}

/// How a list of statements ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Return,
}

/// The locals of a running function.
struct Body<'run> {
    function: &'run Function,
    locals: Vec<f64>,
    memo: DenseMemo,
    stack: Vec<ExprId>,
    calls: CallResults,
}

/// One evaluation with everything needed below it.
struct Run<'run> {
    graph: &'run Graph,
    env: &'run dyn Environment,
    is_checked: bool,
    limits: Limits,
    steps: u64,
    depth: u32,
    /// Memory for the bodies of functions that are to be called.
    memos: &'run mut Vec<DenseMemo>,
}

impl<'run> Run<'run> {
    /// The value of an expression. Depth first with an own stack; an expression is looked at again when what it was
    /// waiting for is known.
    fn value(
        &mut self,
        root: ExprId,
        locals: Option<Locals<'_>>,
        memo: &mut DenseMemo,
        stack: &mut Vec<ExprId>,
        calls: &mut CallResults,
    ) -> Result<f64, EvaluationError> {
        stack.clear();
        stack.push(root);
        while let Some(&expr) = stack.last() {
            if memo.get(expr).is_some() {
                stack.pop();
                continue;
            }
            if let Some(value) = self.step(expr, locals, memo, stack, calls)? {
                if self.is_checked && !value.is_finite() {
                    return Err(self.reason(expr, memo));
                }
                memo.set(expr, value);
                stack.pop();
            }
        }
        Ok(memo.get(root).unwrap_or(f64::NAN))
    }

    /// The value of an expression if its arguments are known; otherwise puts those on the stack.
    fn step(
        &mut self,
        expr: ExprId,
        locals: Option<Locals<'_>>,
        memo: &DenseMemo,
        stack: &mut Vec<ExprId>,
        calls: &mut CallResults,
    ) -> Result<Option<f64>, EvaluationError> {
        let mut need = |expr: ExprId| {
            let value = memo.get(expr);
            if value.is_none() {
                stack.push(expr);
            }
            value
        };
        Ok(match self.graph.node(expr) {
            Node::Unary { op, arg } => need(arg).map(|a| apply_unary(op, a)),
            Node::Smooth { arg, .. } => need(arg),
            Node::Binary { op: op @ (BinaryOp::And | BinaryOp::Or), lhs, rhs } => match need(lhs) {
                Some(a) if is_true(a) == (op == BinaryOp::Or) => Some(truth(is_true(a))),
                Some(_) => need(rhs).map(|b| truth(is_true(b))),
                None => None,
            },
            Node::Binary { op: BinaryOp::Homotopy, lhs, rhs } => {
                let weight = self.env.homotopy();
                if weight == 1.0 {
                    need(lhs)
                } else if weight == 0.0 {
                    need(rhs)
                } else {
                    let (a, b) = (need(lhs), need(rhs));
                    a.zip(b).map(|(a, b)| mix(weight, a, b))
                }
            }
            Node::Binary { op, lhs, rhs } => {
                let (a, b) = (need(lhs), need(rhs));
                a.zip(b).map(|(a, b)| apply_binary(op, a, b))
            }
            Node::Select { condition, then, otherwise } => match need(condition) {
                Some(value) => need(if is_true(value) { then } else { otherwise }),
                None => None,
            },
            Node::Sample { start, interval } => {
                let (a, b) = (need(start), need(interval));
                a.zip(b).map(|(a, b)| truth(self.env.is_sample(a, b)))
            }
            Node::Call { function, output, args } => {
                let list = self.graph.args(args);
                let mut values = Vec::with_capacity(list.len());
                for &arg in list {
                    values.extend(need(arg));
                }
                if values.len() < list.len() {
                    return Ok(None);
                }
                let outputs = match calls.entry((function, args)) {
                    std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
                    std::collections::hash_map::Entry::Vacant(place) => place.insert(self.call(function, &values)?),
                };
                match outputs.get(usize::from(output)) {
                    Some(&value) => Some(value),
                    None => return Err(self.wrong_call(function, list.len())),
                }
            }
            Node::Local(local) => Some(locals.map_or(f64::NAN, |locals| locals.values[local as usize])),
            Node::LocalAt { base, len, index } => match need(index) {
                Some(index) => {
                    let place = element(index, len)
                        .ok_or_else(|| self.out_of_range(index, len, locals.map_or("", |locals| locals.function)))?;
                    Some(locals.map_or(f64::NAN, |locals| locals.values[(base + place) as usize]))
                }
                None => None,
            },
            leaf => Some(leaf_value(leaf, self.env)),
        })
    }

    /// Why an expression whose arguments are finite has no finite value.
    fn reason(&self, expr: ExprId, memo: &DenseMemo) -> EvaluationError {
        let of = |expr: ExprId| memo.get(expr).unwrap_or(f64::NAN);
        match self.graph.node(expr) {
            Node::Time => EvaluationError::NoValue { leaf: Some(Leaf::Time), expr },
            Node::Var { var, order } => EvaluationError::NoValue { leaf: Some(Leaf::Var { var, order }), expr },
            Node::Number(_) | Node::Pre(_) | Node::Local(_) | Node::LocalAt { .. } => {
                EvaluationError::NoValue { leaf: None, expr }
            }
            Node::Unary { op, arg } => {
                let function = match op {
                    UnaryOp::Sqrt => "sqrt",
                    UnaryOp::Log => "log",
                    UnaryOp::Log10 => "log10",
                    UnaryOp::Asin => "asin",
                    UnaryOp::Acos => "acos",
                    _ => return EvaluationError::Overflow { expr },
                };
                EvaluationError::OutsideDomain { function, argument: of(arg), expr }
            }
            Node::Binary { op, lhs, rhs } => match op {
                BinaryOp::Div | BinaryOp::Quotient | BinaryOp::Modulo | BinaryOp::Remainder if of(rhs) == 0.0 => {
                    EvaluationError::DivisionByZero { expr }
                }
                BinaryOp::Pow if of(lhs) == 0.0 || (of(lhs) < 0.0 && of(rhs).fract() != 0.0) => {
                    EvaluationError::PowerOutsideDomain { base: of(lhs), exponent: of(rhs), expr }
                }
                _ => EvaluationError::Overflow { expr },
            },
            _ => EvaluationError::Overflow { expr },
        }
    }

    fn wrong_call(&self, function: FunctionId, given: usize) -> EvaluationError {
        EvaluationError::WrongCall { function: self.graph.function(function).name.clone(), given }
    }

    fn out_of_range(&self, index: f64, len: u32, function: &str) -> EvaluationError {
        EvaluationError::IndexOutOfRange { index, len, function: function.to_owned() }
    }

    fn count(&mut self, function: &Function) -> Result<(), EvaluationError> {
        self.steps += 1;
        if self.steps > self.limits.steps {
            let error = EvaluationError::StepLimit { function: function.name.clone(), limit: self.limits.steps };
            self.graph.note_endless(&error);
            return Err(error);
        }
        Ok(())
    }

    /// Runs a function. Recurses once for each level of calls, which are limited.
    fn call(&mut self, id: FunctionId, args: &[f64]) -> Result<Vec<f64>, EvaluationError> {
        let function = self.graph.function(id);
        if args.len() != function.n_inputs as usize {
            return Err(self.wrong_call(id, args.len()));
        }
        if self.depth == 0
            && let Some(error) = self.graph.endless()
        {
            return Err(error.clone());
        }
        self.count(function)?;
        if self.depth >= self.limits.call_depth {
            let limit = self.limits.call_depth;
            return Err(EvaluationError::CallDepth { function: function.name.clone(), limit });
        }
        self.depth += 1;
        let mut locals = args.to_vec();
        locals.resize(function.n_locals as usize, 0.0);
        let memo = self.memos.pop().unwrap_or_default();
        let mut body = Body { function, locals, memo, stack: Vec::new(), calls: CallResults::default() };
        let flow = self.run(&function.body, &mut body);
        self.memos.push(std::mem::take(&mut body.memo));
        self.depth -= 1;
        flow?;
        Ok(function.outputs.iter().map(|&output| body.locals[output as usize]).collect())
    }

    fn value_in(&mut self, expr: ExprId, body: &mut Body<'run>) -> Result<f64, EvaluationError> {
        if let Node::Number(bits) = self.graph.node(expr) {
            return Ok(f64::from_bits(bits));
        }
        body.memo.begin(self.graph.len());
        body.calls.clear();
        let locals = Locals { values: &body.locals, function: &body.function.name };
        self.value(expr, Some(locals), &mut body.memo, &mut body.stack, &mut body.calls)
    }

    /// Runs statements. Recurses as deep as they are nested in the source text.
    fn run(&mut self, statements: &'run [Statement], body: &mut Body<'run>) -> Result<Flow, EvaluationError> {
        for statement in statements {
            self.count(body.function)?;
            match statement {
                Statement::Assign { local, value } => {
                    let value = self.value_in(*value, body)?;
                    body.locals[*local as usize] = value;
                }
                Statement::AssignAt { base, len, index, value } => {
                    let index = self.value_in(*index, body)?;
                    let value = self.value_in(*value, body)?;
                    let place =
                        element(index, *len).ok_or_else(|| self.out_of_range(index, *len, &body.function.name))?;
                    body.locals[(base + place) as usize] = value;
                }
                Statement::If { condition, then, otherwise } => {
                    let condition = is_true(self.value_in(*condition, body)?);
                    let flow = self.run(if condition { then } else { otherwise }, body)?;
                    if flow != Flow::Next {
                        return Ok(flow);
                    }
                }
                Statement::While { condition, body: inner } => {
                    while is_true(self.value_in(*condition, body)?) {
                        self.count(body.function)?;
                        match self.run(inner, body)? {
                            Flow::Next => {}
                            Flow::Break => break,
                            Flow::Return => return Ok(Flow::Return),
                        }
                    }
                }
                Statement::Intrinsic { intrinsic, args, results } => {
                    let inputs: Vec<f64> = args.iter().map(|&arg| body.locals[arg as usize]).collect();
                    let mut outputs = vec![0.0; results.len()];
                    if let Err(error) = intrinsic.evaluate(&inputs, &mut outputs) {
                        let function = body.function.name.clone();
                        return Err(EvaluationError::AssertionFailed { function, message: error.to_string() });
                    }
                    for (&result, value) in results.iter().zip(outputs) {
                        body.locals[result as usize] = value;
                    }
                }
                Statement::Break => return Ok(Flow::Break),
                Statement::Return => return Ok(Flow::Return),
                Statement::Assert { condition, message } => {
                    if !is_true(self.value_in(*condition, body)?) {
                        let function = body.function.name.clone();
                        return Err(EvaluationError::AssertionFailed { function, message: message.clone() });
                    }
                }
            }
        }
        Ok(Flow::Next)
    }
}

#[derive(Clone, Copy)]
struct Locals<'body> {
    values: &'body [f64],
    function: &'body str,
}

/// The offset of an element from its index, if there is one.
fn element(index: f64, len: u32) -> Option<u32> {
    (index.fract() == 0.0 && index >= 1.0 && index <= f64::from(len)).then(|| index as u32 - 1)
}
