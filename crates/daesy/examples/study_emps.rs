//! The positioning axis EMPS [@janot2019]: inertia and friction from its reference and its command, in closed loop,
//! beside the published values.
//!
//! `cargo xtask study emps` writes `book/studies/emps`; the record is read from `DAESY_CASES`. Expected time: 40 s.
#![forbid(unsafe_code)]

mod study;

use daesy::report::chart::{Chart, Series};
use study::fit::{Fit, note, with_error};
use study::{Record, column, digits, estimates, read_table};

/// Published least-squares estimates: name, value, standard deviation.
const PUBLISHED: [(&str, f64, f64); 4] =
    [("M", 95.1089, 0.1085), ("Fv", 203.5034, 1.146), ("Fc", 20.3935, 0.1012), ("offset", -3.1648, 0.0444)];

/// The published relative error of the position in closed loop, percent.
const PUBLISHED_ERROR: f64 = 0.0138;

fn main() {
    let mut record = Record::new("emps");
    let data = record.case("data/emps_estimation.csv");
    let shown = data.display().to_string();
    let found = record.must(&format!("identify problems/emps/study.toml --data {shown}"));
    note(&mut record, &found, "vir");
    let estimates = estimates(&found);
    for (of, (name, value, std)) in estimates.iter().zip(PUBLISHED) {
        let off = 100.0 * (of.estimate / value - 1.0);
        let theirs = format!("{value} ({std})");
        let ours = with_error(of.estimate, of.std_error);
        record.compare(name, "Janot et al.", &theirs, &ours, &format!("{off:+.2} %"));
    }
    let settings: Vec<String> =
        estimates.iter().map(|of| format!("--set {}={}", of.name, study::figure(of.estimate))).collect();
    let run = record.must(&format!("simulate problems/emps/study.toml --data {shown} {}", settings.join(" ")));
    let table = run.table.clone().expect("a simulation has a table");
    let (t, q) = (column(&table, "t"), column(&table, "q"));
    let measured = read_table(&data);
    let (times, positions) = (column(&measured, "t"), column(&measured, "qm"));
    // The table has a row every millisecond, the record nearly so: between rows the position is interpolated.
    let (mut squares, mut total) = (0.0, 0.0);
    let (mut errors, mut kept) = (Vec::new(), Vec::new());
    for (time, position) in times.iter().zip(positions) {
        let at = t.partition_point(|known| known < time).clamp(1, t.len() - 1);
        let share = (time - t[at - 1]) / (t[at] - t[at - 1]).max(1e-12);
        if share <= 1.0 {
            let error = q[at - 1] + share * (q[at] - q[at - 1]) - position;
            squares += error * error;
            total += position * position;
            errors.push(1e6 * error);
            kept.push(*time);
        }
    }
    let relative = 100.0 * (squares / total).sqrt();
    record.number("closed-loop position error, percent", relative);
    record.compare(
        "position error in closed loop",
        "Janot et al.",
        &format!("{PUBLISHED_ERROR} %"),
        &format!("{} %", digits(relative, 2)),
        "norm of the error over the norm of the position",
    );
    let mut charts = Fit::of(&found, "vir").charts("Command", "V", "simulated");
    charts.push(Chart {
        title: "Error of the simulated position, closed loop".to_owned(),
        x_label: "time, s".to_owned(),
        y_label: "micrometres".to_owned(),
        series: vec![Series::line("", &kept, &errors, 2)],
        ..Chart::default()
    });
    record.picture(
        "axis",
        "The command of the controller as measured and as simulated, what is left, and the error of the position.",
        &charts,
    );
    record.write();
}
