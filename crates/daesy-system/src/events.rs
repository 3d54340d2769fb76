//! What a system does at events.
//!
//! Between events all modes are constant. They are, in this order,
//!
//! ```text
//! discrete variables | conditions of when-clauses | held values | values before of the discrete variables and conditions |
//! values before of continuous quantities | one for each clock: whether it ticks | initial | terminal | weight of homotopy
//! ```
//!
//! Held values are relations, `floor` and their like in continuous equations: between events they keep the value of
//! the last event, so that the equations stay smooth where a step looks a little beyond.
//! [`Part::Modes`](crate::Part::Modes) gives the first three groups anew from everything else; an event is over when
//! that changes nothing [@modelica36, app. B]. A sign change of a root, or a scheduled time, is when that must be
//! done.

/// The fixed facts about events. Everything is empty for a system without.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Events {
    /// Discrete variables.
    pub discrete: Vec<DiscreteVariable>,
    /// Conditions of when-clauses.
    pub conditions: Vec<EventLabel>,
    /// Relations and whole numbers that are held between events.
    pub held: Vec<EventLabel>,
    /// Continuous quantities whose value before an event is used.
    pub before: Vec<Before>,
    /// Number of clocks.
    pub n_clocks: usize,
    /// Event functions, in the order of [`Part::Roots`](crate::Part::Roots).
    pub roots: Vec<Root>,
    /// The held value that changes at each scheduled time, in the order of [`Part::Schedule`](crate::Part::Schedule).
    pub scheduled: Vec<u32>,
    /// What when-clauses do beside assigning discrete variables.
    pub actions: Vec<Action>,
    /// Assertions.
    pub assertions: Vec<AssertionLabel>,
    /// Whether an event function or an assertion depends on unknowns, which no interpolation gives.
    pub roots_need_unknowns: bool,
    /// Whether `terminal()` occurs.
    pub has_terminal: bool,
    /// Whether `homotopy` occurs.
    pub has_homotopy: bool,
    /// Whether there are modes beside the discrete variables.
    pub has_layout: bool,
}

/// A discrete variable.
#[derive(Clone, PartialEq, Debug)]
pub struct DiscreteVariable {
    /// Its name.
    pub name: String,
    /// The value to start the search from.
    pub start: f64,
    /// Whether it is a number of any size, not a truth or a whole number.
    pub is_real: bool,
    /// The largest magnitude that its values may have: Integers are exact up to 2^53 - 1.
    pub largest: f64,
    /// What says which value it had before the start, see [`Part::ModesBefore`](crate::Part::ModesBefore).
    pub before: EventLabel,
}

/// A condition or relation as it is told to the user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventLabel {
    /// In the model's words.
    pub text: String,
    /// `file:line:column`, empty where there is none.
    pub place: String,
}

/// A continuous quantity whose value before an event is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// A state.
    State(u32),
    /// An unknown.
    Unknown(u32),
    /// A position among the inputs.
    Input(u32),
}

/// An event function: when its side changes, an event happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The held value that changes with it.
    pub held: u32,
    /// Zero counts as above zero.
    pub is_zero_above: bool,
}

impl Root {
    /// Whether a value of the event function is on the upper side.
    #[must_use]
    pub fn is_above(self, value: f64) -> bool {
        value > 0.0 || value == 0.0 && self.is_zero_above
    }
}

/// What a when-clause does.
#[derive(Clone, PartialEq, Debug)]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// In the model's words, with its place.
    pub label: EventLabel,
}

/// Kinds of actions.
#[derive(Clone, PartialEq, Debug)]
pub enum ActionKind {
    /// Gives a state another value: the action's value times `sign`.
    Reinit {
        /// The state.
        state: u32,
        /// 1, or -1 where the state is the negative of the variable that was meant.
        sign: f64,
    },
    /// The action's value must be true.
    Assert {
        /// What to say where it is not.
        message: String,
        /// Whether the simulation goes on.
        is_warning: bool,
    },
    /// Ends the simulation.
    Terminate {
        /// What to say.
        message: String,
    },
}

/// An assertion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssertionLabel {
    /// The condition in the model's words, with its place.
    pub label: EventLabel,
    /// What to say where it does not hold.
    pub message: String,
    /// Whether the simulation goes on.
    pub is_warning: bool,
}

impl Events {
    /// Number of modes that [`Part::Modes`](crate::Part::Modes) gives.
    #[must_use]
    pub fn n_updated(&self) -> usize {
        self.n_switched() + self.held.len()
    }

    /// Number of discrete variables and conditions.
    #[must_use]
    pub fn n_switched(&self) -> usize {
        self.discrete.len() + self.conditions.len()
    }

    /// First position of the values before of discrete variables and conditions.
    #[must_use]
    pub fn switched_before(&self) -> usize {
        self.n_updated()
    }

    /// First position of the values before of continuous quantities.
    #[must_use]
    pub fn continuous_before(&self) -> usize {
        self.switched_before() + self.n_switched()
    }

    /// First position of the clocks.
    #[must_use]
    pub fn clocks(&self) -> usize {
        self.continuous_before() + self.before.len()
    }

    /// Position of the flag that is 1 at the start.
    #[must_use]
    pub fn initial(&self) -> usize {
        self.clocks() + self.n_clocks
    }

    /// Position of the flag that is 1 at the end.
    #[must_use]
    pub fn terminal(&self) -> usize {
        self.initial() + 1
    }

    /// Position of the weight of the actual expression of `homotopy`.
    #[must_use]
    pub fn homotopy(&self) -> usize {
        self.initial() + 2
    }

    /// Number of modes; the discrete variables only where there is no layout for events.
    #[must_use]
    pub fn n_modes(&self) -> usize {
        if self.has_layout { self.initial() + 3 } else { self.discrete.len() }
    }

    /// Whether anything can happen at an event.
    #[must_use]
    pub fn can_happen(&self) -> bool {
        self.has_layout && (self.n_updated() > 0 || !self.actions.is_empty())
    }

    /// The modes before the start is known: discrete variables at the values to start from, everything else off.
    #[must_use]
    pub fn start_modes(&self) -> Vec<f64> {
        let mut modes = vec![0.0; self.n_modes()];
        for (at, discrete) in self.discrete.iter().enumerate() {
            modes[at] = discrete.start;
            if self.has_layout {
                modes[self.switched_before() + at] = discrete.start;
            }
        }
        if self.has_layout {
            modes[self.homotopy()] = 1.0;
        }
        modes
    }
}
