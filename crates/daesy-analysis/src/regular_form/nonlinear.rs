//! `daesy regularize` for nonlinear models: the strangeness-free form (9) in the model's own words, with its states and
//! inputs.
//!
//! The integers mu, d, a, v come from the derivative array at a consistent point [@campbell2011, hypothesis 1]; the
//! equations come from `daesy_structure::reduction`, which differentiates and eliminates until there are as many
//! constraints as the array has found. What cannot be written down that way is given by its linearization at the point.
//! States and inputs are chosen anew where the user's own choice gives no regular system (sec. 2.2), or a feedback is
//! found that makes it regular (sec. 2.3).

use daesy_graph::finding::{Finding, Level};
use daesy_graph::regular::Derivative;
use daesy_graph::{Environment, Span, VarId};
use daesy_pencil::{Mat, Wishes, regularizing_feedback, reinterpret};
use daesy_structure::arrays::{ArrayAnalysis, ArrayInputs, ArrayModel, ArrayOptions, ArrayScope, analyze};
use daesy_structure::excerpt::{Excerpt, components};
use daesy_structure::reduction::{Reduction, Written, reduce};
use daesy_structure::regularize as structural_form;
use daesy_structure::words::{Term, combination_text, derivative_name};
use serde_json::{Map, Value, json};

use super::linear::show::Common;
use super::linear::{FeedbackLaw, LinearForm, Moved, RegularizeOptions, linear_form, positions, wish_error};
use daesy_structure::array_verdict::{self, MAX_UNKNOWNS, StartPoint};
use daesy_structure::linearize::LinearModel;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;
use daesy_study::misled::{NEARBY, beside_start};
use daesy_study::prepare::{past_needed, start_time};
use daesy_study::start_point::start_point;

/// The strangeness-free form of a nonlinear model.
#[derive(Clone, Debug)]
pub struct ReducedForm {
    /// Full name of the model.
    pub model: String,
    /// The time of the point.
    pub time: f64,
    /// Strangeness index.
    pub mu: usize,
    /// Number of differential equations.
    pub d: usize,
    /// Number of algebraic equations.
    pub a: usize,
    /// Number of redundant equations.
    pub v: usize,
    /// Differential equations.
    pub differential: Vec<String>,
    /// Algebraic equations, hidden ones last.
    pub algebraic: Vec<String>,
    /// How many of them are hidden.
    pub n_hidden: usize,
    /// Names of the states.
    pub states: Vec<String>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// What changed its role.
    pub moved: Vec<Moved>,
    /// The feedback, where asked for.
    pub feedback: Option<FeedbackLaw>,
    /// Smallest gap of all rank decisions.
    pub smallest_gap: f64,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
}

/// The strangeness-free form of a model.
#[derive(Clone, Debug)]
pub enum RegularForm {
    /// Of a linear one.
    Linear(Box<LinearForm>),
    /// Of a nonlinear one.
    Nonlinear(Box<ReducedForm>),
}

/// Regularizes a model, linear or not.
///
/// # Errors
/// Diagnostics: no consistent point, ranks that do not settle, contradicting equations, a wish that cannot be met.
pub fn regular_form(loaded: &Loaded, options: &RegularizeOptions) -> Result<RegularForm, Vec<Diagnostic>> {
    if let Some(refusal) = past_needed(loaded) {
        return Err(vec![refusal]);
    }
    let size = loaded.flat.size();
    match LinearModel::new(&loaded.flat) {
        // What is computed nonlinearly from the rest hides how many variables are free.
        Ok(model) if !model.computed.is_empty() && size.equations != size.unknowns => {
            nonlinear_form(loaded, options).map(|form| RegularForm::Nonlinear(Box::new(form)))
        }
        Err(_) => nonlinear_form(loaded, options).map(|form| RegularForm::Nonlinear(Box::new(form))),
        Ok(_) => linear_form(loaded, options).map(|form| RegularForm::Linear(Box::new(form))),
    }
}

impl RegularForm {
    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        match self {
            Self::Linear(form) => form.to_json(),
            Self::Nonlinear(form) => form.to_json(),
        }
    }

    /// The report for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        match self {
            Self::Linear(form) => form.to_text(),
            Self::Nonlinear(form) => form.to_text(),
        }
    }

    /// Full name of the model.
    #[must_use]
    pub fn model(&self) -> &str {
        match self {
            Self::Linear(form) => &form.model,
            Self::Nonlinear(form) => &form.model,
        }
    }

    /// Findings.
    #[must_use]
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        match self {
            Self::Linear(form) => form.diagnostics,
            Self::Nonlinear(form) => form.diagnostics,
        }
    }
}

fn too_large(loaded: &Loaded, n_together: usize) -> Diagnostic {
    Diagnostic::error(
        "too-large",
        format!(
            "{n_together} of the model's {} unknowns hang together; the strangeness-free form of nonlinear models is found for up \
             to {MAX_UNKNOWNS}",
            loaded.flat.size().unknowns
        ),
    )
    .with_help("`daesy check` gives its index and hidden constraints")
}

/// Parts of a model that share no unknown, each small enough for a derivative array; none of them where inputs are
/// variables, or where a choice of states and inputs speaks of all variables at once.
fn parts(loaded: &Loaded, options: &RegularizeOptions) -> Result<Vec<Excerpt>, Vec<Diagnostic>> {
    let n = loaded.flat.size().unknowns;
    let has_inputs = !options.given_inputs && loaded.flat.size().inputs > 0;
    let is_chosen = options.feedback || !options.states.is_empty() || !options.inputs.is_empty();
    let regular = if has_inputs || is_chosen { None } else { structural_form(loaded.flat.clone()).ok() };
    let found = regular.map_or_else(Vec::new, |regular| components(&loaded.flat, &regular));
    let n_together = found.iter().map(|part| part.unknowns.len()).max().unwrap_or(n);
    if n_together > MAX_UNKNOWNS { Err(vec![too_large(loaded, n_together)]) } else { Ok(found) }
}

impl ReducedForm {
    /// Forms of parts that share no unknown as one: the equations of one after those of the other, hidden ones last.
    fn join(&mut self, other: Self) {
        self.mu = self.mu.max(other.mu);
        (self.d, self.a, self.v) = (self.d + other.d, self.a + other.a, self.v + other.v);
        self.differential.extend(other.differential);
        let n_explicit = self.algebraic.len() - self.n_hidden;
        let (explicit, hidden) = other.algebraic.split_at(other.algebraic.len() - other.n_hidden);
        self.algebraic.extend_from_slice(hidden);
        self.algebraic.splice(n_explicit..n_explicit, explicit.iter().cloned());
        self.n_hidden += other.n_hidden;
        self.states.extend(other.states);
        self.inputs.extend(other.inputs.into_iter().filter(|name| !self.inputs.contains(name)).collect::<Vec<_>>());
        self.moved.extend(other.moved);
        self.smallest_gap = self.smallest_gap.min(other.smallest_gap);
        self.diagnostics.extend(other.diagnostics);
    }
}

fn nonlinear_form(loaded: &Loaded, options: &RegularizeOptions) -> Result<ReducedForm, Vec<Diagnostic>> {
    let parts = if loaded.flat.size().unknowns > NEARBY { parts(loaded, options)? } else { Vec::new() };
    if parts.len() > 1 {
        let mut whole: Option<ReducedForm> = None;
        for part in parts {
            let part = Loaded { flat: part.model(&loaded.flat), diagnostics: Vec::new(), ..loaded.clone() };
            let form = nonlinear_form(&part, options)?;
            match &mut whole {
                Some(whole) => whole.join(form),
                None => whole = Some(form),
            }
        }
        let mut whole = whole.ok_or_else(|| vec![too_large(loaded, loaded.flat.size().unknowns)])?;
        whole.diagnostics.splice(0..0, loaded.diagnostics.iter().cloned());
        return Ok(whole);
    }
    if options.remove_feedthrough {
        let diagnostic = Diagnostic::error("usage", "--remove-feedthrough is for linear models")
            .with_help("leave it out, or linearize the model");
        return Err(vec![diagnostic]);
    }
    let time = options.time.unwrap_or_else(|| start_time(loaded, None));
    let Some(start) = start_point(loaded, time) else {
        return Err(vec![Diagnostic::error("parameter-value", "a parameter or an input has no finite value")]);
    };
    let role = if options.given_inputs { ArrayInputs::Given } else { ArrayInputs::Behaviour };
    let looked = look(loaded, &start, role)?;
    let Looked { model, analysis } = looked;
    let form = &analysis.form;
    let flat = &loaded.flat;
    let mut diagnostics = loaded.diagnostics.clone();
    if form.v > 0 {
        let mut finding = array_verdict::redundant(flat, &analysis);
        finding.level = Level::Note;
        diagnostics.push(Diagnostic::resolve(&finding, &flat.sources));
    }
    let changing = changing_ranks(loaded, time, &analysis, role);
    diagnostics.extend(changing.map(|finding| Diagnostic::resolve(&finding, &flat.sources)));
    let columns: Vec<Derivative> = (0..model.n_columns())
        .map(|column| {
            let (var, order) = model.column(column);
            Derivative { var, order: order as u16 }
        })
        .collect();
    let mut names: Vec<String> = columns.iter().map(|&column| derivative_name(flat, column)).collect();
    let given: Vec<VarId> = if options.given_inputs {
        (0..flat.variables.len() as u32)
            .map(VarId)
            .filter(|var| flat.variables[var.index()].kind == daesy_graph::VariableKind::Input)
            .collect()
    } else {
        Vec::new()
    };
    names.extend(given.iter().map(|var| flat.variables[var.index()].name.clone()));
    let shown: Vec<&str> = names.iter().map(String::as_str).collect();
    let roles = if options.feedback || options.given_inputs {
        let n = form.e1.ncols();
        Roles { states: (0..n).collect(), inputs: (n..names.len()).collect(), moved: Vec::new() }
    } else {
        choose_roles(&analysis, options, &shown)?
    };
    let feedback = if options.feedback { Some(feedback_law(&analysis, &columns, &names)?) } else { None };
    let generic =
        beside_start(loaded, &loaded.flat, None, time, Some(&analysis).filter(|_| role == ArrayInputs::Given));
    let written = Written::new(&loaded.flat, &start, &analysis, generic.as_ref());
    let reduction = reduce(&written, &analysis, &columns, role);
    if reduction.n_linearized > 0 {
        let message = format!(
            "{} of the algebraic equations could not be written in closed form; their linearization at t = {time} is given",
            reduction.n_linearized
        );
        let finding = Finding::note("linearized", Span::NONE, message);
        diagnostics.push(Diagnostic::resolve(&finding, &flat.sources));
    }
    let Reduction { differential, algebraic, n_hidden, .. } = reduction;
    let of = |positions: &[usize]| positions.iter().map(|&at| names[at].clone()).collect::<Vec<_>>();
    Ok(ReducedForm {
        model: flat.model.clone(),
        time,
        mu: form.mu,
        d: form.d,
        a: form.a,
        v: form.v,
        differential,
        algebraic,
        n_hidden,
        states: of(&roles.states),
        inputs: of(&roles.inputs),
        moved: roles.moved,
        feedback,
        smallest_gap: form.rank_decisions.iter().map(|decision| decision.gap).fold(f64::INFINITY, f64::min),
        diagnostics,
    })
}

/// Points beside the one at hand at which ranks are compared.
const N_BESIDE: u32 = 3;

/// The warning that ranks are others at all points that were looked at just beside the time and its values.
fn changing_ranks(loaded: &Loaded, time: f64, analysis: &ArrayAnalysis, role: ArrayInputs) -> Option<Finding> {
    let beside = start_point(loaded, time + 7.31e-4 * time.abs().max(1.0))?;
    let sizes = |analysis: &ArrayAnalysis| {
        let form = &analysis.form;
        (form.mu, form.d, form.a, form.v)
    };
    let found: Vec<ArrayAnalysis> = (1..=N_BESIDE)
        .filter_map(|seed| look(loaded, &beside.aside(&loaded.flat, None, seed), role).ok())
        .map(|looked| looked.analysis)
        .filter(|analysis| !analysis.is_doubtful)
        .collect();
    let (mu, d, a, v) = sizes(found.first()?);
    let is_other = found.len() > 1 && found.iter().all(|other| sizes(other) == (mu, d, a, v));
    if !is_other || (mu, d, a, v) == sizes(analysis) {
        return None;
    }
    let message = format!(
        "ranks change near t = {time}: beside the values there, there are {d} differential, {a} algebraic and {v} redundant \
         equations with strangeness index {mu}, so that the form given here holds at this point alone"
    );
    let help = "give `start` values at which no equation is special, or choose another --time";
    Some(Finding::warning("ranks-change", Span::NONE, message).with_help(help))
}

struct Looked {
    model: ArrayModel,
    analysis: ArrayAnalysis,
}

fn look(loaded: &Loaded, start: &StartPoint, role: ArrayInputs) -> Result<Looked, Vec<Diagnostic>> {
    let flat = &loaded.flat;
    let explain = |error: &dyn std::fmt::Display| {
        let message = format!("the derivative array does not decide: {error}");
        let help = "give `start` values near a solution at which no equation is special, or another --time";
        vec![Diagnostic::resolve(&Finding::error("not-decided", Span::NONE, message).with_help(help), &flat.sources)]
    };
    let scope = ArrayScope { inputs: role, ..ArrayScope::default() };
    let mut model = ArrayModel::new(flat, &scope).map_err(|error| explain(&error))?;
    model.set_nominal(flat, &start.point);
    let mut given = start.given.clone();
    if role == ArrayInputs::Behaviour {
        given.extend(
            (0..flat.variables.len() as u32)
                .map(VarId)
                .filter(|var| flat.variables[var.index()].kind == daesy_graph::VariableKind::Input),
        );
    }
    let options = ArrayOptions { inputs: role, held: start.held.clone(), given, ..ArrayOptions::default() };
    let mut first = None;
    for seed in 0..3 {
        let start = if seed == 0 { start.clone() } else { start.stirred(flat, seed) };
        match analyze(&mut model, &start.point, &options) {
            Ok(analysis) => return Ok(Looked { model, analysis }),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.map_or_else(Vec::new, |error| explain(&error)))
}

struct Roles {
    states: Vec<usize>,
    inputs: Vec<usize>,
    moved: Vec<Moved>,
}

fn choose_roles(
    analysis: &ArrayAnalysis,
    options: &RegularizeOptions,
    names: &[&str],
) -> Result<Roles, Vec<Diagnostic>> {
    let wishes = Wishes {
        states: positions(names, &options.states).map_err(|diagnostic| vec![diagnostic])?,
        inputs: positions(names, &options.inputs).map_err(|diagnostic| vec![diagnostic])?,
    };
    let tolerance = ArrayOptions::default().tolerance;
    let choice =
        reinterpret(&analysis.form, None, &wishes, &tolerance).map_err(|error| vec![wish_error(names, &error)])?;
    let moved = |positions: &[usize], is_state| {
        positions.iter().map(|&at| Moved { name: names[at].to_owned(), is_state }).collect::<Vec<_>>()
    };
    let moved = [moved(&choice.moved_to_inputs, false), moved(&choice.moved_to_states, true)].concat();
    Ok(Roles { states: choice.states, inputs: choice.inputs, moved })
}

/// The local feedback u = u* + K (x - x*) + w, with the point (x*, u*).   [@campbell2011, sec. 2.3]
fn feedback_law(
    analysis: &ArrayAnalysis,
    columns: &[Derivative],
    names: &[String],
) -> Result<FeedbackLaw, Vec<Diagnostic>> {
    let law = regularizing_feedback(&analysis.form, &ArrayOptions::default().tolerance).map_err(|error| {
        vec![Diagnostic::error("no-feedback", error.to_string()).with_help(
            "without --feedback, daesy chooses the states and inputs anew, which makes every such system regular",
        )]
    })?;
    let n = law.k.ncols();
    let value = |at: usize| analysis.point.value(columns[at].var, columns[at].order);
    let text = (0..law.k.nrows())
        .map(|row| {
            let largest = (0..n).fold(0.0f64, |size, at| size.max(law.k[(row, at)].abs()));
            let mut terms: Vec<Term> = (0..n)
                .filter(|&at| law.k[(row, at)].abs() > 1e-9 * largest)
                .map(|at| Term { factor: law.k[(row, at)], name: names[at].clone() })
                .collect();
            let offset = value(n + row) - (0..n).map(|at| law.k[(row, at)] * value(at)).sum::<f64>();
            if offset.abs() > 1e-9 * largest.max(value(n + row).abs()) {
                terms.push(Term { factor: offset, name: String::new() });
            }
            format!("{} = {} + w{}", names[n + row], combination_text(&terms), row + 1)
        })
        .collect();
    Ok(FeedbackLaw { k: swept(&law.k), law: text, n_repaired: law.n_repaired })
}

fn swept(matrix: &Mat<f64>) -> Mat<f64> {
    let largest = if matrix.nrows() * matrix.ncols() == 0 { 0.0 } else { matrix.norm_max() };
    Mat::from_fn(matrix.nrows(), matrix.ncols(), |row, column| {
        if matrix[(row, column)].abs() <= 1e-9 * largest { 0.0 } else { matrix[(row, column)] }
    })
}

impl ReducedForm {
    fn common(&self) -> Common<'_> {
        Common {
            counts: [self.mu, self.d, self.a, self.v],
            smallest_gap: self.smallest_gap,
            states: &self.states,
            inputs: &self.inputs,
            moved: &self.moved,
            feedback: self.feedback.as_ref(),
        }
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let common = self.common();
        let mut keys = common.head("nonlinear", self.time);
        keys.insert("differential".into(), json!(self.differential));
        keys.insert("algebraic".into(), json!(self.algebraic));
        keys.insert("hidden".into(), json!(self.n_hidden));
        keys.insert("variables".into(), common.variables());
        keys.extend(common.feedback().map(|value| ("feedback".into(), value)));
        keys
    }

    /// The report for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("Model {}, nonlinear, at t = {}", self.model, self.time);
        let n_explicit = self.algebraic.len().saturating_sub(self.n_hidden);
        let common = self.common();
        common.write(
            &mut text,
            &[
                ("Differential equations", &self.differential),
                ("Algebraic equations", &self.algebraic[..n_explicit]),
                ("Hidden constraints", &self.algebraic[n_explicit..]),
            ],
        );
        common.write_feedback(&mut text, "Regularizing feedback near this point");
        text
    }
}
