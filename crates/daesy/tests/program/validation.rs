//! Predictions of records that parameters were not found from, and several studies side by side.

use std::fmt::Write as _;

use serde_json::Value;

use crate::session::{Session, Table, finding};

/// A lag with a coloured disturbance; `bend` makes it nonlinear without changing what it does.
const LAG: &str = "model Lag
  parameter Real a = 1;
  parameter Real b = 2;
  parameter Real bend = 0;
  input Real u;
  input Real w;
  Real x(start = 0, fixed = true);
equation
  der(x) = -a*x + b*u + w + bend*x^2;
end Lag;
";

const STRAIGHT: &str = "model Lag
  parameter Real a = 1;
  parameter Real b = 2;
  input Real u;
  input Real w;
  Real x(start = 0, fixed = true);
equation
  der(x) = -a*x + b*u + w;
end Lag;
";

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
a = { start = 0.8, min = 0.01, max = 10 }
b = { start = 1.5 }
[inputs]
u = { column = "u", hold = "zoh" }
[disturbances]
w = { A = [[-0.5]], B = [[1.0]], C = [[0.3]] }
[measurements]
x = { column = "y", std = 0.05 }
[data]
file = "data.csv"
validation = ["other.csv"]
time = "t"
[identify]
horizons = [1, 5, "free"]
noise_step = 0.1
realizations = 100
"#;

/// Data of the lag at a = 1, b = 2 by small steps.
fn data(seed: u64, n: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let (mut x, mut w) = (0.0, 0.3 * normal());
    let mut text = "t,u,y\n".to_owned();
    let step = 0.002;
    for k in 0..n {
        let u = if (k / 12) % 2 == 0 { 1.0 } else { -0.5 };
        let _ = writeln!(text, "{},{u},{}", k as f64 / 5.0, x + 0.05 * normal());
        for _ in 0..100 {
            x += step * (-x + 2.0 * u + w);
            w += step * -0.5 * w + 0.3 * f64::sqrt(step) * normal();
        }
    }
    text
}

fn session(model: &str) -> Session {
    Session::with_model(model).with("data.csv", &data(3, 100)).with("other.csv", &data(4, 60)).with("study.toml", STUDY)
}

fn identified(session: &Session, arguments: &[&str]) -> Value {
    let run = session.run(&[&["identify", "study.toml", "--json", "--quiet"], arguments].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()
}

fn error(document: &Value, horizon: &Value) -> f64 {
    let list = document["validation"].as_array().unwrap();
    list.iter().find(|entry| entry["horizon"] == *horizon).unwrap()["rmse"].as_f64().unwrap()
}

#[test]
fn records_that_were_not_used_are_predicted_at_every_horizon() {
    let document = identified(&session(STRAIGHT), &["--report", "page.html"]);
    let entries = document["validation"].as_array().unwrap();
    let horizons: Vec<&Value> = entries.iter().map(|entry| &entry["horizon"]).collect();
    assert_eq!(horizons, [&Value::from(1), &Value::from(5), &Value::from("free")]);
    assert!(entries.iter().all(|entry| entry["file"] == "other.csv" && entry["name"] == "x"));
    let errors: Vec<f64> = horizons.iter().map(|horizon| error(&document, horizon)).collect();
    // The further ahead, the less is known.
    assert!(errors[0] < errors[1] && errors[1] < errors[2], "{errors:?}");
    // One sample ahead, errors are those of the measurement and of 0.2 s of disturbance.
    assert!((0.05..0.09).contains(&errors[0]), "{errors:?}");
    assert_eq!(document["predictions"].as_array().unwrap().len(), 3);
    // A file that is not used does not change what is found.
    let session = session(STRAIGHT);
    let without = STUDY.replace("validation = [\"other.csv\"]\n", "");
    std::fs::write(session.path("study.toml"), without).unwrap();
    let alone = identified(&session, &[]);
    assert_eq!(alone["parameters"], document["parameters"]);
    assert_eq!(alone["validation"], serde_json::json!([]));
}

#[test]
fn a_filter_of_a_nonlinear_model_looks_as_far_ahead_as_that_of_a_linear_one() {
    let exact = identified(&session(STRAIGHT), &[]);
    let session = session(LAG);
    let bent = STUDY.replace("[unknown]", "[parameters]\nbend = 1e-9\n[unknown]");
    std::fs::write(session.path("study.toml"), bent).unwrap();
    let approximate = identified(&session, &[]);
    assert_eq!(approximate["method"], "ml");
    assert!(approximate["approximation"].is_string());
    for horizon in [Value::from(1), Value::from(5), Value::from("free")] {
        let (one, other) = (error(&exact, &horizon), error(&approximate, &horizon));
        // Disturbances are straight lines between the points of their grid there, and the free run is a mean of 100
        // realizations.
        let slack = if horizon == "free" { 0.05 } else { 0.005 };
        assert!((one - other).abs() < slack * one, "{horizon}: {one} {other}");
    }
}

#[test]
fn without_an_accuracy_only_the_free_run_of_a_disturbed_model_is_told() {
    let session = session(LAG);
    let text = STUDY.replace(", std = 0.05", "").replace("[unknown]", "[parameters]\nbend = 1e-9\n[unknown]");
    std::fs::write(session.path("study.toml"), text).unwrap();
    let run = session.run(&["identify", "study.toml", "--json", "--method", "output-error"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    finding(&document, "horizon");
    let entries = document["validation"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["horizon"], "free");
}

/// An unknown that is as large as its error has a normal distribution with values below zero.
#[test]
fn a_saved_distribution_that_reaches_over_a_bound_is_told() {
    let model = "model M parameter Real k = 0.1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end M;";
    let data = (0..20).fold("t,x\n".to_owned(), |text, row| {
        let t = 0.1 * f64::from(row);
        text + &format!("{t},{}\n", (-0.1 * t).exp() + 0.1 * f64::from((row * 7) % 5 - 2))
    });
    let warns = |bound: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 0.2{bound} }}\n[measurements]\nx = {{ std = 0.15 }}\n\
             [data]\nfile = \"data.csv\"\n"
        );
        let session = Session::with_model(model).with("study.toml", &study).with("data.csv", &data);
        let run = session.run(&["identify", "study.toml", "--save", "saved.toml"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.stderr.contains("saved-bounds")
    };
    assert!(warns(", min = 0"));
    assert!(!warns(""));
    assert!(!warns(", min = -10, max = 10"));
}

#[test]
fn a_saved_nonlinear_model_is_applied_to_another_record() {
    let session = session(LAG);
    let bent = STUDY.replace("[unknown]", "[parameters]\nbend = 1e-9\n[unknown]");
    std::fs::write(session.path("study.toml"), bent).unwrap();
    for method in ["ml", "pem", "output-error"] {
        let found = identified(&session, &["--method", method, "--save", "saved.toml"]);
        let run = session.run(&["identify", "saved.toml", "--data", "other.csv", "--json"]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let applied = run.json();
        assert_eq!(applied["method"], method);
        assert_eq!(applied["parameters"], serde_json::json!([]));
        assert!(applied["residuals"]["x"]["std"].as_f64().is_some());
        // The record for validation is the data now, and is not told twice.
        finding(&applied, "validation-used");
        assert_eq!(found["validation"].as_array().unwrap().len(), 3, "{method}");
        let horizon = if method == "ml" { Value::from(1) } else { Value::from("free") };
        let entry = applied["predictions"].as_array().unwrap().iter().find(|entry| entry["horizon"] == horizon);
        let (one, other) = (entry.unwrap()["rmse"].as_f64().unwrap(), error(&found, &horizon));
        assert!((one - other).abs() < 1e-9 * one, "{method}: {one} {other}");
    }
}

#[test]
fn studies_of_the_same_data_are_compared_and_others_refused() {
    let session = session(STRAIGHT)
        .with("quiet.toml", &STUDY.replace("C = [[0.3]]", "C = [[0.01]]"))
        .with("late.toml", &STUDY.replace("[identify]", "[identify]\ntransient = 5.0"))
        .with(
            "swapped.toml",
            &STUDY.replace("data.csv", "x.csv").replace("other.csv", "data.csv").replace("x.csv", "other.csv"),
        );
    let run = session.run(&["identify", "study.toml", "quiet.toml", "--json", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let studies = document["studies"].as_array().unwrap();
    assert_eq!(studies.len(), 2);
    let figure = |at: usize, key: &str| studies[at][key].as_f64().unwrap();
    assert!(figure(0, "log_likelihood") > figure(1, "log_likelihood"));
    for key in ["aic", "bic", "validation"] {
        assert_eq!(document["best"][key], "study.toml", "{key}");
    }
    let page = std::fs::read_to_string(session.path("page.html")).unwrap();
    assert!(page.contains("quiet.toml") && page.contains("log-likelihood"));
    let text = session.run(&["identify", "study.toml", "quiet.toml"]).stdout;
    assert!(text.contains("AIC") && text.contains("other.csv"), "{text}");
    for other in ["late.toml", "swapped.toml"] {
        let refused = session.run(&["identify", "study.toml", other, "--json"]);
        assert_eq!(refused.status, 1);
        let message = finding(&refused.json(), "different-data")["message"].as_str().unwrap().to_owned();
        assert!(message.contains("study.toml") && message.contains(other), "{message}");
    }
    let usage = session.run(&["identify", "study.toml", "quiet.toml", "--save", "saved.toml"]);
    assert_eq!(usage.status, 2);
}

#[test]
fn data_and_horizons_that_mean_nothing_are_refused_in_their_line() {
    let session = session(STRAIGHT);
    let cases = [
        ("validation = [\"other.csv\"]", "validation = [\"data.csv\"]", "data-source"),
        ("validation = [\"other.csv\"]", "validation = [\"none.csv\"]", "data-file"),
        ("horizons = [1, 5, \"free\"]", "horizons = [0]", "out-of-range"),
        ("horizons = [1, 5, \"free\"]", "horizons = [\"fre\"]", "unknown-value"),
    ];
    for (from, to, code) in cases {
        std::fs::write(session.path("study.toml"), STUDY.replace(from, to)).unwrap();
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{to}");
        assert!(finding(&run.json(), code)["line"].as_u64().unwrap() > 1, "{to}");
    }
}

/// A signal that only a parameter and a known input determine is as uncertain as the parameter, by the filters of
/// linear and of nonlinear models.
#[test]
fn bands_of_estimates_include_the_uncertainty_of_parameters() {
    let study = STUDY
        .replace("[data]", "[estimate]\nsignals = [\"feed\", \"x\"]\n[data]")
        .replace("horizons = [1, 5, \"free\"]\n", "")
        .replace("validation = [\"other.csv\"]\n", "");
    let bent = study.replace("[unknown]", "[parameters]\nbend = 1e-9\n[unknown]");
    for (model, study) in [(STRAIGHT, study), (LAG, bent)] {
        let model = model.replace("equation", "  Real feed = b*u;\nequation");
        let session = Session::with_model(&model).with("data.csv", &data(3, 60)).with("study.toml", &study);
        let found = identified(&session, &["--save", "saved.toml"]);
        let b = found["parameters"].as_array().unwrap().iter().find(|it| it["name"] == "b").unwrap().clone();
        let std_error = b["std_error"].as_f64().unwrap();
        for arguments in [&["saved.toml"][..], &["study.toml", "--identify"][..]] {
            let run = session.run(&[&["estimate", "--json", "-o", "out.csv"], arguments].concat());
            assert_eq!(run.status, 0, "{}", run.stderr);
            assert_eq!(run.json()["uncertain_parameters"], serde_json::json!(["a", "b"]));
            let table = Table::parse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
            let column = |name: &str| table.names.iter().position(|known| known == name).unwrap();
            for row in &table.rows {
                let (feed, std) = (row[column("feed")], row[column("feed.smoothed.std")]);
                let expected = std_error * (feed / b["estimate"].as_f64().unwrap()).abs();
                assert!((std - expected).abs() < 1e-6 * expected, "{std} {expected}");
            }
            // What is measured is known better than the parameters say, and worse than if these were known.
            let known = std::fs::read_to_string(session.path("saved.toml")).unwrap();
            let known = known.split("[random.joint]").next().unwrap().to_owned();
            std::fs::write(session.path("known.toml"), known).unwrap();
            session.run(&["estimate", "known.toml", "--json", "-o", "known.csv"]);
            let other = Table::parse(&std::fs::read_to_string(session.path("known.csv")).unwrap());
            let last = table.rows.len() - 1;
            let (wide, narrow) = (table.rows[last][column("x.std")], other.rows[last][column("x.std")]);
            assert!(wide > narrow && wide < 1.2 * narrow, "{wide} {narrow}");
        }
    }
}

/// A decay whose second record begins elsewhere: the model that starts where the first does is not to blame, and the
/// remedy predicts the whole record.
#[test]
fn a_record_that_begins_far_from_the_start_is_told() {
    let model = "model M parameter Real a = 1; Real x(start = 1, fixed = true); equation der(x) = -a*x; end M;";
    let record = |from: f64| {
        let rows = (0..20).map(|k| 0.1 * f64::from(k)).map(|t| {
            let error = 0.01 * (40.0 * t).sin();
            format!("{t},{}", from * (-0.8 * t).exp() + error)
        });
        format!("t,x\n{}\n", rows.collect::<Vec<_>>().join("\n"))
    };
    let study = |more: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\na = {{ start = 1, min = 0.1, max = 5 }}\n[measurements]\n\
             x = {{ column = \"x\", std = 0.01 }}\n{more}[data]\nfile = \"one.csv\"\nvalidation = [\"two.csv\"]\n"
        )
    };
    let session = Session::with_model(model).with("one.csv", &record(1.0)).with("two.csv", &record(3.0));
    let session = session.with("fixed.toml", &study("")).with("free.toml", &study("[initial]\nmode = \"estimate\"\n"));
    let run = session.run(&["identify", "fixed.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let told = finding(&document, "validation-start");
    assert!(told["message"].as_str().unwrap().contains("`two.csv` begins with `x` = 3.0"), "{told}");
    let run = session.run(&["identify", "free.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let codes = crate::session::codes(&run.json()).join(" ");
    assert!(!codes.contains("validation-start"), "{codes}");
}

#[test]
fn figures_of_validation_and_of_regions_have_units() {
    let model = "model M parameter Real k(unit = \"1/s\") = 1, g(unit = \"K\") = 1; Real x(start = 2, fixed = true, unit = \"K\");\n\
                 equation der(x) = k*(g - x); end M;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.7, min = 0.1 }\ng = { start = 0.8 }\n[measurements]\n\
                 x = { std = 0.02 }\n[data]\nfile = \"data.csv\"\nvalidation = [\"other.csv\"]\n";
    let data = |sign: f64| {
        (0..12).fold("t,x\n".to_owned(), |text, row| {
            let t = 0.1 * f64::from(row);
            text + &format!("{t},{}\n", 1.0 + (-t).exp() + sign * 0.01 * f64::from((row * 7) % 5 - 2))
        })
    };
    let session = Session::with_model(model)
        .with("study.toml", study)
        .with("data.csv", &data(1.0))
        .with("other.csv", &data(-1.0));
    let run = session.run(&["identify", "study.toml", "--report", "page.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(session.path("page.html")).unwrap();
    let (_, validated) = page.split_once("x in other.csv").expect("a figure of the validation");
    let (figure, _) = validated.split_once("</svg>").unwrap();
    assert!(figure.contains("x in K"), "{figure}");
    assert!(page.contains(">g in K<"), "no unit on the figure of the region");
}
