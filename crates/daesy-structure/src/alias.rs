//! Alias elimination: variables that are another variable up to sign, or known from parameters or an input.
//!
//! Component models consist mostly of equations such as `a = b` and `a + b = 0` from connections. Each of them removes one
//! unknown. The eliminated variable stays reportable: [`Elimination::standings`] gives it in terms of what remains.
//!
//! An equation is used if, after replacing variables already eliminated, it reads `+-a +-b = 0` or `+-a + known = 0` with
//! `known` a sum of terms that hold only parameters, constants and at most one input. No coefficient is divided by, so that the
//! domain never changes.

use daesy_graph::flat::{FlatDae, StateSelect, VariableKind};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, UnaryOp, VarId};

/// A variable that was eliminated by an equation of the flat model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EliminatedBy {
    /// The variable.
    pub var: VarId,
    /// Position of the equation in `FlatDae::equations`.
    pub equation: u32,
}

/// What a variable is after elimination.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Standing {
    /// It remains.
    Remains,
    /// It is another variable, or its negative.
    Alias {
        /// The variable that remains.
        of: VarId,
        /// Whether the sign changes.
        is_negated: bool,
    },
    /// It is an expression in parameters, constants and inputs.
    Known(ExprId),
}

/// The result of alias elimination.
#[derive(Clone, Debug)]
pub struct Elimination {
    /// The standing of every variable of the flat model.
    pub standings: Vec<Standing>,
    /// Which equation eliminated which variable, in the order found.
    pub eliminated: Vec<EliminatedBy>,
    /// Whether each equation of the flat model was used up.
    pub is_used: Vec<bool>,
}

/// Sums longer than this are no aliases; looking further would cost more than it finds.
const MAX_TERMS: usize = 6;

/// Expressions with more nodes than this are not taken as "known".
const MAX_KNOWN_NODES: usize = 24;

struct Forest {
    parent: Vec<u32>,
    is_negated: Vec<bool>,
    known: Vec<Option<ExprId>>,
}

struct Root {
    var: u32,
    is_negated: bool,
}

impl Forest {
    fn new(n_variables: usize) -> Self {
        Self {
            parent: (0..n_variables as u32).collect(),
            is_negated: vec![false; n_variables],
            known: vec![None; n_variables],
        }
    }

    /// The root of a variable's tree and the sign relative to it, with path compression.
    fn root(&mut self, var: u32) -> Root {
        let mut root = var;
        let mut is_negated = false;
        while self.parent[root as usize] != root {
            is_negated ^= self.is_negated[root as usize];
            root = self.parent[root as usize];
        }
        let (mut at, mut sign) = (var, is_negated);
        while self.parent[at as usize] != root && at != root {
            let next = self.parent[at as usize];
            let next_sign = sign ^ self.is_negated[at as usize];
            self.parent[at as usize] = root;
            self.is_negated[at as usize] = sign;
            at = next;
            sign = next_sign;
        }
        Root { var: root, is_negated }
    }
}

/// An equation read as a sum of signed terms.
#[derive(Default)]
struct Terms {
    unknowns: Vec<(u32, bool)>,
    known: Vec<(ExprId, bool)>,
    stack: Vec<(ExprId, bool)>,
}

/// Finds aliases among the given equations of a flat model.
///
/// `is_candidate[i]` says whether equation i may be used: continuous equations, not those of discrete variables.
pub fn eliminate_aliases(flat: &mut FlatDae, is_candidate: &[bool]) -> Elimination {
    let n_variables = flat.variables.len();
    let mut forest = Forest::new(n_variables);
    let ranks = preference(flat);
    let mut is_used = vec![false; flat.equations.len()];
    let mut eliminated = Vec::new();
    let mut terms = Terms::default();
    let mut pending: Vec<u32> = (0..flat.equations.len() as u32).filter(|&at| is_candidate[at as usize]).collect();
    loop {
        let mut left = Vec::new();
        let n_before = eliminated.len();
        for &at in &pending {
            let equation = &flat.equations[at as usize];
            let (lhs, rhs) = (equation.lhs, equation.rhs);
            if !collect(&flat.graph, &flat.variables, lhs, rhs, &mut forest, &mut terms) {
                continue;
            }
            match terms.unknowns[..] {
                [(var, is_negated)] => {
                    let value = known_value(&mut flat.graph, &terms.known, !is_negated);
                    forest.known[var as usize] = Some(value);
                    eliminated.push(EliminatedBy { var: VarId(var), equation: at });
                    is_used[at as usize] = true;
                }
                [(first, first_negated), (second, second_negated)] if terms.known.is_empty() && first != second => {
                    let (keep, drop) =
                        if ranks[first as usize] >= ranks[second as usize] { (first, second) } else { (second, first) };
                    forest.parent[drop as usize] = keep;
                    forest.is_negated[drop as usize] = first_negated == second_negated;
                    eliminated.push(EliminatedBy { var: VarId(drop), equation: at });
                    is_used[at as usize] = true;
                }
                _ => left.push(at),
            }
        }
        if eliminated.len() == n_before {
            break;
        }
        pending = left;
    }
    let standings = (0..n_variables as u32)
        .map(|var| {
            let root = forest.root(var);
            match forest.known[root.var as usize] {
                Some(value) if root.is_negated => Standing::Known(flat.graph.neg(value)),
                Some(value) => Standing::Known(value),
                None if root.var == var => Standing::Remains,
                None => Standing::Alias { of: VarId(root.var), is_negated: root.is_negated },
            }
        })
        .collect();
    Elimination { standings, eliminated, is_used }
}

/// Which of two equal variables should remain: one the user asked to be a state, is differentiated, has a start value, is public,
/// and stands high in the component tree.
fn preference(flat: &FlatDae) -> Vec<(StateSelect, bool, bool, bool, i32, i32)> {
    let mut is_differentiated = vec![false; flat.variables.len()];
    for node in flat.graph.nodes() {
        if let Node::Var { var, order } = node
            && order > 0
        {
            is_differentiated[var.index()] = true;
        }
    }
    flat.variables
        .iter()
        .zip(is_differentiated)
        .map(|(variable, is_differentiated)| {
            let depth = variable.name.bytes().filter(|&byte| byte == b'.').count() as i32;
            (
                variable.state_select,
                is_differentiated,
                variable.fixed == Some(true),
                variable.start.is_some() && !variable.is_protected,
                -depth,
                -(variable.name.len() as i32),
            )
        })
        .collect()
}

/// Reads `lhs - rhs` as a sum of few signed terms; false where it is no such sum.
fn collect(
    graph: &Graph,
    variables: &[daesy_graph::Variable],
    lhs: ExprId,
    rhs: ExprId,
    forest: &mut Forest,
    terms: &mut Terms,
) -> bool {
    terms.unknowns.clear();
    terms.known.clear();
    terms.stack.clear();
    terms.stack.extend([(lhs, false), (rhs, true)]);
    let mut n_steps = 0;
    while let Some((expr, is_negated)) = terms.stack.pop() {
        n_steps += 1;
        if n_steps > 4 * MAX_TERMS {
            return false;
        }
        match graph.node(expr) {
            Node::Binary { op: BinaryOp::Add, lhs, rhs } => {
                terms.stack.extend([(lhs, is_negated), (rhs, is_negated)]);
            }
            Node::Binary { op: BinaryOp::Sub, lhs, rhs } => {
                terms.stack.extend([(lhs, is_negated), (rhs, !is_negated)]);
            }
            Node::Unary { op: UnaryOp::Neg, arg } => terms.stack.push((arg, !is_negated)),
            Node::Var { var, order: 0 } if variables[var.index()].kind == VariableKind::Continuous => {
                let root = forest.root(var.0);
                match forest.known[root.var as usize] {
                    Some(value) => terms.known.push((value, is_negated ^ root.is_negated)),
                    None => terms.unknowns.push((root.var, is_negated ^ root.is_negated)),
                }
                if terms.unknowns.len() > 2 {
                    return false;
                }
            }
            _ => terms.known.push((expr, is_negated)),
        }
        if terms.known.len() > MAX_TERMS {
            return false;
        }
    }
    terms.known.retain(|&(expr, _)| graph.as_number(expr) != Some(0.0));
    if terms.unknowns.is_empty() {
        return false;
    }
    if terms.unknowns.len() == 2 {
        return terms.known.is_empty();
    }
    is_known(graph, variables, &terms.known)
}

/// Whether all terms hold only parameters, constants and at most one input, each undifferentiated.
fn is_known(graph: &Graph, variables: &[daesy_graph::Variable], terms: &[(ExprId, bool)]) -> bool {
    let mut stack: Vec<ExprId> = terms.iter().map(|&(expr, _)| expr).collect();
    let (mut n_nodes, mut n_inputs) = (0, 0);
    while let Some(expr) = stack.pop() {
        n_nodes += 1;
        if n_nodes > MAX_KNOWN_NODES {
            return false;
        }
        match graph.node(expr) {
            Node::Number(_) => {}
            Node::Var { var, order: 0 } => match variables[var.index()].kind {
                VariableKind::Parameter | VariableKind::Constant => {}
                VariableKind::Input => n_inputs += 1,
                VariableKind::Continuous | VariableKind::Discrete => return false,
            },
            Node::Unary { .. } | Node::Binary { .. } => graph.for_each_child(expr, |child| stack.push(child)),
            _ => return false,
        }
    }
    n_inputs == 0 || n_inputs == 1 && n_nodes == 1
}

/// The value of a variable from `+-var + known = 0`.
fn known_value(graph: &mut Graph, known: &[(ExprId, bool)], negate: bool) -> ExprId {
    let mut value = graph.number(0.0);
    for &(term, is_negated) in known {
        value = if is_negated ^ negate { graph.sub(value, term) } else { graph.add(value, term) };
    }
    value
}
