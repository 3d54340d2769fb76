//! Programs against the reference evaluator.

use daesy_graph::function::Statement;
use daesy_graph::{BinaryOp, Evaluator, ExprId, FileId, Function, FunctionId, Graph, Span, UnaryOp};

use super::Program;

fn function(n_inputs: u32, outputs: &[u32], n_locals: u32, body: Vec<Statement>) -> Function {
    Function { name: "f".into(), n_inputs, outputs: outputs.to_vec(), n_locals, body, span: Span::new(FileId(0), 0, 0) }
}

/// Asserts that program and evaluator give the same bits, or both none.
fn assert_same(graph: &Graph, id: FunctionId, arguments: &[f64]) -> bool {
    let program = Program::new(graph, id).unwrap();
    let mut ours = vec![0.0; graph.function(id).outputs.len()];
    let found = program.call(arguments, &mut ours);
    let reference = Evaluator::new().call_checked(graph, id, arguments);
    match (&found, &reference) {
        (Ok(()), Ok(values)) => {
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&ours), bits(values), "{arguments:?}");
        }
        (Err(_), Err(_)) => {}
        _ => panic!("{found:?} against {reference:?} at {arguments:?}"),
    }
    found.is_ok()
}

/// A random expression over three locals, an array of two and some parts that are used again and again.
fn random_expression(
    graph: &mut Graph,
    random: &mut fastrand::Rng,
    pool: &mut Vec<ExprId>,
    callee: FunctionId,
) -> ExprId {
    let pick = |random: &mut fastrand::Rng| pool[random.usize(..pool.len())];
    let (a, b, c) = (pick(random), pick(random), pick(random));
    let expr = match random.u8(0..10) {
        0 => graph.binary(BinaryOp::Add, a, b),
        1 => graph.binary(BinaryOp::Mul, a, b),
        2 => graph.binary(BinaryOp::Div, a, b),
        3 => graph.unary(UnaryOp::Sqrt, a),
        4 => graph.binary(BinaryOp::Less, a, b),
        5 => graph.binary(if random.bool() { BinaryOp::And } else { BinaryOp::Or }, a, b),
        6 => graph.call(callee, random.u16(0..2), &[a, b]),
        7 => {
            let index = graph.binary(BinaryOp::Less, a, b);
            let one = graph.number(1.0);
            let index = graph.binary(BinaryOp::Add, index, one);
            graph.local_at(1, 2, index)
        }
        _ => graph.select(a, b, c),
    };
    pool.push(expr);
    expr
}

#[test]
fn random_functions_have_the_values_of_the_reference_evaluator() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut n_found = 0;
    for _ in 0..300 {
        let mut graph = Graph::default();
        let (x, y) = (graph.local(0), graph.local(1));
        let product = graph.binary(BinaryOp::Mul, x, y);
        let difference = graph.binary(BinaryOp::Sub, x, y);
        let callee = graph.add_function(function(
            2,
            &[2, 3],
            4,
            vec![Statement::Assign { local: 2, value: product }, Statement::Assign { local: 3, value: difference }],
        ));
        let mut pool: Vec<ExprId> = (0..3).map(|local| graph.local(local)).collect();
        pool.extend([0.0, 0.5, 2.0].map(|value| graph.number(value)));
        for _ in 0..40 {
            random_expression(&mut graph, &mut random, &mut pool, callee);
        }
        let mut value = |graph: &mut Graph| random_expression(graph, &mut random, &mut pool, callee);
        let body = vec![
            Statement::Assign { local: 3, value: value(&mut graph) },
            Statement::If {
                condition: value(&mut graph),
                then: vec![Statement::Assign { local: 1, value: value(&mut graph) }],
                otherwise: vec![Statement::Assign { local: 2, value: value(&mut graph) }],
            },
            Statement::Assign { local: 0, value: value(&mut graph) },
        ];
        let id = graph.add_function(function(3, &[0, 1, 2, 3], 4, body));
        for _ in 0..5 {
            let arguments = [0; 3].map(|_| f64::from(random.i8(-4..4)) / 2.0);
            n_found += usize::from(assert_same(&graph, id, &arguments));
        }
    }
    assert!(n_found > 300, "only {n_found} runs had values");
}

#[test]
fn loops_with_breaks_and_recursion_have_the_values_of_the_reference_evaluator() {
    let mut graph = Graph::default();
    // n := 0; while true loop if x < 1 then break; x := x/2; n := n + 1
    let [x, n] = [0, 1].map(|local| graph.local(local));
    let [one, two] = [1.0, 2.0].map(|value| graph.number(value));
    let is_small = graph.binary(BinaryOp::Less, x, one);
    let half = graph.binary(BinaryOp::Div, x, two);
    let more = graph.binary(BinaryOp::Add, n, one);
    let inner = vec![
        Statement::If { condition: is_small, then: vec![Statement::Break], otherwise: Vec::new() },
        Statement::Assign { local: 0, value: half },
        Statement::Assign { local: 1, value: more },
    ];
    let halvings = graph.add_function(function(1, &[1], 2, vec![Statement::While { condition: one, body: inner }]));
    for x in [0.5, 1.0, 3.0, 1e300] {
        assert!(assert_same(&graph, halvings, &[x]));
    }
    // The factorial, which calls itself in the branch that is taken only.
    let own = FunctionId(graph.functions().len() as u32);
    let less = graph.binary(BinaryOp::Sub, x, one);
    let below = graph.call(own, 0, &[less]);
    let product = graph.binary(BinaryOp::Mul, x, below);
    let value = graph.select(is_small, one, product);
    let factorial = graph.add_function(function(1, &[1], 2, vec![Statement::Assign { local: 1, value }]));
    assert_eq!(factorial, own);
    assert!(assert_same(&graph, factorial, &[10.0]));
    assert!(!assert_same(&graph, factorial, &[1e6]));
}

#[test]
fn parts_that_branches_share_are_written_once() {
    let mut graph = Graph::default();
    let (x, zero) = (graph.local(0), graph.number(0.0));
    let mut value = x;
    for step in 1..200 {
        let bound = graph.number(f64::from(step) / 100.0);
        let condition = graph.binary(BinaryOp::Less, value, bound);
        let above = graph.binary(BinaryOp::Mul, value, bound);
        let below = graph.binary(BinaryOp::Add, value, bound);
        value = graph.select(condition, above, below);
    }
    let condition = graph.binary(BinaryOp::Less, x, zero);
    let value = graph.select(condition, zero, value);
    let id = graph.add_function(function(1, &[1], 2, vec![Statement::Assign { local: 1, value }]));
    let program = Program::new(&graph, id).unwrap();
    assert!(program.routines[0].code.len() < 4000, "{}", program.routines[0].code.len());
    for x in [-1.0, 0.0, 0.3, 5.0] {
        assert!(assert_same(&graph, id, &[x]));
    }
}
