//! Mistakes: each is named by its code, at its place, once, and the text after it is still read.

use daesy_graph::{FileId, Finding, Level};
use daesy_model::parser;
use daesy_model::syntax::{ClassBody, Composition};

/// Findings of a text in which `‸` marks where the first one begins.
fn findings(marked: &str) -> (Vec<Finding>, Option<u32>) {
    let place = marked.find('‸').map(|at| at as u32);
    let parsed = parser::parse(FileId(0), &marked.replace('‸', ""));
    (parsed.findings, place)
}

#[track_caller]
fn expect(marked: &str, codes: &[&str]) -> Vec<Finding> {
    let (findings, place) = findings(marked);
    let found: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, codes, "{marked}\n{findings:#?}");
    if let Some(place) = place {
        assert_eq!(findings[0].span.start, place, "{marked}\n{findings:#?}");
    }
    findings
}

fn in_equations(equation: &str) -> String {
    format!("model M\n  Real x;\nequation\n  {equation}\n  y = 2;\nend M;\n")
}

fn in_algorithm(statement: &str) -> String {
    format!("model M\n  Real x;\nalgorithm\n  {statement}\n  y := 2;\nend M;\n")
}

#[test]
fn semicolons() {
    expect(&in_equations("x = ‸1"), &["missing-semicolon"]);
    expect(&in_equations("x = 1 ‸z = 3;"), &["unexpected-token"]);
    expect("model M\n  Real ‸x\n  Real y;\nend M;", &["missing-semicolon"]);
    expect("model M\n  Real x;\nend ‸M\nmodel N end N;", &["missing-semicolon"]);
    expect("model M Real ‸x end M;", &["missing-semicolon"]);
    let findings = expect(&in_algorithm("x := ‸1"), &["missing-semicolon"]);
    assert_eq!(findings[0].message, "expected `;` after the statement");
    assert!(findings[0].help.is_some());
}

#[test]
fn ends() {
    let findings = expect("model Bar\n  Real x;\n‸end Foo;\nmodel N end N;", &["end-mismatch"]);
    assert_eq!(findings[0].message, "`end Foo` closes `Bar`");
    assert_eq!(findings[0].labels.len(), 1);
    assert_eq!(findings[0].labels[0].span.start, 6);
    expect("package P\n  model M\n    Real x;\n‸end P;", &["unclosed-class"]);
    expect("model M Real x; ‸end;", &["end-mismatch"]);
    expect("model M Real x; ‸end model;", &["end-mismatch"]);
    expect("model M Real x; ", &["unclosed-class"]);
    expect("model M end M; ‸end M; model N end N;", &["stray-end"]);
    expect(&in_equations("‸end if;"), &["stray-end"]);
    expect(&in_equations("if a then x = 1; ‸end for;"), &["end-mismatch"]);
    expect(&in_equations("for i in 1:2 loop if a then x = 1; ‸end for;"), &["unclosed-block"]);
    let findings = expect(&in_equations("if a then x = 1; else if b then x = 2; end if;"), &["unclosed-block"]);
    assert!(findings[0].help.as_deref().is_some_and(|help| help.contains("elseif")), "{findings:?}");
    expect(&in_equations("when a then x = 1; ‸else x = 2; end when;"), &["unclosed-block"]);
}

#[test]
fn equals_and_assignment() {
    expect(&in_equations("x ‸:= 1;"), &["assignment-in-equation"]);
    expect(&in_equations("‸x == 1;"), &["comparison-as-equation"]);
    expect(&in_equations("x + 1‸;"), &["missing-equals"]);
    expect(&in_equations("x = 1 ‸= 2;"), &["second-equals"]);
    expect(&in_equations("if x ‸= 1 then y = 1; end if;"), &["equals-in-condition"]);
    expect(&in_algorithm("x ‸= 1;"), &["equality-in-algorithm"]);
    expect(&in_algorithm("x ‸== 1;"), &["equality-in-algorithm"]);
    expect(&in_algorithm("(a, b) ‸= f(x);"), &["equality-in-algorithm"]);
    expect(&in_algorithm("x‸;"), &["missing-assignment"]);
    expect(&in_algorithm("‸f(x) := 1;"), &["assignment-target"]);
    expect(&in_algorithm("(a, ‸b + 1) := f(x);"), &["assignment-target"]);
}

#[test]
fn missing_keywords() {
    expect(&in_equations("if a > 0 \n ‸x = 1; end if;"), &["missing-keyword"]);
    expect(&in_equations("if a > 0 ‸loop x = 1; end if;"), &["missing-keyword"]);
    expect(&in_equations("for i in 1:3\n ‸x[i] = 1; end for;"), &["missing-keyword"]);
    expect(&in_equations("x = if a ‸1 else 2;"), &["missing-keyword"]);
    expect(&in_equations("for i ‸= 1:3 loop x[i] = 1; end for;"), &["unexpected-token"]);
    expect(&in_equations("if a > ‸then x = 1; end if;"), &["unexpected-token"]);
    expect("model M\n  Real x;\n  ‸x = 1;\n  x = 2;\nend M;", &["missing-section"]);
    expect("model M\n  Real x;\n  ‸x := 1;\n  y := 2;\nend M;", &["missing-section"]);
    expect("model M\n  Real x;\n  ‸connect(a, b);\nend M;", &["missing-section"]);
    expect("model M\n  Real x;\n  ‸if a then x = 1; end if;\nend M;", &["missing-section"]);
}

#[test]
fn misplaced_things() {
    expect(&in_equations("‸parameter Real p = 1;"), &["misplaced-declaration"]);
    expect(&in_equations("‸Real z;"), &["misplaced-declaration"]);
    expect(&in_equations("if a then ‸parameter Real p = 1; x = 1; end if;"), &["misplaced-declaration"]);
    expect(&in_algorithm("‸Real z;"), &["misplaced-declaration"]);
    expect(&in_algorithm("‸connect(a, b);"), &["equation-in-algorithm"]);
    expect(&in_equations("‸while a loop x = 1; end while;"), &["statement-in-equations", "stray-end"]);
    expect(&in_equations("‸else x = 1;"), &["stray-branch"]);
    expect("‸Real x; model M end M;", &["unexpected-token"]);
    expect("model M end M; ‸within A;", &["misplaced-within"]);
    expect("model M ‸else Real x; end M;", &["unexpected-token"]);
}

#[test]
fn names_and_prefixes() {
    expect("model M Real ‸flow; Real x; end M;", &["keyword-as-name"]);
    expect("model ‸record Real x; end record;", &["keyword-as-name", "end-mismatch"]);
    expect("model M Real ‸1x; end M;", &["unexpected-token"]);
    expect("model M ‸größe x; end M;", &["foreign-letter"]);
    expect("model M ‸'a b\n x; end M;", &["unterminated-name"]);
    expect("model M flow ‸stream Real x; end M;", &["repeated-prefix"]);
    expect("model M parameter ‸final Real x; end M;", &["prefix-order"]);
    expect("model M A a(‸model B = C); end M;", &["missing-redeclare"]);
    expect("model M A a(x‸[1] = 2); end M;", &["indexed-modification"]);
    expect("model M = ‸flow Real;", &["short-class-prefix"]);
    expect("model M A a(redeclare ‸model B Real x; end B); end M;", &["long-class-in-modification"]);
    expect("model M A a ‸constrainedby B; end M;", &["constraint-without-replaceable"]);
    expect("model M Real‸; end M;", &["unexpected-token"]);
    expect("model M pure ‸model x; end M;", &["unexpected-token"]);
    expect("function f external; ‸external; end f;", &["second-external"]);
}

#[test]
fn what_does_not_end_is_shown_where_it_begins() {
    expect("model M Real x ‸\"text; end M;", &["unterminated-string"]);
    expect("model M Real x; ‸/* text; end M;", &["unterminated-comment"]);
    expect("model M\n  A a(x = 1, y = {2, 3);\n  Real z;\nend M;", &["unclosed-bracket"]);
    let findings = expect(&in_equations("x = (a + b‸;"), &["unclosed-bracket"]);
    assert_eq!(findings[0].labels.len(), 1);
    expect("model M Real x; ‸§ Real y; end M;", &["unknown-character"]);
    expect("model M Real x = 1 ‸# one\n; end M;", &["unknown-character", "unexpected-token"]);
}

#[test]
fn one_run_names_several_mistakes_and_reads_the_rest() {
    let text = "package P
  model A
    Real x(start = );
    Real y;
  equation
    x = a && b;
    y = x < y < 1;
    z = [1, 2; 3 4];
    y = 2
    x == y;
  end A;
  model B
    Real flow;
    Real z;
  algorithm
    x = 3;
    if z > 0
      z := 1;
    end if;
    z := z + 1;
  end C;
  model D
    Real z = 1;
  end D;
end P;
";
    let parsed = parser::parse(FileId(0), text);
    let codes: Vec<&str> = parsed.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(
        codes,
        [
            "unexpected-token",
            "foreign-operator",
            "chained-relation",
            "unclosed-bracket",
            "missing-semicolon",
            "comparison-as-equation",
            "keyword-as-name",
            "equality-in-algorithm",
            "missing-keyword",
            "end-mismatch",
        ],
        "{:#?}",
        parsed.findings
    );
    assert!(parsed.findings.iter().all(|finding| finding.level == Level::Error));
    let ClassBody::Long { composition, .. } = &parsed.definition.classes[0].body else { panic!("a package") };
    assert_eq!(composition.elements.len(), 3);
    let inner: Vec<(usize, usize)> = composition
        .elements
        .iter()
        .map(|element| {
            let daesy_model::syntax::ElementKind::Class { class, .. } = &element.kind else { panic!("a class") };
            let ClassBody::Long { composition: Composition { elements, equations, algorithms, .. }, .. } = &class.body
            else {
                panic!("a long class")
            };
            let n_equations = equations.iter().map(|section| section.equations.len()).sum::<usize>();
            let n_statements = algorithms.iter().map(|section| section.statements.len()).sum::<usize>();
            (elements.len(), n_equations + n_statements)
        })
        .collect();
    assert_eq!(inner, [(1, 4), (1, 3), (1, 0)]);
}

#[test]
fn a_flood_of_mistakes_is_cut_off() {
    let parsed = parser::parse(FileId(0), &"§".repeat(10_000));
    assert_eq!(parsed.findings.len(), 101);
    assert_eq!(parsed.findings[100].code, "too-many-findings");
    // Warnings do not hide a later error.
    let parsed =
        parser::parse(FileId(0), &format!("model M Real x[:] = {{{}0}}; Real flow; end M;", ".1, ".repeat(1_000)));
    assert_eq!(parsed.findings.len(), 101);
    assert_eq!(parsed.findings[100].code, "keyword-as-name");
}

#[test]
fn a_misspelt_keyword_after_the_last_finding_ends_the_text() {
    // Characters without a meaning are found before words are read; the word is then one finding too many.
    for n_before in [98, 99, 100, 101] {
        let text = format!("partia{}l model M \"a\"\n (info=\"b", "\\".repeat(n_before));
        let parsed = parser::parse(FileId(0), &text);
        assert!(parsed.findings.len() <= 101, "{n_before}");
    }
}
