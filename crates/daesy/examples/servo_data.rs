//! Makes the data of the servo: `problems/servo/servo.csv`, by the model itself at known parameters.
//!
//! Run it with `cargo run -p daesy --example servo_data`. The voltage is a random telegraph signal; the disturbance and
//! the measurement errors are drawn from the distributions that the study states, at `spring.c = 20`, `motor.d = 2e-4`
//! and `sigma = 0.1`.

use std::fmt::Write as _;
use std::path::Path;

use daesy::linear_study::{LinearStudy, SignalsWanted};
use daesy::load::{LoadOptions, load};
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;

/// Standard normal numbers by the polar method.
fn normal(random: &mut fastrand::Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * random.f64() - 1.0, 2.0 * random.f64() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/servo");
    let mut random = fastrand::Rng::with_seed(2007);
    let n = 500;
    let times: Vec<f64> = (0..n).map(|k| f64::from(k) / 50.0).collect();
    let mut voltage = Vec::new();
    let mut level = 6.0;
    let mut left = 0;
    for _ in 0..n {
        if left == 0 {
            level = -level;
            left = 5 + random.usize(0..25);
        }
        left -= 1;
        voltage.push(level);
    }
    let write = |angles: &[f64]| {
        let mut text = "t,u,phi\n".to_owned();
        for k in 0..times.len() {
            let _ = writeln!(text, "{},{},{}", times[k], voltage[k], (angles[k] * 1e6).round() / 1e6);
        }
        std::fs::write(folder.join("servo.csv"), text).expect("the folder can be written to");
    };
    // Angles of any value first: the study reads inputs and times from the file.
    write(&vec![0.0; times.len()]);
    let truth = [("spring.c", 20.0), ("motor.d", 2e-4), ("sigma", 0.1)].map(|(name, value)| (name.to_owned(), value));
    let options = LoadOptions { set: truth.to_vec(), ..LoadOptions::default() };
    let loaded = load(&folder.join("identify.toml"), &options).expect("the study can be read");
    let study = LinearStudy::of(&loaded, SignalsWanted::No).expect("the study is linear");
    let theta = study.start();
    let likelihood = Likelihood::new(&study, &theta, FilterOptions::default()).expect("the model has a likelihood");
    let samples = likelihood.sample(&theta, &mut || normal(&mut random)).expect("the model can be sampled");
    write(&samples[0]);
}
