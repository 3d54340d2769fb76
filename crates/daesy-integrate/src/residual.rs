//! Equations given as a function F(t, x, x') = 0 instead of a model, for callers who only want the solver.
//!
//! Variables are differential, their derivatives occur in F, or algebraic. With s the differential variables and v =
//! (s', algebraic variables) the residuals are those of a system in regular form without constraints, which is solvable
//! if dF/dv is nonsingular: index 1, with the derivatives of the differential variables independent.

use daesy_system::{
    Block, DaeSystem, Description, EquationLabel, Evaluator, GivenParameter, LaneEvaluator, LanePoint, ParameterError,
    Part, Pattern, Persistence, Point, Quantity, Rate, StartOrigin,
};

use crate::{
    AsFarAsPossible, Inputs, IntegrateError, Rules, SimulateOptions, Simulation, simulate, simulate_as_far_as_possible,
};

/// Derivatives of a residual function, both `n x n` row by row.
#[derive(Clone, PartialEq, Debug)]
pub struct ResidualJacobians {
    /// dF/dx.
    pub by_values: Vec<f64>,
    /// dF/dx'.
    pub by_rates: Vec<f64>,
}

/// A function F(t, x, x') with as many values as variables.
pub trait ResidualFunction: Send + Sync {
    /// Writes F; values that are not finite make the solver try a smaller step.
    fn evaluate(&self, time: f64, values: &[f64], rates: &[f64], residual: &mut [f64]);

    /// The derivatives, where they are known; nothing makes the solver take differences.
    fn jacobians(&self, _time: f64, _values: &[f64], _rates: &[f64]) -> Option<ResidualJacobians> {
        None
    }
}

/// Where a solution starts.
#[derive(Clone, PartialEq, Debug)]
pub struct ResidualStart {
    /// Values; those of differential variables are kept, those of algebraic ones are guesses.
    pub values: Vec<f64>,
    /// Guesses for the derivatives.
    pub rates: Vec<f64>,
    /// Which variables are differential.
    pub is_differential: Vec<bool>,
    /// Typical sizes.
    pub nominal: Vec<f64>,
}

/// Which variables are differential: those whose derivatives change F at the start, or slightly beside it.
#[must_use]
pub fn find_differential(function: &dyn ResidualFunction, time: f64, values: &[f64], rates: &[f64]) -> Vec<bool> {
    let n = values.len();
    let mut is_differential = vec![false; n];
    for offset in [0.0, 1.0] {
        let beside: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(at, value)| value + offset * 1e-3 * (1.0 + value.abs()) * (1.0 + 0.37 * at as f64))
            .collect();
        let mut base = vec![0.0; n];
        function.evaluate(time, &beside, rates, &mut base);
        let mut moved = vec![0.0; n];
        for at in 0..n {
            let mut changed = rates.to_vec();
            changed[at] += 1.0 + changed[at].abs();
            function.evaluate(time, &beside, &changed, &mut moved);
            is_differential[at] |= moved.iter().zip(&base).any(|(moved, base)| moved != base);
        }
    }
    is_differential
}

/// Solves F(t, x, x') = 0. A row holds all x, then all x' (zero for algebraic variables).
///
/// # Errors
/// When no consistent start is found or the method gives up.
pub fn solve(
    function: &dyn ResidualFunction,
    start: &ResidualStart,
    options: &SimulateOptions,
) -> Result<Simulation, IntegrateError> {
    simulate(&ResidualSystem::new(function, start), &[], &NoInputs, options)
}

/// As [`solve`], but a failure on the way leaves the part of the solution before it.
///
/// # Errors
/// When there is no start.
pub fn solve_as_far_as_possible(
    function: &dyn ResidualFunction,
    start: &ResidualStart,
    options: &SimulateOptions,
) -> Result<AsFarAsPossible, IntegrateError> {
    simulate_as_far_as_possible(&ResidualSystem::new(function, start), &[], &NoInputs, Rules::default(), options)
}

pub(crate) struct NoInputs;

impl Inputs for NoInputs {
    fn fill(&self, _time: f64, _is_after: bool, _values: &mut [f64]) {}

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

/// Where a variable stands in the regular form.
#[derive(Clone, Copy)]
enum Role {
    /// A state; its rate is the unknown at the same position.
    State(usize),
    /// An unknown.
    Unknown(usize),
}

pub(crate) struct ResidualSystem<'f> {
    function: &'f dyn ResidualFunction,
    roles: Vec<Role>,
    nominal: Vec<f64>,
    n_states: usize,
    description: Description,
    column: Pattern,
    observed: Pattern,
    by_unknowns: Pattern,
    by_states: Pattern,
    none: Pattern,
}

fn dense(n_rows: usize, n_cols: usize) -> Pattern {
    Pattern {
        n_rows,
        n_cols,
        row_starts: (0..=n_rows).map(|row| (row * n_cols) as u32).collect(),
        columns: (0..n_rows).flat_map(|_| 0..n_cols as u32).collect(),
    }
}

impl<'f> ResidualSystem<'f> {
    pub(crate) fn new(function: &'f dyn ResidualFunction, start: &ResidualStart) -> Self {
        let n = start.values.len();
        let n_states = start.is_differential.iter().filter(|is_differential| **is_differential).count();
        let name = |at: usize| format!("x[{at}]");
        let quantity = |name: String, start: f64, nominal: f64, start_origin| Quantity {
            name,
            nominal,
            start,
            start_origin,
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
            persistence: Persistence::Default,
        };
        let (mut states, mut derivatives, mut algebraic, mut roles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for at in 0..n {
            let nominal = start.nominal[at];
            if start.is_differential[at] {
                roles.push(Role::State(states.len()));
                states.push(quantity(name(at), start.values[at], nominal, StartOrigin::Fixed));
                let derivative = format!("der({})", name(at));
                derivatives.push(quantity(derivative, start.rates[at], nominal, StartOrigin::Guess));
            } else {
                roles.push(Role::Unknown(n_states + algebraic.len()));
                algebraic.push(quantity(name(at), start.values[at], nominal, StartOrigin::Guess));
            }
        }
        derivatives.extend(algebraic);
        let label =
            |at: usize| EquationLabel { text: format!("residual[{at}]"), place: String::new(), differentiated: 0 };
        let description = Description {
            model: "residual".to_owned(),
            states,
            rates: (0..n_states).map(|at| Rate::Unknown(at as u32)).collect(),
            unknowns: derivatives,
            blocks: vec![Block { start: 0, len: n as u32, is_linear: false }],
            residuals: (0..n).map(label).collect(),
            observed: (0..n).map(name).chain((0..n).map(|at| format!("der({})", name(at)))).collect(),
            ..Description::default()
        };
        Self {
            function,
            roles,
            nominal: start.nominal.clone(),
            n_states,
            description,
            column: dense(n, 1),
            observed: dense(2 * n, 1),
            by_unknowns: dense(n, n),
            by_states: dense(n, n_states),
            none: dense(0, 0),
        }
    }
}

impl DaeSystem for ResidualSystem<'_> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn pattern(&self, part: Part) -> &Pattern {
        match part {
            Part::Residual => &self.column,
            Part::ResidualByUnknowns => &self.by_unknowns,
            Part::ResidualByStates => &self.by_states,
            Part::Observed => &self.observed,
            _ => &self.none,
        }
    }

    fn evaluator(&self) -> Box<dyn Evaluator + '_> {
        let n = self.roles.len();
        Box::new(ResidualEvaluator {
            system: self,
            values: vec![0.0; n],
            rates: vec![0.0; n],
            base: vec![0.0; n],
            moved: vec![0.0; n],
        })
    }

    fn lane_evaluator(&self, n_lanes: usize) -> Box<dyn LaneEvaluator + '_> {
        Box::new(OneByOne { evaluator: self.evaluator(), n_lanes })
    }

    fn parameter_values(&self, _given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError> {
        Ok(Vec::new())
    }
}

/// Lanes of a function that knows none: one after the other.
struct OneByOne<'s> {
    evaluator: Box<dyn Evaluator + 's>,
    n_lanes: usize,
}

impl LaneEvaluator for OneByOne<'_> {
    fn evaluate(&mut self, part: Part, point: &LanePoint<'_>, values: &mut [f64]) {
        let n_lanes = self.n_lanes;
        for lane in 0..n_lanes {
            let pick = |all: &[f64]| all.iter().skip(lane).step_by(n_lanes).copied().collect::<Vec<f64>>();
            let (states, unknowns) = (pick(point.states), pick(point.unknowns));
            let mut one = pick(values);
            let here = Point {
                time: point.time,
                states: &states,
                unknowns: &unknowns,
                parameters: &[],
                inputs: &[],
                modes: &[],
            };
            self.evaluator.evaluate(part, &here, &mut one);
            for (slot, value) in values.iter_mut().skip(lane).step_by(n_lanes).zip(one) {
                *slot = value;
            }
        }
    }
}

struct ResidualEvaluator<'s> {
    system: &'s ResidualSystem<'s>,
    values: Vec<f64>,
    rates: Vec<f64>,
    base: Vec<f64>,
    moved: Vec<f64>,
}

impl ResidualEvaluator<'_> {
    /// dF/ds or dF/dv: column `j` belongs to the variables for which `column` says so.
    fn jacobian(&mut self, time: f64, of_states: bool, out: &mut [f64]) {
        let system = self.system;
        let n = system.roles.len();
        let n_columns = if of_states { system.n_states } else { n };
        // Each variable is a column by its value, or by its rate, or by neither.
        let columns = |at: usize| match (system.roles[at], of_states) {
            (Role::State(state), true) => (Some(state), None),
            (Role::State(state), false) => (None, Some(state)),
            (Role::Unknown(unknown), false) => (Some(unknown), None),
            (Role::Unknown(_), true) => (None, None),
        };
        out.fill(0.0);
        if let Some(known) = system.function.jacobians(time, &self.values, &self.rates) {
            for at in 0..n {
                let (by_value, by_rate) = columns(at);
                for row in 0..n {
                    if let Some(column) = by_value {
                        out[row * n_columns + column] = known.by_values[row * n + at];
                    }
                    if let Some(column) = by_rate {
                        out[row * n_columns + column] = known.by_rates[row * n + at];
                    }
                }
            }
            return;
        }
        system.function.evaluate(time, &self.values, &self.rates, &mut self.base);
        for at in 0..n {
            let (by_value, by_rate) = columns(at);
            for (column, is_value) in [(by_value, true), (by_rate, false)] {
                let Some(column) = column else { continue };
                let place = if is_value { &mut self.values[at] } else { &mut self.rates[at] };
                let before = *place;
                *place = before + f64::EPSILON.sqrt() * before.abs().max(system.nominal[at]);
                let step = *place - before;
                system.function.evaluate(time, &self.values, &self.rates, &mut self.moved);
                if is_value {
                    self.values[at] = before;
                } else {
                    self.rates[at] = before;
                }
                for row in 0..n {
                    out[row * n_columns + column] = (self.moved[row] - self.base[row]) / step;
                }
            }
        }
    }
}

impl Evaluator for ResidualEvaluator<'_> {
    fn evaluate(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) {
        let system = self.system;
        for (at, role) in system.roles.iter().enumerate() {
            (self.values[at], self.rates[at]) = match *role {
                Role::State(state) => (point.states[state], point.unknowns[state]),
                Role::Unknown(unknown) => (point.unknowns[unknown], 0.0),
            };
        }
        match part {
            Part::Residual => system.function.evaluate(point.time, &self.values, &self.rates, values),
            Part::ResidualByUnknowns => self.jacobian(point.time, false, values),
            Part::ResidualByStates => self.jacobian(point.time, true, values),
            Part::Observed => {
                let n = self.values.len();
                values[..n].copy_from_slice(&self.values);
                values[n..].copy_from_slice(&self.rates);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x' = -x + y, 0 = y - sin(t) - x/2: the solution of x' = -x/2 + sin(t).
    struct Lag;

    impl ResidualFunction for Lag {
        fn evaluate(&self, time: f64, values: &[f64], rates: &[f64], residual: &mut [f64]) {
            residual[0] = values[1] - time.sin() - 0.5 * values[0];
            residual[1] = rates[0] + values[0] - values[1];
        }
    }

    #[test]
    fn a_function_is_solved_as_well_as_a_model() {
        assert_eq!(find_differential(&Lag, 0.0, &[1.0, 0.0], &[0.0, 0.0]), [true, false]);
        let start = ResidualStart {
            values: vec![1.0, 0.0],
            rates: vec![0.0; 2],
            is_differential: vec![true, false],
            nominal: vec![1.0; 2],
        };
        let options = SimulateOptions {
            start: 0.0,
            stop: 3.0,
            output_times: vec![0.0, 1.3, 3.0],
            rtol: 1e-8,
            atol: 1e-10,
            max_steps: 10_000,
            ..SimulateOptions::default()
        };
        let simulation = solve(&Lag, &start, &options).unwrap();
        for (time, row) in simulation.times.iter().zip(&simulation.rows) {
            let exact = 1.8 * (-0.5 * time).exp() + 0.4 * time.sin() - 0.8 * time.cos();
            assert!((row[0] - exact).abs() < 1e-7, "{time}: {} against {exact}", row[0]);
            assert!((row[1] - time.sin() - 0.5 * exact).abs() < 1e-7);
            assert!((row[2] + row[0] - row[1]).abs() < 1e-9);
        }
    }
}
