//! Separates what changes at events only from what varies continuously.
//!
//! A discrete variable is assigned in a when-clause or given by an equation of its own, `variable = expression` (either
//! side), unless that equation determines a continuous variable. Between events it is constant, so that the continuous
//! equations see it as they see a parameter.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, ValueType, VariableKind, WhenAction};
use daesy_graph::regular::DiscreteEquation;
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{ExprId, Node, VarId};

use crate::incidence::{Entry, IncidenceBuilder};
use crate::matching::maximum_matching;

/// The discrete part of a model.
#[derive(Clone, Debug)]
pub struct DiscreteSplit {
    /// Whether each equation of the flat model is continuous.
    pub is_continuous: Vec<bool>,
    /// Equations of discrete variables in an order in which each needs only earlier ones where possible.
    pub equations: Vec<DiscreteEquation>,
}

/// Finds the equation of each discrete variable.
///
/// # Errors
/// Findings that name discrete variables without an equation, and equations without a variable.
pub fn split_discrete(flat: &FlatDae) -> Result<DiscreteSplit, Vec<Finding>> {
    let is_discrete = |var: VarId| flat.variables[var.index()].kind == VariableKind::Discrete;
    let side = |expr: ExprId| match flat.graph.node(expr) {
        Node::Var { var, order: 0 } if is_discrete(var) => Some(var),
        _ => None,
    };
    let mut is_assigned = vec![false; flat.variables.len()];
    for action in flat.when_clauses.iter().flat_map(|clause| &clause.branches).flat_map(|branch| &branch.actions) {
        if let WhenAction::Assign { variable, .. } = action {
            is_assigned[variable.index()] = true;
        }
    }
    let wanted: Vec<VarId> = (0..flat.variables.len() as u32)
        .map(VarId)
        .filter(|&var| is_discrete(var) && !is_assigned[var.index()] && !is_text(flat, var))
        .collect();
    let mut column_of = vec![u32::MAX; flat.variables.len()];
    for (column, var) in wanted.iter().enumerate() {
        column_of[var.index()] = column as u32;
    }
    let mut is_continuous = vec![true; flat.equations.len()];
    let mut rows = Vec::new();
    let mut reach = Reach::new();
    let Ok(mut builder) = IncidenceBuilder::new(wanted.len()) else { return Err(Vec::new()) };
    for (at, equation) in flat.equations.iter().enumerate() {
        let sides = [side(equation.lhs), side(equation.rhs)];
        if sides == [None, None] || is_about_continuous(flat, &is_assigned, equation, &mut reach) {
            continue;
        }
        is_continuous[at] = false;
        rows.push(at);
        let entries = sides.into_iter().flatten().filter(|var| column_of[var.index()] != u32::MAX);
        let entries: Vec<Entry> = entries.map(|var| Entry { variable: column_of[var.index()], order: 0 }).collect();
        if builder.push_equation(entries).is_err() {
            return Err(Vec::new());
        }
    }
    let matching = maximum_matching(&builder.finish());
    let mut findings = Vec::new();
    for row in matching.unmatched_equations() {
        let equation = &flat.equations[rows[row as usize]];
        findings.push(
            Finding::error(
                "too-many-equations",
                equation.span,
                "this equation of a discrete variable is one too many: every discrete variable in it has an equation already",
            )
            .with_help("remove one of the equations, or assign the variable in one place only"),
        );
    }
    for column in matching.unmatched_variables() {
        findings.push(undetermined(flat, wanted[column as usize], &mut reach));
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let equations: Vec<DiscreteEquation> = rows
        .iter()
        .enumerate()
        .filter_map(|(row, &at)| {
            let variable = wanted[matching.variable_of(row)? as usize];
            let equation = &flat.equations[at];
            let value = if side(equation.lhs) == Some(variable) { equation.rhs } else { equation.lhs };
            Some(DiscreteEquation { variable, value, source: at as u32, span: equation.span })
        })
        .collect();
    let findings: Vec<Finding> = equations.iter().filter_map(|equation| continuous_value(flat, equation)).collect();
    if !findings.is_empty() {
        return Err(findings);
    }
    Ok(DiscreteSplit { is_continuous, equations: order_by_need(flat, equations) })
}

/// Says that a discrete variable has no equation of its own, with the first equation that it is in.
fn undetermined(flat: &FlatDae, var: VarId, reach: &mut Reach) -> Finding {
    let variable = &flat.variables[var.index()];
    let name = &variable.name;
    let mut mentions = |expr: ExprId| {
        reach.depends_on(&flat.graph, expr, |leaf| matches!(leaf, Leaf::Var { var: read, .. } if read == var))
    };
    match flat.equations.iter().find(|equation| mentions(equation.lhs) || mentions(equation.rhs)) {
        Some(equation) => {
            let message = format!("no equation is solved for the discrete variable `{name}`");
            Finding::error("too-few-equations", variable.span, message)
                .with_label(equation.span, "an equation of several discrete variables is not solved for one of them")
                .with_help(format!(
                    "write it with `{name}` alone on one side; discrete variables that determine each other are only found \
                     by putting in one after the other"
                ))
        }
        None => {
            let message = format!("nothing determines the discrete variable `{name}`");
            Finding::error("too-few-equations", variable.span, message)
                .with_help("give it an equation, or assign it in a when-clause")
        }
    }
    .with_names([name])
}

/// Says that a discrete variable is given a value that changes between events, where it would not be seen.
fn continuous_value(flat: &FlatDae, equation: &DiscreteEquation) -> Option<Finding> {
    let varies = flat.graph.varies_between_events(equation.value, |leaf| match leaf {
        Leaf::Time => true,
        Leaf::Var { var, order } => match flat.variables[var.index()].kind {
            VariableKind::Continuous => true,
            VariableKind::Input => flat.variables[var.index()].value_type == ValueType::Real,
            _ => order > 0,
        },
    });
    let name = &flat.variables[equation.variable.index()].name;
    varies.then(|| {
        let message = format!("the discrete variable `{name}` is given a value that varies continuously");
        Finding::error("variability", equation.span, message)
            .with_names([name])
            .with_help("assign it in a when-clause, or declare it without `discrete`")
    })
}

/// Whether an equation with a discrete variable on a side determines a continuous one: `x = n` or `der(x) = a`, or
/// `2*x = a` where `a` is a number that a when-clause assigns.
fn is_about_continuous(flat: &FlatDae, is_assigned: &[bool], equation: &Equation, reach: &mut Reach) -> bool {
    let sides = [equation.lhs, equation.rhs];
    let variable = |expr: ExprId| match flat.graph.node(expr) {
        Node::Var { var, .. } => Some(&flat.variables[var.index()]),
        _ => None,
    };
    let is_continuous = |var: VarId| flat.variables[var.index()].kind == VariableKind::Continuous;
    if sides.iter().any(|&side| variable(side).is_some_and(|side| side.kind == VariableKind::Continuous)) {
        return true;
    }
    let is_free_number = |expr: ExprId| match flat.graph.node(expr) {
        Node::Var { var, .. } => !is_assigned[var.index()] || flat.variables[var.index()].value_type != ValueType::Real,
        _ => false,
    };
    !sides.iter().any(|&side| is_free_number(side))
        && sides.iter().any(|&side| {
            reach.depends_on(&flat.graph, side, |leaf| matches!(leaf, Leaf::Var { var, .. } if is_continuous(var)))
        })
}

fn is_text(flat: &FlatDae, var: VarId) -> bool {
    flat.variables[var.index()].value_type == ValueType::String
}

/// Sorts equations such that each comes after those whose variables it uses; a cycle is left to iteration at events.
fn order_by_need(flat: &FlatDae, equations: Vec<DiscreteEquation>) -> Vec<DiscreteEquation> {
    let mut giver = vec![usize::MAX; flat.variables.len()];
    for (at, equation) in equations.iter().enumerate() {
        giver[equation.variable.index()] = at;
    }
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let mut needs = |at: usize| -> Vec<usize> {
        reach.leaves(&flat.graph, &[equations[at].value], &mut leaves);
        leaves
            .iter()
            .filter_map(|leaf| match *leaf {
                Leaf::Var { var, .. } if giver[var.index()] != usize::MAX => Some(giver[var.index()]),
                _ => None,
            })
            .collect()
    };
    let mut is_met = vec![false; equations.len()];
    let mut order = Vec::with_capacity(equations.len());
    let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
    for start in 0..equations.len() {
        if is_met[start] {
            continue;
        }
        is_met[start] = true;
        path.push((start, needs(start)));
        while let Some((at, left)) = path.last_mut() {
            let at = *at;
            match left.pop() {
                Some(next) if !is_met[next] => {
                    is_met[next] = true;
                    let below = needs(next);
                    path.push((next, below));
                }
                Some(_) => {}
                None => {
                    order.push(equations[at]);
                    path.pop();
                }
            }
        }
    }
    order
}
