//! Study files: what is wrong is told with line, column and the nearest right word.

use serde_json::Value;

use crate::session::{Session, codes};

const MODEL: &str = "model Servo
  input Real voltage;
  input Real torque;
  input Real kick;
  input Real wind;
  parameter Real R = 1;
  parameter Real c = 20;
  final parameter Real twice = 2*R;
  Real phi(start=0, fixed=true), w(start=0, fixed=true), tau;
equation
  der(phi) = w;
  der(w) = voltage/R - tau + torque + kick + wind;
  tau = c*phi + w;
end Servo;
";

/// The example of the outer contract, adapted to the model: every section and every form.
const WHOLE: &str = r#"
[model]
file = "model.mo"
class = "Servo"
[parameters]
"R" = 2.0
[unknown]
"c" = { start = 20.0, min = 1.0, max = 500.0 }
sigma = { start = 0.1, min = 0.0 }
[inputs]
voltage = { column = "u", hold = "zoh" }
torque = { expression = "if time < 1 then 0 else 2*R", breaks = [1.0] }
kick = { impulses = [{ time = 2.0, area = 0.5 }] }
[disturbances]
"wind" = { num = ["sigma"], den = [1, 0.8, 16], initial = "zero" }
[measurements]
"phi" = { column = "phi", std = 0.01 }
"w" = { variance = "sigma^2" }
[estimate]
signals = ["tau"]
[data]
files = ["a.csv", "b.csv"]
time = "t"
[initial]
mode = "model"
"phi" = 0.0
[random]
R = { uniform = { mean = 2, relative = 0.2 } }
c = { normal = { mean = 20, std = 2, min = 0, max = 100 } }
[simulate]
start = 0.0
stop = 10.0
step = "0.1*R"
rtol = 1e-6
atol = 1e-9
[identify]
method = "auto"
realizations = 500
noise_step = 0.01
transient = 50.0
weighting = "std"
interpolation = "exact"
[uq]
method = "galerkin"
degree = 2
samples = 1000
"#;

fn session(study: &str) -> Session {
    Session::with_model(MODEL).with("study.toml", study)
}

#[test]
fn every_section_of_the_contract_is_read() {
    let run = session(WHOLE).run(&["check", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let shaping = "{ A = [[0, 1], [-16, -0.8]], B = [[0], [1]], C = [[\"sigma\", 0]] }";
    for disturbance in [shaping, "{ white = 0.1 }", "{ white = \"sigma\", initial = \"stationary\" }"] {
        let text = WHOLE.replace("{ num = [\"sigma\"], den = [1, 0.8, 16], initial = \"zero\" }", disturbance);
        assert_ne!(text, WHOLE);
        let run = session(&text).run(&["check", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{disturbance}: {}", run.stderr);
    }
    for distribution in [
        "lognormal = { mean = 2, std = 0.1 }",
        "beta = { alpha = 2, beta = 3, min = 1, max = 4 }",
        "gamma = { shape = 2, scale = 0.5 }",
        "triangular = { min = 1, mode = 2, max = 3 }",
        "uniform = { min = 1, max = 3 }",
        "samples = { file = \"r.csv\", column = \"R\" }",
    ] {
        let text = WHOLE.replace("uniform = { mean = 2, relative = 0.2 }", distribution);
        assert_ne!(text, WHOLE);
        let run = session(&text).run(&["check", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{distribution}: {}", run.stderr);
    }
}

#[test]
fn matrices_make_a_model() {
    let study = r#"
[linear]
E = [[1, 0], [0, 0]]
F = [["-a", 1], [1, "b*time"]]
G = [[1], [0]]
J = [[0], [1]]
H = [[1, 0]]
names = { z = ["x", "lambda"], u = ["force"] }
[parameters]
a = 2.0
[unknown]
b = { start = 3.0 }
[inputs]
force = { expression = "sin(time)" }
[disturbances]
w1 = { white = 0.1 }
[measurements]
y1 = { column = "y", std = 0.1 }
[simulate]
start = 1.0
"#;
    let run = Session::new().with("study.toml", study).run(&["check", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["size"]["unknowns"], 3);
    assert_eq!(document["structure"]["degrees_of_freedom"], 1);
}

struct Case {
    /// What is replaced in the whole study, and by what.
    from: &'static str,
    to: &'static str,
    code: &'static str,
    line: u64,
    column: u64,
    /// Part of the message or the help.
    words: &'static str,
}

#[test]
fn what_is_wrong_has_its_place_and_the_nearest_word() {
    let cases = [
        Case { from: "rtol = 1e-6", to: "rtoll = 1e-6", code: "unknown-key", line: 34, column: 1, words: "`rtol`" },
        Case { from: "[simulate]", to: "[simulat]", code: "unknown-key", line: 30, column: 2, words: "`simulate`" },
        Case { from: "min = 1.0,", to: "mim = 1.0,", code: "unknown-key", line: 8, column: 23, words: "`min`" },
        Case {
            from: "hold = \"zoh\"",
            to: "hold = \"zho\"",
            code: "unknown-value",
            line: 11,
            column: 34,
            words: "\"zoh\"",
        },
        Case {
            from: "stop = 10.0",
            to: "stop = true",
            code: "wrong-type",
            line: 32,
            column: 8,
            words: "true or false",
        },
        Case {
            from: "rtol = 1e-6",
            to: "rtol = \"small\"",
            code: "wrong-type",
            line: 34,
            column: 8,
            words: "a number",
        },
        Case {
            from: "rtol = 1e-6",
            to: "rtol = -1.0",
            code: "out-of-range",
            line: 34,
            column: 8,
            words: "greater than zero",
        },
        Case { from: "atol = 1e-9", to: "atol = nan", code: "not-finite", line: 35, column: 8, words: "finite" },
        Case {
            from: "degree = 2",
            to: "degree = 2.5",
            code: "wrong-type",
            line: 45,
            column: 10,
            words: "whole number",
        },
        Case { from: "\"R\" = 2.0", to: "\"Rr\" = 2.0", code: "unknown-parameter", line: 6, column: 1, words: "`R`" },
        Case {
            from: "\"R\" = 2.0",
            to: "\"twice\" = 2.0",
            code: "unknown-parameter",
            line: 6,
            column: 1,
            words: "final",
        },
        Case {
            from: "\"R\" = 2.0",
            to: "\"phi\" = 2.0",
            code: "unknown-parameter",
            line: 6,
            column: 1,
            words: "parameter",
        },
        Case { from: "voltage = {", to: "voltag = {", code: "unknown-name", line: 11, column: 1, words: "`voltage`" },
        Case { from: "\"wind\" = {", to: "\"wimd\" = {", code: "unknown-name", line: 15, column: 1, words: "`wind`" },
        Case {
            from: "\"phi\" = { column",
            to: "\"phy\" = { column",
            code: "unknown-name",
            line: 17,
            column: 1,
            words: "`phi`",
        },
        Case {
            from: "signals = [\"tau\"]",
            to: "signals = [\"tua\"]",
            code: "unknown-name",
            line: 20,
            column: 12,
            words: "`tau`",
        },
        Case { from: "\"phi\" = 0.0", to: "\"phj\" = 0.0", code: "unknown-name", line: 26, column: 1, words: "`phi`" },
        Case {
            from: "R = { uniform",
            to: "Q = { uniform",
            code: "unknown-name",
            line: 28,
            column: 1,
            words: "parameter `Q`",
        },
        Case { from: "else 2*R\"", to: "else 2*RR\"", code: "unknown-name", line: 12, column: 52, words: "`R`" },
        Case { from: "else 2*R\"", to: "else 2*\"", code: "expected-expression", line: 12, column: 52, words: "" },
        Case { from: "area = 0.5", to: "aria = 0.5", code: "unknown-key", line: 13, column: 36, words: "`area`" },
        Case {
            from: "file = \"model.mo\"",
            to: "file = \"modell.mo\"",
            code: "model-file",
            line: 3,
            column: 8,
            words: "does not exist",
        },
        Case {
            from: "\"c\" = { start",
            to: "\"R\" = { start",
            code: "given-twice",
            line: 8,
            column: 1,
            words: "both fixed and unknown",
        },
        Case {
            from: "mode = \"model\"",
            to: "mode = \"modell\"",
            code: "unknown-value",
            line: 25,
            column: 8,
            words: "\"model\"",
        },
        Case { from: "[uq]", to: "[uq", code: "toml-syntax", line: 43, column: 4, words: "" },
    ];
    for case in cases {
        let text = WHOLE.replacen(case.from, case.to, 1);
        assert_ne!(text, WHOLE, "{}", case.from);
        let run = session(&text).run(&["check", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{}", case.to);
        let document = run.json();
        let findings = document["findings"].as_array().unwrap();
        let found = findings
            .iter()
            .find(|finding| finding["line"] == case.line && finding["column"] == case.column)
            .unwrap_or_else(|| panic!("{}: expected {}:{} in\n{}", case.to, case.line, case.column, run.stderr));
        if case.code != "expected-expression" {
            assert_eq!(found["code"], case.code, "{}", case.to);
        }
        assert_eq!(found["file"], "study.toml");
        let said = format!("{} {}", found["message"], found["help"]).replace("\\\"", "\"");
        assert!(said.contains(case.words), "`{}` is not in {said}", case.words);
        let place = format!("study.toml:{}:{}: error[", case.line, case.column);
        assert!(run.stderr.contains(&place), "{place} is not in\n{}", run.stderr);
    }
}

#[test]
fn several_mistakes_are_told_at_once() {
    let text = WHOLE.replace("rtol", "rtolx").replace("min = 1.0", "min = \"1 +\"").replace("\"zoh\"", "1");
    let document = session(&text).run(&["check", "study.toml", "--json"]).json();
    assert!(codes(&document).len() >= 2, "{document:#}");
}

#[test]
fn a_study_without_a_model_and_one_with_two_are_refused() {
    let run = Session::new().with("study.toml", "").run(&["check", "study.toml", "--json"]);
    assert_eq!((run.status, codes(&run.json())), (1, vec!["no-model"]));
    let run = session("[model]\nfile = \"model.mo\"\n[linear]\nE = [[1]]\nF = [[1]]\n").run(&[
        "check",
        "study.toml",
        "--json",
    ]);
    assert_eq!((run.status, codes(&run.json())), (1, vec!["two-models"]));
    let run = session("[linear]\nE = [[1, 0], [0]]\nF = [[1]]\n").run(&["check", "study.toml", "--json"]);
    assert_eq!((run.status, codes(&run.json())), (1, vec!["ragged-matrix"]));
    let run = session("[linear]\nE = [[1, 0], [0, 1]]\nF = [[1]]\n").run(&["check", "study.toml", "--json"]);
    assert_eq!((run.status, codes(&run.json())), (1, vec!["matrix-shape"]));
}

fn with_data(data: &str) -> Session {
    session(
        "[model]\nfile = \"model.mo\"\n[inputs]\nvoltage = { column = \"u\" }\n[data]\nfile = \"data.csv\"\n\
         [simulate]\nstop = 1.0\n",
    )
    .with("data.csv", data)
}

#[test]
fn problems_of_data_have_their_line() {
    for (data, code, line) in [
        ("t,u\n0,1\n0.5,abc\n1,2\n", "data-number", 3),
        ("t,u\n0,1\n0.5\n1,2\n", "data-row", 3),
        ("t,u\n0,1\n0.5,2\n0.5,3\n", "data-time", 4),
        ("time,u\n0,1\n1,2\n", "data-column", 1),
        ("", "data-empty", 1),
        ("t,u\n", "data-empty", 2),
        ("t,u\n0,1\nNaN,2\n", "data-time", 3),
    ] {
        let run = with_data(data).run(&["simulate", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{data}");
        let document = run.json();
        assert_eq!(codes(&document)[0], code, "{data}");
        assert_eq!(document["findings"][0]["line"], line, "{data}");
        assert_eq!(document["findings"][0]["file"], "data.csv");
    }
    // A missing sample of an input, a missing column, a missing file: the first is the data's fault, the others the
    // study's.
    let document = with_data("t,u\n0,1\n0.5,\n1,2\n").run(&["simulate", "study.toml", "--json"]).json();
    assert_eq!(codes(&document)[0], "input-missing-sample");
    let document = with_data("t,U\n0,1\n1,2\n").run(&["simulate", "study.toml", "--json"]).json();
    assert_eq!(codes(&document)[0], "data-column");
    assert_eq!(
        (&document["findings"][0]["file"], &document["findings"][0]["line"]),
        (&Value::from("study.toml"), &Value::from(4))
    );
    assert!(document["findings"][0]["help"].as_str().unwrap().contains("`U`"));
    let session = with_data("");
    std::fs::remove_file(session.path("data.csv")).unwrap();
    let run = session.run(&["simulate", "study.toml", "--json"]);
    assert_eq!((run.status, codes(&run.json())[0]), (1, "data-file"));
    assert!(run.stderr.starts_with("study.toml:6:8: error[data-file]"), "{}", run.stderr);
    // Checking needs no data.
    assert_eq!(session.run(&["check", "study.toml"]).status, 0);
    // Semicolons, quotes and a byte order mark are read.
    let run = with_data("\u{feff}\"t\";\"u\"\n0;1\n1;2\n").run(&["simulate", "study.toml"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

#[test]
fn values_from_the_command_line_win_and_are_checked() {
    let session = session("[model]\nfile = \"model.mo\"\n[parameters]\nR = 2.0\n[simulate]\nstop = 0.0\n");
    let run = session.run(&["check", "study.toml", "--set", "Rr=3", "--json"]);
    assert_eq!((run.status, codes(&run.json())), (1, vec!["unknown-parameter"]));
    assert!(run.json()["findings"][0]["help"].as_str().unwrap().contains("`R`"));
    for (value, word) in [("twice=3", "final"), ("phi=3", "not a parameter")] {
        let run = session.run(&["check", "study.toml", "--set", value]);
        assert_eq!(run.status, 1);
        assert!(run.stderr.contains(word) && !run.stderr.contains("did you mean"), "{}", run.stderr);
    }
    for value in ["R", "R=abc", "R=inf"] {
        assert_eq!(session.run(&["check", "study.toml", "--set", value]).status, 2, "{value}");
    }
    assert_eq!(session.run(&["check", "study.toml", "--set", "R=3"]).status, 0);
}
