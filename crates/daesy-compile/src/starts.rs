//! Start values that are wished for, as rows `value - start`.
//!
//! Each `start` that was written is a row of its own, also where its variable was eliminated: two names of the same
//! quantity may wish for different values. Variables whose derivative of order k occurs start at zero with all
//! derivatives below k unless something else was written. What occurs is what was written: where other equations have
//! taken the place of those, other derivatives may occur in them. The rows come by class, in the order of declaration within
//! each; who solves the start lets a class give way only to those before it.

use daesy_graph::flat::{Variable, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::{ExprId, Graph, Leaf, Reach, VarId};
use daesy_system::{StartClass, StartCondition};
use rustc_hash::FxHashMap;

use crate::lower::Places;

/// The rows of [`daesy_system::Part::Start`] with what they are about.
#[derive(Default)]
pub(crate) struct StartRows {
    pub(crate) rows: Vec<ExprId>,
    pub(crate) conditions: Vec<StartCondition>,
}

/// The highest derivative of each variable in the equations of the flat model as they were written.
fn highest_orders(regular: &RegularDae) -> Vec<u16> {
    let flat = &regular.flat;
    let mut highest = vec![0; flat.variables.len()];
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let roots: Vec<ExprId> = flat.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
    reach.leaves(&flat.graph, &roots, &mut leaves);
    for leaf in leaves {
        if let Leaf::Var { var, order } = leaf {
            highest[var.index()] = order.max(highest[var.index()]);
        }
    }
    for (highest, variable) in highest.iter_mut().zip(flat.variables.iter()) {
        *highest = variable.written_order.unwrap_or(*highest);
    }
    highest
}

/// Collects the rows; `value_of` gives a variable in terms of those that remain, `number` the value of an attribute.
pub(crate) fn start_rows(
    regular: &RegularDae,
    graph: &mut Graph,
    places: &Places,
    eliminated: &FxHashMap<VarId, ExprId>,
    number: &mut dyn FnMut(Option<ExprId>) -> Option<f64>,
) -> StartRows {
    let variables = &regular.flat.variables;
    let highest = highest_orders(regular);
    let mut found: Vec<(StartClass, ExprId, StartCondition)> = Vec::new();
    let mut reach = Reach::new();
    let mut leaves = Vec::new();
    for var in (0..variables.len() as u32).map(VarId) {
        let variable = &variables[var.index()];
        if variable.kind != VariableKind::Continuous {
            continue;
        }
        let nominal = number(variable.nominal).map_or(1.0, f64::abs);
        let nominal = if nominal > 0.0 { nominal } else { 1.0 };
        let is_differential = highest[var.index()] > 0;
        let mut value = eliminated.get(&var).copied().unwrap_or_else(|| graph.var(var));
        let mut name = variable.name.clone();
        for order in 0..highest[var.index()].max(1) {
            if order > 0 {
                value = graph.total_time_derivative(value, &|var| variables[var.index()].kind);
                name = format!("der({name})");
            }
            let Some((class, start)) = wish(graph, variable, order, is_differential) else { continue };
            let row = graph.sub(value, start);
            reach.leaves(graph, &[row], &mut leaves);
            let is_known = |leaf: &Leaf| match *leaf {
                Leaf::Var { var, order } => places.of_leaf.contains_key(&(var, order)),
                Leaf::Time => true,
            };
            if leaves.iter().all(is_known) {
                found.push((class, row, StartCondition { name: name.clone(), class, nominal }));
            }
        }
    }
    found.sort_by_key(|(class, ..)| *class);
    let mut made = StartRows::default();
    for (_, row, condition) in found {
        made.rows.push(row);
        made.conditions.push(condition);
    }
    made
}

/// What is wished for a derivative of a variable; `None` where it is insisted on, or no wish at all.
fn wish(graph: &mut Graph, variable: &Variable, order: u16, is_differential: bool) -> Option<(StartClass, ExprId)> {
    match variable.start {
        _ if order == 0 && variable.fixed == Some(true) => None,
        Some(start) if order == 0 => {
            Some((if is_differential { StartClass::Differential } else { StartClass::Other }, start))
        }
        _ if is_differential => Some((StartClass::Default, graph.number(0.0))),
        _ => None,
    }
}
