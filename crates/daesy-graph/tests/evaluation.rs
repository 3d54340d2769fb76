//! Checked evaluation: what is needed decides, and what fails is named.

use daesy_graph::evaluate::EvaluationError;
use daesy_graph::{BinaryOp, Environment, Evaluator, ExprId, Graph, Leaf, Node, UnaryOp, VarId};

/// x0 = value, at an event, half way along a homotopy.
struct Event {
    value: f64,
    weight: f64,
}

impl Environment for Event {
    fn value(&self, _: VarId, _: u16) -> f64 {
        self.value
    }

    fn time(&self) -> f64 {
        3.0
    }

    fn pre(&self, _: VarId) -> f64 {
        -7.0
    }

    fn is_initial(&self) -> bool {
        true
    }

    fn is_sample(&self, start: f64, interval: f64) -> bool {
        ((self.time() - start) / interval).fract() == 0.0
    }

    fn homotopy(&self) -> f64 {
        self.weight
    }
}

fn check(graph: &Graph, expr: ExprId, value: f64) -> Result<f64, EvaluationError> {
    Evaluator::new().evaluate_checked(graph, expr, &Event { value, weight: 1.0 })
}

#[test]
fn a_guarded_expression_is_no_error() {
    let mut g = Graph::default();
    let (x, zero, one) = (g.var(VarId(0)), g.number(0.0), g.number(1.0));
    let positive = g.greater(x, zero);
    let logarithm = g.unary(UnaryOp::Log, x);
    let guarded = g.select(positive, logarithm, zero);
    assert_eq!(check(&g, guarded, -1.0), Ok(0.0));
    assert_eq!(check(&g, guarded, 1.0), Ok(0.0));
    let large = g.greater(logarithm, one);
    let both = g.and(positive, large);
    assert_eq!(check(&g, both, -1.0), Ok(0.0));
    let unguarded = g.and(large, positive);
    let expected = EvaluationError::OutsideDomain { function: "log", argument: -1.0, expr: logarithm };
    assert_eq!(check(&g, unguarded, -1.0), Err(expected));
}

#[test]
fn what_fails_is_named() {
    let mut g = Graph::default();
    let (x, one) = (g.var(VarId(0)), g.number(1.0));
    let quotient = g.div(one, x);
    let sum = g.add(quotient, one);
    let error = check(&g, sum, 0.0).unwrap_err();
    assert_eq!(error, EvaluationError::DivisionByZero { expr: quotient });
    assert_eq!(error.expr(), Some(quotient));
    let modulo = g.binary(BinaryOp::Modulo, one, x);
    assert_eq!(check(&g, modulo, 0.0), Err(EvaluationError::DivisionByZero { expr: modulo }));
    let half = g.number(0.5);
    let power = g.pow(x, half);
    let expected = EvaluationError::PowerOutsideDomain { base: -4.0, exponent: 0.5, expr: power };
    assert_eq!(check(&g, power, -4.0), Err(expected));
    let exponential = g.unary(UnaryOp::Exp, x);
    assert_eq!(check(&g, exponential, 1000.0), Err(EvaluationError::Overflow { expr: exponential }));
    let expected = EvaluationError::NoValue { leaf: Some(Leaf::var(VarId(0))), expr: x };
    assert_eq!(check(&g, sum, f64::NAN), Err(expected));
    assert!(Evaluator::new().evaluate_one(&g, sum, &Event { value: 0.0, weight: 1.0 }).is_infinite());
}

#[test]
fn events_and_homotopy_come_from_the_environment() {
    let mut g = Graph::default();
    let (x, one, two) = (g.var(VarId(0)), g.number(1.0), g.number(2.0));
    let sample = g.sample(one, two);
    let pre = g.pre(VarId(0));
    let initial = g.intern(Node::Initial);
    let terminal = g.intern(Node::Terminal);
    let quotient = g.div(one, x);
    let homotopy = g.homotopy(quotient, two);
    let mut evaluator = Evaluator::new();
    let mut values = Vec::new();
    for (weight, expected) in [(1.0, 0.25), (0.0, 2.0), (0.5, 1.125)] {
        let event = Event { value: 4.0, weight };
        let roots = [sample, pre, initial, terminal, homotopy];
        evaluator.evaluate(&g, &roots, &event, &mut values);
        assert_eq!(values, [1.0, -7.0, 1.0, 0.0, expected]);
        for (&root, &value) in roots.iter().zip(&values) {
            assert_eq!(evaluator.evaluate_checked(&g, root, &event), Ok(value));
        }
    }
    // The simplified model needs nothing of the actual one.
    assert_eq!(evaluator.evaluate_checked(&g, homotopy, &Event { value: 0.0, weight: 0.0 }), Ok(2.0));
}
