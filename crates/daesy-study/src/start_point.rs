//! What is known of all variables at the start of a study before anything is solved.

use daesy_graph::VarId;
use daesy_graph::flat::{FlatDae, VariableKind};
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

/// The same for a model with other values of parameters, or for an excerpt of it. Unknowns of the model that are inputs
/// of the excerpt are functions of time that nothing singles out.
#[must_use]
pub fn start_point_of(loaded: &Loaded, flat: &FlatDae, time: f64) -> Option<StartPoint> {
    let data = if loaded.has_data() { loaded.experiment(0).ok() } else { None };
    array_verdict::start_point(flat, time, &mut |asked: &InputsAtStart<'_>| {
        let per_input = usize::from(asked.n_derivatives) + 1;
        let is_given =
            |var: &VarId| loaded.flat.variables.get(var.index()).is_some_and(|whole| whole.kind == VariableKind::Input);
        let given: Vec<VarId> = asked.inputs.iter().copied().filter(is_given).collect();
        let inputs = given.iter().enumerate().map(|(at, var)| Input {
            name: flat.variables[var.index()].name.clone(),
            start: at * per_input,
            derivatives_needed: asked.n_derivatives,
        });
        let description =
            Description { inputs: inputs.collect(), n_inputs: given.len() * per_input, ..Description::default() };
        let parameters = ParameterValues { variables: asked.parameters, values: asked.values };
        let signals = StudyInputs::new(loaded, &description, &parameters, data.as_ref(), DataUse::Optional).ok()?;
        let mut slots = vec![0.0; description.n_inputs];
        signals.fill(time, true, &mut slots);
        let mut known = slots.chunks_exact(per_input);
        let of_input = |var: &VarId| -> Vec<f64> {
            if is_given(var) {
                return known.next().map_or_else(|| vec![0.0; per_input], <[f64]>::to_vec);
            }
            (0..per_input).map(|order| unremarkable(var.0, order as u32, time)).collect()
        };
        Some(asked.inputs.iter().flat_map(of_input).collect())
    })
}

/// A number between 0.5 and 1.5 that changes with all of its arguments.
fn unremarkable(var: u32, order: u32, time: f64) -> f64 {
    let mixed = u64::from(var) << 40 ^ u64::from(order) << 32 ^ time.to_bits().rotate_left(17);
    let scattered = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    0.5 + (scattered >> 40) as f64 / (1u64 << 24) as f64
}
