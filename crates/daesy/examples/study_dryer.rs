//! A hair dryer and a gas furnace: component models of classical records, by maximum likelihood.
//!
//! `cargo xtask study dryer` writes `book/studies/dryer`; the records are read from `DAESY_CASES`. Expected time: 10 s.
#![forbid(unsafe_code)]

mod study;

use study::fit::{Fit, note, with_error};
use study::{Record, digits, estimates, number_at};

fn main() {
    let mut record = Record::new("dryer");
    let data = record.case("data/daisy_dryer.csv").display().to_string();
    let found = record.must(&format!("identify problems/dryer/study.toml --data {data}"));
    note(&mut record, &found, "y");
    for of in estimates(&found) {
        let (place, theirs, remark) = match of.name.as_str() {
            "travel" => ("[@ljung1999]", "delay of 3 samples, 0.24 s", "with the thermocouple's lag the same delay"),
            _ => ("-", "-", ""),
        };
        record.compare(&of.name, place, theirs, &with_error(of.estimate, of.std_error), remark);
    }
    let fit = number_at(&found, &["fit_percent", "y"]);
    record.compare("one-step prediction", "-", "-", &format!("{} % of the variation", digits(fit, 3)), "");
    record.picture(
        "dryer",
        "Temperature of the dryer's air: measured and predicted one sample ahead.",
        &Fit::of(&found, "y").charts("Dryer", "V", "predicted"),
    );
    record.write();
}
