//! Matrices whose entries depend on unknown parameters, and the elimination of variables that simple equations give.

use daesy_estimate::error::EstimateError;
use daesy_graph::{Environment, Evaluator, ExprId, Graph, Leaf, Reach, Substitution, VarId};
use daesy_pencil::Mat;

/// Expressions in which only unknown parameters and time are left.
#[derive(Clone, Debug)]
pub(crate) struct Symbols {
    pub graph: Graph,
    unknowns: Vec<VarId>,
    substitution: Substitution,
    /// Values that depend on unknowns but not on time.
    values: Vec<ExprId>,
    /// Their partial derivatives: value, unknown, derivative.
    partials: Vec<(usize, usize, ExprId)>,
}

/// A number or the position of a value that depends on unknowns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Term {
    Number(f64),
    Value(usize),
}

/// All values at some parameters.
pub(crate) struct Values {
    pub values: Vec<f64>,
    /// By value and unknown, sparse.
    pub partials: Vec<(usize, usize, f64)>,
}

/// The unknowns at a point and a time.
pub(crate) struct AtPoint<'a> {
    pub unknowns: &'a [VarId],
    pub theta: &'a [f64],
    pub time: f64,
}

impl Environment for AtPoint<'_> {
    fn value(&self, var: VarId, _order: u16) -> f64 {
        self.unknowns.iter().position(|&known| known == var).map_or(f64::NAN, |at| self.theta[at])
    }

    fn time(&self) -> f64 {
        self.time
    }
}

impl Symbols {
    /// Parameters in the order of their evaluation with values and bindings; those that depend on unknowns become
    /// expressions.
    pub fn new(
        mut graph: Graph,
        unknowns: Vec<VarId>,
        parameters: impl Iterator<Item = (VarId, f64, Option<ExprId>)>,
    ) -> Self {
        let mut images: Vec<(VarId, ExprId)> = Vec::new();
        let mut free: Vec<VarId> = unknowns.clone();
        let mut reach = Reach::new();
        for (var, value, binding) in parameters {
            if unknowns.contains(&var) {
                continue;
            }
            let is_free = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if free.contains(&var));
            let image = match binding {
                Some(binding) if reach.depends_on(&graph, binding, is_free) => {
                    free.push(var);
                    let mut substitution = Substitution::new();
                    for &(var, image) in &images {
                        substitution.replace_leaf(&mut graph, Leaf::var(var), image);
                    }
                    substitution.apply(&mut graph, binding)
                }
                _ => graph.number(value),
            };
            images.push((var, image));
        }
        let mut substitution = Substitution::new();
        for (var, image) in images {
            substitution.replace_leaf(&mut graph, Leaf::var(var), image);
        }
        Self { graph, unknowns, substitution, values: Vec::new(), partials: Vec::new() }
    }

    pub fn unknowns(&self) -> &[VarId] {
        &self.unknowns
    }

    /// An expression with all known parameters put in.
    pub fn resolve(&mut self, expr: ExprId) -> ExprId {
        self.substitution.apply(&mut self.graph, expr)
    }

    /// Whether a resolved expression changes with time.
    pub fn is_varying(&self, expr: ExprId) -> bool {
        Reach::new().depends_on(&self.graph, expr, |leaf| leaf == Leaf::Time)
    }

    /// Whether a resolved expression depends on unknowns.
    pub fn is_unknown(&self, expr: ExprId) -> bool {
        Reach::new().depends_on(&self.graph, expr, |leaf| leaf != Leaf::Time)
    }

    /// A resolved expression that does not change with time as a term.
    pub fn term(&mut self, expr: ExprId) -> Term {
        if let Some(number) = self.graph.as_number(expr) {
            return Term::Number(number);
        }
        if !self.is_unknown(expr) {
            let environment = AtPoint { unknowns: &[], theta: &[], time: 0.0 };
            return Term::Number(Evaluator::new().evaluate_one(&self.graph, expr, &environment));
        }
        if let Some(at) = self.values.iter().position(|&known| known == expr) {
            return Term::Value(at);
        }
        let at = self.values.len();
        self.values.push(expr);
        for (unknown, derivative) in self.gradient(expr) {
            self.partials.push((at, unknown, derivative));
        }
        Term::Value(at)
    }

    /// Nonzero partial derivatives with respect to the unknowns.
    pub fn gradient(&mut self, expr: ExprId) -> Vec<(usize, ExprId)> {
        let leaves: Vec<Leaf> = self.unknowns.iter().map(|&var| Leaf::var(var)).collect();
        let entries = self.graph.gradient(expr, &leaves);
        entries.into_iter().map(|entry| (entry.column as usize, entry.value)).collect()
    }

    /// The derivative with respect to time.
    pub fn rate(&mut self, expr: ExprId) -> ExprId {
        self.graph.partial(expr, Leaf::Time)
    }

    /// A resolved expression at a point.
    pub fn evaluate(&self, expr: ExprId, theta: &[f64], time: f64) -> f64 {
        Evaluator::new().evaluate_one(&self.graph, expr, &AtPoint { unknowns: &self.unknowns, theta, time })
    }

    /// All values, and their derivatives where asked for.
    pub fn values(&self, theta: &[f64], with_partials: bool) -> Result<Values, EstimateError> {
        let environment = AtPoint { unknowns: &self.unknowns, theta, time: 0.0 };
        let mut evaluator = Evaluator::new();
        let mut values = Vec::new();
        evaluator.evaluate(&self.graph, &self.values, &environment, &mut values);
        let mut partials = Vec::new();
        if with_partials {
            let roots: Vec<ExprId> = self.partials.iter().map(|entry| entry.2).collect();
            let mut derivatives = Vec::new();
            evaluator.evaluate(&self.graph, &roots, &environment, &mut derivatives);
            partials.extend(self.partials.iter().zip(&derivatives).map(|(entry, &d)| (entry.0, entry.1, d)));
        }
        let all = values.iter().chain(partials.iter().map(|entry| &entry.2));
        if all.clone().any(|value| !value.is_finite()) {
            return Err(EstimateError::NotFinite { what: "a coefficient that depends on the unknowns".to_owned() });
        }
        Ok(Values { values, partials })
    }
}

/// A value times a row of weights, added to a row.
#[derive(Clone, Debug)]
struct VaryingRow {
    row: usize,
    weights: Vec<(usize, f64)>,
    value: usize,
}

/// A matrix as numbers plus values that depend on unknowns.
#[derive(Clone, Debug)]
pub(crate) struct ParametricMatrix {
    pub constant: Mat<f64>,
    varying: Vec<VaryingRow>,
}

impl ParametricMatrix {
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { constant: Mat::zeros(rows, columns), varying: Vec::new() }
    }

    /// Adds `factor term` to an entry.
    pub fn add(&mut self, row: usize, column: usize, term: Term) {
        match term {
            Term::Number(number) => self.constant[(row, column)] += number,
            Term::Value(value) => self.varying.push(VaryingRow { row, weights: vec![(column, 1.0)], value }),
        }
    }

    /// Cuts a diagonal block off from the rest and puts `-I` in its place.
    pub fn detach(&mut self, block: std::ops::Range<usize>) {
        for i in 0..self.constant.nrows() {
            for j in (0..self.constant.ncols()).filter(|j| block.contains(&i) || block.contains(j)) {
                self.constant[(i, j)] = if i == j { -1.0 } else { 0.0 };
            }
        }
        self.varying.retain(|entry| !block.contains(&entry.row));
        for entry in &mut self.varying {
            entry.weights.retain(|(column, _)| !block.contains(column));
        }
        self.varying.retain(|entry| !entry.weights.is_empty());
    }

    /// Whether a row has entries that depend on unknowns.
    pub fn is_varying(&self, row: usize) -> bool {
        self.varying.iter().any(|entry| entry.row == row)
    }

    /// Whether a column has any entry.
    pub fn uses_column(&self, column: usize) -> bool {
        (0..self.constant.nrows()).any(|row| self.constant[(row, column)] != 0.0)
            || self.varying.iter().any(|entry| entry.weights.iter().any(|&(at, _)| at == column))
    }

    pub fn value(&self, values: &[f64]) -> Mat<f64> {
        let mut matrix = self.constant.clone();
        for entry in &self.varying {
            for &(column, weight) in &entry.weights {
                matrix[(entry.row, column)] += weight * values[entry.value];
            }
        }
        matrix
    }

    /// The derivative with respect to one unknown, given the partial derivatives of all values.
    pub fn derivative(&self, partial_of: &[f64]) -> Mat<f64> {
        let mut matrix = Mat::zeros(self.constant.nrows(), self.constant.ncols());
        for entry in &self.varying {
            for &(column, weight) in &entry.weights {
                matrix[(entry.row, column)] += weight * partial_of[entry.value];
            }
        }
        matrix
    }

    /// The rows `rows` of this matrix times `right`; with `offset` rows of another matrix's columns added elsewhere.
    fn times(&self, rows: &[usize], right: &Mat<f64>) -> Self {
        let picked = Mat::from_fn(rows.len(), self.constant.ncols(), |i, j| self.constant[(rows[i], j)]);
        let mut place = vec![usize::MAX; self.constant.nrows()];
        for (to, &from) in rows.iter().enumerate() {
            place[from] = to;
        }
        let varying = self
            .varying
            .iter()
            .filter(|entry| place[entry.row] != usize::MAX)
            .map(|entry| {
                let mut weights: Vec<(usize, f64)> = Vec::new();
                for column in 0..right.ncols() {
                    let weight: f64 = entry.weights.iter().map(|&(at, weight)| weight * right[(at, column)]).sum();
                    if weight != 0.0 {
                        weights.push((column, weight));
                    }
                }
                VaryingRow { row: place[entry.row], weights, value: entry.value }
            })
            .collect();
        Self { constant: picked * right, varying }
    }

    /// `self + other`, of equal shape.
    fn plus(mut self, other: Self) -> Self {
        self.constant += &other.constant;
        self.varying.extend(other.varying);
        self
    }
}

/// `z = variables z_kept + inputs u`, from algebraic equations whose coefficients are numbers.
pub(crate) struct Elimination {
    pub kept_variables: Vec<usize>,
    pub kept_rows: Vec<usize>,
    variables: Mat<f64>,
    inputs: Mat<f64>,
}

/// What an elimination must respect.
pub(crate) struct EliminationProblem<'a> {
    pub e: &'a ParametricMatrix,
    pub f: &'a ParametricMatrix,
    pub g: &'a ParametricMatrix,
    pub j: &'a ParametricMatrix,
    /// Coefficients of derivatives in start conditions.
    pub start_derivatives: &'a [&'a ParametricMatrix],
    /// Variables from here on are states of filters, which stay.
    pub n_model: usize,
}

impl Elimination {
    /// Finds variables that can go: an algebraic row without noise gives one of its variables; where inputs take part,
    /// that variable must not be differentiated anywhere.
    pub fn find(problem: &EliminationProblem<'_>) -> Self {
        let (n, n_inputs) = (problem.f.constant.ncols(), problem.g.constant.ncols());
        let n_rows = problem.f.constant.nrows();
        let is_differentiated: Vec<bool> = (0..n)
            .map(|at| problem.e.uses_column(at) || problem.start_derivatives.iter().any(|rows| rows.uses_column(at)))
            .collect();
        // Rows of the map, sparse: most variables are plus or minus another one.
        let mut map: Vec<Vec<(usize, f64)>> = (0..n).map(|at| vec![(at, 1.0)]).collect();
        let mut input_map: Vec<Vec<f64>> = vec![vec![0.0; n_inputs]; n];
        let mut is_kept = vec![true; n];
        let mut is_row_kept = vec![true; n_rows];
        let candidates: Vec<usize> = (0..n_rows)
            .filter(|&row| {
                let is_number = ![problem.e, problem.f, problem.g, problem.j].iter().any(|m| m.is_varying(row));
                let is_zero = |m: &ParametricMatrix| (0..m.constant.ncols()).all(|at| m.constant[(row, at)] == 0.0);
                is_number && is_zero(problem.e) && is_zero(problem.j)
            })
            .collect();
        // Short rows first: they bring no fill.
        let length = |row: usize| (0..n).filter(|&at| problem.f.constant[(row, at)] != 0.0).count();
        let mut order: Vec<(usize, usize)> = candidates.into_iter().map(|row| (length(row), row)).collect();
        order.sort_unstable();
        for (_, row) in order {
            let mut coefficients = vec![0.0; n];
            let mut sizes = vec![0.0f64; n];
            let mut forced: Vec<f64> = (0..n_inputs).map(|at| problem.g.constant[(row, at)]).collect();
            for at in 0..n {
                let coefficient = problem.f.constant[(row, at)];
                if coefficient == 0.0 {
                    continue;
                }
                for &(to, weight) in &map[at] {
                    coefficients[to] += coefficient * weight;
                    sizes[to] += (coefficient * weight).abs();
                }
                for (sum, weight) in forced.iter_mut().zip(&input_map[at]) {
                    *sum += coefficient * weight;
                }
            }
            // What cancels but for rounding is zero.
            for (value, size) in coefficients.iter_mut().zip(&sizes) {
                if value.abs() <= 1e-12 * size {
                    *value = 0.0;
                }
            }
            let largest = coefficients.iter().fold(0.0f64, |a, b| a.max(b.abs()));
            let has_input = forced.iter().any(|value| *value != 0.0);
            let is_allowed = |at: usize| {
                at < problem.n_model
                    && coefficients[at].abs() >= 0.1 * largest
                    && coefficients[at] != 0.0
                    && !(has_input && (0..n).any(|v| is_differentiated[v] && map[v].iter().any(|&(to, _)| to == at)))
            };
            let users =
                |at: usize| (0..n).filter(|&v| is_differentiated[v] && map[v].iter().any(|&(to, _)| to == at)).count();
            let Some(pivot) = (0..n).filter(|&at| is_allowed(at)).min_by_key(|&at| users(at)) else { continue };
            let scale = -1.0 / coefficients[pivot];
            let replacement: Vec<(usize, f64)> = (0..n)
                .filter(|&at| at != pivot && coefficients[at] != 0.0)
                .map(|at| (at, coefficients[at] * scale))
                .collect();
            for v in 0..n {
                let Some(found) = map[v].iter().position(|&(to, _)| to == pivot) else { continue };
                let weight = map[v].swap_remove(found).1;
                for &(to, factor) in &replacement {
                    match map[v].iter_mut().find(|entry| entry.0 == to) {
                        Some(entry) => entry.1 += weight * factor,
                        None => map[v].push((to, weight * factor)),
                    }
                }
                for (sum, value) in input_map[v].iter_mut().zip(&forced) {
                    *sum += weight * scale * value;
                }
            }
            is_kept[pivot] = false;
            is_row_kept[row] = false;
        }
        let kept_variables: Vec<usize> = (0..n).filter(|&at| is_kept[at]).collect();
        let mut place = vec![usize::MAX; n];
        for (to, &from) in kept_variables.iter().enumerate() {
            place[from] = to;
        }
        let mut variables = Mat::zeros(n, kept_variables.len());
        for (v, row) in map.iter().enumerate() {
            for &(to, weight) in row {
                variables[(v, place[to])] += weight;
            }
        }
        Self {
            kept_rows: (0..n_rows).filter(|&row| is_row_kept[row]).collect(),
            inputs: Mat::from_fn(n, n_inputs, |i, j| input_map[i][j]),
            kept_variables,
            variables,
        }
    }

    /// Coefficients of variables in the kept rows.
    pub fn reduce(&self, matrix: &ParametricMatrix) -> ParametricMatrix {
        matrix.times(&self.kept_rows, &self.variables)
    }

    /// Coefficients of inputs in the kept rows, given those of the variables.
    pub fn reduce_inputs(&self, f: &ParametricMatrix, g: &ParametricMatrix) -> ParametricMatrix {
        let identity = Mat::identity(g.constant.ncols(), g.constant.ncols());
        g.times(&self.kept_rows, &identity).plus(f.times(&self.kept_rows, &self.inputs))
    }

    /// Coefficients of noise in the kept rows.
    pub fn reduce_noise(&self, j: &ParametricMatrix) -> ParametricMatrix {
        j.times(&self.kept_rows, &Mat::identity(j.constant.ncols(), j.constant.ncols()))
    }

    /// Rows of signals or conditions: coefficients of the kept variables.
    pub fn reduce_rows(&self, rows: &ParametricMatrix) -> ParametricMatrix {
        let all: Vec<usize> = (0..rows.constant.nrows()).collect();
        rows.times(&all, &self.variables)
    }

    /// Rows of signals or conditions: coefficients of the inputs.
    pub fn reduce_row_inputs(&self, rows: &ParametricMatrix, inputs: &ParametricMatrix) -> ParametricMatrix {
        let all: Vec<usize> = (0..rows.constant.nrows()).collect();
        inputs.clone().plus(rows.times(&all, &self.inputs))
    }
}
