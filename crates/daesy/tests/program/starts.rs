//! Values before the start, variables that are put in where they occur, and models that cannot start.

use crate::session::Session;
use serde_json::Value;

/// The finding of a run that fails and leaves no file behind.
fn failure(model: &str, status: i32) -> Value {
    let session = Session::with_model(model);
    let run = session.run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, status, "{}", run.stderr);
    assert_eq!(session.files(), ["model.mo"]);
    run.json()["findings"][0].clone()
}

/// `pre(d)` may follow from states, unknowns and relations of the start; d goes on from there.
#[test]
fn the_value_before_the_start_follows_from_the_start() {
    let table = Session::with_model(
        "model M Real x(start=2, fixed=true); Real y; discrete Real d; Boolean b; Integer n;
         initial equation pre(d) = 3*y + time; pre(b) = x > 1; pre(n) = if x > 1 then 5 else 7;
         equation y = x^2; der(x) = -x; b = pre(b) and x > 0.5;
           when x < 1 then d = pre(d) + 1; n = pre(n) + 1; end when;
         annotation(experiment(StopTime=2, Interval=2)); end M;",
    )
    .run(&["simulate", "model.mo"])
    .table();
    let (first, last) = (0, table.rows.len() - 1);
    for (name, start, end) in [("d", 12.0, 13.0), ("n", 5.0, 6.0), ("b", 1.0, 0.0)] {
        let column = table.column(name);
        assert_eq!([column[first], column[last]], [start, end], "{name}");
    }
}

/// y = x + pre(d)/2 and pre(d) = y determine each other: y = 2 x.
#[test]
fn a_value_before_the_start_that_depends_on_itself_is_iterated() {
    let table = Session::with_model(
        "model M Real x(start=2, fixed=true); Real y; discrete Real d; initial equation pre(d) = y;
         equation y = x + 0.5*d; der(x) = -x; when time > 0.5 then d = 0; end when;
         annotation(experiment(StopTime=1, Interval=1)); end M;",
    )
    .run(&["simulate", "model.mo"])
    .table();
    assert!((table.column("d")[0] - 4.0).abs() < 1e-10, "{}", table.column("d")[0]);
    assert!((table.column("y")[0] - 4.0).abs() < 1e-10);
}

#[test]
fn two_values_before_the_start_are_refused() {
    let finding = failure(
        "model M Real x(start=2, fixed=true); discrete Real d;\ninitial equation\n  pre(d) = 1;\n  pre(d) = x;\n\
         equation der(x) = -x; when x < 1 then d = 2; end when; end M;",
        1,
    );
    assert_eq!(finding["code"], "initial-equations");
    assert_eq!((finding["line"].as_u64(), finding["names"][0].as_str()), (Some(4), Some("d")));
}

/// The time, the equation with its place, and the variable or parameter that makes it so.
#[test]
fn an_equation_without_a_value_names_the_variable() {
    let models = [
        ("der(x) = 1/x + y; y = x + 1;", "x", "1/x"),
        ("der(x) = y; y = (x + 1)/p;", "p", "/p"),
        ("der(x) = -y; y = sqrt(x - 2);", "x", "sqrt"),
        // What no other equation needs is put in where it is shown.
        ("der(x) = -1; y = 1/x;", "x", "1/x"),
    ];
    for (equations, name, part) in models {
        let finding = failure(
            &format!("model M parameter Real p = 0; Real x(start=0, fixed=true); Real y;\nequation {equations} end M;"),
            3,
        );
        assert_eq!(finding["code"], "not-finite", "{finding}");
        assert_eq!(finding["line"], 2, "{finding}");
        assert_eq!(finding["names"][0], name, "{finding}");
        let message = finding["message"].as_str().unwrap();
        assert!(message.contains(part) && message.contains("t = 0"), "{message}");
    }
}

/// x' = x^2 from 1 has no solution beyond t = 1.
#[test]
fn a_solution_that_ends_says_when_and_in_what() {
    let finding = failure(
        "model M Real x(start=1, fixed=true); Real y; equation der(x) = y; y = x^2; annotation(experiment(StopTime=2)); end M;",
        3,
    );
    assert_eq!(finding["code"], "step-too-small", "{finding}");
    assert_eq!(finding["names"][0], "x", "{finding}");
    assert!(finding["message"].as_str().unwrap().contains("at t = 1;"), "{finding}");
}

/// A velocity with a name is the derivative of a position: where nothing else asks for it, it is no state of its own, and everything is
/// told as before.
#[test]
fn defined_variables_are_reported_like_all_others() {
    let session = Session::with_model(
        "model M Real x(start=1, fixed=true); Real v(start=0, fixed=true); Real a; Real energy; Real w;
         equation der(x) = v; der(v) = a; a = -4*x; energy = v^2/2 + 2*x^2; w = v;
         annotation(experiment(StopTime=1, Interval=0.25, Tolerance=1e-9)); end M;",
    );
    let table = session.run(&["simulate", "model.mo"]).table();
    assert_eq!(table.names, ["t", "x", "v", "a", "energy", "w", "der(x)", "der(v)"]);
    for (at, t) in table.column("t").into_iter().enumerate() {
        let (x, v) = ((2.0 * t).cos(), -2.0 * (2.0 * t).sin());
        for (name, expected) in
            [("x", x), ("v", v), ("a", -4.0 * x), ("energy", 2.0), ("w", v), ("der(x)", v), ("der(v)", -4.0 * x)]
        {
            let found = table.column(name)[at];
            assert!((found - expected).abs() < 1e-7, "{name} at {t}: {found} instead of {expected}");
        }
    }
    let document = session.run(&["simulate", "model.mo", "--json"]).json();
    let fixed: Vec<&String> = document["initial"]["fixed"].as_object().unwrap().keys().collect();
    assert_eq!(fixed, ["x", "v"]);
}
