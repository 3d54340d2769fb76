//! `daesy check`: is this model sound?

mod start_values;
mod text;

use daesy_graph::VarId;
use daesy_graph::finding::{Finding, Level};
use daesy_graph::flat::{FlatDae, Origin, Size};
use daesy_graph::regular::{Derivative, RegularDae};
use daesy_integrate::IntegrateError;
use daesy_structure::arrays::{ArrayAnalysis, ArrayError, ArrayInputs, FAR};
use daesy_structure::excerpt::{self, Excerpt, excerpts};
use daesy_structure::verify::{SingularBlocks, doubtful_blocks, singular_blocks};
use daesy_structure::words::{derivative_name, equation_text};
use daesy_structure::{Verification, regularize, verify};
use daesy_system::{DaeSystem, Input};
use serde_json::{Map, Value, json};

use crate::start_report::{ChangedStart, NoStart, StartReport, changed_to_json};
use daesy_report::json::ToJson as _;
use daesy_structure::array_verdict::{self, MAX_UNKNOWNS, StartPoint, StructuralClaim, analyze_at};
use daesy_structure::linear_verdict::{self, DENSE, LinearVerdict};
use daesy_structure::linearize::{LinearKind, LinearModel};
use daesy_structure::straighten::special_start;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::inputs::{InputFacts, derivatives_available};
use daesy_study::load::Loaded;
use daesy_study::misled::{
    MAX_LOOKED_AT, NEARBY, Undecided, beside_start, not_decided, structural_fault, times_beside,
};
use daesy_study::prepare::{NamedPoint, Prepared, Purpose, prepare, start_time};
use daesy_study::start_point::{start_point, start_point_of};
use daesy_study::stochastic::{self, Stochastic};
use daesy_study::study::{InputSource, StudyModel};
use start_values::{StartValues, choose_free};
use text::times;

/// An equation that is differentiated, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Differentiated {
    /// The equation.
    pub text: String,
    /// Where it was written.
    pub place: String,
    /// How often.
    pub times: u16,
}

/// Everything `daesy check` knows.
#[derive(Clone, Debug)]
pub struct Check {
    /// Full name of the model.
    pub model: String,
    /// Its description.
    pub description: Option<String>,
    /// Counts.
    pub size: Size,
    /// What structure and numbers say; `None` when equations and unknowns do not fit.
    pub verdict: Option<Verdict>,
    /// What matrices say, where the model is linear and structure and start values do not give the whole answer.
    pub linear: Option<LinearVerdict>,
    /// Whether estimation is well-posed; `None` for studies without disturbances.
    pub stochastic: Option<Stochastic>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
}

/// What structure and numbers say about a model whose equations and unknowns fit.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Structural index.
    pub structural_index: u32,
    /// Free start values.
    pub degrees_of_freedom: usize,
    /// Hidden constraints.
    pub hidden_constraints: usize,
    /// Sets of unknowns that are solved together, by size.
    pub block_sizes: Vec<usize>,
    /// Equations whose derivatives are the hidden constraints, without mere equalities.
    pub differentiated: Vec<Differentiated>,
    /// Number of mere equalities that are differentiated too.
    pub n_differentiated_equalities: usize,
    /// The numeric verification; `None` when no consistent start was found.
    pub regularity: Option<Verification>,
    /// Inputs.
    pub inputs: Vec<InputFacts>,
    /// Whether a consistent start was found.
    pub is_consistent: bool,
    /// Names of free start values.
    pub free: Vec<String>,
    /// Start values that follow from the free ones.
    pub following: Vec<String>,
    /// Start values that had to change.
    pub changed: Vec<ChangedStart>,
    /// Number of when-clauses.
    pub n_when_clauses: usize,
    /// Number of variables that change at events only.
    pub n_discrete: usize,
}

/// Checks a model.
#[must_use]
pub fn check(loaded: &Loaded) -> Check {
    let mut check = Check {
        model: loaded.flat.model.clone(),
        description: loaded.flat.description.as_deref().map(str::to_owned),
        size: loaded.flat.size(),
        verdict: None,
        linear: None,
        stochastic: None,
        diagnostics: loaded.diagnostics.clone(),
    };
    let judged = prepare(loaded, Purpose::VERDICT).and_then(|prepared| {
        let time = start_time(loaded, prepared.data.as_deref());
        let mut told = Vec::new();
        let judged = judge(loaded, &prepared, time, &mut told);
        let is_doubtful = judged.verdict.regularity.as_ref().is_none_or(|it| !it.agrees_with_structure);
        match is_doubtful.then(|| structural_fault(loaded, &prepared, time)).flatten() {
            Some(fault) => Err(Failure::Input(fault)),
            None => {
                check.diagnostics.append(&mut told);
                Ok((prepared, judged, time))
            }
        }
    });
    match judged {
        Ok((prepared, mut judged, time)) => {
            let mut told = Vec::new();
            check.linear = judge_in_parts(loaded, &prepared, time, &mut judged, &mut told)
                .or_else(|| varying_matrices(&loaded.flat, prepared.system.regular(), time));
            // An error that goes on from a warning takes its place.
            let goes_on = |diagnostic: &Diagnostic| {
                let from = |finding: &Finding| {
                    finding.level == Level::Error && finding.message.starts_with(&diagnostic.message)
                };
                told.iter().any(from)
            };
            check.diagnostics.retain(|diagnostic| !goes_on(diagnostic));
            // Where the solution has no limit at the start, it is not kept.
            if judged.no_start.iter().any(|diagnostic| diagnostic.code == "special-start") {
                told.retain(|finding| finding.code != "special-start");
            }
            check.diagnostics.append(&mut judged.no_start);
            check.diagnostics.extend(told.iter().map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources)));
            check.verdict = Some(judged.verdict);
            check.diagnostics.extend(loaded.open_inputs());
            check.diagnostics.extend(loaded.wrong_records());
        }
        Err(unprepared) => match judge_matrices(loaded) {
            Some(linear) => {
                let findings = linear.findings.iter();
                check.diagnostics.extend(findings.map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources)));
                check.linear = Some(linear);
            }
            None => {
                check.diagnostics.extend_from_slice(unprepared.diagnostics());
                check.linear = judge_unbalanced(loaded);
            }
        },
    }
    let judged = stochastic::judge(loaded);
    check.stochastic = judged.verdict;
    if let Some(study) = &loaded.study {
        check.diagnostics.extend(judged.findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)));
    }
    check
}

/// A verdict, and what is told if nothing that is found later explains it.
struct Judged {
    verdict: Verdict,
    /// That no consistent start was found.
    no_start: Vec<Diagnostic>,
}

fn judge(loaded: &Loaded, prepared: &Prepared, time: f64, diagnostics: &mut Vec<Diagnostic>) -> Judged {
    let regular = prepared.system.regular();
    let flat = &regular.flat;
    let (differentiated, n_differentiated_equalities) = differentiated(regular);
    let inputs = input_facts(loaded, prepared, time);
    diagnostics.extend(inputs.iter().filter_map(|input| not_smooth(loaded, input)));
    let mut block_sizes: Vec<usize> = regular.blocks.iter().map(|block| block.len as usize).collect();
    block_sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut verdict = Verdict {
        structural_index: regular.verdict.structural_index,
        degrees_of_freedom: regular.verdict.degrees_of_freedom,
        hidden_constraints: regular.verdict.hidden_constraints,
        block_sizes,
        differentiated,
        n_differentiated_equalities,
        regularity: None,
        inputs,
        is_consistent: false,
        free: Vec::new(),
        following: Vec::new(),
        changed: Vec::new(),
        n_when_clauses: flat.when_clauses.len(),
        n_discrete: regular.discrete.len(),
    };
    let mut no_start = Vec::new();
    match prepared.start(time) {
        Ok(start) => {
            verdict.is_consistent = true;
            let point = prepared.point(time, &start);
            let verification = verify(regular, &point);
            diagnostics.extend(verification.findings.iter().map(|finding| Diagnostic::resolve(finding, &flat.sources)));
            verdict.degrees_of_freedom = verification.d;
            // Where equations are replaced by others before they are solved, the start is theirs; experiments start
            // apart.
            let row = prepared.observed(time, &start);
            let of_written = || {
                let parameters = &start.initialized.parameters;
                StartReport::new(&loaded.flat, prepared, parameters, &prepared.system.description().observed, &row)
            };
            let is_plain = verification.agrees_with_structure && loaded.n_experiments() <= 1;
            let of_solved = if is_plain { Err(NoStart::Open) } else { StartReport::of_solved(loaded, &[]) };
            let report = of_solved.unwrap_or_else(|refused| {
                if let NoStart::Refused(failure) = refused {
                    verdict.is_consistent = false;
                    no_start.extend(of_start(&failure));
                }
                of_written()
            });
            let changed = report.findings(&loaded.flat);
            diagnostics.extend(changed.iter().map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources)));
            verdict.changed = report.changed;
            let chosen = choose_free(prepared, &start, time);
            // Where numbers decide against structure, its choice of free values means nothing.
            if let Some(free) = &verification.free {
                verdict.free = free.iter().map(|&free| derivative_name(flat, free)).collect();
            } else if chosen.free.len() == verification.d && !verification.is_singular {
                let StartValues { free, following } = chosen;
                (verdict.free, verdict.following) = (free, following);
            }
            // States of a unit that are derivatives of others have these names.
            for name in &mut verdict.free {
                *name = name.trim_start_matches('@').to_owned();
            }
            verdict.regularity = Some(verification);
        }
        Err(error) => {
            let told = of_start(&prepared.failure(&error));
            if matches!(error, IntegrateError::NoConsistentStart { .. }) {
                no_start.extend(told);
            } else {
                diagnostics.extend(told);
            }
        }
    }
    Judged { verdict, no_start }
}

/// What is told about a start that was not found: what the model asks for is an error, that a search gave up is none.
fn of_start(failure: &Failure) -> Vec<Diagnostic> {
    let level = if matches!(failure, Failure::Method(_)) { Level::Warning } else { Level::Error };
    failure.diagnostics().iter().map(|one| one.clone().with_level(level)).collect()
}

/// Equations that are differentiated, and how many more of those that say that two things are equal.
fn differentiated(regular: &RegularDae) -> (Vec<Differentiated>, usize) {
    let flat = &regular.flat;
    let mut differentiated = Vec::new();
    let mut n_differentiated_equalities = 0;
    let mut is_used = vec![false; flat.equations.len()];
    for eliminated in &regular.eliminated {
        is_used[eliminated.source as usize] = true;
    }
    for (at, &times) in regular.verdict.differentiations.iter().enumerate().filter(|(_, times)| **times > 0) {
        let equation = &flat.equations[at];
        let is_equality =
            matches!(equation.origin, Origin::Connection | Origin::FlowSum | Origin::UnconnectedFlow) || is_used[at];
        if is_equality {
            n_differentiated_equalities += 1;
        } else {
            let place = flat.sources.place(equation.span).map_or(String::new(), |place| place.to_string());
            differentiated.push(Differentiated { text: equation_text(flat, at), place, times });
        }
    }
    (differentiated, n_differentiated_equalities)
}

/// The warning that an input has fewer derivatives than the model needs.
fn not_smooth(loaded: &Loaded, input: &InputFacts) -> Option<Diagnostic> {
    let available = input.derivatives_available.filter(|&available| available < input.derivatives_needed)?;
    let given = loaded.study.iter().flat_map(|study| &study.inputs).find(|given| given.name == input.name);
    let message = format!(
        "the model differentiates the input `{}` {}, but as given it can be differentiated {}",
        input.name,
        times(input.derivatives_needed),
        if available == 0 { "not even once".to_owned() } else { times(available) }
    );
    let span = given.map_or(daesy_graph::Span::NONE, |given| given.span);
    let finding = Finding::warning("input-not-smooth", span, message).with_names([&input.name]).with_help(
        "each jump becomes an impulse in some variable; give the input as a smoother curve (hold = \"foh\" or \"cubic\")",
    );
    Some(match given {
        Some(_) => loaded.in_study(&finding),
        None => Diagnostic::resolve(&finding, &loaded.flat.sources),
    })
}

/// What the model asks of its inputs: by numbers where it is linear with constant coefficients, by structure elsewhere.
fn input_facts(loaded: &Loaded, prepared: &Prepared, time: f64) -> Vec<InputFacts> {
    let linear =
        Some(&loaded.flat).filter(|flat| flat.size().unknowns <= DENSE).and_then(|flat| LinearModel::new(flat).ok());
    let by_numbers = linear.as_ref().and_then(|model| linear_verdict::input_derivatives(model, time));
    let needed = |input: &Input| {
        let column = linear.as_ref()?.inputs.iter().position(|name| *name == input.name)?;
        u16::try_from(by_numbers.as_ref()?[column]).ok()
    };
    let study = loaded.study.as_ref();
    let facts = |input: &Input| InputFacts {
        name: input.name.clone(),
        derivatives_needed: needed(input).unwrap_or(input.derivatives_needed),
        derivatives_available: match study.and_then(|study| study.input(&input.name)) {
            // Breaks say where something may jump, the expression says what does.
            Some(InputSource::Expression { .. }) => prepared.inputs.smoothness_at_breaks(input),
            _ => derivatives_available(study, &input.name),
        },
    };
    prepared.system.description().inputs.iter().map(facts).collect()
}

/// A structural index that numbers do not contradict is compared with the derivative array for parts up to this size.
const SMALL: usize = 24;

/// So many unknowns are looked at in all where numbers confirm structure.
const MAX_CONFIRMED: usize = 1000;

/// What matrices, and derivative arrays where a model is not linear, say where structure may mislead: where numbers at
/// the start contradict it, where no start was found, and where it differentiates, which may be more than the values ask
/// for. `None` where they confirm it. Only the parts of the model in question are looked at ([`excerpt`]).
fn judge_in_parts(
    loaded: &Loaded,
    prepared: &Prepared,
    time: f64,
    judged: &mut Judged,
    told: &mut Vec<Finding>,
) -> Option<LinearVerdict> {
    let regular = prepared.system.regular();
    let flat = &loaded.flat;
    let verdict = &mut judged.verdict;
    let known = verdict.regularity.as_ref();
    // A free start value holds. If it had to change, or if the start is where nobody looked for it, the ranks at the
    // start were decided by rounding errors.
    let start = prepared.start(time).ok();
    let ran_off = start.as_ref().is_some_and(|start| prepared.ran_off(start, FAR).is_some());
    let is_refuted = ran_off || verdict.changed.iter().any(|changed| verdict.free.contains(&changed.name));
    let is_plain =
        known.is_some_and(|it| it.is_linear || it.agrees_with_structure && verdict.structural_index < 2 && !is_refuted);
    if is_plain {
        return None;
    }
    let is_confirmed = known.is_some_and(|it| it.agrees_with_structure) && !is_refuted;
    let point = start.as_ref().filter(|_| !ran_off).map(|start| prepared.point(time, start));
    let singular = point.as_ref().filter(|_| !is_refuted).map(|point| singular_blocks(regular, point));
    let mut parts = if is_confirmed {
        let mut parts = excerpt::components(flat, regular);
        parts.retain(|part| part.unknowns.len() <= DENSE && part.differentiates(regular));
        parts
    } else {
        let blocks = singular.as_ref().map_or_else(|| doubtful_blocks(regular), |singular| singular.blocks.clone());
        excerpts(flat, regular, &blocks, MAX_UNKNOWNS, NEARBY).unwrap_or_default()
    };
    // Nobody knows which of them is at fault where no start was found.
    parts.retain(|part| singular.is_some() || part.border.is_empty());
    let n_looked_at = parts.iter().map(|part| part.unknowns.len()).sum::<usize>();
    let is_too_much = parts.is_empty() || n_looked_at > if is_confirmed { MAX_CONFIRMED } else { MAX_LOOKED_AT };
    let too_many = |singular: Option<SingularBlocks>| {
        not_decided(singular.map_or_else(Vec::new, |it| it.findings), Undecided::TooMany)
    };
    if is_too_much {
        told.extend(too_many(singular.filter(|_| !is_confirmed)));
        return None;
    }
    let question = Question { loaded, whole: regular, point: point.as_ref(), time, is_confirmed };
    let mut found = Vec::new();
    for part in &parts {
        match question.judge(part) {
            Ok(judged) => found.extend(judged),
            Err(_) if is_confirmed => {}
            Err(_) if !part.border.is_empty() => {
                told.extend(too_many(singular));
                return None;
            }
            Err(error) => {
                let message = format!("the derivative array could not decide about the model: {error}");
                told.push(Finding::note("not-decided", daesy_graph::Span::NONE, message));
                return None;
            }
        }
    }
    if found.is_empty() {
        return None;
    }
    if found.iter().any(|part| part.is_special) {
        told.push(special_start(flat, time));
    }
    let claim = StructuralClaim {
        index: regular.verdict.structural_index as usize,
        degrees_of_freedom: regular.verdict.degrees_of_freedom,
    };
    let is_doubtful = found.iter().any(|part| part.is_doubtful);
    let whole = together(flat, regular, &found, claim);
    if whole.agrees_with_structure || is_confirmed && is_doubtful {
        // Structure was right, and if numbers at the start say otherwise, the start is a special point.
        told.extend_from_slice(&whole.findings);
        return known.is_none().then_some(whole);
    }
    told.extend(overrule(judged, loaded, regular, &found, &whole, claim));
    told.extend_from_slice(&whole.findings);
    Some(whole)
}

/// Puts the verdict of the parts in the place of what structure and numbers at the start said; a note that structure
/// misleads, where there is none yet.
fn overrule(
    judged: &mut Judged,
    loaded: &Loaded,
    regular: &RegularDae,
    found: &[JudgedPart<'_>],
    whole: &LinearVerdict,
    claim: StructuralClaim,
) -> Vec<Finding> {
    let (flat, verdict) = (&loaded.flat, &mut judged.verdict);
    let is_of_part = |name: &String| {
        let part = |var: VarId| found.iter().any(|it| it.part.unknowns.binary_search(&var).is_ok());
        flat.find(variable_of(name)).is_some_and(part)
    };
    judged.no_start.clear();
    if whole.is_regular {
        // The equations that are solved may have a start where those as written have none, and the other way round.
        if let Err(NoStart::Refused(failure)) = StartReport::of_solved(loaded, &[]) {
            judged.no_start = of_start(&failure);
        }
        verdict.is_consistent = judged.no_start.is_empty();
        verdict.free.retain(|name| !is_of_part(name));
        let free = found.iter().flat_map(|it| &it.free_starts);
        verdict.free.extend(free.map(|&free| derivative_name(flat, free)));
        let place = |name: &String| flat.find(variable_of(name)).map(|var| var.index());
        verdict.free.sort_by_key(place);
        verdict.following.clear();
    } else {
        // What had to change is not free.
        let changed = &verdict.changed;
        verdict.free.retain(|name| !changed.iter().any(|changed| changed.name == *name));
    }
    // One note that structure misleads is enough.
    let is_told = verdict.regularity.as_ref().is_some_and(|it| it.overrules(&regular.verdict));
    let told = if is_told { Vec::new() } else { array_verdict::misled(claim, whole).into_iter().collect() };
    verdict.hidden_constraints += claim.degrees_of_freedom.saturating_sub(whole.d);
    verdict.degrees_of_freedom = whole.d;
    if let Some(known) = &mut verdict.regularity {
        known.agrees_with_structure = false;
        known.is_singular = !whole.is_regular;
        known.differentiation_index = whole.differentiation_index.map_or(known.differentiation_index, |it| it as u32);
        known.rank_decisions.clone_from(&whole.rank_decisions);
    }
    told
}

/// What matrices that depend on time say where they agree with structure.
fn varying_matrices(flat: &FlatDae, regular: &RegularDae, time: f64) -> Option<LinearVerdict> {
    if flat.size().unknowns > DENSE || LinearModel::new(flat).ok()?.kind != LinearKind::TimeVarying {
        return None;
    }
    let claim = StructuralClaim {
        index: regular.verdict.structural_index as usize,
        degrees_of_freedom: regular.verdict.degrees_of_freedom,
    };
    linear_verdict::complete(flat, claim, &[time]).filter(|linear| linear.agrees_with_structure)
}

/// The variable in a name such as `der(x)`.
fn variable_of(name: &str) -> &str {
    let mut name = name;
    while let Some(inner) = name.strip_prefix("der(").and_then(|rest| rest.strip_suffix(')')) {
        name = inner;
    }
    name
}

/// What numbers say of a part of a model.
struct JudgedPart<'a> {
    part: &'a Excerpt,
    regular: RegularDae,
    verdict: LinearVerdict,
    /// A choice of free start values.
    free_starts: Vec<Derivative>,
    /// How many variables nothing determines.
    n_free: usize,
    /// Whether the start is a special point of it.
    is_special: bool,
    is_doubtful: bool,
}

/// A model of which parts are judged.
struct Question<'a> {
    loaded: &'a Loaded,
    whole: &'a RegularDae,
    point: Option<&'a NamedPoint>,
    time: f64,
    /// Whether the system Jacobian is regular at the start, so that structure has the right number of free start values.
    is_confirmed: bool,
}

impl Question<'_> {
    /// Judges a part by matrices, or by derivative arrays where it is not linear. `None` where it is too large for
    /// those, though confirmed.
    fn judge<'a>(&self, part: &'a Excerpt) -> Result<Option<JudgedPart<'a>>, ArrayError> {
        let &Self { loaded, time, is_confirmed, .. } = self;
        let model = part.model(&loaded.flat);
        let regular = regularize(model.clone()).map_err(|_| ArrayError::NotSettled { tried: 0 })?;
        let claim = StructuralClaim {
            index: regular.verdict.structural_index as usize,
            degrees_of_freedom: regular.verdict.degrees_of_freedom,
        };
        let times: Vec<f64> = std::iter::once(time).chain(times_beside(loaded, time)).collect();
        if let Some(verdict) = linear_verdict::complete(&model, claim, &times) {
            if is_confirmed && verdict.d != claim.degrees_of_freedom {
                return Ok(None);
            }
            let n_free = excerpt::n_columns(&model).saturating_sub(verdict.d + verdict.a);
            let free_starts = if verdict.d == 0 { Vec::new() } else { self.free_starts(&model, &regular, verdict.d) };
            let (is_special, is_doubtful) = (false, false);
            return Ok(Some(JudgedPart { part, regular, verdict, free_starts, n_free, is_special, is_doubtful }));
        }
        if is_confirmed && part.unknowns.len() > SMALL {
            return Ok(None);
        }
        let starts = self.starts(&model);
        let analysis = analyze_at(&model, Some(&regular), &starts, ArrayInputs::Given)?;
        // What holds at the start alone is no verdict about the model.
        let is_sure = analysis.is_regular && !analysis.is_rough();
        let known_start = Some(&analysis).filter(|analysis| !analysis.is_rough());
        let beside = if is_sure { None } else { beside_start(loaded, &model, Some(&regular), time, known_start) };
        let regular_beside =
            beside.filter(|beside| !beside.is_contradicted && beside.analyses.first().is_some_and(|it| it.is_regular));
        let (analysis, is_special) = match regular_beside {
            Some(mut beside) => (beside.analyses.swap_remove(0), !analysis.is_regular),
            None => (analysis, false),
        };
        let verdict = array_verdict::verdict(&model, &analysis, Some(claim));
        let n_free = analysis.n_columns.saturating_sub(analysis.form.d + analysis.form.a);
        let is_doubtful = analysis.is_doubtful;
        let free_starts = analysis.free_starts;
        Ok(Some(JudgedPart { part, regular, verdict, free_starts, n_free, is_special, is_doubtful }))
    }

    /// Where arrays begin: what was written, and what was found, which comes first if structure is to be refuted.
    fn starts(&self, model: &FlatDae) -> Vec<StartPoint> {
        let mut starts: Vec<StartPoint> = start_point_of(self.loaded, model, self.time).into_iter().collect();
        if let (Some(point), Some(written)) = (self.point, starts.first()) {
            let found = written.with_values(self.whole, point);
            starts.insert(usize::from(!self.is_confirmed), found);
        }
        starts
    }

    /// The names of free start values of a linear model, of which there are `d`, by the derivative array, at a point
    /// beside the start where the start is special.
    fn free_starts(&self, model: &FlatDae, regular: &RegularDae, d: usize) -> Vec<Derivative> {
        let fits = |analysis: &ArrayAnalysis| analysis.is_regular && analysis.form.d == d;
        let at_start = analyze_at(model, Some(regular), &self.starts(model), ArrayInputs::Given).ok();
        let analysis = match at_start {
            Some(analysis) if fits(&analysis) => Some(analysis),
            other => beside_start(self.loaded, model, Some(regular), self.time, other.as_ref())
                .and_then(|beside| beside.analyses.into_iter().find(fits)),
        };
        analysis.map(|analysis| analysis.free_starts).unwrap_or_default()
    }
}

/// The verdict about a model from those about parts of it: free start values add up, and what is not looked at is as
/// structure says, with the unknowns of the parts given.
fn together(flat: &FlatDae, regular: &RegularDae, found: &[JudgedPart<'_>], claim: StructuralClaim) -> LinearVerdict {
    let mut whole = LinearVerdict {
        is_regular: true,
        differentiation_index: Some(0),
        strangeness_index: 0,
        d: claim.degrees_of_freedom,
        a: 0,
        v: 0,
        agrees_with_structure: false,
        redundant_equations: Vec::new(),
        free_variables: Vec::new(),
        rank_decisions: Vec::new(),
        findings: Vec::new(),
    };
    let mut n_undetermined = 0;
    for JudgedPart { regular, verdict, n_free, .. } in found {
        whole.is_regular &= verdict.is_regular;
        whole.d = (whole.d + verdict.d).saturating_sub(regular.verdict.degrees_of_freedom);
        whole.v += verdict.v;
        n_undetermined += n_free;
        whole.strangeness_index = whole.strangeness_index.max(verdict.strangeness_index);
        let index = whole.differentiation_index.zip(verdict.differentiation_index);
        whole.differentiation_index = index.map(|(known, index)| known.max(index));
        whole.redundant_equations.extend_from_slice(&verdict.redundant_equations);
        whole.free_variables.extend_from_slice(&verdict.free_variables);
        whole.rank_decisions.extend_from_slice(&verdict.rank_decisions);
        whole.findings.extend_from_slice(&verdict.findings);
    }
    let parts: Vec<&Excerpt> = found.iter().map(|it| it.part).collect();
    if let Some(rest) = excerpt::rest(flat, regular, &parts) {
        let index = regularize(rest.model(flat)).map_or(claim.index, |rest| rest.verdict.structural_index as usize);
        whole.differentiation_index = whole.differentiation_index.map(|known| known.max(index));
        whole.strangeness_index = whole.strangeness_index.max(index.saturating_sub(1));
    }
    let n_columns = excerpt::n_columns(flat);
    whole.a = n_columns.saturating_sub(whole.d + n_undetermined);
    whole.agrees_with_structure =
        whole.differentiation_index == Some(claim.index) && whole.d == claim.degrees_of_freedom;
    whole
}

/// The verdict on a study's matrices whose equations and variables do not fit; None for other models.
fn judge_matrices(loaded: &Loaded) -> Option<LinearVerdict> {
    let study = loaded.study.as_ref()?;
    if !matches!(study.model, StudyModel::Linear(_)) || loaded.flat.variables.len() > DENSE {
        return None;
    }
    let model = LinearModel::new(&loaded.flat).ok()?;
    linear_verdict::judge(&model, start_time(loaded, None)).ok().filter(|verdict| !verdict.is_regular)
}

/// What derivative arrays say of a model whose equations and unknowns do not fit.
fn judge_unbalanced(loaded: &Loaded) -> Option<LinearVerdict> {
    let time = start_time(loaded, None);
    let start = start_point(loaded, time)?;
    let analysis = analyze_at(&loaded.flat, None, &[start], ArrayInputs::Given).ok()?;
    Some(array_verdict::verdict(&loaded.flat, &analysis, None))
}

impl Check {
    /// Whether a finding is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Error)
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert(
            "size".into(),
            json!({
                "equations": self.size.equations,
                "unknowns": self.size.unknowns,
                "parameters": self.size.parameters,
                "inputs": self.size.inputs,
            }),
        );
        keys.insert("stochastic".into(), self.stochastic.as_ref().map_or(Value::Null, Stochastic::to_json));
        let Some(verdict) = &self.verdict else {
            for key in ["structure", "regularity", "inputs", "initial"] {
                keys.insert(key.into(), Value::Null);
            }
            if let Some(linear) = &self.linear {
                keys.insert("regularity".into(), linear.to_json());
            }
            return keys;
        };
        keys.insert(
            "structure".into(),
            json!({
                "structural_index": verdict.structural_index,
                "degrees_of_freedom": verdict.degrees_of_freedom,
                "hidden_constraints": verdict.hidden_constraints,
                "blocks": verdict.block_sizes.len(),
                "largest_block": verdict.block_sizes.first().copied().unwrap_or(0),
                "differentiated": verdict.differentiated.iter().map(|equation| json!({
                    "equation": equation.text, "place": equation.place, "times": equation.times,
                })).collect::<Vec<_>>(),
            }),
        );
        keys.insert(
            "regularity".into(),
            verdict.regularity.as_ref().map_or(Value::Null, |regularity| {
                json!({
                    "strangeness_index": regularity.strangeness_index,
                    "differentiation_index": regularity.differentiation_index,
                    "d": regularity.d,
                    "a": regularity.a,
                    "v": regularity.v,
                    "agrees_with_structure": regularity.agrees_with_structure,
                    "rank_decisions": regularity.rank_decisions.iter().map(|decision| json!({
                        "what": decision.what, "rank": decision.rank, "gap": decision.gap,
                    })).collect::<Vec<_>>(),
                })
            }),
        );
        if let Some(linear) = &self.linear {
            keys.insert("regularity".into(), linear.to_json());
        }
        let inputs: Map<String, Value> = verdict
            .inputs
            .iter()
            .map(|input| {
                let facts = json!({
                    "derivatives_needed": input.derivatives_needed,
                    "derivatives_available": input.derivatives_available,
                });
                (input.name.clone(), facts)
            })
            .collect();
        keys.insert("inputs".into(), Value::Object(inputs));
        keys.insert(
            "initial".into(),
            json!({
                "consistent": verdict.is_consistent,
                "free": verdict.free,
                "changed": changed_to_json(&verdict.changed),
                "follow": verdict.following,
            }),
        );
        keys
    }
}
