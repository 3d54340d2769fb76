//! Matrices of a study as a flat model: E z' = F z + G u + J w, y = H z.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, Experiment, FlatDae, Origin, Variable, VariableKind};
use daesy_graph::{ExprId, FileId, Graph, Shared, SourceFile, SourceMap, Span, VarId};

use daesy_model::file::{MAX_DATA_BYTES, read_text};

use crate::diagnostic::Diagnostic;
use crate::expression::read_expression;
use crate::study::{
    LinearMatrix, LinearSource, MatrixEntry, Quantity, QuantityValue, SparseMatrix, Study, read_matrix_market,
};

/// Adds a parameter to a flat model.
pub(crate) fn add_parameter(flat: &mut FlatDae, name: &str, binding: Option<ExprId>, span: Span) {
    flat.variables.push(Variable { binding, ..Variable::new(name, VariableKind::Parameter, span) });
}

/// The matrices of a linear model, those in files included.
struct Matrices {
    e: SparseMatrix,
    f: SparseMatrix,
    g: Option<SparseMatrix>,
    j: Option<SparseMatrix>,
    h: Option<SparseMatrix>,
}

/// Reads the matrices that are in files.
fn read_matrices(source: &LinearSource, folder: &Path, sources: &mut SourceMap) -> Result<Matrices, Vec<Finding>> {
    let mut findings = Vec::new();
    let mut read = |matrix: &LinearMatrix| match matrix {
        LinearMatrix::Given(matrix) => Some(matrix.clone()),
        LinearMatrix::File { path, span } => {
            let shown = path.display();
            match read_text(&folder.join(path), MAX_DATA_BYTES) {
                Ok(text) => {
                    let name = folder.join(path).display().to_string();
                    let file = FileId(sources.files().len() as u32);
                    let read = read_matrix_market(&shown.to_string(), &text, file);
                    sources.add(SourceFile::new(name, text));
                    read.map_err(|finding| findings.push(finding)).ok()
                }
                Err(error) => {
                    let message = format!("the matrix file `{shown}` cannot be read: {error}");
                    let finding = Finding::error("matrix-file", *span, message);
                    findings.push(finding.with_help("the path is relative to the study file"));
                    None
                }
            }
        }
    };
    let (e, f) = (read(&source.e), read(&source.f));
    let mut optional = |matrix: &Option<LinearMatrix>| matrix.as_ref().and_then(&mut read);
    let (g, j, h) = (optional(&source.g), optional(&source.j), optional(&source.h));
    match (e, f) {
        (Some(e), Some(f)) if findings.is_empty() => Ok(Matrices { e, f, g, j, h }),
        _ => Err(findings),
    }
}

/// Builds the flat model of a `[linear]` section. Parameters are those of the study and the names of unknowns; matrix
/// files are looked for in `folder`.
///
/// # Errors
/// Diagnostics that name the matrix whose shape or entry is wrong.
pub(crate) fn build(
    source: &LinearSource,
    study: &Study,
    unknowns: &[String],
    folder: &Path,
) -> Result<FlatDae, Vec<Diagnostic>> {
    let mut sources = study.sources.clone();
    let matrices = read_matrices(source, folder, &mut sources);
    matrices
        .and_then(|matrices| assemble(source, &matrices, study, unknowns))
        .map(|flat| FlatDae { sources: Arc::new(sources.clone()), ..flat })
        .map_err(|findings| findings.iter().map(|finding| Diagnostic::resolve(finding, &sources)).collect())
}

/// What does not fit together among the sizes of the matrices.
fn wrong_shapes(source: &LinearSource, matrices: &Matrices) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Matrices { e, f, g, j, h } = matrices;
    let (n_rows, n_z) = (e.rows.len(), e.n_columns);
    let mut expect = |name: &str, matrix: &SparseMatrix, rows: usize, columns: Option<usize>| {
        let (found_rows, found_columns) = (matrix.rows.len(), matrix.n_columns);
        let wrong_columns = columns.is_some_and(|columns| columns != found_columns);
        if found_rows != rows || wrong_columns {
            let columns = columns.map_or_else(|| "any number of".to_owned(), |columns| columns.to_string());
            let message =
                format!("`{name}` is {found_rows} x {found_columns}, but must have {rows} rows and {columns} columns");
            findings.push(Finding::error("matrix-shape", matrix.span, message).with_names([name]));
        }
    };
    expect("F", f, n_rows, Some(n_z));
    for (name, matrix) in [("G", g), ("J", j)] {
        if let Some(matrix) = matrix {
            expect(name, matrix, n_rows, None);
        }
    }
    if let Some(matrix) = h {
        expect("H", matrix, matrix.rows.len(), Some(n_z));
    }
    if n_z == 0 {
        findings.push(Finding::error("matrix-shape", source.span, "`E` is empty").with_names(["E"]));
    }
    findings
}

/// Adds the parameters of a study and its unknowns; their variables by name.
fn add_parameters(
    flat: &mut FlatDae,
    source: &LinearSource,
    study: &Study,
    unknowns: &[String],
) -> BTreeMap<String, VarId> {
    for parameter in &study.parameters {
        let value = match parameter.item.value {
            QuantityValue::Number(value) => Some(flat.graph.number(value)),
            QuantityValue::Expression(_) => None,
        };
        add_parameter(flat, &parameter.name, value, parameter.span);
    }
    for name in unknowns {
        add_parameter(flat, name, None, source.span);
    }
    let is_parameter = |variable: &Variable| variable.kind == VariableKind::Parameter;
    let first_parameter = flat.variables.iter().position(is_parameter).unwrap_or(flat.variables.len());
    flat.variables[first_parameter..]
        .iter()
        .enumerate()
        .map(|(at, variable)| (variable.name.clone(), VarId((first_parameter + at) as u32)))
        .collect()
}

fn assemble(
    source: &LinearSource,
    matrices: &Matrices,
    study: &Study,
    unknowns: &[String],
) -> Result<FlatDae, Vec<Finding>> {
    let mut findings = wrong_shapes(source, matrices);
    let Matrices { e, f, g, j, h } = matrices;
    let (n_rows, n_z) = (e.rows.len(), e.n_columns);
    let columns = |matrix: &Option<SparseMatrix>| matrix.as_ref().map_or(0, |matrix| matrix.n_columns);
    let mut names = |given: &Option<Vec<String>>, letter: &str, n: usize| match given {
        Some(names) if names.len() == n => names.clone(),
        Some(names) => {
            let message = format!("`names.{letter}` lists {} names for {n} signals", names.len());
            findings.push(Finding::error("matrix-names", source.span, message));
            Vec::new()
        }
        None => (1..=n).map(|at| format!("{letter}{at}")).collect(),
    };
    let z = names(&source.names.z, "z", n_z);
    let u = names(&source.names.u, "u", columns(g));
    let w = names(&source.names.w, "w", columns(j));
    let y = names(&source.names.y, "y", h.as_ref().map_or(0, |matrix| matrix.rows.len()));
    if !findings.is_empty() {
        return Err(findings);
    }

    let mut flat = FlatDae {
        model: "linear".to_owned(),
        description: None,
        graph: Graph::default(),
        variables: Shared::default(),
        equations: Vec::new(),
        initial_equations: Vec::new(),
        when_clauses: Vec::new(),
        assertions: Vec::new(),
        experiment: Experiment::default(),
        findings: Vec::new(),
        sources: Arc::new(study.sources.clone()),
    };
    let mut add = |names: &[String], kind, is_output| -> Vec<VarId> {
        let first = flat.variables.len() as u32;
        let variable = |name: &String| Variable { is_output, ..Variable::new(name, kind, source.span) };
        flat.variables.extend(names.iter().map(variable));
        (first..flat.variables.len() as u32).map(VarId).collect()
    };
    let z = add(&z, VariableKind::Continuous, false);
    let u = add(&u, VariableKind::Input, false);
    let w = add(&w, VariableKind::Input, false);
    let y = add(&y, VariableKind::Continuous, true);
    let parameters = add_parameters(&mut flat, source, study, unknowns);
    let mut entry = |graph: &mut Graph, quantity: &Quantity| match &quantity.value {
        QuantityValue::Number(value) => graph.number(*value),
        QuantityValue::Expression(text) => {
            let mut resolve = |graph: &mut Graph, name: &str| parameters.get(name).map(|&var| graph.var(var));
            let names = || parameters.keys().cloned().collect();
            match read_expression(graph, text, quantity.span, &mut resolve, &names) {
                Ok(expr) => expr,
                Err(errors) => {
                    findings.extend(errors);
                    graph.number(0.0)
                }
            }
        }
    };
    let mut combine = |graph: &mut Graph, row: &[MatrixEntry], vars: &[VarId], order: u16| {
        let mut terms = Vec::new();
        for MatrixEntry { column, value } in row {
            let coefficient = entry(graph, value);
            let value = graph.der(vars[*column], order);
            if graph.as_number(coefficient) != Some(0.0) {
                terms.push(graph.mul(coefficient, value));
            }
        }
        graph.sum(&terms)
    };
    let mut equations = Vec::with_capacity(n_rows + y.len());
    let graph = &mut flat.graph;
    let equation = |lhs, rhs, span| Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span };
    for (row, e_row) in e.rows.iter().enumerate() {
        let lhs = combine(graph, e_row, &z, 1);
        let mut sides = vec![combine(graph, &f.rows[row], &z, 0)];
        if let Some(g) = g {
            sides.push(combine(graph, &g.rows[row], &u, 0));
        }
        if let Some(j) = j {
            sides.push(combine(graph, &j.rows[row], &w, 0));
        }
        let rhs = graph.sum(&sides);
        let first = e_row.first().or(f.rows[row].first());
        equations.push(equation(lhs, rhs, first.map_or(e.span, |entry| entry.value.span)));
    }
    for (row, &output) in h.iter().flat_map(|matrix| &matrix.rows).zip(&y) {
        let rhs = combine(graph, row, &z, 0);
        let lhs = graph.var(output);
        equations.push(equation(lhs, rhs, row.first().map_or(source.span, |entry| entry.value.span)));
    }
    flat.equations = equations;
    if findings.is_empty() { Ok(flat) } else { Err(findings) }
}
