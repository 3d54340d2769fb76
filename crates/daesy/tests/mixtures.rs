//! Random mixtures of stiff, oscillating and slow parts beside each other, against their exact solutions at every row.

use std::fmt::Write as _;

use daesy_compile::compile_with_events;
use daesy_integrate::{Inputs, SimulateOptions, simulate};
use daesy_model::flatten::flatten_text;
use daesy_structure::regularize;
use daesy_system::DaeSystem;

struct NoInputs;

impl Inputs for NoInputs {
    fn fill(&self, _time: f64, _is_after: bool, _values: &mut [f64]) {}

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

type Solution = Box<dyn Fn(f64) -> f64>;

/// A model in parts that know nothing of each other, with the exact solution of each variable.
struct Mixture {
    text: String,
    exact: Vec<(String, Solution)>,
}

/// A number between two others whose logarithm is spread evenly.
fn spread(rng: &mut fastrand::Rng, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * rng.f64()).exp()
}

fn mixture(rng: &mut fastrand::Rng) -> Mixture {
    let (mut variables, mut equations) = (String::new(), String::new());
    let mut exact: Vec<(String, Solution)> = Vec::new();
    for at in 0..rng.usize(1..4) {
        // x follows a t + b sin(c t), from the start or after a fast decay.
        let rate = spread(rng, 1e2, 1e6);
        let (a, b, c) = (2.0 * rng.f64() - 1.0, if rng.bool() { rng.f64() } else { 0.0 }, 3.0 * rng.f64());
        let off = if rng.bool() { 0.0 } else { rng.f64() };
        let _ = writeln!(variables, "  Real x{at}(start = {off}, fixed = true);");
        let _ = writeln!(
            equations,
            "  der(x{at}) = {a} + {b}*{c}*cos({c}*time) + {rate}*({a}*time + {b}*sin({c}*time) - x{at});"
        );
        exact.push((format!("x{at}"), Box::new(move |t| a * t + b * (c * t).sin() + off * (-rate * t).exp())));
    }
    for at in 0..rng.usize(0..3) {
        let (frequency, size) = (spread(rng, 0.5, 100.0), spread(rng, 0.1, 10.0));
        let _ = writeln!(variables, "  Real p{at}(start = {size}, fixed = true), q{at}(start = 0, fixed = true);");
        let _ = writeln!(equations, "  der(p{at}) = {frequency}*q{at};\n  der(q{at}) = -{frequency}*p{at};");
        exact.push((format!("p{at}"), Box::new(move |t| size * (frequency * t).cos())));
        exact.push((format!("q{at}"), Box::new(move |t| -size * (frequency * t).sin())));
    }
    for at in 0..rng.usize(0..3) {
        let rate = spread(rng, 0.01, 3.0);
        let _ = writeln!(variables, "  Real s{at}(start = 1, fixed = true);");
        let _ = writeln!(equations, "  der(s{at}) = -{rate}*s{at};");
        exact.push((format!("s{at}"), Box::new(move |t| (-rate * t).exp())));
    }
    for at in 0..rng.usize(0..2) {
        // A mass that hardly changes and the pressure that follows from it, which changes by as much as it likes.
        let (mass, stiffness, pressure) = (spread(rng, 1.0, 100.0), spread(rng, 10.0, 1e5), spread(rng, 0.1, 10.0));
        let rate = 1.0 / spread(rng, 1e-3, 1.0);
        let flow = mass / stiffness * rate;
        let _ = writeln!(variables, "  Real m{at}, h{at}(start = 0, fixed = true, stateSelect = StateSelect.prefer);");
        let _ = writeln!(equations, "  der(m{at}) = {flow}*({pressure} - h{at});");
        let _ = writeln!(equations, "  m{at} = {mass}*(1 + h{at}/{stiffness});");
        exact.push((format!("h{at}"), Box::new(move |t| -pressure * (-rate * t).exp_m1())));
    }
    Mixture { text: format!("model M\n{variables}equation\n{equations}end M;\n"), exact }
}

/// Errors of all rows stay below so many times rtol and atol: steps add up their errors, and an oscillator never
/// forgets any.
const MULTIPLE: f64 = 20.0;

#[test]
fn no_row_of_a_mixture_is_off_by_more_than_twenty_tolerances() {
    let mut rng = fastrand::Rng::with_seed(20);
    for case in 0..500 {
        let Mixture { text, exact } = mixture(&mut rng);
        let rtol = [1e-4, 1e-6, 1e-6, 1e-8][case % 4];
        let system = compile_with_events(regularize(flatten_text("m.mo", &text, Some("M")).unwrap()).unwrap()).unwrap();
        let options = SimulateOptions {
            start: 0.0,
            stop: 1.0,
            output_times: (0..=97).map(|row| f64::from(row) / 97.0).collect(),
            rtol,
            atol: 1e-3 * rtol,
            max_steps: 100_000,
            ..SimulateOptions::default()
        };
        let run = simulate(&system, &[], &NoInputs, &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for (name, solution) in &exact {
            let column = system.description().observed.iter().position(|known| known == name).unwrap();
            let size = run.times.iter().fold(0.0f64, |size, &time| size.max(solution(time).abs()));
            let allowed = MULTIPLE * (rtol * size + options.atol);
            for (row, &time) in run.rows.iter().zip(&run.times) {
                let error = (row[column] - solution(time)).abs();
                assert!(error <= allowed, "{name} is off by {error:.2e} at t = {time}, rtol {rtol:.0e}\n{text}");
            }
        }
    }
}
