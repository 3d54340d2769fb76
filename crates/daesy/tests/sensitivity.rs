//! Forward sensitivities against closed forms and against central differences of simulations at tight tolerances.

use daesy_compile::{CompiledSystem, compile};
use daesy_integrate::{Direction, Inputs, SimulateOptions, parameter_direction, simulate, simulate_with_sensitivities};
use daesy_structure::{condense, regularize};
use daesy_system::{DaeSystem, GivenParameter, Watch};

struct Step;

impl Inputs for Step {
    fn fill(&self, time: f64, is_after: bool, values: &mut [f64]) {
        let is_late = time > 1.0 || time == 1.0 && is_after;
        for value in values {
            *value = if is_late { 3.0 } else { 1.0 };
        }
    }

    fn breaks(&self) -> &[f64] {
        &[1.0]
    }
}

fn compiled(text: &str, class: &str, is_condensed: bool) -> CompiledSystem {
    let flat = daesy_model::flatten_text("model.mo", text, Some(class)).unwrap();
    let regular = if is_condensed { condense(flat) } else { regularize(flat) };
    compile(regular.unwrap()).unwrap()
}

fn options(stop: f64, output_times: &[f64]) -> SimulateOptions {
    SimulateOptions {
        start: 0.0,
        stop,
        output_times: output_times.to_vec(),
        rtol: 1e-9,
        atol: 1e-11,
        max_steps: 1_000_000,
        watch: Watch::default(),
    }
}

fn position(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| panic!("{name} in {names:?}"))
}

/// The rows of a simulation with one parameter changed; where an input jumps there is one more, which is left out.
fn rows_with(system: &CompiledSystem, parameter: u32, value: f64, options: &SimulateOptions) -> Vec<Vec<f64>> {
    let parameters = system.parameter_values(&[GivenParameter { parameter, value }]).unwrap();
    let simulation = simulate(system, &parameters, &Step, options).unwrap();
    let row_at = |time: &f64| simulation.times.iter().position(|known| known == time).unwrap();
    options.output_times.iter().map(|time| simulation.rows[row_at(time)].clone()).collect()
}

/// Sensitivities with respect to named parameters equal central differences to `accuracy`, relative to the largest of each.
fn compare_with_differences(system: &CompiledSystem, names: &[&str], options: &SimulateOptions, accuracy: f64) {
    let description = system.description();
    let parameters = system.parameter_values(&[]).unwrap();
    let positions: Vec<u32> = names.iter().map(|name| position(&description.parameters, name) as u32).collect();
    let directions: Vec<Direction> = positions
        .iter()
        .map(|&parameter| Direction::Parameters(parameter_direction(system, &[], parameter).unwrap()))
        .collect();
    let result = simulate_with_sensitivities(system, &parameters, &Step, options, &directions).unwrap();
    assert_eq!(result.simulation.times, options.output_times);
    for (direction, (&parameter, name)) in positions.iter().zip(names).enumerate() {
        let value = parameters[parameter as usize];
        let step = 1e-4 * value.abs();
        let (up, down) =
            (rows_with(system, parameter, value + step, options), rows_with(system, parameter, value - step, options));
        for (row, sensitivities) in result.sensitivities.iter().enumerate() {
            let differences: Vec<f64> =
                up[row].iter().zip(&down[row]).map(|(up, down)| (up - down) / (2.0 * step)).collect();
            for (at, (&got, &want)) in sensitivities[direction].iter().zip(&differences).enumerate() {
                let size = want.abs().max(1e-3 * (result.simulation.rows[row][at] / value).abs()).max(1e-3);
                assert!(
                    (got - want).abs() <= accuracy * size,
                    "d {} / d {name} in row {row}: {got} against {want}",
                    description.observed[at]
                );
            }
        }
    }
}

#[test]
fn decay_follows_its_rate_and_its_start() {
    let text = "model Decay parameter Real a = 0.7; parameter Real b = 2; parameter Real c = 3*a^2; Real x(start=b, fixed=true); \
        Real y; equation der(x) = -a*x; y = c*x; end Decay;";
    for is_condensed in [false, true] {
        let system = compiled(text, "Decay", is_condensed);
        let parameters = system.parameter_values(&[]).unwrap();
        let description = system.description();
        let direction = |name: &str| {
            let parameter = position(&description.parameters, name) as u32;
            Direction::Parameters(parameter_direction(&system, &[], parameter).unwrap())
        };
        let directions = [direction("a"), direction("b"), Direction::Start(0)];
        let times = [0.0, 0.4, 2.0];
        let result =
            simulate_with_sensitivities(&system, &parameters, &Step, &options(2.0, &times), &directions).unwrap();
        let (x, y) = (position(&description.observed, "x"), position(&description.observed, "y"));
        let (a, b) = (0.7f64, 2.0);
        for (row, &t) in times.iter().enumerate() {
            let decay = (-a * t).exp();
            let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-8, "{got} {want} at {t}");
            close(result.sensitivities[row][0][x], -t * b * decay);
            close(result.sensitivities[row][1][x], decay);
            close(result.sensitivities[row][2][x], decay);
            close(result.sensitivities[row][0][y], 6.0 * a * b * decay - 3.0 * a * a * t * b * decay);
        }
    }
}

#[test]
fn stiff_reactions_follow_their_rates() {
    let text = "model Reactions parameter Real k1 = 0.04; parameter Real k2 = 1e4; parameter Real k3 = 3e7; Real y1(start=1, fixed=true); \
        Real y2(start=0, fixed=true, nominal=1e-5); Real y3; equation der(y1) = -k1*y1 + k2*y2*y3; \
        der(y2) = k1*y1 - k2*y2*y3 - k3*y2^2; y1 + y2 + y3 = 1; end Reactions;";
    let system = compiled(text, "Reactions", true);
    compare_with_differences(&system, &["k1", "k2", "k3"], &options(40.0, &[0.4, 4.0, 40.0]), 1e-3);
}

/// Index 3: the constraints hold for the changes too, the start included, which depends on the length.
#[test]
fn a_pendulum_follows_gravity_and_length() {
    let text = "model Pendulum parameter Real g = 9.81; parameter Real L = 1.2; Real x(start=L*0.6, fixed=true); Real y(start=-L); \
        Real vx(start=0, fixed=true); Real vy; Real lambda; equation der(x) = vx; der(y) = vy; der(vx) = -lambda*x; \
        der(vy) = -lambda*y - g; x^2 + y^2 = L^2; end Pendulum;";
    for is_condensed in [false, true] {
        let system = compiled(text, "Pendulum", is_condensed);
        compare_with_differences(&system, &["g", "L"], &options(2.0, &[0.0, 0.5, 2.0]), 1e-4);
    }
}

/// The start values of an index-3 system: moving x along the circle moves y, and energy changes by the work against gravity.
#[test]
fn a_pendulum_follows_its_start() {
    let text = "model Pendulum Real x(start=0.6, fixed=true); Real y(start=-0.8); Real vx(start=0, fixed=true); Real vy; \
        Real lambda; Real energy; equation der(x) = vx; der(y) = vy; der(vx) = -lambda*x; der(vy) = -lambda*y - 10; \
        x^2 + y^2 = 1; energy = 0.5*(vx^2 + vy^2) + 10*y; end Pendulum;";
    let system = compiled(text, "Pendulum", true);
    let description = system.description();
    let x = description.states.iter().position(|state| state.name == "x").unwrap() as u32;
    let parameters = system.parameter_values(&[]).unwrap();
    let times = [0.0, 1.3];
    let result =
        simulate_with_sensitivities(&system, &parameters, &Step, &options(1.3, &times), &[Direction::Start(x)])
            .unwrap();
    let (at_x, at_y) = (position(&description.observed, "x"), position(&description.observed, "y"));
    let energy = position(&description.observed, "energy");
    let first = &result.sensitivities[0][0];
    assert!((first[at_x] - 1.0).abs() < 1e-6 && (first[at_y] - 0.75).abs() < 1e-6, "{first:?}");
    for row in &result.sensitivities {
        assert!((row[0][energy] - 7.5).abs() < 1e-5, "{}", row[0][energy]);
    }
}

/// A parameter that the start determines, and an input that jumps.
#[test]
fn a_steady_start_and_a_step_of_the_input_are_followed() {
    let text = "model Tank input Real u; parameter Real k = 0.8; parameter Real q(fixed=false, start=0.1); Real h; \
        Real out; initial equation h = 2; der(h) = 0; equation out = k*sqrt(h); der(h) = u + q - out; end Tank;";
    for is_condensed in [false, true] {
        let system = compiled(text, "Tank", is_condensed);
        compare_with_differences(&system, &["k"], &options(3.0, &[0.0, 1.5, 3.0]), 1e-5);
    }
}
