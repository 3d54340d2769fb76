//! Matrices of a study as a flat model: E z' = F z + G u + J w, y = H z.

use std::sync::Arc;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, Experiment, FlatDae, Origin, StateSelect, ValueType, Variable, VariableKind};
use daesy_graph::{ExprId, Graph, Span, VarId};

use crate::expression::read_expression;
use crate::study::{LinearSource, Matrix, Quantity, QuantityValue, Study};

/// Adds a parameter to a flat model.
pub(crate) fn add_parameter(flat: &mut FlatDae, name: &str, binding: Option<ExprId>, span: Span) {
    flat.variables.push(Variable { binding, ..variable(name, VariableKind::Parameter, span) });
}

fn variable(name: &str, kind: VariableKind, span: Span) -> Variable {
    Variable {
        name: name.to_owned(),
        description: None,
        kind,
        value_type: ValueType::Real,
        is_output: false,
        is_flow: false,
        is_protected: false,
        is_structural: false,
        is_final: false,
        binding: None,
        text: None,
        start: None,
        fixed: None,
        min: None,
        max: None,
        nominal: None,
        unit: None,
        display_unit: None,
        state_select: StateSelect::Default,
        span,
    }
}

/// Builds the flat model of a `[linear]` section. Parameters are those of the study and the names of unknowns.
///
/// # Errors
/// Findings that name the matrix whose shape or entry is wrong.
pub(crate) fn build(source: &LinearSource, study: &Study, unknowns: &[String]) -> Result<FlatDae, Vec<Finding>> {
    let mut findings = Vec::new();
    let n_rows = source.e.len();
    let n_z = source.e.first().map_or(0, Vec::len);
    let shape = |matrix: &Matrix| (matrix.len(), matrix.first().map_or(0, Vec::len));
    let mut expect = |name: &str, matrix: &Matrix, rows: usize, columns: Option<usize>| {
        let (found_rows, found_columns) = shape(matrix);
        let wrong_columns = columns.is_some_and(|columns| columns != found_columns);
        if found_rows != rows || wrong_columns {
            let columns = columns.map_or_else(|| "any number of".to_owned(), |columns| columns.to_string());
            findings.push(
                Finding::error(
                    "matrix-shape",
                    matrix.first().and_then(|row| row.first()).map_or(source.span, |entry| entry.span),
                    format!(
                        "`{name}` is {found_rows} x {found_columns}, but must have {rows} rows and {columns} columns"
                    ),
                )
                .with_names([name]),
            );
        }
    };
    expect("F", &source.f, n_rows, Some(n_z));
    for (name, matrix) in [("G", &source.g), ("J", &source.j)] {
        if let Some(matrix) = matrix {
            expect(name, matrix, n_rows, None);
        }
    }
    if let Some(matrix) = &source.h
        && matrix.first().is_some_and(|row| row.len() != n_z)
    {
        expect("H", matrix, matrix.len(), Some(n_z));
    }
    if n_z == 0 {
        findings.push(Finding::error("matrix-shape", source.span, "`E` is empty").with_names(["E"]));
    }
    let columns = |matrix: &Option<Matrix>| matrix.as_ref().map_or(0, |matrix| shape(matrix).1);
    let names = |given: &Option<Vec<String>>, letter: &str, n: usize, findings: &mut Vec<Finding>| -> Vec<String> {
        match given {
            Some(names) if names.len() == n => names.clone(),
            Some(names) => {
                let message = format!("`names.{letter}` lists {} names for {n} signals", names.len());
                findings.push(Finding::error("matrix-names", source.span, message));
                Vec::new()
            }
            None => (1..=n).map(|at| format!("{letter}{at}")).collect(),
        }
    };
    let z = names(&source.names.z, "z", n_z, &mut findings);
    let u = names(&source.names.u, "u", columns(&source.g), &mut findings);
    let w = names(&source.names.w, "w", columns(&source.j), &mut findings);
    let y = names(&source.names.y, "y", source.h.as_ref().map_or(0, Vec::len), &mut findings);
    if !findings.is_empty() {
        return Err(findings);
    }

    let mut flat = FlatDae {
        model: "linear".to_owned(),
        description: None,
        graph: Graph::default(),
        variables: Vec::new(),
        equations: Vec::new(),
        initial_equations: Vec::new(),
        when_clauses: Vec::new(),
        assertions: Vec::new(),
        experiment: Experiment::default(),
        findings: Vec::new(),
        sources: Arc::new(study.sources.clone()),
    };
    let add = |flat: &mut FlatDae, names: &[String], kind, is_output| -> Vec<VarId> {
        names
            .iter()
            .map(|name| {
                flat.variables.push(Variable { is_output, ..variable(name, kind, source.span) });
                VarId(flat.variables.len() as u32 - 1)
            })
            .collect()
    };
    let z = add(&mut flat, &z, VariableKind::Continuous, false);
    let u = add(&mut flat, &u, VariableKind::Input, false);
    let w = add(&mut flat, &w, VariableKind::Input, false);
    let y = add(&mut flat, &y, VariableKind::Continuous, true);
    for parameter in &study.parameters {
        let value = match parameter.item.value {
            QuantityValue::Number(value) => Some(flat.graph.number(value)),
            QuantityValue::Expression(_) => None,
        };
        add_parameter(&mut flat, &parameter.name, value, parameter.span);
    }
    for name in unknowns {
        add_parameter(&mut flat, name, None, source.span);
    }
    let mut entry = |flat: &mut FlatDae, quantity: &Quantity| match &quantity.value {
        QuantityValue::Number(value) => flat.graph.number(*value),
        QuantityValue::Expression(text) => {
            let FlatDae { graph, variables, .. } = flat;
            let is_parameter = |at: &usize| variables[*at].kind == VariableKind::Parameter;
            let find = |name: &str| (0..variables.len()).filter(is_parameter).find(|&at| variables[at].name == name);
            let mut resolve = |graph: &mut Graph, name: &str| find(name).map(|at| graph.var(VarId(at as u32)));
            let names = || (0..variables.len()).filter(is_parameter).map(|at| variables[at].name.clone()).collect();
            match read_expression(graph, text, quantity.span, &mut resolve, &names) {
                Ok(expr) => expr,
                Err(errors) => {
                    findings.extend(errors);
                    graph.number(0.0)
                }
            }
        }
    };
    let mut combine = |flat: &mut FlatDae, row: &[Quantity], vars: &[VarId], order: u16| {
        let mut terms = Vec::new();
        for (quantity, &var) in row.iter().zip(vars) {
            let coefficient = entry(flat, quantity);
            let value = flat.graph.der(var, order);
            if flat.graph.as_number(coefficient) != Some(0.0) {
                terms.push(flat.graph.mul(coefficient, value));
            }
        }
        flat.graph.sum(&terms)
    };
    for row in 0..n_rows {
        let lhs = combine(&mut flat, &source.e[row], &z, 1);
        let mut sides = vec![combine(&mut flat, &source.f[row], &z, 0)];
        if let Some(g) = &source.g {
            sides.push(combine(&mut flat, &g[row], &u, 0));
        }
        if let Some(j) = &source.j {
            sides.push(combine(&mut flat, &j[row], &w, 0));
        }
        let rhs = flat.graph.sum(&sides);
        let span = source.e[row].first().map_or(source.span, |entry| entry.span);
        flat.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span });
    }
    for (row, &output) in source.h.iter().flatten().zip(&y) {
        let rhs = combine(&mut flat, row, &z, 0);
        let lhs = flat.graph.var(output);
        let span = row.first().map_or(source.span, |entry| entry.span);
        flat.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span });
    }
    if findings.is_empty() { Ok(flat) } else { Err(findings) }
}
