//! Texts that ask for more than there is: each is refused with a finding that names the limit, soon and in little
//! memory.

mod support;

use daesy_model::{FlattenError, FlattenOptions, Library, flatten};
use support::{assert_balanced, flat};

/// The findings of a text that is refused with little work and memory allowed: the limits themselves are the same, only
/// nearer.
fn refused(text: &str, class: &str) -> FlattenError {
    let mut library = Library::new();
    library.add_text("test.mo", text);
    let mut options = FlattenOptions::default();
    options.max_work = 300_000;
    options.max_memory = 30_000_000;
    match flatten(&library, class, &options) {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

/// Checks that a text is refused because of a limit, and which.
fn refused_by_limit(text: &str, class: &str, what: &str) {
    let error = refused(text, class);
    let found = error.findings.iter().any(|one| one.code == "limit" && one.message.contains(what));
    assert!(found, "no limit for {what}:\n{error}");
}

/// `model Mk` made of two parts `Mk-1`, up to `n`.
fn doubled(n: usize, first: &str, part: impl Fn(&str) -> String) -> String {
    let mut text = format!("package P\n  model M0 {first} end M0;\n");
    for at in 1..=n {
        text.push_str(&format!("  model M{at} {} end M{at};\n", part(&format!("M{}", at - 1))));
    }
    text + "end P;"
}

#[test]
fn texts_that_double_end_at_a_limit() {
    let mut text = "model M\n  constant String p0 = \"aaaaaaaaaa\";\n".to_owned();
    for at in 1..=40 {
        text.push_str(&format!("  constant String p{at} = p{0} + p{0};\n", at - 1));
    }
    refused_by_limit(&(text + "equation\n  assert(time >= 0, p40);\nend M;"), "M", "a text");
}

#[test]
fn components_that_double_end_at_a_limit() {
    let components = doubled(40, "Real x = 1;", |part| format!("{part} a, b;"));
    refused_by_limit(&components, "P.M40", "scalar variables");
    // 2^20 of them are no more than there may be, but too many for the memory.
    refused_by_limit(&components, "P.M20", "memory");
    let recursive = "model A parameter Integer n = 40; A a(n = n - 1) if n > 0; A b(n = n - 1) if n > 0; end A;";
    refused_by_limit(recursive, "A", "memory");
}

#[test]
fn a_base_class_by_many_ways_is_one() {
    let text =
        doubled(40, "parameter Real k = 1; Real x; equation x = k;", |part| format!("extends {part}; extends {part};"));
    assert_balanced(&flat(&text, "P.M40"), 1);
    let functions = doubled(30, "", |_| String::new()).replace("end P;", "")
        + "function F0 input Real x; output Real y; algorithm y := x; end F0;\n"
        + &(1..=30)
            .map(|at| format!("function F{at} extends F{0}; extends F{0}; end F{at};\n", at - 1))
            .collect::<String>()
        + "model M Real x = F30(time); end M; end P;";
    assert_balanced(&flat(&functions, "P.M"), 1);
}

#[test]
fn arrays_are_refused_before_they_are_made() {
    for value in [
        "linspace(0, 1, 1000000000)",
        "zeros(1000000000)",
        "fill(1.0, 1000000000)",
        "1:1000000000",
        "{i for i in 1:1000000000}",
        "(identity(100000))[1, :]",
        "(diagonal(zeros(100000)))[1, :]",
        "(outerProduct(zeros(100000), zeros(100000)))[1, :]",
        "([zeros(100000)] * transpose([zeros(100000)]))[1, :]",
        "(zeros(10000000000, 10000000000))[1, :]",
    ] {
        let error = refused(&format!("model M\n  constant Real p[:] = {value};\n  Real x = p[1];\nend M;"), "M");
        assert_eq!(error.findings[0].code, "limit", "{value}: {error}");
    }
}

#[test]
fn loops_end_at_the_limit_of_work() {
    let empty =
        "model M Real x; equation for i in 1:100000 loop for j in 1:100000 loop for k in 1:0 loop end for; end for;
         end for; x = 1; end M;";
    refused_by_limit(empty, "M", "work");
    let forever = "function f input Integer n; output Integer y; algorithm y := 0; while true loop y := y + 1 - 1; end while; end f;
         model M constant Integer n = f(3); Real x = n; end M;";
    refused_by_limit(forever, "M", "work");
    let recursion = "function f input Integer n; output Integer y; algorithm if n < 2 then y := n; else y := f(n - 1) + f(n - 2); end if;
         end f; model M constant Integer n = f(60); Real x = n; end M;";
    refused_by_limit(recursion, "M", "work");
}

#[test]
fn values_used_often_stay_small() {
    let mut text = "function f input Real x; output Real y; algorithm y := x;\n".to_owned();
    for _ in 0..64 {
        text.push_str("y := y * y + y;\n");
    }
    assert_balanced(&flat(&(text + "end f; model M Real p = f(time); end M;"), "M"), 1);
}

/// Ten thousand equations of components take more work than is allowed without them, and each allows a little more; a
/// loop beside them that does not end allows nothing.
#[test]
fn scalars_allow_the_work_that_they_take() {
    let model = |more: &str| {
        format!(
            "package P
  model A Real x(start = 0), u, y; parameter Real T = 1; equation T*der(x) = u - x; y = x; end A;
  model M A a[3334]; equation a[1].u = 1; for i in 2:3334 loop a[i].u = a[i - 1].y; end for; {more} end M;
end P;"
        )
    };
    let options = || {
        let mut options = FlattenOptions::default();
        options.max_work = 300_000;
        options
    };
    let flattened = |text: &str| {
        let mut library = Library::new();
        library.add_text("test.mo", text);
        flatten(&library, "P.M", &options())
    };
    assert_balanced(&flattened(&model("")).unwrap(), 3 * 3334);
    let error = flattened(&model("for i in 1:100000 loop for j in 1:100000 loop end for; end for;")).unwrap_err();
    assert!(error.findings.iter().any(|one| one.code == "limit" && one.message.contains("work")), "{error}");
}

#[test]
fn classes_that_double_their_components_are_refused_before_they_are_made() {
    let chain = |n: usize| doubled(n, "Real x = 1;", |part| format!("{part} a, b;"));
    let within = |depth: usize| {
        format!(
            "model A parameter Integer n = {depth}; A a(n = n - 1) if n > 0; A b(n = n - 1) if n > 0; Real x = 1; end A;"
        )
    };
    assert_balanced(&flat(&chain(9), "P.M9"), 1 << 9);
    assert_balanced(&flat(&within(8), "A"), (1 << 9) - 1);
    let mut library = Library::new();
    library.add_text("test.mo", &within(40));
    let error = flatten(&library, "A", &FlattenOptions::default()).unwrap_err();
    assert!(error.findings[0].message.contains("inside components of the same class"), "{error}");
}
