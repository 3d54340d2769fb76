//! Compiled models equal the reference evaluator: on random models every part, value by value, scalar and in lanes,
//! within a running bound on the rounding errors of its own operations.

use std::fmt::Write as _;

use daesy_compile::{CompiledSystem, compile};
use daesy_graph::scalar::{apply_binary, apply_unary, is_true};
use daesy_graph::{BinaryOp, ExprId, Graph, Leaf, Node, Reach, VarId};
use daesy_integrate::{Inputs, SimulateOptions, Simulation, simulate};
use daesy_model::flatten::flatten_text;
use daesy_structure::regularize;
use daesy_system::{DaeSystem, LanePoint, Part, Point};
use rustc_hash::FxHashMap;

/// A random expression in the given names that is defined everywhere.
fn expression(rng: &mut fastrand::Rng, names: &[String], depth: usize) -> String {
    if depth == 0 || rng.usize(..8) == 0 {
        return match rng.usize(..6) {
            0 => format!("({:.3})", 4.0 * rng.f64() - 2.0),
            1 => "time".to_owned(),
            _ => names[rng.usize(..names.len())].clone(),
        };
    }
    let mut below = || expression(rng, names, depth - 1);
    let (a, b) = (below(), below());
    match rng.usize(..22) {
        0 | 1 => format!("({a} + {b})"),
        2 | 3 => format!("({a} - {b})"),
        4..=6 => format!("{a}*{b}"),
        7 => format!("{a}/(2.5 + sin({b}))"),
        8 => format!("sin({a})"),
        9 => format!("cos({a} + {b})"),
        10 => format!("exp(-({a})^2)"),
        11 => format!("log(1.5 + ({a})^2)"),
        12 => format!("sqrt(1 + ({a})^2)"),
        13 => format!("tanh({a})*{b}"),
        14 => format!("atan({a} - {b})"),
        15 => format!("atan2({a}, 2 + cos({b}))"),
        16 => format!("max({a}, {b})"),
        17 => format!("abs({a})"),
        18 => format!("({a})^3"),
        19 => format!("(1.5 + sin({a}))^(0.5*sin({b}))"),
        20 => format!("(if {a} < {b} then {a}*{b} else {b} + 1)"),
        _ => format!("(-{a})"),
    }
}

/// A model with states, algebraic unknowns, aliases, a constraint with its multiplier, parameters and an input.
fn model(rng: &mut fastrand::Rng) -> String {
    let states: Vec<String> = (1..=3).map(|at| format!("x{at}")).collect();
    let known: Vec<String> = ["p1", "p2", "u"].map(str::to_owned).to_vec();
    let mut text =
        "model M\n  input Real u;\n  parameter Real p1 = 1.5, p2 = -0.25;\n  parameter Real p3 = p1*p2 + 1;\n"
            .to_owned();
    text.push_str("  Real x1, x2, x3, x4, multiplier, a1, a2, same, opposite;\nequation\n");
    let mut names: Vec<String> = states.iter().chain(&known).cloned().collect();
    names.extend(["p3", "same", "opposite"].map(str::to_owned));
    for algebraic in ["a1", "a2"] {
        let value = expression(rng, &names, 4);
        let _ = writeln!(text, "  {algebraic} = 0.1*sin({algebraic}) + {value};");
        names.push(algebraic.to_owned());
    }
    for state in &states {
        let _ = writeln!(text, "  der({state}) = {};", expression(rng, &names, 4));
    }
    let _ = writeln!(text, "  der(x4) = multiplier*(2 + sin(x1)) + {};", expression(rng, &names, 3));
    let constrained = ["x1", "x2", "u", "p1"].map(str::to_owned);
    let _ = writeln!(text, "  x4 = {};", expression(rng, &constrained, 3));
    text.push_str("  same = x1;\n  opposite + x2 = 0;\nend M;\n");
    text
}

/// A value and a bound on how far a computation with errors of a few units in the last place may be off.
#[derive(Clone, Copy)]
struct Bounded {
    value: f64,
    error: f64,
}

/// Units of rounding granted to each operation.
const UNITS: f64 = 4.0 * f64::EPSILON;

fn rounded(value: f64, spread: f64) -> Bounded {
    Bounded { value, error: UNITS * value.abs() + 1.1 * spread + f64::MIN_POSITIVE }
}

/// Evaluates an expression with a running error bound: the spread of an operation is its largest change when its
/// arguments move to the ends of their own bounds.
fn bounded(
    graph: &Graph,
    root: ExprId,
    leaf: &dyn Fn(Option<(VarId, u16)>) -> f64,
    memo: &mut FxHashMap<ExprId, Bounded>,
) -> Bounded {
    let below: Vec<ExprId> = Reach::new().below(graph, &[root]).to_vec();
    for expr in below {
        if memo.contains_key(&expr) {
            continue;
        }
        let of = |expr: ExprId| memo[&expr];
        let ends = |it: Bounded| [it.value - it.error, it.value + it.error];
        let result = match graph.node(expr) {
            Node::Number(bits) => Bounded { value: f64::from_bits(bits), error: 0.0 },
            Node::Time => Bounded { value: leaf(None), error: 0.0 },
            Node::Var { var, order } => Bounded { value: leaf(Some((var, order))), error: 0.0 },
            Node::Unary { op, arg } => {
                let arg = of(arg);
                let value = apply_unary(op, arg.value);
                let spread = ends(arg).map(|end| (apply_unary(op, end) - value).abs());
                rounded(value, spread[0].max(spread[1]))
            }
            Node::Binary { op, lhs, rhs } => {
                let (lhs, rhs) = (of(lhs), of(rhs));
                let value = apply_binary(op, lhs.value, rhs.value);
                let mut spread = 0.0f64;
                for a in ends(lhs) {
                    for b in ends(rhs) {
                        spread = spread.max((apply_binary(op, a, b) - value).abs());
                    }
                }
                let extra = if op == BinaryOp::Pow { UNITS * value.abs() } else { 0.0 };
                rounded(value, spread + extra)
            }
            Node::Select { condition, then, otherwise } => {
                if is_true(of(condition).value) {
                    of(then)
                } else {
                    of(otherwise)
                }
            }
            Node::Smooth { arg, .. } => of(arg),
            other => panic!("not made by this test: {other:?}"),
        };
        memo.insert(expr, result);
    }
    memo[&root]
}

/// Whether a condition below a root is so near its change that rounding decides it.
fn is_undecided(graph: &Graph, memo: &FxHashMap<ExprId, Bounded>) -> bool {
    memo.iter().any(|(&expr, _)| match graph.node(expr) {
        Node::Binary { op, lhs, rhs } if op.is_relation() => {
            let (lhs, rhs) = (memo[&lhs], memo[&rhs]);
            (lhs.value - rhs.value).abs() <= 4.0 * (lhs.error + rhs.error)
        }
        _ => false,
    })
}

/// The rows of a vector-valued part and the leaves that a derivative part differentiates by.
fn rows_of(system: &CompiledSystem, graph: &mut Graph, part: Part) -> Vec<ExprId> {
    let regular = system.regular();
    match part {
        Part::Residual => regular.equations.iter().map(|equation| equation.residual).collect(),
        Part::Constraint => regular.constraints.iter().map(|equation| equation.residual).collect(),
        Part::Observed => {
            let variables = &regular.flat.variables;
            let mut rows = Vec::new();
            for name in &system.description().observed {
                let inner = name.strip_prefix("der(").and_then(|rest| rest.strip_suffix(')'));
                let at = variables.iter().position(|variable| variable.name == *inner.unwrap_or(name)).unwrap();
                let eliminated = regular.eliminated.iter().find(|it| it.var.index() == at);
                let value = eliminated.map_or_else(|| graph.var(VarId(at as u32)), |it| it.value);
                rows.push(match inner {
                    Some(_) => graph.total_time_derivative(value, &|var| variables[var.index()].kind),
                    None => value,
                });
            }
            rows
        }
        other => panic!("{other:?} has no rows"),
    }
}

struct DerivativePart {
    part: Part,
    of: Part,
    by: fn(&CompiledSystem) -> Vec<Leaf>,
}

fn by_unknowns(system: &CompiledSystem) -> Vec<Leaf> {
    system.regular().unknowns.iter().map(|it| Leaf::der(it.var, it.order)).collect()
}

fn by_states(system: &CompiledSystem) -> Vec<Leaf> {
    system.regular().states.iter().map(|it| Leaf::der(it.var, it.order)).collect()
}

fn by_parameters(system: &CompiledSystem) -> Vec<Leaf> {
    system.regular().parameters.iter().map(|&var| Leaf::var(var)).collect()
}

fn by_inputs(system: &CompiledSystem) -> Vec<Leaf> {
    let inputs = system.regular().inputs.iter();
    inputs.flat_map(|input| (0..=input.derivatives_needed).map(|order| Leaf::der(input.var, order))).collect()
}

fn by_time(_: &CompiledSystem) -> Vec<Leaf> {
    vec![Leaf::Time]
}

const DERIVATIVES: [DerivativePart; 13] = [
    DerivativePart { part: Part::ResidualByUnknowns, of: Part::Residual, by: by_unknowns },
    DerivativePart { part: Part::ResidualByStates, of: Part::Residual, by: by_states },
    DerivativePart { part: Part::ResidualByTime, of: Part::Residual, by: by_time },
    DerivativePart { part: Part::ResidualByParameters, of: Part::Residual, by: by_parameters },
    DerivativePart { part: Part::ResidualByInputs, of: Part::Residual, by: by_inputs },
    DerivativePart { part: Part::ConstraintByStates, of: Part::Constraint, by: by_states },
    DerivativePart { part: Part::ConstraintByTime, of: Part::Constraint, by: by_time },
    DerivativePart { part: Part::ConstraintByParameters, of: Part::Constraint, by: by_parameters },
    DerivativePart { part: Part::ConstraintByInputs, of: Part::Constraint, by: by_inputs },
    DerivativePart { part: Part::ObservedByUnknowns, of: Part::Observed, by: by_unknowns },
    DerivativePart { part: Part::ObservedByStates, of: Part::Observed, by: by_states },
    DerivativePart { part: Part::ObservedByParameters, of: Part::Observed, by: by_parameters },
    DerivativePart { part: Part::ObservedByInputs, of: Part::Observed, by: by_inputs },
];

/// Random values of everything a point has.
struct Values {
    time: f64,
    states: Vec<f64>,
    unknowns: Vec<f64>,
    parameters: Vec<f64>,
    inputs: Vec<f64>,
}

impl Values {
    fn random(rng: &mut fastrand::Rng, system: &CompiledSystem) -> Self {
        let description = system.description();
        let mut some = |n: usize| -> Vec<f64> { (0..n).map(|_| 4.0 * rng.f64() - 2.0).collect() };
        Self {
            states: some(description.states.len()),
            unknowns: some(description.unknowns.len()),
            parameters: some(description.parameters.len()),
            inputs: some(description.n_inputs),
            time: some(1)[0],
        }
    }

    fn point(&self) -> Point<'_> {
        Point {
            time: self.time,
            states: &self.states,
            unknowns: &self.unknowns,
            parameters: &self.parameters,
            inputs: &self.inputs,
            modes: &[],
        }
    }

    fn leaves(&self, system: &CompiledSystem) -> FxHashMap<(VarId, u16), f64> {
        let regular = system.regular();
        let mut values = FxHashMap::default();
        for (derivative, &value) in
            regular.states.iter().chain(&regular.unknowns).zip(self.states.iter().chain(&self.unknowns))
        {
            values.insert((derivative.var, derivative.order), value);
        }
        values.extend(regular.parameters.iter().zip(&self.parameters).map(|(&var, &value)| ((var, 0), value)));
        for (input, place) in regular.inputs.iter().zip(&system.description().inputs) {
            for order in 0..=input.derivatives_needed {
                values.insert((input.var, order), self.inputs[place.start + usize::from(order)]);
            }
        }
        values
    }
}

/// What a part must be: its value at every place of its pattern.
fn expected(
    graph: &mut Graph,
    rows: &[ExprId],
    leaves: Option<&[Leaf]>,
    values: &Values,
    of_leaf: &FxHashMap<(VarId, u16), f64>,
) -> Option<FxHashMap<(usize, usize), Bounded>> {
    let leaf = |leaf: Option<(VarId, u16)>| leaf.map_or(values.time, |leaf| of_leaf[&leaf]);
    let mut memo = FxHashMap::default();
    let mut found = FxHashMap::default();
    for (row, &expr) in rows.iter().enumerate() {
        match leaves {
            None => {
                found.insert((row, 0), bounded(graph, expr, &leaf, &mut memo));
            }
            Some(leaves) => {
                for entry in graph.gradient(expr, leaves) {
                    found.insert((row, entry.column as usize), bounded(graph, entry.value, &leaf, &mut memo));
                }
            }
        }
    }
    (!is_undecided(graph, &memo)).then_some(found)
}

#[test]
fn compiled_parts_equal_the_reference_evaluator_on_random_models() {
    const N_LANES: usize = 5;
    let mut rng = fastrand::Rng::with_seed(0x5eed);
    let (mut n_compared, mut n_constrained) = (0usize, 0usize);
    for round in 0..60 {
        let text = model(&mut rng);
        let flat = flatten_text("random.mo", &text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let regular = regularize(flat).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let system = compile(regular).unwrap_or_else(|error| panic!("{error}\n{text}"));
        n_constrained += usize::from(!system.description().constraints.is_empty());
        let mut graph = system.regular().flat.graph.clone();
        let lanes: Vec<Values> = (0..N_LANES).map(|_| Values::random(&mut rng, &system)).collect();
        let shared_time = lanes[0].time;
        let lanes: Vec<Values> = lanes.into_iter().map(|values| Values { time: shared_time, ..values }).collect();
        let interleave = |group: fn(&Values) -> &Vec<f64>| -> Vec<f64> {
            let n = group(&lanes[0]).len();
            (0..n).flat_map(|at| lanes.iter().map(move |values| group(values)[at])).collect()
        };
        let (states, unknowns) = (interleave(|it| &it.states), interleave(|it| &it.unknowns));
        let (parameters, inputs) = (interleave(|it| &it.parameters), interleave(|it| &it.inputs));
        let lane_point = LanePoint {
            n_lanes: N_LANES,
            time: shared_time,
            states: &states,
            unknowns: &unknowns,
            parameters: &parameters,
            inputs: &inputs,
            modes: &[],
        };
        let mut evaluator = system.evaluator();
        let mut lane_evaluator = system.lane_evaluator(N_LANES);
        let vectors = [Part::Residual, Part::Constraint, Part::Observed].map(|part| (part, part, None));
        let matrices = DERIVATIVES.iter().map(|it| (it.part, it.of, Some((it.by)(&system))));
        for (part, of, leaves) in vectors.into_iter().chain(matrices) {
            let rows = rows_of(&system, &mut graph, of);
            let pattern = system.pattern(part);
            let mut in_lanes = vec![0.0; pattern.n_entries() * N_LANES];
            lane_evaluator.evaluate(part, &lane_point, &mut in_lanes);
            for (lane, values) in lanes.iter().enumerate() {
                let mut single = vec![0.0; pattern.n_entries()];
                evaluator.evaluate(part, &values.point(), &mut single);
                let of_leaf = values.leaves(&system);
                let Some(expected) = expected(&mut graph, &rows, leaves.as_deref(), values, &of_leaf) else { continue };
                assert_eq!(expected.len(), pattern.n_entries(), "{part:?} of\n{text}");
                for (entry, place) in pattern.entries().enumerate() {
                    let want = expected[&place];
                    for got in [single[entry], in_lanes[entry * N_LANES + lane]] {
                        assert!(
                            (got - want.value).abs() <= want.error,
                            "{part:?} {place:?}: {got:e} is not {:e} +- {:e} in round {round} of\n{text}",
                            want.value,
                            want.error
                        );
                    }
                    n_compared += 1;
                }
            }
        }
    }
    assert!(n_constrained >= 40 && n_compared > 15_000, "{n_constrained} {n_compared}");
}

fn point_at<'a>(states: &'a [f64], unknowns: &'a [f64], parameters: &'a [f64]) -> Point<'a> {
    Point { time: 0.5, states, unknowns, parameters, inputs: &[], modes: &[] }
}

/// Unknowns in closed form satisfy the equations at random points, in a double pendulum whose mass matrix turns with
/// it, and a system with a nonlinear block has none.
#[test]
fn unknowns_in_closed_form_satisfy_the_equations() {
    let text = "model M
  Real p(start = 0.3), q(start = -0.2), v, w, force;
equation
  der(p) = v;
  der(q) = w;
  2*der(v) + cos(p - q)*der(w) = -sin(p - q)*w^2 - 19.62*sin(p) + force;
  cos(p - q)*der(v) + der(w) = sin(p - q)*v^2 - 9.81*sin(q);
  force = -0.1*v*(1 + q^2);
end M;";
    let system = compile(regularize(flatten_text("m.mo", text, Some("M")).unwrap()).unwrap()).unwrap();
    let description = system.description();
    let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
    let parameters = system.parameter_values(&[]).unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut random = |n: usize| -> Vec<f64> { (0..n).map(|_| 4.0 * rng.f64() - 2.0).collect() };
    let (reference, elsewhere) = (random(n_states), random(n_unknowns));
    let mut closed =
        system.linear_unknowns(&point_at(&reference, &elsewhere, &parameters)).expect("all blocks are linear");
    let mut evaluator = system.evaluator();
    for _ in 0..50 {
        let states = random(n_states);
        let point = point_at(&states, &elsewhere, &parameters);
        let (mut unknowns, mut watched) = (vec![0.0; n_unknowns], vec![0.0; n_unknowns]);
        closed.solve(&point, &mut unknowns);
        let error = closed.solve_watched(&point, &mut watched);
        assert_eq!(unknowns, watched);
        assert!(error < 100.0, "{error}");
        let mut residual = vec![0.0; n_unknowns];
        evaluator.evaluate(Part::Residual, &point_at(&states, &unknowns, &parameters), &mut residual);
        assert!(residual.iter().all(|residual| residual.abs() < 1e-11 * error.max(1.0)), "{residual:?}");
    }
    // Rows and unknowns in odd units do no harm; a pivot that vanishes does, and is told.
    let text = "model P
  Real p(start = 1), v, w, z;
equation
  der(p) = 1;
  p*der(v) + 1e-4*der(w) = 1;
  1e-4*der(v) - p*der(w) + 1e-9*der(z) = 2;
  1e-4*der(v) + 1e3*der(z) = 3;
end P;";
    let system = compile(regularize(flatten_text("p.mo", text, Some("P")).unwrap()).unwrap()).unwrap();
    let names: Vec<&str> = system.description().states.iter().map(|state| state.name.as_str()).collect();
    let p = names.iter().position(|&name| name == "p").unwrap();
    let (mut states, elsewhere) = (vec![0.1; 4], vec![0.0; 4]);
    states[p] = 1.0;
    let mut closed = system.linear_unknowns(&point_at(&states, &elsewhere, &[])).unwrap();
    let mut evaluator = system.evaluator();
    let mut n_told = 0;
    for exponent in 0..300 {
        states[p] = 0.9f64.powi(exponent * 3);
        let (mut unknowns, mut residual) = (vec![0.0; 4], vec![0.0; 4]);
        let error = closed.solve_watched(&point_at(&states, &elsewhere, &[]), &mut unknowns);
        evaluator.evaluate(Part::Residual, &point_at(&states, &unknowns, &[]), &mut residual);
        let is_solved = residual.iter().all(|residual| residual.abs() < 1e-8);
        n_told += usize::from(error.is_nan() || error > 1e4);
        assert!(is_solved || error.is_nan() || error > 1e4, "{}: {error}, {residual:?}", states[p]);
        assert!(exponent > 10 || error < 100.0, "{}: {error}", states[p]);
    }
    assert!(n_told > 100, "{n_told}");
    let nonlinear = "model N Real x(start = 1), y; equation der(x) = -y; y + y^3 = x; end N;";
    let system = compile(regularize(flatten_text("n.mo", nonlinear, Some("N")).unwrap()).unwrap()).unwrap();
    assert!(system.linear_unknowns(&point_at(&[1.0], &[0.0, 0.0], &[])).is_none());
}

/// A force that changes with time, with as many derivatives as are asked for.
struct Force;

impl Inputs for Force {
    fn fill(&self, time: f64, _is_after: bool, values: &mut [f64]) {
        for (order, value) in values.iter_mut().enumerate() {
            *value = 1.3f64.powi(order as i32) * (1.3 * time + order as f64 * std::f64::consts::FRAC_PI_2).sin();
        }
    }
    fn breaks(&self) -> &[f64] {
        &[]
    }
}

/// A system that has been simulated often takes whole steps, projections and parts by programs and machine code: not a
/// bit of the trajectory may change by that.
#[test]
fn trajectories_do_not_depend_on_what_ran_before() {
    let text = "model M
  parameter Real m = 0.7, L = 1.2, g = 9.81, d = 0.1;
  input Real force;
  Real x(start = 0.4, fixed = true), y(start = -1.13), vx(start = 0), vy(start = 0), tension, phi(start = 0.2, fixed = true),
    w(start = 0, fixed = true);
equation
  der(x) = vx;
  der(y) = vy;
  m*der(vx) = -tension*x - d*vx + force;
  m*der(vy) = -tension*y - d*vy - m*g;
  x^2 + y^2 = L^2;
  der(phi) = w;
  (1 + 0.2*cos(phi))*der(w) + 0.3*der(vx) = -sin(phi)*exp(-0.1*w^2) + 0.1*sin(time);
end M;";
    let system = compile(regularize(flatten_text("m.mo", text, Some("M")).unwrap()).unwrap()).unwrap();
    let parameters = system.parameter_values(&[]).unwrap();
    let output_times: Vec<f64> = (0..=20).map(|at| 0.35 * f64::from(at)).collect();
    for rtol in [1e-4, 1e-9] {
        let options = SimulateOptions {
            start: 0.0,
            stop: 7.0,
            output_times: output_times.clone(),
            rtol,
            atol: rtol,
            max_steps: 10_000,
            ..SimulateOptions::default()
        };
        let runs: Vec<Simulation> = (0..6).map(|_| simulate(&system, &parameters, &Force, &options).unwrap()).collect();
        for run in &runs[1..] {
            assert_eq!((run.steps, run.rejected), (runs[0].steps, runs[0].rejected));
            assert_eq!(run.evaluations, runs[0].evaluations);
            for (row, first) in run.rows.iter().zip(&runs[0].rows) {
                let bits = |row: &[f64]| -> Vec<u64> { row.iter().map(|value| value.to_bits()).collect() };
                assert_eq!(bits(row), bits(first));
            }
        }
    }
}

/// A step back to the constraints satisfies them to first order, and no step that does so is shorter: it is a
/// combination of their gradients.
#[test]
fn steps_back_to_constraints_are_the_shortest() {
    let text = "model M
  parameter Real a = 1.5;
  Real x, y, z, vx, vy, vz, l1, l2;
equation
  der(x) = vx;
  der(y) = vy;
  der(z) = vz;
  der(vx) = 2*x*l1 + y*l2;
  der(vy) = 2*a*y*l1 + x*l2 - 1;
  der(vz) = 2*z*l1 + l2;
  x^2 + a*y^2 + z^2 = 4 + 0.1*time;
  x*y + z = 0.3;
end M;";
    let system = compile(regularize(flatten_text("m.mo", text, Some("M")).unwrap()).unwrap()).unwrap();
    let description = system.description();
    let (n, m) = (description.states.len(), description.constraints.len());
    assert_eq!((n, m), (9, 7));
    let parameters = system.parameter_values(&[]).unwrap();
    let mut rng = fastrand::Rng::with_seed(12);
    let mut program = system.constraint_step().expect("there are few constraints");
    let mut evaluator = system.evaluator();
    let pattern = system.pattern(Part::ConstraintByStates);
    let unknowns = vec![f64::NAN; description.unknowns.len()];
    for round in 0..60 {
        let states: Vec<f64> = (0..n).map(|_| 4.0 * rng.f64() - 2.0).collect();
        let mut weights: Vec<f64> = (0..n).map(|_| 0.1 + rng.f64()).collect();
        if round % 3 == 0 {
            // A state that is held.
            weights[rng.usize(..n)] = 0.0;
        }
        let point = point_at(&states, &unknowns, &parameters);
        let mut results = vec![0.0; n + 2 * m];
        program.run(&point, &weights, &mut results);
        let (mut g, mut entries) = (vec![0.0; m], vec![0.0; pattern.n_entries()]);
        evaluator.evaluate(Part::Constraint, &point, &mut g);
        evaluator.evaluate(Part::ConstraintByStates, &point, &mut entries);
        assert_eq!(results[n + m..], g);
        let mut jacobian = vec![vec![0.0; n]; m];
        for ((row, column), entry) in pattern.entries().zip(&entries) {
            jacobian[row][column] = entry * weights[column];
        }
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let step = &results[..n];
        for row in 0..m {
            let norm = dot(&jacobian[row], &jacobian[row]).sqrt();
            assert!((results[n + row] * norm - 1.0).abs() < 1e-12);
            let left = dot(&jacobian[row], step) + g[row];
            assert!(left.abs() < 1e-9 * (1.0 + g[row].abs()), "{round}: {left:e}");
        }
        // What is left of the step when its part along the gradients is taken away, by orthogonalization.
        let mut rest = step.to_vec();
        let mut basis: Vec<Vec<f64>> = Vec::new();
        for row in &jacobian {
            let mut direction = row.clone();
            for _ in 0..2 {
                for known in &basis {
                    let along = dot(&direction, known);
                    direction.iter_mut().zip(known).for_each(|(value, known)| *value -= along * known);
                }
            }
            let norm = dot(&direction, &direction).sqrt();
            basis.push(direction.iter().map(|value| value / norm).collect());
        }
        for known in &basis {
            let along = dot(&rest, known);
            rest.iter_mut().zip(known).for_each(|(value, known)| *value -= along * known);
        }
        let size = dot(step, step).sqrt();
        assert!(dot(&rest, &rest).sqrt() < 1e-9 * (1.0 + size), "{round}: {rest:?}");
    }
}
