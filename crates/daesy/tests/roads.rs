//! One meaning on every road: what `simulate` gives, `uq` and `cost` give too, and every method reads a study alike.

use std::path::{Path, PathBuf};

use daesy::Watch;
use daesy::diagnostic::Diagnostic;
use daesy::identify::{IdentifyOptions, identify};
use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load, load_source};
use daesy::prediction_study::PredictionStudy;
use daesy::problem::{Linearity, Problem};
use daesy::source::{Place, Source};
use daesy_estimate::descriptor::ParametricModel as _;

#[path = "../examples/differential/check.rs"]
mod check;

use check::{Model, Outcome, compare};

fn problems() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let mut all: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Too large to be run five times in a test.
const LARGE: &[&str] = &["two_bit_adder", "fekete", "nand_gate", "ring_modulator", "water_tubes", "charge_pump"];

#[test]
fn models_that_simulate_mean_the_same_to_uq_and_cost() {
    let mut n_answers = 0;
    for folder in problems() {
        let Ok(text) = std::fs::read_to_string(folder.join("model.mo")) else { continue };
        if LARGE.iter().any(|name| folder.ends_with(name)) {
            continue;
        }
        match compare(&Model { text: &text, class: None }) {
            Outcome::Unusable => {}
            Outcome::Agree(n) => n_answers += n,
            Outcome::Sensitive(words) | Outcome::Differ(words) => panic!("{}: {words}", folder.display()),
        }
    }
    assert!(n_answers > 20, "{n_answers} answers only");
}

#[test]
fn every_method_searches_the_same_space_and_uses_the_same_samples() {
    let mut n_linear = 0;
    let mut n_others = 0;
    for folder in problems() {
        let Ok(entries) = folder.read_dir() else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.extension().is_none_or(|extension| extension != "toml") || path.ends_with("reference.toml") {
                continue;
            }
            let Ok(loaded) = load(&path, &LoadOptions::default()) else { continue };
            let Ok(problem) = Problem::read(&loaded) else { continue };
            if let Linearity::Constant(_) = problem.linearity
                && let Ok(study) = LinearStudy::of(&loaded, SignalsWanted::No)
            {
                n_linear += 1;
                assert_eq!(study.space, problem.space, "{}", path.display());
                let m = problem.measured.len();
                let counted = study.experiments().iter().map(|experiment| {
                    let rows = experiment.first_counted * m..;
                    experiment.measurements[rows].iter().filter(|value| value.is_finite()).count()
                });
                assert_eq!(counted.sum::<usize>(), problem.n_samples(), "{}", path.display());
            }
            if let Ok(study) = PredictionStudy::of(&loaded, 0) {
                n_others += 1;
                assert_eq!(study.space, problem.space, "{}", path.display());
                let m = problem.measured.len();
                let counted = study.experiments.iter().map(|experiment| {
                    let rows = experiment.measured.chunks(m).zip(&experiment.is_used).filter(|(_, used)| **used);
                    rows.flat_map(|(row, _)| row).filter(|value| value.is_finite()).count()
                });
                assert_eq!(counted.sum::<usize>(), problem.n_samples(), "{}", path.display());
            }
        }
    }
    assert!(n_linear > 0 && n_others > 2, "{n_linear} linear studies, {n_others} others");
}

/// The text of a study with the first entry of a section, its name and its value, replaced by other lines.
fn with_entry(study: &str, section: &str, lines: impl Fn(&str, &str) -> String) -> Option<String> {
    let head = format!("[{section}]\n");
    let at = study.find(&head)? + head.len();
    let start = at + study[at..].find(|first: char| first.is_alphanumeric() || first == '"')?;
    let end = start + study[start..].find('\n')?;
    let (name, value) = study[start..end].split_once('=')?;
    Some(format!("{}{}{}", &study[..start], lines(name.trim(), value.trim()), &study[end..]))
}

/// A study with a mistake in it, by what is wrong.
fn mistaken(study: &str) -> Vec<(&'static str, String)> {
    let column = |value: &str| {
        let name = value.find("column").and_then(|at| value[at..].split('"').nth(1));
        name.map_or_else(String::new, |name| format!("column = \"{name}\", "))
    };
    let head = "[identify]\n";
    let transient = if study.contains(head) {
        let lines: Vec<&str> = study.lines().filter(|line| !line.starts_with("transient")).collect();
        (lines.join("\n") + "\n").replace(head, "[identify]\ntransient = 1e12\n")
    } else {
        format!("{study}\n[identify]\ntransient = 1e12\n")
    };
    let all = [
        (
            "a start outside its bounds",
            with_entry(study, "unknown", |name, _| format!("{name} = {{ start = 1.0, min = 2.0, max = 3.0 }}")),
        ),
        (
            "bounds in the wrong order",
            with_entry(study, "unknown", |name, _| format!("{name} = {{ start = 1.0, min = 2.0, max = 1.0 }}")),
        ),
        (
            "an unknown that nothing has",
            with_entry(study, "unknown", |name, value| format!("{name} = {value}\n\"no.such\" = {{ start = 1.0 }}")),
        ),
        (
            "a column that the data do not have",
            with_entry(study, "measurements", |name, _| format!("{name} = {{ column = \"no such\", std = 1.0 }}")),
        ),
        (
            "a measured variable that the model does not have",
            with_entry(study, "measurements", |name, value| format!("{name} = {value}\n\"no.such\" = {value}")),
        ),
        (
            "an accuracy below zero",
            with_entry(study, "measurements", |name, value| {
                format!("{name} = {{ {}std = -1.0 }}", column(value))
            }),
        ),
        ("a transient longer than the record", Some(transient)),
    ];
    all.into_iter().filter_map(|(what, study)| Some((what, study?))).collect()
}

/// What a method says of a study: codes and messages, or nothing if it would begin to search.
fn refusal(folder: &Path, study: &str, method: &str) -> Vec<String> {
    let text = study.to_owned();
    let place = Place::Study { name: "study.toml".into(), text, folder: folder.to_path_buf(), models: Vec::new() };
    let told = |list: &[Diagnostic]| list.iter().map(|one| format!("{}: {}", one.code, one.message)).collect();
    let mut loaded = match load_source(&Source { place, data: Vec::new() }, &LoadOptions::default()) {
        Ok(loaded) => loaded,
        Err(refused) => return told(&refused),
    };
    loaded.watch = Watch::asking(|| true);
    let options = IdentifyOptions { method: Some(method.to_owned()), ..IdentifyOptions::default() };
    match identify(&loaded, &options, &mut |_| {}) {
        Ok(_) => Vec::new(),
        Err(failure) => told(failure.diagnostics()),
    }
}

#[test]
fn every_method_refuses_a_mistaken_study_in_the_same_words() {
    let mut n = 0;
    for folder in problems() {
        let Ok(entries) = folder.read_dir() else { continue };
        let files = entries.map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let study = std::fs::read_to_string(&path).unwrap();
            if !["[unknown]", "[measurements]", "[data]"].iter().all(|section| study.contains(section)) {
                continue;
            }
            for (what, study) in mistaken(&study) {
                let words = ["ml", "pem", "output-error"].map(|method| refusal(&folder, &study, method));
                assert!(!words[0].is_empty() && !words[0][0].starts_with("stopped"), "{}: {what}", path.display());
                assert!(words.iter().all(|other| *other == words[0]), "{}: {what}: {words:#?}", path.display());
                n += 1;
            }
        }
    }
    assert!(n > 40, "{n} mistaken studies");
}
