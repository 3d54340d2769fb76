//! Which variable makes an equation have no finite value: the one that gives it a value by moving least.

use daesy_system::{DaeSystem, Evaluator, Part};

use crate::equations::Surroundings;

/// Moves that are tried, relative to the size of the variable.
const MOVES: [f64; 6] = [1e-6, 1e-3, 0.1, 1.0, 2.1, 100.0];

/// Variables of one equation that are tried.
const MAX_TRIED: usize = 60;

/// A variable and its value.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Culprit {
    pub(crate) name: String,
    pub(crate) value: f64,
}

/// A vector-valued part with its derivatives by states, unknowns and parameters.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    pub(crate) part: Part,
    pub(crate) by_states: Part,
    pub(crate) by_unknowns: Option<Part>,
    pub(crate) by_parameters: Part,
}

/// Residuals.
pub(crate) const RESIDUALS: Family = Family {
    part: Part::Residual,
    by_states: Part::ResidualByStates,
    by_unknowns: Some(Part::ResidualByUnknowns),
    by_parameters: Part::ResidualByParameters,
};

/// Constraints.
pub(crate) const CONSTRAINTS: Family = Family {
    part: Part::Constraint,
    by_states: Part::ConstraintByStates,
    by_unknowns: None,
    by_parameters: Part::ConstraintByParameters,
};

/// Conditions of the start.
pub(crate) const CONDITIONS: Family = Family {
    part: Part::Initial,
    by_states: Part::InitialByStates,
    by_unknowns: Some(Part::InitialByUnknowns),
    by_parameters: Part::InitialByParameters,
};

/// Which of the groups of values a candidate belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    State,
    Unknown,
    Parameter,
}

struct Candidate {
    group: Group,
    at: usize,
    name: String,
    value: f64,
    size: f64,
}

/// Finds the variable that keeps a row from having a finite value; an empty name if the row holds none, or the model
/// runs elsewhere.
pub(crate) fn find_culprit(
    system: &dyn DaeSystem,
    family: Family,
    row: usize,
    around: &Surroundings<'_>,
    states: &[f64],
    unknowns: &[f64],
) -> Culprit {
    if system.is_elsewhere() {
        // Other values mean other instances there, and what went wrong is told by the unit.
        return Culprit::default();
    }
    let description = system.description();
    let columns = |part: Part| {
        let pattern = system.pattern(part);
        let range = if row < pattern.n_rows { pattern.row(row) } else { 0..0 };
        range.map(|entry| pattern.columns[entry] as usize).collect::<Vec<_>>()
    };
    let size = |value: f64, nominal: f64| if value == 0.0 { nominal } else { value.abs() };
    let mut candidates = Vec::new();
    for at in family.by_unknowns.map(columns).unwrap_or_default() {
        let (known, value) = (&description.unknowns[at], unknowns[at]);
        let (name, size) = (known.name.clone(), size(value, known.nominal));
        candidates.push(Candidate { group: Group::Unknown, at, name, value, size });
    }
    for at in columns(family.by_states) {
        let (known, value) = (&description.states[at], states[at]);
        let (name, size) = (known.name.clone(), size(value, known.nominal));
        candidates.push(Candidate { group: Group::State, at, name, value, size });
    }
    for at in columns(family.by_parameters) {
        let value = around.parameters[at];
        let (name, size) = (description.parameters[at].clone(), size(value, 1.0));
        candidates.push(Candidate { group: Group::Parameter, at, name, value, size });
    }
    candidates.truncate(MAX_TRIED);
    let mut evaluator = system.evaluator();
    let mut moved = [states.to_vec(), unknowns.to_vec(), around.parameters.to_vec()];
    for share in MOVES {
        for candidate in &candidates {
            for sign in [1.0, -1.0] {
                moved[candidate.group as usize][candidate.at] = candidate.value + sign * share * candidate.size;
                let is_healed = has_value(system, &mut *evaluator, family, row, around, &moved);
                moved[candidate.group as usize][candidate.at] = candidate.value;
                if is_healed {
                    return Culprit { name: candidate.name.clone(), value: candidate.value };
                }
            }
        }
    }
    candidates.first().map_or_else(Culprit::default, |first| Culprit { name: first.name.clone(), value: first.value })
}

/// Whether a row and its derivatives have finite values.
fn has_value(
    system: &dyn DaeSystem,
    evaluator: &mut dyn Evaluator,
    family: Family,
    row: usize,
    around: &Surroundings<'_>,
    moved: &[Vec<f64>; 3],
) -> bool {
    let around = Surroundings { parameters: &moved[2], ..*around };
    let point = around.point(&moved[0], &moved[1]);
    let parts = [Some(family.part), Some(family.by_states), family.by_unknowns];
    parts.into_iter().flatten().all(|part| {
        let pattern = system.pattern(part);
        let mut values = vec![0.0; pattern.n_entries()];
        evaluator.evaluate(part, &point, &mut values);
        pattern.row(row).all(|entry| values[entry].is_finite())
    })
}
