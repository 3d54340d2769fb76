//! Linear models whose structure misleads, brought to their strangeness-free form before they are simulated.
//!
//! Structure sees where coefficients are, not their values: where equations cancel, it promises more free start values
//! than there are, and the equations it wants to solve are singular. The number of free start values of a linear model
//! with constant coefficients is known from its pencil. If the two differ, the model is replaced by
//!
//! ```text
//! E_1 x' = A_1 x + B_1 u + f_1        0 = A_2 x + sum over k of B_2,k u^(k) + f_2        [@campbell2011, eq. (22)]
//! ```
//!
//! which has the same solutions, and whose structure is right: `[E_1; A_2]` is nonsingular. The two cannot differ where
//! the system Jacobian of the highest derivatives, which is constant, is regular block by block [@pryce2001].

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin};
use daesy_graph::{ExprId, Graph, Span, VarId};
use daesy_pencil::{
    InputRole, Mat, PencilOptions, StrangenessFree, StrangenessOptions, kronecker_structure, strangeness_free,
};

use crate::chosen_form::swept_form;
use crate::linear_verdict::DENSE;
use crate::linearize::{LinearKind, LinearModel, parameter_values};
use crate::regularize as structural_form;
use crate::verify::{is_leading_regular, promised};

/// A model with the same solutions whose structure does not mislead.
#[derive(Clone, Debug)]
pub struct Straightened {
    /// The model.
    pub flat: FlatDae,
    /// What was done.
    pub finding: Finding,
}

/// Replaces the equations of a linear model with constant coefficients if their structure misleads; nothing otherwise.
#[must_use]
pub fn straighten_linear(flat: &FlatDae) -> Option<Straightened> {
    if flat.size().unknowns > DENSE {
        return None;
    }
    let model = LinearModel::new(flat).ok()?;
    // Derivatives that became variables have no place in the flat model.
    if model.kind != LinearKind::Constant || model.equations.iter().any(|equation| equation.flat_row.is_none()) {
        return None;
    }
    let regular = structural_form(flat.clone()).ok()?;
    let parameters = parameter_values(flat).ok()?;
    let structural = regular.verdict.degrees_of_freedom;
    let is_proven = is_leading_regular(&regular, &|var: VarId, _: u16| parameters[var.index()]);
    if is_proven && promised(&regular) == structural {
        return None;
    }
    let structure = kronecker_structure(&model.matrices(0.0).pencil().ok()?, &PencilOptions::default()).ok()?;
    if !structure.is_regular || structure.n_finite == structural {
        return None;
    }
    let options = StrangenessOptions {
        inputs: InputRole::Given,
        max_differentiations: model.n_variables().clamp(8, 20),
        readable: true,
        ..StrangenessOptions::default()
    };
    let form = swept_form(strangeness_free(&model, 0.0, &options).ok()?);
    let message = format!(
        "structure promises {structural} free start values, the values of the coefficients leave {}: the equations were replaced by \
         equivalent ones whose structure is right",
        structure.n_finite
    );
    let finding = Finding::note("structure-misleads", Span::NONE, message);
    Some(Straightened { flat: rebuilt(flat, &model, &form)?, finding })
}

/// The flat model with the equations of the form in place of those of the linear model.
fn rebuilt(flat: &FlatDae, model: &LinearModel, form: &StrangenessFree) -> Option<FlatDae> {
    let mut new = flat.clone();
    let variables: Vec<VarId> =
        model.variables.iter().map(|variable| flat.find(&variable.name)).collect::<Option<Vec<_>>>()?;
    let inputs: Vec<VarId> = model.inputs.iter().map(|name| flat.find(name)).collect::<Option<Vec<_>>>()?;
    let forcing = model.forcing_expressions(&mut new.graph, form.mu);
    let mut replaced = vec![false; flat.equations.len()];
    for equation in &model.equations {
        replaced[equation.flat_row?] = true;
    }
    let graph = &mut new.graph;
    let mut made = Vec::new();
    for row in 0..form.d {
        let lhs = combination(graph, &form.e1, row, &variables, 1);
        let mut terms =
            vec![combination(graph, &form.a1, row, &variables, 0), combination(graph, &form.b1, row, &inputs, 0)];
        for (at, derivatives) in forcing.iter().enumerate() {
            let value = derivatives.first().copied();
            terms.extend(scaled(graph, form.differential_multipliers[(row, at)], value));
        }
        let rhs = graph.sum(&terms);
        made.push((lhs, rhs));
    }
    let zero = graph.number(0.0);
    for row in 0..form.a {
        let mut terms =
            vec![combination(graph, &form.a2, row, &variables, 0), combination(graph, &form.b2, row, &inputs, 0)];
        for (order, matrix) in form.b2_derivatives.iter().enumerate() {
            terms.push(combination(graph, matrix, row, &inputs, order as u16 + 1));
        }
        for (at, derivatives) in forcing.iter().enumerate() {
            for (order, multipliers) in form.algebraic_multipliers.iter().enumerate() {
                terms.extend(scaled(graph, multipliers[(row, at)], derivatives.get(order).copied()));
            }
        }
        let rhs = graph.sum(&terms);
        made.push((zero, rhs));
    }
    new.equations =
        flat.equations.iter().zip(&replaced).filter(|(_, gone)| !**gone).map(|(kept, _)| kept.clone()).collect();
    new.equations.extend(made.into_iter().map(|(lhs, rhs)| Equation {
        lhs,
        rhs,
        origin: Origin::Equation,
        component: "".into(),
        span: Span::NONE,
    }));
    Some(new)
}

fn combination(graph: &mut Graph, matrix: &Mat<f64>, row: usize, vars: &[VarId], order: u16) -> ExprId {
    let mut terms = Vec::new();
    for (column, &var) in vars.iter().enumerate() {
        if matrix[(row, column)] != 0.0 {
            let factor = graph.number(matrix[(row, column)]);
            let value = graph.der(var, order);
            terms.push(graph.mul(factor, value));
        }
    }
    graph.sum(&terms)
}

fn scaled(graph: &mut Graph, factor: f64, value: Option<ExprId>) -> Option<ExprId> {
    let value = value.filter(|_| factor != 0.0)?;
    let factor = graph.number(factor);
    Some(graph.mul(factor, value))
}
