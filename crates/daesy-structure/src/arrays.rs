//! Derivative arrays of nonlinear models and what their ranks say.
//!
//! The array stacks a model and its derivatives, F_l(t, x, x', .., x^(l+1)) = (F, F', .., F^(l)) = 0
//! [@campbell2011, eq. (8)]. Around a point of its solution set its Jacobian is that of the array of a linear model
//! with varying coefficients, the linearization along the curve through the point:
//!
//! ```text
//! E(t) = dF/dx',  A(t) = -dF/dx  along  x(t) = x_0 + x_1 t + x_2 t^2 + ..
//! ```
//!
//! so that the ranks of hypothesis 1 are found from the Taylor coefficients of the first derivatives of F, which
//! Taylor arithmetic gives to any order, by the same orthogonal reductions that decide linear models. Models with
//! more or fewer equations than unknowns are as good as others.

mod analyze;
mod consistent;

use daesy_graph::evaluate::Environment;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::taylor::{Curve, TaylorEvaluator};
use daesy_graph::{CoefficientKind, Differentiator, Evaluator, ExprId, Graph, Leaf, Reach, VarId};
use daesy_pencil::{CoefficientJet, Mat, PencilError};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::discrete::split_discrete;

pub use analyze::{ArrayAnalysis, ArrayOptions, analyze};
pub use consistent::FAR;

/// Why an array gave no answer.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum ArrayError {
    /// The model is too large for dense arrays.
    #[error("the derivative array has {rows} rows; at most {limit} are looked at")]
    TooLarge {
        /// Rows of the array.
        rows: usize,
        /// The limit.
        limit: usize,
    },
    /// Nothing satisfies the array near the start.
    #[error(
        "no point satisfies the equations and their first {level} derivatives: the largest residual is {residual:.1e}"
    )]
    NoPoint {
        /// Number of differentiations.
        level: usize,
        /// Largest scaled residual.
        residual: f64,
        /// The flat equation with it.
        equation: usize,
    },
    /// An equation has no finite value.
    #[error("an equation or one of its derivatives has no finite value")]
    NotFinite {
        /// The flat equation.
        equation: usize,
    },
    /// The ranks do not settle.
    #[error("the ranks of the derivative arrays do not settle within {tried} differentiations")]
    NotSettled {
        /// Number of differentiations tried.
        tried: usize,
    },
    /// The discrete part is at fault.
    #[error("the discrete equations do not fit the discrete variables")]
    Discrete,
    /// The linear algebra failed.
    #[error(transparent)]
    Pencil(#[from] PencilError),
}

/// Values and derivatives of all variables at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JetPoint {
    /// The time.
    pub time: f64,
    /// Taylor coefficients of each variable of the flat model, x^(k) / k!; those that are missing are zero.
    pub coefficients: Vec<Vec<f64>>,
}

fn factorial(k: usize) -> f64 {
    (1..=k).map(|j| j as f64).product()
}

impl JetPoint {
    /// A point at which nothing is known of so many variables.
    #[must_use]
    pub fn new(time: f64, n_variables: usize) -> Self {
        Self { time, coefficients: vec![Vec::new(); n_variables] }
    }

    /// The `order`-th derivative of a variable.
    #[must_use]
    pub fn derivative(&self, var: VarId, order: usize) -> f64 {
        let known = self.coefficients.get(var.index()).and_then(|series| series.get(order)).copied();
        known.map_or(0.0, |value| value * factorial(order))
    }

    /// Sets the `order`-th derivative of a variable.
    pub fn set(&mut self, var: VarId, order: usize, value: f64) {
        if self.coefficients.len() <= var.index() {
            self.coefficients.resize(var.index() + 1, Vec::new());
        }
        let series = &mut self.coefficients[var.index()];
        if series.len() <= order {
            series.resize(order + 1, 0.0);
        }
        series[order] = value / factorial(order);
    }

    /// The point a little later on the curve of the Taylor coefficients: sum over m >= k of binomial(m, k) c_m h^(m - k).
    #[must_use]
    pub fn later(&self, h: f64) -> Self {
        let moved = |series: &Vec<f64>| -> Vec<f64> {
            (0..series.len())
                .map(|k| {
                    let mut factor = 1.0;
                    let mut sum = 0.0;
                    for (m, value) in series.iter().enumerate().skip(k) {
                        sum += factor * value;
                        factor *= h * (m + 1) as f64 / (m + 1 - k) as f64;
                    }
                    sum
                })
                .collect()
        };
        Self { time: self.time + h, coefficients: self.coefficients.iter().map(moved).collect() }
    }

    /// The Taylor coefficients of a derivative of a variable.
    #[must_use]
    pub fn shifted(&self, var: VarId, order: usize) -> Vec<f64> {
        let n = self.coefficients.get(var.index()).map_or(0, Vec::len).saturating_sub(order);
        (0..n).map(|k| self.coefficient(var, order as u16, k)).collect()
    }
}

impl Curve for JetPoint {
    fn coefficient(&self, var: VarId, order: u16, k: usize) -> f64 {
        let at = usize::from(order) + k;
        let known = self.coefficients.get(var.index()).and_then(|series| series.get(at)).copied();
        let Some(mut value) = known else { return 0.0 };
        for j in k + 1..=at {
            value *= j as f64;
        }
        value
    }

    fn time(&self) -> f64 {
        self.time
    }
}

impl Environment for JetPoint {
    fn value(&self, var: VarId, order: u16) -> f64 {
        self.derivative(var, usize::from(order))
    }

    fn time(&self) -> f64 {
        self.time
    }
}

/// What inputs are to an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArrayInputs {
    /// Given functions of time.
    #[default]
    Given,
    /// Variables of the behaviour.
    Behaviour,
}

/// The derivative of an equation by a derivative of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ArrayEntry {
    position: usize,
    order: usize,
    value: ExprId,
}

/// An equation with its first derivatives.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ArrayRow {
    /// The flat equation, or the initial equation.
    source: usize,
    residual: ExprId,
    entries: Vec<ArrayEntry>,
}

/// The first derivatives of a model, from which its derivative arrays are made.
#[derive(Clone, Debug)]
pub struct ArrayModel {
    graph: Graph,
    kinds: Vec<VariableKind>,
    /// Unknowns, then the inputs where they are variables.
    variables: Vec<VarId>,
    n_unknowns: usize,
    /// Highest derivative of each variable that occurs, at least 1 for unknowns.
    orders: Vec<usize>,
    /// First column of each variable in the first-order form.
    columns: Vec<usize>,
    n_columns: usize,
    rows: Vec<ArrayRow>,
    initial: Vec<ArrayRow>,
    nominal: Vec<f64>,
    is_constant: bool,
    /// Time derivatives of expressions with calls of functions, which Taylor arithmetic does not know.
    differentiated: FxHashMap<ExprId, Vec<ExprId>>,
}

/// Which equations and variables an array speaks of.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrayScope<'a> {
    /// Residuals by flat equation instead of those of the flat model; `None` leaves an equation out.
    pub residuals: Option<&'a [Option<ExprId>]>,
    /// Unknowns that are left out.
    pub without: &'a [VarId],
    /// What inputs are.
    pub inputs: ArrayInputs,
}

impl ArrayModel {
    /// Differentiates the continuous equations of a flat model by all unknowns and their derivatives.
    ///
    /// # Errors
    /// When the discrete equations do not fit.
    pub fn new(flat: &FlatDae, scope: &ArrayScope<'_>) -> Result<Self, ArrayError> {
        let discrete = split_discrete(flat).map_err(|_| ArrayError::Discrete)?;
        let mut graph = flat.graph.clone();
        let kinds: Vec<VariableKind> = flat.variables.iter().map(|variable| variable.kind).collect();
        let mut residuals = Vec::new();
        for (at, equation) in flat.equations.iter().enumerate() {
            let residual = match scope.residuals {
                Some(residuals) => residuals[at],
                None => discrete.is_continuous[at].then(|| graph.sub(equation.lhs, equation.rhs)),
            };
            residuals.extend(residual.map(|residual| (at, residual)));
        }
        let initial: Vec<(usize, ExprId)> = (0..flat.initial_equations.len())
            .map(|at| (at, graph.sub(flat.initial_equations[at].lhs, flat.initial_equations[at].rhs)))
            .collect();
        let mut is_left_out = vec![false; flat.variables.len()];
        for var in scope.without {
            is_left_out[var.index()] = true;
        }
        let all = (0..flat.variables.len() as u32).map(VarId).filter(|var| !is_left_out[var.index()]);
        let of_kind = |kind: VariableKind| all.clone().filter(move |var| flat.variables[var.index()].kind == kind);
        let mut variables: Vec<VarId> = of_kind(VariableKind::Continuous).collect();
        let n_unknowns = variables.len();
        if scope.inputs == ArrayInputs::Behaviour {
            variables.extend(of_kind(VariableKind::Input));
        }
        let mut position = vec![usize::MAX; flat.variables.len()];
        for (at, var) in variables.iter().enumerate() {
            position[var.index()] = at;
        }
        let mut orders: Vec<usize> = (0..variables.len()).map(|at| usize::from(at < n_unknowns)).collect();
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        for &(_, residual) in &residuals {
            reach.leaves(&graph, &[residual], &mut leaves);
            for &leaf in &leaves {
                if let Leaf::Var { var, order } = leaf
                    && position[var.index()] != usize::MAX
                {
                    let known = &mut orders[position[var.index()]];
                    *known = (*known).max(usize::from(order));
                }
            }
        }
        let mut columns = Vec::with_capacity(variables.len());
        let mut n_columns = 0;
        for &order in &orders {
            columns.push(n_columns);
            n_columns += order.max(1);
        }
        let targets: Vec<Leaf> = variables
            .iter()
            .zip(&orders)
            .flat_map(|(&var, &order)| (0..=order).map(move |order| Leaf::der(var, order as u16)))
            .collect();
        let mut differentiator = Differentiator::new(&mut graph, &targets);
        let mut is_constant = true;
        let mut row = |graph: &mut Graph, source: usize, residual: ExprId| {
            let entries: Vec<ArrayEntry> = differentiator
                .gradient(graph, residual)
                .iter()
                .filter_map(|entry| match targets[entry.column as usize] {
                    Leaf::Var { var, order } => Some(ArrayEntry {
                        position: position[var.index()],
                        order: usize::from(order),
                        value: entry.value,
                    }),
                    Leaf::Time => None,
                })
                .collect();
            is_constant &= entries.iter().all(|entry| {
                let kind = reach.coefficient_kind(graph, entry.value, &|var| kinds[var.index()]);
                kind <= CoefficientKind::Parameter
            });
            ArrayRow { source, residual, entries }
        };
        let rows = residuals.into_iter().map(|(source, residual)| row(&mut graph, source, residual)).collect();
        let initial = initial.into_iter().map(|(source, residual)| row(&mut graph, source, residual)).collect();
        let nominal = vec![1.0; variables.len()];
        let differentiated = FxHashMap::default();
        Ok(Self {
            graph,
            kinds,
            variables,
            n_unknowns,
            orders,
            columns,
            n_columns,
            rows,
            initial,
            nominal,
            is_constant,
            differentiated,
        })
    }

    /// Takes the sizes of variables from their `nominal` attributes.
    pub fn set_nominal(&mut self, flat: &FlatDae, point: &JetPoint) {
        let mut evaluator = Evaluator::new();
        for (at, var) in self.variables.iter().enumerate() {
            if let Some(nominal) = flat.variables[var.index()].nominal {
                let value = evaluator.evaluate_one(&flat.graph, nominal, point).abs();
                if value.is_finite() && value > 0.0 {
                    self.nominal[at] = value;
                }
            }
        }
    }

    /// Number of equations of the first-order form.
    #[must_use]
    pub fn n_equations(&self) -> usize {
        self.rows.len() + self.n_columns - self.variables.len()
    }

    /// Number of variables of the first-order form.
    #[must_use]
    pub const fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// The flat equation of a row of the first-order form; `None` for rows that define a derivative.
    #[must_use]
    pub fn equation(&self, row: usize) -> Option<usize> {
        self.rows.get(row).map(|row| row.source)
    }

    /// The variable of a column of the first-order form, and which derivative of it.
    #[must_use]
    pub fn column(&self, column: usize) -> (VarId, usize) {
        let at = self.columns.partition_point(|&first| first <= column).saturating_sub(1);
        (self.variables[at], column - self.columns[at])
    }

    /// Leaves the initial equations out.
    pub fn forget_initial(&mut self) {
        self.initial.clear();
    }

    /// Leaves an equation out.
    pub fn remove(&mut self, equation: usize) {
        self.rows.retain(|row| row.source != equation);
    }

    /// Taylor coefficients 0 ..= `order` of expressions, expression after expression.
    fn expand(&mut self, roots: &[ExprId], order: usize, point: &JetPoint) -> Vec<f64> {
        let mut found = TaylorEvaluator::new().evaluate(&self.graph, roots, order, point);
        let kinds = &self.kinds;
        for (at, &root) in roots.iter().enumerate() {
            if !self.graph.has_calls(root) {
                continue;
            }
            let derivatives = self.differentiated.entry(root).or_insert_with(|| vec![root]);
            while derivatives.len() <= order {
                let last = derivatives[derivatives.len() - 1];
                derivatives.push(self.graph.total_time_derivative(last, &|var| kinds[var.index()]));
            }
            let mut values = Vec::new();
            Evaluator::new().evaluate(&self.graph, &derivatives[..=order], point, &mut values);
            for (k, value) in values.iter().enumerate() {
                found[at * (order + 1) + k] = value / factorial(k);
            }
        }
        found
    }

    /// The linearization along the curve through a point, with derivatives up to `order`, in first-order form.
    fn linearization(&mut self, point: &JetPoint, order: usize) -> CoefficientJet {
        let roots: Vec<ExprId> = self.rows.iter().flat_map(|row| row.entries.iter().map(|entry| entry.value)).collect();
        let coefficients = self.expand(&roots, order, point);
        let n_columns = self.columns.get(self.n_unknowns).copied().unwrap_or(self.n_columns);
        // Inputs whose derivative occurs are variables; the others are columns of their own.
        let has_rates = self.orders[self.n_unknowns..].iter().any(|&order| order > 0);
        let (n, m) = if has_rates { (self.n_columns, 0) } else { (n_columns, self.n_columns - n_columns) };
        let n_rows = self.n_equations();
        let zero = |columns: usize| vec![Mat::<f64>::zeros(n_rows, columns); order + 1];
        let (mut e, mut f, mut g) = (zero(n), zero(n), zero(m));
        let mut at = 0;
        for (row_idx, row) in self.rows.iter().enumerate() {
            for entry in &row.entries {
                let highest = self.orders[entry.position];
                let column = self.columns[entry.position];
                for k in 0..=order {
                    let value = coefficients[at * (order + 1) + k] * factorial(k);
                    if column >= n {
                        g[k][(row_idx, column - n)] -= value;
                    } else if entry.order == highest && highest > 0 {
                        e[k][(row_idx, column + entry.order - 1)] += value;
                    } else {
                        f[k][(row_idx, column + entry.order)] -= value;
                    }
                }
                at += 1;
            }
        }
        let mut row_idx = self.rows.len();
        for (position, &highest) in self.orders.iter().enumerate() {
            for lower in 1..highest {
                e[0][(row_idx, self.columns[position] + lower - 1)] = 1.0;
                f[0][(row_idx, self.columns[position] + lower)] = 1.0;
                row_idx += 1;
            }
        }
        sweep(&mut [&mut e, &mut f, &mut g], &self.columns, &self.nominal);
        for list in [&mut e, &mut f, &mut g] {
            let is_zero = |matrix: &Mat<f64>| matrix.ncols() == 0 || matrix.norm_max() == 0.0;
            while list.len() > 1 && list.last().is_some_and(is_zero) {
                list.pop();
            }
        }
        let input = if m == 0 { Vec::new() } else { g };
        CoefficientJet { e, f, input, forcing: Vec::new() }
    }
}

/// Sets entries to zero that are rounding errors of their row: balancing would take them for coefficients, and blow
/// them up.
fn sweep(lists: &mut [&mut Vec<Mat<f64>>; 3], columns: &[usize], nominal: &[f64]) {
    /// Rounding errors of a point are below this fraction of a row.
    const DUST: f64 = 1e-13;
    let unit = |column: usize| {
        let at = columns.partition_point(|&first| first <= column).saturating_sub(1);
        nominal.get(at).copied().unwrap_or(1.0)
    };
    let n = lists[0].first().map_or(0, |matrix| matrix.ncols());
    let offsets = [0, 0, n];
    let n_rows = lists[0].first().map_or(0, |matrix| matrix.nrows());
    let n_levels = lists[0].len();
    for row in 0..n_rows {
        let mut largest = 0.0f64;
        for level in 0..n_levels {
            for (list, offset) in lists.iter().zip(offsets) {
                let matrix = &list[level];
                for column in 0..matrix.ncols() {
                    largest = largest.max((matrix[(row, column)] * unit(offset + column)).abs());
                }
            }
            for (list, offset) in lists.iter_mut().zip(offsets) {
                let matrix = &mut list[level];
                for column in 0..matrix.ncols() {
                    if (matrix[(row, column)] * unit(offset + column)).abs() <= DUST * largest {
                        matrix[(row, column)] = 0.0;
                    }
                }
            }
        }
    }
}
