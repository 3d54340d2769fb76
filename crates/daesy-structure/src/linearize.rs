//! The matrices of a model that is linear in its unknowns and inputs: `E z' = F z + G u + f`.
//!
//! The coefficients are read off the expression graph, so that "linear" is a fact and not a guess: parameters may enter
//! in any way, time only in the coefficients and in `f`. Derivatives of time-varying coefficients are symbolic, hence
//! exact to any order. A derivative of order two or more becomes a variable of its own, called `der(x)`, with the
//! equation `der(x) = x'`: this is the first-order form that `d`, `a` and `v` speak of.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::parameters::order_parameters;
use crate::words::equation_text;
use daesy_graph::evaluate::AtTime;
use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::known::{Knowing, KnownVariable, known_variables};
use daesy_graph::{CoefficientKind, Evaluator, ExprId, Graph, Leaf, LinearExtractor, LinearForm, Reach, Span, VarId};
use daesy_pencil::{CoefficientJet, LinearCoefficients, Mat, Pencil, PencilError};
use rustc_hash::FxHashMap;

/// Whether the coefficients of a linear model change with time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinearKind {
    /// `E`, `F` and `G` are constant; `f` may depend on time.
    Constant,
    /// Some coefficient depends on time.
    TimeVarying,
}

/// An equation of a linear model in the user's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearEquation {
    /// As written, or as it follows from a connection.
    pub text: String,
    /// Its position in the flat model; `None` for the equation of a derivative that became a variable.
    pub flat_row: Option<usize>,
    /// Where it was written.
    pub span: Span,
}

/// A variable of a linear model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearVariable {
    /// Its name; `der(x)` for a derivative that became a variable.
    pub name: String,
    /// Whether it is declared an output.
    pub is_output: bool,
}

/// A variable that is only computed from the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComputedVariable {
    /// Its name.
    pub name: String,
    /// The equation that gives it.
    pub equation: String,
}

/// A model that is linear in its unknowns and inputs.
#[derive(Debug)]
pub struct LinearModel {
    /// One per row of the matrices.
    pub equations: Vec<LinearEquation>,
    /// One per column of `E` and `F`.
    pub variables: Vec<LinearVariable>,
    /// Names of the inputs, known and disturbing: one per column of `G`.
    pub inputs: Vec<String>,
    /// Whether `E`, `F` or `G` depends on time.
    pub kind: LinearKind,
    /// Variables that nonlinear equations compute from the others, such as a power; nothing depends on them.
    pub computed: Vec<ComputedVariable>,
    coefficients: RefCell<Coefficients>,
    parameter_of: Vec<f64>,
}

/// An output that is only computed from the others: `y = c z + d u + g`.
#[derive(Clone, Debug)]
pub struct SeparateOutput {
    /// Its name.
    pub name: String,
    /// Coefficients of the remaining variables.
    pub c: Vec<f64>,
    /// Coefficients of the inputs.
    pub d: Vec<f64>,
    /// The known part.
    pub g: f64,
}

/// A model whose mere outputs stand apart.
#[derive(Debug)]
pub struct WithoutOutputs {
    /// The model without them.
    pub model: LinearModel,
    /// The outputs, at the time that was asked for.
    pub outputs: Vec<SeparateOutput>,
}

/// The matrices of a linear model at one time, dense.
#[derive(Clone, Debug)]
pub struct LinearMatrices {
    /// Coefficients of the derivatives.
    pub e: Mat<f64>,
    /// Coefficients of the variables.
    pub f: Mat<f64>,
    /// Coefficients of the inputs.
    pub g: Mat<f64>,
    /// Known forcing.
    pub forcing: Vec<f64>,
}

impl LinearMatrices {
    /// The pencil `s E - F`.
    ///
    /// # Errors
    /// When a coefficient is not finite.
    pub fn pencil(&self) -> Result<Pencil, PencilError> {
        Pencil::new(self.e.clone(), self.f.clone())
    }
}

/// A coefficient with its time derivatives as far as they were asked for.
#[derive(Clone, Debug)]
struct Entry {
    row: u32,
    column: u32,
    derivatives: Vec<ExprId>,
}

#[derive(Clone, Debug, Default)]
struct Family {
    entries: Vec<Entry>,
    varies: bool,
}

#[derive(Clone, Debug)]
struct Coefficients {
    graph: Graph,
    e: Family,
    f: Family,
    g: Family,
    forcing: Family,
}

/// Values of all parameters and constants by variable, NaN for the others.
///
/// # Errors
/// A finding for the parameter that has no finite value.
pub fn parameter_values(flat: &FlatDae) -> Result<Vec<f64>, Box<Finding>> {
    let mut values = vec![f64::NAN; flat.variables.len()];
    let mut evaluator = Evaluator::new();
    for var in order_parameters(flat)? {
        let variable = &flat.variables[var.index()];
        let value = match variable.binding.or(variable.start) {
            Some(binding) => evaluator.evaluate_one(&flat.graph, binding, &|var: VarId, _: u16| values[var.index()]),
            None => 0.0,
        };
        if !value.is_finite() {
            let message = format!("the value of parameter `{}` is not a finite number ({value})", variable.name);
            return Err(Box::new(
                Finding::error("parameter-value", variable.span, message).with_names([&variable.name]),
            ));
        }
        values[var.index()] = value;
    }
    Ok(values)
}

/// By variable: the given parameters and those whose values depend on them.
fn dependent_parameters(flat: &FlatDae, unknowns: &[VarId]) -> Result<Vec<bool>, Box<Finding>> {
    let mut is_free = vec![false; flat.variables.len()];
    if unknowns.is_empty() {
        return Ok(is_free);
    }
    for unknown in unknowns {
        is_free[unknown.index()] = true;
    }
    let mut reach = Reach::new();
    for var in order_parameters(flat)? {
        if let Some(binding) = flat.variables[var.index()].binding.filter(|_| !is_free[var.index()]) {
            let is_meant = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if is_free[var.index()]);
            is_free[var.index()] = reach.depends_on(&flat.graph, binding, is_meant);
        }
    }
    Ok(is_free)
}

/// A coefficient as an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoefficientExpression {
    /// Row of the matrix.
    pub row: usize,
    /// Column of the matrix; 0 for the forcing.
    pub column: usize,
    /// Its value; entries of the same place are added.
    pub value: ExprId,
}

/// The coefficients of a linear model as expressions.
#[derive(Clone, Debug)]
pub struct CoefficientExpressions {
    /// Where the expressions are; it began as a copy of the flat model's graph.
    pub graph: Graph,
    /// Entries of `E`.
    pub e: Vec<CoefficientExpression>,
    /// Entries of `F`.
    pub f: Vec<CoefficientExpression>,
    /// Entries of `G`.
    pub g: Vec<CoefficientExpression>,
    /// Entries of `f`.
    pub forcing: Vec<CoefficientExpression>,
}

impl LinearModel {
    /// The coefficients as expressions in parameters and time.
    #[must_use]
    pub fn expressions(&self) -> CoefficientExpressions {
        let coefficients = self.coefficients.borrow();
        let list = |family: &Family| {
            let entry = |entry: &Entry| CoefficientExpression {
                row: entry.row as usize,
                column: entry.column as usize,
                value: entry.derivatives[0],
            };
            family.entries.iter().map(entry).collect()
        };
        CoefficientExpressions {
            graph: coefficients.graph.clone(),
            e: list(&coefficients.e),
            f: list(&coefficients.f),
            g: list(&coefficients.g),
            forcing: list(&coefficients.forcing),
        }
    }

    /// Reads the coefficients of a flat model, whose index they keep: an equation that is linear only with the
    /// derivative of a variable that is a function of time put in counts as nonlinear.
    ///
    /// # Errors
    /// A finding with code `nonlinear` that names what is not linear and where.
    pub fn new(flat: &FlatDae) -> Result<Self, Box<Finding>> {
        Self::read(flat, &[], Rates::Kept)
    }

    /// Reads the coefficients of a flat model, as expressions in the unknown parameters and all that depends on them:
    /// these are never replaced by their values. The solutions are those of the model; the index may be smaller, where
    /// derivatives of functions of time were put in, or larger, where an input is differentiated: a variable of the same
    /// name equals it then, and is differentiated in its place.
    ///
    /// # Errors
    /// As [`LinearModel::new`].
    pub fn with_unknowns(flat: &FlatDae, unknowns: &[VarId]) -> Result<Self, Box<Finding>> {
        Self::read(flat, unknowns, Rates::PutIn)
    }

    fn read(flat: &FlatDae, unknowns: &[VarId], rates: Rates) -> Result<Self, Box<Finding>> {
        refuse_events(flat)?;
        let parameter_of = parameter_values(flat)?;
        let layout = Layout::new(flat, rates)?;
        let mut graph = flat.graph.clone();
        let mut extractor = LinearExtractor::new(&mut graph, &layout.leaves);
        let mut reach = Reach::new();
        let kind_of = |var: VarId| flat.variables[var.index()].kind;
        let (mut e, mut f, mut g) = (Family::default(), Family::default(), Family::default());
        let mut forcing = Family::default();
        let mut equations = Vec::with_capacity(flat.equations.len() + layout.chains.len());
        let is_free = dependent_parameters(flat, unknowns)?;
        let mut known = Known::new(flat, &parameter_of, &is_free);
        let mut culprits = Vec::new();
        let mut forms = Vec::with_capacity(flat.equations.len());
        for (row, equation) in flat.equations.iter().enumerate() {
            let residual = graph.sub(equation.rhs, equation.lhs);
            let extracted = match extractor.extract(&mut graph, residual) {
                Ok(form) => Ok(form),
                Err(nonlinear) => {
                    let mut extract = |rates| known.extract(&mut graph, &mut extractor, (row, residual), rates);
                    let form = extract(Rates::Kept);
                    form.or_else(|| (rates == Rates::PutIn).then(|| extract(rates))?).ok_or(nonlinear)
                }
            };
            match extracted {
                Ok(form) => forms.push(form),
                Err(nonlinear) => {
                    culprits.push(Culprit { row, leaf: nonlinear.leaf });
                    forms.push(LinearForm { coefficients: Vec::new(), remainder: graph.number(0.0) });
                }
            }
        }
        let computed = computed_variables(flat, &culprits)?;
        for (row, (equation, form)) in flat.equations.iter().zip(&forms).enumerate() {
            for entry in &form.coefficients {
                let (family, column, is_negated) = match layout.columns[entry.column as usize] {
                    Column::Derivative(column) => (&mut e, column, true),
                    Column::Variable(column) => (&mut f, column, false),
                    Column::Input(column) => (&mut g, column, false),
                };
                let kind = reach.coefficient_kind(&graph, entry.value, &kind_of);
                family.varies |= kind == CoefficientKind::Time;
                let value = if is_negated { graph.neg(entry.value) } else { entry.value };
                family.entries.push(Entry { row: row as u32, column, derivatives: vec![value] });
            }
            if graph.as_number(form.remainder) != Some(0.0) {
                forcing.varies |= reach.coefficient_kind(&graph, form.remainder, &kind_of) == CoefficientKind::Time;
                forcing.entries.push(Entry { row: row as u32, column: 0, derivatives: vec![form.remainder] });
            }
            equations.push(LinearEquation { text: equation_text(flat, row), flat_row: Some(row), span: equation.span });
        }
        let one = graph.number(1.0);
        for chain in &layout.chains {
            let row = equations.len() as u32;
            e.entries.push(Entry { row, column: chain.of, derivatives: vec![one] });
            f.entries.push(Entry { row, column: chain.derivative, derivatives: vec![one] });
            let (of, derivative) = (&layout.variables[chain.of as usize], &layout.variables[chain.derivative as usize]);
            let text = format!("{} = der({})", derivative.name, of.name);
            equations.push(LinearEquation { text, flat_row: None, span: Span::NONE });
        }
        let minus_one = graph.number(-1.0);
        for copy in &layout.copies {
            let row = equations.len() as u32;
            f.entries.push(Entry { row, column: copy.copy, derivatives: vec![one] });
            g.entries.push(Entry { row, column: copy.input, derivatives: vec![minus_one] });
            let text = format!("variable {0} = input {0}", layout.variables[copy.copy as usize].name);
            equations.push(LinearEquation { text, flat_row: None, span: Span::NONE });
        }
        let coefficients = Coefficients { graph, e, f, g, forcing };
        let rows: Vec<usize> =
            (0..equations.len()).filter(|&row| computed.iter().all(|computed| computed.row != row)).collect();
        let is_computed = |name: &str| computed.iter().any(|computed| computed.variable.name == name);
        let columns: Vec<usize> =
            (0..layout.variables.len()).filter(|&at| !is_computed(&layout.variables[at].name)).collect();
        let coefficients = if computed.is_empty() {
            coefficients
        } else {
            coefficients.restricted(&rows, &columns, layout.inputs.len())
        };
        let varies = coefficients.e.varies || coefficients.f.varies || coefficients.g.varies;
        Ok(Self {
            equations: rows.iter().map(|&row| equations[row].clone()).collect(),
            variables: columns.iter().map(|&at| layout.variables[at].clone()).collect(),
            inputs: layout.inputs,
            kind: if varies { LinearKind::TimeVarying } else { LinearKind::Constant },
            computed: computed.into_iter().map(|computed| computed.variable).collect(),
            coefficients: RefCell::new(coefficients),
            parameter_of,
        })
    }

    /// Number of variables.
    #[must_use]
    pub fn n_variables(&self) -> usize {
        self.variables.len()
    }

    /// Names of the variables.
    #[must_use]
    pub fn variable_names(&self) -> Vec<&str> {
        self.variables.iter().map(|variable| variable.name.as_str()).collect()
    }

    /// The known forcing of every equation with its time derivatives up to `order`, written into a graph of the model;
    /// empty if there is none. Known variables that were put in are gone from it.
    #[must_use]
    pub fn forcing_expressions(&self, graph: &mut Graph, order: usize) -> Vec<Vec<ExprId>> {
        let coefficients = self.coefficients.borrow();
        let mut expressions = vec![Vec::new(); self.equations.len()];
        // The graph of the coefficients began as a copy of the model's and only grew.
        *graph = coefficients.graph.clone();
        for entry in &coefficients.forcing.entries {
            let list = &mut expressions[entry.row as usize];
            list.push(entry.derivatives[0]);
            for at in 0..order {
                let next = graph.partial(list[at], Leaf::Time);
                list.push(next);
            }
        }
        expressions
    }

    /// The values of parameters and constants by position in the flat model.
    #[must_use]
    pub fn parameter_of(&self) -> &[f64] {
        &self.parameter_of
    }

    /// The matrices at one time.
    #[must_use]
    pub fn matrices(&self, time: f64) -> LinearMatrices {
        let (m, n, k) = (self.equations.len(), self.variables.len(), self.inputs.len());
        let coefficients = &mut *self.coefficients.borrow_mut();
        let mut evaluator = Evaluator::new();
        let environment = AtTime { time, parameter_of: &self.parameter_of };
        let Coefficients { graph, e, f, g, forcing } = coefficients;
        let forcing = dense(graph, forcing, 0, m, 1, &environment, &mut evaluator);
        LinearMatrices {
            e: dense(graph, e, 0, m, n, &environment, &mut evaluator),
            f: dense(graph, f, 0, m, n, &environment, &mut evaluator),
            g: dense(graph, g, 0, m, k, &environment, &mut evaluator),
            forcing: (0..m).map(|row| forcing[(row, 0)]).collect(),
        }
    }

    /// The model with every output that occurs in one equation only, undifferentiated, taken out together with that
    /// equation.
    #[must_use]
    pub fn separate_outputs(&self, time: f64) -> WithoutOutputs {
        let matrices = self.matrices(time);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let coefficients = self.coefficients.borrow();
        for (column, _) in self.variables.iter().enumerate().filter(|(_, variable)| variable.is_output) {
            let uses = |family: &Family| -> Vec<usize> {
                let uses = family.entries.iter().filter(|entry| entry.column as usize == column);
                uses.map(|entry| entry.row as usize).collect()
            };
            let rows = uses(&coefficients.f);
            if !uses(&coefficients.e).is_empty() || rows.len() != 1 || matrices.f[(rows[0], column)] == 0.0 {
                continue;
            }
            let row = rows[0];
            let is_algebraic = coefficients.e.entries.iter().all(|entry| entry.row as usize != row);
            let is_fresh = taken.iter().all(|&(other, output)| other != row && matrices.f[(row, output)] == 0.0);
            if is_algebraic && is_fresh {
                taken.push((row, column));
            }
        }
        let keep =
            |n: usize, dropped: &dyn Fn(usize) -> bool| -> Vec<usize> { (0..n).filter(|&at| !dropped(at)).collect() };
        let rows = keep(self.equations.len(), &|at| taken.iter().any(|&(row, _)| row == at));
        let columns = keep(self.variables.len(), &|at| taken.iter().any(|&(_, column)| column == at));
        let outputs = taken
            .iter()
            .map(|&(row, column)| {
                let scale = -1.0 / matrices.f[(row, column)];
                let tidy = |value: f64| value * scale + 0.0;
                SeparateOutput {
                    name: self.variables[column].name.clone(),
                    c: columns.iter().map(|&at| tidy(matrices.f[(row, at)])).collect(),
                    d: (0..self.inputs.len()).map(|at| tidy(matrices.g[(row, at)])).collect(),
                    g: tidy(matrices.forcing[row]),
                }
            })
            .collect();
        let model = Self {
            equations: rows.iter().map(|&at| self.equations[at].clone()).collect(),
            variables: columns.iter().map(|&at| self.variables[at].clone()).collect(),
            inputs: self.inputs.clone(),
            kind: self.kind,
            computed: self.computed.clone(),
            coefficients: RefCell::new(coefficients.restricted(&rows, &columns, self.inputs.len())),
            parameter_of: self.parameter_of.clone(),
        };
        WithoutOutputs { model, outputs }
    }
}

impl LinearCoefficients for LinearModel {
    fn jet(&self, time: f64, order: usize) -> Result<CoefficientJet, PencilError> {
        let (m, n, k) = (self.equations.len(), self.variables.len(), self.inputs.len());
        let Coefficients { graph, e, f, g, forcing } = &mut *self.coefficients.borrow_mut();
        let mut evaluator = Evaluator::new();
        let environment = AtTime { time, parameter_of: &self.parameter_of };
        let mut list = |family: &mut Family, columns: usize| -> Vec<Mat<f64>> {
            let orders = if family.varies { order } else { 0 };
            (0..=orders).map(|at| dense(graph, family, at, m, columns, &environment, &mut evaluator)).collect()
        };
        let mut jet = CoefficientJet { e: list(e, n), f: list(f, n), ..CoefficientJet::default() };
        if k > 0 {
            jet.input = list(g, k);
        }
        if !forcing.entries.is_empty() {
            jet.forcing = list(forcing, 1).iter().map(|column| (0..m).map(|row| column[(row, 0)]).collect()).collect();
        }
        Ok(jet)
    }
}

impl Coefficients {
    /// The coefficients of some rows and columns, renumbered.
    fn restricted(&self, rows: &[usize], columns: &[usize], n_inputs: usize) -> Self {
        let place = |kept: &[usize]| -> FxHashMap<u32, u32> {
            kept.iter().enumerate().map(|(to, &from)| (from as u32, to as u32)).collect()
        };
        let row_of = place(rows);
        let restrict = |family: &Family, column_of: &FxHashMap<u32, u32>| Family {
            entries: family
                .entries
                .iter()
                .filter_map(|entry| {
                    let (row, column) = (*row_of.get(&entry.row)?, *column_of.get(&entry.column)?);
                    Some(Entry { row, column, derivatives: entry.derivatives.clone() })
                })
                .collect(),
            varies: family.varies,
        };
        let column_of = place(columns);
        let all: Vec<usize> = (0..n_inputs.max(1)).collect();
        let unchanged = place(&all);
        Self {
            graph: self.graph.clone(),
            e: restrict(&self.e, &column_of),
            f: restrict(&self.f, &column_of),
            g: restrict(&self.g, &unchanged),
            forcing: restrict(&self.forcing, &unchanged),
        }
    }
}

/// Derivative `order` of a family at a time; missing derivatives are made first.
fn dense(
    graph: &mut Graph,
    family: &mut Family,
    order: usize,
    rows: usize,
    columns: usize,
    environment: &AtTime<'_>,
    evaluator: &mut Evaluator,
) -> Mat<f64> {
    for entry in &mut family.entries {
        while entry.derivatives.len() <= order {
            let last = entry.derivatives[entry.derivatives.len() - 1];
            let next = graph.partial(last, Leaf::Time);
            entry.derivatives.push(next);
        }
    }
    let roots: Vec<ExprId> = family.entries.iter().map(|entry| entry.derivatives[order]).collect();
    let mut values = Vec::new();
    evaluator.evaluate(graph, &roots, environment, &mut values);
    let mut matrix = Mat::zeros(rows, columns);
    for (entry, value) in family.entries.iter().zip(values) {
        matrix[(entry.row as usize, entry.column as usize)] += value;
    }
    matrix
}

fn refuse_events(flat: &FlatDae) -> Result<(), Box<Finding>> {
    if let Some(clause) = flat.when_clauses.first() {
        return Err(Box::new(Finding::error("nonlinear", clause.span, "a model with when-clauses is not linear")));
    }
    match flat.variables.iter().find(|variable| variable.kind == VariableKind::Discrete) {
        Some(variable) => Err(Box::new(
            Finding::error("nonlinear", variable.span, format!("`{}` is discrete", variable.name))
                .with_names([&variable.name]),
        )),
        None => Ok(()),
    }
}

/// An equation that is not linear in a leaf.
struct Culprit {
    row: usize,
    leaf: Leaf,
}

impl Culprit {
    fn finding(&self, flat: &FlatDae) -> Finding {
        let name = match self.leaf {
            Leaf::Var { var, .. } => flat.variables[var.index()].name.as_str(),
            Leaf::Time => "time",
        };
        let message = format!("`{name}` enters nonlinearly in {}", equation_text(flat, self.row));
        Finding::error("nonlinear", flat.equations[self.row].span, message).with_names([name])
    }
}

/// Whether the derivative of an equation by a variable depends on derivatives.
fn has_moving_slope(flat: &FlatDae, row: usize, var: VarId) -> bool {
    let mut graph = flat.graph.clone();
    let equation = &flat.equations[row];
    let residual = graph.sub(equation.rhs, equation.lhs);
    let slope = graph.partial(residual, Leaf::der(var, 0));
    Reach::new().depends_on(&graph, slope, |leaf| matches!(leaf, Leaf::Var { order, .. } if order > 0))
}

/// A variable that an equation computes and nothing else needs.
struct Computed {
    row: usize,
    variable: ComputedVariable,
}

/// The variables that nonlinear equations compute and nothing depends on, together with what is in turn computed from
/// them.
///
/// Variables that occur in one equation only are taken away together with it until none is left; of these the nonlinear
/// equations, and those that need what they compute, stay away. An equation computes nothing if derivatives decide
/// whether it does (x1 + x2 x1' = 0), or if it alone says how a variable moves (x' = x^2 + y with a free y): the
/// derivative array needs it.
fn computed_variables(flat: &FlatDae, culprits: &[Culprit]) -> Result<Vec<Computed>, Box<Finding>> {
    if culprits.is_empty() {
        return Ok(Vec::new());
    }
    let mut variables_of: Vec<Vec<VarId>> = Vec::with_capacity(flat.equations.len());
    let mut rows_of: FxHashMap<VarId, Vec<usize>> = FxHashMap::default();
    let mut is_differentiated = vec![false; flat.variables.len()];
    let mut rates_of: Vec<Vec<VarId>> = vec![Vec::new(); flat.equations.len()];
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    for (row, equation) in flat.equations.iter().enumerate() {
        reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
        let mut variables: Vec<VarId> = Vec::new();
        for &leaf in &leaves {
            if let Leaf::Var { var, order } = leaf
                && flat.variables[var.index()].kind == VariableKind::Continuous
            {
                is_differentiated[var.index()] |= order > 0;
                if order > 0 {
                    rates_of[row].push(var);
                }
                if !variables.contains(&var) {
                    variables.push(var);
                    rows_of.entry(var).or_default().push(row);
                }
            }
        }
        variables_of.push(variables);
    }
    let mut n_left: FxHashMap<VarId, usize> = rows_of.iter().map(|(&var, rows)| (var, rows.len())).collect();
    let mut queue: Vec<VarId> = n_left.iter().filter(|(_, n)| **n == 1).map(|(&var, _)| var).collect();
    queue.sort_unstable();
    let mut taken: Vec<Option<VarId>> = vec![None; flat.equations.len()];
    while let Some(var) = queue.pop() {
        if is_differentiated[var.index()] {
            continue;
        }
        let Some(&row) = rows_of[&var].iter().find(|&&row| taken[row].is_none()) else { continue };
        if !rates_of[row].is_empty() && has_moving_slope(flat, row, var) {
            continue;
        }
        taken[row] = Some(var);
        for other in &variables_of[row] {
            if let Some(n) = n_left.get_mut(other) {
                *n -= 1;
                if *n == 1 && other != &var {
                    queue.push(*other);
                }
            }
        }
    }
    let mut is_away = vec![false; flat.equations.len()];
    let mut todo = Vec::new();
    for culprit in culprits {
        if taken[culprit.row].is_none() {
            return Err(Box::new(culprit.finding(flat)));
        }
        todo.push(culprit.row);
    }
    while let Some(row) = todo.pop() {
        let Some(var) = taken[row].filter(|_| !is_away[row]) else { continue };
        is_away[row] = true;
        todo.extend(rows_of[&var].iter().copied().filter(|&other| other != row));
    }
    let moves_elsewhere = |var: &VarId| (0..is_away.len()).any(|row| !is_away[row] && rates_of[row].contains(var));
    let is_motion = |row: usize| is_away[row] && !rates_of[row].iter().all(moves_elsewhere);
    if (0..is_away.len()).any(is_motion)
        && let Some(culprit) = culprits.iter().find(|culprit| is_motion(culprit.row)).or(culprits.first())
    {
        return Err(Box::new(culprit.finding(flat)));
    }
    Ok((0..is_away.len())
        .filter(|&row| is_away[row])
        .filter_map(|row| {
            let name = flat.variables[taken[row]?.index()].name.clone();
            Some(Computed { row, variable: ComputedVariable { name, equation: equation_text(flat, row) } })
        })
        .collect())
}

/// What becomes of derivatives of known variables.
///
/// To put a known variable in is to add multiples of its own equation, which changes nothing in the derivative array; to
/// put its derivative in uses that equation differentiated, and hides from the array that it was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rates {
    Kept,
    PutIn,
}

/// Known variables and the values of parameters: with these put in, an equation that looks nonlinear may be linear.
struct Known<'a> {
    flat: &'a FlatDae,
    parameter_of: &'a [f64],
    /// By variable: parameters that stay symbols.
    is_free: &'a [bool],
    /// Found when first asked for.
    values: Option<HashMap<VarId, KnownVariable>>,
    residuals: Vec<ExprId>,
    reach: Reach,
    rates: Rates,
}

impl<'a> Known<'a> {
    fn new(flat: &'a FlatDae, parameter_of: &'a [f64], is_free: &'a [bool]) -> Self {
        Self {
            flat,
            parameter_of,
            is_free,
            values: None,
            residuals: Vec::new(),
            reach: Reach::new(),
            rates: Rates::Kept,
        }
    }

    /// The linear form of a residual with known variables and parameters put in, if it has one.
    fn extract(
        &mut self,
        graph: &mut Graph,
        extractor: &mut LinearExtractor,
        (row, residual): (usize, ExprId),
        rates: Rates,
    ) -> Option<LinearForm> {
        let values = match self.values.take() {
            Some(values) => values,
            None => {
                let equations = self.flat.equations.iter();
                self.residuals = equations.map(|equation| graph.sub(equation.rhs, equation.lhs)).collect();
                let residuals = self.residuals.clone();
                known_variables(graph, &self.flat.variables, &residuals, self)
            }
        };
        self.rates = rates;
        let replaced = self.replace(graph, row, residual, &values);
        self.values = Some(values);
        extractor.extract(graph, replaced).ok()
    }

    /// The expression of an equation with known variables and parameters put in.
    fn replace(
        &mut self,
        graph: &mut Graph,
        row: usize,
        expr: ExprId,
        known: &HashMap<VarId, KnownVariable>,
    ) -> ExprId {
        let mut images: FxHashMap<ExprId, ExprId> = FxHashMap::default();
        let below = self.reach.below(graph, &[expr]).to_vec();
        for node in below {
            let image = match graph.as_leaf(node) {
                Some(leaf) => self.value_of(graph, row, leaf, known).unwrap_or(node),
                None => {
                    let children = graph.children(node);
                    let replaced: Vec<ExprId> = children.iter().map(|child| images[child]).collect();
                    if replaced[..] == children[..] { node } else { graph.rebuild(node, &replaced) }
                }
            };
            images.insert(node, image);
        }
        images[&expr]
    }

    fn value_of(
        &self,
        graph: &mut Graph,
        row: usize,
        leaf: Leaf,
        known: &HashMap<VarId, KnownVariable>,
    ) -> Option<ExprId> {
        let Leaf::Var { var, order } = leaf else { return None };
        if self.is_free[var.index()] {
            return None;
        }
        match self.flat.variables[var.index()].kind {
            VariableKind::Parameter | VariableKind::Constant => Some(graph.number(self.parameter_of[var.index()])),
            _ if order > 0 && self.rates == Rates::Kept => None,
            _ => {
                let known = known.get(&var).filter(|known| known.row != row)?;
                Some((0..order).fold(known.value, |value, _| graph.partial(value, Leaf::Time)))
            }
        }
    }
}

impl Knowing for Known<'_> {
    fn put_in(&mut self, graph: &mut Graph, row: usize, known: &HashMap<VarId, KnownVariable>) -> ExprId {
        self.replace(graph, row, self.residuals[row], known)
    }

    /// Unknown parameters may be left in it, but not time, which must not be divided by.
    fn may_divide(&mut self, graph: &mut Graph, coefficient: ExprId) -> bool {
        let value = match graph.as_number(coefficient) {
            Some(number) => number,
            None if self.reach.depends_on(graph, coefficient, |leaf| leaf == Leaf::Time) => return false,
            None => {
                let environment = AtTime { time: 0.0, parameter_of: self.parameter_of };
                Evaluator::new().evaluate_one(graph, coefficient, &environment)
            }
        };
        value != 0.0 && value.is_finite()
    }
}

/// Where the coefficient of a leaf goes.
#[derive(Clone, Copy)]
enum Column {
    Derivative(u32),
    Variable(u32),
    Input(u32),
}

/// `variables[derivative] = der(variables[of])`
struct DerivativeChain {
    of: u32,
    derivative: u32,
}

/// A variable that equals an input which is differentiated in an equation.
struct InputCopy {
    copy: u32,
    input: u32,
}

/// Which leaf is which column.
struct Layout {
    leaves: Vec<Leaf>,
    columns: Vec<Column>,
    variables: Vec<LinearVariable>,
    inputs: Vec<String>,
    chains: Vec<DerivativeChain>,
    copies: Vec<InputCopy>,
}

impl Layout {
    fn new(flat: &FlatDae, rates: Rates) -> Result<Self, Box<Finding>> {
        let mut highest = vec![0u16; flat.variables.len()];
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        for equation in &flat.equations {
            reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
            for &leaf in &leaves {
                if let Leaf::Var { var, order } = leaf {
                    highest[var.index()] = highest[var.index()].max(order);
                    let variable = &flat.variables[var.index()];
                    if order > 0 && variable.kind == VariableKind::Input && rates == Rates::Kept {
                        let message = format!("the input `{}` is differentiated in an equation", variable.name);
                        return Err(Box::new(
                            Finding::error("nonlinear", equation.span, message).with_names([&variable.name]).with_help(
                                "make it a variable: declare one that equals the input and differentiate that",
                            ),
                        ));
                    }
                }
            }
        }
        let mut layout = Self {
            leaves: Vec::new(),
            columns: Vec::new(),
            variables: Vec::new(),
            inputs: Vec::new(),
            chains: Vec::new(),
            copies: Vec::new(),
        };
        let of_kind = |kind: VariableKind| {
            flat.variables
                .iter()
                .enumerate()
                .filter(move |(_, variable)| variable.kind == kind)
                .map(|(at, variable)| (VarId(at as u32), variable))
        };
        for (var, variable) in of_kind(VariableKind::Continuous) {
            layout.push(Leaf::var(var), Column::Variable(layout.variables.len() as u32));
            layout.variables.push(LinearVariable { name: variable.name.clone(), is_output: variable.is_output });
        }
        for (column, (var, variable)) in of_kind(VariableKind::Continuous).enumerate() {
            layout.push_derivatives(var, &variable.name, column as u32, highest[var.index()].max(1));
        }
        for (var, variable) in of_kind(VariableKind::Input) {
            let input = layout.inputs.len() as u32;
            layout.push(Leaf::var(var), Column::Input(input));
            layout.inputs.push(variable.name.clone());
            if highest[var.index()] > 0 {
                let copy = layout.variables.len() as u32;
                layout.variables.push(LinearVariable { name: variable.name.clone(), is_output: false });
                layout.copies.push(InputCopy { copy, input });
                layout.push_derivatives(var, &variable.name, copy, highest[var.index()]);
            }
        }
        Ok(layout)
    }

    /// The derivatives of a variable, or of the copy of an input, in some column: all below the highest are variables.
    fn push_derivatives(&mut self, var: VarId, name: &str, column: u32, highest: u16) {
        let (mut of, mut name) = (column, name.to_owned());
        for order in 1..highest {
            name = format!("der({name})");
            let derivative = self.variables.len() as u32;
            self.variables.push(LinearVariable { name: name.clone(), is_output: false });
            self.chains.push(DerivativeChain { of, derivative });
            self.push(Leaf::der(var, order), Column::Variable(derivative));
            of = derivative;
        }
        self.push(Leaf::der(var, highest), Column::Derivative(of));
    }

    fn push(&mut self, leaf: Leaf, column: Column) {
        self.leaves.push(leaf);
        self.columns.push(column);
    }
}
