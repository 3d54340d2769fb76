//! The JSON document and the exit status in every case, good and bad.

use serde_json::{Value, json};

use crate::session::{Session, Table, codes};

const MODEL: &str = "model M \"A model\"
  parameter Real p = 2;
  Real x(start=1, fixed=true);
equation
  der(x) = -p*x;
end M;
";

struct Case<'a> {
    arguments: &'a [&'a str],
    status: i32,
    command: Value,
    codes: &'a [&'a str],
}

/// All numbers of a document are finite, which JSON cannot write otherwise; null stands for what has no value.
fn assert_well_formed(document: &Value) {
    let findings = document["findings"].as_array().unwrap();
    for finding in findings {
        assert!(["error", "warning", "note"].contains(&finding["level"].as_str().unwrap()));
        assert!(!finding["message"].as_str().unwrap().is_empty());
        for key in ["code", "file", "line", "column", "names"] {
            assert!(finding.get(key).is_some(), "{finding}");
        }
    }
}

#[test]
fn every_ending_has_a_document_and_its_status() {
    let session = Session::with_model(MODEL)
        .with("syntax.mo", "model S\n  Real x\nend S;\n")
        .with("singular.mo", "model S\n  Real x, y;\nequation\n  x = 1;\n  x = 2;\nend S;\n")
        .with("name.mo", "model S\n  Real x = y;\nend S;\n")
        .with("two.mo", "model A\n  Real x = 1;\nend A;\nmodel B\n  Real x = 1;\nend B;\n")
        .with("blow.mo", "model B\n  Real x(start=1, fixed=true);\nequation\n  der(x) = x^2;\n  annotation(experiment(StopTime=3));\nend B;\n")
        .with("nan.mo", "model N\n  Real x(start=-1, fixed=true), y;\nequation\n  der(x) = 1;\n  y = sqrt(x);\nend N;\n")
        .with("empty.mo", "")
        .with("binary.mo", "\u{0}\u{1}\u{2}")
        .with("study.toml", "[model]\nfile = \"model.mo\"\n")
        .with("bad.toml", "[model\nfile = \"model.mo\"\n")
        .with("notes.txt", "");
    std::fs::create_dir(session.path("folder.mo")).unwrap();
    let cases = [
        Case { arguments: &["check", "model.mo"], status: 0, command: json!("check"), codes: &[] },
        Case { arguments: &["check", "study.toml"], status: 0, command: json!("check"), codes: &[] },
        Case { arguments: &["simulate", "model.mo"], status: 0, command: json!("simulate"), codes: &[] },
        Case { arguments: &["flatten", "model.mo"], status: 0, command: json!("flatten"), codes: &[] },
        Case { arguments: &["check", "nothing.mo"], status: 1, command: json!("check"), codes: &["file"] },
        Case { arguments: &["check", "nothing.toml"], status: 1, command: json!("check"), codes: &["file"] },
        Case { arguments: &["simulate", "nothing.mo"], status: 1, command: json!("simulate"), codes: &["file"] },
        Case { arguments: &["check", "notes.txt"], status: 1, command: json!("check"), codes: &["file-kind"] },
        Case { arguments: &["check", "bad.toml"], status: 1, command: json!("check"), codes: &["toml-syntax"] },
        Case {
            arguments: &["check", "singular.mo"],
            status: 1,
            command: json!("check"),
            codes: &["too-many-equations", "too-few-equations"],
        },
        Case { arguments: &["simulate", "blow.mo"], status: 3, command: json!("simulate"), codes: &["step-too-small"] },
        Case { arguments: &["simulate", "nan.mo"], status: 3, command: json!("simulate"), codes: &["not-finite"] },
        Case {
            arguments: &["check", "model.mo", "-o", "a.csv"],
            status: 2,
            command: json!("check"),
            codes: &["usage"],
        },
        Case {
            arguments: &["flatten", "model.mo", "--report", "a.html"],
            status: 2,
            command: json!("flatten"),
            codes: &["usage"],
        },
        Case { arguments: &["check", "model.mo", "--wrong"], status: 2, command: json!("check"), codes: &["usage"] },
        Case { arguments: &["check"], status: 2, command: json!("check"), codes: &["usage"] },
        Case { arguments: &["chek", "model.mo"], status: 2, command: json!(null), codes: &["usage"] },
        Case {
            arguments: &["simulate", "model.mo", "--threads", "many"],
            status: 2,
            command: json!("simulate"),
            codes: &["usage"],
        },
        Case {
            arguments: &["simulate", "model.mo", "-o", "a.txt"],
            status: 2,
            command: json!("simulate"),
            codes: &["output-kind"],
        },
    ];
    for case in cases {
        let mut arguments = case.arguments.to_vec();
        arguments.push("--json");
        let run = session.run(&arguments);
        assert_eq!(run.status, case.status, "{arguments:?}: {}", run.stderr);
        let document = run.json();
        assert_eq!(document["command"], case.command, "{arguments:?}");
        assert_eq!(codes(&document), case.codes, "{arguments:?}");
        assert_well_formed(&document);
        // Without --json the words are the same and the status too.
        let plain = session.run(case.arguments);
        assert_eq!(plain.status, case.status, "{arguments:?}");
        assert_eq!(plain.stderr.is_empty(), case.codes.is_empty(), "{arguments:?}: {}", plain.stderr);
    }
    for file in ["syntax.mo", "name.mo", "two.mo", "empty.mo", "binary.mo", "folder.mo"] {
        for verb in ["check", "simulate", "flatten"] {
            let run = session.run(&[verb, file, "--json"]);
            assert_eq!(run.status, 1, "{verb} {file}: {}", run.stderr);
            let document = run.json();
            assert_well_formed(&document);
            assert!(!codes(&document).is_empty());
            let first = run.stderr.lines().next().unwrap();
            assert!(first.contains(".mo:") && first.contains(": error["), "{verb} {file}: {first}");
        }
    }
    assert_eq!(session.files().iter().filter(|name| name.starts_with("a.")).count(), 0);
}

#[test]
fn findings_start_with_their_place() {
    let session = Session::with_model("model M\n  Real x, y;\nequation\n  x + y = 1;\nend M;\n");
    let run = session.run(&["check", "model.mo"]);
    assert!(run.stderr.starts_with("model.mo:2:8: error[too-few-equations]: "), "{}", run.stderr);
    let run = session.run(&["check", "nothing.mo"]);
    assert!(run.stderr.starts_with("nothing.mo:1:1: error[file]: "), "{}", run.stderr);
    let run = session.run(&["check", "model.mo", "--set", "q=1"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("model.mo:"), "{}", run.stderr);
}

#[test]
fn a_file_with_several_models_lists_them() {
    let session = Session::with_model("model A\n  Real x = 1;\nend A;\nmodel B\n  Real x = 2;\nend B;\n");
    let run = session.run(&["check", "model.mo"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("A, B"), "{}", run.stderr);
    assert_eq!(session.run(&["check", "model.mo", "--class", "B"]).status, 0);
    let run = session.run(&["check", "model.mo", "--class", "C"]);
    assert_eq!(run.status, 1);
}

#[test]
fn help_and_version_go_to_standard_output() {
    let session = Session::new();
    for arguments in
        [&["--help"][..], &["check", "--help"], &["simulate", "--help"], &["flatten", "--help"], &["--version"]]
    {
        let run = session.run(arguments);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!run.stdout.is_empty());
    }
    let run = session.run(&["--help"]);
    for verb in ["check", "simulate", "flatten", "demo", "Exit status"] {
        assert!(run.stdout.contains(verb), "{}", run.stdout);
    }
    assert_eq!(session.run(&[]).status, 2);
}

#[test]
fn flatten_prints_the_functions_that_are_kept_as_programs() {
    let model = "model F\n  function root\n    input Real a;\n    output Real x;\n    output Integer n;\n  protected\n    Real e[2];\n  algorithm\n\
                 x := a;\n n := 0;\n e := {1, 1};\n while e[1] > 1e-12 loop\n x := 0.5*(x + a/x);\n e[1] := abs(x*x - a);\n n := n + 1;\n\
                 if n > 50 then\n return;\n end if;\n end while;\n  end root;\n  Real y;\n  Real n;\nequation\n  (y, n) = root(2 + time);\nend F;\n";
    let session = Session::with_model(model);
    let text = session.run(&["flatten", "model.mo"]).stdout;
    assert!(text.contains("function 'F.root'\n") && text.contains("function 'F.root.output2'\n"), "{text}");
    let again = Session::with_model(&text);
    let study = "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 1.0\nstep = 0.5\n";
    let tables: Vec<Vec<f64>> = [session, again]
        .into_iter()
        .map(|session| {
            let session = session.with("study.toml", study);
            let run = session.run(&["simulate", "study.toml", "-o", "out.csv"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            let table = Table::parse(&std::fs::read_to_string(session.path("out.csv")).expect("written"));
            [table.column("y"), table.column("n")].concat()
        })
        .collect();
    assert_eq!(tables[0], tables[1]);
    assert!((tables[0][0] - 2f64.sqrt()).abs() < 1e-12);
}

#[test]
fn flatten_gives_text_that_flattens_to_itself_and_all_names() {
    let session = Session::with_model(MODEL);
    let text = session.run(&["flatten", "model.mo"]).stdout;
    let again = Session::with_model(&text);
    let run = again.run(&["flatten", "model.mo"]);
    assert_eq!(run.status, 0, "{}\n{text}", run.stderr);
    let document = session.run(&["flatten", "model.mo", "--json"]).json();
    let names: Vec<&str> =
        document["variables"].as_array().unwrap().iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["p", "x"]);
    assert_eq!(document["equations"][0]["text"], "der(x) = -p*x");
}

#[test]
fn the_demo_works_and_writes_its_files() {
    let session = Session::new();
    let run = session.run(&["demo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["command"], "demo");
    for name in ["trajectory.csv", "report.html"] {
        assert!(session.path("daesy-demo").join(name).exists(), "{name}");
    }
}
