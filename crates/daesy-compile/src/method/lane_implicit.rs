//! Diagonally implicit Runge-Kutta steps for stiff systems.
//!
//! The L-stable, stiffly accurate method of order 3 with three stages [@alexander1977, sec. 3.2], gamma the root
//! 0.4358.. of x^3 - 3 x^2 + 3/2 x - 1/6. A stage solves F(t, s, v) = 0 with s = base + h gamma S(s, v) for the
//! unknowns v alone: every carried state is `base + (h gamma)^k v_u` for one unknown u, so that the matrix of
//! Newton's method is
//!
//! ```text
//! J = dF/dv + sum over states of dF/ds (h gamma)^k e_u'
//! ```
//!
//! It is factored once per step. The first stage takes two Newton steps from the values at the start, the others one
//! from values extrapolated through the earlier stages.

use daesy_graph::{GradientEntry, Graph};
use daesy_system::{DaeSystem, Part, ReferencePoint, StepProgramError, StepRequest};
use rustc_hash::FxHashMap;

use super::blueprint::{Batch, Blueprint, CarriedRate, Draft, StateSource, evaluate, is_parameter_only};
use super::eliminate::{Factors, PivotOrder, Place};
use super::lane_explicit::StepOutputs;
use crate::lower::CompiledSystem;
use crate::tape::Value;

const GAMMA: f64 = 0.435_866_521_508_458_999_416_019_451_193_56;

/// Nodes of the stages.
pub(super) const NODES: [f64; 3] = [GAMMA, 0.5 * (1.0 + GAMMA), 1.0];

/// Weights of earlier rates in stages 2 and 3; the diagonal is gamma. The last row are the weights of the method.
const STAGE_2: [f64; 1] = [0.5 * (1.0 - GAMMA)];
const STAGE_3: [f64; 2] =
    [-(6.0 * GAMMA * GAMMA - 16.0 * GAMMA + 1.0) / 4.0, (6.0 * GAMMA * GAMMA - 20.0 * GAMMA + 5.0) / 4.0];

/// A single Newton step may be this much larger than the last of two, as one more would have made it smaller.
const SINGLE_STEP_ALLOWANCE: f64 = 1e-3;

/// How a carried state depends on the unknowns of a stage: `sign * (h gamma)^power` times one of them.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Reach {
    unknown: usize,
    power: i32,
    sign: f64,
}

/// An entry of Newton's matrix before it is summed up: expression number `at` times `sign * (h gamma)^power`.
#[derive(Clone, Copy, Debug)]
struct Term {
    place: Place,
    power: i32,
    sign: f64,
}

/// What the plan is made from.
pub(super) struct Parts<'p> {
    pub(super) graph: &'p Graph,
    pub(super) sources: &'p [StateSource],
    pub(super) rates: &'p [CarriedRate],
    pub(super) step_unknowns: &'p [bool],
    pub(super) by_unknowns: &'p [Vec<GradientEntry>],
    pub(super) by_states: &'p [Vec<GradientEntry>],
    pub(super) samples: &'p [ReferencePoint],
}

/// An unknown that an equation makes equal or opposite to another.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Alias {
    unknown: usize,
    of: usize,
    sign: f64,
}

/// How Newton's method runs in a stage.
pub(super) struct NewtonPlan {
    /// Carried states in an order in which each needs earlier ones only.
    chain: Vec<usize>,
    /// Unknowns that Newton's method solves for.
    unknowns: Vec<usize>,
    /// The others, each after the one it follows.
    aliases: Vec<Alias>,
    residual: Batch,
    jacobian: Batch,
    terms: Vec<Term>,
    order: PivotOrder,
}

impl NewtonPlan {
    pub(super) fn new(
        system: &CompiledSystem,
        request: &StepRequest<'_>,
        parts: &Parts<'_>,
    ) -> Result<Self, StepProgramError> {
        let n_states = parts.rates.len();
        let mut reach: Vec<Option<Reach>> = vec![None; n_states];
        let mut chain = Vec::with_capacity(n_states);
        while chain.len() < n_states {
            let before = chain.len();
            for at in 0..n_states {
                if reach[at].is_some() {
                    continue;
                }
                reach[at] = match parts.rates[at] {
                    CarriedRate::Unknown(unknown) => Some(Reach { unknown, power: 1, sign: 1.0 }),
                    CarriedRate::State(source) => reach[source.row].map(|below| Reach {
                        unknown: below.unknown,
                        power: below.power + 1,
                        sign: below.sign * source.sign,
                    }),
                };
                if reach[at].is_some() {
                    chain.push(at);
                }
            }
            if chain.len() == before {
                return Err(StepProgramError::Unsupported {
                    reason: "the rates of some states lead back to these states".to_owned(),
                });
            }
        }
        let reach: Vec<Reach> = reach.into_iter().flatten().collect();
        let wanted: Vec<usize> = (0..parts.step_unknowns.len()).filter(|&at| parts.step_unknowns[at]).collect();
        let Aliases { aliases, spent } = find_aliases(system, parts, &wanted);
        let is_alias = |unknown: &usize| aliases.iter().any(|alias| alias.unknown == *unknown);
        let unknowns: Vec<usize> = wanted.iter().copied().filter(|unknown| !is_alias(unknown)).collect();
        let rows: Vec<usize> = wanted.iter().copied().filter(|row| !spent.contains(row)).collect();
        let mut column_of: FxHashMap<usize, (usize, f64)> =
            unknowns.iter().enumerate().map(|(at, &unknown)| (unknown, (at, 1.0))).collect();
        for alias in &aliases {
            if let Some(&(column, sign)) = column_of.get(&alias.of) {
                column_of.insert(alias.unknown, (column, sign * alias.sign));
            }
        }
        let by_unknowns = system.pattern(Part::ResidualByUnknowns);
        let by_states = system.pattern(Part::ResidualByStates);
        let (mut terms, mut exprs, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (row, &equation) in rows.iter().enumerate() {
            for (at, entry) in parts.by_unknowns[equation].iter().enumerate() {
                if let Some(&(column, sign)) = column_of.get(&(entry.column as usize)) {
                    terms.push(Term { place: Place { row, column }, power: 0, sign });
                    exprs.push(entry.value);
                    positions.push(by_unknowns.row(equation).start + at);
                }
            }
            for (at, entry) in parts.by_states[equation].iter().enumerate() {
                let source = parts.sources[entry.column as usize];
                let reach = reach[source.row];
                if let Some(&(column, sign)) = column_of.get(&reach.unknown) {
                    let sign = sign * source.sign * reach.sign;
                    terms.push(Term { place: Place { row, column }, power: reach.power, sign });
                    exprs.push(entry.value);
                    positions.push(by_states.row(equation).start + at);
                }
            }
        }
        let eta = GAMMA * request.reference.step;
        let samples: Vec<Vec<f64>> = parts
            .samples
            .iter()
            .map(|sample| {
                let unknown_entries = evaluate(system, Part::ResidualByUnknowns, sample);
                let state_entries = evaluate(system, Part::ResidualByStates, sample);
                let value = |(term, &position): (&Term, &usize)| match term.power {
                    0 => unknown_entries[position] * term.sign,
                    power => state_entries[position] * term.sign * eta.powi(power),
                };
                terms.iter().zip(&positions).map(value).collect::<Vec<f64>>()
            })
            .filter(|values| values.iter().all(|value| value.is_finite()))
            .collect();
        let places: Vec<Place> = terms.iter().map(|term| term.place).collect();
        let uniform: Vec<bool> =
            exprs.iter().map(|&expr| is_parameter_only(parts.graph, expr, &system.regular)).collect();
        let order = PivotOrder::choose(unknowns.len(), &places, &samples, &uniform);
        let residual = rows.iter().map(|&equation| system.rows.residual[equation]).collect();
        Ok(Self {
            chain,
            unknowns,
            aliases,
            residual: Batch::of(parts.graph, residual),
            jacobian: Batch::of(parts.graph, exprs),
            terms,
            order,
        })
    }
}

/// Unknowns that equations make equal or opposite to others, and these equations.
#[derive(Default)]
struct Aliases {
    aliases: Vec<Alias>,
    spent: Vec<usize>,
}

/// Finds equations `a v_i - a v_j = 0` among those that a step solves.
fn find_aliases(system: &CompiledSystem, parts: &Parts<'_>, wanted: &[usize]) -> Aliases {
    let mut found = Aliases::default();
    for &equation in wanted {
        let [first, second] = parts.by_unknowns[equation][..] else { continue };
        let numbers = (parts.graph.as_number(first.value), parts.graph.as_number(second.value));
        let (Some(a), Some(b)) = numbers else { continue };
        let mut leaves = Vec::new();
        let residual = system.rows.residual[equation];
        daesy_graph::Reach::new().leaves(parts.graph, &[residual], &mut leaves);
        let at_zero = |_: daesy_graph::VarId, _: u16| 0.0;
        let rest = daesy_graph::Evaluator::new().evaluate_one(parts.graph, residual, &at_zero);
        if a.abs() != b.abs() || a == 0.0 || leaves.len() != 2 || rest != 0.0 {
            continue;
        }
        // Chains are left alone: each alias follows an unknown that is none, and is followed by none.
        let is_known = |unknown: usize| found.aliases.iter().any(|alias| [alias.unknown, alias.of].contains(&unknown));
        let (of, unknown) = (first.column as usize, second.column as usize);
        if !is_known(of) && !is_known(unknown) && wanted.contains(&of) && wanted.contains(&unknown) {
            found.aliases.push(Alias { unknown, of, sign: -(a / b) });
            found.spent.push(equation);
        }
    }
    found
}

/// Gives the unknowns that follow others their values.
fn follow(draft: &mut Draft<'_>, plan: &NewtonPlan, unknowns: &mut [Value]) {
    for alias in &plan.aliases {
        let value = unknowns[alias.of];
        unknowns[alias.unknown] = if alias.sign < 0.0 { draft.builder.neg(value) } else { value };
    }
}

/// `s = base + h gamma S(s, v)`, along the chain.
fn stage_states(
    draft: &mut Draft<'_>,
    plan: &NewtonPlan,
    base: &[Value],
    unknowns: &[Value],
    eta: Value,
) -> Vec<Value> {
    let mut states = base.to_vec();
    for &at in &plan.chain {
        let rate = draft.rate(at, &states, unknowns);
        states[at] = draft.combine(base[at], &[(eta, rate)]);
    }
    states
}

/// Writes a step.
pub(super) fn step(draft: &mut Draft<'_>, blueprint: &Blueprint<'_>) -> StepOutputs {
    let plan = blueprint.implicit.as_ref().expect("an implicit method has a plan for its stages");
    let n = blueprint.n_states();
    let start = draft.states();
    let mut first = draft.carried_unknowns();
    follow(draft, plan, &mut first);
    let scaled = |draft: &mut Draft<'_>, factor: f64| {
        let factor = draft.builder.constant(factor);
        draft.builder.mul(factor, draft.step)
    };
    let eta = scaled(draft, GAMMA);
    let factors = factor(draft, plan, &start, &first, eta);
    let mut solved: Vec<Vec<Value>> = vec![first];
    let mut rates: Vec<Vec<Value>> = Vec::new();
    let mut end = Vec::new();
    for stage in 0..NODES.len() {
        let weights: &[f64] = match stage {
            0 => &[],
            1 => &STAGE_2,
            _ => &STAGE_3,
        };
        let weights: Vec<Value> = weights.iter().map(|&weight| scaled(draft, weight)).collect();
        let base: Vec<Value> = (0..n)
            .map(|at| {
                let terms: Vec<(Value, Value)> =
                    weights.iter().zip(&rates).map(|(&weight, rates)| (weight, rates[at])).collect();
                draft.combine(start[at], &terms)
            })
            .collect();
        let mut unknowns = extrapolate(draft, plan, &solved, stage);
        follow(draft, plan, &mut unknowns);
        let time = draft.node_time(NODES[stage]);
        let around = draft.around(stage, time);
        let n_newton = if stage == 0 { 2 } else { 1 };
        let mut states = stage_states(draft, plan, &base, &unknowns, eta);
        for iteration in 0..n_newton {
            draft.bind(&around, &states, &unknowns);
            let residual = draft.lower(&plan.residual);
            let steps = factors.solve(&mut draft.builder, &residual);
            for (&unknown, &step) in plan.unknowns.iter().zip(&steps) {
                unknowns[unknown] = draft.builder.sub(unknowns[unknown], step);
                // The second stage shows in the values from which the third starts.
                if iteration + 1 == n_newton && stage != 1 {
                    let allowance = if n_newton == 1 { SINGLE_STEP_ALLOWANCE } else { 1.0 };
                    let nominal = blueprint.system.description.unknowns[unknown].nominal;
                    draft.note_defect(step, allowance, unknowns[unknown], nominal);
                }
            }
            follow(draft, plan, &mut unknowns);
            states = stage_states(draft, plan, &base, &unknowns, eta);
        }
        rates.push((0..n).map(|at| draft.rate(at, &states, &unknowns)).collect());
        solved.push(unknowns);
        end = states;
    }
    let time = draft.node_time(1.0);
    let around = draft.around(NODES.len() - 1, time);
    let end = draft.project(&around, &end);
    // Weights of the method less those of the method of order 2 on the first two stages.
    let second = (0.5 - NODES[0]) / (NODES[1] - NODES[0]);
    let differences = [STAGE_3[0] - (1.0 - second), STAGE_3[1] - second, GAMMA];
    let factors: Vec<Value> = differences.iter().map(|&difference| scaled(draft, difference)).collect();
    let zero = draft.builder.constant(0.0);
    let errors: Vec<Value> = (0..n)
        .map(|at| {
            let terms: Vec<(Value, Value)> =
                factors.iter().zip(&rates).map(|(&factor, rates)| (factor, rates[at])).collect();
            draft.combine(zero, &terms)
        })
        .collect();
    let error = draft.error_norm(&errors);
    let carried = draft.carry(&end, &solved[NODES.len()]);
    StepOutputs { carried, error }
}

/// Factors Newton's matrix at the first stage, with the unknowns of the start.
fn factor(draft: &mut Draft<'_>, plan: &NewtonPlan, start: &[Value], unknowns: &[Value], eta: Value) -> Factors {
    let time = draft.node_time(NODES[0]);
    let around = draft.around(0, time);
    let states = stage_states(draft, plan, start, unknowns, eta);
    draft.bind(&around, &states, unknowns);
    let values = draft.lower(&plan.jacobian);
    let highest = plan.terms.iter().map(|term| term.power).max().unwrap_or(0);
    let mut powers = vec![draft.builder.constant(1.0)];
    for power in 1..=highest {
        let next = draft.builder.mul(powers[power as usize - 1], eta);
        powers.push(next);
    }
    let mut entries = Vec::with_capacity(values.len());
    for (term, &value) in plan.terms.iter().zip(&values) {
        let sign = draft.builder.constant(term.sign);
        let factor = draft.builder.mul(sign, powers[term.power as usize]);
        entries.push(draft.builder.mul(value, factor));
    }
    let places: Vec<Place> = plan.terms.iter().map(|term| term.place).collect();
    let matrix = super::blueprint::collect(&mut draft.builder, &places, &entries);
    Factors::new(&mut draft.builder, &plan.order, matrix, Some(&mut draft.watch))
}

/// The unknowns of a stage by the polynomial through the start and the stages before.
fn extrapolate(draft: &mut Draft<'_>, plan: &NewtonPlan, solved: &[Vec<Value>], stage: usize) -> Vec<Value> {
    let mut guess = solved[stage].clone();
    if stage == 0 {
        return guess;
    }
    let times: Vec<f64> = std::iter::once(0.0).chain(NODES[..stage].iter().copied()).collect();
    let target = NODES[stage];
    let weights: Vec<f64> = (0..times.len())
        .map(|i| {
            let others = (0..times.len()).filter(|&j| j != i);
            others.map(|j| (target - times[j]) / (times[i] - times[j])).product()
        })
        .collect();
    let zero = draft.builder.constant(0.0);
    for &unknown in &plan.unknowns {
        let terms: Vec<(Value, Value)> = weights
            .iter()
            .zip(solved)
            .map(|(&weight, solved)| (draft.builder.constant(weight), solved[unknown]))
            .collect();
        guess[unknown] = draft.combine(zero, &terms);
    }
    guess
}
