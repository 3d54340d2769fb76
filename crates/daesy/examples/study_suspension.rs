//! Five unknowns of a suspension from artificial data: estimates, standard errors, and how often 95 % intervals hold
//! the truth, by the likelihood of the unscented filter.
//!
//! `--write FILE` writes one data set instead. Argument: number of data sets (20).
#![forbid(unsafe_code)]

use std::path::Path;

use daesy::load::{LoadOptions, load_source};
use daesy::prediction_study::PredictionStudy;
use daesy::source::{Place, Source};
use daesy::table::Table;
use daesy_estimate::pem::{FilterKind, FilterLikelihood};
use daesy_estimate::search::{SearchOptions, minimize};
use daesy_estimate::uncertainty::{Certainty, Uncertainty};
use daesy_system::Watch;

const N_SAMPLES: usize = 800;
const STEP: f64 = 0.05;
/// k, c, c2, mb, sigma
const TRUTH: [f64; 5] = [18000.0, 1200.0, 1500.0, 600.0, 0.05];

fn table(values: &[f64]) -> Table {
    let column =
        |output: usize| (0..N_SAMPLES).map(|sample| values.get(3 * sample + output).copied().unwrap_or(0.0)).collect();
    Table {
        names: ["t", "z", "ab", "h"].map(str::to_owned).to_vec(),
        columns: vec![(1..=N_SAMPLES).map(|sample| sample as f64 * STEP).collect(), column(0), column(1), column(2)],
    }
}

fn study(data: Table) -> PredictionStudy {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/suspension/study.toml");
    let source = Source { place: Place::File(file), data: vec![data] };
    let mut loaded = load_source(&source, &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    if let Some(study) = &mut loaded.study {
        study.simulate.start = Some(daesy::study::Quantity {
            value: daesy::study::QuantityValue::Number(0.0),
            span: daesy_graph::Span::NONE,
        });
    }
    PredictionStudy::of(&loaded, 0).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let watch = Watch::default();
    let n_sets: usize = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(20);
    let study = study(table(&[]));
    if let [flag, file] = &arguments[..]
        && flag == "--write"
    {
        let set = study.artificial_data(&TRUTH, 1, 77, &watch).expect("the truth has a trajectory").swap_remove(0);
        std::fs::write(file, table(&set[0]).to_csv()).expect("the file can be written");
        return;
    }
    let sets = study.artificial_data(&TRUTH, n_sets, 78, &watch).expect("the truth has trajectories");
    let mut problem = study.problem(study.settings.clone(), &study.start()).expect("the start has a prediction");
    let mut n_covered = [0usize; 5];
    let names: Vec<&str> = study.unknowns.iter().map(|unknown| unknown.name.as_str()).collect();
    let options = SearchOptions { absolute: 1e-6, relative: 0.0, ..SearchOptions::default() };
    for (at, set) in sets.into_iter().enumerate() {
        problem.set_measured(set);
        let likelihood = || FilterLikelihood::new(&problem, FilterKind::Unscented, &study.space, watch.clone());
        let found = minimize(&mut likelihood(), &study.start(), &study.space, &options, &mut |_| {})
            .expect("the start has a likelihood");
        let expansion = likelihood().expansion(&found.theta).expect("the estimate has a likelihood");
        let errors = Uncertainty::new(&Certainty {
            information: &expansion.information,
            scores: &expansion.scores,
            prior_precision: &[],
            sizes: &study.space.nominal,
            at_bound: &found.at_bound,
        });
        let mut line = format!("data set {}:", at + 1);
        for i in 0..5 {
            let is_covered = (found.theta[i] - TRUTH[i]).abs() <= 1.959_964 * errors.std[i];
            n_covered[i] += usize::from(is_covered);
            line.push_str(&format!(
                " {} = {:.5} +- {:.2e}{}",
                names[i],
                found.theta[i],
                errors.std[i],
                if is_covered { "" } else { " (!)" }
            ));
        }
        println!("{line}");
    }
    for (name, n) in names.iter().zip(n_covered) {
        println!("{name}: {n} of {n_sets} intervals hold the truth");
    }
}
