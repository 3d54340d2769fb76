//! The filter of a study as a unit: measurements and known inputs in, estimates and their standard deviations out.
//!
//! Samples are what importers set at communication points:
//!
//! ```text
//! at t_k     inputs and measurements are set     outputs: estimates, given all samples up to t_k
//! step       the sample at t_k counts            outputs: predictions for t_(k+1), its sample being unknown
//! ```
//!
//! so that who sets first and reads then, at every communication point, reads the table of `daesy estimate`. A sample
//! that was read but not stepped over may still be set anew. A measurement that is not a number is missing.

use std::rc::Rc;
use std::sync::Arc;

use daesy_estimate::online::Estimate;
use daesy_estimate::pem::PredictionProblem;
use daesy_graph::finding::Level;
use daesy_graph::flat::FlatDae;
use daesy_graph::stored::{flat_from_bytes, flat_to_bytes};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::live::{Live, LiveMark, LiveModel, LivePlan, LiveSample};
use daesy_study::load::Loaded;

use crate::model::{ModelError, Settings, token};
use crate::running::{InstanceError, Phase, Running, SAME_TIME, SavedState, StepDone};
use crate::variable::{AtStart, Causality, ExportedVariable, Origin};

/// The file in the resources that holds a filter.
pub const RESOURCE: &str = "observer.daesy";

/// First bytes of every stored filter, the last of them the version of the form.
const HEAD: &[u8; 8] = b"daesyo\0\x01";

/// The bytes of the resource that holds the filter of a study.
///
/// The study is kept as the text that it is, the model as it was loaded for it, and what a record decided as numbers. A
/// unit of another tool is kept as its file, with the values that were set in it.
#[must_use]
pub fn write_resource(loaded: &Loaded, plan: &LivePlan, settings: Settings, carried: Option<&CarriedUnit>) -> Vec<u8> {
    let mut bytes = HEAD.to_vec();
    let mut section = |part: &[u8]| {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    };
    let numbers = |values: &[f64]| -> Vec<u8> { values.iter().flat_map(|value| value.to_le_bytes()).collect() };
    section(&numbers(&settings.numbers()));
    let [theta, inputs, rest] = plan.numbers();
    section(&numbers(&theta));
    section(&numbers(&inputs));
    section(&numbers(&rest));
    let study = loaded.study.as_ref().and_then(|study| study.sources.files().first());
    section(study.map_or("", |file| file.text.as_str()).as_bytes());
    match carried {
        None => section(&flat_to_bytes(&loaded.flat)),
        Some(CarriedUnit { bytes, set }) => {
            let (names, values): (Vec<&str>, Vec<f64>) =
                set.iter().map(|(name, value)| (name.as_str(), *value)).unzip();
            section(&[]);
            section(bytes);
            section(names.join("\n").as_bytes());
            section(&numbers(&values));
        }
    }
    bytes
}

/// A unit of another tool inside the unit of a filter.
#[derive(Clone, PartialEq, Debug)]
pub struct CarriedUnit {
    /// Its file.
    pub bytes: Vec<u8>,
    /// Values that were set in it.
    pub set: Vec<(String, f64)>,
}

/// The sections of a resource.
struct Sections<'b> {
    rest: &'b [u8],
}

impl<'b> Sections<'b> {
    fn next(&mut self) -> Result<&'b [u8], ModelError> {
        let unreadable = || ModelError::Damaged;
        let (length, rest) = self.rest.split_first_chunk::<8>().ok_or_else(unreadable)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| unreadable())?;
        let (part, rest) = rest.split_at_checked(length).ok_or_else(unreadable)?;
        self.rest = rest;
        Ok(part)
    }

    fn numbers(&mut self) -> Result<Vec<f64>, ModelError> {
        let (eights, rest) = self.next()?.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(ModelError::Damaged);
        }
        Ok(eights.iter().map(|&eight| f64::from_le_bytes(eight)).collect())
    }
}

/// A filter that can be instantiated.
pub struct ObserverModel {
    /// The filter.
    live: LiveModel,
    /// The name of the model.
    pub name: String,
    /// Its variables; a value reference is a position here.
    pub variables: Vec<ExportedVariable>,
    /// How it is run.
    pub settings: Settings,
    /// What tells it from others.
    pub token: String,
}

impl ObserverModel {
    /// Reads a resource.
    ///
    /// # Errors
    /// When it holds no filter.
    pub fn read(resource: &[u8]) -> Result<Self, ModelError> {
        let Some(rest) = resource.strip_prefix(HEAD) else { return Err(ModelError::Damaged) };
        let mut sections = Sections { rest };
        let settings = Settings::of(&sections.numbers()?).ok_or(ModelError::Damaged)?;
        let plan = [sections.numbers()?, sections.numbers()?, sections.numbers()?];
        let plan = LivePlan::of(plan).ok_or(ModelError::Damaged)?;
        let text = std::str::from_utf8(sections.next()?).map_err(|_| ModelError::Damaged)?;
        let flat = sections.next()?;
        let refused = |told: Vec<Diagnostic>| {
            let errors = told.iter().filter(|one| one.level == Level::Error);
            ModelError::Refused(errors.map(|one| one.message.clone()).collect::<Vec<_>>().join("; "))
        };
        let loaded = if flat.is_empty() {
            let bytes = sections.next()?.to_vec();
            let names = std::str::from_utf8(sections.next()?).map_err(|_| ModelError::Damaged)?;
            let set = names.lines().map(str::to_owned).zip(sections.numbers()?).collect();
            Loaded::joined_unit(bytes, text, set).map_err(refused)?
        } else {
            Loaded::joined(flat_from_bytes(flat)?, text).map_err(refused)?
        };
        let name = loaded.flat.model.clone();
        let live = LiveModel::from_plan(&loaded, &plan).map_err(|failure| refused(failure.diagnostics().to_vec()))?;
        let variables = variables(&loaded.flat, &live);
        Ok(Self { live, name, variables, settings, token: token(resource) })
    }

    fn n_inputs(&self) -> usize {
        self.live.names.inputs.len()
    }
}

/// Time; known inputs; measurements; estimates, and the standard deviation of each.
fn variables(flat: &FlatDae, live: &LiveModel) -> Vec<ExportedVariable> {
    let names = &live.names;
    let mut list = vec![ExportedVariable::time("time")];
    let of = |name: &str| flat.find(name).map(|var| &flat.variables[var.index()]);
    let mut add = |name: String, of_name: &str, words: &str, origin: Origin, causality: Causality| {
        let model = of(of_name);
        let described = model.and_then(|variable| variable.description.as_deref());
        let description = match described {
            Some(described) => format!("{words} {of_name}: {described}"),
            None => format!("{words} {of_name}"),
        };
        let unit = model.and_then(|variable| variable.unit.as_ref()).filter(|unit| !unit.text.is_empty());
        let is_input = causality == Causality::Input;
        list.push(ExportedVariable {
            description: Some(description.into()),
            causality,
            at_start: Some(if is_input { AtStart::Exact } else { AtStart::Calculated }),
            start: is_input.then_some(0.0),
            unit: unit.map(|unit| unit.text.clone()),
            ..ExportedVariable::plain(name, origin)
        });
    };
    let mut at = 0;
    for input in &names.inputs {
        add(input.name.clone(), &input.name, "Known input", Origin::Input(at), Causality::Input);
        at += 1;
    }
    for signal in &names.measurements {
        let name = format!("measured.{}", signal.name);
        add(name, &signal.name, "Measurement of", Origin::Input(at), Causality::Input);
        at += 1;
    }
    for (signal, at) in names.signals.iter().zip(0..) {
        let output = |list: u32| Origin::Observed(2 * at + list);
        add(format!("estimate.{signal}"), signal, "Estimate of", output(0), Causality::Output);
        add(format!("std.{signal}"), signal, "Standard deviation of the estimate of", output(1), Causality::Output);
    }
    list
}

/// A filter that owns what it runs on.
struct Engine {
    /// Refers to what the other fields own, and is dropped before them: fields are dropped in this order.
    live: Live<'static>,
    /// Where the filter begins.
    fresh: LiveMark,
    _problem: Rc<Option<PredictionProblem<'static>>>,
    _model: Arc<ObserverModel>,
}

impl Engine {
    fn new(model: &Arc<ObserverModel>) -> Result<Self, InstanceError> {
        let model = Arc::clone(model);
        // SAFETY: The model is on the heap, where it stays until the last owner goes, and nobody hands out a mutable
        // reference to what `Arc` shares. The engine owns one until after `live` and `_problem`, which alone hold this
        // reference, have been dropped; neither leaves the engine.
        let lent: &'static LiveModel = unsafe { &(*Arc::as_ptr(&model)).live };
        let problem = Rc::new(lent.problem().map_err(InstanceError::filter)?);
        // SAFETY: As above, for `Rc`; `_problem` is dropped after `live`.
        let lent_problem: &'static Option<PredictionProblem<'static>> = unsafe { &*Rc::as_ptr(&problem) };
        let live = lent.filter(lent_problem.as_ref()).map_err(InstanceError::filter)?;
        Ok(Self { fresh: live.mark(), live, _problem: problem, _model: model })
    }
}

/// What the outputs are at the moment.
#[derive(Clone, PartialEq, Debug)]
enum Outputs {
    /// Not computed since something was set.
    Unknown,
    /// Given the sample of this time, which counts when the next step begins.
    Sampled(Vec<Estimate>),
    /// Given the samples before; the one of this time was not set yet.
    Predicted(Vec<Estimate>),
}

/// A running filter.
pub struct ObserverInstance {
    model: Arc<ObserverModel>,
    phase: Phase,
    start: f64,
    /// The communication point.
    time: f64,
    /// Values of the inputs: known inputs, then measurements.
    inputs: Vec<f64>,
    /// The samples before this communication point.
    engine: Option<Engine>,
    outputs: Outputs,
    /// Whether something was set since the last step.
    is_set: bool,
}

impl ObserverInstance {
    /// An instance before its initialization.
    #[must_use]
    pub fn new(model: Arc<ObserverModel>) -> Self {
        let n_inputs = model.n_inputs() + model.live.names.measurements.len();
        let start = model.settings.start;
        Self {
            model,
            phase: Phase::Instantiated,
            start,
            time: start,
            inputs: vec![0.0; n_inputs],
            engine: None,
            outputs: Outputs::Unknown,
            is_set: true,
        }
    }

    fn engine(&mut self) -> Result<&mut Engine, InstanceError> {
        if self.engine.is_none() {
            self.engine = Some(Engine::new(&self.model)?);
        }
        let missing = InstanceError::OutOfOrder { call: "this", phase: "before initialization" };
        self.engine.as_mut().ok_or(missing)
    }

    /// Estimates with the sample of this time, the filter being left behind it.
    fn take_sample(&mut self) -> Result<Vec<Estimate>, InstanceError> {
        let (time, inputs, n_inputs) = (self.time, self.inputs.clone(), self.model.n_inputs());
        let (known, measurements) = inputs.split_at(n_inputs);
        let sample = LiveSample { time, inputs: known, measurements };
        self.engine()?.live.update(&sample).map(|update| update.estimates).map_err(InstanceError::filter)
    }

    /// The outputs at this time.
    fn estimates(&mut self) -> Result<&[Estimate], InstanceError> {
        if self.outputs == Outputs::Unknown {
            let mark = self.engine()?.live.mark();
            if self.is_set {
                let taken = self.take_sample();
                self.engine()?.live.return_to(mark);
                self.outputs = Outputs::Sampled(taken?);
            } else {
                let (time, known) = (self.time, self.inputs[..self.model.n_inputs()].to_vec());
                let mut found = self.engine()?.live.predict(&[time], &[known]).map_err(InstanceError::filter)?;
                self.outputs = Outputs::Predicted(found.pop().unwrap_or_default());
            }
        }
        match &self.outputs {
            Outputs::Sampled(list) | Outputs::Predicted(list) => Ok(list),
            Outputs::Unknown => Ok(&[]),
        }
    }
}

impl Running for ObserverInstance {
    fn variables(&self) -> &[ExportedVariable] {
        &self.model.variables
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn reset(&mut self) {
        *self = Self::new(Arc::clone(&self.model));
    }

    fn set_experiment(&mut self, start: f64, _: Option<f64>, _: Option<f64>) -> Result<(), InstanceError> {
        self.expect("setting up the experiment", &[Phase::Instantiated])?;
        (self.start, self.time) = (start, start);
        Ok(())
    }

    fn enter_initialization(&mut self) -> Result<(), InstanceError> {
        self.expect("entering initialization", &[Phase::Instantiated])?;
        self.phase = Phase::Initialization;
        Ok(())
    }

    fn exit_initialization(&mut self) -> Result<(), InstanceError> {
        self.expect("leaving initialization", &[Phase::Initialization])?;
        self.engine()?;
        self.phase = Phase::Step;
        Ok(())
    }

    fn terminate(&mut self) -> Result<(), InstanceError> {
        self.expect("terminating", &[Phase::Step])?;
        self.phase = Phase::Terminated;
        Ok(())
    }

    fn value(&mut self, reference: u32) -> Result<f64, InstanceError> {
        match self.variable(reference)?.origin {
            Origin::Time => Ok(self.time),
            Origin::Input(at) => Ok(self.inputs[at as usize]),
            _ if self.phase == Phase::Instantiated => Ok(0.0),
            Origin::Observed(at) => {
                let (signal, is_std) = (at as usize / 2, at % 2 == 1);
                let found = self.estimates()?.get(signal).copied();
                Ok(found.map_or(f64::NAN, |found| if is_std { found.std } else { found.mean }))
            }
            _ => Err(InstanceError::NoSuchVariable(reference)),
        }
    }

    fn text(&self, reference: u32) -> Result<&std::ffi::CStr, InstanceError> {
        Err(InstanceError::OtherType(self.variable(reference)?.name.clone()))
    }

    fn set_value(&mut self, reference: u32, value: f64) -> Result<(), InstanceError> {
        let variable = self.variable(reference)?;
        let name = variable.name.clone();
        let Origin::Input(at) = variable.origin else { return Err(InstanceError::NotSettable(name)) };
        let is_measured = at as usize >= self.model.n_inputs();
        if !(value.is_finite() || value.is_nan() && is_measured) {
            return Err(InstanceError::NotAValue { name, value });
        }
        if self.phase == Phase::Terminated {
            return Err(InstanceError::NotSettable(name));
        }
        self.inputs[at as usize] = value;
        (self.outputs, self.is_set) = (Outputs::Unknown, true);
        Ok(())
    }

    fn step(&mut self, from: f64, length: f64) -> Result<StepDone, InstanceError> {
        self.expect("a step", &[Phase::Step])?;
        if (from - self.time).abs() > SAME_TIME * (from.abs() + self.time.abs() + length.abs()) {
            return Err(InstanceError::OtherTime { asked: from, reached: self.time });
        }
        self.take_sample()?;
        self.time = from + length;
        (self.outputs, self.is_set) = (Outputs::Unknown, false);
        Ok(StepDone { time: self.time, is_early: false, is_end: false })
    }

    fn time(&self) -> f64 {
        self.time
    }

    fn save(&self) -> SavedState {
        let mut groups = vec![vec![self.phase.number(), self.start, self.time, f64::from(u8::from(self.is_set))]];
        groups.push(self.inputs.clone());
        groups.extend(self.engine.iter().flat_map(|engine| engine.live.numbers()));
        SavedState(groups)
    }

    fn restore(&mut self, saved: &SavedState) -> Result<(), InstanceError> {
        let [head, inputs, numbers @ ..] = saved.0.as_slice() else { return Err(InstanceError::OtherState) };
        let [phase, start, time, is_set] = head[..] else { return Err(InstanceError::OtherState) };
        let phase = Phase::of(phase).ok_or(InstanceError::OtherState)?;
        if inputs.len() != self.inputs.len() {
            return Err(InstanceError::OtherState);
        }
        let engine = self.engine()?;
        engine.live.return_to(engine.fresh.clone());
        if !numbers.is_empty() && !engine.live.restore(numbers).map_err(InstanceError::filter)? {
            return Err(InstanceError::OtherState);
        }
        self.inputs.clone_from(inputs);
        (self.phase, self.start, self.time) = (phase, start, time);
        (self.outputs, self.is_set) = (Outputs::Unknown, is_set != 0.0);
        Ok(())
    }
}
