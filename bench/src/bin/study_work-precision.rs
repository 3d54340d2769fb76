//! Work and precision as pictures: error against processor time, daesy's and peers', for the problems of the benchmark
//! `solve`, and daesy's alone for others of the public test sets of differential-algebraic equations.
//!
//! Times are those of one machine on one day; the pictures show how curves lie to each other.
#![forbid(unsafe_code)]

#[path = "../../../crates/daesy/examples/study/mod.rs"]
mod study;

use daesy::Model;
use daesy::report::chart::{Chart, Mark, Scale, Series};
use daesy_bench::clock::best_of;
use daesy_bench::ivp::race::{Models, Point, SOLVERS, at_tolerance, cost_at};
use daesy_bench::ivp::{PROBLEMS, Problem};
use study::{Record, digits, figure};

/// Tolerances are ten to the minus these.
const DIGITS: std::ops::RangeInclusive<i32> = 2..=11;

/// Errors at which costs are compared in the table.
const ERRORS: [f64; 3] = [1e-3, 1e-5, 1e-7];

/// Runs of which the fastest counts, where daesy is alone.
const N_RUNS: usize = 3;

/// Problems of the test sets that nobody reduced by hand here, with the sizes that errors are relative to and the powers
/// of ten of their tolerances.
const ALONE: [(&str, f64, std::ops::RangeInclusive<i32>); 7] = [
    ("charge_pump", 1.0, 3..=10),
    ("fekete", 1.0, 3..=9),
    ("nand_gate", 1.0, 3..=10),
    ("ring_modulator", 1e-6, 4..=10),
    ("slider_crank", 1.0, 3..=11),
    ("water_tubes", 1e-3, 4..=10),
    ("wheelset", 1e-3, 4..=10),
];

fn main() {
    let mut record = Record::new("work-precision");
    let (mut with_peers, mut rows) = (Vec::new(), Vec::new());
    for problem in PROBLEMS {
        let (chart, row) = race(problem);
        with_peers.push(chart);
        rows.push(row);
    }
    for (file, charts) in ["first", "second"].into_iter().zip(with_peers.chunks(3)) {
        let caption = "Processor time of one run over the error at the end, both downwards better. The peers solve \
                       forms of index 1 that were reduced by hand, with analytic Jacobians; daesy the problem as it is \
                       published.";
        record.picture(&format!("peers-{file}"), caption, charts);
    }
    let alone: Vec<Chart> = ALONE.into_iter().map(|(name, scale, powers)| on_its_own(name, scale, powers)).collect();
    record.picture(
        "alone",
        "Further problems of the test sets, as they are published, by daesy alone.",
        &[together(alone)],
    );
    for row in rows {
        for (error, ratio) in ERRORS.iter().zip(row.ratios) {
            if let Some(ratio) = ratio {
                record.number(&format!("{}: best peer over daesy at an error of {}", row.name, figure(*error)), ratio);
            }
        }
    }
    record.write();
}

/// How much longer the best peer takes at each of the errors.
struct Row {
    name: &'static str,
    ratios: [Option<f64>; 3],
}

fn race(problem: &Problem) -> (Chart, Row) {
    let models = Models::load(problem).unwrap_or_else(|unreached| panic!("{}: {}", problem.folder, unreached.reason));
    let mut curves: [Vec<Point>; 4] = Default::default();
    for power in DIGITS {
        let found = at_tolerance(problem, &models, 10f64.powi(-power));
        for (curve, found) in curves.iter_mut().zip(found) {
            curve.extend(found.ok().map(|timed| Point { error: timed.reached.error, cost: timed.seconds }));
        }
    }
    let series = SOLVERS.iter().zip(&curves).enumerate();
    let series = series.flat_map(|(color, (solver, curve))| drawn(solver.name(), curve, color)).collect();
    let ratios = ERRORS.map(|error| {
        let own = cost_at(&curves[0], error)?;
        let peers = curves[1..].iter().filter_map(|curve| cost_at(curve, error));
        peers.min_by(f64::total_cmp).map(|best| best / own)
    });
    let told: Vec<String> = ratios.iter().flatten().map(|ratio| digits(*ratio, 3)).collect();
    eprintln!("{}: {}", problem.folder, told.join(", "));
    (chart(problem.folder, series), Row { name: problem.folder, ratios })
}

/// A line through the points with a dot at each.
fn drawn(name: &str, curve: &[Point], color: usize) -> [Series; 2] {
    let (x, y): (Vec<f64>, Vec<f64>) = curve.iter().map(|point| (point.error, 1e3 * point.cost)).unzip();
    [Series::line(name, &x, &y, color), Series::line("", &x, &y, color).with_mark(Mark::Dots)]
}

fn chart(title: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.replace('_', " "),
        x_label: "largest error at the end".to_owned(),
        y_label: "milliseconds".to_owned(),
        series,
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        ..Chart::default()
    }
}

/// Times of whole runs, events included, at tolerances; errors against the last values of the reference.
fn on_its_own(folder: &str, scale: f64, powers: std::ops::RangeInclusive<i32>) -> Chart {
    let place = format!("problems/{folder}");
    let model = Model::open(format!("{place}/study.toml")).unwrap_or_else(|failure| panic!("{failure}"));
    let simulator = model.simulator().unwrap_or_else(|failure| panic!("{failure}"));
    let expected = reference(&format!("{place}/reference.toml"));
    let mut curve = Vec::new();
    for power in powers {
        let mut options = simulator.options.clone();
        options.rtol = 10f64.powi(-power);
        options.atol = options.rtol * scale;
        options.stop = expected.time;
        options.output_times = vec![expected.time];
        let Ok(trajectory) = simulator.run(&options) else { continue };
        let value = |name: &str| {
            let table = &trajectory.table;
            let at = table.names.iter().position(|known| known == name);
            at.and_then(|at| table.columns[at].last().copied()).unwrap_or(f64::NAN)
        };
        let off = |(name, expected): &(String, f64)| (value(name) - expected).abs() / (scale + expected.abs());
        let error = expected.values.iter().map(off).fold(0.0, f64::max);
        let seconds = best_of(N_RUNS, || simulator.run(&options));
        eprintln!("{folder} at 1e-{power}: error {error:.1e}, {:.2} ms", 1e3 * seconds);
        curve.push(Point { error, cost: seconds });
    }
    chart(folder, drawn(folder, &curve, 0).into())
}

/// Several problems in one chart, each with a colour of its own.
fn together(charts: Vec<Chart>) -> Chart {
    let mut series = Vec::new();
    for (color, of) in charts.into_iter().enumerate() {
        series.extend(of.series.into_iter().map(|one| Series { color, ..one }));
    }
    chart("one run of each", series)
}

/// The last point of a reference.
struct Expected {
    time: f64,
    values: Vec<(String, f64)>,
}

fn reference(path: &str) -> Expected {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let last = table["points"].as_array().and_then(|points| points.last()).expect("a reference has points");
    let number = |value: &toml::Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let values = last["values"].as_table().into_iter().flatten();
    Expected {
        time: number(&last["time"]).expect("a point has a time"),
        values: values.filter_map(|(name, value)| Some((name.clone(), number(value)?))).collect(),
    }
}
