//! One meaning on every road: what `simulate` gives, `uq` and `cost` give too, and every method reads a study alike.

use std::path::{Path, PathBuf};
use std::time::Duration;

use daesy::Watch;
use daesy::cost::{CostOptions, cost};
use daesy::diagnostic::Diagnostic;
use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load, load_source};
use daesy::prediction_study::PredictionStudy;
use daesy::problem::{Linearity, Problem};
use daesy::source::{ModelText, Place, Source};
use daesy::table::Table;
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

/// Models whose roads take minutes each; `--example differential` is the place for them.
const LONG: &[&str] = &["two_bit_adder", "fekete", "nand_gate", "ring_modulator", "water_tubes", "charge_pump"];

/// The share of the time of a long record that is looked at; nothing is identified of it, which takes many runs.
const SHORTENED: &[(&str, f64)] = &[("emps", 0.04)];

#[test]
fn models_that_simulate_mean_the_same_to_uq_cost_and_identify() {
    let mut n_answers = 0;
    for folder in problems() {
        let Ok(text) = std::fs::read_to_string(folder.join("model.mo")) else { continue };
        if LONG.iter().any(|name| folder.ends_with(name)) {
            continue;
        }
        let share = SHORTENED.iter().find(|(name, _)| folder.ends_with(name)).map_or(1.0, |(_, share)| *share);
        let patience = Duration::from_secs(20);
        match compare(&Model { text: &text, class: None, pick: 0, share, identifies: share == 1.0, patience }) {
            Outcome::Unusable => {}
            Outcome::Agree(n) => n_answers += n,
            Outcome::Sensitive(words) | Outcome::Differ(words) => panic!("{}: {words}", folder.display()),
        }
    }
    assert!(n_answers > 60, "{n_answers} answers only");
}

/// Studies of a folder.
fn studies(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|it| it == "toml") && !path.ends_with("reference.toml"));
    all.sort();
    all
}

/// A mistake in a study: its name, and the text with it, where the study has the place for it.
fn mistakes(text: &str) -> Vec<(&'static str, String)> {
    let after = |table: &str, line: &str| {
        let head = format!("[{table}]\n");
        match text.contains(&head) {
            true => text.replacen(&head, &format!("{head}{line}\n"), 1),
            false => format!("{text}\n{head}{line}\n"),
        }
    };
    vec![
        ("none", text.to_owned()),
        ("an unknown that is nowhere", after("unknown", "\"no.such\" = { start = 1 }")),
        ("an unknown outside its bounds", after("unknown", "\"no.such\" = { start = 1, min = 2, max = 3 }")),
        ("a measurement of nothing", after("measurements", "\"no.such\" = { column = \"y\", std = 1 }")),
        ("a column that is not there", text.replacen("column = \"", "column = \"no", 1)),
        ("no starts", after("identify", "starts = 0")),
        ("a key that is not there", after("identify", "strats = 2")),
        ("a priori nothing", after("identify", "transient = 1e12")),
        ("a start after all samples", after("simulate", "start = 1e12")),
    ]
}

/// Rows with every column that a study asks for.
fn some_data(text: &str) -> Table {
    let quoted = |after: &str| -> Vec<String> {
        text.split(after).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    let time = quoted("\ntime = \"").first().cloned().unwrap_or_else(|| "t".to_owned());
    let mut names = quoted("column = \"");
    names.retain(|name| *name != time);
    names.sort();
    names.dedup();
    let column = |at: usize| (0..40).map(|row| 0.1 + 0.01 * ((row * (at + 3)) % 7) as f64).collect();
    let columns = (0..names.len()).map(column);
    let columns = std::iter::once((0..40).map(|row| 0.05 * f64::from(row)).collect()).chain(columns).collect();
    names.insert(0, time);
    Table { names, columns }
}

/// What one method says of what another can do.
const OF_METHODS: &[&str] = &[
    "pole-excess",
    "noise-step",
    "weighting",
    "start-not-free",
    "varying-accuracy",
    "varying-disturbance",
    "impulse-not-followed",
    "input-not-smooth",
];

/// The codes of what is wrong with a study for a method, which is not let begin.
fn refusals(text: &str, folder: &Path, method: &str) -> Vec<String> {
    let models = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let models = models.filter(|path| path.extension().is_some_and(|it| it == "mo")).map(|path| ModelText {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        text: std::fs::read_to_string(&path).unwrap(),
    });
    let place = Place::Study {
        name: "study.toml".into(),
        text: text.to_owned(),
        folder: folder.to_path_buf(),
        models: models.collect(),
    };
    let codes = |wrong: &[Diagnostic]| wrong.iter().map(|wrong| wrong.code.to_string()).collect();
    let mut loaded = match load_source(&Source { place, data: vec![some_data(text)] }, &LoadOptions::default()) {
        Ok(loaded) => loaded,
        Err(wrong) => return codes(&wrong),
    };
    loaded.watch = Watch::asking(|| true);
    let Some(name) = loaded.study.as_ref().and_then(|study| study.unknown.first().map(|it| it.name.clone())) else {
        return vec!["no-unknowns".to_owned()];
    };
    let options = CostOptions { method: Some(method.to_owned()), ..CostOptions::default() };
    let found = cost(&loaded, &[format!("{name}=1:1:1")], &options, &mut |_| {});
    let codes: Vec<String> = found.err().map(|failure| codes(failure.diagnostics())).unwrap_or_default();
    // Whatever stops or fails from here on is the method's own.
    codes.into_iter().filter(|code| !["stopped", "ensemble"].contains(&code.as_str())).collect()
}

/// Every study, as it is and with mistakes, is refused by every method for the same reasons.
#[test]
fn every_method_refuses_the_same_studies() {
    let mut n_compared = 0;
    for folder in problems() {
        for path in studies(&folder) {
            let text = std::fs::read_to_string(&path).unwrap();
            if !text.contains("[unknown]\n") || !text.contains("[measurements]\n") {
                continue;
            }
            for (mistake, text) in mistakes(&text) {
                let said = ["ml", "pem", "output-error"].map(|method| refusals(&text, &folder, method));
                let common = |codes: &Vec<String>| !codes.iter().any(|code| OF_METHODS.contains(&code.as_str()));
                let all: Vec<&Vec<String>> = said.iter().filter(|codes| common(codes)).collect();
                assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{}, {mistake}: {said:?}", path.display());
                n_compared += usize::from(all.len() > 1 && !all[0].is_empty());
            }
        }
    }
    assert!(n_compared > 60, "{n_compared} refusals compared only");
}

#[test]
fn every_method_searches_the_same_space_and_uses_the_same_samples() {
    let mut n_linear = 0;
    let mut n_others = 0;
    for folder in problems() {
        for path in studies(&folder) {
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
