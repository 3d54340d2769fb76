//! Derivatives that a parameter of zero takes out of the model.
//!
//! In `i = C*der(v)` with `C = 0` the voltage is no state and its derivative is nothing's business: the structure of
//! the model hangs on the value of `C`. Where the factor of a derivative is zero because parameters are, it is written
//! as zero, and these parameters are structural: another value needs a new flattening. Parameters that will have other
//! values are left alone.

use daesy_graph::substitute::Substitution;
use daesy_graph::{BinaryOp, ExprId, Node, UnaryOp, VarId, VariableKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Flattener;

/// Expressions that are zero whatever the unknowns are.
#[derive(Default)]
struct Zeros {
    /// What unknowns are equal to, by an equation with the unknown alone on one side.
    equal_to: FxHashMap<VarId, Vec<ExprId>>,
    known: FxHashMap<ExprId, bool>,
}

impl Flattener<'_> {
    /// Writes factors of derivatives that are zero as zero.
    pub(crate) fn drop_vanishing_derivatives(&mut self) {
        let has_derivative = self.with_derivatives();
        if !has_derivative.contains(&true) {
            return;
        }
        let mut zeros = Zeros::default();
        for equation in &self.out.equations {
            for (side, other) in [(equation.lhs, equation.rhs), (equation.rhs, equation.lhs)] {
                if let Node::Var { var, order: 0 } = self.graph.node(side) {
                    zeros.equal_to.entry(var).or_default().push(other);
                }
            }
        }
        let sides: Vec<ExprId> = self.out.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
        let mut reach = std::mem::take(&mut self.reach);
        let below = reach.below(&self.graph, &sides).to_vec();
        self.reach = reach;
        let mut substitution = Substitution::new();
        let mut structural = FxHashSet::default();
        let zero = self.graph.number(0.0);
        for expr in below {
            let Node::Binary { op: BinaryOp::Mul, lhs, rhs } = self.graph.node(expr) else { continue };
            for (factor, other) in [(lhs, rhs), (rhs, lhs)] {
                let is_meant = has_derivative[other.index()] && !has_derivative[factor.index()];
                if is_meant && self.graph.as_number(factor).is_none() && self.is_zero(factor, &mut zeros) {
                    substitution.replace(expr, zero);
                    self.zero_because(factor, &zeros, &mut structural);
                    break;
                }
            }
        }
        if structural.is_empty() {
            return;
        }
        for var in structural {
            self.variables[var.index()].is_structural = true;
        }
        for at in 0..self.out.equations.len() {
            let (lhs, rhs) = (self.out.equations[at].lhs, self.out.equations[at].rhs);
            self.out.equations[at].lhs = substitution.apply(&mut self.graph, lhs);
            self.out.equations[at].rhs = substitution.apply(&mut self.graph, rhs);
        }
    }

    /// By expression: whether it holds a derivative.
    fn with_derivatives(&self) -> Vec<bool> {
        let mut flags: Vec<bool> = Vec::with_capacity(self.graph.len());
        let mut exprs = Vec::new();
        let sides: Vec<ExprId> = self.out.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
        exprs.extend_from_slice(daesy_graph::Reach::new().below(&self.graph, &sides));
        flags.resize(self.graph.len(), false);
        // Arguments come first.
        for expr in exprs {
            let mut has = matches!(self.graph.node(expr), Node::Var { order, .. } if order > 0);
            self.graph.for_each_child(expr, |child| has |= flags[child.index()]);
            flags[expr.index()] = has;
        }
        flags
    }

    fn is_zero(&self, expr: ExprId, zeros: &mut Zeros) -> bool {
        if let Some(&known) = zeros.known.get(&expr) {
            return known;
        }
        // What leads back to itself proves nothing.
        zeros.known.insert(expr, false);
        let is_zero = match self.graph.node(expr) {
            Node::Number(_) => self.graph.as_number(expr) == Some(0.0),
            Node::Var { var, order: 0 } => match self.variables[var.index()].kind {
                VariableKind::Parameter => self.parameter_value(var).is_some_and(|value| self.is_zero(value, zeros)),
                VariableKind::Continuous => {
                    let values = zeros.equal_to.get(&var).cloned().unwrap_or_default();
                    values.into_iter().any(|value| self.is_zero(value, zeros))
                }
                _ => false,
            },
            Node::Unary { op: UnaryOp::Neg | UnaryOp::NoEvent | UnaryOp::WithEvents | UnaryOp::Abs, arg }
            | Node::Smooth { arg, .. }
            | Node::Binary { op: BinaryOp::Div, lhs: arg, .. } => self.is_zero(arg, zeros),
            Node::Binary { op: BinaryOp::Mul, lhs, rhs } => self.is_zero(lhs, zeros) || self.is_zero(rhs, zeros),
            Node::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs }
            | Node::Select { then: lhs, otherwise: rhs, .. } => self.is_zero(lhs, zeros) && self.is_zero(rhs, zeros),
            _ => false,
        };
        zeros.known.insert(expr, is_zero);
        is_zero
    }

    fn parameter_value(&self, var: VarId) -> Option<ExprId> {
        let variable = &self.variables[var.index()];
        // A value from outside is in the binding already where there is one.
        let is_open = variable.fixed == Some(false) || self.options.moved.contains(&variable.name);
        if is_open { None } else { variable.binding }
    }

    /// The parameters that make an expression zero.
    fn zero_because(&self, expr: ExprId, zeros: &Zeros, parameters: &mut FxHashSet<VarId>) {
        let is_zero = |expr: ExprId| zeros.known.get(&expr) == Some(&true);
        let mut waiting = vec![expr];
        let mut seen = FxHashSet::default();
        while let Some(expr) = waiting.pop() {
            if !seen.insert(expr) {
                continue;
            }
            match self.graph.node(expr) {
                Node::Var { var, .. } => {
                    if self.variables[var.index()].kind == VariableKind::Parameter {
                        parameters.insert(var);
                        waiting.extend(self.parameter_value(var));
                    } else {
                        let values = zeros.equal_to.get(&var).into_iter().flatten();
                        waiting.extend(values.copied().find(|&value| is_zero(value)));
                    }
                }
                Node::Binary { op: BinaryOp::Mul, lhs, rhs } => {
                    waiting.push(if is_zero(lhs) { lhs } else { rhs });
                }
                Node::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs }
                | Node::Select { then: lhs, otherwise: rhs, .. } => waiting.extend([lhs, rhs]),
                Node::Unary { arg, .. }
                | Node::Smooth { arg, .. }
                | Node::Binary { op: BinaryOp::Div, lhs: arg, .. } => {
                    waiting.push(arg);
                }
                _ => {}
            }
        }
    }
}
