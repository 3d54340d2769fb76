//! Variables that equations of their own give as functions of time and parameters, one after the other: the resistance
//! of a resistor at a fixed temperature, say. Equations that look nonlinear may be linear with these put in.

use std::collections::HashMap;

use crate::flat::{Variable, VariableKind};
use crate::{ExprId, Graph, Leaf, Reach, VarId};

/// A known function of time and parameters, and the equation that gives it: there the variable stays, or nothing would
/// determine it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownVariable {
    /// The function.
    pub value: ExprId,
    /// The equation.
    pub row: usize,
}

/// What may be put into an equation, and by what a variable may be divided.
pub trait Knowing {
    /// The residual of an equation with known variables put in.
    fn put_in(&mut self, graph: &mut Graph, row: usize, known: &HashMap<VarId, KnownVariable>) -> ExprId;

    /// Whether the coefficient of a variable in an equation is other than zero for certain.
    fn may_divide(&mut self, graph: &mut Graph, coefficient: ExprId) -> bool;
}

/// Finds known variables. Equations that hold derivatives, inputs or discrete variables give none.
pub fn known_variables(
    graph: &mut Graph,
    variables: &[Variable],
    residuals: &[ExprId],
    knowing: &mut impl Knowing,
) -> HashMap<VarId, KnownVariable> {
    let mut unknowns_of: Vec<Vec<VarId>> = Vec::with_capacity(residuals.len());
    let mut equations_of: HashMap<VarId, Vec<usize>> = HashMap::new();
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    for (row, &residual) in residuals.iter().enumerate() {
        reach.leaves(graph, &[residual], &mut leaves);
        let mut unknowns = Vec::new();
        let mut is_candidate = true;
        for &leaf in &leaves {
            let Leaf::Var { var, order } = leaf else { continue };
            match variables[var.index()].kind {
                VariableKind::Continuous if order == 0 => unknowns.push(var),
                VariableKind::Parameter | VariableKind::Constant => {}
                _ => is_candidate = false,
            }
        }
        if !is_candidate {
            unknowns.clear();
        }
        for &var in &unknowns {
            equations_of.entry(var).or_default().push(row);
        }
        unknowns_of.push(unknowns);
    }
    let mut known: HashMap<VarId, KnownVariable> = HashMap::new();
    let mut queue: Vec<usize> = (0..unknowns_of.len()).filter(|&row| unknowns_of[row].len() == 1).collect();
    while let Some(row) = queue.pop() {
        let &[var] = &unknowns_of[row][..] else { continue };
        let residual = knowing.put_in(graph, row, &known);
        let Ok(form) = graph.linear_coefficients(residual, &[Leaf::var(var)]) else { continue };
        let Some(coefficient) = form.coefficients.first().map(|entry| entry.value) else { continue };
        if !knowing.may_divide(graph, coefficient) {
            continue;
        }
        let value = match graph.as_number(coefficient) {
            Some(number) => {
                let scale = graph.number(-1.0 / number);
                graph.mul(scale, form.remainder)
            }
            None => {
                let quotient = graph.div(form.remainder, coefficient);
                graph.neg(quotient)
            }
        };
        known.insert(var, KnownVariable { value, row });
        for &other in equations_of.get(&var).into_iter().flatten() {
            unknowns_of[other].retain(|&unknown| unknown != var);
            if unknowns_of[other].len() == 1 {
                queue.push(other);
            }
        }
    }
    known
}
