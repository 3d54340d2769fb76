//! Linearization against closed forms, sweeps over parameters, and the choice of the method of integration.

use serde_json::Value;

use crate::session::{Session, Table, finding};

fn matrix(document: &Value, key: &str) -> Vec<Vec<f64>> {
    let rows = document[key].as_array().unwrap_or_else(|| panic!("{key}: {document}"));
    rows.iter().map(|row| row.as_array().unwrap().iter().map(|entry| entry.as_f64().unwrap()).collect()).collect()
}

fn names(document: &Value, key: &str) -> Vec<String> {
    document[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn close(found: &[Vec<f64>], wanted: &[&[f64]]) {
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (found, wanted) in found.iter().zip(*wanted) {
            assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{found} instead of {wanted}");
        }
    }
}

fn read(session: &Session, name: &str) -> String {
    std::fs::read_to_string(session.path(name)).unwrap()
}

fn linearized(session: &Session, arguments: &[&str]) -> Value {
    let run = session.run(&[&["linearize", "model.mo", "--json"], arguments].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()
}

/// c der(v) = (u - v)/r - k v^2, with the current as an algebraic variable.
const CIRCUIT: &str = "model Circuit
  parameter Real r = 2, c = 0.5, k = 3;
  input Real u;
  Real v(start = 1, fixed = true), i;
  output Real p = u*i;
equation
  c*der(v) = i - k*v^2;
  r*i = u - v;
end Circuit;
";

#[test]
fn algebraic_variables_are_eliminated_from_a_linearization() {
    let session = Session::with_model(CIRCUIT);
    let document = linearized(&session, &["--at", "u=4", "--at", "v=0.7"]);
    assert_eq!(names(&document, "states"), ["v"]);
    assert_eq!(names(&document, "inputs"), ["u"]);
    assert_eq!(names(&document, "outputs"), ["p"]);
    // i = (4 - 0.7)/2, p = u i
    close(&matrix(&document, "A"), &[&[(-0.5 - 6.0 * 0.7) / 0.5]]);
    close(&matrix(&document, "B"), &[&[1.0]]);
    close(&matrix(&document, "C"), &[&[-2.0]]);
    close(&matrix(&document, "D"), &[&[1.65 + 2.0]]);
    close(&matrix(&document, "poles"), &[&[-9.4, 0.0]]);
    assert_eq!(document["at"]["rest"], false);
    assert_eq!(document["at"]["states"]["v"], 0.7);
    assert_eq!(document["at"]["inputs"]["u"], 4.0);
}

#[test]
fn a_linearization_at_rest_or_at_a_time_is_where_the_trajectory_is() {
    let session = Session::with_model(CIRCUIT);
    // 3 v^2 + v/2 - 2 = 0
    let rest = (-0.5 + f64::sqrt(0.25 + 24.0)) / 6.0;
    let document = linearized(&session, &["--at", "rest", "--at", "u=4"]);
    close(&matrix(&document, "A"), &[&[(-0.5 - 6.0 * rest) / 0.5]]);
    assert_eq!(document["at"]["rest"], true, "{document}");
    let decay = Session::with_model("model D Real x(start = 1, fixed = true); equation der(x) = -x^3; end D;");
    // x^2 = 1/(1 + 2 t)
    let document = linearized(&decay, &["--at", "1.5"]);
    let found = matrix(&document, "A")[0][0];
    assert!((found + 0.75).abs() < 1e-4, "{found}");
    assert_eq!(names(&document, "outputs"), ["x"]);
    let early = decay.run(&["linearize", "model.mo", "--at", "-1"]);
    assert_eq!(early.status, 2, "{}", early.stderr);
}

#[test]
fn an_index_three_model_has_its_free_states_only() {
    let session = Session::with_model(
        "model Pendulum
  parameter Real length = 2, g = 9.81;
  input Real push;
  Real x(start = 0), y(start = -2), vx, vy, force;
  output Real angle = x/length;
equation
  der(x) = vx; der(y) = vy;
  der(vx) = -force*x + push; der(vy) = -force*y - g;
  x^2 + y^2 = length^2;
end Pendulum;
",
    );
    let document = linearized(&session, &["--at", "x=0", "--at", "vx=0"]);
    assert_eq!(names(&document, "states"), ["x", "vx"]);
    close(&matrix(&document, "A"), &[&[0.0, 1.0], &[-9.81 / 2.0, 0.0]]);
    close(&matrix(&document, "B"), &[&[0.0], &[1.0]]);
    close(&matrix(&document, "C"), &[&[0.5, 0.0]]);
    close(&matrix(&document, "D"), &[&[0.0]]);
    let frequency = f64::sqrt(9.81 / 2.0);
    let poles = matrix(&document, "poles");
    assert!(poles.iter().all(|pole| pole[0].abs() < 1e-9 && (pole[1].abs() - frequency).abs() < 1e-9), "{poles:?}");
}

#[test]
fn an_input_that_acts_through_its_derivative_has_a_column_of_that_name() {
    // Two capacitors in parallel with a source: c1 der(u) flows whatever the state; index 2.
    let session = Session::with_model(
        "model Parallel
  parameter Real c = 3, r = 2, l = 5;
  input Real u;
  Real v, ic, il(start = 0, fixed = true);
  output Real i = ic + il;
equation
  v = u;
  ic = c*der(v);
  l*der(il) = v - r*il;
end Parallel;
",
    );
    let document = linearized(&session, &[]);
    assert_eq!(names(&document, "states"), ["il"]);
    assert_eq!(names(&document, "inputs"), ["u", "der(u)"]);
    close(&matrix(&document, "A"), &[&[-0.4]]);
    close(&matrix(&document, "B"), &[&[0.2, 0.0]]);
    close(&matrix(&document, "C"), &[&[1.0]]);
    close(&matrix(&document, "D"), &[&[0.0, 3.0]]);
    let codes: Vec<&str> =
        document["findings"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"input-derivative"), "{codes:?}");
    // Where the derivative has no effect, there is no column for it.
    let document = linearized(&session, &["--outputs", "il,v"]);
    assert_eq!(names(&document, "inputs"), ["u"]);
    close(&matrix(&document, "D"), &[&[0.0], &[1.0]]);
}

#[test]
fn a_linearization_names_what_it_does_not_know_and_writes_what_was_asked() {
    let session = Session::with_model(CIRCUIT);
    for (option, name, near) in [("--inputs", "uu", "`u`"), ("--outputs", "pp", "`p`"), ("--at", "vv=1", "`v`")] {
        let run = session.run(&["linearize", "model.mo", option, name]);
        assert_eq!(run.status, 1, "{}", run.stderr);
        assert!(run.stderr.contains(near), "{}", run.stderr);
    }
    let parameter = session.run(&["linearize", "model.mo", "--at", "r=1"]);
    assert_eq!(parameter.status, 2);
    assert!(parameter.stderr.contains("--set r=1"), "{}", parameter.stderr);
    assert_eq!(session.run(&["linearize", "model.mo", "-o", "out.csv"]).status, 2);
    let run = session.run(&["linearize", "model.mo", "-o", "out.py", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(read(&session, "out.py").contains("control.ss(A, B, C, D"));
    let page = read(&session, "page.html");
    assert!(page.contains("gain in dB") && page.contains("Poles"));
    assert_eq!(session.run(&["linearize", "model.mo", "-o", "out.json"]).status, 0);
    let written: Value = serde_json::from_str(&read(&session, "out.json")).unwrap();
    assert_eq!(written["states"][0], "v");
}

const DECAY: &str = "model Decay
  parameter Real k = 1, a = 1;
  Real x(start = a, fixed = true);
equation
  der(x) = -k*x;
  annotation(experiment(StopTime = 1, Interval = 0.5, Tolerance = 1e-9));
end Decay;
";

#[test]
fn a_sweep_is_one_table_with_the_parameters_as_columns() {
    let session = Session::with_model(DECAY);
    let run = session.run(&["simulate", "model.mo", "--set", "k=1:3:3", "--set", "a=1:2:2", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = read(&session, "out.csv");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("t,k,a,x,der(x)"));
    let rows: Vec<Vec<f64>> = lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len(), 6 * 3);
    // The last one runs fastest.
    let points: Vec<(f64, f64)> = rows.iter().step_by(3).map(|row| (row[1], row[2])).collect();
    assert_eq!(points, [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0), (2.0, 2.0), (3.0, 1.0), (3.0, 2.0)]);
    for row in &rows {
        let exact = row[2] * f64::exp(-row[1] * row[0]);
        assert!((row[3] - exact).abs() < 1e-7, "{row:?}");
    }
    let document = run.json();
    assert_eq!(document["sweep"]["parameters"]["k"].as_array().unwrap().len(), 3);
    assert_eq!(document["sweep"]["runs"][4]["set"]["k"], 3.0);
    assert_eq!(document["sweep"]["runs"][4]["first_row"], 12);
    for wrong in ["k=1:3", "k=1:3:0", "k=1:x:3"] {
        assert_eq!(session.run(&["simulate", "model.mo", "--set", wrong]).status, 2, "{wrong}");
    }
    let other = session.run(&["check", "model.mo", "--set", "k=1:3:3"]);
    assert_eq!(other.status, 2);
    assert!(other.stderr.contains("only `daesy simulate`"), "{}", other.stderr);
    let unknown = session.run(&["simulate", "model.mo", "--set", "kk=1:3:3"]);
    assert_eq!(unknown.status, 1);
    assert!(unknown.stderr.contains("`k`"), "{}", unknown.stderr);
}

#[test]
fn a_point_of_a_sweep_that_fails_is_named_and_the_others_are_kept() {
    let session = Session::with_model(
        "model M parameter Real b = 1; Real x(start = 1, fixed = true); equation der(x) = b*x^2;
annotation(experiment(StopTime = 1.5, Interval = 0.5)); end M;",
    );
    let run = session.run(&["simulate", "model.mo", "--set", "b=0.1:1:2", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 3, "{}", run.stderr);
    assert!(run.stderr.contains("b = 1"), "{}", run.stderr);
    let runs = run.json()["sweep"]["runs"].clone();
    assert!(runs[0]["ended_at"].is_null());
    assert!((runs[1]["ended_at"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{runs}");
    let times: Vec<f64> = read(&session, "out.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(times[..6], [0.0, 0.5, 1.0, 1.5, 0.0, 0.5]);
}

#[test]
fn the_method_and_the_longest_step_are_as_asked() {
    let session = Session::with_model(DECAY)
        .with("study.toml", "[model]\nfile = \"model.mo\"\n[simulate]\nmethod = \"radau\"\nmax_step = 0.01\n");
    let document = |arguments: &[&str]| {
        let run = session.run(&[&["simulate"], arguments, &["--json"]].concat());
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()
    };
    let steps = |document: &Value| document["steps"].as_u64().unwrap();
    let factorizations = |document: &Value| document["factorizations"].as_u64().unwrap();
    let explicit = document(&["model.mo", "--method", "explicit"]);
    assert_eq!(factorizations(&explicit), 0, "{explicit}");
    for method in ["radau", "rosenbrock"] {
        assert!(factorizations(&document(&["model.mo", "--method", method])) > 0, "{method}");
    }
    assert!(steps(&explicit) < 50);
    assert!(steps(&document(&["model.mo", "--max-step", "0.01"])) >= 100);
    let of_study = document(&["study.toml"]);
    assert!(steps(&of_study) >= 100 && factorizations(&of_study) > 0, "{of_study}");
    assert!(steps(&document(&["study.toml", "--max-step", "0.5"])) < 100);
    assert_eq!(session.run(&["simulate", "model.mo", "--method", "euler"]).status, 2);
    let session = session.with("wrong.toml", "[model]\nfile = \"model.mo\"\n[simulate]\nmethod = \"euler\"\n");
    let wrong = session.run(&["simulate", "wrong.toml"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.stderr.contains("one of: auto, explicit, rosenbrock, radau"), "{}", wrong.stderr);
}

/// A structural parameter takes variables away and brings others: the table of a sweep has all of them.
#[test]
fn a_sweep_has_the_variables_of_all_its_runs() {
    let session = Session::with_model(
        "model M parameter Integer n = 1; Real x[n] = {10*i*time for i in 1:n}; Real w = 5*time; end M;",
    );
    let run = session.run(&["simulate", "model.mo", "--set", "n=1:2:2", "-o", "o.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = Table::parse_sparse(&std::fs::read_to_string(session.path("o.csv")).unwrap());
    let (t, n, x, w) = (table.column("t"), table.column("n"), table.column("x[2]"), table.column("w"));
    for row in 0..t.len() {
        assert_eq!(w[row], 5.0 * t[row]);
        if n[row] == 1.0 { assert!(x[row].is_nan()) } else { assert_eq!(x[row], 20.0 * t[row]) }
    }
    let run = session.run(&["simulate", "model.mo", "--set", "n=1:2:2", "--set", "n=3"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
}

/// The page of a sweep shows what the study asks for, with units and the model's name.
#[test]
fn the_page_of_a_sweep_shows_what_the_study_asks_for() {
    let model =
        "model Tank parameter Real k = 1; Real h(start = 1, fixed = true, unit = \"m\") \"Level\"; Real v = 2*h;
                 equation der(h) = -k*h; end Tank;";
    let study = "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 1\nstep = 0.1\n[report]\nsignals = [\"v\"]\n";
    let session = Session::with_model(model).with("study.toml", study);
    for (file, is_asked) in [("model.mo", false), ("study.toml", true)] {
        let run = session.run(&["simulate", file, "--set", "k=1:2:2", "--report", "page.html"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let page = std::fs::read_to_string(session.path("page.html")).unwrap();
        assert!(page.contains("Sweep of Tank"));
        assert_eq!(page.contains("h (Level) over time."), !is_asked);
        assert_eq!(page.contains("v over time."), is_asked);
    }
}

/// The equation is explicit in der(x); it is sqrt(x) that has no slope at 0.
#[test]
fn an_infinite_slope_is_named() {
    let session =
        Session::with_model("model M input Real u; Real x(start=0, fixed=true); equation der(x) = u - sqrt(x); end M;");
    let run = session.run(&["linearize", "model.mo", "--json"]);
    let document = run.json();
    let told = finding(&document, "singular-slope");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("slope of `der(x) = u - sqrt(x)` by `x` is infinite"), "{message}");
    assert_eq!(session.run(&["linearize", "model.mo", "--at", "x=1"]).status, 0);
}
