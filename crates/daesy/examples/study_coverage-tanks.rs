//! How often 95 % intervals hold the truth of two tanks under a disturbance of unknown size.
//!
//! Argument: number of data sets (200).
#![forbid(unsafe_code)]

mod coverage;

use coverage::{Coverage, Noise};
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
h2 = { column = "h2", std = 0.02 }
[data]
file = "data"
[identify]
noise_step = 0.1
"#;

/// Levels by small steps.
fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let (step, n_steps, sigma) = (0.005f64, 100, 0.05);
    let (mut h1, mut h2, mut w) = (1.0f64, 0.5f64, sigma / 2f64.sqrt() * noise.normal());
    let mut columns = vec![Vec::new(), Vec::new(), Vec::new()];
    for sample in 0..200 {
        let q = if (sample / 20) % 2 == 0 { 0.4 } else { 0.15 };
        columns[0].push(0.5 * f64::from(sample));
        columns[1].push(q);
        columns[2].push(h2 + 0.02 * noise.normal());
        for _ in 0..n_steps {
            let (out1, out2) = (0.3 * h1.max(0.0).sqrt(), 0.2 * h2.max(0.0).sqrt());
            h1 += step * (q + w - out1);
            h2 += step * (out1 - out2);
            w += -w * step + sigma * step.sqrt() * noise.normal();
        }
    }
    Table { names: ["t", "q", "h2"].map(str::to_owned).to_vec(), columns }
}

fn main() {
    let truth = &[("a1", 0.3), ("a2", 0.2), ("sigma", 0.05)];
    Coverage { study: STUDY, model: MODEL, truth, data }.run();
}
