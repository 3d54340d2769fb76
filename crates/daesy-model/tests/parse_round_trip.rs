//! Tokens give the file back byte for byte, and a printed tree reads as the same tree.

use std::path::{Path, PathBuf};

use daesy_graph::{FileId, Level};
use daesy_model::syntax::{BinaryOp, Expr, ExprKind, UnaryOp};
use daesy_model::{lexer, parser, print};

/// Spans in this file print as `nowhere`: trees can be compared by what they say.
const NOWHERE: FileId = FileId(u32::MAX);

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), files);
        }
    } else if path.extension().is_some_and(|extension| extension == "mo") {
        files.push(path.to_owned());
    }
}

#[track_caller]
fn check(name: &str, text: &str) {
    let mut at = 0;
    for token in lexer::tokens(text) {
        assert_eq!(token.start as usize, at, "{name}: tokens follow each other");
        assert!(token.end > token.start, "{name}: no token is empty");
        assert!(text.is_char_boundary(token.end as usize), "{name}");
        at = token.end as usize;
    }
    assert_eq!(at, text.len(), "{name}: the last token ends with the file");

    let parsed = parser::parse(NOWHERE, text);
    assert!(parsed.findings.iter().all(|finding| finding.level < Level::Error), "{name}: {:#?}", parsed.findings);
    let printed = print::print(&parsed.definition);
    let again = parser::parse(NOWHERE, &printed);
    assert!(again.findings.is_empty(), "{name}: {:#?}\n{printed}", again.findings);
    assert_eq!(format!("{:?}", again.definition), format!("{:?}", parsed.definition), "{name}\n{printed}");
    assert_eq!(print::print(&again.definition), printed, "{name}: printing again changes nothing");
}

#[test]
fn files_at_hand_survive_printing() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    collect(&root.join("library"), &mut files);
    collect(&root.join("problems"), &mut files);
    if let Some(cases) = std::env::var_os("DAESY_CASES") {
        collect(Path::new(&cases), &mut files);
    }
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a Modelica file can be read");
        check(&file.display().to_string(), &text);
    }
}

#[test]
fn a_file_with_every_construct_survives_printing() {
    check("constructs", include_str!("syntax/constructs.mo"));
}

#[test]
fn comments_are_found_in_the_tokens() {
    let text = include_str!("syntax/constructs.mo");
    let comments: Vec<&str> =
        lexer::tokens(text).filter(|token| token.kind.is_comment()).map(|token| token.text(text)).collect();
    assert_eq!(comments, ["// Every construct of the grammar, once.", "/* A block\n   comment. */", "// at the end"]);
}

/// Expressions made at random, without parentheses of their own.
fn random_expression(random: &mut impl FnMut(u32) -> u32, depth: u32) -> Expr {
    const OPERATORS: [BinaryOp; 18] = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Pow,
        BinaryOp::ElementAdd,
        BinaryOp::ElementSub,
        BinaryOp::ElementMul,
        BinaryOp::ElementDiv,
        BinaryOp::ElementPow,
        BinaryOp::Less,
        BinaryOp::LessEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterEqual,
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::And,
        BinaryOp::Or,
    ];
    const UNARY: [UnaryOp; 5] =
        [UnaryOp::Minus, UnaryOp::Plus, UnaryOp::ElementMinus, UnaryOp::ElementPlus, UnaryOp::Not];
    let mut child = || Box::new(random_expression(random, depth + 1));
    let kind = if depth > 5 {
        ExprKind::Integer(i64::from(random(9)))
    } else {
        let (first, second) = (child(), child());
        match random(12) {
            0 => ExprKind::Range { start: first, step: None, stop: second },
            1 => ExprKind::If {
                branches: vec![daesy_model::syntax::ExprBranch { condition: *first, value: *second }],
                otherwise: Box::new(random_expression(random, depth + 1)),
            },
            2 | 3 => ExprKind::Unary(UNARY[random(5) as usize], first),
            4 => ExprKind::Array(vec![*first, *second]),
            5 => ExprKind::Real(f64::from(random(1000)) / 7.0),
            _ => ExprKind::Binary(OPERATORS[random(18) as usize], first, second),
        }
    };
    Expr { kind, span: daesy_graph::Span::NONE }
}

/// The tree without parentheses, as text.
fn bare(expr: &Expr) -> String {
    fn strip(expr: &Expr) -> Expr {
        let strip_box = |inner: &Expr| Box::new(strip(inner));
        let kind = match &expr.kind {
            ExprKind::Parenthesized(inner) => return strip(inner),
            ExprKind::Binary(op, left, right) => ExprKind::Binary(*op, strip_box(left), strip_box(right)),
            ExprKind::Unary(op, operand) => ExprKind::Unary(*op, strip_box(operand)),
            ExprKind::Range { start, stop, .. } => {
                ExprKind::Range { start: strip_box(start), step: None, stop: strip_box(stop) }
            }
            ExprKind::If { branches, otherwise } => ExprKind::If {
                branches: branches
                    .iter()
                    .map(|branch| daesy_model::syntax::ExprBranch {
                        condition: strip(&branch.condition),
                        value: strip(&branch.value),
                    })
                    .collect(),
                otherwise: strip_box(otherwise),
            },
            ExprKind::Array(items) => ExprKind::Array(items.iter().map(strip).collect()),
            other => other.clone(),
        };
        Expr { kind, span: daesy_graph::Span::NONE }
    }
    format!("{:?}", strip(expr))
}

#[test]
fn made_trees_get_the_parentheses_they_need() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |bound: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(bound)) as u32
    };
    for _ in 0..2_000 {
        let made = random_expression(&mut random, 3);
        let text = print::print_expression(&made);
        let read = parser::parse_expression(NOWHERE, &text, 0);
        assert!(read.findings.is_empty(), "{text}: {:?}", read.findings);
        assert_eq!(bare(&read.expr), bare(&made), "{text}");
    }
}
