//! The gas furnace of Box and Jenkins [@box2015]: a furnace and a pipe by maximum likelihood, beside the published
//! transfer function.
//!
//! `cargo xtask study gas-furnace` writes `book/studies/gas-furnace`; the record is read from `DAESY_CASES`. Expected
//! time: 10 s.
#![forbid(unsafe_code)]

mod study;

use study::fit::{Fit, note, with_error};
use study::{Record, digits, estimates};

/// The published model: (1 - 0.57 B) y = -(0.53 + 0.37 B + 0.51 B^2) x three samples before, noise AR(2), residual
/// variance.
const PUBLISHED_VARIANCE: f64 = 0.0561;

fn main() {
    let mut record = Record::new("gas-furnace");
    let data = record.case("data/gas_furnace.csv").display().to_string();
    let found = record.must(&format!("identify problems/gas_furnace/study.toml --data {data}"));
    note(&mut record, &found, "co2");
    let published_gain = -(0.53 + 0.37 + 0.51) / (1.0 - 0.57);
    // The mean delay of the published model: three samples, the numerator's mean and the pole's.
    let published_delay = 9.0 * (3.0 + (0.37 + 2.0 * 0.51) / (0.53 + 0.37 + 0.51) + 0.57 / (1.0 - 0.57));
    let all = estimates(&found);
    let value = |name: &str| {
        all.iter().find(|of| of.name == name).map_or((f64::NAN, f64::NAN), |of| (of.estimate, of.std_error))
    };
    let (gain, error) = value("gain");
    record.compare(
        "steady gain",
        "[@box2015]",
        &digits(published_gain, 3),
        &with_error(gain, error),
        "percent CO2 per unit of gas",
    );
    let delay = value("travel").0 + value("furnace.tau").0;
    record.number("mean delay, s", delay);
    record.compare(
        "mean delay",
        "[@box2015]",
        &format!("{} s", digits(published_delay, 3)),
        &format!("{} s", digits(delay, 3)),
        "travel and mixing; the published one counts from the sample, ours from the curve through the samples",
    );
    let fit = Fit::of(&found, "co2");
    let variance = fit.rms().powi(2);
    record.number("variance of the one-step residuals", variance);
    record.compare(
        "variance of the one-step residuals",
        "[@box2015]",
        &PUBLISHED_VARIANCE.to_string(),
        &digits(variance, 3),
        "eight parameters here, six there",
    );
    record.picture(
        "furnace",
        "Carbon dioxide of the furnace: measured and predicted one sample ahead.",
        &fit.charts("Carbon dioxide", "%", "predicted"),
    );
    record.write();
}
