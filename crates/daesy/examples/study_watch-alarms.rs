//! Do alarms come as seldom as they should, and as soon? A carriage with friction under a disturbance, watched over a
//! million samples of a right model, then with a sensor that sticks and with friction that jumps, which the study says
//! it may.
//!
//! `cargo xtask study watch-alarms [N]` (N samples, 1,000,000 when left out). The stream is made by the exact
//! discretization, worked out by hand. Some minutes.
#![forbid(unsafe_code)]

mod study;

use daesy::Model;
use daesy::watch::{WatchSettings, Watched};
use study::Record;
use study::noise::Noise;

const MODEL: &str = "model Carriage parameter Real d = 1; input Real u, w; Real v(start = 0, fixed = true);
equation der(v) = u + w - d*v; end Carriage;";

const STUDY: &str = r#"
[model]
file = "model.mo"
[inputs]
u = { column = "u" }
[disturbances]
w = { std = 0.3, time_constant = 0.5 }
[measurements]
v = { std = 0.02 }
[estimate]
signals = ["v", "w"]
[watch]
faults = { d = [0.5, 2.0] }
"#;

/// Distance of samples in seconds, size of the disturbance, standard deviation of the measurement.
const STEP: f64 = 0.01;
const SIZE: f64 = 0.3;
const ERROR: f64 = 0.02;

/// False alarms of each test per sample: many, to count them; few, to see how soon faults are found.
const RATE: f64 = 1e-3;
const SELDOM: f64 = 1e-5;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// The sensor keeps showing the same.
    Stuck,
    /// Friction becomes so much larger.
    Friction(f64),
}

/// Lines of a stream: v' = u + w - d v, w' = -2 w + noise, over steps exactly.
///
/// ```text
/// v+ = e^-dh v + (1 - e^-dh) / d u + (e^-2h - e^-dh) / (d - 2) w + ..
/// ```
struct Stream {
    noise: Noise,
    n_samples: usize,
    fault: Fault,
    fault_at: usize,
    at: usize,
    speed: f64,
    force: f64,
    held: f64,
}

impl Stream {
    fn new(n_samples: usize, fault: Fault, fault_at: usize, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        let force = SIZE * noise.normal();
        Self { noise, n_samples, fault, fault_at, at: 0, speed: 0.0, force, held: 0.0 }
    }

    fn step(&mut self, input: f64) {
        let friction = match self.fault {
            Fault::Friction(friction) if self.at > self.fault_at => friction,
            _ => 1.0,
        };
        // Covariance of the noise over a step: integrals of exponentials e^(-a t).
        let integral = |a: f64| (1.0 - (-a * STEP).exp()) / a;
        let intensity = 4.0 * SIZE * SIZE;
        let k = 1.0 / (friction - 2.0);
        let (d, f) = (friction, 2.0);
        let vv = intensity * k * k * (integral(2.0 * f) - 2.0 * integral(f + d) + integral(2.0 * d));
        let vw = intensity * k * (integral(2.0 * f) - integral(f + d));
        let ww = intensity * integral(2.0 * f);
        let (decay_v, decay_w) = ((-d * STEP).exp(), (-f * STEP).exp());
        let z = [self.noise.normal(), self.noise.normal()];
        let from_force = k * (decay_w - decay_v) * self.force;
        let common = vw / ww.sqrt();
        let noise_v = common * z[0] + (vv - common * common).max(0.0).sqrt() * z[1];
        self.speed = decay_v * self.speed + (1.0 - decay_v) / d * input + from_force + noise_v;
        self.force = decay_w * self.force + ww.sqrt() * z[0];
    }
}

impl Iterator for Stream {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at > self.n_samples {
            return None;
        }
        self.at += 1;
        if self.at == 1 {
            return Some(Ok("t,u,v".to_owned()));
        }
        let row = self.at - 2;
        let input = if (row / 200).is_multiple_of(2) { 1.0 } else { -1.0 };
        let is_stuck = self.fault == Fault::Stuck && row > self.fault_at;
        if !is_stuck {
            self.held = self.speed + ERROR * self.noise.normal();
        }
        let line = format!("{},{input},{}", row as f64 * STEP, self.held);
        self.step(input);
        Some(Ok(line))
    }
}

/// Tests by name, in the order of their counts.
const TESTS: [&str; 3] = ["chi-square", "cusum", "fault"];

/// What a watched stream gave.
struct Seen {
    /// Alarms of each test.
    counts: [usize; 3],
    /// The row of the first alarm at or after the fault.
    first: Option<usize>,
}

fn watch(study: &Model, mut stream: Stream, fault_at: usize, rate: f64) -> Seen {
    let settings = WatchSettings { false_alarm_rate: Some(rate), ..WatchSettings::default() };
    let mut watched = Watched::new(study.loaded(), settings).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut seen = Seen { counts: [0; 3], first: None };
    let mut row = 0;
    let stops_early = fault_at < usize::MAX;
    let mut tell = |object: &serde_json::Value| {
        for alarm in object["alarms"].as_array().into_iter().flatten() {
            let test = TESTS.iter().position(|test| alarm["test"] == *test).expect("a test that is known");
            seen.counts[test] += 1;
            if row >= fault_at {
                seen.first = seen.first.or(Some(row));
            }
        }
        row += 1;
        !(stops_early && seen.first.is_some())
    };
    watched.run("stream", &mut stream, None, &mut tell).unwrap_or_else(|failure| panic!("{failure:?}"));
    seen
}

fn main() {
    let n: usize = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    let study = Model::parse_study(STUDY, MODEL).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut record = Record::new("watch-alarms");
    record.number("samples", n as f64);
    record.number("stated false alarms of each test per sample", RATE);
    let Seen { counts, .. } = watch(&study, Stream::new(n, Fault::Nothing, usize::MAX, 1), usize::MAX, RATE);
    for (test, count) in TESTS.into_iter().zip(counts) {
        record.number(&format!("{test}: false alarms per sample"), count as f64 / n as f64);
        let expected = RATE * n as f64;
        // The third promises that there are not more.
        if test != "fault" {
            record.number(
                &format!("{test}: deviation in standard deviations of a Poisson number"),
                (count as f64 - expected) / expected.sqrt(),
            );
        }
    }
    record.number("the same, where faults are to be found", SELDOM);
    let faults = [("sensor stuck", Fault::Stuck), ("friction twice as large", Fault::Friction(1.999))];
    for (name, fault) in faults {
        let mut delays: Vec<f64> = (0..200)
            .map(|run| {
                // Faults at all phases of the input.
                let at = 1000 + 17 * run;
                let seen = watch(&study, Stream::new(at + 2000, fault, at, 100 + run as u64), at + 1, SELDOM);
                seen.first.map_or(f64::INFINITY, |first| (first - at) as f64 * STEP)
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        record.number(&format!("{name}: median delay, s"), delays[100]);
        record.number(&format!("{name}: delay of 95 in 100, s"), delays[190]);
        let n_missed = delays.iter().filter(|delay| delay.is_infinite()).count();
        record.number(&format!("{name}: not found within 20 s, of 200"), n_missed as f64);
    }
    record.write();
}
