//! `daesy check`: is this model sound?

use std::fmt::Write as _;

use daesy_graph::finding::{Finding, Level};
use daesy_graph::flat::{Origin, Size};
use daesy_structure::words::{enumerate, equation_text};
use daesy_structure::{Verification, verify};
use daesy_system::{DaeSystem, Part, StartOrigin};
use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;
use crate::inputs::{InputFacts, derivatives_available};
use crate::load::Loaded;
use crate::prepare::{Prepared, integration_diagnostic, prepare};

/// A start value that had to change.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangedStart {
    /// The variable.
    pub name: String,
    /// As given.
    pub given: f64,
    /// As used.
    pub used: f64,
}

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
    /// What structure and numbers say; nothing when equations and unknowns do not fit.
    pub verdict: Option<Verdict>,
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
    /// Equations behind the hidden constraints, without mere equalities.
    pub differentiated: Vec<Differentiated>,
    /// Number of mere equalities that are differentiated too.
    pub n_differentiated_equalities: usize,
    /// The numeric verification; nothing when no consistent start was found.
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
}

/// Checks a model.
#[must_use]
pub fn check(loaded: &mut Loaded) -> Check {
    let mut check = Check {
        model: loaded.flat.model.clone(),
        description: loaded.flat.description.as_deref().map(str::to_owned),
        size: loaded.flat.size(),
        verdict: None,
        diagnostics: loaded.diagnostics.clone(),
    };
    match prepare(loaded) {
        Ok(prepared) => {
            let verdict = judge(loaded, &prepared, &mut check.diagnostics);
            check.verdict = Some(verdict);
        }
        Err(unprepared) => check.diagnostics.extend(unprepared.diagnostics),
    }
    check
}

fn judge(loaded: &Loaded, prepared: &Prepared, diagnostics: &mut Vec<Diagnostic>) -> Verdict {
    let regular = prepared.system.regular();
    let flat = &regular.flat;
    let description = prepared.system.description();
    let mut differentiated = Vec::new();
    let mut n_differentiated_equalities = 0;
    for (at, &times) in regular.verdict.differentiations.iter().enumerate().filter(|(_, times)| **times > 0) {
        let equation = &flat.equations[at];
        let is_equality = matches!(equation.origin, Origin::Connection | Origin::FlowSum | Origin::UnconnectedFlow)
            || regular.eliminated.iter().any(|eliminated| eliminated.source as usize == at);
        if is_equality {
            n_differentiated_equalities += 1;
        } else {
            let place = flat.sources.place(equation.span).map_or(String::new(), |place| place.to_string());
            differentiated.push(Differentiated { text: equation_text(flat, at), place, times });
        }
    }
    let inputs: Vec<InputFacts> = description
        .inputs
        .iter()
        .map(|input| InputFacts {
            name: input.name.clone(),
            derivatives_needed: input.derivatives_needed,
            derivatives_available: derivatives_available(loaded.study.as_ref(), &input.name),
        })
        .collect();
    for input in &inputs {
        if let Some(available) = input.derivatives_available
            && available < input.derivatives_needed
        {
            let span = loaded.study.as_ref().and_then(|study| {
                study.inputs.iter().find(|given| given.name == input.name).map(|given| (given.span, &study.sources))
            });
            let finding = Finding::warning(
                "input-not-smooth",
                span.map_or(daesy_graph::Span::NONE, |(span, _)| span),
                format!(
                    "the model differentiates the input `{}` {}, but as given it can be differentiated {}",
                    input.name,
                    times(input.derivatives_needed),
                    if available == 0 { "not even once".to_owned() } else { times(available) }
                ),
            )
            .with_names([&input.name])
            .with_help("each jump becomes an impulse in some variable; give the input as a smoother curve (hold = \"foh\" or \"cubic\")");
            diagnostics.push(match span {
                Some((_, sources)) => Diagnostic::resolve(&finding, sources),
                None => Diagnostic::resolve(&finding, &flat.sources),
            });
        }
    }
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
    };
    let time = flat.experiment.start.unwrap_or(0.0);
    match prepared.start(time) {
        Ok(start) => {
            verdict.is_consistent = true;
            let point = prepared.point(time, &start);
            let verification = verify(regular, &point);
            diagnostics.extend(verification.findings.iter().map(|finding| Diagnostic::resolve(finding, &flat.sources)));
            verdict.degrees_of_freedom = verification.d;
            verdict.regularity = Some(verification);
            let quantities = description.states.iter().chain(&description.unknowns);
            let values = start.states.iter().chain(&start.unknowns);
            for (quantity, &used) in quantities.zip(values) {
                let scale = quantity.nominal.max(quantity.start.abs());
                if quantity.start_origin != StartOrigin::Default && (used - quantity.start).abs() > 1e-6 * scale {
                    verdict.changed.push(ChangedStart { name: quantity.name.clone(), given: quantity.start, used });
                }
            }
            choose_free(prepared, &start, time, &mut verdict);
        }
        Err(error) => {
            let mut diagnostic = integration_diagnostic(&error);
            diagnostic.level = Level::Warning;
            diagnostics.push(diagnostic);
        }
    }
    verdict
}

/// Chooses which start values are free: those the user insists on first, then guesses, then the others, each only if the
/// constraints and the ones chosen before leave it open.
fn choose_free(prepared: &Prepared, start: &daesy_integrate::Initialized, time: f64, verdict: &mut Verdict) {
    let description = prepared.system.description();
    let n = description.states.len();
    if description.constraints.is_empty() {
        verdict.free = description.states.iter().map(|state| state.name.clone()).collect();
        return;
    }
    if n > 1500 {
        return;
    }
    let pattern = prepared.system.pattern(Part::ConstraintByStates);
    let mut values = vec![0.0; pattern.n_entries()];
    let mut inputs = vec![0.0; description.n_inputs];
    daesy_integrate::Inputs::fill(&prepared.inputs, time, true, &mut inputs);
    let modes = vec![0.0; description.n_modes];
    let point = daesy_system::Point {
        time,
        states: &start.states,
        unknowns: &start.unknowns,
        parameters: &start.parameters,
        inputs: &inputs,
        modes: &modes,
    };
    prepared.system.evaluator().evaluate(Part::ConstraintByStates, &point, &mut values);
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for row in 0..pattern.n_rows {
        let mut vector = vec![0.0; n];
        for entry in pattern.row(row) {
            let column = pattern.columns[entry] as usize;
            vector[column] = values[entry] * description.states[column].nominal;
        }
        extend_basis(&mut basis, vector);
    }
    let mut order: Vec<usize> = (0..n).collect();
    let is_derivative = |state: usize| description.states[state].name.starts_with("der(");
    order
        .sort_by_key(|&state| (std::cmp::Reverse(description.states[state].start_origin), is_derivative(state), state));
    let mut free = vec![false; n];
    for state in order {
        let mut vector = vec![0.0; n];
        vector[state] = 1.0;
        free[state] = extend_basis(&mut basis, vector);
    }
    for (state, is_free) in free.into_iter().enumerate() {
        let name = description.states[state].name.clone();
        if is_free { verdict.free.push(name) } else { verdict.following.push(name) }
    }
}

/// Adds a vector to an orthonormal basis if it is not in its span already; says whether it was added.
fn extend_basis(basis: &mut Vec<Vec<f64>>, mut vector: Vec<f64>) -> bool {
    let norm = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    let before = norm(&vector);
    if before == 0.0 {
        return false;
    }
    for _ in 0..2 {
        for known in basis.iter() {
            let product: f64 = known.iter().zip(&vector).map(|(a, b)| a * b).sum();
            vector.iter_mut().zip(known).for_each(|(value, known)| *value -= product * known);
        }
    }
    let after = norm(&vector);
    if after <= 1e-9 * before {
        return false;
    }
    vector.iter_mut().for_each(|value| *value /= after);
    basis.push(vector);
    true
}

fn times(n: u16) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
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
        let Some(verdict) = &self.verdict else {
            for key in ["structure", "regularity", "inputs", "initial"] {
                keys.insert(key.into(), Value::Null);
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
        let changed: Map<String, Value> = verdict
            .changed
            .iter()
            .map(|changed| (changed.name.clone(), json!([changed.given, changed.used])))
            .collect();
        keys.insert(
            "initial".into(),
            json!({
                "consistent": verdict.is_consistent,
                "free": verdict.free,
                "changed": changed,
                "follow": verdict.following,
            }),
        );
        keys
    }

    /// The report for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let title = self.description.as_ref().map_or(String::new(), |description| format!(": {description}"));
        let _ = writeln!(text, "Model {}{title}", self.model);
        let size = self.size;
        let _ = writeln!(
            text,
            "  {} for {}; {}, {}",
            plural(size.equations, "equation", "equations"),
            plural(size.unknowns, "unknown", "unknowns"),
            plural(size.parameters, "parameter", "parameters"),
            plural(size.inputs, "input", "inputs"),
        );
        let Some(verdict) = &self.verdict else {
            let _ = writeln!(text, "\nThe model is not sound; see the errors.");
            return text;
        };
        for paragraph in verdict.paragraphs() {
            let _ = writeln!(text, "\n{paragraph}");
        }
        text
    }
}

impl Verdict {
    /// The verdict in words, a paragraph for each question.
    #[must_use]
    pub fn paragraphs(&self) -> Vec<String> {
        let mut paragraphs = Vec::new();
        let index =
            self.regularity.as_ref().map_or(self.structural_index, |regularity| regularity.differentiation_index);
        let kind = match index {
            0 => "an ordinary differential equation (index 0)".to_owned(),
            1 => "a differential-algebraic equation of index 1: the algebraic unknowns follow directly from the states"
                .to_owned(),
            n => {
                format!("a differential-algebraic equation of index {n}: some constraints between variables are hidden")
            }
        };
        let check = match &self.regularity {
            None => " Numbers could not confirm this: no consistent start was found.".to_owned(),
            Some(regularity) if regularity.agrees_with_structure => {
                let gap = regularity.rank_decisions.iter().map(|decision| decision.gap).fold(f64::INFINITY, f64::min);
                if gap.is_finite() {
                    format!(" Numbers at the start confirm it (smallest rank gap {gap:.0e}).")
                } else {
                    String::new()
                }
            }
            Some(regularity) if regularity.findings.is_empty() => {
                " Numbers at the start do not confirm what structure suggests.".to_owned()
            }
            Some(_) => " Numbers at the start do not confirm what structure suggests; see the findings.".to_owned(),
        };
        paragraphs.push(format!("It is {kind}.{check}"));
        if self.hidden_constraints > 0 {
            let mut words = format!(
                "{} from differentiating:",
                plural(self.hidden_constraints, "hidden constraint comes", "hidden constraints come")
            );
            for equation in self.differentiated.iter().take(10) {
                let place = if equation.place.is_empty() { String::new() } else { format!("  [{}]", equation.place) };
                let _ = write!(words, "\n  {}  ({}){place}", equation.text, times(equation.times));
            }
            if self.differentiated.len() > 10 {
                let _ = write!(words, "\n  and {} more", self.differentiated.len() - 10);
            }
            if self.n_differentiated_equalities > 0 {
                let more = plural(self.n_differentiated_equalities, "plain equality", "plain equalities");
                let _ = write!(words, "\n  {more} from connections and declarations");
            }
            paragraphs.push(words);
        }
        let names: Vec<&str> = self.free.iter().map(String::as_str).collect();
        paragraphs.push(match (self.degrees_of_freedom, names.is_empty()) {
            (0, _) => "No start value is free: the solution follows from the equations and inputs alone.".to_owned(),
            (n, true) => format!("{} free.", plural(n, "start value is", "start values are")),
            (n, false) => {
                format!(
                    "{} free, for instance {}.",
                    plural(n, "start value is", "start values are"),
                    enumerate(&names, 12)
                )
            }
        });
        if !self.following.is_empty() {
            let names: Vec<&str> = self.following.iter().map(String::as_str).collect();
            let from = if self.degrees_of_freedom == 0 { "the equations" } else { "them" };
            paragraphs.push(format!("These start values follow from {from}: {}.", enumerate(&names, 12)));
        }
        if !self.changed.is_empty() {
            let mut words = "These start values had to change to fit the equations:".to_owned();
            for changed in self.changed.iter().take(12) {
                let _ = write!(words, "\n  {}: {} given, {:.6} used", changed.name, changed.given, changed.used);
            }
            paragraphs.push(words);
        }
        for input in self.inputs.iter().filter(|input| input.derivatives_needed > 0) {
            paragraphs.push(format!(
                "The input `{}` enters differentiated ({}): it must be that smooth.",
                input.name,
                times(input.derivatives_needed)
            ));
        }
        let loops: Vec<usize> = self.block_sizes.iter().copied().filter(|&size| size > 1).collect();
        if let Some(largest) = loops.first() {
            let words = plural(loops.len(), "set of equations must", "sets of equations must");
            paragraphs.push(format!("{words} be solved together; the largest has {largest} unknowns."));
        }
        paragraphs
    }
}
