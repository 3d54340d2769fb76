//! Models that their derivative arrays show to be redundant or misled by structure, rewritten at the point of the analysis.

use daesy_graph::VarId;
use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, VariableKind};

use super::{straighten, straightened_finding};
use crate::array_verdict;
use crate::arrays::ArrayAnalysis;
use crate::words::enumerate;

/// A model that was rewritten by its derivative arrays.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The model.
    pub flat: FlatDae,
    /// What was done.
    pub findings: Vec<Finding>,
}

/// Leaves out the equations that the arrays show to be redundant, holds what nothing determines, and replaces those that depend
/// on others; None if what is left open is no matter of taste.
#[must_use]
pub fn rewrite(flat: &FlatDae, analysis: &ArrayAnalysis, structural: usize) -> Option<Rewritten> {
    let mut findings = Vec::new();
    let mut whole = flat.clone();
    if !analysis.is_regular {
        // What is left open must be a matter of taste, such as how redundant joints share a force.
        if analysis.left_out.len() != analysis.form.v
            || analysis.free.iter().any(|&var| array_verdict::is_potential(flat, var))
            || analysis.free.len() != analysis.n_columns - analysis.form.d - analysis.form.a
        {
            return None;
        }
        findings.push(array_verdict::redundant(flat, analysis));
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
    let straight = straighten(&whole, &analysis.point, analysis.form.d).ok()?;
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
