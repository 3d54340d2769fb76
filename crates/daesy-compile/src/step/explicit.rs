//! Explicit Runge-Kutta steps.
//!
//! The rates at the end of a step are those at the beginning of the next, so that a step of s stages solves for the unknowns s times
//! and has the rate at its end for an error estimate: the last stage replaced by it gives a method of one order less,
//!
//! ```text
//! order 4:  s1 - s1^ = h/6 (K4 - K5),  order 3        K5 the rate at the end
//! order 3:  s1 - s1^ = h/6 (K3 - K4),  order 2
//! ```

use daesy_system::StepMethod;

use super::blueprint::{Draft, NEWTON_STEPS};
use crate::tape::Value;

/// Nodes of both methods beside the beginning.
pub(super) const NODES: [f64; 2] = [0.5, 1.0];

/// A stage: its node, and the weights of earlier rates.
struct Stage {
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
    let start = draft.states();
    let mut unknowns = draft.carried_unknowns();
    let wanted = draft.blueprint.step_unknowns.clone();
    let mut rates: Vec<Vec<Value>> = vec![(0..n).map(|at| draft.rate(at, &start, &unknowns)).collect()];
    for stage in tableau.stages {
        let states = advance(draft, &start, &rates, stage.weights);
        let time = draft.node_time(NODES[stage.node]);
        let around = draft.around(stage.node, time);
        unknowns = draft.solve(&around, &states, &unknowns, &wanted, NEWTON_STEPS);
        rates.push((0..n).map(|at| draft.rate(at, &states, &unknowns)).collect());
    }
    let end = advance(draft, &start, &rates, tableau.weights);
    let time = draft.node_time(1.0);
    let around = draft.around(NODES.len() - 1, time);
    let end = draft.project(&around, &end);
    unknowns = draft.solve(&around, &end, &unknowns, &wanted, NEWTON_STEPS);
    let factor = draft.builder.constant(tableau.error);
    let factor = draft.builder.mul(factor, draft.step);
    let mut errors = Vec::with_capacity(n);
    for at in 0..n {
        let last = rates[tableau.stages.len()][at];
        let new = draft.rate(at, &end, &unknowns);
        errors.push(draft.builder.sub(last, new));
    }
    let norm = draft.error_norm(&errors);
    let error = draft.builder.mul(factor, norm);
    StepOutputs { carried: draft.carry(&end, &unknowns), error }
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
