//! Parameters that vary over time.
//!
//! A disturbance of `[disturbances]` may be named after a parameter, which then has the value
//!
//! ```text
//! p(t) = p + z(t)
//! ```
//!
//! with the disturbance `z` around the value `p` that model and study say. It is a signal `p(t)` of the model in all
//! equations, and in what other parameters make of it; start values keep `p`. With `walk = rate` it is a random walk,
//! `dz = rate dW` from `z = 0`: how slow drift is tracked. With a `std` besides, `z` is stationary at first and tends
//! back so slowly that it walks at the same rate,
//!
//! ```text
//! dz = -z / T dt + rate dW,    T = 2 std^2 / rate^2,    z(0) normal with this std
//! ```

use std::sync::Arc;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, Variable, VariableKind};
use daesy_graph::{ExprId, Leaf, Reach, Span, Substitution, VarId};

use crate::study::{Named, Study};

/// The name of a parameter's value over time.
#[must_use]
pub fn signal_of(parameter: &str) -> String {
    format!("{parameter}(t)")
}

/// The name of what is added to a parameter.
fn change_of(parameter: &str) -> String {
    format!("{parameter}(t) - {parameter}")
}

/// Lets the parameters vary that disturbances are named after, and asks for estimates of them.
pub(crate) fn vary_parameters(flat: &mut FlatDae, study: &mut Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut varying = Vec::new();
    for disturbance in &mut study.disturbances {
        let span = disturbance.span;
        for signal in &mut disturbance.item.signals {
            let Some(var) = flat.find(signal) else { continue };
            if flat.variables[var.index()].kind != VariableKind::Parameter {
                continue;
            }
            if let Some(refusal) = refusal(&flat.variables[var.index()], span) {
                findings.push(refusal);
                continue;
            }
            varying.push((var, span));
            *signal = change_of(signal);
        }
    }
    let mut changed: Vec<(VarId, ExprId)> = Vec::new();
    for (var, span) in varying {
        if changed.iter().any(|(known, _)| *known == var) {
            continue;
        }
        let name = flat.variables[var.index()].name.clone();
        let change = VarId(flat.variables.len() as u32);
        flat.variables.push(Variable::new(change_of(&name), VariableKind::Input, span));
        let shown = VarId(flat.variables.len() as u32);
        let mean = flat.graph.var(var);
        let original = flat.variables[var.index()].clone();
        flat.variables.push(Variable {
            name: signal_of(&name),
            kind: VariableKind::Continuous,
            binding: None,
            start: Some(mean),
            fixed: None,
            is_output: false,
            ..original
        });
        let (lhs, change) = (flat.graph.var(shown), flat.graph.var(change));
        let rhs = flat.graph.add(mean, change);
        changed.push((var, lhs));
        flat.equations.push(Equation { lhs, rhs, origin: Origin::Binding, component: Arc::from(""), span });
        let signal = signal_of(&name);
        if !study.signals.iter().any(|known| known.name == signal) {
            study.signals.push(Named { name: signal, span, item: () });
        }
    }
    if !changed.is_empty() {
        substitute(flat, changed);
    }
    findings
}

/// Why a parameter cannot vary.
fn refusal(variable: &Variable, span: Span) -> Option<Finding> {
    let why = if variable.is_structural {
        "shapes the equations (an array size, or the condition of a component or equation)"
    } else if variable.fixed == Some(false) {
        "is computed at the start (`fixed = false`)"
    } else {
        return None;
    };
    let message = format!("the parameter `{}` {why} and cannot vary", variable.name);
    Some(Finding::error("varying-parameter", span, message).with_names([&variable.name]))
}

/// Puts the values over time in the place of parameters, and of parameters that are computed from them.
fn substitute(flat: &mut FlatDae, mut changed: Vec<(VarId, ExprId)>) {
    let n_own = changed.len();
    let mut reach = Reach::new();
    // Parameters that depend on changed ones, each after those that it depends on.
    loop {
        let depends = |flat: &FlatDae, reach: &mut Reach, of: ExprId, on: &dyn Fn(VarId) -> bool| {
            reach.depends_on(&flat.graph, of, |leaf| matches!(leaf, Leaf::Var { var, .. } if on(var)))
        };
        let is_changed = |var: VarId| changed.iter().any(|(known, _)| *known == var);
        let mut waiting: Vec<(VarId, ExprId)> = Vec::new();
        for (at, variable) in flat.variables.iter().enumerate() {
            let var = VarId(at as u32);
            let Some(binding) = variable.binding.filter(|_| !is_changed(var)) else { continue };
            if depends(flat, &mut reach, binding, &is_changed) {
                waiting.push((var, binding));
            }
        }
        let is_waiting = |var: VarId| waiting.iter().any(|(known, _)| *known == var);
        let ready = waiting.iter().find(|(_, binding)| !depends(flat, &mut reach, *binding, &is_waiting)).copied();
        let Some((var, binding)) = ready else { break };
        let value = replaced(flat, &changed, [binding])[0];
        changed.push((var, value));
    }
    // The equations that define the values over time stay.
    let own = flat.equations.len() - n_own;
    let sides = |equations: &[Equation]| equations.iter().flat_map(|it| [it.lhs, it.rhs]).collect::<Vec<_>>();
    let put = |equations: &mut [Equation], sides: &[ExprId]| {
        for (equation, sides) in equations.iter_mut().zip(sides.chunks(2)) {
            (equation.lhs, equation.rhs) = (sides[0], sides[1]);
        }
    };
    let found = replaced(flat, &changed, sides(&flat.equations[..own]));
    put(&mut flat.equations[..own], &found);
    let found = replaced(flat, &changed, sides(&flat.initial_equations));
    put(&mut flat.initial_equations, &found);
    let conditions: Vec<ExprId> = flat.assertions.iter().map(|assertion| assertion.condition).collect();
    let found = replaced(flat, &changed, conditions);
    flat.assertions.iter_mut().zip(found).for_each(|(assertion, condition)| assertion.condition = condition);
}

fn replaced(flat: &mut FlatDae, changed: &[(VarId, ExprId)], exprs: impl IntoIterator<Item = ExprId>) -> Vec<ExprId> {
    let mut substitution = Substitution::new();
    for (var, value) in changed {
        substitution.replace_leaf(&mut flat.graph, Leaf::var(*var), *value);
    }
    exprs.into_iter().map(|expr| substitution.apply(&mut flat.graph, expr)).collect()
}
