//! How often 95 % intervals hold the truth of two tanks under a disturbance of unknown size.
//!
//! Argument: number of data sets (200).
#![forbid(unsafe_code)]

mod coverage;
mod study;

use coverage::{Coverage, Noise, runge_kutta};
use daesy::Model;
use daesy::table::Table;

const MODEL: &str = "model Tanks
  parameter Real a1 = 0.3, a2 = 0.2;
  input Real q, w;
  Real h1(start = 1, fixed = true), h2(start = 0.5, fixed = true);
equation
  der(h1) = q + w - a1*sqrt(h1);
  der(h2) = a1*sqrt(h1) - a2*sqrt(h2);
end Tanks;
";

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
a1 = { start = 0.25, min = 0.01, max = 10 }
a2 = { start = 0.25, min = 0.01, max = 10 }
sigma = { start = 0.1, min = 0.0, max = 2 }
[inputs]
q = { column = "q", hold = "zoh" }
[disturbances]
w = { A = [[-1.0]], B = [[1.0]], C = [["sigma"]] }
[measurements]
h1 = { column = "h1", std = 0.002 }
h2 = { column = "h2", std = 0.002 }
[data]
file = "data"
[identify]
noise_step = 0.1
"#;

/// Time between samples, and small steps between them.
const STEP: f64 = 0.5;
const N_SMALL: usize = 50;
const N_SAMPLES: usize = 240;

fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let small = STEP / N_SMALL as f64;
    let flow = noise.lag(1.0, 0.05, small, N_SAMPLES * N_SMALL + 1);
    let mut levels = [1.0f64, 0.5];
    let mut columns = vec![Vec::new(); 4];
    for sample in 0..N_SAMPLES {
        let q = if (sample / 20) % 2 == 0 { 0.4 } else { 0.2 };
        let row = [STEP * sample as f64, q, levels[0] + 0.002 * noise.normal(), levels[1] + 0.002 * noise.normal()];
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        for at in sample * N_SMALL..(sample + 1) * N_SMALL {
            runge_kutta(&mut levels, small, |fraction, &[upper, lower]| {
                let (first, second) = (0.3 * upper.sqrt(), 0.2 * lower.sqrt());
                [q + flow[at] + fraction * (flow[at + 1] - flow[at]) - first, first - second]
            });
        }
    }
    Table { names: ["t", "q", "h1", "h2"].map(str::to_owned).to_vec(), columns }
}

fn main() {
    let study = Model::parse_study(STUDY, MODEL).unwrap_or_else(|failure| panic!("{failure}"));
    let truth = &[("a1", 0.3), ("a2", 0.2)];
    Coverage { name: "coverage-tanks", study, truth, sizes: &[("sigma", 0.05)], data }.run().write();
}
