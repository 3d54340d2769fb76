//! Checkpoints: what they belong to, and that damage is told and never used.

use serde_json::Value;

use crate::session::Session;

const MODEL: &str = "\
model M
  input Real u;
  parameter Real k = 1;
  Real x(start = 0, fixed = true);
equation
  der(x) = -k*x + u;
end M;
";
const SPREAD: &str = r#"
[model]
file = "model.mo"
[random]
k = { uniform = { min = 1.0, max = 2.0 } }
[inputs]
u = { column = "u" }
[data]
file = "d.csv"
[simulate]
stop = 3
step = 1
[uq]
method = "monte-carlo"
samples = 20
"#;
const FIT: &str = r#"
[model]
file = "model.mo"
[unknown]
k = { start = 1.0, min = 0.1, max = 10.0 }
[inputs]
u = { column = "u" }
[measurements]
x = { column = "y", std = 0.01 }
[data]
file = "d.csv"
"#;
const DATA: &str = "t,u,y\n0,1,0\n1,1,0.6\n2,1,0.8\n3,1,0.9\n";
const COST: [&str; 8] = ["cost", "fit.toml", "--json", "--method", "pem", "--grid", "k=0.5:2:4", "--checkpoint"];

fn session() -> Session {
    Session::with_model(MODEL).with("spread.toml", SPREAD).with("fit.toml", FIT).with("d.csv", DATA)
}

/// The line of the one finding that a run is refused with.
fn refused(session: &Session, arguments: &[&str]) -> u64 {
    let run = session.run(arguments);
    assert_eq!(run.status, 1, "{arguments:?}: {}", run.stderr);
    let document = run.json();
    let finding = document["findings"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(finding["code"], "checkpoint", "{finding}");
    assert!(finding["help"].as_str().unwrap().contains("remove this one"));
    finding["line"].as_u64().unwrap()
}

#[test]
fn a_checkpoint_belongs_to_the_values_and_headers_of_its_data() {
    let more = DATA.replace(",1,", ",10,");
    let session = session().with("more.csv", &more).with("swapped.csv", &DATA.replace("u,y", "y,u"));
    let spread = ["uq", "spread.toml", "--json", "--checkpoint", "a.txt"];
    assert_eq!(session.run(&spread).status, 0);
    assert_eq!(refused(&session, &[&spread[..], &["--data", "more.csv"]].concat()), 1);
    let cost = [&COST[..], &["b.txt"]].concat();
    assert_eq!(session.run(&cost).status, 0);
    assert_eq!(refused(&session, &[&cost[..], &["--data", "swapped.csv"]].concat()), 1);
    assert_eq!(refused(&session, &[&cost[..], &["--set", "k=2"]].concat()), 1);
    // Nor does a verb take the results of another.
    assert_eq!(refused(&session, &[&COST[..], &["a.txt"]].concat()), 1);
    // More points of the same grid are welcome.
    let finer =
        session.run(&["cost", "fit.toml", "--json", "--method", "pem", "--grid", "k=0.5:2:7", "--checkpoint", "b.txt"]);
    assert_eq!(finer.status, 0, "{}", finer.stderr);
    let plain = session.run(&["cost", "fit.toml", "--json", "--method", "pem", "--grid", "k=0.5:2:7"]);
    assert_eq!(finer.stdout, plain.stdout);
}

#[test]
fn a_changed_digit_a_cut_line_and_a_lost_number_are_told_with_their_line() {
    let session = session();
    let cost = [&COST[..], &["c.txt"]].concat();
    let whole = session.run(&cost);
    assert_eq!(whole.status, 0, "{}", whole.stderr);
    let kept = std::fs::read_to_string(session.path("c.txt")).unwrap();
    let lines: Vec<&str> = kept.lines().collect();
    assert_eq!(lines.len(), 5);
    let write = |lines: &[&str], end: &str| std::fs::write(session.path("c.txt"), lines.join("\n") + end).unwrap();
    let mut changed = lines.clone();
    let digit = lines[2].replacen(" 3f", " 3e", 1).replacen(" 40", " 41", 1);
    assert_ne!(digit, lines[2]);
    changed[2] = &digit;
    write(&changed, "\n");
    assert_eq!(refused(&session, &cost), 3);
    let short = lines[3].split(' ').next().unwrap();
    changed = lines.clone();
    changed[3] = short;
    write(&changed, "\n");
    assert_eq!(refused(&session, &cost), 4);
    write(&lines, "");
    assert_eq!(refused(&session, &cost), 5);
    write(&["daesy checkpoint 1 9da0fbd9c4dd470c", "cost:4010000000000000"], "\n");
    assert_eq!(refused(&session, &cost), 1);
    // What a run that was killed leaves is a part of it.
    write(&lines[..3], "\n");
    assert_eq!(session.run(&cost).stdout, whole.stdout);
    assert_eq!(std::fs::read_to_string(session.path("c.txt")).unwrap(), kept);
}

#[test]
fn a_cut_checkpoint_of_random_parameters_is_told() {
    let session = session();
    let spread = ["uq", "spread.toml", "--json", "--checkpoint", "c.txt"];
    let whole: Value = session.run(&spread).json();
    let kept = std::fs::read(session.path("c.txt")).unwrap();
    std::fs::write(session.path("c.txt"), &kept[..kept.len() - 100]).unwrap();
    let n_lines = kept.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(refused(&session, &spread), n_lines);
    std::fs::write(session.path("c.txt"), &kept).unwrap();
    assert_eq!(session.run(&spread).json(), whole);
}
