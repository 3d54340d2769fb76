//! The road: from what a user wrote to a compiled system at a consistent start. Every verb goes it.
//!
//! ```text
//! FlatDae -straighten-> FlatDae -regularize | condense-> RegularDae -compile-> CompiledSystem, with parameters and inputs
//! ```
//!
//! [`prepare`] is its one door; a [`Purpose`] says what the system is for.

use std::sync::Arc;

use daesy_compile::{CompileError, CompiledSystem, compile, compile_with_events};
use daesy_graph::finding::Finding;
use daesy_graph::flat::FlatDae;
use daesy_graph::foreign::Remembered;
use daesy_graph::regular::RegularDae;
use daesy_graph::{Environment, Evaluator, Graph, Leaf, SourceMap, Span, VarId};
use daesy_integrate::{
    HybridStart, InitializeOptions, Inputs, IntegrateError, counting_wishes, initialize_with_events,
};
use daesy_structure::linearize::parameter_values;
use daesy_structure::{RegularizeError, condense, regularize};
use daesy_system::{DaeSystem, GivenParameter, ParameterError, Part, Point, Watch};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::inputs::{ParameterValues, StudyInputs};
use crate::load::{Loaded, quantity_expression};
use crate::misled::{Solvable, make_solvable};
use crate::no_trajectory::NoTrajectory;
use crate::study::Quantity;

/// Starts that are this far from where the search for them began are refused, unless what is beside the start that was
/// written bears structure out.
pub(crate) const LOST: f64 = 1e12;

/// Whether a verb can do without the study's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataUse {
    /// The data must be there.
    Needed,
    /// Data that is not there is left out; inputs that come from it rest at their start values.
    Optional,
}

/// How relations of the model are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relations {
    /// Held between events, with all that happens at events: one trajectory.
    Held,
    /// Evaluated wherever they stand: many trajectories side by side.
    Evaluated,
}

/// Which equations are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Those that were written, whatever they lead to: what a verdict about the model speaks of.
    Written,
    /// Those that were written, or others with the same solutions where structure misleads.
    Solvable,
}

/// What a compiled system is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purpose {
    /// Which equations.
    pub form: Form,
    /// How relations are treated.
    pub relations: Relations,
    /// Whether data must be there.
    pub data: DataUse,
    /// Whether whoever asks writes the past that `delay` reads, or needs none of it.
    pub keeps_past: bool,
    /// Which parameters may change after the model was prepared.
    pub changing: Changing,
}

/// Parameters that may change after a model was prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changing {
    /// None: it is prepared again.
    Nothing,
    /// Those that the study varies.
    Varied,
    /// All, as those of an exported model.
    All,
}

impl Purpose {
    /// A verdict about the model as it was written.
    pub const VERDICT: Self = Self {
        form: Form::Written,
        relations: Relations::Held,
        data: DataUse::Optional,
        keeps_past: true,
        changing: Changing::Nothing,
    };
    /// A simulation.
    pub const SIMULATION: Self = Self { keeps_past: true, ..Self::TRAJECTORY };
    /// One trajectory at a time.
    pub const TRAJECTORY: Self = Self {
        form: Form::Solvable,
        relations: Relations::Held,
        data: DataUse::Needed,
        keeps_past: false,
        changing: Changing::Nothing,
    };
    /// Many trajectories side by side.
    pub const LANES: Self = Self { relations: Relations::Evaluated, ..Self::TRAJECTORY };
}

/// A model that can be evaluated.
pub struct Prepared {
    /// The compiled model.
    pub system: CompiledSystem,
    /// Parameter values.
    pub parameters: Vec<f64>,
    /// Inputs over time.
    pub inputs: StudyInputs,
    /// The first experiment's data, where the study has some.
    pub data: Option<Arc<Data>>,
    /// What was rewritten because structure misleads.
    pub rewritten: Vec<Finding>,
    /// Parameters whose values were put into equations because the structure depends on them.
    pub decisive: Vec<VarId>,
    /// Where simulations begin, unless they are told otherwise.
    pub start_time: f64,
    /// Stops the search for a start.
    pub watch: Watch,
}

/// The refusal of a model that reads the past of a signal, by those that have none.
#[must_use]
pub fn past_needed(loaded: &Loaded) -> Option<Diagnostic> {
    let units = loaded.flat.graph.histories();
    let (what, help) = match units.first()?.remembered()? {
        Remembered::History(_) => (
            "`delay` of a signal that varies continuously",
            "simulate the model, or replace the delay, for instance by a chain of first-order lags",
        ),
        Remembered::Transport(_) => {
            ("`spatialDistribution`", "simulate the model, or replace the pipe, for instance by a chain of volumes")
        }
    };
    let message =
        format!("{what} needs the past of a trajectory, which only `simulate`, and `uq` by separate runs, keep");
    Some(Diagnostic::error("past-needed", message).with_help(help))
}

/// Takes a model to a compiled system.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn prepare(loaded: &Loaded, purpose: Purpose) -> Result<Prepared, Failure> {
    if !purpose.keeps_past
        && let Some(refusal) = past_needed(loaded)
    {
        return Err(Failure::Input(vec![refusal]));
    }
    let is_asked = purpose.data == DataUse::Needed && loaded.n_experiments() > 0;
    let data = if is_asked || loaded.has_data() { Some(Arc::new(loaded.experiment(0)?)) } else { None };
    let road = Road { loaded, purpose, data };
    match purpose.form {
        Form::Written => road.compiled(&loaded.flat),
        Form::Solvable => {
            let Solvable { prepared, findings } = make_solvable(&road)?;
            let prepared = Prepared { rewritten: findings, ..prepared };
            if !loaded.flat.graph.calls_foreign() {
                return Ok(prepared);
            }
            // What a unit only shows is read where it is shown, not at every evaluation of its equations.
            let condensed = prepared.condensed(loaded, purpose)?;
            Ok(condensed.unwrap_or(prepared))
        }
    }
}

/// A way from a flat model on.
pub(crate) struct Road<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) purpose: Purpose,
    pub(crate) data: Option<Arc<Data>>,
}

impl Road<'_> {
    /// Regularizes and compiles equations.
    pub(crate) fn compiled(&self, flat: &FlatDae) -> Result<Prepared, Failure> {
        let regular: RegularDae = regularize(flat.clone()).map_err(|error| unregular(flat, &error))?;
        self.with_inputs(self.compile(regular).map_err(|error| uncompiled(flat, &error))?)
    }

    fn compile(&self, regular: RegularDae) -> Result<CompiledSystem, CompileError> {
        match self.purpose.relations {
            Relations::Held => compile_with_events(regular),
            Relations::Evaluated => compile(regular),
        }
    }

    fn with_inputs(&self, system: CompiledSystem) -> Result<Prepared, Failure> {
        let parameters =
            system.parameter_values(&[]).map_err(|error| vec![parameter_diagnostic(&self.loaded.flat, &error)])?;
        let inputs = self.inputs(&system, &parameters)?;
        Ok(Prepared {
            start_time: start_time(self.loaded, self.data.as_deref()),
            watch: self.loaded.watch.clone(),
            system,
            parameters,
            inputs,
            data: self.data.clone(),
            rewritten: Vec::new(),
            decisive: Vec::new(),
        })
    }

    fn inputs(&self, system: &CompiledSystem, parameters: &[f64]) -> Result<StudyInputs, Failure> {
        let values = ParameterValues { variables: &system.regular().parameters, values: parameters };
        let data = self.data.as_deref();
        Ok(StudyInputs::new(self.loaded, system.description(), &values, data, self.purpose.data)?)
    }
}

impl Prepared {
    /// The same with definitions put in (`daesy_structure::condense`) where nothing asks for the variables they define:
    /// where states cross discontinuities by balances of the equations, all of these are needed as they were written.
    /// None if there is nothing to gain.
    ///
    /// # Errors
    /// Diagnostics in the model's words.
    pub fn condensed(&self, loaded: &Loaded, purpose: Purpose) -> Result<Option<Self>, Failure> {
        let description = self.system.description();
        let is_plain =
            description.constraints.is_empty() && description.inputs.iter().all(|input| input.derivatives_needed == 0);
        let is_undisturbed = self.inputs.breaks().is_empty() && !description.events.can_happen();
        if !self.inputs.impulses().is_empty() || !(is_plain || is_undisturbed) {
            return Ok(None);
        }
        let Ok(regular) = condense(self.system.regular().flat.clone()) else { return Ok(None) };
        if regular.eliminated.len() == self.system.regular().eliminated.len() {
            return Ok(None);
        }
        let road = Road { loaded, purpose, data: self.data.clone() };
        let Ok(system) = road.compile(regular) else { return Ok(None) };
        road.with_inputs(system).map(|prepared| {
            Some(Self { rewritten: self.rewritten.clone(), decisive: self.decisive.clone(), ..prepared })
        })
    }

    /// Parameters at other values of some of them; those that depend on these follow.
    ///
    /// # Errors
    /// Diagnostics in the model's words.
    pub fn parameters_at(&self, given: &[(VarId, f64)]) -> Result<Vec<f64>, Failure> {
        let known = &self.system.regular().parameters;
        let given: Vec<GivenParameter> = given
            .iter()
            .filter_map(|&(var, value)| {
                let parameter = known.iter().position(|&one| one == var)? as u32;
                Some(GivenParameter { parameter, value })
            })
            .collect();
        let values = self.system.parameter_values(&given);
        let values = values.map_err(|error| vec![parameter_diagnostic(&self.system.regular().flat, &error)])?;
        self.check_decisive(&values)?;
        Ok(values)
    }

    /// Refuses other values of parameters on which the structure depends.
    fn check_decisive(&self, values: &[f64]) -> Result<(), Failure> {
        let regular = self.system.regular();
        let is_changed = |at: usize| values[at].to_bits() != self.parameters[at].to_bits();
        let changed = (0..values.len()).find(|&at| is_changed(at) && self.decisive.contains(&regular.parameters[at]));
        let Some(at) = changed else { return Ok(()) };
        let variable = &regular.flat.variables[regular.parameters[at].index()];
        let message = format!(
            "the structure of the equations depends on the value of `{}`, which was put into them as {}; it cannot become {}",
            variable.name, self.parameters[at], values[at]
        );
        let finding = Finding::error("decisive-parameter", variable.span, message)
            .with_help(
                "give the parameter its value in the model, by `[parameters]` or by `--set`, one run for each value",
            )
            .with_names([variable.name.as_str()]);
        Err(vec![Diagnostic::resolve(&finding, &regular.flat.sources)].into())
    }

    /// Takes data and inputs from another experiment of the study, counted from 0.
    ///
    /// # Errors
    /// When its data cannot be read.
    pub fn use_experiment(&mut self, loaded: &Loaded, at: usize) -> Result<(), Failure> {
        let data = Some(Arc::new(loaded.experiment(at)?));
        let road = Road { loaded, purpose: Purpose::TRAJECTORY, data };
        self.inputs = road.inputs(&self.system, &self.parameters)?;
        self.data = road.data;
        Ok(())
    }

    /// Inputs at other values of the parameters.
    ///
    /// # Errors
    /// Diagnostics in the model's words.
    pub fn inputs_at(&self, loaded: &Loaded, parameters: &[f64]) -> Result<StudyInputs, Failure> {
        let road = Road { loaded, purpose: Purpose::TRAJECTORY, data: self.data.clone() };
        road.inputs(&self.system, parameters)
    }
}

pub(crate) fn unregular(flat: &FlatDae, error: &RegularizeError) -> Vec<Diagnostic> {
    match error {
        RegularizeError::Singular { findings, .. } => {
            findings.iter().map(|finding| Diagnostic::resolve(finding, &flat.sources)).collect()
        }
        other => vec![Diagnostic::error("structure", other.to_string())],
    }
}

fn uncompiled(flat: &FlatDae, error: &CompileError) -> Vec<Diagnostic> {
    let named = |code: &str, name: &String, place: &String, help: &str| {
        let mut diagnostic = Diagnostic::error(code, error.to_string()).with_help(help);
        diagnostic.names = vec![name.clone()];
        vec![diagnostic.at_place(place)]
    };
    match error {
        CompileError::Parameter(error) => vec![parameter_diagnostic(flat, error)],
        CompileError::NotAState { name, place } => named(
            "not-a-state",
            name,
            place,
            "only variables whose derivative appears in the model can be given new values",
        ),
        CompileError::GivenTwice { name, place } => {
            named("initial-equations", name, place, "take one of them back: they need not agree")
        }
        other => vec![Diagnostic::error("compile", other.to_string())],
    }
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
        self.start_with(time, &InitializeOptions::watched(&self.watch))
    }

    /// The same where all residuals must vanish: what creeps towards a start may have none.
    ///
    /// # Errors
    /// What the search says.
    pub(crate) fn strict_start(&self, time: f64) -> Result<HybridStart, IntegrateError> {
        self.start_with(time, &InitializeOptions { slack: 1.0, ..InitializeOptions::watched(&self.watch) })
    }

    /// The same, to rounding errors where the search gets there.
    ///
    /// # Errors
    /// What the search says.
    pub(crate) fn sharp_start(&self, time: f64) -> Result<HybridStart, IntegrateError> {
        let options = InitializeOptions { tolerance: 1e-14, slack: 1e4, ..InitializeOptions::watched(&self.watch) };
        self.start_with(time, &options)
    }

    /// The variable that is farthest from where the search for a start began, with its value, if it is more than
    /// `distance` times the value there, or the nominal value, away. Newton's method may have run off along equations that
    /// only rounding satisfies there: what is regular at such a point says nothing about the model. What equations
    /// determine linearly, such as a flux over a current of nearly zero, may be as large as it likes; so may a state that
    /// enters all equations linearly, such as an energy in J, up to 1e12.
    #[must_use]
    pub fn ran_off(&self, start: &HybridStart, distance: f64) -> Option<(&str, f64)> {
        let (regular, description) = (self.system.regular(), self.system.description());
        let mut is_searched = vec![false; regular.unknowns.len()];
        for block in regular.blocks.iter().filter(|block| !block.is_linear) {
            is_searched[block.start as usize..][..block.len as usize].fill(true);
        }
        let all = vec![true; regular.states.len()].into_iter().chain(is_searched);
        let derivatives = regular.states.iter().chain(&regular.unknowns);
        let quantities = description.states.iter().chain(&description.unknowns);
        let values = start.initialized.states.iter().chain(&start.initialized.unknowns);
        let mut far = Vec::new();
        for (((derivative, quantity), &value), is_searched) in derivatives.zip(quantities).zip(values).zip(all) {
            let off = (value - quantity.start).abs() / quantity.start.abs().max(quantity.nominal);
            if is_searched && derivative.order == 0 && off > distance {
                far.push((off, derivative.var, quantity.name.as_str(), value));
            }
        }
        far.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut graph = (!far.is_empty()).then(|| regular.flat.graph.clone())?;
        let mut enters_linearly = |var: VarId| {
            let initial = regular.flat.initial_equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]);
            let all = regular.equations.iter().chain(&regular.constraints).map(|equation| equation.residual);
            all.chain(initial).all(|expr| graph.linear_coefficients(expr, &[Leaf::der(var, 0)]).is_ok())
        };
        let farthest = far.into_iter().find(|&(off, var, _, _)| off > LOST || !enters_linearly(var));
        let (_, _, name, value) = farthest?;
        Some((name, value))
    }

    fn start_with(&self, time: f64, options: &InitializeOptions) -> Result<HybridStart, IntegrateError> {
        let description = self.system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        initialize_with_events(&self.system, time, &self.parameters, &inputs, options)
    }

    /// The names of the start values that count at the start of simulations; `None` if there is no start, or too much
    /// hangs together to tell.
    #[must_use]
    pub fn counting_starts(&self, time: f64) -> Option<FxHashSet<String>> {
        let start = self.start(time).ok()?;
        let description = self.system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        let options = InitializeOptions::watched(&self.watch);
        let counts = counting_wishes(&self.system, time, &inputs, &start, &options)?;
        let names = description.start_conditions.iter().zip(counts).filter(|(_, counts)| *counts);
        Some(names.map(|(condition, _)| condition.name.clone()).collect())
    }

    /// All observed quantities at the start.
    #[must_use]
    pub fn observed(&self, time: f64, start: &HybridStart) -> Vec<f64> {
        let HybridStart { initialized: start, modes } = start;
        let description = self.system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        let point = Point {
            time,
            states: &start.states,
            unknowns: &start.unknowns,
            parameters: &start.parameters,
            inputs: &inputs,
            modes,
        };
        let mut row = vec![0.0; description.observed.len()];
        self.system.evaluator().evaluate(Part::Observed, &point, &mut row);
        row
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

impl Prepared {
    /// A failed integration with place and names.
    #[must_use]
    pub fn failure(&self, error: &IntegrateError) -> Failure {
        NoTrajectory { system: &self.system, start_time: self.start_time }.failure(error)
    }
}

/// The value of a number of the study, at values of the parameters of the flat model.
///
/// # Errors
/// Diagnostics with places in the study.
pub fn study_number(
    loaded: &Loaded,
    quantity: &Quantity,
    parameter: &dyn Fn(VarId) -> f64,
) -> Result<f64, Vec<Diagnostic>> {
    let mut graph = Graph::default();
    let expr = quantity_expression(&mut graph, &loaded.flat.variables, quantity).map_err(|findings| {
        let sources: &SourceMap = loaded.study.as_ref().map_or(&loaded.flat.sources, |study| &study.sources);
        findings.iter().map(|finding| Diagnostic::resolve(finding, sources)).collect::<Vec<_>>()
    })?;
    Ok(Evaluator::new().evaluate_one(&graph, expr, &|var: VarId, _: u16| parameter(var)))
}

impl Prepared {
    /// The value of a number of the study.
    ///
    /// # Errors
    /// Diagnostics with places in the study.
    pub fn study_number(&self, loaded: &Loaded, quantity: &Quantity) -> Result<f64, Vec<Diagnostic>> {
        let regular = self.system.regular();
        // What is known only when the start is has no value yet.
        let is_late =
            |var: VarId| regular.bound.contains(&var) || regular.flat.variables[var.index()].fixed == Some(false);
        let place = |var: VarId| regular.parameters.iter().position(|&one| one == var).filter(|_| !is_late(var));
        let value = |var| place(var).map_or(f64::NAN, |at| self.parameters[at]);
        study_number(loaded, quantity, &value)
    }
}

/// The time at which a study starts: what it says, the first time of its data, the model's `experiment`, or zero.
#[must_use]
pub fn start_time(loaded: &Loaded, data: Option<&Data>) -> f64 {
    let asked = loaded.study.as_ref().and_then(|study| study.simulate.start.as_ref());
    let asked = asked.and_then(|quantity| {
        let values = parameter_values(&loaded.flat).ok()?;
        study_number(loaded, quantity, &|var| values[var.index()]).ok()
    });
    let time = asked.or(data.map(|data| data.times[0])).or(loaded.flat.experiment.start).unwrap_or(0.0);
    if time.is_finite() { time } else { 0.0 }
}
