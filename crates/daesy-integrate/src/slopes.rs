//! Slopes where a derivative is infinite though the function has a value, as that of sqrt(x) at 0 or of asin(y) at 1.
//!
//! Explicit steps need no derivative there. Newton's method and implicit steps take the slope of a short chord instead,
//! to whichever side the function has a value:
//!
//! ```text
//! (f(x + d) - f(x)) / d,     d = +-1e-8 max(|x|, nominal)
//! ```

use daesy_system::{DaeSystem, Evaluator, Part, Point};

/// Length of the chord, relative to the size of the variable.
const CHORD: f64 = 1e-8;

/// What became of a derivative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slopes {
    /// It is finite as it is.
    Finite,
    /// Slopes of chords took the place of infinite ones; the first was in this row.
    Mended {
        /// The row.
        row: usize,
    },
    /// The function itself has no value.
    NotFinite,
}

/// What a part differentiates, and by what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    States,
    Unknowns,
    Time,
}

fn origin(part: Part) -> Option<(Part, By)> {
    match part {
        Part::ResidualByStates => Some((Part::Residual, By::States)),
        Part::ResidualByUnknowns => Some((Part::Residual, By::Unknowns)),
        Part::ResidualByTime => Some((Part::Residual, By::Time)),
        Part::ConstraintByStates => Some((Part::Constraint, By::States)),
        Part::InitialByStates => Some((Part::Initial, By::States)),
        Part::InitialByUnknowns => Some((Part::Initial, By::Unknowns)),
        Part::StartByStates => Some((Part::Start, By::States)),
        Part::StartByUnknowns => Some((Part::Start, By::Unknowns)),
        _ => None,
    }
}

/// Replaces entries of a derivative that are not finite by slopes of chords.
pub(crate) fn mend(
    system: &dyn DaeSystem,
    evaluator: &mut dyn Evaluator,
    part: Part,
    point: &Point<'_>,
    values: &mut [f64],
) -> Slopes {
    let pattern = system.pattern(part);
    let Some(first) = values.iter().position(|value| !value.is_finite()) else { return Slopes::Finite };
    let Some((function, by)) = origin(part) else { return Slopes::NotFinite };
    let mut here = vec![0.0; system.pattern(function).n_rows];
    let mut there = here.clone();
    evaluator.evaluate(function, point, &mut here);
    let entries: Vec<(usize, usize)> = pattern.entries().collect();
    let mut columns: Vec<usize> =
        (0..values.len()).filter(|&entry| !values[entry].is_finite()).map(|entry| entries[entry].1).collect();
    columns.sort_unstable();
    columns.dedup();
    for column in columns {
        for sign in [1.0, -1.0] {
            let distance = evaluate_beside(system, evaluator, function, by, point, column, sign, &mut there);
            for (entry, &(row, of)) in entries.iter().enumerate() {
                let slope = (there[row] - here[row]) / distance;
                if of == column && !values[entry].is_finite() && slope.is_finite() {
                    values[entry] = slope;
                }
            }
        }
    }
    if values.iter().all(|value| value.is_finite()) {
        Slopes::Mended { row: entries[first].0 }
    } else {
        Slopes::NotFinite
    }
}

/// Evaluates a function with one variable moved a little; gives by how much.
#[allow(clippy::too_many_arguments, reason = "a closure over all of them, written out for the borrow of the evaluator")]
fn evaluate_beside(
    system: &dyn DaeSystem,
    evaluator: &mut dyn Evaluator,
    function: Part,
    by: By,
    point: &Point<'_>,
    column: usize,
    sign: f64,
    values: &mut [f64],
) -> f64 {
    let description = system.description();
    let moved = |value: f64, nominal: f64| value + sign * CHORD * value.abs().max(nominal);
    let (mut states, mut unknowns, mut time) = (point.states.to_vec(), point.unknowns.to_vec(), point.time);
    let distance = match by {
        By::States => {
            states[column] = moved(states[column], description.states[column].nominal);
            states[column] - point.states[column]
        }
        By::Unknowns => {
            unknowns[column] = moved(unknowns[column], description.unknowns[column].nominal);
            unknowns[column] - point.unknowns[column]
        }
        By::Time => {
            time = moved(time, 1.0);
            time - point.time
        }
    };
    evaluator.evaluate(function, &Point { time, states: &states, unknowns: &unknowns, ..*point }, values);
    distance
}
