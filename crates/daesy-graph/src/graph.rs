//! The hash-consed expression graph: equal expressions are one node.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::function::{Function, FunctionId};
use crate::node::{ArgList, BinaryOp, ExprId, Node, UnaryOp, VarId};

/// Expressions as a directed acyclic graph in which every node is made once.
///
/// Nodes are numbered such that arguments come before what uses them: a forward loop over the numbers is a bottom-up
/// traversal, and nothing here recurses.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    index: HashTable<u32>,
    args: Vec<ExprId>,
    functions: Vec<Function>,
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Graph {
    /// The node of an expression.
    #[must_use]
    pub fn node(&self, expr: ExprId) -> Node {
        self.nodes[expr.index()]
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
        let hash = hash_of(&node);
        let nodes = &mut self.nodes;
        let entry = self.index.entry(
            hash,
            |&candidate| nodes[candidate as usize] == node,
            |&candidate| hash_of(&nodes[candidate as usize]),
        );
        match entry {
            hashbrown::hash_table::Entry::Occupied(found) => ExprId(*found.get()),
            hashbrown::hash_table::Entry::Vacant(place) => {
                let id = self.nodes.len() as u32;
                place.insert(id);
                self.nodes.push(node);
                ExprId(id)
            }
        }
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

    /// Puts a function's arguments into the pool. Equal lists may be stored twice; [`Graph::call`] avoids that.
    pub(crate) fn push_args(&mut self, args: &[ExprId]) -> ArgList {
        let start = self.args.len() as u32;
        self.args.extend_from_slice(args);
        ArgList { start, len: args.len() as u32 }
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
}
