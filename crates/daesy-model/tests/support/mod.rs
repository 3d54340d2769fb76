//! Reading flat models in tests: equations as text, one line each.
#![allow(dead_code, reason = "every test file uses a part of this")]

use daesy_graph::flat::{FlatDae, Origin, WhenAction};
use daesy_graph::{BinaryOp, ExprId, Node, UnaryOp, Variable};
use daesy_model::{FlattenError, flatten_text};

/// Flattens a text or fails with the findings.
pub fn flat(text: &str, class: &str) -> FlatDae {
    match flatten_text("test.mo", text, Some(class)) {
        Ok(flat) => flat,
        Err(error) => panic!("{error}"),
    }
}

/// The findings of a text that must be refused.
pub fn refused(text: &str, class: &str) -> FlattenError {
    match flatten_text("test.mo", text, Some(class)) {
        Ok(flat) => panic!("accepted with {:?}:\n{}", flat.size(), equations(&flat).join("\n")),
        Err(error) => error,
    }
}

/// Checks that a text is refused with the given code at the given line.
pub fn refused_at(text: &str, class: &str, code: &str, line: u32) {
    let error = refused(text, class);
    let found = error.findings.iter().any(|finding| {
        finding.code == code && error.sources.place(finding.span).is_some_and(|place| place.line == line)
    });
    assert!(found, "no `{code}` in line {line}:\n{error}");
}

/// The text of an expression, in Modelica's notation with all parentheses.
pub fn show(flat: &FlatDae, expr: ExprId) -> String {
    let name = |var: daesy_graph::VarId| flat.variables[var.index()].name.clone();
    match flat.graph.node(expr) {
        Node::Number(bits) => format!("{}", f64::from_bits(bits)),
        Node::Time => "time".into(),
        Node::Var { var, order: 0 } => name(var),
        Node::Var { var, order: 1 } => format!("der({})", name(var)),
        Node::Var { var, order } => format!("der{order}({})", name(var)),
        Node::Pre(var) => format!("pre({})", name(var)),
        Node::Unary { op: UnaryOp::Neg, arg } => format!("-{}", show(flat, arg)),
        Node::Unary { op, arg } => format!("{op:?}({})", show(flat, arg)).to_lowercase(),
        Node::Binary { op, lhs, rhs } => {
            let symbol = match op {
                BinaryOp::Add => "+",
                BinaryOp::Sub => "-",
                BinaryOp::Mul => "*",
                BinaryOp::Div => "/",
                BinaryOp::Pow => "^",
                BinaryOp::Less => "<",
                BinaryOp::LessEqual => "<=",
                BinaryOp::Greater => ">",
                BinaryOp::GreaterEqual => ">=",
                BinaryOp::Equal => "==",
                BinaryOp::NotEqual => "<>",
                BinaryOp::And => "and",
                BinaryOp::Or => "or",
                _ => return format!("{op:?}({}, {})", show(flat, lhs), show(flat, rhs)).to_lowercase(),
            };
            format!("({} {symbol} {})", show(flat, lhs), show(flat, rhs))
        }
        Node::Select { condition, then, otherwise } => {
            format!("(if {} then {} else {})", show(flat, condition), show(flat, then), show(flat, otherwise))
        }
        Node::Smooth { order, arg } => format!("smooth({order}, {})", show(flat, arg)),
        Node::Sample { start, interval } => format!("sample({}, {})", show(flat, start), show(flat, interval)),
        Node::Initial => "initial()".into(),
        Node::Terminal => "terminal()".into(),
        Node::Call { function, output, args } => {
            let args: Vec<String> = flat.graph.args(args).to_vec().iter().map(|&arg| show(flat, arg)).collect();
            format!("{}#{output}({})", flat.graph.function(function).name, args.join(", "))
        }
        other => format!("{other:?}"),
    }
}

/// All equations, sorted.
pub fn equations(flat: &FlatDae) -> Vec<String> {
    let mut lines: Vec<String> =
        flat.equations.iter().map(|one| format!("{} = {}", show(flat, one.lhs), show(flat, one.rhs))).collect();
    lines.sort();
    lines
}

/// Equations of one origin, sorted.
pub fn equations_of(flat: &FlatDae, origin: Origin) -> Vec<String> {
    let mut lines: Vec<String> = flat
        .equations
        .iter()
        .filter(|one| one.origin == origin)
        .map(|one| format!("{} = {}", show(flat, one.lhs), show(flat, one.rhs)))
        .collect();
    lines.sort();
    lines
}

/// All when-clauses, in order: `when c: x := value; ..`
pub fn whens(flat: &FlatDae) -> Vec<String> {
    let mut lines = Vec::new();
    for branch in flat.when_clauses.iter().flat_map(|clause| &clause.branches) {
        let conditions: Vec<String> = branch.conditions.iter().map(|&one| show(flat, one)).collect();
        let actions: Vec<String> = branch
            .actions
            .iter()
            .map(|action| match action {
                WhenAction::Assign { variable, value, .. } => {
                    format!("{} := {}", flat.variables[variable.index()].name, show(flat, *value))
                }
                WhenAction::Reinit { variable, value, .. } => {
                    format!("reinit({}, {})", flat.variables[variable.index()].name, show(flat, *value))
                }
                WhenAction::Assert(assertion) => format!("assert({})", show(flat, assertion.condition)),
                WhenAction::Terminate { message, .. } => format!("terminate({message:?})"),
            })
            .collect();
        lines.push(format!("when {}: {}", conditions.join(", "), actions.join("; ")));
    }
    lines
}

/// A variable by name.
pub fn variable<'a>(flat: &'a FlatDae, name: &str) -> &'a Variable {
    let var = flat.find(name).unwrap_or_else(|| panic!("no variable `{name}`"));
    &flat.variables[var.index()]
}

/// The binding of a parameter, as text.
pub fn binding(flat: &FlatDae, name: &str) -> String {
    variable(flat, name).binding.map_or_else(|| "none".to_owned(), |expr| show(flat, expr))
}

/// The start value of a variable, as text.
pub fn start(flat: &FlatDae, name: &str) -> String {
    variable(flat, name).start.map_or_else(|| "none".to_owned(), |expr| show(flat, expr))
}

/// Checks that there are as many equations as unknowns, and how many.
pub fn assert_balanced(flat: &FlatDae, n: usize) {
    let size = flat.size();
    assert_eq!((size.equations, size.unknowns), (n, n), "\n{}", equations(flat).join("\n"));
}
