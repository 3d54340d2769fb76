//! The cascaded tanks [@schoukens2016]: a physical model with overflow from the estimation record, and a study file to
//! apply it to another record.
//!
//! `cargo xtask study cascaded-tanks` writes `book/studies/cascaded-tanks`; the record is read from `DAESY_CASES`.
//! Expected time: 30 s.
#![forbid(unsafe_code)]

mod study;

use std::fmt::Write as _;

use study::fit::{Fit, note, with_error};
use study::{Record, digits, estimates, figure};

/// Published errors of simulation on the test record, in volt.
const PUBLISHED: [(&str, f64); 4] =
    [("linear model", 0.75), ("Volterra series", 0.54), ("neural network", 0.33), ("grey box with overflow", 0.18)];

/// What another record starts from is found anew.
const STARTS: [&str; 2] = ["upper.start", "lower.start"];

fn main() {
    let mut record = Record::new("cascaded-tanks");
    let data = record.case("data/cascaded_tanks_estimation.csv").display().to_string();
    let found = record.must(&format!("identify problems/cascaded_tanks/study.toml --data {data}"));
    note(&mut record, &found, "y");
    let fit = Fit::of(&found, "y");
    record.number("root mean squared simulation error, V", fit.rms());
    for of in estimates(&found).iter().filter(|of| of.name.starts_with("edge1")) {
        record.compare(
            &of.name,
            "benchmark",
            if of.name == "edge1.edge" { "about 10 V, in its own units" } else { "-" },
            &with_error(of.estimate, of.std_error),
            "",
        );
    }
    for (name, error) in PUBLISHED {
        record.compare(
            &format!("simulation error, {name}"),
            "benchmark, test record",
            &format!("{error} V"),
            "-",
            "the test record is not at hand here",
        );
    }
    record.compare(
        "simulation error, estimation record",
        "-",
        "-",
        &format!("{} V", digits(fit.rms(), 3)),
        "start levels estimated",
    );
    let mut identified = "# The tanks as identified. Applied to another record: daesy identify identified.toml --data RECORD.csv\n# finds its start levels and tells the simulation error.\n\n[model]\nfile = \"../../../problems/cascaded_tanks/model.mo\"\n\n[parameters]\n".to_owned();
    for of in estimates(&found).iter().filter(|of| !STARTS.contains(&of.name.as_str())) {
        let _ = writeln!(identified, "\"{}\" = {}", of.name, figure(of.estimate));
    }
    identified.push_str(
        "\n[unknown]\n\"upper.start\" = { start = 10.0, min = 0.1, max = 50.0 }\n\"lower.start\" = { start = 5.0, min = 0.1, max = 10.0 }\n\n\
         [inputs]\nu = { column = \"uEst\", hold = \"zoh\" }\n\n[measurements]\ny = { column = \"yEst\", std = 0.1 }\n\n\
         [data]\nfile = \"cascaded_tanks_estimation.csv\"\ntime = \"t\"\n\n[simulate]\nstop = 4092.0\nstep = 4.0\n\n[identify]\nmethod = \"output-error\"\n",
    );
    record.text("identified.toml", &identified);
    record.picture(
        "tanks",
        "Level of the lower tank as measured and as simulated from the pump voltage alone.",
        &fit.charts("Lower tank", "V", "simulated"),
    );
    record.write();
}
