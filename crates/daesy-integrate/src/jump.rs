//! What becomes of the states where an input, or a derivative of it that matters, is not continuous.
//!
//! Integration stops at every break of the inputs. Without a [`JumpRule`] the states go on as they are and are moved
//! onto the constraints of the new inputs by the least change, which is right where no constraint is hidden. Which
//! states follow in general is a question about the model, not about the method [@barton2002, sec. 2]: whoever knows
//! the answer gives it here.

/// A moment at which inputs are not continuous or modes change.
#[derive(Clone, Copy, Debug)]
pub struct Crossing<'a> {
    /// When.
    pub time: f64,
    /// Inputs and their derivatives just before.
    pub inputs_before: &'a [f64],
    /// Inputs and their derivatives just after.
    pub inputs_after: &'a [f64],
    /// Observed quantities just before.
    pub observed_before: &'a [f64],
    /// Parameters.
    pub parameters: &'a [f64],
    /// Modes just before.
    pub modes: &'a [f64],
    /// Modes just after, the same where only inputs change.
    pub modes_after: &'a [f64],
    /// Unknowns just before.
    pub unknowns: &'a [f64],
}

/// What a transfer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossed {
    /// Nothing that shows in the variables.
    Smoothly,
    /// A variable jumped or had an impulse: the table gets a row before and a row after.
    WithJump,
}

/// Why the states after a break are not known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct JumpError {
    /// In words.
    pub reason: String,
}

/// The rule by which states cross a break of the inputs.
pub trait JumpRule {
    /// Whether something happens at the start time, before anything else.
    fn acts_at_start(&self, time: f64) -> bool;

    /// Changes the states from their values before to those after.
    ///
    /// # Errors
    /// When the values after do not follow from the equations.
    fn cross(&mut self, crossing: &Crossing<'_>, states: &mut [f64]) -> Result<Crossed, JumpError>;
}

impl<T: JumpRule + ?Sized> JumpRule for &mut T {
    fn acts_at_start(&self, time: f64) -> bool {
        (**self).acts_at_start(time)
    }

    fn cross(&mut self, crossing: &Crossing<'_>, states: &mut [f64]) -> Result<Crossed, JumpError> {
        (**self).cross(crossing, states)
    }
}
