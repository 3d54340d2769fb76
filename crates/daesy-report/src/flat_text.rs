//! `daesy flatten`: the flat model as Base Modelica or JSON.

use std::fmt::Write as _;

use daesy_graph::flat::{FlatDae, StateSelect, ValueType, Variable, VariableKind, WhenAction, WhenBranch};
use daesy_graph::function::Statement;
use daesy_graph::print::quoted;
use daesy_graph::{ExprId, Function, Span, VarId};
use serde_json::{Map, Value, json};

/// A text as Modelica writes it.
fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t"))
}

/// The array that holds the variables of a function.
const LOCALS: &str = "local";

/// The name to call for an output, from 0, of a function.
fn called(name: &str, output: u16) -> String {
    quoted(&if output > 0 { format!("{name}.output{}", output + 1) } else { name.to_owned() })
}

/// Bytes of one expression. Written out, shared parts repeat, and a small model can have an endless text: such an
/// expression ends with `...`, which is no Modelica.
const LONGEST_EXPRESSION: usize = 1_000_000;

struct Writer<'a> {
    flat: &'a FlatDae,
}

impl Writer<'_> {
    /// An equation with both sides of one type.
    fn equation(&self, equation: &daesy_graph::Equation) -> String {
        let name = |var: VarId| std::borrow::Cow::Owned(quoted(&self.flat.variables[var.index()].name));
        self.printer(&name).texts_alike(equation.lhs, equation.rhs).join(" = ")
    }

    fn text(&self, expr: ExprId) -> String {
        let name = |var: VarId| std::borrow::Cow::Owned(quoted(&self.flat.variables[var.index()].name));
        self.printer(&name).text(expr)
    }

    fn truth(&self, expr: ExprId) -> String {
        let name = |var: VarId| std::borrow::Cow::Owned(quoted(&self.flat.variables[var.index()].name));
        self.printer(&name).truth_text(expr)
    }

    fn printer<'n>(&'n self, name: &'n dyn Fn(VarId) -> std::borrow::Cow<'n, str>) -> daesy_graph::Printer<'n, 'n> {
        daesy_graph::Printer::new(&self.flat.graph, name)
            .with_functions(&called)
            .with_locals_in(LOCALS)
            .with_types(&self.flat.variables)
            .with_max_length(LONGEST_EXPRESSION)
    }

    /// A function that is kept as a program, once per output: Modelica has no expression for the others. All of its
    /// variables are in one array.
    fn function(&self, function: &Function, output: u16, text: &mut String) {
        let name = called(&function.name, output);
        let _ = writeln!(text, "function {name}");
        if let [Statement::Intrinsic { intrinsic, .. }] = &function.body[..]
            && let Some(inside) = intrinsic.modelica_text()
        {
            let _ = writeln!(text, "{inside}end {name};");
            return;
        }
        for input in 1..=function.n_inputs {
            let _ = writeln!(text, "  input Real in{input};");
        }
        let _ = writeln!(text, "  output Real out;\nprotected\n  Real {LOCALS}[{}];\nalgorithm", function.n_locals);
        for local in 1..=function.n_locals {
            let value = if local <= function.n_inputs { format!("in{local}") } else { "0".to_owned() };
            let _ = writeln!(text, "  {LOCALS}[{local}] := {value};");
        }
        let result = format!("out := {LOCALS}[{}];", function.outputs[usize::from(output)] + 1);
        self.statements(&function.body, &result, 1, text);
        let _ = writeln!(text, "  {result}\nend {name};");
    }

    fn statements(&self, body: &[Statement], result: &str, depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        for statement in body {
            let _ = match statement {
                Statement::Assign { local, value } => {
                    writeln!(text, "{indent}{LOCALS}[{}] := {};", local + 1, self.text(*value))
                }
                Statement::AssignAt { base, index, value, .. } => {
                    let (index, value) = (self.text(*index), self.text(*value));
                    writeln!(text, "{indent}{LOCALS}[{base} + integer({index})] := {value};")
                }
                Statement::If { condition, then, otherwise } => {
                    let _ = writeln!(text, "{indent}if {} then", self.truth(*condition));
                    self.statements(then, result, depth + 1, text);
                    if !otherwise.is_empty() {
                        let _ = writeln!(text, "{indent}else");
                        self.statements(otherwise, result, depth + 1, text);
                    }
                    writeln!(text, "{indent}end if;")
                }
                Statement::While { condition, body } => {
                    let _ = writeln!(text, "{indent}while {} loop", self.truth(*condition));
                    self.statements(body, result, depth + 1, text);
                    writeln!(text, "{indent}end while;")
                }
                Statement::Intrinsic { intrinsic, args, results } => {
                    // Modelica has no expression for what is no table: it is named, not spelled out.
                    let args: Vec<String> = args.iter().map(|arg| format!("{LOCALS}[{}]", arg + 1)).collect();
                    let results: Vec<String> = results.iter().map(|local| format!("{LOCALS}[{}]", local + 1)).collect();
                    writeln!(text, "{indent}({}) := {}({});", results.join(", "), intrinsic.name(), args.join(", "))
                }
                Statement::Break => writeln!(text, "{indent}break;"),
                Statement::Return => writeln!(text, "{indent}{result}\n{indent}return;"),
                Statement::Assert { condition, message } => {
                    writeln!(text, "{indent}assert({}, {});", self.truth(*condition), string(message))
                }
            };
        }
    }

    fn value(&self, variable: &Variable, expr: ExprId) -> String {
        match (&variable.value_type, self.flat.graph.as_number(expr)) {
            (ValueType::Real, Some(number)) if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number:.1}"),
            (value_type, _) => {
                let name = |var: VarId| std::borrow::Cow::Owned(quoted(&self.flat.variables[var.index()].name));
                self.printer(&name).text_as(expr, value_type)
            }
        }
    }

    fn declaration(&self, variable: &Variable) -> String {
        let mut line = String::from("  ");
        if variable.is_final {
            line.push_str("final ");
        }
        line.push_str(match variable.kind {
            VariableKind::Constant => "constant ",
            VariableKind::Parameter => "parameter ",
            VariableKind::Input => "input ",
            VariableKind::Discrete if variable.value_type == ValueType::Real => "discrete ",
            VariableKind::Continuous | VariableKind::Discrete => "",
        });
        if variable.is_output {
            line.push_str("output ");
        }
        line.push_str(match &variable.value_type {
            ValueType::Real => "Real",
            ValueType::Integer => "Integer",
            ValueType::Boolean => "Boolean",
            ValueType::String => "String",
            ValueType::Enumeration(enumeration) => {
                return self.enumeration_declaration(variable, &enumeration.name, line);
            }
        });
        self.finish_declaration(variable, line)
    }

    fn enumeration_declaration(&self, variable: &Variable, name: &str, mut line: String) -> String {
        line.push_str(&quoted(name));
        self.finish_declaration(variable, line)
    }

    fn finish_declaration(&self, variable: &Variable, mut line: String) -> String {
        let _ = write!(line, " {}", quoted(&variable.name));
        let mut attributes = Vec::new();
        if let Some(unit) = &variable.unit
            && !unit.text.is_empty()
        {
            attributes.push(format!("unit = {}", string(&unit.text)));
        }
        if let Some(unit) = &variable.display_unit
            && !unit.is_empty()
        {
            attributes.push(format!("displayUnit = {}", string(unit)));
        }
        for (name, value) in
            [("min", variable.min), ("max", variable.max), ("start", variable.start), ("nominal", variable.nominal)]
        {
            if let Some(value) = value {
                attributes.push(format!("{name} = {}", self.value(variable, value)));
            }
        }
        if let Some(fixed) = variable.fixed {
            attributes.push(format!("fixed = {fixed}"));
        }
        let select = match variable.state_select {
            StateSelect::Default => None,
            StateSelect::Never => Some("never"),
            StateSelect::Avoid => Some("avoid"),
            StateSelect::Prefer => Some("prefer"),
            StateSelect::Always => Some("always"),
        };
        if let Some(select) = select {
            attributes.push(format!("stateSelect = StateSelect.{select}"));
        }
        if !attributes.is_empty() {
            let _ = write!(line, "({})", attributes.join(", "));
        }
        match (&variable.text, variable.binding) {
            (Some(text), _) => {
                let _ = write!(line, " = {}", string(text));
            }
            (None, Some(binding)) => {
                let _ = write!(line, " = {}", self.value(variable, binding));
            }
            (None, None) => {}
        }
        if let Some(description) = &variable.description {
            let _ = write!(line, " {}", string(description));
        }
        line.push(';');
        line
    }
}

/// Whether a variable is more than a hidden constant, which nothing reads.
fn is_meant(variable: &&Variable) -> bool {
    variable.kind != VariableKind::Constant || !variable.is_hidden()
}

/// The flat model as Base Modelica text.
#[must_use]
pub fn to_base_modelica(flat: &FlatDae) -> String {
    let writer = Writer { flat };
    let mut text = String::new();
    let name = quoted(&flat.model);
    let description = flat.description.as_ref().map_or(String::new(), |text| format!(" {}", string(text)));
    let _ = writeln!(text, "//! base 0.1.0\npackage {name}");
    let mut enumerations: Vec<_> = flat
        .variables
        .iter()
        .filter_map(|variable| match &variable.value_type {
            ValueType::Enumeration(enumeration) => Some(enumeration),
            _ => None,
        })
        .collect();
    enumerations.sort_by(|a, b| a.name.cmp(&b.name));
    enumerations.dedup();
    // Those that are part of the language are not declared again.
    let is_known = |name: &str| matches!(name, "StateSelect" | "AssertionLevel");
    for enumeration in enumerations.into_iter().filter(|enumeration| !is_known(&enumeration.name)) {
        let literals = enumeration.literals.join(", ");
        let _ = writeln!(text, "type {} = enumeration({literals});", quoted(&enumeration.name));
    }
    for (at, function) in flat.graph.functions().iter().enumerate() {
        if flat.graph.whole(daesy_graph::FunctionId(at as u32)).is_some() {
            // Operations on Integers are written as such.
            continue;
        }
        for output in 0..function.outputs.len() as u16 {
            writer.function(function, output, &mut text);
        }
    }
    let _ = writeln!(text, "model {name}{description}");
    for variable in flat.variables.iter().filter(is_meant) {
        let _ = writeln!(text, "{}", writer.declaration(variable));
    }
    let write_equations = |text: &mut String, head: &str, equations: &[daesy_graph::Equation]| {
        if !equations.is_empty() {
            let _ = writeln!(text, "{head}");
        }
        for equation in equations {
            let _ = writeln!(text, "  {};", writer.equation(equation));
        }
    };
    write_equations(&mut text, "initial equation", &flat.initial_equations);
    if !(flat.equations.is_empty() && flat.when_clauses.is_empty() && flat.assertions.is_empty()) {
        text.push_str("equation\n");
    }
    for equation in &flat.equations {
        let _ = writeln!(text, "  {};", writer.equation(equation));
    }
    for clause in &flat.when_clauses {
        let assigned = |branch: &WhenBranch| -> Vec<VarId> {
            let variable = |action: &WhenAction| match action {
                WhenAction::Assign { variable, .. } => Some(*variable),
                _ => None,
            };
            branch.actions.iter().filter_map(variable).collect()
        };
        let mut all: Vec<VarId> = clause.branches.iter().flat_map(assigned).collect();
        all.sort_unstable();
        all.dedup();
        for (at, branch) in clause.branches.iter().enumerate() {
            let conditions: Vec<String> = branch.conditions.iter().map(|&condition| writer.truth(condition)).collect();
            let condition = match &conditions[..] {
                [one] => one.clone(),
                several => format!("{{{}}}", several.join(", ")),
            };
            let _ = writeln!(text, "  {} {condition} then", if at == 0 { "when" } else { "elsewhen" });
            for action in &branch.actions {
                let _ = writeln!(text, "    {};", action_text(&writer, action));
            }
            // All branches of a when-equation set the same variables; those of an algorithm need not.
            let own = assigned(branch);
            for variable in all.iter().filter(|variable| !own.contains(variable)) {
                let name = quoted(&flat.variables[variable.index()].name);
                let _ = writeln!(text, "    {name} = pre({name});");
            }
        }
        text.push_str("  end when;\n");
    }
    for assertion in &flat.assertions {
        let level = if assertion.is_warning { ", AssertionLevel.warning" } else { "" };
        let _ =
            writeln!(text, "  assert({}, {}{level});", writer.truth(assertion.condition), string(&assertion.message));
    }
    let daesy_graph::flat::Experiment { start, stop, interval, tolerance } = flat.experiment;
    let settings: Vec<String> =
        [("StartTime", start), ("StopTime", stop), ("Interval", interval), ("Tolerance", tolerance)]
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name} = {}", daesy_graph::print::number_text(value?))))
            .collect();
    if !settings.is_empty() {
        let _ = writeln!(text, "  annotation(experiment({}));", settings.join(", "));
    }
    let _ = writeln!(text, "end {name};\nend {name};");
    text
}

/// What of a flat model its text only names, so that it cannot be read again: operations that Modelica has no text for, and
/// expressions that are too long to be printed.
#[must_use]
pub fn not_spelled_out(flat: &FlatDae, text: &str) -> Vec<String> {
    fn named<'f>(body: &'f [Statement], names: &mut Vec<&'f str>) {
        for statement in body {
            match statement {
                Statement::Intrinsic { intrinsic, .. } => names.push(intrinsic.name()),
                Statement::If { then, otherwise, .. } => {
                    [then, otherwise].into_iter().for_each(|body| named(body, names))
                }
                Statement::While { body, .. } => named(body, names),
                _ => {}
            }
        }
    }
    let mut names = Vec::new();
    for (at, function) in flat.graph.functions().iter().enumerate() {
        // Operations on whole numbers are written as such where they are called.
        let is_written = flat.graph.whole(daesy_graph::FunctionId(at as u32)).is_some()
            || matches!(&function.body[..], [Statement::Intrinsic { intrinsic, .. }]
                if intrinsic.modelica_text().is_some());
        if !is_written {
            named(&function.body, &mut names);
        }
    }
    names.sort_unstable();
    names.dedup();
    let mut parts: Vec<String> =
        names.into_iter().map(|name| format!("`{name}`, which Modelica has no text for")).collect();
    if text.lines().any(|line| line.len() > LONGEST_EXPRESSION && line.contains("...")) {
        parts.push(format!("an expression of more than {LONGEST_EXPRESSION} characters, which ends with `...`"));
    }
    parts
}

fn action_text(writer: &Writer<'_>, action: &WhenAction) -> String {
    let name = |var: &VarId| quoted(&writer.flat.variables[var.index()].name);
    match action {
        WhenAction::Assign { variable, value, .. } => {
            let declared = &writer.flat.variables[variable.index()];
            format!("{} = {}", name(variable), writer.value(declared, *value))
        }
        WhenAction::Reinit { variable, value, .. } => format!("reinit({}, {})", name(variable), writer.text(*value)),
        WhenAction::Assert(assertion) => {
            format!("assert({}, {})", writer.truth(assertion.condition), string(&assertion.message))
        }
        WhenAction::Terminate { message, .. } => format!("terminate({})", string(message)),
    }
}

/// The keys of the JSON document beside those that every document has.
#[must_use]
pub fn to_json(flat: &FlatDae) -> Map<String, Value> {
    let place = |span: Span| match flat.sources.place(span) {
        Some(place) => json!({ "file": place.file, "line": place.line, "column": place.column,
            "start": span.start, "end": span.end }),
        None => Value::Null,
    };
    let expression = |expr: Option<ExprId>| match expr {
        None => Value::Null,
        Some(expr) => match flat.graph.as_number(expr) {
            Some(number) if number.is_finite() => json!(number),
            _ => json!(flat.text(expr)),
        },
    };
    let variables: Vec<Value> = flat
        .variables
        .iter()
        .filter(is_meant)
        .map(|variable| {
            json!({
                "name": variable.name,
                "kind": match variable.kind {
                    VariableKind::Constant => "constant",
                    VariableKind::Parameter => "parameter",
                    VariableKind::Input => "input",
                    VariableKind::Continuous => "continuous",
                    VariableKind::Discrete => "discrete",
                },
                "type": match &variable.value_type {
                    ValueType::Real => "Real",
                    ValueType::Integer => "Integer",
                    ValueType::Boolean => "Boolean",
                    ValueType::String => "String",
                    ValueType::Enumeration(enumeration) => &enumeration.name,
                },
                "binding": variable.text.as_ref().map_or_else(|| expression(variable.binding), |text| json!(&**text)),
                "start": expression(variable.start),
                "fixed": variable.fixed,
                "min": expression(variable.min),
                "max": expression(variable.max),
                "nominal": expression(variable.nominal),
                "unit": variable.unit.as_ref().map(|unit| unit.text.to_string()),
                "output": variable.is_output,
                "flow": variable.is_flow,
                "final": variable.is_final,
                "structural": variable.is_structural,
                "description": variable.description.as_deref(),
                "place": place(variable.span),
            })
        })
        .collect();
    let equations = |equations: &[daesy_graph::Equation]| -> Vec<Value> {
        equations
            .iter()
            .map(|equation| {
                json!({
                    "text": flat.equation_text(equation),
                    "component": &*equation.component,
                    "origin": format!("{:?}", equation.origin).to_lowercase(),
                    "place": place(equation.span),
                })
            })
            .collect()
    };
    let size = flat.size();
    let mut keys = Map::new();
    keys.insert(
        "size".into(),
        json!({ "equations": size.equations, "unknowns": size.unknowns, "parameters": size.parameters,
            "inputs": size.inputs }),
    );
    keys.insert("variables".into(), Value::Array(variables));
    keys.insert("equations".into(), Value::Array(equations(&flat.equations)));
    keys.insert("initial_equations".into(), Value::Array(equations(&flat.initial_equations)));
    let writer = Writer { flat };
    let whens: Vec<Value> = flat
        .when_clauses
        .iter()
        .map(|clause| {
            let branches: Vec<Value> = clause
                .branches
                .iter()
                .map(|branch| {
                    json!({
                        "conditions": branch.conditions.iter().map(|&condition| writer.truth(condition)).collect::<Vec<_>>(),
                        "actions": branch.actions.iter().map(|action| action_text(&writer, action)).collect::<Vec<_>>(),
                    })
                })
                .collect();
            json!({ "branches": branches, "place": place(clause.span) })
        })
        .collect();
    keys.insert("when".into(), Value::Array(whens));
    keys
}
