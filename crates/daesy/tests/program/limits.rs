//! Sizes that no machine has are refused before memory is taken, by a finding that names the limit.

use crate::session::{Session, finding};

const MODEL: &str = "\
model M
  input Real w;
  parameter Real k = 1;
  Real x(start = 1, fixed = true);
equation
  der(x) = -k*x + w;
end M;
";
const FIT: &str = r#"
[model]
file = "model.mo"
[unknown]
k = { start = 1.0, min = 0.1, max = 10.0 }
[disturbances]
w = { std = 0.1, time_constant = 1.0 }
[measurements]
x = { column = "x", std = 0.1 }
[data]
file = "d.csv"
[identify]
method = "pem"
realizations = 10
"#;
const SPREAD: &str = r#"
[model]
file = "model.mo"
[random]
k = { uniform = { min = 1.0, max = 2.0 } }
[inputs]
w = { expression = "0" }
[simulate]
stop = 1
step = 0.1
[uq]
"#;

fn session(study: &str) -> Session {
    Session::with_model(MODEL).with("study.toml", study).with("d.csv", "t,x\n0,1\n1,0.4\n2,0.1\n")
}

/// The message of the finding with this code that a run ends with.
fn refused(session: &Session, arguments: &[&str], status: i32, code: &str) -> String {
    let run = session.run(&[arguments, &["--json"]].concat());
    assert_eq!(run.status, status, "{arguments:?}: {}", run.stderr);
    let document = run.json();
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["code"] == code);
    let finding = found.unwrap_or_else(|| panic!("no `{code}` in {findings:#?}"));
    finding["message"].as_str().unwrap().to_owned()
}

#[test]
fn sizes_of_a_study_are_bounded() {
    let cases = [
        (FIT.to_owned() + "noise_step = 1e-300\n", "identify", "too-large", "limit is 1e9"),
        (FIT.to_owned() + "noise_step = 1e-10\n", "identify", "too-large", "limit is 1e9"),
        (FIT.replace("= 10\n", "= 1000000000000\n"), "cost", "too-large", "limit is 10000000"),
        (FIT.to_owned() + "starts = 9223372036854775807\n", "identify", "too-large", "limit is 10000"),
        (FIT.to_owned() + "bootstrap = 99999999999\n", "identify", "too-large", "limit is 100000"),
        (FIT.to_owned() + "[simulate]\nrtol = 1e-30\n", "identify", "too-small", "limit is 1e-14"),
        (FIT.replace("min = 0.1", "min = 20"), "cost", "bounds", "contradict each other"),
        (FIT.replace("max = 10.0", "max = \"0.01/2\""), "cost", "bounds", "contradict each other"),
        (SPREAD.to_owned() + "degree = 1000000000\n", "uq", "too-large", "limit is 200"),
        (SPREAD.to_owned() + "degree = 9223372036854775807\n", "uq", "too-large", "limit is 200"),
        (SPREAD.to_owned() + "samples = 1000000000000\n", "uq", "too-large", "limit is 100000000"),
        (SPREAD.to_owned() + "samples = 0\n", "uq", "out-of-range", "1 or more"),
    ];
    for (study, verb, code, words) in cases {
        let grid: &[&str] = if verb == "cost" { &["--grid", "k=1:2:2"] } else { &[] };
        let message = refused(&session(&study), &[&[verb, "study.toml"], grid].concat(), 1, code);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn sizes_of_options_are_wrong_usage() {
    let session = session(FIT);
    let huge = "1000000000000000000";
    for (arguments, words) in [
        (&["identify", "study.toml", "--starts", huge][..], "limit is 10000"),
        (&["check", "study.toml", "--threads", huge], "limit is 1024"),
        (&["cost", "study.toml", "--grid", "k=1:2:1000000000000000000"], "limit is 1000000"),
        (&["cost", "study.toml", "--grid", "k=1:2:2000", "--grid", "k=1:2:2000"], "limit is 1000000"),
    ] {
        let message = refused(&session, arguments, 2, "usage");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_large_matrix_is_refused_by_what_needs_it_in_full() {
    let matrix = "{ size = [50000, 50000], rows = [1], columns = [1], values = [1] }";
    let study = format!("[linear]\nE = {matrix}\nF = {matrix}\n");
    let message = refused(&session(&study), &["regularize", "study.toml"], 1, "too-large");
    assert!(message.contains("50000"), "{message}");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_waited_for() {
    let session = session(FIT);
    assert!(std::process::Command::new("mkfifo").arg(session.path("pipe.mo")).status().unwrap().success());
    std::fs::rename(session.path("pipe.mo"), session.path("p.mo")).unwrap();
    assert!(refused(&session, &["check", "p.mo"], 1, "file").contains("not a file"));
    std::os::unix::fs::symlink("/dev/zero", session.path("zero.mo")).unwrap();
    assert!(refused(&session, &["check", "zero.mo"], 1, "file").contains("not a file"));
    std::os::unix::fs::symlink("/dev/zero", session.path("zero.toml")).unwrap();
    assert!(refused(&session, &["identify", "zero.toml"], 1, "file").contains("not a file"));
    let data = ["identify", "study.toml", "--data", "/dev/zero"];
    assert!(refused(&session, &data, 1, "data-file").contains("not a file"));
    let kept = ["cost", "study.toml", "--grid", "k=1:2:2", "--checkpoint", "/dev/zero"];
    assert!(refused(&session, &kept, 1, "checkpoint").contains("not a file"));
}

#[test]
fn rows_that_do_not_fit_are_refused_before_they_are_made() {
    let model = |stop: &str| {
        format!(
            "model M Real x[400](each start = 1, each fixed = true); equation der(x) = -x; \
             annotation (experiment(StopTime = {stop}, Interval = 0.01)); end M;"
        )
    };
    // Rows that the terminal or a page shows, or a file that needs them all, must fit; others are written as they come.
    for stop in ["1e6", "9.9e5"] {
        let session = Session::with_model(&model(stop));
        for kept in [&["simulate", "model.mo"][..], &["simulate", "model.mo", "-o", "table.mat", "--json"]] {
            let run = session.run(kept);
            assert_eq!(run.status, 1, "{}", run.stderr);
            assert!(run.stderr.contains("output rows") && run.stderr.contains("Interval"), "{}", run.stderr);
        }
    }
}

/// A swing of 1e12 periods never ends by itself; searches, filters and propagations do not even begin.
#[test]
fn a_time_limit_ends_every_long_verb_in_good_order() {
    let swing = "model Swing Real x(start = 1, fixed = true); Real v(start = 0, fixed = true); \
                 equation der(x) = v; der(v) = -sin(x); annotation (experiment(StopTime = 1e13)); end Swing;";
    let curved = MODEL.replace("-k*x + w", "-k*x^3 + w");
    let filtered = format!("{FIT}[estimate]\nsignals = [\"x\"]\n");
    let session = Session::with_model(&curved)
        .with("swing.mo", swing)
        .with("fit.toml", &filtered)
        .with("spread.toml", SPREAD)
        .with("d.csv", "t,x\n0.0,1.0\n0.5,0.8\n1.0,0.7\n1.5,0.6\n");
    for arguments in [
        &["simulate", "swing.mo", "--time-limit", "0.2"][..],
        &["identify", "fit.toml", "--time-limit", "1e-9"],
        &["identify", "fit.toml", "--method", "ml", "--time-limit", "1e-9"],
        &["identify", "fit.toml", "--method", "output-error", "--time-limit", "1e-9"],
        &["estimate", "fit.toml", "--time-limit", "1e-9"],
        &["cost", "fit.toml", "--grid", "k=1:2:3", "--time-limit", "1e-9"],
        &["uq", "spread.toml", "--time-limit", "1e-9"],
    ] {
        let told = session.run(arguments);
        assert_eq!(told.status, 3, "{arguments:?}: {}", told.stderr);
        assert!(told.stderr.contains("error[stopped]"), "{arguments:?}: {}", told.stderr);
        assert!(told.stderr.contains("note[time-limit]"), "{arguments:?}: {}", told.stderr);
    }
    assert_eq!(session.run(&["simulate", "swing.mo", "--time-limit", "0"]).status, 2);
}

/// What a model with a derivative array of a thousand columns is analyzed for does not ask whether it may go on; the
/// clock ends the program, with a document and without half a page.
#[test]
fn a_time_limit_ends_what_cannot_be_interrupted() {
    let model =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../problems/fekete/model.mo")).unwrap();
    let session = Session::with_model(&model);
    let run = session.run(&["regularize", "model.mo", "--json", "--report", "page.html", "--time-limit", "0.1"]);
    assert_eq!(run.status, 3, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["command"], "regularize");
    let told = finding(&document, "time-limit");
    assert_eq!((told["level"].as_str(), told["line"].as_u64()), (Some("error"), Some(1)), "{told}");
    assert_eq!(session.files(), ["model.mo"]);
}
