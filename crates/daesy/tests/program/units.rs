//! Functional Mock-up Units as the program writes them. What importers make of them is tested in Python.

use std::fs;

use crate::session::Session;

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
