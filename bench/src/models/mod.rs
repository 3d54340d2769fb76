//! Models twice: as equations for daesy, and written by hand as lane loops over `[variable][lane]`.
//!
//! Hand-written residuals are those of the regular form: constraints differentiated twice where the model has index 3.
//! Their states are all derivatives below the highest, variable by variable; their unknowns the highest ones.

pub mod amplifier;
pub mod ladder;
pub mod pendulum;
pub mod squeezer;

use daesy_graph::flat::FlatDae;

use crate::expression::{Expression, FlatBuilder};
use crate::lanes::{Mathematics, Parameters, Row, Values};

/// A model with its hand-written rival.
pub trait Model: Values + Copy {
    /// What it is called.
    const NAME: &'static str;
    /// Names of the parameters; their numbers are `VALUES`.
    const PARAMETERS: &'static [&'static str];
    /// Number of states.
    const N_STATES: usize;
    /// Number of unknowns, and of residuals.
    const N_UNKNOWNS: usize;

    /// Writes down unknowns and equations.
    fn describe<'m>(model: &'m FlatBuilder, parameters: &[Expression<'m>]);

    /// The residuals in the order of the equations.
    fn residual<const LANES: usize, P: Parameters<LANES>, M: Mathematics>(
        time: f64,
        states: &[Row<LANES>],
        unknowns: &[Row<LANES>],
        parameters: &P,
        residuals: &mut [Row<LANES>],
    );

    /// States near which residuals are evaluated.
    fn typical_states() -> Vec<f64> {
        vec![0.5; Self::N_STATES]
    }

    /// The flat model.
    #[must_use]
    fn flat(parameters: ParameterKind) -> FlatDae {
        let model = FlatBuilder::default();
        let values: Vec<Expression> = (Self::PARAMETERS.iter().zip(Self::VALUES))
            .map(|(&name, &value)| match parameters {
                ParameterKind::Literal => model.number(value),
                ParameterKind::PerLane => model.parameter(name, value),
            })
            .collect();
        Self::describe(&model, &values);
        drop(values);
        model.finish(Self::NAME)
    }
}

/// How a model has its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterKind {
    /// Folded into the equations.
    Literal,
    /// An input of the compiled code, with a value for each lane.
    PerLane,
}

/// The rows as an array of known length, so that no access is checked again.
fn rows<const LANES: usize, const N: usize>(rows: &[Row<LANES>]) -> &[Row<LANES>; N] {
    rows.try_into().expect("the caller hands over as many rows as the model has")
}

fn rows_mut<const LANES: usize, const N: usize>(rows: &mut [Row<LANES>]) -> &mut [Row<LANES>; N] {
    rows.try_into().expect("the caller hands over as many rows as the model has")
}
