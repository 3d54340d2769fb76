//! Explicit Runge-Kutta steps.
//!
//! The rates at the end of a step are those at the beginning of the next, so that a step of s stages solves for the
//! unknowns s times and has the rate at its end for an error estimate: the last stage replaced by it gives a method of
//! one order less,
//!
//! ```text
//! order 4:  s1 - s1^ = h/6 (K4 - K5),  order 3        K5 the rate at the end
//! order 3:  s1 - s1^ = h/6 (K3 - K4),  order 2
//! ```
//!
//! Where rates depend on time alone both are zero, however long the step. Where equations depend on time explicitly,
//! one more stage looks at the rate K at a fraction c of the step, with states by the cubic through both ends, and
//! compares it with the parabola through the rates at the beginning, the middle and the end that the step integrates,
//!
//! ```text
//! h/6 (K - 2 (c - 1/2) (c - 1) K1 - 4 c (1 - c) Km - 2 c (c - 1/2) K5) = O(h^4),     Km = (K2 + K3) / 2
//! ```
//!
//! c = (5 - sqrt(5)) / 10 divides the step into parts without a common measure, so that no oscillation looks constant
//! at all four points.

use daesy_system::StepMethod;

use super::blueprint::{Draft, NEWTON_STEPS};
use crate::operation::Binary;
use crate::tape::Value;

/// Nodes of both methods beside the beginning.
pub(super) const NODES: [f64; 2] = [0.5, 1.0];

/// The node before them where a step looks at the rates once more.
pub(super) const LOOK: f64 = 0.276_393_202_250_021;

/// The nodes of a step, with or without a look at the rates.
pub(super) fn nodes(has_look: bool) -> Vec<f64> {
    has_look.then_some(LOOK).into_iter().chain(NODES).collect()
}

/// A stage: its node, and the weights of earlier rates.
struct Stage {
    /// Position in [`NODES`].
    node: usize,
    weights: &'static [f64],
}

struct Tableau {
    stages: &'static [Stage],
    weights: &'static [f64],
    /// Weight of the last stage's rate minus that at the end in the error.
    error: f64,
}

/// Kutta's method [@hairer1993, sec. II.1].
const ORDER_3: Tableau = Tableau {
    stages: &[Stage { node: 0, weights: &[0.5] }, Stage { node: 1, weights: &[-1.0, 2.0] }],
    weights: &[1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0],
    error: 1.0 / 6.0,
};

/// The classical method [@hairer1993, sec. II.1].
const ORDER_4: Tableau = Tableau {
    stages: &[
        Stage { node: 0, weights: &[0.5] },
        Stage { node: 0, weights: &[0.0, 0.5] },
        Stage { node: 1, weights: &[0.0, 0.0, 1.0] },
    ],
    weights: &[1.0 / 6.0, 2.0 / 6.0, 2.0 / 6.0, 1.0 / 6.0],
    error: 1.0 / 6.0,
};

/// The outputs of a step: carried rows, error, growth.
pub(super) struct StepOutputs {
    pub(super) carried: Vec<Value>,
    pub(super) error: Value,
}

/// Writes a step.
pub(super) fn step(draft: &mut Draft<'_>, method: StepMethod) -> StepOutputs {
    let tableau = if method == StepMethod::Explicit3 { ORDER_3 } else { ORDER_4 };
    let n = draft.blueprint.n_states();
    let has_look = draft.blueprint.depends_on_time;
    let first_node = usize::from(has_look);
    let start = draft.states();
    let mut unknowns = draft.carried_unknowns();
    let wanted = draft.blueprint.step_unknowns.clone();
    let mut rates: Vec<Vec<Value>> = vec![(0..n).map(|at| draft.rate(at, &start, &unknowns)).collect()];
    for stage in tableau.stages {
        let states = advance(draft, &start, &rates, stage.weights);
        let time = draft.node_time(NODES[stage.node]);
        let around = draft.around(first_node + stage.node, time);
        unknowns = draft.solve(&around, &states, &unknowns, &wanted, NEWTON_STEPS);
        rates.push((0..n).map(|at| draft.rate(at, &states, &unknowns)).collect());
    }
    let end = advance(draft, &start, &rates, tableau.weights);
    let time = draft.node_time(1.0);
    let around = draft.around(first_node + NODES.len() - 1, time);
    let end = draft.project(&around, &end);
    unknowns = draft.solve(&around, &end, &unknowns, &wanted, NEWTON_STEPS);
    let last_rates: Vec<Value> = (0..n).map(|at| draft.rate(at, &end, &unknowns)).collect();
    let factor = draft.builder.constant(tableau.error);
    let factor = draft.builder.mul(factor, draft.step);
    let mut errors = Vec::with_capacity(n);
    for at in 0..n {
        let last = rates[tableau.stages.len()][at];
        errors.push(draft.builder.sub(last, last_rates[at]));
    }
    let mut norm = draft.error_norm(&errors);
    if has_look {
        let ends = Ends { start: &start, end: &end, first: &rates[0], last: &last_rates };
        let differences = look(draft, &ends, &rates[1..tableau.stages.len()], &unknowns, &wanted);
        let of_look = draft.error_norm(&differences);
        norm = draft.builder.binary(Binary::Max, norm, of_look);
    }
    let error = draft.builder.mul(factor, norm);
    StepOutputs { carried: draft.carry(&end, &unknowns), error }
}

/// States and rates at both ends of a step.
struct Ends<'v> {
    start: &'v [Value],
    end: &'v [Value],
    first: &'v [Value],
    last: &'v [Value],
}

/// The rates at the fraction `LOOK` of a step less those of the parabola through both ends and the middle, whose rates
/// are the mean of the stages there.
fn look(draft: &mut Draft<'_>, ends: &Ends<'_>, middle: &[Vec<Value>], guess: &[Value], wanted: &[bool]) -> Vec<Value> {
    const C: f64 = LOOK;
    let n = ends.start.len();
    let zero = draft.builder.constant(0.0);
    let scaled = |draft: &mut Draft<'_>, factor: f64| {
        let factor = draft.builder.constant(factor);
        draft.builder.mul(factor, draft.step)
    };
    let (rest, one) = (1.0 - C, 1.0);
    let of_start = draft.builder.constant((one + 2.0 * C) * rest * rest);
    let of_end = draft.builder.constant(C * C * (3.0 - 2.0 * C));
    let (of_first, of_last) = (scaled(draft, C * rest * rest), scaled(draft, -C * C * rest));
    let states: Vec<Value> = (0..n)
        .map(|at| {
            let terms = [
                (of_start, ends.start[at]),
                (of_end, ends.end[at]),
                (of_first, ends.first[at]),
                (of_last, ends.last[at]),
            ];
            draft.combine(zero, &terms)
        })
        .collect();
    let time = draft.node_time(C);
    let around = draft.around(0, time);
    let unknowns = draft.solve(&around, &states, guess, wanted, NEWTON_STEPS);
    let share = 1.0 / middle.len() as f64;
    let of_first = draft.builder.constant(-2.0 * (C - 0.5) * (C - 1.0));
    let of_middle = draft.builder.constant(-4.0 * C * rest * share);
    let of_last = draft.builder.constant(-2.0 * C * (C - 0.5));
    (0..n)
        .map(|at| {
            let here = draft.rate(at, &states, &unknowns);
            let mut terms = vec![(of_first, ends.first[at]), (of_last, ends.last[at])];
            terms.extend(middle.iter().map(|rates| (of_middle, rates[at])));
            draft.combine(here, &terms)
        })
        .collect()
}

/// `s + h sum of weight * rate`
fn advance(draft: &mut Draft<'_>, start: &[Value], rates: &[Vec<Value>], weights: &[f64]) -> Vec<Value> {
    let factors: Vec<Value> = weights
        .iter()
        .map(|&weight| {
            let weight = draft.builder.constant(weight);
            draft.builder.mul(weight, draft.step)
        })
        .collect();
    (0..start.len())
        .map(|at| {
            let terms: Vec<(Value, Value)> =
                factors.iter().zip(rates).map(|(&factor, rates)| (factor, rates[at])).collect();
            draft.combine(start[at], &terms)
        })
        .collect()
}
