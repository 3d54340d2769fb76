//! `daesy demo`: the workflow on an example that is built in.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::check::check;
use crate::diagnostic::Diagnostic;
use crate::embedded;
use crate::estimate::estimate;
use crate::failure::Failure;
use crate::file::write_whole;
use crate::identify::{IdentifyOptions, identify};
use crate::load::{LoadOptions, load};
use crate::program::add_check;
use crate::report::Page;
use crate::report::chart::{Chart, Mark, Series, TIME};
use crate::simulate::simulate;

/// What the demo has to tell.
pub struct Told {
    /// The model.
    pub model: String,
    /// For a person.
    pub text: String,
    /// For a program.
    pub keys: Map<String, Value>,
    /// Notes and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Writes the example's files into a folder and works through them.
///
/// # Errors
/// Diagnostics, when a file cannot be written or a step fails.
pub fn run(folder: &Path) -> Result<Told, Vec<Diagnostic>> {
    let cannot_write = |path: &Path, error: std::io::Error| {
        let shown = path.display().to_string();
        vec![Diagnostic::about_file("output-file", &shown, format!("`{shown}` cannot be written: {error}"))]
    };
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, error))?;
    for (name, text) in embedded::DEMO {
        let path = folder.join(name);
        write_whole(&path, text.as_bytes()).map_err(|error| cannot_write(&path, error))?;
    }
    let study = folder.join(embedded::DEMO_STUDY);
    let loaded = load(&study, &LoadOptions::default())?;
    let check = check(&loaded);
    if check.has_errors() {
        return Err(check.diagnostics);
    }
    let trajectory = simulate(&loaded).map_err(|failure| failure.diagnostics().to_vec())?;
    let table = folder.join("trajectory.csv");
    write_whole(&table, trajectory.table.to_csv().as_bytes()).map_err(|error| cannot_write(&table, error))?;

    let mut page = Page::new("A servo: motor, gear, spring and disc");
    page.heading("Is the model sound?");
    add_check(&mut page, &check);
    page.heading("How does it move?");
    page.paragraph(&trajectory.to_text(&check.model));
    let mut pictures = Vec::new();
    for (title, unit, names) in embedded::DEMO_CHARTS {
        let series: Vec<Series> = names
            .iter()
            .enumerate()
            .filter_map(|(color, name)| {
                let y = trajectory.table.column(name)?.to_vec();
                let x = trajectory.table.columns[0].clone();
                Some(Series { name: (*name).to_owned(), x, y, mark: Mark::Line, color })
            })
            .collect();
        let chart = Chart {
            title: (*title).to_owned(),
            x_label: TIME.to_owned(),
            y_label: (*unit).to_owned(),
            series,
            ..Chart::default()
        };
        page.figure(&chart, &format!("{title} under a voltage step."));
        pictures.push(chart);
    }
    // From data: parameters with their intervals, and a torque that nobody measured.
    let data_study = folder.join(embedded::DEMO_DATA_STUDY);
    let measured = load(&data_study, &LoadOptions::default())?;
    let refused = |failure: Failure| failure.diagnostics().to_vec();
    let identified = identify(&measured, &IdentifyOptions::default(), &mut |_| {}).map_err(refused)?;
    let theta: Vec<f64> = identified.parameters.iter().map(|parameter| parameter.estimate).collect();
    let estimated = estimate(&measured, Some(&theta), 0).map_err(refused)?;
    let signals = folder.join("estimates.csv");
    write_whole(&signals, estimated.table().to_csv().as_bytes()).map_err(|error| cannot_write(&signals, error))?;
    page.heading("What are its parameters?");
    let truth: Vec<String> = embedded::DEMO_TRUTH.iter().map(|(name, value)| format!("`{name}` = {value}")).collect();
    page.paragraph(&format!(
        "The data were made by the model itself, with {}, a random torque on the disk and errors of measurement.",
        truth.join(", ")
    ));
    identified.add_to(&mut page);
    page.heading("What went on inside?");
    estimated.add_to(&mut page);
    let report = folder.join("report.html");
    write_whole(&report, page.to_html().as_bytes()).map_err(|error| cannot_write(&report, error))?;
    for (at, chart) in pictures.iter().enumerate() {
        let path = folder.join(format!("figure-{}.svg", at + 1));
        write_whole(&path, chart.to_svg_file().as_bytes()).map_err(|error| cannot_write(&path, error))?;
    }
    let mut keys = Map::new();
    keys.insert("check".into(), Value::Object(check.to_json()));
    keys.insert("simulate".into(), Value::Object(trajectory.to_json()));
    keys.insert("identify".into(), Value::Object(identified.to_json()));
    keys.insert("estimate".into(), Value::Object(estimated.to_json()));
    keys.insert("report".into(), json!(report.display().to_string()));
    let text = format!(
        "{}\n{}\n{}\nThe data were made with {}.\n\n{}\nThe example is in {folder}: the model, the studies, the data, tables and report.html.\n\
         Try: daesy identify {study}\n",
        check.to_text(),
        trajectory.to_text(&check.model),
        identified.to_text(),
        truth.join(", ").replace('`', ""),
        estimated.to_text(),
        folder = folder.display(),
        study = data_study.display(),
    );
    Ok(Told { model: check.model.clone(), text, keys, diagnostics: check.diagnostics })
}
