//! Identification, cost and estimation from data: right numbers, and clear words about wrong input.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::session::{Session, Table, codes, finding};

/// Flow of the Nile at Aswan, 1871 to 1970, in 10^8 m^3 a year.
const NILE: [f64; 100] = [
    1120.0, 1160.0, 963.0, 1210.0, 1160.0, 1160.0, 813.0, 1230.0, 1370.0, 1140.0, 995.0, 935.0, 1110.0, 994.0, 1020.0,
    960.0, 1180.0, 799.0, 958.0, 1140.0, 1100.0, 1210.0, 1150.0, 1250.0, 1260.0, 1220.0, 1030.0, 1100.0, 774.0, 840.0,
    874.0, 694.0, 940.0, 833.0, 701.0, 916.0, 692.0, 1020.0, 1050.0, 969.0, 831.0, 726.0, 456.0, 824.0, 702.0, 1120.0,
    1100.0, 832.0, 764.0, 821.0, 768.0, 845.0, 864.0, 862.0, 698.0, 845.0, 744.0, 796.0, 1040.0, 759.0, 781.0, 865.0,
    845.0, 944.0, 984.0, 897.0, 822.0, 1010.0, 771.0, 676.0, 649.0, 846.0, 812.0, 742.0, 801.0, 1040.0, 860.0, 874.0,
    848.0, 890.0, 744.0, 749.0, 838.0, 1050.0, 918.0, 986.0, 797.0, 923.0, 975.0, 815.0, 1020.0, 906.0, 901.0, 1170.0,
    912.0, 746.0, 919.0, 718.0, 714.0, 740.0,
];

fn nile() -> Session {
    let mut data = "year,flow\n".to_owned();
    for (at, flow) in NILE.iter().enumerate() {
        let _ = writeln!(data, "{},{flow}", 1871 + at);
    }
    let study = r#"
[linear]
E = [[1]]
F = [[0]]
J = [[1]]
H = [[1]]
names = { z = ["level"], w = ["change"], y = ["flow"] }
[unknown]
eta = { start = 1469.1, min = 0 }
eps = { start = 15099.0, min = 0 }
[disturbances]
change = { white = "eta" }
[measurements]
flow = { variance = "eps" }
[estimate]
signals = ["level"]
[initial]
mode = "diffuse"
[data]
file = "nile.csv"
time = "year"
"#;
    Session::new().with("nile.csv", &data).with("study.toml", study)
}

#[test]
fn the_nile_has_its_published_likelihood_and_level() {
    // Reference values of statsmodels 0.15.0 with exact diffuse initialization.
    let session = nile();
    let run = session.run(&["estimate", "study.toml", "--json", "-o", "level.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let likelihood = run.json()["log_likelihood"].as_f64().unwrap();
    assert!((likelihood + 633.464_563_648_878_7).abs() < 1e-9, "{likelihood}");
    let table = Table::parse(&std::fs::read_to_string(session.path("level.csv")).unwrap());
    assert_eq!(table.names, ["t", "level", "level.std", "level.smoothed", "level.smoothed.std"]);
    let last = table.rows.last().unwrap();
    let first = &table.rows[0];
    assert!(
        (last[1] - 798.370_292_608_357_8).abs() < 1e-7 && (last[2] - 4_032.157_941_808_783_6_f64.sqrt()).abs() < 1e-7
    );
    assert!(
        (first[3] - 1_111.668_319_126_795_7).abs() < 1e-7
            && (first[4] - 4_032.157_941_808_476_6_f64.sqrt()).abs() < 1e-7
    );
    let grid =
        session.run(&["cost", "study.toml", "--json", "--grid", "eps=10000:20000:2", "--grid", "eta=500:2000:2"]);
    let document = grid.json();
    assert_eq!(document["kind"], "log-likelihood");
    let values: Vec<f64> = document["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    // Row-major: the last axis runs fastest.
    assert!((values[1] + 635.997_980_079_472_7).abs() < 1e-9 && (values[2] + 634.656_587_562_647_2).abs() < 1e-9);
    let found = session.run(&["identify", "study.toml", "--json"]).json();
    let estimate = |at: usize| found["parameters"][at]["estimate"].as_f64().unwrap();
    assert!((estimate(0) - 1469.1).abs() < 1.0 && (estimate(1) - 15099.0).abs() < 2.0, "{found}");
}

/// A first-order lag with input, disturbance and measurement noise, and data of it.
const LAG: &str = "model Lag
  parameter Real a = 1;
  parameter Real b = 2;
  parameter Real unused = 3;
  input Real u;
  input Real w;
  Real x(start = 0, fixed = true);
  Real feed;
equation
  der(x) = -a*x + feed + w;
  feed = b*u;
end Lag;
";

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
a = { start = 0.5, min = 0.01, max = 10 }
b = { start = 1.0 }
[inputs]
u = { column = "u", hold = "zoh" }
[disturbances]
w = { white = 0.01 }
[measurements]
x = { column = "y", std = 0.05 }
[estimate]
signals = ["feed", "x"]
[data]
file = "data.csv"
time = "t"
"#;

/// Data of the lag at a = 1, b = 2, by its exact discretization over steps of 0.1.
fn lag_data(seed: u64, n: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let (phi, h) = ((-0.1f64).exp(), 0.1);
    let spread = (0.01 * (1.0 - (-2.0f64 * h).exp()) / 2.0).sqrt();
    let mut x = 0.0;
    let mut text = "t,u,y\n".to_owned();
    for k in 0..n {
        let u = if (k / 9) % 2 == 0 { 1.0 } else { -0.5 };
        let _ = writeln!(text, "{},{u},{}", k as f64 / 10.0, x + 0.05 * normal());
        x = phi * x + (1.0 - phi) * 2.0 * u + spread * normal();
    }
    text
}

fn lag() -> Session {
    Session::with_model(LAG).with("study.toml", STUDY).with("data.csv", &lag_data(5, 300))
}

fn parameter<'a>(document: &'a Value, name: &str) -> &'a Value {
    let list = document["parameters"].as_array().unwrap();
    list.iter().find(|parameter| parameter["name"] == name).unwrap()
}

#[test]
fn parameters_are_found_with_their_uncertainty() {
    let session = lag();
    let run =
        session.run(&["identify", "study.toml", "--json", "--profile", "--starts", "3", "--report", "report.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["method"], "ml");
    assert_eq!(document["converged"], true);
    for (name, truth) in [("a", 1.0), ("b", 2.0)] {
        let found = parameter(&document, name);
        let (estimate, error) = (found["estimate"].as_f64().unwrap(), found["std_error"].as_f64().unwrap());
        assert!((estimate - truth).abs() < 3.5 * error, "{found}");
        assert!(error < 0.2 && error > 1e-3, "{found}");
        assert_eq!(found["at_bound"], false);
        // Profile and normal intervals agree for so much data.
        for end in 0..2 {
            let (normal, profile) = (found["ci95"][end].as_f64().unwrap(), found["profile95"][end].as_f64().unwrap());
            assert!((normal - profile).abs() < 0.15 * error * 3.9, "{found}");
        }
    }
    let page = std::fs::read_to_string(session.path("report.html")).unwrap();
    assert!(page.contains("Found, with standard errors: <code>a</code> = "), "no sentence of what was found");
    let n = document["n_samples"].as_f64().unwrap();
    let likelihood = document["log_likelihood"].as_f64().unwrap();
    assert!((document["aic"].as_f64().unwrap() - (4.0 - 2.0 * likelihood)).abs() < 1e-9);
    assert!((document["bic"].as_f64().unwrap() - (2.0 * n.ln() - 2.0 * likelihood)).abs() < 1e-9);
    assert!(document["fit_percent"]["x"].as_f64().unwrap() > 80.0);
    assert!(document["residuals"]["x"]["whiteness_p"].as_f64().unwrap() > 1e-3);
    assert_eq!(document["identifiability"]["rank"], 2);
    let page = std::fs::read_to_string(session.path("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("std. error"));
    // The cost at the estimate is the same number, and larger around it.
    let at = parameter(&document, "a")["estimate"].as_f64().unwrap();
    let b = parameter(&document, "b")["estimate"].as_f64().unwrap();
    let grid = format!("a={}:{}:3", at - 0.1, at + 0.1);
    let cost = session.run(&["cost", "study.toml", "--json", "--grid", &grid, "--set", &format!("b={b}")]).json();
    let values: Vec<f64> = cost["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert!((values[1] - likelihood).abs() < 1e-8 && values[0] < values[1] && values[2] < values[1]);
}

#[test]
fn what_was_identified_is_saved_and_applied_to_other_records() {
    let study = STUDY
        .replace("std = 0.05", "std = \"noise\"")
        .replace("[inputs]", "noise = { start = 0.1, min = 0 }\n[inputs]");
    let session = lag().with("study.toml", &study).with("other.csv", &lag_data(6, 200));
    let run = session.run(&["identify", "study.toml", "--json", "--save", "identified.toml"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let found = run.json();
    let saved = std::fs::read_to_string(session.path("identified.toml")).unwrap();
    assert!(!saved.contains("[unknown]") && saved.contains("[parameters]\n\"a\" = "), "{saved}");
    // On the same record it has the same likelihood; on another one nothing is searched for.
    let again = session.run(&["identify", "identified.toml", "--json"]);
    assert_eq!(again.status, 0, "{}", again.stderr);
    let likelihood = |document: &Value| document["log_likelihood"].as_f64().unwrap();
    assert!((likelihood(&again.json()) - likelihood(&found)).abs() < 1e-9 * likelihood(&found).abs());
    let other = session.run(&["identify", "identified.toml", "--data", "other.csv", "--json"]);
    assert_eq!(other.status, 0, "{}", other.stderr);
    assert!(other.json()["fit_percent"]["x"].as_f64().unwrap() > 80.0);
    assert_eq!(other.json()["parameters"].as_array().unwrap().len(), 0);
    let text = session.run(&["identify", "identified.toml", "--data", "other.csv"]).stdout;
    assert!(text.contains("Applied Lag to 200 values"), "{text}");
    let elsewhere = session.run(&["identify", "study.toml", "--save", "../identified.toml"]);
    assert_eq!(elsewhere.status, 2, "{}", elsewhere.stderr);
}

#[test]
fn data_in_other_units_are_the_same_data() {
    let minutes: String = lag_data(5, 60)
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let cells: Vec<&str> = line.split(',').collect();
            if at == 0 {
                return "minutes,milli,shifted\n".to_owned();
            }
            let number = |at: usize| cells[at].parse::<f64>().unwrap();
            format!("{},{},{}\n", number(0) / 60.0, 1000.0 * number(1), number(2) + 273.15)
        })
        .collect();
    let converted = STUDY
        .replace(
            "time = \"t\"",
            "time = \"minutes\"\ntime_unit = \"min\"\nscale = { milli = 1e-3 }\noffset = { shifted = -273.15 }",
        )
        .replace("column = \"u\"", "column = \"milli\"")
        .replace("column = \"y\"", "column = \"shifted\"");
    let session = Session::with_model(LAG)
        .with("study.toml", STUDY)
        .with("data.csv", &lag_data(5, 60))
        .with("converted.toml", &converted.replace("data.csv", "minutes.csv"))
        .with("minutes.csv", &minutes);
    let likelihood = |study: &str| {
        let run = session.run(&["cost", study, "--json", "--grid", "a=1.2:1.2:1"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()["values"][0].as_f64().unwrap()
    };
    let (plain, converted_value) = (likelihood("study.toml"), likelihood("converted.toml"));
    assert!((plain - converted_value).abs() < 1e-8 * plain.abs(), "{plain} {converted_value}");
    let wrong = Session::with_model(LAG)
        .with("study.toml", &STUDY.replace("time = \"t\"", "scale = { z = 2 }"))
        .with("data.csv", &lag_data(5, 60));
    let run = wrong.run(&["identify", "study.toml"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("there is no column `z` to be converted"), "{}", run.stderr);
}

#[test]
fn experiments_add_up_and_forms_of_a_disturbance_agree() {
    let likelihood = |study: &str| {
        let session = Session::with_model(LAG)
            .with("study.toml", study)
            .with("data.csv", &lag_data(5, 40))
            .with("more.csv", &lag_data(6, 25));
        let run = session.run(&["cost", "study.toml", "--json", "--grid", "a=1.2:1.2:1"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()["values"][0].as_f64().unwrap()
    };
    let one = likelihood(STUDY);
    let other = likelihood(&STUDY.replace("data.csv", "more.csv"));
    let both = likelihood(&STUDY.replace("file = \"data.csv\"", "files = [\"data.csv\", \"more.csv\"]"));
    assert!((one + other - both).abs() < 1e-9 * both.abs());
    let with = |process: &str| likelihood(&STUDY.replace("{ white = 0.01 }", process));
    let filter = with("{ A = [[0, 1], [-16, -0.8]], B = [[0], [1]], C = [[0.5, 0.25]] }");
    let factor = with("{ num = [0.5, 1.0], den = [2, 1.6, 32] }");
    assert!((filter - factor).abs() < 1e-9 * factor.abs(), "{filter} {factor}");
    let by_size = with("{ std = 0.3, time_constant = \"1/a\" }");
    let by_matrices = with("{ A = [[\"-a\"]], B = [[\"sqrt(2*a)\"]], C = [[0.3]] }");
    assert!((by_size - by_matrices).abs() < 1e-9 * by_size.abs(), "{by_size} {by_matrices}");
    let squared = likelihood(&STUDY.replace("std = 0.05", "variance = 0.0025"));
    assert!((squared - one).abs() < 1e-9 * one.abs());
    let over_time = likelihood(&STUDY.replace("std = 0.05", "std = \"0.05 + 0*time\""));
    assert!((over_time - one).abs() < 1e-9 * one.abs());
}

#[test]
fn experiments_side_by_side_in_one_file_are_told_apart() {
    let (first, second) = (lag_data(5, 40), lag_data(6, 40));
    let mut wide = "t,u1,y1,u2,y2\n".to_owned();
    for (a, b) in first.lines().zip(second.lines()).skip(1) {
        let _ = writeln!(wide, "{a},{}", b.split_once(',').unwrap().1);
    }
    let files = "files = [{ file = \"wide.csv\", columns = { u = \"u1\", y = \"y1\" } }, \
                 { file = \"wide.csv\", columns = { u = \"u2\", y = \"y2\" } }]";
    let study = STUDY.replace("file = \"data.csv\"", files);
    let plain = STUDY.replace("file = \"data.csv\"", "files = [\"data.csv\", \"more.csv\"]");
    let session = Session::with_model(LAG)
        .with("study.toml", &study)
        .with("plain.toml", &plain)
        .with("wrong.toml", &study.replace("\"y2\"", "\"z2\""))
        .with("data.csv", &first)
        .with("more.csv", &second)
        .with("wide.csv", &wide)
        .with("other.csv", &wide);
    let likelihood = |arguments: &[&str]| {
        let mut all = vec!["cost", "--json", "--grid", "a=1.2:1.2:1"];
        all.extend(arguments);
        let run = session.run(&all);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()["values"][0].as_f64().unwrap()
    };
    let apart = likelihood(&["plain.toml"]);
    assert_eq!(likelihood(&["study.toml"]), apart);
    // One other file stands for all experiments of the one file that the study names.
    assert_eq!(likelihood(&["study.toml", "--data", "other.csv"]), apart);
    let wrong = session.run(&["cost", "wrong.toml", "--grid", "a=1:1:1"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.stderr.contains("has no column `z2`") && wrong.stderr.contains("wrong.toml:"), "{}", wrong.stderr);
}

#[test]
fn an_output_error_fit_stands_beside() {
    let session = lag();
    let document = session.run(&["identify", "study.toml", "--json", "--method", "output-error"]).json();
    assert_eq!(document["method"], "output-error");
    let found = parameter(&document, "b");
    assert!((found["estimate"].as_f64().unwrap() - 2.0).abs() < 0.3, "{found}");
    assert!(document["cost"].as_f64().unwrap() > 0.0);
    // What only a disturbance depends on stays where it was.
    let study = STUDY.replace("white = 0.01", "A = [[-2]], B = [[1]], C = [[\"s\"]]");
    let study = study.replace("b = { start = 1.0 }", "b = { start = 1.0 }\ns = { start = 0.3, min = 0, max = 9 }");
    let session = session.with("study.toml", &study);
    let document = session.run(&["identify", "study.toml", "--json", "--method", "output-error"]).json();
    assert_eq!(parameter(&document, "s")["estimate"], 0.3);
    finding(&document, "idle-unknown");
}

#[test]
fn algebraic_signals_are_estimated() {
    let session = lag();
    let run = session.run(&["estimate", "study.toml", "--set", "a=1", "--set", "b=2"]);
    let table = run.table();
    assert_eq!(&table.names[..5], ["t", "feed", "feed.std", "feed.smoothed", "feed.smoothed.std"]);
    // The feed is known exactly from the input; the state is better known from all data than from those before.
    assert!(table.column("feed").iter().all(|feed| *feed == 2.0 || *feed == -1.0));
    assert!(table.column("feed.std").iter().all(|std| *std < 1e-12));
    let (filtered, smoothed) = (table.column("x.std"), table.column("x.smoothed.std"));
    assert!(filtered.iter().zip(&smoothed).skip(1).all(|(f, s)| *s <= f + 1e-12 && *f < 0.05));
}

#[test]
fn signals_of_infinite_variance_are_refused_by_name() {
    let model = LAG.replace("feed = b*u", "feed = b*u + 0.1*w");
    let session = Session::with_model(&model).with("study.toml", STUDY).with("data.csv", &lag_data(5, 50));
    let run = session.run(&["estimate", "study.toml", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 1);
    let document = run.json();
    let found = finding(&document, "ill-posed");
    assert!(found["names"].as_array().unwrap().iter().any(|name| name == "feed"), "{found}");
    assert!(found["help"].as_str().unwrap().contains("filter"));
    assert!(!session.files().contains(&"out.csv".to_owned()));
    // What is measured is finite, so that parameters can still be found.
    assert_eq!(session.run(&["identify", "study.toml", "--json"]).status, 0);
}

#[test]
fn an_input_must_be_as_smooth_as_its_derivatives_need() {
    // The measured value is the derivative of the input.
    let study = r#"
[linear]
E = [[0, 1], [0, 0]]
F = [[1, 0], [0, 1]]
G = [[0], ["-k"]]
[unknown]
k = { start = 1.0 }
[inputs]
u1 = { column = "u", hold = "zoh" }
[measurements]
z1 = { column = "y", std = 0.1 }
[data]
file = "data.csv"
time = "t"
"#;
    // u = t^2 on a grid, so that slopes are 1, 3, 5 and, for a spline, about 2 t.
    let data = "t,u,y\n0,0,2\n1,1,6\n2,4,10\n3,9,10\n";
    let session = Session::new().with("study.toml", study).with("data.csv", data);
    let run = session.run(&["identify", "study.toml", "--json"]);
    assert_eq!(run.status, 1);
    let document = run.json();
    let found = finding(&document, "input-not-smooth");
    assert_eq!(found["line"], 9);
    // With straight lines the derivative after every sample is 1, 3, 5 and before the last one 5: k = 2 fits all.
    let session = Session::new().with("study.toml", &study.replace("zoh", "foh")).with("data.csv", data);
    let document = session.run(&["identify", "study.toml", "--json"]).json();
    assert!((parameter(&document, "k")["estimate"].as_f64().unwrap() - 2.0).abs() < 1e-6, "{document}");
}

#[test]
fn values_that_change_the_structure_are_refused_and_not_crossed() {
    let model = "model M
  parameter Real m = 1;
  input Real u;
  Real x(start = 0, fixed = true);
equation
  m*der(x) = -x + u;
end M;
";
    let study = r#"
[model]
file = "model.mo"
[unknown]
m = { start = 1.0 }
[inputs]
u = { column = "u", hold = "zoh" }
[measurements]
x = { column = "y", std = 0.05 }
[data]
file = "data.csv"
time = "t"
"#;
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", &lag_data(1, 60));
    let document = session.run(&["cost", "study.toml", "--json", "--grid", "m=-1:1:3"]).json();
    let values = document["values"].as_array().unwrap();
    assert!(values[0].is_null() && values[1].is_null() && values[2].is_number(), "{document}");
    let message = finding(&document, "refused")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("2 of 3") && message.contains("m = -1"), "{message}");
}

#[test]
fn bad_input_is_told_with_its_place_and_nothing_is_written() {
    let refused = |study: &str, data: &str, code: &str| -> Value {
        let session = Session::with_model(LAG).with("study.toml", study).with("data.csv", data);
        for verb in ["identify", "estimate"] {
            let run = session.run(&[verb, "study.toml", "--json", "-o", "out.csv", "--report", "out.html"]);
            assert_eq!(run.status, 1, "{code}: {}", run.stderr);
            assert_eq!(session.files(), ["data.csv", "model.mo", "study.toml"], "{code}");
            let document = run.json();
            finding(&document, code);
        }
        let document = session.run(&["identify", "study.toml", "--json"]).json();
        finding(&document, code).clone()
    };
    let good = lag_data(5, 30);
    let line = |text: &str, word: &str| text.lines().position(|line| line.contains(word)).unwrap() + 1;

    let study = STUDY.replace("column = \"y\"", "column = \"yy\"");
    let found = refused(&study, &good, "data-column");
    assert_eq!(found["line"], line(&study, "\"yy\""));
    assert!(found["help"].as_str().unwrap().contains("`y`"));

    let study = STUDY.replace("column = \"u\"", "column = \"v\"");
    assert_eq!(refused(&study, &good, "data-column")["line"], line(&study, "\"v\""));

    let found = refused(STUDY, "t,u,y\n0,1,0\n0.1,1,0\n0.05,1,0\n", "data-time");
    assert_eq!(found["line"], 4);
    assert!(found["file"].as_str().unwrap().ends_with("data.csv"));

    let found = refused(STUDY, "t,u,y\n0,1,\n0.1,1,NaN\n0.2,1,\n", "all-missing");
    assert!(found["file"].as_str().unwrap().ends_with("data.csv"));
    assert_eq!(found["names"][0], "y");

    let study = STUDY.replace("std = 0.05", "variance = -0.1");
    assert_eq!(refused(&study, &good, "out-of-range")["line"], line(&study, "variance = -0.1"));
    let study = STUDY.replace("std = 0.05", "variance = \"a - 5\"");
    assert_eq!(refused(&study, &good, "negative-variance")["line"], line(&study, "a - 5"));

    let study = STUDY.replace("b = { start = 1.0 }", "b = { start = 1.0 }\nunused = { start = 3.0 }");
    let found = refused(&study, &good, "idle-unknown");
    assert_eq!(found["names"][0], "unused");
    assert_eq!(found["line"], line(&study, "unused ="));

    let found = refused(STUDY, "t,u,y\n0,1,0\n0.1,,0\n0.2,1,0\n", "input-missing-sample");
    assert!(found["message"].as_str().unwrap().contains("0.1"));

    let study = STUDY.replace("std = 0.05 ", "");
    let study = study.replace("column = \"y\", }", "column = \"y\" }");
    refused(&study, &good, "no-accuracy");

    let study = STUDY.replace("start = 0.5, min = 0.01", "start = 0.5, min = 0.8");
    refused(&study, &good, "bounds");
}

#[test]
fn directions_that_data_do_not_determine_are_named() {
    // Only the product of the two gains is seen.
    let model = LAG.replace("feed = b*u", "feed = b*unused*u");
    let study = STUDY.replace("b = { start = 1.0 }", "b = { start = 1.0 }\nunused = { start = 2.5 }");
    let session = Session::with_model(&model).with("study.toml", &study).with("data.csv", &lag_data(5, 100));
    let document = session.run(&["identify", "study.toml", "--json"]).json();
    assert_eq!(document["identifiability"]["rank"], 2);
    let direction = document["identifiability"]["flat_directions"][0].as_object().unwrap();
    let mut names: Vec<&String> = direction.keys().collect();
    names.sort();
    assert_eq!(names, ["b", "unused"]);
    assert!(parameter(&document, "b")["std_error"].is_null());
    finding(&document, "flat-direction");
}

#[test]
fn a_bound_that_is_met_is_said() {
    let session = Session::with_model(LAG)
        .with("study.toml", &STUDY.replace("max = 10", "max = 0.7"))
        .with("data.csv", &lag_data(5, 100));
    let document = session.run(&["identify", "study.toml", "--json"]).json();
    let found = parameter(&document, "a");
    assert_eq!(found["at_bound"], true);
    assert_eq!(found["estimate"], 0.7);
    assert!(found["std_error"].is_null());
    finding(&document, "at-bound");
}

#[test]
fn start_values_are_estimated_in_the_free_part_only() {
    // The data start at 3 and decay: with the start estimated it is found, as is the rate.
    let mut data = "t,u,y\n".to_owned();
    for k in 0..80 {
        let t = f64::from(k) / 20.0;
        let _ = writeln!(data, "{t},0,{}", 3.0 * (-t).exp());
    }
    let study = STUDY.replace("[data]", "[initial]\nmode = \"estimate\"\n[data]").replace("b = { start = 1.0 }\n", "");
    let study = study.replace("white = 0.01", "white = 1e-8");
    let session = Session::with_model(LAG).with("study.toml", &study).with("data.csv", &data);
    let document = session.run(&["identify", "study.toml", "--json"]).json();
    assert!((parameter(&document, "a")["estimate"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{document}");
    assert!((document["initial"][0]["x"].as_f64().unwrap() - 3.0).abs() < 1e-2, "{document}");
}

/// Where the reference data lie, if anywhere.
fn cases() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("DAESY_CASES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases"), std::path::PathBuf::from);
    if folder.is_dir() {
        Some(folder)
    } else {
        eprintln!("skipped: no reference data at {}", folder.display());
        None
    }
}

#[test]
fn an_ornstein_uhlenbeck_process_is_identified() {
    let Some(cases) = cases() else { return };
    let Ok(data) = std::fs::read_to_string(cases.join("sde/ornstein1d.csv")) else { return };
    let study = r#"
[linear]
E = [[1]]
F = [["-theta"]]
G = [["theta", "theta*mu"]]
J = [[1]]
[unknown]
theta = { start = 1.0, min = 0.01, max = 100 }
mu = { start = 0.5 }
sigma = { start = 0.5, min = 0.001 }
noise = { start = 0.1, min = 0.0 }
[inputs]
u1 = { column = "u", hold = "zoh" }
u2 = { expression = "1" }
[disturbances]
w1 = { white = "sigma^2" }
[measurements]
z1 = { column = "y", std = "noise" }
[initial]
mode = "diffuse"
[data]
file = "data.csv"
time = "t"
"#;
    let session = Session::new().with("study.toml", study).with("data.csv", &data);
    let document = session.run(&["identify", "study.toml", "--json", "--starts", "4"]).json();
    assert_eq!(document["converged"], true, "{document}");
    assert!(document["residuals"]["z1"]["whiteness_p"].as_f64().unwrap() > 1e-3, "{document}");
    assert!(document["fit_percent"]["z1"].as_f64().unwrap() > 10.0, "{document}");
}

/// A column of times in front of a table without one.
fn with_times(text: &str, step: f64, n_rows: usize) -> String {
    let mut out = String::new();
    for (row, line) in text.lines().enumerate().take(n_rows + 1) {
        let time = if row == 0 { "t".to_owned() } else { ((row - 1) as f64 * step).to_string() };
        let _ = writeln!(out, "{time},{line}");
    }
    out
}

#[test]
fn measured_processes_are_explained_by_small_models() {
    let Some(cases) = cases() else { return };
    let study = |rows: &str, unknown: &str, measured: &str, input: &str| {
        format!(
            "[linear]\n{rows}\n[unknown]\n{unknown}\nq = {{ start = 0.1, min = 0.0 }}\nr = {{ start = 0.1, min = 1e-4 }}\nmean = {{ start = 1.0 }}\n\
             [inputs]\nu1 = {{ column = \"{input}\", hold = \"zoh\" }}\nu2 = {{ expression = \"1\" }}\n[disturbances]\nw1 = {{ white = \"q^2\" }}\n\
             [measurements]\ny1 = {{ column = \"{measured}\", std = \"r\" }}\n[initial]\nmode = \"diffuse\"\n\
             [data]\nfile = \"data.csv\"\ntime = \"t\"\n"
        )
    };
    // Two lags in series with a disturbance at the second, around an unknown level.
    let rows = "E = [[1, 0, 0], [0, 1, 0], [0, 0, 0]]\nF = [[\"-a\", 0, 0], [\"b\", \"-b\", 0], [0, 0, 1]]\n\
                G = [[\"a*k\", 0], [0, 0], [0, \"-mean\"]]\nJ = [[0], [1], [0]]\nH = [[0, 1, 1]]";
    for (file, step, measured, input, unknown, least) in [
        (
            "data/daisy_dryer.csv",
            0.08,
            "y",
            "u",
            "a = { start = 3.0, min = 0.1, max = 50 }\nb = { start = 5.0, min = 0.1, max = 50 }\nk = { start = 1.0 }",
            85.0,
        ),
        (
            "data/gas_furnace.csv",
            9.0,
            "CO2",
            "InputGasRate",
            "a = { start = 0.03, min = 0.001, max = 1 }\nb = { start = 0.05, min = 0.001, max = 1 }\nk = { start = -1.0 }",
            80.0,
        ),
    ] {
        let Ok(text) = std::fs::read_to_string(cases.join(file)) else { continue };
        let session = Session::new()
            .with("study.toml", &study(rows, unknown, measured, input))
            .with("data.csv", &with_times(&text, step, 300));
        let run = session.run(&["identify", "study.toml", "--json"]);
        let document = run.json();
        assert_eq!(document["converged"], true, "{file}: {}", run.stderr);
        let fit = document["fit_percent"]["y1"].as_f64().unwrap();
        assert!(fit > least, "{file}: {fit} %");
    }
}

#[test]
fn an_unknown_in_the_equation_of_a_known_variable_is_not_idle() {
    let factors = [
        ("if m > 0 then 10 else 99", [99.0, 10.0, 10.0]),
        ("abs(m)", [0.95, 0.05, 1.05]),
        ("m*m", [0.9025, 0.0025, 1.1025]),
        ("w*m", [0.95 * 1.95, -0.05 * 0.95, 1.05 * 0.05]),
    ];
    for (factor, values) in factors {
        let model = format!(
            "model A parameter Real k = 1; Real m = time - 0.95; Real w = m - 1; Real y = k*({factor}); end A;"
        );
        let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.0, min = 0.1, max = 3.0 }\n\
                     [measurements]\ny = { column = \"y\", std = 0.01 }\n[data]\nfile = \"data.csv\"\n";
        let data = format!("t,y\n0,{}\n1,{}\n2,{}\n", 2.0 * values[0], 2.0 * values[1], 2.0 * values[2]);
        let session = Session::with_model(&model).with("study.toml", study).with("data.csv", &data);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let found = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((found - 2.0).abs() < 1e-6, "{factor}: {found}");
    }
}

#[test]
fn accuracies_that_the_residuals_do_not_bear_out_are_told() {
    let model = "model A parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end A;";
    let data: String = (0..60)
        .map(|at| {
            let t = 0.05 * f64::from(at);
            // Errors of unit size by a quadratic sequence.
            let error = (f64::from(at * at) * 0.618_033_988_7).fract() * 12f64.sqrt() - 3f64.sqrt();
            format!("{t},{}\n", (-1.3 * t).exp() + 0.02 * error)
        })
        .collect();
    let asked = |study: &str, method: &str| {
        let session = Session::with_model(model).with("study.toml", study).with("data.csv", &format!("t,x\n{data}"));
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()
    };
    let study = |std: f64| {
        format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.0 }}\n[measurements]\nx = {{ column = \"x\", \
             std = {std} }}\n[data]\nfile = \"data.csv\"\n"
        )
    };
    let warning = |document: &Value| {
        let findings = document["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["code"] == "noise-size").cloned()
    };
    for method in ["ml", "output-error", "pem"] {
        let size = |document: &Value| document["residuals"]["x"]["normalized_variance"].as_f64().unwrap();
        let right = asked(&study(0.02), method);
        assert!(warning(&right).is_none() && (size(&right) - 1.0).abs() < 0.3, "{right}");
        assert!(right["residuals"]["x"]["size_p"].as_f64().unwrap() > 1e-3);
        assert!(right["residuals"]["x"]["lag_autocorrelation"].is_number());
        let small = asked(&study(2e-4), method);
        assert!(warning(&small).is_some() && size(&small) > 5e3, "{small}");
        assert!(warning(&small).unwrap()["message"].as_str().unwrap().contains("times as large"));
        let large = asked(&study(2.0), method);
        assert!(warning(&large).unwrap()["message"].as_str().unwrap().contains("times smaller"));
    }
    // What the help says can be copied.
    let run = Session::with_model(model)
        .with("study.toml", &study(2e-4))
        .with("data.csv", &format!("t,x\n{data}"))
        .run(&["identify", "study.toml"]);
    let quoted: Vec<&str> = run.stderr.split('`').collect();
    let copied = |start: &str| *quoted.iter().find(|text| text.starts_with(start)).expect(start);
    let mended = study(2e-4)
        .replace("std = 0.0002", copied("std = \""))
        .replace("[unknown]\n", &format!("[unknown]\n{}\n", copied("std_x = {")));
    let document = asked(&mended, "ml");
    assert!(warning(&document).is_none(), "{document}");
    let std =
        document["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "std_x").unwrap()["estimate"].clone();
    assert!((std.as_f64().unwrap() - 0.02).abs() < 0.003, "{std}");
}

/// The model ends where x is zero, at t = 0.5: a filter must not go on with what it had there.
#[test]
fn a_filter_that_cannot_follow_its_points_is_refused() {
    let data: String = (0..=20).map(|at| format!("{},{}\n", 0.05 * f64::from(at), 1.0)).collect();
    for noise in ["", "[disturbances]\nw = { std = 0.01, time_constant = 1 }\n"] {
        let session = Session::with_model(
            "model M parameter Real k = 1; input Real w; Real x(start=1, fixed=true);
             equation der(x) = -k/x + w; end M;",
        )
        .with("data.csv", &format!("t,y\n{data}"))
        .with(
            "study.toml",
            &format!(
                "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1 }}\n[measurements]\n\
                 x = {{ column = \"y\", std = 0.1 }}\n[data]\nfile = \"data.csv\"\ntime = \"t\"\n\
                 [estimate]\nsignals = [\"x\"]\n{noise}"
            ),
        );
        for verb in [&["cost", "study.toml", "--grid", "k=1:1:1", "--method", "ml"][..], &["estimate", "study.toml"]] {
            let run = session.run(&[verb, &["--json"]].concat());
            let document = run.json();
            let has_value = document["values"][0].is_number();
            assert!(
                run.status != 0 || !has_value && !document["findings"].as_array().unwrap().is_empty(),
                "{document}"
            );
        }
    }
}

/// A force behind four integrators that start at rest: after a short while positions spread by 1e-18 of what the force
/// does. The smoother of moments must find what the exact one of the linear model finds, in the first row too.
#[test]
fn smoothed_signals_are_right_from_a_start_that_is_known() {
    let model = |drag: &str| {
        format!(
            "model Chain\n  input Real w;\n  Real a(start = 0, fixed = true), b(start = 0, fixed = true);\n  \
             Real c(start = 0, fixed = true), d(start = 0, fixed = true), force = w;\nequation\n  der(a) = b;\n  \
             der(b) = -50*a + c;\n  der(c) = d;\n  der(d) = w - 0.1*{drag};\nend Chain;\n"
        )
    };
    let mut data = "t,a,d\n".to_owned();
    for k in 0..150u32 {
        let t = 1e-3 * f64::from(k);
        let error = 1e-3 * (f64::from(k * 7919 % 1000) / 500.0 - 1.0);
        let _ = writeln!(data, "{t},{},{}", error, 0.8 * t - error);
    }
    let estimate = |drag: &str, filter: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[disturbances]\nw = {{ std = 1.0, time_constant = 0.5 }}\n[measurements]\n\
             a = {{ std = 0.001 }}\nd = {{ std = 0.001 }}\n[estimate]\nsignals = [\"force\"]\n{filter}\n[data]\nfile = \"data.csv\"\n"
        );
        let session = Session::with_model(&model(drag)).with("study.toml", &study).with("data.csv", &data);
        let run = session.run(&["estimate", "study.toml"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        [table.column("force.smoothed"), table.column("force.smoothed.std")]
    };
    let exact = estimate("d", "");
    for filter in ["", "filter = \"extended\""] {
        let found = estimate("(d + 1e-9*d^2)", filter);
        for (found, exact) in found.iter().zip(&exact) {
            for (row, (found, exact)) in found.iter().zip(exact).enumerate() {
                assert!((found - exact).abs() < 1e-3, "row {row} by {filter}: {found} instead of {exact}");
            }
        }
    }
}

/// A cell left empty asks for an estimate there, in the middle and at the end, whether a model is linear or not.
#[test]
fn rows_without_a_measurement_are_estimated() {
    let table = |rate: &str| {
        let model =
            format!("model M input Real w; Real x(start = 0, fixed = true); equation der(x) = -x + w{rate}; end M;");
        let study = "[model]\nfile = \"model.mo\"\n[disturbances]\nw = { std = 0.3, time_constant = 0.7 }\n[measurements]\n\
                     x = { std = 0.05 }\n[estimate]\nsignals = [\"x\"]\n[data]\nfile = \"data.csv\"\n";
        let data = "t,x\n0,0\n0.1,0.03\n0.2,\n0.3,0.05\n0.4,0.02\n0.5,\n";
        let session = Session::with_model(&model).with("study.toml", study).with("data.csv", data);
        let run = session.run(&["estimate", "study.toml"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.table()
    };
    let (linear, curved) = (table(""), table(" + 1e-9*x^2"));
    assert_eq!(linear.column("t"), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
    assert_eq!(curved.column("t"), linear.column("t"));
    for name in ["x", "x.std", "x.smoothed", "x.smoothed.std"] {
        for (curved, linear) in curved.column(name).iter().zip(linear.column(name)) {
            assert!((curved - linear).abs() < 2e-4, "{name}: {curved} instead of {linear}");
        }
    }
}

/// x = u + w at the start, w with a standard deviation of 0.3: after the first sample y = 0.5 with an error of 0.2,
/// x has the mean 1 + g (0.5 - 1) and the variance (1 - g) 0.09, with g = 0.09 / (0.09 + 0.04). The model is linear but
/// for a term that does not count, so that it takes the road of filters for nonlinear models.
#[test]
fn a_start_in_which_disturbances_take_part_is_spread_as_they_are() {
    let gain = 0.09 / 0.13;
    let (mean, std) = (1.0 - 0.5 * gain, ((1.0 - gain) * 0.09f64).sqrt());
    let data = "t,u,y\n0,1,0.5\n0.1,1,0.3\n0.2,1,0.3\n0.3,1,0.2\n0.4,1,0.1\n0.5,1,0.3\n";
    let study = |kind: &str, more: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[inputs]\nu = {{ column = \"u\" }}\n[disturbances]\nw = {{ std = 0.3, time_constant = 0.7 }}\n\
             [measurements]\nx = {{ column = \"y\", std = 0.2 }}\n[estimate]\nsignals = [\"x\", \"w\"]\nfilter = \"{kind}\"\n[data]\nfile = \"d.csv\"\n{more}"
        )
    };
    let model = |small: &str, start: &str| {
        format!(
            "model M input Real u; input Real w; parameter Real k = 1; Real x(start = 0.3); {start}
             equation der(x) = -k*x + u + w + {small}*x^3; end M;"
        )
    };
    let rest = "initial equation der(x) = 0;";
    let sum = "Real z = x + u + w; initial equation z = 2*u;";
    for (start, more, expected) in [
        (rest, "", [mean, std]),
        ("", "[initial]\nmode = \"stationary\"\n", [mean, std]),
        // x = u - w: the same variance.
        (sum, "", [mean, std]),
    ] {
        for kind in ["unscented", "extended"] {
            let session =
                Session::with_model(&model("1e-12", start)).with("d.csv", data).with("s.toml", &study(kind, more));
            let run = session.run(&["estimate", "s.toml", "--json", "-o", "out.csv"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            let table = Table::parse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
            let found = [table.column("x")[0], table.column("x.std")[0]];
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6, "{kind} {start} {more}: {found} instead of {expected}");
            }
            // The linear model on its own road, later samples too.
            if more.is_empty() {
                let linear =
                    Session::with_model(&model("0", start)).with("d.csv", data).with("s.toml", &study(kind, more));
                let exact = linear.run(&["estimate", "s.toml", "--json"]).json()["log_likelihood"].as_f64().unwrap();
                let found = run.json()["log_likelihood"].as_f64().unwrap();
                assert!((found - exact).abs() < 2e-2, "{kind} {start}: {found} instead of {exact}");
            } else {
                finding(&run.json(), "stationary-start");
            }
        }
    }
}

/// Forcings with roots, jumps and corners: what a simulation gives as exact data, every method explains with the
/// parameter that made them.
#[test]
fn forcings_that_are_not_smooth_are_followed_by_linear_methods() {
    for forcing in [
        "sqrt(abs(time - 1.3))",
        "sign(sin(20*time))",
        "(if time > 1.3 then sqrt(time - 1.3) else 0)",
        "sqrt(time)",
        "time^1.5",
        "exp(sqrt(time))",
        "sqrt(sin(3*time)^2)",
        "exp(-((time - 3.3)/0.2)^2)",
    ] {
        let model = format!(
            "model M parameter Real p = 1; Real x(start = 0, fixed = true); equation der(x) = p*{forcing} - x; end M;"
        );
        let simulation = "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 5\nstep = 1\nrtol = 1e-11\natol = 1e-13\n";
        let study = "[model]\nfile = \"model.mo\"\n[unknown]\np = { start = 0.7, min = 0.1, max = 3 }\n\
                     [measurements]\nx = { column = \"x\", std = 0.01 }\n[data]\nfile = \"d.csv\"\n";
        let session = Session::with_model(&model).with("simulation.toml", simulation).with("study.toml", study);
        let table = session.run(&["simulate", "simulation.toml", "--max-step", "0.05"]).table();
        let rows = table.column("t").into_iter().zip(table.column("x"));
        let rows = rows.filter(|(t, _)| (t - t.round()).abs() < 1e-12);
        let mut rows: Vec<String> = rows.map(|(t, x)| format!("{t},{x}")).collect();
        rows.dedup();
        let session = session.with("d.csv", &format!("t,x\n{}\n", rows.join("\n")));
        for method in ["ml", "output-error"] {
            let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
            assert_eq!(run.status, 0, "{forcing} {method}: {}", run.stdout);
            let estimate = parameter(&run.json(), "p")["estimate"].as_f64().unwrap();
            assert!((estimate - 1.0).abs() < 1e-6, "{forcing} {method}: p = {estimate}");
        }
    }
}

/// y = a u + b with errors of known size: the posterior is normal, and least squares with priors are its maximum.
#[test]
fn an_output_error_fit_weighs_priors_against_the_accuracy_that_is_given() {
    let model = "model M parameter Real a = 1, b = 0; input Real u; output Real y = a*u + b; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\n\
                 a = { start = 1, min = -10, max = 10, prior = { normal = { mean = 1.6, std = 0.1 } } }\n\
                 b = { start = 0, min = -10, max = 10, prior = { normal = { mean = -0.35, std = 0.05 } } }\n\
                 [inputs]\nu = { column = \"u\" }\n[measurements]\ny = { column = \"y\", std = 0.2 }\n\
                 [data]\nfile = \"d.csv\"\n";
    let rows: Vec<(f64, f64)> = (0..24)
        .map(|k| {
            let u = (0.7 * f64::from(k)).sin();
            // Errors of the size 0.2, but not exactly.
            (u, 1.7 * u - 0.4 + 0.24 * (2.3 * f64::from(k) + 0.5).cos())
        })
        .collect();
    let text: Vec<String> = rows.iter().enumerate().map(|(k, (u, y))| format!("{k},{u},{y}")).collect();
    // Normal equations of the posterior.
    let (w, pa, pb) = (1.0 / 0.04, 1.0 / 0.01, 1.0 / 0.0025);
    let sum = |f: &dyn Fn(f64, f64) -> f64| rows.iter().map(|&(u, y)| f(u, y)).sum::<f64>() * w;
    let (uu, u1, n) = (sum(&|u, _| u * u) + pa, sum(&|u, _| u), sum(&|_, _| 1.0) + pb);
    let (uy, y1) = (sum(&|u, y| u * y) + pa * 1.6, sum(&|_, y| y) - pb * 0.35);
    let det = uu * n - u1 * u1;
    let expected = [(n * uy - u1 * y1) / det, (uu * y1 - u1 * uy) / det];
    let session =
        Session::with_model(model).with("study.toml", study).with("d.csv", &format!("t,u,y\n{}\n", text.join("\n")));
    for method in ["ml", "output-error"] {
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{}", run.stdout);
        for (name, expected) in ["a", "b"].into_iter().zip(expected) {
            let found = parameter(&run.json(), name)["estimate"].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{method}: {name} = {found} for {expected}");
        }
    }
}

/// An input that an equation differentiates leaves a model linear: x' = -x + r' with r = sin(t) has
/// x = (cos t + sin t + exp(-t))/2, and v' = -v + r'' has v = (cos t - sin t - exp(-t))/2. A held column jumps, and has
/// no derivative.
#[test]
fn an_input_that_is_differentiated_leaves_a_model_linear() {
    let model = "model M input Real r; Real x(start = 1, fixed = true), v(start = 0, fixed = true), s; \
                 equation der(x) = -x + der(r); s = der(r); der(v) = -v + der(s); end M;";
    let data: String = (0..21).map(|at| format!("{},0,0.3\n", 0.1 * f64::from(at))).collect();
    let study = |input: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[inputs]\nr = {{ {input} }}\n[measurements]\nx = {{ column = \"y\", std = 0.1 }}\n\
             [estimate]\nsignals = [\"x\", \"v\"]\n[data]\nfile = \"d.csv\"\ntime = \"t\"\n"
        )
    };
    let session = Session::with_model(model).with("d.csv", &format!("t,u,y\n{data}"));
    let session = session.with("study.toml", &study("expression = \"sin(time)\""));
    let run = session.run(&["estimate", "study.toml", "-o", "e.csv", "--json"]);
    assert_eq!((run.status, codes(&run.json())), (0, Vec::new()), "{}", run.stderr);
    let table = Table::parse(&std::fs::read_to_string(session.path("e.csv")).unwrap());
    for (row, t) in table.column("t").into_iter().enumerate() {
        let (sine, cosine) = t.sin_cos();
        let expected = [("x", (cosine + sine + (-t).exp()) / 2.0), ("v", (cosine - sine - (-t).exp()) / 2.0)];
        for (name, expected) in expected {
            let found = table.column(name)[row];
            assert!((found - expected).abs() < 1e-10, "{name}({t}) = {found}, not {expected}");
        }
    }
    let session = session.with("study.toml", &study("column = \"u\", hold = \"zoh\""));
    let run = session.run(&["estimate", "study.toml", "--json"]);
    assert_eq!((run.status, codes(&run.json())), (1, vec!["input-not-smooth"]), "{}", run.stderr);
}

/// A decay z = 100 x at uneven times, with errors of 0.02 and 30 that are fixed here.
fn uneven_decay(max: f64, more: &str, accuracy: [&str; 2], unknown: &str) -> Session {
    let mut data = "t,x,z\n".to_owned();
    for at in 0..40u32 {
        let t = 0.1 * f64::from(at) + 0.03 * (1.7 * f64::from(at)).sin();
        let x = 1.0 / (1.0 + 2.0 * t).sqrt();
        let error = |phase: f64| 2f64.sqrt() * (phase + 2.4 * f64::from(at)).sin();
        let _ = writeln!(data, "{t},{},{}", x + 0.02 * error(0.3), 100.0 * x + 30.0 * error(1.1));
    }
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 0.7, min = 0.1, max = {max}{more} }}\n{unknown}\
         [measurements]\nx = {{ std = {} }}\nz = {{ std = {} }}\n[data]\nfile = \"d.csv\"\ntime = \"t\"\n",
        accuracy[0], accuracy[1]
    );
    Session::with_model(
        "model Decay parameter Real k = 1; Real x(start = 1, fixed = true), z;
         equation der(x) = -k*x^3; z = 100*x; end Decay;",
    )
    .with("d.csv", &data)
    .with("study.toml", &study)
}

#[test]
fn what_daesy_chooses_for_uneven_samples_without_disturbance_weighs_signals_by_their_accuracy() {
    let prior = ", prior = { normal = { mean = 1, std = 0.5 } }";
    let unknown = "sa = { start = 0.1, min = 0 }\nsb = { start = 10, min = 0 }\n";
    let given = ["0.02", "30"];
    for (more, accuracy, unknown, method) in
        [("", given, "", "output-error"), (prior, given, "", "ml"), ("", ["\"sa\"", "\"sb\""], unknown, "ml")]
    {
        let session = uneven_decay(5.0, more, accuracy, unknown);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        assert_eq!(document["method"], method, "{document}");
        let number = |document: &Value, key: &str| document["parameters"][0][key].as_f64().unwrap();
        // The likelihood weighs signals by nothing else.
        let likelihood = session.run(&["identify", "study.toml", "--json", "--method", "ml"]).json();
        let off = number(&document, "estimate") - number(&likelihood, "estimate");
        assert!(off.abs() < 0.01 * number(&likelihood, "std_error"), "{method}: {off}");
        let ratio = number(&document, "std_error") / number(&likelihood, "std_error");
        assert!((ratio - 1.0).abs() < 0.02, "{method}: {ratio}");
        assert!(!codes(&document).contains(&"noise-size"), "{document}");
    }
}

#[test]
fn an_interval_beyond_bounds_is_told_for_nonlinear_models_too() {
    let document =
        uneven_decay(1.01, "", ["0.02", "30"], "").run(&["identify", "study.toml", "--json", "--method", "ml"]).json();
    assert_eq!(finding(&document, "interval-over-bound")["names"], serde_json::json!(["k"]));
}

#[test]
fn sizes_below_zero_are_refused_alike() {
    let study = |disturbance: &str| {
        format!(
            "[linear]\nE = [[1]]\nF = [[-1]]\nJ = [[1]]\nH = [[1]]\n[disturbances]\nw1 = {disturbance}\n[measurements]\n\
             y1 = {{ column = \"y\", std = 0.1 }}\n[estimate]\nsignals = [\"z1\"]\n[data]\nfile = \"d.csv\"\n"
        )
    };
    for disturbance in [
        "{ matern = { smoothness = 1.5, std = -0.4, length = 1.0 } }",
        "{ std = -0.4, time_constant = 1.0 }",
        "{ walk = -0.4 }",
        "{ walk = 0.4, std = -1.0 }",
    ] {
        let session = Session::new().with("d.csv", "t,y\n0,1\n1,2\n").with("study.toml", &study(disturbance));
        let run = session.run(&["estimate", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{disturbance}");
        assert_eq!(finding(&run.json(), "out-of-range")["names"][0], "w1", "{disturbance}");
    }
}

/// The unit of the data would choose between densities of different numbers of values.
#[test]
fn likelihoods_of_fewer_values_are_not_compared_with_those_of_more() {
    let session = nile();
    let diffuse = std::fs::read_to_string(session.path("study.toml")).unwrap();
    let known = diffuse.replace("mode = \"diffuse\"", "level = 1120.0");
    let session = session.with("known.toml", &known).with("same.toml", &diffuse);
    let run = session.run(&["identify", "study.toml", "known.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let counts: Vec<u64> = (0..2).map(|at| document["studies"][at]["n_density_values"].as_u64().unwrap()).collect();
    assert_eq!(counts, [99, 100]);
    assert!(document["best"]["aic"].is_null() && document["best"]["bic"].is_null(), "{}", document["best"]);
    let message = finding(&document, "different-densities")["message"].as_str().unwrap();
    assert!(message.contains("99") && message.contains("known.toml"), "{message}");
    let run = session.run(&["identify", "study.toml", "same.toml", "--json"]);
    assert_eq!(run.json()["best"]["aic"], "study.toml");
    assert!(!codes(&run.json()).contains(&"different-densities"));
}

/// Before a sensor of 0.01 the level may be anywhere within 1e6, and is what the sensor says after it: the difference of
/// two variances of 1e12 keeps nothing of that.
#[test]
fn a_nonlinear_filter_knows_what_a_sharp_sensor_told() {
    let model = "model Level
  input Real w;
  Real x(start = 0), y;
equation
  der(x) = -x + w + 1e-30*x^3;
  y = x;
end Level;
";
    let study = "[model]\nfile = \"model.mo\"\n[disturbances]\nw = { std = 1e6, time_constant = 1.0 }\n[measurements]\n\
                 y = { column = \"y\", std = 0.01 }\n[estimate]\nsignals = [\"x\"]\n[data]\nfile = \"d.csv\"\n";
    let session =
        Session::with_model(model).with("study.toml", study).with("d.csv", "t,y\n0,0\n0.5,1\n1,0\n1.5,1\n2,0.5\n");
    let run = session.run(&["estimate", "study.toml"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for name in ["x.std", "x.smoothed.std"] {
        for std in &table.column(name)[1..] {
            assert!((std / 0.01 - 1.0).abs() < 1e-6, "{name}: {std}");
        }
    }
}
