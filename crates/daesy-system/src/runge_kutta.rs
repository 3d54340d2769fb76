//! A step of an explicit Runge-Kutta method as one program, for systems whose unknowns have a closed form.
//!
//! ```text
//! s_i = s_1 + h sum_j a_ij k_j,   k_i = S(s_i, V(t + c_i h, s_i)),   i = 2 .. stages,   s_end = s_1 + h sum_j b_j k_j
//! ```
//!
//! Bit for bit the result is that of the same operations one after the other, sums from the left and without terms
//! whose coefficient is zero.

/// Coefficients of an explicit Runge-Kutta method [@hairer1993, sec. II.1].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExplicitMethod<'a> {
    /// c_i of all stages.
    pub nodes: &'a [f64],
    /// a_ij of all stages, the first row empty; then b_j.
    pub rows: &'a [&'a [f64]],
    /// Weights of rates whose sums are wanted too.
    pub estimates: &'a [&'a [f64]],
}

impl ExplicitMethod<'_> {
    /// Number of stages.
    #[must_use]
    pub const fn n_stages(&self) -> usize {
        self.nodes.len()
    }
}

/// Where a step begins.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExplicitStart<'a> {
    /// Time.
    pub time: f64,
    /// h
    pub step: f64,
    /// Time at the end, which the last stage has: time + step but for rounding.
    pub end: f64,
    /// s_1
    pub states: &'a [f64],
    /// k_1
    pub rates: &'a [f64],
    /// Values of all parameters.
    pub parameters: &'a [f64],
    /// Inputs with their derivatives at all stages but the first, one stage after the other.
    pub inputs: &'a [f64],
    /// Values of all modes.
    pub modes: &'a [f64],
}

/// Takes steps of an explicit method.
pub trait ExplicitSteps {
    /// Writes the results of a step, which follow each other:
    ///
    /// - k_i of all stages but the first,
    /// - the states of the last stage,
    /// - the states at the end,
    /// - the unknowns of the last stage,
    /// - the sums that are wanted too.
    ///
    /// Where the unknowns have no value, some of them are not finite. Vectors of other lengths than the system has
    /// leave the results as they are.
    fn run(&mut self, start: &ExplicitStart<'_>, results: &mut [f64]);
}

/// Something that pays only when it is used often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer<T> {
    /// Ask again: it has not been asked for often enough.
    NotYet,
    /// Do not ask again.
    Never,
    /// Here it is.
    Ready(T),
}
