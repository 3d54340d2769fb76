//! Questions asked in the same process: texts and columns in memory instead of files, and stopping on demand.

use std::path::PathBuf;

use daesy::program::{Status, ask};
use daesy::source::{ModelText, Place, Source};
use daesy::table::Table;
use daesy_system::Watch;

const MODEL: &str = "model Lag input Real u; Real x(start = 0, fixed = true); equation der(x) = u - x; end Lag;";

fn source(study: &str, data: Vec<Table>) -> Source {
    let models = vec![ModelText { name: "lag.mo".to_owned(), text: MODEL.to_owned() }];
    let text = format!("[model]\nfile = \"lag.mo\"\n{study}");
    let place = Place::Study { name: "study".to_owned(), text, folder: PathBuf::new(), models };
    Source { place, data }
}

fn samples() -> Table {
    Table { names: vec!["t".to_owned(), "u".to_owned()], columns: vec![vec![0.0, 1.0, 2.0], vec![1.0, 0.0, 0.0]] }
}

#[test]
fn a_study_with_data_in_memory_is_simulated() {
    let study = "[inputs]\nu = { column = \"u\", hold = \"zoh\" }\n[simulate]\nrtol = 1e-9\n";
    let answer = ask("simulate", source(study, vec![samples()]), &[], &Watch::default());
    assert_eq!(answer.status, Status::Done, "{:?}", answer.diagnostics);
    let table = answer.table.unwrap();
    let x = *table.column("x").unwrap().last().unwrap();
    let exact = (1.0 - (-1.0f64).exp()) * (-1.0f64).exp();
    assert!((x - exact).abs() < 1e-8, "{x} against {exact}");
}

#[test]
fn findings_name_the_text_they_are_about() {
    let answer = ask("check", source("[inputs]\nv = { expression = \"1\" }\n", vec![]), &[], &Watch::default());
    assert_eq!(answer.status, Status::Fault);
    let place = answer.diagnostics[0].place.clone().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("study", 4));
    let wrong = ask("simulate", source("", vec![]), &["--nonsense".to_owned()], &Watch::default());
    assert_eq!(wrong.status, Status::Usage);
}

#[test]
fn a_stopped_watch_ends_a_simulation() {
    let watch = Watch::new();
    watch.stop();
    let answer = ask("simulate", source("[simulate]\nstop = 1\n", vec![]), &[], &watch);
    assert_eq!(answer.status, Status::GaveUp);
    assert_eq!(answer.diagnostics[0].code, "stopped");
}
