//! How often 95 % intervals hold the truth of the servo, and how often the bands that `uq` makes of a saved identification
//! hold the true motion.
//!
//! Argument: number of data sets (500).
#![forbid(unsafe_code)]

mod coverage;
mod study;

use std::path::{Path, PathBuf};

use coverage::{Coverage, Noise, runge_kutta};
use daesy::Model;
use daesy::identify::Identification;
use daesy::table::Table;
use daesy::uq::UqSettings;
use study::read_table;

/// Times at which bands are looked at.
const LOOKED_AT: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];

/// Small steps between two samples.
const N_SMALL: usize = 40;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/servo")
}

/// Times, voltages and angles of the disk under a torque that is given at small steps.
///
/// ```text
/// L i' = u - R i - k w_r,   J w_r' = k i - d w_r - tau / 5,   J_d w_d' = tau + torque,   tau = c (phi_r / 5 - phi_d)
/// ```
fn motion(torque: impl Fn(usize, f64) -> f64) -> Table {
    let mut table = read_table(&folder().join("servo.csv"));
    let small = (table.columns[0][1] - table.columns[0][0]) / N_SMALL as f64;
    let mut state = [0.0f64; 5];
    let voltages = table.columns[1].clone();
    for (sample, voltage) in voltages.into_iter().enumerate() {
        table.columns[2][sample] = state[3];
        for at in sample * N_SMALL..(sample + 1) * N_SMALL {
            runge_kutta(&mut state, small, |fraction, &[i, turned, speed, angle, rate]| {
                let spring = 20.0 * (turned / 5.0 - angle);
                [
                    (voltage - 2.0 * i - 0.1 * speed) / 0.005,
                    speed,
                    (0.1 * i - 2e-4 * speed - spring / 5.0) / 1e-4,
                    rate,
                    (spring + torque(at, fraction)) / 0.02,
                ]
            });
        }
    }
    table
}

fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let times = read_table(&folder().join("servo.csv")).columns.swap_remove(0);
    let small = (times[1] - times[0]) / N_SMALL as f64;
    let torque = noise.lag(2.0, 0.1, small, times.len() * N_SMALL + 1);
    let mut table = motion(|at, fraction| torque[at] + fraction * (torque[at + 1] - torque[at]));
    table.columns[2].iter_mut().for_each(|angle| *angle += 0.01 * noise.normal());
    table
}

/// The true angle of the disk without the torque that nobody knows.
fn truth_at(times: &[f64]) -> Vec<f64> {
    let table = motion(|_, _| 0.0);
    let at = |time: &f64| table.columns[0].iter().position(|t| (t - time).abs() < 1e-9);
    times.iter().map(|time| at(time).map_or(f64::NAN, |at| table.columns[2][at])).collect()
}

/// Whether the band of two standard deviations of `uq`, from what was saved, holds the truth at each time.
fn are_held(study: &Model, found: &Identification, truth: &[f64]) -> Vec<bool> {
    let known = study.loaded().study.as_ref().expect("a study");
    let saved = found.study_text(known, None).unwrap_or_else(|diagnostic| panic!("{}", diagnostic.render(false)));
    let saved = format!("{saved}[simulate]\nstop = 5.0\nstep = 1.0\n");
    let model = std::fs::read_to_string(folder().join("model.mo")).expect("the model of the servo");
    let saved = Model::parse_study(&saved, &model).and_then(|saved| saved.with_data(vec![motion(|_, _| 0.0)]));
    let spread = saved.and_then(|saved| saved.uq(&UqSettings::default())).unwrap_or_else(|failure| panic!("{failure}"));
    let variable = spread.variables.iter().position(|name| name == "phi").expect("the angle is a variable");
    let moments = &spread.moments[variable];
    let at = |time: f64| spread.times.iter().position(|t| (t - time).abs() < 1e-9).expect("a row");
    let is_held = |(&time, &truth): (&f64, &f64)| {
        let row = at(time);
        (moments.mean[row] - truth).abs() <= 1.959_964 * moments.std[row]
    };
    LOOKED_AT.iter().zip(truth).map(is_held).collect()
}

fn main() {
    let study = Model::open(folder().join("identify.toml")).unwrap_or_else(|failure| panic!("{failure}"));
    let truth = truth_at(&LOOKED_AT);
    let coverage = Coverage {
        name: "coverage-servo",
        study,
        truth: &[("spring.c", 20.0), ("motor.d", 2e-4)],
        sizes: &[("sigma", 0.1)],
        data,
    };
    let (mut record, held) = coverage.run_with(500, |study, found| are_held(study, found, &truth));
    for (at, time) in LOOKED_AT.iter().enumerate() {
        let n = held.iter().filter(|held| held[at]).count();
        let name = format!("bands of the angle at t = {time} that hold the truth, percent");
        record.number(&name, 100.0 * n as f64 / held.len() as f64);
    }
    record.write();
}
