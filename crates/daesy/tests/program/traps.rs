//! Models that look right and are not: the message names the culprits.

use serde_json::{Value, json};

use crate::session::{Session, codes, finding, texts};

fn sorted(list: &Value) -> Vec<&str> {
    let mut names = texts(list);
    names.sort_unstable();
    names
}

/// Three equations for x and y, none for z: as many equations as unknowns, and no solution.
#[test]
fn a_balanced_singular_model_is_refused_with_its_culprits() {
    let session = Session::with_model(
        "model M
  Real x, y, z, w(start=1);
equation
  x + y = 1;
  x - y = 2;
  x = sin(time);
  der(w) = -w + x;
end M;
",
    );
    let run = session.run(&["check", "model.mo", "--json"]);
    assert_eq!(run.status, 1);
    let document = run.json();
    assert_eq!(document["size"]["equations"], document["size"]["unknowns"]);
    assert_eq!(codes(&document), ["too-many-equations", "too-few-equations"]);
    let over = finding(&document, "too-many-equations");
    assert_eq!(sorted(&over["names"]), ["x", "y"]);
    assert_eq!((&over["file"], &over["line"], &over["column"]), (&json!("model.mo"), &json!(4), &json!(3)));
    let under = finding(&document, "too-few-equations");
    assert_eq!(sorted(&under["names"]), ["z"]);
    assert_eq!((&under["line"], &under["column"]), (&json!(2), &json!(14)));
    assert_eq!(document["structure"], Value::Null);
    // All three equations are shown, and the one of w is not.
    for line in ["4 |   x + y = 1;", "5 |   x - y = 2;", "6 |   x = sin(time);"] {
        assert!(run.stderr.contains(line), "{}", run.stderr);
    }
    assert!(!run.stderr.contains("der(w)"), "{}", run.stderr);
}

#[test]
fn the_smallest_set_at_fault_is_named_in_a_large_model() {
    // A chain x[i] = x[i+1] + .. of 300 sound equations, and one equation too many in its midst for a variable of its
    // own.
    let mut text = "model Chain\n  Real x[300], a, b;\nequation\n  x[300] = time;\n".to_owned();
    for at in 1..300 {
        text.push_str(&format!("  x[{at}] = sin(x[{}]) + {at};\n", at + 1));
    }
    text.push_str("  a = 2;\n  sin(a) = 3;\nend Chain;\n");
    let session = Session::with_model(&text);
    let document = session.check();
    assert_eq!(sorted(&finding(&document, "too-many-equations")["names"]), ["a"]);
    assert_eq!(sorted(&finding(&document, "too-few-equations")["names"]), ["b"]);
    assert_eq!(finding(&document, "too-many-equations")["line"], 304);
}

const ELECTRICAL: &str = "
package E
  connector Pin Real v; flow Real i; end Pin;
  partial model OnePort
    Pin p; Pin n; Real v; Real i;
  equation
    v = p.v - n.v; i = p.i; p.i + n.i = 0;
  end OnePort;
  model Resistor extends OnePort; parameter Real R = 100; equation v = R*i; end Resistor;
  model Capacitor extends OnePort; parameter Real C = 1e-3; equation i = C*der(v); end Capacitor;
  model Source extends OnePort; parameter Real A = 1; equation v = A*sin(time); end Source;
  model Ground Pin p; equation p.v = 0; end Ground;
";

/// In a loop without branches the currents are all equal: the last sum of flows cancels, and no potential has a level.
/// Both are one fault.
#[test]
fn a_circuit_without_a_ground_gets_one_finding_that_says_so() {
    let circuit = |ground: &str| {
        format!(
            "{ELECTRICAL}
  model Circuit
    Source s; Resistor r; Capacitor c;{}
  equation
    connect(s.p, r.p);
    connect(r.n, c.p);
    connect(c.n, s.n);
    {ground}
  end Circuit;
end E;",
            if ground.is_empty() { "" } else { " Ground g;" }
        )
    };
    let session = Session::with_model(&circuit(""));
    let run = session.run(&["check", "model.mo", "--json", "--class", "E.Circuit"]);
    assert_eq!(run.status, 1);
    let document = run.json();
    assert_eq!(codes(&document), ["no-reference"]);
    let finding = finding(&document, "no-reference");
    assert!(finding["help"].as_str().unwrap().contains("ground"), "{finding}");
    assert!(texts(&finding["names"]).iter().all(|name| name.ends_with(".v")), "{finding}");
    // The place is a connection of the model, not a line of a component.
    assert!((17..=19).contains(&finding["line"].as_u64().unwrap()), "{finding}");
    let session = Session::with_model(&circuit("connect(s.n, g.p);"));
    assert_eq!(session.run(&["check", "model.mo", "--class", "E.Circuit"]).status, 0);
}

/// With branches no sum cancels by structure: only the values of the coefficients (all 1) make the balances depend on
/// each other.
#[test]
fn a_bridge_without_a_ground_is_found_by_numbers() {
    let session = Session::with_model(&format!(
        "{ELECTRICAL}
  model Bridge
    Source s; Resistor a, b, c, d, e(R=50);
  equation
    connect(s.p, a.p); connect(s.p, b.p);
    connect(a.n, c.p); connect(a.n, e.p);
    connect(b.n, d.p); connect(b.n, e.n);
    connect(c.n, s.n); connect(d.n, s.n);
  end Bridge;
end E;"
    ));
    let run = session.run(&["check", "model.mo", "--json", "--class", "E.Bridge"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let document = run.json();
    assert_eq!(codes(&document), ["no-reference"], "{}", run.stderr);
    assert_eq!(document["regularity"]["agrees_with_structure"], false);
}

/// reissig2000: x2' + x3' + x1 = f1, x2' + x3' + x2 = f2, x4' + x5' + x3 = f3, x4' + x5' + x4 = f4, .., x_n = f_n. The difference of
/// each pair is free of derivatives, so that x_n, x_{n-1}, .. follow one after the other: index 1, with (n - 1) / 2 degrees of freedom
/// (the sums x2 + x3, x4 + x5, ..). Structure cannot see the difference and counts (n + 1) / 2.
#[test]
fn reissigs_chains_of_index_1_are_flagged_whatever_their_structural_index() {
    for n in [3usize, 7, 15, 31] {
        let mut text = format!("model Chain\n  Real x[{n}];\nequation\n");
        for pair in 0..(n - 1) / 2 {
            let (a, b) = (2 * pair + 2, 2 * pair + 3);
            text.push_str(&format!("  der(x[{a}]) + der(x[{b}]) + x[{}] = sin({}*time);\n", a - 1, pair + 1));
            text.push_str(&format!("  der(x[{a}]) + der(x[{b}]) + x[{a}] = cos({}*time);\n", pair + 1));
        }
        text.push_str(&format!("  x[{n}] = sin(time);\nend Chain;\n"));
        let session = Session::with_model(&text);
        let run = session.run(&["check", "model.mo", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        assert_eq!(document["structure"]["structural_index"], n.div_ceil(2), "n = {n}");
        assert_eq!(document["structure"]["degrees_of_freedom"], (n - 1) / 2, "n = {n}");
        assert_eq!(document["regularity"]["differentiation_index"], 1, "n = {n}");
        assert_eq!(document["regularity"]["agrees_with_structure"], false, "n = {n}");
        let note = finding(&document, "index-by-values");
        assert!(note["message"].as_str().unwrap().contains("the index is 1"), "{note}");
        assert!(note["line"].as_u64().unwrap() > 3, "{note}");
    }
}

/// x + 2 y = z and 2 x + 4 y = z + 1 look like a loop for x and y; together they say z = 1, and x follows from z'.
#[test]
fn a_loop_that_is_singular_for_its_parameter_values_is_flagged() {
    let text = "model Loop
  parameter Real a = 2;
  Real x, y, z(start=1);
equation
  x + a*y = z;
  2*x + 4*y = z + 1;
  der(z) = -z + x;
end Loop;
";
    let session = Session::with_model(text);
    let document = session.check();
    assert_eq!(document["structure"]["structural_index"], 1);
    assert_eq!(document["regularity"]["differentiation_index"], 2);
    assert_eq!(document["regularity"]["agrees_with_structure"], false);
    assert_eq!(document["structure"]["degrees_of_freedom"], 0);
    let warning = finding(&document, "numerically-singular");
    assert_eq!(sorted(&warning["names"]), ["x", "y"]);
    assert_eq!(warning["line"], 5);
    // With another value the loop is regular.
    let document = session.run(&["check", "model.mo", "--json", "--set", "a=3"]).json();
    assert_eq!(codes(&document), Vec::<&str>::new());
    assert_eq!(document["structure"]["degrees_of_freedom"], 1);
    // The model is linear, so that its values give a form that can be simulated: z = x = 1, y = 0.
    let run = session.run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(codes(&run.json()), ["structure-misleads"]);
    let table = session.run(&["simulate", "model.mo"]).stdout;
    let last: Vec<f64> = table.lines().last().unwrap().split(',').map(|cell| cell.parse().unwrap()).collect();
    assert!(last[1..4].iter().zip([1.0, 0.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{last:?}");
}

/// A singular loop inside a larger one: only the equations that depend on each other are named.
#[test]
fn only_the_dependent_equations_of_a_large_loop_are_named() {
    let mut text =
        "model Loop\n  Real x[40], y(start=1);\n  parameter Real a = 1;\nequation\n  der(y) = -y^3;\n".to_owned();
    for at in 1..=38 {
        let (before, after) = (if at == 1 { 40 } else { at - 1 }, at + 1);
        text.push_str(&format!("  3*x[{at}] + x[{before}] + x[{after}] = y;\n"));
    }
    text.push_str("  x[39] + a*x[40] = y;\n  2*x[39] + 2*x[40] = 2*y + 0*x[1];\nend Loop;\n");
    let session = Session::with_model(&text);
    let document = session.check();
    let warning = finding(&document, "numerically-singular");
    assert_eq!(warning["line"], 44, "{warning}");
    assert_eq!(document["regularity"]["agrees_with_structure"], false);
}

/// x^3 = time has a triple root at the start: Newton's method never meets it exactly, but creeps.
#[test]
fn an_equation_whose_derivative_vanishes_at_the_start_is_flagged() {
    for (equation, start) in [("x^3 = time", "0"), ("x^2 = time^2", "0.1"), ("(x - 1)^2 = time", "0.7")] {
        let session = Session::with_model(&format!(
            "model M Real x(start={start}), z(start=1, fixed=true);\nequation\n  {equation};\n  der(z) = -z + x;\nend M;"
        ));
        let document = session.check();
        let warning = finding(&document, "numerically-singular");
        assert_eq!(sorted(&warning["names"]), ["x"], "{equation}");
        assert_eq!(warning["line"], 3);
        assert_eq!(document["regularity"]["agrees_with_structure"], false);
    }
    // A regular root of the same equations, and a steep function, are not flagged.
    for (equation, start) in [("x^3 = time + 1", "1.2"), ("x^2 = time + 4", "1"), ("exp(40*x) = time + 1e6", "0.3")] {
        let session = Session::with_model(&format!(
            "model M Real x(start={start}), z(start=1, fixed=true);\nequation\n  {equation};\n  der(z) = -z + x;\nend M;"
        ));
        let document = session.check();
        assert_eq!(codes(&document), ["start-changed"], "{equation}");
        assert_eq!(document["regularity"]["agrees_with_structure"], true);
    }
}

#[test]
fn too_many_and_too_few_equations_are_told_apart() {
    let document = Session::with_model("model M\n  Real x;\nequation\n  x = 1;\n  x = time;\nend M;\n").check();
    assert_eq!(codes(&document), ["too-many-equations"]);
    assert_eq!(sorted(&finding(&document, "too-many-equations")["names"]), ["x"]);
    let document = Session::with_model("model M\n  Real x, y;\nequation\n  x + y = 1;\nend M;\n").check();
    assert_eq!(codes(&document), ["too-few-equations"]);
    assert_eq!(sorted(&finding(&document, "too-few-equations")["names"]), ["x", "y"]);
    let document = Session::with_model("model M\n  Real x = 1;\nequation\n  2 = 3;\nend M;\n").check();
    assert_eq!(document["findings"][0]["line"], 4);
}

/// The same equation twice, in the same or another order of its terms, is called that.
#[test]
fn an_equation_written_twice_is_called_that() {
    for second in ["x + y = 1", "y + x = 1", "1 = x + y"] {
        for extra in ["", "  der(z) = -z + x;\n"] {
            let session = Session::with_model(&format!(
                "model M\n  Real x, y{};\nequation\n  x + y = 1;\n  {second};\n{extra}end M;\n",
                if extra.is_empty() { "" } else { ", z(start=1)" }
            ));
            let run = session.run(&["check", "model.mo", "--json"]);
            assert_eq!(run.status, 1);
            let document = run.json();
            assert_eq!(codes(&document), ["duplicate-equation"], "{second}: {}", run.stderr);
            assert_eq!(finding(&document, "duplicate-equation")["line"], 5);
        }
    }
    // One too many and equal.
    let document =
        Session::with_model("model M\n  Real x, y;\nequation\n  x + y = 1;\n  x + y = 1;\n  der(y) = x;\nend M;\n")
            .check();
    assert_eq!(codes(&document), ["duplicate-equation"]);
}

/// Dependent in other words: 2 (x + y) = 2 is no twin, but numbers see it.
#[test]
fn equations_that_follow_from_others_are_an_error() {
    let session = Session::with_model("model M\n  Real x, y;\nequation\n  x + y = time;\n  2*x + 2*y = 3;\nend M;\n");
    let run = session.run(&["check", "model.mo", "--json"]);
    assert_eq!(run.status, 1);
    let document = run.json();
    assert_eq!(codes(&document), ["singular-model"]);
    let error = finding(&document, "singular-model");
    assert_eq!(error["line"], 4);
    assert!(["x", "y"].iter().all(|name| texts(&error["names"]).contains(name)), "{error}");
}

/// More start values are insisted on than are free.
#[test]
fn contradicting_start_values_are_the_models_fault() {
    let text = "model M
  Real x(start=1, fixed=true), y(start=3, fixed=true);
equation
  der(x) = -x;
  y = 2*x;
end M;
";
    let session = Session::with_model(text);
    for verb in ["check", "simulate"] {
        let run = session.run(&[verb, "model.mo", "--json"]);
        assert_eq!(run.status, 1, "{}", run.stderr);
        let document = run.json();
        let error = finding(&document, "no-consistent-start");
        assert!(error["help"].as_str().unwrap().contains("only 1 can be"), "{error}");
    }
    // Both may be insisted on if they fit.
    let session = Session::with_model(&text.replace("start=3", "start=2"));
    assert_eq!(session.run(&["check", "model.mo"]).status, 0);
}

#[test]
fn events_go_through_check() {
    let session = Session::with_model(
        "model Ball
           parameter Real e = 0.8;
           Real h(start=1, fixed=true), v(start=0, fixed=true);
           Boolean flying(start=true);
         equation
           der(h) = v;
           der(v) = if flying then -9.81 else 0;
           flying = not (h <= 0 and v <= 0);
           when h <= 0 then
             reinit(v, -e*pre(v));
           end when;
         end Ball;",
    );
    let run = session.run(&["check", "model.mo"]);
    assert_eq!(run.status, 0);
    assert!(
        run.stdout.contains("It has events: 1 when-clause and 1 variable that changes at events only."),
        "{}",
        run.stdout
    );
    let document = session.check();
    assert_eq!(document["structure"]["degrees_of_freedom"], 2);
    assert_eq!(document["size"]["equations"], 3);
    let session = Session::with_model(
        "model Switch
           Boolean on = time > 0.5;
           Real u, i, x(start=0, fixed=true);
         equation
           if on then u = 0; else i = 0; end if;
           u + 2*i = 1;
           der(x) = i;
         end Switch;",
    );
    let document = session.check();
    assert_eq!(codes(&document), Vec::<&str>::new());
    assert_eq!(document["structure"]["degrees_of_freedom"], 1);
    // A discrete variable that nothing determines, and one determined twice.
    let document = Session::with_model("model M\n  Boolean b;\n  Real x = 1;\nend M;\n").check();
    assert_eq!(sorted(&finding(&document, "too-few-equations")["names"]), ["b"]);
    let document =
        Session::with_model("model M\n  Boolean b;\nequation\n  b = time > 1;\n  b = time > 2;\nend M;\n").check();
    assert_eq!(codes(&document), ["too-many-equations"]);
}

#[test]
fn parameters_without_a_value_or_in_a_circle_are_refused() {
    let document =
        Session::with_model("model M\n  parameter Real p = 1/q;\n  parameter Real q = 0;\n  Real x = p;\nend M;\n")
            .check();
    let error = finding(&document, "parameter-value");
    assert_eq!((&error["line"], sorted(&error["names"])), (&json!(2), vec!["p"]));
    let document =
        Session::with_model("model M\n  parameter Real p = q;\n  parameter Real q = p;\n  Real x = p;\nend M;\n")
            .check();
    assert_eq!(document["findings"][0]["level"], "error");
}

/// The same chain with nonlinear terms: at a point only index 1 can be read off the linearization, and here it can.
#[test]
fn derivatives_that_cancel_between_nonlinear_equations_are_flagged() {
    let session = Session::with_model(
        "model M
           Real x[5](each start=0.1);
         equation
           der(x[2]) + der(x[3]) + x[1] + x[1]^3 = 1;
           der(x[2]) + der(x[3]) + x[2] + x[2]^3 = 0;
           der(x[4]) + der(x[5]) + x[3]*x[5] = 2;
           der(x[4]) + der(x[5]) + x[4] = 0;
           x[5] + 0.1*sin(x[5]) = 1;
         end M;",
    );
    let document = session.check();
    assert_eq!(document["structure"]["structural_index"], 3);
    assert_eq!(document["regularity"]["differentiation_index"], 1);
    assert_eq!(document["regularity"]["agrees_with_structure"], false);
    assert_eq!(document["structure"]["degrees_of_freedom"], 2);
    finding(&document, "index-by-values");
}

/// y1 and y2 enter with their difference only: structure sees two derivatives, numbers one, and y1 + y2 is algebraic.
#[test]
fn a_singular_matrix_before_the_derivatives_leaves_fewer_start_values_free() {
    let session = Session::with_model(
        "model M
           Real y1(start=1), y2(start=0);
         equation
           der(y1) - der(y2) = -y1 + y2^3;
           2*der(y1) - 2*der(y2) = y2 - exp(y1) + sin(y2);
         end M;",
    );
    let document = session.check();
    assert_eq!(document["structure"]["degrees_of_freedom"], 1);
    assert_eq!(document["regularity"]["d"], 1);
    assert_eq!(document["regularity"]["agrees_with_structure"], false);
    assert_eq!(texts(&document["initial"]["free"]).len(), 1);
    finding(&document, "numerically-singular");
}

/// Connectors joined to each other and to nothing else.
#[test]
fn connectors_without_components_have_no_reference_either() {
    let session = Session::with_model(
        "package P
           connector Pin Real v; flow Real i; end Pin;
           model M
             Pin a, b;
           equation
             connect(a, b);
           end M;
         end P;",
    );
    let run = session.run(&["check", "model.mo", "--json"]);
    assert_eq!(run.status, 1);
    assert_eq!(codes(&run.json()), ["no-reference"], "{}", run.stderr);
}

#[test]
fn a_continuous_variable_may_follow_a_discrete_one() {
    let session = Session::with_model(
        "model M
           Real x(start=0, fixed=true), y, a(start=1, fixed=true), z;
           Integer n;
         equation
           der(x) = a;
           y = n;
           n = integer(x);
           2*z = a;
           when sample(1, 1) then
             a = -pre(a);
           end when;
         end M;",
    );
    let document = session.check();
    assert_eq!(codes(&document), Vec::<&str>::new(), "{document:#}");
    assert_eq!(document["size"]["equations"], 5);
    assert_eq!(document["structure"]["degrees_of_freedom"], 1);
}

/// Start conditions that are equations: a state given directly where its default has no derivative, and a rest that is
/// found.
#[test]
fn start_conditions_may_be_equations() {
    let session = Session::with_model(
        "model Decay Real x; initial equation x = 1; equation der(x) = if x >= 0 then -sqrt(x) else 0; end Decay;",
    );
    assert_eq!(codes(&session.check()), Vec::<&str>::new());
    let session = Session::with_model(
        "model Rest
           Real x(start=10), y(start=10);
         initial equation
           der(x) = 0;
           der(y) = 0;
         equation
           der(x) = x*(0.1 - 0.02*y);
           der(y) = -y*(0.3 - 0.01*x);
         end Rest;",
    );
    let document = session.check();
    assert_eq!(document["initial"]["consistent"], true, "{document:#}");
    let used = |name: &str| document["initial"]["changed"][name][1].as_f64().unwrap();
    // Either rest: (30, 5) or (0, 0).
    let (x, y) = (used("x"), used("y"));
    assert!((0.1 * x - 0.02 * x * y).abs() < 1e-8 && (0.3 * y - 0.01 * x * y).abs() < 1e-8, "{x} {y}");
}

/// The Jacobian of x^2 + y^2 = 1 vanishes at the default start y = 0: the search begins again beside it.
#[test]
fn a_search_that_starts_at_a_singular_point_begins_again_beside_it() {
    let session = Session::with_model("model Algebraic Real x, y; equation x^2 + y^2 = 1; x = 0.6; end Algebraic;");
    let table = session.run(&["simulate", "model.mo"]).table();
    assert!(table.column("y").iter().all(|y| (y.abs() - 0.8).abs() < 1e-9));
}

/// A flow that is set to zero although nothing is connected is zero twice.
#[test]
fn a_duplicate_says_where_the_second_comes_from() {
    let session = Session::with_model(
        "package P
           connector Pin Real v; flow Real i; end Pin;
           model M
             Pin a;
           equation
             a.v = 1;
             a.i = 0;
           end M;
         end P;",
    );
    let run = session.run(&["check", "model.mo"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("because nothing is connected here"), "{}", run.stderr);
}

/// sqrt has a value at 0 and asin at 1; only their slopes have none. der(x) = 1 + sqrt(x) from 0: with u = sqrt(x), t =
/// 2 (u - log(1 + u)).
#[test]
fn a_finite_value_with_an_infinite_slope_is_no_obstacle() {
    let run = Session::with_model(
        "model M Real x(start = 0, fixed = true); equation der(x) = 1 + sqrt(x);
         annotation(experiment(Tolerance=1e-8)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stderr.contains("singular-slope"), "{}", run.stderr);
    let table = run.table();
    for (time, x) in table.column("t").iter().zip(table.column("x")) {
        let root = x.max(0.0).sqrt();
        let reached = 2.0 * (root - (1.0 + root).ln());
        assert!((reached - time).abs() < 1e-6, "t = {time}: {x}");
    }
    let run = Session::with_model(
        "model M Real x(start = -1, fixed = true), y, z(start = 0, fixed = true);
         equation y = abs(x); der(x) = sin(y); der(z) = asin(y); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

/// Of all roots of cos(x) = time the one near the start value is meant.
#[test]
fn a_root_near_the_start_value_is_preferred() {
    let run =
        Session::with_model("model M Real x(start = 0); equation cos(x) = time; end M;").run(&["simulate", "model.mo"]);
    let table = run.table();
    assert!((table.column("x")[0] - std::f64::consts::FRAC_PI_2).abs() < 1e-8, "{:?}", table.column("x")[0]);
}

/// Values whose squares overflow have an answer like all others.
#[test]
fn large_values_do_not_stop_the_first_step() {
    for size in [1e100, 1e150, 1e300] {
        let run = Session::with_model(&format!(
            "model M Real x(start = 0, fixed = true); equation der(x) = {size:e} - x; end M;"
        ))
        .run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let found = *run.table().column("x").last().unwrap() / size;
        assert!((found - (1.0 - (-1.0f64).exp())).abs() < 1e-5, "{size:e}: {found}");
    }
}

/// Constraints of large values hold as well as rounding lets them, which is not to nine digits after the point.
#[test]
fn a_constraint_that_is_off_by_rounding_is_satisfied() {
    let run = Session::with_model(
        "model M Real x(start=1, fixed=true), y(start=0), z;
         equation der(x) = 16*x + z; 3*der(y) + der(z) = 3*x - sin(time); x - y - 0.1*z = 0;
         annotation(experiment(StopTime=2, Interval=0.5)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

/// At a root of higher order the matrix of the equations vanishes while the solution goes on.
#[test]
fn roots_of_higher_order_are_followed_and_told() {
    let cases = [
        ("x^3 = time", "0", 1.0),
        ("x^2 = time", "0", 1.0),
        ("x*abs(x) = time", "0", 1.0),
        ("x^3 = sin(time)", "0", 0.944_089_241_2),
        ("x^3 = time^3", "0", 1.0),
        ("x^3 = time - 0.5", "-1", 0.793_700_526_0),
        ("x^5 = time - 0.5", "-1", 0.870_550_563_3),
    ];
    for (equation, start, last) in cases {
        let model = format!("model M Real x(start = {start}); equation {equation}; end M;");
        let run = Session::with_model(&model).run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{equation}: {}", run.stderr);
        assert!(run.stderr.contains("multiple-root"), "{equation}: {}", run.stderr);
        let found = *run.table().column("x").last().expect("rows");
        assert!((found - last).abs() < 1e-6, "{equation}: {found} instead of {last}");
    }
}
