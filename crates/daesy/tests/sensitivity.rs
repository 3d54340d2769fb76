//! Forward sensitivities against closed forms and against central differences of simulations at tight tolerances.

use daesy_compile::{CompiledSystem, compile, compile_with_events};
use daesy_integrate::{Direction, Inputs, SimulateOptions, parameter_direction, simulate, simulate_with_sensitivities};
use daesy_structure::{condense, regularize};
use daesy_system::{DaeSystem, GivenParameter};

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
        ..SimulateOptions::default()
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

/// Sensitivities with respect to named parameters equal central differences to `accuracy`, relative to the largest of
/// each.
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

/// The start values of an index-3 system: moving x along the circle moves y, and energy changes by the work against
/// gravity.
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

/// A system whose relations make events.
fn compiled_with_events(text: &str) -> CompiledSystem {
    let flat = daesy_model::flatten_text("model.mo", text, Some("M")).unwrap();
    compile_with_events(condense(flat).unwrap()).unwrap()
}

struct Nothing;

impl Inputs for Nothing {
    fn fill(&self, _time: f64, _is_after: bool, _values: &mut [f64]) {}

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

/// Sensitivities of a system with events with respect to all of its named parameters, and central differences of tight
/// simulations; output times must not be those of events.
fn compare_across_events(text: &str, names: &[&str], stop: f64, times: &[f64], n_events: usize) {
    compare_with_inputs(text, &Nothing, names, stop, times, n_events);
}

fn compare_with_inputs(text: &str, inputs: &dyn Inputs, names: &[&str], stop: f64, times: &[f64], n_events: usize) {
    let system = compiled_with_events(text);
    let mut options = options(stop, times);
    options.rtol = 1e-12;
    options.atol = 1e-14;
    let parameters = system.parameter_values(&[]).unwrap();
    let description = system.description();
    let positions: Vec<u32> = names.iter().map(|name| position(&description.parameters, name) as u32).collect();
    let directions: Vec<Direction> = positions
        .iter()
        .map(|&parameter| Direction::Parameters(parameter_direction(&system, &[], parameter).unwrap()))
        .collect();
    let result = simulate_with_sensitivities(&system, &parameters, inputs, &options, &directions).unwrap();
    assert_eq!(result.simulation.events.len(), n_events, "{:?}", result.simulation.events);
    let rows = |parameter: u32, value: f64| -> Vec<Vec<f64>> {
        let parameters = system.parameter_values(&[GivenParameter { parameter, value }]).unwrap();
        let mut tight = options.clone();
        tight.rtol = 1e-12;
        tight.atol = 1e-14;
        let simulation = simulate(&system, &parameters, inputs, &tight).unwrap();
        let row_at = |time: &f64| simulation.times.iter().position(|known| known == time).unwrap();
        times.iter().map(|time| simulation.rows[row_at(time)].clone()).collect()
    };
    for (direction, (&parameter, name)) in positions.iter().zip(names).enumerate() {
        let value = parameters[parameter as usize];
        let step = 1e-4 * value.abs();
        let (up, down) = (rows(parameter, value + step), rows(parameter, value - step));
        for row in 0..times.len() {
            for at in 0..description.observed.len() {
                let want = (up[row][at] - down[row][at]) / (2.0 * step);
                let got = result.sensitivities[row][direction][at];
                let size = want.abs().max((result.simulation.rows[row][at] / value).abs()).max(1e-2);
                assert!(
                    (got - want).abs() <= 2e-5 * size,
                    "d {} / d {name} at t = {}: {got} against {want}",
                    description.observed[at],
                    times[row]
                );
            }
        }
    }
}

/// A ball that bounces: heights in closed form, and their derivatives.
#[test]
fn derivatives_cross_the_bounces_of_a_ball() {
    let text = "model M parameter Real g=9.81, e=0.8, h0=1; Real h(start=h0, fixed=true), v(start=0, fixed=true);
        equation der(h) = v; der(v) = -g; when h <= 0 then reinit(v, -e*pre(v)); end when; end M;";
    let system = compiled_with_events(text);
    let height = |g: f64, e: f64, h0: f64, t: f64| {
        let (mut start, mut speed) = ((2.0 * h0 / g).sqrt(), e * (2.0 * g * h0).sqrt());
        if t < start {
            return h0 - 0.5 * g * t * t;
        }
        while t > start + 2.0 * speed / g {
            start += 2.0 * speed / g;
            speed *= e;
        }
        speed * (t - start) - 0.5 * g * (t - start).powi(2)
    };
    let times = [0.3, 0.9, 1.5, 2.1];
    let parameters = system.parameter_values(&[]).unwrap();
    let names = &system.description().parameters;
    let h = position(&system.description().observed, "h");
    let directions: Vec<Direction> = ["g", "e", "h0"]
        .iter()
        .map(|name| Direction::Parameters(parameter_direction(&system, &[], position(names, name) as u32).unwrap()))
        .collect();
    let result =
        simulate_with_sensitivities(&system, &parameters, &Nothing, &options(2.1, &times), &directions).unwrap();
    assert!(result.simulation.events.len() >= 3);
    for (row, &t) in times.iter().enumerate() {
        let at = [9.81, 0.8, 1.0];
        assert!((result.simulation.rows[row][h] - height(at[0], at[1], at[2], t)).abs() < 1e-7);
        for direction in 0..3 {
            let moved = |step: f64| {
                let mut at = at;
                at[direction] += step;
                height(at[0], at[1], at[2], t)
            };
            let want = (8.0 * (moved(1e-4) - moved(-1e-4)) - (moved(2e-4) - moved(-2e-4))) / 12e-4;
            let got = result.sensitivities[row][direction][h];
            assert!((got - want).abs() < 1e-6 * want.abs().max(1.0), "row {row}, direction {direction}: {got} {want}");
        }
    }
}

/// A rectifier with a diode of two slopes, a coil and a load: kinks only.
#[test]
fn derivatives_cross_the_switching_of_a_diode() {
    compare_across_events(
        "model M parameter Real R=10, C=0.01, L=0.05, A=10, w=20, Gon=2, Goff=0.01; Real i(start=0, fixed=true), u(start=0, fixed=true), d, q;
         equation L*der(i) = A*sin(w*time) - d - 0.5*i; i = (if d - u > 0.6 then Gon*(d - u - 0.6) else 0) + Goff*(d - u); q = (if d - u > 0.6 then Gon*(d - u - 0.6) else 0) + Goff*(d - u);
         C*der(u) = q - u/R; end M;",
        &["R", "C", "L", "A", "w", "Gon", "Goff"],
        0.5,
        &[0.1, 0.23, 0.37, 0.5],
        4,
    );
}

/// Rates that jump, a time that is a parameter, a border that is one, and a value of a state that is given anew.
#[test]
fn derivatives_cross_relations_times_and_new_values() {
    compare_across_events(
        "model M parameter Real p=0.5, T=0.7, k=2, c=0.3; Real x(start=1, fixed=true), y(start=0, fixed=true);
         equation der(x) = (if x > p then -k*x else -c) + (if time > T then 0.8 else 0); der(y) = x*y + (if y > 0.4 then 2 else 1);
         when time > 1.1*T then reinit(x, 2*p + pre(x)*y); end when; end M;",
        &["p", "T", "k", "c"],
        1.2,
        &[0.2, 0.5, 0.9, 1.2],
        4,
    );
}

/// A pendulum of index 3 that a wall throws back: its speed along the string is zero before and after.
#[test]
fn derivatives_cross_the_impact_of_a_pendulum_of_index_three() {
    compare_across_events(
        "model M parameter Real g=9.81, e=0.8, wall=0.1, L=1; Real x, y(start=-0.8), vx, vy, lambda;
         equation der(x) = vx; der(y) = vy; der(vx) = -lambda*x; der(vy) = -lambda*y - g; x^2 + y^2 = L^2;
         when x <= wall then reinit(vx, -e*pre(vx)); end when;
         initial equation x = 0.6; vx = 0; end M;",
        &["g", "e", "wall", "L"],
        1.0,
        &[0.3, 0.6, 1.0],
        2,
    );
}

/// At rest there is nothing to see for steps of a trajectory, but its change in the parameter oscillates: x' = v, v' =
/// -w^2 (x - p) at x = p has dx/dp = 1 - cos(w t).
#[test]
fn steps_follow_the_changes_too() {
    let text = "model M parameter Real p = 2; parameter Real w = 3; Real x(start=2, fixed=true); Real v(start=0, fixed=true); \
        equation der(x) = v; der(v) = -w^2*(x - p); end M;";
    let stiff = "model M parameter Real p = 2; Real x(start=2, fixed=true); Real z(start=0, fixed=true); Real v(start=0, fixed=true); \
        equation der(x) = v; der(v) = -9*(x - p); der(z) = -1e6*(z - v); end M;";
    for text in [text, stiff] {
        let system = compiled(text, "M", true);
        let parameters = system.parameter_values(&[]).unwrap();
        let parameter = position(&system.description().parameters, "p") as u32;
        let direction = Direction::Parameters(parameter_direction(&system, &[], parameter).unwrap());
        for rtol in [1e-4, 1e-6, 1e-8] {
            let options = SimulateOptions { rtol, atol: rtol, ..options(20.0, &[5.0, 20.0]) };
            let result =
                simulate_with_sensitivities(&system, &parameters, &Step, &options, std::slice::from_ref(&direction));
            let result = result.unwrap();
            let x = position(&system.description().observed, "x");
            for (time, sensitivities) in options.output_times.iter().zip(&result.sensitivities) {
                let exact = 1.0 - (3.0 * time).cos();
                let got = sensitivities[0][x];
                assert!((got - exact).abs() < 100.0 * rtol, "{got} instead of {exact} at {time}, {rtol:e}");
            }
        }
    }
}

/// A mass between a spring and a belt sticks and slips: with sin(t1) = vb/mu and t2 = t1 + mu cos(t1)/vb,
///
/// ```text
/// x = mu (1 - cos t)    until t1        x = mu (1 - cos t1) + vb (t - t1)    until t2        x = mu + vb sin(t - t2)
/// ```
///
/// The friction on the border is x. Of it, too, the derivatives are those of the closed form.
#[test]
fn derivatives_slide_along_the_border_of_a_relation() {
    let text = "model M parameter Real mu = 0.5, vb = 0.3; Real x(start=0, fixed=true), v(start=0, fixed=true), f; Boolean slow; \
        equation slow = v < vb; der(x) = v; f = if slow then mu else -mu; der(v) = f - x; end M;";
    let exact = |t: f64, mu: f64, vb: f64| {
        let t1 = (vb / mu).asin();
        let t2 = t1 + mu * t1.cos() / vb;
        let stuck = mu * (1.0 - t1.cos()) + vb * (t - t1);
        match t {
            _ if t < t1 => [mu * (1.0 - t.cos()), mu * t.sin(), mu],
            _ if t < t2 => [stuck, vb, stuck],
            _ => [mu + vb * (t - t2).sin(), vb * (t - t2).cos(), mu],
        }
    };
    let flat = daesy_model::flatten_text("model.mo", text, Some("M")).unwrap();
    let system = compile_with_events(condense(flat).unwrap()).unwrap();
    let description = system.description();
    let parameters = system.parameter_values(&[]).unwrap();
    let direction = |name: &str| {
        let parameter = position(&description.parameters, name) as u32;
        Direction::Parameters(parameter_direction(&system, &[], parameter).unwrap())
    };
    let times = [0.3, 0.8, 1.2, 1.9, 2.5, 4.0];
    let directions = [direction("mu"), direction("vb")];
    let result = simulate_with_sensitivities(&system, &parameters, &Step, &options(4.0, &times), &directions).unwrap();
    assert_eq!(result.simulation.slides.len(), 1);
    let h = 1e-5;
    for (row, &t) in times.iter().enumerate() {
        let derivatives = [
            std::array::from_fn::<_, 3, _>(|at| (exact(t, 0.5 + h, 0.3)[at] - exact(t, 0.5 - h, 0.3)[at]) / (2.0 * h)),
            std::array::from_fn(|at| (exact(t, 0.5, 0.3 + h)[at] - exact(t, 0.5, 0.3 - h)[at]) / (2.0 * h)),
        ];
        for (at, name) in ["x", "v", "f"].iter().enumerate() {
            let place = position(&description.observed, name);
            let value = result.simulation.rows[row][place];
            assert!((value - exact(t, 0.5, 0.3)[at]).abs() < 1e-7, "{name} at {t}: {value}");
            for (got, want) in result.sensitivities[row].iter().zip(&derivatives) {
                assert!((got[place] - want[at]).abs() < 1e-6, "{name} at {t}: {} against {}", got[place], want[at]);
            }
        }
    }
}

/// Borders that move with parameters, states and the time, on which an input jumps: against differences of simulations.
#[test]
fn derivatives_slide_along_borders_that_move() {
    let model = |border: &str| {
        format!(
            "model M parameter Real mu=0.8, a=0.1, b=0.3, k=1; input Real u; Real x(start=0, fixed=true), v(start=0, fixed=true), f;
             equation der(x) = v; f = if v < {border} then mu else -mu; der(v) = f - k*x + 0.05*u; end M;"
        )
    };
    for (border, n_events) in [("b + a*x*time", 2), ("b*exp(-a*x*time) - k*x^2", 1)] {
        let (names, times) = (["mu", "a", "b", "k"], [0.2, 0.6, 0.9, 1.3, 2.9]);
        compare_with_inputs(&model(border), &Step, &names, 2.9, &times, n_events);
    }
}
