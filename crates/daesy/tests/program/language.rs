//! Parts of the language through the program, against solutions worked out by hand.

use crate::session::Session;

/// The last value of a column of a simulated model.
fn last(model: &str, column: &str) -> f64 {
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.table().column(column).last().copied().unwrap()
}

/// The codes of the findings of a command that ends with the given status.
fn codes(model: &str, arguments: &[&str], status: i32) -> Vec<String> {
    let mut all = arguments.to_vec();
    all.push("--json");
    let run = Session::with_model(model).run(&all);
    assert_eq!(run.status, status, "{}{}", run.stdout, run.stderr);
    let document = run.json();
    let findings = document["findings"].as_array().unwrap().clone();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// The time that sin(20 t) is above 0.9 in [0, 1] is (pi - 2 asin(0.9)) / 20 for each of its three whole arcs above,
/// and what is left of the fourth, which begins at (6 pi + asin(0.9)) / 20.
#[test]
fn arguments_of_functions_make_events() {
    let (pi, rise) = (std::f64::consts::PI, 0.9f64.asin());
    let above = 3.0 * (pi - 2.0 * rise) / 20.0 + 1.0 - (6.0 * pi + rise) / 20.0;
    for (body, factor) in [("2*a", 2000.0), ("if a > 500 then 2*a else a", 2000.0)] {
        let model = format!(
            "model M function f input Real a; output Real y; algorithm y := {body}; end f;
             Real s, x(start=0, fixed=true); equation s = sin(20*time); der(x) = f(if s > 0.9 then 1000 else 0); end M;"
        );
        let found = last(&model, "x");
        assert!((found - factor * above).abs() < 1e-3, "{body}: {found} instead of {}", factor * above);
    }
    let discrete = "model M function f input Integer a; output Real y; algorithm y := 2*a; end f;
         discrete Real z; equation z = f(if time > 0.1 then 3 else 1); end M;";
    assert_eq!(last(discrete, "z"), 6.0);
}

#[test]
fn whole_numbers_of_time_change_at_events() {
    let run = Session::with_model("model M Integer i = integer(3*time); Integer j = div(integer(3*time), 2); end M;")
        .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for ((t, i), j) in table.column("t").into_iter().zip(table.column("i")).zip(table.column("j")) {
        if (3.0 * t - (3.0 * t).round()).abs() > 1e-9 {
            assert_eq!((i, j), ((3.0 * t).floor(), ((3.0 * t).floor() / 2.0).floor()), "t = {t}");
        }
    }
}

#[test]
fn a_discrete_variable_does_not_follow_what_varies() {
    for equation in ["x = sin(time)", "x = noEvent(if time > 0.5 then 1 else 0)", "sin(time) = x", "x = y"] {
        let model = format!("model M discrete Real x; Real y = time; equation {equation}; end M;");
        assert_ne!(Session::with_model(&model).run(&["simulate", "model.mo"]).status, 0, "{equation}");
    }
    let model = "model M discrete Real x; equation x = sin(time); end M;";
    assert_eq!(codes(model, &["simulate", "model.mo"], 1), ["variability"]);
}

#[test]
fn division_by_zero_ends_a_run() {
    let model = |equations: &str| {
        format!("model M parameter Integer d(fixed = true) = 0; Integer n, k(start = 2, fixed = true); Real x(start=0, fixed=true);
                 equation when time > 0.5 then k = 0; end when; {equations} end M;")
    };
    for equations in ["n = div(7, d); der(x) = 1;", "n = 1; der(x) = mod(time, d);", "n = div(7, k); der(x) = 1;"] {
        assert_eq!(codes(&model(equations), &["simulate", "model.mo"], 3), ["not-finite"], "{equations}");
    }
}

#[test]
fn an_integer_that_grows_too_large_ends_a_run() {
    let model = "model M Integer n(start = 1, fixed = true); equation when sample(0.01, 0.01) then n = 2*pre(n); end when; end M;";
    assert_eq!(codes(model, &["simulate", "model.mo"], 3), ["integer-range"]);
}

#[test]
fn values_from_outside_must_fit_their_types() {
    let model = "model M type E = enumeration(one, two); parameter Integer n = 2; parameter E e = E.one; parameter Boolean b = true;
         Real x = n; Real y[n] = fill(time, n); end M;";
    for set in ["n=2.5", "e=7", "e=0", "e=1.5", "b=2"] {
        assert_eq!(codes(model, &["simulate", "model.mo", "--set", set], 2), ["set"], "{set}");
    }
    for set in ["n=3", "e=2", "b=0"] {
        let run = Session::with_model(model).run(&["simulate", "model.mo", "--set", set]);
        assert_eq!(run.status, 0, "{set}: {}", run.stderr);
    }
}

#[test]
fn functions_that_do_not_end_end_a_run() {
    let forever = "model M function f input Real u; output Real y; algorithm y := 0; while u >= 0 loop y := y + 1; end while; end f;
         Real x = f(time); end M;";
    let recursion = "model M function f input Real n; output Real y; algorithm
           if n < 2 then y := n; else y := f(n - 1) + f(n - 2); end if; end f;
         Real x = f(60 + time); end M;";
    for model in [forever, recursion] {
        for verb in ["check", "simulate"] {
            let run = Session::with_model(model).run(&[verb, "model.mo", "--json"]);
            assert_ne!(run.status, 0, "{verb}: {}", run.stdout);
            let document = run.json();
            let findings = document["findings"].as_array().unwrap();
            let is_told = findings.iter().any(|finding| {
                finding["code"] == "limit" && finding["message"].as_str().unwrap().contains("`M.f` did not end")
            });
            assert!(is_told, "{verb}: {findings:?}");
        }
    }
}

/// y' = 6 cos(3 t) is negative from t = pi/6 to pi/2.
#[test]
fn the_derivative_of_an_algebraic_variable_triggers() {
    let model = "model M Real x(start=0, fixed=true), y; Integer n(start=0, fixed=true);
         equation der(x) = 1; y = 2*sin(3*x); when der(y) < 0 then n = pre(n) + 1; end when; end M;";
    assert_eq!(last(model, "n"), 1.0);
}

#[test]
fn an_enumeration_changes_once_in_an_algorithm() {
    let model = "model M type T = enumeration(off, on); T s(start=T.off, fixed=true);
         algorithm when s == T.off and time > 0.4 then s := T.on; end when; end M;";
    assert_eq!(last(model, "s"), 2.0);
}

/// r^2 = c by halving an interval: what a function given as an argument is bound to changes while the model runs.
#[test]
fn a_function_given_as_an_argument_keeps_what_it_is_bound_to() {
    let run = Session::with_model(
        "partial function Scalar input Real u; output Real y; end Scalar;
         function square extends Scalar; input Real c; algorithm y := u*u - c; end square;
         function root input Scalar f; input Real a; input Real b; output Real r;
           protected Real low = a; Real high = b;
           algorithm while high - low > 1e-13 loop r := (low + high)/2;
             if f(r) > 0 then high := r; else low := r; end if; end while; end root;
         model M Real c = 2 + time; Real r = root(function square(c = c), 0, 10);
         annotation(experiment(StopTime=7, Interval=1)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for (t, r) in table.column("t").iter().zip(table.column("r")) {
        assert!((r - (2.0 + t).sqrt()).abs() < 1e-11, "{r} at {t}");
    }
}

/// A flat text, and the flat text of that: both are the same but for the name of the class, which is inside a package
/// now, and so are the names of its types.
fn flat_twice(session: &Session, arguments: &[&str]) -> [String; 2] {
    let run = session.run(&[&["flatten"], arguments].concat());
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    let package = run.stdout.lines().nth(1).unwrap().trim_start_matches("package ").trim_matches('\'').to_owned();
    std::fs::write(session.path("flat.mo"), &run.stdout).unwrap();
    let again = session.run(&["flatten", "flat.mo"]);
    assert_eq!(again.status, 0, "{arguments:?}: {}", again.stderr);
    let bare = |text: &str| text.replace('\'', "");
    [bare(&run.stdout), bare(&again.stdout).replace(&format!("{package}."), "")]
}

#[test]
fn flat_models_are_read_again() {
    let problems = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let session = Session::new();
    let mut n_read = 0;
    for problem in std::fs::read_dir(problems).unwrap() {
        let model = problem.unwrap().path().join("model.mo");
        let Ok(text) = std::fs::read_to_string(&model) else { continue };
        // A package of several models needs a name to choose one.
        if text.lines().any(|line| line.starts_with("package")) {
            continue;
        }
        let [first, second] = flat_twice(&session, &[model.to_str().unwrap()]);
        assert_eq!(first, second, "{}", model.display());
        n_read += 1;
    }
    assert!(n_read > 20, "{n_read}");
}

/// Truth values, enumerations, functions with branches and loops, clocks and when-clauses as texts that say the same:
/// at 2.5 s the flat model is where the model is.
#[test]
fn flat_models_with_all_types_run_as_their_originals() {
    let model = "package P
         type Mode = enumeration(idle, busy, done);
         function steps input Real x; input Boolean up; output Real y; output Integer n;
         algorithm y := x; n := 0;
           while y > 1 loop y := y/2; n := n + 1; if n > 3 then break; end if; end while;
           if up and n > 1 then y := -y; return; end if; y := y + 1;
         end steps;
         model M
           Real x(start=0, fixed=true), y, z; Real n; Boolean high, low(start=true); Mode mode(start=Mode.idle); Integer k;
           parameter Mode first = Mode.busy; discrete Real held(start=0);
         equation
           der(x) = if mode == Mode.busy then 2 else 1;
           high = x > 1; mode = if x < 0.5 then Mode.idle elseif x < 2 then first else Mode.done;
           (y, n) = steps(3*x, high); k = if high and not low then 3 else 1; z = if low then x else -x;
           when sample(0.3, 0.4) then held = x; low = not pre(low); end when;
           assert(x < 100, \"too far\");
           annotation(experiment(StopTime=2.5, Interval=0.5));
         end M; end P;";
    let session = Session::with_model(model);
    flat_twice(&session, &["model.mo"]);
    let last_row = |file: &str| {
        let run = session.run(&["simulate", file]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        ["x", "y", "z", "n", "high", "low", "mode", "k", "held"].map(|name| table.column(name).last().copied().unwrap())
    };
    assert_eq!(last_row("model.mo"), last_row("flat.mo"));
}
