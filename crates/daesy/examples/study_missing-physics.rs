//! What physics is missing? The positioning axis EMPS and the cascaded tanks with a Matern process for what their models
//! leave out: the process over time, and as a curve over what it may depend on.
//!
//! `cargo xtask study missing-physics` writes `book/studies/missing-physics`; the records are read from `DAESY_CASES`.
//! Expected time: one minute.
#![forbid(unsafe_code)]

mod study;

use std::fmt::Write as _;

use daesy::report::chart::{Chart, Mark, Series};
use daesy::table::Table;
use study::fit::{Fit, note};
use study::{Record, column, estimates, figure, number_at, read_table};

/// Rows of the axis between two of its positions that are used.
const EVERY: usize = 50;

/// The axis rests when it moves by less than this in ten milliseconds, in metres.
const REST: f64 = 2e-5;

/// Intervals of a curve.
const N_BINS: usize = 24;

/// The record of the axis with the sense of its motion, which friction opposes, and its position now and then.
fn axis_record(data: &Table) -> String {
    let (t, position, command) = (column(data, "t"), column(data, "qm"), column(data, "vir"));
    let mut text = "t,vir,way,qm\n".to_owned();
    for at in 0..t.len() {
        let change = position[(at + 5).min(t.len() - 1)] - position[at.saturating_sub(5)];
        let way = if change.abs() < REST { 0.0 } else { change.signum() };
        let seen = if at % EVERY == 0 { position[at].to_string() } else { String::new() };
        let _ = writeln!(text, "{},{},{way},{seen}", t[at], command[at]);
    }
    text
}

/// Means of a quantity with their standard errors, over intervals of another that have as many values each.
fn curve(x: &[f64], y: &[f64]) -> [Vec<f64>; 3] {
    let mut pairs: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).filter(|(_, y)| y.is_finite()).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut found = [Vec::new(), Vec::new(), Vec::new()];
    for bin in 0..N_BINS {
        let part = &pairs[bin * pairs.len() / N_BINS..(bin + 1) * pairs.len() / N_BINS];
        let n = part.len() as f64;
        let mean = part.iter().map(|(_, y)| y).sum::<f64>() / n;
        let variance = part.iter().map(|(_, y)| (y - mean).powi(2)).sum::<f64>() / n;
        found[0].push(part.iter().map(|(x, _)| x).sum::<f64>() / n);
        found[1].push(mean);
        found[2].push(variance.sqrt());
    }
    found
}

/// A signal over time with two standard deviations to either side.
fn over_time(title: &str, unit: &str, table: &Table, name: &str) -> Chart {
    let (t, value) = (column(table, "t"), column(table, &format!("{name}.smoothed")));
    let std = column(table, &format!("{name}.smoothed.std"));
    let side = |sign: f64| value.iter().zip(std).map(|(a, b)| a + sign * 2.0 * b).collect::<Vec<f64>>();
    Chart {
        title: title.to_owned(),
        x_label: "time, s".to_owned(),
        y_label: unit.to_owned(),
        series: vec![
            Series::line("two standard deviations", t, &side(-1.0), 7),
            Series::line("", t, &side(1.0), 7),
            Series::line("smoothed", t, value, 0),
        ],
        ..Chart::default()
    }
}

/// What is missing over what it may depend on.
fn as_curve(title: &str, labels: [&str; 2], x: &[f64], y: &[f64]) -> Chart {
    let [place, mean, spread] = curve(x, y);
    let side = |sign: f64| mean.iter().zip(&spread).map(|(a, b)| a + sign * b).collect::<Vec<f64>>();
    Chart {
        title: title.to_owned(),
        x_label: labels[0].to_owned(),
        y_label: labels[1].to_owned(),
        series: vec![
            Series::line("spread", &place, &side(-1.0), 7),
            Series::line("", &place, &side(1.0), 7),
            Series::line("mean", &place, &mean, 0),
            Series::line("", &place, &mean, 0).with_mark(Mark::Dots),
        ],
        levels: vec![0.0],
        ..Chart::default()
    }
}

/// One machine: identified, estimated, and what is missing.
struct Machine<'a> {
    name: &'a str,
    study: &'a str,
    data: &'a str,
    output: &'a str,
    missing: &'a str,
    unit: &'a str,
}

impl Machine<'_> {
    fn run(&self, record: &mut Record, over: impl Fn(&Table) -> (Vec<f64>, &'static str)) {
        let found = record.must(&format!("identify {} --data {}", self.study, self.data));
        note(record, &found, self.output);
        record.number(
            &format!("{}: lag-1 autocorrelation of the residuals", self.name),
            number_at(&found, &["residuals", self.output, "lag_autocorrelation"]),
        );
        let values: Vec<String> =
            estimates(&found).iter().map(|of| format!("--set {}={}", of.name, figure(of.estimate))).collect();
        let estimated = record.must(&format!("estimate {} --data {} {}", self.study, self.data, values.join(" ")));
        let table = estimated.table.clone().expect("estimates have a table");
        let (x, label) = over(&table);
        let missing = column(&table, &format!("{}.smoothed", self.missing));
        let mut fit = Fit::of(&found, self.output);
        let kept: Vec<usize> = (0..fit.t.len()).filter(|&at| fit.measured[at].is_finite()).collect();
        for values in [&mut fit.t, &mut fit.measured, &mut fit.modelled] {
            *values = kept.iter().map(|&at| values[at]).collect();
        }
        let mut charts = vec![
            over_time("What the model leaves out, over time", self.unit, &table, self.missing),
            as_curve("What the model leaves out, as a curve", [label, self.unit], &x, missing),
        ];
        charts.extend(fit.charts("Output", "", "predicted").pop());
        let caption = "What the model leaves out over time and as a curve, and what is left of the residuals.";
        record.picture(self.name, caption, &charts);
    }
}

fn main() {
    let mut record = Record::new("missing-physics");
    let axis = std::env::temp_dir().join("emps_way.csv");
    let text = axis_record(&read_table(&record.case("data/emps_estimation.csv")));
    std::fs::write(&axis, text).expect("the folder for temporary files can be written");
    let emps = Machine {
        name: "axis",
        study: "problems/emps/missing.toml",
        data: &axis.display().to_string(),
        output: "q",
        missing: "missing",
        unit: "N",
    };
    emps.run(&mut record, |table| (column(table, "v.smoothed").to_vec(), "speed, m/s"));
    let data = record.case("data/cascaded_tanks_estimation.csv").display().to_string();
    let tanks = Machine {
        name: "tanks",
        study: "problems/cascaded_tanks/missing.toml",
        data: &data,
        output: "y",
        missing: "leak",
        unit: "V/s",
    };
    tanks.run(&mut record, |table| (column(table, "upper.level.smoothed").to_vec(), "level of the upper tank, V"));
    record.write();
    let _ = std::fs::remove_file(axis);
}
