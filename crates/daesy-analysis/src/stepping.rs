//! Units that integrate themselves: their values in the rows of a simulation.
//!
//! The flat model of such a unit knows its inputs and nothing else of it. It is simulated like any other, which gives
//! the rows with the inputs, two at every break of one; then the unit steps from row to row, the inputs of a row held
//! until the next, and what it gives takes the places of its variables.
//!
//! A row before a break has the outputs after the step that led there. Every other row has the outputs at the inputs
//! beside them, if the unit can be read after they were set; else those after the step too, and a note says so.

use daesy_foreign::Unit;
use daesy_foreign::unit::SteppedRow;
use daesy_graph::foreign::ForeignFailure;
use daesy_graph::{Finding, Span};
use daesy_integrate::{Inputs as _, Simulation, Termination};
use daesy_system::DaeSystem as _;
use daesy_transfer::Transferred;

use daesy_study::inputs::StudyInputs;
use daesy_study::prepare::Prepared;

/// Fills in what the unit gives at the rows of a simulation.
///
/// # Errors
/// What the unit says, when it fails.
pub(crate) fn fill_in(
    unit: &Unit,
    prepared: &Prepared,
    parameters: &[f64],
    inputs: &StudyInputs,
    traced: &mut Transferred,
) -> Result<(), ForeignFailure> {
    if unit.can_look() {
        take_last_inputs(prepared, inputs, &mut traced.simulation);
    }
    let simulation = &mut traced.simulation;
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
    let mut stepped: Vec<SteppedRow> = Vec::with_capacity(times.len());
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
        &mut |row| stepped.push(row),
    )?;
    simulation.steps = stepped.len().saturating_sub(1);
    if let Some(last) = stepped.last().filter(|last| last.is_over) {
        end_at(traced, last.time, &last_rows[..stepped.len()]);
    }
    let simulation = &mut traced.simulation;
    let mut at = 0;
    for (number, row) in simulation.rows.iter_mut().enumerate() {
        let values = if number < last_rows[at] { &stepped[at].before } else { &stepped[at].after };
        for (place, value) in value_places.iter().zip(values) {
            if let Some(place) = place {
                row[*place] = *value;
            }
        }
        at += usize::from(number == last_rows[at]);
    }
    let is_moved = |place: &&usize| simulation.rows.windows(2).any(|pair| pair[0][**place] != pair[1][**place]);
    if let Some(&moved) = input_places.iter().flatten().find(is_moved).filter(|_| !unit.can_look()) {
        let name = &description.observed[moved];
        let message = format!(
            "rows show the outputs of the unit after the step that led there, which it took with the inputs of the row \
             before: the standard does not let one read them at the new value of `{name}` before the next step"
        );
        let mut finding = Finding::note("fmu-held-inputs", Span::NONE, message);
        finding.help = Some(
            "take shorter rows, or a unit for Model Exchange, whose rows satisfy its equations at their inputs"
                .to_owned(),
        );
        traced.findings.push(finding);
    }
    Ok(())
}

/// A simulation ends before a break of the inputs at its end. What a unit makes of the inputs after it, such as the last
/// sample of a filter, is a row of its own.
fn take_last_inputs(prepared: &Prepared, inputs: &StudyInputs, simulation: &mut Simulation) {
    let description = prepared.system.description();
    let (Some(&time), Some(mut row)) = (simulation.times.last(), simulation.rows.last().cloned()) else { return };
    if simulation.times.first() == Some(&time) {
        return;
    }
    let mut values = vec![0.0; description.n_inputs];
    inputs.fill(time, true, &mut values);
    for input in &description.inputs {
        if let Some(place) = description.observed.iter().position(|observed| *observed == input.name) {
            row[place] = values[input.start];
        }
    }
    if simulation.rows.last() != Some(&row) {
        simulation.times.push(time);
        simulation.rows.push(row);
        simulation.jumps.push(simulation.rows.len() - 1);
    }
}

/// Ends a simulation at a time up to which the unit came with the inputs of the row before; `last_rows` are the last
/// rows of the times up to the one that it was to reach.
fn end_at(traced: &mut Transferred, time: f64, last_rows: &[usize]) {
    let simulation = &mut traced.simulation;
    let &[.., before, _] = last_rows else { return };
    let n_rows = before + 2;
    simulation.times.truncate(n_rows);
    simulation.rows.truncate(n_rows);
    if let (Some(last), Some(row)) = (simulation.times.last_mut(), simulation.rows.get(before).cloned()) {
        *last = time;
        simulation.rows[before + 1] = row;
    }
    simulation.jumps.retain(|row| *row < n_rows);
    traced.events.retain(|event| event.time < time);
    let message = "the unit ended the simulation".to_owned();
    simulation.termination = Some(Termination { time, message, place: String::new() });
}
