//! Units that integrate themselves: their values in the rows of a simulation.
//!
//! The flat model of such a unit knows its inputs and nothing else of it. It is simulated like any other, which gives
//! the rows with the inputs, two at every break of one; then the unit steps from row to row, the inputs of a row held
//! until the next, and what it gives takes the places of its variables.

use daesy_foreign::Unit;
use daesy_graph::foreign::ForeignFailure;
use daesy_integrate::Simulation;
use daesy_system::DaeSystem as _;

use daesy_study::prepare::Prepared;

/// Fills in what the unit gives at the rows of a simulation.
///
/// # Errors
/// What the unit says, when it fails.
pub(crate) fn fill_in(
    unit: &Unit,
    prepared: &Prepared,
    parameters: &[f64],
    simulation: &mut Simulation,
) -> Result<(), ForeignFailure> {
    let description = prepared.system.description();
    let place = |name: &str| description.observed.iter().position(|observed| observed == name);
    let input_places: Vec<Option<usize>> = unit.input_names().map(place).collect();
    let value_places: Vec<Option<usize>> = unit.value_names().map(place).collect();
    let regular = prepared.system.regular();
    let named = |name: &str| {
        let is_it = |var: &daesy_graph::VarId| regular.flat.variables[var.index()].name == name;
        regular.parameters.iter().position(is_it).and_then(|at| parameters.get(at).copied())
    };
    let defaults = unit.default_parameters();
    let own: Vec<f64> =
        unit.parameter_names().zip(defaults).map(|(name, value)| named(name).unwrap_or(value)).collect();
    // The last of the rows of one time has the inputs that hold from there on.
    let mut times: Vec<f64> = Vec::new();
    let mut last_rows: Vec<usize> = Vec::new();
    for (row, &time) in simulation.times.iter().enumerate() {
        if times.last() == Some(&time) {
            last_rows.pop();
        } else {
            times.push(time);
        }
        last_rows.push(row);
    }
    let mut stepped: Vec<Vec<f64>> = Vec::with_capacity(times.len());
    unit.step_through(
        &times,
        &own,
        &mut |at, values| {
            let row = &simulation.rows[last_rows[at]];
            for (value, place) in values.iter_mut().zip(&input_places) {
                if let Some(place) = place {
                    *value = row[*place];
                }
            }
        },
        &mut |values| stepped.push(values.to_vec()),
    )?;
    let ended = stepped.len();
    for (row, &time) in simulation.times.iter().enumerate() {
        let at = times.partition_point(|known| *known < time).min(ended.saturating_sub(1));
        for (place, value) in value_places.iter().zip(&stepped[at]) {
            if let Some(place) = place {
                simulation.rows[row][*place] = *value;
            }
        }
    }
    simulation.steps = ended.saturating_sub(1);
    if ended < times.len() {
        let n_rows = last_rows[ended.saturating_sub(1)] + 1;
        simulation.times.truncate(n_rows);
        simulation.rows.truncate(n_rows);
    }
    Ok(())
}
