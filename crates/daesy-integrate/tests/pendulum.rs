//! The cartesian pendulum in its regular form, written by hand against the contract.

use daesy_integrate::{Inputs, SimulateOptions, simulate};
use daesy_system::{
    Block, DaeSystem, Description, EquationLabel, Evaluator, GivenParameter, LaneEvaluator, ParameterError, Part,
    Pattern, Persistence, Point, Quantity, Rate, StartOrigin,
};

const GRAVITY: f64 = 9.81;

/// States x, x', y, y'; unknowns x'', y'', lambda; length 1.
struct Pendulum {
    description: Description,
    patterns: Vec<(Part, Pattern)>,
}

fn pattern(n_cols: usize, rows: &[&[u32]]) -> Pattern {
    let mut pattern = Pattern { n_rows: rows.len(), n_cols, row_starts: vec![0], columns: Vec::new() };
    for row in rows {
        pattern.columns.extend_from_slice(row);
        pattern.row_starts.push(pattern.columns.len() as u32);
    }
    pattern
}

impl Pendulum {
    fn new() -> Self {
        let quantity = |name: &str, start: f64, start_origin| Quantity {
            name: name.into(),
            nominal: 1.0,
            start,
            start_origin,
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
            persistence: Persistence::Default,
        };
        let label = |text: &str| EquationLabel { text: text.into(), place: String::new(), differentiated: 0 };
        let description = Description {
            model: "Pendulum".into(),
            states: vec![
                quantity("x", 0.6, StartOrigin::Fixed),
                quantity("der(x)", 0.0, StartOrigin::Guess),
                quantity("y", -0.9, StartOrigin::Guess),
                quantity("der(y)", 0.0, StartOrigin::Default),
            ],
            rates: vec![Rate::State(1), Rate::Unknown(0), Rate::State(3), Rate::Unknown(1)],
            unknowns: vec![
                quantity("der(der(x))", 0.0, StartOrigin::Default),
                quantity("der(der(y))", 0.0, StartOrigin::Default),
                quantity("lambda", 0.0, StartOrigin::Default),
            ],
            blocks: vec![Block { start: 0, len: 3, is_linear: true }],
            residuals: vec![label("x''"), label("y''"), label("length''")].into(),
            constraints: vec![label("length"), label("length'")].into(),
            initial: vec![label("x = 0.6")],
            observed: ["x", "y", "vx", "vy", "lambda"].map(String::from).to_vec(),
            ..Description::default()
        };
        let patterns = vec![
            (Part::Residual, pattern(1, &[&[0], &[0], &[0]])),
            (Part::ResidualByUnknowns, pattern(3, &[&[0, 2], &[1, 2], &[0, 1]])),
            (Part::ResidualByStates, pattern(4, &[&[0], &[2], &[0, 1, 2, 3]])),
            (Part::Constraint, pattern(1, &[&[0], &[0]])),
            (Part::ConstraintByStates, pattern(4, &[&[0, 2], &[0, 1, 2, 3]])),
            (Part::Initial, pattern(1, &[&[0]])),
            (Part::InitialByStates, pattern(4, &[&[0]])),
            (Part::InitialByUnknowns, pattern(3, &[&[]])),
            (Part::Observed, pattern(1, &[&[0][..]; 5])),
        ];
        Self { description, patterns }
    }
}

struct Hand;

impl Evaluator for Hand {
    fn evaluate(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) {
        let [x, u, y, v] = *point.states else { panic!("four states") };
        let [ax, ay, lambda] = *point.unknowns else { panic!("three unknowns") };
        let result: Vec<f64> = match part {
            Part::Residual => {
                vec![ax + lambda * x, ay + lambda * y + GRAVITY, 2.0 * (x * ax + u * u + y * ay + v * v)]
            }
            Part::ResidualByUnknowns => vec![1.0, x, 1.0, y, 2.0 * x, 2.0 * y],
            Part::ResidualByStates => vec![lambda, lambda, 2.0 * ax, 4.0 * u, 2.0 * ay, 4.0 * v],
            Part::Constraint => vec![x * x + y * y - 1.0, 2.0 * (x * u + y * v)],
            Part::ConstraintByStates => vec![2.0 * x, 2.0 * y, 2.0 * u, 2.0 * x, 2.0 * v, 2.0 * y],
            Part::Initial => vec![x - 0.6],
            Part::InitialByStates => vec![1.0],
            Part::Observed => vec![x, y, u, v, lambda],
            _ => vec![],
        };
        values.copy_from_slice(&result);
    }
}

impl DaeSystem for Pendulum {
    fn description(&self) -> &Description {
        &self.description
    }

    fn pattern(&self, part: Part) -> &Pattern {
        &self.patterns.iter().find(|(known, _)| *known == part).expect("a part the integrator needs").1
    }

    fn evaluator(&self) -> Box<dyn Evaluator + '_> {
        Box::new(Hand)
    }

    fn lane_evaluator(&self, _n_lanes: usize) -> Box<dyn LaneEvaluator + '_> {
        unreachable!("one trajectory only")
    }

    fn parameter_values(&self, _given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError> {
        Ok(Vec::new())
    }
}

struct NoInputs;

impl Inputs for NoInputs {
    fn fill(&self, _time: f64, _is_after: bool, _values: &mut [f64]) {}

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

/// The angle equation phi'' = -g sin(phi) by a classical Runge-Kutta method with tiny steps: another formulation of the
/// same thing.
fn angle_reference(stop: f64) -> (f64, f64) {
    let n = 200_000;
    let h = stop / f64::from(n);
    let (mut phi, mut omega) = (0.6f64.asin(), 0.0);
    let f = |phi: f64| -GRAVITY * phi.sin();
    for _ in 0..n {
        let (k1, l1) = (omega, f(phi));
        let (k2, l2) = (omega + 0.5 * h * l1, f(phi + 0.5 * h * k1));
        let (k3, l3) = (omega + 0.5 * h * l2, f(phi + 0.5 * h * k2));
        let (k4, l4) = (omega + h * l3, f(phi + h * k3));
        phi += h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4);
        omega += h / 6.0 * (l1 + 2.0 * l2 + 2.0 * l3 + l4);
    }
    (phi.sin(), -phi.cos())
}

fn end_error(rtol: f64) -> f64 {
    let system = Pendulum::new();
    let options = SimulateOptions {
        start: 0.0,
        stop: 10.0,
        output_times: vec![0.0, 3.3, 10.0],
        rtol,
        atol: rtol,
        max_steps: 1_000_000,
        ..SimulateOptions::default()
    };
    let simulation = simulate(&system, &[], &NoInputs, &options).unwrap();
    assert_eq!(simulation.times, options.output_times);
    for row in &simulation.rows {
        assert!((row[0] * row[0] + row[1] * row[1] - 1.0).abs() < 1e-12, "position constraint");
        assert!((row[0] * row[2] + row[1] * row[3]).abs() < 1e-11, "velocity constraint");
        let energy = 0.5 * (row[2] * row[2] + row[3] * row[3]) + GRAVITY * (row[1] + 0.8);
        assert!(energy.abs() < 1e4 * rtol, "energy {energy} at {rtol}");
    }
    let (x, y) = angle_reference(10.0);
    let last = simulation.rows.last().unwrap();
    (last[0] - x).abs().max((last[1] - y).abs())
}

#[test]
fn the_pendulum_keeps_its_length_and_its_error_falls_with_the_tolerance() {
    let errors = [1e-4, 1e-6, 1e-8].map(end_error);
    assert!(errors[0] > 10.0 * errors[1] && errors[1] > 10.0 * errors[2], "{errors:?}");
    assert!(errors[2] < 1e-5, "{errors:?}");
}

#[test]
fn the_start_keeps_what_is_insisted_on_and_moves_the_rest() {
    let system = Pendulum::new();
    let start = daesy_integrate::initialize(&system, 0.0, &[], &[], &[], &Default::default()).unwrap();
    let expected = [0.6, 0.0, -0.8, 0.0];
    for (got, want) in start.states.iter().zip(expected) {
        assert!((got - want).abs() < 1e-9, "{:?}", start.states);
    }
    // At rest the rod carries the weight's component along it: lambda = -g y / length^2.
    assert!((start.unknowns[2] - 0.8 * GRAVITY).abs() < 1e-8, "{:?}", start.unknowns);
}
