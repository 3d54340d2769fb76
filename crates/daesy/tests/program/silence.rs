//! What would be wrong without a word: values at special starts, equations that say nothing, subscripts beyond their
//! arrays, short peaks, contradictions; against solutions worked out by hand.

use serde_json::Value;

use crate::session::{Run, Session, finding};

fn simulate(model: &str) -> Run {
    Session::with_model(model).run(&["simulate", "model.mo"])
}

/// The largest distance of a column from a function of time, rows at which `time` has none left out.
fn distance(model: &str, column: &str, exact: impl Fn(f64) -> f64) -> f64 {
    let run = simulate(model);
    assert_eq!(run.status, 0, "{model}\n{}", run.stderr);
    let table = run.table();
    let rows = table.column("t").into_iter().zip(table.column(column));
    rows.fold(0.0, |largest, (t, value)| {
        let off = (value - exact(t)).abs();
        if off.is_nan() { f64::INFINITY } else { off.max(largest) }
    })
}

fn codes(run: &Run) -> Vec<String> {
    codes_of(&run.json())
}

fn codes_of(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// Equations that lose their unknowns at t = 0 by a factor of any order determine them by the limit.
#[test]
fn a_special_start_is_the_limit_of_solutions_beside_it() {
    let algebraic = [
        ("time^2*x = time^3 + 2*time^2;", "x", (|t| t + 2.0) as fn(f64) -> f64),
        ("time^3*x = time^3*cos(time);", "x", |t| t.cos()),
        ("sin(time)^2*x = 3*sin(time)^2;", "x", |_| 3.0),
    ];
    for (equations, column, exact) in algebraic {
        let off = distance(&format!("model M Real x; equation {equations} end M;"), column, exact);
        assert!(off < 1e-6, "{equations}: off by {off:e}");
    }
    // x - y = t and x (1 + t^2) - y = t + 5 t^2 give x = 5; with a singular matrix and t beside it x = (-6, 3).
    let pair = "model M Real x, y; equation x - y = time; x*(1 + time^2) - y = time + 5*time^2; end M;";
    assert!(distance(pair, "x", |_| 5.0) < 1e-6);
    let matrix = "model M Real x[2]; equation {{1, 2}, {2, 4}}*x + time*{x[2], -x[1]} = {3*time, 6*time}; end M;";
    assert!(distance(matrix, "x[1]", |_| -6.0) < 1e-6 && distance(matrix, "x[2]", |_| 3.0) < 1e-6);
    // y = x^3 with x' = a t^2, y' = b t^2 and x = a - b: b = 3 x^2 a also at t = 0, where 0 = 0 is left of it.
    let model = "model M Real x(start = 1), y(start = 3, fixed = true), a, b;
        equation der(x) = a*time^2; der(y) = b*time^2; x = a - b; y = x^3; end M;";
    let run = simulate(model);
    let table = run.table();
    let x = 3f64.cbrt();
    assert!((table.column("x")[0] - x).abs() < 1e-8);
    assert!((table.column("a")[0] - x / (1.0 - 3.0 * x * x)).abs() < 1e-6, "{}", table.column("a")[0]);
}

/// Equations that lose their unknowns where a state has its start determine them by the limit along the solution.
#[test]
fn a_special_start_is_the_limit_of_the_solution_that_moves_on_from_it() {
    type Case<'a> = (&'a str, &'a str, &'a dyn Fn(f64) -> f64);
    let sinc = |t: f64| if t == 0.0 { 1.0 } else { t.sin() / t };
    let cases: [Case<'_>; 8] = [
        ("Real x(start = 0, fixed = true), y; equation der(x) = 1; y*x = sin(x);", "y", &sinc),
        ("Real x(start = 0, fixed = true), y(start = 0.9); equation der(x) = 1; y*x = sin(x);", "y", &sinc),
        ("Real x(start = 1, fixed = true), y; equation der(x) = 1; y*(x - 1) = log(x);", "y", &|t| {
            if t == 0.0 { 1.0 } else { (1.0 + t).ln() / t }
        }),
        // 1 - cos(t) = 2 sin(t/2)^2
        ("Real r(start = 0, fixed = true), y; equation der(r) = 1; r^2*y = 1 - cos(r);", "y", &|t| {
            0.5 * sinc(0.5 * t).powi(2)
        }),
        ("Real x(start = 1, fixed = true), a; equation der(x) = 2*x; a*time = x - 1;", "a", &|t| {
            if t == 0.0 { 2.0 } else { (2.0 * t).exp_m1() / t }
        }),
        // q = 2 t: beside the start each step of the iteration halves the distance of y from 2.
        ("Real y, x(start = 0, fixed = true), q; equation der(x) = 1; der(q) = y/2 + 1; y*x = q;", "y", &|_| 2.0),
        // What the limit determines determines the rest.
        (
            "parameter Real p(fixed = false); Real x(start = 0, fixed = true), q(start = 0, fixed = true), y;
             initial equation p = y; equation der(x) = 1; y*x = sin(x); der(q) = p;",
            "q",
            &|t| t,
        ),
        (
            "parameter Real p(fixed = false); Real q(start = 0, fixed = true), r(start = 0, fixed = true), y;
             initial equation p = y; equation der(q) = cos(time); y*time = q; der(r) = p;",
            "r",
            &|t| t,
        ),
    ];
    for (body, column, exact) in cases {
        let model = format!("model M {body} end M;");
        let session = Session::with_model(&model);
        let off = distance(&model, column, exact);
        assert!(off < 1e-5, "{body}: off by {off:e}");
        let document = session.run(&["simulate", "model.mo", "--json"]).json();
        assert_eq!(finding(&document, "special-start")["level"], "note", "{body}");
        let is_given = body.contains("0.9");
        assert_eq!(codes_of(&document).contains(&"start-changed".to_owned()), is_given, "{body}");
        assert_eq!(session.run(&["check", "model.mo"]).status, 0, "{body}");
    }
}

/// y = c + log(t) has no limit, x = 1 + c t has any rate, and where sin(x)/x begins nobody can insist on 0.9.
#[test]
fn a_special_start_without_a_limit_is_refused() {
    let bodies = [
        "Real y(start = 5), x(start = 0, fixed = true), q; equation der(x) = 1; der(q) = y + 1; y*x = q;",
        "Real x(start = 1, fixed = true); equation time*der(x) = x - 1;",
        "Real x(start = 0, fixed = true), y(start = 0.9, fixed = true); equation der(x) = 1; y*x = sin(x);",
    ];
    for body in bodies {
        let session = Session::with_model(&format!("model M {body} end M;"));
        for verb in ["simulate", "check"] {
            let run = session.run(&[verb, "model.mo", "--json"]);
            assert_eq!(run.status, 1, "{verb}: {body}\n{}", run.stdout);
        }
    }
}

/// Where `s` is zero, `s i = s (1 - u)` says nothing of i: it is told, and from the switch on u = 1 - exp(-(t - 1/2)).
#[test]
fn what_nothing_determines_before_a_switch_is_told_and_right_after_it() {
    let switches = [
        "Real s; equation s = if time > 0.5 then 1 else 0;",
        "Real s; Boolean on; equation on = time > 0.5; s = if on then 3 else 0;",
        "discrete Real s(start = 0, fixed = true); equation when time > 0.5 then s = 2; end when;",
    ];
    let after = |t: f64| if t <= 0.5 { 0.0 } else { 1.0 - (0.5 - t).exp() };
    for switch in switches {
        let model = format!("model M Real i, u(start = 0, fixed = true); {switch} s*i = s*(1 - u); der(u) = i; end M;");
        assert!(distance(&model, "u", after) < 1e-6, "{switch}");
        let session = Session::with_model(&model);
        for verb in ["simulate", "check"] {
            let run = session.run(&[verb, "model.mo", "--json"]);
            assert_eq!(run.status, 0, "{switch}\n{}", run.stderr);
            let document = run.json();
            assert_eq!(finding(&document, "open-mode")["level"], "warning", "{verb}: {switch}");
        }
    }
    // After the switch nothing determines i any more: u stays.
    let off = "model M Real i, s, u(start = 0, fixed = true);
        equation s = if time < 0.5 then 1 else 0; s*i = s*(1 - u); der(u) = i; end M;";
    assert!(distance(off, "u", |t| 1.0 - (-t.min(0.5)).exp()) < 1e-6);
    // An equation that still says something when its unknown is gone is no matter of taste.
    let cut = "model M Real v, i(start = 1, fixed = true), s;
        equation s = if time > 0.5 then 0 else 1; s*v = s*1 - (1 - s)*i; der(i) = v; end M;";
    assert_eq!(simulate(cut).status, 3);
}

/// Loops of algorithm sections that only the run can count: sums over 1..n as n grows, Euclid's algorithm, a search.
#[test]
fn loops_whose_ranges_change_are_run() {
    let sum = "model M Integer n(start = 1, fixed = true); Real s(start = 0, fixed = true);
        algorithm when sample(0.1, 0.1) then n := pre(n) + 1; s := 0; for i in 1:n loop s := s + i; end for; end when;
        annotation (experiment(StopTime = 0.95)); end M;";
    let table = simulate(sum).table();
    assert_eq!((table.column("n").last(), table.column("s").last()), (Some(&10.0), Some(&55.0)));
    let outside = "model M Integer n(start = 1, fixed = true); Real s, x(start = 1, fixed = true);
        equation der(x) = -x; when sample(0.1, 0.1) then n = pre(n) + 1; end when;
        algorithm s := 0; for i in 1:n loop s := s + i*x; end for; annotation (experiment(StopTime = 0.95)); end M;";
    let table = simulate(outside).table();
    let x = (-0.95f64).exp();
    assert!((table.column("s").last().unwrap() - 55.0 * x).abs() < 1e-5);
    let euclid = "model M Integer a(start = 0, fixed = true), b(start = 0, fixed = true), r(start = 0, fixed = true);
        algorithm when time > 0.5 then a := 252; b := 105; while b > 0 loop r := mod(a, b); a := b; b := r; end while;
        end when; end M;";
    assert_eq!(simulate(euclid).table().column("a").last(), Some(&21.0));
    let search =
        "model M Integer n(start = 4, fixed = true), k(start = 0, fixed = true); Real v[6] = {3, 1, 4, 1, 5, 9}*time;
        algorithm when time > 0.5 then n := 6; k := 0;
        for i in 1:n loop if v[i] > 2.4 then k := i; break; end if; end for; end when; end M;";
    assert_eq!(simulate(search).table().column("k").last(), Some(&5.0));
    let nested = "model M Integer n(start = 1, fixed = true), c[3](each start = 0, each fixed = true);
        algorithm when sample(0.1, 0.1) then n := pre(n) + 1; c := {0, 0, 0};
        for i in 1:n loop for j in 1:i loop c[mod(i + j, 3) + 1] := c[mod(i + j, 3) + 1] + 1; end for; end for; end when;
        annotation (experiment(StopTime = 0.35)); end M;";
    let table = simulate(nested).table();
    let mut counts = [0.0; 3];
    (1..=4).for_each(|i| (1..=i).for_each(|j| counts[(i + j) % 3] += 1.0));
    for (at, count) in counts.iter().enumerate() {
        assert_eq!(table.column(&format!("c[{}]", at + 1)).last(), Some(count));
    }
    // A comparison outside of a when-statement would have to make events.
    let compared = "model M Integer n(start = 1, fixed = true); Real s, x = time;
        equation when sample(0.1, 0.1) then n = pre(n) + 1; end when;
        algorithm s := 0; for i in 1:n loop s := s + (if x > 0.03*i then 1 else 0); end for; end M;";
    let run = Session::with_model(compared).run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 1);
    assert_eq!(codes(&run), ["unsupported"]);
}

#[test]
fn a_subscript_beyond_its_array_ends_the_run() {
    let beyond = [
        "Real y; equation y = x[i + 1];",
        "Real y; equation when time > 0.9 then y = x[i]; end when;",
        "Real y; algorithm y := 0; if i > 0 then y := x[i]; end if;",
        "Real z[3](each start = 0); algorithm z := {0, 0, 0}; z[i + 1] := 1;",
    ];
    let model =
        |body: &str| format!("model M Real x[3] = {{1, 2, 3}}*time; Integer i = integer(5*time); {body} end M;");
    for body in beyond {
        let run = Session::with_model(&model(body)).run(&["simulate", "model.mo", "--json"]);
        assert_eq!(run.status, 1, "{body}\n{}", run.stderr);
        assert_eq!(codes(&run), ["assertion"], "{body}");
    }
    let guarded = [
        "Real y; equation y = if i < 3 then x[i + 1] else 0;",
        "Boolean y; equation y = i < 3 and x[i + 1] > 0.5;",
        "Boolean y; equation y = i >= 3 or x[i + 1] > 0.5;",
        "Real y; equation when time < 0.5 then y = x[i + 1]; end when;",
        "Real y; algorithm y := 0; if i < 3 then y := x[i + 1]; end if;",
    ];
    for body in guarded {
        let run = simulate(&model(body));
        assert_eq!(run.status, 0, "{body}\n{}", run.stderr);
    }
}

/// The area of a triangle of width 2e-4, of a parabola, and the time at which a clamped ramp is at its end.
#[test]
fn what_bends_for_a_short_time_only_is_seen() {
    let models = [
        ("der(x) = max(0, 1 - 1e4*abs(time - 55.5));", 1e-4),
        ("der(x) = 1e4*max(0, 1 - 1e8*(time - 55.5)^2);", 4.0 / 3.0),
        ("der(x) = 1e4*(if noEvent(abs(time - 55.5) < 1e-4) then 1 else 0);", 2.0),
        ("der(x) = min(1, max(0, 1e4*(time - 55.5))) - min(1, max(0, 1e4*(time - 55.6)));", 0.1),
    ];
    for (equation, area) in models {
        let model = format!(
            "model M Real x(start = 0, fixed = true); equation {equation} annotation (experiment(StopTime = 100)); end M;"
        );
        let table = simulate(&model).table();
        let found = *table.column("x").last().unwrap();
        assert!((found - area).abs() < 1e-5 * area.max(1e-2), "{equation}: {found} instead of {area}");
    }
}

#[test]
fn clocks_without_end_are_refused() {
    let clock = |interval: &str| {
        format!(
            "model M parameter Real h = {interval}; Integer n(start = 0, fixed = true);
             equation when sample(0, h) then n = pre(n) + 1; end when; end M;"
        )
    };
    for (interval, code, status) in [("0", "assertion", 1), ("-1", "assertion", 1), ("1e-12", "too-many-steps", 3)] {
        let run = Session::with_model(&clock(interval)).run(&["simulate", "model.mo", "--json"]);
        assert_eq!(run.status, status, "{interval}\n{}", run.stderr);
        assert_eq!(codes(&run), [code], "{interval}");
    }
    let known =
        "model M Integer n(start = 0, fixed = true); equation when sample(0, 0) then n = pre(n) + 1; end when; end M;";
    assert_eq!(codes(&Session::with_model(known).run(&["check", "model.mo", "--json"])), ["out-of-range"]);
}

/// The same sum in other words is no contradiction, and one that begins with an input on the way is.
#[test]
fn contradictions_are_told_from_redundancy_over_the_whole_run() {
    let same = "model M Real x, y; equation x + y = sin(2*time); 2*x + 2*y = 4*sin(time)*cos(time); x = 1; end M;";
    let run = Session::with_model(same).run(&["regularize", "model.mo", "--json"]);
    assert_eq!((run.status, codes(&run)), (0, vec!["redundant-equations".to_owned()]), "{}", run.stderr);
    let study = |input: &str| {
        format!(
            "[linear]\nE = [[1, 0], [1, 0], [0, 0]]\nF = [[-1, 0], [-1, 0], [1, 1]]\nG = [[1], [2], [0]]\n\
             [inputs]\nu1 = {{ expression = \"{input}\", breaks = [5] }}\n[simulate]\nstop = 10\n"
        )
    };
    for (input, code) in [("if time < 5 then 0 else 1", "contradicting-equations"), ("0*time", "redundant-equations")] {
        let session = Session::new().with("study.toml", &study(input));
        let run = session.run(&["regularize", "study.toml", "--given-inputs", "--json"]);
        assert_eq!(codes(&run), [code], "{input}");
    }
}

/// x1' = 0 and x1 + x2 x1' = 0 leave x1 = 0 and nothing for x2: numbers of the size of rounding are no ranks.
#[test]
fn a_constraint_that_rounding_hides_is_not_free() {
    for level in ["0", "2"] {
        let model = format!(
            "model M Real x1(start = 1), x2(start = 0.3); equation der(x1) = 0; x1 - {level} + x2*der(x1) = 0; end M;"
        );
        let document = Session::with_model(&model).run(&["check", "model.mo", "--json"]).json();
        assert_eq!(finding(&document, "free-variables")["names"], serde_json::json!(["x2"]), "{document}");
        let free = document["initial"]["free"].as_array();
        assert!(!free.is_some_and(|free| free.iter().any(|name| name == "x1")), "{document}");
    }
}

/// The constraining clause of a class holds for its own declaration as for every redeclaration; what is written in the
/// declaration overrides it.
#[test]
fn constraining_modifications_hold_for_the_declaration_itself() {
    let model = "model M
        model J parameter Real k = 1; Real z = k; end J;
        model A
          replaceable J c constrainedby J(k = 3);
          replaceable J d(k = 5) constrainedby J(k = 4);
          replaceable model I = J constrainedby J(k = 6); I i;
          replaceable model H = J(k = 7) constrainedby J(k = 8); H h;
        end A;
        model K extends J; Real w = 2*k; end K;
        A a; A b(redeclare model I = K); A e(redeclare model I = K(k = 9)); A f(redeclare J c);
        end M;";
    let table = simulate(model).table();
    let values = [("a.c.z", 3.0), ("a.d.z", 5.0), ("a.i.z", 6.0), ("a.h.z", 7.0), ("b.i.w", 12.0), ("e.i.z", 9.0)];
    for (name, value) in values.into_iter().chain([("f.c.z", 3.0)]) {
        assert_eq!(table.column(name)[0], value, "{name}");
    }
}

/// Two ways lead to the hand of the manipulator: all verbs take the one next to the start values.
#[test]
fn check_tells_the_start_that_a_simulation_begins_at() {
    let model = "model M Real a(start = 0.9), b(start = -1.6), c(start = 0.7), p, q;
        equation p = a + b; q = a + b + c; cos(a) + 0.8*cos(p) + 0.4*cos(q) = 1.2; q = 0; der(a) = -a; end M;";
    let session = Session::with_model(model);
    let manipulator = concat!(env!("CARGO_MANIFEST_DIR"), "/../../problems/manipulator/model.mo");
    for (file, n_changed) in [("model.mo", 2), (manipulator, 2)] {
        let changed = |verb: &str| session.run(&[verb, file, "--json"]).json()["initial"]["changed"].clone();
        let (checked, simulated) = (changed("check"), changed("simulate"));
        let names = checked.as_object().unwrap();
        assert_eq!(names.len(), n_changed, "{checked}");
        for (name, values) in names {
            let (one, other) = (values[1].as_f64().unwrap(), simulated[name][1].as_f64().unwrap());
            assert!((one - other).abs() < 1e-9, "{file}: {name} starts at {one} and {other}");
        }
    }
}

/// 2.5e5 steps in the first 5 s of 2500: at that pace the run would have more than 1e8 of them.
#[test]
fn a_run_that_is_slow_for_a_while_goes_on() {
    let model = "model M Real x(start = 1, fixed = true), y(start = 0, fixed = true), w;
        equation w = if time < 5 then 1e5 else 1e-3; der(x) = w*y; der(y) = -w*x;
        annotation (experiment(StopTime = 2500, Interval = 2500)); end M;";
    let run = Session::with_model(model).run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.json()["steps"].as_u64().unwrap() > 200_000, "{}", run.json()["steps"]);
}

/// What only the likelihood of linear models honours is refused by name elsewhere: it changed nothing.
#[test]
fn a_start_that_is_estimated_and_accuracies_in_time_are_refused_where_they_do_nothing() {
    let data: String = (0..=20).map(|k| 0.1 * f64::from(k)).map(|t| format!("{t},{}\n", 2.0 * (-t).exp())).collect();
    let study = |initial: &str, std: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.5, min = 0.1, max = 5 }}\n\
             [measurements]\nx = {{ column = \"y\", std = {std} }}\n[data]\nfile = \"data.csv\"\n{initial}"
        )
    };
    let model = |rate: &str| {
        format!("model M\n  parameter Real k = 1;\n  Real x(start = 2);\nequation\n  der(x) = -k*{rate};\nend M;\n")
    };
    let codes = |rate: &str, study: String, method: &str| {
        let session =
            Session::with_model(&model(rate)).with("study.toml", &study).with("data.csv", &format!("t,y\n{data}"));
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        (run.status, crate::session::codes(&run.json()).iter().map(|code| (*code).to_owned()).collect::<Vec<_>>())
    };
    let free = study("[initial]\nmode = \"estimate\"\n", "0.02");
    let diffuse = study("[initial]\nmode = \"diffuse\"\n", "0.02");
    let varying = study("", "\"0.01 + 0.02*time\"");
    for method in ["auto", "ml", "output-error", "pem"] {
        assert_eq!(codes("x^3", diffuse.clone(), method), (1, vec!["start-not-free".to_owned()]), "{method}");
        assert_eq!(codes("x^3", free.clone(), method).0, 0, "{method}");
        assert_eq!(codes("x^3", varying.clone(), method), (1, vec!["varying-accuracy".to_owned()]), "{method}");
    }
    assert_eq!(codes("x", free, "auto").0, 0);
    assert_eq!(codes("x", varying.clone(), "ml").0, 0);
    assert_eq!(codes("x", varying, "output-error"), (1, vec!["varying-accuracy".to_owned()]));
}

/// Two capacitors in series with a stepped source: v1 jumps by 3*2/(k + 2) with the step, which a trajectory of an
/// ensemble does not. And an impulse that a nonlinear model never felt.
#[test]
fn inputs_that_make_states_jump_are_refused_where_nothing_jumps() {
    let codes = |model: &str, input: &str, method: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 0.8, min = 0.1, max = 5 }}\n[inputs]\nu = {input}\n\
             [measurements]\nx = {{ column = \"y\", std = 0.01 }}\n[data]\nfile = \"data.csv\"\n"
        );
        let data: String = (0..8)
            .map(|at| 0.3 * f64::from(at))
            .map(|t| {
                format!(
                    "{t},{},{}\n",
                    f64::from(u8::from(t > 1.0)),
                    if t > 1.0 { 1.8 * (-(t - 1.0) / 3.3).exp() } else { 0.0 }
                )
            })
            .collect();
        let session = Session::with_model(model).with("study.toml", &study).with("data.csv", &format!("t,u,y\n{data}"));
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        (run.status, crate::session::codes(&run.json()).first().map(|code| (*code).to_owned()))
    };
    let series = |more: &str| {
        format!(
            "model M input Real u; parameter Real k = 1; Real x(start = 0), v2(start = 0); equation x + v2 = u; \
             k*der(x) = 2*der(v2) - x{more}; end M;"
        )
    };
    let refused = |code: &str| (1, Some(code.to_owned()));
    let step = "{ expression = \"if time < 1 then 0 else 3\" }";
    for method in ["auto", "ml", "pem", "output-error"] {
        let curved = series(" + 1e-12*x^2");
        assert_eq!(codes(&curved, step, method), refused("input-not-smooth"), "{method}");
        assert_eq!(codes(&curved, "{ column = \"u\" }", method), refused("input-not-smooth"), "{method}");
        assert_ne!(codes(&curved, "{ column = \"u\", hold = \"cubic\" }", method).0, 1, "{method}");
        let lag = "model M input Real u; parameter Real k = 1; Real x(start = 1); equation der(x) = -k*x + u + 1e-12*x^3; end M;";
        let impulse = "{ impulses = [{ time = 0.55, area = 50 }] }";
        assert_eq!(codes(lag, impulse, method), refused("impulse-not-followed"), "{method}");
        assert_eq!(codes(lag, "{ column = \"u\" }", method).0, 0, "{method}");
    }
    assert_eq!(codes(&series(""), step, "pem"), refused("input-not-smooth"));
    assert_eq!(codes(&series(""), step, "ml").0, 0);
}

/// What is left out of a run is said, and what a study leaves open is said when it fails as well.
#[test]
fn what_is_left_out_or_held_is_said_whether_a_run_succeeds_or_fails() {
    let study = "[model]\nfile = \"model.mo\"\n[disturbances]\nw = { std = 1.0, time_constant = 1.0 }\n\
                 [random]\nk = { uniform = { min = 0.9, max = 1.1 } }\n";
    let model = |rate: &str| {
        format!(
            "model M\n  parameter Real k = 1;\n  input Real u, w;\n  Real x(start = 1, fixed = true);\nequation\n  \
             der(x) = {rate} + u + w;\n  annotation (experiment(StopTime = 3));\nend M;\n"
        )
    };
    let codes = |rate: &str, verb: &str| {
        let run = Session::with_model(&model(rate)).with("study.toml", study).run(&[verb, "study.toml", "--json"]);
        let codes: Vec<String> = crate::session::codes(&run.json()).iter().map(|code| (*code).to_owned()).collect();
        (run.status, codes)
    };
    for verb in ["simulate", "uq"] {
        let (status, found) = codes("-k*x", verb);
        assert_eq!(status, 0, "{verb}: {found:?}");
        for code in ["input-held", "disturbance-left-out"] {
            assert!(found.iter().any(|known| known == code), "{verb}: {found:?}");
        }
        let (status, found) = codes("-k*sqrt(x)", verb);
        assert_ne!(status, 0, "{verb}: {found:?}");
        assert!(found.iter().any(|known| known == "input-held"), "{verb}: {found:?}");
    }
}

/// x = t exceeds a before t = 1 for every a below 1: each method says so, whether points are computed alone or side by
/// side.
#[test]
fn assertions_and_values_that_are_not_finite_are_told_by_every_method() {
    let model = |what: &str| {
        format!(
            "model M parameter Real a = 1.5; Real x(start = 0, fixed = true); {what} \
             annotation (experiment(StopTime = 1)); end M;"
        )
    };
    for what in ["equation der(x) = 1; assert(x < a, \"too big\");", "Real y = sqrt(a - x); equation der(x) = 1;"] {
        for method in ["monte-carlo", "quasi-monte-carlo", "collocation"] {
            let study = format!(
                "[model]\nfile = \"model.mo\"\n[random]\na = {{ uniform = {{ min = 0.5, max = 1.9 }} }}\n\
                 [simulate]\nstep = 0.5\n[uq]\nmethod = \"{method}\"\nsamples = 40\n"
            );
            let run = Session::with_model(&model(what)).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
            let document = run.json();
            let findings = document["findings"].as_array().unwrap();
            let is_told = findings.iter().any(|finding| finding["level"] != "note");
            assert!(is_told, "{method}: exit {}, {document}", run.status);
        }
    }
}

/// x = exp(-t) falls below 1/2 at ln 2: every verb that has an answer says what the model says of itself.
#[test]
fn failing_assertions_are_told_by_every_verb() {
    let mut record = "t,x\n".to_owned();
    (0..21).map(|k| 0.1 * f64::from(k)).for_each(|t| record.push_str(&format!("{t},{}\n", (-t).exp())));
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.9, min = 0.1 }\n[measurements]\n\
                 x = { std = 0.01 }\n[estimate]\nsignals = [\"x\"]\n[data]\nfile = \"record.csv\"\n";
    for rate in ["-k*x", "-k*x*(1 + (x - exp(-time)))"] {
        for level in ["", ", AssertionLevel.warning"] {
            let model = format!(
                "model M parameter Real k = 1; Real x(start = 1, fixed = true);
                 equation der(x) = {rate}; assert(x > 0.5, \"x is small\"{level}); end M;"
            );
            let session = Session::with_model(&model).with("record.csv", &record).with("study.toml", study);
            for arguments in [
                &["identify", "study.toml", "--method", "ml"][..],
                &["identify", "study.toml", "--method", "pem"],
                &["identify", "study.toml", "--method", "output-error"],
                &["estimate", "study.toml"],
                &["cost", "study.toml", "--grid", "k=0.8:1.2:3"],
            ] {
                let run = session.run(&[arguments, &["--json"]].concat());
                assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
                let document = run.json();
                let told = finding(&document, "assertion");
                assert!(told["message"].as_str().unwrap().contains("x is small") && told["line"] == 2, "{told}");
                assert_eq!(told["level"], "warning");
            }
        }
    }
}

/// Where errors of measurement are all that explains a record, they have a size.
#[test]
fn output_errors_of_an_exact_measurement_are_refused() {
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.9, min = 0.1 }\n[measurements]\n\
                 x = { std = 0 }\n[data]\nfile = \"record.csv\"\n";
    for rate in ["-k*x", "-k*x^2"] {
        let model =
            format!("model M parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = {rate}; end M;");
        let session = Session::with_model(&model).with("study.toml", study);
        let run = session.with("record.csv", "t,x\n0,1\n0.1,0.9\n0.25,0.78\n0.5,0.6\n");
        let run = run.run(&["identify", "study.toml", "--json", "--method", "output-error"]);
        assert_eq!((run.status, codes(&run)), (1, vec!["exact-measurement".to_owned()]), "{}", run.stderr);
    }
}

/// The filter of a nonlinear model steps along a grid; the refusal says so, with its step and the sample.
#[test]
fn samples_between_the_steps_of_a_filter_are_refused_by_that_cause() {
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.9, min = 0.1 }\n[measurements]\n\
                 x = { std = 0.1 }\n[data]\nfile = \"record.csv\"\n[identify]\nnoise_step = 0.1\n\
                 [disturbances]\nw = { A = [[-1]], B = [[1]], C = [[0.1]] }\n";
    let model = "model M parameter Real k = 1; input Real w; Real x(start = 1, fixed = true);
        equation der(x) = -k*x^2 + w; end M;";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.with("record.csv", "t,x\n0,1\n0.1,0.9\n0.25,0.78\n0.5,0.6\n");
    let run = run.run(&["identify", "study.toml", "--json", "--method", "ml"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let told = finding(&run.json(), "sample-between")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("t = 0.25") && told.contains("0.1 apart"), "{told}");
}

/// x x' = y says nothing of x' at x = 0, where y = time is 0 too: a form that holds there alone is told as such.
#[test]
fn a_nonlinear_form_that_holds_at_one_point_alone_is_told() {
    let special = "model M Real x(start = 0), y; equation x*der(x) = y; y = time; end M;";
    let run = Session::with_model(special).run(&["regularize", "model.mo", "--json"]);
    assert_eq!((run.status, finding(&run.json(), "ranks-change")["level"].clone()), (0, "warning".into()));
    let plain = special.replace("start = 0", "start = 2, fixed = true").replace("y = time", "y = 1 + time");
    let run = Session::with_model(&plain).run(&["regularize", "model.mo", "--json"]);
    assert!(run.status == 0 && !codes(&run).contains(&"ranks-change".to_owned()), "{:?}", codes(&run));
}

/// y = a - s below an edge and a + s above it, where s is two standard errors: the estimate is at the edge's upper side,
/// where derivatives say nothing of it, and values one standard error away do.
#[test]
fn a_cost_that_is_rough_on_the_scale_of_a_standard_error_is_told() {
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 0.98 }\n[measurements]\ny = { std = 0.05 }\n\
                 [data]\nfile = \"record.csv\"\n";
    let mut record = "t,y\n".to_owned();
    (0..26).for_each(|k| record.push_str(&format!("{k},{}\n", if k % 2 == 0 { 1.05 } else { 0.95 })));
    for (shift, is_rough) in [("(if a < 0.975 then -0.02 else 0.02)", true), ("0.02", false)] {
        let model = format!("model M parameter Real a = 1; Real y; equation y = a + noEvent({shift}); end M;");
        let session = Session::with_model(&model).with("study.toml", study).with("record.csv", &record);
        let run = session.run(&["identify", "study.toml", "--json", "--method", "pem"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let found = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((found - 0.98).abs() < 1e-6, "{found}");
        assert_eq!(codes(&run).contains(&"rough-cost".to_owned()), is_rough, "{shift}: {:?}", codes(&run));
    }
}
