//! Why a model has too many or too few equations somewhere, in the model's own words.

use daesy_graph::finding::Finding;
use daesy_graph::flat::FlatDae;

use crate::alias::Elimination;
use crate::dulmage_mendelsohn::{CulpritOptions, CulpritSet, DulmageMendelsohn};
use crate::offsets::OffsetsError;
use crate::regularize::Scope;
use crate::words::{enumerate, equation_text};

/// More names than this are counted instead of listed.
const MAX_LISTED: usize = 12;

/// Explains the flat model as it was written.
pub(crate) fn singular(flat: &FlatDae, scope: &Scope, error: &OffsetsError) -> Vec<Finding> {
    explain(flat, scope, None, error)
}

/// Explains what is left after aliases are gone: the equations used for elimination belong to the story.
pub(crate) fn singular_after_elimination(
    flat: &FlatDae,
    scope: &Scope,
    elimination: &Elimination,
    error: &OffsetsError,
) -> Vec<Finding> {
    explain(flat, scope, Some(elimination), error)
}

fn explain(flat: &FlatDae, scope: &Scope, elimination: Option<&Elimination>, error: &OffsetsError) -> Vec<Finding> {
    let OffsetsError::StructurallySingular { matching, .. } = error else {
        return vec![Finding::error("structure", daesy_graph::Span::NONE, error.to_string())];
    };
    let parts = DulmageMendelsohn::from_matching(&scope.incidence, matching.clone());
    let culprits = parts.culprits(&scope.incidence, &CulpritOptions::default());
    let mut findings: Vec<Finding> =
        culprits.over_determined.iter().map(|set| over_determined(flat, scope, elimination, set)).collect();
    findings.extend(culprits.under_determined.iter().map(|set| under_determined(flat, scope, set)));
    findings
}

fn names<'a>(flat: &'a FlatDae, scope: &Scope, set: &CulpritSet) -> Vec<&'a str> {
    set.variables.iter().map(|&column| flat.variables[scope.variables[column as usize].index()].name.as_str()).collect()
}

fn over_determined(flat: &FlatDae, scope: &Scope, elimination: Option<&Elimination>, set: &CulpritSet) -> Finding {
    let equations: Vec<usize> = set.equations.iter().map(|&row| scope.equations[row as usize] as usize).collect();
    let names = names(flat, scope, set);
    let first = &flat.equations[equations[0]];
    let message = match (&names[..], equations.len()) {
        ([], 1) => format!(
            "this equation determines nothing: {}",
            if elimination.is_some() {
                "with the equalities of the model its unknowns cancel"
            } else {
                "it contains no unknown"
            }
        ),
        ([name], 2) => format!("two equations determine the one unknown `{name}`"),
        (names, n_equations) => {
            format!("{n_equations} equations for only {} unknowns: {}", names.len(), enumerate(names, MAX_LISTED))
        }
    };
    let mut finding = Finding::error("too-many-equations", first.span, message).with_names(names.iter().copied());
    for &at in equations.iter().take(MAX_LISTED) {
        let equation = &flat.equations[at];
        let component =
            if equation.component.is_empty() { String::new() } else { format!(" (in `{}`)", equation.component) };
        finding = finding.with_label(equation.span, format!("{}{component}", equation_text(flat, at)));
    }
    finding.with_help(
        "one of these equations is one too many: remove it, or turn one of the known quantities in them into an unknown",
    )
}

fn under_determined(flat: &FlatDae, scope: &Scope, set: &CulpritSet) -> Finding {
    let names = names(flat, scope, set);
    let first = &flat.variables[scope.variables[set.variables[0] as usize].index()];
    let message = match (&names[..], set.equations.len()) {
        ([name], 0) => format!("no equation determines `{name}`"),
        (names, 0) => format!("no equation determines {}", enumerate(names, MAX_LISTED)),
        (names, n_equations) => format!(
            "the {} unknowns {} occur in only {n_equations} equation{}",
            names.len(),
            enumerate(names, MAX_LISTED),
            if n_equations == 1 { "" } else { "s" }
        ),
    };
    let mut finding = Finding::error("too-few-equations", first.span, message).with_names(names.iter().copied());
    for &row in set.equations.iter().take(MAX_LISTED) {
        let at = scope.equations[row as usize] as usize;
        finding = finding.with_label(flat.equations[at].span, equation_text(flat, at));
    }
    finding.with_help(if names.len() == 1 {
        "give it an equation or a value, or make it a parameter or an input"
    } else {
        "an equation is missing: give one of them a value, an equation or a connection, or make it a parameter or an input"
    })
}
