//! The way to a model that can be simulated where structure misleads: see [`daesy_structure::straighten`].

use daesy_graph::finding::Finding;
use daesy_graph::flat::FlatDae;
use daesy_structure::array_verdict::{MAX_UNKNOWNS, analyze_at};
use daesy_structure::arrays::ArrayInputs;
use daesy_structure::straighten::{Rewritten, rewrite, straighten_linear};
use daesy_structure::verify::is_leading_regular;

use crate::load::Loaded;
use crate::prepare::{DataUse, Prepared, Unprepared, prepare_with_events, start_time, study_start_time};
use crate::start_point::start_point;

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
    if let Some(straightened) = straighten_linear(&loaded.flat) {
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
            let time = study_start_time(loaded);
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
