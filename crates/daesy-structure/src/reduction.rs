//! The reduced system in symbols: derivatives are solved for and put into differentiated constraints until all
//! constraints are found.
//!
//! Every equation is first looked at with the derivatives that are known replaced. What then holds a derivative
//! linearly is solved for it (a rule); what holds none is a constraint and, if independent of the constraints before
//! it, is differentiated and looked at again. Rules from equations of the model are its differential equations in
//! explicit form [@campbell2011, eq. (13)]; rules from differentiated constraints give derivatives of algebraic
//! variables. Where derivatives remain, as with large mass matrices, they stay in the equations as additional unknowns:
//! the minimal extension of Example 5.

use std::collections::VecDeque;

use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::regular::Derivative;
use daesy_graph::substitute::Substitution;
use daesy_graph::{BinaryOp, Environment, Evaluator, ExprId, Graph, Leaf, Node, Reach, UnaryOp, VarId};
use daesy_pencil::{Mat, Vectors, svd};
use rustc_hash::FxHashMap;

use crate::array_verdict::{self, StartPoint};
use crate::arrays::{ArrayAnalysis, ArrayInputs, JetPoint};
use crate::straighten::{ADDED, GenericVerdict, straighten};
use crate::words::{Term, combination_text, derivative_name, equation_text};

/// The equations of the reduced system.
#[derive(Clone, Debug, Default)]
pub struct Reduction {
    /// Differential equations.
    pub differential: Vec<String>,
    /// Algebraic equations, hidden ones last.
    pub algebraic: Vec<String>,
    /// How many of them are hidden.
    pub n_hidden: usize,
    /// How many hold at the point only, to first order.
    pub n_linearized: usize,
}

/// An equation that gives a derivative.
#[derive(Clone, Copy)]
struct Rule {
    leaf: Leaf,
    value: ExprId,
    /// The equation of the model, if it was not differentiated.
    source: Option<usize>,
}

struct Work {
    residual: ExprId,
    source: usize,
    differentiated: usize,
}

/// Expressions with more nodes than this are not written down.
const MAX_NODES: usize = 3000;

/// Texts of more operations than this are not written out.
const MAX_WRITTEN: usize = 250;

/// Coefficients below this do not let an equation be solved.
const NOT_SOLVABLE: f64 = 1e-9;

struct Reducer<'a> {
    flat: FlatDae,
    point: &'a JetPoint,
    beside: &'a [JetPoint],
    columns: &'a [Derivative],
    role: ArrayInputs,
    rules: Vec<Rule>,
    constraints: Vec<Work>,
    /// Orthonormal gradients of the constraints so far.
    basis: Vec<Vec<f64>>,
    units: Vec<f64>,
    reach: Reach,
}

/// The equations to write down: those of the model without redundant ones, straightened where that needs no new
/// variables.
pub struct Written {
    flat: FlatDae,
    point: JetPoint,
    /// Other points of solutions with the same ranks: what is written must hold there too.
    beside: Vec<JetPoint>,
}

impl Written {
    /// What is written of a model whose derivative array was analysed at a point; `generic` says what it is beside it.
    /// What vanishes at the point alone is no reason to leave anything out.
    #[must_use]
    pub fn new(flat: &FlatDae, start: &StartPoint, analysis: &ArrayAnalysis, generic: Option<&GenericVerdict>) -> Self {
        let mut flat = flat.clone();
        for &at in analysis.left_out.iter().rev() {
            flat.equations.remove(at);
        }
        let mut point = analysis.point.clone();
        // Inputs keep the derivatives they are given with.
        for var in (0..flat.variables.len() as u32).map(VarId) {
            if point.coefficients[var.index()].is_empty() {
                point.coefficients[var.index()].clone_from(&start.point.coefficients[var.index()]);
            }
        }
        let given = array_verdict::analyze_at(&flat, None, std::slice::from_ref(start), ArrayInputs::Given).ok();
        let sizes = |analysis: &ArrayAnalysis| (analysis.form.mu, analysis.form.d, analysis.form.a);
        let beside: Vec<JetPoint> = generic
            .into_iter()
            .flat_map(|generic| &generic.analyses)
            .filter(|other| given.as_ref().is_some_and(|given| sizes(given) == sizes(other)))
            .map(|other| other.point.clone())
            .collect();
        let straight = crate::regularize(flat.clone())
            .ok()
            .filter(|regular| !beside.is_empty() && !crate::verify::is_leading_regular(regular, &point))
            .zip(given)
            .and_then(|(_, given)| {
                let points: Vec<JetPoint> = std::iter::once(&given.point).chain(&beside).cloned().collect();
                straighten(&flat, &points, given.form.d).ok()
            });
        match straight {
            Some(straight) if !straight.flat.variables.iter().any(|variable| variable.name.starts_with(ADDED)) => {
                Self { flat: straight.flat, point, beside }
            }
            _ => Self { flat, point, beside },
        }
    }
}

/// Writes the reduced system down.
pub fn reduce(written: &Written, analysis: &ArrayAnalysis, columns: &[Derivative], role: ArrayInputs) -> Reduction {
    let form = &analysis.form;
    let units = (0..columns.len()).map(|at| form.units.get(at).copied().unwrap_or(1.0)).collect();
    let mut reducer = Reducer {
        flat: written.flat.clone(),
        point: &written.point,
        beside: &written.beside,
        columns,
        role,
        rules: Vec::new(),
        constraints: Vec::new(),
        basis: Vec::new(),
        units,
        reach: Reach::new(),
    };
    reducer.run(form.a);
    reducer.report(&written.flat, analysis)
}

impl Reducer<'_> {
    fn is_moving(&self, var: VarId) -> bool {
        match self.flat.variables[var.index()].kind {
            VariableKind::Continuous => true,
            VariableKind::Input => self.role == ArrayInputs::Behaviour,
            _ => false,
        }
    }

    /// Derivatives of moving variables that an expression holds and that are no columns of their own.
    fn derivatives(&mut self, expr: ExprId) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.reach.leaves(&self.flat.graph, &[expr], &mut leaves);
        leaves.retain(|leaf| match *leaf {
            Leaf::Var { var, order } => {
                order > 0 && self.is_moving(var) && !self.columns.contains(&Derivative { var, order })
            }
            Leaf::Time => false,
        });
        leaves
    }

    fn size(&mut self, expr: ExprId) -> usize {
        self.reach.below(&self.flat.graph, &[expr]).len()
    }

    /// The expression with all known derivatives replaced.
    fn replaced(&mut self, mut expr: ExprId) -> ExprId {
        for _ in 0..12 {
            let leaves = self.derivatives(expr);
            let known: Vec<Rule> = self.rules.iter().filter(|rule| leaves.contains(&rule.leaf)).copied().collect();
            if known.is_empty() {
                break;
            }
            let mut substitution = Substitution::new();
            for rule in known {
                substitution.replace_leaf(&mut self.flat.graph, rule.leaf, rule.value);
            }
            expr = substitution.apply(&mut self.flat.graph, expr);
        }
        expr
    }

    fn total_derivative(&mut self, expr: ExprId) -> ExprId {
        let variables = &self.flat.variables;
        self.flat.graph.total_time_derivative(expr, &|var| variables[var.index()].kind)
    }

    fn value(&self, expr: ExprId) -> f64 {
        Evaluator::new().evaluate_one(&self.flat.graph, expr, self.point)
    }

    fn run(&mut self, n_constraints: usize) {
        let mut queue = VecDeque::new();
        let mut coupled: Vec<Work> = Vec::new();
        for source in 0..self.flat.equations.len() {
            let equation = &self.flat.equations[source];
            let (lhs, rhs) = (equation.lhs, equation.rhs);
            let residual = self.flat.graph.sub(lhs, rhs);
            queue.push_back(Work { residual, source, differentiated: 0 });
        }
        // Equations with a single derivative give rules at once; the coupled ones wait until all those are known.
        let mut is_eager = true;
        let mut budget = 40 * (self.flat.equations.len() + 4);
        loop {
            let Some(mut work) = queue.pop_front() else {
                if coupled.is_empty() {
                    break;
                }
                is_eager = false;
                queue.extend(coupled.drain(..));
                continue;
            };
            budget -= 1;
            if budget == 0 {
                break;
            }
            work.residual = self.replaced(work.residual);
            if self.size(work.residual) > MAX_NODES {
                continue;
            }
            let leaves = self.derivatives(work.residual);
            if leaves.is_empty() {
                if self.constraints.len() < n_constraints {
                    self.add_constraint(work, &mut queue);
                }
                continue;
            }
            if is_eager && (leaves.len() > 1 || self.vanishes_here(&work, leaves[0])) {
                coupled.push(work);
                continue;
            }
            self.add_rule(work, &leaves, &mut queue);
        }
    }

    /// Whether an equation holds at the other points of solutions, within the accuracy of these.
    fn holds_beside(&self, residual: ExprId) -> bool {
        /// Residuals of a point are below a thousandth of this, in units of the terms of the equation.
        const ACCURACY: f64 = 1e-6;
        let graph = &self.flat.graph;
        let terms = terms(graph, residual);
        let mut evaluator = Evaluator::new();
        self.beside.iter().all(|point| {
            let mut value = |expr: ExprId| evaluator.evaluate_one(graph, expr, point).abs();
            let size = terms.iter().fold(1.0f64, |size, &term| size.max(value(term)));
            value(residual) <= ACCURACY * size
        })
    }

    fn add_constraint(&mut self, work: Work, queue: &mut VecDeque<Work>) {
        if self.holds_beside(work.residual) && self.is_independent(work.residual) {
            let residual = self.total_derivative(work.residual);
            queue.push_back(Work { residual, source: work.source, differentiated: work.differentiated + 1 });
            self.constraints.push(work);
        }
    }

    /// Whether the coefficient of a derivative is zero at the point: another equation may give it.
    fn vanishes_here(&mut self, work: &Work, leaf: Leaf) -> bool {
        let form = self.flat.graph.linear_coefficients(work.residual, &[leaf]);
        form.is_ok_and(|form| form.coefficients.iter().all(|entry| self.value(entry.value).abs() <= NOT_SOLVABLE))
    }

    /// Solves for the derivative with the largest coefficient; where all vanish, the equation is a constraint after
    /// all, if it holds without them beside the point too.
    fn add_rule(&mut self, work: Work, leaves: &[Leaf], queue: &mut VecDeque<Work>) {
        let Ok(form) = self.flat.graph.linear_coefficients(work.residual, leaves) else { return };
        let best = form
            .coefficients
            .iter()
            .map(|entry| (entry, self.value(entry.value).abs()))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        match best {
            Some((entry, size)) if size > NOT_SOLVABLE => {
                let leaf = leaves[entry.column as usize];
                let mut rest = vec![form.remainder];
                for other in form.coefficients.iter().filter(|other| other.column != entry.column) {
                    let term = self.flat.graph.leaf(leaves[other.column as usize]);
                    rest.push(self.flat.graph.mul(other.value, term));
                }
                let sum = self.flat.graph.sum(&rest);
                let negative = self.flat.graph.neg(sum);
                let value = self.flat.graph.div(negative, entry.value);
                self.rules.push(Rule { leaf, value, source: (work.differentiated == 0).then_some(work.source) });
            }
            _ => self.add_constraint(Work { residual: form.remainder, ..work }, queue),
        }
    }

    fn gradient(&mut self, expr: ExprId) -> Vec<f64> {
        let leaves: Vec<Leaf> = self.columns.iter().map(|column| Leaf::der(column.var, column.order)).collect();
        let mut row = vec![0.0; leaves.len()];
        for entry in self.flat.graph.gradient(expr, &leaves) {
            let at = entry.column as usize;
            row[at] = self.value(entry.value) * self.units[at];
        }
        row
    }

    fn is_independent(&mut self, expr: ExprId) -> bool {
        let row = self.gradient(expr);
        let before = norm(&row);
        if !before.is_finite() || before == 0.0 {
            return false;
        }
        match orthogonalized(row, &self.basis, 1e-8) {
            Some(direction) => {
                self.basis.push(direction);
                true
            }
            None => false,
        }
    }

    /// Whether a constraint took differentiation, of its own equation or of others that gave the derivatives in it.
    fn is_hidden(&mut self, written: &FlatDae, work: &Work, mu: usize) -> bool {
        let equation = &written.equations[work.source];
        let mut leaves = Vec::new();
        self.reach.leaves(&written.graph, &[equation.lhs, equation.rhs], &mut leaves);
        let has_rates = leaves.iter().any(|leaf| matches!(leaf, Leaf::Var { order, .. } if *order > 0));
        work.differentiated > 0 || mu > 0 && has_rates
    }

    /// Whether an expression is too long to be read when it is written out.
    fn is_too_long(&mut self, expr: ExprId) -> bool {
        let below = self.reach.below(&self.flat.graph, &[expr]).to_vec();
        let mut sizes: FxHashMap<ExprId, usize> = FxHashMap::default();
        for part in below {
            let mut size = 1usize;
            self.flat.graph.for_each_child(part, |child| {
                size = size.saturating_add(sizes.get(&child).copied().unwrap_or(1));
            });
            sizes.insert(part, size);
        }
        sizes.get(&expr).copied().unwrap_or(0) > MAX_WRITTEN
    }

    /// A constraint in words: as the equation it is, written out, or as the derivative of an equation where that would
    /// be too long.
    fn constraint_text(&mut self, written: &FlatDae, work: &Work) -> String {
        let equation = &self.flat.equations[work.source];
        let (lhs, rhs) = (equation.lhs, equation.rhs);
        let residual = self.flat.graph.sub(lhs, rhs);
        if residual == work.residual && !is_zero(written, work.source) {
            return equation_text(written, work.source);
        }
        if self.is_too_long(work.residual) {
            let text = self.flat.text(residual);
            return format!("0 = {}", (0..work.differentiated).fold(text, |text, _| format!("der({text})")));
        }
        format!("0 = {}", self.flat.text(work.residual))
    }

    fn report(mut self, written: &FlatDae, analysis: &ArrayAnalysis) -> Reduction {
        let form = &analysis.form;
        let mut reduction = Reduction::default();
        let mut constraints = std::mem::take(&mut self.constraints);
        constraints.truncate(form.a);
        constraints.sort_by_key(|work| self.is_hidden(written, work, form.mu));
        for work in &constraints {
            let text = self.constraint_text(written, work);
            reduction.algebraic.push(text);
            reduction.n_hidden += usize::from(self.is_hidden(written, work, form.mu));
        }
        if constraints.len() < form.a {
            let missing = self.linearized(analysis, form.a - constraints.len());
            reduction.n_linearized = missing.len();
            reduction.n_hidden += missing.len();
            reduction.algebraic.extend(missing);
        }
        reduction.differential = self.differential(written, analysis);
        reduction
    }

    /// Rows of the linearized constraints that those written down do not imply.
    fn linearized(&self, analysis: &ArrayAnalysis, n: usize) -> Vec<String> {
        let form = &analysis.form;
        let mut basis = self.basis.clone();
        let mut texts = Vec::new();
        for row in 0..form.a {
            let entry = |at: usize| {
                if at < form.a2.ncols() { form.a2[(row, at)] } else { form.b2[(row, at - form.a2.ncols())] }
            };
            let line: Vec<f64> = (0..self.columns.len()).map(|at| entry(at) * self.units[at]).collect();
            let Some(direction) = orthogonalized(line, &basis, 1e-6) else { continue };
            let largest = direction.iter().fold(0.0f64, |size, value| size.max(value.abs()));
            let mut terms = Vec::new();
            let mut offset = 0.0;
            for (at, value) in direction.iter().enumerate().filter(|(_, value)| value.abs() > 1e-9 * largest) {
                let factor = value / self.units[at];
                let column = self.columns[at];
                offset -= factor * self.point.value(column.var, column.order);
                terms.push(Term { factor, name: derivative_name(&self.flat, column) });
            }
            terms.push(Term { factor: offset, name: String::new() });
            texts.push(format!("0 = {}", combination_text(&terms)));
            basis.push(direction);
            if texts.len() == n {
                break;
            }
        }
        texts
    }

    /// As many differential equations as there are, chosen so that they move what the constraints leave open.
    fn differential(&mut self, written: &FlatDae, analysis: &ArrayAnalysis) -> Vec<String> {
        let form = &analysis.form;
        let n = self.columns.len();
        let a2 = Mat::from_fn(form.a, n, |row, at| {
            let entry = if at < form.a2.ncols() { form.a2[(row, at)] } else { form.b2[(row, at - form.a2.ncols())] };
            entry * self.units[at]
        });
        let Ok(parts) = svd(a2.as_ref(), Vectors::Right) else { return Vec::new() };
        let moves = |at: usize| -> Vec<f64> { (form.a..n).map(|column| parts.v[(at, column)]).collect() };
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            let Leaf::Var { var, order } = rule.leaf else { continue };
            let column = Derivative { var, order: order - 1 };
            if let (Some(_), Some(position)) = (rule.source, self.columns.iter().position(|&known| known == column)) {
                candidates.push((at, position));
            }
        }
        let insists = |position: usize| written.variables[self.columns[position].var.index()].fixed == Some(true);
        candidates.sort_by_key(|&(at, position)| (!insists(position), at));
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let mut chosen: Vec<usize> = Vec::new();
        for threshold in [0.1, 1e-6] {
            for &(at, position) in &candidates {
                if basis.len() < form.d
                    && !chosen.contains(&at)
                    && let Some(direction) = orthogonalized_absolute(moves(position), &basis, threshold)
                {
                    basis.push(direction);
                    chosen.push(at);
                }
            }
        }
        chosen.sort_unstable();
        chosen
            .into_iter()
            .map(|at| {
                let rule = self.rules[at];
                let value = self.replaced(rule.value);
                let left = self.flat.graph.leaf(rule.leaf);
                match rule.source {
                    Some(source) if self.is_too_long(value) => equation_text(written, source),
                    _ => format!("{} = {}", self.flat.text(left), self.flat.text(value)),
                }
            })
            .collect()
    }
}

fn is_zero(flat: &FlatDae, at: usize) -> bool {
    flat.graph.as_number(flat.equations[at].rhs) == Some(0.0) && flat.equations[at].span == daesy_graph::Span::NONE
}

/// The terms of a sum.
fn terms(graph: &Graph, expr: ExprId) -> Vec<ExprId> {
    let (mut found, mut stack) = (Vec::new(), vec![expr]);
    while let Some(expr) = stack.pop() {
        match graph.node(expr) {
            Node::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs } => stack.extend([lhs, rhs]),
            Node::Unary { op: UnaryOp::Neg, arg } => stack.push(arg),
            _ => found.push(expr),
        }
    }
    found
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The direction of a row beside a basis; `None` if less than a fraction of it is left.
fn orthogonalized(row: Vec<f64>, basis: &[Vec<f64>], fraction: f64) -> Option<Vec<f64>> {
    let before = norm(&row);
    orthogonalized_absolute(row, basis, fraction * before)
}

fn orthogonalized_absolute(mut row: Vec<f64>, basis: &[Vec<f64>], least: f64) -> Option<Vec<f64>> {
    for known in basis.iter().chain(basis) {
        let product: f64 = known.iter().zip(&row).map(|(known, value)| known * value).sum();
        row.iter_mut().zip(known).for_each(|(value, known)| *value -= product * known);
    }
    let after = norm(&row);
    if after.is_nan() || after <= least || after == 0.0 {
        return None;
    }
    row.iter_mut().for_each(|value| *value /= after);
    Some(row)
}
