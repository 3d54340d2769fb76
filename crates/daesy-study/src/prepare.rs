//! From the flat model to a compiled system at a consistent start, the way every verb goes.

use daesy_compile::{CompileError, CompiledSystem, compile, compile_with_events};
use daesy_graph::finding::Finding;
use daesy_graph::flat::FlatDae;
use daesy_graph::regular::RegularDae;
use daesy_graph::{Environment, Span, VarId};
use daesy_integrate::{HybridStart, InitializeOptions, Inputs, IntegrateError, initialize_with_events};
use daesy_structure::words::enumerate;
use daesy_structure::{RegularizeError, condense, regularize};
use daesy_system::{DaeSystem, EventLabel, ParameterError};
use rustc_hash::FxHashMap;

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::inputs::{ParameterValues, StudyInputs};
use crate::load::{Loaded, quantity_expression};
use crate::study::{Quantity, QuantityValue};

/// A model that can be evaluated.
pub struct Prepared {
    /// The compiled model.
    pub system: CompiledSystem,
    /// Parameter values.
    pub parameters: Vec<f64>,
    /// Inputs over time.
    pub inputs: StudyInputs,
    /// The first experiment's data, where the study has some.
    pub data: Option<Data>,
}

/// Why a model could not be prepared.
pub struct Unprepared {
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl From<Vec<Diagnostic>> for Unprepared {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics }
    }
}

/// Whether a verb can do without the study's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataUse {
    /// The data must be there.
    Needed,
    /// Data that is not there is left out; inputs that come from it rest at their start values.
    Optional,
}

/// Regularizes and compiles a model, relations to be evaluated wherever they stand.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn prepare(loaded: &mut Loaded, data_use: DataUse) -> Result<Prepared, Unprepared> {
    let system = compile_flat(&loaded.flat, compile)?;
    prepare_system(loaded, system, data_use)
}

/// Regularizes and compiles a model with all that happens at events.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn prepare_with_events(loaded: &mut Loaded, data_use: DataUse) -> Result<Prepared, Unprepared> {
    let system = compile_flat(&loaded.flat, compile_with_events)?;
    prepare_system(loaded, system, data_use)
}

fn prepare_system(loaded: &mut Loaded, system: CompiledSystem, data_use: DataUse) -> Result<Prepared, Unprepared> {
    let parameters = system.parameter_values(&[]).map_err(|error| vec![parameter_diagnostic(&loaded.flat, &error)])?;
    let is_asked = data_use == DataUse::Needed && loaded.n_experiments() > 0;
    let data = if is_asked || loaded.has_data() { Some(loaded.experiment(0)?) } else { None };
    let regular = system.regular();
    let inputs = StudyInputs::new(
        loaded,
        system.description(),
        &ParameterValues { variables: &regular.parameters, values: &parameters },
        data.as_ref(),
        data_use,
    )?;
    Ok(Prepared { system, parameters, inputs, data })
}

/// Puts definitions in (`daesy_structure::condense`) where nothing asks for the variables they define: where states cross discontinuities by
/// balances of the equations, all of these are needed as they were written. Nothing where there is nothing to gain.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn condense_prepared(
    loaded: &mut Loaded,
    prepared: &Prepared,
    data_use: DataUse,
) -> Result<Option<Prepared>, Unprepared> {
    let description = prepared.system.description();
    let is_plain =
        description.constraints.is_empty() && description.inputs.iter().all(|input| input.derivatives_needed == 0);
    let is_undisturbed = prepared.inputs.breaks().is_empty() && !description.events.can_happen();
    if !prepared.inputs.impulses().is_empty() || !(is_plain || is_undisturbed) {
        return Ok(None);
    }
    let Ok(regular) = condense(loaded.flat.clone()) else { return Ok(None) };
    if regular.eliminated.len() == prepared.system.regular().eliminated.len() {
        return Ok(None);
    }
    match compile_with_events(regular) {
        Ok(system) => prepare_system(loaded, system, data_use).map(Some),
        Err(_) => Ok(None),
    }
}

fn compile_flat(
    flat: &FlatDae,
    compile: fn(RegularDae) -> Result<CompiledSystem, CompileError>,
) -> Result<CompiledSystem, Vec<Diagnostic>> {
    let sources = flat.sources.clone();
    let regular: RegularDae = regularize(flat.clone()).map_err(|error| match error {
        RegularizeError::Singular { findings, .. } => {
            findings.iter().map(|finding| Diagnostic::resolve(finding, &sources)).collect()
        }
        other => vec![Diagnostic::error("structure", other.to_string())],
    })?;
    compile(regular).map_err(|error| match error {
        CompileError::Parameter(error) => vec![parameter_diagnostic(flat, &error)],
        CompileError::NotAState { ref name, ref place } => {
            let mut diagnostic = Diagnostic::error("not-a-state", error.to_string())
                .with_help("only variables whose derivative appears in the model can be given new values");
            diagnostic.names = vec![name.clone()];
            vec![diagnostic.at_place(place)]
        }
        CompileError::GivenTwice { ref name, ref place } => {
            let mut diagnostic = Diagnostic::error("initial-equations", error.to_string())
                .with_help("take one of them back: they need not agree");
            diagnostic.names = vec![name.clone()];
            vec![diagnostic.at_place(place)]
        }
        other => vec![Diagnostic::error("compile", other.to_string())],
    })
}

/// Compiles a model for lanes, relations evaluated wherever they stand.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn compile_for_lanes(flat: &FlatDae) -> Result<CompiledSystem, Vec<Diagnostic>> {
    compile_flat(flat, compile)
}

/// A parameter without a value, at the place of its declaration.
pub(crate) fn parameter_diagnostic(flat: &FlatDae, error: &ParameterError) -> Diagnostic {
    let mut finding = Finding::error("parameter-value", Span::NONE, error.to_string())
        .with_help("look at the expression that gives its value: a division by zero, or a root of a negative number?");
    if let ParameterError::NotFinite { name, .. } = error
        && let Some(var) = flat.find(name)
    {
        finding.span = flat.variables[var.index()].span;
        finding = finding.with_names([name]);
    }
    Diagnostic::resolve(&finding, &flat.sources)
}

impl Prepared {
    /// Consistent start values at a time.
    ///
    /// # Errors
    /// What the search says.
    pub fn start(&self, time: f64) -> Result<HybridStart, IntegrateError> {
        let description = self.system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        initialize_with_events(&self.system, time, &self.parameters, &inputs, &InitializeOptions::default())
    }

    /// The values of all leaves at the start, for the reference evaluator.
    #[must_use]
    pub fn point(&self, time: f64, start: &HybridStart) -> NamedPoint {
        let HybridStart { initialized: start, modes } = start;
        let regular = self.system.regular();
        let description = self.system.description();
        let mut values = FxHashMap::default();
        let derivatives = regular.states.iter().chain(&regular.unknowns);
        for (derivative, &value) in derivatives.zip(start.states.iter().chain(&start.unknowns)) {
            values.insert((derivative.var, derivative.order), value);
        }
        for (&var, &value) in regular.parameters.iter().zip(&start.parameters) {
            values.insert((var, 0), value);
        }
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        for (input, place) in regular.inputs.iter().zip(&description.inputs) {
            for order in 0..=input.derivatives_needed {
                values.insert((input.var, order), inputs[place.start + usize::from(order)]);
            }
        }
        for (&var, &value) in regular.discrete.iter().zip(modes) {
            values.insert((var, 0), value);
        }
        NamedPoint { time, values }
    }
}

/// Values of leaves by variable and order.
pub struct NamedPoint {
    time: f64,
    values: FxHashMap<(VarId, u16), f64>,
}

impl Environment for NamedPoint {
    fn value(&self, var: VarId, order: u16) -> f64 {
        self.values.get(&(var, order)).copied().unwrap_or(0.0)
    }

    fn time(&self) -> f64 {
        self.time
    }
}

/// Who is to blame for a failed integration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// The model asks for what cannot be.
    Model,
    /// The numerical method gave up.
    Method,
}

/// A failed integration in words.
#[derive(Clone, PartialEq, Debug)]
pub struct IntegrationFailure {
    /// What happened, where, and what to do.
    pub diagnostic: Diagnostic,
    /// Whose fault it is.
    pub blame: Blame,
}

impl Prepared {
    /// A failed integration as a diagnostic with place and names.
    #[must_use]
    pub fn integration_failure(&self, error: &IntegrateError) -> IntegrationFailure {
        let mut blame = Blame::Method;
        let mut names = Vec::new();
        let definition = match error {
            IntegrateError::ObservedNotFinite { variable, .. } => self.definition_of(variable),
            _ => None,
        };
        let (code, place, help) = match error {
            IntegrateError::NoConsistentStart { place, .. } => {
                let help = if let Some(asked) = self.excess_of_start_conditions() {
                    blame = Blame::Model;
                    asked
                } else {
                    "check the start values that are `fixed = true` and the initial equations: together with the equations they may \
                     ask too much, or the search needs better guesses in `start`"
                        .to_owned()
                };
                ("no-consistent-start", place.as_str(), help)
            }
            IntegrateError::NotFinite { place, variable, .. } => {
                names.extend((!variable.is_empty()).then(|| variable.clone()));
                let help = "a division by zero, a root or logarithm of a negative number, or an overflow; give a `start` value at \
                            which the equation is defined";
                ("not-finite", place.as_str(), help.to_owned())
            }
            IntegrateError::ObservedNotFinite { variable, .. } => {
                names.push(variable.clone());
                let help = "a division by zero, a root or logarithm of a negative number, or an overflow";
                ("not-finite", definition.as_ref().map_or("", |definition| &definition.place), help.to_owned())
            }
            IntegrateError::StepTooSmall { variable, place, .. } => {
                names.push(variable.clone());
                let help = "the solution may have a singularity or a discontinuity here; look at the variables around this time, \
                            or loosen rtol";
                ("step-too-small", place.as_str(), help.to_owned())
            }
            IntegrateError::Singular { variable, .. } => {
                names.push(variable.clone());
                let help = "`daesy check` names equations that depend on each other at the start";
                ("singular-equations", "", help.to_owned())
            }
            IntegrateError::SingularMode { variable, place, .. } => {
                names.push(variable.clone());
                let help = "the equations of this branch do not determine all unknowns: either one is missing, or the branch has \
                            another index than the others (an ideal switch that cuts the current of a coil, or shorts a \
                            capacitor); give an open switch a small conductance and a closed one a small resistance";
                ("singular-mode", place.as_str(), help.to_owned())
            }
            IntegrateError::Unsettled { .. } => {
                blame = Blame::Model;
                let help = "relations and discrete variables that depend on each other need `pre`, or a hysteresis";
                ("event-unsettled", "", help.to_owned())
            }
            IntegrateError::Chattering { place, .. } => {
                let help = "no mixture of both sides of the relation stays where it changes, along which the solution could slide; use a \
                            hysteresis, a smooth transition, or an equation for the sliding motion";
                ("chattering", place.as_str(), help.to_owned())
            }
            IntegrateError::Accumulating { place, .. } => {
                let help = "infinitely many events happen in finite time; add a state of rest that begins when the motion has become \
                            small, or end the simulation before";
                ("accumulating-events", place.as_str(), help.to_owned())
            }
            IntegrateError::Assertion { place, .. } => {
                blame = Blame::Model;
                ("assertion", place.as_str(), "the model itself says that it does not hold here".to_owned())
            }
            IntegrateError::NoTransfer { .. } => {
                blame = Blame::Model;
                ("state-transfer", "", "make the inputs smooth, or let only one of them jump at a time".to_owned())
            }
            IntegrateError::TooManySteps { .. } => {
                ("too-many-steps", "", "shorten the time span, or loosen rtol".to_owned())
            }
            IntegrateError::Stopped { .. } => ("stopped", "", "run it again to go on from the start".to_owned()),
            _ => ("integration", "", "look at the variables around this time".to_owned()),
        };
        let mut message = error.to_string();
        if let Some(definition) = &definition {
            message = format!("{message}, where {}", definition.text);
        }
        let mut diagnostic = Diagnostic::error(code, message).with_help(help);
        diagnostic.names = names;
        diagnostic = diagnostic.at_place(place);
        IntegrationFailure { diagnostic, blame }
    }

    /// The equation that a variable which is no unknown any more was eliminated by.
    fn definition_of(&self, name: &str) -> Option<EventLabel> {
        let regular = self.system.regular();
        let flat = &regular.flat;
        let is_it =
            |eliminated: &&daesy_graph::regular::Eliminated| flat.variables[eliminated.var.index()].name == name;
        let equation = &flat.equations[regular.eliminated.iter().find(is_it)?.source as usize];
        let place = flat.sources.place(equation.span).map_or(String::new(), |place| place.to_string());
        Some(EventLabel { text: flat.equation_text(equation), place })
    }

    /// What to say when more is asked of the start than is free.
    fn excess_of_start_conditions(&self) -> Option<String> {
        let description = self.system.description();
        let n_asked = description.initial.len();
        let n_free = self.system.regular().verdict.degrees_of_freedom + description.free_parameters.len();
        if n_asked <= n_free {
            return None;
        }
        let asked: Vec<&str> = description.initial.iter().map(|label| label.text.as_str()).collect();
        Some(format!(
            "{n_asked} conditions are set for the start, but only {n_free} can be: take back `fixed = true` or an initial \
             equation among {}",
            enumerate(&asked, 12)
        ))
    }
}

/// The value of a number of the study.
///
/// # Errors
/// Diagnostics with places in the study.
pub fn study_number(loaded: &mut Loaded, prepared: &Prepared, quantity: &Quantity) -> Result<f64, Vec<Diagnostic>> {
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    let expr = quantity_expression(&mut loaded.flat, quantity).map_err(|findings| {
        findings.iter().map(|finding| Diagnostic::resolve(finding, &sources)).collect::<Vec<_>>()
    })?;
    let parameters = &prepared.system.regular().parameters;
    let environment = |var: VarId, _: u16| {
        parameters.iter().position(|&known| known == var).map_or(f64::NAN, |at| prepared.parameters[at])
    };
    Ok(daesy_graph::Evaluator::new().evaluate_one(&loaded.flat.graph, expr, &environment))
}

/// The time at which a simulation starts: what the study says, the first time of its data, the model's `experiment`, or zero.
#[must_use]
pub fn start_time(loaded: &mut Loaded, prepared: &Prepared) -> f64 {
    let asked = loaded.study.as_ref().and_then(|study| study.simulate.start.clone());
    let asked = asked.and_then(|quantity| study_number(loaded, prepared, &quantity).ok());
    let first = prepared.data.as_ref().map(|data| data.times[0]);
    let time = asked.or(first).or(loaded.flat.experiment.start).unwrap_or(0.0);
    if time.is_finite() { time } else { 0.0 }
}

/// The time at which a study or an `experiment` annotation starts, before anything is compiled.
#[must_use]
pub fn study_start_time(loaded: &Loaded) -> f64 {
    let asked = loaded.study.as_ref().and_then(|study| study.simulate.start.as_ref());
    match asked.map(|quantity| &quantity.value) {
        Some(QuantityValue::Number(start)) => *start,
        _ => loaded.flat.experiment.start.unwrap_or(0.0),
    }
}
