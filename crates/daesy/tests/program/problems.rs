//! The problems of the repository against the facts and points in their references.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::session::Table;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems")
}

fn number(value: &DeValue<'_>) -> f64 {
    match value {
        DeValue::Integer(integer) => integer.as_str().parse().unwrap(),
        DeValue::Float(float) => float.as_str().parse().unwrap(),
        other => panic!("not a number: {other:?}"),
    }
}

/// All references: the file and its text.
fn references() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for problem in std::fs::read_dir(folder()).unwrap() {
        let problem = problem.unwrap().path();
        if problem.is_dir() {
            for file in std::fs::read_dir(&problem).unwrap() {
                let file = file.unwrap().path();
                if file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with("reference.toml"))
                {
                    found.push(file);
                }
            }
        }
    }
    found.sort();
    assert!(found.len() >= 15, "{found:?}");
    found
}

struct Reference {
    study: PathBuf,
    settings: Vec<String>,
    text: String,
}

impl Reference {
    fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file).unwrap();
        let (table, errors) = DeTable::parse_recoverable(&text);
        assert!(errors.is_empty(), "{}", file.display());
        let study = file.with_file_name(table.get_ref()["study"].get_ref().as_str().unwrap());
        let mut settings = Vec::new();
        if let Some(set) = table.get_ref().get("set") {
            for (name, value) in set.get_ref().as_table().unwrap() {
                settings.push("--set".to_owned());
                settings.push(format!("{}={}", name.get_ref(), number(value.get_ref())));
            }
        }
        Self { study, settings, text }
    }

    fn run(&self, verb: &str, arguments: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_daesy"))
            .arg(verb)
            .arg(&self.study)
            .args(&self.settings)
            .args(arguments)
            .env_remove("MODELICAPATH")
            .output()
            .unwrap()
    }
}

#[test]
fn structure_is_as_worked_out_by_hand() {
    for file in references() {
        let reference = Reference::read(&file);
        let (table, _) = DeTable::parse_recoverable(&reference.text);
        let Some(facts) = table.get_ref().get("structure") else { continue };
        let facts = facts.get_ref().as_table().unwrap();
        let output = reference.run("check", &["--json"]);
        let shown = format!("{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{shown}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let fact = |key: &str| number(facts[key].get_ref());
        assert_eq!(document["size"]["equations"].as_f64(), Some(fact("equations")), "equations, {shown}");
        for key in ["structural_index", "degrees_of_freedom"] {
            assert_eq!(document["structure"][key].as_f64(), Some(fact(key)), "{key}, {shown}");
        }
        // Where structure misleads, its hidden constraints are not those of the model.
        if facts.get("structural_degrees_of_freedom").is_none() {
            let hidden = document["structure"]["hidden_constraints"].as_f64();
            assert_eq!(hidden, Some(fact("hidden_constraints")), "hidden constraints, {shown}");
        }
        let index = document["regularity"]["differentiation_index"].as_f64();
        assert_eq!(index, Some(fact("differentiation_index")), "differentiation index, {shown}");
        let free = document["initial"]["free"].as_array().unwrap();
        assert_eq!(free.len() as f64, fact("degrees_of_freedom"), "free start values, {shown}");
        if let Some(inputs) = facts.get("input_derivatives") {
            for (name, times) in inputs.get_ref().as_table().unwrap() {
                let name: &str = name.get_ref();
                let needed = document["inputs"][name]["derivatives_needed"].as_f64();
                assert_eq!(needed, Some(number(times.get_ref())), "input {name}, {shown}");
            }
        }
    }
}

/// Points of the reference, where the program can simulate the model already. The tolerance of the studies is relative.
#[test]
fn trajectories_pass_through_the_points() {
    let mut n_simulated = 0;
    for file in references() {
        let reference = Reference::read(&file);
        let (table, _) = DeTable::parse_recoverable(&reference.text);
        let Some(points) = table.get_ref().get("points") else { continue };
        let output = reference.run("simulate", &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{}: {stderr}", file.display());
        let table = Table::parse(std::str::from_utf8(&output.stdout).unwrap());
        let times = table.column("t");
        for point in points.get_ref().as_array().unwrap().iter() {
            let point = point.get_ref().as_table().unwrap();
            let time = number(point["time"].get_ref());
            let Some(row) = times.iter().rposition(|&at| (at - time).abs() <= 1e-9 * time.abs().max(1e-3)) else {
                continue;
            };
            for (name, value) in point["values"].get_ref().as_table().unwrap() {
                let expected = number(value.get_ref());
                let column = table.column(name.get_ref());
                let size = column.iter().fold(0.0f64, |size, value| size.max(value.abs()));
                let got = column[row];
                assert!(
                    (got - expected).abs() <= 2e-3 * size.max(1e-9),
                    "{}: {} at {time}: {got} instead of {expected}",
                    file.display(),
                    name.get_ref()
                );
            }
        }
        n_simulated += 1;
    }
    assert!(n_simulated >= 10, "only {n_simulated} references were simulated");
}
