//! The Galerkin expansion of a model: a larger model whose unknowns are the coefficients of the series.
//!
//! The series is put into every equation and the residual is made orthogonal to every polynomial
//! [@pulch2008, sec. 2.3]. What is linear in the unknowns becomes
//!
//! ```text
//! <Phi_l c(xi) x> = sum over k of <c Phi_l Phi_k> x_k
//! ```
//!
//! with coefficients c of any form: without random parameters each x_l keeps its coefficient (the Kronecker product
//! with the identity); with them the matrix `<c Phi_l Phi_k>` is computed once, over the parameters that c depends on
//! and no others. Gauss quadrature gives it exactly for polynomials and to rounding for smooth functions (the number
//! of points is doubled until nothing changes). What is not linear is evaluated at the points of a tensor grid,
//! symbolically:
//!
//! ```text
//! <Phi_l f(x, xi)> = sum over q of w_q Phi_l(xi_q) f(sum over k of x_k Phi_k(xi_q), xi_q)
//! ```
//!
//! The result is a flat model like any other: it is regularized, compiled and integrated the same way. Its variables
//! are called `x#k`.

mod coefficient;
mod terms;

use std::collections::HashMap;

use daesy_graph::flat::{Equation, FlatDae, Origin, Variable, VariableKind};
use daesy_graph::{Evaluator, ExprId, Graph, Leaf, LinearExtractor, Reach, Span, Substitution, VarId};

use crate::basis::Basis;
use crate::error::ChaosError;
use coefficient::{Coefficient, Projector};
use daesy_graph::known::{KnownVariable, known_variables};
use terms::{LinearTerm, NonlinearTerm, PutIn, SplitEquation, split_residual};

/// A smooth transition from the mean parameters to the random ones at the start [@pulch2008, eq. (19)]:
/// 3 s^2 - 2 s^3 with s = (t - start) / duration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ramp {
    /// When it begins.
    pub start: f64,
    /// How long it takes.
    pub duration: f64,
}

/// How a model is expanded.
#[derive(Clone, Debug)]
pub struct ExpandOptions {
    /// Variables of the flat model that the basis' parameters are, in its order.
    pub random: Vec<VarId>,
    /// Inputs that depend on random parameters: they get coefficients like unknowns, to be given from outside.
    pub random_inputs: Vec<VarId>,
    /// Start values where the model does not insist on some: by variable, coefficients of its series.
    pub guesses: HashMap<VarId, Vec<f64>>,
    /// Points per parameter for what is not linear; `None` chooses by the degree.
    pub points: Option<usize>,
    /// Times at which the accuracy of quadrature is judged.
    pub times: Vec<f64>,
    /// The transition at the start.
    pub ramp: Option<Ramp>,
}

/// How a model was expanded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExpansionFacts {
    /// Coefficients with random parameters that are polynomials: projected exactly.
    pub n_exact: usize,
    /// Other coefficients with random parameters: projected by quadrature to rounding.
    pub n_by_quadrature: usize,
    /// Equations with parts that are not linear in the unknowns, by position.
    pub nonlinear: Vec<usize>,
    /// Points of the grid for them.
    pub n_points: usize,
    /// Names of coefficients whose quadrature did not settle.
    pub unsettled: Vec<String>,
}

/// An expanded model.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// The model.
    pub flat: FlatDae,
    /// By variable of the original model: the variables of its coefficients; empty for parameters and plain inputs.
    pub terms: Vec<Vec<VarId>>,
    /// How many variables and equations at the end only keep derivatives that are to be read.
    pub n_kept: usize,
    /// How it was done.
    pub facts: ExpansionFacts,
}

/// Most points of the grid for nonlinear parts.
const MAX_GRID: f64 = 2e5;

fn refuse<T>(reason: impl Into<String>, name: Option<&str>) -> Result<T, ChaosError> {
    Err(ChaosError::NotExpandable { reason: reason.into(), name: name.map(str::to_owned) })
}

/// Whether all equations are linear in unknowns and inputs whatever the parameters; otherwise the position of one
/// that is not.
///
/// # Errors
/// When the model has events, or parameters that initial equations determine.
pub fn first_nonlinear(flat: &FlatDae, random: &[VarId]) -> Result<Option<usize>, ChaosError> {
    let mut model = Model::new(flat, random, &[])?;
    let residuals = model.residuals(&flat.equations, When::Always);
    for (row, residual) in residuals.into_iter().enumerate() {
        let split = model.split(residual);
        if !split.nonlinear.is_empty() {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Expands a model.
///
/// # Errors
/// When the model has events or when quadrature would need too many points.
pub fn expand(flat: &FlatDae, basis: &Basis, options: &ExpandOptions) -> Result<Expanded, ChaosError> {
    let mut model = Model::new(flat, &options.random, &options.random_inputs)?;
    let residuals = model.residuals(&flat.equations, When::Always);
    let equations: Vec<SplitEquation> = residuals.into_iter().map(|residual| model.split(residual)).collect();
    let residuals = model.residuals(&flat.initial_equations, When::AtStart);
    let initial: Vec<SplitEquation> = residuals.into_iter().map(|residual| model.split(residual)).collect();
    let n_terms = basis.len();
    // The variable itself becomes the first coefficient; the others are added after all variables.
    let mut variables = flat.variables.clone();
    let mut terms: Vec<Vec<VarId>> = vec![Vec::new(); flat.variables.len()];
    for (at, variable) in flat.variables.iter().enumerate() {
        let var = VarId(at as u32);
        if model.is_expanded(var) {
            terms[at].push(var);
            variables[at].name = format!("{}#0", variable.name);
        }
    }
    for k in 1..n_terms {
        for (at, variable) in flat.variables.iter().enumerate() {
            if !terms[at].is_empty() {
                terms[at].push(VarId(variables.len() as u32));
                variables.push(Variable {
                    name: format!("{}#{k}", variable.name),
                    start: None,
                    fixed: None,
                    is_output: false,
                    ..variable.clone()
                });
            }
        }
    }
    let facts = ExpansionFacts {
        nonlinear: (0..equations.len()).filter(|&row| !equations[row].nonlinear.is_empty()).collect(),
        ..ExpansionFacts::default()
    };
    let Model { mut graph, parameters, .. } = model;
    let means = basis.means()?;
    let projector = Projector::new(basis, &options.random, &means, parameters, &options.times);
    let ramp = options.ramp.map(|ramp| ramp_expression(&mut graph, ramp));
    let mut assembly = Assembly { flat, basis, options, terms: &terms, projector, facts, ramp, grid: None };
    let mut made = Vec::with_capacity(equations.len() * n_terms);
    assembly.assemble(&mut graph, &flat.equations, &equations, false, &mut made)?;
    let mut made_initial = Vec::new();
    assembly.assemble(&mut graph, &flat.initial_equations, &initial, options.ramp.is_some(), &mut made_initial)?;
    assembly.set_starts(&mut graph, &mut variables)?;
    let facts = assembly.facts;
    let n_made = made.len();
    keep_derivatives(flat, &mut graph, &terms, &mut variables, &mut made);
    let n_kept = made.len() - n_made;
    let flat = FlatDae {
        model: flat.model.clone(),
        description: flat.description.clone(),
        graph,
        variables,
        equations: made,
        initial_equations: made_initial,
        when_clauses: Vec::new(),
        assertions: Vec::new(),
        experiment: flat.experiment,
        findings: Vec::new(),
        sources: flat.sources.clone(),
    };
    Ok(Expanded { flat, terms, n_kept, facts })
}

/// The model itself with the transition at the start of an expansion, to compare both: what is linear in the unknowns,
/// or known, is mixed, `(1 - r) c(mean) + r c(p)` with the ramp r; what is not linear takes `mean + r (p - mean)` for
/// p. Start values and initial equations are those at the means.
///
/// # Errors
/// As [`expand`].
pub fn ramped(flat: &FlatDae, random: &[VarId], means: &[f64], ramp: Ramp) -> Result<FlatDae, ChaosError> {
    let mut model = Model::new(flat, random, &[])?;
    let residuals = model.residuals(&flat.equations, When::Always);
    let equations: Vec<SplitEquation> = residuals.into_iter().map(|residual| model.split(residual)).collect();
    let Model { mut graph, mut written_out, .. } = model;
    let ramp = ramp_expression(&mut graph, ramp);
    let (mut at_means, mut on_ramp) = (Substitution::new(), Substitution::new());
    for (&var, &mean) in random.iter().zip(means) {
        let (leaf, value) = (Leaf::var(var), graph.var(var));
        let mean = graph.number(mean);
        at_means.replace_leaf(&mut graph, leaf, mean);
        let change = graph.sub(value, mean);
        let scaled = graph.mul(ramp, change);
        let between = graph.add(mean, scaled);
        on_ramp.replace_leaf(&mut graph, leaf, between);
    }
    let mut made = flat.clone();
    let zero = graph.number(0.0);
    for (equation, split) in made.equations.iter_mut().zip(&equations) {
        let mut sum = Vec::new();
        let mut mixed = |graph: &mut Graph, value: ExprId| {
            let mean = at_means.apply(graph, value);
            let change = graph.sub(value, mean);
            let scaled = graph.mul(ramp, change);
            graph.add(mean, scaled)
        };
        for LinearTerm { leaf, coefficient } in &split.linear {
            let Leaf::Var { var, order } = *leaf else { continue };
            let (coefficient, unknown) = (mixed(&mut graph, *coefficient), graph.der(var, order));
            sum.push(graph.mul(coefficient, unknown));
        }
        for &remainder in &split.remainders {
            sum.push(mixed(&mut graph, remainder));
        }
        for NonlinearTerm { factor, expr } in &split.nonlinear {
            let (factor, expr) = (on_ramp.apply(&mut graph, *factor), on_ramp.apply(&mut graph, *expr));
            sum.push(graph.mul(factor, expr));
        }
        (equation.lhs, equation.rhs) = (zero, graph.sum(&sum));
    }
    let mut constant = |expr: ExprId| {
        let expr = written_out.apply(&mut graph, expr);
        at_means.apply(&mut graph, expr)
    };
    for equation in &mut made.initial_equations {
        (equation.lhs, equation.rhs) = (constant(equation.lhs), constant(equation.rhs));
    }
    for variable in made.variables.iter_mut().filter(|variable| variable.kind == VariableKind::Continuous) {
        variable.start = variable.start.map(&mut constant);
    }
    made.graph = graph;
    Ok(made)
}

/// Derivatives of the original equations that the expanded ones do not hold, since known functions were put in their
/// place, get variables of their own, `der(x)#k = der(x#k)`: who reads the model's derivatives finds them.
fn keep_derivatives(
    flat: &FlatDae,
    graph: &mut Graph,
    terms: &[Vec<VarId>],
    variables: &mut Vec<Variable>,
    made: &mut Vec<Equation>,
) {
    let (mut reach, mut before, mut after) = (Reach::new(), Vec::new(), Vec::new());
    let sides = |equations: &[Equation]| -> Vec<ExprId> {
        equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect()
    };
    reach.leaves(&flat.graph, &sides(&flat.equations), &mut before);
    reach.leaves(graph, &sides(made), &mut after);
    before.sort_unstable();
    for leaf in before {
        let Leaf::Var { var, order } = leaf else { continue };
        if order == 0 || terms[var.index()].is_empty() || after.contains(&leaf) {
            continue;
        }
        let name = (0..order).fold(flat.variables[var.index()].name.clone(), |name, _| format!("der({name})"));
        for (k, &term) in terms[var.index()].iter().enumerate() {
            let kept = VarId(variables.len() as u32);
            let of = &flat.variables[var.index()];
            variables.push(Variable::new(format!("{name}#{k}"), of.kind, of.span));
            let (lhs, rhs) = (graph.var(kept), graph.der(term, order));
            made.push(Equation { lhs, rhs, origin: Origin::Equation, component: "".into(), span: Span::NONE });
        }
    }
}

fn ramp_expression(graph: &mut Graph, ramp: Ramp) -> ExprId {
    let time = graph.time();
    let (start, end) = (graph.number(ramp.start), graph.number(ramp.start + ramp.duration));
    let inverse = graph.number(1.0 / ramp.duration);
    let since = graph.sub(time, start);
    let s = graph.mul(since, inverse);
    let (two, three, one) = (graph.number(2.0), graph.number(3.0), graph.number(1.0));
    let twice = graph.mul(two, s);
    let bracket = graph.sub(three, twice);
    let square = graph.mul(s, s);
    let inside = graph.mul(square, bracket);
    let is_inside = graph.less(time, end);
    let value = graph.select(is_inside, inside, one);
    graph.no_event(value)
}

/// When equations hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Always,
    AtStart,
}

/// A flat model prepared for splitting: dependent parameters are written out, variables that are known functions put
/// in.
struct Model<'a> {
    flat: &'a FlatDae,
    graph: Graph,
    /// Puts bindings in place of parameters that depend on random ones.
    parameters: ParameterFacts,
    random_inputs: Vec<VarId>,
    written_out: Substitution,
    extractor: LinearExtractor,
    /// What it extracts.
    leaves: Vec<Leaf>,
    reach: Reach,
}

/// Values of the parameters that are not random.
pub(crate) struct ParameterFacts {
    /// Bindings by variable, written out down to random parameters, where they depend on them.
    pub(crate) dependent: HashMap<VarId, ExprId>,
    /// Bindings of all others.
    pub(crate) bindings: Vec<Option<ExprId>>,
    /// Whether it is an input, given over time.
    pub(crate) is_input: Vec<bool>,
    /// Names, for messages.
    pub(crate) names: Vec<String>,
}

impl<'a> Model<'a> {
    fn new(flat: &'a FlatDae, random: &[VarId], random_inputs: &[VarId]) -> Result<Self, ChaosError> {
        if !flat.when_clauses.is_empty() {
            return refuse("the model has when-clauses: its solutions are not smooth in the parameters", None);
        }
        for variable in &flat.variables {
            if variable.kind == VariableKind::Discrete {
                let reason = format!("`{}` is discrete: solutions are not smooth in the parameters", variable.name);
                return refuse(reason, Some(&variable.name));
            }
            if variable.kind == VariableKind::Parameter && variable.fixed == Some(false) {
                let reason = format!("`{}` is determined by initial equations", variable.name);
                return refuse(reason, Some(&variable.name));
            }
        }
        let mut graph = flat.graph.clone();
        let dependent = write_out_parameters(flat, &mut graph, random);
        let mut written_out = Substitution::new();
        for (&var, &value) in &dependent {
            written_out.replace_leaf(&mut graph, Leaf::var(var), value);
        }
        let mut model = Self {
            flat,
            parameters: ParameterFacts {
                dependent,
                bindings: flat.variables.iter().map(|variable| variable.binding.or(variable.start)).collect(),
                is_input: flat.variables.iter().map(|variable| variable.kind == VariableKind::Input).collect(),
                names: flat.variables.iter().map(|variable| variable.name.clone()).collect(),
            },
            graph,
            random_inputs: random_inputs.to_vec(),
            written_out,
            extractor: LinearExtractor::default(),
            leaves: Vec::new(),
            reach: Reach::new(),
        };
        let mut leaves = Vec::new();
        let mut found = Vec::new();
        let all = flat.equations.iter().chain(&flat.initial_equations);
        let roots: Vec<ExprId> = all.flat_map(|equation| [equation.lhs, equation.rhs]).collect();
        model.reach.leaves(&model.graph, &roots, &mut found);
        for leaf in found {
            if let Leaf::Var { var, .. } = leaf
                && model.is_expanded(var)
            {
                leaves.push(leaf);
            }
        }
        leaves.sort_unstable();
        leaves.dedup();
        model.extractor = LinearExtractor::new(&mut model.graph, &leaves);
        model.leaves = leaves;
        Ok(model)
    }

    /// Whether a variable becomes a series.
    fn is_expanded(&self, var: VarId) -> bool {
        let variable = &self.flat.variables[var.index()];
        variable.kind == VariableKind::Continuous || self.random_inputs.contains(&var)
    }

    /// Residuals rhs - lhs with dependent parameters written out; where one is not linear, variables that are known
    /// functions of time and parameters are put in.
    fn residuals(&mut self, equations: &[Equation], when: When) -> Vec<ExprId> {
        let mut residuals: Vec<ExprId> = equations
            .iter()
            .map(|equation| {
                let residual = self.graph.sub(equation.rhs, equation.lhs);
                self.written_out.apply(&mut self.graph, residual)
            })
            .collect();
        let nonlinear: Vec<usize> = (0..residuals.len())
            .filter(|&row| self.extractor.extract(&mut self.graph, residuals[row]).is_err())
            .collect();
        if nonlinear.is_empty() {
            return residuals;
        }
        let mut put_in = PutIn { residuals: &residuals, reach: &mut self.reach };
        let known = known_variables(&mut self.graph, &self.flat.variables, &residuals, &mut put_in);
        for row in nonlinear {
            residuals[row] = self.with_known(residuals[row], row, &known, when);
        }
        residuals
    }

    /// A residual with known variables put in, but for the one that it is the equation of.
    fn with_known(
        &mut self,
        residual: ExprId,
        row: usize,
        known: &HashMap<VarId, KnownVariable>,
        when: When,
    ) -> ExprId {
        let mut leaves = Vec::new();
        self.reach.leaves(&self.graph, &[residual], &mut leaves);
        let mut put_in = Substitution::new();
        for leaf in leaves {
            // What holds at the start only says nothing about derivatives.
            if let Leaf::Var { var, order } = leaf
                && let Some(known) = known.get(&var).filter(|known| known.row != row)
                && (order == 0 || when == When::Always)
            {
                let value = (0..order).fold(known.value, |value, _| self.graph.partial(value, Leaf::Time));
                put_in.replace_leaf(&mut self.graph, leaf, value);
            }
        }
        put_in.apply(&mut self.graph, residual)
    }

    fn split(&mut self, residual: ExprId) -> SplitEquation {
        split_residual(&mut self.graph, &mut self.extractor, &self.leaves, residual)
    }
}

/// Bindings of the parameters that depend on random ones, written out.
fn write_out_parameters(flat: &FlatDae, graph: &mut Graph, random: &[VarId]) -> HashMap<VarId, ExprId> {
    let mut reach = Reach::new();
    let mut leaves = Vec::new();
    // Which parameter needs which.
    let mut needs: Vec<Vec<VarId>> = vec![Vec::new(); flat.variables.len()];
    for (at, variable) in flat.variables.iter().enumerate() {
        if matches!(variable.kind, VariableKind::Parameter | VariableKind::Constant)
            && let Some(binding) = variable.binding
            && !random.contains(&VarId(at as u32))
        {
            reach.leaves(graph, &[binding], &mut leaves);
            needs[at] = leaves
                .iter()
                .filter_map(|leaf| if let Leaf::Var { var, .. } = leaf { Some(*var) } else { None })
                .collect();
        }
    }
    let mut depends: Vec<bool> = (0..flat.variables.len()).map(|at| random.contains(&VarId(at as u32))).collect();
    loop {
        let mut has_changed = false;
        for at in 0..needs.len() {
            if !depends[at] && needs[at].iter().any(|var| depends[var.index()]) {
                depends[at] = true;
                has_changed = true;
            }
        }
        if !has_changed {
            break;
        }
    }
    let mut written: HashMap<VarId, ExprId> = HashMap::new();
    let mut left: Vec<usize> = (0..needs.len()).filter(|&at| depends[at] && !needs[at].is_empty()).collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|&at| {
            let is_ready =
                needs[at].iter().all(|var| !depends[var.index()] || random.contains(var) || written.contains_key(var));
            let Some(binding) = flat.variables[at].binding.filter(|_| is_ready) else { return true };
            let mut put_in = Substitution::new();
            for var in needs[at].iter().filter(|var| written.contains_key(var)) {
                put_in.replace_leaf(graph, Leaf::var(*var), written[var]);
            }
            let value = put_in.apply(graph, binding);
            written.insert(VarId(at as u32), value);
            false
        });
        if left.len() == before {
            // Parameters that need each other; the model is refused elsewhere.
            break;
        }
    }
    written
}

/// The grid for nonlinear parts.
struct Grid {
    germs: Vec<Vec<f64>>,
    /// w_q Phi_l(xi_q), by point.
    weighted: Vec<Vec<f64>>,
    /// Phi_l(xi_q), by point.
    values: Vec<Vec<f64>>,
}

struct Assembly<'a> {
    flat: &'a FlatDae,
    basis: &'a Basis,
    options: &'a ExpandOptions,
    terms: &'a [Vec<VarId>],
    projector: Projector<'a>,
    facts: ExpansionFacts,
    ramp: Option<ExprId>,
    grid: Option<Grid>,
}

impl Assembly<'_> {
    /// Makes m + 1 equations of every equation. With `at_means` everything random is at its mean.
    fn assemble(
        &mut self,
        graph: &mut Graph,
        originals: &[Equation],
        equations: &[SplitEquation],
        at_means: bool,
        made: &mut Vec<Equation>,
    ) -> Result<(), ChaosError> {
        let n_terms = self.basis.len();
        let nonlinear = self.nonlinear_parts(graph, equations, at_means)?;
        let zero = graph.number(0.0);
        for (row, (original, equation)) in originals.iter().zip(equations).enumerate() {
            let mut sums: Vec<Vec<ExprId>> = vec![Vec::new(); n_terms];
            for LinearTerm { leaf, coefficient } in &equation.linear {
                let Leaf::Var { var, order } = *leaf else { continue };
                self.add_linear(graph, var, order, *coefficient, at_means, &mut sums)?;
            }
            for &remainder in &equation.remainders {
                self.add_known(graph, remainder, at_means, &mut sums)?;
            }
            for (sum, parts) in sums.iter_mut().zip(&nonlinear[row]) {
                sum.extend(parts);
            }
            for sum in sums {
                let rhs = graph.sum(&sum);
                made.push(Equation { lhs: zero, rhs, origin: Origin::Equation, ..original.clone() });
            }
        }
        Ok(())
    }

    /// coefficient times leaf.
    fn add_linear(
        &mut self,
        graph: &mut Graph,
        var: VarId,
        order: u16,
        coefficient: ExprId,
        at_means: bool,
        sums: &mut [Vec<ExprId>],
    ) -> Result<(), ChaosError> {
        let split = self.projector.split(graph, coefficient, &mut self.facts)?;
        let is_series = !self.terms[var.index()].is_empty();
        let leaf_of = |graph: &mut Graph, k: usize| {
            let var = if is_series { self.terms[var.index()][k] } else { var };
            graph.der(var, order)
        };
        for part in split {
            match part {
                Coefficient::Plain(factor) => {
                    for (l, sum) in sums.iter_mut().enumerate() {
                        if is_series || l == 0 {
                            let leaf = leaf_of(graph, l);
                            sum.push(graph.mul(factor, leaf));
                        }
                    }
                }
                Coefficient::Random { factor, projection } => {
                    let mean = self.projector.at_means(graph, projection);
                    if at_means {
                        let scaled = graph.mul(factor, mean);
                        for (l, sum) in sums.iter_mut().enumerate() {
                            if is_series || l == 0 {
                                let leaf = leaf_of(graph, l);
                                sum.push(graph.mul(scaled, leaf));
                            }
                        }
                        continue;
                    }
                    let n_columns = if is_series { self.basis.len() } else { 1 };
                    for entry in self.projector.entries(graph, projection, n_columns) {
                        let leaf = leaf_of(graph, entry.column);
                        let value = self.ramped(graph, entry.value, (entry.row == entry.column).then_some(mean));
                        let product = graph.mul(factor, value);
                        sums[entry.row].push(graph.mul(product, leaf));
                    }
                    // What the ramp adds on the diagonal where the projection has no entry.
                    if let Some(ramp) = self.ramp {
                        let present = self.projector.diagonal(projection, n_columns);
                        let one = graph.number(1.0);
                        let rest = graph.sub(one, ramp);
                        let value = graph.mul(rest, mean);
                        let value = graph.mul(factor, value);
                        for (l, sum) in sums.iter_mut().enumerate().take(n_columns) {
                            if !present[l] {
                                let leaf = leaf_of(graph, l);
                                sum.push(graph.mul(value, leaf));
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A known function of time and parameters.
    fn add_known(
        &mut self,
        graph: &mut Graph,
        expr: ExprId,
        at_means: bool,
        sums: &mut [Vec<ExprId>],
    ) -> Result<(), ChaosError> {
        for part in self.projector.split(graph, expr, &mut self.facts)? {
            match part {
                Coefficient::Plain(value) => sums[0].push(value),
                Coefficient::Random { factor, projection } => {
                    let mean = self.projector.at_means(graph, projection);
                    if at_means {
                        sums[0].push(graph.mul(factor, mean));
                        continue;
                    }
                    let entries = self.projector.entries(graph, projection, 1);
                    let has_mean = entries.iter().any(|entry| entry.row == 0);
                    for entry in entries {
                        let value = self.ramped(graph, entry.value, (entry.row == 0).then_some(mean));
                        sums[entry.row].push(graph.mul(factor, value));
                    }
                    if let (Some(ramp), false) = (self.ramp, has_mean) {
                        let one = graph.number(1.0);
                        let rest = graph.sub(one, ramp);
                        let value = graph.mul(rest, mean);
                        sums[0].push(graph.mul(factor, value));
                    }
                }
            }
        }
        Ok(())
    }

    /// mean + ramp (value - mean) on the diagonal, ramp value elsewhere.
    fn ramped(&self, graph: &mut Graph, value: ExprId, mean: Option<ExprId>) -> ExprId {
        let Some(ramp) = self.ramp else { return value };
        match mean {
            None => graph.mul(ramp, value),
            Some(mean) => {
                let change = graph.sub(value, mean);
                let scaled = graph.mul(ramp, change);
                graph.add(mean, scaled)
            }
        }
    }

    /// By equation and polynomial, the projected nonlinear parts.
    fn nonlinear_parts(
        &mut self,
        graph: &mut Graph,
        equations: &[SplitEquation],
        at_means: bool,
    ) -> Result<Vec<Vec<Vec<ExprId>>>, ChaosError> {
        let n_terms = self.basis.len();
        let mut parts = vec![Vec::new(); equations.len()];
        let atoms: Vec<(usize, NonlinearTerm)> = equations
            .iter()
            .enumerate()
            .flat_map(|(row, equation)| equation.nonlinear.iter().map(move |&term| (row, term)))
            .collect();
        if atoms.is_empty() {
            return Ok(parts);
        }
        for (row, equation) in equations.iter().enumerate() {
            if !equation.nonlinear.is_empty() {
                parts[row] = vec![Vec::new(); n_terms];
            }
        }
        self.make_grid()?;
        let Some(grid) = &self.grid else { return Ok(parts) };
        self.facts.n_points = grid.germs.len();
        let mut leaves = Vec::new();
        let roots: Vec<ExprId> = atoms.iter().flat_map(|(_, atom)| [atom.factor, atom.expr]).collect();
        Reach::new().leaves(graph, &roots, &mut leaves);
        for (point, germ) in grid.germs.iter().enumerate() {
            let mut put_in = Substitution::new();
            let parameters = self.basis.parameter_values(germ);
            for &leaf in &leaves {
                let Leaf::Var { var, order } = leaf else { continue };
                if let Some(at) = self.options.random.iter().position(|&random| random == var) {
                    let mean = graph.number(self.projector.means()[at]);
                    let value = graph.number(parameters[at]);
                    let value = if at_means { mean } else { self.ramped(graph, value, Some(mean)) };
                    put_in.replace_leaf(graph, leaf, value);
                } else if !self.terms[var.index()].is_empty() {
                    let mut sum = Vec::with_capacity(n_terms);
                    for (k, &term) in self.terms[var.index()].iter().enumerate() {
                        let value = grid.values[point][k];
                        if value != 0.0 {
                            let factor = graph.number(value);
                            let coefficient = graph.der(term, order);
                            sum.push(graph.mul(factor, coefficient));
                        }
                    }
                    let value = graph.sum(&sum);
                    put_in.replace_leaf(graph, leaf, value);
                }
            }
            for (row, atom) in &atoms {
                let (factor, expr) = (put_in.apply(graph, atom.factor), put_in.apply(graph, atom.expr));
                let value = graph.mul(factor, expr);
                for (l, part) in parts[*row].iter_mut().enumerate() {
                    let weight = grid.weighted[point][l];
                    if weight != 0.0 {
                        let weight = graph.number(weight);
                        part.push(graph.mul(weight, value));
                    }
                }
            }
        }
        Ok(parts)
    }

    fn make_grid(&mut self) -> Result<(), ChaosError> {
        if self.grid.is_some() {
            return Ok(());
        }
        let degrees = self.basis.indices.max_degrees();
        // Products of two unknowns are projected exactly, and one degree more.
        let each: Vec<usize> =
            degrees.iter().map(|&degree| self.options.points.unwrap_or((3 * degree).div_ceil(2) + 2)).collect();
        let n_points: f64 = each.iter().map(|&n| n as f64).product();
        if n_points > MAX_GRID {
            return Err(ChaosError::TooManyPoints {
                n_parameters: each.len(),
                points_each: each.iter().copied().max().unwrap_or(0),
                n_points,
                limit: MAX_GRID,
            });
        }
        let grid = coefficient::tensor_grid(self.basis, &(0..each.len()).collect::<Vec<_>>(), &each);
        let values: Vec<Vec<f64>> = grid.germs.iter().map(|germ| self.basis.evaluate(germ)).collect();
        let weighted = values
            .iter()
            .zip(&grid.weights)
            .map(|(values, weight)| values.iter().map(|value| weight * value).collect())
            .collect();
        self.grid = Some(Grid { germs: grid.germs, weighted, values });
        Ok(())
    }

    /// Start values: insisted ones are projected, others are the guesses that were given.
    fn set_starts(&mut self, graph: &mut Graph, variables: &mut [Variable]) -> Result<(), ChaosError> {
        for (at, original) in self.flat.variables.iter().enumerate() {
            if self.terms[at].is_empty() || original.kind != VariableKind::Continuous {
                continue;
            }
            let is_fixed = original.fixed == Some(true);
            let guess = self.options.guesses.get(&VarId(at as u32)).filter(|_| !is_fixed);
            for k in 0..self.basis.len() {
                let variable = &mut variables[self.terms[at][k].index()];
                variable.min = None;
                variable.max = None;
                if let Some(guess) = guess {
                    variable.start = Some(graph.number(guess[k]));
                }
            }
            if guess.is_some() {
                continue;
            }
            let Some(start) = original.start else { continue };
            let start = self.projector.written_out(graph, start);
            let mut sums: Vec<Vec<ExprId>> = vec![Vec::new(); self.basis.len()];
            let has_ramp = self.ramp.take();
            let added = self.add_known(graph, start, has_ramp.is_some(), &mut sums);
            self.ramp = has_ramp;
            added?;
            for (k, sum) in sums.into_iter().enumerate() {
                let variable = &mut variables[self.terms[at][k].index()];
                if is_fixed || !sum.is_empty() {
                    variable.start = Some(graph.sum(&sum));
                    variable.fixed = original.fixed;
                }
            }
        }
        // Attributes in terms of random parameters are taken at their means.
        for variable in variables.iter_mut() {
            if let Some(nominal) = variable.nominal {
                variable.nominal = Some(self.projector.number_at_means(graph, nominal, &mut Evaluator::new()));
            }
        }
        Ok(())
    }
}
