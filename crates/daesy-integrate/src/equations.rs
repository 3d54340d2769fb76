//! A system with memory for its values: residuals, Jacobians, rates, and the matrices of implicit stages.

use daesy_system::{DaeSystem, Evaluator, Part, Pattern, Point, Rate};

use crate::culprit::{RESIDUALS, find_culprit};
use crate::error::IntegrateError;
use crate::linear::{LinearSolver, Scalar, SingularMatrix};
use crate::slopes::{Slopes, mend};

/// Everything about a point that does not change during a solve.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) time: f64,
    pub(crate) parameters: &'a [f64],
    pub(crate) inputs: &'a [f64],
    pub(crate) modes: &'a [f64],
}

impl<'a> Surroundings<'a> {
    pub(crate) fn point<'b>(&self, states: &'b [f64], unknowns: &'b [f64]) -> Point<'b>
    where
        'a: 'b,
    {
        Point { time: self.time, states, unknowns, parameters: self.parameters, inputs: self.inputs, modes: self.modes }
    }
}

/// How each state hangs on an unknown: it is that unknown integrated `depth` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hanging {
    unknown: u32,
    depth: u32,
}

/// A state and what its rate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    state: u32,
    rate: Rate,
}

/// Counters of the work done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Operations, about.
    pub(crate) cost: f64,
    pub(crate) evaluations: usize,
    pub(crate) factorizations: usize,
}

/// A residual whose derivative is infinite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SingularRow {
    pub(crate) time: f64,
    pub(crate) row: usize,
}

/// An unknown that the equations do not determine to first order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FlatUnknown {
    pub(crate) time: f64,
    pub(crate) unknown: usize,
}

/// A system, an evaluator of it, and its Jacobians at some point.
pub(crate) struct Equations<'s> {
    pub(crate) system: &'s dyn DaeSystem,
    evaluator: Box<dyn Evaluator + 's>,
    hanging: Vec<Hanging>,
    /// What the rate of each state is.
    rates: Vec<Rate>,
    /// States such that a state comes after the one that is its rate.
    chain: Vec<Link>,
    /// dF/dv and dF/ds where they were last asked for.
    pub(crate) by_unknowns: Vec<f64>,
    pub(crate) by_states: Vec<f64>,
    /// Memory for dF/dt and dF/du.
    drives: Vec<f64>,
    pub(crate) work: Work,
    /// Where a derivative was first found to be infinite though the residual has a value.
    pub(crate) singular_slope: Option<SingularRow>,
    /// Where an unknown was first found at a root of higher order.
    pub(crate) multiple_root: Option<FlatUnknown>,
    /// Operations of evaluating the residuals, about.
    residual_cost: f64,
}

impl<'s> Equations<'s> {
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Self {
        let description = system.description();
        let n_states = description.states.len();
        let mut hanging = vec![Hanging { unknown: 0, depth: 0 }; n_states];
        for state in 0..n_states {
            let (mut at, mut depth) = (state, 1);
            let unknown = loop {
                match description.rates[at] {
                    Rate::Unknown(unknown) => break unknown,
                    Rate::State(next) => {
                        at = next as usize;
                        depth += 1;
                    }
                }
            };
            hanging[state] = Hanging { unknown, depth };
        }
        let links = description.rates.iter().zip(0..).map(|(&rate, state)| Link { state, rate });
        let mut chain: Vec<Link> = links.collect();
        chain.sort_by_key(|link| hanging[link.state as usize].depth);
        Self {
            evaluator: system.evaluator(),
            hanging,
            rates: description.rates.clone(),
            chain,
            by_unknowns: Vec::new(),
            by_states: Vec::new(),
            drives: Vec::new(),
            residual_cost: (system.pattern(Part::ResidualByUnknowns).n_entries()
                + system.pattern(Part::ResidualByStates).n_entries()
                + description.unknowns.len()) as f64,
            system,
            work: Work::default(),
            singular_slope: None,
            multiple_root: None,
        }
    }

    pub(crate) fn evaluator(&mut self) -> &mut (dyn Evaluator + 's) {
        &mut *self.evaluator
    }

    /// Writes the residuals; false where one of them has no finite value.
    pub(crate) fn residual(&mut self, point: &Point<'_>, residual: &mut [f64]) -> bool {
        self.work.evaluations += 1;
        self.work.cost += self.residual_cost;
        self.evaluator.evaluate(Part::Residual, point, residual);
        residual.iter().all(|value| value.is_finite())
    }

    /// Operations of evaluating the residuals, about.
    pub(crate) fn residual_cost(&self) -> f64 {
        self.residual_cost
    }

    /// Takes note of a factorization.
    pub(crate) fn count_factorization(&mut self, cost: f64) {
        self.work.factorizations += 1;
        self.work.cost += cost;
    }

    /// Takes note of an evaluation of dF/dv.
    pub(crate) fn count_jacobian(&mut self) {
        self.work.cost += self.residual_cost;
    }

    /// Writes dF/dv and dF/ds at a point; false where an entry has no finite value.
    pub(crate) fn evaluate_jacobians(&mut self, point: &Point<'_>) -> bool {
        self.work.cost += 2.0 * self.residual_cost;
        self.by_unknowns.resize(self.system.pattern(Part::ResidualByUnknowns).n_entries(), 0.0);
        self.by_states.resize(self.system.pattern(Part::ResidualByStates).n_entries(), 0.0);
        self.evaluator.evaluate(Part::ResidualByUnknowns, point, &mut self.by_unknowns);
        self.evaluator.evaluate(Part::ResidualByStates, point, &mut self.by_states);
        let (mut by_unknowns, mut by_states) =
            (std::mem::take(&mut self.by_unknowns), std::mem::take(&mut self.by_states));
        let is_finite = self.mend_slopes(Part::ResidualByUnknowns, point, &mut by_unknowns)
            && self.mend_slopes(Part::ResidualByStates, point, &mut by_states);
        (self.by_unknowns, self.by_states) = (by_unknowns, by_states);
        is_finite
    }

    /// Takes slopes of chords where derivatives of residuals are infinite, see module `slopes`; false where the
    /// residuals have no values.
    pub(crate) fn mend_slopes(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) -> bool {
        match mend(self.system, &mut *self.evaluator, part, point, values) {
            Slopes::Finite => true,
            Slopes::Mended { row } => {
                self.singular_slope.get_or_insert(SingularRow { time: point.time, row });
                true
            }
            Slopes::NotFinite => false,
        }
    }

    /// F_t + F_u u': how the residuals change with the time when the inputs have the given rates.
    pub(crate) fn residual_rates(&mut self, point: &Point<'_>, input_rates: &[f64], rates: &mut [f64]) {
        self.work.cost += self.residual_cost;
        rates.fill(0.0);
        for (part, factors) in [(Part::ResidualByTime, &[1.0][..]), (Part::ResidualByInputs, input_rates)] {
            let pattern = self.system.pattern(part);
            if pattern.n_entries() == 0 {
                continue;
            }
            self.drives.resize(pattern.n_entries(), 0.0);
            self.evaluator.evaluate(part, point, &mut self.drives);
            mend(self.system, &mut *self.evaluator, part, point, &mut self.drives);
            for (row, rate) in rates.iter_mut().enumerate() {
                for entry in pattern.row(row) {
                    *rate += self.drives[entry] * factors[pattern.columns[entry] as usize];
                }
            }
        }
    }

    /// Writes the rates of the states.
    pub(crate) fn rates(&self, states: &[f64], unknowns: &[f64], rates: &mut [f64]) {
        for (rate, source) in rates.iter_mut().zip(&self.rates) {
            *rate = match *source {
                Rate::State(state) => states[state as usize],
                Rate::Unknown(unknown) => unknowns[unknown as usize],
            };
        }
    }

    /// s = base + eta * rate(s, v), which the chains make explicit.
    pub(crate) fn set_states(&self, base: &[f64], eta: f64, unknowns: &[f64], states: &mut [f64]) {
        for link in &self.chain {
            let rate = match link.rate {
                Rate::State(next) => states[next as usize],
                Rate::Unknown(unknown) => unknowns[unknown as usize],
            };
            states[link.state as usize] = base[link.state as usize] + eta * rate;
        }
    }

    /// Solves s = base + eta * rate(s, v) and F_s s + F_v v = -residual with the Jacobians at hand and their factored
    /// matrix. The residual is overwritten by v.
    pub(crate) fn solve_stage(
        &mut self,
        matrix: &mut StageMatrix<f64>,
        base: &[f64],
        eta: f64,
        states: &mut [f64],
        residual: &mut [f64],
    ) -> Result<(), SingularMatrix> {
        // First with v = 0.
        for link in &self.chain {
            states[link.state as usize] = base[link.state as usize]
                + match link.rate {
                    Rate::State(next) => eta * states[next as usize],
                    Rate::Unknown(_) => 0.0,
                };
        }
        residual.iter_mut().for_each(|value| *value = -*value);
        self.subtract_by_states(states, residual);
        matrix.solve(self, residual)?;
        self.set_states(base, eta, residual, states);
        Ok(())
    }

    /// The states in an order in which each comes after the state that is its rate, with that rate.
    pub(crate) fn chain(&self) -> impl Iterator<Item = (usize, Rate)> + '_ {
        self.chain.iter().map(|link| (link.state as usize, link.rate))
    }

    /// By what a change of each unknown is judged: by what it does to the states that hang on it when it lasts for
    /// `eta`, or by itself where no state does.
    pub(crate) fn scales(&self, eta: f64, state_weights: &[f64], unknown_weights: &[f64], scales: &mut [f64]) {
        scales.fill(0.0);
        for (state, hanging) in self.hanging.iter().enumerate() {
            let scale = eta.abs().powi(hanging.depth as i32) / state_weights[state];
            let known = &mut scales[hanging.unknown as usize];
            *known = known.max(scale);
        }
        for (scale, weight) in scales.iter_mut().zip(unknown_weights) {
            if *scale == 0.0 {
                *scale = 1.0 / weight;
            }
        }
    }

    /// product -= dF/ds * states, with the values at hand.
    pub(crate) fn subtract_by_states(&self, states: &[f64], product: &mut [f64]) {
        let pattern = self.system.pattern(Part::ResidualByStates);
        for (row, value) in product.iter_mut().enumerate() {
            for entry in pattern.row(row) {
                *value -= self.by_states[entry] * states[pattern.columns[entry] as usize];
            }
        }
    }

    pub(crate) fn singular(&self, time: f64, singular: SingularMatrix) -> IntegrateError {
        let unknowns = &self.system.description().unknowns;
        let name = singular.column.and_then(|column| unknowns.get(column)).or(unknowns.first());
        IntegrateError::Singular { time, variable: name.map_or(String::new(), |unknown| unknown.name.clone()) }
    }

    /// Names the first residual without a finite value, or the first row of dF/dv or dF/ds where all residuals have
    /// one.
    pub(crate) fn not_finite(&mut self, around: &Surroundings<'_>, states: &[f64], unknowns: &[f64]) -> IntegrateError {
        let point = around.point(states, unknowns);
        let mut residual = vec![0.0; unknowns.len()];
        self.evaluator.evaluate(Part::Residual, &point, &mut residual);
        self.evaluate_jacobians(&point);
        let row_in = |part: Part, values: &[f64]| {
            let entry = values.iter().position(|value| !value.is_finite())?;
            let pattern = self.system.pattern(part);
            (0..pattern.n_rows).find(|&row| pattern.row(row).contains(&entry))
        };
        let row = residual
            .iter()
            .position(|value| !value.is_finite())
            .or_else(|| row_in(Part::ResidualByUnknowns, &self.by_unknowns))
            .or_else(|| row_in(Part::ResidualByStates, &self.by_states));
        let label = row.and_then(|row| self.system.description().residuals.get(row)).unwrap_or_default();
        let culprit =
            row.map(|row| find_culprit(self.system, RESIDUALS, row, around, states, unknowns)).unwrap_or_default();
        IntegrateError::NotFinite {
            variable: culprit.name,
            value: culprit.value,
            time: around.time,
            equation: label.text,
            place: label.place,
        }
    }
}

/// Where dF/dv + sum of eta^m dF/ds has entries, a state that is the m-fold integral of an unknown counted for that
/// unknown.
///
/// With eta the step size times a coefficient of the method, this is the matrix of an implicit stage: its size is that
/// of v whatever the order of the derivatives.
pub(crate) struct StagePattern {
    pattern: Pattern,
    /// For each entry of dF/dv, then of dF/ds, its place in `pattern`.
    unknown_places: Vec<u32>,
    state_places: Vec<u32>,
    /// m for each entry of dF/ds.
    depths: Vec<u32>,
}

impl StagePattern {
    pub(crate) fn new(equations: &Equations<'_>) -> Self {
        let n = equations.system.description().unknowns.len();
        let by_unknowns = equations.system.pattern(Part::ResidualByUnknowns);
        let by_states = equations.system.pattern(Part::ResidualByStates);
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        let mut unknown_places = vec![0; by_unknowns.n_entries()];
        let mut state_places = vec![0; by_states.n_entries()];
        let mut row_columns: Vec<u32> = Vec::new();
        let hung = |entry: usize| equations.hanging[by_states.columns[entry] as usize];
        for row in 0..n {
            row_columns.clear();
            row_columns.extend(by_unknowns.row(row).map(|entry| by_unknowns.columns[entry]));
            row_columns.extend(by_states.row(row).map(|entry| hung(entry).unknown));
            row_columns.sort_unstable();
            row_columns.dedup();
            let start = pattern.columns.len();
            // Every column wanted is in the sorted row by construction.
            let place = |column: u32| (start + row_columns.partition_point(|&known| known < column)) as u32;
            for entry in by_unknowns.row(row) {
                unknown_places[entry] = place(by_unknowns.columns[entry]);
            }
            for entry in by_states.row(row) {
                state_places[entry] = place(hung(entry).unknown);
            }
            pattern.columns.extend_from_slice(&row_columns);
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        let depths = (0..by_states.n_entries()).map(|entry| hung(entry).depth).collect();
        Self { pattern, unknown_places, state_places, depths }
    }
}

/// The matrix of an implicit stage with its factorization.
pub(crate) struct StageMatrix<T: Scalar> {
    solver: LinearSolver<T>,
    values: Vec<T>,
}

impl<T: Scalar> StageMatrix<T> {
    pub(crate) fn new(equations: &Equations<'_>, pattern: &StagePattern) -> Result<Self, IntegrateError> {
        let solver = LinearSolver::new(&pattern.pattern).map_err(|singular| equations.singular(f64::NAN, singular))?;
        Ok(Self { solver, values: vec![T::ZERO; pattern.pattern.n_entries()] })
    }

    /// Factors dF/dv + sum of eta^m dF/ds with the Jacobians at hand.
    pub(crate) fn factor(
        &mut self,
        equations: &mut Equations<'_>,
        pattern: &StagePattern,
        eta: T,
    ) -> Result<(), SingularMatrix> {
        self.values.fill(T::ZERO);
        for (&place, &value) in pattern.unknown_places.iter().zip(&equations.by_unknowns) {
            let place = place as usize;
            self.values[place] = self.values[place].plus(T::real(value));
        }
        let square = eta.times(eta);
        for ((&place, &value), &depth) in pattern.state_places.iter().zip(&equations.by_states).zip(&pattern.depths) {
            let power = match depth {
                1 => eta,
                2 => square,
                _ => (2..depth).fold(square, |power, _| power.times(eta)),
            };
            let place = place as usize;
            self.values[place] = self.values[place].plus(power.times(T::real(value)));
        }
        let result = self.solver.factor(&self.values);
        equations.count_factorization(self.solver.factor_cost());
        result
    }

    pub(crate) fn solve(&mut self, equations: &mut Equations<'_>, rhs: &mut [T]) -> Result<(), SingularMatrix> {
        equations.work.cost += self.solver.solve_cost();
        self.solver.solve(rhs)
    }
}
