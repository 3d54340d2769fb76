//! Properties of random expressions: simplification keeps values and domain, derivatives agree with differences.

mod random;

use daesy_graph::evaluate::EvaluationError;
use daesy_graph::{Environment, Evaluator, ExprId, Graph, Leaf, Node, Reach, Substitution, VarId, VariableKind};
use random::{Grower, Point};
use rustc_hash::FxHashSet;

const N_VARS: u32 = 4;

fn leaves() -> Vec<Leaf> {
    let mut leaves: Vec<Leaf> = (0..N_VARS).map(|var| Leaf::var(VarId(var))).collect();
    leaves.extend([Leaf::der(VarId(0), 1), Leaf::Time]);
    leaves
}

fn coordinate(point: &mut Point, leaf: Leaf) -> &mut f64 {
    match leaf {
        Leaf::Time => &mut point.time,
        Leaf::Var { var, order: 0 } => &mut point.values[var.index()],
        Leaf::Var { var, .. } => &mut point.rates[var.index()],
    }
}

/// Central difference of order six.
fn difference(h: f64, mut at: impl FnMut(f64) -> f64) -> f64 {
    let mut pair = |k: f64| at(k * h) - at(-k * h);
    (45.0 * pair(1.0) - 9.0 * pair(2.0) + pair(3.0)) / (60.0 * h)
}

/// A difference quotient that two step sizes agree on, with their distance.
fn trusted_difference(mut at: impl FnMut(f64) -> f64) -> Option<(f64, f64)> {
    let (coarse, fine) = (difference(2e-3, &mut at), difference(1e-3, &mut at));
    let distance = (coarse - fine).abs();
    (fine.is_finite() && distance <= 1e-7 * (1.0 + fine.abs())).then_some((fine, distance))
}

fn is_domain_error(error: &EvaluationError) -> bool {
    matches!(
        error,
        EvaluationError::DivisionByZero { .. }
            | EvaluationError::OutsideDomain { .. }
            | EvaluationError::PowerOutsideDomain { .. }
    )
}

#[test]
fn simplification_keeps_values_and_domain() {
    let mut evaluator = Evaluator::new();
    let (mut defined, mut undefined) = (0, 0);
    for seed in 0..400 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, seed, N_VARS);
        let pairs: Vec<_> = (0..60).map(|_| grower.grow(&mut graph)).collect();
        for _ in 0..4 {
            let point = Point::random(&mut grower.rng, N_VARS as usize);
            for pair in &pairs {
                let raw = evaluator.evaluate_checked(&graph, pair.raw, &point);
                let simple = evaluator.evaluate_checked(&graph, pair.simple, &point);
                match (&raw, &simple) {
                    (Ok(raw), Ok(simple)) => {
                        assert_eq!(raw, simple, "seed {seed}");
                        defined += 1;
                    }
                    (Err(error), Ok(_)) => assert!(!is_domain_error(error), "seed {seed}: {error} is gone"),
                    (Ok(_), Err(error)) => panic!("seed {seed}: {error} is new"),
                    (Err(_), Err(_)) => undefined += 1,
                }
            }
        }
    }
    assert!(defined > 20_000 && undefined > 5_000, "{defined} defined, {undefined} undefined");
}

#[test]
fn fast_and_checked_evaluation_agree() {
    let mut evaluator = Evaluator::new();
    for seed in 0..100 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, seed, N_VARS);
        let roots: Vec<ExprId> = (0..60).map(|_| grower.grow(&mut graph).raw).collect();
        let point = Point::random(&mut grower.rng, N_VARS as usize);
        let mut values = Vec::new();
        evaluator.evaluate(&graph, &roots, &point, &mut values);
        for (&root, &value) in roots.iter().zip(&values) {
            if let Ok(checked) = evaluator.evaluate_checked(&graph, root, &point) {
                assert_eq!(checked.to_bits(), value.to_bits());
            }
        }
    }
}

#[test]
fn partial_derivatives_agree_with_differences() {
    let mut evaluator = Evaluator::new();
    let mut compared = 0;
    for seed in 0..300 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 1000 + seed, N_VARS);
        let exprs: Vec<ExprId> = (0..40).map(|_| grower.grow(&mut graph).simple).collect();
        for (at, &expr) in exprs.iter().enumerate() {
            let leaf = leaves()[at % leaves().len()];
            let derivative = graph.partial(expr, leaf);
            let mut point = Point::random(&mut grower.rng, N_VARS as usize);
            let Ok(exact) = evaluator.evaluate_checked(&graph, derivative, &point) else { continue };
            let center = *coordinate(&mut point, leaf);
            let trusted = trusted_difference(|h| {
                *coordinate(&mut point, leaf) = center + h;
                evaluator.evaluate_one(&graph, expr, &point)
            });
            if let Some((approximate, distance)) = trusted {
                let tolerance = 1e-7 * (1.0 + approximate.abs()) + 10.0 * distance;
                assert!((exact - approximate).abs() <= tolerance, "seed {seed}, {at}: {exact} and {approximate}");
                compared += 1;
            }
        }
    }
    assert!(compared > 5_000, "{compared} compared");
}

#[test]
fn jacobians_agree_with_partial_derivatives() {
    let mut evaluator = Evaluator::new();
    let mut compared = 0;
    for seed in 0..150 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 2000 + seed, N_VARS);
        let rows: Vec<ExprId> = (0..40).map(|_| grower.grow(&mut graph).simple).collect();
        let leaves = leaves();
        let jacobian = graph.jacobian(&rows, &leaves);
        assert!(jacobian.is_sorted_by_key(|entry| (entry.row, entry.column)));
        let point = Point::random(&mut grower.rng, N_VARS as usize);
        let mut entries = jacobian.iter().peekable();
        for (row, &expr) in rows.iter().enumerate() {
            for (column, &leaf) in leaves.iter().enumerate() {
                let partial = graph.partial(expr, leaf);
                let exact = evaluator.evaluate_checked(&graph, partial, &point);
                let entry = entries.next_if(|e| (e.row, e.column) == (row as u32, column as u32));
                let entry = entry.map_or(Ok(0.0), |e| evaluator.evaluate_checked(&graph, e.value, &point));
                if let (Ok(exact), Ok(entry)) = (exact, entry) {
                    // Sums are gone through in another order.
                    let tolerance = 1e-9 * (1.0 + exact.abs());
                    assert!((exact - entry).abs() <= tolerance, "seed {seed}: {exact} and {entry}");
                    compared += 1;
                }
            }
        }
        assert!(entries.next().is_none());
    }
    assert!(compared > 15_000, "{compared} compared");
}

/// Variables that are polynomials of time, with all their derivatives.
struct Trajectory {
    time: f64,
    coefficients: Vec<[f64; 4]>,
}

impl Environment for Trajectory {
    fn value(&self, var: VarId, order: u16) -> f64 {
        let mut c = self.coefficients[var.index()];
        for _ in 0..order {
            c = [c[1], 2.0 * c[2], 3.0 * c[3], 0.0];
        }
        c.iter().rev().fold(0.0, |sum, c| sum * self.time + c)
    }

    fn time(&self) -> f64 {
        self.time
    }
}

#[test]
fn total_time_derivatives_agree_along_trajectories() {
    let mut evaluator = Evaluator::new();
    let mut compared = 0;
    let kind = |var: VarId| match var.0 {
        0 => VariableKind::Continuous,
        1 => VariableKind::Input,
        2 => VariableKind::Parameter,
        _ => VariableKind::Discrete,
    };
    for seed in 0..200 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 3000 + seed, N_VARS);
        let exprs: Vec<ExprId> = (0..40).map(|_| grower.grow(&mut graph).simple).collect();
        for &expr in &exprs {
            let mut number = || 2.0 * grower.rng.f64() - 0.5;
            let mut trajectory = Trajectory {
                time: 0.3,
                coefficients: (0..N_VARS)
                    .map(|var| match kind(VarId(var)) {
                        VariableKind::Parameter | VariableKind::Discrete => [number(), 0.0, 0.0, 0.0],
                        _ => [number(), number(), number(), number()],
                    })
                    .collect(),
            };
            let derivative = graph.total_time_derivative(expr, &kind);
            let Ok(exact) = evaluator.evaluate_checked(&graph, derivative, &trajectory) else { continue };
            let trusted = trusted_difference(|h| {
                trajectory.time = 0.3 + h;
                evaluator.evaluate_one(&graph, expr, &trajectory)
            });
            if let Some((approximate, distance)) = trusted {
                let tolerance = 1e-7 * (1.0 + approximate.abs()) + 10.0 * distance;
                assert!((exact - approximate).abs() <= tolerance, "seed {seed}: {exact} and {approximate}");
                compared += 1;
            }
        }
    }
    assert!(compared > 3_000, "{compared} compared");
}

#[test]
fn linear_forms_are_recovered_from_disguise() {
    let mut evaluator = Evaluator::new();
    let wanted = [Leaf::var(VarId(0)), Leaf::var(VarId(1))];
    for seed in 0..300 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 4000 + seed, N_VARS);
        // Coefficients: random expressions free of x0 and x1, that is with other leaves in their place.
        let replacement = graph.var(VarId(3));
        let mut substitution = Substitution::new();
        for leaf in wanted {
            substitution.replace_leaf(&mut graph, leaf, replacement);
        }
        for _ in 0..20 {
            grower.grow(&mut graph);
        }
        let free: Vec<ExprId> =
            grower.values[6..].iter().map(|pair| substitution.apply(&mut graph, pair.simple)).collect();
        let mut linear = vec![graph.var(VarId(0)), graph.var(VarId(1))];
        for _ in 0..12 {
            let rng = &mut grower.rng;
            let (a, b) = (linear[rng.usize(..linear.len())], linear[rng.usize(..linear.len())]);
            let c = free[rng.usize(..free.len())];
            let made = match rng.u8(..7) {
                0 => graph.add(a, b),
                1 => graph.sub(a, b),
                2 => graph.mul(a, c),
                3 => graph.div(a, c),
                4 => graph.neg(a),
                5 => graph.add(c, a),
                _ => {
                    let d = free[rng.usize(..free.len())];
                    let condition = graph.less(c, d);
                    graph.select(condition, a, b)
                }
            };
            linear.push(made);
        }
        let mut reach = Reach::new();
        for &expr in &linear {
            let form = graph.linear_coefficients(expr, &wanted).expect("linear by construction");
            let point = Point::random(&mut grower.rng, N_VARS as usize);
            let Ok(value) = evaluator.evaluate_checked(&graph, expr, &point) else { continue };
            let mut sum = evaluator.evaluate_one(&graph, form.remainder, &point);
            let mut size = 1.0 + value.abs();
            for entry in &form.coefficients {
                assert!(!reach.depends_on(&graph, entry.value, |leaf| wanted.contains(&leaf)));
                let term = evaluator.evaluate_one(&graph, entry.value, &point) * point.values[entry.column as usize];
                size += term.abs();
                sum += term;
            }
            assert!(!reach.depends_on(&graph, form.remainder, |leaf| wanted.contains(&leaf)));
            assert!((sum - value).abs() <= 1e-10 * size, "seed {seed}: {sum} and {value}");
        }
    }
}

#[test]
fn substitution_commutes_with_evaluation() {
    let mut evaluator = Evaluator::new();
    for seed in 0..100 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 5000 + seed, N_VARS);
        let exprs: Vec<ExprId> = (0..40).map(|_| grower.grow(&mut graph).simple).collect();
        let inner = exprs[5];
        let mut substitution = Substitution::new();
        substitution.replace_leaf(&mut graph, Leaf::var(VarId(1)), inner);
        let mut point = Point::random(&mut grower.rng, N_VARS as usize);
        let Ok(inner_value) = evaluator.evaluate_checked(&graph, inner, &point) else { continue };
        for &expr in &exprs {
            let replaced = substitution.apply(&mut graph, expr);
            let value = evaluator.evaluate_checked(&graph, replaced, &point);
            let before = std::mem::replace(&mut point.values[1], inner_value);
            let expected = evaluator.evaluate_checked(&graph, expr, &point);
            point.values[1] = before;
            if let Ok(expected) = expected {
                let value = value.expect("defined where the original is");
                assert_eq!(value, expected);
            }
        }
    }
}

#[test]
fn every_node_is_made_once_and_after_its_arguments() {
    for seed in 0..50 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 6000 + seed, N_VARS);
        let roots: Vec<ExprId> = (0..200)
            .flat_map(|_| {
                let pair = grower.grow(&mut graph);
                [pair.raw, pair.simple]
            })
            .collect();
        let mut seen: FxHashSet<Node> = FxHashSet::default();
        let mut reach = Reach::new();
        for &expr in reach.below(&graph, &roots) {
            assert!(seen.insert(graph.node(expr)), "made twice");
            assert_eq!(graph.find(&graph.node(expr)), Some(expr));
            graph.for_each_child(expr, |child| assert!(child < expr));
        }
        let size = graph.len();
        for &root in &roots {
            let node = graph.node(root);
            assert_eq!(graph.intern(node), root);
        }
        assert_eq!(graph.len(), size);
    }
}
