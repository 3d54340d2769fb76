//! The part of the road where structure misleads: equations are replaced by others with the same solutions, or left out
//! where the others say the same. How is in [`daesy_structure::straighten`]; here is decided whether.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, ValueType, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::{ExprId, Leaf, Reach, Span, VarId};
use daesy_integrate::{HybridStart, SimulateOptions, Simulation};
use daesy_structure::array_verdict::{MAX_UNKNOWNS, analyze_aside, analyze_at};
use daesy_structure::arrays::{ArrayAnalysis, ArrayInputs, FAR};
use daesy_structure::straighten::{
    GenericVerdict, Rewritten, Specialized, allowed_residual, generic_verdict, rewrite, special_start, specialize,
    straighten_linear, watch, watched_equation,
};
use daesy_structure::verify::{is_leading_regular, singular_blocks};
use daesy_structure::{RegularizeError, regularize};
use daesy_system::DaeSystem as _;
use rustc_hash::FxHashSet;

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::load::Loaded;
use crate::prepare::{Changing, LOST, NamedPoint, Prepared, Relations, Road, start_time, unregular};
use crate::start_point::{start_point, start_point_of};
use crate::study::QuantityValue;

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
    // Only trajectories are compared with what was written.
    let is_watched = road.purpose.relations == Relations::Held;
    let watched = |new: FlatDae| if is_watched { watch(&new, flat) } else { new };
    // The values of coefficients are put into the equations, which is right as long as they stay.
    let by_values = straighten_linear(flat);
    let put_in = if by_values.is_some() { parameters_in_equations(flat) } else { FxHashSet::default() };
    let by_values = by_values.map(|straightened| {
        let mut new = watched(straightened.flat);
        put_in.iter().for_each(|var| new.variables[var.index()].is_structural = true);
        (new, straightened.finding)
    });
    let solved = |(new, finding): (FlatDae, Finding)| {
        let mut decisive: Vec<VarId> = put_in.iter().copied().collect();
        decisive.sort_unstable();
        road.compiled(&new)
            .map(|prepared| Straight { prepared: Prepared { decisive, ..prepared }, findings: vec![finding] })
    };
    let all: Vec<VarId> = (0..flat.variables.len() as u32).map(VarId).collect();
    let may_change = match road.purpose.changing {
        Changing::Nothing => false,
        Changing::Varied => {
            let varied = varied_parameters(road.loaded, &all);
            put_in.iter().any(|var| varied.contains(var))
        }
        Changing::All => !put_in.is_empty(),
    };
    if !may_change && let Some(by_values) = by_values {
        return solved(by_values);
    }
    let prepared = road.compiled(flat);
    let time = start_time(road.loaded, road.data.as_deref());
    let mut untold = Vec::new();
    let rewritten = match &prepared {
        Ok(prepared) if is_too_large(road.loaded, prepared) => {
            untold = not_rewritten(prepared, time);
            None
        }
        Ok(prepared) => {
            let regular = prepared.system.regular();
            let is_right = |start: &HybridStart| is_leading_regular(regular, &prepared.point(time, start));
            let strict = prepared.strict_start(time).ok();
            if let Some(start) = strict.as_ref().filter(|start| is_right(start)) {
                judge_far_start(road.loaded, prepared, time, start)?
            } else if let Some(straight) = specialized(road, prepared, time, &watched) {
                return Ok(straight);
            } else if let Some(fault) = structural_fault(road.loaded, prepared, time) {
                return Err(Failure::Input(fault));
            } else {
                let start = strict.or_else(|| prepared.start(time).ok());
                let is_wrong = start.as_ref().is_none_or(|start| !is_right(start));
                let point = start.as_ref().map(|start| prepared.point(time, start));
                let rewritten = is_wrong.then(|| rewrite_prepared(road.loaded, prepared, time, point)).flatten();
                match (rewritten, &start) {
                    (None, Some(start)) => judge_far_start(road.loaded, prepared, time, start)?,
                    (rewritten, _) => rewritten,
                }
            }
        }
        Err(_) => rewrite_unbalanced(road.loaded, time),
    };
    let straight = rewritten.and_then(|Rewritten { flat, findings }| {
        let flat = if findings.is_empty() { flat } else { watched(flat) };
        road.compiled(&flat).ok().map(|prepared| Straight { prepared, findings })
    });
    match (straight, by_values) {
        (Some(straight), _) => Ok(straight),
        (None, Some(by_values)) => solved(by_values),
        (None, None) => Ok(Straight { prepared: prepared?, findings: untold }),
    }
}

/// What is to be done about a start that is far away: nothing if it is near, or the model's own; the model rewritten, if
/// the derivative array beside the start that was written says that structure misleads.
fn judge_far_start(
    loaded: &Loaded,
    prepared: &Prepared,
    time: f64,
    start: &HybridStart,
) -> Result<Option<Rewritten>, Failure> {
    if prepared.ran_off(start, FAR).is_none() {
        return Ok(None);
    }
    let regular = prepared.system.regular();
    let structural = regular.verdict.degrees_of_freedom;
    let written = start_point(loaded, time);
    let at_start = written.and_then(|start| analyze_at(&loaded.flat, Some(regular), &[start], ArrayInputs::Given).ok());
    let at_start = at_start.filter(|analysis| !analysis.is_rough());
    let generic = beside_start(loaded, Some(regular), time, at_start.as_ref());
    if generic.as_ref().is_some_and(|generic| generic.confirms(structural)) {
        return Ok(None);
    }
    let rewritten = generic.and_then(|generic| rewrite(&loaded.flat, at_start.as_ref(), &generic, Some(structural)));
    if let Some(rewritten) = rewritten.filter(|rewritten| !rewritten.findings.is_empty()) {
        return Ok(Some(rewritten));
    }
    let Some((name, value)) = prepared.ran_off(start, LOST) else { return Ok(None) };
    let message = format!(
        "no consistent start values found at t = {time}: the search ran off to {name} = {value:.3e}, where rounding hides whether \
         the equations hold"
    );
    let place = loaded.flat.find(name).map_or(Span::NONE, |var| loaded.flat.variables[var.index()].span);
    let finding = Finding::error("no-consistent-start", place, message).with_names([name]).with_help(
        "give `start` values near a solution; if the value is meant to be as large, give it a `nominal` of that size",
    );
    Err(Failure::Input(vec![Diagnostic::resolve(&finding, &loaded.flat.sources)]))
}

/// What the equations of a model that is too large to be rewritten do not determine at the start.
fn not_rewritten(prepared: &Prepared, time: f64) -> Vec<Finding> {
    let Ok(start) = prepared.start(time) else { return Vec::new() };
    let findings = singular_blocks(prepared.system.regular(), &prepared.point(time, &start));
    let told = |finding: Finding| {
        let message = format!(
            "{}; the model has too many unknowns (the limit is {MAX_UNKNOWNS}) to find out by derivative arrays what does, so that \
             what follows may be wrong",
            finding.message
        );
        Finding { message, ..finding }
    };
    findings.into_iter().map(told).collect()
}

/// That a reference is missing at the values of parameters that nobody varies: a source of heat whose flow does not
/// depend on the temperature, since a coefficient is zero, is none. Nothing where the equations determine all unknowns
/// at the start all the same.
#[must_use]
pub fn structural_fault(loaded: &Loaded, prepared: &Prepared, time: f64) -> Option<Vec<Diagnostic>> {
    let Specialized { flat, finding, .. } = specialize(&loaded.flat, &fixed_parameters(loaded, prepared))?;
    let error = regularize(flat.clone()).err()?;
    if !matches!(&error, RegularizeError::Singular { open_levels, .. } if !open_levels.is_empty()) {
        return None;
    }
    let regular = prepared.system.regular();
    let is_right = |start: HybridStart| is_leading_regular(regular, &prepared.point(time, &start));
    if prepared.strict_start(time).is_ok_and(is_right) {
        return None;
    }
    let mut fault = unregular(&flat, &error);
    fault.push(Diagnostic::resolve(&finding, &loaded.flat.sources));
    Some(fault)
}

/// Parameters that equations hold, and those that these depend on.
fn parameters_in_equations(flat: &FlatDae) -> FxHashSet<VarId> {
    let mut reach = Reach::new();
    let mut found: FxHashSet<VarId> = FxHashSet::default();
    let mut exprs: Vec<ExprId> = flat.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
    while !exprs.is_empty() {
        let mut leaves = Vec::new();
        reach.leaves(&flat.graph, &exprs, &mut leaves);
        exprs.clear();
        for leaf in leaves {
            let Leaf::Var { var, .. } = leaf else { continue };
            let variable = &flat.variables[var.index()];
            if variable.kind == VariableKind::Parameter && found.insert(var) {
                exprs.extend(variable.binding);
            }
        }
    }
    found
}

/// Parameters that nobody varies, with their values.
fn fixed_parameters(loaded: &Loaded, prepared: &Prepared) -> Vec<(VarId, f64)> {
    let parameters = &prepared.system.regular().parameters;
    let is_varied = varied_parameters(loaded, parameters);
    let values = parameters.iter().copied().zip(prepared.parameters.iter().copied());
    values.filter(|(var, _)| !is_varied.contains(var)).collect()
}

/// Whether a model has too many unknowns to look at its numbers.
fn is_too_large(loaded: &Loaded, prepared: &Prepared) -> bool {
    loaded.flat.size().unknowns > MAX_UNKNOWNS + prepared.system.regular().eliminated.len()
}

/// A model at the values of its parameters that nobody varies, if its structure is right then.
fn specialized(
    road: &Road<'_>,
    prepared: &Prepared,
    time: f64,
    watched: &dyn Fn(FlatDae) -> FlatDae,
) -> Option<Straight> {
    let Specialized { mut flat, decisive, finding } =
        specialize(&road.loaded.flat, &fixed_parameters(road.loaded, prepared))?;
    decisive.iter().for_each(|var| flat.variables[var.index()].is_structural = true);
    let special = road.compiled(&watched(flat)).ok()?;
    let start = special.strict_start(time).ok()?;
    if !is_leading_regular(special.system.regular(), &special.point(time, &start)) {
        return None;
    }
    Some(Straight { prepared: Prepared { decisive, ..special }, findings: vec![finding] })
}

/// Parameters that a study varies or a start determines, with those that depend on them.
fn varied_parameters(loaded: &Loaded, parameters: &[VarId]) -> FxHashSet<VarId> {
    let mut names: FxHashSet<&str> = FxHashSet::default();
    if let Some(study) = &loaded.study {
        names.extend(study.unknown.iter().map(|named| named.name.as_str()));
        names.extend(study.random.iter().map(|named| named.name.as_str()));
        names.extend(study.joint.iter().flat_map(|joint| &joint.names).map(|named| named.name.as_str()));
    }
    let flat = &loaded.flat;
    let mut varied: FxHashSet<VarId> = FxHashSet::default();
    let mut reach = Reach::new();
    // A parameter may come before those it depends on.
    loop {
        let n_before = varied.len();
        for &var in parameters {
            let variable = &flat.variables[var.index()];
            let is_varied = variable.kind == VariableKind::Parameter && variable.fixed == Some(false)
                || names.contains(variable.name.as_str())
                || variable.binding.is_some_and(|binding| {
                    reach.depends_on(&flat.graph, binding, |leaf| match leaf {
                        Leaf::Var { var, .. } => varied.contains(&var),
                        Leaf::Time => false,
                    })
                });
            if is_varied {
                varied.insert(var);
            }
        }
        if varied.len() == n_before {
            return varied;
        }
    }
}

/// Rewrites a model whose equations and unknowns fit by structure, if numbers at its start say otherwise.
fn rewrite_prepared(loaded: &Loaded, prepared: &Prepared, time: f64, start: Option<NamedPoint>) -> Option<Rewritten> {
    let regular = prepared.system.regular();
    let mut starts = vec![start_point(loaded, time)?];
    starts.extend(start.map(|point| starts[0].with_values(regular, &point)));
    let is_started = starts.len() > 1;
    let structural = regular.verdict.degrees_of_freedom;
    let at_start = analyze_at(&loaded.flat, Some(regular), &starts, ArrayInputs::Given).ok();
    let at_start = at_start.filter(|analysis| !analysis.is_rough());
    let generic = beside_start(loaded, Some(regular), time, at_start.as_ref())?;
    let mut rewritten = rewrite(&loaded.flat, at_start.as_ref(), &generic, Some(structural))?;
    // Without anything rewritten only the start is new, which is of use where none was found or where it is special.
    let has_events = !loaded.flat.when_clauses.is_empty() || !regular.discrete.is_empty();
    if rewritten.findings.is_empty() {
        if has_events {
            return None;
        }
        if is_started {
            rewritten.findings.push(special_start(&loaded.flat, time));
            start_at_limits(&mut rewritten.flat, prepared, time, study_stop_time(loaded, time));
        }
    }
    Some(rewritten)
}

/// Distances from a special start at which solutions are looked at, as fractions of the run.
const NEAR: [f64; 5] = [1.0 / 256.0, 1.0 / 512.0, 1.0 / 1024.0, 1.0 / 2048.0, 1.0 / 4096.0];

/// How well the limit must be determined, relative to what is extrapolated.
const SETTLED: f64 = 1e-6;

/// Lets what nobody gave a start value begin at the limit of solutions beside a special start.
///
/// At t_0 + h the equations determine all unknowns, with the start values that the user gave: v(h). Where v has a power
/// series at h = 0, the polynomial through v(h_0), .., v(h_4), h_k = h_0/2^k, has the value v(0) + O(h_0^5) there
/// (Neville's scheme). How often the equations would have to be differentiated at t_0 itself does not matter. What the
/// last two columns of the scheme do not agree upon, such as the cubic root of h, stays as it is.
fn start_at_limits(flat: &mut FlatDae, prepared: &Prepared, time: f64, stop: f64) {
    let row = |fraction: f64| {
        let beside = time + fraction * (stop - time);
        prepared.strict_start(beside).ok().map(|start| prepared.observed(beside, &start))
    };
    let Some(rows) = NEAR.iter().map(|&fraction| row(fraction)).collect::<Option<Vec<_>>>() else { return };
    for (column, name) in prepared.system.description().observed.iter().enumerate() {
        let Some(var) = flat.find(name) else { continue };
        let is_open = flat.variables[var.index()].kind == VariableKind::Continuous;
        let is_given = prepared
            .system
            .regular()
            .flat
            .find(name)
            .is_some_and(|var| prepared.system.regular().flat.variables[var.index()].start.is_some());
        let values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        if let Some(limit) = limit_of(&values).filter(|_| is_open && !is_given) {
            flat.variables[var.index()].start = Some(flat.graph.number(limit));
        }
    }
}

/// The value at 0 of the polynomial through values at h, h/2, h/4 ..; None where it is not settled.
fn limit_of(values: &[f64]) -> Option<f64> {
    let size = values.iter().fold(0.0f64, |size, value| size.max(value.abs()));
    let mut column = values.to_vec();
    let mut before = *column.last()?;
    for order in 1..values.len() {
        let factor = f64::from(1u32 << order) - 1.0;
        before = *column.last()?;
        column = column.windows(2).map(|pair| pair[1] + (pair[1] - pair[0]) / factor).collect();
    }
    let limit = *column.last()?;
    ((limit - before).abs() <= SETTLED * size).then_some(limit)
}

/// Times at which the verdict of the start is confirmed, as fractions of the run: none that a model is likely to single
/// out.
const ASIDE: [f64; 4] = [0.0173, 0.2718, 0.6137, 0.9391];

/// Relative changes of parameters that a study varies, at those times.
const MOVED: [f64; 4] = [0.0313, -0.0517, 0.0719, -0.0911];

/// The model with other values of the parameters that its study varies: a coefficient that vanishes where a search
/// begins does not vanish for all of them. None if it varies none.
fn with_other_values(loaded: &Loaded, change: f64) -> Option<FlatDae> {
    let study = loaded.study.as_ref()?;
    let joint = study.joint.iter().flat_map(|joint| &joint.names).map(|named| &named.name);
    let random = study.random.iter().map(|named| &named.name);
    let names = study.unknown.iter().map(|named| &named.name).chain(random).chain(joint);
    let mut flat = None;
    for var in names.filter_map(|name| loaded.flat.find(name)) {
        let variable = &loaded.flat.variables[var.index()];
        let Some(value) = variable.binding.and_then(|binding| loaded.flat.graph.as_number(binding)) else { continue };
        if variable.value_type == ValueType::Real {
            let new: &mut FlatDae = flat.get_or_insert_with(|| loaded.flat.clone());
            let moved = new.graph.number(value + change * if value == 0.0 { 1.0 } else { value });
            new.variables[var.index()].binding = Some(moved);
        }
    }
    flat
}

/// What derivative arrays say at other times and values than those of the start.
#[must_use]
pub fn beside_start(
    loaded: &Loaded,
    regular: Option<&RegularDae>,
    time: f64,
    at_start: Option<&ArrayAnalysis>,
) -> Option<GenericVerdict> {
    let structural = regular.map(|regular| regular.verdict.degrees_of_freedom);
    let stop = study_stop_time(loaded, time);
    let mut points = Vec::new();
    for (seed, fraction) in ASIDE.into_iter().enumerate() {
        let time = time + fraction * (stop - time);
        let moved = with_other_values(loaded, MOVED[seed]).and_then(|flat| start_point_of(loaded, &flat, time));
        let point = moved.or_else(|| start_point(loaded, time))?;
        points.push(point.aside(&loaded.flat, at_start, seed as u32 + 1));
    }
    generic_verdict(analyze_aside(&loaded.flat, regular, &points), structural)
}

/// The time at which a study or an `experiment` annotation stops, where it is a number.
#[must_use]
pub fn study_stop_time(loaded: &Loaded, start: f64) -> f64 {
    let asked = loaded.study.as_ref().and_then(|study| study.simulate.stop.as_ref());
    let stop = match asked.map(|quantity| &quantity.value) {
        Some(QuantityValue::Number(stop)) => Some(*stop),
        _ => loaded.flat.experiment.stop,
    };
    stop.filter(|stop| stop.is_finite() && *stop > start).unwrap_or(start + 1.0)
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
    let generic = beside_start(loaded, None, time, Some(&analysis))?;
    rewrite(&loaded.flat, Some(&analysis), &generic, None)
}

/// Compares a trajectory with the equations as they were written ([`watch`]): `constraint_residual_max` becomes the
/// largest residual.
///
/// # Errors
/// When an equation is violated by more than the tolerances allow.
pub fn compare_with_original(
    original: &FlatDae,
    observed: &[String],
    simulation: &mut Simulation,
    options: &SimulateOptions,
) -> Result<(), Diagnostic> {
    let allowed = allowed_residual(options.rtol, options.atol);
    for (column, name) in observed.iter().enumerate() {
        let Some(equation) = watched_equation(name).and_then(|at| original.equations.get(at)) else { continue };
        for (&time, row) in simulation.times.iter().zip(&simulation.rows) {
            let residual = row[column].abs();
            simulation.constraint_residual_max = simulation.constraint_residual_max.max(residual);
            if residual > allowed {
                let message = format!(
                    "at t = {time} the solution of the rewritten equations does not satisfy `{}`: its residual is {residual:.1e} of its \
                     terms",
                    original.equation_text(equation)
                );
                let finding = Finding::error("equation-violated", equation.span, message).with_help(
                    "the way equations depend on each other changes on the way; end the simulation before, write the equations so \
                     that they stay independent, or tighten rtol",
                );
                return Err(Diagnostic::resolve(&finding, &original.sources));
            }
        }
    }
    Ok(())
}
