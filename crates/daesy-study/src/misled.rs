//! The part of the road where structure misleads: equations are replaced by others with the same solutions, or left out
//! where the others say the same. How is in [`daesy_structure::straighten`]; here is decided whether.

use daesy_graph::finding::{Finding, Level};
use daesy_graph::flat::{FlatDae, ValueType, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::{Environment, ExprId, Leaf, Reach, Span, VarId};
use daesy_integrate::{HybridStart, SimulateOptions, Simulation};
use daesy_structure::array_verdict::{MAX_UNKNOWNS, StartPoint, analyze_aside, analyze_at};
use daesy_structure::arrays::{ArrayAnalysis, ArrayInputs, FAR};
use daesy_structure::excerpt::{Excerpt, excerpts};
use daesy_structure::straighten::{
    GenericVerdict, Rewritten, Specialized, allowed_residual, generic_verdict, keep_written_orders, rewrite,
    rewrite_on_solution, special_start, specialize, stays_special, straighten_linear, straightened_finding, watch,
    watched_equation,
};
use daesy_structure::verify::{doubtful_blocks, is_leading_regular, singular_blocks};
use daesy_structure::{RegularizeError, regularize};
use rustc_hash::FxHashSet;

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::load::Loaded;
use crate::prepare::{Changing, LOST, Prepared, Relations, Road, start_time, unregular};
use crate::special_start::{moving_limit, start_at_limits};
use crate::start_point::{start_point, start_point_of};
use crate::study::QuantityValue;

/// A model that can be solved.
pub(crate) struct Solvable {
    /// The compiled model.
    pub(crate) prepared: Prepared,
    /// What was done.
    pub(crate) findings: Vec<Finding>,
}

/// Compiles a model, or one with the same solutions where its structure misleads.
///
/// # Errors
/// Diagnostics in the model's words.
pub(crate) fn make_solvable(road: &Road<'_>) -> Result<Solvable, Failure> {
    let flat = &road.loaded.flat;
    // Only trajectories are compared with what was written.
    let is_watched = road.purpose.relations == Relations::Held;
    let watched = |new: FlatDae| {
        let mut watched = if is_watched { watch(&new, flat) } else { new };
        keep_written_orders(&mut watched, flat);
        watched
    };
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
            .map(|prepared| Solvable { prepared: Prepared { decisive, ..prepared }, findings: vec![finding] })
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
    let rewritten = match &prepared {
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
                let rewritten = if is_wrong { rewrite_prepared(road, prepared, time, start.as_ref())? } else { None };
                match (rewritten, &start) {
                    (None, Some(start)) => judge_far_start(road.loaded, prepared, time, start)?,
                    (rewritten, _) => rewritten,
                }
            }
        }
        Err(_) => rewrite_unbalanced(road.loaded, time),
    };
    let straight = rewritten.and_then(|new| {
        let findings = new.told(&road.loaded.flat);
        let flat = if findings.is_empty() { new.flat } else { watched(new.flat) };
        road.compiled(&flat).ok().map(|prepared| Solvable { prepared, findings })
    });
    match (straight, by_values) {
        (Some(straight), _) => Ok(straight),
        (None, Some(by_values)) => solved(by_values),
        (None, None) => Ok(Solvable { prepared: prepared?, findings: Vec::new() }),
    }
}

/// What is to be done about a start that is far away: nothing if it is near, or the model's own; the model rewritten, if
/// the derivative array beside the start that was written says that structure misleads.
fn judge_far_start(
    loaded: &Loaded,
    prepared: &Prepared,
    time: f64,
    start: &HybridStart,
) -> Result<Option<NewModel>, Failure> {
    let Some((name, _)) = prepared.ran_off(start, FAR) else { return Ok(None) };
    let flat = &loaded.flat;
    let far = flat.find(name);
    let regular = prepared.system.regular();
    let found = excerpts(flat, regular, &doubtful_blocks(regular), MAX_UNKNOWNS, NEARBY).unwrap_or_default();
    let is_about = |part: &&Excerpt| part.border.is_empty() && far.is_some_and(|far| part.unknowns.contains(&far));
    if let Some(part) = found.iter().find(is_about) {
        let looked = look_at(loaded, flat, regular, part, &[], time);
        if looked.as_ref().is_some_and(Looked::confirms) {
            return Ok(None);
        }
        let rewritten = looked.and_then(|looked| looked.rewritten()).filter(|rewritten| !rewritten.new.is_as_written());
        if let Some(rewritten) = rewritten {
            let mut new = NewModel::of(flat, regular);
            new.take(part, part, rewritten, &mut []);
            return Ok(Some(new));
        }
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

/// Why equations that do not determine all unknowns at the start are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Undecided {
    /// It cannot be found out what does.
    TooMany,
    /// Only the solution at hand stays at such points.
    OnSolution,
}

/// The refusal of equations that do not determine all unknowns at the start: values would be quotients of rounding
/// errors.
#[must_use]
pub fn not_decided(findings: Vec<Finding>, why: Undecided) -> Vec<Finding> {
    let reason = match why {
        Undecided::TooMany => format!(
            "too many unknowns depend on each other there (the limit is {MAX_UNKNOWNS}) to find out by derivative arrays what does"
        ),
        Undecided::OnSolution => {
            "nor do they along the solution that begins there, but beside it they do, so that other values of parameters and start \
             values lead to another kind of model"
                .to_owned()
        }
    };
    let told = |finding: Finding| {
        let message = format!("{}; {reason}", finding.message);
        Finding { message, level: Level::Error, ..finding }
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

/// A model at the values of its parameters that nobody varies, if its structure is right then.
fn specialized(
    road: &Road<'_>,
    prepared: &Prepared,
    time: f64,
    watched: &dyn Fn(FlatDae) -> FlatDae,
) -> Option<Solvable> {
    let Specialized { mut flat, decisive, finding } =
        specialize(&road.loaded.flat, &fixed_parameters(road.loaded, prepared))?;
    decisive.iter().for_each(|var| flat.variables[var.index()].is_structural = true);
    let special = road.compiled(&watched(flat)).ok()?;
    let start = special.strict_start(time).ok()?;
    if !is_leading_regular(special.system.regular(), &special.point(time, &start)) {
        return None;
    }
    Some(Solvable { prepared: Prepared { decisive, ..special }, findings: vec![finding] })
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

/// Unknowns that are looked at together with a block where what it reads has more than [`MAX_UNKNOWNS`].
pub const NEARBY: usize = 60;

/// So many unknowns are looked at in all: the work grows with the third power of those that are looked at together.
pub const MAX_LOOKED_AT: usize = 4000;

/// What derivative arrays say about an excerpt of a model.
pub struct Looked {
    /// The excerpt as a model.
    pub model: FlatDae,
    /// Its regular form.
    pub regular: RegularDae,
    /// At the start.
    pub at_start: Option<ArrayAnalysis>,
    /// Beside it.
    pub beside: GenericVerdict,
    /// The time span of the run.
    span: f64,
}

/// Looks at an excerpt of a model by its derivative arrays, at the start and beside it. `found` are starts that were
/// found for the whole, whose regular form is `regular`.
#[must_use]
pub fn look_at(
    loaded: &Loaded,
    flat: &FlatDae,
    regular: &RegularDae,
    part: &Excerpt,
    found: &[&dyn Environment],
    time: f64,
) -> Option<Looked> {
    let model = part.model(flat);
    let own = regularize(model.clone()).ok()?;
    let written = start_point_of(loaded, &model, time)?;
    let moved: Vec<StartPoint> = found.iter().map(|found| written.with_values(regular, *found)).collect();
    let starts: Vec<StartPoint> = std::iter::once(written).chain(moved).collect();
    let at_start = analyze_at(&model, Some(&own), &starts, ArrayInputs::Given).ok();
    let at_start = at_start.filter(|analysis| !analysis.is_rough());
    let beside = beside_start(loaded, &model, Some(&own), time, at_start.as_ref())?;
    let span = study_stop_time(loaded, time) - time;
    Some(Looked { model, regular: own, at_start, beside, span })
}

impl Looked {
    /// Whether structure is right beside the start.
    #[must_use]
    pub fn confirms(&self) -> bool {
        self.beside.confirms(self.regular.verdict.degrees_of_freedom)
    }

    /// Whether structure is right beside the solution that begins at the start, but not on it.
    fn stays_special(&self) -> bool {
        self.confirms() && self.at_start.as_ref().is_some_and(|start| stays_special(&self.regular, start, self.span))
    }

    /// The excerpt rewritten, and how many free start values fewer than promised it has.
    fn rewritten(&self) -> Option<PartRewritten> {
        let promised = self.regular.verdict.degrees_of_freedom;
        let new = match &self.at_start {
            Some(start) if self.stays_special() => rewrite_on_solution(&self.model, start, self.span)?,
            start => rewrite(&self.model, start.as_ref(), &self.beside, Some(promised))?,
        };
        let n_lost = promised.saturating_sub(new.free_starts);
        Some(PartRewritten { new, n_lost })
    }
}

/// An excerpt that was rewritten.
struct PartRewritten {
    new: Rewritten,
    n_lost: usize,
}

/// A model whose excerpts are rewritten one after the other.
struct NewModel {
    flat: FlatDae,
    /// What was left out and held.
    findings: Vec<Finding>,
    /// Equations of the original that were replaced.
    replaced: Vec<usize>,
    /// Free start values that structure promises, and those that there are not.
    promised: usize,
    n_lost: usize,
}

impl NewModel {
    fn of(flat: &FlatDae, regular: &RegularDae) -> Self {
        let promised = regular.verdict.degrees_of_freedom;
        Self { flat: flat.clone(), findings: Vec::new(), replaced: Vec::new(), promised, n_lost: 0 }
    }

    /// Puts an excerpt back, whose positions are `part` now and were `written` in the original.
    fn take(&mut self, part: &Excerpt, written: &Excerpt, rewritten: PartRewritten, others: &mut [Excerpt]) {
        let PartRewritten { new, n_lost } = rewritten;
        self.findings.extend(new.findings);
        self.replaced.extend(new.replaced.iter().filter_map(|&at| written.equations.get(at)));
        self.n_lost += n_lost;
        self.flat = part.put_back(&self.flat, new.flat, others);
    }

    /// What was done, about a model as it was written.
    fn told(&self, original: &FlatDae) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        if !self.replaced.is_empty() {
            let actual = self.promised.saturating_sub(self.n_lost);
            findings.push(straightened_finding(original, self.promised, actual, &self.replaced));
        }
        findings
    }
}

/// Rewrites a model whose equations and unknowns fit by structure, if numbers at its start say otherwise: what the
/// blocks read that are singular there or, where no start was found, may be singular somewhere.
///
/// # Errors
/// When too much hangs together to find out what determines the unknowns of singular blocks.
fn rewrite_prepared(
    road: &Road<'_>,
    prepared: &Prepared,
    time: f64,
    start: Option<&HybridStart>,
) -> Result<Option<NewModel>, Failure> {
    let loaded = road.loaded;
    let regular = prepared.system.regular();
    let point = start.map(|start| prepared.point(time, start));
    let singular = point.as_ref().map(|point| singular_blocks(regular, point));
    let blocks = singular.as_ref().map_or_else(|| doubtful_blocks(regular), |singular| singular.blocks.clone());
    let refused = |why: Undecided| {
        let told = singular.as_ref().map_or_else(Vec::new, |singular| singular.findings.clone());
        let told = not_decided(told, why);
        Failure::Input(told.iter().map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources)).collect())
    };
    let parts = excerpts(&loaded.flat, regular, &blocks, MAX_UNKNOWNS, NEARBY);
    let Some(mut parts) =
        parts.filter(|parts| parts.iter().map(|it| it.unknowns.len()).sum::<usize>() <= MAX_LOOKED_AT)
    else {
        return if start.is_some() { Err(refused(Undecided::TooMany)) } else { Ok(None) };
    };
    if start.is_none() {
        // Nobody knows which of them is at fault, so that all of what they read must be looked at.
        parts.retain(|part| part.border.is_empty());
    }
    // Without anything rewritten only the start is new, which is of use where none was found or where it is special.
    let has_events = !loaded.flat.when_clauses.is_empty() || !regular.discrete.is_empty();
    let found: Vec<&dyn Environment> = point.iter().map(|point| point as &dyn Environment).collect();
    let written = parts.clone();
    let mut new = NewModel::of(&loaded.flat, regular);
    let mut is_special = false;
    for written in &written {
        let part = parts.remove(0);
        let looked = look_at(loaded, &new.flat, regular, &part, &found, time);
        let stays_special = looked.as_ref().is_some_and(Looked::stays_special);
        // Where trajectories are not compared with what was written, nobody would see that another one leaves it.
        let is_unwatched = stays_special && road.purpose.relations != Relations::Held;
        let Some(rewritten) = looked.filter(|_| !is_unwatched).and_then(|looked| looked.rewritten()) else {
            if part.border.is_empty() && !stays_special {
                continue;
            }
            return Err(refused(if stays_special { Undecided::OnSolution } else { Undecided::TooMany }));
        };
        let is_as_written = rewritten.new.is_as_written();
        if is_as_written && has_events {
            continue;
        }
        is_special |= is_as_written;
        new.take(&part, written, rewritten, &mut parts);
    }
    let is_new = !new.told(&loaded.flat).is_empty();
    if !is_new && !is_special {
        return Ok(None);
    }
    if is_special && start.is_some() {
        let refused = |finding: Finding| Failure::Input(vec![Diagnostic::resolve(&finding, &loaded.flat.sources)]);
        let span = study_stop_time(loaded, time) - time;
        keep_written_orders(&mut new.flat, &loaded.flat);
        let written = new.flat.clone();
        start_at_limits(&mut new.flat, road, time, span).map_err(refused)?;
        if road.purpose.changing != Changing::Nothing
            && let Some(kept) = with_other_values(loaded, &new.flat, MOVED[0])
            && let Some(mut own) = with_other_values(loaded, &written, MOVED[0])
        {
            start_at_limits(&mut own, road, time, span).map_err(refused)?;
            if let Some(refusal) = moving_limit(&kept, &own, road, time) {
                return Err(refused(refusal));
            }
        }
        new.findings.push(special_start(&loaded.flat, time));
    }
    Ok(Some(new))
}

/// Times at which the verdict of the start is confirmed, as fractions of the run: none that a model is likely to single
/// out.
const ASIDE: [f64; 4] = [0.0173, 0.2718, 0.6137, 0.9391];

/// Those times.
pub fn times_beside(loaded: &Loaded, time: f64) -> impl Iterator<Item = f64> + use<> {
    let stop = study_stop_time(loaded, time);
    ASIDE.into_iter().map(move |fraction| time + fraction * (stop - time))
}

/// Relative changes of parameters that a study varies, at those times.
const MOVED: [f64; 4] = [0.0313, -0.0517, 0.0719, -0.0911];

/// The model with other values of the parameters that its study varies: a coefficient that vanishes where a search
/// begins does not vanish for all of them. None if it varies none.
fn with_other_values(loaded: &Loaded, flat: &FlatDae, change: f64) -> Option<FlatDae> {
    let study = loaded.study.as_ref()?;
    let joint = study.joint.iter().flat_map(|joint| &joint.names).map(|named| &named.name);
    let random = study.random.iter().map(|named| &named.name);
    let names = study.unknown.iter().map(|named| &named.name).chain(random).chain(joint);
    let mut changed = None;
    for var in names.filter_map(|name| flat.find(name)) {
        let variable = &flat.variables[var.index()];
        let Some(value) = variable.binding.and_then(|binding| flat.graph.as_number(binding)) else { continue };
        if variable.value_type == ValueType::Real {
            let new: &mut FlatDae = changed.get_or_insert_with(|| flat.clone());
            let moved = new.graph.number(value + change * if value == 0.0 { 1.0 } else { value });
            new.variables[var.index()].binding = Some(moved);
        }
    }
    changed
}

/// What derivative arrays say of a model, or of an excerpt of it, at other times and values than those of the start.
#[must_use]
pub fn beside_start(
    loaded: &Loaded,
    flat: &FlatDae,
    regular: Option<&RegularDae>,
    time: f64,
    at_start: Option<&ArrayAnalysis>,
) -> Option<GenericVerdict> {
    let structural = regular.map(|regular| regular.verdict.degrees_of_freedom);
    let mut points = Vec::new();
    for (seed, time) in times_beside(loaded, time).enumerate() {
        let moved = with_other_values(loaded, flat, MOVED[seed]).and_then(|flat| start_point_of(loaded, &flat, time));
        let point = moved.or_else(|| start_point_of(loaded, flat, time))?;
        points.push(point.aside(flat, at_start, seed as u32 + 1));
    }
    generic_verdict(analyze_aside(flat, regular, &points), structural)
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
fn rewrite_unbalanced(loaded: &Loaded, time: f64) -> Option<NewModel> {
    if loaded.flat.size().unknowns > MAX_UNKNOWNS {
        return None;
    }
    let start = start_point(loaded, time)?;
    let analysis = analyze_at(&loaded.flat, None, &[start], ArrayInputs::Given).ok()?;
    if !analysis.free.is_empty() || analysis.form.v == 0 {
        return None;
    }
    let generic = beside_start(loaded, &loaded.flat, None, time, Some(&analysis))?;
    let Rewritten { flat, findings, replaced, free_starts } = rewrite(&loaded.flat, Some(&analysis), &generic, None)?;
    Some(NewModel { flat, findings, replaced, promised: free_starts, n_lost: 0 })
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
