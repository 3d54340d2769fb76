//! Do designed experiments tell what `daesy design` says? Standard errors that it expects beside the errors of estimates
//! from simulated records, for the servo, a crane of index 3 and two tanks; and the designed input beside plain steps.
//!
//! `cargo xtask study design-errors [N [NAME]]` takes N records of each designed experiment (200 when left out), and a
//! quarter of it of the plain one. Records are simulated in minimal coordinates, by other means than daesy's. Half an
//! hour on two cores.
#![forbid(unsafe_code)]

mod study;

use daesy::Model;
use daesy::design::{Plan, design};
use daesy::identify::IdentifyOptions;
use daesy::table::Table;
use rayon::prelude::*;
use study::noise::Noise;
use study::{Record, digits};

/// Small steps between two samples of a plan.
const N_STEPS: usize = 200;

/// An experiment to design, with its own simulation.
struct Case {
    name: &'static str,
    study: String,
    model: String,
    /// Values of the unknowns.
    truth: &'static [f64],
    /// The unknown that is to be found best.
    goal: &'static str,
    /// What the columns of a record are, after the time.
    columns: &'static [&'static str],
    /// State at the start, the disturbance last.
    start: fn(&mut Noise) -> Vec<f64>,
    /// Derivatives of the state under an input, but for the noise.
    slope: fn(&[f64], f64) -> Vec<f64>,
    /// Size of the white noise in the last state.
    noise: f64,
    /// What is measured, with the standard deviations of its errors.
    measured: fn(&[f64]) -> Vec<(f64, f64)>,
}

impl Case {
    /// A record of a plan: Heun's method, the noise added after each small step.
    fn record(&self, plan: &Plan, seed: u64) -> Table {
        let mut noise = Noise::new(seed);
        let mut state = (self.start)(&mut noise);
        let mut columns = vec![Vec::new(); 1 + self.columns.len()];
        for (at, &time) in plan.times.iter().enumerate() {
            let input = plan.inputs[0][at];
            columns[0].push(time);
            columns[1].push(input);
            for (column, (value, std)) in columns[2..].iter_mut().zip((self.measured)(&state)) {
                column.push(value + std * noise.normal());
            }
            let Some(next) = plan.times.get(at + 1) else { break };
            let step = (next - time) / N_STEPS as f64;
            for _ in 0..N_STEPS {
                let first = (self.slope)(&state, input);
                let moved: Vec<f64> = state.iter().zip(&first).map(|(x, k)| x + step * k).collect();
                let second = (self.slope)(&moved, input);
                for (x, (a, b)) in state.iter_mut().zip(first.iter().zip(&second)) {
                    *x += 0.5 * step * (a + b);
                }
                let last = state.len() - 1;
                state[last] += self.noise * step.sqrt() * noise.normal();
            }
        }
        let names = std::iter::once("t").chain(self.columns.iter().copied()).map(str::to_owned).collect();
        Table { names, columns }
    }

    /// Root mean square errors of the unknowns over records of a plan.
    fn errors(&self, study: &Model, plan: &Plan, n_records: u64) -> (Vec<f64>, u64) {
        let found: Vec<Option<Vec<f64>>> = (0..n_records)
            .into_par_iter()
            .map(|set| {
                let record = study.with_data(vec![self.record(plan, 7000 + set)]).expect("a record fits its study");
                match record.identify(&IdentifyOptions::default()) {
                    Ok(found) if found.converged => Some(found.parameters.iter().map(|it| it.estimate).collect()),
                    _ => None,
                }
            })
            .collect();
        let found: Vec<Vec<f64>> = found.into_iter().flatten().collect();
        let n = found.len() as f64;
        let root = |at: usize| (found.iter().map(|it| (it[at] - self.truth[at]).powi(2)).sum::<f64>() / n).sqrt();
        ((0..self.truth.len()).map(root).collect(), found.len() as u64)
    }
}

fn problem(name: &str, file: &str) -> String {
    let path = format!("{}/../../problems/{name}/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn servo() -> Case {
    let study = problem("servo", "identify.toml")
        .replace("start = 10.0", "start = 20.0")
        .replace("start = 1e-4", "start = 2e-4");
    let study = study.replace("start = 0.05", "start = 0.1")
        + "\n[design]\nduration = 5.0\nstep = 0.02\ncriterion = \"spring.c\"\n\
           inputs = { voltage = { kind = \"steps\", min = -6.0, max = 6.0 } }\n";
    Case {
        name: "servo",
        study,
        model: problem("servo", "model.mo"),
        truth: &[20.0, 2e-4, 0.1],
        goal: "spring.c",
        columns: &["u", "phi"],
        start: |noise| vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.5 * noise.normal()],
        slope: |x, u| {
            let (resistance, inductance, k, inertia, friction, ratio, c, disk) =
                (2.0, 0.005, 0.1, 1e-4, 2e-4, 5.0, 20.0, 0.02);
            let tau = c * (x[3] - x[1] / ratio);
            vec![
                (u - resistance * x[0] - k * x[2]) / inductance,
                x[2],
                (k * x[0] - friction * x[2] + tau / ratio) / inertia,
                x[4],
                (0.1 * x[5] - tau) / disk,
                -2.0 * x[5],
            ]
        },
        noise: 1.0,
        measured: |x| vec![(x[3], 0.01)],
    }
}

fn crane() -> Case {
    Case {
        name: "crane",
        study: problem("crane", "experiment.toml") + "\n[data]\nfile = \"data\"\n",
        model: problem("crane", "model.mo"),
        truth: &[8.0, 0.4],
        goal: "c",
        columns: &["u", "s", "angle"],
        start: |noise| vec![0.0, 0.0, 0.0, 0.0, 0.5 * noise.normal()],
        slope: |z, u| {
            let (trolley, load, rope, g, d, c) = (10.0, 4.0, 3.0, 9.81, 8.0, 0.4);
            let (v, angle, rate, wind) = (z[1], z[2], z[3], z[4]);
            let (sine, cosine) = angle.sin_cos();
            let force_x = wind - c * (v + rope * rate * cosine);
            let force_y = -c * rope * rate * sine - load * g;
            let (a, b, e) = (trolley + load, load * rope * cosine, load * rope * rope);
            let right =
                [u - d * v + force_x + load * rope * sine * rate * rate, rope * (cosine * force_x + sine * force_y)];
            let det = a * e - b * b;
            vec![v, (right[0] * e - b * right[1]) / det, rate, (a * right[1] - b * right[0]) / det, -wind]
        },
        noise: 0.5 * std::f64::consts::SQRT_2,
        measured: |z| vec![(z[0], 0.002), (z[2], 0.002)],
    }
}

fn tanks() -> Case {
    Case {
        name: "tanks",
        study: "[model]\nfile = \"model.mo\"\n[unknown]\na1 = { start = 0.3, min = 0.1, max = 1 }\n\
                a2 = { start = 0.2, min = 0.05, max = 1 }\n[inputs]\nq = { column = \"q\" }\n\
                [disturbances]\nw = { std = 0.02, time_constant = 1.0 }\n[measurements]\nh2 = { std = 0.02 }\n\
                [data]\nfile = \"data\"\n[design]\nduration = 100\nstep = 0.5\ncriterion = \"a1\"\n\
                inputs = { q = { kind = \"steps\", min = 0.1, max = 0.5 } }\n"
            .to_owned(),
        model: "model Tanks\n  parameter Real a1 = 0.3, a2 = 0.2;\n  input Real q, w;\n\
                Real h1(start = 1, fixed = true), h2(start = 0.5, fixed = true);\nequation\n\
                der(h1) = q + w - a1*sqrt(h1);\n  der(h2) = a1*sqrt(h1) - a2*sqrt(h2);\nend Tanks;\n"
            .to_owned(),
        truth: &[0.3, 0.2],
        goal: "a1",
        columns: &["q", "h2"],
        start: |noise| vec![1.0, 0.5, 0.02 * noise.normal()],
        slope: |h, q| {
            let (upper, lower) = (0.3 * h[0].max(0.0).sqrt(), 0.2 * h[1].max(0.0).sqrt());
            vec![q + h[2] - upper, upper - lower, -h[2]]
        },
        noise: 0.02 * std::f64::consts::SQRT_2,
        measured: |h| vec![(h[1], 0.02)],
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let n_records: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(200);
    let only = words.next();
    let mut record = Record::new("design-errors");
    record.number("records of each designed experiment", n_records as f64);
    for case in [servo(), crane(), tanks()].into_iter().filter(|case| only.as_ref().is_none_or(|it| it == case.name)) {
        let study = Model::parse_study(&case.study, &case.model).unwrap_or_else(|failure| panic!("{failure:?}"));
        let found = design(study.loaded(), 0).unwrap_or_else(|failure| panic!("{failure:?}"));
        let (plan, verdict) = found.better.as_ref().expect("the study has an input to design");
        let goal = found.unknowns.iter().position(|name| name == case.goal).expect("the goal is an unknown");
        let (plain, _) = case.errors(&study, &found.plan, n_records.div_ceil(4));
        let (errors, n_found) = case.errors(&study, plan, n_records);
        record.number(&format!("{}: records that were identified", case.name), n_found as f64);
        for (at, unknown) in found.unknowns.iter().enumerate() {
            let ratio = errors[at] / verdict.std_errors[at];
            record.number(&format!("{}, {unknown}: found over expected error", case.name), ratio);
            println!(
                "{}, {unknown}: expected {}, found {} over {n_found} records ({:+.1} %)",
                case.name,
                digits(verdict.std_errors[at], 3),
                digits(errors[at], 3),
                100.0 * (ratio - 1.0)
            );
        }
        let expected = found.planned.std_errors[goal] / verdict.std_errors[goal];
        record.number(&format!("{}, {}: gain over steps, expected", case.name, case.goal), expected);
        record.number(&format!("{}, {}: gain over steps, found", case.name, case.goal), plain[goal] / errors[goal]);
    }
    record.write();
}
