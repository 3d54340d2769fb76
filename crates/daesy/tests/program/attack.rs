//! A few dozen mutants of models, studies and data through all verbs; `--example attack` makes as many as there is
//! time for.

#[path = "../../examples/attack/end_to_end.rs"]
mod end_to_end;
#[path = "../../examples/attack/mutate.rs"]
mod mutate;
#[path = "../../examples/attack/units.rs"]
mod units;

use std::path::Path;

use crate::session::Session;
use end_to_end::{collect, make_case, own_kits, run_case};
use mutate::Random;

#[test]
fn mutated_archives_and_descriptions_are_read_or_refused() {
    let seeds: Vec<String> = units::SEEDS.map(str::to_owned).to_vec();
    for seed in &seeds {
        assert_eq!(units::check_unit(seed), Ok(true), "{seed}");
    }
    let mut n_read = 0;
    for number in 0..400_u64 {
        let mut random = Random(number);
        let mut text = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(3) {
            text = mutate::change(&mut random, text, &seeds);
        }
        n_read += usize::from(units::check_unit(&text).unwrap_or_else(|problem| panic!("{number}: {problem}\n{text}")));
    }
    assert!(n_read > 20, "hardly a mutant was read: {n_read}");
}

#[test]
fn mutants_end_with_a_status_a_document_and_a_finding() {
    let mut kits = own_kits();
    for name in ["rlc", "voltage_divider", "descriptor"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems").join(name), &mut kits);
    }
    assert!(kits.len() > own_kits().len(), "the problems have moved");
    for number in 0..60 {
        let case = make_case(&mut Random(number), &kits);
        let session = Session::new();
        let problem = run_case(Path::new(env!("CARGO_BIN_EXE_daesy")), &session.path("."), &case).unwrap();
        assert_eq!(problem, None, "case {number}: {case:#?}");
    }
}
