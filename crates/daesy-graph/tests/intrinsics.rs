//! Lookups in tables as parts of expressions: values, and derivatives of any order, against differences.

use std::sync::Arc;

use daesy_graph::intrinsic::Intrinsic;
use daesy_graph::table::{Extrapolation, Matrix, Smoothness, TableCurve, TableSurface};
use daesy_graph::{Evaluator, Graph, Leaf, VarId, VariableKind};

fn curve(extrapolation: Extrapolation) -> Intrinsic {
    let entries = vec![0.0, 1.0, 1.0, 3.0, 2.5, -1.0, 4.0, 2.0];
    let table = Matrix { rows: 4, columns: 2, entries };
    let curve = TableCurve::new(&table, 1, Smoothness::Akima, extrapolation, false).unwrap();
    Intrinsic::Curve { curve: Arc::new(curve), order: 0 }
}

#[test]
fn the_derivative_of_a_lookup_is_exact() {
    // y = table(x^2), y' = table'(x^2) 2 x, and once more.
    let mut graph = Graph::default();
    let x = graph.var(VarId(0));
    let square = graph.mul(x, x);
    let y = graph.call_intrinsic(&curve(Extrapolation::Line), 0, &[square]);
    let first = graph.partial(y, Leaf::var(VarId(0)));
    let second = graph.partial(first, Leaf::var(VarId(0)));
    let mut evaluator = Evaluator::new();
    let mut at = |expr, x: f64| evaluator.evaluate_one(&graph, expr, &move |_: VarId, _: u16| x);
    for x in [0.3, 0.7, 1.2, 1.9, 2.4] {
        let h = 1e-5;
        let slope = (at(y, x + h) - at(y, x - h)) / (2.0 * h);
        let bend = (at(first, x + h) - at(first, x - h)) / (2.0 * h);
        assert!((at(first, x) - slope).abs() < 1e-7 * (1.0 + slope.abs()), "{x}: {} {slope}", at(first, x));
        assert!((at(second, x) - bend).abs() < 1e-6 * (1.0 + bend.abs()), "{x}: {} {bend}", at(second, x));
    }
}

#[test]
fn the_time_derivative_goes_through_a_surface() {
    // z = x y at the points of the grid: z' = y x' + x y'.
    let table = Matrix { rows: 3, columns: 3, entries: vec![0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 6.0] };
    let surface = TableSurface::new(&table, Smoothness::Linear, Extrapolation::Hold).unwrap();
    let mut graph = Graph::default();
    let (x, y) = (graph.var(VarId(0)), graph.var(VarId(1)));
    let intrinsic = Intrinsic::Surface { surface: Arc::new(surface), orders: [0, 0] };
    let z = graph.call_intrinsic(&intrinsic, 0, &[x, y]);
    let rate = graph.total_time_derivative(z, &|_| VariableKind::Continuous);
    let env = |var: VarId, order: u16| [[1.5, 10.0], [0.5, 100.0]][var.index()][usize::from(order)];
    assert_eq!(Evaluator::new().evaluate_one(&graph, z, &env), 0.75);
    assert_eq!(Evaluator::new().evaluate_one(&graph, rate, &env), 0.5 * 10.0 + 1.5 * 100.0);
}

#[test]
fn outside_of_a_table_that_is_not_extrapolated_there_is_no_value() {
    let mut graph = Graph::default();
    let x = graph.var(VarId(0));
    let y = graph.call_intrinsic(&curve(Extrapolation::Refuse), 0, &[x]);
    let error = Evaluator::new().evaluate_checked(&graph, y, &|_: VarId, _: u16| 9.0).unwrap_err();
    assert!(error.to_string().contains("outside of the table"), "{error}");
    let again = graph.call_intrinsic(&curve(Extrapolation::Refuse), 0, &[x]);
    assert_eq!(graph.functions().len(), 1, "equal tables are one function");
    assert_eq!(y, again);
}
