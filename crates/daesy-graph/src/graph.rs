//! The hash-consed expression graph: equal expressions are one node.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxHasher;

use crate::derivative::DerivativeScratch;
use crate::evaluate::EvaluationError;
use crate::function::{Function, FunctionId};
use crate::index::Index;
use crate::node::{ArgList, BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::tangent::TangentCache;

/// What is known about an expression without looking below it, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts(u8);

impl Facts {
    const TOTAL: u8 = 1;
    const EVENTS: u8 = 2;
    const CALLS: u8 = 4;
    /// Events that a `noEvent` around does not reach.
    const KEPT_EVENTS: u8 = 8;

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Total if both are; events and calls if either has them.
    const fn join(self, other: Self) -> Self {
        Self((self.0 & other.0 & Self::TOTAL) | ((self.0 | other.0) & !Self::TOTAL))
    }

    const fn with(self, bit: u8) -> Self {
        Self(self.0 | bit)
    }

    const fn total_if(self, holds: bool) -> Self {
        if holds { self } else { Self(self.0 & !Self::TOTAL) }
    }
}

/// Expressions as a directed acyclic graph in which every node is made once.
///
/// Nodes are numbered such that arguments come before what uses them: a forward loop over the numbers is a bottom-up
/// traversal, and nothing here recurses.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    facts: Vec<Facts>,
    index: Index,
    args: Vec<ExprId>,
    arg_lists: HashTable<ArgList>,
    functions: Vec<Function>,
    endless: Arc<Endless>,
    pub(crate) tangents: TangentCache,
    pub(crate) scratch: DerivativeScratch,
}

/// Evaluations of functions that met the limit on statements; copies of a graph share it.
#[derive(Debug, Default)]
struct Endless {
    first: OnceLock<EvaluationError>,
    n_met: AtomicU32,
}

/// After so many evaluations that met the limit on statements, functions are not run any more: every one of them takes
/// long, and a search that strays to where a loop does not end may come back from there, but not time and again.
const MAX_ENDLESS: u32 = 5;

fn hash_of_args(args: &[ExprId]) -> u64 {
    let mut hasher = FxHasher::default();
    args.hash(&mut hasher);
    hasher.finish()
}

impl Graph {
    /// The node of an expression.
    #[must_use]
    pub fn node(&self, expr: ExprId) -> Node {
        self.nodes[expr.index()]
    }

    /// All nodes, arguments before what uses them.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = Node> + '_ {
        self.nodes.iter().copied()
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nothing has been made yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The expression of a node exactly as given, made now if it is new. No simplification.
    pub fn intern(&mut self, node: Node) -> ExprId {
        self.find_or_make(node, |candidate| *candidate == node)
    }

    /// Like [`Graph::intern`], but takes `b op a` for `a op b` when that exists and `op` commutes.
    pub(crate) fn intern_commutative(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        let node = Node::Binary { op, lhs, rhs };
        let swapped = Node::Binary { op, lhs: rhs, rhs: lhs };
        self.find_or_make(node, |candidate| *candidate == node || *candidate == swapped)
    }

    fn find_or_make(&mut self, node: Node, same: impl Fn(&Node) -> bool) -> ExprId {
        match self.index.find(&self.nodes, &node, same) {
            Ok(found) => found,
            Err(vacancy) => {
                let expr = ExprId(self.nodes.len() as u32);
                self.nodes.push(node);
                self.index.insert(&self.nodes, vacancy, expr);
                let facts = self.facts_of(&node);
                self.facts.push(facts);
                expr
            }
        }
    }

    /// The expression of a node, if it has been made.
    #[must_use]
    pub fn find(&self, node: &Node) -> Option<ExprId> {
        self.index.find(&self.nodes, node, |candidate| candidate == node).ok()
    }

    fn facts_of(&self, node: &Node) -> Facts {
        let of = |expr: ExprId| self.facts[expr.index()];
        let is_nonzero = |expr: ExprId| self.as_number(expr).is_some_and(|value| value != 0.0);
        let is_natural = |expr: ExprId| self.as_number(expr).is_some_and(|value| value >= 0.0 && value.fract() == 0.0);
        match *node {
            Node::Number(bits) => Facts(Facts::TOTAL).total_if(f64::from_bits(bits).is_finite()),
            Node::Time | Node::Var { .. } | Node::Pre(_) | Node::Initial | Node::Terminal | Node::Local(_) => {
                Facts(Facts::TOTAL)
            }
            Node::Unary { op, arg } => match op {
                UnaryOp::Sqrt | UnaryOp::Log | UnaryOp::Log10 | UnaryOp::Tan | UnaryOp::Asin | UnaryOp::Acos => {
                    of(arg).total_if(false)
                }
                UnaryOp::Ceil | UnaryOp::Floor => of(arg).with(Facts::EVENTS),
                UnaryOp::NoEvent => Facts(of(arg).0 & !Facts::EVENTS),
                UnaryOp::WithEvents if of(arg).has(Facts::EVENTS) => {
                    Facts(of(arg).0 & !Facts::EVENTS).with(Facts::KEPT_EVENTS)
                }
                _ => of(arg),
            },
            Node::Binary { op, lhs, rhs } => {
                let both = of(lhs).join(of(rhs));
                match op {
                    BinaryOp::Div => both.total_if(is_nonzero(rhs)),
                    BinaryOp::Pow => both.total_if(is_natural(rhs)),
                    BinaryOp::Atan2 => both.total_if(false),
                    BinaryOp::Quotient | BinaryOp::Modulo | BinaryOp::Remainder => {
                        both.total_if(is_nonzero(rhs)).with(Facts::EVENTS)
                    }
                    _ if op.is_relation() => both.with(Facts::EVENTS),
                    _ => both,
                }
            }
            Node::Select { condition, then, otherwise } => of(condition).join(of(then)).join(of(otherwise)),
            Node::Smooth { arg, .. } => of(arg),
            Node::Call { args, .. } => {
                self.args(args).iter().fold(Facts(Facts::CALLS), |facts, &arg| facts.join(of(arg))).total_if(false)
            }
            Node::Sample { start, interval } => of(start).join(of(interval)).total_if(false).with(Facts::EVENTS),
            Node::LocalAt { index, .. } => of(index).total_if(false),
        }
    }

    /// Whether the expression is known to be defined for all values of its leaves.
    ///
    /// Meant are the real numbers: overflow in floating point does not count, so polynomials, `exp`, `sin` and the like
    /// of total expressions are total. Quotients (except by a number other than zero), logarithms, roots, powers with
    /// other than natural exponents, `tan`, `asin`, `acos`, `atan2`, array elements and calls are not. The answer may
    /// be no for an expression that is total after all.
    #[must_use]
    pub fn is_total(&self, expr: ExprId) -> bool {
        self.facts[expr.index()].has(Facts::TOTAL)
    }

    /// Whether something below may make an event: a relation, `div`, `mod`, `rem`, `ceil`, `floor` or `sample` that is
    /// not inside `noEvent`.
    #[must_use]
    pub fn may_make_events(&self, expr: ExprId) -> bool {
        self.has_own_events(expr) || self.keeps_events(expr)
    }

    /// Whether something below may make an event that a `noEvent` around the expression would take away.
    #[must_use]
    pub fn has_own_events(&self, expr: ExprId) -> bool {
        self.facts[expr.index()].has(Facts::EVENTS)
    }

    /// Whether something below may make an event even inside of `noEvent` ([`UnaryOp::WithEvents`]).
    #[must_use]
    pub fn keeps_events(&self, expr: ExprId) -> bool {
        self.facts[expr.index()].has(Facts::KEPT_EVENTS)
    }

    /// Whether a user function is called below.
    #[must_use]
    pub fn has_calls(&self, expr: ExprId) -> bool {
        self.facts[expr.index()].has(Facts::CALLS)
    }

    /// A number.
    pub fn number(&mut self, value: f64) -> ExprId {
        self.intern(Node::Number(value.to_bits()))
    }

    /// The value of an expression that is a number.
    #[must_use]
    pub fn as_number(&self, expr: ExprId) -> Option<f64> {
        match self.node(expr) {
            Node::Number(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// Time.
    pub fn time(&mut self) -> ExprId {
        self.intern(Node::Time)
    }

    /// A variable.
    pub fn var(&mut self, var: VarId) -> ExprId {
        self.intern(Node::Var { var, order: 0 })
    }

    /// The time derivative of a variable.
    pub fn der(&mut self, var: VarId, order: u16) -> ExprId {
        self.intern(Node::Var { var, order })
    }

    /// An operation on one argument, as written.
    pub fn raw_unary(&mut self, op: UnaryOp, arg: ExprId) -> ExprId {
        self.intern(Node::Unary { op, arg })
    }

    /// An operation on two arguments, as written.
    pub fn raw_binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.intern(Node::Binary { op, lhs, rhs })
    }

    /// A list of arguments; equal lists are one.
    pub fn arg_list(&mut self, args: &[ExprId]) -> ArgList {
        let pool = &mut self.args;
        let slice = |pool: &[ExprId], list: &ArgList| -> std::ops::Range<usize> {
            debug_assert!((list.start + list.len) as usize <= pool.len());
            list.start as usize..(list.start + list.len) as usize
        };
        let entry = self.arg_lists.entry(
            hash_of_args(args),
            |list| pool[slice(pool, list)] == *args,
            |list| hash_of_args(&pool[slice(pool, list)]),
        );
        match entry {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(place) => {
                let list = ArgList { start: pool.len() as u32, len: args.len() as u32 };
                place.insert(list);
                pool.extend_from_slice(args);
                list
            }
        }
    }

    /// The arguments of a call.
    #[must_use]
    pub fn args(&self, list: ArgList) -> &[ExprId] {
        &self.args[list.start as usize..(list.start + list.len) as usize]
    }

    /// Adds a function.
    pub fn add_function(&mut self, function: Function) -> FunctionId {
        self.functions.push(function);
        FunctionId(self.functions.len() as u32 - 1)
    }

    /// A function.
    #[must_use]
    pub fn function(&self, function: FunctionId) -> &Function {
        &self.functions[function.0 as usize]
    }

    /// All functions; `FunctionId` is the position here.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Remembers that the evaluation of a function met the limit on statements.
    pub(crate) fn note_endless(&self, error: &EvaluationError) {
        let _ = self.endless.first.set(error.clone());
        self.endless.n_met.fetch_add(1, Ordering::Relaxed);
    }

    /// Why functions are not evaluated any more: too many evaluations met the limit on statements. In this graph or a
    /// copy of it.
    #[must_use]
    pub fn endless(&self) -> Option<&EvaluationError> {
        self.endless.first.get().filter(|_| self.endless.n_met.load(Ordering::Relaxed) >= MAX_ENDLESS)
    }

    /// Replaces a function, for one whose number had to be known before its body (it calls itself, say).
    pub fn set_function(&mut self, id: FunctionId, function: Function) {
        self.functions[id.0 as usize] = function;
    }
}
