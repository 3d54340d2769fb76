//! What units do, whatever is inside: the states of the interface, values by reference, events, steps, derivatives.

use daesy_integrate::IntegrateError;
use daesy_system::ParameterError;

use crate::variable::ExportedVariable;

/// Communication points closer than this, relative to their size, are the same.
pub(crate) const SAME_TIME: f64 = 1e-9;

/// Why a call is refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// A value reference that no variable has.
    #[error("value reference {0} belongs to no variable")]
    NoSuchVariable(u32),
    /// A variable of another type.
    #[error("variable `{0}` has values of another type")]
    OtherType(String),
    /// A variable that cannot be set, at all or now.
    #[error("variable `{0}` cannot be set now")]
    NotSettable(String),
    /// A value that a variable cannot have.
    #[error("variable `{name}` cannot have the value {value}")]
    NotAValue {
        /// The variable.
        name: String,
        /// The value.
        value: f64,
    },
    /// Not a known or unknown of derivatives.
    #[error("derivatives by or of variable `{0}` are not provided")]
    NotDifferentiable(String),
    /// A call at a time when it is not allowed.
    #[error("{call} is not allowed {phase}")]
    OutOfOrder {
        /// What was called.
        call: &'static str,
        /// When.
        phase: &'static str,
    },
    /// Arrays of another length.
    #[error("{given} values were given where there are {expected}")]
    OtherLength {
        /// Values given.
        given: usize,
        /// Values there are.
        expected: usize,
    },
    /// A step that begins where the last did not end.
    #[error("the step begins at t = {asked}, but the last one ended at t = {reached}")]
    OtherTime {
        /// Where it should begin.
        asked: f64,
        /// Where the last ended.
        reached: f64,
    },
    /// What this kind of unit has not.
    #[error("{0} is not offered by this unit")]
    NotOffered(&'static str),
    /// The filter cannot take a sample.
    #[error("{0}")]
    Filter(String),
    /// A state that was saved by another model.
    #[error("this saved state does not belong to this model")]
    OtherState,
    /// The numerical method gave up.
    #[error(transparent)]
    Integration(#[from] IntegrateError),
    /// A parameter has no value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

impl InstanceError {
    /// Why a filter gave up.
    pub(crate) fn filter(error: impl std::fmt::Display) -> Self {
        Self::Filter(error.to_string())
    }
}

/// States of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Before initialization.
    Instantiated,
    /// During it.
    Initialization,
    /// At an event.
    Event,
    /// Integrated by the importer.
    Continuous,
    /// Between steps of the unit's own.
    Step,
    /// After the end.
    Terminated,
}

impl Phase {
    pub(crate) const ALL: [Self; 6] =
        [Self::Instantiated, Self::Initialization, Self::Event, Self::Continuous, Self::Step, Self::Terminated];

    const fn words(self) -> &'static str {
        match self {
            Self::Instantiated => "before initialization",
            Self::Initialization => "during initialization",
            Self::Event => "during an event",
            Self::Continuous => "in continuous time",
            Self::Step => "between steps",
            Self::Terminated => "after the end",
        }
    }

    /// As it is stored.
    pub(crate) fn number(self) -> f64 {
        Self::ALL.iter().position(|phase| *phase == self).unwrap_or(0) as f64
    }

    /// What was stored.
    pub(crate) fn of(number: f64) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// What an event did.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EventUpdate {
    /// The model ends the simulation.
    pub is_end: bool,
    /// States have new values.
    pub has_new_states: bool,
    /// The next event whose time is known.
    pub next_event: Option<f64>,
}

/// What the end of an importer's step asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepEnd {
    /// States are to be taken back to the constraints, which is an event.
    pub wants_event: bool,
}

/// How far a step of the instance led.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepDone {
    /// The time reached.
    pub time: f64,
    /// Whether it ended before its time.
    pub is_early: bool,
    /// The model ends the simulation.
    pub is_end: bool,
}

/// Everything that determines what an instance does next, as groups of numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct SavedState(pub(crate) Vec<Vec<f64>>);

impl SavedState {
    /// All of it as bytes: the length of each group, then its numbers.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|group| std::iter::once(group.len() as f64).chain(group.iter().copied()));
        numbers.flat_map(f64::to_le_bytes).collect()
    }

    /// What was written as bytes.
    ///
    /// # Errors
    /// When these are no such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InstanceError> {
        let (eights, rest) = bytes.as_chunks::<8>();
        let mut numbers = eights.iter().map(|&eight| f64::from_le_bytes(eight));
        let mut groups = Vec::new();
        while let Some(length) = numbers.next() {
            if !(0.0..=numbers.len() as f64).contains(&length) {
                return Err(InstanceError::OtherState);
            }
            groups.push(numbers.by_ref().take(length as usize).collect());
        }
        if rest.is_empty() { Ok(Self(groups)) } else { Err(InstanceError::OtherState) }
    }
}

/// What a unit does, whatever is inside.
///
/// What not every kind of unit has is refused unless a kind says otherwise.
pub trait Running {
    /// Its variables; a value reference is a position here.
    fn variables(&self) -> &[ExportedVariable];

    /// Where it is in its life.
    fn phase(&self) -> Phase;

    /// A variable.
    ///
    /// # Errors
    /// When there is none with this reference.
    fn variable(&self, reference: u32) -> Result<&ExportedVariable, InstanceError> {
        self.variables().get(reference as usize).ok_or(InstanceError::NoSuchVariable(reference))
    }

    /// Refuses a call that is not allowed now.
    ///
    /// # Errors
    /// When the unit is in none of these phases.
    fn expect(&self, call: &'static str, phases: &[Phase]) -> Result<(), InstanceError> {
        if phases.contains(&self.phase()) {
            Ok(())
        } else {
            Err(InstanceError::OutOfOrder { call, phase: self.phase().words() })
        }
    }

    /// Back to where it began.
    fn reset(&mut self);

    /// Says when the simulation begins and ends, and how accurate it is to be.
    ///
    /// # Errors
    /// When the instance is initialized already.
    fn set_experiment(&mut self, start: f64, stop: Option<f64>, tolerance: Option<f64>) -> Result<(), InstanceError>;

    /// Begins the initialization.
    ///
    /// # Errors
    /// When it has begun already.
    fn enter_initialization(&mut self) -> Result<(), InstanceError>;

    /// Ends the initialization at a consistent start.
    ///
    /// # Errors
    /// When there is none.
    fn exit_initialization(&mut self) -> Result<(), InstanceError>;

    /// Ends the simulation.
    ///
    /// # Errors
    /// When the instance never began.
    fn terminate(&mut self) -> Result<(), InstanceError>;

    /// The value of a variable that is no text.
    ///
    /// # Errors
    /// When there is no such variable, or the equations have no solution.
    fn value(&mut self, reference: u32) -> Result<f64, InstanceError>;

    /// The text of a variable, valid as long as the instance.
    ///
    /// # Errors
    /// When there is no such variable, or it is no text.
    fn text(&self, reference: u32) -> Result<&std::ffi::CStr, InstanceError>;

    /// Sets a variable.
    ///
    /// # Errors
    /// When it cannot be set now, or not to this value.
    fn set_value(&mut self, reference: u32, value: f64) -> Result<(), InstanceError>;

    /// Sets the slope of an input from now on.
    ///
    /// # Errors
    /// When the variable is no input of real values.
    fn set_input_slope(&mut self, reference: u32, slope: f64) -> Result<(), InstanceError> {
        let _ = (reference, slope);
        Err(InstanceError::NotOffered("the slope of an input"))
    }

    /// Takes a step.
    ///
    /// # Errors
    /// When the method gives up; the time reached is then that of `Instance::time`.
    fn step(&mut self, from: f64, length: f64) -> Result<StepDone, InstanceError>;

    /// The time reached.
    #[must_use]
    fn time(&self) -> f64;

    /// What determines all that follows.
    #[must_use]
    fn save(&self) -> SavedState;

    /// Goes on from a saved state.
    ///
    /// # Errors
    /// When it belongs to another model.
    fn restore(&mut self, saved: &SavedState) -> Result<(), InstanceError>;

    /// Number of states.
    #[must_use]
    fn n_states(&self) -> usize {
        0
    }

    /// Number of event functions.
    #[must_use]
    fn n_indicators(&self) -> usize {
        0
    }

    /// Begins an event.
    ///
    /// # Errors
    /// When the instance is not in continuous time.
    fn enter_event(&mut self) -> Result<(), InstanceError> {
        Err(InstanceError::NotOffered("an event"))
    }

    /// Settles an event.
    ///
    /// # Errors
    /// When it does not settle, or an assertion of the model fails.
    fn update_discrete(&mut self) -> Result<EventUpdate, InstanceError> {
        Err(InstanceError::NotOffered("an event"))
    }

    /// Goes on in continuous time.
    ///
    /// # Errors
    /// When there was no event.
    fn enter_continuous(&mut self) -> Result<(), InstanceError> {
        Err(InstanceError::NotOffered("continuous time"))
    }

    /// Goes on with steps.
    ///
    /// # Errors
    /// When there was no event.
    fn enter_step(&mut self) -> Result<(), InstanceError> {
        Err(InstanceError::NotOffered("an event"))
    }

    /// The importer completed a step.
    ///
    /// # Errors
    /// When an assertion of the model fails here, or the equations have no solution.
    fn complete_step(&mut self) -> Result<StepEnd, InstanceError> {
        Err(InstanceError::NotOffered("a step of the importer"))
    }

    /// Moves to a time.
    ///
    /// # Errors
    /// When the instance is not integrated by the importer.
    fn set_time(&mut self, time: f64) -> Result<(), InstanceError> {
        let _ = (time,);
        Err(InstanceError::NotOffered("setting the time"))
    }

    /// Sets all states.
    ///
    /// # Errors
    /// When there are more or fewer.
    fn set_states(&mut self, states: &[f64]) -> Result<(), InstanceError> {
        let _ = (states,);
        Err(InstanceError::NotOffered("setting states"))
    }

    /// Writes all states.
    ///
    /// # Errors
    /// When there are more or fewer.
    fn states(&mut self, states: &mut [f64]) -> Result<(), InstanceError> {
        let _ = (states,);
        Err(InstanceError::NotOffered("reading states"))
    }

    /// Writes the rates of all states.
    ///
    /// # Errors
    /// When there are more or fewer, or the equations have no solution.
    fn rates(&mut self, rates: &mut [f64]) -> Result<(), InstanceError> {
        let _ = (rates,);
        Err(InstanceError::NotOffered("reading rates"))
    }

    /// Writes typical sizes of all states.
    ///
    /// # Errors
    /// When there are more or fewer.
    fn nominals(&self, nominals: &mut [f64]) -> Result<(), InstanceError> {
        let _ = (nominals,);
        Err(InstanceError::NotOffered("reading nominal values"))
    }

    /// Writes the event functions.
    ///
    /// # Errors
    /// When there are more or fewer, or the equations have no solution.
    fn event_indicators(&mut self, values: &mut [f64]) -> Result<(), InstanceError> {
        let _ = (values,);
        Err(InstanceError::NotOffered("reading event indicators"))
    }

    /// How unknowns change with knowns, exactly: the product of the partial derivatives with a seed.
    ///
    /// # Errors
    /// When a variable is neither, or the equations do not determine all to first order.
    fn directional_derivative(
        &mut self,
        unknowns: &[u32],
        knowns: &[u32],
        seed: &[f64],
        sensitivity: &mut [f64],
    ) -> Result<(), InstanceError> {
        let _ = (unknowns, knowns, seed, sensitivity);
        Err(InstanceError::NotOffered("a directional derivative"))
    }

    /// The same from the other side: the product of a seed with the partial derivatives.
    ///
    /// # Errors
    /// As `Instance::directional_derivative`.
    fn adjoint_derivative(
        &mut self,
        unknowns: &[u32],
        knowns: &[u32],
        seed: &[f64],
        sensitivity: &mut [f64],
    ) -> Result<(), InstanceError> {
        let _ = (unknowns, knowns, seed, sensitivity);
        Err(InstanceError::NotOffered("an adjoint derivative"))
    }
}
