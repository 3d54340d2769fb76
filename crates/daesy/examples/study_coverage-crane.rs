//! How often 95 % intervals hold the truth of a crane, an index-3 model with an unknown wind of unknown size on its load.
//!
//! Argument: number of data sets (200).
#![forbid(unsafe_code)]

mod coverage;
mod study;

use coverage::{Coverage, Noise, runge_kutta};
use daesy::Model;
use daesy::table::Table;

const MODEL: &str = "model Crane
  parameter Real M = 12, m = 4, d = 6, L = 5, g = 9.81;
  input Real force, wind;
  Real x(start = 0, fixed = true), v(start = 0, fixed = true);
  Real px(start = 0, fixed = true), py(start = -5), vx(start = 0, fixed = true), vy(start = 0);
  Real tension(start = 7);
equation
  der(x) = v;
  der(px) = vx;
  der(py) = vy;
  M*der(v) = force - d*v + tension*(px - x);
  m*der(vx) = wind - tension*(px - x);
  m*der(vy) = -tension*py - m*g;
  (px - x)^2 + py^2 = L^2;
end Crane;
";

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
M = { start = 9.0, min = 1, max = 100 }
d = { start = 4.0, min = 0, max = 100 }
L = { start = 4.6, min = 1, max = 20 }
sigma = { start = 0.4, min = 0.0, max = 20 }
[inputs]
force = { column = "force", hold = "zoh" }
[disturbances]
wind = { A = [[-0.5]], B = [[1.0]], C = [["sigma"]] }
[measurements]
x = { column = "x", std = 0.01 }
px = { column = "px", std = 0.02 }
[data]
file = "data"
[identify]
noise_step = 0.1
"#;

/// Time between samples, and small steps between them.
const STEP: f64 = 0.2;
const N_SMALL: usize = 40;
const N_SAMPLES: usize = 200;

/// The crane in its independent coordinates, the place of the trolley and the angle of the rope.
fn data(seed: u64) -> Table {
    let mut noise = Noise::new(seed);
    let (trolley, load, damping, length, gravity) = (12.0, 4.0, 6.0, 5.0, 9.81);
    let small = STEP / N_SMALL as f64;
    let wind = noise.lag(0.5, 1.0, small, N_SAMPLES * N_SMALL + 1);
    let mut state = [0.0f64; 4];
    let mut columns = vec![Vec::new(); 4];
    for sample in 0..N_SAMPLES {
        let force = [20.0, -20.0, 8.0, -14.0, 0.0][(sample / 16) % 5];
        let [x, _, angle, _] = state;
        let measured = [x + 0.01 * noise.normal(), x + length * angle.sin() + 0.02 * noise.normal()];
        for (column, value) in columns.iter_mut().zip([STEP * sample as f64, force, measured[0], measured[1]]) {
            column.push(value);
        }
        for at in sample * N_SMALL..(sample + 1) * N_SMALL {
            // (M + m) x'' + m L cos(a) a'' = F - d x' + w + m L sin(a) a'^2,  m L cos(a) x'' + m L^2 a'' = (w cos(a) - m g sin(a)) L
            runge_kutta(&mut state, small, |fraction, &[_, speed, angle, turn]| {
                let w = wind[at] + fraction * (wind[at + 1] - wind[at]);
                let (sin, cos) = angle.sin_cos();
                let mixed = load * length * cos;
                let first = force - damping * speed + w + load * length * sin * turn * turn;
                let second = (w * cos - load * gravity * sin) * length;
                let determinant = (trolley + load) * load * length * length - mixed * mixed;
                let acceleration = (load * length * length * first - mixed * second) / determinant;
                let bend = ((trolley + load) * second - mixed * first) / determinant;
                [speed, acceleration, turn, bend]
            });
        }
    }
    Table { names: ["t", "force", "x", "px"].map(str::to_owned).to_vec(), columns }
}

fn main() {
    let study = Model::parse_study(STUDY, MODEL).unwrap_or_else(|failure| panic!("{failure}"));
    let truth = &[("M", 12.0), ("d", 6.0), ("L", 5.0)];
    Coverage { name: "coverage-crane", study, truth, sizes: &[("sigma", 1.0)], data }.run().write();
}
