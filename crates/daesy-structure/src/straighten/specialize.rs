//! Equations that lose unknowns at the values of parameters.
//!
//! `i = C*der(v)` with `C = c*(1 - f)/sqrt(1 - v/p)` and `f = 1` is `i = 0`: what looks like a state is none. Values of
//! parameters are put in, products with zero and choices between equal alternatives are taken out, and variables that
//! turn out to be numbers are put in likewise, until nothing changes. A product with zero is zero wherever its other
//! factor has a value; elsewhere the equation as written has no solution, and the new one may have.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{BinaryOp, ExprId, Graph, Leaf, Node, Reach, Span, UnaryOp, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::words::{enumerate, equation_text};

/// Rounds of variables that turn out to be numbers.
const MAX_ROUNDS: usize = 8;

/// A model whose structure is that at given values of parameters.
#[derive(Clone, Debug)]
pub struct Specialized {
    /// The model.
    pub flat: FlatDae,
    /// Parameters whose values decide.
    pub decisive: Vec<VarId>,
    /// What was replaced.
    pub finding: Finding,
}

/// Puts the values of parameters into the equations that lose unknowns by it; None where there are none.
#[must_use]
pub fn specialize(flat: &FlatDae, values: &[(VarId, f64)]) -> Option<Specialized> {
    let mut new = flat.clone();
    let mut known: FxHashMap<VarId, f64> = values.iter().copied().collect();
    // Equations that say of a variable that it is a number keep it.
    let mut is_settled = vec![false; flat.equations.len()];
    let mut sides: Vec<(ExprId, ExprId)> = flat.equations.iter().map(|it| (it.lhs, it.rhs)).collect();
    for _ in 0..MAX_ROUNDS {
        let mut insertion = Insertion { known: &known, images: FxHashMap::default() };
        let mut found: Vec<(VarId, f64)> = Vec::new();
        for (at, equation) in flat.equations.iter().enumerate() {
            if is_settled[at] {
                continue;
            }
            let (lhs, rhs) =
                (insertion.apply(&mut new.graph, equation.lhs), insertion.apply(&mut new.graph, equation.rhs));
            sides[at] = (lhs, rhs);
            let number = number_of(flat, &mut new.graph, lhs, rhs);
            if let Some((var, value)) = number.filter(|(var, _)| found.iter().all(|(other, _)| other != var)) {
                found.push((var, value));
                is_settled[at] = true;
            }
        }
        if found.is_empty() {
            break;
        }
        known.extend(found);
    }
    let mut leaves = Leaves { reach: Reach::new(), found: Vec::new() };
    let replaced: Vec<usize> = (0..sides.len())
        .filter(|&at| {
            let written = (flat.equations[at].lhs, flat.equations[at].rhs);
            let left = leaves.of_kind(flat, VariableKind::Continuous, &new.graph, sides[at]);
            let before = leaves.of_kind(flat, VariableKind::Continuous, &flat.graph, written);
            !left.is_empty() && before.iter().any(|leaf| !left.contains(leaf) && !known.contains_key(&leaf.0))
        })
        .collect();
    if replaced.is_empty() {
        return None;
    }
    let mut decisive: FxHashSet<VarId> = FxHashSet::default();
    let settled = (0..is_settled.len()).filter(|&at| is_settled[at]);
    for at in replaced.iter().copied().chain(settled) {
        let equation = &flat.equations[at];
        let parameters = leaves.of_kind(flat, VariableKind::Parameter, &flat.graph, (equation.lhs, equation.rhs));
        decisive.extend(parameters.into_iter().map(|(var, _)| var));
    }
    let mut decisive: Vec<VarId> = decisive.into_iter().collect();
    decisive.sort_unstable();
    let finding = finding(flat, &replaced);
    for &at in &replaced {
        (new.equations[at].lhs, new.equations[at].rhs) = sides[at];
    }
    Some(Specialized { flat: new, decisive, finding })
}

fn finding(flat: &FlatDae, replaced: &[usize]) -> Finding {
    let texts: Vec<String> = replaced.iter().map(|&at| equation_text(flat, at)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let first = replaced.iter().map(|&at| flat.equations[at].span).min().unwrap_or(Span::NONE);
    let message = format!(
        "at the values of their parameters these equations lose unknowns that structure counts on; the values were put in: {}",
        enumerate(&texts, 6)
    );
    let mut finding = Finding::note("structure-misleads", first, message);
    for (&at, text) in replaced.iter().zip(&texts).take(8) {
        finding = finding.with_label(flat.equations[at].span, *text);
    }
    finding
}

/// The variable, and its value, that two sides say to be a number.
fn number_of(flat: &FlatDae, graph: &mut Graph, lhs: ExprId, rhs: ExprId) -> Option<(VarId, f64)> {
    let residual = graph.sub(lhs, rhs);
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &[residual], &mut leaves);
    let &[leaf @ Leaf::Var { var, order: 0 }] = &leaves[..] else { return None };
    if flat.variables[var.index()].kind != VariableKind::Continuous {
        return None;
    }
    let form = graph.linear_coefficients(residual, &[leaf]).ok()?;
    let [entry] = &form.coefficients[..] else { return None };
    let value = -graph.as_number(form.remainder)? / graph.as_number(entry.value)?;
    value.is_finite().then_some((var, value))
}

/// Looks for leaves.
struct Leaves {
    reach: Reach,
    found: Vec<Leaf>,
}

impl Leaves {
    /// The variables of a kind below two sides, each with the order of a derivative.
    fn of_kind(
        &mut self,
        flat: &FlatDae,
        kind: VariableKind,
        graph: &Graph,
        sides: (ExprId, ExprId),
    ) -> Vec<(VarId, u16)> {
        self.reach.leaves(graph, &[sides.0, sides.1], &mut self.found);
        let var = |leaf: &Leaf| match *leaf {
            Leaf::Var { var, order } => Some((var, order)),
            Leaf::Time => None,
        };
        self.found.iter().filter_map(var).filter(|(var, _)| flat.variables[var.index()].kind == kind).collect()
    }
}

/// Puts numbers in.
pub(super) struct Insertion<'a> {
    pub(super) known: &'a FxHashMap<VarId, f64>,
    /// What expressions have become.
    pub(super) images: FxHashMap<ExprId, ExprId>,
}

impl Insertion<'_> {
    pub(super) fn apply(&mut self, graph: &mut Graph, root: ExprId) -> ExprId {
        let mut stack = vec![root];
        while let Some(&top) = stack.last() {
            if self.images.contains_key(&top) {
                stack.pop();
                continue;
            }
            let children = graph.children(top);
            let n_waiting = stack.len();
            stack.extend(children.iter().filter(|child| !self.images.contains_key(child)));
            if stack.len() == n_waiting {
                let args: Vec<ExprId> = children.iter().map(|child| self.images[child]).collect();
                let image = self.image(graph, top, &args);
                self.images.insert(top, image);
                stack.pop();
            }
        }
        self.images[&root]
    }

    /// What an expression becomes with other arguments.
    fn image(&self, graph: &mut Graph, expr: ExprId, args: &[ExprId]) -> ExprId {
        let is_zero = |graph: &Graph, arg: ExprId| graph.as_number(arg) == Some(0.0);
        match (graph.node(expr), args) {
            (Node::Var { var, order }, _) => match self.known.get(&var) {
                Some(&value) => graph.number(if order == 0 { value } else { 0.0 }),
                None => expr,
            },
            (Node::Binary { op: BinaryOp::Mul, .. }, &[lhs, rhs]) if is_zero(graph, lhs) || is_zero(graph, rhs) => {
                graph.number(0.0)
            }
            (Node::Binary { op: BinaryOp::Div, .. }, &[lhs, rhs]) if is_zero(graph, lhs) && !is_zero(graph, rhs) => lhs,
            (Node::Select { .. }, &[_, then, otherwise]) if then == otherwise => then,
            (Node::Unary { op: UnaryOp::NoEvent | UnaryOp::WithEvents, .. }, &[arg])
                if graph.as_number(arg).is_some() =>
            {
                arg
            }
            _ => graph.rebuild(expr, args),
        }
    }
}
