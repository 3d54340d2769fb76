//! The part of the road where structure misleads: equations are replaced by others with the same solutions, or left out where the
//! others say the same. How is in [`daesy_structure::straighten`]; here is decided whether.

use daesy_graph::finding::Finding;
use daesy_structure::array_verdict::{MAX_UNKNOWNS, analyze_at};
use daesy_structure::arrays::ArrayInputs;
use daesy_structure::straighten::{Rewritten, rewrite, straighten_linear};
use daesy_structure::verify::is_leading_regular;

use crate::failure::Failure;
use crate::load::Loaded;
use crate::prepare::{Prepared, Road, start_time};
use crate::start_point::start_point;

/// A model that can be solved.
pub(crate) struct Straight {
    /// The compiled model.
    pub(crate) prepared: Prepared,
    /// What was done.
    pub(crate) findings: Vec<Finding>,
}

/// Compiles a model, or one with the same solutions where its structure misleads.
///
/// # Errors
/// Diagnostics in the model's words.
pub(crate) fn straighten(road: &Road<'_>) -> Result<Straight, Failure> {
    let flat = &road.loaded.flat;
    if let Some(straightened) = straighten_linear(flat) {
        let prepared = road.compiled(&straightened.flat)?;
        return Ok(Straight { prepared, findings: vec![straightened.finding] });
    }
    let prepared = road.compiled(flat);
    let time = start_time(road.loaded, road.data.as_deref());
    let rewritten = match &prepared {
        Ok(prepared) => rewrite_prepared(road.loaded, prepared, time),
        Err(_) => rewrite_unbalanced(road.loaded, time),
    };
    let straight = rewritten.and_then(|Rewritten { flat, findings }| {
        road.compiled(&flat).ok().map(|prepared| Straight { prepared, findings })
    });
    match straight {
        Some(straight) => Ok(straight),
        None => Ok(Straight { prepared: prepared?, findings: Vec::new() }),
    }
}

/// Rewrites a model whose equations and unknowns fit by structure, if numbers at its start say otherwise.
fn rewrite_prepared(loaded: &Loaded, prepared: &Prepared, time: f64) -> Option<Rewritten> {
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
fn rewrite_unbalanced(loaded: &Loaded, time: f64) -> Option<Rewritten> {
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
