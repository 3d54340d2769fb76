//! Functional Mock-up Units as the program writes them. What importers make of them is tested in Python.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use daesy_fmu::observer::{ObserverInstance, ObserverModel, RESOURCE};
use daesy_fmu::running::Running as _;
use daesy_foreign::read_archive;

use crate::session::{Session, Table, codes};

const DECAY: &str = "model Decay \"A <quantity> & its end\"
  parameter Real k(unit = \"1/s\", min = 0) = 2 \"Rate\";
  input Real u;
  output Real y;
  Real x(start = 1, fixed = true, unit = \"m\");
  Boolean low = x < 0.5;
equation
  der(x) = -k*x + u;
  y = 2*x;
  annotation (experiment(StopTime = 3));
end Decay;
";

#[test]
fn a_unit_says_what_is_in_it() {
    let session = Session::with_model(DECAY);
    for (fmi, version, kind, kinds) in [
        ("2", "2.0", "both", &["me", "cs"][..]),
        ("3", "3.0", "both", &["me", "cs"]),
        ("2", "2.0", "me", &["me"]),
        ("3", "3.0", "cs", &["cs"]),
    ] {
        let told = session.run(&["export", "model.mo", "-o", "a.fmu", "--fmi", fmi, "--kind", kind, "--json"]);
        assert_eq!(told.status, 0, "{}", told.stderr);
        let document = told.json();
        assert_eq!(document["fmi"], version);
        assert_eq!(document["kinds"], serde_json::json!(kinds));
        assert_eq!(document["platforms"][0], "x86_64-linux");
        assert_eq!(document["directional_derivatives"], true);
        let bytes = fs::read(session.path("a.fmu")).unwrap();
        assert_eq!(document["size_bytes"], bytes.len());
        assert!(document["variables"].as_u64().unwrap() >= 8);
    }
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let session = Session::with_model(DECAY);
    for name in ["a.fmu", "b.fmu"] {
        assert_eq!(session.run(&["export", "model.mo", "-o", name]).status, 0);
    }
    assert_eq!(fs::read(session.path("a.fmu")).unwrap(), fs::read(session.path("b.fmu")).unwrap());
}

#[test]
fn an_export_without_a_place_or_of_a_bad_model_leaves_nothing() {
    let session = Session::with_model("model A\n  Real x;\nequation\n  x = 1;\n  x = 2;\nend A;\n");
    assert_eq!(session.run(&["export", "model.mo"]).status, 2);
    assert_eq!(session.run(&["export", "model.mo", "-o", "a.zip"]).status, 2);
    assert_eq!(session.run(&["export", "model.mo", "-o", "a.fmu", "--fmi", "1"]).status, 2);
    assert_eq!(session.run(&["export", "model.mo", "-o", "a.fmu"]).status, 1);
    assert!(!session.path("a.fmu").exists());
}

/// Two tanks with an inflow that nobody knows, seen through a filter of the sensor; the record has gaps.
fn tanks() -> Session {
    let model = "model Tanks
  parameter Real k1(min = 0) = 0.5, k2(min = 0) = 0.4;
  input Real u, w;
  output Real h2(start = 0.8, fixed = true);
  Real h1(start = 1, fixed = true), q;
equation
  der(h1) = u + w - q;
  q = k1*sqrt(h1);
  der(h2) = q - k2*sqrt(h2);
end Tanks;";
    let mut data = "t,u,level\n".to_owned();
    for at in 0..60 {
        let u = if at / 20 % 2 == 0 { 0.3 } else { 0.5 };
        let level = 0.9 + 0.1 * (0.05 * f64::from(at)).sin() + 0.005 * (1.3 * f64::from(at)).sin();
        let level = if at % 9 == 4 { String::new() } else { level.to_string() };
        data.push_str(&format!("{},{u},{level}\n", f64::from(at) / 10.0));
    }
    let study = r#"
[model]
file = "model.mo"
[unknown]
k1 = { start = 0.45, min = 0.1, max = 1.0 }
[inputs]
u = { column = "u" }
[disturbances]
w = { std = 0.05, time_constant = 2.0 }
[measurements]
h2 = { column = "level", std = 0.01, presampling = { time_constant = 0.02, order = 1 } }
[estimate]
signals = ["h1", "w"]
[data]
file = "record.csv"
"#;
    Session::with_model(model).with("record.csv", &data).with("study.toml", study)
}

/// The filter in a unit, without the program that made it.
fn observer(session: &Session, name: &str) -> ObserverInstance {
    let (archive, _) = read_archive(fs::read(session.path(name)).unwrap()).unwrap();
    let resource = archive.content(&Path::new("resources").join(RESOURCE)).unwrap();
    ObserverInstance::new(Arc::new(ObserverModel::read(&resource).unwrap()))
}

/// Steps a filter over the record of a study and compares it with the table of `estimate`.
fn compare_with_estimate(session: &Session, study: &str, words: &[&str]) {
    let told = session.run(&[&["export", study, "--observer", "-o", "filter.fmu", "--json"], words].concat());
    assert_eq!(told.status, 0, "{}", told.stderr);
    assert_eq!(told.json()["kinds"], serde_json::json!(["cs"]));
    let run = session.run(&[&["estimate", study, "-o", "estimates.csv"], words].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = Table::parse(&fs::read_to_string(session.path("estimates.csv")).unwrap());
    let mut unit = observer(session, "filter.fmu");
    let place = |unit: &ObserverInstance, name: &str| {
        let found = unit.variables().iter().position(|variable| variable.name == name);
        found.unwrap_or_else(|| panic!("no {name}")) as u32
    };
    let names = ["u", "measured.h2", "estimate.h1", "std.h1", "estimate.w", "std.w"].map(|name| place(&unit, name));
    let [u, measured, rest @ ..] = names;
    let record = fs::read_to_string(session.path("record.csv")).unwrap();
    unit.set_experiment(0.0, None, None).unwrap();
    unit.enter_initialization().unwrap();
    unit.exit_initialization().unwrap();
    let expected = ["h1", "h1.std", "w", "w.std"].map(|name| table.column(name));
    let times = table.column("t");
    let mut row = 0;
    let mut last = 0.0;
    for line in record.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        if cells[0] > 0.0 {
            unit.step(last, cells[0] - last).unwrap();
        }
        last = cells[0];
        unit.set_value(u, cells[1]).unwrap();
        unit.set_value(measured, cells[2]).unwrap();
        if times.get(row) != Some(&cells[0]) {
            continue;
        }
        for (&reference, column) in rest.iter().zip(&expected) {
            let found = unit.value(reference).unwrap();
            assert!(
                (found - column[row]).abs() <= 1e-9 * column[row].abs().max(1e-3),
                "{last}: {found} {}",
                column[row]
            );
        }
        row += 1;
    }
    assert_eq!(row, times.len());
}

#[test]
fn the_filter_of_a_study_gives_its_table() {
    let session = tanks();
    compare_with_estimate(&session, "study.toml", &[]);
    compare_with_estimate(&session, "study.toml", &["--set", "k1=0.55"]);
}

/// A unit runs when its importer says, also before the record of its study began: x = exp(-t) from there on.
#[test]
fn the_filter_of_a_study_runs_before_its_record_began() {
    let model = "model M Real x(start = 1, fixed = true); equation der(x) = -x; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[measurements]\nx = { column = \"x\", std = 0.1 }\n[estimate]\n\
                 signals = [\"x\"]\n[data]\nfile = \"record.csv\"\n[simulate]\nstart = 1.7\n";
    let record = "t,x\n1,0.5\n1.5,0.5\n2,0.5\n2.5,0.5\n";
    let session = Session::with_model(model).with("study.toml", study).with("record.csv", record);
    let told = session.run(&["export", "study.toml", "--observer", "-o", "filter.fmu"]);
    assert_eq!(told.status, 0, "{}", told.stderr);
    let mut unit = observer(&session, "filter.fmu");
    let reference = unit.variables().iter().position(|variable| variable.name == "estimate.x").unwrap() as u32;
    unit.set_experiment(0.0, None, None).unwrap();
    unit.enter_initialization().unwrap();
    unit.exit_initialization().unwrap();
    for at in 0..4 {
        let time = 0.5 * f64::from(at);
        let found = unit.value(reference).unwrap();
        assert!((found - (-time).exp()).abs() < 1e-9, "{time}: {found}");
        unit.step(time, 0.5).unwrap();
    }
}

#[test]
fn the_filter_of_a_unit_carries_that_unit() {
    let session = tanks();
    assert_eq!(session.run(&["export", "model.mo", "-o", "plant.fmu"]).status, 0);
    let study = fs::read_to_string(session.path("study.toml")).unwrap().replace("model.mo", "plant.fmu");
    let session = session.with("unit.toml", &study);
    compare_with_estimate(&session, "unit.toml", &["--set", "k1=0.55"]);
    // Nothing is needed but the file.
    fs::remove_file(session.path("plant.fmu")).unwrap();
    assert!(observer(&session, "filter.fmu").variables().len() == 7);
}

#[test]
fn a_filter_that_cannot_be_exported_is_refused() {
    let session = tanks();
    assert_eq!(session.run(&["export", "study.toml", "--observer", "--kind", "me", "-o", "a.fmu"]).status, 2);
    let run = session.run(&["export", "model.mo", "--observer", "-o", "a.fmu", "--json"]);
    assert!(run.status == 1 && codes(&run.json()).contains(&"no-study"), "{}", run.stderr);
    let text = fs::read_to_string(session.path("study.toml")).unwrap();
    let silent = text.replace("signals = [\"h1\", \"w\"]", "signals = []");
    let far = text.replace("[data]\nfile = \"record.csv\"", "");
    let session = session.with("silent.toml", &silent).with("far.toml", &far);
    let run = session.run(&["export", "silent.toml", "--observer", "-o", "a.fmu", "--json"]);
    assert!(run.status == 1 && codes(&run.json()).contains(&"no-signals"), "{}", run.stderr);
    let run = session.run(&["export", "far.toml", "--observer", "-o", "a.fmu", "--json"]);
    assert!(run.status == 1 && codes(&run.json()).contains(&"watch-step"), "{}", run.stderr);
    assert!(!session.path("a.fmu").exists());
    assert_eq!(session.run(&["export", "far.toml", "--observer", "--step", "0.1", "-o", "a.fmu"]).status, 0);
}
