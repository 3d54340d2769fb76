//! How often 95 % intervals hold the truth of a thermostat, identified by output errors across its events.
//!
//! Argument: number of data sets (200).
#![forbid(unsafe_code)]

mod coverage;
mod study;

use coverage::{Coverage, Noise};
use daesy::Model;
use daesy::table::Table;

const MODEL: &str = "model Room
  parameter Real C = 4, G = 0.5, P = 12, low = 19, high = 21;
  Real T(start = 15, fixed = true);
  Boolean on(start = true, fixed = true);
equation
  C*der(T) = (if on then P else 0) - G*(T - 5);
  when {T > high, T < low} then
    on = T < low;
  end when;
end Room;
";

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
C = { start = 3.0, min = 0.1 }
G = { start = 0.4, min = 0.01 }
high = { start = 20.7 }
low = { start = 19.3 }
[measurements]
T = { column = "T", std = 0.1 }
[data]
file = "data"
"#;

/// The temperature in closed form from switch to switch: it nears `level` by exp(-G t / C).
fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let (c, g, power, low, high, outside) = (4.0, 0.5, 12.0, 19.0, 21.0, 5.0);
    let step = 0.2;
    let (mut temperature, mut is_on, mut since) = (15.0f64, true, 0.0f64);
    let mut columns = vec![Vec::new(), Vec::new()];
    for sample in 0..150 {
        let time = f64::from(sample) * step;
        loop {
            let level = outside + if is_on { power / g } else { 0.0 };
            let limit = if is_on { high } else { low };
            let until = since + c / g * ((temperature - level) / (limit - level)).ln();
            if until > time {
                let here = level + (temperature - level) * (-(time - since) * g / c).exp();
                columns[0].push(time);
                columns[1].push(here + 0.1 * noise.normal());
                break;
            }
            (temperature, is_on, since) = (limit, !is_on, until);
        }
    }
    Table { names: ["t", "T"].map(str::to_owned).to_vec(), columns }
}

fn main() {
    let study = Model::parse_study(STUDY, MODEL).unwrap_or_else(|failure| panic!("{failure}"));
    let truth = &[("C", 4.0), ("G", 0.5), ("high", 21.0), ("low", 19.0)];
    Coverage { name: "coverage-thermostat", study, truth, sizes: &[], data }.run().write();
}
