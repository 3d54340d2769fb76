//! Parameters that initial equations compute, `fixed = false`, as expressions in the others.
//!
//! Initial equations that are linear in such parameters, and hold no variable of the model, are `M p + r = 0` with
//! entries that depend on the other parameters. They are solved symbolically by Gauss-Jordan elimination, so that the
//! values follow the unknowns of a search and have exact derivatives; pivots are chosen by their values at the
//! parameters given.

use std::borrow::Cow;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{Evaluator, ExprId, Graph, Leaf, LinearExtractor, Reach, Substitution, VarId};
use daesy_structure::parameters::order_parameters;

/// One equation `sum of coefficients p + remainder = 0`.
struct Row {
    coefficients: Vec<ExprId>,
    remainder: ExprId,
    /// Position among the initial equations.
    equation: usize,
}

/// The model with parameters that are computed at the start (`fixed = false`) bound to what determines them.
///
/// # Errors
/// What keeps them from being computed.
pub fn with_computed<'f>(flat: &'f FlatDae, unknowns: &[VarId]) -> Result<Cow<'f, FlatDae>, Vec<Finding>> {
    if flat.variables.iter().all(|variable| variable.fixed != Some(false)) {
        return Ok(Cow::Borrowed(flat));
    }
    let mut bound = flat.clone();
    bind_computed(&mut bound, unknowns)?;
    Ok(Cow::Owned(bound))
}

/// Binds every parameter with `fixed = false` to the expression that the initial equations give for it. Unknowns of a
/// study keep their own values.
///
/// # Errors
/// Findings that name parameters no such equation determines.
fn bind_computed(flat: &mut FlatDae, unknowns: &[VarId]) -> Result<(), Vec<Finding>> {
    let computed: Vec<VarId> = (0..flat.variables.len() as u32)
        .map(VarId)
        .filter(|var| {
            let variable = &flat.variables[var.index()];
            variable.kind == VariableKind::Parameter && variable.fixed == Some(false) && !unknowns.contains(var)
        })
        .collect();
    if computed.is_empty() {
        return Ok(());
    }
    for var in &computed {
        flat.variables[var.index()].binding = None;
    }
    let order = order_parameters(flat).map_err(|finding| vec![*finding])?;
    let values = known_values(flat, &order, &computed);
    let mut rows = linear_rows(flat, &order, &computed);
    let value_of = |graph: &Graph, expr: ExprId| {
        Evaluator::new().evaluate_one(graph, expr, &|var: VarId, _: u16| values[var.index()])
    };
    let mut solved: Vec<Option<Row>> = computed.iter().map(|_| None).collect();
    for at in 0..computed.len() {
        let size = |row: &Row| value_of(&flat.graph, row.coefficients[at]).abs();
        let candidates = (0..rows.len()).filter(|&row| size(&rows[row]) > 0.0 && size(&rows[row]).is_finite());
        let Some(best) = candidates.max_by(|&a, &b| size(&rows[a]).total_cmp(&size(&rows[b]))) else { continue };
        let pivot = rows.swap_remove(best);
        let others = rows.iter_mut().chain(solved.iter_mut().flatten());
        others.for_each(|row| eliminate(&mut flat.graph, row, &pivot, at));
        solved[at] = Some(pivot);
    }
    let mut findings = Vec::new();
    let mut used = Vec::new();
    for (at, (&var, row)) in computed.iter().zip(&solved).enumerate() {
        let is_alone = |row: &&Row| {
            let mut others = (0..computed.len()).filter(|&other| other != at);
            others.all(|other| flat.graph.as_number(row.coefficients[other]) == Some(0.0))
        };
        let Some(row) = row.as_ref().filter(is_alone) else {
            findings.push(undetermined(flat, var));
            continue;
        };
        let quotient = flat.graph.div(row.remainder, row.coefficients[at]);
        flat.variables[var.index()].binding = Some(flat.graph.neg(quotient));
        used.push(row.equation);
    }
    used.sort_unstable();
    for equation in used.into_iter().rev() {
        flat.initial_equations.remove(equation);
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

fn undetermined(flat: &FlatDae, var: VarId) -> Finding {
    let variable = &flat.variables[var.index()];
    let message = format!(
        "the value of `{}` is to be computed at the start (`fixed = false`), but no initial equation gives it linearly from \
         parameters alone",
        variable.name
    );
    Finding::error("computed-parameter", variable.span, message)
        .with_names([&variable.name])
        .with_help("use `method = \"pem\"`, which solves for it at the start of every simulation, or give it a value")
}

/// Values of all parameters that do not depend on computed ones; NaN for the others.
fn known_values(flat: &FlatDae, order: &[VarId], computed: &[VarId]) -> Vec<f64> {
    let mut values = vec![f64::NAN; flat.variables.len()];
    let mut evaluator = Evaluator::new();
    for var in order.iter().filter(|var| !computed.contains(var)) {
        let variable = &flat.variables[var.index()];
        let known = |var: VarId, _: u16| values[var.index()];
        let value = variable.binding.or(variable.start).map(|expr| evaluator.evaluate_one(&flat.graph, expr, &known));
        values[var.index()] = value.unwrap_or(0.0);
    }
    values
}

/// The initial equations that are linear in computed parameters and hold parameters only.
fn linear_rows(flat: &mut FlatDae, order: &[VarId], computed: &[VarId]) -> Vec<Row> {
    // Parameters that are bound to computed ones stand for them.
    let mut reach = Reach::new();
    let mut dependent: Vec<VarId> = computed.to_vec();
    let mut substitution = Substitution::new();
    for &var in order {
        let Some(binding) = flat.variables[var.index()].binding else { continue };
        let is_meant = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if dependent.contains(&var));
        if reach.depends_on(&flat.graph, binding, is_meant) {
            let image = substitution.apply(&mut flat.graph, binding);
            substitution.replace_leaf(&mut flat.graph, Leaf::var(var), image);
            dependent.push(var);
        }
    }
    let leaves: Vec<Leaf> = computed.iter().map(|&var| Leaf::var(var)).collect();
    let mut extractor = LinearExtractor::new(&mut flat.graph, &leaves);
    let mut rows = Vec::new();
    for at in 0..flat.initial_equations.len() {
        let equation = &flat.initial_equations[at];
        let residual = flat.graph.sub(equation.lhs, equation.rhs);
        let residual = substitution.apply(&mut flat.graph, residual);
        let is_parameter = |leaf: Leaf| match leaf {
            Leaf::Var { var, .. } => {
                matches!(flat.variables[var.index()].kind, VariableKind::Parameter | VariableKind::Constant)
            }
            _ => false,
        };
        if reach.depends_on(&flat.graph, residual, |leaf| !is_parameter(leaf)) {
            continue;
        }
        let Ok(form) = extractor.extract(&mut flat.graph, residual) else { continue };
        if form.coefficients.is_empty() {
            continue;
        }
        let zero = flat.graph.number(0.0);
        let mut coefficients = vec![zero; computed.len()];
        for entry in &form.coefficients {
            coefficients[entry.column as usize] = entry.value;
        }
        rows.push(Row { coefficients, remainder: form.remainder, equation: at });
    }
    rows
}

/// `row <- row - (row_at / pivot_at) pivot`.
fn eliminate(graph: &mut Graph, row: &mut Row, pivot: &Row, at: usize) {
    if graph.as_number(row.coefficients[at]) == Some(0.0) {
        return;
    }
    let factor = graph.div(row.coefficients[at], pivot.coefficients[at]);
    let minus = |graph: &mut Graph, of: ExprId, other: ExprId| {
        let product = graph.mul(factor, other);
        graph.sub(of, product)
    };
    for column in 0..row.coefficients.len() {
        row.coefficients[column] = if column == at {
            graph.number(0.0)
        } else {
            minus(graph, row.coefficients[column], pivot.coefficients[column])
        };
    }
    row.remainder = minus(graph, row.remainder, pivot.remainder);
}
