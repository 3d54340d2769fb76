//! One meaning on every road: what `simulate` gives, `uq` and `cost` give too, and every method reads a study alike.

use std::path::{Path, PathBuf};

use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load};
use daesy::prediction_study::PredictionStudy;
use daesy::problem::{Linearity, Problem};
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
        match compare(&Model { text: &text, class: None, pick: 0 }) {
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
