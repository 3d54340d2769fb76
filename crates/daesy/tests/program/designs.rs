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
fn the_best_set_of_sensors_is_chosen_which_the_best_single_one_need_not_be_in() {
    let model = "model Stages parameter Real a = 0.5, b = 0.3; Real x(start = 1, fixed = true);
      Real y(start = 0, fixed = true), z; equation der(x) = -a*x; der(y) = a*x - b*y; z = x + y; end Stages;";
    let run = |criterion: &str, sensors: &[&str], choose: usize| {
        let accuracy = |name: &str| {
            if name == "x" {
                0.02
            } else if name == "y" {
                0.05
            } else {
                0.03
            }
        };
        let signals: String = sensors.iter().map(|name| format!("{name} = {{ std = {} }}\n", accuracy(name))).collect();
        let text = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\na = {{ start = 0.5, min = 0.4, max = 0.6 }}\n\
             b = {{ start = 0.3, min = 0.2, max = 0.4 }}\n[measurements]\n{signals}[design]\nduration = 10\nstep = 0.5\n\
             criterion = \"{criterion}\"\nsensors = {sensors:?}\nchoose = {choose}\n"
        );
        let session = Session::with_model(model).with("study.toml", &text);
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()
    };
    for (criterion, of) in [("a", ["a"].as_slice()), ("b", &["b"]), ("A", &["a", "b"])] {
        let value = |document: &Value| of.iter().map(|name| error(document, "planned", name).powi(2)).sum::<f64>();
        let chosen = run(criterion, &["x", "y", "z"], 2);
        let pairs = [["x", "y"], ["x", "z"], ["y", "z"]].map(|pair| value(&run(criterion, &pair, 2)));
        let best = pairs.into_iter().fold(f64::INFINITY, f64::min);
        assert!((value(&chosen) / best - 1.0).abs() < 1e-9, "{criterion}: {pairs:?}, chosen {}", chosen["sensors"]);
    }
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

/// A model with what is unknown in it and measured, and how many combinations can be told.
struct Known {
    what: &'static str,
    model: &'static str,
    unknown: &'static str,
    measured: &'static str,
    rank: u64,
    /// Unknowns of the flat direction, the first two of which change against each other by the same amount if so said.
    flat: &'static [&'static str],
    is_a_difference: bool,
}

/// Verdicts on models whose answer is known by hand, differential-algebraic ones of index 1, 2 and 3 among them.
#[test]
fn identifiability_is_judged_right_on_models_with_known_answers() {
    const BODY: &str = "model M parameter Real a = 1, b = 0.5, c = 0.3, e = 0.2; input Real u; output Real y, z;";
    let compartments = "Real p(start = 0, fixed = true), q(start = 0, fixed = true);
equation der(p) = u - (a + b)*p + c*q; der(q) = b*p - (c + e)*q; y = p; z = q; end M;";
    let rigid = "Real f(start = 0, fixed = true), g, v(start = 0, fixed = true), w, tau;
equation der(f) = v; der(g) = w; a*der(v) = u - tau - c*v; b*der(w) = tau; f = g; y = f; z = tau; end M;";
    let pendulum =
        "Real p(start = 0.6*a, fixed = true), q(start = -0.8*a), v(start = 0, fixed = true), w, t(start = 1);
equation der(p) = v; der(q) = w; der(v) = -t*p; der(w) = -t*q - 9.81*b; p^2 + q^2 = a^2; y = atan2(p, -q) + 0*u;
z = p; end M;";
    let cases = [
        Known {
            what: "only the sum of two rates shows",
            model: "Real p(start = 1, fixed = true); equation der(p) = u - (a + b)*p; y = p; z = p; end M;",
            unknown: "ab",
            measured: "y",
            rank: 1,
            flat: &["a", "b"],
            is_a_difference: true,
        },
        Known {
            what: "only a product shows",
            model: "Real p(start = 1, fixed = true); equation der(p) = u - a*b*p; y = p; z = p; end M;",
            unknown: "ab",
            measured: "y",
            rank: 1,
            flat: &["a", "b"],
            is_a_difference: false,
        },
        Known {
            what: "rate and gain of a lag",
            model: "Real p(start = 0, fixed = true); equation der(p) = b*u - a*p; y = p; z = p; end M;",
            unknown: "ab",
            measured: "y",
            rank: 2,
            flat: &[],
            is_a_difference: false,
        },
        Known {
            what: "two compartments that both leak, seen in one: three coefficients for four rates",
            model: compartments,
            unknown: "abce",
            measured: "y",
            rank: 3,
            flat: &["a", "b", "c", "e"],
            is_a_difference: false,
        },
        Known {
            what: "the same, seen in both",
            model: compartments,
            unknown: "abce",
            measured: "yz",
            rank: 4,
            flat: &[],
            is_a_difference: false,
        },
        Known {
            what: "index 1: a divider shows the ratio of its resistances",
            model: "Real i; equation u + 2 = (a + b)*i; y = b*i; z = i; end M;",
            unknown: "ab",
            measured: "y",
            rank: 1,
            flat: &["a", "b"],
            is_a_difference: false,
        },
        Known {
            what: "index 1: its current shows both",
            model: "Real i; equation u + 2 = (a + b)*i; y = b*i; z = i; end M;",
            unknown: "ab",
            measured: "yz",
            rank: 2,
            flat: &[],
            is_a_difference: false,
        },
        Known {
            what: "index 2: capacitors side by side across a source",
            model: "Real v(start = 0), i; equation v = u; i = (a + b)*der(v); y = i; z = v; end M;",
            unknown: "ab",
            measured: "y",
            rank: 1,
            flat: &["a", "b"],
            is_a_difference: true,
        },
        Known {
            what: "index 3: bodies rigidly coupled",
            model: rigid,
            unknown: "abc",
            measured: "y",
            rank: 2,
            flat: &["a", "b"],
            is_a_difference: true,
        },
        Known {
            what: "index 3: the torque between them shows both",
            model: rigid,
            unknown: "abc",
            measured: "yz",
            rank: 3,
            flat: &[],
            is_a_difference: false,
        },
        Known {
            what: "index 3: the angle of a pendulum shows gravity over length",
            model: pendulum,
            unknown: "ab",
            measured: "y",
            rank: 1,
            flat: &["a", "b"],
            is_a_difference: false,
        },
        Known {
            what: "index 3: its place shows both",
            model: pendulum,
            unknown: "ab",
            measured: "yz",
            rank: 2,
            flat: &[],
            is_a_difference: false,
        },
    ];
    for Known { what, model, unknown, measured, rank, flat, is_a_difference } in cases {
        let value = |name: char| match name {
            'a' => 1.0,
            'b' => 0.5,
            'c' => 0.3,
            _ => 0.2,
        };
        let unknowns: String = unknown
            .chars()
            .map(|name| {
                let start = value(name);
                format!("{name} = {{ start = {start}, min = {}, max = {} }}\n", 0.9 * start, 1.1 * start)
            })
            .collect();
        let sensors: String = measured.chars().map(|name| format!("{name} = {{ std = 0.01 }}\n")).collect();
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\n{unknowns}[inputs]\n\
             u = {{ column = \"u\", hold = \"foh\" }}\n[measurements]\n{sensors}[design]\nduration = 4\nstep = 0.1\n\
             inputs = {{ u = {{ kind = \"prbs\", min = -1, max = 1, pieces = 8 }} }}\n"
        );
        let session = Session::with_model(&format!("{BODY} {model}")).with("study.toml", &study);
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{what}: {}", run.stderr);
        let document = run.json();
        let found = &document["identifiable"];
        assert_eq!(found["rank"], rank, "{what}: {found}");
        let n_flat = unknown.len() as u64 - rank;
        assert_eq!(found["flat_directions"].as_array().unwrap().len() as u64, n_flat, "{what}: {found}");
        let weight = |name: &str| found["flat_directions"][0][name].as_f64().unwrap_or(0.0);
        for name in unknown.chars().map(String::from) {
            assert_eq!(weight(&name).abs() > 1e-3, flat.contains(&name.as_str()), "{what}: {found}");
        }
        if is_a_difference {
            assert!((weight(flat[0]) + weight(flat[1])).abs() < 1e-3 * weight(flat[0]).abs(), "{what}: {found}");
        }
    }
}

/// One sample of x = e^(-a t) tells most about a where t e^(-a t) is largest: at t = 1/a. On average over points of a
/// prior it is at the inverse of the mean of a there.
#[test]
fn samples_are_taken_where_they_tell_most_also_on_average_over_a_prior() {
    let model =
        "model Decay parameter Real a = 0.5; Real x(start = 1, fixed = true); equation der(x) = -a*x; end Decay;";
    let text = |prior: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\na = {{ start = 0.5, min = 0.01, max = 10{prior} }}\n\
             [measurements]\nx = {{ std = 1e-3 }}\n[design]\nduration = 10\nstep = 0.1\nsamples = 1\n"
        )
    };
    let best = |prior: &str| {
        let session = Session::with_model(model).with("study.toml", &text(prior));
        let run = session.run(&["design", "study.toml", "-o", "plan.csv", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let plan = Table::parse(&std::fs::read_to_string(session.path("plan.csv")).unwrap());
        assert_eq!(plan.column("sampled").iter().sum::<f64>(), 1.0);
        let document = run.json();
        let points = document["prior_points"].as_u64().unwrap();
        (
            document["sampling"][0].as_f64().unwrap(),
            points,
            error(&document, "planned", "a") / error(&document, "designed", "a"),
        )
    };
    let (time, points, gain) = best("");
    assert!((time - 2.0).abs() < 1e-9 && points == 1, "{time} {points}");
    // From the last sample, at t = 10: by t e^(-t/2).
    assert!((gain - 2.0 * (-1.0f64).exp() / (10.0 * (-5.0f64).exp())).abs() < 1e-3 * gain, "{gain}");
    // A lognormal prior around 0.5 with a scale of 1: mean 0.5 e^(1/2), and 0.5 cosh 1 is the mean of its two points.
    let mean = 0.5 * 0.5f64.exp();
    let std = mean * (1f64.exp() - 1.0).sqrt();
    let (time, points, _) = best(&format!(", prior = {{ lognormal = {{ mean = {mean}, std = {std} }} }}"));
    let expected = 1.0 / (0.5 * 1f64.cosh());
    assert!((time - expected).abs() <= 0.051 && points == 2, "{time} for {expected}, {points}");
}

/// T' = (u - k T)/10 under the recorded u = 3: the sum of squares of dT/dk by central differences of the exact solution
/// is the information, with or without a plan of its own, and without what a transient leaves out.
#[test]
fn a_plan_has_the_inputs_of_the_record_and_counts_what_identification_counts() {
    let model = "model M parameter Real k = 1.2; input Real u; Real T(start = 0, fixed = true);
                 equation der(T) = (u - k*T)*0.1; end M;";
    let study = |data: &str, more: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.2, min = 0.1, max = 5 }}\n[inputs]\n\
             u = {{ column = \"u\" }}\n[measurements]\nT = {{ column = \"y\", std = 0.05 }}\n[data]\n{data}\n{more}"
        )
    };
    let rows: Vec<String> = (0..25).map(|k| format!("{},3,0", 2 * k)).collect();
    let record = format!("t,u,y\n{}\n", rows.join("\n"));
    let expected = |from: f64, until: f64| {
        let solution = |k: f64, t: f64| 3.0 / k * (1.0 - (-0.1 * k * t).exp());
        let slope = |t: f64| (solution(1.2 + 1e-5, t) - solution(1.2 - 1e-5, t)) / 2e-5 / 0.05;
        let times = (0..25).map(|k| 2.0 * f64::from(k)).filter(|t| *t >= from && *t <= until);
        times.map(|t| slope(t) * slope(t)).sum::<f64>().powf(-0.5)
    };
    let one = "file = \"d.csv\"";
    for (data, more, error, code) in [
        (one, "", expected(0.0, 48.0), None),
        (one, "[identify]\ntransient = 20\n", expected(20.0, 48.0), None),
        (one, "[design]\nduration = 40\nstep = 2\n", expected(0.0, 40.0), None),
        ("files = [\"d.csv\", \"d.csv\"]", "", expected(0.0, 48.0), Some("design-record")),
    ] {
        let session = Session::with_model(model).with("d.csv", &record).with("study.toml", &study(data, more));
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let found = document["planned"]["std_errors"]["k"].as_f64().unwrap_or_else(|| panic!("{document}"));
        assert!((found / error - 1.0).abs() < 1e-4, "{more}: {found} for {error}");
        let told =
            document["findings"].as_array().unwrap().iter().any(|told| Some(told["code"].as_str().unwrap()) == code);
        assert_eq!(told, code.is_some(), "{}", document["findings"]);
    }
    let long = Session::with_model(model).with("d.csv", &record);
    let long = long.with("study.toml", &study(one, "[design]\nduration = 80\nstep = 2\n"));
    let run = long.run(&["design", "study.toml", "--json"]);
    finding(&run.json(), "design-input");
}

/// A series of the matrix exponential of a small matrix, by squaring.
fn exponential(a: [[f64; 3]; 3]) -> [[f64; 3]; 3] {
    let product = |a: &[[f64; 3]; 3], b: &[[f64; 3]; 3]| {
        let entry = |i: usize, j: usize| (0..3).map(|k| a[i][k] * b[k][j]).sum::<f64>();
        [0, 1, 2].map(|i| [0, 1, 2].map(|j| entry(i, j)))
    };
    let small = a.map(|row| row.map(|x| x / 1024.0));
    let mut term = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let mut sum = term;
    for k in 1..12 {
        term = product(&term, &small).map(|row| row.map(|x| x / f64::from(k)));
        sum = [0, 1, 2].map(|i| [0, 1, 2].map(|j| sum[i][j] + term[i][j]));
    }
    (0..10).fold(sum, |power, _| product(&power, &power))
}

/// What the undisturbed spring tells of c and d by its position under an input that is held between samples: the
/// information by central differences of the exact solution, as `[c c, c d, d d]` for every pair of pieces.
fn by_pairs_of_pieces(n_pieces: usize, n_samples: usize, step: f64, std: f64) -> Vec<Vec<[f64; 3]>> {
    let solution = |c: f64, d: f64, piece: usize| -> Vec<f64> {
        let phi = exponential([[0.0, step, 0.0], [-c * step, -d * step, step], [0.0; 3]]);
        let (mut x, mut v) = (0.0, 0.0);
        let next = |at: usize| {
            let (now, u) = (x, f64::from(u8::from(at * n_pieces / n_samples == piece)));
            (x, v) = (phi[0][0] * x + phi[0][1] * v + phi[0][2] * u, phi[1][0] * x + phi[1][1] * v + phi[1][2] * u);
            now
        };
        (0..n_samples).map(next).collect()
    };
    let slope = |above: Vec<f64>, below: Vec<f64>, width: f64| -> Vec<f64> {
        above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * width * std)).collect()
    };
    let slopes = |piece: usize| {
        let by_c = slope(solution(4.0 + 1e-4, 0.4, piece), solution(4.0 - 1e-4, 0.4, piece), 1e-4);
        let by_d = slope(solution(4.0, 0.4 + 1e-5, piece), solution(4.0, 0.4 - 1e-5, piece), 1e-5);
        [by_c, by_d]
    };
    let all: Vec<[Vec<f64>; 2]> = (0..n_pieces).map(slopes).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let pair = |a: &[Vec<f64>; 2], b: &[Vec<f64>; 2]| [dot(&a[0], &b[0]), dot(&a[0], &b[1]), dot(&a[1], &b[1])];
    all.iter().map(|a| all.iter().map(|b| pair(a, b)).collect()).collect()
}

fn spring_design(criterion: &str, input: &str) -> Value {
    let more = format!(
        "[design]\nduration = 20\nstep = 0.1\ncriterion = \"{criterion}\"\n\
         inputs = {{ u = {{ {input}, min = -1, max = 1 }} }}\n"
    );
    let text = study("c = { start = 4 }\nd = { start = 0.4 }", &more).replace("v = { std = 5 }\n", "");
    let session = Session::with_model(SPRING).with("study.toml", &text);
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()
}

/// All sequences of pieces at either limit are tried, by another way to the information.
#[test]
fn a_designed_input_is_as_good_as_the_best_of_all_sequences() {
    for n_pieces in [5usize, 8, 10] {
        let pairs = by_pairs_of_pieces(n_pieces, 201, 0.1, 0.05);
        // Variances of c and d.
        let variances = |signs: usize| {
            let mut information = [0.0; 3];
            for (a, row) in pairs.iter().enumerate() {
                for (b, pair) in row.iter().enumerate() {
                    let sign = if (signs >> a ^ signs >> b) & 1 == 1 { -1.0 } else { 1.0 };
                    (0..3).for_each(|k| information[k] += sign * pair[k]);
                }
            }
            let determinant = information[0] * information[2] - information[1] * information[1];
            [information[2] / determinant, information[0] / determinant, 1.0 / determinant]
        };
        let all: Vec<[f64; 3]> = (0..1 << (n_pieces - 1)).map(variances).collect();
        let judged = |criterion: &str, [c, d]: [f64; 2]| match criterion {
            "c" => c,
            "d" => d,
            _ => c / 16.0 + d / 0.16,
        };
        for criterion in ["c", "d", "A"] {
            let best = all.iter().map(|it| judged(criterion, [it[0], it[1]])).fold(f64::INFINITY, f64::min);
            let document = spring_design(criterion, &format!("kind = \"steps\", pieces = {n_pieces}"));
            let plain = ["c", "d"].map(|name| error(&document, "planned", name).powi(2));
            let found = ["c", "d"].map(|name| error(&document, "designed", name).powi(2));
            let (plain, found) = (judged(criterion, plain), judged(criterion, found));
            // The plain steps of four are no sequence of five or ten pieces.
            let best = best.min(plain);
            assert!(
                (found / best).sqrt() < 1.02 && found / best > 1.0 - 1e-4,
                "{n_pieces} {criterion}: {found} {best}"
            );
        }
    }
}

#[test]
fn twice_as_many_pieces_never_do_worse() {
    for input in ["kind = \"steps\"", "kind = \"levels\"", "kind = \"prbs\"", "kind = \"steps\", rate = 2"] {
        let mut before = f64::INFINITY;
        for n_pieces in [10, 20, 40, 80] {
            let document = spring_design("d", &format!("{input}, pieces = {n_pieces}"));
            let found = error(&document, "designed", "d");
            assert!(found <= before * (1.0 + 1e-9), "{input} {n_pieces}: {found} after {before}");
            assert!(found < 0.8 * error(&document, "planned", "d"), "{input} {n_pieces}: {found}");
            before = found;
        }
    }
}

/// T' = (u - k T)/10: the information is the sum of squares of dT/dk over the cells that have a value, by central
/// differences of the exact solution.
#[test]
fn what_a_sensor_did_not_record_tells_nothing() {
    let model = "model M parameter Real k = 1.2; input Real u; Real T(start = 0, fixed = true);
                 equation der(T) = (u - k*T)*0.1; end M;";
    let text = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.2, min = 0.1, max = 5 }\n[inputs]\n\
                u = { column = \"u\" }\n[measurements]\nT = { std = 0.05 }\n[data]\nfile = \"d.csv\"\n";
    let has_value = |k: u32| k.is_multiple_of(3);
    let rows: Vec<String> = (0..25).map(|k| format!("{},3,{}", 2 * k, if has_value(k) { "0" } else { "" })).collect();
    let session = Session::with_model(model).with("study.toml", text);
    let session = session.with("d.csv", &format!("t,u,T\n{}\n", rows.join("\n")));
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let solution = |k: f64, t: f64| 3.0 / k * (1.0 - (-0.1 * k * t).exp());
    let slope = |t: f64| (solution(1.2 + 1e-5, t) - solution(1.2 - 1e-5, t)) / 2e-5 / 0.05;
    let expected = (0..25).filter(|k| has_value(*k)).map(|k| slope(2.0 * f64::from(k)).powi(2)).sum::<f64>().powf(-0.5);
    let document = run.json();
    let found = error(&document, "planned", "k");
    assert!((found / expected - 1.0).abs() < 1e-4, "{found} for {expected}");
    assert_eq!(document["n_samples"], 9);
}

/// x = x0 e^(-a t) with x0 found beside a: slopes -t e^(-a t) by a, from what e^(-a t) by x0 cannot make up for; by hand.
#[test]
fn a_start_that_is_found_with_the_unknowns_is_where_the_model_begins() {
    let model =
        "model Decay parameter Real a = 0.5; Real x(start = 1, fixed = true); equation der(x) = -a*x; end Decay;";
    for (mode, given, start) in [("estimate", "", 1.0), ("diffuse", "", 1.0), ("estimate", "x = 3.0\n", 3.0)] {
        let text = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\na = {{ start = 0.5, min = 0.4, max = 0.6 }}\n\
             [initial]\nmode = \"{mode}\"\n{given}[measurements]\nx = {{ std = 1e-3 }}\n\
             [design]\nduration = 6\nstep = 1\n"
        );
        let session = Session::with_model(model).with("study.toml", &text);
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let rows: Vec<[f64; 2]> = (0..7).map(f64::from).map(|t| [t, (-0.5 * t).exp()]).collect();
        let sum = |of: &dyn Fn(&[f64; 2]) -> f64| rows.iter().map(of).sum::<f64>() / 1e-6;
        let [by_a, both, by_start] =
            [sum(&|[t, e]| (start * t * e).powi(2)), sum(&|[t, e]| start * t * e * e), sum(&|[_, e]| e * e)];
        // A value that is given for the start is known.
        let left = if given.is_empty() { by_a - both * both / by_start } else { by_a };
        let found = error(&run.json(), "planned", "a");
        assert!((found * left.sqrt() - 1.0).abs() < 1e-5, "{mode} {given}: {found} for {}", left.powf(-0.5));
    }
}

#[test]
fn an_experiment_is_no_longer_than_asked_and_too_many_samples_are_refused() {
    let run = |design: &str| {
        let text = study("c = { start = 4 }\nd = { start = 0.4 }", &format!("[design]\n{design}\n"));
        let session = Session::with_model(SPRING).with("study.toml", &text);
        let run = session.run(&["design", "study.toml", "-o", "plan.csv", "--json"]);
        let plan = std::fs::read_to_string(session.path("plan.csv")).map(|text| Table::parse(&text).column("t"));
        (run.status, run.json(), plan.ok())
    };
    let has_note = |document: &Value| document["findings"].to_string().contains("design-duration");
    let (status, document, plan) = run("duration = 5\nstep = 3");
    assert_eq!((status, plan), (0, Some(vec![0.0, 3.0])));
    finding(&document, "design-duration");
    // 0.3 / 0.1 is a little less than 3 in doubles.
    let (status, document, plan) = run("duration = 0.3\nstep = 0.1");
    assert_eq!((status, plan.map(|times| times.len()), has_note(&document)), (0, Some(4), false));
    for design in ["duration = 5\nstep = 6", "duration = 20\nstep = 1e-6"] {
        let (status, document, plan) = run(design);
        assert_eq!((status, plan), (1, None));
        finding(&document, "design");
    }
}

/// Only a b shows, where one is a millionth and the other a million: one percent of both belongs together.
#[test]
fn a_small_unknown_keeps_its_name_in_a_flat_direction() {
    let model = "model M parameter Real a = 1e-8, b = 1e6; input Real u; Real p(start = 0, fixed = true);
                 equation der(p) = u - 100*a*b*p; end M;";
    let text = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 1e-8 }\nb = { start = 1e6 }\n[inputs]\n\
                u = { column = \"u\" }\n[measurements]\np = { std = 0.01 }\n[design]\nduration = 4\nstep = 0.1\n\
                inputs = { u = { min = -1, max = 1, pieces = 4 } }\n";
    let session = Session::with_model(model).with("study.toml", text);
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let flat = run.json()["identifiable"]["flat_directions"][0].clone();
    let relative = |name: &str, size: f64| flat[name].as_f64().unwrap_or_else(|| panic!("{flat}")) / size;
    assert!((relative("a", 1e-8) + relative("b", 1e6)).abs() < 1e-6 * relative("b", 1e6).abs(), "{flat}");
}

/// Slopes of a likelihood of a filter are differences: after a hundred radians of an oscillation that is not linear, what
/// is left of them looked like information about unknowns that only show together.
#[test]
fn differences_that_are_all_error_tell_nothing() {
    let run = |frequency: &str| {
        let model = format!(
            "model M parameter Real a = 1.3, b = 0.7; input Real u;
             Real x(start = 1, fixed = true), v(start = 0, fixed = true);
             equation der(x) = v; der(v) = u - ({frequency})*sin(x); end M;"
        );
        let text = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 1.3, min = 0.5, max = 2 }\n\
                    b = { start = 0.7, min = 0.2, max = 2 }\n[inputs]\nu = { column = \"u\" }\n[measurements]\n\
                    x = { std = 0.01 }\n[design]\nduration = 60\nstep = 0.5\n\
                    inputs = { u = { min = 0.1, max = 1, pieces = 4 } }\n";
        let session = Session::with_model(&model).with("study.toml", text);
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{frequency}: {}", run.stderr);
        run.json()
    };
    // With the slope of b for one of a along which nothing changes.
    for (frequency, slope) in [("a + b", -1.0), ("a*b^2", -0.7 / 2.6), ("exp(a*b)", -0.7 / 1.3)] {
        let document = run(frequency);
        assert_eq!(document["identifiable"]["rank"], 1, "{frequency}: {document}");
        for which in ["planned", "designed"] {
            let errors = &document[which]["std_errors"];
            assert!(errors["a"].is_null() && errors["b"].is_null(), "{frequency}: {document}");
        }
        // At the start, the first of the points, or at another where the rank is as small.
        let points = document["identifiable"]["points"].as_array().unwrap();
        assert_eq!(points[0]["rank"], 1, "{frequency}: {document}");
        let flat = &document["identifiable"]["flat_directions"][0];
        let found = flat["b"].as_f64().unwrap() / flat["a"].as_f64().unwrap();
        assert!((found / slope - 1.0).abs() < 0.01, "{frequency}: {flat}");
    }
    // What shows apart, though little, is still told apart.
    let document = run("a + b + 0.01*b*x");
    assert_eq!(document["identifiable"]["rank"], 2, "{document}");
    assert!(error(&document, "designed", "a") > 0.0);
}

#[test]
fn a_sensor_without_errors_is_refused_alike_where_it_tells_without_bound() {
    let linear = "model M parameter Real k = 0.5; input Real u, w; Real h(start = 1, fixed = true);
equation der(h) = u + w - k*h; end M;";
    let nonlinear = linear.replace("k*h", "k*sqrt(h)");
    let text = |disturbance: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 0.5, min = 0.1, max = 1 }}\n[inputs]\n\
             u = {{ column = \"u\" }}\n{disturbance}[measurements]\nh = {{ std = 0 }}\n\
             [design]\nduration = 10\nstep = 0.5\ninputs = {{ u = {{ min = 0.3, max = 0.7, pieces = 5 }} }}\n"
        )
    };
    let mut messages = Vec::new();
    for model in [linear, &nonlinear] {
        let session = Session::with_model(model).with("study.toml", &text(""));
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{}", run.stdout);
        let document = run.json();
        let told = finding(&document, "exact-measurement");
        assert_eq!((told["line"].as_u64(), told["names"][0].as_str()), (Some(8), Some("h")), "{told}");
        messages.push((told["message"].clone(), told["help"].clone()));
    }
    assert_eq!(messages[0], messages[1]);
    // Under a disturbance only the known start says nothing.
    let disturbed = text("[disturbances]\nw = { std = 0.1, time_constant = 1 }\n");
    let session = Session::with_model(linear).with("study.toml", &disturbed);
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

/// A lag with the gain D and the rate r: what is best for one of them is not best for both.
#[test]
fn unknowns_that_are_named_like_a_criterion_can_be_meant() {
    let model = "model M parameter Real D = 2, r = 0.5; input Real u; Real x(start = 0, fixed = true);
                 equation der(x) = D*u - r*x; end M;";
    let run = |criterion: &str, gain: &str| {
        let text = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\n{gain} = {{ start = 2 }}\nr = {{ start = 0.5 }}\n[inputs]\n\
             u = {{ column = \"u\" }}\n[measurements]\nx = {{ std = 0.1 }}\n[design]\nduration = 10\nstep = 0.1\n\
             criterion = {criterion}\ninputs = {{ u = {{ min = -1, max = 1, pieces = 10 }} }}\n"
        );
        let session = Session::with_model(&model.replace('D', gain)).with("study.toml", &text);
        session.run(&["design", "study.toml", "--json"])
    };
    let (all, one) = (run("\"D\"", "D"), run("{ unknown = \"D\" }", "D"));
    assert_eq!((all.status, one.status), (0, 0), "{}{}", all.stderr, one.stderr);
    finding(&all.json(), "design-criterion");
    assert!(!one.json()["findings"].to_string().contains("design-criterion"));
    assert_eq!(
        (&all.json()["planned"]["criterion"], &one.json()["planned"]["criterion"]),
        (&"D".into(), &"unknown D".into())
    );
    // The same under another name.
    let (other_all, other_one) = (run("\"D\"", "g").json(), run("\"g\"", "g").json());
    assert_eq!(error(&all.json(), "designed", "D"), error(&other_all, "designed", "g"));
    assert_eq!(error(&one.json(), "designed", "D"), error(&other_one, "designed", "g"));
    assert!(error(&other_one, "designed", "g") < 0.99 * error(&other_all, "designed", "g"));
    for wrong in ["{ unknown = \"q\" }", "{}", "{ name = \"D\" }", "3"] {
        assert_eq!(run(wrong, "D").status, 1, "{wrong}");
    }
}

/// An oscillator with a coloured disturbance, whose size and time constant are unknown, too.
const DISTURBED: &str = r#"[linear]
E = [[1, 0], [0, 1]]
F = [[0, 1], ["-c", "-d"]]
G = [[0], [1]]
J = [[0], [1]]
H = [[1, 0]]
names = { z = ["x", "v"], u = ["u"], w = ["w"], y = ["y"] }
[unknown]
c = { start = 4, min = 1, max = 9 }
d = { start = 0.4, min = 0, max = 3 }
s = { start = 0.3, min = 0, max = 3 }
tau = { start = 1.0, min = 0.1, max = 10 }
sn = { start = 0.05, min = 0, max = 1 }
[initial]
x = 1.0
v = 0.0
[inputs]
u = { column = "u" }
[disturbances]
w = { std = "s", time_constant = "tau" }
[measurements]
y = { std = "sn" }
[data]
file = "data.csv"
"#;

/// By the dense Fisher information of the joint Gaussian density of the 101 samples, `tau` is found to 0.812 and `s` to
/// 0.0724 (NumPy, central differences of mean and covariance).
#[test]
fn expected_errors_of_linear_models_are_exact_whatever_the_seed() {
    let rows: String =
        (0..101).map(|k| format!("{:.1},{}\n", 0.1 * f64::from(k), if (k / 15) % 2 == 0 { 1 } else { -1 })).collect();
    let session = Session::new().with("study.toml", DISTURBED).with("data.csv", &format!("t,u\n{rows}"));
    let mut first: Option<Value> = None;
    for seed in ["0", "1", "5"] {
        let run = session.run(&["design", "study.toml", "--json", "--seed", seed]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        for (name, expected) in [("tau", 0.812), ("s", 0.0724)] {
            let found = error(&document, "planned", name);
            assert!((found / expected - 1.0).abs() < 1e-3, "{name}: {found} instead of {expected}");
        }
        assert!(document["planned"]["std_errors_mc"].is_null());
        assert_eq!(document["identifiable"]["points"][0]["rank"], 5);
        let same = first.get_or_insert_with(|| document.clone());
        assert_eq!(document["identifiable"], same["identifiable"], "seed {seed}");
        assert_eq!(document["planned"], same["planned"], "seed {seed}");
    }
}

#[test]
fn errors_by_artificial_records_say_how_exact_they_are() {
    let model = "model Decay
  parameter Real a = 0.5;
  input Real w;
  Real x(start = 1, fixed = true);
equation
  der(x) = -a*x*abs(x) + w;
end Decay;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 0.5, min = 0.1, max = 1 }\n[disturbances]\n\
                 w = { std = 0.1, time_constant = 0.5 }\n[measurements]\nx = { std = 0.02 }\n[design]\nduration = 4\nstep = 0.2\n";
    let session = Session::with_model(model).with("study.toml", study);
    let of = |seed: &str| {
        let run = session.run(&["design", "study.toml", "--json", "--seed", seed]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        (error(&document, "planned", "a"), document["planned"]["std_errors_mc"]["a"].as_f64().unwrap())
    };
    let (all, errors): (Vec<f64>, Vec<f64>) = ["0", "1", "2", "3", "4", "5"].into_iter().map(of).unzip();
    let mean = all.iter().sum::<f64>() / 6.0;
    let spread = (all.iter().map(|std| (std - mean).powi(2)).sum::<f64>() / 5.0).sqrt();
    let promised = (errors.iter().map(|error| error * error).sum::<f64>() / 6.0).sqrt();
    // A ratio of standard deviations, of which one is of six values.
    assert!((0.2..3.0).contains(&(spread / promised)), "{all:?} {errors:?}");
    assert!(session.run(&["design", "study.toml"]).stdout.contains("artificial records"));
}

/// Two tanks of which sums and differences of levels can be measured.
fn tanks(design: &str) -> String {
    format!(
        "[linear]\nE = [[1, 0], [0, 1]]\nF = [[\"-a\", 0], [\"a\", \"-b\"]]\nH = [[1, 0], [0, 1], [1, 1], [1, -1]]\n\
         G = [[1], [0]]\nnames = {{ z = [\"h1\", \"h2\"], u = [\"u\"], y = [\"y1\", \"y2\", \"y3\", \"y4\"] }}\n[unknown]\n\
         a = {{ start = 0.5, min = 0.1, max = 1 }}\nb = {{ start = 0.8, min = 0.1, max = 2 }}\n[inputs]\nu = {{ column = \"u\" }}\n\
         [initial]\nh1 = 0.5\nh2 = 0.2\n[measurements]\ny1 = {{ std = 0.02 }}\ny2 = {{ std = 0.01 }}\ny3 = {{ std = 0.03 }}\n\
         y4 = {{ std = 0.015 }}\n[design]\nduration = 10\nstep = 0.5\n{design}\n"
    )
}

/// What sensors of the tanks tell of a and b under an input, `[a a, a b, b b]`, by central differences of the exact
/// solution.
fn told_by_tanks(input: &[f64], sensors: [usize; 2]) -> [f64; 3] {
    let levels = |a: f64, b: f64| -> Vec<[f64; 2]> {
        let phi = exponential([[-a * 0.5, 0.0, 0.5], [a * 0.5, -b * 0.5, 0.0], [0.0; 3]]);
        let mut x = [0.5, 0.2];
        let next = |u: &f64| {
            let now = x;
            x = [0, 1].map(|i| phi[i][0] * now[0] + phi[i][1] * now[1] + phi[i][2] * u);
            now
        };
        input.iter().map(next).collect()
    };
    let (rows, stds) = ([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]], [0.02, 0.01, 0.03, 0.015]);
    let slope = |up: Vec<[f64; 2]>, down: Vec<[f64; 2]>| -> Vec<[f64; 2]> {
        up.iter().zip(&down).map(|(up, down)| [0, 1].map(|i| (up[i] - down[i]) / 2e-5)).collect()
    };
    let by_a = slope(levels(0.5 + 1e-5, 0.8), levels(0.5 - 1e-5, 0.8));
    let by_b = slope(levels(0.5, 0.8 + 1e-5), levels(0.5, 0.8 - 1e-5));
    let mut sum = [0.0; 3];
    for (by_a, by_b) in by_a.iter().zip(&by_b) {
        for at in sensors {
            let [a, b] = [by_a, by_b].map(|by| (rows[at][0] * by[0] + rows[at][1] * by[1]) / stds[at]);
            [a * a, a * b, b * b].iter().zip(&mut sum).for_each(|(more, sum)| *sum += more);
        }
    }
    sum
}

/// A criterion by the information of a and b.
fn tank_criterion(of: &str, [aa, ab, bb]: [f64; 3]) -> f64 {
    let determinant = aa * bb - ab * ab;
    // Relative to 0.5 and 0.8.
    let (va, vb, vab) = (bb / determinant / 0.25, aa / determinant / 0.64, -ab / determinant / 0.4);
    match of {
        "D" => 1.0 / determinant,
        "A" => va + vb,
        "E" => 0.5 * (va + vb) + (0.25 * (va - vb).powi(2) + vab * vab).sqrt(),
        "a" => va,
        _ => vb,
    }
}

/// Sensors and input are chosen for each other: as good as the best of all pairs of sensors with all inputs.
#[test]
fn sensors_are_chosen_for_the_input_that_is_designed() {
    let held = |levels: &[f64]| -> Vec<f64> { (0..21).map(|at| levels[at * 5 / 21]).collect() };
    for criterion in ["D", "A", "E", "a", "b"] {
        let design = format!(
            "criterion = \"{criterion}\"\nchoose = 2\ninputs = {{ u = {{ kind = \"steps\", min = -1, max = 1, pieces = 5 }} }}"
        );
        let session = Session::new().with("study.toml", &tanks(&design));
        let run = session.run(&["design", "study.toml", "-o", "input.csv", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let table = Table::parse(&std::fs::read_to_string(session.path("input.csv")).unwrap());
        let names = ["y1", "y2", "y3", "y4"];
        let chosen = [0, 1].map(|k| names.iter().position(|name| document["sensors"][k] == *name).unwrap());
        let found = tank_criterion(criterion, told_by_tanks(&table.column("u"), chosen));
        let mut best = f64::INFINITY;
        for bits in 0..32 {
            let levels = [0, 1, 2, 3, 4].map(|at| if bits >> at & 1 == 1 { 1.0 } else { -1.0 });
            for first in 0..4 {
                for second in first + 1..4 {
                    let told = told_by_tanks(&held(&levels), [first, second]);
                    best = best.min(tank_criterion(criterion, told));
                }
            }
        }
        assert!(found < 1.02 * best, "{criterion}: {found} with {chosen:?}, and the best is {best}");
    }
}

#[test]
fn designs_that_ask_for_more_than_there_is_are_refused() {
    for (design, word) in [
        ("sensors = [\"y1\"]\nchoose = 2", "chosen of 1"),
        ("choose = 5", "chosen of 4"),
        ("sensors = [\"y1\", \"y1\"]", "listed twice"),
        ("samples = 1000", "at 21 times"),
    ] {
        let session = Session::new().with("study.toml", &tanks(design));
        let run = session.run(&["design", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{design}: {}", run.stderr);
        let document = run.json();
        assert!(finding(&document, "design")["message"].as_str().unwrap().contains(word), "{document}");
    }
    // Its square is zero.
    let tiny = tanks("").replace("y1 = { std = 0.02 }", "y1 = { std = 1e-200 }");
    let run = Session::new().with("study.toml", &tiny).run(&["design", "study.toml", "--json"]);
    finding(&run.json(), "exact-measurement");
}

/// A planned record has all its samples, also those that a spline needs.
#[test]
fn a_planned_input_may_be_a_spline() {
    let study = tanks("").replace("u = { column = \"u\" }", "u = { column = \"u\", hold = \"cubic\" }");
    let study = study.split("[design]").next().unwrap().to_owned() + "[data]\nfile = \"data.csv\"\n";
    let rows: String = (0..21).map(|k| format!("{},{}\n", 0.5 * f64::from(k), f64::from(k % 7 - 3))).collect();
    let session = Session::new().with("study.toml", &study).with("data.csv", &format!("t,u\n{rows}"));
    let run = session.run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(error(&run.json(), "planned", "a") > 0.0);
}

#[test]
fn what_a_plan_does_not_determine_is_a_finding() {
    let study =
        tanks("").replace("\"-b\"", "\"-b*c\"").replace("[inputs]", "c = { start = 1, min = 0.5, max = 2 }\n[inputs]");
    let run = Session::new().with("study.toml", &study).run(&["design", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let mut names: Vec<&str> = finding(&document, "flat-direction")["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "c"]);
}
