//! The filter live: the same numbers as `estimate`, alarms, and streams that are not as they should be.

use serde_json::Value;

use crate::session::{Run, Session, Table, codes, finding};

/// A noise that is the same everywhere: a sum of incommensurable waves.
fn noise(at: usize) -> f64 {
    let x = at as f64;
    (1.3 * x).sin() + (2.7 * x + 1.0).sin() + (0.37 * x * x).sin()
}

/// Numbers of a stream and of `estimate` on the same record, compared at the times of the table.
fn compare(session: &Session, study: &str, record: &str, signals: &[&str]) {
    let text = std::fs::read_to_string(session.path(record)).unwrap();
    let seen = session.run_with(&["watch", study, "--quiet"], &text);
    assert_eq!(seen.status, 0, "{}", seen.stderr);
    let run = session.run(&["estimate", study, "-o", "estimates.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = Table::parse(&std::fs::read_to_string(session.path("estimates.csv")).unwrap());
    let objects = seen.objects();
    for (row, time) in table.column("t").into_iter().enumerate() {
        let object = objects.iter().find(|object| object["t"].as_f64() == Some(time)).unwrap();
        for signal in signals {
            let expected = [table.column(signal)[row], table.column(&format!("{signal}.std"))[row]];
            for (at, expected) in expected.into_iter().enumerate() {
                let found = object["estimates"][signal][at].as_f64().unwrap();
                assert!(
                    (found - expected).abs() <= 1e-9 * expected.abs().max(1e-3),
                    "{time} {signal}: {found} {expected}"
                );
            }
        }
    }
}

/// A servo with a shaft that is stiff in one direction: of index 3 in the model's own equations, linear.
const RIGID: &str = "model Rigid
  parameter Real J1 = 0.4, J2 = 1.1, d = 0.6;
  input Real u, w;
  Real phi1(start = 0, fixed = true), phi2, w1(start = 0, fixed = true), w2, tau;
equation
  der(phi1) = w1;
  der(phi2) = w2;
  J1*der(w1) = u - tau - d*w1;
  J2*der(w2) = tau + w;
  phi1 = phi2;
end Rigid;";

fn rigid() -> Session {
    let mut data = "t,u,y\n".to_owned();
    for at in 0..120 {
        let time = 0.05 * at as f64;
        let missing = at % 7 == 3;
        let value = 0.5 * time * time + 0.02 * noise(at);
        let cell = if missing { String::new() } else { value.to_string() };
        data.push_str(&format!("{time},{},{cell}\n", (0.8 * time).sin()));
    }
    let study = r#"
[model]
file = "model.mo"
[inputs]
u = { column = "u", hold = "foh" }
[disturbances]
w = { matern = { smoothness = 1.5, std = 0.3, length = 0.7 } }
[measurements]
phi2 = { column = "y", std = 0.02 }
[estimate]
signals = ["tau", "w2"]
[data]
file = "record.csv"
"#;
    Session::with_model(RIGID).with("record.csv", &data).with("study.toml", study)
}

/// Two tanks, nonlinear, with a record whose times are rounded.
fn tanks() -> Session {
    let model = "model Tanks
  parameter Real k1 = 0.5, k2 = 0.4;
  input Real u, w;
  Real h1(start = 1, fixed = true), h2(start = 0.8, fixed = true), q;
equation
  der(h1) = u + w - q;
  q = k1*sqrt(h1);
  der(h2) = q - k2*sqrt(h2);
end Tanks;";
    let mut data = "t,u,level\n".to_owned();
    for at in 0..80 {
        let u = if at / 20 % 2 == 0 { 0.3 } else { 0.5 };
        let level = 0.9 + 0.1 * (0.05 * at as f64).sin() + 0.005 * noise(at);
        data.push_str(&format!("{},{u},{level}\n", f64::from(at as u32) / 10.0));
    }
    let study = r#"
[model]
file = "model.mo"
[inputs]
u = { column = "u" }
[disturbances]
w = { std = 0.05, time_constant = 2.0 }
[measurements]
h2 = { column = "level", std = 0.01 }
[estimate]
signals = ["h1", "q"]
[data]
file = "record.csv"
"#;
    Session::with_model(model).with("record.csv", &data).with("study.toml", study)
}

#[test]
fn a_stream_gives_what_estimate_gives() {
    compare(&rigid(), "study.toml", "record.csv", &["tau", "w2"]);
    compare(&tanks(), "study.toml", "record.csv", &["h1", "q"]);
}

/// Nothing is uncertain there, and samples are as far apart as they like.
#[test]
fn a_model_without_disturbances_is_watched_as_it_is_estimated() {
    let tanks = tanks();
    let study = std::fs::read_to_string(tanks.path("study.toml")).unwrap();
    let study = study.replace("[disturbances]\nw = { std = 0.05, time_constant = 2.0 }\n", "");
    let mut record = "t,u,level\n".to_owned();
    let mut time = 0.0;
    for at in 0..60 {
        record.push_str(&format!("{time},{},0.9\n", if at / 20 % 2 == 0 { 0.3 } else { 0.5 }));
        time += [0.1, 0.13, 0.07, 1.7][at % 4];
    }
    compare(&tanks.with("study.toml", &study).with("record.csv", &record), "study.toml", "record.csv", &["h1", "q"]);
}

/// Samples from before the start say what inputs are at the start, and nothing else: the state is known there, by hand
/// x(2) = u + (1 - u) exp(-0.3) with the u = -1 that is held since 1.5.
#[test]
fn a_stream_begins_at_the_start_that_the_study_says() {
    let mut record = "t,u,y\n".to_owned();
    for at in 0..9 {
        record.push_str(&format!("{},{},{}\n", 0.5 * at as f64, (at * 7) % 5 - 2, 0.3 * at as f64));
    }
    let model = |rate: &str| {
        format!(
            "model M input Real u; Real x(start = 1, fixed = true), y; equation der(x) = -{rate} + u; y = x; end M;"
        )
    };
    for (rate, hold) in [("x", "zoh"), ("x", "foh"), ("x*cosh(0*x)", "zoh")] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[inputs]\nu = {{ column = \"u\", hold = \"{hold}\" }}\n[measurements]\n\
             y = {{ column = \"y\", std = 0.1 }}\n[estimate]\nsignals = [\"x\"]\n[data]\nfile = \"record.csv\"\n\
             time = \"t\"\n[simulate]\nstart = 1.7\nrtol = 1e-11\natol = 1e-12\n"
        );
        let session = Session::with_model(&model(rate)).with("study.toml", &study).with("record.csv", &record);
        compare(&session, "study.toml", "record.csv", &["x"]);
        let objects = session.run_with(&["watch", "study.toml", "--quiet"], &record).objects();
        for object in &objects[..4] {
            assert_eq!(object["findings"][0]["code"], "early-sample", "{object}");
        }
        if hold == "zoh" {
            let found = objects[4]["estimates"]["x"][0].as_f64().unwrap();
            assert!((found - (-1.0 + 2.0 * (-0.3f64).exp())).abs() < 1e-8, "{found}");
        }
    }
}

#[test]
fn an_index_3_pendulum_is_watched_as_it_is_estimated() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../problems/pendulum");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let study = read("drag.toml") + "\n[estimate]\nsignals = [\"x1\", \"x3\"]\n";
    let record: String = read("drag.csv").lines().take(702).map(|line| format!("{line}\n")).collect();
    let session = Session::with_model(&read("model.mo")).with("study.toml", &study).with("drag.csv", &record);
    compare(&session, "study.toml", "drag.csv", &["x1", "x3"]);
}

/// A random model of an index with the study of it, measured or not in what holds the derivative of its input.
struct Twin {
    model: String,
    signals: Vec<&'static str>,
    /// Signals that hold that derivative.
    held: Vec<&'static str>,
}

impl Twin {
    /// Index 2 prescribes a speed, whose force needs the slope of the input, here through an equation that is solved for
    /// by Newton's method; index 3 joins two masses.
    fn random(rng: &mut fastrand::Rng, index: usize, is_linear: bool) -> Self {
        let [a, b, c, d, e] = std::array::from_fn(|_| 0.3 + 1.2 * rng.f64());
        let cubic = |name: &str, factor: f64| match is_linear {
            true => String::new(),
            false => format!(" {factor:+}*{name}^3"),
        };
        let (declared, equations, signals, held) = match index {
            1 => (
                "x(start = 0.2, fixed = true), z".to_owned(),
                format!("der(x) = z + w - {a}*x;\n z{} = u - {b}*x;\n y = x + {c}*z;", cubic("z", d)),
                vec!["x", "z"],
                vec![],
            ),
            2 => (
                "x(start = 0.2, fixed = true), v, z(start = 0, fixed = true), F, f".to_owned(),
                format!(
                    "der(v) = F + w - {a}*v;\n v - {b}*x = u;\n der(x) = z + w - {c}*x;\n f{} = F;\n\
                     der(z) = x - z + 0.3*f;\n y = x + {d}*v;",
                    cubic("f", e)
                ),
                vec!["x", "v", "z", "f"],
                vec!["f"],
            ),
            _ => (
                "p(start = 0, fixed = true), q, v(start = 0, fixed = true), r, f".to_owned(),
                format!(
                    "der(p) = v;\n der(q) = r;\n der(v) = u - f - {a}*v;\n {b}*der(r) = f + w - {c}*q{};\n p = q;\n\
                     y = q;",
                    cubic("q", -d)
                ),
                vec!["q", "r", "f"],
                vec![],
            ),
        };
        let model = format!("model M\n input Real u, w;\n Real {declared}, y;\nequation\n {equations}\nend M;");
        Self { model, signals, held }
    }
}

/// Samples with gaps between them and cells without a value.
fn gappy(rng: &mut fastrand::Rng, is_smooth: bool) -> String {
    let step = [0.02, 0.05, 0.1][rng.usize(..3)];
    let mut record = "t,u,y\n".to_owned();
    for at in (0..50).filter(|&at| at < 2 || at % 13 != 5) {
        let time = step * at as f64;
        let u = (2.0 * time).sin() + if is_smooth { 0.3 } else { 0.5 } * rng.f64();
        let y = if rng.f64() < 0.1 { String::new() } else { (0.6 * (rng.f64() - 0.5)).to_string() };
        record.push_str(&format!("{time},{u},{y}\n"));
    }
    record
}

/// Between straight lines a force through a cubic jumps far, and where the search for it begins differs live, since the
/// slope after a sample is not known there: what is found must not.
#[test]
fn random_models_of_index_1_to_3_are_watched_as_they_are_estimated() {
    let mut rng = fastrand::Rng::with_seed(7);
    for case in 0..36 {
        let (index, is_linear, hold) = (1 + case % 3, case / 3 % 2 == 0, ["zoh", "foh"][case / 6 % 2]);
        let twin = Twin::random(&mut rng, index, is_linear);
        // A speed cannot jump with its input.
        let hold = if index == 2 { "foh" } else { hold };
        let signals: Vec<String> = twin.signals.iter().map(|name| format!("\"{name}\"")).collect();
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[inputs]\nu = {{ column = \"u\", hold = \"{hold}\" }}\n[disturbances]\n\
             w = {{ std = {}, time_constant = 0.7 }}\n[measurements]\ny = {{ std = 0.05 }}\n[estimate]\n\
             signals = [{}]\n[data]\nfile = \"record.csv\"\n",
            0.05 + 0.3 * rng.f64(),
            signals.join(", ")
        );
        let session = Session::with_model(&twin.model)
            .with("study.toml", &study)
            .with("record.csv", &gappy(&mut rng, index == 2));
        let free: Vec<&str> = twin.signals.iter().copied().filter(|name| !twin.held.contains(name)).collect();
        compare(&session, "study.toml", "record.csv", &free);
        let text = std::fs::read_to_string(session.path("record.csv")).unwrap();
        let objects = session.run_with(&["watch", "study.toml", "--quiet"], &text).objects();
        for name in &twin.held {
            assert!(objects[0]["estimates"][name][0].is_null() && objects[1]["estimates"][name][0].is_f64());
            let told = finding(&objects[0], "slope-before-sample");
            assert!(told["message"].as_str().unwrap().contains(&format!("`{name}`")), "{told}");
        }
        assert_eq!(codes(&objects[1]).len(), 0, "{}", objects[1]);
    }
}

/// What holds the slope of an input counts as missing at the first sample, where no slope is known.
#[test]
fn a_measured_slope_is_left_out_at_the_first_sample() {
    let model = "model M input Real u, w; Real v, f, x(start = 0, fixed = true), y; equation v = u; der(v) = f; \
                 der(x) = w - x; y = x + f; end M;";
    for rate in ["w - x", "w - x*cosh(0*x)"] {
        let study = "[model]\nfile = \"model.mo\"\n[inputs]\nu = { column = \"u\", hold = \"foh\" }\n[disturbances]\n\
                     w = { std = 0.1, time_constant = 1 }\n[measurements]\ny = { std = 0.1 }\n[estimate]\n\
                     signals = [\"x\"]\n[watch]\nstep = 0.5\n";
        let session = Session::with_model(&model.replace("w - x", rate)).with("study.toml", study);
        let objects = session.run_with(&["watch", "study.toml"], "t,u,y\n0,0,3\n0.5,1,2\n1,2,2\n").objects();
        assert!(objects[0]["innovations"]["y"].is_null(), "{}", objects[0]);
        assert!(finding(&objects[0], "slope-before-sample")["message"].as_str().unwrap().contains("`y`"));
        // The slope is 2 from then on, and nothing else is measured.
        for object in &objects[1..] {
            assert!(object["innovations"]["y"].as_f64().unwrap().abs() < 1e-6, "{object}");
        }
    }
}

/// A random walk that is measured: everything about it is known by hand.
fn walk() -> Session {
    let model = "model Walk input Real w; Real x(start = 0, fixed = true); equation der(x) = w; end Walk;";
    let study = r#"
[model]
file = "model.mo"
[disturbances]
w = { white = 1.0 }
[measurements]
x = { std = 1.0 }
[estimate]
signals = ["x"]
"#;
    Session::with_model(model).with("study.toml", study)
}

#[test]
fn a_stream_needs_no_record_and_may_be_json() {
    let lines = "{\"t\": 0, \"x\": 0}\n{\"t\": 1, \"x\": 1.0}\n{\"x\": 0.5, \"t\": 2}";
    let run = walk().run_with(&["watch", "study.toml"], lines);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let objects = run.objects();
    assert_eq!(objects.len(), 3);
    let estimate = |at: usize, entry: usize| objects[at]["estimates"]["x"][entry].as_f64().unwrap();
    // P = 1, K = 1/2; then P = 3/2, K = 3/5.
    assert!((estimate(1, 0) - 0.5).abs() < 1e-12 && (estimate(1, 1).powi(2) - 0.5).abs() < 1e-12);
    assert!((estimate(2, 0) - 0.5).abs() < 1e-12 && (estimate(2, 1).powi(2) - 0.6).abs() < 1e-12);
    let innovation = objects[1]["innovations"]["x"].as_f64().unwrap();
    assert!((innovation - 1.0 / 2f64.sqrt()).abs() < 1e-12, "{innovation}");
}

fn told<'a>(objects: &'a [Value], at: usize, code: &str) -> &'a str {
    assert!(objects[at]["estimates"].as_object().unwrap().is_empty(), "{}", objects[at]);
    finding(&objects[at], code)["message"].as_str().unwrap()
}

#[test]
fn samples_that_cannot_be_used_are_told_with_their_effect() {
    let stream = "t,x\n0,0\n1,0.1\n1,0.1\n0.5,3\n2,abc\n3\n6,0.2\n";
    let run = walk().run_with(&["watch", "study.toml", "--step", "1"], stream);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let objects = run.objects();
    assert!(told(&objects, 2, "repeated-sample").contains("left out"));
    let back = told(&objects, 3, "late-sample");
    assert!(back.contains("went back from t = 1 to 0.5") && back.contains("left out"), "{back}");
    // A word is a missing value: the filter goes on to that time, and there is nothing to test.
    assert_eq!(codes(&objects[4]), ["data-number"]);
    assert!(objects[4]["innovations"]["x"].is_null() && objects[4]["estimates"]["x"][0].is_f64());
    assert!(told(&objects, 5, "data-row").contains("left out"));
    let missing = finding(&objects[6], "missing-samples")["message"].as_str().unwrap();
    assert!(missing.starts_with("3 samples are missing") && missing.contains("predicted across"), "{missing}");
}

#[test]
fn a_stream_that_cannot_be_read_ends_with_one_finding() {
    let wrong = |stream: &str| walk().run_with(&["watch", "study.toml", "--json"], stream);
    for (stream, code) in [("t,y\n0,1\n", "data-column"), ("0,1\n1,2\n", "data-header"), ("", "no-samples")] {
        let run = wrong(stream);
        assert_eq!(run.status, 1, "{stream}: {}", run.stderr);
        finding(&run.json(), code);
    }
    for (stream, name) in [("t,x,x\n0,1,2\n", "x"), ("t,t,x\n0,1,2\n", "t")] {
        let run = wrong(stream);
        assert_eq!(run.status, 1, "{stream}: {}", run.stderr);
        let document = run.json();
        let message = finding(&document, "data-column")["message"].as_str().unwrap();
        assert!(message.contains(&format!("same header `{name}`")), "{message}");
    }
    let time = wrong("time,x\n0,1\n");
    assert!(finding(&time.json(), "data-column")["help"].as_str().unwrap().contains("`time`"));
    let usage = walk().run_with(&["watch", "study.toml", "--false-alarm-rate", "2"], "");
    assert_eq!(usage.status, 2);
    assert_eq!(walk().run_with(&["watch", "study.toml", "-o", "x.csv"], "").status, 2);
}

#[test]
fn what_needs_the_future_is_refused() {
    let session = rigid();
    let study = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let session = session.with("cubic.toml", &study.replace("foh", "cubic"));
    let run = session.run_with(&["watch", "cubic.toml", "--json"], "");
    assert_eq!(run.status, 1);
    assert!(finding(&run.json(), "watch-input")["message"].as_str().unwrap().contains("spline"));
    let session = tanks();
    let study = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let none = study.replace("[data]\nfile = \"record.csv\"\n", "");
    let run = session.with("none.toml", &none).run_with(&["watch", "none.toml", "--json"], "");
    assert_eq!(run.status, 1);
    finding(&run.json(), "watch-step");
    // With the distance of samples no record is needed.
    let session = tanks().with("none.toml", &none);
    let record = std::fs::read_to_string(session.path("record.csv")).unwrap();
    let alone = session.run_with(&["watch", "none.toml", "--step", "0.1"], &record);
    assert_eq!(alone.status, 0, "{}", alone.stderr);
    let beside = session.run_with(&["watch", "study.toml"], &record);
    let level = |run: &Run| run.objects()[79]["estimates"]["h1"][0].as_f64().unwrap();
    assert!((level(&alone) - level(&beside)).abs() < 1e-5, "{} {}", level(&alone), level(&beside));
}

#[test]
fn a_stopped_filter_goes_on_with_the_same_bytes() {
    for session in [rigid(), tanks()] {
        let record = std::fs::read_to_string(session.path("record.csv")).unwrap();
        let whole = session.run_with(&["watch", "study.toml", "--quiet"], &record);
        let half: String = record.lines().take(35).map(|line| format!("{line}\n")).collect();
        let watch = ["watch", "study.toml", "--quiet", "--state", "state.txt"];
        let first = session.run_with(&watch, &half);
        let kept = std::fs::read(session.path("state.txt")).unwrap();
        // The whole record again: what was seen is passed over.
        let second = session.run_with(&watch, &record);
        assert!(first.stdout + &second.stdout == whole.stdout, "the bytes differ");
        // A changed byte, and another study.
        let mut changed = kept.clone();
        let at = changed.len() - 30;
        changed[at] ^= 1;
        std::fs::write(session.path("state.txt"), &changed).unwrap();
        let refused = session.run_with(&["watch", "study.toml", "--json", "--state", "state.txt"], &record);
        assert_eq!(refused.status, 1);
        finding(&refused.json(), "checkpoint");
        std::fs::write(session.path("state.txt"), &kept).unwrap();
        let study = std::fs::read_to_string(session.path("study.toml")).unwrap() + "\n# changed\n";
        let session = session.with("study.toml", &study);
        assert_eq!(session.run_with(&watch, &record).status, 1);
    }
}

fn alarm_times(run: &Run, test: &str) -> Vec<f64> {
    let objects = run.objects();
    let has = |object: &&Value| object["alarms"].as_array().unwrap().iter().any(|alarm| alarm["test"] == test);
    objects.iter().filter(has).map(|object| object["t"].as_f64().unwrap()).collect()
}

#[test]
fn a_jump_and_a_bias_of_a_sensor_are_found_and_nothing_else() {
    let mut stream = "t,x\n".to_owned();
    for at in 0..300 {
        let outlier = if at == 100 { 30.0 } else { 0.0 };
        // A sensor that drifts away much faster than a walk.
        let bias = if at >= 200 { 2.0 * (at - 200) as f64 } else { 0.0 };
        stream.push_str(&format!("{at},{}\n", 0.3 * noise(at) + outlier + bias));
    }
    let run = walk().run_with(&["watch", "study.toml", "--false-alarm-rate", "1e-6"], &stream);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let jumps = alarm_times(&run, "chi-square");
    assert!(jumps.first() == Some(&100.0) && jumps.iter().all(|time| *time < 103.0), "{jumps:?}");
    let shifts = alarm_times(&run, "cusum");
    assert!(shifts.iter().any(|time| (200.0..225.0).contains(time)), "{shifts:?}");
    assert!(shifts.iter().all(|time| (100.0..104.0).contains(time) || *time > 200.0), "{shifts:?}");
}

#[test]
fn predictions_widen_and_follow_given_inputs() {
    // x' = w: the variance grows by the time, the mean stays.
    let run = walk().run_with(&["watch", "study.toml", "--horizon", "3", "--step", "1"], "t,x\n0,0\n1,1\n");
    let objects = run.objects();
    let ahead = &objects[1]["horizon"]["estimates"]["x"];
    for (at, time) in [1.0, 2.0, 3.0].into_iter().enumerate() {
        assert!((ahead["value"][at].as_f64().unwrap() - 0.5).abs() < 1e-12);
        assert!((ahead["std"][at].as_f64().unwrap().powi(2) - 0.5 - time).abs() < 1e-12, "{ahead}");
    }
    let session = tanks().with("future.csv", "t,u\n8,0.5\n8.5,0.9\n9,0.9\n");
    let held = session.run(&["estimate", "study.toml", "--horizon", "1", "-o", "held.csv"]);
    assert_eq!(held.status, 0, "{}", held.stderr);
    let given = ["estimate", "study.toml", "--horizon", "1.1", "--future", "future.csv", "-o", "given.csv", "--json"];
    let given = session.run(&given);
    assert_eq!(given.status, 0, "{}", given.stderr);
    assert_eq!(given.json()["predicted_from"][0], 80);
    // Of two records, in rows of the one table.
    let text = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let two = text.replace("file = \"record.csv\"", "files = [\"record.csv\", \"record.csv\"]");
    let session = session.with("two.toml", &two);
    let run = session.run(&["estimate", "two.toml", "--horizon", "1", "-o", "two.csv", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = Table::parse(&std::fs::read_to_string(session.path("two.csv")).unwrap());
    let from: Vec<usize> =
        run.json()["predicted_from"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap() as usize).collect();
    let ends: Vec<usize> = (1..table.rows.len())
        .filter(|&row| table.column("t")[row] > 7.95 && table.column("t")[row - 1] < 7.95)
        .collect();
    assert_eq!(from, ends);
    assert_eq!(from.len(), 2);
    let read = |name: &str| Table::parse(&std::fs::read_to_string(session.path(name)).unwrap());
    let (held, given) = (read("held.csv"), read("given.csv"));
    assert_eq!(held.rows.len(), 90);
    assert_eq!(given.column("t")[80..], [8.0, 8.5, 9.0]);
    assert!(given.column("h1")[82] > held.column("h1")[89] + 0.1);
    assert!(held.column("h1.std").windows(2).skip(79).all(|pair| pair[1] > pair[0]));
    let wrong = session.with("wrong.csv", "t,v\n8,0\n");
    let run = wrong.run(&["estimate", "study.toml", "--horizon", "1", "--future", "wrong.csv", "--json"]);
    assert_eq!(run.status, 1);
    finding(&run.json(), "data-column");
}

/// What is expected of a stationary process a while after it was measured is its covariance at that distance.
#[test]
fn matern_disturbances_have_their_covariance() {
    let model = "model Signal input Real w; Real y; equation y = w; end Signal;";
    type Covariance = fn(f64) -> f64;
    let cases: [(f64, Covariance); 3] =
        [(0.5, |r| (-r).exp()), (1.5, |r| (1.0 + r) * (-r).exp()), (2.5, |r| (1.0 + r + r * r / 3.0) * (-r).exp())];
    for (smoothness, covariance) in cases {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[parameters]\nsize = 0.3\nl = 1.4\n[disturbances]\n\
             w = {{ matern = {{ smoothness = {smoothness}, std = \"size\", length = \"l\" }} }}\n\
             [measurements]\ny = {{ std = 0 }}\n[estimate]\nsignals = [\"y\"]\n"
        );
        let session = Session::with_model(model).with("study.toml", &study);
        let run = session.run_with(&["watch", "study.toml", "--horizon", "2", "--step", "0.5"], "t,y\n0,0.2\n");
        assert_eq!(run.status, 0, "{}", run.stderr);
        let ahead = run.objects()[0]["horizon"].clone();
        for at in 0..4 {
            let distance = ahead["t"][at].as_f64().unwrap();
            let part = covariance((2.0 * smoothness).sqrt() * distance / 1.4);
            let signal = &ahead["estimates"]["y"];
            let (value, std) = (signal["value"][at].as_f64().unwrap(), signal["std"][at].as_f64().unwrap());
            assert!((value - 0.2 * part).abs() < 1e-9, "{smoothness} {distance}: {value} {}", 0.2 * part);
            assert!((std - 0.3 * (1.0 - part * part).sqrt()).abs() < 1e-9, "{smoothness} {distance}: {std}");
        }
    }
    let wrong =
        "[model]\nfile = \"model.mo\"\n[disturbances]\nw = { matern = { smoothness = 1, std = 1, length = 1 } }\n";
    let run = Session::with_model(model).with("study.toml", wrong).run(&["check", "study.toml", "--json"]);
    assert_eq!(run.status, 1);
    assert!(finding(&run.json(), "out-of-range")["message"].as_str().unwrap().contains("smoothness 1 "));
}

/// The objects of a stream, which must be taken whole.
fn watched(session: &Session, record: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(session.path(record)).unwrap();
    let run = session.run_with(&["watch", "study.toml", "--quiet"], &text);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.objects()
}

fn close(a: &Value, b: &Value) -> bool {
    (0..2).all(|at| {
        let (a, b) = (a[at].as_f64().unwrap(), b[at].as_f64().unwrap());
        (a - b).abs() <= 1e-9 * b.abs().max(1e-3)
    })
}

/// A parameter that walks is a state whose derivative is white noise; with a standard deviation it is a disturbance.
#[test]
fn a_parameter_that_varies_is_what_it_would_be_written_out_by_hand() {
    let mut data = "t,y\n".to_owned();
    for at in 0..60 {
        data.push_str(&format!("{},{}\n", 0.1 * f64::from(at), 0.02 * f64::from(at) + 0.1 * noise(at as usize)));
    }
    let session = |model: &str, disturbance: &str, signals: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[disturbances]\n{disturbance}\n[measurements]\n\
             x = {{ column = \"y\", std = 0.1 }}\n[estimate]\nsignals = [{signals}]\n[data]\nfile = \"record.csv\"\n"
        );
        Session::with_model(model).with("record.csv", &data).with("study.toml", &study)
    };
    // The gain that the equation holds is computed from the parameter.
    let own = "model Lag parameter Real b = 0.25; parameter Real gain = 2*b; Real x(start = 0, fixed = true);
equation der(x) = gain - x; end Lag;";
    let walking = session(own, "b = { walk = 1.0 }", "\"x\"");
    let by_hand = session(
        "model Lag input Real w; Real b(start = 0.25, fixed = true), x(start = 0, fixed = true);
equation der(b) = w; der(x) = 2*b - x; end Lag;",
        "w = { white = 1.0 }",
        "\"x\", \"b\"",
    );
    let (found, expected) = (watched(&walking, "record.csv"), watched(&by_hand, "record.csv"));
    for (found, expected) in found.iter().zip(&expected) {
        let (found, expected) = (&found["estimates"], &expected["estimates"]);
        assert!(close(&found["b(t)"], &expected["b"]) && close(&found["x"], &expected["x"]), "{found} {expected}");
    }
    compare(&walking, "study.toml", "record.csv", &["x", "b(t)"]);
    // T = 2 std^2 / walk^2.
    let tied = session(own, "b = { walk = 0.5, std = 0.3 }", "\"x\"");
    let by_hand = session(
        "model Lag input Real w; Real b, x(start = 0, fixed = true); equation b = 0.25 + w; der(x) = 2*b - x; end Lag;",
        "w = { std = 0.3, time_constant = 0.72 }",
        "\"x\", \"b\"",
    );
    let (found, expected) = (watched(&tied, "record.csv"), watched(&by_hand, "record.csv"));
    for (found, expected) in found.iter().zip(&expected) {
        assert!(close(&found["estimates"]["b(t)"], &expected["estimates"]["b"]), "{found} {expected}");
    }
    for (disturbance, code) in
        [("b = { walk = 1.0, time_constant = 2 }", "disturbance-form"), ("n = { walk = 1.0 }", "varying-parameter")]
    {
        let model =
            "model Lag parameter Integer n = 2; parameter Real b = 1; Real x[n](each start = 0, each fixed = true);
equation for i in 1:n loop der(x[i]) = b - x[i]; end for; end Lag;";
        let session = session(model, disturbance, "\"x[1]\"");
        let run = session.run_with(&["watch", "study.toml", "--json"], &data);
        assert_eq!(run.status, 1, "{}", run.stdout);
        finding(&run.json(), code);
    }
}

/// An outlet that clogs: a nonlinear parameter is tracked, with errors of the size that is stated.
#[test]
fn slow_drift_is_tracked() {
    let model = "model Tank parameter Real k = 0.5; input Real u; Real h(start = 1, fixed = true);
equation der(h) = u - k*sqrt(h); end Tank;";
    let study = "[model]\nfile = \"model.mo\"\n[inputs]\nu = { column = \"u\" }\n[disturbances]\nk = { walk = 0.005 }\n\
                 [measurements]\nh = { std = 0.005 }\n[watch]\nstep = 0.1\n";
    let mut data = "t,u,h\n".to_owned();
    let mut level = 1.0f64;
    let truth = |time: f64| 0.5 - 0.1 * (time / 60.0).min(1.0);
    for at in 0..1000 {
        let time = 0.1 * f64::from(at);
        let u = if at / 50 % 2 == 0 { 0.6 } else { 0.4 };
        data.push_str(&format!("{time},{u},{}\n", level + 0.005 / 1.2 * noise(at as usize)));
        for step in 0..20 {
            level += 0.005 * (u - truth(time + 0.005 * f64::from(step)) * level.sqrt());
        }
    }
    let session = Session::with_model(model).with("record.csv", &data).with("study.toml", study);
    let objects = watched(&session, "record.csv");
    let mut squares = Vec::new();
    for object in objects.iter().skip(100).step_by(20) {
        let [value, std] = [0, 1].map(|at| object["estimates"]["k(t)"][at].as_f64().unwrap());
        let error = value - truth(object["t"].as_f64().unwrap());
        assert!(error.abs() < 0.02 && (0.001..0.02).contains(&std), "{object}");
        squares.push((error / std).powi(2));
    }
    let mean = squares.iter().sum::<f64>() / squares.len() as f64;
    assert!((0.05..4.0).contains(&mean), "{mean}");
}

/// x = b t with an uncertain b: every standard deviation is t times that of b, beyond the record too.
#[test]
fn uncertain_parameters_are_counted_live_and_ahead() {
    let model = "model Ramp parameter Real b = 2; Real x(start = 0, fixed = true); equation der(x) = b; end Ramp;";
    let study = "[model]\nfile = \"model.mo\"\n[measurements]\nx = { std = 0.1 }\n[estimate]\nsignals = [\"x\"]\n\
                 [random.joint]\nnames = [\"b\"]\nmean = [2.0]\ncovariance = [[0.09]]\n[data]\nfile = \"record.csv\"\n\
                 [simulate]\nstart = 0\n";
    let record = "t,x\n1,2.1\n2,4.2\n3,5.9\n";
    let session = Session::with_model(model).with("record.csv", record).with("study.toml", study);
    compare(&session, "study.toml", "record.csv", &["x"]);
    let run = session.run_with(&["watch", "study.toml", "--horizon", "2", "--quiet"], record);
    let objects = run.objects();
    for object in &objects {
        let time = object["t"].as_f64().unwrap();
        let std = object["estimates"]["x"][1].as_f64().unwrap();
        assert!((std - 0.3 * time).abs() < 1e-9, "{object}");
        if let Some(ahead) = object["horizon"]["estimates"]["x"]["std"].as_array() {
            let last = ahead.last().unwrap().as_f64().unwrap();
            assert!((last - 0.3 * (time + 2.0)).abs() < 1e-9, "{object}");
        }
    }
    assert!(objects[2]["horizon"].is_object(), "{}", objects[2]);
    let run = session.run(&["estimate", "study.toml", "--horizon", "2", "-o", "ahead.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = Table::parse(&std::fs::read_to_string(session.path("ahead.csv")).unwrap());
    for (time, std) in table.column("t").into_iter().zip(table.column("x.std")) {
        assert!((std - 0.3 * time).abs() < 1e-9, "{time} {std}");
    }
    // The filters around the values are kept too.
    let lines: Vec<&str> = record.lines().collect();
    let first = session.run_with(&["watch", "study.toml", "--state", "s", "--quiet"], &lines[..3].join("\n"));
    let rest = session.run_with(&["watch", "study.toml", "--state", "s", "--quiet"], record);
    let whole = session.run_with(&["watch", "study.toml", "--quiet"], record);
    assert_eq!(first.stdout + &rest.stdout, whole.stdout);
}

/// y = g b t: what `[random.joint]` says of g counts beside what the data say of b, and what it says of b while b is not
/// identified.
#[test]
fn uncertain_parameters_count_beside_unknowns() {
    let model = "model Ramp parameter Real b = 2; parameter Real g = 3; Real x(start = 0, fixed = true); Real y;
        equation der(x) = b; y = g*x; end Ramp;";
    let study = |names: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nb = {{ start = 2.0 }}\n[measurements]\nx = {{ std = 0.1 }}\n\
             [estimate]\nsignals = [\"y\"]\n[random.joint]\nnames = [{names}]\n[data]\nfile = \"record.csv\"\n\
             [simulate]\nstart = 0\n"
        )
    };
    let record = "t,x\n1,2.1\n2,4.2\n3,5.9\n";
    // Least squares of x = b t: the mean and the variance of b.
    let (b, variance) = ((2.1 + 8.4 + 17.7) / 14.0, 0.01 / 14.0);
    let of_g = study("\"g\"").replace("\"g\"]", "\"g\"]\nmean = [3.0]\ncovariance = [[0.04]]");
    let of_both =
        study("\"g\", \"b\"").replace("\"b\"]", "\"b\"]\nmean = [3.0, 2.0]\ncovariance = [[0.04, 0.02], [0.02, 0.09]]");
    let cases: [(&str, &[&str], f64); 3] = [
        (&of_g, &["--identify"], b * b * 0.04 + 9.0 * variance),
        (&of_both, &["--identify"], b * b * 0.04 + 9.0 * variance),
        (&of_both, &[], 4.0 * 0.04 + 9.0 * 0.09 + 2.0 * 6.0 * 0.02),
    ];
    for (text, options, of_product) in cases {
        let session = Session::with_model(model).with("record.csv", record).with("study.toml", text);
        let arguments = ["estimate", "study.toml", "--horizon", "2", "-o", "out.csv", "--json"];
        let run = session.run(&[&arguments, options].concat());
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = Table::parse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
        for (time, std) in table.column("t").into_iter().zip(table.column("y.std")) {
            // The product of both moves is of second order.
            assert!((std / (time * of_product.sqrt()) - 1.0).abs() < 2e-3, "{time} {std} {options:?}");
        }
        let is_told = run.json()["findings"].as_array().unwrap().iter().any(|told| told["code"] == "joint-not-used");
        assert_eq!(is_told, !options.is_empty());
    }
}
/// A carriage under a square wave, whose friction is twice as large as the model says from some sample on.
fn carriage(jumps_at: usize) -> Session {
    let model = "model Carriage parameter Real d = 1; input Real u, w; Real v(start = 0, fixed = true);
equation der(v) = u + w - d*v; end Carriage;";
    let mut record = "t,u,v\n".to_owned();
    let mut speed = 0.0;
    for at in 0..1200 {
        let u = if at / 200 % 2 == 0 { 1.0 } else { -1.0 };
        record.push_str(&format!("{},{u},{}\n", at as f64 * 0.01, speed + 0.014 * noise(at)));
        let d = if at >= jumps_at { 2.0 } else { 1.0 };
        speed = u / d + (speed - u / d) * f64::exp(-0.01 * d);
    }
    let study = r#"
[model]
file = "model.mo"
[inputs]
u = { column = "u" }
[disturbances]
w = { std = 0.3, time_constant = 0.5 }
[measurements]
v = { std = 0.02 }
[estimate]
signals = ["v"]
[watch]
false_alarm_rate = 1e-5
faults = { d = [0.5, 2.0] }
"#;
    Session::with_model(model).with("record.csv", &record).with("study.toml", study)
}

fn faults(objects: &[Value]) -> Vec<&Value> {
    let alarms = objects.iter().flat_map(|object| object["alarms"].as_array().unwrap());
    alarms.filter(|alarm| alarm["test"] == "fault").collect()
}

/// The tests on innovations alone find nothing: a disturbance of usual size explains the friction as well.
#[test]
fn a_parameter_that_jumps_is_found_by_the_value_that_it_may_jump_to() {
    let objects = watched(&carriage(400), "record.csv");
    let found = faults(&objects);
    assert!(found.iter().all(|alarm| alarm["names"][0] == "d" && alarm["assumed"] == 2.0), "{found:?}");
    let first = objects.iter().find(|object| object["alarms"] != serde_json::json!([])).unwrap();
    assert_eq!(first["alarms"][0]["test"], "fault");
    let time = first["t"].as_f64().unwrap();
    assert!((5.0..12.0).contains(&time), "{time}");
    assert!(faults(&watched(&carriage(usize::MAX), "record.csv")).is_empty());
}

/// The sum of a fault that is there from the beginning is the difference of two log-likelihoods, as `estimate` has them.
#[test]
fn a_fault_is_told_by_the_ratio_of_likelihoods() {
    let session = carriage(0);
    let study = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let session = session.with("study.toml", &study.replace("std = 0.3", "std = 0.01"));
    let record = std::fs::read_to_string(session.path("record.csv")).unwrap();
    let objects = watched(&session, "record.csv");
    let at = objects.iter().position(|object| !faults(std::slice::from_ref(object)).is_empty()).unwrap();
    let value = faults(&objects[at..=at])[0]["value"].as_f64().unwrap();
    // From where the sum was zero last: the largest difference to a sample before.
    let ratio = |n_rows: usize| {
        let text: String = record.lines().take(n_rows + 1).map(|line| format!("{line}\n")).collect();
        std::fs::write(session.path("part.csv"), text).unwrap();
        let of = |set: &str| {
            let run = session.run(&["estimate", "study.toml", "--data", "part.csv", "--set", set, "--json"]);
            run.json()["log_likelihood"].as_f64().unwrap()
        };
        of("d=2") - of("d=1")
    };
    let begin = (1..at).map(ratio).fold(0.0f64, f64::min);
    assert!((ratio(at + 1) - begin - value).abs() < 1e-6, "{} {begin} {value}", ratio(at + 1));
}

#[test]
fn a_fault_of_what_is_no_parameter_is_told() {
    let session = carriage(0);
    let study = std::fs::read_to_string(session.path("study.toml")).unwrap();
    for (faults, code) in
        [("{ v = 2.0 }", "wrong-kind"), ("{ x = 2.0 }", "unknown-name"), ("{ d = \"much\" }", "wrong-type")]
    {
        let session = carriage(0).with("study.toml", &study.replace("{ d = [0.5, 2.0] }", faults));
        let run = session.run_with(&["watch", "study.toml", "--json"], "t,u,v\n0,0,0\n");
        assert_eq!(run.status, 1, "{}", run.stdout);
        finding(&run.json(), code);
    }
}

/// Filters under faults are kept too.
#[test]
fn sums_of_faults_are_resumed_to_the_same_bytes() {
    let session = carriage(100);
    let record = std::fs::read_to_string(session.path("record.csv")).unwrap();
    let part: String = record.lines().take(500).map(|line| format!("{line}\n")).collect();
    let whole = session.run_with(&["watch", "study.toml", "--quiet"], &record).stdout;
    let kept = ["watch", "study.toml", "--quiet", "--state", "s.state"];
    let first = session.run_with(&kept, &part).stdout;
    let rest = session.run_with(&kept, &record).stdout;
    assert!(first + &rest == whole);
}

/// A clock that jumps by years: the sample is left out, with a word, and the stream goes on.
#[test]
fn a_sample_that_is_too_far_away_is_left_out() {
    let model = "model M parameter Real a = 1; input Real u, w; Real x(start = 0, fixed = true);
                 equation der(x) = -a*x^3 + u + w; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[inputs]\nu = { column = \"u\", hold = \"zoh\" }\n[disturbances]\n\
                 w = { std = 0.5, time_constant = 1.0 }\n[measurements]\nx = { column = \"y\", std = 0.05 }\n\
                 [estimate]\nsignals = [\"x\"]\n[watch]\nstep = 0.1\n";
    let session = Session::with_model(model).with("study.toml", study);
    let samples = "t,u,y\n0,1,0\n0.1,1,0.1\n1000000000,1,1.0\n0.2,1,0.2\n";
    let run = session.run_with(&["watch", "study.toml"], samples);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(
        lines[2].contains("filter-broke") && lines[2].contains("steps of the filter after t = 0.1"),
        "{}",
        lines[2]
    );
    assert!(lines[3].starts_with("{\"t\":0.2,\"estimates\":{\"x\":[0.19"), "{}", lines[3]);
}

/// y' = -y^2 (1 or 2, by y): a relation without an event of its own is watched as it is estimated; events are refused by
/// name.
#[test]
fn relations_are_watched_and_events_are_refused() {
    let record: Vec<String> = (0..=10).map(|k| format!("{},0.5", f64::from(k) / 10.0)).collect();
    let record = format!("t,y\n{}\n", record.join("\n"));
    let study = "[model]\nfile = \"model.mo\"\n[measurements]\ny = { column = \"y\", std = 0.1 }\n[estimate]\n\
                 signals = [\"y\"]\n[data]\nfile = \"d.csv\"\n";
    let model = "model M Real y(start = 1, fixed = true); equation der(y) = -y*y*(if y > 0.6 then 1 else 2); end M;";
    let session = Session::with_model(model).with("study.toml", study).with("d.csv", &record);
    let run = session.run_with(&["watch", "study.toml"], &record);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let last: Value = serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap();
    // 1/y = 1 + t until y = 0.6, at t = 2/3, and grows twice as fast from there.
    let expected = 1.0 / (1.0 / 0.6 + 2.0 / 3.0);
    let found = last["estimates"]["y"][0].as_f64().unwrap();
    assert!((found - expected).abs() < 2e-3, "{found} for {expected}");
    let model = "model M Real y(start = 1, fixed = true); discrete Real k(start = 1, fixed = true);
                 equation der(y) = -k*y*y; when y < 0.6 then k = 2; end when; end M;";
    let session = Session::with_model(model).with("study.toml", study).with("d.csv", &record);
    let run = session.run_with(&["watch", "study.toml"], &record);
    assert_eq!(run.status, 1, "{}", run.stdout);
    assert!(run.stderr.contains("live-events"), "{}", run.stderr);
}

/// Two sensors of a walk, of which one has no value where the other is far off.
#[test]
fn an_alarm_names_the_sensors_that_measured() {
    let model = "model Walk input Real w; Real x(start = 0, fixed = true), y; equation der(x) = w; y = x; end Walk;";
    let study = "[model]\nfile = \"model.mo\"\n[disturbances]\nw = { white = 1 }\n[measurements]\n\
                 x = { std = 1 }\ny = { std = 1 }\n";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.run_with(&["watch", "study.toml", "--step", "1"], "t,x,y\n0,0,0\n1,0.1,0.2\n2,,30\n3,40,20\n");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let objects = run.objects();
    let names = |at: usize| {
        let alarms = objects[at]["alarms"].as_array().unwrap();
        let found = alarms.iter().find(|alarm| alarm["test"] == "chi-square");
        found.unwrap_or_else(|| panic!("{}", objects[at]))["names"].clone()
    };
    assert_eq!((names(2), names(3)), (serde_json::json!(["y"]), serde_json::json!(["x", "y"])));
    // The second z of a sample is what is left of its error when the first is known: here the one of y given x.
    let z = |name: &str| objects[1]["innovations"][name].as_f64().unwrap();
    // P = 1: x has variance 2, and y given x variance 3/2 around half of x.
    assert!((z("x") - 0.1 / 2f64.sqrt()).abs() < 1e-9, "{}", objects[1]);
    assert!((z("y") - (0.2 - 0.05) / 1.5f64.sqrt()).abs() < 1e-9, "{}", objects[1]);
}

/// Rows before and after a jump have the same time: the stream gives what the table gives.
#[test]
fn the_last_of_repeated_samples_counts_where_the_study_says_so() {
    for (session, study) in [(walk(), "study.toml"), (tanks(), "study.toml")] {
        let text = std::fs::read_to_string(session.path(study)).unwrap();
        let is_walk = !text.contains("[data]");
        let (data, column, signal) = if is_walk {
            ("t,x\n0,0\n1,9\n1,0.3\n2,0.4\n2,0.5\n2,0.6\n3,0.1\n", "x", "x")
        } else {
            ("t,u,level\n0,0.3,0.95\n0,0.5,0.9\n0.1,0.5,0.9\n0.2,0.5,3\n0.2,0.1,0.91\n0.3,0.1,0.9\n", "level", "h1")
        };
        let text = text.replace("[data]\nfile = \"record.csv\"\n", "");
        let text = format!("{text}\n[data]\nfile = \"record.csv\"\nrepeated = \"last\"\n");
        let session = session.with("again.toml", &text).with("record.csv", data);
        let seen = session.run_with(&["watch", "again.toml", "--quiet"], data);
        assert_eq!(seen.status, 0, "{}", seen.stderr);
        let run = session.run(&["estimate", "again.toml", "-o", "estimates.csv"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = Table::parse(&std::fs::read_to_string(session.path("estimates.csv")).unwrap());
        let objects = seen.objects();
        for (row, time) in table.column("t").into_iter().enumerate() {
            let object = objects.iter().rfind(|object| object["t"].as_f64() == Some(time)).unwrap();
            let expected = table.column(signal)[row];
            let found = object["estimates"][signal][0].as_f64().unwrap();
            assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-3), "{column} {time}: {found} {expected}");
        }
        let repeated = objects.iter().filter(|object| codes(object) == ["repeated-sample"]).count();
        assert_eq!(repeated, if is_walk { 3 } else { 2 });
    }
}

/// The model has nothing to do with it.
#[test]
fn a_value_beyond_all_sizes_is_named() {
    let study = "[linear]\nE = [[1]]\nF = [[-1]]\nJ = [[1]]\nH = [[1]]\n[disturbances]\nw1 = { white = 1.0 }\n\
                 [measurements]\ny1 = { column = \"y\", std = 0.1 }\n[estimate]\nsignals = [\"z1\"]\n[watch]\nstep = 0.1\n";
    let session = Session::new().with("study.toml", study);
    let run = session.run_with(&["watch", "study.toml"], "t,y\n0,0.1\n0.1,1e308\n0.2,0.1\n");
    assert_eq!(run.status, 0, "{}", run.stderr);
    let told = run.stdout.lines().find(|line| line.contains("value-too-large")).expect("it is told");
    assert!(told.contains("1e308"), "{told}");
    let without = session.run_with(&["watch", "study.toml"], "t,y\n0,0.1\n0.2,0.1\n");
    // The filter goes on as if it had not come.
    let last = |text: &str| -> Value { serde_json::from_str(text.lines().last().unwrap()).unwrap() };
    assert_eq!(last(&run.stdout)["estimates"], last(&without.stdout)["estimates"]);
}
