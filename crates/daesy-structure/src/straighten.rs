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
//! free start values that structure promises, so that the process ends [@oki2023]. The new equation holds on the whole
//! run because nothing of it belongs to one point:
//!
//! - whether equations depend on each other is decided at several points at once, at other times and other values: a
//!   block is singular only if it is singular at all of them, and pivots are chosen such that they vanish at none of
//!   them, if that is possible (`dependency`). A rank that drops at one point only, such as that of t x = t^2 at t = 0,
//!   is no reason to rewrite anything;
//! - where F_r and F_i are linear in the leading derivatives, with coefficients a and b_i that are expressions in time
//!   and states, a = sum u_i b_i, and the combination F_r - sum u_i(t, x) F_i^(c_i - c_r) has no leading terms. The
//!   multipliers are found by Gaussian elimination where its pivots never change. Elsewhere a pivot, which is one
//!   column, may vanish anywhere on the way, and they are those of the normal equations (B B^T) u = B a over all
//!   columns: their determinant vanishes only where the equations F_i depend on each other themselves;
//! - otherwise new variables y_j stand for x_j^(d_j - c_r) in copies of the equations in I and r, and the leading
//!   derivatives outside J, on which the result does not depend, are replaced by numbers (augmentation).
//!
//! The leading coefficients of F_r outside J vanish with the rank on solutions, and are dropped with the leading terms.
//! What was written is watched along the run nevertheless (`watch`).

mod dependency;
mod generic;
mod linear;
mod open_modes;
mod redundant;
mod specialize;
mod watch;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, StateSelect, Variable, VariableKind};
use daesy_graph::regular::RegularDae;
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::Leaf;
use daesy_graph::{Evaluator, ExprId, Graph, Reach, Span, VarId};
use thiserror::Error;

use crate::arrays::JetPoint;
use crate::regularize::{RegularizeError, regularize};
use crate::words::{enumerate, equation_text};

use dependency::{Dependency, find_dependencies};

pub use generic::{GenericVerdict, generic_verdict};
pub use linear::{Straightened, straighten_linear};
pub use open_modes::{ClosedModes, close_modes};
pub use redundant::{Rewritten, rewrite, rewrite_on_solution, special_start, stays_special};
pub use specialize::{Specialized, specialize};
pub use watch::{allowed_residual, watch, watched_equation};

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
    /// A leading derivative has no finite value at any of the points.
    #[error("the leading derivatives are not finite at the start")]
    NotFinite,
    /// The equations became too long.
    #[error("the rewritten equations have {nodes} nodes, more than {limit}")]
    TooLong {
        /// Nodes of all expressions.
        nodes: usize,
        /// The limit.
        limit: usize,
    },
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
    /// The points, with the new variables.
    pub points: Vec<JetPoint>,
    /// Equations of the flat model that were replaced, in order.
    pub replaced: Vec<usize>,
}

/// Marks names of variables that were added.
pub const ADDED: char = '$';

/// Lets a rewritten model start as the original does: which variables count as differential there is a matter of the
/// equations that were written, in which other derivatives may occur.
pub fn keep_written_orders(new: &mut FlatDae, original: &FlatDae) {
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let roots: Vec<ExprId> = original.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
    reach.leaves(&original.graph, &roots, &mut leaves);
    for (at, variable) in new.variables.iter_mut().enumerate() {
        let written = original.variables.get(at).and_then(|variable| variable.written_order);
        variable.written_order = Some(written.unwrap_or(0));
    }
    for leaf in leaves {
        if let Leaf::Var { var, order } = leaf
            && original.variables[var.index()].written_order.is_none()
        {
            let known = &mut new.variables[var.index()].written_order;
            *known = (*known).max(Some(order));
        }
    }
}

const MAX_ROUNDS: usize = 60;

/// Rewritten models with more nodes than this are given up.
const MAX_NODES: usize = 40_000;

/// Rewrites a model, of which `points` are consistent points and `expected` the number of free start values, until its
/// system Jacobian is nonsingular at one of them. The first point gives the values at which new variables start.
///
/// # Errors
/// When the process does not end in a model with as many free start values as expected.
pub fn straighten(flat: &FlatDae, points: &[JetPoint], expected: usize) -> Result<StraightModel, StraightenError> {
    let mut flat = flat.clone();
    let mut points = points.to_vec();
    let mut replaced = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let regular = regularize(flat.clone())?;
        let dependencies = find_dependencies(&regular, &points)?;
        if dependencies.is_empty() {
            let structural = regular.verdict.degrees_of_freedom;
            if structural != expected {
                return Err(StraightenError::Mismatch { structural, expected });
            }
            return Ok(StraightModel { flat, regular, points, replaced });
        }
        let mut rewriter = Rewriter { graph: regular.flat.graph.clone(), flat, regular: &regular, points };
        for dependency in &dependencies {
            replaced.push(regular.equations[dependency.row].source as usize);
            rewriter.rewrite(dependency);
        }
        if rewriter.graph.len() > MAX_NODES {
            return Err(StraightenError::TooLong { nodes: rewriter.graph.len(), limit: MAX_NODES });
        }
        rewriter.flat.graph = rewriter.graph;
        (flat, points) = (rewriter.flat, rewriter.points);
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

struct Rewriter<'a> {
    graph: Graph,
    flat: FlatDae,
    regular: &'a RegularDae,
    points: Vec<JetPoint>,
}

/// What is left of a slope, relative to what it was, that is rounding.
const CANCELLED: f64 = 1e-11;

/// Most equations that one is combined with by normal equations, whose expressions grow with their number.
const MAX_NORMAL: usize = 4;

/// Most columns of normal equations.
const MAX_COLUMNS: usize = 40;

/// An equation as a linear function of leading derivatives.
struct LeadingForm {
    /// By position among the block's unknowns.
    coefficients: Vec<Option<ExprId>>,
    remainder: ExprId,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, dependency: &Dependency) {
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
        let new = match self.combination(dependency, residual, &others, &leading) {
            Some(new) => self.without_cancelled_inputs(new, residual),
            None => self.augmentation(dependency, residual, &others, &leading),
        };
        let source = target.source as usize;
        let zero = self.graph.number(0.0);
        self.flat.equations[source].lhs = new;
        self.flat.equations[source].rhs = zero;
        self.flat.equations[source].origin = Origin::Equation;
    }

    /// Takes inputs out of a new equation that cancelled when it was made of `old` and others. Structure sees them all
    /// the same, and asks for derivatives of them where the equation is differentiated. That nothing is left of one is
    /// decided by the slope at all points, with other values of the inputs there.
    fn without_cancelled_inputs(&mut self, new: ExprId, old: ExprId) -> ExprId {
        let mut leaves = Vec::new();
        Reach::new().leaves(&self.graph, &[new], &mut leaves);
        let is_input = |leaf: &Leaf| match *leaf {
            Leaf::Var { var, .. } => self.flat.variables[var.index()].kind == VariableKind::Input,
            Leaf::Time => false,
        };
        leaves.retain(is_input);
        let mut points = self.points.clone();
        for point in &mut points {
            for (at, leaf) in leaves.iter().enumerate() {
                if let Leaf::Var { var, order } = *leaf {
                    // No value that an equation is likely to single out.
                    let value = 1.137 * point.derivative(var, usize::from(order)) + 0.6173 / (at + 2) as f64;
                    point.set(var, usize::from(order), value);
                }
            }
        }
        let (zero, mut substitution, mut evaluator) = (self.graph.number(0.0), Substitution::new(), Evaluator::new());
        for leaf in leaves {
            let slopes = [new, old].map(|expr| self.graph.partial(expr, leaf));
            let mut is_cancelled = |point: &JetPoint| {
                let [left, before] = slopes.map(|slope| evaluator.evaluate_one(&self.graph, slope, point));
                left.abs() <= CANCELLED * before.abs()
            };
            if points.iter().all(&mut is_cancelled) {
                substitution.replace_leaf(&mut self.graph, leaf, zero);
            }
        }
        substitution.apply(&mut self.graph, new)
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

    /// The new equation without new variables, where the leading derivatives enter linearly. None if an equation is not
    /// linear.
    fn combination(
        &mut self,
        dependency: &Dependency,
        residual: ExprId,
        others: &[ExprId],
        leading: &[Option<Leaf>],
    ) -> Option<ExprId> {
        let own = self.leading_form(residual, leading)?;
        let forms: Option<Vec<LeadingForm>> = others.iter().map(|&other| self.leading_form(other, leading)).collect();
        if !dependency.are_fixed && others.len() <= MAX_NORMAL && leading.len() <= MAX_COLUMNS {
            return self.normal_equations(&own, &forms?);
        }
        let pivots: Vec<usize> = dependency.pivots.iter().map(|at| at - dependency.block.start).collect();
        self.elimination(own, forms?, &pivots)
    }

    /// Gaussian elimination with the pivots in the order in which they were found.
    fn elimination(&mut self, mut own: LeadingForm, forms: Vec<LeadingForm>, pivots: &[usize]) -> Option<ExprId> {
        let mut reduced: Vec<LeadingForm> = Vec::with_capacity(forms.len());
        for mut form in forms {
            for (at, by) in reduced.iter().enumerate() {
                self.reduce(&mut form, by, &pivots[at..])?;
            }
            reduced.push(form);
        }
        for (at, by) in reduced.iter().enumerate() {
            self.reduce(&mut own, by, &pivots[at..])?;
        }
        Some(own.remainder)
    }

    /// F_r - sum u_i F_i with (B B^T) u = B a. B B^T is positive definite: its diagonal gives the pivots, in any order.
    fn normal_equations(&mut self, own: &LeadingForm, forms: &[LeadingForm]) -> Option<ExprId> {
        let n = forms.len();
        let mut rows: Vec<Vec<ExprId>> = Vec::with_capacity(n);
        for form in forms {
            rows.push(forms.iter().chain([own]).map(|other| self.inner_product(form, other)).collect());
        }
        for at in 0..n {
            let (above, below) = rows.split_at_mut(at + 1);
            for row in below {
                let factor = self.graph.div(row[at], above[at][at]);
                for (value, &by) in row[at + 1..].iter_mut().zip(&above[at][at + 1..]) {
                    let product = self.graph.mul(factor, by);
                    *value = self.graph.sub(*value, product);
                }
            }
        }
        let mut multipliers = vec![None; n];
        let mut new = own.remainder;
        for at in (0..n).rev() {
            let mut value = rows[at][n];
            for after in at + 1..n {
                let product = self.graph.mul(rows[at][after], multipliers[after]?);
                value = self.graph.sub(value, product);
            }
            let multiplier = self.graph.div(value, rows[at][at]);
            multipliers[at] = Some(multiplier);
            let product = self.graph.mul(multiplier, forms[at].remainder);
            new = self.graph.sub(new, product);
        }
        Some(new)
    }

    fn inner_product(&mut self, left: &LeadingForm, right: &LeadingForm) -> ExprId {
        let mut terms = Vec::new();
        for pair in left.coefficients.iter().zip(&right.coefficients) {
            if let (&Some(left), &Some(right)) = pair {
                terms.push(self.graph.mul(left, right));
            }
        }
        self.graph.sum(&terms)
    }

    /// Subtracts the multiple of an equation that removes the first of the pivots.
    fn reduce(&mut self, form: &mut LeadingForm, by: &LeadingForm, pivots: &[usize]) -> Option<()> {
        let (pivot, later) = pivots.split_first()?;
        let Some(above) = form.coefficients[*pivot].take() else { return Some(()) };
        let factor = self.graph.div(above, by.coefficients[*pivot]?);
        for &column in later {
            if let Some(value) = by.coefficients[column] {
                let product = self.graph.mul(factor, value);
                let left = match form.coefficients[column] {
                    Some(known) => self.graph.sub(known, product),
                    None => self.graph.neg(product),
                };
                form.coefficients[column] = Some(left).filter(|&left| self.graph.as_number(left) != Some(0.0));
            }
        }
        let product = self.graph.mul(factor, by.remainder);
        form.remainder = self.graph.sub(form.remainder, product);
        Some(())
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
            let value = self.points.first().map_or(0.0, |point| point.derivative(var, usize::from(order)));
            let replacement = if dependency.pivots.contains(&at) {
                let added = VarId(self.flat.variables.len() as u32);
                let of = &self.flat.variables[var.index()];
                let (nominal, span) = (if order == 0 { of.nominal } else { None }, of.span);
                let name = format!("{ADDED}{}{}", of.name, "'".repeat(usize::from(order)));
                let n_same = self.flat.variables.iter().filter(|known| known.name.starts_with(&name)).count();
                let name = if n_same == 0 { name } else { format!("{name}.{n_same}") };
                self.flat.variables.push(added_variable(name, value, nominal, span));
                for point in &mut self.points {
                    let series = point.shifted(var, usize::from(order));
                    point.coefficients.resize(self.flat.variables.len(), Vec::new());
                    point.coefficients[added.index()] = series;
                }
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
fn added_variable(name: String, guess: f64, nominal: Option<ExprId>, span: Span) -> Variable {
    Variable {
        is_protected: true,
        guess: Some(guess),
        nominal,
        state_select: StateSelect::Never,
        ..Variable::new(name, VariableKind::Continuous, span)
    }
}
