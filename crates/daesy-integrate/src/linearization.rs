//! The linear system that a model is to first order around a point of a trajectory.
//!
//! With the regular form s' = S(s, v), F(t, s, v, u) = 0, g(t, s, u) = 0 (see [`daesy_system`]) a small change of
//! states and inputs follows
//!
//! ```text
//! ds' = S_s ds + S_v dv           F_s ds + F_v dv + F_u du = 0           G ds + g_u du = 0
//! ```
//!
//! F_v is nonsingular, so that dv = -F_v^-1 (F_s ds + F_u du). The rows of G leave n - rank G states free. Of all
//! states s the free ones are x = P s, a choice of entries, such that [P; G] is nonsingular on the constraints:
//!
//! ```text
//! ds = R x - N g_u du             G R = 0, P R = I, G N = I, P N = 0
//! x' = P ds' = A x + B du         dy = h_s ds + h_v dv + h_u du = C x + D du
//! ```
//!
//! P is constant, hence x' = P ds' holds exactly along a trajectory too, although R and N change along it. `u` holds
//! every input with the derivatives that the model needs: where an input acts through its derivative, that has columns
//! of its own in B and D.

use daesy_system::{DaeSystem, Evaluator, Part, Pattern, Point, Rate};
use faer::Mat;
use faer::prelude::Solve as _;

use crate::error::IntegrateError;
use crate::linear::{LinearSolver, SingularMatrix};

/// A constraint that is less than this of the largest, after the others are taken out, follows from them.
const RANK: f64 = 1e-10;

/// Of the states that a constraint may give, any is taken whose coefficient is at least this part of the largest.
const SUITABLE: f64 = 0.1;

/// A model to first order: x' = A x + B u, y = C x + D u, in changes from the point.
#[derive(Clone, Debug)]
pub struct Linearization {
    /// The free states x, as positions in `Description::states`.
    pub states: Vec<usize>,
    /// n x n, the states by the states.
    pub a: Mat<f64>,
    /// n x m, the states by the inputs and their derivatives, in the order of `Point::inputs`.
    pub b: Mat<f64>,
    /// q x n, what was asked for by the states.
    pub c: Mat<f64>,
    /// q x m
    pub d: Mat<f64>,
}

/// Linearizes a system at a point that satisfies all its equations. `observed` are the positions of y in
/// `Description::observed`; `reluctance` says for every state how much it should not be chosen as free, 0 where nobody
/// cares.
///
/// # Errors
/// When the equations do not determine the unknowns to first order.
pub fn linearize(
    system: &dyn DaeSystem,
    point: &Point<'_>,
    observed: &[usize],
    reluctance: &[i32],
) -> Result<Linearization, IntegrateError> {
    let description = system.description();
    let (n_states, n_inputs) = (description.states.len(), description.n_inputs);
    let mut parts = Parts { system, evaluator: system.evaluator(), point };
    let unknowns_by = parts.unknowns()?;
    let by_states = parts.dense(Part::ConstraintByStates);
    let nominal: Vec<f64> = description.states.iter().map(|state| state.nominal).collect();
    let choice = Choice::new(&by_states, &nominal, reluctance);
    let way = choice.way(&by_states, &parts.dense(Part::ConstraintByInputs));
    let n_free = choice.free.len();
    // All states and unknowns by (x, u).
    let (states, unknowns) = (&way, {
        let mut unknowns = unknowns_by.get(.., ..n_states) * &way;
        for column in 0..n_inputs {
            for row in 0..unknowns.nrows() {
                unknowns[(row, n_free + column)] += unknowns_by[(row, n_states + column)];
            }
        }
        unknowns
    });
    let rates = Mat::from_fn(n_free, n_free + n_inputs, |row, column| match description.rates[choice.free[row]] {
        Rate::State(state) => states[(state as usize, column)],
        Rate::Unknown(unknown) => unknowns[(unknown as usize, column)],
    });
    let mut outputs = parts.rows(Part::ObservedByStates, observed) * states
        + parts.rows(Part::ObservedByUnknowns, observed) * &unknowns;
    let direct = parts.rows(Part::ObservedByInputs, observed);
    for (row, column) in (0..observed.len()).flat_map(|row| (0..n_inputs).map(move |column| (row, column))) {
        outputs[(row, n_free + column)] += direct[(row, column)];
    }
    Ok(Linearization {
        states: choice.free,
        a: rates.get(.., ..n_free).to_owned(),
        b: rates.get(.., n_free..).to_owned(),
        c: outputs.get(.., ..n_free).to_owned(),
        d: outputs.get(.., n_free..).to_owned(),
    })
}

/// Parts of a system at a point.
struct Parts<'a> {
    system: &'a dyn DaeSystem,
    evaluator: Box<dyn Evaluator + 'a>,
    point: &'a Point<'a>,
}

impl Parts<'_> {
    fn values(&mut self, part: Part) -> (&Pattern, Vec<f64>) {
        let pattern = self.system.pattern(part);
        let mut values = vec![0.0; pattern.n_entries()];
        self.evaluator.evaluate(part, self.point, &mut values);
        (pattern, values)
    }

    fn dense(&mut self, part: Part) -> Mat<f64> {
        let (pattern, values) = self.values(part);
        let mut matrix = Mat::zeros(pattern.n_rows, pattern.n_cols);
        for ((row, column), value) in pattern.entries().zip(values) {
            matrix[(row, column)] = value;
        }
        matrix
    }

    fn rows(&mut self, part: Part, rows: &[usize]) -> Mat<f64> {
        let (pattern, values) = self.values(part);
        let mut matrix = Mat::zeros(rows.len(), pattern.n_cols);
        for (at, &row) in rows.iter().enumerate() {
            for entry in pattern.row(row) {
                matrix[(at, pattern.columns[entry] as usize)] = values[entry];
            }
        }
        matrix
    }

    fn infinite_slope(&self, row: usize, part: Part, column: usize) -> IntegrateError {
        let description = self.system.description();
        let variable = match part {
            Part::ResidualByStates => description.states.get(column).map(|state| state.name.clone()),
            Part::ResidualByUnknowns => description.unknowns.get(column).map(|unknown| unknown.name.clone()),
            _ => description.inputs.iter().rfind(|input| input.start <= column).map(|input| input.name.clone()),
        };
        let label = description.residuals.get(row).unwrap_or_default();
        IntegrateError::InfiniteSlope {
            time: self.point.time,
            equation: label.text,
            variable: variable.unwrap_or_default(),
            place: label.place,
        }
    }

    /// -F_v^-1 [F_s F_u]
    fn unknowns(&mut self) -> Result<Mat<f64>, IntegrateError> {
        for part in [Part::ResidualByStates, Part::ResidualByInputs, Part::ResidualByUnknowns] {
            let (pattern, values) = self.values(part);
            let infinite = values.iter().position(|value| !value.is_finite());
            if let Some((row, column)) = infinite.and_then(|at| pattern.entries().nth(at)) {
                return Err(self.infinite_slope(row, part, column));
            }
        }
        let description = self.system.description();
        let (n_unknowns, n_states) = (description.unknowns.len(), description.states.len());
        let mut drive = Mat::<f64>::zeros(n_unknowns, n_states + description.n_inputs);
        for (part, first) in [(Part::ResidualByStates, 0), (Part::ResidualByInputs, n_states)] {
            let (pattern, values) = self.values(part);
            for ((row, column), value) in pattern.entries().zip(values) {
                drive[(row, first + column)] = -value;
            }
        }
        if n_unknowns == 0 {
            return Ok(drive);
        }
        let time = self.point.time;
        let singular = |singular: SingularMatrix| {
            let name = singular.column.and_then(|column| description.unknowns.get(column));
            let name = name.or(description.unknowns.first());
            IntegrateError::Singular { time, variable: name.map_or(String::new(), |unknown| unknown.name.clone()) }
        };
        let (pattern, values) = self.values(Part::ResidualByUnknowns);
        let mut solver = LinearSolver::new(pattern).map_err(singular)?;
        solver.factor(&values).map_err(singular)?;
        for column in 0..drive.ncols() {
            let mut rhs: Vec<f64> = drive.col(column).iter().copied().collect();
            if rhs.iter().any(|value| *value != 0.0) {
                solver.solve(&mut rhs).map_err(singular)?;
                drive.col_mut(column).iter_mut().zip(rhs).for_each(|(to, from)| *to = from);
            }
        }
        Ok(drive)
    }
}

/// Which states are free, and which follow from them by the constraints.
struct Choice {
    free: Vec<usize>,
    bound: Vec<usize>,
    /// Constraints that do not follow from others.
    rows: Vec<usize>,
}

impl Choice {
    /// Gives a state to every constraint by elimination with pivots: of those with a coefficient that is large enough
    /// the one that nobody wants to be free. Columns are scaled by nominal values, rows by their largest entry.
    fn new(by_states: &Mat<f64>, nominal: &[f64], reluctance: &[i32]) -> Self {
        let (n_rows, n_states) = (by_states.nrows(), by_states.ncols());
        let mut left = Mat::from_fn(n_rows, n_states, |row, column| by_states[(row, column)] * nominal[column]);
        for row in 0..n_rows {
            let largest = (0..n_states).map(|column| left[(row, column)].abs()).fold(0.0, f64::max);
            if largest > 0.0 {
                (0..n_states).for_each(|column| left[(row, column)] /= largest);
            }
        }
        let (mut bound, mut rows) = (Vec::new(), Vec::new());
        let mut is_bound = vec![false; n_states];
        let mut is_used = vec![false; n_rows];
        while let Some((row, column)) = pivot(&left, &is_used, &is_bound, reluctance) {
            is_used[row] = true;
            is_bound[column] = true;
            bound.push(column);
            rows.push(row);
            for other in (0..n_rows).filter(|&other| !is_used[other]) {
                let factor = left[(other, column)] / left[(row, column)];
                if factor != 0.0 {
                    (0..n_states).for_each(|at| left[(other, at)] -= factor * left[(row, at)]);
                    left[(other, column)] = 0.0;
                }
            }
        }
        let free = (0..n_states).filter(|&state| !is_bound[state]).collect();
        Self { free, bound, rows }
    }

    /// All states by (x, u): [R, -N g_u].
    fn way(&self, by_states: &Mat<f64>, by_inputs: &Mat<f64>) -> Mat<f64> {
        let (n_free, n_inputs, n_bound) = (self.free.len(), by_inputs.ncols(), self.bound.len());
        let mut way = Mat::zeros(by_states.ncols(), n_free + n_inputs);
        for (at, &state) in self.free.iter().enumerate() {
            way[(state, at)] = 1.0;
        }
        if n_bound > 0 {
            let matrix = Mat::from_fn(n_bound, n_bound, |row, column| by_states[(self.rows[row], self.bound[column])]);
            let drive = Mat::from_fn(n_bound, n_free + n_inputs, |row, column| {
                let row = self.rows[row];
                if column < n_free { -by_states[(row, self.free[column])] } else { -by_inputs[(row, column - n_free)] }
            });
            let solved = matrix.full_piv_lu().solve(&drive);
            for (at, &state) in self.bound.iter().enumerate() {
                (0..n_free + n_inputs).for_each(|column| way[(state, column)] = solved[(at, column)]);
            }
        }
        way
    }
}

/// The next constraint and the state that it gives; none where only constraints are left that follow from others.
fn pivot(left: &Mat<f64>, is_used: &[bool], is_bound: &[bool], reluctance: &[i32]) -> Option<(usize, usize)> {
    let rows = || (0..left.nrows()).filter(|&row| !is_used[row]);
    let size = |column: usize| {
        let entry = rows().map(|row| (row, left[(row, column)].abs()));
        entry.fold(
            None,
            |best: Option<(usize, f64)>, one| if best.is_some_and(|best| best.1 >= one.1) { best } else { Some(one) },
        )
    };
    let sizes: Vec<(usize, usize, f64)> = (0..left.ncols())
        .filter(|&column| !is_bound[column])
        .filter_map(|column| size(column).map(|(row, size)| (row, column, size)))
        .collect();
    let largest = sizes.iter().map(|one| one.2).fold(0.0, f64::max);
    if largest <= RANK {
        return None;
    }
    let suitable = sizes.into_iter().filter(|one| one.2 >= SUITABLE * largest);
    let reluctance_of = |column: usize| reluctance.get(column).copied().unwrap_or(0);
    let best = suitable.max_by(|a, b| {
        let order = reluctance_of(a.1).cmp(&reluctance_of(b.1));
        // Among equals the later one is bound: states that are declared first stay.
        order.then(a.2.total_cmp(&b.2)).then(a.1.cmp(&b.1))
    });
    best.map(|(row, column, _)| (row, column))
}
