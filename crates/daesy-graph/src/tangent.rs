//! Tangents of user functions: the body differentiated statement by statement.
//!
//! The tangent of `y = f(x)` is the function `dy = f'(x, dx)` that runs the body of `f` with a shadow `dv` beside every
//! local `v`; in front of each assignment `v := e` it has `dv := e'`, in old values [@griewank2008, ch. 3]. Loops and
//! branches stay as they are, so the result is the derivative along the path that the program takes: an iteration that
//! starts at its solution and stops at once has not yet passed on all of its derivatives.
//!
//! A shadow is kept only for locals that can depend on the active inputs in a differentiable way: a loop counter `i`
//! has none, and `x ^ i` brings no logarithm. Which inputs are active is part of what a tangent is known by.
//!
//! Locals of the tangent, for a function with n inputs and N locals:
//!
//! ```text
//! 0 .. n      x                    n .. 2n     dx
//! 2n .. N+n   the other locals     N+n .. 2N   their shadows
//! ```

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::derivative::{Tangent, is_flat};
use crate::foreign::Foreign;
use crate::function::{Function, FunctionId, Statement};
use crate::graph::Graph;
use crate::intrinsic::Intrinsic;
use crate::node::{ExprId, Node};
use crate::traverse::Reach;

/// A function with the inputs it is differentiated by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    function: FunctionId,
    active: Box<[bool]>,
}

/// The tangents made so far, and those promised whose body is still missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct TangentCache {
    made: FxHashMap<Key, FunctionId>,
    promised: Vec<(Key, FunctionId)>,
}

impl Graph {
    /// The tangent of a function with respect to the inputs that are active: inputs `(x, dx)`, outputs `dy`.
    pub fn differentiate_function(&mut self, function: FunctionId, active: &[bool]) -> FunctionId {
        let tangent = self.tangent_function(function, active);
        self.finish_tangents();
        tangent
    }

    /// The number of a tangent, whose body may come later (by [`Graph::finish_tangents`]).
    pub(crate) fn tangent_function(&mut self, function: FunctionId, active: &[bool]) -> FunctionId {
        let key = Key { function, active: active.into() };
        if let Some(&made) = self.tangents.made.get(&key) {
            return made;
        }
        let original = self.function(function);
        let promise = Function {
            name: format!("{}.tangent", original.name),
            n_inputs: 2 * original.n_inputs,
            outputs: Vec::new(),
            n_locals: 2 * original.n_locals,
            body: Vec::new(),
            span: original.span,
        };
        let id = self.add_function(promise);
        self.tangents.made.insert(key.clone(), id);
        self.tangents.promised.push((key, id));
        id
    }

    /// Makes the bodies of all promised tangents, and of those that these promise.
    pub(crate) fn finish_tangents(&mut self) {
        while let Some((key, id)) = self.tangents.promised.pop() {
            let original = self.function(key.function).clone();
            let mut maker = Maker::new(self, &original, &key.active);
            let body = maker.statements(&original.body);
            let outputs = original.outputs.iter().map(|&output| maker.layout.shadow(output)).collect();
            let promise = self.function(id).clone();
            self.set_function(id, Function { outputs, body, ..promise });
        }
    }
}

/// Where locals of the original are in the tangent.
#[derive(Clone, Copy)]
struct Layout {
    n_inputs: u32,
    n_locals: u32,
}

impl Layout {
    const fn place(self, local: u32) -> u32 {
        if local < self.n_inputs { local } else { local + self.n_inputs }
    }

    const fn shadow(self, local: u32) -> u32 {
        if local < self.n_inputs { local + self.n_inputs } else { local + self.n_locals }
    }

    /// The original of a local that is not a shadow.
    const fn original(self, place: u32) -> u32 {
        if place < self.n_inputs { place } else { place - self.n_inputs }
    }
}

struct Maker<'graph> {
    graph: &'graph mut Graph,
    layout: Layout,
    active: Vec<bool>,
    reach: Reach,
    moved: FxHashMap<ExprId, ExprId>,
}

fn range(base: u32, len: u32) -> std::ops::Range<usize> {
    base as usize..(base + len) as usize
}

impl<'graph> Maker<'graph> {
    fn new(graph: &'graph mut Graph, original: &Function, active_inputs: &[bool]) -> Self {
        let layout = Layout { n_inputs: original.n_inputs, n_locals: original.n_locals };
        let mut active = vec![false; original.n_locals as usize];
        for (local, &is_active) in active.iter_mut().zip(active_inputs) {
            *local = is_active;
        }
        let mut maker = Self { graph, layout, active, reach: Reach::new(), moved: FxHashMap::default() };
        while maker.spread(&original.body) {}
        maker
    }

    /// Lets activity flow through all assignments once; says whether it went anywhere.
    fn spread(&mut self, statements: &[Statement]) -> bool {
        let mut has_changed = false;
        for statement in statements {
            match statement {
                Statement::Assign { local, value } => {
                    if !self.active[*local as usize] && self.is_active(*value) {
                        self.active[*local as usize] = true;
                        has_changed = true;
                    }
                }
                Statement::AssignAt { base, len, value, .. } => {
                    if !self.active[range(*base, *len)].iter().all(|&a| a) && self.is_active(*value) {
                        self.active[range(*base, *len)].fill(true);
                        has_changed = true;
                    }
                }
                Statement::If { then, otherwise, .. } => {
                    has_changed |= self.spread(then);
                    has_changed |= self.spread(otherwise);
                }
                Statement::While { body, .. } => has_changed |= self.spread(body),
                Statement::Intrinsic { intrinsic, args, results } if matches!(**intrinsic, Intrinsic::Foreign(_)) => {
                    let is_active = args.iter().any(|&arg| self.active[arg as usize]);
                    for &result in results.iter().filter(|_| is_active) {
                        has_changed |= !std::mem::replace(&mut self.active[result as usize], true);
                    }
                }
                Statement::Intrinsic { intrinsic, args, results } => {
                    let is_active = args
                        .iter()
                        .enumerate()
                        .any(|(at, &arg)| self.active[arg as usize] && intrinsic.partial(at).is_some());
                    if let Some(&result) = results.first()
                        && is_active
                        && !self.active[result as usize]
                    {
                        self.active[result as usize] = true;
                        has_changed = true;
                    }
                }
                Statement::Break | Statement::Return | Statement::Assert { .. } => {}
            }
        }
        has_changed
    }

    /// Whether an expression of the original can have a derivative other than zero.
    fn is_active(&mut self, expr: ExprId) -> bool {
        let (graph, active) = (&*self.graph, &self.active);
        // Conditions and indices are met on the way too; they are judged by their own kind of node.
        let mut found = false;
        self.reach.below_while(graph, &[expr], |expr| {
            let node = graph.node(expr);
            found |= match node {
                Node::Local(local) => active[local as usize],
                Node::LocalAt { base, len, .. } => active[range(base, len)].iter().any(|&a| a),
                _ => false,
            };
            !is_flat(&node) && !matches!(node, Node::LocalAt { .. })
        });
        found
    }

    /// An expression of the original with the locals at their new places.
    fn moved(&mut self, expr: ExprId) -> ExprId {
        let graph = &*self.graph;
        let moved = &self.moved;
        let list = self.reach.below_while(graph, &[expr], |expr| !moved.contains_key(&expr)).to_vec();
        for expr in list {
            if self.moved.contains_key(&expr) {
                continue;
            }
            let image = match self.graph.node(expr) {
                Node::Local(local) => self.graph.local(self.layout.place(local)),
                Node::LocalAt { base, len, index } => {
                    let index = self.moved[&index];
                    self.graph.local_at(self.layout.place(base), len, index)
                }
                _ => {
                    let children: SmallVec<[ExprId; 4]> =
                        self.graph.children(expr).iter().map(|child| self.moved[child]).collect();
                    self.graph.rebuild(expr, &children)
                }
            };
            self.moved.insert(expr, image);
        }
        self.moved[&expr]
    }

    /// The derivative of an expression whose locals are at their new places.
    fn tangent(&mut self, moved: ExprId) -> Tangent {
        let (layout, active) = (self.layout, &self.active);
        self.graph.tangent(moved, &mut |graph, expr| match graph.node(expr) {
            Node::Local(place) => {
                let local = layout.original(place);
                active[local as usize].then(|| graph.local(layout.shadow(local)))
            }
            Node::LocalAt { base, len, index } => {
                let base = layout.original(base);
                let is_active = active[range(base, len)].iter().any(|&a| a);
                is_active.then(|| graph.local_at(layout.shadow(base), len, index))
            }
            _ => None,
        })
    }

    /// `sum of (d f / d u_i) du_i` over the active inputs.
    fn intrinsic_tangent(&mut self, intrinsic: &Intrinsic, args: &[u32], placed: &[u32]) -> ExprId {
        let inputs: Vec<ExprId> = placed.iter().map(|&local| self.graph.local(local)).collect();
        let mut sum: Tangent = None;
        for (at, &arg) in args.iter().enumerate() {
            let Some(partial) = intrinsic.partial(at).filter(|_| self.active[arg as usize]) else { continue };
            let slope = self.graph.call_intrinsic(&partial, 0, &inputs);
            let change = self.graph.local(self.layout.shadow(arg));
            let product = self.graph.mul(slope, change);
            sum = Some(match sum {
                Some(sum) => self.graph.add(sum, product),
                None => product,
            });
        }
        self.graph.or_zero(sum)
    }

    /// The tangent of a foreign function, which is all that its body holds: its values need not be computed again.
    fn foreign_tangent(&self, foreign: &Foreign, args: &[u32], results: &[u32]) -> Statement {
        let shadow = |local: &u32| self.layout.shadow(*local);
        let places = args.iter().map(|&local| self.layout.place(local));
        Statement::Intrinsic {
            intrinsic: Arc::new(Intrinsic::Foreign(foreign.tangent())),
            args: places.chain(args.iter().map(shadow)).collect(),
            results: results.iter().map(shadow).collect(),
        }
    }

    /// The statements with the derivative in front of each assignment. Recurses as deep as the source text is nested.
    fn statements(&mut self, statements: &[Statement]) -> Vec<Statement> {
        let mut made = Vec::with_capacity(2 * statements.len());
        for statement in statements {
            match statement {
                Statement::Assign { local, value } => {
                    let value = self.moved(*value);
                    if self.active[*local as usize] {
                        let tangent = self.tangent(value);
                        let tangent = self.graph.or_zero(tangent);
                        made.push(Statement::Assign { local: self.layout.shadow(*local), value: tangent });
                    }
                    made.push(Statement::Assign { local: self.layout.place(*local), value });
                }
                Statement::AssignAt { base, len, index, value } => {
                    let (index, value) = (self.moved(*index), self.moved(*value));
                    if self.active[range(*base, *len)].iter().any(|&a| a) {
                        let tangent = self.tangent(value);
                        let tangent = self.graph.or_zero(tangent);
                        let base = self.layout.shadow(*base);
                        made.push(Statement::AssignAt { base, len: *len, index, value: tangent });
                    }
                    made.push(Statement::AssignAt { base: self.layout.place(*base), len: *len, index, value });
                }
                Statement::If { condition, then, otherwise } => {
                    let condition = self.moved(*condition);
                    let (then, otherwise) = (self.statements(then), self.statements(otherwise));
                    made.push(Statement::If { condition, then, otherwise });
                }
                Statement::While { condition, body } => {
                    let condition = self.moved(*condition);
                    let body = self.statements(body);
                    made.push(Statement::While { condition, body });
                }
                Statement::Intrinsic { intrinsic, args, results } => {
                    if let Intrinsic::Foreign(foreign) = &**intrinsic {
                        made.push(self.foreign_tangent(foreign, args, results));
                        continue;
                    }
                    let place = |local: &u32| self.layout.place(*local);
                    let (placed, moved): (Vec<u32>, Vec<u32>) =
                        (args.iter().map(place).collect(), results.iter().map(place).collect());
                    if let Some(&result) = results.first()
                        && self.active[result as usize]
                    {
                        let value = self.intrinsic_tangent(intrinsic, args, &placed);
                        made.push(Statement::Assign { local: self.layout.shadow(result), value });
                    }
                    made.push(Statement::Intrinsic { intrinsic: intrinsic.clone(), args: placed, results: moved });
                }
                Statement::Break => made.push(Statement::Break),
                Statement::Return => made.push(Statement::Return),
                Statement::Assert { condition, message } => {
                    let condition = self.moved(*condition);
                    made.push(Statement::Assert { condition, message: message.clone() });
                }
            }
        }
        made
    }
}
