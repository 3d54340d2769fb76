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

/// A study with a mistake in it, by what is wrong.
fn mistaken(study: &toml::Table) -> Vec<(&'static str, toml::Table)> {
    fn entry<'t>(study: &'t mut toml::Table, section: &str) -> Option<&'t mut toml::Table> {
        study.get_mut(section)?.as_table_mut()?.iter_mut().find_map(|(_, value)| value.as_table_mut())
    }
    let mut all = Vec::new();
    let mut add = |what: &'static str, spoil: &dyn Fn(&mut toml::Table) -> Option<()>| {
        let mut spoiled = study.clone();
        if spoil(&mut spoiled).is_some() {
            all.push((what, spoiled));
        }
    };
    add("a start outside its bounds", &|study| {
        let unknown = entry(study, "unknown")?;
        let start = unknown.get("start")?.as_float()?;
        unknown.insert("min".into(), (start + 1.0).into());
        unknown.insert("max".into(), (start + 2.0).into());
        Some(())
    });
    add("bounds in the wrong order", &|study| {
        let unknown = entry(study, "unknown")?;
        unknown.insert("min".into(), 2.0.into());
        unknown.insert("max".into(), 1.0.into());
        Some(())
    });
    add("an unknown that nothing has", &|study| {
        let unknown = entry(study, "unknown")?.clone();
        study.get_mut("unknown")?.as_table_mut()?.insert("no.such.parameter".into(), unknown.into());
        Some(())
    });
    add("a column that the data do not have", &|study| {
        entry(study, "measurements")?.insert("column".into(), "no such column".into());
        Some(())
    });
    add("a measured variable that the model does not have", &|study| {
        let measured = entry(study, "measurements")?.clone();
        study.get_mut("measurements")?.as_table_mut()?.insert("no.such.variable".into(), measured.into());
        Some(())
    });
    add("an accuracy below zero", &|study| {
        let measured = entry(study, "measurements")?;
        measured.remove("variance");
        measured.insert("std".into(), (-1.0).into());
        Some(())
    });
    add("a transient longer than the record", &|study| {
        let identify = study.entry("identify").or_insert_with(|| toml::Table::new().into());
        identify.as_table_mut()?.insert("transient".into(), 1e12.into());
        Some(())
    });
    all
}

/// What a method says of a study: codes and messages, or nothing if it would begin to search.
fn refusal(folder: &Path, study: &toml::Table, method: &str) -> Vec<String> {
    let text = toml::to_string(study).unwrap();
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
        let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
            let study: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
            if !["unknown", "measurements", "data"].iter().all(|section| study.contains_key(*section)) {
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
