//! The coupled electric drives [@wigren2017]: two experiments in one file, a sensor that does not see the sign of the
//! speed.
//!
//! `cargo xtask study coupled-drives` writes `book/studies/coupled-drives`; the record is read from `DAESY_CASES`.
//! Expected time: 60 s.
#![forbid(unsafe_code)]

mod study;

use study::fit::{Fit, note, with_error};
use study::{Record, digits, estimates};

fn main() {
    let mut record = Record::new("coupled-drives");
    let data = record.case("data/ced_uniform_first400.csv").display().to_string();
    let found = record.must(&format!("identify problems/coupled_drives/study.toml --data {data}"));
    note(&mut record, &found, "z");
    for of in estimates(&found) {
        record.compare(&of.name, "-", "-", &with_error(of.estimate, of.std_error), "");
    }
    let fit = Fit::of(&found, "z");
    let parts = fit.experiments();
    for (at, part) in parts.iter().enumerate() {
        record.number(&format!("experiment {}, root mean squared simulation error", at + 1), part.rms());
    }
    let ours = parts.iter().map(|part| digits(part.rms(), 3)).collect::<Vec<_>>().join(" and ");
    record.compare(
        "simulation error, both experiments",
        "-",
        "none published for these 400 samples",
        &ours,
        "in units of the record; dry friction matters most",
    );
    let linear = record.ask(&format!("identify problems/coupled_drives/without_friction.toml --data {data}"));
    let rms = Fit::of(&linear, "z").rms();
    record.number("without dry friction, root mean squared simulation error", rms);
    record.compare("the same without dry friction", "-", "-", &digits(rms, 3), "linear but for the sensor");
    let mut charts = parts[0].charts("First experiment, speed", "ticks/s", "simulated");
    charts.insert(
        1,
        parts.last().expect("there are two").charts("Second experiment, speed", "ticks/s", "simulated").swap_remove(0),
    );
    record.picture("drives", "Speed without its sign, as counted and as simulated from the voltage.", &charts);
    record.write();
}
