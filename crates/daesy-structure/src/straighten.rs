//! Models whose structure misleads, rewritten until it does not.
//!
//! The offsets c_i, d_j of the Sigma-method are right if the system Jacobian D_ij = dF_i / dx_j^(d_j - c_i) is
//! nonsingular. Where it is singular, an equation r depends on others in their leading derivatives: with I the
//! equations it depends on, all differentiated at least as often as r, and J as many variables with D[I, J]
//! nonsingular, the equations
//!
//! ```text
//! F_i^(c_i - c_r) = 0,  i in I,     can be solved for  x_j^(d_j - c_r),  j in J,
//! ```
//!
//! and put into F_r = 0 they leave an equation without leading derivatives. Replacing F_r by it lowers the number of
//! free start values that structure promises, so that the process ends [@oki2023]. Three ways to write the new
//! equation, simplest first:
//!
//! - F_r and F_i linear in the leading derivatives, the multipliers constant: the combination F_r + sum u_i F_i^(c_i
//!   - c_r), from which the leading terms are dropped;
//! - one equation in I, linear: the same with a multiplier that is an expression;
//! - otherwise new variables y_j stand for x_j^(d_j - c_r) in copies of the equations in I and r, and the leading
//!   derivatives outside J, on which the result does not depend, are replaced by their values at the point
//!   (augmentation).

mod linear;
mod redundant;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, StateSelect, ValueType, Variable, VariableKind};
use daesy_graph::regular::{RegularDae, SolveBlock};
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::Leaf;
use daesy_graph::{Differentiator, Evaluator, ExprId, Graph, Span, VarId};
use faer::Mat;
use thiserror::Error;

use crate::arrays::JetPoint;
use crate::regularize::{RegularizeError, regularize};
use crate::words::{enumerate, equation_text};

pub use linear::{Straightened, straighten_linear};
pub use redundant::{Rewritten, rewrite};

/// Why a model could not be rewritten.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StraightenError {
    /// On the way the model became structurally singular.
    #[error(transparent)]
    Structure(#[from] RegularizeError),
    /// The number of free start values is not what the derivative array says.
    #[error(
        "after rewriting, structure promises {structural} free start values, the derivative array leaves {expected}"
    )]
    Mismatch {
        /// What structure says in the end.
        structural: usize,
        /// What the array says.
        expected: usize,
    },
    /// A leading derivative has no finite value at the point.
    #[error("the leading derivatives are not finite at the start")]
    NotFinite,
    /// It did not end.
    #[error("the structure still misleads after {rounds} rounds of rewriting")]
    Endless {
        /// Number of rounds.
        rounds: usize,
    },
}

/// A model with the same solutions whose structure is right.
#[derive(Clone, Debug)]
pub struct StraightModel {
    /// The model. Variables whose name starts with `$` are new.
    pub flat: FlatDae,
    /// Its regular form.
    pub regular: RegularDae,
    /// The point, with the new variables.
    pub point: JetPoint,
    /// Equations of the flat model that were replaced, in order.
    pub replaced: Vec<usize>,
}

/// Marks names of variables that were added.
pub const ADDED: char = '$';

/// Blocks with a singular value below this fraction of the largest are singular, after scaling rows and columns.
const SINGULAR: f64 = 1e-9;

/// Multipliers below this fraction of the largest are rounding errors.
const NO_MULTIPLIER: f64 = 1e-8;

const MAX_ROUNDS: usize = 60;

/// Rewrites a model, of which `point` is a consistent point and `expected` the number of free start values, until its
/// system Jacobian is nonsingular there.
///
/// # Errors
/// When the process does not end in a model with as many free start values as expected.
pub fn straighten(flat: &FlatDae, point: &JetPoint, expected: usize) -> Result<StraightModel, StraightenError> {
    let mut flat = flat.clone();
    let mut point = point.clone();
    let mut replaced = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let regular = regularize(flat.clone())?;
        let dependencies = find_dependencies(&regular, &point)?;
        if dependencies.is_empty() {
            let structural = regular.verdict.degrees_of_freedom;
            if structural != expected {
                return Err(StraightenError::Mismatch { structural, expected });
            }
            return Ok(StraightModel { flat, regular, point, replaced });
        }
        let mut rewriter = Rewriter { graph: regular.flat.graph.clone(), flat, regular: &regular, point };
        for dependency in &dependencies {
            replaced.push(regular.equations[dependency.row].source as usize);
            rewriter.rewrite(dependency)?;
        }
        rewriter.flat.graph = rewriter.graph;
        (flat, point) = (rewriter.flat, rewriter.point);
    }
    Err(StraightenError::Endless { rounds: MAX_ROUNDS })
}

/// A note about what was rewritten, at the first equation.
#[must_use]
pub fn straightened_finding(flat: &FlatDae, structural: usize, actual: usize, replaced: &[usize]) -> Finding {
    let mut equations: Vec<usize> = replaced.iter().copied().filter(|&at| at < flat.equations.len()).collect();
    equations.sort_unstable();
    equations.dedup();
    let texts: Vec<String> = equations.iter().map(|&at| equation_text(flat, at)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let first = equations.iter().map(|&at| flat.equations[at].span).min().unwrap_or(Span::NONE);
    let promise = if structural == actual {
        "structure does not see that equations depend on each other in their highest derivatives".to_owned()
    } else {
        format!("structure promises {structural} free start values, the values at the start leave {actual}")
    };
    let message = format!(
        "{promise}; decided by derivative arrays, these equations were replaced by equivalent ones whose structure is right: {}",
        enumerate(&texts, 6)
    );
    let mut finding = Finding::note("structure-misleads", first, message);
    for &at in equations.iter().take(8) {
        finding = finding.with_label(flat.equations[at].span, equation_text(flat, at));
    }
    finding
}

/// An equation that depends on others in the leading derivatives of a block.
struct Dependency {
    /// The equation r, as a position in the regular form.
    row: usize,
    /// The equations I.
    others: Vec<usize>,
    /// The unknowns J.
    pivots: Vec<usize>,
    /// All unknowns of the block.
    block: std::ops::Range<usize>,
}

/// At most one dependency in each singular block.
fn find_dependencies(regular: &RegularDae, point: &JetPoint) -> Result<Vec<Dependency>, StraightenError> {
    let mut graph = regular.flat.graph.clone();
    let leaves: Vec<Leaf> = regular.unknowns.iter().map(|unknown| Leaf::der(unknown.var, unknown.order)).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let mut evaluator = Evaluator::new();
    let mut found = Vec::new();
    for block in &regular.blocks {
        let matrix = block_matrix(regular, block, &mut graph, &mut differentiator, &mut evaluator, point)?;
        found.extend(dependency(regular, block, &matrix));
    }
    Ok(found)
}

fn block_matrix(
    regular: &RegularDae,
    block: &SolveBlock,
    graph: &mut Graph,
    differentiator: &mut Differentiator,
    evaluator: &mut Evaluator,
    point: &JetPoint,
) -> Result<Mat<f64>, StraightenError> {
    let (start, len) = (block.start as usize, block.len as usize);
    let mut matrix = Mat::<f64>::zeros(len, len);
    for row in 0..len {
        for entry in differentiator.gradient(graph, regular.equations[start + row].residual) {
            let column = entry.column as usize;
            if (start..start + len).contains(&column) {
                let value = evaluator.evaluate_one(graph, entry.value, point);
                if !value.is_finite() {
                    return Err(StraightenError::NotFinite);
                }
                matrix[(row, column - start)] += value;
            }
        }
    }
    Ok(matrix)
}

/// Scales rows and columns to largest entry one.
fn scaled(matrix: &Mat<f64>) -> Mat<f64> {
    let (m, n) = matrix.shape();
    let mut scaled = matrix.clone();
    for _ in 0..3 {
        for row in 0..m {
            let size = (0..n).fold(0.0f64, |size, column| size.max(scaled[(row, column)].abs()));
            if size > 0.0 {
                (0..n).for_each(|column| scaled[(row, column)] /= size);
            }
        }
        for column in 0..n {
            let size = (0..m).fold(0.0f64, |size, row| size.max(scaled[(row, column)].abs()));
            if size > 0.0 {
                (0..m).for_each(|row| scaled[(row, column)] /= size);
            }
        }
    }
    scaled
}

/// Takes the rows of a singular block in the order of their differentiations, most first, until one depends on those
/// before it.
fn dependency(regular: &RegularDae, block: &SolveBlock, matrix: &Mat<f64>) -> Option<Dependency> {
    let len = matrix.nrows();
    let start = block.start as usize;
    let matrix = scaled(matrix);
    let is_singular = match daesy_pencil::svd(matrix.as_ref(), daesy_pencil::Vectors::None) {
        Ok(parts) => {
            let largest = parts.s.first().copied().unwrap_or(0.0);
            parts.s.last().is_none_or(|&smallest| smallest <= SINGULAR * largest)
        }
        Err(_) => false,
    };
    if !is_singular {
        return None;
    }
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|&row| std::cmp::Reverse(regular.equations[start + row].differentiated));
    let mut elimination = Elimination::new(len);
    for &row in &order {
        let line: Vec<f64> = (0..len).map(|column| matrix[(row, column)]).collect();
        if let Some(multipliers) = elimination.add(row, line) {
            let others: Vec<usize> = multipliers.iter().map(|&(other, _)| other).collect();
            let mut inner = Elimination::new(len);
            for &other in &others {
                let line: Vec<f64> = (0..len).map(|column| matrix[(other, column)]).collect();
                inner.add(other, line);
            }
            return Some(Dependency {
                row: start + row,
                others: others.iter().map(|&other| start + other).collect(),
                pivots: inner.rows.iter().map(|row| start + row.pivot).collect(),
                block: start..start + len,
            });
        }
    }
    None
}

/// Rows reduced one after the other, with the multipliers that made them.
struct Elimination {
    rows: Vec<ReducedRow>,
    n: usize,
}

struct ReducedRow {
    line: Vec<f64>,
    pivot: usize,
    /// The line as a combination of original rows.
    multipliers: Vec<(usize, f64)>,
}

impl Elimination {
    const fn new(n: usize) -> Self {
        Self { rows: Vec::new(), n }
    }

    /// Adds a row, or says which earlier rows it is a combination of.
    fn add(&mut self, row: usize, mut line: Vec<f64>) -> Option<Vec<(usize, f64)>> {
        let size = line.iter().fold(0.0f64, |size, value| size.max(value.abs()));
        let mut own = vec![0.0; 0];
        let mut known: Vec<(usize, f64)> = vec![(row, 1.0)];
        for reduced in &self.rows {
            let factor = line[reduced.pivot] / reduced.line[reduced.pivot];
            if factor != 0.0 {
                line.iter_mut().zip(&reduced.line).for_each(|(value, pivot)| *value -= factor * pivot);
                line[reduced.pivot] = 0.0;
                known.extend(reduced.multipliers.iter().map(|&(of, multiplier)| (of, -factor * multiplier)));
            }
        }
        known.sort_by_key(|&(of, _)| of);
        let mut merged: Vec<(usize, f64)> = Vec::new();
        for (of, multiplier) in known {
            match merged.last_mut() {
                Some(last) if last.0 == of => last.1 += multiplier,
                _ => merged.push((of, multiplier)),
            }
        }
        own.extend(line.iter().map(|value| value.abs()));
        let pivot = (0..self.n).max_by(|&a, &b| own[a].total_cmp(&own[b]))?;
        if own[pivot] <= SINGULAR * size.max(f64::MIN_POSITIVE) {
            let largest = merged.iter().fold(0.0f64, |size, (_, multiplier)| size.max(multiplier.abs()));
            merged.retain(|&(of, multiplier)| of != row && multiplier.abs() > NO_MULTIPLIER * largest);
            return Some(merged);
        }
        self.rows.push(ReducedRow { line, pivot, multipliers: merged });
        None
    }
}

struct Rewriter<'a> {
    graph: Graph,
    flat: FlatDae,
    regular: &'a RegularDae,
    point: JetPoint,
}

/// An equation as a linear function of leading derivatives.
struct LeadingForm {
    /// By position among the block's unknowns.
    coefficients: Vec<Option<ExprId>>,
    remainder: ExprId,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, dependency: &Dependency) -> Result<(), StraightenError> {
        let target = &self.regular.equations[dependency.row];
        let lowest = target.differentiated;
        let residual = self.derivative(dependency.row, 0);
        let others: Vec<ExprId> = dependency
            .others
            .iter()
            .map(|&at| self.derivative(at, self.regular.equations[at].differentiated - lowest))
            .collect();
        // Orders of the leading derivatives in F_r; a variable with less than c_r derivatives does not occur in it.
        let leading: Vec<Option<Leaf>> = dependency
            .block
            .clone()
            .map(|at| {
                let unknown = self.regular.unknowns[at];
                unknown.order.checked_sub(lowest).map(|order| Leaf::der(unknown.var, order))
            })
            .collect();
        let new = self
            .combination(dependency, residual, &others, &leading)
            .unwrap_or_else(|| self.augmentation(dependency, residual, &others, &leading));
        let source = target.source as usize;
        let zero = self.graph.number(0.0);
        self.flat.equations[source].lhs = new;
        self.flat.equations[source].rhs = zero;
        self.flat.equations[source].origin = Origin::Equation;
        Ok(())
    }

    /// A derivative of an equation of the regular form.
    fn derivative(&mut self, at: usize, order: u16) -> ExprId {
        let equation = self.regular.equations[at];
        if order == equation.differentiated {
            return equation.residual;
        }
        let constraints = &self.regular.constraints;
        let known = constraints.iter().find(|it| it.source == equation.source && it.differentiated == order);
        known.map_or(equation.residual, |known| known.residual)
    }

    fn leading_form(&mut self, expr: ExprId, leading: &[Option<Leaf>]) -> Option<LeadingForm> {
        let leaves: Vec<Leaf> = leading.iter().flatten().copied().collect();
        let positions: Vec<usize> = (0..leading.len()).filter(|&at| leading[at].is_some()).collect();
        let form = self.graph.linear_coefficients(expr, &leaves).ok()?;
        let mut coefficients = vec![None; leading.len()];
        for entry in &form.coefficients {
            coefficients[positions[entry.column as usize]] = Some(entry.value);
        }
        Some(LeadingForm { coefficients, remainder: form.remainder })
    }

    /// The new equation without new variables, where the leading derivatives enter linearly.
    fn combination(
        &mut self,
        dependency: &Dependency,
        residual: ExprId,
        others: &[ExprId],
        leading: &[Option<Leaf>],
    ) -> Option<ExprId> {
        let own = self.leading_form(residual, leading)?;
        let forms: Vec<LeadingForm> =
            others.iter().map(|&other| self.leading_form(other, leading)).collect::<Option<_>>()?;
        let pivots: Vec<usize> = dependency.pivots.iter().map(|at| at - dependency.block.start).collect();
        if others.is_empty() {
            return Some(own.remainder);
        }
        let here = self.multipliers(&own, &forms, &pivots, &self.point.clone())?;
        let is_constant = (1..=2).all(|seed| {
            let beside = beside(&self.point, seed);
            let there = self.multipliers(&own, &forms, &pivots, &beside);
            there.is_some_and(|there| {
                here.iter().zip(&there).all(|(a, b)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3))
            })
        });
        let is_number = |form: &LeadingForm, graph: &Graph| {
            pivots.iter().all(|&at| form.coefficients[at].is_none_or(|value| graph.as_number(value).is_some()))
        };
        let is_plain = here.iter().all(|value| (value.abs() - 1.0).abs() < 1e-12)
            || is_number(&own, &self.graph) && forms.iter().all(|form| is_number(form, &self.graph));
        if is_constant && (is_plain || others.len() > 1) {
            let mut terms = vec![own.remainder];
            for (form, value) in forms.iter().zip(&here) {
                let rounded = value.round();
                let value = if (value - rounded).abs() < 1e-12 * value.abs() { rounded } else { *value };
                let factor = self.graph.number(value);
                terms.push(self.graph.mul(factor, form.remainder));
            }
            return Some(self.graph.sum(&terms));
        }
        if let ([form], [pivot]) = (&forms[..], &pivots[..]) {
            // coefficient_i F_r - coefficient_r F_i
            let (below, above) = (form.coefficients[*pivot]?, own.coefficients[*pivot]?);
            let ratio = self.graph.div(above, below);
            let other = self.graph.mul(ratio, form.remainder);
            return Some(self.graph.sub(own.remainder, other));
        }
        None
    }

    /// The u with F_r + sum u_i F_i free of leading derivatives at a point.
    fn multipliers(
        &mut self,
        own: &LeadingForm,
        forms: &[LeadingForm],
        pivots: &[usize],
        point: &JetPoint,
    ) -> Option<Vec<f64>> {
        use faer::linalg::solvers::Solve;
        let mut evaluator = Evaluator::new();
        let mut value = |form: &LeadingForm, column: usize| {
            form.coefficients[column].map_or(0.0, |expr| evaluator.evaluate_one(&self.graph, expr, point))
        };
        let n = forms.len();
        let matrix = Mat::from_fn(n, n, |column, row| value(&forms[row], pivots[column]));
        let rhs = Mat::from_fn(n, 1, |column, _| -value(own, pivots[column]));
        let solution = matrix.full_piv_lu().solve(&rhs);
        let found: Vec<f64> = (0..n).map(|row| solution[(row, 0)]).collect();
        found.iter().all(|value| value.is_finite()).then_some(found)
    }

    /// The new equation with new variables for leading derivatives.
    fn augmentation(
        &mut self,
        dependency: &Dependency,
        residual: ExprId,
        others: &[ExprId],
        leading: &[Option<Leaf>],
    ) -> ExprId {
        let mut substitution = Substitution::new();
        for (offset, leaf) in leading.iter().enumerate() {
            let Some(Leaf::Var { var, order }) = *leaf else { continue };
            let at = dependency.block.start + offset;
            let value = self.point.derivative(var, usize::from(order));
            let replacement = if dependency.pivots.contains(&at) {
                let added = VarId(self.flat.variables.len() as u32);
                let start = self.graph.number(value);
                let of = &self.flat.variables[var.index()];
                let (nominal, span) = (if order == 0 { of.nominal } else { None }, of.span);
                let name = format!("{ADDED}{}{}", of.name, "'".repeat(usize::from(order)));
                let n_same = self.flat.variables.iter().filter(|known| known.name.starts_with(&name)).count();
                let name = if n_same == 0 { name } else { format!("{name}.{n_same}") };
                self.flat.variables.push(added_variable(name, start, nominal, span));
                let series = self.point.shifted(var, usize::from(order));
                self.point.coefficients.resize(self.flat.variables.len(), Vec::new());
                self.point.coefficients[added.index()] = series;
                self.graph.var(added)
            } else {
                self.graph.number(value)
            };
            substitution.replace_leaf(&mut self.graph, Leaf::der(var, order), replacement);
        }
        let zero = self.graph.number(0.0);
        for (&at, &other) in dependency.others.iter().zip(others) {
            let source = &self.flat.equations[self.regular.equations[at].source as usize];
            let (component, span) = (source.component.clone(), source.span);
            let lhs = substitution.apply(&mut self.graph, other);
            self.flat.equations.push(Equation { lhs, rhs: zero, origin: Origin::Equation, component, span });
        }
        substitution.apply(&mut self.graph, residual)
    }
}

/// A variable that stands for a leading derivative.
fn added_variable(name: String, start: ExprId, nominal: Option<ExprId>, span: Span) -> Variable {
    Variable {
        name,
        description: None,
        kind: VariableKind::Continuous,
        value_type: ValueType::Real,
        is_output: false,
        is_flow: false,
        is_protected: true,
        is_structural: false,
        is_final: false,
        binding: None,
        text: None,
        start: Some(start),
        fixed: None,
        min: None,
        max: None,
        nominal,
        unit: None,
        display_unit: None,
        state_select: StateSelect::Never,
        span,
    }
}

/// A point a little aside, the same for the same seed.
fn beside(point: &JetPoint, seed: u32) -> JetPoint {
    let mut moved = point.clone();
    let mut state = 0x9E37_79B9u32.wrapping_mul(seed);
    for value in moved.coefficients.iter_mut().filter(|series| series.len() > 1).flatten() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let random = f64::from(state >> 8) / f64::from(1u32 << 24) - 0.5;
        *value += 0.02 * random * value.abs().max(0.1);
    }
    moved
}
