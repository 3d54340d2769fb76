//! No text makes the parser, or what walks over its tree, run out of stack.

use daesy_graph::FileId;
use daesy_model::parser::{self, Limits, Parsed};
use daesy_model::print;

const FILE: FileId = FileId(u32::MAX);

/// Runs on a thread with less stack than test threads (2 MB) and the main thread (8 MB) have.
fn on_small_stack<T: Send + 'static>(kilobytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new()
        .stack_size(kilobytes << 10)
        .spawn(work)
        .expect("a thread can be started")
        .join()
        .expect("the work does not panic")
}

/// Reads, prints, copies, compares and drops.
fn exercise(text: &str) -> Parsed {
    let parsed = parser::parse(FILE, text);
    let copy = parsed.definition.clone();
    assert!(copy == parsed.definition);
    drop(copy);
    let printed = print::print(&parsed.definition);
    assert!(parser::parse(FILE, &printed).findings.len() <= parsed.findings.len());
    parsed
}

fn codes(parsed: &Parsed) -> Vec<&'static str> {
    parsed.findings.iter().map(|finding| finding.code).collect()
}

fn model(equation: &str) -> String {
    format!("model M\n  Real x;\nequation\n  {equation};\nend M;\n")
}

/// Things that can be nested, as opening text, innermost text and closing text.
const NESTS: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("{", "1", "}"),
    ("[", "1", "]"),
    ("f(", "1", ")"),
    ("f(a = ", "1", ")"),
    ("x[", "1", "]"),
    ("(-", "1", ")"),
    ("if true then 1 else ", "1", ""),
    ("if ", "true", " then 1 else 2"),
    ("a or b and not c < d + e * f ^ (", "1", ")"),
    ("(a or b and not c < d + e * f ^ (", "1", "))[1]"),
    ("sum(i for i in ", "1", ")"),
    ("f(function g(a = ", "1", "))"),
];

#[test]
fn expressions_nested_up_to_the_limit_fit_in_a_small_stack() {
    for &(open, inner, close) in NESTS {
        let parsed = on_small_stack(1024, move || {
            let depth = Limits::default().nesting as usize / 3 - 5;
            exercise(&model(&format!("x = {}{inner}{}", open.repeat(depth), close.repeat(depth))))
        });
        assert!(parsed.findings.is_empty(), "{open}: {:?}", parsed.findings);
    }
}

#[test]
fn deeper_expressions_are_a_finding() {
    for &(open, inner, close) in NESTS {
        let parsed = on_small_stack(1024, move || {
            exercise(&model(&format!("x = {}{inner}{}", open.repeat(50_000), close.repeat(50_000))))
        });
        assert_eq!(codes(&parsed), ["nesting-limit"], "{open}");
        // Without their ends too.
        let parsed = on_small_stack(1024, move || exercise(&model(&format!("x = {}", open.repeat(50_000)))));
        assert!(codes(&parsed).contains(&"nesting-limit"), "{open}");
    }
}

#[test]
fn deeper_classes_modifications_and_blocks_are_a_finding() {
    let nests = [
        ("model M ", "", " end M;"),
        ("model M = A(redeclare ", "Real x", ")"),
        ("package P function f = g(redeclare ", "Real x", "); end P;"),
    ];
    for (open, inner, close) in nests {
        let parsed =
            on_small_stack(1024, move || exercise(&format!("{}{inner}{};", open.repeat(20_000), close.repeat(20_000))));
        assert_eq!(codes(&parsed), ["nesting-limit"], "{open}");
    }
    let blocks = [
        ("if true then for i in 1:2 loop when x then ", "end when; end for; end if;"),
        ("if true then ", "end if;"),
        ("for i loop ", "end for;"),
        ("when x then ", "end when;"),
    ];
    for (open, close) in blocks {
        let parsed = on_small_stack(1024, move || exercise(&model(&(open.repeat(20_000) + &close.repeat(20_000)))));
        assert_eq!(codes(&parsed), ["nesting-limit"], "{open}");
    }
    let text = format!("model M A a{}{}; end M;", "(b".repeat(20_000), ")".repeat(20_000));
    assert_eq!(codes(&on_small_stack(1024, move || exercise(&text))), ["nesting-limit"]);
}

#[test]
fn long_chains_of_operators_are_read_up_to_the_limit() {
    for op in [" + ", " - x * ", " and ", " .* "] {
        let n_terms = Limits::default().height as usize - 5;
        let parsed =
            on_small_stack(2048, move || exercise(&model(&format!("x = 1{}", format!("{op}x").repeat(n_terms)))));
        assert!(parsed.findings.is_empty(), "{op}: {:?}", parsed.findings);
        let parsed =
            on_small_stack(2048, move || exercise(&model(&format!("x = 1{}", format!("{op}x").repeat(100_000)))));
        assert_eq!(codes(&parsed), ["expression-limit"], "{op}");
    }
    // Chains within chains are as high as both together.
    let parsed = on_small_stack(2048, || {
        let chain = " + x".repeat(Limits::default().height as usize / 4);
        exercise(&model(&format!("x = {}1{}", "(".repeat(90), format!("{chain})").repeat(90))))
    });
    assert_eq!(codes(&parsed), ["expression-limit"]);
}

#[test]
fn wide_texts_need_no_stack() {
    let parsed = on_small_stack(512, || {
        let array = "1, ".repeat(50_000);
        let equations = "x = 1;\n".repeat(50_000);
        let branches = "elseif x then x = 2; ".repeat(20_000);
        exercise(&model(&format!("x = {{{array}1}}[1];\n{equations} if x then x = 1; {branches} end if")))
    });
    assert_eq!(codes(&parsed), ["index-of-value"]);
    let parsed = on_small_stack(512, || {
        exercise(&model(&format!("x = if a then 1 {} else 3", "elseif b then 2 ".repeat(50_000))))
    });
    assert!(parsed.findings.is_empty());
}
