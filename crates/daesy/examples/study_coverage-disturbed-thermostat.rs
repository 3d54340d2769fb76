//! How often 95 % intervals hold the truth of a thermostat whose surroundings are disturbed, identified by the mixture
//! filter that follows its events.
//!
//! Argument: number of data sets (200).
#![forbid(unsafe_code)]

mod coverage;
mod study;

use coverage::{Coverage, Noise};
use daesy::Model;
use daesy::table::Table;

const MODEL: &str = "model Room
  parameter Real C = 4, G = 0.5, P = 12, low = 19, high = 21, sigma = 2;
  input Real outside;
  Real T(start = 20, fixed = true);
  Boolean on(start = true, fixed = true);
equation
  C*der(T) = (if on then P else 0) - G*(T - 5 - outside);
  when {T > high, T < low} then
    on = T < low;
  end when;
end Room;
";

const STUDY: &str = r#"
[model]
file = "model.mo"
[disturbances]
outside = { A = [[-0.5]], B = [[1]], C = [["sigma"]] }
[unknown]
G = { start = 0.45, min = 0.01 }
low = { start = 19.2 }
sigma = { start = 1.5, min = 0.01 }
[measurements]
T = { column = "T", std = 0.1 }
[data]
file = "data"
[identify]
noise_step = 0.4
"#;

/// Small steps of the temperature with a disturbance that is exact at their ends, and switches where they are met.
fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let (c, g, power, low, high, outside) = (4.0, 0.5, 12.0, 19.0, 21.0, 5.0);
    let (step, n_steps, n_samples) = (0.4, 300usize, 60usize);
    let fine = step / n_steps as f64;
    let disturbance = noise.lag(0.5, 2.0, fine, n_samples * n_steps + 1);
    let (mut temperature, mut is_on) = (20.0f64, true);
    let mut columns = vec![Vec::new(), Vec::new()];
    for sample in 0..n_samples {
        columns[0].push(sample as f64 * step);
        columns[1].push(temperature + 0.1 * noise.normal());
        for at in 0..n_steps {
            let here = sample * n_steps + at;
            let level =
                outside + 0.5 * (disturbance[here] + disturbance[here + 1]) + if is_on { power / g } else { 0.0 };
            temperature = level + (temperature - level) * (-fine * g / c).exp();
            is_on = temperature < low || is_on && temperature <= high;
        }
    }
    Table { names: ["t", "T"].map(str::to_owned).to_vec(), columns }
}

fn main() {
    let study = Model::parse_study(STUDY, MODEL).unwrap_or_else(|failure| panic!("{failure}"));
    let (truth, sizes) = (&[("G", 0.5), ("low", 19.0)], &[("sigma", 2.0)]);
    Coverage { name: "coverage-disturbed-thermostat", study, truth, sizes, data }.run().write();
}
