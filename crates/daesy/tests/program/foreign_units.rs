//! Units of other tools as models: those that daesy exports come back as what they were, and what is damaged, foreign
//! or crashes is refused or survived.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::session::{Session, Table};
use daesy_fmu::archive::{Entry, pack};
use daesy_foreign::archive::{Archive, Limits};

const PENDULUM: &str = "model Pendulum
  parameter Real k = 0.1; parameter Real L = 1.5; parameter Real x0 = 0.9;
  input Real u; Real x(start=x0, fixed=true); Real y(start=-1.2); Real v(start=0, fixed=true); Real w; Real lambda; output Real angle;
equation
  der(x) = v; der(y) = w; der(v) = -lambda*x - k*v + u; der(w) = -lambda*y - k*w - 9.81; x^2 + y^2 = L^2;
  angle = atan(x/(-y));
  annotation(experiment(StopTime=3, Interval=0.05, Tolerance=1e-8));
end Pendulum;";

const BALL: &str = "model Ball
  parameter Real e = 0.7; Real h(start=1, fixed=true); Real v(start=0, fixed=true); Integer n(start=0, fixed=true);
equation
  der(h) = v; der(v) = -9.81;
  when h <= 0 then n = pre(n) + 1; reinit(v, -e*pre(v)); end when;
  annotation(experiment(StopTime=1.5, Interval=0.01));
end Ball;";

/// A folder with a model and the unit that is exported of it.
fn exported(model: &str, arguments: &[&str]) -> Session {
    let session = Session::with_model(model);
    let run = session.run(&[&["export", "model.mo", "-o", "unit.fmu"], arguments].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    session
}

fn simulated(session: &Session, file: &str, arguments: &[&str]) -> Table {
    let run = session.run(&[&["simulate", file, "--quiet"], arguments].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.table()
}

/// The largest difference of the columns that both have, of rows at the same times.
fn difference(one: &Table, other: &Table, names: &[&str]) -> f64 {
    let (times, other_times) = (one.column("t"), other.column("t"));
    let last = |times: &[f64], time: f64| times.iter().rposition(|&known| (known - time).abs() < 1e-9);
    let mut worst = 0f64;
    for &name in names {
        let (column, other_column) = (one.column(name), other.column(name));
        for &time in &times {
            if let (Some(a), Some(b)) = (last(&times, time), last(&other_times, time)) {
                worst = worst.max((column[a] - other_column[b]).abs());
            }
        }
    }
    worst
}

#[test]
fn an_exported_model_of_index_3_comes_back_in_both_versions_and_kinds() {
    let session = Session::with_model(PENDULUM);
    let model = simulated(&session, "model.mo", &[]);
    for (version, kind, tolerance) in [("2", "me", 1e-5), ("3", "me", 1e-5), ("2", "cs", 1e-4), ("3", "cs", 1e-4)] {
        let export = ["export", "model.mo", "-o", "unit.fmu", "--fmi", version, "--kind", kind];
        assert_eq!(session.run(&export).status, 0);
        let unit = simulated(&session, "unit.fmu", &[]);
        let worst = difference(&model, &unit, &["x", "y", "v", "w", "lambda", "angle", "der(x)", "der(v)"]);
        assert!(worst < tolerance, "FMI {version} {kind}: {worst}");
        let names = unit.names.clone();
        assert!(!names.iter().any(|name| name.starts_with('@')), "{names:?}");
    }
}

#[test]
fn parameters_reach_a_unit_before_it_is_initialized() {
    let session = exported(PENDULUM, &[]);
    let set = ["--set", "k=0.3", "--set", "x0=-0.4"];
    let (model, unit) = (simulated(&session, "model.mo", &set), simulated(&session, "unit.fmu", &set));
    assert!((unit.column("x")[0] + 0.4).abs() < 1e-9, "{}", unit.column("x")[0]);
    assert!(difference(&model, &unit, &["x", "angle"]) < 1e-5);
    let wrong = session.run(&["simulate", "unit.fmu", "--set", "kk=1"]);
    assert_eq!(wrong.status, 1, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("the model has no parameter `kk`"), "{}", wrong.stderr);
}

#[test]
fn inputs_of_a_study_drive_a_unit_with_their_breaks() {
    let study = |file: &str| {
        format!(
            "[model]\nfile = \"{file}\"\n[parameters]\nk = 0.2\n[inputs]\nu = {{ column = \"u\", hold = \"zoh\" }}\n\
             [data]\nfile = \"u.csv\"\n[simulate]\nstop = 3\nstep = 0.1\nrtol = 1e-8\n[initial]\nv = 0.5\n"
        )
    };
    let session = exported(PENDULUM, &[]);
    std::fs::write(session.path("u.csv"), "t,u\n0,0\n0.55,2\n1.2,-1\n2.05,0\n3,0\n").unwrap();
    std::fs::write(session.path("model.toml"), study("model.mo")).unwrap();
    std::fs::write(session.path("unit.toml"), study("unit.fmu")).unwrap();
    let (model, unit) = (simulated(&session, "model.toml", &[]), simulated(&session, "unit.toml", &[]));
    assert!((unit.column("u")[unit.rows.len() / 2] - model.column("u")[model.rows.len() / 2]).abs() < 1e-12);
    let worst = difference(&model, &unit, &["x", "v", "angle", "u"]);
    assert!(worst < 1e-5, "{worst}");
}

#[test]
fn events_of_a_unit_happen_when_those_of_its_model_do() {
    for version in ["2", "3"] {
        let session = exported(BALL, &["--fmi", version]);
        let (model, unit) = (simulated(&session, "model.mo", &[]), simulated(&session, "unit.fmu", &[]));
        let worst = difference(&model, &unit, &["h", "v", "n"]);
        assert!(worst < 1e-6, "FMI {version}: {worst}");
        let run = session.run(&["simulate", "unit.fmu", "--json", "--quiet"]);
        let events = run.json()["events"].as_array().unwrap().len();
        assert!(events >= 3, "{events} events");
    }
}

/// The outputs of a unit that integrates itself, after its solution has slid along the border of a relation.
#[test]
fn a_unit_that_slid_goes_on_with_outputs_of_its_own() {
    let slip = "model Slip \"A mass on a belt: it sticks, then slips\"
      parameter Real mu = 0.5; parameter Real vb = 0.3;
      Real x(start=0, fixed=true); Real v(start=0, fixed=true); Boolean slow; Real f;
    equation
      slow = v < vb; der(x) = v; f = if slow then mu*(1 - 0.3*v) else -mu; der(v) = f - x;
      annotation(experiment(StopTime=6, Interval=0.1));
    end Slip;";
    for version in ["2", "3"] {
        let session = exported(slip, &["--fmi", version, "--kind", "cs"]);
        let (model, unit) = (simulated(&session, "model.mo", &[]), simulated(&session, "unit.fmu", &[]));
        let worst = difference(&model, &unit, &["x", "v", "slow", "f", "der(x)", "der(v)"]);
        assert!(worst < 1e-5, "FMI {version}: {worst}");
    }
}

/// Inputs of every type that jump, with an event that one of them makes.
const DRIVEN: &str = "model Driven
  input Boolean b; input Integer n; input Real u;
  Real x(start=0, fixed=true); Integer count(start=0, fixed=true); output Real y;
equation
  der(x) = -0.5*x + (if b then 1 else 0)*n + u; y = 2*n + u;
  when b then count = pre(count) + 1; end when;
end Driven;";

fn driven(file: &str) -> String {
    let input = |name: &str| format!("{name} = {{ column = \"{name}\", hold = \"zoh\" }}\n");
    let inputs = ["b", "n", "u"].map(input).concat();
    format!(
        "[model]\nfile = \"{file}\"\n[inputs]\n{inputs}[data]\nfile = \"u.csv\"\n[simulate]\nstop = 2\nstep = 0.5\n"
    )
}

/// Every row of a unit that integrates itself has the outputs at the inputs beside them, as that of its model: also
/// after a jump of an input, and after one at the end.
#[test]
fn rows_of_a_stepping_unit_have_the_outputs_at_their_inputs() {
    for version in ["2", "3"] {
        let session = exported(DRIVEN, &["--fmi", version, "--kind", "cs"]);
        std::fs::write(session.path("u.csv"), "t,b,n,u\n0,0,0,0\n0.5,1,2,0.3\n1,0,2,-1\n1.5,1,-1,4\n2,1,5,6\n")
            .unwrap();
        std::fs::write(session.path("model.toml"), driven("model.mo")).unwrap();
        std::fs::write(session.path("unit.toml"), driven("unit.fmu")).unwrap();
        let (model, unit) = (simulated(&session, "model.toml", &[]), simulated(&session, "unit.toml", &[]));
        assert_eq!(unit.rows.len(), model.rows.len());
        for name in ["t", "b", "n", "u", "x", "y", "count", "der(x)"] {
            for (at, (model, unit)) in model.column(name).iter().zip(unit.column(name)).enumerate() {
                assert!((model - unit).abs() < 1e-5, "FMI {version}, `{name}` in row {at}: {model} and {unit}");
            }
        }
        assert_eq!((unit.column("t").pop(), unit.column("y").pop()), (Some(2.0), Some(16.0)));
    }
}

/// Counts of event indicators that a library does not have, descriptions that come twice, and the least Integer.
#[test]
fn descriptions_that_their_units_contradict_are_told() {
    let session = exported(BALL, &["--fmi", "3", "--kind", "me"]);
    let with = |name: &str, from: &str, to: &str| {
        let mut list = entries(&session.path("unit.fmu"));
        for entry in list.iter_mut().filter(|entry| entry.path == "modelDescription.xml") {
            let text = String::from_utf8(std::mem::take(&mut entry.bytes)).unwrap();
            assert!(text.contains(from), "{text}");
            entry.bytes = text.replace(from, to).into_bytes();
        }
        write(&session, name, &list);
        session.run(&["simulate", name])
    };
    let run = with("fewer.fmu", "<EventIndicator ", "<Output ");
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(run.stderr.contains("it has 1 event indicators, and its description 0"), "{}", run.stderr);
    let run = session.run(&["export", "model.mo", "--fmi", "2", "--kind", "me", "-o", "unit.fmu"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let run = with("none.fmu", "numberOfEventIndicators=\"1\"", "numberOfEventIndicators=\"0\"");
    assert!(run.status == 1 && run.stderr.contains("0 values were given where there are 1"), "{}", run.stderr);
    let mut list = entries(&session.path("unit.fmu"));
    let again = list.iter().find(|entry| entry.path == "modelDescription.xml").unwrap();
    let again = Entry { path: again.path.clone(), bytes: again.bytes.clone(), is_executable: false };
    list.push(again);
    write(&session, "twice.fmu", &list);
    let run = session.run(&["simulate", "twice.fmu"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(run.stderr.contains("comes twice"), "{}", run.stderr);
    let counter = "model M parameter Integer k = 0; Integer n(start=k, fixed=true);
      equation when time > 5 then n = pre(n) + 1; end when; end M;";
    let session = exported(counter, &["--fmi", "2", "--kind", "me"]);
    let table = simulated(&session, "unit.fmu", &["--set", "k=-2147483648"]);
    assert_eq!(table.column("n").first(), Some(&-2_147_483_648.0));
}

/// The standard does not let one read outputs at inputs that were just set; units of daesy alone allow it.
#[test]
fn outputs_of_the_step_before_are_told() {
    let session = exported(DRIVEN, &["--fmi", "2", "--kind", "cs"]);
    std::fs::write(session.path("u.csv"), "t,b,n,u\n0,0,0,0\n0.5,1,2,0.3\n2,0,2,-1\n").unwrap();
    let mut list = entries(&session.path("unit.fmu"));
    for entry in list.iter_mut().filter(|entry| entry.path == "modelDescription.xml") {
        let text = String::from_utf8(std::mem::take(&mut entry.bytes)).unwrap();
        assert!(text.contains("generationTool=\"daesy "));
        entry.bytes = text.replace("generationTool=\"daesy ", "generationTool=\"other ").into_bytes();
    }
    write(&session, "foreign.fmu", &list);
    std::fs::write(session.path("foreign.toml"), driven("foreign.fmu")).unwrap();
    let run = session.run(&["simulate", "foreign.toml", "--json", "--quiet"]);
    let document = run.json();
    let is_told = |finding: &serde_json::Value| finding["code"] == "fmu-held-inputs";
    assert!(document["findings"].as_array().unwrap().iter().any(is_told), "{document}");
    // Nothing to say where no input moves.
    let run = session.run(&["simulate", "foreign.fmu", "--json", "--quiet"]);
    assert!(!run.json()["findings"].as_array().unwrap().iter().any(is_told), "{}", run.stdout);
}

#[test]
fn a_stepping_unit_ends_when_its_model_does() {
    let brief = "model Brief
      Real x(start=0, fixed=true);
    equation
      der(x) = 1;
      when x >= 3.3 then terminate(\"done\"); end when;
      annotation(experiment(StopTime=6, Interval=0.5));
    end Brief;";
    for version in ["2", "3"] {
        let session = exported(brief, &["--fmi", version, "--kind", "cs"]);
        let run = session.run(&["simulate", "unit.fmu"]);
        let table = run.table();
        let (time, x) = (table.column("t").pop().unwrap(), table.column("x").pop().unwrap());
        assert!((time - 3.3).abs() < 1e-6 && (x - 3.3).abs() < 1e-6, "FMI {version}: {x} at {time}");
        assert!(run.stderr.contains("terminated"), "{}", run.stderr);
    }
}

/// A relation that an event of the unit turns back is no other event.
#[test]
fn an_event_that_turns_its_own_indicator_settles() {
    let wheel = "model Wheel \"Ticks twice a turn; a sampled controller holds its speed\"
      Real phi(start=0.3, fixed=true); Real w(start=2, fixed=true); output Real angle;
      discrete Real offset(start=0, fixed=true); discrete Real torque(start=0, fixed=true); Integer ticks(start=0, fixed=true);
    equation
      der(phi) = w; der(w) = torque - 0.3*w; angle = phi - offset;
      when phi - pre(offset) >= 3 then offset = pre(offset) + 3; ticks = pre(ticks) + 1; end when;
      when sample(0, 0.05) then torque = 2*(5 - w); end when;
      annotation(experiment(StopTime=3, Interval=0.01));
    end Wheel;";
    for version in ["2", "3"] {
        let session = exported(wheel, &["--fmi", version, "--kind", "me"]);
        let (model, unit) = (simulated(&session, "model.mo", &[]), simulated(&session, "unit.fmu", &[]));
        let worst = difference(&model, &unit, &["phi", "w", "angle", "torque", "ticks"]);
        assert!(worst < 1e-7, "FMI {version}: {worst}");
        assert_eq!(unit.column("ticks").last(), Some(&4.0));
    }
}

#[test]
fn identification_uq_and_cost_of_a_unit_are_those_of_its_model() {
    let session = exported(PENDULUM, &[]);
    let data = session.run(&["simulate", "model.mo", "-o", "data.csv", "--set", "k=0.25", "--set", "L=1.6", "--quiet"]);
    assert_eq!(data.status, 0, "{}", data.stderr);
    let study = |file: &str| {
        format!(
            "[model]\nfile = \"{file}\"\n[unknown]\nk = {{ start = 0.1, min = 0.01, max = 1 }}\nL = {{ start = 1.5, min = 1, max = 3 }}\n\
             [measurements]\nangle = {{ column = \"angle\", std = 0.001 }}\n[data]\nfile = \"data.csv\"\n\
             [identify]\nmethod = \"output-error\"\n[random]\nk = {{ uniform = {{ min = 0.1, max = 0.3 }} }}\n\
             [uq]\nmethod = \"collocation\"\ndegree = 2\n[simulate]\nstop = 1\nstep = 0.5\n"
        )
    };
    std::fs::write(session.path("model.toml"), study("model.mo")).unwrap();
    std::fs::write(session.path("unit.toml"), study("unit.fmu")).unwrap();
    let found = |file: &str| session.run(&["identify", file, "--json", "--quiet"]).json()["parameters"].clone();
    let (model, unit) = (found("model.toml"), found("unit.toml"));
    for at in 0..2 {
        let number = |found: &serde_json::Value, key: &str| found[at][key].as_f64().unwrap();
        let (wanted, got) = (number(&model, "estimate"), number(&unit, "estimate"));
        assert!((wanted - got).abs() < 1e-6 * wanted, "{wanted} {got}");
    }
    assert!((unit[0]["estimate"].as_f64().unwrap() - 0.25).abs() < 1e-5);
    let costs = |file: &str| {
        session.run(&["cost", file, "--grid", "k=0.2:0.3:3", "--json", "--quiet"]).json()["values"].clone()
    };
    let (model, unit) = (costs("model.toml"), costs("unit.toml"));
    for at in 0..3 {
        let (wanted, got) = (model[at].as_f64().unwrap(), unit[at].as_f64().unwrap());
        assert!((wanted - got).abs() < 1e-5 * wanted.max(1e-6), "{wanted} {got}");
    }
    let moments = |file: &str| {
        let run = session.run(&["uq", file, "-o", "uq.csv", "--quiet"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let text = std::fs::read_to_string(session.path("uq.csv")).unwrap();
        // Indices of variables that do not vary are empty.
        let lines = text.lines().map(|line| line.split(',').map(|cell| if cell.is_empty() { "NaN" } else { cell }));
        let full: Vec<String> = lines.map(|cells| cells.collect::<Vec<_>>().join(",")).collect();
        let table = Table::parse(&full.join("\n"));
        table.column("angle.std").last().copied().unwrap()
    };
    let (model, unit) = (moments("model.toml"), moments("unit.toml"));
    assert!((model - unit).abs() < 1e-5 * model, "{model} {unit}");
}

/// What is asked of a unit without running it, and what cannot be asked.
#[test]
fn a_unit_is_described_without_being_run_and_refused_by_name() {
    let session = exported(PENDULUM, &["--kind", "cs"]);
    let described = session.run(&["describe", "unit.fmu", "--json", "--no-native"]);
    assert_eq!(described.status, 0, "{}", described.stderr);
    let names: Vec<String> = described.json()["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.iter().any(|name| name == "k"), "{names:?}");
    let text = session.run(&["describe", "unit.fmu"]).stdout;
    let n_shown = |name: &str| text.lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
    assert_eq!((n_shown("angle"), n_shown("lambda")), (1, 1), "{text}");
    let code = |arguments: &[&str]| {
        let run = session.run(&[arguments, &["--json"]].concat());
        (run.status, run.json()["findings"][0]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(code(&["simulate", "unit.fmu", "--no-native"]), (1, "no-native".to_owned()));
    for verb in ["flatten", "regularize", "check", "uq", "identify", "estimate"] {
        assert_eq!(code(&[verb, "unit.fmu"]), (1, "fmu-unsupported".to_owned()), "{verb}");
    }
    let run = session.run(&["simulate", "unit.fmu", "--json"]);
    let findings = run.json()["findings"].clone();
    assert!(findings.as_array().unwrap().iter().any(|finding| finding["code"] == "foreign-code"), "{findings}");
}

/// Runs the program with a folder of its own for temporary files; the status, the first finding's code, and how many
/// entries are left there.
fn alone(session: &Session, arguments: &[&str], seconds: &str) -> (i32, String, String, usize) {
    let temporary = session.path("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_daesy"));
    command.args(arguments).arg("--json").current_dir(session.path("")).env("TMPDIR", &temporary);
    let output = command.env("DAESY_FMU_SECONDS", seconds).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let error = findings.iter().find(|finding| finding["level"] == "error");
    let text = |key: &str| error.map_or(String::new(), |error| error[key].as_str().unwrap().to_owned());
    let n_left = std::fs::read_dir(&temporary).unwrap().count();
    (output.status.code().unwrap_or(-1), text("code"), text("message"), n_left)
}

/// The entries of a unit, to be changed.
fn entries(path: &Path) -> Vec<Entry> {
    let archive = Archive::new(std::fs::read(path).unwrap(), Limits::default()).unwrap();
    let read = |path: &PathBuf| archive.content(path).unwrap();
    let paths = archive.entries().iter().map(|entry| entry.path.clone());
    let entry =
        |path: PathBuf| Entry { bytes: read(&path), path: path.to_str().unwrap().to_owned(), is_executable: false };
    paths.map(entry).collect()
}

fn write(session: &Session, name: &str, entries: &[Entry]) {
    std::fs::write(session.path(name), pack(entries).unwrap()).unwrap();
}

#[test]
fn damaged_and_harmful_units_are_refused_and_leave_nothing_behind() {
    let session = exported(BALL, &[]);
    let good = entries(&session.path("unit.fmu"));
    let refused = |name: &str, code: &str, words: &str| {
        let (status, found, message, n_left) = alone(&session, &["simulate", name], "20");
        assert_eq!((status, found.as_str(), n_left), (1, code, 0), "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
    };
    let bytes = std::fs::read(session.path("unit.fmu")).unwrap();
    std::fs::write(session.path("short.fmu"), &bytes[..bytes.len() / 2]).unwrap();
    refused("short.fmu", "fmu-archive", "ZIP");
    refused("missing.fmu", "file", "missing.fmu");
    let outside = Entry { path: "../outside.txt".to_owned(), bytes: vec![1], is_executable: false };
    write(&session, "outside.fmu", &[good.clone(), vec![outside]].concat());
    refused("outside.fmu", "fmu-unsafe", "outside of its folder");
    assert!(!session.path("outside.txt").exists());
    let without = |part: &str| good.iter().filter(|entry| !entry.path.contains(part)).cloned().collect::<Vec<_>>();
    write(&session, "empty.fmu", &without("modelDescription"));
    refused("empty.fmu", "fmu-archive", "modelDescription.xml");
    let mut elsewhere = good.clone();
    elsewhere.iter_mut().for_each(|entry| entry.path = entry.path.replace("linux64", "win64"));
    write(&session, "elsewhere.fmu", &elsewhere);
    refused("elsewhere.fmu", "fmu-platform", "win64");
    let mut token = good.clone();
    let text = String::from_utf8(token[0].bytes.clone()).unwrap();
    token[0].bytes = text.replace("guid=\"{", "guid=\"{00").into_bytes();
    write(&session, "token.fmu", &token);
    refused("token.fmu", "fmu-instance", "no instance");
    let mut broken = good.clone();
    broken
        .iter_mut()
        .filter(|entry| entry.path.starts_with("binaries"))
        .for_each(|entry| entry.bytes = b"no library".to_vec());
    write(&session, "broken.fmu", &broken);
    refused("broken.fmu", "fmu-library", "cannot be loaded");
    let mut entity = good.clone();
    entity[0].bytes = b"<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><fmiModelDescription/>".to_vec();
    write(&session, "entity.fmu", &entity);
    refused("entity.fmu", "fmu-description", "DTD");
    let mut bare = good;
    bare.iter_mut().filter(|entry| entry.path.starts_with("resources")).for_each(|entry| entry.bytes.truncate(20));
    write(&session, "bare.fmu", &bare);
    refused("bare.fmu", "fmu-instance", "no instance");
}

/// der(x) = -k x, which aborts below x = 0.5 where k is 2, and never answers there where k is 3.
const CRASHING: &str = include_str!("crashing_unit.c");

const CRASHING_DESCRIPTION: &str = r#"<?xml version="1.0"?>
<fmiModelDescription fmiVersion="2.0" modelName="Crashing" guid="{7}" numberOfEventIndicators="0">
  <ModelExchange modelIdentifier="Crashing"/>
  <DefaultExperiment startTime="0" stopTime="1"/>
  <ModelVariables>
    <ScalarVariable name="x" valueReference="0" initial="exact"><Real start="1"/></ScalarVariable>
    <ScalarVariable name="der(x)" valueReference="1"><Real derivative="1"/></ScalarVariable>
    <ScalarVariable name="k" valueReference="2" causality="parameter" variability="fixed"><Real start="1"/></ScalarVariable>
  </ModelVariables>
  <ModelStructure><Derivatives><Unknown index="2"/></Derivatives></ModelStructure>
</fmiModelDescription>"#;

/// The unit, packed; none where there is no C compiler.
fn crashing(session: &Session, source: &str) -> Option<()> {
    std::fs::write(session.path("unit.c"), source).unwrap();
    let library = session.path("Crashing.so");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(session.path("unit.c")).status();
    if !compiled.is_ok_and(|status| status.success()) || std::env::consts::OS != "linux" {
        eprintln!("there is no C compiler: not tried");
        return None;
    }
    let file = |path: &str, bytes: Vec<u8>| Entry { path: path.to_owned(), bytes, is_executable: false };
    let library = file("binaries/linux64/Crashing.so", std::fs::read(&library).unwrap());
    let description = file("modelDescription.xml", CRASHING_DESCRIPTION.as_bytes().to_vec());
    write(session, "unit.fmu", &[description, library]);
    Some(())
}

#[test]
fn a_unit_that_crashes_or_hangs_takes_nobody_down() {
    let session = Session::new();
    let Some(()) = crashing(&session, CRASHING) else { return };
    let (status, code, message, n_left) = alone(&session, &["simulate", "unit.fmu"], "20");
    assert_eq!((status, code.as_str(), n_left), (0, "", 0), "{message}");
    let (status, code, message, n_left) = alone(&session, &["simulate", "unit.fmu", "--set", "k=2"], "20");
    assert_eq!((status, code.as_str(), n_left), (3, "fmu-crash", 0), "{message}");
    assert!(message.contains("at time 0.3") && message.contains("k = 2"), "{message}");
    let (status, code, message, n_left) = alone(&session, &["simulate", "unit.fmu", "--set", "k=3"], "1");
    assert_eq!((status, code.as_str(), n_left), (3, "fmu-timeout", 0), "{message}");
    assert!(message.contains("within 1 s") && message.contains("k = 3"), "{message}");
}

/// Derivatives would ask the unit at other values of its parameter, where it aborts.
#[test]
fn a_cost_asks_for_no_derivatives() {
    let session = Session::new();
    let source = CRASHING.replace("of->x < 0.5 && of->k == 2", "of->k != 1 && of->k != 4");
    let Some(()) = crashing(&session, &source) else { return };
    let rows: Vec<String> =
        (0..=10).map(|k| format!("{},{}", 0.1 * f64::from(k), (-0.1 * f64::from(k)).exp())).collect();
    std::fs::write(session.path("data.csv"), format!("t,x\n{}\n", rows.join("\n"))).unwrap();
    let study = "[model]\nfile = \"unit.fmu\"\n[unknown]\nk = { start = 1, min = 0.5, max = 5 }\n\
                 [measurements]\nx = { column = \"x\", std = 0.1 }\n[data]\nfile = \"data.csv\"\n\
                 [identify]\nmethod = \"output-error\"\n";
    std::fs::write(session.path("study.toml"), study).unwrap();
    let run = session.run(&["cost", "study.toml", "--grid", "k=1:4:2", "--json", "--quiet"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let values = run.json()["values"].clone();
    let exact: f64 = (0..=10).map(|k| 0.1 * f64::from(k)).map(|t: f64| ((-4.0 * t).exp() - (-t).exp()).powi(2)).sum();
    let (first, last) = (values[0].as_f64().unwrap(), values[1].as_f64().unwrap());
    assert!(first < 1e-12 && (last / (exact / 11.0) - 1.0).abs() < 1e-4, "{values} {exact}");
}

/// The findings of a run: code and message of each.
fn findings(session: &Session, arguments: &[&str]) -> (i32, Vec<(String, String)>) {
    let run = session.run(&[arguments, &["--json", "--quiet"]].concat());
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let document = run.json();
    let all = document["findings"].as_array().unwrap().iter();
    (run.status, all.map(|finding| (text(finding, "code"), text(finding, "message"))).collect())
}

/// Bounces that accumulate are refused of a unit as of its model, also where the last bounce that the unit sees comes
/// long before their end, and the ball falls through the floor.
#[test]
fn a_ball_that_never_stops_bouncing_is_refused() {
    let ball = BALL.replace("StopTime=1.5", "StopTime=5");
    for (name, model) in
        [("light", ball.clone()), ("slow", ball.replace("-9.81", "-1e-4").replace("StopTime=5", "StopTime=2000"))]
    {
        for version in ["2", "3"] {
            let session = exported(&model, &["--fmi", version, "--kind", "me"]);
            for file in ["model.mo", "unit.fmu"] {
                let (status, told) = findings(&session, &["simulate", file, "-o", "table.csv"]);
                let is_told = told.iter().any(|(code, _)| code == "accumulating-events");
                assert!(status == 3 && is_told, "{name} {file}: {status} {told:?}");
                let hidden = told.iter().find(|(_, message)| message.contains('@'));
                assert!(hidden.is_none(), "{hidden:?}");
                let table = Table::parse(&std::fs::read_to_string(session.path("table.csv")).unwrap());
                let lowest = table.column("h").into_iter().fold(f64::INFINITY, f64::min);
                assert!(lowest > -1e-6, "{name} {file}: {lowest}");
            }
        }
    }
}

#[test]
fn start_values_that_a_unit_overrules_are_told_and_others_reach_its_relations() {
    let session = exported(PENDULUM, &[]);
    let study = "[model]\nfile = \"unit.fmu\"\n[initial]\ny = -1.0\n[simulate]\nstop = 0.1\nstep = 0.1\n";
    std::fs::write(session.path("unit.toml"), study).unwrap();
    let run = session.run(&["simulate", "unit.toml", "--json", "--quiet", "-o", "table.csv"]);
    let document = run.json();
    let changed = document["initial"]["changed"]["y"].clone();
    // x0 = 0.9 and L = 1.5 leave y = -1.2.
    assert_eq!(changed[0].as_f64(), Some(-1.0), "{document}");
    assert!((changed[1].as_f64().unwrap() + 1.2).abs() < 1e-9, "{document}");
    let is_told = |finding: &serde_json::Value| finding["code"] == "start-changed";
    assert!(document["findings"].as_array().unwrap().iter().any(is_told), "{document}");
    let switch = "model Switch
      parameter Real p = 2; Real x; Boolean b;
    initial equation x = p;
    equation b = x > 3; der(x) = if b then 1 else -1;
    end Switch;";
    let session = exported(switch, &[]);
    let study = "[model]\nfile = \"unit.fmu\"\n[initial]\nx = 5\n[simulate]\nstop = 1\nstep = 0.5\n";
    std::fs::write(session.path("unit.toml"), study).unwrap();
    let table = simulated(&session, "unit.toml", &[]);
    assert_eq!((table.column("b")[0], table.column("x")[0]), (1.0, 5.0));
    assert!((table.column("x").last().unwrap() - 6.0).abs() < 1e-9);
}

const COUNTER: &str = "model Counter
  parameter Integer n = 3; parameter Boolean b = true;
  Integer k(start=2, fixed=true); Boolean f(start=false, fixed=true); discrete Real d(start=0.5, fixed=true);
  Real x(start=1, fixed=true);
equation
  der(x) = -n*x + k + d + (if f then 1 else 0) + (if b then 0 else 1);
  when x < 0.9 then k = pre(k) + 1; f = not pre(f); d = pre(d) + 0.25; end when;
  annotation(experiment(StopTime=1, Interval=0.25));
end Counter;";

#[test]
fn discrete_variables_of_a_unit_start_where_a_study_says() {
    for version in ["2", "3"] {
        let session = exported(COUNTER, &["--fmi", version]);
        let study = |file: &str| {
            format!(
                "[model]\nfile = \"{file}\"\n[initial]\nk = -1\nd = 0.25\nf = 1\n[simulate]\nstop = 1\nstep = 0.1\n"
            )
        };
        std::fs::write(session.path("model.toml"), study("model.mo")).unwrap();
        std::fs::write(session.path("unit.toml"), study("unit.fmu")).unwrap();
        let (model, unit) = (simulated(&session, "model.toml", &[]), simulated(&session, "unit.toml", &[]));
        assert_eq!((unit.column("k")[0], unit.column("f")[0], unit.column("d")[0]), (-1.0, 1.0, 0.25));
        assert!(difference(&model, &unit, &["x", "k", "f", "d"]) < 1e-6);
        assert_eq!(unit.column("k").last(), Some(&0.0));
    }
}

#[test]
fn values_that_a_type_of_a_unit_does_not_have_are_refused() {
    let session = exported(COUNTER, &["--fmi", "2"]);
    for value in ["n=3000000000", "n=-2147483649", "n=1.5", "b=2"] {
        let (status, told) = findings(&session, &["simulate", "unit.fmu", "--set", value]);
        assert!(status == 2 && told[0].0 == "set", "{value}: {status} {told:?}");
    }
    assert_eq!(findings(&session, &["simulate", "unit.fmu", "--set", "n=2147483647", "-o", "t.csv"]).0, 0);
    let study = "[model]\nfile = \"unit.fmu\"\n[initial]\nk = 7.5\n[parameters]\nn = 4000000000\n";
    std::fs::write(session.path("unit.toml"), study).unwrap();
    let (status, told) = findings(&session, &["simulate", "unit.toml"]);
    let codes: Vec<&str> = told.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!((status, codes.as_slice()), (1, ["wrong-type"; 2].as_slice()), "{told:?}");
    let wide = COUNTER.replace("n = 3", "n = 3000000000").replace("start=2", "start=5000000000");
    std::fs::write(session.path("wide.mo"), wide).unwrap();
    let (status, told) = findings(&session, &["export", "wide.mo", "-o", "wide.fmu", "--fmi", "2"]);
    let codes: Vec<&str> = told.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!((status, codes.as_slice()), (1, ["integer-range"; 2].as_slice()), "{told:?}");
    assert!(!session.path("wide.fmu").exists());
    assert_eq!(findings(&session, &["export", "wide.mo", "-o", "wide.fmu", "--fmi", "3"]).0, 0);
}

/// Other values would be tried one by one, each with an instance of its own, to find out which is at fault.
#[test]
fn a_start_value_that_a_unit_refuses_is_named_at_once() {
    let session = Session::new();
    let source = CRASHING.replace(
        "if (refs[i] == 0) of->x",
        "if (refs[i] == 0 && values[i] < 0) return 3;\n        if (refs[i] == 0) of->x",
    );
    let Some(()) = crashing(&session, &source) else { return };
    let study = "[model]\nfile = \"unit.fmu\"\n[initial]\nx = -1\n[simulate]\nstop = 1\n";
    std::fs::write(session.path("study.toml"), study).unwrap();
    let (status, told) = findings(&session, &["simulate", "study.toml"]);
    assert_eq!((status, told.len()), (1, 1), "{told:?}");
    assert!(told[0].0 == "fmu-status" && told[0].1.ends_with("with x = -1"), "{told:?}");
}

/// Noise of 1e-6 as of a solver inside: differences over 6e-6 would be wrong by a tenth.
#[test]
fn a_noisy_unit_is_identified_over_distances_that_its_noise_allows() {
    let session = Session::new();
    let noise = "double e = 1e11 * of->x * of->k; e -= (long long)e; d[0] = -of->k * of->x * (1 + 1e-6 * (e - 0.5));";
    let source =
        CRASHING.replace("d[0] = -of->k * of->x;", noise).replace("of->k == 2", "0").replace("of->k == 3", "0");
    let Some(()) = crashing(&session, &source) else { return };
    let (mut rows, mut squares, mut slopes) = (Vec::new(), 0.0, 0.0);
    for at in 0..=10 {
        let (time, error) = (0.1 * f64::from(at), 1e-3 * (7.0 * f64::from(at)).sin());
        let slope = -time * (-1.5 * time).exp();
        rows.push(format!("{time},{}", (-1.5 * time).exp() + error));
        (squares, slopes) = (squares + slope * slope, slopes + slope * error);
    }
    std::fs::write(session.path("data.csv"), format!("t,x\n{}\n", rows.join("\n"))).unwrap();
    let study = "[model]\nfile = \"unit.fmu\"\n[unknown]\nk = { start = 1, min = 0.5, max = 5 }\n\
                 [measurements]\nx = { column = \"x\", std = 0.001 }\n[data]\nfile = \"data.csv\"\n\
                 [identify]\nmethod = \"output-error\"\n";
    std::fs::write(session.path("study.toml"), study).unwrap();
    let run = session.run(&["identify", "study.toml", "--json", "--quiet"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    // The linear estimate about the truth.
    let wanted = 1.5 + slopes / squares;
    let found = document["parameters"][0]["estimate"].as_f64().unwrap();
    assert!((found - wanted).abs() < 2e-5, "{found} {wanted}");
    let is_told = |finding: &serde_json::Value| finding["code"] == "fmu-noise";
    assert!(document["findings"].as_array().unwrap().iter().any(is_told), "{document}");
}

/// A unit that leaves out that der(x) and z depend on y.
#[test]
fn dependencies_that_a_unit_leaves_out_are_found_and_not_believed() {
    let model = "model Pair
      parameter Real k = 0.5; Real x(start=1, fixed=true); Real y(start=0.3, fixed=true); output Real z;
    equation
      der(x) = -k*x + y; der(y) = -0.4*y + 0.1*x; z = x + 2*y;
      annotation(experiment(StopTime=5, Interval=0.1));
    end Pair;";
    let session = exported(model, &["--fmi", "2", "--kind", "me"]);
    let mut changed = entries(&session.path("unit.fmu"));
    let text = String::from_utf8(changed[0].bytes.clone()).unwrap();
    assert!(text.matches("dependencies=\"3 4\"").count() == 3, "{text}");
    let text = text.replace("dependencies=\"3 4\"", "dependencies=\"3\"");
    changed[0].bytes = text.replace("providesDirectionalDerivative=\"true\"", "").into_bytes();
    write(&session, "lie.fmu", &changed);
    assert_eq!(session.run(&["simulate", "model.mo", "--set", "k=0.6", "-o", "data.csv", "--quiet"]).status, 0);
    let found = |file: &str| {
        let study = format!(
            "[model]\nfile = \"{file}\"\n[unknown]\nk = {{ start = 0.4, min = 0.05, max = 5 }}\n[measurements]\n\
             z = {{ column = \"z\", std = 0.01 }}\n[data]\nfile = \"data.csv\"\n[identify]\nmethod = \"output-error\"\n"
        );
        std::fs::write(session.path("study.toml"), study).unwrap();
        session.run(&["identify", "study.toml", "--json", "--quiet"]).json()
    };
    let (model, unit, lie) = (found("model.mo"), found("unit.fmu"), found("lie.fmu"));
    let has = |document: &serde_json::Value| {
        document["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "fmu-dependencies")
    };
    assert!(has(&lie) && !has(&unit), "{lie}");
    let error = |document: &serde_json::Value| document["parameters"][0]["std_error"].as_f64().unwrap();
    for other in [&unit, &lie] {
        assert!((error(other) / error(&model) - 1.0).abs() < 1e-3, "{} {}", error(other), error(&model));
    }
}

/// Samples of a Boolean or an Integer input that are none: a unit rounded them, a model took them as they are.
#[test]
fn samples_that_the_type_of_an_input_does_not_have_are_refused() {
    let model = "model Gate
      input Boolean open; input Integer n; Real x(start=1, fixed=true);
    equation der(x) = if open then n else -x;
    end Gate;";
    let session = exported(model, &[]);
    let run = |rows: &str, file: &str, hold: &str| {
        std::fs::write(session.path("data.csv"), format!("t,open,n\n{rows}")).unwrap();
        let study = format!(
            "[model]\nfile = \"{file}\"\n[inputs]\nopen = {{ column = \"open\", hold = \"{hold}\" }}\n\
             n = {{ column = \"n\", hold = \"zoh\" }}\n[data]\nfile = \"data.csv\"\n[simulate]\nstop = 2\nstep = 1\n"
        );
        std::fs::write(session.path("study.toml"), study).unwrap();
        findings(&session, &["simulate", "study.toml", "-o", "table.csv"])
    };
    for file in ["model.mo", "unit.fmu"] {
        assert_eq!(run("0,0,2\n1,1,3\n2,1,3\n", file, "zoh").0, 0);
        for (rows, hold, words) in [
            ("0,0,2\n1,0.4,3\n2,1,3\n", "zoh", "cannot be 0.4"),
            ("0,0,2\n1,1,2.6\n2,1,3\n", "zoh", "cannot be 2.6"),
            ("0,0,2\n1,1,3\n2,1,3\n", "foh", "must be held"),
        ] {
            let (status, told) = run(rows, file, hold);
            let is_told = told.iter().any(|(code, message)| code == "wrong-type" && message.contains(words));
            assert!(status == 1 && is_told, "{file} {words}: {status} {told:?}");
        }
    }
}

/// Coulomb friction: the disk sticks, breaks loose and sticks again. A unit slides along the border as its model does,
/// also where something else happens meanwhile, and not where it counts the crossings.
#[test]
fn a_unit_slides_along_its_relations_as_its_model_does() {
    let disk = "model Disk
      parameter Real F = 1.5; Real x(start=0, fixed=true); Real v(start=1, fixed=true); output Real f; Boolean forward;
      Integer late(start=0, fixed=true);
    equation
      forward = v > 0; f = if v > 0 then 1 else -1;
      der(x) = v; der(v) = F*sin(0.3*time) - f + (if late > 0 then 0.05 else 0);
      when time > 1.8 then late = pre(late) + 1; end when;
      annotation(experiment(StopTime=20, Interval=0.5, Tolerance=1e-8));
    end Disk;";
    for version in ["2", "3"] {
        let session = exported(disk, &["--fmi", version]);
        let (model, unit) = (simulated(&session, "model.mo", &[]), simulated(&session, "unit.fmu", &[]));
        let worst = difference(&model, &unit, &["x", "v", "f", "late"]);
        assert!(worst < 1e-6, "FMI {version}: {worst}");
        assert!(unit.column("forward").iter().all(|value| *value == 0.0 || *value == 1.0));
        let (status, told) = findings(&session, &["simulate", "unit.fmu", "-o", "table.csv"]);
        assert!(status == 0 && told.iter().any(|(code, _)| code == "sliding"), "{told:?}");
    }
    let counting = disk.replace("when time > 1.8", "when forward");
    // At two borders at once, one event may turn both relations.
    let two = "model Two
      Real x(start=1, fixed=true); Real y(start=2, fixed=true); Real z(start=0, fixed=true);
    equation
      der(x) = if x > 0 then -1 else 2; der(y) = if y > 0.5 then -1 + 0.1*x else 1;
      der(z) = (if x > 0 then 1 else 0) + (if y > 0.5 then 10 else 0);
      annotation(experiment(StopTime=5, Interval=0.5));
    end Two;";
    for model in [&counting, two] {
        let session = exported(model, &[]);
        let (status, told) = findings(&session, &["simulate", "unit.fmu", "-o", "table.csv"]);
        assert!(status == 3 && told.iter().any(|(code, _)| code == "chattering"), "{status} {told:?}");
    }
}

/// A unit without states: nothing but its mode shows that an event failed. So it is of a when-clause of a model.
#[test]
fn an_event_that_fails_ends_the_run_of_a_unit_without_states() {
    let model = "model Gain
      input Integer n(start=1); output Real y;
    equation y = 2*n;
    end Gain;";
    let session = exported(model, &["--fmi", "2", "--kind", "me"]);
    let run = |input: &str| {
        let study = format!(
            "[model]\nfile = \"unit.fmu\"\n[inputs]\nn = {{ {input} }}\n[data]\nfile = \"data.csv\"\n\
             [simulate]\nstop = 2\nstep = 0.5\n"
        );
        std::fs::write(session.path("study.toml"), study).unwrap();
        findings(&session, &["simulate", "study.toml", "-o", "table.csv"])
    };
    std::fs::write(session.path("data.csv"), "t,n\n0,1\n1,3000000000\n2,3\n").unwrap();
    let (status, told) = run("expression = \"if time < 1 then 2 else 7\"");
    assert_eq!(status, 0, "{told:?}");
    let table = Table::parse(&std::fs::read_to_string(session.path("table.csv")).unwrap());
    assert_eq!(table.column("y").last(), Some(&14.0));
    let (status, told) = run("expression = \"if time < 1 then 2 else 3000000000\"");
    let is_told = told.iter().any(|(code, message)| code == "fmu-status" && message.contains("cannot be 3000000000"));
    assert!(status == 3 && is_told, "{status} {told:?}");
    let (status, told) = run("column = \"n\", hold = \"zoh\"");
    let is_told = told.iter().any(|(code, message)| code == "wrong-type" && message.contains("cannot be 3000000000"));
    assert!(status == 1 && is_told, "{status} {told:?}");
    let root = "model Root
      input Integer n(start=1); discrete Real d(start=0, fixed=true); Real x(start=1, fixed=true);
    equation der(x) = 0;
      when n <> pre(n) then d = sqrt(x - 2); end when;
    end Root;";
    std::fs::write(session.path("root.mo"), root).unwrap();
    let study = "[model]\nfile = \"root.mo\"\n[inputs]\nn = { expression = \"if time < 1 then 2 else 7\" }\n\
                 [simulate]\nstop = 2\nstep = 0.5\n";
    std::fs::write(session.path("root.toml"), study).unwrap();
    let (status, told) = findings(&session, &["simulate", "root.toml", "-o", "table.csv"]);
    assert!(status == 3 && told.iter().any(|(_, message)| message.contains("`d` has no finite value")), "{told:?}");
}
