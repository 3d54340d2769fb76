//! Samples of Monte Carlo methods side by side against the adaptive method, one at a time.

use std::fs;

use daesy::load::{LoadOptions, Loaded, load};
use daesy::uq::{Shares, UqSettings, run_at};

fn study(name: &str, model: &str, random: &str) -> Loaded {
    let folder = std::env::temp_dir().join(format!("daesy-lanes-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("model.mo"), model).unwrap();
    let text = format!(
        "[model]\nfile = \"model.mo\"\n[random]\n{random}\n[simulate]\nstop = 3.0\nstep = 0.1\nrtol = 1e-7\natol = 1e-9\n\
         [uq]\nmethod = \"monte-carlo\"\nsamples = 100\nvalidation = 0\n"
    );
    fs::write(folder.join("study.toml"), text).unwrap();
    let loaded = load(&folder.join("study.toml"), &LoadOptions::default()).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    loaded
}

/// Points spread over a box, without order.
fn points(lower: [f64; 2], upper: [f64; 2], n: usize) -> Vec<Vec<f64>> {
    let mut random = fastrand::Rng::with_seed(5);
    (0..n).map(|_| (0..2).map(|at| lower[at] + (upper[at] - lower[at]) * random.f64()).collect()).collect()
}

fn lanes_agree_with_single_runs(loaded: Loaded, points: &[Vec<f64>]) {
    let settings = UqSettings::default();
    let alone = run_at(&loaded, points, &settings).unwrap();
    let shares = Shares::new(&loaded, &settings).unwrap();
    let lanes = shares.evaluate(points).unwrap();
    let n_rows = alone.times.len();
    let mut n_same = 0;
    for (alone, lanes) in alone.values.iter().zip(&lanes) {
        // Times are the output times, which do not travel.
        assert_eq!((lanes[0], alone.len() % n_rows), (0.0, 0));
        let lanes = &lanes[1..];
        n_same += usize::from(lanes == alone.as_slice());
        for (lanes, alone) in lanes.chunks(n_rows).zip(alone.chunks(n_rows)) {
            let size = alone.iter().fold(1e-3f64, |size, value| size.max(value.abs()));
            for (lanes, alone) in lanes.iter().zip(alone) {
                assert!((lanes - alone).abs() < 2e-5 * size, "{lanes} in lanes, {alone} alone");
            }
        }
    }
    assert!(n_same < points.len() / 10, "{n_same} of {} points were not computed in lanes", points.len());
    let reversed: Vec<Vec<f64>> = points.iter().rev().take(37).cloned().collect();
    let again = shares.evaluate(&reversed).unwrap();
    for (again, before) in again.iter().zip(lanes.iter().rev()) {
        assert!(
            again.iter().zip(before).all(|(a, b)| a.to_bits() == b.to_bits()),
            "what a point gives depends on its company"
        );
    }
}

#[test]
fn a_pendulum_of_index_three_agrees_in_lanes() {
    let model = "model Pendulum\n  parameter Real m = 1, L = 1.0, drag = 0.1;\n  Real x(start = L, fixed = true), y, F, u, v(start = 0, fixed = true);\n\
                 equation\n  der(x) = u;\n  der(y) = v;\n  m*der(u) = -x*F - drag*u;\n  m*der(v) = -y*F - m*9.81 - drag*v;\n  x^2 + y^2 = L^2;\nend Pendulum;\n";
    let random = "L = { uniform = { min = 0.8, max = 1.2 } }\ndrag = { uniform = { min = 0.0, max = 0.4 } }";
    lanes_agree_with_single_runs(study("pendulum", model, random), &points([0.8, 0.0], [1.2, 0.4], 130));
}

#[test]
fn dependent_parameters_and_inputs_follow_in_lanes() {
    let model = "model Tanks\n  parameter Real k = 0.5, ratio = 0.6;\n  parameter Real k2 = ratio*k;\n  \
                 Real h1(start = 1, fixed = true), h2(start = k, fixed = true), q;\n\
                 equation\n  2*der(h1) = 0.4*(1 + sin(time)) - q;\n  q = k*sqrt(h1);\n  2*der(h2) = q - k2*sqrt(h2);\nend Tanks;\n";
    let random = "k = { uniform = { min = 0.4, max = 0.6 } }\nratio = { uniform = { min = 0.5, max = 0.7 } }";
    lanes_agree_with_single_runs(study("tanks", model, random), &points([0.4, 0.5], [0.6, 0.7], 130));
}
