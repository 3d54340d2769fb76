//! A pendulum in Cartesian coordinates over a million steps: how far the explicit and the hidden constraint are off,
//! and how the energy drifts. `cargo xtask study pendulum-drift [STEPS]`
//!
//! Constraints are returned to after every step, so that their residuals stay at rounding however long it takes. The
//! energy is no constraint: it drifts by what the tolerance allows in each step.

use std::time::Instant;

use daesy_compile::compile_with_events;
use daesy_integrate::{Inputs, SimulateOptions, simulate};
use daesy_structure::condense;
use daesy_system::DaeSystem;

const PENDULUM: &str = "model Pendulum Real x(start = 0, fixed = true); Real y(start = -1); Real vx(start = 7, fixed = true); Real vy; \
    Real lambda; Real energy; equation der(x) = vx; der(y) = vy; der(vx) = -lambda*x; der(vy) = -lambda*y - 9.81; x^2 + y^2 = 1; \
    energy = (vx^2 + vy^2)/2 + 9.81*y; end Pendulum;";

struct NoInputs;

impl Inputs for NoInputs {
    fn fill(&self, _time: f64, _is_after: bool, _values: &mut [f64]) {}

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: f64 = std::env::args().nth(1).map_or(Ok(1e6), |text| text.parse())?;
    let flat =
        daesy_model::flatten_text("pendulum.mo", PENDULUM, Some("Pendulum")).map_err(|found| format!("{found:?}"))?;
    let system = compile_with_events(condense(flat)?)?;
    let parameters = system.parameter_values(&[])?;
    println!(
        "{:>8} {:>10} {:>12} {:>12} {:>12} {:>12} {:>10}",
        "rtol", "steps", "seconds", "|x|^2 - 1", "x.v", "energy", "us/step"
    );
    for rtol in [1e-6, 1e-9] {
        let mut options = SimulateOptions {
            start: 0.0,
            stop: 100.0,
            output_times: vec![100.0],
            rtol,
            atol: rtol,
            max_steps: usize::MAX,
            ..SimulateOptions::default()
        };
        let steps = simulate(&system, &parameters, &NoInputs, &options)?.steps as f64;
        let stop = (100.0 * wanted / steps).ceil();
        options.stop = stop;
        options.output_times = (0..=1000).map(|row| stop * f64::from(row) / 1000.0).collect();
        let clock = Instant::now();
        let simulation = simulate(&system, &parameters, &NoInputs, &options)?;
        let seconds = clock.elapsed().as_secs_f64();
        let at = |name: &str| system.description().observed.iter().position(|known| known == name).unwrap_or(0);
        let [x, y, vx, vy, energy] = ["x", "y", "vx", "vy", "energy"].map(at);
        let (mut position, mut velocity, mut drift) = (0.0f64, 0.0f64, 0.0f64);
        let first = simulation.rows[0][energy];
        for row in &simulation.rows {
            position = position.max((row[x].powi(2) + row[y].powi(2) - 1.0).abs());
            velocity = velocity.max((row[x] * row[vx] + row[y] * row[vy]).abs());
            drift = drift.max((row[energy] - first).abs());
        }
        println!(
            "{rtol:>8.0e} {:>10} {stop:>12} {position:>12.1e} {velocity:>12.1e} {drift:>12.1e} {:>10.2}",
            simulation.steps,
            seconds * 1e6 / simulation.steps as f64
        );
    }
    Ok(())
}
