//! Experiments before there are data: what they could tell, and better ones.

use serde_json::Value;

use crate::session::{Session, Table, finding};

/// A mass on a spring, linear.
const SPRING: &str = "model Spring
  parameter Real m = 1, c = 4, d = 0.4;
  input Real u, w;
  Real x(start = 0, fixed = true), v(start = 0, fixed = true);
equation
  der(x) = v;
  m*der(v) = u + w - c*x - d*v;
end Spring;";

fn study(unknown: &str, more: &str) -> String {
    format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\n{unknown}\n[inputs]\nu = {{ column = \"u\" }}\n\
         [measurements]\nx = {{ std = 0.05 }}\nv = {{ std = 5 }}\n{more}\n"
    )
}

const DESIGN: &str = "[design]\nduration = 20\nstep = 0.1\ncriterion = \"d\"\n";

fn error(document: &Value, which: &str, name: &str) -> f64 {
    document[which]["std_errors"][name].as_f64().unwrap_or_else(|| panic!("{which} {name} in {document}"))
}

#[test]
fn what_cannot_be_told_apart_is_named() {
    // Only ratios of mass, stiffness, damping and the size of the force show.
    let model = SPRING.replace("u + w", "g*u + w").replace("m = 1,", "m = 1, g = 1,");
    let unknown = "m = { start = 1, min = 0.5, max = 2 }\nc = { start = 4, min = 1, max = 9 }\n\
                   d = { start = 0.4, min = 0.1, max = 1 }\ng = { start = 1, min = 0.5, max = 2 }";
    let more = "[design]\nduration = 20\nstep = 0.1\ninputs = { u = { kind = \"prbs\", min = -1, max = 1 } }\n";
    let session = Session::with_model(&model).with("study.toml", &study(unknown, more));
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["identifiable"]["rank"], 3);
    assert_eq!(document["identifiable"]["n_unknown"], 4);
    let flat = document["identifiable"]["flat_directions"][0].as_object().unwrap();
    // All four by the same factor.
    let relative: Vec<f64> = [("m", 1.0), ("c", 4.0), ("d", 0.4), ("g", 1.0)]
        .into_iter()
        .map(|(name, value)| flat[name].as_f64().unwrap() / value)
        .collect();
    assert!(flat.len() == 4 && relative.iter().all(|it| it.is_finite()), "{flat:?}");
    assert!(document["planned"]["std_errors"]["m"].is_null());
    let known = study("c = { start = 4 }\nd = { start = 0.4 }", DESIGN);
    let plan = known.replace("criterion = \"d\"\n", "inputs = { u = { kind = \"prbs\", min = -1, max = 1 } }\n");
    let run = Session::with_model(SPRING).with("study.toml", &plan).run(&["design", "study.toml", "--json"]);
    assert_eq!(run.json()["identifiable"]["rank"], 2);
}

#[test]
fn a_designed_input_tells_more_about_the_damping_than_steps() {
    let more = format!(
        "{DESIGN}inputs = {{ u = {{ kind = \"steps\", min = -1, max = 1, pieces = 40 }} }}\n\
         [disturbances]\nw = {{ std = 0.1, time_constant = 1.0 }}"
    );
    let session =
        Session::with_model(SPRING).with("study.toml", &study("c = { start = 4 }\nd = { start = 0.4 }", &more));
    let run = session.run(&[
        "design",
        "study.toml",
        "-o",
        "input.csv",
        "--save",
        "ready.toml",
        "--report",
        "page.html",
        "--json",
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let (plain, designed) = (error(&document, "planned", "d"), error(&document, "designed", "d"));
    assert!(designed < 0.7 * plain, "{plain} {designed}");
    assert_eq!(document["input"], "input.csv");
    let table = Table::parse(&std::fs::read_to_string(session.path("input.csv")).unwrap());
    assert_eq!(table.names, ["t", "u"]);
    assert!(table.rows.len() == 201 && table.column("u").iter().all(|u| (-1.0..=1.0).contains(u)));
    // The saved study runs with the designed input.
    let run = session.run(&["simulate", "ready.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

/// The expected standard error against the spread of estimates over artificial records.
#[test]
fn expected_errors_are_those_of_estimates() {
    let more = format!("{DESIGN}inputs = {{ u = {{ kind = \"prbs\", min = -1, max = 1 }} }}\n");
    let text = study("c = { start = 4 }\nd = { start = 0.4 }", &more);
    let session = Session::with_model(SPRING).with("study.toml", &text);
    let run = session.run(&["design", "study.toml", "-o", "input.csv", "--save", "ready.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let expected = error(&run.json(), "designed", "c");
    let run = session.run(&["simulate", "ready.toml", "-o", "run.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let truth = Table::parse(&std::fs::read_to_string(session.path("run.csv")).unwrap());
    let (times, x, v) = (truth.column("t"), truth.column("x"), truth.column("v"));
    let input = Table::parse(&std::fs::read_to_string(session.path("input.csv")).unwrap());
    let mut estimates = Vec::new();
    let mut state = 1u64;
    let mut normal = || {
        let sum: f64 = (0..12)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1u64 << 53) as f64
            })
            .sum();
        sum - 6.0
    };
    let mut session = session;
    for _ in 0..24 {
        let mut data = "t,u,x,v\n".to_owned();
        for (row, &u) in input.column("u").iter().enumerate() {
            let at = times.iter().rposition(|time| (time - input.rows[row][0]).abs() < 1e-9).unwrap();
            let (x, v) = (x[at] + 0.05 * normal(), v[at] + 5.0 * normal());
            data.push_str(&format!("{},{u},{x},{v}\n", times[at]));
        }
        session = session.with("record.csv", &data);
        let run = session.run(&["identify", "ready.toml", "--data", "record.csv", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        estimates.push(run.json()["parameters"][0]["estimate"].as_f64().unwrap());
    }
    let n = estimates.len() as f64;
    let found = (estimates.iter().map(|c| (c - 4.0).powi(2)).sum::<f64>() / n).sqrt();
    // Four standard deviations of a root of a mean of squares.
    assert!((found / expected - 1.0).abs() < 4.0 / (2.0 * n).sqrt(), "{found} {expected}");
}

#[test]
fn the_better_sensor_is_chosen() {
    let more = format!("{DESIGN}sensors = [\"x\", \"v\"]\nchoose = 1\ninputs = {{ u = {{ min = -1, max = 1 }} }}\n");
    let session =
        Session::with_model(SPRING).with("study.toml", &study("c = { start = 4 }\nd = { start = 0.4 }", &more));
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.json()["sensors"], serde_json::json!(["x"]));
}

#[test]
fn a_nonlinear_experiment_is_judged_and_mistakes_are_told() {
    let model = "model Tank parameter Real k = 0.5; input Real u, w; Real h(start = 1, fixed = true);
equation der(h) = u + w - k*sqrt(h); end Tank;";
    let text = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.5, min = 0.1, max = 1 }\n\
                [inputs]\nu = { column = \"u\" }\n[disturbances]\nw = { std = 0.02, time_constant = 1 }\n\
                [measurements]\nh = { std = 0.02 }\n[design]\nduration = 10\nstep = 0.5\n\
                inputs = { u = { kind = \"prbs\", min = 0.3, max = 0.7, pieces = 5 } }\n";
    let session = Session::with_model(model).with("study.toml", text);
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["identifiable"]["rank"], 1);
    assert!(error(&document, "designed", "k") <= error(&document, "planned", "k"));
    for (old, new, code) in [
        ("min = 0.3, max = 0.7", "min = 0.7, max = 0.3", "design"),
        ("u = { kind", "z = { kind", "design"),
        ("step = 0.5", "step = 0.5\ncriterion = \"F\"", "design"),
        ("duration = 10\n", "", "design"),
        ("step = 0.5", "step = 0.5\nsensors = [\"q\"]", "design"),
    ] {
        let session = Session::with_model(model).with("study.toml", &text.replace(old, new));
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{new}: {}", run.stdout);
        finding(&run.json(), code);
    }
}
