//! Models that their derivative arrays show to be redundant or misled by structure, rewritten.
//!
//! What is done follows from the verdict beside the start ([`GenericVerdict`]); the start itself gives start values
//! only. An equation is left out if the same one is redundant at all points, at other times too, and nothing
//! contradicts there.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::{Span, VarId};

use super::{GenericVerdict, straighten};
use crate::array_verdict;
use crate::arrays::{ArrayAnalysis, JetPoint};
use crate::verify::is_leading_regular;
use crate::words::enumerate;

/// A model that was rewritten by its derivative arrays.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The model.
    pub flat: FlatDae,
    /// What was left out and held.
    pub findings: Vec<Finding>,
    /// Equations that were replaced by others, by their position before.
    pub replaced: Vec<usize>,
    /// The number of free start values.
    pub free_starts: usize,
}

impl Rewritten {
    /// Whether only start values are new.
    #[must_use]
    pub fn is_as_written(&self) -> bool {
        self.findings.is_empty() && self.replaced.is_empty()
    }
}

/// Leaves out the equations that the arrays show to be redundant, holds what nothing determines, and replaces those
/// that depend on others; None if what is left open is no matter of taste, or if the start differs from what holds
/// beside it. `structural` is the number of free start values that structure promises, where equations and unknowns
/// fit.
///
/// If structure is right beside the start, the start is a special point: the equations stay, and what nobody gave
/// starts at the limit that the differentiated equations determine.
#[must_use]
pub fn rewrite(
    flat: &FlatDae,
    start: Option<&ArrayAnalysis>,
    generic: &GenericVerdict,
    structural: Option<usize>,
) -> Option<Rewritten> {
    if let Some(free_starts) = structural.filter(|&structural| generic.confirms(structural)) {
        let flat = started(flat, &start?.point);
        return Some(Rewritten { flat, findings: Vec::new(), replaced: Vec::new(), free_starts });
    }
    let analysis = generic.analyses.first()?;
    let mut findings = Vec::new();
    let mut whole = flat.clone();
    let mut position: Vec<usize> = (0..flat.equations.len()).collect();
    if !analysis.is_regular {
        let start = start.filter(|start| generic.bears_out(start))?;
        // What is left open must be a matter of taste, such as how redundant joints share a force.
        if start.left_out.len() != start.form.v
            || start.free.iter().any(|&var| array_verdict::is_potential(flat, var))
            || start.free.len() != start.n_columns - start.form.d - start.form.a
        {
            return None;
        }
        findings.push(array_verdict::redundant(flat, start));
        findings.extend(held_finding(flat, &start.free));
        for &at in start.left_out.iter().rev() {
            whole.equations.remove(at);
            position.remove(at);
        }
        for &var in &start.free {
            let lhs = whole.graph.var(var);
            let rhs = whole.graph.number(start.point.derivative(var, 0));
            let span = flat.variables[var.index()].span;
            whole.equations.push(Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span });
        }
    }
    // The start counts among the points even if it is special: pivots should not vanish there.
    let points: Vec<JetPoint> = start.into_iter().chain(&generic.analyses).map(|it| it.point.clone()).collect();
    let straight = straighten(&whole, &points, analysis.form.d).ok()?;
    let replaced = straight.replaced.iter().filter_map(|&at| position.get(at).copied()).collect();
    let new = match (start, straight.points.first()) {
        (Some(_), Some(point)) => guessed(&straight.flat, point),
        _ => straight.flat,
    };
    Some(Rewritten { flat: new, findings, replaced, free_starts: analysis.form.d })
}

/// How far later, relative to the run, a solution is looked at.
const LATER: [f64; 2] = [1e-4, 3.1e-4];

/// Whether the solution that begins at the start stays where the equations do not determine all unknowns, though others
/// do not: with z(0) = 1, the factor of v in x - sin(t) + v (z - exp(-t)) = 0, z' = -z, is zero for all times. The
/// Taylor coefficients of the start give the solution a little later, to more digits than a factor that is zero at the
/// start alone has there.
#[must_use]
pub fn stays_special(regular: &RegularDae, start: &ArrayAnalysis, span: f64) -> bool {
    start.is_regular
        && !start.is_doubtful
        && start.form.d < regular.verdict.degrees_of_freedom
        && LATER.iter().all(|part| !is_leading_regular(regular, &start.point.later(part * span.min(1.0))))
}

/// Rewrites a model for a solution that [`stays_special`]: what depends on each other along it.
#[must_use]
pub fn rewrite_on_solution(flat: &FlatDae, start: &ArrayAnalysis, span: f64) -> Option<Rewritten> {
    let later = LATER.iter().map(|part| start.point.later(part * span.min(1.0)));
    let points: Vec<JetPoint> = std::iter::once(start.point.clone()).chain(later).collect();
    let straight = straighten(flat, &points, start.form.d).ok()?;
    let new = guessed(&straight.flat, straight.points.first()?);
    Some(Rewritten { flat: new, findings: Vec::new(), replaced: straight.replaced, free_starts: start.form.d })
}

/// The model with the values of a point as start values of what nobody gave one.
fn started(flat: &FlatDae, point: &JetPoint) -> FlatDae {
    let mut new = flat.clone();
    for at in 0..new.variables.len() {
        if new.variables[at].kind == VariableKind::Continuous && new.variables[at].start.is_none() {
            let value = point.derivative(VarId(at as u32), 0);
            new.variables[at].start = Some(new.graph.number(value));
        }
    }
    new
}

/// The model with the values of a point as guesses.
fn guessed(new: &FlatDae, point: &JetPoint) -> FlatDae {
    let mut new = new.clone();
    for (at, variable) in new.variables.iter_mut().enumerate() {
        if variable.kind == VariableKind::Continuous && variable.start.is_none() {
            variable.guess = Some(point.derivative(VarId(at as u32), 0)).filter(|value| value.is_finite());
        }
    }
    new
}

/// The note that the start is a special point.
#[must_use]
pub fn special_start(flat: &FlatDae, time: f64) -> Finding {
    let message = format!(
        "at the start, t = {time}, the equations do not determine all unknowns, but beside it they do: the equations are kept, and the \
         start is where solutions beside it lead"
    );
    let first = flat.equations.iter().map(|equation| equation.span).min().unwrap_or(Span::NONE);
    Finding::note("special-start", first, message)
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
