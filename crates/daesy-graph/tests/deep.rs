//! Expressions a million nodes deep: nothing may depend on the size of the stack.

use daesy_graph::{Evaluator, ExprId, Graph, Leaf, Reach, UnaryOp, UnitChecker, VarId, VariableKind};

const DEPTH: u32 = 1_000_000;

/// `x, sin(x), sin(sin(x) + x), ..`
fn tower(graph: &mut Graph) -> ExprId {
    let x = graph.var(VarId(0));
    let mut expr = x;
    for at in 0..DEPTH {
        expr = if at % 2 == 0 { graph.unary(UnaryOp::Sin, expr) } else { graph.add(expr, x) };
    }
    expr
}

#[test]
fn a_tower_is_evaluated_and_differentiated() {
    let mut graph = Graph::default();
    let tower = tower(&mut graph);
    let env = |_: VarId, order: u16| if order == 0 { 0.1 } else { 1.0 };
    let mut evaluator = Evaluator::new();
    let value = evaluator.evaluate_one(&graph, tower, &env);
    assert_eq!(evaluator.evaluate_checked(&graph, tower, &env), Ok(value));
    let partial = graph.partial(tower, Leaf::var(VarId(0)));
    let total = graph.total_time_derivative(tower, &|_| VariableKind::Continuous);
    let gradient = graph.gradient(tower, &[Leaf::var(VarId(0))]);
    // The tower converges to y = sin(y) + x, where y' = 1 / (1 - cos(y)).
    let expected = 1.0 / (1.0 - value.cos());
    for derivative in [partial, total, gradient[0].value] {
        let value = evaluator.evaluate_one(&graph, derivative, &env);
        assert!((value - expected).abs() < 1e-9 * expected, "{value} and {expected}");
    }
    assert!(graph.linear_coefficients(tower, &[Leaf::var(VarId(0))]).is_err());
    let mut checker = UnitChecker::new();
    assert_eq!(checker.check(&graph, tower, tower, &|_| None), None);
}

#[test]
fn a_chain_of_differences_is_linear() {
    let mut graph = Graph::default();
    let mut chain = graph.var(VarId(0));
    for var in 1..DEPTH {
        let x = graph.var(VarId(var));
        chain = graph.sub(x, chain);
    }
    let form = graph.linear_coefficients(chain, &[Leaf::var(VarId(0)), Leaf::var(VarId(DEPTH - 1))]).unwrap();
    let signs: Vec<Option<f64>> = form.coefficients.iter().map(|entry| graph.as_number(entry.value)).collect();
    assert_eq!(signs, [Some(if DEPTH.is_multiple_of(2) { -1.0 } else { 1.0 }), Some(1.0)]);
    let mut leaves = Vec::new();
    Reach::new().leaves(&graph, &[form.remainder], &mut leaves);
    assert_eq!(leaves.len(), DEPTH as usize - 2);
}
