//! Flattens every model listed in a table and compares with what is expected.
//!
//! cargo run -p daesy-model --example corpus -- INDEX.tsv [PART_OF_NAME]
//!
//! The table's columns are file (relative to the table), class (may be empty), expectation, and optionally the numbers
//! of equations and unknowns. With a second argument only matching lines are run, and their flat models are printed.

use std::collections::BTreeMap;
use std::path::Path;

use daesy_graph::flat::{FlatDae, WhenAction};
use daesy_graph::{ExprId, Node};
use daesy_model::{FlattenOptions, Library, flatten_library};

fn show(flat: &FlatDae, expr: ExprId) -> String {
    match flat.graph.node(expr) {
        Node::Number(bits) => format!("{}", f64::from_bits(bits)),
        Node::Time => "time".into(),
        Node::Var { var, order: 0 } => flat.variables[var.index()].name.clone(),
        Node::Var { var, order } => format!("der{order}({})", flat.variables[var.index()].name),
        Node::Pre(var) => format!("pre({})", flat.variables[var.index()].name),
        Node::Unary { op, arg } => format!("{op:?}({})", show(flat, arg)),
        Node::Binary { op, lhs, rhs } => format!("({} {op:?} {})", show(flat, lhs), show(flat, rhs)),
        Node::Select { condition, then, otherwise } => {
            format!("(if {} then {} else {})", show(flat, condition), show(flat, then), show(flat, otherwise))
        }
        other => format!("{other:?}"),
    }
}

fn print(flat: &FlatDae) {
    println!("model {} {:?}", flat.model, flat.size());
    for variable in &flat.variables {
        let part = |name: &str, expr: Option<ExprId>| {
            expr.map_or_else(String::new, |expr| format!(" {name}={}", show(flat, expr)))
        };
        println!(
            "  {:?} {:?} {}{}{}{}{}{}",
            variable.kind,
            variable.value_type,
            variable.name,
            part("", variable.binding),
            part("start", variable.start),
            variable.fixed.map_or_else(String::new, |fixed| format!(" fixed={fixed}")),
            variable.text.as_ref().map_or_else(String::new, |text| format!(" text={text:?}")),
            variable.unit.as_ref().map_or_else(String::new, |unit| format!(" unit={}", unit.text)),
        );
    }
    for equation in &flat.equations {
        println!("  {} = {}   // {:?}", show(flat, equation.lhs), show(flat, equation.rhs), equation.origin);
    }
    for equation in &flat.initial_equations {
        println!("  initial {} = {}", show(flat, equation.lhs), show(flat, equation.rhs));
    }
    for clause in &flat.when_clauses {
        for branch in &clause.branches {
            let conditions: Vec<String> = branch.conditions.iter().map(|&one| show(flat, one)).collect();
            println!("  when {}", conditions.join(", "));
            for action in &branch.actions {
                match action {
                    WhenAction::Assign { variable, value, .. } => {
                        println!("    {} := {}", flat.variables[variable.index()].name, show(flat, *value));
                    }
                    WhenAction::Reinit { variable, value, .. } => {
                        println!("    reinit {} := {}", flat.variables[variable.index()].name, show(flat, *value));
                    }
                    other => println!("    {other:?}"),
                }
            }
        }
    }
    for assertion in &flat.assertions {
        println!("  assert {} {:?}", show(flat, assertion.condition), assertion.message);
    }
    for finding in &flat.findings {
        println!("  {}: {}", finding.level.word(), finding.message);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let index = args.next().expect("usage: corpus INDEX.tsv [PART]");
    let only = args.next();
    let folder = Path::new(&index).parent().unwrap_or(Path::new("."));
    let table = std::fs::read_to_string(&index).expect("the table can be read");
    let mut outcome: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        if columns.len() < 3 || only.as_ref().is_some_and(|only| !line.contains(only.as_str())) {
            continue;
        }
        let (file, class, expected) = (columns[0], columns[1], columns[2]);
        let counts: Vec<usize> = columns.iter().skip(3).take(2).filter_map(|one| one.parse().ok()).collect();
        let mut library = Library::new();
        library.add_path(&folder.join(file)).expect("the file is there");
        let result = std::panic::catch_unwind(|| {
            let class = (!class.is_empty()).then_some(class);
            flatten_library(&library, class, &FlattenOptions::default())
        });
        let (got, detail) = match &result {
            Err(_) => ("PANIC".to_owned(), String::new()),
            Ok(Err(error)) => {
                let text = error.to_string();
                let got = if text.contains("[unsupported]") { "unsupported" } else { "rejected" };
                (got.to_owned(), text)
            }
            Ok(Ok(flat)) => {
                let size = flat.size();
                let is_wrong = counts.len() == 2 && (size.equations != counts[0] || size.unknowns != counts[1]);
                let got = if is_wrong {
                    "WRONG COUNT"
                } else if size.equations == size.unknowns {
                    "ok"
                } else {
                    "ok-unbalanced"
                };
                (got.to_owned(), format!("{} equations, {} unknowns", size.equations, size.unknowns))
            }
        };
        if let (Some(_), Ok(Ok(flat))) = (&only, &result) {
            print(flat);
        }
        let should_pass = match expected {
            "flatten-ok" | "balanced" | "true" | "correct" | "runtime-false" => Some(true),
            "reject" | "parse-reject" | "false" | "incorrect" => Some(false),
            _ => None,
        };
        let is_good = match should_pass {
            Some(true) => got == "ok",
            Some(false) => got == "rejected" || got == "unsupported",
            None => got != "PANIC",
        };
        *outcome.entry((expected.to_owned(), got.clone())).or_default() += 1;
        if !is_good || only.is_some() || std::env::var_os("CORPUS_ALL").is_some() {
            let first = if only.is_some() { detail.as_str() } else { detail.lines().next().unwrap_or_default() };
            println!("{}\t{file}\t{class}\t{expected}\t{got}\t{first}", if is_good { "good" } else { "BAD" });
        }
    }
    for ((expected, got), n) in outcome {
        println!("{n:6}  expected {expected}, got {got}");
    }
}
