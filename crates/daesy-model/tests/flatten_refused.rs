//! Wrong models are refused, with the place and the kind of mistake.

mod support;

use support::*;

#[test]
fn unknown_names_are_suggested() {
    let error = refused("model M\n  parameter Real resistance = 1;\n  Real x = resistence;\nend M;", "M");
    let finding = &error.findings[0];
    assert_eq!(finding.code, "unknown-name");
    assert_eq!(finding.help.as_deref(), Some("did you mean `resistance`?"));
    assert_eq!(error.sources.place(finding.span).map(|place| (place.line, place.column)), Some((3, 12)));
    refused_at("model M\n  Reel x;\nend M;", "M", "unknown-class", 2);
    refused_at("model M\n  Real x = sinn(time);\nend M;", "M", "unknown-function", 2);
    refused_at("model A Real x = 1; end A;\nmodel M\n  A a;\n  Real y = a.z;\nend M;", "M", "unknown-name", 4);
}

#[test]
fn several_mistakes_are_found_in_one_run() {
    let error = refused("model M\n  Real x = a;\n  Real y = b;\n  Real z = true;\nend M;", "M");
    let lines: Vec<u32> =
        error.findings.iter().filter_map(|one| error.sources.place(one.span)).map(|place| place.line).collect();
    assert_eq!(lines, [2, 3, 4], "{error}");
}

#[test]
fn modifiers_are_applied_or_reported() {
    let class =
        "model A\n  parameter Real k = 1;\n  final parameter Real f = 2;\nprotected\n  parameter Real p = 3;\nend A;\n";
    refused_at(&format!("{class}model M\n  A a(q = 2);\nend M;"), "M", "unknown-modifier", 8);
    refused_at(&format!("{class}model M\n  A a(f = 2);\nend M;"), "M", "final-override", 8);
    refused_at(&format!("{class}model M\n  A a(p = 2);\nend M;"), "M", "protected-access", 8);
    refused_at(&format!("{class}model M\n  A a(k(strat = 2));\nend M;"), "M", "unknown-modifier", 8);
    refused_at(&format!("{class}model M\n  A a[2](k = 2);\nend M;"), "M", "missing-each", 8);
    refused_at(
        &format!("{class}model M\n  A a[2](k = {{1, 2, 3}});\n  A b[3](k = {{1, 2}});\nend M;"),
        "M",
        "missing-each",
        9,
    );
    refused_at(&format!("{class}model M\n  A a(each k = 2);\nend M;"), "M", "misplaced-each", 8);
    refused_at(&format!("{class}model M\n  extends A(x = 2);\nend M;"), "M", "unknown-modifier", 8);
}

#[test]
fn types_must_fit() {
    refused_at("model M\n  Real x = true;\nend M;", "M", "wrong-type", 2);
    refused_at("model M\n  Integer n = 1.5;\nend M;", "M", "wrong-type", 2);
    refused_at("model M\n  Real x;\nequation\n  x = \"text\";\nend M;", "M", "wrong-type", 4);
    refused_at("model M\n  Real x = if time then 1 else 2;\nend M;", "M", "wrong-type", 2);
    refused_at("model M\n  Real x[3] = {1, 2};\nend M;", "M", "wrong-size", 2);
    refused_at("model M\n  Real x[2], y[3];\nequation\n  x = y;\nend M;", "M", "wrong-size", 4);
    refused_at("model M\n  Real x[2] = {1, 2};\n  Real y = x[3];\nend M;", "M", "out-of-bounds", 3);
    refused_at("model M\n  Real x[2] = {1, 2} + {1, 2, 3};\nend M;", "M", "wrong-size", 2);
}

#[test]
fn variability_is_respected() {
    refused_at("model M\n  Real x = time;\n  parameter Real p = x;\nend M;", "M", "variability", 3);
    refused_at("model M\n  parameter Real p = 1;\n  constant Real c = p;\nend M;", "M", "variability", 3);
    refused_at("model M\n  Integer n = 3;\n  Real x[n];\nend M;", "M", "not-structural", 3);
    refused_at("model M\n  parameter Real p = 1;\nequation\n  p = 2;\nend M;", "M", "parameter-equation", 4);
    refused_at(
        "model M\n  Real x;\nalgorithm\n  x := 1;\n  c := 2;\nprotected\n  constant Real c = 1;\nend M;",
        "M",
        "not-assignable",
        5,
    );
    refused_at("model M\n  Real x = time, y;\nequation\n  y = pre(x);\nend M;", "M", "variability", 4);
}

#[test]
fn cycles_are_named() {
    let error =
        refused("model M\n  parameter Real a = b;\n  parameter Real b = c;\n  parameter Real c = a;\nend M;", "M");
    assert_eq!(error.findings[0].code, "cyclic-parameters");
    assert!(error.findings[0].message.contains("a -> b -> c -> a") || error.findings[0].names.len() == 4, "{error}");
    refused_at(
        "model M\n  parameter Integer n = m;\n  parameter Integer m = n;\n  Real x[n];\nend M;",
        "M",
        "cyclic-parameters",
        2,
    );
    refused_at("model A\n  extends B;\nend A;\nmodel B\n  extends A;\nend B;", "A", "cyclic-inheritance", 5);
    refused_at("model A\n  A a;\nend A;", "A", "recursive-model", 2);
}

#[test]
fn redeclarations_must_be_allowed_and_fit() {
    let classes = "model A Real x = 1; end A;\nmodel B Real x = 2; Real y = 3; end B;\nmodel C Real z = 1; end C;\n";
    refused_at(
        &format!("{classes}model P\n  A a;\nend P;\nmodel M\n  P p(redeclare B a);\nend M;"),
        "M",
        "not-replaceable",
        8,
    );
    refused_at(
        &format!("{classes}model P\n  replaceable A a;\nend P;\nmodel M\n  P p(redeclare C a);\nend M;"),
        "M",
        "not-a-subtype",
        8,
    );
    refused_at(
        &format!(
            "{classes}model P\n  replaceable model Q = A;\n  Q q;\nend P;\nmodel M\n  extends P(redeclare model Q = C);\nend M;"
        ),
        "M",
        "not-a-subtype",
        9,
    );
    refused_at(&format!("{classes}partial model P\n  A a;\nend P;\nmodel M\n  P p;\nend M;"), "M", "partial-class", 8);
}

#[test]
fn connections_must_fit() {
    let classes =
        "connector P Real v; flow Real i; end P;\nconnector Q Real v; end Q;\nmodel A P p; Q q; Real x; end A;\n";
    let model = |connect: &str| format!("{classes}model M\n  A a, b;\nequation\n  {connect};\nend M;");
    refused_at(&model("connect(a.p, b.q)"), "M", "incompatible-connectors", 7);
    refused_at(&model("connect(a.x, b.x)"), "M", "not-a-connector", 7);
    refused_at(&model("connect(a.p, b.r)"), "M", "unknown-name", 7);
    let signals = "connector O = output Real;\nmodel S O y = 1; end S;\nmodel M\n  S a, b;\nequation\n  connect(a.y, b.y);\nend M;";
    refused_at(signals, "M", "two-sources", 6);
}

#[test]
fn class_kinds_have_their_limits() {
    refused_at("package P\n  Real x = 1;\n  model M Real y = P.x; end M;\nend P;", "P.M", "not-constant", 3);
    refused_at("record R\n  Real x;\nequation\n  x = 1;\nend R;\nmodel M R r; end M;", "M", "misplaced-equation", 4);
    refused_at("model M\n  Real x = 1;\n  Real x = 2;\nend M;", "M", "duplicate-name", 3);
    refused_at(
        "function f input Real x; output Real y; algorithm y := x; end f;\nmodel M\n  f g;\nend M;",
        "M",
        "not-a-type",
        3,
    );
    refused_at("model M\n  flow Real f;\nend M;", "M", "misplaced-flow", 2);
    refused_at("model M Real x = 1; end M;\nmodel N\n  outer Real y;\nend N;", "N", "missing-inner", 3);
    refused_at("model M\n  Real x if true;\n  Real y = x;\nend M;", "M", "conditional-component", 3);
    refused_at("partial model M\n  Real x = 1;\nend M;", "M", "partial-class", 1);
}

#[test]
fn functions_are_checked() {
    let function =
        "function f\n  input Real x;\n  input Integer n = 2;\n  output Real y;\nalgorithm\n  y := x ^ n;\nend f;\n";
    let model = |call: &str| format!("{function}model M\n  Real z = {call};\nend M;");
    assert_balanced(&flat(&model("f(time, n = 3)"), "M"), 1);
    refused_at(&model("f()"), "M", "wrong-arguments", 9);
    refused_at(&model("f(1, 2, 3)"), "M", "wrong-arguments", 9);
    refused_at(&model("f(1, m = 2)"), "M", "wrong-arguments", 9);
    refused_at(&model("f(1, 2.5)"), "M", "wrong-type", 9);
    refused_at(&model("f(true)"), "M", "wrong-type", 9);
    let unset = "function g\n  input Real x;\n  output Real y;\nalgorithm\nend g;\nmodel M Real z = g(1); end M;";
    refused_at(unset, "M", "unset-variable", 3);
}

#[test]
fn what_is_not_supported_is_named() {
    for (expression, feature) in [("timeInState()", "state machines"), ("ext(time)", "external functions")] {
        let text = format!(
            "function ext input Real x; output Real y; external \"C\"; end ext;\nmodel M\n  Real x = {expression};\nend M;"
        );
        let error = refused(&text, "M");
        let finding = &error.findings[0];
        assert_eq!((finding.code, finding.names[0].as_str()), ("unsupported", feature), "{error}");
    }
}

#[test]
fn limits_are_named() {
    let endless = "function f input Integer n; output Real y; algorithm y := f(n + 1); end f;\nmodel M\n  constant Real x = f(1);\nend M;";
    let error = refused(endless, "M");
    assert!(error.findings.iter().any(|one| one.code == "limit" && one.message.contains("recursion")), "{error}");
    let error = refused("model M\n  Real x[100000, 100000];\nend M;", "M");
    assert!(error.findings.iter().any(|one| one.code == "limit" && one.message.contains("scalar")), "{error}");
    let nested =
        "function f input Real x; output f y; algorithm y := x; end f;\nmodel M\n  constant Real x = f(1.0);\nend M;";
    let error = refused(nested, "M");
    assert!(error.findings.iter().any(|one| one.code == "limit" && one.message.contains("records")), "{error}");
}

#[test]
fn when_clauses_are_checked() {
    refused_at(
        "model M\n  Real x(start = 1);\nequation\n  reinit(x, 1);\n  der(x) = 1;\nend M;",
        "M",
        "misplaced-reinit",
        4,
    );
    refused_at(
        "model M\n  discrete Real a, b;\nequation\n  when time > 1 then\n    a = 1;\n  elsewhen time > 2 then\n    b = 2;\n  end when;\nend M;",
        "M",
        "when-branches",
        4,
    );
    refused_at(
        "model M\n  Integer n;\nequation\n  when time > 1 then\n    n = 1;\n  end when;\n  when time > 2 then\n    n = 2;\n  end when;\nend M;",
        "M",
        "assigned-twice",
        8,
    );
}

#[test]
fn division_by_zero_is_told() {
    for expression in ["div(7, 0)", "mod(time, 0.0)", "rem(7, 3 - 3)", "sum(mod({1, 2}, {1, 0}))"] {
        refused_at(&format!("model M\n  Real x = {expression};\nend M;"), "M", "evaluation", 2);
    }
    refused_at("model M\n  parameter Integer n = 0;\n  Real x[div(7, n)];\nend M;", "M", "evaluation", 3);
}

#[test]
fn integers_that_do_not_fit_are_refused() {
    for (declaration, line) in [
        ("  constant Integer n = 9223372036854775807 + 1;", 2),
        ("  constant Integer n = product(fill(100000, 4));", 2),
        ("  parameter Integer n = integer(1e300);", 2),
        ("  parameter Integer n = -9223372036854775807 - 2;", 2),
        ("  constant Integer a[1, 1] = [10000000000] * [10000000000];", 2),
        ("  parameter Integer a = 4000000000;\n  parameter Integer b = a*a;", 3),
        ("  parameter Integer a = 9223372036854775807;\n  Integer b = a + 1;", 3),
        ("  Real y[3] = {i for i in 9007199254740993:9007199254740995};", 2),
        // Where a Real is computed of them, too.
        ("  parameter Integer n = 4000000000;\n  parameter Real q = n*n;", 3),
        ("  parameter Integer n = 4000000000;\n  Real y = time + n*n*1.0;", 3),
        ("  parameter Integer n = 4000000000;\n  Real y = time + sqrt(n*n);", 3),
        ("  parameter Integer n = 4000000000;\n  Real y = time + (n*n - n*n + 1);", 3),
    ] {
        refused_at(&format!("model M\n{declaration}\n  Real x = time;\nend M;"), "M", "integer-range", line);
    }
}

#[test]
fn integers_that_just_fit_are_the_nearest_reals() {
    // 3037000499^2 = 9223372030926249001 < 2^63, the next square is larger.
    flat("model M parameter Integer n = 3037000499; Real y = time + n*n; end M;", "M");
    refused_at("model M\n parameter Integer n = 3037000500;\n Real y = time + n*n;\nend M;", "M", "integer-range", 3);
}

#[test]
fn equations_of_reals_do_not_determine_integers() {
    let f = "function f output Real y; output Real z; algorithm y := 2.5; z := 1; end f;\n";
    for model in [
        "Integer i; equation i = 7 / 2;",
        "Integer i; equation i + 1 = 2.5;",
        "Integer i; equation i / 2 = 1;",
        "Integer v[2]; equation v = {1.5, 2};",
        "record R Integer k; end R; R r; equation r.k = 2.5;",
        "Integer i; equation i = f();",
        "Integer i; Real z; equation (i, z) = f();",
        "parameter Real p = 2.5; Integer i; equation i = p;",
        "parameter Integer i(fixed = false); Real y = i; initial equation i = 7 / 2;",
        "Integer i(start = 0); equation when time > 1 then i = pre(i) + 1; end when; initial equation pre(i) = 0.5;",
    ] {
        refused_at(&format!("{f}model M {model} end M;"), "M", "wrong-type", 2);
    }
}

#[test]
fn enumerations_are_made_from_numbers_of_their_literals() {
    let types = "type E = enumeration(a, b);\n";
    refused_at(&format!("{types}model M E e = E(3); end M;"), "M", "out-of-range", 2);
    refused_at(&format!("{types}model M E e = E(0); end M;"), "M", "out-of-range", 2);
    let flat = flat(&format!("{types}model M E e = E(1 + integer(2 * time)); E d = E(2); end M;"), "M");
    let messages: Vec<&str> = flat.assertions.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(messages, ["the number of a literal of `E` is outside 1..2"]);
}

#[test]
fn break_stands_in_loops() {
    for model in [
        "Real x; algorithm x := 1; break; x := 2;",
        "Real x; algorithm x := 1; if time > 0.5 then break; end if; x := 2;",
        "Real x; algorithm x := 1; if false then break; end if;",
        "discrete Real x(start = 0); algorithm when time > 0.5 then x := 1; break; x := 2; end when;",
        "discrete Real x(start = 0); algorithm for i in 1:2 loop when time > i then break; end when; end for; x := 1;",
    ] {
        refused_at(&format!("model M {model} end M;"), "M", "misplaced-break", 1);
    }
    let body = "y := u; if u > 0.5 then break; end if; y := 2 * u;";
    let function = format!("function f input Real u; output Real y; algorithm {body} end f;\n");
    refused_at(&format!("{function}model M Real x = f(time); end M;"), "M", "misplaced-break", 1);
    flat(
        "model M Real x; algorithm x := 0; for i in 1:3 loop if i > 2 then break; end if; x := i; end for; end M;",
        "M",
    );
}

#[test]
fn redeclarations_have_the_kind_type_and_sizes_of_their_constraint() {
    for (constraint, new) in [
        ("partial model I Real y[2]; end I;", "model B Real y[3] = {1, 2, 3}; end B;"),
        ("partial model I Real y[2]; end I;", "model B Real y = 1; end B;"),
        ("partial model I Real y; end I;", "model B Integer y = 2; end B;"),
        ("model I Real y = 1; end I;", "record B Real y = 2; end B;"),
    ] {
        let model = format!("model M {constraint} {new} model S replaceable I a; end S;\nS s(redeclare B a); end M;");
        refused_at(&model, "M", "not-a-subtype", 2);
    }
    flat(
        "model M partial model I Real y[2]; end I; block B parameter Integer n = 2; Real y[n] = fill(time, n); end B;
         model S replaceable I a; end S; S s(redeclare B a); end M;",
        "M",
    );
}

#[test]
fn packages_and_functions_hold_what_they_may() {
    refused_at("package P\n Real x = 1; model M Real y = 1; end M; end P;", "P.M", "package-variable", 2);
    let body = "y := if sample(0, 1) then x else 0;";
    let function = format!("function f input Real x; output Real y; algorithm\n{body} end f;");
    refused_at(&format!("{function} model M Real y = f(time); end M;"), "M", "event-in-function", 2);
    let error = refused("model M parameter Real k = 2; encapsulated model E Real y = k; end E; E e; end M;", "M");
    let help = error.findings[0].help.as_deref().unwrap_or_default();
    assert!(help.starts_with("`M.E` is encapsulated"), "{help}");
}

#[test]
fn equality_of_reals_that_vary_is_told() {
    let codes = |text: &str| -> Vec<&str> { flat(text, "M").findings.iter().map(|finding| finding.code).collect() };
    assert_eq!(codes("model M Boolean b = time == 0.5; end M;"), ["real-equality"]);
    assert_eq!(codes("model M Real x = time; Real y = if x <> 1 then 1 else 0; end M;"), ["real-equality"]);
    let free = "function f input Real x; output Real y; algorithm y := if x == 1 then 1 else 0; end f;
         model M parameter Real p = 1; Real y = if p == 1 then f(time) else 2; Integer i = integer(time);
           Boolean b = i == 1; end M;";
    assert_eq!(codes(free), Vec::<&str>::new());
}
