//! Identification of models with events: what they are made of, derivatives across events, and what is refused.

use std::fmt::Write as _;

use daesy::load::{LoadOptions, load};
use daesy::prediction_study::PredictionStudy;
use daesy_estimate::pem::{PointRefusal, PredictionObjective};
use daesy_estimate::search::Objective;
use daesy_integrate::IntegrateError;
use daesy_system::Watch;
use serde_json::Value;

use crate::session::{Session, Table, finding};

/// A model with events, its study and its truth.
struct Case {
    model: &'static str,
    inputs: &'static str,
    stop: f64,
    step: f64,
    measured: &'static str,
    std: f64,
    unknown: &'static str,
    truth: &'static [(&'static str, f64)],
}

const ROOM: Case = Case {
    model: "model Room
  parameter Real C = 4, G = 0.5, P = 12, low = 19, high = 21;
  input Real outside;
  Real T(start = 15, fixed = true);
  Boolean on(start = true, fixed = true);
equation
  C*der(T) = (if on then P else 0) - G*(T - outside);
  when {T > high, T < low} then
    on = T < low;
  end when;
end Room;
",
    inputs: "[inputs]\noutside = { expression = \"5 + 3*sin(0.3*time)\" }\n",
    stop: 30.0,
    step: 0.2,
    measured: "T",
    std: 0.1,
    unknown: "C = { start = 3.0, min = 0.1 }\nG = { start = 0.4, min = 0.01 }\n\
              high = { start = 20.7 }\nlow = { start = 19.3 }\n",
    truth: &[("C", 4.0), ("G", 0.5), ("high", 21.0), ("low", 19.0)],
};

const CONVERTER: Case = Case {
    model: "model Buck
  parameter Real L = 1e-3, C = 1e-4, R = 5, V = 20, duty = 0.4, period = 1e-3;
  Real i(start = 0, fixed = true), v(start = 0, fixed = true);
  discrete Real t0(start = 0, fixed = true);
  Boolean on;
equation
  when sample(0, period) then
    t0 = time;
  end when;
  on = time - t0 < duty*period;
  L*der(i) = (if on then V else 0) - v - 0.2*i;
  C*der(v) = i - v/R;
end Buck;
",
    inputs: "",
    stop: 0.013,
    step: 1.3e-4,
    measured: "v",
    std: 0.05,
    unknown: "L = { start = 1.2e-3, min = 1e-5 }\nC = { start = 1.2e-4, min = 1e-6 }\n\
              duty = { start = 0.35, min = 0.05, max = 0.95 }\n",
    truth: &[("L", 1e-3), ("C", 1e-4), ("duty", 0.4)],
};

const STICK_SLIP: Case = Case {
    model: "model Slip
  parameter Real m = 1, k = 20, c = 0.5, belt = 0.3, Fs = 4, Fd = 2.5;
  Real x(start = 0, fixed = true), v(start = 0.3, fixed = true);
  Boolean stick(start = true, fixed = true);
equation
  der(x) = v;
  m*der(v) = if stick then 0 else Fd - k*x - c*v;
  when k*x + c*v > Fs then
    stick = false;
  elsewhen not pre(stick) and v > belt then
    stick = true;
    reinit(v, belt);
  end when;
end Slip;
",
    inputs: "",
    stop: 8.0,
    step: 0.05,
    measured: "x",
    std: 0.005,
    unknown: "k = { start = 19.0 }\nFs = { start = 3.9 }\nFd = { start = 2.4 }\n",
    truth: &[("k", 20.0), ("Fs", 4.0), ("Fd", 2.5)],
};

/// The controller's values depend on states: derivatives are differences of trajectories.
const CLOCKED: Case = Case {
    model: "model Clocked
  parameter Real a = 0.7, b = 1.5, K = 2, Ti = 1.0, period = 0.25;
  input Real r;
  Real x(start = 0, fixed = true);
  discrete Real u(start = 0, fixed = true), s(start = 0, fixed = true);
equation
  der(x) = -a*x + b*u;
  when sample(0, period) then
    s = pre(s) + (r - x)*period/Ti;
    u = K*(r - x + s);
  end when;
end Clocked;
",
    inputs: "[inputs]\nr = { expression = \"if time < 5 then 1 else -0.5\" }\n",
    stop: 10.0,
    step: 0.1,
    measured: "x",
    std: 0.02,
    unknown: "a = { start = 0.5 }\nb = { start = 1.2 }\n",
    truth: &[("a", 0.7), ("b", 1.5)],
};

impl Case {
    /// A session with data that `simulate` made at the truth, errors of measurement added.
    fn session(&self, seed: u64) -> Session {
        let head = format!("[model]\nfile = \"model.mo\"\n{}", self.inputs);
        let simulate = format!("{head}[simulate]\nstop = {}\nstep = {}\nrtol = 1e-9\n", self.stop, self.step);
        let session = Session::with_model(self.model).with("simulate.toml", &simulate);
        let run = session.run(&["simulate", "simulate.toml", "-o", "truth.csv", "--quiet"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = Table::parse(&std::fs::read_to_string(session.path("truth.csv")).unwrap());
        let column = table.names.iter().position(|name| name == self.measured).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut data = "t,y\n".to_owned();
        // One row for each time of the grid, the one after what jumps there; rows at events between are left out.
        for k in 0..=(self.stop / self.step).round() as usize {
            let time = k as f64 * self.step;
            let row = table.rows.iter().rev().find(|row| (row[0] - time).abs() < 1e-9 * self.stop).unwrap();
            let _ = writeln!(data, "{},{}", row[0], row[column] + self.std * normal());
        }
        let study = format!(
            "{head}[unknown]\n{}[measurements]\n{} = {{ column = \"y\", std = {} }}\n[data]\nfile = \"data.csv\"\n",
            self.unknown, self.measured, self.std
        );
        session.with("data.csv", &data).with("study.toml", &study)
    }

    fn require_truth(&self, document: &Value) {
        for (name, truth) in self.truth {
            let list = document["parameters"].as_array().unwrap();
            let parameter = list.iter().find(|parameter| parameter["name"] == *name).unwrap();
            let (estimate, std) = (parameter["estimate"].as_f64().unwrap(), parameter["std_error"].as_f64().unwrap());
            assert!((estimate - truth).abs() < 4.0 * std, "{name}: {estimate} +- {std} for {truth}");
            assert!(std < 0.1 * truth, "{name}: {estimate} +- {std}");
        }
    }
}

fn identified(session: &Session, arguments: &[&str]) -> Value {
    let run = session.run(&[&["identify", "study.toml", "--json"], arguments].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()
}

#[test]
fn thermostats_converters_friction_and_clocked_controllers_are_identified() {
    for (case, seed) in [(&ROOM, 1), (&CONVERTER, 2), (&STICK_SLIP, 3), (&CLOCKED, 4)] {
        let document = identified(&case.session(seed), &[]);
        assert_eq!(document["method"], "output-error");
        assert!(document["method_reason"].as_str().unwrap().contains("events"), "{}", document["method_reason"]);
        assert_eq!(document["converged"], true);
        case.require_truth(&document);
    }
}

#[test]
fn the_gradient_of_the_cost_is_that_of_differences_across_events() {
    for (case, seed) in [(&ROOM, 1), (&CONVERTER, 2), (&STICK_SLIP, 3), (&CLOCKED, 4)] {
        let session = case.session(seed);
        let loaded = load(&session.path("study.toml"), &LoadOptions::default()).unwrap();
        let study = PredictionStudy::of(&loaded, 0).unwrap();
        let of = |name: &str| case.truth.iter().find(|(known, _)| *known == name).unwrap().1;
        // Away from the truth, where gradients are not small.
        let theta: Vec<f64> = study.unknowns.iter().map(|unknown| 1.01 * of(&unknown.name)).collect();
        let problem = study.problem(study.settings.clone(), &theta).unwrap();
        let watch = Watch::default();
        let mut objective = PredictionObjective { problem: &problem, n_realizations: 1, watch, evaluations: 0 };
        let gradient = objective.expand(&theta).unwrap().gradient;
        for (i, unknown) in study.unknowns.iter().enumerate() {
            let step = 1e-4 * theta[i];
            let mut value = |sign: f64| {
                let mut moved = theta.clone();
                moved[i] += sign * step;
                objective.value(&moved).unwrap()
            };
            let difference = (value(1.0) - value(-1.0)) / (2.0 * step);
            let off = (gradient[i] - difference).abs();
            assert!(off < 5e-3 * difference.abs(), "{}: {} and {difference}", unknown.name, gradient[i]);
        }
    }
}

#[test]
fn a_search_gives_up_points_at_which_events_have_no_end() {
    // Between limits that are 1e-5 apart the thermostat switches some 200,000 times in the record.
    let session = ROOM.session(1);
    let loaded = load(&session.path("study.toml"), &LoadOptions::default()).unwrap();
    let study = PredictionStudy::of(&loaded, 0).unwrap();
    let start = study.start();
    let problem = study.problem(study.settings.clone(), &start).unwrap();
    let watch = Watch::default();
    let mut objective = PredictionObjective { problem: &problem, n_realizations: 1, watch, evaluations: 0 };
    let at = |low: f64| {
        let of = |name: &str| study.unknowns.iter().position(|unknown| unknown.name == name).unwrap();
        let mut theta = start.clone();
        (theta[of("high")], theta[of("low")]) = (20.0, low);
        theta
    };
    assert!(objective.value(&start).unwrap().is_finite());
    assert!(objective.value(&at(19.9)).unwrap().is_finite());
    for with_derivatives in [false, true] {
        let refusal = problem.predict_in_search(&at(19.99999), with_derivatives, 1, &Watch::default()).unwrap_err();
        let is_too_long = matches!(
            &refusal,
            PointRefusal::Trajectory(IntegrateError::TooManySteps { .. } | IntegrateError::TooShortSteps { .. })
        );
        assert!(is_too_long, "{refusal}");
    }
}

#[test]
fn the_cost_at_the_truth_is_that_of_the_errors_alone() {
    // The same trajectory by another road: what `simulate` wrote, read back as data without errors.
    for case in [&ROOM, &CONVERTER, &STICK_SLIP, &CLOCKED] {
        let exact = Case { std: 1e-9, ..*case };
        let session = exact.session(1);
        let (name, truth) = case.truth[0];
        let set: Vec<String> = case.truth.iter().map(|(name, value)| format!("--set={name}={value}")).collect();
        let grid = format!("{name}={truth}:{}:2", 1.001 * truth);
        let mut arguments = vec!["cost", "study.toml", "--json", "--method", "output-error", "--grid", &grid];
        arguments.extend(set[1..].iter().map(String::as_str));
        let run = session.run(&arguments);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let values = run.json()["values"].clone();
        let (here, beside) = (values[0].as_f64().unwrap(), values[1].as_f64().unwrap());
        assert!(here < 1e-3 * beside, "{name}: {here} {beside}");
    }
}

#[test]
fn an_unknown_accuracy_of_a_model_with_events_is_found_by_its_likelihood() {
    let session = STICK_SLIP.session(5);
    let text = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let text =
        text.replace("std = 0.005", "std = \"s\"").replace("[unknown]", "[unknown]\ns = { start = 0.02, min = 0 }");
    std::fs::write(session.path("study.toml"), text).unwrap();
    let document = identified(&session, &[]);
    assert_eq!(document["method"], "ml");
    STICK_SLIP.require_truth(&document);
    let size = document["parameters"][0]["estimate"].as_f64().unwrap();
    assert!((0.004..0.006).contains(&size), "{size}");
}

#[test]
fn a_disturbance_in_a_model_with_events_is_refused_by_name_where_nobody_follows_it() {
    let session = ROOM.session(1);
    let text = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let disturbed = text.replace("[inputs]\noutside = { expression = \"5 + 3*sin(0.3*time)\" }\n", "")
        + "[disturbances]\noutside = { A = [[-1]], B = [[1]], C = [[0.1]] }\n[estimate]\nsignals = [\"on\"]\n";
    std::fs::write(session.path("study.toml"), &disturbed).unwrap();
    std::fs::write(session.path("named.toml"), disturbed + "filter = \"particles\"\n").unwrap();
    for (arguments, help) in [
        (&["identify", "study.toml", "--method", "pem"][..], "`method = \"ml\"` filters it"),
        (&["estimate", "named.toml"], "leave `filter` out"),
    ] {
        let run = session.run(&[arguments, &["--json"]].concat());
        assert_eq!(run.status, 1, "{arguments:?}");
        let found = run.json();
        let refusal = finding(&found, "disturbed-events");
        assert!(refusal["message"].as_str().unwrap().contains("outside"));
        assert!(refusal["help"].as_str().unwrap().contains(help), "{refusal}");
    }
    let live = session.run_with(&["watch", "study.toml", "--quiet"], "t,y\n0,15\n");
    assert!(live.stderr.contains("disturbed-events") && live.stderr.contains("`estimate` follows"), "{}", live.stderr);
    // Left out it may be.
    let run = session.run(&["identify", "study.toml", "--json", "--method", "output-error"]);
    assert_ne!(run.status, 1, "{}", run.stderr);
}

/// What jumps in time, and states whose derivative depends on time only, are the same by `simulate`, filters, ensembles
/// and output errors: data that `simulate` makes lead every method back to the parameter they were made with.
#[test]
fn jumps_in_time_lead_every_method_to_the_truth() {
    for rate in ["k*floor(3.3*time) - x^3", "k*sign(1.05 - time) - x^3", "100*k*cos(100*time) - 1e-9*x^3"] {
        let model = format!(
            "model Jump\n  parameter Real k = 1;\n  input Real w;\n  Real x(start = 0.5, fixed = true);\nequation\n  \
             der(x) = {rate} + w;\nend Jump;\n"
        );
        let simulate = "[model]\nfile = \"model.mo\"\n[inputs]\nw = { expression = \"0\" }\n\
                        [simulate]\nstop = 2\nstep = 0.1\nrtol = 1e-10\natol = 1e-12\n";
        let session = Session::with_model(&model).with("simulate.toml", simulate);
        assert_eq!(session.run(&["simulate", "simulate.toml", "-o", "truth.csv"]).status, 0);
        let table = Table::parse(&std::fs::read_to_string(session.path("truth.csv")).unwrap());
        let column = table.names.iter().position(|name| name == "x").unwrap();
        let mut data = "t,x\n".to_owned();
        for k in 0..=20 {
            let row = table.rows.iter().rev().find(|row| (row[0] - f64::from(k) / 10.0).abs() < 1e-9).unwrap();
            let _ = writeln!(data, "{},{}", row[0], row[column]);
        }
        let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.2, min = 0.1, max = 5 }\n\
                     [disturbances]\n\
                     w = { A = [[-1.0]], B = [[1.0]], C = [[1e-7]] }\n[measurements]\n\
                     x = { column = \"x\", std = 1e-4 }\n\
                     [data]\nfile = \"data.csv\"\n[identify]\nrealizations = 8\n";
        let session = session.with("data.csv", &data).with("study.toml", study);
        for method in ["ml", "pem", "output-error"] {
            let found = identified(&session, &["--method", method]);
            let estimate = found["parameters"][0]["estimate"].as_f64().unwrap();
            assert!((estimate - 1.0).abs() < 2e-5, "{rate}, {method}: {estimate}");
        }
    }
}

/// x' = s - b x with s = 1 from T on, measured without error at b = 1: linear in x, but not in T. An input of the study
/// with an unknown time is refused by name.
#[test]
fn an_unknown_time_of_switching_is_found_by_every_method() {
    let switched = 1.23;
    let mut record = "t,x\n".to_owned();
    for k in 0..31 {
        let t = 0.1 * f64::from(k);
        writeln!(record, "{t},{}", 1.0 - (-(t - switched).max(0.0)).exp()).unwrap();
    }
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nT = { start = 1.0, min = 0.1, max = 3.0 }\n\
                 [measurements]\nx = { std = 0.01 }\n[data]\nfile = \"record.csv\"\n";
    let models = [
        "model M parameter Real T = 1; Real x(start = 0, fixed = true);
            equation der(x) = (if time > T then 1 else 0) - x; end M;",
        "model M parameter Real T = 1; parameter Real half = T/2; Real x(start = 0, fixed = true); Real s;
            equation s = if time > 2*half then 1 else 0; der(x) = s - x*T/1.23; end M;",
    ];
    for (model, method) in models.iter().flat_map(|model| ["auto", "ml", "output-error", "pem"].map(|it| (model, it))) {
        let session = Session::with_model(model).with("record.csv", &record).with("study.toml", study);
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let found = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((found - switched).abs() < 1e-6, "{method}: {found}");
    }
    let model = "model M input Real u; Real x(start = 0, fixed = true); equation der(x) = u - x; end M;";
    for input in ["{ expression = \"if time > T then 1 else 0\" }", "{ impulses = [{ time = \"T\", area = 1 }] }"] {
        let study = format!("{study}[inputs]\nu = {input}\n");
        let session = Session::with_model(model).with("record.csv", &record).with("study.toml", &study);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{}", run.stdout);
        finding(&run.json(), "unknown-input");
    }
}

/// x rises at the rate 1 to the border a and stays: every method finds a.
#[test]
fn a_border_that_the_model_slides_along_is_found_by_every_method() {
    let model = "model M parameter Real a = 0.7; Real x(start = 0, fixed = true);
                 equation der(x) = if x > a then -1 else 1; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 0.6, min = 0.1, max = 1 }\n[measurements]\n\
                 x = { column = \"z\", std = 0.01 }\n[data]\nfile = \"d.csv\"\n";
    let rows: Vec<String> = (0..=20).map(|k| 0.1 * f64::from(k)).map(|t| format!("{t},{}", t.min(0.7))).collect();
    let session = Session::with_model(model).with("study.toml", study);
    let session = session.with("d.csv", &format!("t,z\n{}\n", rows.join("\n")));
    for (method, accuracy) in [("auto", 1e-9), ("output-error", 1e-9), ("pem", 1e-9), ("ml", 5e-3)] {
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{method}: {}", run.stdout);
        let found = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((found - 0.7).abs() < accuracy, "{method}: {found}");
    }
}

/// A border that moves with an input, along which no mixture stays: a fit that only flees from where it is met is no
/// answer.
#[test]
fn a_search_that_flees_from_failing_trajectories_says_so() {
    let model = "model M parameter Real mu = 0.5; input Real u; Boolean slow;
                   Real x(start=0, fixed=true); Real v(start=0, fixed=true);
                 equation slow = v < 0.3 + 0.001*u; der(x) = v; der(v) = (if slow then mu else -mu) - x; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nmu = { start = 0.5, min = 0.1, max = 0.8 }\n[inputs]\n\
                 u = { expression = \"0.1\" }\n[measurements]\nx = { column = \"z\", std = 0.01 }\n[data]\nfile = \"d.csv\"\n";
    let rows: Vec<String> = (0..=8).map(|k| 0.25 * f64::from(k)).map(|t| format!("{t},{}", 0.2 * t)).collect();
    let session = Session::with_model(model).with("study.toml", study);
    let session = session.with("d.csv", &format!("t,z\n{}\n", rows.join("\n")));
    let run = session.run(&["identify", "study.toml", "--json"]);
    assert_eq!(run.status, 3, "{}", run.stdout);
    assert!(finding(&run.json(), "trajectory")["message"].as_str().unwrap().contains("v < 0.3"), "{}", run.stdout);
}

/// A mass between a spring and a belt sticks and slips. Held by a Boolean or by a relation within an equation it has the
/// same estimates, and inside a unit the same costs.
#[test]
fn stick_and_slip_are_identified_on_every_road_alike() {
    let model = |relation: &str, more: &str| {
        format!(
            "model Slip parameter Real mu = 0.5, vb = 0.3;
               Real x(start=0, fixed=true); Real v(start=0, fixed=true); Real f; {more}
               der(x) = v; f = if {relation} then mu else -mu; der(v) = f - x; end Slip;"
        )
    };
    // The closed form at mu = 0.55, vb = 0.3, and errors that are known.
    let exact = |t: f64| {
        let (mu, vb) = (0.55f64, 0.3f64);
        let t1 = (vb / mu).asin();
        let t2 = t1 + mu * t1.cos() / vb;
        match t {
            _ if t < t1 => mu * (1.0 - t.cos()),
            _ if t < t2 => mu * (1.0 - t1.cos()) + vb * (t - t1),
            _ => mu + vb * (t - t2).sin(),
        }
    };
    let times: Vec<f64> = (0..=60).map(|k| 0.1 * f64::from(k)).collect();
    let noise = |k: usize| 0.01 * (7.3 * k as f64).sin();
    let rows: Vec<String> = times.iter().enumerate().map(|(k, &t)| format!("{t},{}", exact(t) + noise(k))).collect();
    let session = Session::with_model(&model("v < vb", "equation"));
    let session = session.with("boolean.mo", &model("slow", "Boolean slow; equation slow = v < vb;"));
    let session = session.with("d.csv", &format!("t,z\n{}\n", rows.join("\n")));
    assert_eq!(session.run(&["export", "model.mo", "--kind", "me", "-o", "unit.fmu"]).status, 0);
    let study = |file: &str| {
        let study = format!(
            "[model]\nfile = \"{file}\"\n[unknown]\nmu = {{ start = 0.5 }}\nvb = {{ start = 0.25 }}\n[measurements]\n\
             x = {{ column = \"z\", std = 0.01 }}\n[data]\nfile = \"d.csv\"\n"
        );
        std::fs::write(session.path("study.toml"), study).unwrap();
    };
    let are_alike = |one: &[f64], other: &[f64]| one.iter().zip(other).all(|(a, b)| (a - b).abs() < 1e-5 * b.abs());
    let (mut found, mut costs): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    for file in ["model.mo", "boolean.mo"] {
        study(file);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{file}: {}", run.stdout);
        let document = run.json();
        let number = |at: usize, key: &str| document["parameters"][at][key].as_f64().unwrap();
        for (at, truth) in [0.55, 0.3].into_iter().enumerate() {
            let (found, error) = (number(at, "estimate"), number(at, "std_error"));
            assert!((found - truth).abs() < 3.0 * error && error < 0.005, "{file}: {found} +- {error}");
        }
        found.push(vec![number(0, "estimate"), number(1, "estimate"), document["cost"].as_f64().unwrap()]);
    }
    assert!(are_alike(&found[0], &found[1]), "{found:?}");
    for file in ["model.mo", "boolean.mo", "unit.fmu"] {
        study(file);
        let run = session.run(&["cost", "study.toml", "--grid", "mu=0.53:0.57:3", "--set", "vb=0.3", "--json"]);
        assert_eq!(run.status, 0, "{file}: {}", run.stdout);
        costs.push(run.json()["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect());
    }
    assert!(costs[1..].iter().all(|other| are_alike(other, &costs[0])), "{costs:?}");
}
