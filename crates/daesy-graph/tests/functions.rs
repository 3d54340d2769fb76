//! User functions: interpretation, its limits, and tangents of loops, branches, arrays and recursion.

use daesy_graph::evaluate::{EvaluationError, Limits};
use daesy_graph::function::Statement;
use daesy_graph::{Environment, Evaluator, ExprId, Function, FunctionId, Graph, Leaf, Span, UnaryOp, VarId};

fn add(
    graph: &mut Graph,
    name: &str,
    n_inputs: u32,
    n_locals: u32,
    outputs: &[u32],
    body: Vec<Statement>,
) -> FunctionId {
    graph.add_function(Function {
        name: name.into(),
        n_inputs,
        outputs: outputs.to_vec(),
        n_locals,
        body,
        span: Span::NONE,
    })
}

fn assign(local: u32, value: ExprId) -> Statement {
    Statement::Assign { local, value }
}

struct At<'values>(&'values [f64]);

impl Environment for At<'_> {
    fn value(&self, var: VarId, _: u16) -> f64 {
        self.0[var.index()]
    }
}

/// The square root by Newton's method, with a while loop: inputs a; locals x, delta.
fn newton_root(g: &mut Graph) -> FunctionId {
    let (a, x, delta) = (g.local(0), g.local(1), g.local(2));
    let (half, one, tiny) = (g.number(0.5), g.number(1.0), g.number(1e-14));
    let quotient = g.div(a, x);
    let sum = g.add(x, quotient);
    let next = g.mul(half, sum);
    let difference = g.sub(next, x);
    let size = g.unary(UnaryOp::Abs, delta);
    let condition = g.greater(size, tiny);
    let body = vec![
        assign(1, a),
        assign(2, one),
        Statement::While { condition, body: vec![assign(2, difference), assign(1, next)] },
    ];
    add(g, "newtonRoot", 1, 3, &[1], body)
}

/// x^n by repeated multiplication, left by break; the value of a polynomial by powers with the loop counter as
/// exponent.
fn counting(g: &mut Graph) -> FunctionId {
    // inputs x, n; locals product (2), i (3), sum (4)
    let (x, n, product, i, sum) = (g.local(0), g.local(1), g.local(2), g.local(3), g.local(4));
    let one = g.number(1.0);
    let truth = g.truth(true);
    let times = g.mul(product, x);
    let more = g.add(i, one);
    let stop = g.greater_equal(i, n);
    let power = g.pow(x, i);
    let next_sum = g.add(sum, power);
    let body = vec![
        assign(2, one),
        Statement::While {
            condition: truth,
            body: vec![
                Statement::If { condition: stop, then: vec![Statement::Break], otherwise: vec![] },
                assign(2, times),
                assign(3, more),
                assign(4, next_sum),
            ],
        },
    ];
    add(g, "counting", 2, 5, &[2, 4], body)
}

#[test]
fn loops_are_run_and_differentiated() {
    let mut g = Graph::default();
    let root = newton_root(&mut g);
    let x = g.var(VarId(0));
    let call = g.call(root, 0, &[x]);
    let first = g.partial(call, Leaf::var(VarId(0)));
    let second = g.partial(first, Leaf::var(VarId(0)));
    let mut evaluator = Evaluator::new();
    // Not at 1, where the loop ends before the second derivative has settled.
    for value in [0.3, 0.9, 2.0, 17.0] {
        let at = [value];
        let mut of = |expr| evaluator.evaluate_checked(&g, expr, &At(&at)).unwrap();
        assert!((of(call) - value.sqrt()).abs() < 1e-13 * value.sqrt());
        let expected = 0.5 / value.sqrt();
        assert!((of(first) - expected).abs() < 1e-12 * expected, "{} and {expected}", of(first));
        let expected = -0.25 / (value * value.sqrt());
        assert!((of(second) - expected).abs() < 1e-10 * expected.abs(), "{} and {expected}", of(second));
    }
}

#[test]
fn a_loop_counter_has_no_derivative_and_brings_no_logarithm() {
    let mut g = Graph::default();
    let f = counting(&mut g);
    let (x, five) = (g.var(VarId(0)), g.number(5.0));
    let (power, sum) = (g.call(f, 0, &[x, five]), g.call(f, 1, &[x, five]));
    let rows = [power, sum];
    let jacobian = g.jacobian(&rows, &[Leaf::var(VarId(0))]);
    let mut evaluator = Evaluator::new();
    // Negative: the logarithm of x would show.
    let value = -1.5f64;
    let at = [value];
    let mut of = |expr| evaluator.evaluate_checked(&g, expr, &At(&at)).unwrap();
    assert!((of(power) - value.powi(5)).abs() < 1e-12);
    assert!((of(jacobian[0].value) - 5.0 * value.powi(4)).abs() < 1e-12);
    let expected: f64 = (1..=5).map(|k| f64::from(k) * value.powi(k - 1)).sum();
    assert!((of(jacobian[1].value) - expected).abs() < 1e-12);
}

#[test]
fn arrays_with_computed_indices_carry_their_derivatives() {
    // inputs x[3]; a[3] (3..6), i (6), s (7): reverses x into a, overwrites a[2] by a number, returns sum of a[i] * i.
    let mut g = Graph::default();
    let (i, s) = (g.local(6), g.local(7));
    let (one, three, four, nine) = (g.number(1.0), g.number(3.0), g.number(4.0), g.number(9.0));
    let more = g.add(i, one);
    let mirrored = g.sub(four, i);
    let element = g.local_at(0, 3, mirrored);
    let condition = g.less_equal(i, three);
    let two = g.number(2.0);
    let square = g.mul(element, element);
    let from_a = g.local_at(3, 3, i);
    let weighted = g.mul(from_a, i);
    let total = g.add(s, weighted);
    let body = vec![
        assign(6, one),
        Statement::While {
            condition,
            body: vec![Statement::AssignAt { base: 3, len: 3, index: i, value: square }, assign(6, more)],
        },
        Statement::AssignAt { base: 3, len: 3, index: two, value: nine },
        assign(6, one),
        Statement::While { condition, body: vec![assign(7, total), assign(6, more)] },
    ];
    let f = add(&mut g, "mirror", 3, 8, &[7], body);
    let vars: Vec<ExprId> = (0..3).map(|v| g.var(VarId(v))).collect();
    let call = g.call(f, 0, &vars);
    let leaves: Vec<Leaf> = (0..3).map(|v| Leaf::var(VarId(v))).collect();
    let gradient = g.gradient(call, &leaves);
    let mut evaluator = Evaluator::new();
    let at = [0.5, 7.0, 2.0];
    let mut of = |expr| evaluator.evaluate_checked(&g, expr, &At(&at)).unwrap();
    // a = (x3^2, 9, x1^2): sum = x3^2 + 18 + 3 x1^2
    assert_eq!(of(call), 4.0 + 18.0 + 0.75);
    let values: Vec<f64> = gradient.iter().map(|entry| of(entry.value)).collect();
    assert_eq!(values, [3.0, 0.0, 4.0]);
}

#[test]
fn recursion_runs_and_is_differentiated() {
    // f(x, n) = if n <= 0 then 1 else x * f(x, n - 1), by a single if-expression.
    let mut g = Graph::default();
    let f = add(&mut g, "power", 2, 3, &[2], vec![]);
    let (x, n) = (g.local(0), g.local(1));
    let (zero, one) = (g.number(0.0), g.number(1.0));
    let condition = g.less_equal(n, zero);
    let less = g.sub(n, one);
    let inner = g.call(f, 0, &[x, less]);
    let product = g.mul(x, inner);
    let value = g.select(condition, one, product);
    let mut function = g.function(f).clone();
    function.body = vec![assign(2, value)];
    g.set_function(f, function);

    let (var, ten) = (g.var(VarId(0)), g.number(10.0));
    let call = g.call(f, 0, &[var, ten]);
    let derivative = g.partial(call, Leaf::var(VarId(0)));
    let mut evaluator = Evaluator::new();
    let at = [1.1];
    let mut of = |expr| evaluator.evaluate_checked(&g, expr, &At(&at)).unwrap();
    assert!((of(call) - 1.1f64.powi(10)).abs() < 1e-12);
    assert!((of(derivative) - 10.0 * 1.1f64.powi(9)).abs() < 1e-11);
    let thousand = g.number(1000.0);
    let deep = g.call(f, 0, &[var, thousand]);
    let error = evaluator.evaluate_checked(&g, deep, &At(&at)).unwrap_err();
    assert_eq!(error, EvaluationError::CallDepth { function: "power".into(), limit: 200 });
    assert!(evaluator.evaluate_one(&g, deep, &At(&at)).is_nan());
}

#[test]
fn functions_call_functions() {
    // h(x) = newtonRoot(x)^2 + counting(newtonRoot(x), 3): derivative of x + x^(3/2)
    let mut g = Graph::default();
    let (root, count) = (newton_root(&mut g), counting(&mut g));
    let x = g.local(0);
    let (two, three) = (g.number(2.0), g.number(3.0));
    let r = g.call(root, 0, &[x]);
    let square = g.pow(r, two);
    let cube = g.call(count, 0, &[r, three]);
    let sum = g.add(square, cube);
    let h = add(&mut g, "h", 1, 2, &[1], vec![assign(1, sum), Statement::Return, assign(1, two)]);
    let var = g.var(VarId(0));
    let call = g.call(h, 0, &[var]);
    let derivative = g.total_time_derivative(call, &|_| daesy_graph::VariableKind::Continuous);
    let env = |_: VarId, order: u16| if order == 0 { 1.7 } else { 2.0 };
    let value = Evaluator::new().evaluate_checked(&g, derivative, &env).unwrap();
    let expected = 2.0 * (1.0 + 1.5 * 1.7f64.sqrt());
    assert!((value - expected).abs() < 1e-11, "{value} and {expected}");
}

#[test]
fn tangents_are_made_once() {
    let mut g = Graph::default();
    let root = newton_root(&mut g);
    let (x, y) = (g.var(VarId(0)), g.var(VarId(1)));
    let (a, b) = (g.call(root, 0, &[x]), g.call(root, 0, &[y]));
    let sum = g.add(a, b);
    let n = g.functions().len();
    let _ = g.gradient(sum, &[Leaf::var(VarId(0)), Leaf::var(VarId(1))]);
    assert_eq!(g.functions().len(), n + 1);
    let _ = g.partial(a, Leaf::var(VarId(0)));
    assert_eq!(g.functions().len(), n + 1);
}

#[test]
fn what_goes_wrong_in_a_function_is_named() {
    let mut g = Graph::default();
    let truth = g.truth(true);
    let endless = add(&mut g, "endless", 0, 1, &[0], vec![Statement::While { condition: truth, body: vec![] }]);
    let mut evaluator = Evaluator::new();
    evaluator.limits = Limits { steps: 1000, ..Limits::default() };
    let error = evaluator.call_checked(&g, endless, &[]).unwrap_err();
    assert_eq!(error, EvaluationError::StepLimit { function: "endless".into(), limit: 1000 });

    let (x, zero) = (g.local(0), g.number(0.0));
    let condition = g.greater(x, zero);
    let positive = add(&mut g, "positive", 1, 1, &[0], vec![Statement::Assert { condition, message: "x > 0".into() }]);
    assert_eq!(evaluator.call_checked(&g, positive, &[1.0]), Ok(vec![1.0]));
    let error = evaluator.call_checked(&g, positive, &[-1.0]).unwrap_err();
    assert_eq!(error.to_string(), "assertion in function positive: x > 0");

    let element = g.local_at(0, 1, x);
    let at = add(&mut g, "at", 1, 2, &[1], vec![assign(1, element)]);
    assert!(matches!(evaluator.call_checked(&g, at, &[2.0]), Err(EvaluationError::IndexOutOfRange { len: 1, .. })));
    assert!(matches!(evaluator.call_checked(&g, at, &[]), Err(EvaluationError::WrongCall { given: 0, .. })));

    let logarithm = g.unary(UnaryOp::Log, x);
    let log = add(&mut g, "log", 1, 2, &[1], vec![assign(1, logarithm)]);
    let error = evaluator.call_checked(&g, log, &[-2.0]).unwrap_err();
    assert_eq!(error, EvaluationError::OutsideDomain { function: "log", argument: -2.0, expr: logarithm });
}
