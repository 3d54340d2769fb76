//! Variables that equations give as functions of time alone.
//!
//! `phase = mod(time, period)` and `level = if phase < width then 1 else 0` have values that depend on time,
//! parameters and modes only. A row in which everything but one variable y is such a value, c y + e = 0 with a number
//! c, makes y another one.

use daesy_graph::flat::VariableKind;
use daesy_graph::regular::RegularDae;
use daesy_graph::{ExprId, Graph, Leaf, Node, Reach, VarId};
use rustc_hash::FxHashMap;

/// Whether an expression reads the past of a signal, or a unit that runs elsewhere: what it gives is no function of time
/// that could be asked ahead of it.
pub(crate) fn is_elsewhere(graph: &Graph, reach: &mut Reach, expr: ExprId) -> bool {
    let is_foreign = |expr: &ExprId| match graph.node(*expr) {
        Node::Call { function, .. } => graph.foreign(function).is_some(),
        _ => false,
    };
    graph.has_calls(expr) && reach.below(graph, &[expr]).iter().any(is_foreign)
}

/// The definitions; each goes back to time and to earlier ones.
#[derive(Default)]
pub(crate) struct Timed {
    values: FxHashMap<VarId, ExprId>,
}

impl Timed {
    /// Finds the definitions among rows that are zero. Nothing is searched in a model without relations and whole
    /// numbers, neither in its rows nor in its discrete part.
    pub(crate) fn find(regular: &RegularDae, graph: &mut Graph, rows: impl Iterator<Item = ExprId>) -> Self {
        let rows: Vec<ExprId> = rows.collect();
        let is_discrete = !regular.discrete.is_empty() || !regular.flat.when_clauses.is_empty();
        if is_discrete || rows.iter().any(|&row| graph.may_make_events(row)) {
            Self::of(regular, graph, &rows)
        } else {
            Self::default()
        }
    }

    /// The definitions among rows that are zero.
    pub(crate) fn of(regular: &RegularDae, graph: &mut Graph, rows: &[ExprId]) -> Self {
        let mut values = FxHashMap::default();
        let variables = &regular.flat.variables;
        let varies = |leaf: &Leaf| match leaf {
            Leaf::Time => false,
            Leaf::Var { var, .. } => variables
                .get(var.index())
                .is_some_and(|variable| matches!(variable.kind, VariableKind::Continuous | VariableKind::Input)),
        };
        let mut reach = Reach::new();
        let mut found = Vec::new();
        // What varies in each row and is not a function of time as far as known; rows with one such leaf are ready.
        let mut open: Vec<Vec<Leaf>> = Vec::with_capacity(rows.len());
        let mut rows_with: FxHashMap<Leaf, Vec<usize>> = FxHashMap::default();
        let mut ready = Vec::new();
        for (at, &row) in rows.iter().enumerate() {
            found.clear();
            reach.leaves(graph, &[row], &mut found);
            found.retain(varies);
            if is_elsewhere(graph, &mut reach, row) {
                open.push(Vec::new());
                continue;
            }
            if found.len() == 1 {
                ready.push(at);
            }
            for &leaf in &found {
                rows_with.entry(leaf).or_default().push(at);
            }
            open.push(found.clone());
        }
        while let Some(at) = ready.pop() {
            let [leaf @ Leaf::Var { var, order: 0 }] = open[at][..] else { continue };
            if values.contains_key(&var) || variables[var.index()].kind != VariableKind::Continuous {
                continue;
            }
            let Ok(form) = graph.linear_coefficients(rows[at], &[leaf]) else { continue };
            let [entry] = form.coefficients[..] else { continue };
            let Some(coefficient) = graph.as_number(entry.value).filter(|value| *value != 0.0) else { continue };
            let factor = graph.number(-1.0 / coefficient);
            values.insert(var, graph.mul(factor, form.remainder));
            for &with in &rows_with[&leaf] {
                open[with].retain(|known| *known != leaf);
                if open[with].len() == 1 {
                    ready.push(with);
                }
            }
        }
        Self { values }
    }

    /// What a variable is as a function of time.
    pub(crate) fn value(&self, var: VarId) -> Option<ExprId> {
        self.values.get(&var).copied()
    }
}
