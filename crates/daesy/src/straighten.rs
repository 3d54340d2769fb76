//! Linear models whose structure misleads, brought to their strangeness-free form before they are simulated.
//!
//! Structure sees where coefficients are, not their values: where equations cancel, it promises more free start values than there
//! are, and the equations it wants to solve are singular. The number of free start values of a linear model with constant coefficients
//! is known from its pencil. If the two differ, the model is replaced by
//!
//! ```text
//! E_1 x' = A_1 x + B_1 u + f_1        0 = A_2 x + sum over k of B_2,k u^(k) + f_2        [@campbell2011, eq. (22)]
//! ```
//!
//! which has the same solutions, and whose structure is right: `[E_1; A_2]` is nonsingular.
//!
//! Nonlinear models are judged by their derivative arrays at the start and rewritten by `daesy_structure::straighten`; equations that
//! the arrays show to be redundant are left out.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, VariableKind};
use daesy_graph::{ExprId, Graph, Span, VarId};
use daesy_pencil::{
    InputRole, Mat, PencilOptions, StrangenessFree, StrangenessOptions, kronecker_structure, strangeness_free,
};
use daesy_structure::arrays::{ArrayAnalysis, ArrayInputs};
use daesy_structure::regularize as structural_form;
use daesy_structure::straighten::{straighten as rewrite_structure, straightened_finding};
use daesy_structure::verify::is_leading_regular;
use daesy_structure::words::enumerate;

use crate::linear_verdict::DENSE;
use crate::linearize::{LinearKind, LinearModel};
use crate::load::Loaded;
use crate::nonlinear::{self, MAX_UNKNOWNS, analyze_at, start_point};
use crate::prepare::{DataUse, Prepared, Unprepared, prepare_with_events};
use crate::regularize::swept_form;
use crate::simulate::start_time;

/// A model with the same solutions whose structure does not mislead.
#[derive(Clone, Debug)]
pub struct Straightened {
    /// The model.
    pub flat: FlatDae,
    /// What was done.
    pub finding: Finding,
}

/// Replaces the equations of a linear model with constant coefficients if their structure misleads; nothing otherwise.
#[must_use]
pub fn straighten(flat: &FlatDae) -> Option<Straightened> {
    if flat.size().unknowns > DENSE {
        return None;
    }
    let model = LinearModel::new(flat).ok()?;
    // Derivatives that became variables have no place in the flat model.
    if model.kind != LinearKind::Constant || model.equations.iter().any(|equation| equation.flat_row.is_none()) {
        return None;
    }
    let structural = structural_form(flat.clone()).ok()?.verdict.degrees_of_freedom;
    let structure = kronecker_structure(&model.matrices(0.0).pencil().ok()?, &PencilOptions::default()).ok()?;
    if !structure.is_regular || structure.n_finite == structural {
        return None;
    }
    let options = StrangenessOptions {
        inputs: InputRole::Given,
        max_differentiations: model.n_variables().clamp(8, 20),
        readable: true,
        ..StrangenessOptions::default()
    };
    let form = swept_form(strangeness_free(&model, 0.0, &options).ok()?);
    let message = format!(
        "structure promises {structural} free start values, the values of the coefficients leave {}: the equations were replaced by \
         equivalent ones whose structure is right",
        structure.n_finite
    );
    let finding = Finding::note("structure-misleads", Span::NONE, message);
    Some(Straightened { flat: rebuilt(flat, &model, &form)?, finding })
}

/// The flat model with the equations of the form in place of those of the linear model.
fn rebuilt(flat: &FlatDae, model: &LinearModel, form: &StrangenessFree) -> Option<FlatDae> {
    let mut new = flat.clone();
    let variables: Vec<VarId> =
        model.variables.iter().map(|variable| flat.find(&variable.name)).collect::<Option<Vec<_>>>()?;
    let inputs: Vec<VarId> = model.inputs.iter().map(|name| flat.find(name)).collect::<Option<Vec<_>>>()?;
    let forcing = model.forcing_expressions(&mut new.graph, form.mu);
    let mut replaced = vec![false; flat.equations.len()];
    for equation in &model.equations {
        replaced[equation.flat_row?] = true;
    }
    let graph = &mut new.graph;
    let mut made = Vec::new();
    for row in 0..form.d {
        let lhs = combination(graph, &form.e1, row, &variables, 1);
        let mut terms =
            vec![combination(graph, &form.a1, row, &variables, 0), combination(graph, &form.b1, row, &inputs, 0)];
        for (at, derivatives) in forcing.iter().enumerate() {
            let value = derivatives.first().copied();
            terms.extend(scaled(graph, form.differential_multipliers[(row, at)], value));
        }
        let rhs = graph.sum(&terms);
        made.push((lhs, rhs));
    }
    let zero = graph.number(0.0);
    for row in 0..form.a {
        let mut terms =
            vec![combination(graph, &form.a2, row, &variables, 0), combination(graph, &form.b2, row, &inputs, 0)];
        for (order, matrix) in form.b2_derivatives.iter().enumerate() {
            terms.push(combination(graph, matrix, row, &inputs, order as u16 + 1));
        }
        for (at, derivatives) in forcing.iter().enumerate() {
            for (order, multipliers) in form.algebraic_multipliers.iter().enumerate() {
                terms.extend(scaled(graph, multipliers[(row, at)], derivatives.get(order).copied()));
            }
        }
        let rhs = graph.sum(&terms);
        made.push((zero, rhs));
    }
    new.equations =
        flat.equations.iter().zip(&replaced).filter(|(_, gone)| !**gone).map(|(kept, _)| kept.clone()).collect();
    new.equations.extend(made.into_iter().map(|(lhs, rhs)| Equation {
        lhs,
        rhs,
        origin: Origin::Equation,
        component: "".into(),
        span: Span::NONE,
    }));
    Some(new)
}

fn combination(graph: &mut Graph, matrix: &Mat<f64>, row: usize, vars: &[VarId], order: u16) -> ExprId {
    let mut terms = Vec::new();
    for (column, &var) in vars.iter().enumerate() {
        if matrix[(row, column)] != 0.0 {
            let factor = graph.number(matrix[(row, column)]);
            let value = graph.der(var, order);
            terms.push(graph.mul(factor, value));
        }
    }
    graph.sum(&terms)
}

fn scaled(graph: &mut Graph, factor: f64, value: Option<ExprId>) -> Option<ExprId> {
    let value = value.filter(|_| factor != 0.0)?;
    let factor = graph.number(factor);
    Some(graph.mul(factor, value))
}

/// A model that is ready to be simulated, rewritten where its structure misleads.
pub struct Straight {
    /// The compiled model.
    pub prepared: Prepared,
    /// The model as it was before anything was rewritten.
    pub original: FlatDae,
    /// What was done.
    pub findings: Vec<Finding>,
}

/// Prepares a model for simulation. Where structure misleads, `loaded.flat` is replaced by a model with the same solutions whose
/// structure is right.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn prepare_straight(loaded: &mut Loaded, data_use: DataUse) -> Result<Straight, Unprepared> {
    let original = loaded.flat.clone();
    if let Some(straightened) = straighten(&loaded.flat) {
        loaded.flat = straightened.flat;
        let prepared = prepare_with_events(loaded, data_use)?;
        return Ok(Straight { prepared, original, findings: vec![straightened.finding] });
    }
    let prepared = prepare_with_events(loaded, data_use);
    let rewritten = match &prepared {
        Ok(prepared) => {
            let time = start_time(loaded, prepared);
            rewrite_prepared(loaded, prepared, time)
        }
        Err(_) => {
            let time = crate::regularize::start_time(loaded);
            rewrite_unbalanced(loaded, time)
        }
    };
    let Some(rewritten) = rewritten else {
        return Ok(Straight { prepared: prepared?, original, findings: Vec::new() });
    };
    let before = std::mem::replace(&mut loaded.flat, rewritten.flat);
    match prepare_with_events(loaded, data_use) {
        Ok(straight) => Ok(Straight { prepared: straight, original, findings: rewritten.findings }),
        Err(_) => {
            loaded.flat = before;
            Ok(Straight { prepared: prepared?, original, findings: Vec::new() })
        }
    }
}

/// A model that was rewritten by its derivative arrays.
struct Rewritten {
    flat: FlatDae,
    findings: Vec<Finding>,
}

/// Rewrites a model whose equations and unknowns fit by structure, if numbers at its start say otherwise.
fn rewrite_prepared(loaded: &mut Loaded, prepared: &Prepared, time: f64) -> Option<Rewritten> {
    let regular = prepared.system.regular();
    if loaded.flat.size().unknowns > MAX_UNKNOWNS + regular.eliminated.len() {
        return None;
    }
    let mut starts = vec![start_point(loaded, time)?];
    if let Ok(start) = prepared.start(time) {
        let point = prepared.point(time, &start);
        if is_leading_regular(regular, &point) {
            return None;
        }
        starts.push(starts[0].with_values(regular, &point));
    }
    let is_started = starts.len() > 1;
    let analysis = analyze_at(&loaded.flat, Some(regular), &starts, ArrayInputs::Given).ok()?;
    let rewritten = rewrite(&loaded.flat, &analysis, regular.verdict.degrees_of_freedom)?;
    // Without anything rewritten only the start is new, which is of use where none was found.
    let has_events = !loaded.flat.when_clauses.is_empty() || !regular.discrete.is_empty();
    if rewritten.findings.is_empty() && (is_started || has_events) { None } else { Some(rewritten) }
}

/// Rewrites a model with more equations than unknowns, if those that are too many follow from the others.
fn rewrite_unbalanced(loaded: &mut Loaded, time: f64) -> Option<Rewritten> {
    if loaded.flat.size().unknowns > MAX_UNKNOWNS {
        return None;
    }
    let start = start_point(loaded, time)?;
    let analysis = analyze_at(&loaded.flat, None, &[start], ArrayInputs::Given).ok()?;
    if !analysis.free.is_empty() || analysis.form.v == 0 {
        return None;
    }
    rewrite(&loaded.flat, &analysis, analysis.form.d)
}

fn rewrite(flat: &FlatDae, analysis: &ArrayAnalysis, structural: usize) -> Option<Rewritten> {
    let mut findings = Vec::new();
    let mut whole = flat.clone();
    if !analysis.is_regular {
        // What is left open must be a matter of taste, such as how redundant joints share a force.
        if analysis.left_out.len() != analysis.form.v
            || analysis.free.iter().any(|&var| nonlinear::is_potential(flat, var))
            || analysis.free.len() != analysis.n_columns - analysis.form.d - analysis.form.a
        {
            return None;
        }
        findings.push(nonlinear::redundant(flat, analysis));
        findings.extend(held_finding(flat, &analysis.free));
        for &at in analysis.left_out.iter().rev() {
            whole.equations.remove(at);
        }
        for &var in &analysis.free {
            let lhs = whole.graph.var(var);
            let rhs = whole.graph.number(analysis.point.derivative(var, 0));
            let span = flat.variables[var.index()].span;
            whole.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span });
        }
    }
    let straight = rewrite_structure(&whole, &analysis.point, analysis.form.d).ok()?;
    if !straight.replaced.is_empty() {
        findings.push(straightened_finding(&whole, structural, analysis.form.d, &straight.replaced));
    }
    let mut new = straight.flat;
    for at in 0..new.variables.len() {
        if new.variables[at].kind == VariableKind::Continuous && new.variables[at].fixed != Some(true) {
            let value = straight.point.derivative(VarId(at as u32), 0);
            new.variables[at].start = Some(new.graph.number(value));
        }
    }
    Some(Rewritten { flat: new, findings })
}

fn held_finding(flat: &FlatDae, free: &[VarId]) -> Option<Finding> {
    let first = free.first()?;
    let names: Vec<&str> = free.iter().map(|var| flat.variables[var.index()].name.as_str()).collect();
    let message = format!(
        "nothing determines how {} are shared; {} held at the value of the start",
        if names.len() == 1 { "it and others" } else { "they" },
        match &names[..] {
            [name] => format!("`{name}` is"),
            names => format!("{} are", enumerate(names, 8)),
        }
    );
    let finding = Finding::warning("free-variables", flat.variables[first.index()].span, message);
    Some(finding.with_names(names.iter().copied()).with_help("the motion does not depend on it"))
}
