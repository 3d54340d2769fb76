//! Parts of the language through the program, against solutions worked out by hand.

use crate::session::{Session, Table};

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
fn quotients_below_zero_change_at_events() {
    // Alone, and beside others that change at the same times.
    let model = "model M Real d = div(-5*time, 2); Real r = rem(-5*time, 2); Real e = div(time, -0.3);
           Real q = div(3*cos(4*time), 1); Real y(start = 0, fixed = true), z(start = 0, fixed = true);
         equation der(y) = mod(-5*time, 2); der(z) = r; end M;";
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for (row, &t) in table.column("t").iter().enumerate() {
        for (name, quotient) in [("d", -2.5 * t), ("e", t / -0.3), ("q", 3.0 * (4.0 * t).cos())] {
            if (quotient - quotient.round()).abs() > 1e-6 {
                assert_eq!(table.column(name)[row], quotient.trunc() + 0.0, "{name} at {t}");
            }
        }
    }
    // The integrals of both remainders, piece by piece: -5 t + 2 k with k = ceil(2.5 t) and k = floor(2.5 t).
    let last = |name: &str| *table.column(name).last().unwrap();
    let sum = |up: f64| (-2.5 + 2.0 * (0.0 * 0.4 + 1.0 * 0.4 + 2.0 * 0.2)) + up * 2.0;
    assert!((last("z") - sum(0.0)).abs() < 1e-6 && (last("y") - sum(1.0)).abs() < 1e-6, "{} {}", last("z"), last("y"));
}

#[test]
fn when_statements_of_a_section_act_one_after_the_other() {
    let model = "model M
           Integer k(start = 0, fixed = true), n(start = 0, fixed = true), p(start = 0, fixed = true),
             q(start = 0, fixed = true), s(start = 0, fixed = true), u(start = 0, fixed = true),
             v(start = 0, fixed = true), a[3](each start = 0, each fixed = true);
           Boolean b(start = false, fixed = true), c(start = false, fixed = true);
           Real x(start = 0, fixed = true), y;
         equation der(x) = 1;
         algorithm
           when time > 0.5 then k := k + 1; end when;
           when time > 0.5 then k := k*2 + 3; end when;
           y := 10*k;
         algorithm
           when sample(0, 0.1) then n := n + 1; end when;
           when sample(0, 0.3) then n := n + 100; end when;
         algorithm
           when x > 0.3 then p := p + 1; b := true; end when;
           when b then p := 2*p; end when;
         algorithm
           when time > 0.3 then c := true; q := 5; end when;
           when c then if q > 3 then q := q + 1; else q := 100; end if; end when;
         algorithm
           for i in 1:3 loop
             when time > 0.2*i then s := s*10 + i; a[i] := s; end when;
             when time > 0.2*i then s := s + 1; end when;
           end for;
         algorithm
           when time > 0.5 then u := 7; end when;
           when time > 0.5 then v := 1; elsewhen time > 0.7 then u := u + 1; end when;
           when time > 0.7 then u := 2*u; end when;
         end M;";
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    // By hand, statement after statement: s = ((0*10 + 1) + 1)*10 + 2 + 1 = 23, and so on.
    for (name, value) in [
        ("k", 5.0),
        ("y", 50.0),
        ("n", 411.0),
        ("p", 2.0),
        ("q", 6.0),
        ("s", 234.0),
        ("a[1]", 1.0),
        ("a[2]", 22.0),
        ("a[3]", 233.0),
        ("u", 16.0),
        ("v", 1.0),
    ] {
        assert_eq!(table.column(name).last(), Some(&value), "{name}");
    }
    assert!(!table.names.iter().any(|name| name.contains('@')), "{:?}", table.names);
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
fn integers_have_64_bits() {
    // The same by integers of 128 bits.
    let (n, a, m) = (9_007_199_254_740_993_i128, 3_000_000_000_i128, 2_147_483_648_i128);
    let expected = [
        ("n - 9007199254740992", n - 9_007_199_254_740_992),
        ("b - 9000000000000000000", a * a + 1 - 9_000_000_000_000_000_000),
        // 1 - 1 + a
        ("mod(b, 1000) + rem(-b, 1000) + div(b, 3000000000)", a),
        ("mod(n*1000 + 7, a)", (n * 1000 + 7) % a),
        ("max(n, n + 1) - min(n, n + 1)", 1),
        ("abs(-n) - n + 1", 1),
        ("sum({n, -n, 5})", 5),
        ("{n, n}*{3, -3}", 0),
        ("(if time > -1 then n else 0) - (n - 2)", 2),
        ("if n == 9007199254740992 then 1 else 0", 0),
        ("if String(n) == \"9007199254740993\" then 1 else 0", 1),
        ("f(n)", n % 97),
        ("k", m - 1),
        ("mod(1103515245*k + 12345, 2147483648)", (1_103_515_245 * (m - 1) + 12_345) % m),
        ("mod(k*k + 1, 1000003)", ((m - 1) * (m - 1) + 1) % 1_000_003),
        ("k*k + 1 - k*k", 1),
        ("big + 2 - 3", (1 << 53) - 2),
        ("mod(big + 2, 4)", ((1 << 53) + 1) % 4),
        ("g(k, 3)", (m - 1) * (m - 1) * 3 % 1_000_003),
    ];
    let variables: Vec<String> =
        expected.iter().enumerate().map(|(at, (text, _))| format!("Real x{at} = {text};")).collect();
    let model = format!(
        "model M
           function f input Integer n; output Integer y; protected Integer i;
           algorithm i := n; while i > 1000000 loop i := i - 97*div(i, 100); end while; y := mod(i, 97); end f;
           function g input Integer k; input Integer n; output Integer y; protected Integer i;
           algorithm y := 1; i := 0; while i < n loop i := i + 1; y := mod(if i == n then y*n else y*k, 1000003); end while;
           end g;
           parameter Integer n = 9007199254740993; parameter Integer a = 3000000000; parameter Integer b = a*a + 1;
           parameter Integer big = 9007199254740991;
           Integer k(start = 2147483647, fixed = true);
           {}
         equation when time > 2 then k = 0; end when; end M;",
        variables.join("\n")
    );
    let session = Session::with_model(&model);
    let run = session.run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let values = &run.json()["parameters"];
    assert_eq!(
        (values["n"].as_i64(), values["b"].as_i64()),
        (Some(9_007_199_254_740_993), Some(9_000_000_000_000_000_001))
    );
    let read = |name: &str| Table::parse(&std::fs::read_to_string(session.path(name)).unwrap());
    let table = read("out.csv");
    for (at, (text, value)) in expected.iter().enumerate() {
        assert_eq!(table.column(&format!("x{at}")).last(), Some(&(*value as f64)), "{text}");
    }
    // The flat model, read again, gives the same table.
    let flat = session.run(&["flatten", "model.mo"]);
    assert_eq!(flat.status, 0, "{}", flat.stderr);
    std::fs::write(session.path("flat.mo"), &flat.stdout).unwrap();
    let again = session.run(&["simulate", "flat.mo", "-o", "again.csv"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    let again = read("again.csv");
    for (at, (text, _)) in expected.iter().enumerate() {
        let name = format!("x{at}");
        assert_eq!(table.column(&name), again.column(&name), "{text}");
    }
}

#[test]
fn an_integer_that_does_not_fit_is_told_while_the_model_runs() {
    let grows = "Integer k(start = 1, fixed = true); equation when sample(0.1, 0.1) then k = 1000*pre(k); end when;";
    let large = "Integer k = if time > 0.5 then 3000000000 else 1; equation";
    for (model, code, status) in [
        // Held by a variable, in a Real, in a comparison, and in a loop of a function.
        (format!("{grows} y = 1;"), "integer-range", 3),
        (format!("{large} y = k*k*k - k*k*k + 1;"), "not-finite", 3),
        (format!("{large} y = k*k*k*1.0;"), "not-finite", 3),
        (format!("{large} y = time*(if time > 0.2 then k*k*k else 1);"), "not-finite", 3),
        (format!("{large} y = if k*k*k > k*k then 1 else 2;"), "assertion", 1),
        ("Integer k = if time > 0.5 then 40 else 1; equation y = f(k);".to_owned(), "not-finite", 3),
    ] {
        let model = format!(
            "model M function f input Integer n; output Integer y; algorithm y := 1;
               for i in 1:n loop y := 3*y + 1; end for; end f; Real y; {model} end M;"
        );
        let found = codes(&model, &["simulate", "model.mo"], status);
        assert!(found.contains(&code.to_owned()), "{found:?} for {model}");
    }
}

#[test]
fn integers_that_determine_each_other_are_refused_with_the_reason() {
    let model = |equations: &str| format!("model M\n Integer a, b;\nequation\n {equations}\nend M;");
    let told = |equations: &str| Session::with_model(&model(equations)).run(&["simulate", "model.mo"]).stderr;
    for equations in ["a + b = 3; a - b = 1;", "a + b = 3; b = 1;"] {
        let told = told(equations);
        assert!(told.contains("no equation is solved for the discrete variable `a`"), "{told}");
    }
    // Put in one after the other, these grow or alternate without end.
    for equations in ["a = 2*b - 1; b = a + 2;", "a = 3 - b; b = a - 1;"] {
        let told = told(equations);
        assert!(told.contains("event-unsettled") && told.contains("`a`, `b` change without end"), "{told}");
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
    for set in ["n=2.5", "n=1e300", "n=9007199254740993", "e=7", "e=0", "e=1.5", "b=2"] {
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

/// A function that is kept as a program has results of type Real in the flat text; where an Integer gets one it says so.
#[test]
fn integers_from_kept_functions_are_read_again() {
    let model = "model M function first input Boolean b[3]; output Integer k;
           algorithm k := 0; for i in 1:3 loop if b[i] then k := i; return; end if; end for; end first;
         Integer n = first({time > 0.7, time > 0.4, time > 0.2}); Real x(start=0, fixed=true);
         equation der(x) = n; annotation(experiment(StopTime=1, Interval=0.5)); end M;";
    let session = Session::with_model(model);
    let flat = session.run(&["flatten", "model.mo"]);
    assert!(flat.stdout.contains("integer('M.first'("), "{}", flat.stdout);
    let again = Session::with_model(&flat.stdout).run(&["simulate", "model.mo"]).table();
    let first = session.run(&["simulate", "model.mo"]).table();
    assert_eq!(again.rows, first.rows);
    // 0.2 of three, 0.3 of two, 0.3 of one.
    assert!((first.column("x").last().unwrap() - 1.5).abs() < 1e-9);
}

/// Random numbers are named in the text, not spelled out; a table is.
#[test]
fn a_flat_text_that_cannot_be_read_again_says_so() {
    let random = "model M
         function step input Integer s[33]; output Real r; output Integer t[33];
           external \"C\" ModelicaRandom_xorshift1024star(s, t, r); end step;
         discrete Real d(start=0); Integer s[33](each start=7, each fixed=true);
         equation when time > 0.5 then (d, s) = step(pre(s)); end when; end M;";
    let run = Session::with_model(random).run(&["flatten", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("warning[not-spelled-out]") && run.stderr.contains("`random`"), "{}", run.stderr);
    // Operations on Integers of 64 bits are written as such.
    for spelled in ["Real x = sin(time);", "Integer k = if time > 1 then 7 else 3; Integer m = mod(k*1103515245, 97);"]
    {
        let plain = Session::with_model(&format!("model M {spelled} end M;")).run(&["flatten", "model.mo"]);
        assert!(plain.status == 0 && !plain.stderr.contains("not-spelled-out"), "{}", plain.stderr);
    }
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

/// Valid models of a line each that were refused once, with a value at the end by hand.
#[test]
fn small_models_that_are_valid_run() {
    for (model, name, value) in [
        ("function f input Real x; output Real y = 3*x; end f; Real z = f(2*time);", "z", 6.0),
        ("parameter Boolean more = false; Real x[1]; equation x[1] = time; if more then x[2] = 1; end if;", "x[1]", 1.0),
        ("parameter Real a(fixed = false); parameter Real b = 6/a; Real x = b; initial equation a = 4;", "x", 1.5),
        ("Real none[0], x; algorithm none := fill(2.0, 0); x := time + 1;", "x", 2.0),
        ("Real x, y; equation when sample(0, 0.25) then y = 9 - 2*x + time; end when; x + y = 4;", "y", -2.0),
        ("record R Real a; Real b; end R; R r[2] = R({1, 2}, {3, 4});", "r[2].a", 2.0),
        ("discrete Real d(start = 1); initial equation pre(d) = 1;
          equation when {initial(), sample(0.3, 0.3)} then d = pre(d) + 0.5; end when;", "d", 3.0),
        ("Real x(start = 1, fixed = true); equation der(x) = 2; if initial() then end if;", "x", 3.0),
        ("Integer i; Real y; equation i = if time > 0.5 then 3 else 1; y = i/2;", "y", 1.5),
        ("function f input Real A[:, size(A, 1)]; output Real y; algorithm y := A[1, 2] + A[2, 2]; end f;
          Real z = f([1, 2; 3, 4*time]);", "z", 6.0),
        ("record S Real p; Real q; end S; function g input Real p; output Real y; protected S s(p = p, q = 1);
          Real r = s.p + s.q; algorithm y := r; end g; Real z = g(2*time);", "z", 3.0),
        ("partial model A parameter Real k = 5 \"one\"; end A; partial model B parameter Real k = 5 \"other\"; end B;
          extends A; extends B; Real x = k;", "x", 5.0),
        ("parameter Boolean b = true; parameter Real p = if b then q else 0; parameter Real q = if b then 4 else p;
          Real x = p;", "x", 4.0),
        ("Real x(start = 0, fixed = true), y; equation der(x) = 1; y = if terminal() then 8 else x;", "y", 8.0),
    ] {
        let found = last(&format!("model M {model} end M;"), name);
        assert!((found - value).abs() < 1e-6, "{model}: {found} instead of {value}");
    }
}
