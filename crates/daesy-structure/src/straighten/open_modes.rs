//! Equations that say nothing as long as a relation does not change.
//!
//! With `s = if time > 0.5 then 1 else 0`, the equation `s*i = s*(1 - u)` is `0 = 0` before t = 0.5: nothing determines
//! `i` there, whatever the index of the model is. Any value of `i` is a solution, so that one has to be chosen and told:
//! the equation becomes `i = start` where it says nothing, and stays what it is elsewhere.
//!
//! Whether it says nothing is decided in symbols: relations become true or false, variables that they alone determine
//! become numbers, products with zero are taken out, and what is left on both sides must be the same. An equation that
//! loses its unknown and still says something, as that of an ideal switch that cuts the current of a coil, stays.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::specialize::Insertion;
use crate::regularize::regularize;

/// Equations that depend on more relations than this are not looked at.
const MAX_SWITCHES: usize = 4;

/// Rounds of variables that relations determine by way of others.
const MAX_ROUNDS: usize = 8;

/// A model in which every equation says something.
#[derive(Clone, Debug)]
pub struct ClosedModes {
    /// The model.
    pub flat: FlatDae,
    /// What is chosen where.
    pub findings: Vec<Finding>,
}

/// What turns a part of an equation on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Switch {
    /// A relation that holds or does not.
    Relation(ExprId),
    /// A discrete variable of a when-clause that is zero or not.
    Zero(VarId),
}

/// What sides depend on.
struct Switches {
    /// What turns parts of them on or off.
    all: Vec<Switch>,
    /// The variables by way of which it does, with their values.
    carriers: Vec<(VarId, ExprId)>,
}

/// An equation with the choices of its switches at which it says nothing.
struct Open {
    equation: usize,
    switches: Vec<Switch>,
    choices: Vec<usize>,
}

/// Gives values to what nothing determines in some modes; None if there is no such mode.
#[must_use]
pub fn close_modes(flat: &FlatDae) -> Option<ClosedModes> {
    let modal = modal_variables(flat);
    let defining: FxHashSet<usize> = modal.values().map(|definition| definition.equation).collect();
    let switched = |at: usize| {
        let sides = [flat.equations[at].lhs, flat.equations[at].rhs];
        let switches = switches_of(flat, &modal, &sides).filter(|switches| !switches.all.is_empty())?;
        (!defining.contains(&at) && has_modal_factor(flat, &modal, &sides)).then_some((at, switches))
    };
    let candidates: Vec<(usize, Switches)> = (0..flat.equations.len()).filter_map(switched).collect();
    if candidates.is_empty() {
        return None;
    }
    let mut graph = flat.graph.clone();
    let mut open: Vec<Open> = Vec::new();
    for (equation, switches) in candidates {
        let sides = [flat.equations[equation].lhs, flat.equations[equation].rhs];
        let n_choices = 1usize << switches.all.len();
        let says_nothing = |choice: &usize| is_empty_at(&mut graph, &switches, *choice, sides);
        let choices: Vec<usize> = (0..n_choices).filter(says_nothing).collect();
        if !choices.is_empty() && choices.len() < n_choices {
            open.push(Open { equation, switches: switches.all, choices });
        }
    }
    if open.is_empty() {
        return None;
    }
    let regular = regularize(flat.clone()).ok()?;
    let mut new = flat.clone();
    let mut findings = Vec::new();
    for Open { equation, switches, choices } in open {
        let is_own = |row: usize| regular.equations[row].source as usize == equation;
        let alone = regular.blocks.iter().find(|block| block.len == 1 && is_own(block.start as usize));
        let Some(block) = alone.filter(|_| regular.verdict.differentiations[equation] == 0) else { continue };
        let unknown = regular.unknowns[block.start as usize];
        let variable = &flat.variables[unknown.var.index()];
        let condition = condition(&mut new.graph, &switches, &choices);
        let value = match variable.start.filter(|_| unknown.order == 0) {
            Some(start) => start,
            None => new.graph.number(0.0),
        };
        let own = new.graph.der(unknown.var, unknown.order);
        let written = &flat.equations[equation];
        new.equations[equation].lhs = new.graph.select(condition, own, written.lhs);
        new.equations[equation].rhs = new.graph.select(condition, value, written.rhs);
        let name = new.text(own);
        let message = format!(
            "the equation `{}` says nothing where {}: nothing determines `{name}` there, and it is set to {}",
            flat.equation_text(written),
            new.text(condition),
            new.text(value)
        );
        let finding =
            Finding::warning("open-mode", written.span, message).with_names([variable.name.as_str()]).with_help(
                "write what holds there as well, such as `if .. then .. else ..` with an equation in each branch",
            );
        findings.push(finding);
    }
    (!findings.is_empty()).then_some(ClosedModes { flat: new, findings })
}

/// The equation that makes a variable a function of relations.
#[derive(Clone, Copy)]
struct Definition {
    equation: usize,
    value: ExprId,
}

/// Variables that relations and parameters alone determine.
fn modal_variables(flat: &FlatDae) -> FxHashMap<VarId, Definition> {
    let mut modal: FxHashMap<VarId, Definition> = FxHashMap::default();
    for _ in 0..MAX_ROUNDS {
        let n_before = modal.len();
        for (at, equation) in flat.equations.iter().enumerate() {
            for (own, other) in [(equation.lhs, equation.rhs), (equation.rhs, equation.lhs)] {
                let Node::Var { var, order: 0 } = flat.graph.node(own) else { continue };
                let kind = flat.variables[var.index()].kind;
                let can_be = matches!(kind, VariableKind::Continuous | VariableKind::Discrete);
                if can_be && !modal.contains_key(&var) && is_modal(flat, &modal, other) {
                    modal.insert(var, Definition { equation: at, value: other });
                    break;
                }
            }
        }
        if modal.len() == n_before {
            break;
        }
    }
    modal
}

/// Whether relations and parameters alone determine an expression.
fn is_modal(flat: &FlatDae, modal: &FxHashMap<VarId, Definition>, root: ExprId) -> bool {
    let mut stack = vec![root];
    let mut seen = FxHashSet::default();
    while let Some(expr) = stack.pop() {
        if !seen.insert(expr) {
            continue;
        }
        match flat.graph.node(expr) {
            Node::Number(_) => {}
            Node::Binary { op, .. } if op.is_relation() => {}
            Node::Var { var, order: 0 } => {
                let kind = flat.variables[var.index()].kind;
                if !matches!(kind, VariableKind::Parameter | VariableKind::Constant) && !modal.contains_key(&var) {
                    return false;
                }
            }
            Node::Select { condition, then, otherwise } => stack.extend([condition, then, otherwise]),
            Node::Unary { arg, .. } | Node::Smooth { arg, .. } => stack.push(arg),
            Node::Binary { lhs, rhs, .. } => stack.extend([lhs, rhs]),
            _ => return false,
        }
    }
    true
}

/// The relations and discrete variables that sides depend on, also by way of modal variables; None where there are too
/// many.
fn switches_of(flat: &FlatDae, modal: &FxHashMap<VarId, Definition>, sides: &[ExprId]) -> Option<Switches> {
    let mut stack = sides.to_vec();
    let mut seen = FxHashSet::default();
    let (mut all, mut carriers) = (Vec::new(), Vec::new());
    while let Some(expr) = stack.pop() {
        if !seen.insert(expr) {
            continue;
        }
        match flat.graph.node(expr) {
            Node::Binary { op, .. } if op.is_relation() => all.push(Switch::Relation(expr)),
            Node::Var { var, order: 0 } => match modal.get(&var) {
                Some(definition) => {
                    carriers.push((var, definition.value));
                    stack.push(definition.value);
                }
                None if flat.variables[var.index()].kind == VariableKind::Discrete => {
                    all.push(Switch::Zero(var));
                }
                None => {}
            },
            _ => flat.graph.for_each_child(expr, |child| stack.push(child)),
        }
        if all.len() > MAX_SWITCHES {
            return None;
        }
    }
    Some(Switches { all, carriers })
}

/// Whether a product has a factor that is a function of relations or discrete, or a choice is made: only then a mode may
/// take everything out of an equation.
fn has_modal_factor(flat: &FlatDae, modal: &FxHashMap<VarId, Definition>, sides: &[ExprId]) -> bool {
    let mut stack = sides.to_vec();
    let mut seen = FxHashSet::default();
    let is_switched = |expr: ExprId| match flat.graph.node(expr) {
        Node::Var { var, order: 0 } => {
            modal.contains_key(&var) || flat.variables[var.index()].kind == VariableKind::Discrete
        }
        Node::Select { .. } => true,
        _ => false,
    };
    while let Some(expr) = stack.pop() {
        if !seen.insert(expr) {
            continue;
        }
        match flat.graph.node(expr) {
            Node::Binary { op: BinaryOp::Mul, lhs, rhs } if is_switched(lhs) || is_switched(rhs) => return true,
            Node::Select { .. } => return true,
            Node::Binary { op, .. } if op.is_relation() => {}
            _ => flat.graph.for_each_child(expr, |child| stack.push(child)),
        }
    }
    false
}

/// Whether both sides are the same at a choice of the switches.
fn is_empty_at(graph: &mut Graph, switches: &Switches, choice: usize, sides: [ExprId; 2]) -> bool {
    let mut known: FxHashMap<VarId, f64> = FxHashMap::default();
    let mut images: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    for (at, switch) in switches.all.iter().enumerate() {
        let holds = choice >> at & 1 == 1;
        match *switch {
            Switch::Relation(relation) => {
                let truth = graph.truth(holds);
                images.insert(relation, truth);
            }
            Switch::Zero(var) if holds => {
                known.insert(var, 0.0);
            }
            Switch::Zero(_) => {}
        }
    }
    for _ in 0..MAX_ROUNDS {
        let mut insertion = Insertion { known: &known, images: images.clone() };
        let mut found: Vec<(VarId, f64)> = Vec::new();
        for &(var, value) in switches.carriers.iter().filter(|(var, _)| !known.contains_key(var)) {
            let value = insertion.apply(graph, value);
            found.extend(graph.as_number(value).map(|value| (var, value)));
        }
        if found.is_empty() {
            break;
        }
        known.extend(found);
    }
    let mut insertion = Insertion { known: &known, images };
    let [lhs, rhs] = sides.map(|side| insertion.apply(graph, side));
    // Zeros of both signs are the same.
    lhs == rhs || graph.as_number(lhs).is_some_and(|value| graph.as_number(rhs) == Some(value))
}

/// That the switches are as in one of the choices.
fn condition(graph: &mut Graph, switches: &[Switch], choices: &[usize]) -> ExprId {
    let mut any = graph.truth(false);
    for &choice in choices {
        let mut all = graph.truth(true);
        for (at, switch) in switches.iter().enumerate() {
            let relation = match *switch {
                Switch::Relation(relation) => relation,
                Switch::Zero(var) => {
                    let (value, zero) = (graph.var(var), graph.number(0.0));
                    graph.equal(value, zero)
                }
            };
            let part = if choice >> at & 1 == 1 { relation } else { graph.not(relation) };
            all = graph.and(all, part);
        }
        any = graph.or(any, all);
    }
    any
}
