//! Assertions of a model along the records of a study, for verbs that do not simulate: what the model says of itself
//! holds for estimates too.

use daesy_graph::VarId;
use daesy_graph::finding::Level;
use daesy_graph::flat::{FlatDae, WhenAction};
use daesy_integrate::SimulateOptions;

use super::Simulator;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use daesy_study::prepare::start_time;
use daesy_study::study::InitialMode;

/// Which assertions do not hold along the records of a study, at other values of some parameters: the model runs with
/// its known inputs and without disturbances. What cannot be looked at is said.
#[must_use]
pub fn failing_assertions(loaded: &Loaded, given: &[(VarId, f64)]) -> Vec<Diagnostic> {
    if !has_assertions(&loaded.flat) || !loaded.has_data() {
        return Vec::new();
    }
    let mode = loaded.study.as_ref().map(|study| study.initial.mode);
    if matches!(mode, Some(InitialMode::Estimate | InitialMode::Diffuse)) {
        return vec![unchecked("the start is estimated, and the model does not say where to begin")];
    }
    let mut loaded = loaded.clone();
    for &(var, value) in given {
        let value = loaded.flat.graph.number(value);
        loaded.flat.variables[var.index()].binding = Some(value);
    }
    let mut told: Vec<Diagnostic> = Vec::new();
    match look_along(&loaded) {
        Ok(found) => {
            for diagnostic in found {
                // The first record in which an assertion fails speaks for all.
                if !told.iter().any(|known| known.place == diagnostic.place && known.code == diagnostic.code) {
                    told.push(diagnostic);
                }
            }
        }
        Err(failure) => {
            let cause = failure.diagnostics().first().map(|cause| cause.message.clone());
            told.push(unchecked(&cause.unwrap_or_default()));
        }
    }
    told
}

fn has_assertions(flat: &FlatDae) -> bool {
    let branches = flat.when_clauses.iter().flat_map(|clause| &clause.branches);
    let mut actions = branches.flat_map(|branch| &branch.actions);
    !flat.assertions.is_empty() || actions.any(|action| matches!(action, WhenAction::Assert(_)))
}

fn unchecked(cause: &str) -> Diagnostic {
    let message = format!("whether the assertions of the model hold along the records is not known: {cause}");
    Diagnostic::note("assertion-unchecked", message)
}

/// Runs the model over every record.
fn look_along(loaded: &Loaded) -> Result<Vec<Diagnostic>, Failure> {
    let mut simulator = Simulator::new(loaded)?;
    let mut told = Vec::new();
    for record in 0..loaded.n_experiments() {
        let options = simulator.over_record(loaded, record)?;
        match simulator.try_trace(&options) {
            Ok(traced) => told.extend(traced.simulation.warnings.iter().map(|warned| {
                Diagnostic::error("assertion", format!("assertion at t = {}: {}", warned.time, warned.message))
                    .at_place(&warned.place)
            })),
            Err(stopped) if stopped.is_asserted => told.extend(stopped.failure.diagnostics().iter().cloned()),
            Err(stopped) => return Err(stopped.failure),
        }
    }
    let is_disturbed = loaded.study.as_ref().is_some_and(|study| !study.disturbances.is_empty());
    let how = if is_disturbed { "along the record, without disturbances" } else { "along the record" };
    let say = |diagnostic: Diagnostic| {
        let message = format!("{} ({how})", diagnostic.message);
        Diagnostic { message, ..diagnostic }.with_level(Level::Warning)
    };
    Ok(told.into_iter().map(say).collect())
}

impl Simulator {
    /// Takes inputs from a record of the study; the options run over it.
    fn over_record(&mut self, loaded: &Loaded, record: usize) -> Result<SimulateOptions, Failure> {
        for prepared in std::iter::once(&mut self.prepared).chain(&mut self.complete) {
            prepared.use_experiment(loaded, record)?;
        }
        let data = self.prepared.data.as_deref();
        let start = start_time(loaded, data);
        let stop = data.and_then(|data| data.times.last().copied()).unwrap_or(start).max(start);
        Ok(SimulateOptions { start, stop, output_times: vec![start, stop], ..self.options.clone() })
    }
}
