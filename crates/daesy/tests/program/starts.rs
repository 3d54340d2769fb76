//! Values before the start, variables that are put in where they occur, and models that cannot start.

use crate::session::Session;
use serde_json::Value;

/// The finding of a run that fails and leaves no file behind.
fn failure(model: &str, status: i32) -> Value {
    let session = Session::with_model(model);
    let run = session.run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, status, "{}", run.stderr);
    assert!(status == 3 || session.files() == ["model.mo"], "{:?}", session.files());
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

/// A velocity with a name is the derivative of a position: where nothing else asks for it, it is no state of its own,
/// and everything is told as before.
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

/// The first row of a simulation by name, and its JSON document.
fn started(model: &str) -> (impl Fn(&str) -> f64, Value) {
    let session = Session::with_model(model);
    let run = session.run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let table = session.run(&["simulate", "model.mo"]).table();
    (move |name: &str| table.column(name)[0], document)
}

/// Given starts that are consistent stay, whatever an auxiliary variable without a start is guessed to be.
#[test]
fn a_guess_moves_no_start_value_that_was_written() {
    let (value, document) = started(
        "model M Real x(start=1), y(start=2), z(start=3); Real g;
         equation g = 0.5 + 100*((x - y) + 1); der(x) - der(y) - x = -1 + 0*g; -der(y) + g - 0.5*time = 0.5; der(z) - der(x) = 0.1*g - z;
         end M;",
    );
    for (name, start) in [("x", 1.0), ("y", 2.0), ("z", 3.0)] {
        assert_eq!(value(name), start, "{name}");
    }
    assert_eq!(document["initial"]["changed"], serde_json::json!({}));
}

/// Two starts for one quantity: the first holds exactly, the other is told with both values; nothing is averaged.
#[test]
fn of_two_start_values_that_contradict_each_other_one_holds_and_the_other_is_told() {
    let (value, document) =
        started("model M Real x(start=1), y(start=3); Real a; equation der(x) = -x; der(y) = a; y = x^2 + 1; end M;");
    assert_eq!(value("x"), 1.0);
    assert!((value("y") - 2.0).abs() < 1e-12);
    let changed = &document["initial"]["changed"];
    assert_eq!(changed["y"][0], 3.0);
    assert!((changed["y"][1].as_f64().unwrap() - 2.0).abs() < 1e-12);
    assert!(changed.get("x").is_none());
    let finding = document["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "start-changed");
    assert_eq!(finding.unwrap()["names"][0], "y");
}

/// A start that was written for an unknown comes before the zero that nobody wrote.
#[test]
fn a_written_start_of_an_unknown_counts_more_than_a_default_zero() {
    let (value, document) = started("model M Real x; Real y(start=4); equation der(x) = -y; y = 2*x; end M;");
    assert!((value("x") - 2.0).abs() < 1e-12 && (value("y") - 4.0).abs() < 1e-12);
    assert_eq!(document["initial"]["changed"], serde_json::json!({}));
}

/// Parameters bound to one that the start determines follow it, through modifiers too.
#[test]
fn parameters_follow_the_one_that_the_start_determines() {
    let table = Session::with_model(
        "model M model B parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end B;
         parameter Real p(fixed = false); parameter Real q = 2*p; B b(k = p); Real y(start = q, fixed = true); Real w(start = q + 1);
         initial equation p = 3; equation der(y) = q; der(w) = 0; end M;",
    )
    .run(&["simulate", "model.mo"])
    .table();
    let last = table.rows.len() - 1;
    assert!((table.column("b.x")[last] - (-3f64).exp()).abs() < 1e-5);
    assert!((table.column("y")[last] - 12.0).abs() < 1e-9);
    assert!((table.column("w")[0] - 7.0).abs() < 1e-12);
}

/// Monte Carlo methods solve the start as a simulation does: here k is all but certain, so that both give the same.
#[test]
fn samples_start_where_a_simulation_does() {
    for (name, body, expected) in [
        (
            "bound",
            "parameter Real p(fixed=false, start=1); parameter Real q = p + 0; Real x(start=1, fixed=true);
             initial equation p = 2*k; equation der(x) = -q*x;",
            (-2f64).exp(),
        ),
        (
            "algorithm",
            "parameter Real p(fixed=false); Real x(start=0, fixed=true); initial algorithm p := 10; equation der(x) = k*p;",
            10.0,
        ),
        ("initial homotopy", "Real x; initial equation homotopy(x^2 - 4, x - 3) = 0; equation der(x) = 0*k;", 2.0),
        ("homotopy", "Real x(start=0, fixed=true); equation der(x) = homotopy(k*x + 1, 0);", 1f64.exp() - 1.0),
    ] {
        let session = Session::with_model(&format!("model M parameter Real k = 1; {body} end M;")).with(
            "u.toml",
            "[model]\nfile = \"model.mo\"\n[random]\nk = { uniform = { min = 1, max = 1.0000001 } }\n[simulate]\nstop = 1\nstep = 1\n\
             [uq]\nmethod = \"monte-carlo\"\nsamples = 8\n",
        );
        let run = session.run(&["uq", "u.toml", "-o", "o.csv"]);
        assert_eq!(run.status, 0, "{name}: {}", run.stderr);
        let text = std::fs::read_to_string(session.path("o.csv")).unwrap();
        let mut lines = text.lines();
        let column = lines.next().unwrap().split(',').position(|column| column == "x.mean").unwrap();
        let mean: f64 = lines.last().unwrap().split(',').nth(column).unwrap().parse().unwrap();
        assert!((mean - expected).abs() < 1e-5, "{name}: {mean} instead of {expected}");
    }
}

/// A study that fits k to the column `y`, and one that spreads it a little.
fn with_studies(model: &str, y: impl Fn(f64) -> f64) -> Session {
    let data: String = (0..=20).map(|at| f64::from(at) * 0.1).map(|t| format!("{t},{}\n", y(t))).collect();
    Session::with_model(model)
        .with("d.csv", &format!("t,y\n{data}"))
        .with(
            "s.toml",
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.7, min = 0.1, max = 3 }\n\
             [measurements]\ny = { column = \"y\", std = 0.1 }\n[data]\nfile = \"d.csv\"\n[estimate]\nsignals = [\"x\"]\n",
        )
        .with(
            "u.toml",
            "[model]\nfile = \"model.mo\"\n[random]\nk = { uniform = { min = 1, max = 1.001 } }\n\
             [simulate]\nstop = 1\nstep = 1\n[uq]\nmethod = \"collocation\"\n",
        )
}

/// What is told about a start does not depend on what is asked of the model.
#[test]
fn every_verb_tells_the_same_about_a_start() {
    let session = with_studies(
        "model M parameter Real k = 1; Real x(start = 1), y(start = 3), a;
         equation der(x) = -k*x; der(y) = a; y = x + 1; end M;",
        |t| (-t).exp() + 1.0,
    );
    let questions: [&[&str]; 8] = [
        &["check", "model.mo"],
        &["simulate", "model.mo"],
        &["simulate", "s.toml"],
        &["identify", "s.toml"],
        &["identify", "s.toml", "--method", "pem"],
        &["cost", "s.toml", "--grid", "k=1:2:2"],
        &["estimate", "s.toml"],
        &["uq", "u.toml"],
    ];
    for question in questions {
        let arguments: Vec<&str> = question.iter().copied().chain(["--json"]).collect();
        let document = session.run(&arguments).json();
        assert_eq!(
            document["initial"]["changed"],
            serde_json::json!({ "y": [3.0, 2.0] }),
            "{question:?}: {document:#}"
        );
        let told = document["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == "start-changed");
        assert_eq!(told.count(), 1, "{question:?}");
    }
}

/// The start y = 4 that was written holds before the zero of x that was not, on every road: y = 4 exp(-k t).
#[test]
fn fits_start_where_a_simulation_does() {
    let models = [
        "Real x, y(start = 4); equation der(x) = -k*x; y = 2*x;",
        "parameter Real p(fixed = false, start = 1); parameter Real q = 2*p; Real x(start = q, fixed = true), y;
         initial equation p^2 = 1; equation der(x) = -k*x; y = 2*x;",
        // The simplified equation leads to x = 2, not to x = -2.
        "Real x, y; initial equation homotopy(x^2 - 4, x - 3) = 0; equation der(x) = -k*x; y = 2*x;",
        "Real x(start = 2, fixed = true), y; equation der(x) = -k*homotopy(x, x^3); y = 2*x;",
        "Real x(start = 1, fixed = true), y, z(start = -3); equation der(x) = -k*x;
         z = if z > 0 then 2*x else -x; y = 4*x + 0*z;",
    ];
    for model in models {
        let session = with_studies(&format!("model M parameter Real k = 1; {model} end M;"), |t| 4.0 * (-t).exp());
        for method in ["ml", "pem", "output-error"] {
            let run = session.run(&["identify", "s.toml", "--method", method, "--json"]);
            assert_eq!(run.status, 0, "{model} {method}: {}", run.stderr);
            let k = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
            assert!((k - 1.0).abs() < 1e-4, "{model} {method}: {k}");
        }
    }
}

/// Parameters are told with the values that were used, those that the start determines and those bound to them
/// included.
#[test]
fn a_simulation_tells_its_parameters() {
    let (_, document) = started(
        "model M parameter Real p(fixed = false); parameter Real q = 2*p; parameter Integer n = 3; parameter Boolean b = n > 2;
         parameter String s = \"text\"; Real x(start = q, fixed = true);
         initial equation p = 3; equation der(x) = if b then -x else x; end M;",
    );
    let parameters = &document["parameters"];
    assert_eq!(parameters["q"].as_f64().unwrap(), 2.0 * parameters["p"].as_f64().unwrap());
    assert!((parameters["p"].as_f64().unwrap() - 3.0).abs() < 1e-12);
    assert_eq!(parameters["n"].as_f64(), Some(3.0));
    assert_eq!((&parameters["b"], &parameters["s"]), (&serde_json::json!(true), &serde_json::json!("text")));
}

/// The matrix of cos(x) = time is nearly singular at the start that was written: Newton's first step leads to x = 100.
#[test]
fn of_many_solutions_the_start_takes_the_near_one() {
    for equations in ["cos(x) = time; y = x; z = y;", "der(x) = y; der(y) = z; cos(x) = time;"] {
        let model = format!(
            "model M Real x(start = 0.01), y, z; equation {equations} annotation(experiment(StopTime = 0.5)); end M;"
        );
        let (value, _) = started(&model);
        assert!((value("x") - std::f64::consts::FRAC_PI_2).abs() < 1e-9, "{equations}: {}", value("x"));
    }
}

/// With E = [1 1; 1 1] structure leaves two start values free; the equations leave one, and z1 = u determines the
/// other.
#[test]
fn a_start_value_that_an_equation_determines_is_not_free() {
    for (f, g, free) in [("[[0, -1], [1, -1]]", "[[0], [-1]]", "z2"), ("[[-1, 0], [-1, 1]]", "[[0], [-1]]", "z1")] {
        let session = Session::new().with(
            "s.toml",
            &format!(
                "[linear]\nE = [[1, 1], [1, 1]]\nF = {f}\nG = {g}\n[inputs]\nu1 = {{ expression = \"1 + time\" }}\n"
            ),
        );
        let document = session.run(&["check", "s.toml", "--json"]).json();
        assert_eq!(document["initial"]["free"], serde_json::json!([free]));
    }
}

/// A value given to a parameter that initial equations determine has no effect: that is told, and where it is an input
/// of the study that needs the parameter, refused.
#[test]
fn a_value_for_a_parameter_that_the_start_determines_is_not_lost_in_silence() {
    let session = Session::with_model(
        "model M parameter Real p(fixed = false); parameter Real q = 2*p; Real x(start = q, fixed = true); input Real u;
         initial equation p = 3; equation der(x) = u - x; end M;",
    )
    .with(
        "n.mo",
        "model N parameter Real p(fixed = false); parameter Real q = 2*p; Real x(start = q, fixed = true); input Real u;
         initial equation p + p^3 = 30; equation der(x) = u - x; end N;",
    )
    .with("s.toml", "[model]\nfile = \"n.mo\"\n[inputs]\nu = { expression = \"q*time\" }\n");
    let document = session.run(&["simulate", "model.mo", "--set", "p=5", "--json"]).json();
    assert_eq!(document["initial"]["changed"]["p"], serde_json::json!([5.0, 3.0]));
    let finding = crate::session::finding(&document, "start-changed");
    assert_eq!((&finding["level"], &finding["names"][0]), (&serde_json::json!("warning"), &serde_json::json!("p")));
    let run = session.run(&["simulate", "s.toml", "--json"]);
    assert_eq!(run.status, 1);
    assert_eq!(run.json()["findings"][0]["code"], "input-parameter", "{}", run.stderr);
    let session = session.with(
        "u.toml",
        "[model]\nfile = \"model.mo\"\n[random]\np = { uniform = { min = 1, max = 2 } }\n[uq]\nmethod = \"collocation\"\n",
    );
    let run = session.run(&["uq", "u.toml", "--json"]);
    assert_eq!(run.status, 1);
    assert_eq!(run.json()["findings"][0]["code"], "computed-parameter", "{}", run.stderr);
}

/// y = 2 x + u starts where its `start` says in the first experiment only.
#[test]
fn a_start_value_that_changes_in_one_of_several_experiments_is_told() {
    let data = |u: f64| -> String {
        let rows = (0..=10).map(|at| f64::from(at) * 0.1).map(|t| format!("{t},{u},{}\n", 2.0 * (-t).exp() + u));
        std::iter::once("t,u,y\n".to_owned()).chain(rows).collect()
    };
    let session = Session::with_model(
        "model M parameter Real k = 1; input Real u; Real x(start = 1), y(start = 2), a;
         equation der(x) = -k*x; der(y) = a; y = 2*x + u; end M;",
    )
    .with("one.csv", &data(0.0))
    .with("two.csv", &data(1.0))
    .with(
        "s.toml",
        "[model]\nfile = \"model.mo\"\n[inputs]\nu = { column = \"u\", hold = \"foh\" }\n\
         [unknown]\nk = { start = 0.7, min = 0.1, max = 3 }\n[measurements]\ny = { column = \"y\", std = 0.1 }\n\
         [data]\nfiles = [\"one.csv\", \"two.csv\"]\n",
    );
    for verb in ["check", "identify"] {
        let document = session.run(&[verb, "s.toml", "--json"]).json();
        assert_eq!(document["initial"]["changed"], serde_json::json!({ "y": [2.0, 3.0] }), "{verb}: {document:#}");
    }
}

/// At t = 0 nothing tells a and b apart, at any other time they are determined: that is said about the start, not about
/// the model, and one of the two starts holds.
#[test]
fn equations_that_degenerate_at_the_start_only_are_no_fault_of_the_model() {
    let session = Session::with_model(
        "model M Real x(start = 1), y(start = 2), a, b;
         equation der(x) = a*time; der(y) = b*time; x = a + b; y = x^2; end M;",
    );
    for verb in ["check", "simulate"] {
        let run = session.run(&[verb, "model.mo", "--json"]);
        let document = run.json();
        assert_eq!(run.status, 0, "{verb}: {}", run.stderr);
        crate::session::finding(&document, "special-start");
        let codes = crate::session::codes(&document);
        assert!(!codes.contains(&"redundant-equations") && !codes.contains(&"free-variables"), "{verb}: {codes:?}");
        let changed = document["initial"]["changed"].as_object().unwrap();
        assert_eq!(changed.keys().collect::<Vec<_>>(), ["y"], "{verb}");
    }
}

/// A start that only the type has, 288.15 of every temperature, is no word of the user about a variable.
#[test]
fn starts_of_types_are_no_promises() {
    let model = |start: &str| {
        format!(
            "model M type Temperature = Real(start = 288.15); Temperature a{start}; Real x(start=1, fixed=true);
             equation der(x) = -x; a = 300 + x; end M;"
        )
    };
    let of_type = Session::with_model(&model("")).run(&["simulate", "model.mo", "--json"]).json();
    assert_eq!(of_type["initial"]["changed"], serde_json::json!({}));
    assert_eq!(of_type["findings"], serde_json::json!([]));
    let of_user = Session::with_model(&model("(start = 290)")).run(&["simulate", "model.mo", "--json"]).json();
    assert_eq!(of_user["initial"]["changed"], serde_json::json!({ "a": [290.0, 301.0] }));
    assert_eq!(of_user["findings"][0]["code"], "start-changed");
}

/// Where an equation has no value at a start that is fixed, there is no start; none a little beside it is taken.
#[test]
fn a_fixed_start_at_which_an_equation_has_no_value_is_refused() {
    for (start, y) in [
        ("Real x(start=0, fixed=true), y;", "log(x)"),
        ("Real x(start=0, fixed=true), y;", "sin(x)/x"),
        ("Real x(start=0, fixed=true), y;", "x*log(x)"),
        ("Real x, y; initial equation x = 0;", "log(x)"),
        ("Real x(start=1, fixed=true), y;", "sqrt(x - 1)*log(x - 1)"),
    ] {
        let model = format!("model M {start} equation der(x) = 1; y = {y}; end M;");
        assert_eq!(failure(&model, 3)["code"], "not-finite", "{model}");
    }
    // What has a value there starts, although its slope is infinite.
    let (value, _) = started("model M Real x(start=0, fixed=true), y; equation der(x) = 1; y = sqrt(x); end M;");
    assert_eq!([value("x"), value("y")], [0.0, 0.0]);
}

/// Of two solutions the one near the given values counts, for every verb: `phi`, which has no start value of its own,
/// begins where its definition says, whether that is put in or not.
#[test]
fn every_verb_begins_at_what_definitions_say() {
    for (start, phi) in [(-1.6, -1.0), (0.4, 1.0), (-0.8, -1.0)] {
        let session = Session::with_model(&format!(
            "model M parameter Real k = 2; Real x(start=1, fixed=true); Real theta(start={start}); Real phi;
             equation phi = theta + 0.7; cos(phi) = 0.54030230586813977; der(x) = -k*x*phi^2;
             annotation(experiment(StopTime=1, Interval=0.5)); end M;"
        ))
        .with(
            "study.toml",
            "[model]\nfile = \"model.mo\"\n[random]\nk = { uniform = { mean = 2, relative = 1e-6 } }\n\
             [uq]\nmethod = \"monte-carlo\"\nsamples = 2\n",
        );
        let simulated = session.run(&["simulate", "model.mo"]).table().column("phi")[0];
        assert!((simulated - phi).abs() < 1e-9, "{start}: {simulated}");
        let uncertain = session.run(&["uq", "study.toml", "-o", "out.csv"]);
        assert_eq!(uncertain.status, 0, "{}", uncertain.stderr);
        let table = crate::session::Table::parse_sparse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
        assert!((table.column("phi.mean")[0] - phi).abs() < 1e-9, "{start}");
        let checked = session.run(&["check", "model.mo", "--json"]).json();
        let theta = checked["initial"]["changed"]["theta"][1].as_f64().unwrap();
        assert!((theta + 0.7 - phi).abs() < 1e-9, "{start}: {theta}");
    }
}

/// A quotient of two zeros has no value, also where Newton's method only comes near to it: the zeros may be given, or
/// follow from constraints.
#[test]
fn a_start_next_to_which_an_equation_has_no_value_is_refused() {
    for model in [
        "model M Real x(start=0, fixed=true); Real s; Real y; equation s = 2*x; y = x/s; der(x) = y; end M;",
        "model M Real x(start=0, fixed=true); Real v(start=1); Real y(start=2); equation x = 3*v; y = v/abs(v);
           der(x) = 1 - y; end M;",
    ] {
        let run = Session::with_model(model).run(&["simulate", "model.mo", "--json"]);
        assert_ne!(run.status, 0, "{model}");
    }
}

/// y = 0 at the start, where dy/dx = 0: x stays at its given 0, and the search for w does not move it to the root of a
/// tolerance. w = 2^(1/3) from z = 2.
#[test]
fn a_start_that_satisfies_its_equations_where_they_are_singular_is_kept() {
    for factor in ["3*x^2*(1 + x)", "x^2", "exp(x) - 1 - x", "1e3*(1 - cos(x))"] {
        let model = format!(
            "model M Real x(start=0), y, z(start=1), w(start=1);
             equation der(x) = 0; der(w) = z - w^3; y = {factor}; z^3 + z = 10 + y;
             initial equation y = z - 2; der(w) = 0; end M;"
        );
        let (value, _) = started(&model);
        assert_eq!(value("x"), 0.0, "{factor}");
        assert!((value("w") - 2f64.cbrt()).abs() < 1e-12 && (value("z") - 2.0).abs() < 1e-12, "{factor}");
    }
}

/// A parameter that the start determines may have a guess that needs parameters declared after it: k = 3/2 from 3 = k 2.
#[test]
fn the_guess_of_a_parameter_may_need_others() {
    let (value, _) = started(
        "model M parameter Real k(fixed=false, start=a/sqrt(b)); parameter Real a = 3; parameter Real b = 4; Real x(start=1, fixed=true);
         initial equation a = k*sqrt(b); equation der(x) = -k*x; end M;",
    );
    assert_eq!(value("der(x)"), -1.5);
}

/// y = t x says y(0) = 0 whatever x is: a start of y takes no other start away, in any order of declaration.
#[test]
fn a_start_that_holds_anyway_takes_no_other_away() {
    let equations = "y = a*time*x; w = der(y) - a*x - a*time*der(x); der(x) = -x; v = der(w);";
    for declared in ["Real y(start = 0), x(start = -2), w, v;", "Real x(start = -2), y(start = 0), v, w;"] {
        for a in ["1", "2", "-0.5"] {
            let model = format!("model M parameter Real a = {a}; {declared} equation {equations} end M;");
            let run = Session::with_model(&model).run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            assert_eq!(run.json()["initial"]["changed"], serde_json::json!({}), "{model}");
            let table = Session::with_model(&model).run(&["simulate", "model.mo"]).table();
            let (x, y) = (table.column("x"), table.column("y"));
            let exact = -2.0 * (-1.0f64).exp();
            let a: f64 = a.parse().unwrap();
            assert!((x[x.len() - 1] - exact).abs() < 1e-5 && (y[y.len() - 1] - a * exact).abs() < 1e-5, "{model}");
        }
    }
    // On a circle the first of two written values holds, not the one that numbers at the beginning would choose.
    let circle = "model M Real x(start = 0.5), y(start = 0); equation x^2 + y^2 = 1; der(x) = -y; end M;";
    let table = Session::with_model(circle).run(&["simulate", "model.mo"]).table();
    assert_eq!(table.column("x")[0], 0.5);
}

/// With friction stuck, `a = 0` is written twice and the friction force tau is open. Over all modes s belongs to the
/// equation of a, so that s keeps its guess of 0 and the motor carries the load: 2 i = 3. A wish for i = 0, which comes
/// later in the order of solution, does not count; one for s does, and the motor carries what is left of the load.
#[test]
fn what_a_mode_leaves_open_is_the_variable_of_its_equation() {
    for (start, s) in [("", 0.0), ("(start=0.5)", 0.5)] {
        let model = format!(
            "model M Real w(start=0); Real i(start=0); Real x(start=0); Real a; Real s{start}; Real tau; Boolean stuck;
             equation stuck = time < 0.5; der(w) = a; 4*a = 2*i - 3 - tau; der(i) = x - i; der(x) = -w;
               tau = if stuck then s else 1; a = if stuck then 0 else s - 1;
             initial equation w = 0; a = 0; der(i) = 0; end M;"
        );
        let (value, _) = started(&model);
        for (name, expected) in [("tau", s), ("i", (3.0 + s) / 2.0), ("x", (3.0 + s) / 2.0), ("a", 0.0)] {
            assert!((value(name) - expected).abs() < 1e-12, "{name} = {}, not {expected}", value(name));
        }
    }
}

/// c' = -p/q with p = c and q = 2 c has no value at c = 0, where c would begin that nothing determines.
#[test]
fn a_free_start_that_an_equation_without_a_value_moves_is_told() {
    let told = |start: &str| {
        let model = format!(
            "model M Real c{start}, p, q; equation p = c; q = 2*c; der(c) = -p/q;
             annotation(experiment(StopTime=0.001)); end M;"
        );
        let document = Session::with_model(&model).run(&["simulate", "model.mo", "--json"]).json();
        let findings = document["findings"].as_array().unwrap();
        let moved = findings.iter().filter(|finding| finding["code"] == "start-changed");
        moved.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let said = told("");
    assert!(said.len() == 1 && said[0].contains("`c`") && said[0].contains("nothing determines"), "{said:?}");
    assert_eq!(told("(start = 1)"), Vec::<String>::new());
}

/// An explicit model whose start values are all fixed has them as its start, however fast it is beside others: x is
/// gone at once, and q[i] = exp(-i t/n).
#[test]
fn a_fast_state_beside_slow_ones_starts_where_it_is_fixed() {
    for (rate, n) in [("1e12", 50), ("1e15", 5)] {
        let session = Session::with_model(&format!(
            "model Fast
  Real x(start=1, fixed=true), q[{n}](each start=1, each fixed=true);
equation
  der(x) = -{rate}*x;
  for i in 1:{n} loop
    der(q[i]) = -i/{n}*q[i];
  end for;
end Fast;
"
        ));
        let table = session.run(&["simulate", "model.mo"]).table();
        let ends = |name: &str| {
            let column = table.column(name);
            (column[0], *column.last().unwrap())
        };
        assert_eq!(ends("x").0, 1.0);
        assert!(ends("x").1.abs() < 1e-6, "{}", ends("x").1);
        assert!((ends(&format!("q[{n}]")).1 - (-1.0f64).exp()).abs() < 1e-5);
        let document = session.check();
        assert_eq!(document["regularity"]["differentiation_index"], 0, "{document}");
        assert_eq!(document["structure"]["degrees_of_freedom"], n + 1, "{document}");
    }
}

/// Newton's method from 1 meets 3 and from -1 meets -3; two steps with the slope at 1 lead to 5 and then to -3.
#[test]
fn a_curved_equation_of_one_unknown_is_solved_on_the_side_of_its_start() {
    for (start, equation, root) in
        [(1.0, "r^2 = 9", 3.0), (-1.0, "r^2 = 9", -3.0), (1.0, "exp(r) + exp(-r) = 10", 5.0f64.acosh())]
    {
        let model = format!(
            "model M\n  parameter Real r(fixed = false, start = {start});\n  Real x(start = {start});\n  Real y = r;\n\
             initial equation\n  {equation};\n  x^2 = 100;\nequation\n  der(x) = 0;\nend M;\n"
        );
        let table = Session::with_model(&model).run(&["simulate", "model.mo"]).table();
        assert!((table.column("y")[0] - root).abs() < 1e-9, "{equation}: {}", table.column("y")[0]);
        assert!((table.column("x")[0] - start * 10.0).abs() < 1e-9, "{}", table.column("x")[0]);
    }
}

#[test]
fn a_point_beside_the_start_is_on_the_side_where_roots_have_values() {
    // At a = b = 0 both slopes of the product are zero: a point beside the start decides, and no direction suits all.
    let tanks: Vec<String> = (1..=6).map(|at| format!("c{at}")).collect();
    let rates: String = tanks.iter().map(|c| format!("der({c}) = 1 + sqrt({c}); ")).collect();
    let model = format!(
        "model M Real {}(start = 0); Real a(start = 0), b(start = 0); equation {rates} a*b = 4; a = b; \
         annotation(experiment(StopTime = 0.1)); end M;",
        tanks.join("(start = 0), ")
    );
    let run = Session::with_model(&model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    assert!((table.column("a")[0].abs() - 2.0).abs() < 1e-9, "{}", table.column("a")[0]);
    assert_eq!(table.column("c6")[0], 0.0);
}

#[test]
fn every_verb_takes_the_same_of_several_roots() {
    // The search leaves guesses at which slopes are zero; another algebraic variable moves the positions of variables.
    for (parameters, equation, rate) in [
        ("p(fixed = false)", "p^2 = 4", "-p*k*x"),
        ("p(fixed = false)", "p^2 = k + x", "-p*x"),
        ("p(fixed = false, start = 1)", "p^3 - 3*p = 1", "-p*k*x"),
        ("p(fixed = false, start = 2)", "(p - 2)^2 = 1", "-p*k*x"),
    ] {
        let model = format!(
            "model Roots parameter Real k = 1; parameter Real {parameters}; Real x(start = 1, fixed = true), y;
             initial equation {equation}; equation der(x) = {rate}; y = 2*x;
             annotation(experiment(StopTime = 1, Interval = 0.25)); end Roots;"
        );
        let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1, min = 0.5, max = 5 }\n[measurements]\n\
                     x = { column = \"x\", std = 0.01 }\n[data]\nfile = \"d.csv\"\n";
        let session = Session::with_model(&model);
        let run = session.run(&["simulate", "model.mo", "-o", "d.csv"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let session = session.with("study.toml", study);
        let cost = |method: &str| {
            let words = ["cost", "study.toml", "--grid", "k=1:1:1", "--json", "--method", method];
            session.run(&words).json()["values"][0].as_f64().unwrap()
        };
        assert!(cost("output-error") < 1e-8, "{equation}: {}", cost("output-error"));
        // Five values without an error, of standard deviation 0.01 each.
        let best = -2.5 * (std::f64::consts::TAU * 1e-4).ln();
        assert!((cost("ml") - best).abs() < 1e-3, "{equation}: {} for {best}", cost("ml"));
    }
}
