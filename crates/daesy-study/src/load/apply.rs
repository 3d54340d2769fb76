//! What a study says, put into its model, and every name that it uses checked.

use std::path::Path;
use std::sync::Arc;

use daesy_graph::finding::{Finding, nearest};
use daesy_graph::flat::{Equation, FlatDae, Origin, ValueType, Variable, VariableKind, WhenAction};
use daesy_graph::{Leaf, Node, Reach, Span, VarId};
use daesy_structure::straighten::ADDED;

use super::types::{no_real, type_problem};
use super::{LoadOptions, quantity_expression};
use crate::data::{Data, Reading, TimeAxis};
use crate::diagnostic::Diagnostic;
use crate::linear_model;
use crate::study::{Named, Quantity, QuantityValue, Study};
use crate::varying::vary_parameters;

/// Puts the study's values into the model and checks every name it uses.
pub(super) fn apply_study(flat: &mut FlatDae, study: &mut Study, options: &LoadOptions) -> Vec<Finding> {
    let mut findings = add_symbols(flat, study);
    findings.extend(apply_starts_of_unknowns(flat, study, options));
    findings.extend(apply_parameters(flat, study, options));
    findings.extend(vary_parameters(flat, study));
    findings.extend(free_inputs(flat, study));
    show_disturbances(flat, study);
    findings.extend(check_shown(flat, study));
    findings.extend(check_random(flat, study));
    findings.extend(apply_initial_values(flat, study));
    findings
}

fn is_unknown(kind: VariableKind) -> bool {
    matches!(kind, VariableKind::Continuous | VariableKind::Discrete)
}

/// Adds what only expressions of the study speak of, and checks the names of unknowns.
fn add_symbols(flat: &mut FlatDae, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Values that the model has no place for, but expressions of the study do, are free symbols.
    for parameter in &study.parameters {
        if flat.find(&parameter.name).is_none() && study.mentions(&parameter.name) {
            linear_model::add_parameter(flat, &parameter.name, None, parameter.span);
        }
    }
    // Unknowns that are no parameters of the model are free symbols for expressions.
    for unknown in &study.unknown {
        match flat.find(&unknown.name) {
            None if study.mentions(&unknown.name) => {
                linear_model::add_parameter(flat, &unknown.name, None, unknown.span);
            }
            None => findings.push(idle_unknown(flat, study, &unknown.name, unknown.span)),
            Some(var) if flat.variables[var.index()].kind != VariableKind::Parameter => {
                findings.push(not_a(flat, &unknown.name, unknown.span, "parameter"));
            }
            Some(var) if flat.variables[var.index()].is_final => findings.push(
                Finding::error("final", unknown.span, format!("`{}` is final and cannot be unknown", unknown.name))
                    .with_names([&unknown.name]),
            ),
            Some(var) => findings.extend(no_real(&flat.variables[var.index()], unknown.span, "unknown")),
        }
    }
    findings
}

/// Gives unknowns the values that they start from.
fn apply_starts_of_unknowns(flat: &mut FlatDae, study: &Study, options: &LoadOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    for unknown in &study.unknown {
        if let Some((_, value)) = options.set.iter().find(|(name, _)| *name == unknown.name) {
            if let Some(var) = flat.find(&unknown.name) {
                let value = flat.graph.number(*value);
                flat.variables[var.index()].binding = Some(value);
            }
            continue;
        }
        if let (Some(start), Some(var)) = (&unknown.item.start, flat.find(&unknown.name)) {
            match quantity_expression(&mut flat.graph, &flat.variables, start) {
                Ok(value) => flat.variables[var.index()].binding = Some(value),
                Err(errors) => findings.extend(errors),
            }
        }
    }
    findings
}

/// Gives parameters their values.
fn apply_parameters(flat: &mut FlatDae, study: &Study, options: &LoadOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    for parameter in &study.parameters {
        match flat.find(&parameter.name) {
            Some(var) if flat.variables[var.index()].kind == VariableKind::Parameter => {
                if let Some((_, value)) = options.set.iter().find(|(name, _)| *name == parameter.name) {
                    let value = flat.graph.number(*value);
                    flat.variables[var.index()].binding = Some(value);
                } else if flat.variables[var.index()].is_final {
                    findings.push(
                        Finding::error("final", parameter.span, format!("`{}` is final", parameter.name))
                            .with_names([&parameter.name]),
                    );
                } else if let QuantityValue::Number(value) = parameter.item.value
                    && let Some(message) = type_problem(&flat.variables[var.index()], value)
                {
                    findings
                        .push(Finding::error("wrong-type", parameter.item.span, message).with_names([&parameter.name]));
                } else if matches!(parameter.item.value, QuantityValue::Expression(_))
                    || flat.variables[var.index()].binding.is_none()
                {
                    match quantity_expression(&mut flat.graph, &flat.variables, &parameter.item) {
                        Ok(value) => flat.variables[var.index()].binding = Some(value),
                        Err(errors) => findings.extend(errors),
                    }
                }
            }
            Some(_) => findings.push(not_a(flat, &parameter.name, parameter.span, "parameter")),
            None => findings.push(unknown_name(flat, &parameter.name, parameter.span, "parameter", |kind| {
                kind == VariableKind::Parameter
            })),
        }
    }
    findings
}

/// Frees the signals that the study gives, each of which it gives once.
fn free_inputs(flat: &mut FlatDae, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    for input in &study.inputs {
        findings.extend(free_input(flat, &input.name, input.span));
    }
    for (at, disturbance) in study.disturbances.iter().enumerate() {
        for signal in &disturbance.item.signals {
            findings.extend(free_input(flat, signal, disturbance.span));
            let other = study.disturbances[..at].iter().find(|other| other.item.signals.contains(signal));
            let message = if study.inputs.iter().any(|input| input.name == *signal) {
                format!("`{signal}` is both a known input and a disturbance")
            } else if let Some(other) = other {
                format!("`{signal}` belongs to the disturbances `{}` and `{}`", other.name, disturbance.name)
            } else {
                continue;
            };
            let help = "keep one of the two entries: what is known is an input, what is random is a disturbance; for a known input \
                        with an error, let the model add two inputs";
            findings
                .push(Finding::error("given-twice", disturbance.span, message).with_names([signal]).with_help(help));
        }
    }
    findings
}

/// Checks the names of variables that are measured, estimated or reported.
fn check_shown(flat: &FlatDae, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    let signals = study.measurements.iter().map(|signal| (&signal.name, signal.span));
    for (name, span) in signals.chain(study.signals.iter().map(|signal| (&signal.name, signal.span))) {
        match flat.find(name) {
            Some(var) if is_unknown(flat.variables[var.index()].kind) => {}
            Some(_) => findings.push(not_a(flat, name, span, "variable")),
            None => findings.push(unknown_name(flat, name, span, "variable", is_unknown)),
        }
    }
    for signal in study.report_signals.iter().flatten() {
        let is_shown = |kind| is_unknown(kind) || kind == VariableKind::Input;
        match flat.find(&signal.name) {
            Some(var) if is_shown(flat.variables[var.index()].kind) => {}
            Some(_) => findings.push(not_a(flat, &signal.name, signal.span, "variable")),
            None => findings.push(unknown_name(flat, &signal.name, signal.span, "variable", is_shown)),
        }
    }
    findings
}

/// Checks the names of parameters that are random, or jump by a fault.
fn check_random(flat: &FlatDae, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    let joined = study.joint.iter().flat_map(|joint| joint.names.iter().map(|name| (&name.name, name.span)));
    let is_symbol = |name: &str| study.unknown.iter().any(|unknown| unknown.name == name);
    let faults = study.watch.faults.iter().filter(|fault| !is_symbol(&fault.name));
    let faults = faults.map(|fault| (&fault.name, fault.span));
    for (name, span) in study.random.iter().map(|random| (&random.name, random.span)).chain(joined).chain(faults) {
        match flat.find(name) {
            Some(var) if is_computed_at_start(flat, var) || flat.variables[var.index()].is_final => {
                let message = format!(
                    "the model determines `{name}` (`final`, or `fixed = false` with an initial equation): it cannot be random, \
                     nor jump"
                );
                let finding = Finding::error("computed-parameter", span, message).with_names([name]);
                findings.push(finding.with_help("name what determines it, or take back `final` or `fixed = false`"));
            }
            Some(var) if flat.variables[var.index()].kind == VariableKind::Parameter => {
                findings.extend(no_real(&flat.variables[var.index()], span, "random, nor jump"));
            }
            Some(_) => findings.push(not_a(flat, name, span, "parameter")),
            None => findings.push(unknown_name(flat, name, span, "parameter", |kind| kind == VariableKind::Parameter)),
        }
    }
    findings
}

/// Gives variables their values at the start.
fn apply_initial_values(flat: &mut FlatDae, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    for value in &study.initial.values {
        match flat.find(&value.name) {
            Some(var) if is_unknown(flat.variables[var.index()].kind) => {
                // Variables of a unit are Reals here; what they are is known to its description.
                let is_boolean = flat.variables[var.index()].value_type == ValueType::Boolean;
                if !is_boolean && study.initial.truths.contains(&value.name) && !flat.graph.calls_foreign() {
                    findings.push(no_boolean(value));
                }
                if let QuantityValue::Number(number) = value.item.value
                    && let Some(message) = type_problem(&flat.variables[var.index()], number)
                {
                    findings.push(Finding::error("wrong-type", value.item.span, message).with_names([&value.name]));
                }
                if is_given_by_equation(flat, var) {
                    let message = format!(
                        "an equation gives the discrete variable `{}` at the start as at any other time: it cannot start elsewhere",
                        value.name
                    );
                    let finding = Finding::error("computed-start", value.span, message).with_names([&value.name]);
                    findings.push(finding.with_help("leave it out, or give the start of what the equation depends on"));
                    continue;
                }
                match quantity_expression(&mut flat.graph, &flat.variables, &value.item) {
                    Ok(start) => {
                        flat.variables[var.index()].start = Some(start);
                        flat.variables[var.index()].fixed = Some(true);
                    }
                    Err(errors) => findings.extend(errors),
                }
            }
            Some(_) => findings.push(not_a(flat, &value.name, value.span, "variable")),
            None => findings.push(unknown_name(flat, &value.name, value.span, "variable", is_unknown)),
        }
    }
    findings
}

/// Whether a discrete variable is given by an equation that is no when-clause, and nothing reads its value before, which
/// a start would be.
fn is_given_by_equation(flat: &FlatDae, var: VarId) -> bool {
    let actions = flat.when_clauses.iter().flat_map(|clause| &clause.branches).flat_map(|branch| &branch.actions);
    let mut assigned = actions.filter_map(|action| match action {
        WhenAction::Assign { variable, .. } => Some(*variable),
        _ => None,
    });
    let is_read_before = || flat.graph.nodes().any(|node| node == Node::Pre(var));
    flat.variables[var.index()].kind == VariableKind::Discrete
        && !assigned.any(|known| known == var)
        && !is_read_before()
}

/// Lets disturbances be estimated: one that is asked for becomes a variable under its name, equal to an input that
/// nobody sees.
fn show_disturbances(flat: &mut FlatDae, study: &mut Study) {
    let asked: Vec<String> = study.signals.iter().map(|signal| signal.name.clone()).collect();
    for name in asked {
        let Some(input) = flat.find(&name).filter(|var| flat.variables[var.index()].kind == VariableKind::Input) else {
            continue;
        };
        let hidden = format!("{ADDED}{name}");
        let signals = study.disturbances.iter_mut().flat_map(|disturbance| &mut disturbance.item.signals);
        let mut places: Vec<&mut String> = signals.filter(|signal| **signal == name).collect();
        if places.is_empty() {
            continue;
        }
        places.iter_mut().for_each(|place| (**place).clone_from(&hidden));
        let variable = Variable { kind: VariableKind::Continuous, ..flat.variables[input.index()].clone() };
        let span = variable.span;
        flat.variables[input.index()].name = hidden;
        let shown = VarId(flat.variables.len() as u32);
        flat.variables.push(variable);
        let (lhs, rhs) = (flat.graph.var(shown), flat.graph.var(input));
        flat.equations.push(Equation { lhs, rhs, origin: Origin::Binding, component: Arc::from(""), span });
    }
}

/// An unknown that is no parameter of the model, and that no expression of the study uses.
fn idle_unknown(flat: &FlatDae, study: &Study, name: &str, span: Span) -> Finding {
    let is_unknown = |other: &str| study.unknown.iter().any(|unknown| unknown.name == other);
    let parameters = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Parameter);
    let others = parameters.map(|variable| variable.name.as_str()).filter(|other| !is_unknown(other));
    let help = match nearest(name, others) {
        Some(near) => format!("did you mean the parameter `{near}`? Otherwise take it out of `[unknown]`"),
        None => {
            let all: Vec<&str> = parameters_of(flat).take(12).collect();
            let known =
                if all.is_empty() { String::new() } else { format!("; parameters of the model: {}", all.join(", ")) };
            format!("take it out of `[unknown]`, or use it in the model, a disturbance or an accuracy{known}")
        }
    };
    let message = format!("nothing depends on the unknown `{name}`: the model has no such parameter");
    Finding::error("idle-unknown", span, message).with_names([name]).with_help(help)
}

/// Whether initial equations may determine a parameter.
fn is_computed_at_start(flat: &FlatDae, var: VarId) -> bool {
    let variable = &flat.variables[var.index()];
    let is_it = |leaf: Leaf| matches!(leaf, Leaf::Var { var: of, .. } if of == var);
    let mut reach = Reach::new();
    variable.kind == VariableKind::Parameter
        && variable.fixed == Some(false)
        && flat.initial_equations.iter().any(|equation| {
            reach.depends_on(&flat.graph, equation.lhs, is_it) || reach.depends_on(&flat.graph, equation.rhs, is_it)
        })
}

/// Makes a signal an input of the model: it is one already, or it is an unknown whose value only its declaration gives,
/// or whose equation is missing.
fn free_input(flat: &mut FlatDae, name: &str, span: Span) -> Option<Finding> {
    let Some(var) = flat.find(name) else {
        return Some(unknown_name(flat, name, span, "input", |kind| kind == VariableKind::Input));
    };
    match flat.variables[var.index()].kind {
        VariableKind::Input => return None,
        VariableKind::Continuous => {}
        VariableKind::Constant | VariableKind::Parameter | VariableKind::Discrete => {
            return Some(not_a(flat, name, span, "input"));
        }
    }
    let value = flat.graph.var(var);
    let is_declared = |equation: &Equation| {
        matches!(equation.origin, Origin::Binding | Origin::UnconnectedFlow) && equation.lhs == value
    };
    match flat.equations.iter().position(is_declared) {
        Some(at) => {
            flat.equations.remove(at);
        }
        None => {
            let size = flat.size();
            if size.equations >= size.unknowns {
                let finding = Finding::error(
                    "not-an-input",
                    span,
                    format!("`{name}` cannot be given from outside: the equations of the model determine it already"),
                );
                let inputs: Vec<&str> = inputs_of(flat).take(12).collect();
                let listed = if inputs.is_empty() { String::new() } else { format!(": {}", inputs.join(", ")) };
                return Some(finding.with_names([name]).with_help(format!(
                    "name an input of the top-level model{listed}; or a variable that only its declaration gives a \
                     value (`Real w = 0`)"
                )));
            }
        }
    }
    flat.variables[var.index()].kind = VariableKind::Input;
    None
}

fn a(word: &str) -> String {
    if word.starts_with('i') { format!("an {word}") } else { format!("a {word}") }
}

fn inputs_of(flat: &FlatDae) -> impl Iterator<Item = &str> {
    let inputs = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Input);
    inputs.map(|variable| variable.name.as_str())
}

fn parameters_of(flat: &FlatDae) -> impl Iterator<Item = &str> {
    let parameters = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Parameter);
    parameters.map(|variable| variable.name.as_str())
}

fn not_a(flat: &FlatDae, name: &str, span: Span, wanted: &str) -> Finding {
    let kind = flat.find(name).map(|var| flat.variables[var.index()].kind);
    let is = match kind {
        Some(VariableKind::Parameter) => "a parameter",
        Some(VariableKind::Constant) => "a constant",
        Some(VariableKind::Input) => "an input",
        Some(VariableKind::Continuous | VariableKind::Discrete) | None => "an unknown of the model",
    };
    let finding =
        Finding::error("wrong-kind", span, format!("`{name}` must be {} of the model, but it is {is}", a(wanted)))
            .with_names([name]);
    if wanted == "input" {
        let inputs: Vec<&str> = inputs_of(flat).take(12).collect();
        return finding.with_help(if inputs.is_empty() {
            "the model has no inputs: declare one, such as `input Real w;`, and use it in an equation".to_owned()
        } else {
            format!("inputs of the model: {}", inputs.join(", "))
        });
    }
    if wanted == "variable" && kind == Some(VariableKind::Input) {
        return finding
            .with_help(format!("give it a variable in the model, such as `Real seen = {name};`, and name that"));
    }
    if wanted == "parameter" {
        let all: Vec<&str> = parameters_of(flat).take(12).collect();
        return finding.with_help(if all.is_empty() {
            "the model has no parameters: declare one, such as `parameter Real k = 1;`".to_owned()
        } else {
            format!("parameters of the model: {}", all.join(", "))
        });
    }
    finding.with_help("`daesy describe` lists the variables of the model")
}

fn unknown_name(
    flat: &FlatDae,
    name: &str,
    span: Span,
    wanted: &str,
    is_wanted: impl Fn(VariableKind) -> bool,
) -> Finding {
    let candidates: Vec<&str> = flat
        .variables
        .iter()
        .filter(|variable| is_wanted(variable.kind))
        .map(|variable| variable.name.as_str())
        .collect();
    let finding =
        Finding::error("unknown-name", span, format!("the model has no {wanted} `{name}`")).with_names([name]);
    match nearest(name, candidates.iter().copied()) {
        Some(near) => finding.with_help(format!("did you mean `{near}`?")),
        None if candidates.len() <= 12 && !candidates.is_empty() => {
            finding.with_help(format!("there are: {}", candidates.join(", ")))
        }
        None => finding.with_help("`daesy flatten` lists all names of the model"),
    }
}

pub(super) fn no_boolean(value: &Named<Quantity>) -> Finding {
    let message = format!("`{}` is no Boolean and cannot be true or false", value.name);
    Finding::error("wrong-type", value.item.span, message).with_names([&value.name])
}

/// Reads the samples of `[random.joint]`.
pub(super) fn read_joint_samples(study: &mut Study, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    let Some(joint) = &mut study.joint else { return Ok(()) };
    let Some(samples) = &joint.samples else { return Ok(()) };
    let path = folder.join(&samples.file);
    let shown = path.display().to_string();
    let wanted: Vec<String> = joint.names.iter().map(|name| name.name.clone()).collect();
    let axis = TimeAxis::Step(1.0);
    let data = Data::read(&path, &shown, &Reading { wanted: Some(&wanted), ..Reading::plain(&axis) })?;
    let wrong = |message: String, help: &str| {
        Err(vec![Diagnostic::about_file("joint-samples", &shown, message).with_help(help)])
    };
    let mut columns = Vec::new();
    for name in &wanted {
        let Some(column) = data.column(name) else {
            return wrong(
                format!("the samples have no column `{name}`"),
                &format!("columns: {}", data.names.join(", ")),
            );
        };
        columns.push(column);
    }
    let rows: Vec<Vec<f64>> =
        (0..data.times.len()).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
    if rows.iter().flatten().any(|value| !value.is_finite()) {
        return wrong("a sample has no value".to_owned(), "every row needs a number for each of the names");
    }
    if !joint.set_rows(rows) {
        return wrong(
            "the samples have no covariance".to_owned(),
            "two rows at least are needed, with different values",
        );
    }
    Ok(())
}
