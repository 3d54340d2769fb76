//! A linear model and its twin with a term of 1e-12 that makes it nonlinear: they go by different roads, and must give
//! the same numbers, or the second must say by name what it cannot do.

use serde_json::Value;

use crate::session::{Run, Session, codes};

const MODEL: &str = "model M
  parameter Real k = 1.3;
  parameter Real x0 = 0.4;
  input Real u;
  Real x(start = x0, fixed = true), y, v;
equation
  der(x) = -k*x + u + TERM;
  y = 2*x + 0.1*u;
  v + y = 3*u;

end M;
";

/// Samples at steps of 0.1, the fourth and the last without a value, and a second record.
fn data(shift: f64, has_gaps: bool) -> String {
    let mut text = "t,u,y\n".to_owned();
    for row in 0..=20u32 {
        let t = 0.1 * f64::from(row);
        let y = 0.9 * (1.0 - (-1.2 * t).exp()) + 0.01 * f64::from(row * 7 % 5) + shift;
        let value = if has_gaps && (row == 4 || row == 20) { String::new() } else { y.to_string() };
        text.push_str(&format!("{t},{},{value}\n", if row < 9 { 1.0 } else { 0.4 }));
    }
    text
}

/// What a study may hold beside the model, by section.
struct Case {
    input: &'static str,
    measured: &'static str,
    more: &'static str,
    files: &'static str,
    has_gaps: bool,
}

const PLAIN: Case = Case {
    input: "{ column = \"u\" }",
    measured: "{ std = 0.05 }",
    more: "",
    files: "file = \"a.csv\"",
    has_gaps: false,
};

fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("plain", PLAIN),
        ("gaps", Case { has_gaps: true, ..PLAIN }),
        ("straight lines", Case { input: "{ column = \"u\", hold = \"foh\" }", ..PLAIN }),
        ("a spline", Case { input: "{ column = \"u\", hold = \"cubic\" }", ..PLAIN }),
        ("a break", Case { input: "{ expression = \"if time < 0.73 then 1 else 0.2\" }", ..PLAIN }),
        ("impulses", Case { input: "{ impulses = [{ time = 0.55, area = 0.7 }] }", ..PLAIN }),
        ("an unknown accuracy", Case { measured: "{ std = \"0.05*k\" }", ..PLAIN }),
        ("an accuracy in time", Case { measured: "{ std = \"0.05 + 0.1*time\" }", ..PLAIN }),
        ("a transient", Case { more: "[identify]\ntransient = 0.5\n", ..PLAIN }),
        ("two records", Case { files: "files = [\"a.csv\", \"b.csv\"]", ..PLAIN }),
        ("a start value", Case { more: "[initial]\nx = 0.1\n", ..PLAIN }),
        ("rest", Case { more: "[initial]\nmode = \"stationary\"\n", ..PLAIN }),
        ("zero", Case { more: "[initial]\nmode = \"zero\"\n", ..PLAIN }),
        ("a free start", Case { more: "[initial]\nmode = \"estimate\"\n", ..PLAIN }),
    ]
}

fn cost(term: &str, case: &Case, method: &str) -> Run {
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.0, min = 0.2, max = 4 }}\n[inputs]\nu = {}\n[measurements]\n\
         y = {}\n{}[data]\n{}\n",
        case.input, case.measured, case.more, case.files
    );
    let session = Session::with_model(&MODEL.replace("TERM", term))
        .with("study.toml", &study)
        .with("a.csv", &data(0.0, case.has_gaps))
        .with("b.csv", &data(0.02, case.has_gaps));
    session.run(&["cost", "study.toml", "--json", "--method", method, "--grid", "k=0.8:1.6:3"])
}

/// The codes with which a road may refuse what the other one honours.
const REFUSED_BY_NAME: [&str; 3] = ["impulse-not-followed", "varying-accuracy", "start-not-free"];

#[test]
fn a_linear_model_and_its_curved_twin_cost_the_same() {
    let mut n_compared = 0;
    for (name, case) in cases() {
        for method in ["output-error", "ml"] {
            let (linear, curved) = (cost("0", &case, method), cost("1e-12*x^3", &case, method));
            let (straight, bent) = (linear.json(), curved.json());
            if curved.status != 0 || linear.status != 0 {
                let is_named = codes(&bent).iter().any(|code| REFUSED_BY_NAME.contains(code));
                assert!(is_named, "{name} by {method}: {} {}", linear.stderr, curved.stderr);
                continue;
            }
            let values = |document: &Value| -> Vec<f64> {
                document["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
            };
            for (linear, curved) in values(&straight).iter().zip(values(&bent)) {
                let is_same = (linear - curved).abs() <= 1e-4 * linear.abs().max(1e-2);
                assert!(is_same, "{name} by {method}: {curved} instead of {linear}");
                n_compared += 1;
            }
        }
    }
    assert!(n_compared >= 40, "{n_compared} compared");
}

/// Samples of the model under u = 1 from a start, in closed form, with errors of 0.05.
fn decay(start: f64, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = "t,u,y\n".to_owned();
    for row in 0..=40u32 {
        let t = 0.1 * f64::from(row);
        let x = 1.0 / 1.3 + (start - 1.0 / 1.3) * (-1.3 * t).exp();
        // The sum of twelve uniform numbers has the variance 1.
        let error = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        text.push_str(&format!("{t},1,{}\n", 2.0 * x + 0.1 + 0.05 * error));
    }
    text
}

/// A start that is estimated: the exact likelihood of the linear model has it as its own, the other roads as unknowns of
/// each record. Values, errors and the number of what is counted must be the same.
#[test]
fn a_linear_model_and_its_curved_twin_are_found_alike_with_a_free_start() {
    let identified = |term: &str, more: &str, method: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.0, min = 0.2, max = 4 }}\n[inputs]\n\
             u = {{ column = \"u\" }}\n[initial]\nmode = \"estimate\"\n{more}[measurements]\ny = {{ std = 0.05 }}\n\
             [data]\nfiles = [\"a.csv\", \"b.csv\"]\n"
        );
        let disturbed = MODEL.replace("input Real u;", "input Real u, w(start = 0);").replace("+ u +", "+ u + w +");
        let session = Session::with_model(&disturbed.replace("TERM", term))
            .with("study.toml", &study)
            .with("a.csv", &decay(0.9, 1))
            .with("b.csv", &decay(-0.4, 2));
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        run.json()
    };
    let quiet = "[inputs.w]\nexpression = \"0\"\n";
    let noisy = "[disturbances]\nw = { std = 0.02, time_constant = 0.5 }\n";
    for (more, methods) in [(quiet, &["output-error", "ml", "pem"][..]), (noisy, &["ml"])] {
        let linear = identified("0", more, "ml");
        let known = &linear["parameters"][0];
        for method in methods {
            let curved = identified("1e-12*x^3", more, method);
            let parameters = curved["parameters"].as_array().unwrap();
            let of = |at: usize, key: &str| parameters[at][key].as_f64().unwrap();
            let names: Vec<&str> = parameters.iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["k", "start(x)[1]", "start(x)[2]"]);
            let (error, slack) = (known["std_error"].as_f64().unwrap(), if more == noisy { 2e-2 } else { 1e-3 });
            let away = (of(0, "estimate") - known["estimate"].as_f64().unwrap()).abs() / error;
            assert!(away < slack, "{method}: {away} standard errors away");
            for record in 0..2 {
                let start = linear["initial"][record]["x"].as_f64().unwrap();
                let away = (of(1 + record, "estimate") - start).abs() / of(1 + record, "std_error");
                assert!(away < slack, "{method}, record {record}: {away} standard errors away");
            }
            assert!((of(0, "std_error") / error - 1.0).abs() < slack, "{method}: {} for {error}", of(0, "std_error"));
            if *method == "ml" {
                let (one, other) = (linear["aic"].as_f64().unwrap(), curved["aic"].as_f64().unwrap());
                assert!((one - other).abs() < 1e-2, "{one} {other}");
            }
        }
    }
}

/// `d5` is the fifth derivative of sin(20 t), by differentiating an equation five times.
#[test]
fn derivatives_of_functions_of_time_are_exact_at_samples() {
    let model = |function: &str| {
        format!(
            "model M input Real r; input Real w; Real p, d1, d2, d3, d4, d5; Real q(start = 0, fixed = true);
             equation der(q) = -q + w; p = {function}; d1 = der(p); d2 = der(d1); d3 = der(d2); d4 = der(d3);
             d5 = der(d4); end M;"
        )
    };
    let study = "[model]\nfile = \"model.mo\"\n[inputs]\nr = { expression = \"sin(20*time)\" }\n\
                 [disturbances]\nw = { std = 1e-9, time_constant = 0.5 }\n[data]\nfile = \"d.csv\"\n\
                 [measurements]\nq = { std = 0.1 }\n[estimate]\nsignals = [\"d5\"]\n";
    for function in ["r", "sin(20*time)"] {
        let session = Session::with_model(&model(function))
            .with("study.toml", study)
            .with("d.csv", "t,q\n0,0.1\n1,0.1\n2,0.1\n3.5,0.1\n");
        let table = session.run(&["estimate", "study.toml"]).table();
        for (t, d5) in table.column("t").iter().zip(table.column("d5")) {
            let exact = 20f64.powi(5) * (20.0 * t).cos();
            assert!((d5 - exact).abs() < 1e-12 * 20f64.powi(5), "{function} at {t}: {d5} is not {exact}");
        }
    }
}

/// A pulse of width 0.01 between samples a second apart: its area is 0.5 sqrt(pi), and its tails are 1e-300.
#[test]
fn a_pulse_between_samples_is_seen() {
    let area = 0.5 * std::f64::consts::PI.sqrt();
    // The answer to the pulse at 1.7, of which the finite width changes (k s)^2 / 4.
    let at = |t: f64| area * (-1.5 * (t - 1.7)).exp() * (1.0 + (1.5f64 * 0.01).powi(2) / 4.0);
    let data = format!("t,x\n0,0\n1,0\n2,{}\n3,{}\n", at(2.0), at(3.0));
    let session = Session::with_model(
        "model M input Real u; parameter Real k = 1; Real x(start = 0, fixed = true); equation der(x) = -k*x + u; end M;",
    )
    .with("d.csv", &data)
    .with(
        "study.toml",
        "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.2, min = 0.1, max = 5 }\n\
         [inputs]\nu = { expression = \"exp(-((time-1.7)/0.01)^2)*50\" }\n[data]\nfile = \"d.csv\"\n\
         [measurements]\nx = { std = 0.01 }\n",
    );
    for method in ["ml", "output-error"] {
        let run = session.run(&["identify", "study.toml", "--method", method, "--json"]);
        let k = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((k - 1.5).abs() < 1e-6, "{method}: {k}");
    }
}

/// What was measured before `[simulate] start` is no part of the experiment: the model starts there.
#[test]
fn a_start_within_the_record_is_the_start_on_both_roads() {
    let mut data = "t,x\n".to_owned();
    for row in 0..=12u32 {
        let t = 0.5 * f64::from(row);
        data.push_str(&format!("{t},{}\n", if t < 2.0 { 7.0 } else { (-1.5 * (t - 2.0)).exp() }));
    }
    for term in ["0", "1e-12*x^2"] {
        let model =
            "model M parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x + TERM; end M;";
        let session = Session::with_model(&model.replace("TERM", term)).with("d.csv", &data).with(
            "study.toml",
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1, min = 0.1, max = 5 }\n[data]\nfile = \"d.csv\"\n\
             [measurements]\nx = { std = 0.1 }\n[estimate]\nsignals = [\"x\"]\n[simulate]\nstart = 2\n",
        );
        for method in ["ml", "pem", "output-error"] {
            let run = session.run(&["identify", "study.toml", "--method", method, "--json"]);
            let k = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
            // A search ends within a small part of the standard error, here 0.06.
            assert!((k - 1.5).abs() < 1e-3, "{term}, {method}: {k}");
        }
        let table = session.run(&["estimate", "study.toml"]).table();
        assert_eq!(table.column("t")[0], 2.0, "{term}");
    }
}

/// At the last sample the slope of an interpolated input is the one before it, on every road.
#[test]
fn slopes_at_the_last_sample_are_those_before_it() {
    for (term, hold) in [("0", "foh"), ("1e-12*x^2", "foh"), ("0", "cubic"), ("1e-12*x^2", "cubic")] {
        let model = "model M input Real u; Real p, d; Real x(start = 1, fixed = true); parameter Real k = 1;
                     equation p = u; d = der(p); der(x) = -k*x + d + TERM; end M;";
        let session = Session::with_model(&model.replace("TERM", term))
            .with("d.csv", "t,u,d\n0,0,2\n1,2,2\n2,4,2\n3,6,2\n")
            .with(
                "study.toml",
                &format!(
                    "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1 }}\n\
                     [inputs]\nu = {{ column = \"u\", hold = \"{hold}\" }}\n[data]\nfile = \"d.csv\"\n\
                     [measurements]\nd = {{ std = 0.1 }}\n[estimate]\nsignals = [\"d\"]\n"
                ),
            );
        let table = session.run(&["estimate", "study.toml"]).table();
        assert!(table.column("d").iter().all(|d| (d - 2.0).abs() < 1e-12), "{term}, {hold}: {:?}", table.column("d"));
        let simulated = session.run(&["simulate", "study.toml"]).table();
        assert!(simulated.column("d").iter().all(|d| (d - 2.0).abs() < 1e-12), "{term}, {hold}");
        for method in ["pem", "output-error"] {
            let run = session.run(&["cost", "study.toml", "--grid", "k=1:2:2", "--method", method, "--json"]);
            assert!(run.json()["values"][0].as_f64().unwrap().abs() < 1e-12, "{term}, {hold}, {method}");
        }
    }
}

/// Functions that stay programs read unknowns in lanes too: they give the rate 5 c x, as the linear twin says.
#[test]
fn functions_kept_as_programs_read_unknowns_in_lanes() {
    let scalar = "function f input Real a; input Real k; output Real y; protected Integer i = 1; algorithm y := 0;
          while i <= 5 and i*a <= 20 loop y := y + a*k; i := i + 1; end while; end f;";
    let array = "function f input Real a[:]; input Real k; output Real y; protected Integer i = 1; algorithm y := 0;
          while true loop y := y + a[2]*k; i := i + 1; if i > 5 or i*a[1] > 20 then break; end if; end while; end f;";
    let data: String =
        (0..=20).map(|row| 0.1 * f64::from(row)).map(|t| format!("{t},{}\n", (-5.0 * t).exp())).collect();
    let costs = |function: &str, rate: &str, method: &str| -> Vec<f64> {
        let model = format!(
            "model M {function} parameter Real k = 1, c = 1; Real x(start = 1, fixed = true);
             equation der(x) = -{rate}; end M;"
        );
        let session = Session::with_model(&model).with("d.csv", &format!("t,x\n{data}")).with(
            "study.toml",
            "[model]\nfile = \"model.mo\"\n[unknown]\nc = { start = 1.0, min = 0.5, max = 2 }\n\
             [data]\nfile = \"d.csv\"\n[measurements]\nx = { std = 0.01 }\n",
        );
        let run = session.run(&["cost", "study.toml", "--json", "--method", method, "--grid", "c=0.9:1.1:3"]);
        let document = run.json();
        document["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    for method in ["output-error", "pem", "ml"] {
        let expected = costs("", "5*c*x", method);
        let size = expected.iter().fold(0.0f64, |size, value| size.max(value.abs()));
        let programs = [(scalar, "f(x, c)"), (scalar, "x*f(c, 1)"), (array, "f({x, c}, x)"), (array, "x*f({k, c}, k)")];
        for (function, rate) in programs {
            for (cost, expected) in costs(function, rate, method).iter().zip(&expected) {
                assert!((cost - expected).abs() < 1e-4 * size, "{rate} by {method}: {cost} instead of {expected}");
            }
        }
    }
}
