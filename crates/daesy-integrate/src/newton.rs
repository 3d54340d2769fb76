//! Solves the residuals for the unknowns, at given states or along the stages of an implicit step.

use daesy_system::{DaeSystem, Evaluator, Part, Pattern, Point, Rate};

use crate::error::IntegrateError;
use crate::linear::LinearSolver;

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

/// Counters of the work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) evaluations: usize,
    pub(crate) factorizations: usize,
}

/// How the solve went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Solved; the larger the rate, the older the matrix.
    Converged { rate: f64 },
    /// Not solved.
    Diverged,
}

/// Newton's method on F(t, s, v) = 0 for v, with s fixed or s = base + (step coefficient) * rate.
///
/// With eta the step size times the method's diagonal coefficient, a state that is the m-fold integral of an unknown contributes
/// eta^m dF/ds to the matrix, so that the systems solved have the size of v whatever the order of the derivatives.
pub(crate) struct Newton<'s> {
    system: &'s dyn DaeSystem,
    evaluator: Box<dyn Evaluator + 's>,
    hanging: Vec<Hanging>,
    /// States such that a state comes after the one that is its rate.
    chain_order: Vec<u32>,
    pattern: Pattern,
    /// For each entry of dF/dv, then of dF/ds, its place in `pattern`.
    unknown_places: Vec<u32>,
    state_places: Vec<u32>,
    solver: LinearSolver,
    values: Vec<f64>,
    by_unknowns: Vec<f64>,
    by_states: Vec<f64>,
    residual: Vec<f64>,
    factored_eta: Option<f64>,
    unknown_scales: Vec<f64>,
    pub(crate) work: Work,
}

/// Newton iterations before giving up.
const MAX_ITERATIONS: usize = 10;

impl<'s> Newton<'s> {
    pub(crate) fn new(system: &'s dyn DaeSystem) -> Result<Self, IntegrateError> {
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
        let mut chain_order: Vec<u32> = (0..n_states as u32).collect();
        chain_order.sort_by_key(|&state| hanging[state as usize].depth);
        let by_unknowns = system.pattern(Part::ResidualByUnknowns);
        let by_states = system.pattern(Part::ResidualByStates);
        let n_unknowns = description.unknowns.len();
        let merged = merge(n_unknowns, by_unknowns, by_states, &hanging);
        let solver = LinearSolver::new(&merged.pattern).map_err(|_| IntegrateError::Singular {
            time: f64::NAN,
            variable: description.unknowns.first().map_or(String::new(), |unknown| unknown.name.clone()),
        })?;
        Ok(Self {
            evaluator: system.evaluator(),
            hanging,
            chain_order,
            values: vec![0.0; merged.pattern.n_entries()],
            by_unknowns: vec![0.0; by_unknowns.n_entries()],
            by_states: vec![0.0; by_states.n_entries()],
            residual: vec![0.0; n_unknowns],
            unknown_scales: vec![1.0; n_unknowns],
            pattern: merged.pattern,
            unknown_places: merged.unknown_places,
            state_places: merged.state_places,
            solver,
            factored_eta: None,
            system,
            work: Work::default(),
        })
    }

    pub(crate) fn evaluator(&mut self) -> &mut (dyn Evaluator + 's) {
        &mut *self.evaluator
    }

    /// A name for messages about all unknowns.
    pub(crate) fn first_unknown(&self) -> String {
        self.system.description().unknowns.first().map_or(String::new(), |unknown| unknown.name.clone())
    }

    /// The next solve makes a new matrix.
    pub(crate) fn forget_matrix(&mut self) {
        self.factored_eta = None;
    }

    /// Whether a matrix for this coefficient is at hand.
    pub(crate) fn has_matrix_for(&self, eta: f64) -> bool {
        self.factored_eta == Some(eta)
    }

    /// Writes the rates of the states.
    pub(crate) fn rates(&self, states: &[f64], unknowns: &[f64], rates: &mut [f64]) {
        for (rate, source) in rates.iter_mut().zip(&self.system.description().rates) {
            *rate = match *source {
                Rate::State(state) => states[state as usize],
                Rate::Unknown(unknown) => unknowns[unknown as usize],
            };
        }
    }

    /// s = base + eta * rate(s, v), which the chains make explicit.
    fn set_states(&self, base: &[f64], eta: f64, unknowns: &[f64], states: &mut [f64]) {
        for &state in &self.chain_order {
            let rate = match self.system.description().rates[state as usize] {
                Rate::State(next) => states[next as usize],
                Rate::Unknown(unknown) => unknowns[unknown as usize],
            };
            states[state as usize] = base[state as usize] + eta * rate;
        }
    }

    /// Makes and factors dF/dv + sum of eta^m dF/ds.
    pub(crate) fn factor(
        &mut self,
        around: &Surroundings<'_>,
        eta: f64,
        states: &[f64],
        unknowns: &[f64],
    ) -> Result<(), IntegrateError> {
        let point = around.point(states, unknowns);
        self.evaluator.evaluate(Part::ResidualByUnknowns, &point, &mut self.by_unknowns);
        self.values.fill(0.0);
        for (&place, &value) in self.unknown_places.iter().zip(&self.by_unknowns) {
            self.values[place as usize] += value;
        }
        if eta != 0.0 {
            self.evaluator.evaluate(Part::ResidualByStates, &point, &mut self.by_states);
            let columns = &self.system.pattern(Part::ResidualByStates).columns;
            for ((&place, &value), &state) in self.state_places.iter().zip(&self.by_states).zip(columns) {
                self.values[place as usize] += value * eta.powi(self.hanging[state as usize].depth as i32);
            }
        }
        self.work.factorizations += 1;
        self.factored_eta = None;
        if self.values.iter().any(|value| !value.is_finite()) {
            return Err(self.not_finite(around, states, unknowns));
        }
        self.solver.factor(&self.values).map_err(|singular| self.singular(around.time, singular.column))?;
        self.factored_eta = Some(eta);
        Ok(())
    }

    fn singular(&self, time: f64, column: Option<usize>) -> IntegrateError {
        let unknowns = &self.system.description().unknowns;
        let name = column.and_then(|column| unknowns.get(column)).or(unknowns.first());
        IntegrateError::Singular { time, variable: name.map_or(String::new(), |unknown| unknown.name.clone()) }
    }

    /// Names the first residual without a finite value, or the matrix where all residuals have one.
    fn not_finite(&mut self, around: &Surroundings<'_>, states: &[f64], unknowns: &[f64]) -> IntegrateError {
        let point = around.point(states, unknowns);
        self.evaluator.evaluate(Part::Residual, &point, &mut self.residual);
        let row = self.residual.iter().position(|value| !value.is_finite()).or_else(|| {
            let entry = self.values.iter().position(|value| !value.is_finite())?;
            (0..self.pattern.n_rows).find(|&row| self.pattern.row(row).contains(&entry))
        });
        let label = row.and_then(|row| self.system.description().residuals.get(row));
        IntegrateError::NotFinite {
            time: around.time,
            equation: label.map_or(String::new(), |label| label.text.clone()),
            place: label.map_or(String::new(), |label| label.place.clone()),
        }
    }

    /// Solves for the unknowns and, with `eta` above zero, the states of a stage. Changes are judged by the weights.
    #[allow(clippy::too_many_arguments, reason = "one kernel, called from two places")]
    pub(crate) fn solve(
        &mut self,
        around: &Surroundings<'_>,
        eta: f64,
        base: &[f64],
        states: &mut [f64],
        unknowns: &mut [f64],
        state_weights: &[f64],
        unknown_weights: &[f64],
        goal: f64,
    ) -> Result<Outcome, IntegrateError> {
        // A change of v is judged by what it does to the states that hang on it, or by itself where none does.
        for (scale, weight) in self.unknown_scales.iter_mut().zip(unknown_weights) {
            *scale = 1.0 / weight;
        }
        if eta != 0.0 {
            let mut is_judged = vec![false; unknowns.len()];
            for (state, hanging) in self.hanging.iter().enumerate() {
                let unknown = hanging.unknown as usize;
                let scale = eta.powi(hanging.depth as i32).abs() / state_weights[state];
                self.unknown_scales[unknown] =
                    if is_judged[unknown] { self.unknown_scales[unknown].max(scale) } else { scale };
                is_judged[unknown] = true;
            }
        }
        let mut last_size = f64::INFINITY;
        let mut rate: f64 = 0.0;
        for iteration in 0..MAX_ITERATIONS {
            if eta != 0.0 {
                self.set_states(base, eta, unknowns, states);
            }
            let point = around.point(states, unknowns);
            self.evaluator.evaluate(Part::Residual, &point, &mut self.residual);
            self.work.evaluations += 1;
            if self.residual.iter().any(|value| !value.is_finite()) {
                return Ok(Outcome::Diverged);
            }
            if self.solver.solve(&mut self.residual).is_err() {
                return Err(self.singular(around.time, None));
            }
            let mut size: f64 = 0.0;
            for ((unknown, change), scale) in unknowns.iter_mut().zip(&self.residual).zip(&self.unknown_scales) {
                *unknown -= change;
                size = size.max((change * scale).abs());
            }
            if iteration > 0 {
                rate = rate.max(size / last_size);
            }
            let forecast = if iteration == 0 { size } else { size * rate.min(0.9) / (1.0 - rate.min(0.9)) };
            if size == 0.0 || forecast <= goal && iteration > 0 || size <= 1e-3 * goal {
                if eta != 0.0 {
                    self.set_states(base, eta, unknowns, states);
                }
                return Ok(Outcome::Converged { rate });
            }
            if iteration > 1 && size > 2.0 * last_size || !size.is_finite() {
                return Ok(Outcome::Diverged);
            }
            last_size = size;
        }
        Ok(Outcome::Diverged)
    }
}

struct Merged {
    pattern: Pattern,
    unknown_places: Vec<u32>,
    state_places: Vec<u32>,
}

/// The union of the pattern by unknowns and the pattern by states, each state counted for the unknown it hangs on.
fn merge(n: usize, by_unknowns: &Pattern, by_states: &Pattern, hanging: &[Hanging]) -> Merged {
    let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
    let mut unknown_places = vec![0; by_unknowns.n_entries()];
    let mut state_places = vec![0; by_states.n_entries()];
    let mut row_columns: Vec<u32> = Vec::new();
    for row in 0..n {
        row_columns.clear();
        row_columns.extend(by_unknowns.row(row).map(|entry| by_unknowns.columns[entry]));
        let hung = |entry: usize| hanging[by_states.columns[entry] as usize].unknown;
        row_columns.extend(by_states.row(row).map(hung));
        row_columns.sort_unstable();
        row_columns.dedup();
        let start = pattern.columns.len();
        // Every column wanted is in the sorted row by construction.
        let place = |column: u32| (start + row_columns.partition_point(|&known| known < column)) as u32;
        for entry in by_unknowns.row(row) {
            unknown_places[entry] = place(by_unknowns.columns[entry]);
        }
        for entry in by_states.row(row) {
            state_places[entry] = place(hung(entry));
        }
        pattern.columns.extend_from_slice(&row_columns);
        pattern.row_starts.push(pattern.columns.len() as u32);
    }
    Merged { pattern, unknown_places, state_places }
}
