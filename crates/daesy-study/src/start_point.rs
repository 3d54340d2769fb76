//! What is known of all variables at the start of a study before anything is solved.

use daesy_graph::flat::FlatDae;
use daesy_integrate::Inputs;
use daesy_structure::array_verdict::{self, InputsAtStart, StartPoint};
use daesy_system::{Description, Input};

use crate::inputs::{ParameterValues, StudyInputs};
use crate::load::Loaded;
use crate::prepare::DataUse;

/// Gathers parameters, inputs and start values; None if one of them has no value.
#[must_use]
pub fn start_point(loaded: &Loaded, time: f64) -> Option<StartPoint> {
    start_point_of(loaded, &loaded.flat, time)
}

/// The same for a model with other values of parameters.
pub(crate) fn start_point_of(loaded: &Loaded, flat: &FlatDae, time: f64) -> Option<StartPoint> {
    let data = if loaded.has_data() { loaded.experiment(0).ok() } else { None };
    array_verdict::start_point(flat, time, &mut |asked: &InputsAtStart<'_>| {
        let per_input = usize::from(asked.n_derivatives) + 1;
        let inputs = asked.inputs.iter().enumerate().map(|(at, var)| Input {
            name: flat.variables[var.index()].name.clone(),
            start: at * per_input,
            derivatives_needed: asked.n_derivatives,
        });
        let description = Description {
            inputs: inputs.collect(),
            n_inputs: asked.inputs.len() * per_input,
            ..Description::default()
        };
        let parameters = ParameterValues { variables: asked.parameters, values: asked.values };
        let signals = StudyInputs::new(loaded, &description, &parameters, data.as_ref(), DataUse::Optional).ok()?;
        let mut slots = vec![0.0; description.n_inputs];
        signals.fill(time, true, &mut slots);
        Some(slots)
    })
}
