//! Finding a node among those made: the inner loop of everything that builds expressions.
//!
//! A node that has arguments was most likely made, or is about to be, near the last of them. So every expression knows
//! the first few nodes of which it is the last argument; following that short list touches memory that is already at
//! hand, where a hash table of millions of entries would miss the cache each time. Lists that are full overflow into a
//! hash table, which also holds numbers, calls and higher derivatives. Variables and first derivatives have a table by
//! number.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::node::{ExprId, Node};

/// An expression is in its own list with at most this many users.
const LIST_LIMIT: u32 = 8;

/// Variables with a higher number are hashed, so that a wild number makes no wild table.
const MAX_TABLED: u32 = 1 << 24;

/// Numbers of expressions are stored plus one; zero is none.
type Link = u32;

/// Tables to find nodes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// By expression: the first node of which it is the last argument.
    first_user: Vec<Link>,
    /// By expression: the next node with the same last argument.
    next_user: Vec<Link>,
    /// By variable: the nodes of itself and of its first derivative.
    variables: Vec<[Link; 2]>,
    hashed: HashTable<u32>,
}

/// Where a node that was not found belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Vacancy {
    First { argument: ExprId },
    After { user: ExprId },
    Variable { var: u32, order: u16 },
    Hashed { hash: u64 },
}

/// The hash of a node. The order of the arguments of a commutative operation has no influence, so that one search
/// finds either order.
fn hash_of(node: &Node) -> u64 {
    let mut hasher = FxHasher::default();
    match *node {
        Node::Binary { op, lhs, rhs } if op.is_commutative() => {
            let (low, high) = if lhs <= rhs { (lhs, rhs) } else { (rhs, lhs) };
            Node::Binary { op, lhs: low, rhs: high }.hash(&mut hasher);
        }
        _ => node.hash(&mut hasher),
    }
    hasher.finish()
}

fn last_argument(node: &Node) -> Option<ExprId> {
    match *node {
        Node::Unary { arg, .. } | Node::Smooth { arg, .. } | Node::LocalAt { index: arg, .. } => Some(arg),
        Node::Binary { lhs, rhs, .. } | Node::Sample { start: lhs, interval: rhs } => Some(lhs.max(rhs)),
        Node::Select { condition, then, otherwise } => Some(condition.max(then).max(otherwise)),
        _ => None,
    }
}

impl Index {
    /// The node for which `same` holds, which must include `node` itself and may include it with its arguments
    /// commuted; or where it belongs.
    pub(crate) fn find(&self, nodes: &[Node], node: &Node, same: impl Fn(&Node) -> bool) -> Result<ExprId, Vacancy> {
        if let Some(argument) = last_argument(node) {
            let mut vacancy = Vacancy::First { argument };
            let mut link = self.first_user[argument.index()];
            let mut n_seen = 0;
            while link != 0 {
                let user = ExprId(link - 1);
                if same(&nodes[user.index()]) {
                    return Ok(user);
                }
                n_seen += 1;
                vacancy = Vacancy::After { user };
                link = self.next_user[user.index()];
            }
            if n_seen < LIST_LIMIT {
                return Err(vacancy);
            }
        } else if let Node::Var { var, order: order @ (0 | 1) } = *node
            && var.0 < MAX_TABLED
        {
            let link = self.variables.get(var.index()).map_or(0, |links| links[usize::from(order)]);
            return if link == 0 { Err(Vacancy::Variable { var: var.0, order }) } else { Ok(ExprId(link - 1)) };
        }
        let hash = hash_of(node);
        let found = self.hashed.find(hash, |&candidate| same(&nodes[candidate as usize]));
        found.map(|&id| ExprId(id)).ok_or(Vacancy::Hashed { hash })
    }

    /// Puts the newest node where it belongs.
    pub(crate) fn insert(&mut self, nodes: &[Node], vacancy: Vacancy, expr: ExprId) {
        self.first_user.push(0);
        self.next_user.push(0);
        match vacancy {
            Vacancy::First { argument } => self.first_user[argument.index()] = expr.0 + 1,
            Vacancy::After { user } => self.next_user[user.index()] = expr.0 + 1,
            Vacancy::Variable { var, order } => {
                if self.variables.len() <= var as usize {
                    self.variables.resize(var as usize + 1, [0; 2]);
                }
                self.variables[var as usize][usize::from(order)] = expr.0 + 1;
            }
            Vacancy::Hashed { hash } => {
                self.hashed.insert_unique(hash, expr.0, |&candidate| hash_of(&nodes[candidate as usize]));
            }
        }
    }
}
