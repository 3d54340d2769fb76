//! What goes to terminals and files: failed writes, devices and links, control characters, and names of columns.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::session::Session;

const DECAY: &str = "model A\n  Real x(start = 1, fixed = true);\nequation\n  der(x) = -x;\nend A;\n";

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_told_by_every_verb() {
    let study = "[model]\nfile = \"model.mo\"\n";
    let session = Session::with_model(DECAY).with("study.toml", study);
    for arguments in [
        &["check", "model.mo"][..],
        &["check", "model.mo", "--json"],
        &["simulate", "model.mo"],
        &["simulate", "model.mo", "--json"],
        &["flatten", "model.mo"],
        &["regularize", "model.mo"],
        &["identify", "study.toml", "--json"],
        &["check", "--json", "--no-such-option"],
        &["--help"],
        &["--version"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_daesy"))
            .args(arguments)
            .current_dir(session.path("."))
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
        assert!(told.contains("error[standard-output]"), "{arguments:?}: {told}");
    }
}

#[cfg(unix)]
#[test]
fn outputs_keep_what_they_are() {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
    let session = Session::with_model(DECAY).with("real.html", "old");
    assert_eq!(session.run(&["check", "model.mo", "--report", "/dev/null"]).status, 0);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    fs::set_permissions(session.path("real.html"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.html", session.path("link.html")).unwrap();
    assert_eq!(session.run(&["check", "model.mo", "--report", "link.html"]).status, 0);
    assert!(fs::symlink_metadata(session.path("link.html")).unwrap().is_symlink());
    let metadata = fs::metadata(session.path("real.html")).unwrap();
    assert!(metadata.len() > 100 && metadata.mode() & 0o777 == 0o640);
    assert!(Command::new("mkfifo").arg(session.path("pipe.html")).status().unwrap().success());
    let run = session.run(&["check", "model.mo", "--report", "pipe.html"]);
    assert!(run.status == 1 && run.stderr.contains("error[output-file]"), "{}", run.stderr);
    assert!(fs::metadata(session.path("pipe.html")).unwrap().file_type().is_fifo());
    assert_eq!(session.files(), ["link.html", "model.mo", "pipe.html", "real.html"]);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let escape = "\u{1b}]0;title\u{7}\u{9b}31m";
    let has_control = |text: &str| text.contains(|c: char| c.is_control() && c != '\n' && c != '\t');
    let model = format!("model A Real x = y; // {escape}\nend A;\n");
    let quoted = format!("model A Real '{escape}' = 1; equation assert(time < -1, \"{escape}\"); end A;\n");
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[inputs]\n\"{}\" = 1\n",
        escape.replace('\u{1b}', "\\u001b").replace('\u{7}', "\\u0007")
    );
    let session = Session::with_model(&model)
        .with("quoted.mo", &quoted)
        .with("study.toml", &study)
        .with("data.toml", "[model]\nfile = \"quoted.mo\"\n[data]\nfile = \"d.csv\"\n[measurements]\nx = {}\n")
        .with("d.csv", &format!("t,x\n0,{escape}\n"));
    for arguments in [
        &["check", "model.mo"][..],
        &["check", "quoted.mo"],
        &["simulate", "quoted.mo"],
        &["flatten", "quoted.mo"],
        &["check", "study.toml"],
        &["identify", "data.toml"],
        &["check", "no\u{1b}[31m.mo"],
        &["check", "model.mo", "--\u{1b}[31m"],
        &["simulate", "model.mo", "-o", "\u{1b}.txt"],
    ] {
        for more in [&[][..], &["--json"]] {
            let run = session.run(&[arguments, more].concat());
            assert!(!has_control(&run.stderr), "{arguments:?}: {:?}", run.stderr);
            assert!(!has_control(&run.stdout), "{arguments:?}: {:?}", run.stdout);
        }
    }
}

#[test]
fn a_variable_called_t_gets_a_column_of_its_own() {
    let session = Session::with_model("model A\n  Real t = 5*time;\nend A;\n");
    let run = session.run(&["simulate", "model.mo"]);
    assert!(run.stderr.contains("warning[column-renamed]"), "{}", run.stderr);
    let table = run.table();
    assert_eq!(table.names, ["t", "variable.t"]);
    let last = table.rows.last().unwrap();
    assert_eq!((last[0], last[1]), (1.0, 5.0));
    for file in ["o.mat", "o.parquet", "o.csv"] {
        let run = session.run(&["simulate", "model.mo", "-o", file]);
        assert!(run.status == 0 && run.stderr.contains("column-renamed"), "{}", run.stderr);
        let bytes = fs::read(session.path(file)).unwrap();
        assert!(bytes.windows(10).any(|part| part == b"variable.t"), "{file}");
    }
}

#[test]
fn a_value_that_a_type_does_not_have_is_wrong_usage() {
    let model = "model A\n  type E = enumeration(one, two);\n  parameter Integer n = 2;\n  parameter E e = E.one;\n  \
                 parameter Boolean b = false;\n  Real x = n;\n  Real z = if e == E.two or b then 2 else 1;\nend A;\n";
    let session =
        Session::with_model(model).with("study.toml", "[model]\nfile = \"model.mo\"\n[parameters]\nn = 2.5\n");
    for (set, words) in [("n=2.5", "Integer"), ("e=7", "2 is two"), ("e=0", "1 is one"), ("b=2", "Boolean")] {
        let run = session.run(&["simulate", "model.mo", "--set", set, "--json"]);
        assert_eq!(run.status, 2, "{set}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{set}: {}", run.stderr);
        assert_eq!(run.json()["findings"][0]["code"], "set");
    }
    let run = session.run(&["simulate", "model.mo", "--set", "n=3", "--set", "e=2", "--set", "b=1"]);
    assert_eq!(run.table().rows[0][1..], [3.0, 2.0]);
    let run = session.run(&["simulate", "study.toml"]);
    assert!(run.status == 1 && run.stderr.starts_with("study.toml:4:1: error[wrong-value]"), "{}", run.stderr);
}

#[test]
fn a_search_that_gives_up_says_so_in_a_finding() {
    let model = "\
model M
  input Real w;
  parameter Real k = 1;
  Real x(start = 9223372036854775807, fixed = true);
equation
  der(x) = -k*x + w;
end M;
";
    let study = r#"
[model]
file = "model.mo"
[unknown]
k = { start = 1.0, min = 0.1, max = 10.0 }
[disturbances]
w = { std = 0.01, time_constant = 1.0 }
[measurements]
x = { column = "y", std = 0.01 }
[data]
file = "d.csv"
"#;
    let rows: String =
        (0..40).map(|row| format!("{},{}\n", 0.1 * f64::from(row), (0.3 * f64::from(row)).sin())).collect();
    let session = Session::with_model(model).with("study.toml", study).with("d.csv", &format!("t,y\n{rows}"));
    let run = session.run(&["identify", "study.toml", "--json"]);
    let document = run.json();
    if run.status != 0 {
        assert!(!document["findings"].as_array().unwrap().is_empty(), "status {} without a finding", run.status);
        assert!(!run.stderr.is_empty());
    }
}
