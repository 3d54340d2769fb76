//! One instance of a model: the states of the interface, values by reference, events, steps, derivatives.

use std::collections::BTreeMap;
use std::sync::Arc;

use daesy_graph::flat::ValueType;
use daesy_integrate::{Seed, SettableInputs, SimulateOptions, Snapshot, Tangent};
use daesy_system::{DaeSystem, GivenParameter};

use crate::engine::{Beginning, Engine};
use crate::model::Model;
use crate::running::{EventUpdate, InstanceError, Phase, Running, SAME_TIME, SavedState, StepDone, StepEnd};
use crate::variable::{Causality, ExportedVariable, Origin, Variability};

/// An importer takes the states back from the constraints when they are off by so many tolerances. What is read is on
/// the constraints anyway, so that only the square of this counts.
const FAR_OFF: f64 = 100.0;

/// Steps of one request before it is given up.
const MAX_STEPS: usize = 1_000_000_000;

/// What an instance is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The importer integrates.
    ModelExchange,
    /// The instance integrates.
    CoSimulation,
}

/// How an instance integrates.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Experiment {
    start: f64,
    stop: Option<f64>,
    rtol: f64,
}

/// A saved state as it is meant.
struct ModelState {
    phase: Phase,
    experiment: Experiment,
    given: BTreeMap<u32, f64>,
    inputs: Vec<f64>,
    slopes: Vec<f64>,
    snapshot: Option<Snapshot>,
}

impl ModelState {
    fn of(saved: &SavedState) -> Option<Self> {
        let [head, given, inputs, slopes, rest @ ..] = saved.0.as_slice() else { return None };
        let [phase, start, stop, rtol] = head[..] else { return None };
        let snapshot = match rest {
            [] => None,
            [time, states, unknowns, parameters, modes, sides, margins, ticks] => Some(Snapshot {
                time: *time.first()?,
                states: states.clone(),
                unknowns: unknowns.clone(),
                parameters: parameters.clone(),
                modes: modes.clone(),
                sides: sides.clone(),
                margins: margins.clone(),
                ticks: ticks.clone(),
            }),
            _ => return None,
        };
        Some(Self {
            phase: Phase::of(phase)?,
            experiment: Experiment { start, stop: Some(stop).filter(|stop| !stop.is_nan()), rtol },
            given: given.chunks_exact(2).map(|pair| (pair[0] as u32, pair[1])).collect(),
            inputs: inputs.clone(),
            slopes: slopes.clone(),
            snapshot,
        })
    }
}

/// An instance.
pub struct Instance {
    model: Arc<Model>,
    role: Role,
    phase: Phase,
    experiment: Experiment,
    /// Whether a step may end at an event.
    may_return_early: bool,
    /// Parameters with other values than the model's.
    given: BTreeMap<u32, f64>,
    inputs: Vec<f64>,
    slopes: Vec<f64>,
    engine: Option<Engine>,
    has_new_inputs: bool,
    /// What was before inputs that were set after a step jumped, because somebody read; taken back where they are set
    /// again.
    before_inputs: Option<SavedState>,
    /// The model ended the simulation when its inputs jumped.
    is_over: bool,
    /// Parameters before there is an engine.
    parameters: Option<Vec<f64>>,
    observed: Option<Vec<f64>>,
    indicators: Option<Vec<f64>>,
    /// Values of text variables, as C wants them.
    texts: Vec<Option<std::ffi::CString>>,
}

impl Instance {
    /// An instance before its initialization.
    #[must_use]
    pub fn new(model: Arc<Model>, role: Role, may_return_early: bool) -> Self {
        let n_inputs = model.system.description().n_inputs;
        let text = |variable: &ExportedVariable| {
            let text = variable.text.as_deref()?;
            std::ffi::CString::new(text.replace('\0', " ")).ok()
        };
        let texts = model.variables.iter().map(text).collect();
        let settings = model.settings;
        let mut instance = Self {
            model,
            role,
            phase: Phase::Instantiated,
            experiment: Experiment { start: settings.start, stop: None, rtol: settings.rtol },
            may_return_early,
            given: BTreeMap::new(),
            inputs: vec![0.0; n_inputs],
            slopes: vec![0.0; n_inputs],
            engine: None,
            has_new_inputs: false,
            before_inputs: None,
            is_over: false,
            parameters: None,
            observed: None,
            indicators: None,
            texts,
        };
        instance.reset();
        instance
    }

    fn forget(&mut self) {
        (self.parameters, self.observed, self.indicators) = (None, None, None);
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Length of the time span, for whoever needs a scale.
    fn span(&self) -> f64 {
        let settings = self.model.settings;
        self.experiment.stop.map_or(settings.stop - settings.start, |stop| stop - self.experiment.start)
    }

    fn options(&self) -> SimulateOptions {
        let settings = self.model.settings;
        let span = self.span();
        SimulateOptions {
            start: self.experiment.start,
            stop: self.experiment.start + if span > 0.0 { span } else { 1.0 },
            output_times: Vec::new(),
            rtol: self.experiment.rtol,
            atol: settings.atol * (self.experiment.rtol / settings.rtol).min(1.0),
            max_steps: MAX_STEPS,
            ..SimulateOptions::default()
        }
    }

    fn set_inputs_of(&self) -> SettableInputs {
        let inputs = SettableInputs::new(self.inputs.len());
        inputs.set(self.experiment.start, &self.inputs, &self.slopes);
        inputs
    }

    fn given(&self) -> Vec<GivenParameter> {
        self.given.iter().map(|(&parameter, &value)| GivenParameter { parameter, value }).collect()
    }

    /// The running model, made where there is none, with the inputs that were set.
    fn engine(&mut self) -> Result<&mut Engine, InstanceError> {
        if self.engine.is_none() {
            let parameters = self.model.system.parameter_values(&self.given())?;
            let beginning = Beginning::Start(&parameters);
            self.engine = Some(Engine::begin(&self.model, self.set_inputs_of(), self.options(), &beginning)?);
            self.has_new_inputs = false;
        }
        // There is one now.
        let Some(engine) = &mut self.engine else {
            return Err(InstanceError::OutOfOrder { call: "this", phase: "before initialization" });
        };
        if self.has_new_inputs {
            engine.set_inputs(&self.inputs, &self.slopes);
            self.has_new_inputs = false;
        }
        Ok(engine)
    }

    fn parameter(&mut self, at: u32) -> Result<f64, InstanceError> {
        if let Some(engine) = &self.engine {
            return Ok(engine.parameters()[at as usize]);
        }
        if self.phase != Phase::Instantiated {
            return Ok(self.engine()?.parameters()[at as usize]);
        }
        if self.parameters.is_none() {
            self.parameters = Some(self.model.system.parameter_values(&self.given())?);
        }
        Ok(self.parameters.as_ref().map_or(f64::NAN, |values| values[at as usize]))
    }

    fn note_inputs(&mut self) -> Result<(), InstanceError> {
        self.forget();
        if let Some(before) = self.before_inputs.take() {
            let (inputs, slopes) = (self.inputs.clone(), self.slopes.clone());
            self.restore(&before)?;
            (self.inputs, self.slopes) = (inputs, slopes);
        }
        if matches!(self.phase, Phase::Instantiated | Phase::Initialization) {
            self.engine = None;
        } else {
            self.has_new_inputs = true;
        }
        Ok(())
    }

    /// Lets inputs that were set between steps jump before anything is read, as the next step would: what is read
    /// satisfies the equations at the inputs as they are, events that they make included.
    fn take_inputs(&mut self) -> Result<(), InstanceError> {
        let is_between_steps = self.role == Role::CoSimulation && self.phase == Phase::Step;
        let Some(engine) = self.engine.as_ref().filter(|_| is_between_steps && self.has_new_inputs) else {
            return Ok(());
        };
        let (inputs, slopes) = engine.inputs();
        let before = self.saved(inputs, slopes);
        self.forget();
        let taken = self.engine()?.take_inputs();
        match taken {
            Ok(is_over) => (self.is_over, self.before_inputs) = (is_over, Some(before)),
            Err(error) => {
                self.before_inputs = Some(before);
                self.note_inputs()?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Everything that determines what follows, with inputs and their slopes.
    fn saved(&self, inputs: Vec<f64>, slopes: Vec<f64>) -> SavedState {
        let Experiment { start, stop, rtol } = self.experiment;
        let given = self.given.iter().flat_map(|(&at, &value)| [f64::from(at), value]).collect();
        let head = vec![self.phase.number(), start, stop.unwrap_or(f64::NAN), rtol];
        let mut groups = vec![head, given, inputs, slopes];
        if let Some(engine) = &self.engine {
            let Snapshot { time, states, unknowns, parameters, modes, sides, margins, ticks } = engine.snapshot();
            groups.extend([vec![time], states, unknowns, parameters, modes, sides, margins, ticks]);
        }
        SavedState(groups)
    }

    fn set_parameter(&mut self, at: u32, value: f64) -> Result<(), InstanceError> {
        if self.given.get(&at) == Some(&value) {
            return Ok(());
        }
        self.given.insert(at, value);
        self.forget();
        if matches!(self.phase, Phase::Instantiated | Phase::Initialization) {
            self.engine = None;
            return Ok(());
        }
        let model = Arc::clone(&self.model);
        let mut values = model.system.parameter_values(&self.given())?;
        let engine = self.engine()?;
        // What the start determined stays.
        for &free in &model.system.description().free_parameters {
            values[free as usize] = engine.parameters()[free as usize];
        }
        model.system.follow_free_parameters(&mut values);
        engine.set_parameters(&values);
        Ok(())
    }

    fn check_length(&self, given: usize, expected: usize) -> Result<(), InstanceError> {
        if given == expected { Ok(()) } else { Err(InstanceError::OtherLength { given, expected }) }
    }

    fn indicators(&mut self) -> Result<&[f64], InstanceError> {
        if self.indicators.is_none() || self.has_new_inputs {
            let engine = self.engine()?;
            engine.solve()?;
            self.indicators = Some(engine.indicators());
        }
        Ok(self.indicators.as_deref().unwrap_or_default())
    }

    /// A direction in states, inputs and parameters.
    fn direction(&self, knowns: &[u32], seed: &[f64]) -> Result<Seed, InstanceError> {
        let description = self.model.system.description();
        let mut direction = Seed {
            states: vec![0.0; description.states.len()],
            inputs: vec![0.0; description.n_inputs],
            parameters: vec![0.0; description.parameters.len()],
        };
        for (&known, &seed) in knowns.iter().zip(seed) {
            let variable = self.variable(known)?;
            let is_real = variable.value_type == ValueType::Real;
            match variable.origin {
                Origin::State(at) => direction.states[at as usize] += seed,
                Origin::Input(at) if is_real => direction.inputs[at as usize] += seed,
                Origin::Parameter(at) if is_real && variable.causality == Causality::Parameter => {
                    let tangent = self.model.system.parameter_tangent(&self.given(), at)?;
                    let all = direction.parameters.iter_mut().zip(&tangent);
                    all.for_each(|(value, tangent)| *value += seed * tangent);
                }
                _ => return Err(InstanceError::NotDifferentiable(variable.name.clone())),
            }
        }
        Ok(direction)
    }

    fn change_of(&self, unknown: u32, tangent: &Tangent, direction: &Seed) -> Result<f64, InstanceError> {
        let variable = self.variable(unknown)?;
        Ok(match (variable.origin, variable.derivative_of) {
            (Origin::Observed(at), _) => tangent.observed[at as usize],
            (Origin::State(at), _) => tangent.states[at as usize],
            (Origin::Unknown(at), _) => tangent.unknowns[at as usize],
            (Origin::Parameter(at), _) => direction.parameters[at as usize],
            _ => return Err(InstanceError::NotDifferentiable(variable.name.clone())),
        })
    }
}

impl Running for Instance {
    fn variables(&self) -> &[ExportedVariable] {
        &self.model.variables
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn reset(&mut self) {
        let settings = self.model.settings;
        self.phase = Phase::Instantiated;
        self.experiment = Experiment { start: settings.start, stop: None, rtol: settings.rtol };
        self.given.clear();
        self.slopes.fill(0.0);
        for variable in &self.model.variables {
            if let (Origin::Input(at), Some(start)) = (variable.origin, variable.start) {
                self.inputs[at as usize] = start;
            }
        }
        self.engine = None;
        (self.has_new_inputs, self.before_inputs, self.is_over) = (false, None, false);
        self.forget();
    }

    fn n_states(&self) -> usize {
        self.model.system.description().states.len()
    }

    fn n_indicators(&self) -> usize {
        self.model.system.description().n_roots
    }

    fn set_experiment(&mut self, start: f64, stop: Option<f64>, tolerance: Option<f64>) -> Result<(), InstanceError> {
        self.expect("setting up the experiment", &[Phase::Instantiated])?;
        self.experiment.start = start;
        self.experiment.stop = stop.filter(|stop| *stop > start && stop.is_finite());
        let is_sound = |tolerance: &f64| *tolerance > 0.0 && *tolerance < 1.0;
        self.experiment.rtol = tolerance.filter(is_sound).unwrap_or(self.model.settings.rtol);
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
        self.phase = Phase::Event;
        if self.role == Role::CoSimulation {
            self.phase = Phase::Step;
            self.forget();
            self.engine()?.settle(false)?;
        }
        Ok(())
    }

    fn terminate(&mut self) -> Result<(), InstanceError> {
        self.expect("terminating", &Phase::ALL[2..])?;
        self.phase = Phase::Terminated;
        Ok(())
    }

    fn value(&mut self, reference: u32) -> Result<f64, InstanceError> {
        self.take_inputs()?;
        let variable = self.variable(reference)?;
        let origin = variable.origin;
        let start = variable.start;
        match origin {
            Origin::Text => Err(InstanceError::OtherType(variable.name.clone())),
            Origin::Input(at) => Ok(self.inputs[at as usize]),
            Origin::Parameter(at) => self.parameter(at),
            // Before initialization only start values are known.
            _ if self.phase == Phase::Instantiated => Ok(start.unwrap_or(0.0)),
            Origin::Time => Ok(self.engine()?.time()),
            Origin::State(at) => {
                let engine = self.engine()?;
                engine.solve()?;
                Ok(engine.solved_states()[at as usize])
            }
            Origin::Unknown(at) => {
                let engine = self.engine()?;
                engine.solve()?;
                Ok(engine.unknowns()[at as usize])
            }
            Origin::Observed(at) => {
                if self.observed.is_none() || self.has_new_inputs {
                    let engine = self.engine()?;
                    engine.solve()?;
                    self.observed = Some(engine.observed());
                }
                Ok(self.observed.as_ref().map_or(f64::NAN, |row| row[at as usize]))
            }
            Origin::Indicator(at) => Ok(self.indicators()?[at as usize]),
        }
    }

    fn text(&self, reference: u32) -> Result<&std::ffi::CStr, InstanceError> {
        let variable = self.variable(reference)?;
        let text = self.texts[reference as usize].as_deref();
        text.ok_or_else(|| InstanceError::OtherType(variable.name.clone()))
    }

    fn set_value(&mut self, reference: u32, value: f64) -> Result<(), InstanceError> {
        let variable = self.variable(reference)?;
        let (origin, name) = (variable.origin, &variable.name);
        let is_early = matches!(self.phase, Phase::Instantiated | Phase::Initialization);
        let is_value = value.is_finite() && variable.value_type.holds(value);
        if !is_value {
            return Err(InstanceError::NotAValue { name: name.clone(), value });
        }
        let refused = || Err(InstanceError::NotSettable(name.clone()));
        match (origin, variable.causality, variable.start_parameter) {
            (Origin::Input(at), ..) => {
                if self.phase == Phase::Terminated {
                    return refused();
                }
                let at = at as usize;
                if self.inputs[at] != value || self.slopes[at] != 0.0 {
                    (self.inputs[at], self.slopes[at]) = (value, 0.0);
                    self.note_inputs()?;
                }
                Ok(())
            }
            (Origin::Parameter(at), Causality::Parameter, _) => {
                // Importers that evaluate the right-hand side as a function set parameters in continuous time too.
                if variable.variability != Variability::Tunable || self.phase == Phase::Terminated {
                    return refused();
                }
                self.set_parameter(at, value)
            }
            (_, _, Some(parameter)) if is_early => self.set_parameter(parameter, value),
            (Origin::State(at), ..) if matches!(self.phase, Phase::Continuous | Phase::Event | Phase::Step) => {
                self.forget();
                let engine = self.engine()?;
                let mut states = engine.states().to_vec();
                states[at as usize] = value;
                engine.set_states(&states);
                Ok(())
            }
            _ => refused(),
        }
    }

    fn set_input_slope(&mut self, reference: u32, slope: f64) -> Result<(), InstanceError> {
        let variable = self.variable(reference)?;
        match variable.origin {
            Origin::Input(at) if variable.value_type == ValueType::Real && slope.is_finite() => {
                self.slopes[at as usize] = slope;
                self.note_inputs()
            }
            _ => Err(InstanceError::NotSettable(variable.name.clone())),
        }
    }

    fn enter_event(&mut self) -> Result<(), InstanceError> {
        self.expect("entering an event", &[Phase::Continuous, Phase::Event, Phase::Step])?;
        if self.phase != Phase::Event {
            self.before_inputs = None;
            self.engine()?.mark_inputs();
        }
        self.phase = Phase::Event;
        Ok(())
    }

    fn update_discrete(&mut self) -> Result<EventUpdate, InstanceError> {
        self.expect("updating discrete states", &[Phase::Event])?;
        self.forget();
        let (stop, span) = (self.experiment.stop, self.span().max(f64::MIN_POSITIVE));
        let engine = self.engine()?;
        let happened = engine.settle(false)?;
        let time = engine.time();
        let horizon = stop.unwrap_or(time + span);
        let mut next = if engine.has_events() { engine.next_event(horizon.max(time)) } else { f64::INFINITY };
        if stop.is_none() && engine.has_events() {
            // What changes with time alone was searched for no farther.
            next = next.min(horizon);
        }
        Ok(EventUpdate {
            is_end: happened.is_end,
            has_new_states: happened.has_new_states,
            next_event: Some(next).filter(|next| next.is_finite() && *next > time),
        })
    }

    fn enter_continuous(&mut self) -> Result<(), InstanceError> {
        self.expect("entering continuous time", &[Phase::Event])?;
        self.phase = Phase::Continuous;
        Ok(())
    }

    fn enter_step(&mut self) -> Result<(), InstanceError> {
        self.expect("entering steps", &[Phase::Event, Phase::Step])?;
        self.phase = Phase::Step;
        Ok(())
    }

    fn complete_step(&mut self) -> Result<StepEnd, InstanceError> {
        self.expect("completing a step", &[Phase::Continuous])?;
        let engine = self.engine()?;
        engine.check_assertions()?;
        Ok(StepEnd { wants_event: engine.offset() > FAR_OFF })
    }

    fn set_time(&mut self, time: f64) -> Result<(), InstanceError> {
        self.expect("setting the time", &[Phase::Continuous, Phase::Event])?;
        self.forget();
        self.engine()?.set_time(time);
        Ok(())
    }

    fn set_states(&mut self, states: &[f64]) -> Result<(), InstanceError> {
        self.expect("setting states", &[Phase::Continuous, Phase::Event])?;
        self.check_length(states.len(), self.n_states())?;
        self.forget();
        self.engine()?.set_states(states);
        Ok(())
    }

    fn states(&mut self, states: &mut [f64]) -> Result<(), InstanceError> {
        self.check_length(states.len(), self.n_states())?;
        states.copy_from_slice(self.engine()?.states());
        Ok(())
    }

    fn rates(&mut self, rates: &mut [f64]) -> Result<(), InstanceError> {
        self.check_length(rates.len(), self.n_states())?;
        let engine = self.engine()?;
        engine.solve()?;
        rates.copy_from_slice(engine.rates());
        Ok(())
    }

    fn nominals(&self, nominals: &mut [f64]) -> Result<(), InstanceError> {
        self.check_length(nominals.len(), self.n_states())?;
        for (nominal, state) in nominals.iter_mut().zip(&self.model.system.description().states) {
            *nominal = state.nominal;
        }
        Ok(())
    }

    fn event_indicators(&mut self, values: &mut [f64]) -> Result<(), InstanceError> {
        self.check_length(values.len(), self.n_indicators())?;
        values.copy_from_slice(self.indicators()?);
        Ok(())
    }

    fn step(&mut self, from: f64, length: f64) -> Result<StepDone, InstanceError> {
        self.expect("a step", &[Phase::Step])?;
        let (may_return_early, is_over) = (self.may_return_early, self.is_over);
        self.forget();
        self.before_inputs = None;
        let engine = self.engine()?;
        let reached = engine.time();
        if (from - reached).abs() > SAME_TIME * (from.abs() + reached.abs() + length.abs()) {
            return Err(InstanceError::OtherTime { asked: from, reached });
        }
        if is_over {
            return Ok(StepDone { time: reached, is_early: true, is_end: true });
        }
        let end = from + length;
        let done = engine.advance(end, may_return_early)?;
        // The slopes go on from where the inputs are now.
        let time = done.time;
        for (value, slope) in self.inputs.iter_mut().zip(&self.slopes) {
            *value += slope * (time - reached);
        }
        Ok(StepDone { time, is_early: time < end, is_end: done.is_end })
    }

    fn time(&self) -> f64 {
        self.engine.as_ref().map_or(self.experiment.start, |engine| engine.time())
    }

    fn directional_derivative(
        &mut self,
        unknowns: &[u32],
        knowns: &[u32],
        seed: &[f64],
        sensitivity: &mut [f64],
    ) -> Result<(), InstanceError> {
        self.check_length(seed.len(), knowns.len())?;
        self.check_length(sensitivity.len(), unknowns.len())?;
        let direction = self.direction(knowns, seed)?;
        let tangent = self.engine()?.tangent(&direction)?;
        for (value, &unknown) in sensitivity.iter_mut().zip(unknowns) {
            *value = self.change_of(unknown, &tangent, &direction)?;
        }
        Ok(())
    }

    fn adjoint_derivative(
        &mut self,
        unknowns: &[u32],
        knowns: &[u32],
        seed: &[f64],
        sensitivity: &mut [f64],
    ) -> Result<(), InstanceError> {
        self.check_length(seed.len(), unknowns.len())?;
        self.check_length(sensitivity.len(), knowns.len())?;
        let mut column = vec![0.0; unknowns.len()];
        for (value, known) in sensitivity.iter_mut().zip(knowns) {
            self.directional_derivative(unknowns, std::slice::from_ref(known), &[1.0], &mut column)?;
            *value = column.iter().zip(seed).map(|(entry, seed)| entry * seed).sum();
        }
        Ok(())
    }

    fn save(&self) -> SavedState {
        self.saved(self.inputs.clone(), self.slopes.clone())
    }

    fn restore(&mut self, saved: &SavedState) -> Result<(), InstanceError> {
        let saved = ModelState::of(saved).ok_or(InstanceError::OtherState)?;
        let description = self.model.system.description();
        let fits = saved.inputs.len() == self.inputs.len()
            && saved.slopes.len() == self.inputs.len()
            && saved.snapshot.as_ref().is_none_or(|snapshot| {
                snapshot.states.len() == description.states.len()
                    && snapshot.unknowns.len() == description.unknowns.len()
                    && snapshot.parameters.len() == description.parameters.len()
                    && snapshot.modes.len() == description.events.n_modes()
                    && snapshot.sides.len() == description.n_roots
                    && snapshot.margins.len() == description.n_roots
                    && snapshot.ticks.len() == description.events.n_clocks
            });
        if !fits || saved.given.keys().any(|&at| at as usize >= description.parameters.len()) {
            return Err(InstanceError::OtherState);
        }
        self.phase = saved.phase;
        self.experiment = saved.experiment;
        self.given.clone_from(&saved.given);
        self.inputs.clone_from(&saved.inputs);
        self.slopes.clone_from(&saved.slopes);
        (self.has_new_inputs, self.before_inputs, self.is_over) = (false, None, false);
        self.forget();
        self.engine = None;
        if let Some(snapshot) = &saved.snapshot {
            let inputs = SettableInputs::new(self.inputs.len());
            inputs.set(snapshot.time, &self.inputs, &self.slopes);
            let beginning = Beginning::Snapshot(snapshot);
            self.engine = Some(Engine::begin(&self.model, inputs, self.options(), &beginning)?);
        }
        Ok(())
    }
}
