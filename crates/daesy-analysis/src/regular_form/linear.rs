//! `daesy regularize`: the strangeness-free form of a linear model, with its states and inputs.
//!
//! Inputs are variables of the behaviour, so that no derivative of an input is needed [@campbell2011, sec. 3];
//! `--given-inputs` makes them given functions instead. The states are then chosen anew where the user's own choice
//! does not give a regular system (sec. 3.2), feed-through is removed (sec. 3.3) or a feedback is found that makes the
//! user's own choice regular (sec. 3.4).

pub(crate) mod show;

use daesy_graph::finding::{Finding, Level, nearest};
use daesy_graph::{CoefficientKind, ExprId, FlatDae, Leaf, Reach, Span, VarId, VariableKind};
use daesy_pencil::{
    FeedthroughFree, InputRole, Mat, OutputEquation, PencilError, RankTolerance, RedundantEquations, Reinterpretation,
    StrangenessFree, StrangenessOptions, Wishes, regularizing_feedback, reinterpret, remove_feedthrough,
    strangeness_free,
};
use daesy_structure::chosen_form::{DUST, Matrices, in_chosen};
use daesy_structure::linearize::{LinearKind, LinearModel, SeparateOutput};
use daesy_structure::words::{Term, combination_text, enumerate};
use daesy_study::limits;

use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;
use daesy_study::misled::study_stop_time;
use daesy_study::prepare::start_time;
use daesy_study::start_point::start_point;
use daesy_study::study::StudyModel;

/// What to regularize and how.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RegularizeOptions {
    /// The time at which coefficients are taken; the start of the simulation when left out.
    pub time: Option<f64>,
    /// Make outputs states where inputs feed through.
    pub remove_feedthrough: bool,
    /// Find a regularizing feedback instead of choosing states anew.
    pub feedback: bool,
    /// Variables and inputs that must be states.
    pub states: Vec<String>,
    /// Variables and inputs that must be inputs.
    pub inputs: Vec<String>,
    /// Leave contradicting redundant equations out.
    pub drop_redundant: bool,
    /// Inputs are given functions of time.
    pub given_inputs: bool,
}

/// A variable whose role changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// Its name.
    pub name: String,
    /// Whether it is a state now; an input otherwise.
    pub is_state: bool,
}

/// A system without feed-through: `E x' = A x + B u + f`, `y = C x + g`.
#[derive(Clone, Debug)]
pub struct Feedthrough {
    /// Combinations of outputs that became states.
    pub added: Vec<String>,
    /// `E`.
    pub e: Mat<f64>,
    /// `A`.
    pub a: Mat<f64>,
    /// `B`.
    pub b: Mat<f64>,
    /// `f`.
    pub f: Vec<f64>,
    /// `C`.
    pub c: Mat<f64>,
    /// `g`.
    pub g: Vec<f64>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Coefficients of the derivatives of the inputs beside `E`, where some enter.
    pub input_rates: Option<Mat<f64>>,
}

/// A regularizing feedback `u = K x + w`.
#[derive(Clone, Debug)]
pub struct FeedbackLaw {
    /// `K`, inputs by variables.
    pub k: Mat<f64>,
    /// The law in words, one line per input.
    pub law: Vec<String>,
    /// How many constraints needed help.
    pub n_repaired: usize,
}

/// The strangeness-free form of a model.
#[derive(Clone, Debug)]
pub struct LinearForm {
    /// Full name of the model.
    pub model: String,
    /// Constant or time-varying.
    pub kind: LinearKind,
    /// The time of the coefficients.
    pub time: f64,
    /// Strangeness index.
    pub mu: usize,
    /// Number of differential equations.
    pub d: usize,
    /// Number of algebraic equations.
    pub a: usize,
    /// Number of redundant equations.
    pub v: usize,
    /// Differential equations in the user's names.
    pub differential: Vec<String>,
    /// Algebraic equations in the user's names.
    pub algebraic: Vec<String>,
    /// Outputs in the user's names.
    pub outputs: Vec<String>,
    /// Equations that compute further variables from these, nonlinearly.
    pub computed: Vec<String>,
    /// Coefficients.
    pub matrices: Matrices,
    /// Names of the states.
    pub states: Vec<String>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// What changed its role.
    pub moved: Vec<Moved>,
    /// The system without feed-through, where asked for.
    pub feedthrough: Option<Feedthrough>,
    /// The feedback, where asked for.
    pub feedback: Option<FeedbackLaw>,
    /// Smallest gap of all rank decisions.
    pub smallest_gap: f64,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Regularizes a linear model.
///
/// # Errors
/// Diagnostics: the model is not linear, its equations contradict each other, or a wish cannot be met.
pub fn linear_form(loaded: &Loaded, options: &RegularizeOptions) -> Result<LinearForm, Vec<Diagnostic>> {
    let flat = &loaded.flat;
    let resolve = |finding: &Finding| Diagnostic::resolve(finding, &flat.sources);
    let whole = LinearModel::new(flat).map_err(|finding| vec![resolve(&finding)])?;
    limits::dense(whole.equations.len(), whole.n_variables() + whole.inputs.len())
        .map_err(|refusal| vec![resolve(&refusal.at(Span::NONE))])?;
    let time = options.time.unwrap_or_else(|| start_time(loaded, None));
    let has_matrices = loaded.study.as_ref().is_some_and(|study| matches!(study.model, StudyModel::Linear(_)));
    let separated = if has_matrices || options.remove_feedthrough {
        let separated = whole.separate_outputs(time);
        (separated.model, separated.outputs)
    } else {
        (whole, Vec::new())
    };
    let (model, outputs) = separated;
    let mut diagnostics = loaded.diagnostics.clone();
    let form = strangeness_free(&model, time, &strangeness_options(&model, options))
        .map_err(|error| vec![resolve(&explain(&model, &error))])?;
    let contradiction = contradiction(loaded, &model, &form, options, time);
    diagnostics.extend(redundancy(&model, &form, contradiction, options).iter().map(resolve));
    diagnostics.extend(changing_ranks(&model, &form, options, time).iter().map(resolve));
    if options.remove_feedthrough {
        nonlinear_feedthrough(loaded, &model).map_or(Ok(()), |finding| Err(vec![resolve(&finding)]))?;
    }
    if diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Error) {
        return Err(diagnostics);
    }
    let names: Vec<&str> = model
        .variables
        .iter()
        .map(|variable| variable.name.as_str())
        .chain(model.inputs.iter().map(String::as_str))
        .collect();
    let wishes = Wishes {
        states: positions(&names, &options.states).map_err(|diagnostic| vec![diagnostic])?,
        inputs: positions(&names, &options.inputs).map_err(|diagnostic| vec![diagnostic])?,
    };
    let tolerance = RankTolerance::default();
    let output = output_equation(&model, &outputs);
    let keeps_roles = options.feedback || options.given_inputs;
    let choice = if keeps_roles {
        None
    } else {
        let choice = reinterpret(&form, Some(&output), &wishes, &tolerance);
        Some(choice.map_err(|error| vec![wish_error(&names, &error)])?)
    };
    let (matrices, states, inputs) = in_chosen(&form, choice.as_ref());
    let moved = choice.as_ref().map_or_else(Vec::new, |choice| {
        let moved = |positions: &[usize], is_state| {
            positions.iter().map(|&at| Moved { name: names[at].to_owned(), is_state }).collect::<Vec<_>>()
        };
        [moved(&choice.moved_to_inputs, false), moved(&choice.moved_to_states, true)].concat()
    });
    if choice.as_ref().is_some_and(|choice| choice.needs_input_derivatives) {
        let finding = Finding::warning(
            "input-derivatives",
            Span::NONE,
            "with this choice of inputs their derivatives enter the differential equations",
        )
        .with_help("leave the choice to daesy, or choose inputs that are not differentiated");
        diagnostics.push(resolve(&finding));
    }
    let feedthrough = match (&choice, options.remove_feedthrough) {
        (Some(choice), true) => Some(without_feedthrough(&matrices, choice, &outputs, &tolerance)?),
        _ => None,
    };
    let feedback = if options.feedback { Some(feedback(&model, &form, &tolerance)?) } else { None };
    let forcing = Forcing::new(flat, &model, &form);
    let text = Writer { names: &names, states: &states, inputs: &inputs, forcing: &forcing };
    let smallest_gap = form.rank_decisions.iter().map(|decision| decision.gap).fold(f64::INFINITY, f64::min);
    Ok(LinearForm {
        model: flat.model.clone(),
        kind: model.kind,
        time,
        mu: form.mu,
        d: form.d,
        a: form.a,
        v: form.v,
        differential: (0..form.d).map(|row| text.differential(&matrices, row)).collect(),
        algebraic: (0..form.a).map(|row| text.algebraic(&matrices, row)).collect(),
        outputs: outputs.iter().map(|output| output_text(&model, output)).collect(),
        computed: model.computed.iter().map(|computed| computed.equation.clone()).collect(),
        matrices,
        states: states.iter().map(|&at| names[at].to_owned()).collect(),
        inputs: inputs.iter().map(|&at| names[at].to_owned()).collect(),
        moved,
        feedthrough,
        feedback,
        smallest_gap,
        diagnostics,
    })
}

fn feedback(
    model: &LinearModel,
    form: &StrangenessFree,
    tolerance: &RankTolerance,
) -> Result<FeedbackLaw, Vec<Diagnostic>> {
    let law = regularizing_feedback(form, tolerance).map_err(|error| {
        vec![Diagnostic::error("no-feedback", error.to_string()).with_help(
            "without --feedback, daesy chooses the states and inputs anew, which makes every such system regular",
        )]
    })?;
    let text = feedback_text(model, &law.k);
    Ok(FeedbackLaw { k: law.k, law: text, n_repaired: law.n_repaired })
}

fn strangeness_options(model: &LinearModel, options: &RegularizeOptions) -> StrangenessOptions {
    StrangenessOptions {
        inputs: if options.given_inputs { InputRole::Given } else { InputRole::Behaviour },
        // Contradictions are looked at below, where the equations have names.
        redundant: RedundantEquations::Remove,
        max_differentiations: model.n_variables().clamp(8, 20),
        readable: true,
        ..StrangenessOptions::default()
    }
}

/// A failed question about matrices in the words of the model.
pub(crate) fn explain(model: &LinearModel, error: &PencilError) -> Finding {
    let (code, help) = match error {
        PencilError::NotFinite { .. } => (
            "not-finite",
            "an entry of this matrix has no finite value; look at the parameters in it, or choose another --time",
        ),
        PencilError::NotSettled { .. } => (
            "not-settled",
            "the rank of some coefficient changes at this time; choose another --time, or look at each side of it",
        ),
        _ => ("linear-model", "look at the equations that are named"),
    };
    let mut finding = Finding::error(code, Span::NONE, error.to_string()).with_help(help);
    if let PencilError::NotFinite { matrix, row, col, .. } = error {
        let names = if *matrix == "G" { model.inputs.clone() } else { own(&model.variable_names()) };
        finding.names.extend(names.get(col - 1).cloned());
        if let Some(equation) = model.equations.get(row - 1) {
            finding = finding.with_label(equation.span, equation.text.clone());
        }
    }
    finding
}

fn own(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Times beside the one that was asked for, at which forcing and inputs are looked at too: what cancels at one time
/// need not at others.
const OTHER_TIMES: [f64; 3] = [0.0, 0.3719, 1.137];

/// Into how many parts the run is divided to look at forcing and inputs: they may break.
const PARTS: u32 = 13;

/// By how much redundant equations contradict each other, relative to their terms, at the worst of several times.
fn contradiction(
    loaded: &Loaded,
    model: &LinearModel,
    form: &StrangenessFree,
    options: &RegularizeOptions,
    time: f64,
) -> f64 {
    if form.v == 0 {
        return 0.0;
    }
    let at = |offset: f64| {
        let time = time + offset;
        let inputs = if options.given_inputs { given_inputs(loaded, model, time, form.mu) } else { Vec::new() };
        let there = strangeness_free(model, time, &strangeness_options(model, options)).ok()?;
        (there.v > 0).then(|| there.contradiction_with(&inputs))
    };
    let span = study_stop_time(loaded, time) - time;
    let parts = (1..=PARTS).map(|part| span * f64::from(part) / f64::from(PARTS));
    OTHER_TIMES.into_iter().chain(parts).filter_map(at).fold(0.0, f64::max)
}

/// The inputs of the study and their derivatives at a time; `None` if one has no value.
fn given_inputs(loaded: &Loaded, model: &LinearModel, time: f64, n_derivatives: usize) -> Vec<Vec<f64>> {
    let Some(start) = start_point(loaded, time) else { return Vec::new() };
    let vars: Option<Vec<VarId>> = model.inputs.iter().map(|name| loaded.flat.find(name)).collect();
    let Some(vars) = vars else { return Vec::new() };
    (0..=n_derivatives).map(|k| vars.iter().map(|&var| start.point.derivative(var, k)).collect()).collect()
}

/// The note that ranks differ just beside the time.
fn changing_ranks(
    model: &LinearModel,
    form: &StrangenessFree,
    options: &RegularizeOptions,
    time: f64,
) -> Option<Finding> {
    if model.kind == LinearKind::Constant {
        return None;
    }
    let step = 7.31e-4 * time.abs().max(1.0);
    [time + step, time - step].into_iter().find_map(|beside| {
        let other = strangeness_free(model, beside, &strangeness_options(model, options)).ok()?;
        if (other.mu, other.d, other.a, other.v) == (form.mu, form.d, form.a, form.v) {
            return None;
        }
        let message = format!(
            "ranks change near t = {time}: beside it, at t = {beside}, there are {} differential and {} algebraic equations with \
             strangeness index {}, so that the form given here holds at t = {time} alone",
            other.d, other.a, other.mu
        );
        let help = "choose another --time for the form that holds around it";
        Some(Finding::warning("ranks-change", Span::NONE, message).with_help(help))
    })
}

/// An output that depends nonlinearly on the states, and on an input.
fn nonlinear_feedthrough(loaded: &Loaded, model: &LinearModel) -> Option<Finding> {
    let flat = &loaded.flat;
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    model.computed.iter().find_map(|computed| {
        let var = flat.find(&computed.name).filter(|var| flat.variables[var.index()].is_output)?;
        flat.equations.iter().find_map(|equation| {
            reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
            let is_input = |var: VarId| flat.variables[var.index()].kind == VariableKind::Input;
            let has = |is_meant: &dyn Fn(VarId) -> bool| {
                leaves.iter().find_map(|leaf| match *leaf {
                    Leaf::Var { var, .. } if is_meant(var) => Some(var),
                    _ => None,
                })
            };
            has(&|found| found == var)?;
            let input = &flat.variables[has(&is_input)?.index()].name;
            let message = format!(
                "the input `{input}` feeds through to the output `{}`, which is nonlinear: {}",
                computed.name,
                flat.equation_text(equation)
            );
            let help =
                "--remove-feedthrough makes states of linear outputs; write the linear part as an output of its own";
            let names = [computed.name.as_str(), input.as_str()];
            Some(Finding::error("feedthrough", equation.span, message).with_names(names).with_help(help))
        })
    })
}

/// The forcing of each equation of a form with constant coefficients as a text, where it depends on time.
struct Forcing {
    differential: Vec<Option<String>>,
    algebraic: Vec<Option<String>>,
}

impl Forcing {
    fn new(flat: &FlatDae, model: &LinearModel, form: &StrangenessFree) -> Self {
        if model.kind != LinearKind::Constant {
            return Self { differential: vec![None; form.d], algebraic: vec![None; form.a] };
        }
        let mut flat = flat.clone();
        let derivatives = model.forcing_expressions(&mut flat.graph, form.mu);
        let own = std::slice::from_ref(&form.differential_multipliers);
        let mut texts = |levels: &[Mat<f64>], n: usize| -> Vec<Option<String>> {
            (0..n).map(|row| forcing_text(&mut flat, &derivatives, levels, row)).collect()
        };
        Self { differential: texts(own, form.d), algebraic: texts(&form.algebraic_multipliers, form.a) }
    }
}

/// `sum over k of multipliers[k] f^(k)` for a row, as a text; None if it does not depend on time.
fn forcing_text(
    flat: &mut FlatDae,
    derivatives: &[Vec<ExprId>],
    multipliers: &[Mat<f64>],
    row: usize,
) -> Option<String> {
    let largest =
        multipliers.iter().map(|level| (0..level.ncols()).fold(0.0f64, |size, at| size.max(level[(row, at)].abs())));
    let largest = largest.fold(0.0, f64::max);
    let mut terms = Vec::new();
    let mut varies = false;
    for (order, level) in multipliers.iter().enumerate() {
        for (at, list) in derivatives.iter().enumerate() {
            let factor = level[(row, at)];
            let Some(&expr) = list.get(order).filter(|_| factor.abs() > DUST * largest) else { continue };
            let kinds = &flat.variables;
            let kind = Reach::new().coefficient_kind(&flat.graph, expr, &|var| kinds[var.index()].kind);
            varies |= kind > CoefficientKind::Parameter;
            let nearest = factor.round();
            let factor = if (factor - nearest).abs() <= DUST * nearest.abs() { nearest } else { factor };
            let factor = flat.graph.number(factor);
            terms.push(flat.graph.mul(factor, expr));
        }
    }
    let sum = flat.graph.sum(&terms);
    varies.then(|| flat.text(sum))
}

/// What is to be said about redundant equations.
fn redundancy(
    model: &LinearModel,
    form: &StrangenessFree,
    contradiction: f64,
    options: &RegularizeOptions,
) -> Option<Finding> {
    if form.v == 0 {
        return None;
    }
    let first = form.redundant_equations.first().map_or(Span::NONE, |&at| model.equations[at].span);
    let texts: Vec<&str> = form.redundant_equations.iter().map(|&at| model.equations[at].text.as_str()).collect();
    let listed = enumerate(&texts, 8);
    let n = form.v;
    let is_contradiction = contradiction > StrangenessOptions::default().contradiction;
    let mut finding = if !is_contradiction {
        let message = format!("{n} of these equations can be left out, since they follow from each other: {listed}");
        Finding::note("redundant-equations", first, message)
    } else if options.drop_redundant {
        let message = format!("contradicting equations were left out: {n} of {listed}");
        Finding::warning("contradicting-equations", first, message)
    } else {
        let message = format!("these equations contradict each other: {listed}");
        Finding::error("contradicting-equations", first, message)
            .with_help("correct one of them, or leave the redundant ones out with --drop-redundant")
    };
    for &at in form.redundant_equations.iter().take(8) {
        finding = finding.with_label(model.equations[at].span, model.equations[at].text.clone());
    }
    Some(finding.with_names(texts))
}

/// Where names stand among variables and inputs.
pub(crate) fn positions(names: &[&str], wanted: &[String]) -> Result<Vec<usize>, Diagnostic> {
    wanted
        .iter()
        .map(|name| {
            names.iter().position(|known| known == name).ok_or_else(|| {
                let mut diagnostic =
                    Diagnostic::error("unknown-name", format!("the model has no variable or input `{name}`"));
                diagnostic.names = vec![name.clone()];
                diagnostic.help = nearest(name, names.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                diagnostic
            })
        })
        .collect()
}

pub(crate) fn wish_error(names: &[&str], error: &PencilError) -> Diagnostic {
    match error {
        PencilError::BadOption { value, expected, .. } => {
            let name = names.get(*value as usize).copied().unwrap_or_default();
            let mut diagnostic = Diagnostic::error("wish", format!("`{name}` cannot have the role asked for"))
                .with_help(format!("possible are {expected}"));
            diagnostic.names = vec![name.to_owned()];
            diagnostic
        }
        PencilError::WishesImpossible { missing } => Diagnostic::error(
            "wish",
            format!("with the inputs asked for, {missing} more variables are needed as states than are left"),
        )
        .with_help("ask for fewer inputs with --input"),
        other => Diagnostic::error("wish", other.to_string()),
    }
}

fn output_equation(model: &LinearModel, outputs: &[SeparateOutput]) -> OutputEquation {
    OutputEquation {
        c: Mat::from_fn(outputs.len(), model.n_variables(), |row, column| outputs[row].c[column]),
        d: Mat::from_fn(outputs.len(), model.inputs.len(), |row, column| outputs[row].d[column]),
        g: outputs.iter().map(|output| output.g).collect(),
    }
}

fn without_feedthrough(
    matrices: &Matrices,
    choice: &Reinterpretation,
    outputs: &[SeparateOutput],
    tolerance: &RankTolerance,
) -> Result<Feedthrough, Vec<Diagnostic>> {
    let Some(output) = &choice.output else {
        return Err(vec![Diagnostic::error("no-outputs", "the model has no outputs")]);
    };
    let (d, n) = (matrices.e1.nrows(), matrices.e1.ncols());
    let rows = d + matrices.a2.nrows();
    let stack = |upper: Option<&Mat<f64>>, lower: Option<&Mat<f64>>, columns: usize| {
        Mat::from_fn(rows, columns, |row, column| {
            let part = if row < d {
                upper.map(|upper| upper[(row, column)])
            } else {
                lower.map(|lower| lower[(row - d, column)])
            };
            part.unwrap_or(0.0)
        })
    };
    let e = stack(Some(&matrices.e1), None, n);
    let a = stack(Some(&matrices.a1), Some(&matrices.a2), n);
    let b = stack(Some(&matrices.b1), Some(&matrices.b2), matrices.b1.ncols());
    let f: Vec<f64> = matrices.f1.iter().chain(&matrices.f2).copied().collect();
    let rates = matrices.input_rates.as_ref().map(|rates| stack(Some(rates), None, rates.ncols()));
    let free = remove_feedthrough(&e, &a, &b, &f, output, tolerance)
        .map_err(|error| vec![Diagnostic::error("feedthrough", error.to_string())])?;
    let names: Vec<String> = outputs.iter().map(|output| output.name.clone()).collect();
    let added = (0..free.n_added)
        .map(|row| {
            let terms: Vec<Term> = (0..names.len())
                .map(|at| Term { factor: free.added_outputs[(row, at)], name: names[at].clone() })
                .filter(|term| term.factor.abs() > DUST)
                .collect();
            combination_text(&terms)
        })
        .collect();
    let input_rates = rates.map(|rates| {
        let known = |row: usize, column: usize| if row < rates.nrows() { rates[(row, column)] } else { 0.0 };
        Mat::from_fn(rates.nrows() + free.n_added, rates.ncols(), known)
    });
    let FeedthroughFree { e, a, b, f, c, g, .. } = free;
    Ok(Feedthrough { added, e, a, b, f, c, g, outputs: names, input_rates })
}

fn derivative_name(name: &str, order: usize) -> String {
    (0..order).fold(name.to_owned(), |name, _| format!("der({name})"))
}

fn output_text(model: &LinearModel, output: &SeparateOutput) -> String {
    let names = model.variables.iter().map(|variable| &variable.name).chain(&model.inputs);
    let factors = output.c.iter().chain(&output.d);
    let mut terms: Vec<Term> = names.zip(factors).map(|(name, &factor)| Term { factor, name: name.clone() }).collect();
    terms.push(Term { factor: output.g, name: String::new() });
    format!("{} = {}", output.name, combination_text(&terms))
}

fn feedback_text(model: &LinearModel, k: &Mat<f64>) -> Vec<String> {
    (0..k.nrows())
        .map(|row| {
            let largest = (0..k.ncols()).fold(0.0f64, |size, at| size.max(k[(row, at)].abs()));
            let terms: Vec<Term> = (0..k.ncols())
                .filter(|&at| k[(row, at)].abs() > DUST * largest)
                .map(|at| Term { factor: k[(row, at)], name: model.variables[at].name.clone() })
                .collect();
            format!("{} = {} + w{}", model.inputs[row], combination_text(&terms), row + 1)
        })
        .collect()
}

/// Writes equations in the user's names.
struct Writer<'a> {
    names: &'a [&'a str],
    states: &'a [usize],
    inputs: &'a [usize],
    forcing: &'a Forcing,
}

/// A sum with the forcing at its end: a number, or a text where it depends on time.
fn with_forcing(mut terms: Vec<Term>, number: f64, text: Option<&String>) -> String {
    let Some(text) = text else {
        terms.push(Term { factor: number, name: String::new() });
        return combination_text(&terms);
    };
    match terms.iter().all(|term| term.factor == 0.0) {
        true => text.clone(),
        false => match text.strip_prefix('-') {
            Some(rest) if !rest.contains(['+', '-']) => format!("{} - {rest}", combination_text(&terms)),
            _ => format!("{} + {text}", combination_text(&terms)),
        },
    }
}

impl Writer<'_> {
    fn terms(&self, matrix: &Mat<f64>, row: usize, positions: &[usize], order: usize, terms: &mut Vec<Term>) {
        for (column, &position) in positions.iter().enumerate() {
            let name = derivative_name(self.names[position], order);
            terms.push(Term { factor: matrix[(row, column)], name });
        }
    }

    fn differential(&self, matrices: &Matrices, row: usize) -> String {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.terms(&matrices.e1, row, self.states, 1, &mut left);
        if let Some(rates) = &matrices.input_rates {
            self.terms(rates, row, self.inputs, 1, &mut left);
        }
        self.terms(&matrices.a1, row, self.states, 0, &mut right);
        self.terms(&matrices.b1, row, self.inputs, 0, &mut right);
        let right = with_forcing(right, matrices.f1[row], self.forcing.differential[row].as_ref());
        format!("{} = {right}", combination_text(&left))
    }

    fn algebraic(&self, matrices: &Matrices, row: usize) -> String {
        let mut terms = Vec::new();
        self.terms(&matrices.a2, row, self.states, 0, &mut terms);
        self.terms(&matrices.b2, row, self.inputs, 0, &mut terms);
        for (order, matrix) in matrices.b2_derivatives.iter().enumerate() {
            self.terms(matrix, row, self.inputs, order + 1, &mut terms);
        }
        format!("0 = {}", with_forcing(terms, matrices.f2[row], self.forcing.algebraic[row].as_ref()))
    }
}
