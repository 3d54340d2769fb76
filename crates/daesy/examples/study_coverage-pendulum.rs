//! How often 95 % intervals hold the truth of the pendulum of `problems/pendulum`, whose disturbance acts by its square.
//!
//! Argument: number of data sets (200).
#![forbid(unsafe_code)]

mod coverage;
mod study;

use std::path::Path;

use coverage::{Coverage, Noise, runge_kutta};
use daesy::Model;
use daesy::table::Table;

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
L = { start = 5.0, min = 3.85, max = 10.25 }
k = { start = 0.03, min = 0.0, max = 1 }
sigma = { start = 0.4, min = 0.0, max = 3 }
[inputs]
u = { expression = "0.25*sin(1.1*time) + 0.2*sin(2.3*time + 1)" }
[disturbances]
w = { A = [[0, 1], [-16, -0.8]], B = [[0], [1]], C = [["sigma", 0]] }
[measurements]
y = { std = 0.005 }
[data]
file = "data"
[identify]
noise_step = 0.05
"#;

/// Time between samples, and small steps between them.
const STEP: f64 = 0.1;
const N_SMALL: usize = 50;
const N_SAMPLES: usize = 400;

/// The pendulum in its angle a: m L a'' = (u + w^2 - k |vx| vx) cos a - (m g + k |vy| vy) sin a.
fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let (mass, gravity, drag, length, sigma) = (0.3, 9.81, 0.05, 6.25, 0.6);
    let small = STEP / N_SMALL as f64;
    // Stationary: variances 1 / (2 0.8 16) of the first component and 1 / (2 0.8) of the second, which are independent.
    let mut shape = [noise.normal() / 25.6f64.sqrt(), noise.normal() / 1.6f64.sqrt()];
    let mut state = [0.0f64; 2];
    let mut columns = vec![Vec::new(); 2];
    for sample in 0..N_SAMPLES {
        columns[0].push(STEP * sample as f64);
        columns[1].push(state[0] + 0.005 * noise.normal());
        for at in 0..N_SMALL {
            let time = STEP * sample as f64 + small * at as f64;
            let before = sigma * shape[0];
            // The middle of the noise of a step enters halfway: errors are of second order.
            let kick = small.sqrt() * noise.normal();
            shape[1] += 0.5 * kick;
            runge_kutta(&mut shape, small, |_, &[value, rate]| [rate, -16.0 * value - 0.8 * rate]);
            shape[1] += 0.5 * kick;
            let after = sigma * shape[0];
            runge_kutta(&mut state, small, |fraction, &[angle, turn]| {
                let t = time + fraction * small;
                let known = 0.25 * (1.1 * t).sin() + 0.2 * (2.3 * t + 1.0).sin();
                let unknown = (before + fraction * (after - before)).powi(2);
                let (sin, cos) = angle.sin_cos();
                let (across, up) = (length * turn * cos, length * turn * sin);
                let push = known + unknown - drag * across.abs() * across;
                let pull = mass * gravity + drag * up.abs() * up;
                [turn, (push * cos - pull * sin) / (mass * length)]
            });
        }
    }
    Table { names: ["t", "y"].map(str::to_owned).to_vec(), columns }
}

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/pendulum/model.mo");
    let model = std::fs::read_to_string(path).expect("the model of the pendulum");
    let study = Model::parse_study(STUDY, &model).unwrap_or_else(|failure| panic!("{failure}"));
    let truth = &[("L", 6.25), ("k", 0.05)];
    Coverage { name: "coverage-pendulum", study, truth, sizes: &[("sigma", 0.6)], data }.run().write();
}
