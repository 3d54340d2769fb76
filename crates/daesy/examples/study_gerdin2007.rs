//! Sections 4 and 7 of [@gerdin2007]: an estimation problem that is not well-posed and its repair; a servo identified
//! and its spring torque estimated.
//!
//! `cargo xtask study gerdin2007` writes `book/studies/gerdin2007`. Expected time: 10 s.
#![forbid(unsafe_code)]

mod study;

use daesy::program::Status;
use daesy::report::chart::{Chart, Mark, Series};
use study::{Record, at, column, digits, estimates, number_at, read_table};

fn main() {
    let mut record = Record::new("gerdin2007");

    // Section 4.
    for (study, place, theirs, remark) in [
        ("study.toml", "(10)", "ill-posed", "v1 reaches y directly: pole excess 2 needed, 0 there"),
        ("repaired.toml", "sec. 4", "well-posed", "1/(0.01 p + 1) before sampling"),
        ("coloured.toml", "Theorem 3", "-", "our own other repair: a spectrum that falls off"),
        (
            "domain.toml",
            "Definition 1",
            "ill-posed",
            "y = z1 + (theta - 1) z2: finite where the search starts, nowhere else",
        ),
    ] {
        let answer = record.ask(&format!("check problems/gerdin_ill_posed/{study}"));
        let is_well_posed = at(&answer, &["stochastic", "well_posed"]).as_bool();
        let ours = match is_well_posed {
            Some(true) => "well-posed",
            Some(false) if answer.status == Status::Fault => "ill-posed, exit status 1",
            Some(false) => "ill-posed",
            None => "unknown",
        };
        record.compare(&format!("problems/gerdin_ill_posed/{study}"), place, theirs, ours, remark);
    }

    // Section 5: the start x_s(t_0) is free, the noise sets x_a(t_0).
    let started = record.must("identify problems/noisy_start/study.toml");
    let swapped = record.must("identify problems/noisy_start/swapped.toml");
    let likelihood = |answer| number_at(answer, &["log_likelihood"]);
    record.number("noisy start, log-likelihood", likelihood(&started));
    let off = (likelihood(&started) - likelihood(&swapped)).abs();
    let of = &estimates(&started)[0];
    let holds = of.interval[0] <= 1.0 && 1.0 <= of.interval[1];
    record.compare(
        "estimated start, noise in the algebraic part",
        "sec. 5",
        "x_s(t_0) free",
        &format!("a = {} +- {}", digits(of.estimate, 3), digits(of.std_error, 2)),
        if holds { "made at a = 1, which the interval holds" } else { "made at a = 1, which the interval misses" },
    );
    record.compare(
        "the same in another order and other units",
        "sec. 5",
        "-",
        if off < 1e-8 { "the same log-likelihood to 1e-8" } else { "another log-likelihood" },
        "free is what neither inputs nor noise determine",
    );

    // Section 7.
    let found = record.must("identify problems/servo/identify.toml");
    let truth = [("spring.c", 20.0), ("motor.d", 2e-4), ("sigma", 0.1)];
    for (of, (name, true_value)) in estimates(&found).iter().zip(truth) {
        record.number(&format!("{name}, estimate"), of.estimate);
        record.number(&format!("{name}, standard error"), of.std_error);
        let is_inside = of.interval[0] <= true_value && true_value <= of.interval[1];
        let ours = format!("{} +- {}", digits(of.estimate, 4), digits(of.std_error, 2));
        let remark = if is_inside { "the 95 % interval holds the truth" } else { "the 95 % interval misses the truth" };
        let theirs = format!("no numbers; our data are made at {}", digits(true_value, 1));
        record.compare(name, "sec. 7", &theirs, &ours, remark);
    }
    record.number("log-likelihood", number_at(&found, &["log_likelihood"]));
    record.number("fit of the predicted angle, percent", number_at(&found, &["fit_percent", "phi"]));
    record.number("whiteness of the residuals, p", number_at(&found, &["residuals", "phi", "whiteness_p"]));
    let estimated = record.must("estimate problems/servo/identify.toml --identify");
    let table = estimated.table.clone().expect("an estimate has a table");
    let t = column(&table, "t");
    let (torque, error) = (column(&table, "spring.tau.smoothed"), column(&table, "spring.tau.smoothed.std"));
    let mean = error.iter().sum::<f64>() / error.len() as f64;
    record.number("spring torque, mean standard deviation, N m", mean);
    record.compare(
        "spring torque from the angle of the disk",
        "sec. 7",
        "estimated, no figure",
        &format!("+- {} N m", digits(mean, 2)),
        "smoothed, one standard deviation on average",
    );
    let data = read_table(std::path::Path::new("problems/servo/servo.csv"));
    let bound = |sign: f64| torque.iter().zip(error).map(|(m, s)| m + sign * 1.96 * s).collect::<Vec<f64>>();
    let charts = [
        Chart {
            title: "Measured angle of the disk".to_owned(),
            x_label: "time, s".to_owned(),
            y_label: "rad".to_owned(),
            series: vec![Series::line("phi", column(&data, "t"), column(&data, "phi"), 0).with_mark(Mark::Dots)],
            ..Chart::default()
        },
        Chart {
            title: "Torque of the spring, which nobody measured".to_owned(),
            x_label: "time, s".to_owned(),
            y_label: "N m".to_owned(),
            series: vec![Series::band("95 %", t, &bound(-1.0), &bound(1.0), 1), Series::line("smoothed", t, torque, 1)],
            ..Chart::default()
        },
    ];
    record.picture(
        "servo",
        "From voltage and angle of the disk to the torque in the spring, with its uncertainty.",
        &charts,
    );
    record.write();
}
